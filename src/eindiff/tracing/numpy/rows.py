"""Elementwise functions of NumPy and SciPy that the table of functions has no row for: rounding, gamma functions.

Programs call them by their names, which `REGISTRY` has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.nodes import Expr
from eindiff.functions.multilinear import Operand, as_expr, divide, multiply, subtract
from eindiff.functions.opaque import REGISTRY


def _row(name: str, value: Callable[[Any], Any], derivative: Callable[[Expr], Expr] | None) -> Callable[..., Expr]:
    """A function of scalars that is applied along all axes."""

    def registered(x: Any) -> Any:
        return value(np.asarray(x))

    REGISTRY[f"np_{name}"] = registered
    function = Function(
        f"np_{name}", registered, (derivative,), core=(0,), output=lambda _: (), flops=lambda *_: 10.0,
        latex=rf"\operatorname{{{name}}}",
    )  # fmt: skip
    return lambda x: construct.apply(function, (as_expr(x),))


def _special(name: str, *first: float) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*first, x)

    return value


@lru_cache(maxsize=16)
def _polygamma(order: int) -> Callable[..., Expr]:
    """The derivatives of the digamma function, each made when it is first asked for."""
    return _row(f"polygamma{order}", _special("polygamma", order), lambda x: _polygamma(order + 1)(x))


floor = _row("floor", np.floor, None)
ceil = _row("ceil", np.ceil, None)
trunc = _row("trunc", np.trunc, None)
rint = _row("rint", np.rint, None)
digamma = _row("digamma", _special("digamma"), lambda x: _polygamma(1)(x))
gammaln = _row("gammaln", _special("gammaln"), digamma)


def floor_divide(a: Operand, b: Operand) -> Expr:
    """The largest integer not above the quotient."""
    return floor(divide(a, b))


def remainder(a: Operand, b: Operand) -> Expr:
    """What is left of `a` after whole multiples of `b`; as steep as `a` itself."""
    return subtract(a, multiply(b, floor_divide(a, b)))
