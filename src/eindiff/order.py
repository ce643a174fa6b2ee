"""The order of contraction: which nested contractions become one, and in which order its operands are multiplied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache

from eindiff import construct
from eindiff.expr import Add, Apply, Einsum, Expr, Map, topological
from eindiff.labels import Labels, first_appearance

Path = tuple[tuple[int, ...], ...]

BEST_LIMIT = 9  # operands; the order of a larger contraction is found by opt_einsum's heuristics


def rebuild(outputs: Sequence[Expr], change: Callable[[Expr, list[Expr]], Expr]) -> list[Expr]:
    """Expressions made anew from the bottom up: `change` gets a node and its new children."""
    done: dict[Expr, Expr] = {}
    for node in topological(outputs):
        done[node] = change(node, [done[child] for child in node.children]) if node.children else node
    return [done[output] for output in outputs]


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


def merge(outputs: Sequence[Expr]) -> list[Expr]:
    """Contractions that are used once are taken into the contraction that uses them (Lemma 1); shared ones stay."""
    uses: Counter[Expr] = Counter(outputs)
    for node in topological(outputs):
        uses.update(node.children)
    single = {node for node in uses if isinstance(node, Einsum) and not node.is_product and uses[node] == 1}
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


def share(outputs: Sequence[Expr]) -> list[Expr]:
    """A contraction that contains another one of the expressions as a part uses it, instead of computing it again.

    This is the reverse of flattening: the constructors make `a'B'Bc` one contraction, but where `Bc` is there anyway
    it is used. Each replacement leaves fewer operands, so it ends.
    """
    parts: dict[Expr, list[Einsum]] = {}
    for node in topological(outputs):
        if isinstance(node, Einsum) and not node.is_product and len(node.operands) > 1:
            parts.setdefault(node.operands[0], []).append(node)

    def change(node: Expr, children: list[Expr]) -> Expr:
        if isinstance(node, Einsum) and not node.is_product and len(node.operands) > 2:
            found = [part for operand in set(node.operands) for part in parts.get(operand, ()) if part is not node]
            for part in sorted(found, key=lambda part: (-len(part.operands), part.digest)):
                if (place := _find_part(node, part)) is not None:
                    return _with_part(node, part, place)
        return with_children(node, children)

    while (changed := rebuild(outputs, change)) != list(outputs):
        outputs = changed
    return list(outputs)


def _with_part(node: Einsum, part: Einsum, place: tuple[list[int], Labels]) -> Expr:
    indices, labels = place
    rest = [f for k, f in enumerate(zip(node.operands, node.labels, strict=True)) if k not in indices]
    return construct.einsum(1, [*rest, (part, labels)], node.output, dict(enumerate(node.sizes)), inline=False)


def _find_part(node: Einsum, part: Einsum) -> tuple[list[int], Labels] | None:
    """Where a contraction occurs in another one: the operands it stands for, and the labels of its axes there."""
    if len(part.operands) >= len(node.operands) or Counter(part.operands) - Counter(node.operands):
        return None
    stack: list[tuple[list[int], dict[int, int]]] = [([], {})]
    while stack:
        indices, names = stack.pop()
        if len(indices) == len(part.operands):
            outside = set(node.output).union(*(ls for k, ls in enumerate(node.labels) if k not in indices))
            if not any(names[label] in outside for label in part.contracted):
                return indices, tuple([names[label] for label in part.output])
            continue
        operand, labels = part.operands[len(indices)], part.labels[len(indices)]
        for k, (candidate, theirs) in enumerate(zip(node.operands, node.labels, strict=True)):
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


def contraction_path(
    inputs: Sequence[Labels],
    output: Labels,
    sizes: Mapping[int, int],
    strategy: str = "auto",
    operands: Sequence | None = None,
) -> Path:
    """Pairs of operands to multiply, one after the other; a pair is taken out and its product put at the end.

    `operands` tells which inputs are the same tensor, so that equal products count once.
    """
    names = first_appearance(inputs)
    renamed = tuple([tuple([names[label] for label in labels]) for labels in inputs])
    kept = tuple([names[label] for label in output if label in names])
    which = first_appearance([operands if operands is not None else range(len(inputs))])
    keys = tuple([which[operand] for operand in operands]) if operands is not None else tuple(range(len(inputs)))
    return _path(renamed, kept, tuple([sizes[label] for label in names]), strategy, keys)


@lru_cache(maxsize=8192)
def _path(
    inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...], strategy: str, keys: tuple[int, ...]
) -> Path:
    if len(inputs) < 2:
        return ()
    if len(set(inputs)) == 1 and set(inputs[0]) == set(output):  # elementwise: any order will do
        return ((0, 1),) * (len(inputs) - 1)
    rule = tensor_order_path(inputs, output, keys)
    if strategy == "tensor_order":
        return rule
    size_of = dict(enumerate(sizes))
    best = _best_path(inputs, output, sizes) if len(inputs) <= BEST_LIMIT else _good_path(inputs, output, size_of)
    return min(best, rule, key=lambda path: path_flops(inputs, output, size_of, path, keys))


def _good_path(inputs: tuple[Labels, ...], output: Labels, sizes: Mapping[int, int]) -> Path:
    """A path for many operands."""
    import opt_einsum as oe  # only when it is needed: its import takes long

    found = oe.paths.auto([frozenset(labels) for labels in inputs], frozenset(output), sizes)
    pairs = tuple(tuple(sorted(pair)) for pair in found)
    return pairs if all(len(pair) == 2 for pair in pairs) else tensor_order_path(inputs, output)


def _best_path(inputs: tuple[Labels, ...], output: Labels, sizes: tuple[int, ...]) -> Path:
    """The path of least operations: the best way to multiply each subset of operands, from small subsets to all.

    Subsets of operands and sets of labels are bits of integers. Of equal paths, the one with the smaller largest
    intermediate counts.
    """
    count = len(inputs)
    masks = [sum(1 << label for label in set(labels)) for labels in inputs]
    kept_outside = [sum(1 << label for label in set(output))] * (1 << count)
    inside = [0] * (1 << count)
    for subset in range(1 << count):
        for k in range(count):
            if subset >> k & 1:
                inside[subset] |= masks[k]
            else:
                kept_outside[subset] |= masks[k]
    labels = [inside[subset] & kept_outside[subset] for subset in range(1 << count)]
    entries = _sizes_of_masks(sizes)
    best: list[tuple[float, float, int]] = [(0.0, 0.0, 0)] * (1 << count)
    for subset in range(1, 1 << count):
        if subset & (subset - 1) == 0:
            continue
        own = entries(labels[subset])
        found = None
        first = (subset - 1) & subset
        while first:
            second = subset ^ first
            if first > second:
                met = labels[first] | labels[second]
                flops = entries(met) * (2.0 if met != labels[subset] else 1.0)
                total = best[first][0] + best[second][0] + flops
                largest = max(own, best[first][1], best[second][1])
                if found is None or (total, largest) < found[:2]:
                    found = (total, largest, first)
            first = (first - 1) & subset
        assert found is not None
        best[subset] = found
    return _path_of_tree([split for _, _, split in best], count)


def _sizes_of_masks(sizes: tuple[int, ...]) -> Callable[[int], float]:
    """The number of entries of a tensor whose labels are the bits of an integer."""

    @cache
    def entries(mask: int) -> float:
        total = 1.0
        for label, size in enumerate(sizes):
            if mask >> label & 1:
                total *= size
        return total

    return entries


def _path_of_tree(splits: list[int], count: int) -> Path:
    """How subsets of operands split, as pairs of positions."""
    positions = [1 << k for k in range(count)]
    order, stack = [], [(1 << count) - 1]
    while stack:
        subset = stack.pop()
        if splits[subset]:
            order.append(subset)
            stack += [splits[subset], subset ^ splits[subset]]
    path = []
    for subset in reversed(order):
        i, j = sorted((positions.index(splits[subset]), positions.index(subset ^ splits[subset])))
        path.append((i, j))
        positions = [p for k, p in enumerate(positions) if k not in (i, j)] + [subset]
    return tuple(path)


class _Terms:
    """The operands of a contraction while it is carried out: their labels, and keys that tell equal products."""

    def __init__(self, inputs: Sequence[Labels], output: Labels, keys: Sequence[int] | None) -> None:
        self.labels = list(inputs)
        self.output = output
        self.keys: list = list(range(len(inputs)) if keys is None else keys)
        self.made: set = set()

    def result(self, i: int, j: int) -> Labels:
        """The labels that the product of two terms keeps: those of the output and of the other terms."""
        kept = set(self.output).union(*(labels for k, labels in enumerate(self.labels) if k not in (i, j)))
        return tuple([x for x in dict.fromkeys(self.labels[i] + self.labels[j]) if x in kept])

    def key(self, i: int, j: int) -> tuple:
        """What the product of two terms is known by: the terms, and how their labels meet."""
        pair = sorted([(repr(self.keys[i]), self.labels[i]), (repr(self.keys[j]), self.labels[j])])
        names = first_appearance(labels for _, labels in pair)
        kept = tuple(sorted(names[x] for x in self.result(i, j)))
        return (*[(key, tuple([names[x] for x in labels])) for key, labels in pair], kept)

    def multiply(self, i: int, j: int) -> None:
        result, key = self.result(i, j), self.key(i, j)
        self.made.add(key)
        self.labels = [x for k, x in enumerate(self.labels) if k not in (i, j)] + [result]
        self.keys = [x for k, x in enumerate(self.keys) if k not in (i, j)] + [key]


def tensor_order_path(inputs: Sequence[Labels], output: Labels, keys: Sequence[int] | None = None) -> Path:
    """The paper's rule: multiply vectors first, then matrices, and so on; among equals, the smallest result first.

    A product that was made before comes before all.
    """
    terms, path = _Terms(inputs, output, keys), []
    repeated = keys is not None and len(set(keys)) < len(keys)
    while (count := len(terms.labels)) > 1:
        ranked = []
        for i in range(count):
            for j in range(i + 1, count):
                first, second = terms.labels[i], terms.labels[j]
                apart = not set(first) & set(second)
                orders = sorted((len(first), len(second)), reverse=True)
                new = not repeated or terms.key(i, j) not in terms.made
                ranked.append((new, apart, orders, len(terms.result(i, j)), i, j))
        *_, i, j = min(ranked)
        path.append((i, j))
        terms.multiply(i, j)
    return tuple(path)


def path_flops(
    inputs: Sequence[Labels], output: Labels, sizes: Mapping[int, int], path: Path, keys: Sequence[int] | None = None
) -> float:
    """Operations of a contraction in a given order; equal products count once."""
    terms, total = _Terms(inputs, output, keys), 0.0
    for i, j in path:
        if terms.key(i, j) not in terms.made:
            total += pair_flops(set(terms.labels[i]) | set(terms.labels[j]), terms.result(i, j), sizes)
        terms.multiply(i, j)
    return total


def pair_flops(labels: Collection[int], result: Collection[int], sizes: Mapping[int, int]) -> float:
    """Operations of one product of two tensors: a multiplication an entry, and an addition if there is a sum."""
    total = 1.0
    for label in labels:
        total *= sizes[label]
    return total if set(labels) == set(result) else 2 * total
