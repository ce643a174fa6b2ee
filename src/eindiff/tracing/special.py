"""Ufuncs of `scipy.special` in terms of functions that have expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as f
from eindiff.functions import incomplete
from eindiff.functions import multilinear as arrays
from eindiff.functions import scipy_functions as s
from eindiff.functions.multilinear import Operand, as_expr, divide, multiply
from eindiff.functions.special_functions import gammaln


def _betaln(a: Operand, b: Operand) -> Expr:
    return gammaln(a) + gammaln(b) - gammaln(arrays.add(a, b))


def _gamma_sign(x: Operand) -> Expr:
    whole = f.floor(x)
    is_even = f.equal(whole - 2 * f.floor(whole / 2), 0)
    return f.where(f.greater(x, 0), 1, f.where(is_even, 1, -1))


def _gamma(x: Operand) -> Expr:
    return _gamma_sign(x) * f.exp(gammaln(x))


def _huber(delta: Operand, r: Operand) -> Expr:
    size = f.abs(r)
    return f.where(f.greater(size, delta), multiply(delta, size - as_expr(delta) / 2), f.square(r) / 2)


def _boxcox(log: Callable[[Operand], Expr]) -> Callable[[Operand, Operand], Expr]:
    def transformed(x: Operand, power: Operand) -> Expr:
        power, is_log = as_expr(power), f.equal(power, 0)
        safe = power + is_log
        return f.where(is_log, log(x), divide(f.expm1(multiply(safe, log(x))), safe))

    return transformed


def _exprel(x: Operand) -> Expr:
    x = as_expr(x)
    at_zero = f.equal(x, 0)
    return f.where(at_zero, 1, divide(f.expm1(x), x + at_zero))


def _fisher(dfn: Operand, dfd: Operand, x: Operand) -> Expr:
    scaled = multiply(dfn, x)
    return incomplete.betainc(as_expr(dfn) / 2, as_expr(dfd) / 2, divide(scaled, arrays.add(dfd, scaled)))


def _fisher_inverse(dfn: Operand, dfd: Operand, p: Operand) -> Expr:
    x = incomplete.betaincinv(as_expr(dfn) / 2, as_expr(dfd) / 2, p)
    return divide(multiply(dfd, x), multiply(dfn, 1 - x))


def _polynomial(name: str, first: Callable[[Expr], Expr], step: Callable[[int, Expr, Expr, Expr], Expr]) -> Callable:
    """Orthogonal polynomials of a known degree, by their recurrence."""

    def evaluated(n: Operand, x: Operand) -> Expr:
        degree = arrays.coefficient_of(as_expr(n))
        if degree is None or degree != int(degree) or degree < 0:
            raise EindiffError(
                f"scipy.special.{name} of symbolic arrays: its degree is a number, 0, 1, 2, ...", "options"
            )
        x = as_expr(x)
        before, found = as_expr(1.0) + 0 * x, first(x)
        for k in range(1, int(degree)):
            before, found = found, step(k, x, found, before)
        return before if degree == 0 else found

    return evaluated


def _scaled(function: Callable[[Expr], Expr]) -> Callable[[Operand], Expr]:
    return lambda x: function(multiply(pi / 180, x))


SPECIAL: dict[str, Callable[..., Expr]] = {
    # gamma and beta
    "gamma": _gamma,
    "rgamma": lambda x: _gamma_sign(x) * f.exp(-gammaln(x)),
    "gammasgn": _gamma_sign,
    "loggamma": gammaln,
    "poch": lambda z, m: _gamma(arrays.add(z, m)) / _gamma(z),
    "betaln": _betaln,
    "beta": lambda a, b: f.exp(_betaln(a, b)) * _gamma_sign(a) * _gamma_sign(b) * _gamma_sign(arrays.add(a, b)),
    "binom": lambda n, k: f.exp(gammaln(1 + as_expr(n)) - gammaln(1 + as_expr(k)) - gammaln(1 + arrays.subtract(n, k))),
    "gammainc": incomplete.gammainc, "gammaincc": incomplete.gammaincc, "gammaincinv": incomplete.gammaincinv,
    "gammainccinv": incomplete.gammainccinv, "betainc": incomplete.betainc, "betaincinv": incomplete.betaincinv,
    "betaincc": lambda a, b, x: incomplete.betainc(b, a, 1 - as_expr(x)),
    # distributions
    "chdtr": lambda v, x: incomplete.gammainc(as_expr(v) / 2, as_expr(x) / 2),
    "chdtrc": lambda v, x: incomplete.gammaincc(as_expr(v) / 2, as_expr(x) / 2),
    "gdtr": lambda a, b, x: incomplete.gammainc(b, multiply(a, x)),
    "gdtrc": lambda a, b, x: incomplete.gammaincc(b, multiply(a, x)),
    "pdtr": lambda k, m: incomplete.gammaincc(f.floor(k) + 1, m),
    "pdtrc": lambda k, m: incomplete.gammainc(f.floor(k) + 1, m),
    "stdtr": incomplete.stdtr, "stdtrit": incomplete.stdtrit,
    "fdtr": _fisher, "fdtri": _fisher_inverse,
    "chdtri": lambda v, p: 2 * incomplete.gammainccinv(as_expr(v) / 2, p),
    "fdtrc": lambda dfn, dfd, x: 1 - _fisher(dfn, dfd, x),
    "ndtri": s.ndtri,
    # errors, exponentials, powers
    "erfcx": s.erfcx, "erfi": s.erfi, "dawsn": s.dawsn, "erfcinv": s.erfcinv,
    "exp1": s.exp1, "expi": s.expi, "expn": s.expn, "spence": s.spence, "exprel": _exprel,
    "exp10": lambda x: f.power(10.0, x),
    "cosm1": lambda x: -2 * f.square(f.sin(as_expr(x) / 2)),
    "powm1": lambda x, y: f.expm1(multiply(y, f.log(x))),
    "boxcox": _boxcox(f.log), "boxcox1p": _boxcox(f.log1p),
    "huber": _huber,
    "pseudo_huber": lambda d, r: multiply(f.square(d), f.sqrt(1 + f.square(divide(as_expr(r), d))) - 1),
    "sindg": _scaled(f.sin), "cosdg": _scaled(f.cos), "tandg": _scaled(f.tan),
    # Bessel functions
    **{name: getattr(s, name) for name in ("jv", "yv", "iv", "kv", "ive", "kve")},
    "yn": s.yv, "kn": s.kv,
    **{f"{kind}{order}": partial(getattr(s, f"{kind}v"), order) for kind in "jyik" for order in (0, 1)},
    **{f"{kind}{order}e": partial(getattr(s, f"{kind}ve"), order) for kind in "ik" for order in (0, 1)},
    # elliptic and hypergeometric functions, polynomials
    "ellipk": s.ellipk, "ellipe": s.ellipe, "hyp0f1": s.hyp0f1, "hyp1f1": s.hyp1f1, "hyp2f1": s.hyp2f1,
    "eval_legendre": _polynomial(
        "eval_legendre", lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)
    ),
    "eval_chebyt": _polynomial("eval_chebyt", lambda x: x, lambda k, x, p, q: 2 * x * p - q),
    "eval_chebyu": _polynomial("eval_chebyu", lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q),
    "eval_hermite": _polynomial("eval_hermite", lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q),
    "eval_hermitenorm": _polynomial("eval_hermitenorm", lambda x: x, lambda k, x, p, q: x * p - k * q),
    "eval_laguerre": _polynomial(
        "eval_laguerre", lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)
    ),
}  # fmt: skip
