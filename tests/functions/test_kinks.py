"""Derivatives of functions of absolute values at points where these have their kinks, and the function has none.

The oracle is central differences of the same function in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from backend_libraries import cupy_or_stand_in, every_library  # noqa: F401

x = ed.vector("x", 3)
A = np.random.default_rng(5).normal(size=(3, 3))
W = np.array([[2.0, -1.0, 0.5]])
PARALLEL = np.outer([1.0, -2.0, 0.5], W)
ZERO, PARTLY, NOWHERE = np.zeros(3), np.array([0.0, -0.5, 0.25]), np.array([0.75, -0.5, 0.25])

FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "a sum squared": (lambda m, x: (m.abs(x[0]) + m.abs(x[1])) ** 2 + m.abs(x[2]) ** 3, ZERO),
    "a sum squared, expanded": (
        lambda m, x: x[0] ** 2 + 2 * m.abs(x[0]) * m.abs(x[1]) + x[1] ** 2 + m.abs(x[2]) * x[2] ** 2, ZERO,
    ),
    "a norm squared": (lambda m, x: m.sum(m.abs(x)) ** 2, ZERO),
    "a norm squared, beside others": (lambda m, x: m.sum(m.abs(x[:2] * 0.5)) ** 2 * (1 + x[2]) + x[2], ZERO),
    "a norm cubed": (lambda m, x: m.sum(m.abs(x)) ** 3, ZERO),
    "a norm to 3.25": (lambda m, x: m.sum(m.abs(x) ** 3.25), PARTLY),
    "a product": (lambda m, x: m.abs(x[0]) * m.abs(x[0]) * m.abs(x[1]) + m.exp(m.abs(x[0])) - m.abs(x[0]), PARTLY),
    "a quadratic form": (lambda m, x: m.abs(x) @ A @ m.abs(x), ZERO),
    "powers": (lambda m, x: m.sum(m.abs(x) ** 2 + m.abs(x) ** 3 + m.abs(x) ** 4), PARTLY),
    "a cosine": (lambda m, x: m.sum(m.cos(m.abs(x)) + m.cosh(m.abs(x))), PARTLY),
    "logarithms": (lambda m, x: m.sum(m.abs(x) - m.log1p(m.abs(x))), PARTLY),
    "of products": (lambda m, x: m.sum(m.abs(W @ x) - m.log1p(m.abs(W @ x))), np.array([0.5, 2.0, 2.0])),
    "one product": (lambda m, x: m.sum(m.abs(W @ x)) ** 2, np.array([0.5, 2.0, 2.0])),
    "parallel products": (lambda m, x: m.sum(m.abs(PARALLEL @ x)) ** 2, np.array([0.5, 2.0, 2.0])),
    "products with a common factor": (lambda m, x: m.abs(x[0]) * m.abs(x[0] * x[1]), PARTLY),
    "a sum of products squared": (lambda m, x: (m.abs(x[0]) + m.abs(x[0] * x[1]) + m.abs(x[2] * x[0])) ** 2, PARTLY),
    "vectors of products": (lambda m, x: m.sum(m.abs(x * x[0])) * m.sum(m.abs(x[0] * (PARALLEL @ x))), PARTLY),
    "a norm and an entry": (lambda m, x: (m.sum(m.abs(x)) + m.abs(x[0]) + m.sum(m.abs(x[1:]))) ** 2, ZERO),
    "functions of one number": (lambda m, x: m.abs(m.sin(x[0])) * m.abs(x[0] * x[0] - 3 * x[0]) * x[1], PARTLY),
    "larger of two": (lambda m, x: m.sum(m.maximum(x, -x) ** 2) + m.minimum(x[1], -x[1]) ** 2, PARTLY),
    "a logarithm with its sign": (lambda m, x: m.sum((m.sign(x) * m.log1p(m.abs(x))) ** 2), PARTLY),
    "at no kink": (lambda m, x: m.sum(m.abs(x)) ** 2 + m.sum(m.abs(x) ** 2.5) * m.sum(m.sqrt(m.abs(x))), NOWHERE),
}  # fmt: skip


def second_differences(f: Callable[[np.ndarray], Any], point: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """The Hessian by central differences, each entry from four values."""
    unit = np.eye(len(point)) * h
    return np.array([
        [(f(point + a + b) - f(point + a - b) - f(point - a + b) + f(point - a - b)) / (4 * h * h) for a in unit]
        for b in unit
    ])  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_at_kinks(library, name):
    build, point = FUNCTIONS[name]
    f = build(ed, x)
    expected = second_differences(lambda at: build(np, at), point)
    hessians = [ed.hessian(f, x, mode=mode) for mode in ("auto", "reverse", "forward", "cross_country")]
    hessians += [ed.derivative(f, x, x), ed.jacobian(ed.gradient(f, x), x, mode="forward")]
    given = {variable.name: point for variable in ed.variables(*hessians)}
    for values in (library.values(hessians, given), ed.evaluate(hessians, given)):
        for value in values:
            np.testing.assert_allclose(value, expected, atol=2e-3)


def test_a_hessian_at_several_kinks_has_the_derivatives_of_the_gradient_along_each_entry(library):
    """`norm1(A x)²` is no quadratic form, so that these are no second derivatives along other directions."""

    def gradient(at: np.ndarray) -> np.ndarray:
        return 2 * np.abs(A @ at).sum() * A.T @ np.sign(A @ at)

    expected = np.stack([(gradient(entry) - gradient(-entry)) / 2 for entry in np.eye(3)], -1)
    hessian = ed.hessian(ed.norm1(A @ x) ** 2, x)
    for value in (library.values([hessian], {"x": ZERO})[0], ed.evaluate(hessian, {"x": ZERO})):
        np.testing.assert_allclose(value, expected, rtol=1e-12)
    direction = np.array([1.0, 2.0, 3.0])
    product = ed.evaluate(ed.hvp(ed.norm1(A @ x) ** 2, x, ed.vector("v", 3)), {"x": ZERO, "v": direction})
    np.testing.assert_allclose(product, expected @ direction, rtol=1e-12)


def test_products_with_hessians_at_kinks():
    v = ed.vector("v", 3)
    f = ed.norm1(x) ** 2 + ed.sum(ed.abs(x) ** 3)
    value = ed.evaluate(ed.hvp(f, x, v), {"x": PARTLY, "v": np.array([1.0, 2.0, 3.0])})
    np.testing.assert_allclose(value, ed.evaluate(ed.hessian(f, x), {"x": PARTLY}) @ [1.0, 2.0, 3.0], rtol=1e-12)


def test_blocks_of_hessians_at_kinks():
    u, v = ed.scalar("u"), ed.scalar("v")
    for f in ((ed.abs(u) + ed.abs(v)) ** 2, u**2 + 2 * ed.abs(u) * ed.abs(v) + v**2):
        blocks = ed.hessian(f, [u, v])
        assert np.asarray(ed.evaluate(blocks, {"u": 0.0, "v": 0.0})).tolist() == [[2, 0], [0, 2]]


def test_a_sum_of_absolute_values_has_no_second_derivative(library):
    """What is not differentiable has the derivative 0 at its kink, so that lasso has the gradient of its loss there."""
    given = {"x": ZERO}
    np.testing.assert_array_equal(ed.evaluate(ed.hessian(ed.norm1(x), x), {}), np.zeros((3, 3)))
    np.testing.assert_array_equal(library.values([ed.gradient(ed.norm1(x), x)], given)[0], ZERO)


def test_an_odd_function_of_an_absolute_value_has_its_derivative_at_zero(library):
    f = ed.sign(x) * ed.log1p(ed.abs(x)) + ed.sign(x) * ed.abs(x) ** 1.5
    value = library.values([ed.jacobian(f, x)], {"x": PARTLY})[0]
    np.testing.assert_allclose(value, np.diag(1 / (1 + np.abs(PARTLY)) + 1.5 * np.sqrt(np.abs(PARTLY))), rtol=1e-12)


def test_a_net_has_its_derivatives_at_zeros_too():
    """Where no number is 0 a function of arrays has a program without the terms of its many kinks."""

    def net(x: Any, weights: Any) -> Any:
        for w in weights:
            x = w @ (np.sign(x) * np.log1p(np.abs(x)))
        return np.sum(x**2)

    weights = np.random.default_rng(3).normal(size=(4, 3, 3))
    slope = ed.gradient(net)
    for point in (NOWHERE, PARTLY, NOWHERE + 1):
        differences = [(net(point + step, weights) - net(point - step, weights)) / 2e-6 for step in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(slope(point, weights), differences, rtol=1e-6)
    given = {"x": PARTLY, "weights": weights}
    np.testing.assert_allclose(ed.evaluate(slope.lower(*given.values()).expression, given), slope(PARTLY, weights))
