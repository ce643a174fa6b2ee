"""Incomplete gamma and beta functions and their inverses, with derivatives of any order by all arguments.

Derivatives by the shapes a and b are those of a series, term by term. Each term is an exponential exp(g), and the
derivatives of g are logarithms and polygamma functions, so those of exp(g) follow by Leibniz' rule for exp(g) g'.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb, pi
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.functions.elementwise import exp, log, log1p, power, reciprocal, sign
from eindiff.functions.multilinear import coefficient_of
from eindiff.functions.scipy_functions import Public, added, none
from eindiff.functions.special_functions import digamma, gammaln, polygamma
from eindiff.functions.table import special

TERMS, ENOUGH = 4000, 1e-17  # of series: how many at most, and when they are too small to count


def _of_exponential(i: int, j: int, g: Callable[[int, int], Any]) -> Any:
    """The derivative of exp(g(a, b)), i times by a and j times by b, without its factor exp(g), from those of g."""

    @lru_cache
    def found(i: int, j: int) -> Any:
        if j > 0 and i == 0:
            return sum(comb(j - 1, q) * found(0, j - 1 - q) * g(0, q + 1) for q in range(j))
        if i == 0:
            return 1.0
        pairs = [(p, q) for p in range(i) for q in range(j + 1)]
        return sum(comb(i - 1, p) * comb(j, q) * found(i - 1 - p, j - q) * g(p + 1, q) for p, q in pairs)

    return found(i, j)


def _psi(order: int, x: Any) -> Any:
    """The derivative of log gamma, `order` times, of numbers or expressions."""
    if isinstance(x, Expr):
        return digamma(x) if order == 1 else polygamma(order - 1, x)
    return special.polygamma(order - 1, x)


def _order(name: str, k: Expr) -> int:
    found = coefficient_of(k)
    if found is None:
        raise EindiffError(f"{name}: how often it is differentiated is a number", "options")
    return int(found)


# The regularized lower incomplete gamma function


def _gamma_density(a: Expr, x: Expr) -> Expr:
    return exp((a - 1) * log(x) - x - gammaln(a))


def _gamma_by_shape_value(k: Any, a: Any, x: Any) -> np.ndarray:
    """The derivative of gammainc(a, x) by a: that of x^(a+n) exp(-x) / gamma(a+n+1), added up over n."""
    order = int(np.max(k))
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    total, scale, logarithm = np.zeros(a.shape), np.zeros(a.shape), np.log(np.where(x > 0, x, 1.0))
    for n in range(TERMS):

        def g(p: int, _: int, n: int = n) -> Any:
            return (logarithm if p == 1 else 0.0) - _psi(p, a + n + 1)

        factor = _of_exponential(order, 0, g)
        term = np.where(x > 0, np.exp((a + n) * logarithm - x - special.gammaln(a + n + 1)) * factor, 0.0)
        total, scale = total + term, np.maximum(scale, np.abs(term))
        if n > np.max(x, initial=0.0) and np.all(np.abs(term) <= ENOUGH * (scale + ENOUGH)):
            break
    return total


def _gamma_by_shape_and_x(k: Expr, a: Expr, x: Expr) -> Expr:
    order = _order("gammainc", k)
    factor = _of_exponential(order, 0, lambda p, _: (log(x) if p == 1 else 0.0) - _psi(p, a))
    return _gamma_density(a, x) * factor


gammainc_by_shape: Public = added(
    "gammainc_by_shape", none("gammainc", "an order"), lambda k, a, x: gammainc_by_shape(k + 1, a, x),
    _gamma_by_shape_and_x, value=_gamma_by_shape_value,
)  # fmt: skip
gammainc: Public = added("gammainc", lambda a, x: gammainc_by_shape(1, a, x), _gamma_density, also="jax cupy")
gammaincc: Public = added(
    "gammaincc", lambda a, x: -gammainc_by_shape(1, a, x), lambda a, x: -_gamma_density(a, x), also="jax cupy"
)
gammaincinv: Public = added(
    "gammaincinv", lambda a, y: -gammainc_by_shape(1, a, gammaincinv(a, y)) / _gamma_density(a, gammaincinv(a, y)),
    lambda a, y: reciprocal(_gamma_density(a, gammaincinv(a, y))),
)  # fmt: skip
gammainccinv: Public = added(
    "gammainccinv", lambda a, y: -gammainc_by_shape(1, a, gammainccinv(a, y)) / _gamma_density(a, gammainccinv(a, y)),
    lambda a, y: -reciprocal(_gamma_density(a, gammainccinv(a, y))),
)  # fmt: skip


# The regularized incomplete beta function


def _beta_density(a: Expr, b: Expr, x: Expr) -> Expr:
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - gammaln(a) - gammaln(b) + gammaln(a + b))


def _beta_series(i: int, j: int, a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """That of x^(a+n) (1-x)^b gamma(a+b+n) / (gamma(b) gamma(a+n+1)), added up over n: quick where x is small."""
    low, high, total, scale = np.log(x), np.log1p(-x), np.zeros(a.shape), np.zeros(a.shape)
    logarithms = {(1, 0): low, (0, 1): high}
    for n in range(TERMS):

        def g(p: int, q: int, n: int = n) -> Any:
            found = _psi(p + q, a + b + n) + logarithms.get((p, q), 0.0)
            return found - (_psi(p, a + n + 1) if q == 0 else _psi(q, b) if p == 0 else 0.0)

        size = (a + n) * low + b * high + special.gammaln(a + b + n) - special.gammaln(b) - special.gammaln(a + n + 1)
        term = np.exp(size) * _of_exponential(i, j, g)
        total, scale = total + term, np.maximum(scale, np.abs(term))
        if n > 1 and np.all(np.abs(term) <= ENOUGH * (scale + ENOUGH)):
            break
    return total


def _beta_by_shapes_value(i: Any, j: Any, a: Any, b: Any, x: Any) -> np.ndarray:
    """The derivative of betainc(a, b, x); where x is large, that of 1 - betainc(b, a, 1 - x)."""
    i, j = int(np.max(i)), int(np.max(j))
    a, b, x = np.broadcast_arrays(*[np.asarray(v, float) for v in (a, b, x)])
    with np.errstate(all="ignore"):
        is_low = x <= (a + 1) / (a + b + 2)
        low = _beta_series(i, j, a, b, np.where(is_low, x, 0.5 * (a + 1) / (a + b + 2)))
        high = _beta_series(j, i, b, a, np.where(is_low, 0.5 * (b + 1) / (a + b + 2), 1 - x))
        found = np.where(is_low, low, -high)
    return np.where((x <= 0) | (x >= 1), 0.0, found)


def _beta_by_shapes_and_x(i: Expr, j: Expr, a: Expr, b: Expr, x: Expr) -> Expr:
    logarithms = {(1, 0): log(x), (0, 1): log1p(-x)}

    def g(p: int, q: int) -> Any:
        found = _psi(p + q, a + b) + logarithms.get((p, q), 0.0)
        return found - (_psi(p, a) if q == 0 else _psi(q, b) if p == 0 else 0.0)

    return _beta_density(a, b, x) * _of_exponential(_order("betainc", i), _order("betainc", j), g)


betainc_by_shapes: Public = added(
    "betainc_by_shapes", none("betainc", "an order"), none("betainc", "an order"),
    lambda i, j, a, b, x: betainc_by_shapes(i + 1, j, a, b, x),
    lambda i, j, a, b, x: betainc_by_shapes(i, j + 1, a, b, x),
    _beta_by_shapes_and_x, value=_beta_by_shapes_value,
)  # fmt: skip
betainc: Public = added(
    "betainc", lambda a, b, x: betainc_by_shapes(1, 0, a, b, x), lambda a, b, x: betainc_by_shapes(0, 1, a, b, x),
    _beta_density, also="jax",
)  # fmt: skip


def _beta_inverse_by(i: int, j: int) -> Callable[[Expr, Expr, Expr], Expr]:
    def derivative(a: Expr, b: Expr, y: Expr) -> Expr:
        x = betaincinv(a, b, y)
        return -betainc_by_shapes(i, j, a, b, x) / _beta_density(a, b, x)

    return derivative


betaincinv: Public = added(
    "betaincinv", _beta_inverse_by(1, 0), _beta_inverse_by(0, 1),
    lambda a, b, y: reciprocal(_beta_density(a, b, betaincinv(a, b, y))),
)  # fmt: skip


# The distribution function of Student's t, and its inverse


def _student_density(df: Expr, t: Expr) -> Expr:
    scale = gammaln((df + 1) / 2) - gammaln(df / 2) - log(pi * df) / 2
    return exp(scale - (df + 1) / 2 * log1p(t * t / df))


def _student_by_freedom(df: Expr, t: Expr) -> Expr:
    """The derivative by df of 1 - betainc(df/2, 1/2, z) / 2 with z = df / (df + t²), for t > 0; it is odd in t."""
    z, total = df / (df + t * t), df + t * t
    scale = gammaln((df + 1) / 2) - gammaln(df / 2) - gammaln(0.5)
    at_place = t * exp(scale + (df / 2 - 1) * log(z)) * power(total, -1.5) / 2
    return -sign(t) * betainc_by_shapes(1, 0, df / 2, 0.5, z) / 4 - at_place


stdtr: Public = added("stdtr", _student_by_freedom, _student_density)
stdtrit: Public = added(
    "stdtrit", lambda df, p: -_student_by_freedom(df, stdtrit(df, p)) / _student_density(df, stdtrit(df, p)),
    lambda df, p: reciprocal(_student_density(df, stdtrit(df, p))),
)  # fmt: skip
