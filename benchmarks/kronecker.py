"""`H_ijkl = Σ_b x_bi x_bk M_bjl`, the Hessian of a loss of `x_b' W` by W, written by hand in several ways.

`x` has shape (b, n) and `M`, symmetric in its last two axes, (b, q, q); H has shape (n, q, n, q).
"""

from __future__ import annotations

import numpy as np

from benchmarks.problem import Array

BLOCK = 4  # values of i that are mirrored together


def batched(x: Array, M: Array) -> Array:
    """Small products `(k, b) (b, l)` for each i and j, straight into place."""
    pairs = x.T[:, None, :] * x.T
    return pairs[:, None] @ M.transpose(1, 0, 2)


def outer(x: Array, M: Array) -> Array:
    """A single sample: an outer product of x with what all i have in common."""
    return np.multiply.outer(x[0], M[0][:, None, :] * x[0][:, None])


def half(x: Array, M: Array) -> Array:
    """Small products for k ≥ i only; the rest is mirrored."""
    n, q = x.shape[1], M.shape[1]
    H = np.empty((n, q, n, q))
    rows, slices = np.ascontiguousarray(x.T), np.ascontiguousarray(M.transpose(1, 0, 2))
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        for i in range(start, end):
            np.matmul(rows[start:] * rows[i], slices, out=H[i, :, start:])
        H[end:, :, start:end] = H[start:end, :, end:].transpose(2, 1, 0, 3)
    return H


def packed(x: Array, M: Array) -> Array:
    """One product for each i, k ≥ i and j ≤ l only, a quarter of all, copied to all its places."""
    n, q = x.shape[1], M.shape[1]
    H, full = np.empty((n, q, n, q)), np.empty((q, q), int)
    rows, columns = np.triu_indices(q)
    full[rows, columns] = full[columns, rows] = np.arange(len(rows))
    flat = np.ascontiguousarray(M[:, rows, columns])
    for i in range(n):
        triangles = (x[:, i:] * x[:, i : i + 1]).T @ flat
        block = triangles.take(full, axis=1)
        H[i, :, i:] = block.transpose(1, 0, 2)
        H[i + 1 :, :, i] = block[1:]
    return H
