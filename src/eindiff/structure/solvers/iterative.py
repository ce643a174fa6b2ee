"""Krylov methods, which need nothing but products with vectors: for what is too large for any factorization."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import prod

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg, gmres, minres

from eindiff.structure.axes import Layout
from eindiff.structure.diagonals import Diagonals
from eindiff.structure.grid import Grid
from eindiff.structure.quotients import BlockDiagonal, BlockMatrix, Quotient
from eindiff.structure.solvers.kronecker import groups_of_axes, products_of, products_with
from eindiff.structure.solvers.solver import LIMIT, Known, NoAnswerError, SingularError, Solver, UnreliableError
from eindiff.structure.terms import Array

FIRST_RESIDUAL = 1e-12  # of the first residual, relative to the right-hand side
ALLOWED = 50.0  # the residual of a solution, in units of rounding errors
LEAST_SHARE = 0.00002  # less than about the least part that a random vector has in any direction, in units of ALLOWED
MINRES = 1e-2
MOST_ITERATIONS = 2000
EXPECTED_STEPS, ENTRY_COST = 500, 40.0  # and operations for an entry in each, in units of those of dense products
FASTER = 4.0  # times as many operations in a product with a sparse matrix that is formed take as long as with terms
ROUNDS = 4  # what is left is solved for again, since the methods only estimate their residual


class Iterative(Solver):
    """Conjugate gradients for a positive definite operator, MINRES for a symmetric one, GMRES for any other."""

    word = formula = "sum"
    method = "preconditioned conjugate gradients, MINRES or GMRES, on products with vectors"
    first_residual, share = FIRST_RESIDUAL, LEAST_SHARE

    def __init__(self, grid: Grid, facts: Known, near: Solver | None = None) -> None:
        self.size, _ = grid.shape
        self.nbytes = 10.0 * self.size * grid.dtype.itemsize
        self._grid = grid
        self._facts = facts
        self._near = near  # solves with a simpler operator
        self.has_places = any(term.places for term in grid.all_terms)
        self.flops = grid.flops * MOST_ITERATIONS
        if self.has_places:
            self.flops = EXPECTED_STEPS * ENTRY_COST * grid.entry_count
            self.nbytes += min(LIMIT, grid.entry_count * grid.dtype.itemsize)

    @cached_property
    def _formed(self) -> Callable[[Array], Array] | None:
        """Products by diagonals, in blocks, or from two sides, where these are faster than those with the terms."""
        grid = self._grid
        if not self.has_places:
            return _of_two_sides(grid)
        diagonals = Diagonals.of(grid)
        count = len(diagonals.offsets) * self.size if diagonals else Quotient(grid).graph.nonzeros
        if 2 * count > FASTER * grid.flops or count * grid.dtype.itemsize > LIMIT:
            return None
        return diagonals.matrix(grid).dot if diagonals else BlockMatrix(Quotient(grid)).apply

    @cached_property
    def _symmetric(self) -> bool:
        return probably_symmetric(self._grid) if self._facts.symmetric is None else self._facts.symmetric

    @cached_property
    def _method(self) -> Callable:
        """Conjugate gradients, if they can be used."""
        return cg if self._facts.psd or self._is_definite else minres if self._symmetric else gmres

    @cached_property
    def _precondition(self) -> Callable[[Array], Array]:
        """The solver of a simpler operator that is positive definite, or else of the diagonal, in blocks or not."""
        near = self._near
        if self.has_places and self._symmetric:
            return BlockDiagonal(Quotient(self._grid)).solve
        if near is not None and _is_definite(near):
            return lambda x: near.solve(x.reshape(-1, 1))[:, 0]
        diagonal = np.abs(self._grid.diagonal())
        diagonal[diagonal == 0] = 1
        return lambda x: x.reshape(-1) / diagonal

    def _apply(self, x: Array) -> Array:
        return self._product(x)

    def _product(self, x: Array) -> Array:
        if self._formed is not None:
            return self._formed(x.reshape(-1))
        return self._grid.apply(x.reshape(-1, 1))[:, 0]

    def solve(self, b: Array) -> Array:
        return np.stack([self._column(column) for column in b.T], axis=1)

    def _column(self, b: Array) -> Array:
        if not b.any():
            return np.zeros_like(b)
        eps = float(np.finfo(self._grid.dtype).eps)
        norm = float(np.linalg.norm(b))
        x, reached = self._rounds(b, lambda x: eps * (self._magnitude * float(np.linalg.norm(x)) + norm))
        if not reached <= ALLOWED:
            raise self._failure(f"a residual of {reached:.0e} times the rounding errors")
        return x

    def _rounds(self, b: Array, unit: Callable[[Array], float], start: Array | None = None) -> tuple[Array, float]:
        """A solution, and its residual in units that depend on it: what is left is solved for again."""
        x, residual = (np.zeros_like(b), b) if start is None else (start, b - self._apply(start))
        wanted = max(self.first_residual * float(np.linalg.norm(b)), ALLOWED / 2 * unit(x))
        if np.linalg.norm(residual) <= wanted:
            return x, float(np.linalg.norm(residual)) / unit(x)
        for _ in range(ROUNDS):
            x = x + self._step(residual, wanted)
            residual, wanted = b - self._apply(x), ALLOWED / 2 * unit(x)
            if np.linalg.norm(residual) <= 2 * wanted:
                break
        return x, float(np.linalg.norm(residual)) / unit(x)

    def _step(self, b: Array, tolerance: float) -> Array:
        """What the method finds for one right-hand side, until it believes its residual to be small."""
        shape, dtype = (self.size, self.size), self._grid.dtype
        matrix, preconditioner = (LinearOperator(shape, f, dtype=dtype) for f in (self._apply, self._precondition))
        rtol = tolerance / float(np.linalg.norm(b))
        if self._method is minres:  # its tolerance is relative to norms of operator and solution
            rtol = max(rtol * MINRES, float(np.finfo(dtype).eps))
        if self._method is cg:
            return conjugate_gradients(self._apply, self._precondition, b, tolerance)[0]
        return self._method(matrix, b, rtol=rtol, maxiter=MOST_ITERATIONS, M=preconditioner)[0]

    @cached_property
    def _magnitude(self) -> float:
        return self._grid.magnitude(self._product)

    def _failure(self, reached: str) -> UnreliableError:
        return UnreliableError(
            f"{self._method.__name__} reached {reached} only: the system may be singular or badly conditioned; "
            "give it damping=..."
        )

    def norms(self) -> tuple[float, float]:
        """Of the inverse about, by a system with a random right-hand side.

        Singular systems that happen to have solutions are found out: no solution gets near to the random one.
        """
        start, is_positive = self._random
        x, reached = self._rounds(self._random_side, lambda x: self.share, start if is_positive else None)
        if not reached <= ALLOWED:
            raise self._failure(f"a residual of {reached * self.share:.0e} for a random right-hand side")
        parts = self._grid.changed(lambda terms: [term.absolute() for term in terms])
        sums = parts.apply(np.ones((self.size, 1), self._grid.dtype))
        return float(sums.max(initial=0.0)), float(np.linalg.norm(x))

    def logdet(self) -> tuple[float, float]:
        raise NoAnswerError("the operator is too large for its determinant: no structure of it gives one", "systems")

    def is_definite(self) -> bool:
        return self._is_definite

    @property
    def _is_definite(self) -> bool:
        """Whether conjugate gradients for a random side meet no direction in which the operator is not positive."""
        return self._symmetric and self._random[1]

    @property
    def _random_side(self) -> Array:
        return np.random.default_rng(0).normal(size=self.size).astype(self._grid.dtype)

    @cached_property
    def _random(self) -> tuple[Array, bool]:
        return conjugate_gradients(self._apply, self._precondition, self._random_side, ALLOWED / 2 * self.share)


def conjugate_gradients(
    apply: Callable[[Array], Array], precondition: Callable[[Array], Array], b: Array, tolerance: float
) -> tuple[Array, bool]:
    """What is found for a residual of some norm, and whether the operator was positive along all directions."""
    x, residual = np.zeros_like(b), b.copy()
    direction, square = np.zeros_like(b), 1.0
    for _ in range(MOST_ITERATIONS):
        if np.linalg.norm(residual) <= tolerance:
            break
        turned = precondition(residual)
        square, before = float(residual @ turned), square
        direction *= square / before
        direction += turned
        image = apply(direction)
        curvature = float(direction @ image)
        if not curvature > 0:
            return x, False
        x += square / curvature * direction
        residual -= square / curvature * image
    return x, True


def _of_two_sides(grid: Grid) -> Callable[[Array], Array] | None:
    """Products with a sum of Kronecker products of two matrices."""
    if len(grid.rows) != 1:
        return None
    [dims], [[terms]] = grid.rows, grid.terms
    core = Layout.of(dims, terms).core(terms, grid.dtype)
    groups = groups_of_axes(core) if core.dims == dims else []
    if len(groups) != 2 or [axis for group in groups for axis in group] != list(range(len(dims))):
        return None
    rows, columns = (prod(dims[axis] for axis in group) for group in groups)
    return products_with(products_of(core, groups), (rows, columns), grid.dtype)


def _is_definite(solver: Solver) -> bool:
    try:
        return solver.is_definite()
    except (SingularError, UnreliableError):
        return False


def probably_symmetric(grid: Grid) -> bool:
    """Whether `u'Hv = v'Hu` for random vectors."""
    u, v = np.random.default_rng(0).normal(size=(2, grid.shape[0], 2)).astype(grid.dtype)
    Hu, Hv = grid.apply(u), grid.apply(v)
    largest = max(np.abs(Hu).max(initial=0.0), np.abs(Hv).max(initial=0.0))
    if largest and not 1e-100 < largest < 1e100:  # squares of these would be zero or infinite
        Hu, Hv = Hu / largest, Hv / largest
    scale = np.linalg.norm(u) * np.linalg.norm(Hv) + np.linalg.norm(v) * np.linalg.norm(Hu)
    return bool(np.abs(u.T @ Hv - (v.T @ Hu).T).max() <= 1000 * np.finfo(grid.dtype).eps * scale)
