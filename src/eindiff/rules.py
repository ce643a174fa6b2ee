"""Rewrite rules: what holds beyond the canonical form of sums and products.

A rule is a plain function that gets what a node is about to be made of, and returns something better or None. Its
docstring states the identity and why applying it ends. The engine is in `rewrite.py`; constructors run it, so an
expression that exists is simplified. Rules that are not always wanted are in `simplify.py`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from eindiff import construct
from eindiff.constants import IndexMap
from eindiff.construct import is_number, parts, scale
from eindiff.expr import Add, Apply, Constant, Einsum, Expr, Map, Number, Variable, number
from eindiff.functions import abs as absolute
from eindiff.functions import exp, log, power, sigmoid, softplus
from eindiff.matrix_functions import det, inv, logdet, logsumexp, prod
from eindiff.rewrite import rule

if TYPE_CHECKING:
    from eindiff.construct import Network


def _is_map(expr: Expr, name: str) -> bool:
    return isinstance(expr, Map) and expr.function.name == name


def _is_apply(expr: Expr, name: str) -> bool:
    return isinstance(expr, Apply) and expr.function.name == name


def _bare(expr: Expr) -> tuple[Number, Expr]:
    """A multiple of an expression as the number and the expression."""
    coefficient, factors, output, sizes = parts(expr)
    return (coefficient, construct.einsum(1, factors, output, sizes)) if coefficient not in (0, 1) else (1, expr)


# exp and log, and the stable forms of what they are used for


@rule("exp")
def exp_of_log(x: Expr) -> Expr | None:
    """exp(log(x)) = x. One node less."""
    return x.args[0] if _is_map(x, "log") else None  # type: ignore[attr-defined]


@rule("log")
def log_of_exp(x: Expr) -> Expr | None:
    """log(exp(x)) = x. One node less."""
    return x.args[0] if _is_map(x, "exp") else None  # type: ignore[attr-defined]


@rule("log")
def log_of_power(x: Expr) -> Expr | None:
    """log(x^p) = p log(x), unless p is even and x may be negative. The argument of the log gets smaller."""
    base, exponent = construct.power_parts(x)
    even = exponent == int(exponent) and exponent % 2 == 0
    return scale(exponent, log(base)) if exponent != 1 and not even else None


@rule("log")
def log_of_sum_of_exponentials(x: Expr) -> Expr | None:
    """log(c exp(a) + c exp(b)) = log(c) + a + softplus(b - a), where 1 is exp(0). The log goes away."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 1 or not isinstance(factors[0][0], Add) or coefficient <= 0:
        return None
    exponents = [_exponent(term) for term in factors[0][0].terms]
    if None in exponents:
        return None
    first, *others = sorted((e for e in exponents if e is not None), key=lambda e: (not is_number(e), e.digest))
    total = first
    for exponent in others:
        total = construct.add([total, softplus(construct.add([exponent, scale(-1, total)]))])
    total = construct.einsum(1, [(total, factors[0][1])], output, sizes)
    return construct.add([total, log(construct.filled(coefficient, x.shape))])


def _exponent(term: Expr) -> Expr | None:
    """What a term is the exponential of, if it is one; positive numbers are."""
    coefficient, factors, output, sizes = parts(term)
    if is_number(term):
        return log(term) if coefficient > 0 else None
    if len(factors) != 1 or not _is_map(factors[0][0], "exp") or coefficient <= 0 or len(set(output)) < len(output):
        return None
    inner = construct.einsum(1, [(factors[0][0].args[0], factors[0][1])], output, sizes)  # type: ignore[attr-defined]
    return construct.add([inner, log(construct.filled(coefficient, term.shape))])


@rule("log")
def log_of_det(x: Expr) -> Expr | None:
    """log(det(A)) = logdet(A). One node less."""
    return logdet(x.args[0]) if _is_apply(x, "det") else None  # type: ignore[attr-defined]


@rule("log")
def log_of_sum_of_exp(x: Expr) -> Expr | None:
    """log(sum(exp(x))) = logsumexp(x). The log goes away."""
    if not isinstance(x, Einsum) or x.is_product or len(x.operands) != 1 or not _is_map(x.operands[0], "exp"):
        return None
    labels = x.labels[0]
    if len(set(labels)) < len(labels):
        return None
    axes = tuple(axis for axis, label in enumerate(labels) if label not in x.output)
    result = logsumexp(x.operands[0].args[0], axes)  # type: ignore[attr-defined]
    kept = [label for label in labels if label in x.output]
    return construct.transpose(result, [kept.index(label) for label in x.output])


@rule("log")
def log_of_sigmoid(x: Expr) -> Expr | None:
    """log(sigmoid(x)) = -softplus(-x). The log goes away."""
    return scale(-1, softplus(scale(-1, x.args[0]))) if _is_map(x, "sigmoid") else None  # type: ignore[attr-defined]


@rule("log1p")
def log1p_of_exp(x: Expr) -> Expr | None:
    """log1p(exp(x)) = softplus(x). One node less."""
    return softplus(x.args[0]) if _is_map(x, "exp") else None  # type: ignore[attr-defined]


@rule("pow")
def reciprocal_of_one_plus_exp(exponent: Number, x: Expr) -> Expr | None:
    """(1 + exp(x))^p = sigmoid(-x)^(-p). The exp goes away."""
    if not isinstance(x, Add) or len(x.terms) != 2 or exponent > 0:
        return None
    ones = [term for term in x.terms if is_number(term) and term.coefficient == 1]  # type: ignore[attr-defined]
    others = [term for term in x.terms if _is_map(term, "exp")]
    if not ones or not others:
        return None
    return power(sigmoid(scale(-1, others[0].args[0])), -exponent)  # type: ignore[attr-defined]


@rule("add")
def one_minus_sigmoid(terms: dict[Expr, Number], shape: tuple) -> Expr | None:
    """1 - sigmoid(x) = sigmoid(-x). One term less."""
    if len(terms) != 2:
        return None
    (a, ca), (b, cb) = sorted(terms.items(), key=lambda item: not is_number(item[0]))
    if is_number(a) and _is_map(b, "sigmoid") and ca == -cb:
        return scale(ca, sigmoid(scale(-1, b.args[0])))  # type: ignore[attr-defined]
    return None


@rule("einsum")
def exp_times_sigmoid(network: Network) -> bool | None:
    """exp(x) sigmoid(-x) = sigmoid(x). One factor less."""
    for i, (node, labels) in enumerate(network.factors):
        if not _is_map(node, "sigmoid"):
            continue
        mirrored = scale(-1, node.args[0])  # type: ignore[attr-defined]
        for j, (other, other_labels) in enumerate(network.factors):
            if _is_map(other, "exp") and other.args[0] is mirrored and other_labels == labels:  # type: ignore[attr-defined]
                network.factors[i] = (sigmoid(mirrored), labels)
                del network.factors[j]
                return True
    return None


@rule("einsum")
def exp_over_sum_of_exp(network: Network) -> bool | None:
    """exp(x) / sum(exp(x)) = exp(x - logsumexp(x)), the softmax. One factor less."""
    for i, (node, labels) in enumerate(network.factors):
        base, exponent = construct.power_parts(node)
        if exponent != -1 or not isinstance(base, Einsum) or base.is_product or len(base.operands) != 1:
            continue
        inner, axes = base.operands[0], base.labels[0]
        for j, (other, other_labels) in enumerate(network.factors):
            if other is not inner or not _is_map(inner, "exp") or len(set(axes)) < len(axes):
                continue
            if all(other_labels[axes.index(x)] == label for x, label in zip(base.output, labels, strict=True)):
                network.factors[j] = (_softmax(inner.args[0], base), other_labels)  # type: ignore[attr-defined]
                del network.factors[i]
                return True
    return None


def _softmax(x: Expr, total: Einsum) -> Expr:
    """exp(x - log(total)), where total is the sum of exp(x) over some axes."""
    sizes = dict(enumerate(total.sizes))
    spread = construct.einsum(-1, [(log(total), total.output)], total.labels[0], sizes)
    return exp(construct.add([x, spread]))


# Powers


@rule("pow")
def trivial_power(exponent: Number, x: Expr) -> Expr | None:
    """x^0 = 1, x^1 = x, x^2 = x x (two factors). The power goes away."""
    if exponent == 0:
        return construct.filled(1, x.shape)
    if exponent == 1:
        return x
    if exponent == 2:
        labels = tuple(range(x.ndim))
        return construct.einsum(1, [(x, labels), (x, labels)], labels, dict(enumerate(x.shape)))
    return None


@rule("pow")
def power_of_power(exponent: Number, x: Expr) -> Expr | None:
    """(x^p)^q = x^(pq) if q is an integer or x is positive. One node less."""
    base, inner = construct.power_parts(x)
    if inner == 1 or not (exponent == int(exponent) or _is_positive(base)):
        return None
    return power(base, number(inner * exponent))


@rule("pow")
def root_of_square(exponent: Number, x: Expr) -> Expr | None:
    """(x x)^(1/2) = abs(x), or x if it is positive; likewise for (x x)^(k/2). One node less."""
    coefficient, factors, output, sizes = parts(x)
    if len(factors) != 2 or factors[0] != factors[1] or coefficient <= 0 or exponent == int(exponent):
        return None
    base = construct.einsum(1, factors[:1], output, sizes)
    root = base if _is_positive(factors[0][0]) else absolute(base)
    return construct.scale(number(float(coefficient) ** float(exponent)), power(root, number(2 * exponent)))


@rule("pow")
def power_of_product(exponent: Number, x: Expr) -> Expr | None:
    """(c x y)^p = c^p x^p y^p for an integer p; otherwise c^p is taken out if c is positive. Smaller arguments."""
    coefficient, factors, output, sizes = parts(x)
    if not factors or (isinstance(x, Einsum) and x.is_product and len(set(output)) < len(output)):
        return None
    whole = exponent == int(exponent)
    if coefficient == 1 and (len(factors) == 1 or not whole):
        return None
    if not whole and coefficient < 0:
        return None
    taken = (
        Fraction(coefficient) ** int(exponent)
        if whole and not isinstance(coefficient, float)
        else float(coefficient) ** float(exponent)
    )
    if whole:
        return construct.einsum(
            number(taken), [(power(node, exponent), labels) for node, labels in factors], output, sizes
        )
    return scale(number(taken), power(construct.einsum(1, factors, output, sizes), exponent))


@rule("abs")
def abs_of_positive(x: Expr) -> Expr | None:
    """abs(x) = x for positive x, abs(c x) = |c| abs(x). Smaller arguments."""
    coefficient, rest = _bare(x)
    if _is_positive(rest):
        return scale(coefficient if coefficient > 0 else -coefficient, rest)
    return scale(coefficient if coefficient > 0 else -coefficient, absolute(rest)) if coefficient != 1 else None


def _is_positive(x: Expr) -> bool:
    """Whether the entries of an expression are positive for certain, by its outermost node."""
    if isinstance(x, Variable):
        return "positive" in x.properties
    return isinstance(x, Map) and x.function.name in ("exp", "sigmoid", "softplus", "cosh", "abs")


@rule("maximum")
def maximum_of_itself(a: Expr, b: Expr) -> Expr | None:
    """max(x, x) = x. One node less."""
    return a if a is b else None


@rule("where")
def same_choices(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    """where(c, x, x) = x. One node less."""
    return a if a is b else None


# Inverses and determinants


def _wrapped(x: Expr) -> tuple[Number, Expr, bool] | None:
    """A square matrix as number, matrix and whether it is transposed, if it is a multiple or a transpose of a node."""
    coefficient, factors, output, _ = parts(x)
    if len(factors) != 1 or len(output) != 2 or len(set(output)) != 2 or sorted(factors[0][1]) != [0, 1]:
        return None
    transposed = factors[0][1] != output
    return (coefficient, factors[0][0], transposed) if transposed or coefficient != 1 else None


def _diagonal(x: Expr) -> Expr | None:
    """The vector of a diagonal matrix."""
    if not isinstance(x, Einsum) or x.output != (0, 0):
        return None
    return construct.einsum(x.coefficient, list(zip(x.operands, x.labels, strict=True)), (0,), {0: x.sizes[0]})


def _square_chain(x: Expr) -> list[Expr] | None:
    """The factors of a product of square matrices, each transposed as it stands there."""
    if not isinstance(x, Einsum) or x.is_product or any(s != x.sizes[0] for s in x.sizes) or x.ndim != 2:
        return None
    at, end = x.output
    left, chain = list(zip(x.operands, x.labels, strict=True)), []
    while left:
        step = next((f for f in left if len(f[1]) == 2 and at in f[1] and f[1][0] != f[1][1]), None)
        if step is None:
            return None
        left.remove(step)
        forward = step[1][0] == at
        chain.append(step[0] if forward else construct.transpose(step[0], (1, 0)))
        at = step[1][1] if forward else step[1][0]
    return chain if at == end and len(chain) == len(x.sizes) - 1 else None


@rule("inv")
def inverse_of(a: Expr) -> Expr | None:
    """inv(inv(A)) = A, inv(c A') = inv(A)'/c, inv(diag(v)) = diag(1/v), inv(A B) = inv(B) inv(A). Smaller arguments."""
    if _is_apply(a, "inv"):
        return a.args[0]  # type: ignore[attr-defined]
    if isinstance(a, Variable) and "orthogonal" in a.properties:
        return construct.transpose(a, (1, 0))
    if (wrapped := _wrapped(a)) is not None:
        coefficient, node, transposed = wrapped
        result = construct.transpose(inv(node), (1, 0)) if transposed else inv(node)
        return scale(1 / Fraction(coefficient) if not isinstance(coefficient, float) else 1 / coefficient, result)
    if (vector := _diagonal(a)) is not None:
        return construct.einsum(1, [(power(vector, -1), (0,))], (0, 0), {0: a.shape[0]})
    if (chain := _square_chain(a)) is not None:
        result = inv(chain[0])
        for factor in chain[1:]:
            result = inv(factor) @ result
        return result
    return None


@rule("det")
def determinant_of(a: Expr) -> Expr | None:
    """det(inv(A)) = 1/det(A), det(A') = det(A), det(diag(v)) = prod(v), det(A B) = det(A) det(B). Smaller arguments."""
    if _is_apply(a, "inv"):
        return power(det(a.args[0]), -1)  # type: ignore[attr-defined]
    if (wrapped := _wrapped(a)) is not None:
        coefficient, node, _ = wrapped
        if coefficient == 1:
            return det(node)
        return (
            power(coefficient, construct.size_number(a.shape[0])) * det(node) if isinstance(a.shape[0], int) else None
        )
    if (vector := _diagonal(a)) is not None:
        return prod(vector)
    if (chain := _square_chain(a)) is not None:
        result = det(chain[0])
        for factor in chain[1:]:
            result = result * det(factor)
        return result
    return None


@rule("logdet")
def log_determinant_of(a: Expr) -> Expr | None:
    """logdet(inv(A)) = -logdet(A), logdet(A') = logdet(A). Smaller arguments."""
    if _is_apply(a, "inv"):
        return scale(-1, logdet(a.args[0]))  # type: ignore[attr-defined]
    wrapped = _wrapped(a)
    return logdet(wrapped[1]) if wrapped is not None and wrapped[0] == 1 else None


@rule("einsum")
def cancel_inverses(network: Network) -> bool | None:
    """A inv(A) = I, and Q'Q = Q Q' = I for an orthogonal Q. Two factors less."""
    uses = network.occurrences()
    for i, (node, labels) in enumerate(network.factors):
        inverse = _is_apply(node, "inv") and node.ndim == 2
        if not inverse and not (isinstance(node, Variable) and "orthogonal" in node.properties):
            continue
        for j, (other, other_labels) in enumerate(network.factors):
            if i == j or other is not (node.args[0] if inverse else node) or len(set(labels)) < 2:  # type: ignore[attr-defined]
                continue
            turned = [other_labels, *(tuple(other_labels[k] for k in p) for p, _ in other.symmetries)]
            for candidate in turned if inverse else [other_labels[::-1]]:
                for joint, mine, theirs in ((1, 0, 1), (0, 1, 0)):
                    x = labels[joint]
                    if candidate[1 - joint] == x and x in network.summed and uses[x] == 2:
                        network.summed.discard(x)
                        return _cancel(network, i, j, labels[mine], candidate[theirs])
    return None


def _cancel(network: Network, i: int, j: int, a: int, b: int) -> bool:
    """Take out two factors that make a delta of labels a and b."""
    network.factors = [factor for k, factor in enumerate(network.factors) if k not in (i, j)]
    network.unite(a, b)
    return True


# Index maps


def _maps(network: Network) -> list[tuple[int, IndexMap, tuple[int, ...]]]:
    return [
        (i, node.value, labels)
        for i, (node, labels) in enumerate(network.factors)
        if isinstance(node, Constant) and isinstance(node.value, IndexMap)
    ]


@rule("einsum")
def simplify_index_maps(network: Network) -> bool | None:
    """Fewer or smaller maps: an input of size 1 says nothing; the identity is a delta; a map whose target is summed
    away is all ones; the same injective map twice is the map once, and deltas; a map of a map is a map."""
    maps = _maps(network)
    if not maps:
        return None
    uses = network.occurrences()
    for i, outer, labels in maps:
        if 1 in outer.inputs:
            kept = [k for k, size in enumerate(outer.inputs) if size != 1]
            network.factors[i] = (construct.constant(outer.keep(kept)), (labels[0], *(labels[k + 1] for k in kept)))
            return True
        if outer.is_identity():
            network.unite(*labels)
            del network.factors[i]
            return True
        if labels[0] in network.summed and uses[labels[0]] == 1:
            network.summed.discard(labels[0])
            del network.factors[i]
            return True
        for j, other, other_labels in maps:
            if i != j and labels[0] == other_labels[0] and _meet(network, j, outer, labels, other, other_labels):
                return True
            if (
                i != j
                and other_labels[0] in network.summed
                and uses[other_labels[0]] == 2
                and other_labels[0] in labels[1:]
            ):
                axis = labels[1:].index(other_labels[0])
                composed = outer.compose(axis, other)
                if composed is not None:
                    network.summed.discard(other_labels[0])
                    network.factors[i] = (
                        construct.constant(composed),
                        (*labels[: axis + 1], *other_labels[1:], *labels[axis + 2 :]),
                    )
                    del network.factors[j]
                    return True
    return None


def _meet(network: Network, j: int, outer: IndexMap, labels: tuple, other: IndexMap, other_labels: tuple) -> bool:
    """Two maps with one target: the same one twice, or two that never meet."""
    if outer == other and outer.injective:
        for a, b in zip(labels[1:], other_labels[1:], strict=True):
            network.unite(a, b)
        del network.factors[j]
        return True
    if outer.disjoint(other):
        network.coefficient = 0
        return True
    return False
