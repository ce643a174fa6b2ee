"""Derivatives as graphs of multiplications of two tensors: what is multiplied with what, in which order.

The canonical form of an expression leaves the order inside a product open. Here it is laid down, by nodes that are not
canonical: in reverse mode as the paper's Theorems 8 to 10 multiply, from the function to the variable and beginning
with a unit tensor, and in cross-country mode in order of increasing tensor order, with unit tensors at the end.
Both graphs can be evaluated like other expressions, and have the same value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from math import prod
from typing import Any

from eindiff.calculus.chain_rule import depends, pullback, swept_back, unit
from eindiff.calculus.derive import derivative
from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels, first_appearance
from eindiff.core.nodes import (
    Add,
    Apply,
    Einsum,
    Expr,
    Map,
    Number,
    Variable,
    intern,
    number,
    plain,
    remember,
    topological,
)
from eindiff.core.sizes import Size
from eindiff.core.tensor_order import tensor_order_path
from eindiff.text.layouts import arrange

Choose = Callable[[Sequence[Factor], Labels], tuple[int, int]]  # which two of some factors are multiplied next


class Multiplications:
    """Makes the nodes; equal ones are the same node, and graphs that are made by one maker can be compared."""

    def __init__(self) -> None:
        self._made: dict[tuple[Hashable, ...], Expr] = {}
        self._expanded: dict[Expr, Expr] = {}
        self._source: dict[Expr, Expr] = {}  # the canonical node of one that has other arguments
        self._from_above: set[Expr] = set()  # what has a pullback in it
        self._names = count()

    # The two graphs

    def cross_country(self, function: Expr, by: Sequence[Variable], layout: str, symmetric: str) -> Expr:
        """The derivative, multiplied in order of increasing tensor order."""
        made = derivative(function, *by, mode="cross_country", symmetric=symmetric) if by else function
        return self._result(arrange(made, function.ndim, [x.ndim for x in by], layout).expr)

    def reverse(self, function: Expr, by: Sequence[Variable], layout: str, symmetric: str) -> Expr:
        """The derivative, multiplied from the function to the last variable."""
        if not by:
            return self._result(function)
        lower = derivative(function, *by[:-1], mode="reverse", symmetric=symmetric) if by[1:] else function
        stand_in = self._stand_in(self._pulled_back(lower, by[-1]))
        projected = _projected(stand_in, by[-1], symmetric)
        return self._result(arrange(projected, function.ndim, [x.ndim for x in by], layout).expr)

    def _result(self, expr: Expr) -> Expr:
        """An expanded expression; if it is a multiple of a product, or a transposed one, that product is made so."""
        made = self.expanded(plain(expr))
        if isinstance(made, Einsum) and len(made.operands) == 1:
            inner = _product_inside(made.operands[0], made.labels[0], made.output)
            return made if inner is None else self.multiplied(made.coefficient * inner[0], *inner[1:])
        return made

    def _pulled_back(self, y: Expr, x: Variable) -> Expr:
        """Reverse mode, from a unit tensor."""
        top = self.expanded(plain(y))
        order, active = depends([top], [x])
        bars = swept_back(order, active, {top: [unit(y)]}, self.total, self._pullback)
        return bars[x] if x in bars else construct.filled(0, y.shape + x.shape)

    def _pullback(self, node: Expr, bar: Expr, index: int) -> Expr | None:
        """The theorems of the chain rule, the pullback being the first factor; functions know canonical nodes only."""
        canonical = self._source.get(node, node)
        if isinstance(node, Apply):
            made = pullback(canonical, self._stand_in(bar), index)
            return None if made is None else self.expanded(made)
        return pullback(canonical, bar, index, self._in_turn)

    def _in_turn(self, coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: dict[int, Size]) -> Expr:
        made = [(self.expanded(node), labels) for node, labels in factors]
        return self.product(coefficient, made, output, sizes, in_turn)

    def _stand_in(self, node: Expr) -> Variable:
        """A variable in the place of a node, for functions that make canonical expressions."""
        name, empty = f"bar {next(self._names)}", frozenset[str]()
        made: Variable = intern(
            Variable, (name, node.shape), name=name, shape=node.shape, properties=empty, symmetries=()
        )
        self._expanded[made] = node
        self._from_above.add(made)
        return made

    # Nodes

    def expanded(self, expr: Expr) -> Expr:
        """An expression with products of two factors only."""
        for node in topological([expr]):
            if node not in self._expanded:
                self._expanded[node] = self._expand(node)
                if any(child in self._from_above for child in node.children):
                    self._from_above.add(node)
        return self._expanded[expr]

    def _expand(self, node: Expr) -> Expr:
        children = [self._expanded[child] for child in node.children]
        match node:
            case Einsum() if node.operands:
                above = [child in self._from_above for child in node.children]
                own = zip(above, children, node.labels, strict=True)
                factors = [(x, labels) for _, x, labels in sorted(own, key=lambda one: not one[0])]
                choose = in_turn if any(above) else by_tensor_order
                return self.product(node.coefficient, factors, node.output, dict(enumerate(node.sizes)), choose)
            case Add():
                return self.total(children)
            case Map() | Apply():
                if all(new is old for new, old in zip(children, node.children, strict=True)):
                    return node
                batch = {"batch": node.batch} if isinstance(node, Apply) else {}
                made = self._node(
                    type(node), (node.function.identity, *children, *batch.values()), function=node.function,
                    args=tuple(children), shape=node.shape, **batch,
                )  # fmt: skip
                self._source.setdefault(made, node)
                return made
        return node

    def total(self, terms: Sequence[Expr]) -> Expr:
        """A sum; equal terms are one with a factor."""
        found = Counter(terms)
        several = [self._multiple(times, term) for term, times in found.items()]
        several = [term for term in several if not construct.is_zero(term)] or several[:1]
        if len(several) == 1:
            return several[0]
        return self._node(Add, (frozenset(several),), terms=tuple(several), shape=several[0].shape)

    def _multiple(self, factor: Number, node: Expr) -> Expr:
        own = tuple(range(node.ndim))
        return self.multiplied(factor, [(node, own)], own, dict(enumerate(node.shape)))

    def product(
        self, coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: dict[int, Size], choose: Choose
    ) -> Expr:
        """A product of any number of factors; a label that the output has several times is a unit tensor of its own."""
        if any(construct.is_zero(node) for node, _ in factors):
            return construct.filled(0, tuple([sizes[label] for label in output]))
        coefficient, left = _without_numbers(coefficient, factors, output)
        output, units = _units(output, sizes)
        while left and len(left) + len(units) > 2:
            if len(left) > 1:
                i, j = choose(left, output)
                pair, left = [left[i], left[j]], [factor for k, factor in enumerate(left) if k not in (i, j)]
            else:  # unit tensors at the end
                pair, left, units = [left[0], units[0]], [], units[1:]
            kept = _kept(pair, left, output)
            made = self.multiplied(1 if left else coefficient, pair, kept, sizes)
            coefficient = coefficient if left else 1
            left = [(made, kept), *left]
        return self.multiplied(coefficient, [*left, *units], output, sizes)

    def multiplied(
        self, coefficient: Number, factors: Sequence[Factor], output: Labels, sizes: dict[int, Size]
    ) -> Expr:
        """One multiplication, transpositions and numbers included; a unit tensor that changes nothing is left out."""
        opened = [_opened(factor) for factor in factors]
        coefficient = number(prod((part for part, _ in opened), start=coefficient))
        pair, names = _without_unit([factor for _, factor in opened], output)
        output = tuple([names.get(label, label) for label in output])
        if coefficient == 1 and len(pair) == 1 and pair[0][1] == output:
            return pair[0][0]
        if len(output) > 2 and len(pair) == 1 and (inner := _product_inside(*pair[0], output)) is not None:
            return self.multiplied(coefficient * inner[0], *inner[1:])
        turned = _einsum(coefficient, pair[::-1], output, sizes)
        if (Einsum, *turned.values()) in self._made:  # factors commute
            return self._node(Einsum, tuple(turned.values()), **turned)
        fields = _einsum(coefficient, pair, output, sizes)
        return self._node(Einsum, tuple(fields.values()), **fields)

    def _node(self, kind: type, key: tuple[Hashable, ...], **fields: Any) -> Expr:
        """The one node of its kind that is made of these."""
        key = (kind, *key)
        if key not in self._made:
            made: Any = object.__new__(kind)  # past the constructors, which make canonical nodes
            for name, value in {**fields, "symmetries": (), "digest": b"graph %d" % len(self._made)}.items():
                remember(made, name, value)
            self._made[key] = self._expanded[made] = made
        return self._made[key]


# In which order


def in_turn(factors: Sequence[Factor], output: Labels) -> tuple[int, int]:
    """What is there already, and the smallest factor that it shares a label with."""
    own = set(factors[0][1])
    ranked = [(not own & set(labels), len(labels), k) for k, (_, labels) in enumerate(factors) if k]
    return 0, min(ranked)[-1]


def by_tensor_order(factors: Sequence[Factor], output: Labels) -> tuple[int, int]:
    """The paper's rule: vectors first, then matrices, and so on."""
    i, j = tensor_order_path([labels for _, labels in factors], output)[0]
    return i, j


def _projected(prime: Variable, x: Variable, symmetric: str) -> Expr:
    """What a derivative becomes for a symmetric variable: the derivative of its inner product with x."""
    labels = tuple(range(prime.ndim))
    before = labels[: prime.ndim - x.ndim]
    factors = [(prime, labels), (x, labels[len(before) :])]
    inner = construct.einsum(1, factors, before, dict(enumerate(prime.shape)))
    return derivative(inner, x, symmetric=symmetric)


# Parts of products


def _einsum(coefficient: Number, pair: Sequence[Factor], output: Labels, sizes: dict[int, Size]) -> dict[str, Any]:
    """What an Einsum node has, with labels named in the order in which they are first seen."""
    names = first_appearance([*(labels for _, labels in pair), output])
    labels = tuple([tuple([names[x] for x in own]) for _, own in pair])
    ends = tuple([names[x] for x in output])
    by_name = tuple([sizes[x] for x in names])
    bound = {x for own in labels for x in own}
    return {
        "coefficient": coefficient,
        "operands": tuple([node for node, _ in pair]),
        "labels": labels,
        "output": ends,
        "sizes": by_name,
        "shape": tuple([by_name[x] for x in ends]),
        "is_product": bound <= set(ends),
    }


def _kept(pair: Sequence[Factor], rest: Sequence[Factor], output: Labels) -> Labels:
    """The labels that a product keeps: those of the output, in its order, and of the factors that are left."""
    own = dict.fromkeys(label for _, labels in pair for label in labels)
    outside = {*output, *(label for _, labels in rest for label in labels)}
    place = {label: k for k, label in reversed(list(enumerate(output)))}
    return tuple(sorted([x for x in own if x in outside], key=lambda x: place.get(x, -1)))


def _units(output: Labels, sizes: dict[int, Size]) -> tuple[Labels, list[Factor]]:
    """The output with different labels, and a unit tensor for each label that it had several times."""
    fresh = count(1 + max(sizes, default=0))
    several: dict[int, list[int]] = {}
    changed = []
    for label in output:
        own = several.setdefault(label, [])
        own.append(next(fresh) if own else label)
        sizes[own[-1]] = sizes[label]
        changed.append(own[-1])
    units = [
        (construct.einsum(1, [], (0,) * len(own), {0: sizes[label]}), tuple(own))
        for label, own in several.items()
        if len(own) > 1
    ]
    return tuple(changed), units


def _without_numbers(coefficient: Number, factors: Sequence[Factor], output: Labels) -> tuple[Number, list[Factor]]:
    """The factors without those that are one number everywhere, whose labels others have."""
    left = list(factors)
    for factor in factors:
        others = {*output, *(x for other in left if other is not factor for x in other[1])}
        if construct.is_number(factor[0]) and others.issuperset(factor[1]):
            left = [other for other in left if other is not factor]
            coefficient = number(coefficient * factor[0].coefficient)
    return coefficient, left


def _opened(factor: Factor) -> tuple[Number, Factor]:
    """A factor that only transposes another one, or takes a multiple of it, as that one."""
    node, labels = factor
    if not isinstance(node, Einsum) or len(node.operands) != 1 or sorted(node.labels[0]) != sorted(node.output):
        return 1, factor
    if len(set(node.output)) < len(node.output):
        return 1, factor
    names = dict(zip(node.output, labels, strict=True))
    return node.coefficient, (node.operands[0], tuple([names[x] for x in node.labels[0]]))


def _product_inside(
    node: Expr, labels: Labels, output: Labels
) -> tuple[Number, list[Factor], Labels, dict[int, Size]] | None:
    """A transposed product as a product: its coefficient, factors, output and sizes."""
    if not (isinstance(node, Einsum) and len(node.operands) == 2 and sorted(labels) == sorted(output)):
        return None
    if len(set(output)) < len(output):
        return None
    names = dict(zip(labels, node.output, strict=True))
    return node.coefficient, node.factors, tuple([names[x] for x in output]), dict(enumerate(node.sizes))


def _without_unit(pair: list[Factor], output: Labels) -> tuple[list[Factor], dict[int, int]]:
    """The factors without a unit tensor of which one side is summed over, and what labels are called then."""
    if len(pair) == 2:
        for k, (node, labels) in enumerate(pair):
            other, theirs = pair[1 - k]
            half = len(labels) // 2
            if not (isinstance(node, Einsum) and not node.operands and node.coefficient == 1 and labels):
                continue
            if node.output != tuple(range(half)) * 2 or len(set(labels)) < len(labels):
                continue
            for gone, stays in ((labels[:half], labels[half:]), (labels[half:], labels[:half])):
                names = dict(zip(gone, stays, strict=True))
                if set(gone) <= set(theirs) and not set(gone) & set(output) and not set(stays) & set(theirs):
                    return [(other, tuple([names.get(x, x) for x in theirs]))], names
    return pair, {}
