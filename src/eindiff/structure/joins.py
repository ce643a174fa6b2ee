"""Index maps that meet: composed into one, or listed, so that axes which maps are functions of get coordinates too.

In `R1[k; j] R2[j; i]`, k is a function of i. In `R1[p; k] R2[p; i]`, summed over p, k and i are related without one
being a function of the other (a window that reaches over the edge, entries of one group): all pairs that meet are
listed once, and k and i are functions of the place in that list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from math import prod

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.index_relations import Given, IndexMap, Table
from eindiff.core.labels import Labels, UnionFind
from eindiff.core.networks import Factor, new_label
from eindiff.core.nodes import Constant, Expr
from eindiff.structure.places import Place, meeting

MOST_LISTED = 2**20  # pairs of indices that meet
MOST_JOINS = 32


def relation(node: Expr, lengths: Mapping[str, int] | None = None) -> IndexMap | None:
    """The index map that a node is, maybe for some sizes."""
    if not isinstance(node, Constant) or not isinstance(node.value, IndexMap):
        return None
    found = node.value
    if lengths is None or found.is_known:
        return found
    size, offset = (sz.evaluate(x, lengths) for x in (found.size, found.offset))
    inputs, strides = (tuple([sz.evaluate(x, lengths) for x in sizes]) for sizes in (found.inputs, found.strides))
    return IndexMap(size, inputs, offset, strides, found.indices)


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
        self._is_empty = False

    def simplify(self) -> bool:
        """Unite, solve and compose maps with one target until no more is found; False if some never meet."""
        while not self._is_empty and self._meet():
            pass
        return not self._is_empty

    def resolve(self) -> bool:
        """Compose and list until no more is found; whether anything was."""
        steps = 0
        while steps < MOST_JOINS and not self._is_empty and (self._meet() or self._compose() or self._list()):
            steps += 1
        return steps > 0

    def _maps(self) -> list[tuple[int, Labels]]:
        return [(k, labels) for k, (node, labels) in enumerate(self.factors) if relation(node) is not None]

    def _length(self, label: int) -> int:
        return sz.evaluate(self.sizes[label], self._lengths)

    # Maps with one target

    def _meet(self) -> bool:
        """Two maps with one target: the same one twice, two that never meet, or two that say where inputs are."""
        for place, labels in self._maps():
            found = relation(self.factors[place][0], self._lengths)
            if found is not None and found.is_identity():
                del self.factors[place]
                self._unite([labels[:2]])
                return True
        for (first, labels), (second, own) in combinations(self._maps(), 2):
            if labels[0] == own[0] and self._met(first, second):
                return True
        return False

    def _met(self, first: int, second: int) -> bool:
        (one, labels), (two, own) = self.factors[first], self.factors[second]
        here, there = (relation(x, self._lengths) for x in (one, two))
        assert here is not None and there is not None
        if here == there and (labels == own or here.injective):
            del self.factors[second]
            self._unite(zip(labels[1:], own[1:], strict=True))
            return True
        if here.disjoint(there):
            self._is_empty = True
            return True
        if not here.inputs or not there.inputs:
            return self._met_once(first, there, own) if not here.inputs else self._met_once(second, here, labels)
        if (line := here.line(there)) is None:
            return False
        along = new_label(self.sizes, line.length)
        inputs = [(x[1], y) for x, y in ((labels, line.ours), (own, line.theirs))]
        self.factors[second : second + 1] = [self._affine(x, along, *y) for x, y in inputs]
        composed = here.compose(0, IndexMap(here.inputs[0], (line.length,), line.ours[0], (line.ours[1],)))
        assert composed is not None
        self.factors[first] = construct.constant(replace(composed, size=self.sizes[labels[0]])), (labels[0], along)
        self._without_idle()
        return True

    def _met_once(self, constant: int, other: IndexMap, labels: Labels) -> bool:
        """A map that is one index, and another one: which of its inputs lead there, if it is known."""
        if not other.is_known or not other.injective:
            return False
        at = relation(self.factors[constant][0], self._lengths)
        assert at is not None
        [number] = other.inputs_of(np.array([at.offset]))
        if number < 0:  # none
            self._is_empty = True
            return True
        found = np.unravel_index(number, tuple(map(int, other.inputs)))
        place = next(k for k, x in self._maps() if x == labels and relation(self.factors[k][0], self._lengths) == other)
        indices = zip(labels[1:], found, strict=True)
        constants = [(construct.constant(IndexMap(self.sizes[x], (), int(k))), (x,)) for x, k in indices]
        self.factors[place : place + 1] = constants
        self._without_idle()
        return True

    def _affine(self, label: int, along: int, first: int, step: int) -> Factor:
        return construct.constant(IndexMap(self.sizes[label], (self.sizes[along],), first, (step,))), (label, along)

    def _unite(self, pairs: Iterable[Sequence[int]]) -> None:
        """Labels that are equal become one, everywhere."""
        sets = UnionFind()
        for a, b in pairs:
            sets.unite(a, b)
        self.factors = [(node, tuple([sets.find(x) for x in own])) for node, own in self.factors]
        self.output = tuple([sets.find(x) for x in self.output])

    def _without_idle(self) -> None:
        """Maps to labels that nothing else has are ones; what is then summed over nothing but ones, a number."""
        while True:
            uses = Counter(x for _, labels in self.factors for x in set(labels)) + Counter(self.output)
            idle = next((k for k, labels in self._maps() if uses[labels[0]] == 1), None)
            if idle is None:
                return
            _, labels = self.factors.pop(idle)
            alone = [x for x in dict.fromkeys(labels[1:]) if uses[x] == 1]
            self.factors += [(construct.size_number(self.sizes[x]), ()) for x in alone]

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
        """Two maps to a label that is summed, if both are on the way from one axis to another, or an axis is only
        known as an index of one."""
        leading = set(self.output)
        for _ in self.factors:
            leading |= {x for _, labels in self._maps() if labels[0] in leading for x in labels[1:]}
        reached = {labels[0] for _, labels in self._maps()}
        for (first, labels), (second, own) in permutations(self._maps(), 2):
            if labels[0] != own[0] or labels[0] in leading:
                continue
            is_hidden = any(x in self.output and x not in reached for x in labels[1:])
            is_near = not leading.isdisjoint(labels[1:]) and self._lead_to_axes(own)
            if (is_hidden or is_near) and self._listed(first, second):
                return True
        return False

    def _lead_to_axes(self, wanted: Labels) -> bool:
        """Whether the inputs of a map are related to an axis in another way than by its target."""
        sets = UnionFind()
        for _, labels in self._maps():
            first, *rest = [x for x in labels if x != wanted[0]] or [wanted[0]]
            for x in rest:
                sets.unite(first, x)
        axes = {sets.find(x) for x in self.output}
        return any(sets.find(x) in axes for x in wanted[1:])

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
            table = IndexMap(self.sizes[label], (count,), indices=Table(met[label])).simplest()
            self.factors.append((construct.constant(table), (label, new)))
        return True
