"""Array libraries: how tests of their programs make arrays, call compiled functions, and compare results.

CuPy runs where there is a GPU for it; elsewhere its programs run with NumPy in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.special
import torch

import eindiff as ed
from compiling import assert_close, leaves
from eindiff.core.nodes import Expr
from eindiff.program.interpreter import evaluate
from oracles import jit

# Functions of the table that a library has no form of
REFUSED: dict[str, set[str]] = {
    "numpy": set(),
    "jax": {"logm", "sqrtm"},
    "torch": {"logm", "sqrtm"},
    "tensorflow": {"logm", "log_ndtr"},
    "cupy": {"logm", "sqrtm"},
}
RTOL = 1e-9
LIBRARIES = ("numpy", "jax", "torch", "tensorflow", "cupy")


@dataclass(frozen=True)
class Library:
    """How arrays come from NumPy and go back, and how a compiled function is called."""

    name: str
    array: Callable[[Any], Any]
    kind: type
    to_numpy: Callable[[Any], np.ndarray] = np.asarray
    call: Callable[[Callable, Mapping[str, Any]], Any] = lambda function, arrays: function(**arrays)

    def arrays(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.array(array) for name, array in arrays.items()}

    def values(self, outputs: Any, arrays: Mapping[str, Any]) -> list[np.ndarray]:
        """The outputs as NumPy's arrays, after a look at what they are."""
        results = leaves(self.call(ed.compile(outputs, backend=self.name), self.arrays(arrays)))
        assert self.name == "numpy" or all(isinstance(x, self.kind) for x in results), [type(x) for x in results]
        return [self.to_numpy(x) for x in results]


def _stand_in_for_cupy() -> dict[str, ModuleType]:
    """Modules made of NumPy and SciPy."""
    names = ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.linalg", "cupyx.scipy.special")
    modules = {name: ModuleType(name) for name in names}
    modules["cupyx"].scipy = modules["cupyx.scipy"]  # type: ignore[attr-defined]
    modules["cupyx.scipy"].linalg = modules["cupyx.scipy.linalg"]  # type: ignore[attr-defined]
    modules["cupyx.scipy"].special = modules["cupyx.scipy.special"]  # type: ignore[attr-defined]
    vars(modules["cupy"]).update({name: value for name, value in vars(np).items() if not name.startswith("__")})
    names = ("erf", "erfc", "erfinv", "log_ndtr", "gammaln", "digamma", "polygamma", "expit", "logsumexp", "softmax")
    vars(modules["cupyx.scipy.special"]).update({name: getattr(scipy.special, name) for name in names})

    def scatter_add(array: np.ndarray, index: Any, value: Any) -> None:
        np.add.at(array, index, np.broadcast_to(value, array[index].shape))

    def expm(matrix: np.ndarray) -> np.ndarray:
        assert matrix.ndim == 2  # as there
        return scipy.linalg.expm(matrix)

    vars(modules["cupyx"]).update(scatter_add=scatter_add)
    vars(modules["cupyx.scipy.linalg"]).update(expm=expm, solve_triangular=scipy.linalg.solve_triangular)
    return modules


@lru_cache(maxsize=1)
def _cupy() -> ModuleType | None:
    """CuPy, if it can be used."""
    try:
        import cupy

        cupy.zeros(1)
    except Exception:
        return None
    return cupy


def library_of(name: str) -> Library:
    if name == "numpy":
        return Library(name, np.asarray, np.ndarray | np.generic)  # type: ignore[arg-type]
    if name == "jax":  # compiled as a whole, and quickly
        return Library(name, jnp.asarray, jax.Array, call=lambda f, arrays: jit(lambda given: f(**given))(arrays))
    if name == "torch":
        return Library(name, torch.asarray, torch.Tensor)
    if name == "tensorflow":
        tf = pytest.importorskip("tensorflow")
        return Library(name, tf.constant, tf.Tensor)
    if cupy := _cupy():
        return Library(name, cupy.asarray, cupy.ndarray, cupy.asnumpy)
    return Library(name, np.asarray, np.ndarray | np.generic)  # type: ignore[arg-type]


# Fixtures, for the tests that import them


@pytest.fixture(autouse=True)
def cupy_or_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs for CuPy can be run."""
    if _cupy() is None:
        for name, module in _stand_in_for_cupy().items():
            monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(name="library", params=LIBRARIES)
def every_library(request: pytest.FixtureRequest) -> Library:
    return library_of(request.param)


@pytest.fixture(name="foreign", params=LIBRARIES[1:])
def foreign_library(request: pytest.FixtureRequest) -> Library:
    return library_of(request.param)


def check(library: Library, outputs: list[Expr], arrays: Mapping[str, Any], expected: Any = None) -> None:
    """The outputs are those of the interpreter, in its type."""
    expected = leaves(evaluate(outputs, arrays)) if expected is None else expected
    results = library.values(outputs, arrays)
    assert_close(results, expected, RTOL, context=ed.compile(outputs, backend=library.name).source)
    if library.name != "numpy":  # which gives integers as such
        assert {x.dtype for x in results} == {np.dtype(np.float64)}, ed.compile(outputs, backend=library.name).source
