"""Rows of the table of ATen's operations: views, indexing, joining, scattering. All contract with index maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.index_relations import IndexMap, Table
from eindiff.core.nodes import Expr
from eindiff.functions import indexing
from eindiff.functions import multilinear as arrays
from eindiff.functions.multilinear import as_expr
from eindiff.tracing import shapes
from eindiff.tracing.given_indices import Entries, given_entries
from eindiff.tracing.places import placed, replaced, scattered
from eindiff.tracing.shapes import along
from eindiff.tracing.torch.aten import UnfitIndicesError, op, ops
from eindiff.tracing.unsupported import Unsupported
from eindiff.tracing.windows import padded, windows

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


@op("expand", "broadcast_to")
def _expand(x: Expr, shape: Sequence[int], **_: Any) -> Expr:
    new = len(shape) - x.ndim
    sizes = [x.shape[k - new] if size == -1 else size for k, size in enumerate(shape)]
    return shapes.broadcast_to(x, tuple(sizes))


@op("broadcast_in_dim")
def _broadcast_in_dim(x: Expr, shape: Sequence[int], axes: Sequence[int]) -> Expr:
    spread = [x.shape[list(axes).index(k)] if k in axes else 1 for k in range(len(shape))]
    return _expand(indexing.reshape(x, spread), shape)


@op("squeeze")
def _squeeze(x: Expr, dim: Any = None) -> Expr:
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return shapes.squeeze(x, [k for k in axes if x.ndim and x.shape[k] == 1])


@op("as_strided")
def _as_strided(x: Expr, shape: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Expr:
    """Entries at places of the memory of a tensor whose entries are there in order."""
    flat, axes = indexing.reshape(x, (-1,)), range(1, len(shape) + 1)
    chosen = IndexMap(flat.shape[0], tuple(shape), offset or 0, tuple(strides))
    factors = [(flat, (0,)), (construct.constant(chosen), (0, *axes))]
    return construct.einsum(1, factors, tuple(axes), {0: flat.shape[0], **dict(zip(axes, shape, strict=True))})


# Choosing entries


@op("split")
def _split(x: Expr, size: Any, dim: int = 0) -> list[Expr]:
    total = int(x.shape[dim])
    sizes = [size] * (total // size) + [total % size] * (total % size > 0) if isinstance(size, int) else size
    return shapes.pieces(x, sizes, dim)


def chosen_at(x: Expr, index: Sequence[Any]) -> Expr:
    """Entries at places, of which some may be expressions."""
    if not any(isinstance(part, Expr) for part in index):
        return x[tuple(index)]
    return _given(x, index).of(x)


def _given(x: Expr, index: Sequence[Any]) -> Entries:
    found = given_entries(x.shape, [*index, *[slice(None)] * (x.ndim - len(index))])
    if found is None:
        raise UnfitIndicesError
    return found


def entries(indices: Sequence[Any]) -> tuple:
    """PyTorch's list of index tensors, None for all of an axis, as an index of NumPy; masks as lists of places."""
    found: list[Any] = []
    for index in indices:
        if index is None:
            found.append(slice(None))
        elif isinstance(index, Expr):
            found.append(index)
        elif index.dtype.is_floating_point or index.dtype.is_complex:
            raise Unsupported
        elif str(index.dtype) in ("torch.bool", "torch.uint8"):
            found.extend(np.nonzero(index.numpy()))
        else:
            found.append(index.numpy())
    if any(np.size(index) == 0 for index in found if isinstance(index, np.ndarray)):
        raise Unsupported
    return tuple(found)


def _places(index: Any, dim: int) -> tuple[Any, ...]:
    """The place of each entry of an index tensor, axis by axis: its own, but for the axis that is indexed."""
    grids: list[Any] = list(np.indices(tuple(index.shape)))
    grids[dim] = _known(index)
    return tuple(grids)


def _known(index: Any) -> Any:
    """The values of an index; one that comes at the call as it is."""
    return index if isinstance(index, Expr) else index.numpy()


# Diagonals, joining and padding


@op("diag_embed")
def _diag_embed(x: Expr, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Expr:
    labels = tuple(range(x.ndim))
    square = construct.einsum(1, [(x, labels)], (*labels, x.ndim - 1), dict(enumerate(x.shape)))
    if offset:
        before, after = max(-offset, 0), max(offset, 0)
        square = _pad(square, [after, before, before, after])
    return shapes.moveaxis(square, (-2, -1), (dim1, dim2))


def _put_along(x: Expr, axis: int, chosen: IndexMap) -> Expr:
    """A tensor put at places along an axis, with zeros at all others."""
    labels, new = tuple(range(x.ndim)), x.ndim
    output = tuple(new if label == axis else label for label in labels)
    factors = [(x, labels), (construct.constant(chosen), (new, axis))]
    return construct.einsum(1, factors, output, dict(enumerate((*x.shape, chosen.size))))


@op("constant_pad_nd", "pad")
def _pad(x: Expr, widths: Sequence[int], value: Any = 0, mode: Any = None) -> Expr:
    """Entries added (or cut off, if negative) at the ends of the last axes, the last one first."""
    ends = [(low, high, 0) for low, high in zip(widths[::2], widths[1::2], strict=True)]
    return padded(x, value or 0, [(0, 0, 0)] * (x.ndim - len(ends)) + ends[::-1])


def _with_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function along axes, which a number has none of."""
    return lambda x, *args: function(x, *args) if x.ndim else x


# What NumPy has too, with the same arguments
ops({"unsqueeze": shapes.expand_dims, "repeat tile": shapes.tile, "cat concat concatenate": shapes.concatenate,
     "stack": shapes.stack})  # fmt: skip
ops({
    names: _with_axes(function)
    for names, function in {
        "permute": shapes.transpose, "transpose swapaxes": shapes.swapaxes, "flip": shapes.flip, "tril": shapes.tril,
        "triu": shapes.triu, "diag": shapes.diag, "diagonal": shapes.diagonal, "trace": shapes.trace,
        "split_with_sizes": shapes.pieces,
    }.items()
})  # fmt: skip

ops({
    "t numpy_T mT adjoint": lambda x: shapes.matrix_transpose(x) if x.ndim > 1 else x,
    "roll": lambda x, shifts, dims=(): shapes.roll(x, shifts if dims else shifts[0], dims or None),
    "expand_as": lambda x, other: _expand(x, other.shape),
    "select": along,
    "slice": lambda x, dim=0, start=None, end=None, step=1: along(x, dim, slice(start, end, step)),
    "narrow": lambda x, dim, start, length: along(x, dim, slice(start, start + length)),
    "chunk": lambda x, count, dim=0: _split(x, -(-int(x.shape[dim]) // count), dim),
    "unbind": lambda x, dim=0: [along(x, dim, k) for k in range(int(x.shape[dim]))],
    "unfold": lambda x, dim, size, step: windows(x, [dim % x.ndim], [size], [step], [1]),
})
op("index", "_unsafe_index", known=(1,), takes_given=True)(lambda x, indices: chosen_at(x, entries(indices)))
op("gather", known=(2,), takes_given=True)(
    lambda x, dim, index, **_: chosen_at(x, _places(index, dim % x.ndim)) if x.ndim else x
)
op("index_select", known=(2,), takes_given=True)(lambda x, dim, index: _selected(x, dim, index) if x.ndim else x)
op("take", known=(1,))(lambda x, index: indexing.reshape(x, (-1,))[index.numpy()])
op("embedding", known=(1,), takes_given=True)(lambda weight, index, *_: chosen_at(weight, [_known(index)]))


def _selected(x: Expr, dim: int, index: Any) -> Expr:
    return chosen_at(x, [*[slice(None)] * (dim % x.ndim), _known(index.reshape(-1) if index.ndim != 1 else index)])


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
    new = shapes.broadcast_to(values, places.shape)
    shape = [int(size) for size in x.shape]
    added = scattered(new, placed(places, shape), shape)
    return x + added if accumulate else replaced(x, added, is_new.astype(bool).reshape(shape))


ops({
    "select_scatter": lambda x, source, dim, index: _at_places(x, _numbers(x).take(index, dim), source),
    "diagonal_scatter": lambda x, source, offset=0, dim1=0, dim2=1: _at_places(
        x, _numbers(x).diagonal(offset, dim1, dim2), source
    ),
})


@op("slice_scatter")
def _slice_scatter(
    x: Expr, source: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Expr:
    chosen = (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
    return _at_places(x, _numbers(x)[chosen], source)


@op("index_put", "_unsafe_index_put", known=(1,), takes_given=True)
def _index_put(x: Expr, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Expr:
    """Entries at places given by index tensors."""
    if any(isinstance(index, Expr) for index in indices):
        return _added(x, entries(indices), values, accumulate)
    return _at_places(x, _numbers(x)[entries(indices)], values, accumulate)


def _added(x: Expr, index: Sequence[Any], values: Any, accumulate: bool) -> Expr:
    """Entries added at places of which some are expressions; two at one place are not told apart in another way."""
    found = _given(x, index) if accumulate else None
    if found is None or not found.is_whole:
        raise UnfitIndicesError
    return x + found.added(shapes.broadcast_to(as_expr(values), found.shape), [int(size) for size in x.shape])


op("scatter_add", known=(2,), takes_given=True)(
    lambda x, dim, index, source: _scattered(x, dim, index, source, accumulate=True)
)
op("index_copy", known=(2,))(
    lambda x, dim, index, source: _at_places(x, _numbers(x).take(index.reshape(-1).numpy(), dim), source)
)


@op("scatter", known=(2,))
def _scatter(x: Expr, dim: int, index: Any, source: Any, reduce: str | None = None) -> Expr:
    if reduce is not None:
        raise Unsupported
    return _scattered(x, dim, index, source, accumulate=False)


def _scattered(x: Expr, dim: int, index: Any, source: Any, accumulate: bool) -> Expr:
    new = as_expr(source)
    if new.ndim:
        new = new[tuple(slice(0, size) for size in index.shape)]
    if isinstance(index, Expr):
        return _added(x, _places(index, dim % x.ndim), new, accumulate)
    return _at_places(x, _numbers(x)[_places(index, dim % x.ndim)], new, accumulate)


@op("index_add", known=(2,), takes_given=True)
def _index_add(x: Expr, dim: int, index: Any, source: Any, alpha: Any = 1) -> Expr:
    axis = dim % x.ndim
    if isinstance(index, Expr):
        return _added(x, [*[slice(None)] * axis, index], arrays.multiply(alpha, source), True)
    chosen = IndexMap(x.shape[axis], (index.numel(),), indices=Table(index.tolist()))
    return x + _put_along(arrays.multiply(alpha, source), axis, chosen)
