"""Sums that are parts of other sums, up to a factor and the order of axes.

The canonical form of a sum has no sums in it: `2*(a + b) + c` is `2*a + 2*b + c`. Where `a + b` is there anyway, as in
most derivatives, programs compute the first; a chain of sums, each of the one before and a term, takes a step each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import Number, ratio
from eindiff.core.nodes import Add, Einsum, Expr

Terms = dict[Expr, Number]  # without their coefficients, and these


class Part(NamedTuple):
    """A multiple of a sum, with axis `axes[k]` as axis k."""

    factor: Number
    node: Add
    axes: tuple[int, ...]


class Parts(NamedTuple):
    """A sum as sums that are parts of it, and the terms that are left."""

    sums: list[Part]
    rest: list[Expr]


class _Turned(NamedTuple):
    node: Add
    axes: tuple[int, ...]
    terms: Terms


def partial_sums(order: Sequence[Expr]) -> dict[Expr, Parts]:
    """For sums among some nodes those of the others that are parts of them, the largest first."""
    bare = {node: _bare(node.terms) for node in order if isinstance(node, Add) and not node.has_delta}
    known = _by_rarest_term(bare)
    found: dict[Expr, Parts] = {}
    for node, terms in bare.items():
        candidates = [one for term in terms for one in known.get(term, ()) if len(one.terms) < len(terms)]
        if candidates and (parts := _parts(node, terms, candidates)).sums:
            found[node] = parts
    return found


def _by_rarest_term(bare: dict[Add, Terms]) -> dict[Expr, list[_Turned]]:
    """Sums that may be parts of others, by the term that the fewest sums have, so that few are looked at."""
    counts = Counter([term for terms in bare.values() for term in terms])
    known: dict[Expr, list[_Turned]] = {}
    for one in (one for node, terms in bare.items() for one in _orientations(node, terms)):
        if len(one.terms) == len(bare[one.node]) and all(counts[term] for term in one.terms):
            rarest = min(one.terms, key=counts.__getitem__)
            if counts[rarest] > 1 or one.axes == (1, 0):
                known.setdefault(rarest, []).append(one)
    return known


def _orientations(node: Add, terms: Terms) -> Iterator[_Turned]:
    """A sum as it is and, if it is a matrix, its transpose."""
    yield _Turned(node, tuple(range(node.ndim)), terms)
    if node.ndim == 2:
        yield _Turned(node, (1, 0), _bare([construct.transpose(term, (1, 0)) for term in node.terms]))


def _bare(terms: Sequence[Expr]) -> Terms:
    found: Terms = {}
    for term in terms:
        if isinstance(term, Einsum) and term.is_product and term.coefficient != 1:
            found[construct.with_coefficient(1, term)] = term.coefficient
        else:
            found[term] = 1
    return found


def _parts(node: Add, terms: Terms, candidates: Sequence[_Turned]) -> Parts:
    left, sums = dict(terms), []
    for one in sorted(candidates, key=lambda one: (-len(one.terms), one.node.digest, one.axes)):
        if (factor := _factor(one.terms, left)) is not None:
            left = {term: c for term, c in left.items() if term not in one.terms}
            sums.append(Part(factor, one.node, one.axes))
    return Parts(sums, [term for term, bare in zip(node.terms, terms, strict=True) if bare in left])


def _factor(part: Terms, whole: Terms) -> Number | None:
    """The number that all terms of a part are multiplied by in another sum, if there is one."""
    factor: Number | None = None
    for term, coefficient in part.items():
        if term not in whole:
            return None
        own = ratio(whole[term], coefficient)
        if factor is not None and own != factor:
            return None
        factor = own
    return factor
