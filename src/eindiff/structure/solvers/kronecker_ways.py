"""Which sums of Kronecker products can be solved, and how: by labels, or where these do not tell, by the numbers.

What comes from other libraries declares nothing: a matrix and its transpose are two matrices to labels, and one to the
numbers if it is symmetric. So matrices are compared where there are too many different ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eindiff.structure.axes import Core
from eindiff.structure.solvers.kronecker import (
    Kronecker,
    KroneckerProduct,
    KroneckerSum,
    Product,
    added_up,
    groups_of_axes,
    products_of,
)  # fmt: skip
from eindiff.structure.solvers.sylvester import are_equal, sylvester_square
from eindiff.structure.terms import Array

MOST_COMPARED, MOST_PRODUCTS = 2**20, 16  # entries of matrices, and products, that are looked at


def kronecker(core: Core) -> Kronecker | None:
    """The solver for a core that is a sum of Kronecker products of the kind that can be solved."""
    groups = [] if any(term.places for term in core.terms) else groups_of_axes(core)
    if len(groups) < 2:
        return None
    products = products_of(core, groups)
    if (found := _by_labels(core, groups, products)) is not None:
        return found
    sizes = [int(np.prod([core.dims[axis] for axis in group])) for group in groups]
    if max(sizes) ** 2 > MOST_COMPARED or len(products) > MOST_PRODUCTS:
        return None
    matrices = [
        {p.factors[g].key: p.factors[g].dense(size, core.dtype)[0] for p in products} for g, size in enumerate(sizes)
    ]
    same = added_up([_with_same(p, matrices) for p in products])
    if (found := _by_labels(core, groups, same)) is not None:
        return found
    return sylvester_square(core, groups, products, matrices)


def _by_labels(core: Core, groups: Sequence[tuple[int, ...]], products: list[Product]) -> Kronecker | None:
    if len(products) == 1:
        return KroneckerProduct(core, groups, products)
    if all(len({p.factors[g].key for p in products}) <= 2 for g in range(len(groups))):
        return KroneckerSum(core, groups, products)
    return None


def _with_same(product: Product, matrices: Sequence[dict[tuple, Array]]) -> Product:
    """A product with the first of all matrices that are equal."""
    factors = []
    for factor, known in zip(product.factors, matrices, strict=True):
        own = known[factor.key]
        key = next(key for key, matrix in known.items() if key == factor.key or are_equal(matrix, own))
        factors.append(replace(factor, key=key))
    return Product(product.coefficient, tuple(factors))
