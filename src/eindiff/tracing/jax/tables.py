"""All primitives of JAX that have a constructor, and the functions of JAX that are known by name."""

from __future__ import annotations

from eindiff.core.function import Function
from eindiff.functions.table import NAMES, Vocabulary
from eindiff.tracing.jax import indexing as jax_indexing
from eindiff.tracing.jax import linalg as jax_linalg
from eindiff.tracing.jax import primitives as jax_primitives
from eindiff.tracing.jax.jaxpr import Handler


def _by_row(function: Function) -> Handler | None:
    return None if function.public is None else jax_primitives.elementwise(function.public)


TABLE: Vocabulary[Handler] = Vocabulary(
    {**jax_primitives.TABLE, **jax_indexing.TABLE, **jax_linalg.TABLE}, NAMES["jax"], _by_row
)
LIBRARY: Vocabulary[Handler] = Vocabulary({**jax_primitives.LIBRARY, **jax_linalg.LIBRARY}, NAMES["jax.nn"], _by_row)
