"""Splines of `scipy.interpolate` for traced arrays: by the places they are evaluated at, and by their coefficients."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.numpy.buffers import settled
from eindiff.tracing.numpy.traced_array import has_traced, stacked


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """A spline of known knots: a product with its basis, or polynomials between them."""
    knots, coefficients, order = tck
    if has_traced(knots) or ext != 0:
        raise EindiffError("scipy.interpolate.splev of symbolic arrays: its knots are known, and ext=0", "tracing")
    knots, order, count = np.asarray(knots, float), int(order), len(knots) - int(order) - 1
    kind = _kinds()[0]
    if not has_traced(x):
        return kind(knots, np.eye(count), order)(np.asarray(x, float), nu=der) @ coefficients[:count]
    basis = [_pieces(kind(knots, unit, order), der) for unit in np.eye(count)]
    return _between(x, basis[0].x, np.tensordot([one.c for one in basis], coefficients[:count], (0, 0)))


def _kinds() -> tuple[Any, Any]:
    """The classes of splines, if somebody has imported them."""
    module = sys.modules.get("scipy.interpolate")
    return (module.BSpline, module.PPoly) if module is not None else (None, None)


def is_spline(value: Any) -> bool:
    """Whether something is a spline that is known here."""
    return "scipy.interpolate" in sys.modules and isinstance(
        value, (*_kinds(), sys.modules["scipy.interpolate"].interp1d)
    )


def _pieces(spline: Any, der: int) -> Any:
    """The polynomials of a spline, without those between knots at its ends, which are the same."""
    basis, polynomials = _kinds()
    if isinstance(spline, basis) and spline.c.ndim > 1:  # which SciPy takes apart for numbers only
        columns = [_pieces(basis(spline.t, column, spline.k), der) for column in spline.c.T]
        return polynomials.construct_fast(np.stack([one.c for one in columns], -1), columns[0].x)
    if isinstance(spline, basis):
        found, order = polynomials.from_spline(spline), spline.k
        end = len(found.x) - order
        spline = polynomials.construct_fast(found.c[:, order : end - 1], found.x[order:end])
    return spline.derivative(der) if der else spline


def _between(x: Any, breaks: np.ndarray, rows: Any) -> Any:
    """Polynomials between breaks, whose coefficients come in descending order."""
    piece = np.clip(np.searchsorted(breaks, x, side="right") - 1, 0, len(breaks) - 2)
    away, found = x - breaks[piece], 0.0
    for row in rows:
        found = found * away + row[piece]
    return found


class LinearSpline:
    """A spline through values that are symbolic: linear in them, with those through unit vectors as a basis."""

    def __init__(self, basis: Any, values: Any) -> None:
        self._basis, self._values = basis, values

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if not has_traced(x):
            return self._basis(np.asarray(x, float), nu, extrapolate) @ self._values
        pieces = _pieces(self._basis, nu)
        return _between(x, pieces.x, pieces.c @ self._values)

    def derivative(self, nu: int = 1) -> LinearSpline:
        """The spline of derivatives."""
        return LinearSpline(self._basis.derivative(nu), self._values)

    def antiderivative(self, nu: int = 1) -> LinearSpline:
        """The spline of integrals from the first place on."""
        return LinearSpline(self._basis.antiderivative(nu), self._values)

    def integrate(self, a: float, b: float, extrapolate: Any = None) -> Any:
        """The integral between two places."""
        return self._basis.integrate(a, b, extrapolate) @ self._values


class Constructor:
    """What makes splines of SciPy, also through symbolic values."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._original)

    def __call__(self, x: Any, y: Any, *args: Any, **keywords: Any) -> Any:
        x, y = settled(x), settled(y)
        name = self._original.__name__
        if not has_traced([x, y, *args, *keywords.values()]):
            return Spline(self._original(x, y, *args, **keywords))
        if has_traced([x, *args, *keywords.values()]) or np.ndim(y) != 1:
            raise EindiffError(f"scipy.interpolate.{name}: only its values y may be symbolic, a vector", "tracing")
        if name == "interp1d":
            return Interpolation(x, y, *args, **keywords)
        return LinearSpline(self._original(x, np.eye(len(x)), *args, **keywords), y)


CONSTRUCTORS = ("CubicSpline", "make_interp_spline", "interp1d")
_DEGREES = {"linear": 1, "slinear": 1, "quadratic": 2, "cubic": 3}


class Interpolation:
    """`scipy.interpolate.interp1d` of a vector: a spline between its ends, and what is given outside."""

    def __init__(
        self, x: Any, y: Any, kind: Any = "linear", fill_value: Any = np.nan, bounds_error: Any = None, **keywords: Any
    ) -> None:
        degree = _DEGREES.get(kind, kind)
        if isinstance(degree, str) or np.ndim(y) != 1 or keywords.keys() - {"assume_sorted", "copy"}:
            raise EindiffError(f"interp1d of symbolic arrays: of a vector, with kind {', '.join(_DEGREES)}", "tracing")
        order = np.argsort(x)
        self.x, self.y, self._fill = np.asarray(x, float)[order], y[order], fill_value
        self._is_bounded = bounds_error is not False
        basis = sys.modules["scipy.interpolate"].make_interp_spline(self.x, np.eye(len(order)), degree)
        self._spline = LinearSpline(basis, self.y)

    def __call__(self, x: Any) -> Any:
        x = settled(x) if has_traced(settled(x)) else np.asarray(x, float)
        inside = self._spline(x)
        if isinstance(self._fill, str):
            return inside
        low, high = self._fill if isinstance(self._fill, tuple) else (self._fill, self._fill)
        below, above = np.less(x, self.x[0]), np.greater(x, self.x[-1])
        if self._is_bounded and np.any(below | above) and np.any(np.isnan([low, high])):
            raise ValueError("A value in x_new is outside the interpolation range.")
        return np.where(below, low, np.where(above, high, inside))


class Spline:
    """A spline of SciPy, which may be evaluated at symbolic places."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __call__(self, x: Any, *args: Any, **keywords: Any) -> Any:
        x = settled(x)
        if not has_traced(x):
            return self._original(x, *args, **keywords)
        return self._at(stacked(x) if isinstance(x, list | tuple) else x, *args, **keywords)

    def _at(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """Values, or derivatives, at symbolic places."""
        original = self._original
        if type(original).__name__ == "interp1d":
            kind = original._spline.k if original._kind == "spline" else original._kind
            return Interpolation(original.x, original.y, kind, original.fill_value, original.bounds_error)(x)
        values = original.c.ndim - (1 if isinstance(original, _kinds()[0]) else 2)
        if values or "periodic" in (extrapolate, original.extrapolate):
            raise EindiffError("a spline at symbolic places has numbers as its values, and no period", "tracing")
        pieces = _pieces(original, nu)
        return _between(x, pieces.x, pieces.c)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        return (lambda *args: Spline(found(*args))) if name in ("derivative", "antiderivative") else found
