"""The order of multiplication inside a contraction: which two operands first, and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import factorial, inf
from typing import NamedTuple

from eindiff.core.labels import Labels, components, first_appearance
from eindiff.core.tensor_order import Multiplication, Path, tensor_order_path
from eindiff.planning.tuning import BEST_LIMIT, NEAR, STACKED, SUBSETS_LIMIT, WRITE

FORMED = 0.7  # of a product with an inverse: what it takes to form another one


class Speed(NamedTuple):
    """By what operations of a product with an operand are multiplied, and whether that is an inverse."""

    times: float = 1.0
    is_inverse: bool = False


PLAIN = Speed()
Speeds = tuple[Speed, ...]


def contraction_path(
    inputs: Sequence[Labels],
    output: Labels,
    sizes: Mapping[int, int],
    strategy: str = "auto",
    operands: Sequence | None = None,
    speeds: Speeds = (),
) -> Path:
    """Pairs of operands to multiply, one after the other; a pair is taken out and its product put at the end.

    `operands` tells which inputs are the same tensor, so that equal products count once, and `speeds` by what the
    operations of a product with an operand are multiplied: one with few entries takes less, an inverse that has to be
    formed more.
    """
    names = first_appearance(inputs)
    renamed = tuple([tuple([names[label] for label in labels]) for labels in inputs])
    kept = tuple([names[label] for label in output if label in names])
    which = first_appearance([operands if operands is not None else range(len(inputs))])
    keys = tuple([which[operand] for operand in operands]) if operands is not None else tuple(range(len(inputs)))
    return _path(renamed, kept, tuple([sizes[label] for label in names]), strategy, keys, speeds)


@lru_cache(maxsize=8192)
def _path(
    inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...], strategy: str, keys: tuple[int, ...],
    speeds: Speeds,
) -> Path:  # fmt: skip
    if len(inputs) < 3:
        return ((0, 1),) * (len(inputs) - 1)
    if len(set(inputs)) == 1 and set(inputs[0]) == set(output):  # elementwise: any order will do
        return ((0, 1),) * (len(inputs) - 1)
    rule = tensor_order_path(inputs, output, keys)
    if strategy == "tensor_order":
        return rule
    size_of = dict(enumerate(sizes))
    is_small = len(inputs) <= BEST_LIMIT
    best = _best_path(inputs, output, sizes, speeds) if is_small else _good_path(inputs, output, sizes)
    if best == rule:
        return best
    return min(best, rule, key=lambda path: path_flops(inputs, output, size_of, path, keys, speeds))


def _good_path(inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...]) -> Path:
    """A path for many operands: the best one within parts that hang together by labels that few operands have, and then
    between these parts; by opt_einsum where that is too much."""
    table = _Subsets(inputs, output, sizes)
    counts = Counter(label for labels in inputs for label in set(labels))
    near = sum(1 << label for label, count in counts.items() if count <= NEAR)
    neighbours = [sum(1 << k for k, other in enumerate(table.masks) if other & mask & near) for mask in table.masks]
    parts = components([[label for label in labels if counts[label] <= NEAR] for labels in inputs])
    tree: dict[int, int] = {}
    for part in parts:
        subsets = _connected_subsets(part, neighbours)
        if subsets is None or len(parts) > BEST_LIMIT:
            return _heuristic_path(inputs, output, dict(enumerate(sizes)))
        tree |= table.best(subsets)
    whole = [sum(1 << k for k in part) for part in parts]
    unions = [sum(mask for k, mask in enumerate(whole) if chosen >> k & 1) for chosen in range(1, 1 << len(whole))]
    return _path_of_tree(tree | table.best(unions), len(inputs))


def _connected_subsets(part: Sequence[int], neighbours: Sequence[int]) -> list[int] | None:
    """All sets of operands that hang together, unless there are too many."""
    found = {1 << k for k in part}
    grown = list(found)
    while grown:
        subset = grown.pop()
        around = 0
        for k in part:
            if subset >> k & 1:
                around |= neighbours[k]
        for k in part:
            if (around & ~subset) >> k & 1 and (larger := subset | 1 << k) not in found:
                found.add(larger)
                grown.append(larger)
        if len(found) > SUBSETS_LIMIT:
            return None
    return sorted(found)


def _heuristic_path(inputs: tuple[Labels, ...], output: Labels, sizes: Mapping[int, int]) -> Path:
    import opt_einsum as oe  # only when it is needed: its import takes long

    found = oe.paths.auto([frozenset(labels) for labels in inputs], frozenset(output), sizes)
    pairs = tuple(tuple(sorted(pair)) for pair in found)
    return pairs if all(len(pair) == 2 for pair in pairs) else tensor_order_path(inputs, output)


def _best_path(inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...], speeds: Speeds) -> Path:
    """The path of least operations."""
    tree = _Subsets(inputs, output, sizes, speeds).best(range(1, 1 << len(inputs)))
    return _path_of_tree(tree, len(inputs))


def least_flops(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], operands: Sequence) -> float:
    """Operations that every order of multiplication takes; 0 if there are too many operands to know it.

    Some operands may be the same tensor. Equal products are of different operands, and count once: so each counts for
    one part of as many as there are of its rarest operand. One whose operands come in pairs, besides weights of these,
    may be symmetric: a half of a matrix, and of more axes one part of as many as there are orders of them.
    """
    if not 1 < len(inputs) <= BEST_LIMIT:
        return 0.0
    table = _Subsets(tuple(inputs), output, tuple([sizes[label] for label in range(1 + max(sizes))]))
    labels = {subset: table.labels(subset) for subset in range(1, 1 << len(inputs))}
    found = {1 << k: 0.0 for k in range(len(inputs))}
    for subset in sorted(labels, key=int.bit_count):
        if subset in found:
            continue
        inside = [k for k in range(len(inputs)) if subset >> k & 1]
        shared, least = _copies([operands[k] for k in inside], operands), inf
        if _may_be_symmetric([operands[k] for k in inside], [inputs[k] for k in inside]):
            shared *= max(2, factorial(labels[subset].bit_count()))
        for first in _submasks(subset):
            met = labels[first] | labels[subset ^ first]
            flops = table.entries(met) * (2.0 if met != labels[subset] else 1.0)
            least = min(least, flops / shared + found[first] + found[subset ^ first])
        found[subset] = least
    return found[(1 << len(inputs)) - 1]


def _copies(inside: Sequence, operands: Sequence) -> int:
    """How many products of one contraction may be that of some of its operands at most."""
    everywhere = Counter(operands)
    return min(everywhere[operand] // count for operand, count in Counter(inside).items())


def _may_be_symmetric(operands: Sequence, inputs: Sequence[Labels]) -> bool:
    """Whether a product may stay as it is if operands that are there twice change places, with their labels.

    Those that are there once have none of these labels, besides those at the same axis of two equal operands.
    """
    counts, factors = Counter(operands), list(zip(operands, inputs, strict=True))
    alone = {label for x, labels in factors if counts[x] == 1 for label in labels}
    twice = {label for x, labels in factors if counts[x] > 1 for label in labels}
    places = Counter([(x, axis, label) for x, labels in factors for axis, label in enumerate(labels)])
    return bool(twice) and alone & twice <= {label for (_, _, label), count in places.items() if count > 1}


class _Subsets:
    """The best way to multiply sets of operands, from small sets to large ones.

    Sets of operands and sets of labels are bits of integers. Writing a product counts as some operations on each of its
    entries. Of equal ways, the one with the smaller largest intermediate counts, then the one whose last product has
    the axes of the output in order, and then the one that begins with the first operands: so contractions that have
    these in common share the beginning.
    """

    def __init__(
        self, inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...], speeds: Speeds = ()
    ) -> None:
        self.speeds = {1 << k: speed for k, speed in enumerate(speeds)}
        self.masks = [sum(1 << label for label in set(labels)) for labels in inputs]
        self.output = sum(1 << label for label in set(output))
        self.order = output
        self.entries = _sizes_of_masks(sizes)
        self.found: dict[int, tuple[float, float]] = {}  # the cost of a set, and its largest intermediate

    def labels(self, subset: int) -> int:
        """The labels of a product of operands: those that the output or another operand has."""
        inside, outside = 0, self.output
        for k, mask in enumerate(self.masks):
            if subset >> k & 1:
                inside |= mask
            else:
                outside |= mask
        return inside & outside

    def best(self, subsets: Iterable[int]) -> dict[int, int]:
        """For each set of two or more operands one of the two sets that it is best made of, both given or known."""
        splits: dict[int, int] = {}
        wanted = sorted({*subsets, *self.found}, key=int.bit_count)
        labels = {subset: self.labels(subset) for subset in wanted}
        complete = len(wanted) == (1 << len(self.masks)) - 1
        for subset in wanted:
            if subset in self.found:
                continue
            choice = (0.0, 0.0, 0, 0)
            if subset & (subset - 1):
                choice = self._choice(subset, _submasks(subset) if complete else wanted, labels)
            if choice[0] < inf:
                self.found[subset] = choice[:2]
                if choice[-1]:
                    splits[subset] = choice[-1]
        return splits

    def _choice(self, subset: int, parts: Iterable[int], labels: Mapping[int, int]) -> tuple[float, float, int, int]:
        """The best way to make a set of operands of two: its cost, its largest intermediate, how often axes of the two
        take turns in the output, and one of the two."""
        own, found, choice = self.entries(labels[subset]), self.found, (inf, inf, 0, 0)
        is_whole = subset == (1 << len(self.masks)) - 1
        for first in parts:
            second = subset ^ first
            if first < second or first & subset != first:
                continue
            one, other = found.get(first), found.get(second)
            if one is None or other is None or one[0] + other[0] > choice[0]:
                continue
            met = labels[first] | labels[second]
            summed = met != labels[subset]
            stacked = summed and labels[first] & labels[second] & labels[subset]
            flops = self.entries(met) * (STACKED if stacked else 2.0 if summed else 1.0)
            if self.speeds:
                flops *= pair_speed(self.speeds.get(first), self.speeds.get(second))
            total = one[0] + other[0] + (flops + WRITE * own)
            largest = max(own, one[1], other[1])
            if (total, largest) <= choice[:2]:
                turns = self._turns(labels[first], labels[second]) if is_whole else 0
                choice = min(choice, (total, largest, turns, first))
        return choice

    def _turns(self, one: int, other: int) -> int:
        """How often axes that only one of two tensors has follow on those of the other one in the output."""
        sides = [one >> label & 1 for label in self.order if (one ^ other) >> label & 1]
        return sum(side != after for side, after in pairwise(sides))


def _submasks(mask: int) -> Iterator[int]:
    part = (mask - 1) & mask
    while part:
        yield part
        part = (part - 1) & mask


def _sizes_of_masks(sizes: tuple[int, ...]) -> Callable[[int], float]:
    """The number of entries of a tensor whose labels are the bits of an integer."""

    @cache
    def entries(mask: int) -> float:
        total = 1.0
        for label, size in enumerate(sizes):
            if mask >> label & 1:
                total *= size
        return total

    return entries


def _path_of_tree(splits: Mapping[int, int], count: int) -> Path:
    """How sets of operands split, as pairs of positions."""
    positions = [1 << k for k in range(count)]
    order, stack = [], [(1 << count) - 1]
    while stack:
        subset = stack.pop()
        if subset in splits:
            order.append(subset)
            stack += [splits[subset], subset ^ splits[subset]]
    path = []
    for subset in reversed(order):
        i, j = sorted((positions.index(splits[subset]), positions.index(subset ^ splits[subset])))
        path.append((i, j))
        positions = [p for k, p in enumerate(positions) if k not in (i, j)] + [subset]
    return tuple(path)


def path_flops(
    inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], path: Path, keys: Sequence[int] | None = None,
    speeds: Speeds = (),
) -> float:  # fmt: skip
    """Operations of a contraction in a given order; equal products count once."""
    terms, total = Multiplication(inputs, output, keys), 0.0
    left: list[Speed | None] = [*speeds] or [None] * len(inputs)
    for i, j in path:
        if not terms.is_made(i, j):
            flops = pair_flops(set(terms.labels[i]) | set(terms.labels[j]), terms.result(i, j), sizes)
            total += flops * pair_speed(left[i], left[j])
        terms.multiply(i, j)
        left = [speed for k, speed in enumerate(left) if k not in (i, j)] + [None]
    return total


def pair_speed(one: Speed | None, other: Speed | None) -> float:
    """By what the operations of a product of two are multiplied; products of operands have no speed of their own."""
    if one is None or other is None:
        return (one or other or PLAIN).times
    return min(one.times, other.times) + (FORMED if one.is_inverse and other.is_inverse else 0.0)


def pair_flops(labels: Collection[int], result: Collection[int], sizes: Mapping[int, int]) -> float:
    """Operations of one product of two tensors: a multiplication an entry, and an addition if there is a sum."""
    total = 1.0
    for label in labels:
        total *= sizes[label]
    return total if set(labels) == set(result) else 2 * total
