"""Terms whose axes are reached through index maps: multiplied out over sums of maps, so that coordinates are known.

The derivative of `Σ_e g(x[e+1], x[e])` is a sum of terms `v_e R1[i; e] R2[j; e]`, maybe inside of other sums. An axis i
that a map reaches is no axis of the values: it is a function of the labels of the map, and what is computed are the
values `v_e`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import Number, times
from eindiff.core.labels import Labels, UnionFind
from eindiff.core.networks import Factor, fresh_in, new_label, opened
from eindiff.core.nodes import Add, Einsum, is_index_map
from eindiff.core.sizes import Size
from eindiff.structure.joins import Relations
from eindiff.structure.related import Related

MOST_MULTIPLIED_OUT = 256  # that a derivative is multiplied out to
SHORT, SHORTER = 16, 8  # axes of no more entries, and so many times fewer than others, are parts of blocks
CLOSE = 2  # times the least size, which is not worth coordinates


@dataclass(frozen=True, slots=True)
class TermNetwork:
    """`coefficient * product of factors`, summed over what is not in the output.

    `places` are index maps to labels of the output, which are in no factor, and once in the output.
    """

    coefficient: Number
    factors: tuple[Factor, ...]
    output: Labels
    sizes: dict[int, Size]
    places: tuple[Factor, ...] = ()

    @property
    def inner(self) -> Labels:
        """The labels that the axes are made of, each once."""
        sources = {labels[0]: labels[1:] for _, labels in self.places}
        return tuple(dict.fromkeys(x for label in self.output for x in sources.get(label, (label,))))


def multiplied_out(
    network: TermNetwork, lengths: Mapping[str, int], known: Related, most: int
) -> list[TermNetwork] | None:
    """A network as several with places, in which no sum and no contraction hides how long axes are related.

    None if these are too many. Those that are zero are left out.
    """
    done: list[TermNetwork] = []
    pending = [network]
    while pending:
        if len(done) + len(pending) > most:
            return None
        one = pending.pop()
        axes = _long(one, lengths)
        place = _on_the_way(one, axes, known)
        if place is None:
            found = placed(one, lengths)
            if found is None:
                continue
            if _is_short(found, lengths):
                axes = _alone(one, axes, known)
            place = next((k for k, factor in enumerate(one.factors) if _is_hidden(factor, axes, known)), None)
            if place is None:
                done.append(found)
                continue
        pending += _opened(one, place, known)
    return done


def _on_the_way(network: TermNetwork, axes: Collection[int], known: Related) -> int | None:
    """A factor that hides how an axis is related to another one, or a product with a map that reaches an axis."""
    sets = known.connected(network.factors)
    long = {sets.find(x) for x in axes}
    ends = Counter(root for x in dict.fromkeys(network.output) if (root := sets.find(x)) in long)
    for place, (node, labels) in enumerate(network.factors):
        if is_index_map(node):
            continue
        places = known.by_places(node)
        if places is not None and not isinstance(places, Add) and not long.isdisjoint(map(sets.find, labels)):
            return place
        is_part = not isinstance(node, Add) or places is not None or known.is_scattered(node)
        if is_part and _is_hidden((node, labels), axes, known):
            return place
        for a, b in known.pairs(node):
            if labels[a] != labels[b] and ends[sets.find(labels[a])] > 1:
                return place
    return None


def _alone(network: TermNetwork, axes: Collection[int], known: Related) -> set[int]:
    """The axes that no map reaches, and that nothing relates to another one."""
    sets = known.connected(network.factors)
    ends = Counter(sets.find(x) for x in network.output)
    reached = {labels[0] for node, labels in network.factors if is_index_map(node)}
    return {x for x in axes if ends[sets.find(x)] == 1 and x not in reached}


def _is_short(network: TermNetwork, lengths: Mapping[str, int]) -> bool:
    """Whether a network has about as many values as there are rows or columns."""
    values = prod(sz.evaluate(network.sizes[x], lengths) for x in network.inner)
    return values <= CLOSE * _longer_side(network, lengths)


def _longer_side(network: TermNetwork, lengths: Mapping[str, int]) -> int:
    """The number of rows or columns."""
    half = len(network.output) // 2
    sides = network.output[:half], network.output[half:]
    return max(prod(sz.evaluate(network.sizes[x], lengths) for x in part) for part in sides)


def _long(network: TermNetwork, lengths: Mapping[str, int]) -> set[int]:
    """The labels of axes that coordinates pay for: not those that are short beside others."""
    sizes = {x: sz.evaluate(network.sizes[x], lengths) for x in network.output}
    longest = max(sizes.values(), default=0)
    return {x for x, size in sizes.items() if size > SHORT or SHORTER * size > longest}


def _is_hidden(factor: Factor, output: Collection[int], known: Related) -> bool:
    node, labels = factor
    return not is_index_map(node) and any(labels[axis] in output for axis in known.axes(node))


def _opened(network: TermNetwork, place: int, known: Related) -> Iterator[TermNetwork]:
    """A network with one of its factors opened: a sum as several networks, a constant as its entries at places."""
    node, labels = network.factors[place]
    others = network.factors[:place] + network.factors[place + 1 :]
    if (places := known.by_places(node)) is not None:
        yield replace(network, factors=(*others, (places, labels)))
        return
    if isinstance(node, Add):
        for term in node.terms:
            yield TermNetwork(network.coefficient, (*others, (term, labels)), network.output, network.sizes)
        return
    assert isinstance(node, Einsum)
    sizes, sets = dict(network.sizes), UnionFind()
    inside = opened(node, labels, fresh_in(sizes), sets.unite)
    factors = [(factor, tuple([sets.find(x) for x in own])) for factor, own in (*others, *inside)]
    output = tuple([sets.find(x) for x in network.output])
    before = {sets.find(x) for _, own in (*others, (node, labels)) for x in own} | set(output)
    bound = {x for _, own in factors for x in own} | set(output)
    ones = [construct.size_number(sizes[x]) for x in sorted(before - bound)]  # summed over nothing but ones
    coefficient = times(network.coefficient, node.coefficient)
    yield TermNetwork(coefficient, (*factors, *((one, ()) for one in ones)), output, sizes)


# Which axes get coordinates


def placed(network: TermNetwork, lengths: Mapping[str, int]) -> TermNetwork | None:
    """A network in which those index maps to axes are places that make the values smaller; None if it is zero.

    Maps that meet are composed or listed first, if that helps.
    """
    found = Relations(network.factors, network.output, network.sizes, lengths)
    if not found.simplify():
        return None
    best = _placed(_with(network, found), lengths)
    if found.resolve():
        other = _placed(_with(network, found), lengths)
        sizes = [prod(sz.evaluate(x.sizes[label], lengths) for label in x.inner) for x in (best, other)]
        best = other if CLOSE * sizes[1] < sizes[0] else best
    return best


def _with(network: TermNetwork, found: Relations) -> TermNetwork:
    return replace(network, factors=tuple(found.factors), output=found.output, sizes=dict(found.sizes))


def _placed(network: TermNetwork, lengths: Mapping[str, int]) -> TermNetwork:
    network = _with_deltas(network)
    maps: dict[int, Labels] = {}  # the labels of index maps, by the axis that they reach
    axes = _long(network, lengths)
    for node, labels in network.factors:
        if is_index_map(node) and labels[0] in axes and labels[0] not in labels[1:]:
            maps.setdefault(labels[0], labels)
    if not maps:
        return network

    def size(chosen: Sequence[int]) -> float:
        inner = dict.fromkeys(x for label in network.output for x in (maps[label][1:] if label in chosen else (label,)))
        return float(prod(sz.evaluate(network.sizes[x], lengths) for x in inner))

    choices = [chosen for count in range(len(maps) + 1) for chosen in combinations(maps, count)]
    if size(()) <= _longer_side(network, lengths):  # a diagonal, say
        return network
    enough = CLOSE * min(map(size, choices))
    for label in next(chosen for chosen in choices if size(chosen) <= enough):
        network = _with_place(network, label)
    return network


def _with_deltas(network: TermNetwork) -> TermNetwork:
    """A network in which axes that the same map reaches from the same labels are one."""
    sets, seen = UnionFind(), dict[tuple, int]()
    for node, labels in network.factors:
        if is_index_map(node) and labels[0] in network.output:
            sets.unite(seen.setdefault((node, labels[1:]), labels[0]), labels[0])
    factors = dict.fromkeys((node, tuple([sets.find(x) for x in own])) for node, own in network.factors)
    if len(factors) == len(network.factors):
        return network
    kept = [x for x in factors if is_index_map(x[0])]
    others = [(node, tuple([sets.find(x) for x in own])) for node, own in network.factors if not is_index_map(node)]
    output = tuple([sets.find(x) for x in network.output])
    return TermNetwork(network.coefficient, (*kept, *others), output, network.sizes)


def _with_place(network: TermNetwork, label: int) -> TermNetwork:
    """A network with an axis, or two that are equal, as places.

    What else has the label gets one of its own: `F[k] R[k; e]` is `F[l] R[l; e] R[k; e]`, summed over l.
    """
    node, labels = next(x for x in network.factors if is_index_map(x[0]) and x[1][0] == label)
    sizes = dict(network.sizes)
    size = sizes[label]
    inside = new_label(sizes, size)
    factors = [(other, tuple([inside if x == label else x for x in own])) for other, own in network.factors]
    mine = (node, (inside, *labels[1:]))
    if sum(inside in own for _, own in factors) == 1:
        factors.remove(mine)
    output, places = [], list(network.places)
    for x in network.output:
        axis = new_label(sizes, size) if x == label else x
        if x == label:
            places.append((node, (axis, *labels[1:])))
        output.append(axis)
    return TermNetwork(network.coefficient, tuple(factors), tuple(output), sizes, tuple(places))
