"""Operations that every program takes, whichever way products are ordered, multiplied out or joined.

A program for a sum computes each of its terms too, if the others are zero at some variables: `A B + A C` is `A B` at
C = 0. So a sum takes at least what a term takes that can be left alone so, and a term at least what the best order of
multiplication takes (`contraction_order.least_flops`). A product with an inverse is a system of equations, which takes
no less than a product with a matrix, after its matrix was factorized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.labels import Labels, components, first_appearance
from eindiff.core.leaves import TRIANGLES
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Variable, is_inverse, variables
from eindiff.core.sizes import Evaluate, Size
from eindiff.planning.contraction_order import least_flops

MOST_OF_SUM = 64  # of a sum that is multiplied out
# Products with matrices that have these take half of the work at least, and those of two triangles a sixth.
OF_HALF_THE_WORK = frozenset({"symmetric", "psd", "positive", "lower", "upper", "orthogonal"})

Term = tuple[list[Factor], Labels, dict[int, Size]]


def lower_bound(output: Expr, evaluate: Evaluate) -> float | None:
    """Operations on numbers that every program for an output takes; None where nothing is known."""
    _, factors, _, _ = construct.parts(output)
    alone = len(factors) == 1 and len(set(factors[0][1])) == len(factors[0][1])  # besides deltas and ones
    terms = _terms(factors[0][0] if alone else output)
    if terms is None or not all(map(_is_simple, terms)):
        return None
    nodes = {x for factors, _, _ in terms for x, _ in factors if not isinstance(x, Variable)}
    inside = {v.name for x in nodes for v in variables(x)}
    bounds = []
    for term in terms:
        own = {v.name for x, _ in term[0] for v in variables(x)}
        gone = [_names(other) - own - inside for other in terms if other is not term]
        if all(gone) and (bound := _of_product(term, evaluate)) is not None:
            bounds.append(bound)
    return max(bounds, default=None)


def _names(term: Term) -> set[str]:
    """The variables that a term is a multiple of, if they may be 0."""
    return {x.name for x, _ in term[0] if isinstance(x, Variable) and "orthogonal" not in x.properties}


def _is_simple(term: Term) -> bool:
    """Whether no factors of a product cancel, as those of `Q'Q` and `inv(A) A` do."""
    found = _terms(construct.einsum(1, *term))
    return found is not None and [Counter(x for x, _ in own) for own, _, _ in found] == [Counter(x for x, _ in term[0])]


def _terms(expr: Expr) -> list[Term] | None:
    """The products that an expression is the sum of; None if these are too many, or more than products."""
    axes = tuple(range(expr.ndim))
    waiting: list[Term] = [([(expr, axes)], axes, dict(enumerate(expr.shape)))]
    done: list[Term] = []
    while waiting:
        factors, output, sizes = waiting.pop()
        place = next((k for k, (node, _) in enumerate(factors) if isinstance(node, Add | Einsum)), None)
        if place is None:
            done.append((factors, output, sizes))
            continue
        parts = list(_parts(*factors[place], sizes))
        if not parts or len(waiting) + len(done) + len(parts) > MOST_OF_SUM:
            return None
        waiting += [([*factors[:place], *part, *factors[place + 1 :]], output, dict(sizes)) for part in parts]
    return done


def _parts(node: Expr, labels: Labels, sizes: dict[int, Size]) -> Iterator[Sequence[Factor]]:
    """What a sum or a product is made of, one after the other; nothing if it has deltas, ones or equal axes."""
    if isinstance(node, Add):
        yield from ([(term, labels)] for term in node.terms)
    elif isinstance(node, Einsum):
        bound = {label for own in node.labels for label in own}
        distinct = len(set(node.output)) == len(node.output) and set(node.output) <= bound
        if distinct and len(set(labels)) == len(labels):
            yield opened(node, labels, fresh_in(sizes))


def _is_circle(factors: Sequence[Labels]) -> bool:
    """Whether some matrices are in a circle."""
    return len(components(factors)) + sum(map(len, factors)) - len(factors) > len(set().union(*factors))


def _of_product(term: Term, evaluate: Evaluate) -> float | None:
    """What every order of multiplication takes of a product of variables and inverses of variables."""
    factors, output, sizes = term
    factors = [(node, labels) for node, labels in factors if labels]
    nodes, own = [node for node, _ in factors], [labels for _, labels in factors]
    names = first_appearance(own)
    if len(factors) < 2 or not _is_plain(own, output) or not all(map(_is_known, nodes)):
        return None
    inputs = [tuple([names[label] for label in labels]) for labels in own]
    known = {names[label]: evaluate(sizes[label]) for label in names}
    if _is_circle([labels for node, labels in factors if _variable(node).properties & TRIANGLES]):
        return None  # of which only the diagonals may count, as in `tr(L M)`
    least = least_flops(inputs, tuple([names[label] for label in output]), known, [x.digest for x in nodes])
    return least / _saved(nodes) + _factorizations(nodes, evaluate) if least else None


def _is_plain(labels: Sequence[Labels], output: Labels) -> bool:
    """Whether a product has no deltas, ones or diagonals of factors."""
    return set(output) <= set().union(*labels) and all(len(set(own)) == len(own) for own in (output, *labels))


def _saved(nodes: Sequence[Expr]) -> int:
    """By how much properties of matrices may divide the work of their product."""
    properties = [_variable(node).properties for node in nodes]
    triangles = sum(bool(x & TRIANGLES) for x in properties)
    others = sum(bool(x - TRIANGLES) for x in properties)
    return 2**others * (6 if triangles > 1 else 1 + triangles)


def _factorizations(nodes: Sequence[Expr], evaluate: Evaluate) -> float:
    """What the factorizations of general matrices take that are inverted."""
    inverted = {_variable(node) for node in nodes if not isinstance(node, Variable)}
    return sum(2 / 3 * evaluate(x.shape[0]) ** 3 for x in inverted if not x.properties)


def _variable(node: Expr) -> Variable:
    found = node.args[0] if isinstance(node, Apply) else node
    assert isinstance(found, Variable)
    return found


def _is_known(node: Expr) -> bool:
    """Whether a factor is a variable, or the inverse of one, with properties that save no more than half."""
    if is_inverse(node) and node.ndim == 2:
        node = node.args[0]
    return isinstance(node, Variable) and node.properties <= OF_HALF_THE_WORK and node.into is None
