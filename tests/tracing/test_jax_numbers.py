"""Programs of JAX computed by NumPy: either the numbers of JAX, or an error that says they are not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
import jax_models  # noqa: F401 (it fills the table)
from eindiff.tracing.jax.numbers import NoNumbersError, numbers
from jax_functions import CASES

x, A = jnp.array([0.3, -1.2, 2.5, 0.7]), jnp.array(np.random.default_rng(0).normal(size=(4, 4)))
PLACES = jnp.array([[0, 2], [3, 1]])

PROGRAMS = {
    "gather of entries": lambda x: x[PLACES],
    "gather of rows": lambda x: jnp.outer(x, x)[PLACES],
    "gather of columns": lambda x: jnp.outer(x, x)[:, PLACES],
    "gather of pairs": lambda x: jnp.outer(x, jnp.sin(x))[PLACES, PLACES.T],
    "gather of a part of rows": lambda x: jnp.outer(x, jnp.sin(x))[1:3, jnp.array([3, 0])],
    "entry at a place that is computed": lambda x: x[jnp.argmax(x)] * x[jnp.argmin(x)],
    "reversed sums": lambda x: jax.lax.cumsum(x, reverse=True) * jax.lax.cumprod(x),
    "largest so far": lambda x: jax.lax.cummax(x) - jax.lax.cummin(x, reverse=True),
    "stack of products": lambda x: jnp.einsum("bij,bjk->bik", jnp.stack([A, A.T]), jnp.outer(x, x)[None] + A),
    "product of stacks": lambda x: jnp.einsum("ibj,kjb->bik", A[:, :, None] * x, A[None] * x[:, None, None]),
    "steps": lambda x: jnp.round(3 * x) + jnp.floor(x) + jnp.ceil(x) + jnp.sign(x) + jnp.clip(x, -1, 1),
    "logic": lambda x: jnp.where((x > 0) & ~(x > 2) | (x < -1), x, 0) + (x % 0.4),
    "loop": lambda x: jax.lax.scan(lambda c, y: (jnp.tanh(c @ A) * y, c.sum() + y), x, jnp.stack([x, -x, x])),
    "loop from the end": lambda x: jax.lax.scan(lambda c, y: (c * y, c + 1), 2.0, x, reverse=True),
    "cholesky": lambda x: jnp.linalg.cholesky(A @ A.T + jnp.diag(x**2)),
    "padded": lambda x: jnp.pad(jnp.outer(x, x), ((1, 2), (0, 3)), constant_values=7.0),
    "strides": lambda x: jnp.outer(x, x)[::2, 1::2][::-1],
    "split": lambda x: jnp.concatenate(jnp.split(x, [1, 3])[::-1]),
    "powers": lambda x: x**-3 + jnp.abs(x) ** 2.5 + x**2 + jnp.exp2(x) + jax.lax.rsqrt(x * x),
    "several axes": lambda x: jnp.max(A[None] * x[:, None, None], axis=(0, 2)) + jnp.prod(A, axis=0) + A.min(1),
    "whole numbers": lambda x: jnp.arange(4) * 3 + jnp.sort(-PLACES.reshape(-1)) + x.astype(int),
    "integer division": lambda x: (jnp.arange(4) - 2) // 3 * x,
    "diagonals": lambda x: jnp.diag(A) * x + jnp.trace(A * x) + jnp.diagonal(jnp.outer(x, x), 1).sum(),
    "platforms": lambda x: jax.lax.platform_dependent(x, cpu=jnp.square, default=jnp.abs),
    "choices by value": lambda x: [jax.lax.cond(y > 0, jnp.square, jnp.abs, x) for y in x]
    + [jax.lax.switch(x.astype(int)[2] + 7, [jnp.abs, jnp.sign], x)],
    "custom": lambda x: jax.nn.relu(x) + jax.nn.gelu(x) + jax.nn.softplus(x) + jax.nn.silu(x),
}  # fmt: skip


def compared(f: Any, *args: Any) -> bool:
    """Whether a program is computed by NumPy; if so, it has to be as JAX does."""
    program = jax.make_jaxpr(lambda *given: jax.tree_util.tree_leaves(f(*given)))(*args)
    try:
        found = numbers(program, jax.tree_util.tree_leaves(args))
    except NoNumbersError:
        return False
    expected = jax.tree_util.tree_leaves(f(*args))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        accuracy = 1e-4 if theirs.dtype == np.float32 else 1e-8  # some have single precision inside
        np.testing.assert_allclose(ours, np.asarray(theirs), accuracy, accuracy * np.abs(theirs).max(initial=0.0))
    return True


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "integer division"])
def test_same_numbers(name: str) -> None:
    assert compared(PROGRAMS[name], x)


def test_integers_are_divided_elsewhere() -> None:
    compared(PROGRAMS["integer division"], x)


def test_same_numbers_for_all_functions() -> None:
    """Those that tests of derivatives have: whatever is computed here is what JAX computes."""
    known = 0
    for case in CASES:
        moving = [k for k, arg in enumerate(case.args) if isinstance(arg, jax.Array | np.ndarray)]

        def f(*given: Any, case: Any = case, moving: Any = moving) -> Any:
            values = dict(enumerate(case.args)) | dict(zip(moving, given, strict=True))
            found = case.function(*(values[k] for k in range(len(case.args))))
            return [y for y in jax.tree_util.tree_leaves(found) if isinstance(y, jax.Array)]

        known += compared(f, *(case.args[k] for k in moving))
    assert known > len(CASES) / 2


def test_truth_values_do_not_lower_the_precision():
    """They may be all that a derivative depends on."""
    mask = jnp.array([True, False, True, True])
    found = ej.hessian(lambda x, mask: jnp.sum(jnp.where(mask, x, 0) ** 2) / 3)(jnp.ones(4), mask)
    np.testing.assert_allclose(found, np.diag([2 / 3, 0, 2 / 3, 2 / 3]), 1e-15)
