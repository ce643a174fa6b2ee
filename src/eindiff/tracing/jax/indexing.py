"""Slices, gather and scatter, padding, windows and convolutions: contractions with index maps.

An entry of the result is an entry of the argument whose place along each axis is a function of a few axes of the
result. So each axis has an index map of its own, and what was a product of axes stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from eindiff.core import construct
from eindiff.core.construct import Factor, constant
from eindiff.core.index_relations import Given, IndexMap
from eindiff.core.nodes import Expr, plain
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing, reductions
from eindiff.functions import multilinear as arrays
from eindiff.tracing.given_indices import EXACT, MANY
from eindiff.tracing.jax.jaxpr import Handler, TracedEquation, Value
from eindiff.tracing.places import Place, gathered, index_map, replaced, scattered
from eindiff.tracing.shapes import flip
from eindiff.tracing.unsupported import Unsupported
from eindiff.tracing.windows import convolution, lines, padded, windows

# Slices


def slice_(step: TracedEquation, x: Value) -> Expr:
    """Every so many entries of each axis, from one to another."""
    shape = step.shape
    strides = [int(n) for n in step.params["strides"] or (1,) * len(shape)]
    return gathered(step.trace.expr(x), lines(step.params["start_indices"], shape, strides), shape)


def reverse(step: TracedEquation, x: Value) -> Expr:
    """Some axes backwards."""
    return flip(step.trace.expr(x), step.params["dimensions"])


def _starts(step: TracedEquation, given: Sequence[Value], shape: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Known starts of a slice, moved so that it fits, as JAX does."""
    starts = [int(step.trace.known(start)) for start in given]
    return [min(max(a, 0), n - m) for a, n, m in zip(starts, shape, counts, strict=True)]


def dynamic_slice(step: TracedEquation, x: Value, *given: Value) -> Expr:
    """A slice whose start is computed, and known."""
    x, shape = step.trace.expr(x), step.shape
    starts = _starts(step, given, step.avals[0].shape, shape)
    return gathered(x, lines(starts, shape, (1,) * len(shape)), shape)


def dynamic_update_slice(step: TracedEquation, x: Value, update: Value, *given: Value) -> Expr:
    """An array with a slice of it replaced."""
    shape, counts = step.shape, tuple(map(int, step.avals[1].shape))
    places = lines(_starts(step, given, shape, counts), counts, (1,) * len(counts))
    return _replaced(step, x, step.trace.expr(update), places, shape)


def _replaced(step: TracedEquation, x: Value, update: Expr, places: Sequence[Place], shape: tuple[int, ...]) -> Expr:
    """x with the entries at some places replaced, of which no two are the same."""
    added = scattered(update, places, shape)
    if not isinstance(x, Expr) and not np.any(x):
        return added
    is_new = np.zeros(shape, bool)
    is_new[_index(places, [int(n) for n in update.shape])] = True
    return replaced(step.trace.expr(x), added, is_new, step.trace.expr)


def _index(places: Sequence[Place], shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Places as arrays that NumPy can index with."""
    found = []
    for place in places:
        order = np.argsort(place.axes)
        index = place.index.transpose(order)
        aligned = [1] * len(shape)
        for axis, size in zip(sorted(place.axes), index.shape, strict=True):
            aligned[axis] = size
        found.append(np.broadcast_to(index.reshape(aligned), tuple(shape)))
    return tuple(found)


# Gather and scatter


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows of an array at places that an array of indices gives, in the terms of XLA.

    An axis of the entries is one of `window_axes`, which run inside a window, or else counts windows.
    """

    shape: tuple[int, ...]  # of the array
    entries: tuple[int, ...]  # shape of all windows together
    window_axes: tuple[int, ...]
    dropped: tuple[int, ...]  # axes of the array along which a window has one entry, and no axis
    moved: tuple[int, ...]  # axes of the array that the indices are for
    batch: tuple[int, ...]  # axes of the array along which window and index go together
    index_batch: tuple[int, ...]

    def places(self, indices: np.ndarray, sizes: Sequence[int], mode: Any) -> tuple[list[Place], np.ndarray | None]:
        """The place along each axis of the array, and where windows lie inside of it (None: all do)."""
        counting = [k for k in range(len(self.entries)) if k not in self.window_axes]
        inside = iter(self.window_axes)
        valid = np.ones(indices.shape[:-1], dtype=bool)
        found = []
        for axis, (length, size) in enumerate(zip(self.shape, sizes, strict=True)):
            if axis in self.batch:
                along = counting[self.index_batch[self.batch.index(axis)]]
                found.append(Place((along,), np.arange(length)))
                continue
            start = np.zeros((), int)
            axes: tuple[int, ...] = ()
            if axis in self.moved:
                start = indices[..., self.moved.index(axis)].astype(int)
                valid &= (start >= 0) & (start <= length - size)
                start, axes = np.clip(start, 0, length - size), tuple(counting)
            if axis not in self.dropped:
                start, axes = start[..., None] + np.arange(size), (*axes, next(inside))
            found.append(_shortest(Place(axes, start)))
        clipped = mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS) or valid.all()
        return found, None if clipped else self._spread(valid, counting)

    def _spread(self, valid: np.ndarray, counting: Sequence[int]) -> np.ndarray:
        shape = [n if k in counting else 1 for k, n in enumerate(self.entries)]
        return np.broadcast_to(valid.reshape(shape), self.entries)


def _shortest(place: Place) -> Place:
    """A place without the axes along which it is the same."""
    kept = [k for k, n in enumerate(place.index.shape) if n > 1 and (np.diff(place.index, axis=k) != 0).any()]
    index = place.index[tuple(slice(None) if k in kept else 0 for k in range(place.index.ndim))]
    return Place(tuple([place.axes[k] for k in kept]), np.asarray(index))


def gather(step: TracedEquation, x: Value, indices: Value) -> Expr:
    """Windows of an array at known indices; windows that do not fit are filled, or moved until they do."""
    if isinstance(indices, Expr) and _come_later(step, indices):
        return _chosen(step, step.trace.expr(x), indices)
    indices, p, numbers = np.asarray(step.trace.known(indices)), step.params, step.params["dimension_numbers"]
    chosen = _Windows(
        tuple(map(int, step.avals[0].shape)), step.shape, tuple(map(int, numbers.offset_dims)),
        (*map(int, numbers.collapsed_slice_dims), *map(int, numbers.operand_batching_dims)),
        tuple(map(int, numbers.start_index_map)), tuple(map(int, numbers.operand_batching_dims)),
        tuple(map(int, numbers.start_indices_batching_dims)),
    )  # fmt: skip
    places, valid = chosen.places(indices, p["slice_sizes"], GatherScatterMode.from_any(p["mode"]))
    result = gathered(step.trace.expr(x), places, chosen.entries)
    if valid is None:
        return result
    fill = p["fill_value"] if p["fill_value"] is not None else np.nan if step.is_real else 0
    return functions.where(step.trace.expr(valid), result, step.trace.expr(np.asarray(fill, float)))


def _chosen(step: TracedEquation, x: Expr, indices: Expr) -> Expr:
    """Windows at indices whose values come when the program runs."""
    numbers, shape = step.params["dimension_numbers"], step.shape
    if numbers.operand_batching_dims:
        raise Unsupported
    labels, factors, valid = _related(
        step, indices, x.shape, step.params["slice_sizes"], shape, numbers.offset_dims, numbers.collapsed_slice_dims,
        numbers.start_index_map,
    )  # fmt: skip
    lengths = dict(enumerate((*shape, *x.shape)))
    result = construct.einsum(1, [(x, labels), *factors], tuple(range(len(shape))), lengths)
    if valid is None:
        return result
    return functions.where(valid, result, step.trace.expr(np.asarray(step.params["fill_value"], float)))


def _added(step: TracedEquation, x: Expr, indices: Expr, updates: Expr) -> Expr:
    """Entries added at indices whose values come when the program runs; those outside are left out."""
    numbers, shape, entries = step.params["dimension_numbers"], step.shape, updates.shape
    if numbers.operand_batching_dims:
        raise Unsupported
    inside = iter(numbers.update_window_dims)
    dropped = numbers.inserted_window_dims
    sizes = [1 if axis in dropped else int(entries[next(inside)]) for axis in range(len(shape))]
    labels, factors, valid = _related(
        step, indices, shape, sizes, entries, numbers.update_window_dims, dropped, numbers.scatter_dims_to_operand_dims
    )
    update = updates if valid is None else functions.where(valid, updates, 0)
    lengths = dict(enumerate((*entries, *shape)))
    return x + construct.einsum(1, [(update, tuple(range(len(entries)))), *factors], labels, lengths)


def _related(
    step: TracedEquation, indices: Expr, shape: Sequence[Any], sizes: Sequence[int], entries: Sequence[Any],
    window_axes: Sequence[int], dropped: Sequence[int], moved: Sequence[int],
) -> tuple[tuple[int, ...], list[Factor], Expr | None]:  # fmt: skip
    """Labels for the axes of an array, the maps from all windows to them, and where windows lie inside (None: all).

    The axes of all windows together are the labels from 0 on.
    """
    counting = [k for k in range(len(entries)) if k not in window_axes]
    within = iter(window_axes)
    labels, factors, inside = [], [], []
    for axis, (length, size) in enumerate(zip(map(int, shape), sizes, strict=True)):
        index: Expr = construct.filled(0, ())
        axes: list[int] = []
        if axis in moved:
            index, axes = indices[..., list(moved).index(axis)], [*counting]
            index, outside = _in_range(step, index, length - size)
            inside += [(1 - outside, tuple(counting))] if outside is not None else []
        if axis not in dropped:
            index, axes = index[..., None] + step.trace.expr(np.arange(size)), [*axes, next(within)]
        labels.append(len(entries) + axis)
        known = step.trace.constant(index)
        if known is not None:
            place = _shortest(Place(tuple(axes), known.astype(int)))
            factors.append((constant(index_map(length, place)), (labels[-1], *place.axes)))
        else:
            chosen = IndexMap(length, index.shape, indices=Given(plain(index)))
            factors.append((constant(chosen), (labels[-1], *axes)))
    everywhere = tuple(range(len(entries)))
    valid = construct.einsum(1, inside, everywhere, dict(enumerate(entries))) if inside else None
    return tuple(labels), factors, valid


def _come_later(step: TracedEquation, indices: Expr) -> bool:
    """Whether indices are inputs of the program: those of a program around it, or so many that their values are not
    worth a program of their own."""
    names = step.trace.depends_at_all(indices)
    if step.trace.tracers & names:
        return True
    is_exact = max(step.avals[0].shape, default=0) < EXACT
    return is_exact and not step.trace.free & names and prod(map(int, indices.shape)) >= MANY


def _in_range(step: TracedEquation, index: Expr, last: int) -> tuple[Expr, Expr | None]:
    """An index that is moved into its range; and 1 where it is outside, if something is filled in there.

    What would be no number is counted: the whole result is none then.
    """
    mode = GatherScatterMode.from_any(step.params["mode"])
    first, final = (construct.filled(k, index.shape) for k in (0, last))
    moved = functions.maximum(first, -functions.maximum(-final, -index))
    is_filled = mode not in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)
    if not is_filled or step.trace.constant(index) is not None:
        return moved, None
    outside = functions.greater(index, final) + functions.greater(first, index)
    fill = step.params.get("fill_value", 0.0)  # what is added outside is dropped
    if fill is not None and np.isfinite(fill):
        return moved, outside
    step.trace.outside.append(arrays.sum(outside))
    return moved, None


def scatter(step: TracedEquation, x: Value, indices: Value, updates: Value) -> Expr:
    """An array that is changed at known indices: entries added, replaced or multiplied; what is outside is ignored."""
    if step.name in ("scatter-add", "scatter_add") and isinstance(indices, Expr) and _come_later(step, indices):
        return _added(step, step.trace.expr(x), indices, step.trace.expr(updates))
    indices, numbers = np.asarray(step.trace.known(indices)), step.params["dimension_numbers"]
    shape, entries = step.shape, tuple(map(int, step.avals[2].shape))
    dropped = (*map(int, numbers.inserted_window_dims), *map(int, numbers.operand_batching_dims))
    inside = tuple(map(int, numbers.update_window_dims))
    sizes = iter([entries[k] for k in inside])
    chosen = _Windows(
        shape, entries, inside, dropped, tuple(map(int, numbers.scatter_dims_to_operand_dims)),
        tuple(map(int, numbers.operand_batching_dims)), tuple(map(int, numbers.scatter_indices_batching_dims)),
    )  # fmt: skip
    slice_sizes = [1 if k in dropped else next(sizes) for k in range(len(shape))]
    places, valid = chosen.places(indices, slice_sizes, GatherScatterMode.from_any(step.params["mode"]))
    if valid is not None and step.name != "scatter-add":
        raise Unsupported
    update = step.trace.expr(updates)
    if valid is not None:
        update = functions.where(step.trace.expr(valid), update, 0)
    if step.name == "scatter-add":
        return step.trace.expr(x) + scattered(update, places, shape)
    hits = np.zeros(shape)
    np.add.at(hits, _index(places, entries), 1.0)
    if hits.max() > 1:
        raise Unsupported
    if step.name == "scatter":
        return _replaced(step, x, update, places, shape)
    return arrays.multiply(step.trace.expr(x), scattered(update - 1, places, shape) + 1)


# Padding and windows


def pad(step: TracedEquation, x: Value, value: Value) -> Expr:
    """Entries added around and between."""
    if not isinstance(value, Expr) and not np.isfinite(value):
        raise Unsupported
    if 0 in step.avals[0].shape:
        return arrays.broadcast("pad", [step.trace.expr(value), arrays.zeros(*step.shape)])[0]
    filler = step.trace.expr(value)
    return padded(step.trace.expr(x), 0 if construct.is_zero(filler) else filler, step.params["padding_config"])


def conv(step: TracedEquation, x: Value, kernel: Value) -> Expr:
    """A convolution, with axes in any order."""
    p, numbers = step.params, step.params["dimension_numbers"]
    if p["batch_group_count"] != 1:
        raise Unsupported
    x = arrays.transpose(step.trace.expr(x), numbers.lhs_spec)  # batch, in, space
    kernel = arrays.transpose(step.trace.expr(kernel), numbers.rhs_spec)  # out, in, space
    widths = [(low, high, apart - 1) for (low, high), apart in zip(p["padding"], p["lhs_dilation"], strict=True)]
    x = padded(x, 0, [(0, 0, 0), (0, 0, 0), *widths])
    result = convolution(x, kernel, p["window_strides"], p["rhs_dilation"], p["feature_group_count"])
    return arrays.transpose(result, tuple(int(k) for k in np.argsort(numbers.out_spec)))


def _windows_of(step: TracedEquation, x: Value) -> Expr:
    """All windows; the places inside of a window come last."""
    p = step.params
    is_padded = any(map(any, p["padding"]))
    if any(n != 1 for n in p["base_dilation"]) or (is_padded and step.name != "reduce_window_sum"):
        raise Unsupported
    x = padded(step.trace.expr(x), 0, [(low, high, 0) for low, high in p["padding"]])
    return windows(x, range(x.ndim), p["window_dimensions"], p["window_strides"], p["window_dilation"])


def window_sum(step: TracedEquation, x: Value) -> Expr:
    """Sums over windows."""
    found = _windows_of(step, x)
    return arrays.sum(found, range(found.ndim // 2, found.ndim))


def window_max(step: TracedEquation, x: Value) -> Expr:
    """The largest entry of each window."""
    found = _windows_of(step, x)
    inside = [k for k in range(found.ndim // 2, found.ndim) if found.shape[k] != 1]
    return indexing.reshape(reductions.max(found, inside) if inside else found, step.shape)


PLACED: dict[str, Handler] = {
    "slice": slice_,
    "rev": reverse,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": gather,
    **dict.fromkeys(("scatter", "scatter-add", "scatter_add", "scatter_mul", "scatter-mul"), scatter),
    "pad": pad,
    "conv_general_dilated": conv,
    "reduce_window_sum": window_sum,
    "reduce_window_max": window_max,
}
