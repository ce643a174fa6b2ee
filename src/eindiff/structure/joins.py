"""Index maps that meet: composed into one, or listed, so that axes which maps are functions of get coordinates too.

In `R1[k; j] R2[j; i]`, k is a function of i. In `R1[p; k] R2[p; i]`, summed over p, k and i are related without one
being a function of the other (a window that reaches over the edge, entries of one group): all pairs that meet are
listed once, and k and i are functions of the place in that list.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.index_relations import Given, IndexMap, Table
from eindiff.core.labels import Labels
from eindiff.core.networks import Factor, new_label
from eindiff.core.nodes import Constant, Expr
from eindiff.structure.places import Place, meeting

MOST_LISTED = 2**20  # pairs of indices that meet
MOST_STEPS = 32


def relation(node: Expr) -> IndexMap | None:
    """The index map that a node is."""
    return node.value if isinstance(node, Constant) and isinstance(node.value, IndexMap) else None


def given(node: Expr) -> Expr | None:
    """The table of an index map whose entries are known when a program runs."""
    found = relation(node)
    return found.indices.expr if found is not None and isinstance(found.indices, Given) else None


def place_of(node: Expr, labels: Labels, sizes: Mapping[str, int]) -> Place:
    """An index map as the place of an axis, for some sizes."""
    found = relation(node)
    assert found is not None
    target, *sources = labels
    if found.indices is not None:
        return Place(target, tuple(sources), table=found.index_array(sizes))
    strides = tuple([sz.evaluate(stride, sizes) for stride in found.strides])
    return Place(target, tuple(sources), sz.evaluate(found.offset, sizes), strides)


class Relations:
    """The factors of a network whose index maps are being composed and listed."""

    def __init__(self, factors: tuple[Factor, ...], output: Labels, sizes: dict, lengths: Mapping[str, int]) -> None:
        self.factors = list(factors)
        self.output = output
        self.sizes = dict(sizes)
        self._lengths = lengths

    def resolve(self) -> bool:
        """Compose and list until no more is found; whether anything was."""
        steps = 0
        while steps < MOST_STEPS and (self._compose() or self._list()):
            steps += 1
        return steps > 0

    def _maps(self) -> list[tuple[int, Labels]]:
        return [(k, labels) for k, (node, labels) in enumerate(self.factors) if relation(node) is not None]

    def _length(self, label: int) -> int:
        return sz.evaluate(self.sizes[label], self._lengths)

    # Composition

    def _compose(self) -> bool:
        """`R1[k; j] R2[j; i]` as one map, if j is no axis."""
        for outer, labels in self._maps():
            for inner, own in self._maps():
                if inner != outer and own[0] in labels[1:] and own[0] not in self.output:
                    return self._composed(outer, inner)
        return False

    def _composed(self, outer: int, inner: int) -> bool:
        (node, labels), (other, own) = self.factors[outer], self.factors[inner]
        one, two = relation(node), relation(other)
        assert one is not None and two is not None
        axis = labels.index(own[0]) - 1
        sources = labels[1 : axis + 1] + own[1:] + labels[axis + 2 :]
        made = one.compose(axis, two)
        if made is None:
            if given(node) or given(other) or prod(self._length(x) for x in sources) > MOST_LISTED:
                return False
            table = one.index_array(self._lengths)
            index = two.index_array(self._lengths)
            rest = table.ndim - axis - 1
            values = np.take(table, index.reshape(-1), axis=axis).reshape(
                table.shape[:axis] + index.shape + table.shape[table.ndim - rest :]
            )
            made = IndexMap(one.size, tuple([self.sizes[x] for x in sources]), indices=Table(values))
        self.factors[outer] = construct.constant(made), (labels[0], *sources)
        if sum(own[0] in x for _, x in self.factors) == 1:
            del self.factors[inner]
        return True

    # Lists of what meets

    def _list(self) -> bool:
        """Two maps to a label that is summed, if both lead to axes, or an axis is only known as an index of one."""
        leading = set(self.output)
        for _ in self.factors:
            leading |= {x for _, labels in self._maps() if labels[0] in leading for x in labels[1:]}
        reached = {labels[0] for _, labels in self._maps()}
        for first, labels in self._maps():
            if labels[0] in leading:
                continue
            hidden = any(x in self.output and x not in reached for x in labels[1:])
            for second, own in self._maps():
                if second == first or own[0] != labels[0]:
                    continue
                if hidden or (set(labels[1:]) & leading and set(own[1:]) & leading):
                    return self._listed(first, second)
        return False

    def _listed(self, first: int, second: int) -> bool:
        (one, labels), (two, own) = self.factors[first], self.factors[second]
        lengths = {x: self._length(x) for x in (*labels, *own)}
        if given(one) or given(two):
            return False
        if prod(lengths[x] for x in labels[1:]) > MOST_LISTED or prod(lengths[x] for x in own[1:]) > MOST_LISTED:
            return False
        places = place_of(one, labels, self._lengths), place_of(two, own, self._lengths)
        met = meeting([places], lengths)
        count = len(next(iter(met.values()))) if met else 0
        if not met or not 0 < count <= MOST_LISTED:
            return False
        self.factors = [factor for k, factor in enumerate(self.factors) if k not in (first, second)]
        new = new_label(self.sizes, count)
        wanted = dict.fromkeys((*labels[1:], *own[1:]))
        if any(labels[0] in x for _, x in self.factors):
            met[labels[0]] = places[0].index(met)
            wanted[labels[0]] = None
        for label in wanted:
            table = IndexMap(self.sizes[label], (count,), indices=Table(met[label]))
            self.factors.append((construct.constant(table), (label, new)))
        return True
