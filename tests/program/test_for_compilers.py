"""Operations in the form that compilers make quick programs of: diagonals, quotients, products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff as ed
import eindiff.jax as ej


@pytest.mark.parametrize("n", [1, 5, 16, 17, 64, 65, 200])
def test_diagonals_alone_take_little_work(n: int) -> None:
    """What the compiler counts as a thousand operations goes to another thread, and takes longer by the way there."""
    x = jnp.linspace(-1, 1, n)
    program = jax.jit(ej.jacfwd(lambda x: 3 * jnp.sin(x))).lower(x).compile()
    assert n > 64 or (program.cost_analysis() or {}).get("flops", 0) < 1000
    assert program.memory_analysis().temp_size_in_bytes == 0
    np.testing.assert_allclose(program(x), jnp.diag(3 * jnp.cos(x)), rtol=1e-12)
    slopes = jax.jit(ej.jacfwd(jnp.sqrt))(jnp.arange(-1.0, n - 1))
    assert jnp.isnan(jnp.diag(slopes)[0]) and (slopes[~np.eye(n, dtype=bool)] == 0).all()
    again = jax.jacfwd(lambda x: ej.jacfwd(jnp.sin)(x).sum(0))(x)
    np.testing.assert_allclose(again, -jnp.diag(jnp.sin(x)), rtol=1e-12)


def test_large_diagonals_are_not_copied() -> None:
    """Both mixed blocks are the same matrix: a copy takes longer than to write it again."""

    def function(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.logaddexp(x, y))

    x = jnp.linspace(0, 1, 300)
    program = jax.jit(ej.hessian(function, (0, 1))).lower(x, x + 1).compile()
    assert " copy(" not in program.as_text()
    found, expected = (jax.tree.leaves(one(x, x + 1)) for one in (program, jax.hessian(function, (0, 1))))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_quotients_that_are_rounded_or_compared_are_exact() -> None:
    """49 * (1 / 49) is less than 1."""

    def function(x: Any, y: Any) -> Any:
        return jnp.sum(x**2 * jnp.floor(x / y) + jnp.where(x / y >= 1, x**3, 0.0) / y)

    y = jnp.arange(1.0, 60.0)
    np.testing.assert_allclose(jax.jit(ej.grad(function))(y, y), jax.grad(function)(y, y), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "is_stored"), [("float64", True), ("float32", False)])
def test_products_go_along_rows(dtype: str, is_stored: bool) -> None:
    """The compiler reads A by columns for `A' B` and `A' x`, and takes up to five times as long."""
    X, w, v = ed.matrix("X", "m", "n"), ed.vector("w", "n"), ed.vector("v", "m")
    loss = ed.sum(ed.log(1 + ed.exp(v * (X @ w))))
    outputs = [ed.gradient(loss, w), ed.hessian(loss, w)]
    rng = np.random.default_rng(5)
    for m, n, is_large in ((1000, 30, True), (20, 3, False)):
        arrays = {"X": rng.normal(size=(m, n)), "w": rng.normal(size=n), "v": rng.normal(size=m)}
        given = {name: jnp.asarray(x, dtype) for name, x in arrays.items()}
        compiled = ed.compile(outputs, "jax", dtype=dtype, sizes={"m": m, "n": n})
        assert ("apart(" in compiled.source) is (is_stored and is_large)
        assert ("X.T @ " in compiled.source) is not is_large
        tolerance = {"float64": 1e-12, "float32": 1e-4}[dtype]
        expected = [ed.evaluate(x, arrays) for x in outputs]
        for found, value in zip(compiled(**given), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance * np.abs(value).max())
        assert len(jax.jit(jax.jacfwd(lambda w, f=compiled, g=given: f(**{**g, "w": w})[0]))(given["w"])) == n


@pytest.mark.parametrize("n", [2, 40, 300])
def test_what_balances_a_diagonal_is_put_there_in_one_loop(n: int) -> None:
    """Without a matrix for what is taken away, and another for what is added."""
    function = lambda x: jax.scipy.special.logsumexp(1e3 + x) + jnp.sum(x**3)  # noqa: E731
    x = jnp.linspace(0.5, 60, n)
    program, theirs = (jax.jit(one.hessian(function)).lower(x).compile() for one in (ej, jax))
    assert program.memory_analysis().temp_size_in_bytes <= theirs.memory_analysis().temp_size_in_bytes + 8 * x.nbytes
    x64 = np.asarray(x, np.longdouble)
    p = np.exp(x64 - x64.max()) / np.exp(x64 - x64.max()).sum()
    expected = -np.outer(p, p)
    np.fill_diagonal(expected, [p[k] * (p[:k].sum() + p[k + 1 :].sum()) for k in range(n)])
    expected += np.diag(6 * x64)
    np.testing.assert_allclose(program(x), expected.astype(float), rtol=1e-10, atol=1e-300)
