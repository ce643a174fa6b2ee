"""The table of PyTorch's operations (ATen): one plain function an operation, from expressions to an expression.

A row takes the arguments of the operation: tensors as expressions, all else as it is. Arguments at the places in
`known` are indices, which are tensors of known values, or expressions where a row takes these. What has no row here is
taken apart by PyTorch's own decompositions, or is opaque. Names are those of ATen without the overload
(`sum.dim_IntList` is `sum`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import multilinear as arrays
from eindiff.functions.elementwise import equal, greater
from eindiff.functions.multilinear import as_expr
from eindiff.functions.table import NAMES, Vocabulary
from eindiff.tracing.algebra import var
from eindiff.tracing.composed import COMPOSED, fmod, not_equal
from eindiff.tracing.shapes import broadcast_to, kept
from eindiff.tracing.unsupported import Unsupported

Axes = int | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class AtenRow:
    """How an operation is written as an expression."""

    function: Callable[..., Any]
    known: tuple[int, ...] = ()  # the places of arguments whose values have to be known: indices
    takes_given: bool = False  # whether these may be expressions, whose values come at the call


class UnfitIndicesError(Exception):
    """Indices that come at the call, and are not those of an axis, or not in a form that programs have."""


def _by_row(function: Function) -> AtenRow | None:
    """An elementwise function as its row in the table of functions says; other arguments of PyTorch say nothing."""
    public, count = function.public, len(function.derivatives)
    return None if public is None else AtenRow(lambda *args, **_: public(*args[:count]))


ATEN: Vocabulary[AtenRow] = Vocabulary({}, NAMES["torch"], _by_row)


def op(*names: str, known: tuple[int, ...] = (), takes_given: bool = False) -> Callable[[Callable], Callable]:
    """Add a function to the table, under some names."""

    def add(function: Callable) -> Callable:
        ATEN.update(dict.fromkeys(names, AtenRow(function, known, takes_given)))
        return function

    return add


def ops(rows: Mapping[str, Callable[..., Any]]) -> None:
    """Add functions to the table, each under some names; arguments that only PyTorch names say nothing here."""
    for names, function in rows.items():
        op(*names.split())(function)


# What is composed of others as NumPy's functions are
ops({
    names: partial(lambda function, *args, **_: function(*args), COMPOSED[name])
    for names, name in {
        "mul multiply logical_and bitwise_and": "multiply", "pow float_power": "power", "minimum fmin": "minimum",
        "neg": "negative", "reciprocal": "reciprocal", "sqrt": "sqrt", "square": "square", "hypot": "hypot",
        "exp2": "exp2", "log2": "log2", "log10": "log10", "deg2rad": "deg2rad", "rad2deg": "rad2deg",
        "logaddexp": "logaddexp", "xlogy special_xlogy": "xlogy", "floor_divide": "floor_divide",
        "remainder": "remainder", "lt": "less", "ge": "greater_equal", "le": "less_equal", "eq": "equal",
        "ne logical_xor bitwise_xor": "not_equal", "mm bmm matmul mv": "matmul",
    }.items()
})  # fmt: skip

# Axes


def axes_of(x: Expr, dim: Axes) -> list[int]:
    """Axes from 0 on; none given (or an empty list) means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.ndim))
    return [k % x.ndim if x.ndim else 0 for k in ([dim] if isinstance(dim, int) else dim)] if x.ndim else []


def reduced(function: Callable[[Expr, list[int]], Expr]) -> Callable:
    """A row from a function over axes."""

    def row(x: Expr, dim: Axes = None, keepdim: bool = False, **_: Any) -> Expr:
        axes = axes_of(x, dim)
        return kept(function(x, axes), axes, keepdim) if axes else function(x[None], [0])

    return row


# Entry by entry


def _unary(function: Callable[[Expr], Expr]) -> Callable:
    return lambda x, *_, **__: function(x)


ops({names: _unary(function) for names, function in {
    "frac": lambda x: x - functions.trunc(x),
    "hardsigmoid": lambda x: between(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * between(x / 6 + 0.5, 0, 1),
    "isinf": lambda x: greater(functions.abs(x), 1.7976931348623157e308),
    "logical_not": lambda x: equal(x, 0),
    "bitwise_not": lambda x: 1 - x,
    "mish": lambda x: x * functions.tanh(functions.softplus(x)),
    "relu6": lambda x: between(x, 0, 6),
    "rsqrt": lambda x: functions.power(x, -0.5),
    "silu": lambda x: x * functions.sigmoid(x),
}.items()})  # fmt: skip

# Copies, casts and views of a tensor as it is; casts to integers are made before.
CASTS = ("_to", "_to_copy", "convert_element_type")
_COPIES = ("clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "lift", "contiguous", "view_of", "positive")
op(*CASTS, *_COPIES, "_conj", "conj", "resolve_conj", "resolve_neg", "real")(_unary(lambda x: x))


def between(x: Expr, low: float, high: float) -> Expr:
    """x cut off at both ends, where its derivative is 0."""
    return functions.where(x > low, functions.where(x < high, x, high), low)


# Arithmetic


def _divided(a: Any, b: Any, rounding_mode: str | None = None) -> Expr:
    if rounding_mode is not None:
        raise Unsupported
    return arrays.divide(as_expr(a), b)


@op("clamp", "clip")
def _clamp(x: Expr, low: Any = None, high: Any = None, **names: Any) -> Expr:
    """Cut off at both ends, with derivative 1 at the ends themselves, as PyTorch has it."""
    low, high = names.get("min", low), names.get("max", high)
    if low is not None:
        x = functions.where(greater(low, x), low, x)
    return x if high is None else functions.where(greater(x, high), high, x)


ops({
    "add": lambda a, b, alpha=1: arrays.add(a, b if alpha == 1 else arrays.multiply(alpha, b)),
    "sub subtract": lambda a, b, alpha=1: arrays.subtract(a, b if alpha == 1 else arrays.multiply(alpha, b)),
    "rsub": lambda a, b, alpha=1: arrays.subtract(b, a if alpha == 1 else arrays.multiply(alpha, a)),
    "div true_divide divide": _divided,
    "addcmul": lambda x, a, b, value=1: arrays.add(x, arrays.multiply(value, a, b)),
    "addcdiv": lambda x, a, b, value=1: arrays.add(x, arrays.multiply(value, arrays.divide(a, b))),
    "lerp": lambda a, b, weight: arrays.add(a, arrays.multiply(weight, arrays.subtract(b, a))),
    "clamp_min": lambda x, low: _clamp(x, low),
    "clamp_max": lambda x, high: _clamp(x, None, high),
    "logical_or bitwise_or": lambda a, b: 1 - arrays.multiply(equal(a, 0), equal(b, 0)),
    "fmod": fmod,
    "round": lambda x, decimals=0: functions.rint(x * 10**decimals) / 10**decimals,
    "masked_fill": lambda x, mask, value: broadcast_to(functions.where(mask, value, x), x.shape),
})

# Reductions


_sum = op("sum", "nansum")(reduced(arrays.sum))
_mean = op("mean")(reduced(arrays.mean))
_amax = op("amax")(reduced(reductions.max))
_amin = op("amin")(reduced(reductions.min))
op("prod")(reduced(reductions.prod))
op("logsumexp")(reduced(reductions.logsumexp))


def _extremum(function: Callable[..., Expr]) -> Callable:
    """The largest entry of all, or along an axis: then with its place, which has no derivative and no expression."""

    def row(x: Expr, dim: int | None = None, keepdim: bool = False) -> Any:
        return function(x) if dim is None else (function(x, dim, keepdim), None)

    return row


op("max")(_extremum(_amax))
op("min")(_extremum(_amin))


@op("var")
def _var(x: Expr, dim: Axes = None, correction: Any = 1, keepdim: bool = False, unbiased: bool = True) -> Expr:
    return var(x, axes_of(x, dim), 1 if correction is None else correction, keepdim)


ops({
    "var_mean": lambda x, dim=None, correction=1, keepdim=False: (
        _var(x, dim, correction, keepdim), _mean(x, dim, keepdim)
    ),
    "std": lambda x, dim=None, correction=1, keepdim=False: functions.sqrt(_var(x, dim, correction, keepdim)),
    "any": lambda x, dim=None, keepdim=False: greater(_sum(not_equal(x, 0), dim, keepdim), 0),
    "all": lambda x, dim=None, keepdim=False: 1 - greater(_sum(equal(x, 0), dim, keepdim), 0),
    "cumsum": lambda x, dim, **_: arrays.cumsum(x, dim) if x.ndim else x,
})  # fmt: skip


@op("linalg_vector_norm", "norm")
def _vector_norm(x: Expr, ord: Any = 2, dim: Axes = None, keepdim: bool = False, **_: Any) -> Expr:
    ord = 2 if ord is None else ord
    if ord == 2:
        return functions.sqrt(_sum(x * x, dim, keepdim))
    size = functions.abs(x)
    if ord in (inf, -inf):
        return (_amax if ord > 0 else _amin)(size, dim, keepdim)
    if ord == 0:
        return _sum(not_equal(x, 0), dim, keepdim)
    total = _sum(size if ord == 1 else functions.power(size, ord), dim, keepdim)
    return total if ord == 1 else functions.power(total, 1 / ord)


def _running(function: Callable[[Expr, int], Expr]) -> Callable:
    """A running reduction: one of each length."""

    def row(x: Expr, dim: int, **_: Any) -> Expr:
        axis = dim % x.ndim
        count = int(x.shape[axis])
        if count > 32:
            raise Unsupported
        parts = [function(x[(slice(None),) * axis + (slice(0, k + 1),)], axis) for k in range(count)]
        return indexing.stack(parts, axis)

    return row


op("cumprod")(_running(lambda x, axis: reductions.prod(x, axis)))
op("logcumsumexp")(_running(lambda x, axis: reductions.logsumexp(x, axis)))

# Products


@op("addmm", "addmv", "baddbmm")
def _addmm(x: Expr, a: Expr, b: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    product = arrays.matmul(a, b)
    return arrays.add(x if beta == 1 else beta * x, product if alpha == 1 else alpha * product)


ops({
    "dot vdot inner": lambda a, b: arrays.einsum("...i,...i->...", a, b),
    "addbmm": lambda x, a, b, beta=1, alpha=1: beta * x + alpha * arrays.sum(arrays.matmul(a, b), 0),
    "addr": lambda x, a, b, beta=1, alpha=1: beta * x + alpha * arrays.outer(a, b),
    "linear": lambda x, weight, bias=None: arrays.einsum("...j,ij->...i", x, weight) + (0 if bias is None else bias),
})


@op("_trilinear")
def _trilinear(
    a: Expr, b: Expr, c: Expr, new_a: Sequence[int], new_b: Sequence[int], new_c: Sequence[int], gone: Sequence[int],
    _: int = 1,
) -> Expr:  # fmt: skip
    """The product of three tensors with new axes, summed over some."""
    grown = [kept(x, axes, True) for x, axes in ((a, new_a), (b, new_b), (c, new_c))]
    return arrays.sum(arrays.multiply(*grown), list(gone))


# Tensors whose values are known from the shape of another


def _filled(value: int) -> Callable[..., Expr]:
    """A tensor of one number, in the shape of another one or in a given shape."""
    return lambda x, shape=None, *_, **__: construct.filled(value, x.shape if shape is None else tuple(shape))


op("zeros_like", "empty_like", "new_zeros", "new_empty", "new_empty_strided")(_filled(0))
op("ones_like", "new_ones")(_filled(1))
ops({
    "full_like fill copy": lambda x, value, *_, **__: broadcast_to(value, x.shape),
    "new_full": lambda x, shape, value, **_: construct.filled(value, tuple(shape)),
})
