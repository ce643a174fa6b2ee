"""Matrix factorization with k = 5 and m = n, without and with a mask: the second experiment of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem, zero_one

ROWS = 32  # of the mask that are squared at a time, so that they stay in the cache


def objective(xp: Any, T: Any, U: Any, V: Any, O: Any = None) -> Any:
    """`‖T - UV'‖²`, or `‖O * (T - UV')‖²`."""
    residual = T - U @ V.T
    return xp.sum(residual**2 if O is None else (O * residual) ** 2)


def core(V: Array) -> Array:
    """`2 V'V`, the only thing in the Hessian by U that is not a delta."""
    return 2 * (V.T @ V)


def _squares(V: Array) -> Array:
    n, k = V.shape
    return (2 * V[:, :, None] * V[:, None, :]).reshape(n, k * k)


def cores(O: Array, V: Array) -> Array:
    """`2 Σ_j O_ij² V_jk V_jl` for each row i, as one product of matrices."""
    k = V.shape[1]
    return ((O * O) @ _squares(V)).reshape(-1, k, k)


def cores_by_rows(O: Array, V: Array) -> Array:
    """The same, some rows at a time."""
    squares, k = _squares(V), V.shape[1]
    result = np.empty((len(O), k * k))
    for start in range(0, len(O), ROWS):
        rows = O[start : start + ROWS]
        np.matmul(rows * rows, squares, out=result[start : start + ROWS])
    return result.reshape(-1, k, k)


def cores_batched(O: Array, V: Array) -> Array:
    """The same as a product of small matrices for each row."""
    Z = O[:, :, None] * V
    return 2 * (Z.transpose(0, 2, 1) @ Z)


def on_diagonal(core: Array, m: int) -> Array:
    """A dense array, of the first m rows, with the core (or one for each row) where rows are equal."""
    k = core.shape[-1]
    H = np.zeros((m, k, m, k))
    np.einsum("ijik->ijk", H)[...] = core if core.ndim == 2 else core[:m]
    return H


def by_index(core: Array, m: int) -> Array:
    """The same with two index arrays."""
    k = core.shape[-1]
    H = np.zeros((m, k, m, k))
    rows = np.arange(m)
    H[rows, :, rows] = core
    return H


def kron(V: Array, m: int) -> Array:
    """A Kronecker product with the identity."""
    k = V.shape[1]
    return np.kron(np.eye(m), core(V)).reshape(m, k, m, k)


def gradient(T: Array, U: Array, V: Array) -> tuple[float, Array]:
    """Value and gradient, with the residual overwritten."""
    R = U @ V.T
    R -= T
    return np.vdot(R, R), 2 * (R @ V)


def gradient_masked(T: Array, U: Array, V: Array, O: Array) -> tuple[float, Array]:
    """Value and gradient with a mask, with the residual overwritten."""
    R = U @ V.T
    R -= T
    R *= O
    value = np.vdot(R, R)
    R *= O
    return value, 2 * (R @ V)


def gradient_plain(T: Array, U: Array, V: Array, O: Array) -> tuple[float, Array]:
    """The same with a new array for each operation."""
    R = O * (U @ V.T - T)
    return np.vdot(R, R), 2 * ((O * R) @ V)


SHAPES = {"T": "m n", "U": "m k", "V": "n k"}
GRID = {"gradient": (10, 100, 1000), "hessian": (10, 50, 100, 200, 400, 1000)}


def _problem(name: str, title: str, shapes: dict[str, str], **fields: Any) -> Problem:
    return Problem(
        name=name,
        title=title,
        shapes=shapes,
        wrt="U",
        sizes=lambda n: {"m": n, "n": n, "k": 5},
        objective=objective,
        expand=on_diagonal,
        paper=True,
        casadi=True,
        **fields,
    )


PROBLEMS = [
    _problem(
        "factorization",
        "Matrix factorization",
        SHAPES,
        grid=GRID | {"compressed": (10, 100, 1000, 10_000, 100_000)},
        hand={
            "gradient": {"in place": gradient},
            "hessian": {
                "diagonal view": lambda V, m: on_diagonal(core(V), m),
                "index arrays": lambda V, m: by_index(core(V), m),
                "kron": kron,
            },
            "compressed": {"core": core},
        },
    ),
    _problem(
        "factorization-masked",
        "Matrix factorization with a mask",
        SHAPES | {"O": "m n"},
        draw={"O": zero_one},
        grid=GRID | {"compressed": (10, 100, 1000, 4000)},
        hand={
            "gradient": {"in place": gradient_masked, "plain": gradient_plain},
            "hessian": {
                "one product": lambda O, V, m: on_diagonal(cores(O, V), m),
                "by rows": lambda O, V, m: on_diagonal(cores_by_rows(O, V), m),
                "batched": lambda O, V, m: on_diagonal(cores_batched(O, V), m),
                "index arrays": lambda O, V, m: by_index(cores(O, V), m),
            },
            "compressed": {"one product": cores, "by rows": cores_by_rows, "batched": cores_batched},
        },
    ),
]
