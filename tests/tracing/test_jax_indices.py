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
