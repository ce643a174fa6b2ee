"""Elementwise functions that SciPy has: error functions and gamma functions."""

from __future__ import annotations

import math
from math import inf, pi
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.intervals import UNKNOWN, Increasing, negative, within
from eindiff.core.nodes import Expr
from eindiff.functions.elementwise import ODD, exp
from eindiff.functions.multilinear import Operand, as_expr, broadcast
from eindiff.functions.series import integral
from eindiff.functions.table import Elementwise, called, elementwise, row, special, written

_NO_POLE = "anything but 0 and negative integers"


def series_erf(t: Any, n: int) -> list:
    c = [1.1283791670955126 * np.exp(-t * t)]
    for k in range(n - 1):
        c.append(-2 * (t * c[k] + (c[k - 1] if k else 0)) / (k + 1))
    return integral(special.erf(t), c)


erf: Elementwise = elementwise(
    "erf", "special.erf", lambda x: 2 / math.sqrt(pi) * exp(-(x * x)), "The error function.",
    others={"torch": "torch.erf", "tensorflow": "tf.math.erf"},
    series=series_erf, bounds=Increasing("same", value=math.erf), parity=ODD,
)  # fmt: skip
_falling_erfc = Increasing("none", value=lambda x: -math.erfc(x))
erfc: Elementwise = elementwise(
    "erfc", "special.erfc", lambda x: -2 / math.sqrt(pi) * exp(-(x * x)), "1 - erf(x), accurate where that is small.",
    others={"torch": "torch.erfc", "tensorflow": "tf.math.erfc"},
    bounds=lambda row, x: negative(_falling_erfc(row, x)), positive=True,
)  # fmt: skip
erfinv: Elementwise = elementwise(
    "erfinv", "special.erfinv", lambda x: math.sqrt(pi) / 2 * exp(erfinv(x) * erfinv(x)),
    "The inverse of the error function.",
    others={"torch": "torch.erfinv", "tensorflow": "tf.math.erfinv"}, names={"jax": "erf_inv"},
    domain="between -1 and 1", latex=r"\operatorname{erf}^{-1}", bounds=Increasing("same", -1, 1), parity=ODD,
)  # fmt: skip
log_ndtr: Elementwise = elementwise(
    "log_ndtr", "special.log_ndtr", lambda x: exp(-(x * x) / 2 - log_ndtr(x)) / math.sqrt(2 * pi),
    "The logarithm of the distribution function of a normal variable.",
    others={"torch": "torch.special.log_ndtr"}, names={"jax": "", "torch": "special_log_ndtr"},
    latex=r"\log\Phi", bounds=Increasing("none"),
)  # fmt: skip
gammaln: Elementwise = elementwise(
    "gammaln", "special.gammaln", lambda x: digamma(x), "The logarithm of the absolute value of the gamma function.",
    others={"torch": "torch.lgamma", "tensorflow": "tf.math.lgamma"}, names={"jax": "lgamma", "torch": "lgamma"},
    domain=_NO_POLE, latex=r"\log\Gamma", bounds=within(-inf, inf),
)  # fmt: skip
_rising_digamma = Increasing(start=0)
digamma: Elementwise = elementwise(
    "digamma", "special.digamma", lambda x: polygamma(1, x), "The derivative of the logarithm of the gamma function.",
    others={"torch": "torch.digamma", "tensorflow": "tf.math.digamma"}, names={"numpy": "psi"},
    domain=_NO_POLE, latex=r"\psi", bounds=lambda row, x: _rising_digamma(row, x) if x.low >= 0 else UNKNOWN,
)  # fmt: skip


def polygamma(order: Operand, x: Operand) -> Expr:
    """The derivative of the digamma function, `order` times.

    Args:
        order: a whole number, 1 or more
        x: a tensor expression, an array or a number

    >>> x = ed.vector("x", "n")
    >>> ed.gradient(ed.sum(ed.digamma(x)), x) == ed.polygamma(1, x)
    True

    See also: `digamma`, `gammaln`.
    """
    return construct.map_(_polygamma, broadcast("polygamma", [as_expr(order), as_expr(x)]))


_polygamma = row(
    "polygamma", lambda n, x: special.polygamma(n, x), None, lambda n, x: polygamma(n + 1, x), domain=_NO_POLE,
    latex=r"\operatorname{polygamma}", public=polygamma, names=called("polygamma", {"numpy": ""}),
    bounds=within(-inf, inf),
    source=written("special.polygamma", 2, {
        "jax": "special.polygamma(int({0}), {1})", "torch": "torch.special.polygamma(int({0}), {1})",
        "cupy": "special.polygamma({0}, {1}).astype(DTYPE)",
        "tensorflow": "tf.math.polygamma(tf.convert_to_tensor({0}, DTYPE), {1})",
    }),
)  # fmt: skip
