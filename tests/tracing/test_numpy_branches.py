"""NumPy functions run beside their values: branches, masks and buffers, and a program for each branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed
import numpy_buffers
from numpy_branches import FUNCTIONS
from numpy_recipes import RECIPES

assert numpy_buffers.A0.shape == (4, 4)  # whose functions are in the list too
POINTS = 20
FEW = {"upwind": 6, "runge_kutta": 6, "warping_distance": 8, "power_iteration": 5, "elimination": 8}  # they are large
ONE_BRANCH = {
    "math_functions", "newton_root", "padded", "filled_in_loop", "other_names", "out_arguments", "copy_of_outside",
    "cholesky_by_hand", "gram_schmidt", "heat_equation", "scattered_sums", "symmetric_fill", "transposed_views",
    "swapped_rows", "isfinite_guard", "differences", "gaussian", "elimination", "power_iteration",
    "sign_of_product", "divmod_of_values", "along_axis",
}  # fmt: skip


def difference(f: Callable, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient by central differences."""
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in step * np.eye(x.size)])


def agrees(f: Callable, x: np.ndarray, found: np.ndarray) -> bool:
    """Whether a gradient is that of differences."""
    expected = difference(f, x)
    return bool(np.allclose(found, expected, rtol=1e-5, atol=1e-5 * (1 + np.abs(f(x)))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_sides_of_each_branch(name: str) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(len(name))
    gradient = ed.gradient(f)
    for _ in range(FEW.get(name, POINTS)):
        x = rng.normal(size=4) * 0.8
        x[2] = abs(x[2]) + 0.3 if name == "gaussian" else x[2]
        assert agrees(f, x, gradient(x)), x
    assert (gradient.traces > 1) or name in ONE_BRANCH
    count = gradient.traces
    assert agrees(f, x, gradient(x))
    assert gradient.traces == count


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name: str) -> None:
    f, rng = RECIPES[name], np.random.default_rng(len(name))
    gradient = ed.gradient(f)
    for _ in range(4):
        x = rng.normal(size=4) * 0.8 + 0.01
        with np.errstate(all="ignore"):
            assert agrees(f, x, gradient(x)), x


def test_a_branch_is_never_taken_for_the_other_side() -> None:
    """All sequences of two sides, in all orders of calls, and for all derivatives."""

    def f(x: Any) -> Any:
        return np.sum(x**3) if x[0] * x[1] > 0 else x[0] * x[1] ** 2

    points = [np.array([a, b]) for a in (0.5, -0.7) for b in (1.1, -0.4)]
    gradient, hessian = ed.gradient(f), ed.hessian(f)
    for x in [*points, *reversed(points), *points]:
        agreed = np.array([3 * x[0] ** 2, 3 * x[1] ** 2]), np.diag(6 * x)
        apart = np.array([x[1] ** 2, 2 * x[0] * x[1]]), np.array([[0, 2 * x[1]], [2 * x[1], 2 * x[0]]])
        expected = agreed if x[0] * x[1] > 0 else apart
        assert np.allclose(gradient(x), expected[0])
        assert np.allclose(hessian(x), expected[1])
    assert gradient.traces == hessian.traces == 2


def test_values_that_are_equal_or_no_numbers_decide_as_in_numpy() -> None:
    def weight(x: Any, y: Any) -> float:
        found = [x > y, x >= y, x < y, x <= y, x == y, x != y, not x > y, not (x <= y), np.isnan(y), x in (y, 7.0)]
        return sum(2.0**k for k, holds in enumerate(found) if holds)

    gradient = ed.gradient(lambda x, y: x * weight(x, y))
    for x, y in [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (1.0, np.nan), (1.0, 1.0), (1.0, np.nan), (1.0, np.inf)]:
        assert gradient(x, y) == weight(x, y)


def test_the_number_of_programs_is_bounded() -> None:
    gradient = ed.gradient(lambda x: np.sum(x[x > 0] ** 2))
    rng = np.random.default_rng(0)
    for _ in range(80):
        x = rng.normal(size=9)
        assert np.allclose(gradient(x), np.where(x > 0, 2 * x, 0))
    assert 64 < gradient.traces <= 80
    assert sum(1 for _ in next(iter(gradient._memory._entries.values())).value) <= 64


def test_branches_of_what_is_not_differentiated() -> None:
    """Another value of the same side needs no new trace."""

    def f(w: Any, t: Any, mode: str = "a") -> Any:
        return w @ w * (t if t > 0 else t**2) * (2 if mode == "a" else 1)

    gradient = ed.gradient(f)
    w = np.array([1.0, 2.0])
    for t in (0.5, 1.5, -2.0, -3.0, 2.5):
        assert np.allclose(gradient(w, t), 4 * w * (t if t > 0 else t**2))
    assert gradient.traces == 2


def test_a_captured_array_that_changes_is_seen_in_each_branch() -> None:
    scale = np.array([1.0, 2.0])
    gradient = ed.gradient(lambda x: (scale * x).sum() if x[0] > scale[0] else x[1] * scale[1] ** 2)
    low, high = np.array([0.0, 1.0]), np.array([5.0, 1.0])
    assert gradient(low).tolist() == [0, 4]
    assert gradient(high).tolist() == [1, 2]
    scale[:] = [6.0, 3.0]
    assert gradient(low).tolist() == [0, 9]
    assert gradient(high).tolist() == [0, 9]
    scale[0] = 1.0
    assert gradient(high).tolist() == [1, 3]


def test_a_singular_matrix_of_the_other_branch() -> None:
    def f(A: Any) -> Any:
        if np.linalg.det(A) == 0:
            return A.sum()
        inverse = np.linalg.inv(A)
        return inverse[0, 0] if inverse[0, 0] > 0 else inverse[1, 1]

    gradient = ed.gradient(f)
    for _ in range(4):
        assert np.allclose(gradient(np.diag([2.0, 4.0])), [[-0.25, 0], [0, 0]])
        assert np.allclose(gradient(np.zeros((2, 2))), np.ones((2, 2)))
    assert gradient.traces == 2
