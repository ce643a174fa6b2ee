"""Equal expressions that cost more or less, depending on sizes: none of them is a canonical form.

- `A (B + C) = A B + A C`, in both directions: `(A - H'H) x` does not form H'H, `A B + A C` is one product. Sums whose
  terms may cancel are not multiplied out for what is there anyway.
- Inverses and determinants of sums with a term of low rank (`planning.low_rank`).

What is taken is decided by what whole programs cost (`program.write.choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import prod

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.nesting import nested
from eindiff.core.networks import new_label
from eindiff.core.nodes import Add, Apply, Einsum, Expr, is_contraction, is_inverse, is_kept, topological
from eindiff.core.rebuild import rebuild, substituted, with_children
from eindiff.core.sizes import Evaluate, Size
from eindiff.core.tensor_order import numbered
from eindiff.functions.matrices import inv
from eindiff.functions.rules.kronecker import determinant_by_logarithms
from eindiff.planning.deviations import balance_of_kept
from eindiff.planning.equal_parts import flops_alone, path_alone
from eindiff.planning.factoring import cancels_exactly, is_outer, is_sum_of_outer, with_each
from eindiff.planning.low_rank import DETERMINANTS, is_of_sum, splits, thin_factors, without
from eindiff.planning.simplify import flat, joins
from eindiff.planning.tuning import TERMS_LIMIT


def alternatives(outputs: Sequence[Expr], evaluate: Evaluate, guarded: bool) -> Iterator[list[Expr]]:
    """Outputs with another node in the place of one; `evaluate` knows the sizes. It is about matrices and vectors, and
    sums of outer products of such. What is `guarded` refuses values that would lose digits."""
    nodes = topological(outputs)
    for matrix in dict.fromkeys(node.children[0] for node in nodes if is_of_sum(node, "inv", *DETERMINANTS)):
        forms = [[*outputs], _with_inverse_alone(outputs, inv(matrix))]
        forms = forms if forms[1] != forms[0] else forms[:1]
        yield from (without(form, matrix, x) for x in splits(matrix, evaluate, guarded) for form in forms)
    yield _with_thin_factors(outputs, evaluate)
    multiplied = _with_sums_multiplied(outputs, evaluate, 1, _is_matrix_sum)
    yield multiplied
    yield _with_products_joined(multiplied)
    yield _with_sums_multiplied(outputs, evaluate, 2, lambda x: isinstance(x, Add) and x.ndim == 2)
    for node in nodes:
        if node.ndim <= 2 and not is_kept(node):
            yield from (_replaced(outputs, node, other) for other in _others(node, evaluate))


def _with_inverse_alone(outputs: Sequence[Expr], inverse: Expr) -> list[Expr]:
    """Outputs with products of sums and matrices multiplied out where an inverse is a term of the sum: of
    `(inv(K) - a a') X` the first product may be pushed through, the matrix `inv(K) - a a'` has to be formed."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children, inline=children != list(node.children))
        if not is_contraction(made):
            return made
        for place, x in enumerate(made.operands):
            if _is_matrix_sum(x) and any(inverse in [y for y, _ in construct.parts(term)[1]] for term in x.children):
                return construct.add([change(term, [*term.children]) for term in with_each(made, place, x.children)])
        return made

    return rebuild(outputs, change)


def _with_thin_factors(outputs: Sequence[Expr], evaluate: Evaluate) -> list[Expr]:
    """Outputs with two thin factors in the place of products of low rank that are parts of several others: of
    `P = X M X'` that is multiplied with more than one matrix it is M X' that is there once, and not P."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        thin = [thin_factors(x, evaluate) for x in made.operands] if is_contraction(made) else []
        if not is_contraction(made) or not any(thin):
            return made
        sizes: dict[int, Size] = dict(enumerate(made.sizes))
        factors: list[Factor] = []
        for (x, labels), found in zip(made.factors, thin, strict=True):
            if found is None or len({*labels}) < 2:
                factors.append((x, labels))
                continue
            inner = new_label(sizes, found[0].shape[1])
            factors += [(found[0], (labels[0], inner)), (found[1], (inner, labels[1]))]
        return construct.einsum(1, factors, made.output, sizes, inline=False)

    return rebuild(outputs, change)


def with_thin_products(outputs: Sequence[Expr], evaluate: Evaluate) -> list[Expr]:
    """Outputs with products of kept sums, or of sums of products with inverses, and one matrix multiplied out where
    that takes fewer operations: `(A B - I) S` is `A (B S) - S`, as with vectors. Not of kept sums with another kept
    one, which would cost the digits of both.

    An inverse is multiplied with what is thin before anything is rounded that it multiplies: where K is little more
    than `U U'`, the matrix `inv(K) W inv(K)` is large, as are its rounding errors, and `inv(K) U` is not. In
    `inv(K) S (inv(K) W inv(K)) U` they would meet the inverse once more, and be as large as its square.
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        return _multiplied(made, _is_opened, evaluate) if is_contraction(made) else made

    return rebuild(outputs, change) if any(map(_is_opened, topological(outputs))) else [*outputs]


def _is_opened(x: Expr) -> bool:
    return _is_of_inverses(x) or (is_kept(x) and balance_of_kept(x) is None)


def _is_of_inverses(x: Expr) -> bool:
    """Whether a sum has products of several inverses and another matrix among its terms; vectors beside an inverse are
    solutions, which are not large."""
    terms = [[y for y, _ in flat(term)[1]] for term in x.children] if _is_matrix_sum(x) else []
    return any(_has_matrix_beside_inverses(factors) for factors in terms)


def _has_matrix_beside_inverses(factors: Sequence[Expr]) -> bool:
    inverses = [x for x in factors if is_inverse(x)]
    return len(inverses) > 1 and any(x.ndim == 2 for x in factors if not is_inverse(x))


def nested_around_inverses(outputs: Sequence[Expr], evaluate: Evaluate) -> list[Expr]:
    """Contractions with inverses as products of two each, in the best order: what is thin comes first, and solutions
    that several have in common are one, with the same rounding errors, which cancel where they do."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        if is_contraction(made) and len(made.operands) > 2 and any(map(is_inverse, made.operands)):
            return nested(made, made.operands, path_alone(made, evaluate))
        return made

    return rebuild(outputs, change)


def _with_products_joined(outputs: Sequence[Expr]) -> list[Expr]:
    """Outputs with products of one matrix and several vectors in a sum as one product with a sum of vectors, all at
    once: of `H g - c H y - s y' H g + c s y' H y` each pair alone saves nothing, as others have `H g` and `H y`."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children, inline=children != list(node.children))
        return _all_joined(made) if isinstance(made, Add) and made.ndim == 1 else made

    return rebuild(outputs, change)


def _all_joined(node: Add) -> Expr:
    """A sum of vectors with all terms joined that have a matrix in common, multiples of sums among them opened."""
    terms = [opened for term in node.terms for opened in _terms(term)]
    if len(terms) > TERMS_LIMIT:
        return node
    left, result = terms, list[Expr]()
    while left:
        first, *left = left
        for other in left:
            joined = _joined_by_matrix(first, other)
            if joined is not None:
                first, left = joined, [x for x in left if x is not other]
        result.append(first)
    return node if len(result) == len(terms) else construct.add(result)


def _terms(term: Expr) -> Sequence[Expr]:
    """The terms of a multiple of a sum of vectors; else the term."""
    if not isinstance(term, Einsum) or not term.is_product:
        return [term]
    sums = [k for k, x in enumerate(term.operands) if isinstance(x, Add) and x.ndim]
    return with_each(term, sums[0], term.operands[sums[0]].children) if len(sums) == 1 else [term]


def _joined_by_matrix(first: Expr, second: Expr) -> Expr | None:
    """Two vectors as one product of a matrix and a sum of vectors; None if they have no matrix in common."""
    shared = {x for x, _ in flat(first)[1] if x.ndim == 2}.intersection(x for x, _ in flat(second)[1])
    made = ((x, {y for y, _ in flat(x)[1]}) for x in (joins(first, second) if shared else ()))
    return next((x for x, own in made if shared & own and any(isinstance(y, Add) and y.ndim == 1 for y in own)), None)


def _with_sums_multiplied(
    outputs: Sequence[Expr], evaluate: Evaluate, ndim: int, is_sum: Callable[[Expr], bool]
) -> list[Expr]:
    """Outputs with all products of sums and vectors multiplied out that pay, or of matrices, too: `A + U V'` is formed
    for all of them or for none, so `(A + U V') x` alone saves nothing beside `(A + U V')' (A + U V') x`."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children, inline=children != list(node.children))
        is_thin = is_contraction(made) and any(x.ndim <= ndim for x in made.operands)
        return _multiplied(made, is_sum, evaluate) if is_thin else made

    return rebuild(outputs, change)


def _multiplied(node: Expr, is_sum: Callable[[Expr], bool], evaluate: Evaluate) -> Expr:
    """A contraction with all products of sums and one more operand multiplied out that pay."""
    if not isinstance(node, Einsum):
        return node
    if not is_contraction(node):
        return with_children(node, [_multiplied(x, is_sum, evaluate) for x in node.children])
    sums = [k for k, x in enumerate(node.operands) if is_sum(x)]
    pairs = [(k, places) for k in sums for places in _partners(node, k, evaluate)]
    inner_first = sorted(pairs, key=lambda pair: len(pair[1]))
    found = (_thin_product(node, place, places, evaluate) for place, places in inner_first)
    changed = next((x for x in found if x is not None), None)
    return node if changed is None else _multiplied(changed, is_sum, evaluate)


def _partners(node: Einsum, place: int, evaluate: Evaluate) -> Iterator[list[int]]:
    """The places of what an operand may be multiplied with: of one that takes no more than the product that it meets in
    the best order, as others may have that too, or else of the factors of this product."""
    made, product = [[k] for k in range(len(node.operands))], [place]
    for one, other in numbered(path_alone(node, evaluate), len(made)):
        if [place] in (made[one], made[other]):
            product = made[other if made[one] == [place] else one]
            break
        made.append([*made[one], *made[other]])

    def flops(places: Sequence[int]) -> float:
        _, labels = _as_one(node, places)
        return prod(evaluate(node.sizes[label]) for label in {*labels, *node.labels[place]})

    yield from ([k] for k in range(len(node.operands)) if k != place and flops([k]) <= flops(product))
    if len(product) > 1:
        yield product


def _thin_product(node: Einsum, place: int, places: Sequence[int], evaluate: Evaluate) -> Expr | None:
    """A contraction with the product of a sum and some more operands multiplied out, if that pays."""
    factors: list[Factor] = list(zip(node.operands, node.labels, strict=True))
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    operand, labels = factors[place]
    rest = [factor for k, factor in enumerate(factors) if k not in (place, *places)]
    outside = set(node.output).union(*(own for _, own in rest))
    product, theirs = _as_one(node, places)
    shared = set(labels).intersection(theirs)
    summed = shared - outside if _is_of_inverses(operand) else shared
    if len(summed) != 1 or summed & outside or is_kept(product) or is_inverse(product):
        return None  # an inverse beside a sum is a system, and multiplied out one that has to be formed
    thin = product if len(places) == 1 else construct.placeholder("a product", product.shape)  # it is there once
    output = tuple([label for label in dict.fromkeys((*labels, *theirs)) if label in outside])
    whole = construct.einsum(1, [(operand, labels), (thin, theirs)], output, sizes, inline=False)
    whole = construct.parts(whole)[1][0][0]
    total = operand.children[0] if is_kept(operand) else operand
    terms = [construct.einsum(1, [(x, labels), (thin, theirs)], output, sizes) for x in total.children]
    if not is_contraction(whole) or not _is_better_alone(whole, total, terms, evaluate):
        return None
    if (joined := construct.add(terms)) is whole:
        return None
    [made] = substituted([joined], {thin: product})
    return construct.einsum(1, [*rest, (made, output)], node.output, sizes, inline=False)


def _as_one(node: Einsum, places: Sequence[int]) -> Factor:
    """The product of some operands of a contraction, with the labels that it keeps."""
    factors: list[Factor] = list(zip(node.operands, node.labels, strict=True))
    own = [factors[k] for k in places]
    if len(own) == 1:
        return own[0]
    outside = set(node.output).union(*(labels for k, (_, labels) in enumerate(factors) if k not in places))
    kept = tuple(sorted(outside.intersection(label for _, labels in own for label in labels)))
    return construct.einsum(1, own, kept, dict(enumerate(node.sizes)), inline=False), kept


def _others(node: Expr, evaluate: Evaluate) -> Iterator[Expr]:
    """What may stand in the place of a matrix or a vector."""
    if isinstance(node, Apply):
        found = determinant_by_logarithms(node.children[0]) if node.function.name == "det" else None
        yield from [found] if found is not None else []
    elif any(child.ndim > 2 for child in node.children):
        if is_contraction(node):
            outer = [place for place, x in enumerate(node.operands) if is_sum_of_outer(x, node.operands)]
            yield from (construct.add(with_each(node, place, node.operands[place].children)) for place in outer)
    elif isinstance(node, Add):
        yield from _joined(node)
    elif is_contraction(node):
        yield from _multiplied_out(node, evaluate)


def _multiplied_out(node: Einsum, evaluate: Evaluate) -> Iterator[Expr]:
    """A product with one of its sums multiplied out, and with all of its sums of matrices beside vectors."""
    for place, operand in enumerate(node.operands):
        if isinstance(operand, Add):
            terms = with_each(node, place, operand.terms)
            if _is_better_alone(node, operand, terms, evaluate):
                yield construct.add(terms)
    if len(node.operands) > 2 and any(x.ndim == 1 for x in node.operands):
        changed = _multiplied(node, _is_matrix_sum, evaluate)
        yield from [changed] if changed is not node else []


def _is_matrix_sum(x: Expr) -> bool:
    return isinstance(x, Add) and x.ndim > 1


def _replaced(outputs: Sequence[Expr], old: Expr, new: Expr) -> list[Expr]:
    """Expressions with one node in the place of another, and contractions of it flat."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        return new if node is old else with_children(node, children, inline=children != list(node.children))

    return rebuild(outputs, change)


def _is_better_alone(node: Einsum, total: Expr, terms: Sequence[Expr], evaluate: Evaluate) -> bool:
    """Whether a contraction with a sum takes fewer operations multiplied out, and not because of what others have.

    The gradient `A'(A x - b)` has rounding errors of the size of the residual. Where a Hessian has A'A, `(A'A) x - A'b`
    takes less time, and has those of what it is the difference of. So has `X' diag(p) X - m m'`, of which half need not
    be computed, where `(X - 1 m')' diag(p) X` has those of deviations from means; and `A'A - A`, where `(A - I)'A` has
    those of what A is more than I.
    """
    if cancels_exactly(total):
        return False
    inside = [x for term in (node, *total.children, *terms) for x in (term, *term.children)]
    has_deltas = any(isinstance(term, Einsum) and term.has_delta for term in total.children)
    squares = not has_deltas and not any(map(_is_repeated, total.children))
    flops: dict[Expr, float] = {x: flops_alone(x, evaluate, squares) for x in inside if is_contraction(x)}

    def alone(term: Expr) -> float:
        return flops[term] if term in flops else sum(flops.get(x, 0.0) for x in term.children)

    outer = [term for term in total.children if is_outer(term) and not _is_repeated(term)]
    formed = sum(prod(map(evaluate, term.shape)) for term in outer)  # which is rounded, as its products are
    return sum(map(alone, terms)) < alone(node) + sum(map(alone, total.children)) + formed


def _is_repeated(term: Expr) -> bool:
    """Whether a term is the same along an axis."""
    return isinstance(term, Einsum) and not term.has_delta and any(map(term.same_along, range(term.ndim)))


def _joined(node: Add) -> Iterator[Expr]:
    """A sum with two of its terms as one product."""
    if len(node.terms) > TERMS_LIMIT:
        return
    for first, second in combinations(node.terms, 2):
        rest = [term for term in node.terms if term is not first and term is not second]
        yield from (construct.add([*rest, joined]) for joined in joins(first, second) if not isinstance(joined, Add))
