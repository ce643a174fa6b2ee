"""A net of ten fully connected layers with softmax cross-entropy, by its first layer: the paper's third experiment.

By hand: the loss of sample b has the Hessian M_b by its first scores `x_b' W0`, so the Hessian by W0 is
`Σ_b x_bi x_bk M_bjl` (`benchmarks.kronecker`), and M_b comes from a sweep over the layers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from benchmarks import kronecker
from benchmarks.problem import QUANTITIES, Array, Problem, one_hot, scaled

LAYERS = 10


class Activation(NamedTuple):
    """An activation with its first two derivatives as functions of its value, and the scale of good weights."""

    function: Callable[..., Array]
    first: Callable[[Array], Array]
    second: Callable[[Array, Array], Array] | None
    scale: float


def _relu(x: Array, out: Array | None = None) -> Array:
    return np.maximum(x, 0, out=out)


ACTIVATIONS = {
    "relu": Activation(_relu, lambda a: (a > 0).astype(float), None, 1.4),
    "sigmoid": Activation(special.expit, lambda a: a * (1 - a), lambda a, d: d * (1 - 2 * a), 4),
    "tanh": Activation(np.tanh, lambda a: 1 - a * a, lambda a, d: -2 * a * d, 1.2),
}


def objective(xp: Any, activation: str, X: Any, Y: Any, **weights: Any) -> Any:
    """The sum of the losses of all samples."""
    layers = [weights[f"W{layer}"] for layer in range(LAYERS)]
    a = X
    for W in layers[:-1]:
        a = getattr(xp, activation)(a @ W)
    scores = a @ layers[-1]
    return xp.sum(xp.logsumexp(scores, 1)) - xp.sum(Y * scores)


def diagonal(M: Array) -> Array:
    """A view of the diagonals of contiguous matrices."""
    b, n, _ = M.shape
    return M.reshape(b, n * n)[:, :: n + 1]


class Sweep:
    """The values of all layers (one array, layers first), their derivatives, and the probabilities of the classes."""

    def __init__(self, activation: str, X: Array, weights: dict[str, Array]) -> None:
        self.activation = ACTIVATIONS[activation]
        self.W = [weights[f"W{layer}"] for layer in range(LAYERS)]
        self.values = np.empty((LAYERS - 1, *X.shape))
        a = X
        for W, value in zip(self.W, self.values, strict=False):
            a = self.activation.function(np.matmul(a, W, out=value), out=value)
        self.first = self.activation.first(self.values)
        self.scores = a @ self.W[-1]
        self.top = self.scores.max(1, keepdims=True)
        self.p = np.exp(self.scores - self.top)
        self.total = self.p.sum(1, keepdims=True)
        self.p /= self.total

    def value(self, Y: Array) -> float:
        """The loss."""
        return np.sum(np.log(self.total) + self.top) - np.vdot(Y, self.scores)

    def root(self, J: Array) -> Array:
        """Z with `ZZ' = J (diag(p) - pp') J'`, for each sample."""
        return (J - J @ self.p[:, :, None]) * np.sqrt(self.p)[:, None, :]

    def bends(self, Y: Array) -> Array:
        """The second derivative of each activation times the gradient by its value: what bends the loss there."""
        assert self.activation.second is not None
        result = self.activation.second(self.values, self.first)
        g = self.p - Y
        for layer in range(LAYERS - 2, -1, -1):
            g = g @ self.W[layer + 1].T
            result[layer] *= g
            g *= self.first[layer]
        return result


def gradient(activation: str, X: Array, Y: Array, **weights: Array) -> tuple[float, Array]:
    """Value and gradient by the first layer: one sweep forward, one backward."""
    sweep = Sweep(activation, X, weights)
    g = sweep.p - Y
    for W, first in zip(sweep.W[:0:-1], sweep.first[::-1], strict=True):
        g = g @ W.T
        g *= first
    return sweep.value(Y), X.T @ g


def chain(activation: str, X: Array, Y: Array, **weights: Array) -> tuple[Array, Array]:
    """Activations that do not bend: `J = D W D W ... W` for all samples in one product a layer, then `J S J'`."""
    sweep = Sweep(activation, X, weights)
    b, n = X.shape
    J = sweep.first[0][:, :, None] * sweep.W[1]
    for W, first in zip(sweep.W[2:], sweep.first[1:], strict=True):
        J *= first[:, None, :]
        J = (J.reshape(b * n, n) @ W).reshape(b, n, n)
    Z = sweep.root(J)
    return X, Z @ Z.transpose(0, 2, 1)


def stacked(activation: str, X: Array, Y: Array, **weights: Array) -> tuple[Array, Array]:
    """`Σ_l J_l C_l J_l'` with the Jacobians of all layers in one array: few operations, much memory."""
    sweep = Sweep(activation, X, weights)
    b, n = X.shape
    bends = sweep.bends(Y)
    J = np.empty((LAYERS - 1, b, n, n))
    np.multiply(sweep.first[0][:, :, None], sweep.W[1], out=J[0])
    flat = J.reshape(LAYERS - 1, b * n, n)
    for layer in range(1, LAYERS - 1):
        step = J[layer - 1] * sweep.first[layer][:, None, :]
        np.matmul(step.reshape(b * n, n), sweep.W[layer + 1], out=flat[layer])
    bent = np.empty_like(J)
    np.multiply(J[:-1], bends[1:, :, None, :], out=bent[:-1])
    np.multiply(J[-1] - J[-1] @ sweep.p[:, :, None], sweep.p[:, None, :], out=bent[-1])
    M = (bent @ J.transpose(0, 1, 3, 2)).sum(0)
    diagonal(M)[...] += bends[0]
    return X, M


def recursion(activation: str, X: Array, Y: Array, **weights: Array) -> tuple[Array, Array]:
    """`M ← D W M W' D + C` from the last layer to the first, both products small and batched."""
    sweep = Sweep(activation, X, weights)
    bends = sweep.bends(Y)
    Z = sweep.root(np.broadcast_to(sweep.W[-1], (len(sweep.p), *sweep.W[-1].shape)))
    M = Z @ Z.transpose(0, 2, 1)
    for layer in range(LAYERS - 2, -1, -1):
        first = sweep.first[layer]
        M *= first[:, :, None]
        M *= first[:, None, :]
        diagonal(M)[...] += bends[layer]
        if layer:
            M = sweep.W[layer] @ (M @ sweep.W[layer].T)
    return X, M


def columns(activation: str, X: Array, Y: Array, **weights: Array) -> tuple[Array, Array]:
    """The same with samples as the middle axis, so that both products of a layer are one large product."""
    sweep = Sweep(activation, X, weights)
    (b, n), bends = X.shape, sweep.bends(Y)
    Z = sweep.root(np.broadcast_to(sweep.W[-1], (b, n, n)))
    M = np.ascontiguousarray((Z @ Z.transpose(0, 2, 1)).transpose(1, 0, 2))
    for layer in range(LAYERS - 2, -1, -1):
        M *= sweep.first[layer].T[:, :, None]
        M *= sweep.first[layer]
        np.einsum("ibi->ib", M)[...] += bends[layer].T
        if layer:
            W = sweep.W[layer]
            M = (W @ (M.reshape(n * b, n) @ W.T).reshape(n, b * n)).reshape(n, b, n)
    return X, M.transpose(1, 0, 2)


def _dense(factors: Callable[..., tuple[Array, Array]], assemble: Callable[[Array, Array], Array]) -> Callable:
    return lambda **arrays: assemble(*factors(**arrays))


def _hand(activation: str, single: bool) -> dict[str, dict[str, Callable]]:
    """The variants that make sense: how the factors are found, and how they are put together."""
    batched, half, packed = kronecker.batched, kronecker.half, kronecker.packed
    if ACTIVATIONS[activation].second is None:
        ways = {chain: [batched, half, packed]}
    else:
        ways = {stacked: [batched], recursion: [half, packed], columns: [batched, half]}
    factors: dict[str, Callable] = {way.__name__: partial(way, activation) for way in ways}
    hessian: dict[str, Callable] = {}
    for way, ends in ways.items():
        for end in [kronecker.outer] if single else ends:
            hessian[f"{way.__name__}, {end.__name__}"] = _dense(factors[way.__name__], end)
    return {"gradient": {"sweeps": partial(gradient, activation)}, "hessian": hessian, "compressed": factors}


def _problem(activation: str, single: bool) -> Problem:
    weights = {f"W{layer}": "n n" for layer in range(LAYERS)}
    sizes = (5, 10, 20, 50, 100)
    name = {"relu": "ReLU"}.get(activation, activation)
    return Problem(
        name=f"net-{activation}{'-1' if single else ''}",
        title=f"Ten layers, {name}, {'one sample' if single else 'n samples'}",
        shapes={"X": "b n", "Y": "b n"} | weights,
        wrt="W0",
        sizes=lambda n: {"b": 1 if single else n, "n": n},
        objective=partial(objective, activation=activation),
        draw={"Y": one_hot} | {weight: scaled(ACTIVATIONS[activation].scale) for weight in weights},
        grid=dict.fromkeys(QUANTITIES if activation != "tanh" else QUANTITIES[1:], sizes),
        hand=_hand(activation, single),
        expand=kronecker.outer if single else kronecker.batched,
        paper=activation != "tanh",
    )


PROBLEMS = [_problem(activation, single) for activation in ("relu", "sigmoid") for single in (False, True)]
PROBLEMS.append(_problem("tanh", False))
