"""Expressions as arrays: declarations, Python's operators, and the shape-changing functions of NumPy.

Everything here is an Einsum, or a sum of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from eindiff import construct
from eindiff import sizes as sz
from eindiff.constants import IndexMap, Lower
from eindiff.construct import Factor, constant, filled
from eindiff.errors import EindiffError, shape_text
from eindiff.expr import Einsum, Expr, Number, Variable
from eindiff.labels import Labels
from eindiff.sizes import Shape, Size

Operand = Any  # an expression, a number, or what np.asarray takes

# Declarations


def scalar(name: str, *properties: str) -> Variable:
    """A scalar variable."""
    return construct.variable(name, (), properties)


def vector(name: str, n: Size, *properties: str) -> Variable:
    """A vector variable: `vector("x", "n")`, or `vector("x", 3, "positive")`."""
    return construct.variable(name, (n,), properties)


def matrix(name: str, m: Size, n: Size, *properties: str) -> Variable:
    """A matrix variable: `matrix("A", "m", "n")`, or `matrix("Q", 3, 3, "orthogonal")`."""
    return construct.variable(name, (m, n), properties)


def symmetric(name: str, n: Size, *properties: str) -> Variable:
    """A symmetric matrix variable: `symmetric("S", "n")`, or `symmetric("S", "n", "psd")`."""
    return construct.variable(name, (n, n), ("symmetric", *properties))


def tensor(name: str, shape: Sequence[Size], *properties: str) -> Variable:
    """A tensor variable of any order: `tensor("T", ("l", "m", "n"))`."""
    return construct.variable(name, tuple(shape), properties)


def as_expr(value: Operand) -> Expr:
    """An expression as it is; numbers and arrays as constants."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | int | float | Fraction):
        return filled(value, ())
    if isinstance(value, str):
        raise EindiffError(f"{value!r} is text: declare a variable first, for instance vector({value!r}, 'n')")
    return constant(value)


def ones(*shape: Size) -> Expr:
    """A tensor of ones."""
    return filled(1, shape)


def zeros(*shape: Size) -> Expr:
    """A tensor of zeros."""
    return filled(0, shape)


def eye(n: Size) -> Expr:
    """The identity matrix: `einsum("->ii")`."""
    return construct.einsum(1, [], (0, 0), {0: n})


# Elementwise operators, with NumPy's broadcasting


def _aligned(operation: str, operands: Sequence[Expr]) -> tuple[list[Factor], Labels, dict[int, Size]]:
    """Operands with labels that make them broadcast: axes meet from the right, an axis of size 1 meets any."""
    order = max(operand.ndim for operand in operands)
    output = tuple(range(order))
    sizes: dict[int, Size] = {}
    for operand in operands:
        for label, size in zip(reversed(output), reversed(operand.shape), strict=False):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                shapes = " and ".join(f"{_short(o)} ({shape_text(o.shape)})" for o in operands)
                raise EindiffError(f"{operation}: the shapes of {shapes} do not fit: an axis of size {size} meets one of size {sizes[label]}")
    factors = []
    for operand in operands:
        labels = []
        for label, size in zip(output[order - operand.ndim :], operand.shape, strict=True):
            if size == sizes[label]:
                labels.append(label)
            else:  # an axis of size 1 is summed away, and its place is left unbound
                labels.append(order + len(sizes))
                sizes[labels[-1]] = 1
        factors.append((operand, tuple(labels)))
    return factors, output, sizes


def _short(expr: Expr) -> str:
    text = repr(expr)
    return text if len(text) <= 40 else text[:37] + "..."


def broadcast(operation: str, operands: Sequence[Expr]) -> list[Expr]:
    """Operands repeated so that they all have the same shape."""
    factors, output, sizes = _aligned(operation, operands)
    return [construct.einsum(1, [factor], output, sizes) for factor in factors]


def add(*operands: Operand) -> Expr:
    """The sum of operands."""
    return construct.add(broadcast("+", [as_expr(operand) for operand in operands]))


def subtract(a: Operand, b: Operand) -> Expr:
    """The difference of two operands."""
    a, b = broadcast("-", [as_expr(a), as_expr(b)])
    return construct.add([a, construct.scale(-1, b)])


def multiply(*operands: Operand) -> Expr:
    """The product of operands, entry by entry."""
    factors, output, sizes = _aligned("*", [as_expr(operand) for operand in operands])
    return construct.einsum(1, factors, output, sizes)


def divide(a: Operand, b: Operand) -> Expr:
    """The quotient of two operands, entry by entry."""
    if isinstance(b, int | float | Fraction) and not isinstance(b, bool):
        if b == 0:
            raise EindiffError(f"division of {_short(as_expr(a))} by zero")
        return construct.scale(Fraction(1) / b if isinstance(b, int | Fraction) else 1 / b, as_expr(a))
    return multiply(a, construct.rewrite_power(as_expr(b), -1))


# Products


def einsum(spec: str, *operands: Operand, sizes: Mapping[str, Size] | None = None) -> Expr:
    """Einstein's notation, as `numpy.einsum` has it, with more freedom in the output.

    A label may be repeated in the output (a delta), or be in no operand (ones; give its size).

    >>> x = vector("x", "n")
    >>> einsum("i->ii", x) is diag(x)
    True
    >>> einsum("->ij", sizes={"i": "n", "j": 3}) is ones("n", 3)
    True
    """
    exprs = [as_expr(operand) for operand in operands]
    inputs, output = _parse_spec(spec, exprs)
    found: dict[str, Size] = {}
    where: dict[str, str] = {}
    for expr, labels in zip(exprs, inputs, strict=True):
        for label, size in zip(labels, expr.shape, strict=True):
            if found.setdefault(label, size) != size:
                raise EindiffError(
                    f"einsum {spec!r}: label {label!r} has size {found[label]} in {where[label]} "
                    f"and size {size} in {_short(expr)} ({shape_text(expr.shape)})"
                )
            where.setdefault(label, f"{_short(expr)} ({shape_text(expr.shape)})")
    for label in output:
        if label not in found:
            if label not in (sizes or {}):
                raise EindiffError(f"einsum {spec!r}: output label {label!r} is in no operand: give sizes={{{label!r}: ...}}")
            found[label] = (sizes or {})[label]
    names = {label: index for index, label in enumerate(found)}
    factors = [(expr, tuple([names[x] for x in labels])) for expr, labels in zip(exprs, inputs, strict=True)]
    return construct.einsum(1, factors, tuple([names[x] for x in output]), {names[x]: s for x, s in found.items()})


def _parse_spec(spec: str, operands: Sequence[Expr]) -> tuple[list[list[str]], list[str]]:
    """The labels of inputs and output; `...` stands for the axes that are not named, aligned from the right."""
    left, arrow, right = spec.replace(" ", "").partition("->")
    terms = left.split(",") if left or operands else []
    if len(terms) != len(operands):
        raise EindiffError(f"einsum {spec!r} names {len(terms)} operands, but {len(operands)} are given")
    for text in (*terms, right):
        if not all(c.isalpha() for c in text.replace("...", "", 1)):
            raise EindiffError(f"einsum {spec!r}: labels are letters, {text!r} has others")
    inputs = []
    for term, operand in zip(terms, operands, strict=True):
        before, dots, after = term.partition("...")
        rest = operand.ndim - len(before) - len(after)
        if rest < 0 or (rest and not dots):
            raise EindiffError(
                f"einsum {spec!r}: {term!r} names {len(before) + len(after)} axes of {_short(operand)}, "
                f"which has shape {shape_text(operand.shape)}"
            )
        inputs.append([*before, *(f".{rest - k}" for k in range(rest)), *after])
    dotted = sorted({x for labels in inputs for x in labels if x[0] == "."}, key=lambda x: -int(x[1:]))
    if arrow:
        before, dots, after = right.partition("...")
        return inputs, [*before, *(dotted if dots else []), *after]
    every = [x for labels in inputs for x in labels if x[0] != "."]
    return inputs, dotted + sorted(x for x in set(every) if every.count(x) == 1)


def matmul(a: Operand, b: Operand) -> Expr:
    """The matrix product, with NumPy's meaning for vectors and stacks of matrices."""
    a, b = as_expr(a), as_expr(b)
    if a.ndim == 0 or b.ndim == 0:
        raise EindiffError(f"{_short(a)} @ {_short(b)}: a scalar has no matrix product; use *")
    meets = b.ndim - 1 if b.ndim == 1 else b.ndim - 2
    if a.shape[-1] != b.shape[meets]:
        raise EindiffError(
            f"{_short(a)} @ {_short(b)}: the last axis of {_short(a)} ({shape_text(a.shape)}) has size {a.shape[-1]}, "
            f"but the axis of {_short(b)} ({shape_text(b.shape)}) it meets has size {b.shape[meets]}"
        )
    left, right = "i" if a.ndim > 1 else "", "k" if b.ndim > 1 else ""
    return einsum(f"...{left}j,...j{right}->...{left}{right}", a, b)


def outer(a: Operand, b: Operand) -> Expr:
    """All products of an entry of `a` with one of `b`: the axes of `a` first."""
    a, b = as_expr(a), as_expr(b)
    left, right = tuple(range(a.ndim)), tuple(range(a.ndim, a.ndim + b.ndim))
    return construct.einsum(1, [(a, left), (b, right)], left + right, dict(enumerate(a.shape + b.shape)))


def inner(a: Operand, b: Operand) -> Expr:
    """The sum of the products of entries of two tensors of one shape."""
    return sum(multiply(a, b))


def kron(a: Operand, b: Operand) -> Expr:
    """The Kronecker product of two vectors or two matrices."""
    a, b = as_expr(a), as_expr(b)
    if a.ndim != b.ndim:
        raise EindiffError(f"kron: {_short(a)} ({shape_text(a.shape)}) and {_short(b)} ({shape_text(b.shape)}) differ in order")
    axes = [axis for pair in zip(range(a.ndim), range(a.ndim, 2 * a.ndim), strict=True) for axis in pair]
    shape = tuple(sz.multiply(m, n) for m, n in zip(a.shape, b.shape, strict=True))
    return reshape(transpose(outer(a, b), axes), shape)


# Axes


def transpose(a: Operand, axes: Sequence[int] | None = None) -> Expr:
    """Axes in another order; reversed if none is given."""
    a = as_expr(a)
    axes = tuple(reversed(range(a.ndim))) if axes is None else tuple(_axes("transpose", a, axes))
    if sorted(axes) != list(range(a.ndim)):
        raise EindiffError(f"transpose: {axes} is not an order of the {a.ndim} axes of {_short(a)}")
    return construct.transpose(a, axes)


def moveaxis(a: Operand, source: int, target: int) -> Expr:
    """One axis moved to another place."""
    a = as_expr(a)
    [source], [target] = _axes("moveaxis", a, source), _axes("moveaxis", a, target)
    axes = [axis for axis in range(a.ndim) if axis != source]
    return construct.transpose(a, [*axes[:target], source, *axes[target:]])


def _axes(operation: str, a: Expr, axis: int | Sequence[int] | None) -> list[int]:
    """Axes as numbers from 0 on."""
    given = range(a.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = [k + a.ndim if k < 0 else k for k in given]
    if any(not 0 <= k < a.ndim for k in axes) or len(set(axes)) < len(axes):
        raise EindiffError(f"{operation}: axis {axis} of {_short(a)}, which has shape {shape_text(a.shape)}")
    return axes


def sum(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The sum over all axes, or over the given ones."""
    a = as_expr(a)
    gone = _axes("sum", a, axis)
    labels = tuple(range(a.ndim))
    kept = tuple(label for label in labels if label not in gone)
    return construct.einsum(1, [(a, labels)], kept, dict(enumerate(a.shape)))


def mean(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The mean over all axes, or over the given ones."""
    a = as_expr(a)
    count = construct.size_number(sz.product(a.shape[k] for k in _axes("mean", a, axis)))
    return multiply(sum(a, axis), construct.rewrite_power(count, -1))


def cumsum(a: Operand, axis: int = -1) -> Expr:
    """Running sums along an axis."""
    a = as_expr(a)
    [axis] = _axes("cumsum", a, axis)
    labels, new = tuple(range(a.ndim)), a.ndim
    lower = constant(Lower(a.shape[axis]))
    output = tuple(new if label == axis else label for label in labels)
    return construct.einsum(1, [(a, labels), (lower, (new, axis))], output, dict(enumerate((*a.shape, a.shape[axis]))))


def tr(a: Operand) -> Expr:
    """The trace of a square matrix, or of each in a stack."""
    return einsum("...ii->...", square_matrix("tr", a))


def diag(a: Operand) -> Expr:
    """The diagonal matrix of a vector, or the diagonal of a square matrix."""
    a = as_expr(a)
    if a.ndim == 1:
        return einsum("i->ii", a)
    if a.ndim != 2:
        raise EindiffError(f"diag takes a vector or a square matrix; {_short(a)} has shape {shape_text(a.shape)}")
    return einsum("ii->i", square_matrix("diag", a))


def square_matrix(operation: str, a: Operand) -> Expr:
    """The operand, if its last two axes are of one size."""
    a = as_expr(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise EindiffError(f"{operation} needs a square matrix; {_short(a)} has shape {shape_text(a.shape)}")
    return a


def vec(a: Operand) -> Expr:
    """The columns of a matrix, one below the other (column-major, as in the textbooks)."""
    a = as_expr(a)
    return reshape(transpose(a), (sz.product(a.shape),))


# Index maps: reshaping, slicing, joining


def reshape(a: Operand, shape: Size | Sequence[Size]) -> Expr:
    """The same entries in row-major order with another shape; one size may be -1."""
    a = as_expr(a)
    new = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else [shape]
    if -1 in new:
        new[new.index(-1)] = _missing_size(a, [size for size in new if size != -1])
    if sz.product(a.shape) != sz.product(new):
        raise EindiffError(f"reshape: {_short(a)} has shape {shape_text(a.shape)}, which does not have as many entries as {shape_text(tuple(new))}")
    old_axes, new_axes = [k for k in range(a.ndim) if a.shape[k] != 1], [k for k in range(len(new)) if new[k] != 1]
    output: list[int] = [100 + k for k in range(len(new))]
    sizes = dict(enumerate(a.shape)) | dict(zip(output, new, strict=True))
    factors: list[Factor] = [(a, tuple(range(a.ndim)))]
    while old_axes or new_axes:
        m, n = _matching_groups([a.shape[k] for k in old_axes], [new[k] for k in new_axes])
        merged, old_axes = old_axes[:m], old_axes[m:]
        split, new_axes = new_axes[:n], new_axes[n:]
        if m == n == 1:
            output[split[0]] = merged[0]
            continue
        total = sz.product(a.shape[k] for k in merged)
        joint = split[0] + 100 if n == 1 else merged[0] if m == 1 else 1000 + merged[0]
        sizes[joint] = total
        if m > 1:
            factors.append((_row_major(total, [a.shape[k] for k in merged]), (joint, *merged)))
        if n > 1:
            factors.append((_row_major(total, [new[k] for k in split]), (joint, *(100 + k for k in split))))
    return construct.einsum(1, factors, tuple(output), sizes)


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


def _matching_groups(old: list[Size], new: list[Size]) -> tuple[int, int]:
    """The smallest numbers of leading axes on both sides that have as many entries."""
    for count in range(2, len(old) + len(new) + 1):
        for m in range(max(1, count - len(new)), min(len(old), count - 1) + 1):
            if sz.product(old[:m]) == sz.product(new[: count - m]):
                return m, count - m
    raise EindiffError(f"reshape: cannot split {shape_text(tuple(old))} into {shape_text(tuple(new))}")


def _row_major(total: Size, sizes: Sequence[Size]) -> Expr:
    """The index map that merges axes into one."""
    strides = [sz.product(sizes[k + 1 :]) for k in range(len(sizes))]
    return constant(IndexMap(total, tuple(sizes), 0, tuple(strides)))


def getitem(a: Expr, index: Any) -> Expr:
    """Indexing with integers, slices, None, `...` and lists of integers, as NumPy has it."""
    entries = list(index) if isinstance(index, tuple) else [index]
    named = [e for e in entries if e is not None and e is not Ellipsis]
    if len(named) > a.ndim:
        raise EindiffError(f"{_short(a)}[...] has {len(named)} indices, but its shape is {shape_text(a.shape)}")
    if not any(e is Ellipsis for e in entries):
        entries.append(Ellipsis)
    at = next(k for k, e in enumerate(entries) if e is Ellipsis)
    entries[at : at + 1] = [slice(None)] * (a.ndim - len(named))
    factors: list[Factor] = [(a, tuple(range(a.ndim)))]
    sizes, output, axis = dict(enumerate(a.shape)), [], 0
    for entry in entries:
        if entry is None:
            output.append(len(sizes))
            sizes[len(sizes)] = 1
            continue
        chosen = _index_map(a, a.shape[axis], entry)
        if chosen is None:
            output.append(axis)
        else:
            inputs = tuple(range(len(sizes), len(sizes) + len(chosen.inputs)))
            sizes.update(zip(inputs, chosen.inputs, strict=True))
            factors.append((constant(chosen), (axis, *inputs)))
            output.extend(inputs)
        axis += 1
    return construct.einsum(1, factors, tuple(output), sizes)


def _index_map(a: Expr, size: Size, entry: Any) -> IndexMap | None:
    """What an index chooses from an axis; None if it is all of it."""
    if isinstance(entry, slice):
        return _slice_map(a, size, entry)
    chosen = np.asarray(entry)
    if chosen.dtype == bool and chosen.ndim == 1:
        chosen = np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu":
        raise EindiffError(f"{_short(a)}[{entry!r}]: an index is an integer, a slice, None, ... or a list of integers")
    if isinstance(size, int):
        if chosen.size and not -size <= chosen.min() <= chosen.max() < size:
            raise EindiffError(f"{_short(a)}[{entry!r}]: the axis has size {size}")
        chosen = np.where(chosen < 0, chosen + size, chosen)
    if chosen.ndim == 0:
        k = int(chosen)
        return IndexMap(size, (), k if k >= 0 else sz.add(size, k))
    if chosen.size == 0 or chosen.min() < 0:
        raise EindiffError(f"{_short(a)}[{entry!r}]: a list of indices needs entries from 0 on when the size {size} is a name")
    return IndexMap(size, tuple(chosen.shape), indices=tuple(chosen.ravel().tolist()))


def _slice_map(a: Expr, size: Size, entry: slice) -> IndexMap | None:
    step = 1 if entry.step is None else int(entry.step)
    if isinstance(size, int):
        start, stop, step = entry.indices(size)
        count: Size = len(range(start, stop, step))
        first: Size = start
    elif step == -1 and entry.start is None and entry.stop is None:
        first, count = sz.subtract(size, 1), size
    elif step == 1:
        first, last = (
            bound if isinstance(bound, str) or bound >= 0 else sz.add(size, bound)
            for bound in (0 if entry.start is None else entry.start, size if entry.stop is None else entry.stop)
        )
        count = sz.subtract(last, first)
    else:
        raise EindiffError(f"{_short(a)}[{entry}]: a step needs an axis of known size, not {size}")
    if count == 0 or (isinstance(count, int) and count < 0):
        raise EindiffError(f"{_short(a)}[{entry.start}:{entry.stop}:{step}] is empty: the axis has size {size}")
    chosen = IndexMap(size, (count,), first, (step,))
    return None if chosen.is_identity() else chosen


def take(a: Operand, indices: Any, axis: int = 0) -> Expr:
    """The entries at the given indices along an axis."""
    a = as_expr(a)
    [axis] = _axes("take", a, axis)
    return getitem(a, (slice(None),) * axis + (np.asarray(indices),))


def concatenate(arrays: Sequence[Operand], axis: int = 0) -> Expr:
    """Arrays joined along an axis."""
    exprs = [as_expr(array) for array in arrays]
    [axis] = _axes("concatenate", exprs[0], axis)
    total: Size = 0
    offsets = []
    for expr in exprs:
        if expr.ndim != exprs[0].ndim or any(k != axis and s != exprs[0].shape[k] for k, s in enumerate(expr.shape)):
            shapes = ", ".join(shape_text(e.shape) for e in exprs)
            raise EindiffError(f"concatenate along axis {axis}: the shapes {shapes} differ elsewhere")
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
    """Arrays of one shape joined along a new axis."""
    exprs = [as_expr(array) for array in arrays]
    if len({expr.shape for expr in exprs}) > 1:
        raise EindiffError(f"stack: the shapes {', '.join(shape_text(e.shape) for e in exprs)} differ")
    at = axis + exprs[0].ndim + 1 if axis < 0 else axis
    grown = [getitem(expr, (slice(None),) * at + (None,)) for expr in exprs]
    return concatenate(grown, at)


def iterate(a: Expr) -> Iterator[Expr]:
    """The entries along the first axis, if its size is known."""
    return (getitem(a, k) for k in range(length(a)))


def length(a: Expr) -> int:
    """The size of the first axis, if it is known."""
    if not a.shape or not isinstance(a.shape[0], int):
        raise EindiffError(f"{_short(a)} has shape {shape_text(a.shape)}: a loop over it needs a first axis of known size")
    return a.shape[0]


def coefficient_of(expr: Expr) -> Number | None:
    """The number that an expression is everywhere, or None."""
    return expr.coefficient if isinstance(expr, Einsum) and construct.is_number(expr) else None
