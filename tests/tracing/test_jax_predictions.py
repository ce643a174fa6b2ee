"""What is predicted of JAX's compiler: how long it takes, and what it stores."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from eindiff.core import construct
from eindiff.core.index_relations import IndexMap
from eindiff.tracing.jax import choice, kernels, predicted


@pytest.mark.parametrize(
    ("ours", "call", "is_longer"), [(0.13, 4e-4, False), (0.14, 4e-4, True), (0.14, 2e-4, True), (0.101, 2.0, True)]
)
def test_longer_first_calls_are_for_what_few_calls_repay(ours: float, call: float, is_longer: bool) -> None:
    """JAX's takes 0.1 s to compile and 1 ms to call."""
    assert choice.takes_longer(ours, 0.1, call, 1e-3) == is_longer
    assert not choice.takes_longer(1000 * ours, 100, 1e-3 * call, 10.0)


def test_the_compiler_takes_its_time_for_loops() -> None:
    """What works entry by entry is one loop, but for slow functions whose values are used several times, which are
    computed before; what is known or not used takes none."""

    def loops(function: Callable) -> int:
        x = jnp.array([1.0, -0.5, 2.0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "OPERATION", 0.0)
            patch.setattr(kernels, "PIECE", kernels.LOOP)
            return round((kernels.compiling(jax.make_jaxpr(function)(x).jaxpr) - kernels.START) / kernels.LOOP)

    assert loops(lambda x: jnp.exp(x) * jnp.sin(x) + 1) == 1
    assert loops(lambda x: (jnp.exp(x) + 1)[:, None] * x) == 2
    assert loops(lambda x: (jnp.exp(x), 2 * jnp.exp(x))) == 2
    assert loops(jax.jit(lambda x: (jnp.where(x > 0, x, 0), x.T))) == 1
    assert loops(lambda x: [x + jnp.exp(jnp.arange(3.0)), jnp.log(x)][0]) == 1
    assert loops(lambda x: (x[:, None] * jnp.sin(x)).sum(1) + 1) == 1
    assert loops(lambda x: jnp.outer(x, x) + jnp.vdot(x, x)) == 2
    assert loops(lambda x: x[jnp.array([2, 0])] * 2) == 1
    assert loops(lambda x: jnp.split(x * 2, 3)) == 3
    assert loops(lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=lambda x: jnp.cumsum(jnp.sort(x)))) == 1
    assert loops(lambda x: jnp.diag(jnp.outer(x, x)) + jnp.diag(x[:, None] + x)) == 1


def test_the_compiler_stores_what_is_made_of_parts_and_read_twice() -> None:
    """Arrays side by side and margins are no loops of their own where each loop reads them once; many entries are
    copied, part by part."""

    def rolled(x: Any) -> Any:
        return jax.lax.concatenate([x[..., 2:], x[..., :2]], x.ndim - 1)

    def padded(x: Any) -> Any:
        return jax.lax.pad(x, 0.0, [(1, 2, 0)])

    few, many = jnp.arange(8.0), jnp.ones((128, 128))
    for function, x, count in (
        (lambda x: rolled(x) * x, few, 1),
        (lambda x: (lambda y: y * x + y[::-1])(rolled(x * x)), few, 2),
        (lambda x: (lambda y: (y * x, y - x))(rolled(x * x)), few, 2),
        (lambda x: (lambda y: y[::-1][1:] * y[1:] + y[:-1])(rolled(x) - x), few, 2),
        (lambda x: padded(x) * 2, few, 1),
        (lambda x: (lambda y: (y * 2, y - 1))(padded(x * x)), few, 3),
        (lambda x: rolled(x) * x, many, 4),
    ):
        text = jax.jit(function).lower(x).compile().as_text()
        found = len(re.findall(r" (?:fusion|concatenate)\(", text[text.index("ENTRY") :]))
        jaxpr = jax.make_jaxpr(function)(x).jaxpr
        assert sum(step.is_stored for step in kernels._needed(jaxpr)) == found == count


def test_what_the_compiler_does_again_in_each_loop_counts_in_each() -> None:
    """A chain of operations whose result is given in parts, as Hessians by many variables are: each has it all."""
    x = jnp.arange(8.0)

    def chain(x: Any) -> Any:
        for _ in range(20):
            x = x * x + 1
        return x

    def operations(function: Callable) -> tuple[float, int]:
        lowered = jax.jit(function).lower(x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "LOOP", 0.0)
            patch.setattr(kernels, "PIECE", 0.0)
            seconds = kernels.compiling(jax.make_jaxpr(function)(x).jaxpr) - kernels.START
        return seconds / kernels.OPERATION, len(re.findall(r" (?:multiply|add)\(", lowered.compile().as_text()))

    for function, count in ((chain, 40), (lambda x: jnp.split(chain(x), 4), 160)):
        predicted, found = operations(function)
        assert predicted == pytest.approx(found, rel=0.1)
        assert found == count


def test_places_of_tables_and_windows_take_the_compiler_longer_than_slices() -> None:
    """The estimate before a program is planned: entries of a vector in steps, from a table, and in windows."""
    x = construct.variable("x", (7,))

    def estimate(places: IndexMap) -> float:
        axes = tuple(range(len(places.shape)))
        sizes = dict(enumerate(places.shape))
        return predicted.compiling_of(
            [construct.einsum(1, [(construct.constant(places), axes), (x, (0,))], axes[1:], sizes)]
        )

    sliced = estimate(IndexMap(7, (3,), 1, (2,)))
    assert estimate(IndexMap(7, (3,), indices=(5, 0, 4))) - sliced == pytest.approx(predicted.PLACES)
    assert estimate(IndexMap(7, (3, 3), 0, (1, 1))) - sliced == pytest.approx(predicted.WINDOW)


def test_arrays_that_get_their_memory_anew_take_their_time() -> None:
    """Arrays of many entries that are stored, but not those that are parts of a loop."""
    x, A = jnp.ones(1500), jnp.ones((1500, 1500))
    looped = jax.make_jaxpr(lambda x: jnp.sum(jnp.sin(x[:, None] * x)))(x).jaxpr
    stored = jax.make_jaxpr(lambda x: jnp.sum((x[:, None] * x) @ A))(x).jaxpr
    small = jax.make_jaxpr(lambda x: jnp.sum((x[:, None] * x) @ A[:500, :500]))(x[:500]).jaxpr
    fresh = [predicted.seconds(one) - predicted._computing(one) for one in (looped, stored, small)]
    assert fresh[0] == fresh[2] == 0
    assert fresh[1] >= 2 * A.nbytes * 1e-10
