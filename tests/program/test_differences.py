"""Sums over pairs of points: derivatives by their scales have squares of differences, and are as exact as these."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nodes import Add, topological
from eindiff.planning.differences import difference
from eindiff.planning.factoring import factor
from eindiff.program.interpreter import evaluate

mpmath.mp.dps = 80

X, h, y = ed.matrix("X", 5, 2), ed.vector("h", 2), ed.vector("y", 5)
W, s = ed.matrix("W", 5, 5), ed.scalar("s")
Z = X * ed.exp(-h)
APART = Z[:, None, :] - Z[None, :, :]
SQUARES = ed.sum(APART * APART, 2)
LINE = ed.exp(s) * (y[:, None] - y[None, :])

FUNCTIONS = {
    "kernel": ed.sum(ed.exp(-SQUARES / 2)),
    "weights": ed.sum((W + W.T) * ed.tanh(SQUARES)),
    "no symmetry": ed.sum(W * ed.exp(-SQUARES)),
    "odd": ed.sum(W * ed.sum(ed.tanh(APART), 2)),
    "rows": ed.sum(ed.tanh(y)[:, None] * ed.exp(-SQUARES)),
    "system": y @ ed.solve(ed.exp(-SQUARES) + ed.eye(5), y),
    "squares": ed.sum(ed.sum(ed.exp(-SQUARES), 1) ** 2),
    "line": ed.sum(ed.exp(-h)) * ed.sum(ed.log(1 + LINE * LINE)) * ed.exp(s),
    "written": ed.sum(W * y[:, None] * LINE) + ed.sum(h) * ed.sum((W + W.T) * y[:, None] * LINE),
    "multiplied out": y @ W @ y - ed.sum(W, 1) @ (y * y) + ed.sum(ed.tanh(LINE) * W),
    "joined": y @ (W + W.T) @ y - ed.sum(W + W.T, 1) @ (y * y) + ed.sum(ed.tanh(LINE) * W),
    "terms": ed.sum(ed.exp(ed.sum(h) * (X @ X.T))) * ed.sum(ed.exp(-SQUARES)),
}


def arrays(far: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = {"X": (5, 2), "h": (2,), "y": (5,), "W": (5, 5), "s": ()}
    given = {name: np.asarray(rng.normal(size=shape) / 2) for name, shape in shapes.items()}
    return {**given, "X": given["X"] + far}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_forms_have_the_same_values(name):
    f, given = FUNCTIONS[name], arrays()
    outputs = [f, ed.gradient(f, h), ed.hessian(f, h), ed.gradient(f, s), ed.derivative(f, s, h), ed.gradient(f, X)]
    for expr, other in zip(outputs, factor(outputs), strict=True):
        right = evaluate(expr, given)
        np.testing.assert_allclose(evaluate(other, given), right, rtol=1e-11, atol=1e-12 * np.abs(right).max())


def test_points_far_from_zero_lose_no_digits():
    f, given = FUNCTIONS["kernel"], arrays(far=1e6)
    squares = ((given["X"][:, None] - given["X"][None]) * np.exp(-given["h"])) ** 2
    kernel = np.exp(-squares.sum(2) / 2)
    slope = np.einsum("jk,jkd->d", kernel, squares)
    bend = np.einsum("jk,jkd,jke->de", kernel, squares, squares) - 2 * np.diag(slope)
    compiled = ed.compile([ed.gradient(f, h), ed.hessian(f, h)])
    for found, right in zip(compiled(X=given["X"], h=given["h"]), (slope, bend), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def test_a_difference_is_of_one_array_at_two_places():
    def found(expr: ed.Expr):
        [total] = [node for node in topological([expr]) if isinstance(node, Add)]
        return difference(total)

    assert [found(x).array for x in (APART, LINE, X[None] - X[:, None])] == [X, y, X]
    assert found(APART).axis == 0
    for other in (W - W.T, X[:, None] + X[None], y[:, None] - 2 * y, y[:, None] - h, X[:, None, :] - X[None] ** 2):
        assert found(other) is None


def test_hessians_of_potentials_of_points_far_from_each_other() -> None:
    """What a point has with itself cancels in forces between all: it is not there, where others are 40 digits less."""
    P = ed.matrix("P", 4, 2)
    squares = ed.sum((P[:, None, :] - P[None, :, :]) ** 2, axis=2)
    hessian = ed.hessian(ed.sum(1 / (squares + ed.eye(4)) ** 6), P)
    points = 1000.0 * np.array([[0, 0], [1, 2], [-3, 1], [2, -2]])
    expected = np.zeros((4, 2, 4, 2))
    for j, k in permutations(range(4), 2):
        d = points[j] - points[k]
        block = 24 * (14 * np.outer(d, d) / (d @ d) ** 8 - np.eye(2) / (d @ d) ** 7)
        expected[j, :, j, :] += block
        expected[j, :, k, :] -= block
    for found in (ed.compile(hessian)(P=points), ed.evaluate(hessian, {"P": points})):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def evidence(sum_: Callable, exp: Callable, solve: Callable, points: Any, h: Any) -> Any:
    """Of a Gaussian process, whose points are scaled before they are subtracted, but for the determinant."""
    scaled = points * exp(h)
    kernel = exp(-sum_((scaled[:, None, :] - scaled[None, :, :]) ** 2, 2) / 2) + np.eye(5, dtype=int)
    return solve(kernel)


def test_derivatives_by_scales_of_clusters_far_from_each_other() -> None:
    """Products with the points themselves, or with what they are apart from any one of them, are large in both."""
    far = np.array([0.1, 1e4, 1e4, 1e4, -1e4])[:, None] + np.random.default_rng(5).normal(size=(5, 2))
    b, at, step = np.arange(1.0, 6), np.array([0.25, -0.5]), mpmath.mpf(10) ** -20
    exact, sources = np.vectorize(mpmath.mpf)(far), mpmath.matrix(b.tolist())

    def long(*by: int) -> Any:
        powers = np.vectorize(mpmath.exp)
        return evidence(
            np.sum, powers, lambda k: (sources.T * mpmath.lu_solve(mpmath.matrix(k.tolist()), sources))[0],
            exact, np.array([mpmath.mpf(x) + k * step for x, k in zip(at, by, strict=True)]),
        )  # fmt: skip

    slope = [(long(*row) - long(*-row)) / (2 * step) for row in np.eye(2, dtype=int)]
    bend = [[(long(*r + q) - long(*r - q) - long(*q - r) + long(*-r - q)) / (4 * step**2) for q in np.eye(2, dtype=int)]
            for r in np.eye(2, dtype=int)]  # fmt: skip
    f = evidence(ed.sum, ed.exp, lambda k: y @ ed.solve(k, y), X, h)
    derivatives = [ed.gradient(f, h), ed.hessian(f, h), ed.hessian_diagonal(f, h)]
    expected = [np.array(x, float) for x in (slope, bend, np.diagonal(bend))]
    given = {"X": far, "h": at, "y": b}
    for found in (ed.compile(derivatives)(**given), ed.evaluate(derivatives, given)):
        for value, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-10, atol=1e-10 * np.abs(right).max())
