"""Rows of the function table: constants, and functions that make new shapes of old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import IndexMap, Lower
from eindiff.core.nodes import Expr
from eindiff.core.sizes import Shape, Size
from eindiff.functions import indexing
from eindiff.functions import multilinear as arrays
from eindiff.text.read.literals import HIGHEST_ORDER, Text, array_shape
from eindiff.text.read.syntax import Node
from eindiff.text.read.table import TABLE, Row, named, positional, size_value
from eindiff.text.read.unify import SCALAR, Term, Type, Unknown, known

if TYPE_CHECKING:
    from eindiff.text.read.infer import Inference


def _type(node: Node) -> Type:
    assert node.type is not None
    return node.type


# Constants


def _sizes(inference: Inference, node: Node) -> Type:
    node.plan = [size_value(inference, arg) for arg in node.args]
    return Type(tuple(node.plan))


def _twice(inference: Inference, node: Node) -> Type:
    node.plan = size_value(inference, node.args[0])
    return Type((node.plan, node.plan))


def _size_number(inference: Inference, node: Node) -> Type:
    node.plan = size_value(inference, node.args[0])
    return SCALAR


TABLE["ones"] = Row("ones(n), ones(m, n)", _sizes, lambda node, args: arrays.ones(*node.plan), 1, HIGHEST_ORDER, 0)
TABLE["zeros"] = Row("zeros(n), zeros(m, n)", _sizes, lambda node, args: arrays.zeros(*node.plan), 1, HIGHEST_ORDER, 0)
TABLE["eye"] = Row("eye, or eye(n)", _twice, lambda node, args: arrays.eye(node.plan), 1, 1, 0)
TABLE["lower"] = Row("lower(n)", _twice, lambda node, args: construct.constant(Lower(node.plan)), 1, 1, 0)
TABLE["size"] = Row("size(n)", _size_number, lambda node, args: construct.size_number(node.plan), 1, 1, 0)


def _filled(order: int) -> Any:
    def infer(inference: Inference, node: Node) -> Type:
        if _type(node.args[0]).order:
            inference.fail(node, f"{node.value} repeats a scalar; {inference.shape_of(node.args[0])}")
        node.plan = tuple(Unknown() for _ in range(order))
        return Type(node.plan)

    return infer


def _build_filled(node: Node, args: list[Expr]) -> Expr:
    shape = known(node.plan)
    assert shape is not None
    return arrays.multiply(args[0], arrays.ones(*shape))


TABLE["vector"] = Row("vector(c), whose size is found from its use", _filled(1), _build_filled)
TABLE["matrix"] = Row("matrix(c), whose sizes are found from its use", _filled(2), _build_filled)


def _whole(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, Text)


def _index_map(inference: Inference, node: Node) -> Type:
    size, inputs, offset, strides = (*positional(node), 0, None)[:4]
    if len(node.args) < 4:
        strides = [1] * len(inputs) if isinstance(inputs, list) else None
    size = size_value(inference, node.args[0])
    if not isinstance(inputs, list) or not isinstance(strides, list) or len(inputs) != len(strides):
        inference.fail(node, f"as many inputs as strides: {TABLE['indexmap'].usage}")
    if not all(_whole(value) for value in (*inputs, *strides, offset)) or any(
        isinstance(n, int) and n < 1 for n in inputs
    ):
        inference.fail(node, f"sizes are names or whole numbers: {TABLE['indexmap'].usage}")
    node.plan = IndexMap(size, tuple(inputs), offset, tuple(strides))
    _refuse_outside(inference, node, node.plan)
    return Type((size, *inputs))


def _refuse_outside(inference: Inference, node: Node, chosen: IndexMap) -> None:
    """An index map has a k in range for every input, as far as the sizes tell."""
    lowest: Size = chosen.offset
    highest: Size = chosen.offset
    for n, stride in zip(chosen.inputs, chosen.strides, strict=True):
        last = sz.multiply(stride, sz.subtract(n, 1))
        if isinstance(last, int) and last < 0:
            lowest = sz.add(lowest, last)
        else:
            highest = sz.add(highest, last)
    room = sz.subtract(chosen.size, highest)
    if (isinstance(lowest, int) and lowest < 0) or (isinstance(room, int) and room < 1):
        inference.fail(node, f"this reaches from {lowest} to {highest}, outside an axis of size {chosen.size}")


def _one_hot(inference: Inference, node: Node) -> Type:
    if len(positional(node)) != 2 or node.args[0].kind != "array":
        inference.fail(node, f"a list of indices, then a size: {TABLE['onehot'].usage}")
    size = size_value(inference, node.args[1])
    shape = array_shape(inference.source, node.args[0])
    indices = np.asarray(node.args[0].plan)
    if indices.dtype.kind != "i" or indices.min() < 0 or (isinstance(size, int) and indices.max() >= size):
        inference.fail(node.args[0], f"indices are whole numbers from 0 on, below the size {size}")
    node.plan = IndexMap(size, shape, indices=tuple(indices.ravel().tolist()))
    return Type((size, *shape))


TABLE["indexmap"] = Row(
    "indexmap(size, [inputs], offset, [strides])", _index_map, lambda node, args: construct.constant(node.plan), 2, 4, 0
)
TABLE["onehot"] = Row("onehot([indices], size)", _one_hot, lambda node, args: construct.constant(node.plan), 2, 2, 0)


# Axes in another order, more axes, fewer axes


def _permutation(inference: Inference, node: Node) -> Type:
    order = _type(node.args[0]).order
    given = positional(node)
    given = given[0] if len(given) == 1 and isinstance(given[0], list) else given
    axes = given or list(range(order))[::-1]
    if not all(isinstance(k, int) for k in axes) or sorted(k + order if k < 0 else k for k in axes) != list(
        range(order)
    ):
        hint = f"so give {order} axes, each of 0 to {order - 1} once"
        inference.fail(node, f"`{inference.text(node)}`: {inference.shape_of(node.args[0])}, {hint}")
    node.plan = [k % order for k in axes]
    return Type(tuple(_type(node.args[0]).axes[k] for k in node.plan))


def _reshaped(inference: Inference, node: Node) -> Type:
    given = positional(node)
    if len(given) == 1 and isinstance(given[0], list):
        given = given[0]
    shape = _type(node.args[0]).axes
    if (
        not given
        or not all(_whole(n) and (not isinstance(n, int) or n >= 1 or n == -1) for n in given)
        or given.count(-1) > 1
    ):
        inference.fail(node, f"sizes are names or positive numbers, one may be -1: {TABLE['reshape'].usage}")
    node.plan = given
    axes: list[Term] = list(given)
    if -1 in given:
        place, rest = given.index(-1), [n for n in given if n != -1]
        axes[place] = inference.sizes.derive(node, lambda *sizes: _rest(sizes, rest), *shape)
    return Type(tuple(axes))


def _rest(sizes: Shape, others: list[Size]) -> Size:
    """The size that -1 stands for."""
    result = indexing.reshape(arrays.ones(*sizes), [*others, -1])
    return result.shape[-1]


def _vec(inference: Inference, node: Node) -> Type:
    return Type((inference.sizes.derive(node, lambda *sizes: sz.product(sizes), *_type(node.args[0]).axes),))


def _kron(inference: Inference, node: Node) -> Type:
    return inference.kron(node, _type(node.args[0]), _type(node.args[1]))


def _outer(inference: Inference, node: Node) -> Type:
    return Type(_type(node.args[0]).axes + _type(node.args[1]).axes)


def _inner(inference: Inference, node: Node) -> Type:
    first, other = node.args
    a, b = _type(first).axes, _type(other).axes  # rows and columns are alike here
    if len(a) != len(b) or not _united(inference, node, a, b):
        _fail_shapes(inference, node, first, other, "the shapes must be equal")
    return SCALAR


def _united(inference: Inference, node: Node, a: tuple[Term, ...], b: tuple[Term, ...]) -> bool:
    united = [inference.sizes.unite(m, n, node) for m, n in zip(a, b, strict=True)]
    return all(united)


def _fail_shapes(inference: Inference, node: Node, a: Node, b: Node, hint: str) -> NoReturn:
    inference.fail(node, f"`{inference.text(node)}`: {inference.shape_of(a)}, {inference.shape_of(b)}; {hint}")


TABLE["transpose"] = Row(
    "transpose(A), or transpose(T, 2, 0, 1) with the order of axes", _permutation,
    lambda node, args: arrays.transpose(args[0], node.plan), 1, 1 + HIGHEST_ORDER, 1,
)  # fmt: skip
TABLE["reshape"] = Row(
    "reshape(X, m, n), row-major",
    _reshaped,
    lambda node, args: indexing.reshape(args[0], node.plan),
    2,
    1 + HIGHEST_ORDER,
    1,
)
TABLE["vec"] = Row("vec(X), the columns one below the other", _vec, lambda node, args: indexing.vec(args[0]))
TABLE["kron"] = Row("kron(A, B)", _kron, lambda node, args: indexing.kron(*args), 2, 2)
TABLE["outer"] = Row("outer(x, y)", _outer, lambda node, args: arrays.outer(*args), 2, 2)
TABLE["inner"] = Row("inner(X, Y)", _inner, lambda node, args: arrays.inner(*args), 2, 2)


# Joining


def _joined_axis(inference: Inference, node: Node, order: int) -> int:
    axis = named(node, "axis", 0)
    if not isinstance(axis, int) or not -order <= axis < order:
        inference.fail(
            node, f"`{inference.text(node)}`: {inference.shape_of(node.args[0])}; the axis is one of 0 to {order - 1}"
        )
    return axis % order


def _operands(node: Node) -> list[Node]:
    return [arg for arg in node.args if arg.kind != "keyword"]


def _concatenated(inference: Inference, node: Node) -> Type:
    first, *others = _operands(node)
    axes = _type(first).axes
    if not axes:
        shape = inference.shape_of(first)
        inference.fail(node, f"`{inference.text(node)}`: {shape}; scalars are joined with stack(a, b)")
    at = node.plan = _joined_axis(inference, node, len(axes))
    for other in others:
        theirs = _type(other).axes
        beside = (axes[:at] + axes[at + 1 :], theirs[:at] + theirs[at + 1 :])
        if len(theirs) != len(axes) or not _united(inference, node, *beside):
            _fail_shapes(inference, node, first, other, f"all sizes but those of axis {at} must be equal")
    total = inference.sizes.derive(node, _total, *(_type(arg).axes[at] for arg in (first, *others)))
    return Type((*axes[:at], total, *axes[at + 1 :]))


def _total(*sizes: Size) -> Size:
    total: Size = 0
    for size in sizes:
        total = sz.add(total, size)
        if len(str(total)) > 2000:
            raise EindiffError("the size of this is too long a formula")
    return total


def _stacked(inference: Inference, node: Node) -> Type:
    first, *others = _operands(node)
    axes = _type(first).axes
    for other in others:
        theirs = _type(other).axes
        if len(theirs) != len(axes) or not _united(inference, node, axes, theirs):
            _fail_shapes(inference, node, first, other, "the shapes must be equal")
    node.plan = _joined_axis(inference, node, len(axes) + 1)
    return Type((*axes[: node.plan], 1 + len(others), *axes[node.plan :]))


TABLE["concatenate"] = Row(
    "concatenate(a, b), or concatenate(A, B, axis=1)", _concatenated,
    lambda node, args: indexing.concatenate(args, node.plan), 1, 10_000, keywords=("axis",),
)  # fmt: skip
TABLE["stack"] = Row(
    "stack(a, b), or stack(a, b, axis=1)", _stacked, lambda node, args: indexing.stack(args, node.plan), 1, 10_000,
    keywords=("axis",),
)  # fmt: skip
