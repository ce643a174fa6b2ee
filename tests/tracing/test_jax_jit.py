"""Inside of `jax.jit`: programs in JAX's words, and indices whose values cannot be known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff.jax as ej
import oracles
from eindiff.core.errors import EindiffError
from eindiff.program.backends.jax_backend import BACKEND
from eindiff.tracing import computation, traced_function
from eindiff.tracing.jax import constants, often
from eindiff.tracing.jax.library import JaxLibrary
from jax_functions import CASES as TABLE
from jax_functions import Case
from tracing.test_jax import assert_like_jax, order, reference

COMPILED = ("singular values", "nuclear norm", "eigh", "gamma logpdf", "Gaussian process", "cho_solve", "log_ndtr",
            "custom_jvp", "transformer block", "Kalman filter", "scan", "multivariate normal", "qr")  # fmt: skip


@pytest.mark.parametrize("case", [case for case in TABLE if case.name in COMPILED], ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_inside_of_jit(case: Case) -> None:
    """Programs in JAX's words, which its compiler may round in other ways."""
    ours, theirs = (ej.hessian, jax.hessian) if order(case) == 2 else (ej.jacrev, jax.jacrev)

    def function(*args: Any) -> Any:  # not the one that other tests have traced
        return case.function(*args)

    actual = jax.jit(ours(function, case.argnums, case.has_aux))(*case.args)
    assert_like_jax(actual, reference(theirs, case), case.tolerance)


rng = np.random.default_rng(0)
W, X, T = (jnp.asarray(rng.normal(size=shape)) for shape in ((4, 3), (6, 4), (7, 4)))
k = jnp.array([0, 1, 2, 2, 1, 0])

CASES: dict[str, tuple[Callable, tuple]] = {
    "labels": (lambda W, X, k: -jnp.sum(jax.nn.log_softmax(X @ W)[jnp.arange(6), k]), (W, X, k)),
    "take_along_axis": (lambda W, X, k: jnp.sum(jnp.take_along_axis(jnp.sin(X @ W), k[:, None], 1) ** 2), (W, X, k)),
    "rows of data": (lambda W, T, k: jnp.sum(jnp.sin(T[k] @ W)), (W, T, k)),
    "an embedding": (lambda T, k: jnp.sum(jnp.sin(T[k]) ** 2) + jnp.sum(T[-k] ** 3), (T, k)),
    "windows": (lambda T, k: jnp.sum(T[k[:2, None] + jnp.arange(2)] ** 3), (T, k)),
    "clipped": (lambda T, k: jnp.sum(jnp.take(T, k + 4, axis=0, mode="clip") ** 3), (T, k)),
    "filled": (lambda T, k: jnp.sum(jnp.take(T, k, axis=0, mode="fill", fill_value=2.0) ** 3), (T, k)),
    "a slice": (lambda T, k: jnp.sum(jnp.sin(jax.lax.dynamic_slice(T, (k[1], 0), (2, 4))) ** 3), (T, k)),
    "added up": (lambda T, k: jnp.sum(jnp.zeros(8).at[k].add(jnp.sin(T[:6, 0])) ** 2), (T, k)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*no closed form")
def test_indices_that_are_traced(name: str) -> None:
    function, args = CASES[name]
    oracles.assert_close(jax.jit(ej.hessian(function))(*args), jax.hessian(function)(*args), 1e-9)


def test_other_indices_need_no_other_trace() -> None:
    def function(W: jax.Array, X: jax.Array, k: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(X @ W)[jnp.arange(6), k] ** 2)

    hessian = ej.hessian(function)
    compiled = jax.jit(hessian)
    for shift in (1, 2):
        oracles.assert_close(compiled(W, X, (k + shift) % 3), jax.hessian(function)(W, X, (k + shift) % 3), 1e-9)
    assert hessian.traces == 1


def test_known_indices_first() -> None:
    """A function that was called with known indices can still be compiled, and the other way round."""

    def function(W: jax.Array, k: jax.Array) -> jax.Array:
        return jnp.sum(jnp.cos(X @ W)[jnp.arange(6), k] ** 2)

    hessian, expected = ej.hessian(function), jax.hessian(function)(W, k)
    for call in (hessian, jax.jit(hessian), hessian):
        oracles.assert_close(call(W, k), expected, 1e-9)


def test_an_index_out_of_range_is_seen() -> None:
    """Where JAX fills in what is not a number, the Hessian is not one either."""

    def function(T: jax.Array, k: jax.Array) -> jax.Array:
        return jnp.sum(jnp.take(T, k, axis=0, mode="fill") ** 3)

    assert np.isnan(np.asarray(jax.jit(ej.hessian(function))(T, k + 6))).all()


def test_results_of_calls_that_are_repeated_are_arrays_of_jax() -> None:
    """Small ones are given to JAX together from the second call on; they are what they were, and nobody else's."""

    def function(x: Any, c: Any) -> Any:
        return jnp.sum(jnp.exp(c * x)), (x, jnp.asarray(x.size))

    given = np.array([0.0, 1.0, -2.0])
    called = ej.value_and_grad(function, has_aux=True)
    (first, (same, size)), slope = called(given, 2.0)
    assert size == 3 and size.dtype == int
    for _ in range(2):
        (value, (aux, entries)), gradient = called(given, 2.0)
        for found, expected in ((value, first), (aux, same), (entries, size), (gradient, slope)):
            assert isinstance(found, jax.Array)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
    given[:] = 7.0
    np.testing.assert_array_equal(gradient, slope)
    np.testing.assert_array_equal(aux, [0.0, 1.0, -2.0])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Programs of what is called often, which is three calls here: they are compiled, whatever that takes."""
    found: list[Any] = []
    monkeypatch.setattr(traced_function, "OFTEN", 2)
    monkeypatch.setattr(often, "TRIALS", 1)
    monkeypatch.setattr(often, "seconds", lambda _: 0.0)
    times = (1 - 0.99**k for k in count())  # each call takes less than the one before: what is compiled stays
    monkeypatch.setattr(often, "perf_counter", lambda: next(times))
    checked = often._checked
    monkeypatch.setattr(often, "_checked", lambda *given: found.append(given[0]) or checked(*given))
    return found


@pytest.mark.parametrize("kind", ["grad", "hessian"])
def test_a_stack_of_calls_is_read_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is left to JAX, which would run it operation by operation; values that it looks at are told apart."""

    def left(w: Any, x: Any) -> Any:
        for _ in range(2):
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    def looking(w: Any, k: Any) -> Any:
        return jnp.sum(w[k] ** 3) if k[0] else jnp.sum(jnp.sin(w))

    w, x = jnp.arange(12.0).reshape(3, 2, 2) / 10, jnp.ones((3, 2))
    calls = [(left, x), (left, 2 * x), (looking, np.array([1, 1])), (looking, np.array([0, 1]))]
    ours = {f: jax.vmap(getattr(ej, kind)(f), (0, None)) for f in (left, looking)}
    expected = [jax.vmap(getattr(jax, kind)(f), (0, None))(w, y) for f, y in calls]
    for (f, y), result in zip(calls * 2, expected * 2, strict=True):
        assert_like_jax(ours[f](w, y), result, 1e-12)
    assert_like_jax(jax.jit(ours[left])(w, x), expected[0], 1e-12)
    monkeypatch.setattr(JaxLibrary, "trace", None)
    assert_like_jax(ours[left](w, 2 * x), expected[1], 1e-12)


def test_programs_with_many_calls_from_python_are_compiled_soon(
    monkeypatch: pytest.MonkeyPatch, compiled: list[Any]
) -> None:
    """Functions of matrices are long ones. Others are when they are called often; blocks that depend on nothing are no
    calls."""
    monkeypatch.setattr(traced_function, "OFTEN", 50)
    arrays = {f"x{k}": jnp.arange(1.0, 4.0) + k for k in range(12)}
    brief = ej.hessian(lambda p: jnp.sum(jnp.exp(p["x0"])) + jnp.sum(jnp.concatenate(list(p.values()))))
    lengthy = ej.grad(lambda p: sum(jnp.sum(jnp.exp(k * x) * x) for k, x in enumerate(p.values())))
    whole = ej.grad(lambda A: jnp.sum(jnp.tanh(jnp.linalg.inv(A))))
    for called, given, programs in ((brief, arrays, 0), (lengthy, arrays, 1), (whole, jnp.eye(3) + 0.1, 2)):
        for _ in range(8):
            called(given)
        assert len(compiled) == programs


def test_blocks_that_depend_on_nothing_are_made_once() -> None:
    """Each is an array of its own; those that a compiled function has taken are made again."""

    def function(p: Any) -> Any:
        return jnp.sum(p["a"] ** 3) + jnp.sum(p["b"]) ** 2 + jnp.sum(p["c"])

    p = {"a": jnp.arange(3.0), "b": jnp.ones(2, "float32"), "c": jnp.ones(3)}
    called, expected = ej.hessian(function), jax.hessian(function)(p)
    first, again = called(p), called(p)
    assert_like_jax(first, expected, 1e-12)
    assert first["a"]["b"] is again["a"]["b"] and first["a"]["a"] is not again["a"]["a"]
    arrays = jax.tree_util.tree_leaves(first)
    assert len({id(x) for x in arrays}) == len(arrays)
    for x in arrays:
        x.delete()
    assert_like_jax(called(p), expected, 1e-12)
    assert_like_jax(jax.jit(called)(p), expected, 1e-12)
    all_constant = ej.grad(lambda p: jnp.sum(p["a"]) + 2 * jnp.sum(p["b"]))
    for _ in range(2):
        assert_like_jax(all_constant(p), {"a": jnp.ones(3), "b": 2 * jnp.ones(2, "float32"), "c": jnp.zeros(3)}, 1e-12)


def test_what_is_called_often_is_compiled(compiled: list[Any]) -> None:
    """The same numbers in the same structure, whatever changes around the function, and NumPy where JAX may not."""
    scale = np.ones(3)

    def function(p: Any, x: Any, power: int) -> Any:
        return jnp.sum(scale * (x * p["a"] + p["b"]) ** power), {"x": x * p["a"]}

    called, own = (one(function, has_aux=True) for one in (ej.hessian, jax.hessian))
    p, x = {"a": jnp.array([1.0, -0.5, 2.0]), "b": 0.5}, np.array([0.3, 2.0, -1.0])
    for power, factor in ((3, 1.0), (3, 2.0), (4, 2.0)):
        scale[:] = factor
        for k in range(7):
            assert_like_jax(called(p, x + k, power), own(p, x + k, power), 1e-12)
    assert len(compiled) == 3
    expected = own(p, x, 4)
    with jax.disable_jit():
        assert_like_jax(called(p, x, 4), expected, 1e-12)
    assert called.traces == 3


def test_what_looks_at_values_is_compiled_for_each(compiled: list[Any]) -> None:
    """Indices are part of what a call is known by; those of one argument are not taken for those of another."""

    def function(w: Any, i: Any, j: Any) -> Any:
        return jnp.sum(w[i] ** 3) * jnp.sum(jnp.sin(w[j]))

    called, own = ej.hessian(function), jax.hessian(function)
    w, few, others = jnp.array([1.0, -0.5, 2.0, 0.3]), np.array([1, 1, 3]), np.array([0, 2, 2])
    for i, j in ((few, others), (few, few), (others, few), (others, others)) * 2:
        for k in range(5):
            assert_like_jax(called(w + k, i, j), own(w + k, i, j), 1e-12)
    assert len(compiled) == called.traces == 4


def test_directions_of_other_types(compiled: list[Any]) -> None:
    def function(x: Any) -> Any:
        return jnp.sum(jnp.sin(x) ** 3)

    called, x = ej.hvp(function), jnp.arange(1.0, 4.0)
    expected = jax.hessian(function)(x) @ x
    for v in (*[x] * 6, np.arange(1, 4), np.arange(1, 4, dtype="float32"), x):
        oracles.assert_close(called(x, tangents=v), expected, 1e-12)
    assert len(compiled) > 1
    with pytest.raises(EindiffError, match="shape"):
        called(x, tangents=x[:2])


SINGULAR: dict[str, Any] = {
    "inverse": lambda A: jnp.sum(jnp.linalg.inv(A)),
    "solution": lambda A: jnp.sum(jnp.linalg.solve(A, jnp.ones(2)) ** 2),
    "inverse that nothing is left of": lambda A: jnp.sum(jnp.tanh(jnp.linalg.inv(A + jnp.diag(A[0])))),
    "inverse that is not chosen": lambda A: jnp.sum(jnp.where(A > 9, jnp.linalg.inv(jax.lax.stop_gradient(A)), 1) * A),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_matrices_are_found_however_often_it_is_called(name: str, compiled: list[Any]) -> None:
    called, own = ej.grad(SINGULAR[name]), jax.grad(SINGULAR[name])
    A = jnp.array([[2.0, 0.3], [-0.2, 1.5]])
    for k in range(7):
        oracles.assert_close(called(A + k), own(A + k), 1e-9)
    assert compiled
    for _ in range(4):
        with pytest.raises(EindiffError, match="cannot be"):
            called(jnp.zeros((2, 2)))
    oracles.assert_close(called(A), own(A), 1e-9)


def test_what_is_not_finite_is_the_same_however_often_it_is_called(compiled: list[Any]) -> None:
    """Where JAX's own derivative is compiled, it has none at some points at which a closed form has one."""

    def function(x: Any) -> Any:
        for _ in range(8):
            x = jnp.sqrt(jnp.square(x)) + jnp.tanh(x @ jnp.ones((3, 3)))
        return jnp.sum(x)

    called = ej.grad(function)
    points = [jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 2.0, 3.0])]
    first = [np.asarray(called(x)) for x in points]
    for _ in range(8):
        called(points[0])
    assert compiled and np.isfinite(first).all()
    for x, expected in zip(points, first, strict=True):
        np.testing.assert_allclose(called(x), expected, rtol=1e-9)


def test_a_program_is_compiled_when_calls_have_taken_as_long(
    monkeypatch: pytest.MonkeyPatch, compiled: list[Any]
) -> None:
    """And the quicker one of both stays."""
    now, turn = [0.0], [1.0]

    def clock() -> float:
        now[0] += turn[0]
        return now[0]

    monkeypatch.setattr(often, "perf_counter", clock)
    monkeypatch.setattr(often, "compiling", lambda _: 5.5 + often.UNNOTICED)
    x = jnp.arange(1.0, 4.0)
    for seconds, stays in ((0.5, True), (2.0, False)):
        called, turn[0] = ej.grad(lambda x, c=seconds: jnp.sum(jnp.exp(c * x))), 1.0
        for _ in range(3 + 5):
            called(x)
        [(found, _)] = called._around.calls.values()
        assert not compiled
        called(x)
        turn[0] = seconds
        for _ in range(3):
            np.testing.assert_allclose(called(x), seconds * np.exp(seconds * x))
        assert len(compiled) == 1
        assert (found[2]._run == found[2]._compiled) is stays
        compiled.clear()


def test_many_results_are_arrays_of_jax_at_every_call():
    weights = [jnp.asarray(np.random.default_rng(k).normal(size=(2, 2))) for k in range(5)]

    def net(weights):
        x = jnp.ones(2)
        for w in weights:
            x = jnp.tanh(w @ x)
        return x.sum()

    hessian, expected = ej.hessian(net), jax.tree_util.tree_leaves(jax.hessian(net)(weights))
    for _ in range(3):  # they are given to JAX together from the second one on
        found = jax.tree_util.tree_leaves(hessian(weights))
        assert all(isinstance(x, jax.Array) for x in found)
        assert all(np.allclose(x, y, atol=1e-12) for x, y in zip(found, expected, strict=True))
    with jax.disable_jit():
        assert all(isinstance(x, jax.Array) for x in jax.tree_util.tree_leaves(hessian(weights)))


def test_many_known_values_are_left_to_the_program_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MOST_BY_NUMPY", 8)
    weights = [jnp.cos, lambda k: jnp.where(jnp.sin(k) > 0, 1.0, 2.0)]  # the last bits of the second one decide
    for weight, is_left in zip(weights, (True, False), strict=True):

        def function(x: Any, weight: Callable = weight) -> Any:
            return jnp.sum(jnp.exp(x * weight(jnp.arange(6.0)).reshape(2, 3)))

        x = jnp.linspace(-1, 1, 6).reshape(2, 3)
        program = jax.make_jaxpr(ej.hessian(function))(x)
        assert (" cos " in str(program)) == is_left and " sin " not in str(program)
        [found] = jax.jit(jax.extend.core.jaxpr_as_fun(program))(x)
        np.testing.assert_allclose(found, jax.jit(jax.hessian(function))(x), rtol=1e-12)


def test_programs_that_take_longer_to_find_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in TABLE if case.name == "springs")
    monkeypatch.setattr(computation.Programs, "compiled", None)
    assert_like_jax(jax.jit(ej.hessian(case.function))(*case.args), jax.jit(jax.hessian(case.function))(*case.args))


def test_blocks_on_a_diagonal_are_no_scatters() -> None:
    names: dict[str, Any] = {"jnp": jnp, "lax": jax.lax, "np": np}
    exec(BACKEND.helpers["put"], names)

    def blocks(value: Any, size: int) -> Any:
        block, entry = np.arange(2)[:, None, None], np.arange(size)
        return names["put"]((2, size, 3, size), (block, entry[:, None], block + 1, entry), value, dtype=float)

    large = jax.make_jaxpr(lambda value: blocks(value, 600))(jax.ShapeDtypeStruct((600, 600), float))
    assert "scatter" not in str(large) and not large.consts
    expected = np.zeros((2, 5, 3, 5))
    expected[0, :, 1], expected[1, :, 2] = (np.arange(25.0).reshape(5, 5),) * 2
    np.testing.assert_array_equal(jax.jit(lambda value: blocks(value, 5))(np.arange(25.0).reshape(5, 5)), expected)
