"""Complex numbers on the way from real arguments to real results: pairs of real and imaginary parts.

`np.real(wofz((x + 1j * gamma) / sigma))` is a real function of real numbers. What has no real form is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.functions import scipy_functions
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.numpy.buffers import buffer
from eindiff.tracing.numpy.methods import Methods

Pair = tuple[Any, Any]


class ComplexArray(Methods):
    """An array of complex numbers of a traced function."""

    __slots__ = ("imag", "real")
    __hash__ = None  # type: ignore[assignment]  # as NumPy's arrays

    def __init__(self, real: Any, imag: Any) -> None:
        self.real, self.imag = real, imag

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """That of both parts."""
        return np.broadcast_shapes(np.shape(self.real), np.shape(self.imag))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type that NumPy would give it."""
        return np.dtype(complex)

    def __getitem__(self, index: Any) -> Any:
        shape = self.shape
        parts = [x if np.shape(x) == shape else np.broadcast_to(x, shape) for x in (self.real, self.imag)]
        return ComplexArray(*[part[index] for part in parts])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.real, self.imag = (self._whole(part) for part in (self.real, self.imag))
        self.real[index], self.imag[index] = (value.real, value.imag) if is_complex(value) else (value, 0.0)

    def _whole(self, part: Any) -> Any:
        """A part as an array of its own that can be changed."""
        if not hasattr(type(part), "__eindiff_expression__"):
            return buffer(np.array(np.broadcast_to(part, self.shape), float))
        return part if np.shape(part) == self.shape else np.copy(np.broadcast_to(part, self.shape))

    def conj(self) -> ComplexArray:
        """The conjugate."""
        return ComplexArray(+self.real, -self.imag)

    conjugate = conj

    def sum(self, *args: Any, **keywords: Any) -> ComplexArray:
        """The sum of entries."""
        real, imag = (np.broadcast_to(part, self.shape) for part in (self.real, self.imag))
        return ComplexArray(np.sum(real, *args, **keywords), np.sum(imag, *args, **keywords))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return complex_ufunc(ufunc, method, inputs, keywords)

    def __array_function__(self, function: Callable, types: Any, args: Any, keywords: Any) -> Any:
        if function.__name__ not in FUNCTIONS:
            raise EindiffError(
                f"np.{function.__name__} of complex numbers has no symbolic form: take real parts first", "tracing"
            )
        return FUNCTIONS[function.__name__](*args, **keywords)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "sum": ComplexArray.sum,
    "angle": lambda z: np.arctan2(z.imag, z.real),
}


# What is the same for both parts
_BOTH = (
    "reshape", "ravel", "transpose", "moveaxis", "swapaxes", "squeeze", "expand_dims", "broadcast_to", "roll", "flip",
    "mean", "cumsum", "diff", "pad", "tile", "repeat", "trace", "diag", "take", "copy", "fftshift", "ifftshift",
)  # fmt: skip


def _for_both(name: str) -> Callable:
    function = getattr(np.fft if name.endswith("shift") else np, name)

    def called(z: ComplexArray, *args: Any, **keywords: Any) -> ComplexArray:
        parts = [np.broadcast_to(part, z.shape) for part in (z.real, z.imag)]
        return ComplexArray(*[function(part, *args, **keywords) for part in parts])

    return called


FUNCTIONS |= {name: _for_both(name) for name in _BOTH}
FUNCTIONS |= {"shape": lambda z: z.shape, "ndim": lambda z: z.ndim, "size": lambda z: int(np.prod(z.shape))}
FUNCTIONS |= {"dot": lambda a, b: np.matmul(a, b), "vdot": lambda a, b: np.matmul(np.conj(a), b)}


def is_complex(value: Any) -> bool:
    """Whether a value has complex numbers."""
    if type(value) is ComplexArray or isinstance(value, complex):
        return True
    return isinstance(value, np.ndarray | np.generic) and np.dtype(value.dtype).kind == "c"


def complex_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A ufunc of complex numbers."""
    if method != "__call__" or keywords or ufunc.__name__ not in _UFUNCS:
        known = ", ".join(sorted(_UFUNCS))
        raise EindiffError(f"np.{ufunc.__name__} of complex numbers has no symbolic form: there are {known}", "tracing")
    found = _UFUNCS[ufunc.__name__](*[(x.real, x.imag) if is_complex(x) else (x, 0.0) for x in inputs])
    return ComplexArray(*found) if isinstance(found, tuple) else found


def _matrix_product(a: Pair, b: Pair) -> Pair:
    def times(k: int, j: int) -> Any:
        parts = [np.broadcast_to(pair[n], np.broadcast_shapes(*map(np.shape, pair))) for pair, n in ((a, k), (b, j))]
        return np.matmul(*parts)

    return times(0, 0) - times(1, 1), times(0, 1) + times(1, 0)


def _product(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _quotient(a: Pair, b: Pair) -> Pair:
    square = b[0] * b[0] + b[1] * b[1]
    real, imag = _product(a, (b[0], -b[1]))
    return real / square, imag / square


def _exp(a: Pair) -> Pair:
    size = np.exp(a[0])
    return size * np.cos(a[1]), size * np.sin(a[1])


def _log(a: Pair) -> Pair:
    return 0.5 * np.log(a[0] * a[0] + a[1] * a[1]), np.arctan2(a[1], a[0])


def _power(a: Pair, b: Pair) -> Pair:
    if isinstance(b[0], int) and b[1] == 0 and b[0] >= 0:
        found: Pair = (1.0, 0.0)
        for _ in range(b[0]):
            found = _product(found, a)
        return found
    return _exp(_product(b, _log(a)))


def _of_scipy(real: Callable, imag: Callable) -> Callable[[Pair], Any]:
    def both(a: Pair) -> Any:
        new = next(part._new for part in a if hasattr(type(part), "_new"))
        parts = [as_expr(part) for part in np.broadcast_arrays(*a)]
        return tuple([new(f(*parts), np.dtype(float), not parts[0].shape) for f in (real, imag)])

    return both


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[0], a[1] - b[1]),
    "multiply": _product,
    "matmul": _matrix_product,
    "divide": _quotient,
    "negative": lambda a: (-a[0], -a[1]),
    "positive": lambda a: (+a[0], +a[1]),
    "conjugate": lambda a: (+a[0], -a[1]),
    "reciprocal": lambda a: _quotient((1.0, 0.0), a),
    "square": lambda a: _product(a, a),
    "power": _power,
    "absolute": lambda a: np.sqrt(a[0] * a[0] + a[1] * a[1]),
    "exp": _exp,
    "log": _log,
    "sqrt": lambda a: _exp(_product((0.5, 0.0), _log(a))),
    "sin": lambda a: (np.sin(a[0]) * np.cosh(a[1]), np.cos(a[0]) * np.sinh(a[1])),
    "cos": lambda a: (np.cos(a[0]) * np.cosh(a[1]), -np.sin(a[0]) * np.sinh(a[1])),
    "wofz": _of_scipy(scipy_functions.wofz_real, scipy_functions.wofz_imag),
    "loggamma": _of_scipy(scipy_functions.loggamma_real, scipy_functions.loggamma_imag),
}
