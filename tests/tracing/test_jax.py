"""The JAX front end: derivatives of functions written for JAX, against those of JAX itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree

import eindiff as ed
import eindiff.jax as ej
import oracles
from eindiff.functions import opaque
from eindiff.tracing.jax import opaque as jax_opaque
from eindiff.tracing.jax import tables as jax_tables
from eindiff.tracing.jax.function import trace
from eindiff.tracing.jax.library import JAX as LIBRARY
from jax_functions import CASES, Case, X, clipped_slope, normal, w4, x5
from jax_models import labels


# Compiled as one program each: operation by operation, JAX would compile every one of them.
def _compiled(transform: Callable) -> Callable:
    return lambda f, *more, **options: oracles.jit(transform(f, *more, **options))


NAMES = ("grad", "value_and_grad", "jacfwd", "jacrev", "hessian")
JAX = SimpleNamespace(**{name: _compiled(getattr(jax, name)) for name in NAMES})


def leaves(tree: Any) -> list:
    return jax.tree_util.tree_leaves(tree)


def structure(tree: Any) -> Any:
    return jax.tree_util.tree_structure(tree)


def assert_like_jax(actual: Any, expected: Any, rtol: float = 1e-9) -> None:
    """The same tree, shapes and types, and values up to `rtol` of the largest one."""
    assert structure(actual) == structure(expected)
    scale = max([float(np.abs(y).max(initial=0)) for y in leaves(expected)], default=0.0)
    for x, y in zip(leaves(actual), leaves(expected), strict=True):
        assert isinstance(x, jax.Array)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        oracles.assert_close(x, y, rtol, floor=scale)


def reference(transform: Callable, case: Case) -> Any:
    """What JAX gives, compiled as one program of the arguments that derivatives are by."""
    chosen = [case.argnums] if isinstance(case.argnums, int) else case.argnums
    numbers = [k % len(case.args) for k in chosen]

    def at(*free: Any) -> Any:
        args = list(case.args)
        for k, x in zip(numbers, free, strict=True):
            args[k] = x
        return transform(case.function, case.argnums, case.has_aux)(*args)

    return oracles.jit(at)(*(case.args[k] for k in numbers))


def order(case: Case) -> int:
    value = jax.eval_shape(lambda: case.function(*case.args))
    found = leaves(value[0] if case.has_aux else value)
    return case.order or (2 if len(found) == 1 and not found[0].shape else 1)


def test_table_is_large_and_closed() -> None:
    """Most functions have no part that is left to JAX; `test_table` checks that these are the ones."""
    assert len({case.name for case in CASES}) == len(CASES) >= 120
    closed = [case for case in CASES if not case.opaque]
    print(f"{len(closed)} of {len(CASES)} functions have a closed form throughout")
    assert len(closed) >= 0.9 * len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_table(case: Case) -> None:
    first = (ej.jacfwd, jax.jacfwd) if case.forward else (ej.jacrev, jax.jacrev)
    ours, theirs = (ej.hessian, jax.hessian) if order(case) == 2 else first
    transformed = ours(case.function, case.argnums, case.has_aux)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actual = transformed(*case.args)
    named = [str(warning.message) for warning in caught if "no closed form" in str(warning.message)]
    assert len(named) == len(transformed.lower(*case.args).opaque)
    assert bool(named) == case.opaque, named
    assert all("/tests/helpers/jax_" in message for message in named), named
    assert_like_jax(actual, reference(theirs, case), case.tolerance)


INTERPRETED = ("erfc", "gammaln", "sort", "stop_gradient", "convolution, same", "slogdet, negative", "sinc")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in INTERPRETED], ids=lambda case: case.name)
def test_interpreter(case: Case) -> None:
    """`ed.evaluate` has the values of functions that JAX computes (and `conftest.py` compares it with programs)."""
    arguments = LIBRARY.read(ej.hessian(case.function, case.argnums), case.args, {})
    traced = trace(case.function, arguments, [0])
    arrays = {v.name: np.asarray(arguments.leaves[k]) for k, v in traced.inputs.items()} | traced.captured
    [y], x = traced.outputs, traced.inputs[0]
    hessian = ed.evaluate(traced.stops.put_in([ed.derivative(y, x, x)])[0], arrays)
    oracles.assert_close(hessian, reference(jax.hessian, case), 1e-9)


# What else there is


def logistic(w: Any, X: Any, y: Any) -> Any:
    return jnp.sum(jnp.logaddexp(0.0, -y * (X @ w)))


DATA = (w4, X, labels)


def test_gradients() -> None:
    assert_like_jax(ej.grad(logistic)(*DATA), JAX.grad(logistic)(*DATA))
    assert_like_jax(ej.grad(logistic, (0, 1))(*DATA), JAX.grad(logistic, (0, 1))(*DATA))
    assert_like_jax(ej.value_and_grad(logistic)(*DATA), JAX.value_and_grad(logistic)(*DATA))
    with_aux = lambda w: (jnp.sum(w**3), {"twice": 2 * w, "count": 3})  # noqa: E731
    for ours, theirs in ((ej.grad, JAX.grad), (ej.value_and_grad, JAX.value_and_grad)):
        assert_like_jax(ours(with_aux, has_aux=True)(w4), jax.tree.map(jnp.asarray, theirs(with_aux, has_aux=True)(w4)))


def test_value_gradient_hessian() -> None:
    value, gradient, hessian = ej.value_grad_hessian(logistic)(*DATA)
    assert_like_jax(value, logistic(*DATA))
    assert_like_jax(gradient, JAX.grad(logistic)(*DATA))
    assert_like_jax(hessian, JAX.hessian(logistic)(*DATA))
    (value, aux), _, _ = ej.value_grad_hessian(lambda w: (jnp.sum(w**2), "text"), has_aux=True)(w4)
    assert aux == "text"


def test_products_and_diagonals() -> None:
    tree = {"a": x5, "b": w4}

    def f(p: Any) -> Any:
        return jnp.sum(jnp.outer(jnp.sin(p["a"]), p["b"] ** 2)) + jnp.prod(p["b"])

    direction = jax.tree.map(jnp.cos, tree)
    assert_like_jax(
        ej.hvp(f)(tree, tangents=direction), oracles.jit(lambda: jax.jvp(jax.grad(f), (tree,), (direction,))[1])()
    )
    hessian = JAX.hessian(f)(tree)
    assert_like_jax(ej.hessian_diagonal(f)(tree), {k: jnp.diag(hessian[k][k]) for k in tree})
    with pytest.raises(ed.EindiffError, match="structure"):
        ej.hvp(f)(tree, tangents=x5)
    with pytest.raises(ed.EindiffError, match="tangent of a has shape"):
        ej.hvp(f)(tree, tangents={"a": w4, "b": w4})


def test_structured() -> None:
    U, V, T = normal(60, 3), normal(4, 3), normal(60, 4)
    hessian = ej.hessian(lambda U: jnp.sum((T - U @ V.T) ** 2), structured=True)(U)
    assert isinstance(hessian, ed.Derivative)
    assert hessian.nbytes < 1000
    oracles.assert_close(hessian.core, 2 * V.T @ V, 1e-12)
    blocks = ej.hessian(lambda p: jnp.sum((T[:5] - p[0] @ p[1].T) ** 2), structured=True)((U[:5], V))
    assert len(blocks.blocks) == 2
    jacobian = ej.jacfwd(jnp.sin, structured=True)(x5)
    oracles.assert_close(jacobian.as_matrix(), np.diag(np.cos(x5)), 1e-12)


def test_newton_step() -> None:
    tree = {"w": w4, "b": 0.1}

    def f(p: Any) -> Any:
        return jnp.sum(jnp.logaddexp(0.0, -labels * (X @ p["w"] + p["b"]))) + jnp.sum(p["w"] ** 2) + p["b"] ** 2

    found = ej.newton_step(f)(tree)
    assert structure(found.step) == structure(tree)
    flat, back = ravel_pytree(tree)
    hessian = JAX.hessian(lambda x: f(back(x)))(flat)
    expected = -jnp.linalg.solve(hessian, ravel_pytree(JAX.grad(f)(tree))[0])
    oracles.assert_close(ravel_pytree(found.step)[0], expected, 1e-9)
    assert found.decrease > 0
    with pytest.raises(ed.EindiffError, match="damping"):
        ej.newton_step(lambda x: -jnp.sum(x**2))(w4)


def test_lower() -> None:
    lowered = ej.lower(logistic)(*DATA)
    assert isinstance(lowered.expression, ed.Expr)
    assert lowered.formula == "X'*diag(y.^2 .* sigmoid(-y .* (X*w)) .* sigmoid(y .* (X*w)))*X"
    assert "def f(X, w, y" in lowered.source
    assert lowered.plan.flops > 0
    assert not lowered.opaque
    assert ed.evaluate(lowered.function, {"w": w4, "X": X, "y": labels}).shape == ()
    data = normal(7, 4)  # closed over, it keeps its name
    assert ej.lower(lambda w: jnp.sum(jnp.exp(data @ w)))(w4).formula == "data'*diag(exp(data*w))*data"


def test_check() -> None:
    found = ej.check(logistic, *DATA)
    assert found and found.error < 1e-12
    assert str(found).endswith("passed")
    with pytest.warns(UserWarning, match=r"sort at .*test_jax.py:\d+ has no closed form"):
        found = ej.check(lambda x: jnp.sum(jnp.sort(x) ** 3), x5)
    assert "sort" in str(found)


# Caching


def test_traces_are_counted() -> None:
    f = ej.hessian(lambda x, i, n, s: n * jnp.sum(s * x[i] ** 3))
    arguments = (x5, jnp.array([0, 1]), 2, 0.5)
    f(*arguments)
    f(*arguments)
    f(x5 + 1, jnp.array([0, 1]), 2, 0.75)  # other values of what is an input
    assert f.traces == 1
    for changed in ((w4, *arguments[1:]), (x5, jnp.array([0, 2]), 2, 0.5), (x5, jnp.array([0, 1]), 3, 0.5)):
        expected = JAX.hessian(lambda x, i, n, s: n * jnp.sum(s * x[i] ** 3))(*changed)
        assert_like_jax(f(*changed), expected)
    assert f.traces == f.cache_info()["traces"] == 4


def test_functions_made_anew_are_known_again() -> None:
    def loss(w: Any, scale: float) -> Any:
        return jnp.sum(jnp.sin(scale * w))

    made = [ej.hessian(lambda w: loss(w, 2.0)) for _ in range(3)]
    for f in made:
        f(w4)
    assert [f.traces for f in made] == [1, 0, 0]


def test_rebound_closures_are_seen() -> None:
    scale = 2.0

    def f(w: Any) -> Any:
        return jnp.sum(scale * w**2)

    transformed = ej.hessian(f)
    oracles.assert_close(transformed(w4), 4 * np.eye(4), 1e-12)
    scale = 3.0
    oracles.assert_close(transformed(w4), 6 * np.eye(4), 1e-12)


class Model:
    """A function that depends on what its object has."""

    def __init__(self) -> None:
        self.scale, self.settings, self.data = jnp.ones(20), {"power": 2}, np.ones(20)

    def loss(self, w: Any) -> Any:
        return jnp.sum(self.scale) * jnp.sum(self.data) * jnp.sum(w ** self.settings["power"])


def test_changed_objects_are_seen() -> None:
    model = Model()
    hessian = ej.hessian(model.loss)
    changes: list[Callable] = [
        lambda: None,
        lambda: setattr(model, "scale", 2 * model.scale),
        lambda: model.settings.update(power=3),
        lambda: model.data.__imul__(2.0),
    ]
    for change in changes:
        change()
        assert_like_jax(hessian(w4), JAX.hessian(model.loss)(w4))
    assert hessian.traces == 4


# Inside of JAX's own transformations


def test_jit_vmap_grad() -> None:
    hessian, expected = ej.hessian(logistic), jax.hessian(logistic)
    assert_like_jax(jax.jit(hessian)(*DATA), oracles.jit(expected)(*DATA))
    points = jnp.stack([w4, 2 * w4])
    assert_like_jax(
        jax.vmap(hessian, (0, None, None))(points, *DATA[1:]),
        oracles.jit(jax.vmap(expected, (0, None, None)))(points, *DATA[1:]),
    )
    third = JAX.jacfwd(hessian)(*DATA)
    assert_like_jax(third, JAX.jacfwd(expected)(*DATA))


def test_jit_with_functions_of_jax() -> None:
    def f(x: Any, s: Any) -> Any:
        return jnp.sum(jax.scipy.special.erfc(x) * jax.scipy.special.gammaln(x + 2) * jnp.cumprod(s * x))

    def inside(x: Any, s: Any) -> Any:
        return ej.hessian(lambda x: f(x, s))(x)  # closes over a value that is being traced

    with pytest.warns(UserWarning, match="cumprod"):
        assert_like_jax(jax.jit(inside)(x5, 2.0), JAX.hessian(f)(x5, 2.0))


def test_single_precision() -> None:
    single = [jnp.asarray(x, jnp.float32) for x in DATA]
    hessian = ej.hessian(logistic)(*single)
    assert hessian.dtype == jnp.float32
    oracles.assert_close(hessian, JAX.hessian(logistic)(*DATA), 1e-5)
    half = ej.hessian(lambda x: jnp.sum(x**3))(jnp.asarray(x5, jnp.bfloat16))
    assert half.dtype == jnp.bfloat16


# What is refused


def printing(x: Any) -> Any:
    jax.debug.print("{}", x[0])
    return jnp.sum(x**2)


def noisy(x: Any, key: Any) -> Any:
    return jnp.sum((x + jax.random.normal(key, (5,))) ** 2)


REFUSED = {
    "side effects": (printing, (x5,), r"debug_print.* at .*test_jax.py:\d+.*side effects"),
    "callbacks": (lambda x: jnp.sum(jax.pure_callback(np.sin, x, x)), (x5,), r"pure_callback.*calls Python"),
    "random key": (noisy, (x5, jax.random.PRNGKey(0)), "draws random numbers from a key that is an argument"),
    "typed random key": (noisy, (x5, jax.random.key(0)), "draws random numbers from a key that is an argument"),
    "branch": (lambda x: x**2 if x > 0 else -x, (1.5,), "asks for a value that is not known"),
    "mask": (lambda x: jnp.sum(x[x > 0]), (x5,), "asks for a value that is not known"),
    "integers out": (lambda x: jnp.argmax(x), (x5,), "gives values of type int"),
    "integers in": (lambda x: jnp.sum(x), (jnp.arange(3),), "by real numbers; x has type int"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, args, message = REFUSED[name]
    for _ in range(2):  # it is remembered
        with pytest.raises(ed.EindiffError, match=message):
            ej.hessian(function)(*args)


def test_fallback() -> None:
    function, args, _ = REFUSED["branch"]
    assert_like_jax(ej.hessian(function, fallback=True)(*args), jax.hessian(function)(*args))
    function, args, _ = REFUSED["random key"]
    assert_like_jax(ej.grad(function, fallback=True)(*args), JAX.grad(function)(*args))


def test_errors() -> None:
    with pytest.raises(ed.EindiffError, match="gives one number"):
        ej.grad(lambda x: x**2)(x5)
    with pytest.raises(ed.EindiffError, match="argnums=2"):
        ej.hessian(jnp.sum, 2)(x5)
    with pytest.raises(ed.EindiffError, match="holomorphic"):
        ej.hessian(jnp.sum, holomorphic=True)
    with pytest.raises(ed.EindiffError, match="expected a function"):
        ej.hessian(x5)
    with pytest.raises(ed.EindiffError, match=r"the value of i is needed.*jax.jit"):
        jax.jit(ej.hessian(lambda x, i: jnp.sum(x[: int(i)] ** 3)))(x5, jnp.array(2))
    with pytest.raises(ZeroDivisionError):  # the function's own errors are its own
        ej.hessian(lambda x: 1 / 0)(x5)


# Conventions at kinks are those of JAX


@pytest.mark.parametrize("name", ["relu", "relu6", "leaky_relu", "hard_tanh", "elu"])
def test_activations_at_kinks(name: str) -> None:
    f = getattr(jax.nn, name)
    points = jnp.array([-1.0, 0.0, 1.0, 6.0])
    assert_like_jax(ej.jacrev(f)(points), JAX.jacrev(f)(points))


@pytest.mark.parametrize("f", [lambda x: jnp.maximum(x, 1.0), lambda x: lax.clamp(-1.0, x, 1.0), jnp.max])
def test_functions_at_kinks(f: Callable) -> None:
    points = jnp.array([-1.0, 0.0, 1.0, 1.0])
    assert_like_jax(ej.jacrev(f)(points), JAX.jacrev(f)(points))


def test_masked_attention_has_no_nan() -> None:
    """Entries that are masked with -inf count for nothing, in the function and in its derivatives."""
    mask = jnp.tril(jnp.ones((3, 3), bool))
    f = lambda s: jnp.sum(jax.nn.softmax(jnp.where(mask, s, -jnp.inf)) ** 2)  # noqa: E731
    scores = normal(3, 3)
    assert_like_jax(ej.hessian(f)(scores), JAX.hessian(f)(scores))


def test_custom_derivatives_are_those_that_are_given() -> None:
    with pytest.warns(UserWarning, match="clipped_slope"):
        assert_like_jax(ej.jacfwd(clipped_slope)(x5), jnp.diag(2 * x5))


# JAX's documentation: the autodiff cookbook, with the import changed


def sigmoid(x: Any) -> Any:
    return 0.5 * (jnp.tanh(x / 2) + 1)


def predict(W: Any, b: Any, inputs: Any) -> Any:
    return sigmoid(jnp.dot(inputs, W) + b)


INPUTS = jnp.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
TARGETS = jnp.array([True, True, False, True])


def loss(W: Any, b: Any) -> Any:
    preds = predict(W, b, INPUTS)
    return -jnp.sum(jnp.log(preds * TARGETS + (1 - preds) * (1 - TARGETS)))


W, b = normal(3), 0.3


def test_cookbook_gradients() -> None:
    assert_like_jax(ej.grad(jnp.tanh)(2.0), JAX.grad(jnp.tanh)(2.0))
    assert_like_jax(ej.grad(loss, argnums=0)(W, b), JAX.grad(loss, argnums=0)(W, b))
    assert_like_jax(ej.grad(loss, 1)(W, b), JAX.grad(loss, 1)(W, b))
    assert_like_jax(ej.grad(loss, (0, 1))(W, b), JAX.grad(loss, (0, 1))(W, b))
    assert_like_jax(ej.value_and_grad(loss, (0, 1))(W, b), JAX.value_and_grad(loss, (0, 1))(W, b))

    def loss2(params_dict: Any) -> Any:
        return loss(params_dict["W"], params_dict["b"])

    assert_like_jax(ej.grad(loss2)({"W": W, "b": b}), JAX.grad(loss2)({"W": W, "b": b}))


def test_cookbook_jacobians_and_hessians() -> None:
    f = lambda W: predict(W, b, INPUTS)  # noqa: E731
    assert_like_jax(ej.jacfwd(f)(W), JAX.jacfwd(f)(W))
    assert_like_jax(ej.jacrev(f)(W), JAX.jacrev(f)(W))

    def predict_dict(params: Any, inputs: Any) -> Any:
        return predict(params["W"], params["b"], inputs)

    for ours, theirs in ((ej.jacfwd, JAX.jacfwd), (ej.jacrev, JAX.jacrev)):
        assert_like_jax(ours(predict_dict)({"W": W, "b": b}, INPUTS), theirs(predict_dict)({"W": W, "b": b}, INPUTS))
    assert_like_jax(ej.jacfwd(jax.jacrev(f))(W), JAX.hessian(f)(W))
    assert_like_jax(ej.hessian(f)(W), JAX.hessian(f)(W))


def test_cookbook_compositions() -> None:
    """Transformations of either kind inside of the other."""
    f = lambda x: jnp.sum(jnp.tanh(x) ** 2)  # noqa: E731
    expected = JAX.jacfwd(jax.hessian(f))(x5)
    assert_like_jax(ej.jacfwd(ej.hessian(f))(x5), expected)
    assert_like_jax(ej.jacfwd(jax.hessian(f))(x5), expected)


# The tables


def test_every_primitive_is_in_a_program_of_the_table() -> None:
    """A primitive with a constructor that no function here has would not be tested."""
    found: set[str] = set()
    for case in CASES:
        moving = [k for k, x in enumerate(case.args) if not isinstance(x, str | bool | int) and not callable(x)]

        def at(*given: Any, case: Case = case, moving: Any = moving) -> Any:
            args = list(case.args)
            for k, x in zip(moving, given, strict=True):
                args[k] = x
            return case.function(*args)

        found |= (
            _primitives(jax.make_jaxpr(at)(*(case.args[k] for k in moving)).jaxpr) if _is_traceable(case) else set()
        )
    unused = set(jax_tables.TABLES.primitives) - found - OTHER_VERSIONS
    assert not unused, sorted(unused)


# Names that other versions of JAX have, and what only appears in derivatives that JAX made.
OTHER_VERSIONS = {
    "add_any", "copy_p", "pvary", "device_put", "expand_dims", "scatter_add", "scatter_mul", "reduce_precision",
    "polygamma", "xor",
}  # fmt: skip


def _is_traceable(case: Case) -> bool:
    return case.name not in ("index argument", "dynamic_slice", "multinomial regression")


def _primitives(jaxpr: Any) -> set[str]:
    found = set()
    for eqn in jaxpr.eqns:
        found.add(eqn.primitive.name)
        for inner in jax.extend.core.jaxprs_in_params(eqn.params):
            found |= _primitives(inner)
    return found


def test_registry_forgets() -> None:
    """Opaque functions go when nothing needs them."""
    before = len(opaque.REGISTRY)
    signature = jax_opaque.Signature(((3,),), (np.dtype(float),), (3,), np.dtype(float))
    function = jax_opaque.opaque("kept", jnp.sin, signature)
    assert function.name in opaque.REGISTRY
    del function
    assert len(opaque.REGISTRY) <= before + 1
