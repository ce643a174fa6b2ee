"""Structured derivatives at fixed points, for the tests of what is made of them: pictures, operators of others."""

from __future__ import annotations

import numpy as np

import eindiff as ed
from objectives import OBJECTIVES


def hessian(name: str, seed: int = 0, **sizes: int) -> ed.Derivative:
    """The structured Hessian of an objective at a random point."""
    one = OBJECTIVES[name]()
    wrt = one.wrt[0] if len(one.wrt) == 1 else one.wrt
    return ed.structured(ed.hessian(one.function, wrt), one.point(np.random.default_rng(seed), sizes))


def jacobian(k: int = 4) -> ed.Derivative:
    """12×k by 5×k, with a delta."""
    A, X = ed.matrix("A", "m", "n"), ed.matrix("X", "n", "k")
    rng = np.random.default_rng(0)
    point = {"A": rng.normal(size=(12, 5)), "X": rng.normal(size=(5, k))}
    return ed.structured(ed.jacobian(ed.sigmoid(A @ X), X), point)


def third_derivative() -> ed.Derivative:
    """5×5 by 5, with entries at i = j = k only: the rows have a delta among themselves."""
    x = ed.vector("x", "n")
    return ed.structured(ed.derivative(ed.hessian(ed.sum(ed.exp(x)), x), x), {"x": np.linspace(-1, 1, 5)})
