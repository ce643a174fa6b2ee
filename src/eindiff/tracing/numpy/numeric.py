"""NumPy's functions of statistics, differences and polynomials, in terms of others that traced arrays have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.functions import scipy_functions
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.numpy.composite import COMPOSITE as COMPOSITE
from eindiff.tracing.numpy.composite import discrete, flat, named
from eindiff.tracing.numpy.given_arguments import are_given, chosen_entries
from eindiff.tracing.numpy.values import ask
from eindiff.tracing.places import Place, scattered
from eindiff.tracing.shapes import FUNCTIONS

# Entries that are no numbers


def _numbers(a: Any, instead: float) -> Any:
    return np.where(np.isnan(a), instead, a)


def _of_numbers(reduce: Callable[..., Any], instead: float) -> Callable[..., Any]:
    """A reduction of all that is a number: another one that changes nothing is in the place of what is none."""
    return lambda a, axis=None, dtype=None, out=None, keepdims=False: reduce(
        _numbers(a, instead), axis=axis, keepdims=keepdims is True
    )


def _count(a: Any, axis: Any, keepdims: Any) -> Any:
    """How many numbers there are."""
    return np.sum(1 - 1.0 * np.isnan(a), axis=axis, keepdims=keepdims is True)


nansum = _of_numbers(np.sum, 0.0)


@named("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: None = None, out: None = None, keepdims: Any = False) -> Any:
    """The mean of all numbers."""
    return nansum(a, axis, keepdims=keepdims) / _count(a, axis, keepdims)


@named("nanvar")
def nanvar(a: Any, axis: Any = None, dtype: None = None, *, ddof: float = 0, keepdims: Any = False) -> Any:
    """The variance of all numbers."""
    away = np.where(np.isnan(a), 0.0, a - nanmean(a, axis, keepdims=True))
    return np.sum(away * away, axis=axis, keepdims=keepdims is True) / (_count(a, axis, keepdims) - ddof)


COMPOSITE |= {
    "nansum": nansum,
    "nanprod": _of_numbers(np.prod, 1.0),
    "nanmax": _of_numbers(np.max, -np.inf),
    "nanmin": _of_numbers(np.min, np.inf),
    "nanstd": lambda a, axis=None, dtype=None, **keywords: np.sqrt(nanvar(a, axis, **keywords)),
}


@named("nan_to_num")
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Numbers in place of what is none, and of infinite ones."""
    most = np.finfo(x.dtype).max
    found = np.where(np.greater(x, most), most if posinf is None else posinf, _numbers(x, nan))
    return np.where(np.less(x, -most), -most if neginf is None else neginf, found)


COMPOSITE["i0"] = lambda x: scipy_functions.iv(0, x)

# Statistics


@named("cov")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None) -> Any:
    """The covariance of rows."""
    rows = np.atleast_2d(m) if rowvar else np.atleast_2d(m).T if np.ndim(m) > 1 else np.atleast_2d(m)
    if y is not None:
        rows = np.concatenate([rows, np.atleast_2d(y) if rowvar or np.ndim(y) < 2 else np.transpose(y)])
    away = rows - np.mean(rows, axis=1)[:, None]
    count = np.shape(rows)[1] - ((0 if bias else 1) if ddof is None else ddof)
    return np.squeeze(away @ away.T / count)


@named("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The correlation of rows."""
    found = cov(x, y, rowvar)
    if np.ndim(found) == 0:
        return found / found
    scale = np.sqrt(np.diag(found))
    return found / scale[:, None] / scale


@named("bincount")
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer comes, or the sum of the weights that it comes with."""
    entries = chosen_entries([minlength], x) if weights is not None and are_given(x) and np.all(x >= 0) else None
    if entries is not None:
        return entries.added(as_expr(weights), [minlength])
    places = np.asarray(x)
    if weights is None:
        return np.bincount(places, minlength=minlength)
    size = max(int(places.max(initial=-1)) + 1, minlength)
    return scattered(as_expr(weights), [Place((0,), places)], [size])


_NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf, "mean": 0.0}
_JOIN = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def reduced(name: str, a: Any, axis: Any = None, where: Any = True, initial: Any = None, **keywords: Any) -> Any:
    """A reduction of the entries where a condition holds, and of a number to start with."""
    chosen = a if where is True else np.where(where, a, _NEUTRAL[name])
    if name == "mean":
        count = np.sum(np.broadcast_to(np.where(where, 1.0, 0.0), np.shape(a)), axis=axis, **keywords)
        return np.sum(chosen, axis=axis, **keywords) / count
    found = getattr(np, name)(chosen, axis=axis, **keywords)
    is_neutral = initial is None or (isinstance(initial, int | float) and initial == _NEUTRAL[name])
    return found if is_neutral else _JOIN[name](found, initial)


def accumulated(ufunc: np.ufunc, a: Any, axis: int = 0) -> Any:
    """Running results of a ufunc along an axis."""
    lines = np.moveaxis(a, axis, 0)
    found = [lines[0]]
    for k in range(1, len(lines)):
        found.append(ufunc(found[-1], lines[k]))
    return np.stack(found, axis)


# Results into arrays, and of chosen entries


def chosen_only(ufunc: np.ufunc, method: str, inputs: Any, out: Any, chosen: Any, keywords: dict[str, Any]) -> Any:
    """A ufunc of the entries where a condition holds; all others are as they were."""
    if method != "__call__":
        neutral = {"multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}.get(ufunc.__name__, 0.0)
        return getattr(ufunc, method)(np.where(chosen, inputs[0], neutral), *inputs[1:], **keywords)
    found = ufunc(*inputs, **keywords)
    result = np.where(chosen, found, np.zeros_like(found) if out is None else out)
    return result if out is None else into(out, result)


def into(out: Any, value: Any) -> Any:
    """An array that values were written into."""
    out[...] = value
    return out


# Running products and differences


@named("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    """Differences of neighbours along an axis, n times, with entries before and after them."""
    ends = []
    for end in (prepend, append):
        is_number = end is not np._NoValue and np.ndim(end) == 0
        shape = [1 if k == axis % np.ndim(a) else size for k, size in enumerate(np.shape(a))]
        ends.append([] if end is np._NoValue else [np.broadcast_to(end, shape) if is_number else end])
    whole = np.concatenate([*ends[0], a, *ends[1]], axis) if ends[0] or ends[1] else a
    return FUNCTIONS["diff"](as_expr(whole), n, axis)


@named("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """How many entries, or which weights of them, lie between edges; these are known, or given by their range."""
    found, edges = histogramdd([np.ravel(a)], [bins], [range], density, weights)
    return (found if weights is not None or density else np.asarray(found, int)), edges[0]


@named("histogram_bin_edges")
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: None = None) -> Any:
    """Edges that are given, or equally spaced ones from the smallest entry to the largest."""
    if np.ndim(bins):
        return bins
    count = discrete(_count_of_bins, a, bins, range) if isinstance(bins, str) else bins
    first, last = (np.min(a), np.max(a)) if range is None else range
    first, last = (first, last) if first != last else (first - 0.5, last + 0.5)
    return np.concatenate([np.linspace(first, last, count + 1)[:-1], np.reshape(last, 1)])  # which is exact


def _count_of_bins(a: np.ndarray, bins: str, range: Any) -> int:
    return len(np.histogram_bin_edges(a, bins, range)) - 1


@named("histogramdd")
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """How many points, or which weights of them, lie in each box between edges."""
    columns = sample if isinstance(sample, list | tuple) else list(np.transpose(sample))
    several = bins if isinstance(bins, list | tuple) else [bins] * len(columns)
    ranges = [None] * len(columns) if range is None else range
    edges = [np.histogram_bin_edges(*given) for given in zip(columns, several, ranges, strict=True)]
    shape = tuple([len(one) - 1 for one in edges])
    places = [discrete(_boxes, *given) for given in zip(columns, several, ranges, strict=True)]
    inside = np.flatnonzero(np.all([(k >= 0) & (k < n) for k, n in zip(places, shape, strict=True)], axis=0))
    chosen = None if weights is None else np.ravel(weights)[inside]
    flat = np.ravel_multi_index([k[inside] for k in places], shape)
    found: Any = np.reshape(np.bincount(flat, chosen, int(np.prod(shape))), shape)
    if density:
        for k, one in enumerate(edges):
            found = found / np.diff(one)[(slice(None), *[None] * (len(shape) - 1 - k))]
        found = found / np.sum(np.bincount(flat, chosen))
    return found if weights is not None or density else np.asarray(found, float), edges


def _boxes(a: np.ndarray, bins: Any, range: Any) -> np.ndarray:
    """The numbers of the intervals that entries lie in; the last one has its end."""
    edges = np.histogram_bin_edges(a, bins, range)
    return np.searchsorted(edges, a, "right") - 1 - np.equal(a, edges[-1])


@named("histogram2d")
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """How many points, or which weights of them, lie in each rectangle between edges."""
    found, edges = histogramdd([x, y], bins, range, density, weights)
    return found, edges[0], edges[1]


COMPOSITE["cumprod"] = lambda a, axis=None: accumulated(np.multiply, *flat(a, axis))


@named("cumulative_sum")
def cumulative_sum(x: Any, /, *, axis: Any = None, include_initial: bool = False) -> Any:
    """Running sums along an axis."""
    found = np.cumsum(x, axis)
    if not include_initial:
        return found
    axis = axis or 0
    return np.concatenate([np.zeros_like(np.take(found, [0], axis)), found], axis)


@named("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in row-major order."""
    parts = [to_begin, np.diff(np.ravel(ary)), to_end]
    return np.concatenate([np.atleast_1d(part) for part in parts if part is not None])


@named("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences along each axis, with one-sided ones at both ends."""
    axes = range(np.ndim(f)) if axis is None else [range(np.ndim(f))[k] for k in np.atleast_1d(axis)]
    steps = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    pairs = zip(axes, steps, strict=True)
    found = [np.moveaxis(_differences(np.moveaxis(f, k, 0), step, edge_order), 0, k) for k, step in pairs]
    return found[0] if len(found) == 1 else tuple(found)


def _differences(f: Any, step: Any, edge_order: int) -> Any:
    """Differences along the first axis, for one step or for coordinates."""
    count = np.shape(f)[0]
    steps = np.diff(step) if np.ndim(step) else np.ones(count - 1) * step
    steps = steps[(slice(None), *[None] * (np.ndim(f) - 1))]
    left, right = steps[:-1], steps[1:]
    inside = (left**2 * f[2:] + (right**2 - left**2) * f[1:-1] - right**2 * f[:-2]) / (left * right * (left + right))
    if edge_order == 1:
        first, last = (f[1] - f[0]) / steps[0], (f[-1] - f[-2]) / steps[-1]
    else:
        first = _end(f[0], f[1], f[2], steps[0], steps[1])
        last = -_end(f[-1], f[-2], f[-3], steps[-1], steps[-2])
    return np.concatenate([first[None], inside, last[None]])


def _end(f0: Any, f1: Any, f2: Any, a: Any, b: Any) -> Any:
    """The slope at the first of three points."""
    return -(2 * a + b) / (a * (a + b)) * f0 + (a + b) / (a * b) * f1 - a / (b * (a + b)) * f2


COMPOSITE["correlate"] = lambda a, v, mode="valid": np.convolve(a, v[::-1], mode)

# Polynomials and systems


@named("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns."""
    count = len(x) if N is None else N
    columns = [x**k if k else np.ones_like(x) for k in range(count)]
    return np.stack(columns if increasing else columns[::-1], -1)


COMPOSITE["polyfit"] = lambda x, y, deg: np.linalg.lstsq(np.vander(x, deg + 1), y)[0]
COMPOSITE["polymul"] = lambda a1, a2: np.convolve(a1, a2)


@named("polyder")
def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of a polynomial."""
    for _ in range(m):
        p = p[:-1] * np.arange(len(p) - 1, 0, -1)
    return p


@named("polyint")
def polyint(p: Any, m: int = 1, k: None = None) -> Any:
    """The integral of a polynomial that is 0 at 0."""
    for _ in range(m):
        p = np.concatenate([p / np.arange(len(p), 0, -1), np.zeros(1)])
    return p


@named("polyadd")
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    size = max(len(a1), len(a2))
    return np.pad(a1, (size - len(a1), 0)) + np.pad(a2, (size - len(a2), 0))


@named("trim_zeros")
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """A vector without the zeros at its ends."""
    places = np.flatnonzero(filt)
    if not len(places):
        return filt[:0]
    start, end = places[0] if "f" in trim.lower() else 0, places[-1] + 1 if "b" in trim.lower() else len(filt)
    return filt[start:end]


@named("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """Sign and logarithm of a determinant: of one that is negative, that of the matrix with two rows exchanged."""
    sign = ask(_sign_of_determinant, (a,))
    if sign is NotImplemented or np.any(sign >= 0) or np.shape(a)[-1] < 2:
        return FUNCTIONS["linalg.slogdet"](as_expr(a))
    order = [1, 0, *range(2, np.shape(a)[-1])]
    return np.linalg._linalg.SlogdetResult(np.float64(-1.0) + 0 * sign, np.linalg.slogdet(a[..., order, :])[1])


def _sign_of_determinant(a: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.slogdet(a)[0])


@named("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solution of least squares and least norm, the sum of squares that is left, rank and singular values."""
    rank = int(np.linalg.matrix_rank(a))
    x = np.linalg.pinv(a) @ b
    rows, columns = np.shape(a)
    left = np.sum((b - a @ x) ** 2, axis=0, keepdims=np.ndim(b) == 1) if rank == columns < rows else np.zeros(0)
    return x, left, rank, np.linalg.svd(a, compute_uv=False)


@named("linalg.qr")
def qr(a: Any, mode: str = "reduced") -> Any:
    """A = Q R, with columns that are orthonormal, for a matrix of full rank with no more columns than rows."""
    rows, columns = np.shape(a)
    if mode not in ("reduced", "r") or columns > rows:
        raise EindiffError(
            "np.linalg.qr of symbolic arrays: mode='reduced' of a matrix with no more columns than rows", "tracing"
        )
    signs = discrete(_signs_of_diagonal, a)
    R = signs[:, None] * np.linalg.cholesky(a.T @ a).T
    return R if mode == "r" else np.linalg._linalg.QRResult(np.linalg.solve(R.T, a.T).T, R)


def _signs_of_diagonal(a: np.ndarray) -> np.ndarray:
    return np.sign(np.diag(np.linalg.qr(a, "r")))


@named("linalg.cond")
def cond(x: Any, p: Any = None) -> Any:
    """The condition of a matrix."""
    if p in (None, 2):
        values = np.linalg.svd(x, compute_uv=False)
        return values[..., 0] / values[..., -1]
    return np.linalg.norm(x, p) * np.linalg.norm(np.linalg.inv(x), p)
