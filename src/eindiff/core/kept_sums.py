"""Sums of diagonal and full terms, as `I - A`, that are multiplied with matrices: they are computed first.

Multiplied out, `(I - A)' (I - A)` would be `I - A - A' + A'A`: where A is nearly I, no digit of that is right. With
vectors and numbers such sums are multiplied out, `(I - A) x = x - A x`, and so are those of diagonal matrices and outer
products, which are never formed. Of two sums of diagonal matrices the entries are multiplied. Vectors that scale a sum
along an axis stay beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from eindiff.core.coefficients import Number, content, number, plus, ratio, times
from eindiff.core.einsums import Factor, einsum, intern_einsum, parts, product, scale, transpose
from eindiff.core.labels import Labels
from eindiff.core.networks import filled_axes, fresh_in, opened
from eindiff.core.nodes import Add, Einsum, Expr, is_contraction, is_index_map, is_kept
from eindiff.core.sizes import Size

Terms = dict[Expr, Number]  # without their coefficients, and these
SWAP = (1, 0)


def _keep(
    node: Add, labels: Labels, others: Sequence[Factor], summed: set[int]
) -> tuple[Number, list[Factor]] | None:  # fmt: skip
    """A sum of diagonal and full terms, beside others, as a multiple of an operand that is computed before it is
    multiplied, one for it, all its multiples and its transpose, scaled by vectors. None if it is multiplied out.

    Beside a sum of diagonal matrices, or of vectors, one of diagonal matrices is that of the sum of their entries.
    """
    if _is_diagonal(node) and any(isinstance(x, Add) and (x.ndim == 1 or _is_diagonal(x)) for x, _ in others):
        return 1, [(_of_entries(node), labels)]
    if not _is_multiplied(labels, others, summed) or not _is_diagonal_and_full(node):
        return None
    bare, vectors = _without_vectors(node)
    factor, kept, order = _multiple(bare)
    scales = [(x, (labels[axis],)) for x, axis in vectors]
    return factor, [(kept, tuple([labels[axis] for axis in order])), *scales]


Add.keep = _keep


def _of_entries(node: Add) -> Expr:
    """A sum of diagonal matrices as that of the sum of their entries."""
    sizes = dict(enumerate(node.shape))
    own, inside, at, sizes = parts(Add.make([einsum(1, [(x, (0, 0))], (0,), sizes) for x in node.terms]))
    return product(own, inside, at + at, sizes)


def _without_vectors(node: Add) -> tuple[Add, list[tuple[Expr, int]]]:
    """A sum without the vectors that scale all its terms along an axis, and these: `D - D² A` is `D (I - D A)`."""
    terms = [(own, list(factors), output, sizes) for own, factors, output, sizes in map(parts, node.terms)]
    full = next(k for k, term in enumerate(node.terms) if _is_full(term))
    taken = []
    axes = terms[full][2]
    for x, labels in parts(node.terms[full])[1]:
        if len(labels) != 1 or labels[0] not in axes:
            continue
        axis = axes.index(labels[0])
        if all((x, (output[axis],)) in factors for _, factors, output, _ in terms):
            taken.append((x, axis))
            for _, factors, output, _ in terms:
                factors.remove((x, (output[axis],)))
    if not taken or node.ndim != 2:
        return node, []
    bare = Add.make([einsum(own, factors, output, sizes, inline=False) for own, factors, output, sizes in terms])
    return (bare, taken) if isinstance(bare, Add) and _is_diagonal_and_full(bare) else (node, [])


def _multiple(node: Add) -> tuple[Number, Expr, Labels]:
    """A sum as a multiple of an operand, with its axes in some order."""
    axes = tuple(range(node.ndim))
    turned = {order: _bare(node, order) for order in ([axes, SWAP] if node.ndim == 2 else [axes])}
    order = min(turned, key=lambda x: [term.digest for term, _ in turned[x]])
    terms = turned[order]
    factor = number(content([c for _, c in terms]) * (-1 if terms[0][1] < 0 else 1))
    whole = Add.make([scale(ratio(c, factor), term) for term, c in terms])
    symmetries = ((SWAP, 1),) if SWAP in turned and turned[axes] == turned[SWAP] else ()
    return factor, intern_einsum(1, (whole,), (axes,), axes, whole.shape, symmetries, False), order


def _is_multiplied(labels: Labels, others: Sequence[Factor], summed: set[int]) -> bool:
    """Whether a factor is multiplied with another such sum, or with matrices only: with a vector its terms are."""
    matrices = [(x, own) for x, own in others if len(own) > 1]
    if any(_is_sum(x) for x, own in matrices if summed.intersection(labels, own)):
        return True
    if not matrices:
        return False
    if any(set(labels) <= set(own) for _, own in matrices):
        return True
    inside = summed.intersection(labels)
    return bool(inside) and all(any(label in own for _, own in matrices) for label in inside)


def _is_sum(x: Expr) -> bool:
    """Whether another factor is such a sum too: both are computed, or applied to a vector one after the other."""
    return is_kept(x) or (isinstance(x, Add) and x.has_delta and _is_diagonal_and_full(x))


def _is_diagonal_and_full(node: Add) -> bool:
    deltas = [term for term in node.terms if isinstance(term, Einsum) and term.has_delta]
    is_diagonal = all(2 * len(set(term.output)) <= term.ndim for term in deltas)
    return is_diagonal and any(map(_is_full, node.terms)) and not any(map(_is_related, node.terms))


def _is_diagonal(node: Add) -> bool:
    """Whether all terms of a sum are diagonal matrices."""
    return node.ndim == 2 and all(isinstance(x, Einsum) and x.output == (0, 0) for x in node.terms)


def _is_related(term: Expr) -> bool:
    """Whether an index map puts entries into a term, or into a factor of it: the others are 0, as most of diagonal ones
    are. What is read at places may be so too, unless it is a variable or a function."""
    is_read = any(map(is_index_map, term.children)) and any(isinstance(x, Add | Einsum) for x in term.children)
    return is_index_map(term) or is_read or any(map(filled_axes, (term, *filter(is_contraction, term.children))))


def _is_full(term: Expr) -> bool:
    """Whether a term is no product of smaller tensors."""
    return not isinstance(term, Einsum) or not term.is_product or any(x.ndim == term.ndim for x in term.operands)


def _bare(node: Expr, axes: Labels) -> list[tuple[Expr, Number]]:
    """The terms of a sum with axes in another order and without their coefficients, and these."""
    turned = [parts(transpose(term, axes)) for term in node.children]
    found = [(product(1, factors, output, sizes), c) for c, factors, output, sizes in turned]
    return sorted(found, key=lambda pair: pair[0].digest)


def hollow(size: Size) -> Expr:
    """A matrix of ones with zeros on its diagonal, as one operand."""
    ones, eye = (einsum(c, [], axes, {0: size, 1: size}) for c, axes in ((1, (0, 1)), (-1, (0, 0))))
    return intern_einsum(1, (Add.make([ones, eye]),), ((0, 1),), (0, 1), (size, size), ((SWAP, 1),), False)


def less_identity(x: Expr, i: int, j: int) -> Expr:
    """A tensor less a unit matrix along two of its axes, as one operand."""
    axes = tuple(range(x.ndim))
    eye = einsum(-1, [], tuple([i if axis == j else axis for axis in axes]), dict(enumerate(x.shape)))
    return intern_einsum(1, (Add.make([x, eye]),), (axes,), axes, x.shape, (), False)


def is_hollow(node: Expr) -> bool:
    return is_kept(node) and node.ndim == 2 and node is hollow(node.shape[0])


def regrouped(terms: Terms) -> Terms:
    """The terms of a sum, those that make up a multiple of a kept sum as one: where `A'(I - A)` is subtracted from
    `I - A`, both are multiples of one matrix, and so the difference is `(I - A)'(I - A)`."""
    for kept in _kept_in(terms):
        changed = _with_multiples(_opened(terms), kept)
        if any(x not in terms and is_kept(y) for x in changed for y in (x, *x.children)):
            terms = _joined(changed, kept) if kept.ndim == 2 else changed
    return terms


def _kept_in(terms: Terms) -> list[Expr]:
    """The kept sums of the same shape that terms have among their factors."""
    found: dict[Expr, None] = {}
    for term in terms:
        if isinstance(term, Einsum):
            inner = [y for x in term.operands if isinstance(x, Einsum) for y in x.operands]
            kept = [x for x in (*term.operands, *inner) if is_kept(x) and x.ndim == term.ndim]
            found.update({x: None for x in kept if not is_hollow(x)})
    return list(found)


def _with_multiples(terms: Terms, kept: Expr) -> Terms:
    """Terms with those that make up a sum times some factors replaced by that, for each of its orders of axes."""
    axes = tuple(range(kept.ndim))
    for order in [axes, SWAP] if kept.ndim == 2 and not kept.symmetries else [axes]:
        inside = _bare(kept.children[0], order)
        first, coefficient = next(pair for pair in inside if _is_full(pair[0]))
        for term in list(terms):
            if term not in terms or (beside := _beside(first, term)) is None:
                continue
            multiple = [_times(x, c, beside) for x, c in inside]
            factor = ratio(terms[term], coefficient)
            if all(_is_within(terms, x, times(factor, c)) for x, c in multiple):
                for x, c in multiple:
                    terms = _plus(terms, x, times(-factor, c))
                own = tuple([order.index(axis) for axis in axes])
                made = product(1, [(kept, own), *beside], axes, dict(enumerate(term.shape)))
                terms = _plus(terms, made, factor)
    return terms


def _beside(part: Expr, term: Expr) -> list[Factor] | None:
    """The other factors of a term that has those of another one."""
    inner, outer = Counter(parts(part)[1]), Counter(parts(term)[1])
    return list((outer - inner).elements()) if inner <= outer else None


def _times(term: Expr, coefficient: Number, factors: list[Factor]) -> tuple[Expr, Number]:
    """A term of some coefficient times factors, without its coefficient, and that."""
    axes = tuple(range(term.ndim))
    made = einsum(coefficient, [(term, axes), *factors], axes, dict(enumerate(term.shape)), inline=False)
    own, inside, output, sizes = parts(made)
    return product(1, inside, output, sizes), own


def _is_within(terms: Terms, term: Expr, coefficient: Number) -> bool:
    """Whether a sum has a term; of diagonal ones it may have more."""
    own: Number = terms.get(term, 0)
    has_more = own > coefficient > 0 or own < coefficient < 0
    return own == coefficient or (has_more and not _is_full(term))


def _plus(terms: Terms, term: Expr, coefficient: Number) -> Terms:
    total = plus(terms.get(term, 0), coefficient)
    rest = {x: c for x, c in terms.items() if x is not term}
    return {**rest, term: total} if total else rest


def _opened(terms: Terms) -> Terms:
    """Terms with diagonal ones that are sums, `(c + 1) I`, as several."""
    found: Terms = {}
    for term, coefficient in terms.items():
        _, factors, output, sizes = parts(term)
        is_sum = len(factors) == 1 and isinstance(factors[0][0], Add) and len(set(output)) < len(output)
        for x in factors[0][0].children if is_sum else ():
            own, inside, labels, _ = parts(einsum(coefficient, [(x, factors[0][1])], output, sizes))
            found = _plus(found, product(1, inside, labels, sizes), own)
        if not is_sum:
            found = _plus(found, term, coefficient)
    return found


def _joined(terms: Terms, kept: Expr) -> Terms:
    """The terms of a sum of matrices with a multiple of a kept one, and products with it, as one product."""
    for side in (0, 1):  # the axis of the result that the kept matrix has
        lefts: dict[tuple[int, bool], dict[Expr, Expr]] = {}
        for term, coefficient in terms.items():
            for axis, is_bare, left in _lefts(term, coefficient, kept, side):
                lefts.setdefault((axis, is_bare), {})[term] = left
        for axis in (0, 1):
            bare, products = lefts.get((axis, True), {}), lefts.get((axis, False), {})
            if bare and products:
                members = {**products, **bare}
                labels = (side, 2) if axis == 0 else (2, side)
                sizes = {side: kept.shape[axis], 2: kept.shape[1 - axis], 1 - side: next(iter(members)).shape[1 - side]}
                factors = [(Add.make(list(members.values())), (1 - side, 2)), (kept, labels)]
                own, inside, output, sizes = parts(einsum(1, factors, (0, 1), sizes, inline=False))
                rest = {x: c for x, c in terms.items() if x not in members}
                return _plus(rest, product(1, inside, output, sizes), own)
    return terms


def _lefts(term: Expr, coefficient: Number, kept: Expr, side: int) -> list[tuple[int, bool, Expr]]:
    """What a kept matrix is multiplied with in a term, for the axis of it that is one of the result."""
    own, whole, output, sizes = parts(term)
    factors: list[Factor] = []
    for x, labels in whole:
        if is_contraction(x) and not is_kept(x):
            factors += opened(x, labels, fresh_in(sizes))
        else:
            factors.append((x, labels))
    places = [k for k, (x, labels) in enumerate(factors) if x is kept and output[side] in labels]
    if len(places) != 1 or len(set(output)) < len(output):
        return []
    [place], coefficient = places, times(coefficient, own)
    labels = factors[place][1]
    rest = [factor for k, factor in enumerate(factors) if k != place]
    axis = labels.index(output[side])
    inner, outer = labels[1 - axis], output[1 - side]
    if any(output[side] in theirs for _, theirs in rest):
        return []
    result = (outer, outer) if inner == outer else (outer, inner)
    return [(axis, inner == outer, einsum(coefficient, rest, result, sizes, inline=False))]
