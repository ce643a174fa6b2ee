"""Elementwise functions that SciPy has and other libraries have not: Bessel functions, incomplete integrals, and such.

They are no rows of the table, which all libraries can write; programs of NumPy call SciPy for them. Derivatives by an
order or a parameter that have no closed form are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt
from typing import Any, NoReturn

import numpy as np

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.function import Derivative, Function, quiet
from eindiff.core.intervals import within
from eindiff.core.nodes import Expr
from eindiff.functions.elementwise import exp, log, log1p, reciprocal, sign
from eindiff.functions.multilinear import Operand, as_expr, broadcast
from eindiff.functions.opaque import REGISTRY
from eindiff.functions.special_functions import digamma, gammaln
from eindiff.functions.table import OF_SCIPY, special

Public = Callable[..., Expr]


def by_name(name: str) -> Function:
    """A function of SciPy that was stored."""
    return OF_SCIPY[name]


def _added(name: str, *derivatives: Derivative | None, value: Callable | None = None, also: str = "") -> Public:
    """Add a function of SciPy; one with a value of its own is called by its name, `also` are libraries that have it."""
    slots = ", ".join(f"{{{k}}}" for k in range(len(derivatives)))
    if value is not None:
        REGISTRY[name] = value
    text = f"{name if value else f'special.{name}'}({slots})"
    function = OF_SCIPY[name] = Function(
        name, quiet(value or (lambda *args: getattr(special, name)(*args))), derivatives, domain="where SciPy has it",
        latex=rf"\operatorname{{{name.replace('_', ' ')}}}", source=dict.fromkeys(("numpy", *also.split()), text),
        bounds=within(-inf, inf), maker=(by_name, (name,)),
    )  # fmt: skip

    def public(*args: Operand) -> Expr:
        return construct.map_(function, broadcast(name, [as_expr(arg) for arg in args]))

    return public


def _none(name: str, argument: str) -> Derivative:
    def refused(*_: Any) -> NoReturn:
        raise EindiffError(
            f"{name} has no derivative by {argument} in closed form; it has one by its other arguments", "tracing"
        )

    return refused


# Bessel functions


jv: Public = _added("jv", _none("jv", "its order"), lambda v, x: 0.5 * (jv(v - 1, x) - jv(v + 1, x)))
yv: Public = _added("yv", _none("yv", "its order"), lambda v, x: 0.5 * (yv(v - 1, x) - yv(v + 1, x)))
iv: Public = _added("iv", _none("iv", "its order"), lambda v, x: 0.5 * (iv(v - 1, x) + iv(v + 1, x)))
kv: Public = _added("kv", _none("kv", "its order"), lambda v, x: -0.5 * (kv(v - 1, x) + kv(v + 1, x)))
ive: Public = _added(
    "ive", _none("ive", "its order"), lambda v, x: 0.5 * (ive(v - 1, x) + ive(v + 1, x)) - sign(x) * ive(v, x)
)
kve: Public = _added(
    "kve", _none("kve", "its order"), lambda v, x: kve(v, x) - 0.5 * (kve(v - 1, x) + kve(v + 1, x))
)

# Error functions and integrals

erfcx: Public = _added("erfcx", lambda x: 2 * x * erfcx(x) - 2 / sqrt(pi))
erfi: Public = _added("erfi", lambda x: 2 / sqrt(pi) * exp(x * x))
dawsn: Public = _added("dawsn", lambda x: 1 - 2 * x * dawsn(x))
erfcinv: Public = _added("erfcinv", lambda x: -sqrt(pi) / 2 * exp(erfcinv(x) * erfcinv(x)))
ndtri: Public = _added("ndtri", lambda x: sqrt(2 * pi) * exp(ndtri(x) * ndtri(x) / 2), also="jax cupy")
exp1: Public = _added("exp1", lambda x: -exp(-x) * reciprocal(x), also="jax")
expi: Public = _added("expi", lambda x: exp(x) * reciprocal(x), also="jax")
expn: Public = _added("expn", _none("expn", "its order"), lambda n, x: -expn(n - 1, x))
spence: Public = _added("spence", lambda x: log(x) * reciprocal(1 - x), also="jax")
ellipk: Public = _added("ellipk", lambda m: (ellipe(m) * reciprocal(1 - m) - ellipk(m)) * reciprocal(2 * m))
ellipe: Public = _added("ellipe", lambda m: (ellipe(m) - ellipk(m)) * reciprocal(2 * m))
hyp1f1: Public = _added(
    "hyp1f1", _none("hyp1f1", "a"), _none("hyp1f1", "b"), lambda a, b, x: a * reciprocal(b) * hyp1f1(a + 1, b + 1, x)
)
hyp2f1: Public = _added(
    "hyp2f1", _none("hyp2f1", "a"), _none("hyp2f1", "b"), _none("hyp2f1", "c"),
    lambda a, b, c, x: a * b * reciprocal(c) * hyp2f1(a + 1, b + 1, c + 1, x),
)  # fmt: skip
hyp0f1: Public = _added("hyp0f1", _none("hyp0f1", "v"), lambda v, x: reciprocal(v) * hyp0f1(v + 1, x))
zeta: Public = _added("zeta", _none("zeta", "x"), lambda x, q: -x * zeta(x + 1, q))

# The Faddeeva function of x + iy: w' = -2 z w + 2i / sqrt(pi)

wofz_real: Public = _added(
    "wofz_real", lambda x, y: -2 * (x * wofz_real(x, y) - y * wofz_imag(x, y)),
    lambda x, y: 2 * (x * wofz_imag(x, y) + y * wofz_real(x, y)) - 2 / sqrt(pi),
    value=lambda x, y: special.wofz(np.add(x, np.multiply(1j, y))).real,
)  # fmt: skip
wofz_imag: Public = _added(
    "wofz_imag", lambda x, y: 2 / sqrt(pi) - 2 * (x * wofz_imag(x, y) + y * wofz_real(x, y)),
    lambda x, y: -2 * (x * wofz_real(x, y) - y * wofz_imag(x, y)),
    value=lambda x, y: special.wofz(np.add(x, np.multiply(1j, y))).imag,
)  # fmt: skip

# The logarithm of the gamma function of x + iy; its derivative is the digamma function

_digamma_real = _added(
    "digamma_real", _none("digamma of a complex number", "its argument"), _none("digamma of a complex number", "it"),
    value=lambda x, y: special.digamma(np.add(x, np.multiply(1j, y))).real,
)  # fmt: skip
_digamma_imag = _added(
    "digamma_imag", _none("digamma of a complex number", "its argument"), _none("digamma of a complex number", "it"),
    value=lambda x, y: special.digamma(np.add(x, np.multiply(1j, y))).imag,
)  # fmt: skip
loggamma_real: Public = _added(
    "loggamma_real", _digamma_real, lambda x, y: -_digamma_imag(x, y),
    value=lambda x, y: special.loggamma(np.add(x, np.multiply(1j, y))).real,
)  # fmt: skip
loggamma_imag: Public = _added(
    "loggamma_imag", _digamma_imag, _digamma_real,
    value=lambda x, y: special.loggamma(np.add(x, np.multiply(1j, y))).imag,
)  # fmt: skip

# Incomplete gamma and beta functions


def _gamma_density(a: Expr, x: Expr) -> Expr:
    return exp((a - 1) * log(x) - x - gammaln(a))


def _beta_density(a: Expr, b: Expr, x: Expr) -> Expr:
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - gammaln(a) - gammaln(b) + gammaln(a + b))


TERMS, ENOUGH = 4000, 1e-17  # of series: how many at most, and when they are too small to count


def _by_shape_value(a: Any, x: Any) -> np.ndarray:
    """The derivative of gammainc(a, x) by a: that of x^(a+n) exp(-x) / gamma(a+n+1), added up over n."""
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    total, scale = np.zeros(a.shape), np.zeros(a.shape)
    for n in range(TERMS):
        term = np.where(x > 0, np.exp((a + n) * np.log(x) - x - special.gammaln(a + n + 1)), 0.0)
        term = term * np.where(x > 0, np.log(x) - special.digamma(a + n + 1), 0.0)
        total, scale = total + term, np.maximum(scale, np.abs(term))
        if n > np.max(x, initial=0.0) and np.all(np.abs(term) <= ENOUGH * (scale + ENOUGH)):
            break
    return total


gammainc_by_shape: Public = _added(
    "gammainc_by_shape", _none("gammainc", "a, two times,"),
    lambda a, x: _gamma_density(a, x) * (log(x) - digamma(a)), value=_by_shape_value,
)  # fmt: skip
gammainc: Public = _added("gammainc", lambda a, x: gammainc_by_shape(a, x), _gamma_density, also="jax cupy")
gammaincc: Public = _added(
    "gammaincc", lambda a, x: -gammainc_by_shape(a, x), lambda a, x: -_gamma_density(a, x), also="jax cupy"
)
gammaincinv: Public = _added(
    "gammaincinv", lambda a, y: -gammainc_by_shape(a, gammaincinv(a, y)) / _gamma_density(a, gammaincinv(a, y)),
    lambda a, y: reciprocal(_gamma_density(a, gammaincinv(a, y))),
)  # fmt: skip


def _beta_series(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of betainc(a, b, x) by a and by b, for x below (a + 1) / (a + b + 2)."""
    first = a * np.log(x) + b * np.log1p(-x) - np.log(a) - special.betaln(a, b)
    by_a = np.log(x) - 1 / a - special.digamma(a) + special.digamma(a + b)
    by_b = np.log1p(-x) - special.digamma(b) + special.digamma(a + b)
    term, found = np.exp(first), [np.zeros(a.shape), np.zeros(a.shape)]
    for n in range(TERMS):
        found = [found[0] + term * by_a, found[1] + term * by_b]
        if np.all(term * (1 + np.abs(by_a) + np.abs(by_b)) <= ENOUGH):
            break
        term = term * x * (a + b + n) / (a + 1 + n)
        by_a, by_b = by_a + 1 / (a + b + n) - 1 / (a + 1 + n), by_b + 1 / (a + b + n)
    return found[0], found[1]


def _by_beta_shape(a: Any, b: Any, x: Any, which: int) -> np.ndarray:
    a, b, x = np.broadcast_arrays(*[np.asarray(v, float) for v in (a, b, x)])
    with np.errstate(all="ignore"):
        is_low = x <= (a + 1) / (a + b + 2)
        low = _beta_series(a, b, np.where(is_low, x, 0.5 * (a + 1) / (a + b + 2)))
        high = _beta_series(b, a, np.where(is_low, 0.5 * (b + 1) / (a + b + 2), 1 - x))
        found = np.where(is_low, low[which], -high[1 - which])
    return np.where((x <= 0) | (x >= 1), 0.0, found)


betainc_by_a: Public = _added(
    "betainc_by_a", _none("betainc", "a, two times,"), _none("betainc", "a and b"),
    lambda a, b, x: _beta_density(a, b, x) * (log(x) - digamma(a) + digamma(a + b)),
    value=lambda a, b, x: _by_beta_shape(a, b, x, 0),
)  # fmt: skip
betainc_by_b: Public = _added(
    "betainc_by_b", _none("betainc", "a and b"), _none("betainc", "b, two times,"),
    lambda a, b, x: _beta_density(a, b, x) * (log1p(-x) - digamma(b) + digamma(a + b)),
    value=lambda a, b, x: _by_beta_shape(a, b, x, 1),
)  # fmt: skip
betainc: Public = _added(
    "betainc", lambda a, b, x: betainc_by_a(a, b, x), lambda a, b, x: betainc_by_b(a, b, x), _beta_density, also="jax"
)
