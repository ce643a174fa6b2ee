"""Constants with many zeros as relations: `D[k, j] = Σ_e v_e P[k; e] Q[j; e]`, where e numbers the other entries.

So a matrix of differences and a mask that is made with `arange` are what slices are: the places of their entries are
index maps, by a formula where these are along diagonals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eindiff.core import construct
from eindiff.core.index_relations import IndexMap, Table
from eindiff.core.networks import Factor
from eindiff.core.nodes import Expr

MOST_DIAGONALS = 8
BANDED, LISTED = 4, 16  # times the entries on diagonals, or anywhere, that are not zero are no more than all
LEAST = 64  # entries of a matrix that is not simply written down


def by_places(array: np.ndarray, hidden: Callable[[np.ndarray], Expr] = construct.constant) -> Expr | None:
    """A constant as a sum of its entries at places, if it has few that are not zero; `hidden` stands for their values.

    A vector has to be the same number at the places of a slice.
    """
    count = np.count_nonzero(array)
    if not 0 < count < array.size:
        return None
    if array.ndim == 1:
        places = np.flatnonzero(array)
        return _at([places], array, hidden) if _is_slice(array, places) else None
    if array.ndim != 2 or array.size < LEAST or BANDED * count > array.size:
        return None
    rows, columns = np.nonzero(array)
    if _are_steps(rows) and _are_steps(columns):
        return _at([rows, columns], array, hidden)
    on = [columns - rows == offset for offset in np.unique(columns - rows)[: MOST_DIAGONALS + 1]]
    if len(on) <= MOST_DIAGONALS and all(_are_steps(rows[here]) for here in on):
        return construct.add([_at([rows[here], columns[here]], array, hidden) for here in on])
    return _at([rows, columns], array, hidden) if LISTED * count <= array.size else None


def _is_slice(array: np.ndarray, places: np.ndarray) -> bool:
    return _are_steps(places) and bool((array[places] == array[places[0]]).all())


def _are_steps(places: np.ndarray) -> bool:
    """Whether places are as far from each other as the first two."""
    return len(places) < 3 or bool((np.diff(places) == places[1] - places[0]).all())


def _at(places: Sequence[np.ndarray], array: np.ndarray, hidden: Callable[[np.ndarray], Expr]) -> Expr:
    """Entries of an array, and zeros elsewhere."""
    values, count, axes = array[tuple(places)], len(places[0]), tuple(range(array.ndim))
    entry = array.ndim
    tables = [IndexMap(n, (count,), indices=Table(k)) for n, k in zip(array.shape, places, strict=True)]
    factors: list[Factor] = [(construct.constant(table), (axis, entry)) for axis, table in enumerate(tables)]
    coefficient = values[0].item()
    if not (values == values[0]).all():
        coefficient = 1
        factors.append((hidden(values), (entry,)))
    return construct.einsum(coefficient, factors, axes, {**dict(enumerate(array.shape)), entry: count})
