"""Rules for functions of Kronecker products of square matrices: those of the factors, which are smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import Factor
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Constant, Expr, Variable, is_contraction
from eindiff.core.rewrite import rule
from eindiff.core.sizes import Size
from eindiff.functions.elementwise import exp, power
from eindiff.functions.matrices import det, inv, logabsdet, logdet, signdet
from eindiff.functions.reductions import prod


def _factors(a: Expr) -> tuple[Expr, list[Expr]] | None:
    """The map from the indices of the factors to those of a Kronecker product, and its factors, which are square."""
    if not is_contraction(a) or a.ndim != 2:
        return None
    maps = {labels[0]: (x, labels[1:]) for x, labels in a.factors if _is_numbering(x)}
    if {*a.output} != {*maps} or len({x for x, _ in maps.values()}) != 1:
        return None
    (number, rows), (_, columns) = (maps[label] for label in a.output)
    rest = [(x, own) for x, own in a.factors if x is not number]
    found = [_between(row, column, rest, a.sizes) for row, column in zip(rows, columns, strict=True)]
    matrices = [x for x, _ in (one for one in found if one is not None)]
    if len(matrices) < len(found) or sum(one[1] for one in found if one is not None) != len(rest):
        return None
    return number, matrices


def _is_numbering(x: Expr) -> bool:
    """Whether a constant numbers the tuples of several indices, each once."""
    if not isinstance(x, Constant) or not isinstance(x.value, IndexMap) or len(x.value.inputs) < 2:
        return False
    return x.value.injective and sz.product(x.value.inputs) == x.value.size


def _between(row: int, column: int, factors: Sequence[Factor], sizes: Sequence[Size]) -> tuple[Expr, int] | None:
    """The matrix that factors with the labels of a row and a column make up, and their number. None if others do."""
    inside = {row, column}
    while (more := inside.union(*(own for _, own in factors if inside & {*own}))) != inside:
        inside = more
    own = [factor for factor in factors if inside & {*factor[1]}]
    if sizes[row] != sizes[column]:
        return None
    return construct.einsum(1, own, (row, column), {label: sizes[label] for label in inside}), len(own)


@rule("inv")
def inverse_of_kronecker_product(a: Expr) -> Expr | None:
    """inv(kron(A, B)) = kron(inv(A), inv(B)). Smaller arguments."""
    if (found := _factors(a)) is None:
        return None
    number, matrices = found
    count = len(matrices)
    rows, columns = tuple(range(2, 2 + count)), tuple(range(2 + count, 2 + 2 * count))
    sizes = {0: a.shape[0], 1: a.shape[1]}
    for row, column, matrix in zip(rows, columns, matrices, strict=True):
        sizes[row], sizes[column] = matrix.shape
    inverses = [(inv(x), own) for x, own in zip(matrices, zip(rows, columns, strict=True), strict=True)]
    return construct.einsum(1, [(number, (0, *rows)), (number, (1, *columns)), *inverses], (0, 1), sizes)


@rule("det")
def determinant_of_kronecker_product(a: Expr) -> Expr | None:
    """det(kron(A, B)) = det(A)^m det(B)^n for an n × n matrix A and an m × m matrix B. Smaller arguments."""
    found = _factors(a)
    result = construct.filled(1, ())
    for matrix in found[1] if found is not None else ():
        if not isinstance(whole := a.shape[0], int) or not isinstance(size := matrix.shape[0], int):
            return None
        result = result * power(det(matrix), whole // size)
    return None if found is None else result


def determinant_by_logarithms(a: Expr) -> Expr | None:
    """The same of a multiple of such, for sizes that are not known, by signs and logarithms: powers may be too large
    where their product is not. Its derivatives have logarithms of 0 where a factor is singular: a form for programs."""
    coefficient, factors, output, _ = construct.parts(a)
    found = _factors(factors[0][0]) if [sorted(own) for _, own in factors] == [sorted({*output})] else None
    if found is None:
        return None
    matrices = [construct.scale(coefficient, found[1][0]), *found[1][1:]]
    result = exp(_sum_of_logarithms(logabsdet, matrices))
    for k, matrix in enumerate(matrices):
        beside = [x.shape[0] for other, x in enumerate(matrices) if other != k]
        result = result * prod(signdet(matrix) * construct.filled(1, (sz.product(beside),)))
    return result


@rule("logdet")
def log_determinant_of_kronecker_product(a: Expr) -> Expr | None:
    """logdet(kron(A, B)) = m logdet(A) + n logdet(B) for definite matrices. Smaller arguments."""
    found = _factors(a)
    if found is None or not all(isinstance(x, Variable) and "psd" in x.properties for x in found[1]):
        return None
    return _sum_of_logarithms(logdet, found[1])


@rule("logabsdet")
def log_absolute_determinant_of_kronecker_product(a: Expr) -> Expr | None:
    """logabsdet(kron(A, B)) = m logabsdet(A) + n logabsdet(B). Smaller arguments."""
    found = _factors(a)
    return None if found is None else _sum_of_logarithms(logabsdet, found[1])


def _sum_of_logarithms(logarithm: Callable[[Expr], Expr], matrices: Sequence[Expr]) -> Expr:
    """Logarithms of determinants, each as often as the other matrices have rows together."""
    sizes = {k: x.shape[0] for k, x in enumerate(matrices)}
    ones = {k: (construct.filled(1, (size,)), (k,)) for k, size in sizes.items()}
    terms = []
    for own, matrix in enumerate(matrices):
        beside = [factor for k, factor in ones.items() if k != own]
        terms.append(construct.einsum(1, [(logarithm(matrix), ()), *beside], (), sizes))
    return construct.add(terms)
