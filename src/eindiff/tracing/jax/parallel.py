"""Loops whose turns need not wait for each other: what they carry are counters, sums, and what was read turns ago.

`total += f(x)` over all rows, `lax.map`, or a loop over neighbours that carries the last row, are programs of whole
arrays: a turn is done for all rows at once, what was carried is a shifted array, and a sum is a sum.

What else is carried are states. Those that no variable moves are computed before, in a loop of their own; given all
others, too, as arrays over all turns, what is left is a program of whole arrays again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

from eindiff.tracing.jax.constants import as_function
from eindiff.tracing.jax.numbers import PLAIN_CALLS, variables_in
from eindiff.tracing.jax.refusals import JAX_SOURCE

ADDITIONS = ("add", "add_any")


def scan_counts(eqn: Any) -> tuple[int, int]:
    """How many constants and how many carried values a loop has, in this order among its arguments."""
    inner = _body(eqn)
    count = sum(x.aval.ndim == y.aval.ndim for x, y in zip(eqn.outvars, inner.outvars, strict=True))
    sequences = sum(x.aval.ndim > y.aval.ndim for x, y in zip(eqn.invars, inner.invars, strict=True))
    return len(eqn.invars) - sequences - count, count


def opened(eqn: Any) -> Any:
    """A loop whose turns call no functions of the user, but do what these do."""
    body = _body(eqn)
    if not any(map(_is_call, body.eqns)):
        return eqn
    avals = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype, weak_type=x.aval.weak_type) for x in body.invars]
    consts = getattr(eqn.params["jaxpr"], "consts", ())
    closed = jax.make_jaxpr(lambda *args: _called(body, consts, args))(*avals)
    return eqn.replace(params={**eqn.params, "jaxpr": closed})


def _is_call(eqn: Any) -> bool:
    """Whether an equation calls a function that is none of JAX's own, which are known by name."""
    inner = eqn.params.get(PLAIN_CALLS.get(eqn.primitive.name, ""))
    info = inner.jaxpr.debug_info if isinstance(inner, jex.ClosedJaxpr) else None
    return info is not None and not (info.func_filename or "").startswith(JAX_SOURCE)


def _called(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The results of a program, with those of programs that it calls in the place of calls."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(x: Any) -> Any:
        return jnp.asarray(x.val, x.aval.dtype) if isinstance(x, jex.Literal) else values[x]

    for eqn in jaxpr.eqns:
        given, inner = [read(x) for x in eqn.invars], eqn.params.get(PLAIN_CALLS.get(eqn.primitive.name, ""))
        is_call = inner is not None and _is_call(eqn)
        results = _called(inner.jaxpr, inner.consts, given) if is_call else as_function(eqn)(*given)
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


@dataclass(slots=True)
class Carried:
    """What a loop carries, by place."""

    counters: dict[int, Any] = field(default_factory=dict)  # and by how much they change in each turn
    sums: set[int] = field(default_factory=set)
    delays: list[list[int]] = field(default_factory=list)  # in levels, each made of what those before it know
    steady: list[int] = field(default_factory=list)  # states that no variable moves
    states: list[int] = field(default_factory=list)


def is_parallel(eqn: Any, moves: Sequence[bool] | None = None) -> bool:
    """Whether the turns of a loop can be computed at once; `moves` tells which arguments depend on variables."""
    return not carried(eqn, moves).states


def carried(eqn: Any, moves: Sequence[bool] | None = None) -> Carried:
    """What a loop carries."""
    (constants, count), body = scan_counts(eqn), _body(eqn)
    inputs, results = body.invars[constants : constants + count], body.outvars[:count]
    needs = _needs(body, inputs)
    found = Carried(*_counters_and_sums(body, inputs, results, needs))
    moving = _moving(body, constants, count, moves)
    known, rest = set(found.counters), [k for k in range(count) if k not in found.counters and k not in found.sums]
    while rest:
        level = [k for k in rest if needs(results[k]) <= known]
        if level:
            found.delays.append(level)
        else:
            level = [k for k in rest if k in _reached(k, lambda j: needs(results[j]) - known)]
            found.states += [k for k in level if moving[k]]
            found.steady += [k for k in level if not moving[k]]
        known.update(level)
        rest = [k for k in rest if k not in level]
    return found


def _counters_and_sums(
    body: Any, inputs: Sequence[Any], results: Sequence[Any], needs: Callable[[Any], set[int]]
) -> tuple[dict[int, Any], set[int]]:
    """The places of what changes by a number in each turn, with it, and of sums that nothing but themselves reads."""
    terms = [_term(body, x, y) for x, y in zip(inputs, results, strict=True)]
    counters, sums = dict[int, Any](), set[int]()
    for k, x in enumerate(inputs):
        if results[k] is x:
            counters[k] = 0
        elif isinstance(terms[k], jex.Literal):
            counters[k] = terms[k].val
        elif terms[k] is not None and _uses(body, x) == 1:
            sums.add(k)
    totals = [results[k] for k in sums]
    others = [x for x in body.outvars if x not in totals] + [terms[k] for k in sums]
    return counters, sums.difference(*map(needs, others))


def at_once(eqn: Any, found: Carried) -> Callable[..., list[Any]]:
    """A loop as a function of its arguments, without a loop; after these come its states after each turn, steady last.

    It gives by how much the states of a turn differ from these as well, after its own results.
    """
    return lambda *args: _AtOnce(eqn, found, args).results()


class _AtOnce:
    """The turns of a loop for some arguments, as whole arrays."""

    def __init__(self, eqn: Any, found: Carried, args: Sequence[Any]) -> None:
        self._eqn, self._found, self._body, self._length = eqn, found, _body(eqn), eqn.params["length"]
        (constants, self._count), own = scan_counts(eqn), len(eqn.invars)
        self._order = slice(None, None, -1) if eqn.params["reverse"] else slice(None)
        self._fixed, self._first = args[:constants], args[constants : constants + self._count]
        self._rows = [x[self._order] for x in args[constants + self._count : own]]
        given = [x[self._order] for x in args[own:]]
        self._moved, self._names = given[: len(found.states)], [self._body.outvars[k] for k in found.states]
        self._before, self._last = dict[int, Any](), dict[int, Any]()
        for k, step in found.counters.items():
            self._count_up(k, step)
        for k, x in zip([*found.states, *found.steady], given, strict=True):
            self._follow(k, x)

    def _count_up(self, k: int, step: Any) -> None:
        first, steps = self._first[k], jnp.arange(self._length) * step
        self._before[k] = first + steps.reshape((-1,) + (1,) * first.ndim).astype(first.dtype)
        self._last[k] = first + jnp.asarray(self._length * step, first.dtype)

    def _follow(self, k: int, after: Any) -> None:
        """Know what is carried before each turn, and at the end, of what it is after each."""
        self._before[k], self._last[k] = jnp.concatenate([self._first[k][None], after[:-1]]), after[-1]

    def results(self) -> list[Any]:
        """What is carried at the end, what is collected, and by how much states differ from those given."""
        for level in self._found.delays:
            after, _ = self._turns()
            for k in level:
                self._follow(k, after[k])
        after, made = self._turns()
        first, sums, collected = self._first, self._found.sums, self._body.outvars[self._count :]
        self._last |= {k: first[k] + jnp.sum(after[k], axis=0) for k in sums}
        kept = [k for k in sums if self._body.outvars[k] in collected]  # in each turn
        totals = {self._body.outvars[k]: first[k] + jnp.cumsum(after[k], axis=0) for k in kept}
        rows = [totals[x] if x in totals else after[self._count + k] for k, x in enumerate(collected)]
        defects = [x - y for x, y in zip(made, self._moved, strict=True)]
        return [*[self._last[k] for k in range(self._count)], *[x[self._order] for x in (*rows, *defects)]]

    def _turns(self) -> tuple[list[Any], list[Any]]:
        """The results of all turns, of what is known so far, with sums of nothing before, and the states they make."""
        sums, before = self._found.sums, self._before
        values = [before.get(k, jnp.zeros_like(x) if k in sums else x) for k, x in enumerate(self._first)]
        axes = [0 if k in before else None for k in range(self._count)]

        def one(new: list[Any], *args: Any) -> tuple[list[Any], list[Any]]:
            known = dict(zip(self._names, new, strict=True))
            return _evaluated(self._eqn, args, lambda x, value: known.get(x, value), self._names)

        places = (0, *[None] * len(self._fixed), *axes, *[0] * len(self._rows))
        turns = jax.vmap(one, places, axis_size=self._length)
        return turns(self._moved, *self._fixed, *values, *self._rows)


def states(eqn: Any, wanted: Sequence[int]) -> Callable[..., list[Any]]:
    """Some of what a loop carries, after each turn, as a function of its arguments and of what is added in each."""
    (constants, count), body = scan_counts(eqn), _body(eqn)
    needed, used = _sources(eqn, wanted), sources(eqn, wanted)
    carry = [k - constants for k in used if constants <= k < constants + count]

    def run(*args: Any) -> list[Any]:
        args, added = args[: len(eqn.invars)], list(args[len(eqn.invars) :])
        moving = [k for k in used if k >= constants]

        def turn(values: Any, row: Any) -> Any:
            full = [*args[:constants], *[None] * (len(args) - constants)]
            for k, x in zip(moving, [*values, *row[0]], strict=True):
                full[k] = x
            more = dict(zip([body.outvars[k] for k in wanted], row[1], strict=bool(added)))
            results, _ = _evaluated(eqn, full, lambda x, value: value + more[x] if x in more else value, (), needed)
            return [results[k] for k in carry], [results[k] for k in wanted]

        first = [jnp.asarray(args[constants + k]) for k in carry]
        rows = ([args[k] for k in moving[len(carry) :]], added)
        return lax.scan(turn, first, rows, length=eqn.params["length"], reverse=eqn.params["reverse"])[1]

    return run


def _body(eqn: Any) -> Any:
    return getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"])


def _evaluated(
    eqn: Any, values: Sequence[Any], change: Callable[[Any, Any], Any], changed: Sequence[Any], needed: Any = None
) -> tuple[list[Any], list[Any]]:
    """The results of a turn, or of a part of it, in which values are changed, and what some of these were."""
    body, made = _body(eqn), dict[Any, Any]()
    found = dict(zip(body.constvars, getattr(eqn.params["jaxpr"], "consts", ()), strict=True))
    found.update(zip(body.invars, values, strict=True))

    def read(x: Any) -> Any:
        return jnp.asarray(x.val, x.aval.dtype) if isinstance(x, jex.Literal) else found.get(x)

    for one in body.eqns:
        if needed is None or not needed.isdisjoint(one.outvars):
            results = as_function(one)(*map(read, one.invars))
            made.update(zip(one.outvars, results, strict=True))
            found.update({x: change(x, value) for x, value in zip(one.outvars, results, strict=True)})
    return [read(x) for x in body.outvars], [made[x] for x in changed]


def have_equations(eqn: Any, places: Sequence[int]) -> bool:
    """Whether what is carried at some places is made in each turn, each by an equation of its own."""
    body = _body(eqn)
    made, results = {x for one in body.eqns for x in one.outvars}, [body.outvars[k] for k in places]
    return made.issuperset(results) and len(set(results)) == len(results)


def _moving(body: Any, constants: int, count: int, moves: Sequence[bool] | None) -> list[bool]:
    """Which of the carried values depend on variables, after all turns."""
    if moves is None:
        return [True] * count
    given = list(moves)
    while True:
        inside = {x for x, is_moving in zip(body.invars, given, strict=True) if is_moving}
        for eqn in body.eqns:
            if any(not isinstance(x, jex.Literal) and x in inside for x in eqn.invars):
                inside.update(x for x in eqn.outvars if jnp.issubdtype(x.aval.dtype, jnp.inexact))
        after = [not isinstance(x, jex.Literal) and x in inside for x in body.outvars[:count]]
        more = [x or y for x, y in zip(given[constants : constants + count], after, strict=True)]
        if more == given[constants : constants + count]:
            return more
        given[constants : constants + count] = more


def sources(eqn: Any, wanted: Sequence[int]) -> list[int]:
    """The arguments of a loop that some of what it carries is made of."""
    needed = _sources(eqn, wanted)
    return [k for k, x in enumerate(_body(eqn).invars) if x in needed]


def _sources(eqn: Any, wanted: Sequence[int]) -> set[Any]:
    """The values of a turn that some carried ones are made of, in this turn and in those before."""
    (constants, count), body = scan_counts(eqn), _body(eqn)
    carried, found = set(wanted), set[Any]()
    while True:
        found = {x for k in carried if not isinstance(x := body.outvars[k], jex.Literal)}
        for eqn in reversed(body.eqns):
            if not found.isdisjoint(eqn.outvars):
                found.update(variables_in(eqn.invars))
        more = carried | {k for k, x in enumerate(body.invars[constants : constants + count]) if x in found}
        if more == carried:
            return found | {body.invars[constants + k] for k in wanted}
        carried = more


def _reached(k: int, step: Callable[[int], set[int]]) -> set[int]:
    """All that can be reached in one step or more."""
    found, new = set[int](), step(k)
    while new:
        found |= new
        new = set().union(*map(step, new)) - found
    return found


def _needs(body: Any, carried: list[Any]) -> Callable[[Any], set[int]]:
    """For a value of a turn the places of the carried ones that it is made of."""
    found: dict[Any, set[int]] = {x: {k} for k, x in enumerate(carried)}

    def needs(x: Any) -> set[int]:
        return set() if isinstance(x, jex.Literal) else found.get(x, set())

    for eqn in body.eqns:
        made = set().union(*map(needs, eqn.invars))
        found.update((y, made) for y in eqn.outvars)
    return needs


def _term(body: Any, before: Any, after: Any) -> Any:
    """What is added to a carried value in a turn; None if it is no sum."""
    names = [before, *_same(body, before)]
    for eqn in body.eqns:
        if after in eqn.outvars and eqn.primitive.name in ADDITIONS:
            others = [x for x in eqn.invars if isinstance(x, jex.Literal) or x not in names]
            is_sum = len(others) == 1 and others[0].aval.shape == before.aval.shape
            return others[0] if is_sum else None
    return None


def _same(body: Any, x: Any) -> list[Any]:
    """Other names of a value: conversions to the type that it has."""
    casts = [eqn for eqn in body.eqns if eqn.primitive.name == "convert_element_type" and eqn.invars[0] is x]
    return [eqn.outvars[0] for eqn in casts if eqn.outvars[0].aval.dtype == x.aval.dtype]


def _uses(body: Any, x: Any) -> int:
    """How often a value is used, under all of its names."""
    same = _same(body, x)
    own = sum(y is x for eqn in body.eqns for y in eqn.invars) + sum(y is x for y in body.outvars)
    return own - len(same) + sum(_uses(body, y) for y in same)
