"""Simplification on demand: rules that make an expression shorter, but not always cheaper or easier to derive."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from eindiff.core import construct
from eindiff.core.construct import Factor, in_front, parts
from eindiff.core.derivation import same_derivative
from eindiff.core.labels import Labels
from eindiff.core.networks import Names, fresh_in, in_common, new_label, opened
from eindiff.core.nodes import Add, Apply, Expr, Map, Number, is_contraction, plain, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.rewrite import rewrite, rule
from eindiff.core.sizes import Size

Pairs = list[tuple[int, int]]  # places of equal factors of two products


def simplify(expr: Expr) -> Expr:
    """An expression with common factors of contractions taken out of sums and exponentials combined.

    Args:
        expr: an expression

    >>> A, x, y = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("y", "n")
    >>> ed.simplify(A @ x + A @ y) is A @ (x + y), ed.simplify(ed.exp(x) * ed.exp(y)) is ed.exp(x + y)
    (True, True)

    See also: `rewrite_log`.
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        node = with_children(node, children, inline=True)
        while (better := rewrite("simplify", node)) is not None:
            node = better
        return node

    node = plain(expr)
    while (better := rebuild([node], change)[0]) is not node:
        node = better
    return same_derivative(node, expr)


@rule("simplify")
def combine_exponentials(node: Expr) -> Expr | None:
    """exp(x) exp(y) = exp(x + y) with the same labels. One factor less."""
    coefficient, factors, output, sizes = parts(node)
    by_labels: dict[Labels, list[Map]] = {}
    for operand, labels in factors:
        if isinstance(operand, Map) and operand.function.name == "exp":
            by_labels.setdefault(labels, []).append(operand)
    for labels, found in by_labels.items():
        if len(found) > 1:
            total = construct.map_(found[0].function, (construct.add([operand.args[0] for operand in found]),))
            rest = [factor for factor in factors if factor[1] != labels or factor[0] not in found]
            return construct.einsum(coefficient, [*rest, (total, labels)], output, sizes)
    return None


@rule("simplify")
def factor_contractions(node: Expr) -> Expr | None:
    """A x c + A y = A (c x + y), for any two products with factors in common (Lemma 3). One term less.

    Constructors distribute over deltas and index maps; where they would undo the step it is not taken.
    """
    if not isinstance(node, Add):
        return None
    for first, second in combinations(node.terms, 2):
        pairs, names = max(_in_common(first, second), key=lambda found: len(found[0]), default=([], {}))
        if (joined := _join(first, second, pairs, names)) is not None and not isinstance(joined, Add):
            rest = [term for term in node.terms if term is not first and term is not second]
            result = construct.add([*rest, joined])
            if not isinstance(result, Add) or len(result.terms) < len(node.terms):
                return result
    return None


def with_one_orientation(outputs: Sequence[Expr]) -> list[Expr]:
    """Inverses and determinants of sums that are each other's transposes as those of one: `inv(I - W')` beside
    `inv(I - W)` is its transpose, and takes no factorization of its own."""
    found = {x: None for x in topological(outputs) if isinstance(x, Apply) and x.function.factorization == "lu"}
    taken = dict.fromkeys(x.children[0] for x in found if isinstance(x.children[0], Add) and x.children[0].ndim == 2)
    turned: dict[Expr, Expr] = {}
    for matrix in taken:
        other = construct.transpose(matrix, (1, 0))
        if other is not matrix and other in taken and other not in turned:
            turned[matrix] = other

    def change(node: Expr, children: list[Expr]) -> Expr:
        if node not in found or node.children[0] not in turned:
            return with_children(node, children)
        made = with_children(node, [construct.transpose(children[0], (1, 0))])
        return construct.transpose(made, (1, 0)) if node.ndim else made

    return rebuild(outputs, change) if turned else [*outputs]


def joins(first: Expr, second: Expr) -> Iterator[Expr]:
    """The sum of two products as one, in some ways: with factors that they have in common in front. A vector among
    these may stay behind, as in `A (B x + C x)`, and any one if a product has no others."""
    ours, theirs, tried = flat(first)[1], flat(second)[1], set[frozenset[tuple[int, int]]]()
    for pairs, names in _in_common(first, second):
        is_all = len(pairs) in (len(ours), len(theirs))
        single = [pair for pair in pairs if len(pairs) > 1 and (is_all or ours[pair[0]][0].ndim == 1)]
        for found in (pairs, *([other for other in pairs if other != pair] for pair in single)):
            if frozenset(found) not in tried and (joined := _join(first, second, found, names)) is not None:
                yield joined
            tried.add(frozenset(found))


def _in_common(first: Expr, second: Expr) -> list[tuple[Pairs, Names]]:
    """The places of factors that two products have in common, and names of labels of the second one, in some ways."""
    _, ours, output, _ = flat(first)
    return list(in_common(ours, flat(second)[1], dict(zip(output, output, strict=True))))


def _join(first: Expr, second: Expr, pairs: Pairs, names: Names) -> Expr | None:
    """The sum of two products as one: what they have in common, times the sum of what is left of each, or 1."""
    a, ours, output, sizes = flat(first)
    b, theirs, output2, sizes2 = flat(second)
    if output != output2 or not pairs or len(ours) == len(pairs) == len(theirs):
        return None
    common = [ours[i] for i, _ in pairs]
    mine = _without(ours, [i for i, _ in pairs])
    names = {label: new_label(sizes, size) for label, size in sizes2.items()} | names
    other = [(node, tuple([names[x] for x in labels])) for node, labels in _without(theirs, [j for _, j in pairs])]
    outside = set(output) | _labels(common)
    joint = [sorted(_labels(rest) & outside) for rest in (mine, other) if rest]
    if joint[0] != joint[-1] or (len(joint) == 1 and not set(joint[0]).difference(output)):
        return None
    return in_front(common, [(a, mine), (b, other)], tuple(joint[0]), output, sizes)


def _labels(factors: Sequence[Factor]) -> set[int]:
    return {label for _, labels in factors for label in labels}


def _without(factors: Sequence[Factor], places: Collection[int]) -> list[Factor]:
    return [factor for place, factor in enumerate(factors) if place not in places]


def flat(term: Expr) -> tuple[Number, list[Factor], Labels, dict[int, Size]]:
    """A product with the operands of its contractions among its own factors."""
    coefficient, factors, output, sizes = parts(term)
    flat: list[Factor] = []
    for node, labels in factors:
        flat += opened(node, labels, fresh_in(sizes)) if is_contraction(node) else [(node, labels)]
    return coefficient, flat, output, sizes
