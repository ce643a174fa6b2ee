"""Loops whose turns need not wait for each other: what they carry are counters, sums, and what was read turns ago.

`total += f(x)` over all rows, `lax.map`, or a loop over neighbours that carries the last row, are programs of whole
arrays: a turn is done for all rows at once, what was carried is a shifted array, and a sum is a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp


def scan_counts(eqn: Any) -> tuple[int, int]:
    """How many constants and how many carried values a loop has, in this order among its arguments."""
    inner = _body(eqn)
    count = sum(x.aval.ndim == y.aval.ndim for x, y in zip(eqn.outvars, inner.outvars, strict=True))
    sequences = sum(x.aval.ndim > y.aval.ndim for x, y in zip(eqn.invars, inner.invars, strict=True))
    return len(eqn.invars) - sequences - count, count


def is_parallel(eqn: Any) -> bool:
    """Whether the turns of a loop can be computed at once."""
    return _carried(eqn) is not None


@dataclass(slots=True)
class _Carried:
    """What a loop carries, by place."""

    counters: dict[int, Any] = field(default_factory=dict)  # and by how much they change in each turn
    sums: set[int] = field(default_factory=set)
    delays: list[list[int]] = field(default_factory=list)  # in levels, each made of what those before it know


def _carried(eqn: Any) -> _Carried | None:
    """What a loop carries, if all of it is known for all turns at once."""
    (constants, count), body = scan_counts(eqn), _body(eqn)
    carried, results = body.invars[constants : constants + count], body.outvars[:count]
    needs, found = _needs(body, carried), _Carried()
    terms = {k: _term(body, x, y) for k, (x, y) in enumerate(zip(carried, results, strict=True))}
    for k, x in enumerate(carried):
        if results[k] is x:
            found.counters[k] = 0
        elif isinstance(terms[k], jex.Literal):
            found.counters[k] = terms[k].val
        elif terms[k] is not None and _uses(body, x) == 1:
            found.sums.add(k)
    known, rest = set(found.counters), [k for k in range(count) if k not in found.counters and k not in found.sums]
    while level := [k for k in rest if needs(results[k]) <= known]:
        found.delays.append(level)
        known.update(level)
        rest = [k for k in rest if k not in level]
    totals = [results[k] for k in found.sums]
    others = [x for x in body.outvars[count:] if x not in totals]
    is_known = not rest and all(needs(x) <= known for x in [*others, *[terms[k] for k in found.sums]])
    return found if is_known else None


def at_once(eqn: Any) -> Callable[..., list[Any]]:
    """A loop that is parallel as a function of its arguments, without a loop."""
    (constants, count), inner, found = scan_counts(eqn), _body(eqn), _carried(eqn)
    length, closed = eqn.params["length"], eqn.params["jaxpr"]
    own = getattr(closed, "consts", ())
    assert found is not None
    order = slice(None, None, -1) if eqn.params["reverse"] else slice(None)

    def run(*args: Any) -> list[Any]:
        fixed, first = args[:constants], args[constants : constants + count]
        rows = [x[order] for x in args[constants + count :]]
        steps = jnp.arange(length)
        before = {
            k: first[k] + (steps * step).reshape((-1,) + (1,) * first[k].ndim).astype(first[k].dtype)
            for k, step in found.counters.items()
        }
        last = {k: first[k] + jnp.asarray(length * step, first[k].dtype) for k, step in found.counters.items()}

        def turn() -> list[Any]:
            given = [before.get(k, jnp.zeros_like(x) if k in found.sums else x) for k, x in enumerate(first)]
            axes = [*[None] * constants, *[0 if k in before else None for k in range(count)], *[0] * len(rows)]
            one = jax.vmap(lambda *values: jax.core.eval_jaxpr(inner, own, *values), axes, axis_size=length)
            return one(*fixed, *given, *rows)

        for level in found.delays:
            results = turn()
            for k in level:
                before[k] = jnp.concatenate([first[k][None], results[k][:-1]])
                last[k] = results[k][-1]
        results = turn()
        last |= {k: first[k] + jnp.sum(results[k], axis=0) for k in found.sums}
        kept = [k for k in found.sums if inner.outvars[k] in inner.outvars[count:]]  # in each turn
        totals = {inner.outvars[k]: first[k] + jnp.cumsum(results[k], axis=0) for k in kept}
        ys = [totals[x] if x in totals else results[count + k] for k, x in enumerate(inner.outvars[count:])]
        return [*[last[k] for k in range(count)], *[y[order] for y in ys]]

    return run


def _body(eqn: Any) -> Any:
    return getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"])


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
        if after in eqn.outvars and eqn.primitive.name in ("add", "add_any"):
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
