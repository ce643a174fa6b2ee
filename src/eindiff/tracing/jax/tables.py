"""All primitives of JAX that have a constructor, and the functions of JAX that are known by name."""

from __future__ import annotations

from eindiff.tracing.jax import indexing as jax_indexing
from eindiff.tracing.jax import linalg as jax_linalg
from eindiff.tracing.jax import primitives as jax_primitives
from eindiff.tracing.jax.jaxpr import Handler

TABLE: dict[str, Handler] = {**jax_primitives.TABLE, **jax_indexing.TABLE, **jax_linalg.TABLE}
LIBRARY: dict[str, Handler] = {**jax_primitives.LIBRARY, **jax_linalg.LIBRARY}
