"""The table of functions, and its elementwise rows.

A row says everything about a function: its value in NumPy, its derivative as an expression, its domain, how it is
written. Adding a function is adding a row here (elementwise), or in `matrix_functions.py` (functions of whole tensors).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import comb, isfinite, pi
from math import sqrt as _sqrt
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Derivative, Function
from eindiff.core.function import quiet as _quiet
from eindiff.core.nodes import Expr
from eindiff.core.powers import power_function
from eindiff.functions.multilinear import Operand, as_expr, broadcast, coefficient_of, multiply

Elementwise = Callable[[Operand], Expr]

TABLE: dict[str, Function] = {}


def row(name: str, value: Callable[..., Any], *derivatives: Derivative | None, **more: Any) -> Function:
    """Add a function to the table."""
    TABLE[name] = function = Function(name, value, derivatives, **more)
    return function


def elementwise(
    name: str, value: Callable, derivative: Derivative | None, domain: str, latex: str, doc: str
) -> Elementwise:
    """Add an elementwise function of one argument to the table; gives the function that users call."""
    function = row(name, value, derivative, domain=domain, latex=latex)

    def public(x: Operand) -> Expr:
        return construct.map_(function, (as_expr(x),))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = doc
    return public


def _special(name: str) -> Callable[[Any], Any]:
    """A function of scipy.special, which is imported when it is first needed: its import takes long."""

    def value(x: Any) -> Any:
        from scipy import special

        return getattr(special, name)(x)

    return value


exp: Elementwise = elementwise("exp", np.exp, lambda x: exp(x), "real", r"\exp", "The exponential of each entry.")
expm1: Elementwise = elementwise(
    "expm1", np.expm1, lambda x: exp(x), "real", r"\operatorname{expm1}", "exp(x) - 1, accurate near 0."
)
log: Elementwise = elementwise(
    "log", _quiet(np.log), lambda x: reciprocal(x), "positive", r"\log", "The natural logarithm of each entry."
)
log1p: Elementwise = elementwise(
    "log1p",
    _quiet(np.log1p),
    lambda x: reciprocal(1 + x),
    "above -1",
    r"\operatorname{log1p}",
    "log(1 + x), accurate near 0.",
)
abs: Elementwise = elementwise(
    "abs",
    np.abs,
    lambda x: sign(x),
    "real",
    r"\operatorname{abs}",
    "The absolute value of each entry; its derivative at 0 is 0.",
)
sign: Elementwise = elementwise(
    "sign", np.sign, None, "real", r"\operatorname{sign}", "The sign of each entry: -1, 0 or 1."
)
sin: Elementwise = elementwise("sin", np.sin, lambda x: cos(x), "real", r"\sin", "The sine of each entry.")
cos: Elementwise = elementwise("cos", np.cos, lambda x: -sin(x), "real", r"\cos", "The cosine of each entry.")
tan: Elementwise = elementwise(
    "tan", np.tan, lambda x: 1 + tan(x) * tan(x), "real", r"\tan", "The tangent of each entry."
)
arcsin: Elementwise = elementwise(
    "arcsin",
    _quiet(np.arcsin),
    lambda x: power(1 - x * x, Fraction(-1, 2)),
    "between -1 and 1",
    r"\arcsin",
    "The inverse sine.",
)
arccos: Elementwise = elementwise(
    "arccos",
    _quiet(np.arccos),
    lambda x: -power(1 - x * x, Fraction(-1, 2)),
    "between -1 and 1",
    r"\arccos",
    "The inverse cosine.",
)
arctan: Elementwise = elementwise(
    "arctan", np.arctan, lambda x: reciprocal(1 + x * x), "real", r"\arctan", "The inverse tangent."
)
sinh: Elementwise = elementwise("sinh", np.sinh, lambda x: cosh(x), "real", r"\sinh", "The hyperbolic sine.")
cosh: Elementwise = elementwise("cosh", np.cosh, lambda x: sinh(x), "real", r"\cosh", "The hyperbolic cosine.")
tanh: Elementwise = elementwise(
    "tanh", np.tanh, lambda x: 1 - tanh(x) * tanh(x), "real", r"\tanh", "The hyperbolic tangent."
)
sigmoid: Elementwise = elementwise(
    "sigmoid",
    _special("expit"),
    lambda x: sigmoid(x) * sigmoid(-x),
    "real",
    r"\sigma",
    "1 / (1 + exp(-x)), without overflow.",
)
softplus: Elementwise = elementwise(
    "softplus",
    lambda x: np.logaddexp(0, x),
    lambda x: sigmoid(x),
    "real",
    r"\operatorname{softplus}",
    "log(1 + exp(x)), without overflow.",
)
relu: Elementwise = elementwise(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda x: step(x),
    "real",
    r"\operatorname{relu}",
    "max(x, 0); its derivative at 0 is 0.",
)
step: Elementwise = elementwise(
    "step", lambda x: np.heaviside(x, 0.0), None, "real", r"\operatorname{step}", "1 where x > 0, else 0."
)
erf: Elementwise = elementwise(
    "erf",
    _special("erf"),
    lambda x: 2 / _sqrt(pi) * exp(-(x * x)),
    "real",
    r"\operatorname{erf}",
    "The error function.",
)
inverse_or_zero: Elementwise = elementwise(
    "inverse_or_zero", lambda x: np.divide(1.0, x, out=np.zeros_like(x, dtype=float), where=np.asarray(x) != 0),
    lambda x: -inverse_or_zero(x) * inverse_or_zero(x), "real", r"\operatorname{inv_0}",
    "1 / x, and 0 at 0: the pseudo-inverse of a number.",
)  # fmt: skip


# Powers


TABLE["pow"] = power_function(Fraction(5, 2))

Terms = tuple[tuple[int, tuple[int, ...]], ...]


def power_terms(by_base: int, by_exponent: int) -> Terms:
    """`∂^m/∂x^m ∂^k/∂y^k x^y / x^(y-m)` as powers of log(x) with their polynomials in y, highest power of y first.

    >>> power_terms(1, 1)
    ((1, (1, 0)), (0, (1,)))
    """
    falling = np.poly1d(np.rint(np.poly(np.arange(by_base))).astype(int))  # y (y - 1) ... (y - m + 1)
    found = [(by_exponent - j, comb(by_exponent, j) * falling.deriv(j)) for j in range(by_exponent + 1)]
    return tuple((r, tuple(int(c) for c in np.rint(p.coeffs))) for r, p in found if np.any(p.coeffs))


def _power_derivative_value(x: Any, y: Any, by_base: int, terms: Terms) -> Any:
    x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
    powers, result = np.power(x, y - by_base), np.zeros(x.shape)
    for r, coefficients in terms:
        factor = np.polyval(coefficients, y)
        logs = np.where((x == 0) & (y > by_base), 0.0, powers * np.log(x) ** r) if r else powers
        result = result + np.where(factor == 0, 0.0, factor * logs)
    return result


@lru_cache(maxsize=64)
def power_derivative(by_base: int, by_exponent: int) -> Function:
    """The derivative of x**y, some times by x and some by y. What is 0 in the limit is 0 for x = 0 too."""
    terms = power_terms(by_base, by_exponent)
    return Function(
        "power_derivative", _quiet(lambda x, y: _power_derivative_value(x, y, by_base, terms)),
        (_derived_power(by_base + 1, by_exponent), _derived_power(by_base, by_exponent + 1)),
        domain="positive", latex=r"\operatorname{power\_derivative}", parameter=(by_base, by_exponent),
        formula=lambda x, y: power_formula((by_base, by_exponent), x, y),
    )  # fmt: skip


def _derived_power(by_base: int, by_exponent: int) -> Derivative:
    return lambda x, y: construct.map_(power_derivative(by_base, by_exponent), (x, y))


def power_formula(parameter: tuple[int, int], x: Expr, y: Expr) -> Expr:
    """What people write for a derivative of x**y: the same but for x = 0."""
    by_base, by_exponent = parameter
    pieces = []
    for r, coefficients in power_terms(by_base, by_exponent):
        terms = [construct.scale(c, power(y, n)) for n, c in enumerate(coefficients[::-1]) if c]
        pieces.append(multiply(power(log(x), r), construct.add(terms)))
    return multiply(power(x, y - by_base), construct.add(pieces))


TABLE["power_derivative"] = power_derivative(1, 1)

_general_power = row(
    "power", _quiet(np.power), _derived_power(1, 0), _derived_power(0, 1), domain="positive", latex="{}^{{{}}}"
)


def power(base: Operand, exponent: Operand) -> Expr:
    """`base ** exponent`, entry by entry."""
    base, exponent = as_expr(base), as_expr(exponent)
    known = coefficient_of(exponent)
    if known is not None and isfinite(known) and (exponent.ndim == 0 or exponent.shape == base.shape):
        return construct.known_power(base, known)
    return construct.map_(_general_power, broadcast("**", [base, exponent]))


def sqrt(x: Operand) -> Expr:
    """The square root of each entry."""
    return power(x, Fraction(1, 2))


def square(x: Operand) -> Expr:
    """The square of each entry."""
    return power(x, 2)


def reciprocal(x: Operand) -> Expr:
    """One over each entry."""
    return power(x, -1)


# Choices


_winner = row("winner", lambda a, b: np.heaviside(np.subtract(a, b), 0.5), None, None, latex=r"\operatorname{winner}")
_maximum = row(
    "maximum", np.maximum, lambda a, b: construct.map_(_winner, (a, b)), lambda a, b: construct.map_(_winner, (b, a)),
    latex=r"\max",
)  # fmt: skip
_greater = row("greater", lambda a, b: np.greater(a, b).astype(float), None, None, latex="{} > {}")
_where = row(
    "where", lambda c, a, b: np.where(np.asarray(c) != 0, a, b), None,
    lambda c, a, b: _choose(c, construct.filled(1, c.shape), construct.filled(0, c.shape)),
    lambda c, a, b: _choose(c, construct.filled(0, c.shape), construct.filled(1, c.shape)),
    latex=r"\operatorname{where}",
)  # fmt: skip


def _choose(condition: Expr, a: Expr, b: Expr) -> Expr:
    return construct.map_(_where, (condition, a, b))


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger entry of the two; where they are equal the derivative is shared evenly."""
    return construct.map_(_maximum, broadcast("maximum", [as_expr(a), as_expr(b)]))


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller entry of the two; where they are equal the derivative is shared evenly."""
    return multiply(-1, maximum(multiply(-1, a), multiply(-1, b)))


def greater(a: Operand, b: Operand) -> Expr:
    """1 where a > b, else 0. `a > b` is the same."""
    return construct.map_(_greater, broadcast(">", [as_expr(a), as_expr(b)]))


def equal(a: Operand, b: Operand) -> Expr:
    """1 where both are the same, else 0."""
    return 1 - greater(a, b) - greater(b, a)


def where(condition: Operand, a: Operand, b: Operand) -> Expr:
    """Entries of `a` where the condition holds (is not 0), else of `b`."""
    return construct.map_(_where, broadcast("where", [as_expr(condition), as_expr(a), as_expr(b)]))
