"""Objectives of functions of entries: nets, sums, differences.

The notation is that of `objectives`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

import eindiff as ed
import models
from objective import Makers, Objective, into

ELEMENTWISE: Makers = {}
objective = into(ELEMENTWISE)


# Nets


def _autoencoder(layer: int) -> Objective:
    """Two layers that give back what is given, by one of them."""
    X, V, W = ed.matrix("X", "m", "n"), ed.matrix("V", "n", "h"), ed.matrix("W", "h", "n")
    return Objective(
        ed.norm2(X - ed.sigmoid(X @ V) @ W) ** 2, ((V, W)[layer],), {"m": 6, "n": 4, "h": 3},
        reference=lambda X, V, W: jnp.sum((X - jax.nn.sigmoid(X @ V) @ W) ** 2),
    )  # fmt: skip


@objective
def autoencoder_by_last_layer() -> Objective:
    """`2 A'A ⊗ I` with A = `σ(XV)`."""
    return _autoencoder(1)


@objective
def autoencoder_by_first_layer() -> Objective:
    """`Σ_m X_m X_m' ⊗ (2 D_m W W' D_m + diag(G_m ∘ σ''_m))`, D = `diag(σ')`, G = `-2 (X - σ(XV) W) W'`."""
    return _autoencoder(0)


def _net_with_one_sample(activation: Callable, jax_activation: Callable) -> Objective:
    """Two layers and a softmax cross-entropy, by the first."""
    x, y, V, W = ed.vector("x", "n"), ed.vector("y", "k"), ed.matrix("V", "h", "n"), ed.matrix("W", "k", "h")
    scores = W @ activation(V @ x)
    return Objective(
        ed.logsumexp(scores) - y @ scores, (V,), {"n": 4, "h": 5, "k": 3}, kinds={"y": "one-hot"},
        reference=lambda x, y, V, W: -y @ jax.nn.log_softmax(W @ jax_activation(V @ x)),
    )  # fmt: skip


@objective
def relu_net_with_one_sample() -> Objective:
    """`M ⊗ x x'` with M = `D W' (diag(p) - p p') W D`, D = `diag(Vx > 0)`."""
    return _net_with_one_sample(ed.relu, jax.nn.relu)


@objective
def sigmoid_net_with_one_sample() -> Objective:
    """`M ⊗ x x'` with M = `D W' (diag(p) - p p') W D + diag(W' (p - y) ∘ σ''(Vx))`, D = `diag(σ'(Vx))`."""
    return _net_with_one_sample(ed.sigmoid, jax.nn.sigmoid)


@objective
def sigmoid_net() -> Objective:
    """`Σ_b X_b X_b' ⊗ M_b` with M_b = `D W (diag(p) - p p') W' D + diag(W (p - y) ∘ σ'')` at sample b."""
    X, Y, V, W = ed.matrix("X", "b", "n"), ed.matrix("Y", "b", "k"), ed.matrix("V", "n", "h"), ed.matrix("W", "h", "k")
    scores = ed.sigmoid(X @ V) @ W
    return Objective(
        ed.sum(ed.logsumexp(scores, 1) - ed.sum(Y * scores, 1)), (V,), {"b": 6, "n": 4, "h": 5, "k": 3},
        kinds={"Y": "one-hot"},
        reference=lambda X, Y, V, W: -jnp.sum(Y * jax.nn.log_softmax(jax.nn.sigmoid(X @ V) @ W)),
    )  # fmt: skip


@objective
def attention() -> Objective:
    """`Σ_t X_t X_t' ⊗ (XK)' N_t (XK) / 16` with N = `2 J XV V'X' J + diag(u) - u p' - p u'` at row t,
    J = `diag(p) - p p'`, u = `2 J XV (V'X'p - y)`."""
    function, (Q, *_), _ = models.attention()
    return Objective(
        function, (Q,), {"t": 5, "d": 4, "k": 3},
        reference=lambda X, Y, Q, K, V: jnp.sum((jax.nn.softmax((X @ Q) @ (X @ K).T / 4) @ (X @ V) - Y) ** 2),
    )  # fmt: skip


# Functions of entries, sums and differences


@objective
def separable() -> Objective:
    """`diag(a² σ(a ∘ x) σ(-a ∘ x))`."""
    a, x = ed.vector("a", "n"), ed.vector("x", "n")
    return Objective(
        ed.sum(ed.log(1 + ed.exp(a * x))), (x,), {"n": 5}, reference=lambda a, x: jnp.sum(jnp.logaddexp(0, a * x))
    )  # fmt: skip


@objective
def cubes() -> Objective:
    """`diag(6x)`."""
    x = ed.vector("x", "n")
    return Objective(ed.sum(x**3), (x,), {"n": 5}, reference=lambda x: jnp.sum(x**3))


@objective
def smooth_absolute_values() -> Objective:
    """`diag(e / (x² + e)^(3/2))`."""
    x, e = ed.vector("x", "n"), ed.scalar("e", "positive")
    return Objective(
        ed.sum(ed.sqrt(x**2 + e)), (x,), {"n": 5}, reference=lambda x, e: jnp.sum(jnp.sqrt(x**2 + e))
    )  # fmt: skip


@objective
def barrier() -> Objective:
    """`diag(1 / x²)`."""
    c, x = ed.vector("c", "n"), ed.vector("x", "n", "positive")
    return Objective(c @ x - ed.sum(ed.log(x)), (x,), {"n": 5}, reference=lambda c, x: c @ x - jnp.sum(jnp.log(x)))


@objective
def barrier_of_inequalities() -> Objective:
    """`A' diag(1 / (Ax)²) A`."""
    A, c, x = ed.matrix("A", "m", "n"), ed.vector("c", "n"), ed.vector("x", "n")
    return Objective(
        c @ x - ed.sum(ed.log(A @ x)), (x,), {"m": 7, "n": 4}, kinds={"A": "positive", "x": "positive"},
        reference=lambda A, c, x: c @ x - jnp.sum(jnp.log(A @ x)),
    )  # fmt: skip


@objective
def transport_with_entropy() -> Objective:
    """`diag(c / P)`, by all entries of P."""
    C, P, c = ed.matrix("C", "m", "n"), ed.matrix("P", "m", "n", "positive"), ed.scalar("c")
    return Objective(
        ed.sum(C * P) + c * ed.sum(P * ed.log(P)), (P,), {"m": 4, "n": 3},
        reference=lambda C, P, c: jnp.sum(C * P) + c * jnp.sum(P * jnp.log(P)),
    )  # fmt: skip


@objective
def soft_maximum() -> Objective:
    """`X' (diag(p) - p p') X`."""
    X, w = ed.matrix("X", "m", "n"), ed.vector("w", "n")
    return Objective(
        ed.logsumexp(X @ w), (w,), {"m": 7, "n": 4}, reference=lambda X, w: jax.nn.logsumexp(X @ w)
    )  # fmt: skip


@objective
def smoothing() -> Objective:
    """`2I + 2c D'D` with the first differences D: tridiagonal."""
    x, y, c = ed.vector("x", "n"), ed.vector("y", "n"), ed.scalar("c")
    return Objective(
        ed.norm2(x - y) ** 2 + c * ed.norm2(x[1:] - x[:-1]) ** 2, (x,), {"n": 7},
        reference=lambda x, y, c: jnp.sum((x - y) ** 2) + c * jnp.sum(jnp.diff(x) ** 2),
    )  # fmt: skip


@objective
def trend_filtering() -> Objective:
    """`2I + 2c D'D` with the second differences D: five diagonals."""
    x, y, c = ed.vector("x", "n"), ed.vector("y", "n"), ed.scalar("c")
    return Objective(
        ed.norm2(x - y) ** 2 + c * ed.norm2(x[2:] - 2 * x[1:-1] + x[:-2]) ** 2, (x,), {"n": 7},
        reference=lambda x, y, c: jnp.sum((x - y) ** 2) + c * jnp.sum(jnp.diff(x, 2) ** 2),
    )  # fmt: skip


@objective
def smoothing_of_columns() -> Objective:
    """`(2I + 2c D'D) ⊗ I` with the first differences D."""
    X, Y, c = ed.matrix("X", "n", "k"), ed.matrix("Y", "n", "k"), ed.scalar("c")
    return Objective(
        ed.norm2(X - Y) ** 2 + c * ed.norm2(X[1:] - X[:-1]) ** 2, (X,), {"n": 6, "k": 3},
        reference=lambda X, Y, c: jnp.sum((X - Y) ** 2) + c * jnp.sum(jnp.diff(X, axis=0) ** 2),
    )  # fmt: skip


@objective
def variance() -> Objective:
    """`2 (I - 11' / n)`."""
    x = ed.vector("x", "n")
    return Objective(ed.sum((x - ed.mean(x)) ** 2), (x,), {"n": 5}, reference=lambda x: jnp.sum((x - jnp.mean(x)) ** 2))


@objective
def portfolio() -> Objective:
    """`2 F F' + 2 diag(d)`: of low rank next to a diagonal."""
    F, d, r, x = ed.matrix("F", "n", "k"), ed.vector("d", "n", "positive"), ed.vector("r", "n"), ed.vector("x", "n")
    return Objective(
        ed.norm2(F.T @ x) ** 2 + ed.sum(d * x**2) - r @ x, (x,), {"n": 8, "k": 2},
        reference=lambda F, d, r, x: jnp.sum((F.T @ x) ** 2) + jnp.sum(d * x**2) - r @ x,
    )  # fmt: skip


@objective
def bilinear_form() -> Objective:
    """xx: `0`; yy: `0`; xy: `A`."""
    A, x, y = ed.matrix("A", "m", "n"), ed.vector("x", "m"), ed.vector("y", "n")
    return Objective(x @ A @ y, (x, y), {"m": 5, "n": 4}, reference=lambda A, x, y: x @ A @ y)


@objective
def sum_of_squares() -> Objective:
    """`2I`."""
    X = ed.matrix("X", "m", "n")
    return Objective(ed.norm2(X) ** 2, (X,), {"m": 4, "n": 3}, reference=lambda X: jnp.sum(X**2))


@objective
def linear_function() -> Objective:
    """`0`."""
    C, X = ed.matrix("C", "m", "n"), ed.matrix("X", "m", "n")
    return Objective(ed.sum(C * X), (X,), {"m": 4, "n": 3}, reference=lambda C, X: jnp.sum(C * X))
