"""Poisson regression, m = 2n."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem, scaled


def objective(xp: Any, X: Any, y: Any, w: Any) -> Any:
    """`Σ exp(x_i'w) - y_i x_i'w`."""
    scores = X @ w
    return xp.sum(xp.exp(scores) - y * scores)


def product(X: Array, w: Array) -> Array:
    """`X' (D X)`."""
    return X.T @ (np.exp(X @ w)[:, None] * X)


def symmetric(X: Array, w: Array) -> Array:
    """`Z'Z` with `Z = D^½ X`."""
    Z = np.exp(X @ w / 2)[:, None] * X
    return Z.T @ Z


PROBLEMS = [
    Problem(
        name="poisson",
        title="Poisson regression",
        shapes={"X": "m n", "y": "m", "w": "n"},
        wrt="w",
        sizes=lambda n: {"m": 2 * n, "n": n},
        objective=objective,
        draw={"y": lambda generator, shape: generator.poisson(2, shape), "w": scaled(1)},
        grid={"hessian": (10, 100, 500, 1000)},
        hand={"hessian": {"product": product, "symmetric": symmetric}},
        casadi=True,
    )
]
