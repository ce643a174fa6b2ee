"""The product of two tensors with sums over some of what they share, as one matrix product (or a stack of them).

Labels fall into four kinds: those that are summed, those of both that are kept (a stack), and those of one tensor,
which are rows or columns. Axes are merged by reshaping, which copies nothing where they lie next to each other already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from eindiff.core import sizes as sz
from eindiff.core.labels import Labels, subscripts
from eindiff.core.sizes import Size
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.tensors import Tensor, Tensors
from eindiff.program.operations import BLAS, Operation, Operations


class Contractions(Tensors):
    """Multiplies two tensors; results carry their labels in the order that is natural for the operation."""

    def __init__(self, operations: Operations, costs: Costs | None) -> None:
        super().__init__(operations, costs)
        self.made: dict[tuple, tuple[Operation, Labels]] = {}
        self.is_added = False  # to others, for an output
        self.outer: set[int] = set()  # labels of stacks in what a product on the way is multiplied with

    def once(self, a: Tensor, b: Tensor, kept: Collection[int], make: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The product of two tensors, made only once, whatever their labels are called and which comes first."""
        if (known := self.known(a, b, kept)) is not None:
            return known
        key, names = _pair_key(self._arranged(a, b), self._arranged(b, a), kept)
        found = make(*sorted((a, b), key=lambda x: x.operation.serial))
        self.made[key] = (found.operation, tuple([names.index(x) for x in found.labels]))
        return found

    def known(self, a: Tensor, b: Tensor, kept: Collection[int]) -> Tensor | None:
        """The product of two tensors that was made before, if it was."""
        key, names = _pair_key(self._arranged(a, b), self._arranged(b, a), kept)
        if key not in self.made:
            return None
        operation, labels = self.made[key]
        return Tensor(operation, tuple([names[name] for name in labels]))

    def _arranged(self, a: Tensor, b: Tensor) -> Tensor:
        """A tensor with the axis first that it shares with another one, if it is a symmetric matrix."""
        is_symmetric = len(a.labels) == 2 and a.operation in self.operations.symmetric  # it may be without axes of 1
        if is_symmetric and a.labels[0] not in b.labels and a.labels[1] in b.labels:
            return Tensor(a.operation, a.labels[::-1])
        return a

    def multiply(self, a: Tensor, b: Tensor, kept: Collection[int], order: Labels | None) -> Tensor:
        """The sum over what both have and is not kept. `order` is how the axes of the result are wanted, if at all."""
        shared = [label for label in a.labels if label in b.labels]
        summed = tuple([label for label in shared if label not in kept])
        if len(self._own(b, shared)) > len(self._own(a, shared)):
            a, b = b, a
        left, right = self._own(a, shared), self._own(b, shared)
        stack = tuple([label for label in shared if label in kept])
        if not left and not right:
            return self._inner(a, b, stack)
        if order is None:
            if right and self.outer.issuperset(right) and self.outer.isdisjoint(left):
                a, b, left, right = b, a, right, left
            return self._stacked(a, b, summed, stack, left, right)
        return self._in_order(a, b, summed, stack, tuple([x for x in order if x in (*stack, *left, *right)]))

    def _in_order(self, a: Tensor, b: Tensor, summed: Labels, stack: Labels, wanted: Labels) -> Tensor:
        """The product with its axes as they are wanted, or copied into that order later, whichever is faster."""
        shared = (*summed, *stack)
        left, right = self._own(a, shared), self._own(b, shared)
        in_b = wanted[-1] in right
        rows_of, columns_of = (a, b) if in_b or wanted[-1] in stack else (b, a)
        columns = self._run(wanted, columns_of, shared)
        rows = self._run(wanted[: len(wanted) - len(columns)], rows_of, shared)
        others = wanted[: len(wanted) - len(columns) - len(rows)]
        direct = self._seconds(rows_of, columns_of, others, rows, columns, summed)
        turned = self._seconds(a, b, stack, left, right, summed)
        assert self.costs is not None
        if self.operations.functional and not self.operations.compiled:  # repeated matrices are copied, results are not
            repeated = [(x, (*others, *own)) for x, own in ((rows_of, rows), (columns_of, columns))]
            copied = [self._sizes(a, b, (*labels, *summed)) for x, labels in repeated if not set(others) <= {*x.labels}]
            direct += sum(map(self.costs.copy, copied))
        else:
            turned += self.costs.copy(self._sizes(a, b, wanted))
        if others == stack or direct < turned:
            return self._stacked(rows_of, columns_of, summed, others, rows, columns)
        return self._stacked(a, b, summed, stack, left, right)

    @staticmethod
    def _own(x: Tensor, shared: Collection[int]) -> Labels:
        return tuple([label for label in x.labels if label not in shared])

    @staticmethod
    def _run(wanted: Labels, x: Tensor, shared: Collection[int]) -> Labels:
        """The labels at the end of the wanted ones that only one tensor has."""
        start = len(wanted)
        while start and wanted[start - 1] in x.labels and wanted[start - 1] not in shared:
            start -= 1
        return wanted[start:]

    @staticmethod
    def _sizes(a: Tensor, b: Tensor, labels: Labels) -> list[Size]:
        return [(a if label in a.labels else b).size(label) for label in labels]

    def _seconds(self, a: Tensor, b: Tensor, stack: Labels, rows: Labels, columns: Labels, summed: Labels) -> float:
        """What a stack of matrix products takes; one of a matrix with itself takes half of it."""
        assert self.costs is not None
        time = self.costs.products(*[self.entries(self._sizes(a, b, x)) for x in (stack, rows, columns, summed)])
        return time / 2 if not stack and _is_same(a, b, rows, columns) else time

    def _inner(self, a: Tensor, b: Tensor, stack: Labels) -> Tensor:
        """Both tensors have the same labels: a sum of products of entries."""
        if not stack:
            x, y = a.operation, self.permute(b, a.labels)
            if len(a.labels) == 1:
                return Tensor(self.operations.matmul(x, y), ())
            work = sz.multiply(2, sz.product(x.shape))
            return Tensor(self.operations.make("inner", [x, y], shape=(), work=work, speed=BLAS), ())
        shape = tuple([a.size(label) for label in stack])
        parameters = (subscripts([a.labels, b.labels], stack), False)
        operands, work = [a.operation, b.operation], sz.multiply(2, sz.product(a.operation.shape))
        return Tensor(self.operations.make("einsum", operands, parameters, shape=shape, work=work), stack)

    def _flat(self, x: Operation) -> Operation:
        return self.reshape(x, [sz.product(x.shape)])

    def _stacked(self, a: Tensor, b: Tensor, summed: Labels, others: Labels, rows: Labels, columns: Labels) -> Tensor:
        """A stack of products of matrices with the given rows and columns; what `others` a tensor lacks is repeated."""
        if not columns and not (set(others) & set(b.labels)):
            left, right = self._matrix(a, others, rows, summed), self._vector(b, summed)
        elif not rows and not (set(others) & set(a.labels)) and len(others) == 0:
            left, right = self._vector(a, summed), self._matrix(b, others, summed, columns)
        elif not others and _is_same(a, b, rows, columns):  # G' G, of which NumPy computes half
            right = self._matrix(b, others, summed, columns)
            left = self.operations.transpose(right)
        else:
            left, right = self._matrix(a, others, rows, summed), self._matrix(b, others, summed, columns)
        product = self.operations.matmul(left, right)
        order = (*others, *rows, *columns)
        return Tensor(self.reshape(product, self._sizes(a, b, order)), order)

    def _vector(self, x: Tensor, summed: Labels) -> Operation:
        turned = self.permute(x, summed)
        return turned if len(summed) == 1 else self._flat(turned)

    def _matrix(self, x: Tensor, others: Labels, rows: Labels, columns: Labels) -> Operation:
        """A stack of matrices of merged rows and columns, one of which lies in memory entry after entry."""
        present = tuple([label for label in others if label in x.labels])
        memory = self.memory(x)
        adjacent = all(_is_run(group, memory) for group in (rows, columns))
        is_copied = not adjacent and not present and bool(columns)
        if is_copied and memory[-1] in rows and self._is_longer(x, rows[-1], columns[-1]):
            return self.operations.transpose(self._matrix(x, others, columns, rows))  # copied along longer runs
        turned = self.permute(x, (*present, *rows, *columns))
        if adjacent and memory[-1] not in (*rows, *columns):
            turned = self.operations.make("contiguous", [turned])
        shape = [*map(x.size, present), self._length(x, rows), self._length(x, columns)]
        result = self.reshape(turned, shape, copies=not adjacent)
        shown = others[others.index(present[0]) :] if present else ()
        if shown == present:
            return result
        known = tuple([label in present for label in shown])
        lengths = tuple([x.size(label) if is_own else 1 for label, is_own in zip(shown, known, strict=True)])
        return self.operations.make("expand", [result], known, shape=lengths + result.shape[-2:])

    def _is_longer(self, x: Tensor, one: int, other: int) -> bool:
        """Whether NumPy copies faster along one label than along another one."""
        lengths = [self.entries([x.size(label)]) for label in (one, other)]
        return not self.operations.functional and lengths[0] >= min(tuning.SHORT, lengths[1])

    @staticmethod
    def _length(x: Tensor, group: Labels) -> Size:
        return sz.product(x.size(label) for label in group)


def _pair_key(a: Tensor, b: Tensor, kept: Collection[int]) -> tuple[tuple, list[int]]:
    """What tells products of two tensors apart, and the labels in the order in which they are named there."""
    if a.operation.serial > b.operation.serial:
        a, b = b, a
    names: dict[int, int] = {}
    for label in (*a.labels, *b.labels):
        names.setdefault(label, len(names))
    parts = [(x.operation.serial, tuple([names[label] for label in x.labels])) for x in (a, b)]
    return (*parts, tuple([names[x] for x in names if x in kept])), list(names)


def _is_same(a: Tensor, b: Tensor, rows: Labels, columns: Labels) -> bool:
    """Whether two tensors are one, with labels of rows in the place of those of columns."""
    renamed = dict(zip(columns, rows, strict=False))
    return a.operation is b.operation and a.labels == tuple([renamed.get(label, label) for label in b.labels])


def _is_run(group: Labels, memory: Labels) -> bool:
    """Whether labels follow each other in memory."""
    if not group:
        return True
    start = memory.index(group[0])
    return memory[start : start + len(group)] == group
