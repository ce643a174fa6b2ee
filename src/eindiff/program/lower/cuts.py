"""Parts of arrays of which little else is needed: what they are made of is cut, not the result.

`exp(x)[0]` is `exp(x[0])`, and a column of an array that is filled column by column is what was put there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eindiff.core.nodes import Number
from eindiff.core.sizes import Shape, Size
from eindiff.functions.table import TABLE
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.lower.indexing import WHOLE
from eindiff.program.operations import (
    ARITHMETIC_OPS,
    Cut,
    Operation,
    Operations,
    broadcast,
    is_number,
    reachable,
    with_operands,
    with_others,
)

_OF_ENTRIES = ("sqrt", "equal", "where_greater", "where_at_least", "clipped")  # functions without rows


def cut_first(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with parts that are made without the whole, where that takes less."""
    order = reachable(outputs)
    if not any(x.op == "cut" for x in order):
        return list(outputs)
    alone = used_once(order, outputs)
    cutting, done = Cutting(operations, costs), dict[Operation, Operation]()
    for x in order:
        operands = [done[y] for y in x.operands]
        if x.op == "cut" and (made := cutting.inside(operands[0], _cut_of(x))) is not None:
            done[x] = spread(operations, made, x.shape)
        else:
            done[x] = with_operands(operations, x, operands)
        if x in alone:
            cutting.once.add(done[x])
    return [done[x] for x in outputs]


def used_once(order: Sequence[Operation], outputs: Sequence[Operation]) -> set[Operation]:
    """The operations that one other needs, and that are no outputs."""
    users: dict[Operation, set[Operation | None]] = {x: {None} for x in outputs}
    for x in order:
        for y in x.operands:
            users.setdefault(y, set()).add(x)
    return {x for x in order if len(users[x]) == 1 and None not in users[x]}


def spread(operations: Operations, x: Operation, shape: Shape) -> Operation:
    """An array of a shape that is the same along axes which it does not have."""
    if x.shape == shape:
        return operations.array(x) if is_number(x) else x  # to which others may give axes
    if x.op == "number":
        x = operations.number(float(x.parameters[0]))
    return operations.make("repeat" if x.shape else "full", [x], shape, shape=shape)


def is_by_entries(x: Operation) -> bool:
    """Whether each entry of a result is a function of the same entry of each operand."""
    if x.op == "call":
        row = TABLE.get(x.parameters[0])
        is_one = x.parameters[0] in _OF_ENTRIES if row is None else not row.core
        return is_one and x.shape == broadcast([y.shape for y in x.operands])
    return x.op in ARITHMETIC_OPS


@dataclass(frozen=True, slots=True)
class AxisPart:
    """Some entries along an axis, which is counted from the last one: -1, -2, ..."""

    axis: int
    cut: Cut
    size: Size | None  # None, if it is one place

    def shape(self, whole: Shape) -> Shape:
        """The shape of the part of an array."""
        at = len(whole) + self.axis
        return (*whole[:at], *(() if self.size is None else (self.size,)), *whole[at + 1 :])

    def along(self, axis: int) -> AxisPart:
        """The same part along another axis."""
        return AxisPart(axis, self.cut, self.size)


def _cut_of(x: Operation) -> AxisPart:
    axis, cut = x.parameters
    return AxisPart(axis - len(x.operands[0].shape), cut, x.shape[axis] if isinstance(cut, tuple) else None)


@dataclass(slots=True)
class Cutting:
    """Makes parts of operations, without axes along which they are the same."""

    operations: Operations
    costs: Costs
    once: set[Operation] = field(default_factory=set)  # what is used in one place
    made: dict[tuple[Operation, AxisPart], Operation | None] = field(default_factory=dict)  # in loops in many ways

    def inside(self, x: Operation, part: AxisPart) -> Operation | None:
        """A part that is made without the whole; None if that would take more."""
        if (x, part) not in self.made:
            self.made[x, part] = found = self._inside(x, part)
            if found is not None and x in self.once:
                self.once.add(found)
        return self.made[x, part]

    def _inside(self, x: Operation, part: AxisPart) -> Operation | None:
        match x.op:
            case "fill":
                return self._of_filled(x, part)
            case "repeat" | "full":
                return self._of_operand(x.operands[0], x.shape, part)
            case "expand":
                return self._of_expanded(x, part)
            case "transpose" if len(x.shape) == 2:
                inner = self.inside(x.operands[0], part.along(-3 - part.axis))
                return inner if inner is None or len(inner.shape) < 2 else self.operations.transpose(inner)
        entries, whole = self.costs.entries(part.shape(x.shape)), self.costs.entries(x.shape)
        if x not in self.once or tuning.FEWER * entries > whole:
            return None
        if x.op in ("matmul", "structured_product"):
            return self._of_product(x, part)
        if not is_by_entries(x):
            return None
        parts = [self._of_operand(y, x.shape, part) for y in x.operands]
        return self.operations.make(x.op, parts, x.parameters, speed=x.speed)

    def _of_product(self, x: Operation, part: AxisPart) -> Operation | None:
        """Rows or columns of a product of two matrices, or entries of one of a matrix and a vector."""
        left, right = x.operands
        if len(left.shape) > 2 or len(right.shape) > 2:
            return None
        if len(right.shape) == 2 and part.axis == -1:
            right = self._spread_part(right, part)
        else:
            left = self._spread_part(left, part if len(left.shape) == 2 == len(x.shape) else part.along(-2))
        return self.operations.matmul(left, right)

    def _spread_part(self, y: Operation, part: AxisPart) -> Operation:
        """The part of an operand with all of its axes."""
        return spread(self.operations, self._of_operand(y, y.shape, part), part.shape(y.shape))

    def _of_operand(self, y: Operation, whole: Shape, part: AxisPart) -> Operation:
        """The part of what is spread to a shape."""
        at = len(y.shape) + part.axis
        if at < 0:
            return y
        if y.shape[at] == 1 != whole[part.axis]:
            part = AxisPart(part.axis, 0, None) if part.size is None else part
            if part.size is not None:
                return y
        found = self.inside(y, part)
        if found is None:
            found = self.operations.make("cut", [y], (at, part.cut), shape=part.shape(y.shape))
        return found

    def _of_expanded(self, x: Operation, part: AxisPart) -> Operation | None:
        [y] = x.operands
        flags = [*x.parameters, *[True] * len(x.shape)][: len(x.shape)]
        at = len(flags) + part.axis
        left = flags[:at] + flags[at + 1 :] if part.size is None else flags
        if flags[at]:
            found = self.inside(y, part.along(part.axis + flags[at:].count(False)))
            if found is None or len(found.shape) != sum(left):
                return None
            y = found
        elif part.size is not None:
            return x
        if all(left) or is_number(y):
            return y
        shape = part.shape(x.shape)
        return self.operations.make("expand", [y], tuple(left), shape=shape)

    def _of_filled(self, x: Operation, part: AxisPart) -> Operation | None:
        """What was put at places that are all of a part, or have nothing of it."""
        dense, shape, assignments = x.parameters
        operands = list(x.operands)
        terms: list[tuple[Number, Operation]] = []
        if dense:
            terms.append((1, self._of_operand(operands.pop(0), shape, part)))
        for how, sign, where, _ in assignments:
            if how != "cuts" or any(cut != WHOLE for k, cut in enumerate(where) if k != len(shape) + part.axis):
                return None
            inner = _within(where[part.axis], part)
            if inner is None:
                return None
            y = operands.pop(0)
            if inner is not _NOTHING:
                y = y if inner is _ALL else self._of_operand(y, shape, inner)
                terms.append((-1 if sign == "-=" else 1, y))
        return self.operations.plus(terms) if terms else self.operations.number(0)


_ALL, _NOTHING = AxisPart(0, 0, None), AxisPart(-1, 0, None)


def _within(place: Cut, part: AxisPart) -> AxisPart | None:
    """The entries that lie at a place along an axis which are in a part; None if that is not known."""
    cut = part.cut
    if place == WHOLE:
        return part
    if place == cut:
        return _ALL
    if not isinstance(place, tuple) and isinstance(place, int) and isinstance(cut, int):
        return _NOTHING if (place < 0) == (cut < 0) else None
    return None


def cut_last(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with parts of `f(x)` for `f(x[1:])` and `f(x[:-1])`, where these have as many entries together."""
    order = reachable(outputs)
    found: dict[Operation, tuple[Operation, list[Operation]]] = {}  # what an operation is a part of, and its cuts
    parts: dict[Operation, list[Operation]] = {}
    for x in order:
        if x.op == "cut":
            whole, cuts = found.get(x.operands[0], (x.operands[0], []))
            found[x] = whole, [*cuts, x]
        elif (one := _of_whole(operations, x, found)) is not None:
            found[x] = one
            parts.setdefault(one[0], []).append(x)
    paid = {whole for whole, several in parts.items() if _is_shared(several, whole, costs)}
    done: dict[Operation, Operation] = {}
    for x in order if paid else ():
        whole, cuts = found.get(x, (x, []))
        if x.op != "cut" and whole in paid:
            [made] = with_others(operations, [whole], done)
            for cut in cuts:
                made = operations.make("cut", [made], cut.parameters, shape=cut.shape)
            done[x] = made
        else:
            done[x] = with_operands(operations, x, [done[y] for y in x.operands])
    return [done.get(x, x) for x in outputs]


def _is_shared(parts: Sequence[Operation], whole: Operation, costs: Costs) -> bool:
    return len(parts) > 1 and sum(costs.entries(x.shape) for x in parts) >= costs.entries(whole.shape)


def _of_whole(
    operations: Operations, x: Operation, found: Mapping[Operation, tuple[Operation, list[Operation]]]
) -> tuple[Operation, list[Operation]] | None:
    """The function of whole arrays that an operation is a part of, if all its arrays are the same parts of others."""
    arrays = [y for y in x.operands if y.shape]
    if not arrays or not is_by_entries(x) or any(y not in found for y in arrays):
        return None
    cuts = [[cut.parameters for cut in found[y][1]] for y in arrays]
    shapes = {found[y][0].shape for y in arrays}
    if any(one != cuts[0] for one in cuts) or len(shapes) > 1 or not cuts[0]:
        return None
    operands = [found[y][0] if y.shape else y for y in x.operands]
    whole = operations.make(x.op, operands, x.parameters, speed=x.speed)
    return whole, found[arrays[0]][1]
