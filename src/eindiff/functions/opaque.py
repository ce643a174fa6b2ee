"""Functions that a library computes, which programs call by name.

`REGISTRY` has their values, whatever library they come from. Opaque ones, which their
library also differentiates, are made by the front ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.libraries import library_of
from eindiff.core.nodes import Expr
from eindiff.core.recent import once
from eindiff.functions.matrices import inv
from eindiff.functions.multilinear import einsum

Derivative = Callable[..., Expr]

# What programs call by name. A function lives as long as an expression that applies it, or a program that calls it.
REGISTRY: WeakValueDictionary[str, Callable] = WeakValueDictionary()


@lru_cache(maxsize=128)
def _named(path: str) -> Callable:
    """A function by its full name; its library is imported when it is first needed."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _registered(name: str, paths: dict[str, str], part: int | None = None) -> Callable:
    """The value of a function, or a part of it, by the library of its arguments; known to programs by its name."""

    def value(*args: Any) -> Any:
        library = library_of(args)
        if library == "jax" and len(args) > 1:
            jnp = import_module("jax.numpy")
            args = tuple(x.astype(jnp.result_type(*args)) for x in jnp.broadcast_arrays(*args))
        with np.errstate(all="ignore"):
            result = _named(paths.get(library, paths["numpy"]))(*args)
        return result if part is None else result[part]

    REGISTRY[name] = value
    return value


def _of_determinant(name: str, part: int, derivative: Derivative | None) -> Callable[[Expr], Expr]:
    """A number for each matrix: a part of the sign and the logarithm of the determinant."""

    @once
    def made() -> Function:
        paths = {library: f"{library}.linalg.slogdet" for library in ("numpy", "torch")}
        value = _registered(f"library_{name}", paths | {"jax": "jax.numpy.linalg.slogdet"}, part)
        return Function(
            f"library_{name}", value, (derivative,), core=(2,), output=lambda _: (), flops=lambda n, _: 2 * n**3 / 3,
            latex=rf"\operatorname{{{name}}}",
        )  # fmt: skip

    return lambda a: construct.apply(made(), (a,))


sign_of_det = _of_determinant("signdet", 0, None)
log_of_abs_det = _of_determinant("logabsdet", 1, lambda a: einsum("...lk->...kl", inv(a)))
