"""A derivative notices whatever has changed around its function: globals, cells, defaults, attributes, entries."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
import eindiff.jax as ej
import eindiff.torch as et

# Each library: the gradient, and what makes an array.
LIBRARIES: dict[str, tuple[Callable, Callable]] = {
    "numpy": (ed.gradient, np.asarray),
    "jax": (ej.grad, jnp.asarray),
    "torch": (et.grad, torch.tensor),
}
POINT = [1.0, 2.0, 3.0]
INNER = "surroundings_settings.inner"
factor: Any = 1.0


@pytest.fixture(autouse=True)
def settings() -> Iterator[ModuleType]:
    """A module that a function may read from, or import."""
    module, inner = ModuleType("surroundings_settings"), ModuleType(INNER)
    module.factor, module.inner, inner.factor = 1.0, inner, 1.0  # type: ignore[attr-defined]
    sys.modules[module.__name__], sys.modules[inner.__name__] = module, inner
    globals()["factor"], globals()["config"] = 1.0, module
    yield module
    del sys.modules[module.__name__], sys.modules[inner.__name__]


@dataclass
class Plain:
    factor: Any = 1.0
    parent: Any = None

    def value(self, x: Any) -> Any:
        return self.factor * (x**2).sum()

    @property
    def twice(self) -> Any:
        return 2 * self.factor

    def __call__(self, x: Any) -> Any:
        return self.value(x)


@dataclass(slots=True)
class Slots:
    factor: Any = 1.0

    def value(self, x: Any) -> Any:
        return self.factor * (x**2).sum()


def of_global(x: Any) -> Any:
    return factor * (x**2).sum()


def of_module(x: Any) -> Any:
    return config.factor * (x**2).sum()  # type: ignore[name-defined]  # noqa: F821


def of_inner_module(x: Any) -> Any:
    return config.inner.factor * (x**2).sum()  # type: ignore[name-defined]  # noqa: F821


def of_import(x: Any) -> Any:
    from surroundings_settings import factor as imported  # type: ignore[import-not-found]

    return imported * (x**2).sum()


def set_global(name: str, value: Any) -> None:
    globals()[name] = value


# A function, and what makes its factor another number.
Case = tuple[Callable, Callable[[float], Any]]


def _cell() -> Case:
    own = 1.0

    def change(value: float) -> None:
        nonlocal own
        own = value

    return lambda x: own * (x**2).sum(), change


def _called() -> Case:
    f, change = _cell()
    return lambda x: f(x) + 0.0, change


def _default() -> Case:
    def f(x: Any, own: Any = 1.0, *, other: Any = 1.0) -> Any:
        return own * other * (x**2).sum()

    return f, lambda value: setattr(f, "__defaults__", (value,))


def _keyword_default() -> Case:
    def f(x: Any, *, own: Any = 1.0) -> Any:
        return own * (x**2).sum()

    return f, lambda value: setattr(f, "__kwdefaults__", {"own": value})


def _mutable_default() -> Case:
    def f(x: Any, own: Any = [1.0]) -> Any:  # noqa: B006
        return own[0] * (x**2).sum()

    return f, lambda value: f.__defaults__[0].__setitem__(0, value)  # type: ignore[index]


def _function_attribute() -> Case:
    def f(x: Any) -> Any:
        return f.factor * (x**2).sum()  # type: ignore[attr-defined]

    f.factor = 1.0  # type: ignore[attr-defined]
    return f, partial(setattr, f, "factor")


def _code() -> Case:
    def f(x: Any) -> Any:
        return (x**2).sum()

    def change(value: float) -> None:
        f.__code__ = eval(f"lambda x: {value} * (x**2).sum()").__code__

    return f, change


def _new_attribute() -> Case:
    own = SimpleNamespace()
    return lambda x: getattr(own, "factor", 1.0) * (x**2).sum(), partial(setattr, own, "factor")


def _class_attribute() -> Case:
    class Own:
        factor = 1.0

    own = Own()
    return lambda x: own.factor * (x**2).sum(), partial(setattr, Own, "factor")


def _of(container: Any, read: Callable, change: Callable) -> Callable[[], Case]:
    def case() -> Case:
        own = container()
        return lambda x: read(own) * (x**2).sum(), partial(change, own)

    return case


def _set(own: Any, value: float) -> None:
    own["inner"][0] = value


CASES: dict[str, Callable[[], Case]] = {
    "global": lambda: (of_global, partial(set_global, "factor")),
    "global of a called function": lambda: (lambda x: 1.0 * of_global(x), partial(set_global, "factor")),
    "module": lambda: (of_module, partial(setattr, sys.modules["surroundings_settings"], "factor")),
    "module in a module": lambda: (of_inner_module, partial(setattr, sys.modules[INNER], "factor")),
    "import inside": lambda: (of_import, partial(setattr, sys.modules["surroundings_settings"], "factor")),
    "cell": _cell,
    "cell of a called function": _called,
    "default": _default,
    "default of a keyword": _keyword_default,
    "entry of a default": _mutable_default,
    "attribute of a function": _function_attribute,
    "code": _code,
    "attribute": _of(Plain, lambda own: own.factor, lambda own, value: setattr(own, "factor", value)),
    "new attribute": _new_attribute,
    "property": _of(Plain, lambda own: own.twice / 2, lambda own, value: setattr(own, "factor", value)),
    "attribute of an attribute": _of(
        lambda: Plain(parent=Plain(parent=Plain())), lambda own: own.parent.parent.factor,
        lambda own, value: setattr(own.parent.parent, "factor", value),
    ),
    "attribute that is another object": _of(
        lambda: Plain(parent=Plain()), lambda own: own.parent.factor,
        lambda own, value: setattr(own, "parent", Plain(value)),
    ),
    "slot": _of(Slots, lambda own: own.factor, lambda own, value: setattr(own, "factor", value)),
    "attribute of a class": _class_attribute,
    "method": lambda: (lambda own: (own.value, partial(setattr, own, "factor")))(Plain()),
    "method of slots": lambda: (lambda own: (own.value, partial(setattr, own, "factor")))(Slots()),
    "object that is called": lambda: (lambda own: (own, partial(setattr, own, "factor")))(Plain()),
    "list": _of(lambda: [1.0], lambda own: own[0], lambda own, value: own.__setitem__(0, value)),
    "longer list": _of(lambda: [0.5, 0.5], sum, lambda own, value: own.append(value - sum(own))),
    "deque": _of(lambda: deque([1.0]), lambda own: own[0], lambda own, value: own.__setitem__(0, value)),
    "dictionary": _of(lambda: {"a": 1.0}, lambda own: own["a"], lambda own, value: own.update(a=value)),
    "new entry": _of(dict, lambda own: own.get("a", 1.0), lambda own, value: own.update(a=value)),
    "set": _of(lambda: {1.0}, lambda own: next(iter(own)), lambda own, value: (own.clear(), own.add(value))),
    "list in a dictionary": _of(lambda: {"inner": [1.0]}, lambda own: own["inner"][0], _set),
    "partial": lambda: (lambda own: (partial(lambda own, x: own[0] * (x**2).sum(), own), partial(own.__setitem__, 0)))(
        [1.0]
    ),
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", CASES)
def test_what_has_changed_is_noticed(library: str, case: str) -> None:
    """Also what has changed back, and again."""
    transform, array = LIBRARIES[library]
    f, change = CASES[case]()
    gradient = transform(f)
    for value in (1.0, 1.0, 0.5, 3.0, 0.5, -1.0):
        change(value) if value != 1.0 else None
        np.testing.assert_array_equal(np.asarray(gradient(array(POINT))), 2 * value * np.array(POINT))


def _entries(size: int, read: Callable = lambda a: a) -> Callable[[Callable], tuple[Callable, Callable, Callable]]:
    """A function of a captured array, one that changes the array in place, and one that binds another."""

    def case(array: Callable) -> tuple[Callable, Callable, Callable]:
        own = array(np.ones(size).tolist()) if array is not jnp.asarray else np.ones(size)

        def bind(value: float) -> None:
            nonlocal own
            own = array((value * np.ones(size)).tolist())

        def fill(value: float) -> None:
            own[:] = value

        return lambda x: read(own)[:3] @ x**2, fill, bind

    return case


ENTRIES = {
    "few": _entries(3), "many": _entries(1000), "a slice": _entries(1000, lambda a: a[5:]),
    "computed with": _entries(1000, lambda a: 2 * a - a), "twice": _entries(100, lambda a: (a + a[3]) / 2),
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", ENTRIES)
def test_entries_that_have_changed_are_noticed(library: str, case: str) -> None:
    transform, array = LIBRARIES[library]
    f, fill, bind = ENTRIES[case](array)
    gradient = transform(f)
    point = array(POINT)
    assert np.asarray(gradient(point)).tolist() == [2, 4, 6]
    for value, change in ((2.0, fill), (4.0, fill), (-4.0, bind), (1.0, bind), (2.0, bind)):
        change(value)
        assert np.asarray(gradient(point)).tolist() == [2 * value, 4 * value, 6 * value]


def test_what_is_the_same_is_not_traced_again() -> None:
    """Also a value that was seen before, and a function that counts its calls."""
    own, calls, weights = [1.0], [0], np.ones(100)

    def f(x: Any) -> Any:
        calls[0] += 1
        return own[0] * np.sum(x**2) + weights[:3] @ x

    gradient = ed.gradient(f)
    for _ in range(3):
        gradient(np.array(POINT))
    assert gradient.traces == 1 and calls == [2]
    own[0] = 2.0
    gradient(np.array(POINT))
    assert gradient.traces == 2
    plain = ed.gradient(lambda x: own[0] * np.sum(x**2))
    for value in (1.0, 2.0, 1.0, 2.0, float("1.0")):
        own[0] = value
        assert plain(np.array(POINT))[0] == 2 * value
    assert plain.traces == 2


def test_old_arrays_are_not_kept() -> None:
    own = np.ones(1000)
    gradient = ed.gradient(lambda x: own[:3] @ x)
    gradient(np.array(POINT))
    old = weakref.ref(own)
    own = 2 * np.ones(1000)
    assert gradient(np.array(POINT)).tolist() == [2, 2, 2]
    assert old() is None


def test_a_name_that_nothing_was_given_to() -> None:
    """The function may name what it does not get to."""
    if factor != 1.0:
        missing = factor

    def f(x: Any) -> Any:
        return np.sum(x**3) if x.shape else missing

    np.testing.assert_array_equal(ed.gradient(f)(np.ones(2)), [3, 3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_objects_whose_own_lookup_knows_few_names(library: str) -> None:
    """A lookup that fails with another error than AttributeError is asked for nothing but what the function asks."""
    transform, array = LIBRARIES[library]

    class Settings:
        def __init__(self) -> None:
            self.table = {"weight": 1.0}

        def __getattr__(self, name: str) -> float:
            return self.__dict__["table"][name]

    settings = Settings()
    gradient = transform(lambda x: settings.weight * (x * x).sum())
    assert np.asarray(gradient(array(POINT))).tolist() == [2, 4, 6]
    settings.table["weight"] = 2.0
    assert np.asarray(gradient(array(POINT))).tolist() == [4, 8, 12]
