"""Expressions as plain text in einsum notation, for `repr`, errors and logs."""

from __future__ import annotations

from eindiff.construct import power_parts
from eindiff.expr import Add, Apply, Constant, Einsum, Expr, Map, Variable

_LETTERS = "ijklmnopqrstuvwxyzabcdefghABCDEFGHIJKLMNOPQRSTUVWXYZ"


def to_text(expr: Expr, depth: int = 8) -> str:
    """An expression as text; what lies deeper than `depth` is left out."""
    if isinstance(expr, Variable):
        return expr.name
    if depth == 0:
        return "…"
    if isinstance(expr, Constant):
        return str(expr.value) if not hasattr(expr.value, "tolist") else f"constant({'×'.join(map(str, expr.shape))})"
    if isinstance(expr, Add):
        return "(" + " + ".join(to_text(term, depth - 1) for term in expr.terms).replace("+ -", "- ") + ")"
    if isinstance(expr, Map | Apply):
        base, exponent = power_parts(expr)
        if exponent != 1:
            plain = isinstance(exponent, int) and exponent > 0
            return f"{to_text(base, depth - 1)}**{exponent if plain else f'({exponent})'}"
        return f"{expr.function.name}({', '.join(to_text(arg, depth - 1) for arg in expr.args)})"
    assert isinstance(expr, Einsum)
    return _einsum_text(expr, depth)


def _einsum_text(expr: Einsum, depth: int) -> str:
    operands = [to_text(operand, depth - 1) for operand in expr.operands]
    prefix = "" if expr.coefficient == 1 else "-" if expr.coefficient == -1 else f"{expr.coefficient}*"
    if not operands and not expr.shape:
        return str(expr.coefficient)
    if all(labels == expr.output for labels in expr.labels) and operands and not expr.has_delta:
        return prefix + "*".join(operands)
    inputs = ",".join("".join(_LETTERS[x % 52] for x in labels) for labels in expr.labels)
    output = "".join(_LETTERS[x % 52] for x in expr.output)
    return f"{prefix}einsum({', '.join([repr(f'{inputs}->{output}'), *operands])})"
