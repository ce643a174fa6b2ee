"""Powers with a known exponent, which products gather: each exponent is a function of its own."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from eindiff.core import intervals
from eindiff.core.coefficients import Number, is_whole, number
from eindiff.core.function import Function, quiet
from eindiff.core.nodes import Expr, Map


@lru_cache(maxsize=1024)
def power_function(exponent: Number) -> Function:
    """The function `x ** exponent`."""
    domain = "positive" if not is_whole(exponent) else "real" if exponent > 0 else "nonzero"

    def derivative(x: Expr) -> Expr:
        return exponent * known_power(x, number(exponent - 1))

    return Function(
        "pow", quiet(lambda x: _value(exponent, x)), (derivative,), domain, parameter=exponent,
        maker=(power_function, (exponent,)),
        bounds=lambda _, x: intervals.power(exponent, x),
    )  # fmt: skip


def _value(exponent: Number, x: Any) -> Any:
    if exponent == Fraction(1, 2):
        return np.sqrt(x)
    if exponent == -1:
        return np.divide(1.0, x)
    return np.power(np.asarray(x, dtype=float), float(exponent))


def known_power(base: Expr, exponent: Number) -> Expr:
    """`base ** exponent` for a known exponent."""
    return Map.make(power_function(exponent), (base,))


def power_parts(node: Expr) -> tuple[Expr, Number]:
    """Base and exponent of a node: itself and 1 unless it is a power with a known exponent."""
    if isinstance(node, Map) and node.function.name == "pow":
        return node.args[0], node.function.parameter
    return node, 1
