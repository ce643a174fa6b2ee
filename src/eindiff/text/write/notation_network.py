"""A network of factors and labels as matrix algebra: chains, `diag`, `.*`, traces and sums.

Vectors with one label are multiplied entry by entry, and so are matrices with the same two labels. Then summed labels
are taken away one by one: one that a single matrix has makes a matrix times a vector, one that two matrices have a
product of matrices with a `diag` between them for the vector that is there, a ring of matrices is a trace. What is
left, where a tensor of order three or more is involved, is an `einsum` of what was found so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eindiff.core.index_relations import IndexMap
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add
from eindiff.core.sizes import Size
from eindiff.text.write.constants import entry_text, is_reshape, map_tree
from eindiff.text.write.notation_einsum import contraction_tree, filled_tree
from eindiff.text.write.tree import (  # fmt: skip
    Tree,
    call,
    elementwise,
    fraction,
    literal,
    power,
    product,
    quotient,
    trace,
    transposed,
    transposes,
)

Pair = tuple[int, int]


@dataclass(slots=True)
class Item:
    """What is multiplied entry by entry over the same labels: above and below a fraction line."""

    tops: list[Tree] = field(default_factory=list)
    bottoms: list[Tree] = field(default_factory=list)

    def tree(self) -> Tree:
        """The item as one tree."""
        return fraction(self.tops, self.bottoms)

    def turn(self) -> None:
        """Exchange the labels of a matrix."""
        self.tops, self.bottoms = [transposed(t) for t in self.tops], [transposed(t) for t in self.bottoms]


@dataclass(slots=True)
class FactorNetwork:
    """The factors of an Einsum by their labels, taken apart and put together again as matrix algebra."""

    output: Labels
    sizes: dict[int, Size]
    scalars: Item = field(default_factory=Item)
    vectors: dict[int, Item] = field(default_factory=dict)
    matrices: dict[Pair, Item] = field(default_factory=dict)
    tensors: list[tuple[Tree, Labels]] = field(default_factory=list)
    maps: list[tuple[IndexMap, Labels]] = field(default_factory=list)

    def put(self, trees: Sequence[Tree], labels: Labels, below: bool = False) -> None:
        """Add a factor. A diagonal of a matrix is a vector; parallel matrices are brought into one orientation."""
        if len(labels) == 2 and labels[0] == labels[1]:
            trees, labels = [_diagonal(tree) for tree in trees], labels[:1]
        if len(labels) > 2:
            self.tensors += [(fraction([], [tree]) if below else tree, labels) for tree in trees]
            return
        item = self._item(labels)
        if len(labels) == 2 and labels not in self.matrices:
            trees = [transposed(tree) for tree in trees]
        (item.bottoms if below else item.tops).extend(trees)

    def _item(self, labels: Labels) -> Item:
        if not labels:
            return self.scalars
        if len(labels) == 1:
            return self.vectors.setdefault(labels[0], Item())
        a, b = labels
        return self.matrices[b, a] if (b, a) in self.matrices else self.matrices.setdefault((a, b), Item())

    def tree(self) -> Tree:
        """Matrix algebra for all that can be, and an einsum of the rest."""
        return self.around(FactorNetwork._assemble)

    def around(self, assemble: Callable[[FactorNetwork], Tree | None]) -> Tree:
        """The scalars, and what is made of all that is left when summed labels are gone."""
        self._slice()
        while self._eliminate():
            pass
        made = assemble(self)
        tops = [made] if made is not None else []
        above = product([*_powers(self.scalars.tops), *tops]) if self.scalars.tops or tops else literal(1)
        return quotient(above, product(_powers(self.scalars.bottoms)), False) if self.scalars.bottoms else above

    # Parts

    def falls_apart(self, *groups: set[int]) -> bool:
        """Whether every factor has labels of one group only."""
        factors = [*({label} for label in self.vectors), *map(set, self.matrices)]
        return all(any(labels <= group for group in groups) for labels in factors)

    def part(self, output: Labels) -> Tree:
        """The factors that have these labels only, as a matrix over them."""
        mine = FactorNetwork(output, self.sizes)
        mine.vectors = {label: item for label, item in self.vectors.items() if label in output}
        mine.matrices = {pair: item for pair, item in self.matrices.items() if {*pair} <= {*output}}
        return mine._small()

    # Summed labels

    def _summed(self) -> list[int]:
        """The labels that are summed over and that no tensor of higher order has."""
        kept = set(self.output).union(*(labels for _, labels in self.tensors), *(labels for _, labels in self.maps))
        found = dict.fromkeys([*self.vectors, *(label for pair in self.matrices for label in pair)])
        return [label for label in found if label not in kept]

    def _pairs(self, label: int) -> list[Pair]:
        return [pair for pair in self.matrices if label in pair]

    def _eliminate(self) -> bool:
        """Take one summed label away, the cheapest kind first; False if there is none that can be."""
        summed = self._summed()
        for count, act in ((0, self._sum_vector), (1, self._times_vector)):
            for label in summed:
                if len(self._pairs(label)) == count and not self._is_closed_pair(label, summed):
                    act(label)
                    return True
        for label in summed:
            if self._is_closed_pair(label, summed):
                self._sum_matrix(self._pairs(label)[0])
                return True
            if (ring := self._ring(label, summed)) is not None:
                self._trace(ring)
                return True
        for label in summed:
            if len(self._pairs(label)) == 2:
                self._times_matrix(label)
                return True
        return False

    def _is_closed_pair(self, label: int, summed: Sequence[int]) -> bool:
        """Whether a label and another one are only in one matrix, or one product of matrices entry by entry."""
        pairs = self._pairs(label)
        if len(pairs) != 1 or label in self.vectors:
            return False
        [other] = set(pairs[0]) - {label}
        return other in summed and other not in self.vectors and len(self._pairs(other)) == 1

    def _sum_vector(self, label: int) -> None:
        item = self.vectors.pop(label)
        self.put([_summed_vector(item)], ())

    def _times_vector(self, label: int) -> None:
        """`Σ_k M_jk x_k`: a matrix times a vector, or its row sums."""
        [pair] = self._pairs(label)
        matrix, vector = self._take(pair, label, last=True), self.vectors.pop(label, None)
        [other] = set(pair) - {label}
        if vector is not None:
            self.put([product([matrix, vector.tree()])], (other,))
        elif matrix.kind == "transposed":
            self.put([call("sum", [transposed(matrix), literal(0)], 1)], (other,))
        else:
            self.put([call("sum", [matrix, literal(1)], 1)], (other,))

    def _take(self, pair: Pair, label: int, last: bool) -> Tree:
        """A matrix, turned so that the label is its last (or first) one, out of the network."""
        item = self.matrices.pop(pair)
        if (pair[1] == label) != last:
            item.turn()
        return item.tree()

    def _sum_matrix(self, pair: Pair) -> None:
        """`Σ_ij A_ij B_ij`: a norm, a trace or a sum."""
        item = self.matrices.pop(pair)
        if len(item.tops) == 2 and not item.bottoms:
            a, b = item.tops
            if a == b:
                self.put([power(call("norm2", [min(a, transposed(a), key=transposes)]), 2)], ())
                return
            if (transposes(a) > 0) != (transposes(b) > 0):
                self.put([trace([a, transposed(b)] if transposes(b) else [transposed(a), b])], ())
                return
        flat = min([item.tree(), transposed(item.tree())], key=transposes)
        self.put([call("sum", [flat])], ())

    def _ring(self, start: int, summed: Sequence[int]) -> list[int] | None:
        """The labels around a ring of three or more matrices, if that is where a label is."""
        ring, at, before = [start], start, None
        while True:
            pairs = self._pairs(at)
            if at not in summed or len(pairs) != 2:
                return None
            onward = [pair for pair in pairs if pair != before]
            before = onward[0]
            [at] = set(before) - {at}
            if at == start:
                return ring if len(ring) > 2 else None
            ring.append(at)

    def _trace(self, ring: list[int]) -> None:
        """`tr(A*diag(v)*B*...)`, in the direction with few transposes, starting at the first name."""
        chain: list[Tree] = []
        for label, following in zip(ring, [*ring[1:], ring[0]], strict=True):
            pair = (label, following) if (label, following) in self.matrices else (following, label)
            vector = self.vectors.pop(label, None)
            chain += [call("diag", [vector.tree()], 2)] if vector is not None else []
            chain.append(self._take(pair, following, last=True))
        self.put([trace(chain)], ())

    def _times_matrix(self, label: int) -> None:
        """`Σ_k M_ik v_k N_kj`: a product of matrices, with a diagonal one between them."""
        first, second = self._pairs(label)
        [a], [b] = set(first) - {label}, set(second) - {label}
        left, right = self._take(first, label, last=True), self._take(second, label, last=False)
        vector = self.vectors.pop(label, None)
        middle = [call("diag", [vector.tree()], 2)] if vector is not None else []
        self.put([product([left, *middle, right])], (a, b))

    # Index maps

    def _slice(self) -> None:
        """`Σ_k x_k [k = c + s·i]` is a slice of x; every other index map is a matrix or a tensor."""
        pending, self.maps = self.maps, []
        for position, (chosen, labels) in enumerate(pending):
            self.maps = pending[position + 1 :]
            if not self._slice_one(chosen, labels):
                self.put([map_tree(chosen)], labels)
        self.maps = []

    def _slice_one(self, chosen: IndexMap, labels: Labels) -> bool:
        target, inputs = labels[0], labels[1:]
        entry, pairs = entry_text(chosen), self._pairs(target)
        if not inputs and target not in self.output and self._can_fix(target):
            return self._fix(target, entry)
        if is_reshape(chosen) or target in inputs or not self._can_slice(target, pairs):
            return False
        vector = self.vectors.pop(target, None)
        if not pairs:
            assert vector is not None
            self.put([index_tree(vector.tree(), 0, entry, len(inputs))], inputs)
            return True
        [other] = set(pairs[0]) - {target}
        flat = self._take(pairs[0], target, last=False)
        if vector is not None:
            flat = product([call("diag", [vector.tree()], 2), flat])
        self.put([index_tree(flat, 0, entry, len(inputs))], (*inputs, other))
        return True

    def _can_fix(self, target: int) -> bool:
        """Whether all that has a label is a vector or a matrix, and none is a sum."""
        others = {label for _, labels in [*self.maps, *self.tensors] for label in labels}
        items = [self.matrices[pair] for pair in self._pairs(target)]
        items += [self.vectors[target]] if target in self.vectors else []
        trees = [tree for item in items for tree in item.tops + item.bottoms]
        return bool(items) and target not in others and not any(map(_is_sum, trees))

    def _fix(self, target: int, entry: str) -> bool:
        """One index: everything that has the label is taken there."""
        if (vector := self.vectors.pop(target, None)) is not None:
            self.put([index_tree(vector.tree(), 0, entry, 0)], ())
        for pair in self._pairs(target):
            [other] = set(pair) - {target}
            self.put([index_tree(self._take(pair, target, last=False), 0, entry, 0)], (other,))
        return True

    def _can_slice(self, target: int, pairs: list[Pair]) -> bool:
        """Whether a label is only in a vector or a matrix, neither of which is a sum.

        A slice of a sum is the sum of the slices, which would be another expression.
        """
        others = [*self.maps, *self.tensors]
        if target in self.output or any(target in labels for _, labels in others) or len(pairs) > 1:
            return False
        if not pairs and target not in self.vectors:
            return False
        item = self.matrices[pairs[0]] if pairs else self.vectors[target]
        return not any(map(_is_sum, item.tops))

    # The result

    def _assemble(self) -> Tree | None:
        """The factors that are left, over the labels of the output."""
        items: list[tuple[Tree, Labels]] = [(item.tree(), (label,)) for label, item in self.vectors.items()]
        items += [(item.tree(), pair) for pair, item in self.matrices.items()]
        if not items and not self.tensors and not self.output:
            return None
        left = {label for _, labels in [*items, *self.tensors] for label in labels}
        if not self.tensors and left <= set(self.output) and len(self.output) <= 2:
            return self._small()
        return self._einsum(items + self.tensors)

    def _small(self) -> Tree:
        """A result of order one or two."""
        if len(set(self.output)) == 1:
            label = self.output[0]
            item = self.vectors.get(label)
            if item is None:
                return filled_tree(1, self.output, self.sizes)
            return item.tree() if len(self.output) == 1 else call("diag", [item.tree()], 2)
        row, column = self.output
        left, right = self.vectors.get(row), self.vectors.get(column)
        if not self.matrices:
            if left is None and right is None:
                return filled_tree(1, self.output, self.sizes)
            return product([self._or_ones(left, row), transposed(self._or_ones(right, column))])
        [pair] = self.matrices
        chain = [self._take(pair, column, last=True)]
        chain = chain if left is None else [call("diag", [left.tree()], 2), *chain]
        return product(chain if right is None else [*chain, call("diag", [right.tree()], 2)])

    def _or_ones(self, item: Item | None, label: int) -> Tree:
        return filled_tree(1, (label,), self.sizes) if item is None else item.tree()

    def _einsum(self, items: list[tuple[Tree, Labels]]) -> Tree:
        """What has no matrix form; a product entry by entry, a transpose and a sum over one axis need no einsum."""
        if not items:
            return filled_tree(1, self.output, self.sizes)
        distinct = len(set(self.output)) == len(self.output)
        if distinct and all(labels == self.output for _, labels in items):
            return elementwise([tree for tree, _ in items])
        alone = self._turned_or_summed(*items[0]) if len(items) == 1 and distinct else None
        return contraction_tree(items, self.output, self.sizes) if alone is None else alone

    def _turned_or_summed(self, tree: Tree, labels: Labels) -> Tree | None:
        """A single tensor with its axes in another order, or summed over one axis or all."""
        kept = tuple(label for label in labels if label in self.output)
        if len(set(labels)) == len(labels) == len(kept) == len(self.output):
            return contraction_tree([(tree, labels)], self.output, self.sizes)
        if len(kept) == len(labels) - 1 and kept == self.output:
            gone = next(axis for axis, label in enumerate(labels) if label not in self.output)
            return call("sum", [tree, literal(gone)], tree.order - 1)
        return call("sum", [tree]) if not self.output and len(set(labels)) == len(labels) else None


def _powers(scalars: Sequence[Tree]) -> list[Tree]:
    """Equal scalars as powers: `tanh(a)^2`."""
    return [power(tree, count) for tree, count in Counter(scalars).items()]


def _diagonal(tree: Tree) -> Tree:
    if tree.kind == "indexing" and (inner := tree.parts[0]).kind == "indexing" and inner.order == tree.order == 2:
        [(first, _), (_, second)] = sorted([tree.data, inner.data], key=lambda entries: entries[0] == ":")
        if _is_list(first) and _is_list(second) and {inner.data.count(":"), tree.data.count(":")} == {1}:
            return Tree("indexing", inner.parts, (first, second), 1)  # A[rows, cols], as in NumPy
    return call("diag", [tree.parts[0] if tree.kind == "transposed" else tree], 1)


def _summed_vector(item: Item) -> Tree:
    """The sum of the entries of a vector: an inner product of two, a norm, a trace, or `sum`."""
    if len(item.tops) == 2 and not item.bottoms and item.tops[0] == item.tops[1]:
        [x, _] = item.tops
        return product([transposed(x), x]) if x.kind == "name" else power(call("norm2", [x]), 2)
    chains = [tree for tree in item.tops if tree.kind == "product"]
    if not item.bottoms and len(item.tops) > 1 and (chains or len(item.tops) == 2):
        last = chains[-1] if chains else item.tops[1]
        rest = list(item.tops)
        rest.remove(last)
        return _inner(elementwise(rest), last)
    flat = item.tree()
    if flat.kind == "call" and flat.data == "diag":
        return call("tr", flat.parts)
    return call("sum", [flat])


def _inner(a: Tree, b: Tree) -> Tree:
    """`a'*b` or `b'*a`, whichever shows fewer transposes."""
    return min([product([transposed(a), b]), product([transposed(b), a])], key=lambda t: (transposes(t), len(t.parts)))


def index_tree(tree: Tree, axis: int, entry: str, kept: int) -> Tree:
    """`tree[..., entry, ...]` along one axis; a transpose stays outside."""
    flipped = tree.kind == "transposed" or (tree.kind == "ref" and tree.order == 2 and tree.data.flipped)
    if flipped and kept < 2:
        inner = index_tree(transposed(tree), 1 - axis, entry, kept)
        return transposed(inner) if kept == 1 else inner
    entries = [":"] * tree.order
    lists = sum(_is_list(known) for known in (*tree.data, entry)) if tree.kind == "indexing" else 0
    if tree.kind == "indexing" and tree.data[axis] == ":" and tree.order == len(tree.data) and lists < 2:
        entries, tree = list(tree.data), tree.parts[0]
    entries[axis] = entry
    return Tree("indexing", (tree,), tuple(entries), tree.order - 1 + kept)


def _is_list(entry: str) -> bool:
    """Whether an entry of an index is a list, or the name of indices: two of these go together in NumPy."""
    return ":" not in entry and not entry.lstrip("-").isdigit()


def _is_sum(tree: Tree) -> bool:
    return tree.kind == "ref" and isinstance(tree.data.node, Add)
