"""What has to hold of named sizes: no axis has a negative size, and every place that an index names exists.

The interpreter and compiled functions check it when names get numbers, so that programs need not look; functions that
are written for people assert it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eindiff import sizes as sz
from eindiff.constants import IndexMap
from eindiff.errors import EindiffError
from eindiff.expr import Constant, Einsum, Expr, is_index_map, topological
from eindiff.sizes import Size

LONGEST = 60  # characters of an expression in a message


@dataclass(frozen=True, slots=True)
class Condition:
    """A quantity that is not negative, unless one of some axes is empty."""

    quantity: Size
    axes: tuple[Size, ...]
    node: Expr  # where it is needed

    def holds(self, bindings: Mapping[str, int]) -> bool:
        """Whether it is so for given sizes."""
        if sz.evaluate(self.quantity, bindings) >= 0:
            return True
        return any(sz.evaluate(size, bindings) == 0 for size in self.axes)

    def __str__(self) -> str:
        from eindiff.language.print_expr import to_text

        text = to_text(self.node)
        text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
        if isinstance(self.quantity, int):
            return f"{text} reaches outside an axis"
        return "{} needs {} >= {}".format(text, *sz.inequality(self.quantity))


class Ranges:
    """The conditions of some expressions, without those that hold whatever the sizes are."""

    def __init__(self, outputs: Sequence[Expr]) -> None:
        self.conditions: list[Condition] = []
        self._seen: set[tuple[Size, tuple[Size, ...]]] = set()
        for node in topological(outputs):
            if not is_index_map(node):  # what uses it says more
                self._add_axes(node)
            for child in node.children:
                self._add_places(child, node)
        for node in outputs:
            self._add_places(node, node)
            self._add_axes(node)

    def _add_axes(self, node: Expr) -> None:
        for size in (*node.shape, *(node.sizes if isinstance(node, Einsum) else ())):
            if not sz.never_negative(size):
                self._add(size, (), node)

    def _add_places(self, node: Expr, user: Expr) -> None:
        if isinstance(node, Constant) and isinstance(node.value, IndexMap):
            axes = tuple([size for size in node.value.inputs if isinstance(size, str)])
            for need in node.value.needs():
                self._add(need, () if need in axes else axes, user)

    def _add(self, quantity: Size, axes: tuple[Size, ...], node: Expr) -> None:
        """The first node that needs something is the simplest one, which a message can show."""
        if (quantity, axes) not in self._seen:
            self._seen.add((quantity, axes))
            self.conditions.append(Condition(quantity, axes, node))

    def check(self, bindings: Mapping[str, int]) -> None:
        """Refuse sizes for which an axis or a place does not exist."""
        for condition in self.conditions:
            if not condition.holds(bindings):
                known = [f"{name} = {bindings[name]}" for name in sorted(sz.names(condition.quantity))]
                raise EindiffError(f"{condition}{', but ' if known else ''}{' and '.join(known)}")
