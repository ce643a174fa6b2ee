"""What the command line finds out about one expression: its derivatives, steps, a check, code, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

from eindiff.core.errors import EindiffError

if TYPE_CHECKING:
    from eindiff.core.nodes import Expr, Variable
    from eindiff.program.check import Check
    from eindiff.text.layouts import Arranged
    from eindiff.text.steps import Chapter


@dataclass(frozen=True, slots=True)
class Request:
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


@dataclass(slots=True)
class Block:
    """One derivative: by which variables, as it is made (in the mixed layout), and in the layout asked for."""

    by: tuple[Variable, ...]
    mixed: Expr
    arranged: Arranged

    @property
    def key(self) -> str:
        """As the variables are given: `x` or `x,y`."""
        return ",".join(x.name for x in self.by)

    def label(self, style: str, function: str = "f") -> str:
        """`∂²f/∂x∂y`."""
        count = len(self.by)
        if not count:
            return function
        d, raised = ("∂", "⁰¹²³⁴⁵⁶⁷⁸⁹") if style == "unicode" else ("d", "0123456789")

        def power(k: int) -> str:
            digits = "".join(raised[int(digit)] for digit in str(k))
            return "" if k == 1 else digits if style == "unicode" else f"^{digits}"

        names = list(dict.fromkeys(x.name for x in self.by))
        grouped = [x.name for x in self.by] == [name for name in names for x in self.by if x.name == name]
        if not grouped:
            return f"{d}{power(count)}{function}/" + "".join(f"{d}{x.name}" for x in self.by)
        below = "".join(f"{d}{name}{power(sum(x.name == name for x in self.by))}" for name in names)
        return f"{d}{power(count)}{function}/{below}"


@dataclass(slots=True)
class Answer:
    """What is found for one expression."""

    text: str
    function: Expr
    declared: set[str]
    blocks: list[Block]
    chapters: list[Chapter] = field(default_factory=list)
    check: Check | None = None
    code: str = ""


def answer(text: str, request: Request) -> Answer:
    """Read an expression and find what is asked of it. Bad input is an EindiffError."""
    from eindiff.calculus.derive import derivative
    from eindiff.core.rewrite import rewrite_log
    from eindiff.text.layouts import arrange
    from eindiff.text.read.declarations import declared
    from eindiff.text.read.parse import parse

    try:
        known = declared(request.declare)
    except EindiffError as error:
        raise EindiffError(f"in the declarations: {error}") from None
    with rewrite_log() as log:
        function = parse(text, known)
    blocks = []
    for by in wanted(function, text, request):
        made = derivative(function, *by, mode=request.mode, symmetric=request.symmetric)
        arranged = arrange(made, function.ndim, [x.ndim for x in by], request.layout)
        blocks.append(Block(by, made, arranged))
    result = Answer(text, function, set(known), blocks)
    if request.steps:
        result.chapters = chapters_of(result, request, log)
    if request.check:
        result.check = checked(result, request)
    if request.code:
        result.code = _code(result, request)
    if request.graph:
        from eindiff.text.graph import save

        save({block.label("unicode"): block.arranged.expr for block in blocks}, request.graph)
    return result


def wanted(function: Expr, text: str, request: Request) -> list[tuple[Variable, ...]]:
    """By which variables to differentiate, for each of the derivatives."""
    from eindiff.core.nodes import variables

    if request.order == 0:
        return [()]
    singles: list[tuple[Variable, ...]]
    if not request.variables:
        singles = [(x,) for x in variables(function)]
        if not singles:
            raise EindiffError(f"{text.strip()} has no variables to differentiate by")
    else:
        singles = [_group(function, word) for word in request.variables]
    if all(len(by) == 1 for by in singles):
        return list(combinations_with_replacement(dict.fromkeys(x for by in singles for x in by), request.order or 1))
    if request.order is not None and any(len(by) != request.order for by in singles):
        word = next(word for word, by in zip(request.variables, singles, strict=True) if len(by) != request.order)
        raise EindiffError(f"{word} is of order {word.count(',') + 1}, but order {request.order} is asked for")
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
    from difflib import get_close_matches

    from eindiff.core.derivation import origins
    from eindiff.core.nodes import variables
    from eindiff.text.read.source import Source

    known = {v.name: v for v in variables(function)}
    dropped = {v.name: v for v in origins(function)}
    if name in known or name in dropped:
        return known[name] if name in known else dropped[name]
    if not name:
        raise Source(word).error("a variable is missing here", start)
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"its variables are {', '.join(known) or 'none'}"
    raise Source(word).error(f"there is no variable {name} in the expression; {hint}", start, start + len(name))


def chapters_of(result: Answer, request: Request, log: Sequence[Any]) -> list[Chapter]:
    """The steps of all derivatives; what they begin with in common is there once."""
    from eindiff.text.steps import derivation

    seen: set[tuple[str, ...]] = set()
    chapters = []
    for block in result.blocks:
        made = derivation(result.function, *block.by, mode=request.mode, symmetric=request.symmetric, read=log)
        chapters += [chapter for chapter in made if chapter.by not in seen]
        seen.update(chapter.by for chapter in made)
    return chapters


def checked(result: Answer, request: Request) -> Check:
    """Each derivative against finite differences of the one of one order less, at a random point."""
    import numpy as np

    from eindiff.calculus.derive import derivative
    from eindiff.core.construct import is_zero
    from eindiff.program.check import Check, finite_difference, random_point, relative_error
    from eindiff.program.interpreter import evaluate

    sizes: dict[str, int] = {}
    point = random_point([result.function, *(block.mixed for block in result.blocks)], sizes)
    errors = {}
    for block in result.blocks:
        if not block.by:
            continue
        *before, x = block.by
        if x.name not in point:  # it dropped out of the function
            errors[tuple(v.name for v in block.by)] = 0.0 if is_zero(block.mixed) else np.inf
            continue
        lower = derivative(result.function, *before, mode=request.mode, symmetric=request.symmetric)
        numeric = finite_difference(lower, x, point, sizes)
        if request.symmetric == "free" and x.symmetries:  # mirrored entries move as one
            numeric = numeric * (2 - np.eye(numeric.shape[-1]))
        errors[tuple(v.name for v in block.by)] = relative_error(evaluate(block.mixed, point, sizes), numeric)
    return Check(errors, 1e-6)


def _code(result: Answer, request: Request) -> str:
    """A file that computes the function and the derivatives, and checks itself."""
    from eindiff.program.write.source import to_script
    from eindiff.text.layouts import changes

    for block in result.blocks:
        if changes(result.function.ndim, [x.ndim for x in block.by], request.layout):
            raise EindiffError(f"--code writes derivatives in the mixed layout, not in {request.layout} layout")
        if request.symmetric != "projected" and any(x.symmetries for x in block.by):
            raise EindiffError("--code writes projected derivatives by symmetric variables, not free ones")
    wrt = list(dict.fromkeys(x for block in result.blocks for x in block.by))
    order = max(len(block.by) for block in result.blocks)
    return to_script(result.function, wrt, order=order, mode=request.mode)
