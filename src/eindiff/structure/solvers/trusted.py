"""The best way to solve that works: whether a way can be trusted is tested, and if need be the next one is taken.

A solution is as good as its residual is small, and a system is singular to working precision if errors as large as
those of rounding change its solution by more than the solution. Most systems are far from that: then a bound on the
condition that costs next to nothing, from norms of what a solver has computed anyway, says so. Others are looked at
closely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from eindiff.structure.grid import Grid
from eindiff.structure.solvers import solver as limits
from eindiff.structure.solvers.blocks import Matrices
from eindiff.structure.solvers.iterative import Iterative
from eindiff.structure.solvers.solver import NoAnswerError, SingularError, Solver, UnreliableError, singular
from eindiff.structure.terms import Array

Answer = TypeVar("Answer")

# Residuals, in units of rounding errors of the product: what ends refinement, what a solution may have in the end, and
# what a way may leave at the first try whose determinant is believed.
WANTED, ALLOWED, TRUSTED = 4.0, 30.0, 1e4
REFINEMENTS = 3
CLEAR = 1000.0  # a condition that is this much smaller than the reciprocal of the precision needs no closer look
NOISE = 10.0  # rounding errors that are assumed of each entry, when it is looked at closely
ENTRY_CHANGE = 2.0  # how much an entry may change, relative to its size
TERM_CHANGE = 100.0  # and of a whole term: its entries have factors in common
TRIED_SIDES = 8  # right-hand sides, and noise for each of them


class Careful:
    """Several ways to solve with one operator, of which the first good one is used.

    Factorizations of matrices are backward stable: what they say is so. Identities such as Woodbury's fail where a part
    of the operator is nearly singular and the whole is not.
    """

    def __init__(self, ways: Sequence[Solver], grid: Grid) -> None:
        self._ways = [one for one in ways if one.nbytes <= limits.LIMIT or isinstance(one, Iterative)] or list(ways[:1])
        self._grid = grid
        self._doubtful: dict[Solver, bool] = {}  # those that are tested, and whether all solutions are refined
        self._failed: SingularError | UnreliableError | None = None  # what no way can do
        self._errors: dict[Solver, float] = {}
        self._error: SingularError | UnreliableError | None = None

    @property
    def chosen(self) -> Solver:
        """The way that is used."""
        return self._ways[0]

    def solve(self, b: Array) -> Array:
        """The solutions for the columns of b."""
        while True:
            one = self._trusted()
            try:
                return self._refined(one, b, self._doubtful[one])
            except UnreliableError as error:
                self._drop(error)

    def ask(self, question: Callable[[Solver], Answer], allowed: float = TRUSTED) -> Answer:
        """The answer of the first way that can be trusted without refinement, and has one."""
        one = self._trusted()
        try:
            if not self._first_error(one) <= allowed:
                raise UnreliableError(f"{one.method}: too inaccurate, since a part of the system is badly conditioned")
            return question(one)
        except (UnreliableError, NoAnswerError):
            if len(self._ways) == 1:
                raise
        return self._others.ask(question, allowed)

    def eigvals(self) -> Array:
        """The eigenvalues, of the first way that gives them."""
        for one in self._ways[:-1]:
            try:
                return one.eigvals()
            except NoAnswerError:
                continue
        return self._ways[-1].eigvals()

    @cached_property
    def _others(self) -> Careful:
        return Careful(self._ways[1:], self._grid)

    def _first_error(self, one: Solver) -> float:
        """The error of a solution that is not refined."""
        if one.is_exact:
            return 0.0
        if one not in self._errors:
            b = np.random.default_rng(0).normal(size=(one.size, 1)).astype(self._grid.dtype)
            self._errors[one] = self._error_of(one, one.solve(b), b, self._grid)[0]
        return self._errors[one]

    def _trusted(self) -> Solver:
        """The first way that is good enough."""
        if self._failed is not None:
            raise self._failed.with_traceback(None)
        while self.chosen not in self._doubtful:
            try:
                self._doubtful[self.chosen] = self._is_doubtful(self.chosen)
            except (SingularError, UnreliableError) as error:
                self._drop(error)
        return self.chosen

    def _drop(self, error: SingularError | UnreliableError) -> None:
        """Go on with the next way, unless there is none or the error is certain."""
        if self._error is None or isinstance(error, SingularError):
            self._error = error
        is_dense = isinstance(getattr(self.chosen, "core", self.chosen), Matrices)
        is_final = isinstance(error, SingularError) and (is_dense or self.chosen.is_exact or error.is_certain)
        if is_final or len(self._ways) == 1:
            self._failed = self._error if self.chosen not in self._doubtful else None
            raise self._error from None
        del self._ways[0]

    # Whether the system can be solved

    @np.errstate(all="ignore")  # what is not finite is looked for
    def _is_doubtful(self, one: Solver) -> bool:
        """Whether a way needs its solutions refined; one that cannot solve the system is an error."""
        bound = one.condition()
        if bound * self._eps * CLEAR <= 1:  # inverses that are as good as their matrices need no closer look either
            return not one.uses_inverses and bound * self._grid.inverse_condition() * self._eps * CLEAR > 1
        b = np.random.default_rng(0).normal(size=(one.size, TRIED_SIDES)).astype(self._grid.dtype)
        if not np.isfinite(bound):
            raise self._singular(np.inf, one.solve(b))
        x = self._refined(one, b, True)
        noise = self._noise(x, b)
        change = one.solve(np.hstack(noise))
        spread = _spread(one.sizes_of(change), one.sizes_of(x))
        if not max(spread, _spread(change, x) / ENTRY_CHANGE) < 1:
            found = self._magnitude * (np.linalg.norm(change, axis=0) / np.linalg.norm(np.hstack(noise), axis=0)).max()
            raise self._singular(found, change)
        return True

    def _singular(self, condition: float, x: Array) -> SingularError:
        error = singular(f"the system is singular to working precision (condition about {condition:.0e})")
        error.is_certain = self._is_null(x)
        return error

    def _noise(self, x: Array, b: Array) -> list[Array]:
        """What rounding errors may do to the residuals: errors of single entries, and those that whole terms have."""
        random = np.random.default_rng(1)
        residual = np.abs(b - self._extended.apply(x)).astype(x.dtype)
        size = NOISE * (self._eps * (self._absolute.apply(np.abs(x)) + np.abs(b)) + residual)
        entries = [size * random.choice([-1, 1], size=x.shape) for _ in range(TRIED_SIDES)]
        terms = [TERM_CHANGE * self._eps * part for part in self._grid.products(x) if part.any()]
        return [part.astype(b.dtype) for part in entries + terms]

    def _is_null(self, x: Array) -> bool:
        """Whether the operator takes a vector to nothing but rounding errors."""
        if not np.isfinite(x).all():
            return False
        x = x / np.maximum(np.abs(x).max(axis=0), np.finfo(x.dtype).tiny)  # useless ones may be huge
        sizes = np.linalg.norm(self._absolute.apply(np.abs(x)), axis=0)
        return bool((np.linalg.norm(self._extended.apply(x), axis=0) <= TERM_CHANGE * self._eps * sizes).any())

    # Refinement

    def _refined(self, one: Solver, b: Array, doubtful: bool) -> Array:
        """The solution, with what is left solved for again: the residual is in higher precision where that helps."""
        if one.is_exact and not doubtful:
            return one.solve(b)
        return self._improved(one, b, doubtful)

    @np.errstate(all="ignore")
    def _improved(self, one: Solver, b: Array, doubtful: bool) -> Array:
        x = one.solve(b)
        if not doubtful:
            x, error = self._corrected(one, x, b, self._grid)
            if error <= ALLOWED:
                return x
        x, error = self._corrected(one, x, b, self._extended)
        if not error <= ALLOWED:
            if one.is_exact or not one.condition() * self._eps < 1:
                raise singular(f"the system is singular to working precision (condition about {one.condition():.0e})")
            raise UnreliableError(f"{one.method}: the residual is {error:.0e} times as large as rounding errors")
        return x

    def _corrected(self, one: Solver, x: Array, b: Array, grid: Grid) -> tuple[Array, float]:
        """The best solution of a few, and its error."""
        best, least = x, np.inf
        for step in range(REFINEMENTS + 1):
            error, residual = self._error_of(one, x, b, grid)
            if not error < least:
                break
            best, least = x, error
            if error <= WANTED or step == REFINEMENTS:
                break
            x = x + one.solve(residual)
        return best, least

    def _error_of(self, one: Solver, x: Array, b: Array, grid: Grid) -> tuple[float, Array]:
        """The largest residual of a column, in units of rounding errors of the product; and all residuals."""
        residual = (b - grid.apply(x)).astype(x.dtype, copy=False)
        norm = one.norm()
        size = (self._magnitude if norm is None else norm) * np.linalg.norm(x, axis=0) + np.linalg.norm(b, axis=0)
        errors = np.linalg.norm(residual, axis=0)[size > 0] / size[size > 0]
        if not np.isfinite(x).all():
            return np.inf, residual
        return float(errors.max(initial=0.0) / self._eps), residual

    @cached_property
    def _magnitude(self) -> float:
        return self._grid.magnitude()

    @property
    def _eps(self) -> float:
        return float(np.finfo(self._grid.dtype).eps)

    @cached_property
    def _extended(self) -> Grid:
        """The operator in a higher precision."""
        return self._grid.astype(np.dtype(np.float64 if self._grid.dtype.itemsize < 8 else np.longdouble))

    @cached_property
    def _absolute(self) -> Grid:
        """The sum of the absolute values of what is added up in each entry, or more."""
        return self._grid.changed(lambda terms: [term.absolute() for term in terms])


def _spread(change: Array, x: Array) -> float:
    """The largest change of a row, relative to its size in all samples: by random noise, or by noise of one kind."""
    shares = (change.reshape(len(x), -1, TRIED_SIDES) ** 2).mean(axis=2) / (x**2).mean(axis=1)[:, None]
    return float(np.sqrt(max(shares[:, :TRIED_SIDES].mean(axis=1).max(), shares[:, TRIED_SIDES:].max(initial=0.0))))
