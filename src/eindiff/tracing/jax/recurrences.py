"""Long loops by what is read in their turns: states become variables, and a turn is a constraint on them.

The Hessian of a function of a recurrence by its inputs is dense, but it is that of a Lagrangian with states and
multipliers eliminated (`structure/eliminated.py`), in which turns are coupled to the next one only. States and
multipliers are what JAX computes by the loop, forwards and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from eindiff.core import construct
from eindiff.core.nodes import Expr
from eindiff.tracing.jax.constants import as_function
from eindiff.tracing.jax.jaxpr import ELEMENTWISE, TracedEquation, Value
from eindiff.tracing.jax.opaque import Signature, is_real, opaque
from eindiff.tracing.jax.parallel import Carried, at_once, have_equations, scan_counts, sources, states
from eindiff.tracing.library import Recurrence


def is_lifted(step: TracedEquation, args: Sequence[Value], found: Carried) -> bool:
    """Whether the states of a loop become variables: where variables are read in its turns, one part in each."""
    if not step.trace.lifts or not have_equations(step.eqn, found.states):
        return False
    constants, count = scan_counts(step.eqn)
    length = step.params["length"]
    tables = [x for x in args[:constants] if isinstance(x, Expr) and length <= max(x.shape, default=0)]
    is_smooth = all(is_real(step.avals[constants + k].dtype) for k in found.states)
    return is_smooth and step.trace.depends(*tables, *args[constants + count :]) and not _is_low_rank(step, args)


def _is_low_rank(step: TracedEquation, args: Sequence[Value]) -> bool:
    """Whether a loop makes few numbers of many, all in a linear way: second derivatives have the rank of these."""
    free = [k for k, x in enumerate(args) if step.trace.depends(x) and is_real(step.avals[k].dtype)]
    entries, results = (sum(prod(x.shape) for x in found) for found in (
        [step.avals[k] for k in free], [x.aval for x in step.eqn.outvars if is_real(x.aval.dtype)]
    ))  # fmt: skip
    if 2 * results > entries:
        return False
    run = as_function(step.eqn)

    def along(tangents: Sequence[Any], values: Sequence[Any]) -> Any:
        def by(*given: Any) -> Any:
            return run(*_filled(dict(enumerate(values)), free, given))

        return [x for x in jax.jvp(by, [values[k] for k in free], tangents)[1] if x.dtype != jax.dtypes.float0]

    avals = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in step.avals]
    jaxpr = jax.make_jaxpr(along)([avals[k] for k in free], avals).jaxpr
    used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1][len(free) :]
    return not any(used[k] for k in free)


def steady(step: TracedEquation, args: Sequence[Value], found: Carried) -> list[Value]:
    """The states of a loop that no variable moves, after each turn, computed by JAX."""
    if not found.steady:
        return []
    run = _Loop(step, args, found.steady)
    if not run.moving:
        with jax.ensure_compile_time_eval():
            return [np.asarray(x) for x in run.states()]
    return [step.trace.stop(run.opaque("states", run.states, k)) for k in range(len(found.steady))]


def lifted(step: TracedEquation, args: Sequence[Value], found: Carried) -> list[Value] | None:
    """The results of a loop as expressions of its arguments and of its states; None if a turn has no closed form."""
    trace, run = step.trace, _Loop(step, args, found.states)
    values = [run.opaque("states", run.states, k) for k in range(len(run.types))]
    variables = [construct.variable(trace.name("state"), shape) for shape, _ in run.types]
    multipliers = [construct.variable(trace.name("multiplier"), shape) for shape, _ in run.types]
    before = trace.stopped, trace.free, trace.opaque
    trace.stopped, trace.opaque = trace.stopped | dict(zip(variables, values, strict=True)), dict(trace.opaque)
    trace.free |= {x.name for x in variables}
    results = turns(step, args, found, variables)
    if not ELEMENTWISE.issuperset(trace.opaque.keys() - before[2].keys()):
        trace.stopped, trace.free, trace.opaque = before
        return None

    def adjoint(slopes: Sequence[Expr]) -> list[Expr]:
        return [run.opaque("multipliers", run.multipliers, k, slopes) for k in range(len(run.types))]

    count = len(results) - len(variables)
    defects = [trace.expr(x) for x in results[count:]]
    trace.recurrences.append(Recurrence(variables, multipliers, defects, adjoint))
    return results[:count]


def turns(step: TracedEquation, args: Sequence[Value], found: Carried, given: Sequence[Value] = ()) -> list[Value]:
    """All turns of a loop as one program of arrays, where its states are given."""
    more, length = [*given, *steady(step, args, found)], step.params["length"]
    first = [step.avals[scan_counts(step.eqn)[0] + k] for k in (*found.states, *found.steady)]
    avals = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in step.avals]
    avals += [jax.ShapeDtypeStruct((length, *x.shape), x.dtype) for x in first]
    return step.trace.run_closed(jax.make_jaxpr(at_once(step.eqn, found))(*avals), [*args, *more])


class _Loop:
    """Some of what a loop carries as functions of those arguments that are not known."""

    def __init__(self, step: TracedEquation, args: Sequence[Value], wanted: Sequence[int]) -> None:
        length, first = step.params["length"], scan_counts(step.eqn)[0]
        self.types = [((length, *map(int, x.shape)), x.dtype) for x in (step.avals[first + k] for k in wanted)]
        used = sources(step.eqn, wanted)
        self.moving = [k for k in used if isinstance(args[k], Expr | jax.core.Tracer)]
        self._inputs = [step.trace.expr(args[k]) for k in self.moving]
        self._given = [(tuple(map(int, x.shape)), x.dtype) for x in (step.avals[k] for k in self.moving)]
        self._fixed = dict.fromkeys(range(len(args))) | {k: args[k] for k in used if k not in self.moving}
        self._run = states(step.eqn, wanted)

    def states(self, *values: Any) -> Sequence[Any]:
        """After each turn."""
        return self._run(*_filled(self._fixed, self.moving, values))

    def multipliers(self, *values: Any) -> Sequence[Any]:
        """What changes of the states are worth, by what they are worth where they are used, which comes first."""
        slopes, given = values[: len(self.types)], values[len(self.types) :]
        args = _filled(self._fixed, self.moving, given)
        zeros = [jnp.zeros(*one) for one in self.types]
        return jax.vjp(lambda *added: self._run(*args, *added), *zeros)[1](list(slopes))

    def opaque(self, stem: str, run: Callable[..., Any], index: int, more: Sequence[Expr] = ()) -> Expr:
        """One of the results as an expression."""
        given = [*(self.types if more else ()), *self._given]
        signature = Signature(tuple(x for x, _ in given), tuple(x for _, x in given), *self.types[index])
        return construct.apply(opaque(stem, lambda *values: run(*values)[index], signature), [*more, *self._inputs])


def _filled(fixed: dict[int, Any], places: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """All arguments."""
    full = fixed | dict(zip(places, values, strict=True))
    return [full[k] for k in range(len(full))]
