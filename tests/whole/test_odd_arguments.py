"""Arguments that nobody means: an error of ours that says what is wanted, and soon."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from pace import calls

x, A, T = ed.vector("x", 3), ed.matrix("A", "n", "n"), ed.tensor("T", (2, 3, 3))
ODD: list[Any] = [
    True, 1j, "y", None, Fraction(1, 3), np.float32(1.5), [], (), -1.5, 10**400, float("nan"), b"x", {}, object(),
    np.zeros((0, 3)), np.array(["a"]), np.array(2.5), [[1], [2, 3]], slice(0, 2), ("n", "n"), np.bool_(True), 5e-324,
]  # fmt: skip
CALLS: dict[str, Any] = {
    "name": lambda odd: ed.vector(odd, 3),
    "shape": lambda odd: ed.tensor("t", odd),
    "size": lambda odd: ed.vector("t", odd),
    "property": lambda odd: ed.vector("t", 3, odd),
    "axis of sum": lambda odd: ed.sum(T, odd),
    "axis of max": lambda odd: ed.max(T, odd),
    "axis of cumsum": lambda odd: ed.cumsum(T, odd),
    "axis of softmax": lambda odd: ed.softmax(T, odd),
    "axis of stack": lambda odd: ed.stack([x, x], odd),
    "axis of take": lambda odd: ed.take(T, [0], odd),
    "list to join": lambda odd: ed.concatenate(odd),
    "einsum": lambda odd: ed.einsum(odd, x),
    "index": lambda odd: x[odd],
    "summand": lambda odd: x + odd,
    "exponent": lambda odd: x**odd,
    "function": lambda odd: ed.gradient(odd, x),
    "variable": lambda odd: ed.gradient(ed.sum(x), odd),
    "direction": lambda odd: ed.jvp(x, x, odd),
    "arrays": lambda odd: ed.evaluate(x, odd),
    "sizes": lambda odd: ed.evaluate(x, {"x": np.ones(3)}, odd),
    "outputs": lambda odd: ed.to_source(odd),
    "sizes of a plan": lambda odd: ed.plan(A @ A, odd),
    "shape to be": lambda odd: ed.reshape(x, odd),
}


@pytest.mark.parametrize("call", CALLS)
def test_odd_arguments_are_refused_or_used(call):
    for odd in ODD:
        with suppress(ed.EindiffError):
            CALLS[call](odd)


@pytest.mark.parametrize("axis", [np.int64(1), np.array([0, 1]), [np.int32(-1)]])
def test_axes_may_be_integers_of_numpy(axis):
    B = ed.matrix("B", 2, 3)
    expected = np.sum(np.ones((2, 3)), tuple(np.atleast_1d(axis)))
    np.testing.assert_allclose(ed.evaluate(ed.sum(B, axis), {"B": np.ones((2, 3))}), expected)


@pytest.mark.parametrize("function", [ed.det, ed.inv])
def test_products_with_a_factor_many_times(function):
    made: list[ed.Expr] = []
    assert calls(lambda: made.append(function(ed.matrix_power(A, 10**5 + 1)))) < 100_000
    [f] = made
    value = np.array([[1.0, 1e-4], [0.0, 1.0]])
    expected = 1.0 if function is ed.det else [[1.0, -10.0001], [0.0, 1.0]]
    np.testing.assert_allclose(ed.evaluate(f, {"A": value}), expected, rtol=1e-9)


def test_derivatives_by_other_variables_are_zero():
    assert ed.check(ed.sum(x), ed.vector("y", 2)).passed
