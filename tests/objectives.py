"""Objective functions of machine learning and statistics, with the structure that their Hessians have by hand.

The docstring of each gives its Hessian, entries of variables in row-major order: `A ⊗ B` has A_ik B_jl between the
entries (i, j) and (k, l). For several variables it gives the blocks. `M_i` is row i, `∘` the product of entries,
`diag(a_i) over i` a block for each i, σ the sigmoid, p softmax probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import eindiff as ed
import models
from eindiff import sizes as sz
from eindiff.expr import Variable
from oracles import jit


@dataclass(frozen=True, slots=True)
class Objective:
    """A scalar function by some of its variables, small sizes, and the same function of arrays by name in JAX."""

    function: ed.Expr
    wrt: tuple[Variable, ...]
    sizes: dict[str, int]
    reference: Callable[..., Any]
    kinds: dict[str, str] = field(default_factory=dict)  # of the variables that are not any numbers: see `_sample`

    def point(self, generator: np.random.Generator, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
        """Arrays by name at a random point that makes sense; `sizes` take the place of the small ones."""
        known = {**self.sizes, **(sizes or {})}
        return {x.name: _sample(x, known, self.kinds.get(x.name, ""), generator) for x in ed.variables(self.function)}

    def expected(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, list[list[np.ndarray]]]:
        """The value, and the blocks of the Hessian, from JAX."""

        def by(variables: dict[str, Any]) -> Any:
            return self.reference(**{**arrays, **variables})

        names = [x.name for x in self.wrt]
        value, blocks = jit(lambda point: (by(point), jax.hessian(by)(point)))({name: arrays[name] for name in names})
        return np.asarray(value), [[np.asarray(blocks[a][b]) for b in names] for a in names]


def _sample(variable: Variable, sizes: Mapping[str, int], kind: str, generator: np.random.Generator) -> np.ndarray:
    """Numbers of a kind. Scalars are weights, scales or widths: positive, as are variables declared so."""
    shape = tuple([sz.evaluate(size, sizes) for size in variable.shape])
    if variable.symmetries:
        noise = generator.normal(size=shape)
        return noise @ noise.T / shape[0] + np.eye(shape[0])
    if kind == "binary":
        return generator.integers(0, 2, shape).astype(float)
    if kind == "sign":
        return generator.choice([-1.0, 1.0], shape)
    if kind == "count":
        return generator.poisson(2.0, shape).astype(float)
    if kind == "one-hot":
        return np.eye(shape[-1])[generator.integers(0, shape[-1], shape[:-1])]
    if kind == "positive" or not shape or "positive" in variable.properties:
        return generator.uniform(0.5, 1.5, shape)
    return generator.normal(size=shape)


OBJECTIVES: dict[str, Callable[[], Objective]] = {}


def objective(maker: Callable[[], Objective]) -> Callable[[], Objective]:
    """Put a maker into the table, under its name in words."""
    OBJECTIVES[maker.__name__.replace("_", " ")] = maker
    return maker


def _regression(*sizes: int) -> tuple[Variable, Variable, Variable, dict[str, int]]:
    """Data X (m×n) and y, weights w."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    return X, y, w, dict(zip("mn", sizes, strict=True))


# Matrix and tensor factorization


@objective
def factorization() -> Objective:
    """`2 I ⊗ V'V`."""
    function, (U, _), _ = models.factorization()
    return Objective(
        function, (U,), {"m": 6, "n": 5, "k": 3}, reference=lambda T, U, V: jnp.sum((T - U @ V.T) ** 2)
    )  # fmt: skip


@objective
def factorization_by_both() -> Objective:
    """UU: `2 I ⊗ V'V`; VV: `2 I ⊗ U'U`; UV at (i, a), (j, b): `2 U_ib V_ja - 2 (T - U V')_ij δ_ab`."""
    function, (U, V), _ = models.factorization()
    return Objective(
        function, (U, V), {"m": 6, "n": 5, "k": 3}, reference=lambda T, U, V: jnp.sum((T - U @ V.T) ** 2)
    )  # fmt: skip


@objective
def factorization_by_both_with_ridge() -> Objective:
    """UU: `2 I ⊗ (V'V + cI)`; VV: `2 I ⊗ (U'U + cI)`; UV at (i, a), (j, b): `2 U_ib V_ja - 2 (T - U V')_ij δ_ab`."""
    function, (U, V), _ = models.factorization(ridge=True)
    return Objective(
        function + ed.scalar("c") * ed.norm2(V) ** 2, (U, V), {"m": 6, "n": 5, "k": 3},
        reference=lambda T, U, V, c: jnp.sum((T - U @ V.T) ** 2) + c * (jnp.sum(U**2) + jnp.sum(V**2)),
    )  # fmt: skip


@objective
def factorization_with_ridge() -> Objective:
    """`2 I ⊗ (V'V + cI)`."""
    function, (U, _), _ = models.factorization(ridge=True)
    return Objective(
        function, (U,), {"m": 6, "n": 5, "k": 3},
        reference=lambda T, U, V, c: jnp.sum((T - U @ V.T) ** 2) + c * jnp.sum(U**2),
    )  # fmt: skip


@objective
def masked_factorization() -> Objective:
    """`diag(2 V' diag(O_i²) V) over i`."""
    function, (U, _), _ = models.factorization(mask=True)
    return Objective(
        function, (U,), {"m": 6, "n": 7, "k": 3}, kinds={"O": "binary"},
        reference=lambda O, T, U, V: jnp.sum((O * (T - U @ V.T)) ** 2),
    )  # fmt: skip


@objective
def masked_factorization_with_ridge() -> Objective:
    """`diag(2 V' diag(O_i²) V + 2cI) over i`."""
    function, (U, _), _ = models.factorization(mask=True, ridge=True)
    return Objective(
        function, (U,), {"m": 6, "n": 7, "k": 3}, kinds={"O": "binary"},
        reference=lambda O, T, U, V, c: jnp.sum((O * (T - U @ V.T)) ** 2) + c * jnp.sum(U**2),
    )  # fmt: skip


@objective
def weighted_factorization() -> Objective:
    """`diag(2 V' diag(W_i) V) over i`."""
    T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    W = ed.matrix("W", "m", "n", "positive")
    return Objective(
        ed.sum(W * (T - U @ V.T) ** 2), (U,), {"m": 6, "n": 5, "k": 3},
        reference=lambda T, U, V, W: jnp.sum(W * (T - U @ V.T) ** 2),
    )  # fmt: skip


@objective
def nonnegative_factorization() -> Objective:
    """`diag(H diag(T_i / (W H)_i²) H') over i`."""
    function, (W, _), _ = models.nonnegative_factorization()
    return Objective(
        function, (W,), {"m": 6, "n": 5, "k": 3}, kinds={"T": "positive"},
        reference=lambda T, W, H: jnp.sum(W @ H - T * jnp.log(W @ H)),
    )  # fmt: skip


@objective
def nonnegative_factorization_with_squares() -> Objective:
    """`2 I ⊗ H H'`."""
    T, W, H = ed.matrix("T", "m", "n"), ed.matrix("W", "m", "k", "positive"), ed.matrix("H", "k", "n", "positive")
    return Objective(
        ed.norm2(T - W @ H) ** 2, (W,), {"m": 6, "n": 5, "k": 3}, kinds={"T": "positive"},
        reference=lambda T, W, H: jnp.sum((T - W @ H) ** 2),
    )  # fmt: skip


@objective
def tensor_factorization() -> Objective:
    """`2 I ⊗ (B'B ∘ C'C)`."""
    T = ed.tensor("T", ("l", "m", "n"))
    A, B, C = ed.matrix("A", "l", "r"), ed.matrix("B", "m", "r"), ed.matrix("C", "n", "r")
    return Objective(
        ed.sum((T - ed.einsum("ir,jr,kr->ijk", A, B, C)) ** 2), (A,), {"l": 5, "m": 4, "n": 3, "r": 2},
        reference=lambda T, A, B, C: jnp.sum((T - jnp.einsum("ir,jr,kr->ijk", A, B, C)) ** 2),
    )  # fmt: skip


@objective
def ratings_by_biases() -> Objective:
    """uu: `2 (n + c) I`; vv: `2 (m + c) I`; uv: `2 11'`."""
    T, u, v, c = ed.matrix("T", "m", "n"), ed.vector("u", "m"), ed.vector("v", "n"), ed.scalar("c")
    return Objective(
        ed.sum((T - u[:, None] - v) ** 2) + c * (u @ u + v @ v), (u, v), {"m": 6, "n": 4},
        reference=lambda T, u, v, c: jnp.sum((T - u[:, None] - v) ** 2) + c * (u @ u + v @ v),
    )  # fmt: skip


@objective
def masked_ratings_by_biases() -> Objective:
    """uu: `2 diag(O²1 + c)`; vv: `2 diag(O²'1 + c)`; uv: `2 O²`; squares entry by entry."""
    T, O, u, v = ed.matrix("T", "m", "n"), ed.matrix("O", "m", "n"), ed.vector("u", "m"), ed.vector("v", "n")
    c = ed.scalar("c")
    return Objective(
        ed.sum((O * (T - u[:, None] - v)) ** 2) + c * (u @ u + v @ v), (u, v), {"m": 6, "n": 4}, kinds={"O": "binary"},
        reference=lambda T, O, u, v, c: jnp.sum((O * (T - u[:, None] - v)) ** 2) + c * (u @ u + v @ v),
    )  # fmt: skip


# Regression


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


@objective
def ridge_regression() -> Objective:
    """`2 X'X + 2cI`."""
    X, y, w, sizes = _regression(7, 4)
    return Objective(
        ed.norm2(X @ w - y) ** 2 + ed.scalar("c") * ed.norm2(w) ** 2, (w,), sizes,
        reference=lambda X, y, w, c: jnp.sum((X @ w - y) ** 2) + c * jnp.sum(w**2),
    )  # fmt: skip


@objective
def wide_ridge_regression() -> Objective:
    """`2 X'X + 2cI`: of low rank next to the ridge."""
    X, y, w, sizes = _regression(3, 8)
    return Objective(
        ed.norm2(X @ w - y) ** 2 + ed.scalar("c") * ed.norm2(w) ** 2, (w,), sizes,
        reference=lambda X, y, w, c: jnp.sum((X @ w - y) ** 2) + c * jnp.sum(w**2),
    )  # fmt: skip


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


@objective
def mixed_effects() -> Objective:
    """bb: `diag(2 Z_g'Z_g + 2cI) over g`; bβ: `2 Z_g'X_g`, one below the other; ββ: `2 Σ_g X_g'X_g`: an arrowhead."""
    X, Z, Y = ed.tensor("X", ("g", "m", "p")), ed.tensor("Z", ("g", "m", "q")), ed.matrix("Y", "g", "m")
    b, beta = ed.matrix("b", "g", "q"), ed.vector("β", "p")
    residual = Y - X @ beta - ed.einsum("gmq,gq->gm", Z, b)
    return Objective(
        ed.norm2(residual) ** 2 + ed.scalar("c") * ed.norm2(b) ** 2, (b, beta), {"g": 5, "m": 6, "p": 3, "q": 2},
        reference=lambda X, Z, Y, b, β, c: (
            jnp.sum((Y - X @ β - (Z @ b[:, :, None])[:, :, 0]) ** 2) + c * jnp.sum(b**2)
        ),
    )  # fmt: skip


@objective
def mixed_effects_logistic() -> Objective:
    """D = `σ'(X_g β + Z_g b_g)`; bb: `diag(Z_g'D_g Z_g + 2cI) over g`; bβ: `Z_g'D_g X_g`; ββ: `Σ_g X_g'D_g X_g`."""
    X, Z, Y = ed.tensor("X", ("g", "m", "p")), ed.tensor("Z", ("g", "m", "q")), ed.matrix("Y", "g", "m")
    b, beta = ed.matrix("b", "g", "q"), ed.vector("β", "p")
    scores = X @ beta + ed.einsum("gmq,gq->gm", Z, b)

    def reference(X: Any, Z: Any, Y: Any, b: Any, β: Any, c: Any) -> Any:
        scores = X @ β + (Z @ b[:, :, None])[:, :, 0]
        return jnp.sum(jax.nn.softplus(scores) - Y * scores) + c * jnp.sum(b**2)

    return Objective(
        ed.sum(ed.softplus(scores) - Y * scores) + ed.scalar("c") * ed.norm2(b) ** 2, (b, beta),
        {"g": 5, "m": 6, "p": 3, "q": 2}, reference, kinds={"Y": "binary"},
    )  # fmt: skip


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


# Nets


@objective
def autoencoder_by_last_layer() -> Objective:
    """`2 A'A ⊗ I` with A = `σ(XV)`."""
    X, V, W = ed.matrix("X", "m", "n"), ed.matrix("V", "n", "h"), ed.matrix("W", "h", "n")
    return Objective(
        ed.norm2(X - ed.sigmoid(X @ V) @ W) ** 2, (W,), {"m": 6, "n": 4, "h": 3},
        reference=lambda X, V, W: jnp.sum((X - jax.nn.sigmoid(X @ V) @ W) ** 2),
    )  # fmt: skip


@objective
def autoencoder_by_first_layer() -> Objective:
    """`Σ_m X_m X_m' ⊗ (2 D_m W W' D_m + diag(G_m ∘ σ''_m))`, D = `diag(σ')`, G = `-2 (X - σ(XV) W) W'`."""
    X, V, W = ed.matrix("X", "m", "n"), ed.matrix("V", "n", "h"), ed.matrix("W", "h", "n")
    return Objective(
        ed.norm2(X - ed.sigmoid(X @ V) @ W) ** 2, (V,), {"m": 6, "n": 4, "h": 3},
        reference=lambda X, V, W: jnp.sum((X - jax.nn.sigmoid(X @ V) @ W) ** 2),
    )  # fmt: skip


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
