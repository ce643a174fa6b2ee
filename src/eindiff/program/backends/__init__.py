"""The array libraries that programs are written for, a small file each: how it spells what NumPy spells otherwise."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from eindiff.core.errors import EindiffError
from eindiff.program.backends.backend import Backend

NAMES = ("numpy", "jax", "torch", "tensorflow", "cupy")

# Types of arrays are known by the module that they come from, so that no library is imported to find out.
_MODULES = {"jax": "jax", "jaxlib": "jax", "torch": "torch", "tensorflow": "tensorflow", "cupy": "cupy"}


def backend(name: str) -> Backend:
    """The backend of a name."""
    if name not in NAMES:
        raise EindiffError(f"backend {name!r}: choose one of {', '.join(NAMES)}")
    return import_module(f"eindiff.program.backends.{name}_backend").BACKEND


def library_of(values: Any) -> str:
    """The library that some arrays are of: that of the first one that is not NumPy's, or else NumPy."""
    for value in values:
        for kind in type(value).__mro__[:-1]:
            if (found := _MODULES.get(kind.__module__.partition(".")[0])) is not None:
                return found
    return "numpy"
