"""Compiled programs in each array library, as functions of NumPy's arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import eindiff as ed
from eindiff.core.nodes import Expr
from fuzz.jets import Array

LIBRARIES = ("numpy", "torch", "tensorflow", "jax")


def run(library: str, outputs: Sequence[Expr], arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
    """The outputs by one program of a library; nothing if it has no such function."""
    function = ed.compile(list(outputs), backend=library)
    to_library, call = _library(library)
    given = {name: to_library(array) for name, array in arrays.items()}
    try:
        results = call(lambda given: function(**given, sizes=sizes), given)
    except ed.EindiffError as error:
        if "has no form in" in str(error):
            return []
        raise
    return [np.asarray(result) for result in results]


@lru_cache(maxsize=4)
def _library(name: str) -> tuple[Callable[[Array], Any], Callable[[Callable, Any], Any]]:
    """How arrays are made, and how a function of them is called."""
    if name == "jax":
        from oracles import jit, jnp  # compiled as a whole, and quickly

        return jnp.asarray, lambda function, given: jit(function)(given)
    if name == "torch":
        import torch

        return torch.asarray, lambda function, given: function(given)
    if name == "tensorflow":
        import tensorflow as tf

        return tf.constant, lambda function, given: function(given)
    return np.asarray, lambda function, given: function(given)


def from_source(expr: Expr) -> Callable[[Mapping[str, Array], Mapping[str, int]], Any]:
    """The function that the readable source of an expression defines."""
    namespace: dict[str, Any] = {}
    exec(ed.to_source(expr), namespace)
    function = namespace["f"]
    names = inspect.signature(function).parameters
    return lambda arrays, sizes: function(**{name: {**sizes, **arrays}[name] for name in names})
