"""Expressions made anew from the bottom up, with other nodes in the place of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from eindiff.core.applications import apply, map_
from eindiff.core.einsums import Inline, einsum
from eindiff.core.index_relations import Given, IndexMap
from eindiff.core.leaves import constant
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, is_sealed, plain, topological
from eindiff.core.sums import add, sealed


def rebuild(outputs: Sequence[Expr], change: Callable[[Expr, list[Expr]], Expr]) -> list[Expr]:
    """Expressions made anew from the bottom up: `change` gets a node and its new children."""
    done: dict[Expr, Expr] = {}
    for node in topological(outputs):
        done[node] = change(node, [done[child] for child in node.children]) if node.children else node
    return [done[plain(output)] for output in outputs]


def substituted(outputs: Sequence[Expr], values: Mapping[Expr, Expr]) -> list[Expr]:
    """Expressions with others of the same shapes in the place of variables, all at once."""
    done: dict[Expr, Expr] = {}
    for node in topological(outputs):
        new = [done[child] for child in node.children]
        done[node] = with_children(node, new) if new else values.get(node, node)
    return [done[plain(output)] for output in outputs]


def with_children(node: Expr, children: Sequence[Expr], inline: Inline = False) -> Expr:
    """The same node with other children of the same shapes."""
    if inline is False and all(map(is_, children, node.children)):
        return node
    match node:
        case Einsum():
            factors = list(zip(children, node.labels, strict=True))
            made = einsum(node.coefficient, factors, node.output, dict(enumerate(node.sizes)), inline)
            return sealed(made) if is_sealed(node) and inline is False else made
        case Add():
            return add(children)
        case Map():
            return map_(node.function, children)
        case Constant() if isinstance(node.value, IndexMap):
            return constant(replace(node.value, indices=Given(plain(children[0]))))
        case Apply():
            return apply(node.function, children, node.batch)
    return node
