"""The energy of all pairwise distances of n points in space: a huge intermediate for a small result in JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem

SOFT = 0.01


def objective(xp: Any, X: Any) -> Any:
    """`Σ_ij sqrt(‖x_i - x_j‖² + 0.01)`."""
    apart = X[:, None, :] - X[None, :, :]
    return xp.sum(xp.sqrt(xp.sum(apart * apart, 2) + SOFT))


def _diagonal(H: Array) -> Array:
    """H with the blocks where points are equal made minus the sum of the others, since shifts change nothing."""
    diagonal = np.einsum("iaib->iab", H)
    diagonal[...] = 0
    diagonal -= H.sum(2)
    return H


def _rows(X: Array, count: int) -> Array:
    """With `r` the distance, blocks `2 (δδ'/r³ - I/r)`, for `count` points i at a time."""
    n, d = X.shape
    H = np.empty((n, d, n, d))
    for start in range(0, n, count):
        apart = X[start : start + count, None] - X
        inverse = 1 / np.sqrt(np.einsum("ijd,ijd->ij", apart, apart) + SOFT)
        left = apart * (2 * inverse**3)[:, :, None]
        block = H[start : start + count]
        np.multiply(left.transpose(0, 2, 1)[:, :, :, None], apart[:, None], out=block)
        inverse *= 2
        for a in range(d):
            block[:, a, :, a] -= inverse
    return _diagonal(H)


def at_once(X: Array) -> Array:
    """All points at a time."""
    return _rows(X, len(X))


def by_rows(X: Array) -> Array:
    """Few points at a time, so that what is computed on the way stays in the cache."""
    return _rows(X, max(1, 20_000 // len(X)))


def planes(X: Array) -> Array:
    """One product for each pair of coordinates, a few points at a time."""
    n, d = X.shape
    H, columns, count = np.empty((n, d, n, d)), np.ascontiguousarray(X.T), max(1, 20_000 // n)
    for start in range(0, n, count):
        apart = columns[:, start : start + count, None] - columns[:, None, :]
        inverse = 1 / np.sqrt(np.einsum("dij,dij->ij", apart, apart) + SOFT)
        left = apart * (2 * inverse**3)
        inverse *= 2
        block = H[start : start + count]
        for a in range(d):
            for b in range(a, d):
                product = left[a] * apart[b]
                if a == b:
                    product -= inverse
                block[:, a, :, b] = product
                if a != b:
                    block[:, b, :, a] = product
    return _diagonal(H)


PROBLEMS = [
    Problem(
        name="pairwise",
        title="Pairwise distances",
        shapes={"X": "n d"},
        wrt="X",
        sizes=lambda n: {"n": n, "d": 3},
        objective=objective,
        grid={"hessian": (10, 50, 200, 500, 1000, 2483)},
        hand={"hessian": {"at once": at_once, "by rows": by_rows, "planes": planes}},
    )
]
