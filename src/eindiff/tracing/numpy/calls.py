"""NumPy's functions and ufuncs of traced arrays: what it asks of them by its protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eindiff.core.nodes import Expr
from eindiff.functions.multilinear import as_expr, multiply
from eindiff.tracing.numpy import protocol
from eindiff.tracing.numpy.complex_array import complex_ufunc, is_complex
from eindiff.tracing.numpy.fourier import COMPOSITE
from eindiff.tracing.numpy.numeric import accumulated, chosen_only, into, reduced
from eindiff.tracing.numpy.traced_array import (
    TracedArray,
    _identity,
    expression,
    is_traced,
    joined,
    like_layout,
    made,
    operands,
    unwrapped,
    with_values,
    wrapped,
)  # fmt: skip
from eindiff.tracing.numpy.types import FLOAT, function_type, of_type, ufunc_type
from eindiff.tracing.numpy.values import DISCRETE, ONLY_ASKED, TRUTHS, ask, asking
from eindiff.tracing.storage import Storage

# Functions that may give a view of their argument
VIEWS = frozenset({
    "transpose", "matrix_transpose", "linalg.matrix_transpose", "swapaxes", "moveaxis", "rollaxis", "reshape", "ravel",
    "squeeze", "expand_dims", "broadcast_to", "broadcast_arrays", "atleast_1d", "atleast_2d", "split", "array_split",
    "flip", "flipud", "fliplr", "diagonal", "linalg.diagonal", "diag", "real",
})  # fmt: skip
# Functions that ask for shapes and types only
OF_SHAPES = frozenset({
    "diag_indices_from", "tril_indices_from", "triu_indices_from", "iscomplex", "isreal", "common_type", "can_cast",
    "min_scalar_type", "isfortran",
})  # fmt: skip
# Functions that give an array where others give a number
ARRAYS = frozenset({"copy", "zeros_like", "ones_like", "empty_like", "full_like", "where", "imag"})
_SIGN_OF_SECOND = {np.add: 1, np.subtract: -1}


# Ufuncs


def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
    """A ufunc, or one of its methods, of traced arrays and others."""
    if out is not None and hasattr(type(out[0]), "_settled"):
        getattr(ufunc, method)(*inputs, out=tuple([x._written() for x in out]), **keywords)
        return out[0] if len(out) == 1 else out
    inputs, target = joined(inputs), None
    if method != "at":  # its lists are indices
        inputs = operands(inputs)
    if out is not None and len(out) == 1 and is_traced(out[0]):
        target = out[0]
    elif out is not None:
        keywords["out"] = out
    if (chosen := keywords.pop("where", True)) is not True:
        return chosen_only(ufunc, method, inputs, target, chosen, keywords)
    if method != "__call__":
        return _method(ufunc, method, inputs, target, keywords)
    found = _particular(ufunc, inputs, target, keywords)
    return _general(ufunc, method, inputs, target, keywords) if found is NotImplemented else found


def _method(ufunc: np.ufunc, method: str, inputs: Any, target: TracedArray | None, keywords: dict[str, Any]) -> Any:
    """`np.add.reduce`, `np.add.at` and others."""
    if method == "accumulate" and ufunc is not np.add:
        return accumulated(ufunc, *inputs, **keywords)
    if any(map(is_complex, inputs)):
        return complex_ufunc(ufunc, method, inputs, keywords)
    if method == "at" and ufunc in _SIGN_OF_SECOND:
        return inputs[0].add_at(inputs[1], inputs[2] if ufunc is np.add else -inputs[2])
    return _general(ufunc, method, inputs, target, keywords)


def _particular(ufunc: np.ufunc, inputs: Any, target: TracedArray | None, keywords: dict[str, Any]) -> Any:
    """What needs no expression of its own, or one of another kind; NotImplemented for all others."""
    if ufunc in _SIGN_OF_SECOND and not keywords and (target is None or target._is_number):
        total = _added(inputs[0], inputs[1], _SIGN_OF_SECOND[ufunc])
        if total is not None:
            return total
    if any(map(_is_empty, inputs)):
        return np.empty(np.broadcast_shapes(*map(np.shape, inputs)), ufunc_type(ufunc, "__call__", inputs))
    if any(map(is_complex, inputs)):
        return complex_ufunc(ufunc, "__call__", inputs, keywords)
    if ufunc in _PAIRS and not keywords:
        return _PAIRS[ufunc](*inputs)
    if ufunc.__name__ in ONLY_ASKED and not keywords:
        answer = ask(ufunc, inputs)
        return answer if answer is NotImplemented or target is None else into(target, answer)
    return NotImplemented


def _is_empty(x: Any) -> bool:
    return isinstance(x, np.ndarray) and 0 in x.shape


def _modf(x: TracedArray) -> tuple[Any, Any]:
    whole = np.trunc(x)
    return x - whole, whole


_PAIRS: dict[np.ufunc, Callable[..., tuple[Any, Any]]] = {np.divmod: lambda x, y: (x // y, x % y), np.modf: _modf}


def _general(ufunc: np.ufunc, method: str, inputs: Any, target: TracedArray | None, keywords: dict[str, Any]) -> Any:
    """An expression, as a new array or as what is written into one."""
    dtype = ufunc_type(ufunc, method, inputs)
    found = as_expr(protocol.array_ufunc(of_type(ufunc, dtype, method), method, unwrapped(inputs), keywords))
    asks = method == "__call__" and ufunc.__name__ in TRUTHS and not keywords and dtype.kind == "b"
    result = made(found, dtype, not found.shape, asking(ufunc, inputs) if asks else None)
    if target is None or target._is_number:
        return _laid_out(result, getattr(ufunc, method), inputs, keywords)
    target._check_type(result)
    target._write(found)
    return target


def _added(first: Any, second: Any, sign: int) -> TracedArray | None:
    """The sum or difference of two numbers, whose terms are not added up yet; None where they are no real numbers."""
    if not (is_traced(first) and is_traced(second) and first._is_number and second._is_number):
        return None
    if first.dtype != FLOAT or second.dtype != FLOAT:
        return None
    terms = second._storage.terms()
    signed = terms if sign > 0 else tuple([multiply(-1, term) for term in terms])
    return TracedArray(Storage((*first._storage.terms(), *signed), FLOAT), (), _identity, True)



# Functions


def array_function(self: Any, function: Callable, types: Any, args: tuple, keywords: dict[str, Any]) -> Any:
    """A function of NumPy, of traced arrays and others."""
    name, args = protocol.function_name(function), joined(args)
    if name in VIEWS and any(map(is_traced, args)):
        return _viewed(name, function, args, keywords)
    if keywords.get("out") is not None:
        return into(keywords["out"], function(*args, **{k: x for k, x in keywords.items() if k != "out"}))
    if not keywords.keys().isdisjoint(("where", "initial")) and name in ("sum", "mean", "prod", "max", "min"):
        return reduced(name, *args, **keywords)
    if name in OF_SHAPES:
        return function(*_shapes_only(args), **keywords)
    if name in ("may_share_memory", "shares_memory"):
        return _share_memory(*args[:2])
    is_discrete = name in DISCRETE or (name == "where" and len(args) == 1)
    if is_discrete and (found := ask(function, args, keywords)) is not NotImplemented:
        return found
    if name in COMPOSITE:
        return wrapped(COMPOSITE[name](*args, **keywords), function_type(name, args, keywords))
    return _expressed(name, function, args, keywords)


def _expressed(name: str, function: Callable, args: tuple, keywords: dict[str, Any]) -> Any:
    """A function that has an expression, or whose arguments depend on nothing symbolic."""
    try:
        found = protocol.array_function(function, unwrapped(args), unwrapped(keywords))
    except protocol.NeedsValueError:
        values, named = with_values(args), with_values(list(keywords.values()))
        if values is None or named is None:
            raise
        return function(*values, **dict(zip(keywords, named, strict=True)))
    return _laid_out(wrapped(found, function_type(name, args, keywords), name in ARRAYS), function, args, keywords)


def _shapes_only(value: Any) -> Any:
    """Arrays of zeros in place of traced ones."""
    if is_traced(value):
        return np.broadcast_to(np.zeros((), value.dtype), [int(size) for size in value.shape])
    return type(value)([_shapes_only(part) for part in value]) if type(value) in (list, tuple) else value


def _share_memory(a: Any, b: Any) -> bool:
    """Whether two arrays have an entry in common."""
    if not (is_traced(a) and is_traced(b)) or a._storage is not b._storage:
        return False
    places, others = a._numbers(), b._numbers()
    return places is None or others is None or bool(np.isin(places, others).any())


# Views


def _viewed(name: str, function: Callable, args: tuple, keywords: dict[str, Any]) -> Any:
    """What a function gives that may be a view of its argument; several arguments are taken one by one."""
    if name == "broadcast_arrays":
        return _broadcast(function, args)
    first, *rest = args
    if name.startswith("atleast") and rest:
        return tuple([function(array) for array in args])

    def of_expr(expr: Expr) -> Any:
        return protocol.array_function(function, (expr, *rest), keywords)

    def of_places(places: np.ndarray) -> Any:
        return function(places, *rest, **keywords)

    if "split" not in name:
        return first._derived(of_places, of_expr)
    count = len(of_expr(expression(first)))
    return [
        first._derived(lambda p, k=k: [x for x in of_places(p) if x.size][k], lambda e, k=k: of_expr(e)[k])
        for k in range(count)
    ]


def _broadcast(function: Callable, args: tuple) -> tuple[Any, ...]:
    """Arrays repeated so that they have one shape: views, which NumPy does not change either."""
    exprs = [as_expr(array) for array in args]
    shape = protocol.array_function(function, tuple(exprs), {})[0].shape
    return tuple([np.broadcast_to(array, shape) for array in args])



# Layouts in memory


def _laid_out(result: Any, function: Callable, args: tuple, keywords: dict[str, Any]) -> Any:
    """A result with the layout in memory that NumPy gives it, where an argument is not in row-major order.

    It decides what is a view of the result and what a copy.
    """
    is_plain = all(x._places is None or x._places.flags.c_contiguous for x in _traced(args))
    if is_plain or not is_traced(result) or result.ndim < 2:
        return result
    with np.errstate(all="ignore"):
        try:
            found = function(*_with_places(args), **keywords)
        except (TypeError, ValueError):  # of the numbers that stand for values: NumPy's usual order
            return result
    return like_layout(found, result)



def _traced(value: Any) -> list[TracedArray]:
    parts = value if isinstance(value, list | tuple) else []
    return [value] if is_traced(value) else [x for part in parts for x in _traced(part)]


def _with_places(value: Any) -> Any:
    """Arrays of the same layout in place of traced arrays."""
    if is_traced(value):
        numbers = value._numbers()
        return value if numbers is None else numbers + 0.5
    return type(value)([_with_places(part) for part in value]) if type(value) in (list, tuple) else value


# What `functions.py` gives to the class of traced arrays
PROTOCOLS: dict[str, Callable[..., Any]] = {"__array_ufunc__": array_ufunc, "__array_function__": array_function}
