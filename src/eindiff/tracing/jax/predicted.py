"""How long a program of JAX will take: good enough to choose between two programs that compute the same.

Its compiler makes one loop of what works entry by entry, so that only numbers count there; all else has a price of its
own. The prices are those of `planning.tuning`.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import jax.extend.core as jex

from eindiff.planning.tuning import CALL, EACH, OPERATION, READ, SCATTER, THIN

TURNS = 50  # of a loop whose length is not known
FREE = frozenset({
    "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "convert_element_type", "slice", "transpose", "iota",
    "copy", "stop_gradient", "rev",
})  # fmt: skip
FUNCTIONS = frozenset({
    "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "logistic", "pow", "erf", "erfc", "erf_inv", "lgamma",
    "digamma", "atan2", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt", "polygamma",
    "igamma", "igammac", "regularized_incomplete_beta", "bessel_i0e", "bessel_i1e", "exp2",
})  # fmt: skip
MATRICES = frozenset({
    "cholesky", "lu", "triangular_solve", "eigh", "eig", "svd", "geqrf", "householder_product", "qr", "schur",
    "tridiagonal", "hessenberg", "lu_solve",
})  # fmt: skip


def seconds(jaxpr: Any) -> float:
    """The predicted time of a program."""
    return sum(map(_seconds, jaxpr.eqns))


def _seconds(eqn: Any) -> float:
    name, params = eqn.primitive.name, eqn.params
    if name in FREE:
        return 0.0
    inner = [seconds(x) for x in jex.jaxprs_in_params(params)] if name not in ("reduce", "scatter-add") else []
    if name == "scan":
        return params["length"] * (CALL + sum(inner))
    if name == "while":
        return TURNS * (CALL + sum(inner))
    if name == "cond":
        return CALL + max(inner)
    if name == "dot_general":
        return _product(eqn)
    if inner and not name.startswith(("reduce", "scatter", "sort", "cum")):
        return sum(inner)
    entries = max(prod(x.aval.shape) for x in (*eqn.outvars, *eqn.invars))
    made = sum(prod(x.aval.shape) for x in eqn.outvars)
    number = OPERATION["arithmetic"]
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        features = kernel[params["dimension_numbers"].rhs_spec[0]]
        return CALL + made * prod(kernel) / features * number
    if name in MATRICES:
        return 2 * CALL + entries * max(eqn.invars[0].aval.shape[-2:], default=1) * 4 * OPERATION["lapack"]
    if name.startswith("scatter") or name in ("select_and_scatter_add", "dynamic_update_slice"):
        return EACH + (SCATTER * prod(eqn.invars[-1].aval.shape) + made) * number
    if name in ("gather", "dynamic_slice"):
        return EACH + READ * made * number
    if name == "sort":
        return EACH + SCATTER * entries * log2(max(2, entries)) * number
    if name.startswith(("cum", "reduce_window")):
        return EACH + entries * READ * number
    return entries * (OPERATION["function"] / 2 if name in FUNCTIONS else number)


def _product(eqn: Any) -> float:
    """That of a stack of products of matrices."""
    (left, _), (stacked, _) = eqn.params["dimension_numbers"]
    first, second = (x.aval.shape for x in eqn.invars)
    count, k = prod(first[axis] for axis in stacked), prod(first[axis] for axis in left)
    m, n = prod(first) // max(1, count * k), prod(second) // max(1, count * k)
    thin = max(1.0, THIN / max(1, min(m, n)))
    return EACH + count * 2 * m * n * k * OPERATION["blas"] * thin
