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
    waiting: list[Node] = []
    stack: list[Node | None] = [*reversed(list(roots))]
    while stack:
        node = stack.pop()
        if node is None:  # all is done that is below the one that waits
            order.append(waiting.pop())
        elif node not in seen:
            seen.add(node)
            below = [child for child in children(node) if child not in seen]
            if below:
                waiting.append(node)
                stack += [None, *below[::-1]]
            else:
                order.append(node)
    return order
