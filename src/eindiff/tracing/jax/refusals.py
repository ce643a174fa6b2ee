"""What JAX programs are made of, and what in them cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.extend.core as jex

from eindiff.core.errors import EindiffError

JAX_SOURCE = str(Path(jax.__file__).parent)

# What cannot be differentiated or must not be done at a time of our choosing, and why.
REFUSED = {
    **dict.fromkeys(
        ("random_bits", "random_seed", "random_wrap", "random_unwrap", "random_fold_in", "random_split", "threefry2x32",
         "random_gamma", "random_clone", "rng_bit_generator", "rng_uniform"),
        "it draws random numbers from a key that is an argument: draw them outside, and give them as an argument",
    ),
    **dict.fromkeys(
        ("debug_callback", "debug_print", "io_callback", "pure_callback", "infeed", "outfeed", "print"),
        "it calls Python or has side effects",
    ),
}  # fmt: skip


class RefusedError(EindiffError):
    """A program that cannot be read, with the reason. JAX itself may still run it."""

    code = "tracing"


class NeedsInputsError(Exception):
    """The values of some inputs are needed while the program is read, for instance because they are indices."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names = frozenset(names)


def primitives(eqn: Any) -> set[str]:
    """All primitives in the programs that an equation calls."""
    found: set[str] = set()
    stack = list(jex.jaxprs_in_params(eqn.params))
    while stack:
        for inner in stack.pop().eqns:
            found.add(inner.primitive.name)
            stack += jex.jaxprs_in_params(inner.params)
    return found


def is_refused(jaxpr: Any) -> bool:
    """Whether there is something in a program that must not be done."""
    inside = (x for eqn in jaxpr.eqns for x in jex.jaxprs_in_params(eqn.params))
    return any(eqn.primitive.name in REFUSED for eqn in jaxpr.eqns) or any(map(is_refused, inside))


def equations(jaxpr: Any) -> int:
    """How many equations a program has, with those of the programs that it calls."""
    return sum(1 + sum(map(equations, jex.jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns)
