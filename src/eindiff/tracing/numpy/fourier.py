"""Discrete Fourier transforms of traced arrays, which are products with matrices of sines and cosines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.numpy.complex_array import FUNCTIONS, ComplexArray
from eindiff.tracing.numpy.numeric import COMPOSITE as COMPOSITE
from eindiff.tracing.numpy.numeric import named

MOST_TRANSFORMED = 1024  # entries along an axis: the matrices have the square of that


def _parts(a: Any, n: int | None, axis: int) -> tuple[Any, Any]:
    """Real and imaginary part with the transformed axis last, cut or filled with zeros to n entries."""
    found = []
    for part in (np.real(a), np.imag(a)):
        moved = np.moveaxis(np.broadcast_to(part, np.shape(a)), axis, -1)
        size = np.shape(moved)[-1]
        count = size if n is None else n
        if count > MOST_TRANSFORMED:
            raise EindiffError(f"a Fourier transform of {count} symbolic entries: {MOST_TRANSFORMED} at most", "large")
        widths = [(0, 0)] * (np.ndim(moved) - 1) + [(0, max(count - size, 0))]
        found.append(np.pad(moved, widths) if count > size else moved[..., :count])
    return found[0], found[1]


def _scale(norm: str | None, n: int, is_inverse: bool) -> float:
    if norm == "ortho":
        return 1 / np.sqrt(n)
    return 1 / n if ((norm or "backward") == "backward") == is_inverse else 1.0


def _transformed(a: Any, n: int | None, axis: int, norm: str | None, sign: int, half: bool) -> ComplexArray:
    real, imag = _parts(a, n, axis)
    size = np.shape(real)[-1]
    angle = 2 * np.pi / size * np.outer(np.arange(size), np.arange(size // 2 + 1 if half else size))
    scale = _scale(norm, size, sign > 0)
    cosine, sine = scale * np.cos(angle), sign * scale * np.sin(angle)
    parts = (real @ cosine - imag @ sine, real @ sine + imag @ cosine)
    return ComplexArray(*[np.moveaxis(part, -1, axis) for part in parts])


def _transform(sign: int, half: bool = False) -> Callable[..., ComplexArray]:
    return lambda a, n=None, axis=-1, norm=None: _transformed(a, n, axis, norm, sign, half)


fft, ifft, rfft = _transform(-1), _transform(1), _transform(-1, half=True)
COMPOSITE |= {"fft.fft": fft, "fft.ifft": ifft, "fft.rfft": rfft}


@named("fft.irfft")
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Real numbers from half of their transform."""
    size = 2 * (np.shape(a)[axis] - 1) if n is None else n
    real, imag = _parts(a, size // 2 + 1, axis)
    k = np.arange(size // 2 + 1)
    twice = np.where((k == 0) | (2 * k == size), 1.0, 2.0) * _scale(norm, size, True)
    angle = 2 * np.pi / size * np.outer(k, np.arange(size))
    found = real @ (twice[:, None] * np.cos(angle)) - imag @ (twice[:, None] * np.sin(angle))
    return np.moveaxis(found, -1, axis)


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    """An array with its halves exchanged along axes."""
    for axis in range(np.ndim(x)) if axes is None else np.atleast_1d(axes):
        size = np.shape(x)[axis]
        x = np.take(x, np.roll(np.arange(size), sign * (size // 2)), axis)
    return x


COMPOSITE["fft.fftshift"] = lambda x, axes=None: _shifted(x, axes, 1)
COMPOSITE["fft.ifftshift"] = lambda x, axes=None: _shifted(x, axes, -1)


def _along(transform: Callable, of_last: Callable, is_plane: bool, last_comes_first: bool) -> Callable:
    """A transform along several axes, one after the other; along the last one it may be another."""

    def called(a: Any, s: None = None, axes: Any = (-2, -1) if is_plane else None, norm: str | None = None) -> Any:
        if s is not None:
            raise EindiffError("a Fourier transform of symbolic arrays with s: cut or pad the array first", "tracing")
        *rest, last = range(np.ndim(a)) if axes is None else axes
        turns = [(transform, axis) for axis in rest]
        turns.insert(0 if last_comes_first else len(rest), (of_last, last))
        for along, axis in turns:
            a = along(a, None, axis, norm)
        return a

    return called


_BY_AXES = {"fft": (fft, fft), "ifft": (ifft, ifft), "rfft": (fft, rfft), "irfft": (ifft, irfft)}
_SEVERAL = {
    f"{name}{end}": _along(transform, of_last, end == "2", name == "rfft")
    for name, (transform, of_last) in _BY_AXES.items()
    for end in ("2", "n")
}
COMPOSITE.update({f"fft.{name}": function for name, function in _SEVERAL.items()})
FUNCTIONS.update({"fft": fft, "ifft": ifft, "irfft": irfft, **_SEVERAL})
