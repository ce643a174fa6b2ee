"""Python's `statistics` for traced numbers: the same in terms of NumPy's functions."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from eindiff.tracing.numpy.buffers import settled
from eindiff.tracing.numpy.replaced import special, whole
from eindiff.tracing.numpy.traced_array import TracedArray, has_traced


def _variance(data: Any, mean: Any, ddof: int) -> Any:
    x = whole(data)
    return np.sum((x - (np.mean(x) if mean is None else mean)) ** 2) / (len(x) - ddof)


def _average(data: Any, weights: Any = None) -> Any:
    return np.mean(whole(data)) if weights is None else np.average(whole(data), weights=whole(weights))


def _middle(data: Any, step: int) -> Any:
    """The lower (0) or upper (1) of the two numbers in the middle; the only one if their count is odd."""
    x = np.sort(whole(data))
    return x[(len(x) - 1 + step) // 2]


def _covariance(x: Any, y: Any) -> Any:
    x, y = whole(x), whole(y)
    return np.sum((x - np.mean(x)) * (y - np.mean(y))) / (len(x) - 1)


def _line(x: Any, y: Any, *, proportional: bool = False) -> Any:
    x, y = whole(x), whole(y)
    slope = np.sum(x * y) / np.sum(x * x) if proportional else _covariance(x, y) / _covariance(x, x)
    start = 0.0 if proportional else np.mean(y) - slope * np.mean(x)
    return statistics.LinearRegression(slope=slope, intercept=start)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": _average,
    "fmean": _average,
    "median": lambda data: np.median(whole(data)),
    "median_low": lambda data: _middle(data, 0),
    "median_high": lambda data: _middle(data, 1),
    "variance": lambda data, xbar=None: _variance(data, xbar, 1),
    "pvariance": lambda data, mu=None: _variance(data, mu, 0),
    "stdev": lambda data, xbar=None: np.sqrt(_variance(data, xbar, 1)),
    "pstdev": lambda data, mu=None: np.sqrt(_variance(data, mu, 0)),
    "geometric_mean": lambda data: np.exp(np.mean(np.log(whole(data)))),
    "harmonic_mean": lambda data, weights=None: 1 / _average(1 / whole(data), weights),
    "covariance": _covariance,
    "correlation": lambda x, y: _covariance(x, y) / np.sqrt(_covariance(x, x) * _covariance(y, y)),
    "linear_regression": _line,
}


def _for_traced(original: Callable, function: Callable) -> Callable:
    @wraps(original)
    def called(*data: Any, **keywords: Any) -> Any:
        held = [list(x) if hasattr(x, "__next__") else x for x in data]  # what can be read once only
        parts = settled([list(x) if type(x) not in (float, int, TracedArray) and np.iterable(x) else x for x in held])
        if has_traced([parts, *keywords.values()]):
            return function(*parts, **keywords)
        return original(*held, **keywords)

    return called


class NormalDist:
    """`statistics.NormalDist`, for traced parameters and arguments too."""

    def __init__(self, mu: Any = 0.0, sigma: Any = 1.0) -> None:
        if sigma < 0:
            raise statistics.StatisticsError("sigma must be non-negative")
        self.mean, self.stdev = mu, sigma

    @classmethod
    def from_samples(cls, data: Any) -> NormalDist:
        """The normal distribution with mean and deviation of a sample."""
        values = list(data)
        return cls(STATISTICS["fmean"](values), STATISTICS["stdev"](values))

    @property
    def variance(self) -> Any:
        """The square of the deviation."""
        return self.stdev**2

    @property
    def median(self) -> Any:
        """The value in the middle."""
        return self.mean

    def zscore(self, x: Any) -> Any:
        """How many deviations x lies above the mean."""
        return (x - self.mean) / self.stdev

    def pdf(self, x: Any) -> Any:
        """The density."""
        return np.exp(-(self.zscore(x) ** 2) / 2) / (self.stdev * np.sqrt(2 * np.pi))

    def cdf(self, x: Any) -> Any:
        """The probability of at most x."""
        return special("ndtr")(self.zscore(x))

    def inv_cdf(self, p: Any) -> Any:
        """The quantile of a probability."""
        return self.mean + self.stdev * special("ndtri")(p)


STATISTICS: dict[str, Any] = {
    **{name: _for_traced(getattr(statistics, name), function) for name, function in _FUNCTIONS.items()},
    "NormalDist": NormalDist,
}
