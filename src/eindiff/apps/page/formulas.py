"""Expressions as the page shows them: plain text, Unicode, LaTeX and MathML, with their named parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eindiff.core.errors import shape_text
from eindiff.core.nodes import Expr, plain, variables
from eindiff.core.sizes import names as size_names
from eindiff.text.layouts import as_row
from eindiff.text.write.latex import LatexStyle
from eindiff.text.write.mathml import MathmlStyle, below, fenced, letters, name_mathml, whole
from eindiff.text.write.notation_einsum import EinsumNotation
from eindiff.text.write.notation_index import IndexNotation, with_letters
from eindiff.text.write.notation_matrix import MatrixNotation
from eindiff.text.write.print_expr import as_written
from eindiff.text.write.print_names import document
from eindiff.text.write.print_text import PlainStyle, UnicodeStyle
from eindiff.text.write.print_tree import Tree, walk

NOTES = {
    "matrix": "What has no form in matrix notation is written by its entries.",
    "einsum": "",
    "index": "",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A named part, or the expression itself (then without a name): its labels in index notation, and its tree."""

    name: str
    labels: tuple
    tree: Tree


def lines(expr: Expr, notation: str, names: bool = True) -> list[Line]:
    """An expression in a notation, its named parts first."""
    expr = as_written(plain(expr))
    taken = {v.name for v in variables(expr)} | _sizes(expr)
    if notation == "index":
        indices = IndexNotation(expr)
        return [Line(*part) for part in with_letters(document(expr, indices, names, taken), indices, expr)]
    made = document(expr, MatrixNotation(expr) if notation == "matrix" else EinsumNotation(expr), names, taken)
    return [*(Line(name, (), tree) for name, _, tree in made.definitions), Line("", (), made.body)]


def _sizes(expr: Expr) -> set[str]:
    return {name for v in variables(expr) for size in v.shape for name in size_names(size)}


def formula(expr: Expr, notation: str, left: str, row: bool = False) -> dict[str, Any]:
    """The model `Formula` of an expression; `left` is what it is equal to, as MathML."""
    made = lines(expr, notation)
    *parts, body = made
    style = MathmlStyle(as_einsum=notation == "einsum")
    taken = {v.name for v in variables(expr)} | _sizes(expr)
    turned = row and notation != "index"
    tree = Tree("transposed", (body.tree,), None, 1) if turned else body.tree
    by_entry = notation == "matrix" and any(part.kind == "einsum" for line in made for part in walk(line.tree))
    return {
        **{key: _text(made, notation, key, taken, turned) for key in ("text", "unicode", "latex")},
        "mathml": whole(style.text(tree)),
        "left": whole(_indexed(left, labels(body.labels))),
        "where": [_definition(part, style, notation) for part in parts],
        "shape": [1, *expr.shape] if row else list(expr.shape),
        "shape_text": f"1×{expr.shape[0]}" if row else shape_text(expr.shape),
        "notation": notation,
        "note": NOTES["matrix"] if by_entry else "",
    }


def _indexed(left: str, index: str) -> str:
    """A left side with an index; what is more than a letter is in brackets."""
    return below(fenced(left) if index and ("<mfrac" in left or "<msub" in left) else left, index)


def labels(pairs: Sequence[tuple[str, Any]]) -> str:
    """The labels of a heading as MathML."""
    return letters([letter for letter, _ in pairs])


def _definition(line: Line, style: MathmlStyle, notation: str) -> dict[str, str]:
    plain = PlainStyle()
    head = plain.heading(line.labels) + " " if line.labels else ""
    return {
        "name": line.name,
        "name_mathml": whole(_indexed(name_mathml(line.name), labels(line.labels)), display=False),
        "text": head + plain.text(line.tree),
        "mathml": whole(style.text(line.tree)),
    }


def _text(made: Sequence[Line], notation: str, kind: str, taken: set[str], row: bool) -> str:
    """The whole as text of one kind; see `eindiff.text.write.print_expr.to_text`."""
    writer: PlainStyle = {"text": PlainStyle, "unicode": UnicodeStyle, "latex": LatexStyle}[kind]()
    if notation == "index":
        writer = replace(writer, times=" ") if kind == "unicode" else writer
        writer = replace(writer, total="Σ" if "sum" in taken else "sum", unit="δ" if "delta" in taken else "delta")
        return writer.equations([writer.equation(x.name, x.labels, writer.text(x.tree)) for x in made])
    *parts, body = made
    text = writer.document([(writer.define(x.name), writer.text(x.tree)) for x in parts], writer.text(body.tree))
    return as_row(text, "plain" if kind == "text" else kind) if row else text


def inline(expr: Expr, notation: str, letter: str = "") -> str:
    """An expression without named parts, as MathML elements: what is too long is cut off."""
    body = lines(expr, notation, names=False)[-1]
    style = MathmlStyle(as_einsum=notation == "einsum", letter=letter)
    return style.text(body.tree)
