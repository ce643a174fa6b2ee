"""Functions as people write them, of physics, statistics, signals, images and numerical analysis, with SciPy's."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import fft, integrate, interpolate, ndimage, optimize, signal, stats

import eindiff as ed

FUNCTIONS: dict[str, tuple[Callable, int]] = {}
B, A = signal.butter(2, 0.3)
TIMES = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
NORMAL = statistics.NormalDist(0.2, 1.5)
OUTSIDE = interpolate.interp1d(np.linspace(-9, 9, 30), np.sin(np.linspace(-9, 9, 30)), "cubic")


def of(count: int) -> Callable[[Callable], Callable]:
    def add(f: Callable) -> Callable:
        FUNCTIONS[f.__name__] = (f, count)
        return f

    return add


@of(9)
def elimination_with_pivots(x: Any) -> Any:
    M = x.reshape(3, 3) + 3 * np.eye(3)
    order = np.arange(3)
    for k in range(3):
        p = np.argmax(np.abs(M[k:, k])) + k
        if p != k:
            M[[k, p]] = M[[p, k]]
            order[[k, p]] = order[[p, k]]
        for i in range(k + 1, 3):
            M[i, k] /= M[k, k]
            M[i, k + 1 :] -= M[i, k] * M[k, k + 1 :]
    return np.log(np.abs(np.diag(M))).sum() + order[0]


@of(5)
def robust_location(x: Any) -> Any:
    found = np.median(x)
    for _ in range(4):
        away = x - found
        weights = np.where(np.abs(away) <= 0.6, 1.0, 0.6 / np.maximum(np.abs(away), 1e-12))
        found, old = np.average(x, weights=weights), found
        if abs(found - old) < 1e-13:
            break
    return found


@of(5)
def what_is_no_number(x: Any) -> Any:
    y = x.copy()
    y[np.abs(x) > 1.2] = np.nan
    rows = np.nanmedian(np.stack([y, x]), axis=1, keepdims=True)
    return np.nanmedian(y) + np.nanquantile(y, 0.3) + np.nanpercentile(y, [20, 60]).sum() + np.sum(rows**2)


@of(6)
def of_statistics(x: Any) -> Any:
    values = [float(t) for t in x]
    spread = statistics.stdev(values) + statistics.median_low(values) + statistics.pvariance(iter(values))
    slope, start = statistics.linear_regression([0.0, 1, 2, 3, 4, 5], values)
    normal = statistics.NormalDist(x[0], 1 + x[1] ** 2)
    return statistics.mean(values) + spread + slope * start + normal.pdf(x[2]) + NORMAL.cdf(x[3]) + normal.inv_cdf(0.3)


@of(8)
def entropy_of_a_histogram(x: Any) -> Any:
    counts, edges = np.histogram(np.tanh(x), bins=4)
    share = counts[counts > 0] / counts.sum()
    plane, _, _ = np.histogram2d(TIMES[:4], TIMES[1:], bins=2, weights=x[:4], range=[[0, 1], [0, 1]])
    return -(share * np.log(share)).sum() + edges[1] ** 2 + (plane**2).sum()


@of(16)
def pooling_by_strides(x: Any) -> Any:
    image = x.reshape(4, 4)
    steps = (image.strides[0] * 2, image.strides[1] * 2, *image.strides)
    return (np.lib.stride_tricks.as_strided(image, (2, 2, 2, 2), steps).max(axis=(2, 3)) ** 2).sum()


@of(8)
def written_by_strides(x: Any) -> Any:
    out = np.zeros(8)
    np.lib.stride_tricks.as_strided(out, (4,), (16,))[:] = x[:4] ** 2
    out[1::2] = x[4:]
    z = x[:4] + 1j * x[4:]
    part, turned = z[1:3], z.conj()
    part[0], turned[0] = 2 + 1j, 0
    return out @ np.arange(8.0) + (out**2).sum() + np.abs(z).sum() + np.real(z * turned).sum()


@of(6)
def angles_and_circles(x: Any) -> Any:
    turn = (x[1] - x[0] + np.pi) % (2 * np.pi) - np.pi
    hit = sum((1.5 - d) ** 2 for a, b in itertools.combinations(x.reshape(3, 2), 2) if (d := math.dist(a, b)) < 1.5)
    return turn**2 + hit + np.unwrap(np.array([x[0], x[0] + 4.0, x[1] * 3]))[-1] ** 2


@of(4)
def folded(x: Any) -> Any:
    running = itertools.accumulate(x, lambda s, v: 0.5 * s + v)
    return functools.reduce(operator.mul, x) + sum(running) ** 2 + functools.reduce(np.maximum, x)


@of(10)
def longest_run(x: Any) -> Any:
    runs = [list(g) for is_up, g in itertools.groupby(x, key=lambda v: v > 0) if is_up]
    return max((sum(run) for run in runs), default=0.0)


@of(10)
def filtered(x: Any) -> Any:
    smooth = signal.savgol_filter(x, 5, 2) + signal.detrend(x)
    return np.sum(signal.lfilter(B, A, x) ** 2) + signal.filtfilt(B, A, np.tile(x, 2))[3] + np.sum(smooth**2)


@of(8)
def convolved(x: Any) -> Any:
    a, b = x[:5], x[5:]
    both = sum(np.sum(signal.convolve(a, b, mode=m) ** 2) for m in ("full", "same", "valid"))
    square = signal.convolve2d(x.reshape(2, 4), x[:4].reshape(2, 2)) * x[0]
    square[:2, :4] += signal.correlate2d(x.reshape(2, 4), x[:4].reshape(2, 2), "same")
    return both + signal.correlate(a, b, mode="same") @ a + signal.fftconvolve(a, [1.0, 2, 3]).max() + (square**2).sum()


@of(8)
def low_pass(x: Any) -> Any:
    spectrum = np.fft.fft(x)
    spectrum[3:6] = 0
    turned = np.exp(1j * np.outer(x[:2], np.arange(4)))
    image = x.reshape(2, 4)
    plane = np.fft.ifft2(np.fft.fftshift(np.fft.fft2(image)) * np.linspace(0, 1, 4))
    half = np.fft.irfft2(np.fft.rfft2(image) ** 2 * [1, 0.5, 0]) * np.fft.irfftn(np.fft.rfftn(image))
    total = np.sum(np.fft.ifft(spectrum).real ** 2) + np.abs(turned @ (x[4:] + 1j)).sum() + np.sum(np.abs(plane) ** 2)
    return total + np.sum(half**2)


@of(5)
def class_inside(x: Any) -> Any:
    class Model:
        start = np.ones(5)

        def __init__(self, weights: Any) -> None:
            self.weights = weights

        @functools.cached_property
        def size(self) -> Any:
            return np.linalg.norm(self.weights)

        def __matmul__(self, other: Any) -> Any:
            return (self.weights / self.size) @ (other + self.start)

    return Model(x) @ x**2


@of(12)
def image_filters(x: Any) -> Any:
    image = x.reshape(3, 4)
    edges = np.hypot(ndimage.sobel(image), ndimage.laplace(image) + 0.1).sum()
    around = ndimage.uniform_filter(image, 3, mode="constant", cval=1.0)[0, 0] ** 2
    chosen = np.sum(ndimage.median_filter(image, size=3) ** 2) + ndimage.maximum_filter(image, (2, 2))[1].sum()
    return np.sum(ndimage.gaussian_filter(image, 0.8) ** 2) + edges + around + chosen


@of(5)
def integrals(y: Any) -> Any:
    known = integrate.simpson(y**2, x=TIMES) + integrate.cumulative_trapezoid(y, TIMES, initial=0) @ y
    damped = integrate.quad(lambda t: math.exp(-(y[0] ** 2) * t) * math.sin(y[1] * t), 0, 2)[0]
    tail = integrate.quad(lambda t, a: 1 / (1 + a * a + t * t), 0, np.inf, args=(y[2],))[0]
    return known + damped + tail**2 + integrate.quad(np.cos, 0, y[0])[0]


@of(5)
def splines(y: Any) -> Any:
    natural, own = interpolate.CubicSpline(np.arange(5.0), y, bc_type="natural"), 2 + np.tanh(y[0])
    lines, curve = interpolate.interp1d(np.arange(5.0), y), interpolate.make_interp_spline(np.arange(5.0), y)
    known = natural(1.1, 1) + natural.integrate(0, 2) + lines([0.5, 3.2]).sum()
    return known + natural(own) ** 2 + curve(own) + OUTSIDE(own)


@of(6)
def summaries(x: Any) -> Any:
    slope, start, r, p, error = stats.linregress(np.arange(6.0), x)
    shape = stats.skew(x) + stats.kurtosis(x, bias=False) + stats.moment(x, 3) + stats.variation(x + 9)
    middle = stats.trim_mean(x, 0.2) + stats.iqr(x) + stats.median_abs_deviation(x) + stats.gmean(np.abs(x) + 0.1)
    spread = stats.sem(x) + stats.entropy(np.abs(x) + 0.1) + stats.hmean(np.abs(x) + 0.1) + stats.pearsonr(x, x**2)[0]
    power = np.abs(fft.rfft(x)) ** 2
    return shape + middle + spread + slope * start + r * p + error + power @ [1, 2, 3, 4] + fft.dct(x)[1] ** 2


@of(3)
def root_of_a_function(p: Any) -> Any:
    return optimize.newton(lambda t: t**3 + t - p[0], 1.0) + optimize.rosen(p)


@of(3)
def lists_as_operands(x: Any) -> Any:
    turned = np.array([[0.8, -0.6], [0.6, 0.8]]) @ [x[0], x[1]]
    moved = x - (x[2], 1.0, x[0]) + TIMES[:3] * [x[1], x[1] ** 2, 2.0]
    away = np.hypot(moved, [1.0, x[0], 2.0]) + np.multiply([[x[0]], [x[1]]], x)
    return (turned**2).dot([x[2], 3.0]) + away.clip([-9.0, x[0] - 9.0, -9.0], 9.0).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str) -> None:
    f, count = FUNCTIONS[name]
    rng, gradient, step = np.random.default_rng(len(name)), ed.gradient(f), 1e-6
    for _ in range(4):
        x = rng.normal(size=count)
        expected = np.array([(f(x + e) - f(x - e)) / (2 * step) for e in step * np.eye(count)])
        np.testing.assert_allclose(gradient(x), expected, rtol=2e-5, atol=2e-5 * (1 + abs(f(x))))


@pytest.mark.parametrize("name", ["elimination_with_pivots", "filtered"])
def test_hessian(name: str) -> None:
    f, count = FUNCTIONS[name]
    x, gradient, step = np.random.default_rng(1).normal(size=count), ed.gradient(f), 1e-5
    expected = np.array([(gradient(x + e) - gradient(x - e)) / (2 * step) for e in step * np.eye(count)])
    np.testing.assert_allclose(ed.hessian(f)(x), expected, rtol=1e-5, atol=1e-6)


CURES: dict[str, tuple[Callable, str]] = {
    "brentq": (lambda p: optimize.brentq(lambda t: t**3 - p[0], 0, 9), r"scipy.optimize.newton\(f, start\) runs here"),
    "fsolve": (lambda p: optimize.fsolve(lambda t: t**3 - p, p)[0], "write Newton's method out"),
    "minimize": (lambda p: optimize.minimize(lambda t: np.sum((t - p) ** 2), np.zeros(3)).x[0], "write the steps out"),
    "solve_ivp": (lambda p: integrate.solve_ivp(lambda t, y: -p[0] * y, (0, 1), [1.0]).y[0, -1], "k1 = f"),
    "quad": (lambda p: integrate.quad(lambda t: abs(t - p[0]), -3, 3)[0], "integrate from kink to kink"),
    "roots": (lambda p: np.roots(p)[0], r"r = r - np.polyval\(c, r\) / np.polyval"),
    "pchip": (lambda p: interpolate.PchipInterpolator(np.arange(3.0), p)(1.2), "CubicSpline, make_interp_spline"),
    "filter": (lambda p: signal.lfilter(p, [1.0], p).sum(), "only its argument x may be symbolic"),
}


@pytest.mark.parametrize("name", CURES)
def test_cures(name: str) -> None:
    f, message = CURES[name]
    with pytest.raises(ed.EindiffError, match=rf'(?s){message}.*\(test_numpy_everyday.py:\d+: .*"{name}": \(lambda'):
        ed.gradient(f)(np.ones(3))
