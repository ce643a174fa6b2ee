"""Operations with labelled axes: putting axes in order, merging them, and taking diagonals and sums."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels, subscripts
from eindiff.core.sizes import Size
from eindiff.program.costs import Costs
from eindiff.program.operations import Op, Operation, Operations


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operation and the labels of its axes."""

    operation: Operation
    labels: Labels

    def size(self, label: int) -> Size:
        """The size of a label."""
        return self.operation.shape[self.labels.index(label)]


class Tensors:
    """Rearranges one tensor at a time. `costs` holds the sizes for which the source is made, if they are known."""

    def __init__(self, operations: Operations, costs: Costs | None) -> None:
        self.operations = operations
        self.costs = costs

    def entries(self, sizes: Sequence[Size]) -> int:
        """The number of entries of an array, for known sizes."""
        assert self.costs is not None
        return self.costs.entries(sizes)

    def permute(self, x: Tensor, order: Labels) -> Operation:
        """The tensor with its axes in another order."""
        if x.labels == order:
            return x.operation
        if len(order) == 2:
            return self.operations.transpose(x.operation)
        axes = tuple([x.labels.index(label) for label in order])
        operation = x.operation
        if operation.op == "permute":
            axes = tuple([operation.parameters[axis] for axis in axes])
            [operation] = operation.operands
            if axes == tuple(range(len(axes))):
                return operation
        shape = tuple([operation.shape[axis] for axis in axes])
        return self.operations.make("permute", [operation], axes, shape=shape)

    def align(self, x: Tensor, order: Labels, explicit: bool = False) -> Operation:
        """The tensor as it broadcasts against one with axes `order`; leading axes are shown only on demand."""
        if x.labels == order:
            return x.operation
        present = tuple([label for label in order if label in x.labels])
        turned = self.permute(x, present)
        while order and order[0] not in present and not (explicit and present):
            order = order[1:]
        if order == present:
            return turned
        shape = tuple([x.size(label) if label in present else 1 for label in order])
        return self.operations.make("expand", [turned], tuple([label in present for label in order]), shape=shape)

    def reshape(self, x: Operation, shape: Sequence[Size], copies: bool = False) -> Operation:
        """An array in another shape; only the last one of several reshapes counts."""
        if x.op == "reshape":
            [x] = x.operands
        if x.shape == tuple(shape):
            return x
        work = sz.product(shape) if copies else 0
        return self.operations.make("reshape", [x], tuple(shape), shape=tuple(shape), work=work)

    def reduce(self, x: Tensor, kept: Collection[int]) -> Tensor:
        """Diagonals taken where labels repeat, and sums over the labels that are not kept."""
        distinct = tuple(dict.fromkeys(x.labels))
        result = tuple([label for label in distinct if label in kept])
        shape = tuple([x.size(label) for label in result])
        make = self.operations.make
        if len(distinct) < len(x.labels):
            op: Op = "diagonal" if result else "trace"
            return Tensor(make(op, [x.operation], (subscripts([x.labels], result),), shape=shape), result)
        if result == distinct:
            return x
        axes = tuple([axis for axis, label in enumerate(x.labels) if label not in kept]) if result else ()
        return Tensor(make("sum", [x.operation], axes, shape=shape, work=sz.product(x.operation.shape)), result)

    def only(self, x: Tensor, labels: Collection[int]) -> Tensor:
        """A tensor without the axes of the given labels, which have size 1."""
        gone = tuple([label in labels for label in x.labels])
        if not any(gone):
            return x
        kept = tuple([label for label, drop in zip(x.labels, gone, strict=True) if not drop])
        shape = tuple([x.size(label) for label in kept])
        return Tensor(self.operations.make("only", [x.operation], gone, shape=shape), kept)

    def memory(self, x: Tensor) -> Labels:
        """The labels of a tensor in the order in which it lies in memory, as far as that is known."""
        if x.operation.op == "transpose":
            return x.labels[::-1]
        if x.operation.op == "permute":
            place = dict(zip(x.operation.parameters, x.labels, strict=True))
            return tuple([place[axis] for axis in range(len(place))])
        return x.labels
