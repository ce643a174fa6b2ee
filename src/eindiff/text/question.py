"""Derivatives of an expression that is given as text: what is asked about it, and what is found.

A `Question` is the options of the command line. Its `Answer` has the function that the text stands for, and a `Block`
for each derivative that is asked for: of a function of x and y and order 2 these are `∂²f/∂x²`, `∂²f/∂x∂y` and
`∂²f/∂y²`. The command line, the prompt and the page all show answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import combinations_with_replacement, groupby

import numpy as np

from eindiff.calculus.derive import MODES, derivative
from eindiff.core.construct import is_zero
from eindiff.core.derivation import origins
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.core.rewrite import Applied, rewrite_log
from eindiff.program import check as numeric
from eindiff.program.check import Check
from eindiff.program.interpreter import evaluate
from eindiff.text.graph import save
from eindiff.text.layouts import LAYOUTS, LaidOut, arrange, changes, describe
from eindiff.text.read.declarations import Declaration, declared
from eindiff.text.read.parse import reading
from eindiff.text.read.reading import Reading
from eindiff.text.read.source import Source
from eindiff.text.steps import Chapter, derivation
from eindiff.text.write.plain import SUPERSCRIPTS
from eindiff.text.write.to_text import KRONECKER, NOTATIONS, STYLES

KIND_OF_ORDER = {0: "scalar", 1: "vector", 2: "matrix"}  # of variables, by their order; the rest are tensors
CHOICES = {
    "notation": (*NOTATIONS, KRONECKER, "latex"),
    "style": ("auto", *STYLES),
    "mode": MODES,
    "layout": LAYOUTS,
    "symmetric": ("projected", "free"),
    "code": ("numpy", "jax", "torch", "tensorflow", "cupy"),
}


_TYPICAL = 100  # size of axes for which programs are made


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every expression: the options, which the prompt can change."""

    variables: tuple[str, ...] = ()
    declare: str = ""
    order: int | None = None
    notation: str = "matrix"
    style: str = "auto"
    mode: str = "auto"
    layout: str = "mixed"
    symmetric: str = "projected"
    steps: bool = False
    code: str | None = None
    check: bool = False
    graph: str | None = None
    json: bool = False
    width: int | None = None  # of lines; None: that of the terminal

    @property
    def tree_notation(self) -> str:
        """The notation without its style: LaTeX is matrix notation in another one."""
        return "matrix" if self.notation == "latex" else self.notation

    @property
    def steps_notation(self) -> str:
        """The notation of the steps, in which a tensor stays a tensor."""
        return "matrix" if self.notation == KRONECKER else self.tree_notation

    def derivative(self, function: Expr, by: Sequence[Variable]) -> Expr:
        """The derivative in the mode and with the convention asked for."""
        return derivative(function, *by, mode=self.mode, symmetric=self.symmetric)


@dataclass(slots=True)
class Block:
    """One derivative: by which variables, as it is made (in the mixed layout), and in the layout asked for."""

    by: tuple[Variable, ...]
    mixed: Expr
    arranged: LaidOut

    @property
    def key(self) -> str:
        """As the variables are given: `x` or `x,y`."""
        return ",".join(x.name for x in self.by)

    @property
    def powers(self) -> list[tuple[str, int]]:
        """The names of the variables, and how often each is differentiated by in a row."""
        return [(name, len(list(group))) for name, group in groupby(x.name for x in self.by)]

    def label(self, style: str, function: str = "f") -> str:
        """`∂²f/∂x∂y`."""
        if not self.by:
            return function
        d = "∂" if style == "unicode" else "d"

        def power(k: int) -> str:
            return "" if k == 1 else str(k).translate(SUPERSCRIPTS) if style == "unicode" else f"^{k}"

        return f"{d}{power(len(self.by))}{function}/" + "".join(f"{d}{name}{power(k)}" for name, k in self.powers)


@dataclass(slots=True)
class Answer:
    """What is found for one expression."""

    text: str
    question: Question
    reading: Reading
    declared: Mapping[str, Declaration]
    log: Sequence[Applied]  # of reading the text
    blocks: list[Block] = field(default_factory=list)
    chapters: list[Chapter] = field(default_factory=list)
    check: Check | None = None
    code: str = ""

    @property
    def function(self) -> Expr:
        """What the text stands for."""
        return self.reading.expression

    def how(self, name: str) -> str:
        """What said what a name is: `declared`, `use` or `name`."""
        return next((found.how for found in self.reading.names if found.name == name), "declared")

    @property
    def by(self) -> list[Variable]:
        """The variables that are differentiated by."""
        return list(dict.fromkeys(x for block in self.blocks for x in block.by))

    @property
    def variables(self) -> list[Variable]:
        """The variables of the function, and those that it is differentiated by, in the order of their names."""
        found = {v.name: v for v in [*variables(self.function), *self.by]}
        return [found[name] for name in sorted(found)]

    @property
    def name(self) -> str:
        """What the function is called: `f`, unless a variable is."""
        taken = {v.name for v in self.variables} | set(self.declared)
        return next(c for c in ("f", "F", "g", "G", "h", "function", "value_of_f", "f_") if c not in taken)

    @property
    def layout(self) -> str:
        """The order of the axes in words; empty if nothing is differentiated."""
        by = [x.name for x in self.blocks[0].by] if len(self.blocks) == 1 else ["each variable"]
        return describe(self.question.layout, self.name if self.function.ndim else "", by) if self.by else ""

    @property
    def has_symmetric(self) -> bool:
        """Whether a variable that is differentiated by is symmetric, so that the convention for these matters."""
        return any(x.symmetries for x in self.by)


def answer(text: str, question: Question) -> Answer:
    """Read an expression and find what is asked of it. Bad input is an EindiffError."""
    try:
        known = declared(question.declare)
    except EindiffError as error:
        raise EindiffError(f"in the declarations: {error}", "names") from None
    result = read(text, known, question)
    derive(result)
    if question.steps:
        result.chapters = chapters_of(result)
    if question.check:
        result.check = checked(result)
    if question.code:
        result.code = _code(result)
    if question.graph:
        save({block.label("unicode"): block.arranged.expr for block in result.blocks}, question.graph)
    return result


def read(text: str, known: Mapping[str, Declaration], question: Question) -> Answer:
    """The answer as far as reading the text gives it."""
    with rewrite_log() as log:
        found = reading(text, known)
    return Answer(text, question, found, known, log)


def derive(result: Answer) -> None:
    """Put the derivatives that are asked for into an answer."""
    function, question = result.function, result.question
    for by in wanted(function, result.text, question):
        made = question.derivative(function, by)
        arranged = arrange(made, function.ndim, [x.ndim for x in by], question.layout)
        result.blocks.append(Block(by, made, arranged))


def wanted(function: Expr, text: str, question: Question) -> list[tuple[Variable, ...]]:
    """By which variables to differentiate, for each of the derivatives."""
    if question.order == 0:
        return [()]
    singles: list[tuple[Variable, ...]]
    if not question.variables:
        singles = [(x,) for x in variables(function) if x.into is None]
        if not singles:
            raise EindiffError(f"{text.strip()} has no variables to differentiate by", "names")
    else:
        singles = [_group(function, word) for word in question.variables]
    if all(len(by) == 1 for by in singles):
        return list(combinations_with_replacement(dict.fromkeys(x for by in singles for x in by), question.order or 1))
    for word, by in zip(question.variables, singles, strict=True):
        if question.order not in (None, len(by)):
            raise EindiffError(f"{word} is of order {len(by)}, but order {question.order} is asked for", "options")
    return list(dict.fromkeys(singles))


def _group(function: Expr, word: str) -> tuple[Variable, ...]:
    """The variables of a word like `x` or `x,y`."""
    found, start = [], 0
    for name in word.split(","):
        found.append(_variable(function, word, name.strip(), start + len(name) - len(name.lstrip())))
        start += len(name) + 1
    return tuple(found)


def _variable(function: Expr, word: str, name: str, start: int) -> Variable:
    """The variable of a name. One that dropped out of the function, as x does in x - x, was made before it did."""
    known = {v.name: v for v in variables(function)}
    dropped = {v.name: v for v in origins(function)}
    if name in known or name in dropped:
        return known[name] if name in known else dropped[name]
    if not name:
        raise Source(word).error("a variable is missing here", start)
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"its variables are {', '.join(known) or 'none'}"
    raise Source(word).error(f"there is no variable {name} in the expression; {hint}", start, start + len(name))


def chapters_of(result: Answer) -> list[Chapter]:
    """The steps of all derivatives; what they begin with in common is there once."""
    question = result.question
    seen: set[tuple[str, ...]] = set()
    chapters = []
    for block in result.blocks:
        made = derivation(result.function, *block.by, mode=question.mode, symmetric=question.symmetric, read=result.log)
        chapters += [chapter for chapter in made if chapter.by not in seen]
        seen.update(chapter.by for chapter in made)
    return chapters


def checked(result: Answer) -> Check:
    """Each derivative against finite differences of the one of one order less, at a random point."""
    sizes: dict[str, int] = {}
    point = numeric.random_point([result.function, *(block.mixed for block in result.blocks)], sizes)
    errors = {}
    for block in result.blocks:
        if not block.by:
            continue
        *before, x = block.by
        key = tuple(v.name for v in block.by)
        if x.name not in point:  # it dropped out of the function
            errors[key] = 0.0 if is_zero(block.mixed) else np.inf
            continue
        expected = numeric.finite_difference(result.question.derivative(result.function, before), x, point, sizes)
        if result.question.symmetric == "free" and x.symmetries:  # mirrored entries move as one
            expected = expected * (2 - np.eye(expected.shape[-1]))
        errors[key] = numeric.relative_error(evaluate(block.mixed, point, sizes), expected)
    return Check(errors, 1e-6)


def _code(result: Answer) -> str:
    """A file that computes the function and the derivatives; with NumPy it checks itself."""
    from eindiff.program.write import library_script as write  # it is slow to load, and often not needed

    question = result.question
    for block in result.blocks:
        if changes(result.function.ndim, [x.ndim for x in block.by], question.layout):
            raise EindiffError(
                f"--code writes derivatives in the mixed layout, not in {question.layout} layout", "options"
            )
        if question.symmetric != "projected" and any(x.symmetries for x in block.by):
            raise EindiffError("--code writes projected derivatives by symmetric variables, not free ones", "options")
    order = max(len(block.by) for block in result.blocks)
    script = write.Script(result.function, result.by, order, "f", {}, question.mode, 0)
    return write.library_script(script, dict.fromkeys(script.module.size_names, _TYPICAL), str(question.code))
