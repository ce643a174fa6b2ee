"""Nothing depends on what was derived, declared or compiled before, in this thread or another, and nothing stays."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import nodes, remembered
from eindiff.core.derivation import derivation, origins
from eindiff.core.einsums import Network
from eindiff.core.recent import Recent, Same
from eindiff.core.remembered import remembering
from eindiff.facts.bounds import facts
from eindiff.functions.matrices import logabsdet
from thread_programs import THREADS, in_threads

T, M = ed.tensor("T", (2, 2, 2)), ed.matrix("M", 2, 2)
x, X, w = ed.vector("x", 2), ed.matrix("X", "m", "n"), ed.vector("w", "n")

# One expression, the derivative of several functions.
ALIKE: dict[str, Callable[[], Any]] = {
    "Jacobian 4×2": lambda: ed.derivative(ed.einsum("ijk,k->ij", T, x), x),
    "Jacobian 2×4": lambda: ed.derivative(ed.einsum("ijk,jk->i", T, M), M),
    "Gradient 2×2×2": lambda: ed.gradient(ed.sum(T * ed.tensor("U", (2, 2, 2))), "U"),
}


@pytest.mark.parametrize("order", list(itertools.permutations(ALIKE)))
def test_a_derivative_is_what_it_was_asked_for(order: tuple[str, ...]) -> None:
    """The same tensor is a Jacobian of other shapes for another function, whichever was derived first."""
    made = {name: ALIKE[name]() for name in order}
    arrays = {"T": np.arange(8.0).reshape(2, 2, 2)}
    for name, expr in made.items():
        assert expr == T
        assert str(ed.structured(expr, arrays)).startswith(name)
        assert expr.ndim == derivation(expr).function.ndim + sum(v.ndim for v in derivation(expr).by)
        assert ed.compile(expr).plan({}).modes().keys() == {"forward", "reverse", "cross_country"}
    assert str(ed.structured(T, arrays)).startswith("Tensor")


def test_derivatives_of_the_same_are_one_object_and_equal_to_the_node() -> None:
    f = ed.sum(ed.exp(X @ w))
    assert ed.gradient(f, w) is ed.gradient(f, w)
    assert ed.gradient(f, w) == X.T @ ed.exp(X @ w)
    assert len({ed.gradient(f, w), X.T @ ed.exp(X @ w)}) == 1
    assert ed.derivative(X @ w, w) == X
    assert ed.derivative(X @ w, w) is not X
    assert X.derivation is None


def test_no_node_is_made_of_derivatives() -> None:
    """Expressions of derivatives are those of their nodes, so they are the same objects."""
    jacobian = ed.derivative(X @ w, w)
    for build in (
        lambda a: a @ w, lambda a: a + 1, lambda a: ed.exp(a), lambda a: 2 * a, lambda a: a.T, lambda a: a[0],
        lambda a: ed.svdvals(a), lambda a: ed.sum(a), lambda a: ed.concatenate([a, a]), lambda a: a * a,
    ):  # fmt: skip
        assert build(jacobian) is build(X)
        assert all(node.derivation is None for node in nodes.topological([build(jacobian)]))


def test_hessians_know_that_they_are_symmetric_whoever_derived_before() -> None:
    """M is the Hessian of x'Mx/2 only if it is symmetric, and a Jacobian otherwise."""
    U = ed.matrix("U", 2, 2)
    ed.hessian(x @ M @ x, x)
    ed.derivative(M @ x, x)
    assert not facts(M).symmetric
    assert not facts(ed.derivative(M @ x, x)).symmetric
    assert facts(ed.hessian(ed.sum(ed.sin(x @ U @ x)), x)).symmetric


def test_sizes_of_variables_that_drop_out_come_from_the_derivative_itself() -> None:
    V, target = ed.matrix("V", "n", "k"), ed.matrix("target", "m", "n")
    U = ed.matrix("U", "m", "k")
    hessian = ed.hessian(ed.norm2(target - U @ V.T) ** 2, U)
    arrays = {"U": np.ones((5, 2)), "V": np.eye(3, 2)}
    assert ed.evaluate(hessian, arrays).shape == ed.compile(hessian)(**arrays).shape == (5, 2, 5, 2)
    assert {v.name for v in origins(hessian)} == {"U", "V", "target"}
    ed.matrix("W", "m", 7)  # declared elsewhere: no reason to read m from an array of that name
    with pytest.raises(ed.EindiffError, match="sizes="):
        ed.evaluate(hessian, {"V": np.eye(3, 2), "W": np.ones((5, 7))})
    with pytest.raises(ed.EindiffError, match="sizes="):
        ed.compile(ed.ones("m"))(U=np.ones((5, 2)))


def test_parsed_text_knows_the_variables_that_cancel() -> None:
    zero = ed.parse("v - v", "v(n)")
    assert zero == ed.zeros("n")
    assert ed.evaluate(zero, {"v": np.ones(3)}).shape == (3,)
    assert ed.parse("v + v", "v(n)") is 2 * ed.vector("v", "n")


# Memory


def alive() -> int:
    gc.collect()
    return len(nodes._interned)


@pytest.mark.parametrize("what", ["gradients", "hessians", "parses", "facts"])
def test_expressions_are_freed(what: str) -> None:
    """A gradient that is part of its own function is freed with it."""

    def make(k: int) -> None:
        f = ed.sum(ed.exp((k + 0.3) * w))
        match what:
            case "gradients":
                ed.gradient(f, w)
            case "hessians":
                ed.hessian(f, w)
            case "facts":
                facts(ed.hessian(f, w))
            case "parses":
                ed.parse(f"sum(exp({k}.3*x{k})) - y + y")

    def kept(start: int) -> int:
        """Bytes that stay after 60 more."""
        tracemalloc.start()
        for k in range(start, start + 60):
            make(k)
        gc.collect()
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return memory

    make(0)
    before = alive()
    assert min(kept(1), kept(61)) < 500_000  # the table of all nodes may grow in one of them, which takes as much once
    assert alive() - before <= 3


def closures() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Gradients of functions that close over a fresh array, and a weak reference to that array."""
    import jax.numpy as jnp
    import torch

    import eindiff.jax
    import eindiff.torch

    def of_jax(array: Any) -> tuple[Any, Any]:
        value = eindiff.jax.grad(lambda v: jnp.sum((array @ v) ** 2) + jnp.sum(array[:5] @ v))(jnp.ones(300))
        return weakref.ref(array), value

    def of_numpy() -> tuple[Any, Any]:
        array = np.random.rand(300, 300)
        return weakref.ref(array), ed.gradient(lambda v: np.sum((array @ v) ** 2))(np.ones(300))

    def of_torch() -> tuple[Any, Any]:
        array = torch.rand(300, 300)
        value = eindiff.torch.grad(lambda v: ((array @ v) ** 2).sum() + (array[:5] @ v).sum())(torch.ones(300))
        return weakref.ref(array), value

    return {
        "JAX": lambda: of_jax(jnp.asarray(np.random.rand(300, 300), np.float32)),
        "NumPy in JAX": lambda: of_jax(np.random.rand(300, 300).astype(np.float32)),
        "NumPy": of_numpy,
        "PyTorch": of_torch,
    }


@pytest.mark.parametrize("library", ["JAX", "NumPy in JAX", "NumPy", "PyTorch"])
def test_arrays_around_a_function_are_not_kept(library: str) -> None:
    """Nothing that is remembered of a function keeps the arrays alive that it sees."""
    run = closures()[library]
    references = [run()[0] for _ in range(3)]
    gc.collect()
    assert all(reference() is None for reference in references)


def test_a_function_that_is_made_anew_is_known_again_until_its_array_changes() -> None:
    import jax.numpy as jnp

    import eindiff.jax

    array = np.arange(1.0, 33.0, dtype=np.float32)
    calls = 0

    def gradient() -> Any:
        nonlocal calls
        made = eindiff.jax.grad(lambda v: jnp.sum(array * v))
        result = np.asarray(made(jnp.zeros(32)))
        calls += made.traces
        return result

    np.testing.assert_array_equal(gradient(), array)
    np.testing.assert_array_equal(gradient(), array)
    assert calls == 1
    array *= 3
    np.testing.assert_array_equal(gradient(), array)
    assert calls == 2


@pytest.mark.parametrize("size", [3, 100])
def test_numpy_functions_notice_that_an_array_around_them_changed(size: int) -> None:
    array = np.arange(1.0, size + 1)

    class Model:
        weights = np.ones(size)

    gradient = ed.gradient(lambda v: np.sum(array * Model.weights * v * v))
    point = np.ones(size)
    np.testing.assert_array_equal(gradient(point), 2 * array)
    np.testing.assert_array_equal(gradient(point), 2 * array)
    assert gradient.traces == 1
    array *= 10
    np.testing.assert_array_equal(gradient(point), 2 * array)
    Model.weights[0] = 3.0
    np.testing.assert_array_equal(gradient(point), 2 * array * Model.weights)
    assert gradient.traces == 3


def test_what_is_remembered_is_bounded_in_number_and_bytes_and_by_what_is_alive() -> None:
    recent: Recent[str] = Recent(count=3, size=100)
    for k in range(5):
        recent.keep(k, str(k), size=10)
    assert [recent.get(k) for k in range(5)] == [None, None, "2", "3", "4"]
    recent.keep("large", "large", size=1000)
    assert len(recent) == 1
    assert recent.get("large") == "large"
    array = np.ones(3)
    recent.keep((Same(array), 1), "array", alive=[array])
    assert recent.get((Same(array), 1)) == "array"
    del array
    assert recent.get("large") is None
    assert len(recent) == 0


def test_compiled_functions_do_not_keep_more_than_some_megabytes_of_literals() -> None:
    made = []
    for k in range(6):
        literal = np.random.default_rng(k).normal(size=(1000, 200))
        made.append(weakref.ref(ed.compile(ed.sum(w) * literal)))  # no program yet, as n is not known
    gc.collect()
    assert sum(reference() is not None for reference in made) <= 1


# Threads


def test_equal_expressions_are_one_object_in_all_threads() -> None:
    """1,000 derivatives in each thread: half of them the same in all, half its own."""
    shared: list[list[Any]] = [[None] * THREADS for _ in range(500)]

    def work(number: int) -> None:
        for k in range(500):
            shared[k][number] = ed.gradient(ed.sum(ed.exp((k + 0.1) * w)), w)
            own = number * 1000 + k + 0.7
            assert ed.gradient(ed.sum(w**own), w) == own * w ** (own - 1)

    in_threads(work)
    for k, found in enumerate(shared):
        assert len({id(expr) for expr in found}) == 1
        assert len({id(nodes.plain(expr)) for expr in found}) == 1
        assert nodes.plain(found[0]) is (k + 0.1) * ed.exp((k + 0.1) * w)


def test_threads_compile_the_same_and_different_functions() -> None:
    """Values are right, and equal requests give the same function, while others build theirs."""
    point = np.linspace(0.1, 1.0, 5)
    shared: list[set[int]] = [set() for _ in range(12)]
    kept = []

    def work(number: int) -> None:
        for k in range(12):
            for c in (k + 0.25, 100 * number + k + 0.5):
                function = ed.compile([ed.gradient(ed.sum(ed.exp(-c * w)), w), ed.hessian(ed.sum(ed.exp(-c * w)), w)])
                gradient, hessian = function(w=point)
                np.testing.assert_allclose(gradient, -c * np.exp(-c * point), rtol=1e-12)
                np.testing.assert_allclose(hessian, np.diag(c * c * np.exp(-c * point)), rtol=1e-12)
                kept.append(function)
                if c == k + 0.25:
                    shared[k].add(id(function))

    in_threads(work)
    assert all(len(found) == 1 for found in shared)


def test_one_compiled_function_in_many_threads() -> None:
    """All threads call it first at the same time, with sizes for which it has no program yet."""
    for attempt in range(3):
        f = ed.norm2(X @ w) ** (2 + attempt)
        function = ed.compile(ed.gradient(f, w))
        rng = np.random.default_rng(attempt)
        cases = [(rng.normal(size=(m, 2 * m)), rng.normal(size=2 * m)) for m in (1, 2, 3, 5, 9)]
        power = 2 + attempt
        wanted = [power * np.linalg.norm(A @ v) ** (power - 2) * A.T @ (A @ v) for A, v in cases]

        def work(_: int, function: Any = function, cases: Any = cases, wanted: Any = wanted) -> None:
            for (A, v), right in zip(cases, wanted, strict=True):
                np.testing.assert_allclose(function(X=A, w=v), right, rtol=1e-10)

        in_threads(work)


def test_matrix_functions_in_many_threads() -> None:
    """Functions that are made when they are first needed are made once, and programs find them."""
    B = ed.matrix("B", 2, 2)
    entries = np.array([[1.0, 0.2], [0.1, 0.8]])

    def work(number: int) -> None:
        for k in range(6):
            c = 1 + 0.1 * number + k
            found = ed.compile(ed.gradient(ed.tr(ed.expm(c * B)), B))(B=entries)
            values, vectors = np.linalg.eig(c * entries)
            np.testing.assert_allclose(found, c * (vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors)).T)
            found = ed.compile(ed.gradient(logabsdet(c * B), B))(B=entries)
            np.testing.assert_allclose(found, np.linalg.inv(entries).T)

    in_threads(work)


def test_what_is_forgotten_may_use_what_remembers_it() -> None:
    """A value may run anything when it is freed, for instance ask for another one."""

    class Asking:
        def __del__(self) -> None:
            recent.get("other")

    recent: Recent[Asking] = Recent(count=1)
    for key in ("first", "second"):
        recent.keep(key, Asking())
    recent.cache_clear()
    assert len(recent) == 0


def test_what_was_made_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deriving and planning ask constructors the same many times; nothing is kept afterwards."""
    made, build = [], Network.build
    monkeypatch.setattr(Network, "build", lambda network: made.append(network) or build(network))

    def work() -> list[Any]:
        made.clear()
        f = ed.sum(ed.tanh(X @ ed.tanh(w)) ** 2) + ed.sum(w)
        return [f * f + 2 * f, X.T @ (X @ w), ed.derivative(f, w, mode="reverse")]

    with remembering():
        first = work()
        assert made
        assert work() == first
        assert not made
    assert remembered.made() is None
    assert gc.isenabled()
    assert work() == first
    assert made
    with ed.rewrite_log(), remembering():
        assert remembered.made() is None  # every step is told
