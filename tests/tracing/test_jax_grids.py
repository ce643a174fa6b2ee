"""Vectors that are read and written as grids: slices, rolls and margins of reshaped arrays, inside of `jax.jit`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff as ed
import eindiff.jax as ej

jax.config.update("jax_enable_x64", True)

SHAPES = [(4, 6), (6, 4), (2, 3, 4), (24,), (3, 8)]


def shifted(rng: np.random.Generator, y: Any) -> Any:
    """One of the ways to look at a grid, chosen at random; the size stays what it was."""
    axis = int(rng.integers(y.ndim))
    size = y.shape[axis]
    low, high = sorted(rng.choice(size + 1, 2, replace=False).tolist())
    match int(rng.integers(6)):
        case 0:
            return jnp.roll(y, int(rng.integers(-2, 3)), axis)
        case 1:
            margins = [(low, size - high) if k == axis else (0, 0) for k in range(y.ndim)]
            return jnp.pad(jax.lax.slice_in_dim(y, low, high, axis=axis), margins)
        case 2:
            return jnp.concatenate([jnp.flip(y, axis), y], axis)[tuple([slice(0, n) for n in y.shape])]
        case 3:
            return jnp.moveaxis(y, axis, 0).reshape(y.shape)
        case 4:
            places = tuple([slice(low, high) if k == axis else slice(None) for k in range(y.ndim)])
            return jnp.zeros(y.shape).at[places].set(jax.lax.slice_in_dim(y, low, high, axis=axis))
        case _:
            return jnp.take(y, np.asarray(rng.integers(size, size=size)), axis)


def function(seed: int) -> Callable[[Any], Any]:
    """A random function of such views of one vector."""

    def f(x: Any) -> Any:
        rng = np.random.default_rng(seed)
        total = 0.0
        y = x
        for _ in range(2):
            z = y = y.reshape(SHAPES[int(rng.integers(len(SHAPES)))])
            for _ in range(2):
                z = 0.5 * (z + shifted(rng, z)) - shifted(rng, z) / 3
            y = y + jnp.sin(z) * y
            total = total + jnp.sum(z * jnp.cos(y)) + jnp.sum((0.5 * z + y - 1) ** 2 * y)
        return total

    return f


@pytest.mark.parametrize("seed", range(2))
def test_random_views_of_grids(seed: int) -> None:
    f, x = function(seed), jnp.asarray(np.random.default_rng(seed).normal(size=24))
    expected = jax.grad(f)(x)
    allowed = 1e-11 * max(1.0, float(jnp.abs(expected).max()))
    np.testing.assert_allclose(jax.jit(ej.grad(f))(x), expected, rtol=0, atol=allowed)


def test_rolls_are_concatenations() -> None:
    """And not two margins each, which take a compiler longer."""
    source = ej.grad(lambda u: jnp.sum(jnp.tanh(jnp.roll(u, 1, 0) + jnp.roll(u, -2, 1)) ** 2))
    made = ed.compile(source.lower(jnp.ones((5, 4))).expression, backend="jax").source
    body = made[made.index("def f(") :]
    assert "put(" not in body
    assert body.count("jnp.concatenate") == 4


def test_windows_of_a_grid_are_slices() -> None:
    """A vector that is a grid is reshaped: no indices are needed to read or to write a part of it."""

    def f(x: Any) -> Any:
        y = x.reshape(5, 6)
        return jnp.sum(jnp.sin(y[1:, 1:] - y[:-1, 1:]) * y[1:, :-1])

    made = ed.compile(ej.grad(f).lower(jnp.ones(30)).expression, backend="jax").source
    assert "arange" not in made[made.index("def f(") :]


def test_sums_that_are_parts_of_others_are_computed_once() -> None:
    """A residual that is used at many places, each with a factor and further terms, is one array."""

    def f(x: Any) -> Any:
        y = jnp.pad(x.reshape(4, 5), 1)
        middle, left, right, above = y[1:-1, 1:-1], y[1:-1, :-2], y[1:-1, 2:], y[:-2, 1:-1]
        residual = 4 * middle - left - right - above + (left - right) * (above - middle)
        return jnp.sum(residual**2)

    expression = ej.grad(f).lower(jnp.ones(20)).expression
    for backend, limit in (("jax", 24), ("numpy", 22)):
        made = ed.compile(expression, backend=backend, sizes={}).source
        body = made[made.index("def f(") :]
        views = re.findall(r"^ *t\d+ = t\d+\[.*\]$", body, re.M)  # names of parts that something is added to
        assert len(body.splitlines()) - len(views) * (backend == "numpy") <= limit, body
