"""Products of linear maps, as sums of terms again: `J' D J` of Gauss and Newton has the structure that J and D have.

The columns of one term meet the rows of another. Labels that meet are united; a label that meets a place is what that
place says; two places meet where they are equal, along a line if both are affine in one label, else in a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import coo_array, issparse

from eindiff.core.errors import EindiffError, shape_text
from eindiff.structure.grid import Grid, Shape
from eindiff.structure.places import Axis, Place, index_of, indices, labels_of, meeting, read
from eindiff.structure.terms import Array, Term


def product(one: Grid, other: Grid) -> Grid:
    """The map that applies the other one first."""
    terms = tuple(
        tuple(
            tuple(
                found
                for k, shape in enumerate(one.cols)
                for left in one.terms[i][k]
                for right in other.terms[k][j]
                if (found := _composed(left, right, len(one.rows[i]), len(shape))) is not None
            )
            for j in range(len(other.cols))
        )
        for i in range(len(one.rows))
    )
    return Grid(one.rows, other.cols, terms, np.result_type(one.dtype, other.dtype))


def _composed(left: Term, right: Term, rows: int, middle: int) -> Term | None:
    """The product of two terms; None if it is zero."""
    first = 1 + max(left.sizes, default=0)
    right = right.renamed({label: first + k for k, label in enumerate(right.sizes)})
    both = Term(
        left.coefficient * right.coefficient, left.arrays + right.arrays, left.labels + right.labels,
        left.output + right.output, {**left.sizes, **right.sizes}, (), left.places + right.places,
    )  # fmt: skip
    places = {place.target for place in both.places}
    pairs = list(zip(left.output[rows:], right.output[:middle], strict=True))
    both = both.united((a, b) for a, b in pairs if a not in places and b not in places)
    inner = both.output[rows : rows + middle], both.output[rows + middle : rows + 2 * middle]
    outer = both.output[:rows] + both.output[rows + 2 * middle :]
    axes = [(a, b) for a, b in zip(*map(both.axes, inner), strict=True) if a != b]
    gone = {place.target for pair in axes for place in pair if isinstance(place, Place)}
    whole = replace(both, output=outer, places=tuple([x for x in both.places if x.target not in gone]))
    return whole if not axes else _met(whole, axes)


def _met(term: Term, pairs: Sequence[tuple[Axis, Axis]]) -> Term | None:
    """A term with axes that are equal."""
    for one, other in pairs:
        label, place = (one, other) if isinstance(one, int) else (other, one)
        if len(pairs) == 1 and isinstance(label, int) and isinstance(place, Place) and label not in place.sources:
            return _substituted(term, {label: place})
    if len(pairs) == 1 and (line := _line(*pairs[0], term.sizes)) is not None:
        count, found = line
        if count <= 0:
            return None
        fresh = 1 + max(term.sizes, default=0)
        sizes = {**term.sizes, fresh: count}
        return _substituted(
            replace(term, sizes=sizes), {x: Place(x, (fresh,), start, (1,)) for x, start in found.items()}
        )
    met = meeting(pairs, term.sizes)
    if met is None:
        return None
    if not met:
        return term
    count = len(next(iter(met.values())))
    fresh = 1 + max(term.sizes, default=0)
    sizes = {**term.sizes, fresh: count}
    return _substituted(replace(term, sizes=sizes), {x: Place(x, (fresh,), table=at) for x, at in met.items()})


def _line(one: Axis, other: Axis, sizes: Mapping[int, int]) -> tuple[int, dict[int, int]] | None:
    """Where two affine places of one label each are equal: how often, and from which index of each label on."""
    if not isinstance(one, Place) or not isinstance(other, Place) or one.sources == other.sources:
        return None
    if one.strides != other.strides or len(one.strides) != 1 or abs(one.strides[0]) != 1:
        return None
    shift = (one.offset - other.offset) * one.strides[0]  # label of the other = label of the one + shift
    [a], [b] = one.sources, other.sources
    first = max(0, -shift)
    return min(sizes[a], sizes[b] - shift) - first, {a: first, b: first + shift}


def _substituted(term: Term, names: Mapping[int, Place]) -> Term:
    """A term in which labels are functions of others."""
    arrays, labels = [], []
    for array, own in term.operands:
        found, left = read(array, [names.get(x, x) for x in own], term.sizes) if set(own) & set(names) else (array, own)
        arrays.append(found)
        labels.append(left)
    sizes, output, places = dict(term.sizes), [], list[Place]()
    for axis in term.axes():
        label = axis if isinstance(axis, int) else axis.target
        changed = _composed_axis(axis, names, sizes)
        if isinstance(changed, Place):
            target = 1 + max(sizes)
            sizes[target] = sizes[label]
            changed = replace(changed, target=target)
            places.append(changed)
            output.append(target)
        else:
            output.append(changed)
    return Term(term.coefficient, tuple(arrays), tuple(labels), tuple(output), sizes, (), tuple(places))


def _composed_axis(axis: Axis, names: Mapping[int, Place], sizes: Mapping[int, int]) -> Axis:
    """An axis as a function of other labels."""
    if isinstance(axis, int):
        return names.get(axis, axis)
    if not set(axis.sources) & set(names):
        return axis
    parts: list[Axis] = [names.get(x, x) for x in axis.sources]
    sources = labels_of(parts)
    if axis.table is None and all(isinstance(x, int) or x.table is None for x in parts):
        offset, strides = axis.offset, dict.fromkeys(sources, 0)
        for part, stride in zip(parts, axis.strides, strict=True):
            offset += stride * part.offset if isinstance(part, Place) else 0
            own = [(part, 1)] if isinstance(part, int) else list(zip(part.sources, part.strides, strict=True))
            for x, step in own:
                strides[x] += stride * step
        return Place(axis.target, sources, offset, tuple(strides.values()))
    of = indices(sources, sizes)
    table = axis.index({x: index_of(part, of) for x, part in zip(axis.sources, parts, strict=True)})
    return Place(axis.target, sources, table=np.broadcast_to(table, [sizes[x] for x in sources]))


def as_grid(matrix: Any, rows: tuple[Shape, ...], columns: tuple[Shape, ...]) -> Grid:
    """A sparse matrix of SciPy as a map between tensors of some shapes."""
    if not issparse(matrix):
        raise EindiffError("a product of derivatives needs another derivative, or a sparse matrix of SciPy", "options")
    found = coo_array(matrix)
    shape = sum(map(prod, rows)), sum(map(prod, columns))
    if found.shape != shape:
        raise EindiffError(
            f"a matrix of shape {shape_text(found.shape)} does not fit: it must be {shape_text(shape)}", "shapes"
        )
    if len(rows) > 1 or len(columns) > 1:
        raise EindiffError(
            "a sparse matrix is multiplied with derivatives by one variable: take one of the blocks", "shapes"
        )
    row, column = found.coords
    if rows == columns and len(row) == shape[0] and np.array_equal(row, column) and _is_range(row):
        axes = tuple(range(len(rows[0])))
        term = Term(1.0, (found.data.reshape(rows[0]),), (axes,), axes + axes, dict(enumerate(rows[0])))
        return Grid(rows, columns, (((term,),),), found.dtype)
    sizes, places = {0: len(row)}, []
    for flat, dims in ((row, rows[0]), (column, columns[0])):
        for table, size in zip(np.unravel_index(flat, dims), dims, strict=True):
            label = len(sizes)
            sizes[label] = size
            places.append(Place(label, (0,), table=np.asarray(table, np.int64)))
    term = Term(1.0, (found.data,), ((0,),), tuple([x.target for x in places]), sizes, (), tuple(places))
    return Grid(rows, columns, (((term,),),), found.dtype)


def _is_range(index: Array) -> bool:
    return bool((index == np.arange(len(index))).all())
