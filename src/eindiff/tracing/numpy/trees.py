"""Nested lists, tuples and dictionaries: their leaves, with names, and their structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False, slots=True)
class Containers:
    """Containers without what is in them; a leaf that takes no value is None there."""

    tree: Any
    num_leaves: int

    def unflatten(self, values: Iterable[Any]) -> Any:
        """The containers, with values in them."""
        given = iter(values)

        def filled(tree: Any) -> Any:
            return next(given) if tree is LEAF else tree if tree is None else _map_parts(filled, tree)

        return filled(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Containers) and _form(self.tree) == _form(other.tree)

    def __hash__(self) -> int:
        return hash(_form(self.tree))


def _form(tree: Any) -> Any:
    """Containers as tuples; those with names are tuples as all others."""
    if isinstance(tree, Mapping):
        return dict, *[(key, _form(part)) for key, part in tree.items()]
    return (isinstance(tree, list), *map(_form, tree)) if isinstance(tree, list | tuple) else tree


def flatten(tree: Any, takes_value: Callable[[Any], bool] = lambda _: True) -> tuple[list[Any], Containers]:
    """The leaves that take values, and the structure."""
    found = [leaf for leaf in leaves_of(tree) if takes_value(leaf)]
    return found, Containers(map_leaves(lambda leaf: LEAF if takes_value(leaf) else None, tree), len(found))
