"""The negative log likelihood of a Gaussian process, by the logarithms of five lengthscales of its kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from benchmarks.problem import Array, Problem, normal

NOISE = 0.1


def objective(xp: Any, X: Any, y: Any, h: Any) -> Any:
    """`(y' K⁻¹ y + log det K) / 2` with a squared exponential kernel."""
    Z = X * xp.exp(-h)
    apart = Z[:, None, :] - Z[None, :, :]
    K = xp.exp(-xp.sum(apart * apart, 2) / 2) + NOISE * xp.eye(X.shape[0])
    return (y @ xp.solve(K, y) + xp.logdet(K)) / 2


def _cholesky(K: Array) -> Array:
    factor, lower = linalg.cho_factor(K, lower=True, check_finite=False)
    inverse = np.tril(linalg.lapack.dpotri(factor, lower=lower)[0])
    return inverse + np.tril(inverse, -1).T


def traces(X: Array, y: Array, h: Array, invert: Callable[[Array], Array]) -> Array:
    """With E the kernel, S_d the squares of differences, `A = K⁻¹`, `v = Ay` and `K_d = E * S_d`:

    `H_de = v'K_d A K_e v - tr(A K_d A K_e) / 2 + ⟨A - vv', E * (S_d * S_e - 2 δ_de S_d)⟩ / 2`.
    """
    Z = np.ascontiguousarray((X * np.exp(-h)).T)
    d, n = Z.shape
    S = Z[:, :, None] - Z[:, None, :]
    S *= S
    E = np.exp(S.sum(0) / -2)
    A = invert(E + NOISE * np.eye(n))
    v = A @ y
    first = S * E
    AK = (first.reshape(d * n, n) @ A).reshape(d, n, n)
    Kv = first @ v
    H = Kv @ A @ Kv.T
    H -= AK.reshape(d, -1) @ AK.transpose(0, 2, 1).reshape(d, -1).T / 2
    rest = first * (A - np.multiply.outer(v, v))
    H += rest.reshape(d, -1) @ S.reshape(d, -1).T / 2
    np.einsum("ii->i", H)[...] -= rest.sum((1, 2))
    return H


PROBLEMS = [
    Problem(
        name="gaussian-process",
        title="Gaussian process",
        shapes={"X": "n d", "y": "n", "h": "d"},
        wrt="h",
        sizes=lambda n: {"n": n, "d": 5},
        objective=objective,
        draw={"h": normal(0.3)},
        grid={"hessian": (20, 50, 100, 200, 500)},
        hand={
            "hessian": {
                "inverse": lambda X, y, h: traces(X, y, h, np.linalg.inv),
                "Cholesky": lambda X, y, h: traces(X, y, h, _cholesky),
            }
        },
    )
]
