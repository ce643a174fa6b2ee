"""Hessians of functions of states that constraints determine: Schur complements, which are dense and never formed.

With states s that `c(x, s) = 0` determines, `f(x, s(x))` has the Hessian of the Lagrangian `f + λ'c` by x, s and λ,
with s and λ eliminated. That one is as sparse as what was written (block tridiagonal for a recurrence), so a product
takes one solution by states and multipliers, and a solution is one of the whole system.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from eindiff.structure.derivative import Derivative, from_matrix
from eindiff.structure.grid import Grid
from eindiff.structure.solvers.dense import factorize
from eindiff.structure.solvers.solver import Known, Solver, diagonal_of
from eindiff.structure.terms import Array, Term, identity

MOST_FORMED = 1000  # rows of a matrix that is formed to see whether it is definite
PENALTIES = (1e2, 1e5, 1e8)  # on constraints, relative to the whole, for which a larger matrix is looked at


class Eliminated(Derivative):
    """The Hessian by the first `kept` variables of a whole one; the others are states and as many multipliers."""

    def __init__(self, whole: Derivative, kept: int) -> None:
        self.whole, self.kept = whole, kept
        super().__init__(whole._given.block(range(kept), range(kept)), Known(symmetric=True), whole.name)

    @property
    def terms(self) -> list[Term]:
        """The terms of the whole."""
        return self.whole.terms

    @property
    def nbytes(self) -> int:
        """The bytes of all different arrays in it."""
        return self.whole.nbytes

    @property
    def blocks(self) -> list[list[Derivative]]:
        """The derivative by each pair of variables: formed, where these are two."""
        count = range(self.kept)
        return [[self._by(i) if i == j else self._formed.blocks[i][j] for j in count] for i in count]

    def _by(self, k: int) -> Derivative:
        which = [k, *self._others]
        return Eliminated(Derivative(self.whole._grid.block(which, which), self.whole._facts, self.name), 1)

    @property
    def T(self) -> Derivative:
        """Itself: it is symmetric."""
        return self

    def damped(self, damping: float) -> Derivative:
        """With a multiple of the identity added, which keeps the structure."""
        grid = self.whole._grid
        for k in range(self.kept) if damping else ():
            grid = grid.with_terms(k, k, [identity(grid.rows[k], float(damping))])
        return Eliminated(Derivative(grid, self.whole._facts, self.name), self.kept) if damping else self

    def __mul__(self, factor: Any) -> Derivative:
        return Eliminated(self.whole * factor, self.kept)

    __rmul__ = __mul__

    def as_matrix(self) -> Array:
        """All entries as a matrix."""
        matrix = self._apply(np.eye(self._grid.shape[0], dtype=self.dtype))
        return (matrix + matrix.T) / 2

    # What needs all entries

    @cached_property
    def _formed(self) -> Derivative:
        return from_matrix(self.as_matrix(), self._grid, Known(symmetric=True), self.name)

    def __add__(self, other: Any) -> Derivative:
        return self._formed + (other._formed if isinstance(other, Eliminated) else other)

    def _times(self, other: Any) -> Derivative:
        return self._formed @ (other._formed if isinstance(other, Eliminated) else other)

    def operator(self, rows: int) -> Derivative:
        """The same tensor with its first `rows` axes as rows and the others as columns."""
        return self._formed.operator(rows)

    def frobenius_norm(self) -> float:
        """The root of the sum of squares of all entries."""
        return self._formed.frobenius_norm()

    def to_csc(self) -> Any:
        """As a sparse matrix of SciPy, which has all entries."""
        return self._formed.to_csc()

    # Inside

    @property
    def _others(self) -> range:
        return range(self.kept, len(self.whole._grid.rows))

    @cached_property
    def _corner(self) -> Derivative:
        """The whole by states and multipliers."""
        return Derivative(self.whole._grid.block(self._others, self._others), Known(symmetric=True), self.name)

    @cached_property
    def _beside(self) -> Grid:
        return self.whole._grid.block(self._others, range(self.kept))

    def _apply(self, flat: Array) -> Array:
        across = self.whole._grid.block(range(self.kept), self._others)
        return self._grid.apply(flat) - across.apply(self._corner._solver(0.0).solve(self._beside.apply(flat)))

    def _entries(self) -> Array:
        return diagonal_of(self._apply, self._grid.shape[0], self.dtype)

    @cached_property
    def _candidates(self) -> list[Solver]:
        return [Elimination(self)]

    @cached_property
    def _described(self) -> tuple[str, str]:
        return Elimination.word, self._candidates[0].formula


class Elimination(Solver):
    """A system with an eliminated Hessian: that of the whole, with nothing on the right for states and multipliers."""

    word = "recurrence"

    def __init__(self, hessian: Eliminated) -> None:
        self._hessian = hessian
        self.size = hessian._grid.shape[0]
        best = hessian.whole._candidates[0]
        self.formula = f"recurrence of {hessian._corner._grid.shape[0] // 2} states in {hessian.whole.structure}"
        self.method, self.flops, self.nbytes = best.method, best.flops, best.nbytes

    def norms(self) -> tuple[float, float]:
        return 1.0, 1.0  # the whole is looked at where it is solved

    def solve(self, b: Array) -> Array:
        zeros = np.zeros((self._hessian.whole._grid.shape[0] - self.size, b.shape[1]), b.dtype)
        return self._hessian.whole._solver(0.0).solve(np.concatenate([b, zeros]))[: self.size]

    def logdet(self) -> tuple[float, float]:
        (sign, value), (other_sign, other) = self._hessian.whole.slogdet(), self._hessian._corner.slogdet()
        return sign * other_sign, value - other

    def is_definite(self) -> bool:
        """By its entries if they are few, else by those of the Lagrangian with a penalty on the constraints."""
        if self.size <= MOST_FORMED:
            return bool(factorize(self._hessian.as_matrix()[None], True).is_definite)
        return any(self._is_convex(penalty) for penalty in PENALTIES)

    def _is_convex(self, penalty: float) -> bool:
        grid, kept = self._hessian.whole._grid, self._hessian.kept
        count = (len(grid.rows) - kept) // 2
        first, multipliers = range(kept + count), range(kept + count, len(grid.rows))
        constraints = Derivative(grid.block(multipliers, first), Known())
        own = grid.block(first, first)
        scale = penalty * max(own.magnitude(), 1e-300) / max(constraints._grid.magnitude(), 1e-300) ** 2
        total = Derivative(own, Known(symmetric=True)) + constraints.T @ constraints * scale
        return Derivative(total._grid, Known(symmetric=True)).is_definite()
