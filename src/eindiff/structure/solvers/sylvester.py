"""Squares of Sylvester operators, the Hessians of `‖A X + X B − C‖²`: two Sylvester equations by Schur decompositions.

With `K = F ⊗ I + I ⊗ G`, which takes X to `F X + X G'`, the operator is

    K' K = F'F ⊗ I + F' ⊗ G + F ⊗ G' + I ⊗ G'G.

That its first and its last matrix are those squares is seen in the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import get_lapack_funcs, schur

from eindiff.structure.axes import Core
from eindiff.structure.solvers.banded import random_signs
from eindiff.structure.solvers.kronecker import Kronecker, Product, by_sides
from eindiff.structure.solvers.solver import singular
from eindiff.structure.terms import Array

EQUAL = 1e3  # times the precision that matrices which are the same may differ by


class SylvesterSquare(Kronecker):
    """`K' K` with `K = F ⊗ I + I ⊗ G`."""

    word = "Kronecker sum"
    method = "two Sylvester equations, by Schur decompositions"
    is_exact = False

    def __init__(
        self, core: Core, groups: Sequence[tuple[int, ...]], products: Sequence[Product], F: Array, G: Array
    ) -> None:
        super().__init__(core, groups, products)
        self._F, self._G = F, G
        m, n = len(F), len(G)
        self.formula = f"K' K with K = core({m}×{m}) ⊗ I({n}) + I({m}) ⊗ core({n}×{n})"
        self.flops = 30.0 * (m**3 + n**3) + 8.0 * m * n * (m + n)
        self.nbytes = 8 * (m**2 + n**2) * core.dtype.itemsize

    @cached_property
    def _triangular(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        return schur(self._F), schur(self._G.T)

    @cached_property
    def _roots(self) -> Array:
        """The eigenvalues of K."""
        return np.add.outer(np.linalg.eigvals(self._F), np.linalg.eigvals(self._G))

    def _solved(self, y: Array, is_transposed: bool) -> Array:
        """X with `F X + X G' = Y`, or with `F' X + X G = Y`."""
        (T, U), (S, V) = self._triangular
        [trsyl] = get_lapack_funcs(("trsyl",), (T, S, y))
        x, scale, failed = trsyl(T, S, U.T @ y @ V, **({"trana": "T", "tranb": "T"} if is_transposed else {}))
        if failed or not scale:
            raise singular("the system is singular: the two matrices have eigenvalues that add up to zero")
        return U @ x @ V.T / scale

    def solve(self, b: Array) -> Array:
        columns = self._grouped(b)
        found = [self._solved(self._solved(columns[..., k], True), False) for k in range(columns.shape[-1])]
        return self._ungrouped(np.stack(found, axis=-1))

    def norms(self) -> tuple[float, float]:
        parts = (float(np.linalg.norm(self._F)) + float(np.linalg.norm(self._G))) ** 2
        signs = random_signs(self.size, self._core.dtype)
        return parts, float(np.linalg.norm(self.solve(signs[None])))

    def logdet(self) -> tuple[float, float]:
        return 1.0, 2 * float(np.log(np.abs(self._roots)).sum())

    def is_definite(self) -> bool:
        return bool(np.abs(self._roots).min() > 0)


def sylvester_square(
    core: Core, groups: Sequence[tuple[int, ...]], products: Sequence[Product], matrices: Sequence[dict]
) -> SylvesterSquare | None:
    """The solver for a sum of products that is such a square; `matrices` are those of each group, by key."""
    if len(groups) != 2 or len(products) != 4:
        return None
    sides = by_sides(products)
    first, last, mixed = sides[True, False], sides[False, True], sides[True, True]
    if (len(first), len(last), len(mixed)) != (1, 1, 2):
        return None
    P, Q = (p.coefficient * matrices[g][p.factors[g].key] for g, p in ((0, first[0]), (1, last[0])))
    (M, N), (M2, N2) = ([matrices[g][p.factors[g].key] for g in range(2)] for p in mixed)
    c = mixed[0].coefficient
    if not np.isclose(mixed[1].coefficient * _multiple(M2, M.T) * _multiple(N2, N.T), c, rtol=1e-12, atol=0.0):
        return None
    for F, G in ((M, N.T), (M.T, N)):
        s, t = _multiple(P, F.T @ F), _multiple(Q, G.T @ G)
        if s > 0 and t > 0 and abs(c * c - s * t) <= EQUAL * np.finfo(core.dtype).eps * s * t:
            root = float(np.sqrt(s))
            return SylvesterSquare(core, groups, products, root * F, c / root * G)
    return None


def _multiple(one: Array, other: Array) -> float:
    """The number by which another matrix is one; 0 if there is none."""
    square = float(np.vdot(other, other))
    factor = float(np.vdot(one, other)) / square if square else 0.0
    return factor if are_equal(one, factor * other) else 0.0


def are_equal(one: Array, other: Array) -> bool:
    """Whether matrices differ by no more than rounding errors."""
    size = float(np.linalg.norm(one)) + float(np.linalg.norm(other))
    return bool(np.linalg.norm(one - other) <= EQUAL * np.finfo(one.dtype).eps * size)
