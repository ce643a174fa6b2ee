"""Operations with labelled axes: putting axes in order, merging them, and taking diagonals and sums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels, subscripts
from eindiff.core.sizes import Size
from eindiff.program.costs import Costs
from eindiff.program.operations import ATOMS, Operation, Operations


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

    def __init__(self, operations: Operations, text: Callable[[Size], str], costs: Costs | None) -> None:
        self.operations = operations
        self.text = text
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
        if operation.role[:1] == ("permute",):
            _, operation, inner = operation.role
            axes = tuple([inner[axis] for axis in axes])
            if axes == tuple(range(len(axes))):
                return operation
        shape = tuple([operation.shape[axis] for axis in axes])
        text = f"{{0}}.transpose({', '.join(map(str, axes))})"
        role = ("permute", operation, axes)
        return self.operations.make(text, [operation], [ATOMS], cheap=True, view=True, role=role, shape=shape)

    def align(self, x: Tensor, order: Labels, explicit: bool = False) -> Operation:
        """The tensor as it broadcasts against one with axes `order`; leading axes are shown only on demand."""
        present = tuple([label for label in order if label in x.labels])
        turned = self.permute(x, present)
        while order and order[0] not in present and not (explicit and present):
            order = order[1:]
        if order == present:
            return turned
        index = ", ".join(":" if label in present else "None" for label in order)
        shape = tuple([x.size(label) if label in present else 1 for label in order])
        return self.operations.make(f"{{0}}[{index}]", [turned], [ATOMS], cheap=True, view=True, shape=shape)

    def reshape(self, x: Operation, shape: Sequence[Size], copies: bool = False) -> Operation:
        """An array in another shape; only the last one of several reshapes counts."""
        if x.role[:1] == ("reshape",):
            x = x.role[1]
        if x.shape == tuple(shape):
            return x
        lengths = ", ".join(map(self.text, shape))
        return self.operations.make(
            f"{{0}}.reshape({lengths})", [x], [ATOMS], view=True, role=("reshape", x), shape=tuple(shape),
            work=sz.product(shape) if copies else 0,
        )  # fmt: skip

    def reduce(self, x: Tensor, kept: Collection[int]) -> Tensor:
        """Diagonals taken where labels repeat, and sums over the labels that are not kept."""
        distinct = tuple(dict.fromkeys(x.labels))
        result = tuple([label for label in distinct if label in kept])
        shape = tuple([x.size(label) for label in result])
        make = self.operations.make
        if len(distinct) < len(x.labels):
            if len(x.labels) == 2:
                text = "np.diag({0})" if result else "np.trace({0})"
            else:
                text = f'np.einsum("{subscripts([x.labels], result)}", {{0}})'
            return Tensor(make(text, [x.operation], view=bool(result), shape=shape, role=("diagonal",)), result)
        if result == distinct:
            return x
        work = sz.product(x.operation.shape)
        axes = [axis for axis, label in enumerate(x.labels) if label not in kept]
        text = "" if not result else str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        if self.costs is not None:  # the method is faster than the function
            return Tensor(make(f"{{0}}.sum({text})", [x.operation], [ATOMS], shape=shape, work=work), result)
        text = f", axis={text}" if text else ""
        return Tensor(make(f"np.sum({{0}}{text})", [x.operation], shape=shape, work=work), result)

    def only(self, x: Tensor, labels: Collection[int]) -> Tensor:
        """A tensor without the axes of the given labels, which have size 1."""
        gone = [label in labels for label in x.labels]
        if not any(gone):
            return x
        index = ["0" if drop else ":" for drop in gone]
        while index[-1] == ":":
            index.pop()
        kept = tuple([label for label, drop in zip(x.labels, gone, strict=True) if not drop])
        shape = tuple([x.size(label) for label in kept])
        text = f"{{0}}[{', '.join(index)}]"
        return Tensor(self.operations.make(text, [x.operation], [ATOMS], cheap=True, view=True, shape=shape), kept)

    def memory(self, x: Tensor) -> Labels:
        """The labels of a tensor in the order in which it lies in memory, as far as that is known."""
        role = x.operation.role
        if role[:1] == ("transpose",):
            return x.labels[::-1]
        if role[:1] == ("permute",):
            place = dict(zip(role[2], x.labels, strict=True))
            return tuple([place[axis] for axis in range(len(place))])
        return x.labels
