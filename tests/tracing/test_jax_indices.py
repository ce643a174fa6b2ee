"""Index arrays that are arguments of functions of JAX: inputs of one program, whatever their values are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax
from eindiff.tracing.jax import indexing

jax.config.update("jax_enable_x64", True)

COUNT = indexing.MANY + 8  # indices of a call


def _segments(x: Any, i: Any) -> Any:
    return (jax.ops.segment_sum(x[:COUNT], i, 7) ** 3).sum()


FUNCTIONS: dict[str, tuple[Callable, tuple[int, ...], tuple[int, int]]] = {
    "gather": (lambda x, i: (jnp.exp(x[i] - x[i + 1]) * x[i] ** 2).sum(), (60,), (0, 59)),
    "from the end": (lambda x, i: (x[i] ** 3).sum(), (60,), (-60, 60)),
    "rows": (lambda x, i: (jnp.sin(x[i]) @ jnp.ones(3)).sum() + (x[i, 0] ** 2).sum(), (60, 3), (0, 60)),
    "columns": (lambda x, i: ((x[:, i] @ jnp.arange(COUNT * 1.0)) ** 2).sum(), (3, 20), (0, 20)),
    "added": (lambda x, i: (jnp.zeros(7).at[i].add(x[:COUNT]) ** 3).sum(), (60,), (0, 7)),
    "segments": (_segments, (60,), (0, 7)),
    "dropped": (_segments, (60,), (-3, 12)),
    "filled": (lambda x, i: (x.at[i].get(mode="fill", fill_value=2.0) ** 3 * x[3]).sum(), (60,), (30, 90)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_indices_are_inputs(name: str) -> None:
    function, shape, (low, high) = FUNCTIONS[name]
    calls: list[int] = []
    counts: list[int] = []

    def counted(x: Any, i: Any) -> Any:
        calls.append(1)
        return function(x, i)

    gradient, expected = eindiff.jax.grad(counted), jax.jit(jax.grad(function))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, i = jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.integers(low, high, COUNT))
        np.testing.assert_allclose(gradient(x, i), expected(x, i), 1e-9, 1e-9)
        counts.append(len(calls))
    assert len(set(counts)) == 1, "other indices need no other trace"
    np.testing.assert_allclose(jax.jit(eindiff.jax.grad(function))(x, i), expected(x, i), 1e-9, 1e-9)
    hessian = jax.jit(jax.hessian(function))(x, i)
    np.testing.assert_allclose(eindiff.jax.hessian(function)(x, i), hessian, 1e-9, 1e-9)


def _swept(b: Any, sweeps: int) -> Any:
    u = b
    for _ in range(sweeps):
        p = jnp.pad(u, 1)
        u = (b + p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]) / 4
    return (u**3).sum()


def _rolled(b: Any, sweeps: int) -> Any:
    p = b
    for _ in range(sweeps):
        p = (b + jnp.roll(p, 1) + jnp.roll(p, -1)) / 3
    return (p**3).sum()


@pytest.mark.parametrize(("function", "shape"), [(_swept, (20, 20)), (_rolled, (50,))])
def test_sweeps_are_read_once(function: Callable, shape: tuple[int, ...]) -> None:
    at = jnp.asarray(np.random.default_rng(0).normal(size=shape))
    found = eindiff.jax.grad(lambda b: function(b, 20))(at)
    np.testing.assert_allclose(found, jax.grad(lambda b: function(b, 20))(at), 1e-9, 1e-12)


def _spline(t: Any, x: Any) -> Any:
    k = jnp.floor(t).astype(int)
    return jnp.sum((x[k] + (t - k) * (x[k + 1] - x[k])) ** 3)


LOOKED_AT: dict[str, Callable] = {
    "places": _spline,
    "a choice": lambda t, x: jax.lax.cond(t > 1, lambda x: jnp.sum(x**2), lambda x: jnp.sum(x**3), x),
    "a number of turns": lambda t, x: jax.lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, s[1] * x), (t, x))[1],
}


@pytest.mark.parametrize("name", LOOKED_AT)
@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_values_that_were_looked_at_need_not_be_known(name: str) -> None:
    """A call that could look at the values of an argument says nothing of one inside of a transformation."""
    function, times, x = LOOKED_AT[name], jnp.array([0.6, 1.4, 2.7]), jnp.arange(1.0, 5.0)
    called, own = eindiff.jax.jacfwd(function, 1), jax.jit(jax.jacfwd(function, 1))
    expected = jnp.stack([own(t, x) for t in times])
    for _ in range(2):
        np.testing.assert_allclose(jnp.stack([called(t, x) for t in times]), expected, 1e-9)
        np.testing.assert_allclose(jnp.stack([jax.jit(called)(t, x) for t in times]), expected, 1e-9)
        np.testing.assert_allclose(jax.vmap(called, (0, None))(times, x), expected, 1e-9)
        np.testing.assert_allclose(jax.lax.scan(lambda c, t: (c, called(t, x)), 0, times)[1], expected, 1e-9)


@pytest.mark.parametrize("inner", [lambda x: x[:2] ** 2, lambda x: jnp.sin(x[1:3]) * x[5]])
def test_hessians_by_arrays_with_new_entries_take_linear_time(inner: Callable) -> None:
    """The Jacobian of such an array is a diagonal matrix with some entries beside it: its square is no product of
    matrices."""

    def function(x: Any) -> Any:
        return jnp.sum(x.at[4:6].set(inner(x)) ** 2 * jnp.cos(jnp.arange(x.size)))

    small, large = (eindiff.jax.lower(function)(jnp.ones(n)).plan.flops for n in (100, 800))
    assert large < 8 * small
    x = jnp.linspace(0.5, 1.0, 9)
    np.testing.assert_allclose(eindiff.jax.hessian(function)(x), jax.hessian(function)(x), rtol=1e-12, atol=1e-14)
