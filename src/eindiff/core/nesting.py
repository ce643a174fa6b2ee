"""Nested contractions: which of them become one, which one becomes nested ones, and which are parts of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TypeGuard

from eindiff.core import construct
from eindiff.core.einsums import FLAT_LIMIT
from eindiff.core.labels import Labels
from eindiff.core.networks import Factor, fresh_in, matches, opened
from eindiff.core.nodes import (
    Einsum,
    Expr,
    depth,
    is_contraction,
    is_index_map,
    is_inverse,
    is_sealed,
    plain,
    topological,
)
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import Size
from eindiff.core.tensor_order import Path, tensor_order_path

PARTS_LIMIT = 20  # operands of a contraction in which parts are looked for


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


def whole_chains(outputs: Sequence[Expr], squares: bool = False) -> list[Expr]:
    """Contractions of more operands than constructors put together as one, if nothing else uses their parts: in
    `A B C D E F G H I x` the vector comes last, and the matrices are not to be multiplied first. With `squares`, a part
    that is multiplied with itself is taken in too."""
    uses: Counter[Expr] = Counter(map(plain, outputs))
    nodes = topological(outputs)
    for node in nodes:
        uses.update({*node.children} if squares else node.children)
    single = {node for node in nodes if uses[node] == 1 and not is_sealed(node) and _is_chain(node)}
    made_of_single: Counter[Expr] = Counter()

    def change(node: Expr, children: list[Expr]) -> Expr:
        made = with_children(node, children)
        if _is_chain(made) and not made_of_single.keys().isdisjoint(made.children):
            network = _network(made, made_of_single, PARTS_LIMIT)
            if len(network.factors) > FLAT_LIMIT:
                made = construct.einsum(1, network.factors, network.output, network.sizes, inline=False)
        made_of_single.update([made] if node in single else [])
        return made

    return rebuild(outputs, change) if single else [*outputs]


def _is_chain(node: Expr) -> TypeGuard[Einsum]:
    """Whether a node is a contraction of matrices and vectors; with relations, or more axes, parts are arrays apart."""
    return is_contraction(node) and all(x.ndim <= 2 and not is_index_map(x) for x in node.operands)


def flatten(outputs: Sequence[Expr]) -> list[Expr]:
    """Expressions as the constructors make them when people write them: contractions of contractions are one."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        return with_children(node, children, inline=True) if isinstance(node, Einsum) else with_children(node, children)

    return rebuild(outputs, change)


def nest_by_tensor_order(outputs: Sequence[Expr]) -> list[Expr]:
    """Cross-country mode: each contraction as nested ones, multiplying operands in order of increasing tensor order."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        if isinstance(node, Einsum) and node.contracted and len(node.operands) > 2:
            return nested(node, children, tensor_order_path(node.labels, node.output))
        return with_children(node, children)

    return rebuild(outputs, change)


def nested(node: Einsum, children: Sequence[Expr], path: Path) -> Expr:
    """A contraction of other operands as nested ones of two each, along a path."""
    factors = list(zip(children, node.labels, strict=True))
    sizes = dict(enumerate(node.sizes))
    for left, right in path:
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
    stack: list[Factor] = node.factors
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
    does not always pay. Contractions have fewer operands in all after each round, so it ends. Squares have no
    parts that are more than a half: `|A x|^2` is not `x' (A'A x)`, whose errors grow with the square of the condition.
    """
    limit = PARTS_LIMIT if deep else 0
    outputs = [plain(output) for output in outputs]
    while (changed := _Sharing(outputs, limit).run()) != outputs and _operands(changed) < _operands(outputs):
        outputs = changed
    return outputs


def _operands(outputs: Sequence[Expr]) -> int:
    return sum(len(node.children) for node in topological(outputs) if is_contraction(node))


class _Sharing:
    """Expressions made anew from the bottom up, with parts of contractions in their places.

    Of the nodes whose children are made, those are next whose children are least deep, and of these those with the
    fewest: what is a part of another one is made before it, and what becomes equal is equal for all above.
    """

    def __init__(self, outputs: Sequence[Expr], limit: int) -> None:
        self.outputs, self.limit = outputs, limit
        self.done: dict[Expr, Expr] = {}
        self.uses: Counter[Expr] = Counter()  # of what was made
        self.networks: dict[Expr, _Opened] = {}
        self.shared: dict[Expr, Expr] = {}  # contractions with parts in their places
        self.parts: dict[Expr, list[Expr]] = {}  # by the operand that is used least, so that few are looked at

    def run(self) -> list[Expr]:
        """The outputs with parts in their places."""
        order = topological(self.outputs)
        uses = Counter(self.outputs)
        users: dict[Expr, list[int]] = {}
        for place, node in enumerate(order):
            uses.update(node.children)
            for child in {*node.children}:
                users.setdefault(child, []).append(place)
        missing = [len({*node.children}) for node in order]
        ready = [(0, 0, 0, place) for place, count in enumerate(missing) if not count]
        while ready:
            node = order[heappop(ready)[3]]
            made = self.done[node] = self._made(node)
            self.uses[made] += uses[node]
            for place in users.get(node, ()):
                missing[place] -= 1
                if not missing[place]:
                    below = order[place].children
                    rank = max([depth(self.done[child]) for child in below]), len(below), -order[place].ndim, place
                    heappush(ready, rank)
        return [self.done[output] for output in self.outputs]

    def _made(self, node: Expr) -> Expr:
        """A node of what its children have become; contractions, also those that are new in it, with parts."""
        made = with_children(node, [self.done[child] for child in node.children])
        if is_contraction(made):
            return self._with_parts(made)
        if made is node:
            return node
        new = [self._with_parts(x) if is_contraction(x) and x not in self.uses else x for x in made.children]
        return with_children(made, new)

    def _with_parts(self, node: Einsum) -> Expr:
        """A contraction with the largest other ones that it contains in their places."""
        if node in self.shared:
            return self.shared[node]
        whole = network = _network(node, self.uses, self.limit)
        while (factors := self._with_part(network)) is not None:
            network = replace(network, factors=tuple(factors), operands=Counter([x for x, _ in factors]))
        found: Expr = node
        if network is not whole:
            found = construct.einsum(1, network.factors, network.output, network.sizes, inline=False)
        self.networks[node], self.shared[node] = whole, found
        if len(whole.factors) > 1 and not all(map(is_index_map, whole.operands)):  # relations are not computed
            self.parts.setdefault(min(whole.operands, key=self.uses.__getitem__), []).append(node)
        return found

    def _with_part(self, network: _Opened) -> Sequence[Factor] | None:
        """The factors of a contraction with the largest other one that it contains among them, if there is one."""
        if len(network.factors) < 2 or not network.contracted:
            return None
        found = [part for operand in network.operands for part in self.parts.get(operand, ())]
        found = [part for part in found if self.shared[part] not in network.inside]
        found.sort(key=lambda part: (-len(self.networks[part].factors), part.digest))
        results = (_with_part(network, self.shared[part], self.networks[part]) for part in found)
        return next((x for x in results if x is not None), None)


def _with_part(network: _Opened, part: Expr, inner: _Opened) -> Sequence[Factor] | None:
    """The factors of a contraction with another one in the place of those that it stands for, if it occurs there."""
    more = len(network.factors) - len(inner.factors)
    if more < 0 or not inner.operands <= network.operands or (not more and len(inner.output) <= len(network.output)):
        return None
    if _is_square_around(network, inner) or _is_undone(network, inner) or (more and _is_between_inverses(inner)):
        return None
    for places, names in matches(inner.factors, network.factors, {}):
        rest = [factor for k, factor in enumerate(network.factors) if k not in places]
        outside = set(network.output).union(*(labels for _, labels in rest))
        if not any(names[label] in outside for label in inner.contracted):
            return [*rest, (part, tuple([names[label] for label in inner.output]))]
    return None


def _is_square_around(network: _Opened, inner: _Opened) -> bool:
    """Whether a part has a matrix twice, and a contraction has what is around it on both sides.

    The contraction is then a product of one with itself, and takes hardly longer as such; of inverses also row by row.
    """
    around = network.operands - inner.operands
    twice = [x for x, count in inner.operands.items() if count > 1 and x.ndim > 1]
    is_square = all(count % 2 == 0 or x in inner.operands for x, count in around.items())
    return is_square and any(not network.output or is_inverse(x) for x in twice)


def _is_undone(network: _Opened, inner: _Opened) -> bool:
    """Whether a part has a matrix twice, and an inverse of what it is part of is beside it.

    In `U U' inv(U U' + l) b` the inverse is large where `U'` is 0, and `U U'` only up to rounding.
    """
    twice = {x for x, count in inner.operands.items() if count > 1 and x.ndim > 1}
    around = network.operands - inner.operands
    return bool(twice) and any(is_inverse(x) and not twice.isdisjoint(topological(x.children)) for x in around)


def _is_between_inverses(inner: _Opened) -> bool:
    """Whether a part begins and ends with inverses.

    Where `inv(A) u` is small beside `inv(A)`, the rounding errors of `inv(A) S inv(A)` are as large in its product with
    u as elsewhere, and those of `inv(A) S (inv(A) u)` are not.
    """
    return len(inner.output) > 1 and all(_is_end_of_inverse(inner.factors, label) for label in inner.output)


def _is_end_of_inverse(factors: Sequence[Factor], label: int) -> bool:
    """Whether a label is that of an inverse only, maybe one inside of contractions."""
    own = [(x, labels.index(label)) for x, labels in factors if label in labels]
    if len(own) != 1:
        return False
    [(x, axis)] = own
    return is_inverse(x) or (is_contraction(x) and _is_end_of_inverse(x.factors, x.output[axis]))
