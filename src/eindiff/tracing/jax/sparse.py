"""Products with JAX's sparse matrices of known indices (`BCOO`): entries are gathered, multiplied and added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eindiff.core.nodes import Expr
from eindiff.functions import multilinear as arrays
from eindiff.tracing.jax.jaxpr import Handler, TracedEquation, Value
from eindiff.tracing.places import Place, gathered, scattered
from eindiff.tracing.unsupported import Unsupported


def _entries(step: TracedEquation, data: Value, indices: Value, info: Any) -> tuple[Expr, np.ndarray]:
    """The entries of a sparse matrix and their places; what lies outside is padding."""
    places = np.asarray(step.trace.known(indices))
    if places.ndim != 2 or places.shape[1] != len(info.shape):
        raise Unsupported  # batches of matrices, or entries that are arrays
    kept = np.flatnonzero((places < np.asarray(info.shape)).all(1))
    if not kept.size:
        raise Unsupported
    entries = step.trace.expr(data)
    return (entries if len(kept) == len(places) else entries[kept]), places[kept]


def _along(places: np.ndarray, axes: Sequence[int], sizes: Sequence[int]) -> list[Place]:
    """Places of entries along some axes, then whole axes."""
    rest = [Place((1 + k,), np.arange(n)) for k, n in enumerate(sizes)]
    return [*[Place((0,), places[:, axis]) for axis in axes], *rest]


def dot_general(step: TracedEquation, data: Value, indices: Value, other: Value) -> Expr:
    """A product of a sparse matrix with an array."""
    info = step.params["lhs_spinfo"]
    (own, contracted), (batch, _) = step.params["dimension_numbers"]
    entries, places = _entries(step, data, indices, info)
    if len(batch):
        raise Unsupported
    x = step.trace.expr(other)
    free = [k for k in range(x.ndim) if k not in contracted]
    sizes = [int(x.shape[k]) for k in free]
    read = gathered(arrays.transpose(x, (*contracted, *free)), _along(places, own, sizes), [len(places), *sizes])
    kept = [k for k in range(len(info.shape)) if k not in own]
    weighted = arrays.multiply(entries[(slice(None), *[None] * len(sizes))], read)
    return scattered(weighted, _along(places, kept, sizes), step.shape)


def to_dense(step: TracedEquation, data: Value, indices: Value) -> Expr:
    """A sparse matrix with its zeros."""
    entries, places = _entries(step, data, indices, step.params["spinfo"])
    return scattered(entries, _along(places, range(places.shape[1]), []), step.shape)


def extract(step: TracedEquation, indices: Value, matrix: Value) -> Expr:
    """The entries of a dense matrix at some places."""
    places = np.asarray(step.trace.known(indices))
    x = step.trace.expr(matrix)
    if places.ndim != 2 or places.shape[1] != x.ndim or (places >= np.asarray(x.shape, int)).any():
        raise Unsupported
    return gathered(x, _along(places, range(x.ndim), []), [len(places)])


SPARSE: dict[str, Handler] = {
    "bcoo_dot_general": dot_general, "bcoo_todense": to_dense, "bcoo_extract": extract,
}  # fmt: skip
