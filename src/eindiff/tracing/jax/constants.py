"""Values that are known while a program is read: folded with NumPy, and as constants of expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from eindiff.core import construct
from eindiff.core.index_relations import Lower
from eindiff.core.nodes import Expr
from eindiff.functions.sparse_constants import by_places
from eindiff.tracing.closures import MOST_WRITTEN
from eindiff.tracing.jax.numbers import BY_NUMPY, NoNumbersError

# What comes from NumPy exactly as from JAX. All else is left to JAX, which compiles it first.
FOLDED_BY_NUMPY = frozenset({
    "add", "sub", "mul", "neg", "abs", "square", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "copy",
    "copy_p", "stop_gradient", "convert_element_type", "broadcast_in_dim", "iota", "reshape", "squeeze", "expand_dims",
    "transpose", "slice", "concatenate", "select_n", "reduce_and", "reduce_or", "rev",
})  # fmt: skip


def folded(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """What an equation gives for known values."""
    name = eqn.primitive.name
    is_exact = name in FOLDED_BY_NUMPY and all(isinstance(x, np.ndarray | np.generic) for x in values)
    if is_exact and not (name == "convert_element_type" and values[0].dtype.kind == "f"):
        with np.errstate(all="ignore"), suppress(NoNumbersError):
            return [np.asarray(BY_NUMPY[name](*values, **eqn.params), dtype=eqn.outvars[0].aval.dtype)]
    with jax.ensure_compile_time_eval():  # also while a program around this one is being traced
        return [as_known(x) for x in as_function(eqn)(*values)]


def as_function(eqn: Any) -> Callable[..., list[Any]]:
    """One equation of a program as a function of the values of its arguments, which JAX can differentiate."""
    names = [jex.Var(x.aval) for x in eqn.invars]
    info = jex.DebugInfo("equation", eqn.primitive.name, None, None)
    inner = jex.Jaxpr((), names, eqn.outvars, [eqn.replace(invars=names)], eqn.effects, info)
    return jex.jaxpr_as_fun(jex.ClosedJaxpr(inner, ()))


def as_known(value: Any) -> Any:
    """A known value as a NumPy array; what NumPy cannot hold, such as a key of random numbers, stays as it is."""
    if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.extended):
        return value
    return np.asarray(value)


def constant(array: np.ndarray, hidden: Callable[[np.ndarray], Expr]) -> Expr:
    """An array as an expression: axes along which it is the same are left out, unit matrices and triangles are seen.

    `hidden` gives what stands for an array that is too large to be written down, or not finite.
    """
    kept = [k for k, size in enumerate(array.shape) if size > 1 and not _is_same_along(array, k)]
    core = array[tuple(slice(None) if k in kept else 0 for k in range(array.ndim))]
    sizes = dict(enumerate(array.shape))
    return construct.einsum(1, [(_core(core, hidden), tuple(kept))], tuple(sizes), sizes)


def _is_same_along(array: np.ndarray, axis: int) -> bool:
    if array.strides[axis] == 0:
        return True
    first = np.take(array, [0], axis=axis)
    return bool((array == first).all())


def _core(array: np.ndarray, hidden: Callable[[np.ndarray], Expr]) -> Expr:
    if not np.isfinite(array).all():
        return hidden(array)
    if array.ndim == 0:
        return construct.filled(array.item(), ())
    if array.ndim == 2 and array.shape[0] == array.shape[1] and (structure := _structured(array)) is not None:
        return structure
    if array.size <= MOST_WRITTEN:
        return construct.constant(array)
    places = by_places(array, lambda values: _core(values, hidden))
    return hidden(array) if places is None else places


def _structured(array: np.ndarray) -> Expr | None:
    """A multiple of the identity, or of a triangle of ones."""
    n, corner = len(array), array[0, 0].item()
    if not corner:
        return None
    if np.array_equal(array, corner * np.eye(n)):
        return construct.einsum(corner, [], (0, 0), {0: n})
    lower = construct.constant(Lower(n))
    for triangle, labels in ((np.tri(n), (0, 1)), (np.tri(n).T, (1, 0))):
        if np.array_equal(array, corner * triangle):
            return construct.einsum(corner, [(lower, labels)], (0, 1), {0: n, 1: n})
    return None
