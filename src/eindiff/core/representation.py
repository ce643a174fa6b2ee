"""Expressions as plain text in einsum notation, for `repr`, errors and logs."""

from __future__ import annotations

from eindiff.core.labels import LETTERS
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Variable
from eindiff.core.powers import power_parts

SHOWN_NODES = 100  # the rest of an expression is left out
SHOWN_OPERANDS = 8


def to_text(expr: Expr, depth: int = 8) -> str:
    """An expression as text; what lies deeper than `depth`, and what makes it too long, is left out."""
    return _text(expr, depth, [SHOWN_NODES])


def _text(expr: Expr, depth: int, budget: list[int]) -> str:
    """The text of an expression; `budget` counts down the nodes that may still be written."""
    if isinstance(expr, Variable):
        return expr.name
    budget[0] -= 1
    if depth == 0 or budget[0] <= 0:
        return "…"
    if isinstance(expr, Constant):
        return str(expr.value) if not hasattr(expr.value, "tolist") else f"constant({'×'.join(map(str, expr.shape))})"
    if isinstance(expr, Add):
        return "(" + " + ".join(_children(expr, depth, budget)).replace("+ -", "- ") + ")"
    if isinstance(expr, Map | Apply):
        base, exponent = power_parts(expr)
        if exponent != 1:
            plain = isinstance(exponent, int) and exponent > 0
            text = _text(base, depth - 1, budget)
            text = text if _is_atom(base, text) else f"({text})"
            return f"{text}**{exponent if plain else f'({exponent})'}"
        if isinstance(expr, Map) and expr.function.formula is not None:
            return _text(expr.function.formula(*expr.children), depth, budget)
        return f"{expr.function.name}({', '.join(_children(expr, depth, budget))})"
    assert isinstance(expr, Einsum)
    return _einsum_text(expr, _children(expr, depth, budget))


def _is_atom(expr: Expr, text: str) -> bool:
    """Whether a power of an expression needs no parentheses: it is a name, a call, or has parentheses of its own."""
    if isinstance(expr, Einsum):
        return text.startswith("einsum(") or text == "…"
    return power_parts(expr)[1] == 1


def _children(expr: Expr, depth: int, budget: list[int]) -> list[str]:
    texts = [_text(child, depth - 1, budget) for child in expr.children[:SHOWN_OPERANDS]]
    return texts if len(expr.children) <= SHOWN_OPERANDS else [*texts, "…"]


def _einsum_text(expr: Einsum, operands: list[str]) -> str:
    prefix = "" if expr.coefficient == 1 else "-" if expr.coefficient == -1 else f"{expr.coefficient}*"
    if not operands and not expr.shape:
        return str(expr.coefficient)
    if all(labels == expr.output for labels in expr.labels) and operands and not expr.has_delta:
        return prefix + "*".join(operands)
    inputs = ",".join("".join(LETTERS[x % 52] for x in labels) for labels in expr.labels)
    output = "".join(LETTERS[x % 52] for x in expr.output)
    return f"{prefix}einsum({', '.join([repr(f'{inputs}->{output}'), *operands])})"
