"""What people give to an operator: vectors in several forms, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError, shape_text
from eindiff.structure.grid import Shape
from eindiff.structure.terms import Array


def joined(parts: list[Array], shapes: Sequence[Shape], what: str) -> Array:
    """A tensor for each variable as one column."""
    if [x.shape for x in parts] != list(shapes):
        given = ", ".join(shape_text(x.shape) for x in parts)
        raise EindiffError(f"{what}: the shapes are {given}; they must be {shapes_text(shapes)}", "arrays")
    return np.concatenate([x.reshape(-1) for x in parts])[:, None]


def real_array(value: Any, what: str) -> Array:
    """An array of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise EindiffError(
            f"{what}: an array of numbers is needed; the rows of a list have different lengths",
            "arrays",
        ) from None
    if array.dtype.kind not in "fiub":
        raise EindiffError(f"{what}: an array of real numbers is needed, not of type {array.dtype}", "arrays")
    return array


def finite_number(value: Any, what: str) -> float:
    """A finite real number."""
    try:
        number = float(value) if isinstance(value, Real) or np.ndim(value) == 0 else np.nan
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if isinstance(value, str) or not np.isfinite(number):
        raise EindiffError(f"{what}, which must be finite, not {value!r}", "domain")
    return number


def shapes_text(shapes: Sequence[Shape]) -> str:
    """The shapes of all variables in words."""
    return " and ".join(shape_text(x) for x in shapes)
