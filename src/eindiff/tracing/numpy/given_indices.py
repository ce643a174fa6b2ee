"""Arrays of indices among the arguments of a traced function, `u[g]`: inputs of its program, as other arrays are.

A trace stands for all indices that are in range. So a call with other ones, those of the next batch, needs no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.construct import Factor, constant
from eindiff.core.index_relations import Given, IndexMap, Table
from eindiff.core.labels import Labels
from eindiff.core.nodes import Expr, plain, variables
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing as ix
from eindiff.tracing.numpy.values import ask
from eindiff.tracing.places import EXACT, MANY
from eindiff.tracing.questions import current


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


def are_given(index: Any) -> bool:
    """Whether an index is an array of arguments that are whole numbers, and so long that its values are not worth a
    trace of their own."""
    if not hasattr(type(index), "_question") or index.dtype.kind not in "iu" or index._question() is not None:
        return False
    answers, unknown = current(), variables(index.__eindiff_expression__)
    if answers is None or not unknown or not answers.knows(unknown) or np.prod(index.shape, dtype=int) < MANY:
        return False
    return all(np.asarray(answers.arrays[x]).dtype.kind in "iu" for x in unknown)


def _places(index: Any, size: int) -> Expr | None:
    """Indices of an axis, counted from its beginning; None if some are outside. It is asked of those of other calls
    as well, where the same program is to run."""
    found = ask(_range, (index, size)) if size <= EXACT else NotImplemented
    if found is NotImplemented or not found[0]:
        return None
    places = plain(index.__eindiff_expression__)
    return places if found[1] else places + size * functions.greater(construct.filled(0, ()), places)


def _range(index: np.ndarray, size: int) -> tuple[bool, bool]:
    """Whether all indices are those of an axis, and whether none counts from its end."""
    least = index.min()
    return bool(least >= -size and index.max() < size), bool(least >= 0)


def given_entries(shape: Sequence[Any], index: Any) -> Entries | None:
    """The entries of an array that an index with given indices chooses; None for other indices."""
    given = list(index) if isinstance(index, tuple) else [index]
    parts = _filled(given, len(shape)) if any(map(are_given, given)) else None
    if parts is None or not all(isinstance(size, int) for size in shape):
        return None
    lists = [k for k, part in enumerate(parts) if not isinstance(part, slice | int | np.integer)]
    chosen = [k for k, part in enumerate(parts) if not isinstance(part, slice)]
    common = _common_shape([parts[k] for k in lists])
    if common is None or chosen[-1] - chosen[0] + 1 != len(chosen):
        return None
    arrays = {k: _in_range(parts[k], int(shape[k]), common) for k in lists}
    if any(found is None for found in arrays.values()):
        return None
    cut = tuple([slice(None) if k in arrays else part for k, part in enumerate(parts)])
    return _entries(shape, cut, {k: found for k, found in arrays.items() if found is not None}, common)


def _filled(parts: Sequence[Any], count: int) -> list[Any] | None:
    """One part of an index for each axis; None where there are new axes or masks, or too many parts."""
    known = [part for part in parts if part is not Ellipsis]
    if len(known) > count or len(parts) - len(known) > 1 or not all(map(_is_simple, known)):
        return None
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    return [*parts[:at], *[slice(None)] * (count - len(known)), *parts[at + 1 :]]


def _is_simple(part: Any) -> bool:
    if isinstance(part, int | np.integer | slice):
        return not isinstance(part, bool)
    return are_given(part) or (isinstance(part, np.ndarray) and part.dtype.kind in "iu")


def _common_shape(parts: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape that given indices have, if they have one that known ones fit."""
    given = {tuple(part.shape) for part in parts if are_given(part)}
    known = [np.shape(part) for part in parts if not are_given(part)]
    if len(given) > 1:
        return None
    [shape] = given
    try:
        return shape if np.broadcast_shapes(shape, *known) == shape else None
    except ValueError:
        return None


def _in_range(part: Any, size: int, shape: tuple[int, ...]) -> Given | Table | None:
    """Places along an axis; None where some are outside."""
    if are_given(part):
        return None if (places := _places(part, size)) is None else Given(plain(places))
    index = np.asarray(part)
    if index.size == 0 or index.min() < -size or index.max() >= size:
        return None
    return Table(np.broadcast_to(np.where(index < 0, index + size, index), shape))


def _entries(
    shape: Sequence[int], cut: tuple[Any, ...], arrays: dict[int, Given | Table], common: tuple[int, ...]
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
