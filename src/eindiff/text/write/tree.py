"""What a notation writes, before it is text: small trees that every style (plain, Unicode, LaTeX) renders.

A notation turns each node of an expression into one tree whose leaves may be references to other nodes;
`document.py` decides which of these get a name. The functions here build trees and keep them tidy: products are
flat, numbers stand in front, and a transpose goes inward as far as it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any

from eindiff.core.nodes import Number, number
from eindiff.functions.elementwise import TABLE

_LONGEST_RUN = 2  # of a matrix that is multiplied by itself


@dataclass(frozen=True, slots=True)
class Tree:
    """A piece of notation: `kind` says which, `order` is the order of the tensor (a row vector counts 1).

    Kinds: name, given (a name of ours), number, ref, call, product, elementwise, quotient, power, sum, transposed,
    einsum, indexing, array, constant, and for index notation entry, bigsum, tensor and delta.
    """

    kind: str
    parts: tuple[Tree, ...] = ()
    data: Any = None
    order: int = 0
    symmetric: bool = False


def name(text: str, order: int = 0, symmetric: bool = False) -> Tree:
    """A name as it stands."""
    return Tree("name", (), text, order, symmetric)


def literal(value: Number) -> Tree:
    """A number."""
    return Tree("number", (), number(value))


def call(function: str, args: Sequence[Tree], order: int = 0) -> Tree:
    """`function(args)`."""
    return Tree("call", tuple(args), function, order)


def split_number(tree: Tree) -> tuple[Number, Tree | None]:
    """The number in front of a tree and the rest of it, None if there is no rest."""
    if tree.kind == "number":
        return tree.data, None
    if tree.kind == "product" and tree.parts[0].kind == "number":
        rest = tree.parts[1:]
        return tree.parts[0].data, rest[0] if len(rest) == 1 else Tree("product", rest, None, tree.order)
    if tree.kind == "quotient":
        value, top = split_number(tree.parts[0])
        below, bottom = split_number(tree.parts[1])
        if value == below == 1 or bottom is None or isinstance(value, float) or isinstance(below, float):
            return 1, tree
        made = quotient(literal(1) if top is None else top, bottom, tree.data)
        return number(Fraction(value) / Fraction(below)), made
    return 1, tree


def product(factors: Sequence[Tree]) -> Tree:
    """Numbers, scalars and a chain of matrices and vectors, multiplied. Scalars that are products stay apart."""
    value: Number = 1
    flat: list[Tree] = []
    for factor in factors:
        own, rest = split_number(factor)
        value = number(value * own)
        if rest is not None:
            alone = rest.order > 0 or len(factors) - sum(f.kind == "number" for f in factors) == 1
            flat += rest.parts if rest.kind == "product" and alone else [rest]
    if not flat:
        return literal(value)
    if value != 1:
        if flat[0].kind == "quotient" and len(flat) == 1 and flat[0].parts[0] == literal(1):
            above, below = (value, 1) if isinstance(value, float) else (value.numerator, value.denominator)
            return quotient(literal(above), product([literal(below), flat[0].parts[1]]), flat[0].data)
        flat = [literal(value), *flat]
    return flat[0] if len(flat) == 1 else Tree("product", tuple(flat), None, _chain_order(flat))


def _chain_order(factors: Sequence[Tree]) -> int:
    """The order of a chain: each vector or row at an end, or a pair of them that meet, takes an axis away."""
    axes, open_row = 0, False
    for factor in (f for f in factors if f.order):
        row = is_row(factor)
        if not axes:
            axes, open_row = factor.order, row
            continue
        if factor.order == 2:
            continue
        if row:  # column times row; matrix times row does not occur
            axes, open_row = 2, False
        else:
            axes = 0 if axes == 1 and open_row else 1
    return axes


def is_row(tree: Tree) -> bool:
    """Whether a tree of order 1 stands for a row."""
    if tree.order != 1:
        return False
    if tree.kind == "transposed":
        return True
    vectors = [part for part in tree.parts if part.order]
    return tree.kind == "product" and is_row(vectors[0])


def elementwise(factors: Sequence[Tree]) -> Tree:
    """A product entry by entry; for scalars it is the product. Equal factors make a power."""
    counted: dict[Tree, int] = {}
    value: Number = 1
    for factor in factors:
        own, rest = split_number(factor)
        value = number(value * own)
        if rest is not None:
            counted[rest] = counted.get(rest, 0) + 1
    powers = [power(tree, count) for tree, count in counted.items()]
    if not powers:
        return literal(value)
    if powers[0].order == 0:
        return product([literal(value), *powers])
    flat = [part for tree in powers for part in (tree.parts if tree.kind == "elementwise" else (tree,))]
    joint = flat[0] if len(flat) == 1 else Tree("elementwise", tuple(flat), None, flat[0].order)
    return product([literal(value), joint]) if value != 1 else joint


def power(base: Tree, exponent: Number) -> Tree:
    """A power with a known exponent, entry by entry."""
    if exponent == 1:
        return base
    if base.kind == "power" and isinstance(base.data, int) and isinstance(exponent, int):
        return Tree("power", base.parts, number(base.data * exponent), base.order)
    return Tree("power", (base,), exponent, base.order)


def with_powers(factors: Sequence[Tree]) -> list[Tree]:
    """The factors of a chain with runs of one matrix as its powers: A*A*A*x is A^3*x."""
    found: list[Tree] = []
    for factor, run in groupby(factors):
        count = len(list(run))
        if count <= _LONGEST_RUN or factor.order != 2:
            found += [factor] * count
        elif factor.kind == "transposed":
            found.append(Tree("transposed", (_matrix_power(factor.parts[0], count),)))
        else:
            found.append(_matrix_power(factor, count))
    return found


def _matrix_power(matrix: Tree, exponent: int) -> Tree:
    is_inverse = matrix.kind == "call" and matrix.data == "inv"
    return Tree("power", matrix.parts, -exponent) if is_inverse else Tree("power", (matrix,), exponent)


def quotient(top: Tree, bottom: Tree, by_entry: bool) -> Tree:
    """`top / bottom`, entry by entry or by a scalar."""
    return Tree("quotient", (top, bottom), by_entry, max(top.order, bottom.order))


def fraction(tops: Sequence[Tree], bottoms: Sequence[Tree]) -> Tree:
    """The product of `tops` over that of `bottoms`, entry by entry."""
    top = elementwise(tops) if tops else literal(1)
    if not bottoms:
        return top
    bottom = elementwise(bottoms)
    return quotient(top, bottom, bottom.order > 0)


def total(terms: Sequence[Tree]) -> Tree:
    """A sum; the signs of the terms become its plus and minus signs."""
    signed = []
    for term in terms:
        value, rest = split_number(term)
        sign = -1 if value < 0 else 1
        size = literal(number(sign * value))
        signed.append((sign, size if rest is None else product([size, rest])))
    if len(signed) == 1:
        return terms[0]
    order = max(term.order for term in terms)
    return Tree("sum", tuple(term for _, term in signed), tuple(sign for sign, _ in signed), order)


SYMMETRIC_CALLS = ("diag", "eye")
LINEAR_CALLS = ("diag", "sum", "tr")


def transposed(tree: Tree) -> Tree:
    """The transpose, as far inside as it goes: `(A*B)'` is `B'*A'`."""
    if tree.order == 0 or _is_symmetric(tree):
        return tree
    match tree.kind:
        case "transposed":
            return tree.parts[0]
        case "ref" if tree.order == 2:
            return Tree("ref", (), tree.data.turned(), 2)
        case "product":
            scalars = [part for part in tree.parts if part.order == 0]
            return product([*scalars, *(transposed(p) for p in reversed(tree.parts) if p.order)])
        case "quotient" if tree.order == 2 or not tree.data:
            return quotient(transposed(tree.parts[0]), transposed(tree.parts[1]), tree.data)
    if tree.order == 2 and _is_by_entry(tree):
        return Tree(tree.kind, tuple(transposed(part) for part in tree.parts), tree.data, 2)
    return Tree("transposed", (tree,), None, tree.order)


def _is_symmetric(tree: Tree) -> bool:
    return tree.symmetric or (tree.kind == "call" and tree.data in SYMMETRIC_CALLS and tree.order == 2)


def _is_by_entry(tree: Tree) -> bool:
    """Whether the transpose of a tree is that of its parts."""
    return tree.kind in ("elementwise", "sum", "power") or (tree.kind == "call" and is_elementwise(tree.data))


def is_elementwise(function: str) -> bool:
    """Whether a function works entry by entry."""
    return function == "sqrt" or (function in TABLE and not TABLE[function].core)


def rebuild(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """A tree with other parts, made tidy again."""
    match tree.kind:
        case "product":
            return product(parts)
        case "elementwise":
            return elementwise(parts)
        case "power" if tree.data is not None:
            return power(parts[0], tree.data)
        case "quotient":
            value, top = split_number(parts[0])
            joined = quotient(literal(1) if top is None else top, parts[1], tree.data)
            return product([literal(value), joined])
        case "sum":
            return total([product([literal(s), part]) for s, part in zip(tree.data, parts, strict=True)])
        case "transposed":
            return transposed(parts[0])
        case "bigsum" | "einsum":
            return _linear(tree, parts)
        case "call" if tree.data in LINEAR_CALLS:
            return _linear(_well_turned(tree, parts), None)
        case "call" if tree.data in ("norm2", "logsumexp", "max"):
            return _well_turned(tree, parts)
    return Tree(tree.kind, tuple(parts), tree.data, tree.order, tree.symmetric)


def _linear(tree: Tree, parts: Sequence[Tree] | None) -> Tree:
    """A tree that is linear in its parts, the numbers of the parts in front of it."""
    value: Number = 1
    bare: list[Tree] = []
    for part in tree.parts if parts is None else parts:
        own, rest = (1, part) if part.kind == "number" else split_number(part)
        value = number(value * own)
        bare.append(literal(1) if rest is None else rest)
    made = Tree(tree.kind, tuple(bare), tree.data, tree.order, tree.symmetric)
    return made if value == 1 else product([literal(value), made])


def _well_turned(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """`f(A')` as `f(A)` where the function does not mind, or its axis can change; traces as they read best."""
    arg, *rest = parts
    made = Tree(tree.kind, tuple(parts), tree.data, tree.order, tree.symmetric)
    if tree.data == "tr":
        return trace(list(arg.parts)) if arg.kind == "product" else made
    turned = transposed(arg)
    if arg.order != 2 or tree.order > 1 or tree.data == "diag" or transposes(turned) >= transposes(arg):
        return made
    if rest and (len(rest) > 1 or rest[0].kind != "number"):
        return made
    return Tree("call", (turned, *(literal(1 - axis.data) for axis in rest)), tree.data, tree.order)


def trace(chain: list[Tree]) -> Tree:
    """A trace, read in the direction and from the place that show few transposes and begin with the first name."""
    flat = product(chain)
    scalars = [part for part in flat.parts if part.order == 0]
    ring = [part for part in flat.parts if part.order] if flat.kind == "product" else [flat]
    mirrored = [transposed(tree) for tree in reversed(ring)]
    turns = [way[k:] + way[:k] for way in (ring, mirrored) for k in range(len(ring))]

    def rank(way: Sequence[Tree]) -> tuple:
        names = "".join(str(tree.data) if tree.kind == "name" else "~" for tree in way)
        return sum(map(transposes, way)), transposes(way[0]), names

    return product([*scalars, call("tr", [product(min(turns, key=rank))])])


def replace(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """A tree with its references replaced."""
    if tree.kind == "ref":
        return change(tree)
    if not tree.parts:
        return tree
    parts = [replace(part, change) for part in tree.parts]
    return tree if all(a is b for a, b in zip(parts, tree.parts, strict=True)) else rebuild(tree, parts)


def walk(tree: Tree) -> Iterator[Tree]:
    """All the parts of a tree, itself included."""
    stack = [tree]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.parts))


def transposes(tree: Tree) -> int:
    """How many transposes a tree shows: what a reader wants few of."""
    return sum(t.kind == "transposed" or (t.kind == "ref" and t.data.flipped) for t in walk(tree))


def number_text(value: Number) -> str:
    """A number as text that reads back as the same number."""
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else repr(value)
