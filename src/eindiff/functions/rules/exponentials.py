"""Rules for exponentials and logarithms: what they undo, and forms that neither overflow nor lose all digits.

The logarithm of a sum of exponentials is `logsumexp` (of two of them a `softplus`), with weights of any sign
`log_weighted_sum`; an exponential over such a sum is the exponential of a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from eindiff.core import construct
from eindiff.core.construct import Factor, is_number, parts, scale
from eindiff.core.index_relations import Lower, SizeOf
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Constant, Einsum, Expr, Number, is_contraction, is_index_map
from eindiff.core.rewrite import rule
from eindiff.core.sizes import Shape, Size, product
from eindiff.functions.elementwise import exp, expm1, log, power, sigmoid, softplus, tanh
from eindiff.functions.indexing import concatenate, reshape, stack
from eindiff.functions.matrices import logdet
from eindiff.functions.reductions import as_softmax, log_weighted_sum, logsumexp
from eindiff.functions.rules.shapes import is_apply, is_map, is_positive

if TYPE_CHECKING:
    from eindiff.core.construct import Network

MOST_NESTED = 4  # exponentials; the logarithm of a longer sum is that of a vector of them

# What undoes what


@rule("exp")
def exp_of_log(x: Expr) -> Expr | None:
    """exp(log(x)) = x. One node less."""
    return x.args[0] if is_map(x, "log") else None


@rule("exp")
def exp_of_softplus(x: Expr) -> Expr | None:
    """exp(-softplus(x)) = sigmoid(-x), and exp(x - softplus(x)) = sigmoid(x). One node less."""
    _, factors, _, _ = parts(x)
    terms = factors[0][0].children if len(factors) == 1 and isinstance(factors[0][0], Add) else (x,)
    for term in terms:
        for node, _ in parts(term)[1]:
            if not is_map(node, "softplus") or node.shape != x.shape:
                continue
            rest = construct.add([x, node])
            if construct.is_zero(rest):
                return sigmoid(scale(-1, node.args[0]))
            if rest is node.args[0]:
                return sigmoid(rest)
    return None


@rule("log")
def log_of_exp(x: Expr) -> Expr | None:
    """log(exp(x)) = x. One node less."""
    return x.args[0] if is_map(x, "exp") else None


@rule("log")
def log_of_power(x: Expr) -> Expr | None:
    """log(x^p) = p log(x), unless p is even and x may be negative. The argument of the log gets smaller."""
    base, exponent = construct.power_parts(x)
    safe = exponent % 2 != 0 or is_positive(base)
    return scale(exponent, log(base)) if exponent != 1 and safe else None


@rule("log")
def log_of_det(x: Expr) -> Expr | None:
    """log(det(A)) = logdet(A). One node less."""
    return logdet(x.args[0]) if is_apply(x, "det") else None


@rule("log")
def log_of_product(x: Expr) -> Expr | None:
    """log(prod(x)) = sum(log(x)) for positive x. The argument of the log gets smaller."""
    if not is_apply(x, "prod") or x.function.parameter or not is_positive(x.args[0]):
        return None
    [inner] = x.children
    labels = tuple(range(inner.ndim))
    return construct.einsum(1, [(log(inner), labels)], labels[:-1], dict(enumerate(inner.shape)))


@rule("log")
def log_of_sigmoid(x: Expr) -> Expr | None:
    """log(sigmoid(x)) = -softplus(-x). The log goes away."""
    return scale(-1, softplus(scale(-1, x.args[0]))) if is_map(x, "sigmoid") else None


@rule("log")
def log_of_cosh(x: Expr) -> Expr | None:
    """log(cosh(x)) = x + softplus(-2 x) - log(2). The log goes away."""
    if not is_map(x, "cosh"):
        return None
    half = log(construct.filled(Fraction(1, 2), x.shape))
    return construct.add([x.args[0], softplus(scale(-2, x.args[0])), half])


# Logarithms of sums of exponentials


@rule("log")
def log_of_sum_of_exponentials(x: Expr) -> Expr | None:
    """log(y exp(a) sum(w exp(b))) = a + log(y) + logsumexp(b) with weights w. The argument of the log gets smaller."""
    coefficient, factors, output, sizes = parts(x)
    if len(set(output)) < len(output):
        return None
    found = [_logarithm(node) for node, _ in factors]
    logarithms = [(value, ls) for value, (_, ls) in zip(found, factors, strict=True) if value is not None]
    rest = [factor for value, factor in zip(found, factors, strict=True) if value is None]
    weighted = [i for i, (node, _) in enumerate(rest) if _has_exponential(node)]
    value = None
    if len(weighted) == 1:
        others = [factor for i, factor in enumerate(rest) if i != weighted[0]]
        if (entries := _entries(*rest[weighted[0]], coefficient, others, output, sizes)) is not None:
            value = log_weighted_sum(*entries)
    if value is None:
        if not logarithms or (not rest and not coefficient > 0):
            return None
        value = log(construct.einsum(coefficient, rest, output, sizes))
    spread = [construct.einsum(1, [factor], output, sizes) for factor in logarithms]
    return construct.add([*spread, value])


@rule("log1p")
def log1p_of_sum_of_exponentials(x: Expr) -> Expr | None:
    """log1p(exp(x)) = softplus(x), and likewise for multiples and sums of exponentials. The log goes away."""
    value = _logarithm(x)
    return None if value is None else softplus(value)


@rule("log")
def log_of_difference(x: Expr) -> Expr | None:
    """log(exp(a) - exp(b)) = a + log(-expm1(b - a)). The argument of the log gets smaller."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 1 or not isinstance(factors[0][0], Add) or len(set(output)) < len(output):
        return None
    node, labels = factors[0]
    turned = [scale(1 if coefficient > 0 else -1, term) for term in node.children]
    logs = [_log_of_term(term) for term in turned] + [_log_of_term(scale(-1, term)) for term in turned]
    found = [value for value in logs if value is not None]
    if len(turned) != 2 or len(found) != 2 or (logs[0] is None) == (logs[1] is None) or not _has_exponential(node):
        return None
    a, b = found
    value = construct.add([a, log(scale(-1, expm1(construct.add([b, scale(-1, a)]))))])
    size = log(construct.filled(coefficient if coefficient > 0 else -coefficient, x.shape))
    return construct.add([construct.einsum(1, [(value, labels)], output, sizes), size])


@rule("log")
def log_of_expm1(x: Expr) -> Expr | None:
    """log(expm1(x)) = x + log(-expm1(-x)). Smaller values: those of the second expm1 are between 0 and 1."""
    return construct.add([x.args[0], log(scale(-1, expm1(scale(-1, x.args[0]))))]) if is_map(x, "expm1") else None


@rule("log")
def log_of_sum_with_weights(x: Expr) -> Expr | None:
    """log(a exp(x) + b exp(y) + c) of weights with any sign, as one weighted sum. The log goes away."""
    coefficient, factors, output, sizes = parts(x)
    [(node, labels), *more] = factors or [(x, ())]
    if more or not isinstance(node, Add) or len(set(output)) < len(output):
        return None
    if not any(_has_exponential(factor) for term in node.terms for factor, _ in parts(term)[1]):
        return None
    entries = [_entries_of_term(term) for term in node.terms]
    found = [pair for pair in entries if pair is not None]
    if len(found) < len(entries):
        return None
    exponents, weights = (concatenate(list(several), -1) for several in zip(*found, strict=True))
    value = log_weighted_sum(exponents, scale(coefficient, weights))
    return construct.einsum(1, [(value, labels)], output, sizes)


def _logarithm(x: Expr) -> Expr | None:
    """The logarithm of a sum of multiples of exponentials that is positive for certain; None if x is no such sum."""
    base, exponent = construct.power_parts(x)
    if exponent != 1:
        value = _logarithm(base)
        return None if value is None else scale(exponent, value)
    if is_map(x, "exp"):
        return x.args[0]
    if is_map(x, "sigmoid"):
        return log(x)
    if isinstance(x, Add):
        return _log_of_sum(x)
    if is_contraction(x):
        return _log_of_contraction(x)
    coefficient, factors, output, sizes = parts(x)
    values = [None if node is x else _logarithm(node) for node, _ in factors]
    if not factors or not coefficient > 0 or None in values or len(set(output)) < len(output):
        return None
    logs = zip(values, factors, strict=True)
    spread = [construct.einsum(1, [(value, ls)], output, sizes) for value, (_, ls) in logs if value is not None]
    return construct.add([*spread, log(construct.filled(coefficient, x.shape))])


def _log_of_term(term: Expr) -> Expr | None:
    """The logarithm of a multiple of exponentials or of a positive number."""
    return log(term) if is_number(term) and term.coefficient > 0 else _logarithm(term)


def _log_of_sum(x: Add) -> Expr | None:
    """log(exp(a) + exp(b)) = a + softplus(b - a), where a positive number is the exponential of its logarithm."""
    if not any(_has_exponential(term) for term in x.terms):
        return None
    found = [_log_of_term(term) for term in x.terms]
    exponents = [value for value in found if value is not None]
    if len(exponents) < len(found):
        return None
    exponents.sort(key=lambda e: (not is_number(e), e.digest))
    if len(exponents) > MOST_NESTED:
        return logsumexp(stack(exponents, -1), -1)
    total = exponents[0]
    for exponent in exponents[1:]:
        total = construct.add([total, softplus(construct.add([exponent, scale(-1, total)]))])
    return total


def _log_of_contraction(x: Einsum) -> Expr | None:
    """log(sum(w exp(x))) = logsumexp(x + log(w)) for positive weights."""
    if (found := _exponent_and_weights(x)) is None:
        return None
    labels, exponent, weights = found
    if weights:
        return None
    axes = tuple([axis for axis, label in enumerate(labels) if label not in x.output])
    kept = [label for label in labels if label in x.output]
    return construct.transpose(logsumexp(exponent, axes), [kept.index(label) for label in x.output])


def _is_exponential(x: Expr) -> bool:
    return is_map(construct.power_parts(x)[0], "exp")


def _has_exponential(x: Expr) -> bool:
    """Whether an expression is an exponential times something, or a sum of such."""
    if isinstance(x, Add):
        return any(map(_has_exponential, x.terms)) and all(is_number(t) or _has_exponential(t) for t in x.terms)
    if isinstance(x, Einsum):
        return any(map(_is_exponential, x.operands))
    return _is_exponential(x)


def _exponent_and_weights(x: Einsum) -> tuple[Labels, Expr, list[Factor]] | None:
    """A contraction as `sum(weights * exp(exponent))`: the labels of the exponent, the exponent, the weights.

    An operand must have all labels, so that nothing gets larger than what there is. Index maps are taken inside.
    """
    factors = _gathered(x)
    dense = [ls for node, ls in factors if not (isinstance(node, Constant) and isinstance(node.value, Lower))]
    labels = max(dense, key=len, default=())
    if len(labels) < len({label for _, ls in factors for label in ls}) or not _are_exponentials(factors):
        return None
    sizes = {label: size for node, ls in factors for label, size in zip(ls, node.shape, strict=True)}
    logs = [(_log_if_positive(node), ls) for node, ls in factors]
    known = [construct.einsum(1, [(value, ls)], labels, sizes) for value, ls in logs if value is not None]
    return labels, construct.add(known), [f for f, (value, _) in zip(factors, logs, strict=True) if value is None]


def _are_exponentials(factors: Sequence[Factor]) -> bool:
    """Whether there is an exponential among factors, without diagonals and index maps."""
    if any(len(set(labels)) < len(labels) or is_index_map(node) for node, labels in factors):
        return False
    return any(_is_exponential(node) for node, _ in factors)


def _log_if_positive(node: Expr) -> Expr | None:
    """The logarithm of an operand that is positive for certain."""
    if isinstance(node, Constant) and isinstance(node.value, np.ndarray):
        return construct.constant(np.log(node.value)) if (node.value > 0).all() else None
    base, _ = construct.power_parts(node)
    return log(node) if is_positive(base) or (isinstance(node, Constant) and isinstance(node.value, SizeOf)) else None


def _gathered(x: Einsum) -> list[Factor]:
    """The operands of a contraction, where entries that an index map picks from an exponential are picked inside it."""
    factors = x.factors
    for chosen in x.factors:
        if is_index_map(chosen[0]) and chosen[1][0] not in x.output:
            users = [factor for factor in factors if chosen[1][0] in factor[1]]
            others = [factor for factor in users if factor[0] is not chosen[0]]
            if len(users) == 2 and len(others) == 1 and (picked := _picked(chosen, others[0], x.sizes)) is not None:
                factors = [factor for factor in factors if factor not in users] + [picked]
    return factors


def _picked(chosen: Factor, factor: Factor, sizes: Shape) -> Factor | None:
    """The entries of an exponential that an index map picks, picked inside it."""
    (target, *inputs), (node, labels) = chosen[1], factor
    if not is_map(node, "exp") or labels.count(target) != 1 or set(inputs) & set(labels):
        return None
    output = tuple([y for z in labels for y in (inputs if z == target else (z,))])
    inside = construct.einsum(1, [(node.args[0], labels), chosen], output, dict(enumerate(sizes)))
    return exp(inside), output


def _entries(
    node: Expr, labels: Labels, coefficient: Number, rest: list[Factor], output: Labels, sizes: dict[int, Size]
) -> tuple[Expr, Expr] | None:
    """Exponents and weights of y sum(w exp(x)), where y and w may have any sign: the weights are y w."""
    if set(labels) < set(output) or not is_contraction(node) or (found := _flattened(node)) is None:
        return None
    exponent, weight = found
    last = 1 + max(sizes, default=0)
    grown = {**sizes, last: exponent.shape[-1]}
    every = (*output, last)
    spread = construct.einsum(1, [(exponent, (*labels, last))], every, grown)
    return spread, construct.einsum(coefficient, [(weight, (*labels, last)), *rest], every, grown)


def _entries_of_term(term: Expr) -> tuple[Expr, Expr] | None:
    """Exponents and weights of a term, along a last axis: without exponentials it is the weight of exponent 0."""
    coefficient, factors, output, sizes = parts(term)
    if len(set(output)) < len(output):
        return None
    found = [(_logarithm(node), labels) for node, labels in factors]
    logs = [construct.einsum(1, [(value, labels)], output, sizes) for value, labels in found if value is not None]
    weights = [factor for factor, (value, _) in zip(factors, found, strict=True) if value is None]
    inner = [factor for factor in weights if is_contraction(factor[0]) and _has_exponential(factor[0])]
    rest = [factor for factor in weights if factor not in inner]
    exponent = construct.add([construct.filled(0, term.shape), *logs])[..., None]
    if not inner:
        return exponent, construct.einsum(coefficient, rest, output, sizes)[..., None]
    if len(inner) > 1 or (entries := _entries(*inner[0], coefficient, rest, output, sizes)) is None:
        return None
    return exponent + entries[0], entries[1]


def _flattened(x: Einsum) -> tuple[Expr, Expr] | None:
    """Exponent and weights of a contraction, with all that is summed over as the last axis."""
    if (found := _exponent_and_weights(x)) is None:
        return None
    labels, exponent, weights = found
    sizes = dict(zip(labels, exponent.shape, strict=True))
    order = (*x.output, *(label for label in labels if label not in x.output))
    moved = construct.einsum(1, [(exponent, labels)], order, sizes), construct.einsum(1, weights, order, sizes)
    shape = (*x.shape, product(sizes[label] for label in order[x.ndim :]))
    return reshape(moved[0], shape), reshape(moved[1], shape)


# Ratios of exponentials


@rule("pow")
def reciprocal_of_one_plus_exp(exponent: Number, x: Expr) -> Expr | None:
    """(c + d exp(x))^p = c^p sigmoid(-x - log(d/c))^(-p) for p < 0 and positive c and d. The exp goes away."""
    if not isinstance(x, Add) or len(x.terms) != 2 or exponent > 0:
        return None
    numbers = [term for term in x.terms if is_number(term) and term.coefficient > 0]
    values = [_logarithm(term) for term in x.terms if not is_number(term)]
    if len(numbers) != 1 or values[0] is None:
        return None
    exponential = construct.add([values[0], scale(-1, log(numbers[0]))])
    return power(sigmoid(scale(-1, exponential)), -exponent) * power(numbers[0], exponent)


@rule("add")
def one_minus_sigmoid(terms: dict[Expr, Number], shape: tuple) -> Expr | None:
    """1 - sigmoid(x) = sigmoid(-x), and 1 - 2 sigmoid(x) = tanh(-x/2). One term less, of which no digits are lost."""
    if len(terms) != 2:
        return None
    (a, ca), (b, cb) = sorted(terms.items(), key=lambda item: not is_number(item[0]))
    _, factors, output, sizes = parts(b)
    if not is_number(a) or cb not in (-ca, -2 * ca) or len(factors) != 1 or not is_map(factors[0][0], "sigmoid"):
        return None
    [x] = factors[0][0].children
    mirrored = sigmoid(scale(-1, x)) if cb == -ca else tanh(scale(Fraction(-1, 2), x))
    return construct.einsum(ca, [(mirrored, factors[0][1])], output, sizes) if len(set(output)) == len(output) else None


@rule("einsum", among=("exp",))
def exp_times_sigmoid(network: Network) -> bool | None:
    """exp(x) sigmoid(-x) = sigmoid(x). One factor less."""
    for i, (node, labels) in enumerate(network.factors):
        if not is_map(node, "sigmoid"):
            continue
        mirrored = scale(-1, node.args[0])
        for j, (other, other_labels) in enumerate(network.factors):
            if is_map(other, "exp") and other.args[0] is mirrored and other_labels == labels:
                return network.exchange({i: (sigmoid(mirrored), labels), j: None})
    return None


@rule("einsum", among=("pow",))
def exp_over_sum_of_exp(network: Network) -> bool | None:
    """exp(x) / sum(exp(x)) = exp(x - logsumexp(x)), the softmax; so for all sums of exponentials. A smaller power."""
    for i, (node, labels) in enumerate(network.factors):
        base, exponent = construct.power_parts(node)
        if exponent > -1 or not (isinstance(base, Add) or is_contraction(base)) or not _has_exponential(base):
            continue
        for j, (other, theirs) in enumerate(network.factors):
            if i != j and (divided := _divided(other, theirs, base, labels)) is not None:
                left = (power(base, exponent + 1), labels) if exponent != -1 else None
                return network.exchange({i: left, j: (divided, theirs)})
    return None


def _divided(node: Expr, labels: Labels, total: Expr, along: Labels) -> Expr | None:
    """An exponential, or a contraction with one, over a sum that the exponential is part of."""
    if is_contraction(node):
        names = dict(zip(labels, node.output, strict=True))
        if not set(along) <= set(names) or len(names) < len(labels):
            return None
        inner = tuple([names[label] for label in along])
        factors = node.factors
        for k, (operand, theirs) in enumerate(factors):
            if is_map(operand, "exp") and (divided := _divided(operand, theirs, total, inner)) is not None:
                factors[k] = (divided, theirs)
                return construct.einsum(1, factors, node.output, dict(enumerate(node.sizes)))
        return None
    if not is_map(node, "exp") or not _contains(total, node) or not set(along) <= set(labels):
        return None
    exponent, total = _without_shift(node, total)
    if len(set(labels)) < len(labels) or (logarithm := _logarithm(total)) is None:
        return None
    places = tuple([labels.index(label) for label in along])
    spread = construct.einsum(-1, [(logarithm, places)], tuple(range(node.ndim)), dict(enumerate(node.shape)))
    return exp(construct.add([exponent, spread]))


def _without_shift(node: Expr, total: Expr) -> tuple[Expr, Expr]:
    """The exponent of an exponential, and a sum over it, without what is the same for all terms of the sum: the largest
    of them, which was taken away so that nothing overflows."""
    [exponent] = node.children
    if not is_contraction(total) or node not in total.operands:
        return exponent, total
    place = total.operands.index(node)
    summed = [axis for axis, label in enumerate(total.labels[place]) if label not in total.output]
    varying = construct.add([term for term in _terms(exponent) if not _is_same_along(term, summed)] or [exponent])
    operands = [exp(varying) if k == place else operand for k, operand in enumerate(total.operands)]
    factors = list(zip(operands, total.labels, strict=True))
    return varying, construct.einsum(1, factors, total.output, dict(enumerate(total.sizes)))


def _terms(x: Expr) -> list[Expr]:
    """What adds up to an expression, which may be a multiple of a sum, with its axes in another order."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 1 or not isinstance(factors[0][0], Add):
        return [x]
    [(total, labels)] = factors
    return [construct.einsum(coefficient, [(term, labels)], output, sizes) for term in total.children]


def _is_same_along(x: Expr, axes: Sequence[int]) -> bool:
    return isinstance(x, Einsum) and all(map(x.same_along, axes))


@rule("add")
def shifted_back(terms: dict[Expr, Number], shape: tuple) -> Expr | None:
    """logsumexp(x + c) - c = logsumexp(x) for a c that is the same along the axis. One term less."""
    for node, times in terms.items():
        inside = _terms(node.args[0]) if is_apply(node, "logsumexp") else []
        for shift in [term for term in inside if len(inside) > 1 and _is_same_along(term, [node.ndim])]:
            coefficient, factors, output, sizes = parts(shift)
            back = construct.einsum(-times * coefficient, factors, output[:-1], sizes)
            others = [scale(own, term) for term, own in terms.items() if term is not node]
            if back in others:
                others.remove(back)
                varying = construct.add([term for term in inside if term is not shift])
                return construct.add([*others, scale(times, logsumexp(varying, -1))])
    return None


@rule("einsum", among=("exp",))
def sum_of_softmax(network: Network) -> bool | None:
    """The entries of a softmax add up to 1, if there are any. One factor less."""
    summed = [label for label in network.summed if isinstance(network.sizes[label], int) and network.sizes[label]]
    uses = network.occurrences() if summed else Counter[int]()
    for i, (node, labels) in enumerate(network.factors):
        alone = [label for label in labels if label in summed and uses[label] == 1]
        found = as_softmax(node) if alone else None
        if found is not None and labels[found.axis] in alone:
            rest = (*labels[: found.axis], *labels[found.axis + 1 :])
            shape = tuple([network.sizes[label] for label in rest])
            return network.exchange({i: (construct.filled(1, shape), rest)}, [labels[found.axis]])
    return None


def _contains(total: Expr, part: Expr) -> bool:
    """Whether an exponential is a factor in a sum of exponentials."""
    terms: Sequence[Expr] = total.terms if isinstance(total, Add) else [total]
    return any(part is term or part in term.children for term in terms)
