"""The paper's order of multiplication inside a contraction: by the orders of tensors, whatever their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.core.labels import Labels, first_appearance

Path = tuple[tuple[int, ...], ...]


class Multiplication:
    """The operands of a contraction while it is carried out: their labels, and keys that tell equal products."""

    def __init__(self, inputs: Sequence[Labels], output: Labels, keys: Sequence[int] | None) -> None:
        self.labels = list(inputs)
        self.output = output
        self.keys: list = list(range(len(inputs)) if keys is None else keys)
        self.is_repeated = len(set(self.keys)) < len(self.keys)  # else no products are equal
        self._made: set = set()

    def result(self, i: int, j: int) -> Labels:
        """The labels that the product of two terms keeps: those of the output and of the other terms."""
        kept = set(self.output).union(*(labels for k, labels in enumerate(self.labels) if k not in (i, j)))
        return tuple([x for x in dict.fromkeys(self.labels[i] + self.labels[j]) if x in kept])

    def key(self, i: int, j: int) -> tuple:
        """What the product of two terms is known by: the terms, and how their labels meet."""
        pair = sorted([(repr(self.keys[i]), self.labels[i]), (repr(self.keys[j]), self.labels[j])])
        names = first_appearance(labels for _, labels in pair)
        kept = tuple(sorted(names[x] for x in self.result(i, j)))
        return (*[(key, tuple([names[x] for x in labels])) for key, labels in pair], kept)

    def is_made(self, i: int, j: int) -> bool:
        """Whether an equal product was made before."""
        return self.is_repeated and self.key(i, j) in self._made

    def multiply(self, i: int, j: int) -> None:
        """Put the product of two terms at the end, in their place."""
        result, key = self.result(i, j), self.key(i, j) if self.is_repeated else None
        self._made.add(key)
        self.labels = [x for k, x in enumerate(self.labels) if k not in (i, j)] + [result]
        self.keys = [x for k, x in enumerate(self.keys) if k not in (i, j)] + [key]


def tensor_order_path(inputs: Sequence[Labels], output: Labels, keys: Sequence[int] | None = None) -> Path:
    """The paper's rule: multiply vectors first, then matrices, and so on; among equals, the smallest result first.

    A product that was made before comes before all.
    """
    terms, path = Multiplication(inputs, output, keys), []
    while (count := len(terms.labels)) > 1:
        ranked = []
        for i in range(count):
            for j in range(i + 1, count):
                first, second = terms.labels[i], terms.labels[j]
                apart = not set(first) & set(second)
                orders = sorted((len(first), len(second)), reverse=True)
                ranked.append((not terms.is_made(i, j), apart, orders, len(terms.result(i, j)), i, j))
        *_, i, j = min(ranked)
        path.append((i, j))
        terms.multiply(i, j)
    return tuple(path)
