"""Which indices of a traced function of NumPy come at the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eindiff.core.nodes import variables
from eindiff.tracing.given_indices import MANY, Entries, given_entries
from eindiff.tracing.questions import current


def are_given(index: Any) -> bool:
    """Whether an index is an array of arguments that are whole numbers, and so long that its values are not worth a
    trace of their own."""
    if not hasattr(type(index), "_question") or index.dtype.kind not in "iu" or index._question() is not None:
        return False
    answers, unknown = current(), variables(index.__eindiff_expression__)
    if answers is None or not unknown or not answers.knows(unknown) or np.prod(index.shape, dtype=int) < MANY:
        return False
    return all(np.asarray(answers.arrays[x]).dtype.kind in "iu" for x in unknown)


def chosen_entries(shape: Sequence[Any], index: Any) -> Entries | None:
    """The entries of an array that an index with given indices chooses; None for other indices."""
    index = index if isinstance(index, tuple) else (index,)
    given = [part._settled() if hasattr(type(part), "_settled") else part for part in index]
    parts = _filled(given, len(shape)) if any(map(are_given, given)) else None
    if parts is None:
        return None
    return given_entries(shape, [part.__eindiff_expression__ if are_given(part) else part for part in parts])


def _filled(parts: Sequence[Any], count: int) -> list[Any] | None:
    """One part of an index for each axis; None where there are new axes or masks, or too many parts."""
    known = [part for part in parts if part is not Ellipsis]
    if len(known) > count or len(parts) - len(known) > 1 or not all(map(_is_simple, known)):
        return None
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    return [*parts[:at], *[slice(None)] * (count - len(known)), *parts[at + 1 :]]


def _is_simple(part: Any) -> bool:
    if isinstance(part, int | np.integer | slice):
        return not isinstance(part, bool)
    return are_given(part) or (type(part) is np.ndarray and part.dtype.kind in "iu")
