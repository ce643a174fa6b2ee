"""Linear algebra: factorizations, and the functions of JAX that use them, which are known by name."""

from __future__ import annotations

from typing import Any

import jax.extend.core as jex
from jax.interpreters.partial_eval import dce_jaxpr

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


def solve(step: TracedEquation, *args: Value) -> tuple[Value, ...]:
    """The solution of a system of equations, or of a stack of systems in any order of axes.

    The program of it says what is solved by the product that it inverts; its factorization is not looked at.
    """
    jaxpr, trace = step.params["jaxpr"].jaxpr, step.trace
    places = [k for k, eqn in enumerate(jaxpr.eqns) if eqn.primitive.name == "custom_linear_solve"]
    if len(places) != 1 or "lu" not in primitives(step.eqn):
        raise Unsupported
    [place], system = places, jaxpr.eqns[places[0]]
    given = [*system.invars[: system.params["const_lengths"].matvec], system.invars[-1]]
    consts = step.params["jaxpr"].consts
    made = {x for eqn in jaxpr.eqns[:place] for x in eqn.outvars}
    used = [x for atoms in (*[eqn.invars for eqn in jaxpr.eqns[place + 1 :]], jaxpr.outvars) for x in atoms]
    more = list(dict.fromkeys(x for x in used if not isinstance(x, jex.Literal) and x in made))  # its factors, say
    results = [*given, *more]
    before = dce_jaxpr(jaxpr.replace(outvars=results, eqns=jaxpr.eqns[:place]), [True] * len(results), True)[0]
    found = trace.run(before, consts, args)
    x = _solution(system.params["jaxprs"].matvec, *map(trace.expr, found[: len(given)]))
    after = jaxpr.replace(invars=[*jaxpr.invars, *more, *system.outvars], eqns=jaxpr.eqns[place + 1 :])
    return tuple(trace.run(after, consts, [*args, *found[len(given) :], x]))


def linear_solve(step: TracedEquation, *args: Value) -> Expr:
    """The same where it is not known which function it is from."""
    count = step.params["const_lengths"].matvec
    return _solution(step.params["jaxprs"].matvec, *map(step.trace.expr, (*args[:count], args[-1])))


def _solution(product: Any, *args: Expr) -> Expr:
    """x for which a product of one stack of matrices with x, in an order of axes, is b."""
    eqns = [eqn for eqn in product.jaxpr.eqns if eqn.params.get("axes") != ()]  # sums over nothing
    if len(args) != 2 or [eqn.primitive.name for eqn in eqns] not in (["dot_general"], ["dot_general", "transpose"]):
        raise Unsupported
    (matrix, b), (contracted, stacked) = args, eqns[0].params["dimension_numbers"]
    is_first, is_pair = eqns[0].invars == product.jaxpr.invars, set(eqns[0].invars) == set(product.jaxpr.invars)
    if not is_pair or len(contracted[0]) != 1 or matrix.ndim != len(stacked[0]) + 2:
        raise Unsupported
    ([column], [place]), (of_matrix, of_x) = (pair if is_first else pair[::-1] for pair in (contracted, stacked))
    [row] = set(range(matrix.ndim)) - {*of_matrix, column}
    others = {k: matrix.ndim + k for k in range(b.ndim) if k not in (*of_x, place)}
    labels = dict(zip(of_x, of_matrix, strict=True)) | {place: column} | others  # of x: those of the matrix, and more
    made = [*of_matrix, row, *others.values()] if is_first else [*of_matrix, *others.values(), row]
    made = [made[k] for k in eqns[1].params["permutation"]] if len(eqns) > 1 else made
    inverse = inv(construct.transpose(matrix, (*of_matrix, row, column)))
    result = tuple(labels[k] for k in range(b.ndim))
    sizes = dict(enumerate(matrix.shape)) | dict(zip(result, b.shape, strict=True))
    return construct.einsum(1, [(inverse, (*of_matrix, column, row)), (b, tuple(made))], result, sizes)


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
    "custom_linear_solve": linear_solve,
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
