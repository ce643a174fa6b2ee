"""Hessians of recurrences by several variables: the sweep for the gradient, derived along all entries side by side.

A reverse sweep of the gradient by each variable has as many nodes as the gradients together, for each variable again.
That pays where a variable is used once, as the weights of a layer are: its derivative is an outer product. The weights
of a recurrence meet in each turn what they have moved in all turns before, so that nothing of that form is left. There
the entries of all variables are numbered, and a node has one derivative by that number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from eindiff.calculus.chain_rule import (
    Joined,
    depends,
    nested,
    pullback,
    pullback_multiplication,
    pushforward,
    pushforward_multiplication,
    pushforwards,
    swept_forward,
)
from eindiff.calculus.second_order import KINKS, elementwise_second
from eindiff.calculus.spectra.closing import SPECTRAL
from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import add, einsum
from eindiff.core.einsums import transpose
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Apply, Einsum, Expr, Map, Variable, is_contraction, plain
from eindiff.core.rebuild import substituted
from eindiff.core.sizes import Size
from eindiff.core.traverse import post_order
from eindiff.functions.opaque import REGISTRY

TURNS = 3  # in which an operand meets what it has moved before, in a recurrence
OPERANDS = 64  # of contractions that are looked at, those that are used most often
# Of all variables; for more, a sweep of each gradient takes as long to run, and to find. Many take as many sweeps.
MOST_ENTRIES, MOST_OF_MANY, MANY = 4096, 8192, 6
CALL_ENTRIES = 2000  # entries that are computed in the time that a call takes
NODES_OF_STEPS = 10  # nodes for each variable, of functions that are steps one after the other, as those of a solver


def is_smooth(f: Expr, xs: Sequence[Variable]) -> bool:
    """Whether derivatives are those of each node alone, and second ones the same in any order: not at kinks, through
    eigenvalues, and by rules of other libraries."""
    order, moving = depends([f], xs)
    functions = {node.function.name for node in order if isinstance(node, Map | Apply) and node in moving}
    return functions.isdisjoint((*KINKS, *SPECTRAL)) and not any(name in REGISTRY for name in functions)


def is_recurrence(f: Expr, xs: Sequence[Variable]) -> bool:
    """Whether most entries of several variables are used again and again, in contractions one after the other."""
    if len(xs) < 2 or not all(isinstance(size, int) for x in xs for size in x.shape):
        return False
    order, moving = depends([f], xs)
    uses = Counter(child for node in order for child in node.children if child in moving)
    often, entries = sum(_entries(x) for x in xs if uses[x] >= TURNS), sum(map(_entries, xs))
    if entries > min(2 * often, MOST_OF_MANY if len(xs) >= MANY else MOST_ENTRIES):
        return False
    factors = Counter(child for node in order if is_contraction(node) for child in node.children if child in moving)
    again = [x for x, count in factors.most_common(OPERANDS) if count >= TURNS]
    return any(_turns(x, order) >= TURNS for x in again)


def is_of_small_arrays(f: Expr, xs: Sequence[Variable]) -> bool:
    """Whether the calls of a sweep for each of some variables take longer than the entries of one sweep for all.

    Not where there is but a product and a function for each two variables: derivatives of such chains are outer
    products, which take few calls. Of few variables where there are many nodes, as in the steps of a solver.
    """
    order, moving = depends([f], xs)
    between = [node for node in order if node in moving and not isinstance(node, Variable)]
    if len(xs) < 2 or len(between) <= (2 if len(xs) >= MANY else NODES_OF_STEPS) * len(xs):
        return False
    if not all(isinstance(size, int) for node in (*between, *xs) for size in node.shape):
        return False
    return max(map(_entries, between)) * sum(map(_entries, xs)) <= CALL_ENTRIES * len(xs)


def _turns(x: Expr, order: Iterable[Expr]) -> int:
    """How many contractions with an operand there are at most one after the other."""
    before: dict[Expr, int] = {x: 0}
    for node in order:
        known = [before[child] for child in node.children if child in before]
        if known and node is not x:
            before[node] = max(known) + (is_contraction(node) and x in node.operands)
    return max(before.values())


def _entries(x: Expr) -> int:
    return int(sz.product(x.shape))


def side_by_side(f: Expr, xs: Sequence[Variable]) -> dict[Expr, Expr]:
    """The derivatives of the gradients of f along the numbers of all entries, which are the first axis: none if 0."""
    _, moving = depends([f], xs)
    seeds: dict[Expr, Expr] = {x: transpose(n, (*range(1, n.ndim), 0)) for x, n in numbered(xs).items()}
    return _Sweep(plain(f), moving, seeds).back()


class _Sweep:
    """A forward sweep along some directions, the reverse sweep, and its derivative along these directions.

    Each pullback is a node of its own here, whatever is multiplied with it: in the gradients it is a factor of many
    products, and each of these would be derived again. So is a product of what stands side by side in contractions:
    `h = o t` in all `W h`, of which none has the node h.
    """

    def __init__(self, f: Expr, moving: set[Expr], seeds: Mapping[Expr, Expr]) -> None:
        self.f, self.moving = f, moving
        self.products: dict[Expr, Joined] = {}
        self.order = post_order([f], self._children)
        # Derivatives of nodes along the directions, which are the last axis.
        self.dots = swept_forward(self.order, moving, seeds, self._pushforward)

    def _children(self, node: Expr) -> Sequence[Expr]:
        if node not in self.moving or not isinstance(node, Einsum):
            return node.children if node in self.moving else ()
        if node not in self.products:
            self.products[node] = self._joined(node)
        return self.products[node].operands

    def _joined(self, node: Einsum) -> Joined:
        """A contraction with those operands as one that move along the same axes."""
        factors = node.factors
        together = {labels: [x for x, at in factors if at == labels and x in self.moving] for _, labels in factors}
        if is_contraction(node) and len(together) > 1:
            for labels, group in together.items():
                if len(group) > 1:
                    own = tuple(range(len(labels)))
                    product = einsum(1, [(x, own) for x in group], own, dict(enumerate(group[0].shape)))
                    self.moving.add(product)
                    factors = [(x, at) for x, at in factors if at != labels or x not in group]
                    factors.append((product, labels))
        operands, at = [x for x, _ in factors], [labels for _, labels in factors]
        return Joined(node.coefficient, tuple(operands), tuple(at), node.output, node.sizes)

    def _pushforward(self, node: Expr, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
        if node in self.products:
            return pushforward_multiplication(self.products[node], dots, extra)
        return pushforward(node, dots, extra)

    def back(self) -> dict[Expr, Expr]:
        """The derivatives of the pullbacks of all nodes; the directions are their first axis."""
        terms: dict[Expr, list[Expr]] = {self.f: [construct.filled(1, ())]}
        moved: dict[Expr, list[Expr]] = {}
        slopes: dict[Expr, Expr] = {}
        for node in reversed(self.order):
            if node not in self.moving or node not in terms:
                continue
            bar = add(terms.pop(node))
            if (curved := moved.pop(node, None)) and not construct.is_zero(slope := add(curved)):
                slopes[node] = slope
            for index, child in enumerate(self._children(node)):
                if child in self.moving and (term := self._pullback(node, bar, index)) is not None:
                    terms.setdefault(child, []).append(term)
                    along = [self._pullback(node, slopes[node], index)] if node in slopes else []
                    along += self._curved(node, bar, index)
                    moved.setdefault(child, []).extend([x for x in along if x is not None])
        return slopes

    def _pullback(self, node: Expr, bar: Expr, index: int) -> Expr | None:
        if node in self.products:
            return pullback_multiplication(self.products[node], bar, index)
        return pullback(node, bar, index)

    def _curved(self, node: Expr, bar: Expr, index: int) -> list[Expr]:
        """What the pullback of a node contributes to that of a child, derived along what all children do."""
        match node:
            case Einsum():
                return self._of_multiplication(node, bar, index)
            case Map():
                return self._of_elementwise(node, bar, index)
            case Apply():
                return self._of_general(node, bar, index)
        return []

    def _of_multiplication(self, node: Einsum, bar: Expr, index: int) -> list[Expr]:
        own, new = self.products[node], len(node.sizes)
        factors, found = own.factors, []
        for k, (operand, labels) in enumerate(factors):
            if k != index and operand in self.dots:
                dot = self.dots[operand]
                others = [factor for j, factor in enumerate(factors) if j not in (index, k)]
                moved = [(bar, node.output), (dot, (*labels, new)), *others]
                sizes: dict[int, Size] = {**dict(enumerate(node.sizes)), new: dot.shape[-1]}
                found.append(nested(node.coefficient, moved, (new, *own.labels[index]), sizes))
        return found

    def _of_elementwise(self, node: Map, bar: Expr, index: int) -> list[Expr]:
        own, found = tuple(range(node.ndim)), []
        for k, arg in enumerate(node.args):
            if arg in self.dots and not construct.is_zero(curvature := elementwise_second(node, index, k)):
                dot = self.dots[arg]
                factors = [(bar, own), (curvature, own), (dot, (*own, node.ndim))]
                found.append(nested(1, factors, (node.ndim, *own), dict(enumerate(dot.shape))))
        return found

    def _of_general(self, node: Apply, bar: Expr, index: int) -> list[Expr]:
        """The pullback of a function of variables, derived along these."""
        args = [construct.placeholder(f"argument_{k}", arg.shape) for k, arg in enumerate(node.args)]
        seed = construct.placeholder("bar", node.shape)
        if (back := pullback(construct.apply(node.function, args, node.batch), seed, index)) is None:
            return []
        found: list[Expr] = []
        for k, arg in enumerate(node.args):
            if arg in self.dots:
                along = construct.placeholder("along", self.dots[arg].shape)
                values: dict[Expr, Expr] = dict(zip(args, node.args, strict=True))
                values |= {seed: bar, along: self.dots[arg]}
                curved = pushforwards(back, args[k], along).get(plain(back))
                for x in substituted([curved], values) if curved is not None else ():
                    found.append(transpose(x, (x.ndim - 1, *range(x.ndim - 1))))
        return found


def numbered(xs: Sequence[Variable]) -> dict[Variable, Expr]:
    """The number of each entry among those of all variables, as a relation of it to the axes."""
    total, start = sum(map(_entries, set(xs))), 0
    result: dict[Variable, Expr] = {}
    for x in dict.fromkeys(xs):
        strides: list[Size] = [sz.product(x.shape[k + 1 :]) for k in range(x.ndim)]
        result[x] = construct.constant(IndexMap(total, x.shape, start, tuple(strides)))
        start += _entries(x)
    return result


def block_by(slope: Expr, number: Expr) -> Expr:
    """The derivative by one variable, read from that by the numbers of all entries."""
    by, own = tuple(range(number.ndim)), tuple(range(number.ndim, number.ndim + slope.ndim - 1))
    sizes = dict(enumerate(number.shape + slope.shape[1:]))
    return einsum(1, [(slope, (0, *own)), (number, by)], own + by[1:], sizes, inline=False)
