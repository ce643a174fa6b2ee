"""The numbers that a program of JAX computes, by NumPy: for one run of a small program, without JAX's compiler.

That compiler takes longer than all else that is done at a first call. The primitives here are those that NumPy has as
well; a program with any other is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.functions.table import NAMES, Vocabulary

Array = np.ndarray
Primitive = Callable[..., Any]  # of its arrays, and its parameters by name

_TYPES = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64", "uint32", "bool")))
INSIDE = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
         "custom_vjp_call": "call_jaxpr", "checkpoint": "jaxpr", "remat2": "jaxpr"}  # fmt: skip
PLAIN_CALLS = {name: INSIDE[name] for name in ("jit", "pjit", "closed_call")}  # without rules of derivatives

MOST_TURNS = 100  # of a loop


class NoNumbersError(EindiffError):
    """A program that is not computed here."""

    code = "tracing"


def variables_in(atoms: Iterable[Any]) -> list[Any]:
    """What an equation or a program names, without its constants."""
    return [x for x in atoms if not isinstance(x, jex.Literal)]


def inside(equation: Any) -> tuple[Any, Sequence[Any]]:
    """The program that stands in the place of an equation, and what that is given: one that is called, or that of some
    choices which is for this platform; None for all others."""
    if platforms := equation.params.get("branches_platforms"):
        return equation.params["branches"][_platform(platforms)], equation.invars[1:]
    return equation.params.get(INSIDE.get(equation.primitive.name, "")), equation.invars


def _platform(platforms: Sequence[Sequence[str] | None]) -> int:
    """Which of some platforms this is; the last one is for all others."""
    here = [k for k, names in enumerate(platforms) if names is None or jax.default_backend() in names]
    return [*here, len(platforms) - 1][0]


def numbers(program: jex.ClosedJaxpr, inputs: Sequence[Any]) -> list[Array]:
    """What a program computes from some arrays."""
    with np.errstate(all="ignore"):
        return _run(program.jaxpr, [np.asarray(x) for x in program.consts], [np.asarray(x) for x in inputs])


def _run(jaxpr: jex.Jaxpr, constants: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *inputs], strict=True))

    def value(x: Any) -> Array:
        return np.asarray(x.val, x.aval.dtype) if isinstance(x, jex.Literal) else known[x]

    for equation in jaxpr.eqns:
        results = _step(equation, [value(x) for x in equation.invars])
        for variable, result in zip(equation.outvars, results, strict=True):
            if variable.aval.dtype not in _TYPES or np.shape(result) != variable.aval.shape:
                raise NoNumbersError(f"{equation.primitive} gives {variable.aval}")
            known[variable] = np.asarray(result).astype(variable.aval.dtype, copy=False)
    return [value(x) for x in jaxpr.outvars]


def _step(equation: jex.JaxprEqn, args: Sequence[Array]) -> Sequence[Any]:
    name, parameters = equation.primitive.name, equation.params
    program, given = inside(equation)
    if program is not None:
        return _run(getattr(program, "jaxpr", program), getattr(program, "consts", ()), args[len(args) - len(given) :])
    if name == "cond":
        branch = parameters["branches"][np.clip(args[0], 0, len(parameters["branches"]) - 1)]
        return _run(branch.jaxpr, branch.consts, args[1:])
    if name == "scan":
        return _scan(args, **parameters)
    if name not in BY_NUMPY or any(x.dtype not in _TYPES for x in args):
        raise NoNumbersError(f"{name} is not computed by NumPy here")
    result = BY_NUMPY[name](*args, **parameters)
    return result if equation.primitive.multiple_results else [result]


def _scan(
    args: Sequence[Array],
    *,
    jaxpr: jex.ClosedJaxpr,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    **_: Any,
) -> list[Array]:
    """A loop over the first axis of some arrays, with values that go from one turn to the next."""
    if not 0 < length <= MOST_TURNS:
        raise NoNumbersError(f"a loop of {length} turns")
    constants, carried, arrays = args[:num_consts], args[num_consts:][:num_carry], args[num_consts + num_carry :]
    results: list[Sequence[Array]] = [()] * length
    for k in reversed(range(length)) if reverse else range(length):
        found = _run(jaxpr.jaxpr, jaxpr.consts, [*constants, *carried, *(x[k] for x in arrays)])
        carried, results[k] = found[:num_carry], found[num_carry:]
    return [*carried, *(np.stack(parts) for parts in zip(*results, strict=True))]


# Primitives, by name


def _of_arrays(function: Callable[..., Any]) -> Primitive:
    return lambda *args, **_: function(*args)


def _over_axes(function: np.ufunc) -> Primitive:
    return lambda x, *, axes, **_: function.reduce(x, axis=tuple(axes))


def _along_axis(function: Callable[..., Any]) -> Primitive:
    def run(x: Array, *, axis: int, reverse: bool) -> Array:
        turned = np.flip(x, axis) if reverse else x
        found = function(turned, axis=axis)
        return np.flip(found, axis) if reverse else found

    return run


def _divide(a: Array, b: Array, **_: Any) -> Array:
    if a.dtype.kind != "f":
        raise NoNumbersError("whole numbers are divided in other ways")
    return a / b


def _broadcast(x: Array, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> Array:
    own = dict(zip(broadcast_dimensions, x.shape, strict=True))
    return np.broadcast_to(x.reshape([own.get(axis, 1) for axis in range(len(shape))]), shape)


def _reshape(x: Array, *, new_sizes: Sequence[int], dimensions: Any, **_: Any) -> Array:
    if dimensions is not None:
        raise NoNumbersError("the axes are in another order")
    return x.reshape(new_sizes)


def _slice(x: Array, *, start_indices: Any, limit_indices: Any, strides: Any) -> Array:
    steps = strides or (1,) * x.ndim
    return x[tuple([slice(*part) for part in zip(start_indices, limit_indices, steps, strict=True)])]


def _pad(x: Array, value: Array, *, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    if any(low < 0 or high < 0 or inside for low, high, inside in padding_config):
        raise NoNumbersError("entries are cut off, or put between others")
    widths = [(int(low), int(high)) for low, high, _ in padding_config]
    return np.pad(x, widths, constant_values=value) if x.ndim else x


def _multiplied(a: Array, b: Array, *, dimension_numbers: Any, **_: Any) -> Array:
    """A sum of products: axes of the stack first, then the others of both."""
    (summed_a, summed_b), (stack_a, stack_b) = dimension_numbers
    a_labels, b_labels = list(range(a.ndim)), list(range(a.ndim, a.ndim + b.ndim))
    for i, j in zip([*summed_a, *stack_a], [*summed_b, *stack_b], strict=True):
        b_labels[j] = a_labels[i]
    stack = [a_labels[i] for i in stack_a]
    rest = [x for k, x in enumerate(a_labels) if k not in (*summed_a, *stack_a)]
    rest += [x for k, x in enumerate(b_labels) if k not in (*summed_b, *stack_b)]
    return np.einsum(a, a_labels, b, b_labels, stack + rest, optimize=True)


def _iota(*, dtype: Any, shape: Sequence[int], dimension: int, **_: Any) -> Array:
    along = [size if axis == dimension else 1 for axis, size in enumerate(shape)]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(along), shape)


def _sort(x: Array, *more: Array, dimension: int, **_: Any) -> list[Array]:
    if more:
        raise NoNumbersError("several arrays are sorted together")
    return [np.sort(x, axis=dimension)]


def _select(which: Array, *cases: Array) -> Array:
    if len(cases) != 2 or which.dtype != bool:
        raise NoNumbersError("a choice of several")
    return np.where(which, cases[1], cases[0])


def _gather(x: Array, starts: Array, *, dimension_numbers: Any, slice_sizes: Sequence[int], **_: Any) -> Array:
    """Pieces of an array, all of one size, at places that all exist."""
    d = dimension_numbers
    kept = [axis for axis in range(x.ndim) if axis not in d.collapsed_slice_dims]
    place = dict(zip(d.start_index_map, np.moveaxis(starts, -1, 0), strict=True))
    if d.operand_batching_dims or any(
        s.size and not 0 <= s.min() <= s.max() <= x.shape[axis] - slice_sizes[axis] for axis, s in place.items()
    ):
        raise NoNumbersError("there are batches, or places that do not exist")
    batch = starts.ndim - 1
    index = []
    for axis in range(x.ndim):
        start = np.asarray(place.get(axis, 0))
        along = np.arange(slice_sizes[axis]).reshape([-1 if k == axis else 1 for k in kept] or ())
        index.append(start.reshape(start.shape + (1,) * len(kept)) + along)
    found = np.broadcast_to(x[tuple(index)], starts.shape[:-1] + tuple([slice_sizes[axis] for axis in kept]))
    return np.moveaxis(found, range(batch, batch + len(kept)), d.offset_dims)


def _cholesky(x: Array, **_: Any) -> Array:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise NoNumbersError("a matrix is not positive definite") from None


def _dynamic_slice(x: Array, *starts: Array, slice_sizes: Sequence[int]) -> Array:
    """A piece of an array, moved so that it is inside."""
    first = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, slice_sizes, strict=True)]
    return x[tuple([slice(k, k + m) for k, m in zip(first, slice_sizes, strict=True)])]


def _rounded(x: Array, *, rounding_method: Any) -> Array:
    if int(rounding_method) != 1:
        raise NoNumbersError("halves are rounded away from zero")
    return np.round(x)


_OF_ARRAYS: dict[str, Callable[..., Any]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "max": np.maximum, "min": np.minimum, "pow": np.power, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp2": np.exp2,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "ge": np.greater_equal,
    "stop_gradient": np.asarray, "copy": np.asarray, "copy_p": np.asarray,
    "select_n": _select, "is_finite": np.isfinite,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "rem": np.fmod,
    "clamp": lambda least, x, most: np.minimum(np.maximum(x, least), most),
}  # fmt: skip
_BY_NUMPY: dict[str, Primitive] = {
    **{name: _of_arrays(function) for name, function in _OF_ARRAYS.items()},
    **{
        name: _over_axes(function)
        for name, function in {
            "reduce_sum": np.add, "reduce_prod": np.multiply, "reduce_max": np.maximum, "reduce_min": np.minimum,
            "reduce_and": np.logical_and, "reduce_or": np.logical_or,
        }.items()
    },
    "cumsum": _along_axis(np.cumsum), "cumprod": _along_axis(np.cumprod), "cummax": _along_axis(np.maximum.accumulate),
    "cummin": _along_axis(np.minimum.accumulate), "div": _divide, "broadcast_in_dim": _broadcast, "reshape": _reshape,
    "slice": _slice, "pad": _pad, "dot_general": _multiplied, "iota": _iota, "sort": _sort,
    "gather": _gather, "dynamic_slice": _dynamic_slice, "cholesky": _cholesky, "round": _rounded,
    "integer_pow": lambda x, *, y: np.power(x, y) if y >= 0 else 1 / np.power(x, -y),
    "convert_element_type": lambda x, *, new_dtype, **_: x.astype(new_dtype),
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "rev": lambda x, *, dimensions: np.flip(x, tuple(dimensions)),
    "platform_index": lambda *, platforms: np.asarray(_platform(platforms)),
    "concatenate": lambda *arrays, dimension: np.concatenate(arrays, dimension),
    "stack": lambda *arrays, axis: np.stack(arrays, axis),
    "split": lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
    "argmax": lambda x, *, axes, **_: np.argmax(x, axes[0]),
    "argmin": lambda x, *, axes, **_: np.argmin(x, axes[0]),
}  # fmt: skip
BY_NUMPY: Vocabulary[Primitive] = Vocabulary(_BY_NUMPY, NAMES["jax"], lambda function: _of_arrays(function.value))
