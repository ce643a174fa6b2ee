"""Shapes of one text on its way from syntax to types: which sizes are equal, and what is said where they are not.

The order of a tensor is always known from below (a variable has it by its declaration, or `kinds.py` found it); only
sizes are unknown, and using them unites them: `A*x` makes the columns of A and the length of x one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from eindiff.core import sizes as sz
from eindiff.core.sizes import Size
from eindiff.text.read.declarations import Declaration
from eindiff.text.read.source import ParseError, Source, Span
from eindiff.text.read.syntax import Node
from eindiff.text.read.unify import SCALAR, Sizes, Term, Type


@dataclass(slots=True)
class Use:
    """A variable of the text: what is declared about it, its type, and where it is first used."""

    declaration: Declaration
    type: Type
    node: Node
    into: Term | None = None  # the size of the axis that it has indices of


def typed(node: Node) -> Type:
    """The type of a node that inference has been to."""
    assert node.type is not None
    return node.type


@dataclass(slots=True)
class Range:
    """Over what an index of a sum runs: from `first` to `last`, or over all of an axis of some `size`."""

    size: Term
    first: Size = 1
    last: Size | None = None


@dataclass(slots=True)
class KnownNames:
    """What is known of the names of a text before its types: which are declared, bound, or names of sizes.

    `identities` are names like I that stand for the identity, `orders` how many axes the undeclared ones have.
    """

    declared: dict[str, Declaration] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    identities: set[str] = field(default_factory=set)
    orders: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)  # of the indices of sums
    indexed: dict[str, int] = field(default_factory=dict)  # names that have such indices, and how many
    chosen: set[str] = field(default_factory=set)  # indices of single entries
    bold: set[str] = field(default_factory=set)  # names in bold letters
    lengths: dict[tuple[str, int], Size] = field(default_factory=dict)  # of axes, as far as ranges say


class Shapes:
    """The variables of one text with their sizes, as far as they are found."""

    def __init__(self, source: Source, names: KnownNames) -> None:
        self.source = source
        self.names = names
        self.declared = names.declared
        self.sizes = Sizes(source)
        self.bound: dict[str, Node] = {}
        self.used: dict[str, Use] = {}

    # Messages

    def error(self, node: Node, problem: str) -> ParseError:
        return self.source.error(problem, node.start, node.end)

    def fail(self, node: Node, problem: str) -> NoReturn:
        raise self.source.error(problem, node.start, node.end)

    def text(self, node: Span) -> str:
        return self.source.snippet(node.start, node.end)

    def shape_of(self, node: Node) -> str:
        """`A is m×n`, with where the sizes came from if they were found elsewhere."""
        shape = typed(node)
        why = shape.reason()
        came = "" if why is None or why.start <= node.start <= node.end <= why.end else f" (from `{self.text(why)}`)"
        guessed = node.kind == "name" and node.value in self.used and self.used[node.value].declaration.guessed
        return f"{self.text(node)} {shape.words()}{came or (' by its name' if guessed else '')}"

    def fail_together(self, node: Node, args: Sequence[Node], hint: str) -> NoReturn:
        """What the shapes of some nodes are, which do not fit together."""
        self.fail(node, f"`{self.text(node)}`: {', '.join(self.shape_of(arg) for arg in args)}; {hint}")

    # Sizes that are equal

    def unite(self, a: Sequence[Term], b: Sequence[Term], why: Node) -> bool:
        """Make the sizes of as many axes equal; False if some are known to differ."""
        united = [self.sizes.unite(m, n, why) for m, n in zip(a, b, strict=True)]
        return all(united)

    def equal_shapes(self, node: Node, args: list[Node], operator: str = "") -> Type:
        """The common type of operands that meet entry by entry; scalars fit to any."""
        first: Node | None = None
        for arg in args:
            if typed(arg).order == 0:
                continue
            if first is None:
                first = arg
            elif not self._unite_types(first, arg, node):
                place = Node("", args[0].start, arg.end) if operator else node
                self.fail_together(place, [first, arg], self._mismatch(first, arg, operator))
        return typed(first) if first is not None else SCALAR

    def _unite_types(self, a: Node, b: Node, why: Node) -> bool:
        s, t = typed(a), typed(b)
        if s.order != t.order or s.row != t.row:
            return False
        why = Node(why.kind, min(a.start, b.start), max(a.end, b.end)) if why.kind in ("sum", "product") else why
        return self.unite(s.axes, t.axes, why)

    def _mismatch(self, a: Node, b: Node, operator: str) -> str:
        kinds = {typed(a).kind, typed(b).kind}
        if kinds == {"row", "column"}:
            return "transpose one of them"
        if kinds == {"column", "matrix"} and operator in (".*", "⊙"):
            v, m = (a, b) if typed(a).kind == "column" else (b, a)
            return f"the shapes must be equal; diag({self.text(v)})*{self.text(m)} scales the rows"
        return "the shapes must be equal"

    def square(self, node: Node, arg: Node) -> None:
        """The last two axes of a matrix, or of a stack of them, have one size."""
        m, n = typed(arg).axes[-2:]
        if not self.sizes.unite(m, n, node):
            self.fail(node, f"`{self.text(node)}`: {self.shape_of(arg)}, and needs to be square")

    def kron(self, node: Node, left: Type, right: Type) -> Type:
        """The Kronecker product of two vectors or two matrices."""
        if left.order != right.order or left.order not in (1, 2):
            self.fail(node, "a Kronecker product is one of two vectors or of two matrices")
        sizes = [self.sizes.derive(node, sz.multiply, m, n) for m, n in zip(left.axes, right.axes, strict=True)]
        return Type(tuple(sizes), left.row and right.row)
