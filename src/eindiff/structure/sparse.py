"""The entries of a sum of terms as a sparse matrix: rows and columns are known from labels and places alone.

They are found once for terms of one kind and kept, so that the pattern stays the same between calls, entries that
happen to be zero included; later only values are computed and added up.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from eindiff.core.errors import EindiffError
from eindiff.core.recent import Recent
from eindiff.structure.grid import Grid, starts
from eindiff.structure.places import Axis, Place, index_of, indices, labels_of
from eindiff.structure.terms import Array, Term

MOST_ENTRIES = 2**28  # of a sparse matrix


def entries(term: Term) -> int:
    """How many entries of the matrix a term adds to."""
    return prod(term.sizes[x] for x in labels_of(term.axes()))


def entry_count(grid: Grid) -> int:
    """How many entries are added up; the matrix has no more than these that are not zero."""
    return sum(map(entries, grid.all_terms))


def row_counts(grid: Grid) -> Array:
    """How many entries are added up in each row."""
    total = np.zeros(grid.shape[0], int)
    for (i, _), term in placed_terms(grid):
        axes = term.axes()[: len(grid.rows[i])]
        own = labels_of(axes)
        others = entries(term) // max(1, prod(term.sizes[x] for x in own))
        start = starts(grid.rows)[i]
        total[start : starts(grid.rows)[i + 1]] += others * np.bincount(
            _flat(axes, own, term), minlength=prod(grid.rows[i])
        )
    return total


class Coordinates:
    """Where the entries of the terms of a grid are in a matrix in compressed columns."""

    def __init__(self, grid: Grid) -> None:
        rows: list[Array] = []
        columns: list[Array] = []
        for (i, j), term in placed_terms(grid):
            split = len(grid.rows[i])
            axes, labels = term.axes(), labels_of(term.axes())
            for found, part, start in (
                (rows, axes[:split], starts(grid.rows)[i]),
                (columns, axes[split:], starts(grid.cols)[j]),
            ):
                found.append(start + _flat(part, labels, term))
        row, column = (np.concatenate(part) if part else np.zeros(0, int) for part in (rows, columns))
        height, width = self.shape = grid.shape
        pattern = coo_array((np.ones(len(row), bool), (row, column)), shape=grid.shape).tocsc()
        pattern.sort_indices()
        self.indices, self.starts = pattern.indices, pattern.indptr
        keys = np.repeat(np.arange(width) * height, np.diff(self.starts)) + self.indices
        slots = np.searchsorted(keys, column * height + row)
        self._slots = slots.astype(self.indices.dtype)  # where each entry is added
        self._is_sum = len(slots) > len(keys)

    @cached_property
    def ranks(self) -> Array:
        """The place of each unknown in an order in which those that meet are near to each other."""
        ones = np.ones(len(self.indices), np.int8)
        matrix = csc_array((ones, self.indices, self.starts), shape=self.shape).tocsr()
        order = reverse_cuthill_mckee((matrix + matrix.T).tocsr(), symmetric_mode=True)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks

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
        return self.indices.nbytes + self.starts.nbytes + self._slots.nbytes

    def matrix(self, grid: Grid) -> csc_array:
        """The matrix of a grid of this kind."""
        parts = [term.values().reshape(-1) for _, term in placed_terms(grid)]
        values = np.concatenate(parts) if parts else np.zeros(0)
        if self._is_sum:
            data = np.bincount(self._slots, values, len(self.indices)).astype(grid.dtype, copy=False)
        else:
            data = np.empty(len(self.indices), grid.dtype)
            data[self._slots] = values
        return csc_array((data, self.indices, self.starts), shape=self.shape)


def placed_terms(grid: Grid) -> list[tuple[tuple[int, int], Term]]:
    """All terms, with the places of their blocks."""
    return [((i, j), term) for i, row in enumerate(grid.terms) for j, block in enumerate(row) for term in block]


def _flat(axes: list[Axis], labels: tuple[int, ...], term: Term) -> Array:
    """The index in a flat array with some axes, for all indices of labels."""
    of, total = indices(labels, term.sizes), np.zeros((1,) * len(labels), int)
    shape = [term.sizes[x if isinstance(x, int) else x.target] for x in axes]
    for k, axis in enumerate(axes):
        total = total + index_of(axis, of) * prod(shape[k + 1 :])
    return np.broadcast_to(total, [term.sizes[x] for x in labels]).reshape(-1)


_known: Recent[tuple[Coordinates, list[Array]]] = Recent(16, 2**28)


def coordinates(grid: Grid) -> Coordinates:
    """The coordinates of a grid, which are kept for all of its kind."""
    if entry_count(grid) > MOST_ENTRIES:
        raise EindiffError(
            f"a sparse matrix of {entry_count(grid):.1e} entries is too large: use products with @", "large"
        )
    key = (grid.rows, grid.cols, *(_kind(term) + where for where, term in placed_terms(grid)))
    found = _known.get(key)
    if found is None:
        made = Coordinates(grid)
        tables = [place.table for term in grid.all_terms for place in term.places if place.table is not None]
        found = _known.keep(key, (made, tables), made.nbytes)  # a table that is kept alive keeps its identity
    return found[0]


def _kind(term: Term) -> tuple:
    """What the coordinates of a term depend on."""
    labels = labels_of(term.axes())
    names = {label: k for k, label in enumerate(labels)}
    axes = [
        (*axis.key, *(names[x] for x in axis.sources)) if isinstance(axis, Place) else names[axis]
        for axis in term.axes()
    ]
    return (*axes, *(term.sizes[x] for x in labels))


def to_csc(grid: Grid) -> csc_array:
    """A grid as a sparse matrix in compressed columns."""
    return coordinates(grid).matrix(grid)
