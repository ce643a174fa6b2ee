"""Work that contractions and sums have in common is done once: parts of contractions, and factors of sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eindiff import construct
from eindiff.expr import Add, Einsum, Expr, topological
from eindiff.labels import Labels
from eindiff.order import rebuild, with_children
from eindiff.sizes import Size

PARTS_LIMIT = 40  # operands of a contraction in which parts are looked for


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
    sizes = dict(enumerate(node.sizes))
    stack: list[tuple[Expr, Labels]] = list(zip(node.operands, node.labels, strict=True))
    while stack:
        operand, labels = stack.pop()
        own = is_contraction(operand) and uses[operand] == 1 and len(set(labels)) == len(labels)
        if not own or len(operands) + len(stack) >= limit:
            operands.append(operand)
            places.append(labels)
            continue
        assert isinstance(operand, Einsum)
        inside.add(operand)
        names = dict(zip(operand.output, labels, strict=True))
        for label in operand.contracted:
            names[label] = len(sizes)
            sizes[len(sizes)] = operand.sizes[label]
        inner = zip(operand.operands, operand.labels, strict=True)
        stack += [(x, tuple([names[label] for label in ls])) for x, ls in inner]
    return _Network(tuple(operands), tuple(places), node.output, sizes, frozenset(inside))


def is_contraction(node: Expr) -> bool:
    """Whether a node is a product with a sum over something."""
    return isinstance(node, Einsum) and not node.is_product


def share(outputs: Sequence[Expr], deep: bool = False) -> list[Expr]:
    """A contraction that contains another one of the expressions as a part uses it, instead of computing it again.

    This is the reverse of flattening: the constructors make `a'B'Bc` one contraction, but where `Bc` is there anyway
    it is used. If `deep`, the contractions that only one other uses are looked at as parts of it, which finds more, but
    does not always pay. Contractions have fewer operands in all after each round, so it ends.
    """
    limit = PARTS_LIMIT if deep else 0
    while _operands(changed := _shared(outputs, limit)) < _operands(outputs):
        outputs = changed
    return list(outputs)


def _operands(outputs: Sequence[Expr]) -> int:
    return sum(len(node.children) for node in topological(outputs) if is_contraction(node))


def _shared(outputs: Sequence[Expr], limit: int) -> list[Expr]:
    order = topological(outputs)
    uses = Counter(child for node in order for child in node.children) + Counter(outputs)
    networks: dict[Expr, _Network] = {
        node: _network(node, uses, limit) for node in order if isinstance(node, Einsum) and not node.is_product
    }
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


def factor(outputs: Sequence[Expr]) -> list[Expr]:
    """In sums, products with a common factor as that factor times a sum of the rest, if the rest is smaller."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        result = with_children(node, children)
        return _factored(result) if isinstance(result, Add) else result

    while (changed := rebuild(outputs, change)) != list(outputs):  # each time sums have fewer terms
        outputs = changed
    return changed


def _factored(node: Add) -> Expr:
    found: dict[tuple[Expr, tuple[int, ...]], list[Einsum]] = {}
    for term in node.terms:
        if isinstance(term, Einsum) and term.is_product and len(set(term.output)) == term.ndim:
            for operand, labels in set(zip(term.operands, term.labels, strict=True)):
                if set(labels) == set(term.output) and len(labels) == term.ndim and len(term.operands) > 1:
                    found.setdefault((operand, tuple([labels.index(x) for x in term.output])), []).append(term)
    for (common, axes), terms in sorted(found.items(), key=lambda item: -len(item[1])):
        rest = [_without(term, common, axes) for term in terms]
        kept = tuple(sorted({axis for _, labels in rest for ls in labels for axis in ls}))
        if len(terms) < 2 or len(kept) == node.ndim:
            continue
        sizes = dict(enumerate(node.shape))
        parts = [
            construct.einsum(term.coefficient, list(zip(operands, labels, strict=True)), kept, sizes, inline=False)
            for term, (operands, labels) in zip(terms, rest, strict=True)
        ]
        labels = tuple([axes.index(axis) for axis in range(node.ndim)])
        product = [(common, labels), (construct.add(parts), kept)]
        new = construct.einsum(1, product, tuple(range(node.ndim)), sizes, inline=False)
        others = [term for term in node.terms if term not in terms]
        return construct.add([*others, new])
    return node


def _without(term: Einsum, common: Expr, axes: tuple[int, ...]) -> tuple[list[Expr], list[Labels]]:
    """The other operands of a product, with labels that are axes of its result."""
    place = {label: axis for axis, label in enumerate(term.output)}
    operands, labels, gone = [], [], False
    for operand, own in zip(term.operands, term.labels, strict=True):
        if not gone and operand is common and tuple([own.index(x) for x in term.output]) == axes:
            gone = True
            continue
        operands.append(operand)
        labels.append(tuple([place[label] for label in own]))
    return operands, labels


def distribute(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions with a sum of outer products as the sum of contractions with each: the outer products vanish."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        if is_contraction(node):
            assert isinstance(node, Einsum)
            for place, operand in enumerate(children):
                if isinstance(operand, Add) and operand.ndim > 2 and all(_is_outer(term) for term in operand.terms):
                    factors = list(zip(children, node.labels, strict=True))
                    sizes = dict(enumerate(node.sizes))
                    terms = []
                    for term in operand.terms:
                        factors[place] = (term, node.labels[place])
                        terms.append(construct.einsum(1, factors, node.output, sizes, inline=False))
                    return construct.add(terms)
        return with_children(node, children)

    return rebuild(outputs, change)


def _is_outer(term: Expr) -> bool:
    """Whether a term is a product of smaller tensors, or has a delta."""
    return isinstance(term, Einsum) and term.is_product and all(x.ndim < term.ndim for x in term.operands)
