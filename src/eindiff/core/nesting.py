"""Nested contractions: which of them become one, which one becomes nested ones, and which are parts of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eindiff.core import construct
from eindiff.core.labels import Labels
from eindiff.core.networks import inner_factors
from eindiff.core.nodes import Einsum, Expr, is_contraction, plain, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Size
from eindiff.core.tensor_order import tensor_order_path

PARTS_LIMIT = 40  # operands of a contraction in which parts are looked for


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


@dataclass(frozen=True, slots=True)
class _Network:
    """A contraction with the contractions that only it uses taken in, as operands with labels."""

    operands: tuple[Expr, ...]
    labels: tuple[Labels, ...]
    output: Labels
    sizes: dict[int, Size]
    inside: frozenset[Expr]  # the contractions taken in

    @property
    def contracted(self) -> set[int]:
        """The labels that are summed over."""
        return {label for labels in self.labels for label in labels} - set(self.output)


def _network(node: Einsum, uses: Counter[Expr], limit: int) -> _Network:
    operands: list[Expr] = []
    places: list[Labels] = []
    inside = set()
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    stack: list[tuple[Expr, Labels]] = list(zip(node.operands, node.labels, strict=True))
    while stack:
        operand, labels = stack.pop()
        distinct = len(set(labels)) == len(labels)
        if is_contraction(operand) and distinct and uses[operand] == 1 and len(operands) + len(stack) < limit:
            inside.add(operand)
            stack += inner_factors(operand, labels, sizes)
        else:
            operands.append(operand)
            places.append(labels)
    return _Network(tuple(operands), tuple(places), node.output, sizes, frozenset(inside))


def share(outputs: Sequence[Expr], deep: bool = False) -> list[Expr]:
    """A contraction that contains another one of the expressions as a part uses it, instead of computing it again.

    This is the reverse of flattening: the constructors make `a'B'Bc` one contraction, but where `Bc` is there anyway
    it is used. If `deep`, the contractions that only one other uses are looked at as parts of it, which finds more, but
    does not always pay. Contractions have fewer operands in all after each round, so it ends.
    """
    limit = PARTS_LIMIT if deep else 0
    outputs = [plain(output) for output in outputs]
    while _operands(changed := _shared(outputs, limit)) < _operands(outputs):
        outputs = changed
    return outputs


def _operands(outputs: Sequence[Expr]) -> int:
    return sum(len(node.children) for node in topological(outputs) if is_contraction(node))


def _shared(outputs: Sequence[Expr], limit: int) -> list[Expr]:
    order = topological(outputs)
    uses = Counter(child for node in order for child in node.children) + Counter(outputs)
    networks: dict[Expr, _Network] = {node: _network(node, uses, limit) for node in order if is_contraction(node)}
    parts: dict[Expr, list[Expr]] = {}
    for node, network in networks.items():
        if len(network.operands) > 1:
            parts.setdefault(network.operands[0], []).append(node)

    def change(node: Expr, children: list[Expr]) -> Expr:
        network = networks.get(node)
        if network is not None and len(network.operands) > 2:
            found = [part for operand in set(network.operands) for part in parts.get(operand, ())]
            found = [part for part in found if part is not node and part not in network.inside]
            for part in sorted(found, key=lambda part: (-len(networks[part].operands), part.digest)):
                if (place := _find_part(network, networks[part])) is not None:
                    return _with_part(network, part, place)
        return with_children(node, children)

    return rebuild(outputs, change)


def _with_part(network: _Network, part: Expr, place: tuple[list[int], Labels]) -> Expr:
    indices, labels = place
    rest = [f for k, f in enumerate(zip(network.operands, network.labels, strict=True)) if k not in indices]
    return construct.einsum(1, [*rest, (part, labels)], network.output, network.sizes, inline=False)


def _find_part(network: _Network, part: _Network) -> tuple[list[int], Labels] | None:
    """Where a contraction occurs in another one: the operands it stands for, and the labels of its axes there."""
    if len(part.operands) >= len(network.operands) or Counter(part.operands) - Counter(network.operands):
        return None
    stack: list[tuple[list[int], dict[int, int]]] = [([], {})]
    while stack:
        indices, names = stack.pop()
        if len(indices) == len(part.operands):
            outside = set(network.output).union(*(ls for k, ls in enumerate(network.labels) if k not in indices))
            if not any(names[label] in outside for label in part.contracted):
                return indices, tuple([names[label] for label in part.output])
            continue
        operand, labels = part.operands[len(indices)], part.labels[len(indices)]
        for k, (candidate, theirs) in enumerate(zip(network.operands, network.labels, strict=True)):
            if candidate is operand and k not in indices:
                for turned in [theirs, *(tuple([theirs[a] for a in p]) for p, sign in operand.symmetries if sign == 1)]:
                    if (extended := _extend(names, labels, turned)) is not None:
                        stack.append(([*indices, k], extended))
    return None


def _extend(names: dict[int, int], labels: Labels, theirs: Labels) -> dict[int, int] | None:
    """A one-to-one naming of labels with more labels, if that is possible."""
    extended = dict(names)
    for mine, other in zip(labels, theirs, strict=True):
        if extended.setdefault(mine, other) != other:
            return None
    return extended if len(set(extended.values())) == len(extended) else None
