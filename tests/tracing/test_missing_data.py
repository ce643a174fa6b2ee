"""Data with entries that are not numbers, or infinite: comparisons with these are those of the libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
import eindiff.jax as ej
import eindiff.torch as et
import oracles  # noqa: F401 (double precision)
from eindiff.functions.elementwise import at_least, equal

DATA = np.array([1.0, 2.0, np.nan, 4.0, np.inf, -np.inf, 0.0, 2.0])
POINT = np.linspace(0.5, 2.0, 8)
MASKS: dict[str, Callable[[Any, Any], Any]] = {
    "at least": lambda xp, y: y >= 1.5,
    "at most": lambda xp, y: y <= 2.0,
    "less": lambda xp, y: y < 1.5,
    "positive": lambda xp, y: y > 0,
    "not greater": lambda xp, y: ~(y > 1.5),
    "not at least": lambda xp, y: ~(y >= 1.5),
    "equal": lambda xp, y: y == 2.0,
    "not equal": lambda xp, y: y != 2.0,
    "itself": lambda xp, y: y == y,
    "between": lambda xp, y: (y >= 1.0) & (y <= 3.0),
    "is nan": lambda xp, y: xp.isnan(y),
}
ONLY_JAX: dict[str, Callable[[Any, Any], Any]] = {
    "is finite": lambda xp, y: xp.isfinite(y),
    "is infinite": lambda xp, y: xp.isinf(y),
    "has a finite logarithm": lambda xp, y: xp.isfinite(xp.log(xp.where(y > 0, y, 0.0))),
}


def masked(xp: Any, mask: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of the point and the data, by entries that a mask chooses."""
    return lambda x, y: xp.where(mask(xp, y), x**2, x**3).sum()


def expected(name: str) -> np.ndarray:
    """The gradient, by NumPy."""
    with np.errstate(divide="ignore"):
        chosen = (MASKS | ONLY_JAX)[name](np, DATA)
    return np.where(chosen, 2 * POINT, 3 * POINT**2)


@pytest.mark.parametrize("name", MASKS | ONLY_JAX)
def test_jax(name: str) -> None:
    f, clean = masked(jnp, (MASKS | ONLY_JAX)[name]), np.linspace(0.0, 3.0, 8)
    gradient = ej.grad(f)
    np.testing.assert_allclose(gradient(POINT, DATA), expected(name))
    np.testing.assert_allclose(jax.jit(ej.grad(f))(POINT, DATA), expected(name))
    later = ej.hessian(f)
    later(POINT, clean)  # what was traced with other data
    np.testing.assert_allclose(later(POINT, DATA), jax.hessian(f)(POINT, DATA))


@pytest.mark.parametrize("name", MASKS)
def test_torch(name: str) -> None:
    gradient, (x, y) = et.grad(masked(torch, MASKS[name])), map(torch.tensor, (POINT, DATA))
    gradient(x, torch.linspace(0.0, 3.0, 8, dtype=torch.float64))
    np.testing.assert_allclose(gradient(x, y), expected(name))


@pytest.mark.parametrize("name", MASKS)
def test_numpy(name: str) -> None:
    gradient = ed.gradient(masked(np, MASKS[name]))
    gradient(POINT, np.linspace(0.0, 3.0, 8))
    np.testing.assert_allclose(gradient(POINT, DATA), expected(name))


@pytest.mark.parametrize("backend", ["numpy", "jax", "torch", "tensorflow"])
def test_compiled(backend: str) -> None:
    """The same comparisons in programs of each library, and their results as numbers."""
    x, y = ed.vector("x", "n"), ed.vector("y", "n")
    outputs = [at_least(y, 1.5), equal(y, 2), ed.where(at_least(y, 1.5), x, 2 * x), ed.where(equal(y, 2), x, 2 * x)]
    chosen = [DATA >= 1.5, DATA == 2.0]
    known = [*(1.0 * c for c in chosen), *(np.where(c, POINT, 2 * POINT) for c in chosen)]
    arrays = {"x": POINT, "y": DATA}
    if backend == "torch":
        arrays = {name: torch.tensor(array) for name, array in arrays.items()}
    for actual, wanted in zip(ed.compile(outputs, backend=backend)(**arrays), known, strict=True):
        np.testing.assert_array_equal(np.asarray(actual), wanted)
