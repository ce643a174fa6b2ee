"""Simplification on demand: rules that make an expression shorter, but not always cheaper or easier to derive."""

from __future__ import annotations

from itertools import combinations

from eindiff.core import construct
from eindiff.core.construct import Factor, parts
from eindiff.core.derivation import same_derivative
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr, Map, Number, plain
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.rewrite import rewrite, rule
from eindiff.core.sizes import Size


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
        if (joined := _join(first, second)) is not None and not isinstance(joined, Add):
            rest = [term for term in node.terms if term is not first and term is not second]
            result = construct.add([*rest, joined])
            if not isinstance(result, Add) or len(result.terms) < len(node.terms):
                return result
    return None


def _join(first: Expr, second: Expr) -> Expr | None:
    """The sum of two products as one: what they have in common, times the sum of what is left of each."""
    a, ours, output, sizes = _flat(first)
    b, theirs, output2, sizes2 = _flat(second)
    if output != output2:
        return None
    names = _common(ours, theirs, set(output))
    if names is None:
        return None
    pairs, renamed = names
    common = [ours[i] for i, _ in pairs]
    mine = [factor for i, factor in enumerate(ours) if i not in {i for i, _ in pairs}]
    fresh = {label: len(sizes) + label for label in sizes2}
    sizes |= {fresh[label]: size for label, size in sizes2.items()}
    other = [
        (node, tuple([renamed.get(x, fresh[x]) for x in labels]))
        for j, (node, labels) in enumerate(theirs) if j not in {j for _, j in pairs}
    ]  # fmt: skip
    seen = set(output).union(*(labels for _, labels in common))
    joint = [sorted({x for _, labels in rest for x in labels} & seen) for rest in (mine, other)]
    if not mine or not other or joint[0] != joint[1]:
        return None
    boundary = tuple(joint[0])
    inner = construct.add([construct.einsum(a, mine, boundary, sizes), construct.einsum(b, other, boundary, sizes)])
    return construct.einsum(1, [*common, (inner, boundary)], output, sizes)


def _common(
    ours: list[Factor], theirs: list[Factor], fixed: set[int]
) -> tuple[list[tuple[int, int]], dict[int, int]] | None:
    """The most factors that two products share under one naming of labels: pairs of places, and our names of theirs.

    Labels of the output keep their names. Each pair of equal factors is tried as a beginning, and extended as it comes.
    """
    best: tuple[list[tuple[int, int]], dict[int, int]] | None = None
    places = [(i, j) for i, (x, _) in enumerate(ours) for j, (y, _) in enumerate(theirs) if x is y]
    for start in places:
        pairs: list[tuple[int, int]] = []
        names = {label: label for label in fixed}
        for i, j in [start, *places]:
            if any(i == k or j == l for k, l in pairs):
                continue
            if (extended := _matched(names, ours[i], theirs[j])) is not None:
                pairs.append((i, j))
                names = extended
        if pairs and (best is None or len(pairs) > len(best[0])):
            best = pairs, names
    return best


def _matched(names: dict[int, int], ours: Factor, theirs: Factor) -> dict[int, int] | None:
    """Names of their labels with those of one more factor, if its axes fit, as they are or by a symmetry."""
    turned = [theirs[1], *(tuple([theirs[1][a] for a in p]) for p, sign in theirs[0].symmetries if sign == 1)]
    for labels in turned:
        extended = dict(names)
        for mine, other in zip(ours[1], labels, strict=True):
            if extended.setdefault(other, mine) != mine:
                break
        else:
            if len(set(extended.values())) == len(extended):
                return extended
    return None


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
