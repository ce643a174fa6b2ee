"""Products of large matrices with few columns, in the order in which BLAS computes them faster."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, Operations, reachable, with_operands


def turned(outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """The program with `A B` as `(B' A')'` where B has few columns and A is large.

    BLAS works on blocks of some rows by a few columns, and counts rows where arrays of C have columns.
    """
    own, done = Operations(), dict[Operation, Operation]()
    for x in reachable(outputs):
        operands = [done[y] for y in x.operands]
        if _is_thin(x, costs):
            product = own.matmul(*[own.transpose(y) for y in reversed(operands)])
            done[x] = own.make("contiguous", [own.transpose(product)], shape=x.shape, work=0)
        else:
            done[x] = x if operands == list(x.operands) else with_operands(own, x, operands)
    return [done[x] for x in outputs]


def _is_thin(x: Operation, costs: Costs) -> bool:
    """Whether it is a product that is computed faster the other way round."""
    if x.op != "matmul" or len(x.shape) != 2 or any(len(y.shape) != 2 for y in x.operands):
        return False
    entries, inner, columns = tuning.THIN_PRODUCT
    rows, terms, few = map(costs.evaluate, (x.shape[0], x.operands[0].shape[1], x.shape[1]))
    return rows * terms >= entries and terms >= inner and 1 < few <= columns
