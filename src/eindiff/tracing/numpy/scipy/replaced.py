"""What a traced function finds in the places of SciPy's functions and distributions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from types import FunctionType, ModuleType
from typing import Any

from eindiff.tracing.numpy.buffers import buffer, settled
from eindiff.tracing.numpy.scipy.distributions import DISTRIBUTIONS
from eindiff.tracing.numpy.scipy.interpolate import CONSTRUCTORS, Constructor, Spline, is_spline, splev
from eindiff.tracing.numpy.scipy.linear import CHOOSING, CONVOLUTIONS, LINEAR, choosing, convolution, linear
from eindiff.tracing.numpy.scipy.solvers import CURES, quad, with_cure
from eindiff.tracing.numpy.scipy.sparse import Making, as_sparse
from eindiff.tracing.numpy.scipy.stats import Traceable
from eindiff.tracing.numpy.scipy.summaries import FUNCTIONS
from eindiff.tracing.numpy.traced_array import has_traced


def _for_traced(original: Callable, function: Callable) -> Callable:
    """A function of SciPy, for traced arrays too."""

    @wraps(original)
    def called(*args: Any, **keywords: Any) -> Any:
        args, keywords = settled(args), settled(keywords)
        if has_traced([args, list(keywords.values())]):
            return function(*args, **keywords)
        return buffer(original(*args, **keywords))

    return called


class _Methods:
    """An object of SciPy with others in the places of some of its methods."""

    def __init__(self, original: Any, replaced: dict[str, Callable]) -> None:
        self._original, self._replaced = original, replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(self._original, name)


# How functions are made for traced arrays, by the tables that name them
_ROWS: tuple[tuple[Iterable[str], Callable[[str, Callable], Callable]], ...] = (
    (LINEAR, lambda name, original: _for_traced(original, linear(name, original, LINEAR[name]))),
    (CHOOSING, lambda name, original: _for_traced(original, choosing(name, original))),
    (CONVOLUTIONS, lambda name, original: _for_traced(original, convolution(name, original))),
    (CURES, lambda name, original: with_cure(name, original, CURES[name])),
    (("integrate.quad",), lambda name, original: quad(original)),
)


def _of_rows() -> Iterator[tuple[Callable, Callable]]:
    """Functions of modules that are imported, and what is in their places."""
    for names, made in _ROWS:
        for name in names:
            module, _, last = name.rpartition(".")
            original = getattr(sys.modules.get(f"scipy.{module}"), last, None)
            if original is not None:
                yield original, made(name, original)


@lru_cache(maxsize=8)
def _known(loaded: frozenset[str]) -> dict[int, Any]:
    """What there is in the place of objects of SciPy, by their identity."""
    found: dict[int, Any] = {id(original): other for original, other in _of_rows()}
    methods: dict[int, tuple[Any, dict[str, Callable]]] = {}
    for name, function in FUNCTIONS.items():
        module, _, last = name.rpartition(".")
        place = sys.modules.get(f"scipy.{module}")
        if place is not None and hasattr(place, last):
            original = getattr(place, last)
            found[id(original)] = _for_traced(original, function)
        elif module == "stats.multivariate_normal" and "scipy.stats" in loaded:
            owner = sys.modules["scipy.stats"].multivariate_normal
            methods.setdefault(id(owner), (owner, {}))[1][last] = _for_traced(getattr(owner, last), function)
    return found | {key: _Methods(*pair) for key, pair in methods.items()}


_SCIPY_MODULES = (
    "scipy.special", "scipy.linalg", "scipy.stats", "scipy.spatial.distance", "scipy.integrate", "scipy.interpolate",
    "scipy.signal", "scipy.ndimage", "scipy.optimize", "scipy.fft",
)  # fmt: skip


def replaced(value: Any) -> Any:
    """What is seen in the place of an object of SciPy; itself if nothing is."""
    if type(value).__name__ in ("rv_continuous_frozen", "rv_discrete_frozen"):
        return Traceable(sys.modules["scipy.stats"].__dict__[value.dist.name], value.dist.name, value.args, value.kwds)
    if (name := getattr(value, "name", None)) in DISTRIBUTIONS and hasattr(value, "logcdf"):  # it may be a copy
        return Traceable(value, name)
    if is_spline(value):
        return Spline(value)
    if getattr(value, "__name__", "") in CONSTRUCTORS:
        return Constructor(value)
    if getattr(value, "__name__", "") == "splev":
        return _for_traced(value, splev)
    if hasattr(value, "tocoo") and not isinstance(value, type):
        return as_sparse(value)
    if isinstance(value, FunctionType | type) and value.__module__.startswith(("scipy.sparse.", "scipy._lib._sparse")):
        return Making(value)
    return _known(frozenset(name for name in _SCIPY_MODULES if name in sys.modules)).get(id(value), value)


def shows_others(module: ModuleType) -> bool:
    """Whether a module of SciPy has functions that others stand for, or has such modules."""
    return module.__name__ in ("scipy", "scipy.spatial", "scipy.sparse", *_SCIPY_MODULES)
