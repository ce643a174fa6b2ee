"""The order of the axes in which arrays are made, so that few are copied into another one."""

from __future__ import annotations

from collections.abc import Sequence

from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr, Map, Variable


def orientations(order: Sequence[Expr], outputs: Sequence[Expr], runs: bool = False) -> dict[Expr, Labels]:
    """For each node the order of its axes that suits where it is used, and in the end the outputs.

    Sums of products of entries (`ijk,ijk->ij`) run over any order, so that of matrix products counts before theirs.
    What is multiplied with smaller arrays has the axes of these last in a program that `runs`, not one to be read:
    NumPy then goes through both at once, and not row by row. What is added to inputs, or times them, lies as they do.
    """
    hints: dict[Expr, Labels] = {output: tuple(range(output.ndim)) for output in outputs}
    weak: dict[Expr, Labels] = {}
    given = _given(order) if runs else {}
    for node in reversed(order):
        if node in given and node not in outputs:
            hints[node] = given[node]
        own = hints.setdefault(node, _natural(node, weak.get(node, ())))
        if isinstance(node, Add | Map):
            for child in node.children:
                hints.setdefault(child, own)
        elif isinstance(node, Einsum):
            wanted = [node.output[axis] for axis in own]
            inner = len(node.operands) > 1 and len({frozenset(labels) for labels in node.labels}) == 1
            for k, child in enumerate(node.operands):
                (weak if inner else hints).setdefault(child, _suitable(node, k, wanted, runs))
        else:
            for child in node.children:
                hints.setdefault(child, tuple(range(child.ndim)))
    return hints


def _given(order: Sequence[Expr]) -> dict[Expr, Labels]:
    """The order in which the axes lie of inputs, and of what is made of them entry by entry."""
    found: dict[Expr, Labels] = {}
    for node in order:
        if isinstance(node, Variable):
            found[node] = tuple(range(node.ndim))
        elif isinstance(node, Add | Map):
            whole = [found[child] for child in node.children if child in found and child.shape == node.shape]
            found.update({node: whole[0]} if whole else {})
        elif isinstance(node, Einsum) and node.is_product and not node.has_delta:
            for child, labels in zip(node.operands, node.labels, strict=True):
                if child in found and sorted(labels) == sorted(node.output):
                    found.setdefault(node, tuple([node.output.index(labels[axis]) for axis in found[child]]))
    return found


def summands(outputs: Sequence[Expr]) -> set[Expr]:
    """What sums that are outputs, whatever the order of their axes, are sums of multiples of."""
    found: set[Expr] = set()
    for output in outputs:
        total = output.operands[0] if isinstance(output, Einsum) and len(output.operands) == 1 else output
        for term in total.children if isinstance(total, Add) else ():
            found.add(term.operands[0] if isinstance(term, Einsum) and len(term.operands) == 1 else term)
    return found


def _suitable(node: Einsum, k: int, wanted: Sequence[int], runs: bool) -> Labels:
    """Axes of operand k in the order in which they are wanted, after those that no other operand has."""
    labels = node.labels[k]
    shared = {x for i, other in enumerate(node.labels) if i != k for x in other} if runs and len(labels) > 2 else set()
    place = [(x in shared, wanted.index(x) if x in wanted else len(wanted)) for x in labels]
    return tuple(sorted(range(len(labels)), key=place.__getitem__))


def _natural(node: Expr, axes: Labels) -> Labels:
    """Axes in the order in which a matrix product leaves them, if that of the largest operand with the others is it."""
    if not isinstance(node, Einsum) or node.is_product:
        return axes
    largest = max(node.labels, key=len)
    return tuple(sorted(axes, key=lambda axis: node.output[axis] not in largest))
