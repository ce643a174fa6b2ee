"""The entries of a sum of terms as a sparse matrix: rows and columns are known from labels and places alone.

They are found once for terms of one kind and kept, so that the pattern stays the same between calls, entries that
happen to be zero included; later only values are computed and added up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from eindiff.core.errors import EindiffError
from eindiff.core.recent import Recent
from eindiff.structure.diagonals import Diagonals, flat_strides
from eindiff.structure.grid import Grid, starts
from eindiff.structure.places import Axis, Place, index_of, indices, labels_of
from eindiff.structure.terms import Array, Term

MOST_ENTRIES = 2**28  # of a sparse matrix


def places(term: Term, split: int, dtype: type = np.int64) -> tuple[Array, Array]:
    """The rows and the columns of all entries of a term, of which some first axes are rows."""
    axes, labels = term.axes(), labels_of(term.axes())
    return _flat(axes[:split], labels, term, dtype), _flat(axes[split:], labels, term, dtype)


class Coordinates:
    """Where the entries of the terms of a grid are in a matrix in compressed columns."""

    def __init__(self, grid: Grid) -> None:
        self.shape = grid.shape
        index = np.int32 if max(*grid.shape, grid.entry_count) < 2**31 else np.int64
        diagonals = Diagonals.of(grid)
        if diagonals is None:
            self.indices, self.starts, self.slots = _sorted(grid, index)
        else:
            self.indices, self.starts, ranks = diagonals.pattern(grid, index)
            self.slots = diagonals.slots(grid, ranks)  # for each term, where each of its entries is added

    @cached_property
    def ranks(self) -> Array:
        """The place of each unknown in an order in which those that meet are near to each other."""
        ones = np.ones(len(self.indices), np.int8)
        matrix = csc_array((ones, self.indices, self.starts), shape=self.shape).tocsr()
        return ranks_of((matrix + matrix.T).tocsr())

    @cached_property
    def ranked(self) -> tuple[Array, Array]:
        """The rows and columns of all entries in that order."""
        return self.ranks[self.indices], np.repeat(self.ranks, np.diff(self.starts))

    @cached_property
    def widths(self) -> tuple[int, int, float]:
        """The number of diagonals below and above the main one in that order, and how far they reach in the mean."""
        rows, columns = self.ranked
        below = rows - columns
        reach = np.zeros(len(self.ranks), np.int64)
        np.maximum.at(reach, rows, np.abs(below))
        return int(below.max(initial=0)), int(-below.min(initial=0)), float(reach.mean()) if len(reach) else 0.0

    @property
    def nbytes(self) -> int:
        """The bytes of what is kept."""
        return self.indices.nbytes + self.starts.nbytes + sum(part.nbytes for part in self.slots)

    def matrix(self, grid: Grid) -> csc_array:
        """The matrix of a grid of this kind."""
        data = np.zeros(len(self.indices), grid.dtype)
        for slots, (_, term) in zip(self.slots, grid.placed_terms, strict=False):
            np.add.at(data, slots, term.values().reshape(-1))
        return csc_array((data, self.indices, self.starts), shape=self.shape)


def ranks_of(matrix: csr_array) -> Array:
    """The place of each row of a symmetric matrix in an order in which those that meet are near to each other."""
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


Pattern = tuple[Array, Array, list[Array]]  # rows of entries by columns, where columns start, and slots


def _sorted(grid: Grid, index: type) -> Pattern:
    """The pattern of any terms, by the order of their entries."""
    first_rows, first_columns = starts(grid.rows), starts(grid.cols)
    parts: tuple[list[Array], list[Array]] = [], []
    for (i, j), term in grid.placed_terms:
        rows, columns = places(term, len(grid.rows[i]), index)
        parts[0].append(rows + index(first_rows[i]))
        parts[1].append(columns + index(first_columns[j]))
    row, column = (np.concatenate(part) if part else np.zeros(0, index) for part in parts)
    ends = np.cumsum([term.entry_count for _, term in grid.placed_terms])
    has_tables = any(term.has_tables for term in grid.all_terms)
    order = _order(row, column, grid.shape) if has_tables else _order_of_runs(row, column, grid.shape)
    row, column = row[order], column[order]
    is_first = np.ones(len(order), bool)  # of the entries that are added up in one place
    is_first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    counts = np.bincount(column[is_first], minlength=grid.shape[1])
    slots = np.empty_like(order)
    slots[order] = np.cumsum(is_first, dtype=index) - 1
    return row[is_first], np.concatenate([[0], np.cumsum(counts)]).astype(index), np.split(slots, ends[:-1])


def _order(row: Array, column: Array, shape: tuple[int, int]) -> Array:
    """The order of entries by columns and then by rows, in linear time.

    One entry in each row of a matrix, with these keys as columns, is in that order once it is in compressed columns.
    """
    order = np.arange(len(row), dtype=row.dtype)
    for keys, size in zip((row, column), shape, strict=True):
        each = np.arange(len(row) + 1, dtype=row.dtype)
        matrix = csr_array((np.ones(len(row), np.int8), keys[order], each), shape=(len(row), size))
        order = order[matrix.tocsc().indices]
    return order


def _order_of_runs(row: Array, column: Array, shape: tuple[int, int]) -> Array:
    """The same for entries that are a few lists, each nearly in that order: these are merged."""
    keys = column.astype(np.int64) * shape[0] + row
    return np.argsort(keys, kind="stable").astype(row.dtype)


def _flat(axes: list[Axis], labels: tuple[int, ...], term: Term, dtype: type) -> Array:
    """The index in a flat array with some axes, for all indices of labels."""
    of = indices(labels, term.sizes)
    total: Array = np.zeros((1,) * len(labels), dtype)
    for axis, stride in zip(axes, flat_strides(axes, term), strict=True):
        total = total + (index_of(axis, of) * stride).astype(dtype)
    return np.broadcast_to(total, [term.sizes[x] for x in labels]).reshape(-1)


_known: Recent[tuple[Any, list[Array]]] = Recent(128, 2**28)
Known = TypeVar("Known")


def remembered(grid: Grid, question: Any, answer: Callable[[], Known], nbytes: Callable[[Known], int]) -> Known:
    """What depends on labels and places of a grid alone, which is kept for all of its kind."""
    key = (question, grid.rows, grid.cols, *(kind(term) + where for where, term in grid.placed_terms))
    found = _known.get(key)
    if found is None:
        made = answer()
        tables = [place.table for term in grid.all_terms for place in term.places if place.table is not None]
        found = _known.keep(key, (made, tables), nbytes(made))  # a table that is kept alive keeps its identity
    return found[0]


def coordinates(grid: Grid) -> Coordinates:
    """The coordinates of a grid, which are kept for all of its kind."""
    if grid.entry_count > MOST_ENTRIES:
        raise EindiffError(
            f"a sparse matrix of {grid.entry_count:.1e} entries is too large: use products with @", "large"
        )
    return remembered(grid, "coordinates", lambda: Coordinates(grid), lambda made: made.nbytes)


def kind(term: Term) -> tuple:
    """What the coordinates of a term depend on."""
    labels = labels_of(term.axes())
    names = {label: k for k, label in enumerate(labels)}
    axes = [
        (*axis.key, *(names[x] for x in axis.sources)) if isinstance(axis, Place) else names[axis]
        for axis in term.axes()
    ]
    return (*axes, *(term.sizes[x] for x in labels))
