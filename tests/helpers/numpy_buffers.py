"""Functions of vectors with buffers, views and changes in place, written as people write them for NumPy."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy import asarray, empty, zeros

from numpy_branches import A0, function

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
    for _ in range(2):
        new = u.copy()
        for i in range(1, len(u) - 1):
            new[i] = u[i] - 0.1 * u[i] * (u[i] - u[i - 1] if u[i] > 0 else u[i + 1] - u[i])
        u = new
    return np.sum(u**2)


@function
def runge_kutta(x):
    def f(y):
        return np.array([y[1], -np.sin(y[0]) * x[2] - (0.3 * y[1] if y[1] > 0 else 0.1 * y[1])])

    y, path = np.array([x[0], x[1]]), np.zeros((3, 2))
    for k in range(3):
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
