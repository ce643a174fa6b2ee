"""What a Python function depends on besides its arguments, as a key: its code, closure, defaults, globals, objects.

So functions that are made anew for each call (`hessian(lambda w: loss(w, X))(w)`) are known again, and one whose
globals, attributes or lists have changed is not taken for the old one. Numbers and text are compared by value, JAX's
arrays and other objects by identity, NumPy's arrays by both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

from eindiff.trace.common import Same

PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
DEPTH = 6
_INSTALLED = ("site-packages", "dist-packages", sys.prefix, sys.base_prefix)


@lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """The names that code and the functions defined in it may look up."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(name for names in inner for name in names)]))


@lru_cache(maxsize=1024)
def _is_installed(place: str) -> bool:
    """Whether a file belongs to a library, which does not change."""
    return any(part in place for part in _INSTALLED)


def environment(f: Callable) -> Any:
    """A key that is the same for functions that do the same."""
    return tuple(_walk(f, set(), DEPTH))


def _walk(value: Any, seen: set[int], depth: int) -> Iterator[Any]:
    """The parts of the key that a value gives."""
    if isinstance(value, PLAIN):
        yield (type(value), value)
    elif isinstance(value, jax.Array | ModuleType | BuiltinFunctionType | type):
        yield Same(value)
    elif isinstance(value, np.ndarray):
        yield (Same(value), hash(value.tobytes()))
    elif id(value) in seen or not depth:
        yield Same(value)
    else:
        seen.add(id(value))
        yield from _inside(value, seen, depth - 1)


def _inside(value: Any, seen: set[int], depth: int) -> Iterator[Any]:
    match value:
        case FunctionType():
            yield from _function(value, seen, depth)
        case MethodType():
            yield from _walk(value.__func__, seen, depth)
            yield from _walk(value.__self__, seen, depth)
        case partial():
            yield from _walk((value.func, value.args, value.keywords), seen, depth)
        case list() | tuple() | set() | frozenset():
            yield (type(value), len(value))
            for part in value:
                yield from _walk(part, seen, depth)
        case dict():
            yield (type(value), len(value))
            for key, part in value.items():
                yield key if isinstance(key, PLAIN) else Same(key)
                yield from _walk(part, seen, depth)
        case _:
            yield Same(value)
            wrapped = getattr(value, "__wrapped__", None)  # what jax.jit and others make of a function
            yield from _walk(wrapped if wrapped is not None else getattr(value, "__dict__", None), seen, depth)


def _function(f: FunctionType, seen: set[int], depth: int) -> Iterator[Any]:
    """Its code, and what it sees: of functions of libraries only what their closures hold."""
    yield f.__code__
    cells = [_contents(cell) for cell in f.__closure__ or ()]
    named: list[Any] = []
    if _is_installed(f.__code__.co_filename):
        yield Same(f) if not cells else len(cells)
    else:
        named = [f.__defaults__, f.__kwdefaults__]
        for name in _names(f.__code__):
            if name in f.__globals__:
                named += _seen_in(f.__globals__[name], f.__code__)
    for value in (*cells, *named):
        yield from _walk(value, seen, depth)


def _seen_in(value: Any, code: CodeType) -> list[Any]:
    """A global; of a module of the user's own, what the code may name."""
    if not isinstance(value, ModuleType) or _is_installed(getattr(value, "__file__", None) or _INSTALLED[0]):
        return [value]
    return [value, *(vars(value)[name] for name in _names(code) if name in vars(value))]


def visible_arrays(f: Any, depth: int = DEPTH) -> dict[str, np.ndarray]:
    """The arrays that a function names in its closure and its globals, or that functions which it calls name."""
    found: dict[str, np.ndarray] = {}
    if isinstance(f, MethodType | partial) and depth:
        return visible_arrays(f.__func__ if isinstance(f, MethodType) else f.func, depth)
    if not isinstance(f, FunctionType) or not depth or _is_installed(f.__code__.co_filename):
        return found
    named = dict(zip(f.__code__.co_freevars, map(_contents, f.__closure__ or ()), strict=True))
    named |= {name: f.__globals__[name] for name in _names(f.__code__) if name in f.__globals__}
    for name, value in named.items():
        if isinstance(value, np.ndarray) or (isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)):
            if jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
                found.setdefault(name, np.asarray(value))
        elif isinstance(value, FunctionType | MethodType | partial):
            found = visible_arrays(value, depth - 1) | found
    return found


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
