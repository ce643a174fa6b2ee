"""The one depth-first walk of the package. It does not recurse, so depth does not matter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def post_order(roots: Iterable[Node], children: Callable[[Node], Collection[Node]]) -> list[Node]:
    """Everything below the roots, each once and after its children.

    >>> post_order("c", {"a": "", "b": "a", "c": "ab"}.__getitem__)
    ['a', 'b', 'c']
    """
    order: list[Node] = []
    seen: set[Node] = set()
    walk = iter(list(roots))
    above: list[tuple[Node, Iterator[Node]]] = []  # what waits for all below it, and what comes beside it
    while True:
        for node in walk:
            if node not in seen:
                seen.add(node)
                if below := children(node):
                    above.append((node, walk))
                    walk = iter(below)
                    break
                order.append(node)
        else:
            if not above:
                return order
            node, walk = above.pop()
            order.append(node)
