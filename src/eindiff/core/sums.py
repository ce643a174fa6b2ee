"""Sums: the constructor of Add nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from math import inf
from operator import and_

from eindiff.core.coefficients import HALF, Number, content, number, plus, ratio, times
from eindiff.core.einsums import (
    Factor,
    Inline,
    contraction,
    einsum,
    filled,
    parts,
    product,
    scale,
    transpose,
    transpose_core,
    with_coefficient,
)
from eindiff.core.groups import grouped
from eindiff.core.kept_sums import regrouped
from eindiff.core.labels import Labels, Symmetry, arrangements
from eindiff.core.networks import fresh_in, opened, placed_factors
from eindiff.core.nodes import Add, Einsum, Expr, depth, intern, is_sealed, plain
from eindiff.core.remembered import made
from eindiff.core.rewrite import rewrite
from eindiff.core.sizes import Shape, Size

SUM_LIMIT = 4  # terms of a sum that other sums always take in
DEEP_SUM = 100  # terms times depth of a sum from which on they do not: nobody reads it, and in loops each takes in all
SHALLOW = 4  # of less depth than that a sum counts as so deep: in a residual net all weights are added up


def add(terms: Sequence[Expr]) -> Expr:
    """The sum of terms of one shape, in canonical form."""
    known, key = made(), tuple(terms)
    if known is None:
        return _add(terms)
    found = known.get(key)
    if found is None:
        found = known[key] = _add(terms)
    return found


def _add(terms: Sequence[Expr]) -> Expr:
    shape = terms[0].shape
    collected = _collect(terms)
    if (rewritten := rewrite("add", collected, shape)) is not None:
        return rewritten
    if len(collected) > 1:
        collected = regrouped(collected)
    if len(collected) > 1:
        collected = _group(_related(collected))
    if not collected:
        return filled(0, shape)
    if len(collected) == 1:
        [(term, coefficient)] = collected.items()
        return scale(coefficient, _unsealed(term))
    return _orient(collected, shape)


Add.make = add


def symmetric_part(expr: Expr) -> Expr:
    """(A + A')/2, for the matrices in the last two axes."""
    turned = transpose_core(expr)
    return expr if turned is expr else scale(HALF, add([expr, turned]))


def sealed(expr: Expr) -> Expr:
    """A sum, or a multiple of one, as an operand that other sums do not take in: it is computed, and derived, once.

    Not with deltas or relations between axes, over which others are distributed.
    """
    coefficient, factors, output, sizes = parts(expr)
    if len(factors) != 1 or not isinstance(factors[0][0], Add) or not _is_dense(factors[0][0]):
        return expr
    [(node, labels)] = factors
    sign, whole, ordered = contraction([(node, labels)], sorted(labels))
    return product(times(coefficient, sign), [(whole, ordered)], output, sizes)


def _unsealed(expr: Expr) -> Expr:
    """A sum, or a multiple of one, as other sums take it in."""
    coefficient, factors, output, sizes = parts(expr)
    if len(factors) != 1 or not is_sealed(node := factors[0][0]):
        return expr
    return einsum(coefficient, opened(node, factors[0][1], fresh_in(sizes)), output, sizes)


def _collect(terms: Sequence[Expr]) -> dict[Expr, Number]:
    """Flatten sums of sums and merge like terms: each term without its coefficient, and the coefficient."""
    collected: dict[Expr, Number] = {}
    stack: list[tuple[Number, Expr]] = [(1, term) for term in reversed(terms)]
    while stack:
        coefficient, term = stack.pop()
        bare = whole = plain(term)
        if isinstance(term, Einsum) and term.is_product:
            coefficient, bare = times(coefficient, term.coefficient), with_coefficient(1, term)
            whole = term.operands[0] if len(term.operands) == 1 else bare
        if coefficient == 0:
            continue
        if not isinstance(whole, Add):
            collected[bare] = plus(collected[bare], coefficient) if bare in collected else coefficient
        elif _is_long(whole):
            stack.append((coefficient, sealed(bare)))
        else:
            stack += [(coefficient, inner) for inner in _terms_in(bare, whole)]
    return {term: coefficient for term, coefficient in collected.items() if coefficient != 0}


def _terms_in(term: Expr, whole: Add) -> Sequence[Expr]:
    """The terms of a sum with its axes in the order, or on the diagonals, that a product has them in."""
    _, [(_, labels)], output, sizes = parts(term)
    return whole.terms if labels == output else [einsum(1, [(x, labels)], output, sizes) for x in whole.terms]


def _is_long(node: Add) -> bool:
    """Whether a sum is kept apart in other sums: else those of a loop's steps have the terms of all steps before."""
    count = len(node.terms)
    return count > SUM_LIMIT and count * max(SHALLOW, depth(node)) > DEEP_SUM and _is_dense(node)


def _is_dense(node: Add) -> bool:
    return not node.has_delta and not node.relations


def _related(collected: dict[Expr, Number]) -> dict[Expr, Number]:
    """`x[1:] + y[1:] = (x + y)[1:]`: terms that are read or placed by the same index maps are added up first."""
    known = ((term, placed) for term in collected if (placed := placed_factors(term)) is not None)
    groups = grouped(((placed.maps, placed.kept), (term, placed)) for term, placed in known)
    for members in groups.values():
        if len(members) > 1:
            maps, kept, ndim = members[0][1].maps, members[0][1].kept, members[0][0].ndim
            weighted = [(collected.pop(term), placed) for term, placed in members]
            rests = [einsum(c, placed.rest, kept, placed.sizes, inline=False) for c, placed in weighted]
            sizes = members[0][1].sizes
            whole = einsum(1, [*maps, (add(rests), kept)], tuple(range(ndim)), sizes, inline=False)
            for term, coefficient in _collect([whole]).items():
                collected[term] = plus(collected.get(term, 0), coefficient)
    return {term: coefficient for term, coefficient in collected.items() if coefficient != 0}


def _group(collected: dict[Expr, Number]) -> dict[Expr, Number]:
    """Fact 5: put terms of one pattern of deltas and ones under it, and common factors in front (Lemma 3)."""
    patterns: dict[tuple, list[Expr]] = {}
    order = tuple(range(next(iter(collected)).ndim))
    plain_pattern = (order, frozenset(order))
    for term in collected:
        pattern = plain_pattern
        if isinstance(term, Einsum) and term.is_product:
            pattern = (term.output, frozenset(label for labels in term.labels for label in labels))
        patterns.setdefault(pattern, []).append(term)
    result: dict[Expr, Number] = {}
    for (output, bound), members in patterns.items():
        weighted = {term: collected[term] for term in members}
        trivial = len(set(output)) == len(output) and len(bound) == len(output)
        if len(members) > 1:
            combined = factored(weighted) if trivial else _under_pattern(weighted, output, bound)
            if combined is not None:
                coefficient, factors, output_labels, sizes = parts(combined)
                weighted = {product(1, factors, output_labels, sizes): coefficient} if coefficient else {}
        for term, coefficient in weighted.items():  # what is factored may be a term of another pattern
            result[term] = plus(result.get(term, 0), coefficient)
    return _as_difference({term: coefficient for term, coefficient in result.items() if coefficient != 0})


def _as_difference(terms: dict[Expr, Number]) -> dict[Expr, Number]:
    """`s_k x_ik - s_k x_jk = s_k (x_ik - x_jk)`: the entries of one array are subtracted before they are multiplied, so
    that derivatives by the factor have differences, and no large numbers that cancel."""
    if len(terms) != 2 or reduce(plus, terms.values()) or not all(len(parts(x)[1]) > 1 for x in terms):
        return terms
    (_, ours, _, _), (_, theirs, _, _) = map(parts, terms)
    first, second = ([x for x in one if x not in other] for one, other in ((ours, theirs), (theirs, ours)))
    if [len(first), len(second)] != [1, 1] or first[0][0] is not second[0][0] or any(map(_has_delta, terms)):
        return terms
    if (whole := factored(terms, inline=False)) is None:
        return terms
    coefficient, factors, output, sizes = parts(whole)
    return {product(1, factors, output, sizes): coefficient}


def _has_delta(term: Expr) -> bool:
    return isinstance(term, Einsum) and term.has_delta


def _under_pattern(terms: dict[Expr, Number], output: Labels, bound: Collection[int]) -> Expr:
    """The sum of terms that share a pattern of deltas and ones: the pattern of the sum of their cores."""
    core = tuple(label for label in dict.fromkeys(output) if label in bound)
    cores: list[Expr] = []
    sizes: dict[int, Size] = {}
    for term, coefficient in terms.items():
        own, factors, _, sizes = parts(term)
        cores.append(einsum(times(coefficient, own), factors, core, sizes))
    return einsum(1, [(add(cores), core)], output, sizes)


def factored(terms: Mapping[Expr, Number], most: float = inf, inline: Inline = True) -> Expr | None:
    """`x*y + x*z = x*(y + z)`: the factors common to all terms in front of the sum of the rests.

    None if there are none, or if the rests have more than so many labels. Terms have no deltas.
    """
    found = []
    shared: set[Factor] | None = None
    for term in terms:
        found.append(own := parts(term))
        shared = set(own[1]) if shared is None else shared.intersection(own[1])
        if not shared:
            return None
    products = [Counter(factors) for _, factors, _, _ in found]
    common = reduce(and_, products)
    coefficients = [times(c, own[0]) for c, own in zip(terms.values(), found, strict=True)]
    rests = [(c, list((factors - common).elements())) for c, factors in zip(coefficients, products, strict=True)]
    kept = tuple(sorted({label for _, rest in rests for _, labels in rest for label in labels}))
    _, _, output, sizes = found[0]
    return in_front(list(common.elements()), rests, kept, output, sizes, inline) if len(kept) <= most else None


def in_front(
    common: Sequence[Factor], rests: Sequence[tuple[Number, Sequence[Factor]]], kept: Labels, output: Labels,
    sizes: Mapping[int, Size], inline: Inline = True,
) -> Expr:  # fmt: skip
    """Common factors times the sum of the rests, which keep some labels."""
    inner = add([einsum(coefficient, rest, kept, sizes, inline) for coefficient, rest in rests])
    return einsum(1, [*common, (inner, kept)], output, sizes, inline)


def _orient(terms: dict[Expr, Number], shape: Shape) -> Expr:
    """The Add of the terms in canonical orientation, behind the transposition and the factor that undo it.

    The orientations that give the same Add are its symmetries. A sum with deltas stays as it is, since whatever
    stands around it is distributed over its terms.
    """
    identity = tuple(range(len(shape)))
    if any(isinstance(term, Einsum) and term.has_delta for term in terms):
        ordered = sorted(terms.items(), key=lambda item: item[0].digest)
        return _sum_node([scale(c, term) for term, c in ordered], shape, ())
    factor = content(list(terms.values()))
    orders = arrangements(_axis_signatures(list(terms), shape)) if len(shape) > 1 else [identity]
    found = [(*_turned(terms, axes, factor), axes) for axes in orders]
    sign, turned, axes = found[0] if len(found) == 1 else min(found, key=_order)
    same = {(tuple([axes.index(a) for a in other]), sign * s) for s, these, other in found if these == turned}
    scaled = [scale(c, term) for term, c in turned]
    node = _sum_node(scaled, tuple([shape[axis] for axis in axes]), tuple(sorted(same - {(identity, 1)})))
    return product(number(sign * factor), [(node, axes)], identity, dict(enumerate(shape)))


def _sum_node(terms: Sequence[Expr], shape: Shape, symmetries: tuple[Symmetry, ...]) -> Add:
    identity = tuple([term.digest for term in terms])
    return intern(Add, identity, terms=tuple(terms), shape=shape, symmetries=symmetries)


Turned = list[tuple[Expr, Number]]


def _order(candidate: tuple[int, Turned, tuple[int, ...]]) -> list[tuple[bytes, float]]:
    """What orientations of a sum are compared by."""
    return [(term.digest, float(c)) for term, c in candidate[1]]


def _turned(terms: dict[Expr, Number], axes: tuple[int, ...], factor: Number) -> tuple[int, Turned]:
    """The sign, and the terms with axes in another order and without the factor in front."""
    pairs = [_bare(transpose(term, axes), c) for term, c in terms.items()]
    turned = sorted(pairs, key=lambda pair: pair[0].digest)
    sign = -1 if turned[0][1] < 0 else 1
    return sign, [(term, ratio(c, sign * factor)) for term, c in turned]


def _bare(term: Expr, coefficient: Number) -> tuple[Expr, Number]:
    """A term without its own coefficient, and the product of both: antisymmetric factors give signs when turned."""
    if not isinstance(term, Einsum) or term.coefficient == 1:
        return term, coefficient
    return with_coefficient(1, term), times(coefficient, term.coefficient)


def _axis_signatures(terms: Sequence[Expr], shape: Shape) -> list[tuple]:
    """What distinguishes the axes of a sum whatever their order: where each occurs in the factors of the terms."""
    signatures: list[list] = [[] for _ in shape]
    for term in terms:
        _, factors, output, _ = parts(term)
        for axis, label in enumerate(output):
            where = [(n.digest, orbit(n, a)) for n, labels in factors for a, x in enumerate(labels) if x == label]
            signatures[axis].append(tuple(sorted(where)))
    return [(str(size), tuple(sorted(signature))) for size, signature in zip(shape, signatures, strict=True)]


def orbit(node: Expr, axis: int) -> int:
    """The smallest axis that a symmetry of the node takes to this one."""
    return min([axis, *(permutation[axis] for permutation, _ in node.symmetries)])
