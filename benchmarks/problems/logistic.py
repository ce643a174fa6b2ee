"""Logistic regression, m = 2n: the first experiment of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from scipy.linalg import blas

from benchmarks.problem import Array, Problem, scaled, signs


def objective(xp: Any, X: Any, y: Any, w: Any) -> Any:
    """`Σ log(exp(-y_i x_i'w) + 1)`."""
    return xp.sum(xp.log(xp.exp(-y * (X @ w)) + 1))


def _curvature(X: Array, y: Array, w: Array) -> Array:
    s = special.expit(y * (X @ w))
    return y * y * s * (1 - s)


def product(X: Array, y: Array, w: Array) -> Array:
    """`X' (D X)`."""
    return X.T @ (_curvature(X, y, w)[:, None] * X)


def symmetric(X: Array, y: Array, w: Array) -> Array:
    """`Z'Z` with `Z = D^½ X`: NumPy sees the same array twice and does half the work."""
    Z = np.sqrt(_curvature(X, y, w))[:, None] * X
    return Z.T @ Z


def dsyrk(X: Array, y: Array, w: Array) -> Array:
    """The same through BLAS, one triangle, mirrored in blocks."""
    Z = np.sqrt(_curvature(X, y, w))[:, None] * X
    H = blas.dsyrk(1.0, Z.T).T
    for start in range(0, len(H), 256):
        end = start + 256
        block = H[start:end, start:end]
        block[...] = np.tril(block) + np.tril(block, -1).T
        H[start:end, end:] = H[end:, start:end].T
    return H


def gradient(X: Array, y: Array, w: Array) -> tuple[float, Array]:
    """Value and gradient, with the stable logarithm."""
    z = y * (X @ w)
    return np.logaddexp(0, -z).sum(), -(y * special.expit(-z)) @ X


def gradient_log1p(X: Array, y: Array, w: Array) -> tuple[float, Array]:
    """The same with a logarithm that takes more calls and less time in each."""
    z = y * (X @ w)
    value = np.sum(np.log1p(np.exp(-np.abs(z))) - np.minimum(z, 0))
    return value, -(y * special.expit(-z)) @ X


PROBLEMS = [
    Problem(
        name="logistic",
        title="Logistic regression",
        shapes={"X": "m n", "y": "m", "w": "n"},
        wrt="w",
        sizes=lambda n: {"m": 2 * n, "n": n},
        objective=objective,
        draw={"y": signs, "w": scaled(1)},
        grid={"gradient": (10, 100, 1000, 4000), "hessian": (10, 50, 100, 200, 500, 1000, 2000)},
        hand={
            "gradient": {"logaddexp": gradient, "log1p": gradient_log1p},
            "hessian": {"product": product, "symmetric": symmetric, "dsyrk": dsyrk},
        },
        paper=True,
        casadi=True,
    )
]
