"""Functions of whole tensors: the rows of the table that are not elementwise, and what is composed of them.

A derivative f' is an expression over the function's own factors, with the axes of the result first, so it can be
differentiated again and is never formed. Letters: i, j for the axes of the result, k, l for those of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import HALF
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import Lower
from eindiff.core.intervals import within
from eindiff.core.nodes import Expr
from eindiff.functions.elementwise import inverse_or_zero, reciprocal
from eindiff.functions.multilinear import Operand, as_expr, einsum, eye, multiply, square_matrix, sum
from eindiff.functions.table import row, written


def _same(shape: tuple) -> tuple:
    return shape


def _none(shape: tuple) -> tuple:
    return ()


def _lu_flops(n: int, _: int) -> float:
    return 2 * n**3 / 3


def _svd_flops(m: int, n: int) -> float:
    return 20.0 * m * n * min(m, n)


def _matrix(operation: str, a: Operand) -> Expr:
    a = as_expr(a)
    if a.ndim < 2:
        raise EindiffError(f"{operation} needs a matrix; {a} has shape {shape_text(a.shape)}", "shapes")
    return a


# Inverse and determinant


def _checked(value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NaN where a factorization fails or entries are not finite; evaluation reports where the first NaN came from."""

    def checked(a: np.ndarray) -> np.ndarray:
        bad = ~np.isfinite(a).all(axis=(-2, -1))
        unit = np.eye(*a.shape[-2:])
        try:
            result = value(np.where(bad[..., None, None], unit, a) if bad.any() else a)
        except np.linalg.LinAlgError:
            bad = np.ones_like(bad)
            result = value(np.broadcast_to(unit, a.shape))
        if not bad.any():
            return result
        return np.where(bad.reshape(bad.shape + (1,) * (result.ndim - bad.ndim)), np.nan, result)

    return checked


def _logdet_value(a: np.ndarray) -> np.ndarray:
    sign, value = np.linalg.slogdet(a)
    return np.where(sign > 0, value, np.nan)


_inv = row(
    "inv", _checked(np.linalg.inv), lambda a: -einsum("...ik,...lj->...ijkl", inv(a), inv(a)),
    domain="invertible", latex="{}^{{-1}}", core=(2,), output=_same, keeps_symmetry=True,
    flops=_lu_flops, factorization="lu", source=written("np.linalg.inv"),
)  # fmt: skip
_det = row(
    "det", np.linalg.det, lambda a: einsum("...,...lk->...kl", det(a), inv(a)),
    domain="invertible", latex=r"\det", core=(2,), output=_none, flops=_lu_flops, factorization="lu",
    source=written("np.linalg.det"),
)  # fmt: skip
_logdet = row(
    "logdet", _logdet_value, lambda a: einsum("...lk->...kl", inv(a)),
    domain="positive determinant", latex=r"\log\det", core=(2,), output=_none, flops=_lu_flops, factorization="lu",
    source=written("logdet"),
)  # fmt: skip
_signdet = row(
    "signdet", lambda a: np.linalg.slogdet(a)[0], None, domain="invertible", latex=r"\operatorname{sign}\det",
    core=(2,), output=_none, flops=_lu_flops, factorization="lu", bounds=within(-1, 1),
    source=written("np.linalg.slogdet({0})[0]"),
)  # fmt: skip
_logabsdet = row(
    "logabsdet", lambda a: np.linalg.slogdet(a)[1], lambda a: einsum("...lk->...kl", inv(a)), domain="invertible",
    latex=r"\log\operatorname{abs}\det", core=(2,), output=_none, flops=_lu_flops, factorization="lu",
    source=written("np.linalg.slogdet({0})[1]"),
)  # fmt: skip


def inv(a: Operand) -> Expr:
    """The inverse of a square matrix. Contracted with something it is computed as a solve; of a number it is 1/a.

    Args:
        a: a square matrix, or a stack of them; or a number

    >>> ed.inv(ed.inv(ed.matrix("A", "n", "n")))
    A
    """
    a = as_expr(a)
    return construct.apply(_inv, (square_matrix("inv", a),)) if a.ndim else reciprocal(a)


def det(a: Operand) -> Expr:
    """The determinant of a square matrix.

    Args:
        a: a square matrix, or a stack of them

    >>> ed.log(ed.det(ed.matrix("A", "n", "n")))
    logdet(A)
    """
    return construct.apply(_det, (square_matrix("det", a),))


def logdet(a: Operand) -> Expr:
    """The logarithm of the determinant of a square matrix, without overflow.

    Args:
        a: a square matrix, or a stack of them

    >>> ed.gradient(ed.logdet(ed.matrix("A", "n", "n")), "A")
    einsum('ji->ij', inv(A))
    """
    return construct.apply(_logdet, (square_matrix("logdet", a),))


def signdet(a: Operand) -> Expr:
    """The sign of the determinant of a square matrix."""
    return construct.apply(_signdet, (square_matrix("signdet", a),))


def logabsdet(a: Operand) -> Expr:
    """The logarithm of the absolute value of the determinant of a square matrix."""
    return construct.apply(_logabsdet, (square_matrix("logabsdet", a),))


def adj(a: Operand) -> Expr:
    """The adjugate of an invertible matrix, det(A) inv(A).

    Args:
        a: a square matrix, or a stack of them

    >>> ed.adj(ed.matrix("A", "n", "n"))
    einsum('ij,->ij', inv(A), det(A))
    """
    return einsum("...,...ij->...ij", det(a), inv(a))


def solve(a: Operand, b: Operand) -> Expr:
    """The solution x of A x = b; b is a vector or a matrix. The same as inv(A) @ b, which never forms the inverse.

    Args:
        a: a square matrix, or a stack of them
        b: a vector or a matrix

    >>> ed.solve(ed.matrix("A", "n", "n"), ed.vector("b", "n")).shape
    ('n',)
    """
    return inv(a) @ as_expr(b)


def matrix_power(a: Operand, exponent: int) -> Expr:
    """The matrix product of `exponent` copies of a square matrix; negative powers are those of the inverse.

    Args:
        a: a square matrix, or a stack of them
        exponent: a whole number

    >>> ed.matrix_power(ed.matrix("A", "n", "n"), 2)
    einsum('ij,jk->ik', A, A)
    """
    a = square_matrix("matrix_power", a)
    if not isinstance(exponent, int):
        raise EindiffError(f"matrix_power: the exponent is an integer, not {exponent!r}", "options")
    base = inv(a) if exponent < 0 else a
    result = einsum("...,ij->...ij", construct.filled(1, a.shape[:-2]), eye(a.shape[-1]))
    for bit in bin(exponent if exponent >= 0 else -exponent)[2:]:
        result = result @ result
        if bit == "1":
            result = result @ base
    return result


# Pseudo-inverse and Cholesky factor


def _pinv_derivative(a: Expr) -> Expr:
    """dP = -P dA P + P P' dA' (I - A P) + (I - P A) dA' P' P, at points of constant rank."""
    p = pinv(a)
    left, right = eye(p.shape[-1]) - a @ p, eye(p.shape[-2]) - p @ a
    return (
        einsum("...ip,...lp,...kj->...ijkl", p, p, left)
        + einsum("...il,...pk,...pj->...ijkl", right, p, p)
        - einsum("...ik,...lj->...ijkl", p, p)
    )


def _chol_derivative(a: Expr) -> Expr:
    """dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ takes the lower triangle and half the diagonal; dA is made symmetric."""
    factor = chol(a)
    inverse = inv(factor)
    lower = construct.constant(Lower(a.shape[-1])) - HALF * eye(a.shape[-1])
    one = einsum("...ip,pj,...pk,...jl->...ijkl", factor, lower, inverse, inverse)
    other = einsum("...ip,pj,...pl,...jk->...ijkl", factor, lower, inverse, inverse)
    return HALF * (one + other)


def _symmetrized(a: np.ndarray) -> np.ndarray:
    return (a + np.swapaxes(a, -1, -2)) / 2


_pinv = row(
    "pinv", _checked(np.linalg.pinv), _pinv_derivative, domain="full rank", latex="{}^{{+}}", core=(2,),
    output=lambda shape: shape[::-1], keeps_symmetry=True, flops=_svd_flops, factorization="svd",
    source=written("np.linalg.pinv", others={"torch": "pinv"}),
)  # fmt: skip
_chol = row(
    "chol", _checked(lambda a: np.linalg.cholesky(_symmetrized(a))), _chol_derivative, domain="positive definite",
    latex=r"\operatorname{chol}", core=(2,), output=_same, flops=lambda n, _: n**3 / 3,
    source=written("np.linalg.cholesky", others={"torch": "cholesky"}), symmetrizes=True,
)  # fmt: skip


def pinv(a: Operand) -> Expr:
    """The Moore-Penrose inverse of a matrix.

    Args:
        a: a matrix, or a stack of them

    >>> ed.pinv(ed.matrix("A", "m", "n")).shape
    ('n', 'm')
    """
    return construct.apply(_pinv, (_matrix("pinv", a),))


def chol(a: Operand) -> Expr:
    """The lower Cholesky factor of a positive definite matrix. The argument is taken as (A + A')/2.

    Args:
        a: a positive definite matrix, or a stack of them

    >>> ed.evaluate(ed.chol(ed.symmetric("S", 2)), {"S": [[4.0, 2.0], [2.0, 2.0]]})
    array([[2., 0.],
           [1., 1.]])
    """
    return construct.apply(_chol, (square_matrix("chol", a),))


# Eigenvalues and singular values


_DISTINCT = "distinct values, there is no derivative where two are equal"
_NONZERO = "values other than 0, there is no derivative at 0"


def _rounding(values: np.ndarray) -> np.ndarray:
    """Below which a difference of entries along the last axis counts as 0."""
    return 8 * values.shape[-1] * np.finfo(values.dtype).eps * np.abs(values).max(axis=-1, initial=0)[..., None]


def _ties(values: np.ndarray) -> np.ndarray:
    """Where two entries along the last axis are equal up to rounding, but no entry and itself."""
    gaps = np.abs(values[..., None, :] - values[..., :, None])
    return (gaps <= _rounding(values)[..., None]) & ~np.eye(values.shape[-1], dtype=bool)


def _gaps_derivative(x: Expr) -> Expr:
    unit = einsum("...,jk->...jk", construct.filled(1, x.shape[:-1]), eye(x.shape[-1]))
    return unit[..., None, :, :] - unit[..., :, None, :]


_gaps_row = row(
    "gaps", lambda x: np.where(_ties(x), np.nan, x[..., None, :] - x[..., :, None]), _gaps_derivative,
    domain=_DISTINCT, latex=r"\operatorname{gaps}", core=(1,), output=lambda s: s + s,
    flops=lambda n: 4 * n * n, source=written("gaps"),
    formula=lambda x: x[..., None, :] - x[..., :, None],
)  # fmt: skip
_simple = row(
    "simple", lambda x: np.where(_ties(x).any(axis=-1), np.nan, 1.0), None,
    domain=_DISTINCT, latex=r"\operatorname{simple}", core=(1,), output=_same, flops=lambda n: 4 * n * n,
    source=written("simple"), formula=lambda x: construct.filled(1, x.shape),
)  # fmt: skip


_nonzero = row(
    "nonzero", lambda x: np.where(np.abs(x) <= _rounding(x), np.nan, 1.0), None,
    domain=_NONZERO, latex=r"\operatorname{nonzero}", core=(1,), output=_same, flops=lambda n: 2 * n,
    source=written("nonzero"), formula=lambda x: construct.filled(1, x.shape),
)  # fmt: skip
_nonzero_pairs = row(
    "nonzero_pairs",
    lambda x: np.where(np.abs(x)[..., None, :] + np.abs(x)[..., :, None] <= _rounding(x)[..., None], np.nan, 1.0), None,
    domain=_NONZERO, latex=r"\operatorname{nonzero_2}", core=(1,), output=lambda s: s + s, flops=lambda n: 2 * n * n,
    source=written("nonzero_pairs"), formula=lambda x: construct.filled(1, (*x.shape, x.shape[-1])),
)  # fmt: skip


def simple(values: Expr) -> Expr:
    """1 for each eigenvalue, and NaN for those that equal another one: these have no derivative."""
    return construct.apply(_simple, (values,))


def nonzero(values: Expr) -> Expr:
    """1 for each singular value, and NaN for those that are 0: these have no derivative."""
    return construct.apply(_nonzero, (values,))


def nonzero_pairs(values: Expr) -> Expr:
    """1 for each pair of singular values, and NaN where both are 0."""
    return construct.apply(_nonzero_pairs, (values,))


def _gaps(values: Expr) -> Expr:
    """1 / (v_j - v_i), 0 on the diagonal, and NaN where two are equal."""
    return inverse_or_zero(construct.apply(_gaps_row, (values,)))


def _square_gaps(values: Expr) -> Expr:
    """1 / (v_j² - v_i²) of numbers that are not negative, 0 on the diagonal, and NaN where two are equal."""
    return multiply(_gaps(values), inverse_or_zero(values[..., None, :] + values[..., :, None]))


def _eigvecs_derivative(a: Expr) -> Expr:
    """dU = U (F ⊙ U' dA U), F_pj = 1 / (λ_j - λ_p); dA is made symmetric."""
    u = eigvecs(a)
    gaps = _gaps(eigvals(a))
    one = einsum("...ip,...pj,...kp,...lj->...ijkl", u, gaps, u, u)
    return HALF * (one + einsum("...ijkl->...ijlk", one))


def _left_derivative(a: Expr) -> Expr:
    """dU = U (F ⊙ (dP Σ + Σ dP')) + (I - U U') dA V Σ⁻¹ with dP = U' dA V, F_pj = 1 / (σ_j² - σ_p²)."""
    u, s, v = svdleft(a), svdvals(a), svdright(a)
    gaps = _square_gaps(s)
    beside = eye(a.shape[-2]) - einsum("...ip,...kp->...ik", u, u)
    return (
        einsum("...ip,...pj,...kp,...lj,...j->...ijkl", u, gaps, u, v, s)
        + einsum("...ip,...pj,...p,...lp,...kj->...ijkl", u, gaps, s, v, u)
        + einsum("...ik,...lj,...j,...j->...ijkl", beside, v, reciprocal(s), nonzero(s))
    )


def _right_derivative(a: Expr) -> Expr:
    """The right factor is the left one of the transpose."""
    u, s, v = svdleft(a), svdvals(a), svdright(a)
    gaps = _square_gaps(s)
    beside = eye(a.shape[-1]) - einsum("...ip,...lp->...il", v, v)
    return (
        einsum("...ip,...pj,...p,...kp,...lj->...ijkl", v, gaps, s, u, v)
        + einsum("...ip,...pj,...lp,...kj,...j->...ijkl", v, gaps, v, u, s)
        + einsum("...il,...kj,...j,...j->...ijkl", beside, u, reciprocal(s), nonzero(s))
    )


_eigvals = row(
    "eigvals", _checked(lambda a: np.linalg.eigvalsh(_symmetrized(a))),
    lambda a: einsum("...i,...ki,...li->...ikl", simple(eigvals(a)), eigvecs(a), eigvecs(a)),
    domain="symmetric, distinct eigenvalues", latex=r"\lambda", core=(2,), output=lambda s: s[:1],
    flops=lambda n, _: 9 * n**3, factorization="eigh", part=(0, False), alone="eigvalsh", symmetrizes=True,
)  # fmt: skip
_eigvecs = row(
    "eigvecs", _checked(lambda a: np.linalg.eigh(_symmetrized(a))[1]), _eigvecs_derivative,
    domain="symmetric, distinct eigenvalues", latex=r"\operatorname{eigvecs}", core=(2,), output=_same,
    bounds=within(-1, 1), flops=lambda n, _: 9 * n**3, factorization="eigh", part=(1, False), symmetrizes=True,
)  # fmt: skip
_svdvals = row(
    "svdvals", _checked(lambda a: np.linalg.svd(a, compute_uv=False)),
    lambda a: einsum("...i,...ki,...li->...ikl", simple(svdvals(a)), svdleft(a), svdright(a)),
    domain="distinct singular values", latex=r"\sigma", core=(2,), output=lambda s: (sz.minimum(*s),),
    bounds=within(0, inf), flops=_svd_flops, factorization="svd", part=(1, False), alone="svdvals",
    source=written("np.linalg.svd({0}, compute_uv=False)", others={"torch": "svdvals"}),
)  # fmt: skip
_svdleft = row(
    "svdleft", _checked(lambda a: np.linalg.svd(a, full_matrices=False)[0]), _left_derivative,
    domain="distinct singular values", latex=r"\operatorname{svdleft}", core=(2,),
    output=lambda s: (s[0], sz.minimum(*s)), bounds=within(-1, 1), flops=_svd_flops, factorization="svd",
    part=(0, False),
)  # fmt: skip
_svdright = row(
    "svdright", _checked(lambda a: np.swapaxes(np.linalg.svd(a, full_matrices=False)[2], -1, -2)), _right_derivative,
    domain="distinct singular values", latex=r"\operatorname{svdright}", core=(2,),
    output=lambda s: (s[1], sz.minimum(*s)), bounds=within(-1, 1),
    flops=_svd_flops, factorization="svd", part=(2, True),
)  # fmt: skip


def eigvals(a: Operand) -> Expr:
    """The eigenvalues of a symmetric matrix, ascending. The argument is taken as (A + A')/2.

    Args:
        a: a symmetric matrix, or a stack of them

    >>> ed.evaluate(ed.eigvals(ed.symmetric("S", 2)), {"S": [[2.0, 0.0], [0.0, 1.0]]})
    array([1., 2.])
    """
    return construct.apply(_eigvals, (square_matrix("eigvals", a),))


def eigvecs(a: Operand) -> Expr:
    """The orthonormal eigenvectors of a symmetric matrix, as columns.

    Args:
        a: a symmetric matrix, or a stack of them

    >>> ed.eigvecs(ed.symmetric("S", "n")).shape
    ('n', 'n')
    """
    return construct.apply(_eigvecs, (square_matrix("eigvecs", a),))


def svdvals(a: Operand) -> Expr:
    """The singular values of a matrix, descending.

    Args:
        a: a matrix, or a stack of them

    >>> ed.evaluate(ed.svdvals(ed.matrix("A", 2, 2)), {"A": [[3.0, 0.0], [0.0, -4.0]]})
    array([4., 3.])
    """
    return construct.apply(_svdvals, (_matrix("svdvals", a),))


def svdleft(a: Operand) -> Expr:
    """The left singular vectors of a matrix, as columns.

    Args:
        a: a matrix, or a stack of them

    >>> ed.svdleft(ed.matrix("A", 5, 3)).shape
    (5, 3)
    """
    return construct.apply(_svdleft, (_matrix("svdleft", a),))


def svdright(a: Operand) -> Expr:
    """The right singular vectors of a matrix, as columns.

    Args:
        a: a matrix, or a stack of them

    >>> ed.svdright(ed.matrix("A", 5, 3)).shape
    (3, 3)
    """
    return construct.apply(_svdright, (_matrix("svdright", a),))


def lambdamax(a: Operand) -> Expr:
    """The largest eigenvalue of a symmetric matrix.

    Args:
        a: a symmetric matrix

    >>> float(ed.evaluate(ed.lambdamax(ed.symmetric("S", 2)), {"S": [[2.0, 0.0], [0.0, 1.0]]}))
    2.0
    """
    return eigvals(a)[..., -1]


def normnuc(a: Operand) -> Expr:
    """The nuclear norm: the sum of the singular values.

    Args:
        a: a matrix, or a stack of them

    >>> float(ed.evaluate(ed.normnuc(ed.matrix("A", 2, 2)), {"A": [[3.0, 0.0], [0.0, -4.0]]}))
    7.0
    """
    return sum(svdvals(a), -1)


def normspec(a: Operand) -> Expr:
    """The spectral norm: the largest singular value.

    Args:
        a: a matrix, or a stack of them

    >>> float(ed.evaluate(ed.normspec(ed.matrix("A", 2, 2)), {"A": [[3.0, 0.0], [0.0, -4.0]]}))
    4.0
    """
    return svdvals(a)[..., 0]
