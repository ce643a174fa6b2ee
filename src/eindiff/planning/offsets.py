"""Data of which only the deviations count: `f(X + 1 c')` is `f(X)` for all c, as of covariances and distances.

If f has deviations `D = X - 1 m'` from means by weights p, it is `f(D)`, and `p' D` is 0. So its derivatives by other
variables, in which `X g - 1 (p' X g) / sum(p)` has rounding errors of X times those of g, have D and no X in them.
If it has differences of rows, it is `f(D)` with the differences from the first row, which are as exact as those: they
are in products of derivatives that have X itself there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import to_power
from eindiff.core.derivation import derivation
from eindiff.core.nodes import Add, Einsum, Expr, Variable, is_contraction, is_index_map, plain, topological, variables
from eindiff.core.rebuild import rebuild, substituted, with_children
from eindiff.core.sizes import Size
from eindiff.functions.indexing import getitem
from eindiff.planning.deviations import (
    Terms,
    flat_terms,
    has_means,
    is_mean,
    is_small,
    plus_terms,
    vanishes,
    weights_of,
)

LOOKED_AT = 6  # variables and axes that are looked at
Named = Mapping[Expr, Expr]  # variables, and what they stand for
UNNAMED: Named = MappingProxyType({})
Passes = Callable[[Einsum, int], bool]  # of products, where something is added to so many of their factors


class _Centered(NamedTuple):
    """A variable, and its deviations from the means along an axis by weights: vectors, whose product counts. Without
    weights, not even none, its differences from what is first along the axis."""

    variable: Variable
    axis: int
    weights: tuple[Expr, ...] | None
    deviations: Expr


def without_offsets(outputs: Sequence[Expr], evaluate: Callable[[Size], int]) -> tuple[list[Expr], Named]:
    """Derivatives of functions, with deviations in the place of variables of which only these count; and what variables
    in them stand for. Sizes have values.

    What has no variable that a function has may be its derivative with values in the place of some.
    """
    inputs = {*variables(*outputs)}
    functions = list(dict.fromkeys(f for x in outputs for f in _functions(x, inputs)))
    count, exprs = len(functions), [*functions, *map(plain, outputs)]
    known: list[tuple[Variable, Expr]] = []
    named: dict[Expr, Expr] = {}
    tried: set[tuple[Expr, int]] = set()
    while len(tried) < LOOKED_AT and (found := _next(exprs[:count], tried, evaluate)) is not None:
        tried.add((found.variable, found.axis))
        if _has_less(exprs[:count], exprs[count:], found):
            kind = "deviations" if found.weights is not None else "differences"
            inner = construct.placeholder(f"{kind} of {found.variable.name}", found.variable.shape)
            exprs = substituted(exprs, {found.variable: inner})
            tried.add((inner, found.axis))
            if found.weights is None:
                named[inner] = found.deviations
            else:
                known.append((inner, found.deviations))
                exprs = _with_total_zero(exprs, inner, found.axis, found.weights)
    for inner, deviations in reversed(known):
        exprs = substituted(exprs, {inner: construct.sealed(deviations)})
        named = dict(zip(named, substituted([*named.values()], {inner: construct.sealed(deviations)}), strict=True))
    return exprs[count:], named


def _functions(output: Expr, inputs: set[Variable]) -> list[Expr]:
    """What an output is a derivative of, or made of, if outputs have all its variables; else that itself."""
    known = derivation(output)
    functions = [plain(x) for x in (known.sources[:1] if known.by else known.sources)]
    return functions if inputs.issuperset(variables(*functions)) else [plain(output)]


def _has_less(functions: Sequence[Expr], outputs: Sequence[Expr], found: _Centered) -> bool:
    """Whether only the deviations of a variable count in functions, and outputs have others."""
    x, axis = found.variable, found.axis
    if not all(_is_invariant(f, x, axis, _is_linear) for f in functions):
        return False
    return found.weights is not None or not all(_is_invariant(y, x, axis, _is_alone) for y in outputs)


def _next(
    functions: Sequence[Expr], tried: set[tuple[Expr, int]], evaluate: Callable[[Size], int]
) -> _Centered | None:
    """Deviations in functions that were not looked at yet."""
    sums = [node for node in topological(functions) if isinstance(node, Add)]
    centered = [node for node in sums if has_means(node) and not node.has_delta and not node.relations]
    found = chain((one for node in centered for one in _deviations(node)), _differences(sums, evaluate))
    return next((one for one in found if (one.variable, one.axis) not in tried), None)


def _differences(sums: Sequence[Add], evaluate: Callable[[Size], int]) -> Iterator[_Centered]:
    """The variables that are terms of a sum with both signs."""
    for node in sums:
        signs: dict[Variable, set[bool]] = {}
        for term in node.terms:
            coefficient, factors, _, _ = construct.parts(term)
            inside = [y for x, _ in factors for y in (x.operands if is_contraction(x) else [x])]
            read = [y for y in inside if not is_index_map(y)]
            if len(read) == 1 and isinstance(read[0], Variable):
                signs.setdefault(read[0], set()).add(float(coefficient) > 0)
        for x in (x for x, found in signs.items() if len(found) > 1 and not x.properties and x.into is None):
            for axis in (axis for axis, size in enumerate(x.shape) if evaluate(size) > 1):
                yield _Centered(x, axis, None, _from_first(x, axis))


def _from_first(x: Variable, axis: int) -> Expr:
    """The differences of the entries of a variable from the first ones along an axis."""
    order = tuple(range(x.ndim))
    first = getitem(x, (*[slice(None)] * axis, 0))
    repeated = construct.einsum(-1, [(first, (*order[:axis], *order[axis + 1 :]))], order, dict(enumerate(x.shape)))
    return construct.add([x, repeated])


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
                weights = weights_of(mean, x, labels.index(output[at]))
                whole = construct.add([term, mean])
                if weights is not None and _is_zero_in_total(whole, at, weights):
                    deviations = construct.transpose(construct.scale(inverse, whole), order)
                    yield _Centered(x, labels.index(output[at]), weights, deviations)


def _is_zero_in_total(whole: Expr, axis: int, weights: tuple[Expr, ...]) -> bool:
    """Whether a sum, or one with its axes in another order, is 0 in total along an axis."""
    _, factors, output, _ = construct.parts(whole)
    [(total, labels), *rest] = factors or [(whole, ())]
    return isinstance(total, Add) and not rest and vanishes(total, labels.index(output[axis]), weights)


def _is_invariant(f: Expr, x: Variable, axis: int, passes: Passes) -> bool:
    """Whether an expression has the same value if a number is added to all entries of a variable along an axis, one for
    each place along the other axes: what that adds to its nodes is 0, but to sums and to products that it passes."""
    order = tuple(range(x.ndim))
    kept = tuple([label for label in order if label != axis])
    number = construct.placeholder("an offset", tuple([x.shape[label] for label in kept]))
    added: dict[Expr, Expr] = {x: construct.einsum(1, [(number, kept)], order, dict(enumerate(x.shape)))}
    for node in topological([f]):
        if not added.keys().isdisjoint(node.children):
            whole = _added(node, added, passes)
            if whole is None or not is_small([whole]):
                return False
            if _terms(whole, x.shape[axis]):
                added[node] = whole
    return plain(f) not in added


def _added(node: Expr, added: Mapping[Expr, Expr], passes: Passes) -> Expr | None:
    """What is added to a node where something is added to its children; None if it does not pass."""
    moved = [child for child in node.children if child in added]
    if isinstance(node, Add):
        return construct.add([added[child] for child in moved])
    if isinstance(node, Einsum) and passes(node, len(moved)):
        return with_children(node, [added.get(child, child) for child in node.children])
    return None


def _is_linear(node: Einsum, count: int) -> bool:
    return count == 1


def _is_alone(node: Einsum, count: int) -> bool:
    """Whether nothing is multiplied with what an offset is added to: it is read at some places, or repeated."""
    return count == 1 and sum(not is_index_map(child) for child in node.children) == 1 and not _adds_up(node)


def _adds_up(node: Einsum) -> bool:
    return is_contraction(node) and not any(map(is_index_map, node.children))


def _terms(whole: Expr, size: Size) -> Terms:
    """The terms of an expression multiplied out; none if it is 0."""
    return {} if construct.is_zero(whole) else plus_terms({}, flat_terms(whole, size))


def _with_total_zero(exprs: Sequence[Expr], inner: Expr, axis: int, weights: tuple[Expr, ...]) -> list[Expr]:
    """Expressions in which the totals of deviations with their weights are 0."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        is_total = is_contraction(made) and _is_total(made, inner, axis, weights)
        return construct.filled(0, made.shape) if is_total else made

    return rebuild(exprs, change)


def _is_total(node: Einsum, inner: Expr, axis: int, weights: tuple[Expr, ...]) -> bool:
    factors = list(zip(node.operands, node.labels, strict=True))
    for place, (x, labels) in enumerate(factors):
        label = labels[axis] if x is inner else None
        if label is not None and label not in node.output and labels.count(label) == 1:
            beside = [factor for k, factor in enumerate(factors) if k != place and label in factor[1]]
            if all(own == (label,) for _, own in beside) and Counter(y for y, _ in beside) == Counter(weights):
                return True
    return False
