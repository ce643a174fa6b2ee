"""Rules for products and contractions, which look at a network of factors and change it in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from eindiff.core import construct
from eindiff.core.coefficients import HALF, times
from eindiff.core.construct import Factor
from eindiff.core.index_relations import Lower
from eindiff.core.labels import Labels
from eindiff.core.nodes import Apply, Constant, Expr, Map, Variable
from eindiff.core.rewrite import rule
from eindiff.functions.elementwise import abs as absolute
from eindiff.functions.matrices import inv, logdet
from eindiff.functions.rules.shapes import is_apply, is_map

if TYPE_CHECKING:
    from eindiff.core.construct import Network


# f(x) g(x) = h(x), exactly and for every x: the name of h, or None for x itself
_PIECES = {("relu", "step"): "relu", ("step", "step"): "step", ("abs", "sign"): None}


@rule("einsum", among=("abs", "sign"))
def squares_of_absolute_values(network: Network) -> bool | None:
    """abs(x)^2 = x^2, x sign(x) = abs(x). Fewer functions."""
    factors = network.factors
    for i, (node, labels) in enumerate(factors):
        if is_map(node, "abs") and factors.count((node, labels)) > 1:
            bare = (node.args[0], labels)
            return network.exchange({i: bare, factors.index((node, labels), i + 1): bare})
        if is_map(node, "sign") and (node.args[0], labels) in factors:
            return network.exchange({i: (absolute(node.args[0]), labels), factors.index((node.args[0], labels)): None})
    return None


@rule("einsum", among=("step", "abs"))
def products_of_pieces(network: Network) -> bool | None:
    """relu(x) step(x) = relu(x), step(x)^2 = step(x), abs(x) sign(x) = x. One factor less."""
    for i, (node, labels) in enumerate(network.factors):
        for j, (other, other_labels) in enumerate(network.factors):
            if i == j or not isinstance(node, Map) or not isinstance(other, Map) or labels != other_labels:
                continue
            key = (node.function.name, other.function.name)
            if key in _PIECES and node.args[0] is other.args[0]:
                return network.exchange({i: (node if _PIECES[key] else node.args[0], labels), j: None})
    return None


@rule("einsum", among=(Constant,))
def triangles_once(network: Network) -> bool | None:
    """The entries of a triangle of ones are their own squares. One factor less."""
    seen: set[Factor] = set()
    for i, (node, labels) in enumerate(network.factors):
        if isinstance(node, Constant) and isinstance(node.value, Lower):
            if (node, labels) in seen:
                return network.exchange({i: None})
            seen.add((node, labels))
    return None


@rule("einsum", among=(Apply,), summed=True)
def cholesky_products(network: Network) -> bool | None:
    """With the Cholesky factor L of A: L L' = A, inv(L)' inv(L) = inv(A). One factor less, and no factor to derive."""
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        inverse = is_apply(node, "inv")
        factor = node.children[0] if inverse else node
        if node.ndim != 2 or not is_apply(factor, "chol"):
            continue
        joint = 0 if inverse else 1
        for j, (other, other_labels) in enumerate(network.factors):
            if i == j or other is not node or labels[joint] != other_labels[joint]:
                continue
            if labels[joint] in network.summed and uses[labels[joint]] == 2:
                matrix = _factorized(factor)
                whole = (inv(matrix) if inverse else matrix, (labels[1 - joint], other_labels[1 - joint]))
                return network.exchange({i: whole, j: None}, [labels[joint]])
    return None


@rule("einsum", among=("log",), summed=True)
def logarithms_of_pivots(network: Network) -> bool | None:
    """The sum of the logarithms of the diagonal of the Cholesky factor of A is logdet(A)/2. Two nodes less."""
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        if not is_map(node, "log") or node.ndim != 1 or labels[0] not in network.summed or uses[labels[0]] > 1:
            continue
        coefficient, factors, _, _ = construct.parts(node.args[0])
        if coefficient == 1 and len(factors) == 1 and factors[0][1] == (0, 0) and is_apply(factors[0][0], "chol"):
            network.coefficient = times(network.coefficient, HALF)
            return network.exchange({i: (logdet(_factorized(factors[0][0])), ())}, labels)
    return None


def _factorized(factor: Apply) -> Expr:
    """The symmetric matrix that a Cholesky factor is of."""
    return construct.symmetric_part(factor.args[0])


@rule("einsum", among=(Apply, Variable), summed=True)
def cancel_inverses(network: Network) -> bool | None:
    """A inv(A) = I, and Q'Q = Q Q' = I for an orthogonal Q. Two factors less."""
    uses = network.occurrences()
    joints = {label for label in network.summed if uses[label] == 2}
    for i, (node, labels) in enumerate(network.factors):
        partner = _inverse_of(node)
        if partner is None or len(set(labels)) < 2:
            continue
        for j, (other, theirs) in enumerate(network.factors):
            if i == j or other is not partner:
                continue
            for a, b, joint, sign in _meetings(labels, theirs, other if partner is not node else None):
                if joint in joints:
                    network.coefficient = times(network.coefficient, sign)
                    network.exchange({i: None, j: None}, [joint])
                    network.unite(a, b)
                    return True
    return None


def _inverse_of(node: Expr) -> Expr | None:
    """The matrix that a factor is the inverse of; an orthogonal one is that of its transpose."""
    if is_apply(node, "inv") and node.ndim == 2:
        return node.args[0]
    return node if isinstance(node, Variable) and "orthogonal" in node.properties else None


def _meetings(labels: Labels, theirs: Labels, matrix: Expr | None) -> Iterator[tuple[int, int, int, int]]:
    """How an inverse may meet its matrix, or an orthogonal one (None) itself: the labels that a delta unites, the
    label in which both meet, and a sign."""
    orders = [(theirs[::-1], 1)]
    if matrix is not None:
        orders = [(theirs, 1), *((tuple([theirs[axis] for axis in axes]), sign) for axes, sign in matrix.symmetries)]
    for order, sign in orders:
        for joint in (1, 0):
            if order[1 - joint] == labels[joint]:
                yield labels[1 - joint], order[joint], labels[joint], sign
