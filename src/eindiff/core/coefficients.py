"""Coefficients: exact numbers where they are short, else floating-point numbers, which never leave their range."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, inf, isfinite, isinf, lcm
from typing import Any

from eindiff.core.errors import EindiffError

Number = int | float | Fraction

HALF = Fraction(1, 2)

_LONGEST_NUMBER = 256  # bits; longer exact numbers become floating-point numbers
_LONGEST_POWER = 512  # bits; longer exact powers are not computed
_SMALLEST = 2.0**-1022  # with all digits
_FAR = 1e150  # the product of two such numbers still is one


def _rounded(value: int | Fraction) -> float:
    try:
        rounded = float(value)
    except OverflowError:
        rounded = 0.0
    if rounded == 0.0:
        raise EindiffError(
            "a coefficient of the expression is too large or too small for a floating-point number", "domain"
        )
    return rounded


def number(value: Any) -> Number:
    """The canonical form of a number: an integer or a short fraction where it is exactly one.

    >>> number(2.0), number(0.5), number(0.1)
    (2, Fraction(1, 2), 0.1)
    """
    if type(value) is int and value.bit_length() < _LONGEST_NUMBER - 1:
        return value
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        if value.numerator.bit_length() + value.denominator.bit_length() < _LONGEST_NUMBER:
            return int(value) if value.denominator == 1 else value
        return _rounded(value)
    value = float(value)
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    if value == value and abs(value) < 2**40 and (value * 1024).is_integer():
        return Fraction(value)
    return value


def times(a: Number, b: Number) -> Number:
    """The product of two coefficients; one that no floating-point number can hold is an error.

    >>> times(0.1, 10), times(Fraction(1, 3), 3)
    (1, 1)
    """
    if a == 1 or b == 1:
        return b if a == 1 else a
    result = number(a * b)
    if type(result) is float or result == 0:
        _check_range(result, f"{a} * {b}", a, b)
    return result


def ratio(a: Number, b: Number) -> Number:
    """The quotient of two coefficients, exactly where both are exact."""
    if b == 1:
        return a
    return number(Fraction(a, b) if type(a) is int and type(b) is int else a / b)


def plus(a: Number, b: Number) -> Number:
    """The sum of two coefficients; one that no floating-point number can hold is an error."""
    result = number(a + b)
    if type(result) is float and isinf(result) and isfinite(a) and isfinite(b):
        _check_range(result, f"{a} + {b}", a, b)
    return result


def _check_range(result: Number, text: str, a: Number, b: Number) -> None:
    least = min(_SMALLEST, abs(float(a)), abs(float(b)))
    if isfinite(a) and isfinite(b) and least > 0 and not least <= abs(float(result)) < inf:
        size = "large" if abs(float(result)) > 1 else "small"
        raise EindiffError(
            f"the coefficient {text} of the expression is too {size} for a floating-point number", "domain"
        )


def to_power(base: Number, exponent: Number) -> Number | None:
    """`base ** exponent`, exactly where that is short; None where it is no number, or one very far from 1.

    >>> to_power(Fraction(2, 3), -2), to_power(4, Fraction(1, 2)), to_power(3, 10**9), to_power(1e200, 2)
    (Fraction(9, 4), 2, None, None)
    """
    if base == 0 or not isfinite(base):
        return None
    if isinstance(base, int | Fraction) and is_whole(exponent):
        bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
        if bits * abs(int(exponent)) <= _LONGEST_POWER:
            return number(Fraction(base) ** int(exponent))
    try:
        value = float(base) ** float(exponent)
    except OverflowError:
        return None
    near = isinstance(value, float) and (abs(float(exponent)) < 1 or 1 / _FAR <= abs(value) <= _FAR)
    return number(value) if near else None


def is_whole(value: Number) -> bool:
    """Whether a number is an integer."""
    return isfinite(value) and value == int(value)


def content(coefficients: Sequence[Number]) -> Number:
    """The positive factor common to all coefficients: their content if they are exact, else their size if equal."""
    if all(type(c) is int for c in coefficients):
        return gcd(*map(int, coefficients))
    exact = [c for c in coefficients if not isinstance(c, float)]
    if len(exact) == len(coefficients):
        return number(Fraction(gcd(*[c.numerator for c in exact]), lcm(*[c.denominator for c in exact])))
    first = coefficients[0]
    size = first if first > 0 else -first
    return size if isfinite(size) and all(c in (size, -size) for c in coefficients) else 1
