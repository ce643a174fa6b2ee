"""Rules for functions of matrices: inverses, determinants, matrix exponential."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from eindiff.core import construct
from eindiff.core.coefficients import Number, to_power
from eindiff.core.construct import Factor, parts, scale
from eindiff.core.index_relations import IndexMap
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import Add, Constant, Einsum, Expr, Variable, is_contraction, is_index_map, variables
from eindiff.core.rewrite import rule
from eindiff.core.sizes import Size
from eindiff.functions.elementwise import exp, power
from eindiff.functions.frechet import expm, frechet_function
from eindiff.functions.matrices import det, inv, logabsdet, logdet, signdet
from eindiff.functions.multilinear import tr
from eindiff.functions.reductions import prod
from eindiff.functions.rules.shapes import is_apply

# Inverses and determinants


def _wrapped(x: Expr) -> tuple[Number, Expr, bool] | None:
    """A square matrix as number, matrix and whether it is transposed, if it is a multiple or a transpose of a node."""
    coefficient, factors, output, _ = parts(x)
    if len(factors) != 1 or len(output) != 2 or len(set(output)) != 2 or sorted(factors[0][1]) != [0, 1]:
        return None
    transposed = factors[0][1] != output
    return (coefficient, factors[0][0], transposed) if transposed or coefficient != 1 else None


def _diagonal(x: Expr) -> Expr | None:
    """The vector of a diagonal matrix, or of a sum of such: `diag(v) + c I` is none by itself."""
    if isinstance(x, Add):
        entries = [vector for term in x.terms if (vector := _diagonal(term)) is not None]
        return construct.add(entries) if len(entries) == len(x.terms) else None
    if not isinstance(x, Einsum) or x.output != (0, 0):
        return None
    return construct.einsum(x.coefficient, x.factors, (0,), {0: x.sizes[0]})


def square_chain(x: Expr) -> list[Expr] | None:
    """The factors of a product of square matrices, each transposed as it stands there; vectors between are diagonal."""
    if not isinstance(x, Einsum) or x.is_product or any(s != x.sizes[0] for s in x.sizes) or x.ndim != 2:
        return None
    at, end = x.output
    left, chain, steps = x.factors, [], 0
    while left:
        step = next((f for f in left if {*f[1]} == {at}), None) or next((f for f in left if at in f[1]), None)
        if step is None or len(step[1]) > 2:
            return None
        left.remove(step)
        chain.append(_turned(step, at, x.sizes[0]))
        if len({*step[1]}) == 2:
            at, steps = step[1][step[1][0] == at], steps + 1
    return chain if at == end and steps == len(x.sizes) - 1 else None


def _turned(factor: Factor, row: int, size: Size) -> Expr:
    """A factor as a matrix with the given label as its row; one that has no other label as a diagonal matrix."""
    node, labels = factor
    if len({*labels}) == 1:
        return construct.einsum(1, [(node, (0,) * len(labels))], (0, 0), {0: size})
    return node if labels[0] == row else construct.transpose(node, (1, 0))


def scaled(x: Expr) -> tuple[list[Factor], Factor] | None:
    """A multiple of a square matrix with its rows or columns multiplied by vectors: these, numbers among them, and the
    matrix."""
    coefficient, factors, output, sizes = parts(x)
    matrices = [factor for factor in factors if len({*factor[1]}) == 2]
    others = [factor for factor in factors if len({*factor[1]}) < 2]
    if len(output) != 2 or {*output} != {label for _, labels in factors for label in labels} or len(matrices) != 1:
        return None
    if len(others) + 1 < len(factors) or len(matrices[0][1]) != 2 or not (others or coefficient != 1):
        return None
    single = [(construct.einsum(1, [factor], (*{*factor[1]},), sizes), (*{*factor[1]},)) for factor in others]
    return single, matrices[0]


def _in_basis(a: Expr) -> tuple[Expr, Expr] | None:
    """An orthogonal Q and X without it, if a sum is Q X Q': its terms are such products, or multiples of I = Q Q'."""
    operands = [x for term in a.terms for x, _ in parts(term)[1]] if isinstance(a, Add) and a.ndim == 2 else []
    inside = dict.fromkeys(y for x in operands for y in (x.operands if isinstance(x, Einsum) else ()))
    for q in (x for x in inside if _is_orthogonal(x) and x.shape == a.shape):
        for basis in (q, construct.transpose(q, (1, 0))):
            found = construct.add([construct.transpose(basis, (1, 0)) @ term @ basis for term in a.children])
            if q not in variables(found):
                return basis, found
    return None


@rule("inv")
def inverse_in_basis(a: Expr) -> Expr | None:
    """inv(Q X Q' + c I) = Q inv(X + c I) Q' for an orthogonal Q. Two factors less inside."""
    if (found := _in_basis(a)) is None:
        return None
    basis, inside = found
    return basis @ inv(inside) @ construct.transpose(basis, (1, 0))


@rule("det")
def determinant_in_basis(a: Expr) -> Expr | None:
    """det(Q X Q' + c I) = det(X + c I) for an orthogonal Q. Two factors less inside."""
    found = _in_basis(a)
    return None if found is None else det(found[1])


@rule("logdet")
def log_determinant_in_basis(a: Expr) -> Expr | None:
    """logdet(Q X Q' + c I) = logdet(X + c I) for an orthogonal Q. Two factors less inside."""
    found = _in_basis(a)
    return None if found is None else logdet(found[1])


def _common_factor(a: Expr) -> list[Expr] | None:
    """Two matrices whose product is a sum: the square matrix that all terms begin with, or end, and the sum of what is
    left of them. It is multiplied out in `S (I + x x')`, as it would be with a vector."""
    if not isinstance(a, Add) or a.ndim != 2:
        return None
    for side in (0, 1):
        taken = [_without_factor(term, side) for term in a.terms]
        found = {pair[0] for pair in taken if pair is not None}
        if None not in taken and len(found) == 1:
            both = [found.pop(), construct.add([pair[1] for pair in taken if pair is not None])]
            return both if side == 0 else both[::-1]
    return None


def _without_factor(term: Expr, side: int) -> tuple[Expr, Expr] | None:
    """The square matrix that a product of matrices begins with (0), or ends (1), and the product without it."""
    coefficient, factors, output, sizes = parts(term)
    opened_factors = [
        one
        for node, own in factors
        for one in (opened(node, own, fresh_in(sizes)) if is_contraction(node) else [(node, own)])
    ]
    at, end = output[side], output[1 - side]
    near = [factor for factor in opened_factors if at in factor[1]]
    if at == end or len(near) != 1 or len(near[0][1]) != 2 or is_index_map(near[0][0]):
        return None
    node, labels = near[0]
    inner = labels[labels[0] == at]
    if inner == at or sizes[inner] != sizes[at]:
        return None
    rest = [factor for factor in opened_factors if factor is not near[0]]
    ends = (inner, end) if side == 0 else (end, inner)
    matrix = node if labels[side] == at else construct.transpose(node, (1, 0))
    return matrix, construct.einsum(coefficient, rest, ends, sizes)


@rule("inv")
def inverse_of(a: Expr) -> Expr | None:
    """inv(inv(A)) = A, inv(c A') = inv(A)'/c, inv(diag(v)) = diag(1/v), inv(A B) = inv(B) inv(A), also with a diagonal
    A or B, and of A C + A D. Smaller arguments."""
    if is_apply(a, "inv"):
        return a.args[0]
    if _is_orthogonal(a):
        return construct.transpose(a, (1, 0))
    if isinstance(a, Constant) and isinstance(a.value, IndexMap) and a.value.injective:  # square: a permutation
        return construct.transpose(a, (1, 0))
    if (wrapped := _wrapped(a)) is not None:
        coefficient, node, transposed = wrapped
        result = construct.transpose(inv(node), (1, 0)) if transposed else inv(node)
        inverse = to_power(coefficient, -1)
        return None if inverse is None else scale(inverse, result)
    if (vector := _diagonal(a)) is not None:
        return construct.einsum(1, [(power(vector, -1), (0,))], (0, 0), {0: a.shape[0]})
    if (chain := square_chain(a) or _common_factor(a)) is not None:
        inverses = {factor: inv(factor) for factor in dict.fromkeys(chain)}  # a power may have the same factor often
        result = inverses[chain[0]]
        for factor in chain[1:]:
            result = inverses[factor] @ result
        return result
    return _inverse_of_scaled(a)


def _inverse_of_scaled(a: Expr) -> Expr | None:
    """inv(diag(u) A diag(v)) = diag(1/v) inv(A) diag(1/u)."""
    coefficient, _, (row, column), _ = parts(a)
    if (found := scaled(a)) is None or (inverse := to_power(coefficient, -1)) is None:
        return None
    vectors, (matrix, labels) = found
    factors = [(power(vector, -1), own) for vector, own in vectors] + [(inv(matrix), labels[::-1])]
    return construct.einsum(inverse, factors, (column, row), {row: a.shape[0], column: a.shape[1]})


@rule("det")
def determinant_of(a: Expr) -> Expr | None:
    """det(inv(A)) = 1/det(A), det(A') = det(A), det(diag(v)) = prod(v), det(A B) = det(A) det(B), where det(Q)² = 1 for
    an orthogonal Q. Smaller arguments."""
    if is_apply(a, "inv"):
        return power(det(a.args[0]), -1)
    if (wrapped := _wrapped(a)) is not None:
        coefficient, node, _ = wrapped
        if coefficient == 1:
            return det(node)
        taken = to_power(coefficient, a.shape[0]) if isinstance(a.shape[0], int) else None
        return None if taken is None else scale(taken, det(node))
    if (vector := _diagonal(a)) is not None:
        return prod(vector)
    if (chain := square_chain(a)) is not None and not any(map(is_index_map, a.children)):
        result = construct.filled(1, ())
        for factor, count in Counter(map(_untransposed, chain)).items():
            result = result * power(det(factor), count % 2 if _is_orthogonal(factor) else count)
        return result
    return None


def _untransposed(x: Expr) -> Expr:
    """The node that a matrix is the transpose of, which has the same determinant; else the matrix."""
    wrapped = _wrapped(x)
    return wrapped[1] if wrapped is not None and wrapped[0] == 1 else x


def _is_orthogonal(x: Expr) -> bool:
    return isinstance(x, Variable) and "orthogonal" in x.properties


@rule("logabsdet")
def log_absolute_determinant_of(a: Expr) -> Expr | None:
    """logabsdet(inv(A)) = -logabsdet(A), logabsdet(A') = logabsdet(A), logabsdet(A B) = logabsdet(A) + logabsdet(B),
    also of A C + A D, and 0 for an orthogonal matrix. Smaller arguments."""
    if is_apply(a, "inv"):
        return scale(-1, logabsdet(a.args[0]))
    if _is_orthogonal(a):
        return construct.filled(0, ())
    if (chain := square_chain(a) or _common_factor(a)) is not None and not any(map(is_index_map, a.children)):
        return construct.add([scale(count, logabsdet(x)) for x, count in Counter(map(_untransposed, chain)).items()])
    node = _untransposed(a)
    return None if node is a else logabsdet(node)


@rule("signdet")
def sign_of_determinant_of(a: Expr) -> Expr | None:
    """signdet(inv(A)) = signdet(A), signdet(A') = signdet(A). Smaller arguments."""
    node = a.args[0] if is_apply(a, "inv") else _untransposed(a)
    return None if node is a else signdet(node)


@rule("logdet")
def log_determinant_of(a: Expr) -> Expr | None:
    """logdet(inv(A)) = -logdet(A), logdet(A') = logdet(A). Smaller arguments."""
    if is_apply(a, "inv"):
        return scale(-1, logdet(a.args[0]))
    wrapped = _wrapped(a)
    return logdet(wrapped[1]) if wrapped is not None and wrapped[0] == 1 else None


def _exponent(a: Expr) -> Expr | None:
    """The matrix that an expression is the exponential of."""
    return a.children[0] if is_apply(a, "expm") and len(a.children) == 1 else None


@rule("logdet")
def log_determinant_of_exponential(a: Expr) -> Expr | None:
    """logdet(expm(A)) = tr(A). One node less."""
    inner = _exponent(a)
    return None if inner is None else tr(inner)


@rule("det")
def determinant_of_exponential(a: Expr) -> Expr | None:
    """det(expm(A)) = exp(tr(A)). The determinant goes away."""
    inner = _exponent(a)
    return None if inner is None else exp(tr(inner))


@rule("inv")
def inverse_of_exponential(a: Expr) -> Expr | None:
    """inv(expm(A)) = expm(-A). One node less."""
    inner = _exponent(a)
    return None if inner is None else expm(scale(-1, inner))


@rule("expm")
def exponential_of_logarithm(a: Expr, *directions: Expr) -> Expr | None:
    """expm(logm(A)) = A. Two nodes less."""
    return a.children[0] if not directions and is_apply(a, "logm") and len(a.children) == 1 else None


@rule("logdet")
def log_determinant_of_cholesky(a: Expr) -> Expr | None:
    """logdet(chol(A)) = logdet(A)/2 for a symmetric A. One node less."""
    if not is_apply(a, "chol") or construct.transpose_core(a.children[0]) is not a.children[0]:
        return None
    return scale(Fraction(1, 2), logdet(a.children[0]))


def _transpose_rules() -> None:
    """One rule for each matrix function."""
    for name in ("expm", "logm", "sqrtm"):

        def function_of_transpose(a: Expr, *directions: Expr, name: str = name) -> Expr | None:
            """f(A') = f(A)' and D f(A')[E] = D f(A)[E']'. One transposition less inside."""
            _, factors, output, _ = parts(a)
            if output != (0, 1) or [labels for _, labels in factors if labels] != [(1, 0)]:
                return None
            turned = [construct.transpose(x, (1, 0)) for x in (a, *directions)]
            return construct.transpose(construct.apply(frechet_function(name, len(directions)), turned), (1, 0))

        rule(name)(function_of_transpose)


_transpose_rules()
