"""NumPy functions run beside their values: branches, masks and buffers, and a program for each branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from numpy_branches import FUNCTIONS

POINTS = 20
ONE_BRANCH = {
    "math_functions", "newton_root", "padded", "filled_in_loop", "other_names", "out_arguments", "copy_of_outside",
    "cholesky_by_hand", "gram_schmidt", "heat_equation", "scattered_sums", "symmetric_fill", "transposed_views",
    "swapped_rows", "isfinite_guard", "differences", "gaussian", "elimination", "power_iteration",
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
    for _ in range(POINTS):
        x = rng.normal(size=4) * 0.8
        x[2] = abs(x[2]) + 0.3 if name == "gaussian" else x[2]
        assert agrees(f, x, gradient(x)), x
    assert (gradient.traces > 1) or name in ONE_BRANCH
    count = gradient.traces
    assert agrees(f, x, gradient(x))
    assert gradient.traces == count
