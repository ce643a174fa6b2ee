"""Softmaxes beside the logarithms of their sums: one exponential of each entry for both."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.core import sizes as sz
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.functions import reduction
from eindiff.program.operations import (
    FUNCTION,
    Operation,
    Operations,
    count_uses,
    is_call,
    reachable,
    with_operands,
)


def with_softmaxes(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with `e / s` for `exp(z - logsumexp(z))` and `log(s) + t` for `logsumexp(z)`, where both are needed:
    t are the largest entries of z, `e = exp(z - t)` and s the sums of e."""
    order = reachable(outputs)
    uses, done = count_uses(order, outputs), dict[Operation, Operation]()
    found = {x: sum_ for x in order if (sum_ := _sum_of(x)) is not None and uses[x.operands[0]] == 1}
    spreads = {_root(spread): spread for spread in found.values()}
    made = dict[Operation, Operation]()  # softmaxes, by their sums
    for x in order:
        if x in spreads:
            done[x], made[x] = _both(operations, spreads[x], done[x.operands[0]], costs)
        elif x in found:
            done[x] = made[_root(found[x])]
        else:
            done[x] = with_operands(operations, x, [done[y] for y in x.operands])
    return [done[x] for x in outputs]


def _root(spread: Operation) -> Operation:
    return spread.operands[0] if spread.op == "expand" else spread


def _sum_of(x: Operation) -> Operation | None:
    """The `logsumexp(z)`, repeated along the axis that it is over, of `exp(z - logsumexp(z))`."""
    if not is_call(x, "exp") or x.operands[0].op != "add" or x.operands[0].parameters != (1, -1):
        return None
    z, spread = x.operands[0].operands
    total, ndim = _root(spread), len(z.shape)
    if total.op != "reduce" or total.parameters[0] != "logsumexp" or total.operands[0] is not z:
        return None
    kept = [*spread.parameters, *[True] * ndim][:ndim] if spread.op == "expand" else [k > 0 for k in range(ndim)]
    return spread if kept == [k != (total.parameters[1] or 0) for k in range(ndim)] else None


def _both(operations: Operations, spread: Operation, z: Operation, costs: Costs) -> tuple[Operation, Operation]:
    """`logsumexp(z)`, and the softmax that it stands in."""
    total, axis = _root(spread), _root(spread).parameters[1]

    def repeated(x: Operation) -> Operation:
        return x if spread is total else with_operands(operations, spread, [x])

    top = reduction(operations, "finite_top", z, axis)
    entries = operations.make("call", [operations.plus([(1, z), (-1, repeated(top))])], ("exp",), speed=FUNCTION)
    if len(z.shape) == 2 and axis == 1 and costs.entries(z.shape) > tuning.MANY_ENTRIES:
        ones = operations.make("ones", parameters=z.shape[1:], shape=z.shape[1:])
        sums = operations.matmul(entries, ones)
    else:
        axes = () if axis is None else (axis,)
        sums = operations.make("sum", [entries], axes, shape=total.shape, work=sz.product(z.shape))
    logarithm = operations.make("call", [sums], ("log",), speed=FUNCTION)
    return operations.plus([(1, logarithm), (1, top)]), operations.make("divide", [entries, repeated(sums)])
