"""Sums in other forms, which may cost less: with common factors in front, or multiplied out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import TypeGuard

from eindiff.core import construct
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import Add, Einsum, Expr, Variable, is_contraction, is_inverse, is_kept, number, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Size
from eindiff.planning.differences import differences, joined, with_square
from eindiff.planning.tuning import FACTORINGS, TERMS_LIMIT, VARIED


def factor(outputs: Sequence[Expr]) -> list[Expr]:
    """In sums, products with common factors as these factors times a sum of the rest, if the rest is smaller; sums over
    pairs with squares of differences."""

    kept: set[Expr] = set()  # what stays as it is, if what it is made of does
    sums = {node: None for node in topological(outputs) if isinstance(node, Add)}
    apart = differences(sums)

    def change(node: Expr, children: list[Expr]) -> Expr:
        if node in kept and children == list(node.children):
            return node
        result = with_children(node, children)
        if is_contraction(result) and (squared := with_square(result)) is not None:
            result = squared
            made = {x: None for x in topological([squared]) if isinstance(x, Add)}
            sums.update(made)
            apart.update(differences(made))
            kept.clear()  # other sums are multiples of the differences
        for _ in range(FACTORINGS):  # at once, as what is above is made anew for each change below
            result, before = _factored(result, sums, apart) if isinstance(result, Add) else result, result
            if result is before:
                break
        if result is node:
            kept.add(node)
        return result

    for _ in range(FACTORINGS if len(topological(outputs)) <= VARIED else 1):
        outputs, before = rebuild(outputs, change), outputs
        if outputs == before:
            break
    return list(outputs)


def _factored(node: Add, sums: Collection[Expr], apart: Collection[tuple[Expr, int]]) -> Expr:
    """A sum with two of its terms as one, if they have factors in common; or all, if the sum of the rest is there."""
    products = [term for term in node.terms if isinstance(term, Einsum) and _is_plain_product(term)]
    if len(products) > TERMS_LIMIT:
        return node
    for merged in (joined(node, apart), _merged(node)):
        if merged is not None:
            return merged
    if len(products) == len(node.terms):
        whole = construct.factored(dict.fromkeys(products, 1), inline=False)
        if whole is not None and any(child in sums for child in whole.children):
            return whole
    for pair in combinations(products, 2):
        if (both := construct.factored(dict.fromkeys(pair, 1), node.ndim - 1, inline=False)) is not None:
            return construct.add([*(term for term in node.terms if term not in pair), both])
    return node


def _merged(node: Add) -> Expr | None:
    """A sum with a term multiplied out whose parts are among the other terms, up to their coefficients; beside inverses
    also one that is a multiple of a sum then, with others of which it may be joined."""
    for term in node.terms:
        children = [term] if is_contraction(term) else list(term.children) if isinstance(term, Einsum) else []
        others = [x for x in node.terms if x is not term]
        for at, child in enumerate(children):
            for whole in _sums_of_outer_opened(child):
                is_solved = any(map(is_inverse, child.children))
                parts = [*children[:at], whole, *children[at + 1 :]]
                made = construct.add([*others, whole if child is term else with_children(term, parts)])
                if _count(made) < len(node.terms) or (is_solved and not isinstance(made, Add)):
                    return made
    return None


def _count(total: Expr) -> int:
    """The terms of a sum, or of one that it is a multiple of."""
    sums = [x for x in total.children if isinstance(x, Add) and x.ndim == total.ndim]
    multiple = isinstance(total, Einsum) and total.is_product and len(sums) == 1
    return len(total.children) if isinstance(total, Add) else len(sums[0].terms) if multiple else 1


def _sums_of_outer_opened(node: Expr) -> Iterator[Expr]:
    """A contraction with one of its operands that is a sum of outer products multiplied out."""
    if is_contraction(node):
        for place, operand in enumerate(node.operands):
            if is_sum_of_outer(operand, node.operands):
                yield construct.add(multiplied_out(node, place))


def _is_plain_product(term: Einsum) -> bool:
    return term.is_product and len(term.operands) > 1 and not term.has_delta


def distribute(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions with a sum of outer products as the sum of contractions with each: the outer products vanish.

    Terms that are contractions are opened, so that what they are multiplied with is summed before they are formed.
    As many terms are made as there are nodes, since sums of sums of outer products would grow without end.
    """
    left = len(topological(outputs))

    def multiplied(node: Expr) -> Expr:
        nonlocal left
        if is_contraction(node):
            for place, operand in enumerate(node.operands):
                if _is_sum_to_open(operand, node.operands) and len(operand.children) <= left:
                    left -= len(operand.children)
                    return construct.add(multiplied_out(node, place, opens=True))
        return node

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        if not is_contraction(node) or is_contraction(made):
            return multiplied(made) if is_contraction(node) else made
        return with_children(made, [child if child in children else multiplied(child) for child in made.children])

    return rebuild(outputs, change)


def without_kept(outputs: Sequence[Expr]) -> list[Expr]:
    """Products with sums of diagonal and full terms as sums of products with each: structure shows, digits may go."""

    def multiplied(node: Expr) -> Expr:
        place = next((k for k, x in enumerate(node.children) if is_kept(x)), None)
        if not isinstance(node, Einsum) or place is None:
            return node
        [total] = node.operands[place].children
        return construct.add([*map(multiplied, with_each(node, place, total.children, inline=False))])

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = node if is_kept(node) else with_children(node, children)
        return made if is_kept(made) else multiplied(made)

    return rebuild(outputs, change) if any(map(is_kept, topological(outputs))) else [*outputs]


def _is_sum_to_open(factor: Expr, factors: Sequence[Expr]) -> bool:
    """Whether one of some factors is a sum of outer products and contractions, and no square."""
    rest = [term for term in factor.children if not is_outer(term)]
    some = len(rest) < len(factor.children)
    return _is_large_sum(factor, factors) and some and all(_contraction(term) is not None for term in rest)


def _is_large_sum(factor: Expr, factors: Sequence[Expr]) -> bool:
    """Whether a factor, which is there once, is a sum with many entries, or stands beside inverses: an outer product of
    vectors takes two solutions there, a matrix one for each column."""
    if not isinstance(factor, Add) or list(factors).count(factor) > 1 or cancels_exactly(factor):
        return False
    return factor.ndim > 2 or (factor.ndim == 2 and any(map(is_inverse, factors)))


def cancels_exactly(total: Expr) -> bool:
    """Whether a sum may be that of differences without rounding errors of the size of its terms: of variables, or of
    the entries of one tensor, repeated along other axes. `Σ_j w_ij (x_i - x_j)` has none either, if it stays so."""
    repeated = [x.operands[0] for x in total.children if is_outer(x) and len(x.operands) == 1 and not x.has_delta]
    pairs = combinations(repeated, 2)
    return any(x is y or (isinstance(x, Variable) and isinstance(y, Variable)) for x, y in pairs)


def _contraction(term: Expr) -> Einsum | None:
    """The contraction of which a term is a multiple, maybe with its axes in another order."""
    [*factors] = construct.parts(term)[1]
    node = factors[0][0] if len(factors) == 1 else term
    return node if is_contraction(node) and node.ndim == term.ndim else None


def is_sum_of_outer(factor: Expr, factors: Sequence[Expr]) -> bool:
    """Whether one of some factors is a sum of outer products, and no square: `Σ (x - y)²` has no rounding errors of the
    size of x²."""
    return _is_large_sum(factor, factors) and all(is_outer(term) for term in factor.children)


def with_each(node: Einsum, place: int, terms: Sequence[Expr], inline: bool = True) -> list[Expr]:
    """A product or contraction, flat if `inline`, with each of several terms in the place of one of its operands."""
    before, after = node.operands[:place], node.operands[place + 1 :]
    return [with_children(node, [*before, term, *after], inline) for term in terms]


def multiplied_out(node: Einsum, place: int, opens: bool = False) -> list[Expr]:
    """A product or contraction over a sum, at some place among its operands, as one for each term of the sum.

    If it `opens` terms that are contractions, their operands are factors.
    """
    factors, labels = list(zip(node.operands, node.labels, strict=True)), node.labels[place]
    before, after = factors[:place], factors[place + 1 :]
    terms = []
    for term in node.operands[place].children:
        sizes: dict[int, Size] = dict(enumerate(node.sizes))
        coefficient, inside = node.coefficient, [(term, labels)]
        if opens and (contraction := _contraction(term)) is not None:
            times, [(_, axes)], output, _ = construct.parts(term)
            names = dict(zip(output, labels, strict=True))
            coefficient = number(coefficient * times)
            inside = opened(contraction, tuple([names[axis] for axis in axes]), fresh_in(sizes))
        terms.append(construct.einsum(coefficient, [*before, *inside, *after], node.output, sizes, inline=False))
    return terms


def is_outer(term: Expr) -> TypeGuard[Einsum]:
    """Whether a term is a product of smaller tensors, or has a delta."""
    return isinstance(term, Einsum) and term.is_product and all(x.ndim < term.ndim for x in term.operands)
