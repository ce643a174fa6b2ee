"""Schur complements that stay sparse: of a variable in small blocks, whose coupling to the others is sparse.

With `H = [[A, B], [C, D]]` and A in small blocks, `A^-1` is in such blocks too, and `S = D − C A^-1 B` is a sum of
terms again, of the same variables: it is solved with in the way that fits it, be it dense, a band, sparse, or an
arrowhead itself. What that will be is known before, from where its blocks will be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.sparse import bsr_array, csc_array, csr_array

from eindiff.structure.grid import Grid, starts
from eindiff.structure.quotients import Quotient
from eindiff.structure.solvers.banded import sharpened
from eindiff.structure.solvers.solver import Known, Solver
from eindiff.structure.sparse import remembered
from eindiff.structure.terms import Array, Term

BLOCK_COST, FACTOR_COST = 100.0, 10.0  # operations of a dense product that a product of blocks takes as long as
SPARSE = 3  # times the entries of the coupling have to fit into it
FILLED = 8  # a complement with more than this part of its blocks is dense
MOST_PAIRS = 2**24  # of blocks that meet a block, for which the pattern of the complement is looked at

Choose = Callable[[Grid, Known], Solver]


class ComplementPlan(NamedTuple):
    """What is known of a complement before it is computed."""

    is_dense: bool
    formula: str
    method: str
    flops: float
    nbytes: float


class SparseSchur(Solver):
    """An arrowhead with sparse coupling: a variable in small blocks is eliminated, the others are asked for again."""

    word = "arrowhead"
    is_exact = False

    def __init__(self, quotient: Quotient, first: int, solver: Solver, facts: Known, choose: Choose) -> None:
        grid = quotient.grid
        self.size, _ = grid.shape
        self._quotient, self._first, self._solver = quotient, first, solver
        self._rest = [k for k in range(len(grid.rows)) if k != first]
        self._grid, self._facts, self._choose = grid, facts, choose
        places = [np.arange(a, b) for a, b in zip(starts(grid.rows), starts(grid.rows)[1:], strict=False)]
        self._inside, self._outside = places[first], np.concatenate([places[k] for k in self._rest])
        plan = remembered(grid, ("complement", first, facts), self._plan, lambda _: 512)
        self._is_dense = plan.is_dense
        self.formula = f"arrowhead of {solver.formula} and {plan.formula}"
        self.method = f"sparse Schur complement of {len(self._outside)} rows, with {solver.method}; then {plan.method}"
        self.flops = solver.flops + plan.flops
        self.nbytes = solver.nbytes + plan.nbytes

    def _plan(self) -> ComplementPlan:
        """How the complement will be solved with, and what that takes."""
        quotient = self._quotient
        degrees = quotient.degrees(self._first, self._rest).astype(float)
        pairs, rows = degrees.sum(axis=1), degrees @ [quotient.blocks[k] for k in self._rest]
        met, block = float(np.dot(pairs, pairs)), quotient.blocks[self._first]
        nodes = sum(quotient.nodes[k] for k in self._rest)
        self._is_dense = met > MOST_PAIRS or met * FILLED > nodes**2
        small = self._choose(self._expected(), self._facts)
        flops = BLOCK_COST * met + FACTOR_COST * block * float(np.dot(rows, rows)) + small.flops
        kept = 3 * block * float(rows.sum()) + min(float(len(self._outside)) ** 2, 2 * float(np.dot(rows, rows)))
        nbytes = small.nbytes + kept * self._grid.dtype.itemsize
        formula = f"core({small.size}×{small.size})" if small.is_dense else small.formula
        return ComplementPlan(self._is_dense, formula, small.method, flops, nbytes)

    def _expected(self) -> Grid:
        """A grid with entries where the complement will have them."""
        own = self._grid.block(self._rest, self._rest)
        for a, i in enumerate(self._rest):
            for b, j in enumerate(self._rest):
                if self._grid.terms[i][self._first] and self._grid.terms[self._first][j]:
                    own = own.with_terms(a, b, [self._dense_like(i, j) if self._is_dense else self._sparse_like(i, j)])
        return own

    def _dense_like(self, i: int, j: int) -> Term:
        shape = self._grid.rows[i] + self._grid.rows[j]
        return dense_term(np.broadcast_to(np.ones((), self._grid.dtype), shape))

    def _sparse_like(self, i: int, j: int) -> Term:
        quotient, first = self._quotient, self._first
        found = (quotient.pattern_of(i, first) @ quotient.pattern_of(first, j)).tocoo()
        shape = (found.nnz, quotient.blocks[i], quotient.blocks[j])
        rows, columns = found.coords
        return quotient.term(i, j, rows, columns, np.broadcast_to(np.ones((), self._grid.dtype), shape))

    @cached_property
    def _inverse(self) -> bsr_array:
        """`A^-1`"""
        own = self._grid.block([self._first], [self._first])
        return Quotient(own.changed(lambda _: self._solver.inverse()), [self._quotient.long[self._first]]).matrix(0, 0)

    @cached_property
    def _beside(self) -> list[bsr_array | None]:
        return [self._quotient.matrix(self._first, j) if self._grid.terms[self._first][j] else None for j in self._rest]

    @cached_property
    def _below(self) -> list[bsr_array | None]:
        return [self._quotient.matrix(i, self._first) if self._grid.terms[i][self._first] else None for i in self._rest]

    @cached_property
    def _solved(self) -> list[bsr_array | None]:
        """`A^-1 B`"""
        return [None if matrix is None else self._inverse @ matrix for matrix in self._beside]

    @cached_property
    def _small(self) -> Solver:
        """What solves with the complement."""
        complement = self._grid.block(self._rest, self._rest)
        for a, (i, below) in enumerate(zip(self._rest, self._below, strict=True)):
            for b, (j, solved) in enumerate(zip(self._rest, self._solved, strict=True)):
                if below is not None and solved is not None:
                    complement = complement.with_terms(a, b, [self._complement(i, j, below @ solved)])
        return self._choose(complement, Known(self._facts.symmetric, self._facts.psd))

    def _complement(self, i: int, j: int, product: bsr_array) -> Term:
        """What is taken away from one block of the others."""
        quotient = self._quotient
        if self._is_dense:
            shape = self._grid.rows[i] + self._grid.rows[j]
            matrix = quotient.restored(quotient.restored(product.toarray(), i).T, j).T
            return dense_term(matrix.reshape(shape)).scaled(-1.0)
        product = product.tobsr((quotient.blocks[i], quotient.blocks[j]))
        rows = np.repeat(np.arange(len(product.indptr) - 1), np.diff(product.indptr))
        return quotient.term(i, j, rows, product.indices, product.data).scaled(-1.0)

    @cached_property
    def _norms(self) -> tuple[float, float]:
        """`[[I, −A^-1 B], [0, I]] [[A^-1, 0], [0, S^-1]] [[I, 0], [−C A^-1, I]]` is the inverse."""
        parts, inverse = self._solver.norms()
        above, right, below = (
            sum(largest(x) for x in found if x is not None) for found in (self._beside, self._solved, self._below)
        )
        left = right if self._facts.symmetric else below * inverse
        small = self._small
        parts_below, least = small.norms()
        least = sharpened(least, small.solve, len(self._outside), self._grid.dtype)
        return parts + above + below + parts_below, inverse + (1 + left) * (1 + right) * least

    def norms(self) -> tuple[float, float]:
        return self._norms

    def solve(self, b: Array) -> Array:
        quotient, first = self._quotient, self._first
        x = self._inverse @ quotient.arranged(b[self._inside], first)
        right = [
            part if below is None else part - quotient.restored(below @ x, k)
            for k, below, part in zip(self._rest, self._below, self._parts(b[self._outside]), strict=True)
        ]
        y = self._small.solve(np.concatenate(right).astype(self._grid.dtype, copy=False))
        for k, solved, part in zip(self._rest, self._solved, self._parts(y), strict=True):
            if solved is not None:
                x = x - solved @ quotient.arranged(part, k)
        result = np.empty_like(b, dtype=np.result_type(x, y))
        result[self._inside] = quotient.restored(x, first)
        result[self._outside] = y
        return result

    def _parts(self, x: Array) -> list[Array]:
        """The other variables."""
        return np.split(x, np.cumsum([prod(self._grid.rows[k]) for k in self._rest])[:-1])

    def logdet(self) -> tuple[float, float]:
        found = [one.logdet() for one in (self._solver, self._small)]
        return float(np.prod([sign for sign, _ in found])), sum(value for _, value in found)

    def is_definite(self) -> bool:
        return self._solver.is_definite() and self._small.is_definite()


def largest(matrix: csr_array | csc_array | bsr_array) -> float:
    """The norm of a sparse matrix, or more: the root of the largest sum of a column times that of a row."""
    sizes = abs(matrix)
    return float(np.sqrt(sizes.sum(axis=0).max(initial=0.0) * sizes.sum(axis=1).max(initial=0.0)))


def dense_term(array: Array) -> Term:
    """An array as a term."""
    axes = tuple(range(array.ndim))
    return Term(1.0, (array,), (axes,), axes, dict(enumerate(array.shape)))


def is_sparse(grid: Grid, inner: Sequence[int], outer: Sequence[int]) -> bool:
    """Whether the coupling of some variables with others has few entries, by labels and places."""
    block = grid.block(inner, outer)
    return block.entry_count * SPARSE < prod(block.shape)
