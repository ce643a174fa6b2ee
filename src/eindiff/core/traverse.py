"""The one depth-first walk of the package. It does not recurse, so depth does not matter."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def post_order(roots: Iterable[Node], children: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Everything below the roots, each once and after its children.

    >>> post_order("c", {"a": "", "b": "a", "c": "ab"}.__getitem__)
    ['a', 'b', 'c']
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(list(children(node))) if child not in seen)
    return order
