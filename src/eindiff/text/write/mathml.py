"""Formulas as MathML: the same notation as in LaTeX, for browsers, which need nothing else to show it.

A piece is a sequence of elements. Every text that comes from outside goes through `escape`, once, in `token`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

from eindiff.core.nodes import Number
from eindiff.functions.table import TABLE
from eindiff.text.write.latex import LatexStyle
from eindiff.text.write.names import GREEK_SIGNS, split_name
from eindiff.text.write.plain import ATOM, POSTFIX, POWER, PRODUCT, SUM, SUMMED, Piece, short_array
from eindiff.text.write.tree import Tree

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
TIMES = '<mo lspace="0" rspace="0.17em">&#x2062;</mo>'  # invisible, with a thin space
APPLY = "<mo>&#x2061;</mo>"
MINUS = '<mo form="prefix">−</mo>'  # before one term; between two there is more space
_SIZE = re.compile(r"[^\W\d]\w*|\d+|\S")
_LATEX_COMMANDS = re.compile(r"(\\[a-zA-Z]+)+")  # of LaTeX, without arguments
_RAISED = {"inv": f"{MINUS}<mn>1</mn>", "pinv": "<mo>+</mo>"}
_TALL = ("<mfrac", "<munder", "<mtable", "<msqrt")
_LOWERED = {"norm1": ("norm", "1"), "norm2": ("norm", "2"), "at_max": ("𝟏", "arg max"), "prod_except": ("∏", "≠")}


def token(tag: str, text: str) -> str:
    """An element with text in it."""
    return f"<{tag}>{escape(text)}</{tag}>"


def row(inside: str) -> str:
    """Elements as one."""
    return f"<mrow>{inside}</mrow>"


def fenced(inside: str, opening: str = "(", closing: str = ")") -> str:
    """Elements in brackets, which grow with them where they are tall."""
    grows = "true" if any(tag in inside for tag in _TALL) else "false"
    left = f'<mo form="prefix" fence="true" stretchy="{grows}">{opening}</mo>'
    return row(f'{left}{inside}<mo form="postfix" fence="true" stretchy="{grows}">{closing}</mo>')


def below(base: str, inside: str) -> str:
    """Something with an index."""
    return f"<msub>{row(base)}{row(inside)}</msub>" if inside else base


def above(base: str, inside: str) -> str:
    """Something with an exponent."""
    return f"<msup>{row(base)}{row(inside)}</msup>"


def letters(labels: Sequence[str]) -> str:
    """Labels of axes, side by side."""
    return "".join(token("mi", label) for label in labels)


def whole(inside: str, display: bool = True) -> str:
    """A `<math>` element."""
    style = ' displaystyle="true"' if display else ""
    return f'<math xmlns="{NAMESPACE}"{style}>{row(inside)}</math>'


def name_mathml(text: str) -> str:
    """A name: Greek ones as letters, digits at the end and what follows an underscore as an index.

    >>> name_mathml("x"), name_mathml("lambda")
    ('<mi>x</mi>', '<mi>λ</mi>')
    >>> name_mathml("x1")
    '<msub><mrow><mi>x</mi></mrow><mrow><mn>1</mn></mrow></msub>'
    """
    stem, index = split_name(text)
    if not stem:
        return token("mi", text)
    made = token("mi", GREEK_SIGNS.get(stem, stem))
    return below(made, token("mn" if index.isdigit() else "mi", index)) if index else made


def number_mathml(value: Number) -> str:
    """A number: a fraction, or with a power of ten."""
    if isinstance(value, Fraction):
        made = f"<mfrac><mn>{abs(value.numerator)}</mn><mn>{value.denominator}</mn></mfrac>"
        return MINUS + made if value < 0 else made
    text = repr(value)
    sign = MINUS if text.startswith("-") else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    made = sign + token("mn", mantissa.replace("inf", "∞"))
    if not exponent:
        return made
    power = (MINUS if exponent.startswith("-") else "") + token("mn", str(abs(int(exponent))))
    return f"{made}<mo>·</mo>{above('<mn>10</mn>', power)}"


def size_mathml(text: str) -> str:
    """A size or an index, which may be a product or a sum of names; `g[i]` is g with an index."""
    if found := re.fullmatch(r"(\w+)\[([\w,]+)\]", text):
        return below(name_mathml(found[1]), letters(found[2].split(",")))
    pieces = []
    for part in _SIZE.findall(text):
        if part.isdigit():
            pieces.append(token("mn", part))
        elif part[0].isalpha() or part[0] == "_":
            pieces.append(token("mi", part) if part == "min" else name_mathml(part))
        else:
            pieces.append(TIMES if part == "*" else token("mo", part.replace("-", "−")))
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class MathmlStyle(LatexStyle):
    """The formulas of LaTeX in MathML.

    With `as_einsum`, products with labels are written as in the paper, `A ∗_(ij,jk,ik) B`; otherwise by their entries.
    `letter` is the one that names of steps begin with: `vbar1` is v with a bar and an index.
    """

    times: str = TIMES
    by_entry: str = "<mo>⊙</mo>"
    over: str = "<mo>/</mo>"
    over_by_entry: str = "<mo>⊘</mo>"
    minus: str = MINUS
    mark: str = '<mo lspace="0" rspace="0">⊙</mo>'
    top: str = "<mo>⊤</mo>"
    inverse_top: str = f"{MINUS}<mo>⊤</mo>"
    identity: str = "<mi>I</mi>"
    entry_of_unit: str = "<mi>δ</mi>"
    one: str = "<mn>1</mn>"
    cross: str = "<mo>×</mo>"
    kronecker: str = "<mo>⊗</mo>"
    comma: str = "<mo>,</mo>"
    scripts: tuple[str, ...] = ("<msu",)
    as_einsum: bool = False
    letter: str = ""

    def define(self, name: str) -> str:
        marked = re.fullmatch(rf"{self.letter}(bar|dot)(\d*)", name) if self.letter else None
        if marked is None:
            return name_mathml(name)
        mark = "¯" if marked[1] == "bar" else "˙"
        over = f'<mover accent="true">{token("mi", self.letter)}<mo>{mark}</mo></mover>'
        return below(over, token("mn", marked[2]) if marked[2] else "")

    def name(self, tree: Tree) -> Piece:
        if "=" in tree.data:
            return token("mtext", tree.data), ATOM
        if tree.data.isidentifier():
            return self.define(tree.data), ATOM
        return size_mathml(tree.data), ATOM

    def number_text(self, value: Number) -> str:
        return number_mathml(value)

    def fenced(self, inside: str, opening: str = "(", closing: str = ")") -> str:
        return fenced(inside, opening, closing)

    def below(self, base: str, index: str) -> str:
        return below(base, index)

    def above(self, base: str, exponent: str) -> str:
        return above(base, exponent)

    def fraction(self, top: str, bottom: str) -> str:
        return f"<mfrac>{row(top)}{row(bottom)}</mfrac>"

    def reciprocal(self, bottom: str) -> str:
        return f"<mfrac><mn>1</mn>{row(bottom)}</mfrac>"

    def root(self, inside: str) -> str:
        return f"<msqrt>{row(inside)}</msqrt>"

    def norm(self, inside: str, index: str = "") -> str:
        return below(fenced(inside, "‖", "‖"), token("mn", index) if index else "")

    def filled(self, digit: str) -> str:
        return token("mn", "𝟏" if digit == "1" else "𝟎")

    def table(self, rows: Sequence[Sequence[str]]) -> str:
        lines = ["".join(f"<mtd>{cell}</mtd>" for cell in cells) for cells in rows]
        return fenced("<mtable>" + "".join(f"<mtr>{line}</mtr>" for line in lines) + "</mtable>", "[", "]")

    def long_array(self, value: Any) -> str:
        return token("mtext", short_array(value))

    def size(self, text: str) -> str:
        return size_mathml(text)

    def letters(self, labels: Sequence[str]) -> str:
        return letters(labels)

    def sum_over(self, labels: Sequence[str], between: str = "") -> str:
        return f"<munder><mo>∑</mo>{row(letters(labels))}</munder>"

    def sum_where(self, labels: Sequence[str], conditions: Sequence[tuple[str, str]]) -> str:
        said = self.comma.join(f"{self.size(a)}<mo>=</mo>{self.size(b)}" for a, b in conditions)
        return f"<munder><mo>∑</mo>{row(letters(labels) + '<mo>:</mo>' + said)}</munder>"

    def compared(self, left: str, right: str) -> str:
        return fenced(f"{left}<mo>&gt;</mo>{right}", "[", "]")

    def sum(self, tree: Tree) -> Piece:
        pieces = []
        for k, (sign, part) in enumerate(zip(tree.data, tree.parts, strict=True)):
            between = "<mo>−</mo>" if sign < 0 else "<mo>+</mo>"
            mark = between if k else self.minus if sign < 0 else ""
            pieces.append(mark + self.text(part, SUMMED))
        return "".join(pieces), SUM

    def indexing(self, tree: Tree) -> Piece:
        chosen = "<mo>,</mo>".join(size_mathml(entry) for entry in tree.data)
        return below(self.text(tree.parts[0], ATOM), fenced(chosen, "[", "]")), POSTFIX

    def function(self, tree: Tree, args: list[str]) -> Piece:
        match tree.data:
            case "inv" | "pinv":
                return above(self.text(tree.parts[0], ATOM), _RAISED[tree.data]), POSTFIX
            case "power" if len(args) == 2:
                return above(self.text(tree.parts[0], ATOM), args[1]), POSTFIX
        return self._head(tree.data) + APPLY + fenced("<mo>,</mo>".join(args)), ATOM

    @staticmethod
    def _head(function: str) -> str:
        if function in _LOWERED:
            stem, index = _LOWERED[function]
            return below(token("mi", stem), token("mn", index))
        form = TABLE[function].latex if function in TABLE else ""
        if form == r"\prod":
            return "<mo>∏</mo>"
        words = form.split("\\")[1:] if _LATEX_COMMANDS.fullmatch(form) else [function]
        return token("mi", " ".join([GREEK_SIGNS.get(word, word) for word in words]))

    def einsum(self, tree: Tree) -> Piece:
        return self._labelled(tree) if self.as_einsum else LatexStyle.einsum(self, tree)

    def _labelled(self, tree: Tree) -> Piece:
        """As in the paper for two operands; for other numbers of them, like a function with its labels below."""
        inputs, output, unbound = tree.data
        texts = ["".join(labels) for labels in (*inputs, output)]
        sizes = "".join(f"<mo>,</mo>{token('mi', label)}<mo>=</mo>{size_mathml(str(size))}" for label, size in unbound)
        inner = "<mo>,</mo>".join(letters(text) for text in texts[:-1])
        if len(inputs) == 2 and all(inputs) and not unbound:
            index = fenced(f"{inner}<mo>,</mo>{letters(texts[-1]) or '<mo>·</mo>'}")
            left, right = (self.text(part, POWER) for part in tree.parts)
            return f'{left}<mspace width="0.2em"/>{below("<mo>∗</mo>", index)}<mspace width="0.2em"/>{right}', PRODUCT
        index = fenced(f"{inner}<mo>→</mo>{letters(texts[-1]) or '<mo>·</mo>'}{sizes}")
        args = "<mo>,</mo>".join(self.text(part) for part in tree.parts)
        return below("<mo>∗</mo>", index) + APPLY + fenced(args), ATOM
