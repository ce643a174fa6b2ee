"""Divided differences in numbers, from the Taylor coefficients of elementwise functions.

Programs have the source of these functions in them, with another library's name for NumPy's (`source`): so they are
written with what all libraries have in common. A `series` gives the coefficients of degrees 0 to n at t.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

Array = Any


class special:  # noqa: N801 (the name that programs have for it)
    """SciPy's functions, which are imported when one is first needed: that takes long."""

    @staticmethod
    def erf(x: Array) -> Array:
        from scipy import special

        return special.erf(x)

    @staticmethod
    def expit(x: Array) -> Array:
        from scipy import special

        return special.expit(x)


def integral(first: Array, c: list) -> list:
    """The coefficients of a function from its value and those of its derivative."""
    return [first, *(c[k] / (k + 1) for k in range(len(c)))]


def series_exp(t: Array, n: int) -> list:
    c = [np.exp(t)]
    for k in range(1, n + 1):
        c.append(c[-1] / k)
    return c


def series_expm1(t: Array, n: int) -> list:
    return [np.expm1(t), *series_exp(t, n)[1:]]


def series_log(t: Array, n: int) -> list:
    return integral(np.log(t), [(-1) ** k / t ** (k + 1) for k in range(n)])


def series_log1p(t: Array, n: int) -> list:
    return integral(np.log1p(t), [(-1) ** k / (1 + t) ** (k + 1) for k in range(n)])


def waves(c: list, n: int, sign: int) -> list:
    """The coefficients of a function that is its own second derivative, up to a sign, from the first two."""
    for k in range(2, n + 1):
        c.append(sign * c[k - 2] / (k * (k - 1)))
    return c


def series_sin(t: Array, n: int) -> list:
    return waves([np.sin(t), np.cos(t)], n, -1)


def series_cos(t: Array, n: int) -> list:
    return waves([np.cos(t), -np.sin(t)], n, -1)


def series_sinh(t: Array, n: int) -> list:
    return waves([np.sinh(t), np.cosh(t)], n, 1)


def series_cosh(t: Array, n: int) -> list:
    return waves([np.cosh(t), np.sinh(t)], n, 1)


def series_tan(t: Array, n: int) -> list:
    c = [np.tan(t)]
    for k in range(n):
        c.append((int(k == 0) + sum(c[i] * c[k - i] for i in range(k + 1))) / (k + 1))
    return c


def series_tanh(t: Array, n: int) -> list:
    c = [np.tanh(t)]
    for k in range(n):
        c.append((int(k == 0) - sum(c[i] * c[k - i] for i in range(k + 1))) / (k + 1))
    return c


def series_sigmoid(t: Array, n: int) -> list:
    c, rest = [special.expit(t)], [special.expit(-t)]
    for k in range(n):
        c.append(sum(c[i] * rest[k - i] for i in range(k + 1)) / (k + 1))
        rest.append(-c[-1])
    return c


def series_softplus(t: Array, n: int) -> list:
    return integral(np.log1p(np.exp(-np.abs(t))) + (t + np.abs(t)) / 2, series_sigmoid(t, n - 1))


def series_erf(t: Array, n: int) -> list:
    c = [1.1283791670955126 * np.exp(-t * t)]
    for k in range(n - 1):
        c.append(-2 * (t * c[k] + (c[k - 1] if k else 0)) / (k + 1))
    return integral(special.erf(t), c)


def series_arctan(t: Array, n: int) -> list:
    c = [1 / (1 + t * t)]
    for k in range(1, n):
        c.append(-(2 * t * c[k - 1] + (c[k - 2] if k > 1 else 0)) * c[0])
    return integral(np.arctan(t), c)


def series_arcsin(t: Array, n: int) -> list:
    c = [1 / np.sqrt((1 - t) * (1 + t))]
    for k in range(n - 1):
        c.append(((2 * k + 1) * t * c[k] + (k * c[k - 1] if k else 0)) * c[0] * c[0] / (k + 1))
    return integral(np.arcsin(t), c)


def series_arccos(t: Array, n: int) -> list:
    return [np.arccos(t), *(-c for c in series_arcsin(t, n)[1:])]


def series_abs(t: Array, n: int) -> list:
    return [np.abs(t), np.sign(t), *[0 * t] * n]


def series_sign(t: Array, n: int) -> list:
    return [np.sign(t), *[0 * t] * n]


def series_relu(t: Array, n: int) -> list:
    return [(t + np.abs(t)) / 2, np.where(t > 0, 1 + 0 * t, 0 * t), *[0 * t] * n]


def series_step(t: Array, n: int) -> list:
    return [np.where(t > 0, 1 + 0 * t, 0 * t), *[0 * t] * n]


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


SERIES: dict[str, Callable] = {
    name.removeprefix("series_"): value for name, value in list(globals().items()) if name.startswith("series_")
}
INNER = frozenset({"integral", "slope", "waves"})  # what the functions above use besides each other
KINKS = frozenset({"abs", "sign", "relu", "step"})


def divided_value(name: str) -> Callable[..., Array]:
    """The divided difference of a function as a function of arrays."""

    def value(*points: Array) -> Array:
        with np.errstate(all="ignore"):
            arrays = tuple([np.asarray(point, dtype=float) for point in points])
            return differences(SERIES[name], arrays, name in KINKS)

    return value


def source(name: str) -> str:
    """The definition of `divided_<name>` in a program."""
    head = f'''
def divided_{name}(*points):
    """The divided difference of {name} over some points, which may be equal."""
    return differences(series_{name}, points, {name in KINKS})
'''
    names = ["differences", f"series_{name}"]
    for one in names:
        names += [x for x in globals()[one].__code__.co_names if x.startswith("series_") or x in INNER]
    texts = [_bare(globals()[one]) for one in dict.fromkeys(reversed(names))]
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
