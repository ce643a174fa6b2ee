"""Networks of factors with labels: contractions opened."""

from __future__ import annotations

from eindiff.core.labels import Labels
from eindiff.core.nodes import Einsum, Expr
from eindiff.core.sizes import Size


def inner_factors(operand: Einsum, labels: Labels, sizes: dict[int, Size]) -> list[tuple[Expr, Labels]]:
    """The operands of a contraction inside another one, with labels there; what it sums over is added to the sizes."""
    names = dict(zip(operand.output, labels, strict=True))
    for label in operand.contracted:
        names[label] = len(sizes)
        sizes[len(sizes)] = operand.sizes[label]
    inside = zip(operand.operands, operand.labels, strict=True)
    return [(x, tuple([names[label] for label in own])) for x, own in inside]
