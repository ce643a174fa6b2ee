"""Diagonals of matrices of which little else is needed: what they are made of is read there, not the matrices made.

`tr(L M)` of two lower triangles is the sum of products of diagonals, `tr(T B)` has three of them for a tridiagonal T,
and of `I - k T` a system of equations reads three. A diagonal is numbered as NumPy does: 1 is above the main one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eindiff.core import sizes as sz
from eindiff.core.leaves import TRIANGLES
from eindiff.core.sizes import Shape
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.cuts import is_by_entries, spread, used_once
from eindiff.program.lower.halves import half
from eindiff.program.operations import Cut, Operation, Operations, is_call, reachable, with_operands

_OF_TWO = {"ij,ji->i": True, "ij,ji->j": True, "ij,ij->i": False, "ij,ij->j": False}  # whether one is transposed
_OFFSETS = {"lower": (None, 0), "upper": (0, None), "tridiagonal": (-1, 1)}


def by_diagonals(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations that read some diagonals, of what these are made of."""
    order = reachable(outputs)
    if not any(_may_read(x) for x in order):
        return [*outputs]
    alone = used_once(order, outputs)
    reading, done = _Diagonals(operations, costs), dict[Operation, Operation]()
    for x in order:
        made = with_operands(operations, x, [done[y] for y in x.operands])
        found = reading.instead(made) if _may_read(made) else None
        done[x] = made if found is None else found
        if x in alone:
            reading.once.add(done[x])
    return [done[x] for x in outputs]


def _may_read(x: Operation) -> bool:
    """Whether an operation may need no more than some diagonals of its operands."""
    match x.op:
        case "diagonal" | "trace":
            return x.parameters[0] in ("ii->i", "ii->")
        case "einsum":
            return x.parameters[0] in _OF_TWO
        case "solve":
            return x.parameters[0] == "tridiagonal"
        case "inner":
            return len(x.operands[0].shape) == 2
    return is_call(x, "band_pivots") and x.parameters[1] == "tridiagonal"


@dataclass(slots=True)
class _Diagonals:
    """Reads diagonals of square matrices."""

    operations: Operations
    costs: Costs
    once: set[Operation] = field(default_factory=set)  # what is used in one place

    def instead(self, x: Operation) -> Operation | None:
        """An operation that reads diagonals; None if that is not less."""
        first, n = x.operands[0], x.operands[0].shape[0]
        if first.shape != (n, n) or self.costs.evaluate(n) < 2:
            return None
        if x.op in ("solve", "call"):
            return self._of_three(x, first)
        if x.op in ("inner", "einsum"):
            return self._of_two(x, *x.operands)
        if (found := self._inside(first, 0)) is None:
            return None
        found = spread(self.operations, found, (n,))
        return found if x.op == "diagonal" else self._sum(found)

    def _of_three(self, x: Operation, matrix: Operation) -> Operation | None:
        """A system of equations with a tridiagonal matrix, or its pivots, from the three diagonals."""
        found = [self._inside(matrix, k) for k in (-1, 0, 1)]
        if None in found or matrix not in self.once:
            return None
        shapes = [self._shape(matrix, k) for k in (-1, 0, 1)]
        three = [spread(self.operations, y, shape) for y, shape in zip(found, shapes, strict=True) if y is not None]
        return self.operations.make(
            x.op, [*three, *x.operands[1:]], x.parameters, shape=x.shape, work=x.work, speed=x.speed
        )

    def _of_two(self, x: Operation, a: Operation, b: Operation) -> Operation | None:
        """The sum of products of entries of two matrices, or sums along rows, where these are on few diagonals."""
        if self.costs.evaluate(a.shape[0]) < tuning.TRIANGLE:
            return None
        turned = x.op == "einsum" and _OF_TWO[x.parameters[0]]
        offsets = _common_offsets(half(self.operations, a), half(self.operations, self._turned(b, turned)))
        if offsets is None or (x.op == "einsum" and len(offsets) > 1):
            return None
        both = [[self.diagonal(y, k) for y, k in ((a, k), (b, -k if turned else k))] for k in offsets]
        if x.op == "einsum":
            return self.operations.times(both[0])
        return self.operations.plus([(1, self.operations.matmul(*two)) for two in both])

    def _turned(self, x: Operation, turned: bool) -> Operation:
        return self.operations.transpose(x) if turned else x

    def _sum(self, x: Operation) -> Operation:
        return self.operations.make("sum", [x], shape=(), work=sz.product(x.shape))

    def diagonal(self, x: Operation, k: int) -> Operation:
        """A diagonal of a matrix, a view if it is not made without the matrix."""
        shape = self._shape(x, k)
        if (found := self._inside(x, k)) is not None:
            return spread(self.operations, found, shape)
        if k:
            x = self._cut(self._cut(x, 0, -k), 1, k)
        return self.operations.make("diagonal", [x], ("ii->i",), shape=shape)

    @staticmethod
    def _shape(x: Operation, k: int) -> Shape:
        return (sz.subtract(x.shape[0], abs(k)),)

    def _cut(self, x: Operation, axis: int, k: int) -> Operation:
        """What is left without the first k entries along an axis, or the last -k."""
        cut: Cut = (k, None, None) if k > 0 else (None, k, None)
        shape = (*x.shape[:axis], sz.subtract(x.shape[axis], abs(k)), *x.shape[axis + 1 :])
        return self.operations.make("cut", [x], (axis, cut), shape=shape)

    def _inside(self, x: Operation, k: int) -> Operation | None:
        """A diagonal that is made without the matrix, maybe as a number that it has everywhere."""
        if x.op == "transpose":
            return self._inside(x.operands[0], -k)
        if not k and is_call(x, "inv") and half(self.operations, x.operands[0]) in TRIANGLES:
            return self.operations.power(self.diagonal(x.operands[0], 0), -1)
        if x not in self.once:
            return None
        match x.op:
            case "fill":
                return self._of_filled(x, k)
            case "outer":
                return self.operations.times([self._of_axis(y, axis, k) for axis, y in enumerate(x.operands)])
            case "matmul" | "structured_product":
                return self._of_product(x, k)
        if not is_by_entries(x):
            return None
        parts = [self._of_operand(y, x.shape, k) for y in x.operands]
        known = [y for y in parts if y is not None]
        return self.operations.make(x.op, known, x.parameters, speed=x.speed) if len(known) == len(parts) else None

    def _of_axis(self, x: Operation, axis: int, k: int) -> Operation:
        """The entries of a vector that stand in the rows, or in the columns, of a diagonal."""
        offset = -k if axis == 0 else k
        return self._cut(x, 0, offset) if offset else x

    def _of_operand(self, y: Operation, whole: Shape, k: int) -> Operation | None:
        """What an operand that broadcasts to a matrix has on a diagonal; None if that is not known."""
        if y.shape == whole:
            return self.diagonal(y, k)
        if len(y.shape) < 2:
            return self._of_axis(y, 1, k) if y.shape and y.shape[0] == whole[1] else y if not y.shape else None
        is_column = y.op == "expand" and y.parameters == (True, False) and y.shape[0] == whole[0]
        return self._of_axis(y.operands[0], 0, k) if is_column else None

    def _of_filled(self, x: Operation, k: int) -> Operation | None:
        """The diagonal of a matrix to which diagonal ones are added."""
        has_base, _, assignments = x.parameters
        kinds = {(how, sign == "=", where) for how, sign, where, _ in assignments}
        if not has_base or kinds != {("diagonal", False, "ii->i")}:
            return None
        base, *added = x.operands
        terms = [(-1 if sign == "-=" else 1, y) for (_, sign, _, _), y in zip(assignments, added, strict=True)]
        return self.operations.plus([(1, self.diagonal(base, k)), *(() if k else terms)])

    def _of_product(self, x: Operation, k: int) -> Operation | None:
        """The main diagonal of a product of two lower triangles, or of two upper ones."""
        kinds = {half(self.operations, y) if y.shape == x.shape else "" for y in x.operands}
        if k or len(kinds) > 1 or not kinds <= TRIANGLES:
            return None
        return self.operations.times([self.diagonal(y, 0) for y in x.operands])


def _common_offsets(*kinds: str) -> range | None:
    """The diagonals on which two matrices have entries; None if these are many."""
    found = [_OFFSETS.get(kind, (None, None)) for kind in kinds]
    first = [start for start, _ in found if start is not None]
    last = [stop for _, stop in found if stop is not None]
    return range(max(first), min(last) + 1) if first and last else None
