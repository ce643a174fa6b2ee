"""Equal expressions that cost more or less, depending on sizes: none of them is a canonical form.

- `A (B + C) = A B + A C`, in both directions: `(A - H'H) x` does not form H'H, `A B + A C` is one product. Sums whose
  terms may cancel are not multiplied out for what is there anyway.
- `inv(D + U M V) U = inv(D) U inv(G) inv(M)` with `G = inv(M) + V inv(D) U` (push-through), and
  `inv(D + U M V) = inv(D) - inv(D) U inv(G) V inv(D)` (Woodbury), where D has an inverse that costs nothing, as a
  diagonal matrix or an inverse has, and G is smaller. Where a diagonal has entries that are much smaller than others,
  their reciprocals would cancel: digits would be lost that the sum has. So entries that may be of any size are held
  against each other where they are known (`functions.reductions.alike`), in programs that can do so.

What is taken is decided by what whole programs cost (`program.write.choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import inf
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import to_power
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels
from eindiff.core.networks import new_label
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Number, is_contraction, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Size
from eindiff.facts.bounds import interval
from eindiff.functions.matrices import inv
from eindiff.functions.multilinear import eye
from eindiff.functions.reductions import ALIKE, alike
from eindiff.planning.factoring import cancels_exactly, is_sum_of_outer
from eindiff.planning.halves import flops_alone
from eindiff.planning.simplify import flat, joins
from eindiff.planning.tuning import TERMS_LIMIT

Evaluate = Callable[[Size], int]


def alternatives(outputs: Sequence[Expr], evaluate: Evaluate, guarded: bool) -> Iterator[tuple[Expr, Expr]]:
    """Nodes, and what may stand in their places; `evaluate` knows the sizes. It is about matrices and vectors, and sums
    of outer products of such. What is `guarded` refuses values that would lose digits."""
    for node in topological(outputs):
        if node.ndim <= 2:
            yield from ((node, other) for other in _others(node, evaluate, guarded))


def _others(node: Expr, evaluate: Evaluate, guarded: bool) -> Iterator[Expr]:
    """What may stand in the place of a matrix or a vector."""
    if any(child.ndim > 2 for child in node.children):
        if is_contraction(node):
            outer = [place for place, x in enumerate(node.operands) if is_sum_of_outer(x, node.operands)]
            yield from (construct.add(_multiplied_out(node, place, node.operands[place].children)) for place in outer)
    elif isinstance(node, Add):
        yield from _joined(node)
    elif is_contraction(node):
        for place, operand in enumerate(node.operands):
            if isinstance(operand, Add):
                terms = _multiplied_out(node, place, operand.terms)
                if _is_better_alone(node, operand, terms, evaluate):
                    yield construct.add(terms)
            elif _is_inverse_of_sum(operand):
                yield from _around_inverse(node, place, evaluate, guarded)
    elif _is_inverse_of_sum(node):
        yield from (construct.add(_woodbury(split)) for split in _splits(node, evaluate, guarded))


def replaced(outputs: Sequence[Expr], old: Expr, new: Expr) -> list[Expr]:
    """Expressions with one node in the place of another, and contractions of it flat."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        return new if node is old else with_children(node, children, inline=children != list(node.children))

    return rebuild(outputs, change)


def _multiplied_out(node: Einsum, place: int, terms: Sequence[Expr]) -> list[Expr]:
    """A contraction with one of its operands, at some place, as a sum of terms: what is added up."""
    children, result = list(node.operands), []
    for term in terms:
        children[place] = term
        result.append(with_children(node, children, inline=True))
    return result


def _is_better_alone(node: Einsum, total: Add, terms: Sequence[Expr], evaluate: Evaluate) -> bool:
    """Whether a contraction with a sum takes fewer operations multiplied out, and not because of what others have.

    The gradient `A'(A x - b)` has rounding errors of the size of the residual. Where a Hessian has A'A, `(A'A) x - A'b`
    takes less time, and has those of what it is the difference of.
    """
    if cancels_exactly(total):
        return False
    inside = [x for term in (node, *total.terms, *terms) for x in (term, *term.children)]
    flops: dict[Expr, float] = {x: flops_alone(x, evaluate) for x in inside if is_contraction(x)}

    def alone(term: Expr) -> float:
        return flops[term] if term in flops else sum(flops.get(x, 0.0) for x in term.children)

    return sum(map(alone, terms)) < alone(node) + sum(map(alone, total.terms))


def _joined(node: Add) -> Iterator[Expr]:
    """A sum with two of its terms as one product."""
    if len(node.terms) > TERMS_LIMIT:
        return
    for first, second in combinations(node.terms, 2):
        rest = [term for term in node.terms if term is not first and term is not second]
        yield from (construct.add([*rest, joined]) for joined in joins(first, second) if not isinstance(joined, Add))


# Inverses of sums


class Split(NamedTuple):
    """D + U M V: the inverses of D and of M, U and V, and the small matrix `inv(M) + V inv(D) U`."""

    base: Expr
    left: Expr
    middle: Expr
    right: Expr
    small: Expr


def _is_inverse_of_sum(node: Expr) -> bool:
    is_inverse = isinstance(node, Apply) and node.function.name == "inv" and node.ndim == 2
    return is_inverse and isinstance(node.children[0], Add)


def _splits(inverse: Expr, evaluate: Evaluate, guarded: bool) -> Iterator[Split]:
    """The ways to see what is inverted as D + U M V; no more is inverted than D, which has to have an inverse anyway.

    If D is a multiple of the identity, the sum without it has a low rank, and is singular.
    """
    [total] = inverse.children
    for term in total.children:
        found = _chain(term)
        if found is None or len(found[1]) < 2:
            continue
        coefficient, chain = found
        inner = [evaluate(x.shape[1]) for x in chain[:-1]]
        least = min(inner)
        base = _inverse_for_nothing(construct.add([other for other in total.children if other is not term]), guarded)
        if least >= evaluate(total.shape[0]) or base is None:
            continue
        first, last = inner.index(least) + 1, len(inner) - inner[::-1].index(least)
        last = last if all(_is_inverse(x) for x in chain[first:last]) else first
        while last - first > 1:  # a product of what is inverted would have the product of their conditions
            first, last = first + 1, last - 1
        left, right = _product(chain[:first]), _product(chain[last:])
        middle = inv(_product(chain[first:last])) if last > first else eye(left.shape[1])
        middle = construct.scale(coefficient, middle)
        yield Split(base, left, middle, right, inv(middle + right @ base @ left))


def _inverse_for_nothing(matrix: Expr, guarded: bool) -> Expr | None:
    """The inverse of a multiple of the identity, of a diagonal matrix whose entries are of one size, or of an inverse;
    else None."""
    coefficient, factors, output, sizes = construct.parts(matrix)
    if output[0] == output[1]:
        entries = construct.einsum(1, [x for x in factors if x[1]], output[:1], {output[0]: sizes[output[0]]})
        least, most = sorted([abs(interval(entries).low), abs(interval(entries).high)])
        if interval(entries).sign and most <= ALIKE * least < inf:
            return inv(matrix)
        if not guarded or not interval(entries).nonzero:
            return None
        found = [*[x for x in factors if not x[1]], (alike(entries), output[:1])]
        return inv(construct.einsum(coefficient, found, output, sizes))
    is_one = len([labels for _, labels in factors if labels]) == 1
    return inv(matrix) if is_one and _is_inverse(matrix) else None


def _is_inverse(x: Expr) -> bool:
    """Whether a matrix, or one that it is a multiple of, has to be found as an inverse."""
    return any(isinstance(node, Apply) and node.function.name == "inv" for node, _ in construct.parts(x)[1])


def _product(chain: Sequence[Expr]) -> Expr:
    result = chain[0]
    for factor in chain[1:]:
        result = result @ factor
    return result


def _chain(term: Expr) -> tuple[Number, list[Expr]] | None:
    """The reciprocal of a number, and matrices whose product, times that number, is a term; None if it is no such.

    Factors that are numbers may be 0: they are part of the last matrix.
    """
    coefficient, factors, output, _ = flat(term)
    if len(output) != 2 or output[0] == output[1] or (inverse := to_power(coefficient, -1)) is None:
        return None
    left, chain = [factor for factor in factors if factor[1]], []
    at, end = output
    while left:
        step = next((f for f in left if len(f[1]) == 2 and at in f[1] and f[1][0] != f[1][1]), None)
        if step is None:
            return None
        left.remove(step)
        chain.append(_turned(step, at))
        at = step[1][1] if step[1][0] == at else step[1][0]
    for node, labels in factors:
        chain[-1] = chain[-1] if labels else node * chain[-1]
    return (inverse, chain) if at == end else None


def _turned(factor: Factor, row: int) -> Expr:
    """A matrix with the given label as its row."""
    node, labels = factor
    return node if labels[0] == row else construct.transpose(node, (1, 0))


def _woodbury(split: Split) -> list[Expr]:
    """The terms of the inverse."""
    base, left, _, right, small = split
    return [base, construct.scale(-1, base @ left @ small @ right @ base)]


def _around_inverse(node: Einsum, place: int, evaluate: Evaluate, guarded: bool) -> Iterator[Expr]:
    """A contraction with the inverse of a sum, at some place, in other ways."""
    for split in _splits(node.operands[place], evaluate, guarded):
        if (pushed := _pushed(node, place, split)) is not None:
            yield pushed
        yield construct.add(_multiplied_out(node, place, _woodbury(split)))


def _pushed(node: Einsum, place: int, split: Split) -> Expr | None:
    """The contraction with `inv(D + U M V) U`, or `V inv(D + U M V)`, by the small matrix."""
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
    return None


def _with_small(node: Einsum, gone: tuple[int, int], split: Split, ends: Labels) -> Expr:
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    factors = [(x, own) for k, (x, own) in enumerate(zip(node.operands, node.labels, strict=True)) if k not in gone]
    at = ends[0]
    for matrix in (split.base, split.left, split.small, split.middle):
        to = ends[1] if matrix is split.middle else new_label(sizes, matrix.shape[1])
        factors.append((matrix, (at, to)))
        at = to
    return construct.einsum(1, factors, node.output, sizes)
