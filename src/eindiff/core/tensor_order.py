"""The paper's order of multiplication inside a contraction: by the orders of tensors, whatever their sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations

from eindiff.core.labels import Labels, first_appearance

Path = tuple[tuple[int, ...], ...]


class Multiplication:
    """The operands of a contraction and the products made of them, in the order in which they come: their labels, and
    keys that tell equal products.

    What a product of two terms keeps does not depend on what else was multiplied: a label that a third one has stays.
    """

    def __init__(self, inputs: Sequence[Labels], output: Labels, keys: Sequence[int] | None) -> None:
        self.labels = list(inputs)
        self.output = set(output)
        self.keys = list(range(len(inputs)) if keys is None else keys)
        self.is_repeated = len(set(self.keys)) < len(self.keys)  # else no products are equal
        self._uses = Counter([label for labels in inputs for label in set(labels)])
        self._made: dict[tuple, int] = {}

    def result(self, i: int, j: int) -> Labels:
        """The labels that the product of two terms keeps: those of the output and of the other terms."""
        first, second, output, uses = self.labels[i], self.labels[j], self.output, self._uses
        both = dict.fromkeys(first + second)
        return tuple([x for x in both if x in output or uses[x] > (x in first) + (x in second)])

    def key(self, i: int, j: int) -> tuple:
        """What the product of two terms is known by: the terms, and how their labels meet."""
        pair = sorted([(self.keys[i], self.labels[i]), (self.keys[j], self.labels[j])])
        names = first_appearance(labels for _, labels in pair)
        kept = tuple(sorted([names[x] for x in self.result(i, j)]))
        return (*[(key, tuple([names[x] for x in labels])) for key, labels in pair], kept)

    def is_made(self, i: int, j: int) -> bool:
        """Whether an equal product was made before."""
        return self.is_repeated and self.key(i, j) in self._made

    def multiply(self, i: int, j: int) -> None:
        """Put the product of two terms at the end."""
        first, second, result, new = self.labels[i], self.labels[j], self.result(i, j), len(self.labels)
        self.keys.append(self._made.setdefault(self.key(i, j), -new) if self.is_repeated else -new)
        self.labels.append(result)
        self._uses.subtract([*dict.fromkeys(first), *dict.fromkeys(second)])
        self._uses.update(result)


def numbered(path: Path, count: int) -> Iterator[tuple[int, int]]:
    """The pairs of a path by their numbers: of operands, and of products in the order in which they come."""
    left = list(range(count))
    for new, (i, j) in enumerate(path, count):
        yield left[i], left[j]
        left = [x for k, x in enumerate(left) if k not in (i, j)] + [new]


def tensor_order_path(inputs: Sequence[Labels], output: Labels, keys: Sequence[int] | None = None) -> Path:
    """The paper's rule: multiply vectors first, then matrices, and so on; among equals, the smallest result first.

    A product that was made before comes before all. Pairs wait in a heap, as of each product only its own are new.
    """
    terms, path, left = Multiplication(inputs, output, keys), [], list(range(len(inputs)))
    equal: dict[tuple, list[tuple]] = {}  # pairs by what their product is known by

    def rank(i: int, j: int) -> tuple:
        first, second = terms.labels[i], terms.labels[j]
        apart = set(first).isdisjoint(second)
        orders = sorted((len(first), len(second)), reverse=True)
        ranked = (apart, orders, len(terms.result(i, j)), i, j)
        if terms.is_repeated:
            equal.setdefault(terms.key(i, j), []).append(ranked)
        return (not terms.is_made(i, j), *ranked)

    ranked = [rank(i, j) for i, j in combinations(left, 2)]
    heapify(ranked)
    while len(left) > 1:
        *_, i, j = heappop(ranked)
        if i not in left or j not in left:
            continue
        path.append((left.index(i), left.index(j)))
        for other in equal.pop(terms.key(i, j), ()) if terms.is_repeated else ():
            heappush(ranked, (False, *other))
        new = len(terms.labels)
        terms.multiply(i, j)
        left = [k for k in left if k not in (i, j)]
        for k in left:
            heappush(ranked, rank(k, new))
        left.append(new)
    return tuple(path)
