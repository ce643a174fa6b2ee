"""A term of a derivative's value: small arrays, and a pattern that says where their products go.

The Hessian of a matrix factorization is `jk->ijik` of one k×k core: the identity along i is never formed. The one of a
net by its first layer is `bj,bkl,bm->jkml`: the product is left factored, because that is smaller and faster to use.
Whatever is asked of a term (a product with a vector, its diagonal, its transpose) is again a contraction of its arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from eindiff.core.labels import Labels, UnionFind, subscripts
from eindiff.planning.contraction_order import contraction_path, path_flops
from eindiff.program.foreign_arrays import to_numpy
from eindiff.program.interpreter import expand
from eindiff.structure.places import Axis, Place, add_at, has_table, index_of, labels_of, listed, meeting, read

Array = np.ndarray
Operand = tuple[Array, Labels]

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Term:
    """`coefficient * product of arrays`, summed over the labels that are not in the output.

    A label that is in the output twice is a delta; one that no array has is a vector of ones. A label of the output
    that is the target of a place is a function of others; no array has it, and it is there once. For arrays that are
    inverses, `inverses` has what they are inverses of.

    >>> x = ed.vector("x", "n")
    >>> H = ed.structured(ed.hessian(ed.sum(x**3), x), {"x": np.array([1.0, 2.0])})
    >>> H.terms[0].output
    (0, 0)

    See also: `Derivative`.
    """

    coefficient: float
    arrays: tuple[Array, ...]
    labels: tuple[Labels, ...]
    output: Labels
    sizes: Mapping[int, int]
    inverses: tuple[Array | None, ...] = ()
    places: tuple[Place, ...] = ()

    @property
    def subscripts(self) -> str:
        """The pattern in the notation of einsum."""
        return subscripts(self.labels, self.output, ALPHABET)

    def axes(self, labels: Labels | None = None) -> list[Axis]:
        """The axes of the output, or some of them: labels, or places."""
        found: dict[int, Place] = {place.target: place for place in self.places}
        return [found.get(x, x) for x in (self.output if labels is None else labels)]

    @property
    def operands(self) -> list[Operand]:
        """The arrays with their labels."""
        return list(zip(self.arrays, self.labels, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole term."""
        return tuple([self.sizes[label] for label in self.output])

    @property
    def has_tables(self) -> bool:
        """Whether tables say where some of its entries go."""
        return any(map(has_table, self.places))

    @property
    def entry_count(self) -> int:
        """How many entries of the matrix it adds to."""
        return prod(self.sizes[x] for x in labels_of(self.axes()))

    @property
    def bound(self) -> set[int]:
        """The labels that arrays have, or places are functions of."""
        return {label for labels in (*self.labels, *(place.sources for place in self.places)) for label in labels}

    def to_dense(self, output: Labels | None = None, more: Mapping[int, int] | None = None) -> Array:
        """The term as one array (it may be a view), with the axes of its output or other ones, of sizes in `more`."""
        sizes = {**more, **self.sizes} if more else self.sizes
        output = self.output if output is None else output
        if not self.places:
            value = _contract(self.operands, output, sizes)
            return value if self.coefficient == 1 else self.coefficient * value
        dense = np.zeros([sizes[x] for x in output], np.result_type(*self.arrays) if self.arrays else np.float64)
        self.add_to(dense, self.axes(output), sizes)
        return dense

    def values(self, at: Mapping[int, int] | None = None) -> Array:
        """The entries that may differ from zero, over the labels that the axes are made of; some of these may have an
        index, and are left out."""
        at = at or {}
        labels = tuple([x for x in labels_of(self.axes()) if x not in at])
        if not self.arrays:
            return np.broadcast_to(self.coefficient, [self.sizes[x] for x in labels])
        operands = [_at_index(*operand, at) for operand in self.operands] if at else self.operands
        values = _contract(operands, labels, self.sizes)
        return values if self.coefficient == 1 else self.coefficient * values

    def square_sum(self) -> float:
        """The sum of the squares of these entries."""
        labels = labels_of(self.axes())
        if not self.bound.issubset(labels):
            values = self.values().reshape(-1)
            return float(np.dot(values, values))
        alone = set(labels).difference(*self.labels)
        if len(self.arrays) == 1 and len(set(self.labels[0])) == len(self.labels[0]):
            total = float(np.vdot(self.arrays[0], self.arrays[0]))
            return self.coefficient**2 * total * prod(self.sizes[x] for x in alone)
        squares = [(array * array, own) for array, own in self.operands]
        total = float(_contract(squares, (), self.sizes)) if squares else 1.0
        return self.coefficient**2 * total * prod(self.sizes[x] for x in alone)

    def add_to(self, total: Array, axes: Sequence[Axis], sizes: Mapping[int, int]) -> None:
        """Add the entries to an array with some axes, made of labels of the term."""
        inner = labels_of(axes)
        add_at(total, axes, self.coefficient * _contract(self.operands, inner, sizes), inner, sizes)

    def apply(self, x: Array, split: int) -> Array:
        """The product with some vectors: x has the last axes of the term (from `split` on), and one of its own."""
        fresh = 1 + max(self.sizes, default=0)
        sizes = {**self.sizes, fresh: x.shape[-1]}
        vectors = read(x, [*self.axes(self.output[split:]), fresh], sizes) if self.places else (
            x, (*self.output[split:], fresh)
        )  # fmt: skip
        rows = (*self.output[:split], fresh)
        axes = self.axes(rows)
        if not any(isinstance(axis, Place) for axis in axes):
            return self.coefficient * _contract([*self.operands, vectors], rows, sizes)
        inner = labels_of(axes)
        total = np.zeros([sizes[label] for label in rows], np.result_type(x, *self.arrays))
        add_at(total, axes, self.coefficient * _contract([*self.operands, vectors], inner, sizes), inner, sizes)
        return total

    def apply_flops(self, split: int) -> float:
        """Operations of a product with one vector."""
        rows, columns = (labels_of(self.axes(half)) for half in (self.output[:split], self.output[split:]))
        inputs = [*self.labels, columns]
        output = tuple([x for x in rows if x in self.bound | set(columns)])
        return path_flops(inputs, output, self.sizes, contraction_path(inputs, output, self.sizes))

    def diagonal(self, split: int) -> Array:
        """The entries whose first axes are the same as the last ones."""
        united = self.united(
            (a, b) for a, b in zip(self.output[:split], self.output[split:], strict=True)
            if not self._are_targets(a, b)
        )  # fmt: skip
        rows, columns = (united.axes(half) for half in (united.output[:split], united.output[split:]))
        if not united.places:
            return united.to_dense(united.output[:split])
        total = np.zeros([united.sizes[x] for x in united.output[:split]], np.result_type(1.0, *self.arrays))
        met = meeting([(a, b) for a, b in zip(rows, columns, strict=True) if a != b], united.sizes)
        if met is not None:
            united._add_listed(total, rows, met)
        return total

    def _are_targets(self, *labels: int) -> bool:
        return any(place.target in labels for place in self.places)

    def _add_listed(self, total: Array, axes: Sequence[Axis], met: dict[int, Array]) -> None:
        """Add the entries at a list of indices of some labels to an array; if it is empty, all entries."""
        if not met:
            self.add_to(total, axes, self.sizes)
            return
        half = [x for axis in axes if isinstance(axis, Place) and set(axis.sources) & set(met) for x in axis.sources]
        count = len(next(iter(met.values())))
        met, count = listed(tuple(half), met, count, self.sizes)
        fresh = 1 + max(self.sizes, default=0)
        operands = [_at_list(*operand, met, fresh) for operand in self.operands]
        places: list[Axis] = []
        for k, axis in enumerate(axes):
            inside = set(labels_of([axis])) <= set(met)
            table = np.broadcast_to(index_of(axis, met), count) if inside else None
            places.append(axis if table is None else Place(fresh + 1 + k, (fresh,), table=table))
        arrays, labels = tuple([array for array, _ in operands]), tuple([own for _, own in operands])
        term = replace(self, arrays=arrays, labels=labels, inverses=())
        term.add_to(total, places, {**self.sizes, fresh: count})

    def united(self, pairs: Iterable[tuple[int, int]]) -> Term:
        """The term with some labels made the same."""
        sets = UnionFind()
        for a, b in pairs:
            sets.unite(a, b)
        return self.renamed({label: sets.find(label) for label in self.sizes})

    def renamed(self, names: Mapping[int, int]) -> Term:
        """The term with other labels."""

        def rename(labels: Labels) -> Labels:
            return tuple([names[x] for x in labels])

        sizes = {names[label]: size for label, size in self.sizes.items()}
        labels = tuple([rename(ls) for ls in self.labels])
        places = tuple([place.renamed(names) for place in self.places])
        return replace(self, labels=labels, output=rename(self.output), sizes=sizes, places=places)

    def with_output(self, output: Labels) -> Term:
        """The term with other axes."""
        return replace(self, output=output)

    def transposed(self, split: int) -> Term:
        """The term with its last axes first."""
        return self.with_output(self.output[split:] + self.output[:split])

    def part(self, which: Sequence[int], output: Labels) -> Term:
        """The product of some of the arrays."""
        inverses = tuple([self.inverses[k] for k in which]) if self.inverses else ()
        arrays, labels = tuple([self.arrays[k] for k in which]), tuple([self.labels[k] for k in which])
        return Term(1.0, arrays, labels, output, self.sizes, inverses)

    def in_numpy(self) -> Term:
        """The term with arrays of NumPy, whatever library they are of."""
        if all(type(array) is np.ndarray for array in self.arrays):
            return self
        inverses = tuple([None if x is None else to_numpy(x) for x in self.inverses])
        return replace(self, arrays=tuple([to_numpy(array) for array in self.arrays]), inverses=inverses)

    def astype(self, dtype: np.dtype) -> Term:
        """The term with arrays of another type; inverses are as accurate as that is."""
        arrays = [array.astype(dtype, copy=False) for array in self.arrays]
        for k, matrix in enumerate(self.inverses):
            if matrix is not None:
                arrays[k] = _refined_inverse(arrays[k], matrix.astype(dtype, copy=False))
        return replace(self, arrays=tuple(arrays), inverses=())

    def absolute(self) -> Term:
        """The term with the absolute values of all entries."""
        arrays = tuple([np.abs(array) for array in self.arrays])
        return replace(self, coefficient=abs(self.coefficient), arrays=arrays, inverses=())

    def inverted(self) -> Term | None:
        """The term of which this one is the inverse, up to its coefficient, if it is a matrix that is known to be one.

        There may be more axes, along which there are several.
        """
        if (
            len(self.output) != 2
            or len(self.arrays) != 1
            or self.places
            or not self.inverses
            or self.inverses[0] is None
        ):
            return None
        [labels] = self.labels
        if set(labels[-2:]) != set(self.output) or len(set(labels)) < len(labels):
            return None
        return replace(self, coefficient=1.0, arrays=(self.inverses[0],), inverses=())

    def scaled(self, factor: float) -> Term:
        """A multiple of the term."""
        return replace(self, coefficient=self.coefficient * factor)


def _refined_inverse(inverse: Array, matrix: Array) -> Array:
    """An inverse with its error `I − A X` taken out, twice."""
    for _ in range(2):
        inverse = inverse + inverse @ (np.eye(matrix.shape[-1], dtype=matrix.dtype) - matrix @ inverse)
    return inverse


def identity(shape: Sequence[int], factor: float = 1.0) -> Term:
    """A multiple of the identity, for tensors of some shape."""
    axes = tuple(range(len(shape)))
    return Term(factor, (), (), axes + axes, dict(enumerate(shape)))


def inner_product(one: Term, other: Term) -> float:
    """The sum of the products of entries of two terms of the same shape."""
    first = 1 + max(one.sizes, default=0)
    moved = other.renamed({label: first + k for k, label in enumerate(other.sizes)})
    labels = one.labels + moved.labels
    both = Term(1.0, one.arrays + other.arrays, labels, one.output + moved.output, {**one.sizes, **moved.sizes})
    united = both.united(zip(one.output, moved.output, strict=True))
    distinct = tuple(dict.fromkeys(united.output))
    unbound = prod(united.sizes[label] for label in distinct if label not in united.bound)
    total = _contract(united.operands, (), united.sizes) if united.arrays else np.asarray(1.0)
    return float(one.coefficient * other.coefficient * unbound * total)


def nbytes(terms: Iterable[Term]) -> int:
    """The bytes of all different arrays of some terms."""
    return sum({id(x): x.nbytes for term in terms for x in term.arrays}.values())


def _contract(operands: Sequence[Operand], output: Labels, sizes: Mapping[int, int]) -> Array:
    """The sum of products of arrays, pair by pair as matrix products; the output may have deltas and unbound labels."""
    bound = {label for _, labels in operands for label in labels}
    core = tuple([label for label in dict.fromkeys(output) if label in bound])
    remaining = [_without_repeats(*operand) for operand in operands]
    path = contraction_path([labels for _, labels in remaining], core, sizes)
    for pair in path:
        taken = [remaining[k] for k in pair]
        remaining = [operand for k, operand in enumerate(remaining) if k not in pair]
        kept = set(core).union(*(labels for _, labels in remaining))
        remaining.append(_pair(taken[0], taken[1], kept))
    if not remaining:
        return expand(np.asarray(1.0), (), output, sizes)
    array, labels = _summed(*remaining[0], set(core))
    return expand(array.transpose([labels.index(label) for label in core]), core, output, sizes)


def _at_list(array: Array, labels: Labels, met: Mapping[int, Array], fresh: int) -> Operand:
    """An array at a list of indices of some labels, which are one new label."""
    if not set(labels) & set(met):
        return array, labels
    order = sorted(range(len(labels)), key=lambda k: labels[k] not in met)
    at = tuple([met[labels[k]] for k in order if labels[k] in met])
    return array.transpose(order)[at], (fresh, *(labels[k] for k in order if labels[k] not in met))


def is_finite(x: Array) -> bool:
    """Whether all entries are numbers. If the sum of their squares is one, which takes no array to find, they are."""
    return bool(x.flags.c_contiguous and np.isfinite(np.vdot(x, x))) or bool(np.isfinite(x).all())


def _at_index(array: Array, labels: Labels, at: Mapping[int, int]) -> Operand:
    """An array at one index of some labels."""
    return array[tuple([at.get(x, slice(None)) for x in labels])], tuple([x for x in labels if x not in at])


def _without_repeats(array: Array, labels: Labels) -> Operand:
    distinct = tuple(dict.fromkeys(labels))
    if len(distinct) == len(labels):
        return array, labels
    names = {label: k for k, label in enumerate(distinct)}
    return np.einsum(array, [names[label] for label in labels], list(range(len(distinct)))), distinct


def _summed(array: Array, labels: Labels, kept: set[int]) -> Operand:
    """An array with its sum over the labels that are not kept."""
    gone = tuple([axis for axis, label in enumerate(labels) if label not in kept])
    return (array.sum(axis=gone), tuple([label for label in labels if label in kept])) if gone else (array, labels)


def _spread(array: Array, labels: Labels, order: Labels) -> Array:
    """An array with its axes in some order, and axes of length 1 for the labels that it does not have."""
    turned = array.transpose([labels.index(x) for x in order if x in labels])
    lengths = iter(turned.shape)
    return turned.reshape([next(lengths) if x in labels else 1 for x in order])


def _pair(one: Operand, other: Operand, kept: set[int]) -> Operand:
    """The product of two arrays, summed over what is not kept, as a stack of matrix products."""
    (a, a_labels), (b, b_labels) = (_summed(*x, kept | set(y[1])) for x, y in ((one, other), (other, one)))
    stack = tuple([x for x in a_labels if x in b_labels and x in kept])
    summed = tuple([x for x in a_labels if x in b_labels and x not in kept])
    left = tuple([x for x in a_labels if x not in b_labels])
    right = tuple([x for x in b_labels if x not in a_labels])
    everything = stack + left + right
    if not summed:
        return _spread(a, a_labels, everything) * _spread(b, b_labels, everything), everything
    size = dict(zip(a_labels + b_labels, a.shape + b.shape, strict=True))

    def matrix(array: Array, labels: Labels, rows: Labels, columns: Labels) -> Array:
        turned = array.transpose([labels.index(x) for x in stack + rows + columns])
        return turned.reshape(*(size[x] for x in stack), prod(size[x] for x in rows), prod(size[x] for x in columns))

    result = matrix(a, a_labels, left, summed) @ matrix(b, b_labels, summed, right)
    return result.reshape([size[x] for x in everything]), everything
