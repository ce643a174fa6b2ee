"""The row of a function in the language: how it is written, how the shape of its value is found, how it is built."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eindiff.core.nodes import Expr
from eindiff.core.sizes import Size
from eindiff.text.read.literals import is_size
from eindiff.text.read.shapes import Shapes
from eindiff.text.read.syntax import Node
from eindiff.text.read.unify import Type

Infer = Callable[[Shapes, Node], Type]
Build = Callable[[Node, list[Expr]], Expr]


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function: its arguments from `literal` on are sizes or axes, named ones always are."""

    usage: str
    infer: Infer
    build: Build
    least: int = 1
    most: int = 1
    literal: int = 1_000_000
    keywords: tuple[str, ...] = ()
    is_by_entry: bool = False  # its arguments have one shape, and so has its value

    def check(self, shapes: Shapes, node: Node) -> Type:
        """The type of a call, after its arguments are counted."""
        given = sum(arg.kind != "keyword" for arg in node.args)
        if not self.least <= given <= self.most:
            more = "" if self.least == self.most else " or more" if self.most > 9 else f" to {self.most}"
            plural = "" if self.most == 1 else "s"
            shapes.fail(node, f"{node.value} takes {self.least}{more} argument{plural}, not {given}: {self.usage}")
        seen: set[str] = set()
        for arg in node.args:
            if arg.kind != "keyword":
                if seen:
                    shapes.fail(arg, f"arguments with names come last: {self.usage}")
                continue
            if arg.value not in self.keywords and not (node.value == "einsum" and len(arg.value) == 1):
                shapes.fail(arg, f"{node.value} has no argument {arg.value}: {self.usage}")
            if arg.value in seen:
                shapes.fail(arg, f"the argument {arg.value} is given twice")
            seen.add(arg.value)
        return self.infer(shapes, node)


class FunctionRows(dict[str, FunctionRow]):
    """Functions by their names."""

    def add(self, usage: str, infer: Infer, build: Build, least: int = 1, most: int = 0, **options: Any) -> None:
        """A function under the name that its usage begins with; it takes `least` to `most` arguments."""
        found = re.match(r"\w+", usage)
        assert found is not None
        self[found[0]] = FunctionRow(usage, infer, build, least, most or least, **options)


def values(node: Node) -> list[Node]:
    """The arguments of a call that are expressions."""
    return [arg for arg in node.args if not arg.literal]


def positional(node: Node) -> list[Any]:
    """The literal arguments of a call that have no name."""
    return [arg.plan for arg in node.args if arg.literal and arg.kind != "keyword"]


def named(node: Node, name: str, default: Any = None) -> Any:
    """The literal argument of a call under a name."""
    return next((arg.plan for arg in node.args if arg.kind == "keyword" and arg.value == name), default)


def size_value(shapes: Shapes, node: Node) -> Size:
    """A literal that must be a size."""
    size = node.plan
    if not is_size(size) or (isinstance(size, int) and size < 1):
        shapes.fail(node, "a size is a name, a positive whole number, or a sum or product of those")
    found: Size = size
    return found
