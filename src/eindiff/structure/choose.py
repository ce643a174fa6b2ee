"""From the labels of an operator's terms to the way to solve with it: all that apply, and the cheapest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

import numpy as np

from eindiff.planning import tuning
from eindiff.structure.axes import Core, Layout
from eindiff.structure.bands import band_of
from eindiff.structure.grid import Grid
from eindiff.structure.quotients import Quotient
from eindiff.structure.solvers import solver as limits
from eindiff.structure.solvers.attempt import LARGE, Attempt
from eindiff.structure.solvers.banded import Banded
from eindiff.structure.solvers.blocks import DenseBlocks, Diagonal, Matrices
from eindiff.structure.solvers.iterative import Iterative
from eindiff.structure.solvers.kronecker_ways import kronecker
from eindiff.structure.solvers.permuted import permuted
from eindiff.structure.solvers.schur import Schur, Separate
from eindiff.structure.solvers.solver import Known, Solver, subscript
from eindiff.structure.solvers.sparse import sparse_ways
from eindiff.structure.solvers.sparse_schur import SparseSchur, is_sparse
from eindiff.structure.solvers.woodbury import LowRank, Woodbury, low_rank, rank
from eindiff.structure.terms import Array, Term
from eindiff.structure.words import words

SMALL_BLOCK = 64  # rows of blocks whose inverses are written down
MOST_BEGINNINGS = 2  # variables that eliminations may begin with
NARROW_BAND = 64  # diagonals of a band, for which no other way is looked for


def candidates(grid: Grid, facts: Known) -> list[Solver]:
    """All ways to solve with a square operator, the best first; those that take too much memory are last."""
    found = _single(grid, facts) if len(grid.rows) == 1 else _several(grid, facts)

    def order(one: Solver) -> tuple:
        flops = one.flops * (tuning.STRUCTURE_BONUS if one.is_dense else 1)
        if isinstance(one, Iterative):  # where nothing says how many steps it takes, it is the last that is possible
            return False, not one.has_places, flops
        return one.nbytes > limits.LIMIT, False, flops

    return sorted(found, key=order)


def ways(grid: Grid, facts: Known) -> list[Solver]:
    """The candidates for a system that someone asks for: before a large factorization something cheaper is tried."""
    found = candidates(grid, facts)
    best = found[0]
    if best.flops < LARGE or facts.symmetric is False or not any(term.places for term in grid.all_terms):
        return found
    attempt = None if isinstance(best, Iterative) else Attempt(grid, facts, best)
    return [attempt, *found] if attempt is not None and attempt.is_worth_it else found


def choose(grid: Grid, facts: Known) -> Solver:
    """The best way to solve with a square operator."""
    return candidates(grid, facts)[0]


def _direct(grid: Grid, facts: Known) -> Solver:
    """The best way without iterations."""
    return next(one for one in candidates(grid, facts) if not isinstance(one, Iterative))


# One variable


def _single(grid: Grid, facts: Known) -> list[Solver]:
    [dims], [[terms]] = grid.rows, grid.terms
    layout = Layout.of(dims, terms)
    core = layout.core(terms, grid.dtype)
    if not layout.inner:
        return [Arranged(layout, Diagonal(core))]
    found: list[Solver] = [DenseBlocks(core, facts.symmetric)]
    if not core.stack and len(core.dims) > 1 and (product := kronecker(core) or permuted(core)) is not None:
        found.append(product)
    found += _with_low_rank(core)
    return [*(Arranged(layout, one) for one in found), *_near_diagonal(grid, facts), Iterative(grid, facts)]


def _near_diagonal(grid: Grid, facts: Known) -> list[Solver]:
    """Ways for operators of which few entries are not zero."""
    if not any(term.places for term in grid.all_terms):
        return []
    band = band_of(grid) if len(grid.rows) == 1 else None
    if band is None or band.lower + band.upper >= band.size:
        return sparse_ways(grid, facts)
    narrow = band.lower + band.upper <= NARROW_BAND
    return [Banded(band, facts, words(grid)), *([] if narrow else sparse_ways(grid, facts))]


def _with_low_rank(core: Core) -> list[Solver]:
    low = [term for term in core.terms if low_rank(term, core.stack) is not None]
    low = [term for term in low if rank(term, core.stack) < core.size]
    base = [term for term in core.terms if not any(term is other for other in low)]
    if not low or sum(rank(term, core.stack) for term in low) >= core.size:
        return []
    if not base:
        return [LowRank(core)]
    dims = core.stack_sizes + core.dims
    solver = choose(Grid((dims,), (dims,), ((tuple(core.flat(base)),),), core.dtype), Known())
    return [] if isinstance(solver, Iterative) else [Woodbury(core, solver, low)]


class Arranged(Solver):
    """A solver for the blocks of an operator: axes are moved so that the stack comes first, and copies last."""

    def __init__(self, layout: Layout, core: Solver) -> None:
        self.size = prod(layout.dims)
        self.layout = layout
        self.core = core
        self.block = prod(layout.sizes(layout.inner))  # rows of a block
        self.word, self.formula = _names(layout, core)
        self.method = core.method
        self.uses_inverses = core.uses_inverses
        self.is_dense = isinstance(core, DenseBlocks) and not layout.identity and not layout.stacked
        self.flops = core.flops
        self.nbytes = core.nbytes

    @property
    def is_exact(self) -> bool:
        """Whether the core is."""
        return self.core.is_exact

    def norms(self) -> tuple[float, float]:
        return self.core.norms()

    def norm(self) -> float | None:
        return self.core.norm()

    def condition(self) -> float:
        return self.core.condition()

    def sizes_of(self, x: Array) -> Array:
        blocks = self.layout.to_blocks(x.reshape(*self.layout.dims, x.shape[-1]))
        sizes = np.linalg.norm(blocks, axis=1).reshape(len(blocks), -1, x.shape[-1])
        return np.linalg.norm(sizes, axis=1)

    def solve(self, b: Array) -> Array:
        count = b.shape[-1]
        blocks = self.layout.to_blocks(b.reshape(*self.layout.dims, count))
        return self.layout.from_blocks(self.core.solve(blocks), count).reshape(self.size, count)

    def logdet(self) -> tuple[float, float]:
        sign, value = self.core.logdet()
        return sign**self.layout.copies, value * self.layout.copies

    def is_definite(self) -> bool:
        return self.core.is_definite()

    def eigvals(self) -> Array:
        return np.repeat(self.core.eigvals(), self.layout.copies)

    def inverse(self) -> list[Term]:
        return [self.layout.whole(term) for term in self.core.inverse()]

    def inverse_diagonal(self) -> Array:
        half = len(self.layout.dims)
        return np.sum([term.diagonal(half) for term in self.inverse()], axis=0).reshape(-1)

    def cholesky(self) -> list[Term]:
        return [self.layout.whole(term) for term in self.core.cholesky()]


def _names(layout: Layout, core: Solver) -> tuple[str, str]:
    """The word and the formula of a stack of blocks."""
    if not layout.inner:
        if layout.stacked and layout.identity:
            return "identity ⊗ diagonal", f"I{subscript(layout.copies)} ⊗ {core.formula}"
        return ("diagonal", core.formula) if layout.stacked else ("identity", f"c I{subscript(prod(layout.dims))}")
    word, formula = core.word, core.formula
    if layout.stacked:
        word = "block diagonal" if word == "core" else f"block diagonal ({word})"
        formula = f"blockdiag({prod(layout.sizes(layout.stacked))} × {formula})"
    if not layout.identity:
        return ("dense" if word == "core" else word), formula
    parts = [("identity", f"I{subscript(layout.copies)}"), (word, f"({formula})" if " " in formula else formula)]
    if max(layout.inner + layout.stacked) < min(layout.identity):
        parts.reverse()
    return f"{parts[0][0]} ⊗ {parts[1][0]}", f"{parts[0][1]} ⊗ {parts[1][1]}"


# Several variables


def _several(grid: Grid, facts: Known) -> list[Solver]:
    count = len(grid.rows)
    diagonal = [choose(grid.block([k], [k]), facts) for k in range(count)]
    if not _are_coupled(grid, range(count)):
        return [Separate(diagonal)]
    near = all(grid.terms[k][k] and not isinstance(one, Iterative) for k, one in enumerate(diagonal))
    iterative = Iterative(grid, facts, Separate(diagonal) if near else None)
    return [AsMatrix(grid, facts), *_schur_complements(grid, diagonal, facts), *_near_diagonal(grid, facts), iterative]


def _schur_complements(grid: Grid, diagonal: Sequence[Solver], facts: Known) -> Iterator[Solver]:
    """Ways that begin with some variables whose blocks are easy to solve with, and not coupled."""
    count = len(diagonal)
    easy = [k for k, one in enumerate(diagonal) if grid.terms[k][k] and one.size > 1 and is_structured(one)]
    easy += [k for k in range(count) if k not in easy and grid.block([k], [k]).has_inverses]
    for size in range(1, count if count <= tuning.VARIABLES_LIMIT else 2):
        for first in combinations(easy, size):
            if not _are_coupled(grid, first):
                solver = diagonal[first[0]] if size == 1 else Separate([diagonal[k] for k in first])
                yield Schur(grid, first, solver, facts)
    yield from _sparse_complements(grid, diagonal, easy, facts)
    yield from _nested(grid, easy, facts)


def _sparse_complements(grid: Grid, diagonal: Sequence[Solver], easy: Sequence[int], facts: Known) -> Iterator[Solver]:
    """Ways that begin with one variable in small blocks, with those whose blocks meet the fewest others."""
    others = {k: [j for j in range(len(diagonal)) if j != k] for k in easy}
    possible = [k for k in easy if _has_small_blocks(diagonal[k]) and is_sparse(grid, [k], others[k])]
    if not possible:
        return
    quotient = Quotient(grid)
    met = {k: float((quotient.degrees(k, others[k]).sum(axis=1).astype(float) ** 2).sum()) for k in possible}
    for k in sorted(possible, key=met.__getitem__)[:MOST_BEGINNINGS]:
        yield SparseSchur(quotient, k, diagonal[k], facts, _direct)


def _nested(grid: Grid, easy: Sequence[int], facts: Known) -> Iterator[Solver]:
    """Ways that begin with the largest variables together, in the way that is best for these."""
    by_size = sorted(range(len(grid.rows)), key=lambda k: -prod(grid.rows[k]))
    for count in range(2, len(by_size)):
        first = sorted(by_size[:count])
        if _are_coupled(grid, first) and set(first) & set(easy):
            solver = choose(grid.block(first, first), facts)
            if is_structured(solver):
                yield Schur(grid, first, solver, facts)


def _has_small_blocks(one: Solver) -> bool:
    """Whether the inverse is in blocks, many and small."""
    return isinstance(one, Arranged) and isinstance(one.core, Diagonal | DenseBlocks) and one.block <= SMALL_BLOCK


def _are_coupled(grid: Grid, variables: Sequence[int]) -> bool:
    return any(grid.terms[i][j] for i in variables for j in variables if i != j)


def is_structured(one: Solver) -> bool:
    """Whether a way to solve needs neither the whole matrix nor iterations."""
    return not one.is_dense and not isinstance(one, Iterative)


class AsMatrix(Matrices):
    """The matrix of several variables."""

    word = "dense"
    is_dense = True

    def __init__(self, grid: Grid, facts: Known) -> None:
        super().__init__(1, grid.shape[0], grid.dtype, facts.symmetric)
        self.formula = f"{len(grid.rows)}×{len(grid.cols)} blocks"
        self._grid = grid

    def dense(self) -> tuple[Array, Array]:
        matrix, size = self._grid.dense_and_size()
        return matrix[None], np.array([size])

    def solve(self, b: Array) -> Array:
        return super().solve(b[None])[0]
