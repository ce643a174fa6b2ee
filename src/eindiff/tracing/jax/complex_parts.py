"""Parts of programs with complex numbers inside and real ones outside, as Fourier transforms are: one equation each."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from eindiff.tracing.jax.numbers import variables_in

NAME = "complex_part"


def joined(eqns: Sequence[Any], results: Sequence[Any], known: Container[Any]) -> Sequence[Any]:
    """Equations with those that compute with complex numbers as one, and what lies between them; known ones are not."""
    open_ones = [eqn for eqn in eqns if not (eqn.outvars and eqn.outvars[0] in known)]
    if not any(map(_is_complex, open_ones)):
        return eqns
    after, before = _reached(open_ones), _reached(open_ones[::-1], back=True)
    inside = [eqn for k, eqn in enumerate(open_ones) if k in after and len(open_ones) - 1 - k in before]
    first = [eqn for k, eqn in enumerate(open_ones) if k not in after]
    last = [eqn for k, eqn in enumerate(open_ones) if k in after and len(open_ones) - 1 - k not in before]
    used = [x for atoms in (results, *[eqn.invars for eqn in last]) for x in variables_in(atoms)]
    return [*first, _together(inside, set(used)), *last]


def is_complex_part(eqn: Any) -> bool:
    """Whether an equation stands for others with complex numbers."""
    return eqn.params.get("name") == NAME


def _is_complex(eqn: Any) -> bool:
    return any(jnp.issubdtype(x.aval.dtype, jnp.complexfloating) for x in (*eqn.invars, *eqn.outvars))


def _reached(eqns: Sequence[Any], back: bool = False) -> set[int]:
    """Equations with complex numbers, and all that come after (before) them in the order of what is made of what."""
    found, seen = set[int](), set[Any]()
    for k, eqn in enumerate(eqns):
        given, made = (eqn.outvars, eqn.invars) if back else (eqn.invars, eqn.outvars)
        if _is_complex(eqn) or not seen.isdisjoint(variables_in(given)):
            found.add(k)
            seen.update(variables_in(made))
    return found


def _together(eqns: Sequence[Any], wanted: set[Any]) -> Any:
    """Equations as one that calls a program of them."""
    made = {x for eqn in eqns for x in eqn.outvars}
    inputs = list(dict.fromkeys(x for eqn in eqns for x in variables_in(eqn.invars) if x not in made))
    outputs = [x for eqn in eqns for x in eqn.outvars if x in wanted]
    inner = jex.Jaxpr((), inputs, outputs, eqns, set(), jex.DebugInfo(NAME, NAME, None, None))
    run = jex.jaxpr_as_fun(jex.ClosedJaxpr(inner, ()))

    def complex_part(*args: Any) -> Any:
        return run(*args)

    avals = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in inputs]
    [call] = jax.make_jaxpr(jax.jit(complex_part))(*avals).jaxpr.eqns
    return call.replace(invars=inputs, outvars=outputs, source_info=eqns[-1].source_info)
