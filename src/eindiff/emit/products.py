"""Products and contractions as a person writes them: `*` with broadcasting, `@`, sums, solves, and einsum for the rest.

Sizes are not known when the source is written, so operands are multiplied in order of increasing tensor order (the
paper's rule); where that would form something of higher order, one einsum with `optimize=True` chooses the order when
it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eindiff import sizes as sz
from eindiff.emit.operations import ATOMS, Operation, Operations
from eindiff.labels import Labels, first_appearance
from eindiff.order import Path, contraction_path, tensor_order_path
from eindiff.sizes import Size

LETTERS = "ijklmnopqrstuvwxyzabcdefghABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operation and the labels of its axes."""

    operation: Operation
    labels: Labels


def letters(groups: Sequence[Labels], output: Labels) -> str:
    """The subscripts of an einsum.

    >>> letters([(3, 5), (5,)], (3,))
    'ij,j->i'
    """
    names = first_appearance([*groups, output])
    inputs = ",".join("".join(LETTERS[names[x]] for x in labels) for labels in groups)
    return f"{inputs}->{''.join(LETTERS[names[x]] for x in output)}"


class Products:
    """Multiplies tensors; results carry their labels in the order that is natural for the operation."""

    def __init__(self, operations: Operations, typical: Mapping[str, int]) -> None:
        self.operations = operations
        self.typical = typical

    # One tensor

    def permute(self, x: Tensor, order: Labels) -> Operation:
        """The tensor with its axes in another order."""
        if x.labels == order:
            return x.operation
        if len(order) == 2:
            return self.operations.transpose(x.operation)
        axes = ", ".join(str(x.labels.index(label)) for label in order)
        return self.operations.make(f"{{0}}.transpose({axes})", [x.operation], [ATOMS], cheap=True, view=True)

    def align(self, x: Tensor, order: Labels, explicit: bool = False) -> Operation:
        """The tensor as it broadcasts against one with axes `order`; leading axes are shown only on demand."""
        present = tuple([label for label in order if label in x.labels])
        turned = self.permute(x, present)
        while order and order[0] not in present and not (explicit and present):
            order = order[1:]
        if order == present:
            return turned
        index = ", ".join(":" if label in present else "None" for label in order)
        return self.operations.make(f"{{0}}[{index}]", [turned], [ATOMS], cheap=True, view=True)

    def reduce(self, x: Tensor, kept: Collection[int]) -> Tensor:
        """Diagonals taken where labels repeat, and sums over the labels that are not kept."""
        distinct = tuple(dict.fromkeys(x.labels))
        result = tuple([label for label in distinct if label in kept])
        make = self.operations.make
        if len(distinct) < len(x.labels):
            if len(x.labels) == 2:
                text = "np.diag({0})" if result else "np.trace({0})"
            else:
                text = f'np.einsum("{letters([x.labels], result)}", {{0}})'
            return Tensor(make(text, [x.operation], view=bool(result)), result)
        if result == distinct:
            return x
        if not result:
            return Tensor(make("np.sum({0})", [x.operation]), ())
        axes = [axis for axis, label in enumerate(x.labels) if label not in kept]
        text = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        return Tensor(make(f"np.sum({{0}}, axis={text})", [x.operation]), result)

    # Elementwise products

    def product(self, factors: Sequence[Tensor], hint: Labels) -> Tensor:
        """The product without any sum: factors over few labels are multiplied first and then broadcast."""
        groups: dict[frozenset[int], list[Tensor]] = {}
        for factor in factors:
            groups.setdefault(frozenset(factor.labels), []).append(factor)
        for labels in sorted(groups, key=len):
            larger = [other for other in groups if labels < other]
            if larger:
                home = min(larger, key=len)
                groups[home] = self._halves(labels, groups.pop(labels)) + groups[home]
        whole = [self._one_set(labels, group) for labels, group in groups.items()]
        if len(whole) == 1:
            return whole[0]
        order = tuple([label for label in hint if any(label in x.labels for x in whole)])
        whole.sort(key=lambda x: min([order.index(label) for label in x.labels], default=0))
        if len(whole) == len(order) == 2:
            return Tensor(self.operations.make("np.outer({0}, {1})", [x.operation for x in whole]), order)
        return self.einsum(whole, order) if len(order) > 2 else self._broadcast(whole, order)

    def _broadcast(self, factors: Sequence[Tensor], order: Labels) -> Tensor:
        return Tensor(self.operations.times([self.align(x, order) for x in factors]), order)

    def _halves(self, labels: Collection[int], group: list[Tensor]) -> list[Tensor]:
        """The numerator and the denominator of factors over one set of labels, each as one factor."""
        order = _usual_order(labels, group)
        above, below = self._numerator_and_denominator(group, order)
        result = [Tensor(self.operations.times(above), order)] if above else []
        if below:
            result.append(Tensor(self.operations.quotient(1, [], below), order))
        return result

    def _one_set(self, labels: Collection[int], group: list[Tensor]) -> Tensor:
        """The product of factors over (subsets of) one set of labels, in the order that most of them have."""
        order = _usual_order(labels, group)
        above, below = self._numerator_and_denominator(group, order)
        return Tensor(self.operations.quotient(1, above, below), order)

    def _numerator_and_denominator(self, group: list[Tensor], order: Labels) -> tuple[list[Operation], list[Operation]]:
        above, below = [], []
        for x in sorted(group, key=_reading_order):
            if x.operation.role[:1] == ("reciprocal",):
                below.append(self.align(Tensor(x.operation.role[1], x.labels), order))
            else:
                above.append(self.align(x, order))
        return above, below

    # Contractions

    def contract(self, factors: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]) -> Tensor:
        """The sum of products over the labels that are not in `kept`, which is also the order that is liked best."""
        scalars = [x for x in factors if not x.labels]
        if scalars and len(scalars) < len(factors):
            return self.product([*scalars, self.contract([x for x in factors if x.labels], kept, sizes)], kept)
        if all(set(x.labels) <= set(kept) and len(set(x.labels)) == len(x.labels) for x in factors):
            return self.product(factors, kept)
        terms = self._reduced(self._merged([*factors], kept), kept)
        place = {label: k for k, label in enumerate(kept)}
        terms.sort(key=lambda x: (len(x.labels), -max([place.get(label, -1) for label in x.labels], default=-1)))
        for i, j in self._path([x.labels for x in terms], kept, sizes):
            rest = [x for k, x in enumerate(terms) if k not in (i, j)]
            needed = set(kept).union(*(x.labels for x in rest))
            result = [label for label in {*terms[i].labels, *terms[j].labels} if label in needed]
            if rest and len(result) > max(2, len(terms[i].labels), len(terms[j].labels)):
                return self.einsum(terms, kept)
            terms = [*rest, self.pair(terms[i], terms[j], needed, kept)]
        return terms[0]

    def _path(self, inputs: Sequence[Labels], kept: Labels, sizes: Mapping[int, Size]) -> Path:
        """The order of multiplication: the best one for typical sizes, or else by increasing tensor order."""
        names = {name for labels in inputs for label in labels for name in sz.names(sizes[label])}
        if not self.typical or names - set(self.typical):
            return tensor_order_path(inputs, kept)
        known = {label: sz.evaluate(sizes[label], self.typical) for labels in inputs for label in labels}
        return contraction_path(inputs, kept, known)

    def _reduced(self, terms: list[Tensor], kept: Labels) -> list[Tensor]:
        """What only one tensor has is summed first."""
        uses = Counter(label for x in terms for label in set(x.labels))
        return [self.reduce(x, [label for label in x.labels if uses[label] > 1 or label in kept]) for x in terms]

    def _merged(self, terms: list[Tensor], kept: Labels) -> list[Tensor]:
        """Tensors over the same labels are multiplied first; the last of a sum of vectors stays apart, for `@`."""
        groups: dict[frozenset[int], list[Tensor]] = {}
        for x in terms:
            groups.setdefault(frozenset(x.labels), []).append(x)
        result = []
        for labels, group in groups.items():
            alone = len(labels) == 1 and not any(labels & other for other in groups if other != labels)
            if len(group) == 1 or any(len(x.labels) > len(labels) for x in group):
                result += group
            elif alone and not labels & set(kept):
                result += self._two_vectors(group, kept)
            else:
                result.append(self.product(group, kept))
        return result

    def _two_vectors(self, group: list[Tensor], kept: Labels) -> list[Tensor]:
        """Vectors as one product and a last one that occurs once, for `a**2 @ b`."""
        counts = Counter(group)
        last = min(group, key=lambda x: (counts[x], x.operation.role[:1] == ("reciprocal",)))
        first = [*group]
        first.remove(last)
        return [self.product(first, kept), last]

    def pair(self, a: Tensor, b: Tensor, kept: Collection[int], hint: Labels) -> Tensor:
        """The product of two tensors with a sum over what they share and is not kept."""
        shared = set(a.labels) & set(b.labels)
        summed = shared - set(kept)
        if not summed:
            return self.product([a, b], _extended(hint, a.labels + b.labels))
        if len(summed) == 1 and shared == summed:
            if (found := self._solve(a, b, *summed) or self._solve(b, a, *summed)) is not None:
                return found
            if len(a.labels) <= 2 and len(b.labels) <= 2:
                [label] = summed
                return self._matrix_product(a, b, label, hint)
        if len(summed) == 1 and (found := self._stacked(a, b, *summed) or self._stacked(b, a, *summed)) is not None:
            return found
        if shared == set(a.labels) == set(b.labels):
            return self.reduce(self.product([a, b], hint), kept)
        return self.einsum([a, b], tuple([x for x in _extended(hint, a.labels + b.labels) if x in kept]))

    def einsum(self, terms: Sequence[Tensor], kept: Labels) -> Tensor:
        """np.einsum of all terms at once."""
        bound = {label for x in terms for label in x.labels}
        output = tuple([label for label in kept if label in bound])
        place = {label: k for k, label in enumerate(output)}
        first = {x: min([place.get(label, len(place)) for label in x.labels], default=0) for x in terms}
        terms = sorted(terms, key=lambda x: (first[x], -len(x.labels)))
        places = ", ".join(f"{{{k}}}" for k in range(len(terms)))
        optimize = ", optimize=True" if len(bound) > len(output) else ""
        text = f'np.einsum("{letters([x.labels for x in terms], output)}", {places}{optimize})'
        return Tensor(self.operations.make(text, [x.operation for x in terms]), output)

    def _solve(self, inverse: Tensor, other: Tensor, summed: int) -> Tensor | None:
        """`inv(A) @ b` is a solve, which is faster and more accurate."""
        if inverse.operation.role[:1] != ("inverse",) or len(inverse.labels) != 2 or not 1 <= len(other.labels) <= 2:
            return None
        matrix = inverse.operation.role[1]
        if inverse.labels[0] == summed:
            matrix = self.operations.transpose(matrix)
        [free] = [label for label in inverse.labels if label != summed]
        rest = tuple([label for label in other.labels if label != summed])
        right = self.permute(other, (summed, *rest))
        return Tensor(self.operations.make("np.linalg.solve({0}, {1})", [matrix, right]), (free, *rest))

    def _matrix_product(self, a: Tensor, b: Tensor, summed: int, hint: Labels) -> Tensor:
        """`A @ B` with as few transposes as possible, and axes as hinted where that makes no difference."""
        candidates: list[Any] = []
        for x, y in ((a, b), (b, a)):
            if len(x.labels) == 1 and len(y.labels) == 2:
                continue
            rows = tuple([label for label in x.labels if label != summed])
            columns = tuple([label for label in y.labels if label != summed])
            left, right = self.permute(x, (*rows, summed)), self.permute(y, (summed, *columns))
            turned = sum(z.role[:1] == ("transpose",) for z in (left, right))
            order = rows + columns
            liked = order == tuple([label for label in hint if label in order])
            candidates.append((turned, not liked, len(candidates), left, right, order))
        _, _, _, left, right, order = min(candidates, key=lambda c: c[:3])
        return Tensor(self.operations.matmul(left, right), order)

    def _stacked(self, a: Tensor, b: Tensor, summed: int) -> Tensor | None:
        """`a @ b` of stacks of matrices, where their axes already are as NumPy wants them."""
        if len(a.labels) < 3 or a.labels[-1] != summed:
            return None
        batch, columns = b.labels[:-2], b.labels[-1:]
        if b.labels == (summed,):
            return Tensor(self.operations.matmul(a.operation, b.operation), a.labels[:-1])
        if len(b.labels) < 2 or b.labels[-2] != summed or columns[0] in a.labels or batch not in ((), a.labels[:-2]):
            return None
        return Tensor(self.operations.matmul(a.operation, b.operation), a.labels[:-1] + columns)


def _usual_order(labels: Collection[int], group: Sequence[Tensor]) -> Labels:
    """The order of axes of most of the tensors that have them all."""
    return Counter(x.labels for x in group if len(x.labels) == len(labels)).most_common(1)[0][0]


def _extended(hint: Labels, labels: Labels) -> Labels:
    return tuple(dict.fromkeys(hint + labels))


def _reading_order(x: Tensor) -> tuple:
    """Scalars and vectors stand before what they are broadcast to, and names, by name, before what is computed."""
    computed = bool(x.operation.operands)
    return (len(x.labels), computed, "" if computed else x.operation.template)
