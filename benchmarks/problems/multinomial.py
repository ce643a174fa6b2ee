"""Multinomial (softmax) regression with ten classes, m = 5n."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import kronecker
from benchmarks.problem import Array, Problem, one_hot, scaled


def objective(xp: Any, X: Any, Y: Any, W: Any) -> Any:
    """The cross-entropy of `softmax(XW)`."""
    scores = X @ W
    return xp.sum(xp.logsumexp(scores, 1)) - xp.sum(Y * scores)


def _probabilities(X: Array, W: Array) -> Array:
    scores = X @ W
    scores -= scores.max(1, keepdims=True)
    P = np.exp(scores, out=scores)
    P /= P.sum(1, keepdims=True)
    return P


def factors(X: Array, W: Array) -> tuple[Array, Array]:
    """The data, and `diag(p) - pp'` of each sample."""
    P = _probabilities(X, W)
    M = -P[:, :, None] * P[:, None, :]
    np.einsum("bjj->bj", M)[...] += P
    return X, M


def symmetric(X: Array, W: Array) -> Array:
    """`-G'G` with `G_b = x_b ⊗ p_b`, and `X' diag(p_j) X` for each class on the diagonal."""
    (m, n), P = X.shape, _probabilities(X, W)
    k = P.shape[1]
    G = (X[:, :, None] * P[:, None, :]).reshape(m, n * k)
    H = (G.T @ G).reshape(n, k, n, k)
    np.negative(H, out=H)
    for j in range(k):
        Z = np.sqrt(P[:, j : j + 1]) * X
        H[:, j, :, j] += Z.T @ Z
    return H


def blocks(X: Array, W: Array) -> Array:
    """`X' diag(p_j δ_jl - p_j p_l) X` for each pair of classes."""
    _, M = factors(X, W)
    n, k = X.shape[1], M.shape[1]
    H = np.empty((n, k, n, k))
    for j in range(k):
        for l in range(j, k):
            H[:, j, :, l] = H[:, l, :, j] = X.T @ (M[:, j, l, None] * X)
    return H


PROBLEMS = [
    Problem(
        name="multinomial",
        title="Multinomial regression",
        shapes={"X": "m n", "Y": "m k", "W": "n k"},
        wrt="W",
        sizes=lambda n: {"m": 5 * n, "n": n, "k": 10},
        objective=objective,
        draw={"Y": one_hot, "W": scaled(1)},
        grid={"hessian": (10, 20, 50, 100, 200), "compressed": (10, 20, 50, 100, 200, 500)},
        hand={
            "hessian": {
                "symmetric": symmetric,
                "blocks": blocks,
                "batched": lambda X, W: kronecker.batched(*factors(X, W)),
                "half": lambda X, W: kronecker.half(*factors(X, W)),
                "packed": lambda X, W: kronecker.packed(*factors(X, W)),
            },
            "compressed": {"factors": factors},
        },
        expand=kronecker.packed,
    )
]
