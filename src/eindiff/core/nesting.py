"""Nested contractions: which of them become one, which one becomes nested ones, and which are parts of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eindiff.core import construct
from eindiff.core.labels import Labels
from eindiff.core.networks import Factor, fresh_in, matches, opened
from eindiff.core.nodes import Einsum, Expr, is_contraction, is_index_map, is_sealed, plain, topological
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Size
from eindiff.core.tensor_order import tensor_order_path
from eindiff.core.traverse import post_order

PARTS_LIMIT = 40  # operands of a contraction in which parts are looked for


def merge(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions that are used once are taken into the contraction that uses them (Lemma 1); shared ones stay."""
    uses: Counter[Expr] = Counter(map(plain, outputs))
    for node in topological(outputs):
        uses.update(node.children)
    single = {node for node in uses if is_contraction(node) and uses[node] == 1 and not is_sealed(node)}
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
class _Opened:
    """A contraction with the contractions that only it uses taken in."""

    factors: tuple[Factor, ...]
    output: Labels
    sizes: dict[int, Size]
    inside: frozenset[Expr]  # the contractions taken in
    operands: Counter[Expr]  # how often each occurs

    @property
    def contracted(self) -> set[int]:
        """The labels that are summed over."""
        return {label for _, labels in self.factors for label in labels} - set(self.output)


def _network(node: Einsum, uses: Counter[Expr], limit: int) -> _Opened:
    factors: list[Factor] = []
    inside = set()
    sizes: dict[int, Size] = dict(enumerate(node.sizes))
    stack: list[Factor] = list(zip(node.operands, node.labels, strict=True))
    while stack:
        operand, labels = stack.pop()
        distinct = len(set(labels)) == len(labels)
        if is_contraction(operand) and distinct and uses[operand] == 1 and len(factors) + len(stack) < limit:
            inside.add(operand)
            stack += opened(operand, labels, fresh_in(sizes))
        else:
            factors.append((operand, labels))
    operands = Counter([operand for operand, _ in factors])
    return _Opened(tuple(factors), node.output, sizes, frozenset(inside), operands)


def share(outputs: Sequence[Expr], deep: bool = False) -> list[Expr]:
    """A contraction that contains another one of the expressions as a part uses it, instead of computing it again.

    This is the reverse of flattening: the constructors make `a'B'Bc` one contraction, but where `Bc` is there anyway
    it is used. If `deep`, the contractions that only one other uses are looked at as parts of it, which finds more, but
    does not always pay. Contractions have fewer operands in all after each round, so it ends.
    """
    limit = PARTS_LIMIT if deep else 0
    outputs = [plain(output) for output in outputs]
    while (changed := _shared(outputs, limit)) != outputs and _operands(changed) < _operands(outputs):
        outputs = changed
    return outputs


def _operands(outputs: Sequence[Expr]) -> int:
    return sum(len(node.children) for node in topological(outputs) if is_contraction(node))


def _shared(outputs: Sequence[Expr], limit: int) -> list[Expr]:
    order = topological(outputs)
    uses = Counter(child for node in order for child in node.children) + Counter(outputs)
    networks: dict[Expr, _Opened] = {node: _network(node, uses, limit) for node in order if is_contraction(node)}
    rarity = Counter(operand for network in networks.values() for operand in network.operands)
    parts: dict[Expr, list[Expr]] = {}  # by the operand that the fewest have, so that few are looked at
    for node, network in networks.items():
        if len(network.factors) > 1 and not all(map(is_index_map, network.operands)):  # relations are not computed
            parts.setdefault(min(network.operands, key=rarity.__getitem__), []).append(node)
    found = {node: x for node in networks if (x := _with_parts(node, networks, parts)) is not None}
    if not found:
        return list(outputs)
    done: dict[Expr, Expr] = {}  # parts of parts are new, too, so that no old one is left beside them
    for node in post_order(outputs, lambda x: found.get(x, x).children):
        same = found.get(node, node)
        done[node] = with_children(same, [done[child] for child in same.children])
    return [done[output] for output in outputs]


def _with_parts(node: Expr, networks: Mapping[Expr, _Opened], parts: Mapping[Expr, list[Expr]]) -> Expr | None:
    """A contraction with the largest other one that it contains in its place, if there is one."""
    network = networks[node]
    if len(network.factors) <= 2:
        return None
    found = [part for operand in network.operands for part in parts.get(operand, ())]
    found = [part for part in found if part is not node and part not in network.inside]
    found.sort(key=lambda part: (-len(networks[part].factors), part.digest))
    results = (_with_part(network, part, networks[part]) for part in found)
    return next((x for x in results if x is not None), None)


def _with_part(network: _Opened, part: Expr, inner: _Opened) -> Expr | None:
    """A contraction with another one in the place of the operands that it stands for, if it occurs there."""
    if len(inner.factors) >= len(network.factors) or not inner.operands <= network.operands:
        return None
    for places, names in matches(inner.factors, network.factors, {}):
        rest = [factor for k, factor in enumerate(network.factors) if k not in places]
        outside = set(network.output).union(*(labels for _, labels in rest))
        if not any(names[label] in outside for label in inner.contracted):
            labels = tuple([names[label] for label in inner.output])
            return construct.einsum(1, [*rest, (part, labels)], network.output, network.sizes, inline=False)
    return None
