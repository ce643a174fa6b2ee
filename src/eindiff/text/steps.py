"""The derivation of a derivative, step by step, in words that a student can follow.

The steps come from the rewrite log: the rules that simplified the function while it was read, then for every order one
step for each intermediate value, with the theorem of the chain rule that gave it. Intermediate values get names,
`v1 = X*w`, so that each step shows both the rule in terms of these names, `v̄1 = v̄2 ⊙ sigmoid(v1)`, and what it comes
to, written out. `to_text` and `to_latex` write the steps down.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eindiff.calculus.chain_rule import pullback, pushforward, unit
from eindiff.calculus.derive import derivative, find_variable
from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Apply, Einsum, Expr, Map, Number, Variable, plain, topological, variables
from eindiff.core.rebuild import with_children
from eindiff.core.rewrite import RULES, Applied, rewrite_log
from eindiff.text.theorems import formulas
from eindiff.text.write.latex import name_latex
from eindiff.text.write.plain import SUBSCRIPTS
from eindiff.text.write.to_text import Equations
from eindiff.text.write.tree import number_text

_VALUE_NAMES = "vuzsq"
_FUNCTION_NAMES = "fgh"
_MANY = 40  # steps of a chapter from which on they are not also written out, but for the last
_TIDYING = {"simplify_index_maps", "trivial_power"}  # rules that students need not see

WHY = {
    "multiple": "`{node}` is a multiple of `{child}`: so are their derivatives.",
    "sum of entries": "`{node}` adds up entries of `{child}`: each of them counts once.",
    "Theorem 5": "`{node}` is a product: differentiate one factor at a time, keep the others, and add up.",
    "Theorem 6": "`{node}` is a function of a whole tensor: multiply the derivative of {function} by that of its "
    "argument.",
    "Theorem 7": "`{node}` is {function} of each entry: multiply by the derivative of {function}, entry by entry.",
    "pushforward of a sum": "`{node}` is a sum: add the derivatives of its terms.",
    "Theorem 8": "`{child}` is a factor of `{node}`: multiply by the other factors, and sum over the axes that "
    "`{child}` does not have.",
    "Theorem 9": "`{node}` is a function of the whole of `{child}`: multiply by the derivative of {function}.",
    "Theorem 10": "`{node}` is {function} of each entry of `{child}`: multiply by the derivative of {function}, entry "
    "by entry.",
    "pullback of a sum": "`{child}` is a term of `{node}`: the derivative passes on as it is.",
}  # names between backticks are written in the style asked for


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """One step: the rule or theorem, why it applies, and the equation that it gives.

    `before` is what the rule was applied to (for the chain rule: the node, and its child or the variable). The equation
    is `target = local = after`: `local` is in terms of names and may be missing; without a target it is
    `before = after`.
    """

    rule: str
    words: str
    before: Any
    after: Expr
    target: str = ""
    local: Expr | None = None
    subject: str = ""  # the function that a rewrite rule was about to apply


@dataclass(frozen=True, slots=True)
class Chapter:
    """The steps of one order. `by` are the variables of the derivatives so far; none for reading the function.

    `names` are what the names stand for, in the order of computing them.
    """

    title: str
    by: tuple[str, ...] = ()
    letter: str = ""  # that the names begin with
    names: list[DerivationStep] = field(default_factory=list)
    steps: list[DerivationStep] = field(default_factory=list)


def derivation(
    y: Expr,
    *xs: Expr | str,
    mode: str = "auto",
    symmetric: str = "projected",
    read: Sequence[Applied] = (),
) -> list[Chapter]:
    """How the derivative of y by each of xs in turn comes about. `read` is the log of making y, if it was kept.

    >>> import eindiff as ed
    >>> x = ed.vector("x", "n")
    >>> [step.rule for chapter in derivation(ed.sum(ed.exp(x)), x) for step in chapter.steps]
    ['Theorem 8, pullback of a multiplication', 'Theorem 10, pullback of an elementwise function']
    """
    seen: set[str] = set()
    chapters = []
    if first := _rules(read, seen):
        chapters.append(Chapter("The function, simplified", steps=first))
    by: tuple[str, ...] = ()
    result = y = plain(y)
    taken = [v.name for v in variables(y)]
    called = ""
    for x in xs:
        x = find_variable(y, x)
        by = (*by, x.name)
        with rewrite_log() as log:
            after = plain(derivative(result, x, mode=mode, symmetric=symmetric))
        names = _Names(result, x, log, [*taken, x.name], len(by) - 1)
        steps = _chain_rule(log, names, seen)
        steps += _ending(after, x, symmetric, names, steps[-1].after if steps else None)
        chapters.append(Chapter(_title(names, called), by, names.letter, names.definitions(), steps))
        result, called = after, f"d{names.function}/d{x.name}"
    return chapters


def _title(names: _Names, called: str) -> str:
    function = f"`{names.function}` = `{called}`" if called else f"`{names.function}`"
    x, v, stored = names.x.name, names.letter, names.mark(names.letter)
    title = f"Derivative of {function} by `{x}`"
    if names.of and names.forward:
        return f"{title}, forward: `{stored}` is the derivative of `{v}` by `{x}`"
    if names.of:
        return f"{title}, in reverse: `{stored}` is the derivative of `{names.function}` by `{v}`"
    return title


# Rewrite rules


def _rules(log: Sequence[Applied], seen: set[str]) -> list[DerivationStep]:
    """The rules of a log that were not seen before."""
    steps = []
    for entry in log:
        if entry.subject in ("pullback", "pushforward") or entry.rule in _TIDYING or str(entry) in seen:
            continue
        seen.add(str(entry))
        if isinstance(entry.after, Expr):
            title = entry.rule.replace("_", " ")
            steps.append(DerivationStep(title, _identity(entry), entry.before, entry.after, subject=entry.subject))
    return steps


def _identity(entry: Applied) -> str:
    """The identity that a rule states in its docstring; why applying it ends is of no interest here."""
    for rule in RULES.get(entry.subject, ()):
        if rule.__name__ == entry.rule:
            return " ".join((rule.__doc__ or "").split()).partition(". ")[0].rstrip(".") + "."
    return ""


# The chain rule


class _Names:
    """Names for the intermediate values between a function and a variable: v1, v2, ..., and f for the function."""

    def __init__(self, y: Expr, x: Variable, log: Sequence[Applied], taken: Sequence[str], order: int) -> None:
        self.x = x
        chain = [entry for entry in log if entry.subject in ("pullback", "pushforward")]
        self.forward = any(entry.subject == "pushforward" for entry in chain)
        # what is differentiated may have been put together anew; it is where the log begins or ends
        self.y = chain[-1 if self.forward else 0].before[0] if chain else y
        found = {entry.before[0] for entry in chain} | {e.before[1] for e in chain if not self.forward}
        self.letter = next((c for c in _VALUE_NAMES if not any(name.startswith(c) for name in taken)), "node")
        self.function = next((c for c in _FUNCTION_NAMES[order : order + 1] if c not in taken), f"F{order + 1}")
        inner = [node for node in topological([self.y]) if node in found and node not in (self.y, x)]
        self.of: dict[Expr, Variable] = {
            node: construct.variable(f"{self.letter}{k}", _plain(node.shape)) for k, node in enumerate(inner, 1)
        }

    def text(self, node: Expr) -> str:
        """The name of a node."""
        if node is self.y:
            return self.function
        return self.x.name if node is self.x else self.of[node].name if node in self.of else str(node)

    def short(self, node: Expr) -> Expr:
        """A node in terms of the names of its children."""
        return with_children(node, [self.of.get(child, child) for child in node.children], inline=False)

    def target(self, node: Expr) -> str:
        """The name of the derivative that a sweep stores at a node: `vbar1` of f by it, `vdot1` of it by x."""
        if (node is self.y and self.forward) or (node is self.x and not self.forward):
            return f"d{self.function}/d{self.x.name}"
        return self.mark(self.text(node))

    def mark(self, name: str) -> str:
        """`vbar1` or `vdot1` of `v1`."""
        return f"{self.letter}{'dot' if self.forward else 'bar'}{name.removeprefix(self.letter)}"

    def stored(self, node: Expr) -> Expr | None:
        """The derivative that a sweep stores at a node, by its name."""
        seed = self.x if self.forward else self.y
        if node is seed:
            return unit(seed)
        if node not in self.of:
            return None
        shape = node.shape + self.x.shape if self.forward else self.y.shape + node.shape
        return construct.variable(self.mark(self.of[node].name), _plain(shape))

    def definitions(self) -> list[DerivationStep]:
        """What the names stand for, in the order of computing them."""
        nodes = [*self.of, self.y]
        return [
            DerivationStep("name", "", (node,), node, self.text(node), self.short(node) if node.children else None)
            for node in nodes
        ]


def _plain(shape: tuple) -> tuple:
    """A shape for a variable that stands for a node: sizes like `m*n` get a name of their own."""
    return tuple(
        size if isinstance(size, int) or size.isidentifier() else "".join(c if c.isalnum() else "_" for c in f"s{size}")
        for size in shape
    )


def _chain_rule(log: Sequence[Applied], names: _Names, seen: set[str]) -> list[DerivationStep]:
    """One step for each value that a sweep stores, preceded by the rules that it needed."""
    grouped: dict[Expr, list[Applied]] = {}
    rules: dict[Expr, list[Applied]] = {}
    waiting: list[Applied] = []
    for entry in log:
        if entry.subject not in ("pullback", "pushforward"):
            waiting.append(entry)
            continue
        node = entry.before[0] if names.forward else entry.before[1]
        grouped.setdefault(node, []).append(entry)
        rules.setdefault(node, []).extend(waiting)
        waiting = []
    order = {node: k for k, node in enumerate(topological([names.y]))}
    steps = []
    for node in sorted(grouped, key=lambda n: order[n], reverse=not names.forward):
        steps += _rules(rules[node], seen)
        entries = grouped[node]
        titles = dict.fromkeys(entry.rule for entry in entries)
        words = dict.fromkeys(_words(entry, names) for entry in entries)
        after = construct.add([entry.after for entry in entries])
        local = _locally(node, [entry.before[0] for entry in entries], names)
        rule, why, target = "; ".join(titles), " ".join(words), names.target(node)
        steps.append(DerivationStep(rule, why, entries[0].before, after, target, local))
    return steps + _rules(waiting, seen)


def _words(entry: Applied, names: _Names) -> str:
    """Why a theorem applies."""
    node, child = entry.before
    function = node.function.name.replace("pow", "the power") if isinstance(node, Map | Apply) else ""
    key = entry.rule.partition(",")[0]
    if isinstance(node, Einsum) and len(node.operands) == 1:
        child = node.operands[0]
        if node.is_product and node.labels[0] == node.output:
            key = "multiple"
        elif not node.is_product:
            key = "sum of entries"
    return WHY[key].format(node=names.text(node), child=names.text(child), function=function)


def _locally(node: Expr, parents: Sequence[Expr], names: _Names) -> Expr | None:
    """A stored derivative in terms of the names of its neighbours; None where that is no shorter."""
    try:
        terms = _forward_terms(node, names) if names.forward else _reverse_terms(node, parents, names)
    except EindiffError:  # the sizes of a name that stands for something reshaped
        return None
    return construct.add(terms) if terms else None


def _reverse_terms(child: Expr, parents: Sequence[Expr], names: _Names) -> list[Expr]:
    terms = []
    wanted = names.of.get(child, child)
    for parent in dict.fromkeys(parents):
        short, bar = names.short(parent), names.stored(parent)
        if type(short) is not type(parent) or bar is None or bar.shape[bar.ndim - short.ndim :] != short.shape:
            return []
        for index, part in enumerate(short.children):
            if part is wanted and (term := pullback(short, bar, index)) is not None:
                terms.append(term)
    return terms


def _forward_terms(node: Expr, names: _Names) -> list[Expr]:
    short = names.short(node)
    dots: dict[Expr, Expr] = {}
    for child in node.children:
        if (dot := names.stored(child)) is not None:
            dots[names.of.get(child, child)] = dot
    if type(short) is not type(node) or any(child not in short.children for child in dots):
        return []
    return pushforward(short, dots, names.x.ndim)


def _ending(after: Expr, x: Variable, symmetric: str, names: _Names, last: Expr | None) -> list[DerivationStep]:
    """The convention for a symmetric variable, and the result where it is not yet what the chain rule gave."""
    target = f"d{names.function}/d{x.name}"
    if x.symmetries and last is not None:
        how = (
            "take the symmetric part, (D + D')/2 of the derivative D so far."
            if symmetric == "projected"
            else "entries off the diagonal move in pairs, so take D + D', and the diagonal once."
        )
        words = f"`{x.name}` is symmetric: {how}"
        return [DerivationStep(f"symmetric variable, {symmetric}", words, (x,), after, target)]
    if last is after:
        return []
    if construct.is_zero(after):
        words = f"`{names.function}` does not depend on `{x.name}`."
    elif names.y is x:
        words = f"`{names.function}` is `{x.name}` itself: its derivative by itself is the unit tensor."
    else:
        words = "Put together, with like terms merged."
    return [DerivationStep("result", words, (names.y, x), after, target)]


# Steps as text


def to_text(chapters: Sequence[Chapter], notation: str = "matrix", style: str = "plain") -> str:
    """Steps as text, numbered through, as `ed.steps` shows them. The style `latex` is that of `to_latex`."""
    if style == "latex":
        return to_latex(chapters, notation)
    lines: list[str] = []
    count, cited = 0, set[str]()
    for chapter in chapters:
        writer = Writer(notation, style, chapter.letter)
        lines += [""] if lines else []
        lines.append(writer.words(chapter.title))
        width = max((_width(writer.name(step.target)) for step in chapter.names), default=0)
        for step in chapter.names:
            name = writer.name(step.target)
            lines.append(f"  {name}{' ' * (width - _width(name))} = {writer.expr(shown(step))}")
        for step in chapter.steps:
            count += 1
            left, *right = writer.equation(step, chapter)
            indent = " " * len(f"  {count}. ")
            lines.append(f"  {count}. {step.rule}")
            lines += [indent + formula for formula in formulas(step.rule, style, cited)]
            lines += [indent + writer.words(step.words)] if step.words else []
            lines.append(f"{indent}{left} = {right[0]}")
            lines += [f"{indent}{' ' * _width(left)} = {more}" for more in right[1:]]
    return "\n".join(lines)


def to_latex(chapters: Sequence[Chapter], notation: str = "matrix") -> str:
    """Steps as LaTeX, to be put into a document that uses amsmath."""
    lines: list[str] = []
    count, cited = 0, set[str]()
    for chapter in chapters:
        writer = Writer(notation, "latex", chapter.letter)
        lines.append(rf"\paragraph{{{writer.words(chapter.title)}}}")
        if chapter.names:
            rows = [f"  {writer.name(step.target)} &= {writer.expr(shown(step))}" for step in chapter.names]
            lines += [r"\begin{align*}", " \\\\\n".join(rows), r"\end{align*}"]
        lines += [r"\begin{enumerate}", rf"\setcounter{{enumi}}{{{count}}}"]
        for step in chapter.steps:
            count += 1
            left, *right = writer.equation(step, chapter)
            words = f" {writer.words(step.words)}" if step.words else ""
            law = "".join(f" ${formula}$." for formula in formulas(step.rule, "latex", cited))
            lines += [rf"\item \textbf{{{_escaped(step.rule)}.}}{law}{words}", r"\begin{align*}"]
            lines += [f"  {left} &= " + " \\\\\n  &= ".join(right), r"\end{align*}"]
        lines.append(r"\end{enumerate}")
    return "\n".join(lines)


def as_data(chapters: Sequence[Chapter], notation: str = "matrix") -> list[dict[str, Any]]:
    """Steps for programs."""
    data = []
    for chapter in chapters:
        plain, latex = Writer(notation, "plain", chapter.letter), Writer(notation, "latex", chapter.letter)
        for step in [*chapter.names, *chapter.steps]:
            entry = {"rule": step.rule, "words": plain.words(step.words), "by": list(chapter.by)}
            data.append({**entry, "plain": plain.equation(step, chapter), "latex": latex.equation(step, chapter)})
    return data


def shown(step: DerivationStep) -> Expr:
    """What a step says that its target is: the local equation where there is one."""
    return step.after if step.local is None else step.local


def _width(text: str) -> int:
    """Columns on a terminal: marks above letters take none."""
    return sum(c not in "\u0304\u0307" for c in text)


def _escaped(text: str) -> str:
    """Text for LaTeX."""
    marks = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"}
    return "".join(marks.get(c, "\\" + c if c in "#$%&_{}" else c) for c in text)


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes expressions, names and words in one notation and style."""

    notation: str
    style: str
    letter: str

    def expr(self, expr: Expr) -> str:
        text = Equations.of(expr, self.notation, names=False).text(self.style)
        if self.style == "latex":
            return re.sub(rf"\\mathit\{{{self.letter}(bar|dot)\}}", rf"\\\1{{{self.letter}}}", text)
        return self.marked(text)

    def marked(self, text: str) -> str:
        """v̄₁ for vbar1, v̇₁ for vdot1, v₁ for v1 in the Unicode style."""
        if self.style != "unicode" or not self.letter:
            return text
        above = {"bar": "\u0304", "dot": "\u0307", None: ""}
        return re.sub(
            rf"\b{self.letter}(bar|dot)?(\d*)(?![0-9A-Za-z_])",
            lambda found: self.letter + above[found[1]] + found[2].translate(SUBSCRIPTS),
            text,
        )

    def name(self, name: str) -> str:
        """A name, or a derivative `df/dx`."""
        if found := re.fullmatch(r"d(\w+)/d(\w+)", name):
            if self.style == "latex":
                return rf"\frac{{\partial {name_latex(found[1])}}}{{\partial {name_latex(found[2])}}}"
            return f"∂{found[1]}/∂{found[2]}" if self.style == "unicode" else name
        if self.style == "latex":
            if found := re.fullmatch(rf"{self.letter}(bar|dot)(\d*)", name):
                return rf"\{found[1]}{{{self.letter}}}" + (f"_{{{found[2]}}}" if found[2] else "")
            return name_latex(name)
        return self.marked(name)

    def words(self, text: str) -> str:
        """Words with names in backticks."""
        pieces = text.split("`")
        if self.style == "latex":
            return "".join(f"${self.name(p)}$" if k % 2 else _escaped(p) for k, p in enumerate(pieces))
        return "".join(self.name(p) if k % 2 else p for k, p in enumerate(pieces))

    def equation(self, step: DerivationStep, chapter: Chapter) -> list[str]:
        """The sides of the equation that a step gives, none twice."""
        if not step.target:
            return [self.before(step), self.expr(step.after)]
        short = len(chapter.steps) > _MANY and step is not chapter.steps[-1] and step.local is not None
        right = [self.expr(part) for part in (step.local, None if short else step.after) if part is not None]
        return [self.name(step.target), *dict.fromkeys(right)]

    def before(self, step: DerivationStep) -> str:
        """What a rewrite rule was about to make: it does not exist as an expression, but its parts do."""
        if step.subject == "add":
            return self.added([(number, self.expr(term)) for term, number in step.before[0].items()])
        texts = [self.expr(part) for part in step.before if isinstance(part, Expr)]
        if step.subject == "einsum":
            return texts[0]
        return self.raised(texts[0], step.before[0]) if step.subject == "pow" else self.called(step.subject, texts)

    def added(self, terms: list[tuple[Number, str]]) -> str:
        """A sum of multiples."""
        pairs = [f"{number_text(number)}*{text}" for number, text in terms]
        return " + ".join(pairs).replace("+ -", "- ").replace("1*", "")

    def raised(self, base: str, exponent: Number) -> str:
        """A power."""
        power = number_text(exponent)
        return rf"\left({base}\right)^{{{power}}}" if self.style == "latex" else f"({base})^({power})"

    def called(self, function: str, args: list[str]) -> str:
        """A function of arguments."""
        if self.style == "latex":
            return rf"\operatorname{{{function}}}\left({', '.join(args)}\right)"
        return f"{function}({', '.join(args)})"
