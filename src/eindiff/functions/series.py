"""Divided differences in numbers, from the Taylor coefficients that rows of elementwise functions have.

Programs have the source of these functions in them, with another library's name for NumPy's (`source`): so they are
written with what all libraries have in common.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from eindiff.core.function import Function

Array = Any


def integral(first: Array, c: list) -> list:
    """The coefficients of a function from its value and those of its derivative."""
    return [first, *(c[k] / (k + 1) for k in range(len(c)))]


def waves(c: list, n: int, sign: int) -> list:
    """The coefficients of a function that is its own second derivative, up to a sign, from the first two."""
    for k in range(2, n + 1):
        c.append(sign * c[k - 2] / (k * (k - 1)))
    return c


def slope(series: Callable, x: Array, y: Array, values: tuple, kink: bool) -> Array:
    """f[x, y] from the values at x and y, or a Taylor series around the mean, as in `differences`."""
    gap = x - y
    far = (values[0] - values[1]) / np.where(gap == 0, 1 + gap, gap)
    if kink:
        return np.where(gap == 0, series(x, 1)[1] + 0 * gap, far)
    c = series((x + y) / 2, 7)
    d = gap * gap / 4
    near = c[1] + d * (c[3] + d * (c[5] + d * c[7])) + 0 * (values[0] + values[1])  # NaN outside of the domain
    return np.where(np.abs(c[7] * gap) * d * d * d > 1e-16 * (np.abs(values[0]) + np.abs(values[1])), far, near)


def differences(series: Callable, points: tuple, kink: bool) -> Array:
    """f[x0, ..., xk], by the recursion over the two points furthest apart or a Taylor series around their mean.

    That of the two is taken whose error, by rounding or truncation, is estimated to be smaller. A function with a kink
    is linear elsewhere, so the recursion is exact; only where all points are the same it takes the derivative.
    """
    found: dict[tuple, Array] = {}
    for k in range(len(points)):
        for chosen in combinations(range(len(points)), k + 1):
            x = [points[i] for i in chosen]
            if k < 2:
                values = tuple([found[i,] for i in chosen]) if k else ()
                found[chosen] = slope(series, x[0], x[1], values, kink) if k else series(x[0], 1)[0]
                continue
            far = widest = 0 * sum(x)
            for i, j in combinations(range(k + 1), 2):
                gap = x[i] - x[j] + widest * 0
                one = found[chosen[:j] + chosen[j + 1 :]] - found[chosen[:i] + chosen[i + 1 :]]
                far = np.where(np.abs(gap) > widest, one / np.where(gap == 0, 1 + gap, gap), far)
                widest = np.where(np.abs(gap) > widest, np.abs(gap), widest)
            centre = sum(x) / (k + 1)
            c = series(centre, k + 7)[k:]
            p2, p3, p4, p5, p6, p7 = [sum((y - centre) ** power for y in x) for power in range(2, 8)]
            near = 0 * sum(found[i,] for i in chosen) + c[0] + c[2] * p2 / 2 + c[3] * p3 / 3
            near = near + c[4] * (p4 / 4 + p2 * p2 / 8) + c[5] * (p5 / 5 + p2 * p3 / 6)
            near = near + c[6] * (p6 / 6 + p2 * p4 / 8 + p3 * p3 / 18 + p2 * p2 * p2 / 48)
            near = near + c[7] * (p7 / 7 + p2 * p5 / 10 + p3 * p4 / 12 + p2 * p2 * p3 / 24)
            spread = np.sqrt(p2)
            truncated = widest if kink else (np.abs(c[6]) + 8 * np.abs(c[7]) * spread) * spread ** (k + 6)
            rounded = 0 if kink else 1e-16 * sum(np.abs(found[i,]) for i in chosen)
            found[chosen] = np.where(truncated > rounded, far, near)
    return found[tuple(range(len(points)))]


INNER = frozenset({"integral", "slope", "waves"})  # what series and differences use besides each other


def divided_value(function: Function) -> Callable[..., Array]:
    """The divided difference of a function as a function of arrays."""

    def value(*points: Array) -> Array:
        assert function.series is not None
        with np.errstate(all="ignore"):
            arrays = tuple([np.asarray(point, dtype=float) for point in points])
            return differences(function.series, arrays, function.kink)

    return value


def source(function: Function) -> str:
    """The definition of `divided_<name>` in a program."""
    assert function.series is not None
    head = f'''
def divided_{function.name}(*points):
    """The divided difference of {function.name} over some points, which may be equal."""
    return differences({function.series.__name__}, points, {function.kink})
'''
    found: list[Any] = [differences, function.series]
    for one in found:
        inner = [name for name in one.__code__.co_names if name.startswith("series_") or name in INNER]
        found += [one.__globals__[name] for name in inner]
    texts = [_bare(one) for one in dict.fromkeys(reversed(found))]
    return "\n\n\n".join(["\nfrom itertools import combinations", *texts, head.strip()]) + "\n"


def _bare(function: Callable) -> str:
    """The source of a function without its annotations."""
    tree = ast.parse(inspect.getsource(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree)
