"""An expression as a sum of patterns: factors that are cheap to store and to multiply with, and where they go.

Patterns are symbolic; their factors are compiled like any other expressions, and then they are the terms of a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, permutations
from math import prod
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.groups import grouped
from eindiff.core.labels import Labels, components
from eindiff.core.networks import Factor, fresh_in, matches, opened
from eindiff.core.nodes import Add, Einsum, Expr, Number, is_contraction, is_index_map, is_inverse
from eindiff.core.sizes import Size
from eindiff.planning import factoring, tuning
from eindiff.planning.contraction_order import contraction_path, path_flops
from eindiff.planning.factoring import is_outer
from eindiff.structure.coordinates import MOST_MULTIPLIED_OUT, TermNetwork, multiplied_out
from eindiff.structure.related import Related

FORMED_WHOLE = 1024  # entries, of which a whole is formed only if it has fewer than its parts
WHOLE = 2  # times the size of its factors that the values of a pattern may have, to be one array


@dataclass(frozen=True, slots=True)
class Pattern:
    """`coefficient * product of factors`, summed over what the output does not have; a label there twice is a delta.

    A label of the output that is the first one of a place, an index map, is a function of the others of that place.
    """

    coefficient: Number
    factors: tuple[Factor, ...]
    output: Labels
    sizes: dict[int, Size]
    places: tuple[Factor, ...] = ()

    def inner(self, labels: Labels) -> Labels:
        """The labels that some axes are made of, each once."""
        sources = {own[0]: own[1:] for _, own in self.places}
        return tuple(dict.fromkeys(x for label in labels for x in sources.get(label, (label,))))

    @property
    def halves(self) -> tuple[Labels, Labels]:
        """The labels of rows and columns, if half of the axes are rows."""
        half = len(self.output) // 2
        return self.inner(self.output[:half]), self.inner(self.output[half:])


def decompose(expr: Expr, sizes: Mapping[str, int]) -> list[Pattern]:
    """An expression as patterns, for the given sizes."""
    [expr] = factoring.without_kept([expr])
    terms = _summands(expr)
    related, rest = _with_places(terms, sizes)
    patterns: list[Pattern] = []
    for term in rest:
        choices = [[_pattern(part) for part in parts] for parts in ([term], _spread(term)) if parts]
        patterns += min(choices, key=lambda choice: sum(_cost(_multiplied(x, sizes), sizes) for x in choice))
    patterns = _joined(_added_up(patterns), sizes)
    found = _added_up([_multiplied(pattern, sizes) for pattern in patterns])
    found += _added_at_places(related, sizes)
    return found if _is_smaller(found, expr, sizes) else [_whole(construct.add(terms))]


def _summands(expr: Expr) -> list[Expr]:
    return [x for x in (expr.terms if isinstance(expr, Add) else (expr,)) if not construct.is_zero(x)]


def _is_smaller(patterns: Sequence[Pattern], expr: Expr, sizes: Mapping[str, int]) -> bool:
    """Whether the factors of patterns have no more entries than the whole, unless that is small."""
    whole = prod(sz.evaluate(size, sizes) for size in expr.shape)
    factors = {node: _lengths_of(x, labels, sizes) for x in patterns for node, labels in x.factors}
    return sum(factors.values()) <= max(whole, FORMED_WHOLE)


def _whole(expr: Expr) -> Pattern:
    axes = tuple(range(expr.ndim))
    return Pattern(1, ((expr, axes),), axes, dict(enumerate(expr.shape)))


# Terms with coordinates


def _with_places(terms: Sequence[Expr], sizes: Mapping[str, int]) -> tuple[list[Pattern], list[Expr]]:
    """The parts of terms whose axes are reached through index maps, and the others; all if these are too many."""
    known = Related(sizes)
    parts: dict[Expr, list[TermNetwork]] = {}
    for term in terms:
        if known.axes(term):
            axes = tuple(range(term.ndim))
            network = TermNetwork(1, ((term, axes),), axes, dict(enumerate(term.shape)))
            found = multiplied_out(network, sizes, known, MOST_MULTIPLIED_OUT - sum(map(len, parts.values())))
            if found is None:
                return [], list(terms)
            parts[term] = found
    patterns: list[Pattern] = []
    rest: list[Expr] = []
    for term in terms:
        networks = parts.get(term, [])
        with_places = [one for one in networks if one.places]
        axes = tuple(range(term.ndim))
        if term not in parts or (networks and all(not x.places and x.output == axes for x in networks)):
            rest.append(term)
            continue
        patterns += [Pattern(x.coefficient, x.factors, x.output, x.sizes, x.places) for x in with_places]
        whole = [
            construct.einsum(one.coefficient, one.factors, one.output, one.sizes, inline=False)
            for one in networks
            if not one.places
        ]
        rest += _summands(construct.add(whole)) if whole else []
    return patterns, rest


def _added_at_places(patterns: Sequence[Pattern], sizes: Mapping[str, int]) -> list[Pattern]:
    """Patterns with places: the values of those that go to the same places are added up, where that is not larger."""
    groups: dict[tuple, list[Pattern]] = {}
    for pattern in patterns:
        pattern = _multiplied(pattern, sizes)
        inner = pattern.inner(pattern.output)
        names = {label: k for k, label in enumerate(inner)}
        places = {own[0]: (node, tuple([names[x] for x in own[1:]])) for node, own in pattern.places}
        key = (*(places.get(x) or names[x] for x in pattern.output), *(pattern.sizes[x] for x in inner))
        groups.setdefault(key, []).append(pattern)
    found: list[Pattern] = []
    for group in groups.values():
        lengths = _lengths(group[0], sizes)
        whole = prod(lengths[x] for x in group[0].inner(group[0].output))
        parts = sum(1 + sum(_lengths_of(x, labels, sizes) for _, labels in x.factors) for x in group)
        found += _total(group) if whole <= WHOLE * parts or not any(x.factors for x in group) else group
    return found


def _lengths_of(pattern: Pattern, labels: Labels, sizes: Mapping[str, int]) -> int:
    return prod(sz.evaluate(pattern.sizes[x], sizes) for x in labels)


def _total(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Patterns that go to the same places as one, if it is not zero."""
    first = patterns[0]
    values = construct.add([
        construct.einsum(x.coefficient, x.factors, x.inner(x.output), x.sizes, inline=False) for x in patterns
    ])  # fmt: skip
    inner = first.inner(first.output)
    if construct.is_number(values):
        return [replace(first, coefficient=values.coefficient, factors=())] if values.coefficient else []
    return [replace(first, coefficient=1, factors=((values, inner),))]


def _spread(term: Expr) -> list[Expr]:
    """A product over a sum of outer products, multiplied out; nothing if a term is no such product."""
    if isinstance(term, Einsum) and term.is_product:
        for place, operand in enumerate(term.operands):
            if isinstance(operand, Add) and operand.ndim > 2 and any(is_outer(part) for part in operand.terms):
                return factoring.multiplied_out(term, place)
    return []


def _pattern(term: Expr) -> Pattern:
    """A term with the contractions in it opened."""
    if not isinstance(term, Einsum):
        axes = tuple(range(term.ndim))
        return Pattern(1, ((term, axes),), axes, dict(enumerate(term.shape)))
    sizes: dict[int, Size] = dict(enumerate(term.sizes))
    factors: list[Factor] = []
    for operand, labels in term.factors:
        if is_contraction(operand) and len(set(labels)) == len(labels):
            factors += opened(operand, labels, fresh_in(sizes))
        else:
            factors.append((operand, labels))
    return Pattern(term.coefficient, tuple(factors), term.output, sizes)


def inverted(factor: Expr) -> Expr | None:
    """The matrix that a factor is the inverse of: systems with inverses are solved by what is inverted."""
    if is_inverse(factor) and factor.args[0].ndim == factor.ndim:
        return factor.args[0]
    return None


# Terms with all but one factor in common


def _added_up(patterns: list[Pattern]) -> list[Pattern]:
    """Patterns of which each two that differ in one factor only are one, with the sum of these factors.

    `Σ_b x_b x_b' ⊗ M_b + Σ_b x_b x_b' ⊗ diag(d_b)` is `Σ_b x_b x_b' ⊗ (M_b + diag(d_b))`, `I ⊗ A + μ I ⊗ I` is
    `I ⊗ (A + μ I)`.
    """
    if len(patterns) > tuning.PATTERNS_LIMIT:
        return patterns
    done: list[Pattern] = []
    for pattern in patterns:
        for k, other in enumerate(done):
            if (total := _sum(pattern, other) or _sum(other, pattern)) is not None:
                done[k] = total
                break
        else:
            done.append(pattern)
    return done if len(done) == len(patterns) else _added_up(done)


def _joined(patterns: list[Pattern], sizes: Mapping[str, int]) -> list[Pattern]:
    """Patterns of which one has a sum that would be formed, and that differ in a few factors, are one with these
    multiplied, if it is cheaper to make and use.

    `Σ_b x_b x_b' ⊗ diag(p_b) - Σ_b x_b x_b' ⊗ p_b p_b'` is `Σ_b x_b x_b' ⊗ M_b`.
    """
    if len(patterns) > tuning.JOINED_LIMIT:
        return patterns
    alone = {id(x): _groups(x, sizes) for x in patterns}
    for one, other in permutations(patterns, 2):
        parts = [(x, alone[id(x)]) for x in (one, other)]
        if not any(_forms_sum(pattern, groups) for pattern, groups in parts):
            continue
        apart = sum(_cost_of_all(pattern, groups, sizes) for pattern, groups in parts)
        for groups in _with_some_multiplied(one, alone[id(one)]):
            total = _sum(_grouped(one, groups), other)
            if total is None:
                continue
            cost = _making(one, groups, sizes) + _cost_of_all(total, _groups(total, sizes), sizes)
            if cost < apart:
                return _joined([*(x for x in patterns if x is not one and x is not other), total], sizes)
    return patterns


def _forms_sum(pattern: Pattern, groups: Sequence[Sequence[Factor]]) -> bool:
    """Whether something is summed over when groups of factors of a pattern are multiplied."""
    before, after = [{label for _, own in x.factors for label in own} for x in (pattern, _grouped(pattern, groups))]
    return before != after and not pattern.places


def _with_some_multiplied(pattern: Pattern, groups: list[list[Factor]]) -> Iterator[list[list[Factor]]]:
    """The factors of a pattern in groups, of which one has two factors; and those that are multiplied anyway."""
    if any(is_index_map(node) for node, _ in pattern.factors):
        return
    for pair in combinations(range(len(pattern.factors)), 2):
        yield [*([x] for k, x in enumerate(pattern.factors) if k not in pair), [pattern.factors[k] for k in pair]]
    yield groups


def _sum(one: Pattern, other: Pattern) -> Pattern | None:
    """One pattern with another one added to one of its factors; that one may have more deltas."""
    names: dict[int, int] = {}
    for mine, theirs in zip(one.output, other.output, strict=True):
        if names.setdefault(mine, theirs) != theirs:
            return None
    nodes = Counter(node for node, _ in one.factors)
    for k, (node, _) in enumerate(one.factors):
        rest = [factor for i, factor in enumerate(one.factors) if i != k]
        if is_index_map(node) or (nodes - Counter([node])) - Counter(x for x, _ in other.factors):
            continue
        for places, known in matches(rest, other.factors, names, other.output):
            left = [factor for place, factor in enumerate(other.factors) if place not in places]
            if (added := _added(one, k, other, left, known)) is not None:
                return added
    return None


def _added(one: Pattern, k: int, other: Pattern, left: list[Factor], names: dict[int, int]) -> Pattern | None:
    """The pattern with what is left of another one added to factor k, if that has all labels that it needs."""
    node, labels = one.factors[k]
    if any(is_index_map(x) for x, _ in left) or any(inverted(x) is not None for x, _ in [*left, one.factors[k]]):
        return None
    if not _has_labels(labels, one.output, left, names):
        return None
    place = tuple([names[label] for label in labels])
    added = construct.einsum(other.coefficient, left, place, other.sizes, inline=False)
    own = construct.scale(one.coefficient, node)
    factors = (*one.factors[:k], (construct.add([own, added]), labels), *one.factors[k + 1 :])
    return Pattern(1, factors, one.output, one.sizes)


def _has_labels(labels: Labels, output: Labels, left: list[Factor], names: dict[int, int]) -> bool:
    """Whether a factor with these labels, once each, has all that others need which are added to it."""
    if len(set(labels)) < len(labels) or not set(labels) <= set(names):  # over some only this factor is summed
        return False
    same = Counter(names[label] for label in set(output) | set(names))
    elsewhere = [label for label in names if label not in labels]
    if any(same[names[label]] > 1 for label in elsewhere):
        return False
    hidden = {names[label] for label in elsewhere} - {names[label] for label in labels}
    return not any(hidden & set(own) for _, own in left)


# Which factors are multiplied


def _multiplied(pattern: Pattern, sizes: Mapping[str, int]) -> Pattern:
    """A pattern with those factors multiplied that are cheaper to use so."""
    return _grouped(pattern, _groups(pattern, sizes))


def _groups(pattern: Pattern, sizes: Mapping[str, int]) -> list[list[Factor]]:
    """The factors of a pattern, those together that are cheaper to use as one."""
    groups = [[factor] for factor in pattern.factors]
    if any(is_index_map(node) for node, _ in pattern.factors):
        groups = _gathered(pattern) if pattern.places else [list(pattern.factors)]
    return _merged(groups, pattern.halves, _lengths(pattern, sizes))


def _grouped(pattern: Pattern, groups: Sequence[Sequence[Factor]]) -> Pattern:
    """A pattern with each group of factors as one."""
    output = pattern.inner(pattern.output)
    return replace(pattern, factors=tuple([_product(group, groups, output, pattern.sizes) for group in groups]))


def _gathered(pattern: Pattern) -> list[list[Factor]]:
    """Factors with the index maps that they are read or added up through: those share labels that are summed over."""
    inner = set(pattern.inner(pattern.output))
    summed = {x for node, labels in pattern.factors if is_index_map(node) for x in labels} - inner
    groups = components([[x for x in labels if x in summed] for _, labels in pattern.factors])
    return [[pattern.factors[k] for k in group] for group in groups]


def _kept(
    group: Sequence[tuple[Any, Labels]], groups: Sequence[Sequence[tuple[Any, Labels]]], output: Labels
) -> Labels:
    """The labels that the product of some factors keeps: those of the output and of the other factors."""
    outside = set(output).union(*(labels for other in groups if other is not group for _, labels in other))
    own = dict.fromkeys(label for _, labels in group for label in labels)
    return tuple(sorted([x for x in own if x in outside], key=lambda x: output.index(x) if x in output else -1))


def _product(group: Sequence[Factor], groups: Sequence[Sequence[Factor]], output: Labels, sizes: dict) -> Factor:
    """The product of some factors as one expression."""
    kept = _kept(group, groups, output)
    if len(group) == 1 and sorted(group[0][1]) == sorted(kept):
        return group[0]
    return construct.einsum(1, list(group), kept, sizes, inline=False), kept


def _merged(groups: list[list[Factor]], halves: tuple[Labels, Labels], sizes: Mapping[int, int]) -> list[list[Factor]]:
    """Factors are multiplied, two or all that share a label, as long as that makes the tensor cheaper to use."""
    names: dict[int, int] = {}

    def named(labels: Labels) -> Labels:
        return tuple([names.setdefault(x, len(names)) for x in labels])

    own = tuple([tuple([named(labels) for _, labels in group]) for group in groups])
    rows, columns = named(halves[0]), named(halves[1])
    chosen = _grouping(own, (rows, columns), tuple([sizes[x] for x in names]))
    return [[factor for k in choice for factor in groups[k]] for choice in chosen]


@lru_cache(1024)
def _grouping(
    own: tuple[tuple[Labels, ...], ...], halves: tuple[Labels, Labels], sizes: tuple[int, ...]
) -> list[list[int]]:
    """Which groups of factors are multiplied: it depends on labels alone, and many terms have the same."""
    groups = [[(k, labels) for labels in group] for k, group in enumerate(own)]
    lengths = dict(enumerate(sizes))
    best = _use(groups, halves, lengths)
    while len(groups) > 1:
        cost, joined = min(
            [(_use(joined, halves, lengths), joined) for joined in _next_groupings(groups)], key=lambda one: one[0]
        )
        if cost > best:
            break
        best, groups = cost, joined
    return [list(dict.fromkeys(k for k, _ in group)) for group in groups]


def _next_groupings(groups: list[list]) -> Iterator[list[list]]:
    """Groups of factors with two of them, or all that share a label, made one."""
    having = grouped((x, k) for k, group in enumerate(groups) for x in {x for _, labels in group for x in labels})
    for choice in sorted({*combinations(range(len(groups)), 2), *map(tuple, having.values())}):
        if len(choice) > 1:
            rest = [group for k, group in enumerate(groups) if k not in choice]
            yield [[factor for k in choice for factor in groups[k]], *rest]


def _cost_of_all(pattern: Pattern, groups: Sequence[Sequence[Factor]], sizes: Mapping[str, int]) -> float:
    """Operations of multiplying groups of factors, and of using the pattern some times."""
    return _making(pattern, groups, sizes) + tuning.USES * _cost(_grouped(pattern, groups), sizes)


def _making(pattern: Pattern, groups: Sequence[Sequence[Factor]], sizes: Mapping[str, int]) -> float:
    """Operations of multiplying groups of factors."""
    lengths, output = _lengths(pattern, sizes), pattern.inner(pattern.output)
    return sum(
        _flops([labels for _, labels in group], _kept(group, groups, output), lengths)
        for group in groups
        if len(group) > 1
    )


def _flops(inputs: list[Labels], result: Labels, sizes: Mapping[int, int]) -> float:
    """Operations of a contraction."""
    path = contraction_path(inputs, result, sizes, "auto" if len(inputs) <= tuning.EXACT_LIMIT else "tensor_order")
    return path_flops(inputs, result, sizes, path)


def _cost(pattern: Pattern, sizes: Mapping[str, int]) -> float:
    return _use([[factor] for factor in pattern.factors], pattern.halves, _lengths(pattern, sizes))


def _lengths(pattern: Pattern, sizes: Mapping[str, int]) -> dict[int, int]:
    return {label: sz.evaluate(size, sizes) for label, size in pattern.sizes.items()}


def _use(
    groups: Sequence[Sequence[tuple[Any, Labels]]], halves: tuple[Labels, Labels], sizes: Mapping[int, int]
) -> float:
    """Operations of a product with the tensor along the last half of its axes, and of reading its factors."""
    rows, columns = halves
    kept = [_kept(group, groups, rows + columns) for group in groups]
    bound = {label for labels in kept for label in labels}
    result = tuple([label for label in dict.fromkeys(rows) if label in bound | set(columns)])
    return _flops([*kept, columns], result, sizes) + sum(float(prod(sizes[x] for x in labels)) for labels in kept)
