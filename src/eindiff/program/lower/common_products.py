"""Products of entries that are parts of others are computed once, where calls take longer than what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import combinations, count

from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, Operations, reachable, with_operands

Pair = tuple[Operation, Operation]


def share_products(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with `(a * b) * c` for `a * c * b` where `a * b` is part of another one, and one `a * b` for `b * a`.

    Only for small arrays: a large one is better made in the memory of a factor that nothing else needs.
    """
    order = reachable(outputs)
    products = [x for x in order if x.op == "multiply" and costs.size(x) < tuning.IN_PLACE_BYTES]
    if len({_pair(*x.operands) for x in products if len(x.operands) == 2}) == len(products):
        return list(outputs)
    factors, done = _Sharing(operations, products).factors, dict[Operation, Operation]()
    made: dict[Pair, Operation] = {}  # products of two, by their new operands

    def product(parts: Sequence[Operation]) -> Operation:
        operands = [done[y] if y in done else product(factors.get(y, y.operands)) for y in parts]
        found = operations.make("multiply", operands)
        return made.setdefault(_pair(*found.operands), found) if len(parts) == 2 else found

    for x in order:
        if x in factors:
            done[x] = product(factors[x])
            operations.symmetric.update({done[x]} if x in operations.symmetric else ())
        else:
            done[x] = with_operands(operations, x, [done[y] for y in x.operands])
    return [done[x] for x in outputs]


def _pair(x: Operation, y: Operation) -> Pair:
    """Two factors, in the order in which they were made."""
    return (x, y) if x.serial <= y.serial else (y, x)


class _Sharing:
    """The factors of products, with the product of two in their place as long as it is part of several.

    The pair that most have comes first: so the five products of four of five arrays take nine multiplications in the
    place of 15. A product that is there anyway may be of any shapes; a new one is of two arrays of one shape, as
    another may be larger than what it saves.
    """

    def __init__(self, operations: Operations, products: Sequence[Operation]) -> None:
        self._operations = operations
        self.factors = {x: list(x.operands) for x in products}
        self._there: dict[Pair, Operation] = {}
        self._users: dict[Pair, dict[Operation, None]] = {}  # the products that a pair is part of, or was
        self._queue: list[tuple[int, int, int, int, Pair]] = []  # pairs by the number of these
        self._tickets = count()
        for x in sorted(products, key=lambda x: len(x.operands)):
            self._note(x, x.operands)
        while self._queue:
            number, *_, pair = heappop(self._queue)
            users = [x for x in self._users[pair] if self._has(x, pair)]
            if len(users) == -number:
                self._share(pair, users)
            elif len(users) > 1:
                self._push(pair, len(users))

    def _note(self, x: Operation, new: Sequence[Operation]) -> None:
        """Note the pairs of a product that have some new factors."""
        parts = self.factors[x]
        if len(parts) == 2:
            self._there.setdefault(_pair(*parts), x)
        for pair in {_pair(y, z): None for y, z in combinations(parts, 2) if y in new or z in new}:
            if pair in self._there or pair[0].shape == pair[1].shape:
                users = self._users.setdefault(pair, {})
                users[x] = None
                if len(users) > 1:
                    self._push(pair, len(users))

    def _push(self, pair: Pair, number: int) -> None:
        heappush(self._queue, (-number, pair[0].serial, pair[1].serial, next(self._tickets), pair))

    def _has(self, x: Operation, pair: Pair) -> bool:
        """Whether both are factors still."""
        parts = self.factors[x]
        return parts.count(pair[0]) > (pair[0] is pair[1]) and pair[1] in parts

    def _share(self, pair: Pair, users: Sequence[Operation]) -> None:
        """Put the product of a pair in its place, as often as it goes, where there are other factors."""
        product = self._there.get(pair) or self._operations.make("multiply", pair)
        for x in users:
            parts = self.factors[x]
            if len(parts) > 2:
                while len(parts) > 2 and self._has(x, pair):
                    for y in pair:
                        parts.remove(y)
                    parts.insert(0, product)
                self._note(x, [product])
