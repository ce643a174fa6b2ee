"""Functions that change shapes, for expressions: one row each, under the name that it has in `numpy`.

A row takes the arguments that NumPy's function takes; what it has no parameter for is refused by name. JAX and PyTorch
have the same functions with other arguments, so their tables name these here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import index
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import Lower
from eindiff.core.nodes import Expr
from eindiff.functions import indexing as ix
from eindiff.functions import multilinear as arrays
from eindiff.functions.multilinear import Operand, as_expr, axes_of, multiply, short

Rows = dict[str, Callable[..., Any]]
FUNCTIONS: Rows = {}


def adding_to(table: Rows) -> Callable[..., Callable[[Callable], Callable]]:
    """A decorator that adds functions to a table, under the names that it is given."""

    def named(*names: str) -> Callable[[Callable], Callable]:
        def add(function: Callable) -> Callable:
            table.update(dict.fromkeys(names, function))
            return function

        return add

    return named


named = adding_to(FUNCTIONS)


def axis_list(operation: str, a: Expr, axis: Any) -> list[int]:
    """Axes from 0 on; NumPy's integers count as integers."""
    return axes_of(operation, a, axis if axis is None else tuple([index(k) for k in np.atleast_1d(axis)]))


def known(operation: str, a: Expr) -> tuple[int, ...]:
    """The shape, if all sizes are numbers."""
    if not all(isinstance(size, int) for size in a.shape):
        raise EindiffError(
            f"{operation}: {short(a)} has shape {shape_text(a.shape)}; its sizes must be numbers here", "sizes"
        )
    return tuple([int(size) for size in a.shape])


def kept(result: Expr, axes: Sequence[int], keepdims: bool) -> Expr:
    """A result with axes of size 1 where the given ones were, if they are to be kept."""
    if not keepdims:
        return result
    rank = result.ndim + len(axes)
    return ix.getitem(result, tuple([None if k in axes else slice(None) for k in range(rank)]))


def _as_shape(shape: Any) -> tuple[Any, ...]:
    """A shape as a tuple: one size, which may be a name, is that of a vector."""
    return tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)


# Axes and shapes


@named("transpose")
def transpose(a: Operand, axes: Any = None) -> Expr:
    """Axes in another order."""
    return arrays.transpose(a, None if axes is None else [index(k) for k in axes])


@named("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(a: Operand) -> Expr:
    """The last two axes exchanged."""
    return swapaxes(a, -1, -2)


@named("swapaxes")
def swapaxes(a: Operand, axis1: int, axis2: int) -> Expr:
    """Two axes exchanged."""
    a = as_expr(a)
    order = list(range(a.ndim))
    [one], [two] = axis_list("swapaxes", a, axis1), axis_list("swapaxes", a, axis2)
    order[one], order[two] = two, one
    return arrays.transpose(a, order)


@named("moveaxis")
def moveaxis(a: Operand, source: Any, destination: Any) -> Expr:
    """Axes moved to other places."""
    a = as_expr(a)
    moved = dict(zip(axis_list("moveaxis", a, destination), axis_list("moveaxis", a, source), strict=True))
    rest = iter([k for k in range(a.ndim) if k not in moved.values()])
    return arrays.transpose(a, [moved[k] if k in moved else next(rest) for k in range(a.ndim)])


@named("rollaxis")
def rollaxis(a: Operand, axis: int, start: int = 0) -> Expr:
    """An axis moved before another one."""
    a = as_expr(a)
    [axis], start = axis_list("rollaxis", a, axis), start % (a.ndim + 1) if start >= 0 else start + a.ndim
    return moveaxis(a, axis, start - (axis < start))


@named("reshape")
def reshape(a: Operand, shape: Any, order: str = "C") -> Expr:
    """The same entries with another shape, in row-major order ("C") or column-major order ("F")."""
    wanted = tuple([size if isinstance(size, str) else index(size) for size in _as_shape(shape)])
    if order == "F":
        return arrays.transpose(ix.reshape(arrays.transpose(a), wanted[::-1]))
    return ix.reshape(a, wanted)


@named("ravel")
def ravel(a: Operand, order: str = "C") -> Expr:
    """All entries as one vector."""
    return reshape(a, (sz.product(as_expr(a).shape),), order)


@named("squeeze")
def squeeze(a: Operand, axis: Any = None) -> Expr:
    """Without axes of size 1: all, or the given ones."""
    a = as_expr(a)
    gone = [k for k, size in enumerate(a.shape) if size == 1] if axis is None else axis_list("squeeze", a, axis)
    if wide := [k for k in gone if a.shape[k] != 1]:
        raise EindiffError(f"squeeze: axis {wide[0]} of {short(a)} has size {a.shape[wide[0]]}, not 1", "shapes")
    return a[tuple([0 if k in gone else slice(None) for k in range(a.ndim)])]


@named("expand_dims")
def expand_dims(a: Operand, axis: Any) -> Expr:
    """With new axes of size 1 at the given places."""
    a = as_expr(a)
    places = [index(k) for k in np.atleast_1d(axis)]
    rank = a.ndim + len(places)
    if not all(-rank <= k < rank for k in places):
        raise EindiffError(f"expand_dims: axis {axis} of {short(a)}, which then has {rank} axes", "shapes")
    return kept(a, [k % rank for k in places], True)


@named("broadcast_to")
def broadcast_to(a: Operand, shape: Any) -> Expr:
    """Repeated along axes so that it has a shape."""
    wanted = _as_shape(shape)
    [result, _] = arrays.broadcast("broadcast_to", [as_expr(a), arrays.ones(*wanted)])
    if result.shape != wanted:
        raise EindiffError(
            f"broadcast_to: {short(as_expr(a))} does not fit into the shape {shape_text(wanted)}", "shapes"
        )
    return result


@named("atleast_1d")
def atleast_1d(*operands: Operand) -> Any:
    """Scalars as vectors of one entry."""
    found = [a if a.ndim else a[None] for a in map(as_expr, operands)]
    return found[0] if len(found) == 1 else tuple(found)


@named("atleast_2d")
def atleast_2d(*operands: Operand) -> Any:
    """Scalars and vectors as matrices of one row."""
    found = [a if a.ndim > 1 else a[(None,) * (2 - a.ndim)] for a in map(as_expr, operands)]
    return found[0] if len(found) == 1 else tuple(found)


# Joining and cutting


@named("concatenate")
def concatenate(operands: Sequence[Operand], axis: int | None = 0) -> Expr:
    """Arrays joined along an axis; all entries of all of them if it is None."""
    if axis is None:
        return ix.concatenate([ravel(a) for a in operands])
    return ix.concatenate(operands, index(axis))


@named("stack")
def stack(operands: Sequence[Operand], axis: int = 0) -> Expr:
    """Arrays of one shape joined along a new axis."""
    return ix.stack(list(operands), index(axis))


@named("hstack")
def hstack(operands: Sequence[Operand]) -> Expr:
    """Arrays side by side."""
    grown = [atleast_1d(a) for a in operands]
    return ix.concatenate(grown, 0 if grown[0].ndim == 1 else 1)


FUNCTIONS |= {
    "vstack": lambda operands: ix.concatenate([atleast_2d(a) for a in operands], 0),
    "column_stack": lambda operands: ix.concatenate(
        [a if a.ndim > 1 else a[:, None] for a in map(atleast_1d, operands)], 1
    ),
    "append": lambda a, values, axis=None: concatenate([a, values], axis),
    "broadcast_arrays": lambda *operands: tuple(arrays.broadcast("broadcast_arrays", list(map(as_expr, operands)))),
}


@named("block")
def block(parts: Any) -> Expr:
    """A matrix from blocks: the innermost lists are joined along the last axis."""

    def depth(part: Any) -> int:
        return 1 + max(depth(x) for x in part) if isinstance(part, list) else 0

    def order(part: Any) -> int:
        return max(order(x) for x in part) if isinstance(part, list) else as_expr(part).ndim

    def joined(part: Any, level: int) -> Expr:
        if isinstance(part, list):
            return ix.concatenate([joined(x, level - 1) for x in part], rank - level)
        part = as_expr(part)
        return part[(None,) * (rank - part.ndim)]

    rank = max(depth(parts), order(parts))
    return joined(parts, depth(parts))


@named("split", "array_split")
def split(a: Operand, indices_or_sections: Any, axis: int = 0) -> list[Expr]:
    """Parts along an axis: a number of them, or between the given places."""
    a = as_expr(a)
    [axis] = axis_list("split", a, axis)
    parts = np.array_split(np.arange(known("split", a)[axis]), indices_or_sections)
    return [along(a, axis, slice(int(part[0]), int(part[-1]) + 1)) for part in parts if len(part)]


def pieces(a: Expr, sizes: Sequence[int], axis: int = 0) -> list[Expr]:
    """Parts of given sizes along an axis."""
    ends = list(accumulate(map(int, sizes)))
    return [along(a, axis, slice(end - int(size), end)) for end, size in zip(ends, sizes, strict=True)]


def along(a: Expr, axis: int, chosen: Any) -> Expr:
    """An index along one axis."""
    return a[(slice(None),) * (axis % a.ndim) + (chosen,)]


@named("take")
def take(a: Operand, indices: Any, axis: int | None = None) -> Expr:
    """The entries at some places along an axis; of all entries in order if none is given."""
    return ix.take(ravel(a), indices, 0) if axis is None else ix.take(a, indices, index(axis))


@named("flip")
def flip(a: Operand, axis: Any = None) -> Expr:
    """Axes backwards: all, or the given ones."""
    a = as_expr(a)
    turned = axis_list("flip", a, axis)
    return a[tuple([slice(None, None, -1) if k in turned else slice(None) for k in range(a.ndim)])]


FUNCTIONS["flipud"] = lambda a: flip(a, 0)
FUNCTIONS["fliplr"] = lambda a: flip(a, 1)


@named("roll")
def roll(a: Operand, shift: Any, axis: Any = None) -> Expr:
    """Entries moved along axes; what falls out at the end comes in at the start."""
    a = as_expr(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = axis_list("roll", a, axis)
    for k, by in zip(axes, np.broadcast_to(shift, len(axes)), strict=True):
        places = np.roll(np.arange(known("roll", a)[k]), by)
        a = ix.take(a, places, k)
    return a


@named("repeat")
def repeat(a: Operand, repeats: Any, axis: int | None = None) -> Expr:
    """Each entry several times, along an axis."""
    a = as_expr(a)
    if axis is None:
        a, axis = ravel(a), 0
    [axis] = axis_list("repeat", a, axis)
    return ix.take(a, np.repeat(np.arange(known("repeat", a)[axis]), repeats), axis)


@named("tile")
def tile(a: Operand, reps: Any) -> Expr:
    """Copies of an array, side by side along each axis: a new axis before each one, merged with it."""
    a, counts = as_expr(a), [index(k) for k in np.atleast_1d(reps)]
    rank = max(a.ndim, len(counts))
    a, counts = a[(None,) * (rank - a.ndim)], [1] * (rank - len(counts)) + counts
    sizes = {2 * k: count for k, count in enumerate(counts)} | {2 * k + 1: size for k, size in enumerate(a.shape)}
    spread = construct.einsum(1, [(a, tuple(range(1, 2 * rank, 2)))], tuple(range(2 * rank)), sizes)
    return ix.reshape(spread, tuple([sz.product(pair) for pair in zip(counts, a.shape, strict=True)]))


@named("pad")
def pad(a: Operand, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Expr:
    """Numbers around an array."""
    a = as_expr(a)
    if mode != "constant" or np.ndim(constant_values):
        raise EindiffError(f"pad: only one constant can be put around {short(a)}, not mode={mode!r}", "options")
    widths = np.broadcast_to(pad_width, (a.ndim, 2)).tolist()
    if constant_values != 0:
        return constant_values + pad(a, widths) - multiply(constant_values, pad(arrays.ones(*a.shape), widths))
    for axis, counts in enumerate(widths):
        shapes = [(*a.shape[:axis], count, *a.shape[axis + 1 :]) for count in counts]
        before, after = ([arrays.zeros(*shape)] if shape[axis] else [] for shape in shapes)
        a = ix.concatenate([*before, a, *after], axis)
    return a


@named("meshgrid")
def meshgrid(*operands: Operand, indexing: str = "xy") -> tuple[Expr, ...]:
    """Vectors as coordinates of a grid."""
    exprs, count = [as_expr(a) for a in operands], len(operands)
    grown = [a[tuple([slice(None) if k == at else None for k in range(count)])] for at, a in enumerate(exprs)]
    grids = arrays.broadcast("meshgrid", grown)
    return tuple([swapaxes(g, 0, 1) for g in grids] if indexing == "xy" and count > 1 else grids)


# Parts of matrices


@named("diagonal")
def diagonal(a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Expr:
    """The entries on a diagonal of two axes, as the last axis."""
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    if offset != 0 or a.shape[-1] != a.shape[-2]:
        m, n = known("diagonal", a)[-2:]
        row, column = max(-offset, 0), max(offset, 0)
        count = max(min(m - row, n - column), 0)
        a = a[..., row : row + count, column : column + count]
    return arrays.einsum("...ii->...i", a)


@named("trace")
def trace(a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Expr:
    """The sum of a diagonal of two axes."""
    return arrays.sum(diagonal(a, offset, axis1, axis2), -1)


FUNCTIONS["linalg.diagonal"] = lambda a, offset=0: diagonal(a, offset, -2, -1)
FUNCTIONS["linalg.trace"] = lambda a, offset=0: trace(a, offset, -2, -1)


@named("diag")
def diag(v: Operand, k: int = 0) -> Expr:
    """The matrix with a vector on a diagonal, or a diagonal of a matrix."""
    v = as_expr(v)
    if v.ndim == 2:
        return diagonal(v, k)
    square = arrays.diag(v)
    return square if k == 0 else pad(square, ((max(-k, 0), max(k, 0)), (max(k, 0), max(-k, 0))))


def _triangle(a: Operand, k: int, lower: bool) -> Expr:
    a = as_expr(a)
    if a.ndim < 2:
        raise EindiffError(f"tril and triu need a matrix; {short(a)} has shape {shape_text(a.shape)}", "shapes")
    m, n = a.shape[-2:]
    if m == n and k in (0, -1 if lower else 1):
        triangle = construct.constant(Lower(n))
        triangle = triangle if lower else construct.transpose(triangle, (1, 0))
        return multiply(a, triangle - arrays.eye(n) if k else triangle)
    m, n = known("tril and triu", a)[-2:]
    return multiply(a, as_expr(np.tri(m, n, k) if lower else 1 - np.tri(m, n, k - 1)))


@named("tril")
def tril(m: Operand, k: int = 0) -> Expr:
    """The entries on and below a diagonal."""
    return _triangle(m, k, True)


@named("triu")
def triu(m: Operand, k: int = 0) -> Expr:
    """The entries on and above a diagonal."""
    return _triangle(m, k, False)
