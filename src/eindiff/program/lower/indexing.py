"""Index maps as slices, reshapes, takes and assignments: the 0/1 tensor of a map is never formed.

A map says that a label k is a function of other labels. Where an operand has the axis k it is indexed; where the result
has it, entries are put at their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.index_relations import IndexMap, Table
from eindiff.core.labels import Labels
from eindiff.core.networks import new_label
from eindiff.core.sizes import Shape, Size
from eindiff.planning import tuning
from eindiff.program.lower.places import (
    Axis,
    Index,
    affine,
    grid,
    known_table,
    labels_of,
    row_major,
    run,
    steps_of,
    substituted,
)
from eindiff.program.lower.products import Products
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import Cut, Operation, Operations, broadcast, is_call

WHOLE: Cut = (None, None, None)


class Indexing:
    """Indexes tensors, given the sizes of labels."""

    def __init__(self, operations: Operations, products: Products) -> None:
        self.operations = operations
        self.products = products
        self._formulas: dict[tuple, Operation] = {}  # places that are no tables, as arrays

    def index_of(self, index_map: IndexMap, inputs: Labels, given: Operation | None = None) -> Index:
        """The index that a map stands for, with its inputs named; its places may be an array that is given."""
        if index_map.indices is None:
            return affine(index_map.offset, zip(inputs, index_map.strides, strict=True))
        if given is not None:
            return Index(table=Tensor(given, inputs))
        labels = tuple(dict.fromkeys(inputs))
        if isinstance(index_map.indices, Table) and labels == inputs and labels:
            shape = tuple([int(n) for n in index_map.inputs])
            made = self.operations.make("table", parameters=(shape, index_map.indices), shape=shape, work=0)
            return Index(table=Tensor(made, labels))
        table = np.einsum(index_map.index_array({}), inputs, labels)  # a diagonal, where inputs are the same
        return self.tabled(table, labels)

    def tabled(self, table: np.ndarray, labels: Labels) -> Index:
        """An array of places over labels, as a formula if it has one."""
        if (steps := steps_of(table)) is not None:
            return affine(table.ravel().tolist()[0], zip(labels, steps, strict=True))
        made = self.operations.make("table", parameters=(table.shape, Table(table)), shape=table.shape, work=0)
        return Index(table=Tensor(made, labels))

    def _computed(self, places: Operation, labels: Labels) -> Index:
        """Places over labels that are computed from others; here, where that can be done once."""
        table = known_table(places)
        return Index(table=Tensor(places, labels)) if table is None else self.tabled(table, labels)

    def substitute(self, axis: Index, label: int, inner: Index, sizes: Mapping[int, Size]) -> Index:
        """The index when one of its labels is itself an index."""
        if label not in axis.labels:
            return axis
        if axis.table is None and inner.table is None:
            return substituted(axis, label, inner)

        def place(name: int) -> Index:
            return inner if name == label else Index(0, ((name, 1),))

        order = tuple(dict.fromkeys([x for name in axis.labels for x in place(name).labels]))
        if axis.table is not None:
            places = [self.array(place(name), order, sizes) for name in axis.labels]
            shape = broadcast([x.shape for x in places])
            taken = self.operations.make("take", [axis.table.operation, *places], (0,), shape=shape)
            return self._computed(taken, order)
        terms = [(stride, self.array(place(name), order, sizes)) for name, stride in axis.strides]
        return self._computed(self._sum(axis.offset, terms), order)

    def array(self, index: Index, order: Labels, sizes: Mapping[int, Size]) -> Operation:
        """An index as an integer array that broadcasts against axes `order`."""
        if index.table is not None:
            return self.products.align(index.table, order)
        key = (index, order, *[sizes[label] for label, _ in index.strides])
        if key not in self._formulas:
            self._formulas[key] = self._formula(index, order, sizes)
        return self._formulas[key]

    def _formula(self, index: Index, order: Labels, sizes: Mapping[int, Size]) -> Operation:
        terms = []
        for label, stride in index.strides:
            counted = self.operations.make("range", parameters=(sizes[label],), shape=(sizes[label],))
            steps = Tensor(counted, (label,))
            terms.append((stride, self.products.align(steps, order)))
        return self._sum(index.offset, terms)

    def _sum(self, offset: Size, terms: Sequence[tuple[Size, Operation]]) -> Operation:
        operands = []
        for stride, steps in terms:
            if isinstance(stride, int):
                operands.append((stride, steps))
            else:
                operands.append((1, self.operations.times([self.size(stride), steps])))
        if isinstance(offset, int):
            operands += [(offset, self.operations.number(1))] if offset or not operands else []
        else:
            operands.append((1, self.size(offset)))
        return self.operations.plus(operands)

    def size(self, size: Size) -> Operation:
        """A size as an operation."""
        return self.operations.make("size", parameters=(size,))

    # Reading

    def gather(self, x: Tensor, places: Mapping[int, Index], sizes: Mapping[int, Size]) -> Tensor:
        """A tensor with the axes of labels replaced by axes of those labels that they are functions of."""
        chosen = [label for label in x.labels if label in places]
        if not chosen:
            return x
        joint = self._joint(x, {label: places[label] for label in chosen})
        for label in chosen:
            if label not in joint and label in x.labels:
                solved = self._columns_of_inverse(x, label, places[label], sizes)
                x = solved or self._gather_axis(x, x.labels.index(label), places[label], sizes, sizes[label])
        return self._gather_together(x, joint, places, sizes) if joint else x

    def _columns_of_inverse(self, x: Tensor, label: int, index: Index, sizes: Mapping[int, Size]) -> Tensor | None:
        """A few rows or columns of an inverse, as solutions for unit vectors: that takes a third of the work."""
        is_inverse = is_call(x.operation, "inv") and len(x.labels) == 2
        if not is_inverse or len(index.labels) > 1 or self.products.costs is None:
            return None
        rows, count = (self.products.entries([sizes[name] for name in names]) for names in ((label,), index.labels))
        if rows < max(tuning.FACTORED, tuning.FEW * count):
            return None
        size = sizes[label]
        units = Tensor(self.operations.make("identity", parameters=(size,), shape=(size, size)), (label, -1))
        if x.labels == (label, label):  # an entry of the diagonal: the column first
            x = Tensor(x.operation, (-1, label))
        solved = self.products.solve(x, self._gather_axis(units, 1, index, sizes, size), label)
        return solved and Tensor(solved.operation, tuple([label if name == -1 else name for name in solved.labels]))

    @staticmethod
    def _joint(x: Tensor, places: Mapping[int, Index]) -> list[int]:
        """The labels of axes that are read together: those that are functions of the same labels, and these."""
        uses = Counter([label for name in x.labels for label in (places[name].labels if name in places else (name,))])
        shared = {label for label, count in uses.items() if count > 1}
        return [name for name in x.labels if shared & set(places[name].labels if name in places else (name,))]

    def _gather_together(
        self, x: Tensor, joint: list[int], places: Mapping[int, Index], sizes: Mapping[int, Size]
    ) -> Tensor:
        """Several axes read at once, entry by entry."""
        axis = min(map(x.labels.index, joint))
        rest = [label for label in x.labels if label not in joint]
        named = [label for label in x.labels if label in joint]
        at = [places.get(label, Index(0, ((label, 1),))) for label in named]
        if all(index.is_label() and sizes[index.labels[0]] == sizes[y] for index, y in zip(at, named, strict=True)):
            return Tensor(x.operation, tuple([places[y].labels[0] if y in places else y for y in x.labels]))
        order = tuple(dict.fromkeys([label for index in at for label in index.labels]))
        kept = [k for k, label in enumerate(x.labels) if label not in joint]
        moved = [*kept[:axis], *(k for k in range(len(x.labels)) if k not in kept), *kept[axis:]]
        operation = self.products.permute(Tensor(x.operation, tuple(range(len(moved)))), tuple(moved))
        arrays = [self.array(index, order, sizes) for index in at]
        shape = tuple([sizes[label] for label in (*rest[:axis], *order, *rest[axis:])])
        taken = self.operations.make("take", [operation, *arrays], (axis,), shape=shape)
        return Tensor(taken, (*rest[:axis], *order, *rest[axis:]))

    def _gather_axis(self, x: Tensor, axis: int, index: Index, sizes: Mapping[int, Size], length: Size) -> Tensor:
        before, after = x.labels[:axis], x.labels[axis + 1 :]
        make, old = self.operations.make, x.operation.shape
        shape = (*old[:axis], *(sizes[label] for label in index.labels), *old[axis + 1 :])
        if (cut := self.cut(index, length, sizes)) is not None:
            taken = x.operation if cut == WHOLE else make("cut", [x.operation], (axis, cut), shape=shape)
            return Tensor(taken, (*before, *index.labels, *after))
        if index.is_backward():
            return self._flip(self._gather_axis(x, axis, index.turned(sizes), sizes, length), axis)
        if (order := row_major(index, sizes)) is not None:
            total = sz.product(sizes[label] for label in order)
            cut = self.cut(Index(index.offset, ((-1, 1),)), length, {-1: total})
            operation = x.operation
            if cut != WHOLE:
                part = (*old[:axis], total, *old[axis + 1 :])
                operation = make("cut", [operation], (axis, cut), shape=part)
            labels = (*before, *order, *after)
            return Tensor(self.reshape(operation, labels, sizes), labels)
        if index.table is None and not self.operations.functional:
            where = (axis, index.offset, *((stride, sizes[label]) for label, stride in index.strides))
            return Tensor(make("windows", [x.operation], where, shape=shape), (*before, *index.labels, *after))
        if (block := grid(index, length, sizes)) is not None:
            return self._gather_block(x, axis, block, sizes)
        places = self.array(index, index.labels, sizes)
        taken = make("take", [x.operation, places], (axis,), shape=shape)
        return Tensor(taken, (*before, *index.labels, *after))

    def _gather_block(
        self, x: Tensor, axis: int, block: Sequence[tuple[int, Index]], sizes: Mapping[int, Size]
    ) -> Tensor:
        """A block of a grid that an axis is row by row: slices of the reshaped array."""
        all_sizes, names = dict(sizes), []
        for size, _ in block:
            names.append(new_label(all_sizes, size))
        labels = (*x.labels[:axis], *names, *x.labels[axis + 1 :])
        grown = Tensor(self.reshape(x.operation, labels, all_sizes), labels)
        for name, (size, index) in zip(names, block, strict=True):
            grown = self._gather_axis(grown, grown.labels.index(name), index, all_sizes, size)
        return grown

    def _flip(self, x: Tensor, axis: int) -> Tensor:
        """A tensor with one axis in opposite order."""
        return Tensor(self.operations.make("flip", [x.operation], (axis,)), x.labels)

    def cut(self, index: Index, length: Size, sizes: Mapping[int, Size]) -> Cut | None:
        """An index of one label (or none) along an axis of the given length as a slice, if it surely is one."""
        if index.table is not None or len(index.strides) > 1:
            return None
        if not index.strides:
            return _from_end(index.offset, length)
        label, stride = index.strides[0]
        last = sz.add(index.offset, sz.multiply(stride, sz.subtract(sizes[label], 1)))
        if index.is_backward():
            surely = isinstance(sizes[label], int) or sz.subtract(length, index.offset) == 1
            return self._backward(index.offset, last, stride, length) if surely else None
        if not sz.never_negative(stride):
            return None
        stop = sz.add(last, 1 if isinstance(sizes[label], int) else stride)  # where there may be no entry
        start = None if index.offset == 0 else _from_end(index.offset, length)
        end = None if _is_last(last, stride, stop, length) else _from_end(stop, length)
        return (start, end, None if stride == 1 else stride)

    def _backward(self, first: Size, last: Size, stride: Size, length: Size) -> Cut | None:
        """A slice that counts down; without entries it would have to begin at the end of the axis."""
        if not self.operations.slices_backward or not isinstance(stride, int):
            return None
        start = None if sz.subtract(length, first) == 1 else first
        if isinstance(last, int) and last < -stride:
            return (start, None, stride)
        return (start, sz.subtract(last, 1), stride) if isinstance(last, int) else None

    # Writing

    def simplify_places(
        self, core: Tensor, axes: tuple[Axis, ...], sizes: dict[int, Size], shape: Shape
    ) -> tuple[Tensor, tuple[Axis, ...]]:
        """Places that a reshape or a flip of what is put there makes simpler: at best one label along a whole axis."""
        core, axes = self._merge_axes(core, axes, sizes)
        uses = Counter(label for axis in axes for label in labels_of(axis))
        result: list[Axis] = []
        for axis, length in zip(axes, shape, strict=True):
            if isinstance(axis, Index):
                core, axis = self._simplify_axis(core, axis, sizes, length, _is_alone(axis, uses))
            result.append(axis)
        return core, tuple(result)

    def _simplify_axis(
        self, core: Tensor, index: Index, sizes: dict[int, Size], length: Size, is_alone: bool
    ) -> tuple[Tensor, Axis]:
        """What is put at places along an axis, and these; `is_alone`: nothing else is of their one label."""
        if not index.labels:
            return core, index
        label = index.labels[0]
        if is_alone and index.is_backward():
            core = self._flip(core, core.labels.index(label)) if label in core.labels else core
            index = index.turned(sizes)
        order = _permutation(index, length) if is_alone else None
        if order is not None and label in core.labels:  # written there in any order, read in the opposite one
            inverse = self.tabled(np.argsort(order), (label,))
            core = self._gather_axis(core, core.labels.index(label), inverse, sizes, length)
        is_whole = order is not None or (index.is_label() and sizes[label] == length)
        return core, label if is_whole else index

    def _merge_axes(
        self, core: Tensor, axes: tuple[Axis, ...], sizes: dict[int, Size]
    ) -> tuple[Tensor, tuple[Axis, ...]]:
        """Axes that run over several labels row by row get one label instead, of a reshaped core."""
        uses = Counter(label for axis in axes for label in set(labels_of(axis)))
        alone = {label for label in core.labels if uses[label] == 1}
        merged = [run(axis, alone, sizes) for axis in axes]
        names = {order: new_label(sizes, sz.product(sizes[x] for x in order)) for order in merged if order}
        if not names:
            return core, axes
        groups = self._groups(core, axes, merged)
        turned = self.products.permute(core, sum(groups, ()))
        labels = tuple([names[group] if group in names else group[0] for group in groups])
        result: list[Axis] = []
        for axis, order in zip(axes, merged, strict=True):
            result.append(Index(axis.offset, ((names[order], 1),)) if order and isinstance(axis, Index) else axis)
        return Tensor(self.reshape(turned, labels, sizes), labels), tuple(result)

    @staticmethod
    def _groups(core: Tensor, axes: tuple[Axis, ...], merged: Sequence[Labels]) -> list[Labels]:
        """The labels of a core, those that become one together: as the axes have them, and then all others."""
        places = zip(axes, merged, strict=True)
        groups = [x for axis, order in places for x in ([order] if order else [(y,) for y in labels_of(axis)])]
        inside = {x for order in merged for x in order}
        groups += [(x,) for x in core.labels if x not in inside]
        return [group for group in dict.fromkeys(groups) if set(group) <= set(core.labels)]

    def reshape(self, x: Operation, labels: Labels, sizes: Mapping[int, Size]) -> Operation:
        """An array with axes of the sizes of some labels; only the last one of several reshapes counts."""
        if x.op == "reshape":
            [x] = x.operands
        shape = tuple([sizes[label] for label in labels])
        return self.operations.make("reshape", [x], shape, shape=shape)

    def array_of(self, axis: Axis, order: Labels, sizes: Mapping[int, Size]) -> Operation:
        """An axis of a result as an integer array that broadcasts against axes `order`."""
        return self.array(Index(0, ((axis, 1),)) if isinstance(axis, int) else axis, order, sizes)


def _is_alone(index: Index, uses: Mapping[int, int]) -> bool:
    """Whether an index is of one label, which nothing else is of."""
    return len(index.labels) == 1 and uses[index.labels[0]] == 1


def _permutation(index: Index, length: Size) -> np.ndarray | None:
    """The places of an index, if they are known and are all those of an axis, each once."""
    table = None if index.table is None else known_table(index.table.operation)
    if table is None or table.ndim != 1 or len(table) != length:
        return None
    return table if np.array_equal(np.sort(table), np.arange(len(table))) else None


def _is_last(last: Size, stride: Size, stop: Size, length: Size) -> bool:
    """Whether no step after the last place is on the axis, for certain."""
    left, beyond = sz.subtract(length, sz.add(last, 1)), sz.subtract(stop, length)
    near = isinstance(left, int) and isinstance(stride, int) and 0 <= left < stride
    return left == 0 or near or (isinstance(beyond, int) and beyond >= 0)


def _from_end(place: Size, length: Size) -> Size:
    """A place along an axis, counted from the end where that is simpler."""
    left = sz.subtract(length, place)
    return -left if isinstance(left, int) and not isinstance(place, int) else place
