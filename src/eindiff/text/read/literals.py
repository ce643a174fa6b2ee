"""Arguments that are no expressions: sizes, axes, indices and arrays of numbers.

The same syntax means something else there: in `ones(m*n)` the names are sizes, and the product is one of sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Number, number
from eindiff.text.read.source import Source
from eindiff.text.read.syntax import Node

LARGEST_ORDER = 32
_LARGEST_SIZE = 2**63


class Quoted(str):
    """A quoted text, as against a size that is a name."""


def is_size(value: Any) -> bool:
    """Whether a literal is a whole number, a name, or a formula of these."""
    return isinstance(value, int | str) and not isinstance(value, Quoted)


def read_number(source: Source, node: Node) -> Number:
    """The value of a number in the text."""
    text = node.value
    value: Number = int(text) if text.isdigit() and len(text) < 300 else number(float(text))
    if not isfinite(value):
        raise source.error("this number is too large", node.start, node.end)
    return value


def fold(source: Source, node: Node) -> Any:
    """The value of a literal from those of its args: a number, a size, a Quoted, a list, None or `...`."""
    args = [arg.plan for arg in node.args]
    try:
        value = _folded(source, node, args)
    except (EindiffError, ArithmeticError, TypeError):
        raise _no_literal(source, node) from None
    if (isinstance(value, int) and abs(value) >= _LARGEST_SIZE) or (isinstance(value, str) and len(value) > 2000):
        raise source.error("this size is too large", node.start, node.end)
    return value


def _folded(source: Source, node: Node, args: list) -> Any:
    match node.kind:
        case "number":
            return read_number(source, node)
        case "name":
            return None if node.value in ("None", "newaxis") else node.value
        case "text":
            return Quoted(node.value[1:-1])
        case "ellipsis":
            return ...
        case "array" | "keyword":
            return args if node.kind == "array" else args[0]
        case "slice":
            return slice(*map(dict(zip(node.value, args, strict=True)).get, range(3)))
        case "call" if (node.value, len(args)) in _CALLS:
            return _CALLS[node.value, len(args)](*map(_size, args))
        case "negative":
            return sz.multiply(-1, _size(args[0])) if isinstance(args[0], str) else -args[0]
        case "sum":
            return _sum(node.value, args)
        case "product":
            return _product(node.value, args)
    raise _no_literal(source, node)


def _size(value: Any) -> sz.Size:
    if not is_size(value):
        raise TypeError
    size: sz.Size = value
    return size


@dataclass(frozen=True, slots=True)
class Places:
    """`2*arange(m) + arange(k) + 1` in an index: `offset + stride*i + ...`, each arange along an axis of its own."""

    offset: sz.Size
    strides: tuple[sz.Size, ...]
    sizes: tuple[sz.Size, ...]

    def __neg__(self) -> Places:
        return self.scaled(-1)

    def scaled(self, factor: sz.Size) -> Places:
        strides = tuple([sz.multiply(factor, stride) for stride in self.strides])
        return Places(sz.multiply(factor, self.offset), strides, self.sizes)

    def plus(self, other: Any) -> Places:
        if not isinstance(other, Places):
            return Places(sz.add(self.offset, _size(other)), self.strides, self.sizes)
        return Places(sz.add(self.offset, other.offset), self.strides + other.strides, self.sizes + other.sizes)

    def of(self, size: sz.Size) -> IndexMap:
        """The places of an axis; refuses those outside of it, as far as the sizes tell."""
        lowest = highest = self.offset
        for n, stride in zip(self.sizes, self.strides, strict=True):
            last = sz.multiply(stride, sz.subtract(n, 1))
            if isinstance(last, int) and last < 0:
                lowest = sz.add(lowest, last)
            else:
                highest = sz.add(highest, last)
        room = sz.subtract(size, highest)
        if (isinstance(lowest, int) and lowest < 0) or (isinstance(room, int) and room < 1):
            raise EindiffError(f"this reaches from {lowest} to {highest}, outside an axis of size {size}", "indices")
        return IndexMap(size, self.sizes, self.offset, self.strides)


_CALLS: dict[tuple[str, int], Callable[..., sz.Size | Places]] = {
    ("arange", 1): lambda size: Places(0, (1,), (size,)),
    ("min", 2): sz.minimum,
    ("minimum", 2): sz.minimum,
}  # by name and number of arguments


def _sum_of_places(signs: list[str], args: list) -> Places:
    total = Places(0, (), ())
    for sign, arg in zip(["PLUS", *signs], args, strict=True):
        part = arg if isinstance(arg, Places) else Places(_size(arg), (), ())
        total = total.plus(part if sign == "PLUS" else -part)
    return total


def _sum(signs: list[str], args: list) -> sz.Size | Places:
    if any(isinstance(arg, Places) for arg in args):
        return _sum_of_places(signs, args)
    total = _size(args[0])
    for sign, arg in zip(signs, args[1:], strict=True):
        total = sz.add(total, _size(arg)) if sign == "PLUS" else sz.subtract(total, _size(arg))
        if len(str(total)) > 2000:
            break
    return total


def _product(operators: list[str], args: list) -> Any:
    """A product of sizes, or a fraction of numbers."""
    result = args[0]
    for operator, arg in zip(operators, args[1:], strict=True):
        if operator == "/" and not isinstance(result, str) and not isinstance(arg, str):
            result = Fraction(result) / Fraction(arg)
        elif operator in ("*", "·") and (isinstance(result, Places) or isinstance(arg, Places)):
            result = result.scaled(_size(arg)) if isinstance(result, Places) else arg.scaled(_size(result))
        elif operator in ("*", "·"):
            result = sz.multiply(_size(result), _size(arg))
        else:
            raise TypeError
        if len(str(result)) > 2000:
            break
    return number(result) if isinstance(result, Fraction) else result


def _no_literal(source: Source, node: Node) -> EindiffError:
    return source.error(
        "expected a size or a whole number here: names, numbers, and their sums and products", node.start, node.end
    )


def array_shape(source: Source, node: Node) -> tuple[int, ...]:
    """The shape of an array of numbers, `[[1, 2], [3, 4]]`; its entries must be numbers and its rows equally long."""
    shape: list[int] = []
    level: list[Any] = [node.plan]
    while any(isinstance(item, list) for item in level):
        lengths = {len(item) if isinstance(item, list) else -1 for item in level}
        if len(lengths) > 1:
            raise source.error("the rows of this array differ in length", node.start, node.end)
        shape.append(lengths.pop())
        if len(shape) > LARGEST_ORDER:
            raise source.error(f"this array has more than {LARGEST_ORDER} axes", node.start, node.end)
        level = [entry for item in level for entry in item]
    if not level:
        raise source.error("an array needs at least one entry", node.start, node.end)
    if any(isinstance(entry, str | slice | Places) or entry is None or entry is ... for entry in level):
        problem = "an array in brackets holds numbers; join expressions with stack(a, b) or concatenate(a, b)"
        raise source.error(problem, node.start, node.end)
    return tuple(shape)
