"""Inverses and determinants of D + U M V, where D has an inverse that costs nothing, and U few columns.

- `inv(D + U M V) U = inv(D) U inv(G) inv(M)` with `G = inv(M) + V inv(D) U` (push-through),
- `inv(D + U M V) = inv(D) - inv(D) U inv(G) V inv(D)` (Woodbury),
- `inv(D + U M) = inv(M) inv(G) inv(D)`, where D is an inverse, and so is M, or U is diagonal, and
- `det(D + U M V) = det(D) det(M) det(G)`.

D is a diagonal or an orthogonal matrix, an inverse, or a product of such. Where a diagonal has entries that are much
smaller than others, their reciprocals would cancel: digits would be lost that the sum has. So entries that may be of
any size are held against each other where they are known (`functions.reductions.alike`), in programs that can do so. U
and V may be vectors: a matrix with one column, and one with one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import inf
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import HALF, ratio, to_power
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels, components
from eindiff.core.leaves import BANDS, TRIANGLES
from eindiff.core.networks import new_label
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Number, Variable, is_contraction, is_inverse
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Evaluate, Size
from eindiff.facts.bounds import facts, interval
from eindiff.functions import elementwise, multilinear
from eindiff.functions.elementwise import exp, log, power
from eindiff.functions.guards import ALIKE, alike, conditioned, is_alike, looked_at_everywhere
from eindiff.functions.indexing import concatenate
from eindiff.functions.matrices import det, inv, logabsdet, logdet, signdet
from eindiff.functions.multilinear import diag, eye
from eindiff.functions.reductions import prod
from eindiff.planning.factoring import with_each
from eindiff.planning.simplify import flat

_FEW = BANDS | TRIANGLES
INVERSES = 4  # a sum of more terms is not looked through for inverses
DETERMINANTS = {"det": det, "logdet": logdet, "logabsdet": logabsdet, "signdet": signdet}
_OF_NUMBERS: dict[str, Callable[[Expr], Expr]] = {
    "det": lambda x: x,
    "logdet": log,
    "logabsdet": lambda x: log(elementwise.abs(x)),
    "signdet": elementwise.sign,
}  # for matrices with one entry


class Split(NamedTuple):
    """D + U M V: the inverses of D and of M, U and V, and the small matrix `G = inv(M) + V inv(D) U`."""

    base: Expr
    left: Expr
    middle: Expr
    right: Expr
    small: Expr


def is_of_sum(node: Expr, *names: str) -> bool:
    """Whether a node is the inverse of a sum, or another function of a matrix that is one."""
    is_function = isinstance(node, Apply) and node.function.name in names and len(node.children) == 1
    return is_function and isinstance(node.children[0], Add) and node.children[0].ndim == 2


def splits(total: Expr, evaluate: Evaluate, guarded: bool) -> Iterator[Split]:
    """The ways to see a sum as D + U M V; no more is inverted than D, which has to have an inverse anyway.

    If D is a multiple of the identity, the sum without it has a low rank, and is singular.
    """
    size = evaluate(total.shape[0])
    thin = {term: found for term in total.children if (found := _factored(term, evaluate, size)) is not None}
    parts: list[tuple[tuple[Expr, ...], tuple[Expr, Expr, Expr]]] = [((term,), one) for term, one in thin.items()]
    if len(thin) > 1 and (joined := _side_by_side([*thin.values()])) is not None:
        parts.append((tuple(thin), joined))
    for terms, (left, middle, right) in parts:
        base = _inverse_for_nothing(construct.add([x for x in total.children if x not in terms]), guarded)
        if base is not None and evaluate(left.shape[1]) < size:
            yield Split(base, left, middle, right, middle + right @ base @ left)
    yield from _with_inverses(total)


def _with_inverses(total: Expr) -> Iterator[Split]:
    """A sum with an inverse D, and another one M or a diagonal matrix U: M or U is as large as D."""
    one = eye(total.shape[0])
    for term in filter(_is_of_inverse, total.children if len(total.children) < INVERSES else ()):
        base, rest = inv(term), construct.add([x for x in total.children if x is not term])
        if _is_of_inverse(rest) and not isinstance(rest, Add):
            yield Split(base, one, inv(rest), one, inv(rest) + base)
        elif facts(rest).diagonal:
            yield Split(base, rest, one, one, one + base @ rest)


def _factored(term: Expr, evaluate: Evaluate, size: float) -> tuple[Expr, Expr, Expr] | None:
    """U, the inverse of M, and V, if a term is a product U M V of few columns and rows."""
    found = _chain(term)
    if found is None or len(found[1]) < 2:
        return None
    coefficient, chain = found
    inner = [evaluate(x.shape[1]) for x in chain[:-1]]
    least = min(inner)
    if least >= size:
        return None
    first, last = inner.index(least) + 1, len(inner) - inner[::-1].index(least)
    last = last if all(_is_of_inverse(x) for x in chain[first:last]) else first
    while last - first > 1:  # a product of what is inverted would have the product of their conditions
        first, last = first + 1, last - 1
    left, right = _product(chain[:first]), _product(chain[last:])
    middle = inv(_product(chain[first:last])) if last > first else eye(left.shape[1])
    return left, construct.scale(coefficient, middle), right


def thin_factors(product: Expr, evaluate: Evaluate) -> tuple[Expr, Expr] | None:
    """Two matrices whose product a contraction is, if one of its factors in between has much fewer columns."""
    found = _chain(product) if is_contraction(product) and product.ndim == 2 and len(product.operands) > 2 else None
    inner = [evaluate(x.shape[1]) for x in found[1][:-1]] if found is not None else []
    if found is None or not inner or 2 * min(inner) > min(map(evaluate, product.shape)):
        return None
    cut = inner.index(min(inner)) + 1
    return _product(found[1][:cut]), _product(found[1][cut:])


def _side_by_side(thin: Sequence[tuple[Expr, Expr, Expr]]) -> tuple[Expr, Expr, Expr] | None:
    """Several squares `c U U'`, of numbers c of the same sign, as one, the columns of each U beside those of others.

    None if there are other products: these may cancel, and with them the digits of the small matrix.
    """
    numbers = [construct.parts(middle)[0] for _, middle, _ in thin]
    roots = [root for c in numbers if (root := to_power(c if c > 0 else -c, Fraction(-1, 2))) is not None]
    are_squares = all(construct.transpose(left, (1, 0)) is right for left, _, right in thin)
    are_multiples = not any(construct.parts(middle)[1] for _, middle, _ in thin)
    if not are_multiples or not are_squares or len({c > 0 for c in numbers}) > 1 or len(roots) < len(thin):
        return None
    left = concatenate([construct.scale(c, x) for c, (x, _, _) in zip(roots, thin, strict=True)], 1)
    middle = construct.scale(1 if numbers[0] > 0 else -1, eye(left.shape[1]))
    return left, middle, construct.transpose(left, (1, 0))


def _inverse_for_nothing(matrix: Expr, guarded: bool) -> Expr | None:
    """The inverse of a multiple of the identity, of a diagonal matrix whose entries are of one size, or of a product of
    inverses and orthogonal matrices; else None."""
    if isinstance(matrix, Add) and facts(matrix).diagonal:
        matrix = diag(diag(matrix))
    coefficient, factors, output, sizes = construct.parts(matrix)
    if output[0] == output[1]:
        entries = construct.einsum(1, [x for x in factors if x[1]], output[:1], {output[0]: sizes[output[0]]})
        least, most = sorted([abs(interval(entries).low), abs(interval(entries).high)])
        if interval(entries).sign and most <= ALIKE * least < inf:
            return inv(matrix)
        if not guarded:
            return None
        found = [*[x for x in factors if not x[1]], (alike(entries), output[:1])]
        return inv(construct.einsum(coefficient, found, output, sizes))
    return _inverse_of_chain(matrix, guarded)


def _inverse_of_chain(matrix: Expr, guarded: bool) -> Expr | None:
    """The inverse of a product of inverses, orthogonal matrices, and such of few entries whose condition is small."""
    coefficient, factors, output, sizes = flat(matrix)
    looked_at = [x for x, labels in factors if labels and not (is_inverse(x) or _is_orthogonal(x))]
    if not any(len(labels) > 1 for _, labels in factors):
        return None
    if not looked_at:
        return inv(matrix)
    if not guarded or any(x.ndim > 1 and not _has_few_entries(x) for x in looked_at):
        return None
    found = {x: alike(x) if x.ndim == 1 else conditioned(x, len(looked_at)) for x in looked_at}
    return inv(construct.einsum(coefficient, [(found.get(x, x), labels) for x, labels in factors], output, sizes))


def _has_few_entries(matrix: Expr) -> bool:
    """Whether a matrix, or each term of one besides diagonal ones, is declared to have the same few entries."""
    terms = [x for x in (matrix.terms if isinstance(matrix, Add) else (matrix,)) if not facts(x).diagonal]
    inside = [tuple([x for x, labels in construct.parts(term)[1] if labels]) for term in terms]
    kinds = {x[0].properties & _FEW for x in inside if len(x) == 1 and isinstance(x[0], Variable)}
    return all(len(x) == 1 and isinstance(x[0], Variable) for x in inside) and len(kinds) == 1 and all(kinds)


def _is_of_inverse(x: Expr) -> bool:
    """Whether a matrix, or one that it is a multiple of, has to be found as an inverse."""
    return any(is_inverse(node) for node, _ in construct.parts(x)[1])


def _is_orthogonal(x: Expr) -> bool:
    return isinstance(x, Variable) and "orthogonal" in x.properties


def _product(chain: Sequence[Expr]) -> Expr:
    result = chain[0]
    for factor in chain[1:]:
        result = result @ factor
    return result


def _chain(term: Expr) -> tuple[Number, list[Expr]] | None:
    """The reciprocal of a number, and matrices whose product, times that number, is a term; None if it is no such.

    Factors that are numbers may be 0: they are part of the last matrix.
    """
    coefficient, factors, output, sizes = flat(term)
    if len(output) != 2 or output[0] == output[1] or (inverse := to_power(coefficient, -1)) is None:
        return None
    matrices = [factor for factor in factors if factor[1]]
    chain = _outer(matrices, output, sizes) or _between(matrices, output)
    for node, labels in factors if chain else ():
        chain[-1] = chain[-1] if labels else node * chain[-1]
    return (inverse, chain) if chain else None


def _outer(factors: Sequence[Factor], output: Labels, sizes: dict[int, Size]) -> list[Expr]:
    """Two vectors whose outer product is that of factors, as a matrix with one column and one with one row."""
    groups = [[factors[k] for k in group] for group in components([labels for _, labels in factors])]
    places = [[k for k, group in enumerate(groups) if any(x in own for _, own in group)] for x in output]
    if len(groups) != 2 or sorted(places) != [[0], [1]]:
        return []
    one = new_label(sizes, 1)
    columns, rows = (groups[k] for [k] in places)
    return [
        construct.einsum(1, own, axes, sizes) for own, axes in ((columns, (output[0], one)), (rows, (one, output[1])))
    ]


def _between(factors: Sequence[Factor], output: Labels) -> list[Expr]:
    """Matrices from a row to a column whose product is that of factors; none if it is no such product. Vectors between
    them are weights of rows and columns."""
    left, chain = [f for f in factors if len(f[1]) > 1], []
    at, end = output
    places = [at]
    while left:
        step = next((f for f in left if len(f[1]) == 2 and at in f[1] and f[1][0] != f[1][1]), None)
        if step is None:
            return []
        left.remove(step)
        chain.append(_turned(step, at))
        at = step[1][1] if step[1][0] == at else step[1][0]
        places.append(at)
    weights = [f for f in factors if len(f[1]) == 1]
    if at != end or not {label for _, [label] in weights} <= {*places}:
        return []
    for weight, [label] in weights:
        _weigh(chain, places.index(label), weight)
    return chain


def _weigh(chain: list[Expr], place: int, weight: Expr) -> None:
    """Multiply the rows of a matrix of a chain by a vector, or the columns of the one before; both by its root where it
    has one, so that a square stays one."""
    if 0 < place < len(chain) and interval(weight).low >= 0:
        root = diag(power(weight, HALF))
        chain[place - 1], chain[place] = chain[place - 1] @ root, root @ chain[place]
    elif place < len(chain):
        chain[place] = diag(weight) @ chain[place]
    else:
        chain[-1] = chain[-1] @ diag(weight)


def _turned(factor: Factor, row: int) -> Expr:
    """A matrix with the given label as its row."""
    node, labels = factor
    return node if labels[0] == row else construct.transpose(node, (1, 0))


def _entry(matrix: Expr) -> Expr:
    """The only entry of a matrix."""
    return construct.einsum(1, [(matrix, (0, 1))], (), {0: 1, 1: 1})


def _small_inverse(split: Split) -> Expr:
    if split.small.shape != (1, 1):
        return inv(split.small)
    return construct.einsum(1, [(power(_entry(split.small), -1), ())], (0, 1), {0: 1, 1: 1})


def _is_whole(split: Split) -> bool:
    """Whether the inverse is one product, as V is the identity."""
    return split.right is eye(split.left.shape[0])


def inverse(split: Split) -> list[Expr]:
    """The terms of `inv(D + U M V)`, which is one product if V is the identity."""
    base, left, middle, right, small = split
    if _is_whole(split):
        return [middle @ inv(small) @ base]
    return [base, construct.scale(-1, base @ left @ _small_inverse(split) @ right @ base)]


def pushed(node: Einsum, place: int, split: Split) -> Expr | None:
    """A contraction with `inv(D + U M V) U`, or `V inv(D + U M V)`, by the small matrix; the inverse is at a place."""
    inverse, (row, column) = node.operands[place], node.labels[place]
    symmetric = construct.transpose(inverse, (1, 0)) is inverse
    for at, away in ((column, row), (row, column)) if symmetric else ((column, row),):
        for other in (k for k in range(len(node.operands)) if k != place):
            factor, labels = node.operands[other], node.labels[other]
            alone = sum(at in own for own in node.labels) == 2 and at not in node.output
            is_matrix = len(labels) == 2 and at in labels and labels[0] != labels[1]
            if alone and is_matrix and _turned((factor, labels), at) is split.left:
                end = labels[1] if labels[0] == at else labels[0]
                return _with_small(node, (place, other), split, (away, end))
        if split.left.shape[1] == 1 and (vector := _vector(node, place, (at, away), split.left)) is not None:
            multiple, gone = vector
            return construct.scale(multiple, _with_small(node, (place, *gone), split, (away, len(node.sizes))))
    return None


def _vector(node: Einsum, place: int, ends: Labels, left: Expr) -> tuple[Number, list[int]] | None:
    """The operands of a contraction that make up a multiple of the only column of a matrix, and which multiple; they
    have nothing in common with others than an inverse, at a place, that they are multiplied with."""
    inside, gone = {ends[0]}, set[int]()
    others = [k for k in range(len(node.operands)) if k != place]
    while more := {k for k in others if inside.intersection(node.labels[k])} - gone:
        gone |= more
        inside = inside.union(*(node.labels[k] for k in more))
    if inside.intersection((ends[1], *node.output)):
        return None
    factors = [(node.operands[k], node.labels[k]) for k in sorted(gone)]
    vector = construct.einsum(1, factors, ends[:1], dict(enumerate(node.sizes)))
    column = construct.einsum(1, [(left, (0, 1))], (0,), dict(enumerate(left.shape)))
    factor = ratio(construct.parts(vector)[0], construct.parts(column)[0] or 1)
    return (factor, sorted(gone)) if construct.scale(factor, column) is vector else None


def _with_small(node: Einsum, gone: Collection[int], split: Split, ends: Labels) -> Expr:
    sizes: dict[int, Size] = {**dict(enumerate(node.sizes)), len(node.sizes): 1}
    factors = [(x, own) for k, (x, own) in enumerate(zip(node.operands, node.labels, strict=True)) if k not in gone]
    at = ends[0]
    for matrix in (split.base, split.left, _small_inverse(split), split.middle):
        to = ends[1] if matrix is split.middle else new_label(sizes, matrix.shape[1])
        factors.append((matrix, (at, to)))
        at = to
    return construct.einsum(1, factors, node.output, sizes)


def determinant(split: Split, name: str) -> Expr | None:
    """`det(D + U M V)`, or its logarithm; None if the factors might be 0 and infinite where that is 0.

    Where the sign of a factor is not known, a logarithm is that of the size, and no number where the sign is not 1.
    """
    small, inverted = _divided(split)
    if name == "det" and not all(map(_has_determinant, inverted)):
        return None
    if name == "det" and all(x is eye(x.shape[0]) for x in inverted):
        return _of_small(small, "det")
    signs = [x for x in inverted if name != "logabsdet" and not _is_positive(x)]
    own = "logdet" if name == "logdet" and not signs else "logabsdet"
    known = [construct.scale(-1, _of_inverse(x, own)) for x in inverted]
    if name != "det" and not signs:
        return construct.add([_of_small(small, name), *known])
    sign = _of_small(small, "signdet")
    for x in signs:
        sign = sign * _of_inverse(x, "signdet")
    size = construct.add([_of_small(small, "logabsdet"), *known])
    return sign * exp(size) if name == "det" else size + log(sign)


def _divided(split: Split) -> tuple[Expr, list[Expr]]:
    """The small matrix, and the inverses whose determinants its own is divided by: a multiple of the identity in the
    middle is a number of the small one."""
    number, factors, output, _ = construct.parts(split.middle)
    is_multiple = not factors and (output[0] == output[1] or split.middle.shape == (1, 1))
    reciprocal = to_power(number, -1) if is_multiple else None
    if reciprocal is None:
        return split.small, [split.base, split.middle]
    return construct.scale(reciprocal, split.small), [split.base]


def _of_small(small: Expr, name: str) -> Expr:
    """A determinant, its sign or its logarithm."""
    if small.shape != (1, 1):
        return DETERMINANTS[name](small)
    return _OF_NUMBERS[name](_entry(small))


def _of_inverse(matrix: Expr, name: str) -> Expr:
    """The sign of the determinant of a matrix that is there anyway, or its logarithm."""
    if not facts(matrix).diagonal:
        return DETERMINANTS[name](matrix)
    found = _OF_NUMBERS[name](diag(matrix))
    return prod(found) if name == "signdet" else multilinear.sum(found)


def _is_positive(matrix: Expr) -> bool:
    """Whether it is known that a determinant is positive."""
    known = facts(matrix)
    if not known.diagonal:
        return known.psd
    entries = interval(diag(matrix))
    return entries.low >= 0 and entries.nonzero


def _has_determinant(matrix: Expr) -> bool:
    """Whether the determinant of an inverse is known to be finite, and not 0."""
    if not facts(matrix).diagonal:
        return True  # it would be inverted anyway
    entries = construct.parts(diag(inv(matrix)))[1]
    return all(interval(x).nonzero or is_alike(x) for x, _ in entries)


def without(outputs: Sequence[Expr], matrix: Expr, split: Split) -> list[Expr]:
    """Expressions with what is computed of a sum, its inverse and its determinant, by the small matrix alone.

    One of these by itself saves nothing, if the others factorize the sum all the same.
    """
    of_matrix = inv(matrix)

    def change(node: Expr, children: list[Expr]) -> Expr:
        node = with_children(node, children, inline=children != list(node.children))
        if isinstance(node, Apply) and is_of_sum(node, *DETERMINANTS) and node.children[0] is matrix:
            other = determinant(split, node.function.name)
            return node if other is None else other
        return _expanded(node, of_matrix, split) if is_contraction(node) else node

    def left(node: Expr, children: list[Expr]) -> Expr:
        return construct.add(inverse(split)) if node is of_matrix else with_children(node, children)

    while (found := rebuild(outputs, change)) != list(outputs):
        outputs = found
    return looked_at_everywhere(rebuild(outputs, left))


def _expanded(node: Einsum, of_matrix: Expr, split: Split) -> Expr:
    """A contraction with an inverse by the small matrix; it is at several places solved for one after the other.

    Push-through comes first, as its terms do not cancel. Those of Woodbury's formula do, by up to as many digits as the
    condition has, which solutions lose as well. If these were multiplied out twice, they would lose twice as many.
    """
    places = [k for k, operand in enumerate(node.operands) if operand is of_matrix]
    if len(places) == 1 and _is_whole(split) and split.left is split.right:
        return _between_inverses(node, places[0], split)
    for place in places:
        if (found := pushed(node, place, split)) is not None:
            return found
    if len(places) == 1:
        return construct.add(with_each(node, places[0], inverse(split)))
    return _one_by_one(node, of_matrix, split) if places else node


def _between_inverses(node: Einsum, place: int, split: Split) -> Expr:
    """A contraction with `inv(inv(A) + inv(B)) = A inv(A + B) B = B inv(A + B) A`, of which those are taken that cancel
    with inverses beside it; sums that have such in their terms are multiplied out."""
    row, column = node.labels[place]
    ends = [_without_numbers(inv(matrix)) for matrix in (split.base, split.middle)]
    beside = [k for k, own in enumerate(node.labels) if k != place and {row, column}.intersection(own)]
    for k in beside:
        operand = node.operands[k]
        if isinstance(operand, Add) and any(x in ends for term in operand.terms for x, _ in flat(term)[1]):
            return construct.add(with_each(node, k, operand.terms))
    turned = split._replace(base=split.middle, middle=split.base)
    after = [node.operands[k] for k in beside if column in node.labels[k]]
    before = [node.operands[k] for k in beside if row in node.labels[k]]
    is_turned = ends[1] in after or (ends[0] in before and ends[0] not in after)
    return construct.add(with_each(node, place, inverse(turned if is_turned else split)))


def _without_numbers(matrix: Expr) -> Expr | None:
    """The only matrix among the factors of one."""
    found = [node for node, labels in construct.parts(matrix)[1] if labels]
    return found[0] if len(found) == 1 else None


def _one_by_one(node: Einsum, of_matrix: Expr, split: Split) -> Expr:
    """A contraction with each inverse multiplied by one of its neighbours first."""
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    factors = list(zip(node.operands, node.labels, strict=True))
    while pair := _pair(factors, node.output, of_matrix):
        own, other = pair
        factors.remove(own)
        factors.remove(other)
        kept = tuple([label for label in (*own[1], *other[1]) if (label in own[1]) != (label in other[1])])
        system = construct.einsum(1, [own, other], kept, sizes)
        [found] = without([system], of_matrix.children[0], split)
        factors.append((found, kept))
    return construct.einsum(node.coefficient, factors, node.output, sizes, inline=False)


def _pair(factors: Sequence[Factor], output: Labels, of_matrix: Expr) -> tuple[Factor, Factor] | None:
    """An inverse, and the smallest factor that it alone is multiplied with."""
    uses = Counter(label for labels in (output, *(own for _, own in factors)) for label in labels)
    inverses = [factor for factor in factors if factor[0] is of_matrix]
    others = [factor for factor in factors if factor[0] is not of_matrix]
    pairs = [
        (own, other)
        for own, other in product(inverses, others)
        if [uses[label] for label in own[1] if label in other[1]] == [2]
    ]
    return min(pairs, key=lambda pair: pair[1][0].ndim, default=None)
