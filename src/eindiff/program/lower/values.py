"""What a node becomes before it is written: a sum of tensors, each with the places where its entries go.

Deltas, ones and index maps are places, so that a transpose, a factor or a sum around them costs nothing, and an array
with zeros is only made, and filled in place, where someone needs it as an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from eindiff.core import sizes as sz
from eindiff.core.coefficients import ratio
from eindiff.core.groups import grouped
from eindiff.core.labels import Labels, first_appearance, subscripts
from eindiff.core.networks import new_label
from eindiff.core.nodes import Number, number
from eindiff.core.sizes import Shape, Size
from eindiff.planning import tuning
from eindiff.program.lower.indexing import WHOLE, Indexing
from eindiff.program.lower.places import Axis, Index, grid, labels_of, renamed
from eindiff.program.lower.products import Products
from eindiff.program.lower.tensors import Tensor
from eindiff.program.operations import Assignment, Cut, Operation, Operations


@dataclass(frozen=True, slots=True)
class Term:
    """`result[axes] += coefficient * core`, over all values of the labels."""

    coefficient: Number
    core: Tensor
    axes: tuple[Axis, ...]
    sizes: dict[int, Size]  # of labels
    injective: bool = True  # no entry of the result is reached twice

    @property
    def is_plain(self) -> bool:
        """Whether every axis has a label of its own."""
        return len({axis for axis in self.axes if isinstance(axis, int)}) == len(self.axes)


@dataclass(frozen=True, slots=True)
class Value:
    """A sum of terms of one shape."""

    terms: tuple[Term, ...]
    shape: Shape

    def scaled(self, factor: Number, order: Sequence[int]) -> Value:
        """A multiple, with axis `order[k]` as axis k."""
        terms = []
        for term in self.terms:
            axes = tuple([term.axes[axis] for axis in order])
            terms.append(replace(term, coefficient=number(factor * term.coefficient), axes=axes))
        return Value(tuple(terms), tuple([self.shape[axis] for axis in order]))


class Arrays:
    """Makes arrays of values."""

    def __init__(self, operations: Operations, products: Products, indexing: Indexing) -> None:
        self.operations = operations
        self.products = products
        self.indexing = indexing
        self._made: dict[int, tuple[Value, Operation]] = {}  # arrays that were filled: of each value one, for all uses

    def value(self, tensor: Tensor, shape: Shape, coefficient: Number = 1) -> Value:
        """A tensor whose labels are the axes 0, 1, 2, ... of the value."""
        axes = tuple(range(len(shape)))
        return Value((Term(coefficient, tensor, axes, dict(enumerate(shape))),), shape)

    def tensor(self, value: Value) -> tuple[Number, Tensor]:
        """A value as a coefficient and a tensor labelled by axes; it may lack axes along which it is the same."""
        if len(value.terms) == 1 and value.terms[0].is_plain:
            term = value.terms[0]
            axis_of = {label: axis for axis, label in enumerate(term.axes)}
            return term.coefficient, Tensor(term.core.operation, tuple([axis_of[x] for x in term.core.labels]))
        if id(value) not in self._made:
            self._made[id(value)] = value, self._filled(value)
        return 1, Tensor(self._made[id(value)][1], tuple(range(len(value.shape))))

    def array(self, value: Value) -> Operation:
        """A value as an array of its full shape."""
        coefficient, tensor = self.tensor(value)
        return self.full(coefficient, tensor, value.shape)

    def full(self, coefficient: Number, tensor: Tensor, shape: Shape) -> Operation:
        """A multiple of a tensor as an array of a given shape."""
        operation = tensor.operation
        make = self.operations.make
        if tensor.labels or not shape:
            order = tuple(range(len(shape)))
            is_whole = self.has_all(tensor, shape)
            result = self.operations.scale(coefficient, self.products.align(tensor, order, explicit=is_whole))
            if is_whole:
                return result
            return make("repeat", [result], shape, shape=shape)
        if operation.op != "number":
            return make("full", [self.operations.scale(coefficient, operation)], shape, shape=shape)
        content = number(coefficient * operation.parameters[0])
        if content in (0, 1):
            return make("ones" if content else "zeros", parameters=shape, shape=shape)
        filling = self.operations.number(float(content) if isinstance(content, int) else content)
        return make("full", [filling], shape, shape=shape)

    def has_all(self, tensor: Tensor, shape: Shape) -> bool:
        """Whether a tensor has all axes of an array of a given shape but those of one entry."""
        return all(axis in tensor.labels or self.products.is_one(size) for axis, size in enumerate(shape))

    def _identity(self, size: Size) -> Operation:
        return self.operations.make("identity", parameters=(size,), shape=(size, size))

    # Sums

    def add(self, values: Sequence[Value], shape: Shape, hint: Labels, kept: bool = False) -> Value:
        """The sum of values: plain terms become one tensor, the others keep their places.

        Diagonals do so only where it is wanted, or where others have places.
        """
        terms = [term for value in values for term in value.terms if not is_zero(term)]
        whole, placed = _plain_and_placed(self._with_diagonals(terms, shape, kept))
        plain, placed = [self.tensor(Value((term,), shape)) for term in whole], self._gathered(placed)
        if not plain:
            return Value(tuple(placed), shape) if placed else self.value(Tensor(self.operations.number(0), ()), shape)
        if len(plain) == 1:
            dense = self.value(plain[0][1], shape, plain[0][0])
        else:
            order = self._order([tensor for _, tensor in plain], hint)
            total = self._sum(plain, order)
            dense = self.value(Tensor(total, order), shape)
        return Value((*dense.terms, *placed), shape)

    def _with_diagonals(self, terms: list[Term], shape: Shape, kept: bool) -> list[Term]:
        """Terms with diagonal matrices in the place of diagonals, unless these are kept, or put into what is there."""
        if self.products.costs is not None:
            whole, placed = _plain_and_placed(terms)
            if kept or (whole and not self.operations.functional) or not all(map(_is_of_labels, terms)):
                return terms
            terms = [*whole, *self._gathered(placed)]  # on one diagonal they are added up as vectors
        return [self._diagonal(term, shape) for term in terms]

    def _sum(self, tensors: Sequence[tuple[Number, Tensor]], order: Labels) -> Operation:
        explicit = len(order) > 2
        if self._is_spread([tensor for _, tensor in tensors], order):
            tensors = [(c, self._turned(tensor, order)) for c, tensor in tensors]
        return self.operations.plus([(c, self.products.align(tensor, order, explicit)) for c, tensor in tensors])

    def _turned(self, tensor: Tensor, order: Labels) -> Tensor:
        """A small tensor that lies in memory in the given order: what is made of it lies as it does."""
        own = tuple([label for label in order if label in tensor.labels])
        turned = self.products.permute(tensor, own)
        is_view = turned.op in ("transpose", "permute")
        return Tensor(self.operations.make("contiguous", [turned]) if is_view else turned, own)

    def _gathered(self, terms: Sequence[Term]) -> list[Term]:
        """Terms that go to the same places as one term, the sum of their cores."""
        groups: dict[tuple, list[Term]] = {}
        for term in terms:
            names = first_appearance(labels_of(axis) for axis in term.axes)
            axes = tuple([renamed(axis, names) for axis in term.axes])
            core = Tensor(term.core.operation, tuple([names[x] for x in term.core.labels]))
            sizes = {names[x]: term.sizes[x] for x in names}
            same = replace(term, core=core, axes=axes, sizes=sizes)
            groups.setdefault((axes, tuple(sizes.items()), term.injective), []).append(same)
        result = []
        for group in groups.values():
            if len(group) > 1:
                tensors = [(term.coefficient, term.core) for term in group]
                order = self._order([core for _, core in tensors], tuple(group[0].sizes))
                core = Tensor(self._sum(tensors, order), order)
                group = [replace(group[0], coefficient=1, core=core)]
            result += group
        return result

    def _order(self, tensors: Sequence[Tensor], hint: Labels) -> Labels:
        """The order of axes in which most of the tensors need no transpose, or else the one that is asked for.

        NumPy runs along the last axis: where a large array is made of small ones, that is no short one.
        """
        liked = tuple([axis for axis in hint if any(axis in x.labels for x in tensors)])
        natural = [x.labels for x in tensors if x.operation not in self.operations.symmetric]
        orders = [liked, *(permutations(liked) if len(liked) <= 4 else natural)]
        orders = [order for order in orders if len(order) == len(liked)]
        spread = self._is_spread(tensors, liked)

        def score(order: Labels) -> tuple[bool, int]:
            short = [self._length(tensors, label) < tuning.SHORT for label in order] if spread else []
            return short == sorted(short, reverse=True), sum(_is_within(labels, order) for labels in natural)

        return max(orders, key=score)

    def _is_spread(self, tensors: Sequence[Tensor], labels: Labels) -> bool:
        """Whether a large array is made of smaller ones, so that the order of its axes is free."""
        costs = self.products.costs
        if costs is None or self.operations.functional or len(labels) < 3:
            return False
        entries = prod(self._length(tensors, label) for label in labels)
        largest = max(costs.entries(x.operation.shape) for x in tensors)
        return costs.itemsize * entries >= tuning.SPREAD_BYTES and tuning.SHORT * largest <= entries

    def _length(self, tensors: Sequence[Tensor], label: int) -> int:
        assert self.products.costs is not None
        return self.products.costs.evaluate(next(x.size(label) for x in tensors if label in x.labels))

    def _diagonal(self, term: Term, shape: Shape, alone: bool = False) -> Term:
        """A diagonal matrix, which is simple enough to be written as one; `alone` with its coefficient inside."""
        if len(term.axes) != 2 or term.axes[0] != term.axes[1] or not isinstance(term.axes[0], int):
            return term
        if term.core.labels:
            core = term.core.operation
            if alone and self.products.costs is not None:  # a vector is multiplied, not a matrix
                core, term = self.operations.scale(term.coefficient, core), replace(term, coefficient=1)
            operation = self.operations.make("diagonal_matrix", [core], shape=shape)
        else:
            eye, core = self._identity(shape[0]), term.core.operation
            operation = eye if core.op == "number" else self.operations.times([core, eye])
            if core.op == "number":
                term = replace(term, coefficient=number(term.coefficient * core.parameters[0]))
        return Term(term.coefficient, Tensor(operation, (0, 1)), (0, 1), dict(enumerate(shape)))

    # Arrays that are filled in place

    def _filled(self, value: Value) -> Operation:
        shape = value.shape
        if len(value.terms) == 1 and (diagonal := self._diagonal(value.terms[0], shape, alone=True)).is_plain:
            return self.array(Value((diagonal,), shape))
        if (joined := self._concatenated(value)) is not None:
            return joined
        value = self.add([value], shape, tuple(range(len(shape))))
        if len(value.terms) == 1 and value.terms[0].is_plain:
            return self.array(value)
        if self.operations.functional:
            return self._added_up(value)
        assignments: list[Assignment] = []
        dense, placed = _plain_and_placed(value.terms)
        operands = [self.array(Value(tuple(dense), shape))] if dense else []
        if not dense and self.products.costs is not None:  # what is subtracted from zeros would be negated first
            placed.sort(key=lambda term: term.coefficient < 0 or not term.injective)
        for term in placed:
            assignments.append(self._assignment(term, operands, shape, first=not assignments and not dense))
        parameters = (bool(dense), shape, tuple(assignments))
        work = sz.total(self._work(term) for term in value.terms)
        return self.operations.make("fill", operands, parameters, shape=shape, work=work)

    @staticmethod
    def _work(term: Term) -> Size:
        """What putting a term at its places takes."""
        each = 1 if term.injective else 5
        return sz.multiply(each, sz.product(term.sizes[x] for x in term.core.labels))

    def _added_up(self, value: Value) -> Operation:
        """The sum of terms at their places, each as an array of its own: deltas are products with unit matrices."""
        dense, others = _plain_and_placed(value.terms)
        parts = [(number(1), self.array(Value(tuple(dense), value.shape)))] if dense else []
        related = not all(map(_is_of_labels, value.terms))
        placed = []
        for term in others:
            if _is_of_labels(term) and not (related and len(term.axes) == 2):
                parts.append((term.coefficient, self._with_units(term, value.shape)))
            else:
                placed.append(term)
        tiles, placed = self._tiled(placed, value.shape)
        result = self.operations.plus([*parts, *tiles]) if parts or tiles else None
        for term in placed:
            result = self._put(term, value.shape, result)
        assert result is not None
        return result

    def _with_units(self, term: Term, shape: Shape) -> Operation:
        """A term without its coefficient, whose deltas are unit matrices: as few as there are runs of equal axes."""
        joined = self._joined(term)
        if joined.axes != term.axes:
            sizes = tuple([joined.sizes[label] for label in joined.axes if isinstance(label, int)])
            diagonal = self._diagonal(replace(joined, coefficient=1), sizes)
            plain = self.array(Value((diagonal,), sizes)) if diagonal.is_plain else self._with_units(joined, sizes)
            return self._reshaped(plain, shape)
        first: dict[int, int] = {}
        factors = []
        for place, label in enumerate(term.axes):
            assert isinstance(label, int)
            if label in first:
                factors.append(Tensor(self._identity(shape[place]), (first[label], place)))
            first.setdefault(label, place)
        core = Tensor(term.core.operation, tuple([first[label] for label in term.core.labels]))
        whole = self.products.product([core, *factors], tuple(range(len(shape))))
        return self.full(1, whole, shape)

    def _joined(self, term: Term) -> Term:
        """A term with those axes as one that follow each other wherever they are: (i, j, i, j) is (k, k)."""
        labels = [x for x in term.axes if isinstance(x, int)]
        places = grouped((label, place) for place, label in enumerate(labels))
        runs: list[list[int]] = []
        for label, found in places.items():
            last = runs[-1][-1] if runs else -1
            follows = len(found) > 1 and places.get(last) == [place - 1 for place in found]
            if follows and (last in term.core.labels) == (label in term.core.labels):
                runs[-1].append(label)
            else:
                runs.append([label])
        sizes = {run[0]: sz.product([term.sizes[label] for label in run]) for run in runs}
        own = tuple([label for label in places if label in term.core.labels])
        kept = tuple([label for label in own if label in sizes])
        core = self._reshaped(self.products.permute(term.core, own), tuple([sizes[label] for label in kept]))
        return replace(term, core=Tensor(core, kept), axes=tuple([x for x in labels if x in sizes]), sizes=sizes)

    def _put(self, term: Term, shape: Shape, base: Operation | None) -> Operation:
        """A term at places that are slices or arrays of indices, added to what is there."""
        blocks = [None if isinstance(x, int) else grid(x, n, term.sizes) for x, n in zip(term.axes, shape, strict=True)]
        if any(blocks):
            return self._put_block(term, blocks, shape, base)
        cuts, order, places = self._target(term, shape)
        if not cuts and not places:
            places = [self.indexing.array_of(axis, order, term.sizes) for axis in term.axes]
        core = self.operations.scale(term.coefficient, self.products.align(term.core, order))
        operands = [core, *places] if base is None else [core, *places, base]
        parameters = (shape, cuts, base is not None)
        return self.operations.make("put", operands, parameters, shape=shape, work=sz.product(shape))

    def _put_block(
        self, term: Term, blocks: Sequence[list[tuple[int, Index]] | None], shape: Shape, base: Operation | None
    ) -> Operation:
        """A term at blocks of grids that axes are row by row: at slices of the reshaped array."""
        axes: list[Axis] = []
        grown: list[Size] = []
        for axis, size, block in zip(term.axes, shape, blocks, strict=True):
            axes += [axis] if block is None else [index for _, index in block]
            grown += [size] if block is None else [length for length, _ in block]
        labels = [x for axis in axes for x in labels_of(axis)]
        injective = term.injective or len(set(labels)) == len(labels)  # of a block no two entries go to one place
        below = base and self._reshaped(base, tuple(grown))
        placed = replace(term, axes=tuple(axes), injective=injective)
        return self._reshaped(self._put(placed, tuple(grown), below), shape)

    def _reshaped(self, x: Operation, shape: Shape) -> Operation:
        """An array in another shape; only the last one of several counts."""
        if x.op == "reshape":
            [x] = x.operands
        return x if x.shape == shape else self.operations.make("reshape", [x], shape, shape=shape)

    def _tiled(self, terms: Sequence[Term], shape: Shape) -> tuple[list[tuple[Number, Operation]], list[Term]]:
        """Groups of terms that lie side by side and together fill an axis, as what `roll` makes, each as one array;
        and the terms that are left."""
        found, left = [], list(terms)
        for axis, size in enumerate(shape):
            pieces = [(start, term) for term in left if (start := _start_of(term, axis)) is not None]
            while (row := _row(pieces, axis, size)) is not None:
                pieces = [piece for piece in pieces if piece not in row]
                left = [term for term in left if all(term is not other for _, other in row)]
                factor = row[0][1].coefficient
                if any(term.coefficient != factor for _, term in row):
                    factor = 1
                arrays = [self._piece(replace(x, coefficient=ratio(x.coefficient, factor)), axis) for _, x in row]
                found.append((factor, self.operations.make("concatenate", arrays, (axis,), shape=shape)))
        return found, left

    def _piece(self, term: Term, axis: int) -> Operation:
        """A term that lies at some entries of an axis as an array of these alone."""
        sizes, index = dict(term.sizes), term.axes[axis]
        label = new_label(sizes, 1) if not labels_of(index) else labels_of(index)[0]
        axes = (*term.axes[:axis], label, *term.axes[axis + 1 :])
        shape = tuple([sizes[x] for x in axes if isinstance(x, int)])
        return self.array(Value((replace(term, axes=axes, sizes=sizes),), shape))

    def _concatenated(self, value: Value) -> Operation | None:
        """Terms that lie side by side along one axis and together fill it."""
        axes = {axis for term in value.terms for axis, index in enumerate(term.axes) if not isinstance(index, int)}
        found = [_start_along(term, min(axes)) for term in value.terms] if len(axes) == 1 else [None]
        if None in found:
            return None
        starts, [axis], parts = dict(zip(found, value.terms, strict=True)), axes, []
        size: Size = 0
        while size in starts:
            term = starts.pop(size)
            labels = [labels_of(index)[0] for index in term.axes]
            shape = tuple([term.sizes[label] for label in labels])
            parts.append(self.array(Value((replace(term, axes=tuple(labels)),), shape)))
            size = sz.add(size, shape[axis])
        if starts or size != value.shape[axis] or len(parts) != len(value.terms):
            return None
        return self.operations.make("concatenate", parts, (axis,), shape=value.shape)

    def _assignment(self, term: Term, operands: list[Operation], shape: Shape, first: bool) -> Assignment:
        """How one term is put into an array, or added to what is there."""
        sign = "=" if first and term.injective else "-=" if term.coefficient < 0 else "+="
        coefficient = -term.coefficient if sign == "-=" else term.coefficient
        cuts, order, places = self._target(term, shape)
        core = self.products.align(term.core, order)
        if places and (window := self._window(term, shape)):
            operands.append(self.operations.scale(coefficient, core))
            return "window", sign, (window, subscripts([sum(map(labels_of, term.axes), ())], order)), 0
        if not term.injective:
            core, places = self._spread(core, term, order, places, shape)
        operands += [self.operations.scale(coefficient, core), *places]
        if not term.injective:
            return "at", sign, (), len(places)
        if not cuts and not places:
            return "diagonal", sign, subscripts([sum(map(labels_of, term.axes), ())], order), 0
        return "cuts" if cuts else "places", sign, cuts, len(places)

    def _window(self, term: Term, shape: Shape) -> tuple[Cut, ...]:
        """A cut for each axis, of which a term is a diagonal, as entries beside the diagonal of a matrix are."""
        if not term.injective or self.products.costs is None or any(len(labels_of(axis)) > 1 for axis in term.axes):
            return ()
        cuts = [self._cut(axis, size, term) for axis, size in zip(term.axes, shape, strict=True)]
        return tuple([cut for cut in cuts if cut is not None]) if None not in cuts else ()

    def _spread(
        self, core: Operation, term: Term, order: Labels, places: list[Operation], shape: Shape
    ) -> tuple[Operation, list[Operation]]:
        """Entries that may go to equal places, one for each place; in programs that run these are counted flat."""
        spread = tuple([term.sizes[label] for label in order])
        if 0 < len(term.core.labels) < len(order):
            core = self.operations.make("broadcast", [core], spread, shape=spread)
        if self.products.costs is not None:
            places = [self.operations.make("flat", places, shape, shape=(sz.product(spread),))]
        return core, places

    def _target(self, term: Term, shape: Shape) -> tuple[tuple[Cut, ...], Labels, list[Operation]]:
        """Where a term goes: a cut for each axis, or else index arrays (neither where all axes are labels).

        Between the two, the order of axes in which the term is wanted there.
        """
        distinct = tuple(dict.fromkeys([x for axis in term.axes for x in labels_of(axis)]))
        if term.injective and all(isinstance(axis, int) for axis in term.axes):
            return (), distinct, []
        if term.injective and len(distinct) == sum(len(labels_of(axis)) for axis in term.axes):
            cuts = [self._cut(axis, size, term) for axis, size in zip(term.axes, shape, strict=True)]
            if (found := [cut for cut in cuts if cut is not None]) == cuts:
                return tuple(found), distinct, []
        return (), distinct, [self.indexing.array_of(axis, distinct, term.sizes) for axis in term.axes]

    def _cut(self, axis: Axis, size: Size, term: Term) -> Cut | None:
        if isinstance(axis, int):
            return WHOLE
        if self.operations.functional and not axis.labels and axis.table is None:
            return axis.offset  # helpers count from the start
        return self.indexing.cut(axis, size, term.sizes)


def _plain_and_placed(terms: Iterable[Term]) -> tuple[list[Term], list[Term]]:
    """The terms that are plain, and the others."""
    plain: list[Term] = []
    placed: list[Term] = []
    for term in terms:
        (plain if term.is_plain else placed).append(term)
    return plain, placed


def _is_of_labels(term: Term) -> bool:
    """Whether all axes of a term are labels."""
    return all(isinstance(axis, int) for axis in term.axes)


def is_zero(term: Term) -> bool:
    """Whether a term is the number 0."""
    return term.coefficient == 0 or (term.core.operation.op == "number" and term.core.operation.parameters[0] == 0)


def _start_along(term: Term, along: int) -> Size | None:
    """Where a term begins along one axis, if it lies there entry by entry, and has other labels on other axes."""
    labels = [x for axis in term.axes for x in labels_of(axis)]
    index = term.axes[along]
    if isinstance(index, int) or index.table is not None or not len(term.axes) == len(labels) == len(set(labels)):
        return None
    return index.offset if index.strides[0][1] == 1 else None


def _start_of(term: Term, along: int) -> int | None:
    """Where a term begins along one axis, if that is known and it has labels of their own on all others."""
    index, others = term.axes[along], [axis for k, axis in enumerate(term.axes) if k != along]
    if isinstance(index, int) or index.table is not None or not term.injective:
        return None
    if not all(isinstance(axis, int) for axis in others):
        return None
    labels = [*others, *labels_of(index)]
    fits = len(set(labels)) == len(labels) and [stride for _, stride in index.strides] in ([], [1])
    return index.offset if fits and isinstance(index.offset, int) else None


def _row(pieces: Sequence[tuple[int, Term]], axis: int, size: Size) -> list[tuple[int, Term]] | None:
    """Several pieces, one beside the other, from the beginning of an axis to its end."""
    rows: list[tuple[int, list[tuple[int, Term]]]] = [(0, [])]
    while rows:
        end, row = rows.pop()
        if end == size and len(row) > 1:
            return row
        for start, term in pieces:
            labels = labels_of(term.axes[axis])
            length = term.sizes[labels[0]] if labels else 1
            if start == end and isinstance(length, int) and length:
                rows.append((end + length, [*row, (start, term)]))
    return None


def _is_within(labels: Labels, order: Labels) -> bool:
    """Whether labels come in the given order."""
    return labels == tuple([label for label in order if label in labels])
