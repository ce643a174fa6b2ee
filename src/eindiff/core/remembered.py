"""What constructors have made, while some work lasts that asks for the same nodes again and again.

Deriving and planning build many nodes twice: a sum and what is factored out of it, each variant of a program. Inside
of `remembering()` a constructor looks first whether it was asked the same before. Nodes are kept as long as that lasts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from eindiff.core.rewrite import is_logged
from eindiff.core.traverse import Node, post_order

MOST_REMEMBERED = 2**17  # nodes that are kept

_made: ContextVar[dict[Any, Any] | None] = ContextVar("eindiff_made", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Remember what is made inside of a `with` block, or of one around it; not where all steps are logged."""
    if _made.get() is not None or is_logged():
        yield
        return
    collects = gc.isenabled()
    try:  # whoever stops the collector starts it again, whatever other threads do meanwhile and wherever Ctrl-C comes
        if collects:
            gc.disable()  # nodes have no cycles, and are as many as all else in a process: a look takes a tenth
        _made.set({})
        yield
    finally:
        if collects:
            gc.enable()
        _made.set(None)


def ordered(roots: Iterable[Node], children: Callable[[Node], Collection[Node]]) -> list[Node]:
    """Everything below the roots, each once and after its children: many passes in a row look at the same nodes."""
    known, own = made(), tuple(roots)
    if known is None:
        return post_order(own, children)
    found = known.get((ordered, own))
    if found is None:
        found = known[ordered, own] = post_order(own, children)
    return [*found]


def made() -> dict[Any, Any] | None:
    """What was made by what it was asked for, if that is remembered."""
    found = _made.get()
    if found is not None and len(found) > MOST_REMEMBERED:
        found.clear()
    return found
