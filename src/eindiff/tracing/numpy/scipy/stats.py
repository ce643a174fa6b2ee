"""`scipy.stats` for traced arrays: what is asked of a distribution, with location and scale, inside and outside."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.numpy.composite import discrete
from eindiff.tracing.numpy.scipy.distributions import DISTRIBUTIONS, Distribution
from eindiff.tracing.numpy.traced_array import TracedArray, has_traced
from eindiff.tracing.unsupported import RANDOM

KNOWN = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "median", "interval")


class Traceable:
    """A distribution of SciPy that knows traced arrays: `norm.logpdf(x, mu, sigma)`, `norm(mu, sigma).logpdf(x)`."""

    def __init__(self, original: Any, name: str, args: tuple = (), keywords: Any = None) -> None:
        self._original, self._name, self._args, self._keywords = original, name, args, keywords

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return Traceable(self._original, self._name, args, keywords)

    def __getattr__(self, name: str) -> Any:
        if name == "rvs":
            raise EindiffError(f"scipy.stats.{self._name}.rvs {RANDOM}", "tracing")
        is_frozen = self._keywords is not None

        def method(*args: Any, **keywords: Any) -> Any:
            args, keywords = (*args, *self._args), {**(self._keywords or {}), **keywords}
            if not has_traced([*args, *keywords.values()]):
                return getattr(self._original, name)(*args, **keywords)
            if name.lstrip("_") not in KNOWN:
                known = f"only {', '.join(KNOWN)} have a symbolic form"
                raise EindiffError(f"scipy.stats.{self._name}.{name} of symbolic arrays: {known}", "tracing")
            if DISTRIBUTIONS[self._name].is_discrete and name in ("ppf", "isf", "median"):
                return discrete(getattr(self._original, name), *args, **keywords)
            if name == "median":
                return _asked("ppf", self._name, 0.5, *args, **keywords)
            return _asked(name.lstrip("_"), self._name, *args, **keywords)

        found = getattr(self._original, name)
        return method if callable(found) or is_frozen else found


def _asked(method: str, name: str, x: Any, *args: Any, **keywords: Any) -> Any:
    """A function of a distribution at x."""
    row = DISTRIBUTIONS[name]
    if method == "interval":
        return tuple([_asked("ppf", name, 0.5 + sign * _real(x) / 2, *args, **keywords) for sign in (-1, 1)])
    names = [part.strip() for part in row.shapes.split(",") if part.strip()]
    given = dict(zip([*names, "loc", "scale"], args, strict=False)) | keywords
    shapes = [_real(given[part]) for part in names]
    loc, scale = _real(given.get("loc", 0.0)), _real(given.get("scale", 1.0))
    if method in ("ppf", "isf"):
        if row.ppf is None:
            raise EindiffError(
                f"scipy.stats.{name}.{method} of symbolic arrays has no form; cdf and logpdf have one", "tracing"
            )
        return loc + scale * row.ppf(_real(x) if method == "ppf" else 1 - _real(x), *shapes)
    z = _real(x) - loc if row.is_discrete else (_real(x) - loc) / scale
    kind = method.replace("pmf", "pdf")
    if kind.endswith("pdf"):
        found = _inside(row, z, shapes, row.logpdf, -inf, -inf) - (0.0 if row.is_discrete else np.log(scale))
        return found if kind == "logpdf" else np.exp(found)
    return _distribution(row, f"scipy.stats.{name}.{method}", kind, z, shapes)


def _distribution(row: Distribution, name: str, kind: str, z: Any, shapes: list[Any]) -> Any:
    """A distribution function, what is left of 1, or their logarithms."""
    if row.cdf is None:
        raise EindiffError(f"{name} of symbolic arrays has no form; logpdf and pdf have one", "tracing")
    cdf, sf = row.cdf, row.sf
    if kind == "logcdf" and row.logcdf is not None:
        return _inside(row, z, shapes, row.logcdf, -inf, 0.0)
    if kind in ("cdf", "logcdf"):
        found = _inside(row, z, shapes, cdf, 0.0, 1.0)
        return found if kind == "cdf" else np.log(found)
    left = (lambda *args: 1 - cdf(*args)) if sf is None else sf
    found = _inside(row, z, shapes, left, 1.0, 0.0)
    return found if kind == "sf" else np.log(found)


def _real(value: Any) -> Any:
    return value if type(value) is TracedArray else np.asarray(value, float)[()]


def _inside(row: Distribution, z: Any, shapes: list[Any], f: Callable, below: float, above: float) -> Any:
    """A formula inside of the support, and what is known outside."""
    low, high = row.support(*shapes)
    is_low, is_high = np.less(z, low), np.greater(z, high)
    if not np.any(is_low) and not np.any(is_high):
        return f(z, *shapes)
    is_inside = ~(np.asarray(is_low) | np.asarray(is_high))
    outside = np.where(np.asarray(is_low), below, above)
    shape = np.broadcast_shapes(is_inside.shape, *map(np.shape, (z, *shapes)))
    if not is_inside.any():
        return np.broadcast_to(outside, shape) + 0.0
    chosen = np.nonzero(np.broadcast_to(is_inside, shape))
    part = f(*[v if np.ndim(v) == 0 else np.broadcast_to(v, shape)[chosen] for v in (z, *shapes)])
    if not shape:
        return part
    found = np.zeros_like(part, shape=shape)
    found[...] = np.broadcast_to(outside, shape)
    found[chosen] = part
    return found


def multivariate_normal_logpdf(x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> Any:
    """The logarithm of the density of a normal vector."""
    x = x if np.ndim(x) else np.reshape(x, (1,))
    size = (
        np.shape(cov)[0] if np.ndim(cov) else np.size(mean) if mean is not None and np.ndim(mean) else np.shape(x)[-1]
    )
    cov = cov * np.eye(size) if np.ndim(cov) == 0 else np.diag(cov) if np.ndim(cov) == 1 else cov
    away = x - (0.0 if mean is None else mean)
    away = away[:, None] if np.ndim(away) == 1 and size == 1 and np.size(away) > 1 else away
    solved = np.linalg.solve(cov, np.reshape(away, (-1, size)).T).T.reshape(np.shape(away))
    return -0.5 * (size * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] + np.sum(away * solved, axis=-1))
