"""Numbers beside small arrays: NumPy takes half the time for an array without axes as for one of Python's numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eindiff.core.coefficients import Number
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, Operations, reachable, with_operands


def with_constants(outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with constants of the module for the numbers that small arrays are added to, multiplied or divided by.

    What is multiplied with a number of the program first, stays so.
    """
    operations, done = Operations(), dict[Operation, Operation]()

    def constant(value: Number) -> Operation:
        array = np.asarray(float(value))
        return operations.make("constant", parameters=((), array.tobytes()), shape=(), work=0)

    def changed(x: Operation, operands: list[Operation]) -> Operation:
        if not x.shape or costs.size(x) >= tuning.IN_PLACE_BYTES:
            return with_operands(operations, x, operands)
        if x.op == "scale" and _begins_with_array(x.operands[0]):
            return operations.make("multiply", [*operands, constant(x.parameters[0])])
        if x.op in ("add", "divide"):
            operands = [constant(y.parameters[0]) if y.op == "number" else y for y in operands]
        if x.op in ("reciprocal", "logistic"):
            one = constant(1)
            below = operations.make("add", [one, *operands], (1, 1)) if x.op == "logistic" else operands[0]
            return operations.make("divide", [one, below])
        return with_operands(operations, x, operands)

    for x in reachable(outputs):
        done[x] = changed(x, [done[y] for y in x.operands])
    return [done[x] for x in outputs]


def _begins_with_array(x: Operation) -> bool:
    """Whether what stands first in a product has axes."""
    while x.op in ("multiply", "divide", "scale"):
        x = x.operands[0]
    return bool(x.shape)
