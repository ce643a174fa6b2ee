"""Index notation: `[i,j] sum[k] X[k,i]*v[k]*X[k,j]`, every tensor by its entries.

The tree of a node has labels: 0, 1, ... for its axes and fresh numbers for what it sums over. Where a node is written
out, its labels become those of the place; letters are given at the very end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import parts, power_parts
from eindiff.core.index_relations import Given, IndexMap
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Number, Variable, number
from eindiff.core.sizes import Size
from eindiff.text.write.constants import constant_tree
from eindiff.text.write.document import Document
from eindiff.text.write.notation_einsum import EinsumNotation, left_out, stack_labels, word
from eindiff.text.write.tree import (
    Tree,
    call,
    fraction,
    literal,
    name,
    power,
    product,
    quotient,
    rebuild,
    split_number,
    walk,
)

_LETTERS = "ijklpqrstuvabcdefghmnowxyz"


@dataclass(frozen=True, slots=True)
class Affine:
    """An index `offset + stride*label + ...`, or where there is a `table` the entry of it at the labels."""

    offset: Size
    terms: tuple[tuple[Size, Any], ...]
    table: str = ""

    @staticmethod
    def of(chosen: IndexMap, labels: Sequence[Any]) -> Affine:
        """The index that a map chooses for its inputs."""
        strides = chosen.strides if chosen.indices is None else (1,) * len(labels)
        return Affine(chosen.offset, tuple(zip(strides, labels, strict=True)), _table(chosen))


@dataclass(frozen=True, slots=True)
class EntryReference:
    """A reference to the entries of a node at some labels, which make no difference to what has to be written."""

    node: Expr
    sign: int = 1
    labels: tuple = field(default=(), compare=False)
    flipped: bool = False


class IndexNotation(EinsumNotation):
    """Builds the trees of nodes by their entries. All trees are scalars here."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr)
        self.sizes: dict[int, Size] = {}
        self._fresh = count(1000)

    def _label(self, size: Size) -> int:
        label = next(self._fresh)
        self.sizes[label] = size
        return label

    # What `document.document` asks

    def reference(self, node: Expr, *_: Any) -> Tree:
        return self.entry(node, tuple(range(node.ndim)))

    def entry(self, node: Expr, labels: Sequence[Any], sign: int = 1) -> Tree:
        """A node at some labels."""
        if isinstance(node, Variable):
            return _at(name(node.name), labels)
        if construct.is_number(node):
            return literal(node.coefficient)
        return Tree("ref", (), EntryReference(node, sign, tuple(labels)))

    def tree(self, key: Any) -> Tree:
        node, axes = key.node, tuple(range(key.node.ndim))
        match node:
            case Add():
                return self.sum_tree(node, False, key.sign)
            case Map():
                made = self._map(node, axes)
            case Apply():
                made = _at(self._apply(node), axes)
            case Constant(value=IndexMap() as chosen):
                made = Tree("delta", (), (axes[0], Affine.of(chosen, axes[1:])))
            case Constant():
                made = _at(constant_tree(node), axes) if node.ndim else constant_tree(node)
            case _:
                assert isinstance(node, Einsum)
                return self._einsum(node, key.sign)
        return made if key.sign == 1 else product([literal(-1), made])

    def inlined(self, key: Any, tree: Tree) -> Tree:
        in_place = key.labels == tuple(range(len(key.labels)))
        return tree if in_place else relabelled(tree, dict(enumerate(key.labels)))

    def named(self, key: Any, definition: Any, name_: str) -> Tree:
        made = _at(Tree("given", (), name_), key.labels)
        return made if key.sign == definition.sign else product([literal(-1), made])

    # Nodes

    def _transposes(self, tree: Tree) -> int:
        """How many indices are out of order, one reference deep."""
        _, rest = split_number(tree)
        if rest is not None and rest.kind == "ref" and isinstance(rest.data.node, Einsum):
            tree = self.tree(rest.data)
        plain = [[x for x in part.data if isinstance(x, int)] for part in walk(tree) if part.kind == "entry"]
        return sum(a > b for labels in plain for a, b in pairwise(labels))

    def scaled_tree(self, node: Expr, flipped: bool = False, broadcast: bool = False) -> Tree:
        """A term of a sum: the number in front and a reference to the rest."""
        return self._scaled(node, tuple(range(node.ndim)))

    def _scaled(self, node: Expr, labels: Sequence[Any]) -> Tree:
        coefficient, factors, output, sizes = parts(node)
        if coefficient == 1 or not factors:
            return self.entry(node, labels) if factors or len(set(output)) < len(output) else literal(coefficient)
        bare = construct.einsum(1, factors, output, sizes)
        sign = -1 if self.takes_sign(coefficient, bare) else 1
        return product([literal(number(sign * coefficient)), self.entry(bare, labels, sign)])

    def _map(self, node: Map, axes: Sequence[Any]) -> Tree:
        base, exponent = power_parts(node)
        if exponent != 1:
            tops, bottoms = self._power(self._scaled(base, axes), exponent)
            return fraction(tops, bottoms)
        args = [self._scaled(arg, axes) for arg in node.args]
        if node.function.name == "power":
            return Tree("power", tuple(args))
        return call(word(node), args)

    @staticmethod
    def _power(base: Tree, exponent: Number) -> tuple[list[Tree], list[Tree]]:
        size = exponent if exponent > 0 else -exponent
        made = call("sqrt", [base]) if size == 0.5 else power(base, size)
        return ([made], []) if exponent > 0 else ([], [made])

    def _apply(self, node: Apply) -> Tree:
        """`f(arguments)`, an argument by its name or as `[i,j] entries`."""
        args = [self._tensor(arg) for arg in node.args]
        if len(args) > 1:
            args = [self._stacked(node, k) or arg for k, arg in enumerate(args)]
        return call(word(node), [*args, *left_out(node)])

    def _stacked(self, node: Apply, k: int) -> Tree | None:
        """An argument that is to be the same along some axes of a stack; None if it is a stack like the others."""
        own, wanted = stack_labels(node, k)
        if own == wanted:
            return None
        sizes = dict(enumerate(node.shape)) | dict(zip(own, node.args[k].shape, strict=True))
        return self._tensor(construct.einsum(1, [(node.args[k], own)], wanted, sizes))

    def _tensor(self, node: Expr) -> Tree:
        if isinstance(node, Variable):
            return name(node.name)
        labels = tuple(self._label(size) for size in node.shape)
        return Tree("tensor", (self._scaled(node, labels),), labels) if labels else self._scaled(node, ())

    def _einsum(self, node: Einsum, sign: int) -> Tree:
        """Deltas for repeated labels, a sum over the contracted ones, and the factors."""
        places: dict[int, Any] = {}
        deltas = []
        for axis, label in enumerate(node.output):
            if label in places:
                deltas.append(Tree("delta", (), (places[label], axis)))
            else:
                places[label] = axis
        factors = node.factors
        factors = _substitute(node, factors)
        used = set(_labels_of(labels for _, labels in factors))
        summed = [label for label in node.contracted if label in used]
        for label in summed:
            places[label] = self._label(node.sizes[label])
        tops: list[Tree] = list(deltas)
        bottoms: list[Tree] = []
        coefficient, variants = self.distribute_sign(number(sign * node.coefficient), factors)
        counted: Counter[tuple] = Counter()
        for (operand, labels), variant in zip(factors, variants, strict=True):
            counted[operand, _placed(labels, places), variant] += 1
        ordered = sorted(counted, key=lambda factor: (len(factor[1]) > 0, *self.before(factor[0])))
        for operand, labels, variant in ordered:
            if isinstance(operand, Constant) and isinstance(operand.value, IndexMap):
                tops.append(Tree("delta", (), (labels[0], Affine.of(operand.value, labels[1:]))))
                continue
            base, exponent = power_parts(operand)
            times = number(exponent * counted[operand, labels, variant])
            above, below = self._power(self.entry(base, labels, variant), times)
            tops, bottoms = tops + above, bottoms + below
        made = product(tops)
        made = quotient(made, product(bottoms), False) if bottoms else made
        made = Tree("bigsum", (made,), tuple(places[label] for label in summed)) if summed else made
        return product([literal(coefficient), made])


def _at(tree: Tree, labels: Sequence[Any]) -> Tree:
    return Tree("entry", (tree,), tuple(labels)) if labels else tree


def _placed(labels: Sequence[Any], places: Mapping[int, Any]) -> tuple:
    return tuple(_affine(label, places) if isinstance(label, Affine) else places[label] for label in labels)


def _labels_of(groups: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """The labels in indices, those that an index is computed from included."""
    for group in groups:
        for index in group:
            yield from (label for _, label in index.terms) if isinstance(index, Affine) else (index,)


def _affine(index: Affine, places: Mapping[int, Any]) -> Affine:
    terms = tuple((stride, places.get(label, label)) for stride, label in index.terms)
    return Affine(index.offset, terms, index.table)


def _table(chosen: IndexMap) -> str:
    """The list of places of a map that has one."""
    if chosen.indices is None:
        return ""
    return str(chosen.indices.expr if isinstance(chosen.indices, Given) else chosen.index_array({}).tolist())


def _substitute(node: Einsum, factors: list) -> list:
    """`Σ_k x_k [k = c + s·i]` is `x[c + s*i]`, where only x has k."""
    for factor in list(factors):
        chosen, labels = factor
        if not (isinstance(chosen, Constant) and isinstance(chosen.value, IndexMap)):
            continue
        target = labels[0]
        users = [other for other in factors if other is not factor and target in other[1]]
        if target in node.output or len(users) != 1 or users[0][1].count(target) != 1 or target in labels[1:]:
            continue
        if not isinstance(users[0][0], Variable | Apply):
            continue
        index = Affine.of(chosen.value, labels[1:])
        turned = tuple(index if label == target else label for label in users[0][1])
        factors[factors.index(users[0])] = (users[0][0], turned)
        factors.remove(factor)
    return factors


def relabelled(tree: Tree, places: Mapping[int, Any]) -> Tree:
    """A tree with other labels for its axes."""
    children = tuple(relabelled(part, places) for part in tree.parts)
    data = tree.data
    match tree.kind:
        case "entry" | "delta" | "bigsum" | "tensor":
            data = tuple(_affine(x, places) if isinstance(x, Affine) else places.get(x, x) for x in data)
        case "ref":
            data = EntryReference(data.node, data.sign, tuple(places.get(x, x) for x in data.labels))
    if tree.kind == "delta" and data[0] == data[1]:
        return literal(1)
    return rebuild(Tree(tree.kind, children, data, tree.order), children)


# Letters


def lettered(tree: Tree, letters: Mapping[Any, str], sizes: Mapping[Any, Size], avoid: frozenset[str]) -> Tree:
    """A tree with letters for labels: those of the place, and for sums the first that are free there.

    A label whose size no entry shows is written with it, `i:n`.
    """
    if tree.kind in ("bigsum", "tensor"):
        inner = dict(letters) if tree.kind == "bigsum" else {}
        for label in tree.data:
            inner[label] = _free(set(inner.values()) | avoid)
        head = heading(tree.parts[0], tree.data, inner, sizes)
        return Tree(tree.kind, (lettered(tree.parts[0], inner, sizes, avoid),), head)
    children = tuple(lettered(part, letters, sizes, avoid) for part in tree.parts)
    data = tree.data
    if tree.kind in ("entry", "delta"):
        data = tuple(_affine_text(x, letters) if isinstance(x, Affine) else letters[x] for x in data)
    return Tree(tree.kind, children, data, tree.order)


def heading(tree: Tree, labels: Sequence[Any], letters: Mapping[Any, str], sizes: Mapping[Any, Size]) -> tuple:
    """(letter, size or None) for each label; the size where no entry shows it, or an index is computed from it."""
    shown: set[Any] = set()
    hidden: set[Any] = set()
    for part in walk(tree):
        if part.kind == "entry":
            shown.update(x for x in part.data if not isinstance(x, Affine))
            hidden.update(label for x in part.data if isinstance(x, Affine) for _, label in x.terms)
        elif part.kind == "delta":
            hidden.update(_labels_of([part.data]))
    return tuple((letters[x], None if x in shown and x not in hidden else sizes[x]) for x in labels)


def _free(taken: set[str]) -> str:
    return next(letter for letter in _endless() if letter not in taken)


def _endless() -> Iterator[str]:
    yield from _LETTERS
    yield from (f"{letter}{k}" for k in count(1) for letter in _LETTERS)


def _affine_text(index: Affine, letters: Mapping[Any, str]) -> str:
    """`2*i + 1`, or `[0, 2, 1][i]`."""
    if index.table:
        inner = ",".join(letters[label] for _, label in index.terms)
        return f"{index.table}[{inner}]" if inner else index.table
    text = "".join(_multiple(stride, letters[label]) for stride, label in index.terms)
    text = text[3:] if text.startswith(" + ") else "-" + text[3:] if text else ""
    if index.offset == 0 and text:
        return text
    if not text:
        return str(index.offset)
    offset = str(index.offset)
    if text.startswith("-"):
        return f"{offset} - {text[1:]}"
    return f"{text} - {offset[1:]}" if offset.startswith("-") else f"{text} + {offset}"


def _multiple(stride: Size, letter: str) -> str:
    negative = isinstance(stride, int) and stride < 0
    size = -stride if negative else stride  # type: ignore[operator]
    factor = "" if size == 1 else f"({size})*" if " " in str(size) else f"{size}*"
    return (" - " if negative else " + ") + factor + letter


def with_letters(made: Document, notation: IndexNotation, expr: Expr) -> list[tuple[str, tuple, Tree]]:
    """The definitions and, without a name, the expression: name, heading and tree each."""
    avoid = frozenset(_size_names(made))
    result = []
    for name_, node, tree in [*((n, key.node, tree) for n, key, tree in made.definitions), ("", expr, made.body)]:
        letters: dict[Any, str] = {}
        for axis in range(node.ndim):
            letters[axis] = _free(set(letters.values()) | avoid)
        sizes = notation.sizes | dict(enumerate(node.shape))
        head = heading(tree, range(node.ndim), letters, sizes)
        result.append((name_, head, lettered(tree, letters, sizes, avoid)))
    return result


def _size_names(made: Document) -> Iterator[str]:
    """The names of sizes and of indices that indices are computed from: labels must not look like them."""
    for tree in (*(tree for _, _, tree in made.definitions), made.body):
        for part in walk(tree):
            for index in part.data if part.kind in ("entry", "delta") else ():
                if isinstance(index, Affine):
                    yield from re.findall(r"[^\W\d]\w*", index.table)
                    for size in (index.offset, *(stride for stride, _ in index.terms)):
                        yield from sz.names(size)
