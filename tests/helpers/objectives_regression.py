"""Objectives: regression, also with groups and mixed effects.

The notation is that of `objectives`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import eindiff as ed
import models
from eindiff.core.nodes import Variable
from objective import Makers, Objective, into

REGRESSION: Makers = {}
objective = into(REGRESSION)


def _regression(*sizes: int) -> tuple[Variable, Variable, Variable, dict[str, int]]:
    """Data X (m×n) and y, weights w."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    return X, y, w, dict(zip("mn", sizes, strict=True))


@objective
def logistic_regression() -> Objective:
    """`X' diag(y² σ(z) σ(-z)) X` with `z = y ∘ Xw`."""
    function, (w,), _ = models.logistic()
    return Objective(
        function, (w,), {"m": 7, "n": 4}, kinds={"y": "sign"},
        reference=lambda X, y, w: jnp.sum(jnp.logaddexp(0, -y * (X @ w))),
    )  # fmt: skip


@objective
def wide_logistic_regression_with_ridge() -> Objective:
    """`X' diag(σ(z) σ(-z)) X + 2cI` with `z = Xw`: of low rank next to the ridge."""
    X, y, w, sizes = _regression(3, 8)
    return Objective(
        ed.sum(ed.softplus(X @ w) - y * (X @ w)) + ed.scalar("c") * w @ w, (w,), sizes, kinds={"y": "binary"},
        reference=lambda X, y, w, c: jnp.sum(jax.nn.softplus(X @ w) - y * (X @ w)) + c * w @ w,
    )  # fmt: skip


@objective
def multinomial_regression_with_ridge() -> Objective:
    """`Σ_m X_m X_m' ⊗ (diag(p_m) - p_m p_m') + 2cI`."""
    function, (W,), _ = models.multinomial()
    return Objective(
        function + ed.scalar("c") * ed.norm2(W) ** 2, (W,), {"m": 7, "n": 4, "k": 3}, kinds={"Y": "one-hot"},
        reference=lambda X, Y, W, c: -jnp.sum(Y * jax.nn.log_softmax(X @ W)) + c * jnp.sum(W**2),
    )  # fmt: skip


@objective
def softmax_regression() -> Objective:
    """`Σ_b X_b X_b' ⊗ (Y_b'1) (diag(p_b) - p_b p_b')`, written with the logarithm of softmax."""
    X, Y, W = ed.matrix("X", "b", "n"), ed.matrix("Y", "b", "k"), ed.matrix("W", "n", "k")
    return Objective(
        -ed.sum(Y * ed.log(ed.softmax(X @ W))), (W,), {"b": 7, "n": 4, "k": 3}, kinds={"Y": "one-hot"},
        reference=lambda X, Y, W: -jnp.sum(Y * jax.nn.log_softmax(X @ W)),
    )  # fmt: skip


@objective
def poisson_regression() -> Objective:
    """`X' diag(exp(Xw)) X`."""
    function, (w,), _ = models.poisson()
    return Objective(
        function, (w,), {"m": 7, "n": 4}, kinds={"y": "count"},
        reference=lambda X, y, w: jnp.sum(jnp.exp(X @ w) - y * (X @ w)),
    )  # fmt: skip


def _ridge_regression(*sizes: int) -> Objective:
    """Squares, and those of the weights."""
    X, y, w, named = _regression(*sizes)
    return Objective(
        ed.norm2(X @ w - y) ** 2 + ed.scalar("c") * ed.norm2(w) ** 2, (w,), named,
        reference=lambda X, y, w, c: jnp.sum((X @ w - y) ** 2) + c * jnp.sum(w**2),
    )  # fmt: skip


@objective
def ridge_regression() -> Objective:
    """`2 X'X + 2cI`."""
    return _ridge_regression(7, 4)


@objective
def wide_ridge_regression() -> Objective:
    """`2 X'X + 2cI`: of low rank next to the ridge."""
    return _ridge_regression(3, 8)


@objective
def pseudo_huber_regression() -> Objective:
    """`X' diag((1 + r²/d²)^(-3/2)) X` with `r = Xw - y`."""
    X, y, w, sizes = _regression(7, 4)
    d = ed.scalar("d", "positive")
    return Objective(
        ed.sum(d**2 * (ed.sqrt(1 + ((X @ w - y) / d) ** 2) - 1)), (w,), sizes,
        reference=lambda X, y, w, d: jnp.sum(d**2 * (jnp.sqrt(1 + ((X @ w - y) / d) ** 2) - 1)),
    )  # fmt: skip


@objective
def log_cosh_regression() -> Objective:
    """`X' diag(1 - tanh(Xw - y)²) X`."""
    X, y, w, sizes = _regression(7, 4)
    return Objective(
        ed.sum(ed.log(ed.cosh(X @ w - y))), (w,), sizes,
        reference=lambda X, y, w: jnp.sum(jnp.log(jnp.cosh(X @ w - y))),
    )  # fmt: skip


@objective
def squared_hinge_with_ridge() -> Objective:
    """`2 X' diag(y² [y ∘ Xw < 1]) X + 2cI`."""
    X, y, w, sizes = _regression(7, 4)
    return Objective(
        ed.sum(ed.relu(1 - y * (X @ w)) ** 2) + ed.scalar("c") * w @ w, (w,), sizes, kinds={"y": "sign"},
        reference=lambda X, y, w, c: jnp.sum(jax.nn.relu(1 - y * (X @ w)) ** 2) + c * w @ w,
    )  # fmt: skip


@objective
def cox_regression() -> Objective:
    """`X' (diag(P'd) - P' diag(d) P) X`, where row i of P is the softmax of the first i entries of Xw."""
    X, d, w = ed.matrix("X", "m", "n"), ed.vector("d", "m"), ed.vector("w", "n")
    return Objective(
        d @ (ed.log(ed.cumsum(ed.exp(X @ w))) - X @ w), (w,), {"m": 7, "n": 4}, kinds={"d": "binary"},
        reference=lambda X, d, w: d @ (jnp.log(jnp.cumsum(jnp.exp(X @ w))) - X @ w),
    )  # fmt: skip


@objective
def multitask_regression() -> Objective:
    """`2 X'X ⊗ I`."""
    X, Y, W = ed.matrix("X", "m", "n"), ed.matrix("Y", "m", "k"), ed.matrix("W", "n", "k")
    return Objective(
        ed.norm2(X @ W - Y) ** 2, (W,), {"m": 7, "n": 4, "k": 3},
        reference=lambda X, Y, W: jnp.sum((X @ W - Y) ** 2),
    )  # fmt: skip


@objective
def groupwise_logistic_regression() -> Objective:
    """`diag(X_g' diag(σ(z_g) σ(-z_g)) X_g) over g` with `z_g = X_g w_g`."""
    X, Y, W = ed.tensor("X", ("g", "m", "p")), ed.matrix("Y", "g", "m"), ed.matrix("W", "g", "p")
    scores = ed.einsum("gmp,gp->gm", X, W)
    return Objective(
        ed.sum(ed.softplus(scores) - Y * scores), (W,), {"g": 5, "m": 7, "p": 3}, kinds={"Y": "binary"},
        reference=lambda X, Y, W: sum(
            jnp.sum(jax.nn.softplus(x @ w) - y * (x @ w)) for x, y, w in zip(X, Y, W, strict=True)
        ),
    )  # fmt: skip


@objective
def gene_models() -> Objective:
    """`diag(X' diag(exp(X B_g)) X) over g`: the coefficients of gene g are row g of B."""
    X, Y, B = ed.matrix("X", "m", "p"), ed.matrix("Y", "m", "g"), ed.matrix("B", "g", "p")
    scores = X @ B.T
    return Objective(
        ed.sum(ed.exp(scores) - Y * scores), (B,), {"m": 7, "g": 5, "p": 3}, kinds={"Y": "count"},
        reference=lambda X, Y, B: jnp.sum(jnp.exp(X @ B.T) - Y * (X @ B.T)),
    )  # fmt: skip


@objective
def gene_models_by_columns() -> Objective:
    """`Σ_g X' diag(exp(X B e_g)) X ⊗ e_g e_g'`: the coefficients of gene g are column g of B."""
    X, Y, B = ed.matrix("X", "m", "p"), ed.matrix("Y", "m", "g"), ed.matrix("B", "p", "g")
    scores = X @ B
    return Objective(
        ed.sum(ed.exp(scores) - Y * scores), (B,), {"m": 7, "g": 5, "p": 3}, kinds={"Y": "count"},
        reference=lambda X, Y, B: jnp.sum(jnp.exp(X @ B) - Y * (X @ B)),
    )  # fmt: skip


def _mixed_effects() -> tuple[ed.Expr, Variable, Variable, Variable, dict[str, int]]:
    """Scores `X_g β + Z_g b_g` of groups g, data Y, coefficients b of each group and β of all, sizes."""
    X, Z, Y = ed.tensor("X", ("g", "m", "p")), ed.tensor("Z", ("g", "m", "q")), ed.matrix("Y", "g", "m")
    b, beta = ed.matrix("b", "g", "q"), ed.vector("β", "p")
    return X @ beta + ed.einsum("gmq,gq->gm", Z, b), Y, b, beta, {"g": 5, "m": 6, "p": 3, "q": 2}


def _mixed_scores(X: Any, Z: Any, b: Any, β: Any) -> Any:
    """The scores of mixed effects in JAX."""
    return X @ β + (Z @ b[:, :, None])[:, :, 0]


@objective
def mixed_effects() -> Objective:
    """bb: `diag(2 Z_g'Z_g + 2cI) over g`; bβ: `2 Z_g'X_g`, one below the other; ββ: `2 Σ_g X_g'X_g`: an arrowhead."""
    scores, Y, b, beta, sizes = _mixed_effects()
    return Objective(
        ed.norm2(Y - scores) ** 2 + ed.scalar("c") * ed.norm2(b) ** 2, (b, beta), sizes,
        reference=lambda X, Z, Y, b, β, c: jnp.sum((Y - _mixed_scores(X, Z, b, β)) ** 2) + c * jnp.sum(b**2),
    )  # fmt: skip


@objective
def mixed_effects_logistic() -> Objective:
    """D = `σ'(X_g β + Z_g b_g)`; bb: `diag(Z_g'D_g Z_g + 2cI) over g`; bβ: `Z_g'D_g X_g`; ββ: `Σ_g X_g'D_g X_g`."""
    scores, Y, b, beta, sizes = _mixed_effects()

    def reference(X: Any, Z: Any, Y: Any, b: Any, β: Any, c: Any) -> Any:
        scores = _mixed_scores(X, Z, b, β)
        return jnp.sum(jax.nn.softplus(scores) - Y * scores) + c * jnp.sum(b**2)

    return Objective(
        ed.sum(ed.softplus(scores) - Y * scores) + ed.scalar("c") * ed.norm2(b) ** 2, (b, beta), sizes, reference,
        kinds={"Y": "binary"},
    )  # fmt: skip
