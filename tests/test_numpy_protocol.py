"""NumPy functions on symbolic arrays, and derivatives of plain NumPy functions.

The dispatch tables are tested as tables: a row without a case cannot exist. A case is a function of a library and of
arrays. With NumPy and symbolic arrays it has to give an expression with the values that arrays give, with derivatives
that agree with differences of the function itself (first order) and of the gradient (second order).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.special

import eindiff as ed
import numpy_programs
from eindiff.errors import EindiffError
from eindiff.expr import Expr
from eindiff.trace import functions, numpy_protocol
from eindiff.trace.functions import leaves_of
from eindiff.trace.numpy_protocol import ATTRIBUTES, FUNCTIONS, INSTEAD, METHODS, REDUCTIONS, REFUSED, UFUNCS
from numpy_cases import CASES, DOMAINS, arrays_of
from numpy_programs import PROGRAMS
from oracles import assert_close, finite_difference, jit

EXACT = 1e-10
DIFFERENCES = 1e-7
FLOOR = 1e-3


def ufunc(name: str) -> Any:
    return getattr(np, name) if hasattr(np, name) else getattr(scipy.special, name)


def recorded(monkeypatch: pytest.MonkeyPatch, table: dict, name: str) -> list:
    """The calls of a row of a table from now on."""
    calls, row = [], table[name]

    @wraps(row)
    def record(*args: Any, **keywords: Any) -> Any:
        calls.append(args)
        return row(*args, **keywords)

    monkeypatch.setitem(table, name, record)
    return calls


def check(f: Callable, arrays: list[Any], orders: int = 2) -> None:
    """Value, gradient and Hessian (of a weighted sum of all results) by all arguments."""
    names = [f"a{k}" for k in range(len(arrays))]
    expected, found = leaves_of(f(*arrays)), leaves_of(ed.symbolic(f, *arrays, names=names))
    assert len(expected) == len(found)
    for value, expr in zip(expected, found, strict=True):
        point = dict(zip(names, arrays, strict=True))
        assert expr.shape == np.shape(value)
        assert_close(ed.evaluate(expr, point), value, EXACT, FLOOR, expr)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=np.shape(value)) for value in expected]

    def total(*args: Any) -> Any:
        return sum(np.sum(w * y) for w, y in zip(weights, leaves_of(f(*args)), strict=True))

    for k, array in enumerate(arrays):
        if array.dtype == bool:
            continue
        gradient, hessian = ed.gradient(total, argnums=k), ed.hessian(total, argnums=k)

        def moved(x: np.ndarray, of: Callable, k: int = k) -> Any:
            return of(*arrays[:k], x, *arrays[k + 1 :])

        slopes = finite_difference(lambda x: moved(x, total), array)
        assert_close(gradient(*arrays), slopes, DIFFERENCES, FLOOR, f"gradient by {k}")
        if orders > 1:
            curvature = finite_difference(lambda x, g=gradient: moved(x, g), array)
            assert_close(hessian(*arrays), curvature, DIFFERENCES, FLOOR, f"Hessian by {k}")


def test_every_ufunc_has_a_case() -> None:
    assert set(DOMAINS) == set(UFUNCS)


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_ufunc(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, UFUNCS, name)
    check(ufunc(name), arrays_of(DOMAINS[name]))
    assert calls, f"np.{name} did not come to its row"


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_reduce(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, REDUCTIONS, name)
    check(lambda a: ufunc(name).reduce(a), arrays_of(("distinct entries:3x2",)))
    check(lambda a: ufunc(name).reduce(a, axis=1, keepdims=True), arrays_of(("distinct entries:2x3",)))
    assert calls


def test_other_methods_of_ufuncs() -> None:
    check(lambda a, b: np.subtract.outer(a, b), arrays_of(("real:2", "real:3")))
    check(lambda a, b: np.multiply.outer(a, b), arrays_of(("real:2x2", "real:3")))
    check(np.add.accumulate, arrays_of(("real:3x2",)))


# Functions of arrays


def test_every_function_has_a_case() -> None:
    assert set(CASES) == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, FUNCTIONS, name)
    for f, *specs in CASES[name]:
        check(f, arrays_of(tuple(specs)), orders=1 if "linalg" not in name and len(CASES[name]) > 1 else 2)
    assert calls, f"np.{name} did not come to its row"


def test_named_sizes() -> None:
    A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    assert np.dot(A, x) is A @ x
    assert np.sum(np.exp(A), axis=0) is ed.sum(ed.exp(A), 0)
    assert np.tril(A @ A.T) is not A @ A.T
    assert np.mean(x) is ed.mean(x)
    assert np.linalg.slogdet(A @ A.T)[1] is ed.logdet(A @ A.T)
    assert np.linalg.norm(x) is ed.norm2(x)
    with pytest.raises(EindiffError, match="sizes must be numbers"):
        np.roll(x, 1, axis=0)


# Attributes and operators

ATTRIBUTE_CASES: dict[str, Callable[[Any], Any]] = {
    **{name: (lambda a, name=name: getattr(a, name)(axis=0)) for name in ("mean", "prod", "max", "min", "var", "std")},
    **{name: (lambda a, name=name: getattr(a, name)()) for name in ("ravel", "flatten", "copy", "conj", "conjugate")},
    **{name: (lambda a, name=name: getattr(a, name)()) for name in ("squeeze", "cumsum", "trace", "diagonal")},
    "round": lambda a: a * a.round(1),
    "dot": lambda a: a.dot(np.ones(3)),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "clip": lambda a: a.clip(-0.5, 0.5),
    "repeat": lambda a: a.repeat(2, axis=0),
    "take": lambda a: a.take([1, 0], axis=1),
    "size": lambda a: a * a.size,
    "dtype": lambda a: a + np.zeros(3, a.dtype),
    "real": lambda a: a.real,
    "imag": lambda a: a + a.imag,
    "mT": lambda a: a.mT,
    "astype": lambda a: a.astype(float),
    "transpose": lambda a: (a.transpose(), a.transpose(0, 1), a.transpose((1, 0))),
}
OWN = {
    "sum": lambda a: (a.sum(), a.sum(axis=1, keepdims=True), a.sum(0)),
    "reshape": lambda a: (a.reshape(3, -1), a.reshape((6,))),
    "T": lambda a: a.T,
    "operators": lambda a: (-a + 1 - 2 * a / 3, a**2 @ a.T, +a, abs(a), 2**a),
    "comparisons": lambda a: a * ((a > 0) & ~(a >= 1) | (a < -1) ^ (a <= -2)),
    "equality": lambda a: (a * (a != 1.0), 1 - 1 * (a == 2.0), (a == a[0, 0]) * a),
    "length and loop": lambda a: (len(a) * a, sum(row for row in a)),
    "indices": lambda a: (a[0], a[:, 1:], a[..., None], a[[1, 0], [0, 2]], a[:, np.array([True, False, True])]),
}


@pytest.mark.parametrize("name", [*ATTRIBUTE_CASES, *OWN])
def test_attributes(name: str) -> None:
    check({**ATTRIBUTE_CASES, **OWN}[name], arrays_of(("distinct entries:2x3",)), orders=1)


def test_every_attribute_has_a_case() -> None:
    refused = {name for name, target in METHODS.items() if target in REFUSED} | {"item", "tolist"}
    assert set(ATTRIBUTE_CASES) == (set(METHODS) | set(ATTRIBUTES)) - refused
    x = ed.vector("x", 3)
    for name in refused:
        with pytest.raises(EindiffError, match="is symbolic"):
            getattr(x, name)()
    with pytest.raises(EindiffError, match="is symbolic"):
        x.astype(int)
    assert not hasattr(x, "nothing") and not hasattr(x, "__cuda_array_interface__")


def test_arrays_on_the_left() -> None:
    A, v, s = np.arange(6.0).reshape(2, 3), np.array([1.0, 2, 3]), np.float64(2)
    for f in (
        lambda x: v * x, lambda x: v + x, lambda x: v - x, lambda x: v / x, lambda x: A @ x, lambda x: v**x,
        lambda x: s * x, lambda x: s - x, lambda x: np.int64(3) / x, lambda x: np.float32(2) ** x,
        lambda x: (v > x) * x, lambda x: (v <= x) * x, lambda x: (v == x) * x, lambda x: (s < x) * x,
        lambda x: np.bool_(True) * x, lambda x: A[:, :, None] * x,
    ):  # fmt: skip
        check(f, arrays_of(("positive:3",)), orders=1)
    x = ed.vector("x", 3)
    assert v * x is x * v and isinstance(A @ x, Expr) and (s * x) is 2 * x


def test_equality_is_identity_between_expressions() -> None:
    x, y = ed.vector("x", 3), ed.vector("y", 3)
    assert (x == x) is True and (x == y) is False and (x != y) is True
    assert x not in [y] and {x: 1}[x] == 1 and (x == None) is False and (x == "x") is False  # noqa: E711
    same = ed.symbolic(lambda a, b: np.where(a == b, 1.0, 0.0), 3, 3)
    assert ed.evaluate(same, {"a": [1, 2, 3], "b": [1, 0, 3]}).tolist() == [1, 0, 1]
    differ = ed.symbolic(lambda a, b: (a != b) * 1.0, 3, 3)
    assert ed.evaluate(differ, {"a": [1, 2, 3], "b": [1, 0, 3]}).tolist() == [0, 1, 0]


# Accuracy and kinks


def test_elementwise_functions_are_accurate_far_out() -> None:
    points = np.array([-1e8, -1e3, -1e-9, 0.0, 1e-9, 30.0, 1e8])
    found = ed.evaluate(np.arcsinh(ed.vector("x", 7)), {"x": points})
    np.testing.assert_allclose(found, np.arcsinh(points), rtol=1e-12)
    slopes = ed.gradient(lambda x: np.sum(np.arcsinh(x)))(points)
    np.testing.assert_allclose(slopes, 1 / np.sqrt(1 + points**2), rtol=1e-12)
    a, b = np.array([1000.0, -1000.0, 0.0]), np.array([-1000.0, -999.0, 1000.0])
    found = ed.evaluate(np.logaddexp(ed.vector("a", 3), ed.vector("b", 3)), {"a": a, "b": b})
    np.testing.assert_allclose(found, np.logaddexp(a, b))


def test_arctan2_in_all_quadrants_and_on_axes() -> None:
    y, x = np.array([1.0, 1, -1, -1, 0, 0, 2, -2]), np.array([2.0, -2, -2, 2, 1, -1, 0, 0])
    np.testing.assert_allclose(
        ed.evaluate(np.arctan2(ed.vector("y", 8), ed.vector("x", 8)), {"x": x, "y": y}), np.arctan2(y, x)
    )
    slopes = ed.gradient(lambda y, x: np.sum(np.arctan2(y, x)), argnums=(0, 1))(y, x)
    np.testing.assert_allclose(slopes, (x / (x**2 + y**2), -y / (x**2 + y**2)), atol=1e-15)


def test_logarithms_at_zero() -> None:
    a, b = np.array([0.0, 0.0, 2.0]), np.array([0.0, 3.0, 3.0])
    found = ed.evaluate(scipy.special.xlogy(ed.vector("a", 3), ed.vector("b", 3)), {"a": a, "b": b})
    np.testing.assert_allclose(found, scipy.special.xlogy(a, b))
    assert ed.evaluate(np.sinc(ed.vector("x", 2)), {"x": [0.0, 0.5]}).tolist() == np.sinc([0.0, 0.5]).tolist()


# What is refused, with the reason

LISTED = [name for name in REFUSED if not name.startswith("linalg") and name not in ("modf", "divmod")]


def _call(name: str, x: Expr) -> Any:
    f: Any = np
    for part in name.split("."):
        f = getattr(f, part)
    arguments = {"copyto": (np.zeros(3), x), "put_along_axis": (x, [0], 1.0, 0), "interp": (x, [0, 1], [0, 1])}
    counts = {
        "percentile": 50,
        "quantile": 0.5,
        "partition": 1,
        "argpartition": 1,
        "fill_diagonal": 1.0,
        "digitize": [0.5],
    }
    two = ("allclose", "isclose", "array_equal", "searchsorted", "extract", "fmod")
    if name in arguments:
        return f(*arguments[name])
    if name in ("put", "putmask", "place"):
        return f(x, [0], [1.0])
    if name == "compress":
        return f([True], x)
    return f(x, counts[name]) if name in counts else f(x, x) if name in two else f(x)


@pytest.mark.parametrize("name", LISTED)
def test_what_needs_values_is_refused(name: str) -> None:
    with pytest.raises(EindiffError, match=f"np.{name} .*the value of x, which is symbolic: "):
        _call(name, ed.vector("x", 3))


@pytest.mark.parametrize("name", [name for name in REFUSED if name.startswith("linalg")])
def test_factorizations_are_refused(name: str) -> None:
    A = ed.matrix("A", 3, 3)
    f = getattr(np.linalg, name.partition(".")[2])
    with pytest.raises(EindiffError, match=f"np.{name} needs the value of A"):
        f(A, A) if name.endswith("lstsq") else f(A)


x, A = ed.vector("x", 3), ed.matrix("A", 3, 3)


def _assign() -> None:
    x[0] = 1


def _assign_into_array() -> None:
    np.zeros((2, 3))[0] = x


def _add_in_place() -> None:
    y = np.zeros(3)
    y += x


ERRORS: dict[str, tuple[Callable, str]] = {
    "branch": (lambda: 1 if x[0] > 0 else 2, r"a branch of Python .* a function of x, .*np.where\(condition, a, b\)"),
    "and": (lambda: (x[0] > 0) and (x[1] > 0), "has no truth value"),
    "float": (lambda: float(x[0]), "a Python number needs .* functions of NumPy"),
    "math": (lambda: math.exp(x[0]), "functions of NumPy instead of those of math"),
    "int": (lambda: int(x[0]), "an integer needs the value"),
    "range": (lambda: range(x[0]), "an integer needs the value"),
    "mask": (lambda: x[x > 0], r"an index or a mask .*choose with np.where"),
    "index": (lambda: np.arange(3)[x[0]], "needs the value"),
    "assignment": (_assign, "expressions do not change"),
    "assignment into an array": (_assign_into_array, "a NumPy array needs the value of x"),
    "in place": (_add_in_place, "write a = a [+] b instead of a [+]= b"),
    "out": (lambda: np.exp(x, out=np.zeros(3)), "give no out="),
    "out of a function": (lambda: np.sum(A, axis=0, out=np.zeros(3)), "use the result it returns"),
    "asarray": (lambda: np.asarray(x), "np.stack and np.concatenate join expressions"),
    "array": (lambda: np.array([x[0], 1.0]), "np.array cannot hold them"),
    "random": (lambda: np.random.default_rng(0).normal(x), "a NumPy array needs the value of x"),
    "unknown argument": (lambda: np.sum(x, where=[True, False, True]), "np.sum of symbolic arrays: .*'where'"),
    "type": (lambda: np.sum(x, dtype=int), "np.sum of symbolic arrays: .*'dtype'"),
    "no row": (lambda: np.i0(x), "np.i0 needs .* no symbolic form"),
    "no ufunc": (lambda: np.nextafter(x, x), "np.nextafter needs .* no symbolic form"),
    "method of a ufunc": (lambda: np.add.reduceat(x, [0, 1]), "np.add.reduceat needs"),
    "foreign ufunc": (lambda: np.frompyfunc(math.exp, 1, 1)(x), "only those of numpy and scipy.special"),
    "special": (lambda: scipy.special.gamma(x), "scipy.special.gamma needs .* no symbolic form"),
    "fft": (lambda: np.fft.fft2(A), "only real numbers"),
    "loop": (lambda: list(ed.vector("z", "n")), "first axis of known size"),
    "where with one argument": (lambda: np.where(x > 0), "give np.where"),
    "squeeze": (lambda: np.squeeze(A, axis=0), "has size 3, not 1"),
    "expand_dims": (lambda: np.expand_dims(x, 5), "which then has 2 axes"),
    "tensordot": (lambda: np.tensordot(A, ed.vector("v", 4), 1), "do not fit"),
    "einsum by numbers": (lambda: np.einsum(x, [0]), "write the labels as text"),
    "cross": (lambda: np.cross(ed.vector("v", 2), x), "length 3"),
    "broadcast": (lambda: np.broadcast_to(A, (2, 3, 1)), "does not fit|do not fit"),
    "pad": (lambda: np.pad(x, 1, mode="edge"), "only one constant"),
    "convolve": (lambda: np.convolve(x, x, "other"), "mode 'other'"),
    "full svd": (lambda: np.linalg.svd(ed.matrix("B", 2, 3)), "full_matrices=False"),
    "norm": (lambda: np.linalg.norm(A, "other"), "order 'other'"),
    "zero norm": (lambda: np.linalg.norm(x, 0), "has no derivative"),
    "triangle": (lambda: np.tril(x), "need a matrix"),
    "gradient without a variable": (lambda: ed.gradient(x @ x), "by a variable"),
    "options of an expression": (lambda: ed.hessian(x @ x, x, argnums=0), "by a variable"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    action, message = ERRORS[name]
    with pytest.raises(EindiffError, match=message):
        action()


SCIPY = [name for name in INSTEAD if name not in ("full", "__getitem__")]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", SCIPY)
def test_python_functions_of_scipy_name_what_to_use(name: str, traced: bool) -> None:
    f = getattr(scipy.special, name, None) or getattr(scipy.linalg, name)
    extra = {"cho_solve": lambda a: f((a, True), a), "lu_solve": lambda a: f((a, a), a)}
    call = extra.get(name) or (lambda a: f(a, a) if name.startswith("solve") else f(a))
    hint = INSTEAD[name].partition("(")[0]
    with pytest.raises(EindiffError, match=rf"scipy\.\S*{name} needs the value of .*: for expressions there is {hint}"):
        ed.symbolic(call, (3, 3)) if traced else call(A)


def test_functions_of_numpy_that_take_no_expressions_name_what_to_use() -> None:
    with pytest.raises(EindiffError, match=r"numpy.full .*there is value \* np.ones"):
        np.full(3, x[0])
    with pytest.raises(EindiffError, match=r"np\.column_stack or np\.concatenate"):
        np.c_[x, x]


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
    assert lowered.formula == repr(lowered.expression) and "einsum" in lowered.formula
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
    with pytest.raises(EindiffError, match=r"a branch of Python .* a function of kind"):
        ed.gradient(f, argnums=1)(x, 1.0, np.array([0, 2]), weights)


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


def _into_zeros(x: Any) -> Any:
    y = np.zeros(2)
    for k in range(2):
        y[k] = x[k] ** 2
    return y


@pytest.mark.parametrize(("f", "message"), [
    (lambda x: x, "it has shape 3, but a gradient is that of a number"),
    (lambda x: None, "must return numbers or arrays, not None"),
    (lambda x: "text", "must return numbers or arrays, not 'text'"),
    (lambda x: x.sum() if x[0] > 0 else 0.0, "a branch of Python"),
    (_into_zeros, "cannot take symbolic entries one by one: join them with np.stack"),
    (lambda x: np.array([x[0]], dtype=int), "it holds real numbers"),
    (lambda x: np.asarray(x).sort(), "order of entries"),
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
    from eindiff.trace import function_derivatives

    monkeypatch.setattr(function_derivatives, "MOST_TRACES", 3)
    gradient = ed.gradient(lambda x, k: np.sum(x) * k)
    for k in range(1, 6):
        assert gradient(np.ones(2), k).tolist() == [k, k]
    assert gradient.traces == 5 and len(gradient._cache) == 3


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
    assert np.array is array and np.asarray is asarray and ed.expr.comparing == 0


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
