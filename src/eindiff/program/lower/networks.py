"""Sums of products of tensors and index maps, as tensors with places for their entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.groups import grouped
from eindiff.core.index_relations import are_distinct
from eindiff.core.labels import Labels
from eindiff.core.networks import new_label
from eindiff.core.nodes import Number, number
from eindiff.core.sizes import Size
from eindiff.planning import tuning
from eindiff.planning.relation_order import Applied, Order, Relation, relation_order
from eindiff.program.lower.indexing import Indexing
from eindiff.program.lower.meetings import NEVER, Meetings, joined
from eindiff.program.lower.places import Axis, Index, known_table, labels_of
from eindiff.program.lower.products import Products
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Arrays, Term, Value
from eindiff.program.operations import Operations, is_call

Sizes = dict[int, Size]
Maps = list[tuple[int, Index]]  # labels, and what each of them is a function of


@dataclass(slots=True)
class Network:
    """A sum over all labels that no axis has."""

    factors: list[Tensor]
    maps: Maps
    axes: tuple[Axis, ...]
    labels: set[int]
    sizes: Sizes

    @property
    def is_recursive(self) -> bool:
        """Whether a map says a label by itself."""
        return any(target in index.labels for target, index in self.maps)

    @property
    def kept(self) -> Labels:
        """The labels of axes, which are not summed over."""
        return tuple(dict.fromkeys([x for axis in self.axes for x in labels_of(axis)]))


class Networks:
    """Contracts networks."""

    def __init__(self, operations: Operations, products: Products, indexing: Indexing, arrays: Arrays) -> None:
        self.operations = operations
        self.products = products
        self.indexing = indexing
        self.arrays = arrays
        self.meetings = Meetings(products.costs)

    def term(
        self, coefficient: Number, factors: list[Tensor], maps: Maps, output: Labels, sizes: Sizes, hint: Labels
    ) -> Term:
        """The sum of products of tensors and index maps, as a tensor with places for its entries.

        All labels that `sizes` has are summed over, unless they are in the output. Maps are taken out one by one, each
        by an identity that holds whatever the rest is:
        two maps of one label say where their inputs are equal;
        a label that one map alone says, and not by itself, is replaced by what it is a function of;
        a map whose inputs no other map and no axis knows is summed over together with the factors that know them;
        any other map is a factor, the array that is 1 where it holds.
        """
        network = Network(list(factors), list(maps), output, set(sizes), sizes)
        if not self._meet(network):
            return self._zero(output, sizes)
        if (order := self._order(network)) is not None:
            self._follow(network, order)
        return self._finished(coefficient, network, output, hint)

    def _finished(self, coefficient: Number, network: Network, output: Labels, hint: Labels) -> Term:
        """The term when all maps are taken out that are left."""
        sizes = network.sizes
        shape = tuple([sizes[label] for label in output])
        while network.maps:
            self._take_out(network)
            if not self._meet(network):
                return self._zero(output, sizes)
        coefficient, core = self._contracted(coefficient, network, hint)
        if all(isinstance(axis, int) for axis in network.axes):
            return Term(coefficient, core, network.axes, sizes)
        core, axes = self.indexing.simplify_places(core, network.axes, sizes, shape)
        return Term(coefficient, core, axes, sizes, _is_injective(axes))

    def _zero(self, output: Labels, sizes: Sizes) -> Term:
        axes = tuple(range(len(output)))
        return Term(1, Tensor(self.operations.number(0), ()), axes, {k: sizes[x] for k, x in enumerate(output)})

    # Maps

    def _take_out(self, network: Network) -> None:
        """Use all maps that are labels' only ones and depend on no other, or else one map."""
        maps, axes = network.maps, network.axes
        targets = [target for target, _ in maps]
        chosen: dict[int, Index] = {}
        for target, index in maps:
            if (
                targets.count(target) == 1
                and not set(index.labels) & {target, *chosen}
                and not any(target in other.labels for other in chosen.values())
            ):
                chosen[target] = index
        if chosen:
            network.maps = [(target, index) for target, index in maps if target not in chosen]
            return self._substitute(network, chosen)
        target, index = maps[0]
        same = [k for k, other in enumerate(targets) if other == target]
        alone = next((k for k in (*same[1:2], 0) if _is_alone(maps, k, axes)), None)
        if alone is not None:
            network.maps = [*maps[:alone], *maps[alone + 1 :]]
            self._sum_out(network, maps[alone])
        else:
            self._equate(network)
        return None

    def _equate(self, network: Network) -> None:
        """Use a map whose label has other maps: where both say the same, or as a factor that is 1 there."""
        which, others = _closest(network.maps)
        target, index = network.maps[which]
        other = network.maps[others][1] if others is not None else None
        network.maps = [*network.maps[:which], *network.maps[which + 1 :]]
        solution = self._join(network, other, index) if other is not None else None
        if solution is not None and solution is not NEVER:
            self._use(network, solution)
        else:
            network.factors.append(self._match(Index(0, ((target, 1),)), index, network.sizes))

    def _substitute(self, network: Network, places: Mapping[int, Index]) -> None:
        """Put what labels are functions of in their places; none is a function of another one of them."""
        sizes = network.sizes
        network.labels.difference_update(places)
        network.labels.update(x for index in places.values() for x in index.labels)
        network.factors = [self.indexing.gather(x, places, sizes) for x in network.factors]
        for target, index in places.items():
            network.maps = [(x, self.indexing.substitute(inner, target, index, sizes)) for x, inner in network.maps]
            network.axes = tuple([self._replaced(axis, target, index, sizes) for axis in network.axes])

    def _replaced(self, axis: Axis, target: int, index: Index, sizes: Mapping[int, Size]) -> Axis:
        if isinstance(axis, int):
            return index if axis == target else axis
        return self.indexing.substitute(axis, target, index, sizes)

    def _meet(self, network: Network) -> bool:
        """Solve maps of one label for what they are functions of; False if they never meet."""
        found = True
        while found:
            found = False
            seen: dict[int, Index] = {}
            for place, (target, index) in enumerate(network.maps):
                other = Index(0, ((target, 1),)) if target in index.labels else seen.get(target)
                seen.setdefault(target, index)
                solution = self._solution(network, other, index) if other is not None else None
                if solution is NEVER:
                    return False
                if solution is None and other is not None and _is_within(index, other):
                    network.factors.append(self._match(other, index, network.sizes))
                    solution = {}
                if solution is not None:
                    del network.maps[place]
                    self._use(network, solution)
                    found = True
                    break
        return True

    def _solution(self, network: Network, a: Index, b: Index) -> dict[int, Index] | None:
        """What labels are where two indices are equal: by formulas, or by tables if they have labels in common."""
        found = self.meetings.solved(a, b, network.sizes)
        return self._join(network, a, b) if found is None and set(a.labels) & set(b.labels) else found

    def _join(self, network: Network, a: Index, b: Index) -> dict[int, Index] | None:
        """What labels are where two known indices are equal, as functions of a new one that counts these places."""
        sizes = network.sizes
        known = self._known_pair(a, b, a, b, sizes)
        if known is None or not (a.labels and b.labels):
            return None
        pairs = [self._known_pair(x, y, a, b, sizes) for x, y in _besides(network.maps, a, b)]
        found = joined(a, b, known, sizes, [pair for pair in pairs if pair is not None])
        count = len(next(iter(found.values())))
        if count == 0:
            return NEVER
        label = new_label(sizes, count)
        return {x: self.indexing.tabled(values, (label,)) for x, values in found.items()}

    def _known_pair(self, x: Index, y: Index, a: Index, b: Index, sizes: Sizes) -> list[np.ndarray] | None:
        """The entries of two indices over the labels of two others, if they are known."""
        both = ((x, a), (y, b))
        places = [known_table(self.indexing.array(index, like.labels, sizes)) for index, like in both]
        known = [entries for entries in places if entries is not None]
        return known if len(known) == 2 else None

    def _use(self, network: Network, solution: Mapping[int, Index]) -> None:
        """Put what labels are in their places; where a map says what a label is too, both have to be the same."""
        said = {target for target, _ in network.maps}
        both = [(label, index) for label, index in solution.items() if label in said]
        network.maps += both
        network.labels.update(*(index.labels for _, index in both))  # some may be new
        if new := {label: index for label, index in solution.items() if label not in said}:
            self._substitute(network, new)

    def _match(self, a: Index, b: Index, sizes: Mapping[int, Size]) -> Tensor:
        """1 where two indices are equal: two maps that meet without anything to put into an array between them."""
        order = tuple(dict.fromkeys(a.labels + b.labels))
        left, right = (self.indexing.array(x, order, sizes) for x in (a, b))
        return Tensor(self.operations.make("call", [left, right], ("equal",)), order)

    def _sum_out(self, network: Network, chosen: tuple[int, Index]) -> None:
        """Put a map that is alone, with the factors that know its inputs, into an array over its target."""
        target, index = chosen
        inputs, sizes = set(index.labels), network.sizes
        inside = [x for x in network.factors if inputs & set(x.labels)]
        rest = [x for x in network.factors if not inputs & set(x.labels)]
        needed = {target, *_known_labels(network.maps, network.axes)}.union(*(x.labels for x in rest))
        labels = inputs.union(*(x.labels for x in inside))
        output = (target, *sorted((labels & needed) - {target}))
        scope = {x: sizes[x] for x in (*labels, target)}
        term = self.term(1, inside, [chosen], output, scope, output)
        array = self.arrays.array(Value((term,), tuple([sizes[x] for x in output])))
        network.factors = [*rest, Tensor(array, output)]
        network.labels -= labels - needed

    # Orders of multiplication with maps between

    def _order(self, network: Network) -> Order | None:
        """When maps are used, where it is better to use some of them between two products."""
        costs = self.products.costs
        if costs is None or not network.maps or not network.factors or network.is_recursive:
            return None
        values = {label: costs.evaluate(network.sizes[label]) for label in network.labels}
        if prod(values.values()) < tuning.RELATED_ENTRIES:
            return None
        groups = _groups(network.factors)
        operands = tuple([tuple(sorted(labels)) for labels in groups])
        solved = [any(is_call(network.factors[k].operation, "inv") for k in group) for group in groups.values()]
        inverses = frozenset(k for k, is_solved in enumerate(solved) if is_solved and len(operands[k]) == 2)
        relations = tuple([Relation(target, x.labels, x.table is not None) for target, x in network.maps])
        order = relation_order(operands, relations, network.kept, tuple(sorted(values.items())), inverses)
        return order if order is not None and order.steps else None

    def _follow(self, network: Network, order: Order) -> None:
        """Use maps early, and then others between products."""
        groups = list(_groups(network.factors).values())
        late = {k: one for k, one in enumerate(network.maps) if k not in order.early}
        targets = {network.maps[k][0] for k in order.early}
        while early := {x: index for x, index in network.maps if x in targets and not targets & set(index.labels)}:
            network.maps = [one for one in network.maps if one[0] not in early]
            targets -= set(early)
            self._substitute(network, early)
        late = dict(zip(late, network.maps, strict=True))
        tensors = [[network.factors[k] for k in group] for group in groups]
        results = [self._applied(step, tensors, late, network.sizes) for step in order.steps]
        mentioned = set().union(*(_mentioned(step, tensors, late) for step in order.steps))
        network.labels -= mentioned.difference(*(step.labels for step in order.steps))
        network.maps = []
        network.factors = [*(x for k in order.operands for x in tensors[k]), *results]

    def _applied(
        self, step: Applied, tensors: list[list[Tensor]], late: Mapping[int, tuple[int, Index]], sizes: Sizes
    ) -> Tensor:
        """The product of some factors, with maps applied to it."""
        factors = [x for k in step.operands for x in tensors[k]]
        factors += [self._applied(inner, tensors, late, sizes) for inner in step.steps]
        coefficient, product = self.products.contract(1, factors, tuple(sorted(step.before)), sizes)
        maps = [late[k] for k in step.relations]
        labels = {*step.before, *step.labels, *(x for target, index in maps for x in (target, *index.labels))}
        output = tuple(sorted(step.labels))
        scope = {x: sizes[x] for x in labels}
        network = Network([product], maps, output, labels, scope)
        term = self._finished(coefficient, network, output, output)
        return Tensor(self.arrays.array(Value((term,), tuple([sizes[x] for x in output]))), output)

    def _contracted(self, coefficient: Number, network: Network, hint: Labels) -> tuple[Number, Tensor]:
        """The product of factors, summed over what the result does not have; what no factor has counts its size."""
        sizes, factors = network.sizes, []
        for x in network.factors:
            if x.operation.op == "number" and not x.labels:
                coefficient = number(coefficient * x.operation.parameters[0])
            else:
                factors.append(x)
        bound = {label for x in factors for label in x.labels}
        kept = network.kept
        free = [x for x in sorted(network.labels - bound - set(kept)) if not self.products.is_one(sizes[x])]
        factors = factors + [Tensor(self.indexing.size(sizes[x]), ()) for x in free]
        if not factors:
            return coefficient, Tensor(self.operations.number(1), ())
        liked = [x for x in dict.fromkeys((*hint, *kept)) if x in kept and x in bound]
        return self.products.contract(coefficient, factors, tuple(liked), sizes)


def _groups(factors: Sequence[Tensor]) -> dict[frozenset[int], list[int]]:
    """The places of factors that have the same labels."""
    return grouped((frozenset(x.labels), k) for k, x in enumerate(factors))


def _mentioned(step: Applied, tensors: list[list[Tensor]], late: Mapping[int, tuple[int, Index]]) -> set[int]:
    """All labels in a step, also those that an index no longer has because its places turned out to be the same."""
    labels = {label for k in step.operands for x in tensors[k] for label in x.labels} | step.before | step.labels
    labels.update(x for k in step.relations for x in (late[k][0], *late[k][1].labels))
    return labels.union(*(_mentioned(inner, tensors, late) for inner in step.steps))


def _is_within(a: Index, b: Index) -> bool:
    """Whether one of two indices has all labels of the other, so that testing for equality takes no more entries."""
    shared = set(a.labels) & set(b.labels)
    return bool(shared) and shared in (set(a.labels), set(b.labels))


def _known_labels(maps: Maps, axes: tuple[Axis, ...]) -> set[int]:
    """The labels of some maps and axes."""
    return {x for axis in axes for x in labels_of(axis)}.union(*({target, *index.labels} for target, index in maps))


def _closest(maps: Maps) -> tuple[int, int | None]:
    """Two maps of one label: those of labels that most others are functions of together, else the first and another.

    Places of windows of a matrix are equal where their rows and columns are. What has only the rows in common, and the
    columns of others, is many places.
    """
    said: dict[frozenset[int], set[int]] = {}
    for target, index in maps:
        said.setdefault(frozenset(index.labels), set()).add(target)
    targets, known = [target for target, _ in maps], [said[frozenset(index.labels)] for _, index in maps]
    best, most = (0, next((k for k, x in enumerate(targets) if k and x == targets[0]), None)), 1
    for k, target in enumerate(targets):
        for j in range(k):
            if target == targets[j] and known[j] is not known[k] and len(known[j] & known[k]) > most:
                best, most = (j, k), len(known[j] & known[k])
    return best


def _besides(maps: Maps, a: Index, b: Index) -> list[tuple[Index, Index]]:
    """What else has to be equal where two indices are: further maps of one label, of the same labels as these."""
    firsts, seconds = ([(target, x) for target, x in maps if set(x.labels) == set(y.labels)] for y in (a, b))
    pairs = [(x, y) for target, x in firsts for other, y in seconds if target == other and x is not y]
    return [(x, y) for x, y in pairs if not (x is a and y is b)]


def _is_alone(maps: Maps, which: int, axes: tuple[Axis, ...]) -> bool:
    """Whether no other map, no axis, and not its own target knows the inputs of a map."""
    target, index = maps[which]
    others = [other for k, other in enumerate(maps) if k != which]
    return not set(index.labels) & {target, *_known_labels(others, axes)}


def _is_injective(axes: tuple[Axis, ...]) -> bool:
    """Whether different labels surely have different places: each label is an axis, or the only one of an index, or
    tables say different places for all labels that they have together."""
    alone: set[int] = set()
    labels: set[int] = set()
    tables: list[Tensor] = []
    for axis in axes:
        labels.update(labels_of(axis))
        if isinstance(axis, int):
            alone.add(axis)
        elif axis.table is not None:
            tables.append(axis.table)
        elif len(axis.strides) == 1 and sz.sign(axis.strides[0][1]):
            alone.add(axis.strides[0][0])
    return labels <= alone or _are_distinct([x for x in tables if set(x.labels) - alone], labels - alone)


def _are_distinct(tables: Sequence[Tensor], labels: set[int]) -> bool:
    """Whether tables together say different places for different values of some labels, those of others given."""
    order = tuple(dict.fromkeys([label for table in tables for label in table.labels]))
    if not labels <= set(order):
        return False
    found = [_entries(table, order) for table in tables]
    columns = [x for x in found if x is not None]
    if len(columns) < len(found):
        return False
    counts = np.broadcast_shapes(*(column.shape for column in columns))
    places = np.zeros(counts, dtype=int)
    for axis, label in enumerate(order):
        if label not in labels:
            columns.append(np.arange(counts[axis]).reshape([-1 if k == axis else 1 for k in range(len(order))]))
    for column in columns:
        places = places * (int(column.max(initial=0)) + 1) + column
    return are_distinct(places)


def _entries(table: Tensor, order: Labels) -> np.ndarray | None:
    """The entries of a table, if they are known, as they broadcast against axes `order`."""
    if (values := known_table(table.operation)) is None:
        return None
    present = [label for label in order if label in table.labels]
    turned = values.transpose([table.labels.index(label) for label in present])
    return turned[tuple([slice(None) if label in present else None for label in order])]
