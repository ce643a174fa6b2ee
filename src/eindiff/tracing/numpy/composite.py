"""NumPy's functions that order, choose and write entries, in terms of others that traced arrays have.

They are called with traced arrays. What they ask of values (the order of entries, a mask) is a question of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.numpy.given_arguments import are_given
from eindiff.tracing.numpy.values import ask
from eindiff.tracing.shapes import FUNCTIONS, Rows, adding_to

COMPOSITE: Rows = {}
named = adding_to(COMPOSITE)


def flat(a: Any, axis: Any) -> tuple[Any, int]:
    """An array and one of its axes from 0 on; all entries in order if no axis is given."""
    return (np.ravel(a), 0) if axis is None else (a, range(np.ndim(a))[axis])


def discrete(function: Callable, *args: Any, **keywords: Any) -> Any:
    """What a function with discrete values gives; refused where values are not known."""
    found = ask(function, args, keywords)
    return function(*map(bool, args)) if found is NotImplemented else found  # a truth value says why it is refused


# Entries at other places


@named("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **keywords: Any) -> Any:
    """What an array has at its ends, or numbers, around it."""
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        return FUNCTIONS["pad"](as_expr(array), pad_width, mode, **keywords)
    places = np.pad(np.arange(np.size(array)).reshape(np.shape(array)), pad_width, mode, **keywords)
    return np.ravel(array)[places]


@named("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, **_: Any) -> Any:
    """All windows of an array."""
    places = np.arange(np.size(x)).reshape(np.shape(x))
    return np.ravel(x)[np.lib.stride_tricks.sliding_window_view(places, window_shape, axis)]


# Order along an axis


def _along(a: Any, indices: np.ndarray, axis: int) -> tuple[Any, ...]:
    """The index of entries at places along an axis, which differ from line to line."""
    shape = np.shape(a)
    lines = [np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))]) for k, n in enumerate(shape)]
    return (*lines[:axis], indices, *lines[axis + 1 :])


@named("take_along_axis")
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Entries at places along an axis."""
    arr, axis = flat(arr, axis)
    return arr[_along(arr, indices if are_given(indices) else np.asarray(indices), axis)]


@named("put_along_axis")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Write entries at places along an axis."""
    arr, axis = flat(arr, axis)
    arr[_along(arr, np.asarray(indices), axis)] = values


@named("sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: None = None, *, stable: Any = None) -> Any:
    """Entries in ascending order along an axis."""
    a, axis = flat(a, axis)
    return take_along_axis(a, np.argsort(a, axis, kind=kind, stable=stable), axis)


@named("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: None = None) -> Any:
    """Entries with those of some ranks at their places, and smaller ones before them."""
    a, axis = flat(a, axis)
    return take_along_axis(a, np.argpartition(a, kth, axis, kind), axis)


_WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda part: part,
    "lower": lambda part: 0.0 * part,
    "higher": np.ceil,
    "midpoint": lambda part: 0.5 * np.ceil(part),
    "nearest": np.rint,
}


@named("quantile")
def quantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Values below which a fraction of the entries lies: on the line between two of them, or one of the two."""
    if method not in _WEIGHTS:
        raise EindiffError(f"np.quantile with method={method!r}: there are {', '.join(_WEIGHTS)}", "options")
    count = np.ndim(a)
    axes = range(count) if axis is None else [range(count)[k] for k in np.atleast_1d(axis)]
    others = [k for k in range(count) if k not in axes]
    lines = sort(np.transpose(a, [*axes, *others]).reshape((-1, *[np.shape(a)[k] for k in others])), 0)
    place = np.multiply(q, len(lines) - 1.0)
    below = np.asarray(discrete(np.floor, place)).astype(int)
    weight = _WEIGHTS[method](place - below)
    weight = weight[(..., *[None] * len(others))] if others else weight
    found = lines[below] + (lines[np.minimum(below + 1, len(lines) - 1)] - lines[below]) * weight
    return np.expand_dims(found, tuple([np.ndim(q) + k for k in sorted(axes)])) if keepdims else found


@named("percentile")
def percentile(a: Any, q: Any, axis: Any = None, **keywords: Any) -> Any:
    """Values below which so many percent of the entries lie."""
    return quantile(a, np.divide(q, 100.0), axis, **keywords)


@named("median")
def median(a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The entry in the middle, or the mean of two."""
    return quantile(a, 0.5, axis, keepdims=keepdims)


def _without_nan(function: Callable, a: Any, q: Any, axis: Any, keywords: dict[str, Any]) -> Any:
    """A function of the entries along an axis that are numbers."""
    is_number = ~np.asarray(np.isnan(a))
    if is_number.all():
        return function(a, *q, axis, **keywords)
    if axis is None:
        return function(a[is_number], *q, None, **keywords)
    lines, chosen = np.moveaxis(a, axis, -1), np.moveaxis(is_number, axis, -1)
    shape = chosen.shape[:-1]
    found = np.stack([function(lines[k][chosen[k]], *q, None) for k in np.ndindex(shape)], axis=-1)
    found = np.reshape(found, (*np.shape(found)[:-1], *shape))
    return np.expand_dims(found, axis) if keywords.get("keepdims") else found


COMPOSITE["nanmedian"] = lambda a, axis=None, **keywords: _without_nan(median, a, (), axis, keywords)
COMPOSITE["nanquantile"] = lambda a, q, axis=None, **keywords: _without_nan(quantile, a, (q,), axis, keywords)
COMPOSITE["nanpercentile"] = lambda a, q, axis=None, **keywords: _without_nan(percentile, a, (q,), axis, keywords)


@named("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * np.pi) -> Any:
    """Angles without jumps by a period: with whole periods added, whose number is discrete."""
    return p + period * discrete(_turns, p, discont=discont, axis=axis, period=period)


def _turns(p: np.ndarray, **keywords: Any) -> np.ndarray:
    return np.rint((np.unwrap(p, **keywords) - p) / keywords["period"])


@named("unique")
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """Different entries in ascending order."""
    found = ask(np.unique, (ar,), {"return_index": True, "return_inverse": True, "return_counts": True, "axis": axis})
    if found is NotImplemented:
        return np.argsort(ar)  # which is refused
    _, index, inverse, counts = found
    values = np.ravel(ar)[index] if axis is None else np.take(ar, index, axis)
    pairs = ((index, return_index), (inverse, return_inverse), (counts, return_counts))
    wanted = [x for x, is_wanted in pairs if is_wanted]
    return (values, *wanted) if wanted else values


@named("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: None = None) -> Any:
    """Values on the lines between points."""
    if period is not None:
        raise EindiffError("np.interp with a period: reduce x and xp to one period with np.mod first", "tracing")
    if np.size(xp) == 1:
        inside = np.multiply(0.0, x) + fp[0]
    else:
        k = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, np.size(xp) - 2)
        xp, fp = (a if hasattr(a, "dtype") else np.asarray(a) for a in (xp, fp))
        inside = fp[k] + (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k]) * (x - xp[k])
    inside = np.where(np.less(x, xp[0]), fp[0] if left is None else left, inside)
    return np.where(np.greater(x, xp[-1]), fp[-1] if right is None else right, inside)


# Choices


@named("compress")
def compress(condition: Any, a: Any, axis: Any = None) -> Any:
    """Entries along an axis for which a condition holds."""
    a, axis = flat(a, axis)
    return np.take(a, np.nonzero(condition)[0], axis)


COMPOSITE["extract"] = lambda condition, arr: compress(np.ravel(condition), np.ravel(arr))


@named("where")
def where(condition: Any, x: Any, y: Any) -> Any:
    """Entries of one array where a condition holds, else of another.

    What is not chosen and no number would spoil derivatives (0 times NaN); such entries are left out, so that the
    choice is a question of the trace.
    """
    traced = next((part for part in (x, y) if hasattr(type(part), "__eindiff_expression__")), None)
    if traced is None or ask(_spoils, (condition, x, y), is_kept=False) is not True:
        return FUNCTIONS["where"](*map(as_expr, (condition, x, y)))
    shape = np.broadcast_shapes(*map(np.shape, (condition, x, y)))
    chosen = np.broadcast_to(np.asarray(condition), shape).astype(bool)
    found = np.zeros_like(np.broadcast_to(traced, shape), dtype=float)
    for part, places in ((x, chosen), (y, ~chosen)):
        found[places] = part if np.ndim(part) == 0 else np.broadcast_to(part, shape)[places]
    return found


def _spoils(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    return bool(np.any(np.where(condition, ~np.isfinite(y), ~np.isfinite(x))))


@named("select")
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Entries of the first choice whose condition holds."""
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = np.where(condition, choice, found)
    return found


@named("choose")
def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """Entries of the choice that an index names."""
    index = np.asarray(a)
    arrays = np.broadcast_arrays(*choices)
    shape = np.broadcast_shapes(index.shape, np.shape(arrays[0]))
    stacked = np.stack([np.broadcast_to(array, shape) for array in arrays])
    return stacked[(np.broadcast_to(index, shape), *np.indices(shape))]


@named("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **keywords: Any) -> Any:
    """One function for each condition, called with the entries for which it holds."""
    several = condlist if isinstance(condlist, list | tuple) or np.ndim(condlist) > np.ndim(x) else [condlist]
    conditions = [np.asarray(condition) for condition in several]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.any(conditions, axis=0))
    found = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            found[condition] = function
        elif condition.any():
            found[condition] = function(x[condition], *args, **keywords)
    return found


# Arrays side by side


@named("concatenate")
def concatenate(arrays: Sequence[Any], axis: Any = 0, **keywords: Any) -> Any:
    """Arrays joined along an axis; those without entries add nothing."""
    parts = [part for part in arrays if np.size(part)]
    return FUNCTIONS["concatenate"]([as_expr(part) for part in parts], axis)


COMPOSITE["hstack"] = lambda tup, **_: FUNCTIONS["hstack"]([as_expr(part) for part in tup if np.size(part)])
COMPOSITE["dstack"] = lambda tup: np.concatenate([np.atleast_2d(a)[..., None] if np.ndim(a) < 3 else a for a in tup], 2)
COMPOSITE["hsplit"] = lambda ary, indices_or_sections: np.split(ary, indices_or_sections, min(1, np.ndim(ary) - 1))
COMPOSITE["vsplit"] = lambda ary, indices_or_sections: np.split(ary, indices_or_sections, 0)


@named("append")
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """One array after the other."""
    if np.size(arr) and np.size(values):
        return FUNCTIONS["append"](as_expr(arr), as_expr(values), axis)
    return concatenate([np.ravel(arr), np.ravel(values)] if axis is None else [arr, values], axis or 0)


@named("rot90")
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """A matrix turned by right angles."""
    for _ in range(k % 4):
        m = np.flip(np.swapaxes(m, *axes), axes[0])
    return m


@named("einsum")
def einsum(*operands: Any, optimize: Any = False, **keywords: Any) -> Any:
    """Einstein's notation; an axis of size 1 meets any."""
    text, *arrays = operands
    if not isinstance(text, str) or "." in text:
        return FUNCTIONS["einsum"](*operands)
    inputs, arrow, output = text.replace(" ", "").partition("->")
    terms, sizes = inputs.split(","), dict[str, int]()
    for term, array in zip(terms, arrays, strict=True):
        for label, size in zip(term, np.shape(array), strict=False):
            sizes[label] = max(size, sizes.get(label, 1))
    for k, (term, array) in enumerate(zip(terms, arrays, strict=True)):
        thin = [size == 1 < sizes[label] for label, size in zip(term, np.shape(array), strict=False)]
        if any(thin):
            arrays[k] = array[tuple([0 if is_thin else slice(None) for is_thin in thin])]
            terms[k] = "".join(label for label, is_thin in zip(term, thin, strict=True) if not is_thin)
    if not arrow:
        output = "".join(sorted(label for label in set(inputs) - {","} if inputs.count(label) == 1))
    return FUNCTIONS["einsum"](f"{','.join(terms)}->{output}", *arrays)


# Writing


@named("copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write all entries, or those where a condition holds."""
    dst[...] = src if where is True else np.where(where, src, dst)


@named("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write the entries on the main diagonal."""
    size = min(np.shape(a))
    a[(np.arange(size),) * np.ndim(a)] = val


@named("put")
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write entries at places in row-major order."""
    places = np.unravel_index(np.asarray(ind) % np.size(a), np.shape(a))
    a[places] = v if np.ndim(v) == 0 else np.resize(v, np.shape(ind))


@named("putmask")
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write entries where a condition holds; each has its own value."""
    a[np.asarray(mask)] = values if np.ndim(values) == 0 else np.resize(values, np.shape(a))[np.asarray(mask)]


@named("place")
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write entries where a condition holds, one value after the other."""
    chosen = np.asarray(mask).astype(bool)
    arr[chosen] = np.resize(vals, int(chosen.sum()))


@named("resize")
def resize(a: Any, new_shape: Any) -> Any:
    """All entries over and over again, in another shape."""
    count = int(np.prod(new_shape))
    return np.ravel(a)[np.arange(count) % np.size(a)].reshape(new_shape)


@named("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """An array without entries at some places along an axis."""
    arr, axis = flat(arr, axis)
    return np.take(arr, np.delete(np.arange(np.shape(arr)[axis]), obj), axis)


@named("insert")
def insert(arr: Any, obj: int, values: Any, axis: Any = None) -> Any:
    """An array with entries before one place along an axis."""
    arr, axis = flat(arr, axis)
    before, after = np.split(arr, [obj], axis)
    shape = [n for k, n in enumerate(np.shape(arr)) if k != axis]
    new = np.expand_dims(np.broadcast_to(values, shape), axis) if np.ndim(values) < np.ndim(arr) and axis else values
    new = np.atleast_1d(new) if np.ndim(arr) == 1 else new
    new = new[None] if np.ndim(new) < np.ndim(arr) else new
    return np.concatenate([before, new, after], axis)


# Functions of lines and entries


@named("apply_along_axis")
def apply_along_axis(func1d: Callable, axis: int, arr: Any, *args: Any, **keywords: Any) -> Any:
    """A function of each line along an axis."""
    lines = np.moveaxis(arr, axis, -1)
    shape = np.shape(lines)[:-1]
    found = [func1d(lines[place], *args, **keywords) for place in np.ndindex(*shape)]
    inner = np.shape(found[0])
    whole = np.reshape(np.stack(found), (*shape, *inner))
    return np.moveaxis(whole, range(-len(inner), 0), range(axis % np.ndim(arr), axis % np.ndim(arr) + len(inner)))


@named("apply_over_axes")
def apply_over_axes(func: Callable, a: Any, axes: Any) -> Any:
    """A function along one axis after the other, which are kept."""
    for axis in np.atleast_1d(axes):
        found = func(a, axis)
        a = found if np.ndim(found) == np.ndim(a) else np.expand_dims(found, axis)
    return a
