"""Sums over pairs as sums of differences: `Σ M_jk x_j z_j - Σ M_jk x_j z_k = Σ M_jk (x_j - x_k) (z_j - z_k) / 2`.

That holds for a symmetric M. Distances between points are squares of differences, and derivatives of functions of these
have such sums, with a difference in the place of some factors: `Σ M_jk x_j (x_j - x_k)`. Where the differences are
there anyway, what has no others has fewer terms, and no rounding errors of the size of x².
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import HALF, Number, times
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr
from eindiff.core.sizes import Size
from eindiff.planning.simplify import flat

Pair = tuple[int, int]  # labels that may be exchanged


class Difference(NamedTuple):
    """What a sum `a (x - x)` reads at two places along one axis: the array, and axes of the sum that its axes are."""

    array: Expr
    first: Labels
    second: Labels
    axis: int

    @property
    def pair(self) -> Pair:
        """The axes of the sum that are apart."""
        return self.first[self.axis], self.second[self.axis]


def difference(node: Expr) -> Difference | None:
    """A sum of two terms as such a difference; None if it is something else."""
    if not isinstance(node, Add) or len(node.terms) != 2 or node.has_delta:
        return None
    (plus, ours), (minus, theirs) = map(_of_axes, node.terms)
    found = _two_places(ours, theirs) if plus == -minus else None
    if found is None:
        return None
    j, k = found.pair
    common = {axis for factor in ours if factor != (found.array, found.first) for axis in factor[1]}
    return None if common & {j, k} or j in found.second or k in found.first else found


def _two_places(ours: Sequence[Factor], theirs: Sequence[Factor]) -> Difference | None:
    """One array at two places, if that is all in which the factors of two terms differ."""
    left = [[factor for factor in one if factor not in other] for one, other in ((ours, theirs), (theirs, ours))]
    if len(ours) != len(theirs) or [len(factors) for factors in left] != [1, 1]:
        return None
    [(x, first)], [(y, second)] = left
    apart = [axis for axis, (j, k) in enumerate(zip(first, second, strict=False)) if j != k]
    return Difference(x, first, second, apart[0]) if x is y and len(apart) == 1 else None


def _of_axes(term: Expr) -> tuple[Number, list[Factor]]:
    """The coefficient and the factors of a term, the axes of the term in the place of labels."""
    coefficient, factors, output, _ = construct.parts(term)
    return coefficient, [(x, tuple([output.index(label) for label in labels])) for x, labels in factors]


def with_square(node: Einsum) -> Expr | None:
    """A contraction of a difference and what it is a difference of with two differences; None if it is no such."""
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    factors = list(zip(node.operands, node.labels, strict=True))
    for place, (operand, labels) in enumerate(factors):
        if (found := difference(operand)) is None:
            continue
        pair = (labels[found.pair[0]], labels[found.pair[1]])
        for at, (x, own) in enumerate(factors):
            if x is not found.array or len({*pair} & {*own}) != 1 or own[found.axis] not in pair:
                continue
            rest = [factor for k, factor in enumerate(factors) if k not in (place, at)]
            if _is_symmetric(rest, pair, node.output, sizes):
                both = [(operand, labels), _apart((x, own), found.axis, pair, sizes)]
                return construct.einsum(HALF, [*rest, *both], node.output, sizes, inline=False)
    return None


def differences(sums: Iterable[Expr]) -> dict[tuple[Expr, int], None]:
    """The arrays, and axes of these, of which some sums are differences."""
    return {(found.array, found.axis): None for found in map(difference, sums) if found is not None}


def joined(node: Add, known: Iterable[tuple[Expr, int]]) -> Expr | None:
    """A sum with `Σ M_jk x_j z_k - Σ M_jk x_j z_j` as one term, for differences of entries of x that are there."""
    for term in node.terms if known else ():
        for other, both in _completed(term, known):
            if other in node.terms:
                return construct.add([*(x for x in node.terms if x not in (term, other)), both])
    return None


def _completed(term: Expr, known: Iterable[tuple[Expr, int]]) -> Iterator[tuple[Expr, Expr]]:
    """For a term `Σ M_jk x_j x_k` what it has to be added to, and what both are together."""
    inside = [x for node in (term, *term.children) for x in node.children]
    for array, axis in known:
        if inside.count(array) < 2:
            continue
        coefficient, factors, output, sizes = flat(term)
        for places in combinations([k for k, (x, _) in enumerate(factors) if x is array], 2):
            first, second = (factors[k] for k in places)
            pair = (first[1][axis], second[1][axis])
            rest = [factor for k, factor in enumerate(factors) if k not in places]
            if any(pair[1 - k] in one[1] for k, one in enumerate((first, second))):
                continue
            if _is_symmetric(rest, pair, output, sizes):
                same = (array, tuple([pair[0] if at == pair[1] else at for at in second[1]]))
                other = construct.einsum(times(-1, coefficient), [*rest, first, same], output, sizes)
                both = [_apart(one, axis, pair, sizes) for one in (first, second)]
                yield other, construct.einsum(times(HALF, coefficient), [*rest, *both], output, sizes, inline=False)


def _apart(factor: Factor, axis: int, pair: Pair, sizes: dict[int, Size]) -> Factor:
    """An array at one of two places along an axis, less the same at the other one."""
    x, labels = factor
    other = next(label for label in pair if label != labels[axis])
    kept = (*labels, other)
    there = (*labels[:axis], other, *labels[axis + 1 :])
    terms = [construct.einsum(sign, [(x, own)], kept, sizes) for sign, own in ((1, labels), (-1, there))]
    return construct.add(terms), kept


def _is_symmetric(rest: Sequence[Factor], pair: Pair, output: Labels, sizes: dict[int, Size]) -> bool:
    """Whether two labels, which are summed over, can be exchanged in a product."""
    seen = {label for _, labels in rest for label in labels}
    if pair[0] == pair[1] or not {*pair} <= seen or {*pair} & {*output}:
        return False
    others = sorted(seen - {*pair})
    made = [construct.einsum(1, rest, (*own, *others), sizes, inline=False) for own in (pair, pair[::-1])]
    return made[0] is made[1]
