"""Contractions that are products of a part with itself: `tr(A K_d A K_e)` is that of `A K_d` and `A K_e`, one product.

The order of multiplication tells equal products by operands and labels alone. Here parts are made by the constructors,
which know the symmetries of all operands, so that two parts are one node wherever their values are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, product
from math import prod

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.groups import grouped
from eindiff.core.leaves import BANDS
from eindiff.core.nesting import PARTS_LIMIT
from eindiff.core.nodes import Add, Einsum, Expr, Variable, is_contraction, is_index_map, is_inverse
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Evaluate, Size
from eindiff.core.tensor_order import Path
from eindiff.planning.contraction_order import (
    ENTRIES_IN_ROW,
    PLAIN,
    Speed,
    Speeds,
    contraction_path,
    path_flops,
    speed,
)
from eindiff.planning.tuning import CLEARLY, SPLIT_LIMIT

Split = tuple[list[int], list[int]]  # the places of the operands of two parts


def with_equal_parts(outputs: Sequence[Expr], evaluate: Evaluate) -> list[Expr]:
    """Contractions of two equal parts with these as nodes, where that takes fewer operations."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        node = node if children == list(node.children) else with_children(node, children)
        return _halved(node, evaluate) if is_contraction(node) and 4 <= len(node.operands) <= PARTS_LIMIT else node

    return rebuild(outputs, change)


def _halved(node: Einsum, evaluate: Evaluate) -> Expr:
    """A contraction as one of two equal parts and the rest, in the cheapest way; as it is, if none is cheaper."""
    forms = [found for split in islice(_splits(node), SPLIT_LIMIT) if (found := _of_parts(node, split)) is not None]
    best, least = node, CLEARLY * flops_alone(node, evaluate) if forms else 0.0
    for found in forms:
        parts = {*found.operands} - {*node.operands}
        flops = flops_alone(found, evaluate) + sum(flops_alone(part, evaluate) for part in parts)
        if flops < least:
            best, least = found, flops
    return best


def _splits(node: Einsum) -> Iterator[Split]:
    """The ways to give each of two parts one of two equal operands; which part is first makes no difference. What
    stands on both sides of a middle comes first, as there are many ways where operands come often."""
    if (first := _around_middle(node)) is not None:
        yield first
    places = grouped((operand, k) for k, operand in enumerate(node.operands))
    repeated = [own for operand, own in places.items() if len(own) > 1 and not is_index_map(operand)]
    if len(repeated) < 2:
        return
    ways = [list(_pairs(own)) for own in repeated]
    ways[0] = [(first, second) for first, second in ways[0] if first < second]
    for chosen in product(*ways):
        yield [k for first, _ in chosen for k in first], [k for _, second in chosen for k in second]


def _at_end(node: Einsum, places: set[int], label: int) -> list[int]:
    """Those of some operands that have a label, the ones of fewer axes first."""
    return sorted((k for k in places if label in node.labels[k]), key=lambda k: node.operands[k].ndim)


def _around_middle(node: Einsum) -> Split | None:
    """The places of X A and A' X' in `X A ... A' X'`, with weights between them; None if there are no such."""
    ends, left = list(node.output), set(range(len(node.operands)))
    parts: Split = ([], [])
    while len(ends) == 2 and ends[0] != ends[1]:
        near = [_at_end(node, left, end) for end in ends]
        if not all(near) or near[0][0] == near[1][0]:
            break
        pair = [own[0] for own in near]
        after = [[x for x in node.labels[k] if x != end] for k, end in zip(pair, ends, strict=True)]
        if node.operands[pair[0]] is not node.operands[pair[1]] or [*map(len, after)] not in ([0, 0], [1, 1]):
            break
        left -= {*pair}
        for part, place in zip(parts, pair, strict=True):
            part.append(place)
        ends = [own[0] if own else end for own, end in zip(after, ends, strict=True)]
    return parts if parts[0] else None


def _pairs(places: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Two sets of equally many places, of as many as there are, but for one."""
    for first in combinations(places, len(places) // 2):
        rest = [k for k in places if k not in first]
        yield from ((first, second) for second in combinations(rest, len(first)))


def _divided(node: Einsum, split: Split) -> tuple[list[Factor], list[Factor], list[Factor]]:
    """The factors of two parts of a contraction, and the others."""
    factors = list(zip(node.operands, node.labels, strict=True))
    first, second = ([factors[k] for k in places] for places in split)
    return first, second, [factor for k, factor in enumerate(factors) if k not in (*split[0], *split[1])]


def _of_parts(node: Einsum, split: Split) -> Einsum | None:
    """A contraction with two parts as nodes, if both are one and sum over something."""
    first, second, rest = _divided(node, split)
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    labels = [{label for _, own in part for label in own} for part in (first, second)]
    outside = set(node.output).union(*(own for _, own in rest))
    kept = [tuple(sorted(own & (other | outside))) for own, other in (labels, labels[::-1])]
    if not len(kept[0]) == len(kept[1]) < min(map(len, labels)):
        return None
    made = [
        construct.einsum(1, part, own, sizes, inline=False) for part, own in zip((first, second), kept, strict=True)
    ]
    if len({frozenset(x for x, _ in construct.parts(one)[1]) for one in made}) > 1:
        return None
    both: list[Factor] = list(zip(made, kept, strict=True))
    found = construct.einsum(1, [*both, *rest], node.output, sizes, inline=False)
    return found if is_contraction(found) else None


def flops_alone(node: Expr, evaluate: Evaluate, squares: bool = True) -> float:
    """What the best order of multiplication of a contraction takes, if nothing of it is there; half of that for
    `X' diag(d) X`, if `squares` count as such."""
    if not is_contraction(node):
        return float(prod(map(evaluate, node.shape)))
    sizes, path = _known_sizes(node, evaluate), path_alone(node, evaluate)
    flops = path_flops(node.labels, node.output, sizes, path, _keys(node), _speeds(node, evaluate))
    return flops / (2 if squares and _is_square(node) else 1)


def path_alone(node: Einsum, evaluate: Evaluate) -> Path:
    """The best order of multiplication of a contraction, if nothing of it is there."""
    speeds = _speeds(node, evaluate)
    return contraction_path(node.labels, node.output, _known_sizes(node, evaluate), "auto", _keys(node), speeds)


def _speeds(node: Einsum, evaluate: Evaluate) -> Speeds:
    """What products with the operands of a contraction take; nothing where all are full."""
    found = tuple([_speed(x, evaluate) for x in node.operands])
    return () if all(x is PLAIN for x in found) else found


def _speed(x: Expr, evaluate: Evaluate) -> Speed:
    """What products with a matrix take whose entries are near its diagonal, or one in a row."""
    is_inverted = is_inverse(x)
    kind = _kind(x.children[0] if is_inverted else x)
    return speed(ENTRIES_IN_ROW[kind], evaluate(x.shape[0]), is_inverted) if kind in ENTRIES_IN_ROW else PLAIN


def _kind(x: Expr) -> str:
    """The property of a matrix, or of a sum of such and diagonal ones, that says where its entries are."""
    if isinstance(x, Variable):
        return next((word for word in ENTRIES_IN_ROW if word in x.properties), "")
    if isinstance(x, Einsum) and x.is_product and len({*x.output}) == 2 == x.ndim:
        return next((_kind(y) for y in x.operands if y.ndim == 2), "")
    terms = x.terms if isinstance(x, Add) and x.ndim == 2 else ()
    kinds = {_kind(y) for y in terms if not (isinstance(y, Einsum) and y.output[0] == y.output[1])}
    return "banded" if kinds and kinds <= BANDS else ""


def _known_sizes(node: Einsum, evaluate: Evaluate) -> dict[int, int]:
    return {label: evaluate(size) for label, size in enumerate(node.sizes)}


def _keys(node: Einsum) -> list[int]:
    """Numbers that tell equal operands."""
    operands = [operand.digest for operand in node.operands]
    return [operands.index(operand) for operand in operands]


def _is_square(node: Einsum) -> bool:
    """Whether a contraction is `X' diag(d) X`."""
    sides = [[k for k, labels in enumerate(node.labels) if label in labels] for label in node.output]
    if len(sides) != 2 or [len(side) for side in sides] != [1, 1] or sides[0] == sides[1]:
        return False
    [[i], [j]], turned = sides, dict(zip(node.output, node.output[::-1], strict=True))
    is_mirrored = tuple([turned.get(label, label) for label in node.labels[i]]) == node.labels[j]
    return is_mirrored and node.operands[i] is node.operands[j] and len(node.labels[i]) == 2
