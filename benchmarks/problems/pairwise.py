"""The energy of all pairwise distances of n points in space: a huge intermediate for a small result in JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem

SOFT = 0.01
ENTRIES = 20_000  # of a matrix that is computed at a time


def objective(xp: Any, X: Any) -> Any:
    """`Σ_ij sqrt(‖x_i - x_j‖² + 0.01)`."""
    apart = X[:, None, :] - X[None, :, :]
    return xp.sum(xp.sqrt(xp.sum(apart * apart, 2) + SOFT))


def _blocks(X: Array, count: int) -> Array:
    """With `r` the distance, blocks `2 (δδ'/r³ - I/r)`, for `count` points i and a pair of coordinates at a time.

    The blocks where points are equal are minus the sum of the others, since shifts change nothing.
    """
    n, d = X.shape
    H, diagonal, columns = np.empty((n, d, n, d)), np.empty((n, d, d)), np.ascontiguousarray(X.T)
    for start in range(0, n, count):
        rows = slice(start, min(start + count, n))
        apart = columns[:, rows, None] - columns[:, None, :]
        inverse = 1 / np.sqrt(np.einsum("dij,dij->ij", apart, apart) + SOFT)
        np.einsum("ii->i", inverse[:, rows])[...] = 0
        left = apart * (2 * inverse * inverse * inverse)
        inverse *= 2
        for a in range(d):
            for b in range(a, d):
                block = left[a] * apart[b]
                if a == b:
                    block -= inverse
                H[rows, a, :, b] = H[rows, b, :, a] = block
                diagonal[rows, a, b] = diagonal[rows, b, a] = -block.sum(1)
    np.einsum("iaib->iab", H)[...] = diagonal
    return H


def at_once(X: Array) -> Array:
    """All points at a time."""
    return _blocks(X, len(X))


def by_rows(X: Array) -> Array:
    """Few points at a time, so that what is computed on the way stays in the cache."""
    return _blocks(X, max(1, ENTRIES // len(X)))


def whole(X: Array) -> Array:
    """All points and coordinates at a time: the fewest operations."""
    apart = X[:, None] - X
    inverse = 1 / np.sqrt(np.einsum("ijd,ijd->ij", apart, apart) + SOFT)
    np.einsum("ii->i", inverse)[...] = 0
    left = apart * (2 * inverse * inverse * inverse)[:, :, None]
    H = left.transpose(0, 2, 1)[:, :, :, None] * apart[:, None]
    np.einsum("iaja->ija", H)[...] -= 2 * inverse[:, :, None]
    np.einsum("iaib->iab", H)[...] = -H.sum(2)
    return H


PROBLEMS = [
    Problem(
        name="pairwise",
        title="Pairwise distances",
        shapes={"X": "n d"},
        wrt="X",
        sizes=lambda n: {"n": n, "d": 3},
        objective=objective,
        grid={"hessian": (10, 50, 200, 500, 1000, 2483)},
        hand={"hessian": {"by rows": by_rows, "at once": at_once, "whole": whole}},
    )
]
