"""Sums of terms whose entries lie near the diagonal: for affine places the offsets are known from labels and sizes.

With its axes in row-major order, an entry of a term is in row `r + Σ r_l l` and column `c + Σ c_l l` for labels l. So
it is `c − r + Σ (c_l − r_l) l` beside the diagonal, and its address in the storage of bands is affine too: all entries
of a term are written through one view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np

from eindiff.structure.diagonals import EntryLine
from eindiff.structure.grid import Grid, turned, turned_back
from eindiff.structure.places import Place, add_at
from eindiff.structure.sparse import coordinates
from eindiff.structure.terms import Array, Term

MOST_ORDERED_AXES = 5  # of which all orders are tried
MOST_PARTS = 64  # diagonals of a term that are added one after the other


def _between(line: EntryLine, lower: int, upper: int) -> list[dict[int, int]]:
    """The entries between some diagonals: all, none, or those at some indices of the labels that move across."""
    low, high = line.offsets()
    if low > upper or high < -lower:
        return []
    is_product = len(line.term.arrays) > 1 and line.count <= MOST_PARTS
    if -lower <= low and high <= upper and not is_product:  # the entries of a product are more than its factors
        return [{}]
    return [at for offset, at in line.diagonals() if -lower <= offset <= upper]


def _line(term: Term, dims: tuple[int, ...], order: Sequence[int]) -> EntryLine:
    """The entries of a term of a square operator, with its axes in some order."""
    after = {axis: order[k + 1 :] for k, axis in enumerate(order)}
    strides = [prod(dims[x] for x in after[axis]) for axis in range(len(dims))]
    axes, half = term.axes(), len(dims)
    return EntryLine.of(term, (axes[:half], strides), (axes[half:], strides))


@dataclass(frozen=True)
class Band:
    """A square operator on tensors of shape `dims`, with entries near the diagonal if its axes are in some order."""

    dims: tuple[int, ...]
    terms: tuple[Term, ...]
    order: tuple[int, ...]
    lower: int
    upper: int
    dtype: np.dtype

    @property
    def size(self) -> int:
        """The rows."""
        return prod(self.dims)

    @property
    def is_in_order(self) -> bool:
        """Whether axes stay where they are."""
        return self.order == tuple(range(len(self.dims)))

    def storage(self, lower: int, upper: int, more: int = 0, in_columns: bool = True) -> Array:
        """The diagonals as LAPACK has them: entry (i, j) at `[more + upper + i − j, j]`, in columns or in rows.

        Only those from `−lower` to `upper`: entries that lie outside are left out.
        """
        height = more + lower + upper + 1
        flat = np.zeros(self.size * height, self.dtype)
        down, right = (1, height) if in_columns else (self.size, 1)
        for term in self.terms:
            line = _line(term, self.dims, self.order)
            steps = {x: line.column_steps[x] * right - line.moved.get(x, 0) * down for x in line.labels}
            first = (more + upper + line.row - line.column) * down + line.column * right
            for index in _between(line, lower, upper):
                start = first + sum(steps[x] * k for x, k in index.items())
                labels = tuple([x for x in line.labels if x not in index])
                place = Place(-1, labels, start, tuple([steps[x] for x in labels]))
                add_at(flat, [place], term.values(index).astype(self.dtype, copy=False), labels, term.sizes)
        return flat.reshape(self.size, height).T if in_columns else flat.reshape(height, self.size)

    def arranged(self, x: Array) -> Array:
        """Vectors, the columns of x, in the order of the band."""
        return turned(x, self.dims, self.order)

    def restored(self, x: Array) -> Array:
        """The reverse of `arranged`."""
        return turned_back(x, self.dims, self.order)


class RankedBand:
    """A sparse matrix whose entries are near the diagonal, with its unknowns in some order."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._coordinates = coordinates(grid)
        self.size, _ = grid.shape
        self.dims: tuple[int, ...] = grid.rows[0] if len(grid.rows) == 1 else (self.size,)
        self.lower, self.upper, _ = self._coordinates.widths
        self.dtype = grid.dtype

    @property
    def terms(self) -> list[Term]:
        """What is added up."""
        return self._grid.all_terms

    def storage(self, lower: int, upper: int, more: int = 0, in_columns: bool = True) -> Array:
        """The diagonals from `−lower` to `upper`, as those of `Band`."""
        height = more + lower + upper + 1
        down, right = (1, height) if in_columns else (self.size, 1)
        flat = np.zeros(self.size * height, self.dtype)
        rows, columns = self._coordinates.ranked
        data = self._coordinates.matrix(self._grid).data
        if lower < self.lower or upper < self.upper:
            inside = (rows - columns <= lower) & (columns - rows <= upper)
            rows, columns, data = rows[inside], columns[inside], data[inside]
        flat[(more + upper + rows - columns) * down + columns * right] = data
        return flat.reshape(self.size, height).T if in_columns else flat.reshape(height, self.size)

    @property
    def is_in_order(self) -> bool:
        """Whether unknowns stay where they are."""
        return False

    def arranged(self, x: Array) -> Array:
        """Vectors, the columns of x, in the order of the band."""
        moved = np.empty_like(x)
        moved[self._coordinates.ranks] = x
        return moved

    def restored(self, x: Array) -> Array:
        """The reverse of `arranged`."""
        return x[self._coordinates.ranks]


def band_of(grid: Grid) -> Band | None:
    """An operator on one variable as a band, with its axes in the order in which it is narrowest."""
    [dims], [[terms]] = grid.rows, grid.terms
    if len(dims) > MOST_ORDERED_AXES or any(term.has_tables for term in terms):
        return None
    found = []
    for order in permutations(range(len(dims))):
        offsets = [_line(term, dims, order).offsets() for term in terms]
        lower, upper = max(-low for low, _ in offsets), max(high for _, high in offsets)
        found.append((max(lower, 0) + max(upper, 0), order, max(lower, 0), max(upper, 0)))
    _, best, lower, upper = min(found)
    return Band(dims, terms, best, lower, upper, grid.dtype)
