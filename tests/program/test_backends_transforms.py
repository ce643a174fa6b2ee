"""Compiled functions inside the transformations of JAX, PyTorch and TensorFlow: derivatives, vmap, jit, traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
from backend_expressions import INDEXED, NUMBERS, M, n, x, y
from backend_libraries import cupy_or_stand_in  # noqa: F401
from compiling import assert_close, fresh, point_of
from eindiff.core.nodes import Expr
from eindiff.program.interpreter import evaluate
from oracles import jit


def _logistic() -> tuple[Expr, Expr, dict[str, np.ndarray]]:
    X, w, labels = ed.matrix("X", "m", "n"), ed.vector("w", "n"), ed.vector("labels", "m")
    f = ed.sum(ed.softplus(-labels * (X @ w))) + ed.sum(w**4)
    return f, w, point_of(f, {"m": 5, "n": 3})


def _cubes(name: str, array: Callable[[Any], Any]) -> tuple[Expr, str, dict[str, Any], np.ndarray]:
    """Cubes of an indexed expression, added up: the gradient, by which variable, a point, and the Hessian there."""
    output = ed.sum(INDEXED[name] ** 3)
    by = ed.variables(output)[0]
    arrays = point_of(output, {})
    given = {name: array(value) for name, value in arrays.items()}
    return ed.gradient(output, by), by.name, given, evaluate(ed.hessian(output, by), arrays)


# JAX


def test_jax_transforms_compiled_functions() -> None:
    f, w, arrays = _logistic()
    value, hessian = ed.compile(f), ed.compile(ed.hessian(f, w))
    expected = evaluate([ed.gradient(f, w), ed.hessian(f, w), ed.derivative(f, w, w, w)], arrays)
    given = {name: jnp.asarray(array) for name, array in arrays.items()}
    at = given.pop("w")
    found = [
        jit(jax.grad(lambda w: value(w=w, **given)))(at),
        jit(lambda w: hessian(w=w, **given))(at),
        jit(jax.jacfwd(lambda w: hessian(w=w, **given)))(at),
    ]
    assert_close([np.asarray(x) for x in found], expected)
    reverse = jit(jax.jacrev(lambda w: hessian(w=w, **given)))(at)
    assert_close(np.asarray(reverse), expected[2])
    many = jnp.stack([at, -at, 2 * at])
    mapped = jit(jax.vmap(lambda w: hessian(w=w, **given)))(many)
    assert_close([np.asarray(x) for x in mapped], [np.asarray(hessian(w=w, **given)) for w in many])


@pytest.mark.parametrize("name", ["taken", "a large table", "padded", "two maps that meet", "an entry of a matrix"])
def test_jax_transforms_index_maps(name: str) -> None:
    gradient, by, given, expected = _cubes(name, jnp.asarray)
    compiled = ed.compile(gradient)
    found = jit(jax.jacfwd(lambda at: compiled(**{**given, by: at})))(given[by])
    assert_close(np.asarray(found), expected)


def _calls(jaxpr: Any) -> list[str]:
    """The programs that a program calls, and those that they call, and its loops."""
    inside = [one for eqn in jaxpr.eqns for one in jex.jaxprs_in_params(eqn.params)]
    own = [eqn.primitive.name for eqn in jaxpr.eqns if list(jex.jaxprs_in_params(eqn.params))]
    return own + [name for one in inside for name in _calls(one)]


def test_jax_reads_programs_as_a_whole() -> None:
    """Plain ones have no parts that are compiled apart, short ones are none; loops of JAX's own stay loops."""
    short = ed.diag(ed.where(x > 0.5, ed.exp(x), 1 / (1 + x**2)))
    looped = ed.compile(ed.expm(ed.outer(x, x)), "jax")
    value = jnp.linspace(0.1, 1.0, 6)
    for plain, calls in ((short, 0), ([short ** (k + 2) for k in range(15)], 1)):
        compiled = ed.compile(plain, "jax")
        assert len(_calls(jax.make_jaxpr(lambda v, f=compiled: f(x=v))(value).jaxpr)) == calls
    assert {"while", "scan", "cond"} & set(_calls(jax.make_jaxpr(lambda v: looped(x=v))(value).jaxpr))


def test_jax_programs_stay_on_the_device() -> None:
    f = ed.logdet(M @ M.T + ed.eye(3)) + ed.sum(ed.eigvals(M) ** 3) + ed.sum(ed.take(y, [0, 0]) ** 2) + ed.prod(y)
    function = ed.compile([f, ed.gradient(f, M), ed.hessian(f, y)], backend="jax")
    text = str(jax.make_jaxpr(lambda arrays: function(**arrays))(point_of(f, {})))
    assert "eigh" in text and "callback" not in text


@pytest.mark.parametrize("output", ["a long array", "a large table"])
def test_jax_first_called_inside_a_trace(output: str) -> None:
    """What is made in a trace does not stay in the program."""
    function = fresh({**NUMBERS, **INDEXED}[output], backend="jax")
    at = jnp.arange(6.0)
    inside, outside = jax.jit(lambda x: function(x=x))(at), function(x=at)
    assert_close(np.asarray(outside), np.asarray(inside))


@pytest.fixture
def float32_only() -> Iterator[None]:
    with jax.enable_x64(False):
        yield


@pytest.mark.usefixtures("float32_only")
@pytest.mark.parametrize("name", ["taken", "a large table", "padded", "two maps that meet", "concatenated"])
def test_jax_without_float64(name: str) -> None:
    """Nothing asks for a type that is not there, which JAX would warn of."""
    output = INDEXED[name]
    outputs = [output, *(ed.hessian(ed.sum(output**2), v) for v in ed.variables(output)), ed.eye(3), ed.greater(x, 0)]
    arrays = point_of(outputs, {})
    function = fresh(outputs, backend="jax")
    for given in (arrays, {name: jnp.asarray(array) for name, array in arrays.items()}):
        results = function(**given)
        assert {result.dtype for result in results} == {np.dtype(np.float32)}
        assert_close([np.asarray(result) for result in results], evaluate(outputs, arrays), 1e-5)


# PyTorch


def test_torch_transforms_compiled_functions() -> None:
    f, w, arrays = _logistic()
    value, hessian = ed.compile(f), ed.compile(ed.hessian(f, w))
    gradient, expected, third = evaluate([ed.gradient(f, w), ed.hessian(f, w), ed.derivative(f, w, w, w)], arrays)
    given = {name: torch.asarray(array) for name, array in arrays.items()}
    at = given.pop("w")
    leaf = at.clone().requires_grad_()
    value(w=leaf, **given).backward()
    assert_close(leaf.grad.numpy(), gradient)
    assert_close(torch.func.grad(lambda w: value(w=w, **given))(at).numpy(), gradient)
    assert_close(torch.func.jacfwd(lambda w: hessian(w=w, **given))(at).numpy(), third)
    assert_close(torch.func.jacrev(lambda w: hessian(w=w, **given))(at).numpy(), third)
    many = torch.stack([at, -at, 2 * at])
    mapped = torch.func.vmap(lambda w: hessian(w=w, **given))(many)
    assert_close([x.numpy() for x in mapped], [hessian(w=w, **given).numpy() for w in many])
    assert_close(hessian(w=leaf, **given).detach().numpy(), expected)


@pytest.mark.parametrize("name", ["taken", "padded", "two maps that meet", "an entry of a matrix", "the middle axis"])
def test_torch_transforms_index_maps(name: str) -> None:
    gradient, by, given, expected = _cubes(name, torch.asarray)
    compiled = ed.compile(gradient)

    def at(point: torch.Tensor) -> torch.Tensor:
        return compiled(**{**given, by: point})

    assert_close(torch.func.jacfwd(at)(given[by]).numpy(), expected)
    assert_close(torch.autograd.functional.jacobian(at, given[by]).numpy(), expected)
    many = torch.stack([given[by]] * 2)
    assert_close([x.numpy() for x in torch.func.vmap(at)(many)], [at(given[by]).numpy()] * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile(backend: str) -> None:
    f, w, arrays = _logistic()
    hessian = ed.compile(ed.hessian(f, w))
    given = {name: torch.asarray(array) for name, array in arrays.items()}
    compiled = torch.compile(lambda **arrays: hessian(**arrays), backend=backend)
    assert_close(compiled(**given).numpy(), evaluate(ed.hessian(f, w), arrays))


# TensorFlow


def test_tensorflow_transforms_compiled_functions() -> None:
    tf = pytest.importorskip("tensorflow")
    f, w, arrays = _logistic()
    value, hessian = fresh(f), ed.compile(ed.hessian(f, w))
    expected = evaluate([f, ed.gradient(f, w), ed.hessian(f, w), ed.derivative(f, w, w, w)], arrays)
    given = {name: tf.constant(array) for name, array in arrays.items()}
    at = tf.Variable(given.pop("w"))

    @tf.function(autograph=False)
    def both(point: Any) -> Any:
        return value(w=point, **given), hessian(w=point, **given)

    for run_ in (both, both.python_function):  # the program is made in a trace, and runs outside too
        with tf.GradientTape(persistent=True) as tape:
            results = run_(at)
        found = [results[0], tape.gradient(results[0], at), results[1], tape.jacobian(results[1], at)]
        assert_close([x.numpy() for x in found], expected)


@pytest.mark.parametrize("name", ["taken", "a large table", "padded", "two maps that meet", "an entry of a matrix"])
def test_tensorflow_transforms_index_maps(name: str) -> None:
    tf = pytest.importorskip("tensorflow")
    gradient, by, given, expected = _cubes(name, tf.constant)
    compiled = fresh(gradient, backend="tensorflow")

    @tf.function(autograph=False)
    def at(point: Any) -> Any:
        return compiled(**{**given, by: point})

    for run_ in (at, at.python_function):
        with tf.GradientTape() as tape:
            tape.watch(given[by])
            result = run_(given[by])
        found = tape.jacobian(result, given[by])
        assert_close(found.numpy(), expected)


def test_tensorflow_converts_what_it_likes() -> None:
    """AutoGraph, which reads the source of what a function calls, finds nothing to change."""
    tf = pytest.importorskip("tensorflow")
    compiled, at = ed.compile(ed.sum(n * n)), tf.constant([1.0, 2.0])
    assert float(compiled(n=at)) == float(tf.function(lambda point: compiled(n=point))(at)) == 5


def test_tensorflow_needs_to_know_shapes() -> None:
    tf = pytest.importorskip("tensorflow")
    compiled = ed.compile(ed.sum(n * n))
    function = tf.function(lambda point: compiled(n=point), input_signature=[tf.TensorSpec([None])], autograph=False)
    with pytest.raises(ed.EindiffError, match="n has a shape that is not known"):
        function.get_concrete_function()
