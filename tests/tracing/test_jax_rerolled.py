"""Loops that Python has written out, found again in JAX's programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
import jax_loops
import oracles
from eindiff.tracing.jax.function import _is_sooner
from eindiff.tracing.jax.refusals import equations
from eindiff.tracing.jax.repeats import repeats
from eindiff.tracing.jax.rerolled import FEW_TURNS, rerolled
from eindiff.tracing.library import LeftToLibraryError

TURNS = 24
rng = np.random.default_rng(5)
p, rows, table = jnp.array([0.3, -0.4]), jnp.asarray(rng.normal(size=(TURNS, 2))), rng.normal(size=(TURNS, 2))


def several(p: Any, rows: Any) -> Any:
    """Windows, numbers of turns, constants, functions with rules of their own, and all turns used afterwards."""
    h, found = jnp.zeros(2), []
    for t in range(TURNS):
        h = jnp.tanh(p * h + rows[t]) + t * 0.1 + rows[max(t - 1, 0) : max(t - 1, 0) + 2].sum() - table[t]
        h = 0.1 * (h.at[0].add(rows[t, 0]) + jax.nn.relu(h[::-1]))
        found.append(h)
    return (jnp.stack(found) ** 2).sum() + (jnp.concatenate(found)[::3] ** 3).sum() + sum(h[0] for h in found[1:])


def two_turns_before(p: Any, rows: Any) -> Any:
    a, b = p, p**2
    for t in range(TURNS - 1, -1, -1):
        a, b = b, jnp.sin(0.3 * a + b) * rows[t]
    return a.sum() + b.prod()


@jax.jit
def buffer(p: Any, rows: Any) -> Any:
    out = jnp.zeros(TURNS)
    for t in range(1, TURNS):
        out = out.at[t].set(jnp.sin(out[t - 1] + p @ rows[t]))
    return (out**2).sum()


def nested(p: Any, rows: Any) -> Any:
    total = 0.0
    for t in range(TURNS):
        for k in range(3):
            total = total * (1 - 0.01 * k) + jnp.where(t % 2, 0.5, 1.0) * jnp.sum((p - rows[t]) ** 2)
    return total


def both_directions(p: Any, rows: Any) -> Any:
    """One loop after the other, of the same operations with other arguments."""
    h = k = p
    for t in range(TURNS):
        h = jnp.tanh(p * h + rows[t])
    for t in reversed(range(TURNS)):
        k = jnp.tanh(p**2 * k + rows[t])
    return (h * k).sum()


@pytest.mark.parametrize("f", [several, two_turns_before, buffer, nested, both_directions])
def test_same_values(f: Callable) -> None:
    closed = jax.make_jaxpr(f)(p, rows)
    found = rerolled(closed)
    assert equations(found.jaxpr) < equations(closed.jaxpr) / 5
    expected, actual = (oracles.jit(jex.jaxpr_as_fun(x))(p, rows) for x in (closed, found))
    oracles.assert_close(np.asarray(actual[0]), np.asarray(expected[0]), 1e-12)


def test_no_loops() -> None:
    """Layers with weights of their own, few turns, and turns that differ are no loops."""

    def layers(p: Any, rows: Any) -> Any:
        for t in range(8):
            p = jnp.tanh(p * rows[t])
        return p.sum()

    def growing(p: Any, rows: Any) -> Any:
        return sum(jnp.sum(rows[:t] @ p) ** 2 for t in range(1, TURNS))

    for f in (layers, growing):
        closed = jax.make_jaxpr(f)(p, rows)
        assert rerolled(closed) is closed
    crossed = jax.make_jaxpr(lambda p: [p := jnp.sin(p) if t != 12 else jnp.sin(p[::-1]) for t in range(TURNS)][-1])(p)
    assert all(found.turns < TURNS for found in repeats(crossed.jaxpr.eqns, 4))


def test_sum_has_no_loop() -> None:
    """A sum over neighbours is a program of whole arrays, whose Hessian is tridiagonal: no warning, no opaque part."""

    def rosenbrock(x: Any) -> Any:
        return sum(100 * (x[k + 1] - x[k] ** 2) ** 2 + (1 - x[k]) ** 2 for k in range(TURNS - 1))

    x = jnp.asarray(table[:, 0])
    assert ej.hessian(rosenbrock, structured=True)(x).structure == "tridiagonal"
    assert not ej.hessian(rosenbrock).lower(x).opaque


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_recurrence_in_python_is_that_of_scan() -> None:
    found = jax_loops.loops(30)
    written, plain = found["linear, Python"], found["linear"]
    hessians = ej.hessian(written.function)(*written.args), oracles.jit(jax.hessian(plain.function))(*plain.args)
    for a, b in zip(*map(jax.tree_util.tree_leaves, hessians), strict=True):
        oracles.assert_close(np.asarray(a), np.asarray(b), 1e-9)
    pair = ej.value_and_grad(lambda p, x: (written.function(p, x), {"name": "linear"}), has_aux=True)(*written.args)
    assert pair[0][1]["name"] == "linear"
    oracles.assert_close(float(pair[0][0]), float(plain.function(*plain.args)), 1e-12)


def gated(turns: int) -> Callable:
    """A recurrent net with gates, written out in Python."""

    def f(q: Any) -> Any:
        h = jnp.zeros(3)
        for t in range(turns):
            z, r = jnp.split(jax.nn.sigmoid(q["u"] @ rows[t] + q["w"] @ h), 2)
            h = (1 - z) * jnp.tanh(q["v"] @ rows[t] + r * h) + z * h
        return (h**2).sum()

    return f


def test_short_loops_are_found_for_jax() -> None:
    """A net over six or twelve turns is one program for JAX's compiler, and is left to it before it is derived."""
    q = {"u": jnp.ones((6, 2)) / 3, "w": jnp.ones((6, 3)) / 5, "v": jnp.ones((3, 2)) / 4}
    count = []
    for turns in (6, 12):
        found = ej.hessian(gated(turns))
        arguments = found.library.read(found, (q,), {})
        with pytest.raises(LeftToLibraryError) as left:
            found._traced(found.library.surroundings(found.function), arguments)
        count.append(equations(jax.make_jaxpr(left.value.program._program)([q["u"], q["v"], q["w"]], {}).jaxpr))
        oracles.assert_close(
            *(np.concatenate([np.ravel(x) for x in jax.tree_util.tree_leaves(f(q))])
              for f in (found, oracles.jit(jax.hessian(gated(turns))))), 1e-12
        )  # fmt: skip
    assert count[0] == count[1]


def test_short_loops_of_brief_programs_stay_written_out() -> None:
    """A loop takes microseconds to start and for each turn, as long as all turns of a few entries together."""

    def balanced(u: Any) -> Any:
        kernel, v = jnp.exp(-(u**2)), jnp.ones(2)
        for _ in range(8):
            v = 1 / (kernel @ (1 / (kernel.T @ v)))
        return (v * u[0]).sum()

    u = jnp.array([[0.3, 0.5], [0.8, 0.1]])
    assert "scan[" not in str(jax.make_jaxpr(ej.hessian(balanced))(u))


def test_a_short_loop_is_one_again_if_that_is_compiled_sooner():
    """A few turns of a recurrent net are; a few turns with little to do are not."""

    def gated(p: Any) -> Any:
        h = jnp.zeros(3)
        for t in range(6):
            z, r = jax.nn.sigmoid(p[0] @ h + rows[t, 0]), jax.nn.sigmoid(p[1] @ h + rows[t, 1])
            h = (1 - z) * h + z * jnp.tanh(p[2] @ (r * h) + rows[t, 0])
        return (h**2).sum()

    def brief(p: Any) -> Any:
        x = p[0, 0]
        for _ in range(6):
            x = 0.3 * x + 1
        return x.sum()

    for function, is_sooner in ((gated, True), (brief, False)):
        closed = jax.make_jaxpr(function)(jnp.ones((3, 3, 3)))
        assert _is_sooner(closed.jaxpr, rerolled(closed, FEW_TURNS).jaxpr) == is_sooner
