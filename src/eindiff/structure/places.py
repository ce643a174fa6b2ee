"""Where the entries of a term go along an axis: to an index that is a function of labels.

`row = e + 1, column = e` of values `v_e` is a diagonal beside the main one; `row = g_e` with a table g is a row of a
sparse matrix. An *axis* is a label (its own index) or a `Place` (a function of labels). Affine places are read and
written through views, tables by fancy indexing and products with sparse 0/1 matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from eindiff.core.labels import Labels

if TYPE_CHECKING:
    from scipy.sparse import csc_array

Array = np.ndarray

LOOPS = 64  # views that are added one after the other, where one would have some entries twice


@dataclass(frozen=True, eq=False)
class Place:
    """`target = offset + Σ strides * sources`, or `target = table[sources]`."""

    target: int
    sources: Labels
    offset: int = 0
    strides: tuple[int, ...] = ()
    table: Array | None = None

    @property
    def key(self) -> tuple:
        """What tells places apart, apart from labels: tables by identity."""
        return (self.offset, self.strides) if self.table is None else (id(self.table), self.table.shape)

    def renamed(self, names: Mapping[int, int]) -> Place:
        """The place with other labels."""
        return replace(self, target=names[self.target], sources=tuple([names[x] for x in self.sources]))

    def index(self, of: Mapping[int, Array]) -> Array:
        """The index for arrays of indices of the sources."""
        if self.table is not None:
            return self.table[tuple([of[label] for label in self.sources])]
        total = np.asarray(self.offset)
        for label, stride in zip(self.sources, self.strides, strict=True):
            total = total + stride * of[label]
        return total

    @cached_property
    def _scatter(self) -> csc_array:
        """The 0/1 matrix that adds entries up where the table sends them; its rows are as many as needed."""
        from scipy.sparse import csc_array  # for start-up time

        assert self.table is not None
        flat = self.table.reshape(-1)
        shape = int(flat.max(initial=-1)) + 1, flat.size
        return csc_array((np.ones(flat.size), flat, np.arange(flat.size + 1)), shape=shape)

    def scattered(self, values: Array, size: int) -> Array:
        """Entries along the first axis, which are those of the sources, added up along the target."""
        if values.dtype == np.float64 and values.ndim == 1:
            assert self.table is not None
            return np.bincount(self.table.reshape(-1), values, minlength=size)
        flat = values.reshape(len(values), -1)
        total = np.zeros((size, flat.shape[1]), values.dtype)
        matrix = self._scatter if values.dtype == np.float64 else self._scatter.astype(values.dtype)
        total[: matrix.shape[0]] = matrix @ flat
        return total.reshape(size, *values.shape[1:])


Axis = int | Place


def labels_of(axes: Iterable[Axis]) -> Labels:
    """The labels that axes are made of, each once."""
    return tuple(dict.fromkeys(x for axis in axes for x in ((axis,) if isinstance(axis, int) else axis.sources)))


def indices(labels: Sequence[int], sizes: Mapping[int, int]) -> dict[int, Array]:
    """For each label its indices along an axis of its own, so that they broadcast."""
    count = len(labels)
    return {x: np.arange(sizes[x]).reshape([-1 if k == at else 1 for k in range(count)]) for at, x in enumerate(labels)}


def read(array: Array, axes: Sequence[Axis], sizes: Mapping[int, int]) -> tuple[Array, Labels]:
    """The entries of an array at the places of its axes, over the labels that these are made of."""
    for k, axis in enumerate(axes):
        if isinstance(axis, Place) and axis.table is not None and _is_alone(axis, axes):
            array = array.take(axis.table.reshape(-1), axis=k)
            array = array.reshape(*array.shape[:k], *axis.table.shape, *array.shape[k + 1 :])
            return read(array, [*axes[:k], *axis.sources, *axes[k + 1 :]], sizes)
    labels = labels_of(axes)
    if not any(map(has_table, axes)):
        return _view(array, axes, labels, sizes), labels
    of = indices(labels, sizes)
    return array[tuple([index_of(axis, of) for axis in axes])], labels


def _is_alone(place: Place, axes: Sequence[Axis]) -> bool:
    """Whether no other axis has a label of a place."""
    others = labels_of([axis for axis in axes if axis is not place])
    return not set(place.sources) & set(others) and len(set(place.sources)) == len(place.sources)


def _view(array: Array, axes: Sequence[Axis], labels: Labels, sizes: Mapping[int, int]) -> Array:
    """A view of the entries at affine places. The entry where all labels are 0 is in the array, and it begins there."""
    shape = [sizes[x] for x in labels]
    if not prod(shape):
        return np.empty(shape, array.dtype)
    first = array[tuple([slice(offset_of(axis), None) for axis in axes])]
    steps = strides_of(axes, array.strides)
    return np.lib.stride_tricks.as_strided(first, shape, [steps[x] for x in labels])


def has_table(axis: Axis) -> bool:
    """Whether an axis is listed in a table, and not affine."""
    return isinstance(axis, Place) and axis.table is not None


def offset_of(axis: Axis) -> int:
    """The index along an affine axis where all labels are 0."""
    return axis.offset if isinstance(axis, Place) else 0


def strides_of(axes: Sequence[Axis], strides: Sequence[int]) -> dict[int, int]:
    """By how much an address changes with each label, for affine axes with some strides."""
    steps = dict.fromkeys(labels_of(axes), 0)
    for axis, stride in zip(axes, strides, strict=True):
        if isinstance(axis, int):
            steps[axis] += stride
        else:
            for label, own in zip(axis.sources, axis.strides, strict=True):
                steps[label] += own * stride
    return steps


def add_at(total: Array, axes: Sequence[Axis], values: Array, labels: Labels, sizes: Mapping[int, int]) -> None:
    """Add values over labels to the entries of an array at the places of its axes."""
    if not values.size:
        return
    for k, axis in enumerate(axes):
        if isinstance(axis, Place) and axis.table is not None and _is_alone(axis, axes):
            own = [labels.index(x) for x in axis.sources]
            rest = [k for k in range(len(labels)) if k not in own]
            turned = values.transpose([*own, *rest])
            flat = turned.reshape(axis.table.size, *turned.shape[len(own) :])
            added = axis.scattered(flat, total.shape[k])
            left = (axis.target, *(labels[k] for k in rest))
            lengths = {**sizes, axis.target: total.shape[k]}
            add_at(total, [*axes[:k], axis.target, *axes[k + 1 :]], added, left, lengths)
            return
    looped = None if any(map(has_table, axes)) else _overlapping(axes, total.shape, sizes)
    if looped is None or prod(sizes[x] for x in looped) > LOOPS:
        of = indices(labels, sizes)
        np.add.at(total, tuple([index_of(axis, of) for axis in axes]), values)
    else:
        _add_through_views(total, axes, values, labels, sizes, looped)


def _add_through_views(
    total: Array, axes: Sequence[Axis], values: Array, labels: Labels, sizes: Mapping[int, int], looped: Sequence[int]
) -> None:
    """Add to affine places. A view that has an entry twice would lose one: some labels are looped over."""
    turned = values.transpose([labels.index(x) for x in labels_of(axes)])
    view = _view(total, axes, labels_of(axes), sizes)
    for index in product(*(range(sizes[x]) for x in looped)):
        at = dict(zip(looped, index, strict=True))
        where = tuple([at.get(x, slice(None)) for x in labels_of(axes)])
        view[where] += turned[where]


def _overlapping(axes: Sequence[Axis], shape: Sequence[int], sizes: Mapping[int, int]) -> list[int]:
    """Labels, as few as it is easy to find, without which no entry of an array is met twice."""
    steps = {x: abs(s) for x, s in strides_of(axes, [prod(shape[k + 1 :]) for k in range(len(shape))]).items()}
    by_size = sorted((x for x in steps if sizes[x] > 1), key=lambda x: (sizes[x], steps[x]))
    for count in range(len(by_size)):
        reach = 0  # the difference of the addresses that smaller steps reach
        for label in sorted(by_size[count:], key=steps.__getitem__):
            if steps[label] <= reach:
                break
            reach += steps[label] * (sizes[label] - 1)
        else:
            return by_size[:count]
    return by_size


# Where axes meet


def meeting(pairs: Sequence[tuple[Axis, Axis]], sizes: Mapping[int, int]) -> dict[int, Array] | None:
    """All indices of labels for which the axes of each pair are equal, as lists; None if there are none.

    Pairs that are always equal need no list: if all are, it is empty.
    """
    found: dict[int, Array] = {}
    count = 1
    for one, other in pairs:
        known = _always(one, other)
        if known is False:
            return None
        if known is None:
            first, second = (one, other) if set(labels_of([other])) <= set(found) else (other, one)
            found, count = listed(labels_of([first]), found, count, sizes)
            found, count = _joined(first, second, found, count, sizes)
    return found


def _always(one: Axis, other: Axis) -> bool | None:
    """Whether two axes are always equal, or never; None if it depends."""
    if isinstance(one, int) or isinstance(other, int):
        return True if one == other else None
    if one.sources != other.sources or one.table is not None or other.table is not None:
        return True if one.sources == other.sources and one.table is other.table is not None else None
    if one.strides != other.strides:
        return None
    return one.offset == other.offset


def index_of(axis: Axis, of: Mapping[int, Array]) -> Array:
    """The index along an axis for arrays of indices of its labels."""
    return of[axis] if isinstance(axis, int) else axis.index(of)


def listed(
    labels: Labels, found: dict[int, Array], count: int, sizes: Mapping[int, int]
) -> tuple[dict[int, Array], int]:
    """A list of indices with all indices of more labels."""
    for label in labels:
        if label not in found:
            size = sizes[label]
            found = {x: np.repeat(index, size) for x, index in found.items()}
            found[label] = np.tile(np.arange(size), count)
            count *= size
    return found, count


def _joined(
    one: Axis, other: Axis, found: dict[int, Array], count: int, sizes: Mapping[int, int]
) -> tuple[dict[int, Array], int]:
    """A list of indices with those of another axis, where it is equal to one whose labels are in the list."""
    target = np.broadcast_to(index_of(one, found), count)
    if isinstance(other, int) and other not in found:
        return {**found, other: target}, count
    labels = labels_of([other])
    if set(labels) <= set(found):
        met = target == index_of(other, found)
        return {x: index[met] for x, index in found.items()}, int(np.count_nonzero(met))
    shared = [x for x in labels if x in found]
    theirs, size = listed(labels, {}, 1, sizes)
    keys = [target, *(found[x] for x in shared)]
    other_keys = [np.broadcast_to(index_of(other, theirs), size), *(theirs[x] for x in shared)]
    bounds = [1 + max(int(x.max(initial=0)), int(y.max(initial=0))) for x, y in zip(keys, other_keys, strict=True)]
    own, wanted = (np.ravel_multi_index(tuple(k), bounds) for k in (keys, other_keys))
    order = np.argsort(wanted, kind="stable")
    low, high = (np.searchsorted(wanted[order], own, side=side) for side in ("left", "right"))
    times = high - low
    mine = np.repeat(np.arange(count), times)
    place = order[np.arange(len(mine)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(low, times)]
    pairs = {x: index[mine] for x, index in found.items()}
    pairs.update({x: theirs[x][place] for x in labels if x not in found})
    return pairs, len(mine)
