"""Entries that are replaced leave nothing behind, whatever they were: NaN, infinite, or large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
import eindiff.jax
import eindiff.torch
import oracles  # noqa: F401 (double precision)

OLD = [np.nan, np.inf, 1e25]  # at place 1, where each function puts something else


def point(old: float) -> np.ndarray:
    x = np.arange(1.0, 10.0)
    x[1] = old
    return x


JAX: dict[str, Callable] = {
    "set": lambda x: (x.at[1].set(2.0) * jnp.arange(1.0, 10)).sum() ** 2,
    "list": lambda x: (x.at[jnp.array([1, 4])].set(x[2:4]) ** 2).sum(),
    "slice": lambda x: (x.at[1:3].set(x[3:5]) ** 2).sum(),
    "update slice": lambda x: (jax.lax.dynamic_update_slice(x, x[3:5], (1,)) ** 2).sum(),
    "box": lambda x: (x.reshape(3, 3).at[:2, 1:].set(1.0) ** 2).sum(),
    "diagonal": lambda x: (jnp.roll(x, 3).reshape(3, 3).at[jnp.diag_indices(3)].set(1.0) ** 2).sum(),
    "twice": lambda x: (x.at[1].set(x[2]).at[0].set(x[3]) ** 2).sum(),
    "known mask": lambda x: (jnp.where(jnp.arange(9) == 1, 0.0, x) ** 2).sum(),
    "known mask and number": lambda x: (jnp.where(jnp.arange(9) == 1, 3.0, x) ** 2).sum(),
    "dropped": lambda x: (jnp.zeros(9).at[jnp.arange(8, 10)].add(x[jnp.array([3, 1])], mode="drop") ** 2).sum(),
    "filled": lambda x: (x[2:].at[jnp.array([2, 20])].get(mode="fill", fill_value=0.5) ** 2).sum(),
}


def changed(change: Callable[[torch.Tensor], Any], shape: tuple[int, ...] = (9,)) -> Callable:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(shape).clone()
        change(y)
        return (y * torch.arange(1.0, 10.0).reshape(shape) ** 2 * y).sum()

    return f


TORCH: dict[str, Callable] = {
    "set": changed(lambda y: y.__setitem__(1, 2.0)),
    "slice": changed(lambda y: y.__setitem__(slice(1, 3), y[3:5] * 2)),
    "steps": changed(lambda y: y.__setitem__(slice(1, 9, 3), y[::3])),
    "list": changed(lambda y: y.__setitem__(torch.tensor([1, 4]), y[[0, 2]])),
    "mask": changed(lambda y: y.__setitem__(torch.arange(9) == 1, 3.0)),
    "entry": changed(lambda y: y.__setitem__((0, 1), y[1, 1]), (3, 3)),
    "second diagonal": changed(lambda y: torch.diagonal(y, 1).fill_(2.0), (3, 3)),
    "loop": changed(lambda y: [y.__setitem__(k, y[k - 1] * 0.5 + k) for k in range(1, 5)]),
    "scatter": lambda x: (x.scatter(0, torch.tensor([1, 4]), x[:1].expand(2)) ** 2).sum(),
    "index_fill": lambda x: (x.index_fill(0, torch.tensor([1, 4]), 2.0) ** 2).sum(),
    "index_copy": lambda x: (x.index_copy(0, torch.tensor([1, 4]), x[5:7]) ** 2).sum(),
    "index_copy of rows": lambda x: (x.reshape(3, 3).index_copy(1, torch.tensor([1]), x[6:, None]) ** 2).sum(),
    "masked_fill": lambda x: (x.masked_fill(torch.arange(9) == 1, 3.0) ** 2).sum(),
    "select_scatter": lambda x: (torch.select_scatter(x.reshape(3, 3), x[6:], 0, -3) ** 2).sum(),
    "slice_scatter": lambda x: (torch.slice_scatter(x.reshape(3, 3), x[6:].reshape(1, 3), 0, 0, 1) ** 2).sum(),
    "diagonal_scatter": lambda x: (torch.diagonal_scatter(x.roll(-1).reshape(3, 3), x[6:]) ** 2).sum(),
}


@pytest.mark.parametrize("old", OLD)
@pytest.mark.parametrize("name", JAX)
def test_jax(name: str, old: float) -> None:
    f, x = JAX[name], jnp.asarray(point(old))
    for ours, theirs in ((eindiff.jax.grad, jax.grad), (eindiff.jax.hessian, jax.hessian)):
        np.testing.assert_allclose(ours(f)(x), theirs(f)(x), rtol=1e-12)


@pytest.mark.parametrize("old", OLD)
@pytest.mark.parametrize("name", TORCH)
def test_torch(name: str, old: float) -> None:
    f, x = TORCH[name], torch.from_numpy(point(old))
    gradient, value = eindiff.torch.grad_and_value(f)(x)
    torch.testing.assert_close(value, f(x))
    torch.testing.assert_close(gradient, torch.func.grad(f)(x))
    torch.testing.assert_close(eindiff.torch.hessian(f)(x), torch.func.hessian(f)(x))


@pytest.mark.parametrize("library", ["numpy", "jax", "torch"])
def test_a_known_choice_is_no_choice(library: str) -> None:
    x = ed.vector("x", 3)
    run = ed.compile(ed.where(np.array([1.0, 0.0, 1.0]), ed.exp(x), x)[0], backend=library)
    assert np.isclose(float(run(x=np.arange(1.0, 4.0))), np.e)


@pytest.mark.parametrize("old", [np.nan, 2.0])
def test_what_is_not_a_number_is_seen(old: float) -> None:
    """Also after a call that had none."""
    functions: list[tuple[Callable, Callable]] = [
        (ed.gradient(lambda x: np.sum(np.where(np.isnan(x), 0.0, x) ** 2)), np.asarray),
        (eindiff.jax.grad(lambda x: (jnp.where(jnp.isnan(x), 0.0, x) ** 2).sum()), jnp.asarray),
        (eindiff.torch.grad(lambda x: (torch.nan_to_num(x) ** 2).sum()), torch.from_numpy),
    ]
    for gradient, to_own in functions:
        for x in (np.arange(1.0, 10.0), point(old)):
            np.testing.assert_allclose(np.asarray(gradient(to_own(x))), np.where(np.isnan(x), 0.0, 2 * x))
