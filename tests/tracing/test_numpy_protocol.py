"""NumPy functions on symbolic arrays: tables of functions, attributes, operators.

The dispatch tables are tested as tables: a row without a case cannot exist. A case is a function of a library and of
arrays. With NumPy and symbolic arrays it has to give an expression with the values that arrays give, with derivatives
that agree with differences of the function itself (first order) and of the gradient (second order).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest
import scipy.special

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.tracing.numpy.protocol import ATTRIBUTES, FUNCTIONS, METHODS, REDUCTIONS, REFUSED, UFUNCS
from eindiff.tracing.numpy.trees import leaves_of
from numpy_cases import CASES, DOMAINS, EXACT, FLOOR, arrays_of
from oracles import assert_close, finite_difference

DIFFERENCES = 1e-7


def ufunc(name: str) -> Any:
    return getattr(np, name) if isinstance(getattr(np, name, None), np.ufunc) else getattr(scipy.special, name)


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
    specs, f = DOMAINS[name], ufunc(name)
    known = [spec for spec in specs if not isinstance(spec, str)]  # they come first, and have no derivative
    check(partial(f, *known), arrays_of(specs[len(known) :]))
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
