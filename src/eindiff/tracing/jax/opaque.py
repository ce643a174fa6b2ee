"""Opaque functions of JAX programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from eindiff.core import construct
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
    forward: bool = False  # the same forwards


def opaque(
    stem: str, run: Run, signature: Signature, rules: Sequence[Callable[..., Expr | None]] | None = None
) -> Function:
    """A function that JAX computes and differentiates; `rules` give its derivatives as expressions, or None."""
    used = {k for k in _used(run, signature) if is_real(signature.dtype) and is_real(signature.dtypes[k])}
    derivatives = [
        _derivative(stem, run, signature, k, rules[k] if rules else None) if k in used else None
        for k in range(len(signature.dtypes))
    ]
    core = tuple(0 if signature.elementwise else len(shape) for shape in signature.shapes)
    shape = () if signature.elementwise else signature.shape
    has_products = is_real(signature.dtype) and not signature.elementwise
    ways = (None if signature.reverse else _jvp, None if signature.forward else _vjp)
    along, back = (_products(stem, run, signature, rules, way) if has_products and way else None for way in ways)
    return opaque_function(f"{PREFIX}{stem}", _value(_cast(run, signature)), core, shape, derivatives, along, back)


def _cast(run: Run, signature: Signature) -> Run:
    """A function of numbers of one type, which all numbers of a program have; the original gets its own types."""

    def cast(*args: Any) -> Any:
        typed = [jnp.asarray(x).astype(dtype) for x, dtype in zip(args, signature.dtypes, strict=True)]
        result = run(*(jnp.broadcast_arrays(*typed) if signature.elementwise else typed))
        return result if is_real(result.dtype) else result.astype(jnp.result_type(float))

    return cast


def _used(run: Run, signature: Signature) -> set[int]:
    """The arguments that a function depends on: a derivative of a linear one does not depend on all that it is at."""
    if signature.elementwise:
        return set(range(len(signature.shapes)))
    jaxpr = jax.make_jaxpr(run)(*map(jax.ShapeDtypeStruct, signature.shapes, signature.dtypes)).jaxpr
    _, used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return {k for k, is_used in enumerate(used) if is_used}


def _jvp(run: Run, signature: Signature, index: int) -> tuple[Run, Signature]:
    """f' times a direction, which comes first among the arguments."""

    def along(tangent: Any, *args: Any) -> Any:
        return jax.jvp(_by(run, index, args), (args[index],), (tangent,))[1]

    shapes, dtypes = (signature.shapes[index], *signature.shapes), (signature.dtypes[index], *signature.dtypes)
    return along, replace(signature, shapes=shapes, dtypes=dtypes)


def _vjp(run: Run, signature: Signature, index: int) -> tuple[Run, Signature]:
    """A direction times f'."""

    def back(cotangent: Any, *args: Any) -> Any:
        return jax.vjp(_by(run, index, args), args[index])[1](cotangent)[0]

    shapes, dtypes = (signature.shape, *signature.shapes), (signature.dtype, *signature.dtypes)
    own = (signature.shapes[index], signature.dtypes[index])
    return back, replace(signature, shapes=shapes, dtypes=dtypes, shape=own[0], dtype=own[1])


def _by(run: Run, index: int, args: Sequence[Any]) -> Run:
    return lambda x: run(*args[:index], x, *args[index + 1 :])


def _products(
    stem: str, run: Run, signature: Signature, rules: Sequence[Callable[..., Expr | None]] | None, way: Callable
) -> Callable[..., Expr | None]:
    """f' times a direction as an opaque function, made when it is first asked for; None where f' can be read."""

    @cache
    def made(index: int) -> Function:
        return opaque(f"{stem.removesuffix('_product')}_product", *way(run, signature, index))

    def product(index: int, direction: Expr, *args: Expr) -> Expr | None:
        if not is_real(signature.dtypes[index]) or (rules and rules[index](*args) is not None):
            return None
        return construct.apply(made(index), (direction, *args))

    return product


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
        made, given = (prod(map(int, shape)) for shape in (signature.shape, signature.shapes[index]))
        is_wide = 2 * made < given and not signature.forward
        prime = (jax.jacrev if signature.reverse or is_wide else jax.jacfwd)(run, index)
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
