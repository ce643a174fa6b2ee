"""How long a program of JAX will take: good enough to choose between two programs that compute the same.

The compiler makes one loop of what works entry by entry, so that only numbers count there; all else has a price of its
own. The prices are those of `planning.tuning`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import log2, prod
from typing import Any

import jax.extend.core as jex

from eindiff.calculus.recurrences import is_recurrence
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Apply, Constant, Einsum, Expr, Map, Variable, topological
from eindiff.planning.tuning import CALL, EACH, FRESH, FRESH_BYTES, OPERATION, READ, SCATTER, THIN
from eindiff.tracing.jax.kernels import FREE, FUNCTIONS, MATRICES, START, bytes_of, stored_bytes
from eindiff.tracing.jax.numbers import inside

UNKNOWN_TURNS = 50  # of a loop whose length is not known
RESULT, PRODUCT, FACTOR = 9e-3, 6e-3, 4e-4  # seconds of the compiler for each result, each product and each factor,
ENTRYWISE, WHOLE = 1.4e-3, 18e-3  # and for functions of entries and of whole arrays,
PLACES, WINDOW = 20e-3, 7e-3  # and for what is read or written at places of a table, and in windows that overlap
PLANNING, TRACED = 3e-4, 1.2e-3  # seconds for each node of an expression, and for JAX to read what is found
FINDING = 15e-3  # seconds to find and compile a Hessian, for each node of a function and each of its variables,
RECURRING = 10e-3  # and for those of a recurrence, which has one sweep for all of them
READING = 7e-4  # seconds for JAX to read its own derivative of each equation of a function
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "select_n", "pad"})  # at a low price


def writing(exprs: Sequence[Expr]) -> float:
    """The predicted time to write the values of expressions, which no program can do without."""
    return sum(prod(map(int, x.shape)) for x in exprs) * OPERATION["arithmetic"]


def planning(exprs: Sequence[Expr], is_inside: bool) -> float:
    """The predicted time to find a program for expressions, one of NumPy or, inside of `jax.jit`, of JAX."""
    return (PLANNING + TRACED * is_inside) * len(topological(exprs))


def finding(exprs: Sequence[Expr], by: Collection[Variable]) -> float:
    """The least time that it will take to find and compile a program for Hessians, before they are derived: they have
    some nodes for each node of the function and each variable that it depends on; 0 for polynomials, whose may be
    constant."""
    below: dict[Expr, frozenset[Expr]] = {}
    for node in topological(exprs):
        below[node] = frozenset({node}.intersection(by)).union(*[below[x] for x in node.children])
    if not any(below[x] for x in below if isinstance(x, Map | Apply)):
        return 0.0
    recurs = any(is_recurrence(f, list(by)) for f in exprs)
    return (RECURRING if recurs else FINDING) * sum(map(len, below.values()))


def compiling_of(exprs: Sequence[Expr]) -> float:
    """The predicted time of the compiler for a program that is yet to be found: nine of ten take 0.7 to 2.5 times as
    long, since tables of places may be views of other arrays, or gathers."""
    return START + RESULT * len(exprs) + sum(map(_compiling_node, topological(exprs)))


def _compiling_node(node: Expr) -> float:
    if isinstance(node, Einsum):
        factors = sum(not isinstance(x, Constant) for x in node.operands)
        return FACTOR * factors + PRODUCT * (max(0, factors - 1) if node.contracted else 0) + _places(node, factors)
    return ENTRYWISE * isinstance(node, Map) + WHOLE * isinstance(node, Apply)


def _places(node: Einsum, factors: int) -> float:
    """The time of the compiler for where factors are read and the product is written; slices take it none."""
    constants = [x.value for x in node.operands if isinstance(x, Constant)]
    maps = [x for x in constants if isinstance(x, IndexMap)] if factors else []
    windows = sum(x.indices is None and len(x.inputs) > 1 and not x.injective for x in maps)
    return PLACES * any(x.indices is not None for x in maps) + WINDOW * windows


def seconds(jaxpr: Any) -> float:
    """The predicted time of a program."""
    is_large = any(bytes_of(x) >= FRESH_BYTES for eqn in jaxpr.eqns for x in eqn.outvars)
    fresh = sum([x for x in stored_bytes(jaxpr) if x >= FRESH_BYTES]) if is_large else 0
    return _computing(jaxpr) + fresh * FRESH


def _computing(jaxpr: Any) -> float:
    return sum(map(_seconds, jaxpr.eqns))


def _seconds(eqn: Any) -> float:
    name, params = eqn.primitive.name, eqn.params
    if name in FREE:
        return 0.0
    inner = [_computing(x) for x in jex.jaxprs_in_params(params)] if name not in ("reduce", "scatter-add") else []
    if name == "scan":
        return params["length"] * (CALL + sum(inner))
    if name == "while":
        return UNKNOWN_TURNS * (CALL + sum(inner))
    if name == "cond":
        program, _ = inside(eqn)
        return CALL + max(inner) if program is None else _computing(program.jaxpr)
    is_call = bool(inner) and not name.startswith(("reduce", "scatter", "sort", "cum"))
    return sum(inner) if is_call else _of_arrays(eqn)


def _of_arrays(eqn: Any) -> float:
    """The time of what is no loop, condition or call."""
    name, params = eqn.primitive.name, eqn.params
    if name == "dot_general":
        return _product(eqn)
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
    return entries * (OPERATION["function"] / 2 if name in FUNCTIONS else number / 4 if name in COMPARISONS else number)


def _product(eqn: Any) -> float:
    """That of a stack of products of matrices."""
    (left, _), (stacked, _) = eqn.params["dimension_numbers"]
    first, second = (x.aval.shape for x in eqn.invars)
    count, k = prod(first[axis] for axis in stacked), prod(first[axis] for axis in left)
    m, n = prod(first) // max(1, count * k), prod(second) // max(1, count * k)
    thin = max(1.0, THIN / max(1, min(m, n)))
    return EACH + count * 2 * m * n * k * OPERATION["blas"] * thin
