"""`python -m benchmarks.crossings`: both ways of what thresholds of `eindiff.planning.tuning` decide, around them.

Each row is a size, the seconds of the way that is taken below the threshold and of the one above it, and their ratio:
a threshold is right where that passes 1. One core: set `OPENBLAS_NUM_THREADS=1`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from scipy import linalg, special

from eindiff.planning import tuning
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS

SECONDS = 0.05  # for each way at each size
Ways = tuple[Callable[[], Any], Callable[[], Any]]

_scope: dict[str, Any] = {"np": np}
for _name in ("gram", "mirrored"):
    exec(NUMPY_HELPERS[_name], _scope)


def gram(n: int) -> Ways:
    """X' diag(d) X with n columns as a general and as a symmetric product."""
    rng = np.random.default_rng(0)
    X, d = rng.normal(size=(10 * n, n)), rng.random(10 * n)
    return lambda: (X.T * d) @ X, lambda: _scope["gram"](X, d)


def mirrored(n: int) -> Ways:
    """The sum over 64 terms of x[i, s] x[m, s] M[s, k, l], with n entries in all, as a whole and in halves."""
    rng = np.random.default_rng(0)
    side = round(n**0.25)
    x, M = rng.normal(size=(side, 64)), rng.normal(size=(64, side, side))
    return lambda: (x[:, None] * x)[:, None] @ M.transpose(1, 0, 2), lambda: _scope["mirrored"](x, M)


def triangle(n: int) -> Ways:
    """A triangular system of n rows by the general solver and by its own."""
    rng = np.random.default_rng(0)
    L, b = np.tril(rng.normal(size=(n, n))) + n * np.eye(n), rng.normal(size=n)
    return lambda: np.linalg.solve(L, b), lambda: linalg.solve_triangular(L, b, lower=True)


def step(n: int) -> Ways:
    """The step function of n entries as heaviside and as a comparison."""
    x = np.random.default_rng(0).normal(size=n)
    return lambda: np.heaviside(x, 0.0), lambda: (x > 0.0).astype(float)


def sigmoid(n: int) -> Ways:
    """The sigmoid of n entries by SciPy and by NumPy's exp."""
    x = np.random.default_rng(0).normal(size=n)
    return lambda: special.expit(x), lambda: 1 / (1 + np.exp(-x))


def in_place(n: int) -> Ways:
    """A product of arrays of n bytes in new memory and in place."""
    x, y = np.ones(n // 8), np.ones(n // 8)

    def changed() -> None:
        nonlocal x
        x *= y

    return lambda: x * y, changed


def seconds(run: Callable[[], Any]) -> float:
    """The best time of a call."""
    run()
    best, end = np.inf, perf_counter() + SECONDS
    while perf_counter() < end:
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return float(best)


CROSSINGS: dict[str, tuple[int, list[Callable[[int], Ways]]]] = {
    "GRAM": (tuning.GRAM, [gram]),
    "MIRRORED": (tuning.MIRRORED[0], [mirrored]),
    "TRIANGLE": (tuning.TRIANGLE, [triangle]),
    "MANY_ENTRIES": (tuning.MANY_ENTRIES, [step, sigmoid]),
    "IN_PLACE_BYTES": (tuning.IN_PLACE_BYTES, [in_place]),
}


def main() -> None:
    """Print a table for each threshold."""
    for name, (threshold, cases) in CROSSINGS.items():
        for case in cases:
            print(f"{name} = {threshold}: {case.__doc__}")
            for size in (threshold // 4, threshold // 2, threshold, 2 * threshold, 4 * threshold):
                below, above = map(seconds, case(size))
                print(f"{size:>10}  {1e6 * below:10.2f} µs  {1e6 * above:10.2f} µs  {below / above:6.2f}")


if __name__ == "__main__":
    main()
