"""From nodes to operations: what each kind of node is in NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np

from eindiff.core.coefficients import ratio
from eindiff.core.construct import is_number as is_filled
from eindiff.core.index_relations import Given, IndexMap, Lower, SizeOf
from eindiff.core.labels import Labels
from eindiff.core.leaves import BANDS
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
    is_kept,
    number,
    topological,
)
from eindiff.core.partial_sums import Parts, partial_sums, with_parts_first
from eindiff.core.sizes import Shape, Size
from eindiff.core.traverse import post_order
from eindiff.facts.definiteness import is_symmetric
from eindiff.functions.indexing import index_range
from eindiff.functions.reductions import as_softmax
from eindiff.functions.table import TABLE
from eindiff.planning import tuning
from eindiff.planning.deviations import Balance, Deviation, balances, deviations
from eindiff.planning.offsets import UNNAMED, Named
from eindiff.planning.stacks import Stack, groups
from eindiff.program.costs import Costs, missing
from eindiff.program.lower import functions
from eindiff.program.lower.coefficients import is_placing, pushed, scaled
from eindiff.program.lower.deviations import with_total_zero
from eindiff.program.lower.indexing import Indexing
from eindiff.program.lower.networks import Maps, Networks
from eindiff.program.lower.off_diagonals import leave_out_diagonals
from eindiff.program.lower.orientations import orientations, summands
from eindiff.program.lower.placed_terms import choice_question, choices, in_order, renamed
from eindiff.program.lower.places import Index
from eindiff.program.lower.products import Products
from eindiff.program.lower.samples import sum_over_samples
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.values import Arrays, Term, Value
from eindiff.program.norms import Counted, Squared, is_one_in_other, is_root, power_of_root, squares, units
from eindiff.program.operations import FUNCTION, Op, Operation, Operations, is_number

SYMMETRIC_MATRIX = ((1, 0), 1)
Exprs = Sequence[Expr]
Operands = list[tuple[Expr, Labels]]


class Lowering:
    """Lowers nodes one by one, each after its children."""

    def __init__(
        self, operations: Operations, costs: Costs | None = None, strategy: str = "auto", exact: bool = False,
        named: Named = UNNAMED,
    ) -> None:  # fmt: skip
        self.operations, self.costs, self.named = operations, costs, named
        self.products = Products(self.operations, costs, strategy, exact)
        self.indexing = Indexing(self.operations, self.products)
        self.arrays = Arrays(self.operations, self.products, self.indexing)
        self.networks = Networks(self.operations, self.products, self.indexing, self.arrays)
        self.values: dict[Expr, Value] = {}
        self.norms: dict[Expr, Tensor] = {}  # of powers of norms
        self.counted: Counted = {}  # what the factors beside them are made of
        self.factored: set[Expr] = set()
        self.summands: set[Expr] = set()  # of outputs
        self.parts: dict[Expr, Parts] = {}  # sums that are parts of others
        self.deviations: dict[Expr, Deviation | Balance] = {}
        self.answers: dict[tuple, list[int]] = {}  # which operands of contractions are sums of terms with places
        self.whole: set[Expr] = set()  # sums that were taken as arrays
        self.done: set[Operation] = set()  # what values are made of, however they are used
        self._runs = costs is not None and not operations.functional
        self._is_exact = exact and self._runs

    def run(self, outputs: Exprs, stacks: Sequence[Stack] = (), balanced: Exprs = ()) -> list[Operation]:
        """The outputs as arrays of their full shapes; where some stand for one, as `stacks` say, that one. Whether
        entries on diagonals of outputs are what balances the others is asked of those that may be `balanced`."""
        order = topological(roots := [*self.named.values(), *outputs])
        self._look_at(order, outputs)
        self.hints = orientations(order, outputs, self._runs)
        self.summands, self.pushed = summands(outputs), pushed(outputs, self.uses)
        self.scaled = scaled(order, self._entries) if self.costs is not None else {}
        if self.costs is not None:
            self.deviations, self.parts = {**deviations(order), **balances(balanced)}, partial_sums(order)
            order = with_parts_first(roots, self.parts)
        for node in order:
            self.values[node] = self._lower(node)
            if self.costs is not None:
                self.done.update(missing([term.core.operation for term in self.values[node].terms], self.done))
        found = [self.arrays.array(self._joined(group, symmetric)) for group, symmetric in groups(outputs, stacks)]
        return [self.operations.array(x) if self.operations.functional and is_number(x) else x for x in found]

    def _look_at(self, order: Sequence[Expr], outputs: Sequence[Expr]) -> None:
        """What nodes are used for."""
        vectors = ("eigvecs", "svdleft", "svdright")
        self.factored = {node.args[0] for node in order if isinstance(node, Apply) and node.function.name in vectors}
        self.uses = Counter([child for node in order for child in node.children] + list(outputs))
        self.kept = {node.children[0] for node in order if is_kept(node)}
        self.multiplied = {child for node in order if isinstance(node, Einsum) for child in node.children}

    def _joined(self, exprs: Sequence[Expr], is_symmetric: bool) -> Value:
        """The value of an output, or the sum over samples that several stand for."""
        if len(exprs) == 1:
            return self.values[exprs[0]]
        x, matrices = (self.arrays.array(self.values[expr]) for expr in exprs[:2])
        value = sum_over_samples(self.arrays, x, matrices, is_symmetric)
        values = [value, *(self.values[rest] for rest in exprs[2:])]
        return self.arrays.add(values, value.shape, tuple(range(len(value.shape))))

    def _lower(self, node: Expr) -> Value:
        match node:
            case Variable() if node in self.named:
                return self._whole(self.arrays.array(self.values[self.named[node]]), node.shape)
            case Variable():
                operation = self.operations.make("input", parameters=(node.name,), shape=node.shape)
                if halves := node.properties & {"lower", "upper", *BANDS}:
                    self.operations.halves[operation] = min(halves)
                if "permutation" in node.properties:
                    self.operations.permutations.add(operation)
                return self._marked(node, self._input(node, operation))
            case Constant() if isinstance(node.value, IndexMap):
                labels = tuple(range(node.ndim))
                maps = [(0, self._index(node.value, labels[1:]))]
                term = self.networks.term(1, [], maps, labels, dict(enumerate(node.shape)), labels)
                return Value((term,), node.shape)
            case Constant():
                return self._marked(node, self._whole(self._constant(node), node.shape))
            case Einsum():
                return self._marked(node, self._einsum(node))
            case Add():
                return self._marked(node, self._add(node))
            case Map():
                return self._marked(node, self._map(node))
            case Apply():
                return self._marked(node, self._apply(node))
        raise AssertionError(f"a node of unknown kind: {type(node)}")

    def _add(self, node: Add) -> Value:
        values, found, order = self._summands(node), self.deviations.get(node), tuple(range(node.ndim))
        times = found.times if isinstance(found, Deviation) else 1
        values = [x.scaled(ratio(1, times), order) for x in values] if times != 1 else values
        kept = self.costs is not None and node in self.multiplied
        value = self.arrays.add(values, node.shape, self.hints[node], kept)
        if node in self.kept:
            value = self._whole(self.arrays.array(value), node.shape)
        if found is not None:
            value = with_total_zero(value, found, self.values, self.arrays)
        return value.scaled(times, order) if times != 1 else value

    def _index(self, index_map: IndexMap, inputs: Labels) -> Index:
        given = index_map.indices
        if not isinstance(given, Given):
            return self.indexing.index_of(index_map, inputs)
        array = self.arrays.array(self.values[given.expr])
        if index_range(given.expr) is None:
            array = self.operations.make("integers", [array])
        return self.indexing.index_of(index_map, inputs, array)

    def _whole(self, operation: Operation, shape: Shape) -> Value:
        return self.arrays.value(Tensor(operation, tuple(range(len(shape)))), shape)

    def _input(self, node: Variable, operation: Operation) -> Value:
        """An input; in programs for certain sizes without axes of one entry, along which it is the same."""
        if not self._is_exact or node.properties or node.into is not None:
            return self._whole(operation, node.shape)
        single = [axis for axis, size in enumerate(node.shape) if self.products.is_one(size)]
        tensor = self.products.only(Tensor(operation, tuple(range(node.ndim))), single)
        return self.arrays.value(tensor, node.shape)

    def _marked(self, node: Expr, value: Value) -> Value:
        """Remember which matrices need no transpose."""
        if node.ndim == 2 and SYMMETRIC_MATRIX in node.symmetries and len(value.terms) == 1 and value.terms[0].is_plain:
            self.operations.symmetric.add(value.terms[0].core.operation)
        return value

    def _summands(self, node: Add) -> list[Value]:
        """The values that a sum is of: those of its terms, and of sums that are parts of it and are arrays anyway."""
        if isinstance(found := self.deviations.get(node), Balance):
            return [self.values[x] for x in found.beside(node.terms)]
        if node not in self.parts or not all(self._is_array(part.node) for part in self.parts[node].sums):
            return [self.values[term] for term in node.terms]
        values = []
        for factor, part, axes in self.parts[node].sums:
            coefficient, tensor = self.arrays.tensor(self.values[part])
            values.append(self.arrays.value(tensor, part.shape, coefficient).scaled(factor, axes))
        return [*values, *(self.values[term] for term in self.parts[node].rest)]

    def _is_array(self, node: Expr) -> bool:
        """Whether a value is one array, or such with some entries added at their places."""
        return any(x.is_plain and len(x.core.labels) == node.ndim for x in self.values[node].terms)

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
        if (softmax := self._softmax(node)) is not None:
            return softmax
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

    def _softmax(self, node: Map) -> Value | None:
        """The value of `exp(z - logsumexp(z))`: where z is large, the digits of the difference are not those of z."""
        if self.costs is None or (found := as_softmax(node)) is None:
            return None
        (_, axis, total, _), axes = found, range(node.ndim)
        coefficient, tensor = self.arrays.tensor(self.values[total.args[0]])
        if not self.arrays.has_all(tensor, total.args[0].shape) or node.ndim - 1 not in tensor.labels:
            return None
        place = [*axes[:axis], *axes[axis + 1 :], axis]  # of the axes of z among those of the node
        order = tuple([place[label] for label in tensor.labels])
        scaled = self.operations.scale(coefficient, tensor.operation)
        made = functions.softmax(self.operations, scaled, order.index(axis))
        return self.arrays.value(Tensor(made, order), node.shape)

    def _norm(self, node: Map, total: Tensor) -> Tensor | None:
        """The norm whose power a node is: programs that run compute it for squares that are out of range too."""
        if self.costs is None or not is_root(node) or not self.arrays.has_all(total, node.shape):
            return None
        if (found := squares(node.args[0])) is None or (node.ndim and any(is_filled(part.y) for part in found)):
            return None  # c + x², entry by entry, is not worth the test whether it is in range
        order = tuple(range(node.ndim))
        whole = self.arrays.full(1, total, node.shape)
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
        """The value of a node that no output has. Those that have the coefficient of an output inside are not it."""
        pushed, self.pushed = self.pushed, {}
        multiples = {inner: self.values.pop(inner) for inner in pushed if inner in self.values}
        order = post_order([node], lambda x: () if x in self.values else x.children)
        for inner, hint in orientations(order, [node], self._runs).items():
            self.hints.setdefault(inner, hint)
        for inner in order:
            if inner not in self.values:
                self.values[inner] = self._lower(inner)
        found, self.pushed = self.values[node], pushed
        self.values.update(multiples)
        return found

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
        is_matrix = self.costs is not None and node.function.factorization == "lu" and node.args[0].ndim == 2
        if is_matrix and is_symmetric(node.args[0]):
            self.operations.symmetric.add(args[0])
        result = functions.whole(self.operations, node, args, node.args[0] in self.factored, self.costs)
        return self._whole(result, node.shape)

    def _reduction(self, node: Apply) -> Value:
        """A function of vectors along the axis that it has in the array as it is."""
        [arg], [batch] = node.args, node.batch
        coefficient, tensor = self.arrays.tensor(self.values[arg])
        if arg.ndim - 1 not in tensor.labels:
            coefficient, tensor = 1, Tensor(self.arrays.array(self.values[arg]), tuple(range(arg.ndim)))
        operation = self.operations.scale(coefficient, tensor.operation)
        axis = tensor.labels.index(arg.ndim - 1)
        along = axis if len(tensor.labels) > 1 else None
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
        operands, sizes = self._flat(node)
        value = self._cheapest(node, coefficient, operands, sizes)
        if self.costs is None or not self._is_unordered(node, operands):
            return value
        as_they_are = list(zip(node.operands, node.labels, strict=True))
        other = self._cheapest(node, coefficient, as_they_are, dict(enumerate(node.sizes)))
        kept = {operand for operand, _ in operands}
        inside = missing(self._cores(x for x in node.operands if x not in kept), set(self._cores(kept)))
        costs, done = self.costs, self.done.difference(inside)
        return min(value, other, key=lambda x: costs.total([self.arrays.array(x)], done))

    def _cores(self, nodes: Iterable[Expr]) -> list[Operation]:
        return [term.core.operation for node in nodes if not is_index_map(node) for term in self.values[node].terms]

    def _is_unordered(self, node: Einsum, operands: Operands) -> bool:
        """Whether contractions were opened, and there are relations that no order is looked for any more."""
        is_opened = len(operands) > max(len(node.operands), tuning.LATE_LIMIT)
        return is_opened and any(is_index_map(operand) for operand, _ in operands)

    def _cheapest(self, node: Einsum, coefficient: Number, operands: Operands, sizes: dict[int, Size]) -> Value:
        """The contraction with arrays, or with terms at their places, whichever is faster."""
        read = {labels[0] for operand, labels in operands if is_index_map(operand)}
        found = [self._placed_terms(operand, not read.isdisjoint(labels)) for operand, labels in operands]
        placed = {k: terms for k, terms in enumerate(found) if terms}
        tried = choices(placed)
        if len(tried) == 1:
            return self._with_terms(node, coefficient, operands, sizes, {})
        place = in_order(operands, placed)
        taken = {k: (operands[k][0] in self.whole, self.uses[operands[k][0]] > 1) for k in placed}
        question = (choice_question(node, operands, placed, place), *(taken[k] for k in place if k in taken))
        if question not in self.answers:
            choice, value = self._compared(node, coefficient, operands, sizes, placed, tried)
            self.answers[question] = [place.index(k) for k in choice]
        else:
            choice = tuple([place[k] for k in self.answers[question]])
            value = self._with_terms(node, coefficient, operands, sizes, {k: placed[k] for k in choice})
        self.whole.update([operands[k][0] for k in placed if k not in choice])
        return value

    def _compared(
        self, node: Einsum, coefficient: Number, operands: Operands, sizes: dict[int, Size],
        placed: Mapping[int, tuple[Term, ...]], choices: Iterable[tuple[int, ...]],
    ) -> tuple[tuple[int, ...], Value]:  # fmt: skip
        """The choice of operands of which terms are taken that takes the least time, and what it gives."""
        assert self.costs is not None
        found = []
        sums = [operands[k][0] for k in placed if isinstance(operands[k][0], Add) and self.uses[operands[k][0]] == 1]
        done = self.done.difference(self._cores(sums))
        for choice in choices:
            value = self._with_terms(node, coefficient, operands, sizes, {k: placed[k] for k in choice})
            found.append((self.costs.total([self.arrays.array(value)], done), choice, value))
        return min(found, key=lambda x: x[0])[1:]

    def _placed_terms(self, operand: Expr, is_read: bool) -> tuple[Term, ...]:
        """The terms of an operand, if an array of them all is large, and some of them have places, or it is a sum of
        which nothing but some entries is read."""
        if self.costs is None or is_index_map(operand):
            return ()
        value = self.values[operand]
        if not value.terms or self.costs.entries(value.shape) < tuning.RELATED_ENTRIES:
            return ()
        if len(value.terms) > 1 or not value.terms[0].is_plain:
            return value.terms
        if not is_read or not isinstance(operand, Add) or self.uses[operand] > 1:
            return ()
        return tuple([term for child in operand.terms for term in self.values[child].terms])

    def _with_terms(
        self, node: Einsum, coefficient: Number, operands: Operands, sizes: dict[int, Size],
        placed: Mapping[int, tuple[Term, ...]],
    ) -> Value:  # fmt: skip
        """The contraction as a sum over the terms of some operands; the others are arrays."""
        maps: Maps = []
        found: dict[int, Tensor] = {}
        for place, (operand, labels) in enumerate(operands):
            if isinstance(operand, Constant) and isinstance(operand.value, IndexMap):
                maps.append((labels[0], self._index(operand.value, labels[1:])))
            elif place not in placed:
                own, tensor = self.arrays.tensor(self.values[operand])
                coefficient = number(coefficient * own)
                found[place] = Tensor(tensor.operation, tuple([labels[axis] for axis in tensor.labels]))
        self._divide_by_norms(operands, found)
        leave_out_diagonals(self.operations, operands, found)
        coefficient = self._scale_as_others(coefficient, operands, found)
        hint = tuple([node.output[axis] for axis in self.hints[node]])
        self.products.is_added = node in self.summands
        terms = []
        for combination in product(*placed.values()):
            factors, relations, own_sizes, scale = list(found.values()), list(maps), dict(sizes), coefficient
            for place, term in zip(placed, combination, strict=True):
                core, more = renamed(term, operands[place][1], own_sizes)
                factors.append(core)
                relations += more
                scale = number(scale * term.coefficient)
            terms.append(self.networks.term(scale, factors, relations, node.output, own_sizes, hint))
        if not placed:
            return Value(tuple(terms), node.shape)
        return self.arrays.add([Value((term,), node.shape) for term in terms], node.shape, self.hints[node], True)

    def _scale_as_others(self, coefficient: Number, operands: Operands, found: dict[int, Tensor]) -> Number:
        """What is left of a coefficient if a factor has it, up to its sign, in another product: both share that."""
        for place, (operand, _) in enumerate(operands):
            other = self.scaled.get(operand)
            if other is None or abs(coefficient) != abs(other.coefficient) or place not in found:
                continue
            if any(x in other.operands for x, _ in operands if x is not operand):
                scaled = self.operations.scale(other.coefficient, found[place].operation)
                found[place] = Tensor(scaled, found[place].labels)
                return ratio(coefficient, other.coefficient)
        return coefficient

    def _divide_by_norms(self, operands: Operands, found: dict[int, Tensor]) -> None:
        """Vectors beside powers of their norms are divided by them first."""
        if self.costs is None or self.norms.keys().isdisjoint([operand for operand, _ in operands]):
            return
        if (chosen := units(operands, self.counted)) is None or operands[chosen[0]][0] not in self.norms:
            return
        (node, labels), root = operands[chosen[0]], chosen[0]
        norm = self.norms[node]
        norm = Tensor(norm.operation, tuple([labels[axis] for axis in norm.labels]))
        places = [k for k in chosen[1] if k in found and is_one_in_other(norm.labels, found[k].labels)]
        exponent = power_of_root(node) + len(places)  # type: ignore[arg-type]
        found[root] = Tensor(functions.power_of_norm(self.operations, norm.operation, exponent), norm.labels)
        if not exponent:
            del found[root]
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
        """Operands, with those of large contractions used only here: factors are cheaper before them."""
        sizes: dict[int, Size] = dict(enumerate(node.sizes))
        result: list[tuple[Expr, Labels]] = []
        for operand, labels in zip(node.operands, node.labels, strict=True):
            if not isinstance(operand, Einsum) or not self._is_inlined(operand, labels, node):
                result.append((operand, labels))
            else:
                result += opened(operand, labels, fresh_in(sizes))
                self.products.opened.update(self._cores([operand]))
        return result, sizes

    def _is_inlined(self, operand: Einsum, labels: Labels, node: Einsum) -> bool:
        if len(set(labels)) < len(labels):
            return False
        if self.uses[operand] > 1 or len(node.operands) == 1 or is_placing(operand):
            return is_placing(operand)
        return operand.ndim > 2 or (operand.ndim == 2 and self._is_scaled_before(operand, labels, node))

    def _is_scaled_before(self, product: Einsum, labels: Labels, node: Einsum) -> bool:
        """Whether a factor of rows or columns of a product of two matrices is cheaper in one of these."""
        if self.costs is None or not is_contraction(product) or len(set(product.operands)) < 2:
            return False
        for label in {own[0] for own in node.labels if len(own) == 1}.intersection(labels):
            axis = product.output[labels.index(label)]
            homes = [x for x, own in zip(product.operands, product.labels, strict=True) if axis in own]
            plain_homes = [x for x in homes if not isinstance(x, Apply) and not is_index_map(x)]
            if len(plain_homes) == len(homes) == 1 and self._entries(homes[0]) < self._entries(product):
                return True
        return False

    def _entries(self, node: Expr) -> int:
        assert self.costs is not None
        return self.costs.entries(node.shape)
