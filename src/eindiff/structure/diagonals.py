"""The entries of terms that are along few diagonals of a matrix: they are added up by views, and nothing is sorted.

A *table* has a row for each diagonal, from the uppermost one down, and a column for each column of the matrix. In the
order of its columns it is the matrix in compressed columns, with entries that are not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from scipy.sparse import dia_array

from eindiff.structure.grid import Grid, starts
from eindiff.structure.places import Axis, Place, add_at, labels_of, read, strides_of
from eindiff.structure.terms import Array, Term

MOST_DIAGONALS = 256  # that a term is along
LARGER = 4  # times as many places on diagonals as entries may be looked at


@dataclass(frozen=True)
class Line:
    """A diagonal of a term: the difference of column and row, the column, and which indices of labels are on it."""

    offset: int
    column: Place
    at: dict[int, int]


@dataclass(frozen=True)
class Diagonals:
    """The lines of all terms of a grid, and where they are in a table."""

    shape: tuple[int, int]
    lines: list[list[Line]]  # of each term
    offsets: list[int]  # from above

    @classmethod
    def of(cls, grid: Grid) -> Diagonals | None:
        """The diagonals of a grid, if they are few."""
        lines = []
        for where, term in grid.placed_terms:
            found = _lines(grid, where, term)
            if found is None:
                return None
            lines.append(found)
        offsets = sorted({line.offset for found in lines for line in found}, reverse=True)
        if not 0 < len(offsets) * grid.shape[1] <= LARGER * grid.entry_count:
            return None
        return cls(grid.shape, lines, offsets)

    @cached_property
    def _starts(self) -> dict[int, int]:
        return {offset: k * self.shape[1] for k, offset in enumerate(self.offsets)}

    def _place(self, line: Line) -> Place:
        """Where a line is in a flat table."""
        return Place(-1, line.column.sources, line.column.offset + self._starts[line.offset], line.column.strides)

    def table(self, grid: Grid) -> Array:
        """The values of a grid of this kind."""
        table = np.zeros(len(self.offsets) * self.shape[1], grid.dtype)
        for term, lines in zip(grid.all_terms, self.lines, strict=True):
            values, labels = term.values(), labels_of(term.axes())
            for line in lines:
                part = values[tuple([line.at.get(x, slice(None)) for x in labels])]
                add_at(table, [self._place(line)], part, line.column.sources, term.sizes)
        return table.reshape(len(self.offsets), self.shape[1])

    def matrix(self, grid: Grid) -> dia_array:
        """The matrix of a grid of this kind, by its diagonals."""
        return dia_array((self.table(grid), self.offsets), shape=self.shape)

    def pattern(self, grid: Grid, index: type) -> tuple[Array, Array, Array]:
        """The rows of entries in compressed columns, where columns start, and the entry at each place of the table."""
        present = np.zeros((len(self.offsets), self.shape[1]), bool)
        for term, lines in zip(grid.all_terms, self.lines, strict=True):
            for line in lines:
                read(present.reshape(-1), [self._place(line)], term.sizes)[0][...] = True
        first: Array = np.zeros(self.shape[1] + 1, index)
        np.cumsum(present.sum(axis=0, dtype=index), out=first[1:])
        ranks: Array = np.empty(present.shape, index)
        rows: Array = np.empty(present.shape[::-1], index)
        columns: Array = np.arange(self.shape[1], dtype=index)
        reached = first[:-1].copy()
        for k, offset in enumerate(self.offsets):  # along diagonals, as loops over few of them would be slow
            ranks[k] = reached
            reached += present[k]
            rows[:, k] = columns - offset
        return rows[present.T.copy()], first, ranks

    def slots(self, grid: Grid, ranks: Array) -> list[Array]:
        """For each term what a table has at its entries."""
        found = []
        for term, lines in zip(grid.all_terms, self.lines, strict=True):
            labels = labels_of(term.axes())
            own = np.empty([term.sizes[x] for x in labels], ranks.dtype)
            for line in lines:
                view = read(ranks.reshape(-1), [self._place(line)], term.sizes)[0]
                own[tuple([line.at.get(x, slice(None)) for x in labels])] = view
            found.append(own.reshape(-1))
        return found


def _lines(grid: Grid, where: tuple[int, int], term: Term) -> list[Line] | None:
    """The diagonals that a term is along, one for each index of the labels that move across them, if these are few."""
    if any(place.table is not None for place in term.places):
        return None
    axes, labels, split = term.axes(), labels_of(term.axes()), len(grid.rows[where[0]])
    (row, rows), (column, columns) = (
        (start + _first(part, term), strides_of(part, flat_strides(part, term)))
        for start, part in ((starts(grid.rows)[where[0]], axes[:split]), (starts(grid.cols)[where[1]], axes[split:]))
    )
    moving = [x for x in labels if columns.get(x, 0) != rows.get(x, 0)]
    if prod(term.sizes[x] for x in moving) > MOST_DIAGONALS:
        return None
    rest, found = tuple([x for x in labels if x not in moving]), []
    for index in product(*(range(term.sizes[x]) for x in moving)):
        at = dict(zip(moving, index, strict=True))
        i, j = (a + sum(k * b.get(x, 0) for x, k in at.items()) for a, b in ((row, rows), (column, columns)))
        found.append(Line(j - i, Place(-1, rest, j, tuple([columns.get(x, 0) for x in rest])), at))
    return found


def _first(axes: list[Axis], term: Term) -> int:
    """The index in a flat array where all labels are 0."""
    strides = zip(axes, flat_strides(axes, term), strict=True)
    return sum(axis.offset * stride for axis, stride in strides if isinstance(axis, Place))


def flat_strides(axes: list[Axis], term: Term) -> list[int]:
    """The strides of a flat array with some axes."""
    shape = [term.sizes[x if isinstance(x, int) else x.target] for x in axes]
    return [prod(shape[k + 1 :]) for k in range(len(shape))]
