"""Sums in other forms, which may cost less: with common factors in front, or multiplied out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from eindiff.core import construct
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr, is_contraction
from eindiff.core.rebuild import rebuild, with_children

FACTORINGS = 4  # how often sums are gone through: each time two terms of each become one
TERMS_LIMIT = 20  # products in a sum that are compared with each other


def factor(outputs: Sequence[Expr]) -> list[Expr]:
    """In sums, products with common factors as these factors times a sum of the rest, if the rest is smaller."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        result = with_children(node, children)
        return _factored(result) if isinstance(result, Add) else result

    for _ in range(FACTORINGS):
        outputs, before = rebuild(outputs, change), outputs
        if outputs == before:
            break
    return list(outputs)


def _factored(node: Add) -> Expr:
    """A sum with two of its terms as one, if they have factors in common."""
    sizes = dict(enumerate(node.shape))
    whole = tuple(sizes)
    products = [(term, _factors(term)) for term in node.terms if isinstance(term, Einsum) and _is_plain_product(term)]
    if len(products) > TERMS_LIMIT:
        return node
    for (first, one), (second, other) in combinations(products, 2):
        common = one & other
        rests = [list((factors - common).elements()) for factors in (one, other)]
        kept = tuple(sorted({axis for rest in rests for _, axes in rest for axis in axes}))
        if not common or len(kept) == node.ndim:
            continue
        terms = [(first.coefficient, rests[0]), (second.coefficient, rests[1])]
        new = construct.factored(list(common.elements()), terms, kept, whole, sizes, inline=False)
        return construct.add([*(term for term in node.terms if term is not first and term is not second), new])
    return node


def _is_plain_product(term: Einsum) -> bool:
    return term.is_product and len(term.operands) > 1 and len(set(term.output)) == term.ndim


def _factors(term: Einsum) -> Counter[tuple[Expr, Labels]]:
    """The operands of a product, with the axes of its result that they run along."""
    axis = {label: k for k, label in enumerate(term.output)}
    pairs = zip(term.operands, term.labels, strict=True)
    return Counter((operand, tuple([axis[label] for label in labels])) for operand, labels in pairs)


def distribute(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions with a sum of outer products as the sum of contractions with each: the outer products vanish."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        if is_contraction(node):
            for place, operand in enumerate(children):
                if isinstance(operand, Add) and operand.ndim > 2 and all(is_outer(term) for term in operand.terms):
                    return construct.add(multiplied_out(node, children, place))
        return with_children(node, children)

    return rebuild(outputs, change)


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
