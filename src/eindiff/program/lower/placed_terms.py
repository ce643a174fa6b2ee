"""Factors of contractions that are sums of terms at places, which are taken as arrays or term by term."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod

from eindiff.core.labels import Labels, first_appearance
from eindiff.core.networks import Factor, new_label
from eindiff.core.nodes import Einsum, is_index_map
from eindiff.core.sizes import Size
from eindiff.planning import tuning
from eindiff.program.lower.networks import Maps
from eindiff.program.lower.places import Index
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Term

Placed = Mapping[int, tuple[Term, ...]]  # the terms of some factors


def in_order(factors: Sequence[Factor], placed: Placed) -> list[int]:
    """The places of factors, ordered by what they are, in whatever order a node has them."""
    return sorted(range(len(factors)), key=lambda k: (len(placed.get(k, ())), str(factors[k][0].shape)))


def choices(placed: Placed) -> list[tuple[int, ...]]:
    """The factors that are taken term by term: none, all that can be, or one of them, if that gives few terms."""
    found = dict.fromkeys([(), tuple(placed), *[(k,) for k in placed]])
    return [some for some in found if prod(len(placed[k]) for k in some) <= tuning.TERMS_LIMIT]


def choice_question(node: Einsum, factors: Sequence[Factor], placed: Placed, order: Sequence[int]) -> Hashable:
    """What it depends on which factors had better be arrays: shapes and labels, and how many terms there are.

    Layers of nets and turns of loops ask it again and again. Where the places of terms may meet others they count too.
    """
    names = first_appearance([*(factors[k][1] for k in order), node.output])
    is_related = len(placed) > 1 or any(is_index_map(factor) for factor, _ in factors)
    parts: list[Hashable] = []
    for k in order:
        factor, labels = factors[k]
        terms = [str((x.core.operation.shape, x.axes if is_related else x.injective)) for x in placed.get(k, ())]
        kind = factor if is_index_map(factor) else factor.shape
        parts.append((kind, tuple([names[x] for x in labels]), *sorted(terms)))
    return *parts, *sorted([names[x] for x in node.output]), *sorted(map(str, node.shape))


def renamed(term: Term, labels: Labels, sizes: dict[int, Size]) -> tuple[Tensor, Maps]:
    """The core of a term among other factors, whose axes have labels there, and maps that say where its entries are."""
    names: dict[int, int] = {}
    maps: Maps = []
    for axis, label in zip(term.axes, labels, strict=True):
        if isinstance(axis, int) and axis not in names:
            names[axis] = label
        elif isinstance(axis, int) and names[axis] != label:
            maps.append((label, Index(0, ((names[axis], 1),))))
    for axis, label in zip(term.axes, labels, strict=True):
        if not isinstance(axis, int):
            for inner in axis.labels:
                if inner not in names:
                    names[inner] = new_label(sizes, term.sizes[inner])
            maps.append((label, axis.renamed(names)))
    return Tensor(term.core.operation, tuple([names[x] for x in term.core.labels])), maps
