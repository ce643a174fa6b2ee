"""Sums of fractions over one denominator: with `u = s + c`, `1/u - 2 s/u²` is `(c - s)/u²`.

Derivatives of quotients, logarithms and roots come as such sums, of which most cancels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import reduce
from itertools import combinations
from operator import and_
from typing import NamedTuple

from eindiff.core import construct
from eindiff.core.coefficients import HALF, Number, is_whole, plus, times
from eindiff.core.construct import Factor, known_power, parts, power_parts
from eindiff.core.errors import EindiffError
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr, Map, Variable, is_contraction, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Shape, Size
from eindiff.core.traverse import post_order
from eindiff.facts.bounds import interval
from eindiff.planning.simplify import join
from eindiff.planning.tuning import FACTORINGS, TERMS_LIMIT

STEPS = 3  # of powers of a denominator that are multiplied out

Powers = frozenset[tuple[Factor, Number]]  # factors with their exponents
Polynomial = dict[Powers, Number]  # products of powers with their coefficients


class _Term(NamedTuple):
    """A term as a sum of products of powers, what was multiplied for it, and whether each of that has one sign."""

    products: Polynomial
    factors: Sequence[Polynomial]
    exact: bool


def join_fractions(outputs: Sequence[Expr]) -> list[Expr]:
    """Expressions with contractions in sums as one, and fractions as one where that takes fewer operations an entry.

    No digits are lost: terms that are multiplied out have one sign, so that what they are merged to is no larger; or
    what is left has one. No numerator grows faster than one that is there before, so it is infinite only where that is.
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = _better(node)  # before its parts, as more cancels in it
        if made is None:
            made = with_children(node, children)
        while (better := _better(made)) is not None:
            made = better
        return made

    if not any(_is_fraction(node) for node in topological(outputs)):
        return list(outputs)
    for _ in range(FACTORINGS):
        outputs, before = rebuild(outputs, change), outputs
        if outputs == list(before):
            break
    return list(outputs)


def _is_fraction(node: Expr) -> bool:
    """Whether a node is one over a power of a sum."""
    base, exponent = power_parts(node)
    return isinstance(base, Add) and exponent < 0


def _better(node: Expr) -> Expr | None:
    """A sum with some of its terms as one, if there are such."""
    if not isinstance(node, Add) or len(node.terms) > TERMS_LIMIT:
        return None
    joined = _contractions_joined(node)
    try:
        return _as_fraction(node) if joined is None else joined
    except EindiffError:  # a coefficient that no number can hold
        return None


def _contractions_joined(node: Add) -> Expr | None:
    """A sum with two contractions as one, whose other factors are the same: `A x + A y = A (x + y)`."""
    terms = [term for term in node.terms if any(is_contraction(x) for x, _ in parts(term)[1])]
    for first, second in combinations(terms, 2):
        if (joined := join(first, second)) is not None and not isinstance(joined, Add):
            made = construct.add([*(term for term in node.terms if term not in (first, second)), joined])
            if not isinstance(made, Add) or len(made.terms) < len(node.terms):
                return made
    return None


def _as_fraction(node: Add) -> Expr | None:
    """A sum with some of its terms as one fraction, if that is simpler."""
    terms = [term for term in node.terms if not (isinstance(term, Einsum) and term.has_delta)]
    for denominator in dict.fromkeys(_denominators(terms)):
        for chosen, joined in _over(denominator, terms, node.shape):
            made = construct.add([*(term for term in node.terms if term not in chosen), joined])
            if _operations(made) < _operations(node):
                return made
    return None


def _over(denominator: Factor, terms: Sequence[Expr], shape: Shape) -> Iterator[tuple[Sequence[Expr], Expr]]:
    """Terms that are divided by a sum, and all terms, each with the fraction that they are together."""
    inside = _opened(*denominator)
    if inside is None:
        return
    related = {denominator, *_factors_of(inside)}
    found = {term: _polynomial(term, related) for term in terms}
    over = [term for term in terms if denominator in _factors_of(found[term].products)]
    for chosen in (over, terms) if len(over) < len(terms) else (over,):
        joined = _joined(denominator, inside, [found[term] for term in chosen], shape)
        if joined is not None:
            yield chosen, joined


def _factors_of(polynomial: Iterable[Powers]) -> set[Factor]:
    return {factor for powers in polynomial for factor, _ in powers}


def _denominators(terms: Iterable[Expr]) -> Iterator[Factor]:
    """Sums by which terms, or terms of sums in them, are divided."""
    for term in terms:
        for factor, exponent in _powers(term, tuple(range(term.ndim))):
            if isinstance(factor[0], Add) and exponent < 0:
                yield factor
            elif isinstance(factor[0], Add) and exponent == 1:
                inner = [x for part in factor[0].terms for x in _powers(part, factor[1])]
                yield from (x for x, power in inner if isinstance(x[0], Add) and power < 0)


def _powers(term: Expr, labels: Labels) -> list[tuple[Factor, Number]]:
    """The factors of a term, whose axes have some labels, as powers."""
    _, factors, output, _ = parts(term)
    names = dict(zip(output, labels, strict=True))
    found = [(*power_parts(node), tuple([names[label] for label in own])) for node, own in factors]
    return [((base, own), exponent) for base, exponent, own in found]


def _polynomial(term: Expr, related: Set[Factor]) -> _Term:
    """A term as a product of powers, or as a sum of such if it has sums as factors with related terms."""
    factors, exact = [Polynomial({frozenset(): parts(term)[0]})], True
    for factor, exponent in _powers(term, tuple(range(term.ndim))):
        opened = _opened(*factor) if exponent == 1 and factor not in related else None
        if opened is not None and not related.isdisjoint(_factors_of(opened)):
            exact = exact and _is_of_one_sign(factor[0].children)
            factors.append(opened)
        else:
            factors[0] = _times(factors[0], {frozenset({(factor, exponent)}): 1})
    return _Term(reduce(_times, factors), factors, exact)


def _opened(total: Expr, labels: Labels) -> Polynomial | None:
    """The terms of a sum that is a factor with some labels, if it has no deltas and is on no diagonal."""
    if not isinstance(total, Add) or total.has_delta or len(set(labels)) < len(labels):
        return None
    result: Polynomial = {}
    for term in total.terms:
        product: Polynomial = {frozenset(): parts(term)[0]}
        for item in _powers(term, labels):
            product = _times(product, {frozenset({item}): 1})
        result |= product
    return result


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for a, c in left.items():
        for b, d in right.items():
            powers = dict(a)
            for factor, exponent in b:
                powers[factor] = plus(powers.get(factor, 0), exponent)
            _gather(result, frozenset([item for item in powers.items() if item[1] != 0]), times(c, d))
    return result


def _gather(polynomial: Polynomial, powers: Powers, coefficient: Number) -> None:
    polynomial[powers] = plus(polynomial.get(powers, 0), coefficient)
    if polynomial[powers] == 0:
        del polynomial[powers]


def _joined(denominator: Factor, inside: Polynomial, terms: Sequence[_Term], shape: Shape) -> Expr | None:
    """The sum of some terms with one fraction for all powers of a denominator that differ by whole numbers, if nothing
    is lost by it."""
    classes: dict[Number, Polynomial] = {}
    for powers, coefficient in _items(terms):
        _gather(classes.setdefault(dict(powers).get(denominator, 0) % 1, {}), powers, coefficient)
    if sum(map(len, classes.values())) == len(_items(terms)) and all(
        len(_exponents(denominator, products)) == 1 for products in classes.values()
    ):
        return None  # nothing cancels
    joined = [_fraction(denominator, inside, products, terms, shape) for products in classes.values() if products]
    found = [fraction for fraction in joined if fraction is not None]
    return construct.add(found) if 0 < len(found) == len(joined) else None


def _exponents(denominator: Factor, products: Iterable[Powers]) -> set[Number]:
    return {dict(powers).get(denominator, 0) for powers in products}


def _fraction(
    denominator: Factor, inside: Polynomial, products: Polynomial, terms: Sequence[_Term], shape: Shape
) -> Expr | None:
    """Products with some powers of a denominator as one fraction."""
    exponents, growing, sizes = _exponents(denominator, products), _factors_of(inside), dict(enumerate(shape))
    least = min(exponents)
    if len(exponents) > 1 and not all(x <= 0 and x - least <= STEPS for x in exponents):
        return None
    numerator = _multiplied(products, denominator, least, inside)
    if not numerator or not _grows_less(numerator, terms, growing):
        return None
    groups = {frozenset([item for item in powers if item[0] in growing]) for powers in numerator}
    is_smaller = len(groups) == 1 or _is_smaller(numerator, _bounds(denominator, least, inside, terms))
    if not is_smaller and not _is_of_one_sign(_products(numerator, sizes)):
        return None
    fraction = _times(numerator, {frozenset({(denominator, least)}): 1} if least else {frozenset(): 1})
    return _expression(fraction, {denominator, *growing}, sizes)


def _items(terms: Sequence[_Term]) -> list[tuple[Powers, Number]]:
    return [item for term in terms for item in term.products.items()]


def _multiplied(total: Polynomial, denominator: Factor, least: Number, inside: Polynomial) -> Polynomial:
    """What is above a power of a denominator."""
    result: Polynomial = {}
    for powers, coefficient in total.items():
        product: Polynomial = {frozenset([item for item in powers if item[0] != denominator]): coefficient}
        for _ in range(int(dict(powers).get(denominator, 0) - least)):
            product = _times(product, inside)
        for own, number in product.items():
            _gather(result, own, number)
    return result


def _bounds(denominator: Factor, least: Number, inside: Polynomial, terms: Sequence[_Term]) -> Polynomial:
    """What is above a power of a denominator, with absolute values for coefficients: of those terms of which all that
    is multiplied out has one sign."""
    kept: Polynomial = {}
    is_exact = _is_of_one_sign(denominator[0].children)
    for powers, coefficient in _items([term for term in terms if term.exact]):
        step = dict(powers).get(denominator, 0) - least
        if step == 0 or (is_exact and step > 0 and is_whole(step)):
            _gather(kept, powers, max(coefficient, -coefficient))
    absolute: Polynomial = {powers: max(c, -c) for powers, c in inside.items()}
    return _multiplied(kept, denominator, least, absolute)


def _is_smaller(polynomial: Polynomial, other: Polynomial) -> bool:
    return all(max(c, -c) <= 2 * other.get(powers, 0) for powers, c in polynomial.items())


def _grows_less(products: Iterable[Powers], terms: Sequence[_Term], factors: Iterable[Factor]) -> bool:
    """Whether each of some products has no higher powers of some factors than what was multiplied for a term, or is one
    variable: that is a number as long as people give one."""
    limits = [dict(powers) for term in terms for factor in term.factors for powers in factor]

    def is_within(powers: Mapping[Factor, Number], limit: Mapping[Factor, Number]) -> bool:
        return all(powers.get(x, 0) <= max(0, limit.get(x, 0)) for x in factors)

    def is_variable(powers: Mapping[Factor, Number]) -> bool:
        grown = [(base, powers[base, labels]) for base, labels in factors if (base, labels) in powers]
        return len(grown) == 1 and isinstance(grown[0][0], Variable) and grown[0][1] == 1

    found = [dict(powers) for powers in products]
    return all(is_variable(own) or any(is_within(own, limit) for limit in limits) for own in found)


def _is_of_one_sign(terms: Iterable[Expr]) -> bool:
    """Whether no term has a negative entry, or none a positive one."""
    signs = {interval(term).sign for term in terms}
    return signs <= {0, 1} or signs <= {0, -1}


def _products(polynomial: Polynomial, sizes: Mapping[int, Size]) -> list[Expr]:
    return [_product(c, powers, tuple(sizes), sizes) for powers, c in polynomial.items()]


def _product(
    coefficient: Number, powers: Iterable[tuple[Factor, Number]], output: Labels, sizes: Mapping[int, Size]
) -> Expr:
    factors = [(known_power(base, exponent), labels) for (base, labels), exponent in powers]
    return construct.einsum(coefficient, factors, output, sizes, inline=False)


def _expression(polynomial: Polynomial, factors: Collection[Factor], sizes: Mapping[int, Size]) -> Expr:
    """A sum of products: what they have of some factors in front, and those with equal powers of these as one."""
    least = {x: min(dict(powers).get(x, 0) for powers in polynomial) for x in factors}
    front = [(x, exponent) for x, exponent in least.items() if exponent != 0]
    inverse: Polynomial = {frozenset([(x, -exponent) for x, exponent in front]): 1}
    groups: dict[Powers, list[tuple[Number, Powers]]] = {}
    for powers, coefficient in _times(polynomial, inverse).items():
        own = frozenset([item for item in powers if item[0] in factors])
        groups.setdefault(own, []).append((coefficient, powers - own))
    rests = {own: _sum_of(products, sizes) for own, products in groups.items()}
    common = reduce(and_, [Counter(parts(rest)[1]) for rest in rests.values()])
    terms = []
    for own, rest in rests.items():
        left = (Counter(parts(rest)[1]) - common).elements()
        terms.append(_product(parts(rest)[0], [*own, *((factor, 1) for factor in left)], tuple(sizes), sizes))
    whole = (construct.add(terms), tuple(sizes))
    return _product(1, [*front, *common.items(), (whole, 1)], tuple(sizes), sizes)


def _sum_of(products: Iterable[tuple[Number, Powers]], sizes: Mapping[int, Size]) -> Expr:
    """A sum of products with all labels."""
    return construct.add([_product(c, powers, tuple(sizes), sizes) for c, powers in products])


def _operations(expr: Expr) -> int:
    """How many operations an entry takes, those of functions other than powers not counted."""
    order = post_order([expr], lambda x: x.children if _is_arithmetic(x) else ())
    return sum(_own_operations(node) for node in order if _is_arithmetic(node))


def _is_arithmetic(node: Expr) -> bool:
    if isinstance(node, Einsum):
        return node.is_product
    return isinstance(node, Add) or (isinstance(node, Map) and node.function.name == "pow")


def _own_operations(node: Expr) -> int:
    """Powers are counted without their division, which stands in the place of a multiplication."""
    if isinstance(node, Map):
        exponent = abs(power_parts(node)[1])
        return 0 if exponent == 1 else 1 if exponent in (HALF, 2) else 2
    if isinstance(node, Einsum):
        divides = all(power_parts(x)[1] < 0 for x in node.operands)
        return len(node.operands) - 1 + (divides or abs(node.coefficient) != 1)
    return len(node.children) - 1 + sum(power_parts(x)[1] < 0 for x in node.children)
