"""Densities and distribution functions of `scipy.stats`, in standard form, with NumPy and `scipy.special`.

A row has the support, the logarithm of the density (or of the probabilities), and the distribution function and its
inverse if they have a form, of z = (x - loc) / scale and the shape parameters, in SciPy's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, pi, sqrt
from typing import Any

import numpy as np
from scipy import special as sp

Formula = Callable[..., Any]
_LOG_ROOT = 0.5 * log(2 * pi)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution in standard form."""

    shapes: str  # names of its parameters
    logpdf: Formula
    cdf: Formula | None = None
    sf: Formula | None = None
    logcdf: Formula | None = None
    ppf: Formula | None = None
    support: Callable[..., tuple[Any, Any]] = lambda *_: (-inf, inf)
    is_discrete: bool = False


def _positive(*_: Any) -> tuple[float, float]:
    return 0.0, inf


def _unit(*_: Any) -> tuple[float, float]:
    return 0.0, 1.0


def _normal(z: Any) -> Any:
    return -(z**2) / 2 - _LOG_ROOT


def _inverse_gauss_cdf(z: Any, mu: Any) -> Any:
    root = 1 / np.sqrt(z)
    return sp.ndtr(root * (z / mu - 1)) + np.exp(2 / mu + sp.log_ndtr(-root * (z / mu + 1)))


def _extreme(z: Any, c: Any) -> Any:
    """log(1 - c z) / c, which is -z for c = 0."""
    return -z if np.ndim(c) == 0 and bool(np.equal(c, 0)) else np.log1p(-c * z) / c


def _extreme_support(c: Any) -> tuple[Any, Any]:
    if bool(np.all(np.greater(c, 0))):
        return -inf, 1 / c
    return (1 / c, inf) if bool(np.all(np.less(c, 0))) else (-inf, inf)


def _pareto(z: Any, c: Any) -> Any:
    return z if np.ndim(c) == 0 and bool(np.equal(c, 0)) else np.log1p(c * z) / c


def _pareto_support(c: Any) -> tuple[Any, Any]:
    return (0.0, -1 / c) if bool(np.all(np.less(c, 0))) else (0.0, inf)


def _growth(z: Any, c: Any) -> Any:
    """(exp(c z) - 1) / c, which is z for c = 0."""
    return z if np.ndim(c) == 0 and bool(np.equal(c, 0)) else np.expm1(c * z) / c


def _choose(n: Any, k: Any) -> Any:
    return sp.gammaln(np.add(n, 1)) - sp.gammaln(np.add(k, 1)) - sp.gammaln(np.subtract(n, k) + 1)


def _up(f: Formula) -> Formula:
    """A distribution function at the integer below."""
    return lambda k, *shapes: f(np.floor(k), *shapes)


DISTRIBUTIONS: dict[str, Distribution] = {
    "norm": Distribution("", _normal, sp.ndtr, lambda z: sp.ndtr(-z), sp.log_ndtr, ppf=sp.ndtri),
    "expon": Distribution(
        "", lambda z: -z, lambda z: -np.expm1(-z), lambda z: np.exp(-z), support=_positive, ppf=lambda q: -np.log1p(-q)
    ),
    "uniform": Distribution("", lambda z: 0.0 * z, lambda z: 1.0 * z, support=_unit, ppf=lambda q: 1.0 * q),
    "laplace": Distribution(
        "",
        lambda z: log(0.5) - np.abs(z),
        lambda z: np.where(z > 0, 1 - 0.5 * np.exp(-np.abs(z)), 0.5 * np.exp(-np.abs(z))),
        ppf=lambda q: np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
    ),
    "logistic": Distribution(
        "",
        lambda z: -z - 2 * np.logaddexp(0, -z),
        sp.expit,
        lambda z: sp.expit(-z),
        lambda z: -np.logaddexp(0, -z),
        ppf=sp.logit,
    ),
    "cauchy": Distribution(
        "", lambda z: -log(pi) - np.log1p(z**2), lambda z: 0.5 + np.arctan(z) / pi, ppf=lambda q: np.tan(pi * (q - 0.5))
    ),
    "gumbel_r": Distribution(
        "",
        lambda z: -z - np.exp(-z),
        lambda z: np.exp(-np.exp(-z)),
        None,
        lambda z: -np.exp(-z),
        ppf=lambda q: -np.log(-np.log(q)),
    ),
    "gumbel_l": Distribution(
        "",
        lambda z: z - np.exp(z),
        lambda z: -np.expm1(-np.exp(z)),
        lambda z: np.exp(-np.exp(z)),
        ppf=lambda q: np.log(-np.log1p(-q)),
    ),
    "hypsecant": Distribution(
        "",
        lambda z: -log(pi) - np.log(np.cosh(z)),
        lambda z: 2 / pi * np.arctan(np.exp(z)),
        ppf=lambda q: np.log(np.tan(pi / 2 * q)),
    ),
    "rayleigh": Distribution(
        "",
        lambda z: np.log(z) - z**2 / 2,
        lambda z: -np.expm1(-(z**2) / 2),
        lambda z: np.exp(-(z**2) / 2),
        support=_positive,
        ppf=lambda q: np.sqrt(-2 * np.log1p(-q)),
    ),
    "maxwell": Distribution(
        "",
        lambda z: 0.5 * log(2 / pi) + 2 * np.log(z) - z**2 / 2,
        lambda z: sp.gammainc(1.5, z**2 / 2),
        support=_positive,
        ppf=lambda q: np.sqrt(2 * sp.gammaincinv(1.5, q)),
    ),
    "halfnorm": Distribution(
        "",
        lambda z: 0.5 * log(2 / pi) - z**2 / 2,
        lambda z: sp.erf(z / sqrt(2)),
        lambda z: sp.erfc(z / sqrt(2)),
        support=_positive,
        ppf=lambda q: sp.ndtri((1 + q) / 2),
    ),
    "halfcauchy": Distribution(
        "",
        lambda z: log(2 / pi) - np.log1p(z**2),
        lambda z: 2 / pi * np.arctan(z),
        support=_positive,
        ppf=lambda q: np.tan(pi / 2 * q),
    ),
    "halflogistic": Distribution(
        "",
        lambda z: log(2) - z - 2 * np.log1p(np.exp(-z)),
        lambda z: np.tanh(z / 2),
        support=_positive,
        ppf=lambda q: 2 * np.arctanh(q),
    ),
    "levy": Distribution(
        "",
        lambda z: -_LOG_ROOT - 1.5 * np.log(z) - 0.5 / z,
        lambda z: sp.erfc(np.sqrt(0.5 / z)),
        support=_positive,
        ppf=lambda q: sp.ndtri(q / 2) ** -2.0,
    ),
    "gamma": Distribution(
        "a",
        lambda z, a: sp.xlogy(a - 1, z) - z - sp.gammaln(a),
        lambda z, a: sp.gammainc(a, z),
        lambda z, a: sp.gammaincc(a, z),
        support=_positive,
        ppf=lambda q, a: sp.gammaincinv(a, q),
    ),
    "invgamma": Distribution(
        "a",
        lambda z, a: -(a + 1) * np.log(z) - sp.gammaln(a) - 1 / z,
        lambda z, a: sp.gammaincc(a, 1 / z),
        lambda z, a: sp.gammainc(a, 1 / z),
        support=_positive,
        ppf=lambda q, a: 1 / sp.gammainccinv(a, q),
    ),
    "loggamma": Distribution(
        "c",
        lambda z, c: c * z - np.exp(z) - sp.gammaln(c),
        lambda z, c: sp.gammainc(c, np.exp(z)),
        ppf=lambda q, c: np.log(sp.gammaincinv(c, q)),
    ),
    "chi2": Distribution(
        "df",
        lambda z, df: sp.xlogy(df / 2 - 1, z) - z / 2 - sp.gammaln(df / 2) - log(2) * df / 2,
        lambda z, df: sp.gammainc(df / 2, z / 2),
        lambda z, df: sp.gammaincc(df / 2, z / 2),
        support=_positive,
        ppf=lambda q, df: 2 * sp.gammaincinv(df / 2, q),
    ),
    "chi": Distribution(
        "df",
        lambda z, df: log(2) - 0.5 * log(2) * df - sp.gammaln(df / 2) + sp.xlogy(df - 1, z) - z**2 / 2,
        lambda z, df: sp.gammainc(df / 2, z**2 / 2),
        lambda z, df: sp.gammaincc(df / 2, z**2 / 2),
        support=_positive,
        ppf=lambda q, df: np.sqrt(2 * sp.gammaincinv(df / 2, q)),
    ),
    "nakagami": Distribution(
        "nu",
        lambda z, nu: log(2) + sp.xlogy(nu, nu) - sp.gammaln(nu) + sp.xlogy(2 * nu - 1, z) - nu * z**2,
        lambda z, nu: sp.gammainc(nu, nu * z**2),
        support=_positive,
        ppf=lambda q, nu: np.sqrt(sp.gammaincinv(nu, q) / nu),
    ),
    "beta": Distribution(
        "a, b",
        lambda z, a, b: sp.xlog1py(b - 1, -z) + sp.xlogy(a - 1, z) - sp.betaln(a, b),
        lambda z, a, b: sp.betainc(a, b, z),
        support=_unit,
        ppf=lambda q, a, b: sp.betaincinv(a, b, q),
    ),
    "t": Distribution(
        "df",
        lambda z, df: (
            sp.gammaln((df + 1) / 2) - sp.gammaln(df / 2) - 0.5 * np.log(df * pi) - (df + 1) / 2 * np.log1p(z**2 / df)
        ),
        lambda z, df: sp.stdtr(df, z),
        lambda z, df: sp.stdtr(df, -z),
        ppf=lambda q, df: sp.stdtrit(df, q),
    ),
    "f": Distribution(
        "dfn, dfd",
        lambda z, n, d: (
            d / 2 * np.log(d)
            + n / 2 * np.log(n)
            + sp.xlogy(n / 2 - 1, z)
            - (n + d) / 2 * np.log(d + n * z)
            - sp.betaln(n / 2, d / 2)
        ),
        lambda z, n, d: sp.fdtr(n, d, z),
        lambda z, n, d: sp.fdtrc(n, d, z),
        support=_positive,
        ppf=lambda q, n, d: sp.fdtri(n, d, q),
    ),
    "lognorm": Distribution(
        "s",
        lambda z, s: -(np.log(z) ** 2) / (2 * s**2) - np.log(s * z) - _LOG_ROOT,
        lambda z, s: sp.ndtr(np.log(z) / s),
        lambda z, s: sp.ndtr(-np.log(z) / s),
        lambda z, s: sp.log_ndtr(np.log(z) / s),
        support=_positive,
        ppf=lambda q, s: np.exp(s * sp.ndtri(q)),
    ),
    "weibull_min": Distribution(
        "c",
        lambda z, c: np.log(c) + sp.xlogy(c - 1, z) - z**c,
        lambda z, c: -np.expm1(-(z**c)),
        lambda z, c: np.exp(-(z**c)),
        support=_positive,
        ppf=lambda q, c: (-np.log1p(-q)) ** (1 / c),
    ),
    "weibull_max": Distribution(
        "c",
        lambda z, c: np.log(c) + sp.xlogy(c - 1, -z) - (-z) ** c,
        lambda z, c: np.exp(-((-z) ** c)),
        support=lambda *_: (-inf, 0.0),
        ppf=lambda q, c: -((-np.log(q)) ** (1 / c)),
    ),
    "pareto": Distribution(
        "b",
        lambda z, b: np.log(b) - (b + 1) * np.log(z),
        lambda z, b: 1 - z ** (-b),
        lambda z, b: z ** (-b),
        support=lambda *_: (1.0, inf),
        ppf=lambda q, b: (1 - q) ** (-1 / b),
    ),
    "lomax": Distribution(
        "c",
        lambda z, c: np.log(c) - (c + 1) * np.log1p(z),
        lambda z, c: -np.expm1(-c * np.log1p(z)),
        lambda z, c: np.exp(-c * np.log1p(z)),
        support=_positive,
        ppf=lambda q, c: np.expm1(-np.log1p(-q) / c),
    ),
    "powerlaw": Distribution(
        "a",
        lambda z, a: np.log(a) + sp.xlogy(a - 1, z),
        lambda z, a: z**a,
        support=_unit,
        ppf=lambda q, a: q ** (1 / a),
    ),
    "fisk": Distribution(
        "c",
        lambda z, c: np.log(c) - (c + 1) * np.log(z) - 2 * np.log1p(z ** (-c)),
        lambda z, c: 1 / (1 + z ** (-c)),
        support=_positive,
        ppf=lambda q, c: np.exp(sp.logit(q) / c),
    ),
    "triang": Distribution(
        "c",
        lambda z, c: np.log(np.where(z < c, 2 * z / c, 2 * (1 - z) / (1 - c))),
        lambda z, c: np.where(z < c, z**2 / c, (z**2 - 2 * z + c) / (c - 1)),
        support=_unit,
        ppf=lambda q, c: np.where(q < c, np.sqrt(c * q), 1 - np.sqrt((1 - c) * (1 - q))),
    ),
    "skewnorm": Distribution("a", lambda z, a: log(2) + _normal(z) + sp.log_ndtr(a * z)),
    "exponnorm": Distribution(  # a normal variable plus an exponential one
        "K",
        lambda z, K: -np.log(K) + 0.5 / K**2 - z / K + sp.log_ndtr(z - 1 / K),
        lambda z, K: sp.ndtr(z) - np.exp(0.5 / K**2 - z / K + sp.log_ndtr(z - 1 / K)),
    ),
    "gennorm": Distribution(
        "beta",
        lambda z, b: np.log(0.5 * b) - sp.gammaln(1 / b) - np.abs(z) ** b,
        lambda z, b: 0.5 + np.sign(z) / 2 * sp.gammainc(1 / b, np.abs(z) ** b),
        ppf=lambda q, b: np.sign(q - 0.5) * sp.gammaincinv(1 / b, np.abs(2 * q - 1)) ** (1 / b),
    ),
    "invgauss": Distribution(
        "mu",
        lambda z, mu: -_LOG_ROOT - 1.5 * np.log(z) - (z / mu - 1) ** 2 / (2 * z),
        _inverse_gauss_cdf,
        support=_positive,
    ),
    "foldnorm": Distribution(
        "c",
        lambda z, c: _normal(z - c) + np.logaddexp(0, -2 * c * z),
        lambda z, c: sp.ndtr(z - c) - sp.ndtr(-z - c),
        support=_positive,
    ),
    "truncnorm": Distribution(
        "a, b",
        lambda z, a, b: _normal(z) - np.log(sp.ndtr(b) - sp.ndtr(a)),
        lambda z, a, b: (sp.ndtr(z) - sp.ndtr(a)) / (sp.ndtr(b) - sp.ndtr(a)),
        support=lambda a, b: (a, b),
        ppf=lambda q, a, b: sp.ndtri(sp.ndtr(a) + q * (sp.ndtr(b) - sp.ndtr(a))),
    ),
    "truncexpon": Distribution(
        "b",
        lambda z, b: -z - np.log(-np.expm1(-b)),
        lambda z, b: np.expm1(-z) / np.expm1(-b),
        support=lambda b: (0.0, b),
        ppf=lambda q, b: -np.log1p(q * np.expm1(-b)),
    ),
    "vonmises": Distribution("kappa", lambda z, k: k * (np.cos(z) - 1) - log(2 * pi) - np.log(sp.i0e(k))),
    "genextreme": Distribution(
        "c",
        lambda z, c: (1 - c) * _extreme(z, c) - np.exp(_extreme(z, c)),
        lambda z, c: np.exp(-np.exp(_extreme(z, c))),
        support=_extreme_support,
        ppf=lambda q, c: -_growth(np.log(-np.log(q)), c),
    ),
    "genpareto": Distribution(
        "c",
        lambda z, c: -(c + 1) * _pareto(z, c),
        lambda z, c: -np.expm1(-_pareto(z, c)),
        lambda z, c: np.exp(-_pareto(z, c)),
        support=_pareto_support,
        ppf=lambda q, c: _growth(-np.log1p(-q), c),
    ),
    "poisson": Distribution(
        "mu",
        lambda k, mu: sp.xlogy(k, mu) - sp.gammaln(k + 1) - mu,
        _up(lambda k, mu: sp.gammaincc(k + 1, mu)),
        _up(lambda k, mu: sp.gammainc(k + 1, mu)),
        support=_positive,
        is_discrete=True,
    ),
    "bernoulli": Distribution(
        "p",
        lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p),
        _up(lambda k, p: np.where(k >= 1, 1.0, 1 - p)),
        support=_unit,
        is_discrete=True,
    ),
    "binom": Distribution(
        "n, p",
        lambda k, n, p: _choose(n, k) + sp.xlogy(k, p) + sp.xlog1py(n - k, -p),
        _up(lambda k, n, p: sp.betainc(n - k, k + 1, 1 - p)),
        support=lambda n, p: (0.0, n),
        is_discrete=True,
    ),
    "nbinom": Distribution(
        "n, p",
        lambda k, n, p: sp.gammaln(n + k) - sp.gammaln(k + 1) - sp.gammaln(n) + n * np.log(p) + sp.xlog1py(k, -p),
        _up(lambda k, n, p: sp.betainc(n, k + 1, p)),
        support=_positive,
        is_discrete=True,
    ),
    "geom": Distribution(
        "p",
        lambda k, p: sp.xlog1py(k - 1, -p) + np.log(p),
        _up(lambda k, p: -np.expm1(k * np.log1p(-p))),
        _up(lambda k, p: np.exp(k * np.log1p(-p))),
        support=lambda *_: (1.0, inf),
        is_discrete=True,
    ),
}
DISTRIBUTIONS["erlang"] = DISTRIBUTIONS["gamma"]
