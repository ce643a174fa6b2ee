"""Sums over pairs in which what an index has with itself cancels: `Σ_j G_ij - G_ii` is a sum over all other j.

Energies of pairs are sums over all of them, those of an index with itself too. In what is left of second derivatives,
as their diagonals and products with vectors, these cancel: where they are large, as of `1/sqrt(|x_i - x_j|² + ε)`, so
do the digits of all others. They are left out.

Where pairs have a softmax P, as in contrastive losses, what cancels where P is nearly I is taken from that:
`Σ_j P_ij G_ij - G_ii` is `Σ_j (P - I)_ij G_ij`, and on the diagonal of `P - I` stands what others add up to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import Number, plus
from eindiff.core.errors import EindiffError
from eindiff.core.groups import grouped
from eindiff.core.kept_sums import hollow, less_identity
from eindiff.core.labels import Labels
from eindiff.core.networks import Factor
from eindiff.core.nodes import Add, Einsum, Expr, is_contraction, is_index_map, is_kept, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.functions.reductions import as_softmax
from eindiff.planning.deviations import ROUNDING, flat_terms, is_small, terms_of

MOST_TERMS = 32  # of a sum that is looked at
MOST_NODES = 60  # of such a sum: to multiply out parts of larger ones takes tens of milliseconds
_Product = tuple[Number, list[Factor]]


class _Split(NamedTuple):
    """A term with a sum over pairs: what an index has with itself, and with all others, if it has any."""

    term: Expr
    diagonal: Expr
    others: Expr | None


def without_diagonals(outputs: Sequence[Expr]) -> list[Expr]:
    """Outputs in which sums over pairs, of which what is on the diagonal cancels, are over the other pairs."""
    of_pairs: set[Expr] = set()
    for node in topological(outputs):
        if _is_of_pairs(node) or _has_softmax(node) or not of_pairs.isdisjoint(node.children):
            of_pairs.add(node)
    if not of_pairs:
        return [*outputs]

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        multiple = isinstance(made, Einsum) and len(made.operands) == 1 and made.is_product
        total = made.children[0] if multiple else made  # with other children a sum may be a multiple of one
        if node in of_pairs and isinstance(node, Add) and isinstance(total, Add) and len(total.terms) <= MOST_TERMS:
            other = _over_others(total)
            return with_children(made, [other]) if multiple else other
        return made

    return rebuild(outputs, change)


def _is_of_pairs(node: Expr) -> bool:
    """Whether a sum has entries of arrays at several places which cancel if these are the same, as `x_i - x_j`."""
    if not isinstance(node, Add) or node.ndim < 2:
        return False
    products = [x for x in node.terms if isinstance(x, Einsum) and x.is_product and not x.has_delta]
    read = grouped((x.operands, x.coefficient) for x in products).values()
    return any(len(own) > 1 and reduce(plus, own) == 0 for own in read)


def _has_softmax(node: Expr) -> bool:
    """Whether a node is a sum over pairs that have a softmax."""
    return is_contraction(node) and any(True for _ in _softmaxes(node))


class _Softmaxes(NamedTuple):
    """An operand of a sum over pairs (i, j), j not of the result, that is a softmax of these, or a sum of such."""

    place: int
    i: int
    j: int
    terms: list[tuple[Number, Expr, Labels]]  # softmaxes, their coefficients, and their labels


def _softmaxes(node: Einsum) -> Iterator[_Softmaxes]:
    for place, (x, labels) in enumerate(node.factors):
        if x.ndim == 1 or len({*labels}) < x.ndim:
            continue
        terms = [_turned(y, labels) for y in (x.terms if isinstance(x, Add) else [x])]
        found = [as_softmax(y) for _, y, _ in terms]
        axes = [own[softmax.axis] for softmax, (_, _, own) in zip(found, terms, strict=True) if softmax is not None]
        for one in axes[:1] if len(axes) == len(terms) else ():
            for other in {*labels} - {one}:
                i, j = (other, one) if one not in node.output else (one, other)
                if {*axes} <= {i, j} and node.sizes[i] == node.sizes[j] and j not in node.output:
                    yield _Softmaxes(place, i, j, terms)


def _turned(x: Expr, labels: Labels) -> tuple[Number, Expr, Labels]:
    """What an operand is a multiple of, with its axes in any order: that number, it, and its labels."""
    coefficient, factors, output, _ = construct.parts(x)
    inner, own = factors[0] if len(factors) == 1 else (x, ())
    if len({*own}) < x.ndim:
        return 1, x, labels
    return coefficient, inner, tuple([labels[output.index(label)] for label in own])


def _pairs(node: Einsum) -> Iterator[tuple[int, int]]:
    """Labels of the result, and such of its sums, that a computed operand has both."""
    for x, labels in node.factors:
        if x.children and not is_kept(x) and not is_index_map(x):
            for j in {*labels} - {*node.output}:
                yield from ((i, j) for i in {*labels} & {*node.output} if node.sizes[i] == node.sizes[j])


def _over_others(node: Add) -> Expr:
    """A sum with those of its sums over pairs without diagonals whose diagonals cancel."""
    if not is_small([node], MOST_NODES):
        return node
    pieces = {term: terms_of(term, deep=False) for term in node.terms}
    terms = [*chain.from_iterable(pieces.values())]
    splits = [split for term in terms for split in _splits(term)]
    gone = _gone(terms, splits) if splits and len({*terms}) == len(terms) else []
    if not gone:
        return node
    left = {split.term: split.others for split in gone}
    opened = [[term] if left.keys().isdisjoint(own) else own for term, own in pieces.items()]
    found = [left.get(x, x) for own in opened for x in own]
    return construct.add([construct.filled(0, node.shape), *(x for x in found if x is not None)])


def _gone(terms: Sequence[Expr], splits: Sequence[_Split]) -> list[_Split]:
    """Diagonals of terms, and whole ones, that add up to 0; none if no diagonals are among them. Terms that may be
    split are first taken to be so."""
    split_terms = {split.term for split in splits}
    wholes = [_Split(x, x, None) for x in terms]
    known = {split: [(x, c) for x, c in flat_terms(split.diagonal, 1) if c] for split in [*splits, *wholes]}
    for others in ([x for x in wholes if x.term not in split_terms], wholes):
        found = _cancelling([*splits, *others], known)
        gone = _cancelling([*{split.term: split for split in found[::-1]}.values()], known)  # of each the first way
        if any(split.others is not None for split in gone):
            return gone
    return []


def _cancelling(splits: Sequence[_Split], known: Mapping[_Split, Sequence[tuple[Expr, Number]]]) -> list[_Split]:
    """Those of some parts of terms that add up to 0, up to rounding errors of their coefficients, when these are known
    multiplied out."""
    left = [*splits]
    while left:
        found = grouped(pair for split in left for pair in known[split])
        gone = {x for x, own in found.items() if _is_rounding(reduce(plus, own), own)}
        kept = [split for split in left if all(x in gone for x, _ in known[split])]
        if len(kept) == len(left):
            break
        left = kept
    return left


def _is_rounding(total: Number, numbers: Sequence[Number]) -> bool:
    return abs(float(total)) <= ROUNDING * max(abs(float(x)) for x in numbers)


def _splits(term: Expr) -> list[_Split]:
    """The ways to take the diagonal of one sum over pairs out of a term, those in which it is not 0."""
    coefficient, factors, output, sizes = construct.parts(term)
    found = []
    for place, (node, labels) in enumerate(factors):
        rest = [factor for k, factor in enumerate(factors) if k != place]
        for own in _apart(node) if is_contraction(node) else ():
            try:
                made = [_sum_of(node, *one) for one in own]
                whole = [[*rest, (x, labels)] for x in made]
                split = _Split(term, *(construct.einsum(coefficient, x, output, sizes, inline=False) for x in whole))
            except EindiffError:  # what is written there has no value, and nothing may read it
                continue
            if not construct.is_zero(split.diagonal):
                found.append(split)
    return found


def _apart(node: Einsum) -> Iterator[tuple[_Product, _Product]]:
    """A sum over pairs (i, j) as what i has with itself, and with all others; or, of pairs that have a softmax, as the
    sum with a unit matrix in its place, and with what it is more than that."""
    for place, i, j, terms in _softmaxes(node):
        labels = node.labels[place]
        rest = [factor for k, factor in enumerate(node.factors) if k != place]
        inside = dict(enumerate(node.sizes))
        less = [(c, less_identity(x, own.index(i), own.index(j)), own) for c, x, own in terms]
        more = construct.add([construct.einsum(c, [(x, own)], labels, inside) for c, x, own in less])
        yield (reduce(plus, [c for c, _, _ in terms]), _same(rest, i, j)), (1, [*rest, (more, labels)])
    for i, j in sorted({*_pairs(node)}):
        yield (1, _same(node.factors, i, j)), (1, [*node.factors, (hollow(node.sizes[i]), (i, j))])


def _sum_of(node: Expr, coefficient: Number, factors: list[Factor]) -> Expr:
    """A sum with other factors in the place of its own."""
    assert isinstance(node, Einsum)
    return construct.einsum(coefficient, factors, node.output, dict(enumerate(node.sizes)), inline=False)


def _same(factors: Sequence[Factor], i: int, j: int) -> list[Factor]:
    """Factors with one label in the place of another."""
    return [(x, tuple([i if label == j else label for label in own])) for x, own in factors]
