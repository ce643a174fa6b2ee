"""Second derivatives by points in one forward sweep: every node gets its derivative, and what is asked of its second.

The Laplacian of a node follows from those of its children, and from their derivatives: of a multiplication
`Δ(AB) = (ΔA) B + A (ΔB) + 2 Σ_k (∂_k A) (∂_k B)`, of an elementwise function `Δf(A) = f' ΔA + f'' Σ_k (∂_k A)²`. So no
node needs more than its derivative, one array for each entry of a point, and a network takes a third of the products
that a derivative of its gradient would take.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np

from eindiff.calculus.chain_rule import depends, pushforward, pushforwards, unit
from eindiff.calculus.spectra.closing import SPECTRAL
from eindiff.core import construct
from eindiff.core.coefficients import HALF
from eindiff.core.construct import Factor, add, einsum
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, Number, Variable, plain
from eindiff.core.rebuild import substituted
from eindiff.core.sizes import Size

MOST_FILLED = 64  # entries of an axis of points whose deltas may become arrays
KINKS = ("abs", "sign")  # whose derivatives are more than those of their parts, where both have their kink


class SecondOrder:
    """A contraction of second derivatives by points: their sum over the entries of a point, or one with weights."""

    def __init__(self, x: Variable, weights: Expr | None, batch: int) -> None:
        self.x, self.batch = x, batch
        self.weights = None if weights is None else _symmetric(weights)

    def of(self, y: Expr) -> Expr | None:
        """That of y, with the axes of y first, then those of the batch; None where it is not known how."""
        order, active = depends([y], [self.x])
        nodes = [node for node in order if node in active and node is not self.x]
        if not all(map(is_known, nodes)):
            return None
        first: dict[Expr, Expr] = {self.x: unit(self.x)}
        second: dict[Expr, Expr] = {}
        for node in nodes:
            slopes = add([zero(node, self.x.shape), *pushforward(node, first, self.x.ndim)])
            if not construct.is_zero(slopes):
                first[node] = self._spread(slopes, node.ndim)
            terms = [zero(node, self.x.shape[: self.batch]), *pushforward(node, second, self.batch)]
            if not construct.is_zero(total := add([*terms, *self._curved(node, first)])):
                second[node] = total
        return second.get(y, zero(y, self.x.shape[: self.batch]))

    def _spread(self, slopes: Expr, own: int) -> Expr:
        """A derivative as one array, where its terms have different deltas: products of it would be of each two."""
        start = own + self.batch
        terms = slopes.terms if isinstance(slopes, Add) else ()
        if len({_deltas(term, start) for term in terms}) < 2:
            return slopes
        return add([_filled(term, start) for term in terms])

    def _curved(self, node: Expr, first: Mapping[Expr, Expr]) -> list[Expr]:
        """What the derivatives of its children contribute, two at a time."""
        match node:
            case Einsum():
                return self._of_multiplication(node, first)
            case Map():
                return self._of_elementwise(node, first)
            case Apply():
                return self._of_general(node, first)
        return []

    def _of_multiplication(self, node: Einsum, first: Mapping[Expr, Expr]) -> list[Expr]:
        factors = node.factors
        moving = [k for k, (operand, _) in enumerate(factors) if operand in first]
        found = []
        for i, j in combinations(moving, 2):
            others = [factor for k, factor in enumerate(factors) if k not in (i, j)]
            pair = [(first[factors[k][0]], factors[k][1]) for k in (i, j)]
            found.append(self._joined(2 * node.coefficient, pair, others, node.output, dict(enumerate(node.sizes))))
        return found

    def _of_elementwise(self, node: Map, first: Mapping[Expr, Expr]) -> list[Expr]:
        own, found = tuple(range(node.ndim)), []
        for i, j in product(range(len(node.args)), repeat=2):
            if node.args[i] in first and node.args[j] in first:
                curvature = elementwise_second(node, i, j)
                if not construct.is_zero(curvature):
                    pair = [(first[node.args[k]], own) for k in (i, j)]
                    found.append(self._joined(1, pair, [(curvature, own)], own, dict(enumerate(node.shape))))
        return found

    def _of_general(self, node: Apply, first: Mapping[Expr, Expr]) -> list[Expr]:
        """The derivative along what its arguments do, derived along it again: for arguments that are variables."""
        found: list[Expr] = []
        args = [construct.placeholder(f"argument_{k}", arg.shape) for k, arg in enumerate(node.args)]
        ways = [construct.placeholder(f"way_{k}", arg.shape + self.x.shape) for k, arg in enumerate(node.args)]
        values: dict[Expr, Expr] = dict(zip(args, node.args, strict=True))
        values |= {way: first[arg] for way, arg in zip(ways, node.args, strict=True) if arg in first}
        own = construct.apply(node.function, args, node.batch)
        moving = [k for k, arg in enumerate(node.args) if arg in first]
        for i, j in product(moving, repeat=2):
            slopes = pushforwards(own, args[i], ways[i]).get(own)
            curved = None if slopes is None else pushforwards(slopes, args[j], ways[j]).get(plain(slopes))
            if curved is not None:
                labels = tuple(range(node.ndim))
                pair = self._taken(curved, labels, dict(enumerate(node.shape)))
                found += substituted([pair], values)
        return found

    def _taken(self, tensor: Expr, output: Labels, sizes: dict[int, Size]) -> Expr:
        """What a tensor with two points as its last axes has for the same points, summed over their entries."""
        batch, entries, mirrored, weights = self._points(sizes)
        labels = (*output, *batch, *entries, *batch, *mirrored)
        return einsum(1, [(tensor, labels), *weights], (*output, *batch), sizes, inline=False)

    def _points(self, sizes: dict[int, Size]) -> tuple[Labels, Labels, Labels, list[Factor]]:
        """Labels of the batch and of the entries of two points, which are the same without weights."""
        start, shape = max(sizes, default=-1) + 1, self.x.shape
        batch = tuple(range(start, start + self.batch))
        entries = tuple(range(start + self.batch, start + len(shape)))
        mirrored = entries if self.weights is None else tuple([label + len(entries) for label in entries])
        sizes |= dict(zip((*batch, *entries), shape, strict=True))
        sizes |= dict(zip(mirrored, shape[self.batch :], strict=True))
        return batch, entries, mirrored, [] if self.weights is None else [(self.weights, (*entries, *mirrored))]

    def _joined(
        self, coefficient: Number, pair: list[Factor], others: list[Factor], output: Labels,
        sizes: dict[int, Size],
    ) -> Expr:  # fmt: skip
        """A product of two derivatives and of other factors, summed over the entries of points."""
        batch, entries, mirrored, weights = self._points(sizes)
        (one, at_one), (two, at_two) = pair
        moving = [(one, (*at_one, *batch, *entries)), (two, (*at_two, *batch, *mirrored))]
        return einsum(coefficient, [*others, *moving, *weights], (*output, *batch), sizes, inline=False)


def zero(node: Expr, more: tuple[Size, ...]) -> Expr:
    """Zeros with the axes of a node and others."""
    return construct.filled(0, node.shape + more)


def _deltas(term: Expr, start: int) -> tuple[int, ...]:
    """For each of the last axes of a term the first one that it is always equal to, itself if there is none."""
    output = term.output if isinstance(term, Einsum) else tuple(range(term.ndim))
    return tuple([output.index(label) for label in output[start:]])


def _filled(term: Expr, start: int) -> Expr:
    """A term with arrays of zeros and ones in the places of deltas of its last axes."""
    if not isinstance(term, Einsum):
        return term
    sizes, output = dict(enumerate(term.sizes)), list(term.output)
    factors: list[Factor] = term.factors
    for axis in range(start, term.ndim):
        size = sizes[output[axis]]
        if output[axis] in output[:axis] and isinstance(size, int) and size <= MOST_FILLED:
            new = len(sizes)
            factors.append((construct.constant(np.eye(size)), (output[axis], new)))
            sizes[new], output[axis] = size, new
    return einsum(term.coefficient, factors, tuple(output), sizes, inline=False)


def _symmetric(weights: Expr) -> Expr:
    """The weights of two points, the same if these are exchanged."""
    labels, half = tuple(range(weights.ndim)), weights.ndim // 2
    turned = einsum(1, [(weights, labels)], labels[half:] + labels[:half], dict(enumerate(weights.shape)))
    return construct.scale(HALF, add([weights, turned]))


def is_known(node: Expr) -> bool:
    if isinstance(node, Map | Apply):
        return node.function.name not in KINKS and node.function.name not in SPECTRAL
    return isinstance(node, Einsum | Add)


def elementwise_second(node: Map, i: int, j: int) -> Expr:
    """The second derivative of an elementwise function by two of its arguments."""
    args = [construct.placeholder(f"argument_{k}", node.shape) for k in range(len(node.args))]
    prime = node.function.derivatives[i]
    zero = construct.filled(0, node.shape)
    if prime is None:
        return zero
    found = pushforwards(first := prime(*args), args[j], construct.filled(1, node.shape)).get(plain(first))
    return zero if found is None else substituted([found], dict(zip(args, node.args, strict=True)))[0]
