"""The types that NumPy gives to results: truth values add up as `or`, and integers take no numbers with a fraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.shapes import FUNCTIONS as SHAPES

FLOAT = np.dtype(float)
_LIKE = frozenset({"copy", "zeros_like", "ones_like", "empty_like", "full_like", "imag", "max", "min", "amax", "amin"})


def _types(value: Any) -> list[Any]:
    """The types of numbers and arrays, in nested lists too; those of Python's own numbers adapt to others."""
    if isinstance(value, list | tuple):
        return [kind for part in value for kind in _types(part)]
    if type(value) in (bool, int, float):
        return [type(value)]
    return [np.dtype(getattr(value, "dtype", FLOAT))]


def result_type(*values: Any) -> np.dtype:
    """The type of an array that holds all values."""
    kinds = [kind(0) if isinstance(kind, type) else kind for value in values for kind in _types(value)]
    return np.result_type(*kinds) if kinds else FLOAT


def ufunc_type(ufunc: np.ufunc, method: str, inputs: Sequence[Any]) -> np.dtype:
    """The type of what a ufunc gives."""
    if method in ("reduce", "accumulate"):
        kind = result_type(inputs[0])
        return np.dtype(int) if kind.kind == "b" and ufunc in (np.add, np.multiply) else kind
    if method not in ("__call__", "outer") or len(inputs) != ufunc.nin:
        return FLOAT
    kinds = [found[0] if len(found := _types(value)) == 1 else result_type(value) for value in inputs]
    try:
        kinds = [np.dtype(bool) if kind is bool else kind for kind in kinds]
        return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))[ufunc.nin]
    except TypeError as error:
        raise EindiffError(f"np.{ufunc.__name__} of {', '.join(map(str, kinds))}: {error}", "tracing") from None


def of_type(ufunc: np.ufunc, dtype: np.dtype, method: str) -> np.ufunc:
    """The ufunc that does the same with numbers 0 and 1 for truth values; bits of integers have no form."""
    if dtype.kind == "b" and ufunc is np.add and method == "__call__":
        return np.logical_or
    if dtype.kind in "iu" and ufunc in (np.invert, np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        raise EindiffError(
            f"np.{ufunc.__name__} of integers works on their bits, which have no symbolic form", "tracing"
        )
    return ufunc


def function_type(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> np.dtype:
    """The type of what a function gives."""
    if keywords.get("dtype") is not None:
        return np.dtype(keywords["dtype"])
    if name in ("where", "append"):
        return result_type(*args[-2:])
    return result_type(args[0]) if args and (name in _LIKE or name in SHAPES) else FLOAT
