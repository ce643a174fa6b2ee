"""Elementwise functions: a row each, with its Taylor series before it where it has one.

A series gives the coefficients of degrees 0 to n at t, for divided differences. Programs have its source in them, with
another library's words for NumPy's, so it is written with what all libraries have in common.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.intervals import Increasing, Interval, absolute, hull, larger, negative, point, within
from eindiff.core.intervals import reciprocal as reciprocal_interval
from eindiff.core.nodes import Expr
from eindiff.functions.multilinear import Operand, as_expr, broadcast, multiply
from eindiff.functions.powers import power as power
from eindiff.functions.powers import reciprocal as reciprocal
from eindiff.functions.powers import sqrt as sqrt
from eindiff.functions.powers import square as square
from eindiff.functions.series import integral, waves
from eindiff.functions.table import NAMES, Elementwise, called, elementwise, row, special, written
from eindiff.functions.table import TABLE as TABLE

Array = Any
ODD, EVEN = -1, 1


# Exponentials and logarithms


def series_exp(t: Array, n: int) -> list:
    c = [np.exp(t)]
    for k in range(1, n + 1):
        c.append(c[-1] / k)
    return c


exp: Elementwise = elementwise(
    "exp", "np.exp", lambda x: exp(x), "The exponential of each entry.", latex=r"\exp", series=series_exp,
    bounds=Increasing("none"), positive=True, absolutely_monotonic=True,
)  # fmt: skip


def series_expm1(t: Array, n: int) -> list:
    return [np.expm1(t), *series_exp(t, n)[1:]]


expm1: Elementwise = elementwise(
    "expm1", "np.expm1", lambda x: exp(x), "exp(x) - 1, accurate near 0.", series=series_expm1,
    bounds=Increasing("same"), absolutely_monotonic=True,
)  # fmt: skip


def series_log(t: Array, n: int) -> list:
    return integral(np.log(t), [(-1) ** k / t ** (k + 1) for k in range(n)])


log: Elementwise = elementwise(
    "log", "np.log", lambda x: reciprocal(x), "The natural logarithm of each entry.", domain="positive", latex=r"\log",
    series=series_log, bounds=Increasing(start=0),
)  # fmt: skip


def series_log1p(t: Array, n: int) -> list:
    return integral(np.log1p(t), [(-1) ** k / (1 + t) ** (k + 1) for k in range(n)])


log1p: Elementwise = elementwise(
    "log1p", "np.log1p", lambda x: reciprocal(1 + x), "log(1 + x), accurate near 0.", domain="above -1",
    series=series_log1p, bounds=Increasing("same", start=-1),
)  # fmt: skip


def series_sigmoid(t: Array, n: int) -> list:
    c, rest = [special.expit(t)], [special.expit(-t)]
    for k in range(n):
        c.append(sum(c[i] * rest[k - i] for i in range(k + 1)) / (k + 1))
        rest.append(-c[-1])
    return c


def _sigmoid_value(x: float) -> float:
    small = np.exp(-np.abs(x))
    return (1 if x >= 0 else small) / (1 + small)


sigmoid: Elementwise = elementwise(
    "sigmoid", "special.expit", lambda x: sigmoid(x) * sigmoid(-x), "1 / (1 + exp(-x)), without overflow.",
    others={"torch": "torch.sigmoid", "tensorflow": "tf.math.sigmoid"}, names={"numpy": "expit", "jax": "logistic"},
    latex=r"\sigma", series=series_sigmoid, bounds=Increasing("none", value=_sigmoid_value), positive=True,
)  # fmt: skip


def series_softplus(t: Array, n: int) -> list:
    return integral(np.log1p(np.exp(-np.abs(t))) + (t + np.abs(t)) / 2, series_sigmoid(t, n - 1))


softplus: Elementwise = elementwise(
    "softplus", "np.logaddexp(0, {0})", lambda x: sigmoid(x), "log(1 + exp(x)), without overflow.",
    lambda x: np.logaddexp(0, x), {"torch": "softplus({0})", "tensorflow": "tf.math.softplus({0})"},
    {"numpy": "", "jax": ""}, series=series_softplus, bounds=Increasing("none"), positive=True,
)  # fmt: skip


# Angles


def series_sin(t: Array, n: int) -> list:
    return waves([np.sin(t), np.cos(t)], n, -1)


sin: Elementwise = elementwise(
    "sin", "np.sin", lambda x: cos(x), "The sine of each entry.", latex=r"\sin", series=series_sin,
    bounds=within(-1, 1), parity=ODD,
)  # fmt: skip


def series_cos(t: Array, n: int) -> list:
    return waves([np.cos(t), -np.sin(t)], n, -1)


cos: Elementwise = elementwise(
    "cos", "np.cos", lambda x: -sin(x), "The cosine of each entry.", latex=r"\cos", series=series_cos,
    bounds=within(-1, 1), parity=EVEN,
)  # fmt: skip


def series_tan(t: Array, n: int) -> list:
    c = [np.tan(t)]
    for k in range(n):
        c.append((int(k == 0) + sum(c[i] * c[k - i] for i in range(k + 1))) / (k + 1))
    return c


tan: Elementwise = elementwise(
    "tan", "np.tan", lambda x: 1 + tan(x) * tan(x), "The tangent of each entry.", latex=r"\tan", series=series_tan,
    bounds=within(-inf, inf), parity=ODD,
)  # fmt: skip


def series_arcsin(t: Array, n: int) -> list:
    c = [1 / np.sqrt((1 - t) * (1 + t))]
    for k in range(n - 1):
        c.append(((2 * k + 1) * t * c[k] + (k * c[k - 1] if k else 0)) * c[0] * c[0] / (k + 1))
    return integral(np.arcsin(t), c)


arcsin: Elementwise = elementwise(
    "arcsin", "np.arcsin", lambda x: power(1 - x * x, Fraction(-1, 2)), "The inverse sine.",
    others={"tensorflow": "tf.math.asin"}, names={"jax": "asin", "torch": "asin"},
    domain="between -1 and 1", latex=r"\arcsin", series=series_arcsin, bounds=Increasing("same", -1, 1), parity=ODD,
)  # fmt: skip


def series_arccos(t: Array, n: int) -> list:
    return [np.arccos(t), *(-c for c in series_arcsin(t, n)[1:])]


_falling_arccos = Increasing("", -1, 1, lambda x: -np.arccos(x))
arccos: Elementwise = elementwise(
    "arccos", "np.arccos", lambda x: -power(1 - x * x, Fraction(-1, 2)), "The inverse cosine.",
    others={"tensorflow": "tf.math.acos"}, names={"jax": "acos", "torch": "acos"}, domain="between -1 and 1",
    latex=r"\arccos", series=series_arccos, bounds=lambda row, x: negative(_falling_arccos(row, x)),
)  # fmt: skip


def series_arctan(t: Array, n: int) -> list:
    c = [1 / (1 + t * t)]
    for k in range(1, n):
        c.append(-(2 * t * c[k - 1] + (c[k - 2] if k > 1 else 0)) * c[0])
    return integral(np.arctan(t), c)


arctan: Elementwise = elementwise(
    "arctan", "np.arctan", lambda x: reciprocal(1 + x * x), "The inverse tangent.",
    others={"tensorflow": "tf.math.atan"}, names={"jax": "atan", "torch": "atan"}, latex=r"\arctan",
    series=series_arctan, bounds=Increasing("same"), parity=ODD,
)  # fmt: skip


def arctan2(y: Operand, x: Operand) -> Expr:
    """The angle of the point (x, y), between -pi and pi.

    Args:
        y, x: tensors of one shape, or numbers

    >>> round(float(ed.evaluate(ed.arctan2(ed.scalar("y"), ed.scalar("x")), {"y": 1.0, "x": 0.0})), 4)
    1.5708

    See also: `arctan`.
    """
    return construct.map_(_arctan2, broadcast("arctan2", [as_expr(y), as_expr(x)]))


_arctan2 = row(
    "arctan2", np.arctan2, lambda y, x: x * reciprocal(x * x + y * y), lambda y, x: -y * reciprocal(x * x + y * y),
    latex=r"\operatorname{arctan2}", public=arctan2, source=written("np.arctan2", 2, {"tensorflow": "tf.math.atan2"}),
    names=called("arctan2", {"jax": "atan2", "torch": "atan2"}), bounds=within(-4, 4),
)  # fmt: skip


# Hyperbolic functions


def series_sinh(t: Array, n: int) -> list:
    return waves([np.sinh(t), np.cosh(t)], n, 1)


sinh: Elementwise = elementwise(
    "sinh", "np.sinh", lambda x: cosh(x), "The hyperbolic sine.", latex=r"\sinh", series=series_sinh,
    bounds=Increasing("same"), parity=ODD, absolutely_monotonic=True,
)  # fmt: skip


def series_cosh(t: Array, n: int) -> list:
    return waves([np.cosh(t), np.sinh(t)], n, 1)


_rising_cosh = Increasing("none", start=0)
cosh: Elementwise = elementwise(
    "cosh", "np.cosh", lambda x: sinh(x), "The hyperbolic cosine.", latex=r"\cosh", series=series_cosh,
    bounds=lambda row, x: _rising_cosh(row, absolute(x)), parity=EVEN, positive=True, absolutely_monotonic=True,
)  # fmt: skip


def series_tanh(t: Array, n: int) -> list:
    c = [np.tanh(t)]
    for k in range(n):
        c.append((int(k == 0) - sum(c[i] * c[k - i] for i in range(k + 1))) / (k + 1))
    return c


tanh: Elementwise = elementwise(
    "tanh", "np.tanh", lambda x: 1 - tanh(x) * tanh(x), "The hyperbolic tangent.", latex=r"\tanh", series=series_tanh,
    bounds=Increasing("same"), parity=ODD,
)  # fmt: skip
arcsinh: Elementwise = elementwise(
    "arcsinh", "np.arcsinh", lambda x: power(1 + x * x, Fraction(-1, 2)), "The inverse hyperbolic sine.",
    others={"tensorflow": "tf.math.asinh"}, names={"jax": "asinh", "torch": "asinh"},
    bounds=Increasing("same"), parity=ODD,
)  # fmt: skip
arccosh: Elementwise = elementwise(
    "arccosh", "np.arccosh", lambda x: power(x * x - 1, Fraction(-1, 2)), "The inverse hyperbolic cosine.",
    others={"tensorflow": "tf.math.acosh"}, names={"jax": "acosh", "torch": "acosh"},
    domain="above 1", bounds=Increasing(start=1),
)  # fmt: skip
arctanh: Elementwise = elementwise(
    "arctanh", "np.arctanh", lambda x: reciprocal(1 - x * x), "The inverse hyperbolic tangent.",
    others={"tensorflow": "tf.math.atanh"}, names={"jax": "atanh", "torch": "atanh"},
    domain="between -1 and 1", bounds=Increasing("same", -1, 1), parity=ODD,
)  # fmt: skip
cbrt: Elementwise = elementwise(
    "cbrt", "np.cbrt", lambda x: reciprocal(cbrt(x) * cbrt(x)) / 3, "The cube root of each entry.",
    others={
        "torch": "(torch.sign({0}) * torch.abs({0}) ** (1 / 3))",
        "tensorflow": "(tf.sign({0}) * tf.abs({0}) ** (1 / 3))",
    },
    names={"torch": ""}, domain="nonzero", latex=r"\sqrt[3]{{{}}}", bounds=Increasing("same"), parity=ODD,
)  # fmt: skip


# Pieces: signs, steps, rounding


def series_abs(t: Array, n: int) -> list:
    return [np.abs(t), np.sign(t), *[0 * t] * n]


abs: Elementwise = elementwise(
    "abs", "np.abs", lambda x: sign(x), "The absolute value of each entry; its derivative at 0 is 0.",
    names={"numpy": "absolute fabs"}, series=series_abs, kink=True, simple=True, positive=True,
    bounds=lambda _, x: absolute(x),
)  # fmt: skip


def series_sign(t: Array, n: int) -> list:
    return [np.sign(t), *[0 * t] * n]


sign: Elementwise = elementwise(
    "sign", "np.sign", None, "The sign of each entry: -1, 0 or 1.", names={"torch": "sign sgn"},
    series=series_sign, kink=True, simple=True, bounds=Increasing("same"), parity=ODD,
)  # fmt: skip


def series_relu(t: Array, n: int) -> list:
    return [(t + np.abs(t)) / 2, np.where(t > 0, 1 + 0 * t, 0 * t), *[0 * t] * n]


relu: Elementwise = elementwise(
    "relu", "np.maximum({0}, 0.0)", lambda x: step(x), "max(x, 0); its derivative at 0 is 0.",
    lambda x: np.maximum(x, 0), {"torch": "torch.relu({0})", "tensorflow": "tf.nn.relu({0})"},
    {"numpy": "", "jax": "", "jax.nn": "relu"}, series=series_relu, kink=True, simple=True,
    bounds=Increasing("up to 0"),
)  # fmt: skip


def series_step(t: Array, n: int) -> list:
    return [np.where(t > 0, 1 + 0 * t, 0 * t), *[0 * t] * n]


step: Elementwise = elementwise(
    "step", "np.heaviside({0}, 0.0)", None, "1 where x > 0, else 0.", lambda x: np.heaviside(x, 0.0),
    {"torch": "({0} > 0).to(DTYPE)", "tensorflow": "tf.cast({0} > 0, DTYPE)"}, dict.fromkeys(NAMES, ""),
    series=series_step, kink=True, bounds=Increasing("up to 0"),
)  # fmt: skip
isnan: Elementwise = elementwise(
    "isnan", "np.isnan({0}).astype(DTYPE)", None, "1 where x is not a number, else 0.", lambda x: np.isnan(x) * 1.0,
    {"torch": "torch.isnan({0}).to(DTYPE)", "tensorflow": "tf.cast(tf.math.is_nan({0}), DTYPE)"},
    {"jax": ""}, simple=True, bounds=within(0, 1),
)  # fmt: skip
# The value itself, which is constant for derivatives: for those of a library that differentiates programs, too.
stopped = row(
    "stop_gradient", np.positive, None, latex=r"\operatorname{stop\_gradient}", simple=True, bounds=lambda _, x: x,
    source={
        "numpy": "np.positive({0})", "cupy": "cp.positive({0})", "jax": "lax.stop_gradient({0})",
        "torch": "{0}.detach()", "tensorflow": "tf.stop_gradient({0})",
    },
)  # fmt: skip
floor: Elementwise = elementwise(
    "floor", "np.floor", None, "The largest integer that is not above.", simple=True, bounds=Increasing()
)
ceil: Elementwise = elementwise(
    "ceil", "np.ceil", None, "The smallest integer that is not below.", simple=True, bounds=Increasing()
)
trunc: Elementwise = elementwise(
    "trunc", "np.trunc", None, "The integer next to it on the side of 0.",
    others={"tensorflow": "(tf.sign({0}) * tf.floor(tf.abs({0})))"}, names={"jax": ""}, simple=True,
    bounds=Increasing(), parity=ODD,
)  # fmt: skip
rint: Elementwise = elementwise(
    "rint", "np.rint", None, "The nearest integer; of two, the even one.", others={"torch": "torch.round"},
    names={"jax": "", "torch": ""}, simple=True, bounds=Increasing(), parity=ODD,
)  # fmt: skip


def _inverse_or_zero_bounds(_: Function, x: Interval) -> Interval:
    return reciprocal_interval(x) if x.nonzero else hull(reciprocal_interval(x), point(0))


def inverse_or_zero(x: Expr) -> Expr:
    """1 / x, and 0 at 0: the pseudo-inverse of a number."""
    return construct.map_(_inverse_or_zero, (x,))


_inverse_or_zero = row(
    "inverse_or_zero", lambda x: np.divide(1.0, x, out=np.zeros_like(x, dtype=float), where=np.asarray(x) != 0),
    lambda x: -inverse_or_zero(x) * inverse_or_zero(x), latex=r"\operatorname{inv_0}",
    formula=lambda x: where(x, 1 / x, construct.filled(0, x.shape)),
    source=written("inverse_or_zero"), simple=True, bounds=_inverse_or_zero_bounds, parity=ODD,
)  # fmt: skip


# Choices


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger entry of the two; where they are equal the derivative is shared evenly.

    Args:
        a, b: tensors of one shape, or numbers

    >>> ed.evaluate(ed.maximum(ed.vector("x", "n"), 0), {"x": [1.0, -1.0]})
    array([1., 0.])

    See also: `minimum`, `max`, `relu`.
    """
    return construct.map_(_maximum, broadcast("maximum", [as_expr(a), as_expr(b)]))


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller entry of the two; where they are equal the derivative is shared evenly.

    Args:
        a, b: tensors of one shape, or numbers

    >>> ed.evaluate(ed.minimum(ed.vector("x", "n"), 2), {"x": [1.0, 3.0]})
    array([1., 2.])

    See also: `maximum`, `min`.
    """
    return multiply(-1, maximum(multiply(-1, a), multiply(-1, b)))


def greater(a: Operand, b: Operand) -> Expr:
    """1 where a > b, else 0. `a > b` is the same.

    Args:
        a, b: tensors of one shape, or numbers

    >>> ed.evaluate(ed.greater(ed.vector("x", "n"), 0), {"x": [1.0, -1.0]})
    array([1., 0.])

    See also: `where`, `step`.
    """
    return construct.map_(_greater, broadcast(">", [as_expr(a), as_expr(b)]))


def equal(a: Operand, b: Operand) -> Expr:
    """1 where both are the same, else 0; what is not a number is the same as nothing."""
    return multiply(at_least(a, b), at_least(b, a))


def at_least(a: Operand, b: Operand) -> Expr:
    """1 where a >= b, else 0: also where one is not a number, where `1 - greater(b, a)` is 1."""
    return construct.map_(_at_least, broadcast(">=", [as_expr(a), as_expr(b)]))


def where(condition: Operand, a: Operand, b: Operand) -> Expr:
    """Entries of `a` where the condition holds (is not 0), else of `b`.

    Args:
        condition: a comparison, such as `x > 0`, or numbers
        a: entries where it holds
        b: entries elsewhere

    >>> x = ed.vector("x", "n")
    >>> ed.evaluate(ed.where(x > 0, x, 2 * x), {"x": [1.0, -1.0]})
    array([ 1., -2.])

    See also: `maximum`, `greater`.
    """
    return construct.map_(_where, broadcast("where", [as_expr(condition), as_expr(a), as_expr(b)]))


_winner = row(
    "winner", lambda a, b: np.heaviside(np.subtract(a, b), 0.5), None, None, latex=r"\operatorname{winner}",
    formula=lambda a, b: (1 + sign(a - b)) / 2,
    source=written("np.heaviside({0} - {1}, 0.5)", 2, {
        "torch": "(0.5 + 0.5 * torch.sign({0} - {1}))", "tensorflow": "(0.5 + 0.5 * tf.sign({0} - {1}))",
    }),
    simple=True, bounds=within(0, 1),
)  # fmt: skip
_maximum = row(
    "maximum", np.maximum, lambda a, b: construct.map_(_winner, (a, b)), lambda a, b: construct.map_(_winner, (b, a)),
    latex=r"\max", public=maximum,
    names=called("maximum", {"numpy": "maximum fmax", "jax": "", "torch": "maximum fmax"}),
    source=written("np.maximum", 2, {
        "torch": "maximum",
        "tensorflow": "tf.maximum(tf.convert_to_tensor({0}, DTYPE), tf.convert_to_tensor({1}, DTYPE))",
    }),
    simple=True, bounds=lambda _, a, b: larger(a, b),
)  # fmt: skip
_greater = row(
    "greater", lambda a, b: np.greater(a, b).astype(float), None, None, latex="{} > {}", public=greater,
    names=called("greater", {"jax": "gt", "torch": "gt"}),
    source=written("np.multiply({0} > {1}, 1.0)", 2, {  # np.where takes a branch for each entry
        "jax": "({0} > {1}).astype(DTYPE)", "cupy": "({0} > {1}).astype(DTYPE)", "torch": "({0} > {1}).to(DTYPE)",
        "tensorflow": "tf.cast({0} > {1}, DTYPE)",
    }),
    simple=True, bounds=within(0, 1),
)  # fmt: skip
_at_least = row(
    "at_least", lambda a, b: np.greater_equal(a, b).astype(float), None, None, latex=r"1 - \left[{} < {}\right]",
    formula=lambda a, b: 1 - greater(b, a),
    source=written("np.multiply({0} >= {1}, 1.0)", 2, {
        "jax": "({0} >= {1}).astype(DTYPE)", "cupy": "({0} >= {1}).astype(DTYPE)", "torch": "({0} >= {1}).to(DTYPE)",
        "tensorflow": "tf.cast({0} >= {1}, DTYPE)",
    }),
    simple=True, bounds=within(0, 1),
)  # fmt: skip
_where = row(
    "where", lambda c, a, b: np.where(np.asarray(c) != 0, a, b), None,
    lambda c, a, b: where(c, construct.filled(1, c.shape), construct.filled(0, c.shape)),
    lambda c, a, b: where(c, construct.filled(0, c.shape), construct.filled(1, c.shape)),
    latex=r"\operatorname{where}", public=where, names={"torch": ["where"]},
    source=written("np.where({0} != 0, {1}, {2})", 3, {
        "tensorflow": "tf.where({0} != 0, tf.convert_to_tensor({1}, DTYPE), tf.convert_to_tensor({2}, DTYPE))",
    }),
    simple=True, bounds=lambda _, c, a, b: hull(a, b),
)  # fmt: skip
