"""Arithmetic, elementwise functions, comparisons, reductions, products and changes of shape."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf

import numpy as np

from eindiff.core import construct
from eindiff.core.nodes import Apply, Constant, Expr, Map, topological
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import multilinear as arrays
from eindiff.functions.elementwise import exp, power, softplus, where
from eindiff.functions.multilinear import multiply, subtract
from eindiff.tracing import shapes
from eindiff.tracing.composed import COMPOSED, fmod
from eindiff.tracing.jax.jaxpr import Handler, TracedEquation, Value
from eindiff.tracing.jax.opaque import is_real
from eindiff.tracing.unsupported import Unsupported


def elementwise(function: Callable[..., Expr]) -> Handler:
    """A function of expressions of one shape."""
    return lambda step, *args: function(*step.exprs(args))


def recorded(function: Callable[..., Expr]) -> Handler:
    """The same, remembered for what it may become part of."""

    def handler(step: TracedEquation, *args: Value) -> Expr:
        exprs = [step.trace.expr(x) for x in args]
        result = function(*exprs)
        step.trace.made[result] = (step.name, *exprs)
        return result

    return handler


def identity(step: TracedEquation, x: Value) -> Expr:
    """What does not change values."""
    return step.trace.expr(x)


# Comparisons and logic: 1 where it holds, else 0


def _logical(function: Callable[..., Expr]) -> Handler:
    """For integers these work bit by bit, which expressions do not."""

    def handler(step: TracedEquation, *args: Value) -> Expr:
        if step.result.dtype != bool:
            for x in args:
                step.trace.known(x)
        return function(*step.exprs(args))

    return handler


def is_finite(step: TracedEquation, x: Value) -> Expr:
    """1 for a number that is not infinite. The largest of some, which JAX's `logsumexp` asks for, is such a number, or
    else no derivative is."""
    expr = step.trace.expr(x)
    return construct.filled(1, step.shape) if _is_largest(expr) else functions.greater(inf, functions.abs(expr))


def _is_largest(expr: Expr) -> bool:
    """Whether an expression is the largest of some entries, also of these and a number."""
    _, factors, _, _ = construct.parts(expr)
    inner = factors[0][0] if len(factors) == 1 else expr
    if isinstance(inner, Map) and inner.function.name in ("maximum", "stop_gradient"):
        return any(map(_is_largest, inner.args))
    return isinstance(inner, Apply) and inner.function.name == "max"


def select(step: TracedEquation, which: Value, *cases: Value) -> Expr:
    """One of two cases, entry by entry."""
    if step.avals[0].dtype != bool or len(cases) != 2:
        raise Unsupported
    shape = step.shape
    if isinstance(which, np.ndarray | np.generic):
        if np.all(which) or not np.any(which):
            return arrays.broadcast("select", [step.trace.expr(cases[int(np.all(which))]), arrays.zeros(*shape)])[0]
        mask = np.broadcast_to(np.asarray(which), shape)
        for chosen, other, kept in ((cases[1], cases[0], mask), (cases[0], cases[1], ~mask)):
            if isinstance(other, np.ndarray | np.generic) and not np.any(other):
                chosen = step.trace.expr(chosen)
                if step.trace.made.get(chosen, ("",))[0] == "cholesky" and _is_lower(kept):
                    return chosen
                return _masked(chosen, step.trace.expr(kept))
    no, yes = cases
    return where(step.trace.expr(which), step.trace.expr(yes), step.trace.expr(no))


def _masked(x: Expr, mask: Expr) -> Expr:
    """x where a mask is 1, else 0: a product with deltas and triangles, a choice otherwise, as x may be no number."""
    leaves = [leaf for leaf in topological([mask]) if not leaf.children]
    is_structured = all(isinstance(leaf, Constant) and not isinstance(leaf.value, np.ndarray) for leaf in leaves)
    return multiply(x, mask) if is_structured else where(mask, x, 0)


def _is_lower(mask: np.ndarray) -> bool:
    return np.array_equal(mask, np.broadcast_to(np.tri(mask.shape[-2], mask.shape[-1]), mask.shape))


# Arithmetic


def divide(step: TracedEquation, a: Value, b: Value) -> Expr:
    """A quotient; that of exp(x) and its sum is a softmax, which does not overflow."""
    if not step.is_real:
        raise Unsupported
    numerator, denominator = step.trace.expr(a), step.trace.expr(b)
    found = _sum_of_exponentials(step, denominator)
    if found is not None and found[0] is numerator:
        _, exponent, axes = found
        total = _log_of_sum(step, exponent, axes)
        kept = tuple([1 if k in axes else size for k, size in enumerate(exponent.shape)])
        return exp(subtract(exponent, indexing.reshape(total, kept)))
    return multiply(numerator, power(denominator, -1))


def logarithm(step: TracedEquation, x: Value) -> Expr:
    """A logarithm; that of a sum of exponentials does not overflow."""
    x = step.trace.expr(x)
    inner = step.trace.made[x][1] if step.trace.made.get(x, ("",))[0] == "abs" else x
    found = _sum_of_exponentials(step, inner)
    if found is None:
        return functions.log(x)
    return indexing.reshape(_log_of_sum(step, *found[1:]), inner.shape)


def _sum_of_exponentials(step: TracedEquation, x: Expr) -> tuple[Expr, Expr, tuple[int, ...]] | None:
    """exp(y), y and the axes, if x is the sum of exp(y) over axes, perhaps with these axes kept."""
    made = step.trace.made
    while made.get(x, ("",))[0] == "kept":
        x = made[x][1]
    if made.get(x, ("",))[0] != "reduce_sum":
        return None
    _, summed, axes = made[x]
    return (summed, made[summed][1], axes) if made.get(summed, ("",))[0] == "exp" else None


def _log_of_sum(step: TracedEquation, exponent: Expr, axes: tuple[int, ...]) -> Expr:
    """log(sum(exp(y))) over axes. What is subtracted in y along these axes only keeps others from overflow."""
    name, *operands = step.trace.made.get(exponent, ("",))
    if name == "sub":
        y, shift = operands
        sizes = (1,) * (exponent.ndim - shift.ndim) + shift.shape
        if y.shape == exponent.shape and all(sizes[k] == 1 for k in axes):
            kept = [size for k, size in enumerate(sizes) if k not in axes]
            return subtract(_log_of_sum(step, y, axes), indexing.reshape(shift, kept) if kept else shift.sum())
    return reductions.logsumexp(exponent, axes)


def general_power(step: TracedEquation, a: Value, b: Value) -> Expr:
    """A power; a known exponent that is the same everywhere is part of the function."""
    if not isinstance(b, Expr) and np.all(np.asarray(b) == np.ravel(b)[0]):
        return power(step.trace.expr(a), np.ravel(b)[0].item())
    return power(*step.exprs([a, b]))


def remainder(step: TracedEquation, a: Value, b: Value) -> Expr:
    """What is left after division, with the sign of the dividend."""
    if not step.is_real:
        raise Unsupported
    return fmod(*step.exprs([a, b]))


def maximum(step: TracedEquation, a: Value, b: Value) -> Expr:
    """The larger one; -inf is no number to compare with."""
    return _extreme(step, a, b, -np.inf, functions.maximum)


def minimum(step: TracedEquation, a: Value, b: Value) -> Expr:
    """The smaller one."""
    return _extreme(step, a, b, np.inf, functions.minimum)


def _extreme(step: TracedEquation, a: Value, b: Value, neutral: float, function: Callable[..., Expr]) -> Expr:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Expr) and np.all(np.asarray(one) == neutral):
            return arrays.broadcast("max", [step.trace.expr(other), arrays.zeros(*step.shape)])[0]
    return function(step.trace.expr(a), step.trace.expr(b))


def clamp(step: TracedEquation, low: Value, x: Value, high: Value) -> Expr:
    """x between two bounds; the derivative at the bounds is 0."""
    return _clamped(*(step.trace.expr(v) for v in (low, x, high)))


def _clamped(low: Expr, x: Expr, high: Expr) -> Expr:
    inside = functions.greater(x, low) * functions.greater(high, x)
    return where(inside, x, where(functions.greater(x, low), high, low))


def convert(step: TracedEquation, x: Value) -> Expr:
    """Another type of numbers. A fraction that becomes an integer is cut off, what becomes a truth value compared."""
    expr, old, new = step.trace.expr(x), step.avals[0].dtype, step.params["new_dtype"]
    if np.dtype(new).kind == "b" and old.kind != "b":
        return 1 - functions.equal(expr, construct.filled(0, expr.shape))
    if is_real(old) and not is_real(new):
        return functions.trunc(expr)
    return expr


def round_(step: TracedEquation, x: Value) -> Expr:
    """The nearest integer; of two, the even one."""
    if int(step.params["rounding_method"]) != 1:
        raise Unsupported
    return functions.rint(step.trace.expr(x))


# Reductions and products


def reduce_sum(step: TracedEquation, x: Value) -> Expr:
    """The sum over some axes."""
    x, axes = step.trace.expr(x), tuple(int(k) for k in step.params["axes"])
    result = arrays.sum(x, axes)
    step.trace.made[result] = ("reduce_sum", x, axes)
    return result


def reduction(function: Callable[..., Expr]) -> Handler:
    """A function of vectors, along some axes."""
    return lambda step, x: function(step.trace.expr(x), tuple(int(k) for k in step.params["axes"]))


def _any(x: Expr, axes: tuple[int, ...]) -> Expr:
    return functions.greater(arrays.sum(x, axes), Fraction(1, 2))


def _all(x: Expr, axes: tuple[int, ...]) -> Expr:
    return 1 - _any(1 - x, axes)


def cumulative_sum(step: TracedEquation, x: Value) -> Expr:
    """Running sums along an axis."""
    x, axis = step.trace.expr(x), int(step.params["axis"])
    flip = (slice(None),) * axis + (slice(None, None, -1),)
    return arrays.cumsum(x[flip], axis)[flip] if step.params["reverse"] else arrays.cumsum(x, axis)


def dot_general(step: TracedEquation, a: Value, b: Value) -> Expr:
    """A product that sums over pairs of axes, and keeps others: those of batches first, then a's, then b's."""
    a, b = step.trace.expr(a), step.trace.expr(b)
    (left, right), (left_batch, right_batch) = step.params["dimension_numbers"]
    own = list(range(a.ndim))
    other = [a.ndim + k for k in range(b.ndim)]
    for k, l in (*zip(left, right, strict=True), *zip(left_batch, right_batch, strict=True)):
        other[l] = own[k]
    output = [own[k] for k in left_batch]
    output += [own[k] for k in range(a.ndim) if k not in left and k not in left_batch]
    output += [other[k] for k in range(b.ndim) if k not in right and k not in right_batch]
    sizes = dict(zip(other, b.shape, strict=True)) | dict(zip(own, a.shape, strict=True))
    return construct.einsum(1, [(a, tuple(own)), (b, tuple(other))], tuple(output), sizes)


# Shapes


def broadcast_in_dim(step: TracedEquation, x: Value, *_: Value) -> Expr:
    """Axes put into places of a larger shape, and repeated along the others."""
    x, shape = step.trace.expr(x), step.shape
    labels, sizes = [], dict(enumerate(shape))
    for axis, size in zip(step.params["broadcast_dimensions"], x.shape, strict=True):
        labels.append(int(axis) if size == shape[axis] else len(sizes))
        sizes.setdefault(labels[-1], 1)
    result = construct.einsum(1, [(x, tuple(labels))], tuple(range(len(shape))), sizes)
    return _same_entries(step, x, result)


def reshape(step: TracedEquation, x: Value, *_: Value) -> Expr:
    """The same entries in row-major order, or in that of other axes."""
    x, order = step.trace.expr(x), step.params.get("dimensions") if step.name == "reshape" else None
    if order is not None:
        return indexing.reshape(arrays.transpose(x, tuple(order)), step.shape)
    return _same_entries(step, x, indexing.reshape(x, step.shape))


def _same_entries(step: TracedEquation, x: Expr, result: Expr) -> Expr:
    """The result, remembered as what it is with axes of size 1 added or taken away."""
    same = [size for size in x.shape if size != 1] == [size for size in result.shape if size != 1]
    if same and result is not x and result not in step.trace.made:
        step.trace.made[result] = ("kept", x)
    return result


def concatenate(step: TracedEquation, *args: Value) -> Expr:
    """Arrays joined along an axis; those without entries are left out."""
    parts = [step.trace.expr(x) for x, aval in zip(args, step.avals, strict=True) if 0 not in aval.shape]
    return indexing.concatenate(parts, int(step.params["dimension"]))


# Functions of JAX that are known by name


def logaddexp(step: TracedEquation, a: Value, b: Value) -> Expr:
    """log(exp(a) + exp(b))."""
    if not isinstance(b, Expr) and not np.any(b):
        return arrays.broadcast("logaddexp", [softplus(step.trace.expr(a)), arrays.zeros(*step.shape)])[0]
    a, b = step.exprs([a, b])
    return b + softplus(a - b)


def xlogy(step: TracedEquation, x: Value, y: Value) -> Expr:
    """x log(y), and 0 where x is 0, whatever y is, if x is data."""
    x, y = step.exprs([x, y])
    return x * functions.log(y if step.trace.depends(x) else where(x * x, y, arrays.ones(*y.shape)))


def xlog1py(step: TracedEquation, x: Value, y: Value) -> Expr:
    """x log(1 + y), and 0 where x is 0, whatever y is, if x is data."""
    x, y = step.exprs([x, y])
    return x * functions.log1p(y if step.trace.depends(x) else where(x * x, y, arrays.zeros(*y.shape)))


_AS_NUMPY = {
    "add": "add", "add_any": "add", "neg": "negative", "sqrt": "sqrt", "square": "square", "exp2": "exp2", "lt": "less",
    "ge": "greater_equal", "le": "less_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip

PRIMITIVES: dict[str, Handler] = {
    **{name: elementwise(COMPOSED[same]) for name, same in _AS_NUMPY.items()},
    **dict.fromkeys(("copy", "copy_p", "reduce_precision", "pvary", "device_put"), identity),
    "sub": recorded(subtract), "mul": recorded(multiply),
    "exp": recorded(exp), "abs": recorded(functions.abs), "log": logarithm,
    "rsqrt": elementwise(lambda x: power(x, Fraction(-1, 2))),
    "integer_pow": lambda step, x: power(step.trace.expr(x), int(step.params["y"])), "pow": general_power,
    "div": divide, "rem": remainder, "max": maximum, "min": minimum, "clamp": clamp, "round": round_,
    "stop_gradient": lambda step, x: step.trace.stop(step.trace.expr(x)),
    "convert_element_type": convert, "is_finite": is_finite, "select_n": select,
    "and": _logical(multiply), "or": _logical(lambda a, b: a + b - a * b), "not": _logical(lambda a: 1 - a),
    "xor": _logical(lambda a, b: a + b - 2 * a * b),
    "reduce_sum": reduce_sum, "reduce_max": reduction(reductions.max), "reduce_min": reduction(reductions.min),
    "reduce_prod": reduction(reductions.prod), "reduce_or": reduction(_any), "reduce_and": reduction(_all),
    "cumsum": cumulative_sum, "dot_general": dot_general,
    "broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "squeeze": reshape,
    "concatenate": concatenate,
    "transpose": lambda step, x: arrays.transpose(step.trace.expr(x), [int(k) for k in step.params["permutation"]]),
    "split": lambda step, x: tuple(shapes.pieces(step.trace.expr(x), step.params["sizes"], int(step.params["axis"]))),
    "stack": lambda step, *args: indexing.stack([step.trace.expr(x) for x in args], int(step.params["axis"])),
    "tile": lambda step, x: shapes.tile(step.trace.expr(x), step.params["reps"]),
}  # fmt: skip

BY_NAME: dict[str, Handler] = {
    "relu6": elementwise(lambda x: _clamped(construct.filled(0, ()), x, construct.filled(6, ()))),
    "logit": elementwise(COMPOSED["logit"]),
    "_xlogx": elementwise(lambda x: x * functions.log(x)),
    "logaddexp": logaddexp,
    "xlogy": xlogy,
    "xlog1py": xlog1py,
}
