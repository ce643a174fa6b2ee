"""Rules for products and contractions, which look at a network of factors and change it in place."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import times
from eindiff.core.construct import scale
from eindiff.core.index_relations import IndexMap, Lower
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
    for i, (node, labels) in enumerate(network.factors):
        if is_map(node, "abs") and network.factors.count((node, labels)) > 1:
            j = network.factors.index((node, labels), i + 1)
            network.factors[i] = network.factors[j] = (node.args[0], labels)
            return True
        if is_map(node, "sign") and (node.args[0], labels) in network.factors:
            network.factors[i] = (absolute(node.args[0]), labels)
            network.factors.remove((node.args[0], labels))
            return True
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
                network.factors[i] = (node if _PIECES[key] else node.args[0], labels)
                del network.factors[j]
                return True
    return None


@rule("einsum")
def triangles_once(network: Network) -> bool | None:
    """The entries of a triangle of ones are their own squares. One factor less."""
    seen: set[tuple[Expr, tuple[int, ...]]] = set()
    for i, (node, labels) in enumerate(network.factors):
        if isinstance(node, Constant) and isinstance(node.value, Lower):
            if (node, labels) in seen:
                del network.factors[i]
                return True
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
                network.summed.discard(labels[joint])
                network.factors[i] = (inv(matrix) if inverse else matrix, (labels[1 - joint], other_labels[1 - joint]))
                del network.factors[j]
                return True
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
            network.summed.discard(labels[0])
            network.coefficient = times(network.coefficient, Fraction(1, 2))
            network.factors[i] = (logdet(_factorized(factors[0][0])), ())
            return True
    return None


def _factorized(factor: Apply) -> Expr:
    """The symmetric matrix that a Cholesky factor is of."""
    [matrix] = factor.args
    turned = construct.transpose_core(matrix)
    return matrix if turned is matrix else scale(Fraction(1, 2), construct.add([matrix, turned]))


@rule("einsum")
def cancel_inverses(network: Network) -> bool | None:
    """A inv(A) = I, and Q'Q = Q Q' = I for an orthogonal Q. Two factors less."""
    if not network.summed:
        return None
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        inverse = is_apply(node, "inv") and node.ndim == 2
        if not inverse and not (isinstance(node, Variable) and "orthogonal" in node.properties):
            continue
        for j, (other, other_labels) in enumerate(network.factors):
            if i == j or other is not (node.children[0] if inverse else node) or len(set(labels)) < 2:
                continue
            turned = [(tuple([other_labels[k] for k in axes]), sign) for axes, sign in other.symmetries]
            candidates = [(other_labels, 1), *turned] if inverse else [(other_labels[::-1], 1)]
            for candidate, sign in candidates:
                for joint, mine, theirs in ((1, 0, 1), (0, 1, 0)):
                    x = labels[joint]
                    if candidate[1 - joint] == x and x in network.summed and uses[x] == 2:
                        network.summed.discard(x)
                        network.coefficient = times(network.coefficient, sign)
                        return _cancel(network, i, j, labels[mine], candidate[theirs])
    return None


def _cancel(network: Network, i: int, j: int, a: int, b: int) -> bool:
    """Take out two factors that make a delta of labels a and b."""
    network.factors = [factor for k, factor in enumerate(network.factors) if k not in (i, j)]
    network.unite(a, b)
    return True


# Index maps


def _maps(network: Network) -> list[tuple[int, IndexMap, tuple[int, ...]]]:
    return [
        (i, node.value, labels)
        for i, (node, labels) in enumerate(network.factors)
        if isinstance(node, Constant) and isinstance(node.value, IndexMap)
    ]


@rule("einsum")
def simplify_index_maps(network: Network) -> bool | None:
    """Fewer or smaller maps: an input of size 1 says nothing; the identity is a delta; a map whose target is summed
    away is all ones; the same map twice with one target (if it is injective), or with the same inputs and targets that
    stay, is the map once, and deltas; a map of a map is a map; two maps with one target that is summed away are one.

    None of this may lose a place that does not exist for some sizes, and so has to be refused.
    """
    maps = _maps(network)
    if not maps:
        return None
    uses = network.occurrences()
    for i, outer, labels in maps:
        if 1 in outer.inputs:
            kept = [k for k, size in enumerate(outer.inputs) if size != 1]
            network.factors[i] = (construct.constant(outer.keep(kept)), (labels[0], *(labels[k + 1] for k in kept)))
            return True
        if outer.is_identity():
            network.unite(*labels)
            del network.factors[i]
            return True
        if labels[0] in network.summed and uses[labels[0]] == 1 and (network.checked or _is_certain(outer)):
            network.summed.discard(labels[0])
            del network.factors[i]
            return True
        for j, other, other_labels in maps:
            if i != j and labels[0] == other_labels[0] and _meet(network, i, j, outer, labels, other, other_labels):
                return True
            stay = labels[0] not in network.summed and other_labels[0] not in network.summed
            if i != j and stay and labels[1:] == other_labels[1:] and outer == other:
                network.unite(labels[0], other_labels[0])
                del network.factors[j]
                return True
            if (
                i != j
                and other_labels[0] in network.summed
                and uses[other_labels[0]] == 2
                and other_labels[0] in labels[1:]
            ):
                axis = labels[1:].index(other_labels[0])
                composed = outer.compose(axis, other)
                if composed is not None and composed.implies(outer) and composed.implies(other):
                    network.summed.discard(other_labels[0])
                    network.factors[i] = (
                        construct.constant(composed),
                        (*labels[: axis + 1], *other_labels[1:], *labels[axis + 2 :]),
                    )
                    del network.factors[j]
                    return True
    return None


def _is_certain(chosen: IndexMap) -> bool:
    """Whether a map is in range for all sizes, as long as axes have entries at all."""
    return all(sz.add(need, 1) in sz.names(need) for need in chosen.needs())


def _meet(
    network: Network, i: int, j: int, outer: IndexMap, labels: tuple, other: IndexMap, other_labels: tuple
) -> bool:
    """Two maps with one target: the same one twice, two that never meet, or two that say where an input of one is."""
    if outer == other and outer.injective:
        for a, b in zip(labels[1:], other_labels[1:], strict=True):
            network.unite(a, b)
        del network.factors[j]
        return True
    if outer.disjoint(other):
        network.coefficient = 0
        return True
    if labels[0] not in network.summed or network.occurrences()[labels[0]] > 2:
        return False
    for axis, label in enumerate(other_labels[1:]):
        if (solved := other.solve(axis, outer)) is not None:
            rest = (*other_labels[1 : axis + 1], *other_labels[axis + 2 :])
            network.summed.discard(labels[0])
            network.factors[j] = (construct.constant(solved), (label, *rest, *labels[1:]))
            del network.factors[i]
            return True
    return False
