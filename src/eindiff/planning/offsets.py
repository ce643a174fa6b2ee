"""Data of which only the deviations count: `f(X + 1 c')` is `f(X)` for all c, as of covariances.

If f has deviations `D = X - 1 m'` from means by weights p, it is `f(D)`, and `p' D` is 0. So its derivatives by other
variables, in which `X g - 1 (p' X g) / sum(p)` has rounding errors of X times those of g, have D and no X in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import to_power
from eindiff.core.derivation import derivation
from eindiff.core.nodes import Add, Einsum, Expr, Variable, is_contraction, plain, topological, variables
from eindiff.core.rebuild import rebuild, substituted, with_children
from eindiff.core.sizes import Size
from eindiff.planning.deviations import Terms, flat_terms, has_means, is_mean, is_small, plus_terms, vanishes

MOST = 6  # variables and axes that are looked at


class _Centered(NamedTuple):
    """A variable, and its deviations from the means along an axis by weights: vectors, whose product counts."""

    variable: Variable
    axis: int
    weights: tuple[Expr, ...]
    deviations: Expr


def without_offsets(outputs: Sequence[Expr]) -> list[Expr]:
    """Derivatives of functions, with deviations in the place of variables of which only these count.

    What has no variable that a function has may be its derivative with values in the place of some.
    """
    inputs = {*variables(*outputs)}
    functions = list(dict.fromkeys(_function(x, inputs) for x in outputs))
    count, exprs = len(functions), [*functions, *map(plain, outputs)]
    known: list[tuple[Variable, Expr]] = []
    tried: set[tuple[Expr, int]] = set()
    while len(tried) < MOST and (found := _next(exprs[:count], tried)) is not None:
        tried.add((found.variable, found.axis))
        if all(_is_invariant(f, found.variable, found.axis) for f in exprs[:count]):
            inner = construct.placeholder(f"deviations of {found.variable.name}", found.variable.shape)
            known.append((inner, found.deviations))
            exprs = substituted(exprs, {found.variable: inner})
            exprs = _with_total_zero(exprs, found._replace(variable=inner))
    for inner, deviations in reversed(known):
        exprs = substituted(exprs, {inner: construct.sealed(deviations)})
    return exprs[count:]


def _function(output: Expr, inputs: set[Variable]) -> Expr:
    """What an output is a derivative of, if it has no other variables than outputs have; else that itself."""
    known = derivation(output)
    return plain(known.function if known.by and inputs.issuperset(variables(known.function)) else output)


def _next(functions: Sequence[Expr], tried: set[tuple[Expr, int]]) -> _Centered | None:
    """Deviations in functions that were not looked at yet."""
    nodes = [node for node in topological(functions) if isinstance(node, Add) and has_means(node)]
    found = (one for node in nodes if not node.has_delta and not node.relations for one in _deviations(node))
    return next((one for one in found if (one.variable, one.axis) not in tried), None)


def _deviations(node: Add) -> Iterator[_Centered]:
    """The variables that are terms of a sum beside their means."""
    for term in node.terms:
        coefficient, factors, output, _ = construct.parts(term)
        [(x, labels), *rest] = factors or [(term, ())]
        if not isinstance(x, Variable) or x.properties or rest or sorted(labels) != sorted(output):
            continue
        if (inverse := to_power(coefficient, -1)) is None:
            continue
        order = tuple([output.index(label) for label in labels])
        for mean in node.terms:
            for at in (k for k in range(node.ndim) if is_mean(mean, k)):
                weights = _weights(mean, x, labels.index(output[at]))
                whole = construct.add([term, mean])
                if weights is not None and _is_zero_in_total(whole, at, weights):
                    deviations = construct.transpose(construct.scale(inverse, whole), order)
                    yield _Centered(x, labels.index(output[at]), weights, deviations)


def _is_zero_in_total(whole: Expr, axis: int, weights: tuple[Expr, ...]) -> bool:
    """Whether a sum, or one with its axes in another order, is 0 in total along an axis."""
    _, factors, output, _ = construct.parts(whole)
    [(total, labels), *rest] = factors or [(whole, ())]
    return isinstance(total, Add) and not rest and vanishes(total, labels.index(output[axis]), weights)


def _weights(mean: Expr, x: Expr, axis: int) -> tuple[Expr, ...] | None:
    """What the entries of a variable along an axis have been multiplied with in a mean; None if it is none of it."""
    for total in filter(is_contraction, mean.children):
        for operand, labels in zip(total.operands, total.labels, strict=True):
            if operand is x and labels[axis] not in total.output:
                beside = [(y, own) for y, own in zip(total.operands, total.labels, strict=True) if y is not x]
                if all(own == (labels[axis],) for _, own in beside):
                    return tuple([y for y, _ in beside])
    return None


def _is_invariant(f: Expr, x: Variable, axis: int) -> bool:
    """Whether a function has the same value if a number is added to all entries of a variable along an axis, one for
    each place along the other axes: what that adds to its nodes is 0, wherever they are not linear in it."""
    order = tuple(range(x.ndim))
    kept = tuple([label for label in order if label != axis])
    number = construct.placeholder("an offset", tuple([x.shape[label] for label in kept]))
    added: dict[Expr, Expr] = {x: construct.einsum(1, [(number, kept)], order, dict(enumerate(x.shape)))}
    for node in topological([f]):
        if not added.keys().isdisjoint(node.children):
            whole = _added(node, added)
            if whole is None or not is_small([whole]):
                return False
            if _terms(whole, x.shape[axis]):
                added[node] = whole
    return plain(f) not in added


def _added(node: Expr, added: Mapping[Expr, Expr]) -> Expr | None:
    """What is added to a node where something is added to its children; None if it is not linear in that."""
    moved = [child for child in node.children if child in added]
    if isinstance(node, Add):
        return construct.add([added[child] for child in moved])
    if isinstance(node, Einsum) and len(moved) == 1:
        return with_children(node, [added.get(child, child) for child in node.children])
    return None


def _terms(whole: Expr, size: Size) -> Terms:
    """The terms of an expression multiplied out; none if it is 0."""
    return {} if construct.is_zero(whole) else plus_terms({}, flat_terms(whole, size))


def _with_total_zero(exprs: Sequence[Expr], found: _Centered) -> list[Expr]:
    """Expressions in which the totals of deviations with their weights are 0."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        return construct.filled(0, made.shape) if is_contraction(made) and _is_total(made, found) else made

    return rebuild(exprs, change)


def _is_total(node: Einsum, found: _Centered) -> bool:
    factors = list(zip(node.operands, node.labels, strict=True))
    for place, (x, labels) in enumerate(factors):
        label = labels[found.axis] if x is found.variable else None
        if label is not None and label not in node.output and labels.count(label) == 1:
            beside = [factor for k, factor in enumerate(factors) if k != place and label in factor[1]]
            if all(own == (label,) for _, own in beside) and Counter(y for y, _ in beside) == Counter(found.weights):
                return True
    return False
