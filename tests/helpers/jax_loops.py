"""Recurrences written for JAX, with any number of steps: filters, networks and integrators, and how they are looped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import oracles  # noqa: F401 (double precision)


@dataclass(frozen=True)
class Loop:
    """A scalar function of parameters, first, and of data."""

    function: Callable
    args: tuple


def in_python(step: Callable, carry: Any, rows: Any) -> tuple[Any, Any]:
    """What `lax.scan` does, in a loop that Python writes out."""
    found = []
    for k in range(len(jax.tree_util.tree_leaves(rows)[0])):
        carry, y = step(carry, jax.tree_util.tree_map(lambda x, k=k: x[k], rows))
        found.append(y)
    return carry, jax.tree_util.tree_map(lambda *ys: jnp.stack(ys), *found)


def loops(steps: int) -> dict[str, Loop]:
    """All recurrences with so many steps, by name; the loops of some are written out by Python too."""
    rng = np.random.default_rng(steps)

    def normal(*shape: int, scale: float = 0.3) -> jax.Array:
        return jnp.asarray(scale * rng.normal(size=shape))

    states, inputs = 4, normal(steps, 3, scale=1.0)
    symbols, weights = jnp.asarray(rng.integers(0, 5, steps)), normal(steps, scale=1.0)
    chain = {"A": normal(states, states), "B": normal(states, 5), "p": normal(states)}
    cell = {"W": normal(states, states), "U": normal(states, 3), "b": normal(states)}
    gates = {"W": normal(4 * states, states), "U": normal(4 * states, 3), "b": normal(4 * states)}
    found = {
        "HMM": Loop(hidden_markov, (chain, symbols)),
        "Kalman filter": Loop(kalman, ({"F": normal(3, 3), "H": normal(3, 3), "q": normal(3)}, inputs)),
        "RK4": Loop(runge_kutta, (jnp.array([1.1, 0.4, 0.1, 0.4]), jnp.zeros(steps))),
        "RNN": Loop(network, (cell, inputs)),
        "LSTM": Loop(lstm, (gates, inputs)),
        "linear": Loop(linear, ({"A": normal(states, states), "b": normal(states)}, normal(steps, states))),
    }
    written = {f"{name}, Python": Loop(partial(x.function, scan=in_python), x.args) for name, x in found.items()}
    return found | written | {
        "linear, associative": Loop(associative, (normal(3), inputs)),
        "while": Loop(stepped, (normal(states), steps)),
        "sum of terms": Loop(terms, (normal(3), inputs, weights)),
    }  # fmt: skip


def hidden_markov(p: Any, symbols: Any, scan: Callable = lax.scan) -> Any:
    """The likelihood of symbols, by the forward algorithm."""
    transition, emission = jax.nn.log_softmax(p["A"]), jax.nn.log_softmax(p["B"])

    def step(alpha: Any, symbol: Any) -> Any:
        moved = jax.scipy.special.logsumexp(alpha[:, None] + transition, axis=0) + emission[:, symbol]
        return moved, None

    first = jax.nn.log_softmax(p["p"]) + emission[:, symbols[0]]
    return -jax.scipy.special.logsumexp(scan(step, first, symbols[1:])[0])


def kalman(p: Any, observed: Any, scan: Callable = lax.scan) -> Any:
    """The likelihood of observations of a linear Gaussian state."""
    F, H, Q, n = p["F"], p["H"], jnp.diag(jnp.exp(p["q"])), len(p["q"])

    def step(state: Any, y: Any) -> Any:
        m, P = state
        m, P = F @ m, F @ P @ F.T + Q
        S = H @ P @ H.T + jnp.eye(n)
        error = y - H @ m
        gain = jnp.linalg.solve(S, H @ P).T
        loss = 0.5 * (error @ jnp.linalg.solve(S, error) + jnp.linalg.slogdet(S)[1])
        return (m + gain @ error, P - gain @ H @ P), loss

    return jnp.sum(scan(step, (jnp.zeros(n), jnp.eye(n)), observed)[1])


def runge_kutta(p: Any, times: Any, scan: Callable = lax.scan) -> Any:
    """How far hunters and their prey are in the end from where they were."""
    first, h = jnp.array([1.0, 0.5]), 5.0 / len(times)

    def slope(y: Any) -> Any:
        return jnp.array([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    def step(y: Any, _: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3)), None

    return jnp.sum((scan(step, first, times)[0] - first) ** 2)


def network(p: Any, inputs: Any, scan: Callable = lax.scan) -> Any:
    """A recurrent network."""

    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])
        return h, jnp.sum(h**2)

    return jnp.mean(scan(step, jnp.zeros(len(p["b"])), inputs)[1])


def lstm(p: Any, inputs: Any, scan: Callable = lax.scan) -> Any:
    """A network with memory."""
    n = len(p["b"]) // 4

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(p["W"] @ h + p["U"] @ x + p["b"], 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return jnp.mean(scan(step, (jnp.zeros(n), jnp.zeros(n)), inputs)[1] ** 2)


def linear(p: Any, noise: Any, scan: Callable = lax.scan) -> Any:
    """A linear recurrence."""

    def step(x: Any, e: Any) -> Any:
        x = p["A"] @ x + p["b"] + e
        return x, x

    return jnp.sum(scan(step, jnp.zeros(len(p["b"])), noise)[1] ** 2)


def associative(p: Any, inputs: Any) -> Any:
    """A linear recurrence of numbers, computed in a tree."""
    factors, terms_ = jax.nn.sigmoid(p) * jnp.ones_like(inputs), inputs

    def both(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return jnp.sum(lax.associative_scan(both, (factors, terms_))[1] ** 2)


def stepped(x: Any, steps: int) -> Any:
    """A fixed point, by a loop that counts."""
    found = lax.while_loop(lambda c: c[0] < steps, lambda c: (c[0] + 1, 0.5 * jnp.cos(c[1]) + x), (0, x))
    return jnp.sum(found[1] ** 2)


def terms(p: Any, inputs: Any, weights: Any) -> Any:
    """A sum that needs no loop, and has one."""

    def step(total: Any, data: Any) -> Any:
        x, y = data
        return total + jnp.log1p(jnp.exp(-y * (x @ p))), None

    return lax.scan(step, 0.0, (inputs, weights))[0]
