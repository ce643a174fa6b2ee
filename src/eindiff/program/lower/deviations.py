"""Deviations from means, less the mean that rounding has left in them."""

from __future__ import annotations

from collections.abc import Mapping

from eindiff.planning.deviations import Deviation
from eindiff.core.nodes import Expr
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Arrays, Value


def without_mean(value: Value, found: Deviation, values: Mapping[Expr, Value], arrays: Arrays) -> Value:
    """`x - w'x / sum(w)` for a sum x that is 0 in total with weights w, if it is an array along that axis."""
    coefficient, x = arrays.tensor(value)
    if found.axis not in x.labels or any(node not in values for node in found.weights):
        return value
    products, operations = arrays.products, arrays.operations
    kept = tuple([label for label in x.labels if label != found.axis])
    weights = [Tensor(arrays.array(values[node]), (found.axis,)) for node in found.weights]
    if weights:
        weight = products.product(weights, (found.axis,))
        total, count = products.pair(x, weight, kept, kept), products.reduce(weight, ()).operation
    else:
        size = x.size(found.axis)
        total = products.reduce(x, kept)
        count = operations.number(size) if isinstance(size, int) else arrays.indexing.size(size)
    mean = Tensor(operations.make("divide", [total.operation, count]), total.labels)
    left = operations.plus([(1, x.operation), (-1, products.align(mean, x.labels))])
    return arrays.value(Tensor(left, x.labels), value.shape, coefficient)
