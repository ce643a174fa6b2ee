"""Functions that JAX computes: those of the table below, which have closed derivatives, and opaque ones.

An opaque function is a piece of a JAX program that has no constructor. Its value is what JAX gives, and so is its
derivative, which is an opaque function again; so there are derivatives of any order, and never a wrong one.
Programs call both kinds by their names, which `REGISTRY` has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from math import pi, prod, sqrt
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from eindiff import construct
from eindiff.arrays import einsum
from eindiff.expr import Expr
from eindiff.functions import Function, exp, power
from eindiff.matrix_functions import inv
from eindiff.sizes import Shape

Run = Callable[..., Any]  # of JAX arrays, traceable
Elementwise = Callable[..., Expr]

# What programs call by name. A function lives as long as an expression that applies it, or a program that calls it.
REGISTRY: WeakValueDictionary[str, Callable] = WeakValueDictionary()

_numbers = count(1)


def _registered(name: str, run: Run, numpy: Run | None = None) -> Callable:
    """The value of a function: by JAX for its own arrays, else for NumPy's; known to programs by its name."""
    import jax

    compiled = jax.jit(run)

    def value(*args: Any) -> Any:
        if any(isinstance(arg, jax.Array) for arg in args):
            return run(*args)
        if numpy is not None:
            with np.errstate(all="ignore"):
                return numpy(*args)
        with jax.ensure_compile_time_eval():  # these are numbers, also while a program around them is being traced
            return np.asarray(compiled(*args), dtype=float)

    REGISTRY[name] = value
    return value


# Opaque functions


@dataclass(frozen=True, slots=True)
class Signature:
    """Shapes and types of the arguments and of the result of an opaque function.

    An elementwise one takes arguments that broadcast against each other, whatever their shapes.
    """

    shapes: tuple[Shape, ...]
    dtypes: tuple[Any, ...]
    shape: Shape
    dtype: Any
    elementwise: bool = False
    reverse: bool = False  # differentiated backwards, because that is the only rule it has


def opaque(name: str, run: Run, signature: Signature) -> Function:
    """A function that JAX computes and differentiates."""
    name = f"opaque_jax_{name}_{next(_numbers)}"

    def cast(*args: Any) -> Any:
        """Programs have numbers of one type only; here they get the types of the original."""
        import jax.numpy as jnp

        typed = [jnp.asarray(x).astype(dtype) for x, dtype in zip(args, signature.dtypes, strict=True)]
        result = run(*(jnp.broadcast_arrays(*typed) if signature.elementwise else typed))
        return result if _is_real(result.dtype) else result.astype(jnp.result_type(float))

    derivatives = [
        _opaque_derivative(name, run, signature, k) if _is_real(signature.dtype) and _is_real(dtype) else None
        for k, dtype in enumerate(signature.dtypes)
    ]
    core = tuple(0 if signature.elementwise else len(shape) for shape in signature.shapes)
    shape = () if signature.elementwise else signature.shape
    work = 20.0 * prod(int(size) for size in shape)
    return Function(
        name, _registered(name, cast), tuple(derivatives), core=core, output=lambda *_: shape, flops=lambda *_: work,
        latex=rf"\operatorname{{{name.replace('_', ' ')}}}",
    )  # fmt: skip


def _is_real(dtype: Any) -> bool:
    import jax.numpy as jnp

    return bool(jnp.issubdtype(dtype, jnp.floating))


def _opaque_derivative(name: str, run: Run, signature: Signature, index: int) -> Callable[..., Expr]:
    """f' by one argument, made when it is first asked for: the axes of the result first, then those of the argument."""

    @lru_cache(maxsize=1)
    def made() -> Function:
        import jax
        import jax.numpy as jnp

        def slope(*args: Any) -> Any:
            tangents = [jnp.ones_like(x) if k == index else _zero_tangent(x) for k, x in enumerate(args)]
            return jax.jvp(run, args, tuple(tangents))[1]

        by = signature
        prime = slope if by.elementwise else (jax.jacrev if by.reverse else jax.jacfwd)(run, index)
        shape = by.shape if by.elementwise else by.shape + by.shapes[index]
        stem = name.removeprefix("opaque_jax_").rsplit("_", 1)[0].removesuffix("_derivative")
        return opaque(
            f"{stem}_derivative",
            prime,
            Signature(by.shapes, by.dtypes, shape, by.dtype, by.elementwise, by.reverse),
        )

    return lambda *args: construct.apply(made(), args)


def _zero_tangent(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return jnp.zeros_like(x) if _is_real(x.dtype) else np.zeros(x.shape, jax.dtypes.float0)


# Functions with closed derivatives whose values no row of the table of functions has


def _special(name: str) -> Run:
    def value(*args: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*args)

    return value


def _elementwise(
    name: str, numpy: Run, *derivatives: Callable[..., Expr] | None, run: Run | None = None
) -> Elementwise:
    """An elementwise function as a function of scalars that is applied along all axes; by default that of `jax.lax`."""
    arity = len(derivatives)

    @lru_cache(maxsize=1)
    def made() -> Function:
        return Function(
            f"jax_{name}", _registered(f"jax_{name}", run or _from_lax(name), numpy), derivatives, core=(0,) * arity,
            output=lambda *_: (), flops=lambda *_: 10.0, latex=rf"\operatorname{{{name.replace('_', '')}}}",
        )  # fmt: skip

    return lambda *args: construct.apply(made(), args)


def _from_lax(name: str) -> Run:
    def run(*args: Any) -> Any:
        import jax

        return getattr(jax.lax, name)(*jax.numpy.broadcast_arrays(*args))

    return run


def _from_numpy(name: str) -> Run:
    def run(*args: Any) -> Any:
        import jax

        return getattr(jax.numpy, name)(*args)

    return run


def _squared(x: Expr) -> Expr:
    return x * x


asinh = _elementwise("asinh", np.arcsinh, lambda x: power(1 + _squared(x), Fraction(-1, 2)))
acosh = _elementwise("acosh", np.arccosh, lambda x: power(_squared(x) - 1, Fraction(-1, 2)))
atanh = _elementwise("atanh", np.arctanh, lambda x: power(1 - _squared(x), -1))
cbrt: Elementwise = _elementwise("cbrt", np.cbrt, lambda x: power(_squared(cbrt(x)), -1) / 3)
erfc = _elementwise("erfc", _special("erfc"), lambda x: -2 / sqrt(pi) * exp(-_squared(x)))
erf_inv: Elementwise = _elementwise("erf_inv", _special("erfinv"), lambda x: sqrt(pi) / 2 * exp(_squared(erf_inv(x))))
lgamma = _elementwise("lgamma", _special("gammaln"), lambda x: digamma(x))
digamma: Elementwise = _elementwise(
    "digamma", _special("digamma"), lambda x: polygamma(construct.filled(1, x.shape), x)
)
polygamma: Elementwise = _elementwise("polygamma", _special("polygamma"), None, lambda n, x: polygamma(n + 1, x))
floor = _elementwise("floor", np.floor, None)
ceil = _elementwise("ceil", np.ceil, None)
round_to_even = _elementwise("round", np.round, None, run=_from_numpy("round"))
trunc = _elementwise("trunc", np.trunc, None, run=_from_numpy("trunc"))
atan2 = _elementwise(
    "atan2",
    np.arctan2,
    lambda y, x: x * power(_squared(x) + _squared(y), -1),
    lambda y, x: -y * power(_squared(x) + _squared(y), -1),
)


def _of_matrices(name: str, numpy: Run, run: Run, derivative: Callable[[Expr], Expr] | None) -> Callable[[Expr], Expr]:
    """A number for each matrix."""

    @lru_cache(maxsize=1)
    def made() -> Function:
        return Function(
            f"jax_{name}", _registered(f"jax_{name}", run, numpy), (derivative,), core=(2,), output=lambda _: (),
            flops=lambda n, _: 2 * n**3 / 3, latex=rf"\operatorname{{{name}}}",
        )  # fmt: skip

    return lambda a: construct.apply(made(), (a,))


def _slogdet(a: Any) -> Any:
    import jax.numpy as jnp

    return jnp.linalg.slogdet(a)


sign_of_det = _of_matrices("signdet", lambda a: np.linalg.slogdet(a)[0], lambda a: _slogdet(a)[0], None)
log_of_abs_det = _of_matrices(
    "logabsdet",
    lambda a: np.linalg.slogdet(a)[1],
    lambda a: _slogdet(a)[1],
    lambda a: einsum("...lk->...kl", inv(a)),
)
