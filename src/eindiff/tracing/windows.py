"""Padding, windows and convolutions: contractions with index maps.

The places of a window are k = stride i + apart j.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing
from eindiff.functions import multilinear as arrays
from eindiff.tracing.places import Place, scattered


def lines(starts: Sequence[int], counts: Sequence[Any], strides: Sequence[int]) -> list[Place]:
    """Every so many entries of each axis."""
    each = enumerate(zip(starts, counts, strides, strict=True))
    return [Place((k,), start + stride * np.arange(int(count))) for k, (start, count, stride) in each]


def padded(x: Expr, value: Any, widths: Sequence[tuple[int, int, int]]) -> Expr:
    """x with entries before, behind and between along each axis; negative numbers take entries away."""
    widths = [(int(low), int(high), int(between)) for low, high, between in widths]
    x = _spread(x, value, [(max(0, low), max(0, high), between) for low, high, between in widths])
    if any(low < 0 or high < 0 for low, high, _ in widths):
        ends = [int(n) + min(0, high) for n, (_, high, _) in zip(x.shape, widths, strict=True)]
        x = x[tuple([slice(max(0, -low), end) for (low, _, _), end in zip(widths, ends, strict=True)])]
    return x


def _spread(x: Expr, value: Any, widths: Sequence[tuple[int, int, int]]) -> Expr:
    """x with entries before, behind and between."""
    if not any(map(any, widths)):
        return x
    sizes = [int(n) for n in x.shape]
    shape = [low + high + n + (n - 1) * between for n, (low, high, between) in zip(sizes, widths, strict=True)]
    places = lines([low for low, _, _ in widths], sizes, [between + 1 for _, _, between in widths])
    found = scattered(x, places, shape)
    if not isinstance(value, Expr) and value == 0:
        return found
    inside = np.zeros([n if any(width) else 1 for n, width in zip(shape, widths, strict=True)])
    inside[np.ix_(*[place.index if any(width) else [0] for place, width in zip(places, widths, strict=True)])] = 1
    return functions.where(arrays.as_expr(inside), found, value)


def windows(x: Expr, axes: Sequence[int], sizes: Sequence[int], strides: Sequence[int], apart: Sequence[int]) -> Expr:
    """All windows along some axes, which count the windows then; the places inside of a window come last."""
    output, last, lengths = list(range(x.ndim)), list[int](), dict[int, Any](enumerate(x.shape))
    factors: list[Factor] = [(x, tuple(output))]
    for axis, size, stride, distance in zip(axes, sizes, strides, apart, strict=True):
        length, place, inside = int(x.shape[axis]), len(lengths), len(lengths) + 1
        count = (length - distance * (size - 1) - 1) // stride + 1
        lengths |= {place: count, inside: size}
        chosen = IndexMap(length, (count, size), 0, (stride, distance))
        factors.append((construct.constant(chosen), (axis, place, inside)))
        output[axis] = place
        last.append(inside)
    return construct.einsum(1, factors, (*output, *last), lengths)


def convolution(x: Expr, kernel: Expr, strides: Sequence[int], apart: Sequence[int], groups: int = 1) -> Expr:
    """x[b, c, s h + d k] K[o, c, k], summed over channels c and places k in the window; channels are in groups."""
    count = kernel.ndim - 2
    patches = windows(x, range(2, x.ndim), [int(n) for n in kernel.shape[2:]], strides, apart)
    places, inside = "pqr"[:count], "xyz"[:count]
    if groups == 1:
        return arrays.einsum(f"bc{places}{inside},oc{inside}->bo{places}", patches, kernel)
    patches = indexing.reshape(patches, (patches.shape[0], groups, -1, *patches.shape[2:]))
    kernel = indexing.reshape(kernel, (groups, -1, *kernel.shape[1:]))
    result = arrays.einsum(f"bgc{places}{inside},goc{inside}->bgo{places}", patches, kernel)
    return indexing.reshape(result, (result.shape[0], -1, *result.shape[3:]))
