"""Numbers beside small arrays: NumPy takes half the time for an array without axes as for one of Python's numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from eindiff.core.coefficients import Number
from eindiff.core.sizes import Shape
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, Operations, reachable, rewritten, with_operands

_OF_ZERO = {"relu": ("maximum",), "step": ("heaviside",)}
_PLACES = ("range", "table", "flat", "integers")


def with_constants(outputs: Sequence[Operation], costs: Costs, places: Collection[str]) -> list[Operation]:
    """Operations with constants of the module for the numbers that small arrays are added to, multiplied or divided by.

    What is multiplied with a number of the program first, stays so, and places stay integers.
    """
    operations, integers = Operations(), _integers(outputs, places)

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        if x.op == "einsum" and _is_short(x, costs):
            product = operations.times(operands)
            return operations.matmul(product, _ones(operations, x.operands[0].shape[1:]))
        if x.op == "matmul":
            arrays = [_ones(operations, y.shape) if _is_few_ones(y) else y for y in operands]
            return with_operands(operations, x, arrays)
        is_small = x.shape and x not in integers and costs.size(x) < tuning.IN_PLACE_BYTES
        return _changed(operations, x, operands) if is_small else None

    return rewritten(operations, outputs, change)


def _integers(outputs: Sequence[Operation], places: Collection[str]) -> set[Operation]:
    """Places, as inputs of some names are, and what is computed of nothing else."""
    found: set[Operation] = set()
    for x in reachable(outputs):
        inside = [y for y in x.operands if y.op not in ("number", "size")]
        is_place = x.op in _PLACES or (x.op == "input" and x.parameters[0] in places)
        if is_place or (inside and found.issuperset(inside)):
            found.add(x)
    return found


def _is_short(x: Operation, costs: Costs) -> bool:
    """Whether an operation is a sum of few products, of entries of one row: NumPy takes half the time for these and
    their product with ones as for `einsum`."""
    inputs, _, output = x.parameters[0].partition("->")
    one, _, two = inputs.partition(",")
    if one != two or len(one) != 2 or output != one[0] or one[0] == one[1]:
        return False
    first = x.operands[0]
    return costs.evaluate(first.shape[1]) < tuning.SHORT and costs.size(first) < tuning.REUSED_BYTES


def _is_few_ones(x: Operation) -> bool:
    return x.op == "ones" and len(x.shape) == 1 and isinstance(x.shape[0], int) and x.shape[0] < tuning.SHORT


def _ones(operations: Operations, shape: Shape) -> Operation:
    """Ones that are there already, if their number is known."""
    if not all(isinstance(size, int) for size in shape):
        return operations.make("ones", parameters=shape, shape=shape)
    array = np.ones([int(size) for size in shape])
    return operations.make("constant", parameters=(array.shape, array.tobytes()), shape=shape, work=0)


def _changed(operations: Operations, x: Operation, operands: list[Operation]) -> Operation:
    """An operation with constants for the numbers in it."""
    if x.op == "scale" and _begins_with_array(x.operands[0]):
        return operations.make("multiply", [*operands, _constant(operations, x.parameters[0])])
    if x.op == "call" and x.parameters[0] in _OF_ZERO:
        return operations.make("call", [*operands, _constant(operations, 0)], _OF_ZERO[x.parameters[0]], speed=x.speed)
    if x.op in ("reciprocal", "logistic"):
        one = _constant(operations, 1)
        below = operations.make("add", [one, *operands], (1, 1)) if x.op == "logistic" else operands[0]
        return operations.make("divide", [one, below])
    if x.op in ("add", "divide", "fill"):
        chosen = _values(x) if x.op == "fill" else range(len(operands))
        for k in chosen:
            if operands[k].op == "number":
                operands[k] = _constant(operations, operands[k].parameters[0])
    return with_operands(operations, x, operands)


def _values(x: Operation) -> list[int]:
    """Which operands of an array that is filled are put there; others are places."""
    dense, _, assignments = x.parameters
    counts = [1 + count for *_, count in assignments]
    return [int(dense) + sum(counts[:k]) for k in range(len(counts))]


def _constant(operations: Operations, value: Number) -> Operation:
    array = np.asarray(float(value))
    return operations.make("constant", parameters=((), array.tobytes()), shape=(), work=0)


def _begins_with_array(x: Operation) -> bool:
    """Whether what stands first in a product has axes."""
    while x.op in ("multiply", "divide", "scale"):
        x = x.operands[0]
    return bool(x.shape)
