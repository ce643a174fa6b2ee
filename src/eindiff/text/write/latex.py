r"""Formulas as LaTeX, `2 \, A^\top \, \left(A \, x - b\right)`, to be put between dollar signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from eindiff.core.nodes import Number
from eindiff.functions.elementwise import TABLE
from eindiff.text.write.names import GREEK, split_name
from eindiff.text.write.plain import (
    ATOM,
    POSTFIX,
    POWER,
    PRODUCT,
    SUMMED,
    Piece,
    PlainStyle,
    entries,
    short_array,
    whole_number,
)
from eindiff.text.write.tree import Tree

_OPERATORS = {
    "tr": r"\operatorname{tr}", "diag": r"\operatorname{diag}", "norm1": r"\operatorname{norm}_1",
    "norm2": r"\operatorname{norm}_2", "size": r"\operatorname{size}",
}  # fmt: skip


def name_latex(text: str) -> str:
    r"""A name: Greek ones as letters, digits at the end and what follows an underscore as an index.

    >>> name_latex("x"), name_latex("x1"), name_latex("alpha_max"), name_latex("loss")
    ('x', 'x_{1}', '\\alpha_{\\mathrm{max}}', '\\mathit{loss}')
    """
    stem, below = split_name(text)
    if not stem:
        return rf"\mathit{{{text}}}".replace("_", r"\_")
    made = rf"\{stem}" if stem in GREEK else stem if len(stem) == 1 else rf"\mathit{{{stem}}}"
    if not below:
        return made
    below = below.replace("_", r"\_")
    short = len(below) == 1 or below.isdigit()
    return f"{made}_{{{below}}}" if short else rf"{made}_{{\mathrm{{{below}}}}}"


def number_latex(value: Number) -> str:
    r"""A number: `\frac{1}{2}`, `2.5 \cdot 10^{-7}`."""
    if isinstance(value, Fraction):
        made = rf"\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
        return "-" + made if value < 0 else made
    mantissa, _, exponent = repr(value).partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa.replace("inf", r"\infty")


def size_latex(text: str) -> str:
    """A size, which may be a product or a sum of names."""
    return re.sub(r"[A-Za-z_]\w*", lambda m: m[0] if m[0] == "min" else name_latex(m[0]), text).replace("*", r" \, ")


@dataclass(frozen=True, slots=True)
class LatexStyle(PlainStyle):
    """LaTeX with the symbols of the trade."""

    times: str = r" \, "
    by_entry: str = r" \odot "
    over: str = "/"
    over_by_entry: str = r" \oslash "
    minus: str = "-"

    def text(self, tree: Tree, needed: int = 0) -> str:
        made, tight = self.render(tree)
        return made if tight >= needed else rf"\left({made}\right)"

    def define(self, name: str) -> str:
        return name_latex(name)

    def name(self, tree: Tree) -> Piece:
        if "=" in tree.data:
            return rf"\texttt{{{tree.data}}}", ATOM
        return (r"\ldots", ATOM) if tree.data == "…" else (size_latex(tree.data), ATOM)

    def number_text(self, value: Number) -> str:
        return number_latex(value)

    def number(self, tree: Tree) -> Piece:
        text = number_latex(tree.data)
        return text, PRODUCT if tree.data < 0 or "cdot" in text else POWER if isinstance(tree.data, Fraction) else ATOM

    def constant(self, tree: Tree) -> Piece:
        head, _, rest = tree.data.partition("(")
        return rf"\operatorname{{{head}}}({size_latex(rest)}", ATOM

    def array(self, tree: Tree) -> Piece:
        rows = tree.data
        if tree.order > 2 or len(rows) > 8 or (tree.order == 2 and len(rows[0]) > 8):
            return short_array(rows).replace("…", r"\ldots"), ATOM
        if tree.order == 1:
            rows = tuple((entry,) for entry in rows)
        inside = r" \\ ".join(" & ".join(number_latex(whole_number(entry)) for entry in row) for row in rows)
        return rf"\begin{{bmatrix}} {inside} \end{{bmatrix}}", ATOM

    def quotient(self, tree: Tree) -> Piece:
        top, bottom = tree.parts
        if tree.data:
            return PlainStyle.quotient(self, tree)
        if top.order == 0 or top.kind in ("name", "given", "number", "call"):
            return rf"\frac{{{self.text(top)}}}{{{self.text(bottom)}}}", POWER
        return rf"\frac{{1}}{{{self.text(bottom)}}}{self.times}{self.text(top, PRODUCT)}", PRODUCT

    def power(self, tree: Tree) -> Piece:
        base = self.text(tree.parts[0], POSTFIX if tree.parts[0].kind == "entry" else ATOM)
        exponent = self.text(tree.parts[1]) if tree.data is None else self.number_text(tree.data)
        mark = r"\odot " if tree.order else ""
        return f"{base}^{{{mark}{exponent}}}", POWER

    def transposed(self, tree: Tree) -> Piece:
        [inner] = tree.parts
        if inner.kind == "call" and inner.data == "inv":
            return self.text(inner.parts[0], ATOM) + r"^{-\top}", POSTFIX
        return self.text(inner, ATOM) + r"^\top", POSTFIX

    def indexing(self, tree: Tree) -> Piece:
        chosen = ", ".join(size_latex(entry) for entry in tree.data)
        return f"{self.text(tree.parts[0], ATOM)}_{{[{chosen}]}}", POSTFIX

    def call(self, tree: Tree) -> Piece:
        args = [self.text(part) for part in tree.parts]
        match tree.data:
            case "norm2" if len(args) == 1:
                return rf"\left\lVert {args[0]} \right\rVert", ATOM
            case "norm1" if len(args) == 1:
                return rf"\left\lVert {args[0]} \right\rVert_1", ATOM
            case "sqrt":
                return rf"\sqrt{{{args[0]}}}", ATOM
            case "abs" if tree.order == 0:
                return rf"\left\lvert {args[0]} \right\rvert", ATOM
            case "eye":
                return f"I_{{{args[0]}}}", POSTFIX
            case "ones" | "zeros":
                shape = r" \times ".join(args)
                return rf"\mathbf{{{int(tree.data == 'ones')}}}_{{{shape}}}", POSTFIX
            case "kron":
                return rf"{self.text(tree.parts[0], POWER)} \otimes {self.text(tree.parts[1], POWER)}", PRODUCT
        return self._function(tree, args)

    def _function(self, tree: Tree, args: list[str]) -> Piece:
        """A function as its row of the table says: a name, or a format with places for the arguments."""
        row = TABLE.get(tree.data)
        form = row.latex if row is not None and row.latex else _OPERATORS.get(tree.data, "")
        if "{}" in form:
            raised = form.startswith("{}^")
            tight = [self.text(part, ATOM if raised else POWER) for part in tree.parts]
            return form.format(*tight), POSTFIX if raised else PRODUCT
        head = form or rf"\operatorname{{{tree.data}}}"
        return rf"{head}\left({', '.join(args)}\right)", ATOM

    def einsum(self, tree: Tree) -> Piece:
        outer, factors, summed = entries(tree)
        texts = []
        for part, labels in factors:
            below = f"_{{{labels}}}" if labels else ""
            texts.append(r"\delta" + below if part is None else self._entry(part, below))
        sums = rf"\sum_{{{''.join(summed)}}} " if summed else ""
        return rf"\left[{sums}{self.times.join(texts) or '1'}\right]_{{{outer}}}", POSTFIX

    def _entry(self, part: Tree, below: str) -> str:
        """An entry of a tensor; what has an index or an exponent already is put in brackets."""
        text, tight = self.render(part)
        plain = tight >= ATOM and not any(mark in text for mark in "_^") and part.kind in ("name", "given")
        return text + below if plain or not below else rf"\left({text}\right)" + below

    def entry(self, tree: Tree) -> Piece:
        letters = [size_latex(letter) for letter in tree.data]
        short = all(len(letter) == 1 for letter in letters)
        return self._entry(tree.parts[0], f"_{{{('' if short else ', ').join(letters)}}}"), POSTFIX

    def delta(self, tree: Tree) -> Piece:
        return rf"\delta_{{{''.join(tree.data)}}}", POSTFIX

    def bigsum(self, tree: Tree) -> Piece:
        labels = " ".join(letter for letter, _ in tree.data)
        return rf"\sum_{{{labels}}} {self.text(tree.parts[0], SUMMED)}", SUMMED

    def tensor(self, tree: Tree) -> Piece:
        return rf"\left[{self.text(tree.parts[0])}\right]_{{{''.join(letter for letter, _ in tree.data)}}}", POSTFIX

    def equation(self, name: str, labels: Sequence[tuple[str, Any]], text: str) -> str:
        below = "".join(letter for letter, _ in labels)
        if name:
            made = self.define(name)
            return (rf"\left({made}\right)_{{{below}}}" if below else made) + f" &= {text}"
        return text

    def equations(self, lines: list[str]) -> str:
        if len(lines) == 1:
            return lines[0]
        return r"\begin{aligned} " + r" \\ ".join([*lines[:-1], f"& {lines[-1]}"]) + r" \end{aligned}"

    def document(self, definitions: list[tuple[str, str]], body: str) -> str:
        if not definitions:
            return body
        lines = [*(rf"{name} &= {text}" for name, text in definitions), f"& {body}"]
        return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"


