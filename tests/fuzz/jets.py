"""Taylor arithmetic: numbers with three infinitesimals a, b, c whose squares are zero.

A jet has eight coefficients, one for each set of infinitesimals (the bits of its place). Whatever is done to
`x + a·u + b·v + c·w` gives the value, the derivatives along u, v and w, the second ones along pairs of them and the
third along all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
SETS = range(8)
SPLITS = [[(part, whole ^ part) for part in SETS if part & whole == part] for whole in SETS]


class Kink(Exception):  # noqa: N818 (the program is fine, the point is not)
    """A point at which a function has a kink or a pole, or so near that rounding errors show."""


class Jet:
    """An array of such numbers: `parts[s]` is the coefficient of the infinitesimals in the set s."""

    __array_ufunc__ = None  # arrays on the left leave their operators to jets
    largest = 0.0  # of all coefficients since a program began: rounding errors are relative to it

    def __init__(self, parts: Any) -> None:
        self.parts = np.asarray(parts, dtype=float)
        if not np.isfinite(self.parts).all():
            raise Kink("not finite")
        Jet.largest = max(Jet.largest, float(np.abs(self.parts).max(initial=0.0)))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts.shape[1:]

    @property
    def ndim(self) -> int:
        return self.parts.ndim - 1

    @property
    def T(self) -> Jet:
        return linear(np.transpose, self)

    def __add__(self, other: Any) -> Jet:
        one, other = _aligned(self, jet(other))
        return Jet(one.parts + other.parts)

    def __mul__(self, other: Any) -> Jet:
        return multilinear(np.multiply, *_aligned(self, jet(other)))

    def __neg__(self) -> Jet:
        return Jet(-self.parts)

    def __sub__(self, other: Any) -> Jet:
        return self + -jet(other)

    def __rsub__(self, other: Any) -> Jet:
        return jet(other) + -self

    def __truediv__(self, other: Any) -> Jet:
        return self * jet(other) ** -1

    def __rtruediv__(self, other: Any) -> Jet:
        return jet(other) * self**-1

    def __pow__(self, p: float) -> Jet:
        if isinstance(p, int) and p >= 0:
            result = jet(np.ones(self.shape))
            for _ in range(p):
                result = result * self
            return result
        away_from(self, 0.0)
        x = self.parts[0]
        if not isinstance(p, int) and (x < 0).any():
            raise Kink("power of a negative number")
        return elementwise(
            self, x**p, p * x ** (p - 1), p * (p - 1) * x ** (p - 2), p * (p - 1) * (p - 2) * x ** (p - 3)
        )

    def __matmul__(self, other: Any) -> Jet:
        return multilinear(np.matmul, self, jet(other))

    def __rmatmul__(self, other: Any) -> Jet:
        return multilinear(np.matmul, jet(other), self)

    def __getitem__(self, index: Any) -> Jet:
        return linear(lambda part: part[index], self)

    __radd__, __rmul__ = __add__, __mul__


def jet(value: Any) -> Jet:
    """A jet, or a number or array as one that does not move."""
    if isinstance(value, Jet):
        return value
    value = np.asarray(value, dtype=float)
    return Jet([value, *(np.zeros(value.shape) for _ in SETS[1:])])


def moving(value: Array, directions: Sequence[Array | None]) -> Jet:
    """A variable that moves along up to three directions."""
    result = jet(value)
    for k, direction in enumerate(directions):
        if direction is not None:
            result.parts[1 << k] = direction
    return result


def linear(function: Callable[[Array], Array], x: Jet) -> Jet:
    """A linear function, of each coefficient."""
    return Jet([function(part) for part in x.parts])


def multilinear(product: Callable[..., Array], *xs: Jet) -> Jet:
    """A product of jets by a function that is linear in each of them."""
    if len(xs) == 1:
        return linear(product, xs[0])
    if len(xs) == 2:
        one, other = (x.parts for x in xs)
        return Jet([sum(product(one[s], other[t]) for s, t in splits) for splits in SPLITS])
    places = _shares(len(xs))
    return Jet([sum(product(*(x.parts[s] for x, s in zip(xs, p, strict=True))) for p in places[s]) for s in SETS])


def _shares(count: int) -> list[list[tuple[int, ...]]]:
    """For each set, the ways to share it among factors."""
    shares: list[list[tuple[int, ...]]] = [[(s,)] for s in SETS]
    for _ in range(count - 1):
        shares = [[(*first, rest) for part, rest in SPLITS[s] for first in shares[part]] for s in SETS]
    return shares


def elementwise(x: Jet, value: Array, first: Array, second: Array, third: Array) -> Jet:
    """A function of each entry from its derivatives, by Faà di Bruno's formula over the partitions of each set."""
    p = x.parts
    return Jet([
        value, first * p[1], first * p[2], first * p[3] + second * p[1] * p[2],
        first * p[4], first * p[5] + second * p[1] * p[4], first * p[6] + second * p[2] * p[4],
        first * p[7] + second * (p[1] * p[6] + p[2] * p[5] + p[4] * p[3]) + third * p[1] * p[2] * p[4],
    ])  # fmt: skip


def away_from(x: Jet, *kinks: float, distance: float = 0.02) -> None:
    """Refuse a point with entries near a kink."""
    for kink in kinks:
        if (np.abs(x.parts[0] - kink) < distance).any():
            raise Kink(f"near {kink}")


def on_matrices(function: Callable[[Array], Array], x: Jet) -> Jet:
    """An analytic function of a square matrix, by the matrices that multiply as jets do.

    The jet `Σ A_s e_s` is the block matrix with `A_(s without t)` at (s, t): sums, products and limits of these are
    those of jets, so the function of the block matrix has the coefficients of the result in its first column of blocks.
    """
    n = x.shape[-1]
    blocks = np.zeros((8, n, 8, n))
    for whole in SETS:
        for part, rest in SPLITS[whole]:
            blocks[whole, :, part, :] = x.parts[rest]
    return Jet(np.real(function(blocks.reshape(8 * n, 8 * n))).reshape(8, n, 8, n)[:, :, 0, :])


def _aligned(one: Jet, other: Jet) -> tuple[Jet, Jet]:
    """Two jets with axes of size 1 in front, so that coefficients stay apart when shapes are broadcast."""
    count = max(one.ndim, other.ndim)
    return tuple(Jet(x.parts.reshape(8, *(1,) * (count - x.ndim), *x.shape)) for x in (one, other))  # type: ignore[return-value]
