"""Loops: short ones are written out, sums and delays become arrays over all turns, all others are left to JAX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eindiff.core.nodes import Expr
from eindiff.functions.indexing import stack
from eindiff.tracing.jax.constants import folded
from eindiff.tracing.jax.jaxpr import Trace, TracedEquation, Value
from eindiff.tracing.jax.parallel import Carried, carried, is_parallel, opened, scan_counts
from eindiff.tracing.jax.recurrences import is_lifted, lifted, turns
from eindiff.tracing.jax.refusals import equations
from eindiff.tracing.unsupported import Unsupported

MOST_STEPS = 8  # of a loop that are written out, if its turns need each other
MOST_IN_LOOP = 330  # of all steps of a loop together
MOST_UNROLLED = 20  # of a loop that counts


def is_long(eqn: Any, moves: Sequence[bool]) -> bool:
    """Whether a loop is too long to be written out, and one of its turns needs the one before.

    `moves` tells which of its arguments depend on variables.
    """
    return _is_long(eqn) and not is_parallel(eqn, moves)


def _is_long(eqn: Any) -> bool:
    length, body = eqn.params["length"], eqn.params["jaxpr"]
    return length > MOST_STEPS or length * equations(getattr(body, "jaxpr", body)) > MOST_IN_LOOP


def scan(step: TracedEquation, *args: Value) -> list[Value]:
    """A loop of a known number of steps, written out; a long one is left to JAX."""
    step = replace(step, eqn=opened(step.eqn))
    length, body = step.params["length"], step.params["jaxpr"]
    first, count = scan_counts(step.eqn)
    constants, carry, sequences = args[:first], list(args[first : first + count]), args[first + count :]
    found = carried(step.eqn, [step.trace.depends(x) for x in args]) if length > 1 else Carried()
    if length > 1 and not found.states and (not found.steady or _is_split(step, args)):
        return turns(step, args, found)
    if _is_long(step.eqn):
        results = lifted(step, args, found) if is_lifted(step, args, found) else None
        return _long_loop(step, args) if results is None else results
    order = range(length - 1, -1, -1) if step.params["reverse"] else range(length)
    collected: dict[int, list[Value]] = {}
    for k in order:
        results = step.trace.run_body(body, [*constants, *carry, *(x[k] for x in sequences)])
        carry, collected[k] = results[:count], results[count:]
    columns = zip(*(collected[k] for k in range(length)), strict=True)
    return carry + [_stacked(step.trace, column) for column in columns]


def _is_split(step: TracedEquation, args: tuple[Value, ...]) -> bool:
    """Whether a part of a loop moves with variables, and is no loop given the other part."""
    return _is_long(step.eqn) and step.trace.depends(*args)


def _stacked(trace: Trace, column: tuple[Value, ...]) -> Value:
    if any(isinstance(x, Expr) for x in column):
        return stack([trace.expr(x) for x in column])
    return np.stack(column)


def while_loop(step: TracedEquation, *args: Value) -> list[Value]:
    """A loop whose condition is known at each step, written out."""
    p = step.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    carry = list(args[b:])
    for _ in range(MOST_UNROLLED + 1):
        [going] = step.trace.run_body(p["cond_jaxpr"], [*args[:a], *carry])
        if isinstance(going, Expr):
            try:
                step.trace.known(going)
            except Unsupported:
                step.trace.leave(step.eqn)
                raise step.refused("how often the loop runs depends on values that are not known") from None
        if not going:
            return carry
        carry = step.trace.run_body(p["body_jaxpr"], [*args[a:b], *carry])
    return _long_loop(step, args)


def _long_loop(step: TracedEquation, args: tuple[Value, ...]) -> list[Value]:
    """A loop that is too long to be written out."""
    if not any(isinstance(x, Expr) for x in args):
        return folded(step.eqn, args)
    if step.trace.depends(*args):
        step.trace.leave(step.eqn)
    raise Unsupported
