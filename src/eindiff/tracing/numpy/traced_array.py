"""Arrays as a traced function sees them: names for expressions, with NumPy's views and changes in place.

A view is an index relation on the array that it is a view of: what NumPy makes of the *places* of that array's entries
(an array of their numbers, with the same layout in memory). So NumPy itself says what is a view and what a copy, and
`z = y[1:]; z *= 3` changes `y`. Numbers (what NumPy gives as scalars) do not change; `s += 1` makes a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from eindiff.core.construct import filled
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.core.sizes import Shape
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing as ix
from eindiff.functions.multilinear import as_expr, short
from eindiff.tracing import storage as memory
from eindiff.tracing.numpy import protocol
from eindiff.tracing.numpy.given_arguments import chosen_entries
from eindiff.tracing.numpy.methods import Flat, Methods
from eindiff.tracing.numpy.types import FLOAT, result_type
from eindiff.tracing.numpy.values import Conversions, ask
from eindiff.tracing.places import placed, scattered
from eindiff.tracing.questions import Question
from eindiff.tracing.shapes import broadcast_to
from eindiff.tracing.storage import Storage

METHODS = {
    **protocol.METHODS, "sum": "sum",
    **{name: name for name in ("searchsorted", "argpartition", "compress", "choose", "cumprod", "resize")},
}
READ_ONLY = "NumPy does not change it: it is read-only"
NAMED = "a part of an array changes in place only if its sizes are numbers, not names"


def _identity(expr: Expr) -> Expr:
    return expr


class TracedArray(Methods, Conversions):
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

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one entry to the next, along each axis."""
        places = self._numbers()
        if places is None:
            raise EindiffError(f"{short(expression(self))} has no strides: its sizes are names", "tracing")
        return tuple([step * self.dtype.itemsize // places.itemsize for step in places.strides])

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
        return like_layout(found, made(of_expr(expression(self)), self.dtype, not isinstance(found, np.ndarray)))

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
        if (entries := chosen_entries(self.shape, index)) is not None:
            return made(entries.of(expression(self)), self.dtype)
        index, places, old = _known_index(index), self._numbers(), self._view
        chosen = None if places is None else self._chosen(places, index)
        if places is None or chosen is None or not np.size(chosen) or _is_view(chosen, places):
            return self._viewed(chosen, lambda expr: ix.getitem(expr, index))
        expr = self._storage.read(np.asarray(chosen), lambda whole: ix.getitem(old(whole), index))
        return like_layout(chosen, made(expr, self.dtype, not isinstance(chosen, np.ndarray)))

    def _chosen(self, places: np.ndarray, index: Any) -> Any:
        """The places that an index gives."""
        try:
            return places[index]
        except IndexError as error:
            raise EindiffError(f"{short(expression(self))}[...]: {error}", "tracing") from None

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_type(value)
        if is_traced(index) and index.dtype.kind == "b" and index.shape == self.shape and not np.ndim(value):
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
        if (entries := chosen_entries(shape, index)) is not None and entries.is_whole:
            self[...] = self + made(entries.added(_fitted(as_expr(value), entries.shape), shape))
            return
        chosen = np.asarray(self._chosen(np.arange(prod(shape)).reshape(shape), _known_index(index)))
        added = scattered(_fitted(as_expr(value), chosen.shape), placed(chosen, shape), shape)
        self[...] = self + made(added)

    # NumPy's protocols

    if TYPE_CHECKING:  # `calls.py` has them

        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any: ...

        def __array_function__(self, function: Callable, types: Any, args: tuple, keywords: dict[str, Any]) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *args, **keywords: self._call(METHODS[name], args, keywords)
        if self._is_number and name in protocol.UFUNCS and isinstance(getattr(np, name, None), np.ufunc):
            return lambda *args: getattr(np, name)(self, *args)  # what NumPy calls for entries of an array of objects
        if name.startswith("_"):
            raise AttributeError(f"traced arrays have no attribute {name!r}")
        return wrapped(protocol.attribute(expression(self), name), self.dtype)

    def _call(self, name: str, args: tuple, keywords: dict[str, Any]) -> Any:
        args = args if name == "choose" else operands(args)  # which chooses from several arrays
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


def is_traced(value: Any) -> TypeGuard[TracedArray]:
    return type(value) is TracedArray


def _is_view(found: Any, places: np.ndarray) -> bool:
    return isinstance(found, np.ndarray) and np.may_share_memory(found, places)


def made(expr: Expr, dtype: np.dtype = FLOAT, is_number: bool = False, question: Question | None = None) -> TracedArray:
    """A new array, or a number."""
    return TracedArray(Storage((expr,), dtype, question), expr.shape, _identity, is_number)


def in_storage(storage: Storage, places: np.ndarray, count: int) -> TracedArray:
    """The array of the entries at some places of a storage with so many."""
    is_whole = places.shape == storage.shape and places.flags.c_contiguous and places.size == count
    traced = TracedArray(storage, places.shape, _identity if is_whole else lambda whole: memory.part(whole, places))
    traced._places = places
    return traced


def at_places(array: TracedArray, places: np.ndarray) -> TracedArray:
    """A view of the memory that an array is in."""
    return in_storage(array._storage, places, prod(map(int, array._storage.shape)))


def argument(expr: Expr, like: Any = 0.0, is_variable: bool = True) -> TracedArray:
    """An argument of a traced function, in place of an array or a number; variables are real numbers."""
    if not isinstance(like, np.ndarray):
        return made(expr, FLOAT, not expr.shape)
    array = made(expr, FLOAT if is_variable and like.dtype.kind != "f" else like.dtype)
    if not like.flags.writeable:
        array._places = array._storage.places()
        array._places.flags.writeable = False
    return like_layout(like, array)


def like_layout(found: Any, array: TracedArray) -> TracedArray:
    """A new array with the layout in memory of another one of its shape."""
    if isinstance(found, np.ndarray) and not found.flags.c_contiguous:
        array._places = np.empty_like(found, int)
        array._places[...] = array._storage.places()
    return array


# Containers of arrays


def unwrapped(value: Any) -> Any:
    """Expressions in place of traced arrays, in nested containers too."""
    if is_traced(value):
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
    if is_traced(value):
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
    if isinstance(value, np.ndarray) and not is_traced(value) and value.dtype == object and value.size:
        return stacked(value.tolist())
    return type(value)([joined(part) for part in value]) if type(value) in (list, tuple) else value


def has_traced(value: Any) -> bool:
    """Whether there is a traced array in nested lists."""
    if hasattr(type(value), "_settled"):
        return value._traced() is not None
    return is_traced(value) or (isinstance(value, list | tuple) and any(map(has_traced, value)))


def operands(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays in place of lists with traced arrays in them, as NumPy makes them of operands."""
    return tuple([stacked(x) if type(x) in (list, tuple) and has_traced(x) else x for x in inputs])


# Indices, and values that fit


def _known_index(index: Any) -> Any:
    """An index without symbolic parts, and masks of several axes as lists of places."""
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if has_traced(part):
            known = (stacked(part) if isinstance(part, list) else part)._discrete()
            if known is None:
                exprs = [as_expr(x) for x in (part if isinstance(part, list) else [part]) if is_traced(x)]
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
