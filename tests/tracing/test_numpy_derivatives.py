"""Plain NumPy functions as expressions, and their derivatives: whole programs, what is traced and when, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from cProfile import Profile
from pstats import Stats
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff as ed
import numpy_programs
from eindiff.core.errors import EindiffError
from eindiff.tracing.numpy import functions
from eindiff.tracing.numpy import library as numpy_library
from eindiff.tracing.numpy import protocol as numpy_protocol
from numpy_cases import EXACT, FLOOR, arrays_of
from numpy_programs import PROGRAMS
from oracles import assert_close, jit

# Whole functions


def with_jax(f: Callable) -> Callable:
    """The same function with `jax.numpy` in place of `numpy`."""
    return FunctionType(f.__code__, {**vars(numpy_programs), "np": jnp}, f.__name__, f.__defaults__, f.__closure__)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    f, args = PROGRAMS[name].function, PROGRAMS[name].arrays()
    gradient, hessian = ed.gradient(f), ed.hessian(f)
    other = with_jax(f)

    def derivatives(p: Any) -> Any:
        scalar = lambda q: jnp.sum(other(q, *args[1:]))  # noqa: E731
        return jax.grad(scalar)(p), jax.hessian(scalar)(p)

    exact = jit(derivatives)(args[0])
    found = gradient(*args), hessian(*args)
    for level in (0, 1):
        wanted, got = jax.tree.flatten(exact[level])[0], jax.tree.flatten(found[level])[0]
        assert jax.tree.structure(exact[level]) == jax.tree.structure(found[level])
        for one, two in zip(got, wanted, strict=True):
            assert_close(one, two, 1e-9, FLOOR, f"{name}, order {level + 1}")
    again = PROGRAMS[name].arrays(1)
    if all(isinstance(spec, str) for spec in PROGRAMS[name].arguments) and name != "portfolio":
        hessian(*again)
        assert hessian.traces == 1


def test_programs_are_many() -> None:
    assert len(PROGRAMS) >= 40


# Traces


def loss(w: Any, X: Any, y: Any, lam: Any = 0.1, power: int = 2) -> Any:
    return np.sum((X @ w - y) ** power) + lam * np.dot(w, w)


DATA = arrays_of(("real:3", "real:5x3", "real:5"))


def test_traces_are_kept() -> None:
    hessian = ed.hessian(loss)
    w, X, y = DATA
    expected = 2 * X.T @ X
    assert_close(hessian(w, X, y, 0.5), expected + np.eye(3), EXACT)
    assert_close(hessian(2 * w, X, y, 0.25), expected + 0.5 * np.eye(3), EXACT)
    assert hessian.traces == 1  # new values of arrays and floats need no new trace
    assert_close(hessian(w, np.vstack([X, X]), np.hstack([y, y]), 0.5), 2 * expected + np.eye(3), EXACT)
    assert hessian.traces == 2  # other shapes
    hessian(w, X, y, 0.5, power=3)
    assert hessian.traces == 3  # an integer is a fixed value
    hessian(w, X, y, 0.5, power=3)
    assert hessian.traces == 3
    assert hessian(*(a.astype(np.float32) for a in (w, X, y)), 0.5).dtype == np.float32
    assert hessian.traces == 4  # another type
    assert repr(hessian) == "<hessian of loss, traced 4 times>"
    assert hessian.__wrapped__ is loss


def test_arguments_by_place_and_name() -> None:
    w, X, y = DATA
    by_place, by_name = ed.gradient(loss, argnums=(0, 2)), ed.gradient(loss, ["w", "y"])
    for one, two in zip(by_place(w, X, y), by_name(w, X, y=y), strict=True):
        assert_close(one, two, EXACT)
    assert isinstance(by_place(w, X, y), tuple)
    assert_close(ed.gradient(loss, 2)(w, X, y), -2 * (X @ w - y), EXACT)
    assert_close(ed.gradient(loss, "lam")(w, X, y, lam=2.0), w @ w, EXACT)
    assert_close(ed.gradient(loss, "lam")(w, X, y, 2), w @ w, EXACT)  # an integer that is differentiated by is a number
    blocks = ed.hessian(loss, argnums=(0, 2))(w, X, y)
    assert_close(blocks[0][1], -2 * X.T, EXACT)
    assert_close(blocks[1][1], 2 * np.eye(5), EXACT)
    for argnums, message in (
        (9, "not given"),
        ("v", "parameters w, X, y"),
        ((), "once"),
        ((0, 0), "once"),
        (3, "not given"),
    ):
        with pytest.raises(EindiffError, match=message):
            ed.gradient(loss, argnums=argnums)(w, X, y)


def test_containers() -> None:
    def f(p: Any, scale: float) -> Any:
        return {"value": scale * p["a"] @ p["a"], "parts": [p["b"][0] * p["a"], p["b"][1] ** 2]}

    p = {"a": np.array([1.0, 2.0]), "b": (3.0, 4.0)}
    found = ed.jacobian(f)(p, 2.0)
    assert_close(found["value"]["a"], 4 * p["a"], EXACT)
    assert_close(found["parts"][0]["a"], 3 * np.eye(2), EXACT)
    assert_close(found["parts"][0]["b"][0], p["a"], EXACT)
    assert_close(found["parts"][1]["b"][1], 8, EXACT)
    assert found["parts"][1]["b"][0] == 0
    hessian = ed.hessian(lambda p, scale: f(p, scale)["value"])(p, 2.0)
    assert_close(hessian["a"]["a"], 4 * np.eye(2), EXACT)
    assert hessian["b"][0]["b"][1] == 0


@pytest.mark.parametrize("kind", [list, dict])
def test_calls_with_containers_take_few_calls_of_python(kind: type) -> None:
    """A call that is like the last one takes at most 60, its program included: each is time that nobody computes in."""
    keys = "abcde" if kind is dict else range(5)
    given = [np.full(3, 1.0 + k) for k in range(5)]
    tree = dict(zip(keys, given, strict=True)) if kind is dict else given
    gradient = ed.gradient(lambda p: np.sum(p[keys[0]] * p[keys[1]] * p[keys[2]] * p[keys[3]] * p[keys[4]]))
    for _ in range(3):
        found = gradient(tree)
    assert type(found) is kind and [float(found[key][0]) for key in keys] == [120.0, 60, 40, 30, 24]
    profile = Profile()
    profile.runcall(gradient, tree)
    assert Stats(profile).total_calls <= 60


def test_structured() -> None:
    U, T, V = PROGRAMS["factorization"].arrays()
    f = PROGRAMS["factorization"].function
    H = ed.hessian(f, structured=True)(U, T, V)
    assert isinstance(H, ed.Derivative) and "I₄ ⊗ core(2×2)" in repr(H)
    assert_close(H.as_tensor(), ed.hessian(f)(U, T, V), EXACT)
    both = ed.hessian(f, argnums=(0, 2), structured=True)(U, T, V)
    assert both.as_matrix().shape == (U.size + V.size,) * 2
    J = ed.jacobian(lambda x, A: np.tanh(A @ x), structured=True)(np.ones(3), np.ones((2, 3)))
    assert J.as_matrix().shape == (2, 3)
    for options in ({"has_aux": True}, {}):
        with pytest.raises(EindiffError, match="structured=True is for"):
            (ed.hessian if options else ed.gradient)(f, structured=True, **options)
    with pytest.raises(EindiffError, match="one result"):
        ed.jacobian(lambda x: (x, x), structured=True)(np.ones(2))


def test_auxiliary_results() -> None:
    def f(w: Any, X: Any, y: Any) -> Any:
        r = X @ w - y
        return r @ r, {"residual": r, "name": "least squares"}

    w, X, y = DATA
    gradient, aux = ed.gradient(f, has_aux=True)(w, X, y)
    assert_close(gradient, 2 * X.T @ (X @ w - y), EXACT)
    assert_close(aux["residual"], X @ w - y, EXACT)
    assert aux["name"] == "least squares"
    with pytest.raises(EindiffError, match="must return a pair"):
        ed.gradient(loss, has_aux=True)(w, X, y)


def test_lowered() -> None:
    w, X, y = DATA
    lowered = ed.hessian(loss).lower(w, X, y)
    assert lowered.expression.shape == (3, 3)
    assert lowered.formula == ed.to_text(lowered.expression) == "2*X'*X + 0.2*eye(3)"
    assert lowered.source.startswith("import numpy as np") and "def f(" in lowered.source
    assert lowered.plan.flops > 0
    assert isinstance(ed.gradient(loss, argnums=(0, 1)).lower(w, X, y).expression, tuple)


def test_functions_that_look_at_values_of_other_arguments() -> None:
    """What is not differentiated by may decide about branches and places; its values are then part of the trace."""

    def f(x: Any, kind: Any, places: Any, weights: Any) -> Any:
        y = x[places] if kind > 0 else x
        return np.sum(y**2 * np.sort(weights)[: len(y)])

    x, weights = np.arange(1.0, 5.0), np.array([4.0, 2, 3, 1])
    gradient = ed.gradient(f)
    assert gradient(x, 1.0, np.array([0, 2]), weights).tolist() == [2, 0, 12, 0]
    assert gradient(x + 1, 1.0, np.array([0, 2]), weights).tolist() == [4, 0, 16, 0]
    assert gradient.traces == 1
    assert gradient(x, -1.0, np.array([0, 2]), weights).tolist() == [2, 8, 18, 32]
    assert gradient(x, 1.0, np.array([1, 2]), 2 * weights).tolist() == [0, 8, 24, 0]
    assert gradient(x, 1.0, np.array([0, 2]), weights).tolist() == [2, 0, 12, 0]
    assert gradient.traces == 3
    assert ed.gradient(f, argnums=1)(x, 1.0, np.array([0, 2]), weights) == 0


def test_captured_arrays() -> None:
    rng = np.random.default_rng(0)
    big, small = rng.normal(size=(40, 3)), rng.normal(size=3)
    hessian = ed.hessian(lambda x: np.sum(np.exp(big @ x)) + np.sum((small * x) ** 2) + np.sum((big * 2) @ x))
    w = DATA[0]
    assert_close(hessian(w), big.T @ (np.exp(big @ w)[:, None] * big) + 2 * np.diag(small**2), EXACT)
    lowered = hessian.lower(w)
    assert [v.name for v in ed.variables(lowered.expression)] == [
        "big",
        "x",
    ]  # by its name, not written into the program
    assert len(lowered.source) < 2000
    assert hessian(w.astype(np.float32)).dtype == np.float32


def test_names_do_not_clash() -> None:
    def f(out: Any, sizes: Any, x0: Any, x: Any, *rest: Any) -> Any:
        return out @ sizes * x0 * x[0] + sum(r @ r for r in rest)

    v = np.array([1.0, 2.0])
    found = ed.gradient(f, argnums=(0, 3))(v, 2 * v, 3.0, [4.0, 5.0], v, v)
    assert_close(found[0], 24 * v, EXACT)
    assert found[1][0] == 30 and found[1][1] == 0
    assert_close(ed.gradient(f, argnums=4)(v, v, 1.0, [1.0], v, 2 * v), 2 * v, EXACT)
    assert_close(ed.gradient(np.linalg.norm)(np.array([3.0, 4.0])), [0.6, 0.8], EXACT)
    assert_close(ed.jacobian(np.exp)(v), np.diag(np.exp(v)), EXACT)


@pytest.mark.parametrize(("f", "message"), [
    (lambda x: x, "it has shape 3, but a gradient is that of a number"),
    (lambda x: None, "must return numbers or arrays, not None"),
    (lambda x: "text", "must return numbers or arrays, not 'text'"),
    (lambda x: np.array([x[0]], dtype=complex), "it holds real numbers"),
    (lambda x: np.linalg.eigvals(np.outer(x, x))[0], "only real numbers have derivatives"),
])  # fmt: skip
def test_functions_that_cannot_be_traced(f: Callable, message: str) -> None:
    with pytest.raises(EindiffError, match=message):
        ed.gradient(f)(np.ones(3))


def test_calls_that_cannot_be_traced() -> None:
    with pytest.raises(EindiffError, match="has no hash"):
        ed.gradient(loss)(*DATA, lam={1, 2})
    with pytest.raises(EindiffError, match="has no entries"):
        ed.gradient(lambda x: np.sum(x))(np.zeros(0))
    with pytest.raises(EindiffError, match="no number to differentiate by"):
        ed.gradient(lambda kind: 1.0)("text")
    with pytest.raises(EindiffError, match="real numbers"):
        ed.gradient(lambda x: np.sum(x))(np.ones(2, complex))
    with pytest.raises(TypeError):
        ed.gradient(lambda x: undefined_method(x, 1))(np.ones(2))


def undefined_method(x: Any) -> Any:
    return x


def test_constant_functions_have_zero_derivatives() -> None:
    assert ed.gradient(lambda x: 3.0)(np.ones(2)).tolist() == [0, 0]
    assert ed.hessian(lambda x: np.sum(x))(np.ones(2)).tolist() == [[0, 0], [0, 0]]
    assert ed.jacobian(lambda x: np.arange(3.0))(np.ones(2)).tolist() == [[0, 0]] * 3


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_library, "MOST_TRACES", 3)
    gradient = ed.gradient(lambda x, k: np.sum(x) * k)
    for k in range(1, 6):
        assert gradient(np.ones(2), k).tolist() == [k, k]
    assert gradient.traces == 5 and gradient.cache_info()["remembered"] == 3


# Functions as expressions


def test_symbolic() -> None:
    A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    assert ed.symbolic(lambda A, x: A @ x, ("m", "n"), "n") is A @ x
    assert ed.symbolic(lambda v, M: M @ v, "n", ("m", "n"), names=["x", "A"]) is A @ x
    assert ed.symbolic(lambda s: s**2, ()) is ed.scalar("s") ** 2
    assert ed.symbolic(lambda v, s: s * v, 3, 1.0) is ed.scalar("s") * ed.vector("v", 3)
    assert ed.symbolic(lambda v: v + v, np.ones((2, 3))) is 2 * ed.matrix("v", 2, 3)
    assert ed.symbolic(lambda S: np.trace(S), ed.symmetric("S", "n")) is ed.tr(ed.symmetric("S", "n"))
    assert ed.symbolic(loss, 3, (5, 3), 5, power=2).ndim == 0
    found = ed.symbolic(lambda p, q: {"sum": p[0] + p[1], "rest": [q["u"], 1.0]}, [("n",), ("n",)], {"u": "n"})
    assert found["sum"] is ed.vector("p0", "n") + ed.vector("p1", "n")
    assert found["rest"][0] is ed.vector("q_u", "n") and found["rest"][1].ndim == 0
    with pytest.raises(EindiffError, match="2 names are given for 1 shapes"):
        ed.symbolic(lambda x: x, 3, names=["a", "b"])
    with pytest.raises(EindiffError, match="sizes that are names are text"):
        ed.symbolic(lambda x: x.sum() / (x.shape[0] - 1), "n")


def test_lists_of_symbols_are_arrays_while_a_function_is_traced() -> None:
    array, asarray = np.array, np.asarray

    def f(x: Any) -> Any:
        assert np.array([1.0, 2.0]).tolist() == [1, 2] and np.asarray([[1]], dtype=float).dtype == float
        return np.asarray(x) + np.array([x[1], 0.0]) @ np.array([[x[0], 1.0], [np.sin(x[0]), 2.0]])

    point = np.array([0.3, 0.7])
    assert_close(ed.evaluate(ed.symbolic(f, 2), {"x": point}), f(point), EXACT)
    assert np.array is array and np.asarray is asarray
    with pytest.raises(ZeroDivisionError):
        ed.symbolic(lambda x: 1 / 0, 2)
    assert np.array is array and np.asarray is asarray


def test_functions_are_traced_inside_others_and_by_threads() -> None:
    inner = ed.gradient(lambda x: np.sum(np.array([x[0] ** 2, x[1] ** 3])))

    def outer(y: Any) -> Any:
        return np.sum(y * inner(np.ones(2)))

    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(ed.gradient(outer)(np.ones(2)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(r.tolist() == [2, 3] for r in results)
    assert np.array is functions.np.array and not hasattr(np.array, "__wrapped__")
    assert numpy_protocol.np is np


def test_absolute_values_in_a_loop_take_no_exponential_time() -> None:
    """Kinks of kinks are not looked for: five turns took minutes."""

    def location(x: Any) -> Any:
        found = x.mean()
        for _ in range(5):
            weights = 1 / (1 + np.abs(x - found))
            found = weights @ x / weights.sum()
        return found

    x, step = np.array([0.3, -1.2, 2.1]), 1e-5
    gradient = ed.gradient(location)
    expected = [(gradient(x + e) - gradient(x - e)) / (2 * step) for e in step * np.eye(3)]
    np.testing.assert_allclose(ed.hessian(location)(x), expected, rtol=1e-6, atol=1e-8)
