"""The libraries that arrays are of. Their types are known by the modules that these come from, so that none is imported
to find out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_BY_MODULE = {"jax": "jax", "jaxlib": "jax", "torch": "torch", "tensorflow": "tensorflow", "cupy": "cupy"}


def library_of(values: Iterable[Any]) -> str:
    """The library that some arrays are of: that of the first one that is not NumPy's, or else NumPy."""
    for value in values:
        for kind in type(value).__mro__[:-1]:
            if (found := _BY_MODULE.get(kind.__module__.partition(".")[0])) is not None:
                return found
    return "numpy"
