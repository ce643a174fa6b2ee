"""Derivatives at the special points of JAX functions are those of JAX, or the subgradients that the README names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
import oracles  # noqa: F401 (double precision)
from eindiff import EindiffError

pytestmark = pytest.mark.filterwarnings("ignore:.*has no closed form here")

ZEROS = jnp.array([0.0, 1.0, -1.0, 0.0])
TIES = jnp.array([1.0, 1.0, 2.0, 2.0])
HALVES = jnp.array([0.5, 1.5, -0.5, 2.5])


@jax.custom_jvp
def with_rule(x: Any) -> Any:
    return x**2


with_rule.defjvp(lambda given, tangents: (with_rule(given[0]), 5 * given[0] * tangents[0]))

LIKE_JAX: dict[str, tuple[Callable, Any]] = {
    "stop_gradient": (lambda x: (x * jax.lax.stop_gradient(x**2)).sum(), TIES),
    "straight through": (lambda x: ((x + jax.lax.stop_gradient(jnp.round(x) - x)) ** 2).sum(), HALVES),
    "custom_jvp": (lambda x: (with_rule(x) ** 2).sum(), TIES),
    "relu": (lambda x: (jax.nn.relu(x) ** 2 + jax.nn.relu(x)).sum(), ZEROS),
    "hard_tanh": (lambda x: jax.nn.hard_tanh(x).sum(), ZEROS),
    "max": (jnp.max, TIES),
    "maximum": (lambda x: jnp.maximum(x, x[::-1]).sum(), ZEROS),
    "clip": (lambda x: (jnp.clip(x, 0.0, 1.0) ** 2).sum(), ZEROS),
    "sort": (lambda x: (jnp.sort(x) * jnp.arange(4.0)).sum(), TIES),
    "median": (jnp.median, TIES),
    "where": (lambda x: jnp.where(x > 0, x**2, 3 * x).sum(), ZEROS),
    "sign": (lambda x: (jnp.sign(x) * x).sum(), ZEROS),
    "floor": (lambda x: (jnp.floor(x) * x).sum(), ZEROS),
    "round": (lambda x: (jnp.round(x) * x).sum(), HALVES),
    "norm": (jnp.linalg.norm, jnp.zeros(3)),
    "power": (lambda x: (x**2.0 + x**0).sum(), ZEROS),
    "mod": (lambda x: ((x % 1.0) ** 2).sum(), ZEROS),
    "mod of two": (lambda x: x[0] % x[1], jnp.array([4.0, 2.0])),
    "abs cubed": (lambda x: (jnp.abs(x) ** 3).sum(), ZEROS),
    "prod": (jnp.prod, jnp.array([0.0, 0.0, 3.0])),
    "top_k": (lambda x: (jax.lax.top_k(x, 2)[0] ** 2).sum(), TIES),
}


@pytest.mark.parametrize("case", LIKE_JAX)
def test_as_in_jax(case: str) -> None:
    f, x = LIKE_JAX[case]
    np.testing.assert_allclose(ej.grad(f)(x), jax.grad(f)(x), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ej.hessian(f)(x), jax.hessian(f)(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", ["stop_gradient", "straight through", "custom_jvp", "relu", "sort", "where", "prod"])
def test_further_derivatives_are_those_of_jax(case: str) -> None:
    """JAX differentiates the program of a gradient, and a gradient of ours that of another one."""
    f, x = LIKE_JAX[case]
    for further in (jax.jacfwd, jax.jacrev, ej.jacfwd):
        np.testing.assert_allclose(further(ej.grad(f))(x), jax.hessian(f)(x), rtol=1e-10, atol=1e-12)


def test_a_rule_that_is_not_linear_is_left_to_jax() -> None:
    """No Jacobian stands for it, as that of gradients that are clipped: the order of the chain rule is JAX's."""
    clipped = jax.custom_vjp(lambda x: 2 * x)
    clipped.defvjp(lambda x: (2 * x, x), lambda x, g: (jnp.clip(g, -1, 1) * x,))

    def f(x: Any) -> Any:
        return (clipped(jnp.sin(x)) ** 2).sum()

    for ours, own in ((ej.grad, jax.grad), (ej.hessian, jax.hessian)):
        for called in (ours(f), jax.jit(ours(f))):
            np.testing.assert_allclose(called(TIES), own(f)(TIES), rtol=1e-12)
            np.testing.assert_allclose(called(ZEROS), own(f)(ZEROS), rtol=1e-12)
    with pytest.raises(EindiffError, match="not linear in its cotangent"):
        ej.hessian(f, structured=True)(TIES)


def test_subgradients_of_the_documentation() -> None:
    assert ej.grad(lambda x: jnp.abs(x).sum())(ZEROS).tolist() == [0, 1, -1, 0]
    assert ej.grad(lambda x: jnp.linalg.norm(x, 1))(ZEROS).tolist() == [0, 1, -1, 0]
    assert ej.grad(lambda x: jnp.hypot(x[0], x[1]))(jnp.zeros(2)).tolist() == [0, 0]


def test_a_rule_for_the_reverse_mode_is_the_derivative_at_each_order() -> None:
    """JAX differentiates the code of the forward rule instead, which knows nothing of the other."""
    reverse = jax.custom_vjp(lambda x: x)
    reverse.defvjp(lambda x: (x, None), lambda _, g: (-g,))
    f = lambda x: (reverse(x) ** 2).sum()  # noqa: E731
    assert ej.grad(f)(TIES).tolist() == (-2 * TIES).tolist()
    assert np.array_equal(ej.hessian(f)(TIES), 2 * np.eye(4))


def test_functions_are_the_same_only_with_the_same_rule() -> None:
    """One of JAX's own is, whose rule calls it again; code of JAX with rules of others is not."""

    def with_rules(rate: float) -> list[Callable]:
        first, second = (jax.custom_jvp(jax.scipy.special.ndtr) for _ in range(2))
        first.defjvp(lambda given, tangents: (first(*given), rate * given[0] * tangents[0]))
        second.defjvps(lambda tangent, value, x: rate * x**2 * tangent)
        return [first, second]

    log_ndtr = jax.scipy.special.log_ndtr
    source = ej.hessian(lambda x: log_ndtr(x).sum()).lower(TIES).source
    assert len({word for word in source.replace("(", " ").split() if word.startswith("opaque")}) == 1
    parts = [log_ndtr, lambda x: log_ndtr(x, 1), *with_rules(2.0), *with_rules(3.0)]

    def f(x: Any) -> Any:
        return sum(((k + 1) * g(x)).sum() for k, g in enumerate(parts))

    np.testing.assert_allclose(ej.hessian(f)(TIES), jax.hessian(f)(TIES), rtol=1e-10, atol=1e-12)


def test_powers_of_negative_numbers_are_derived_again_by_jax() -> None:
    """In what JAX derives again the exponent does not depend on the base, whose logarithm is none."""
    x, k = jnp.array([1.5, -2.0, -0.5, 0.0]), jnp.array([2.0, 3.0, 1.0, 2.0])

    def f(x: Any) -> Any:
        return jnp.sum(x**k)

    expected = jax.hessian(f)(x)
    for found in (jax.jacfwd(ej.grad(f))(x), jax.jacrev(ej.grad(f))(x), jax.jacfwd(jax.jit(ej.grad(f)))(x)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
