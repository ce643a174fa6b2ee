"""The array libraries that programs are written for, a small file each: how it spells what NumPy spells otherwise."""

from __future__ import annotations

import copyreg
from importlib import import_module

from eindiff.core.errors import EindiffError
from eindiff.program.backends.backend import Backend

NAMES = ("numpy", "jax", "torch", "tensorflow", "cupy")


def backend(name: str) -> Backend:
    """The backend of a name."""
    if name not in NAMES:
        raise EindiffError(f"backend {name!r}: choose one of {', '.join(NAMES)}", "options")
    return import_module(f"eindiff.program.backends.{name}_backend").BACKEND


copyreg.pickle(Backend, lambda one: (backend, (one.name,)))  # its writers are functions, which are found by name
