"""Rules for relations between indices: index maps of a network that meet, compose, cancel or vanish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import Factor
from eindiff.core.index_relations import Given, IndexMap, Lower, Table
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Constant, Einsum, Expr, plain
from eindiff.core.rewrite import rule
from eindiff.core.sizes import Shape, Size

if TYPE_CHECKING:
    from eindiff.core.construct import Network


class _Placed(NamedTuple):
    """An index map among the factors of a network."""

    place: int
    map: IndexMap
    target: int
    inputs: Labels


def _maps(network: Network) -> list[_Placed]:
    return [
        _Placed(place, node.value, labels[0], labels[1:])
        for place, (node, labels) in enumerate(network.factors)
        if isinstance(node, Constant) and isinstance(node.value, IndexMap)
    ]


@rule("einsum", among=(Constant,))
def terms_that_are_read(network: Network) -> bool | None:
    """A relation over a sum stays outside of it, as the sum is shared; but where it looks at few of the terms, the rest
    is left out: the part of a concatenation that is one of its pieces is that piece. Fewer terms."""
    maps = _maps(network)
    if not maps:
        return None
    for place, (node, labels) in enumerate(network.factors):
        if not isinstance(node, Add):
            continue
        reads = [(axis, one.map) for axis, label in enumerate(labels) for one in maps if one.target == label]
        kept = [term for term in node.terms if not any(_is_elsewhere(term, axis, chosen) for axis, chosen in reads)]
        if not kept:
            network.coefficient = 0
            return True
        if 2 * len(kept) <= len(node.terms):  # the others are not worth a sum of their own beside the whole one
            return network.exchange({place: (construct.add(kept), labels)})
    return None


def _is_elsewhere(term: Expr, axis: int, chosen: IndexMap) -> bool:
    """Whether a term has no entry along an axis where a map looks, because it was put elsewhere."""
    return any(chosen.disjoint(placed) for placed in _places(term, axis))


def _places(term: Expr, axis: int, depth: int = 2) -> Iterator[IndexMap]:
    """The maps that put entries along an axis of a product or of a contraction in it."""
    if not isinstance(term, Einsum) or not depth:
        return
    label = term.output[axis]
    for operand, labels in term.factors:
        if isinstance(operand, Constant) and isinstance(operand.value, IndexMap):
            if labels[0] == label:
                yield operand.value
        elif label in labels:
            yield from _places(operand, labels.index(label), depth - 1)


@rule("einsum", among=(Constant,))
def triangles_backwards(network: Network) -> bool | None:
    """A triangle of ones with both axes reversed is its transpose: running sums from the end. Two factors less."""
    turned = {label: one for one in _maps(network) if _is_reversal(one.map) for label in (one.target, *one.inputs)}
    if len(turned) < 4:
        return None
    uses = network.occurrences()
    for place, (node, labels) in enumerate(network.factors):
        if isinstance(node, Constant) and isinstance(node.value, Lower) and set(labels) <= set(turned):
            maps = [turned[label] for label in labels]
            is_free = all(label in network.summed and uses[label] == 2 for label in labels)
            if is_free and maps[0] is not maps[1]:
                row, column = (_other(one, label) for one, label in zip(maps, labels, strict=True))
                return network.exchange({place: (node, (column, row)), **{one.place: None for one in maps}}, labels)
    return None


def _is_reversal(chosen: IndexMap) -> bool:
    """Whether a map is k = n - 1 - i, which is its own inverse."""
    is_whole = chosen.indices is None and chosen.inputs == (chosen.size,) and chosen.strides == (-1,)
    return is_whole and chosen.offset == sz.add(chosen.size, -1)


def _other(one: _Placed, label: int) -> int:
    return one.inputs[0] if label == one.target else one.target


@rule("einsum", among=(Constant,))
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
    for one in maps:
        others = [other for other in maps if other is not one]
        if _simpler(network, one, uses) or any(_joined(network, one, other, uses) for other in others):
            return True
    return None


def _simpler(network: Network, one: _Placed, uses: Counter[int]) -> bool:
    """A map alone: with an input of size 1, the identity, or one whose target is summed away."""
    kept = one.map.needed_inputs()
    if len(kept) < len(one.inputs):
        smaller = construct.constant(one.map.keep(kept))
        return network.exchange({one.place: (smaller, (one.target, *(one.inputs[k] for k in kept)))})
    if isinstance(one.map.indices, Given) and (simpler := _simpler_places(one, one.map.indices.expr)) is not None:
        return network.exchange({one.place: simpler})
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
        if isinstance(one.map.indices, Given) and len(other.inputs) <= 1:
            source = _read(network, one, other)
            labels = (*one.inputs[:axis], *other.inputs, *one.inputs[axis + 1 :])
            return network.exchange({one.place: _given(one, source, labels), other.place: None}, [other.target])
        composed = one.map.compose(axis, other.map)
        if composed is not None and composed.implies(one.map) and composed.implies(other.map):
            labels = (one.target, *one.inputs[:axis], *other.inputs, *one.inputs[axis + 1 :])
            changes = {one.place: (construct.constant(composed), labels), other.place: None}
            return network.exchange(changes, [other.target])
    return False


def _read(network: Network, one: _Placed, other: _Placed) -> Expr:
    """The places of a map that are given, with the target of another map in the place of one of its inputs."""
    assert isinstance(one.map.indices, Given)
    output = tuple(x for label in one.inputs for x in (other.inputs if label == other.target else (label,)))
    factors = [(one.map.indices.expr, one.inputs), network.factors[other.place]]
    sizes = {label: network.sizes[label] for _, labels in factors for label in labels}
    return construct.einsum(1, factors, tuple(dict.fromkeys(output)), sizes)


def _simpler_places(one: _Placed, source: Expr) -> Factor | None:
    """Places that are given, as those on a diagonal, or without an axis along which they are the same."""
    if len(set(one.inputs)) < len(one.inputs):
        return _given(one, source, one.inputs)
    for axis, size in enumerate(source.shape):
        if isinstance(source, Einsum) and isinstance(size, int) and size and source.same_along(axis):
            coefficient, factors, output, sizes = construct.parts(source)
            smaller = construct.einsum(coefficient, factors, output[:axis] + output[axis + 1 :], sizes)
            return _given(one, smaller, one.inputs[:axis] + one.inputs[axis + 1 :])
    return None


def _given(one: _Placed, source: Expr, labels: Labels) -> Factor:
    """A map with other places that are given, along labels of which each counts once."""
    distinct = tuple(dict.fromkeys(labels))
    if len(distinct) < len(labels) and source.ndim == len(labels):
        source = construct.einsum(1, [(source, labels)], distinct, dict(zip(labels, source.shape, strict=True)))
    chosen = IndexMap(one.map.size, source.shape, indices=Given(plain(source)))
    return construct.constant(chosen), (one.target, *distinct)


def _meet(network: Network, one: _Placed, other: _Placed, uses: Counter[int]) -> bool:
    """Two maps with one target: the same one twice, two that never meet, or two that say where an input of one is."""
    if one.map == other.map and one.inputs == other.inputs:
        return network.exchange({other.place: None})
    if one.map == other.map and one.map.injective:
        for a, b in zip(one.inputs, other.inputs, strict=True):
            network.unite(a, b)
        return network.exchange({other.place: None})
    if one.map.disjoint(other.map):
        network.coefficient = 0
        return True
    if one.target not in network.summed or uses[one.target] > 2:
        return False
    return _solved(network, one, other) or _on_a_line(network, one, other) or _looked_up(network, one, other)


def _solved(network: Network, one: _Placed, other: _Placed) -> bool:
    """An input of one map as a map of all other inputs."""
    for axis, label in enumerate(other.inputs):
        solved = other.map.solve(axis, one.map)
        if solved is not None and solved.implies(one.map) and solved.implies(other.map):
            labels = (label, *other.inputs[:axis], *other.inputs[axis + 1 :], *one.inputs)
            changes = {other.place: (construct.constant(solved), labels), one.place: None}
            return network.exchange(changes, [one.target])
    return False


def _on_a_line(network: Network, one: _Placed, other: _Placed) -> bool:
    """Inputs that are equal along a line, as two maps of the places on it: a shift that is defined in part."""
    if (line := one.map.line(other.map)) is None:
        return False
    along = network.fresh(line.length)
    changes = {
        placed.place: (_map(placed.map.inputs[0], (line.length,), first, (step,)), (placed.inputs[0], along))
        for placed, (first, step) in ((one, line.ours), (other, line.theirs))
    }
    return network.exchange(changes, [one.target])


def _looked_up(network: Network, one: _Placed, other: _Placed) -> bool:
    """The inputs of an injective map by those of a table, which is as long as there are entries that it has."""
    table, known = one.map.indices, one.map.is_known and other.map.is_known and other.map.injective
    if not known or not isinstance(table, Table) or 0 in (*one.map.inputs, *other.map.inputs):
        return False
    numbers = other.map.inputs_of(table.array)
    places = np.flatnonzero(numbers >= 0)
    shape, along, mine = one.map.inputs, one.inputs, []
    if len(places) < len(numbers):
        shape, along = (len(places),), (network.fresh(len(places)),)
        mine = _unraveled(places, one, shape, along)
    theirs = _unraveled(numbers[places], other, shape, along)
    network.factors = [*network.factors, *mine, *theirs]
    return network.exchange({one.place: None, other.place: None}, [one.target])


def _unraveled(numbers: np.ndarray, placed: _Placed, shape: Shape, along: Labels) -> list[Factor]:
    """Maps to the inputs of a map from the places of their numbers in row-major order."""
    axes = np.unravel_index(numbers, tuple(map(int, placed.map.inputs))) if placed.inputs else ()
    found = zip(placed.map.inputs, axes, placed.inputs, strict=True)
    return [(construct.constant(IndexMap(n, shape, indices=Table(k))), (x, *along)) for n, k, x in found]


def _map(size: Size, inputs: Shape, offset: int, strides: Shape) -> Expr:
    return construct.constant(IndexMap(size, inputs, offset, strides))
