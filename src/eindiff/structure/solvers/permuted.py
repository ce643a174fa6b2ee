"""Kronecker products of which the columns are permuted, such as `X ↦ A X' B`.

If the row axes of each term meet its column axes in another order than their own, the operator is `K P`, with a
Kronecker product or sum K and a permutation P of the axes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.labels import components
from eindiff.structure.axes import Core
from eindiff.structure.grid import turned
from eindiff.structure.solvers.kronecker import Kronecker, KroneckerProduct
from eindiff.structure.solvers.kronecker_ways import kronecker
from eindiff.structure.solvers.solver import Solver, UnreliableError
from eindiff.structure.terms import Array, Term


def permuted(core: Core) -> Permuted | None:
    """The solver for a core that is a sum of Kronecker products, once its columns are permuted."""
    order = _order(core)
    if order is None or order == tuple(range(len(order))):
        return None
    half = len(core.dims)
    terms = tuple(
        [replace(t, output=t.output[:half] + tuple([t.output[half + axis] for axis in order])) for t in core.terms]
    )
    found = kronecker(replace(core, terms=terms))
    return None if found is None else Permuted(core, found, order)


def _order(core: Core) -> tuple[int, ...] | None:
    """For each row axis the column axis that it meets, in the first term."""
    term, half = core.terms[0], len(core.dims)
    count = len(term.labels)
    order = list(range(half))
    for members in components([*term.labels, *([label] for label in term.output)]):
        axes = [sorted(k - start for k in members if 0 <= k - start < half) for start in (count, count + half)]
        if len(axes[0]) != len(axes[1]) or any(core.dims[a] != core.dims[b] for a, b in zip(*axes, strict=True)):
            return None
        for row, column in zip(*axes, strict=True):
            order[row] = column
    return tuple(order)


class Permuted(Solver):
    """`K P`: a Kronecker product or sum, after a permutation of the axes."""

    def __init__(self, core: Core, product: Kronecker, order: tuple[int, ...]) -> None:
        self.size = core.size
        self._dims = core.dims
        self._product = product
        self._order = order
        self._back = tuple(int(k) for k in np.argsort(order))
        self.word = f"permuted {product.word}"
        self.formula = f"({product.formula}) P"
        self.method = product.method
        self.uses_inverses = product.uses_inverses
        self.flops = product.flops
        self.nbytes = product.nbytes

    @property
    def is_exact(self) -> bool:
        """Whether the product is."""
        return self._product.is_exact

    def norms(self) -> tuple[float, float]:
        return self._product.norms()

    def condition(self) -> float:
        return self._product.condition()

    def solve(self, b: Array) -> Array:
        return turned(self._product.solve(b), self._dims, self._back)

    def logdet(self) -> tuple[float, float]:
        """To exchange two axes of size n is to exchange `n (n - 1) / 2` pairs of entries, for all indices of others."""
        sign, value = self._product.logdet()
        order = list(self._order)
        for axis, n in enumerate(self._dims):
            while order[axis] != axis:
                other = order[axis]
                order[axis], order[other] = order[other], other
                sign *= (-1) ** (n * (n - 1) // 2 * (self.size // n**2))
        return sign, value

    def is_definite(self) -> bool:
        """`u'A v u'B v` is zero for some u and v, so that no product is."""
        if not isinstance(self._product, KroneckerProduct):
            raise UnreliableError("whether a permuted sum is definite is not seen from its parts")
        moved = [n for axis, n in enumerate(self._dims) if self._order[axis] != axis]
        return max(moved) == 1 and self._product.is_definite()

    def inverse(self) -> list[Term]:
        half = len(self._dims)
        found = self._product.inverse()
        return [replace(t, output=tuple([t.output[k] for k in self._back]) + t.output[half:]) for t in found]

    def cholesky(self) -> list[Term]:
        raise EindiffError("there is no Cholesky factor: the operator is not positive definite", "systems")
