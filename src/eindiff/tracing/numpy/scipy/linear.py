"""Functions of SciPy that are linear in an argument, and filters that choose entries, for traced arrays.

A linear function with all other arguments known is a product with its matrix, which SciPy itself gives, column by
column. A filter that chooses entries by their order chooses the same ones among their ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.numpy.traced_array import has_traced
from eindiff.tracing.numpy.values import ask

MOST_SYMBOLS = 4096  # of an argument: its matrix has at least as many rows
_CONVOLUTIONS = ("convolve", "fftconvolve", "oaconvolve", "convolve2d", "correlate", "correlate2d")
_FILTERS = (
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d", "uniform_filter",
    "uniform_filter1d", "sobel", "prewitt", "laplace", "gaussian_laplace", "shift", "zoom", "rotate",
    "affine_transform", "map_coordinates", "spline_filter", "spline_filter1d",
)  # fmt: skip

# By their names inside of `scipy`: the parameter that they are linear in
LINEAR: dict[str, str] = {
    **dict.fromkeys([f"ndimage.{name}" for name in _FILTERS], "input"),
    **dict.fromkeys(["signal.lfilter", "signal.filtfilt", "signal.sosfilt", "signal.sosfiltfilt"], "x"),
    **dict.fromkeys(["signal.savgol_filter", "signal.resample", "signal.resample_poly", "signal.decimate"], "x"),
    **dict.fromkeys([f"fft.{name}" for name in ("dct", "idct", "dst", "idst", "dctn", "idctn")], "x"),
    "signal.detrend": "data",
    **dict.fromkeys(["integrate.simpson", "integrate.cumulative_simpson"], "y"),
    "integrate.romb": "y",
}
CHOOSING = tuple(
    f"ndimage.{name}" for name in ("median_filter", "maximum_filter", "minimum_filter", "rank_filter",
                                   "percentile_filter", "maximum_filter1d", "minimum_filter1d")
)  # fmt: skip


def linear(name: str, original: Callable, parameter: str) -> Callable:
    """A function for traced arrays in the place of one argument."""

    def called(*args: Any, **keywords: Any) -> Any:
        bound = signature(original).bind(*args, **keywords)
        given = dict(bound.arguments)
        x = given.pop(parameter)
        if has_traced([*given.values()]) or not has_traced(x):
            raise EindiffError(f"scipy.{name}: only its argument {parameter} may be symbolic here", "tracing")

        def value(array: np.ndarray) -> np.ndarray:
            bound.arguments[parameter] = array
            found = original(*bound.args, **bound.kwargs)
            if isinstance(found, tuple):
                raise EindiffError(f"scipy.{name} of symbolic arrays: leave zi out, or write the loop out", "tracing")
            return np.asarray(found)

        return by_columns(name, value, x)

    return called


def by_columns(name: str, value: Callable[[np.ndarray], np.ndarray], x: Any) -> Any:
    """A linear function, with a constant added to it, from its values at unit vectors."""
    size, shape = np.size(x), np.shape(x)
    if size > MOST_SYMBOLS:
        raise EindiffError(f"scipy.{name} of {size} symbolic entries: its matrix has at most {MOST_SYMBOLS}", "tracing")
    start = value(np.zeros(shape))
    columns = np.stack([value(unit.reshape(shape)) - start for unit in np.eye(size)])
    return np.tensordot(np.ravel(x), columns, 1) + start


def choosing(name: str, original: Callable) -> Callable:
    """A filter for traced arrays, whose results are some of their entries."""

    def chosen(x: np.ndarray, **keywords: Any) -> np.ndarray:
        order = np.argsort(x, axis=None, kind="stable")
        ranks = np.empty(x.size, int)
        ranks[order] = np.arange(x.size)
        return order[original(ranks.reshape(x.shape), **keywords)]

    def called(*args: Any, **keywords: Any) -> Any:
        given = signature(original).bind(*args, **keywords).arguments
        x = given.pop("input")
        if given.get("mode") == "constant" or given.get("output") is not None:
            raise EindiffError(f"scipy.{name} of symbolic arrays: not with mode='constant' or output", "tracing")
        places = ask(chosen, (x,), given)
        if places is NotImplemented:
            raise EindiffError(f"scipy.{name} chooses entries by their values: give arrays, not shapes", "tracing")
        return np.ravel(x)[places]

    return called


# Convolutions, which are linear in both


def _convolved(a: Any, v: Any) -> Any:
    """The whole convolution of two arrays."""
    found = 0.0
    for place in product(*map(range, np.shape(v))):
        widths = [(k, n - 1 - k) for k, n in zip(place, np.shape(v), strict=True)]
        found = found + np.pad(a, widths) * v[place]
    return found


def convolution(name: str, original: Callable) -> Callable:
    """A convolution or correlation for traced arrays."""

    def called(in1: Any, in2: Any, mode: str = "full", *args: Any, **keywords: Any) -> Any:
        if not has_traced(in2):
            return by_columns(name, lambda x: original(x, in2, mode, *args, **keywords), in1)
        if not has_traced(in1):
            return by_columns(name, lambda x: original(in1, x, mode, *args, **keywords), in2)
        if args or not keywords.keys() <= {"method"}:
            raise EindiffError(f"scipy.{name} of two symbolic arrays: only mode may be given", "tracing")
        whole = _convolved(in1, np.flip(in2) if "correlate" in name else in2)
        return whole[_part(np.shape(in1), np.shape(in2), mode, name.endswith("correlate2d"))]

    return called


def _part(one: Any, two: Any, mode: str, is_late: bool) -> tuple[slice, ...]:
    """The part of the whole convolution of arrays of some shapes that a mode gives: the middle, or one entry later."""
    parts = []
    for m, n in zip(one, two, strict=True):
        count = {"full": m + n - 1, "same": m, "valid": abs(m - n) + 1}[mode]
        start = (m + n - 1 - count + is_late) // 2
        parts.append(slice(start, start + count))
    return tuple(parts)


CONVOLUTIONS = tuple(f"signal.{name}" for name in _CONVOLUTIONS)
