"""Simplification on demand: rules that make an expression shorter, but not always cheaper or easier to derive."""

from __future__ import annotations

from itertools import combinations

from eindiff import construct
from eindiff.construct import Factor, parts
from eindiff.expr import Add, Einsum, Expr, Map, Number
from eindiff.labels import Labels
from eindiff.order import rebuild, with_children
from eindiff.rewrite import rewrite, rule
from eindiff.sizes import Size


def simplify(expr: Expr) -> Expr:
    """An expression with common factors of contractions taken out of sums and exponentials combined.

    >>> from eindiff import exp, matrix, vector
    >>> A, x, y = matrix("A", "m", "n"), vector("x", "n"), vector("y", "n")
    >>> simplify(A @ x + A @ y) is A @ (x + y), simplify(exp(x) * exp(y)) is exp(x + y)
    (True, True)
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        node = with_children(node, children, inline=True)
        while (better := rewrite("simplify", node)) is not None:
            node = better
        return node

    while (better := rebuild([expr], change)[0]) is not expr:
        expr = better
    return expr


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
    """A x + A y = A (x + y), for any two products that differ in one factor (Lemma 3). One term less."""
    if not isinstance(node, Add):
        return None
    for first, second in combinations(node.terms, 2):
        if (joined := _join(first, second)) is not None:
            rest = [term for term in node.terms if term is not first and term is not second]
            return construct.add([*rest, joined])
    return None


def _join(first: Expr, second: Expr) -> Expr | None:
    """The sum of two products as one, if they are the same but for one factor."""
    (a, one), (b, other) = _without_one(first), _without_one(second)
    for context, factor in one:
        for context2, factor2 in other:
            if context is context2 and factor.shape == factor2.shape:
                inner = construct.add([construct.scale(a, factor), construct.scale(b, factor2)])
                return _contract(context, inner)
    return None


def _without_one(term: Expr) -> tuple[Number, list[tuple[Expr, Expr]]]:
    """The coefficient; and each factor with what the rest is, a tensor whose last axes meet the factor's."""
    coefficient, factors, output, sizes = _flat(term)
    pairs = []
    for k, (factor, labels) in enumerate(factors):
        rest = factors[:k] + factors[k + 1 :]
        if rest:
            pairs.append((construct.einsum(1, rest, output + labels, sizes), factor))
    return coefficient, pairs


def _flat(term: Expr) -> tuple[Number, list[Factor], Labels, dict[int, Size]]:
    """A product with the operands of its contractions among its own factors."""
    coefficient, factors, output, sizes = parts(term)
    flat: list[Factor] = []
    for node, labels in factors:
        if not isinstance(node, Einsum):
            flat.append((node, labels))
            continue
        names = dict(zip(node.output, labels, strict=True))
        for label in node.contracted:
            names[label] = len(sizes)
            sizes[len(sizes)] = node.sizes[label]
        inner = zip(node.operands, node.labels, strict=True)
        flat += [(operand, tuple([names[x] for x in ls])) for operand, ls in inner]
    return coefficient, flat, output, sizes


def _contract(context: Expr, factor: Expr) -> Expr:
    """A tensor contracted over its last axes with all of a factor's."""
    labels = tuple(range(context.ndim))
    split = context.ndim - factor.ndim
    factors = [(context, labels), (factor, labels[split:])]
    return construct.einsum(1, factors, labels[:split], dict(enumerate(context.shape)))
