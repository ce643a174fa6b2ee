"""Which axes of an expression are related to each other by index maps inside of it, or by the zeros of constants.

A constant with many zeros is a relation too (`functions/sparse_constants.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.index_relations import IndexMap, Lower
from eindiff.core.labels import UnionFind
from eindiff.core.networks import Factor
from eindiff.core.nodes import Add, Constant, Einsum, Expr, Map, Variable, is_index_map, topological
from eindiff.functions.sparse_constants import by_places
from eindiff.program.interpreter import evaluate

Pairs = frozenset[tuple[int, int]]

MOST_KNOWN, MOST_COMPUTED = 2**26, 2**22  # entries of constants that zeros are looked for in
SCATTERED = 2  # times the entries of terms are no more than the places of their sum


class Related:
    """What is known of the axes of expressions, for some sizes."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self._lengths = lengths
        self._pairs: dict[Expr, Pairs] = {}
        self._places: dict[Expr, Expr | None] = {}
        self._extents: dict[Expr, tuple[int, ...]] = {}

    def axes(self, node: Expr) -> frozenset[int]:
        """The axes of a node that index maps relate, or deltas connect, in some of its terms."""
        return frozenset(axis for pair in self.pairs(node) for axis in pair)

    def pairs(self, node: Expr) -> Pairs:
        """The pairs of axes of a node that maps relate to each other, in some of its terms.

        An axis that a map reaches, or is a function of, is a pair with itself.
        """
        if node not in self._pairs:
            self._pairs[node] = self._found(node)
        return self._pairs[node]

    def _found(self, node: Expr) -> Pairs:
        if is_index_map(node):
            return frozenset(combinations_with_replacement(range(node.ndim), 2))
        if (places := self.by_places(node)) is not None:
            return self.pairs(places)
        if isinstance(node, Add):
            return frozenset(pair for term in node.terms for pair in self.pairs(term))
        if not isinstance(node, Einsum):
            return frozenset()
        factors = node.factors
        sets = self.connected(factors)
        reached = {labels[k] for operand, labels in factors for pair in self.pairs(operand) for k in pair}
        axes = [k for k, x in enumerate(node.output) if x in reached or node.output.count(x) > 1]
        both = combinations_with_replacement(axes, 2)
        return frozenset((a, b) for a, b in both if sets.find(node.output[a]) == sets.find(node.output[b]))

    def is_scattered(self, node: Add) -> bool:
        """Whether the terms of a sum have far fewer entries than it has places."""
        return SCATTERED * sum(prod(self._extent(term)) for term in node.terms) <= prod(self._shape(node))

    def _extent(self, node: Expr) -> tuple[int, ...]:
        """At how many places along each axis a node may have entries."""
        if node not in self._extents:
            self._extents[node] = self._found_extent(node)
        return self._extents[node]

    def _found_extent(self, node: Expr) -> tuple[int, ...]:
        shape = self._shape(node)
        if is_index_map(node):
            return (min(shape[0], prod(shape[1:])), *shape[1:])
        if isinstance(node, Add):
            sums = [sum(sizes) for sizes in zip(*map(self._extent, node.terms), strict=True)]
            return tuple([min(both) for both in zip(shape, sums, strict=True)])
        if not isinstance(node, Einsum):
            return shape
        least: dict[int, int] = {}
        factors = node.factors
        for operand, labels in factors:
            for x, size in zip(labels, self._extent(operand), strict=True):
                least[x] = min(size, least.get(x, size))
        for operand, (target, *inputs) in ((x, labels) for x, labels in factors if is_index_map(x)):
            assert isinstance(operand.value, IndexMap)
            least[target] = min(least[target], prod(least[x] for x in inputs))
            if operand.value.injective:
                least |= {x: min(least[x], least[target]) for x in inputs}
        return tuple([min(size, least.get(x, size)) for x, size in zip(node.output, shape, strict=True)])

    def _shape(self, node: Expr) -> tuple[int, ...]:
        return tuple([sz.evaluate(size, self._lengths) for size in node.shape])

    def connected(self, factors: Iterable[Factor]) -> UnionFind:
        """The labels of factors that maps relate to each other."""
        sets = UnionFind()
        for node, labels in factors:
            for a, b in self.pairs(node):
                sets.unite(labels[a], labels[b])
        return sets

    def by_places(self, node: Expr) -> Expr | None:
        """A constant with many zeros as its entries at places."""
        if node not in self._places:
            array = self._array(node) if node.ndim else None
            self._places[node] = None if array is None else by_places(array)
        return self._places[node]

    def _array(self, node: Expr) -> np.ndarray | None:
        if isinstance(node, Constant):
            return node.value if isinstance(node.value, np.ndarray) and node.value.size <= MOST_KNOWN else None
        return np.asarray(evaluate(node, {}, dict(self._lengths))) if self._is_computed(node) else None

    def _is_computed(self, node: Expr) -> bool:
        """Whether an expression is a constant that index maps do not say all about: a choice, or sums up to places."""
        if not isinstance(node, Map | Add | Einsum):
            return False
        if prod(self._shape(node)) > MOST_COMPUTED:
            return False
        inside = topological([node])
        if any(isinstance(x, Variable) for x in inside):
            return False
        return isinstance(node, Map) or any(isinstance(x, Constant) and isinstance(x.value, Lower) for x in inside)
