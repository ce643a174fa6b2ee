"""Nested lists, tuples and dictionaries: their leaves, with names, and their structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

CONTAINERS = (list, tuple, Mapping)


def map_named(
    function: Callable[[Any, str], Any], tree: Any, name: str, is_leaf: Callable[[Any], bool] = lambda _: False
) -> Any:
    """A nested container with each leaf replaced, from the leaf and its name.

    >>> map_named(lambda leaf, name: name, {"W": [1, 2], "b": 3}, "p")
    {'W': ['p_W0', 'p_W1'], 'b': 'p_b'}
    """
    if is_leaf(tree) or not isinstance(tree, CONTAINERS):
        return function(tree, name)
    keys = tree if isinstance(tree, Mapping) else getattr(tree, "_fields", None)
    names = map(str, range(len(tree))) if keys is None else (f"_{key}" for key in keys)
    return _map_parts(lambda part: map_named(function, part, name + next(names), is_leaf), tree)


def _map_parts(function: Callable[[Any], Any], tree: Any) -> Any:
    """A container with each of its parts replaced."""
    if isinstance(tree, list | tuple):
        parts = [function(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return {key: function(part) for key, part in tree.items()}


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """A nested container with each leaf replaced."""
    return map_named(lambda leaf, _: function(leaf), tree, "")


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of a nested container."""
    found: list[Any] = []
    map_leaves(found.append, tree)
    return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place in a structure that takes a value."""


LEAF = Leaf()


class Containers:
    """Containers without what is in them; a leaf that takes no value is None there."""

    __slots__ = ("_filled", "num_leaves", "tree")

    def __init__(self, tree: Any, num_leaves: int) -> None:
        self.tree, self.num_leaves, self._filled = tree, num_leaves, _filler(tree)

    def unflatten(self, values: Iterable[Any]) -> Any:
        """The containers, with values in them."""
        return self._filled(iter(values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Containers) and _form(self.tree) == _form(other.tree)

    def __hash__(self) -> int:
        return hash(_form(self.tree))


def _filler(tree: Any) -> Callable[[Iterator[Any]], Any]:
    """What makes containers like these of values in turn: most are made again at each call."""
    if tree is LEAF:
        return next
    if not isinstance(tree, CONTAINERS):
        return lambda _: tree
    parts = _filler_of_parts([*tree.values()] if isinstance(tree, Mapping) else tree)
    kind: Any = type(tree)
    if isinstance(tree, Mapping):
        keys = [*tree]
        return lambda values: dict(zip(keys, parts(values), strict=True))
    return lambda values: kind(*parts(values)) if hasattr(kind, "_fields") else kind(parts(values))


def _filler_of_parts(parts: Sequence[Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What makes the parts of a container in turn."""
    count, fillers = len(parts), [_filler(part) for part in parts]
    if all(part is LEAF for part in parts):
        return lambda values: islice(values, count)
    return lambda values: (filled(values) for filled in fillers)


def _form(tree: Any) -> Any:
    """Containers as tuples; those with names are tuples as all others."""
    if isinstance(tree, Mapping):
        return dict, *[(key, _form(part)) for key, part in tree.items()]
    return (isinstance(tree, list), *map(_form, tree)) if isinstance(tree, list | tuple) else tree


def flatten(tree: Any, takes_value: Callable[[Any], bool] = lambda _: True) -> tuple[list[Any], Containers]:
    """The leaves that take values, and the structure."""
    found = [leaf for leaf in leaves_of(tree) if takes_value(leaf)]
    return found, Containers(map_leaves(lambda leaf: LEAF if takes_value(leaf) else None, tree), len(found))
