"""Expressions with a label for each axis, as index notation builds them, and what is computed with these."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Einsum, Expr, Number, number
from eindiff.core.sizes import Size

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """An expression whose axes are labels, all different."""

    expr: Expr
    labels: Labels = ()


def tensor_of(values: Sequence[Labelled], output: Labels, sizes: Mapping[str, Size]) -> Expr:
    """The product of values, with the axes of some labels."""
    names = {label: k for k, label in enumerate(sizes)}
    factors = [(value.expr, tuple(names[x] for x in value.labels)) for value in values]
    return construct.einsum(1, factors, tuple(names[x] for x in output), {names[x]: size for x, size in sizes.items()})


def _sizes(values: Iterable[Labelled]) -> dict[str, Size]:
    return {x: size for value in values for x, size in zip(value.labels, value.expr.shape, strict=True)}


def contracted(values: Sequence[Labelled], output: Labels) -> Labelled:
    """The product of values, summed over all but some labels."""
    return Labelled(tensor_of(values, output, _sizes(values)), output)


def multiplied(values: Sequence[Labelled]) -> Labelled:
    """The product of values."""
    return contracted(values, tuple(_sizes(values)))


def scaled(factor: Number, value: Labelled) -> Labelled:
    """A multiple of a value."""
    return Labelled(construct.scale(factor, value.expr), value.labels)


def aligned(values: Sequence[Labelled]) -> list[Labelled]:
    """Values spread over the labels of all of them."""
    sizes = _sizes(values)
    return [Labelled(tensor_of([value], tuple(sizes), sizes), tuple(sizes)) for value in values]


def added(values: Sequence[Labelled]) -> Labelled:
    """The sum of values, each spread over the labels of all."""
    spread = aligned(values)
    return Labelled(construct.add([value.expr for value in spread]), spread[0].labels)


def known_number(value: Labelled) -> Number | None:
    """The number that a value is."""
    is_number = construct.is_number(value.expr) and not value.labels
    return construct.parts(value.expr)[0] if is_number else None


def number_of(token: str) -> Number:
    """The number that is written so."""
    return int(token) if token.isdigit() else number(float(token))


def size_of(node: ast.expr) -> Size:
    """A size from its syntax."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return sz.multiply(-1, size_of(operand))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return sz.add(size_of(left), size_of(right))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return sz.subtract(size_of(left), size_of(right))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return sz.multiply(size_of(left), size_of(right))
        case ast.Call(func=ast.Name(id="min"), args=[a, b]):
            return sz.minimum(size_of(a), size_of(b))
    raise EindiffError(f"{ast.unparse(node)} is not a size", "text")


def unstacked(arg: Expr, first: int) -> tuple[Expr, tuple[int, ...]]:
    """A stack without the axes along which it is the same, and which axes of all stacks the others are."""
    same = [axis for axis in range(arg.ndim - 2) if isinstance(arg, Einsum) and arg.same_along(axis)]
    kept = [axis for axis in range(arg.ndim) if axis not in same]
    coefficient, factors, output, sizes = construct.parts(arg)
    bare = construct.einsum(coefficient, factors, tuple(output[axis] for axis in kept), sizes)
    return bare, tuple(first + axis for axis in kept[:-2])


def flat_list(indices: Any) -> tuple[tuple[int, ...], list[int]]:
    """Shape and entries of nested lists."""
    if isinstance(indices, int):
        return (), [indices]
    found = [flat_list(item) for item in indices] if isinstance(indices, list) else []
    if len({shape for shape, _ in found}) != 1:
        raise EindiffError(f"{indices} is no list of places, or its rows have different lengths", "indices")
    return (len(found), *found[0][0]), [k for _, entries in found for k in entries]
