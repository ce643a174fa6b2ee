"""The entries of terms that are along few diagonals of a matrix: they are added up by views, and nothing is sorted.

A *table* has a row for each diagonal, from the uppermost one down, and a column for each column of the matrix. In the
order of its columns it is the matrix in compressed columns, with entries that are not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from scipy.sparse import dia_array

from eindiff.core.labels import Labels
from eindiff.structure.grid import Grid, starts
from eindiff.structure.places import Axis, Place, add_at, labels_of, offset_of, read, strides_of
from eindiff.structure.terms import Array, Term

MOST_DIAGONALS_OF_TERM = 256  # that a term is along
LARGER = 4  # times as many places on diagonals as entries may be looked at


Strided = tuple[Sequence[Axis], Sequence[int]]  # axes, and by how much an index changes along each


@dataclass(frozen=True)
class EntryLine:
    """Where the entries of a term with affine places are: row and column, each a first one and steps along labels."""

    term: Term
    labels: Labels
    row: int
    column: int
    row_steps: dict[int, int]
    column_steps: dict[int, int]

    @classmethod
    def of(cls, term: Term, rows: Strided, columns: Strided) -> EntryLine:
        """The entries of a term, some of whose axes are rows, and some columns."""
        labels = labels_of([*rows[0], *columns[0]])
        row, column = (sum(offset_of(x) * stride for x, stride in zip(*half, strict=True)) for half in (rows, columns))
        row_steps, column_steps = ({**dict.fromkeys(labels, 0), **strides_of(*half)} for half in (rows, columns))
        return cls(term, labels, row, column, row_steps, column_steps)

    @cached_property
    def moved(self) -> dict[int, int]:
        """The labels that move across diagonals, and by how many."""
        steps = {x: self.column_steps[x] - self.row_steps[x] for x in self.labels}
        return {x: step for x, step in steps.items() if step}

    @property
    def count(self) -> int:
        """How many diagonals there are, some of which may be the same."""
        return prod(self.term.sizes[x] for x in self.moved)

    def offsets(self) -> tuple[int, int]:
        """The least and the largest difference of column and row."""
        moves = [step * (self.term.sizes[x] - 1) for x, step in self.moved.items()]
        first = self.column - self.row
        return first + sum(min(move, 0) for move in moves), first + sum(max(move, 0) for move in moves)

    def diagonals(self) -> Iterator[tuple[int, dict[int, int]]]:
        """The differences of column and row, each with the indices of the labels that move across diagonals."""
        for index in product(*(range(self.term.sizes[x]) for x in self.moved)):
            offset = sum(k * step for k, step in zip(index, self.moved.values(), strict=True))
            yield self.column - self.row + offset, dict(zip(self.moved, index, strict=True))


@dataclass(frozen=True)
class TermDiagonal:
    """A diagonal of a term: the difference of column and row, the column, and which indices of labels are on it."""

    offset: int
    column: Place
    at: dict[int, int]


@dataclass(frozen=True)
class Diagonals:
    """The lines of all terms of a grid, and where they are in a table."""

    shape: tuple[int, int]
    lines: list[list[TermDiagonal]]  # of each term
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

    def _place(self, line: TermDiagonal) -> Place:
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


def _lines(grid: Grid, where: tuple[int, int], term: Term) -> list[TermDiagonal] | None:
    """The diagonals that a term is along, one for each index of the labels that move across them, if these are few."""
    if term.has_tables:
        return None
    axes, split = term.axes(), len(grid.rows[where[0]])
    line = EntryLine.of(term, *[(half, flat_strides(half, term)) for half in (axes[:split], axes[split:])])
    if line.count > MOST_DIAGONALS_OF_TERM:
        return None
    first_row, first_column = starts(grid.rows)[where[0]], starts(grid.cols)[where[1]]
    rest, steps = tuple([x for x in line.labels if x not in line.moved]), line.column_steps
    found = []
    for offset, at in line.diagonals():
        start = first_column + line.column + sum(k * steps[x] for x, k in at.items())
        column = Place(-1, rest, start, tuple([steps[x] for x in rest]))
        found.append(TermDiagonal(first_column - first_row + offset, column, at))
    return found


def flat_strides(axes: list[Axis], term: Term) -> list[int]:
    """The strides of a flat array with some axes."""
    shape = [term.sizes[x if isinstance(x, int) else x.target] for x in axes]
    return [prod(shape[k + 1 :]) for k in range(len(shape))]
