"""Deviations from means: sums like `x - mean(x)` that are 0 in total, and products with them.

In `(X - 1 m')' diag(p) X`, where m are means by the weights p, rounding errors of the means meet all of X: where that
is large beside its deviations, few digits are right. `(X - 1 m')' diag(p) (X - 1 m')` is the same, as `(X - 1 m')' p`
is 0, and has the errors of deviations. Where there are no deviations on the other side, as in `X' (z - 1 mean(z))`,
programs take the mean of what they computed away once more: then it is 0 in total up to its own size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, combinations, permutations
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import Number, plus, ratio
from eindiff.core.einsums import product
from eindiff.core.labels import Labels
from eindiff.core.nesting import flatten
from eindiff.core.networks import Factor
from eindiff.core.nodes import (
    Add,
    Constant,
    Einsum,
    Expr,
    Variable,
    is_contraction,
    is_index_map,
    is_kept,
    remember,
    topological,
)
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Size
from eindiff.functions.reductions import as_softmax
from eindiff.planning.degrees import may_be_within

ROUNDING = 2.0**-48  # of numbers that are products and quotients of others
MOST_OPENED = 300  # of all terms of a total on the way, until it is multiplied out
MOST_IN_TOTAL = 100  # of an expression whose total along an axis is looked at
Terms = dict[Expr, Number]  # without their coefficients, and these


class Deviation(NamedTuple):
    """A sum whose total along an axis, with weights, is 0."""

    axis: int
    weights: tuple[Expr, ...]  # vectors; their product counts
    times: Number = 1  # what it is a multiple of is computed, so that entries of data are not rounded


class Balance(NamedTuple):
    """A sum with terms on the diagonal of two axes whose total along one of them is 0."""

    axis: int
    other: int

    def beside(self, terms: Sequence[Expr]) -> list[Expr]:
        """The terms that are not on the diagonal."""
        return [x for x in terms if not isinstance(x, Einsum) or x.output[self.axis] != x.output[self.other]]


class _Place(NamedTuple):
    """A sum among the operands of a contraction, one that it is multiplied with, and its total with the others."""

    at: int
    other: int
    label: int
    deviation: Deviation
    total: Expr


def centered(outputs: Sequence[Expr]) -> list[Expr]:
    """Outputs in which deviations are multiplied with deviations, where these are what the other operand is up to what
    is the same along the axis. Of sums that are not 0 in total, but less than their terms, the mean is one more term.
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        return _with_deviations(_without_numbers(made)) if is_contraction(made) else made

    return rebuild(outputs, change) if any(map(has_means, topological(outputs))) else [*outputs]


def deviations(order: Sequence[Expr]) -> dict[Expr, Deviation | Balance]:
    """Sums among nodes that are multiplied with what may be large beside its own deviations, or are data less its
    means; and those that are not multiplied out, `softmax(X) - I`, whose entries on a diagonal are what the others add
    up to."""
    found: dict[Expr, Deviation | Balance] = _of_data(order)
    for node in order:
        if is_kept(node) and (way := balance_of_kept(node)) is not None:
            found[node.children[0]] = way
        if not is_contraction(node):
            continue
        for at, other, label, deviation, total in _places(node):
            x, y = node.operands[at], node.operands[other]
            if x is y or not construct.is_zero(total) or x in found:
                continue
            axis = node.labels[other].index(label)
            is_centered = isinstance(y, Add) and vanishes(y, axis, deviation.weights)
            if not is_centered and _is_average(x, deviation.weights):
                found[x] = deviation
    return found


def _of_data(order: Sequence[Expr]) -> dict[Expr, Deviation | Balance]:
    """Variables less their means: rounding errors of these are the same for all entries, and may be large beside them.
    In sums of squares of deviations they do not count."""
    found = [(node, _deviation_of_data(node)) for node in order if isinstance(node, Add)]
    squares = {node for node in order if is_contraction(node) and len({*node.operands}) < len(node.operands)}
    squared = {x for node in squares for x in node.children}
    elsewhere = {x for node in order if node not in squares for x in node.children} if squared else set()
    return {x: way for x, way in found if way is not None and (x not in squared or x in elsewhere)}


def _deviation_of_data(node: Add) -> Deviation | None:
    """How a sum of a variable and its mean is 0 in total."""
    if len(node.terms) > 2 or node.has_delta or node.relations or not has_means(node):
        return None
    for term, mean in permutations(node.terms):
        coefficient, factors, output, _ = construct.parts(term)
        [(x, labels), *rest] = factors or [(term, ())]
        if isinstance(x, Variable) and not rest and sorted(labels) == sorted(output):
            for axis in (axis for axis in range(node.ndim) if is_mean(mean, axis)):
                weights = weights_of(mean, x, labels.index(output[axis]))
                if weights is not None and vanishes(node, axis, weights):
                    return Deviation(axis, weights, coefficient)
    return None


def balances(outputs: Sequence[Expr]) -> dict[Expr, Balance]:
    """Outputs whose entries on a diagonal are what the others add up to, with the other sign: `diag(p) - p p'`.

    Computed as such they have the digits of the others, also where p is nearly 1, and terms on the diagonal cancel.
    Entries at places that relations give are few, and are not added up along whole rows. Of a Jacobian or Hessian of
    arrays, whose forms take long to look at, the total is asked for along the variable's axis.
    """
    found = {node: _balance(node, by_both=node.ndim == 2) for node in outputs}
    return {node: way for node, way in found.items() if way is not None}


def balance_of_kept(node: Expr) -> Balance | None:
    """How entries on a diagonal of a sum that is not multiplied out are what others add up to."""
    [total] = node.children
    known: list[Balance | None] = total._balance if hasattr(total, "_balance") else remember(total, "_balance", [])
    if not known:
        known.append(_balance(total, by_both=True))
    return known[0]


def _balance(node: Expr, by_both: bool) -> Balance | None:
    """How entries on a diagonal of a sum are what others add up to along the second of its axes, or along any."""
    if not isinstance(node, Add) or not node.has_delta or any(map(_is_related, node.terms)) or not is_small([node]):
        return None
    pairs = dict.fromkeys([pair for term in node.terms for pair in _pairs(term)])
    if len(pairs) > 1 and all(map(_pairs, node.terms)):
        return None  # most entries are 0, and no array has them all
    ways = [Balance(b, a) for a, b in pairs] + [Balance(a, b) for a, b in pairs if by_both]
    return next((way for way in ways if _is_balanced(node, way)), None)


def _is_related(term: Expr) -> bool:
    """Whether where entries of a term are is given by relations."""
    factors = [x for x in term.children if not is_contraction(x)]
    inside = [y for x in term.children if is_contraction(x) for y in x.children]
    return any(is_index_map(x) and x.ndim > 1 for x in [*factors, *inside])


def _pairs(term: Expr) -> list[tuple[int, int]]:
    """The pairs of axes on whose diagonal a term is."""
    output = term.output if isinstance(term, Einsum) and term.has_delta else ()
    return [(a, b) for a, b in combinations(range(len(output)), 2) if output[a] == output[b]]


def _is_balanced(node: Add, way: Balance) -> bool:
    """Whether the total along an axis is 0."""
    order, sizes = tuple(range(node.ndim)), dict(enumerate(node.shape))
    left, total = tuple([label for label in order if label != way.axis]), Terms()
    beside = way.beside(node.terms)
    diagonal = [x for x in node.terms if x not in beside]
    if not {*_factors(diagonal)} <= {*_factors(beside)} or not may_be_within(diagonal, beside):
        return False  # without a look at terms in all their forms
    for term in node.terms:
        terms = flat_terms(construct.einsum(1, [(term, order)], left, sizes), node.shape[way.axis])
        if _is_open(terms):
            return False
        total = plus_terms(total, terms)
    return not total


def _is_average(node: Expr, weights: tuple[Expr, ...]) -> bool:
    """Whether weights are not 0 in total: they add up to a number, or a sum is divided by what they add up to."""
    if not weights or not is_small([node]):
        return not weights
    [whole, flat] = flatten([construct.einsum(1, [(x, (0,)) for x in weights], (), {0: weights[0].shape[0]}), node])
    coefficient, factors, _, _ = construct.parts(_nonempty(whole, weights[0].shape[0]))
    divisors = {base for x in topological([flat]) for base, power in [construct.power_parts(x)] if float(power) < 0}
    return bool(coefficient) and {x for x, _ in factors} <= divisors


def has_means(node: Expr) -> bool:
    return isinstance(node, Add) and any(is_mean(term, axis) for term in node.terms for axis in range(node.ndim))


def is_mean(term: Expr, axis: int) -> bool:
    """Whether a term may be a mean: it is the same along an axis, and computed."""
    return _same_along(term, axis) and any(x.children for x in term.children)


def _same_along(term: Expr, axis: int) -> bool:
    return isinstance(term, Einsum) and not term.has_delta and term.same_along(axis)


def _places(node: Einsum) -> Iterator[_Place]:
    """Sums in a contraction of whose total, with the operands that have nothing but their axis for weights, terms
    cancel; there is one more operand that has the axis."""
    for at, (x, labels) in enumerate(zip(node.operands, node.labels, strict=True)):
        if not isinstance(x, Add) or x.has_delta or x.relations:
            continue
        for axis, label in enumerate(labels):
            is_summed = label not in node.output and labels.count(label) == 1
            if is_summed and _has_means_along(x, axis):
                yield from _along(node, x, at, axis)


def _has_means_along(x: Add, axis: int) -> bool:
    """Whether terms of a sum, or of sums that it is of multiples of, may be means along an axis."""
    if any(is_mean(term, axis) for term in x.terms):
        return True
    factors = [(y, own, term.output) for term in x.terms if isinstance(term, Einsum) for y, own in _sums_in(term)]
    return any(is_mean(inner, k) for y, own, out in factors for k in _at(own, out[axis]) for inner in y.terms)


def _sums_in(term: Einsum) -> Iterator[tuple[Add, Labels]]:
    """The sums among the factors of a product, and their labels."""
    if not is_contraction(term):
        yield from ((y, own) for y, own in zip(term.operands, term.labels, strict=True) if isinstance(y, Add))


def _at(labels: Labels, label: int) -> list[int]:
    return [k for k, x in enumerate(labels) if x == label]


def _along(node: Einsum, x: Add, at: int, axis: int) -> Iterator[_Place]:
    """The places of a sum in a contraction along one of its axes: one for each operand that may be beside weights."""
    label = node.labels[at][axis]
    users = [k for k, own in enumerate(node.labels) if label in own and k != at]
    for other in users:
        weights = [k for k in users if k != other]
        if all(node.labels[k] == (label,) for k in weights) and node.labels[other].count(label) == 1:
            deviation = Deviation(axis, tuple([node.operands[k] for k in weights]))
            if (total := _total(x, deviation.axis, deviation.weights)) is not None:
                yield _Place(at, other, label, deviation, total)


def _without_numbers(node: Einsum) -> Expr:
    """A mean of a vector and a number as that of the vector, and the number: others may have its negative."""
    at = next((k for k, x in enumerate(node.operands) if isinstance(x, Add) and x.ndim == 1), None)
    if at is None or node.output or len(node.sizes) > 1 or len(node.operands) == 1 or not is_small([node]):
        return node
    total, size = node.operands[at], node.sizes[0]
    weights = [factor for k, factor in enumerate(zip(node.operands, node.labels, strict=True)) if k != at]
    [whole] = flatten([construct.einsum(1, weights, (), {0: size})])
    pieces = [piece for term in total.children for piece in terms_of(term, deep=False)]
    numbers = [x.coefficient for x in pieces if construct.is_number(x)]
    if not numbers or not construct.is_number(count := _nonempty(whole, size)):
        return node
    rest = construct.add([x for x in pieces if not construct.is_number(x)])
    own = construct.einsum(1, [*weights, (rest, (0,))], (), {0: size}, inline=False)
    return construct.add([own, construct.scale(reduce(plus, numbers), count)])


def _with_deviations(node: Expr) -> Expr:
    """A contraction with deviations in the place of what they are deviations of."""
    if not is_contraction(node):
        return node
    for place in _places(node):
        if not construct.is_zero(place.total):
            if not place.deviation.weights:
                return _with_mean_apart(node, place)
        elif (other := _as_deviation(node, place)) is not None:
            return with_children(node, [other if k == place.other else x for k, x in enumerate(node.operands)])
    return node


def _with_mean_apart(node: Einsum, place: _Place) -> Expr:
    """A contraction with a sum as one with its deviations from its mean, and one with its mean."""
    x, labels = node.operands[place.at], node.labels[place.at]
    sizes = dict(enumerate(node.sizes))
    kept = tuple([label for label in labels if label != place.label])
    count = construct.known_power(construct.size_number(sizes[place.label]), -1)
    mean: list[Factor] = [(place.total, kept), (count, ())]
    own = construct.add([x, construct.scale(-1, construct.einsum(1, mean, labels, sizes))])
    rest = [factor for k, factor in enumerate(zip(node.operands, node.labels, strict=True)) if k != place.at]
    terms = [construct.einsum(1, [*rest, *one], node.output, sizes, inline=False) for one in ([(own, labels)], mean)]
    return construct.add(terms)


def _as_deviation(node: Einsum, place: _Place) -> Expr | None:
    """The multiple of a deviation that an operand is, up to what is the same along its axis; None if it is none."""
    (x, labels), (y, own) = ((node.operands[k], node.labels[k]) for k in (place.at, place.other))
    if x is y or len(own) != len(labels) or len({*own}) < len(own):
        return None
    sizes = dict(zip(own, y.shape, strict=True))
    axis = own.index(place.label)
    ours = _varying(y.children if isinstance(y, Add) else [y], axis)
    for order in permutations([label for label in own if label != place.label]):
        names = iter(order)
        turned = tuple([label if label == place.label else next(names) for label in labels])
        if [sizes[label] for label in turned] == [*x.shape]:
            theirs = _varying([construct.einsum(1, [(term, turned)], own, sizes) for term in x.children], axis)
            if (factor := _ratio(ours, theirs)) is not None:
                return construct.einsum(factor, [(x, turned)], own, sizes)
    return None


def _varying(terms: Sequence[Expr], axis: int) -> Terms:
    """Those terms that are not the same along an axis."""
    return dict(_bare(term) for term in terms if not _same_along(term, axis))


def _bare(term: Expr) -> tuple[Expr, Number]:
    coefficient, factors, output, sizes = construct.parts(term)
    return product(1, factors, output, sizes), coefficient


def _ratio(ours: Terms, theirs: Terms) -> Number | None:
    """The number that a sum is another one times."""
    if not ours or ours.keys() != theirs.keys():
        return None
    ratios = [ratio(c, theirs[term]) for term, c in ours.items()]
    is_one = all(abs(float(x) - float(ratios[0])) <= ROUNDING * abs(float(x)) for x in ratios)
    return ratios[0] if is_one else None


def weights_of(mean: Expr, x: Expr, axis: int) -> tuple[Expr, ...] | None:
    """What the entries of a variable along an axis have been multiplied with in a mean; None if it is none of it, or
    one of its entries."""
    for total in filter(is_contraction, mean.children):
        for operand, labels in zip(total.operands, total.labels, strict=True):
            if operand is x and labels[axis] not in total.output:
                beside = [(y, own) for y, own in zip(total.operands, total.labels, strict=True) if y is not x]
                if all(own == (labels[axis],) and not is_index_map(y) for y, own in beside):
                    return tuple([y for y, _ in beside])
    return None


def vanishes(node: Add, axis: int, weights: tuple[Expr, ...]) -> bool:
    total = _total(node, axis, weights)
    return total is not None and construct.is_zero(total)


def _total(node: Add, axis: int, weights: tuple[Expr, ...]) -> Expr | None:
    """The total of a sum along an axis, with weights, if terms of it cancel; None if none do."""
    known = node._totals if hasattr(node, "_totals") else remember(node, "_totals", {})
    if (axis, weights) not in known:
        known[axis, weights] = _new_total(node, axis, weights)
    found: Expr | None = known[axis, weights]
    return found


def _new_total(node: Add, axis: int, weights: tuple[Expr, ...]) -> Expr | None:
    means = [term for term in node.terms if _same_along(term, axis)]
    if not is_small([node]) or not _is_made_of(weights, means):
        return None
    order, sizes = tuple(range(node.ndim)), dict(enumerate(node.shape))
    left = order[:axis] + order[axis + 1 :]
    beside: list[Factor] = [(x, (axis,)) for x in weights]
    varying = [term for term in node.terms if not _same_along(term, axis)]
    totals = {term: construct.einsum(1, [(term, order), *beside], left, sizes, inline=False) for term in node.terms}
    size, zero = node.shape[axis], construct.filled(0, node.shape[:axis] + node.shape[axis + 1 :])
    if means:
        if not plus_terms({}, [x for whole in totals.values() for x in flat_terms(whole, size, deep=False)]):
            return zero  # as written: most cancel so, however large they are
        if not may_be_within(varying, means):
            return None
    found = _total_of([totals[term] for term in varying], size, alone=not means)
    return None if found is None else _with_means(found, [totals[mean] for mean in means], size, zero)


def _total_of(varying: Sequence[Expr], size: Size, alone: bool) -> Terms | None:
    """The total of terms that vary, from their totals; None if that of one is not known, or they are alone and left."""
    found: Terms = {}
    for total in varying:
        terms = flat_terms(total, size)
        found = plus_terms(found, terms)
        if _is_open(terms) or (found and alone):
            return None
    return found


def _with_means(found: Terms, means: Sequence[Expr], size: Size, zero: Expr) -> Expr | None:
    """What is left of a total with those of means, of which some cancel it; None if none do."""
    rest: list[Expr] = []
    everything = found
    for piece in chain.from_iterable(terms_of(mean, deep=False) for mean in means):
        terms = flat_terms(piece, size)
        less, everything = plus_terms(found, terms), plus_terms(everything, terms)
        found, rest = (less, rest) if len(less) < len(found) else (found, [*rest, piece])
    if not everything:
        return zero
    return None if found else construct.add([zero, *rest])


def _is_made_of(weights: tuple[Expr, ...], means: Sequence[Expr]) -> bool:
    """Whether means have all in them that weights are made of: else they are by others, and nothing is 0 in total."""
    known = set(_factors(means))
    return all(x in known for x in _factors(weights))


def _factors(exprs: Sequence[Expr]) -> Iterator[Expr]:
    """What expressions are sums, contractions and powers of, but for constants."""
    seen, waiting = set(exprs), [*exprs]
    while waiting:
        node = waiting.pop()
        base, power = construct.power_parts(node)
        if isinstance(node, Einsum | Add) or power != 1:
            new = {*(node.children if power == 1 else (base,))} - seen
            seen |= new
            waiting += new
        elif not isinstance(node, Constant):
            yield node


def plus_terms(terms: Terms, more: Sequence[tuple[Expr, Number]]) -> Terms:
    """A sum of terms and some more, without those that differ from 0 as rounded numbers do."""
    found = dict(terms)
    for bare, coefficient in more:
        before = found.pop(bare, 0)
        if abs(float(after := plus(before, coefficient))) > ROUNDING * abs(float(before)):
            found[bare] = after
    return found


def flat_terms(whole: Expr, size: Size, deep: bool = True) -> list[tuple[Expr, Number]]:
    """The terms of an expression when all is multiplied out, in contractions too if `deep`, and their coefficients."""
    [flat] = flatten([whole]) if deep else [whole]
    return [_bare(_nonempty(piece, size)) for piece in terms_of(flat, deep)]


def _is_open(terms: Sequence[tuple[Expr, Number]]) -> bool:
    """Whether there are sums among the factors of terms still, as there are too many to be multiplied out."""
    return any(isinstance(x, Add) or _has_sum(x) for term, _ in terms for x, _ in construct.parts(term)[1])


def is_small(exprs: Sequence[Expr], most: int = MOST_IN_TOTAL) -> bool:
    """Whether expressions have few nodes: to look at totals in all their forms takes long."""
    seen, waiting = set(exprs), [*exprs]
    while waiting and len(seen) <= most:
        new = {*waiting.pop().children} - seen
        seen |= new
        waiting += new
    return len(seen) <= most


def _nonempty(term: Expr, size: Size) -> Expr:
    """A product without totals of softmaxes along axes of a size, which are 1: the total of no entries is 0 anyway."""
    coefficient, factors, output, sizes = construct.parts(term)
    kept = [factor for factor in factors if not _is_total_of_softmax(factor[0], size)]
    return term if len(kept) == len(factors) else product(coefficient, kept, output, sizes)


def _is_total_of_softmax(node: Expr, size: Size) -> bool:
    if not is_contraction(node) or len(node.operands) > 1 or len(node.contracted) != 1:
        return False
    found = as_softmax(node.operands[0])
    return found is not None and node.labels[0][found.axis] in node.contracted and found.total.args[0].shape[-1] == size


def terms_of(expr: Expr, deep: bool) -> list[Expr]:
    """The terms of an expression with sums among its factors, if deep also in contractions, multiplied out; no more
    than there may be."""
    done: list[Expr] = []
    waiting, made = [expr], 0
    while waiting:
        term = waiting.pop()
        coefficient, factors, output, sizes = construct.parts(term)
        sums = [k for k, (x, _) in enumerate(factors) if isinstance(x, Add) or (deep and _has_sum(x))]
        if not sums or made > MOST_OPENED:
            done.append(term)
            continue
        x, labels = factors[sums[0]]
        rest = [factor for k, factor in enumerate(factors) if k != sums[0]]
        pieces = x.children if isinstance(x, Add) else _pieces(x)
        made += len(pieces) * (len(rest) + (1 if isinstance(x, Add) else len(x.children)))
        waiting += [construct.einsum(coefficient, [*rest, (piece, labels)], output, sizes) for piece in pieces]
    return done


def _has_sum(x: Expr) -> bool:
    return is_contraction(x) and any(isinstance(y, Add) for y in x.operands)


def _pieces(x: Expr) -> list[Expr]:
    """A contraction with each term of a sum among its operands."""
    at = next(k for k, y in enumerate(x.children) if isinstance(y, Add))
    with_term = [[*x.children[:at], term, *x.children[at + 1 :]] for term in x.children[at].children]
    return [with_children(x, children, inline=True) for children in with_term]
