"""Arrays as a traced function sees them: names for expressions, with NumPy's views and changes in place.

A view is an index relation on the array that it is a view of: what NumPy makes of the *places* of that array's entries
(an array of their numbers, with the same layout in memory). So NumPy itself says what is a view and what a copy, and
`z = y[1:]; z *= 3` changes `y`. Numbers (what NumPy gives as scalars) do not change; `s += 1` makes a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from eindiff.core.construct import filled
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.core.sizes import Shape
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing as ix
from eindiff.functions.multilinear import as_expr, multiply, short
from eindiff.tracing.numpy import protocol
from eindiff.tracing.numpy.complex_array import complex_ufunc, is_complex
from eindiff.tracing.numpy.methods import Flat, Methods
from eindiff.tracing.numpy.numeric import COMPOSITE, accumulated, chosen_only, into, reduced
from eindiff.tracing.numpy.types import FLOAT, function_type, of_type, result_type, ufunc_type
from eindiff.tracing.numpy.values import DISCRETE, ONLY_ASKED, TRUTHS, Values, ask, asking
from eindiff.tracing.places import placed, scattered
from eindiff.tracing.questions import Question
from eindiff.tracing.shapes import broadcast_to
from eindiff.tracing.storage import Storage

# Functions that may give a view of their argument
VIEWS = frozenset({
    "transpose", "matrix_transpose", "linalg.matrix_transpose", "swapaxes", "moveaxis", "reshape", "ravel", "squeeze",
    "expand_dims", "broadcast_to", "broadcast_arrays", "atleast_1d", "atleast_2d", "split", "array_split", "flip",
    "flipud", "fliplr", "diagonal", "linalg.diagonal", "diag", "real",
})  # fmt: skip
METHODS = {
    **protocol.METHODS, "sum": "sum",
    **{name: name for name in ("searchsorted", "argpartition", "compress", "choose", "cumprod", "resize")},
}
# Functions that give an array where others give a number
ARRAYS = frozenset({"copy", "zeros_like", "ones_like", "empty_like", "full_like", "where", "imag"})
READ_ONLY = "NumPy does not change it: it is read-only"
NAMED = "a part of an array changes in place only if its sizes are numbers, not names"


def _identity(expr: Expr) -> Expr:
    return expr


class TracedArray(Methods, Values):
    """An array of a traced function."""

    __slots__ = ("_is_number", "_places", "_storage", "_view", "shape")
    __hash__ = None  # type: ignore[assignment]  # as NumPy's arrays
    shape: Shape

    def __init__(self, storage: Storage, shape: Shape, view: Callable[[Expr], Expr], is_number: bool = False) -> None:
        self._storage, self.shape, self._view, self._is_number = storage, shape, view, is_number
        self._places: np.ndarray | None = None  # of its entries in the storage; made when it is first asked for

    @property
    def __eindiff_expression__(self) -> Expr:
        """What the array is at this moment."""
        return self._storage.read(self._places, self._view)

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:
            """What functions get to see that ask with `isinstance`."""
            return self.dtype.type if self._is_number else np.ndarray

    # Shape and type

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type that NumPy would give it."""
        return self._storage.dtype

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a number")  # as NumPy has it: a number is no sequence
        return ix.length(expression(self))

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    @property
    def flat(self) -> Flat:
        """All entries in row-major order, to be read and written."""
        return Flat(self)

    def __repr__(self) -> str:
        return repr(expression(self))

    def __format__(self, spec: str) -> str:
        return repr(self)

    # Reading and writing

    def _numbers(self) -> np.ndarray | None:
        """The places of the entries; None where sizes are names."""
        if self._places is None and all(isinstance(size, int) for size in self.shape):
            self._places = self._storage.places()
        return self._places

    def _question(self) -> Question | None:
        """The question that its entries are the answers to."""
        return self._storage.question if self._view is _identity else None

    def _derived(self, of_places: Callable[[np.ndarray], Any], of_expr: Callable[[Expr], Expr]) -> Any:
        """A view, or a copy where NumPy makes one; where sizes are names, it is taken for a view."""
        places = self._numbers()
        found = None if places is None else of_places(places)
        if places is None or _is_view(found, places):
            return self._viewed(found, of_expr)
        return _like(found, made(of_expr(expression(self)), self.dtype, not isinstance(found, np.ndarray)))

    def _viewed(self, places: np.ndarray | None, of_expr: Callable[[Expr], Expr]) -> Any:
        """A view; one without entries is an array of NumPy."""
        if places is not None and not places.size:
            return np.empty(places.shape, self.dtype)
        old = self._view
        shape = of_expr(expression(self)).shape if places is None else places.shape
        view = TracedArray(self._storage, shape, lambda whole: of_expr(old(whole)))
        view._places = places
        return view

    def __getitem__(self, index: Any) -> Any:
        index, places, old = _known_index(index), self._numbers(), self._view
        chosen = None if places is None else self._chosen(places, index)
        if places is None or chosen is None or not np.size(chosen) or _is_view(chosen, places):
            return self._viewed(chosen, lambda expr: ix.getitem(expr, index))
        expr = self._storage.read(np.asarray(chosen), lambda whole: ix.getitem(old(whole), index))
        return _like(chosen, made(expr, self.dtype, not isinstance(chosen, np.ndarray)))

    def _chosen(self, places: np.ndarray, index: Any) -> Any:
        """The places that an index gives."""
        try:
            return places[index]
        except IndexError as error:
            raise EindiffError(f"{short(expression(self))}[...]: {error}", "tracing") from None

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_type(value)
        if _is_traced(index) and index.dtype.kind == "b" and index.shape == self.shape and not np.ndim(value):
            self._write(functions.where(expression(index), as_expr(value), expression(self)))
            return
        index = _known_index(index)
        if index is Ellipsis or (isinstance(index, slice) and index == slice(None)):
            self._write(as_expr(value))
            return
        places = self._numbers()
        if places is None:
            raise EindiffError(f"an assignment into {short(expression(self))}: {NAMED}", "tracing")
        self._check_writeable()
        chosen = np.asarray(self._chosen(places, index))
        if chosen.size:
            self._storage.write(chosen, _fitted(as_expr(value), chosen.shape))

    def _write(self, value: Expr) -> None:
        """Give all entries new values."""
        value = _fitted(value, self.shape)
        if self._view is _identity:
            self._check_writeable()
            self._storage.replace(value)
            return
        places = self._numbers()
        if places is None:
            raise EindiffError(f"a change of {short(expression(self))}, a part of an array: {NAMED}", "tracing")
        self._check_writeable()
        self._storage.write(places, value)

    def _check_writeable(self) -> None:
        if self._is_number or (self._places is not None and not self._places.flags.writeable):
            raise EindiffError(f"{short(expression(self))} is changed in place: {READ_ONLY}", "tracing")

    def _check_type(self, value: Any) -> None:
        """Refuse numbers with a fraction in an array of integers or truth values: NumPy cuts it off, or refuses it."""
        kind = result_type(value).kind
        if self.dtype.kind != "f" and "biuf".index(kind) > "biuf".index(self.dtype.kind):
            raise EindiffError(
                f"{short(as_expr(value))} is written into {short(expression(self))}, an array of {self.dtype}, "
                "which would cut its entries off: make that array of type float",
                "tracing",
            )

    def add_at(self, index: Any, value: Any) -> None:
        """Add values to entries, as often as they come."""
        shape = [int(size) for size in self.shape]
        chosen = np.asarray(self._chosen(np.arange(prod(shape)).reshape(shape), _known_index(index)))
        added = scattered(_fitted(as_expr(value), chosen.shape), placed(chosen, shape), shape)
        self[...] = self + made(added)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
        if out is not None and hasattr(type(out[0]), "_settled"):
            getattr(ufunc, method)(*inputs, out=tuple([x._written() for x in out]), **keywords)
            return out[0] if len(out) == 1 else out
        if out is not None and not (len(out) == 1 and _is_traced(out[0])):
            keywords["out"] = out
        inputs = joined(inputs)
        is_new = out is None or (_is_traced(out[0]) and out[0]._is_number)
        if ufunc in (np.add, np.subtract) and method == "__call__" and is_new and not keywords:
            total = _added(inputs[0], inputs[1], 1 if ufunc is np.add else -1)
            if total is not None:
                return total
        if (chosen := keywords.pop("where", True)) is not True:
            return chosen_only(ufunc, method, inputs, None if out is None else out[0], chosen, keywords)
        if method == "accumulate" and ufunc is not np.add:
            return accumulated(ufunc, *inputs, **keywords)
        if method == "__call__" and any(isinstance(x, np.ndarray) and not x.size for x in inputs):
            return np.empty(np.broadcast_shapes(*map(np.shape, inputs)), ufunc_type(ufunc, method, inputs))
        if any(map(is_complex, inputs)):
            return complex_ufunc(ufunc, method, inputs, keywords)
        if method == "at" and ufunc in (np.add, np.subtract):
            return inputs[0].add_at(inputs[1], inputs[2] if ufunc is np.add else -inputs[2])
        asks = method == "__call__" and ufunc.__name__ in TRUTHS and not keywords
        if asks and ufunc.__name__ in ONLY_ASKED and (answer := ask(ufunc, inputs)) is not NotImplemented:
            return answer if out is None else into(out[0], answer)
        dtype = ufunc_type(ufunc, method, inputs)
        found = as_expr(protocol.array_ufunc(of_type(ufunc, dtype, method), method, unwrapped(inputs), keywords))
        target = None if out is None else out[0]
        result = made(found, dtype, not found.shape, asking(ufunc, inputs) if asks and dtype.kind == "b" else None)
        if target is None or target._is_number:
            return _laid_out(result, getattr(ufunc, method), inputs, keywords)
        target._check_type(result)
        target._write(found)
        return target

    def __array_function__(self, function: Callable, types: Any, args: tuple, keywords: dict[str, Any]) -> Any:
        name, args = protocol.function_name(function), joined(args)
        if name in VIEWS and any(map(_is_traced, args)):
            return _viewed(name, function, args, keywords)
        if keywords.get("out") is not None:
            return into(keywords["out"], function(*args, **{k: x for k, x in keywords.items() if k != "out"}))
        if not keywords.keys().isdisjoint(("where", "initial")) and name in ("sum", "mean", "prod", "max", "min"):
            return reduced(name, *args, **keywords)
        is_discrete = name in DISCRETE or (name == "where" and len(args) == 1)
        if is_discrete and (found := ask(function, args, keywords)) is not NotImplemented:
            return found
        if name in COMPOSITE:
            return wrapped(COMPOSITE[name](*args, **keywords), function_type(name, args, keywords))
        try:
            found = protocol.array_function(function, unwrapped(args), unwrapped(keywords))
        except protocol.NeedsValueError:
            values, named = with_values(args), with_values(list(keywords.values()))
            if values is None or named is None:
                raise
            return function(*values, **dict(zip(keywords, named, strict=True)))
        return _laid_out(wrapped(found, function_type(name, args, keywords), name in ARRAYS), function, args, keywords)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *args, **keywords: self._call(METHODS[name], args, keywords)
        if self._is_number and name in protocol.UFUNCS and isinstance(getattr(np, name, None), np.ufunc):
            return lambda *args: getattr(np, name)(self, *args)  # what NumPy calls for entries of an array of objects
        if name.startswith("_"):
            raise AttributeError(f"traced arrays have no attribute {name!r}")
        return wrapped(protocol.attribute(expression(self), name), self.dtype)

    def _call(self, name: str, args: tuple, keywords: dict[str, Any]) -> Any:
        return self.__array_function__(getattr(np, name), (), (self, *args), keywords)

    def _new(self, expr: Expr, dtype: np.dtype, is_number: bool = False) -> TracedArray:
        return made(expr, dtype, is_number)

    # Comparisons with what is no number, and what needs values

    def __eq__(self, other: Any) -> Any:
        return self._everywhere(False) if other is None or isinstance(other, str) else np.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return self._everywhere(True) if other is None or isinstance(other, str) else np.not_equal(self, other)

    def _everywhere(self, value: bool) -> Any:
        """One answer for a number, one for each entry of an array."""
        return value if self._is_number else made(filled(value, self.shape), np.dtype(bool))

    def __contains__(self, value: Any) -> bool:
        found = ask(np.any, (np.equal(self, value),))
        return protocol.convert(expression(self), "bool") if found is NotImplemented else bool(found)

    def __copy__(self) -> TracedArray:
        return made(expression(self), self.dtype, self._is_number)

    def __deepcopy__(self, memo: object) -> TracedArray:
        return self.__copy__()


def expression(array: TracedArray) -> Expr:
    """What a traced array is at this moment."""
    return array.__eindiff_expression__


def _is_traced(value: Any) -> TypeGuard[TracedArray]:
    return type(value) is TracedArray


def _is_view(found: Any, places: np.ndarray) -> bool:
    return isinstance(found, np.ndarray) and np.may_share_memory(found, places)


def made(
    expr: Expr, dtype: np.dtype = FLOAT, is_number: bool = False, question: Question | None = None
) -> TracedArray:
    """A new array, or a number."""
    return TracedArray(Storage((expr,), dtype, question), expr.shape, _identity, is_number)


def _added(first: Any, second: Any, sign: int) -> TracedArray | None:
    """The sum or difference of two numbers, whose terms are not added up yet; None where they are no real numbers."""
    if not (_is_traced(first) and _is_traced(second) and first._is_number and second._is_number):
        return None
    if first.dtype != FLOAT or second.dtype != FLOAT:
        return None
    terms = second._storage.terms()
    signed = terms if sign > 0 else tuple([multiply(-1, term) for term in terms])
    return TracedArray(Storage((*first._storage.terms(), *signed), FLOAT), (), _identity, True)


def argument(expr: Expr, like: Any = 0.0, is_variable: bool = True) -> TracedArray:
    """An argument of a traced function, in place of an array or a number; variables are real numbers."""
    if not isinstance(like, np.ndarray):
        return made(expr, FLOAT, not expr.shape)
    array = made(expr, FLOAT if is_variable and like.dtype.kind != "f" else like.dtype)
    if not like.flags.writeable:
        array._places = array._storage.places()
        array._places.flags.writeable = False
    return _like(like, array)


def _laid_out(result: Any, function: Callable, args: tuple, keywords: dict[str, Any]) -> Any:
    """A result with the layout in memory that NumPy gives it, where an argument is not in row-major order.

    It decides what is a view of the result and what a copy.
    """
    is_plain = all(x._places is None or x._places.flags.c_contiguous for x in _traced(args))
    if is_plain or not _is_traced(result) or result.ndim < 2:
        return result
    with np.errstate(all="ignore"):
        try:
            found = function(*_with_places(args), **keywords)
        except (TypeError, ValueError):  # of the numbers that stand for values: NumPy's usual order
            return result
    return _like(found, result)


def _like(found: Any, array: TracedArray) -> TracedArray:
    """A new array with the layout in memory of another one of its shape."""
    if isinstance(found, np.ndarray) and not found.flags.c_contiguous:
        array._places = np.empty_like(found, int)
        array._places[...] = array._storage.places()
    return array


def _traced(value: Any) -> list[TracedArray]:
    parts = value if isinstance(value, list | tuple) else []
    return [value] if _is_traced(value) else [x for part in parts for x in _traced(part)]


def _with_places(value: Any) -> Any:
    """Arrays of the same layout in place of traced arrays."""
    if _is_traced(value):
        numbers = value._numbers()
        return value if numbers is None else numbers + 0.5
    return type(value)([_with_places(part) for part in value]) if type(value) in (list, tuple) else value


# Containers of arrays


def unwrapped(value: Any) -> Any:
    """Expressions in place of traced arrays, in nested containers too."""
    if _is_traced(value):
        return expression(value)
    if type(value) in (list, tuple):
        return type(value)([unwrapped(part) for part in value])
    return {key: unwrapped(part) for key, part in value.items()} if type(value) is dict else value


def wrapped(value: Any, dtype: np.dtype = FLOAT, as_array: bool = False) -> Any:
    """Traced arrays in place of expressions, in tuples and lists too."""
    if isinstance(value, Expr):
        return made(value, dtype, not value.shape and not as_array)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[wrapped(part, dtype) for part in value])
    return type(value)([wrapped(part, dtype) for part in value]) if type(value) in (list, tuple) else value


def with_values(value: Any) -> Any:
    """Arrays in place of traced arrays that depend on nothing symbolic, in nested containers too; else None."""
    if _is_traced(value):
        return value._known()
    if type(value) in (list, tuple):
        parts = [with_values(part) for part in value]
        unknown = any(new is None and old is not None for old, new in zip(value, parts, strict=True))
        return None if unknown else type(value)(parts)
    return value


def stacked(value: Any) -> TracedArray:
    """A new array of what nested lists hold."""

    def joined(part: Any) -> Expr:
        return ix.stack([joined(x) for x in part]) if isinstance(part, list | tuple) else as_expr(part)

    return made(joined(value), result_type(value))


def joined(value: Any) -> Any:
    """Traced arrays in place of NumPy's arrays of traced numbers and of symbolic memory, in nested lists too."""
    if hasattr(type(value), "_settled"):
        return value._settled()
    if isinstance(value, np.ndarray) and not _is_traced(value) and value.dtype == object and value.size:
        return stacked(value.tolist())
    return type(value)([joined(part) for part in value]) if type(value) in (list, tuple) else value


def has_traced(value: Any) -> bool:
    """Whether there is a traced array in nested lists."""
    if hasattr(type(value), "_settled"):
        return value._traced() is not None
    return _is_traced(value) or (isinstance(value, list | tuple) and any(map(has_traced, value)))


# Views, indices and values that fit


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


def _known_index(index: Any) -> Any:
    """An index without symbolic parts, and masks of several axes as lists of places."""
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if has_traced(part):
            known = (stacked(part) if isinstance(part, list) else part)._discrete()
            if known is None:
                exprs = [as_expr(x) for x in (part if isinstance(part, list) else [part]) if _is_traced(x)]
                protocol.refuse("an index or a mask", exprs, protocol.PLACES)
            part = known
        if isinstance(part, np.ndarray) and part.dtype == bool and part.ndim > 1:
            parts += np.nonzero(part)
        else:
            parts.append(part)
    return tuple(parts) if isinstance(index, tuple) or len(parts) != 1 else parts[0]


def _fitted(value: Expr, shape: Shape) -> Expr:
    """A value repeated along axes so that it fills a part of an array, as NumPy does."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    return broadcast_to(value, shape)
