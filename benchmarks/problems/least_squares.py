"""Linear least squares with a matrix of unknowns, where compiling `jax.hessian` takes longer than running it."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem


def objective(xp: Any, C: Any, S: Any, D: Any) -> Any:
    """`‖CS - D‖²`."""
    return xp.sum((C @ S - D) ** 2)


def core(C: Array) -> Array:
    """`2 C'C`."""
    H = C.T @ C
    H *= 2
    return H


def on_diagonal(core: Array, k: int) -> Array:
    """A dense array with the core where columns are equal."""
    n = len(core)
    H = np.zeros((n, k, n, k))
    np.einsum("ijkj->ikj", H)[...] = core[:, :, None]
    return H


def columns(core: Array, k: int) -> Array:
    """The same, one column at a time."""
    n = len(core)
    H = np.zeros((n, k, n, k))
    for j in range(k):
        H[:, j, :, j] = core
    return H


def kron(C: Array, k: int) -> Array:
    """A Kronecker product with the identity."""
    n = C.shape[1]
    return np.kron(core(C), np.eye(k)).reshape(n, k, n, k)


PROBLEMS = [
    Problem(
        name="least-squares",
        title="Least squares, 2n unknowns",
        shapes={"C": "m n", "S": "n k", "D": "m k"},
        wrt="S",
        sizes=lambda n: {"m": 500, "n": n, "k": 2},
        objective=objective,
        grid={"hessian": (10, 49, 105, 211), "compressed": (10, 49, 105, 211)},
        hand={
            "hessian": {
                "diagonal view": lambda C, k: on_diagonal(core(C), k),
                "columns": lambda C, k: columns(core(C), k),
                "kron": kron,
            },
            "compressed": {"core": core},
        },
        expand=on_diagonal,
        casadi=True,
    )
]
