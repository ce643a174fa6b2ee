"""Opposite sigmoids, which derivatives of sigmoids have: their product as one function, or both by one exponential."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from eindiff.core.coefficients import HALF
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import FUNCTION, Operation, Operations, count_uses, is_call, reachable, rewritten


def with_densities(operations: Operations, outputs: Sequence[Operation], costs: Costs) -> list[Operation]:
    """Operations with `0.5 / (1 + cosh(x))` for `sigmoid(x) * sigmoid(-x)`, where nothing else needs one of the two.

    Only for small arrays: large ones share an exponential, which takes less time than cosh. It is that of x, not -x.
    """
    outputs = _without_signs(operations, outputs)
    uses = count_uses(reachable(outputs), outputs)

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        if x.op == "scale":
            return operations.scale(x.parameters[0], operands[0])
        pairs = _opposites(operations, x) if x.op == "multiply" and costs.size(x) < tuning.IN_PLACE_BYTES else ()
        pair = next((pair for pair in pairs if 1 in (uses[x.operands[k]] for k in pair)), None)
        if pair is None:
            return None
        first = min(pair, key=lambda k: x.operands[k].operands[0].op == "negate")
        cosh = operations.make("call", operands[first].operands, ("cosh",), speed=FUNCTION)
        below = operations.plus([(1, cosh), (1, operations.number(1))])
        rest = [y for k, y in enumerate(operands) if k not in pair]
        return operations.times([*rest, operations.quotient(HALF, [], [below])])

    return rewritten(operations, outputs, change)


def _without_signs(operations: Operations, outputs: Sequence[Operation]) -> list[Operation]:
    """Operations with `exp(x) y` and `y = 1 / (1 + exp(x))` for y and `exp(-x) y` with `y = 1 / (1 + exp(-x))`."""
    order = reachable(outputs)
    uses = count_uses(order, outputs)
    found = {x.operands[0] for x in order if x.op == "complement" and _is_of_negative(x.operands[0], uses)}

    def change(x: Operation, operands: list[Operation]) -> Operation | None:
        if x in found:
            return operations.make("call", operands[0].operands, ("exp",), speed=FUNCTION)
        if x.op not in ("logistic", "complement") or x.operands[0] not in found:
            return None
        opposite = operations.make("logistic", operands[:1])
        return operations.make("complement", [operands[0], opposite]) if x.op == "logistic" else opposite

    return rewritten(operations, outputs, change) if found else [*outputs]


def _is_of_negative(exponential: Operation, uses: Counter[Operation]) -> bool:
    """Whether an exponential is that of a negative, and only there for two sigmoids."""
    [negative] = exponential.operands
    return uses[exponential] == 2 and negative.op == "negate" and uses[negative] == 1


def _opposites(operations: Operations, x: Operation) -> Iterator[tuple[int, int]]:
    """The places of sigmoids among the factors of a product whose arguments differ in sign."""
    sigmoids = [k for k, y in enumerate(x.operands) if is_call(y, "sigmoid") and y.shape == x.shape]
    for a, b in combinations(sigmoids, 2):
        one, other = (_terms(operations, x.operands[k].operands[0]) for k in (a, b))
        if one == {y: -c for y, c in other.items()}:
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
