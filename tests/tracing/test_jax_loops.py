"""Loops of JAX: written out, at once for all turns, or left to JAX as a whole; and other parts without closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse

import eindiff as ed
import eindiff.jax as ej
import oracles
from eindiff.tracing.jax.library import JAX as LIBRARY
from tracing.test_jax import assert_like_jax

x = jnp.asarray(np.random.default_rng(0).normal(size=30))
X = jnp.asarray(np.random.default_rng(1).normal(size=(30, 3)))


def recurrence(p: Any) -> Any:
    return jnp.sum(lax.scan(lambda h, r: (jnp.tanh(p * h + r), h), jnp.zeros(3), X)[1] ** 2)


def kinds(f: Callable, point: Any, along: Any) -> Iterator[tuple[Any, Any]]:
    """What is asked of a function, by us and by JAX."""
    value, gradient, hessian = f(point), jax.grad(f)(point), oracles.jit(jax.hessian(f))(point)
    yield ej.grad(f)(point), gradient
    yield ej.hessian(f)(point), hessian
    yield ej.hvp(f)(point, tangents=along), hessian @ along
    yield ej.hessian_diagonal(f)(point), jnp.diag(hessian)
    yield ej.value_and_grad(f)(point), (value, gradient)
    yield ej.value_grad_hessian(f)(point), (value, gradient, hessian)
    yield jax.jit(ej.hessian(f))(point), hessian
    yield jax.vmap(ej.grad(f))(point[None]), gradient[None]
    yield ej.hessian(f, structured=True)(point).as_tensor(), hessian


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected), strict=True):
        oracles.assert_close(np.asarray(a), np.asarray(b), 1e-9)


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_recurrence_is_left_to_jax() -> None:
    p = jnp.array([0.3, -0.2, 0.5])
    for found, expected in kinds(recurrence, p, p + 1):
        assert_same(found, expected)
    assert "scan" in ej.hessian(recurrence).lower(p).opaque


def test_what_is_left_is_named_once_and_as_it_is_in_jax() -> None:
    p = jnp.array([0.3, -0.2, 0.5])
    hessian = ej.hessian(lambda p: (recurrence(p), {"name": "left", "p": p}), has_aux=True)
    with pytest.warns(UserWarning, match=r"scan at .*test_jax_loops.py:\d+ has no closed form") as caught:
        found, aux = hessian(p)
    assert len(caught) == 1
    assert_same(found, jax.hessian(recurrence)(p))
    assert aux["name"] == "left" and np.array_equal(aux["p"], p)
    assert_same(hessian(p + 1)[0], jax.hessian(recurrence)(p + 1))  # the same program


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_what_is_left_sees_its_surroundings() -> None:
    scale = [2.0]

    def f(p: Any) -> Any:
        return scale[0] * recurrence(p)

    p, gradient = jnp.array([0.3, -0.2, 0.5]), ej.grad(f)
    first = gradient(p)
    scale[0] = 4.0
    assert_same(gradient(p), 2 * first)


def neighbours(v: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        before, total, k = carry
        return (row, total + k * jnp.sin(row - before) ** 2, k + 1), row * before

    (last, total, _), products = lax.scan(step, (v[0], 1.0, 0), v[1:])
    return total + last**3 + jnp.sum(products**2)


def second_differences(v: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        first, second = carry
        return (row, first), (row - 2 * first + second) ** 4

    return jnp.sum(lax.scan(step, (v[-1], v[-2]), v[:-2], reverse=True)[1] * jnp.arange(28.0))


def chain(v: Any) -> Any:
    return lax.fori_loop(0, len(v) - 1, lambda k, total: total + k * (v[k + 1] - v[k]) ** 4, 0.0)


def mapped(v: Any) -> Any:
    return jnp.sum(lax.map(lambda r: jnp.exp(-(r**2)), v))


def cumulative(v: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        total = total + row**2
        return total, total

    return jnp.sum(lax.scan(step, 1.0, v)[1] ** 2)


@pytest.mark.parametrize("f", [neighbours, second_differences, chain, mapped, cumulative])
def test_turns_at_once(f: Callable) -> None:
    """No warning, which would be an error: these loops have closed forms."""
    assert_same(ej.hessian(f)(x), oracles.jit(jax.hessian(f))(x))
    assert not ej.hessian(f).lower(x).opaque


def test_structure_through_loops() -> None:
    assert ej.hessian(chain, structured=True)(x).structure == "tridiagonal"
    assert ej.hessian(mapped, structured=True)(x).structure == "diagonal"


def settled(v: Any) -> Any:
    """How often it runs depends on values."""
    return jnp.sum(lax.while_loop(lambda c: jnp.sum(c) > 0.01, lambda c: 0.7 * c * jnp.cos(v), jnp.abs(v) + 1) ** 2)


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_loops_that_only_run_forward() -> None:
    v = x[:4]
    hessian = jax.jacfwd(jax.jacfwd(settled))(v)
    assert_same(ej.hessian(settled)(v), hessian)
    assert_same(ej.grad(settled)(v), jax.jacfwd(settled)(v))
    assert_same(ej.hvp(settled)(v, tangents=v), hessian @ v)
    assert_same(ej.value_and_grad(settled)(v), (settled(v), jax.jacfwd(settled)(v)))
    with pytest.raises(ed.EindiffError, match=r"while.*how often the loop runs"):
        ej.hessian(settled, structured=True)(v)


def spectrum(v: Any) -> Any:
    return jnp.sum(jnp.abs(jnp.fft.rfft(jnp.sin(v))) ** 2 * jnp.arange(16.0))


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_complex_numbers_inside() -> None:
    for found, expected in islice(kinds(spectrum, x, x + 1), 4):
        assert_same(found, expected)


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_complex_numbers_in_what_jax_has_no_transformation_for() -> None:
    """Together with what lies between two of them; inside of other transformations too."""
    v = x[:2]

    def f(v: Any) -> Any:
        power = jnp.abs(jnp.fft.fft(jnp.sin(v))) ** 2
        return jnp.sum(jnp.abs(jnp.fft.ifft(power * v)) ** 2 * jnp.arange(1.0, 3.0)) + jnp.sum(v**4)

    hessian = oracles.jit(jax.hessian(f))(v)
    assert_same(ej.laplacian(f)(v), jnp.trace(hessian))
    assert_same(ej.hessian(f, structured=True)(v).as_tensor(), hessian)
    inside = jax.vmap(ej.laplacian(f))(jnp.stack([v, 2 * v]))
    assert_same(inside, jnp.stack([jnp.trace(hessian), ej.laplacian(f)(2 * v)]))


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_directions_are_checked() -> None:
    with pytest.raises(ed.EindiffError, match=r"shape \(2,\) instead of \(3,\)"):
        ej.hvp(recurrence)(jnp.zeros(3), tangents=jnp.zeros(2))
    with pytest.raises(ed.EindiffError, match="tangents has the structure"):
        ej.hvp(recurrence)(jnp.zeros(3), tangents=[jnp.zeros(3)])


def noisy(v: Any, key: Any) -> Any:
    return jnp.sum((v + jax.random.normal(key, v.shape)) ** 3)


def test_fallback_is_compiled() -> None:
    gradient, key, programs = ej.grad(noisy, fallback=True), jax.random.PRNGKey(0), len(LIBRARY.own_programs)
    for k in range(2):
        assert_same(gradient(x + k, key), jax.grad(noisy)(x + k, key))
        assert len(LIBRARY.own_programs) == programs + 1


def test_sparse_matrices() -> None:
    """Gathers and sums: no Jacobian of a product is formed, and the Hessian has the pattern of M'M."""
    dense = np.zeros((30, 30))
    dense[np.arange(30), np.arange(30)] = dense[np.arange(29), np.arange(1, 30)] = 2.0
    M = sparse.BCOO.fromdense(dense, nse=64)  # some entries are padding

    def f(v: Any, M: Any) -> Any:
        return jnp.sum(jnp.sin(M @ v) ** 2) + jnp.sum((M @ X)[:, 0] * v) + jnp.sum((v @ M) ** 3)

    expected = oracles.jit(jax.hessian(lambda v: f(v, dense)))(x)
    assert_same(ej.hessian(f)(x, M), expected)
    assert_same(ej.hvp(f)(x, M, tangents=x), expected @ x)
    assert ej.hessian(f, structured=True)(x, M).structure != "dense"
    by_entries = ej.grad(lambda data: jnp.sum((sparse.BCOO((data, M.indices), shape=M.shape) @ x) ** 2))(M.data)
    rows, columns = np.nonzero(dense)
    assert_same(by_entries[: len(rows)], (2 * (dense @ x)[rows] * x[columns]))


def test_columns_first() -> None:
    def f(Q: Any) -> Any:
        first = jnp.sin(Q.reshape(-1, order="F")) * jnp.arange(90.0)
        return jnp.sum(first) + jnp.sum(Q.reshape((9, 10), order="F")[1] ** 3)

    assert_same(ej.hessian(f)(X), oracles.jit(jax.hessian(f))(X))
    assert not ej.hessian(f).lower(X).opaque


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_products_with_opaque_functions_never_form_jacobians() -> None:
    """A Jacobian of this one would have 4 · 10^8 entries."""
    v = jnp.cos(jnp.arange(20_000.0))

    def f(v: Any) -> Any:
        return jnp.sum(jnp.sin(jnp.sort(v * v)) * jnp.linspace(0, 1, v.size))

    assert ej.grad(f).lower(v).opaque
    assert_same(ej.grad(f)(v), jax.grad(f)(v))
    assert_same(ej.hvp(f)(v, tangents=v + 1), jax.jvp(jax.grad(f), (v,), (v + 1,))[1])
    assert_same(ej.directional(f, v + 1, 1)(v), jnp.vdot(jax.grad(f)(v), v + 1))


def test_jax_does_the_whole_where_it_is_predicted_to_be_faster() -> None:
    """The gradient of a convolution is one in JAX, and a product of windows here; the Hessian is better here."""
    image, kernel = jnp.ones((1, 1, 40, 40)), jnp.ones((1, 1, 5, 5)) * x[0]

    def f(kernel: Any) -> Any:
        return jnp.sum(lax.conv(image, kernel, (1, 1), "SAME") ** 2)

    gradient, hessian = (jax.make_jaxpr(one(f))(kernel) for one in (ej.grad, ej.hessian))
    assert "conv_general_dilated" in str(gradient) and "conv_general_dilated" not in str(hessian)
    assert_same(ej.grad(f)(kernel), jax.grad(f)(kernel))


@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_places_that_depend_on_values_do_not_move() -> None:
    """The order of a sorted vector, inside of derivatives of derivatives for several points."""

    def f(v: Any) -> Any:
        return jnp.sum(jnp.sort(v**3) * jnp.arange(3.0))

    def third(derive: Any) -> Callable:
        return lambda v: jax.vmap(derive(jax.grad(f)))(jnp.stack([v, v + 1])).sum()

    v = jnp.array([0.3, -0.2, 0.5])
    assert_same(ej.grad(third(ej.jacobian))(v), jax.grad(third(jax.jacobian))(v))


NO_ENTRIES: dict[str, tuple[Callable, tuple]] = {
    "alone": (lambda x: jnp.sum(x**2), (jnp.zeros(0),)),
    "beside others": (lambda p: jnp.sum(p[0] ** 2) + jnp.sum(p[1] ** 3), ((X[:0], x[:4]),)),
    "data": (lambda w, X: jnp.sum(jnp.sin(X @ w)) + jnp.sum(w**3), (x[:3], X[:0])),
    "results": (lambda x: x[:0] ** 2, (x[:5],)),
}


@pytest.mark.parametrize("name", NO_ENTRIES)
def test_arrays_without_entries_are_left_to_jax(name: str) -> None:
    function, args = NO_ENTRIES[name]
    expected = jax.hessian(function)(*args)
    assert_like_jax(ej.hessian(function)(*args), expected)
    assert_like_jax(jax.jit(ej.hessian(function))(*args), expected)
    if name != "results":
        found = ej.hessian_diagonal(function)(*args)
        assert jax.tree_util.tree_map(jnp.shape, found) == jax.tree_util.tree_map(jnp.shape, args[0])
    with pytest.raises(ed.EindiffError, match="without entries"):
        ej.hessian(function, structured=True)(*args)
