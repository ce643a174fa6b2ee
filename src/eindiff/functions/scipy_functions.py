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
from eindiff.functions.elementwise import exp, log, reciprocal, sign
from eindiff.functions.multilinear import Operand, as_expr, broadcast
from eindiff.functions.opaque import REGISTRY
from eindiff.functions.table import OF_SCIPY, special

Public = Callable[..., Expr]


def by_name(name: str) -> Function:
    """A function of SciPy that was stored."""
    return OF_SCIPY[name]


def added(name: str, *derivatives: Derivative | None, value: Callable | None = None, also: str = "") -> Public:
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


def none(name: str, argument: str) -> Derivative:
    def refused(*_: Any) -> NoReturn:
        raise EindiffError(
            f"{name} has no derivative by {argument} in closed form; it has one by its other arguments", "tracing"
        )

    return refused


# Bessel functions


jv: Public = added("jv", none("jv", "its order"), lambda v, x: 0.5 * (jv(v - 1, x) - jv(v + 1, x)))
yv: Public = added("yv", none("yv", "its order"), lambda v, x: 0.5 * (yv(v - 1, x) - yv(v + 1, x)))
iv: Public = added("iv", none("iv", "its order"), lambda v, x: 0.5 * (iv(v - 1, x) + iv(v + 1, x)))
kv: Public = added("kv", none("kv", "its order"), lambda v, x: -0.5 * (kv(v - 1, x) + kv(v + 1, x)))
ive: Public = added(
    "ive", none("ive", "its order"), lambda v, x: 0.5 * (ive(v - 1, x) + ive(v + 1, x)) - sign(x) * ive(v, x)
)
kve: Public = added("kve", none("kve", "its order"), lambda v, x: kve(v, x) - 0.5 * (kve(v - 1, x) + kve(v + 1, x)))

# Error functions and integrals

erfcx: Public = added("erfcx", lambda x: 2 * x * erfcx(x) - 2 / sqrt(pi))
erfi: Public = added("erfi", lambda x: 2 / sqrt(pi) * exp(x * x))
dawsn: Public = added("dawsn", lambda x: 1 - 2 * x * dawsn(x))
erfcinv: Public = added("erfcinv", lambda x: -sqrt(pi) / 2 * exp(erfcinv(x) * erfcinv(x)))
ndtri: Public = added("ndtri", lambda x: sqrt(2 * pi) * exp(ndtri(x) * ndtri(x) / 2), also="jax cupy")
exp1: Public = added("exp1", lambda x: -exp(-x) * reciprocal(x), also="jax")
expi: Public = added("expi", lambda x: exp(x) * reciprocal(x), also="jax")
expn: Public = added("expn", none("expn", "its order"), lambda n, x: -expn(n - 1, x))
spence: Public = added("spence", lambda x: log(x) * reciprocal(1 - x), also="jax")
ellipk: Public = added("ellipk", lambda m: (ellipe(m) * reciprocal(1 - m) - ellipk(m)) * reciprocal(2 * m))
ellipe: Public = added("ellipe", lambda m: (ellipe(m) - ellipk(m)) * reciprocal(2 * m))
hyp1f1: Public = added(
    "hyp1f1", none("hyp1f1", "a"), none("hyp1f1", "b"), lambda a, b, x: a * reciprocal(b) * hyp1f1(a + 1, b + 1, x)
)
hyp2f1: Public = added(
    "hyp2f1", none("hyp2f1", "a"), none("hyp2f1", "b"), none("hyp2f1", "c"),
    lambda a, b, c, x: a * b * reciprocal(c) * hyp2f1(a + 1, b + 1, c + 1, x),
)  # fmt: skip
hyp0f1: Public = added("hyp0f1", none("hyp0f1", "v"), lambda v, x: reciprocal(v) * hyp0f1(v + 1, x))
zeta: Public = added("zeta", none("zeta", "x"), lambda x, q: -x * zeta(x + 1, q))

# The Faddeeva function of x + iy: w' = -2 z w + 2i / sqrt(pi)

wofz_real: Public = added(
    "wofz_real", lambda x, y: -2 * (x * wofz_real(x, y) - y * wofz_imag(x, y)),
    lambda x, y: 2 * (x * wofz_imag(x, y) + y * wofz_real(x, y)) - 2 / sqrt(pi),
    value=lambda x, y: special.wofz(np.add(x, np.multiply(1j, y))).real,
)  # fmt: skip
wofz_imag: Public = added(
    "wofz_imag", lambda x, y: 2 / sqrt(pi) - 2 * (x * wofz_imag(x, y) + y * wofz_real(x, y)),
    lambda x, y: -2 * (x * wofz_real(x, y) - y * wofz_imag(x, y)),
    value=lambda x, y: special.wofz(np.add(x, np.multiply(1j, y))).imag,
)  # fmt: skip

# The logarithm of the gamma function of x + iy; its derivative is the digamma function

_digamma_real = added(
    "digamma_real", none("digamma of a complex number", "its argument"), none("digamma of a complex number", "it"),
    value=lambda x, y: special.digamma(np.add(x, np.multiply(1j, y))).real,
)  # fmt: skip
_digamma_imag = added(
    "digamma_imag", none("digamma of a complex number", "its argument"), none("digamma of a complex number", "it"),
    value=lambda x, y: special.digamma(np.add(x, np.multiply(1j, y))).imag,
)  # fmt: skip
loggamma_real: Public = added(
    "loggamma_real", _digamma_real, lambda x, y: -_digamma_imag(x, y),
    value=lambda x, y: special.loggamma(np.add(x, np.multiply(1j, y))).real,
)  # fmt: skip
loggamma_imag: Public = added(
    "loggamma_imag", _digamma_imag, _digamma_real,
    value=lambda x, y: special.loggamma(np.add(x, np.multiply(1j, y))).imag,
)  # fmt: skip
