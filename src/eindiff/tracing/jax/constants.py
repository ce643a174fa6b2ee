"""Values that are known while a program is read: folded with NumPy, and as constants of expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from eindiff.core import construct
from eindiff.core.index_relations import Lower
from eindiff.core.nodes import Expr
from eindiff.tracing.closures import MOST_WRITTEN

Fold = Callable[..., Any]


def _broadcast(x: np.ndarray, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> np.ndarray:
    placed = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        placed[axis] = size
    return np.broadcast_to(x.reshape(placed), tuple(shape))


def _iota(dtype: Any, shape: Sequence[int], dimension: int, **_: Any) -> np.ndarray:
    line = np.arange(shape[dimension], dtype=dtype)
    return np.broadcast_to(line.reshape([-1 if k == dimension else 1 for k in range(len(shape))]), tuple(shape))


def _slice(
    x: np.ndarray, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any, **_: Any
) -> np.ndarray:
    steps = strides or [1] * x.ndim
    return x[tuple(slice(a, b, s) for a, b, s in zip(start_indices, limit_indices, steps, strict=True))]


def _select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray | None:
    return np.where(which, cases[1], cases[0]) if which.dtype == bool else None


def _reduced(function: Callable) -> Fold:
    return lambda x, axes, **_: function(x, axis=tuple(axes))


def _plain(function: Callable) -> Fold:
    return lambda *args, **_: function(*args)


_PLAIN: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs, "square": np.square,
    "max": np.maximum, "min": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "copy": np.asarray,
    "copy_p": np.asarray, "stop_gradient": np.asarray,
}  # fmt: skip

# What comes from NumPy exactly as from JAX. All else is left to JAX, which compiles it first.
FOLDS: dict[str, Fold] = {
    **{name: _plain(function) for name, function in _PLAIN.items()},
    "convert_element_type": lambda x, new_dtype, **_: x.astype(new_dtype) if x.dtype.kind in "biu" else None,
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "reshape": lambda x, new_sizes, dimensions, **_: x.reshape(new_sizes) if dimensions is None else None,
    "squeeze": lambda x, dimensions, **_: x.squeeze(tuple(dimensions)),
    "expand_dims": lambda x, dimensions, **_: np.expand_dims(x, tuple(dimensions)),
    "transpose": lambda x, permutation, **_: x.transpose(permutation),
    "slice": _slice,
    "concatenate": lambda *xs, dimension, **_: np.concatenate(xs, dimension),
    "select_n": lambda which, *cases, **_: _select(which, *cases),
    "reduce_and": _reduced(np.all),
    "reduce_or": _reduced(np.any),
    "rev": lambda x, dimensions, **_: np.flip(x, tuple(dimensions)),
}


def folded(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """What an equation gives for known values."""
    fold = FOLDS.get(eqn.primitive.name)
    if fold is not None and all(isinstance(x, np.ndarray | np.generic) for x in values):
        with np.errstate(all="ignore"):
            found = fold(*values, **eqn.params)
        if found is not None:
            return [np.asarray(found, dtype=eqn.outvars[0].aval.dtype)]
    with jax.ensure_compile_time_eval():  # also while a program around this one is being traced
        return [as_known(x) for x in as_function(eqn)(*values)]


def as_function(eqn: Any) -> Callable[..., list[Any]]:
    """One equation of a program as a function of the values of its arguments, which JAX can differentiate."""
    arguments = list(dict.fromkeys(x for x in eqn.invars if not isinstance(x, jex.Literal)))
    places = [eqn.invars.index(x) for x in arguments]
    info = jex.DebugInfo("equation", eqn.primitive.name, None, None)
    run = jex.jaxpr_as_fun(jex.ClosedJaxpr(jex.Jaxpr((), arguments, eqn.outvars, [eqn], eqn.effects, info), ()))
    return lambda *values: run(*(values[k] for k in places))


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
    return construct.constant(array) if array.size <= MOST_WRITTEN else hidden(array)


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
