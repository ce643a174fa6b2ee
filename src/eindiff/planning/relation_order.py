"""When relations between labels are used inside a contraction: before it, after it, or between two of its products.

A relation says that a label, its target, is a function of others, its inputs. Used *early* it replaces the target
everywhere: operands that have it are read at its places, and a result that has it is written there in the end. Used
*late* it stands among the operands, and is applied to the product of some of them. So `Σ_nl A[n, i(l)] X[n, j(l)]`, for
each l, is a product of matrices that is read at the places (i(l), j(l)), and `Σ_l F[l] X[n, j(l)]`, put at i(l), is a
product with the matrix that has F at these places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import inf

from eindiff.core.labels import Labels
from eindiff.planning.tuning import LATE_LIMIT, READ, SCATTER, STACKED, WRITE


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
    operands: tuple[Labels, ...], relations: tuple[Relation, ...], output: Labels, sizes: tuple[tuple[int, int], ...]
) -> Order | None:
    """The cheapest way to use relations in a contraction; None where none is known."""
    best, least = None, inf
    for late in _candidates(operands, relations):
        early = tuple([k for k in range(len(relations)) if k not in late])
        search = _Search(operands, relations, output, dict(sizes), early, late)
        if (found := search.cost()) < least:
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


class _Search:
    """The best order of multiplication, where some relations stand among the operands.

    Sets of operands are bits of integers, those of late relations last.
    """

    def __init__(
        self, operands: Sequence[Labels], relations: Sequence[Relation], output: Labels, sizes: Mapping[int, int],
        early: tuple[int, ...], late: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.sizes, self.early, self.late = sizes, early, late
        self.relations = list(relations)
        self.start = 0.0  # what reading and writing early takes
        self.masks = [frozenset(labels) for labels in operands]
        self.output = frozenset(output)
        self.count = len(operands)
        written = [self._substitute(self.relations[k]) for k in early]
        if any(written):
            self.start += (SCATTER if 2 in written else WRITE) * self._entries(self.output)
        self.all = [*self.masks, *({self.relations[k].target, *self.relations[k].inputs} for k in late)]
        self.found: dict[int, tuple[float, int]] = {}

    def _substitute(self, relation: Relation) -> int:
        """Put the inputs of a relation in the place of its target; 1 if results are written by it, 2 if by a table."""
        inputs = frozenset(relation.inputs)
        for k, labels in enumerate(self.masks):
            if relation.target in labels:
                self.masks[k] = labels - {relation.target} | inputs
                self.start += READ * self._entries(self.masks[k]) if relation.table else 0
        for k, other in enumerate(self.relations):
            if other is not relation and relation.target in other.inputs:
                names = [x for name in other.inputs for x in (relation.inputs if name == relation.target else (name,))]
                table = other.table or relation.table
                self.relations[k] = Relation(other.target, tuple(dict.fromkeys(names)), table)
        if relation.target not in self.output:
            return 0
        self.output = self.output - {relation.target} | inputs
        return 2 if relation.table or len(inputs) > 1 else 1

    def _entries(self, labels: frozenset[int]) -> float:
        total = 1.0
        for label in labels:
            total *= self.sizes[label]
        return total

    def cost(self) -> float:
        """What the best order takes."""
        if not self.masks:
            return inf
        whole = (1 << len(self.all)) - 1
        return self.start + self._best(whole)[0]

    def labels(self, subset: int) -> frozenset[int]:
        """The labels of a product of operands: those that the output or another operand has."""
        inside: set[int] = set()
        outside = set(self.output)
        for k, labels in enumerate(self.all):
            (inside if subset >> k & 1 else outside).update(labels)
        return frozenset(inside & outside)

    def _best(self, subset: int) -> tuple[float, int]:
        """The cost of a set of operands, and one of the two sets that it is made of: the one with the first of them."""
        if subset in self.found:
            return self.found[subset]
        dense = subset & ((1 << self.count) - 1)
        choice = (0.0, 0)
        if not dense:
            choice = (inf, 0)
        elif subset & (subset - 1):
            choice = (inf, 0)
            second = (subset - 1) & subset
            while second:
                first = subset ^ second
                if first & (dense & -dense):  # each pair once
                    choice = min(choice, (self._pair(subset, first, second, choice[0]), first))
                second = (second - 1) & subset
        self.found[subset] = choice
        return choice

    def _pair(self, subset: int, first: int, second: int, limit: float) -> float:
        is_dense = second & ((1 << self.count) - 1)
        if not is_dense:
            return self._best(first)[0] + self._applied(subset, first, second)
        result = self.labels(subset)
        met = self.labels(first) | self.labels(second)
        summed = met != result
        stacked = summed and self.labels(first) & self.labels(second) & result
        cost = self._entries(met) * (STACKED if stacked else 2.0 if summed else 1.0) + WRITE * self._entries(result)
        if cost >= limit:
            return inf
        return cost + self._best(first)[0] + self._best(second)[0]

    def _applied(self, subset: int, first: int, second: int) -> float:
        """The cost of applying relations to a product: reading it at places, and adding that up at others."""
        before, result = self.labels(first), self.labels(subset)
        chosen = [self.relations[k] for n, k in enumerate(self.late) if second >> (self.count + n) & 1]
        targets = {relation.target for relation in chosen}
        inputs = frozenset(x for relation in chosen for x in relation.inputs)
        if len(targets) < len(chosen) or inputs & targets or not (before & (inputs | targets)):
            return inf
        core, cost = before, 0.0
        if before & targets:
            core = before - targets | inputs
            cost += (READ if any(x.table for x in chosen if x.target in before) else 1.0) * self._entries(core)
        written = [x for x in chosen if x.target in result]
        return cost + self._written(written, core | inputs, result) + WRITE * self._entries(result)

    def _written(self, relations: Sequence[Relation], core: frozenset[int], result: frozenset[int]) -> float:
        """The cost of adding entries up at the places that relations say."""
        if not relations:
            return 0.0
        kept = core & (result | frozenset(x for relation in relations for x in relation.inputs))
        several = any(x.table or len(x.inputs) > 1 for x in relations)
        return (SCATTER if several else WRITE) * self._entries(kept)

    # The order that was found

    def order(self) -> Order:
        """The best order, as steps."""
        operands, steps = self._members((1 << len(self.all)) - 1)
        return Order(self.early, operands, steps)

    def _members(self, subset: int) -> tuple[tuple[int, ...], tuple[Applied, ...]]:
        """What a product is made of: operands, and results of steps."""
        first = self._best(subset)[1]
        if not first:
            return (subset.bit_length() - 1,), ()
        second = subset ^ first
        operands, steps = self._members(first)
        if second & ((1 << self.count) - 1):
            more, others = self._members(second)
            return operands + more, steps + others
        chosen = tuple([k for n, k in enumerate(self.late) if second >> (self.count + n) & 1])
        return (), (Applied(operands, steps, chosen, self.labels(first), self.labels(subset)),)
