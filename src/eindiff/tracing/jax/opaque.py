"""Opaque functions of JAX programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from eindiff.core.function import Function
from eindiff.core.nodes import Apply, Expr
from eindiff.core.sizes import Shape
from eindiff.tracing.opaque import made_later, opaque_function

Run = Callable[..., Any]  # of JAX arrays, traceable

PREFIX = "opaque_jax_"


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


def opaque(
    stem: str, run: Run, signature: Signature, rules: Sequence[Callable[..., Expr | None]] | None = None
) -> Function:
    """A function that JAX computes and differentiates; `rules` give its derivatives as expressions, or None."""
    def cast(*args: Any) -> Any:
        """Programs have numbers of one type only; here they get the types of the original."""
        typed = [jnp.asarray(x).astype(dtype) for x, dtype in zip(args, signature.dtypes, strict=True)]
        result = run(*(jnp.broadcast_arrays(*typed) if signature.elementwise else typed))
        return result if is_real(result.dtype) else result.astype(jnp.result_type(float))

    derivatives = [
        _derivative(stem, run, signature, k, rules[k] if rules else None)
        if is_real(signature.dtype) and is_real(dtype)
        else None
        for k, dtype in enumerate(signature.dtypes)
    ]
    core = tuple(0 if signature.elementwise else len(shape) for shape in signature.shapes)
    shape = () if signature.elementwise else signature.shape
    return opaque_function(f"{PREFIX}{stem}", _value(cast), core, shape, derivatives)


def _value(run: Run) -> Callable:
    """The value of a function: JAX's own arrays for such, else those of NumPy."""
    compiled = jax.jit(run)

    def value(*args: Any) -> Any:
        if any(isinstance(arg, jax.Array) for arg in args):
            return run(*args)
        with jax.ensure_compile_time_eval():  # these are numbers, also while a program around them is being traced
            return np.array(compiled(*args), dtype=float)  # programs may change it

    return value


def is_opaque(node: Expr) -> TypeGuard[Apply]:
    """Whether a node is an opaque function of others."""
    return isinstance(node, Apply) and node.function.name.startswith(PREFIX)


def is_opaque_derivative(node: Expr) -> bool:
    """Whether a node is the Jacobian of an opaque function, of any order."""
    return is_opaque(node) and "_derivative_" in node.function.name


def is_real(dtype: Any) -> bool:
    """Whether a type is one of numbers that are no integers."""
    return bool(jnp.issubdtype(dtype, jnp.floating))


def _derivative(
    stem: str, run: Run, signature: Signature, index: int, rule: Callable[..., Expr | None] | None
) -> Callable[..., Expr]:
    """f' by one argument, made when it is first asked for: the axes of the result first, then those of the argument."""

    def made() -> Function:
        name = f"{stem.removesuffix('_derivative')}_derivative"
        if signature.elementwise:
            return opaque(name, slope, signature)
        prime = (jax.jacrev if signature.reverse else jax.jacfwd)(run, index)
        return opaque(name, prime, replace(signature, shape=signature.shape + signature.shapes[index]))

    def slope(*args: Any) -> Any:
        tangents = [jnp.ones_like(x) if k == index else zero_tangent(x) for k, x in enumerate(args)]
        return jax.jvp(run, args, tuple(tangents))[1]

    later = made_later(made)

    def derivative(*args: Expr) -> Expr:
        found = rule(*args) if rule and not signature.elementwise else None
        return later(*args) if found is None else found

    return derivative


def zero_tangent(x: Any) -> Any:
    """No change of an argument."""
    return jnp.zeros_like(x) if is_real(x.dtype) else np.zeros(x.shape, jax.dtypes.float0)
