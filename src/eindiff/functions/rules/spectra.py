"""Rules for eigenvalues and singular values, and for contractions with their vectors."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from eindiff.core import construct
from eindiff.core.labels import Labels
from eindiff.core.nodes import Apply, Expr
from eindiff.core.rewrite import rule
from eindiff.functions.elementwise import TABLE
from eindiff.functions.reductions import norm2
from eindiff.functions.rules.shapes import is_apply

if TYPE_CHECKING:
    from eindiff.core.construct import Factor, Network


def _argument(node: Apply) -> Expr:
    """The matrix that a factorization is of: eigenvalues are those of (A + A')/2."""
    [matrix] = node.args
    return construct.symmetric_part(matrix) if node.function.factorization == "eigh" else matrix


@rule("einsum", among=(Apply,), summed=True)
def orthonormal_vectors(network: Network) -> bool | None:
    """Q'Q = Q Q' = I for eigenvectors, and U'U = I for singular ones. Two factors less."""
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        if not isinstance(node, Apply) or node.function.name not in ("eigvecs", "svdleft", "svdright"):
            continue
        square = node.shape[-1] == node.shape[-2]
        for j, (other, theirs) in enumerate(network.factors[:i]):
            if other is not node or labels[:-2] != theirs[:-2]:
                continue
            for joint, left in ((-2, -1), (-1, -2))[: 1 + square]:
                if labels[joint] == theirs[joint] in network.summed and uses[labels[joint]] == 2:
                    network.unite(labels[left], theirs[left])
                    ones = (construct.filled(1, node.shape[:-2]), labels[:-2])
                    return network.exchange({i: ones, j: None}, [labels[joint]])
    return None


_SIDES = {"eigvals": ("eigvecs", "eigvecs"), "svdvals": ("svdleft", "svdright")}


@rule("einsum", among=(Apply,), summed=True)
def sums_of_values(network: Network) -> bool | None:
    """Q diag(λ) Q' = A and U diag(σ) V' = A; the sum of eigenvalues is a trace, and that of squares one of entries.

    A factorization less.
    """
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        if not isinstance(node, Apply) or node.function.name not in _SIDES or labels[-1] not in network.summed:
            continue
        beside = {k: f for k, f in enumerate(network.factors) if k != i and labels[-1] in f[1]}
        new = _without_values(network, node, labels, list(beside.values()), uses[labels[-1]])
        if new is not None:
            places = [i, *beside]
            gone = [] if labels[-1] in new[0][1] else [labels[-1]]
            return network.exchange(dict(zip_longest(places, new)), gone)
    return None


def _without_values(
    network: Network, values: Apply, labels: Labels, beside: list[Factor], uses: int
) -> list[Factor] | None:
    """What takes the place of eigenvalues or singular values, and of the factors beside them, in a sum over them."""
    matrix, batch = _argument(values), labels[:-1]
    if uses == 1 and values.function.name == "eigvals":
        return [(matrix, (*batch, labels[-1], labels[-1]))]
    if uses == 1 and (norm := _nuclear(matrix)) is not None:
        return [(norm, ())]
    if uses == 2 and beside == [(values, labels)]:
        return [(matrix, (*batch, network.fresh(matrix.shape[-2]), network.fresh(matrix.shape[-1])))] * 2
    if uses == 3 and (whole := _reassembled(values, labels, beside, matrix)) is not None:
        return [whole]
    return None


def _nuclear(matrix: Expr) -> Expr | None:
    """The sum of the singular values of u v', the product of two norms."""
    if matrix.ndim != 2:
        return None
    coefficient, factors, output, sizes = construct.parts(matrix)
    sides = [[factor for factor in factors if factor[1] in places] for places in (((output[0],), ()), (output[1:],))]
    if len(set(output)) < 2 or len(sides[0]) + len(sides[1]) != len(factors):
        return None
    size = coefficient if coefficient > 0 else -coefficient
    vectors = [construct.einsum(1, side, (label,), sizes) for side, label in zip(sides, output, strict=True)]
    return size * norm2(vectors[0]) * norm2(vectors[1])


def _reassembled(values: Apply, labels: Labels, beside: list[Factor], matrix: Expr) -> Factor | None:
    """The matrix in the place of its factors, and its labels, if two of the factors are its vectors."""
    if len(beside) != 2:
        return None
    vectors = [construct.apply(TABLE[name], values.args, values.batch) for name in _SIDES[values.function.name]]
    for (first, ours), (second, theirs) in (beside, beside[::-1]):
        fits = first is vectors[0] and second is vectors[1] and ours[:-2] == theirs[:-2] == labels[:-1]
        if fits and ours[-1] == theirs[-1] == labels[-1] and labels[-1] not in (ours[-2], theirs[-2]):
            return matrix, (*labels[:-1], ours[-2], theirs[-2])
    return None


@rule("max")
def largest_value(x: Expr) -> Expr | None:
    """Eigenvalues ascend, singular values descend: the largest is at the end, or the first. A node less."""
    coefficient, factors, output, _ = construct.parts(x)
    if len(factors) != 1 or factors[0][1] != output or coefficient == 0:
        return None
    ascends = is_apply(factors[0][0], "eigvals")
    if not ascends and not is_apply(factors[0][0], "svdvals"):
        return None
    return x[-1 if ascends == (coefficient > 0) else 0]
