"""`X' diag(d) X`, where X may be a product with several columns' axes, as a product of half the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels
from eindiff.core.nodes import Number
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import BLAS, Operation, Operations, is_call, reachable

if TYPE_CHECKING:
    from eindiff.program.lower.products import Products


def symmetric_product(
    products: Products, coefficient: Number, factors: Sequence[Tensor], kept: Labels
) -> Tensor | None:  # fmt: skip
    """A multiple of `Σ_s d_s X_s... X_s...`, if factors are that: those with the first half of the labels of the result
    are those with the second, and there are weights of what is summed over. Without weights NumPy itself sees that
    `X' X` is symmetric. It computes stacks of them as well, whose labels are the first ones of the result."""
    if products.costs is None:
        return None
    stacked = () if products.operations.functional else range(2 - len(kept) % 2, len(kept) - 1, 2)
    tried = (_symmetric(products, coefficient, factors, kept[:k], kept[k:]) for k in (0, *stacked))
    return next((found for found in tried if found is not None), None)


def square_within(products: Products, factors: Sequence[Tensor], kept: Sequence[int]) -> Tensor | None:
    """`X' diag(d) X`, if that is what some of the factors of a longer product are; `X' X` is one pair."""
    if len(factors) < 3 or len(kept) != 2 or len({x.operation for x in factors}) == len(factors):
        return None
    return symmetric_product(products, 1, factors, tuple(kept))


def _symmetric(
    products: Products, coefficient: Number, factors: Sequence[Tensor], stack: Labels, kept: Labels
) -> Tensor | None:
    """A multiple of `Σ_s d_ks X_ks... X_ks...`, where k stands for the labels of a stack."""
    half = len(kept) // 2
    rows, sides = kept[:half], _sides(factors, kept)
    if sides is None:
        return None
    left, weights = sides
    summed = {label for x in left for label in x.labels} - {*rows, *stack}
    if len(summed) != 1:
        return None
    order, sizes = (*stack, *summed), [next(x.size(k) for x in left if k in x.labels) for k in rows]
    operations, least = products.operations, tuning.HALVED if products.operations.functional else tuning.GRAM
    of_left, of_weights = _last(left, (*order, *rows), half + 1), _last(weights, order, 1)
    is_stack = of_left and of_weights and {*of_left, *of_weights} >= {*order}
    if products.entries(sizes) < least or not is_stack:
        return None
    matrix, weight = (
        products.permute(products.product(x, labels), labels) for x, labels in ((left, of_left), (weights, of_weights))
    )
    matrix = matrix if half == 1 else products.reshape(matrix, (*matrix.shape[:-half], sz.product(sizes)))
    made = _gram(operations, matrix, operations.scale(coefficient, weight))
    return Tensor(made if half == 1 else products.reshape(made, (*made.shape[:-2], *sizes, *sizes)), (*stack, *kept))


def _sides(factors: Sequence[Tensor], kept: Labels) -> tuple[list[Tensor], list[Tensor]] | None:
    """The factors with the first half of some labels, and those with none of them, if the others are the first ones
    with the second half."""
    rows, columns = kept[: len(kept) // 2], kept[len(kept) // 2 :]
    left, right = ([x for x in factors if {*x.labels} & {*own}] for own in (rows, columns))
    if not rows or len(rows) != len(columns) or not _are_mirrored(left, right, dict(zip(rows, columns, strict=True))):
        return None
    return left, [x for x in factors if x not in left and x not in right]


def _gram(operations: Operations, matrix: Operation, weight: Operation) -> Operation:
    """`X' diag(d) X`, or a stack of such."""
    *outer, row = max(matrix.shape[:-1], weight.shape, key=len)
    columns = matrix.shape[-1]
    scratch = sz.product((*outer, row, columns))
    work, shape = sz.add(sz.product((*outer, row, columns, columns)), scratch), (*outer, columns, columns)
    made = operations.make("gram", [matrix, weight], shape=shape, work=work, speed=BLAS, scratch=scratch)
    operations.symmetric.update([made] if len(shape) == 2 else [])
    return made


def _last(factors: Sequence[Tensor], labels: Labels, count: int) -> Labels:
    """The labels of factors, if these are all of some, or so many of the last ones, and none is on a diagonal."""
    own = {label for x in factors for label in x.labels}
    is_plain = all(len({*x.labels}) == len(x.labels) for x in factors)
    return next((part for part in (labels, labels[-count:]) if is_plain and own == {*part}), ())


def _are_mirrored(left: Sequence[Tensor], right: Sequence[Tensor], mirror: Mapping[int, int]) -> bool:
    """Whether tensors are others with labels of columns in the place of those of rows."""
    own = Counter((x.operation, tuple([mirror.get(label, label) for label in x.labels])) for x in left)
    return own == Counter((x.operation, x.labels) for x in right)


def is_undone(product: Tensor, one: int, other: int, terms: Sequence[Tensor], costs: Costs) -> bool:
    """Whether a product of a matrix and itself has less than full rank, and the inverse of what it is part of is beside
    it: that is large where the matrix is 0, and the product only up to rounding."""
    x = terms[one].operation
    if terms[other].operation is not x or costs.size(product.operation) < costs.size(x):
        return False
    return any(is_call(y.operation, "inv") and x in reachable([y.operation]) for y in terms)


def exchanged(result: Tensor, factors: Sequence[Tensor], kept: Labels) -> Tensor:
    """A contraction whose axes are nearer to the wanted order: those of equal factors may be exchanged."""
    uses, labels = Counter(label for x in factors for label in x.labels), list(result.labels)
    for x, y in combinations(factors, 2):
        apart = [pair for pair in zip(x.labels, y.labels, strict=False) if pair[0] != pair[1]]
        if x.operation is y.operation and len(apart) == 1:
            a, b = apart[0]
            if a in labels and b in labels and uses[a] == uses[b] == 1:
                i, j = labels.index(a), labels.index(b)
                if (i < j) != (kept.index(a) < kept.index(b)):
                    labels[i], labels[j] = b, a
    return Tensor(result.operation, tuple(labels))
