"""`X' diag(d) X`, where X may be a product with several columns' axes, as a product of half the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels
from eindiff.core.nodes import Number
from eindiff.planning import tuning
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import BLAS

if TYPE_CHECKING:
    from eindiff.program.lower.products import Products


def symmetric_product(
    products: Products, coefficient: Number, factors: Sequence[Tensor], kept: Labels
) -> Tensor | None:  # fmt: skip
    """A multiple of `Σ_s d_s X_s... X_s...`, if factors are that: those with the first half of the labels of the result
    are those with the second, and there are weights of what is summed over. Without weights NumPy itself sees that
    `X' X` is symmetric."""
    half = len(kept) // 2
    rows, mirror = kept[:half], dict(zip(kept[:half], kept[half:], strict=False))
    left = [x for x in factors if {*x.labels} & {*rows}]
    right = [x for x in factors if {*x.labels} & {*kept[half:]}]
    weights = [x for x in factors if x not in left and x not in right]
    summed = {label for x in left for label in x.labels} - {*rows}
    if not half or len(kept) % 2 or len(summed) != 1 or not _are_mirrored(left, right, mirror):
        return None
    [row] = summed
    operations, sizes = products.operations, [next(x.size(k) for x in left if k in x.labels) for k in rows]
    least = tuning.HALVED if operations.functional else tuning.GRAM
    if products.entries(sizes) < least or {z.labels for z in weights} != {(row,)}:
        return None
    matrix, columns = products.permute(products.product(left, (row, *rows)), (row, *rows)), sz.product(sizes)
    matrix = matrix if half == 1 else products.reshape(matrix, (matrix.shape[0], columns))
    operands = [matrix, operations.scale(coefficient, products.product(weights, (row,)).operation)]
    scratch = sz.product(matrix.shape)
    work = sz.add(sz.product((columns, columns, matrix.shape[0])), scratch)
    made = operations.make("gram", operands, shape=(columns, columns), work=work, speed=BLAS, scratch=scratch)
    return Tensor(made if half == 1 else products.reshape(made, (*sizes, *sizes)), kept)


def _are_mirrored(left: Sequence[Tensor], right: Sequence[Tensor], mirror: Mapping[int, int]) -> bool:
    """Whether tensors are others with labels of columns in the place of those of rows."""
    own = Counter((x.operation, tuple([mirror.get(label, label) for label in x.labels])) for x in left)
    return own == Counter((x.operation, x.labels) for x in right)
