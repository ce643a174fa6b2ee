"""A function as it is traced: the same code, which sees other objects under some of its names.

NumPy's `array` and `asarray` know no protocol for lists of symbolic arrays, sources of random numbers would be frozen
into the program, and functions of this package give expressions. A traced function finds others in their places; NumPy
itself, and what other functions and threads see of it, stays as it is.
"""

from __future__ import annotations

import builtins
import math
import random
import statistics
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial, wraps
from inspect import CO_OPTIMIZED
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing.closures import contents_of, names_of
from eindiff.tracing.numpy.buffers import SymbolicMemory, buffer, owner
from eindiff.tracing.numpy.replaced import ARRAYS, BUILTINS, LINALG, MATH, STRIDES, Standing
from eindiff.tracing.numpy.statistics_functions import STATISTICS
from eindiff.tracing.numpy.traced_array import has_traced, unwrapped, wrapped
from eindiff.tracing.unsupported import RANDOM

_SOURCES = (np.random.Generator, np.random.RandomState, random.Random)
_SEEDED = ("default_rng", "RandomState", "Generator", "SeedSequence", "PCG64", "Philox", "MT19937", "SFC64", "Random")
_CACHED = type(lru_cache(len))  # what functions are that remember their results
MOST_SEEN_PARTS = 64  # of a container that is looked at
_LIBRARIES = ("eindiff", "numpy", "scipy", "torch", "jax")

# What is put in the place of functions


def _random(name: str) -> Callable:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise EindiffError(f"{name} {RANDOM}", "tracing")

    return refused


def random_states() -> tuple[Any, ...]:
    """The states of the sources of random numbers that all functions share."""
    _, key, *rest = np.random.get_state()
    return np.asarray(key).tobytes(), rest, random.getstate()


class _Random:
    """A source of random numbers, which none are drawn from; new ones need a seed."""

    def __init__(self, name: str, source: Any) -> None:
        self._name, self._source = name or type(source).__name__, source

    def __getattr__(self, name: str) -> Any:
        found, text = getattr(self._source, name), f"{self._name}.{name}"
        if name in _SEEDED:
            return lambda *args, **keywords: found(*args, **keywords) if args or keywords else _random(text)()
        return _random(text) if callable(found) else found


class _Module:
    """A module with others in the places of some of its functions."""

    def __init__(self, module: ModuleType, replaced: Mapping[str, Any], other: Callable[[Any], Any]) -> None:
        self._module, self._replaced, self._other = module, replaced, other

    def __getattr__(self, name: str) -> Any:
        return self._replaced[name] if name in self._replaced else self._other(getattr(self._module, name))

    def __dir__(self) -> list[str]:
        return dir(self._module)


def _with_expressions(f: Any) -> Any:
    """A function of this package, for traced arrays."""
    if not isinstance(f, FunctionType):
        return f

    @wraps(f)
    def function(*args: Any, **keywords: Any) -> Any:
        return wrapped(f(*unwrapped(args), **unwrapped(keywords)))

    return function


def _remembering(f: Callable) -> Callable:
    """A function that remembers what it gave, for arguments that are not symbolic."""
    remembered = lru_cache(f)

    @wraps(f)
    def function(*args: Any, **keywords: Any) -> Any:
        return (f if has_traced([args, *keywords.values()]) else remembered)(*args, **keywords)

    return function


_SHOWN: dict[ModuleType, Mapping[str, Any]] = {
    np: ARRAYS, np.linalg: LINALG, np.lib.stride_tricks: STRIDES, math: MATH, statistics: STATISTICS,
}  # fmt: skip
_SHOWN_MODULES = {module: _Module(module, others, lambda value: value) for module, others in _SHOWN.items()}
_REPLACED = {id(getattr(module, name)): other for module, others in _SHOWN.items() for name, other in others.items()}
_LIB = _Module(np.lib, {"stride_tricks": _SHOWN_MODULES[np.lib.stride_tricks]}, lambda value: value)
_INSIDE = {"linalg": _SHOWN_MODULES[np.linalg], "random": _Random("np.random", np.random), "lib": _LIB}
_SHOWN_MODULES[np] = _Module(np, {**ARRAYS, **_INSIDE}, lambda value: value)
# What shows other functions, also where it is imported inside
_NAMED = {"numpy", "random", "eindiff", "math", "statistics", *BUILTINS}


class _Globals(dict):
    """The globals of a module as a view shows them; what a function assigns is kept here until it has run."""

    def __init__(self, own: dict[str, Any], view: View) -> None:
        super().__init__({name: own[name] for name in _MODULE_NAMES if name in own})
        self.own, self.view = own, view
        self._shown: dict[str, Any] = {}
        self["__builtins__"] = {**vars(builtins), **BUILTINS, "__import__": self._import}

    def __missing__(self, name: str) -> Any:
        return self.view.of(self.own[name], name)

    def _import(self, name: str, _: Any = None, local: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        return self.view.of(builtins.__import__(name, self.own, local, fromlist, level))

    def show(self, names: Iterable[str]) -> None:
        """Have some names at hand: the bodies of classes do not ask for what is missing."""
        self._shown |= {name: self[name] for name in names if name in self.own and name not in self}
        self.update(self._shown)

    def keep(self) -> None:
        """Assign to the globals of the module what was assigned here."""
        new = [name for name, x in self.items() if name not in _MODULE_NAMES and self._shown.get(name, self) is not x]
        self.own.update({name: self[name] for name in new})


_MODULE_NAMES = ("__name__", "__package__", "__spec__", "__loader__", "__file__", "__builtins__")


class View:
    """What the functions of one traced call see."""

    def __init__(self, memory: SymbolicMemory) -> None:
        self._memory = memory
        self._seen: dict[FunctionType, FunctionType] = {}  # functions, and what is in their places
        self._globals: dict[int, _Globals] = {}  # by the globals that they show
        self._classes: dict[type, type] = {}
        self._objects: dict[int, tuple[Any, Any]] = {}  # by identity; they are kept alive

    def of(self, value: Any, name: str = "") -> Any:
        """A value as the traced function sees it, under a name."""
        if _is_of_scipy(value):
            return self._of_scipy(value)
        match value:
            case FunctionType():
                return self._function(value)
            case MethodType() | BuiltinMethodType():
                return self._bound_method(value)
            case partial():
                return self._partial(value)
            case _ if isinstance(value, _CACHED) and isinstance(value.__wrapped__, FunctionType):
                return self._once(value, lambda: _remembering(self.of(value.__wrapped__)))
            case ModuleType():
                return self._module(value)
            case list() | tuple() | dict():
                return self._container(value)
            case np.ndarray() if type(value) is np.ndarray:
                self._memory.captured.add(id(owner(value)))
                return buffer(value)
            case statistics.NormalDist():
                return STATISTICS["NormalDist"](value.mean, value.stdev)
            case _ if isinstance(value, _SOURCES):
                return _Random(name, value)
            case type() if _is_own(value):
                return self._class(value)
            case _ if _is_own(type(value)) and _is_plain_object(value):
                return self._object(value)
        return _REPLACED.get(id(value), value)

    def _bound_method(self, method: Any) -> Any:
        of = method.__self__
        if isinstance(of, _SOURCES):
            return _random(method.__name__)
        if isinstance(method, MethodType) and _is_of_scipy(of):
            return getattr(self.of(of), method.__name__)
        if isinstance(method, MethodType) and isinstance(method.__func__, FunctionType):
            return MethodType(self._function(method.__func__), self.of(of))
        return _REPLACED.get(id(method), method)

    def _partial(self, value: partial) -> partial:
        keywords = {name: self.of(x) for name, x in value.keywords.items()}
        return partial(self.of(value.func), *map(self.of, value.args), **keywords)

    def _of_scipy(self, value: Any) -> Any:
        from eindiff.tracing.numpy.scipy.replaced import replaced, shows_others  # for start-up time: it needs SciPy

        if isinstance(value, ModuleType):
            return _Module(value, {}, self.of) if shows_others(value) else value
        return replaced(value)

    def _container(self, value: Any) -> Any:
        """A list, tuple or dictionary of functions; all others are left as they are."""
        if not _is_replaceable(value):
            return value
        parts = [self.of(part) for part in _parts(value)]
        if all(old is new for old, new in zip(_parts(value), parts, strict=True)):
            return value
        return dict(zip(value, parts, strict=True)) if isinstance(value, dict) else type(value)(parts)

    def _class(self, kind: type) -> type:
        """A class of the user's own with methods that see what the view shows."""
        if kind not in self._classes:
            own: dict[str, Any] = {name: self._method(part) for name, part in vars(kind).items() if _is_method(part)}
            own |= {"__getattribute__": lambda this, name: self._attribute(this, name), "__module__": kind.__module__}
            bases = (kind, *[self._class(base) for base in kind.__bases__ if _is_own(base)])  # `super()` finds them
            self._classes[kind] = shown = Standing(kind.__name__, bases, own)
            shown._stands_for = kind
        return self._classes[kind]

    def _method(self, part: Any) -> Any:
        match part:
            case staticmethod() | classmethod():
                return type(part)(self.of(part.__func__))
            case cached_property():
                return property(self.of(part.func))  # what it keeps is that of one call
            case property():
                return property(*[part and self.of(part) for part in (part.fget, part.fset, part.fdel)])
        return self._function(part)

    def _attribute(self, this: Any, name: str) -> Any:
        found = object.__getattribute__(this, name)
        return found if name.startswith("__") or isinstance(found, MethodType) else self.of(found, name)

    def _object(self, value: Any) -> Any:
        """An object whose methods see what the view shows; what they assign is assigned to the object itself."""

        def shown() -> Any:
            other: Any = object.__new__(self._class(type(value)))
            object.__setattr__(other, "__dict__", value.__dict__)
            return other

        return self._once(value, shown)

    def _once(self, value: Any, shown: Callable[[], Any]) -> Any:
        """What is shown in the place of a value, always the same."""
        if id(value) not in self._objects:
            self._objects[id(value)] = (value, shown())
        return self._objects[id(value)][1]

    def callable(self, f: Callable) -> Callable:
        """A function, or an object that is called like one, as it is traced."""
        call = type(f).__call__
        return MethodType(self._function(call), self.of(f)) if isinstance(call, FunctionType) else self.of(f)

    def keep(self) -> None:
        """Assign the globals that the functions have assigned, and let go of the functions."""
        for space in self._globals.values():
            space.keep()
        self._objects.clear()
        self._seen.clear()  # their cells show arrays, which would live until Python looks for circles

    def _module(self, module: ModuleType) -> Any:
        name = module.__name__
        if module in _SHOWN_MODULES:
            return _SHOWN_MODULES[module]
        if name in ("numpy.random", "random"):
            return _Random(name, module)
        if name == "eindiff":
            return _Module(module, {}, _with_expressions)
        return module if is_library(module) else _Module(module, {}, self.of)

    def _function(self, f: FunctionType) -> FunctionType:
        if f not in self._seen:
            self._explore(f)
        return self._seen[f]

    def _explore(self, f: FunctionType) -> None:
        """Find the functions that a function may call, and make others of those that see something else."""
        calls: dict[FunctionType, list[FunctionType]] = {}
        waiting = [f]
        while waiting:
            g = waiting.pop()
            if g not in calls and g not in self._seen:
                calls[g] = [value for value in _values(g) if isinstance(value, FunctionType)]
                waiting += calls[g]
        changed = {g for g in calls if _sees_other(g)} | {g for g, other in self._seen.items() if g is not other}
        while more := {g for g, called in calls.items() if g not in changed and not changed.isdisjoint(called)}:
            changed |= more
        self._seen |= {g: self._made(g) if g in changed else g for g in calls}
        for g in calls:
            self._fill(g)

    def _made(self, f: FunctionType) -> FunctionType:
        """The same code with other globals; cells are the same where they hold no function or module."""
        space = self._globals.setdefault(id(f.__globals__), _Globals(f.__globals__, self))
        space.show(_names_in_classes(f.__code__))
        pairs = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        cells = tuple([CellType() if _is_seen_other(name, cell) else cell for name, cell in pairs])
        other = FunctionType(f.__code__, space, f.__name__, f.__defaults__, cells)
        other.__kwdefaults__, other.__qualname__ = f.__kwdefaults__, f.__qualname__
        other.__dict__.update(f.__dict__)
        return other

    def _fill(self, f: FunctionType) -> None:
        """Give cells and defaults of a function what it is to see."""
        other = self._seen[f]
        if other is f:
            return
        for name, old, new in zip(f.__code__.co_freevars, f.__closure__ or (), other.__closure__ or (), strict=True):
            if new is not old:
                new.cell_contents = self.of(old.cell_contents, name)
        other.__defaults__ = f.__defaults__ and tuple(map(self.of, f.__defaults__))
        other.__kwdefaults__ = f.__kwdefaults__ and {k: self.of(x, k) for k, x in f.__kwdefaults__.items()}


def _names_in_classes(code: CodeType) -> Iterator[str]:
    """The names that bodies of classes use, in a function and in those inside of it."""
    if not code.co_flags & CO_OPTIMIZED:
        yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in_classes(inner)


def _is_own(kind: type) -> bool:
    """Whether a class is of the user's own, and made in the usual way."""
    module = sys.modules.get(kind.__module__)
    if module is None or type(kind) not in (type, ABCMeta) or issubclass(kind, (BaseException, tuple, np.ndarray)):
        return False
    return not is_library(module) and getattr(kind, "__getattribute__", None) is object.__getattribute__


def _is_plain_object(value: Any) -> bool:
    """Whether all that an object has is in its dictionary."""
    kinds = [kind for kind in type(value).__mro__ if kind is not object and vars(kind).get("__slots__") != ()]
    return all(_is_own(kind) and "__slots__" not in vars(kind) for kind in kinds) and hasattr(value, "__dict__")


def _is_seen_other(name: str, cell: CellType) -> bool:
    """Whether a function is to see something else in a cell; that of `super()` stays."""
    return name != "__class__" and _is_replaceable(contents_of(cell))


def _is_method(part: Any) -> bool:
    return isinstance(part, FunctionType | staticmethod | classmethod | property | cached_property)


def is_library(module: ModuleType) -> bool:
    """Whether a module is taken as it is: of Python, or of a library that traced arrays come to no harm in."""
    name = module.__name__.partition(".")[0]
    return name in _LIBRARIES or (name in sys.stdlib_module_names and name != "__main__")


def _parts(value: Any) -> list[Any]:
    """The values in a list, tuple or dictionary, if they are few: none for data."""
    if type(value) not in (list, tuple, dict) or len(value) > MOST_SEEN_PARTS:
        return []
    return list(value.values() if isinstance(value, dict) else value)


def _is_replaceable(value: Any) -> bool:
    """Whether there may be something else for a value, or for what a container holds."""
    if _is_of_scipy(value):
        return True
    if _is_own(value if isinstance(value, type) else type(value)):
        return True
    kinds = (FunctionType, MethodType, partial, _CACHED, ModuleType, np.ndarray, *_SOURCES)
    return any(isinstance(part, kinds) or _has_other(part) for part in (value, *_parts(value)))


def _values(f: FunctionType) -> Iterator[Any]:
    """The values that a function may see: in its globals, closure and defaults, and in modules that it names."""
    names, space = names_of(f.__code__), f.__globals__
    found = [space[name] for name in names if name in space]
    found += [*map(contents_of, f.__closure__ or ()), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    for value in [part for container in found for part in (container, *_parts(container))]:
        yield value
        if isinstance(value, ModuleType) and not is_library(value):
            yield from [vars(value)[name] for name in names if name in vars(value)]
        elif isinstance(value, partial | MethodType):
            yield getattr(value, "func", None) or getattr(value, "__func__", None)


def _sees_other(f: FunctionType) -> bool:
    """Whether a function sees something that there is another for."""
    if f.__globals__.get("__name__", "").partition(".")[0] in _LIBRARIES:
        return False
    names = names_of(f.__code__)
    if any(name in _NAMED and name not in f.__globals__ for name in names):  # it may be imported there
        return True
    return any(map(_has_other, _values(f)))


def _is_of_scipy(value: Any) -> bool:
    """Whether something is a module, a function or a distribution of SciPy."""
    if isinstance(value, ModuleType | FunctionType):
        name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    elif isinstance(value, type):
        return str(value.__module__).startswith(("scipy.sparse.", "scipy.interpolate."))
    else:
        name = type(value).__module__
        if name == "uarray":  # what functions of `scipy.fft` are
            return True
        if not name.startswith(("scipy.stats", "scipy.sparse", "scipy.interpolate")):
            return False
    return isinstance(name, str) and (name == "scipy" or name.startswith("scipy."))


def _has_other(value: Any) -> bool:
    if isinstance(value, ModuleType):
        named = value.__name__ in ("numpy.random", "random", "eindiff")
        return named or value in _SHOWN_MODULES or _is_of_scipy(value)
    if type(value) is np.ndarray or _is_own(value if isinstance(value, type) else type(value)):
        return True
    if isinstance(value, _CACHED) or _is_of_scipy(value):
        return True
    if isinstance(value, MethodType | BuiltinMethodType):
        of_object = not isinstance(value.__self__, ModuleType) and _has_other(value.__self__)
        return of_object or id(value) in _REPLACED
    return isinstance(value, (*_SOURCES, statistics.NormalDist)) or id(value) in _REPLACED
