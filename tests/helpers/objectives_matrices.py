"""Objectives of matrices: Kronecker products, traces, principal components, Gaussian models.

The notation is that of `objectives`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import eindiff as ed
import models
from objective import Makers, Objective, into

MATRICES: Makers = {}
objective = into(MATRICES)


# Least squares with Kronecker structure, traces


@objective
def kronecker_least_squares() -> Objective:
    """`2 A'A ⊗ B B'`."""
    A, B, C, X = ed.matrix("A", "m", "n"), ed.matrix("B", "p", "q"), ed.matrix("C", "m", "q"), ed.matrix("X", "n", "p")
    return Objective(
        ed.norm2(A @ X @ B - C) ** 2, (X,), {"m": 6, "n": 4, "p": 3, "q": 5},
        reference=lambda A, B, C, X: jnp.sum((A @ X @ B - C) ** 2),
    )  # fmt: skip


@objective
def kronecker_least_squares_with_ridge() -> Objective:
    """`2 A'A ⊗ B B' + 2cI`."""
    A, B, C, X = ed.matrix("A", "m", "n"), ed.matrix("B", "p", "q"), ed.matrix("C", "m", "q"), ed.matrix("X", "n", "p")
    return Objective(
        ed.norm2(A @ X @ B - C) ** 2 + ed.scalar("c") * ed.norm2(X) ** 2, (X,), {"m": 6, "n": 4, "p": 3, "q": 5},
        reference=lambda A, B, C, X, c: jnp.sum((A @ X @ B - C) ** 2) + c * jnp.sum(X**2),
    )  # fmt: skip


@objective
def sylvester() -> Objective:
    """`2 A'A ⊗ I + 2 I ⊗ B B'`."""
    A, B, X = ed.matrix("A", "m", "n"), ed.matrix("B", "p", "q"), ed.matrix("X", "n", "p")
    return Objective(
        ed.norm2(A @ X) ** 2 + ed.norm2(X @ B) ** 2, (X,), {"m": 6, "n": 4, "p": 3, "q": 5},
        reference=lambda A, B, X: jnp.sum((A @ X) ** 2) + jnp.sum((X @ B) ** 2),
    )  # fmt: skip


@objective
def quadratic_form() -> Objective:
    """`A + A'`."""
    function, (x,), _ = models.quadratic()
    return Objective(function, (x,), {"n": 5}, reference=lambda A, x: x @ A @ x)


@objective
def quadratic_forms() -> Objective:
    """`diag(A_g + A_g') over g`."""
    A, X = ed.tensor("A", ("g", "n", "n")), ed.matrix("X", "g", "n")
    return Objective(
        ed.einsum("gi,gij,gj->", X, A, X), (X,), {"g": 5, "n": 3},
        reference=lambda A, X: sum(x @ a @ x for a, x in zip(A, X, strict=True)),
    )  # fmt: skip


@objective
def trace_with_one_matrix() -> Objective:
    """`(A + A') ⊗ I`."""
    A, X = ed.matrix("A", "n", "n"), ed.matrix("X", "n", "k")
    return Objective(
        ed.tr(X.T @ A @ X), (X,), {"n": 5, "k": 3}, reference=lambda A, X: jnp.trace(X.T @ A @ X)
    )  # fmt: skip


@objective
def trace_with_symmetric_matrices() -> Objective:
    """`2 A ⊗ B`."""
    A, B, X = ed.symmetric("A", "n"), ed.symmetric("B", "k"), ed.matrix("X", "n", "k")
    return Objective(
        ed.tr(A @ X @ B @ X.T), (X,), {"n": 5, "k": 3}, reference=lambda A, B, X: jnp.trace(A @ X @ B @ X.T)
    )  # fmt: skip


@objective
def trace_with_two_matrices() -> Objective:
    """`A ⊗ B' + A' ⊗ B`."""
    A, B, X = ed.matrix("A", "n", "n"), ed.matrix("B", "k", "k"), ed.matrix("X", "n", "k")
    return Objective(
        ed.tr(A @ X @ B @ X.T), (X,), {"n": 5, "k": 3}, reference=lambda A, B, X: jnp.trace(A @ X @ B @ X.T)
    )  # fmt: skip


@objective
def quadratic_assignment() -> Objective:
    """`A ⊗ B' + A' ⊗ B + 2c (I ⊗ 11' + 11' ⊗ I)`."""
    A, B, C, P = ed.matrix("A", "n", "n"), ed.matrix("B", "k", "k"), ed.matrix("C", "n", "k"), ed.matrix("P", "n", "k")
    sums = ed.norm2(ed.sum(P, 1) - 1) ** 2 + ed.norm2(ed.sum(P, 0) - 1) ** 2
    return Objective(
        ed.tr(A @ P @ B @ P.T) + ed.sum(C * P) + ed.scalar("c") * sums, (P,), {"n": 5, "k": 3}, kinds={"P": "positive"},
        reference=lambda A, B, C, P, c: (
            jnp.trace(A @ P @ B @ P.T)
            + jnp.sum(C * P)
            + c * (jnp.sum((P.sum(1) - 1) ** 2) + jnp.sum((P.sum(0) - 1) ** 2))
        ),
    )  # fmt: skip


# Principal components, Gaussian models, points in space


@objective
def principal_components() -> Objective:
    """`-2 S ⊗ I`."""
    S, W = ed.symmetric("S", "n", "psd"), ed.matrix("W", "n", "k")
    return Objective(
        -ed.tr(W.T @ S @ W), (W,), {"n": 5, "k": 3}, reference=lambda S, W: -jnp.trace(W.T @ S @ W)
    )  # fmt: skip


@objective
def reconstruction() -> Objective:
    """With S = `X'X`: `2 S ⊗ (W'W - 2I) + 2 I ⊗ W'SW + 2 (SWW' + WW'S) ⊗ I`, and `2 (SW)_ib W_ja + 2 W_ib (SW)_ja`."""
    X, W = ed.matrix("X", "m", "n"), ed.matrix("W", "n", "k")
    return Objective(
        ed.norm2(X - X @ W @ W.T) ** 2, (W,), {"m": 6, "n": 5, "k": 3},
        reference=lambda X, W: jnp.sum((X - X @ W @ W.T) ** 2),
    )  # fmt: skip


@objective
def rayleigh_quotient() -> Objective:
    """`-2 (X'X + fI + w∇' + ∇w') / w'w` with the value f and the gradient ∇."""
    function, (w,), _ = models.rayleigh()
    return Objective(
        function, (w,), {"m": 6, "n": 5}, reference=lambda X, w: -jnp.sum((X @ w) ** 2) / jnp.sum(w**2)
    )  # fmt: skip


@objective
def gaussian_process_by_factors() -> Objective:
    """P = `K^-1`, α = `Py`, S = `2αα' - P`, J = `∂K/∂A`. AA: `(P - αα') ⊗ I + J' (P ⊗ S) J / 2`;
    As: `(PS + SP) A / 2`; ss: `tr(PS) / 2`."""
    function, (A, s), _ = models.gaussian_process()

    def reference(A: Any, y: Any, s: Any) -> Any:
        K = A @ A.T + s * jnp.eye(len(y))
        return y @ jnp.linalg.solve(K, y) / 2 + jnp.linalg.slogdet(K)[1] / 2

    return Objective(function, (A, s), {"n": 5, "k": 3}, reference)


@objective
def gaussian_process_by_hyperparameters() -> Objective:
    """`tr(P K_i S K_j) / 2 + tr((P - αα') K_ij) / 2`, where K_i, K_ij are derivatives of K; others as by factors."""
    X, y = ed.matrix("X", "n", "d"), ed.vector("y", "n")
    a, l, s = (ed.scalar(name, "positive") for name in "als")
    apart = X[:, None, :] - X[None, :, :]
    K = a * ed.exp(-ed.sum(apart * apart, 2) / (2 * l**2)) + s * ed.eye("n")

    def reference(X: Any, y: Any, a: Any, l: Any, s: Any) -> Any:
        squares = jnp.sum((X[:, None] - X) ** 2, 2)
        K = a * jnp.exp(-squares / (2 * l**2)) + s * jnp.eye(len(y))
        return y @ jnp.linalg.solve(K, y) / 2 + jnp.linalg.slogdet(K)[1] / 2

    return Objective(y @ ed.solve(K, y) / 2 + ed.logdet(K) / 2, (a, l, s), {"n": 5, "d": 3}, reference)


@objective
def graphical_model() -> Objective:
    """`(P_ik P_jl + P_il P_jk) / 2` at (i, j), (k, l), with P = `K^-1`: projected, since K is symmetric."""
    S, K = ed.symmetric("S", "n", "psd"), ed.symmetric("K", "n", "psd")
    return Objective(
        ed.tr(S @ K) - ed.logdet(K), (K,), {"n": 4},
        reference=lambda S, K: jnp.trace(S @ (K + K.T) / 2) - jnp.linalg.slogdet((K + K.T) / 2)[1],
    )  # fmt: skip


@objective
def gaussian_mixture_by_means() -> Objective:
    """With responsibilities r, τ = `exp(-2h)`, d_ij = `X_i - M_j`: between means j and l
    `δ_jl Σ_i r_ij (τ_j² d_ij d_ij' - τ_j I) - Σ_i r_ij r_il τ_j τ_l d_ij d_il'`."""
    function, (M, *_), _ = models.mixture()

    def reference(X: Any, M: Any, h: Any, z: Any) -> Any:
        scores = z - jnp.sum((X[:, None] - M) ** 2, 2) * jnp.exp(-2 * h) / 2 - 5 * h
        return jnp.sum(jax.nn.logsumexp(scores, 1)) - 100 * jax.nn.logsumexp(z)

    return Objective(function, (M,), {"m": 6, "k": 4, "d": 3}, reference)


@objective
def pairwise_energy() -> Objective:
    """`Σ_{i<j} (e_i - e_j)(e_i - e_j)' ⊗ 2 (I / r - d d' / r³)` with d = `X_i - X_j`, r = `sqrt(d'd + e)`."""
    function, (X,), _ = models.pairwise_energy()
    return Objective(
        function, (X,), {"n": 5, "d": 3},
        reference=lambda X, e: jnp.sum(jnp.sqrt(jnp.sum((X[:, None] - X) ** 2, 2) + e)),
    )  # fmt: skip
