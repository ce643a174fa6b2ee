"""What an operator gives, against a dense matrix that is formed independently, with explicit deltas.

What a solver cannot do is an `EindiffError`; whatever it gives has to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.structure.derivative import Derivative
from eindiff.structure.grid import Grid
from eindiff.structure.solvers.solver import Solver
from eindiff.structure.solvers.trusted import Careful
from eindiff.structure.terms import Term

Array = np.ndarray
Random = np.random.Generator

PRODUCTS = 1e-10
SYSTEMS = 1e-8
WELL_CONDITIONED = 1e5
SINGULAR = 1e17


# The reference


def dense_term(term: Term) -> Array:
    """All entries of a term: each axis of the output is joined to its label by a matrix of deltas."""
    operands: list[Any] = []
    names = {label: k for k, label in enumerate(term.sizes)}
    for array, labels in zip(term.arrays, term.labels, strict=True):
        operands += [array, [names[label] for label in labels]]
    axes = [len(names) + axis for axis in range(len(term.output))]
    for axis, label in zip(axes, term.output, strict=True):
        operands += [np.eye(term.sizes[label]), [names[label], axis]]
    return term.coefficient * (np.einsum(*operands, axes) if operands else np.asarray(1.0))


def dense_grid(grid: Grid) -> Array:
    """The matrix of a grid."""
    return np.block([
        [sum((dense_term(t).reshape(prod(rows), prod(cols)) for t in block), np.zeros((prod(rows), prod(cols))))
         for cols, block in zip(grid.cols, line, strict=True)]
        for rows, line in zip(grid.rows, grid.terms, strict=True)
    ])  # fmt: skip


def near(actual: Any, expected: Any, rtol: float, what: str = "", scale: float = 0.0) -> None:
    """Equal shapes, and entries equal relative to the largest one, or to a scale that is larger."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape} instead of {expected.shape}"
    error = np.abs(actual - expected).max(initial=0.0)
    scale = max(scale, np.abs(expected).max(initial=0.0))
    assert error <= rtol * scale, f"{what}: error {error:.1e} at a scale of {scale:.1e}"


def condition(matrix: Array) -> float:
    """The condition number."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[0] / values[-1]) if len(values) and values[-1] > 0 else np.inf if len(values) else 1.0


# What is checked of each operator


def flat(parts: Any) -> Array:
    """One vector of an array or of a list of arrays."""
    return np.concatenate([np.ravel(x) for x in parts]) if isinstance(parts, list) else np.ravel(parts)


def attempt(ask: Callable[[], Any]) -> Any:
    """The result, or the error if it is one of this package."""
    try:
        return ask()
    except EindiffError as error:
        return error


def check_products(H: Derivative, M: Array, rng: Random, rtol: float = PRODUCTS) -> None:
    """Everything that does not solve."""
    n, scale = M.shape[1], np.abs(M).sum()
    v, w, V = rng.normal(size=n), rng.normal(size=len(M)), rng.normal(size=(n, 3))
    near(H.as_matrix(), M, rtol, "as_matrix")
    near(flat(H.mv(v)), M @ v, rtol, "mv", scale)
    near(H @ V, M @ V, rtol, "@ matrix", scale)
    near(H.T.as_matrix(), M.T, rtol, "T")
    near(flat(w @ H), w @ M, rtol, "vector @", scale)
    near(np.vdot(w, flat(H.mv(v))), np.vdot(flat(H.T.mv(w)), v), rtol, "adjoint", n * scale)
    near((2 * H).as_matrix(), 2 * M, rtol, "scaled")
    near(H.frobenius_norm(), np.linalg.norm(M), rtol, "norm")
    if H._is_square:
        near((2 * H - H.T * 0.25 + H).as_matrix(), 3 * M - 0.25 * M.T, rtol, "sums")
        near(flat(H.diagonal()), np.diag(M), rtol, "diagonal", np.abs(M).max())
        near(H.trace(), np.trace(M), rtol, "trace", scale)
        near(H.damped(0.75).as_matrix(), M + 0.75 * np.eye(n), rtol, "damped")
    if H._is_single:
        near(H.as_tensor(), M.reshape(H.shape), rtol, "as_tensor")
        x = rng.normal(size=H.cols)
        near(H @ x, (M @ x.ravel()).reshape(H.rows), rtol, "@ tensor", scale)
        cut = int(rng.integers(0, len(H.shape) + 1))
        near(H.operator(cut).as_matrix(), M.reshape(prod(H.shape[:cut]), -1), rtol, "operator")
    else:
        near(np.block([[block.as_matrix() for block in line] for line in H.blocks]), M, rtol, "blocks")


def check_solver(solver: Solver, H: Derivative, M: Array, rng: Random) -> None:
    """One way to solve: each result is right, or an error of the package."""
    n, name = len(M), f"{type(getattr(solver, 'core', solver)).__name__} ({solver.word})"
    size = condition(M)
    b = rng.normal(size=(n, 2))
    x = attempt(lambda: Careful([solver], H._grid).solve(b))
    if not isinstance(x, EindiffError):
        assert np.isrealobj(x)
        residual = np.linalg.norm(M @ x - b) / (np.linalg.norm(M) * np.linalg.norm(x) + np.linalg.norm(b))
        assert residual <= SYSTEMS, f"{name}: relative residual {residual:.1e}, condition {size:.1e}"
        assert size < SINGULAR, f"{name}: solved a singular system, condition {size:.1e}"
        if size < WELL_CONDITIONED:
            near(x, np.linalg.solve(M, b), SYSTEMS, f"{name}: solve")
    if size < WELL_CONDITIONED:
        check_factorization(solver, H, M, name)


def check_factorization(solver: Solver, H: Derivative, M: Array, name: str) -> None:
    """Determinant, sign, inverse, Cholesky factor and eigenvalues of a system that can be solved."""
    sign, value = np.linalg.slogdet(M)
    careful = Careful([solver], H._grid)
    found = attempt(lambda: careful.ask(lambda one: one.logdet()))
    if not isinstance(found, EindiffError):
        assert found[0] == sign, f"{name}: sign of the determinant"
        near(found[1], value, SYSTEMS, f"{name}: logdet", 1.0)
    symmetric = np.abs(M - M.T).max(initial=0.0) <= 1e-13 * np.abs(M).max(initial=0.0)
    values = np.linalg.eigvalsh(M) if symmetric else np.linalg.eigvals(M)
    found = attempt(lambda: careful.ask(lambda one: one.is_definite()))
    if symmetric and not isinstance(found, EindiffError):
        assert bool(found) == bool((values > 0).all()), f"{name}: is_definite() is {found}"
    found = attempt(solver.eigvals)
    if not isinstance(found, EindiffError):
        if symmetric:
            near(np.sort(found), values, SYSTEMS, f"{name}: eigvals")
        scale = np.abs(values).max()
        powers = [[(x**k).sum() for k in range(1, 5)] for x in (found / scale, values / scale)]
        near(powers[0], powers[1], SYSTEMS, f"{name}: eigvals", 1.0)  # the same numbers in any order
    found = attempt(lambda: careful.ask(lambda one: one.inverse()))
    if H._is_single and not isinstance(found, EindiffError):
        near(dense_like(H, found), np.linalg.inv(M), SYSTEMS, f"{name}: inverse")
    found = attempt(solver.cholesky)
    if H._is_single and not isinstance(found, EindiffError):
        L = dense_like(H, found)
        near(L @ L.T, M, SYSTEMS, f"{name}: Cholesky factor")
        near(np.triu(L, 1), np.zeros_like(L), 1e-12, f"{name}: Cholesky factor is triangular", 1.0)


def dense_like(H: Derivative, terms: Sequence[Term]) -> Array:
    """The matrix of some terms, with the rows and columns of another operator."""
    return dense_grid(Grid(H._grid.rows, H._grid.cols, ((tuple(terms),),), H.dtype))


def check_solve(H: Derivative, M: Array, rng: Random) -> None:
    """What people call: a system that can be solved is solved, a singular one is refused."""
    n = len(M)
    for damping in (0.0, 0.7):
        D = M + damping * np.eye(n)
        b, size = rng.normal(size=(n, 2)), condition(D)
        x = attempt(lambda damping=damping, b=b: H.solve(b, damping))
        if size < WELL_CONDITIONED:
            assert not isinstance(x, EindiffError), f"condition {size:.1e}, but: {x}"
            near(x, np.linalg.solve(D, b), SYSTEMS, "solve")
            near(flat(H.solve(b[:, 0], damping)), np.linalg.solve(D, b[:, 0]), SYSTEMS, "solve one")
            sign, value = np.linalg.slogdet(D)
            found = H.slogdet(damping)
            assert found[0] == sign
            near(found[1], value, SYSTEMS, "slogdet", 1.0)
            symmetric = np.abs(D - D.T).max() <= 1e-13 * np.abs(D).max()
            definite = bool(symmetric and (np.linalg.eigvalsh(D) > 0).all())
            assert H.is_definite(damping) == definite, "is_definite"
            inverse = attempt(lambda damping=damping: H.inverse(damping))
            if not isinstance(inverse, EindiffError):
                check_products(inverse, np.linalg.inv(D), rng, SYSTEMS)
        elif size > SINGULAR:
            assert isinstance(x, EindiffError), f"a singular system is solved, condition {size:.1e}"
