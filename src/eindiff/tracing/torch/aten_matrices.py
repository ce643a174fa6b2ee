"""Rows of the table of ATen's operations: linear algebra and distances."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import frechet, reductions
from eindiff.functions import matrices as matrix_functions
from eindiff.functions import multilinear as arrays
from eindiff.tracing.algebra import cross
from eindiff.tracing.shapes import matrix_transpose, tril, triu
from eindiff.tracing.torch.aten import op, ops
from eindiff.tracing.unsupported import Unsupported


@op("linalg_cholesky_ex")
def _cholesky_ex(a: Expr, upper: bool = False, **_: Any) -> tuple:
    factor = matrix_functions.chol(a)
    return matrix_transpose(factor) if upper else factor, None


ops({
    "cholesky linalg_cholesky": lambda a, upper=False: _cholesky_ex(a, upper)[0],
    "linalg_inv_ex": lambda a, **_: (matrix_functions.inv(a), None),
    "_linalg_det": lambda a: (matrix_functions.det(a), None, None),
    "_linalg_slogdet": lambda a: (matrix_functions.signdet(a), matrix_functions.logabsdet(a), None, None),
    "_linalg_eigh": lambda a, *_: (matrix_functions.eigvals(a), matrix_functions.eigvecs(a)),
    "linalg_matrix_exp matrix_exp": frechet.expm,
    "linalg_pinv": lambda a, *_, **__: matrix_functions.pinv(a),
    "linalg_cross": lambda a, b, dim=-1: cross(a, b, dim),
})


@op("_linalg_solve_ex")
def _solve_ex(a: Expr, b: Expr, left: bool = True, **_: Any) -> tuple:
    inverse = matrix_functions.inv(a)
    if b.ndim == 1 or (a.ndim > b.ndim and b.shape == a.shape[:-1]):
        solved = arrays.einsum("...ij,...j->...i", inverse, b)
    else:
        solved = arrays.matmul(inverse, b) if left else arrays.matmul(b, inverse)
    return solved, None, None, None


def _triangle(a: Expr, upper: bool = False, is_unit: bool = False) -> Expr:
    """A triangle, perhaps with ones on its diagonal; a Cholesky factor is the lower one as it is."""
    is_factor = getattr(getattr(a, "function", None), "name", "") == "chol"
    found = triu(a) if upper else a if is_factor else tril(a)
    unit = arrays.eye(int(a.shape[-1]))
    return found * (1 - unit) + unit if is_unit else found


@op("linalg_solve_triangular")
def _solve_triangular(a: Expr, b: Expr, upper: bool = False, left: bool = True, unitriangular: bool = False) -> Expr:
    inverse = matrix_functions.inv(_triangle(a, upper, unitriangular))
    return arrays.matmul(inverse, b) if left else arrays.matmul(b, inverse)


@op("triangular_solve")
def _triangular_solve(
    b: Expr, a: Expr, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple:
    factor = _triangle(a, upper, unitriangular)
    return arrays.matmul(matrix_functions.inv(matrix_transpose(factor) if transpose else factor), b), None


def _inverse_factor(factor: Expr, upper: bool) -> Expr:
    """The inverse of a lower Cholesky factor, from either."""
    return matrix_functions.inv(matrix_transpose(triu(factor)) if upper else _triangle(factor))


@op("cholesky_inverse")
def _cholesky_inverse(factor: Expr, upper: bool = False) -> Expr:
    inverse = _inverse_factor(factor, upper)
    return arrays.matmul(matrix_transpose(inverse), inverse)


@op("cholesky_solve")
def _cholesky_solve(b: Expr, factor: Expr, upper: bool = False) -> Expr:
    inverse = _inverse_factor(factor, upper)
    return arrays.matmul(matrix_transpose(inverse), arrays.matmul(inverse, b))


@op("_linalg_svd")
def _svd(a: Expr, full_matrices: bool = False, compute_uv: bool = True, **_: Any) -> tuple:
    values = matrix_functions.svdvals(a)
    if not compute_uv:
        return None, values, None
    if full_matrices and a.shape[-1] != a.shape[-2]:
        raise Unsupported
    return matrix_functions.svdleft(a), values, matrix_transpose(matrix_functions.svdright(a))


# Distances


def safe_root(square: Expr) -> Expr:
    """The square root, whose derivative at 0 is 0: distances of points from themselves."""
    positive = square > 0
    return functions.where(positive, functions.sqrt(functions.where(positive, square, 1)), 0)


def _length(change: Expr, p: float) -> Expr:
    """The p-norm along the last axis; that of no change has the derivative 0."""
    size = functions.abs(change)
    if p == 2:
        return safe_root(arrays.sum(change * change, -1))
    if p == 1:
        return arrays.sum(size, -1)
    if p == inf:
        return reductions.max(size, -1)
    if p == 0:
        return arrays.sum(functions.where(size > 0, construct.filled(1, size.shape), 0), -1)
    moved = size > 0
    total = arrays.sum(functions.where(moved, functions.where(moved, size, 1) ** p, 0), -1)
    some = total > 0
    return functions.where(some, functions.where(some, total, 1) ** (1 / p), 0)


ops({
    "_cdist_forward _euclidean_dist cdist": lambda a, b, p=2.0, *_: _length(
        a[..., :, None, :] - b[..., None, :, :], p
    ),
})


@op("_pdist_forward")
def _pdist(a: Expr, p: float = 2.0) -> Expr:
    """The distances of all pairs, each once."""
    first, second = np.triu_indices(int(a.shape[-2]), 1)
    return _length(a[first] - a[second], p)
