"""Logarithms of sums of few exponentials with weights, which are arrays one by one: the sum itself, if it is in range.

`log(exp(a) + exp(b) * y**2)` is computed as it stands. Only where the sum is out of range the largest exponent is taken
out of it first, as the functions `log_weighted_sum` and `weighted_softmax` of an array with all terms do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eindiff.core import sizes as sz
from eindiff.program.costs import Costs
from eindiff.program.lower.cuts import AxisPart, Cutting, spread
from eindiff.program.operations import FUNCTION, Operation, Operations, is_call, reachable, with_operands

MOST_APART = 4  # terms of a sum that are written one by one


class _Sum(NamedTuple):
    """A sum of terms w * exp(x)."""

    terms: list[Operation]
    total: Operation
    in_range: Operation  # whether all of it is
    parts: list[Operation]  # x and w of each term


def with_sums_of_exponentials(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with sums in the place of functions of arrays that are made of the terms of these."""
    order = reachable(outputs)
    if not any(is_call(x, "log_weighted_sum") for x in order):
        return list(outputs)
    cutting = Cutting(operations, costs)
    sums: dict[tuple[Operation, ...], _Sum | None] = {}
    done: dict[Operation, Operation] = {}
    for x in order:
        operands = [done[y] for y in x.operands]
        source = x.operands[0] if x.op == "cut" else x
        made = None
        if (is_call(source, "log_weighted_sum") and x is source) or _is_column(x):
            key = tuple([done[y] for y in source.operands])
            if key not in sums:
                sums[key] = _sum(cutting, *key)
            made = sums[key]
        done[x] = with_operands(operations, x, operands) if made is None else _of_sum(operations, x, made)
        cutting.once.add(done[x])
    return [done[x] for x in outputs]


def _is_column(x: Operation) -> bool:
    """Whether an operation is one entry along the last axis of a softmax with weights."""
    if x.op != "cut" or not is_call(x.operands[0], "weighted_softmax"):
        return False
    axis, cut = x.parameters
    return axis == len(x.operands[0].shape) - 1 and isinstance(cut, int) and cut >= 0


def _of_sum(operations: Operations, x: Operation, made: _Sum) -> Operation:
    """The logarithm of a sum, or the part of it that a term is."""
    arrays, shape = [made.total, made.in_range, *made.parts], made.total.shape
    if x.op == "cut":
        place = x.parameters[1]
        found = operations.make(
            "call", [made.terms[place], *arrays], ("part_of_total", place), shape=shape, speed=FUNCTION
        )
    else:
        found = operations.make("call", arrays, ("log_of_total",), shape=shape, speed=FUNCTION)
    return spread(operations, found, x.shape)


def _sum(cutting: Cutting, exponents: Operation, weights: Operation) -> _Sum | None:
    """The sum along the last axis, if that has few entries, of which the arrays are made one by one."""
    operations, count = cutting.operations, weights.shape[-1]
    if not isinstance(count, int) or not 1 < count <= MOST_APART:
        return None
    parts: list[Operation] = []
    for place in range(count):
        found = [cutting.inside(x, AxisPart(-1, place, None)) for x in (exponents, weights)]
        parts += [x for x in found if x is not None]
    if len(parts) < 2 * count:
        return None
    terms = [_term(operations, *parts[k : k + 2]) for k in range(0, 2 * count, 2)]
    total = operations.plus([(1, term) for term in terms])
    work = sz.multiply(2, sz.product(total.shape))
    in_range = operations.make("call", [total], ("in_range", operations.single), shape=(), work=work)
    return _Sum(terms, total, in_range, parts)


def _term(operations: Operations, x: Operation, weight: Operation) -> Operation:
    """weight * exp(x)."""
    if x.op == "number" and x.parameters[0] == 0:
        return weight
    exponential = operations.make("call", [x], ("exp",), speed=FUNCTION)
    if weight.op == "number":
        return operations.scale(weight.parameters[0], exponential)
    return operations.times([exponential, weight])
