"""From which rows of its operands the rows of an operation's result come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eindiff.core import sizes as sz
from eindiff.core.sizes import Size
from eindiff.program.operations import ARITHMETIC_OPS, Operation

Axes = list[int | None]  # for each operand the axis along which it is cut, if it is

_ELEMENTWISE = ARITHMETIC_OPS | {"complement", "positive", "mask"}


class Rows:
    """The rows of results, by operation; a test says which functions work entry by entry."""

    def __init__(self, is_universal: Callable[[Operation], bool]) -> None:
        self.is_universal = is_universal

    def is_elementwise(self, x: Operation) -> bool:
        """Whether an operation works entry by entry."""
        return x.op in _ELEMENTWISE or (x.op == "call" and self.is_universal(x))

    def sources(self, x: Operation, axis: int) -> Axes | None:
        """The axis of each operand whose rows give those of the result, None for operands that are used as they are;
        None if the rows do not come from rows."""
        if self.is_elementwise(x):
            return _repeated(x, axis)
        return _SOURCES[x.op](x, axis) if x.op in _SOURCES else None

    def summed(self, x: Operation) -> list[Axes]:
        """For each index that a sum is over, the axes of operands that have it."""
        if x.op == "sum":
            axes = x.parameters or range(len(x.operands[0].shape))
            return [[axis] for axis in axes]
        if x.op == "matmul":
            a, b = x.operands
            return [[len(a.shape) - 1, max(0, len(b.shape) - 2)]]
        if x.op == "inner":
            return [[axis, axis] for axis in range(len(x.operands[0].shape))]
        if x.op == "einsum":
            inputs, _, output = x.parameters[0].partition("->")
            operands = inputs.split(",")
            labels = dict.fromkeys(label for labels in operands for label in labels if label not in output)
            found = [_places(operands, label) for label in labels]
            return [places for places in found if places is not None]
        return []


def _repeated(x: Operation, axis: int) -> Axes:
    """The same axis of all operands, counted from the last one, but for those that are repeated along it."""
    places = [axis - len(x.shape) + len(y.shape) for y in x.operands]
    return [k if k >= 0 and y.shape[k] != 1 else None for y, k in zip(x.operands, places, strict=True)]


def _without(x: Operation, gone: Sequence[int], axis: int) -> Axes:
    """An axis of the operand, some of whose axes are gone."""
    return [[k for k in range(len(x.operands[0].shape)) if k not in gone][axis]]


def _expanded(x: Operation, axis: int) -> Axes | None:
    kept = [*x.parameters, *[True] * (len(x.shape) - len(x.parameters))]  # the last ones need not be said
    return [sum(kept[:axis])] if kept[axis] else None


def _swapped(x: Operation, axis: int) -> Axes:
    last = len(x.shape) - 1
    return [{last: last - 1, last - 1: last}.get(axis, axis)]


def _along_another(x: Operation, axis: int) -> Axes | None:
    """A function along an axis, of which the rows along another one are apart."""
    return [axis] if x.parameters[0] == "softmax" and axis != x.parameters[1] else None


def _reduced(x: Operation, axis: int) -> Axes | None:
    along = x.parameters[1]
    return _without(x, [along % len(x.operands[0].shape)], axis) if isinstance(along, int) else None


def _contracted(x: Operation, axis: int) -> Axes | None:
    inputs, _, output = x.parameters[0].partition("->")
    return _places(inputs.split(","), output[axis])


def _of_product(x: Operation, axis: int) -> Axes | None:
    """Rows or columns of a matrix product, or the matrices of a stack."""
    a, b = x.operands
    if len(b.shape) == 1 < len(a.shape):
        return [axis, None]
    if len(a.shape) < 2 or len(b.shape) < 2:
        return None
    if axis == len(x.shape) - 1:
        return [None, len(b.shape) - 1]
    if axis == len(x.shape) - 2:
        return [len(a.shape) - 2, None]
    return _repeated(x, axis)


def _places(operands: Sequence[str], label: str) -> Axes | None:
    """The axis of each operand that has a label; None if one has it twice."""
    if any(labels.count(label) > 1 for labels in operands):
        return None
    return [labels.index(label) if label in labels else None for labels in operands]


def _reshaped(x: Operation, axis: int) -> Axes | None:
    """An axis that stays what it is when others are merged or split, or is the first of those that are."""
    [y] = x.operands
    before = sz.product(x.shape[:axis])
    for b in range(len(y.shape)):
        if y.shape[b] != 1 and sz.product(y.shape[:b]) == before and _merged(x, axis, b) is not None:
            return [b]
    return None


def _merged(x: Operation, axis: int, b: int) -> tuple[Size, Size] | None:
    """Entries of a reshaped array for one of its operand along some axes, and those of the operand for one of it; None
    if neither is a merger of several axes."""
    own, other = x.shape[axis:], x.operands[0].shape[b:]
    for count in range(1, max(len(own), len(other)) + 1):
        if own[0] == sz.product(other[:count]) and count <= len(other):
            return sz.product(other[1:count]), 1
        if other[0] == sz.product(own[:count]) and count <= len(own):
            return 1, sz.product(own[1:count])
    return None


def above(x: Operation, axis: int | None, b: int, times: Size) -> Size | None:
    """Entries for each row along an axis, if its operand has so many along the axis b; None if that is no number."""
    if x.op == "fill" and times != 1:
        return None  # its diagonals are cut by rows
    more, less = _merged(x, axis, b) or (1, 1) if x.op == "reshape" and axis is not None else (1, 1)
    return sz.multiply(times, more) if less == 1 else 1 if less == times else None


def below(x: Operation, axis: int, b: int, times: Size) -> Size | None:
    """Entries of the operand for each row along the axis b, if an operation has so many along an axis."""
    if x.op == "fill" and times != 1:
        return None
    more, less = _merged(x, axis, b) or (1, 1) if x.op == "reshape" else (1, 1)
    return sz.multiply(times, less) if more == 1 else 1 if more == times else None


def _of_filling(x: Operation, axis: int) -> Axes | None:
    """An array with terms added on diagonals: those of its rows come from their rows, or from what is beside them."""
    dense, _, assignments = x.parameters
    if any(how not in ("diagonal", "balance") for how, _, _, _ in assignments):
        return None
    found: Axes = [axis] if dense else []
    for (how, _, where, _), term in zip(assignments, x.operands[int(dense) :], strict=True):
        if how == "balance" and axis == where[1]:
            return None
        if how == "balance":
            found.append(None)
            continue
        inputs, _, output = where.partition("->")
        place = output.index(inputs[axis]) - len(output) + len(term.shape)
        if place < 0 or term.shape[place] == 1:
            return None
        found.append(place)
    return found


_SOURCES: dict[str, Callable[[Operation, int], Axes | None]] = {
    "call": _along_another,
    "expand": _expanded,
    "only": lambda x, axis: [[k for k, gone in enumerate(x.parameters) if not gone][axis]],
    "transpose": lambda x, axis: [1 - axis],
    "swap": _swapped,
    "permute": lambda x, axis: [x.parameters[axis]],
    "sum": lambda x, axis: _without(x, x.parameters, axis),
    "reduce": _reduced,
    "einsum": _contracted,
    "matmul": _of_product,
    "reshape": _reshaped,
    "fill": _of_filling,
}
