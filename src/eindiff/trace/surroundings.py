"""What a function sees around it: its code, and the values and objects that its closure and globals name.

A trace holds as long as these are the same. Numbers and texts are compared by value, tensors and other objects by
identity (a trace reads the values of tensors anew at each call), NumPy arrays by both.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from eindiff.trace.common import Same

DEPTH = 6
PLAIN = (bool, int, float, complex, str, bytes, type(None), Enum, torch.dtype, torch.device)
_OWN = str(Path(__file__).parent.parent)
_INSTALLED = ("site-packages", "dist-packages", sysconfig.get_paths()["stdlib"])


class Surroundings:
    """The key of a function, and the names of the tensors that it sees."""

    def __init__(self, function: Any) -> None:
        self.names: dict[int, str] = {}
        self._seen: set[int] = set()
        self.key = tuple(self._walk(function, "", 0))

    def _walk(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        if isinstance(value, PLAIN):
            yield (type(value), value)
        elif isinstance(value, torch.Tensor):
            self.names.setdefault(id(value), path)
            yield (Same(value), tuple(value.shape), value.dtype)
        elif isinstance(value, np.ndarray):
            yield (Same(value), hash(value.tobytes()))
        elif isinstance(value, np.generic):
            yield (type(value), value.item())
        elif id(value) in self._seen or depth > DEPTH or isinstance(value, BuiltinFunctionType):
            yield Same(value)
        else:
            self._seen.add(id(value))
            yield from self._inside(value, path, depth + 1)

    def _inside(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        """The parts of an object that is not plain."""
        match value:
            case FunctionType():
                yield from self._function(value, depth)
            case MethodType():
                yield from self._walk(value.__func__, path, depth)
                yield from self._walk(value.__self__, "", depth)
            case partial():
                yield from self._walk((value.func, value.args, value.keywords), path, depth)
            case list() | tuple() | set() | frozenset():
                yield (type(value), len(value))
                for k, part in enumerate(value):
                    yield from self._walk(part, f"{path}_{k}", depth)
            case dict():
                yield (type(value), len(value))
                for key, part in list(value.items()):
                    yield key if isinstance(key, PLAIN) else Same(key)
                    yield from self._walk(part, f"{path}_{key}" if path else str(key), depth)
            case type():
                yield from self._class(value, depth)
            case staticmethod() | classmethod():
                yield from self._walk(value.__func__, path, depth)
            case property():
                yield from self._walk((value.fget,), path, depth)
            case _:
                yield Same(value)
                if not isinstance(value, ModuleType) and hasattr(value, "__dict__"):
                    yield from self._walk(type(value), "", depth)
                    yield from self._object(value, path, depth)

    def _class(self, kind: type, depth: int) -> Iterator[Any]:
        """The methods and the values of a class of the user's own, and of those that it inherits from."""
        yield Same(kind)
        for base in kind.__mro__:
            place = getattr(sys.modules.get(base.__module__), "__file__", None)
            if place is None or _is_installed(place):
                continue
            for name, part in list(vars(base).items()):
                if not name.startswith("__") or isinstance(part, FunctionType):
                    yield name
                    yield from self._walk(part, name, depth)

    def _object(self, value: Any, path: str, depth: int) -> Iterator[Any]:
        attributes = vars(value)
        if isinstance(value, torch.nn.Module):  # its hooks and tables are those of every module
            own = ("_parameters", "_buffers", "_modules")
            for name in own:
                depth = min(depth, DEPTH - 2)  # however deep a network is nested
                yield from self._walk(attributes[name], path, depth)
            attributes = {k: v for k, v in attributes.items() if not k.startswith("_") or k.startswith("__")}
        for name, part in list(attributes.items()):
            yield name
            yield from self._walk(part, f"{path}_{name}" if path else name, depth)

    def _function(self, function: FunctionType, depth: int) -> Iterator[Any]:
        code = function.__code__
        yield code
        if _is_installed(code.co_filename):
            yield Same(function)
            if not function.__closure__:
                return
        yield from self._walk(function.__defaults__, "", depth)
        yield from self._walk(function.__kwdefaults__, "", depth)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                yield from self._walk(cell.cell_contents, name, depth)
            except ValueError:  # a cell that is empty yet
                yield name
        space = function.__globals__
        for name in sorted(_names(code)):
            if name in space:
                value = space[name]
                yield name
                yield from (
                    self._module(value, code, depth)
                    if isinstance(value, ModuleType)
                    else self._walk(value, name, depth)
                )

    def _module(self, module: ModuleType, code: CodeType, depth: int) -> Iterator[Any]:
        """Of a module of the user's own, what the function may name."""
        yield Same(module)
        place = getattr(module, "__file__", None)
        if place is None or _is_installed(place):
            return
        for name in sorted(_names(code)):
            if name in vars(module):
                yield from self._walk(vars(module)[name], name, depth)


def _is_installed(path: str) -> bool:
    """Whether a file belongs to Python, to a package, or to this one: it is taken as it is."""
    return path.startswith(_OWN) or any(part in path for part in _INSTALLED)


def _names(code: CodeType) -> set[str]:
    """The names that some code, or code inside it, may look up."""
    found = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            found |= _names(part)
    return found
