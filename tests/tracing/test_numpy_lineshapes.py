"""Line shapes as people have them: guards against zero, branches on names, complex numbers on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import arctan, copysign, cos, exp, isclose, isnan, log, maximum, minimum, pi, real, sign, sin, sqrt, where
from scipy.special import betaln, erf, erfc, gamma, loggamma, wofz

import eindiff as ed

tiny, s2, s2pi = 1.0e-15, sqrt(2.0), sqrt(2 * pi)
X = np.array([-2.1, -0.7, 0.0, 0.4, 1.3, 2.6])
SHAPES: dict[str, tuple[Callable, list[float]]] = {}


def shape(*point: float) -> Callable[[Callable], Callable]:
    def add(f: Callable) -> Callable:
        SHAPES[f.__name__] = (f, list(point))
        return f

    return add


def not_zero(value: Any) -> Any:
    return float(copysign(max(tiny, abs(value)), value))


@shape(1.2, 0.3, 0.8)
def bell(x: Any, a: Any, c: Any, s: Any) -> Any:
    return (a / max(tiny, s2pi * s)) * exp(-((1.0 * x - c) ** 2) / max(tiny, 2 * s**2))


@shape(1.2, 0.3, 0.8)
def lorentz(x: Any, a: Any, c: Any, s: Any) -> Any:
    return (a / (1 + ((1.0 * x - c) / max(tiny, s)) ** 2)) / max(tiny, pi * s)


@shape(1.2, 0.3, 0.8, 1.7)
def split_lorentz(x: Any, a: Any, c: Any, s: Any, r: Any) -> Any:
    s, r, square = max(tiny, s), max(tiny, r), (x - c) ** 2
    return 2 * a / (pi * (s + r)) * (s * s * (x < c) / (s * s + square) + r * r * (x >= c) / (r * r + square))


@shape(1.2, 0.3, 0.8, 0.4)
def profile(x: Any, a: Any, c: Any, s: Any, g: Any = None) -> Any:
    if g is None:
        g = s
    z = (x - c + 1j * g) / max(tiny, s * s2)
    return a * real(wofz(z)) / max(tiny, s * s2pi)


@shape(1.2, 0.3, 0.8, 1.6, 0.7)
def pearson_four(x: Any, a: Any, c: Any, s: Any, m: Any, skew: Any) -> Any:
    m, s = max(tiny, m), max(tiny, s)
    arg = (x - c) / s
    scale = 2 * (real(loggamma(m + skew * 0.5j)) - loggamma(m)) - betaln(m - 0.5, 0.5)
    return (a / s) * exp(scale - m * np.log1p(arg * arg) - skew * arctan(arg))


@shape(1.2, 0.3, 0.8, 1.6)
def pearson_seven(x: Any, a: Any, c: Any, s: Any, m: Any) -> Any:
    m, arg = max(tiny, m), (x - c) / max(tiny, s)
    return a * gamma(m) / (gamma(0.5) * gamma(m - 0.5)) * (1 + arg**2) ** (-m) / max(tiny, s)


@shape(1.1, 0.9, 0.3)
def oscillator(x: Any, a: Any, c: Any, s: Any) -> Any:
    c = max(tiny, abs(c))
    return a / sqrt((1.0 - (x / c) ** 2) ** 2 + (2 * s * x / c) ** 2)


@shape(1.1, 0.9, 0.7, 1.4)
def harmonic(x: Any, a: Any, c: Any, s: Any, g: Any) -> Any:
    bose = 1.0 - exp(-x / max(tiny, g))
    if isinstance(bose, int | float):
        bose = not_zero(bose)
    else:
        bose[where(isnan(bose))] = tiny
        bose[where(abs(bose) <= tiny)] = tiny
    low, high = 1.0 / ((x - c) ** 2 + s**2), 1.0 / ((x + c) ** 2 + s**2)
    return a * s / pi * where(isclose(x, 0.0), 4 * g * c / (c**2 + s**2) ** 2, (low - high) / bose)


@shape(1.1, 0.2, 0.7)
def logarithmic(x: Any, a: Any, c: Any, s: Any) -> Any:
    x = x + 2.5
    x[where(x <= tiny)] = tiny
    return (a / (x * max(tiny, s * s2pi))) * exp(-((log(x) - c) ** 2) / max(tiny, 2 * s**2))


@shape(1.1, 0.2, 1.7)
def student(x: Any, a: Any, c: Any, s: Any) -> Any:
    half = (s + 1) / 2.0
    below = max(tiny, sqrt(s * pi) * gamma(max(tiny, s / 2)))
    return a * (1 + (x - c) ** 2 / max(tiny, s)) ** (-half) * gamma(half) / below


@shape(1.1, 0.2, 0.7, 0.9)
def modified_bell(x: Any, a: Any, c: Any, s: Any, g: Any) -> Any:
    gss = g * s * s
    return a * (g / 2) * exp(g * (c + gss / 2.0 - x)) * erfc((c + gss - x) / max(tiny, s2 * s))


@shape(1.1, 0.2, 0.7, 0.3)
def asymmetric(x: Any, a: Any, c: Any, s: Any, g: Any) -> Any:
    arg, g1 = (x - c) / max(tiny, s), 1.0 - g
    return a / max(tiny, s**g1) * cos(pi * g / 2 + g1 * arctan(arg)) / (1 + arg**2) ** (g1 / 2)


@shape(1.1, 0.2, 0.7, 0.8, 0.5)
def skewed_profile(x: Any, a: Any, c: Any, s: Any, g: Any, skew: Any) -> Any:
    return (1 + erf(skew / max(tiny, s2 * s) * (x - c))) * profile(x, a, c, s, g)


@shape(1.1, 0.2, 0.7)
def thermal(x: Any, a: Any, c: Any, t: Any, form: str = "Fermi") -> Any:
    offset = {"bose": -1, "maxwell": 0, "fermi": 1}[form.lower()]
    return real(1 / (a * exp((x - c) / not_zero(t)) + offset + tiny * 1j))


@pytest.mark.parametrize("form", ["linear", "atan", "erf", "logistic"])
def test_steps(form: str) -> None:
    def step(p: Any, x: Any) -> Any:
        a, c, s = p
        out = sign(s) * (x - c) / max(tiny * tiny, abs(s))
        if form == "erf":
            out = 0.5 * (1 + erf(out))
        elif form == "logistic":
            out = 1.0 - 1.0 / (1.0 + exp(out))
        elif form in ("atan", "arctan"):
            out = 0.5 + arctan(out) / pi
        else:
            out = minimum(1, maximum(0, out + 0.5))
        return np.sum(sin(a * out))

    gradient = ed.gradient(step)
    for p in (np.array([1.2, 0.3, 0.8]), np.array([1.2, 0.3, -0.8])):
        expected = [(step(p + e, X) - step(p - e, X)) / 2e-6 for e in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(gradient(p, X), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", SHAPES)
def test_line_shapes_by_their_parameters(name: str) -> None:
    f, point = SHAPES[name]
    jacobian = ed.jacobian(lambda p, x: f(x, *p))
    for scale in (1.0, 1.3):
        p = scale * np.array(point)
        expected = np.stack([(f(X, *(p + e)) - f(X, *(p - e))) / 2e-6 for e in 1e-6 * np.eye(p.size)], axis=-1)
        np.testing.assert_allclose(jacobian(p, X), expected, rtol=1e-5, atol=1e-6)
    assert jacobian.traces == 1


# Derivatives inside of functions


def test_derivatives_of_derivatives() -> None:
    def f(x: Any) -> Any:
        return np.sum(x**3) * x[0] if x[1] < 0 else np.sum(x**2)

    v = np.array([1.0, 2.0, 3.0])
    square = ed.gradient(lambda x: np.sum(ed.gradient(f)(x) ** 2))
    product = ed.gradient(lambda x: np.vdot(ed.gradient(f)(x), v))
    twice, gradient, hessian = ed.jacobian(ed.gradient(f)), ed.gradient(f), ed.hessian(f)
    for x in (np.array([0.3, -0.5, 0.7]), np.array([0.3, 0.5, 0.7]), np.array([0.4, -0.2, 0.1])):
        np.testing.assert_allclose(square(x), 2 * hessian(x) @ gradient(x))
        np.testing.assert_allclose(product(x), hessian(x) @ v)
        np.testing.assert_allclose(twice(x), hessian(x))
    assert square.traces == product.traces == 2
    third = ed.gradient(ed.gradient(ed.gradient(np.sin)))
    np.testing.assert_allclose(third(0.3), -np.cos(0.3))


def test_variables_of_nested_functions_are_told_apart() -> None:
    assert ed.gradient(lambda x: x * ed.gradient(lambda y: x + y)(1.0))(2.0) == 1
    assert ed.gradient(lambda x: x * ed.gradient(lambda x: x * x)(3.0 * x))(2.0) == 24
    inner = ed.gradient(lambda a: ed.gradient(lambda x: a * x * x if x > a else x**3)(2 * a))
    assert inner(1.5) == 12
    assert inner(-1.5) == 24 * -1.5
