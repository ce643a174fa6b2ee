"""What workers do: plain functions from a request, as a dictionary, to an answer as `models` describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from eindiff.apps.page import limits
from eindiff.apps.page.costs import cost
from eindiff.apps.page.derivations import steps
from eindiff.apps.page.formulas import derivative_mathml, formula, kronecker_form
from eindiff.apps.page.pictures import graphs, structure
from eindiff.apps.page.programs import written
from eindiff.apps.page.reading import ProblemError, derivatives, reading, variable_data
from eindiff.core import sizes as sz
from eindiff.core.errors import shape_text
from eindiff.core.nodes import Expr, size_names, variables
from eindiff.program.check import small_sizes
from eindiff.text.layouts import describe
from eindiff.text.question import Answer, Block
from eindiff.text.question import checked as compared
from eindiff.text.write.mathml import name_mathml, whole

CONVENTIONS = {
    "projected": "By a symmetric variable, the derivative is the symmetric part of that by independent entries.",
    "free": "By a symmetric variable, the derivative is by the entries on and below the diagonal, each of which moves "
    "its mirror image too.",
}


def answer(kind: str, ask: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request of one kind; what is wrong with the request is a ProblemError."""
    return TASKS[kind](ask)


def parsed(ask: Mapping[str, Any]) -> dict[str, Any]:
    """What an expression is."""
    return _described(reading(ask), "matrix")


def _described(result: Answer, notation: str) -> dict[str, Any]:
    """The model `Parsed`."""
    return {
        "name": result.name,
        "size_names": sorted(size_names(result.function)),
        "function": formula(result.function, notation, name_mathml(result.name)),
        "variables": variable_data(result),
    }


def derived(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The derivatives of an expression, written out."""
    result = derivatives(ask)
    conventions = [f"Layout {result.layout}."] if result.by else []
    conventions += [f"{note[0].upper()}{note[1:]}." for note in result.reading.notes]
    conventions += [CONVENTIONS[result.question.symmetric]] if result.has_symmetric else []
    return {
        **_described(result, result.question.notation),
        "by": [x.name for x in result.by],
        "blocks": [_block(block, result) for block in result.blocks],
        "conventions": conventions,
    }


def _block(block: Block, result: Answer) -> dict[str, Any]:
    names = [x.name for x in block.by]
    left = derivative_mathml(result.name, names)
    function = result.name if result.function.ndim else ""
    return {
        **formula(block.arranged.expr, result.question.notation, left, block.arranged.row),
        "kronecker": kronecker_form(block.arranged.expr, left) if result.question.notation == "matrix" else None,
        "key": block.key,
        "by": names,
        "label": block.label("unicode", result.name),
        "label_mathml": whole(left, display=False),
        "axes": describe(result.question.layout, function, names) if names else "",
    }


# A check


def checked(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The derivatives against finite differences, at a random point."""
    result = derivatives(ask)
    exprs = [result.function, *(block.mixed for block in result.blocks)]
    sizes = small_sizes(exprs, {})
    _small(exprs, sizes)
    found = compared(result)
    errors = {",".join(names): error for names, error in found.errors.items()}
    return {
        "passed": found.passed,
        "tolerance": found.tolerance,
        "blocks": [
            {"key": key, "error": error if isfinite(error) else None, "passed": bool(error <= found.tolerance)}
            for key, error in errors.items()
        ],
        "sizes": sizes,
    }


def _small(exprs: list[Expr], sizes: Mapping[str, int]) -> None:
    """Refuse arrays whose sizes are declared as large numbers."""
    for expr in [*exprs, *variables(*exprs)]:
        entries = 1
        for size in expr.shape:
            entries *= sz.evaluate(size, sizes)
        if entries > limits.CHECKED_ENTRIES:
            raise ProblemError(
                f"an array of shape {shape_text(expr.shape)} has {entries} entries; the most that is checked here is "
                f"{limits.CHECKED_ENTRIES}: declare smaller sizes, or names for them"
            )


TASKS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "parse": parsed, "derive": derived, "check": checked, "steps": steps, "graph": graphs,
    "structure": structure, "cost": cost, "code": written,
}  # fmt: skip
