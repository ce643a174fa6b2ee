"""What operators with few entries are called: bands, block bands and stencils, by offsets of columns from rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from eindiff.structure.grid import Grid
from eindiff.structure.places import Axis, Place, strides_of
from eindiff.structure.terms import Term

NARROW = 2  # times the width of a band fit into its axis
MOST_OFFSETS = 512  # of one term along an axis
NUMBERS = {3: "three", 5: "five", 7: "seven", 9: "nine"}

Offsets = frozenset[int] | None  # None: row and column have nothing to do with each other


def _offsets(row: Axis, column: Axis, term: Term, size: int) -> Offsets:
    """The differences of column and row along an axis that a term has."""
    if any(isinstance(axis, Place) and axis.table is not None for axis in (row, column)):
        return None
    first = (column.offset if isinstance(column, Place) else 0) - (row.offset if isinstance(row, Place) else 0)
    steps = strides_of([column], [1])
    for label, step in strides_of([row], [1]).items():
        steps[label] = steps.get(label, 0) - step
    moving = {label: step for label, step in steps.items() if step and term.sizes[label] > 1}
    if prod(term.sizes[x] for x in moving) > MOST_OFFSETS:
        return None
    found = frozenset(
        first + sum(k * step for k, step in zip(index, moving.values(), strict=True))
        for index in product(*(range(term.sizes[x]) for x in moving))
    )
    return None if len(found) >= size > 1 else found


def words(grid: Grid) -> str | None:
    """The word for an operator on one variable, all of whose terms have known offsets along some axis; else None."""
    [dims], [[terms]] = grid.rows, grid.terms
    half = len(dims)
    by_term = []
    for term in terms:
        axes = term.axes()
        by_term.append([_offsets(axes[k], axes[half + k], term, dims[k]) for k in range(half)])
    blocks = [k for k in range(half) if any(found[k] is None for found in by_term)]
    moving = [k for k in range(half) if k not in blocks and any(found[k] != frozenset([0]) for found in by_term)]
    still = [k for k in range(half) if k not in blocks and k not in moving]
    if not moving:
        return None
    points = {point for found in by_term for point in product(*(found[k] or () for k in moving))}
    folded = {tuple([_folded(x, dims[k]) for x, k in zip(point, moving, strict=True)]) for point in points}
    width = max(abs(x) for point in folded for x in point)
    if half == 1 and (block := _block(terms, dims[0])) is not None:
        return f"block diagonal, blocks {block}×{block}"
    rows = prod(dims[k] for k in blocks)
    if len(moving) == 1:
        word = _band(width, rows if blocks else 1)
    else:
        count = len(folded)
        word = f"{NUMBERS.get(count, count)}-point stencil on {'×'.join(str(dims[k]) for k in moving)}"
        word += f", blocks {rows}×{rows}" if rows > 1 else ""
    if width * NARROW >= min(dims[k] for k in moving):
        return None
    if folded != points:
        word = f"circulant ({word})" if half == 1 and _commutes_with_shifts(grid) else f"periodic {word}"
    return f"block diagonal ({word})" if prod(dims[k] for k in still) > 1 else word


def _block(terms: Sequence[Term], size: int) -> int | None:
    """The size of the blocks along the diagonal that all entries of an operator on vectors are in."""
    found = []
    for term in terms:
        row, column = term.axes()
        rows, columns = strides_of([row], [1]), strides_of([column], [1])
        if rows == columns and _first(row) == _first(column):
            continue
        shared = [step for label, step in rows.items() if columns.get(label) == step]
        inside = [
            _first(axis) + sum(step * (term.sizes[x] - 1) for x, step in steps.items() if step not in shared)
            for axis, steps in ((row, rows), (column, columns))
        ]
        if not shared or max(inside) >= min(shared) or min(_first(row), _first(column), *rows.values()) < 0:
            return None
        found.append(min(shared))
    block = found[0] if found else 1
    return block if 1 < block < size and all(x == block for x in found) and size % block == 0 else None


def _first(axis: Axis) -> int:
    return axis.offset if isinstance(axis, Place) else 0


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
