"""All primitives of JAX that have a constructor, and the functions of JAX that are known by name."""

from __future__ import annotations

from eindiff.trace import jax_indexing, jax_linalg, jax_primitives
from eindiff.trace.jaxpr import Handler

TABLE: dict[str, Handler] = {**jax_primitives.TABLE, **jax_indexing.TABLE, **jax_linalg.TABLE}
LIBRARY: dict[str, Handler] = {**jax_primitives.LIBRARY, **jax_linalg.LIBRARY}
