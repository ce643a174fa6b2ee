"""Gather and scatter as contractions with index maps, one for each axis.

An entry of the result is an entry of the argument whose place along each axis is a function of a few axes of the
result. So each axis has an index map of its own, and what was a product of axes stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eindiff.core import construct
from eindiff.core.construct import Factor, constant
from eindiff.core.index_relations import IndexMap, Table
from eindiff.core.nodes import Add, Constant, Expr, Map
from eindiff.functions import elementwise as functions
from eindiff.functions import multilinear as arrays


@dataclass(frozen=True, slots=True)
class Place:
    """Where entries lie along an axis of the argument: an array over some axes of the result."""

    axes: tuple[int, ...]
    index: np.ndarray


def index_map(size: int, place: Place) -> IndexMap:
    """The index map of a place: affine if it is."""
    return IndexMap(size, tuple(place.index.shape), indices=Table(place.index)).simplest()


def _factors(shape: Sequence[int], places: Sequence[Place], total: int) -> tuple[list[int], list[Factor]]:
    """Labels for the axes of the argument, and the maps between them and those of the result, which are 0 to total."""
    labels, factors = [], []
    for axis, (size, place) in enumerate(zip(shape, places, strict=True)):
        chosen = index_map(size, place)
        if chosen.is_identity():
            labels.append(place.axes[0])
        else:
            labels.append(total + axis)
            factors.append((constant(chosen), (total + axis, *place.axes)))
    return labels, factors


def gathered(x: Expr, places: Sequence[Place], shape: Sequence[int]) -> Expr:
    """The entries of x at some places, in an array of the given shape."""
    labels, factors = _factors([int(n) for n in x.shape], places, len(shape))
    sizes = dict(enumerate(shape)) | {len(shape) + k: n for k, n in enumerate(x.shape)}
    return construct.einsum(1, [(x, tuple(labels)), *factors], tuple(range(len(shape))), sizes)


def scattered(x: Expr, places: Sequence[Place], shape: Sequence[int]) -> Expr:
    """Zeros of the given shape, with the entries of x added at some places."""
    labels, factors = _factors(shape, places, x.ndim)
    sizes = dict(enumerate(x.shape)) | {x.ndim + k: n for k, n in enumerate(shape)}
    return construct.einsum(1, [(x, tuple(range(x.ndim))), *factors], tuple(labels), sizes)


def placed(numbers: np.ndarray, shape: Sequence[int]) -> list[Place]:
    """Where entries lie along each axis of an array, from their numbers in row-major order."""
    found = []
    for index in np.unravel_index(numbers, tuple(shape)) if shape else ():
        axes = tuple([k for k in range(index.ndim) if np.any(index != index.take([0], k))])
        found.append(Place(axes, index[tuple([slice(None) if k in axes else 0 for k in range(index.ndim)])]))
    return found


def grid(chosen: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Chosen entries as some indices along each axis, None if they are no such grid."""
    lines = [chosen.any(tuple([k for k in range(chosen.ndim) if k != axis])) for axis in range(chosen.ndim)]
    found = np.ix_(*lines) if lines else ()
    return found if chosen[found].all() else None


def replaced(x: Expr, added: Expr, is_new: np.ndarray, known: Callable[[np.ndarray], Expr] = arrays.as_expr) -> Expr:
    """x with entries exchanged for those of an array that is 0 elsewhere.

    Old entries are left out, not multiplied by 0 or subtracted: they may be infinite or no numbers. `known` makes an
    expression of a known array.
    """
    if is_new.all():
        return added
    new = placed(np.flatnonzero(is_new), is_new.shape)

    def kept(term: Expr) -> Expr:
        """A term without entries at these places; it stays as it is if it has none there."""
        if construct.is_zero(gathered(term, new, [int(is_new.sum())])):
            return term
        is_old = ~is_new
        if isinstance(term, Map) and term.function.name == "where" and construct.is_zero(term.args[2]):
            condition = term.args[0]
            if isinstance(condition, Constant) and isinstance(condition.value, np.ndarray):
                is_old, term = is_old & (condition.value != 0), term.args[1]
        return functions.where(known(is_old), term, 0)

    return arrays.add(*map(kept, x.terms if isinstance(x, Add) else [x]), added)
