"""Functions of the language: constants, and what makes new shapes of old ones."""

from __future__ import annotations

from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import Lower
from eindiff.core.nodes import Expr
from eindiff.core.sizes import Shape, Size
from eindiff.functions import indexing
from eindiff.functions import multilinear as arrays
from eindiff.text.read.function_rows import FunctionRows, Infer, named, positional, size_value
from eindiff.text.read.literals import LARGEST_ORDER, is_size
from eindiff.text.read.shapes import Shapes, typed
from eindiff.text.read.syntax import Node
from eindiff.text.read.unify import SCALAR, Term, Type, Unknown, known

SHAPES = FunctionRows()

# Constants


def _sizes(shapes: Shapes, node: Node) -> Type:
    node.plan = [size_value(shapes, arg) for arg in node.args]
    return Type(tuple(node.plan))


def _twice(shapes: Shapes, node: Node) -> Type:
    node.plan = size_value(shapes, node.args[0])
    return Type((node.plan, node.plan))


SHAPES.add("ones(n), ones(m, n)", _sizes, lambda node, args: arrays.ones(*node.plan), 1, LARGEST_ORDER, literal=0)
SHAPES.add("zeros(n), zeros(m, n)", _sizes, lambda node, args: arrays.zeros(*node.plan), 1, LARGEST_ORDER, literal=0)
SHAPES.add("eye, or eye(n)", _twice, lambda node, args: arrays.eye(node.plan), literal=0)


def _filled(order: int) -> Infer:
    def infer(shapes: Shapes, node: Node) -> Type:
        if typed(node.args[0]).order:
            shapes.fail(node, f"{node.value} repeats a scalar; {shapes.shape_of(node.args[0])}")
        node.plan = tuple(Unknown() for _ in range(order))
        return Type(node.plan)

    return infer


def _build_filled(node: Node, args: list[Expr]) -> Expr:
    shape = known(node.plan)
    assert shape is not None
    return arrays.multiply(args[0], arrays.ones(*shape))


SHAPES.add("vector(c), whose size is found from its use", _filled(1), _build_filled)
SHAPES.add("matrix(c), whose sizes are found from its use", _filled(2), _build_filled)


def _square(shapes: Shapes, node: Node) -> Type:
    if typed(node.args[0]).order != 2:
        shapes.fail(node, f"{node.value} takes a square matrix; {shapes.shape_of(node.args[0])}")
    shapes.square(node, node.args[0])
    return typed(node.args[0])


def _lower_part(a: Expr) -> Expr:
    return arrays.multiply(a, construct.constant(Lower(a.shape[0])))


def _upper_part(a: Expr) -> Expr:
    return arrays.transpose(_lower_part(arrays.transpose(a)))


def _counted(shapes: Shapes, node: Node) -> Type:
    order = typed(node.args[0]).order
    [axis] = positional(node) or [None]
    if axis is not None and (not isinstance(axis, int) or not -order <= axis < order):
        shapes.fail(node, f"`{shapes.text(node)}`: {shapes.shape_of(node.args[0])}, and has no axis {axis}")
    node.plan = axis
    return SCALAR


def _build_counted(node: Node, args: list[Expr]) -> Expr:
    shape = args[0].shape
    return construct.size_number(sz.product(shape) if node.plan is None else shape[node.plan])


def _refuse_arange(shapes: Shapes, node: Node) -> Type:
    shapes.fail(node, f"arange gives places, as in x[2*arange(m)]: {SHAPES['arange'].usage}")


SHAPES.add("size(x), or size(A, 0) along an axis", _counted, _build_counted, 1, 2, literal=1)
SHAPES.add("arange(m), in an index: x[2*arange(m) + 1]", _refuse_arange, lambda node, args: args[0], literal=0)
SHAPES.add("tril(A)", _square, lambda node, args: _lower_part(args[0]))
SHAPES.add("triu(A)", _square, lambda node, args: _upper_part(args[0]))


# Axes in another order, more axes, fewer axes


def _listed(node: Node) -> list[Any]:
    """The literals of a call, given one by one or as a list."""
    given = positional(node)
    return given[0] if len(given) == 1 and isinstance(given[0], list) else given


def _permutation(shapes: Shapes, node: Node) -> Type:
    order = typed(node.args[0]).order
    axes = _listed(node) or list(range(order))[::-1]
    whole = all(isinstance(k, int) for k in axes)
    if not whole or sorted(k + order if k < 0 else k for k in axes) != list(range(order)):
        hint = f"so give {order} axes, each of 0 to {order - 1} once"
        shapes.fail(node, f"`{shapes.text(node)}`: {shapes.shape_of(node.args[0])}, {hint}")
    node.plan = [k % order for k in axes]
    return Type(tuple(typed(node.args[0]).axes[k] for k in node.plan))


def _reshaped(shapes: Shapes, node: Node) -> Type:
    given = node.plan = _listed(node)
    sizes = all(is_size(n) and (not isinstance(n, int) or n >= 1 or n == -1) for n in given)
    if not given or not sizes or given.count(-1) > 1:
        shapes.fail(node, f"sizes are names or positive numbers, one may be -1: {SHAPES['reshape'].usage}")
    axes: list[Term] = list(given)
    if -1 in given:
        rest = [n for n in given if n != -1]
        shape = typed(node.args[0]).axes
        axes[given.index(-1)] = shapes.sizes.derive(node, lambda *sizes: _rest(sizes, rest), *shape)
    return Type(tuple(axes))


def _rest(sizes: Shape, others: list[Size]) -> Size:
    """The size that -1 stands for."""
    result = indexing.reshape(arrays.ones(*sizes), [*others, -1])
    return result.shape[-1]


def _vec(shapes: Shapes, node: Node) -> Type:
    return Type((shapes.sizes.derive(node, lambda *sizes: sz.product(sizes), *typed(node.args[0]).axes),))


def _kron(shapes: Shapes, node: Node) -> Type:
    return shapes.kron(node, typed(node.args[0]), typed(node.args[1]))


def _outer(shapes: Shapes, node: Node) -> Type:
    return Type(typed(node.args[0]).axes + typed(node.args[1]).axes)


def _inner(shapes: Shapes, node: Node) -> Type:
    a, b = (typed(arg).axes for arg in node.args)  # rows and columns are alike here
    if len(a) != len(b) or not shapes.unite(a, b, node):
        shapes.fail_together(node, node.args, "the shapes must be equal")
    return SCALAR


SHAPES.add(
    "transpose(A), or transpose(T, 2, 0, 1) with the order of axes", _permutation,
    lambda node, args: arrays.transpose(args[0], node.plan), 1, 1 + LARGEST_ORDER, literal=1,
)  # fmt: skip
SHAPES.add(
    "reshape(X, m, n), row-major", _reshaped, lambda node, args: indexing.reshape(args[0], node.plan),
    2, 1 + LARGEST_ORDER, literal=1,
)  # fmt: skip
SHAPES.add("vec(X), the columns one below the other", _vec, lambda node, args: indexing.vec(args[0]))
SHAPES.add("kron(A, B)", _kron, lambda node, args: indexing.kron(*args), 2)
SHAPES.add("outer(x, y)", _outer, lambda node, args: arrays.outer(*args), 2)


def _dot(shapes: Shapes, node: Node) -> Type:
    """NumPy's dot: the inner product of vectors, else the matrix product."""
    a, b = (typed(arg).axes for arg in node.args)
    if not (a and b and len(a) < 3 and len(b) < 3) or not shapes.sizes.unite(a[-1], b[0], node):
        shapes.fail_together(node, node.args, "dot multiplies vectors and matrices whose sizes fit")
    return Type((*a[:-1], *b[1:]))


SHAPES.add("dot(x, y)", _dot, lambda node, args: arrays.matmul(*args), 2)
SHAPES.add("inner(X, Y)", _inner, lambda node, args: arrays.inner(*args), 2)


# Joining


def _joined_axis(shapes: Shapes, node: Node, order: int) -> int:
    axis = named(node, "axis", 0)
    if not isinstance(axis, int) or not -order <= axis < order:
        shapes.fail(
            node, f"`{shapes.text(node)}`: {shapes.shape_of(node.args[0])}; the axis is one of 0 to {order - 1}"
        )
    return axis % order


def _operands(node: Node) -> list[Node]:
    return [arg for arg in node.args if arg.kind != "keyword"]


def _concatenated(shapes: Shapes, node: Node) -> Type:
    first, *others = _operands(node)
    axes = typed(first).axes
    if not axes:
        shape = shapes.shape_of(first)
        shapes.fail(node, f"`{shapes.text(node)}`: {shape}; scalars are joined with stack(a, b)")
    at = node.plan = _joined_axis(shapes, node, len(axes))
    for other in others:
        theirs = typed(other).axes
        beside = (axes[:at] + axes[at + 1 :], theirs[:at] + theirs[at + 1 :])
        if len(theirs) != len(axes) or not shapes.unite(*beside, node):
            shapes.fail_together(node, [first, other], f"all sizes but those of axis {at} must be equal")
    total = shapes.sizes.derive(node, _total, *(typed(arg).axes[at] for arg in (first, *others)))
    return Type((*axes[:at], total, *axes[at + 1 :]))


def _total(*sizes: Size) -> Size:
    total: Size = 0
    for size in sizes:
        total = sz.add(total, size)
        if len(str(total)) > 2000:
            raise EindiffError("the size of this is too long a formula", "sizes")
    return total


def _stacked(shapes: Shapes, node: Node) -> Type:
    first, *others = _operands(node)
    axes = typed(first).axes
    for other in others:
        theirs = typed(other).axes
        if len(theirs) != len(axes) or not shapes.unite(axes, theirs, node):
            shapes.fail_together(node, [first, other], "the shapes must be equal")
    node.plan = _joined_axis(shapes, node, len(axes) + 1)
    return Type((*axes[: node.plan], 1 + len(others), *axes[node.plan :]))


SHAPES.add(
    "concatenate(a, b), or concatenate(A, B, axis=1)", _concatenated,
    lambda node, args: indexing.concatenate(args, node.plan), 1, 10_000, keywords=("axis",),
)  # fmt: skip
SHAPES.add(
    "stack(a, b), or stack(a, b, axis=1)", _stacked, lambda node, args: indexing.stack(args, node.plan), 1, 10_000,
    keywords=("axis",),
)  # fmt: skip
