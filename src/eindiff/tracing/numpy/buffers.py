"""Arrays of numbers that a traced function makes, and may write symbolic values into: `out = np.zeros(5); out[0] = x`.

A buffer is an array of NumPy until a symbolic value is written into its memory. From then on that memory is a
`Storage`, and all arrays in it, whatever their names, are traced arrays: views of the storage at the places that NumPy
says. The numbers are not in the memory any more; it is filled with NaN, so that nothing reads what is no longer true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, variables
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.numpy.given_arguments import chosen_entries
from eindiff.tracing.numpy.traced_array import (
    TracedArray,
    _identity,
    _known_index,
    has_traced,
    in_storage,
    made,
    operands,
    stacked,
)
from eindiff.tracing.numpy.values import asking
from eindiff.tracing.questions import current
from eindiff.tracing.storage import Storage

# Functions that write into their first argument
WRITES = frozenset({"copyto", "fill_diagonal", "put", "putmask", "place", "put_along_axis"})
_OWN_METHODS = frozenset({"_settled", "_traced", "_written", "_with_traced"})
_CAPTURED = (
    "a symbolic value is written into an array from outside of the function, which outlives the call: "
    "let the function change a copy, as np.array(a) makes one"
)


class SymbolicMemory:
    """The memory that has become symbolic while a function is traced, and the arrays that it got from outside."""

    def __init__(self) -> None:
        self.storages: dict[int, tuple[np.ndarray, Storage]] = {}  # by the identity of arrays that own memory
        self.captured: set[int] = set()  # by identity
        self._before: list[np.ndarray] = []  # what was in each memory

    def take(self, root: np.ndarray) -> Storage:
        """The storage of memory that becomes symbolic; there are no numbers in it until the function has run."""
        whole = _in_order(_plain(root))
        storage = Storage((as_expr(whole),), whole.dtype)
        self.storages[id(root)] = (root, storage)
        self._before.append(whole.copy())
        whole[...] = np.nan if whole.dtype.kind == "f" else 0
        return storage

    def restore(self) -> None:
        """Put numbers into memory again, which objects may keep: those of this call, or what was there before."""
        answers = current()
        for (root, storage), before in zip(self.storages.values(), self._before, strict=True):
            expr = storage.read(None, _identity)
            is_known = answers is not None and answers.knows(variables(expr))
            _in_order(_plain(root))[...] = answers.value(expr) if answers is not None and is_known else before


_MEMORY: ContextVar[SymbolicMemory | None] = ContextVar("memory", default=None)


@contextmanager
def new_memory() -> Iterator[SymbolicMemory]:
    """Let buffers become symbolic."""
    memory = SymbolicMemory()
    token = _MEMORY.set(memory)
    try:
        yield memory
    finally:
        _MEMORY.reset(token)
        memory.restore()


def owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory another one shows."""
    base = np.ndarray.__dict__["base"].__get__  # as NumPy has it: a buffer may say that of a traced array
    while isinstance(base(array), np.ndarray):
        array = base(array)
    return array


class Buffer(np.ndarray):
    """An array of numbers that may become symbolic."""

    def _traced(self) -> TracedArray | None:
        """The array as a traced one, if its memory is symbolic."""
        memory = _MEMORY.get()
        if memory is None or not memory.storages:
            return None
        numbers = _plain(self)
        found = memory.storages.get(id(owner(numbers)))
        return None if found is None else _seen(numbers, *found)

    def _settled(self) -> TracedArray | np.ndarray:
        """A traced array, or an array of numbers."""
        traced = self._traced()
        return _plain(self) if traced is None else traced

    def _written(self) -> TracedArray:
        """The array as a traced one, which symbolic values are about to be written into."""
        memory, numbers = _MEMORY.get(), _plain(self)
        root = owner(numbers)
        if memory is None or id(root) in memory.captured:
            raise EindiffError(_CAPTURED, "tracing")
        if id(root) not in memory.storages:
            memory.take(root)
        return _seen(numbers, *memory.storages[id(root)])

    @property
    def __eindiff_expression__(self) -> Expr:
        """What the array is at this moment."""
        traced = self._traced()
        return as_expr(_plain(self)) if traced is None else traced.__eindiff_expression__

    def _value_asked(self) -> Any:
        return asking(bool, (self._settled(),)).args[0]

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name in _OWN_METHODS or _MEMORY.get() is None:
            return super().__getattribute__(name)
        traced = self._traced()
        return super().__getattribute__(name) if traced is None else getattr(traced, name)

    def __getitem__(self, index: Any) -> Any:
        traced = self._traced()
        if traced is not None:
            return traced[index]
        entries = chosen_entries(self.shape, index) if has_traced(index) else None
        if entries is not None:
            return made(entries.of(as_expr(_plain(self))), self.dtype)
        return super().__getitem__(_known_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        traced = self._traced()
        if traced is None and has_traced(value):
            value = self._number(value)
            traced = self._written() if has_traced(value) else None
        if traced is None:
            super().__setitem__(_known_index(index), value)
        else:
            traced[index] = value

    def _number(self, value: Any) -> Any:
        """A value that is written into integers or truth values as what it is at this call."""
        if self.dtype.kind == "f" or type(value) is not TracedArray:
            return value
        known = value._discrete()
        return value if known is None else known

    def fill(self, value: Any) -> None:
        """Give all entries one value."""
        self[...] = value

    def dot(self, other: Any, out: Any = None) -> Any:
        """The product over the last axis, and the last but one of the other."""
        [other] = operands((other,))
        return np.dot(self, other) if out is None else np.dot(self, other, out)

    # Protocols of NumPy

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **keywords: Any) -> Any:
        is_traced = has_traced([*inputs, *out])
        if method == "at" and is_traced:
            return _add_at(ufunc, *inputs)
        if out:
            targets = tuple([_target(x, is_traced) for x in out])  # before inputs are read, which may be the same
            getattr(ufunc, method)(*operands(settled(inputs)), out=targets, **settled(keywords))
            return out[0] if len(out) == 1 else out
        return buffer(getattr(ufunc, method)(*operands(settled(inputs)), **settled(keywords)))

    def __array_function__(self, function: Callable, types: Any, args: Any, keywords: Any) -> Any:
        out = keywords.get("out")
        if isinstance(out, Buffer):
            out[...] = function(*args, **{name: x for name, x in keywords.items() if name != "out"})
            return out
        if function.__name__ in WRITES and isinstance(args[0], Buffer) and has_traced([*args, *keywords.values()]):
            args[0]._written()
        return buffer(function(*settled(args), **settled(keywords)))

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else buffer(np.asarray(array))

    # Conversions

    def _converted(self, name: str) -> Any:
        return getattr(self._settled(), name)()

    def __bool__(self) -> bool:
        return self._converted("__bool__")

    def __float__(self) -> float:
        return self._converted("__float__")

    def __int__(self) -> int:
        return self._converted("__int__")

    def __index__(self) -> int:
        return self._converted("__index__")

    def __repr__(self) -> str:
        return self._converted("__repr__")

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return value in self._settled()

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Any:
        return self.copy()


def _add_at(ufunc: np.ufunc, array: Any, index: Any, value: Any) -> None:
    """`np.add.at`: entries that come several times are added several times."""
    if ufunc not in (np.add, np.subtract):
        raise EindiffError(
            f"np.{ufunc.__name__}.at of symbolic arrays: only np.add.at and np.subtract.at are there", "tracing"
        )
    value = settled(value)
    (array._written() if isinstance(array, Buffer) else array).add_at(index, value if ufunc is np.add else -value)


def _target(out: Any, is_traced: bool) -> Any:
    if not isinstance(out, Buffer):
        return out
    return out._written() if is_traced else _plain(out)


def _in_order(root: np.ndarray) -> np.ndarray:
    """An array with its axes in the order of memory."""
    return root.transpose(np.argsort([-stride for stride in root.strides], kind="stable"))


def _plain(array: np.ndarray) -> np.ndarray:
    return np.ndarray.view(array, np.ndarray)


def _seen(array: np.ndarray, root: np.ndarray, storage: Storage) -> TracedArray:
    """An array in the memory of another one, as a view of its storage."""
    root = _plain(root)
    size = root.itemsize
    first = (array.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // size
    strides = [stride // size * 8 for stride in array.strides]
    numbers = np.arange(root.size)
    places = as_strided(numbers[first:], array.shape, strides, writeable=array.flags.writeable)
    return in_storage(storage, places, root.size)


def buffer(value: Any) -> Any:
    """Arrays of real numbers as buffers, in tuples and lists too."""
    if type(value) is np.ndarray and value.dtype.kind in "biuf" and value.size:
        return value.view(Buffer)
    if type(value) in (tuple, list):
        return type(value)([buffer(part) for part in value])
    return value


def settled(value: Any) -> Any:
    """Traced arrays and arrays of numbers in place of buffers and of arrays of traced numbers, in containers too."""
    if isinstance(value, Buffer):
        return value._settled()
    if type(value) is np.ndarray and value.dtype == object and value.size and has_traced(parts := value.tolist()):
        return stacked(parts)
    if type(value) in (tuple, list):
        return type(value)([settled(part) for part in value])
    return {name: settled(part) for name, part in value.items()} if type(value) is dict else value
