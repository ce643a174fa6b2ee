"""The negative log likelihood of a Gaussian process, by the logarithms of five lengthscales of its kernel."""

from __future__ import annotations

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


def _kernel(X: Array, h: Array) -> tuple[Array, Array, Array]:
    """The kernel without noise, the squares a feature (features first), and the inverse of the kernel with noise."""
    Z = np.ascontiguousarray((X * np.exp(-h)).T)
    squares = (Z[:, :, None] - Z[:, None, :]) ** 2
    E = np.exp(squares.sum(0) / -2)
    K = E.copy()
    np.einsum("ii->i", K)[...] += NOISE
    factor, lower = linalg.cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    inverse = linalg.lapack.dpotri(factor, lower=lower)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return E, squares, inverse


def traces(X: Array, y: Array, h: Array) -> Array:
    """With `A = K⁻¹`, `v = Ay` and `K_d = E * S_d`:

    `H_de = v'K_d A K_e v - tr(A K_d A K_e) / 2 + ⟨A - vv', E * (S_d * S_e - 2 δ_de S_d)⟩ / 2`.
    """
    E, S, A = _kernel(X, h)
    d, n = len(S), len(E)
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
        hand={"hessian": {"traces": traces}},
    )
]
