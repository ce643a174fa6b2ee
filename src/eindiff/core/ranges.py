"""What has to hold of named sizes: no axis has a negative size, every place that an index names exists, and there are
entries where a largest one or a mean is asked for.

The interpreter and compiled functions check it when names get numbers, so that programs need not look; functions that
are written for people assert it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import IndexMap, SizeOf
from eindiff.core.nodes import Apply, Constant, Einsum, Expr, Map, is_index_map, topological
from eindiff.core.sizes import Size

# Functions of vectors with entries
OF_SOME = frozenset({"max", "argmax", "logsumexp", "log_weighted_sum", "weighted_softmax"})
MESSAGE_LENGTH = 60  # characters of an expression in a message


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
        text = self.node._readable()
        text = text if len(text) <= MESSAGE_LENGTH else text[: MESSAGE_LENGTH - 1] + "…"
        if isinstance(self.quantity, int):
            return f"{text} reaches outside an axis"
        return "{} needs {} >= {}".format(text, *sz.inequality(self.quantity))


class Ranges:
    """The conditions of some expressions, without those that hold whatever the sizes are."""

    def __init__(self, outputs: Sequence[Expr]) -> None:
        self.conditions: list[Condition] = []
        self.entries: list[Condition] = []  # which programs that are written for people need not assert
        self._seen: set[tuple[Size, tuple[Size, ...]]] = set()
        for node in topological(outputs):
            if not is_index_map(node):  # what uses it says more
                self._add_axes(node)
            self._add_entries(node)
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

    def _add_entries(self, node: Expr) -> None:
        """The largest of no entries, and a mean over none, are not defined."""
        sizes: list[Size] = []
        if isinstance(node, Apply) and node.function.name in OF_SOME:
            sizes = [node.args[0].shape[-1]]
        elif isinstance(node, Map) and node.function.name == "pow" and node.function.parameter < 0:
            counted = node.args[0]
            sizes = [counted.value.size] if isinstance(counted, Constant) and isinstance(counted.value, SizeOf) else []
        self.entries += [Condition(sz.add(size, -1), (), node) for size in sizes if not isinstance(size, int)]

    def _add(self, quantity: Size, axes: tuple[Size, ...], node: Expr) -> None:
        """The first node that needs something is the simplest one, which a message can show."""
        if (quantity, axes) not in self._seen:
            self._seen.add((quantity, axes))
            self.conditions.append(Condition(quantity, axes, node))

    def check(self, bindings: Mapping[str, int]) -> None:
        """Refuse sizes for which an axis or a place does not exist."""
        for condition in (*self.conditions, *self.entries):
            if not condition.holds(bindings):
                known = [f"{name} = {bindings[name]}" for name in sorted(sz.names(condition.quantity))]
                raise EindiffError(f"{condition}{', but ' if known else ''}{' and '.join(known)}", "sizes")
