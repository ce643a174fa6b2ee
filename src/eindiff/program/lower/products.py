"""Products and contractions as a person writes them: `*` with broadcasting, `@`, sums, solves, and einsum for the rest.

For known sizes operands are multiplied in the cheapest order, pair by pair, at the speed of matrix products
(`contractions`). If sizes are not known, they are multiplied in order of increasing tensor order (the paper's rule);
where that would form something of higher order, one einsum with `optimize=True` chooses the order when it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, count
from math import inf
from typing import Any, NamedTuple

from eindiff.core import sizes as sz
from eindiff.core.groups import grouped
from eindiff.core.labels import Labels, components, subscripts
from eindiff.core.leaves import BANDS
from eindiff.core.nodes import Number
from eindiff.core.sizes import Size
from eindiff.core.tensor_order import Path, tensor_order_path
from eindiff.planning import tuning
from eindiff.planning.contraction_order import ENTRIES_IN_ROW, PERMUTATION, Speed, contraction_path, path_flops, speed
from eindiff.program.costs import Costs
from eindiff.program.lower import halves
from eindiff.program.lower.contractions import Contractions
from eindiff.program.lower.symmetric_products import exchanged, is_undone, square_within, symmetric_product
from eindiff.program.lower.tensors import Tensor
from eindiff.program.lower.triangles import SUMMED_ENTRIES, between, running_sum
from eindiff.program.operations import ARITHMETIC, Operation, Operations, broadcast, is_call, is_reciprocal


class _Made(NamedTuple):
    """A product of factors that was made."""

    number: int  # how many were made before it
    factors: Counter[Operation]
    length: int
    result: Operation


class Products(Contractions):
    """Multiplies tensors; results carry their labels in the order that is natural for the operation."""

    def __init__(self, operations: Operations, costs: Costs | None, strategy: str, exact: bool) -> None:
        super().__init__(operations, costs)
        self.strategy = strategy
        self.exact = exact
        self.elementwise: dict[Operation, list[_Made]] = {}  # products that were made, by their last factor
        self.opened: set[Operation] = set()  # products that are only part of larger ones
        self._numbers = count()

    # Elementwise products

    def product(self, factors: Sequence[Tensor], hint: Labels) -> Tensor:
        """The product without any sum: factors over few labels are multiplied first and then broadcast."""
        groups = grouped((frozenset(x.labels), x) for x in factors)
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
            shape = (whole[0].operation.shape[0], whole[1].operation.shape[0])
            return Tensor(self.operations.make("outer", [x.operation for x in whole], shape=shape), order)
        if len(order) > 2 and self.costs is None:
            return self.einsum(whole, order)
        return self._broadcast(sorted(whole, key=lambda x: -min(order.index(label) for label in x.labels)), order)

    def _broadcast(self, factors: Sequence[Tensor], order: Labels) -> Tensor:
        aligned = [self.align(x, order) for x in factors]
        if self.costs is not None and len(aligned) > 2:  # what the others have in common first
            aligned = [self.operations.times(aligned[:-1]), aligned[-1]]
        return Tensor(self.operations.times(aligned), order)

    def _halves(self, labels: Collection[int], group: list[Tensor]) -> list[Tensor]:
        """The numerator and the denominator of factors over one set of labels, each as one factor; in programs that
        run both as one, since others are larger."""
        order = _usual_order(labels, group)
        if self.costs is not None and not self.operations.functional and len({*map(_is_reciprocal, group)}) == 2:
            return [self._one_set(labels, group)]
        result = []
        for half in ([x for x in group if not _is_reciprocal(x)], [x for x in group if _is_reciprocal(x)]):
            if half:  # it may have fewer labels than both have together
                own = tuple([label for label in order if any(label in x.labels for x in half)])
                above, below = self._numerator_and_denominator(half, own)
                result.append(Tensor(self.operations.quotient(1, above, below), own))
        return result

    def _one_set(self, labels: Collection[int], group: list[Tensor]) -> Tensor:
        """The product of factors over (subsets of) one set of labels, in the order that most of them have."""
        order = _usual_order(labels, group)
        above, below = self._numerator_and_denominator(group, order)
        above = self._known_products(above)
        return Tensor(self.operations.quotient(1, above, below), order)

    def _known_products(self, factors: list[Operation]) -> list[Operation]:
        """Factors with a product of some of them that was made before in their place."""
        if self.costs is None or len(factors) < 2:
            return factors
        left, result, shape = Counter(factors), [], broadcast([x.shape for x in factors])
        found = [made for x in left for made in self.elementwise.get(x, ())]
        for made in sorted(found, key=lambda made: made.number):
            if len(factors) > made.length and made.factors <= left and made.result.shape == shape:
                left -= made.factors
                result.append(made.result)
        factors = [*result, *left.elements()]
        if len(factors) > 1:
            made = _Made(next(self._numbers), Counter(factors), len(factors), self.operations.times(factors))
            self.elementwise.setdefault(max(factors, key=lambda x: x.serial), []).append(made)
        return factors

    def _numerator_and_denominator(self, group: list[Tensor], order: Labels) -> tuple[list[Operation], list[Operation]]:
        above, below = [], []
        for x in sorted(group, key=_reading_order):
            if _is_reciprocal(x):
                below.append(self.align(Tensor(x.operation.operands[1], x.labels), order))
            else:
                above.append(self.align(x, order))
        return above, below

    # Contractions

    def contract(
        self, coefficient: Number, factors: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]
    ) -> tuple[Number, Tensor]:
        """A multiple of the sum of products over the labels that are not in `kept`, the order that is liked best."""
        scalars = [x for x in factors if not x.labels]
        if scalars and len(scalars) < len(factors):
            return self._with_scalars(coefficient, scalars, [x for x in factors if x.labels], kept, sizes)
        factors = self._without_ones(factors, kept)
        if all(_is_part_of(x.labels, kept) for x in factors):
            coefficient, factors = self._scaled(coefficient, factors, kept, sizes)
            return coefficient, self.product(factors, kept)
        if self.costs is not None and (both := between(self, coefficient, factors, kept, sizes)) is not None:
            return both
        if (found := symmetric_product(self, coefficient, factors, kept)) is not None:
            return 1, found
        parts = components([x.labels for x in factors]) if self.costs is not None else []
        if len(parts) > 1:
            return self._apart([[factors[k] for k in part] for part in parts], coefficient, kept, sizes)
        terms = self._sorted(self._reduced(self._merged([*factors], kept), kept), kept)
        return self._pair_by_pair(*self._scaled(coefficient, terms, kept, sizes), kept, sizes)

    def _with_scalars(
        self, coefficient: Number, scalars: list[Tensor], others: list[Tensor], kept: Labels, sizes: Mapping[int, Size]
    ) -> tuple[Number, Tensor]:
        """Numbers are multiplied into the smallest factor, or else into the result."""
        home = self._smallest(others, kept, sizes)
        if home is not None and _is_part_of(others[home].labels, kept):
            others[home] = self.product([*scalars, others[home]], others[home].labels)
            return self.contract(coefficient, others, kept, sizes)
        coefficient, tensor = self.contract(coefficient, others, kept, sizes)
        return coefficient, self.product([*scalars, tensor], kept)

    def _sorted(self, terms: list[Tensor], kept: Labels) -> list[Tensor]:
        """Small tensors first, and those with the last axes of the result; for known sizes as they were made."""
        if self.costs is not None:
            return sorted(terms, key=lambda x: x.operation.serial)
        place = {label: k for k, label in enumerate(kept)}
        return sorted(terms, key=lambda x: (len(x.labels), -max([place.get(y, -1) for y in x.labels], default=-1)))

    def _pair_by_pair(
        self, coefficient: Number, terms: list[Tensor], kept: Labels, sizes: Mapping[int, Size]
    ) -> tuple[Number, Tensor]:
        """Two tensors are multiplied at a time; people read one einsum instead, where that would form a larger one."""
        factors = terms = self._with_known_pair(terms, kept, sizes)
        parts = [[x] for x in terms]  # what each is the product of
        for i, j in self._path(terms, kept, sizes):
            if len(terms) > 2 and (square := symmetric_product(self, coefficient, terms, kept)) is not None:
                return 1, square
            rest = [x for k, x in enumerate(terms) if k not in (i, j)]
            needed = set(kept).union(*(x.labels for x in rest))
            result = [label for label in {*terms[i].labels, *terms[j].labels} if label in needed]
            if self.costs is None and rest and len(result) > max(2, len(terms[i].labels), len(terms[j].labels)):
                return coefficient, self.einsum(terms, kept)
            self.outer = self._outer(rest, kept)
            parts = [*[x for k, x in enumerate(parts) if k not in (i, j)], [*parts[i], *parts[j]]]
            square = square_within(self, parts[-1], result)
            terms = [*rest, square or self.pair(terms[i], terms[j], needed, kept, last=not rest)]
        return coefficient, exchanged(terms[0], factors, kept)

    def _outer(self, rest: Sequence[Tensor], kept: Labels) -> set[int]:
        """The labels of the result that are in what is multiplied later; compilers choose where axes lie themselves."""
        return set() if self.operations.functional else {*kept} & {label for x in rest for label in x.labels}

    def _with_known_pair(self, terms: list[Tensor], kept: Labels, sizes: Mapping[int, Size]) -> list[Tensor]:
        """Tensors with the product of two of them that was made before in their place, if the rest is cheaper then:
        in `X (H X)' y` it is that of H X."""
        if self.costs is None or not 2 < len(terms) <= tuning.BEST_LIMIT:
            return terms
        products = [k for k, x in enumerate(terms) if not is_call(x.operation, "inv")]  # systems share their factors
        others = []
        for i, j in combinations(products, 2):
            rest = [x for k, x in enumerate(terms) if k not in (i, j)]
            found = self.known(terms[i], terms[j], set(kept).union(*(x.labels for x in rest)))
            if found is not None and not (found.operation in self.opened or is_undone(found, i, j, terms, self.costs)):
                others.append([*rest, found])
        if not others:
            return terms
        time, calls = self._time(terms, kept, sizes), tuning.CALL * (len(terms) - 1)
        best, least = terms, time - tuning.CALL if time < 2 * calls else 0.7 * time  # if that is clearly less
        for other in others:
            if (seconds := self._time(other, kept, sizes)) <= least:
                best, least = other, seconds
        return best

    def _time(self, terms: list[Tensor], kept: Labels, sizes: Mapping[int, Size]) -> float:
        """About the time of a contraction in the best order."""
        assert self.costs is not None
        inputs, keys = [x.labels for x in terms], [x.operation.serial for x in terms]
        values = {label: self.costs.evaluate(sizes[label]) for labels in inputs for label in labels}
        path = contraction_path(inputs, kept, values, self.strategy, keys)
        flops = path_flops(inputs, kept, values, path, keys)
        return tuning.CALL * (len(terms) - 1) + tuning.OPERATION[ARITHMETIC] * flops

    def _apart(
        self, parts: list[list[Tensor]], coefficient: Number, kept: Labels, sizes: Mapping[int, Size]
    ) -> tuple[Number, Tensor]:
        """Factors that have no labels in common with others are multiplied with them in the end."""
        tensors = []
        for part in parts:
            own = {label for x in part for label in x.labels}
            coefficient, tensor = self.contract(coefficient, part, tuple([x for x in kept if x in own]), sizes)
            tensors.append(tensor)
        coefficient, tensors = self._scaled(coefficient, tensors, kept, sizes)
        return coefficient, self.product(tensors, kept)

    def _without_ones(self, factors: Sequence[Tensor], kept: Labels) -> Sequence[Tensor]:
        """What is summed over one entry is taken instead."""
        single = {x for y in factors for x in y.labels if x not in kept and self.is_one(y.size(x))}
        return [self.only(x, single) if single and len(set(x.labels)) == len(x.labels) else x for x in factors]

    def is_one(self, size: Size) -> bool:
        """Whether a size is 1 for all sizes that share a program with the known ones (n - 1 is not)."""
        if not self.exact or self.costs is None:
            return False
        return size == 1 or (isinstance(size, str) and self.costs.known.get(size) == 1)

    def _scaled(
        self, coefficient: Number, factors: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]
    ) -> tuple[Number, list[Tensor]]:
        """A coefficient is multiplied into the smallest factor, if that is smaller than the result.

        The sign of a small result stays: sums take it for nothing, and what has another sign may be there.
        """
        terms = list(factors)
        if coefficient == 1 or (coefficient == -1 and self._is_small([sizes[label] for label in kept])):
            return coefficient, terms
        if (smallest := self._smallest(terms, kept, sizes)) is None:
            return coefficient, terms
        terms[smallest] = Tensor(self.operations.scale(coefficient, terms[smallest].operation), terms[smallest].labels)
        return 1, terms

    def _is_small(self, shape: Sequence[Size]) -> bool:
        """Whether a call takes longer than what it does with all entries."""
        return self.costs is not None and self.costs.itemsize * self.entries(shape) < tuning.IN_PLACE_BYTES

    def _smallest(self, factors: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]) -> int | None:
        """The factor that numbers are multiplied into; None if none is smaller than the result.

        Factors that occur once come first, of which no product with another is there, and then those over which nothing
        is summed (contractions of the others may come). An inverse is none of them: it need not be formed. Where all
        occur twice, the product may be `G' G`, which takes half the work as long as both sides are equal: none of them,
        if that is much.
        """
        if self.costs is None:
            return None
        entries = [self.entries(x.operation.shape) for x in factors]
        counts = Counter(x.operation for x in factors)
        shared = self._in_products(factors, kept)
        order = [
            (is_call(x.operation, "inv"), counts[x.operation] > 1, x in shared, not set(x.labels) <= set(kept), size)
            for x, size in zip(factors, entries, strict=True)
        ]
        smallest = min(range(len(factors)), key=order.__getitem__)
        if counts[factors[smallest].operation] > 1 and self._is_square(factors, kept, sizes):
            return None
        return smallest if 2 * entries[smallest] <= self.entries([sizes[label] for label in kept]) else None

    def _in_products(self, factors: Sequence[Tensor], kept: Labels) -> set[Tensor]:
        """Factors of which a product with another one was made before."""
        found: set[Tensor] = set()
        for pair in combinations(factors, 2) if len(factors) <= tuning.BEST_LIMIT else ():
            needed = set(kept).union(*(x.labels for x in factors if x not in pair))
            found.update(pair if self.known(*pair, needed) is not None else ())
        return found

    def _is_square(self, factors: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]) -> bool:
        """Whether every factor occurs twice, and the sum has so many terms that half of it is worth a pass."""
        summed = {label for x in factors for label in x.labels} - set(kept)
        twice = all(count % 2 == 0 for count in Counter(x.operation for x in factors).values())
        return twice and self.entries([sizes[label] for label in summed]) >= tuning.SQUARE

    def _path(self, terms: Sequence[Tensor], kept: Labels, sizes: Mapping[int, Size]) -> Path:
        """The order of multiplication: the best one for known sizes, or else by increasing tensor order."""
        inputs, keys = [x.labels for x in terms], [x.operation.serial for x in terms]
        if self.costs is None:
            return tensor_order_path(inputs, kept)
        values = {label: self.costs.evaluate(sizes[label]) for labels in inputs for label in labels}
        speeds = tuple([self._speed(x) for x in terms]) if len(terms) > 2 else ()
        plain = all(x.times == 1 for x in speeds) and sum(x.is_inverse for x in speeds) < 2
        return contraction_path(inputs, kept, values, self.strategy, keys, () if plain else speeds)

    def _speed(self, x: Tensor) -> Speed:
        """What products with a matrix take, compared with one that is full: systems of equations for an inverse."""
        is_inverse = is_call(x.operation, "inv")
        matrix = x.operation.operands[0] if is_inverse else x.operation
        if len(x.labels) != 2 or len(matrix.shape) != 2:
            return Speed()
        found = self._half(matrix, 2) if is_inverse else self._kind(matrix)
        entries = SUMMED_ENTRIES if matrix.op == "triangle" else ENTRIES_IN_ROW.get(found, inf)
        return speed(entries, self.entries(matrix.shape[1:]), is_inverse)

    def _reduced(self, terms: list[Tensor], kept: Labels) -> list[Tensor]:
        """What only one tensor has is summed first."""
        uses = Counter(label for x in terms for label in set(x.labels))
        return [self._summed(x, [label for label in x.labels if uses[label] > 1 or label in kept]) for x in terms]

    def _summed(self, x: Tensor, kept: Labels | list[int]) -> Tensor:
        """A sum over what is not kept; that of an inverse is the solution for ones, which takes a third of the work."""
        gone = [label for label in x.labels if label not in kept]
        if gone and self.costs is not None and is_call(x.operation, "inv") and len({*x.labels}) == len(x.labels) == 2:
            size = x.size(gone[0])
            ones = Tensor(self.operations.make("ones", parameters=(size,), shape=(size,)), (gone[0],))
            x = self.solve(x, ones, gone[0]) or x
        return self.reduce(x, kept)

    def _merged(self, terms: list[Tensor], kept: Labels) -> list[Tensor]:
        """Tensors over the same labels are multiplied first; the last of a sum of vectors stays apart, for `@`."""
        groups = grouped((frozenset(x.labels), x) for x in terms)
        result = []
        for labels, group in groups.items():
            summed = labels - set(kept)
            alone = summed and not any(summed & other for other in groups if other != labels)
            if len(group) == 1 or any(len(x.labels) > len(labels) for x in group):
                result += group
            elif alone and (len(labels) == 1 or self.costs is not None):
                result += self._two_vectors(group, kept)
            else:
                result.append(self.product(group, kept))
        return result

    def _two_vectors(self, group: list[Tensor], kept: Labels) -> list[Tensor]:
        """Vectors as one product and a last one that occurs once, for `a**2 @ b`; or as two equal products."""
        counts = Counter(group)
        if self.costs is not None and all(count % 2 == 0 for count in counts.values()):
            half = self.product([x for x, count in counts.items() for _ in range(count // 2)], kept)
            return [half, half]
        last = min(group, key=lambda x: (counts[x], _is_reciprocal(x)))
        first = [*group]
        first.remove(last)
        return [self.product(first, kept), last]

    def pair(self, a: Tensor, b: Tensor, kept: Collection[int], hint: Labels, last: bool = False) -> Tensor:
        """The product of two tensors with a sum over what they share and is not kept."""
        return self.once(a, b, kept, lambda x, y: self._pair(x, y, kept, hint, last))

    def _pair(self, a: Tensor, b: Tensor, kept: Collection[int], hint: Labels, last: bool) -> Tensor:
        shared = set(a.labels) & set(b.labels)
        summed = shared - set(kept)
        if not summed:
            final = last or self.costs is None
            order = _extended(hint, a.labels + b.labels) if final else _inner_order(a.labels, b.labels, hint)
            return self.product([a, b], order)
        if len(summed) == 1 and shared == summed:
            [label] = summed
            if found := self.solve(a, b, label) or self.solve(b, a, label) or running_sum(self, a, b, label):
                return found
            if len(a.labels) <= 2 and len(b.labels) <= 2:
                return self._matrix_product(a, b, label, hint, last)
        if self.costs is not None:
            return self.multiply(a, b, kept, hint if last else None)
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
        parameters = (subscripts([x.labels for x in terms], output), len(bound) > len(output))
        size_of = {label: x.size(label) for x in terms for label in x.labels}
        work, shape = sz.product(size_of.values()), tuple([size_of[label] for label in output])
        operands = [x.operation for x in terms]
        return Tensor(self.operations.make("einsum", operands, parameters, shape=shape, work=work), output)

    def solve(self, inverse: Tensor, other: Tensor, summed: int) -> Tensor | None:
        """`inv(A) @ b` is a solve, which is faster and more accurate."""
        if not is_call(inverse.operation, "inv") or len(inverse.labels) != 2 or not 1 <= len(other.labels) <= 2:
            return None
        if other.operation is inverse.operation:  # which has to be formed anyway
            return None
        [matrix] = inverse.operation.operands
        if inverse.labels[0] == summed:
            matrix = self.operations.transpose(matrix)
        [free] = [label for label in inverse.labels if label != summed]
        rest = tuple([label for label in other.labels if label != summed])
        right = self.permute(other, (summed, *rest))
        solved = halves.solution(self.operations, matrix, right, self._half(matrix, 2))
        return Tensor(solved, (free, *rest))

    def _half(self, matrix: Operation, least: int) -> str:
        """Which half of a matrix its entries are in for certain, if it has so many rows that NumPy is worth telling."""
        if self.costs is None or (not self.operations.functional and self.entries(matrix.shape[:1]) < least):
            return ""
        found = halves.half(self.operations, matrix)
        return "" if found in BANDS and self.operations.functional else found

    def _kind(self, matrix: Operation) -> str:
        """In which way a matrix has few entries, for products with it."""
        if not self.operations.functional and halves.is_permutation(self.operations, matrix):
            return PERMUTATION
        return self._half(matrix, tuning.TRIANGLE)

    def _matrix_product(self, a: Tensor, b: Tensor, summed: int, hint: Labels, last: bool) -> Tensor:
        """`A @ B`, of matrices or a matrix and a vector, with what is known of where their entries are."""
        left, right, order = self._sides(a, b, summed, hint, last)
        if self.costs is not None and not self.operations.functional:
            left, right = halves.without_zeros(self.operations, left, right)
            if len(order) == 1 and (found := self._half(left, tuning.PARTS_READ)) not in ("", "banded"):
                return Tensor(halves.structured_product(self.operations, left, right, found), order)
            turned = self.operations.transpose
            sides = [(left, right, order), (turned(right), turned(left), order[::-1])] if len(order) == 2 else []
            kinds = [(kind, *side) for side in sides if (kind := self._kind(side[0]))]
            if kinds:  # by the one that has the fewest entries
                kind, left, right, order = min(kinds, key=lambda one: ENTRIES_IN_ROW.get(one[0], inf))
                return Tensor(halves.structured_product(self.operations, left, right, kind), order)
        return Tensor(self.operations.matmul(left, right), order)

    def _sides(
        self, a: Tensor, b: Tensor, summed: int, hint: Labels, last: bool
    ) -> tuple[Operation, Operation, Labels]:  # fmt: skip
        """What stands on the left and on the right, and the axes of the product: with as few transposes as possible,
        and as hinted where that makes no difference: those summed over later last, as in what they are multiplied with.

        What is large and added to others in the end is made as it is wanted: sums of arrays whose axes lie otherwise
        take longer than reading along columns.
        """
        candidates: list[Any] = []
        wanted = last and self.is_added and self.costs is not None and not self.operations.functional
        wanted = wanted and not self._is_small([z.size(x) for z in (a, b) for x in z.labels if x != summed])
        for x, y in ((a, b), (b, a)):
            if len(x.labels) == 1 and len(y.labels) == 2:
                continue
            rows = tuple([label for label in x.labels if label != summed])
            columns = tuple([label for label in y.labels if label != summed])
            left, right = self.permute(x, (*rows, summed)), self.permute(y, (summed, *columns))
            turned = sum(z.op == "transpose" for z in (left, right))
            order = rows + columns
            liked = order == tuple(sorted(order, key=lambda x: hint.index(x) if x in hint else len(hint)))
            key = (not liked, turned) if wanted else (turned, not liked)
            candidates.append((*key, len(candidates), left, right, order))
        *_, left, right, order = min(candidates, key=lambda c: c[:3])
        return left, right, order


def _is_reciprocal(x: Tensor) -> bool:
    return is_reciprocal(x.operation)


def _is_part_of(labels: Labels, kept: Labels) -> bool:
    """Whether labels differ from each other, and none is summed over."""
    return set(labels) <= set(kept) and len(set(labels)) == len(labels)


def _usual_order(labels: Collection[int], group: Sequence[Tensor]) -> Labels:
    """The order of axes of most of the tensors that have them all."""
    return max(orders := [x.labels for x in group if len(x.labels) == len(labels)], key=orders.count)


def _inner_order(a: Labels, b: Labels, hint: Labels) -> Labels:
    """Labels of a product of two tensors that is not the last one: first what both begin with, then what is wanted
    first in the end, and last what both end with, which is run over fastest."""
    first, last = (a[:1] if a[:1] == b[:1] else ()), (a[-1:] if a[-1:] == b[-1:] else ())
    own = [x for x in dict.fromkeys(a + b) if x not in first and x not in last]
    own.sort(key=lambda x: hint.index(x) if x in hint else len(hint))
    return tuple(dict.fromkeys((*first, *own, *last)))


def _extended(hint: Labels, labels: Labels) -> Labels:
    return tuple(dict.fromkeys(hint + labels))


def _reading_order(x: Tensor) -> tuple:
    """Scalars and vectors stand before what they are broadcast to, and names, by name, before what is computed."""
    own = x.operation
    is_named = own.op in ("input", "number", "size")
    name = str(own.parameters[0]) if is_named else "" if own.operands else f"np.{own.op}"
    return len(x.labels), bool(own.operands), name
