"""Derivatives of opaque functions as expressions, where JAX's own rule for them can be read.

A rule is a program that is linear in tangents (or, of a function with only a rule backwards, in cotangents). Its
derivative by these is the Jacobian, in which structure can be seen: that of a function which works entry by entry is
diagonal. Rules that consist of what is opaque itself, as that of a loop, are of no use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax

from eindiff.calculus import derive
from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, topological, variables
from eindiff.core.rebuild import substituted
from eindiff.core.recent import once
from eindiff.tracing.jax.opaque import Run, Signature, is_opaque, zero_tangent
from eindiff.tracing.jax.refusals import NeedsInputsError, equations

MOST_EQUATIONS = 60  # of a rule that is read

if TYPE_CHECKING:
    from eindiff.tracing.jax.jaxpr import Trace


class NotLinearError(EindiffError):
    """A rule that is no derivative."""

    code = "tracing"


def derivatives(trace: Trace, run: Run, signature: Signature) -> list[Callable[..., Expr | None]]:
    """For each argument a function that gives the Jacobian by it as an expression, or None if the rule is not read."""
    return [_derivative(trace, run, signature, k) for k in range(len(signature.shapes))]


def _derivative(trace: Trace, run: Run, signature: Signature, index: int) -> Callable[..., Expr | None]:
    @once
    def rule() -> tuple[list[Variable], Expr] | None:
        return _read(trace, run, signature, index)

    def derivative(*args: Expr) -> Expr | None:
        found = rule()
        if found is None:
            return None
        primals, jacobian = found
        return substituted([jacobian], dict(zip(primals, args, strict=True)))[0]

    return derivative


def _not_linear(what: str) -> NotLinearError:
    return NotLinearError(
        f"a custom rule of this function is not linear in its {what}, so that no Jacobian stands for it, and "
        "derivatives by it depend on the order of the chain rule: use JAX's own grad for this function"
    )


def _read(trace: Trace, run: Run, signature: Signature, index: int) -> tuple[list[Variable], Expr] | None:
    """Variables that stand for the arguments, and the Jacobian by one of them."""
    if signature.reverse:
        along, dtype, linear = signature.shape, signature.dtype, _backwards(run, index)
    else:
        along, dtype, linear = signature.shapes[index], signature.dtypes[index], _forwards(run, index)
    given = [(along, dtype), *zip(signature.shapes, signature.dtypes, strict=True)]
    places = [construct.variable(trace.name("place"), shape) for shape, _ in given]
    inner = replace(trace, free=frozenset(x.name for x in places), stopped={}, made={}, opaque={})
    try:
        closed = jax.make_jaxpr(linear)(*(jax.ShapeDtypeStruct(*one) for one in given))
        if equations(closed.jaxpr) > MOST_EQUATIONS:
            return None
        [found] = inner.run_closed(closed, places)
    except (EindiffError, NeedsInputsError):
        return None
    value = inner.expr(found)
    if inner.stopped or any(is_opaque(x) and places[0] in variables(x) for x in topological([value])):
        return None
    jacobian = derive.jacobian(value, places[0])
    if places[0] in variables(jacobian):
        raise _not_linear("cotangent" if signature.reverse else "tangent")
    return places[1:], _result_first(jacobian, len(along)) if signature.reverse else jacobian


def _forwards(run: Run, index: int) -> Callable[..., Any]:
    def along(tangent: Any, *args: Any) -> Any:
        tangents: list[Any] = [zero_tangent(x) for x in args]
        tangents[index] = tangent
        return jax.jvp(run, args, tuple(tangents))[1]

    return along


def _backwards(run: Run, index: int) -> Callable[..., Any]:
    return lambda cotangent, *args: jax.vjp(run, *args)[1](cotangent)[index]


def _result_first(jacobian: Expr, count: int) -> Expr:
    """The last axes moved to the front."""
    first = jacobian.ndim - count
    return construct.transpose(jacobian, (*range(first, jacobian.ndim), *range(first)))
