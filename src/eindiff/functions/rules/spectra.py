"""Rules for eigenvalues and singular values, and for contractions with their vectors."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from eindiff.core import construct
from eindiff.core.nodes import Apply, Expr
from eindiff.core.rewrite import rule
from eindiff.functions.elementwise import TABLE
from eindiff.functions.reductions import norm2
from eindiff.functions.rules.shapes import is_apply

if TYPE_CHECKING:
    from eindiff.core.construct import Network


def _argument(node: Apply) -> Expr:
    """The matrix that a factorization is of: eigenvalues are those of (A + A')/2."""
    [matrix] = node.args
    turned = construct.transpose_core(matrix) if node.function.factorization == "eigh" else matrix
    return matrix if turned is matrix else construct.scale(Fraction(1, 2), construct.add([matrix, turned]))


@rule("einsum")
def orthonormal_vectors(network: Network) -> bool | None:
    """Q'Q = Q Q' = I for eigenvectors, and U'U = I for singular ones. Two factors less."""
    if not network.summed:
        return None
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
                    network.summed.discard(labels[joint])
                    ones = (construct.filled(1, node.shape[:-2]), labels[:-2])
                    network.factors = [x for k, x in enumerate(network.factors) if k not in (i, j)] + [ones]
                    network.unite(labels[left], theirs[left])
                    return True
    return None


_SIDES = {"eigvals": ("eigvecs", "eigvecs"), "svdvals": ("svdleft", "svdright")}


@rule("einsum")
def sums_of_values(network: Network) -> bool | None:
    """Q diag(λ) Q' = A and U diag(σ) V' = A; the sum of eigenvalues is a trace, and that of squares one of entries.

    A factorization less.
    """
    if not network.summed:
        return None
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        if not isinstance(node, Apply) or node.function.name not in _SIDES or labels[-1] not in network.summed:
            continue
        label, batch, matrix = labels[-1], labels[:-1], _argument(node)
        beside = [(k, other, own) for k, (other, own) in enumerate(network.factors) if k != i and label in own]
        if uses[label] == 1 and node.function.name == "eigvals":
            new = [(matrix, (*batch, label, label))]
        elif uses[label] == 1 and (norm := _nuclear(matrix)) is not None:
            network.summed.discard(label)
            new = [(norm, ())]
        elif uses[label] == 2 and beside[0][1] is node and beside[0][2] == labels:
            rows, columns = max(network.sizes) + 1, max(network.sizes) + 2
            network.sizes |= {rows: matrix.shape[-2], columns: matrix.shape[-1]}
            network.summed |= {rows, columns}
            network.summed.discard(label)
            new = [(matrix, (*batch, rows, columns))] * 2
        elif uses[label] == 3 and (whole := _reassembled(node, labels, beside, matrix)) is not None:
            network.summed.discard(label)
            new = [whole]
        else:
            continue
        gone = {i, *(k for k, _, _ in beside)}
        network.factors = [factor for k, factor in enumerate(network.factors) if k not in gone] + new
        return True
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


def _reassembled(values: Apply, labels: tuple, beside: list, matrix: Expr) -> tuple[Expr, tuple] | None:
    """The matrix in the place of its factors, and its labels, if two of the factors are its vectors."""
    if len(beside) != 2:
        return None
    vectors = [construct.apply(TABLE[name], values.args, values.batch) for name in _SIDES[values.function.name]]
    for (_, first, ours), (_, second, theirs) in (beside, beside[::-1]):
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
