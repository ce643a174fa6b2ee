"""The table of PyTorch's operations (ATen): one plain function an operation, from expressions to an expression.

A row takes the arguments of the operation: tensors as expressions, all else as it is. Arguments at the places in
`known` are indices, which are tensors of known values. What has no row here is taken apart by PyTorch's own
decompositions, or is opaque. Names are those of ATen without the overload (`sum.dim_IntList` is `sum`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log, pi, prod
from typing import Any

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import multilinear as arrays
from eindiff.functions.elementwise import greater
from eindiff.functions.multilinear import as_expr
from eindiff.functions.table import NAMES, Vocabulary
from eindiff.tracing.unsupported import Unsupported

Axes = int | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class AtenRow:
    """How an operation is written as an expression."""

    function: Callable[..., Any]
    known: tuple[int, ...] = ()  # the places of arguments whose values have to be known: indices


def _by_row(function: Function) -> AtenRow | None:
    """An elementwise function as its row in the table of functions says; other arguments of PyTorch say nothing."""
    public, count = function.public, len(function.derivatives)
    return None if public is None else AtenRow(lambda *args, **_: public(*args[:count]))


ATEN: Vocabulary[AtenRow] = Vocabulary({}, NAMES["torch"], _by_row)


def op(*names: str, known: tuple[int, ...] = ()) -> Callable[[Callable], Callable]:
    """Add a function to the table, under some names."""

    def add(function: Callable) -> Callable:
        ATEN.update(dict.fromkeys(names, AtenRow(function, known)))
        return function

    return add


# Axes


def axes_of(x: Expr, dim: Axes) -> list[int]:
    """Axes from 0 on; none given (or an empty list) means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.ndim))
    return [k % x.ndim if x.ndim else 0 for k in ([dim] if isinstance(dim, int) else dim)] if x.ndim else []


def kept(result: Expr, axes: Sequence[int], keepdim: bool) -> Expr:
    """A reduced tensor with its axes back, of size 1, if they are wanted."""
    for axis in sorted(axes) if keepdim else ():
        result = result[(slice(None),) * axis + (None,)]
    return result


def reduced(function: Callable[[Expr, list[int]], Expr]) -> Callable:
    """A row from a function over axes."""

    def row(x: Expr, dim: Axes = None, keepdim: bool = False, **_: Any) -> Expr:
        axes = axes_of(x, dim)
        return kept(function(x, axes), axes, keepdim) if axes else function(x[None], [0])

    return row


# Elementwise functions of one argument that are no rows of the table of functions

UNARY: dict[str, Callable[[Expr], Expr]] = {
    "deg2rad": lambda x: x * (pi / 180),
    "exp2": lambda x: functions.exp(x * log(2)),
    "frac": lambda x: x - functions.trunc(x),
    "hardsigmoid": lambda x: _between(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * _between(x / 6 + 0.5, 0, 1),
    "isinf": lambda x: greater(functions.abs(x), 1.7976931348623157e308),
    "log10": lambda x: functions.log(x) / log(10),
    "log2": lambda x: functions.log(x) / log(2),
    "logical_not": lambda x: equal(x, 0),
    "bitwise_not": lambda x: 1 - x,
    "mish": lambda x: x * functions.tanh(functions.softplus(x)),
    "neg": lambda x: -x,
    "rad2deg": lambda x: x * (180 / pi),
    "reciprocal": functions.reciprocal,
    "relu6": lambda x: _between(x, 0, 6),
    "rsqrt": lambda x: functions.power(x, -0.5),
    "silu": lambda x: x * functions.sigmoid(x),
    "sqrt": functions.sqrt,
    "square": functions.square,
}


def _unary(function: Callable[[Expr], Expr]) -> Callable:
    return lambda x, *_, **__: function(x)


for _name, _function in UNARY.items():
    op(_name)(_unary(_function))

# Copies, casts and views of a tensor as it is; casts to integers are made before.
CASTS = ("_to", "_to_copy", "convert_element_type")
_COPIES = ("clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "lift", "contiguous", "view_of", "positive")
op(*CASTS, *_COPIES, "_conj", "conj", "resolve_conj", "resolve_neg", "real")(_unary(lambda x: x))


def _between(x: Expr, low: float, high: float) -> Expr:
    """x cut off at both ends, where its derivative is 0."""
    return functions.where(x > low, functions.where(x < high, x, high), low)


# Arithmetic


@op("add")
def _add(a: Any, b: Any, alpha: Any = 1) -> Expr:
    return arrays.add(a, b if alpha == 1 else arrays.multiply(alpha, b))


@op("sub", "subtract")
def _sub(a: Any, b: Any, alpha: Any = 1) -> Expr:
    return arrays.subtract(a, b if alpha == 1 else arrays.multiply(alpha, b))


@op("rsub")
def _rsub(a: Any, b: Any, alpha: Any = 1) -> Expr:
    return _sub(b, a, alpha)


@op("mul", "multiply", "logical_and", "bitwise_and")
def _mul(a: Any, b: Any) -> Expr:
    return arrays.multiply(a, b)


@op("div", "true_divide", "divide")
def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Expr:
    if rounding_mode is not None:
        raise Unsupported
    return arrays.divide(as_expr(a), b)


@op("pow", "float_power")
def _pow(a: Any, b: Any) -> Expr:
    return functions.power(a, b)


@op("addcmul")
def _addcmul(x: Expr, a: Expr, b: Expr, value: Any = 1) -> Expr:
    return arrays.add(x, arrays.multiply(value, a, b))


@op("addcdiv")
def _addcdiv(x: Expr, a: Expr, b: Expr, value: Any = 1) -> Expr:
    return arrays.add(x, arrays.multiply(value, arrays.divide(a, b)))


@op("lerp")
def _lerp(a: Expr, b: Expr, weight: Any) -> Expr:
    return arrays.add(a, arrays.multiply(weight, arrays.subtract(b, a)))


@op("minimum", "fmin")
def _minimum(a: Any, b: Any) -> Expr:
    return functions.minimum(a, b)


@op("logaddexp")
def _logaddexp(a: Expr, b: Expr) -> Expr:
    return arrays.add(b, functions.softplus(arrays.subtract(a, b)))


@op("hypot")
def _hypot(a: Expr, b: Any) -> Expr:
    return functions.sqrt(a * a + arrays.multiply(b, b))


@op("xlogy", "special_xlogy")
def _xlogy(a: Any, b: Any) -> Expr:
    """a log(b), and 0 where both are 0."""
    both = arrays.multiply(equal(a, 0), equal(b, 0))
    return functions.where(both, 0, arrays.multiply(a, functions.log(functions.where(both, 1, b))))


@op("clamp", "clip")
def _clamp(x: Expr, low: Any = None, high: Any = None, **names: Any) -> Expr:
    """Cut off at both ends, with derivative 1 at the ends themselves, as PyTorch has it."""
    low, high = names.get("min", low), names.get("max", high)
    if low is not None:
        x = functions.where(less(x, low), low, x)
    return x if high is None else functions.where(greater(x, high), high, x)


@op("clamp_min")
def _clamp_min(x: Expr, low: Any) -> Expr:
    return _clamp(x, low)


@op("clamp_max")
def _clamp_max(x: Expr, high: Any) -> Expr:
    return _clamp(x, None, high)


# Comparisons and logic: tensors of 0 and 1


@op("lt")
def less(a: Any, b: Any) -> Expr:
    """1 where a < b."""
    return functions.greater(b, a)


@op("ge")
def _greater_equal(a: Any, b: Any) -> Expr:
    return 1 - less(a, b)


@op("le")
def _less_equal(a: Any, b: Any) -> Expr:
    return 1 - greater(a, b)


@op("eq")
def equal(a: Any, b: Any) -> Expr:
    """1 where both are the same."""
    return functions.equal(a, b)


@op("ne")
def not_equal(a: Any, b: Any) -> Expr:
    """1 where the two differ."""
    return greater(a, b) + less(a, b)


@op("logical_or", "bitwise_or")
def _or(a: Any, b: Any) -> Expr:
    return 1 - arrays.multiply(equal(a, 0), equal(b, 0))


@op("logical_xor", "bitwise_xor")
def _xor(a: Any, b: Any) -> Expr:
    return not_equal(a, b)


@op("any")
def _any(x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    return greater(_sum(not_equal(x, 0), dim, keepdim), 0)


@op("all")
def _all(x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    return 1 - greater(_sum(equal(x, 0), dim, keepdim), 0)


@op("masked_fill")
def _masked_fill(x: Expr, mask: Any, value: Any) -> Expr:
    filled = functions.where(mask, value, x)
    return filled if filled.shape == x.shape else arrays.broadcast("masked_fill", [filled, x])[0]


# Reductions


def _sum_over(x: Expr, axes: list[int]) -> Expr:
    return arrays.sum(x, axes)


_sum = op("sum", "nansum")(reduced(_sum_over))
_mean = op("mean")(reduced(lambda x, axes: arrays.mean(x, axes)))
_amax = op("amax")(reduced(lambda x, axes: reductions.max(x, axes)))
_amin = op("amin")(reduced(lambda x, axes: reductions.min(x, axes)))
op("prod")(reduced(lambda x, axes: reductions.prod(x, axes)))


@op("logsumexp")
def _logsumexp(x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    axes = axes_of(x, dim)
    return kept(reductions.logsumexp(merged_last(x, axes), -1), axes, keepdim) if axes else x


def merged_last(x: Expr, axes: Sequence[int]) -> Expr:
    """Some axes moved to the end, as one."""
    others = [k for k in range(x.ndim) if k not in axes]
    moved = arrays.transpose(x, [*others, *sorted(axes)])
    if len(axes) == 1:
        return moved
    return indexing.reshape(moved, (*(x.shape[k] for k in others), prod(int(x.shape[k]) for k in axes)))


def _extremum(function: Callable[..., Expr]) -> Callable:
    """The largest entry of all, or along an axis: then with its place, which has no derivative and no expression."""

    def row(x: Expr, dim: int | None = None, keepdim: bool = False) -> Any:
        return function(x) if dim is None else (function(x, dim, keepdim), None)

    return row


op("max")(_extremum(_amax))
op("min")(_extremum(_amin))


@op("var")
def _var(x: Expr, dim: Axes = None, correction: Any = 1, keepdim: bool = False, unbiased: bool = True) -> Expr:
    return _var_mean(x, dim, correction, keepdim)[0]


@op("var_mean")
def _var_mean(x: Expr, dim: Axes = None, correction: Any = 1, keepdim: bool = False) -> tuple[Expr, Expr]:
    correction = 1 if correction is None else correction
    axes = axes_of(x, dim)
    mean = _mean(x, axes, True)
    rest = prod(int(x.shape[k]) for k in axes) - correction
    centred = arrays.subtract(x, mean)
    return arrays.divide(_sum(centred * centred, axes, keepdim), rest), _mean(x, axes, keepdim)


@op("std")
def _std(x: Expr, dim: Axes = None, correction: Any = 1, keepdim: bool = False) -> Expr:
    return functions.sqrt(_var(x, dim, correction, keepdim))


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


@op("cumsum")
def _cumsum(x: Expr, dim: int, **_: Any) -> Expr:
    return arrays.cumsum(x, dim) if x.ndim else x


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


@op("mm", "bmm", "matmul", "mv")
def _matmul(a: Expr, b: Expr) -> Expr:
    return arrays.matmul(a, b)


@op("dot", "vdot", "inner")
def _dot(a: Expr, b: Expr) -> Expr:
    return arrays.einsum("...i,...i->...", a, b)


@op("addmm", "addmv", "baddbmm")
def _addmm(x: Expr, a: Expr, b: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    product = arrays.matmul(a, b)
    return arrays.add(x if beta == 1 else beta * x, product if alpha == 1 else alpha * product)


@op("addbmm")
def _addbmm(x: Expr, a: Expr, b: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    return arrays.add(beta * x, alpha * arrays.sum(arrays.matmul(a, b), 0))


@op("addr")
def _addr(x: Expr, a: Expr, b: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    return arrays.add(beta * x, alpha * arrays.outer(a, b))


@op("linear")
def _linear(x: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    product = arrays.einsum("...j,ij->...i", x, weight)
    return product if bias is None else product + bias


@op("_trilinear")
def _trilinear(
    a: Expr, b: Expr, c: Expr, new_a: Sequence[int], new_b: Sequence[int], new_c: Sequence[int], gone: Sequence[int],
    _: int = 1,
) -> Expr:  # fmt: skip
    """The product of three tensors with new axes, summed over some."""
    grown = [kept(x, axes, True) for x, axes in ((a, new_a), (b, new_b), (c, new_c))]
    return arrays.sum(arrays.multiply(*grown), list(gone))


@op("trace")
def _trace(x: Expr) -> Expr:
    side = min(int(size) for size in x.shape)
    return arrays.tr(x[:side, :side])


# Tensors whose values are known from the shape of another


def _like(value: Callable[..., Any]) -> Callable:
    def row(x: Expr, *args: Any, **_: Any) -> Expr:
        return construct.filled(value(*args), x.shape)

    return row


op("zeros_like", "empty_like")(_like(lambda *_: 0))
op("ones_like")(_like(lambda *_: 1))


@op("full_like", "fill")
def _full_like(x: Expr, value: Any, **_: Any) -> Expr:
    return arrays.broadcast("fill", [as_expr(value), construct.filled(0, x.shape)])[0]


@op("new_zeros", "new_empty", "new_empty_strided")
def _new_zeros(x: Expr, shape: Sequence[int], *_: Any, **__: Any) -> Expr:
    return construct.filled(0, tuple(shape))


@op("new_ones")
def _new_ones(x: Expr, shape: Sequence[int], **_: Any) -> Expr:
    return construct.filled(1, tuple(shape))


@op("new_full")
def _new_full(x: Expr, shape: Sequence[int], value: Any, **_: Any) -> Expr:
    return construct.filled(value, tuple(shape))
