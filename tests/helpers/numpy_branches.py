"""Functions of vectors with branches, loops, buffers, views and masks, written as people write them for NumPy."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from numpy import asarray, empty, zeros

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


# Buffers and views


@function
def padded(x):
    out = np.zeros(6)
    out[1:-1] = x
    return np.sum((out[2:] - 2 * out[1:-1] + out[:-2]) ** 2)


@function
def filled_in_loop(x):
    y = empty(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + x[i] ** 2
    return y[-1] + y.mean()


@function
def other_names(x):
    a = zeros((2, 4))
    b = a[1]
    c = b[::-1]
    b += x
    c[0] *= 3
    a[0] = b**2
    return a.sum() * a[1, 3]


@function
def out_arguments(x):
    buffer = np.empty(4)
    np.multiply(x, x, out=buffer)
    np.add(buffer, 1.0, out=buffer)
    return np.log(buffer).sum() + np.sum(buffer, out=np.zeros(()))


@function
def copy_of_outside(x):
    A = A0.copy()
    A[0, 1] = A[1, 0] = x[0]
    A[np.diag_indices(4)] += x**2
    return np.linalg.slogdet(A)[1]


@function
def elimination(x):
    A, b = A0.copy() + np.outer(x, x), x.copy()
    n = len(b)
    for k in range(n):
        p = k + int(np.argmax(np.abs(A[k:, k])))
        if p != k:
            A[[k, p]] = A[[p, k]]
            b[[k, p]] = b[[p, k]]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            A[i, k:] -= f * A[k, k:]
            b[i] -= f * b[k]
    z = np.zeros(n)
    for i in reversed(range(n)):
        z[i] = (b[i] - A[i, i + 1 :] @ z[i + 1 :]) / A[i, i]
    return z.sum()


@function
def cholesky_by_hand(x):
    A = A0 + np.diag(x**2)
    L = np.zeros_like(A)
    for i in range(4):
        for j in range(i + 1):
            s = A[i, j] - L[i, :j] @ L[j, :j]
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    return np.sum(np.log(np.diag(L)))


@function
def gram_schmidt(x):
    Q = np.eye(4) + 0.1 * np.outer(x, np.arange(4))
    for k in range(4):
        for j in range(k):
            Q[:, k] -= (Q[:, j] @ Q[:, k]) * Q[:, j]
        Q[:, k] /= np.linalg.norm(Q[:, k])
    return Q[0] @ Q[1] + Q.sum()


@function
def heat_equation(x):
    u = np.zeros(8)
    u[2:6] = x
    for _ in range(5):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u @ u


@function
def upwind(x):
    u = np.concatenate([[0.0], x, [0.0]])
    for _ in range(3):
        new = u.copy()
        for i in range(1, len(u) - 1):
            new[i] = u[i] - 0.1 * u[i] * (u[i] - u[i - 1] if u[i] > 0 else u[i + 1] - u[i])
        u = new
    return np.sum(u**2)


@function
def runge_kutta(x):
    def f(y):
        return np.array([y[1], -np.sin(y[0]) * x[2] - (0.3 * y[1] if y[1] > 0 else 0.1 * y[1])])

    y, path = np.array([x[0], x[1]]), np.zeros((5, 2))
    for k in range(5):
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        y = y + 0.1 * k2
        path[k] = y
    return path[-1, 0] + np.sum(path[:, 1] ** 2)


@function
def warping_distance(x):
    b = np.array([0.1, 0.5, -0.4])
    D = np.full((5, 4), np.inf)
    D[0, 0] = 0.0
    for i in range(1, 5):
        for j in range(1, 4):
            D[i, j] = (x[i - 1] - b[j - 1]) ** 2 + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[-1, -1]


@function
def viterbi(x):
    scores = np.stack([x, x[::-1] * 0.7, 0.1 + x**2])
    best, steps = scores[:, 0], []
    for t in range(1, 4):
        moves = best[:, None] + np.array([[0.5, 0.1, 0.0], [0.2, 0.6, 0.1], [0.0, 0.3, 0.4]])
        steps.append(moves.argmax(0))
        best = moves.max(axis=0) + scores[:, t]
    return best[np.argmax(best)]


@function
def splines(x):
    knots = np.arange(-3.0, 5.0)

    def basis(t, i, k):
        if k == 0:
            return 1.0 if knots[i] <= t < knots[i + 1] else 0.0
        left = (t - knots[i]) / (knots[i + k] - knots[i]) * basis(t, i, k - 1)
        return left + (knots[i + k + 1] - t) / (knots[i + k + 1] - knots[i + 1]) * basis(t, i + 1, k - 1)

    return sum(basis(x[0], i, 2) * x[i % 4] for i in range(5))


@function
def scattered_sums(x):
    out = np.zeros(3)
    np.add.at(out, [0, 1, 1, 2], x**2)
    return out @ np.bincount([0, 2, 2, 1], weights=x, minlength=3)


@function
def symmetric_fill(x):
    S = np.zeros((3, 3), order="F")
    S[np.triu_indices(3, 1)] = x[:3]
    S += S.T
    np.fill_diagonal(S, x[3])
    return np.trace(S @ S @ S)


@function
def transposed_views(x):
    M = x.reshape(2, 2).copy()
    M.T[0] += 1
    M[:, 1] = M[:, 0] * M[:, 1]
    v = M.ravel()
    v[0] = 5.0
    return np.sum(M**2)


@function
def swapped_rows(x):
    M = np.outer(x, x)
    M[[0, 2]] = M[[2, 0]]
    M[0], M[1] = M[1].copy(), M[0].copy()
    return M[0] @ M[1] + M[2, 3]


@function
def lists_of_entries(x):
    rows = []
    for i in range(4):
        if x[i] > -0.4:
            rows.append([x[i], x[i] ** 2])
    return np.array(rows).sum() if rows else x.sum()


@function
def relu_network(x):
    W = np.arange(12.0).reshape(3, 4) / 10 - 0.5
    h = asarray(W @ x)
    h[h < 0] *= 0.1
    return np.sum(h**2)


@function
def pool_adjacent_violators(x):
    blocks = [[v, 1] for v in x]
    i = 0
    while i < len(blocks) - 1:
        if blocks[i][0] > blocks[i + 1][0]:
            a, b = blocks[i], blocks[i + 1]
            blocks[i : i + 2] = [[(a[0] * a[1] + b[0] * b[1]) / (a[1] + b[1]), a[1] + b[1]]]
            i = max(i - 1, 0)
        else:
            i += 1
    return sum(n * v**2 for v, n in blocks)


@function
def power_iteration(x):
    A, v = A0 + np.diag(x), np.ones(4)
    old = 0.0
    for _ in range(200):
        v = A @ v
        v /= np.sqrt(v @ v)
        value = v @ A @ v
        if abs(value - old) < 1e-3:
            break
        old = value
    return value


@function
def polynomial_with_reduce(x):
    return reduce(lambda total, c: total * 0.7 + (c if c > 0 else 2 * c), x)


@function
def gathered_counts(x):
    counts = np.zeros(3, int)
    for v in x:
        counts[0 if v < -0.3 else 1 if v < 0.4 else 2] += 1
    return float(counts[0]) * x[0] + counts[1] * x[1] ** 2 + np.sum(counts) * x[2]


@function
def nan_values(x):
    y = x.copy()
    y[x.argmin()] = np.nan
    return np.nansum(y**2) + np.nanmax(y) + np.nan_to_num(y)[0] + np.nanmean(y)


@function
def differences(x):
    slopes, spread = np.gradient(x, 0.5), np.cov(x, x**2)[0, 1]
    return np.sum(slopes**2) + np.cumprod(1 + x)[-1] + np.diff(x, n=2) @ np.ediff1d(x)[1:] + spread
