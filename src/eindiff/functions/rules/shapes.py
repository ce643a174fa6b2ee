"""What rules look at: kinds of nodes, multiples, signs."""

from __future__ import annotations

from typing import TypeGuard

from eindiff.core import construct
from eindiff.core.construct import parts
from eindiff.core.nodes import Apply, Expr, Map, Number, Variable


def is_map(expr: Expr, name: str) -> TypeGuard[Map]:
    """Whether an expression is an elementwise function of this name."""
    return isinstance(expr, Map) and expr.function.name == name


def is_apply(expr: Expr, name: str) -> TypeGuard[Apply]:
    """Whether an expression is a function of whole tensors of this name."""
    return isinstance(expr, Apply) and expr.function.name == name


def bare(expr: Expr) -> tuple[Number, Expr]:
    """A multiple of an expression as the number and the expression."""
    coefficient, factors, output, sizes = parts(expr)
    return (coefficient, construct.einsum(1, factors, output, sizes)) if coefficient not in (0, 1) else (1, expr)


def is_positive(x: Expr) -> bool:
    """Whether the entries of an expression are positive for certain, by its outermost node."""
    if isinstance(x, Variable):
        return "positive" in x.properties
    return isinstance(x, Map) and x.function.positive
