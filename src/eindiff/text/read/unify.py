"""Sizes that are not known yet, and finding them by unification.

A size is what `sizes.py` says (a number, a name, a polynomial of names) or an `Unknown`, which becomes one when it is
united with it. A size that is computed from others (that of a Kronecker product, of a slice) is an unknown with a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eindiff.core.errors import EindiffError
from eindiff.core.sizes import Shape, Size
from eindiff.text.read.source import Source, Span


class Unknown:
    """A size to be found. `link` is what it was united with, `why` the place that did it."""

    __slots__ = ("derived", "link", "why")

    def __init__(self, derived: bool = False) -> None:
        self.link: Term | None = None
        self.why: Span | None = None
        self.derived = derived  # computed by a rule, so not to be given a name


Term = Size | Unknown


def resolve(term: Term) -> Term:
    """What is known about a size: the size itself, or the unknown that stands for all that were united."""
    path: list[Unknown] = []
    why: Span | None = None
    while isinstance(term, Unknown) and term.link is not None:
        path.append(term)
        why = term.why or why
        term = term.link
    for unknown in path:
        unknown.link, unknown.why = term, unknown.why or why
    return term


def known(terms: Iterable[Term]) -> Shape | None:
    """Sizes without unknowns, or None."""
    found = [resolve(term) for term in terms]
    sizes = [size for size in found if not isinstance(size, Unknown)]
    return tuple(sizes) if len(sizes) == len(found) else None


@dataclass(frozen=True, slots=True)
class Type:
    """The sizes of the axes, and for a vector whether it lies down: vectors are columns until they are transposed."""

    axes: tuple[Term, ...] = ()
    row: bool = False

    @property
    def order(self) -> int:
        return len(self.axes)

    @property
    def kind(self) -> str:
        return ("scalar", "row" if self.row else "column", "matrix")[self.order] if self.order < 3 else "tensor"

    def words(self) -> str:
        """The shape as an error says it: `is m×n`, `has length n`; what is not known is left out."""
        sizes = ["" if isinstance(size, Unknown) else str(size) for size in map(resolve, self.axes)]
        if self.order == 0:
            return "is a scalar"
        if self.order == 1:
            [length] = sizes
            kind = "row" if self.row else "vector"
            return (
                f"is a {kind}" if not length else f"is a row of length {length}" if self.row else f"has length {length}"
            )
        if all(sizes):
            return f"{'is' if self.order == 2 else 'has shape'} {'×'.join(sizes)}"
        if self.order > 2:
            return f"is a tensor of order {self.order}"
        rows, columns = sizes
        return "is a matrix" + (f" with {rows} rows" if rows else f" with {columns} columns" if columns else "")

    def reason(self) -> Span | None:
        """The place that settled the sizes, if they were found by unification."""
        for axis in self.axes:
            if isinstance(axis, Unknown) and not isinstance(resolve(axis), Unknown) and axis.why is not None:
                return axis.why
        return None


SCALAR = Type()


@dataclass(slots=True)
class _Rule:
    output: Unknown
    inputs: tuple[Term, ...]
    compute: Callable[..., Size]
    node: Span


class Sizes:
    """The unknowns of one text and the rules between them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rules: list[_Rule] = []

    def unite(self, a: Term, b: Term, why: Span) -> bool:
        """Make two sizes equal; False if they are known to differ."""
        a, b = resolve(a), resolve(b)
        if isinstance(a, Unknown) and a is not b:
            if isinstance(b, Unknown):
                b.derived |= a.derived
            a.link, a.why = b, why
        elif isinstance(b, Unknown) and a is not b:
            b.link, b.why = a, why
        return a == b or isinstance(a, Unknown) or isinstance(b, Unknown)

    def derive(self, node: Span, compute: Callable[..., Size], *inputs: Term) -> Term:
        """A size that is computed from others, at once or when they are known."""
        sizes = known(inputs)
        if sizes is not None:
            return self._computed(node, compute, sizes)
        output = Unknown(derived=True)
        self.rules.append(_Rule(output, inputs, compute, node))
        return output

    def _computed(self, node: Span, compute: Callable[..., Size], sizes: Shape) -> Size:
        try:
            size = compute(*sizes)
        except EindiffError as error:
            raise self.source.error(str(error), node.start, node.end) from None
        if len(str(size)) > 2000:
            raise self.source.error("the size of this is too long a formula", node.start, node.end)
        return size

    def settle(self) -> None:
        """Apply the rules whose inputs are known, as long as that finds anything."""
        for _ in range(100):
            waiting: list[_Rule] = []
            for rule in self.rules:
                sizes = known(rule.inputs)
                if sizes is None:
                    waiting.append(rule)
                    continue
                size, before = self._computed(rule.node, rule.compute, sizes), resolve(rule.output)
                if not self.unite(rule.output, size, rule.node):
                    node, why = rule.node, rule.output.why
                    other = f" (from `{self.source.snippet(why.start, why.end)}`)" if why is not None else ""
                    text = self.source.snippet(node.start, node.end)
                    problem = f"`{text}` has an axis of size {size}, which meets one of size {before}{other}"
                    raise self.source.error(problem, node.start, node.end)
            if len(waiting) == len(self.rules):
                return
            self.rules = waiting
