"""Derivatives inside of `jax.jit` that depend on no argument: they are known when the program is written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
import oracles  # noqa: F401 (double precision)


@pytest.mark.parametrize(
    "function, shape",
    [
        (lambda x: jnp.sum(jnp.cos(jnp.arange(150.0)) * x**2), (150,)),
        (lambda x: jnp.vdot(jnp.cos(jnp.arange(150.0)), jnp.cumsum(x[::-1] ** 2)), (150,)),
        (lambda x: jnp.sum(jnp.linspace(1, 2, 75) * x[:75] * x[:74:-1]), (150,)),
        (lambda x: jnp.sum((1 + jnp.arange(10.0)) * x**2), (12, 10)),
        (lambda x: jnp.sum(x) ** 2, (150,)),
        (lambda x: jnp.sum(jnp.cos(jnp.arange(69.0)) * x[3:140:2] ** 2), (150,)),
        (lambda x: 0.0 * jnp.sum(x[3:140:2] ** 2), (150,)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_known_results_are_written_from_few_numbers(function: Callable, shape: tuple, dtype: str) -> None:
    """A constant as large as they are would be a part of the program, and copied at each call."""
    x = jnp.linspace(0.1, 1, math.prod(shape), dtype=dtype).reshape(shape)
    program = jax.jit(ej.hessian(function)).lower(x).compile()
    written = re.findall(r"= f\d+\[([\d,]+)\]\S* constant\(", program.as_text())
    assert all(math.prod(map(int, entries.split(","))) <= 1000 for entries in written)
    found, expected = program(x), jax.hessian(function)(x)
    assert found.dtype == expected.dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
