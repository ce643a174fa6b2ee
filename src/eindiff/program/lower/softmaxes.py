"""Softmaxes beside the logarithms of their sums: one exponential of each entry for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eindiff.core import sizes as sz
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.functions import reduction
from eindiff.program.operations import FUNCTION, Operation, Operations, is_call, reachable, rewritten


class _Both(NamedTuple):
    """What is made of the exponentials of the same entries."""

    logarithm: Operation  # of their sum
    softmax: Operation
    difference: Operation  # the logarithms of the softmax


def with_softmaxes(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with `e / s` for `softmax(z)`, `log(s) + t` for `logsumexp(z)` and `(z - t) - log(s)` for their
    difference, where several of them are needed: t are the largest entries of z, `e = exp(z - t)` and s the sums of e.
    """
    order = reachable(outputs)
    reduced = [x for x in order if x.op == "reduce" and x.parameters[0] == "logsumexp"]
    totals = {(x.operands[0], x.parameters[1] or 0): x for x in reduced}
    found = {x: totals.get((x.operands[0], x.parameters[1])) for x in order if is_call(x, "softmax")}
    differences = {x: total for x in order if (total := _subtracted(x)) is not None}
    shared = {*found.values(), *differences.values()}
    if not shared:
        return [*outputs]
    made: dict[Operation, _Both] = {}

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        total = x if x in shared else found.get(x, differences.get(x))
        if total is None:
            return None
        if total not in made:
            made[total] = _both(operations, total, operands[0], costs)
        both = made[total]
        return both.logarithm if x is total else both.difference if x in differences else both.softmax

    return rewritten(operations, outputs, change)


def _subtracted(x: Operation) -> Operation | None:
    """The `logsumexp(z)` of `z - logsumexp(z)`, which is repeated along the axis that it is over."""
    if x.op != "add" or x.parameters != (1, -1):
        return None
    z, spread = x.operands
    total, ndim = spread.operands[0] if spread.op == "expand" else spread, len(z.shape)
    if total.op != "reduce" or total.parameters[0] != "logsumexp" or total.operands[0] is not z:
        return None
    kept = [*spread.parameters, *[True] * ndim][:ndim] if spread.op == "expand" else [k > 0 for k in range(ndim)]
    return total if kept == [k != (total.parameters[1] or 0) for k in range(ndim)] else None


def _both(operations: Operations, total: Operation, z: Operation, costs: Costs) -> _Both:
    """What is made of the exponentials of z."""
    axis, ndim = total.parameters[1], len(z.shape)

    def repeated(x: Operation) -> Operation:
        if not axis:
            return x
        shape = (*z.shape[:axis], 1, *z.shape[axis + 1 :])
        return operations.make("expand", [x], tuple([k != axis for k in range(ndim)]), shape=shape)

    top = reduction(operations, "finite_top", z, axis)
    shifted = operations.plus([(1, z), (-1, repeated(top))])
    entries = operations.make("call", [shifted], ("exp",), speed=FUNCTION)
    if len(z.shape) == 2 and axis == 1 and costs.entries(z.shape) > tuning.MANY_ENTRIES:
        ones = operations.make("ones", parameters=z.shape[1:], shape=z.shape[1:])
        sums = operations.matmul(entries, ones)
    else:
        axes = () if axis is None else (axis,)
        sums = operations.make("sum", [entries], axes, shape=total.shape, work=sz.product(z.shape))
    logarithm = operations.make("call", [sums], ("log",), speed=FUNCTION)
    softmax = operations.make("divide", [entries, repeated(sums)])
    difference = operations.plus([(1, shifted), (-1, repeated(logarithm))])
    return _Both(operations.plus([(1, logarithm), (1, top)]), softmax, difference)
