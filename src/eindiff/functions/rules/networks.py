"""Rules for products and contractions, which look at a network of factors and change it in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import HALF, times
from eindiff.core.construct import Factor
from eindiff.core.index_relations import IndexMap, Lower
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


@rule("einsum")
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


@rule("einsum")
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


@rule("einsum")
def triangles_once(network: Network) -> bool | None:
    """The entries of a triangle of ones are their own squares. One factor less."""
    seen: set[Factor] = set()
    for i, (node, labels) in enumerate(network.factors):
        if isinstance(node, Constant) and isinstance(node.value, Lower):
            if (node, labels) in seen:
                return network.exchange({i: None})
            seen.add((node, labels))
    return None


@rule("einsum")
def cholesky_products(network: Network) -> bool | None:
    """With the Cholesky factor L of A: L L' = A, inv(L)' inv(L) = inv(A). One factor less, and no factor to derive."""
    if not network.summed:
        return None
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


@rule("einsum")
def logarithms_of_pivots(network: Network) -> bool | None:
    """The sum of the logarithms of the diagonal of the Cholesky factor of A is logdet(A)/2. Two nodes less."""
    if not network.summed:
        return None
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


@rule("einsum")
def cancel_inverses(network: Network) -> bool | None:
    """A inv(A) = I, and Q'Q = Q Q' = I for an orthogonal Q. Two factors less."""
    if not network.summed:
        return None
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


# Index maps


class _Placed(NamedTuple):
    """An index map among the factors of a network."""

    place: int
    map: IndexMap
    target: int
    inputs: Labels


@rule("einsum")
def simplify_index_maps(network: Network) -> bool | None:
    """Fewer or smaller maps: an input of size 1 says nothing; the identity is a delta; a map whose target is summed
    away is all ones; the same map twice with one target (if it is injective), or with the same inputs and targets that
    stay, is the map once, and deltas; a map of a map is a map; two maps with one target that is summed away are one.

    None of this may lose a place that does not exist for some sizes, and so has to be refused.
    """
    maps = [
        _Placed(place, node.value, labels[0], labels[1:])
        for place, (node, labels) in enumerate(network.factors)
        if isinstance(node, Constant) and isinstance(node.value, IndexMap)
    ]
    if not maps:
        return None
    uses = network.occurrences()
    for one in maps:
        others = [other for other in maps if other is not one]
        if _simpler(network, one, uses) or any(_joined(network, one, other, uses) for other in others):
            return True
    return None


def _simpler(network: Network, one: _Placed, uses: Counter[int]) -> bool:
    """A map alone: with an input of size 1, the identity, or one whose target is summed away."""
    if 1 in one.map.inputs:
        kept = [k for k, size in enumerate(one.map.inputs) if size != 1]
        smaller = construct.constant(one.map.keep(kept))
        return network.exchange({one.place: (smaller, (one.target, *(one.inputs[k] for k in kept)))})
    if one.map.is_identity():
        network.unite(one.target, *one.inputs)
        return network.exchange({one.place: None})
    if one.target in network.summed and uses[one.target] == 1 and (network.checked or _is_certain(one.map)):
        return network.exchange({one.place: None}, [one.target])
    return False


def _is_certain(chosen: IndexMap) -> bool:
    """Whether a map is in range for all sizes, as long as axes have entries at all."""
    return all(sz.add(need, 1) in sz.names(need) for need in chosen.needs())


def _joined(network: Network, one: _Placed, other: _Placed, uses: Counter[int]) -> bool:
    """Two maps with one target, the same one twice, or a map of a map."""
    if one.target == other.target and _meet(network, one, other, uses):
        return True
    stay = one.target not in network.summed and other.target not in network.summed
    if stay and one.inputs == other.inputs and one.map == other.map:
        network.unite(one.target, other.target)
        return network.exchange({other.place: None})
    if other.target in network.summed and uses[other.target] == 2 and other.target in one.inputs:
        axis = one.inputs.index(other.target)
        composed = one.map.compose(axis, other.map)
        if composed is not None and composed.implies(one.map) and composed.implies(other.map):
            labels = (one.target, *one.inputs[:axis], *other.inputs, *one.inputs[axis + 1 :])
            changes = {one.place: (construct.constant(composed), labels), other.place: None}
            return network.exchange(changes, [other.target])
    return False


def _meet(network: Network, one: _Placed, other: _Placed, uses: Counter[int]) -> bool:
    """Two maps with one target: the same one twice, two that never meet, or two that say where an input of one is."""
    if one.map == other.map and one.map.injective:
        for a, b in zip(one.inputs, other.inputs, strict=True):
            network.unite(a, b)
        return network.exchange({other.place: None})
    if one.map.disjoint(other.map):
        network.coefficient = 0
        return True
    if one.target not in network.summed or uses[one.target] > 2:
        return False
    for axis, label in enumerate(other.inputs):
        if (solved := other.map.solve(axis, one.map)) is not None:
            labels = (label, *other.inputs[:axis], *other.inputs[axis + 1 :], *one.inputs)
            changes = {other.place: (construct.constant(solved), labels), one.place: None}
            return network.exchange(changes, [one.target])
    return False
