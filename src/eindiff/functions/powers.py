"""Powers whose exponent may be an expression; roots, squares and reciprocals."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb, inf, isfinite
from typing import Any

import numpy as np

from eindiff.core import construct, intervals
from eindiff.core.function import Derivative, Function, quiet
from eindiff.core.nodes import Expr
from eindiff.core.powers import power_function
from eindiff.functions.multilinear import Operand, as_expr, broadcast, coefficient_of, multiply
from eindiff.functions.table import TABLE, add, row

add(power_function(Fraction(5, 2)))

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
        "power_derivative", quiet(lambda x, y: _power_derivative_value(x, y, by_base, terms)),
        (_derived_power(by_base + 1, by_exponent), _derived_power(by_base, by_exponent + 1)),
        domain="positive", latex=r"\operatorname{power\_derivative}", parameter=(by_base, by_exponent),
        maker=(power_derivative, (by_base, by_exponent)),
        bounds=intervals.within(-inf, inf),
        formula=lambda x, y: power_formula(by_base, by_exponent, x, y),
    )  # fmt: skip


def power_formula(by_base: int, by_exponent: int, x: Expr, y: Expr) -> Expr:
    """What people write for a derivative of x**y: the same but for x = 0."""
    pieces = []
    for r, coefficients in power_terms(by_base, by_exponent):
        factor = construct.add([construct.scale(c, power(y, n)) for n, c in enumerate(coefficients[::-1]) if c])
        pieces.append(multiply(power(construct.map_(TABLE["log"], (x,)), r), factor))
    return multiply(power(x, y - by_base), construct.add(pieces))


def _derived_power(by_base: int, by_exponent: int) -> Derivative:
    return lambda x, y: construct.map_(power_derivative(by_base, by_exponent), (x, y))


add(power_derivative(1, 1))

_general_power = row(
    "power", quiet(np.power), _derived_power(1, 0), _derived_power(0, 1), domain="positive", latex="{}^{{{}}}",
    bounds=lambda _, a, b: intervals.bounded(0, inf, a.nonzero) if a.is_nonnegative else intervals.UNKNOWN,
)  # fmt: skip


def power(base: Operand, exponent: Operand) -> Expr:
    """`base ** exponent`, entry by entry.

    Args:
        base, exponent: tensors of one shape, or numbers; `base ** exponent` is the same

    >>> x = ed.vector("x", "n")
    >>> ed.power(x, 2) is x * x
    True

    See also: `sqrt`, `exp`, `matrix_power`.
    """
    base, exponent = as_expr(base), as_expr(exponent)
    known = coefficient_of(exponent)
    if known is not None and isfinite(known) and (exponent.ndim == 0 or exponent.shape == base.shape):
        return construct.known_power(base, known)
    return construct.map_(_general_power, broadcast("**", [base, exponent]))


def sqrt(x: Operand) -> Expr:
    """The square root of each entry.

    Args:
        x: a tensor expression, an array or a number

    >>> ed.sqrt(ed.vector("x", "n", "positive")) ** 2
    x

    See also: `power`.
    """
    return power(x, Fraction(1, 2))


def square(x: Operand) -> Expr:
    """The square of each entry.

    Args:
        x: a tensor expression, an array or a number

    >>> ed.square(ed.vector("x", "n"))
    x*x

    See also: `power`.
    """
    return power(x, 2)


def reciprocal(x: Operand) -> Expr:
    """One over each entry.

    Args:
        x: a tensor expression, an array or a number

    >>> ed.evaluate(ed.reciprocal(ed.vector("x", "n")), {"x": [2.0, 4.0]})
    array([0.5 , 0.25])

    See also: `power`.
    """
    return power(x, -1)
