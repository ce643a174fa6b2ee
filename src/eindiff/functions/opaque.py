"""Functions that a library computes, which programs call by name: opaque ones, which front ends make."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakValueDictionary

# A function lives as long as an expression that applies it, or a program that calls it.
REGISTRY: WeakValueDictionary[str, Callable] = WeakValueDictionary()
