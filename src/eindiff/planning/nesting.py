"""Nested contractions: which of them become one, and which one becomes nested ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from eindiff.core import construct
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, is_contraction, plain, topological
from eindiff.core.sizes import Size
from eindiff.planning.contraction_order import tensor_order_path


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


def with_children(node: Expr, children: Sequence[Expr], inline: construct.Inline = False) -> Expr:
    """The same node with other children of the same shapes."""
    if inline is False and all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    match node:
        case Einsum():
            factors = list(zip(children, node.labels, strict=True))
            return construct.einsum(node.coefficient, factors, node.output, dict(enumerate(node.sizes)), inline)
        case Add():
            return construct.add(children)
        case Map():
            return construct.map_(node.function, children)
        case Apply():
            return construct.apply(node.function, children, node.batch)
    return node


def inner_factors(operand: Einsum, labels: Labels, sizes: dict[int, Size]) -> list[tuple[Expr, Labels]]:
    """The operands of a contraction inside another one, with labels there; what it sums over is added to the sizes."""
    names = dict(zip(operand.output, labels, strict=True))
    for label in operand.contracted:
        names[label] = len(sizes)
        sizes[len(sizes)] = operand.sizes[label]
    inside = zip(operand.operands, operand.labels, strict=True)
    return [(x, tuple([names[label] for label in own])) for x, own in inside]


def merge(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions that are used once are taken into the contraction that uses them (Lemma 1); shared ones stay."""
    uses: Counter[Expr] = Counter(map(plain, outputs))
    for node in topological(outputs):
        uses.update(node.children)
    single = {node for node in uses if is_contraction(node) and uses[node] == 1}
    new_single: set[Expr] = set()

    def change(node: Expr, children: list[Expr]) -> Expr:
        if all(a is b for a, b in zip(children, node.children, strict=True)) and not any(
            c in single for c in node.children
        ):
            result = node
        else:
            result = with_children(node, children, new_single if isinstance(node, Einsum) else False)
        if node in single:
            new_single.add(result)
        return result

    return rebuild(outputs, change)


def flatten(outputs: Sequence[Expr]) -> list[Expr]:
    """Expressions as the constructors make them when people write them: contractions of contractions are one."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        return with_children(node, children, inline=True) if isinstance(node, Einsum) else with_children(node, children)

    return rebuild(outputs, change)


def nest_by_tensor_order(outputs: Sequence[Expr]) -> list[Expr]:
    """Cross-country mode: each contraction as nested ones, multiplying operands in order of increasing tensor order."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        if isinstance(node, Einsum) and node.contracted and len(node.operands) > 2:
            return _nested(node, children)
        return with_children(node, children)

    return rebuild(outputs, change)


def _nested(node: Einsum, children: Sequence[Expr]) -> Expr:
    factors = list(zip(children, node.labels, strict=True))
    sizes = dict(enumerate(node.sizes))
    for left, right in tensor_order_path(node.labels, node.output):
        a, b = factors[left], factors[right]
        rest = [factor for k, factor in enumerate(factors) if k not in (left, right)]
        kept = set(node.output).union(*(labels for _, labels in rest))
        output = tuple(label for label in dict.fromkeys(a[1] + b[1]) if label in kept)
        factors = [*rest, (construct.einsum(1, [a, b], output, sizes, inline=False), output)]
    return construct.einsum(1, factors, node.output, sizes, inline=False)
