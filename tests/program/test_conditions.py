"""Which of two is greater, of many entries: without functions that take a branch for each of them."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed

AT = np.tile([-1.5, 0.0, 2.0, np.inf, np.nan, 0.5], 60)
OTHER = np.tile([-1.5, 1.0, 0.0, 7.0, 0.0, np.nan], 60)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [6, 360])
def test_slopes_of_maxima_are_halves_at_ties(count: int, dtype: str) -> None:
    x, y = ed.vector("x", count), ed.vector("y", count)
    a, b = AT[:count].astype(dtype), OTHER[:count].astype(dtype)
    for one, given, other in ((ed.maximum(x, y), {"x": a, "y": b}, b), (ed.maximum(x, 0), {"x": a}, 0 * b[:1])):
        program = ed.compile(ed.gradient(ed.sum(one), x), dtype=dtype)
        found = program(**given)
        np.testing.assert_array_equal(found, np.heaviside(a - other, 0.5))
        assert found.dtype == dtype
        assert ("heaviside" in program.source) == (count < 256)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [6, 360])
def test_choices_between_one_and_zero_are_conditions(count: int, dtype: str) -> None:
    x, y = ed.vector("x", count), ed.vector("y", count)
    a, b = AT[:count].astype(dtype), OTHER[:count].astype(dtype)
    for first, second in ((1, 0), (0, 1)):
        program = ed.compile(ed.where(x > y, first, second), dtype=dtype)
        assert "where" not in program.source
        found = program(x=a, y=b)
        np.testing.assert_array_equal(found, np.where(a > b, first, second))
        assert found.dtype == dtype
