"""Operators as sparse matrices of small blocks: long axes of each variable say which block, short ones where in it.

The pattern of blocks is the graph that orders, fill and products are about. The Hessian of `Σ (v_e − U[i_e]·V[j_e])²`
with 10 columns has a block of 10×10 for each pair of rows that meet: its pattern is a hundred times smaller than that
of its entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import log2, prod

import numpy as np
from scipy.sparse import block_array, bsr_array, coo_array, csc_array, csr_array

from eindiff.core.labels import Labels
from eindiff.structure.grid import Grid, Shape, starts, turned, turned_back
from eindiff.structure.places import Place, labels_of
from eindiff.structure.sparse import coordinates, kind, places, ranks_of, remembered
from eindiff.structure.terms import Array, Term

SHORT_AXIS = 16  # entries of an axis, or of a whole variable, that are no more than a block
SEPARATORS = 12.0  # entries of factors for each pair of unknowns in a separator
MOST_SORTED = 2**24  # entries that are looked at one by one
HUB = 10.0  # times the root of all blocks that one may meet: more is a row that is ordered last


class Quotient:
    """A square operator in blocks."""

    def __init__(self, grid: Grid, long: Sequence[Labels] | None = None) -> None:
        self.grid = grid
        self.long = [_long_axes(grid, k) for k in range(len(grid.rows))] if long is None else long
        self.nodes = [prod(self._shape(k)) for k in range(len(grid.rows))]
        self.blocks = [prod(shape) // max(1, n) for shape, n in zip(grid.rows, self.nodes, strict=True)]

    def _shape(self, k: int) -> Shape:
        return tuple([self.grid.rows[k][axis] for axis in self.long[k]])

    @cached_property
    def _projected(self) -> Grid:
        """The grid with the long axes alone, and no values."""
        shapes = tuple([self._shape(k) for k in range(len(self.grid.rows))])
        terms = tuple(
            tuple(tuple(self._without_blocks(term, i, j) for term in block) for j, block in enumerate(row))
            for i, row in enumerate(self.grid.terms)
        )
        return Grid(shapes, shapes, terms, self.grid.dtype)

    def _without_blocks(self, term: Term, i: int, j: int) -> Term:
        split = len(self.grid.rows[i])
        output = [term.output[axis] for axis in self.long[i]] + [term.output[split + axis] for axis in self.long[j]]
        places = tuple([place for place in term.places if place.target in output])
        return replace(term, arrays=(), labels=(), output=tuple(output), inverses=(), places=places)

    @property
    def entries(self) -> int:
        """How many blocks are added up."""
        return self._projected.entry_count

    @cached_property
    def _pattern(self) -> csr_array:
        """Where blocks are."""
        first, count = starts(self._projected.rows), range(len(self.nodes))
        found = [
            (rows + first[i], columns + first[j])
            for i in count for j in count for term in self._kinds(i, j)
            for rows, columns in [places(term, len(self.long[i]))]
        ]  # fmt: skip
        rows, columns = (np.concatenate(part) for part in zip(*found, strict=True)) if found else (first[:0],) * 2
        return coo_array((np.ones(len(rows), bool), (rows, columns)), (first[-1], first[-1])).tocsr()

    @cached_property
    def _sizes(self) -> Array:
        """The rows of each block."""
        return np.repeat(self.blocks, self.nodes)

    def pattern_of(self, i: int, j: int) -> csc_array:
        """Where the blocks of one variable by another are, as positive numbers."""
        found = [places(term, len(self.long[i])) for term in self._kinds(i, j)]
        rows, columns = (np.concatenate(part) for part in zip(*found, strict=True))
        return coo_array((np.ones(len(rows), np.float32), (rows, columns)), (self.nodes[i], self.nodes[j])).tocsc()

    def _kinds(self, i: int, j: int) -> list[Term]:
        """The terms of a block of the projected grid, those that are everywhere at the same places once."""
        return list({kind(term): term for term in self._projected.terms[i][j]}.values())

    def degrees(self, i: int, others: Sequence[int]) -> Array:
        """How many blocks of each of some other variables meet each block of one, or more."""
        total = np.zeros((self.nodes[i], len(others)), np.int64)
        for column, j in enumerate(others):
            for term in self._kinds(i, j):
                rows = labels_of(term.axes()[: len(self.long[i])])
                each = term.entry_count // max(1, prod(term.sizes[x] for x in rows))
                own, _ = places(term.with_output(term.output[: len(self.long[i])]), len(self.long[i]))
                total[:, column] += each * np.bincount(own, minlength=self.nodes[i])
        return total

    # Order and fill

    @cached_property
    def graph(self) -> Graph:
        """What is known from where blocks are."""
        return remembered(self.grid, ("graph", *self.long), lambda: Graph(self._pattern, self._sizes), lambda _: 256)

    @property
    def fill(self) -> float:
        """About how many entries the factors of a sparse factorization have."""
        size, _ = self.grid.shape
        graph = self.graph
        separators = SEPARATORS * graph.width**2 * _levels(graph.width, size)
        return min(float(size) ** 2, graph.nonzeros + separators + 2 * graph.hubs * size)

    # Values

    def matrix(self, i: int, j: int) -> bsr_array:
        """The blocks of one variable by another."""
        grid = self._projected.block([i], [j])
        pattern = coordinates(grid.transposed())  # in compressed rows, so
        shape = self.blocks[i], self.blocks[j]
        data = np.zeros((len(pattern.indices), *shape), self.grid.dtype)
        for slots, (_, term) in zip(pattern.slots, self.grid.block([i], [j]).placed_terms, strict=False):
            _add_blocks(data, slots, self._values(term, i, j).reshape(-1, *shape))
        whole = prod(self.grid.rows[i]), prod(self.grid.rows[j])
        return bsr_array((data, pattern.indices, pattern.starts), shape=whole)

    @property
    def is_full(self) -> bool:
        """Whether all entries of blocks are there, by labels, and blocks are as they are in flat vectors."""
        count = range(len(self.nodes))
        if any(long != tuple(range(len(long))) for long in self.long):
            return False
        for i, j in ((i, j) for i in count for j in count):
            kinds: dict[bool, set] = {True: set(), False: set()}
            for term in self.grid.terms[i][j]:
                projected = self._without_blocks(term, i, j)
                split = len(self.grid.rows[i])
                short = term.output[len(self.long[i]) : split] + term.output[split + len(self.long[j]) :]
                inner = labels_of(projected.axes())
                kinds[len({*short, *inner}) == len(short) + len(inner)].add(kind(projected))
            if not kinds[False] <= kinds[True]:
                return False
        return True

    def to_csc(self) -> csc_array:
        """The matrix in compressed columns, which are the compressed rows of the transpose."""
        count = range(len(self.nodes))
        turned = Quotient(self.grid.transposed(), self.long)
        rows = [[turned.matrix(j, i).tocsr() for i in count] for j in count]
        found = block_array(rows, format="csr")
        return csc_array((found.data, found.indices, found.indptr), shape=self.grid.shape)

    def diagonal_blocks(self, k: int) -> Array:
        """The blocks on the diagonal of one variable."""
        grid = self._projected.block([k], [k])
        data = np.zeros((self.nodes[k], self.blocks[k], self.blocks[k]), self.grid.dtype)
        if not grid.all_terms:
            return data
        if self.blocks[k] == 1:
            return self.grid.block([k], [k]).diagonal().reshape(data.shape)
        pattern = coordinates(grid.transposed())
        columns = np.repeat(np.arange(self.nodes[k]), np.diff(pattern.starts))
        for slots, (_, term) in zip(pattern.slots, self.grid.block([k], [k]).placed_terms, strict=False):
            on_diagonal = np.flatnonzero(pattern.indices[slots] == columns[slots])
            if len(on_diagonal):
                blocks = self._values(term, k, k).reshape(-1, *data.shape[1:])[on_diagonal]
                _add_blocks(data, columns[slots[on_diagonal]], blocks)
        return data

    def _values(self, term: Term, i: int, j: int) -> Array:
        """The blocks of a term."""
        split = len(self.grid.rows[i])
        inner = labels_of(self._without_blocks(term, i, j).transposed(len(self.long[i])).axes())
        rows = [x for axis, x in enumerate(term.output[:split]) if axis not in self.long[i]]
        columns = [x for axis, x in enumerate(term.output[split:]) if axis not in self.long[j]]
        return replace(term, output=(*inner, *rows, *columns), places=()).to_dense()

    def term(self, i: int, j: int, rows: Array, columns: Array, data: Array) -> Term:
        """Blocks at some places of one variable by another, as a term."""
        sizes, output, places = {0: len(rows)}, list[int](), list[Place]()
        short: list[int] = []
        for k, nodes in ((i, rows), (j, columns)):
            tables = iter(np.unravel_index(nodes, self._shape(k)) if self.long[k] else ())
            for axis, size in enumerate(self.grid.rows[k]):
                label = len(sizes)
                sizes[label] = size
                output.append(label)
                if axis in self.long[k]:
                    places.append(Place(label, (0,), table=np.asarray(next(tables), np.int64)))
                else:
                    short.append(label)
        values = data.reshape(len(rows), *(sizes[x] for x in short))
        return Term(1.0, (values,), ((0, *short),), tuple(output), sizes, (), tuple(places))

    def arranged(self, x: Array, k: int) -> Array:
        """Vectors of a variable, the columns of x, block by block."""
        return turned(x, self.grid.rows[k], self._order(k))

    def restored(self, x: Array, k: int) -> Array:
        """The reverse of `arranged`."""
        return turned_back(x, self.grid.rows[k], self._order(k))

    def _order(self, k: int) -> list[int]:
        """The axes of a variable, the long ones first."""
        return [*self.long[k], *(axis for axis in range(len(self.grid.rows[k])) if axis not in self.long[k])]


def to_csc(grid: Grid) -> csc_array:
    """A grid as a sparse matrix in compressed columns; by its blocks, if these are many and full."""
    if grid.rows == grid.cols and grid.entry_count > MOST_SORTED:
        quotient = Quotient(grid)
        if max(quotient.blocks) > 1 and quotient.is_full:
            return quotient.to_csc()
    return coordinates(grid).matrix(grid)


class Graph:
    """The numbers of entries, of hubs, and the width of a matrix of blocks of some sizes."""

    def __init__(self, pattern: csr_array, sizes: Array) -> None:
        degrees = np.diff(pattern.indptr)
        rows, columns = np.repeat(sizes, degrees), sizes[pattern.indices]
        self.nonzeros = int(np.dot(rows, columns))
        self.most_in_row = int(np.bincount(np.repeat(np.arange(len(sizes)), degrees), columns, 1).max())
        is_hub = degrees > max(SHORT_AXIS, HUB * np.sqrt(len(degrees)))
        self.hubs = int(sizes[is_hub].sum())  # rows of blocks that meet very many
        self.width = self._width(pattern if not self.hubs else pattern[~is_hub][:, ~is_hub]) * float(sizes.mean())

    @staticmethod
    def _width(pattern: csr_array) -> float:
        """How many blocks have to be taken out, about, for the system to fall apart: half of how far blocks reach.

        That is so in an order in which those that meet are near to each other.
        """
        matrix = (pattern + pattern.T).tocsr()
        ranks = ranks_of(matrix)
        rows = np.flatnonzero(np.diff(matrix.indptr))
        if not len(rows):
            return 0.0
        reach = np.maximum.reduceat(ranks[matrix.indices], matrix.indptr[rows]) - ranks[rows]
        return float(np.maximum(reach, 0).sum()) / len(ranks) / 2


def _levels(width: float, size: int) -> float:
    """How many times the pairs of the largest separator those of all separators are.

    In each level there are twice as many, of systems of half the size: of a grid in the plane, with separators of √n,
    each level has as many pairs; in space, with n^⅔, fewer and fewer.
    """
    exponent = np.log(max(1.0, width)) / np.log(size + 1)
    share = min(1.0, 2 ** (1 - 2 * exponent))
    levels = log2(size + 1)
    return levels if share == 1.0 else (1 - share**levels) / (1 - share)


class BlockMatrix:
    """Products with an operator, whose blocks are formed."""

    def __init__(self, quotient: Quotient) -> None:
        self._quotient = quotient
        self._ends = starts(quotient.grid.rows)
        grid = quotient.grid
        count = range(len(grid.rows))
        self._parts = [[(j, quotient.matrix(i, j)) for j in count if grid.terms[i][j]] for i in count]

    def apply(self, x: Array) -> Array:
        """The product with a flat vector."""
        total = np.zeros(len(x), np.result_type(x, self._quotient.grid.dtype))
        parts = [
            self._quotient.arranged(x[a:b, None], k)[:, 0]
            for k, (a, b) in enumerate(zip(self._ends, self._ends[1:], strict=False))
        ]
        for k, row in enumerate(self._parts):
            if row:
                value = sum(matrix @ parts[j] for j, matrix in row)
                total[self._ends[k] : self._ends[k + 1]] = self._quotient.restored(value[:, None], k)[:, 0]
        return total


class BlockDiagonal:
    """The blocks on the diagonal of a symmetric operator, made positive definite: what preconditions it."""

    def __init__(self, quotient: Quotient) -> None:
        self._quotient = quotient
        self._ends = starts(quotient.grid.rows)
        self._inverses = [self._inverse(k) for k in range(len(quotient.nodes))]

    def _inverse(self, k: int) -> Array:
        """The inverses of the blocks of one variable."""
        values, vectors = np.linalg.eigh(self._quotient.diagonal_blocks(k))
        values = np.abs(values)
        values = np.maximum(values, np.finfo(values.dtype).eps * values.max(initial=0.0))
        values[values == 0] = 1
        return (vectors / values[:, None]) @ vectors.swapaxes(1, 2)

    def solve(self, x: Array) -> Array:
        """The solution with a flat vector."""
        total = np.empty_like(x.reshape(-1))
        for k, inverse in enumerate(self._inverses):
            own = slice(self._ends[k], self._ends[k + 1])
            if inverse.shape[1] == 1:
                total[own] = inverse[:, 0, 0] * x.reshape(-1)[own]
                continue
            blocks = self._quotient.arranged(x.reshape(-1)[own, None], k).reshape(len(inverse), -1, 1)
            total[own] = self._quotient.restored((inverse @ blocks).reshape(-1, 1), k)[:, 0]
        return total


def _long_axes(grid: Grid, k: int) -> tuple[int, ...]:
    """The axes of a variable that are too long for blocks, or that places are about."""
    shape = grid.rows[k]
    count = len(shape)
    reached = [(term, term.output[len(term.output) - count :]) for row in grid.terms for term in row[k]]
    reached += [(term, term.output[:count]) for block in grid.terms[k] for term in block]
    placed = {axis for term, own in reached for x in term.places for axis in range(count) if own[axis] == x.target}
    if prod(shape) <= SHORT_AXIS and not placed:
        return ()
    found = tuple([axis for axis, size in enumerate(shape) if size > SHORT_AXIS or axis in placed])
    return found or (int(np.argmax(shape)),)


def _add_blocks(data: Array, slots: Array, blocks: Array) -> None:
    """Add blocks up where they belong."""
    if data[0:1].size == 1:
        np.add.at(data.reshape(-1), slots, blocks.reshape(-1))
    else:
        each = np.arange(len(slots) + 1)
        adding = csc_array((np.ones(len(slots), data.dtype), slots, each), shape=(len(data), len(slots)))
        data += (adding @ blocks.reshape(len(slots), -1)).reshape(data.shape)
