"""Traced arrays have NumPy's semantics: comparisons entry by entry, views, aliases, changes in place, types."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.errors import EindiffError
from numpy_cases import EXACT
from numpy_changes import program
from oracles import assert_close

POINT = np.array([0.7, -0.3, 1.9])


def by_complex_steps(f: Callable, x: np.ndarray) -> np.ndarray:
    """The gradient of a function whose operations are those of complex numbers too; exact up to rounding."""
    steps = 1e-40j * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([np.imag(f(x + step)) / 1e-40 for step in steps]).reshape(x.shape)


def check(f: Callable, x: np.ndarray = POINT) -> None:
    """Value and gradient of a traced function against the function itself, which may change its argument."""
    [name] = f.__code__.co_varnames[:1]
    traced = ed.symbolic(f, x.shape)
    assert_close(ed.evaluate(traced, {name: x}), f(x.copy()), EXACT)
    gradient = ed.gradient(traced, ed.tensor(name, x.shape))
    expected = by_complex_steps(f, x)
    assert_close(ed.evaluate(gradient, {name: x}), expected, EXACT, 1e-12)
    assert_close(ed.gradient(f)(x.copy()), expected, EXACT, 1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(program(seed), rng.normal(size=(2, 3) if seed % 3 else 4))


# Single statements


def _double(z: Any) -> None:
    z *= 2


def inside_a_called_function(x: Any) -> Any:
    y = x**2
    _double(y)
    return y.sum()


def under_another_name(x: Any) -> Any:
    y = x**2
    z = y
    z += x
    return np.sum(y * y)


def through_a_view(x: Any) -> Any:
    y = x**2
    v = y[1:]
    v *= 3
    return y.sum()


def through_a_view_of_a_view(x: Any) -> Any:
    Y = np.outer(x, x)
    Y.T[0] *= 2
    Y.ravel()[::2] += x[0]
    Y[1, 1] = 7
    for row in Y:
        row /= 2
    return np.sum(Y**2)


def numbers_do_not_change(x: Any) -> Any:
    s = x.sum()
    t = s
    t += 1
    first = x[0]
    x[0] = 5 * x[1]
    return s * t * first * x[0]


def views_see_later_changes(x: Any) -> Any:
    y = x * 1
    v, c = y[::-1], y[[0, 1]]
    y *= x
    return v @ np.array([1.0, 2.0, 3.0]) + c.sum()


def copies_do_not(x: Any) -> Any:
    y = x * 1
    copies = [y.copy(), np.array(y), y.flatten(), y.astype(y.dtype), np.copy(y), +y]
    same = [np.asarray(y), y.reshape(3), y.ravel(), y.T, np.atleast_1d(y), y[:], y[...], np.asanyarray(y)]
    y *= x
    return sum(k * c.sum() for k, c in enumerate(copies, 1)) + sum(k * s.sum() for k, s in enumerate(same, 1)) ** 2


def entry_by_entry(x: Any) -> Any:
    y = np.zeros_like(x)
    for k in range(3):
        y[k] = x[k] * (y[k - 1] + 1)
    return y @ y


def replaced_entries_leave_nothing_behind(x: Any) -> Any:
    y = np.log(x)
    y[1:] = x[:-1] ** 2
    return y.sum()


def out_arguments(x: Any) -> Any:
    y = np.zeros_like(x)
    np.multiply(x, x, out=y)
    np.add(y[:2], 1, out=y[:2])
    return y.sum() * y[0]


def overlapping(x: Any) -> Any:
    y = x * 1
    y[1:] = y[:-1]
    y[:] = y[::-1] * x
    return y @ np.array([1.0, 2.0, 3.0])


def into_part_of_a_matrix(x: Any) -> Any:
    Y = np.outer(x, x)
    Y[:, 1] = x
    Y[0, :2] += 1
    Y[[0, 1], [2, 2]] = x[:2]
    return np.sum(Y @ Y)


STATEMENTS = [
    inside_a_called_function, under_another_name, through_a_view, through_a_view_of_a_view, numbers_do_not_change,
    views_see_later_changes, copies_do_not, entry_by_entry, replaced_entries_leave_nothing_behind, out_arguments,
    overlapping, into_part_of_a_matrix,
]  # fmt: skip


@pytest.mark.parametrize("f", STATEMENTS)
def test_statement(f: Callable) -> None:
    check(f, np.abs(POINT))


def test_what_is_replaced_may_be_infinite() -> None:
    def f(x: Any) -> Any:
        y = np.sqrt(x) + np.log(x)
        y[0] = 1.0
        return y.sum()

    assert_close(ed.gradient(f)(np.array([0.0, 1.0])), [0.0, 1.5], EXACT)


def test_layout_decides_what_is_a_view() -> None:
    def f(x: Any) -> Any:
        y = x.T * 2  # in column-major order, as x.T is: ravel makes a copy
        y.ravel()[...] = 0
        z = x * 2
        z.ravel()[0] = 7
        w = np.asarray(x)
        w.reshape(-1)[1] = 3
        return y.sum() + (z * z).sum() + w.sum()

    check(f, np.arange(1.0, 7.0).reshape(2, 3))
    check(f, np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3)))


def test_changes_with_masks() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        y[y < 0] = 0
        y[np.array([True, False, True])] *= 2
        return (y * y).sum()

    assert_close(ed.gradient(f)(POINT.copy()), [8 * POINT[0], 0, 8 * POINT[2]], EXACT)


def test_parts_without_entries() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        nowhere = np.zeros(3, bool)
        y[nowhere] *= 2
        y[3:] = 7
        y[nowhere] = x[nowhere] ** 2
        return y.sum() + y[3:].sum() + len(y[nowhere])

    assert ed.gradient(f)(POINT.copy()).tolist() == [1, 1, 1]


# Comparisons and types


def test_comparisons_are_made_entry_by_entry() -> None:
    evaluated = lambda f: ed.evaluate(ed.symbolic(f, 3, names=["x"]), {"x": POINT}).tolist()  # noqa: E731
    assert evaluated(lambda x: (x == x) * 1.0) == [1, 1, 1]
    assert evaluated(lambda x: (x != x) * 1.0) == [0, 0, 0]
    assert evaluated(lambda x: x * (x[0] == x[0])) == POINT.tolist()
    assert evaluated(lambda x: (x == x[::-1]) * 1.0) == [0, 1, 0]
    assert evaluated(lambda x: ed.exp(x) * (ed.exp(x) == ed.exp(x))) == np.exp(POINT).tolist()
    assert evaluated(lambda x: np.where(x == None, 1.0, x)) == POINT.tolist()  # noqa: E711
    assert evaluated(lambda x: x * (0 if x[0] == "text" else 1)) == POINT.tolist()
    with pytest.raises(EindiffError, match="a branch of Python"):
        ed.symbolic(lambda x: x if x[0] in [1.0, 2.0] else 2 * x, 3)
    with pytest.raises(EindiffError, match="a branch of Python"):
        ed.symbolic(lambda x: x if 1.0 in x else 2 * x, 3)


def test_truth_values_add_up_as_in_numpy() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * ((x > 0) + (x > 0.5))) + np.sum(x > 0) * x[0] + np.sum(x * ~(x > 1))

    point = np.array([0.7, 0.3, 1.9])
    assert_close(ed.evaluate(ed.symbolic(f, 3), {"x": point}), f(point), EXACT)
    with pytest.raises(EindiffError, match="boolean subtract"):
        ed.symbolic(lambda x: (x > 0) - (x > 1), 3)


def test_types() -> None:
    def f(x: Any, labels: Any) -> Any:
        assert isinstance(x, np.ndarray) and isinstance(x[0], float) and x.dtype == float and labels.dtype == int
        assert (x > 0).dtype == bool and (labels * 2).dtype == int and (labels / 2).dtype == float
        assert np.isscalar(x.sum()) and not np.isscalar(x) and x.device == "cpu"
        return np.sum(x * labels)

    labels = np.array([1, 0, 2])
    assert ed.gradient(f)(POINT, labels).tolist() == [1, 0, 2]

    def cut_off(x: Any, labels: Any) -> Any:
        weights = np.zeros_like(labels)
        weights[0] = 0.5
        return np.sum(x * weights)

    with pytest.raises(EindiffError, match="make that array of type float"):
        ed.gradient(cut_off)(POINT, labels)


# What is refused

OUTSIDE, HOLDER = np.zeros(3), SimpleNamespace(array=np.zeros(3))
REFUSED: dict[str, tuple[Callable, str]] = {
    "a diagonal": (lambda x: np.diagonal(np.outer(x, x)).fill(1.0), "it is read-only"),
    "repeated entries": (lambda x: np.broadcast_to(x, (2, 3)).fill(1.0), "it is read-only"),
    "another shape": (lambda x: x.__iadd__(np.ones((2, 3))), "does not fit"),
    "a place that is not there": (lambda x: x.__setitem__(3, 1.0), "out of bounds"),
    "a place that depends on values": (lambda x: x.__setitem__(x[0], 1.0), "an index or a mask needs the value"),
    "an array from outside": (lambda x: OUTSIDE.__iadd__(x), "an array from outside of the function.* a copy"),
    "entries of an array from outside": (lambda x: OUTSIDE.__setitem__(0, x[0]), "an array from outside"),
    "an attribute that is an array": (lambda x: HOLDER.array.__iadd__(x), r"write a = a \+ b instead of a \+= b"),
    "a structured derivative inside": (
        lambda x: ed.hessian(np.sum, structured=True)(x).dense().sum(),
        "inside of a traced function: without structured=True",
    ),
    "a copy in another process": (lambda x: pickle.dumps(x), "pickle needs the value of x"),
    "a key": (lambda x: {x[0]: 1}, "unhashable type"),
    "an attribute": (lambda x: x.ctypes, "no attribute 'ctypes'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, message = REFUSED[name]
    with pytest.raises(EindiffError, match=message):
        ed.gradient(f)(POINT)


def test_parts_of_named_size_do_not_change() -> None:
    def f(x: Any) -> Any:
        y = x**2
        z = y
        z += x
        return y.sum()

    x = ed.vector("x", "n")
    assert ed.symbolic(f, "n") is ed.sum(x**2 + x)
    for change in (lambda x: x[1:].fill(0.0), lambda x: x.__setitem__(0, 1.0)):
        with pytest.raises(EindiffError, match="only if its sizes are numbers"):
            ed.symbolic(change, "n")


def test_errors_name_the_line() -> None:
    with pytest.raises(EindiffError, match=r"\(test_numpy_changes.py:\d+: .*complex.*\)"):
        ed.gradient(lambda x: abs(complex(x[0])))(POINT)
    with pytest.raises(EindiffError, match=r"AttributeError: .*\(test_numpy_changes.py:\d+: .*interface.*\)"):
        ed.gradient(lambda x: x.sum() * x.__array_interface__["version"])(POINT)
    with pytest.raises(AttributeError, match="has no attribute 'upper'"):  # an error that the function has with arrays
        ed.gradient(lambda x: x.sum() * x.dtype.upper())(POINT)


def test_sweeps_over_a_grid_in_place() -> None:
    """Places of places may turn out to be one place, whatever the index is."""

    def swept(X: np.ndarray) -> np.ndarray:
        U = X.copy()
        for _ in range(4):
            U[1:-1, 1:-1] = 0.25 * (U[2:, 1:-1] + U[:-2, 1:-1] + U[1:-1, 2:] + U[1:-1, :-2])
        return U

    M = np.array([swept(unit.reshape(4, 4)).ravel() for unit in np.eye(16)])
    found = ed.hessian(lambda X: np.sum(swept(X) ** 2))(np.ones((4, 4)))
    np.testing.assert_allclose(found.reshape(16, 16), 2 * M @ M.T, atol=1e-12)
