"""Expressions as text, in three notations (matrix, index, einsum) and three styles (plain, Unicode, LaTeX).

A notation makes a tree of an expression, or several where parts get names; a style writes trees down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Apply, Einsum, Expr, Map, is_index_map, plain, topological, variables
from eindiff.core.rebuild import rebuild, with_children
from eindiff.core.representation import SHOWN_NODES
from eindiff.core.sizes import names as size_names
from eindiff.text.write.document import document
from eindiff.text.write.latex import LatexStyle
from eindiff.text.write.notation_einsum import EinsumNotation
from eindiff.text.write.notation_index import IndexNotation, with_letters
from eindiff.text.write.notation_kronecker import KroneckerNotation, NoKroneckerFormError
from eindiff.text.write.notation_matrix import MatrixNotation
from eindiff.text.write.plain import PlainStyle, UnicodeStyle
from eindiff.text.write.tree import Tree

NOTATIONS = ("matrix", "index", "einsum")
KRONECKER = "kronecker"  # another one, of tensors of order four: as a matrix
STYLES: dict[str, type[PlainStyle]] = {"plain": PlainStyle, "unicode": UnicodeStyle, "latex": LatexStyle}


def to_text(expr: Expr, notation: str = "matrix", style: str = "plain", names: bool = True) -> str:
    """An expression as text.

    `notation` is `matrix` (`X'*diag(v)*X`), `index` (`[i,j] sum[k] X[k,i]*v[k]*X[k,j]`), `einsum`, or `kronecker`: a
    tensor of order four as a matrix (`kron(eye(m), V'*V)`) where it has this form, else as in `matrix`; `style` is
    `plain`, which `parse` reads back, `unicode` or `latex`. What is large and occurs more than once
    gets a name (`t0 = ...; ...`) unless `names` is False; then an expression that is too long or too deep is cut off.

    Args:
        expr: an expression
        notation: `matrix`, `index`, `einsum` or `kronecker`
        style: `plain`, `unicode` or `latex`
        names: whether parts get names

    >>> import eindiff as ed
    >>> A, x, b = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("b", "m")
    >>> gradient = ed.gradient(ed.norm2(A @ x - b) ** 2, x)
    >>> ed.to_text(gradient)
    "2*A'*(A*x - b)"
    >>> ed.to_text(gradient, style="unicode")
    '2·Aᵀ·(A·x − b)'
    >>> ed.to_text(gradient, "einsum")
    '2*einsum("ji,j->i", A, einsum("ij,j->i", A, x) - b)'

    See also: `parse`, `to_source`.
    """
    if notation not in (*NOTATIONS, KRONECKER):
        raise EindiffError(f"notation {notation!r}: choose one of {', '.join((*NOTATIONS, KRONECKER))}", "options")
    if style not in STYLES:
        raise EindiffError(f"style {style!r}: choose one of {', '.join(STYLES)}", "options")
    return Equations.of(expr, notation, names).text(style)


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A named part, or the expression itself (then without a name): its labels in index notation, and its tree."""

    name: str
    labels: tuple
    tree: Tree


@dataclass(frozen=True, slots=True)
class Equations:
    """An expression in a notation: the named parts, each before its use, and the expression itself as the last."""

    lines: list[NamedPart]
    notation: str
    taken: frozenset[str]  # names of variables and sizes

    @staticmethod
    def of(expr: Expr, notation: str, names: bool = True) -> Equations:
        """The trees of an expression."""
        if notation == KRONECKER:
            return kronecker(expr, names) or Equations.of(expr, "matrix", names)
        expr = as_written(plain(expr))
        taken = frozenset(_taken(expr))
        lines: Iterable[tuple]
        if notation == "index":
            indices = IndexNotation(expr)
            lines = with_letters(document(expr, indices, names, taken), indices, expr)
        else:
            made = document(expr, MatrixNotation(expr) if notation == "matrix" else EinsumNotation(expr), names, taken)
            lines = [*((name, (), tree) for name, _, tree in made.definitions), ("", (), made.body)]
        return Equations([NamedPart(*line) for line in lines], notation, taken)

    def text(self, style: str) -> str:
        """All of it in a style."""
        writer = STYLES[style]()
        if self.notation == "index":
            writer = replace(writer, times=" ") if style == "unicode" else writer
            total, unit = ("Σ" if "sum" in self.taken else "sum"), ("δ" if "delta" in self.taken else "delta")
            writer = replace(writer, total=total, unit=unit)
            return writer.equations([writer.equation(x.name, x.labels, writer.text(x.tree)) for x in self.lines])
        *parts, body = self.lines
        return writer.document([(writer.define(x.name), writer.text(x.tree)) for x in parts], writer.text(body.tree))


def kronecker(expr: Expr, names: bool = True) -> Equations | None:
    """A tensor of order four as a matrix of Kronecker products; None if it has no such form."""
    expr = as_written(plain(expr))
    if expr.ndim != 4:
        return None
    taken = frozenset(_taken(expr))
    try:
        made = document(expr, KroneckerNotation(expr), names, taken)
    except NoKroneckerFormError:
        return None
    lines = [*((name, (), tree) for name, _, tree in made.definitions), ("", (), made.body)]
    return Equations([NamedPart(*line) for line in lines], KRONECKER, taken)


def _taken(expr: Expr) -> Iterable[str]:
    for variable in variables(expr):
        yield variable.name
        for size in variable.shape:
            yield from size_names(size)


def as_written(expr: Expr) -> Expr:
    """An expression without the functions that only derivatives are made of: with the formulas that people know.

    Marks of points without a derivative (two equal eigenvalues) are left out: people write none.
    """

    def change(node: Expr, children: list[Expr]) -> Expr:
        if isinstance(node, Map | Apply) and node.function.formula is not None:
            written: Expr = node.function.formula(*children)
            return written
        return _taken_one_by_one(with_children(node, children))

    return rebuild([expr], change)[0]


def _taken_one_by_one(node: Expr) -> Expr:
    """`Σ_k [k = c] A_ik B_jk` with an index map for each factor: people write `A[:, c]*B[:, c]'`."""
    if not isinstance(node, Einsum):
        return node
    factors, sizes = node.factors, dict(enumerate(node.sizes))
    for chosen, labels in [factor for factor in factors if is_index_map(factor[0]) and len(factor[1]) == 1]:
        [target] = labels
        users = [k for k, (operand, own) in enumerate(factors) if target in own and not is_index_map(operand)]
        if target in node.output or any(factors[k][1].count(target) > 1 for k in users):
            continue
        for k in users[1:]:
            fresh = len(sizes)
            sizes[fresh] = sizes[target]
            operand, own = factors[k]
            factors[k] = (operand, tuple(fresh if label == target else label for label in own))
            factors.append((chosen, (fresh,)))
    return construct.einsum(node.coefficient, factors, node.output, sizes) if len(factors) > len(node.labels) else node


def repr_latex(expr: Expr) -> str:
    """What a notebook shows: the expression in matrix notation between dollar signs."""
    return f"$\\displaystyle {to_text(expr, style='latex')}$"


def printed(expr: Expr) -> str:
    """What `print` shows: matrix notation; of large expressions the beginning, in einsum notation."""
    return to_text(expr) if len(topological([expr])) <= SHOWN_NODES else repr(expr)


# What `eindiff` gives to the class of expressions
EXPRESSION_TEXTS: dict[str, Callable[[Expr], str]] = {
    "__str__": printed,
    "_repr_latex_": repr_latex,
    "_readable": lambda expr: to_text(expr),
}
