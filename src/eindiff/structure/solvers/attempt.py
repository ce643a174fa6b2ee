"""Conjugate gradients that are tried before a large factorization, for a part of what that would take."""

from __future__ import annotations

import numpy as np

from eindiff.structure.grid import Grid
from eindiff.structure.solvers.iterative import ENTRY_COST, Iterative
from eindiff.structure.solvers.iterative import LEAST_SHARE as COARSE
from eindiff.structure.solvers.solver import Known, Solver, UnreliableError
from eindiff.structure.terms import Array

PART = 0.25  # of a factorization, for the first system
FEWEST = 20.0  # steps that are worth a try
LARGE = 1e9  # operations of a factorization that something else is tried before
ROUNDINGS = 1e3  # rounding errors in each entry of a random side


class Attempt(Iterative):
    """Conjugate gradients, as long as all steps together take less than the factorization that they spare.

    Whether the operator is positive definite is found with a random side: a direction in which it is not would be left
    in the residual, and that is small only with a probability that is as small.
    """

    def __init__(self, grid: Grid, facts: Known, instead: Solver) -> None:
        super().__init__(grid, facts)
        self.word, self.formula = instead.word, instead.formula
        self._steps = instead.flops / max(1.0, ENTRY_COST * grid.entry_count)
        self.method = f"preconditioned conjugate gradients, for at most {PART * self._steps:.0f} steps"
        self.flops = PART * instead.flops
        self.first_residual = 0.0
        self.share = min(COARSE, ROUNDINGS * float(np.finfo(grid.dtype).eps * np.sqrt(self.size)))
        self._taken = self._each = 0
        self._allowed = PART * self._steps

    @property
    def is_worth_it(self) -> bool:
        """Whether so many steps may be taken that some systems are solved by these."""
        return self._allowed >= FEWEST

    def _apply(self, x: Array) -> Array:
        self._taken += 1
        if self._taken > self._allowed:
            raise UnreliableError(f"conjugate gradients have not converged in {self._allowed:.0f} steps")
        return super()._apply(x)

    def norms(self) -> tuple[float, float]:
        if not self._is_definite:
            raise UnreliableError("conjugate gradients need a positive definite system")
        found = super().norms()
        self._each, self._allowed = self._taken, self._steps
        return found

    def solve(self, b: Array) -> Array:
        if b.shape[1] * self._each > self._allowed - self._taken:
            raise UnreliableError("for so many right-hand sides a factorization is cheaper than conjugate gradients")
        return super().solve(b)
