"""Arrays of indices among the arguments of a traced function, `u[g]`: inputs of its program, as other arrays are.

A trace stands for all indices that are in range. So a call with other ones, those of the next batch, needs no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.construct import Factor, constant
from eindiff.core.index_relations import Given, IndexMap, Table
from eindiff.core.labels import Labels
from eindiff.core.nodes import Expr, plain
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing as ix
from eindiff.tracing.questions import Question, current

MANY = 32  # indices that are an input of a program, and no reason for another one when they change
EXACT = 2**24  # places that float32 tells apart

Index = Expr | np.ndarray | slice | int


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries of an array, at indices that come at the call; the array is cut by slices before."""

    cut: tuple[Any, ...]
    shape: tuple[int, ...]  # of the entries
    labels: Labels  # of the axes of the array; those of the entries are 0, 1, ...
    maps: tuple[Factor, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is cut off the array."""
        return all(isinstance(part, slice) and part == slice(None) for part in self.cut)

    def of(self, array: Expr) -> Expr:
        """Them, of an array."""
        array = ix.getitem(array, self.cut)
        sizes = dict(enumerate(self.shape)) | dict(zip(self.labels, array.shape, strict=True))
        return construct.einsum(1, [(array, self.labels), *self.maps], tuple(range(len(self.shape))), sizes)

    def added(self, values: Expr, shape: Sequence[int]) -> Expr:
        """Zeros of a shape with values added at them, for arrays that are not cut."""
        sizes = dict(enumerate(self.shape)) | dict(zip(self.labels, shape, strict=True))
        return construct.einsum(1, [(values, tuple(range(len(self.shape)))), *self.maps], self.labels, sizes)


def given_entries(shape: Sequence[Any], parts: Sequence[Index]) -> Entries | None:
    """The entries of an array at indices, one for each axis, of which some are expressions.

    None where they are not in range, do not fit together, or are apart.
    """
    lists = [k for k, part in enumerate(parts) if isinstance(part, Expr | np.ndarray)]
    chosen = [k for k, part in enumerate(parts) if not isinstance(part, slice)]
    common = _common_shape([parts[k] for k in lists])
    if common is None or chosen[-1] - chosen[0] + 1 != len(chosen) or not all(isinstance(n, int) for n in shape):
        return None
    arrays: dict[int, Given | Table] = {}
    for k in lists:
        if (found := _in_range(parts[k], int(shape[k]), common)) is None:
            return None
        arrays[k] = found
    cut = tuple([slice(None) if k in arrays else part for k, part in enumerate(parts)])
    return _entries(shape, cut, arrays, common)


def _common_shape(parts: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape that given indices have, if they have one that known ones fit."""
    shapes = {tuple(map(int, part.shape)) for part in parts if isinstance(part, Expr)}
    if len(shapes) != 1:
        return None
    [shape] = shapes
    try:
        return shape if np.broadcast_shapes(shape, *[np.shape(x) for x in parts]) == shape else None
    except ValueError:
        return None


def _in_range(part: Any, size: int, shape: tuple[int, ...]) -> Given | Table | None:
    """Places along an axis; None where some are outside."""
    if isinstance(part, Expr):
        return None if (places := given_places(part, size)) is None else Given(plain(places))
    if part.size == 0 or part.min() < -size or part.max() >= size:
        return None
    return Table(np.broadcast_to(np.where(part < 0, part + size, part), shape))


def given_places(index: Expr, size: int) -> Expr | None:
    """Indices of an axis, counted from its beginning; None if some are outside. The same program runs at other calls
    whose indices give the same answer."""
    answers = current()
    if answers is None or size > EXACT:
        return None
    is_inside, is_direct = answers(Question(_range, (index, size)))
    if not is_inside:
        return None
    return index if is_direct else index + size * functions.greater(construct.filled(0, ()), index)


def has_entry(index: Expr, value: int) -> bool:
    """Whether an entry of given indices has a value: it is asked of those of other calls as well."""
    answers = current()
    assert answers is not None  # they are given
    return bool(answers(Question(_has, (index, value))))


def _has(index: np.ndarray, value: int) -> bool:
    return bool((index == value).any())


def _range(index: np.ndarray, size: int) -> tuple[bool, bool]:
    """Whether all indices are those of an axis, and whether none counts from its end."""
    least = index.min()
    return bool(least >= -size and index.max() < size), bool(least >= 0)


def _entries(
    shape: Sequence[int], cut: tuple[Any, ...], arrays: Mapping[int, Given | Table], common: tuple[int, ...]
) -> Entries:
    first, before, labels, maps, lengths = min(arrays), 0, list[int](), list[Factor](), list[int]()
    for k, part in enumerate(cut):
        if k == first:
            before = len(lengths)
            lengths += common
        if k in arrays:
            labels.append(-1)
        elif isinstance(part, slice):
            labels.append(len(lengths))
            lengths.append(len(range(*part.indices(shape[k]))))
    new = len(lengths)
    places = tuple(range(before, before + len(common)))
    for position, k in zip([j for j, label in enumerate(labels) if label < 0], arrays, strict=True):
        labels[position] = new + position
        chosen = IndexMap(shape[k], common, indices=arrays[k])
        found = chosen.simplest() if isinstance(arrays[k], Table) else chosen
        maps.append((constant(found), (new + position, *places)))
    return Entries(cut, tuple(lengths), tuple(labels), tuple(maps))
