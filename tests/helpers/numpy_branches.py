"""Functions of vectors with branches, loops, buffers, views and masks, written as people write them for NumPy."""

from __future__ import annotations

import math

import numpy as np

FUNCTIONS = {}
tiny = 1.0e-15
T = np.linspace(-1.0, 2.0, 7)
A0 = np.array([[4.0, 1.0, 0.3, 0.1], [1.0, 5.0, 0.2, 0.4], [0.3, 0.2, 6.0, 0.7], [0.1, 0.4, 0.7, 3.0]])


def function(f):
    FUNCTIONS[f.__name__] = f
    return f


# Branches


@function
def gaussian(x):
    amplitude, center, sigma, _ = x
    exponent = -((1.0 * T - center) ** 2) / max(tiny, 2 * sigma**2)
    return np.sum((amplitude / max(tiny, 2.5 * sigma)) * np.exp(exponent))


@function
def huber(x):
    total = 0.0
    for r in x:
        if abs(r) <= 0.7:
            total += 0.5 * r * r
        else:
            total += 0.7 * (abs(r) - 0.35)
    return total


@function
def early_return(x):
    if x[0] < 0:
        return x[1] ** 2
    if x[0] < 0.5 and not x[1] > x[2]:
        return x[0] * x[1]
    return np.exp(x[0]) + x[3]


@function
def clamp_by_hand(x):
    low, high = -0.5, 0.8
    return sum(min(max(v, low), high) ** 3 for v in x)


@function
def chained_comparison(x):
    return x @ x if -0.3 < x[0] <= 0.4 else (x[0] or x[1]) * x[2]


@function
def sign_of_product(x):
    s = np.sign(x[0] * x[1])
    return s * x[2] ** 2 if s != 0 else x[3]


@function
def any_and_all(x):
    if np.any(x > 1.0) or (x < -1.2).all():
        return np.sum(x**3)
    if np.allclose(x, 0):
        return 0.0 * x[0]
    return x.prod()


@function
def while_loop(x):
    y = x.copy()
    while np.linalg.norm(y) > 0.5:
        y = 0.6 * y + 0.01
    return np.sum(np.sin(y))


@function
def newton_root(x):
    z = 1.0 + x[0] ** 2
    a = 2.0 + x[1] ** 2
    for _ in range(50):
        step = (z * z - a) / (2 * z)
        z = z - step
        if abs(step) < 1e-12:
            break
    return z


@function
def bisection(x):
    a = 1.5 + x[0] ** 2
    low, high = 0.0, a
    while high - low > 0.3:
        middle = (low + high) / 2
        if middle**2 > a:
            high = middle
        else:
            low = middle
    return low * x[1] + high


@function
def recursion(x):
    def power(v, n):
        if n == 0:
            return 1.0
        return v * power(v, n - 1) if v > 0 else power(-v, n)

    return power(x[0], 3) + power(x[1], 2)


@function
def largest_entry(x):
    k = np.argmax(np.abs(x))
    return x[k] ** 2 + x[k - 1]


@function
def integer_part(x):
    n = int(3 * x[0])
    return (n + 1) * x[1] ** 2 + math.floor(2 * x[2]) * x[0] + round(x[3]) * x[1]


@function
def count_dependent(x):
    n = np.sum(x > 0)
    return np.sum(x) / max(n, 1) + n * x[0]


@function
def ternaries(x):
    return np.array([v**2 if v > 0 else -v if v < -0.5 else 0.1 * v for v in x]) @ np.arange(1.0, 5.0)


@function
def loop_over_sign(x):
    total = 0
    for i, v in enumerate(x):
        for w in x[i + 1 :]:
            total += (v - w) ** 2 if v > w else 0.5 * (w - v)
    return total


@function
def isfinite_guard(x):
    y = np.log(np.abs(x))
    return y[np.isfinite(y)].sum() if np.isfinite(y).all() else np.nan


@function
def math_functions(x):
    angle = math.sin(float(x[2])) + math.atan2(x[3], 2.0)
    return math.exp(x[0]) + math.sqrt(1 + x[1] ** 2) * angle + math.log(9 + x[0])


@function
def compare_norms(x):
    a, b = np.linalg.norm(x[:2]), np.linalg.norm(x[2:])
    return (a - b) ** 3 if a > b else (b - a) / (1 + a)


@function
def membership(x):
    kind = "large" if x.max() > 1 else "small"
    weights = {"large": 2.0, "small": -1.0}
    return weights[kind] * x @ x


@function
def sorted_python(x):
    s = sorted(x, reverse=True)
    return s[0] * s[1] - s[-1] ** 2


@function
def max_with_key(x):
    best = max(x, key=lambda v: -((v - 0.2) ** 2))
    return best**3


@function
def divmod_of_values(x):
    q, r = divmod(4 * x[0], 1.0)
    return r * x[1] + q * x[2]


@function
def exceptions(x):
    try:
        if x[0] > 0.5:
            raise ValueError("too large")
        return x[0] * x[1]
    except ValueError:
        return x[2] ** 2


# Masks and order


@function
def masked_sum(x):
    return np.sum(x[x > 0.1] ** 2) - np.sum(x[x <= 0.1])


@function
def masked_assignment(x):
    y = x**2
    y[x < 0] = -x[x < 0]
    y[(x > 0.3) & (x < 0.9)] *= 3
    return y.sum() + y[0] * x[1]


@function
def where_places(x):
    (i,) = np.where(x > 0)
    return x[i].sum() * 2 + len(i) * x[0]


@function
def nonzero_mean(x):
    positive = x[np.nonzero(x > -0.2)]
    return positive.mean() if positive.size else x[0]


@function
def sorting(x):
    return np.sort(x) @ np.array([1.0, -2.0, 3.0, 0.5])


@function
def argsort_weights(x):
    order = np.argsort(-x)
    return np.sum(x[order] * np.cumsum(np.ones(4)) ** 2)


@function
def sort_in_place(x):
    y = x * 2
    y.sort()
    return y[-1] * y[0]


@function
def medians(x):
    return np.median(x) + np.percentile(x, 30) + np.quantile(x**2, 0.8)


@function
def top_two(x):
    return np.sum(x[np.argpartition(x, 2)[2:]] ** 2)


@function
def unique_entries(x):
    return np.sum(np.unique(x) * np.arange(1.0, 5.0))


@function
def table_lookup(x):
    return np.interp(x, T, T**2).sum() + np.interp(0.3, np.array([0.0, 1.0]), x[:2])


@function
def search_in_grid(x):
    k = np.searchsorted(T, np.clip(x[0], -0.9, 1.9))
    w = (x[0] - T[k - 1]) / (T[k] - T[k - 1])
    return w * x[1] + (1 - w) * x[2]


@function
def digitized(x):
    bins = np.digitize(x, [-0.5, 0.0, 0.5])
    return np.sum(np.array([1.0, 2.0, -1.0, 3.0])[bins] * x)


@function
def select_and_piecewise(x):
    a = np.select([x < -0.3, x < 0.5], [x**2, 2 * x], default=x**3)
    b = np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: np.sqrt(t)])
    return a.sum() + b @ x


@function
def vectorized(x):
    f = np.vectorize(lambda t: t * t if t > 0 else 0.2 * t)
    return f(x).sum()


@function
def along_axis(x):
    return np.apply_along_axis(lambda r: r.max() - r[0] ** 2, 1, x.reshape(2, 2)).sum()


@function
def running_maximum(x):
    best, total = x[0], 0.0
    for v in x[1:]:
        best = max(best, v)
        total += best * v
    return total


@function
def winsorized(x):
    low, high = np.sort(x)[[1, 2]]
    y = x.copy()
    y[y < low] = low
    y[y > high] = high
    return np.sum(y**2)
