"""Types of derivatives by numbers of Python: as JAX's, they give way to those of arrays beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
import oracles  # noqa: F401 (double precision)

FUNCTIONS: dict[str, Callable] = {
    "product": lambda x, y: jnp.sum(x * jnp.sin(y) * x),
    "first of two": lambda x, y: x**3,
    "products in turn": lambda x, y: jnp.sum(jnp.cumprod(x * jnp.sin(y))),
    "long loop": lambda x, y: jax.lax.fori_loop(0, 40, lambda k, c: jnp.sin(c * x) + jnp.sum(y), x),
    "spectrum": lambda x, y: jnp.sum(jnp.abs(jnp.fft.rfft(x * y)) ** 2),
}
ARGS = {
    "number": (0.5, np.arange(1.0, 4.0) / 5),
    "number beside single precision": (0.5, np.ones(3, np.float32)),
    "array of a number": (jnp.array(0.5), np.ones(3, np.float32)),
    "NumPy's number": (np.float64(0.5), np.ones(3, np.float32)),
}


def _types(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda x: str(jax.typeof(x)), tree)


@pytest.mark.parametrize("args", ARGS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_types_are_those_of_jax(name: str, args: str) -> None:
    f, given, chosen = FUNCTIONS[name], ARGS[args], (0, 1)
    for kind in ("value_and_grad", "jacfwd", "hessian"):
        expected = _types(jax.eval_shape(getattr(jax, kind)(f, chosen), *given))
        called = getattr(ej, kind)(f, chosen)
        for found in (called(*given), called(*given), jax.jit(called)(*given)):
            assert _types(found) == expected, kind


def test_a_step_keeps_the_type_of_an_array() -> None:
    """What a derivative by a number is multiplied with has half the precision, in JAX as here."""
    x = jnp.ones(3, jnp.float32)
    slope = ej.grad(lambda a, x: jnp.sum(jnp.sin(a * x)))
    assert (x - 0.1 * slope(0.5, x)).dtype == jnp.float32
    assert (x - 0.1 * jax.jit(slope)(0.5, x)).dtype == jnp.float32
    assert (x - 0.1 * ej.hvp(slope.function)(0.5, x, tangents=1.0)).dtype == jnp.float32
