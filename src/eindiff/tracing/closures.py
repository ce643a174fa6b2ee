"""What a function sees around it, as a key: its code, closure, defaults, globals, and the objects that these name.

A trace holds as long as the key is the same. So functions that are made anew for each call
(`hessian(lambda w: loss(w, X))(w)`) are known again, and one whose globals, attributes or lists have changed is not
taken for the old one. Numbers and texts are compared by value, other objects by identity, NumPy's arrays by both. No
object is kept alive by a key.

The walk that makes a key also notes what it found where. To look whether all of that is still there takes a fraction of
the time, and no new walk if it is.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from inspect import getattr_static
from itertools import repeat
from operator import is_
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from eindiff.core.recent import Same

MOST_DEPTH = 6
MOST_WRITTEN = 16  # entries up to which an array from outside is written into the expression
PLAIN_TYPES = (bool, int, float, complex, str, bytes, type(None), Enum, np.generic, np.dtype)
_PACKAGE = "eindiff."
_BUILT_IN = sys.stdlib_module_names - {"__main__"}
_FOLDER = str(Path(__file__).parent.parent)
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_paths()["stdlib"])


class HashedOnce(tuple):
    """A key that is looked up often."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


class Surroundings:
    """The key of a function, and the arrays that it sees, by the names that they have there.

    A front end says in a class of its own what arrays are, and which objects have more to them than attributes.
    """

    plain: tuple[type, ...] = PLAIN_TYPES

    def __init__(self, function: Any) -> None:
        self.arrays: dict[int, tuple[str, Any]] = {}  # by identity
        self.calls: dict[Any, Any] = {}  # what was found for calls while all of this holds, by their arguments
        self.looked_at: dict[Any, frozenset[int]] = {}  # the leaves of arguments whose values are part of that
        self._array_keys: list[tuple[Any, Any]] = []
        self._seen: dict[int, int] = {}
        self._modules: set[tuple[int, tuple[str, ...]]] = set()  # and the names that were looked up in them
        self._functions: list[tuple[FunctionType, CodeType, Any, Any, int]] = []  # with code, defaults, attributes
        self._found: list[tuple[Callable[[Any], Any], Any, Any]] = []  # how to look up names, and what was there
        self._sizes: list[tuple[Any, int]] = []  # of containers
        self.key = HashedOnce(self.walk(function, "", 0))

    def holds(self) -> bool:
        """Whether all that the function sees is the same as it was."""
        for function, code, defaults, named, size in self._functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return False
            if function.__kwdefaults__ is not named or len(function.__dict__) != size:
                return False
        for container, size in self._sizes:
            if len(container) != size:
                return False
        for get, names, values in self._found:
            if not all(map(is_, map(get, names), values)):
                return False
        return not self._array_keys or all(self.array_key(array) == key for array, key in self._array_keys)

    def array_key(self, value: Any) -> Any:
        """What an array is known by; None for what is no array."""
        return (Same(value), contents(value)) if isinstance(value, np.ndarray) else None

    def may_change(self, array: Any) -> bool:
        """Whether an array that is the same object may have become another one, which a key tells apart."""
        return True

    def attributes(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """The parts of the key that an object gives."""
        yield from self.named(vars(value), path, depth)

    def walk(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """The parts of the key that a value gives."""
        if isinstance(value, self.plain):
            yield (type(value), value)
        elif (key := self.array_key(value)) is not None:
            self.arrays.setdefault(id(value), (path, value))
            if self.may_change(value):
                self._array_keys.append((value, key))
            yield key
        elif id(value) in self._seen:
            yield ("again", self._seen[id(value)])
        elif depth > MOST_DEPTH or isinstance(value, BuiltinFunctionType | ModuleType):
            yield Same(value)
        else:
            self._seen[id(value)] = len(self._seen)
            yield from self._inside(value, path, depth + 1)

    def _noted(self, container: Any, get: Callable[[Any], Any], names: Any, values: Any) -> None:
        """Note what is in a container."""
        self._sizes.append((container, len(container)))
        self._found.append((get, names, values))

    def named(
        self, parts: Mapping[Any, Any], path: str, depth: int, chosen: Callable[[str], bool] = lambda _: True
    ) -> Iterator[Any]:
        """The parts of the key that values with names give, or those with some of the names."""
        items = [(name, part) for name, part in parts.items() if chosen(name)]
        self._noted(parts, parts.get, [name for name, _ in items], [part for _, part in items])
        for name, part in items:
            yield name if isinstance(name, self.plain) else Same(name)
            yield from self.walk(part, f"{path}_{name}" if path else str(name), depth)

    def _inside(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        match value:
            case FunctionType():
                yield from self._function(value, depth)
            case MethodType():
                yield from self.walk(value.__func__, path, depth)
                yield from self.walk(value.__self__, "", depth)
            case partial():
                yield from self.walk((value.func, value.args, value.keywords), path, depth)
            case list() | tuple() | deque() | set() | frozenset():
                parts = list(value)
                yield (type(value), len(parts))
                if isinstance(value, list | deque):
                    self._noted(value, value.__getitem__, range(len(parts)), parts)
                elif isinstance(value, set):
                    self._noted(value, value.__contains__, parts, repeat(True))
                for k, part in enumerate(parts):
                    yield from self.walk(part, f"{path}_{k}", depth)
            case dict():
                yield (type(value), len(value))
                yield from self.named(value, path, depth)
            case type():
                yield from self._class(value, depth)
            case staticmethod() | classmethod():
                yield from self.walk(value.__func__, path, depth)
            case property():
                yield from self.walk((value.fget,), path, depth)
            case _:
                yield Same(value)
                yield from self._object(value, path, depth)

    def _object(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """The function that a library has wrapped (jax.jit, for instance); else attributes, and what the class has."""
        wrapped = getattr_static(value, "__wrapped__", None) if _is_of_library(type(value)) else None
        if wrapped is not None:
            yield from self.walk(wrapped, path, depth)
        elif not type(value).__module__.startswith(_PACKAGE):
            yield from self.walk(type(value), "", depth)
            if hasattr(value, "__dict__"):
                yield from self.attributes(value, path, depth)
            if slots := [name for kind in type(value).__mro__ for name in _slots(kind)]:
                yield from self._looked_up(lambda name: getattr(value, name, None), slots, path, depth)

    def _looked_up(self, get: Callable[[str], Any], names: Sequence[str], path: str, depth: int) -> Iterator[Any]:
        """The parts of the key that the values of some names give, where they have any."""
        values = [get(name) for name in names]
        self._found.append((get, names, values))
        for name, value in zip(names, values, strict=True):
            if value is not None:
                yield name
                yield from self.walk(value, f"{path}_{name}" if path else name, depth)

    def _class(self, kind: type, depth: int) -> Iterator[Any]:
        """The methods and the values of a class of the user's own, and of those that it inherits from."""
        yield Same(kind)
        for base in kind.__mro__:
            if _is_of_library(base):
                continue
            own = vars(base)
            self._noted(own, own.get, list(own), list(own.values()))
            for name, part in list(own.items()):
                if not name.startswith("__") or isinstance(part, FunctionType):
                    yield name
                    yield from self.walk(part, name, depth)

    def _function(self, function: FunctionType, depth: int) -> Iterator[Any]:
        """Code, and what it sees; the globals of a library do not change."""
        code, cells = function.__code__, function.__closure__ or ()
        yield code
        is_installed = _is_installed(code.co_filename)
        if is_installed and not cells:
            yield Same(function)
            return
        defaults, named, own = function.__defaults__, function.__kwdefaults__, function.__dict__
        self._functions.append((function, code, defaults, named, len(own)))
        yield from self.walk(defaults, "", depth)
        yield from self.walk(named, "", depth)
        if own:
            yield from self.named(own, "", depth)
        if cells:
            contents = [contents_of(cell) for cell in cells]
            self._found.append((contents_of, cells, contents))
            for name, part in zip(code.co_freevars, contents, strict=True):
                yield from self._named_in(part, name, names_of(code), depth)
        if not is_installed:
            names, space = names_of(code), function.__globals__
            yield from self._names(space, names, depth)
            for name in names:
                if name not in space and name in sys.modules:  # imported inside of the function
                    yield from self._named_in(sys.modules[name], name, names, depth)

    def _names(self, space: Mapping[str, Any], names: tuple[str, ...], depth: int) -> Iterator[Any]:
        """The globals that a function may name, in its own module or another."""
        values = [space.get(name) for name in names]
        self._found.append((space.get, names, values))
        for name, value in zip(names, values, strict=True):
            if name in space:
                yield name
                yield from self._named_in(value, name, names, depth)

    def _named_in(self, value: Any, name: str, names: tuple[str, ...], depth: int) -> Iterator[Any]:
        """A value; of a module of the user's own, what the function may name in it."""
        yield from self.walk(value, name, depth)
        if isinstance(value, ModuleType) and (id(value), names) not in self._modules and not _is_library(value):
            self._modules.add((id(value), names))
            yield from self._names(vars(value), names, depth)


def contents_of(cell: CellType) -> Any:
    """What is in a cell, None if it is empty yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


_HASHED_PIECE = 2**16


def contents(array: np.ndarray) -> int:
    """A hash of the entries of an array, piece by piece, so that it is not copied as a whole."""
    if array.dtype.hasobject:
        return hash(array.tobytes())
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    pieces = [hash(flat[start : start + _HASHED_PIECE].tobytes()) for start in range(0, flat.size, _HASHED_PIECE)]
    return hash((array.dtype.str, array.shape, *pieces))


def words(array: np.ndarray) -> np.ndarray:
    """The memory of an array as whole numbers, in the order of its entries, so that NaNs are compared too."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint64 if flat.nbytes % 8 == 0 else np.uint8)


def digest(array: np.ndarray) -> bytes:
    """What stands for the entries of an array where other arrays may come in its place."""
    return blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).digest()


@lru_cache(maxsize=1024)
def _is_installed(path: str) -> bool:
    """Whether a file belongs to Python, to a package, or to this one: it is taken as it is."""
    return path.startswith(_FOLDER) or any(part in path for part in _INSTALLED)


def _is_library(module: ModuleType | None) -> bool:
    """Whether a module belongs to Python or a package. One without a file is the user's, if Python has none such."""
    if module is None:
        return True
    place = getattr(module, "__file__", None)
    if place is None:
        return module.__name__.partition(".")[0] in _BUILT_IN
    return _is_installed(place)


def _is_of_library(kind: type) -> bool:
    return _is_library(sys.modules.get(kind.__module__))


def _slots(kind: type) -> list[str]:
    """The attributes that objects of a class of the user's own have without a dictionary."""
    if _is_of_library(kind):
        return []
    names = vars(kind).get("__slots__", ())
    own = [names] if isinstance(names, str) else list(names)
    return [f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name for name in own]


@lru_cache(maxsize=1024)
def names_of(code: CodeType) -> tuple[str, ...]:
    """The names that some code, or code inside it, may look up."""
    inner = [names_of(part) for part in code.co_consts if isinstance(part, CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(name for names in inner for name in names)]))
