"""The order of multiplication inside a contraction: which two operands first, and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, combinations, pairwise
from math import factorial, inf
from typing import Any, NamedTuple

from eindiff.core.labels import Labels, components, first_appearance
from eindiff.core.tensor_order import Multiplication, Path, numbered, tensor_order_path
from eindiff.planning.tuning import BEST_LIMIT, NEAR, STACKED, SUBSETS_LIMIT, WRITE

FORMED = 0.7  # of a product with an inverse: what it takes to form another one


class Speed(NamedTuple):
    """By what operations of a product with an operand are multiplied, and whether that is an inverse."""

    times: float = 1.0
    is_inverse: bool = False


PLAIN = Speed()
PERMUTATION = "permutation"
# Diagonals of a band, as a guess where only its array shows them; entries of a row
ENTRIES_IN_ROW = {"tridiagonal": 3, "banded": 7, PERMUTATION: 1}
Speeds = tuple[Speed, ...]


def speed(entries: float, columns: float, is_inverse: bool = False) -> Speed:
    """That of a matrix with so many entries in each of its rows, or of the inverse of one."""
    return Speed(min(1.0, (50 if is_inverse else 16) * entries / max(1, columns)), is_inverse)  # longer than BLAS, each


def contraction_path(
    inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], strategy: str = "auto",
    operands: Sequence | None = None, speeds: Speeds = (),
) -> Path:  # fmt: skip
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
    if is_small:
        found = _best_paths(inputs, output, sizes, keys, speeds, rule)
    else:
        found = [_good_path(inputs, output, sizes, rule)]
    if found == [rule]:
        return rule
    return min([*found, rule], key=lambda path: path_flops(inputs, output, size_of, path, keys, speeds))


def _good_path(inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...], known: Path) -> Path:
    """A path for many operands: the best one within parts that hang together by labels that few operands have, and then
    between these parts; by opt_einsum where that is too much."""
    counts = Counter(label for labels in inputs for label in set(labels))
    near = [{label for label in labels if counts[label] <= NEAR} for labels in inputs]
    neighbours = [sum(1 << k for k, other in enumerate(near) if not own.isdisjoint(other)) for own in near]
    parts = components(near)
    connected = [_connected_subsets(part, neighbours) for part in parts]
    if len(parts) > BEST_LIMIT or None in connected:
        return _heuristic_path(inputs, output, dict(enumerate(sizes)))
    table = _Subsets(inputs, output, sizes)
    whole = [sum(1 << k for k in part) for part in parts]
    unions = [sum(mask for k, mask in enumerate(whole) if chosen >> k & 1) for chosen in range(1, 1 << len(whole))]
    groups = [*filter(None, connected), unions]
    bound = table.bound(known, {*chain.from_iterable(groups)})
    tree: dict[int, int] = {}
    for subsets in groups:
        tree |= table.best(subsets, bound)
    return _path_of_tree(tree, len(inputs))


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


def _best_paths(
    inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...], keys: tuple[int, ...], speeds: Speeds,
    known: Path,
) -> list[Path]:  # fmt: skip
    """The path of least operations, if all count, of which a known one has no fewer; and those of products of two that
    may be equal."""
    table, subsets = _Subsets(inputs, output, sizes, speeds), range(1, 1 << len(inputs))
    tree, whole = table.best(subsets, table.bound(known, subsets)), subsets[-1]
    halves = [half for half in _halves(keys) if {half, whole ^ half} <= table.found.keys()]
    return [_path_of_tree(tree | {whole: half}, len(inputs)) for half in (tree[whole], *halves)]


def _halves(keys: Sequence[int]) -> Iterator[int]:
    """Sets of operands, one of which is the first, of which there is another one each among the others."""
    wanted = {key: count / 2 for key, count in Counter(keys).items()}
    if all(count.is_integer() for count in wanted.values()):
        for rest in combinations(range(1, len(keys)), len(keys) // 2 - 1):
            if Counter([keys[0], *(keys[k] for k in rest)]) == wanted:
                yield sum(1 << k for k in (0, *rest))


def least_flops(inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], operands: Sequence) -> float:
    """Operations that every order of multiplication takes; 0 if there are too many operands to know it.

    Some operands may be the same tensor. Equal products are of different operands, and count once: so each counts for
    one part of as many as there are of its rarest operand. Of one that is symmetric a half counts, and of more axes one
    part of as many as there are orders of them.
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
        kept = [label for label in range(len(sizes)) if labels[subset] >> label & 1]
        if _is_symmetric([(operands[k], inputs[k]) for k in inside], kept):
            shared *= max(2, factorial(labels[subset].bit_count()))
        for first in filter(None, _submasks(subset)):
            met = labels[first] | labels[subset ^ first]
            flops = table.entries(met) * (2.0 if table.entries(met) > table.entries(labels[subset]) else 1.0)
            least = min(least, flops / shared + found[first] + found[subset ^ first])
        found[subset] = least
    return found[(1 << len(inputs)) - 1]


def _copies(inside: Sequence, operands: Sequence) -> int:
    """How many products of one contraction may be that of some of its operands at most."""
    everywhere = Counter(operands)
    return min(everywhere[operand] // count for operand, count in Counter(inside).items())


def _is_symmetric(factors: Sequence[tuple[Any, Labels]], kept: Collection[int]) -> bool:
    """Whether a product stays as it is if labels that it keeps change places, and others maybe with them."""

    def moved(left: Sequence[tuple[Any, Labels]], free: list[tuple[Any, Labels]], names: dict[int, int]) -> bool:
        if not left:
            images = {names[label] for label in kept}
            return images == set(kept) and any(names[label] != label for label in kept)
        (operand, labels), *rest = left
        return any(
            moved(rest, [*free[: free.index(other)], *free[free.index(other) + 1 :]], names | more)
            for other in dict.fromkeys(free)
            if other[0] == operand and (more := _matched(labels, other[1], names)) is not None
        )

    return len({operand for operand, _ in factors}) < len(factors) and moved(factors, [*factors], {})


def _matched(labels: Labels, others: Labels, names: dict[int, int]) -> dict[int, int] | None:
    """What labels are called if they are to be others, besides those that have names already; None if they cannot."""
    more: dict[int, int] = {}
    for label, other in zip(labels, others, strict=True):
        if (names | more).get(label, other) != other or other in {y for x, y in (names | more).items() if x != label}:
            return None
        more[label] = other
    return more


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

    def best(self, subsets: Iterable[int], bound: float = inf) -> dict[int, int]:
        """For each set of two or more operands one of the two sets that it is best made of, both given or known.

        Sets that take more than the bound are left out: what has them as a part takes more, too.
        """
        splits: dict[int, int] = {}
        labels: dict[int, int] = {}
        highest: dict[int, list[int]] = {}  # the sets that are made, by their last operand
        for subset in sorted({*subsets, *self.found}, key=int.bit_count):
            labels[subset] = self.labels(subset)
            parts = highest.setdefault(subset.bit_length(), [])
            if subset not in self.found:
                choice = (0.0, 0.0, 0, 0)
                if subset & (subset - 1):
                    choice = self._choice(subset, parts, labels, bound)
                    splits[subset] = choice[-1]
                if choice[0] > bound or choice[0] == inf:
                    continue
                self.found[subset] = choice[:2]
            parts.append(subset)
        return splits

    def _choice(
        self, subset: int, parts: Sequence[int], labels: Mapping[int, int], bound: float
    ) -> tuple[float, float, int, int]:
        """The best way to make a set of operands of two: its cost, its largest intermediate, how often axes of the two
        take turns in the output, and the one of the two that has the last operand."""
        own, found, choice = self.entries(labels[subset]), self.found, (inf, inf, 0, 0)
        if (written := WRITE * own) > bound:
            return choice
        is_whole, highest = subset == (1 << len(self.masks)) - 1, 1 << subset.bit_length() - 1
        if 1 << subset.bit_count() - 1 < len(parts):
            parts = [highest | part for part in _submasks(subset ^ highest)]
        for first in parts:
            second = subset ^ first
            if first & subset != first:
                continue
            one, other = found.get(first), found.get(second)
            if one is None or other is None or one[0] + other[0] + written > choice[0]:
                continue
            total = one[0] + other[0] + (self._flops(first, second, labels) + written)
            largest = max(own, one[1], other[1])
            if (total, largest) <= choice[:2]:
                turns = self._turns(labels[first], labels[second]) if is_whole else 0
                choice = min(choice, (total, largest, turns, first))
        return choice

    def _flops(self, first: int, second: int, labels: Mapping[int, int]) -> float:
        """The operations of the product of two sets."""
        met, made = labels[first] | labels[second], labels[first | second]
        stacked = met != made and labels[first] & labels[second] & made
        flops = self.entries(met) * (STACKED if stacked else 2.0 if met != made else 1.0)
        return flops * pair_speed(self.speeds.get(first), self.speeds.get(second)) if self.speeds else flops

    def bound(self, path: Path, subsets: Collection[int]) -> float:
        """What a path takes that makes none but some sets: the best one with these takes no more."""
        sets, total = [1 << k for k in range(len(self.masks))], 0.0
        labels = {one: self.labels(one) for one in sets}
        for i, j in numbered(path, len(sets)):
            sets.append(whole := sets[i] | sets[j])
            if whole not in subsets:
                return inf
            labels[whole] = self.labels(whole)
            total += self._flops(sets[i], sets[j], labels) + WRITE * self.entries(labels[whole])
        return total * (1 + 1e-9)  # sums in another order are rounded in another way

    def _turns(self, one: int, other: int) -> int:
        """How often axes that only one of two tensors has follow on those of the other one in the output."""
        sides = [one >> label & 1 for label in self.order if (one ^ other) >> label & 1]
        return sum(side != after for side, after in pairwise(sides))


def _submasks(mask: int) -> Iterator[int]:
    """The sets that are part of one, without itself: the empty one is."""
    part = mask
    while part:
        part = (part - 1) & mask
        yield part


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
    for i, j in numbered(path, len(inputs)):
        if not terms.is_made(i, j):
            flops = pair_flops(set(terms.labels[i]) | set(terms.labels[j]), terms.result(i, j), sizes)
            total += flops * pair_speed(left[i], left[j])
        terms.multiply(i, j)
        left.append(None)
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
