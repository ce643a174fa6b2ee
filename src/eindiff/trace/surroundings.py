"""What a function sees around it, as a key: its code, closure, defaults, globals, and the objects that these name.

A trace holds as long as the key is the same. So functions that are made anew for each call
(`hessian(lambda w: loss(w, X))(w)`) are known again, and one whose globals, attributes or lists have changed is not
taken for the old one. Numbers and texts are compared by value, other objects by identity, NumPy's arrays by both. No
object is kept alive by a key.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from eindiff.recent import Same

DEPTH = 6
PLAIN = (bool, int, float, complex, str, bytes, type(None), Enum, np.generic, np.dtype)
_OWN = str(Path(__file__).parent.parent)
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_paths()["stdlib"])


class Surroundings:
    """The key of a function, and the arrays that it sees, by the names that they have there.

    A front end says in a class of its own what arrays are, and which objects have more to them than attributes.
    """

    plain: tuple[type, ...] = PLAIN

    def __init__(self, function: Any) -> None:
        self.arrays: dict[int, tuple[str, Any]] = {}  # by identity
        self._seen: dict[int, int] = {}
        self.key = tuple(self.walk(function, "", 0))

    def array_key(self, value: Any) -> Any:
        """What an array is known by; None for what is no array."""
        return (Same(value), contents(value)) if isinstance(value, np.ndarray) else None

    def attributes(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """The parts of the key that an object gives."""
        yield from self.named(vars(value), path, depth)

    def walk(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """The parts of the key that a value gives."""
        if isinstance(value, self.plain):
            yield (type(value), value)
        elif (key := self.array_key(value)) is not None:
            self.arrays.setdefault(id(value), (path, value))
            yield key
        elif id(value) in self._seen:
            yield ("again", self._seen[id(value)])
        elif depth > DEPTH or isinstance(value, BuiltinFunctionType | ModuleType):
            yield Same(value)
        else:
            self._seen[id(value)] = len(self._seen)
            yield from self._inside(value, path, depth + 1)

    def named(self, parts: Mapping[Any, Any], path: str, depth: int) -> Iterator[Any]:
        """The parts of the key that values with names give."""
        for name, part in list(parts.items()):
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
            case list() | tuple() | set() | frozenset():
                yield (type(value), len(value))
                for k, part in enumerate(value):
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
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None and _is_of_library(type(value)):
            yield from self.walk(wrapped, path, depth)
        elif hasattr(value, "__dict__"):
            yield from self.walk(type(value), "", depth)
            yield from self.attributes(value, path, depth)

    def _class(self, kind: type, depth: int) -> Iterator[Any]:
        """The methods and the values of a class of the user's own, and of those that it inherits from."""
        yield Same(kind)
        for base in kind.__mro__:
            if _is_of_library(base):
                continue
            for name, part in list(vars(base).items()):
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
        yield from self.walk(function.__defaults__, "", depth)
        yield from self.walk(function.__kwdefaults__, "", depth)
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                contents = cell.cell_contents
            except ValueError:  # a cell that is empty yet
                yield name
            else:
                yield from self.walk(contents, name, depth)
        if not is_installed:
            yield from self._globals(function, depth)

    def _globals(self, function: FunctionType, depth: int) -> Iterator[Any]:
        """The globals that a function may name; of a module of the user's own, what the function may name in it."""
        names, space = names_of(function.__code__), function.__globals__
        for name in names:
            if name not in space:
                continue
            value = space[name]
            yield name
            yield from self.walk(value, name, depth)
            if isinstance(value, ModuleType) and not _is_installed(getattr(value, "__file__", None) or _OWN):
                for inner in names:
                    if inner in vars(value):
                        yield from self.walk(vars(value)[inner], inner, depth)


_PIECE = 2**16


def contents(array: np.ndarray) -> int:
    """A hash of the entries of an array, piece by piece, so that it is not copied as a whole."""
    if array.dtype.hasobject:
        return hash(array.tobytes())
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    pieces = [hash(flat[start : start + _PIECE].tobytes()) for start in range(0, flat.size, _PIECE)]
    return hash((array.dtype.str, array.shape, *pieces))


def digest(array: np.ndarray) -> bytes:
    """What stands for the entries of an array where other arrays may come in its place."""
    return blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).digest()


@lru_cache(maxsize=1024)
def _is_installed(path: str) -> bool:
    """Whether a file belongs to Python, to a package, or to this one: it is taken as it is."""
    return path.startswith(_OWN) or any(part in path for part in _INSTALLED)


def _is_of_library(kind: type) -> bool:
    place = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return place is None or _is_installed(place)


@lru_cache(maxsize=1024)
def names_of(code: CodeType) -> tuple[str, ...]:
    """The names that some code, or code inside it, may look up."""
    inner = [names_of(part) for part in code.co_consts if isinstance(part, CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(name for names in inner for name in names)]))
