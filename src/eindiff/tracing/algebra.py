"""Sums, products, choices and linear algebra with NumPy's arguments, for expressions: rows of `shapes.FUNCTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import matrices as matrix_functions
from eindiff.functions import multilinear as arrays
from eindiff.functions.multilinear import Operand, as_expr, multiply, short
from eindiff.tracing.shapes import (
    FUNCTIONS,
    axis_list,
    broadcast_to,
    kept,
    known,
    moveaxis,
    named,
    pad,
    ravel,
    swapaxes,
)

# Sums and other reductions


Reduce = Callable[[Expr, list[int]], Expr]


def reduction(reduce: Reduce, operation: str = "a reduction", along: int | None = None) -> Callable[..., Expr]:
    """A reduction with the arguments that NumPy's have; if no axis is given, it is `along` one, or along all."""

    def reduced(a: Operand, axis: Any = along, keepdims: bool = False) -> Expr:
        a = as_expr(a)
        axes = axis_list(operation, a, axis)
        return kept(reduce(a, axes), axes, keepdims)

    return reduced


FUNCTIONS["sum"] = reduction(arrays.sum)
FUNCTIONS["mean"] = reduction(arrays.mean)
FUNCTIONS["prod"] = reduction(reductions.prod)
FUNCTIONS["max"] = FUNCTIONS["amax"] = reduction(reductions.max)
FUNCTIONS["min"] = FUNCTIONS["amin"] = reduction(reductions.min)
FUNCTIONS["ptp"] = reduction(lambda a, axes: reductions.max(a, axes) - reductions.min(a, axes))


@named("var")
def var(a: Operand, axis: Any = None, ddof: float = 0, keepdims: bool = False, correction: float | None = None) -> Expr:
    """The mean of squared deviations; `n - ddof` is what their sum is divided by."""
    a = as_expr(a)
    axes = axis_list("var", a, axis)
    away = a - kept(arrays.mean(a, axes), axes, True)
    count = construct.size_number(sz.product(a.shape[k] for k in axes))
    total = arrays.sum(multiply(away, away), axes)
    return kept(arrays.divide(total, count - (ddof if correction is None else correction)), axes, keepdims)


FUNCTIONS["std"] = lambda a, axis=None, ddof=0, keepdims=False, correction=None: functions.sqrt(
    var(a, axis, ddof, keepdims, correction)
)
FUNCTIONS["count_nonzero"] = lambda a, axis=None, keepdims=False: FUNCTIONS["sum"](
    functions.where(a, 1, 0), axis, keepdims
)


@named("average")
def average(a: Operand, axis: Any = None, weights: Any = None, keepdims: bool = False) -> Expr:
    """The mean with weights, in the shape of `a` or of the one axis."""
    a = as_expr(a)
    axes = axis_list("average", a, axis)
    if weights is None:
        return kept(arrays.mean(a, axes), axes, keepdims)
    weights = as_expr(weights)
    if weights.shape != a.shape and weights.ndim == len(axes) == 1:
        weights = weights[(slice(None),) + (None,) * (a.ndim - 1 - axes[0])]
    [weights, _] = arrays.broadcast("average", [weights, a])
    return kept(arrays.divide(arrays.sum(multiply(a, weights), axes), arrays.sum(weights, axes)), axes, keepdims)


@named("cumsum")
def cumsum(a: Operand, axis: int | None = None) -> Expr:
    """Running sums along an axis; of all entries in order if none is given."""
    return arrays.cumsum(ravel(a), 0) if axis is None else arrays.cumsum(a, index(axis))


@named("diff")
def diff(a: Operand, n: int = 1, axis: int = -1) -> Expr:
    """Differences of neighbours along an axis, n times."""
    a = as_expr(a)
    [axis] = axis_list("diff", a, axis)
    lead = (slice(None),) * axis
    for _ in range(n):
        a = a[(*lead, slice(1, None))] - a[(*lead, slice(None, -1))]
    return a


@named("trapezoid")
def trapezoid(y: Operand, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Expr:
    """The integral along an axis by trapezoids."""
    y = arrays.moveaxis(y, index(axis), -1)
    steps = dx if x is None else diff(x)
    return arrays.sum(multiply(steps, (y[..., 1:] + y[..., :-1]) / 2), -1)


# Products


@named("dot")
def dot(a: Operand, b: Operand) -> Expr:
    """The product over the last axis of `a` and the last but one of `b`; with a scalar the plain product."""
    a, b = as_expr(a), as_expr(b)
    return tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)])) if a.ndim and b.ndim else multiply(a, b)


@named("inner")
def inner(a: Operand, b: Operand) -> Expr:
    """The product over the last axes."""
    a, b = as_expr(a), as_expr(b)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1])) if a.ndim and b.ndim else multiply(a, b)


@named("vdot")
def vdot(a: Operand, b: Operand) -> Expr:
    """The product over all axes."""
    a, b = as_expr(a), as_expr(b)
    return arrays.inner(a, b) if a.shape == b.shape else arrays.matmul(ravel(a), ravel(b))


FUNCTIONS["outer"] = FUNCTIONS["linalg.outer"] = lambda a, b: arrays.outer(ravel(a), ravel(b))


@named("tensordot", "linalg.tensordot")
def tensordot(a: Operand, b: Operand, axes: Any = 2) -> Expr:
    """The product over some axes of each: the last of `a` and the first of `b` if a number is given."""
    a, b = as_expr(a), as_expr(b)
    if np.ndim(axes) == 0:
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    left, right = axis_list("tensordot", a, axes[0]), axis_list("tensordot", b, axes[1])
    if [a.shape[k] for k in left] != [b.shape[k] for k in right]:
        raise EindiffError(
            f"tensordot: axes {left} of {short(a)} ({shape_text(a.shape)}) do not fit "
            f"axes {right} of {short(b)} ({shape_text(b.shape)})",
            "shapes",
        )
    own = tuple(range(a.ndim))
    other = tuple([left[right.index(k)] if k in right else a.ndim + k for k in range(b.ndim)])
    output = tuple([k for k in own if k not in left] + [k for k in other if k >= a.ndim])
    sizes = dict(zip(own + other, a.shape + b.shape, strict=True))
    return construct.einsum(1, [(a, own), (b, other)], output, sizes)


@named("einsum")
def einsum(spec: Any, *operands: Operand, optimize: Any = False) -> Expr:
    """Einstein's notation; the order of contraction is chosen by the planner."""
    if not isinstance(spec, str):
        raise EindiffError("einsum: write the labels as text, for instance np.einsum('ij,j->i', A, x)", "options")
    return arrays.einsum(spec, *operands)


@named("cross", "linalg.cross")
def cross(a: Operand, b: Operand, axis: int = -1) -> Expr:
    """The vector product along an axis of size 3."""
    a, b = (arrays.moveaxis(x, index(axis), -1) for x in (a, b))
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise EindiffError(f"cross needs vectors of length 3, not {a.shape[-1]} and {b.shape[-1]}", "shapes")
    one, two = [1, 2, 0], [2, 0, 1]
    return arrays.moveaxis(a[..., one] * b[..., two] - a[..., two] * b[..., one], -1, index(axis))


@named("convolve")
def convolve(a: Operand, v: Operand, mode: str = "full") -> Expr:
    """The convolution of two vectors: windows of the longer one, times the shorter one backwards."""
    a, v = as_expr(a), as_expr(v)
    n, k = *known("convolve", a), *known("convolve", v)
    if n < k:
        return convolve(v, a, mode)
    first = {"full": 0, "same": (k - 1) // 2, "valid": k - 1}
    if mode not in first:
        raise EindiffError(f"convolve: mode {mode!r} is none of {', '.join(first)}", "options")
    count = {"full": n + k - 1, "same": n, "valid": n - k + 1}[mode]
    windows = pad(a, k - 1)[first[mode] + np.arange(count)[:, None] + np.arange(k)]
    return windows @ v[::-1]


@named("kron")
def kron(a: Operand, b: Operand) -> Expr:
    """The Kronecker product of two arrays; that with fewer axes has some of length 1 in front."""
    exprs = [as_expr(a), as_expr(b)]
    order = max(x.ndim for x in exprs)
    return indexing.kron(*[x[(*[None] * (order - x.ndim), ...)] for x in exprs])


FUNCTIONS["linalg.matmul"] = arrays.matmul


@named("linalg.vecdot")
def vecdot(a: Operand, b: Operand, axis: int = -1) -> Expr:
    """The inner product of vectors along an axis."""
    return arrays.sum(multiply(a, b), index(axis))


# Choices, and arrays like another


@named("where")
def where(condition: Operand, x: Any = None, y: Any = None) -> Expr:
    """Entries of `x` where the condition holds, else of `y`."""
    if x is None or y is None:
        raise EindiffError(
            "np.where(condition) finds places, which depend on values: give np.where(condition, a, b)", "tracing"
        )
    return functions.where(condition, x, y)


@named("clip")
def clip(a: Operand, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None) -> Expr:
    """Entries no smaller and no larger than bounds; at a bound the derivative is shared evenly."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    a = as_expr(a) if low is None else functions.maximum(a, low)
    return a if high is None else functions.minimum(a, high)


@named("sinc")
def sinc(x: Operand) -> Expr:
    """sin(pi x) / (pi x), and 1 at 0, where its derivatives are taken as 0."""
    x = as_expr(x)
    nonzero = functions.where(x, np.pi * x, 1)
    return functions.where(x, functions.sin(nonzero) / nonzero, 1)


FUNCTIONS["fix"] = functions.trunc
FUNCTIONS["round"] = FUNCTIONS["around"] = lambda a, decimals=0: multiply(
    10.0**-decimals, functions.rint(multiply(10.0**decimals, a))
)


@named("polyval")
def polyval(p: Operand, x: Operand) -> Expr:
    """A polynomial with the highest coefficient first, by Horner's rule."""
    result = as_expr(0)
    for coefficient in p:
        result = arrays.add(multiply(result, x), coefficient)
    return result


@named("linspace")
def linspace(start: Operand, stop: Operand, num: int = 50, endpoint: bool = True) -> Expr:
    """Numbers evenly spaced between two ends, along a new first axis."""
    start, stop = arrays.broadcast("linspace", [as_expr(start), as_expr(stop)])
    places = np.linspace(0.0, 1.0, num, endpoint).reshape(num, *[1] * start.ndim)
    return start + multiply(places, stop - start)


def _like(a: Operand, shape: Any) -> Any:
    """The shape of an array, or another one; its type is that of real numbers."""
    return as_expr(a).shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)


FUNCTIONS["zeros_like"] = FUNCTIONS["empty_like"] = lambda a, dtype=None, *, shape=None: arrays.zeros(*_like(a, shape))
FUNCTIONS["ones_like"] = lambda a, dtype=None, *, shape=None: arrays.ones(*_like(a, shape))
FUNCTIONS["full_like"] = lambda a, fill_value, dtype=None, *, shape=None: broadcast_to(fill_value, _like(a, shape))
FUNCTIONS["copy"] = FUNCTIONS["real"] = as_expr
FUNCTIONS["imag"] = FUNCTIONS["zeros_like"]
FUNCTIONS["shape"] = lambda a: as_expr(a).shape
FUNCTIONS["ndim"] = lambda a: as_expr(a).ndim
FUNCTIONS["size"] = lambda a, axis=None: sz.product(as_expr(a).shape[k] for k in axis_list("size", as_expr(a), axis))
FUNCTIONS["iscomplexobj"] = lambda a: False
FUNCTIONS["isrealobj"] = lambda a: True
FUNCTIONS["result_type"] = lambda *operands: np.dtype(float)


# Linear algebra


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Expr
    logabsdet: Expr


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors, as columns."""

    eigenvalues: Expr
    eigenvectors: Expr


class SVDResult(NamedTuple):
    """A = U diag(S) Vh."""

    U: Expr
    S: Expr
    Vh: Expr


FUNCTIONS["linalg.inv"] = matrix_functions.inv
FUNCTIONS["linalg.det"] = matrix_functions.det
FUNCTIONS["linalg.solve"] = matrix_functions.solve
FUNCTIONS["linalg.eigvalsh"] = matrix_functions.eigvals
FUNCTIONS["linalg.svdvals"] = matrix_functions.svdvals
FUNCTIONS["linalg.pinv"] = matrix_functions.pinv
FUNCTIONS["linalg.eigh"] = lambda a: EighResult(matrix_functions.eigvals(a), matrix_functions.eigvecs(a))
FUNCTIONS["linalg.matrix_power"] = lambda a, n: matrix_functions.matrix_power(a, index(n))


@named("linalg.slogdet")
def slogdet(a: Operand) -> SlogdetResult:
    """Sign and logarithm of a determinant, which has to be positive: where it is not, both are not a number."""
    logarithm = matrix_functions.logdet(a)
    return SlogdetResult(functions.exp(0 * logarithm), logarithm)


@named("linalg.cholesky")
def cholesky(a: Operand, upper: bool = False) -> Expr:
    """The Cholesky factor of a positive definite matrix."""
    factor = matrix_functions.chol(a)
    return swapaxes(factor, -1, -2) if upper else factor


@named("linalg.svd")
def svd(a: Operand, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values and vectors; those that belong to no singular value have no derivative."""
    a = as_expr(a)
    if not compute_uv:
        return matrix_functions.svdvals(a)
    if full_matrices and a.shape[-1:] != a.shape[-2:-1]:
        raise EindiffError(f"svd: {short(a)} has shape {shape_text(a.shape)}: give full_matrices=False", "shapes")
    right = swapaxes(matrix_functions.svdright(a), -1, -2)
    return SVDResult(matrix_functions.svdleft(a), matrix_functions.svdvals(a), right)


@named("linalg.multi_dot")
def multi_dot(operands: Sequence[Operand]) -> Expr:
    """The product of matrices; the order of multiplication is chosen by the planner."""
    result = as_expr(operands[0])
    for other in operands[1:]:
        result = result @ as_expr(other)
    return result


@named("linalg.vector_norm")
def vector_norm(x: Operand, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Expr:
    """The norm along axes, whose entries are one vector."""
    return reduction(lambda a, axes: _norm_of_vectors(a, ord, axes), "norm")(x, axis, keepdims)


def _norm_of_vectors(x: Expr, order: Any, axes: list[int]) -> Expr:
    if order in (None, 2):
        return reductions.norm2(x, axes)
    if order == 1:
        return reductions.norm1(x, axes)
    if order in (np.inf, -np.inf):
        return (reductions.max if order > 0 else reductions.min)(functions.abs(x), axes)
    if isinstance(order, int | float) and order != 0:
        return functions.power(arrays.sum(functions.power(functions.abs(x), order), axes), 1 / order)
    raise EindiffError(f"norm: order {order!r} of vectors has no derivative", "options")


_MATRIX_NORMS: dict[Any, Callable[[Expr], Expr]] = {
    None: lambda a: reductions.norm2(a, (-2, -1)),
    "fro": lambda a: reductions.norm2(a, (-2, -1)),
    "nuc": matrix_functions.normnuc,
    2: matrix_functions.normspec,
    -2: lambda a: reductions.min(matrix_functions.svdvals(a), -1),
    1: lambda a: reductions.max(reductions.norm1(a, -2), -1),
    np.inf: lambda a: reductions.max(reductions.norm1(a, -1), -1),
}


@named("linalg.norm")
def norm(x: Operand, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Expr:
    """The norm of vectors (one axis), or of matrices (two axes)."""
    x = as_expr(x)
    axes = axis_list("norm", x, axis)
    if len(axes) == 1 or (ord is None and axis is None):
        return vector_norm(x, axis, keepdims, ord)
    if len(axes) != 2 or ord not in _MATRIX_NORMS:
        raise EindiffError(f"norm: order {ord!r} of {short(x)} along axes {axes}", "shapes")
    return kept(_MATRIX_NORMS[ord](moveaxis(x, axes, (-2, -1))), axes, keepdims)


FUNCTIONS["linalg.matrix_norm"] = lambda x, keepdims=False, ord="fro": norm(x, ord, (-2, -1), keepdims)
