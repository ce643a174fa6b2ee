"""Sums of squares, as they stand below roots: a norm is computed without its squares, which may be out of range."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr, Map, Number, is_contraction, is_index_map
from eindiff.core.sizes import Size


def squares(node: Expr) -> tuple[Expr, tuple[int, ...]] | None:
    """`x` and the axes that are summed, if a node is a sum of squares of the entries of x, in the order of its axes."""
    if not isinstance(node, Einsum) or node.is_product or len(node.operands) != 2 or node.labels[0] != node.labels[1]:
        return None
    x, labels = node.operands[0], node.labels[0]
    kept = tuple([label for label in labels if label in node.output])
    if x is not node.operands[1] or len(set(labels)) < len(labels) or kept != node.output:
        return None
    return x, tuple([axis for axis, label in enumerate(labels) if label not in node.output])


Factors = list[tuple[Expr, Labels]]


def half(node: Expr) -> tuple[Factors, Labels, dict[int, Size]] | None:
    """The factors of y, its labels and sizes, if a scalar is the contraction of y with itself: `A x` of `x'A'A x`.

    Contractions inside, such as `A'A x`, are looked into where that is needed.
    """
    if not is_contraction(node) or node.ndim:
        return None
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    factors: Factors = list(zip(node.operands, node.labels, strict=True))
    for _ in range(3):
        if (found := _half(factors)) is not None:
            return (*found, sizes)
        factors = [inner for operand, labels in factors for inner in _inside(operand, labels, sizes)]
    return None


def _inside(node: Expr, labels: Labels, sizes: dict[int, Size]) -> Factors:
    """The factors of a contraction, in labels of what it stands in."""
    if not is_contraction(node):
        return [(node, labels)]
    names = dict(zip(node.output, labels, strict=True))
    for inner in node.contracted:
        names[inner] = fresh = len(sizes)
        sizes[fresh] = node.sizes[inner]
    return [(x, tuple([names[a] for a in theirs])) for x, theirs in zip(node.operands, node.labels, strict=True)]


def _half(factors: Factors) -> tuple[Factors, Labels] | None:
    """Factors that are the mirror image of the others, and the labels that are their own."""
    mirror: dict[int, int] = {}
    mine: Factors = []
    left = list(factors) if 4 <= len(factors) <= 8 else []
    while left:
        operand, labels = left.pop(0)
        others = [theirs for other, theirs in left if other is operand]
        images = {b for a, b in mirror.items() if a != b}
        pairs = [(x, y) for one in others for x, y in ((labels, one), (one, labels)) if images.isdisjoint(x)]
        pairs = [(x, y) for x, y in pairs if all(mirror.get(a, b) == b for a, b in zip(x, y, strict=True))]
        if not pairs or len({frozenset(pair) for pair in pairs}) > 1 or is_index_map(operand):
            return None
        mirror.update(zip(*pairs[0], strict=True))
        mine.append((operand, pairs[0][0]))
        left.remove((operand, pairs[0][1] if pairs[0][0] == labels else pairs[0][0]))
    shared = tuple([a for a, b in mirror.items() if a == b])
    moved = {b for a, b in mirror.items() if a != b}
    return (mine, shared) if shared and not moved & set(mirror) and len(moved) + len(shared) == len(mirror) else None


def several_squares(node: Expr) -> list[tuple[Number, Expr | None]] | None:
    """The numbers c and tensors x whose `c x²` a scalar is the sum of, over all entries; None in place of x is 1."""
    if not isinstance(node, Add) or node.ndim:
        return None
    found: list[tuple[Number, Expr | None]] = []
    for term in node.terms:
        coefficient, operands = (term.coefficient, term.operands) if isinstance(term, Einsum) else (1, (term,))
        if is_contraction(term):
            coefficient, operands = 1, (term,)
        if coefficient <= 0 or len(operands) > 2:
            return None
        if len(operands) == 1 and (square := squares(operands[0])) is not None:
            found.append((coefficient, square[0]))
        elif len(operands) == 1 or len(set(operands)) > 1 or any(operand.ndim for operand in operands):
            return None
        else:
            found.append((coefficient, operands[0] if operands else None))
    return found


def units(operands: Sequence[Expr]) -> tuple[int, list[int]] | None:
    """Where in a product a power of the norm of x stands beside x itself, or a multiple A x of it: the places of both.

    `x x' / ‖x‖³` is `u u' / ‖x‖` with unit vectors u, whose entries are never out of range.
    """
    for i, node in enumerate(operands):
        if not isinstance(node, Map) or node.function.name != "pow" or node.ndim:
            continue
        twice = -2 * node.function.parameter
        if twice > 2 and twice % 2 == 1:
            one, several = squares(node.args[0]), several_squares(node.args[0])
            bases = {one[0]} if one is not None else {x for _, x in several or ()}
            multiples = [not bases.isdisjoint((x, *(x.operands if isinstance(x, Einsum) else ()))) for x in operands]
            if places := [j for j, multiple in enumerate(multiples) if multiple][: int(twice) - 1]:
                return i, places
    return None
