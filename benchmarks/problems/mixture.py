"""The log likelihood of a mixture of ten spherical Gaussians in n dimensions by its means, from 50n points."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem, normal


def objective(xp: Any, X: Any, M: Any, h: Any, z: Any) -> Any:
    """`Σ_i logsumexp_k(z_k - ‖x_i - μ_k‖² exp(-2h_k) / 2)`."""
    apart = X[:, None, :] - M[None, :, :]
    return xp.sum(xp.logsumexp(z - xp.sum(apart * apart, 2) * xp.exp(-2 * h) / 2, 1))


def _weighted(X: Array, M: Array, h: Array, z: Array) -> tuple[Array, Array, Array]:
    """`(x_i - μ_k) exp(-2h_k)`, the shares of the Gaussians in each point, and `exp(-2h_k)`."""
    scale = np.exp(-2 * h)
    apart = X[:, None, :] - M
    scores = z - np.einsum("ikd,ikd->ik", apart, apart) * scale / 2
    scores -= scores.max(1, keepdims=True)
    R = np.exp(scores, out=scores)
    R /= R.sum(1, keepdims=True)
    apart *= scale[:, None]
    return apart, R, scale


def _finish(H: Array, blocks: Array, R: Array, scale: Array) -> Array:
    """`H` with blocks and `-exp(-2h_k) Σ_i R_ik` added where Gaussians are equal."""
    k, d = blocks.shape[:2]
    np.einsum("kdd->kd", blocks)[...] -= (R.sum(0) * scale)[:, None]
    H = H.reshape(k, d, k, d)
    np.einsum("kdke->kde", H)[...] += blocks
    return H


def symmetric(X: Array, M: Array, h: Array, z: Array) -> Array:
    """`-G'G` with `G_i = R_ik a_ik`, and `Σ_i R_ik a_ik a_ik'` for each Gaussian on the diagonal."""
    apart, R, scale = _weighted(X, M, h, z)
    Z = apart * np.sqrt(R)[:, :, None]
    blocks = Z.transpose(1, 2, 0) @ Z.transpose(1, 0, 2)
    apart *= R[:, :, None]
    G = apart.reshape(len(X), -1)
    H = G.T @ G
    return _finish(np.negative(H, out=H), blocks, R, scale)


def products(X: Array, M: Array, h: Array, z: Array) -> Array:
    """The same with one general product for the blocks."""
    apart, R, scale = _weighted(X, M, h, z)
    G = apart * R[:, :, None]
    blocks = apart.transpose(1, 2, 0) @ G.transpose(1, 0, 2)
    G = G.reshape(len(X), -1)
    H = G.T @ G
    return _finish(np.negative(H, out=H), blocks, R, scale)


PROBLEMS = [
    Problem(
        name="mixture",
        title="Gaussian mixture",
        shapes={"X": "m d", "M": "k d", "h": "k", "z": "k"},
        wrt="M",
        sizes=lambda n: {"m": 50 * n, "k": 10, "d": n},
        objective=objective,
        draw={"h": normal(0.1)},
        grid={"hessian": (2, 5, 10, 20, 50)},
        hand={"hessian": {"symmetric": symmetric, "products": products}},
    )
]
