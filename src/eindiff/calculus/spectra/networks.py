"""Contractions as lists of factors, and the labels in them that stand for eigenvalues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels, UnionFind
from eindiff.core.networks import fresh_in, new_label, opened
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, Number, is_index_map, topological
from eindiff.core.sizes import Size
from eindiff.functions.elementwise import TABLE

VECTORS = {"eigvecs": "eigvals", "svdleft": "svdvals", "svdright": "svdvals"}  # and the values that belong to them
SPECTRAL = frozenset({*VECTORS, *VECTORS.values()})
MARKS = frozenset({"simple", "nonzero", "nonzero_pairs"})  # 1, and NaN where there is no derivative


def is_vectors(node: Expr) -> bool:
    """Whether a node is a matrix of eigenvectors or singular vectors."""
    return isinstance(node, Apply) and node.function.name in VECTORS


@dataclass
class SpectralNetwork:
    """A contraction, with what is inside those of its factors that eigenvectors reach into."""

    coefficient: Number
    factors: list[Factor]
    output: Labels
    sizes: dict[int, Size]

    def build(self) -> Expr:
        return construct.einsum(self.coefficient, self.factors, self.output, self.sizes, inline=False)

    def fresh(self, size: Size) -> int:
        """A new label."""
        return new_label(self.sizes, size)

    def with_factors(self, factors: list[Factor], coefficient: Number = 1) -> SpectralNetwork:
        return replace(self, coefficient=self.coefficient * coefficient, factors=factors)


class Columns:
    """Which axes of expressions are of eigenvalues, where contractions with these may have to be looked into.

    That is so for axes of vectors and marks, and for all axes of eigenvalues of products with such inside.
    """

    def __init__(self) -> None:
        self.known: dict[Expr, tuple[frozenset[int], bool]] = {}  # axes, and whether there are vectors inside

    def __call__(self, expr: Expr) -> frozenset[int]:
        for node in topological([expr]):
            if node not in self.known:
                axes, inside = self._found(node)
                self.known[node] = frozenset(axes), inside
        axes, inside = self.known[expr]
        return axes if inside else frozenset()

    def _found(self, node: Expr) -> tuple[Iterable[int], bool]:
        match node:
            case Apply() if node.function.name in SPECTRAL or node.function.name == "simple":
                return [node.ndim - 1], node.function.name not in VECTORS.values()
            case Einsum():
                found = {labels[axis] for operand, labels in node.factors for axis in self.known[operand][0]}
                axes = [axis for axis, label in enumerate(node.output) if label in found]
                return axes, any(self.known[operand][1] for operand in node.operands)
            case Map() | Add():
                every = frozenset[int]().union(*(self.known[child][0] for child in node.children))
                return every, isinstance(node, Add) and any(self.known[term][1] for term in node.terms)
        return [], False

    def networks(self, node: Einsum) -> list[SpectralNetwork]:
        """The contraction as a sum of networks in which no summed column is inside of a contraction or a sum."""
        pending, done = [SpectralNetwork(node.coefficient, node.factors, node.output, dict(enumerate(node.sizes)))], []
        while pending:
            network = pending.pop()
            place = next((k for k, factor in enumerate(network.factors) if self._hides(factor, network.output)), None)
            if place is None:
                done.append(network)
                continue
            (hidden, labels), rest = network.factors[place], network.factors[:place] + network.factors[place + 1 :]
            terms = hidden.terms if isinstance(hidden, Add) else [hidden]
            pending += [_entered(network, rest, term, labels) for term in terms]
        return done

    def _hides(self, factor: Factor, output: Labels) -> bool:
        node, labels = factor
        return isinstance(node, Einsum | Add) and any(labels[axis] not in output for axis in self(node))


def _entered(network: SpectralNetwork, rest: list[Factor], hidden: Expr, labels: Labels) -> SpectralNetwork:
    """A network with the operands of one of its factors in the place of the factor."""
    if not isinstance(hidden, Einsum):
        return replace(network, factors=[*rest, (hidden, labels)])
    sizes, sets = dict(network.sizes), UnionFind()
    entered = opened(hidden, labels, fresh_in(sizes), sets.unite)
    bound = {label for _, own in entered for label in own}
    ones = [(construct.filled(1, (sizes[x],)), (x,)) for x in dict.fromkeys(labels) if x not in bound]
    factors = [(x, tuple(map(sets.find, own))) for x, own in [*rest, *entered, *ones]]
    return SpectralNetwork(
        network.coefficient * hidden.coefficient, factors, tuple(map(sets.find, network.output)), sizes
    )


@dataclass
class Joint:
    """A label of a network that stands for the eigenvalues of a matrix: two factors have its vectors."""

    label: int
    legs: tuple[int, int]  # their places
    kernels: list[int]  # places of the other factors with the label
    family: Apply  # the eigenvalues or singular values

    @property
    def matrix(self) -> Expr:
        return self.family.children[0]


def joint_at(network: SpectralNetwork, label: int) -> Joint | None:
    """The joint at a label, if it is one."""
    places = [k for k, (_, labels) in enumerate(network.factors) if label in labels]
    legs = [k for k in places if is_vectors(network.factors[k][0])]
    kernels = [k for k in places if k not in legs]
    if len(legs) != 2 or any(is_index_map(network.factors[k][0]) for k in kernels):
        return None
    (first, ours), (second, theirs) = (network.factors[k] for k in legs)
    if (
        _values_of(first) is not _values_of(second)
        or ours[:-2] != theirs[:-2]
        or ours.count(label) + theirs.count(label) != 2
    ):
        return None
    return Joint(label, (legs[0], legs[1]), kernels, _values_of(first)) if ours[-1] == theirs[-1] == label else None


def _values_of(vectors: Expr) -> Apply:
    assert isinstance(vectors, Apply)
    values = construct.apply(TABLE[VECTORS[vectors.function.name]], vectors.args, vectors.batch)
    assert isinstance(values, Apply)
    return values


def is_equivariant(expr: Expr, axis: int, values: Expr) -> bool:
    """Whether entries along an axis are equal where the eigenvalues are."""
    if expr is values:
        return axis == expr.ndim - 1
    match expr:
        case Map():
            return all(is_equivariant(arg, axis, values) for arg in expr.args)
        case Add():
            return all(is_equivariant(term, axis, values) for term in expr.terms)
        case Einsum():
            label = expr.output[axis]
            return all(is_equivariant(x, k, values) for x, own in expr.factors for k, y in enumerate(own) if y == label)
        case Apply():
            return expr.function.name in (*MARKS, "prod") and expr.args[0] is values
    return False
