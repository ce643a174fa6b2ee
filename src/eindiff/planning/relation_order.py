"""When relations between labels are used inside a contraction: before it, after it, or between two of its products.

A relation says that a label, its target, is a function of others, its inputs. Used *early* it replaces the target
everywhere: operands that have it are read at its places, and a result that has it is written there in the end. Used
*late* it stands among the operands, and is applied to the product of some of them. So `Σ_nl A[n, i(l)] X[n, j(l)]`, for
each l, is a product of matrices that is read at the places (i(l), j(l)), and `Σ_l F[l] X[n, j(l)]`, put at i(l), is a
product with the matrix that has F at these places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations
from math import inf, sqrt
from operator import or_

from eindiff.core.labels import Labels
from eindiff.planning.tuning import FEW, LATE_LIMIT, READ, SCATTER, STACKED, WRITE


@dataclass(frozen=True, slots=True)
class Relation:
    """A label as a function of others; by a table, or by a formula, of which arrays have views."""

    target: int
    inputs: Labels
    table: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """Relations, by their numbers, that are applied to a product of operands and of what other such steps give."""

    operands: tuple[int, ...]
    steps: tuple[Applied, ...]
    relations: tuple[int, ...]
    before: frozenset[int]  # labels of the product
    labels: frozenset[int]  # labels of the result


@dataclass(frozen=True, slots=True)
class Order:
    """What is best: the relations that are used early, and what is multiplied in the end."""

    early: tuple[int, ...]
    operands: tuple[int, ...]
    steps: tuple[Applied, ...]


@lru_cache(maxsize=2048)
def relation_order(
    operands: tuple[Labels, ...], relations: tuple[Relation, ...], output: Labels, sizes: tuple[tuple[int, int], ...],
    inverses: frozenset[int] = frozenset(),
) -> Order | None:  # fmt: skip
    """The cheapest way to use relations in a contraction; None where none is known.

    Some operands, by their numbers, are inverses: to read one at places takes systems of equations.
    """
    best, least = None, inf
    entries = _Entries(sizes)
    for late in _candidates(operands, relations):
        early = tuple([k for k in range(len(relations)) if k not in late])
        search = _Search(operands, relations, output, entries, early, late, inverses)
        if (found := search.cost(least)) < least:
            best, least = search, found
    return best.order() if best is not None else None


def _candidates(operands: Sequence[Labels], relations: Sequence[Relation]) -> Iterator[tuple[int, ...]]:
    """Which relations may be late, few of them first: all those that have a target in common, and any others."""
    targets = [relation.target for relation in relations]
    needed = [k for k, target in enumerate(targets) if targets.count(target) > 1]
    free = [k for k in range(len(relations)) if k not in needed]
    for count in range(len(free) + 1):
        for chosen in combinations(free, count):
            late = tuple(sorted((*needed, *chosen)))
            if len(operands) + len(late) <= LATE_LIMIT:
                yield late


class _Entries(dict[int, float]):
    """How many entries an array has, by the set of its labels: bits of an integer, which stand for labels by size."""

    def __init__(self, sizes: Sequence[tuple[int, int]]) -> None:
        self.labels = [label for label, _ in sizes]
        self.bits = {label: 1 << k for k, label in enumerate(self.labels)}
        self.sizes = [float(size) for _, size in sizes]

    def __missing__(self, mask: int) -> float:
        lowest = mask & -mask
        self[mask] = total = self[mask ^ lowest] * self.sizes[lowest.bit_length() - 1] if mask else 1.0
        return total

    def mask(self, labels: Iterable[int]) -> int:
        """The set of some labels."""
        return reduce(or_, [self.bits[label] for label in labels], 0)

    def members(self, mask: int) -> frozenset[int]:
        """The labels of a set."""
        return frozenset(label for label, bit in self.bits.items() if mask & bit)


@dataclass(frozen=True, slots=True)
class _Map:
    """A relation between sets of labels."""

    target: int
    inputs: int
    table: bool

    @property
    def several(self) -> bool:
        """Whether its places are not those of a view."""
        return self.table or self.inputs & (self.inputs - 1) != 0


class _Search:
    """The best order of multiplication, where some relations stand among the operands.

    Sets of operands are bits of integers, those of late relations last; sets of labels are as well.
    """

    def __init__(
        self, operands: Sequence[Labels], relations: Sequence[Relation], output: Labels, entries: _Entries,
        early: tuple[int, ...], late: tuple[int, ...], inverses: frozenset[int],
    ) -> None:  # fmt: skip
        self.entries, self.early, self.late, self.inverses = entries, early, late, {1 << k for k in inverses}
        self.relations = [_Map(entries.mask([x.target]), entries.mask(x.inputs), x.table) for x in relations]
        self.start = 0.0  # what reading and writing early takes
        self.masks = [entries.mask(labels) for labels in operands]
        self.output = entries.mask(output)
        self.dense = (1 << len(operands)) - 1
        written = [self._substitute(self.relations[k]) for k in early]
        if any(written):
            self.start += (SCATTER if 2 in written else WRITE) * entries[self.output]
        self.all = [*self.masks, *(self.relations[k].target | self.relations[k].inputs for k in late)]
        self.whole = (1 << len(self.all)) - 1
        self.kept: dict[int, int] = {}  # labels by set of operands
        self.found: dict[int, tuple[float, int]] = {}  # least cost of a set, and the part of it with its first operand
        self.not_below: dict[int, float] = {}  # limits that sets were tried with in vain

    def _substitute(self, relation: _Map) -> int:
        """Put the inputs of a relation in the place of its target; 1 if results are written by it, 2 if by a table."""
        for k, labels in enumerate(self.masks):
            if relation.target & labels:
                self.start += self._solutions(1 << k, labels, relation.inputs)
                self.masks[k] = labels & ~relation.target | relation.inputs
                self.start += READ * self.entries[self.masks[k]] if relation.table else 0
        for k, other in enumerate(self.relations):
            if other is not relation and relation.target & other.inputs:
                inputs = other.inputs & ~relation.target | relation.inputs
                self.relations[k] = _Map(other.target, inputs, other.table or relation.table)
        if not relation.target & self.output:
            return 0
        self.output = self.output & ~relation.target | relation.inputs
        return 2 if relation.several else 1

    def cost(self, limit: float) -> float:
        """What the best order takes; infinite where that is not below a limit."""
        if not self.masks or self.start + WRITE * self.entries[self.output] >= limit:
            return inf
        return self.start + self._best(self.whole, limit - self.start)

    def labels(self, subset: int) -> int:
        """The labels of a product of operands: those that the output or another operand has."""
        found = self.kept.get(subset)
        if found is None:
            inside, outside = 0, self.output
            for k, labels in enumerate(self.all):
                if subset >> k & 1:
                    inside |= labels
                else:
                    outside |= labels
            found = self.kept[subset] = inside & outside
        return found

    def _best(self, subset: int, limit: float) -> float:
        """The cost of a set of operands; infinite where it is not below a limit."""
        if subset in self.found:
            cost = self.found[subset][0]
            return cost if cost < limit else inf
        dense = subset & self.dense
        if not dense or self.not_below.get(subset, 0.0) >= limit:
            return inf
        if not subset & (subset - 1):
            return 0.0
        result, lowest = self.labels(subset), dense & -dense
        least, choice = limit, 0
        second = (subset - 1) & subset
        while second:
            first = subset ^ second
            if first & lowest and (cost := self._pair(result, first, second, least)) < least:  # each pair once
                least, choice = cost, first
            second = (second - 1) & subset
        if not choice:
            self.not_below[subset] = limit
            return inf
        self.found[subset] = (least, choice)
        return least

    def _pair(self, result: int, first: int, second: int, limit: float) -> float:
        if not second & self.dense:
            cost = self._applied(result, first, second)
        else:
            left, right = self.labels(first), self.labels(second)
            met = left | right
            kind = 1.0 if met == result else STACKED if left & right & result else 2.0
            cost = self.entries[met] * kind + WRITE * self.entries[result]
            if cost < limit:
                cost += self._best(second, limit - cost)
        return cost + self._best(first, limit - cost) if cost < limit else inf

    def _applied(self, result: int, first: int, second: int) -> float:
        """The cost of applying relations to a product: reading it at places, and adding that up at others."""
        before = self.labels(first)
        chosen = [self.relations[k] for k in self._relations(second)]
        targets = inputs = 0
        for relation in chosen:
            if relation.target & targets:
                return inf
            targets, inputs = targets | relation.target, inputs | relation.inputs
        if inputs & targets or not before & (inputs | targets):
            return inf
        core, cost = before, 0.0
        if before & targets:
            core = before & ~targets | inputs
            cost += self._solutions(first, before, inputs)
            cost += (READ if any(x.table for x in chosen if x.target & before) else 1.0) * self.entries[core]
        written = [x for x in chosen if x.target & result]
        return cost + self._written(written, core | inputs, result) + WRITE * self.entries[result]

    def _solutions(self, subset: int, labels: int, inputs: int) -> float:
        """What it takes to read a set of operands at places, if it is an inverse: a system of equations for each."""
        if subset not in self.inverses:
            return 0.0
        rows, count = sqrt(self.entries[labels]), self.entries[inputs]
        return 2 * self.entries[labels] * (count if FEW * count <= rows else rows)  # all of it, if these are many

    def _relations(self, subset: int) -> tuple[int, ...]:
        """The relations, by their numbers, that are in a set of operands."""
        return tuple([k for n, k in enumerate(self.late, len(self.masks)) if subset >> n & 1])

    def _written(self, relations: Sequence[_Map], core: int, result: int) -> float:
        """The cost of adding entries up at the places that relations say."""
        if not relations:
            return 0.0
        kept = core & reduce(or_, [x.inputs for x in relations], result)
        return (SCATTER if any(x.several for x in relations) else WRITE) * self.entries[kept]

    # The order that was found

    def order(self) -> Order:
        """The best order, as steps."""
        operands, steps = self._members(self.whole)
        return Order(self.early, operands, steps)

    def _members(self, subset: int) -> tuple[tuple[int, ...], tuple[Applied, ...]]:
        """What a product is made of: operands, and results of steps."""
        if not subset & (subset - 1):
            return (subset.bit_length() - 1,), ()
        first = self.found[subset][1]
        second = subset ^ first
        operands, steps = self._members(first)
        if second & self.dense:
            more, others = self._members(second)
            return operands + more, steps + others
        before, after = (self.entries.members(self.labels(x)) for x in (first, subset))
        return (), (Applied(operands, steps, self._relations(second), before, after),)
