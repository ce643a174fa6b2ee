"""Whole functions as people write them with NumPy, and arrays to call them with; derivatives are by the first argument.

`np` is a name of this module, so that the same functions run with `jax.numpy` in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles import sample


@dataclass(frozen=True)
class Program:
    """A function, and the domains and shapes of its arguments: `"positive 3x2"`, or the argument itself."""

    function: Callable
    arguments: tuple[Any, ...]

    def arrays(self, seed: int = 0) -> list[Any]:
        """Random arguments."""
        rng = np.random.default_rng(seed)
        return [made(spec, rng) if isinstance(spec, str) else spec for spec in self.arguments]


def made(spec: str, rng: np.random.Generator) -> np.ndarray:
    """An array of a domain and a shape: `"real 3x2"`, `"positive"` for a scalar."""
    domain, _, shape = spec.partition(":")
    return sample(domain, [int(size) for size in shape.split("x")] if shape else [], rng)


PROGRAMS: dict[str, Program] = {}


def program(*arguments: Any) -> Callable[[Callable], Callable]:
    """Add a function to the list."""

    def add(function: Callable) -> Callable:
        PROGRAMS[function.__name__] = Program(function, arguments)
        return function

    return add


LABELS = np.array([0, 2, 1, 1, 0])
MASK = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=bool)
GRID = np.linspace(0.1, 0.9, 6)

# Regression


@program("real:3", "real:6x3", "real:6", 0.3)
def ridge(w, X, y, lam):
    return np.sum((X @ w - y) ** 2) / len(y) + lam * w.dot(w)


@program("real:3", "real:6x3", "real:6")
def logistic(w, X, y):
    return np.mean(np.log(1 + np.exp(-np.sign(y) * (X @ w))))


@program("real:3", "real:6x3", "positive:6")
def poisson(w, X, y):
    eta = np.dot(X, w)
    return np.sum(np.exp(eta) - y * eta)


@program("real:3x3", "real:5x3")
def softmax_regression(W, X, labels=LABELS):
    logits = X @ W
    logits = logits - logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean()


@program("real:3", "real:6x3", "real:6", 1.0)
def huber(w, X, y, delta):
    r = X @ w - y
    return np.where(np.abs(r) <= delta, 0.5 * r**2, delta * (np.abs(r) - 0.5 * delta)).sum()


@program("real:3", "real:6x3", "real:6", 0.7)
def quantile_regression(w, X, y, q):
    r = y - X @ w
    return np.mean(np.maximum(q * r, (q - 1) * r) + 0.01 * r**2)


@program("real:4", "real:8x4", "real:8")
def hinge_svm(w, X, y):
    margins = 1 - np.sign(y) * (X @ w)
    return np.sum(np.square(np.maximum(margins, 0))) + 0.5 * np.linalg.norm(w) ** 2


@program("positive:2", "real:6", "real:6")
def student_t(p, x, y):
    scale, slope = p
    z = (y - slope * x) / scale
    return np.sum(np.log1p(z**2 / 3)) * 2 + y.size * np.log(scale)


@program("real:3x2", "real:6x3", "real:6x2")
def multitask(W, X, Y):
    R = Y - np.dot(X, W)
    return np.trace(R.T @ R) + np.linalg.norm(W) ** 2 + np.sum(np.sqrt(1e-2 + np.sum(W**2, axis=1)))


@program("real:3", "real:6x3", "real:6")
def elastic_net(w, X, y):
    return 0.5 * np.var(y - X @ w) + 0.1 * np.abs(w).sum() + 0.05 * (w @ w)


@program("positive:3", "real:6")
def polynomial_fit(c, t):
    return np.sum((np.polyval(c, t) - np.sin(t)) ** 2)


# Networks


@program({"W": np.full((2, 3), 0.3) + np.eye(2, 3), "b": np.zeros(3), "v": np.ones(3)}, "real:5x2", "real:5")
def one_layer(p, X, y):
    return np.mean((np.tanh(X @ p["W"] + p["b"]) @ p["v"] - y) ** 2)


@program([np.eye(3) + 0.1, 0.5 - np.eye(3), np.ones((3, 1))], "real:4x3", "real:4")
def three_layers(weights, X, y):
    a = X
    for W in weights[:-1]:
        a = 1 / (1 + np.exp(-(a @ W)))
    return np.sum((np.squeeze(a @ weights[-1], axis=1) - y) ** 2)


@program("real:3x4", "real:5x3")
def attention(Q, X):
    keys = X @ Q
    scores = keys @ keys.T / np.sqrt(Q.shape[1])
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.sum(np.square(weights @ X))


@program("real:4", "real:3x4")
def layer_norm(gamma, X):
    centred = X - X.mean(axis=1, keepdims=True)
    normal = centred / np.sqrt(X.var(axis=1, keepdims=True) + 1e-5)
    return np.sum(np.tanh(gamma * normal) ** 2)


@program("real:3", "real:7")
def convolution(kernel, signal):
    return np.sum(np.tanh(np.convolve(signal, kernel, mode="same")) ** 2)


@program("real:4", "real:4x4")
def recurrent(h, W):
    for _ in range(3):
        h = np.tanh(W @ h)
    return h @ h


@program("real:3x3", "real:5x3")
def gelu(W, X):
    z = X @ W
    return np.sum(0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))))


# Matrices and probability


@program("positive:3", "real:5x2", "real:5")
def gaussian_process(theta, X, y):
    amplitude, length, noise = theta
    sq = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=-1)
    K = amplitude * np.exp(-0.5 * sq / length**2) + noise * np.eye(len(y))
    _, logdet = np.linalg.slogdet(K)
    return 0.5 * y @ np.linalg.solve(K, y) + 0.5 * logdet + 0.5 * len(y) * np.log(2 * np.pi)


@program("positive definite:3x3", "real:6x3")
def gaussian_likelihood(S, X):
    S = (S + S.T) / 2
    centred = X - np.mean(X, axis=0)
    return np.log(np.linalg.det(S)) + np.einsum("ni,ij,nj->", centred, np.linalg.inv(S), centred) / X.shape[0]


@program("positive definite:3x3", "real:3")
def whitened(S, x):
    L = np.linalg.cholesky((S + S.T) / 2)
    return np.sum(np.linalg.solve(L, x) ** 2) + 2 * np.sum(np.log(np.diag(L)))


@program("real:4x2", "real:4x3", "real:3x2")
def factorization(U, T, V):
    return np.sum((T - U @ V.T) ** 2) + 0.1 * np.vdot(U, U)


@program("real:4x2", "real:4x3", "real:3x2")
def masked_factorization(U, T, V):
    return np.sum(np.where(MASK, T - U @ V.T, 0.0) ** 2)


@program("real:3x2", "real:2x2", "real:4x2", "real:3x2x4")
def cp_decomposition(A, B, C, T):
    return np.sum((T - np.einsum("ir,jr,kr->ijk", A, B, C)) ** 2)


@program("real:5x3")
def covariance_logdet(X):
    centred = X - X.mean(axis=0)
    return np.linalg.slogdet(centred.T @ centred / (len(X) - 1))[1]


@program("distinct singular values:4x3")
def nuclear(A):
    return np.linalg.norm(A, ord="nuc") + np.linalg.svd(A, compute_uv=False).max()


@program("symmetric, distinct eigenvalues:3x3")
def spectral(A):
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    return np.sum(values**2 * vectors[0] ** 2) + np.linalg.eigvalsh((A + A.T) / 2)[-1]


@program("real:3", "positive definite:3x3")
def rayleigh(x, A):
    return x @ A @ x / (x @ x)


@program("positive:4", "positive:4")
def kl_divergence(p, q):
    p, q = p / p.sum(), q / q.sum()
    return np.sum(p * np.log(p / q))


@program("real:3", "real:6")
def mixture(means, x):
    log_p = -0.5 * (x[:, np.newaxis] - means) ** 2
    top = np.amax(log_p, axis=1)
    return -np.sum(top + np.log(np.mean(np.exp(log_p - top[:, None]), axis=1)))


@program("positive:2", "between -1 and 1:5")
def ar_process(p, x):
    phi, sigma = 0.5 * np.tanh(p[0]), p[1]
    e = x[1:] - phi * x[:-1]
    return np.sum(e**2) / (2 * sigma**2) + e.shape[0] * np.log(sigma)


@program("real:4", "real:6x4", "positive:4")
def portfolio(w, returns, mu):
    w = np.exp(w) / np.exp(w).sum()
    return -mu @ w + 2 * np.sqrt(w @ np.cov(returns.T) @ w)


# Physics and geometry


@program("real:4x3")
def lennard_jones(positions):
    rows, columns = np.triu_indices(len(positions), 1)
    r2 = np.sum((2 * positions[rows] - 2 * positions[columns]) ** 2, axis=1)
    return np.sum(4 * (1 / r2**6 - 1 / r2**3))


@program("real:6")
def springs(x):
    gaps = np.diff(np.concatenate([np.zeros(1), x, np.full(1, 7.0)]))
    return 0.5 * np.sum((gaps - 1) ** 2) + 0.1 * np.sum(gaps**4)


@program("real:4x4")
def ising(s):
    return -np.sum(s * np.roll(s, 1, axis=0)) - np.sum(s * np.roll(s, 1, axis=1)) + np.sum((s**2 - 1) ** 2)


@program("real:2", "positive:2")
def double_pendulum(q, m):
    t1, t2 = q[0], q[1]
    y1 = -np.cos(t1)
    y2 = y1 - np.cos(t2)
    return 9.81 * (m[0] * y1 + m[1] * y2)


@program("real:3", "real:3", "real:5x3")
def rigid_motion(angles, shift, points):
    cx, cy, cz = np.cos(angles)
    sx, sy, sz = np.sin(angles)
    Rx = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    Ry = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    Rz = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    moved = points @ (Rz @ Ry @ Rx).T + shift
    return np.sum(np.hypot(moved[:, 0], moved[:, 1]) * moved[:, 2])


@program("real:5", "real:5")
def minimal_surface(u, v):
    z = np.outer(u, v)
    dx, dy = z[1:, :-1] - z[:-1, :-1], z[:-1, 1:] - z[:-1, :-1]
    return np.sum(np.sqrt(1 + dx**2 + dy**2))


@program("real:3", "real:3", "real:3")
def torque(r, f, axis):
    return np.dot(np.cross(r, f), axis) ** 2 / np.linalg.norm(axis) + np.cross(r, f).sum()


@program("positive:4")
def orbits(state):
    x, v = state[:2], state[2:]
    for _ in range(3):
        v = v - 0.1 * x / np.linalg.norm(x) ** 3
        x = x + 0.1 * v
    return 0.5 * v @ v - 1 / np.sqrt(np.sum(x**2))


@program("real:6")
def heat_equation(u):
    lap = np.roll(u, 1) - 2 * u + np.roll(u, -1)
    return np.trapezoid((u + 0.1 * lap) ** 2, dx=0.2)


@program("real:3", "real:4x3", "real:3")
def ellipsoid(x, A, c):
    stacked = np.vstack([A, np.eye(3)])
    return np.linalg.norm(stacked @ (x - c), axis=0) ** 3


@program("real:2x3")
def stress(F):
    E = (F @ F.T - np.eye(2)) / 2
    return 0.7 * np.trace(E) ** 2 + 0.4 * np.sum(E * E)


# Functions to be minimized


@program("real:4")
def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@program("real:3")
def ackley(x):
    n = x.size
    first = -20 * np.exp(-0.2 * np.sqrt(np.sum(x**2) / n))
    return first - np.exp(np.sum(np.cos(2 * np.pi * x)) / n) + 20 + np.e


@program("real:3")
def rastrigin(x):
    return 10 * x.shape[0] + (x**2 - 10 * np.cos(2 * np.pi * x)).sum()


@program("real:4")
def powell(x):
    a, b, c, d = x
    return (a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4


@program("positive:4", "positive:3x4", "positive:3")
def barrier(x, A, b):
    slack = A @ x + b
    return np.prod(x) - np.sum(np.log(slack)) - np.log(x).mean()


@program("real:2x2")
def himmelblau(P):
    x, y = P.T
    return ((x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2).sum(axis=0)


@program("between -1 and 1:4")
def curve_length(y):
    steps = np.stack([np.full(3, 0.2), y[1:] - y[:-1]], axis=1)
    return np.sum(np.linalg.norm(steps, axis=1)) + np.interp(0.5, GRID, GRID**2)


@program("real:3", "real:5")
def soft_clipping(p, x):
    low, high = np.minimum(p[0], p[1]), np.maximum(p[0], p[1])
    return np.sum(np.clip(x, low, high) ** 2) + np.std(x * p[2], ddof=1)
