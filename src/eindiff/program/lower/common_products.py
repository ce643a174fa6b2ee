"""Products of entries that are parts of others are computed once, where calls take longer than what they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, Operations, reachable, with_operands

Pairs = Mapping[frozenset[Operation], Operation]


def share_products(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with `(a * b) * c` for `a * c * b` where `a * b` is there anyway, and one `a * b` for `b * a`.

    Only for small arrays: a large one is better made in the memory of a factor that nothing else needs.
    """
    order = reachable(outputs)
    products = [x for x in order if x.op == "multiply" and costs.size(x) < tuning.IN_PLACE_BYTES]
    pairs = {frozenset(x.operands): x for x in reversed(products) if len(x.operands) == 2}
    if len(pairs) == len(products):
        return list(outputs)
    chosen, done = set(products), dict[Operation, Operation]()
    made: dict[frozenset[Operation], Operation] = {}  # products of two, by their new operands

    def product(factors: Sequence[Operation]) -> Operation:
        found = operations.make("multiply", [done[y] if y in done else product(y.operands) for y in factors])
        return made.setdefault(frozenset(found.operands), found) if len(factors) == 2 else found

    for x in order:
        if x in chosen:
            done[x] = product(_grouped(x.operands, pairs))
            operations.symmetric.update({done[x]} if x in operations.symmetric else ())
        else:
            done[x] = with_operands(operations, x, [done[y] for y in x.operands])
    return [done[x] for x in outputs]


def _grouped(factors: Sequence[Operation], pairs: Pairs) -> Sequence[Operation]:
    """Factors with products of two in their place that are there anyway."""
    while len(factors) > 2:
        known = [pair for pair in combinations(range(len(factors)), 2) if frozenset(factors[k] for k in pair) in pairs]
        if not known:
            break
        first, second = known[0]  # factors may be there twice
        rest = [y for k, y in enumerate(factors) if k not in known[0]]
        factors = [pairs[frozenset((factors[first], factors[second]))], *rest]
    return factors
