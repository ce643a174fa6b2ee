"""Schur complements that stay sparse: of variables in small blocks, whose coupling to the others is sparse.

With `H = [[A, B], [C, D]]` and A in small blocks, `A^-1` is in such blocks too, and `S = D − C A^-1 B` is a sum of
terms again: it is solved with in the way that fits it, be it dense, a band, sparse, or an arrowhead itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod

import numpy as np
from scipy.sparse import csc_array, csr_array

from eindiff.structure.grid import Grid, starts
from eindiff.structure.places import Place
from eindiff.structure.solvers.banded import sharpened
from eindiff.structure.solvers.solver import Known, Solver
from eindiff.structure.sparse import entry_count, row_counts, to_csc
from eindiff.structure.terms import Array, Term

SOLVING_COST = 500  # operations for an entry of a sparse complement
SPARSE_COST = 20  # operations of a dense product that one of a sparse product takes as long as
SPARSE = 3  # times the entries of the coupling have to fit into it
FILLED = 8  # a complement with more than this part of its entries is dense


class SparseSchur(Solver):
    """An arrowhead with sparse coupling: variables in small blocks are eliminated, the others are asked for again."""

    word = "arrowhead"
    is_exact = False

    def __init__(
        self, grid: Grid, first: Sequence[int], solvers: Sequence[Solver], facts: Known,
        choose: Callable[[Grid, Known], Solver],
    ) -> None:  # fmt: skip
        self.size, _ = grid.shape
        self._rest = [k for k in range(len(grid.rows)) if k not in first]
        self._grid, self._solvers, self._facts, self._choose = grid, solvers, facts, choose
        self._chosen = first
        places = [np.arange(a, b) for a, b in zip(starts(grid.rows), starts(grid.rows)[1:], strict=False)]
        self._inside, self._outside = (np.concatenate([places[k] for k in part]) for part in (first, self._rest))
        small, nonzeros = len(self._outside), row_counts(self._beside_grid).astype(float)
        pairs = float(np.dot(nonzeros, nonzeros))
        self._is_dense = pairs * FILLED > small**2
        formula = " ⊕ ".join(one.formula for one in solvers)
        corner = f"core({small}×{small})" if self._is_dense else f"sparse({small}×{small})"
        self.formula = f"arrowhead of {formula} and {corner}"
        method = "; ".join(dict.fromkeys(one.method for one in solvers))
        self.method = f"sparse Schur complement of {small} rows, with {method}"
        solving = small**3 / 3 if self._is_dense else SOLVING_COST * pairs
        self.flops = sum(one.flops for one in solvers) + SPARSE_COST * pairs + solving
        kept = 3 * nonzeros.sum() + (2 * small**2 if self._is_dense else 10 * pairs)
        self.nbytes = sum(one.nbytes for one in solvers) + kept * grid.dtype.itemsize

    @property
    def _beside_grid(self) -> Grid:
        return self._grid.block(self._chosen, self._rest)

    @cached_property
    def _inverse(self) -> csr_array:
        """`A^-1`"""
        block = self._grid.block(self._chosen, self._chosen).changed(lambda terms: ())
        for k, one in enumerate(self._solvers):
            block = block.with_terms(k, k, one.inverse())
        return to_csc(block).tocsr()

    @cached_property
    def _beside(self) -> csr_array:
        return to_csc(self._beside_grid).tocsr()

    @cached_property
    def _below(self) -> csr_array:
        return to_csc(self._grid.block(self._rest, self._chosen)).tocsr()

    @cached_property
    def _solved(self) -> csr_array:
        """`A^-1 B`"""
        return self._inverse @ self._beside

    @cached_property
    def _corner(self) -> csc_array:
        return to_csc(self._grid.block(self._rest, self._rest))

    @cached_property
    def _small(self) -> Solver:
        """What solves with the complement."""
        complement = (self._corner - (self._below @ self._solved).tocsc()).tocsc()
        size, dtype = len(self._outside), self._grid.dtype
        term = dense_term(complement.toarray()) if self._is_dense else sparse_term(complement)
        grid = Grid(((size,),), ((size,),), (((term,),),), dtype)
        return self._choose(grid, Known(self._facts.symmetric))

    @cached_property
    def _norms(self) -> tuple[float, float]:
        """`[[I, −A^-1 B], [0, I]] [[A^-1, 0], [0, S^-1]] [[I, 0], [−C A^-1, I]]` is the inverse."""
        found = [one.norms() for one in self._solvers]
        parts, inverse = max(x for x, _ in found), max(x for _, x in found)
        above, right, below, corner = map(largest, (self._beside, self._solved, self._below, self._corner))
        left = right if self._facts.symmetric else below * inverse
        small = self._small
        least = sharpened(small.norms()[1], small.solve, len(self._outside), self._grid.dtype)
        return parts + above + below + corner, inverse + (1 + left) * (1 + right) * least

    def norms(self) -> tuple[float, float]:
        return self._norms

    def solve(self, b: Array) -> Array:
        x = self._inverse @ b[self._inside]
        y = self._small.solve((b[self._outside] - self._below @ x).astype(self._grid.dtype, copy=False))
        result = np.empty_like(b, dtype=np.result_type(x, y))
        result[self._inside] = x - self._solved @ y
        result[self._outside] = y
        return result

    def logdet(self) -> tuple[float, float]:
        found = [one.logdet() for one in (*self._solvers, self._small)]
        return float(np.prod([sign for sign, _ in found])), sum(value for _, value in found)

    def is_definite(self) -> bool:
        return all(one.is_definite() for one in (*self._solvers, self._small))


def largest(matrix: csr_array | csc_array) -> float:
    """The norm of a sparse matrix, or more: the root of the largest sum of a column times that of a row."""
    sizes = abs(matrix)
    return float(np.sqrt(sizes.sum(axis=0).max(initial=0.0) * sizes.sum(axis=1).max(initial=0.0)))


def sparse_term(matrix: csc_array) -> Term:
    """A sparse matrix as a term: its values, and tables of their rows and columns."""
    found = matrix.tocoo()
    sizes = {0: found.nnz, 1: matrix.shape[0], 2: matrix.shape[1]}
    rows, columns = (Place(1 + k, (0,), table=np.asarray(x, np.int64)) for k, x in enumerate(found.coords))
    return Term(1.0, (found.data,), ((0,),), (1, 2), sizes, (), (rows, columns))


def dense_term(array: Array) -> Term:
    """An array as a term."""
    axes = tuple(range(array.ndim))
    return Term(1.0, (array,), (axes,), axes, dict(enumerate(array.shape)))


def is_sparse(grid: Grid, inner: Sequence[int], outer: Sequence[int]) -> bool:
    """Whether the coupling of some variables with others has few entries, by labels and places."""
    block = grid.block(inner, outer)
    return entry_count(block) * SPARSE < prod(block.shape)
