"""Functions of SciPy in terms of NumPy's, by their names inside of `scipy`."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import numpy as np
from scipy import special as sp

from eindiff.core.errors import EindiffError
from eindiff.functions import frechet, scipy_functions
from eindiff.functions.multilinear import as_expr
from eindiff.functions.special_functions import polygamma
from eindiff.tracing.numpy.scipy.stats import multivariate_normal_logpdf
from eindiff.tracing.numpy.traced_array import made
from eindiff.tracing.shapes import Rows, adding_to

FUNCTIONS: Rows = {}
named = adding_to(FUNCTIONS)


def _array(x: Any) -> Any:
    return x if hasattr(type(x), "__eindiff_expression__") else np.asarray(x, float)


# scipy.special


@named("special.logsumexp")
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """The logarithm of a sum of exponentials, with weights."""
    a = _array(a)
    if return_sign:
        raise EindiffError("scipy.special.logsumexp with return_sign of symbolic arrays: use it without", "options")
    terms = np.exp(a) if b is None else b * np.exp(a)  # their logarithm is known, and computed without overflow
    return np.log(np.sum(terms, axis=axis, keepdims=keepdims))


@named("special.log_softmax")
def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of exponentials that add up to 1."""
    return x - logsumexp(x, axis, keepdims=True)


FUNCTIONS |= {
    "special.softmax": lambda x, axis=None: np.exp(log_softmax(x, axis)),
    "special.polygamma": lambda n, x: made(polygamma(n, as_expr(x))),
    "special.multigammaln": lambda a, d: d * (d - 1) / 4 * log(pi) + sum(sp.gammaln(a - j / 2) for j in range(d)),
    "special.zeta": lambda x, q=1.0: made(scipy_functions.zeta(x, as_expr(q))),
    "special.softplus": lambda x: np.logaddexp(0, x),
    "special.sinc": np.sinc,
    "special.factorial": lambda n, exact=False: sp.gamma(n + 1),
    "special.comb": lambda N, k, exact=False, repetition=False: sp.binom(N, k),
    "special.perm": lambda N, k, exact=False: sp.poch(N - k + 1, k),
}

# scipy.linalg


@named("linalg.cholesky")
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """A = L L', or U' U."""
    found = np.linalg.cholesky(a)
    return found if lower else found.T


@named("linalg.cho_solve")
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution of a system from a Cholesky factor."""
    factor, lower = c_and_lower
    L = np.tril(factor) if lower else np.triu(factor).T
    return np.linalg.solve(L.T, np.linalg.solve(L, b))


@named("linalg.solve_triangular")
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """The solution of a system with a triangular matrix."""
    triangle = np.tril(a, -int(unit_diagonal)) if lower else np.triu(a, int(unit_diagonal))
    triangle = triangle + np.eye(np.shape(a)[0]) if unit_diagonal else triangle
    return np.linalg.solve(triangle.T if trans in (1, 2, "T", "C") else triangle, b)


class LUFactors(tuple):
    """What stands for an LU decomposition: the matrix itself."""


FUNCTIONS |= {
    "linalg.solve": lambda a, b, *_, transposed=False, **__: np.linalg.solve(np.transpose(a) if transposed else a, b),
    "linalg.cho_factor": lambda a, lower=False, **_: (cholesky(a, lower), lower),
    "linalg.lu_factor": lambda a, *_, **__: LUFactors((a, None)),
}


@named("linalg.lu_solve")
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, **_: Any) -> Any:
    """The solution of a system from an LU decomposition."""
    a, pivots = lu_and_piv
    if not isinstance(lu_and_piv, LUFactors):
        a = _product(np.asarray(a), np.asarray(pivots))
    return np.linalg.solve(np.transpose(a) if trans else a, b)


def _product(lu: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The matrix of a known decomposition."""
    found = (np.tril(lu, -1) + np.eye(len(lu))) @ np.triu(lu)
    for k in reversed(range(len(pivots))):
        found[[k, pivots[k]]] = found[[pivots[k], k]]
    return found


def _of_numpy(function: Callable) -> Callable:
    return lambda *args, check_finite=True, **keywords: function(*args, **keywords)


for _name in ("inv", "det", "pinv", "norm", "eigh", "eigvalsh", "lstsq"):
    FUNCTIONS[f"linalg.{_name}"] = _of_numpy(getattr(np.linalg, _name))
FUNCTIONS["linalg.svd"] = lambda a, full_matrices=True, compute_uv=True, **_: np.linalg.svd(
    a, full_matrices, compute_uv
)
FUNCTIONS["linalg.svdvals"] = lambda a, **_: np.linalg.svd(a, compute_uv=False)
FUNCTIONS["linalg.expm"] = lambda A: made(frechet.expm(as_expr(A)))
FUNCTIONS["linalg.logm"] = lambda A, disp=True: made(frechet.logm(as_expr(A)))
FUNCTIONS["linalg.sqrtm"] = lambda A, disp=True, blocksize=64: made(frechet.sqrtm(as_expr(A)))
FUNCTIONS["linalg.kron"] = np.kron


@named("linalg.block_diag")
def block_diag(*arrs: Any) -> Any:
    """Matrices along the diagonal."""
    blocks = [np.atleast_2d(a) for a in arrs]
    widths = [np.shape(block)[1] for block in blocks]
    rows = []
    for k, block in enumerate(blocks):
        left, right = sum(widths[:k]), sum(widths[k + 1 :])
        rows.append(np.pad(block, ((0, 0), (left, right))))
    return np.concatenate(rows)


@named("linalg.toeplitz")
def toeplitz(c: Any, r: Any = None) -> Any:
    """A matrix with constant diagonals, from its first column and row."""
    c, r = np.ravel(_array(c)), np.ravel(_array(c if r is None else r))
    places = np.arange(len(c))[:, None] - np.arange(len(r))
    return np.concatenate([c[::-1], r[1:]])[len(c) - 1 - places]


FUNCTIONS["linalg.circulant"] = lambda c: _array(c)[np.subtract.outer(np.arange(len(c)), np.arange(len(c))) % len(c)]


@named("linalg.hankel")
def hankel(c: Any, r: Any = None) -> Any:
    """A matrix with constant antidiagonals."""
    c = np.ravel(_array(c))
    r = np.zeros(len(c)) if r is None else np.ravel(_array(r))
    return np.concatenate([c, r[1:]])[np.add.outer(np.arange(len(c)), np.arange(len(r)))]


# scipy.spatial.distance


def _root(square: Any) -> Any:
    """The root of a square; its derivative at 0 is taken as 0."""
    at_zero = np.equal(square, 0)
    return np.where(at_zero, 0.0, np.sqrt(square + 1.0 * at_zero))


def _cosine(u: Any, v: Any) -> Any:
    return 1 - np.sum(u * v, axis=-1) / np.sqrt(np.sum(u**2, axis=-1) * np.sum(v**2, axis=-1))


# The distance of vectors along the last axis
_DISTANCES: Rows = {
    "euclidean": lambda u, v: _root(np.sum((u - v) ** 2, axis=-1)),
    "sqeuclidean": lambda u, v: np.sum((u - v) ** 2, axis=-1),
    "cityblock": lambda u, v: np.sum(np.abs(u - v), axis=-1),
    "manhattan": lambda u, v: np.sum(np.abs(u - v), axis=-1),
    "chebyshev": lambda u, v: np.max(np.abs(u - v), axis=-1),
    "minkowski": lambda u, v, p=2.0: np.sum(np.abs(u - v) ** p, axis=-1) ** (1 / p),
    "mahalanobis": lambda u, v, VI: _root(np.sum(((u - v) @ VI) * (u - v), axis=-1)),
    "cosine": _cosine,
}


def _distance(metric: str, u: Any, v: Any, keywords: dict[str, Any]) -> Any:
    if metric not in _DISTANCES:
        way = "write the distance out with NumPy"
        raise EindiffError(f"scipy.spatial.distance with metric={metric!r}: {way}", "tracing")
    return _DISTANCES[metric](u, v, **keywords)


FUNCTIONS["spatial.distance.cdist"] = lambda XA, XB, metric="euclidean", **keywords: _distance(
    metric, _array(XA)[:, None], _array(XB)[None], keywords
)


@named("spatial.distance.pdist")
def pdist(X: Any, metric: str = "euclidean", **keywords: Any) -> Any:
    """The distances of all pairs of rows."""
    first, second = np.triu_indices(np.shape(X)[0], 1)
    return _distance(metric, _array(X)[first], _array(X)[second], keywords)


@named("spatial.distance.squareform")
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """Distances of pairs as a matrix, or the other way round."""
    if np.ndim(X) == 2:
        return X[np.triu_indices(np.shape(X)[0], 1)]
    size = int((1 + np.sqrt(1 + 8 * len(X))) // 2)
    found = np.zeros_like(X, shape=(size, size))
    found[np.triu_indices(size, 1)] = X
    return found + found.T


for _metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine"):
    FUNCTIONS[f"spatial.distance.{_metric}"] = lambda u, v, _m=_metric: _distance(_m, _array(u), _array(v), {})

# scipy.stats

FUNCTIONS["stats.zscore"] = lambda a, axis=0, ddof=0: (a - np.mean(a, axis=axis, keepdims=True)) / np.std(
    a, axis=axis, ddof=ddof, keepdims=True
)
FUNCTIONS["stats.multivariate_normal.logpdf"] = multivariate_normal_logpdf
FUNCTIONS["stats.multivariate_normal.pdf"] = lambda *args, **keywords: np.exp(
    multivariate_normal_logpdf(*args, **keywords)
)

# scipy.integrate

FUNCTIONS["integrate.trapezoid"] = np.trapezoid

@named("integrate.cumulative_trapezoid")
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Running integrals along an axis by trapezoids."""
    lines = np.moveaxis(y, axis, -1) if np.ndim(y) > 1 else y
    found = np.cumsum((dx if x is None else np.diff(x)) * (lines[..., 1:] + lines[..., :-1]) / 2, -1)
    found = found if initial is None else np.concatenate([0 * lines[..., :1], found], -1)
    return np.moveaxis(found, -1, axis)


# scipy.optimize

FUNCTIONS["optimize.rosen"] = lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2, axis=0)

# scipy.fft


def _transform(function: Callable) -> Callable:
    return lambda *args, overwrite_x=False, workers=None, **keywords: function(*args, **keywords)


for _name in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "ifftn", "fftshift", "ifftshift"):
    FUNCTIONS[f"fft.{_name}"] = _transform(getattr(np.fft, _name))
