"""A derivative that is called inside of a function that is traced: `ed.gradient(f)(2 * x)` is an expression there.

The inner function is traced beside the values that its arguments have at the call. Its derivative is an expression in
variables of its own, in whose places those of the call are put, and what it has asked is asked of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, variables
from eindiff.core.rebuild import substituted
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.derivatives import nested, selection
from eindiff.tracing.library import NeedsLeavesError
from eindiff.tracing.numpy.buffers import settled
from eindiff.tracing.numpy.library import describe
from eindiff.tracing.numpy.traced_array import TracedArray, made
from eindiff.tracing.numpy.trees import leaves_of, map_leaves
from eindiff.tracing.questions import Answers, current

if TYPE_CHECKING:
    from eindiff.tracing.numpy.derivatives import DerivativeOfFunction


def nested_call(function: DerivativeOfFunction, args: tuple, keywords: dict[str, Any]) -> Any:
    """The derivatives at traced arguments, as traced arrays."""
    answers, library = current(), function.library
    assert answers is not None
    if function.options.structured or function.has_aux:
        raise EindiffError(
            f"{function.__name__} inside of a traced function: without structured=True and has_aux=True", "options"
        )
    args, keywords = map_leaves(settled, args), map_leaves(settled, keywords)
    numbers = [map_leaves(lambda leaf: _value(answers, leaf), part) for part in (args, keywords)]
    arguments = library.read(function, tuple(numbers[0]), numbers[1])
    try:
        traced = library.trace(function, arguments, frozenset(), library.surroundings(function.function), None)
    except NeedsLeavesError:
        raise EindiffError(
            f"{function.__name__} inside of a traced function: it needs numbers, not symbols", "tracing"
        ) from None
    given = _leaves(function, args, keywords, numbers)
    places: dict[Expr, Expr] = {x: as_expr(given[k]) for k, x in traced.inputs.items()}
    captured = {name: as_expr(array) for name, array in traced.captured.items()}
    found = selection(function, traced, arguments)
    [part] = [part(found, function.options) for part in function.kind.parts]
    places |= {x: captured[x.name] for y in part.exprs for x in variables(y) if x.name in captured}
    for question, answer in traced.answers.items():
        answers.given[question.at(places)] = answer
    return nested(iter([made(y, is_number=not y.shape) for y in substituted(part.exprs, places)]), part.structures)


def _value(answers: Answers, leaf: Any) -> Any:
    if type(leaf) is not TracedArray:
        return leaf
    value = answers.value(as_expr(leaf)).astype(leaf.dtype)
    return value[()] if leaf._is_number else value


def _leaves(function: DerivativeOfFunction, args: Any, keywords: Any, numbers: list[Any]) -> list[Any]:
    """What was given for each leaf of the arguments."""
    pairs = [(args[k], x, k in function.positions) for k, x in enumerate(numbers[0])]
    pairs += [(keywords[name], x, name in function.keywords) for name, x in numbers[1].items()]
    found: list[Any] = []
    for old, new, is_variable in pairs:
        for leaf, number in zip(leaves_of(old), leaves_of(new), strict=True):
            arrays: list[Any] = []
            describe(number, arrays, is_variable)
            found += [leaf] * len(arrays)
    return found
