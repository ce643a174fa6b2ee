"""Taylor arithmetic of matrices in NumPy: functions of S + t E as matrix polynomials in t, without any eigenvalue.

It is what derivatives of functions of eigenvalues are compared with, at equal eigenvalues too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

ORDER = 3


class Jet:
    """c_0 + c_1 t + c_2 t² + c_3 t³ with matrices for coefficients; the products are those of matrices."""

    def __init__(self, coefficients: list[np.ndarray]) -> None:
        self.c = coefficients

    def __add__(self, other: Jet | float) -> Jet:
        if not isinstance(other, Jet):
            return self + Jet([other * np.eye(len(self.c[0])), *[np.zeros_like(self.c[0])] * ORDER])
        return Jet([a + b for a, b in zip(self.c, other.c, strict=True)])

    def __mul__(self, other: Jet | float) -> Jet:
        if not isinstance(other, Jet):
            return Jet([other * a for a in self.c])
        return Jet([sum(self.c[i] @ other.c[k - i] for i in range(k + 1)) for k in range(ORDER + 1)])

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Jet | float) -> Jet:
        return self + -1 * other

    @property
    def T(self) -> Jet:
        return Jet([a.T for a in self.c])

    def trace_derivatives(self, weight: np.ndarray | None = None) -> list[float]:
        """The derivatives of tr(W J) by t at 0, of orders 0 to 3."""
        weighted = self.c if weight is None else [weight @ a for a in self.c]
        return [factorial(k) * float(np.trace(a)) for k, a in enumerate(weighted)]


def line(start: np.ndarray, direction: np.ndarray) -> Jet:
    return Jet([start, direction, *[np.zeros_like(start)] * (ORDER - 1)])


def inverse(x: Jet) -> Jet:
    first = np.linalg.inv(x.c[0])
    found = [first]
    for k in range(1, ORDER + 1):
        found.append(-first @ sum(x.c[i] @ found[k - i] for i in range(1, k + 1)))
    return Jet(found)


def exp(x: Jet) -> Jet:
    """By its series, after it is halved eight times."""
    term = total = 0 * x + 1.0
    for k in range(1, 16):
        term = term * x * (2.0**-8 / k)
        total = total + term
    for _ in range(8):
        total = total * total
    return total


def log(x: Jet) -> Jet:
    """The integral over s of (X - I) (I + s (X - I))⁻¹, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    apart = x - 1.0
    pieces = [w / 2 * apart * inverse((s + 1) / 2 * apart + 1.0) for s, w in zip(nodes, weights, strict=True)]
    return sum(pieces[1:], pieces[0])


def sqrt(x: Jet) -> Jet:
    """The iteration of Denman and Beavers."""
    root, other = x, 0 * x + 1.0
    for _ in range(14):
        root, other = 0.5 * (root + inverse(other)), 0.5 * (other + inverse(root))
    return root


def sin(x: Jet) -> Jet:
    term, total, square = x, x, x * x
    for k in range(3, 40, 2):
        term = term * square * (-1.0 / (k * (k - 1)))
        total = total + term
    return total


def tanh(x: Jet) -> Jet:
    grown = exp(2.0 * x)
    return (grown - 1.0) * inverse(grown + 1.0)


def sigmoid(x: Jet) -> Jet:
    return inverse(exp(-1.0 * x) + 1.0)


FUNCTIONS: dict[str, Callable[[Jet], Jet]] = {"exp": exp, "sin": sin, "tanh": tanh, "sigmoid": sigmoid}
