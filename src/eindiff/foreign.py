"""Arrays of other libraries than NumPy: their shapes and types without touching values, and conversions to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from eindiff.emit.backends import library_of
from eindiff.errors import EindiffError


def stand_ins(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays of zeros with the shapes and types of others, which take no memory: for all that looks only at these."""
    return {name: np.broadcast_to(np.zeros((), _dtype(name, x)), _shape(name, x)) for name, x in arrays.items()}


def _shape(name: str, value: Any) -> tuple[int, ...]:
    """The shape of an array, which has to be known."""
    shape = tuple(np.shape(value))
    if None in shape:
        raise EindiffError(f"the array for {name} has a shape that is not known: {shape}; programs are made for sizes")
    return shape


def _dtype(name: str, value: Any) -> np.dtype:
    """The type of an array's entries, in NumPy's terms."""
    if not hasattr(value, "dtype"):
        return np.asarray(value).dtype
    text = getattr(value.dtype, "name", str(value.dtype)).rpartition(".")[2]
    try:
        dtype = np.dtype(text)
    except TypeError:
        dtype = np.dtype(np.float16)
    if dtype == np.float16 or dtype.isbuiltin != 1:  # some libraries teach NumPy more types
        raise EindiffError(f"the array for {name} holds {text}: use float32 or float64")
    return dtype


def converter(library: str, dtype: np.dtype, arrays: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What makes any value an array of a library, of a type, and on the device of the arrays that are there."""
    if library == "torch":
        torch = import_module("torch")
        kind = getattr(torch, dtype.name)
        device = next((x.device for x in arrays.values() if isinstance(x, torch.Tensor)), None)
        return lambda value: torch.as_tensor(value, dtype=kind, device=device)
    if library == "tensorflow":
        tf = import_module("tensorflow")
        return lambda value: tf.cast(value if tf.is_tensor(value) else np.asarray(value, dtype), dtype.name)
    if library == "jax":
        jnp = import_module("jax.numpy")
        kind = float if dtype == np.float64 else dtype  # the widest type that is switched on
        return lambda value: jnp.asarray(value, kind)
    module = import_module(library)
    return lambda value: module.asarray(value, dtype)


def prepared(library: str, function: Callable, keywords: list[str]) -> Callable:
    """A generated function as its library runs it best: JAX compiles it as a whole."""
    return import_module("jax").jit(function, static_argnames=keywords) if library == "jax" else function


def to_numpy(value: Any) -> np.ndarray:
    """An array of any library as one of NumPy."""
    match library_of([value]):
        case "torch":
            return value.detach().cpu().numpy()
        case "cupy":
            return value.get()
    return np.asarray(value)
