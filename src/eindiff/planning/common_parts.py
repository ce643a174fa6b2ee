"""Work that contractions and sums have in common is done once: parts of contractions, and factors of sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from eindiff.core import construct
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Einsum, Expr, is_contraction, plain, topological
from eindiff.core.sizes import Size
from eindiff.planning.nesting import inner_factors, rebuild, with_children

FACTORINGS = 4  # how often sums are gone through: each time two terms of each become one
TERMS_LIMIT = 20  # products in a sum that are compared with each other
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


def factor(outputs: Sequence[Expr]) -> list[Expr]:
    """In sums, products with common factors as these factors times a sum of the rest, if the rest is smaller."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        result = with_children(node, children)
        return _factored(result) if isinstance(result, Add) else result

    for _ in range(FACTORINGS):
        outputs, before = rebuild(outputs, change), outputs
        if outputs == before:
            break
    return list(outputs)


def _factored(node: Add) -> Expr:
    """A sum with two of its terms as one, if they have factors in common."""
    sizes = dict(enumerate(node.shape))
    whole = tuple(sizes)
    products = [(term, _factors(term)) for term in node.terms if isinstance(term, Einsum) and _is_plain_product(term)]
    if len(products) > TERMS_LIMIT:
        return node
    for (first, one), (second, other) in combinations(products, 2):
        common = one & other
        rests = [list((factors - common).elements()) for factors in (one, other)]
        kept = tuple(sorted({axis for rest in rests for _, axes in rest for axis in axes}))
        if not common or len(kept) == node.ndim:
            continue
        terms = zip((first, second), rests, strict=True)
        parts = [construct.einsum(term.coefficient, rest, kept, sizes, inline=False) for term, rest in terms]
        factors = [*common.elements(), (construct.add(parts), kept)]
        new = construct.einsum(1, factors, whole, sizes, inline=False)
        return construct.add([*(term for term in node.terms if term is not first and term is not second), new])
    return node


def _is_plain_product(term: Einsum) -> bool:
    return term.is_product and len(term.operands) > 1 and len(set(term.output)) == term.ndim


def _factors(term: Einsum) -> Counter[tuple[Expr, Labels]]:
    """The operands of a product, with the axes of its result that they run along."""
    axis = {label: k for k, label in enumerate(term.output)}
    pairs = zip(term.operands, term.labels, strict=True)
    return Counter((operand, tuple([axis[label] for label in labels])) for operand, labels in pairs)


def distribute(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions with a sum of outer products as the sum of contractions with each: the outer products vanish."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        if is_contraction(node):
            for place, operand in enumerate(children):
                if isinstance(operand, Add) and operand.ndim > 2 and all(is_outer(term) for term in operand.terms):
                    return construct.add(multiplied_out(node, children, place))
        return with_children(node, children)

    return rebuild(outputs, change)


def multiplied_out(node: Einsum, children: Sequence[Expr], place: int) -> list[Expr]:
    """A product or contraction over a sum, at some place among its children, as one for each term of the sum."""
    factors, sizes = list(zip(children, node.labels, strict=True)), dict(enumerate(node.sizes))
    terms = []
    for term in children[place].children:
        factors[place] = (term, node.labels[place])
        terms.append(construct.einsum(node.coefficient, factors, node.output, sizes, inline=False))
    return terms


def is_outer(term: Expr) -> bool:
    """Whether a term is a product of smaller tensors, or has a delta."""
    return isinstance(term, Einsum) and term.is_product and all(x.ndim < term.ndim for x in term.operands)
