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

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def named(*names: str) -> Callable[[Callable], Callable]:
    """Add a function to the table."""

    def add(function: Callable) -> Callable:
        FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return add


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


@named("special.softmax")
def softmax(x: Any, axis: Any = None) -> Any:
    """Exponentials that add up to 1."""
    return np.exp(log_softmax(x, axis))


@named("special.log_softmax")
def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of exponentials that add up to 1."""
    return x - logsumexp(x, axis, keepdims=True)


FUNCTIONS["special.polygamma"] = lambda n, x: made(polygamma(n, as_expr(x)))
FUNCTIONS["special.zeta"] = lambda x, q=1.0: made(scipy_functions.zeta(x, as_expr(q)))
FUNCTIONS["special.softplus"] = lambda x: np.logaddexp(0, x)
FUNCTIONS["special.sinc"] = np.sinc
FUNCTIONS["special.factorial"] = lambda n, exact=False: sp.gamma(n + 1)
FUNCTIONS["special.comb"] = lambda N, k, exact=False, repetition=False: sp.binom(N, k)
FUNCTIONS["special.perm"] = lambda N, k, exact=False: sp.poch(N - k + 1, k)


@named("special.multigammaln")
def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    return d * (d - 1) / 4 * log(pi) + sum(sp.gammaln(a - j / 2) for j in range(d))


# scipy.linalg


@named("linalg.cholesky")
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """A = L L', or U' U."""
    found = np.linalg.cholesky(a)
    return found if lower else found.T


@named("linalg.cho_factor")
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """A Cholesky factor, and which one it is."""
    return cholesky(a, lower), lower


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


@named("linalg.solve")
def solve(a: Any, b: Any, *_: Any, transposed: bool = False, **__: Any) -> Any:
    """The solution of a system."""
    return np.linalg.solve(np.transpose(a) if transposed else a, b)


class Factors(tuple):
    """What stands for an LU decomposition: the matrix itself."""


@named("linalg.lu_factor")
def lu_factor(a: Any, *_: Any, **__: Any) -> Any:
    """What `lu_solve` takes."""
    return Factors((a, None))


@named("linalg.lu_solve")
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, **_: Any) -> Any:
    """The solution of a system from an LU decomposition."""
    a, pivots = lu_and_piv
    if not isinstance(lu_and_piv, Factors):
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


@named("linalg.circulant")
def circulant(c: Any) -> Any:
    """A matrix whose columns are moved on by one."""
    return _array(c)[np.subtract.outer(np.arange(len(c)), np.arange(len(c))) % len(c)]


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


def _distance(metric: str, u: Any, v: Any, keywords: dict[str, Any]) -> Any:
    """The distance of vectors along the last axis."""
    away = u - v
    if metric in ("euclidean", "sqeuclidean"):
        square = np.sum(away**2, axis=-1)
        return square if metric == "sqeuclidean" else _root(square)
    if metric in ("cityblock", "manhattan"):
        return np.sum(np.abs(away), axis=-1)
    if metric == "chebyshev":
        return np.max(np.abs(away), axis=-1)
    if metric == "minkowski":
        p = keywords.get("p", 2.0)
        return np.sum(np.abs(away) ** p, axis=-1) ** (1 / p)
    if metric == "cosine":
        return 1 - np.sum(u * v, axis=-1) / np.sqrt(np.sum(u**2, axis=-1) * np.sum(v**2, axis=-1))
    if metric == "mahalanobis":
        return _root(np.sum((away @ keywords["VI"]) * away, axis=-1))
    raise EindiffError(f"scipy.spatial.distance with metric={metric!r}: write the distance out with NumPy", "tracing")


@named("spatial.distance.cdist")
def cdist(XA: Any, XB: Any, metric: str = "euclidean", **keywords: Any) -> Any:
    """The distances of all rows of one matrix to those of another."""
    return _distance(metric, _array(XA)[:, None], _array(XB)[None], keywords)


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


@named("stats.zscore")
def zscore(a: Any, axis: Any = 0, ddof: int = 0) -> Any:
    """Numbers of standard deviations from the mean."""
    return (a - np.mean(a, axis=axis, keepdims=True)) / np.std(a, axis=axis, ddof=ddof, keepdims=True)


FUNCTIONS["stats.multivariate_normal.logpdf"] = multivariate_normal_logpdf
FUNCTIONS["stats.multivariate_normal.pdf"] = lambda *args, **keywords: np.exp(
    multivariate_normal_logpdf(*args, **keywords)
)

# scipy.integrate


@named("integrate.trapezoid")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by trapezoids."""
    return np.trapezoid(y, x, dx, axis)


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
