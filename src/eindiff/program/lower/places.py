"""Places along an axis as functions of labels: by a formula, or by a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels
from eindiff.core.sizes import Size
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import Operation, is_known_table


@dataclass(frozen=True, slots=True)
class Index:
    """A place along an axis as a function of labels: `offset + sum of stride * label`, or an array over labels."""

    offset: Size = 0
    strides: tuple[tuple[int, Size], ...] = ()
    table: Tensor | None = None

    @property
    def labels(self) -> Labels:
        """The labels that it is a function of."""
        return self.table.labels if self.table is not None else tuple([label for label, _ in self.strides])

    def is_label(self) -> bool:
        """Whether it is just one label."""
        return self.table is None and self.offset == 0 and len(self.strides) == 1 and self.strides[0][1] == 1

    def is_backward(self) -> bool:
        """Whether it is one label that counts down."""
        if self.table is not None or len(self.strides) != 1:
            return False
        return isinstance(self.strides[0][1], int) and self.strides[0][1] < 0

    def renamed(self, names: Mapping[int, int]) -> Index:
        """The same with other names for its labels."""
        strides = tuple([(names[label], stride) for label, stride in self.strides])
        table = self.table and Tensor(self.table.operation, tuple([names[label] for label in self.table.labels]))
        return Index(self.offset, strides, table)

    def turned(self, sizes: Mapping[int, Size]) -> Index:
        """The same places in opposite order, if it is one label."""
        [(label, stride)] = self.strides
        last = sz.add(self.offset, sz.multiply(stride, sz.subtract(sizes[label], 1)))
        return Index(last, ((label, sz.multiply(-1, stride)),))


Axis = int | Index


def labels_of(axis: Axis) -> Labels:
    """The labels that a place along an axis is a function of."""
    return (axis,) if isinstance(axis, int) else axis.labels


def renamed(axis: Axis, names: Mapping[int, int]) -> Axis:
    """A place along an axis with other names for its labels."""
    return names[axis] if isinstance(axis, int) else axis.renamed(names)


def affine(offset: Size, steps: Iterable[tuple[int, Size]]) -> Index:
    """The index of an offset and steps along labels; those along one label add up, and may cancel."""
    strides: dict[int, Size] = {}
    for label, step in steps:
        strides[label] = sz.add(strides.get(label, 0), step)
    return Index(offset, tuple([(label, stride) for label, stride in strides.items() if stride != 0]))


def substituted(axis: Index, label: int, inner: Index) -> Index:
    """An affine index of which one label is an affine index."""
    stride = dict(axis.strides)[label]
    offset = sz.add(axis.offset, sz.multiply(stride, inner.offset))
    steps = [(other, sz.multiply(stride, step)) for other, step in inner.strides]
    parts = [steps if name == label else [(name, own)] for name, own in axis.strides]
    return affine(offset, [step for part in parts for step in part])


def run(axis: Axis, alone: set[int], sizes: Mapping[int, Size]) -> Labels:
    """The labels that an axis runs over row by row, if all of them may become one."""
    order = None if isinstance(axis, int) else row_major(axis, sizes)
    return order if order is not None and alone.issuperset(order) else ()


def row_major(index: Index, sizes: Mapping[int, Size]) -> Labels | None:
    """The labels from the slowest to the fastest, if together they run through consecutive places."""
    if index.table is not None or len(index.strides) < 2:
        return None
    left, order = dict(index.strides), []
    expected: Size = 1
    while left:
        found = [label for label, stride in left.items() if stride == expected]
        if not found:
            return None
        order.append(found[0])
        expected = sz.multiply(expected, sizes[found[0]])
        del left[found[0]]
    return tuple(reversed(order))


def steps_of(table: np.ndarray) -> list[int] | None:
    """The steps of a table along its axes, if it is its first entry and so many steps along each."""
    if table.size == 0:
        return None
    rest, steps = table - table.ravel()[0], []
    for axis, size in enumerate(table.shape):
        counted = np.arange(size).reshape([-1 if k == axis else 1 for k in range(table.ndim)])
        steps.append(int(np.take(rest, 1, axis).ravel()[0]) if size > 1 else 0)
        rest = rest - steps[-1] * counted
    return None if rest.any() else steps


def known_table(x: Operation) -> np.ndarray | None:
    """The entries of an integer array that depends on no input, if all sizes in it are numbers."""
    return _entries(x) if is_known_table(x) else None


def _entries(x: Operation) -> np.ndarray:
    given = list(map(_entries, x.operands))
    match x.op, x.parameters:
        case "table", (shape, table):
            return table.array.reshape(shape)
        case "range", (size,):
            return np.arange(size)
        case "number", (value,):
            return np.array(value)
        case "expand", axes:
            return given[0][tuple([slice(None) if present else None for present in axes])]
        case "scale", (factor,):
            return factor * given[0]
        case "negate", _:
            return -given[0]
        case "add", signs:
            return np.asarray(sum(sign * y for sign, y in zip(signs, given, strict=True)))
        case "take", (0,):
            return given[0][tuple(given[1:])]
        case (("transpose" | "permute"), axes):
            return given[0].transpose(axes or None)
        case "flat", shape:
            return np.ravel_multi_index(np.broadcast_arrays(*given), shape).ravel()
    raise AssertionError(f"no places: {x.op}")


def grid(index: Index, length: Size, sizes: Mapping[int, Size]) -> list[tuple[int, Index]] | None:
    """Places of several labels along an axis as a block of a grid that the axis is, row by row: the sizes of the grid,
    and the places along each of its axes. None if they are no such block.

    >>> grid(Index(5, ((0, 4), (1, 1))), 12, {0: 2, 1: 2})
    [(3, Index(offset=1, strides=((0, 1),), table=None)), (4, Index(offset=1, strides=((1, 1),), table=None))]
    """
    steps = [(stride, label) for label, stride in index.strides if isinstance(stride, int) and stride > 0]
    counts = [length, index.offset, *(sizes[label] for _, label in steps)]
    if index.table is not None or len(steps) < max(2, len(index.strides)):
        return None
    if not all(isinstance(count, int) for count in counts):
        return None
    found, rest, whole = [], int(index.offset), int(length)
    for stride, label in sorted(steps, reverse=True):
        if whole % stride:
            return None
        first, rest = divmod(rest, stride)
        if first + int(sizes[label]) > whole // stride:
            return None
        found.append((whole // stride, Index(first, ((label, 1),))))
        whole = stride
    return found if whole == 1 else [*found, (whole, Index(rest))]
