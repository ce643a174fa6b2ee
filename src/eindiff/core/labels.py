"""Pure label algebra: uniting, connecting and naming labels. No expressions in sight.

A *network* is a list of operands, each known by a sortable key and a tuple of labels (one an axis), with some
labels *free* (they are the result's axes, in no particular order) and the others contracted. `canonical` names
its labels and orders its operands so that two networks get the same answer if and only if they are the same up
to the names of labels, the order of operands and the symmetries of operands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

Labels = tuple[int, ...]
Symmetry = tuple[tuple[int, ...], int]  # a permutation of axes, and the sign that the tensor takes under it

LEAF_LIMIT = 720  # networks with more ties than this are named without trying them all
ORDERS_LIMIT = 24  # of axes with equal signatures, of which all are tried


class UnionFind:
    """Disjoint sets of labels; the smallest label stands for its set."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def find(self, label: int) -> int:
        """The label that stands for the set of `label`."""
        root = label
        while (parent := self._parent.get(root, root)) != root:
            root = parent
        while label != root:
            self._parent[label], label = root, self._parent.get(label, label)
        return root

    def unite(self, a: int, b: int) -> None:
        """Make `a` and `b` the same label."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self._parent[max(a, b)] = min(a, b)


def components(groups: Sequence[Iterable[int]]) -> list[list[int]]:
    """Indices of the groups that hang together through common members.

    >>> components([(1, 2), (3,), (2, 4), ()])
    [[0, 2], [1], [3]]
    """
    sets = UnionFind()
    for index, group in enumerate(groups):
        for member in group:
            sets.unite(-1 - index, member)
    found: dict[int, list[int]] = {}
    for index in range(len(groups)):
        found.setdefault(sets.find(-1 - index), []).append(index)
    return list(found.values())


def first_appearance(groups: Iterable[Iterable[Hashable]]) -> dict[Any, int]:
    """Names 0, 1, 2, ... for members in the order in which they appear.

    >>> first_appearance(["ca", "cb"])
    {'c': 0, 'a': 1, 'b': 2}
    """
    names: dict[Hashable, int] = {}
    for group in groups:
        for member in group:
            names.setdefault(member, len(names))
    return names


def fresh_labels(count: int, *used: Iterable[int]) -> Labels:
    """So many labels that are none of those in use.

    >>> fresh_labels(2, (3, 0), (4,))
    (5, 6)
    """
    start = 1 + max((label for labels in used for label in labels), default=-1)
    return tuple(range(start, start + count))


def best_arrangement(labels: Labels, symmetries: Sequence[Symmetry]) -> tuple[Labels, int]:
    """The smallest tuple of labels that names the same tensor, with its sign; sign 0 if both signs reach it.

    >>> best_arrangement((1, 0), [((1, 0), 1)])
    ((0, 1), 1)
    >>> best_arrangement((0, 0), [((1, 0), -1)])
    ((0, 0), 0)
    """
    best, sign = labels, 1
    for permutation, s in symmetries:
        candidate = tuple([labels[axis] for axis in permutation])
        if candidate < best:
            best, sign = candidate, s
        elif candidate == best and s != sign:
            sign = 0
    return best, sign


@dataclass(frozen=True, slots=True)
class Canonical:
    """The canonical naming of a network (see the module's text)."""

    order: list[int]  # operand indices in canonical order
    labels: list[Labels]  # renamed labels of the operands in that order
    free: list[int]  # the old free labels, in canonical order
    output: Labels  # their new names
    sign: int  # the sign between the given network and the canonical one; 0: the network is zero
    symmetries: tuple[Symmetry, ...]  # of the result's axes, without the identity


def canonical(
    keys: Sequence[Any], labels: Sequence[Labels], symmetries: Sequence[Sequence[Symmetry]], free: Iterable[int]
) -> Canonical:
    """Name a network canonically.

    Without repeated keys and symmetric operands, sorting by key decides everything. Otherwise labels and operands
    are coloured and the colours refined until they are stable; each remaining tie is broken in every way, and the
    smallest outcome counts. Outcomes that agree are the automorphisms of the network: they give the symmetries of
    its result, and a sign of -1 with no axis moved shows that it is zero.

    >>> canonical("XX", [(7, 1), (7, 2)], [(), ()], [1, 2]).symmetries
    (((1, 0), 1),)
    """
    free = set(free)
    if len(set(keys)) == len(keys) and not any(symmetries):
        order = sorted(range(len(keys)), key=keys.__getitem__)
        names = first_appearance(labels[i] for i in order)
        renamed = [tuple([names[label] for label in labels[i]]) for i in order]
        ordered = sorted(free, key=names.__getitem__)
        return Canonical(order, renamed, ordered, tuple([names[label] for label in ordered]), 1, ())
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return _Search([ranks[key] for key in keys], labels, symmetries, free).result()


@dataclass(slots=True)
class _Leaf:
    certificate: tuple
    order: list[int]
    names: dict[int, int]
    sign: int


@dataclass(slots=True)
class _Search:
    """The search behind `canonical`: refine colours, break ties in every way, keep the smallest leaves."""

    ranks: list[int]
    labels: Sequence[Labels]
    symmetries: Sequence[Sequence[Symmetry]]
    free: set[int]
    leaves: list[_Leaf] = field(default_factory=list)
    visited: int = 0
    is_cut_short: bool = False

    def result(self) -> Canonical:
        everything = {label for labels in self.labels for label in labels}
        self._explore({label: int(label not in self.free) for label in sorted(everything)})
        best = self.leaves[0]
        names = first_appearance(labels for _, labels in best.certificate)
        renamed = [tuple([names[label] for label in labels]) for _, labels in best.certificate]
        free = sorted(self.free, key=lambda label: names[best.names[label]])
        found = {self._symmetry(best, leaf, free) for leaf in self.leaves}
        if self.is_cut_short:
            found = _largest_group(found)
        identity = tuple(range(len(free)))
        sign = 0 if best.sign == 0 or (identity, -1) in found else best.sign
        output = tuple([names[best.names[label]] for label in free])
        return Canonical(best.order, renamed, free, output, sign, tuple(sorted(found - {(identity, 1)})))

    @staticmethod
    def _symmetry(best: _Leaf, leaf: _Leaf, free: list[int]) -> Symmetry:
        """How the axes move between two leaves of the same certificate."""
        position = {best.names[label]: axis for axis, label in enumerate(free)}
        return tuple([position[leaf.names[label]] for label in free]), best.sign * leaf.sign

    def _explore(self, colours: dict[int, int]) -> None:
        colours = self._refine(colours)
        classes: dict[int, list[int]] = {}
        for label, colour in colours.items():
            classes.setdefault(colour, []).append(label)
        tied = min((colour for colour, members in classes.items() if len(members) > 1), default=None)
        if tied is None:
            self._leaf(colours)
            return
        for label in classes[tied]:
            if self.visited >= LEAF_LIMIT:
                self.is_cut_short = True
            else:
                self._explore({other: 2 * colour + (other != label) for other, colour in colours.items()})

    def _refine(self, colours: dict[int, int]) -> dict[int, int]:
        """Split colours by where labels occur, until nothing splits any more."""
        while True:
            seen: dict[int, list] = {label: [] for label in colours}
            for rank, labels, symmetries in zip(self.ranks, self.labels, self.symmetries, strict=True):
                mine = tuple([colours[label] for label in labels])
                around, _ = best_arrangement(mine, symmetries)
                for axis, label in enumerate(labels):
                    orbit = min([axis, *(p[axis] for p, _ in symmetries)])
                    seen[label].append((rank, around, orbit))
            signatures = {label: (colours[label], sorted(seen[label])) for label in colours}
            distinct = sorted({(colour, tuple(where)) for colour, where in signatures.values()})
            rank_of = {signature: index for index, signature in enumerate(distinct)}
            refined = {label: rank_of[colour, tuple(where)] for label, (colour, where) in signatures.items()}
            if len(distinct) == len(set(colours.values())):
                return refined
            colours = refined

    def _leaf(self, names: dict[int, int]) -> None:
        self.visited += 1
        sign, entries = 1, []
        for index, (rank, labels, symmetries) in enumerate(zip(self.ranks, self.labels, self.symmetries, strict=True)):
            arranged, s = best_arrangement(tuple([names[label] for label in labels]), symmetries)
            sign *= s
            entries.append((rank, arranged, index))
        entries.sort()
        certificate = tuple((rank, arranged) for rank, arranged, _ in entries)
        leaf = _Leaf(certificate, [index for _, _, index in entries], names, sign)
        if not self.leaves or certificate < self.leaves[0].certificate:
            self.leaves = [leaf]
        elif certificate == self.leaves[0].certificate:
            self.leaves.append(leaf)


def _largest_group(found: set[Symmetry]) -> set[Symmetry]:
    """Those of some symmetries that lead from each of them to another one: they are a group."""
    return {
        (moved, sign)
        for moved, sign in found
        if all((tuple([other[axis] for axis in moved]), sign * s) in found for other, s in found)
    }


def arrangements(signatures: Sequence[Any]) -> list[tuple[int, ...]]:
    """All orders of axes by increasing signature, ties in every order (or only in the given one if too many).

    >>> arrangements(["b", "a", "b"])
    [(1, 0, 2), (1, 2, 0)]
    """
    classes: dict[Any, list[int]] = {}
    for axis, signature in enumerate(signatures):
        classes.setdefault(signature, []).append(axis)
    orders: list[tuple[int, ...]] = [()]
    for signature in sorted(classes):
        members = classes[signature]
        ways = list(permutations(members)) if len(members) <= 4 else [tuple(members)]
        if len(orders) * len(ways) > ORDERS_LIMIT:
            ways = [tuple(members)]
        orders = [order + way for order in orders for way in ways]
    return orders


LETTERS = "ijklmnopqrstuvwxyzabcdefghABCDEFGHIJKLMNOPQRSTUVWXYZ"


def subscripts(groups: Sequence[Labels], output: Labels, alphabet: str = LETTERS) -> str:
    """Labels in the notation of einsum.

    >>> subscripts([(3, 5), (5,)], (3,))
    'ij,j->i'
    """
    names = first_appearance([*groups, output])
    inputs = ",".join("".join(alphabet[names[x]] for x in labels) for labels in groups)
    return f"{inputs}->{''.join(alphabet[names[x]] for x in output)}"
