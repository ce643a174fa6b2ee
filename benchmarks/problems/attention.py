"""One head of softmax attention with a squared loss, by its query weights; n tokens of n features, n/2 a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import kronecker
from benchmarks.problem import Array, Problem, scaled


def objective(xp: Any, X: Any, Y: Any, Q: Any, K: Any, V: Any) -> Any:
    """`‖softmax(XQ (XK)' / 4) XV - Y‖²`."""
    weights = xp.softmax((X @ Q) @ (X @ K).T / 4)
    return xp.sum((weights @ (X @ V) - Y) ** 2)


def factors(X: Array, Y: Array, Q: Array, K: Array, V: Array) -> tuple[Array, Array]:
    """The data, and the Hessian by the query of each token: `B' S B` with S that by its scores.

    With u the gradient by the weights p, c = u - p'u and J = diag(p) - pp', S is
    `2 J ZZ' J + diag(pc) - p(pc)' - (pc)p'`.
    """
    B, Z = X @ K / 4, X @ V
    scores = (X @ Q) @ B.T
    scores -= scores.max(1, keepdims=True)
    P = np.exp(scores, out=scores)
    P /= P.sum(1, keepdims=True)
    mean, residual = P @ B, P @ Z
    weighted = P[:, :, None] * B
    F = Z.T @ weighted
    F -= residual[:, :, None] * mean[:, None, :]
    residual -= Y
    u = 2 * residual @ Z.T
    PC = P * (u - np.sum(P * u, 1, keepdims=True))
    M = 2 * (F.transpose(0, 2, 1) @ F)
    M += B.T @ (PC[:, :, None] * B)
    cross = mean[:, :, None] * (PC @ B)[:, None, :]
    M -= cross
    M -= cross.transpose(0, 2, 1)
    return X, M


PROBLEMS = [
    Problem(
        name="attention",
        title="Attention head",
        shapes={"X": "t d", "Y": "t k", "Q": "d k", "K": "d k", "V": "d k"},
        wrt="Q",
        sizes=lambda n: {"t": n, "d": n, "k": n // 2},
        objective=objective,
        draw={"Q": scaled(1), "K": scaled(1), "V": scaled(1)},
        grid={"hessian": (8, 16, 32, 64), "compressed": (8, 16, 32, 64, 128)},
        hand={
            "hessian": {
                end.__name__: lambda end=end, **arrays: end(*factors(**arrays))
                for end in (kronecker.batched, kronecker.half, kronecker.packed)
            },
            "compressed": {"factors": factors},
        },
        expand=kronecker.batched,
    )
]
