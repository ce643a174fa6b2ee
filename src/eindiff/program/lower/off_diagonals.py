"""Sums over pairs without those of an index with itself: what they add up has zeros there."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.core.kept_sums import is_hollow
from eindiff.core.labels import subscripts
from eindiff.core.networks import Factor
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import Operations


def leave_out_diagonals(operations: Operations, operands: Sequence[Factor], found: dict[int, Tensor]) -> None:
    """Put zeros on the diagonal of the smallest factor that has both labels of a hollow matrix, in place of a product
    with that."""
    for place in [k for k, (x, _) in enumerate(operands) if k in found and is_hollow(x)]:
        i, j = operands[place][1]
        beside = [k for k, x in found.items() if k != place and {i, j} <= {*x.labels} and x.operation.op != "input"]
        if beside and not operations.functional:
            at = min(beside, key=lambda k: len(found[k].labels))
            array, labels = found[at].operation, found[at].labels
            axes = tuple([i if label == j else label for label in labels])
            where = subscripts([axes], (*[label for label in labels if label not in (i, j)], i))
            parameters, work = (True, array.shape, (("diagonal", "=", where, 0),)), found[at].size(i)
            made = operations.make("fill", [array, operations.number(0)], parameters, shape=array.shape, work=work)
            found[at] = Tensor(made, labels)
            del found[place]
