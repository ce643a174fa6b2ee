"""Sums that are parts of other sums, up to a factor and the order of axes.

The canonical form of a sum has no sums in it: `2*(a + b) + c` is `2*a + 2*b + c`. Where `a + b` is there anyway, as in
most derivatives, programs compute the first; a chain of sums, each of the one before and a term, takes a step each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import Number, ratio
from eindiff.core.groups import grouped
from eindiff.core.nodes import Add, Einsum, Expr, depth, is_canonical, is_kept, plain, topological
from eindiff.core.rebuild import with_children
from eindiff.core.traverse import post_order

DEPTH = 4  # of sums that are parts of sums that are parts of others
QUOTIENT_ERROR = 2.0**-50  # of quotients of two numbers that are products themselves
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
    """For sums among some nodes those of the others that are parts of them, the largest first.

    One with all terms of another, up to a factor, is there where their numbers are rounded: residuals times weights.
    """
    kept = {node.children[0] for node in order if is_kept(node)}
    sums = [node for node in order if isinstance(node, Add) and is_canonical(node)]
    bare = {node: _bare(node.terms) for node in sums if kept or not node.has_delta}
    known = _by_rarest_term({node: terms for node, terms in bare.items() if node in kept or not node.has_delta})
    found: dict[Expr, Parts] = {}
    place = {node: (len(terms), k) for k, (node, terms) in enumerate(bare.items())}
    for node, terms in bare.items():
        candidates = [one for term in terms for one in known.get(term, ()) if place[one.node] < place[node]]
        if candidates and (parts := _parts(node, terms, candidates)).sums:
            found[node] = parts
    return found


def parts_apart(outputs: Sequence[Expr]) -> list[Expr]:
    """Expressions in which sums have others that are parts of them as one term, where that shows only when the numbers
    in them are taken apart: `x + (c + d)` is `(x + c) + d` if there is an `x + c`, whose errors it then shares."""
    for _ in range(DEPTH):
        sums = [x for x in topological(outputs) if isinstance(x, Add) and x.ndim and is_canonical(x)]
        apart = {x: _taken_apart(x) for x in sums if not x.has_delta and not x.relations}
        known = grouped((next(iter(terms)), (terms, x)) for x, terms in apart.items())
        found = {x: _around_part(x, terms, known) for x, terms in apart.items() if len(terms) > len(x.terms)}
        changed: dict[Expr, Expr] = {x: other for x, other in found.items() if other is not None}
        if not changed:
            break
        outputs = _changed(outputs, changed)
    return [*outputs]


def _changed(outputs: Sequence[Expr], others: Mapping[Expr, Expr]) -> list[Expr]:
    """Expressions with other nodes in the place of some, which are changed below too: else all is there twice.

    What stands for a sum is made of what is less deep, or of a sum with fewer terms.
    """
    done: dict[Expr, Expr] = {}
    for node in post_order(map(plain, outputs), lambda x: [others[x]] if x in others else x.children):
        other = others.get(node)
        done[node] = done[other] if other is not None else with_children(node, [done[child] for child in node.children])
    return [done[plain(output)] for output in outputs]


def _around_part(node: Add, terms: Terms, known: Mapping[Expr, Sequence[tuple[Terms, Expr]]]) -> Expr | None:
    """A sum as the largest other one that is part of it, and not made of it, and the rest."""
    candidates = [one for term in terms for one in known.get(term, ()) if len(one[0]) < len(terms)]
    for inner, part in sorted(candidates, key=lambda one: -len(one[0])):
        if depth(part) <= depth(node) and (factor := _factor(inner, terms)) is not None:
            rest = [construct.scale(c, term) for term, c in terms.items() if term not in inner]
            return construct.add([construct.scale(factor, construct.sealed(part)), *rest])
    return None


def _taken_apart(node: Add) -> Terms:
    """The terms of a sum, those that are the same along axes with each number in them apart."""
    found: list[Expr] = []
    for term in node.terms:
        coefficient, factors, output, sizes = construct.parts(term)
        if len(factors) == 1 and isinstance(total := factors[0][0], Add) and total.ndim < node.ndim:
            found += [construct.einsum(coefficient, [(x, factors[0][1])], output, sizes) for x in total.terms]
        else:
            found.append(term)
    return _bare(found)


def with_parts_first(outputs: Sequence[Expr], parts: Mapping[Expr, Parts]) -> list[Expr]:
    """All nodes in an order in which sums come after those that are parts of them."""

    def below(node: Expr) -> list[Expr]:
        return [*(part.node for part in parts[node].sums), *node.children] if node in parts else [*node.children]

    return post_order(map(plain, outputs), below)


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
        if factor is not None and own != factor and not _is_rounded(own, factor):
            return None
        factor = own if factor is None else factor
    return factor


def _is_rounded(a: Number, b: Number) -> bool:
    """Whether two quotients differ as rounded numbers do; exact ones are not rounded."""
    return float in (type(a), type(b)) and abs(float(a) - float(b)) <= QUOTIENT_ERROR * abs(float(b))
