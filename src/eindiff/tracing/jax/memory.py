"""How much memory a program of JAX will need: good enough to choose between two programs that compute the same.

Its compiler makes one loop of what works entry by entry. What is stored are inputs and results of all else, from where
they are made until they are last used.
"""

from __future__ import annotations

from typing import Any

import jax.extend.core as jex

from eindiff.tracing.jax.kernels import ENTRYWISE, bytes_of
from eindiff.tracing.jax.numbers import inside, variables_in

JOINED = ENTRYWISE | {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"}


def peak(jaxpr: Any) -> int:
    """The most bytes that are stored at a time, without the inputs."""
    made = {x: k for k, eqn in enumerate(jaxpr.eqns) for x in eqn.outvars}
    stored = {x for eqn in jaxpr.eqns if not is_entrywise(eqn) for x in variables_in((*eqn.outvars, *eqn.invars))}
    stored.update(variables_in(jaxpr.outvars))
    last = {x: k for k, eqn in enumerate(jaxpr.eqns) for x in variables_in(eqn.invars) if x in made}
    last |= {x: len(jaxpr.eqns) for x in variables_in(jaxpr.outvars) if x in made}
    changes = [0] * (len(jaxpr.eqns) + 2)
    for x in stored:
        if x in made:
            changes[made[x]] += bytes_of(x)
            changes[last.get(x, made[x]) + 1] -= bytes_of(x)
    now = most = 0
    for k, change in enumerate(changes):
        now += change
        most = max(most, now + (_inside(jaxpr.eqns[k]) if k < len(jaxpr.eqns) else 0))
    return most


def _inside(eqn: Any) -> int:
    """The most bytes that are stored inside of an equation, apart from its results if it is a call."""
    if is_entrywise(eqn):
        return 0
    program, _ = inside(eqn)
    if program is not None:
        return max(0, peak(getattr(program, "jaxpr", program)) - sum(map(bytes_of, eqn.outvars)))
    return max([0, *map(peak, jex.jaxprs_in_params(eqn.params))])



def is_entrywise(eqn: Any) -> bool:
    """Whether an equation, or all that it calls, is part of a loop over entries."""
    program, _ = inside(eqn)
    if program is not None:
        return all(map(is_entrywise, getattr(program, "jaxpr", program).eqns))
    return eqn.primitive.name in JOINED
