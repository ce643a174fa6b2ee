"""Summaries of samples in `scipy.stats`, in terms of NumPy's functions."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import stdtr

from eindiff.tracing.numpy.composite import flat
from eindiff.tracing.numpy.scipy.functions import FUNCTIONS as FUNCTIONS


def moment(a: Any, order: int = 1, axis: Any = 0, *, center: Any = None) -> Any:
    """The mean of powers of what entries are away from their mean, or from a center."""
    a, axis = flat(a, axis)
    return np.mean((a - (np.mean(a, axis=axis, keepdims=True) if center is None else center)) ** order, axis=axis)


def skew(a: Any, axis: Any = 0, bias: bool = True) -> Any:
    """The third moment in units of the deviation."""
    a, axis = flat(a, axis)
    n, found = np.shape(a)[axis], moment(a, 3, axis) / moment(a, 2, axis) ** 1.5
    return found if bias else found * np.sqrt((n - 1.0) * n) / (n - 2.0)


def kurtosis(a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True) -> Any:
    """The fourth moment in units of the deviation; by Fisher's definition 0 for a normal distribution."""
    a, axis = flat(a, axis)
    n, found = np.shape(a)[axis], moment(a, 4, axis) / moment(a, 2, axis) ** 2
    found = found if bias else ((n * n - 1.0) * found - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3
    return found - 3 if fisher else found


def entropy(pk: Any, qk: Any = None, base: Any = None, axis: Any = 0) -> Any:
    """The entropy of weights, or the divergence of two."""
    p = pk / np.sum(pk, axis=axis, keepdims=True)
    terms = -p * np.log(p) if qk is None else p * np.log(p / (qk / np.sum(qk, axis=axis, keepdims=True)))
    return np.sum(terms, axis=axis) / (1.0 if base is None else np.log(base))


def sem(a: Any, axis: Any = 0, ddof: int = 1) -> Any:
    """The deviation of the mean."""
    a, axis = flat(a, axis)
    return np.std(a, axis=axis, ddof=ddof) / np.sqrt(np.shape(a)[axis])


def trim_mean(a: Any, proportiontocut: float, axis: Any = 0) -> Any:
    """The mean without a share of the smallest and largest entries."""
    a, axis = flat(a, axis)
    lines = np.moveaxis(np.sort(a, axis), axis, 0)
    cut = int(proportiontocut * len(lines))
    return np.mean(lines[cut : len(lines) - cut], axis=0)


def median_abs_deviation(x: Any, axis: Any = 0, center: Callable = np.median, scale: float = 1.0) -> Any:
    """The median of what entries are away from their median."""
    x, axis = flat(x, axis)
    return np.median(np.abs(x - np.expand_dims(center(x, axis=axis), axis)), axis=axis) / scale


Line = namedtuple("Line", ("slope", "intercept", "rvalue", "pvalue", "stderr"))
Test = namedtuple("Test", ("statistic", "pvalue"))


def linregress(x: Any, y: Any) -> Line:
    """The line of least squares, and how sure its slope is."""
    away, other, free = np.subtract(x, np.mean(x)), np.subtract(y, np.mean(y)), np.size(x) - 2
    xx, xy, yy = away @ away, away @ other, other @ other
    slope, r = xy / xx, xy / np.sqrt(xx * yy)
    probability = 2 * stdtr(float(free), -np.abs(r) * np.sqrt(free / (1 - r**2)))
    return Line(slope, np.mean(y) - slope * np.mean(x), r, probability, np.sqrt((1 - r**2) * yy / xx / free))


def pearsonr(x: Any, y: Any) -> Test:
    """The correlation of two samples, and its probability if there is none."""
    line = linregress(x, y)
    return Test(line.rvalue, line.pvalue)


FUNCTIONS |= {
    f"stats.{function.__name__}": function
    for function in (moment, skew, kurtosis, entropy, sem, trim_mean, median_abs_deviation, linregress, pearsonr)
}
FUNCTIONS |= {
    "stats.gmean": lambda a, axis=0: np.exp(np.mean(np.log(a), axis=axis)),
    "stats.hmean": lambda a, axis=0: 1 / np.mean(1 / a, axis=axis),
    "stats.iqr": lambda x, axis=None: np.percentile(x, 75, axis) - np.percentile(x, 25, axis),
    "stats.variation": lambda a, axis=0: np.std(a, axis=axis) / np.mean(a, axis=axis),
}
