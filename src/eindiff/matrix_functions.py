"""Functions of whole tensors: the rows of the table that are not elementwise, and what is composed of them.

A derivative f' is an expression over the function's own factors, with the axes of the result first, so it can be
differentiated again and is never formed. Letters: i, j for the axes of the result, k, l for those of the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from eindiff import construct
from eindiff import sizes as sz
from eindiff.arrays import Operand, as_expr, axes_of, einsum, eye, moveaxis, multiply, square_matrix, sum, transpose
from eindiff.constants import Lower
from eindiff.errors import EindiffError, shape_text
from eindiff.expr import Apply, Expr
from eindiff.functions import TABLE, Function, abs, exp, inverse_or_zero, reciprocal, row, sqrt
from eindiff.indexing import reshape
from eindiff.labels import Labels

HALF = Fraction(1, 2)


def _same(shape: tuple) -> tuple:
    return shape


def _none(shape: tuple) -> tuple:
    return ()


def _lu_flops(n: int, _: int) -> float:
    return 2 * n**3 / 3


def _svd_flops(m: int, n: int) -> float:
    return 20.0 * m * n * sorted((m, n))[0]


def _matrix(operation: str, a: Operand) -> Expr:
    a = as_expr(a)
    if a.ndim < 2:
        raise EindiffError(f"{operation} needs a matrix; {a} has shape {shape_text(a.shape)}")
    return a


# Inverse and determinant


def _checked(value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NaN where a factorization fails; evaluation reports where the first NaN came from."""

    def checked(a: Any) -> Any:
        try:
            return value(a)
        except np.linalg.LinAlgError:
            return np.full_like(a, np.nan, dtype=float)

    return checked


def _logdet_value(a: np.ndarray) -> np.ndarray:
    sign, value = np.linalg.slogdet(a)
    return np.where(sign > 0, value, np.nan)


_inv = row(
    "inv", _checked(np.linalg.inv), lambda a: -einsum("...ik,...lj->...ijkl", inv(a), inv(a)),
    domain="invertible", latex="{}^{{-1}}", core=(2,), output=_same, keeps_symmetry=True,
    flops=_lu_flops, factorization="lu",
)  # fmt: skip
_det = row(
    "det", np.linalg.det, lambda a: einsum("...,...lk->...kl", det(a), inv(a)),
    domain="invertible", latex=r"\det", core=(2,), output=_none, flops=_lu_flops, factorization="lu",
)  # fmt: skip
_logdet = row(
    "logdet", _logdet_value, lambda a: einsum("...lk->...kl", inv(a)),
    domain="positive determinant", latex=r"\log\det", core=(2,), output=_none, flops=_lu_flops, factorization="lu",
)  # fmt: skip


def inv(a: Operand) -> Expr:
    """The inverse of a square matrix. Contracted with something it is computed as a solve."""
    return construct.apply(_inv, (square_matrix("inv", a),))


def det(a: Operand) -> Expr:
    """The determinant of a square matrix."""
    return construct.apply(_det, (square_matrix("det", a),))


def logdet(a: Operand) -> Expr:
    """The logarithm of the determinant of a square matrix, without overflow."""
    return construct.apply(_logdet, (square_matrix("logdet", a),))


def adj(a: Operand) -> Expr:
    """The adjugate of an invertible matrix, det(A) inv(A)."""
    return einsum("...,...ij->...ij", det(a), inv(a))


def solve(a: Operand, b: Operand) -> Expr:
    """The solution x of A x = b; b is a vector or a matrix. The same as inv(A) @ b, which never forms the inverse."""
    return inv(a) @ as_expr(b)


def matrix_power(a: Operand, exponent: int) -> Expr:
    """The matrix product of `exponent` copies of a square matrix; negative powers are those of the inverse."""
    a = square_matrix("matrix_power", a)
    if not isinstance(exponent, int):
        raise EindiffError(f"matrix_power: the exponent is an integer, not {exponent!r}")
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
    "pinv", np.linalg.pinv, _pinv_derivative, domain="full rank", latex="{}^{{+}}", core=(2,),
    output=lambda shape: shape[::-1], keeps_symmetry=True, flops=_svd_flops, factorization="svd",
)  # fmt: skip
_chol = row(
    "chol", _checked(lambda a: np.linalg.cholesky(_symmetrized(a))), _chol_derivative, domain="positive definite",
    latex=r"\operatorname{chol}", core=(2,), output=_same, flops=lambda n, _: n**3 / 3,
)  # fmt: skip


def pinv(a: Operand) -> Expr:
    """The Moore-Penrose inverse of a matrix."""
    return construct.apply(_pinv, (_matrix("pinv", a),))


def chol(a: Operand) -> Expr:
    """The lower Cholesky factor of a positive definite matrix. The argument is taken as (A + A')/2."""
    return construct.apply(_chol, (square_matrix("chol", a),))


# Eigenvalues and singular values


def _gaps(values: Expr) -> Expr:
    """1 / (v_j - v_i), and 0 where they are equal."""
    return inverse_or_zero(values[..., None, :] - values[..., :, None])


def _eigvecs_derivative(a: Expr) -> Expr:
    """dU = U (F ⊙ U' dA U), F_pj = 1 / (λ_j - λ_p); dA is made symmetric."""
    u = eigvecs(a)
    gaps = _gaps(eigvals(a))
    one = einsum("...ip,...pj,...kp,...lj->...ijkl", u, gaps, u, u)
    return HALF * (one + einsum("...ijkl->...ijlk", one))


def _left_derivative(a: Expr) -> Expr:
    """dU = U (F ⊙ (dP Σ + Σ dP')) + (I - U U') dA V Σ⁻¹ with dP = U' dA V, F_pj = 1 / (σ_j² - σ_p²)."""
    u, s, v = svdleft(a), svdvals(a), svdright(a)
    gaps = _gaps(s * s)
    beside = eye(a.shape[-2]) - einsum("...ip,...kp->...ik", u, u)
    return (
        einsum("...ip,...pj,...kp,...lj,...j->...ijkl", u, gaps, u, v, s)
        + einsum("...ip,...pj,...p,...lp,...kj->...ijkl", u, gaps, s, v, u)
        + einsum("...ik,...lj,...j->...ijkl", beside, v, reciprocal(s))
    )


def _right_derivative(a: Expr) -> Expr:
    """The right factor is the left one of the transpose."""
    u, s, v = svdleft(a), svdvals(a), svdright(a)
    gaps = _gaps(s * s)
    beside = eye(a.shape[-1]) - einsum("...ip,...lp->...il", v, v)
    return (
        einsum("...ip,...pj,...p,...kp,...lj->...ijkl", v, gaps, s, u, v)
        + einsum("...ip,...pj,...lp,...kj,...j->...ijkl", v, gaps, v, u, s)
        + einsum("...il,...kj,...j->...ijkl", beside, u, reciprocal(s))
    )


_eigvals = row(
    "eigvals", lambda a: np.linalg.eigvalsh(_symmetrized(a)),
    lambda a: einsum("...ki,...li->...ikl", eigvecs(a), eigvecs(a)),
    domain="symmetric, distinct eigenvalues", latex=r"\lambda", core=(2,), output=lambda s: s[:1],
    flops=lambda n, _: 9 * n**3, factorization="eigh",
)  # fmt: skip
_eigvecs = row(
    "eigvecs", lambda a: np.linalg.eigh(_symmetrized(a))[1], _eigvecs_derivative,
    domain="symmetric, distinct eigenvalues", latex=r"\operatorname{eigvecs}", core=(2,), output=_same,
    flops=lambda n, _: 9 * n**3, factorization="eigh",
)  # fmt: skip
_svdvals = row(
    "svdvals", lambda a: np.linalg.svd(a, compute_uv=False),
    lambda a: einsum("...ki,...li->...ikl", svdleft(a), svdright(a)),
    domain="distinct singular values", latex=r"\sigma", core=(2,), output=lambda s: (sz.minimum(*s),),
    flops=_svd_flops, factorization="svd",
)  # fmt: skip
_svdleft = row(
    "svdleft", lambda a: np.linalg.svd(a, full_matrices=False)[0], _left_derivative, domain="distinct singular values",
    latex=r"\operatorname{svdleft}", core=(2,), output=lambda s: (s[0], sz.minimum(*s)),
    flops=_svd_flops, factorization="svd",
)  # fmt: skip
_svdright = row(
    "svdright", lambda a: np.swapaxes(np.linalg.svd(a, full_matrices=False)[2], -1, -2), _right_derivative,
    domain="distinct singular values", latex=r"\operatorname{svdright}", core=(2,),
    output=lambda s: (s[1], sz.minimum(*s)),
    flops=_svd_flops, factorization="svd",
)  # fmt: skip


def eigvals(a: Operand) -> Expr:
    """The eigenvalues of a symmetric matrix, ascending. The argument is taken as (A + A')/2."""
    return construct.apply(_eigvals, (square_matrix("eigvals", a),))


def eigvecs(a: Operand) -> Expr:
    """The orthonormal eigenvectors of a symmetric matrix, as columns."""
    return construct.apply(_eigvecs, (square_matrix("eigvecs", a),))


def svdvals(a: Operand) -> Expr:
    """The singular values of a matrix, descending."""
    return construct.apply(_svdvals, (_matrix("svdvals", a),))


def svdleft(a: Operand) -> Expr:
    """The left singular vectors of a matrix, as columns."""
    return construct.apply(_svdleft, (_matrix("svdleft", a),))


def svdright(a: Operand) -> Expr:
    """The right singular vectors of a matrix, as columns."""
    return construct.apply(_svdright, (_matrix("svdright", a),))


def lambdamax(a: Operand) -> Expr:
    """The largest eigenvalue of a symmetric matrix."""
    return max(eigvals(a), -1)


def normnuc(a: Operand) -> Expr:
    """The nuclear norm: the sum of the singular values."""
    return sum(svdvals(a), -1)


def normspec(a: Operand) -> Expr:
    """The spectral norm: the largest singular value."""
    return max(svdvals(a), -1)


# Matrix exponential, logarithm and square root, with their derivatives of any order


def _frechet_value(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """The k-th Fréchet derivative at A in directions E1, ..., Ek: the last block of the function of a block matrix.

    The block matrix is X_0 = A, X_k = [[X_(k-1), I ⊗ E_k], [0, X_(k-1)]].
    """

    def one(a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
        n, block = a.shape[0], a
        for direction in directions:
            copies = block.shape[0] // n
            above = np.kron(np.eye(copies), direction)
            block = np.block([[block, above], [np.zeros_like(block), block]])
        result = np.asarray(function(block))[:n, -n:]
        return np.where(np.abs(result.imag) > 1e-8 * (1 + np.abs(result.real)), np.nan, result.real)

    def value(a: np.ndarray, *directions: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(x.shape[:-2] for x in (a, *directions)))
        spread = [np.broadcast_to(x, shape + x.shape[-2:]) for x in (a, *directions)]
        result = np.empty(shape + a.shape[-2:])
        for index in np.ndindex(shape):
            result[index] = one(*(x[index] for x in spread))
        return result

    return value


def _scipy(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of scipy.linalg, which is imported when it is first needed: its import takes long."""

    def function(a: np.ndarray) -> np.ndarray:
        import scipy.linalg

        return getattr(scipy.linalg, name)(a)

    return function


_MATRIX_FUNCTIONS: dict[str, tuple[Callable, str]] = {
    "expm": (_scipy("expm"), "real"),
    "logm": (_scipy("logm"), "no eigenvalue on the negative axis"),
    "sqrtm": (_scipy("sqrtm"), "no eigenvalue on the negative axis"),
}


@lru_cache(maxsize=64)
def frechet_function(name: str, order: int) -> Function:
    """The derivative of a matrix function in `order` directions: multilinear and symmetric in the directions."""
    function, domain = _MATRIX_FUNCTIONS[name]
    return Function(
        name, _frechet_value(function), domain=domain, latex=rf"\operatorname{{{name}}}", parameter=order or None,
        core=(2,) * (order + 1), output=lambda *shapes: shapes[0], keeps_symmetry=order == 0,
        pushforward=_frechet_pushforward, pullback=_frechet_pullback, flops=lambda n, _: 25 * (2**order * n) ** 3,
    )  # fmt: skip


def _frechet(name: str, args: Sequence[Expr], batch: Sequence[Labels]) -> Expr:
    """The derivative of a matrix function at args[0] in directions args[1:], which are put in canonical order."""
    directions = sorted(zip(args[1:], batch[1:], strict=True), key=lambda pair: (pair[0].digest, pair[1]))
    ordered, labels = [args[0], *(d for d, _ in directions)], [batch[0], *(b for _, b in directions)]
    return construct.apply(frechet_function(name, len(directions)), ordered, labels)


def _frechet_pushforward(node: Apply, index: int, tangent: Expr) -> Expr:
    """D f(A)[E..] changes by D f(A)[E.., Ȧ] with A, and by D f(A)[.., Ė] with E. New axes come last."""
    args, batch, count = list(node.args), list(node.batch), node.ndim - 2
    new = tuple(range(count, count + tangent.ndim - args[index].ndim))
    own = len(batch[index])
    moved = construct.transpose(tangent, [*range(own), *range(own + 2, tangent.ndim), own, own + 1])
    if index == 0:
        args, batch = [*args, moved], [*batch, batch[0] + new]
    else:
        args[index], batch[index] = moved, batch[index] + new
    result = _frechet(node.function.name, args, batch)
    return construct.transpose(
        result, [*range(count), result.ndim - 2, result.ndim - 1, *range(count, result.ndim - 2)]
    )


def _frechet_pullback(node: Apply, index: int, cotangent: Expr) -> Expr:
    """The adjoint takes A' for A, the transposed other directions, and C̄ as a direction. The axes of y come first."""
    count = node.ndim - 2
    extra = cotangent.ndim - node.ndim
    shift = [tuple([label + extra for label in labels]) for labels in node.batch]
    flipped = [construct.transpose_core(arg) for arg in node.args]
    args, batch = [flipped[0]], [shift[0]]
    for k in range(1, len(flipped)):
        if k != index:
            args.append(flipped[k])
            batch.append(shift[k])
    result = _frechet(node.function.name, [*args, cotangent], [*batch, tuple(range(extra + count))])
    own = [label + extra for label in node.batch[index]]
    labels = tuple(range(result.ndim))
    output = (*range(extra), *own, result.ndim - 2, result.ndim - 1)
    return construct.einsum(1, [(result, labels)], output, dict(enumerate(result.shape)))


def expm(a: Operand) -> Expr:
    """The matrix exponential."""
    return construct.apply(frechet_function("expm", 0), (square_matrix("expm", a),))


def logm(a: Operand) -> Expr:
    """The principal matrix logarithm."""
    return construct.apply(frechet_function("logm", 0), (square_matrix("logm", a),))


def sqrtm(a: Operand) -> Expr:
    """The principal matrix square root."""
    return construct.apply(frechet_function("sqrtm", 0), (square_matrix("sqrtm", a),))


# Reductions along an axis


def _logsumexp_value(x: np.ndarray) -> np.ndarray:
    top = x.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


def _ties(x: np.ndarray) -> np.ndarray:
    hits = (x == x.max(axis=-1, keepdims=True)).astype(float)
    return hits / hits.sum(axis=-1, keepdims=True)


_logsumexp: Function = row(
    "logsumexp", _logsumexp_value, lambda x: exp(x - construct.apply(_logsumexp, (x,))[..., None]),
    latex=r"\operatorname{logsumexp}", core=(1,), output=_none, flops=lambda n: 3 * n,
)  # fmt: skip
_argmax = row("argmax", _ties, None, latex=r"\operatorname{argmax}", core=(1,), output=_same, flops=lambda n: 2 * n)
_max = row(
    "max", lambda x: x.max(axis=-1), lambda x: construct.apply(_argmax, (x,)),
    domain="distinct entries", latex=r"\max", core=(1,), output=_none, flops=lambda n: n,
)  # fmt: skip


def _products_without(count: int) -> Callable[[np.ndarray], np.ndarray]:
    def value(x: np.ndarray) -> np.ndarray:
        n = x.shape[-1]
        left_out = list(np.ndindex((n,) * count))  # the choices of entries left out
        factors = np.repeat(x[..., None, :], len(left_out), axis=-2)
        for place in range(count):
            factors[..., np.arange(len(left_out)), [choice[place] for choice in left_out]] = 1.0
        distinct = [len(set(choice)) == count for choice in left_out]
        return (factors.prod(axis=-1) * distinct).reshape(x.shape[:-1] + (n,) * count)

    return value


@lru_cache(maxsize=16)
def prod_function(left_out: int) -> Function:
    """The product of the entries of a vector without those at i1, ..., ik, and 0 where two of these are equal.

    Its derivative leaves one more out, so zeros among the entries do no harm.
    """
    return Function(
        "prod", _products_without(left_out), (lambda x: construct.apply(prod_function(left_out + 1), (x,)),),
        latex=r"\prod", parameter=left_out or None, core=(1,), output=lambda s: s * left_out,
        flops=lambda n: n ** (left_out + 1),
    )  # fmt: skip


TABLE["prod"] = prod_function(0)
TABLE.update({name: frechet_function(name, 0) for name in _MATRIX_FUNCTIONS})


def _along(function: Function, a: Operand, axis: int | Sequence[int] | None) -> Expr:
    """A function of vectors, applied along one axis after the other."""
    a = as_expr(a)
    for k in sorted(axes_of(function.name, a, axis), reverse=True):
        a = construct.apply(function, (moveaxis(a, k, -1),))
    return a


def logsumexp(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """log(sum(exp(a))) over all axes or the given ones, without overflow."""
    return _along(_logsumexp, a, axis)


def max(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The largest entry along all axes or the given ones; equal ones share the derivative evenly."""
    a = as_expr(a)
    gone = axes_of("max", a, axis)
    if len(gone) > 1:  # as one axis, so that equal entries share evenly wherever they are
        kept = [k for k in range(a.ndim) if k not in gone]
        count = sz.product(a.shape[k] for k in gone)
        a = reshape(transpose(a, [*kept, *gone]), (*(a.shape[k] for k in kept), count))
        gone = [len(kept)]
    return _along(_max, a, gone)


def min(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The smallest entry along all axes or the given ones; equal ones share the derivative evenly."""
    return multiply(-1, max(multiply(-1, a), axis))


def prod(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The product of the entries along all axes or the given ones."""
    return _along(prod_function(0), a, axis)


def norm1(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The sum of absolute values."""
    return sum(abs(a), axis)


def norm2(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The Euclidean (for matrices: Frobenius) norm."""
    return sqrt(sum(multiply(a, a), axis))
