"""Sums of squares, as they stand below roots: a norm is computed without its squares, which may be out of range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TypeGuard

from eindiff.core.coefficients import to_power
from eindiff.core.construct import Factor, einsum, parts, power_parts
from eindiff.core.index_relations import SizeOf
from eindiff.core.labels import Labels, components
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import Add, Constant, Einsum, Expr, Map, is_contraction, is_index_map
from eindiff.core.sizes import Size
from eindiff.functions.elementwise import sqrt

MOST_SQUARED = 12  # of a sum of squares that is looked at
LEVELS = 6  # of products and sums in each other in which factors are looked for

Counted = dict[tuple[Expr, int], Counter[Expr]]


@dataclass(frozen=True, slots=True)
class Squared:
    """Some y whose squares, summed along its last axes, are a part of a sum of squares."""

    y: Expr
    summed: int  # how many axes


def is_root(node: Expr) -> TypeGuard[Map]:
    """Whether a node is an odd power of a root."""
    return isinstance(node, Map) and node.function.name == "pow" and power_of_root(node) % 2 == 1


def power_of_root(node: Map) -> int:
    """k of a power k/2; 0 for others."""
    exponent = node.function.parameter
    return int(2 * exponent) if isinstance(exponent, Fraction) and exponent.denominator == 2 else 0


def squares(total: Expr) -> list[Squared] | None:
    """The parts of a sum of squares: `A x` of `x'A'A x`, or x and 2 c of `x x + 4 c c`; None if it is no such sum."""
    found = [_root_of_term(term) for term in (total.terms if isinstance(total, Add) else (total,))]
    return [part for part in found if part is not None] if None not in found else None


def _root_of_term(term: Expr) -> Squared | None:
    """y, if a term is the sum of the squares of y along its last axes."""
    coefficient, factors, output, all_sizes = parts(term)
    sizes = dict(all_sizes)
    root = to_power(coefficient, Fraction(1, 2)) if coefficient > 0 else None
    if root is None or len(set(output)) < len(output) or any(node is term and _has_root(node) for node, _ in factors):
        return None  # the root of a size is no norm
    alone = [factor for factor in factors if factors.count(factor) % 2 == 1 and _has_root(factor[0])]
    found = _opened_half([factor for factor in factors if factor not in alone], output, sizes)
    if found is None or _is_outer(found[0], output):
        return None
    mine, summed = found
    roots = [(sqrt(node), labels) for node, labels in alone]
    return Squared(einsum(root, [*mine, *roots], (*output, *summed), sizes, inline=False), len(summed))


def _opened_half(factors: list[Factor], output: Labels, sizes: dict[int, Size]) -> tuple[list[Factor], Labels] | None:
    """Such a half of factors, or of what contractions among them are of."""
    for _ in range(4):
        if len(factors) > MOST_SQUARED:
            return None
        if (found := _half(factors, output)) is not None:
            return found
        factors = list(chain.from_iterable([_inside(operand, labels, sizes) for operand, labels in factors]))
    return None


def _is_outer(factors: Sequence[Factor], output: Labels) -> bool:
    """Whether sums of squares are multiplied: all products of what they are of are too many."""
    summed = [set(labels).difference(output) for _, labels in factors]
    return len(components([labels for labels in summed if labels])) > 1


def _has_root(node: Expr) -> bool:
    """Whether a factor is a power of a size, or a sum of squares itself."""
    base, _ = power_parts(node)
    return (
        squares(node) is not None
        if isinstance(node, Add)
        else isinstance(base, Constant) and isinstance(base.value, SizeOf)
    )


def _inside(node: Expr, labels: Labels, sizes: dict[int, Size]) -> list[Factor]:
    """The factors of a contraction, in labels of what it stands in."""
    return opened(node, labels, fresh_in(sizes)) if is_contraction(node) else [(node, labels)]


def _half(factors: list[Factor], output: Labels) -> tuple[list[Factor], Labels] | None:
    """Factors that are the mirror image of the others, and the labels of both that the output does not have."""
    mirror: dict[int, int] = {label: label for label in output}
    mine: list[Factor] = []
    left = list(factors)
    while left:
        operand, labels = left.pop(0)
        pairs = _images(labels, [theirs for other, theirs in left if other is operand], mirror)
        if not pairs or len({frozenset(pair) for pair in pairs}) > 1:
            return None
        mirror.update(zip(*pairs[0], strict=True))
        mine.append((operand, pairs[0][0]))
        left.remove((operand, pairs[0][1] if pairs[0][0] == labels else pairs[0][0]))
    shared = tuple([a for a, b in mirror.items() if a == b])
    moved = {b for a, b in mirror.items() if a != b}
    if moved & set(mirror) or len(moved) + len(shared) != len(mirror):
        return None
    return mine, tuple([label for label in shared if label not in output])


def _images(labels: Labels, others: list[Labels], mirror: dict[int, int]) -> list[tuple[Labels, Labels]]:
    """Labels and other ones that may be their mirror image, or the other way round, given that of some labels."""
    images = {b for a, b in mirror.items() if a != b}
    pairs = [(x, y) for one in others for x, y in ((labels, one), (one, labels)) if images.isdisjoint(x)]
    return [(x, y) for x, y in pairs if _is_mirrored(x, y, dict(mirror))]


def _is_mirrored(labels: Labels, images: Labels, mirror: dict[int, int]) -> bool:
    """Whether each label has one image, beside those that are known."""
    return all(mirror.setdefault(a, b) == b for a, b in zip(labels, images, strict=True))


def _fitting(factors: Sequence[Factor], i: int) -> list[int]:
    """The places of the factors with all labels of one of them, or only some of these."""
    return [
        j for j, (x, labels) in enumerate(factors)
        if j != i and not is_index_map(x) and is_one_in_other(factors[i][1], labels)
    ]  # fmt: skip


def units(factors: Sequence[Factor], counted: Counted | None = None) -> tuple[int, list[int]] | None:
    """Where in a product a power of a norm stands beside what it is the norm of, or a multiple: the places of both.

    `x x' / ‖x‖³` is `u u' / ‖x‖` with unit vectors u, whose entries are never out of range. What is `counted` is
    remembered there, for products of the same program.
    """
    counted = {} if counted is None else counted
    for i, (node, _) in enumerate(factors):
        if not is_root(node) or (power := -power_of_root(node)) < 0 or len(factors) < 3:
            continue
        fitting = _fitting(factors, i)
        if not fitting or (found := squares(node.args[0])) is None:
            continue
        within = sum([_factors_of(part.y, counted) for part in found], Counter())
        common = {j: (_factors_of(factors[j][0], counted) & within).total() for j in fitting}
        multiples = sorted([j for j in fitting if common[j]], key=lambda j: -common[j])
        if places := multiples[: power if len(multiples) > power else power - 1]:
            return i, sorted(places)
    return None


def is_one_in_other(labels: Labels, theirs: Labels) -> bool:
    """Whether a quotient has as many entries as the larger of the two."""
    return len(set(theirs)) == len(theirs) and (set(labels) <= set(theirs) or set(theirs) <= set(labels))


def _factors_of(x: Expr, counted: Counted, levels: int = LEVELS) -> Counter[Expr]:
    """A node with what it, or its terms, are products or contractions of, each as often as it occurs.

    Parts of a network stand in each other many times over: each is counted once, and not the whole network.
    """
    if (x, levels) not in counted:
        total = Counter([x])
        if isinstance(x, Add) and levels:
            inside = [_factors_of(term, counted, levels - 1) for term in x.terms]
            longest: Counter[Expr] = max(inside, key=Counter[Expr].total)
            total.update(longest)
        elif isinstance(x, Einsum) and levels:
            for operand in x.operands:
                total += _factors_of(operand, counted, levels - 1)
        counted[x, levels] = total
    return counted[x, levels]
