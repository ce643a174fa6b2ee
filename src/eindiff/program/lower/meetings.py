"""Where two maps of one label meet: what the labels are for which both say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.networks import new_label
from eindiff.core.sizes import Size
from eindiff.program.costs import Costs
from eindiff.program.lower.places import Index, affine

Strides = tuple[tuple[int, Size], ...]

NEVER: dict[int, Index] = {}  # stands for the solution of what cannot be solved


class Meetings:
    """Solves equations between places, for sizes that share a program with known ones."""

    def __init__(self, costs: Costs | None) -> None:
        self.costs = costs

    def solved(self, a: Index, b: Index, sizes: dict[int, Size]) -> dict[int, Index] | None:
        """What labels are where two indices are equal; `NEVER` if they never are, None if there is no formula."""
        if a == b:
            return {}
        if a.table is not None or b.table is not None:
            return None
        steps = [*a.strides, *((label, sz.multiply(-1, stride)) for label, stride in b.strides)]
        difference = affine(sz.subtract(b.offset, a.offset), steps)  # so many of these steps are needed
        total, strides = difference.offset, difference.strides
        if not strides:
            return {} if total == 0 else NEVER if isinstance(total, int) else None
        if (divided := _divided(total, strides)) is None:
            return NEVER
        total, strides = divided
        match strides:
            case ((label, 1 | -1 as sign),):
                return self._at(label, sz.multiply(sign, total), sizes)
            case ((first, 1 | -1 as one), (second, 1 | -1 as other)):
                return self._along(first, second, sz.multiply(one, total), one != other, sizes)
        return self._one(total, strides, sizes)

    def _one(
        self, total: Size, strides: Sequence[tuple[int, Size]], sizes: Mapping[int, Size]
    ) -> dict[int, Index] | None:
        """A label as a function of the others, if it has a place for all of these."""
        for label, sign in strides:
            if sign in (1, -1):
                rest = [(x, sz.multiply(-1, sz.multiply(sign, step))) for x, step in strides if x != label]
                index = affine(sz.multiply(sign, total), rest)
                if self._is_in_range(index, sizes[label], sizes):
                    return {label: index}
        return None

    def _is_in_range(self, index: Index, size: Size, sizes: Mapping[int, Size]) -> bool:
        """Whether an index has a place on an axis for all values of its labels."""
        lowest = highest = index.offset
        for label, step in index.strides:
            last = sz.multiply(step, sz.subtract(sizes[label], 1))
            if self._is_size(last):
                highest = sz.add(highest, last)
            elif self._is_size(sz.multiply(-1, last)):
                lowest = sz.add(lowest, last)
            else:
                return False
        return self._is_size(lowest) and self._is_size(sz.subtract(sz.subtract(size, 1), highest))

    def _at(self, label: int, place: Size, sizes: Mapping[int, Size]) -> dict[int, Index] | None:
        """A label that has to be at one place."""
        left = sz.subtract(sz.subtract(sizes[label], 1), place)
        if any(isinstance(x, int) and x < 0 for x in (place, left)):
            return NEVER
        return {label: Index(place)} if self._is_size(place) and self._is_size(left) else None

    def _along(self, p: int, q: int, moved: Size, forward: bool, sizes: dict[int, Size]) -> dict[int, Index] | None:
        """Labels with `p = q + moved`, or `p = moved - q`, as functions of a new one that counts where both are."""
        first = moved if forward else sz.subtract(sz.add(moved, 1), sizes[q])  # the least p for which there is a q
        beyond = sz.add(first, sizes[q])
        start, end = self._largest(first, 0), self._largest(sz.multiply(-1, beyond), sz.multiply(-1, sizes[p]))
        if start is None or end is None:
            return None
        end = sz.multiply(-1, end)
        count = sz.subtract(end, start)
        if isinstance(count, int) and count <= 0:
            return NEVER
        if not self._is_size(count):
            return None
        if count == sizes[p] == sizes[q] and forward and moved == 0:
            return {p: Index(0, ((q, 1),))}
        label = new_label(sizes, count)
        step, offset = (1, sz.subtract(start, moved)) if forward else (-1, sz.subtract(moved, start))
        return {p: Index(start, ((label, 1),)), q: Index(offset, ((label, step),))}

    def _largest(self, a: Size, b: Size) -> Size | None:
        """The larger one of two sizes, if one is for all sizes that share a program."""
        left = sz.subtract(a, b)
        return a if self._is_size(left) else b if self._is_size(sz.multiply(-1, left)) else None

    def _is_size(self, size: Size) -> bool:
        """Whether a size is not negative for all sizes that share a program."""
        return sz.never_negative(size) or (self.costs is not None and self.costs.least(size) >= 0)


def _divided(total: Size, strides: Strides) -> tuple[Size, Strides] | None:
    """So many steps in all, and steps, without what divides all steps; None if it does not divide the first."""
    known = [stride for _, stride in strides if isinstance(stride, int)]
    if not isinstance(total, int) or len(known) < len(strides):
        return total, strides
    divisor = gcd(*known)
    return None if total % divisor else (total // divisor, tuple([(x, int(y) // divisor) for x, y in strides]))


def joined(
    a: Index, b: Index, places: Sequence[np.ndarray], sizes: dict[int, Size],
    besides: Sequence[Sequence[np.ndarray]] = (),
) -> dict[int, np.ndarray]:
    """The values of labels, one after the other, for which two known indices are equal: a join of two tables.

    `places` are the entries of both, over their labels, and `besides` others that have to be equal too: two windows of
    a matrix have few places in common, but many pairs of places in one row.
    """
    shared = [label for label in a.labels if label in b.labels]
    keys = []
    for k, (index, entries) in enumerate(zip((a, b), places, strict=True)):
        counted: dict[int, np.ndarray] = dict(zip(index.labels, np.indices(entries.shape, sparse=True), strict=True))
        key = entries
        for pair in besides:
            key = key * (1 + max(int(x.max(initial=0)) for x in pair)) + pair[k]
        for label in shared:
            key = key * int(sizes[label]) + counted[label]
        keys.append(np.broadcast_to(key, entries.shape).ravel())
    order = np.argsort(keys[1], kind="stable")
    ordered = keys[1][order]
    first, last = (np.searchsorted(ordered, keys[0], side=side) for side in ("left", "right"))
    counts = last - first
    left = np.repeat(np.arange(len(keys[0])), counts)
    within = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    right = order[np.repeat(first, counts) + within]
    found: dict[int, np.ndarray] = {}
    for index, chosen, entries in zip((b, a), (right, left), places[::-1], strict=True):
        found.update(zip(index.labels, np.unravel_index(chosen, entries.shape), strict=True))
    return found
