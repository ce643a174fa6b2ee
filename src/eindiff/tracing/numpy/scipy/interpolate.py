"""Splines of `scipy.interpolate` for traced arrays: by the places they are evaluated at, and by their coefficients."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.numpy.traced_array import has_traced


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
    return "scipy.interpolate" in sys.modules and isinstance(value, _kinds())


def _pieces(spline: Any, der: int) -> Any:
    """The polynomials of a spline, without those between knots at its ends, which are the same."""
    basis, polynomials = _kinds()
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


class Spline:
    """A spline of SciPy, which may be evaluated at symbolic places."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if not has_traced(x):
            return self._original(x, nu, extrapolate)
        original = self._original
        values = original.c.ndim - (1 if isinstance(original, _kinds()[0]) else 2)
        if values or "periodic" in (extrapolate, original.extrapolate):
            raise EindiffError("a spline at symbolic places has numbers as its values, and no period", "tracing")
        pieces = _pieces(original, nu)
        return _between(x, pieces.x, pieces.c)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        return (lambda *args: Spline(found(*args))) if name in ("derivative", "antiderivative") else found
