"""Functions that a library computes, which programs call by name.

`REGISTRY` has their values, whatever library they come from. Below are those with closed derivatives that the table of
functions has no row for. Opaque ones, which their library also differentiates, are made in `jax_opaque.py` and
`torch_opaque.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from math import pi, sqrt
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.core.nodes import Expr
from eindiff.core.recent import once
from eindiff.functions.elementwise import exp, power
from eindiff.functions.matrices import inv
from eindiff.functions.multilinear import einsum

Derivative = Callable[..., Expr]
Constructor = Callable[..., Expr]

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
        from eindiff.program.backends import library_of

        library = library_of(args)
        if library == "jax" and len(args) > 1:
            jnp = import_module("jax.numpy")
            args = tuple(x.astype(jnp.result_type(*args)) for x in jnp.broadcast_arrays(*args))
        with np.errstate(all="ignore"):
            result = _named(paths.get(library, paths["numpy"]))(*args)
        return result if part is None else result[part]

    REGISTRY[name] = value
    return value


def _elementwise(numpy: str, jax: str, torch: str, *derivatives: Derivative | None) -> Constructor:
    """A function of scalars that is applied along all axes, by its names in the libraries."""
    name = numpy.rpartition(".")[2]

    @once
    def made() -> Function:
        value = _registered(f"library_{name}", {"numpy": numpy, "jax": jax, "torch": torch})
        return Function(
            f"library_{name}", value, derivatives, core=(0,) * len(derivatives), output=lambda *_: (),
            flops=lambda *_: 10.0, latex=rf"\operatorname{{{name.replace('_', '')}}}",
        )  # fmt: skip

    return lambda *args: construct.apply(made(), args)


def _squared(x: Expr) -> Expr:
    return x * x


def torch_polygamma(order: Any, x: Any) -> Any:
    """As in PyTorch, which wants the order as an integer."""
    import torch

    return torch.special.polygamma(int(torch.as_tensor(order).reshape(-1)[0]), x)


floor = _elementwise("numpy.floor", "jax.lax.floor", "torch.floor", None)
ceil = _elementwise("numpy.ceil", "jax.lax.ceil", "torch.ceil", None)
round_to_even = _elementwise("numpy.round", "jax.numpy.round", "torch.round", None)
trunc = _elementwise("numpy.trunc", "jax.numpy.trunc", "torch.trunc", None)
asinh = _elementwise("numpy.arcsinh", "jax.lax.asinh", "torch.asinh", lambda x: power(1 + _squared(x), Fraction(-1, 2)))
acosh = _elementwise("numpy.arccosh", "jax.lax.acosh", "torch.acosh", lambda x: power(_squared(x) - 1, Fraction(-1, 2)))
atanh = _elementwise("numpy.arctanh", "jax.lax.atanh", "torch.atanh", lambda x: power(1 - _squared(x), -1))
cbrt: Constructor = _elementwise("numpy.cbrt", "jax.lax.cbrt", "", lambda x: power(_squared(cbrt(x)), -1) / 3)
erfc = _elementwise("scipy.special.erfc", "jax.lax.erfc", "torch.erfc", lambda x: -2 / sqrt(pi) * exp(-_squared(x)))
erf_inv: Constructor = _elementwise(
    "scipy.special.erfinv", "jax.lax.erf_inv", "torch.erfinv", lambda x: sqrt(pi) / 2 * exp(_squared(erf_inv(x)))
)
log_ndtr: Constructor = _elementwise(
    "scipy.special.log_ndtr", "jax.scipy.special.log_ndtr", "torch.special.log_ndtr",
    lambda x: exp(-_squared(x) / 2 - log_ndtr(x)) / sqrt(2 * pi),
)  # fmt: skip
lgamma = _elementwise("scipy.special.gammaln", "jax.lax.lgamma", "torch.lgamma", lambda x: digamma(x))
digamma: Constructor = _elementwise(
    "scipy.special.digamma", "jax.lax.digamma", "torch.digamma", lambda x: polygamma(construct.filled(1, x.shape), x)
)
polygamma: Constructor = _elementwise(
    "scipy.special.polygamma", "jax.lax.polygamma", f"{__name__}.torch_polygamma",
    None, lambda n, x: polygamma(n + 1, x),
)  # fmt: skip
atan2 = _elementwise(
    "numpy.arctan2", "jax.lax.atan2", "torch.atan2",
    lambda y, x: x * power(_squared(x) + _squared(y), -1), lambda y, x: -y * power(_squared(x) + _squared(y), -1),
)  # fmt: skip


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
