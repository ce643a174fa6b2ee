"""Einsum notation, `2*einsum("ij,jk->ik", A, B)`.

What it has in common with the other notations is here too: sums, functions, constants, signs and the order of things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from eindiff.core import construct
from eindiff.core.construct import parts, power_parts
from eindiff.core.groups import grouped
from eindiff.core.labels import LETTERS, Labels
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Number, Variable, number, topological
from eindiff.core.sizes import Size
from eindiff.functions.reductions import as_softmax
from eindiff.text.write.constants import constant_tree
from eindiff.text.write.tree import (  # fmt: skip
    Tree,
    call,
    fraction,
    literal,
    name,
    power,
    product,
    quotient,
    split_number,
    total,
    transposed,
    transposes,
)

HEAVIEST = 10**6

Factor = tuple[Expr, Labels]


@dataclass(frozen=True, slots=True)
class NodeReference:
    """A reference to a node: as it is, transposed (`flipped`), or with the other sign."""

    node: Expr
    flipped: bool = False
    sign: int = 1

    def turned(self) -> NodeReference:
        """The reference to the transpose."""
        return replace(self, flipped=not self.flipped and not is_symmetric(self.node))


def is_symmetric(node: Expr) -> bool:
    """Whether a matrix is its own transpose."""
    return node.ndim == 2 and ((1, 0), 1) in node.symmetries


class EinsumNotation:
    """Every Einsum as an `einsum(...)`; sums and functions as in mathematics."""

    def __init__(self, expr: Expr) -> None:
        self.weights: dict[Expr, int] = {}
        self.names: dict[Expr, str] = {}
        self._signs: dict[Expr, tuple[int, bool]] = {}
        self._kept: set[Expr] = set()  # what does not take up a minus sign
        nodes = topological([expr])
        self._uses = Counter(child for node in nodes for child in node.children)
        self._votes = _votes(nodes)
        for node in nodes:
            self._weigh(node)

    # What `document.document` asks

    def reference(self, node: Expr, flipped: bool = False, sign: int = 1) -> Tree:
        """A node where it is used: a variable or a number by itself, everything else as a reference."""
        if isinstance(node, Variable):
            leaf = name(node.name, node.ndim, is_symmetric(node))
            return transposed(leaf) if flipped else leaf
        if construct.is_number(node) and node.ndim == 0:
            return literal(node.coefficient)
        key = NodeReference(node, False, sign)
        return Tree("ref", (), key.turned() if flipped else key, node.ndim)

    def tree(self, key: NodeReference) -> Tree:
        """The tree of a reference."""
        match key.node:
            case Add():
                return self.sum_tree(key.node, key.flipped, key.sign)
            case Map():
                return self._signed(key, self.map_tree(key.node, key.flipped))
            case Apply():
                made = self.apply_tree(key.node)
            case Constant():
                made = constant_tree(key.node)
            case Einsum():
                return self.einsum_tree(key.node, key.flipped, key.sign)
            case _:
                made = self.reference(key.node)
        return self._signed(key, transposed(made) if key.flipped else made)

    def inlined(self, key: NodeReference, tree: Tree) -> Tree:
        return tree

    def named(self, key: NodeReference, definition: NodeReference, name_: str) -> Tree:
        """The name, with what makes up for how the definition is written."""
        made = Tree("given", (), name_, key.node.ndim, is_symmetric(key.node))
        made = transposed(made) if key.flipped != definition.flipped else made
        return made if key.sign == definition.sign else product([literal(-1), made])

    @staticmethod
    def _signed(key: NodeReference, tree: Tree) -> Tree:
        return tree if key.sign == 1 else product([literal(-1), tree])

    # The order in which people write things

    def _weigh(self, node: Expr) -> int:
        children = node.children
        weight = 1 + sum(self.weight(child) for child in children)
        self.weights[node] = min(weight, HEAVIEST)
        self.names[node] = node.name if isinstance(node, Variable) else min(map(self._name, children), default="~")
        self._signs[node] = self._sign_of(node)
        return self.weights[node]

    def weight(self, node: Expr) -> int:
        """About how much text a node is."""
        return self.weights[node] if node in self.weights else self._weigh(node)

    def _name(self, node: Expr) -> str:
        self.weight(node)
        return self.names[node]

    def before(self, node: Expr) -> tuple:
        """The order of factors: what is short first, then by name."""
        return (self.weight(node), self._name(node), node.digest)

    def term_order(self, term: Expr) -> tuple:
        """The order of terms: numbers and units last, and what is long first."""
        _, factors, output, _ = parts(term)
        spread = len({label for _, labels in factors for label in labels}) < len(output)
        weight = sum(self.weight(node) for node, _ in factors)
        return (not factors, spread, -weight, sorted(self._name(node) for node, _ in factors))

    # Sums

    def _sign_of(self, node: Expr) -> tuple[int, bool]:
        """The sign with which a node is written without a minus in front, and whether it can do with either.

        A sum with terms of both signs can; its number (as in `1 - x`) or else its first term is positive then. So can a
        contraction that has such a sum. What is used in several places is written with one sign in all of them.
        """
        once = self._uses[node] < 2
        if isinstance(node, Add):
            if len({parts(term)[0] > 0 for term in node.terms}) < 2:
                return 1, False
            first = min(node.terms, key=lambda t: (not construct.is_number(t), *self.term_order(t), t.digest))
            sign = 1 if parts(first)[0] > 0 else -1
            return (sign if once or self._votes[node] * sign >= 0 else -sign), once
        if not isinstance(node, Einsum) or node.is_product:
            return 1, False
        sign, absorbs = 1, False
        for operand in node.operands:
            own, mixed = self.signs(operand)
            sign, absorbs = sign * own, absorbs or (mixed and node.operands.count(operand) == 1)
        return sign, absorbs and once

    def signs(self, node: Expr) -> tuple[int, bool]:
        """`_sign_of`, remembered."""
        self.weight(node)
        return self._signs[node]

    def distribute_sign(self, coefficient: Number, factors: list[Factor]) -> tuple:
        """The number in front and the sign of each factor: natural ones, or one changed for a minus in front."""
        if len(factors) == 1 and self.takes_sign(coefficient, factors[0][0]):
            return number(-coefficient), [-1]
        variants = [self.signs(operand)[0] for operand, _ in factors]
        for variant in variants:
            coefficient = number(variant * coefficient)
        if coefficient < 0:
            operands = [operand for operand, _ in factors]
            for k, operand in enumerate(operands):
                if self.signs(operand)[1] and operands.count(operand) == 1:
                    variants[k] = -variants[k]
                    return number(-coefficient), variants
        return coefficient, variants

    def takes_sign(self, coefficient: Number, node: Expr) -> bool:
        """Whether a node alone behind a number should take up its minus sign: `-(a + b)` is `-a - b`."""
        return (
            coefficient < 0
            and node not in self._kept
            and (self.signs(node)[1] or (coefficient == -1 and isinstance(node, Add)))
        )

    def _keep_signs(self, terms: Sequence[Expr]) -> None:
        """A sum that several terms have as a factor is written in one way: none of them takes up a minus sign."""
        factors = [factor for term in terms for factor, _ in parts(term)[1] if isinstance(factor, Einsum)]
        for inner, users in grouped((inner, factor) for factor in factors for inner in factor.operands).items():
            if len(users) > 1 and isinstance(inner, Add):
                self._kept.update(users)

    def sum_tree(self, node: Add, flipped: bool, sign: int) -> Tree:
        """The terms, the first one positive if any is; equal ones by the number of transposes they show."""
        self._keep_signs(node.terms)
        entries = []
        for term in node.terms:
            made = self.scaled_tree(construct.scale(sign, term), flipped, broadcast=True)
            entries.append((*self.term_order(term), self._transposes(made), term.digest, made))
        trees = [entry[-1] for entry in sorted(entries, key=lambda entry: entry[:-1])]
        first = next((k for k, tree in enumerate(trees) if split_number(tree)[0] > 0), 0)
        return total([trees[first], *trees[:first], *trees[first + 1 :]])

    def _transposes(self, tree: Tree) -> int:
        """How many transposes a term shows, one reference deep."""
        _, rest = split_number(tree)
        is_product = rest is not None and rest.kind == "ref" and isinstance(rest.data.node, Einsum)
        return transposes(self.tree(rest.data) if rest is not None and is_product else tree)

    def scaled_tree(self, node: Expr, flipped: bool = False, broadcast: bool = False) -> Tree:
        """A multiple of something as the number and a reference to the rest, which may be shared.

        Where shapes are clear from elsewhere (`broadcast`), something that is the same everywhere is written once.
        """
        if not isinstance(node, Einsum) or not node.is_product:
            return self.reference(node, flipped)
        coefficient, factors, output, sizes = parts(node)
        if broadcast and not any(labels for _, labels in factors) and not node.has_delta:
            output = ()
        if not factors and not output:
            return literal(coefficient)
        bare = construct.einsum(1, factors, output, sizes)
        if not (isinstance(bare, Einsum) and bare.is_product):
            return self._with_number(coefficient, bare, flipped)
        if not factors:
            return self.einsum_tree(node, flipped, 1)
        return product([literal(coefficient), self.reference(bare, flipped and bool(output))])

    def _with_number(self, coefficient: Number, node: Expr, flipped: bool) -> Tree:
        """A number times a node that may take up the sign."""
        sign = -1 if self.takes_sign(coefficient, node) else 1
        return product([literal(number(sign * coefficient)), self.reference(node, flipped and node.ndim == 2, sign)])

    # Functions

    def map_tree(self, node: Map, flipped: bool) -> Tree:
        """An elementwise function, and the forms in which people know some of them."""
        base, exponent = power_parts(node)
        if exponent != 1:
            tops, bottoms = self.power_trees(base, exponent, flipped)
            return fraction(tops, bottoms)
        if (found := as_softmax(node)) is not None:
            arg, axis, *_ = found
            extra = [] if arg.ndim == 1 else [literal(1 - axis if flipped else axis)]
            return call("softmax", [self.scaled_tree(arg, flipped), *extra], node.ndim)
        spread = [self._same_everywhere(arg) for arg in node.args]
        args = [self.scaled_tree(arg, flipped, not all(spread)) for arg in node.args]
        if node.function.name == "power":
            return Tree("power", (args[0], args[1]), None, node.ndim)
        return call(word(node), args, node.ndim)

    @staticmethod
    def _same_everywhere(arg: Expr) -> bool:
        return isinstance(arg, Einsum) and arg.is_product and not any(arg.labels) and not arg.has_delta

    def power_trees(self, base: Expr, exponent: Number, flipped: bool) -> tuple[list[Tree], list[Tree]]:
        """A power as what stands above and what stands below the fraction line."""
        size = exponent if exponent > 0 else -exponent
        halves = isinstance(size, Fraction) and size.denominator == 2
        if halves and (found := norm_argument(base)) is not None:
            arg, axes = found
            root = call("norm2", [self.scaled_tree(arg), *map(literal, axes)], base.ndim)
            made = power(root, number(2 * size))
        elif size == Fraction(1, 2):
            made = call("sqrt", [self.scaled_tree(base, flipped)], base.ndim)
        else:
            made = power(self.scaled_tree(base, flipped), size)
        return ([made], []) if exponent > 0 else ([], [made])

    def apply_tree(self, node: Apply) -> Tree:
        """A function of whole tensors; a function of vectors is applied along the last axis."""
        args = [self.scaled_tree(arg) for arg in node.args]
        if node.function.core[0] == 1 and node.args[0].ndim > 1:
            if node.ndim == 1 and is_transposed(node.args[0]) and not _leaves_out(node):
                args = [self.scaled_tree(node.args[0].T), axis_tree(node.function.name, 0)]
                return call(node.function.name, args, node.ndim)
            if node.function.name not in LAST_AXIS and not _leaves_out(node):
                args.append(axis_tree(node.function.name, node.args[0].ndim - 1))
        if len(node.args) > 1:
            args[: len(node.args)] = [_stacked(node, k, arg) for k, arg in enumerate(args[: len(node.args)])]
        return Tree("call", (*args, *left_out(node)), word(node), node.ndim, is_symmetric(node))

    # Products and contractions

    def einsum_tree(self, node: Einsum, flipped: bool, sign: int) -> Tree:
        """`coefficient * einsum("...", operands)`, or the product entry by entry where that is all it is."""
        output = node.output[::-1] if flipped else node.output
        factors = sorted(node.factors, key=lambda f: (*self.before(f[0]), f[1]))
        coefficient, variants = self.distribute_sign(number(sign * node.coefficient), factors)
        if not factors:
            return filled_tree(coefficient, output, dict(enumerate(node.sizes)))
        tops: list[tuple[Tree, Labels]] = []
        bottoms: list[tuple[Tree, Labels]] = []
        scalar_tops: list[Tree] = []
        scalar_bottoms: list[Tree] = []
        for (operand, labels), variant in zip(factors, variants, strict=True):
            base, exponent = power_parts(operand)
            above, below = self.power_trees(base, exponent, False)
            above = [self.reference(operand, False, variant)] if exponent == 1 else above
            if not labels:
                scalar_tops, scalar_bottoms = scalar_tops + above, scalar_bottoms + below
            else:
                tops += [(tree, labels) for tree in above]
                bottoms += [(tree, labels) for tree in below]
        made = self._entrywise(tops, bottoms, output, node.sizes)
        result = product([literal(coefficient), *scalar_tops, *([made] if made is not None else [])])
        return quotient(result, product(scalar_bottoms), False) if scalar_bottoms else result

    def _entrywise(self, tops: list, bottoms: list, output: Labels, sizes: Sequence[Size]) -> Tree | None:
        if not tops and not bottoms and not output:
            return None
        if all(labels == output for _, labels in tops + bottoms) and len(set(output)) == len(output) and tops + bottoms:
            return fraction([tree for tree, _ in tops], [tree for tree, _ in bottoms])
        items = tops + [(fraction([], [tree]), labels) for tree, labels in bottoms]
        return contraction_tree(items, output, dict(enumerate(sizes)))


def _votes(nodes: Sequence[Expr]) -> Counter[Expr]:
    """For each node, in how many more places it is multiplied by a positive number than by a negative one."""
    votes: Counter[Expr] = Counter()
    for node in reversed(nodes):
        sign = 1
        if isinstance(node, Einsum):
            sign = -1 if (node.coefficient < 0) != (votes[node] < 0) else 1
        for child, count in Counter(node.children).items():
            votes[child] += sign * (count == 1)
    return votes


LAST_AXIS = frozenset({"argmax"})  # always along it
WORDS = {"argmax": "at_max"}  # functions that have another name in text


def axis_tree(function: str, axis: int) -> Tree:
    """An axis; `max(x, 1)` would read as the larger of x and 1."""
    return name(f"axis={axis}") if function == "max" else literal(axis)


def word(node: Map | Apply) -> str:
    """What a function is called in text."""
    return "prod_except" if _leaves_out(node) else WORDS.get(node.function.name, node.function.name)


def _leaves_out(node: Map | Apply) -> int:
    """How many entries a product leaves out."""
    return (node.function.parameter or 0) if node.function.name == "prod" else 0


def left_out(node: Map | Apply) -> list[Tree]:
    """How many entries a product leaves out, where that is more than one."""
    return [literal(_leaves_out(node))] if _leaves_out(node) > 1 else []


def stack_labels(node: Apply, k: int) -> tuple[Labels, Labels]:
    """The labels of an argument, and those with which it is a stack like the others.

    Stacks have the same axes, or fewer of the first ones, as in NumPy.
    """
    every = node.ndim - len(node.function.output_shape([(1,) * core for core in node.function.core]))
    core = tuple(range(every, every + node.args[k].ndim - len(node.batch[k])))
    first = min(node.batch[k], default=every)
    return (*node.batch[k], *core), (*range(first, every), *core)


def _stacked(node: Apply, k: int, tree: Tree) -> Tree:
    """An argument as a stack."""
    own, wanted = stack_labels(node, k)
    if own == wanted:
        return tree
    sizes: dict[int, Size] = dict(enumerate(node.shape))
    sizes.update(zip(own, node.args[k].shape, strict=True))
    return contraction_tree([(tree, own)], wanted, sizes)


def contraction_tree(items: Sequence[tuple[Tree, Labels]], output: Labels, sizes: dict[int, Size]) -> Tree:
    """`einsum("ij,jk->ik", ...)`, with the sizes of labels that no operand has."""
    names: dict[int, str] = {}
    for labels in (output, *(labels for _, labels in items)):
        for label in labels:
            names.setdefault(label, LETTERS[len(names)] if len(names) < len(LETTERS) else chr(0x3B1 + len(names) - 52))
    bound = {label for _, labels in items for label in labels}
    spec = ["".join(names[label] for label in labels) for _, labels in items]
    unbound = {names[label]: sizes[label] for label in output if label not in bound}
    data = (tuple(spec), "".join(names[label] for label in output), tuple(unbound.items()))
    return Tree("einsum", tuple(tree for tree, _ in items), data, len(output))


def filled_tree(coefficient: Number, output: Labels, sizes: dict[int, Size]) -> Tree:
    """A number times ones, the identity, or another pattern of deltas."""
    shape = [sizes[label] for label in output]
    dimensions = [name(str(size)) for size in shape]
    if not output:
        return literal(coefficient)
    if coefficient == 0:
        return call("zeros", dimensions, len(output))
    if len(set(output)) == len(output):
        return product([literal(coefficient), call("ones", dimensions, len(output))])
    if len(output) == 2:
        return product([literal(coefficient), call("eye", dimensions[:1], 2)])
    return product([literal(coefficient), contraction_tree([], output, sizes)])


# Forms that people know


def is_transposed(node: Expr) -> bool:
    """Whether a matrix is the transpose of a node."""
    if not isinstance(node, Einsum) or not node.is_product or len(node.operands) != 1 or node.ndim != 2:
        return False
    return node.coefficient == 1 and node.labels[0] == node.output[::-1] and not node.has_delta


def norm_argument(base: Expr) -> tuple[Expr, list[int]] | None:
    """`x` and the axes (none for all) if an expression is a sum of squares of the entries of x."""
    if not isinstance(base, Einsum) or base.is_product or len(base.operands) != 2:
        return None
    (a, b), (labels, others) = base.operands, base.labels
    if a is not b or labels != others or len(set(labels)) < len(labels) or len(base.output) > 1:
        return None
    if not base.output:
        return a, []
    axes = [axis for axis, label in enumerate(labels) if label not in base.output]
    return (a, axes) if len(axes) == 1 else None
