"""Arithmetic of intervals, rounded outward wherever it is not exact: bounds of the entries of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf, isfinite, isinf, nextafter
from typing import Any

import numpy as np

from eindiff.core.coefficients import Number


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of all entries of a tensor, and whether none of them is 0."""

    low: float = -inf
    high: float = inf
    nonzero: bool = False

    @property
    def sign(self) -> int | None:
        """1 if no entry is negative, -1 if none is positive, 0 if all are zero, None if that is not known."""
        return 0 if self.low == 0 == self.high else 1 if self.low >= 0 else -1 if self.high <= 0 else None

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative."""
        return self.low >= 0

    @property
    def is_positive(self) -> bool:
        """Whether all entries are greater than 0."""
        return self.low >= 0 and self.nonzero

    @property
    def level(self) -> int | None:
        """The sign as in `facts.definiteness`: twice as large if no entry is 0."""
        return self.sign and (2 if self.nonzero else 1) * self.sign


UNKNOWN = Interval()


def bounded(low: float, high: float, nonzero: bool = False) -> Interval:
    """An interval; nothing is known if it would be empty, which only happens outside of the domain."""
    return Interval(float(low) + 0.0, float(high) + 0.0, nonzero or low > 0 or high < 0) if low <= high else UNKNOWN


def point(value: Number) -> Interval:
    """The smallest interval of floating-point numbers around a number."""
    if not isfinite(value):
        return UNKNOWN
    near = float(value)
    if Fraction(near) == value:
        return bounded(near, near)
    return bounded(nextafter(near, -inf), nextafter(near, inf))


def _product(x: float, y: float, direction: float) -> float:
    """A bound times a bound, where 0 * inf is 0: entries are finite."""
    if x == 0 or y == 0:
        return 0.0
    short = all(abs(v) < 2**16 and (1024 * v).is_integer() for v in (x, y))
    exact = short or not {abs(x), abs(y)}.isdisjoint((1.0, inf))
    return x * y if exact else nextafter(x * y, direction)


def total(bounds: Sequence[float], direction: float) -> float:
    """A sum of bounds; the sign of what `fsum` gives is right."""
    if any(isinf(bound) for bound in bounds):
        return direction
    added = fsum(bounds)
    return added if fsum([*bounds, -added]) == 0 else nextafter(added, direction)


def times(a: Interval, b: Interval) -> Interval:
    """Products of entries."""
    ends = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = min(_product(x, y, -inf) for x, y in ends), max(_product(x, y, inf) for x, y in ends)
    return bounded(low, high, a.nonzero and b.nonzero)


def negative(a: Interval) -> Interval:
    """Entries with the other sign."""
    return bounded(-a.high, -a.low, a.nonzero)


def absolute(a: Interval) -> Interval:
    """Absolute values of entries."""
    return a if a.low >= 0 else negative(a) if a.high <= 0 else bounded(0, max(-a.low, a.high), a.nonzero)


def hull(*intervals: Interval) -> Interval:
    """What holds for entries of any of some tensors."""
    low, high = min(a.low for a in intervals), max(a.high for a in intervals)
    return bounded(low, high, all(a.nonzero for a in intervals))


def sum_of(terms: Sequence[Interval]) -> Interval:
    """Sums of entries, one of each tensor."""
    low, high = total([a.low for a in terms], -inf), total([a.high for a in terms], inf)
    one_sided = all(a.low >= 0 for a in terms) or all(a.high <= 0 for a in terms)
    return bounded(low, high, one_sided and any(a.nonzero for a in terms))


def larger(a: Interval, b: Interval) -> Interval:
    """The larger entry of two."""
    return bounded(max(a.low, b.low), max(a.high, b.high), (a.nonzero and b.nonzero) or a.is_positive or b.is_positive)


# Values of functions

_EXACT = (0.0, 1.0, -1.0, inf, -inf)


def _at(function: Callable[[Any], Any], x: float, direction: float) -> float:
    """A bound of the value of a function at a point, which is exact if both are simple."""
    with np.errstate(all="ignore"):
        value = float(function(np.float64(x)))
    if x in _EXACT and value in _EXACT:
        return value
    return nextafter(value + (abs(value) if direction > 0 else -abs(value)) * 2.0**-50, direction)


@dataclass(frozen=True, slots=True)
class Increasing:
    """Bounds of an increasing function on its domain. Its zeros are `none`, the argument's (`same`), or `up to 0`."""

    zeros: str = ""
    start: float = -inf
    end: float = inf
    value: Callable[[Any], Any] | None = None  # that of the function, without SciPy, which takes long to import

    def __call__(self, function: Any, x: Interval) -> Interval:
        value = self.value or function.value
        low, high = max(x.low, self.start), min(x.high, self.end)
        if low > high:
            return UNKNOWN
        floor, ceiling = _at(value, self.start, -inf), _at(value, self.end, inf)
        low, high = max(_at(value, low, -inf), floor), min(_at(value, high, inf), ceiling)
        nonzero = {"none": True, "same": x.nonzero, "up to 0": x.is_positive}.get(self.zeros, False)
        return bounded(low, high, nonzero)


def within(low: float, high: float) -> Callable[..., Interval]:
    """The bounds of a function, whatever its arguments are."""
    return lambda *_: bounded(low, high)


def reciprocal(x: Interval) -> Interval:
    """1/x, where x is not 0."""
    if x.high <= 0 and x.low < 0:
        return negative(reciprocal(negative(x)))
    if x.low < 0:
        return bounded(-inf, inf, True)
    low, high = (_at(np.reciprocal, end, direction) for end, direction in ((x.high, -inf), (x.low, inf)))
    return bounded(max(low, 0), high, True)


def power(exponent: Number, x: Interval) -> Interval:
    """x to a known power: an even one is not negative; one that is no integer is defined for x >= 0 only."""
    if not isfinite(exponent):
        return UNKNOWN
    if exponent < 0:
        return reciprocal(power(-exponent, x))
    odd = exponent == int(exponent) and exponent % 2 == 1
    rising = Increasing("same", -inf if odd else 0, value=lambda v: np.power(v, float(exponent)))
    return rising(None, absolute(x) if exponent % 2 == 0 else x)
