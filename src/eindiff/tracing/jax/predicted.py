"""How long a program of JAX will take, and its compiler before: good enough to choose between two programs that
compute the same.

The compiler makes one loop of what works entry by entry, so that only numbers count there; all else has a price of its
own. The prices are those of `planning.tuning`. What the compiler itself takes was measured: it depends on the number
of operations, and not on their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod
from typing import Any

import jax.extend.core as jex

from eindiff.core.nodes import Einsum, Expr, topological
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

START = 0.036  # seconds that the compiler takes for any program, and for each operation:
COMPILING = {"dot_general": 6e-3, "conv_general_dilated": 16e-3, "scan": 5e-3, "while": 5e-3, "cond": 5e-3,
             "gather": 5e-3, "dynamic_slice": 5e-3, "dynamic_update_slice": 5e-3, "pad": 0.0,
             **dict.fromkeys(MATRICES, 12e-3), **dict.fromkeys(FREE, 0.0)}  # fmt: skip
COMPILING_LIKE = {"scatter": 15e-3, "select_and": 12e-3, "sort": 5e-3, "top_k": 5e-3, "cum": 12e-3,
                  "reduce_window": 12e-3, "reduce": 2e-3, "arg": 2e-3}  # fmt: skip
COMPILING_OTHERS = 6e-4
PLANNING = 3e-3  # seconds for each node of an expression
CHOICES = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "select_n", "pad"})  # at a low price
PLAIN = FREE | {"dot_general", "pad", "scan"}


def compiling(jaxpr: Any) -> float:
    """The predicted time of the compiler."""
    return START + sum(map(_compiling, jaxpr.eqns))


def _compiling(eqn: Any) -> float:
    name = eqn.primitive.name
    for start, price in COMPILING_LIKE.items():
        if name.startswith(start):
            return price
    inner = [compiling(x) - START for x in jex.jaxprs_in_params(eqn.params)]
    if inner and name not in COMPILING:
        return sum(inner)
    return COMPILING.get(name, COMPILING_OTHERS) + sum(inner)


def writing(exprs: Sequence[Expr]) -> float:
    """The predicted time to write the values of expressions, which no program can do without."""
    return sum(prod(map(int, x.shape)) for x in exprs) * OPERATION["arithmetic"]


def planning(exprs: Sequence[Expr]) -> float:
    """The predicted time to find a program for expressions."""
    return PLANNING * len(topological(exprs))


def compiling_of(exprs: Sequence[Expr]) -> float:
    """The predicted time of the compiler for a program that is yet to be found."""
    return START + sum(map(_compiling_node, topological(exprs)))


def _compiling_node(node: Expr) -> float:
    if isinstance(node, Einsum) and not node.is_product:
        return COMPILING["dot_general"] * max(1, len(node.operands) - 1)
    return COMPILING_OTHERS * len(node.children)


def is_plain(jaxpr: Any) -> bool:
    """Whether a program has nothing but what works entry by entry, sums and products of matrices, in loops or not."""
    return all(map(_is_plain, jaxpr.eqns))


def _is_plain(eqn: Any) -> bool:
    name = eqn.primitive.name
    if name.startswith("reduce_") and not name.startswith("reduce_window"):
        return True
    is_known = name in PLAIN or (name not in COMPILING and not name.startswith(tuple(COMPILING_LIKE)))
    return is_known and all(map(is_plain, jex.jaxprs_in_params(eqn.params)))


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
    return entries * (OPERATION["function"] / 2 if name in FUNCTIONS else number / 4 if name in CHOICES else number)


def _product(eqn: Any) -> float:
    """That of a stack of products of matrices."""
    (left, _), (stacked, _) = eqn.params["dimension_numbers"]
    first, second = (x.aval.shape for x in eqn.invars)
    count, k = prod(first[axis] for axis in stacked), prod(first[axis] for axis in left)
    m, n = prod(first) // max(1, count * k), prod(second) // max(1, count * k)
    thin = max(1.0, THIN / max(1, min(m, n)))
    return EACH + count * 2 * m * n * k * OPERATION["blas"] * thin
