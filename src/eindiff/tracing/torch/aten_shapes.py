"""Rows of the table of ATen's operations: views, indexing, joining, scattering. All contract with index maps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.index_relations import IndexMap, Lower
from eindiff.core.nodes import Expr
from eindiff.functions import elementwise as functions
from eindiff.functions import indexing
from eindiff.functions import multilinear as arrays
from eindiff.functions.multilinear import as_expr
from eindiff.tracing.places import placed, replaced, scattered
from eindiff.tracing.torch.aten import op
from eindiff.tracing.unsupported import Unsupported

# Views


@op("view", "reshape", "_unsafe_view", "_reshape_alias")
def _view(x: Expr, shape: Any, *_: Any) -> Expr:
    if not isinstance(shape, list | tuple):  # a view as another type
        raise Unsupported
    return indexing.reshape(x, tuple(shape))


@op("flatten")
def _flatten(x: Expr, start: int = 0, end: int = -1) -> Expr:
    start, end = start % x.ndim, end % x.ndim
    return indexing.reshape(x, (*x.shape[:start], prod(map(int, x.shape[start : end + 1])), *x.shape[end + 1 :]))


@op("permute")
def _permute(x: Expr, axes: Sequence[int]) -> Expr:
    return arrays.transpose(x, [k % x.ndim for k in axes])


@op("transpose", "swapaxes")
def _transpose(x: Expr, a: int, b: int) -> Expr:
    axes = list(range(x.ndim))
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return arrays.transpose(x, axes)


@op("t", "numpy_T", "mT", "adjoint")
def _t(x: Expr) -> Expr:
    return _transpose(x, -1, -2) if x.ndim > 1 else x


@op("expand", "broadcast_to")
def _expand(x: Expr, shape: Sequence[int], **_: Any) -> Expr:
    new = len(shape) - x.ndim
    sizes = [x.shape[k - new] if size == -1 else size for k, size in enumerate(shape)]
    return arrays.broadcast("expand", [x, construct.filled(0, tuple(sizes))])[0]


@op("expand_as")
def _expand_as(x: Expr, other: Expr) -> Expr:
    return _expand(x, other.shape)


@op("broadcast_in_dim")
def _broadcast_in_dim(x: Expr, shape: Sequence[int], axes: Sequence[int]) -> Expr:
    spread = [x.shape[list(axes).index(k)] if k in axes else 1 for k in range(len(shape))]
    return _expand(indexing.reshape(x, spread), shape)


@op("unsqueeze")
def _unsqueeze(x: Expr, dim: int) -> Expr:
    return x[(slice(None),) * (dim % (x.ndim + 1)) + (None,)]


@op("squeeze")
def _squeeze(x: Expr, dim: Any = None) -> Expr:
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {k % x.ndim for k in axes if x.ndim and x.shape[k] == 1}
    return indexing.reshape(x, tuple(size for k, size in enumerate(x.shape) if k not in gone))


@op("repeat", "tile")
def _repeat(x: Expr, times: Sequence[int]) -> Expr:
    times = [1] * (x.ndim - len(times)) + list(times)
    sizes = [1] * (len(times) - x.ndim) + list(x.shape)
    pairs = [part for count, size in zip(times, sizes, strict=True) for part in (count, size)]
    grown = indexing.reshape(x, [part for size in sizes for part in (1, size)])
    return indexing.reshape(_expand(grown, pairs), [c * int(s) for c, s in zip(times, sizes, strict=True)])


# Choosing entries


def along(x: Expr, axis: int, chosen: Any) -> Expr:
    """An index along one axis."""
    return x[(slice(None),) * (axis % x.ndim) + (chosen,)]


@op("select")
def _select(x: Expr, dim: int, index: int) -> Expr:
    return along(x, dim, index)


@op("slice")
def _slice(x: Expr, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Expr:
    return along(x, dim, slice(start, end, step))


@op("narrow")
def _narrow(x: Expr, dim: int, start: int, length: int) -> Expr:
    return along(x, dim, slice(start, start + length))


@op("split")
def _split(x: Expr, size: Any, dim: int = 0) -> list[Expr]:
    total = int(x.shape[dim])
    sizes = [size] * (total // size) + [total % size] * (total % size > 0) if isinstance(size, int) else size
    return _split_with_sizes(x, sizes, dim)


@op("split_with_sizes")
def _split_with_sizes(x: Expr, sizes: Sequence[int], dim: int = 0) -> list[Expr]:
    ends = list(accumulate(sizes))
    return [along(x, dim, slice(end - size, end)) for end, size in zip(ends, sizes, strict=True)]


@op("chunk")
def _chunk(x: Expr, count: int, dim: int = 0) -> list[Expr]:
    return _split(x, -(-int(x.shape[dim]) // count), dim)


@op("unbind")
def _unbind(x: Expr, dim: int = 0) -> list[Expr]:
    return [along(x, dim, k) for k in range(int(x.shape[dim]))]


@op("flip")
def _flip(x: Expr, dims: Sequence[int]) -> Expr:
    for dim in dims:
        x = along(x, dim, slice(None, None, -1))
    return x


@op("roll")
def _roll(x: Expr, shifts: Sequence[int], dims: Sequence[int] = ()) -> Expr:
    if not dims:
        return indexing.reshape(_roll(indexing.reshape(x, (-1,)), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = int(x.shape[dim])
        if at := (size - shift) % size:
            x = indexing.concatenate([along(x, dim, slice(at, None)), along(x, dim, slice(0, at))], dim % x.ndim)
    return x


@op("index", "_unsafe_index", known=(1,))
def _index(x: Expr, indices: Sequence[Any]) -> Expr:
    return x[entries(x, indices)]


def entries(x: Expr, indices: Sequence[Any]) -> tuple:
    """PyTorch's list of index tensors, None for all of an axis, as an index of NumPy; masks as lists of places."""
    found: list[Any] = []
    for index in indices:
        if index is None:
            found.append(slice(None))
        elif index.dtype.is_floating_point or index.dtype.is_complex:
            raise Unsupported
        elif str(index.dtype) in ("torch.bool", "torch.uint8"):
            found.extend(np.nonzero(index.numpy()))
        else:
            found.append(index.numpy())
    if any(np.size(index) == 0 for index in found if not isinstance(index, slice)):
        raise Unsupported
    return tuple(found)


@op("index_select", known=(2,))
def _index_select(x: Expr, dim: int, index: Any) -> Expr:
    return along(x, dim, index.numpy()) if x.ndim else x


@op("take", known=(1,))
def _take(x: Expr, index: Any) -> Expr:
    return indexing.reshape(x, (-1,))[index.numpy()]


@op("embedding", known=(1,))
def _embedding(weight: Expr, index: Any, *_: Any) -> Expr:
    return weight[index.numpy()]


@op("gather", known=(2,))
def _gather(x: Expr, dim: int, index: Any, **_: Any) -> Expr:
    return x[_places(index, dim % x.ndim)] if x.ndim else x


def _places(index: Any, dim: int) -> tuple[np.ndarray, ...]:
    """The place of each entry of an index tensor, axis by axis: its own, but for the axis that is indexed."""
    grids = list(np.indices(tuple(index.shape)))
    grids[dim] = index.numpy()
    return tuple(grids)


@op("unfold")
def _unfold(x: Expr, dim: int, size: int, step: int) -> Expr:
    """Windows along an axis, which become the last axis: k = step * i + j."""
    axis, labels = dim % x.ndim, list(range(x.ndim))
    count = (int(x.shape[axis]) - size) // step + 1
    windows = construct.constant(IndexMap(x.shape[axis], (count, size), 0, (step, 1)))
    i, j = x.ndim, x.ndim + 1
    output = [i if label == axis else label for label in labels] + [j]
    sizes = dict(enumerate((*x.shape, count, size)))
    return construct.einsum(1, [(x, tuple(labels)), (windows, (axis, i, j))], tuple(output), sizes)


# Triangles and diagonals


def triangle(rows: int, columns: int, diagonal: int) -> Expr:
    """The matrix of ones on and below a diagonal."""
    if rows == columns and diagonal in (0, -1):
        lower = construct.constant(Lower(rows))
        return lower if diagonal == 0 else lower - arrays.eye(rows)
    return as_expr(np.tri(rows, columns, diagonal))


@op("tril")
def _tril(x: Expr, diagonal: int = 0) -> Expr:
    return x * triangle(int(x.shape[-2]), int(x.shape[-1]), diagonal)


@op("triu")
def _triu(x: Expr, diagonal: int = 0) -> Expr:
    return x * (1 - triangle(int(x.shape[-2]), int(x.shape[-1]), diagonal - 1))


@op("diagonal")
def _diagonal(x: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    one, two = dim1 % x.ndim, dim2 % x.ndim
    rows, columns = max(-offset, 0), max(offset, 0)
    count = min(int(x.shape[one]) - rows, int(x.shape[two]) - columns)
    x = along(along(x, one, slice(rows, rows + count)), two, slice(columns, columns + count))
    labels = tuple(one if k == two else k for k in range(x.ndim))
    output = (*(k for k in range(x.ndim) if k not in (one, two)), one)
    return construct.einsum(1, [(x, labels)], output, dict(enumerate(x.shape)))


@op("diag_embed")
def _diag_embed(x: Expr, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Expr:
    labels = tuple(range(x.ndim))
    square = construct.einsum(1, [(x, labels)], (*labels, x.ndim - 1), dict(enumerate(x.shape)))
    if offset:
        before, after = max(-offset, 0), max(offset, 0)
        square = _pad(square, [after, before, before, after])
    order = [k for k in range(square.ndim) if k not in (dim1 % square.ndim, dim2 % square.ndim)]
    place = dict(zip([*order, dim1 % square.ndim, dim2 % square.ndim], range(square.ndim), strict=True))
    return arrays.transpose(square, [place[k] for k in range(square.ndim)])


@op("diag")
def _diag(x: Expr, diagonal: int = 0) -> Expr:
    return _diag_embed(x, diagonal) if x.ndim == 1 else _diagonal(x, diagonal)


# Joining and padding


@op("cat", "concat", "concatenate")
def _cat(parts: Sequence[Any], dim: int = 0) -> Expr:
    exprs = [as_expr(part) for part in parts]
    return indexing.concatenate(exprs, dim % exprs[0].ndim)


@op("stack")
def _stack(parts: Sequence[Any], dim: int = 0) -> Expr:
    return indexing.stack([as_expr(part) for part in parts], dim)


def _put_along(x: Expr, axis: int, chosen: IndexMap) -> Expr:
    """A tensor put at places along an axis, with zeros at all others."""
    labels, new = tuple(range(x.ndim)), x.ndim
    output = tuple(new if label == axis else label for label in labels)
    factors = [(x, labels), (construct.constant(chosen), (new, axis))]
    return construct.einsum(1, factors, output, dict(enumerate((*x.shape, chosen.size))))


@op("constant_pad_nd", "pad")
def _pad(x: Expr, widths: Sequence[int], value: Any = 0, mode: Any = None) -> Expr:
    """Entries added (or cut off, if negative) at the ends of the last axes, the last one first."""
    ends = [x.ndim - 1 - k for k in range(len(widths) // 2)]
    for axis, before, after in zip(ends, widths[::2], widths[1::2], strict=True):
        size = int(x.shape[axis])
        x = along(x, axis, slice(max(-before, 0), size + min(after, 0)))
        before, after = max(before, 0), max(after, 0)
        if before or after:
            size = int(x.shape[axis])
            total = before + size + after
            grown = _put_along(x, axis, IndexMap(total, (size,), before, (1,)))
            if value:
                inside = np.zeros([total if k == axis else 1 for k in range(x.ndim)])
                inside[(slice(None),) * axis + (slice(before, before + size),)] = 1
                grown = functions.where(as_expr(inside), grown, value)
            x = grown
    return x


# Scattering: a tensor with other entries at some places


def _numbers(x: Expr) -> np.ndarray:
    """The number of each entry in row-major order."""
    return np.arange(prod(map(int, x.shape))).reshape([int(size) for size in x.shape])


def _at_places(x: Expr, places: np.ndarray, values: Any, accumulate: bool = False) -> Expr:
    """x with values added or put at places, which are counted in row-major order."""
    if not places.size:
        return x
    is_new = np.bincount(places.ravel(), minlength=prod(map(int, x.shape)))
    if not accumulate and is_new.max() > 1:
        raise Unsupported
    new = arrays.broadcast("set", [as_expr(values), construct.filled(0, places.shape)])[0]
    shape = [int(size) for size in x.shape]
    added = scattered(new, placed(places, shape), shape)
    return x + added if accumulate else replaced(x, added, is_new.astype(bool).reshape(shape))


@op("copy")
def _copy(x: Expr, source: Any, *_: Any) -> Expr:
    return arrays.broadcast("copy", [as_expr(source), construct.filled(0, x.shape)])[0]


@op("select_scatter")
def _select_scatter(x: Expr, source: Any, dim: int, index: int) -> Expr:
    return _at_places(x, _numbers(x).take(index, dim), source)


@op("slice_scatter")
def _slice_scatter(
    x: Expr, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Expr:
    chosen = (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
    return _at_places(x, _numbers(x)[chosen], source)


@op("diagonal_scatter")
def _diagonal_scatter(x: Expr, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    return _at_places(x, _numbers(x).diagonal(offset, dim1, dim2), source)


@op("index_put", "_unsafe_index_put", known=(1,))
def _index_put(x: Expr, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Expr:
    """Entries at places given by index tensors."""
    return _at_places(x, _numbers(x)[entries(x, indices)], values, accumulate)


@op("scatter_add", known=(2,))
def _scatter_add(x: Expr, dim: int, index: Any, source: Any) -> Expr:
    return _scattered(x, dim, index, source, accumulate=True)


@op("scatter", known=(2,))
def _scatter(x: Expr, dim: int, index: Any, source: Any, reduce: str | None = None) -> Expr:
    if reduce is not None:
        raise Unsupported
    return _scattered(x, dim, index, source, accumulate=False)


def _scattered(x: Expr, dim: int, index: Any, source: Any, accumulate: bool) -> Expr:
    new = as_expr(source)
    if new.ndim:
        new = new[tuple(slice(0, size) for size in index.shape)]
    return _at_places(x, _numbers(x)[_places(index, dim % x.ndim)], new, accumulate)


@op("index_copy", known=(2,))
def _index_copy(x: Expr, dim: int, index: Any, source: Any) -> Expr:
    return _at_places(x, _numbers(x).take(index.numpy(), dim), source)


@op("index_add", known=(2,))
def _index_add(x: Expr, dim: int, index: Any, source: Any, alpha: Any = 1) -> Expr:
    axis = dim % x.ndim
    chosen = IndexMap(x.shape[axis], (index.numel(),), indices=tuple(index.tolist()))
    return x + _put_along(arrays.multiply(alpha, source), axis, chosen)
