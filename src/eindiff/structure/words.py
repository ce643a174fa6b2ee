"""What operators with few entries are called: bands, block bands and stencils, by offsets of columns from rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from eindiff.structure.diagonals import EntryLine
from eindiff.structure.grid import Grid
from eindiff.structure.places import Array, Axis, has_table, index_of, indices, labels_of, offset_of, strides_of
from eindiff.structure.sparse import remembered
from eindiff.structure.terms import Term

WIDTHS = 2  # times the width of a band fit into its axis
MOST_OFFSETS = 512  # of one term along an axis
MOST_LOOKED_AT = 2**24  # entries whose places are in tables
FILLED_DIAGONALS = 2  # times the entries that tables have are as many as their diagonals have
APART, MOST_TURNS = 8, 16  # by which the lengths of axes that take turns differ, and entries that are too few for it
NUMBER_WORDS = {3: "three", 5: "five", 7: "seven", 9: "nine"}

Offsets = frozenset[int] | None  # None: row and column have nothing to do with each other


def _offsets(row: Axis, column: Axis, term: Term, size: int) -> Offsets:
    """The differences of column and row along an axis that a term has."""
    if has_table(row) or has_table(column):
        return _offsets_by_table(row, column, term, size)
    line = EntryLine.of(term, ([row], [1]), ([column], [1]))
    if line.count > MOST_OFFSETS:
        return None
    found = frozenset(offset for offset, _ in line.diagonals())
    return None if len(found) >= size > 1 else found


def _offsets_by_table(row: Axis, column: Axis, term: Term, size: int) -> Offsets:
    """The same, where tables say so, and most rows have most of the offsets."""
    rows, columns = _both(row, column, term)
    if rows.size > MOST_LOOKED_AT:
        return None
    found = np.flatnonzero(np.bincount((columns - rows).reshape(-1) + size)) - size
    is_band = len(found) < min(size, MOST_OFFSETS) and len(found) * size <= FILLED_DIAGONALS * rows.size
    return frozenset(found.tolist()) if is_band else None


def _points(term: Term, offsets: Sequence[Offsets], moving: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The points along some axes by which columns lie beside rows: all pairs of offsets, or those that tables have."""
    pairs = {k: _pair(term, k, len(offsets)) for k in moving}
    together = [k for k in moving if any(map(has_table, pairs[k]))]
    if len(together) < 2:
        yield from product(*(offsets[k] or () for k in moving))
        return
    of = indices(labels_of([axis for k in together for axis in pairs[k]]), term.sizes)
    moved = np.broadcast_arrays(*(index_of(pairs[k][1], of) - index_of(pairs[k][0], of) for k in together))
    for point in np.unique(np.stack([x.reshape(-1) for x in moved]), axis=1).T.tolist():
        known = dict(zip(together, point, strict=True))
        yield from product(*([known[k]] if k in known else offsets[k] or () for k in moving))


def _both(row: Axis, column: Axis, term: Term) -> tuple[Array, Array]:
    """The rows and columns along an axis, for all indices of their labels."""
    of = indices(labels_of([row, column]), term.sizes)
    rows, columns = np.broadcast_arrays(index_of(row, of), index_of(column, of))
    return rows, columns


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Where columns lie relative to rows: the axes that terms move along, by which points, and the other axes."""

    dims: Sequence[int]
    blocks: Sequence[int]  # axes along which anything may meet anything
    moving: Sequence[int]
    still: Sequence[int]
    points: frozenset[tuple[int, ...]]

    @classmethod
    def of(cls, grid: Grid) -> _Offsets:
        [dims], [[terms]] = grid.rows, grid.terms
        axes = range(len(dims))
        found = [[_offsets(*_pair(term, k, len(dims)), term, dims[k]) for k in axes] for term in terms]
        blocks = [k for k in axes if any(one[k] is None for one in found)]
        moving = [k for k in axes if k not in blocks and any(one[k] != frozenset([0]) for one in found)]
        still = [k for k in axes if k not in blocks and k not in moving]
        points = frozenset(x for term, one in zip(terms, found, strict=True) for x in _points(term, one, moving))
        return cls(dims, blocks, moving, still, points)

    def count(self, axes: Sequence[int]) -> int:
        """The entries of some axes."""
        return prod(self.dims[k] for k in axes)

    def folded(self) -> frozenset[tuple[int, ...]]:
        """The points, around the ends where that is shorter."""
        pairs = (zip(point, self.moving, strict=True) for point in self.points)
        return frozenset(tuple([_folded(x, self.dims[k]) for x, k in pair]) for pair in pairs)


def _pair(term: Term, k: int, half: int) -> tuple[Axis, Axis]:
    axes = term.axes()
    return axes[k], axes[half + k]


def words(grid: Grid) -> str | None:
    """The word for an operator on one variable, all of whose terms have known offsets along some axis; else None."""
    found = remembered(grid, "offsets", lambda: _Offsets.of(grid), lambda _: 256)
    if not found.moving:
        return None
    if len(found.dims) == 1 and (block := remembered(grid, "blocks", lambda: _block(grid), lambda _: 8)) is not None:
        return f"block diagonal, blocks {block}×{block}"
    folded = found.folded()
    width = max(abs(x) for point in folded for x in point)
    if width * WIDTHS >= min(found.dims[k] for k in found.moving):
        return None
    word = _band(width, found.count(found.blocks)) if len(found.moving) == 1 else _stencil(found, len(folded))
    if folded != found.points:
        is_circle = len(found.dims) == 1 and _commutes_with_shifts(grid)
        word = f"circulant ({word})" if is_circle else f"periodic {word}"
    return f"block diagonal ({word})" if found.count(found.still) > 1 else word


def interleaved(grid: Grid) -> str | None:
    """The word for an operator on several variables that is near the diagonal once they take turns along their longest
    axes, as the states, controls and multipliers of one time do; else None."""
    if len(grid.rows) < 2 or grid.rows != grid.cols or any(not dims for dims in grid.rows):
        return None
    longest = [max(range(len(dims)), key=dims.__getitem__) for dims in grid.rows]
    lengths = [dims[axis] for dims, axis in zip(grid.rows, longest, strict=True)]
    if max(lengths) - min(lengths) > APART or min(lengths) <= MOST_TURNS:
        return None
    found = remembered(grid, "interleaved", lambda: _reach(grid, longest), lambda _: 8)
    block = sum(prod(dims) // length for dims, length in zip(grid.rows, lengths, strict=True))
    if found is None or found * WIDTHS >= min(lengths):
        return None
    word = f"block diagonal, blocks {block}×{block}" if found == 0 else _band(found, block)
    return f"{word}, once variables are interleaved"


def _reach(grid: Grid, longest: Sequence[int]) -> int | None:
    """How far columns are from rows along the longest axes of variables; None if they have nothing to do with them."""
    reach = 0
    for i, row in enumerate(grid.terms):
        for j, block in enumerate(row):
            for term in block:
                axes = term.axes()
                pair = axes[longest[i]], axes[len(grid.rows[i]) + longest[j]]
                offsets = _offsets(*pair, term, max(grid.rows[i][longest[i]], grid.cols[j][longest[j]]))
                if offsets is None:
                    return None
                reach = max(reach, *(abs(x) for x in offsets))
    return reach


def _stencil(found: _Offsets, count: int) -> str:
    """The word for points around each place of a grid."""
    rows = found.count(found.blocks)
    word = f"{NUMBER_WORDS.get(count, count)}-point stencil on {'×'.join(str(found.dims[k]) for k in found.moving)}"
    return word + (f", blocks {rows}×{rows}" if rows > 1 else "")


def _block(grid: Grid) -> int | None:
    """The size of the blocks along the diagonal that all entries of an operator on vectors are in."""
    [[size]], [[terms]] = grid.rows, grid.terms
    if any(term.has_tables for term in terms):
        return _block_by_table(terms, size)
    found = {_block_of_term(term, size) for term in terms} - {0}
    block = found.pop() if len(found) == 1 else 1
    return block if 1 < block < size and size % block == 0 else None


def _block_of_term(term: Term, size: int) -> int:
    """The same of one term: 0 if all of it is on the diagonal, the whole size if it is in no blocks."""
    row, column = term.axes()
    rows, columns = strides_of([row], [1]), strides_of([column], [1])
    firsts = [offset_of(row), offset_of(column)]
    if rows == columns and firsts[0] == firsts[1]:
        return 0
    shared = [step for label, step in rows.items() if columns.get(label) == step]
    inside = [
        first + sum(step * (term.sizes[x] - 1) for x, step in steps.items() if step not in shared)
        for first, steps in zip(firsts, (rows, columns), strict=True)
    ]
    if not shared or max(inside) >= min(shared) or min(*firsts, *rows.values()) < 0:
        return size
    return min(shared)


def _block_by_table(terms: Sequence[Term], size: int) -> int | None:
    """The same, where tables say so: nothing may reach from one block to the next."""
    reach = np.arange(size)
    for term in terms:
        row, column = term.axes()
        rows, columns = (x.reshape(-1) for x in _both(row, column, term))
        np.maximum.at(reach, np.minimum(rows, columns), np.maximum(rows, columns))
    ends = np.flatnonzero(np.maximum.accumulate(reach) == np.arange(size))
    blocks = np.diff(ends, prepend=-1)
    return int(blocks[0]) if 1 < blocks[0] < size and (blocks == blocks[0]).all() else None


def _commutes_with_shifts(grid: Grid) -> bool:
    """Whether it does not matter where on the circle an operator is applied."""
    x = np.random.default_rng(0).normal(size=(grid.shape[0], 1)).astype(grid.dtype)
    one, other = np.roll(grid.apply(x), 1), grid.apply(np.roll(x, 1))
    return bool(np.abs(one - other).max() <= 1000 * np.finfo(grid.dtype).eps * np.abs(one).max())


def _folded(offset: int, size: int) -> int:
    """An offset around the end, as the shorter way."""
    return offset - size if 2 * offset > size else offset + size if 2 * offset < -size else offset


def _band(width: int, block: int) -> str:
    """The word for a band, of numbers or of blocks."""
    if block == 1:
        return "tridiagonal" if width == 1 else f"band of half-width {width}"
    word = "block tridiagonal" if width == 1 else f"block band of half-width {width}"
    return f"{word}, blocks {block}×{block}"
