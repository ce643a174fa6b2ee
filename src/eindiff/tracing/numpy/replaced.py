"""What a traced function finds in the places of functions of Python and NumPy that know no symbolic arrays."""

from __future__ import annotations

import builtins
import math
from abc import ABCMeta
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.numpy.buffers import WRITES, Buffer, buffer, owner, settled
from eindiff.tracing.numpy.given_arguments import are_given
from eindiff.tracing.numpy.traced_array import TracedArray, at_places, expression, has_traced, made, operands, stacked
from eindiff.tracing.numpy.types import result_type
from eindiff.tracing.numpy.values import ask

# Python's numbers


class Standing(ABCMeta):
    """The type of a class that stands in the place of another one: objects of that are objects of this too."""

    _stands_for: type

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls._stands_for)

    def __subclasscheck__(cls, kind: type) -> bool:
        return type.__subclasscheck__(cls._stands_for, kind)  # an abstract class would ask its subclasses: this one

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls._stands_for

    def __hash__(cls) -> int:
        return hash(cls._stands_for)


class _FloatType(Standing):
    """The type of numbers of one kind, which makes a traced number of a traced array."""

    def __call__(cls, value: Any = 0.0) -> Any:
        return value.item() if type(value) is TracedArray else cls._stands_for(value)


class Float(builtins.float, metaclass=_FloatType):
    """Python's `float`, for traced numbers too; NumPy takes it for the same type."""

    _stands_for, dtype = builtins.float, np.dtype(builtins.float)


class Float64(np.float64, metaclass=_FloatType):
    """NumPy's `float64`, for traced numbers too."""

    _stands_for, dtype = np.float64, np.dtype(np.float64)  # type: ignore[assignment]


class _TypeType(Standing):
    """The type of `Type`."""

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        found = builtins.type(*args, **keywords)
        if len(args) != 1:
            return found
        kind = args[0].__class__ if found is TracedArray else found
        return _SEEN.get(kind, kind)


class Type(builtins.type, metaclass=_TypeType):
    """Python's `type`, which says what NumPy's arrays and numbers are that traced ones stand for."""

    _stands_for = builtins.type


_SEEN = {float: Float, np.float64: Float64, Buffer: np.ndarray}  # as `is` compares types with their names
for _kind in (Float, Float64, Type):
    _kind.__name__ = _kind.__qualname__ = _kind.__name__.lower()
BUILTINS = {"float": Float, "type": Type}


# Functions of `math` that raise errors where NumPy's give what is no number
_LIMITED = frozenset({"log", "log2", "log10", "log1p", "sqrt", "asin", "acos", "acosh", "atanh"})


def _is_defined(original: Callable, *args: Any) -> bool:
    try:
        original(*args)
    except ValueError:
        return False
    return True


def _of_numpy(original: Callable, function: Callable) -> Callable:
    """A function of `math`, for traced numbers too."""

    is_defined = partial(_is_defined, original)  # one object, so that questions are the same

    @wraps(original)
    def called(*args: Any, **keywords: Any) -> Any:
        if not has_traced(args):
            return original(*args, **keywords)
        if original.__name__ in _LIMITED and ask(is_defined, args) is False:
            raise ValueError("math domain error")
        return function(*args, **keywords)

    return called


def special(name: str) -> Callable:
    """A function of `scipy.special`."""

    def called(x: Any) -> Any:
        from scipy import special  # for start-up time

        return getattr(special, name)(x)

    return called


def whole(x: Any) -> Any:
    """Numbers as one array."""
    return x if type(x) is TracedArray or isinstance(x, np.ndarray) else stacked(list(x))


_MATH: dict[str, Callable] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log1p", "log2", "log10", "sqrt", "cbrt", "fabs")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "fmod", "copysign")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")},
    **{name: getattr(np, name) for name in ("degrees", "radians", "isnan", "isinf", "isfinite", "isclose")},
    **{name: special(name) for name in ("erf", "erfc", "gamma")},
    "lgamma": special("gammaln"),
    "pow": np.power,
    "log": lambda x, base=math.e: np.log(x) if base == math.e else np.log(x) / np.log(base),
    "fsum": lambda values: np.sum(stacked(list(values))),
    "prod": lambda values, start=1: start * np.prod(stacked(list(values))),
    "dist": lambda p, q: np.sqrt(np.sum((whole(p) - whole(q)) ** 2)),
}
MATH = {name: _of_numpy(getattr(math, name), function) for name, function in _MATH.items() if hasattr(math, name)}

# Arrays of NumPy


def _array(original: Callable, copies: bool) -> Callable:
    """`np.array` and its like, for lists of traced arrays too."""

    @wraps(original)
    def array(value: Any, *args: Any, **keywords: Any) -> Any:
        value = settled(value)
        if not has_traced(value):
            return buffer(original(value, *args, **keywords))
        found = value if type(value) is TracedArray else stacked(value)
        dtype = args[0] if args else keywords.get("dtype")
        copy = keywords.get("copy", copies)
        is_new = copy is True or found._is_number  # else it is None, or a word for "if needed"
        if dtype is not None and np.dtype(dtype) != found.dtype:
            found = found.astype(dtype)
        elif is_new:
            found = made(expression(found), found.dtype, question=found._question())
        found._is_number = False
        lead = keywords.get("ndmin", 0) - found.ndim
        return found[(None,) * lead] if lead > 0 else found

    return array


# Functions of several arrays, in a list or a tuple
_OF_SEVERAL = frozenset({
    "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "block", "select", "choose", "piecewise",
    "lexsort", "ix_", "linalg.multi_dot",
})  # fmt: skip


def _arrays_of(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with arrays in the places of lists of traced numbers."""
    if name not in _OF_SEVERAL:
        return operands(args)
    [first, *rest] = args
    return (type(first)(operands(first)) if isinstance(first, list | tuple) and name != "block" else first, *rest)


def _filled(original: Callable, function: Callable, name: str = "") -> Callable:
    """A function of NumPy: for lists of traced numbers too, with arrays as results that may become symbolic."""

    @wraps(original)
    def made_of(*args: Any, **keywords: Any) -> Any:
        given = settled(args)
        if not has_traced([given, list(keywords.values())]):
            return buffer(original(*args, **keywords))
        is_written = bool(args) and original.__name__ in WRITES and isinstance(args[0], Buffer)
        return function(*(args if is_written else _arrays_of(name, given)), **keywords)

    return made_of


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    return np.copy(np.broadcast_to(fill_value, shape))


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    start, stop = (0, start) if stop is None else (start, stop)
    return start + step * np.arange(int(np.ceil((stop - start) / step)))


def _eye(*args: Any, **keywords: Any) -> Any:
    return np.eye(*[int(x) if has_traced(x) else x for x in args], **keywords)


_MADE: dict[str, Callable] = {
    "full": _full, "arange": _arange, "eye": _eye,
    "logspace": lambda *args, base=10.0, **keywords: base ** np.linspace(*args, **keywords),
    "geomspace": lambda a, b, *args, **keywords: np.exp(np.linspace(np.log(a), np.log(b), *args, **keywords)),
}  # fmt: skip


def _from_function(original: Callable) -> Callable:
    """`np.frompyfunc`, whose functions are called for each entry of traced arrays."""

    def made_of(f: Callable, nin: int, nout: int, **keywords: Any) -> Any:
        plain = original(f, nin, nout, **keywords)

        def called(*args: Any, **named: Any) -> Any:
            arrays = np.broadcast_arrays(*given) if has_traced(given := settled(args)) else []
            if not arrays:
                return plain(*args, **named)
            shape = np.shape(arrays[0])
            found = [f(*[array[place] for array in arrays]) for place in np.ndindex(shape)]
            columns = [found] if nout == 1 else list(map(list, zip(*found, strict=True)))
            results = [np.reshape(stacked(column), shape) for column in columns]
            return results[0] if nout == 1 else tuple(results)

        return called

    return made_of


def _from_iterable(original: Callable) -> Callable:
    def made_of(values: Any, dtype: Any = float, count: int = -1, **keywords: Any) -> Any:
        found = list(values) if count < 0 else [value for value, _ in zip(values, range(count), strict=False)]
        return ARRAYS["array"](found, dtype) if has_traced(found) else buffer(original(found, dtype, **keywords))

    return made_of


def _take(a: Any, indices: Any, axis: Any = None, *args: Any, **keywords: Any) -> Any:
    """`np.take`, which does not ask the places for their own form of it."""
    if not are_given(indices):
        return _FUNCTIONS["take"](a, indices, axis, *args, **keywords)
    whole = made(as_expr(a), result_type(a))
    array = whole if axis is not None else np.ravel(whole)
    return array[(*[slice(None)] * range(array.ndim)[axis or 0], indices)]


def _strided(x: np.ndarray, shape: Any, strides: Any) -> Any:
    """A view that knows whose memory it shows, which NumPy's does not say."""
    root = owner(x)
    first = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    if not root.flags.c_contiguous or x.dtype != root.dtype:
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    return buffer(np.ndarray(shape, x.dtype, root, first, strides))


def _as_strided(original: Callable) -> Callable:
    """`as_strided`, of traced arrays too."""

    @wraps(original)
    def strided(x: Any, shape: Any = None, strides: Any = None, **keywords: Any) -> Any:
        whole = settled(x)
        if not has_traced(whole):
            return _strided(whole, shape or whole.shape, strides or whole.strides)
        places = whole._numbers()
        if places is None:
            raise EindiffError("as_strided of an array whose sizes are names: give numbers", "tracing")
        scaled = strides and tuple([step * places.itemsize // whole.dtype.itemsize for step in strides])
        return at_places(whole, original(places, shape, scaled, **keywords))

    return strided


class _Iteration:
    """`np.nditer` of traced arrays: views of single entries, one of each array, as far as these repeat."""

    def __init__(self, op: Any, flags: Any = (), op_flags: Any = (), **_: Any) -> None:
        several = list(op) if isinstance(op, list | tuple) else [op]
        self._shape = np.broadcast_shapes(*map(np.shape, several))
        fits = [np.shape(array) == self._shape for array in several]
        self.operands = [x if fit else np.broadcast_to(x, self._shape) for x, fit in zip(several, fits, strict=True)]
        self._places = np.ndindex(*self._shape)
        self.multi_index: tuple[int, ...] = ()

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        self.multi_index = next(self._places)
        place: Any = (*self.multi_index, ...)
        found = tuple([array[place] for array in self.operands])
        return found if len(found) > 1 else found[0]

    def __enter__(self) -> _Iteration:
        return self

    def __exit__(self, *_: object) -> None: ...


def _iteration(op: Any, *args: Any, **keywords: Any) -> Any:
    """`np.nditer`, of traced arrays too."""
    is_traced = has_traced(settled(list(op) if isinstance(op, list | tuple) else [op]))
    return (_Iteration if is_traced else np.nditer)(op, *args, **keywords)


class _Joined:
    """`np.r_` and `np.c_`: arrays, numbers and slices joined along an axis."""

    def __init__(self, original: Any, axis: int) -> None:
        self._original, self._axis = original, axis

    def __getitem__(self, key: Any) -> Any:
        parts = list(settled(key if isinstance(key, tuple) else (key,)))
        if not has_traced(parts):
            return buffer(self._original[key])
        if isinstance(parts[0], str):
            raise EindiffError(
                f"np.r_[{parts[0]!r}, ...] of symbolic arrays: use np.concatenate or np.stack", "tracing"
            )
        parts = [np.r_[part] if isinstance(part, slice) else np.atleast_1d(part) for part in parts]
        if self._axis < 0:
            parts = [part[:, None] if np.ndim(part) == 1 else part for part in parts]
        return np.concatenate(parts, self._axis)


def _functions(module: Any, prefix: str) -> dict[str, Callable]:
    """The functions of a module that take arrays or make them."""
    found = {}
    for name in dir(module):
        function = getattr(module, name)
        is_plain = not isinstance(function, type | np.ufunc | ModuleType) and callable(function)
        if is_plain and not name.startswith("_") and str(getattr(function, "__module__", "")).startswith("numpy"):
            found[name] = _filled(function, function, prefix + name)
    return found


LINALG = _functions(np.linalg, "linalg.")
STRIDES = {
    **_functions(np.lib.stride_tricks, "lib.stride_tricks."),
    "as_strided": _as_strided(np.lib.stride_tricks.as_strided),
}
_FUNCTIONS = _functions(np, "")
ARRAYS: dict[str, Any] = {
    **_FUNCTIONS,
    "float64": Float64, "double": Float64,
    "array": _array(np.array, True), "asarray": _array(np.asarray, False), "asanyarray": _array(np.asanyarray, False),
    "ascontiguousarray": _array(np.ascontiguousarray, False), "asfortranarray": _array(np.asfortranarray, False),
    "asarray_chkfinite": _array(np.asarray_chkfinite, False),
    **{name: _filled(getattr(np, name), function) for name, function in _MADE.items()},
    "nditer": _iteration, "frompyfunc": _from_function(np.frompyfunc), "fromiter": _from_iterable(np.fromiter),
    "take": _take, "r_": _Joined(np.r_, 0), "c_": _Joined(np.c_, -1),
}  # fmt: skip
