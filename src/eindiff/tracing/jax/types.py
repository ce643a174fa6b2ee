"""Types of JAX's values: those of numbers of Python give way to others."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np


class Weak(NamedTuple):
    """The type of numbers of Python, and of what is made of them: arrays beside them keep theirs."""

    strong: np.dtype


def type_of(x: Any) -> Any:
    """The type of an array, of a number, or of a value that is yet to be computed."""
    aval = x if hasattr(x, "weak_type") else jax.typeof(x)
    return Weak(aval.dtype) if aval.weak_type else aval.dtype


def abstract(x: Any) -> jax.ShapeDtypeStruct:
    """An array without its values."""
    aval = jax.typeof(x)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def strong(kind: Any) -> Any:
    """The type of the numbers alone."""
    return kind.strong if type(kind) is Weak else kind
