"""Losses over data in rows: what people fit to more rows than they have memory for, with data for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import eindiff as ed

M, N, K = 48, 4, 3  # rows, columns, factors


@dataclass(frozen=True)
class Loss:
    """A loss, what it is fitted by, and arrays; all with the index m come in blocks."""

    loss: ed.Expr
    by: ed.Expr | list[ed.Expr]
    arrays: dict[str, np.ndarray]


def _data(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "X": rng.normal(size=(M, N)), "y": rng.normal(size=M), "s": np.sign(rng.normal(size=M)),
        "c": rng.poisson(2.0, M).astype(float), "w": rng.normal(size=N) / 2, "b": np.array(0.3),
        "W": rng.normal(size=(N, K)) / 2, "Y": np.eye(K)[rng.integers(0, K, M)],
        "U": rng.normal(size=(M, K)), "V": rng.normal(size=(N, K)), "T": rng.normal(size=(M, N)),
        "O": (rng.random((M, N)) < 0.6).astype(float), "C": rng.normal(size=(K, N)),
        "P": rng.normal(size=(M, 3, N)), "Q": rng.normal(size=(K, N)), "a": rng.normal(size=K), "u": rng.normal(size=K),
        "R": rng.normal(size=(M, K)), "g": rng.integers(0, 5, M), "e": rng.normal(size=5),
    }  # fmt: skip


def losses() -> dict[str, Loss]:
    """The losses by name."""
    X, y, s, c = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("s", "m"), ed.vector("c", "m")
    w, b, W, Y = ed.vector("w", "n"), ed.scalar("b"), ed.matrix("W", "n", "k"), ed.matrix("Y", "m", "k")
    U, V, T, O = ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k"), ed.matrix("T", "m", "n"), ed.matrix("O", "m", "n")
    C, P, R = ed.matrix("C", "k", "n"), ed.tensor("P", "m", 3, "n"), ed.matrix("R", "m", "k")
    Q, a, u = ed.matrix("Q", "k", "n"), ed.vector("a", "k"), ed.vector("u", "k")
    g, e = ed.indices("g", "m", into="G"), ed.vector("e", "G")
    residual = X @ w - y
    masked = ed.sum((O * (T - U @ V.T)) ** 2) + ed.norm2(U) ** 2 + ed.norm2(V) ** 2
    logits = X @ W
    distances = ed.sum(X**2, 1)[:, None] - 2 * X @ C.T + ed.sum(C**2, 1)[None, :]
    differences = ed.einsum("ijk,k->ij", P, w)
    covariance = ed.eye("k") + R.T @ R
    make: dict[str, Callable[[], tuple[ed.Expr, ed.Expr | list[ed.Expr]]]] = {
        "logistic": lambda: (ed.sum(ed.softplus(-s * (X @ w))) + ed.norm2(w) ** 2, w),
        "Poisson": lambda: (ed.mean(ed.exp(X @ w) - c * (X @ w)), w),
        "multinomial": lambda: (ed.sum(ed.logsumexp(logits, 1)) - ed.sum(Y * logits) + ed.norm2(W) ** 2, W),
        "Huber": lambda: (ed.sum(ed.sqrt(1 + residual**2) - 1), w),
        "masked factorization by rows": lambda: (masked, U),
        "masked factorization by columns": lambda: (masked, V),
        "masked factorization by both": lambda: (masked, [U, V]),
        "mixture": lambda: (-ed.sum(ed.logsumexp(-distances / 2 + u[None, :], 1)), [C, u]),
        "pairs within a row": lambda: (
            ed.sum(ed.softplus(differences[:, :, None] - differences[:, None, :])) + ed.norm2(w) ** 2, w
        ),
        "smoothed quantile": lambda: (ed.mean(ed.softplus(5 * residual) / 5 - 0.3 * residual), w),
        "inducing points": lambda: (
            ed.logdet(covariance + u[0] ** 2 * ed.eye("k")) + y @ y - u[1] * (y @ R) @ ed.inv(covariance) @ (R.T @ y), u
        ),
        "small net": lambda: (ed.sum((ed.tanh(X @ Q.T) @ a - y) ** 2), [Q, a]),
        "ridge with intercept": lambda: (ed.sum((residual + b) ** 2) + ed.norm2(w) ** 2, [w, b]),
        "effects of groups": lambda: (ed.sum(ed.log(1 + (residual + e[g]) ** 2)) + ed.norm2(e) ** 2, [w, e]),
        "centred columns": lambda: (ed.sum(ed.log(1 + ((X - ed.mean(X, 0)) @ w) ** 2)), w),
        "softmax over rows": lambda: (ed.logsumexp(X @ w) + (ed.softmax(X @ w) @ y) ** 2, w),
    }  # fmt: skip
    data = _data()
    found = {}
    for name, one in make.items():
        loss, by = one()
        needed = {x.name for x in ed.variables(loss)} | {x.name for x in (by if isinstance(by, list) else [by])}
        found[name] = Loss(loss, by, {key: value for key, value in data.items() if key in needed})
    return found


SHARDED = ("X", "y", "g", "s", "c", "Y", "U", "T", "O", "P", "R")  # arrays with the index m, on their first axis
