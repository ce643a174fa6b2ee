"""Objectives: factorizations of matrices and tensors.

The notation is that of `objectives`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import eindiff as ed
import models
from objective import Makers, Objective, into

FACTORIZATION: Makers = {}
objective = into(FACTORIZATION)


def _squares(T: Any, U: Any, V: Any) -> Any:
    """`‖T - U V'‖²` in JAX."""
    return jnp.sum((T - U @ V.T) ** 2)


@objective
def factorization() -> Objective:
    """`2 I ⊗ V'V`."""
    function, (U, _), _ = models.factorization()
    return Objective(function, (U,), {"m": 6, "n": 5, "k": 3}, reference=_squares)


@objective
def factorization_by_both() -> Objective:
    """UU: `2 I ⊗ V'V`; VV: `2 I ⊗ U'U`; UV at (i, a), (j, b): `2 U_ib V_ja - 2 (T - U V')_ij δ_ab`."""
    function, (U, V), _ = models.factorization()
    return Objective(function, (U, V), {"m": 6, "n": 5, "k": 3}, reference=_squares)


@objective
def factorization_by_both_with_ridge() -> Objective:
    """UU: `2 I ⊗ (V'V + cI)`; VV: `2 I ⊗ (U'U + cI)`; UV at (i, a), (j, b): `2 U_ib V_ja - 2 (T - U V')_ij δ_ab`."""
    function, (U, V), _ = models.factorization(ridge=True)
    return Objective(
        function + ed.scalar("c") * ed.norm2(V) ** 2, (U, V), {"m": 6, "n": 5, "k": 3},
        reference=lambda T, U, V, c: _squares(T, U, V) + c * (jnp.sum(U**2) + jnp.sum(V**2)),
    )  # fmt: skip


@objective
def factorization_with_ridge() -> Objective:
    """`2 I ⊗ (V'V + cI)`."""
    function, (U, _), _ = models.factorization(ridge=True)
    return Objective(
        function, (U,), {"m": 6, "n": 5, "k": 3},
        reference=lambda T, U, V, c: _squares(T, U, V) + c * jnp.sum(U**2),
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
