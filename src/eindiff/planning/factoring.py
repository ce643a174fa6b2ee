"""Sums in other forms, which may cost less: with common factors in front, or multiplied out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from eindiff.core import construct
from eindiff.core.nodes import Add, Einsum, Expr, is_contraction, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.planning.tuning import FACTORINGS, TERMS_LIMIT, VARIED


def factor(outputs: Sequence[Expr]) -> list[Expr]:
    """In sums, products with common factors as these factors times a sum of the rest, if the rest is smaller."""

    kept: set[Expr] = set()  # what stays as it is, if what it is made of does

    def change(node: Expr, children: list[Expr]) -> Expr:
        if node in kept and children == list(node.children):
            return node
        result = with_children(node, children)
        for _ in range(FACTORINGS):  # at once, as what is above is made anew for each change below
            result, before = _factored(result) if isinstance(result, Add) else result, result
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


def _factored(node: Add) -> Expr:
    """A sum with two of its terms as one, if they have factors in common."""
    products = [term for term in node.terms if isinstance(term, Einsum) and _is_plain_product(term)]
    if len(products) > TERMS_LIMIT:
        return node
    for pair in combinations(products, 2):
        if (joined := construct.factored(dict.fromkeys(pair, 1), node.ndim - 1, inline=False)) is not None:
            return construct.add([*(term for term in node.terms if term not in pair), joined])
    return node


def _is_plain_product(term: Einsum) -> bool:
    return term.is_product and len(term.operands) > 1 and not term.has_delta


def distribute(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions with a sum of outer products as the sum of contractions with each: the outer products vanish.

    As many terms are made as there are nodes, since sums of sums of outer products would grow without end.
    """
    left = len(topological(outputs))

    def change(node: Expr, children: list[Expr]) -> Expr:
        nonlocal left
        if is_contraction(node):
            for place, operand in enumerate(children):
                if is_sum_of_outer(operand, children) and len(operand.children) <= left:
                    left -= len(operand.children)
                    return construct.add(multiplied_out(node, children, place))
        return with_children(node, children)

    return rebuild(outputs, change)


def is_sum_of_outer(factor: Expr, factors: Sequence[Expr]) -> bool:
    """Whether one of some factors is a sum of outer products, and no square: `Σ (x - y)²` has no rounding errors of the
    size of x²."""
    is_sum = isinstance(factor, Add) and factor.ndim > 2 and list(factors).count(factor) == 1
    return is_sum and all(is_outer(term) for term in factor.children)


def multiplied_out(node: Einsum, children: Sequence[Expr], place: int) -> list[Expr]:
    """A product or contraction over a sum, at some place among its children, as one for each term of the sum."""
    factors, sizes = list(zip(children, node.labels, strict=True)), dict(enumerate(node.sizes))
    terms = []
    for term in children[place].children:
        factors[place] = (term, node.labels[place])
        terms.append(construct.einsum(node.coefficient, factors, node.output, sizes, inline=False))
    return terms


def is_outer(term: Expr) -> bool:
    """Whether a term is a product of smaller tensors, or has a delta."""
    return isinstance(term, Einsum) and term.is_product and all(x.ndim < term.ndim for x in term.operands)
