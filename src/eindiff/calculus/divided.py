"""Divided differences f[x0, ..., xk] of elementwise functions, accurate where points are (nearly) equal.

f[x, y] = (f(x) - f(y)) / (x - y) and f'(x) at x = y. They are what derivatives of functions of eigenvalues are made of
(Daleckii and Krein). Powers and all that is composed of them have closed forms without a difference; for the rest there
is a function `divided` of k + 1 arguments, whose derivative by one of them repeats it: one more divided difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import factorial, inf

from eindiff.calculus.chain_rule import pushforwards
from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.intervals import Increasing, within
from eindiff.core.nodes import Expr
from eindiff.core.powers import power_function
from eindiff.functions import special_functions as _special_functions  # noqa: F401 (rows with a series too)
from eindiff.functions.elementwise import log
from eindiff.functions.powers import power, sqrt
from eindiff.functions.series import divided_value
from eindiff.functions.table import TABLE, add

LARGEST_POWER = 12  # the power up to which a divided difference is written as a polynomial


def quotient(function: Function, x: Expr, y: Expr) -> Expr:
    """f[x, y] for an elementwise function of one argument."""
    if x is y:
        return _derivative(function, x)
    if function.name == "pow":
        exponent = function.parameter
        if isinstance(exponent, int) and 0 < exponent <= LARGEST_POWER:
            return construct.add([power(x, i) * power(y, exponent - 1 - i) for i in range(exponent)])
        if isinstance(exponent, int) and -LARGEST_POWER <= exponent < 0:
            return -construct.add([power(x, -1 - i) * power(y, exponent + i) for i in range(-exponent)])
        if exponent == Fraction(1, 2):
            return power(sqrt(x) + sqrt(y), -1)
        if isinstance(exponent, Fraction) and exponent.denominator == 2:  # an integer power of the root
            return quotient(power_function(exponent.numerator), sqrt(x), sqrt(y)) * power(sqrt(x) + sqrt(y), -1)
        logarithms = [construct.scale(exponent, log(point)) for point in (x, y)]
        return construct.scale(exponent, divided(TABLE["exp"], logarithms) * divided(TABLE["log"], [x, y]))
    return divided(function, [x, y])


def divided(function: Function, points: Sequence[Expr]) -> Expr:
    """f[x0, ..., xk], which is the same in any order of the points."""
    ordered = sorted(points, key=lambda point: point.digest)
    if ordered[0] is ordered[-1]:
        last, derivative = len(ordered) - 1, construct.map_(function, (ordered[0],))
        for _ in range(last):
            derivative = slope(derivative, ordered[0])
        return construct.scale(Fraction(1, factorial(last)), derivative)
    return construct.map_(divided_function(function.name, len(ordered) - 1), ordered)


@lru_cache(maxsize=256)
def divided_function(name: str, order: int) -> Function:
    """The divided difference of a function over `order + 1` points, as a function of these."""
    function = TABLE[name]

    def repeated(place: int) -> Callable[..., Expr]:
        return lambda *points: divided(function, [*points, points[place]])

    return Function(
        f"divided_{name}", divided_value(function), tuple(repeated(place) for place in range(order + 1)),
        function.domain, latex=rf"\Delta_{{{function.latex}}}", maker=(divided_function, (name, order)),
        bounds=within(0 if isinstance(function.bounds, Increasing) else -inf, inf),
    )  # fmt: skip


def divided_base(function: Function) -> Function | None:
    """The function that another one is the divided difference of, or None."""
    start, _, name = function.name.partition("_")
    return TABLE[name] if start == "divided" else None


def slope(y: Expr, x: Expr) -> Expr:
    """The derivative of an elementwise function of x, entry by entry."""
    result = pushforwards(y, x, construct.filled(1, x.shape)).get(y)
    return construct.filled(0, y.shape) if result is None else result


def _derivative(function: Function, x: Expr) -> Expr:
    prime = function.derivatives[0]
    return construct.filled(0, x.shape) if prime is None else prime(x)


for _function in [function for function in TABLE.values() if function.series is not None]:
    add(divided_function(_function.name, 1))
