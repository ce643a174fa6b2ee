"""Opposite sigmoids, which derivatives of sigmoids have: their product as one function, or both by one exponential."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from eindiff.core.coefficients import HALF
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import (
    FUNCTION,
    Operation,
    Operations,
    count_uses,
    is_call,
    reachable,
    with_operands,
)


def with_densities(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with `0.5 / (1 + cosh(x))` for `sigmoid(x) * sigmoid(-x)`, where nothing else needs one of the two.

    Only for small arrays: large ones share an exponential, which takes less time than cosh. It is that of x, not -x.
    """
    outputs = _without_signs(operations, outputs)
    order = reachable(outputs)
    uses, done = count_uses(order, outputs), dict[Operation, Operation]()
    for x in order:
        pairs = _opposites(operations, x) if x.op == "multiply" and costs.size(x) < tuning.IN_PLACE_BYTES else ()
        found = next((pair for pair in pairs if 1 in (uses[pair[0]], uses[pair[1]])), ())
        operands = [done[y] for y in x.operands]
        if found:
            for y in found:
                operands.remove(done[y])
            arg = min([y.operands[0] for y in found], key=lambda y: y.op == "negate")
            cosh = operations.make("call", [done[arg]], ("cosh",), speed=FUNCTION)
            below = operations.plus([(1, cosh), (1, operations.number(1))])
            done[x] = operations.times([*operands, operations.quotient(HALF, [], [below])])
        elif x.op == "scale":
            done[x] = operations.scale(x.parameters[0], operands[0])
        else:
            done[x] = with_operands(operations, x, operands)
    return [done[x] for x in outputs]


def _without_signs(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """Operations with `exp(x) y` and `y = 1 / (1 + exp(x))` for y and `exp(-x) y` with `y = 1 / (1 + exp(-x))`."""
    order = reachable(outputs)
    uses, done = count_uses(order, outputs), dict[Operation, Operation]()
    found = {x.operands[0] for x in order if x.op == "complement" and _is_of_negative(x.operands[0], uses)}
    for x in order if found else ():
        operands = [done[y] for y in x.operands]
        if x in found:
            done[x] = operations.make("call", done[x.operands[0]].operands, ("exp",), speed=FUNCTION)
        elif x.op in ("logistic", "complement") and x.operands[0] in found:
            opposite = operations.make("logistic", operands[:1])
            is_first = x.op == "logistic"
            done[x] = operations.make("complement", [operands[0], opposite]) if is_first else opposite
        else:
            done[x] = with_operands(operations, x, operands)
    return [done.get(x, x) for x in outputs]


def _is_of_negative(exponential: Operation, uses: Counter[Operation]) -> bool:
    """Whether an exponential is that of a negative, and only there for two sigmoids."""
    [negative] = exponential.operands
    return uses[exponential] == 2 and negative.op == "negate" and uses[negative] == 1


def _opposites(operations: Operations, x: Operation) -> Iterator[tuple[Operation, Operation]]:
    """Sigmoids among the factors of a product whose arguments differ in sign."""
    sigmoids = [y for y in x.operands if is_call(y, "sigmoid") and y.shape == x.shape]
    for a, b in combinations(sigmoids, 2):
        if _terms(operations, a.operands[0]) == {y: -c for y, c in _terms(operations, b.operands[0]).items()}:
            yield a, b


def _terms(operations: Operations, x: Operation) -> dict[Operation, float]:
    """A sum as coefficients of its terms."""
    match x.op:
        case "negate":
            return {y: -c for y, c in _terms(operations, x.operands[0]).items()}
        case "scale":
            return {y: float(c * x.parameters[0]) for y, c in _terms(operations, x.operands[0]).items()}
        case "add":
            return {y: float(c) for c, y in operations.terms(x)}
    return {x: 1.0}
