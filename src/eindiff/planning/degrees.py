"""Degrees of expressions in their variables, by which sums are told apart without multiplying them out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eindiff.core.nodes import Add, Apply, Einsum, Expr, Variable, post_order, variables
from eindiff.core.powers import power_parts

Range = tuple[float, float]
Degrees = dict[Variable, Range]  # the lowest and the highest degree of the terms; functions count as numbers
CONSTANT = (0.0, 0.0)


def may_be_within(part: Sequence[Expr], whole: Sequence[Expr]) -> bool:
    """Whether a sum of some expressions may be a part of that of others, when all is multiplied out: in no variable it
    has a lower or higher degree. What inverses and properties of variables may cancel is not looked at."""
    order = post_order([*part, *whole], lambda x: x.children if isinstance(x, Einsum | Add) else ())
    ranges: dict[Expr, Degrees] = {}
    for node in order:
        ranges[node] = _degrees(node, ranges)
    unsure = {x for node in order for x in _cancelled(node)}
    one, other = (_of_sum([ranges[x] for x in exprs]) for exprs in (part, whole))
    return all(_is_within(one.get(x, CONSTANT), other.get(x, CONSTANT)) for x in {*one, *other} - unsure)


def _degrees(node: Expr, ranges: Mapping[Expr, Degrees]) -> Degrees:
    base, power = power_parts(node)
    if isinstance(base, Variable):
        return {base: (float(power), float(power))}
    if isinstance(node, Einsum):
        return _of_product([ranges[x] for x in node.operands])
    return _of_sum([ranges[x] for x in node.terms]) if isinstance(node, Add) else {}


def _cancelled(node: Expr) -> Collection[Variable]:
    """Variables of which products may be known: those with properties, and those in functions and powers of sums."""
    if isinstance(node, Variable):
        return [node] if node.properties else []
    base, power = power_parts(node)
    return variables(node) if isinstance(node, Apply) or (power != 1 and not isinstance(base, Variable)) else []


def _is_within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _of_product(factors: Sequence[Degrees]) -> Degrees:
    found: Degrees = {}
    for own in factors:
        for x, (low, high) in own.items():
            before = found.get(x, CONSTANT)
            found[x] = (before[0] + low, before[1] + high)
    return found


def _of_sum(terms: Sequence[Degrees]) -> Degrees:
    names = {x for own in terms for x in own}
    ranges = {x: [own.get(x, CONSTANT) for own in terms] for x in names}
    return {x: (min(low for low, _ in each), max(high for _, high in each)) for x, each in ranges.items()}
