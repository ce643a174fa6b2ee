"""Krylov methods, which need nothing but products with vectors: for what is too large for any factorization."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg, gmres, minres

from eindiff.errors import EindiffError
from eindiff.operators.grid import Grid
from eindiff.operators.solver import Known, SingularError, Solver, UnreliableError
from eindiff.operators.terms import Array

TOLERANCE = 1e-12  # of the residual, relative to the right-hand side
REACHED = 1e-6  # a residual that is larger in the end is an error
STEPS = 2000
PROBES = 50  # steps that look for negative curvature
ROUNDS = 3  # what is left is solved for again, since the methods only estimate their residual


class Iterative(Solver):
    """Conjugate gradients for a positive definite operator, MINRES for a symmetric one, GMRES for any other."""

    word = formula = "sum"
    method = "preconditioned conjugate gradients, MINRES or GMRES, on products with vectors"

    def __init__(self, grid: Grid, facts: Known, near: Solver | None = None) -> None:
        self.size, _ = grid.shape
        self.nbytes = 10 * self.size * grid.dtype.itemsize
        self._grid = grid
        self._facts = facts
        self._near = near  # solves with a simpler operator

    def operations(self) -> float:
        return self._grid.flops * STEPS

    @cached_property
    def _symmetric(self) -> bool:
        return probably_symmetric(self._grid) if self._facts.symmetric is None else self._facts.symmetric

    @cached_property
    def _method(self) -> Callable:
        """Conjugate gradients, if they can be used."""
        return cg if self._facts.psd or self._is_definite else minres if self._symmetric else gmres

    @cached_property
    def _precondition(self) -> Callable[[Array], Array]:
        """The solver of a simpler operator that is positive definite, or else division by the diagonal."""
        near = self._near
        if near is not None and _is_definite(near):
            return lambda x: near.solve(x.reshape(-1, 1))[:, 0]
        diagonal = np.abs(self._grid.diagonal())
        diagonal[diagonal == 0] = 1
        return lambda x: x.reshape(-1) / diagonal

    def _apply(self, x: Array) -> Array:
        return self._grid.apply(x.reshape(-1, 1))[:, 0]

    def solve(self, b: Array) -> Array:
        return np.stack([self._column(column) for column in b.T], axis=1)

    def _column(self, b: Array) -> Array:
        scale = np.linalg.norm(b)
        x = np.zeros_like(b)
        if not scale:
            return x
        dtype = self._grid.dtype
        tolerance = max(TOLERANCE, 10 * float(np.finfo(dtype).eps))
        matrix = LinearOperator((self.size, self.size), self._apply, dtype=dtype)
        preconditioner = LinearOperator((self.size, self.size), self._precondition, dtype=dtype)
        for _ in range(ROUNDS):
            residual = b - self._apply(x)
            if np.linalg.norm(residual) <= tolerance * scale:
                break
            step, _ = self._method(matrix, residual, rtol=tolerance, maxiter=STEPS, M=preconditioner)
            x = x + step
        reached = float(np.linalg.norm(b - self._apply(x)) / scale)
        if not reached < REACHED:
            raise EindiffError(
                f"{self._method.__name__} reached a relative residual of {reached:.1e} only: the system may be "
                "singular or badly conditioned; give it damping=..."
            )
        return x

    def logdet(self) -> tuple[float, float]:
        raise EindiffError("the operator is too large for its determinant: no structure of it gives one")

    def is_definite(self) -> bool:
        return self._is_definite

    @cached_property
    def _is_definite(self) -> bool:
        """Whether conjugate gradients from a random start meet no direction in which the operator is not positive."""
        if not self._symmetric:
            return False
        residual = np.random.default_rng(0).normal(size=self.size)
        direction, square = residual, float(residual @ residual)
        first = square
        for _ in range(PROBES):
            image = self._apply(direction)
            curvature = float(direction @ image)
            if not curvature > 0:
                return False
            residual = residual - square / curvature * image
            square, before = float(residual @ residual), square
            if square <= first * np.finfo(self._grid.dtype).eps:
                break
            direction = residual + square / before * direction
        return True


def _is_definite(solver: Solver) -> bool:
    try:
        return solver.is_definite()
    except (SingularError, UnreliableError):
        return False


def probably_symmetric(grid: Grid) -> bool:
    """Whether `u'Hv = v'Hu` for random vectors."""
    u, v = np.random.default_rng(0).normal(size=(2, grid.shape[0], 2)).astype(grid.dtype)
    Hu, Hv = grid.apply(u), grid.apply(v)
    scale = np.linalg.norm(u) * np.linalg.norm(Hv) + np.linalg.norm(v) * np.linalg.norm(Hu)
    return bool(np.abs(u.T @ Hv - (v.T @ Hu).T).max() <= 1000 * np.finfo(grid.dtype).eps * scale)
