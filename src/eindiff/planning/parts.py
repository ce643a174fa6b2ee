"""Parts of functions of entries as functions of parts: `exp(A B C)[0]` is `exp(A[0] B C)`, a chain from one end.

What is read of a sum or of a function stays outside of it in the canonical form, as others may share these. Where
nothing else needs them, only the part is made, so that products inside are multiplied in the best order for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from eindiff.core import construct
from eindiff.core.construct import Factor
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, is_contraction, is_kept, plain, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Evaluate, Size
from eindiff.planning import tuning


def _small_parts(nodes: Sequence[Expr], evaluate: Evaluate) -> dict[Expr, float]:
    """The index maps that read few of all entries, and which share of these."""
    maps: list[Expr] = [x for x in nodes if isinstance(x, Constant) and isinstance(x.value, IndexMap)]
    shares = {x: prod(map(evaluate, x.shape[1:])) / max(1, evaluate(x.shape[0])) for x in maps}
    return {x: share for x, share in shares.items() if tuning.FEWER * share <= 1}


def with_parts_first(outputs: Sequence[Expr], evaluate: Evaluate) -> list[Expr]:
    """Outputs with parts taken inside of sums and functions over products, of which nothing needs more."""
    nodes = topological(outputs)
    small = _small_parts(nodes, evaluate)
    if not small:
        return [*outputs]
    read = _shares_read(nodes, outputs, small)
    partly = {x for x in _over_products(nodes) if isinstance(x, Add | Map) and tuning.FEWER * read[x] <= 1}

    def inside(node: Expr) -> Expr:
        if isinstance(node, Einsum) and node.is_product:
            return with_children(node, [inside(x) if is_contraction(x) else x for x in node.children])
        places = [k for k, x in enumerate(node.children) if _bare(x) in partly] if is_contraction(node) else []
        for place in places:
            if (made := _read_inside(node, place, small, inside)) is not node:
                return inside(made)
        return node

    return rebuild(outputs, lambda node, children: inside(with_children(node, children))) if partly else [*outputs]


def _shares_read(nodes: Sequence[Expr], outputs: Sequence[Expr], small: Mapping[Expr, float]) -> Mapping[Expr, float]:
    """How much of each node others need, all together: of what is under functions and sums as much as of these."""
    read: defaultdict[Expr, float] = defaultdict(float, dict.fromkeys(map(plain, outputs), 1.0))
    for node in reversed(nodes):
        for place, x in enumerate(node.children):
            if isinstance(node, Einsum) and not is_kept(node):
                read[x] += prod(small[one] for one, _ in _selections(node, place, small))
            else:
                read[x] += 1 if isinstance(node, Apply) else read[node]
    return read


def _selections(node: Einsum, place: int, small: Collection[Expr]) -> list[Factor]:
    """The index maps by which few entries of an operand are chosen, one for each axis."""
    wanted = {*node.labels[place]}.difference(node.output)
    found = {labels[0]: (x, labels) for x, labels in node.factors if x in small and labels[0] in wanted}
    return [] if node.operands[place] in small else [*found.values()]


def _over_products(nodes: Sequence[Expr]) -> set[Expr]:
    """Contractions of several arrays, and sums and functions of entries of such."""
    found: set[Expr] = set()
    for node in nodes:  # each after its children
        is_product = is_contraction(node) and sum(not isinstance(x, Constant) for x in node.operands) > 1
        by_entries = isinstance(node, Add | Map) or (isinstance(node, Einsum) and node.is_product)
        if is_product or (by_entries and not found.isdisjoint(node.children)):
            found.add(node)
    return found


def _read_inside(node: Expr, place: int, small: Collection[Expr], inside: Callable[[Expr], Expr]) -> Expr:
    """An einsum with the parts that are taken of one of its operands, a sum or a function, inside of it."""
    assert isinstance(node, Einsum)
    operand, labels = _bare(node.operands[place]), node.labels[place]
    chosen = _selections(node, place, small)
    if not chosen:
        return node
    inputs = {own[0]: own[1:] for _, own in chosen}
    read = tuple(dict.fromkeys(new for label in labels for new in inputs.get(label, (label,))))
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    parts = [inside(construct.einsum(1, [(x, labels), *chosen], read, sizes)) for x in operand.children]
    made = construct.map_(operand.function, parts) if isinstance(operand, Map) else construct.add(parts)
    rest = [factor for k, factor in enumerate(node.factors) if k != place]
    kept = [factor for factor in rest if factor not in chosen or _is_elsewhere(factor[1][0], rest)]
    return construct.einsum(node.coefficient, [*kept, (made, read)], node.output, sizes)


def _bare(x: Expr) -> Expr:
    """A sum that is kept as it is, without what keeps it; else the node."""
    return x.operands[0] if is_kept(x) else x


def _is_elsewhere(label: int, factors: Sequence[Factor]) -> bool:
    """Whether several factors have a label."""
    return sum(label in own for _, own in factors) > 1
