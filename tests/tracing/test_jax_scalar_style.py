"""Functions of JAX in the style of scalars, as test problems of nonlinear optimization are written: one number after
the other, in Python's loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
from eindiff.tracing.jax import left, library
from eindiff.tracing.jax.refusals import equations
from eindiff.tracing.jax.rerolled import FEW_TURNS, rerolled

jax.config.update("jax_enable_x64", True)
x = jnp.asarray(0.5 + 0.3 * np.cos(np.arange(9.0)))


def valley(x: Any) -> Any:
    """A sum over neighbours."""
    total = 0.0
    for k in range(8):
        total = total + 100 * (x[k + 1] - x[k] ** 2) ** 2 + (1 - x[k]) ** 2
    return total


def waves(x: Any) -> Any:
    """Residuals one by one, each with all unknowns."""
    residuals = []
    for k in range(9):
        residuals.append(9 - jnp.sum(jnp.cos(x)) + (k + 1) * (1 - jnp.cos(x[k])) - jnp.sin(x[k]))
    return jnp.sum(jnp.stack(residuals) ** 2)


def stored(x: Any) -> Any:
    """Rows that are stored in turn, with weights."""
    rows = jnp.zeros(8)
    for k in range(8):
        rows = rows.at[k].set((3 - 2 * x[k]) * x[k] - x[k + 1] + 1)
    return jnp.sum(jnp.cos(jnp.arange(8.0)) * rows)


def few(x: Any) -> Any:
    """No loop at all."""
    a, b, c = x[0], x[1], x[2]
    return (a**2 + b**2 + c**2 - 1) ** 2 + (a + b - c) ** 2 * (1 + a * b) + jnp.exp(a * c) * b


FUNCTIONS = [valley, waves, stored, few]
# Operations after optimization, as a multiple of those of JAX's own Hessian.
MOST_OPERATIONS = {valley: 0.25, waves: 0.15, stored: 0.05, few: 1.1}


@pytest.mark.parametrize("f", FUNCTIONS)
def test_hessians_are_right_and_small(f: Callable) -> None:
    ours, theirs = (jax.jit(one(f)).lower(x).compile() for one in (ej.hessian, jax.hessian))
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-12, atol=1e-12)
    assert _operations(ours) <= MOST_OPERATIONS[f] * _operations(theirs)


def _operations(compiled: Any) -> int:
    return len(re.findall(r"^\s+(?:ROOT )?%?\S+ = ", compiled.as_text(), re.MULTILINE))


@pytest.mark.parametrize("f, most", [(valley, 20), (waves, 20)])
def test_few_numbers_of_all_turns_are_computed_at_once(f: Callable, most: int) -> None:
    """A loop that Python has written out is a program of arrays, and its total a sum."""
    closed = jax.make_jaxpr(f)(x)
    found = rerolled(closed, FEW_TURNS)
    assert "scan" not in str(found)
    assert equations(found.jaxpr) <= most < equations(closed.jaxpr) / 3
    np.testing.assert_allclose(jax.core.eval_jaxpr(found.jaxpr, found.consts, x)[0], f(x), rtol=1e-13)


def test_totals_of_all_turns_are_no_sums() -> None:
    def partial_sums(x: Any) -> Any:
        total, found = x[8], []
        for k in range(8):
            total = total + jnp.sin(x[k]) * x[k + 1]
            found.append(total)
        return jnp.stack(found)

    closed = jax.make_jaxpr(partial_sums)(x)
    found = rerolled(closed, FEW_TURNS)
    np.testing.assert_allclose(jax.core.eval_jaxpr(found.jaxpr, found.consts, x)[0], partial_sums(x), rtol=1e-13)
    np.testing.assert_allclose(jax.jit(ej.jacfwd(partial_sums))(x), jax.jacfwd(partial_sums)(x), rtol=1e-12, atol=1e-14)


def test_rows_that_are_stored_are_no_recurrence() -> None:
    """So no time is predicted to differentiate turns one after the other."""
    loop = rerolled(jax.make_jaxpr(stored)(x), FEW_TURNS).jaxpr
    assert left.recurrent(loop, [True]) == 8  # the stores themselves


def test_brief_gradients_inside_of_jit_are_those_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no time can be saved none is spent: the function is read once, and nothing of it twice."""
    calls = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return few(x)

    monkeypatch.setattr(library.JAX, "instead", pytest.fail)
    found = jax.jit(ej.grad(counted))(x)
    assert len(calls) == 1
    np.testing.assert_allclose(found, jax.grad(few)(x), rtol=1e-12)


def test_brief_gradients_are_those_of_jax_after_hessians_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of a function changes no program; that for `vmap` is compiled, and not read at each call."""

    def f(x: Any) -> Any:
        return few(x)

    jax.jit(ej.hessian(f))(x)
    monkeypatch.setattr(library.JAX, "instead", pytest.fail)
    np.testing.assert_allclose(jax.jit(ej.grad(f))(x), jax.grad(few)(x), rtol=1e-12)
    monkeypatch.setattr(library.JAX, "_written", pytest.fail)
    rows = jnp.stack([x, x + 0.1])
    np.testing.assert_allclose(jax.vmap(ej.grad(f))(rows), jax.vmap(jax.grad(few))(rows), rtol=1e-12)


def test_brief_gradients_at_kinks_are_ours() -> None:
    def root(x: Any) -> Any:
        return jnp.sqrt(x[0] ** 2) * x[1]

    np.testing.assert_array_equal(jax.jit(ej.grad(root))(jnp.array([0.0, 1.0])), 0)
