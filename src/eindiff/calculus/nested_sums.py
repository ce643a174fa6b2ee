"""Sums of large expressions, derived by way of the sums that are parts of them.

The canonical form has no sums in sums: a residual stream x, x + a, x + a + b, ... has a term more in each, and a would
have a derivative by each of them. Derivatives of large expressions go from a sum to the largest sum that is a part of
it, and long ones are kept apart in the sums that they are used in: so the work grows with what was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eindiff.core import construct
from eindiff.core.nodes import Add, Expr
from eindiff.core.partial_sums import Part, Parts, common_sums, partial_sums

LARGE = 50  # nodes of an expression from which on this is done: nobody reads its derivatives
LONGEST = 4  # terms of a derivative that others take in


class NestedSums:
    """The sums among some nodes, as multiples of other sums and the terms that are left.

    Those with deltas or relations, over which others are distributed, stay as they are, and all in small expressions.
    """

    def __init__(self, order: Sequence[Expr]) -> None:
        self.is_large = len(order) >= LARGE
        sums = [x for x in order if isinstance(x, Add) and construct.is_dense(x)] if self.is_large else []
        self.parts: dict[Expr, Parts] = partial_sums(list(dict.fromkeys([*sums, *common_sums(sums)])))

    def children(self, node: Expr) -> Sequence[Expr]:
        """What a node is made of."""
        if (parts := self.parts.get(node)) is None:
            return node.children
        return [*(part.node for part in parts.sums), *parts.rest]

    def pushforward(self, node: Expr, dots: Mapping[Expr, Expr]) -> list[Expr]:
        """What the pushforwards of its parts contribute to that of a sum."""
        parts = self.parts[node]
        moved = [_moved_forward(part, dots[part.node]) for part in parts.sums if part.node in dots]
        return [*moved, *(dots[term] for term in parts.rest if term in dots)]

    def pullback(self, node: Expr, bar: Expr, index: int) -> Expr:
        """What a sum contributes to the pullback of one of its parts, or of a term that is left."""
        sums = self.parts[node].sums
        return _moved_back(sums[index], bar) if index < len(sums) else bar

    def total(self, terms: Sequence[Expr]) -> Expr:
        """The sum of terms; in a large expression a long one is kept apart."""
        total = construct.add(terms)
        for node, _ in construct.parts(total)[1] if self.is_large else ():
            if isinstance(node, Add) and len(node.terms) > LONGEST and construct.is_dense(node):
                return construct.sealed(total)  # if it is a multiple of that sum
        return total


def _moved_forward(part: Part, dot: Expr) -> Expr:
    """The derivative of a multiple of a sum with its axes in another order; those of the variable come last."""
    axes = (*part.axes, *range(len(part.axes), dot.ndim))
    return construct.scale(part.factor, construct.transpose(dot, axes))


def _moved_back(part: Part, bar: Expr) -> Expr:
    """The derivative by a sum from that by a multiple of it; the axes of the function come first."""
    first = bar.ndim - len(part.axes)
    axes = (*range(first), *(first + part.axes.index(axis) for axis in range(len(part.axes))))
    return construct.scale(part.factor, construct.transpose(bar, axes))
