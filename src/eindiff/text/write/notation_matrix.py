"""Matrix notation: `X'*diag(v)*X`, vectors are columns. Everything that has no matrix form is an `einsum` term."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as product_of

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.construct import parts, power_parts
from eindiff.core.index_relations import IndexMap, SizeOf
from eindiff.core.labels import Labels
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import Add, Constant, Einsum, Expr, Map, Number, is_index_map, number
from eindiff.core.sizes import Size
from eindiff.functions.indexing import concatenate, kron, reshape
from eindiff.functions.reductions import norm1
from eindiff.text.write.constants import number_of_size, size_tree
from eindiff.text.write.notation_einsum import EinsumNotation, Factor, filled_tree
from eindiff.text.write.notation_network import FactorNetwork
from eindiff.text.write.tree import Tree, call, literal, product, total


class MatrixNotation(EinsumNotation):
    """Products and contractions as matrix algebra; the rest as in einsum notation."""

    # Products and contractions

    def einsum_tree(self, node: Einsum, flipped: bool, sign: int) -> Tree:
        """A product or a contraction as matrix algebra, with the sign where it reads best."""
        output = node.output[::-1] if flipped else node.output
        sizes = dict(enumerate(node.sizes))
        coefficient = number(sign * node.coefficient)
        if not node.operands:
            return filled_tree(coefficient, output, sizes)
        if not flipped and (known := self._known_form(node)) is not None:
            return product([literal(coefficient), known])
        if (turned := self._turned_sum(node, sign)) is not None:
            return turned
        value, network = self.network(node, output, sign)
        return product([literal(value), network.tree()])

    def network(self, node: Einsum, output: Labels, sign: int) -> tuple[Number, FactorNetwork]:
        """The factors of a product or a contraction, and the number in front."""
        sizes = dict(enumerate(node.sizes))
        coefficient = number(sign * node.coefficient)
        factors = sorted(flattened(node, sizes), key=lambda factor: (*self.before(factor[0]), factor[1]))
        network = FactorNetwork(output, sizes)
        value, variants = self.distribute_sign(coefficient, factors)
        for (operand, labels), variant in zip(factors, variants, strict=True):
            if isinstance(operand, Constant) and isinstance(operand.value, IndexMap):
                network.maps.append((operand.value, labels))
                continue
            base, exponent = power_parts(operand)
            if exponent == 1:
                network.put([self._factor(operand, variant)], labels)
            else:
                tops, bottoms = self.power_trees(base, exponent, False)
                network.put(tops, labels)
                network.put(bottoms, labels, below=True)
        return value, network

    def _turned_sum(self, node: Einsum, sign: int) -> Tree | None:
        """A sum of higher order with its axes in another order is the sum of its terms, each turned."""
        sums = [(k, labels) for k, labels in enumerate(node.labels) if labels]
        if not node.is_product or len(sums) != 1 or len(sums[0][1]) < 3 or sorted(sums[0][1]) != sorted(node.output):
            return None
        [(at, labels)] = sums
        inner, sizes = node.operands[at], dict(enumerate(node.sizes))
        if not isinstance(inner, Add) or labels == node.output:
            return None
        scalars = [self.reference(operand) for k, operand in enumerate(node.operands) if k != at]
        terms = [construct.einsum(1, [(term, labels)], node.output, sizes) for term in inner.terms]
        whole = total([self.scaled_tree(term) for term in terms])
        return product([literal(number(sign * node.coefficient)), *scalars, whole])

    def _factor(self, operand: Expr, sign: int) -> Tree:
        if isinstance(operand, Constant) and isinstance(operand.value, SizeOf):
            return number_of_size(operand.value.size)
        return self.reference(operand, False, sign)

    # Forms that are known by a name

    def sum_tree(self, node: Add, flipped: bool, sign: int) -> Tree:
        """A sum, or what is joined by one."""
        if (found := joined(node)) is not None:
            pieces, axis = found
            axis = node.ndim - 1 - axis if flipped else axis
            args = [self.scaled_tree(construct.scale(sign, piece), flipped) for piece in pieces]
            return call("concatenate", args if axis == 0 else [*args, size_tree(f"axis={axis}")], node.ndim)
        return super().sum_tree(node, flipped, sign)

    def _known_form(self, node: Einsum) -> Tree | None:
        """norm1, reshaping, Kronecker products: put together again from their parts, they are this node."""
        maps = [operand for operand in node.operands if is_index_map(operand)]
        rest = [operand for operand in node.operands if not is_index_map(operand)]
        if node.is_product or not rest:
            return None
        if len(rest) == 1 and not maps:
            return self._norm1(node, rest[0])
        if len(rest) > 2 or not any(operand.ndim > 2 for operand in maps):
            return None
        return self._reshaped(node, rest[0]) if len(rest) == 1 else self._kronecker(node, *rest)

    def _norm1(self, node: Einsum, operand: Expr) -> Tree | None:
        if node.ndim or not isinstance(operand, Map) or operand.function.name != "abs":
            return None
        [inner] = operand.args
        return call("norm1", [self.scaled_tree(inner)]) if norm1(inner) is node else None

    def _reshaped(self, node: Einsum, operand: Expr) -> Tree | None:
        same_count = sz.product(operand.shape) == sz.product(node.shape)
        for candidate in _orientations(operand) if same_count else ():
            if reshape(candidate, node.shape) is node:
                sizes = [size_tree(size) for size in node.shape]
                return call("reshape", [self.scaled_tree(candidate), *sizes], node.ndim)
        return None

    def _kronecker(self, node: Einsum, first: Expr, second: Expr) -> Tree | None:
        for a, b in ((first, second), (second, first)):
            for left, right in product_of(_orientations(a), _orientations(b)):
                if left.ndim == right.ndim < 3 and kron(left, right) is node:
                    return call("kron", [self.scaled_tree(left), self.scaled_tree(right)], node.ndim)
        return None


def joined(node: Add) -> tuple[list[Expr], int] | None:
    """The parts and the axis if a sum joins parts that are each put in their place along an axis."""
    found: dict[Size, tuple[Expr, int]] = {}
    for term in node.terms:
        if (placed := _placed(term)) is None:
            return None
        found[placed[0]] = placed[1:]
    pieces: list[Expr] = []
    offset: Size = 0
    axis = next(iter(found.values()))[1]
    while offset in found:
        pieces.append(found.pop(offset)[0])
        offset = sz.add(offset, pieces[-1].shape[axis])
    same = not found and len({piece.ndim for piece in pieces}) == 1
    return (pieces, axis) if same and concatenate(pieces, axis) is node else None


def _placed(term: Expr) -> tuple[Size, Expr, int] | None:
    """From where on along which axis a term is put, and what: the place, the part, the axis."""
    coefficient, factors, output, sizes = parts(term)
    placed = factors[0][0] if len(factors) == 1 else term
    maps = [o for o in placed.children if is_index_map(o)]
    if not isinstance(placed, Einsum) or len(maps) != 1 or maps[0].ndim != 2:
        return None
    at = placed.operands.index(maps[0])
    target, source = placed.labels[at]
    if target not in placed.output or source in placed.output:
        return None
    rest = [f for k, f in enumerate(placed.factors) if k != at]
    kept = tuple(source if label == target else label for label in placed.output)
    piece = construct.einsum(1, rest, kept, dict(enumerate(placed.sizes)))
    sizes.update(zip(factors[0][1], piece.shape, strict=True))
    turned = construct.einsum(coefficient, [(piece, factors[0][1])], output, sizes)
    assert isinstance(maps[0].value, IndexMap)
    return maps[0].value.offset, turned, output.index(factors[0][1][placed.output.index(target)])


def flattened(node: Einsum, sizes: dict[int, Size]) -> list[Factor]:
    """The factors of an Einsum; those of a pattern of one contraction of higher order are the contraction's own.

    So the pattern and the contraction are one `einsum`. Adds the sizes of the contraction's labels.
    """
    factors = node.factors
    higher = [k for k, (operand, _) in enumerate(factors) if operand.ndim > 2 and isinstance(operand, Einsum)]
    if not node.is_product or len(higher) != 1:
        return factors
    inner, labels = factors.pop(higher[0])
    assert isinstance(inner, Einsum)
    return factors + opened(inner, labels, fresh_in(sizes))


def _orientations(node: Expr) -> Iterator[Expr]:
    """A node, and its transpose if it is a matrix."""
    yield node
    if node.ndim == 2:
        yield node.T
