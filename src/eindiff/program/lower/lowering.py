"""From nodes to operations: what each kind of node is in NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.construct import is_number as is_filled
from eindiff.core.index_relations import IndexMap, Lower, SizeOf
from eindiff.core.labels import Labels
from eindiff.core.networks import fresh_in, opened
from eindiff.core.nodes import (
    Add,
    Apply,
    Constant,
    Einsum,
    Expr,
    Map,
    Number,
    Variable,
    is_contraction,
    is_index_map,
    number,
    topological,
)
from eindiff.core.sizes import Shape, Size
from eindiff.functions.table import TABLE
from eindiff.program.costs import Costs
from eindiff.program.lower import functions
from eindiff.program.lower.indexing import Axis, Index, Indexing, labels_of
from eindiff.program.lower.products import Products
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Arrays, Term, Value
from eindiff.program.norms import Squared, is_one_in_other, is_root, power_of_root, squares, units
from eindiff.program.operations import FUNCTION, Op, Operation, Operations, is_number

SWAP = ((1, 0), 1)
Sizes = dict[int, Size]
Maps = list[tuple[int, Index]]  # labels, and what each of them is a function of


class Lowering:
    """Lowers nodes one by one, each after its children."""

    def __init__(
        self, operations: Operations, costs: Costs | None = None, strategy: str = "auto", exact: bool = False
    ) -> None:
        self.operations = operations
        self.costs = costs
        self.products = Products(self.operations, costs, strategy, exact)
        self.indexing = Indexing(self.operations, self.products)
        self.arrays = Arrays(self.operations, self.products, self.indexing)
        self.values: dict[Expr, Value] = {}
        self.norms: dict[Expr, Tensor] = {}  # of powers of norms
        self.factored: set[Expr] = set()

    def run(self, outputs: Sequence[Expr]) -> list[Operation]:
        """The outputs as arrays of their full shapes."""
        order = topological(outputs)
        vectors = ("eigvecs", "svdleft", "svdright")
        self.factored = {node.args[0] for node in order if isinstance(node, Apply) and node.function.name in vectors}
        self.uses = Counter([child for node in order for child in node.children] + list(outputs))
        self.hints = orientations(order, outputs)
        self.pushed = self._pushed(outputs)
        for node in order:
            self.values[node] = self._lower(node)
        found = [self.arrays.array(self.values[output]) for output in outputs]
        return [self.operations.array(x) if self.operations.functional and is_number(x) else x for x in found]

    def _pushed(self, outputs: Sequence[Expr]) -> dict[Expr, Number]:
        """Coefficients of outputs, where they are cheaper inside a contraction that is used only there."""
        pushed: dict[Expr, Number] = {}
        terms = [term for output in outputs for term in (output.terms if isinstance(output, Add) else [output])]
        for node in terms:
            if isinstance(node, Einsum) and node.coefficient != 1 and len(node.operands) == 1 and self.uses[node] == 1:
                [child] = node.operands
                if is_contraction(child) and self.uses[child] == 1 and not _is_placing(child):
                    pushed[child] = node.coefficient
        return pushed

    def _lower(self, node: Expr) -> Value:
        match node:
            case Variable():
                operation = self.operations.make("input", parameters=(node.name,), shape=node.shape)
                return self._marked(node, self._whole(operation, node))
            case Constant() if isinstance(node.value, IndexMap):
                labels = tuple(range(node.ndim))
                maps = [(0, self.indexing.index_of(node.value, labels[1:]))]
                return Value((self.network(1, [], maps, labels, dict(enumerate(node.shape)), labels),), node.shape)
            case Constant():
                return self._marked(node, self._whole(self._constant(node), node))
            case Einsum():
                return self._marked(node, self._einsum(node))
            case Add():
                values = [self.values[term] for term in node.terms]
                return self._marked(node, self.arrays.add(values, node.shape, self.hints[node]))
            case Map():
                return self._marked(node, self._map(node))
            case Apply():
                return self._marked(node, self._apply(node))
        raise AssertionError(f"a node of unknown kind: {type(node)}")

    def _whole(self, operation: Operation, node: Expr) -> Value:
        return self.arrays.value(Tensor(operation, tuple(range(node.ndim))), node.shape)

    def _marked(self, node: Expr, value: Value) -> Value:
        """Remember which matrices need no transpose."""
        if node.ndim == 2 and SWAP in node.symmetries and len(value.terms) == 1 and value.terms[0].is_plain:
            self.operations.symmetric.add(value.terms[0].core.operation)
        return value

    def _constant(self, node: Constant) -> Operation:
        match node.value:
            case SizeOf():
                return self.indexing.size(node.value.size)
            case Lower():
                return self.operations.make("triangle", parameters=(node.value.size,), shape=node.shape)
        array = np.asarray(node.value, dtype=float)
        return self.operations.make("constant", parameters=(array.shape, array.tobytes()), shape=node.shape, work=0)

    # Functions

    def _map(self, node: Map) -> Value:
        tensors = [self.arrays.tensor(self.values[arg]) for arg in node.args]
        labels = {label for _, x in tensors for label in x.labels}
        order = next((x.labels for _, x in tensors if len(x.labels) == len(labels)), tuple(sorted(labels)))
        args = [self.operations.scale(c, self.products.align(x, order)) for c, x in tensors]
        if (norm := self._norm(node, Tensor(args[0], order))) is not None:
            self.norms[node] = norm
            power = functions.power_of_norm(self.operations, norm.operation, power_of_root(node))
            return self.arrays.value(Tensor(power, norm.labels), node.shape)
        result = functions.elementwise(self.operations, node, args, self.costs)
        return self.arrays.value(Tensor(result, order), node.shape)

    def _norm(self, node: Map, total: Tensor) -> Tensor | None:
        """The norm whose power a node is: programs that run compute it for squares that are out of range too."""
        if self.costs is None or not is_root(node) or len(total.labels) < node.ndim:
            return None
        if (found := squares(node.args[0])) is None or (node.ndim and any(is_filled(part.y) for part in found)):
            return None  # c + x², entry by entry, is not worth the test whether it is in range
        order = tuple(range(node.ndim))
        whole = self.products.align(total, order)
        values = [self._value(part.y) for part in found]
        if len(found) == 1 and not found[0].summed:
            operation = self.operations.make("call", [self.arrays.array(values[0])], ("abs",))
        elif len(found) == 1:
            axes = tuple(range(node.ndim, found[0].y.ndim))
            operation = self._make_norm("norm", [self.arrays.array(values[0]), whole], axes, whole.shape)
        else:
            arrays = [self._broadcasting(*pair) for pair in zip(values, found, strict=True)]
            summed = tuple([part.summed for part in found])
            operation = self._make_norm("norm_of_several", [whole, *arrays], summed, whole.shape)
        return Tensor(operation, order)

    def _make_norm(self, op: Op, arrays: list[Operation], along: tuple[int, ...], shape: Shape) -> Operation:
        return self.operations.make(op, arrays, (self.operations.single, along), shape=shape, speed=FUNCTION)

    def _broadcasting(self, value: Value, part: Squared) -> Operation:
        """What is squared, without axes along which it is the same, if it is not summed along these."""
        coefficient, tensor = self.arrays.tensor(value)
        order = tuple(range(part.y.ndim))
        if set(order[part.y.ndim - part.summed :]) <= set(tensor.labels):
            return self.operations.scale(coefficient, self.products.align(tensor, order))
        return self.arrays.array(value)

    def _value(self, node: Expr) -> Value:
        """The value of a node that no output has."""
        order = topological([node])
        for inner, hint in orientations(order, [node]).items():
            self.hints.setdefault(inner, hint)
        for inner in order:
            if inner not in self.values:
                self.values[inner] = self._lower(inner)
        return self.values[node]

    def _apply(self, node: Apply) -> Value:
        if node.function.reduces and TABLE.get(node.function.name) is node.function:  # others know no axis
            return self._reduction(node)
        count = len({label for labels in node.batch for label in labels})
        args = []
        for arg, labels in zip(node.args, node.batch, strict=True):
            array = self.arrays.array(self.values[arg])
            core = arg.ndim - len(labels)
            tensor = Tensor(array, (*labels, *range(count, count + core)))
            args.append(self.products.align(tensor, tuple(range(count + core))))
        result = functions.whole(self.operations, node, args, node.args[0] in self.factored)
        return self._whole(result, node)

    def _reduction(self, node: Apply) -> Value:
        """A function of vectors along the axis that it has in the array as it is."""
        [arg], [batch] = node.args, node.batch
        coefficient, tensor = self.arrays.tensor(self.values[arg])
        if len(tensor.labels) < arg.ndim:
            coefficient, tensor = 1, Tensor(self.arrays.array(self.values[arg]), tuple(range(arg.ndim)))
        operation = self.operations.scale(coefficient, tensor.operation)
        axis = tensor.labels.index(arg.ndim - 1)
        along = axis if arg.ndim > 1 else None
        result = functions.reduction(self.operations, node.function.name, operation, along)
        rest = [label for label in tensor.labels if label != arg.ndim - 1]
        return self.arrays.value(Tensor(result, tuple([batch[label] for label in rest])), node.shape)

    # Products and contractions

    def _einsum(self, node: Einsum) -> Value:
        coefficient = self.pushed.get(node, node.coefficient)
        if len(node.operands) == 1 and node.operands[0] in self.pushed:
            coefficient = 1
        if len(node.operands) == 1 and not is_index_map(node.operands[0]):
            value, labels = self.values[node.operands[0]], node.labels[0]
            if sorted(labels) == sorted(node.output) and len(set(labels)) == len(labels):
                return value.scaled(coefficient, [labels.index(label) for label in node.output])
        maps: Maps = []
        operands, sizes = self._flat(node)
        found: dict[int, Tensor] = {}
        for place, (operand, labels) in enumerate(operands):
            if isinstance(operand, Constant) and isinstance(operand.value, IndexMap):
                maps.append((labels[0], self.indexing.index_of(operand.value, labels[1:])))
            else:
                own, tensor = self.arrays.tensor(self.values[operand])
                coefficient = number(coefficient * own)
                found[place] = Tensor(tensor.operation, tuple([labels[axis] for axis in tensor.labels]))
        self._divide_by_norms(operands, found)
        factors = list(found.values())
        hint = tuple([node.output[axis] for axis in self.hints[node]])
        return Value((self.network(coefficient, factors, maps, node.output, sizes, hint),), node.shape)

    def _divide_by_norms(self, operands: list[tuple[Expr, Labels]], found: dict[int, Tensor]) -> None:
        """Vectors beside powers of their norms are divided by them first."""
        if self.costs is None or (chosen := units(operands)) is None or operands[chosen[0]][0] not in self.norms:
            return
        (node, labels), root = operands[chosen[0]], chosen[0]
        norm = self.norms[node]
        norm = Tensor(norm.operation, tuple([labels[axis] for axis in norm.labels]))
        places = [k for k in chosen[1] if k in found and is_one_in_other(norm.labels, found[k].labels)]
        exponent = power_of_root(node) + len(places)  # type: ignore[arg-type]
        found[root] = Tensor(functions.power_of_norm(self.operations, norm.operation, exponent), norm.labels)
        for k in places:
            order = max(found[k].labels, norm.labels, key=len)
            above, below = self.products.align(found[k], order), self.products.align(norm, order)
            found[k] = Tensor(self._unit(above, below), order)

    def _unit(self, x: Operation, norm: Operation) -> Operation:
        """`x / norm`, for compilers that would make `x / norm / norm` the quotient by a square as a product."""
        if not self.operations.functional:
            return self.operations.quotient(1, [x], [norm])
        return self.operations.times([x, self.operations.make("reciprocal", [norm])])

    def _flat(self, node: Einsum) -> tuple[list[tuple[Expr, Labels]], dict[int, Size]]:
        """Operands, with those of large contractions used only here: a factor is cheaper before than after it."""
        sizes: dict[int, Size] = dict(enumerate(node.sizes))
        result: list[tuple[Expr, Labels]] = []
        for operand, labels in zip(node.operands, node.labels, strict=True):
            if not isinstance(operand, Einsum) or not self._is_inlined(operand, labels, node):
                result.append((operand, labels))
            else:
                result += opened(operand, labels, fresh_in(sizes))
        return result, sizes

    def _is_inlined(self, operand: Einsum, labels: Labels, node: Einsum) -> bool:
        if len(set(labels)) < len(labels):
            return False
        if _is_placing(operand):
            return True
        return operand.ndim > 2 and self.uses[operand] == 1 and len(node.operands) > 1

    def network(
        self, coefficient: Number, factors: list[Tensor], maps: Maps, output: Labels, sizes: Sizes, hint: Labels
    ) -> Term:
        """The sum of products of tensors and index maps, as a tensor with places for its entries.

        All labels that `sizes` has are summed over, unless they are in the output. Maps are taken out one by one, each
        by an identity that holds whatever the rest is:
        a label that one map alone says, and not by itself, is replaced by what it is a function of;
        a map whose inputs no other map and no axis knows is summed over together with the factors that know them;
        any other map is a factor, the array that is 1 where it holds.
        """
        shape = tuple([sizes[label] for label in output])
        axes: tuple[Axis, ...] = output
        labels = set(sizes)
        while maps:
            target, index = maps[0]
            same = [k for k, (other, _) in enumerate(maps) if other == target]
            alone = next((k for k in (*same[1:2], 0) if _is_alone(maps, k, axes)), None)
            if len(same) == 1 and target not in index.labels:
                maps, labels = maps[1:], labels - {target}
                factors = [self.indexing.gather(x, target, index, sizes) for x in factors]
                maps = [(other, self.indexing.substitute(inner, target, index, sizes)) for other, inner in maps]
                axes = tuple([self._replaced(axis, target, index, sizes) for axis in axes])
            elif alone is not None:
                chosen = maps[alone]
                maps = [*maps[:alone], *maps[alone + 1 :]]
                factors, gone = self._summed_out(chosen, maps, factors, axes, sizes)
                labels -= gone
            else:
                factors, maps = [*factors, self._match(Index(0, ((target, 1),)), index, sizes)], maps[1:]
        coefficient, core = self._contracted(coefficient, factors, axes, labels, sizes, hint)
        if all(isinstance(axis, int) for axis in axes):
            return Term(coefficient, core, axes, sizes)
        core, axes = self.indexing.simplify_places(core, axes, sizes, shape)
        return Term(coefficient, core, axes, sizes, _is_injective(axes))

    def _contracted(
        self, coefficient: Number, factors: list[Tensor], axes: tuple[Axis, ...], labels: set[int],
        sizes: Mapping[int, Size], hint: Labels,
    ) -> tuple[Number, Tensor]:  # fmt: skip
        """The product of factors, summed over what the result does not have; what no factor has counts its size."""
        bound = {label for x in factors for label in x.labels}
        kept = dict.fromkeys([label for axis in axes for label in labels_of(axis)])
        factors = factors + [Tensor(self.indexing.size(sizes[x]), ()) for x in sorted(labels - bound - set(kept))]
        if not factors:
            return coefficient, Tensor(self.operations.number(1), ())
        liked = [x for x in dict.fromkeys((*hint, *kept)) if x in kept and x in bound]
        return self.products.contract(coefficient, factors, tuple(liked), sizes)

    def _replaced(self, axis: Axis, target: int, index: Index, sizes: Mapping[int, Size]) -> Axis:
        if isinstance(axis, int):
            return index if axis == target else axis
        return self.indexing.substitute(axis, target, index, sizes)

    def _match(self, a: Index, b: Index, sizes: Mapping[int, Size]) -> Tensor:
        """1 where two indices are equal: two maps that meet without anything to put into an array between them."""
        order = tuple(dict.fromkeys(a.labels + b.labels))
        left, right = (self.indexing.array(x, order, sizes) for x in (a, b))
        return Tensor(self.operations.make("call", [left, right], ("equal",)), order)

    def _summed_out(
        self, chosen: tuple[int, Index], maps: Maps, factors: list[Tensor], axes: tuple[Axis, ...], sizes: Sizes
    ) -> tuple[list[Tensor], set[int]]:
        """The factors when a map that is alone is put, with those that know its inputs, into an array over its target.

        Also the labels that are summed over on the way.
        """
        target, index = chosen
        inputs = set(index.labels)
        inside = [x for x in factors if inputs & set(x.labels)]
        rest = [x for x in factors if not inputs & set(x.labels)]
        needed = {target, *_known_labels(maps, axes)}.union(*(x.labels for x in rest))
        labels = inputs.union(*(x.labels for x in inside))
        output = (target, *sorted((labels & needed) - {target}))
        scope = {x: sizes[x] for x in (*labels, target)}
        term = self.network(1, inside, [chosen], output, scope, output)
        array = self.arrays.array(Value((term,), tuple([sizes[x] for x in output])))
        return [*rest, Tensor(array, output)], labels - needed


def _known_labels(maps: Maps, axes: tuple[Axis, ...]) -> set[int]:
    """The labels of some maps and axes."""
    return {x for axis in axes for x in labels_of(axis)}.union(*({target, *index.labels} for target, index in maps))


def _is_alone(maps: Maps, which: int, axes: tuple[Axis, ...]) -> bool:
    """Whether no other map, no axis, and not its own target knows the inputs of a map."""
    target, index = maps[which]
    others = [other for k, other in enumerate(maps) if k != which]
    return not set(index.labels) & {target, *_known_labels(others, axes)}


def orientations(order: Sequence[Expr], outputs: Sequence[Expr]) -> dict[Expr, Labels]:
    """For each node the order of its axes that suits where it is used, and in the end the outputs."""
    hints: dict[Expr, Labels] = {output: tuple(range(output.ndim)) for output in outputs}
    for node in reversed(order):
        own = hints[node]
        if isinstance(node, Add | Map):
            for child in node.children:
                hints.setdefault(child, own)
        elif isinstance(node, Einsum):
            wanted = [node.output[axis] for axis in own]
            for child, labels in zip(node.operands, node.labels, strict=True):
                place = [wanted.index(x) if x in wanted else len(wanted) for x in labels]
                hints.setdefault(child, tuple(sorted(range(child.ndim), key=place.__getitem__)))
        else:
            for child in node.children:
                hints.setdefault(child, tuple(range(child.ndim)))
    return hints


def _is_placing(node: Einsum) -> bool:
    """Whether a node only says where ones are: such a matrix is never formed on its own."""
    return all(is_index_map(x) for x in node.operands)


def _is_injective(axes: tuple[Axis, ...]) -> bool:
    """Whether different labels surely have different places: each label is an axis, or the only one of an index."""
    alone: set[int] = set()
    labels: set[int] = set()
    for axis in axes:
        labels.update(labels_of(axis))
        if isinstance(axis, int):
            alone.add(axis)
        elif axis.table is None and len(axis.strides) == 1 and sz.sign(axis.strides[0][1]):
            alone.add(axis.strides[0][0])
        elif axis.table is not None and _is_distinct(axis.table.operation):
            alone.update(axis.labels)
    return labels <= alone


def _is_distinct(table: Operation) -> bool:
    """Whether the entries of an index array are known to differ: it is a table, or a multiple of one that is moved."""
    if table.op == "add":
        moved = [x.operands[0] if x.op in ("scale", "negate") else x for x in table.operands if not is_number(x)]
        return len(moved) == 1 and _is_distinct(moved[0])
    return table.op == "table" and len(set(table.parameters[1:])) == len(table.parameters[1:])
