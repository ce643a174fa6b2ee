"""Several variables: solved one by one where nothing connects them, else by a Schur complement.

With `H = [[A, B], [C, D]]` and A easy to solve with (many small blocks, say), D is the dense block of an arrowhead:
`S = D − C A^-1 B` is as small as D, `y = S^-1 (g − C A^-1 f)` and `x = A^-1 (f − B y)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from eindiff.structure.grid import Grid, starts
from eindiff.structure.solvers.dense import Factorization, factorize
from eindiff.structure.solvers.solver import Known, Solver
from eindiff.structure.terms import Array


class Separate(Solver):
    """Variables that nothing connects."""

    word = "block diagonal"

    def __init__(self, solvers: Sequence[Solver]) -> None:
        self.size = sum(one.size for one in solvers)
        self.solvers = solvers
        self.formula = " ⊕ ".join(f"({one.formula})" if " + " in one.formula else one.formula for one in solvers)
        self.method = "; ".join(dict.fromkeys(one.method for one in solvers))
        self.flops = sum(one.flops for one in solvers)
        self.nbytes = sum(one.nbytes for one in solvers)

    @property
    def is_exact(self) -> bool:
        """Whether all are."""
        return all(one.is_exact for one in self.solvers)

    def norms(self) -> tuple[float, float]:
        parts, inverses = zip(*(one.norms() for one in self.solvers), strict=True)
        return max(parts), max(inverses)

    def condition(self) -> float:
        return max(one.condition() for one in self.solvers)

    def sizes_of(self, x: Array) -> Array:
        return np.concatenate([one.sizes_of(part) for one, part in self._parts(x)])

    def _parts(self, x: Array) -> list[tuple[Solver, Array]]:
        ends = np.cumsum([one.size for one in self.solvers])
        return list(zip(self.solvers, np.split(x, ends[:-1]), strict=True))

    def solve(self, b: Array) -> Array:
        return np.concatenate([one.solve(part) for one, part in self._parts(b)])

    def logdet(self) -> tuple[float, float]:
        found = [one.logdet() for one in self.solvers]
        return float(np.prod([sign for sign, _ in found])), sum(value for _, value in found)

    def is_definite(self) -> bool:
        return all(one.is_definite() for one in self.solvers)

    def eigvals(self) -> Array:
        return np.concatenate([one.eigvals() for one in self.solvers])


class Schur(Solver):
    """An arrowhead: some variables are eliminated with their structure, the others are solved for densely."""

    word = "arrowhead"
    is_exact = False

    def __init__(self, grid: Grid, first: Sequence[int], solver: Solver, facts: Known) -> None:
        self.size, _ = grid.shape
        rest = [k for k in range(len(grid.rows)) if k not in first]
        self._solver = solver
        self._symmetric = facts.symmetric
        places = [np.arange(a, b) for a, b in zip(starts(grid.rows), starts(grid.rows)[1:], strict=False)]
        self._first, self._rest = (np.concatenate([places[k] for k in chosen]) for chosen in (first, rest))
        self._B, self._C, self._D = grid.block(first, rest), grid.block(rest, first), grid.block(rest, rest)
        small = len(self._rest)
        self.formula = f"arrowhead of {solver.formula} and core({small}×{small})"
        self.method = f"Schur complement of {small} rows, with {solver.method}"
        self.flops = solver.flops * (1 + small / 4) + 2 * solver.size * small**2 + small**3
        self.nbytes = solver.nbytes + 2 * (solver.size * small + small**2) * grid.dtype.itemsize

    @cached_property
    def _beside(self) -> Array:
        return self._B.dense()

    @cached_property
    def _solved(self) -> Array:
        """`A^-1 B`"""
        return self._solver.solve(self._beside)

    @cached_property
    def _corner(self) -> tuple[Array, float]:
        return self._D.dense_and_size()

    @cached_property
    def _factorization(self) -> Factorization:
        complement = self._corner[0] - self._C.apply(self._solved)
        return factorize(complement[None], self._symmetric)

    def norms(self) -> tuple[float, float]:
        """`[[I, −A^-1 B], [0, I]] [[A^-1, 0], [0, S^-1]] [[I, 0], [−C A^-1, I]]` is the inverse."""
        parts, inverse = self._solver.norms()
        above, right = float(np.linalg.norm(self._beside)), float(np.linalg.norm(self._solved))
        below = above if self._symmetric else float(np.linalg.norm(self._C.dense()))
        left = right if self._symmetric else below * inverse
        small = float(self._factorization.inverse_norms[0])
        return parts + above + below + self._corner[1], inverse + (1 + left) * (1 + right) * small

    def solve(self, b: Array) -> Array:
        x = self._solver.solve(b[self._first])
        y = self._factorization.solve((b[self._rest] - self._C.apply(x))[None])[0]
        result = np.empty_like(b, dtype=np.result_type(x, y))
        result[self._first] = x - self._solved @ y
        result[self._rest] = y
        return result

    def logdet(self) -> tuple[float, float]:
        (sign, value), (other_sign, other) = self._solver.logdet(), self._factorization.logdet()
        return sign * other_sign, value + other

    def is_definite(self) -> bool:
        return self._solver.is_definite() and self._factorization.is_definite
