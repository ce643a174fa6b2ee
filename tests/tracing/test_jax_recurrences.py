"""Hessians by what is read in the turns of a loop: operators in the structure of the recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import eindiff.jax as ej
import oracles

rng = np.random.default_rng(5)
A, B, X = (jnp.asarray(0.4 * rng.normal(size=shape)) for shape in ((2, 2), (2, 3), (12, 3)))


def rows(x: Any) -> Any:
    """The last state is not used, and two loops meet."""
    def step(h: Any, r: Any) -> Any:
        h = jnp.tanh(A @ h + B @ r)
        return h, jnp.sum(h**2)

    back = lax.scan(lambda s, r: (jnp.sin(0.5 * s) + jnp.sum(r), s), 0.1, x, reverse=True)[1]
    return jnp.sum(lax.scan(jax.jit(step), jnp.ones(2), x)[1] * back) + jnp.sum(x**2)


def several(x: Any) -> Any:
    """States that need each other in one turn; one that no variable moves, a counter, the row before, and a sum."""
    def step(carry: Any, r: Any) -> Any:
        h, c, P, k, before, total = carry
        P, c = jnp.tanh(A @ P) + jnp.eye(2), jnp.sin(c) + B @ r
        h = jnp.tanh(P @ h) * c
        return (h, c, P, k + 1, r, total + jnp.sum(h * c)), k * jnp.sum((r - before) ** 4) + jnp.sum(P @ h)

    first = (jnp.ones(2), jnp.zeros(2), jnp.eye(2), 0, X[0], 1.0)
    last, ys = lax.scan(step, first, x)
    return last[5] ** 2 + jnp.sum(ys) + 3 * jnp.sum(x**2)


def counted(x: Any) -> Any:
    def step(k: Any, carry: Any) -> Any:
        s = jax.scipy.special.logsumexp(carry[0][:, None] + A, axis=0) + x[k, :2]
        return s, carry[1] + jnp.sum(s**2)

    return lax.fori_loop(0, len(x), step, (jnp.zeros(2), 0.0))[1] + jnp.sum(x**4)


@pytest.mark.parametrize("f", [rows, several, counted])
def test_recurrences(f: Callable) -> None:
    """No warning, which would be an error."""
    H, expected = ej.hessian(f, structured=True)(X), np.asarray(oracles.jit(jax.hessian(f))(X)).reshape(36, 36)
    assert H.structure == "recurrence"
    oracles.assert_close(H.as_matrix(), expected, 1e-9)
    oracles.assert_close(H @ np.asarray(X), (expected @ X.ravel()).reshape(X.shape), 1e-9)
    oracles.assert_close(H.diagonal().ravel(), np.diag(expected), 1e-9)
    damped = expected + 20 * np.eye(36)
    oracles.assert_close(H.solve(np.asarray(X), damping=20.0).ravel(), np.linalg.solve(damped, X.ravel()), 1e-9)
    assert H.logdet(20.0) == pytest.approx(np.linalg.slogdet(damped)[1])
    for damping in (0.0, 20.0):
        assert H.is_definite(damping) == (np.linalg.eigvalsh(expected)[0] + damping > 0)


def test_states_and_inputs_together() -> None:
    def f(first: Any, x: Any) -> Any:
        return jnp.sum(lax.scan(lambda h, r: (jnp.tanh(A @ h + B @ r), h), first, x)[1] ** 2)

    h = jnp.ones(2)
    H, expected = ej.hessian(f, (0, 1), structured=True)(h, X), oracles.jit(jax.hessian(f, (0, 1)))(h, X)
    for i in range(2):
        for j in range(2):
            oracles.assert_close(H.blocks[i][j].as_tensor(), np.asarray(expected[i][j]), 1e-9)
    step = ej.newton_step(f, (0, 1), damping=30.0)(h, X)
    assert step.hessian.structure == "recurrence"
    found = np.concatenate([np.ravel(x) for x in step.hessian.damped(30.0).mv([np.asarray(x) for x in step.step])])
    oracles.assert_close(found, -np.concatenate([np.ravel(x) for x in jax.grad(f, (0, 1))(h, X)]), 1e-9)


def test_many_turns() -> None:
    """More than are formed to see whether a Hessian is definite."""
    def f(x: Any) -> Any:
        return jnp.sum(lax.scan(lambda s, r: (A @ s + B @ r, s), jnp.ones(2), x)[1] ** 2) + jnp.sum(x**4)

    x = jnp.asarray(rng.normal(size=(1000, 3)))
    step = ej.newton_step(f)(x)
    product = jax.jvp(jax.grad(f), (x,), (step.step,))[1]
    oracles.assert_close(np.asarray(product), -np.asarray(step.gradient), 1e-9)
    assert not ej.hessian(lambda x: -f(x), structured=True)(x).is_definite()


def test_what_a_linear_recurrence_ends_with_is_of_low_rank() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.cosh(lax.scan(lambda s, r: (A @ s + B @ r, s), jnp.ones(2), x)[0]))

    with pytest.warns(UserWarning, match="no closed form"):
        H = ej.hessian(f, structured=True)(X)
    assert H.structure == "low rank"
    oracles.assert_close(H.as_tensor(), np.asarray(oracles.jit(jax.hessian(f))(X)), 1e-9)


def test_states_that_no_variable_moves() -> None:
    """What is left of the loop has a closed form, here a diagonal one, for dense Hessians too."""
    def f(x: Any) -> Any:
        return jnp.sum(lax.scan(lambda P, r: (jnp.tanh(A @ P) + 1.0, jnp.sum(P) * jnp.sum(jnp.sin(r))), A, x)[1])

    oracles.assert_close(np.asarray(ej.hessian(f)(X)), np.asarray(oracles.jit(jax.hessian(f))(X)), 1e-9)
    assert ej.hessian(f, structured=True)(X).structure == "diagonal"


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (None, 1), (0, None)])
def test_stacks_of_systems(axes: tuple[int | None, int | None]) -> None:
    """As many systems as they have unknowns: shapes do not say which axis is which."""
    a = jnp.asarray(rng.normal(size=(3, 3) if axes[0] is None else (3, 3, 3))) + 4 * jnp.eye(3)
    weights = jnp.arange(9.0).reshape(3, 3)

    def f(b: Any) -> Any:
        return jnp.sum(jnp.sin(jax.vmap(jnp.linalg.solve, axes)(a, b)) * weights)

    b = X[:3] if axes[1] is not None else X[0]
    hessian = ej.hessian(f, verify=False)
    oracles.assert_close(np.asarray(hessian(b)), np.asarray(oracles.jit(jax.hessian(f))(b)), 1e-9)
    assert not hessian.lower(b).opaque


def test_systems_inside_of_gradients() -> None:
    """A transposed system, and the factorization, which JAX keeps for it."""
    def f(v: Any) -> Any:
        return v @ jnp.linalg.solve(jnp.outer(v, v) + 3 * jnp.eye(3), jnp.sin(v))

    def outer(derive: Callable) -> Callable:
        return derive(lambda v: jnp.sum(jax.vmap(jax.grad(f))(jnp.stack([v, v + 1])) ** 2))

    oracles.assert_close(np.asarray(outer(ej.grad)(X[0])), np.asarray(oracles.jit(outer(jax.grad))(X[0])), 1e-9)
