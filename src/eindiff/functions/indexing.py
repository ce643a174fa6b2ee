"""Reshaping, slicing and joining: contractions with index maps, which are never formed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import Factor, constant
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import Given, IndexMap, Table
from eindiff.core.labels import fresh_labels
from eindiff.core.networks import new_label
from eindiff.core.nodes import Einsum, Expr, Variable, is_index_map, plain
from eindiff.core.sizes import Shape, Size
from eindiff.functions.multilinear import Operand, as_expr, axis_of, outer, short, transpose


def reshape(a: Operand, shape: Size | Sequence[Size]) -> Expr:
    """The same entries in row-major order with another shape; one size may be -1.

    Args:
        a: a tensor expression, an array or a number
        shape: one size or several

    >>> ed.reshape(ed.matrix("A", 2, 6), (3, -1)).shape
    (3, 4)

    See also: `vec`.
    """
    a = as_expr(a)
    new = _new_shape(a, shape.tolist() if isinstance(shape, np.ndarray) else shape)
    labels = fresh_labels(len(new), range(a.ndim))
    output = list(labels)
    sizes = dict(enumerate(a.shape)) | dict(zip(output, new, strict=True))
    factors: list[Factor] = [(a, tuple(range(a.ndim)))]
    for merged, split in _matching_groups(a.shape, new):
        if len(merged) == len(split) == 1:
            output[split[0]] = merged[0]
            continue
        total = sz.product([a.shape[k] for k in merged])
        joint = labels[split[0]] if len(split) == 1 else merged[0] if len(merged) == 1 else new_label(sizes, total)
        if len(merged) > 1:
            factors.append((_row_major(total, [a.shape[k] for k in merged]), (joint, *merged)))
        if len(split) > 1:
            factors.append((_row_major(total, [new[k] for k in split]), (joint, *(labels[k] for k in split))))
    return construct.einsum(1, factors, tuple(output), sizes)


def _new_shape(a: Expr, shape: Size | Sequence[Size]) -> Shape:
    """The sizes of a shape that has as many entries as an expression."""
    new = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else [shape]
    new = [size if size == -1 else sz.read(size) for size in new]
    if -1 in new:
        new[new.index(-1)] = _missing_size(a, [size for size in new if size != -1])
    if sz.product(a.shape) != sz.product(new):
        raise EindiffError(
            f"reshape: {short(a)} has shape {shape_text(a.shape)}, "
            f"which does not have as many entries as {shape_text(tuple(new))}",
            "shapes",
        )
    return tuple(new)


def _missing_size(a: Expr, known: list[Size]) -> Size:
    """The size that -1 stands for: what is left of the shape when the known sizes are taken out."""
    total, left = sz.product(a.shape), list(a.shape)
    if isinstance(total, int) and all(isinstance(size, int) for size in known):
        rest = int(sz.product(known))
        return total // rest if rest and total % rest == 0 else -1
    for size in known:
        if size in left:
            left.remove(size)
    return sz.product(left)


def _matching_groups(old: Shape, new: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The axes of two shapes, without those of size 1, in the smallest groups that have as many entries."""
    old_axes, new_axes = ([axis for axis, size in enumerate(shape) if size != 1] for shape in (old, new))
    while old_axes or new_axes:
        m, n = _first_group([old[axis] for axis in old_axes], [new[axis] for axis in new_axes])
        yield old_axes[:m], new_axes[:n]
        old_axes, new_axes = old_axes[m:], new_axes[n:]


def _first_group(old: list[Size], new: list[Size]) -> tuple[int, int]:
    """The smallest numbers of leading axes on both sides that have as many entries."""
    for count in range(2, len(old) + len(new) + 1):
        for m in range(max(1, count - len(new)), min(len(old), count - 1) + 1):
            if sz.product(old[:m]) == sz.product(new[: count - m]):
                return m, count - m
    raise EindiffError(f"reshape: cannot split {shape_text(tuple(old))} into {shape_text(tuple(new))}", "shapes")


def _row_major(total: Size, sizes: Sequence[Size]) -> Expr:
    """The index map that merges axes into one."""
    strides = [sz.product(sizes[k + 1 :]) for k in range(len(sizes))]
    return constant(IndexMap(total, tuple(sizes), 0, tuple(strides)))


def getitem(a: Expr, index: Any) -> Expr:
    """Indexing with integers, slices, None, `...`, lists of integers and declared indices, as NumPy has it."""
    entries = _entries(a, index)
    lists = [k for k, entry in enumerate(entries) if not isinstance(entry, slice) and _order(entry)]
    together = _lists_as_one(a, entries) if len(lists) > 0 else {}
    factors: list[Factor] = [(a, tuple(range(a.ndim)))]
    sizes = dict(enumerate(a.shape))
    output: list[int] = []
    joint: tuple[int, ...] = ()
    axis = 0
    for k, entry in enumerate(entries):
        if entry is None:
            output.append(len(sizes))
            sizes[len(sizes)] = 1
            continue
        chosen = _index_map(a, a.shape[axis], together.get(k, entry))
        if chosen is None:
            output.append(axis)
        elif k in together and joint:
            factors.append((constant(chosen), (axis, *(joint if chosen.inputs else ()))))
        elif k in together and not chosen.inputs:
            factors.append((constant(chosen), (axis,)))
        else:
            inputs = tuple(range(len(sizes), len(sizes) + len(chosen.inputs)))
            sizes.update(zip(inputs, chosen.inputs, strict=True))
            factors.append((constant(chosen), (axis, *inputs)))
            if k in together:
                joint = inputs
            at = 0 if k in together and not _adjacent(together) else len(output)
            output[at:at] = inputs
        axis += 1
    return construct.einsum(1, factors, tuple(output), sizes)


def read_at(a: Expr, axis: int, chosen: IndexMap) -> Expr:
    """The entries of an axis at the places of an index map, whose inputs take the place of the axis."""
    inputs = tuple(range(a.ndim, a.ndim + len(chosen.inputs)))
    sizes = dict(enumerate((*a.shape, *chosen.inputs)))
    output = (*range(axis), *inputs, *range(axis + 1, a.ndim))
    return construct.einsum(1, [(a, tuple(range(a.ndim))), (constant(chosen), (axis, *inputs))], output, sizes)


def _entries(a: Expr, index: Any) -> list[Any]:
    """An index for each axis, and None for each new one; masks as lists of places."""
    entries = list(index) if isinstance(index, tuple) else [index]
    named = [e for e in entries if e is not None and e is not Ellipsis]
    if len(named) > a.ndim:
        raise EindiffError(
            f"{short(a)}[...] has {len(named)} indices, but its shape is {shape_text(a.shape)}", "indices"
        )
    if not any(e is Ellipsis for e in entries):
        entries.append(Ellipsis)
    at = next(k for k, e in enumerate(entries) if e is Ellipsis)
    entries[at : at + 1] = [slice(None)] * (a.ndim - len(named))
    axis = 0
    for k, entry in enumerate(entries):
        if isinstance(entry, slice | Expr) or entry is None:
            axis += entry is not None
            continue
        if _as_array(a, entry).dtype == bool:
            size = a.shape[axis]
            if np.ndim(entry) != 1 or (isinstance(size, int) and len(entry) != size):
                raise EindiffError(
                    f"{short(a)}[{entry!r}]: a mask needs one entry for each of the {size} along its axis",
                    "indices",
                )
            entries[k] = np.flatnonzero(entry)
        axis += 1
    return entries


def _order(entry: Any) -> int:
    return entry.ndim if isinstance(entry, Expr) else np.ndim(entry)


def _as_array(a: Expr, entry: Any) -> np.ndarray:
    try:
        return np.asarray(entry)
    except EindiffError:  # an expression, which has no values
        raise
    except ValueError:
        raise EindiffError(f"{short(a)}[{entry!r}]: the rows of an index need one length", "indices") from None


def _lists_as_one(a: Expr, entries: list[Any]) -> dict[int, Any]:
    """Lists of one index go together, entry by entry, and integers with them: by their places in the index."""
    places = [k for k, entry in enumerate(entries) if entry is not None and not isinstance(entry, slice)]
    if any(isinstance(entries[k], Expr) for k in places):
        given = [entries[k].shape if isinstance(entries[k], Expr) else np.shape(entries[k]) for k in places]
        if len(shapes := dict.fromkeys([shape for shape in given if shape])) > 1:
            both = " and ".join(map(shape_text, shapes))
            raise EindiffError(f"{short(a)}[...]: indices of shapes {both} do not fit together", "indices")
        return {k: entries[k] for k in places}
    try:
        arrays = np.broadcast_arrays(*(np.asarray(entries[k]) for k in places))
    except ValueError:
        both = " and ".join(str(np.shape(entries[k])) for k in places)
        raise EindiffError(
            f"{short(a)}[...]: lists of indices of shapes {both} do not fit together", "indices"
        ) from None
    return dict(zip(places, arrays, strict=True))


def _adjacent(places: dict[int, Any]) -> bool:
    return max(places) - min(places) + 1 == len(places)


def _index_map(a: Expr, size: Size, entry: Any) -> IndexMap | None:
    """What an index chooses from an axis; None if it is all of it."""
    if isinstance(entry, slice):
        return _slice_map(a, size, entry)
    if isinstance(entry, Expr):
        return _given(a, size, plain(entry))
    chosen = np.asarray(entry)
    if chosen.dtype.kind not in "iu":
        raise EindiffError(
            f"{short(a)}[{entry!r}]: an index is an integer, a slice, None, ... or a list of integers", "indices"
        )
    least = int(chosen.min()) if chosen.size else 0
    if isinstance(size, int):
        if chosen.size and not -size <= least <= chosen.max() < size:
            place = np.argwhere((chosen < -size) | (chosen >= size))[0].tolist()
            where = f", but there is {chosen[tuple(place)]} at {', '.join(map(str, place))}" if place else ""
            raise EindiffError(f"{short(a)}[{entry!r}]: the axis has size {size}{where}", "indices")
        if least < 0:
            chosen, least = np.where(chosen < 0, chosen + size, chosen), 0
    if chosen.ndim == 0:
        k = int(chosen)
        return IndexMap(size, (), k if k >= 0 else sz.add(size, k))
    if chosen.size == 0:
        raise EindiffError(f"{short(a)}[{entry!r}]: a list of indices needs at least one entry", "indices")
    if least < 0:
        raise EindiffError(
            f"{short(a)}[{entry!r}]: a list of indices needs entries from 0 on when the size {size} is a name",
            "indices",
        )
    return IndexMap(size, tuple(chosen.shape), indices=Table(chosen))


def _given(a: Expr, size: Size, index: Expr) -> IndexMap:
    """Indices whose values come at run time."""
    into = index_range(index)
    if into is None:
        raise EindiffError(
            f"{short(a)}[{short(index)}]: {short(index)} holds numbers; declare indices(name, ..., into={size!r}). "
            "Where an index or a mask depends on values, choose with np.where(condition, a, b)",
            "indices",
        )
    if into != size:
        raise EindiffError(
            f"{short(a)}[{short(index)}]: {short(index)} holds indices into {into}, but the axis has size {size}",
            "indices",
        )
    return IndexMap(size, index.shape, indices=Given(index))


def index_range(expr: Expr) -> Size | None:
    """The size of the axis that an expression holds indices of: a declared variable, or entries of one."""
    if isinstance(expr, Variable):
        return expr.into
    if not isinstance(expr, Einsum) or expr.coefficient != 1:
        return None
    factors = expr.factors
    sources = [(node, labels) for node, labels in factors if not is_index_map(node)]
    read = {labels[0] for node, labels in factors if is_index_map(node)}
    if len(sources) != 1 or not read.union(expr.output).issuperset(sources[0][1]) or read & set(expr.output):
        return None
    return index_range(sources[0][0])


def _as_slice(a: Expr, entry: slice) -> slice:
    """A slice whose bounds are whole numbers, sizes or None, and whose step is a whole number other than 0."""
    try:
        start, stop = (
            bound if bound is None else sz.read(bound) if isinstance(bound, str) else index(bound)
            for bound in (entry.start, entry.stop)
        )
        step = 1 if entry.step is None else index(entry.step)
    except TypeError:
        step = 0
    if step == 0:
        raise EindiffError(f"{short(a)}[{entry}]: bounds are whole numbers or sizes, and a step is not 0", "indices")
    return slice(start, stop, step)


def _slice_map(a: Expr, size: Size, entry: slice) -> IndexMap | None:
    entry = _as_slice(a, entry)
    first, count, step = _slice_bounds(a, size, entry)
    if isinstance(count, int) and count <= 0:
        raise EindiffError(
            f"{short(a)}[{entry.start}:{entry.stop}:{step}] is empty: the axis has size {size}", "indices"
        )
    chosen = IndexMap(size, (count,), first, (step,))
    return None if chosen.is_identity() else chosen


def _slice_bounds(a: Expr, size: Size, entry: slice) -> tuple[Size, Size, int]:
    """Where a slice begins, how many entries it has, and its step."""
    if isinstance(size, int):
        if isinstance(entry.start, str) or isinstance(entry.stop, str):
            raise EindiffError(
                f"{short(a)}[{entry.start}:{entry.stop}]: the axis has size {size}, so bounds are numbers",
                "indices",
            )
        start, stop, step = entry.indices(size)
        return start, len(range(start, stop, step)), step
    if entry.step == -1 and entry.start is None and entry.stop is None:
        return sz.subtract(size, 1), size, -1
    if entry.step != 1:
        raise EindiffError(f"{short(a)}[{entry}]: a step needs an axis of known size, not {size}", "indices")
    first, last = (
        bound if isinstance(bound, str) or bound >= 0 else sz.add(size, bound)
        for bound in (0 if entry.start is None else entry.start, size if entry.stop is None else entry.stop)
    )
    return first, sz.subtract(last, first), 1


def take(a: Operand, indices: Any, axis: int = 0) -> Expr:
    """The entries at the given indices along an axis.

    Args:
        a: a tensor expression, an array or a number
        indices: whole numbers, or an array of them; or `ed.indices(...)`
        axis: the axis that they are indices of

    >>> ed.evaluate(ed.take(ed.vector("x", "n"), [2, 0]), {"x": [1.0, 2.0, 3.0]})
    array([3., 1.])

    See also: `indices`.
    """
    a = as_expr(a)
    axis = axis_of("take", a, axis)
    chosen = indices if isinstance(indices, Expr) else np.asarray(indices)
    return getitem(a, (slice(None),) * axis + (chosen,))


def _several(operation: str, arrays: Sequence[Operand]) -> list[Expr]:
    try:
        given = [] if isinstance(arrays, Expr) else list(arrays)
    except TypeError:  # a number
        given = []
    if not given:
        raise EindiffError(f"{operation} takes a list of at least one array", "shapes")
    return [as_expr(array) for array in given]


def concatenate(arrays: Sequence[Operand], axis: int = 0) -> Expr:
    """Arrays joined along an axis.

    Args:
        arrays: tensors whose other axes have the same sizes
        axis: the axis that they are joined along

    >>> ed.concatenate([ed.vector("x", 2), ed.vector("y", 3)]).shape
    (5,)

    See also: `stack`.
    """
    exprs = _several("concatenate", arrays)
    axis = axis_of("concatenate", exprs[0], axis)
    total: Size = 0
    offsets = []
    for expr in exprs:
        if expr.ndim != exprs[0].ndim or any(k != axis and s != exprs[0].shape[k] for k, s in enumerate(expr.shape)):
            shapes = ", ".join(shape_text(e.shape) for e in exprs)
            raise EindiffError(f"concatenate along axis {axis}: the shapes {shapes} differ elsewhere", "shapes")
        offsets.append(total)
        total = sz.add(total, expr.shape[axis])
    pieces = []
    for expr, offset in zip(exprs, offsets, strict=True):
        labels, new = tuple(range(expr.ndim)), expr.ndim
        placed = constant(IndexMap(total, (expr.shape[axis],), offset, (1,)))
        output = tuple(new if label == axis else label for label in labels)
        factors = [(expr, labels), (placed, (new, axis))]
        pieces.append(construct.einsum(1, factors, output, dict(enumerate((*expr.shape, total)))))
    return construct.add(pieces)


def stack(arrays: Sequence[Operand], axis: int = 0) -> Expr:
    """Arrays of one shape joined along a new axis.

    Args:
        arrays: tensors of one shape
        axis: where the new axis stands

    >>> ed.stack([ed.vector("x", "n"), ed.vector("y", "n")]).shape
    (2, 'n')

    See also: `concatenate`.
    """
    exprs = _several("stack", arrays)
    if len({expr.shape for expr in exprs}) > 1:
        raise EindiffError(f"stack: the shapes {', '.join(shape_text(e.shape) for e in exprs)} differ", "shapes")
    at = axis_of("stack", exprs[0][None], axis)
    grown = [getitem(expr, (slice(None),) * at + (None,)) for expr in exprs]
    return concatenate(grown, at)


def iterate(a: Expr) -> Iterator[Expr]:
    """The entries along the first axis, if its size is known."""
    return (getitem(a, k) for k in range(length(a)))


def length(a: Expr) -> int:
    """The size of the first axis, if it is known."""
    if not a.shape or not isinstance(a.shape[0], int):
        raise EindiffError(
            f"{short(a)} has shape {shape_text(a.shape)}: a loop over it needs a first axis of known size",
            "shapes",
        )
    return a.shape[0]


def vec(a: Operand) -> Expr:
    """The columns of a matrix, one below the other (column-major, as in the textbooks).

    Args:
        a: a matrix

    >>> ed.evaluate(ed.vec(ed.matrix("A", 2, 2)), {"A": [[1.0, 2.0], [3.0, 4.0]]})
    array([1., 3., 2., 4.])

    See also: `reshape`, `kron`.
    """
    a = as_expr(a)
    return reshape(transpose(a), (sz.product(a.shape),))


def kron(a: Operand, b: Operand) -> Expr:
    """The Kronecker product of two vectors or two matrices.

    Args:
        a, b: two vectors, or two matrices

    >>> ed.kron(ed.matrix("A", 2, 3), ed.matrix("B", 4, 5)).shape
    (8, 15)

    See also: `outer`.
    """
    a, b = as_expr(a), as_expr(b)
    if a.ndim != b.ndim:
        raise EindiffError(
            f"kron: {short(a)} ({shape_text(a.shape)}) and {short(b)} ({shape_text(b.shape)}) differ in order",
            "shapes",
        )
    axes = [axis for pair in zip(range(a.ndim), range(a.ndim, 2 * a.ndim), strict=True) for axis in pair]
    shape = tuple(sz.multiply(m, n) for m, n in zip(a.shape, b.shape, strict=True))
    return reshape(transpose(outer(a, b), axes), shape)
