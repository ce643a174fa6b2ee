r"""Formulas as LaTeX, `2 \, A^\top \, \left(A \, x - b\right)`, to be put between dollar signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from eindiff.core.nodes import Number
from eindiff.functions.elementwise import TABLE
from eindiff.text.write import plain
from eindiff.text.write.names import GREEK_SIGNS, split_name
from eindiff.text.write.plain import ATOM, POSTFIX, POWER, PRODUCT, SUMMED, Piece, PlainStyle
from eindiff.text.write.tree import Tree

_OPERATOR_NAMES = {
    "tr": r"\operatorname{tr}", "diag": r"\operatorname{diag}", "norm1": r"\operatorname{norm}_1",
    "norm2": r"\operatorname{norm}_2", "at_max": r"\mathbf{1}_{\arg\max}", "prod_except": r"\prod\nolimits_{\neq}",
}  # fmt: skip


def name_latex(text: str) -> str:
    r"""A name: Greek ones as letters, digits at the end and what follows an underscore as an index.

    >>> name_latex("x"), name_latex("x1"), name_latex("alpha_max"), name_latex("loss")
    ('x', 'x_{1}', '\\alpha_{\\mathrm{max}}', '\\mathit{loss}')
    """
    stem, below = split_name(text)
    if not stem:
        return rf"\mathit{{{text}}}".replace("_", r"\_")
    made = rf"\{stem}" if stem in GREEK_SIGNS else stem if len(stem) == 1 else rf"\mathit{{{stem}}}"
    if not below:
        return made
    below = below.replace("_", r"\_")
    short = len(below) == 1 or below.isdigit()
    return f"{made}_{{{below}}}" if short else rf"{made}_{{\mathrm{{{below}}}}}"


def number_latex(value: Number) -> str:
    r"""A number: `\frac{1}{2}`, `2.5 \cdot 10^{-7}`."""
    if isinstance(value, Fraction):
        made = rf"\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
        return "-" + made if value < 0 else made
    mantissa, _, exponent = repr(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa.replace("inf", r"\infty")


def size_latex(text: str) -> str:
    """A size or an index, which may be a product or a sum of names; `g[i]` is g with an index."""
    if found := re.fullmatch(r"(\w+)\[([\w,]+)\]", text):
        return f"{name_latex(found[1])}_{{{found[2].replace(',', '')}}}"
    return re.sub(r"[A-Za-z_]\w*", lambda m: m[0] if m[0] == "min" else name_latex(m[0]), text).replace("*", r" \, ")


_FENCES = {"‖": (r"\left\lVert ", r" \right\rVert"), "|": (r"\left\lvert ", r" \right\rvert")}
MOST_ROWS = 8  # of an array that is written as a table


@dataclass(frozen=True, slots=True)
class LatexStyle(PlainStyle):
    """LaTeX with the symbols of the trade.

    A formula is put together by a few methods (`fenced`, `below`, `above`, `fraction`, ...), the second half of the
    class: a style with these for another typesetter writes the same formulas there.
    """

    times: str = r" \, "
    by_entry: str = r" \odot "
    over: str = "/"
    over_by_entry: str = r" \oslash "
    minus: str = "-"
    equals: str = " &= "
    mark: str = r"\odot "  # before an exponent that is meant entry by entry
    top: str = r"\top"  # the exponent of a transpose
    inverse_top: str = r"-\top"
    identity: str = "I"
    entry_of_unit: str = r"\delta"
    one: str = "1"
    cross: str = r" \times "
    kronecker: str = r" \otimes "
    comma: str = ", "
    scripts: tuple[str, ...] = ("_", "^")  # what shows that there is an index or an exponent already

    def text(self, tree: Tree, needed: int = 0) -> str:
        made, tight = self.render(tree)
        return made if tight >= needed else self.fenced(made)

    def number(self, tree: Tree) -> Piece:
        loose = tree.data < 0 or "e" in repr(tree.data)
        return self.number_text(tree.data), PRODUCT if loose else ATOM if isinstance(tree.data, int | float) else POWER

    def array(self, tree: Tree) -> Piece:
        rows = tree.data
        if tree.order > 2 or len(rows) > MOST_ROWS or (tree.order == 2 and len(rows[0]) > MOST_ROWS):
            return self.long_array(rows), ATOM
        rows = rows if tree.order == 2 else [(entry,) for entry in rows]
        return self.table([[self.number_text(plain.whole_number(entry)) for entry in row] for row in rows]), ATOM

    def quotient(self, tree: Tree) -> Piece:
        top, bottom = tree.parts
        if tree.data:
            return PlainStyle.quotient(self, tree)
        if top.order == 0 or top.kind in ("name", "given", "number", "call"):
            return self.fraction(self.text(top), self.text(bottom)), POWER
        return self.reciprocal(self.text(bottom)) + self.times + self.text(top, PRODUCT), PRODUCT

    def power(self, tree: Tree) -> Piece:
        base = self.text(tree.parts[0], POSTFIX if tree.parts[0].kind == "entry" else ATOM)
        exponent = self.text(tree.parts[1]) if tree.data is None else self.number_text(tree.data)
        return self.above(base, (self.mark if tree.order else "") + exponent), POWER

    def transposed(self, tree: Tree) -> Piece:
        [inner] = tree.parts
        if inner.kind == "call" and inner.data == "inv":
            return self.above(self.text(inner.parts[0], ATOM), self.inverse_top), POSTFIX
        return self.above(self.text(inner, ATOM), self.top), POSTFIX

    def call(self, tree: Tree) -> Piece:
        args = [self.text(part) for part in tree.parts]
        match tree.data:
            case "norm2" | "norm1" if len(args) == 1:
                return self.norm(args[0], "1" if tree.data == "norm1" else ""), ATOM
            case "sqrt":
                return self.root(args[0]), ATOM
            case "abs" if tree.order == 0:
                return self.fenced(args[0], "|", "|"), ATOM
            case "greater":
                left, right = (self.text(part, POWER) for part in tree.parts)
                return self.compared(left, right), ATOM
            case "eye":
                return self.below(self.identity, args[0]), POSTFIX
            case "ones" | "zeros":
                return self.below(self.filled("1" if tree.data == "ones" else "0"), self.cross.join(args)), POSTFIX
            case "kron":
                return self.kronecker.join(self.text(part, POWER) for part in tree.parts), PRODUCT
        return self.function(tree, args)

    # Labels

    def einsum(self, tree: Tree) -> Piece:
        outer, factors, summed = plain.entries(tree)
        texts = []
        for part, labels in factors:
            index = self.letters(labels)
            texts.append(self.below(self.entry_of_unit, index) if part is None else self._entry(part, index))
        total = self.sum_over(summed) if summed else ""
        made = total + (self.times.join(texts) or self.one)
        return (self.below(self.fenced(made, "[", "]"), self.letters(outer)), POSTFIX) if outer else (made, SUMMED)

    def _entry(self, part: Tree, index: str) -> str:
        """An entry of a tensor; what has an index or an exponent already is put in brackets."""
        text, tight = self.render(part)
        if not index:
            return text
        bare = tight >= ATOM and part.kind in ("name", "given") and not any(sign in text for sign in self.scripts)
        return self.below(text if bare else self.fenced(text), index)

    def indices(self, labels: Sequence[Any]) -> str:
        """Labels and computed indices, apart from each other where they are long."""
        short = all(len(str(label)) == 1 for label in labels)
        return ("" if short else self.comma).join(self.size(str(label)) for label in labels)

    def entry(self, tree: Tree) -> Piece:
        return self._entry(tree.parts[0], self.indices(tree.data)), POSTFIX

    def delta(self, tree: Tree) -> Piece:
        return self.below(self.entry_of_unit, self.indices(tree.data)), POSTFIX

    def bigsum(self, tree: Tree) -> Piece:
        body, conditions = plain.where_summed(tree)
        labels = [label for label, _ in tree.data]
        if conditions:
            return self.sum_where(labels, conditions) + self.text(body, SUMMED), SUMMED
        return self.sum_over(labels, " ") + self.text(body, SUMMED), SUMMED

    def tensor(self, tree: Tree) -> Piece:
        inside = self.fenced(self.text(tree.parts[0]), "[", "]")
        return self.below(inside, self.letters([label for label, _ in tree.data])), POSTFIX

    def equation(self, name: str, labels: Sequence[tuple[str, Any]], text: str) -> str:
        below = "".join(letter for letter, _ in labels)
        if name:
            made = self.define(name)
            return (rf"\left({made}\right)_{{{below}}}" if below else made) + f" &= {text}"
        return text

    def equations(self, lines: list[str]) -> str:
        if len(lines) == 1:
            return lines[0]
        return r"\begin{aligned} " + r" \\ ".join([*lines[:-1], f"& {lines[-1]}"]) + r" \end{aligned}"

    # What LaTeX can do

    def define(self, name: str) -> str:
        return name_latex(name)

    def name(self, tree: Tree) -> Piece:
        if "=" in tree.data:
            return rf"\texttt{{{tree.data}}}", ATOM
        return (r"\ldots", ATOM) if tree.data == "…" else (size_latex(tree.data), ATOM)

    def number_text(self, value: Number) -> str:
        return number_latex(value)

    def fenced(self, inside: str, opening: str = "(", closing: str = ")") -> str:
        """In brackets, which grow with what is inside."""
        left, right = _FENCES.get(opening, (rf"\left{opening}", rf"\right{closing}"))
        return left + inside + right

    def below(self, base: str, index: str) -> str:
        """With an index."""
        return f"{base}_{{{index}}}"

    def above(self, base: str, exponent: str) -> str:
        """With an exponent."""
        return f"{base}^{exponent}" if exponent == self.top else f"{base}^{{{exponent}}}"

    def fraction(self, top: str, bottom: str) -> str:
        """Above and below a line."""
        return rf"\frac{{{top}}}{{{bottom}}}"

    def reciprocal(self, bottom: str) -> str:
        """One over something."""
        return self.fraction("1", bottom)

    def compared(self, left: str, right: str) -> str:
        """1 where one is above the other, else 0."""
        return self.fenced(f"{left} > {right}", "[", "]")

    def root(self, inside: str) -> str:
        """A square root."""
        return rf"\sqrt{{{inside}}}"

    def norm(self, inside: str, index: str = "") -> str:
        """A norm."""
        return self.fenced(inside, "‖", "‖") + (f"_{index}" if index else "")

    def filled(self, digit: str) -> str:
        """A tensor of ones or zeros, without its sizes."""
        return rf"\mathbf{{{digit}}}"

    def table(self, rows: Sequence[Sequence[str]]) -> str:
        """A matrix by its entries."""
        return r"\begin{bmatrix} " + r" \\ ".join(" & ".join(row) for row in rows) + r" \end{bmatrix}"

    def long_array(self, value: Any) -> str:
        """An array that is too large for a table."""
        return plain.short_array(value).replace("…", r"\ldots")

    def size(self, text: str) -> str:
        """A size, or an index that is computed."""
        return size_latex(text)

    def letters(self, labels: Sequence[str]) -> str:
        """Labels side by side."""
        return "".join(labels)

    def sum_over(self, labels: Sequence[str], between: str = "") -> str:
        """The sign of a sum."""
        return rf"\sum_{{{between.join(labels)}}} "

    def sum_where(self, labels: Sequence[str], conditions: Sequence[tuple[str, str]]) -> str:
        """The sign of a sum over those indices that belong to others."""
        said = self.comma.join(f"{self.size(a)} = {self.size(b)}" for a, b in conditions)
        return rf"\sum_{{{' '.join(labels)} :\, {said}}} "

    def indexing(self, tree: Tree) -> Piece:
        chosen = ", ".join(size_latex(entry) for entry in tree.data)
        return f"{self.text(tree.parts[0], ATOM)}_{{[{chosen}]}}", POSTFIX

    def function(self, tree: Tree, args: list[str]) -> Piece:
        """A function as its row of the table says: a name, or a format with places for the arguments."""
        row = TABLE.get(tree.data)
        form = row.latex if row is not None and row.latex else _OPERATOR_NAMES.get(tree.data, "")
        if "{}" in form:
            raised = form.startswith("{}^")
            tight = [self.text(part, ATOM if raised else POWER) for part in tree.parts]
            return form.format(*tight), POSTFIX if raised else PRODUCT
        head = form or rf"\operatorname{{{tree.data}}}"
        return rf"{head}\left({', '.join(args)}\right)", ATOM
