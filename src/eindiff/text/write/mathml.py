"""Formulas as MathML: the same notation as in LaTeX, for browsers, which need nothing else to show it.

A piece is a sequence of elements. Every text that comes from outside goes through `escape`, once, in `token`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from eindiff.core.nodes import Number
from eindiff.functions.table import TABLE
from eindiff.text.write.names import GREEK, split_name
from eindiff.text.write.plain import (
    ATOM,
    POSTFIX,
    POWER,
    PRODUCT,
    SUM,
    SUMMED,
    Piece,
    PlainStyle,
    entries,
    short_array,
    whole_number,
)
from eindiff.text.write.tree import Tree

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
TIMES = '<mo lspace="0" rspace="0.17em">&#x2062;</mo>'  # invisible, with a thin space
APPLY = "<mo>&#x2061;</mo>"
MINUS = '<mo form="prefix">−</mo>'  # before one term; between two there is more space
_SIZE = re.compile(r"[^\W\d]\w*|\d+|\S")
_COMMANDS = re.compile(r"(\\[a-zA-Z]+)+")  # of LaTeX, without arguments
_RAISED = {"inv": f"{MINUS}<mn>1</mn>", "pinv": "<mo>+</mo>"}
_TALL = ("<mfrac", "<munder", "<mtable", "<msqrt")
_LOWERED = {"norm1": ("norm", "1"), "norm2": ("norm", "2"), "inverse_or_zero": ("inv", "0")}


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
    made = token("mi", GREEK.get(stem, stem))
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
    """A size, which may be a product or a sum of names."""
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
class MathmlStyle(PlainStyle):
    """MathML with the symbols of the trade.

    With `as_einsum`, products with labels are written as in the paper, `A ∗_(ij,jk,ik) B`; otherwise by their entries.
    `letter` is the one that names of steps begin with: `vbar1` is v with a bar and an index.
    """

    times: str = TIMES
    by_entry: str = "<mo>⊙</mo>"
    over: str = "<mo>/</mo>"
    over_by_entry: str = "<mo>⊘</mo>"
    minus: str = MINUS
    as_einsum: bool = False
    letter: str = ""

    def text(self, tree: Tree, needed: int = 0) -> str:
        made, tight = self.render(tree)
        return made if tight >= needed else fenced(made)

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

    def number(self, tree: Tree) -> Piece:
        loose = tree.data < 0 or "e" in repr(tree.data)
        tight = POWER if isinstance(tree.data, Fraction) else ATOM
        return number_mathml(tree.data), PRODUCT if loose and not isinstance(tree.data, Fraction) else tight

    def constant(self, tree: Tree) -> Piece:
        head, _, rest = tree.data.partition("(")
        return token("mi", head) + (APPLY + row(size_mathml("(" + rest)) if rest else ""), ATOM

    def array(self, tree: Tree) -> Piece:
        rows = tree.data
        if tree.order > 2 or len(rows) > 8 or (tree.order == 2 and len(rows[0]) > 8):
            return token("mtext", short_array(rows)), ATOM
        if tree.order == 1:
            rows = tuple((entry,) for entry in rows)
        cells = ["".join(f"<mtd>{number_mathml(whole_number(entry))}</mtd>" for entry in line) for line in rows]
        return fenced("<mtable>" + "".join(f"<mtr>{line}</mtr>" for line in cells) + "</mtable>", "[", "]"), ATOM

    # Operators

    def sum(self, tree: Tree) -> Piece:
        pieces = []
        for k, (sign, part) in enumerate(zip(tree.data, tree.parts, strict=True)):
            between = "<mo>−</mo>" if sign < 0 else "<mo>+</mo>"
            mark = between if k else self.minus if sign < 0 else ""
            pieces.append(mark + self.text(part, SUMMED))
        return "".join(pieces), SUM

    def quotient(self, tree: Tree) -> Piece:
        top, bottom = tree.parts
        if tree.data:
            return PlainStyle.quotient(self, tree)
        if top.order == 0 or top.kind in ("name", "given", "number", "call"):
            return f"<mfrac>{row(self.text(top))}{row(self.text(bottom))}</mfrac>", POWER
        fraction = f"<mfrac><mn>1</mn>{row(self.text(bottom))}</mfrac>"
        return fraction + self.times + self.text(top, PRODUCT), PRODUCT

    def power(self, tree: Tree) -> Piece:
        base = self.text(tree.parts[0], POSTFIX if tree.parts[0].kind == "entry" else ATOM)
        exponent = self.text(tree.parts[1]) if tree.data is None else self.number_text(tree.data)
        mark = '<mo lspace="0" rspace="0">⊙</mo>' if tree.order else ""
        return above(base, mark + exponent), POWER

    def transposed(self, tree: Tree) -> Piece:
        [inner] = tree.parts
        if inner.kind == "call" and inner.data == "inv":
            return above(self.text(inner.parts[0], ATOM), f"{MINUS}<mo>⊤</mo>"), POSTFIX
        return above(self.text(inner, ATOM), "<mo>⊤</mo>"), POSTFIX

    def indexing(self, tree: Tree) -> Piece:
        chosen = "<mo>,</mo>".join(size_mathml(entry) for entry in tree.data)
        return below(self.text(tree.parts[0], ATOM), fenced(chosen, "[", "]")), POSTFIX

    def call(self, tree: Tree) -> Piece:
        args = [self.text(part) for part in tree.parts]
        match tree.data:
            case "norm2" if len(args) == 1:
                return fenced(args[0], "‖", "‖"), ATOM
            case "norm1" if len(args) == 1:
                return below(fenced(args[0], "‖", "‖"), "<mn>1</mn>"), ATOM
            case "sqrt":
                return f"<msqrt>{row(args[0])}</msqrt>", ATOM
            case "abs" if tree.order == 0:
                return fenced(args[0], "|", "|"), ATOM
            case "eye":
                return below("<mi>I</mi>", args[0]), POSTFIX
            case "ones" | "zeros":
                digit = "𝟏" if tree.data == "ones" else "𝟎"
                return below(f"<mn>{digit}</mn>", "<mo>×</mo>".join(args)), POSTFIX
            case "kron":
                left, right = (self.text(part, POWER) for part in tree.parts)
                return f"{left}<mo>⊗</mo>{right}", PRODUCT
            case "greater":
                left, right = (self.text(part, POWER) for part in tree.parts)
                return fenced(f"{left}<mo>&gt;</mo>{right}", "[", "]"), ATOM
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
        words = form.split("\\")[1:] if _COMMANDS.fullmatch(form) else [function]
        return token("mi", " ".join([GREEK.get(word, word) for word in words])) if form != r"\prod" else "<mo>∏</mo>"

    # Labels

    def einsum(self, tree: Tree) -> Piece:
        if self.as_einsum:
            return self._labelled(tree)
        outer, factors, summed = entries(tree)
        texts = []
        for part, labels in factors:
            texts.append(below("<mi>δ</mi>", letters(labels)) if part is None else self._entry(part, letters(labels)))
        total = self._sum_over(summed) if summed else ""
        made = fenced(total + (self.times.join(texts) or "<mn>1</mn>"), "[", "]")
        return below(made, letters(outer)), POSTFIX

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

    def _entry(self, part: Tree, index: str) -> str:
        """An entry of a tensor; what has an index or an exponent already is put in brackets."""
        text, tight = self.render(part)
        plain = tight >= ATOM and "<msu" not in text and part.kind in ("name", "given")
        return below(text if plain else fenced(text), index) if index else text

    @staticmethod
    def _sum_over(labels: Sequence[str]) -> str:
        return f"<munder><mo>∑</mo>{row(letters(labels))}</munder>"

    def entry(self, tree: Tree) -> Piece:
        texts = [size_mathml(letter) for letter in tree.data]
        short = all(len(letter) == 1 for letter in tree.data)
        return self._entry(tree.parts[0], ("" if short else "<mo>,</mo>").join(texts)), POSTFIX

    def delta(self, tree: Tree) -> Piece:
        texts = [size_mathml(str(letter)) for letter in tree.data]
        short = all(len(str(letter)) == 1 for letter in tree.data)
        return below("<mi>δ</mi>", ("" if short else "<mo>,</mo>").join(texts)), POSTFIX

    def bigsum(self, tree: Tree) -> Piece:
        return self._sum_over([label for label, _ in tree.data]) + self.text(tree.parts[0], SUMMED), SUMMED

    def tensor(self, tree: Tree) -> Piece:
        return below(fenced(self.text(tree.parts[0]), "[", "]"), letters([label for label, _ in tree.data])), POSTFIX
