"""Sparse matrices: factorization by SuperLU, where the fill that is expected for the pattern is bearable."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from eindiff.structure.bands import RankedBand
from eindiff.structure.grid import Grid
from eindiff.structure.quotients import Quotient
from eindiff.structure.solvers.banded import CANCELLED, DOUBTFUL, Banded, random_signs, sharpened
from eindiff.structure.solvers.solver import Known, Solver, logdet_of, singular
from eindiff.structure.sparse import Coordinates, coordinates
from eindiff.structure.terms import Array
from eindiff.structure.words import words

MOST_COUNTED = 2**20  # entries that are counted one by one
ENTRY_COST, PAIR_COST = 40.0, 50.0  # operations for an entry of the factors, and for a pair of them in a column
BAND = 16  # times the width of what is looked at as a band have to fit into a system
MOST_ORDERED = 2**24  # entries for which an order of the unknowns is looked for
SUPPORTED = (np.float32, np.float64)


class Sparse(Solver):
    """A sparse matrix: `P A Q = L U`, with diagonal pivots where it is symmetric, so that definiteness shows."""

    def __init__(self, quotient: Quotient, facts: Known) -> None:
        grid = quotient.grid
        self.size, _ = grid.shape
        self._grid = grid
        self._symmetric = facts.symmetric
        count, row = quotient.graph.nonzeros, quotient.graph.most_in_row
        if max(quotient.blocks) > 1 and grid.entry_count <= MOST_COUNTED:  # blocks have zeros
            count, row = len(self._coordinates.indices), row_count(self._coordinates)
        self.word = (words(grid) if len(grid.rows) == 1 else None) or f"sparse, {row} nonzeros a row"
        self.formula = f"sparse({self.size}×{self.size}, {count} nonzeros)"
        self.method = "sparse factorization (SuperLU)"
        self.flops = ENTRY_COST * quotient.fill + PAIR_COST * quotient.fill**2 / max(1, self.size)
        self.nbytes = 3 * quotient.fill * (grid.dtype.itemsize + 4)

    @cached_property
    def _coordinates(self) -> Coordinates:
        return coordinates(self._grid)

    @cached_property
    def _matrix(self) -> csc_array:
        return self._coordinates.matrix(self._grid)

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """The norm of the matrix, or more; and how much larger its terms are, where they cancel."""
        matrix = self._matrix
        norm = float(np.abs(matrix).sum(axis=0).max(initial=0.0))
        terms = sum(float(np.linalg.norm(term.values())) for term in self._grid.all_terms)
        return norm, max(1.0, terms / max(float(np.linalg.norm(matrix.data)), np.finfo(matrix.dtype).tiny))

    @cached_property
    def is_exact(self) -> bool:
        """Whether no digits are lost when the entries are added up."""
        return self._sizes[1] <= CANCELLED

    @cached_property
    def _is_symmetric(self) -> bool:
        if self._symmetric is not None:
            return self._symmetric
        error = np.abs(self._matrix - self._matrix.T).max()
        return bool(error <= 100 * np.finfo(self._matrix.dtype).eps * np.abs(self._matrix).max())

    @cached_property
    def _factorization(self) -> SuperLU:
        options: dict = {"permc_spec": "COLAMD"}
        if self._is_symmetric:
            options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.001, "options": {"SymmetricMode": True}}
        try:
            return splu(self._matrix, **options)
        except RuntimeError:  # what SuperLU says of a pivot that is zero
            raise singular("the system is singular: a pivot of its factorization is zero") from None

    @cached_property
    def _norms(self) -> tuple[float, float]:
        norm, cancelled = self._sizes
        x = self._factorization.solve(random_signs(self.size, self._matrix.dtype)[:, 0])
        inverse = float(np.linalg.norm(x))
        if norm * cancelled * inverse > DOUBTFUL / np.finfo(self._matrix.dtype).eps:
            inverse = sharpened(inverse, self._factorization.solve, self.size, self._matrix.dtype)
        return norm * cancelled, inverse

    def norms(self) -> tuple[float, float]:
        return self._norms

    def solve(self, b: Array) -> Array:
        return self._factorization.solve(np.asarray(b, self._matrix.dtype))

    @cached_property
    def _pivots(self) -> Array:
        return self._factorization.U.diagonal()

    def logdet(self) -> tuple[float, float]:
        sign, value = logdet_of(self._pivots)
        rows, columns = (_permutation_sign(x) for x in (self._factorization.perm_r, self._factorization.perm_c))
        return sign * rows * columns, value

    def is_definite(self) -> bool:
        """A symmetric matrix is definite if, with diagonal pivots only, all pivots are positive."""
        if not self._is_symmetric or not np.array_equal(self._factorization.perm_r, self._factorization.perm_c):
            return False
        return bool((self._pivots > 0).all())


def row_count(pattern: Coordinates) -> int:
    """The largest number of entries in a row."""
    return int(np.bincount(pattern.indices, minlength=1).max(initial=0))


def _permutation_sign(order: Array) -> int:
    """The sign of a permutation: even cycles change it."""
    count = len(order)
    matrix = csc_array((np.ones(count, np.int8), order, np.arange(count + 1)), shape=(count, count))
    cycles, _ = connected_components(matrix, directed=False)
    return -1 if (count - cycles) % 2 else 1


def sparse_ways(grid: Grid, facts: Known) -> list[Solver]:
    """The ways for a grid as a sparse matrix, if few of its entries are not zero: as a band in some order, or not."""
    if grid.dtype not in SUPPORTED or grid.entry_count > grid.shape[0] ** 2 / 4:
        return []
    quotient = Quotient(grid)
    if quotient.entries > MOST_ORDERED:
        return []
    whole = Sparse(quotient, facts)
    if BAND * quotient.graph.width > grid.shape[0] or grid.entry_count > MOST_ORDERED:
        return [whole]
    band = Banded(RankedBand(grid), facts, whole.word)
    return [band, whole] if band.is_narrow else [whole]
