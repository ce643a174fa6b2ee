"""`to_text`: expressions as text, in three notations and three styles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import escape

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Map, plain, variables
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.sizes import names as size_names

NOTATIONS = ("matrix", "index", "einsum")
STYLES = ("plain", "unicode", "latex")


def to_text(expr: Expr, notation: str = "matrix", style: str = "plain", names: bool = True) -> str:
    """An expression as text.

    `notation` is `matrix` (`X'*diag(v)*X`), `index` (`[i,j] sum[k] X[k,i]*v[k]*X[k,j]`) or `einsum`; `style` is
    `plain`, which `parse` and `parse_index` read back, `unicode` or `latex`. What is large and occurs more than once
    gets a name (`t0 = ...; ...`) unless `names` is False; then an expression that is too long or too deep is cut off.

    >>> import eindiff as ed
    >>> A, x, b = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("b", "m")
    >>> gradient = ed.gradient(ed.norm2(A @ x - b) ** 2, x)
    >>> to_text(gradient)
    "2*A'*(A*x - b)"
    >>> to_text(gradient, style="unicode")
    '2·Aᵀ·(A·x − b)'
    >>> to_text(gradient, "einsum")
    '2*einsum("ji,j->i", A, einsum("ij,j->i", A, x) - b)'
    """
    if notation not in NOTATIONS:
        raise EindiffError(f"notation {notation!r}: choose one of {', '.join(NOTATIONS)}")
    if style not in STYLES:
        raise EindiffError(f"style {style!r}: choose one of {', '.join(STYLES)}")
    from eindiff.text.write.latex import LatexStyle
    from eindiff.text.write.notation_einsum import EinsumNotation
    from eindiff.text.write.notation_index import IndexNotation, with_letters
    from eindiff.text.write.notation_matrix import MatrixNotation
    from eindiff.text.write.print_names import document
    from eindiff.text.write.print_text import PlainStyle, UnicodeStyle

    expr = as_written(plain(expr))
    taken = {variable.name for variable in variables(expr)}
    taken |= {name for variable in variables(expr) for size in variable.shape for name in size_names(size)}
    writer = {"plain": PlainStyle, "unicode": UnicodeStyle, "latex": LatexStyle}[style]()
    if notation == "index":
        indices = IndexNotation(expr)
        writer = replace(writer, times=" ") if style == "unicode" else writer
        writer = replace(writer, total="Σ" if "sum" in taken else "sum", unit="δ" if "delta" in taken else "delta")
        parts = with_letters(document(expr, indices, names, taken), indices, expr)
        return writer.equations([writer.equation(name, head, writer.text(tree)) for name, head, tree in parts])
    made = document(expr, MatrixNotation(expr) if notation == "matrix" else EinsumNotation(expr), names, taken)
    definitions = [(writer.define(name), writer.text(tree)) for name, _, tree in made.definitions]
    return writer.document(definitions, writer.text(made.body))


def as_written(expr: Expr) -> Expr:
    """An expression without the functions that only derivatives are made of: with the formulas that people know."""

    def change(node: Expr, children: list[Expr]) -> Expr:
        if isinstance(node, Map) and node.function.formula is not None:
            written: Expr = node.function.formula(*children)
            return written
        return with_children(node, children)

    return rebuild([expr], change)[0]


def repr_latex(expr: Expr) -> str:
    """What a notebook shows: the expression in matrix notation between dollar signs."""
    return f"$\\displaystyle {to_text(expr, style='latex')}$"


def repr_html(expr: Expr) -> str:
    """What a page shows where there is no LaTeX: the expression in Unicode, one line a definition."""
    return f"<code>{escape(to_text(expr, style='unicode')).replace(chr(10), '<br>')}</code>"


# What `eindiff` gives to the class of expressions
EXPRESSION_TEXTS: dict[str, Callable[[Expr], str]] = {
    "_repr_latex_": repr_latex,
    "_repr_html_": repr_html,
    "_readable": lambda expr: to_text(expr),
}
