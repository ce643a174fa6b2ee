"""Expressions as arrays: Python's operators, and the shape-changing functions of NumPy.

Everything here is an Einsum, or a sum of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import isfinite, isinf
from operator import index
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import Number, number
from eindiff.core.construct import Factor, constant, filled
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.index_relations import Lower
from eindiff.core.labels import Labels
from eindiff.core.nodes import Einsum, Expr
from eindiff.core.sizes import Size

Operand = Any  # an expression, a number, or what np.asarray takes


def as_expr(value: Operand) -> Expr:
    """An expression as it is; numbers and arrays as constants."""
    if isinstance(value, Expr):
        return value
    if hasattr(type(value), "__eindiff_expression__"):  # an array of a function that is traced
        return value.__eindiff_expression__
    if isinstance(value, bool | int | float | Fraction):
        return filled(value, ())
    if isinstance(value, str):
        raise EindiffError(
            f"{value!r} is text: declare a variable first, for instance vector({value!r}, 'n')", "options"
        )
    return constant(value)


def ones(*shape: Size) -> Expr:
    """A tensor of ones.

    Args:
        *shape: sizes: names or numbers

    >>> x = ed.vector("x", "n")
    >>> ed.ones("n") @ x is ed.sum(x)
    True

    See also: `zeros`, `eye`.
    """
    return filled(1, tuple(map(sz.read, shape)))


def zeros(*shape: Size) -> Expr:
    """A tensor of zeros.

    Args:
        *shape: sizes: names or numbers

    >>> ed.zeros("m", "n").shape
    ('m', 'n')

    See also: `ones`.
    """
    return filled(0, tuple(map(sz.read, shape)))


def eye(n: Size) -> Expr:
    """The identity matrix: `einsum("->ii")`.

    Args:
        n: its size: a name or a number

    >>> A = ed.matrix("A", "n", "n")
    >>> A @ ed.eye("n") is A
    True

    See also: `ones`, `diag`.
    """
    return construct.einsum(1, [], (0, 0), {0: sz.read(n)})


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
                shapes = " and ".join(f"{short(o)} ({shape_text(o.shape)})" for o in operands)
                raise EindiffError(
                    f"{operation}: the shapes of {shapes} do not fit: "
                    f"an axis of size {size} meets one of size {sizes[label]}",
                    "shapes",
                )
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


def short(expr: Expr) -> str:
    """An expression in few characters, for error messages."""
    text = repr(expr)
    return text if len(text) <= 40 else text[:37] + "..."


def _with_shape(expr: Expr) -> str:
    return f"{short(expr)} ({shape_text(expr.shape)})"


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
            raise EindiffError(f"division of {short(as_expr(a))} by zero", "domain")
        if not isinstance(b, float):
            return construct.scale(number(Fraction(1) / b), as_expr(a))
        if isfinite(b) and isinf(1 / b):
            raise EindiffError(f"1 / {b} is too large for a floating-point number", "domain")
        return construct.scale(number(1 / b), as_expr(a))
    return multiply(a, construct.known_power(as_expr(b), -1))


# Products


def einsum(spec: str, *operands: Operand, sizes: Mapping[str, Size] | None = None) -> Expr:
    """Einstein's notation, as `numpy.einsum` has it, with more freedom in the output.

    A label may be repeated in the output (a delta), or be in no operand (ones; give its size).

    Args:
        spec: labels of the operands, and of the output behind `->`
        *operands: one tensor for each
        sizes: sizes of labels that are in no operand

    >>> x = ed.vector("x", "n")
    >>> ed.einsum("i->ii", x) is ed.diag(x)
    True
    >>> ed.einsum("->ij", sizes={"i": "n", "j": 3}) is ed.ones("n", 3)
    True

    See also: `matmul`, `outer`, `inner`.
    """
    exprs = [as_expr(operand) for operand in operands]
    inputs, output = _parse_spec(spec, exprs)
    found = _sizes_of_labels(spec, exprs, inputs, sizes or {})
    for label in output:
        if label not in found:
            if label[0] != ".":
                hint = f"output label {label!r} is in no operand: give sizes={{{label!r}: ...}}"
                raise EindiffError(f"einsum {spec!r}: {hint}", "shapes")
            found[label] = 1
    names = {label: index for index, label in enumerate(found)}
    factors = [(expr, tuple([names[x] for x in labels])) for expr, labels in zip(exprs, inputs, strict=True)]
    return construct.einsum(1, factors, tuple([names[x] for x in output]), {names[x]: s for x, s in found.items()})


def _sizes_of_labels(
    spec: str, exprs: Sequence[Expr], inputs: list[list[str]], given: Mapping[str, Size]
) -> dict[str, Size]:
    """The sizes of the labels of an einsum. An axis of a stack of one gets a label of its own among the inputs."""
    found: dict[str, Size] = {label: sz.read(size) for label, size in given.items()}
    where: dict[str, Expr | None] = dict.fromkeys(found)
    for expr, labels in zip(exprs, inputs, strict=True):
        for axis, (label, size) in enumerate(zip(labels, expr.shape, strict=True)):
            if label[0] == "." and size == 1:  # a stack of one fits to any: its axis is summed away
                labels[axis] = label = f"{label} of {len(found)}"
            if found.setdefault(label, size) != size:
                known = where[label]
                first = "sizes" if known is None else _with_shape(known)
                raise EindiffError(
                    f"einsum {spec!r}: label {label!r} has size {found[label]} in {first} "
                    f"and size {size} in {_with_shape(expr)}",
                    "shapes",
                )
            where.setdefault(label, expr)
    return found


def _parse_spec(spec: str, operands: Sequence[Expr]) -> tuple[list[list[str]], list[str]]:
    """The labels of inputs and output; `...` stands for the axes that are not named, aligned from the right."""
    if not isinstance(spec, str):
        raise EindiffError(f"einsum begins with text such as 'ij,jk->ik', not with {spec!r}", "options")
    left, arrow, right = spec.replace(" ", "").partition("->")
    terms = left.split(",") if left or operands else []
    if len(terms) != len(operands):
        raise EindiffError(f"einsum {spec!r} names {len(terms)} operands, but {len(operands)} are given", "shapes")
    for text in (*terms, right):
        if not all(c.isalpha() for c in text.replace("...", "", 1)):
            raise EindiffError(f"einsum {spec!r}: labels are letters, {text!r} has others", "shapes")
    inputs = []
    for term, operand in zip(terms, operands, strict=True):
        before, dots, after = term.partition("...")
        rest = operand.ndim - len(before) - len(after)
        if rest < 0 or (rest and not dots):
            raise EindiffError(
                f"einsum {spec!r}: {term!r} names {len(before) + len(after)} axes of {short(operand)}, "
                f"which has shape {shape_text(operand.shape)}",
                "shapes",
            )
        inputs.append([*before, *(f".{rest - k}" for k in range(rest)), *after])
    return inputs, spec_output(inputs, right if arrow else None)


def spec_output(inputs: list[list[str]], given: str | None) -> list[str]:
    """The labels of the output of an einsum: as given, or those that occur once, in order of the alphabet."""
    dotted = sorted({x for labels in inputs for x in labels if x[0] == "."}, key=lambda x: -int(x[1:]))
    if given is not None:
        before, dots, after = given.partition("...")
        return [*before, *(dotted if dots else []), *after]
    every = [x for labels in inputs for x in labels if x[0] != "."]
    return dotted + sorted(x for x in set(every) if every.count(x) == 1)


def matmul(a: Operand, b: Operand) -> Expr:
    """The matrix product, with NumPy's meaning for vectors and stacks of matrices.

    Args:
        a, b: vectors, matrices or stacks of matrices; `a @ b` is the same

    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> ed.matmul(A, x) is A @ x
    True

    See also: `einsum`, `inner`.
    """
    a, b = as_expr(a), as_expr(b)
    if a.ndim == 0 or b.ndim == 0:
        raise EindiffError(f"{short(a)} @ {short(b)}: a scalar has no matrix product; use *", "shapes")
    meets = b.ndim - 1 if b.ndim == 1 else b.ndim - 2
    if a.shape[-1] != b.shape[meets]:
        raise EindiffError(
            f"{short(a)} @ {short(b)}: the last axis of {short(a)} ({shape_text(a.shape)}) has size {a.shape[-1]}, "
            f"but the axis of {short(b)} ({shape_text(b.shape)}) it meets has size {b.shape[meets]}",
            "shapes",
        )
    left, right = "i" if a.ndim > 1 else "", "k" if b.ndim > 1 else ""
    return einsum(f"...{left}j,...j{right}->...{left}{right}", a, b)


def outer(a: Operand, b: Operand) -> Expr:
    """All products of an entry of `a` with one of `b`: the axes of `a` first.

    Args:
        a, b: two tensors of any shapes

    >>> ed.outer(ed.vector("x", "m"), ed.vector("y", "n")).shape
    ('m', 'n')

    See also: `inner`, `kron`.
    """
    a, b = as_expr(a), as_expr(b)
    left, right = tuple(range(a.ndim)), tuple(range(a.ndim, a.ndim + b.ndim))
    return construct.einsum(1, [(a, left), (b, right)], left + right, dict(enumerate(a.shape + b.shape)))


def inner(a: Operand, b: Operand) -> Expr:
    """The sum of the products of entries of two tensors of one shape.

    Args:
        a, b: two tensors of one shape

    >>> A, B = ed.matrix("A", "m", "n"), ed.matrix("B", "m", "n")
    >>> ed.inner(A, B) is ed.tr(A.T @ B)
    True

    See also: `outer`, `matmul`.
    """
    return sum(multiply(a, b))


# Axes


def transpose(a: Operand, axes: Sequence[int] | None = None) -> Expr:
    """Axes in another order; reversed if none is given.

    Args:
        a: a tensor expression, an array or a number
        axes: the order of the axes

    >>> ed.transpose(ed.tensor("T", 2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)

    See also: `moveaxis`.
    """
    a = as_expr(a)
    axes = tuple(reversed(range(a.ndim))) if axes is None else tuple(axes_of("transpose", a, axes))
    if sorted(axes) != list(range(a.ndim)):
        raise EindiffError(f"transpose: {axes} is not an order of the {a.ndim} axes of {short(a)}", "shapes")
    return construct.transpose(a, axes)


def moveaxis(a: Operand, source: int, target: int) -> Expr:
    """One axis moved to another place.

    Args:
        a: a tensor expression, an array or a number
        source: where the axis is
        target: where it goes

    >>> ed.moveaxis(ed.tensor("T", 2, 3, 4), 0, 2).shape
    (3, 4, 2)

    See also: `transpose`.
    """
    a = as_expr(a)
    source, target = axis_of("moveaxis", a, source), axis_of("moveaxis", a, target)
    axes = [axis for axis in range(a.ndim) if axis != source]
    return construct.transpose(a, [*axes[:target], source, *axes[target:]])


def axes_of(operation: str, a: Expr, axis: int | Sequence[int] | None) -> list[int]:
    """Axes as numbers from 0 on."""
    given = range(a.ndim) if axis is None else axis if isinstance(axis, Iterable) else [axis]
    try:
        axes = [index(k) + a.ndim if k < 0 else index(k) for k in given]
    except TypeError:
        raise EindiffError(f"{operation}: an axis is an integer, not {axis!r}", "options") from None
    if any(not 0 <= k < a.ndim for k in axes) or len(set(axes)) < len(axes):
        raise EindiffError(f"{operation}: axis {axis} of {short(a)}, which has shape {shape_text(a.shape)}", "shapes")
    return axes


def axis_of(operation: str, a: Expr, axis: int) -> int:
    """One axis as a number from 0 on."""
    if axis is None or isinstance(axis, Iterable):
        raise EindiffError(f"{operation} is along one axis, an integer, not {axis!r}", "options")
    return axes_of(operation, a, axis)[0]


def sum(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The sum over all axes, or over the given ones.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> ed.sum(ed.matrix("A", "m", "n"), axis=0).shape
    ('n',)

    See also: `mean`, `prod`, `cumsum`.
    """
    a = as_expr(a)
    gone = axes_of("sum", a, axis)
    labels = tuple(range(a.ndim))
    kept = tuple(label for label in labels if label not in gone)
    return construct.einsum(1, [(a, labels)], kept, dict(enumerate(a.shape)))


def mean(a: Operand, axis: int | Sequence[int] | None = None) -> Expr:
    """The mean over all axes, or over the given ones.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis or several, which count from 0; all if there is none

    >>> float(ed.evaluate(ed.mean(ed.vector("x", "n")), {"x": [1.0, 3.0]}))
    2.0

    See also: `sum`.
    """
    a = as_expr(a)
    count = construct.size_number(sz.product(a.shape[k] for k in axes_of("mean", a, axis)))
    return multiply(sum(a, axis), construct.known_power(count, -1))


def cumsum(a: Operand, axis: int = -1) -> Expr:
    """Running sums along an axis.

    Args:
        a: a tensor expression, an array or a number
        axis: one axis

    >>> ed.evaluate(ed.cumsum(ed.vector("x", "n")), {"x": [1.0, 2.0, 3.0]})
    array([1., 3., 6.])

    See also: `sum`.
    """
    a = as_expr(a)
    axis = axis_of("cumsum", a, axis)
    labels, new = tuple(range(a.ndim)), a.ndim
    lower = constant(Lower(a.shape[axis]))
    output = tuple(new if label == axis else label for label in labels)
    return construct.einsum(1, [(a, labels), (lower, (new, axis))], output, dict(enumerate((*a.shape, a.shape[axis]))))


def tr(a: Operand) -> Expr:
    """The trace of a square matrix, or of each in a stack.

    Args:
        a: a square matrix, or a stack of them

    >>> A, B = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "m")
    >>> ed.tr(A @ B) is ed.tr(B @ A)
    True

    See also: `diag`.
    """
    return einsum("...ii->...", square_matrix("tr", a))


def diag(a: Operand) -> Expr:
    """The diagonal matrix of a vector, or the diagonal of a square matrix.

    Args:
        a: a vector, or a square matrix

    >>> x, y = ed.vector("x", "n"), ed.vector("y", "n")
    >>> ed.diag(x) @ y is x * y
    True

    See also: `tr`.
    """
    a = as_expr(a)
    if a.ndim == 1:
        return einsum("i->ii", a)
    if a.ndim != 2:
        raise EindiffError(
            f"diag takes a vector or a square matrix; {short(a)} has shape {shape_text(a.shape)}", "shapes"
        )
    return einsum("ii->i", square_matrix("diag", a))


def square_matrix(operation: str, a: Operand) -> Expr:
    """The operand, if its last two axes are of one size."""
    a = as_expr(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise EindiffError(f"{operation} needs a square matrix; {short(a)} has shape {shape_text(a.shape)}", "shapes")
    return a


def coefficient_of(expr: Expr) -> Number | None:
    """The number that an expression is everywhere, or None."""
    return expr.coefficient if isinstance(expr, Einsum) and construct.is_number(expr) else None
