"""From the trees of the nodes of an expression to one tree, with names for what is large and occurs more than once.

Everything here goes over explicit lists, so that the depth of an expression does not matter; a part that is nested too
deep gets a name too, so that what is left can be rendered by plain recursion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from eindiff.core.groups import grouped
from eindiff.core.nodes import Expr
from eindiff.core.traverse import post_order
from eindiff.text.write.tree import Tree, replace, walk

WORTH_A_NAME = 6  # pieces of text that make an expression worth a name if it occurs more than once
DEEPEST_INLINE = 16  # nested references beyond which an expression gets a name in any case
CUT_OFF = 4000  # pieces of text after which an expression without names is cut off


class Key(Protocol):
    """What a reference is to: a node, and how it is to be written (turned, negated, ...)."""

    @property
    def node(self) -> Expr: ...

    def __hash__(self) -> int: ...


class Notation(Protocol):
    """Turns references into trees."""

    def reference(self, node: Expr) -> Tree:
        """The reference to a node as it is."""

    def tree(self, key: Any) -> Tree:
        """What a reference stands for, in terms of further references."""

    def inlined(self, key: Any, tree: Tree) -> Tree:
        """A tree of the key, put where the reference stood."""

    def named(self, key: Any, definition: Any, name: str) -> Tree:
        """A reference to something that has a name, where the name stands for `definition`."""


@dataclass(slots=True)
class Document:
    """An expression ready to be rendered: named parts, each before its use, and the expression itself."""

    definitions: list[tuple[str, Any, Tree]] = field(default_factory=list)  # name, key and tree
    body: Tree = field(default_factory=lambda: Tree("name", (), ""))


def document(expr: Expr, notation: Notation, names: bool, taken: Collection[str]) -> Document:
    """The expression in a notation. Without `names`, what is too long or too deep is cut off with an ellipsis."""
    root = notation.reference(expr)
    trees = _trees(root, notation)
    inline = {expr}
    while True:
        chosen, forced = _choose(root, trees, names, inline)
        uses: Counter[Expr] = Counter(ref.data.node for ref in _references(root))
        for key in _post_order(root, trees, chosen):
            uses.update(ref.data.node for ref in _references(trees[key]))
        single = {node for node in chosen if uses[node] < 2 and node not in forced}
        if not single:
            return _assemble(root, trees, chosen, notation, names, set(taken))
        inline |= single  # inside something that is now written once


def _references(tree: Tree) -> Iterable[Tree]:
    return (part for part in walk(tree) if part.kind == "ref")


def _trees(root: Tree, notation: Notation) -> dict[Any, Tree]:
    trees: dict[Any, Tree] = {}
    pending = list(_references(root))
    while pending:
        key = pending.pop().data
        if key not in trees:
            trees[key] = notation.tree(key)
            pending.extend(_references(trees[key]))
    return trees


def _post_order(root: Tree, trees: dict[Any, Tree], chosen: dict[Expr, Any]) -> list[Any]:
    """The keys that are written, each after those that its tree refers to. A chosen node is written in one way only."""

    def below(tree: Tree) -> list[Any]:
        return [chosen.get(ref.data.node, ref.data) for ref in _references(tree)]

    return post_order(below(root), lambda key: below(trees[key]))


def _choose(
    root: Tree, trees: dict[Any, Tree], names: bool, inline: Collection[Expr]
) -> tuple[dict[Expr, Any], set[Expr]]:
    """The nodes to name, with the way in which most references have them; and those that must be, being too deep.

    Those in `inline` are not named.
    """
    uses: Counter[Any] = Counter(ref.data for tree in (root, *trees.values()) for ref in _references(tree))
    shared = grouped((key.node, key) for key in uses)
    chosen: dict[Expr, Any] = {}
    forced: set[Expr] = set()
    size: dict[Any, int] = {}
    depth: dict[Any, int] = {}
    for key in _post_order(root, trees, {}):
        node = key.node
        size[key], depth[key] = _measure(trees[key], size, depth, chosen)
        if node in inline and (depth[key] <= DEEPEST_INLINE or node is root.data.node):
            continue
        if depth[key] > DEEPEST_INLINE or (not names and size[key] > CUT_OFF):
            forced.add(node)
        elif not (names and size[key] >= WORTH_A_NAME and sum(uses[k] for k in shared[node]) > 1):
            continue
        chosen.setdefault(node, max(shared[node], key=uses.__getitem__))
    return chosen, forced


def _measure(tree: Tree, size: dict, depth: dict, chosen: dict[Expr, Any]) -> tuple[int, int]:
    """How many pieces of text a tree is, and how deep, when all that is not chosen for a name is written out."""
    pieces, deepest = 0, 0
    for part in walk(tree):
        if part.kind == "ref" and part.data.node not in chosen:
            pieces += size[part.data]
            deepest = max(deepest, 1 + depth[part.data])
        else:
            pieces += (not part.parts) + (part.kind in ("call", "bigsum", "tensor")) + 3 * (part.kind == "einsum")
    return min(pieces, 10**9), deepest


def _assemble(
    root: Tree, trees: dict[Any, Tree], chosen: dict[Expr, Any], notation: Notation, names: bool, taken: set[str]
) -> Document:
    """Write out what has no name, and number the names in the order of their definitions."""
    result = Document()
    written: dict[Any, Tree] = {}
    name_of: dict[Expr, str] = {}

    cut_off = Tree("name", (), "…")

    def change(ref: Tree) -> Tree:
        key = ref.data
        if key.node in name_of:
            return notation.named(key, chosen[key.node], name_of[key.node]) if names else cut_off
        return notation.inlined(key, written[key])

    for key in _post_order(root, trees, chosen):
        written[key] = replace(trees[key], change)
        if key.node in chosen:
            name_of[key.node] = _fresh(len(name_of), taken)
            if names:
                result.definitions.append((name_of[key.node], key, written.pop(key)))
    result.body = replace(root, change)
    return result


def _fresh(count: int, taken: set[str]) -> str:
    """The next of t0, t1, ... that is not the name of a variable."""
    while (candidate := f"t{count}") in taken:
        count += 1
    taken.add(candidate)
    return candidate
