"""Model functions of machine learning: each a scalar function, the variables to differentiate by, and sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import eindiff as ed


class Model(NamedTuple):
    """A scalar function with its variables and the sizes it is costed at."""

    function: ed.Expr
    wrt: list
    sizes: dict[str, int]


def net(depth: int, activation: Callable[[ed.Expr], ed.Expr]) -> Model:
    """Fully connected layers and a softmax cross-entropy."""
    X, Y = ed.matrix("X", "b", "n"), ed.matrix("Y", "b", "n")
    weights = [ed.matrix(f"W{layer}", "n", "n") for layer in range(depth)]
    a = X
    for W in weights[:-1]:
        a = activation(a @ W)
    scores = a @ weights[-1]
    loss = ed.sum(ed.logsumexp(scores, 1) - ed.sum(Y * scores, 1))
    return Model(loss, weights, {"b": 40, "n": 40})


def logistic() -> Model:
    """Logistic regression."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    return Model(ed.sum(ed.log(ed.exp(-y * (X @ w)) + 1)), [w], {"m": 200, "n": 50})


def multinomial() -> Model:
    """Multinomial (softmax) regression."""
    X, Y, W = ed.matrix("X", "m", "n"), ed.matrix("Y", "m", "k"), ed.matrix("W", "n", "k")
    scores = X @ W
    return Model(ed.sum(ed.logsumexp(scores, 1)) - ed.sum(Y * scores), [W], {"m": 200, "n": 50, "k": 7})


def poisson() -> Model:
    """Poisson regression."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    return Model(ed.sum(ed.exp(X @ w) - y * (X @ w)), [w], {"m": 200, "n": 50})


def factorization(mask: bool = False, ridge: bool = False) -> Model:
    """Matrix factorization, with and without a mask of observed entries and a ridge term."""
    T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    residual = T - U @ V.T
    f = ed.norm2(ed.matrix("O", "m", "n") * residual if mask else residual) ** 2
    return Model(f + ed.scalar("c") * ed.norm2(U) ** 2 if ridge else f, [U, V], {"m": 80, "n": 60, "k": 5})


def gaussian_process() -> Model:
    """The negative log likelihood of a Gaussian process by the factors of its kernel and its noise."""
    A, y, s = ed.matrix("A", "n", "k"), ed.vector("y", "n"), ed.scalar("s", "positive")
    K = A @ A.T + s * ed.eye("n")
    return Model(y @ ed.solve(K, y) / 2 + ed.logdet(K) / 2, [A, s], {"n": 60, "k": 40})


def mixture() -> Model:
    """The log likelihood of a mixture of spherical Gaussians by means, log widths and weights."""
    X, M = ed.matrix("X", "m", "d"), ed.matrix("M", "k", "d")
    h, z = ed.vector("h", "k"), ed.vector("z", "k")
    apart = X[:, None, :] - M[None, :, :]
    squares = ed.sum(apart * apart, 2)
    scores = z - squares * ed.exp(-2 * h) / 2 - 5 * h
    return Model(ed.sum(ed.logsumexp(scores, 1)) - 100 * ed.logsumexp(z), [M, h, z], {"m": 100, "k": 6, "d": 5})


def attention() -> Model:
    """One head of softmax attention and a squared loss."""
    X, Y = ed.matrix("X", "t", "d"), ed.matrix("Y", "t", "k")
    Q, K, V = (ed.matrix(name, "d", "k") for name in "QKV")
    weights = ed.softmax((X @ Q) @ (X @ K).T / 4)
    return Model(ed.norm2(weights @ (X @ V) - Y) ** 2, [Q, K, V], {"t": 40, "d": 32, "k": 16})


def rayleigh() -> Model:
    """Principal component analysis as a Rayleigh quotient."""
    X, w = ed.matrix("X", "m", "n"), ed.vector("w", "n")
    return Model(-(w @ X.T @ X @ w) / (w @ w), [w], {"m": 100, "n": 40})


def nonnegative_factorization() -> Model:
    """Nonnegative matrix factorization with the Kullback-Leibler loss."""
    T, W, H = ed.matrix("T", "m", "n"), ed.matrix("W", "m", "k", "positive"), ed.matrix("H", "k", "n", "positive")
    return Model(ed.sum(W @ H - T * ed.log(W @ H)), [W, H], {"m": 50, "n": 40, "k": 6})


def recurrent(steps: int = 20) -> Model:
    """A recurrent net, unrolled."""
    W, U, x = ed.matrix("W", "n", "n"), ed.matrix("U", "n", "d"), [ed.vector(f"x{t}", "d") for t in range(steps)]
    y = ed.vector("y", "n")
    state = ed.tanh(U @ x[0])
    for t in range(1, steps):
        state = ed.tanh(W @ state + U @ x[t])
    return Model(ed.norm2(state - y) ** 2, [W, U], {"n": 40, "d": 10})


def quadratic() -> Model:
    """A quadratic form."""
    A, x = ed.matrix("A", "n", "n"), ed.vector("x", "n")
    return Model(x @ A @ x, [x], {"n": 100})


def pairwise_energy() -> Model:
    """The energy of all pairwise distances of n points."""
    X, e = ed.matrix("X", "n", "d"), ed.scalar("e", "positive")
    apart = X[:, None, :] - X[None, :, :]
    return Model(ed.sum(ed.sqrt(ed.sum(apart * apart, 2) + e)), [X], {"n": 30, "d": 3})


MODELS: dict[str, Callable[[], Model]] = {
    "20-layer net": lambda: net(20, ed.sigmoid),
    "logistic regression": logistic,
    "multinomial regression": multinomial,
    "Poisson regression": poisson,
    "matrix factorization": factorization,
    "masked matrix factorization with ridge": lambda: factorization(mask=True, ridge=True),
    "Gaussian process": gaussian_process,
    "Gaussian mixture": mixture,
    "attention": attention,
    "Rayleigh quotient": rayleigh,
    "nonnegative factorization": nonnegative_factorization,
    "recurrent net": recurrent,
    "quadratic form": quadratic,
    "pairwise energy": pairwise_energy,
}
