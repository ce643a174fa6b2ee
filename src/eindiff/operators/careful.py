"""The best way to solve that works: what less stable ways find is tested, and if need be the next way is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from eindiff.operators import solver as limits
from eindiff.operators.grid import Grid
from eindiff.operators.iterative import Iterative
from eindiff.operators.solver import SingularError, Solver, UnreliableError
from eindiff.operators.terms import Array

Answer = TypeVar("Answer")

# Residuals, in units of rounding errors of the product: what ends refinement, what a solution may have in the end, and
# what a way may leave at the first try whose determinant is believed.
WANTED, ALLOWED, TRUSTED = 4.0, 100.0, 1e4
REFINEMENTS = 3


class Careful:
    """Several ways to solve with one operator, of which the first good one is used.

    Factorizations of matrices are backward stable: what they say is so. Identities such as Woodbury's fail where a part
    of the operator is nearly singular and the whole is not.
    """

    def __init__(self, ways: Sequence[Solver], grid: Grid) -> None:
        self._ways = [one for one in ways if one.nbytes <= limits.LIMIT or isinstance(one, Iterative)] or list(ways[:1])
        self._grid = grid
        self._tested: set[Solver] = set()
        self._error: SingularError | UnreliableError | None = None

    @property
    def chosen(self) -> Solver:
        """The way that is used."""
        return self._ways[0]

    def solve(self, b: Array) -> Array:
        """The solutions for the columns of b."""
        return self._first_good(lambda one: self._refined(one, b))

    def ask(self, question: Callable[[Solver], Answer]) -> Answer:
        """The answer of the first way that can be trusted."""
        return self._first_good(lambda one: question(self._trusted(one)))

    def _first_good(self, question: Callable[[Solver], Answer]) -> Answer:
        while True:
            try:
                return question(self.chosen)
            except (SingularError, UnreliableError) as error:
                self._error = self._error or error
                if self.chosen.is_exact and isinstance(error, SingularError):
                    raise
                if len(self._ways) == 1:
                    raise self._error from None
                del self._ways[0]

    def _trusted(self, one: Solver) -> Solver:
        """A way that has solved something well at once."""
        if one not in self._tested and not one.is_exact:
            b = np.random.default_rng(0).normal(size=(one.size, 1)).astype(self._grid.dtype)
            self._require(self._error_of(one.solve(b), b)[0], TRUSTED, one)
        self._tested.add(one)
        return one

    def _refined(self, one: Solver, b: Array) -> Array:
        """The solution, with what is left solved for again."""
        x = one.solve(b)
        if one.is_exact:
            return x
        for _ in range(REFINEMENTS):
            error, residual = self._error_of(x, b)
            if not np.isfinite(error) or error <= WANTED:
                break
            x = x + one.solve(residual)
        else:
            error, _ = self._error_of(x, b)
        self._require(error, ALLOWED, one)
        return x

    def _error_of(self, x: Array, b: Array) -> tuple[float, Array]:
        """The largest residual of a column, in units of rounding errors of the product; and all residuals."""
        residual = b - self._grid.apply(x)
        size = self._magnitude * np.linalg.norm(x, axis=0) + np.linalg.norm(b, axis=0)
        errors = np.linalg.norm(residual, axis=0)[size > 0] / size[size > 0]
        if not np.isfinite(x).all():
            return np.inf, residual
        return float(errors.max(initial=0.0) / np.finfo(self._grid.dtype).eps), residual

    @cached_property
    def _magnitude(self) -> float:
        return self._grid.magnitude()

    def _require(self, error: float, allowed: float, one: Solver) -> None:
        if not error <= allowed:
            raise UnreliableError(f"{one.method}: too inaccurate, since a part of the system is badly conditioned")
