"""Expressions as the page shows them: plain text, Unicode, LaTeX and MathML, with their named parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from eindiff.core import sizes as sz
from eindiff.core.errors import shape_text, shape_words
from eindiff.core.nodes import Expr
from eindiff.text.layouts import as_row
from eindiff.text.write.mathml import MathmlStyle, above, below, fenced, letters, name_mathml, token, whole
from eindiff.text.write.mathml import row as row_of
from eindiff.text.write.plain import PlainStyle
from eindiff.text.write.to_text import Equations, NamedPart, kronecker
from eindiff.text.write.tree import Tree, walk

AS_MATRIX = "the entries of each variable, row by row"
BY_ENTRY = "What has no form in matrix notation is written by its entries."


def formula(expr: Expr, notation: str, left: str, row: bool = False) -> dict[str, Any]:
    """The model `Formula` of an expression; `left` is what it is equal to, as MathML."""
    turned = row and notation != "index"
    made = Equations.of(expr, notation)
    by_entry = notation == "matrix" and any(part.kind == "einsum" for line in made.lines for part in walk(line.tree))
    return {
        **_written(made, left, turned),
        "shape": [1, *expr.shape] if row else list(expr.shape),
        "shape_text": f"1×{expr.shape[0]}" if row else shape_text(expr.shape),
        "words": f"row of length {expr.shape[0]}" if row else shape_words(expr.shape),
        "notation": notation,
        "note": BY_ENTRY if by_entry else "",
    }


def kronecker_form(expr: Expr, left: str) -> dict[str, Any] | None:
    """The model `Formula` of a tensor of order four as a matrix of Kronecker products, if it is one."""
    if (made := kronecker(expr)) is None:
        return None
    shape = [sz.product(expr.shape[:2]), sz.product(expr.shape[2:])]
    return {
        **_written(made, left, False),
        "shape": shape,
        "shape_text": shape_text(tuple(shape)),
        "words": f"{shape_text(tuple(shape))} matrix".replace("*", "·"),
        "notation": "matrix",
        "note": AS_MATRIX,
    }


def _written(made: Equations, left: str, turned: bool) -> dict[str, Any]:
    """The fields of the model `Formula` that are text or MathML."""
    *parts, body = made.lines
    style = MathmlStyle(as_einsum=made.notation == "einsum")
    tree = Tree("transposed", (body.tree,), None, 1) if turned else body.tree
    texts = {name: made.text(name) for name in ("plain", "unicode", "latex")}
    texts = {name: as_row(text, name) for name, text in texts.items()} if turned else texts
    return {
        "text": texts["plain"],
        "unicode": texts["unicode"],
        "latex": texts["latex"],
        "mathml": whole(style.text(tree)),
        "left": whole(_indexed(left, labels(body.labels))),
        "where": [_definition(part, style) for part in parts],
    }


def derivative_mathml(function: str, names: Sequence[str]) -> str:
    """`∂²f/∂x∂y` as a fraction; the name of the function without variables."""
    name = name_mathml(function)
    if not names:
        return name
    d = '<mo lspace="0" rspace="0">∂</mo>'

    def power(base: str, count: int) -> str:
        return above(base, token("mn", str(count))) if count > 1 else base

    bottom = "".join(d + power(name_mathml(own), len(list(group))) for own, group in groupby(names))
    return f"<mfrac>{row_of(power(d, len(names)) + name)}{row_of(bottom)}</mfrac>"


def _indexed(left: str, index: str) -> str:
    """A left side with an index; what is more than a letter is in brackets."""
    return below(fenced(left) if index and ("<mfrac" in left or "<msub" in left) else left, index)


def labels(pairs: Sequence[tuple[str, Any]]) -> str:
    """The labels of a heading as MathML."""
    return letters([letter for letter, _ in pairs])


def _definition(line: NamedPart, style: MathmlStyle) -> dict[str, str]:
    plain = PlainStyle()
    head = plain.heading(line.labels) + " " if line.labels else ""
    return {
        "name": line.name,
        "name_mathml": whole(_indexed(name_mathml(line.name), labels(line.labels)), display=False),
        "text": head + plain.text(line.tree),
        "mathml": whole(style.text(line.tree)),
    }


def inline(expr: Expr, notation: str, letter: str = "") -> str:
    """An expression without named parts, as MathML elements: what is too long is cut off."""
    body = Equations.of(expr, notation, names=False).lines[-1]
    style = MathmlStyle(as_einsum=notation == "einsum", letter=letter)
    return style.text(body.tree)
