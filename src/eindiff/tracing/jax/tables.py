"""All primitives of JAX that have a constructor, and the functions of JAX that are known by name."""

from __future__ import annotations

from eindiff.core.function import Function
from eindiff.functions.table import NAMES, Vocabulary
from eindiff.tracing.jax import calls, indexing, linalg, primitives, sparse
from eindiff.tracing.jax.jaxpr import Handler, Tables


def _by_row(function: Function) -> Handler | None:
    return None if function.public is None else primitives.elementwise(function.public)


_PRIMITIVES = {**primitives.PRIMITIVES, **indexing.PLACED, **linalg.FACTORS, **sparse.SPARSE}
TABLES = Tables(
    Vocabulary(_PRIMITIVES, NAMES["jax"], _by_row), calls.CALLS,
    Vocabulary({**primitives.BY_NAME, **linalg.SOLVERS}, NAMES["jax.nn"], _by_row),
)  # fmt: skip
