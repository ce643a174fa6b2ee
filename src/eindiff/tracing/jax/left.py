"""How much of a program would be left to JAX: long loops, choices that depend on values, and complex numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax.extend.core as jex
import jax.numpy as jnp

from eindiff.planning.tuning import OPERATION
from eindiff.tracing.jax.kernels import FREE
from eindiff.tracing.jax.loops import is_long
from eindiff.tracing.jax.numbers import variables_in
from eindiff.tracing.jax.parallel import carried, opened, scan_counts
from eindiff.tracing.jax.predicted import UNKNOWN_TURNS
from eindiff.tracing.jax.refusals import equations, is_refused

SHARE_LEFT = 0.2  # of a program that is left, from which on all of it is
EACH_EQUATION = 16.0  # what an equation takes whatever it computes, in numbers
SWEEPS = 3.0  # numbers for each that moves: in its own direction, that of its gradient, and their product


def left(closed: Any, free: Sequence[bool]) -> list[Any]:
    """The equations for which JAX had better differentiate all of a program by some of its inputs."""
    found = _Shares()
    found.run(closed.jaxpr, list(free), 1.0)
    is_better = found.is_complex or found.left > SHARE_LEFT * found.total
    return found.equations if is_better and not is_refused(closed.jaxpr) else []


def recurrent(jaxpr: Any, free: Sequence[bool]) -> float:
    """How many equations need turns before, in all turns of loops, by some inputs of a program."""
    found = _Shares()
    found.run(jaxpr, list(free), 1.0)
    return found.recurrent


def along(jaxpr: Any, free: Sequence[bool]) -> float:
    """The seconds that JAX's second derivative of a program takes at least for each direction of some inputs."""
    found = _Shares()
    found.run(jaxpr, list(free), 1.0)
    return found.moved * OPERATION["arithmetic"]


def runs_forward_only(jaxpr: jex.Jaxpr) -> bool:
    """Whether a program has a loop that JAX can differentiate in forward mode only."""
    own = any(eqn.primitive.name == "while" for eqn in jaxpr.eqns)
    return own or any(map(runs_forward_only, jex.subjaxprs(jaxpr)))


@dataclass(slots=True)
class _Shares:
    """What the equations that depend on variables compute, in numbers, and how much of it has no closed form."""

    total: float = 0.0
    left: float = 0.0
    recurrent: float = 0.0  # equations, in all turns of loops
    moved: float = 0.0  # numbers for each direction in which variables move
    equations: list[Any] = field(default_factory=list)  # those that have none
    is_complex: bool = False

    def run(self, jaxpr: Any, depends: list[bool], turns: float, is_left: bool = False) -> list[bool]:
        """Add a program up, and tell which of its results depend on variables."""
        moving = {x for x, is_free in zip(jaxpr.invars, depends, strict=True) if is_free}
        for eqn in jaxpr.eqns:
            given = [not isinstance(x, jex.Literal) and x in moving for x in eqn.invars]
            if any(given):
                results = self.step(eqn, given, turns, is_left)
                moving.update(x for x, is_free in zip(eqn.outvars, results, strict=True) if is_free)
        return [not isinstance(x, jex.Literal) and x in moving for x in jaxpr.outvars]

    def step(self, eqn: Any, given: list[bool], turns: float, is_left: bool) -> list[bool]:
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            return self.scan(eqn, given, turns, is_left)
        if name == "while":
            a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
            carry = self.settled(params["body_jaxpr"].jaxpr, given[a:b], given[b:])
            decides = self.trial(params["cond_jaxpr"].jaxpr, [*given[:a], *carry])[0]
            self.note(eqn, decides, is_left)
            self.run(params["body_jaxpr"].jaxpr, [*given[a:b], *carry], UNKNOWN_TURNS * turns, is_left or decides)
            return carry
        if name == "cond":
            self.note(eqn, given[0], is_left)
            results = [self.run(x.jaxpr, given[1:], turns, is_left or given[0]) for x in params["branches"]]
            return [any(x) for x in zip(*results, strict=True)]
        inner = list(jex.jaxprs_in_params(params))
        if len(inner) == 1 and len(inner[0].invars) == len(given):
            return self.run(inner[0], given, turns, is_left)
        is_complex = any(jnp.issubdtype(x.aval.dtype, jnp.complexfloating) for x in eqn.outvars)
        self.note(eqn, is_complex, self.is_complex)
        self.is_complex |= is_complex
        work = turns * (EACH_EQUATION + _work(eqn))
        self.total += work
        if name not in FREE:
            self.moved += turns * _work(eqn) * (1.0 if name == "dot_general" else SWEEPS)
        self.left += work * is_left
        return [jnp.issubdtype(x.aval.dtype, jnp.inexact) for x in eqn.outvars]

    def scan(self, eqn: Any, given: list[bool], turns: float, is_left: bool) -> list[bool]:
        eqn = opened(eqn)
        constants, count = scan_counts(eqn)
        body, length = getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"]), eqn.params["length"]
        first, last = given[:constants], given[constants + count :]
        carry = self.settled(body, first, given[constants : constants + count], last)
        is_lost = is_long(eqn, given)
        self.recurrent += length * turns * _after(body, [constants + k for k in carried(eqn, given).states])
        self.note(eqn, is_lost, is_left)
        return self.run(body, [*first, *carry, *last], length * turns, is_left or is_lost)

    def note(self, eqn: Any, has_no_form: bool, is_known: bool) -> None:
        """Remember an equation without a closed form that is in no other one."""
        if has_no_form and not is_known:
            self.equations.append(eqn)

    def settled(self, body: Any, first: list[bool], carry: list[bool], last: Iterable[bool] = ()) -> list[bool]:
        """What is carried through a loop that depends on variables after all turns of it."""
        while True:
            results = self.trial(body, [*first, *carry, *last])[: len(carry)]
            more = [x or y for x, y in zip(carry, results, strict=True)]
            if more == carry:
                return carry
            carry = more

    def trial(self, jaxpr: Any, depends: list[bool]) -> list[bool]:
        return _Shares().run(jaxpr, depends, 1.0)


def _after(body: Any, states: Sequence[int]) -> int:
    """How many equations of a turn need what turns before have left in some inputs; a row that is stored is one."""
    moving = {body.invars[k] for k in states}
    count = 0
    for eqn in body.eqns:
        if not moving.isdisjoint(variables_in(eqn.invars)):
            moving.update(eqn.outvars)
            count += 1 + sum(map(equations, jex.jaxprs_in_params(eqn.params)))
    return count


def _work(eqn: Any) -> float:
    """The numbers that an equation computes, those of a product for each of its terms."""
    own = float(sum(prod(x.aval.shape) for x in eqn.outvars))
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return own * max(1, prod(eqn.invars[0].aval.shape[k] for k in contracted) // 4)
    return own
