"""Sums that are 0 in total along an axis: they are, up to rounding errors of their own size."""

from __future__ import annotations

from collections.abc import Mapping

from eindiff.core import sizes as sz
from eindiff.core.labels import subscripts
from eindiff.core.nodes import Expr
from eindiff.planning.deviations import Balance, Deviation
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Arrays, Value


def with_total_zero(value: Value, found: Deviation | Balance, values: Mapping[Expr, Value], arrays: Arrays) -> Value:
    """The value of a sum that is 0 in total, such that it is."""
    if isinstance(found, Balance):
        return _balanced(value, found, arrays)
    return _without_mean(value, found, values, arrays)


def _balanced(value: Value, found: Balance, arrays: Arrays) -> Value:
    """A value with the total of the entries beside the diagonal, with the other sign, on it."""
    shape, order, operations = value.shape, tuple(range(len(value.shape))), arrays.operations
    full, work = arrays.array(value), sz.multiply(2, sz.product(shape))
    if operations.functional:
        made = operations.make("balance", [full], (found.axis, found.other), shape=shape, work=work)
        return arrays.value(Tensor(made, order), shape)
    on_it = tuple([found.other if axis == found.axis else axis for axis in order])
    kept = tuple([axis for axis in order if axis != found.axis])
    parameters = (True, shape, (("balance", "=", (subscripts([on_it], kept), found.axis), 0),))
    made = operations.make("fill", [full, operations.number(0)], parameters, shape=shape, work=work)
    return arrays.value(Tensor(made, order), shape)


def _without_mean(value: Value, found: Deviation, values: Mapping[Expr, Value], arrays: Arrays) -> Value:
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
