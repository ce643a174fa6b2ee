"""Linear algebra: factorizations, and the functions of JAX that use them, which are known by name."""

from __future__ import annotations

from eindiff.core import construct
from eindiff.core.index_relations import Lower
from eindiff.core.nodes import Expr
from eindiff.facts.bounds import facts
from eindiff.functions import multilinear as arrays
from eindiff.functions.frechet import expm
from eindiff.functions.matrices import (
    chol,
    det,
    eigvals,
    eigvecs,
    inv,
    logabsdet,
    logdet,
    pinv,
    signdet,
    svdleft,
    svdright,
    svdvals,
)
from eindiff.tracing.jax.jaxpr import Handler, TracedEquation, Value
from eindiff.tracing.jax.refusals import primitives
from eindiff.tracing.unsupported import Unsupported


def _is_symmetric(a: Expr) -> bool:
    """Whether a matrix is symmetric for all values: JAX's derivatives are of one triangle, or of the symmetric part."""
    return construct.transpose_core(a) is a


def cholesky(step: TracedEquation, a: Value) -> Expr:
    """The lower factor of a matrix that is symmetric as it is written."""
    a = step.trace.expr(a)
    if not _is_symmetric(a):
        raise Unsupported
    result = chol(a)
    step.trace.made[result] = ("cholesky", a)
    return result


def triangular_solve(step: TracedEquation, a: Value, b: Value) -> Expr:
    """A system with a triangle of a matrix: the other triangle is not looked at."""
    p = step.params
    a, b = step.trace.expr(a), step.trace.expr(b)
    matrix = _triangle(step, a, p["lower"], p["unit_diagonal"])
    matrix = construct.transpose_core(matrix) if p["transpose_a"] else matrix
    return inv(matrix) @ b if p["left_side"] else b @ inv(matrix)


def _triangle(step: TracedEquation, a: Expr, lower: bool, unit_diagonal: bool) -> Expr:
    factor = a if lower else construct.transpose_core(a)
    if step.trace.made.get(factor, ("",))[0] == "cholesky" and not unit_diagonal:
        return a
    ones = construct.constant(Lower(a.shape[-1]))
    unit = arrays.eye(a.shape[-1])
    mask = ones if lower else construct.transpose_core(ones)
    return arrays.multiply(a, mask - unit) + unit if unit_diagonal else arrays.multiply(a, mask)


def eigh(step: TracedEquation, a: Value) -> tuple[Expr, Expr]:
    """Eigenvectors and eigenvalues, ascending."""
    a = step.trace.expr(a)
    if not _is_symmetric(a) or step.params.get("subset_by_index") is not None:
        raise Unsupported
    return eigvecs(a), eigvals(a)


def svd(step: TracedEquation, a: Value) -> tuple[Expr, ...]:
    """Singular values, and the vectors that belong to them."""
    a, p = step.trace.expr(a), step.params
    if p.get("subset_by_index") is not None:
        raise Unsupported
    if not p["compute_uv"]:
        return (svdvals(a),)
    if p["full_matrices"] and a.shape[-1] != a.shape[-2]:
        raise Unsupported
    return svdvals(a), svdleft(a), construct.transpose_core(svdright(a))


# Functions of JAX


def solve(step: TracedEquation, a: Value, b: Value) -> Expr:
    """The solution of a system of equations."""
    a, b = step.trace.expr(a), step.trace.expr(b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[-1] != b.shape[0] or "lu" not in primitives(step.eqn):
        raise Unsupported
    return inv(a) @ b


def determinant(step: TracedEquation, a: Value) -> Expr:
    """The determinant of a matrix. Small ones are polynomials, which need no inverse where they are 0."""
    a = step.trace.expr(a)
    if a.shape[-1] in (1, 2, 3):
        raise Unsupported
    return det(a)


def slogdet(step: TracedEquation, a: Value) -> tuple[Expr, Expr]:
    """The sign and the logarithm of the absolute value of a determinant."""
    a = step.trace.expr(a)
    if facts(a).psd:
        return construct.filled(1, a.shape[:-2]), logdet(a)
    return signdet(a), logabsdet(a)


def exponential(step: TracedEquation, a: Value) -> Expr:
    """The exponential of a matrix."""
    if len(step.avals[0].shape) != 2:
        raise Unsupported
    return expm(step.trace.expr(a))


FACTORS: dict[str, Handler] = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "eigh": eigh,
    "svd": svd,
}

SOLVERS: dict[str, Handler] = {
    "solve": solve,
    "_solve": solve,
    "inv": lambda step, a: inv(step.trace.expr(a)),
    "_det": determinant,
    "det": determinant,
    "_slogdet_lu": slogdet,
    "_slogdet_small": slogdet,
    **dict.fromkeys(("pinv", "_pinv"), lambda step, a, *_: pinv(step.trace.expr(a))),
    "expm": exponential,
}
