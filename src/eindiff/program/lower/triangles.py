"""Products with a triangle of ones, which are running sums, and sums between two of them: over all entries that come
after two others, or before both.

The second derivative of a cumulative sum is `L' diag(d) L`, whose entry (i, j) is the sum of all `d[k]` with k ≥ i and
k ≥ j: one of the n sums `s = L' d`. So it takes n² operations, where the product of matrices takes n³.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels
from eindiff.core.networks import new_label
from eindiff.core.nodes import Number
from eindiff.core.sizes import Size
from eindiff.planning import tuning
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import FUNCTION, Operation

if TYPE_CHECKING:
    from eindiff.program.lower.products import Products

SUMMED_ENTRIES = 5  # entries of a row of a matrix with few that take as long as a running sum takes for each


class _Pair(NamedTuple):
    """Two triangles with a label that is summed over, and those that it comes after, or before."""

    triangle: Operation
    summed: int
    first: int
    second: int
    is_after: bool
    rest: list[Tensor]  # the other factors that something is summed over in


def running_sum(products: Products, a: Tensor, b: Tensor, summed: int) -> Tensor | None:
    """A product with a triangle of ones as sums that run along an axis of the other factor, from its start or its end:
    n operations instead of n². None if neither is one, where BLAS is faster, and in programs without such a word."""
    if products.costs is None or products.operations.functional:
        return None
    for triangle, other in ((a, b), (b, a)):
        is_long = len(other.labels) == 1 or products.entries([other.size(summed)]) >= tuning.TRIANGLE
        if triangle.operation.op == "triangle" and is_long:
            [place] = [label for label in triangle.labels if label != summed]
            parameters, shape = (other.labels.index(summed), triangle.labels[0] == summed), other.operation.shape
            operands, work = [other.operation], sz.product(shape)
            made = products.operations.make("running_sum", operands, parameters, shape=shape, work=work, speed=FUNCTION)
            return Tensor(made, tuple([place if label == summed else label for label in other.labels]))
    return None


def between(
    products: Products, coefficient: Number, factors: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]
) -> tuple[Number, Tensor] | None:
    """A contraction with two such triangles, as a choice between sums with one; None if it has none."""
    if (found := _pair(factors, kept)) is None:
        return None
    outer = [products.reduce(x, kept) for x in factors if set(x.labels) <= set(kept)]
    known = dict(sizes)
    place = new_label(known, sizes[found.first])
    labels = tuple([x for x in kept if any(x in y.labels for y in found.rest)])
    along = (found.summed, place) if found.is_after else (place, found.summed)
    inner = [Tensor(found.triangle, along), *found.rest]
    factor, sums = products.contract(coefficient, inner, (place, *labels), known)
    at_first, at_second = (
        Tensor(sums.operation, tuple([label if x == place else x for x in sums.labels]))
        for label in ((found.first, found.second) if found.is_after else (found.second, found.first))
    )
    operations, both = products.operations, (found.first, found.second)
    others = operations.plus([(1, operations.number(1)), (-1, found.triangle)])
    chosen = [products.product([Tensor(found.triangle, both), at_first, *outer], kept),
              products.product([Tensor(others, both), at_second, *outer], kept)]  # fmt: skip
    order = tuple([x for x in kept if x in chosen[0].labels])
    return factor, Tensor(operations.plus([(1, products.permute(x, order)) for x in chosen]), order)


def _pair(factors: Sequence[Tensor], kept: Labels) -> _Pair | None:
    triangles = [x for x in factors if x.operation.op == "triangle" and len(set(x.labels)) == 2]
    for (x, y), axis in product(combinations(triangles, 2), (0, 1)):
        summed, first, second = x.labels[axis], x.labels[1 - axis], y.labels[1 - axis]
        if summed == y.labels[axis] and summed not in kept and first != second and {first, second} <= set(kept):
            rest = [z for z in factors if z is not x and z is not y and not set(z.labels) <= set(kept)]
            if not any({first, second} & set(z.labels) for z in rest):
                return _Pair(x.operation, summed, first, second, axis == 0, rest)
    return None
