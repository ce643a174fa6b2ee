"""Formulas as text: plain, `2*A'*(A*x - b)`, which the parsers read, and Unicode, `2·Aᵀ·(A·x − b)`, for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from eindiff.core.nodes import Number
from eindiff.text.write.tree import Tree, number_text, product, with_powers

SUM, SUMMED, PRODUCT, POWER, POSTFIX, ATOM = range(6)  # how tight a piece of text holds together

SUPERSCRIPTS = str.maketrans("0123456789-+/.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᐟ·")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

Piece = tuple[str, int]  # text, and how tight it holds together


def wrap(piece: Piece, needed: int) -> str:
    """A piece of text, in brackets if it does not hold together tightly enough."""
    text, tight = piece
    return text if tight >= needed else f"({text})"


@dataclass(frozen=True, slots=True)
class PlainStyle:
    """The text that `parse` reads back."""

    times: str = "*"
    by_entry: str = " .* "
    over: str = "/"
    over_by_entry: str = " ./ "
    minus: str = "-"
    total: str = "sum"  # of index notation; Σ and δ if variables have these names
    unit: str = "delta"
    equals: str = " = "
    separator: str = "; "

    def render(self, tree: Tree) -> Piece:
        """The text of a tree."""
        return getattr(self, tree.kind)(tree)

    def text(self, tree: Tree, needed: int = SUM) -> str:
        """The text of a tree in a place that needs it to hold together so tightly."""
        return wrap(self.render(tree), needed)

    def define(self, name: str) -> str:
        """A name that stands for a common subexpression."""
        return name

    # Leaves

    def name(self, tree: Tree) -> Piece:
        return tree.data, ATOM

    def given(self, tree: Tree) -> Piece:
        return self.define(tree.data), ATOM

    def number(self, tree: Tree) -> Piece:
        text = self.number_text(tree.data)
        tight = PRODUCT if isinstance(tree.data, Fraction) or tree.data < 0 else ATOM
        return text, tight

    def number_text(self, value: Number) -> str:
        return number_text(value).replace("-", self.minus)

    def constant(self, tree: Tree) -> Piece:
        return tree.data, ATOM

    def array(self, tree: Tree) -> Piece:
        return _array_text(tree.data), ATOM

    # Operators

    def sum(self, tree: Tree) -> Piece:
        text = ""
        for sign, part in zip(tree.data, tree.parts, strict=True):
            term = self.text(part, SUMMED)
            if text:
                text += f" {self.minus if sign < 0 else '+'} {term}"
            else:
                text = f"{self.minus}{term}" if sign < 0 else term
        return text, SUM

    def product(self, tree: Tree) -> Piece:
        first, *rest = with_powers(tree.parts)
        if not rest:
            return self.render(first)
        if rest[-1].kind == "bigsum":  # it goes on to the end of the product
            before = Tree("product", tree.parts[:-1]) if len(rest) > 1 else first
            sign = self.minus if before == Tree("number", (), -1) else self.text(before, PRODUCT) + self.times
            return sign + self.text(rest[-1], SUMMED), SUMMED
        if first.kind == "number" and first.data == -1:
            if len(rest) == 1:
                return self.minus + self.text(rest[0], PRODUCT), PRODUCT
            return self.minus + self.product(Tree("product", tuple(rest), None, tree.order))[0], PRODUCT
        pieces = [self.text(first, PRODUCT)]
        if len(rest) == 1 and first.kind == "number":
            return pieces[0] + self.times + self.text(rest[0], PRODUCT if self._open(rest[0]) else POWER), PRODUCT
        if first.kind in ("elementwise", "quotient", "product") or first.order == 0:
            pieces = [self.text(first, PRODUCT if first.kind == "number" else POWER)]
        return self.times.join([*pieces, *(self.text(part, POWER) for part in rest)]), PRODUCT

    @staticmethod
    def _open(tree: Tree) -> bool:
        """Whether a number may stand in front without brackets."""
        return tree.kind in ("product", "elementwise", "quotient") and tree.parts[0].kind != "number"

    def elementwise(self, tree: Tree) -> Piece:
        return self.by_entry.join(self.text(part, POWER) for part in tree.parts), PRODUCT

    def quotient(self, tree: Tree) -> Piece:
        top, bottom = tree.parts
        above = self.text(top, PRODUCT if top.kind in ("product", "elementwise", "number") else POWER)
        return above + (self.over_by_entry if tree.data else self.over) + self.text(bottom, POWER), PRODUCT

    def power(self, tree: Tree) -> Piece:
        sign = ".^" if tree.order else "^"
        base = self.text(tree.parts[0], POSTFIX)
        if tree.data is None:
            sign = f" {sign} " if base[-1].isdigit() else sign
            return base + sign + self.text(tree.parts[1], POSTFIX), POWER
        exponent = self.number_text(tree.data)
        return base + sign + (exponent if isinstance(tree.data, int) and tree.data >= 0 else f"({exponent})"), POWER

    def transposed(self, tree: Tree) -> Piece:
        return self.text(tree.parts[0], POSTFIX) + "'", POSTFIX

    def indexing(self, tree: Tree) -> Piece:
        entries = list(tree.data)
        while len(entries) > 1 and entries[-1] == ":":
            entries.pop()
        return f"{self.text(tree.parts[0], POSTFIX)}[{', '.join(entries)}]", POSTFIX

    def call(self, tree: Tree) -> Piece:
        if tree.data == "greater":
            return f"({self.text(tree.parts[0])} > {self.text(tree.parts[1])})", ATOM
        return f"{tree.data}({', '.join(self.text(part) for part in tree.parts)})", ATOM

    def einsum(self, tree: Tree) -> Piece:
        inputs, output, unbound = tree.data
        sizes = [f"{label}={size}" for label, size in unbound]
        args = [f'"{",".join(inputs)}->{output}"', *(self.text(part) for part in tree.parts), *sizes]
        return f"einsum({', '.join(args)})", ATOM

    # Index notation

    def entry(self, tree: Tree) -> Piece:
        return f"{self.text(tree.parts[0], POSTFIX)}[{','.join(tree.data)}]", POSTFIX

    def delta(self, tree: Tree) -> Piece:
        return f"{self.unit}[{','.join(tree.data)}]", POSTFIX

    def bigsum(self, tree: Tree) -> Piece:
        return f"{self.total}{self.heading(tree.data)} {self.text(tree.parts[0], SUMMED)}", SUMMED

    def tensor(self, tree: Tree) -> Piece:
        return f"{self.heading(tree.data)} {self.text(tree.parts[0])}", SUM

    def heading(self, labels: Sequence[tuple[str, Any]]) -> str:
        """`[i,j:n]`: labels, with their sizes where nothing else shows them."""
        return f"[{','.join(letter if size is None else f'{letter}:{size}' for letter, size in labels)}]"

    def equation(self, name: str, labels: Sequence[tuple[str, Any]], text: str) -> str:
        """A tensor by its entries, with its name if it has one."""
        head = self.heading(labels) + " " if labels else ""
        return f"{name} = {head}{text}" if name else head + text

    def equations(self, lines: list[str]) -> str:
        """Several tensors, each in terms of those before it."""
        return self.separator.join(lines)

    def document(self, definitions: list[tuple[str, str]], body: str) -> str:
        """Definitions and the expression as one text."""
        return self.equations([*(f"{name}{self.equals}{text}" for name, text in definitions), body])


def _array_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_array_text, value))}]"
    return repr(whole_number(value) if abs(value) < 2**53 else value)


def whole_number(entry: Any) -> Number:
    """An entry of an array, without a decimal point if it is whole."""
    return int(entry) if entry == int(entry) else entry


@dataclass(frozen=True, slots=True)
class UnicodeStyle(PlainStyle):
    """For reading in a terminal."""

    times: str = "·"
    by_entry: str = " ⊙ "
    over: str = "/"
    over_by_entry: str = " ⊘ "
    minus: str = "−"
    separator: str = "\n"

    def define(self, name: str) -> str:
        return name[0] + name[1:].translate(SUBSCRIPTS)

    def array(self, tree: Tree) -> Piece:
        return short_array(tree.data), ATOM

    def power(self, tree: Tree) -> Piece:
        base = self.text(tree.parts[0], POSTFIX)
        if tree.data is None:
            return f"{base}^{self.text(tree.parts[1], ATOM)}", POWER
        if tree.order:
            return f"{base}{'^⊙'}{self.number_text(tree.data)}", POWER
        return base + number_text(tree.data).translate(SUPERSCRIPTS), POSTFIX

    def transposed(self, tree: Tree) -> Piece:
        [inner] = tree.parts
        if inner.kind == "call" and inner.data == "inv":
            return self.text(inner.parts[0], POSTFIX) + "⁻ᵀ", POSTFIX
        return self.text(inner, POSTFIX) + "ᵀ", POSTFIX

    def call(self, tree: Tree) -> Piece:
        match tree.data:
            case "inv":
                return self.text(tree.parts[0], POSTFIX) + "⁻¹", POSTFIX
            case "norm2" if len(tree.parts) == 1:
                return f"‖{self.text(tree.parts[0])}‖", ATOM
            case "norm1" if len(tree.parts) == 1:
                return f"‖{self.text(tree.parts[0])}‖₁", ATOM
            case "kron":
                return " ⊗ ".join(self._factor(part) for part in tree.parts), SUMMED
            case "eye":
                return "I", ATOM
            case "sqrt":
                return "√" + self.text(tree.parts[0], ATOM), POWER
            case "greater":
                return f"[{self.text(tree.parts[0])} > {self.text(tree.parts[1])}]", ATOM
        return PlainStyle.call(self, tree)

    def _factor(self, tree: Tree) -> str:
        """A factor of a Kronecker product: the identity with its size."""
        if tree.kind == "call" and tree.data == "eye":
            return f"I_{self.text(tree.parts[0])}"
        return self.text(tree, POWER if tree.kind == "call" and tree.data == "kron" else PRODUCT)

    def einsum(self, tree: Tree) -> Piece:
        """Entry by entry: `[δ_ik (VᵀV)_jl]_ijkl`."""
        outer, factors, summed = entries(tree)
        texts = []
        for part, labels in factors:
            head = "δ" if part is None else self.text(part, ATOM)
            texts.append(f"{head}_{labels}" if labels else head)
        sums = "Σ_" + "".join(summed) + " " if summed else ""
        made = f"{sums}{' '.join(texts) or '1'}"
        return (f"[{made}]_{outer}", ATOM) if outer else (made, SUMMED)

    def entry(self, tree: Tree) -> Piece:
        short = all(len(letter) == 1 for letter in tree.data)
        below = "".join(tree.data) if short else f"[{', '.join(map(looked_up, tree.data))}]"
        return f"{self.text(tree.parts[0], ATOM)}_{below}", POSTFIX

    def delta(self, tree: Tree) -> Piece:
        short = all(len(letter) == 1 for letter in tree.data)
        return f"δ_{''.join(tree.data)}" if short else f"δ_[{', '.join(map(looked_up, tree.data))}]", POSTFIX

    def bigsum(self, tree: Tree) -> Piece:
        body, conditions = where_summed(tree)
        below = "".join(letter for letter, _ in tree.data)
        if conditions:
            below = f"{{{below}: {', '.join(f'{looked_up(a)} = {looked_up(b)}' for a, b in conditions)}}}"
        return f"Σ_{below} {self.text(body, SUMMED)}", SUMMED

    def tensor(self, tree: Tree) -> Piece:
        return f"[{self.text(tree.parts[0])}]_{''.join(letter for letter, _ in tree.data)}", ATOM

    def equation(self, name: str, labels: Sequence[tuple[str, Any]], text: str) -> str:
        head = f"[{''.join(letter for letter, _ in labels)}]"
        if name:
            return f"{self.define(name)}{'_' + head[1:-1] if labels else ''} = {text}"
        return f"{head} {text}" if labels else text


def entries(tree: Tree) -> tuple[str, list[tuple[Tree | None, str]], list[str]]:
    """An einsum by entries: the labels of the output, all different, the factors (None: a delta), and the sums."""
    inputs, output, _ = tree.data
    letters = "ijklpqrstuvabcdefghmnowxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    outer = letters[: len(output)]
    first: dict[str, str] = {}
    deltas: list[tuple[Tree | None, str]] = []
    for label, letter in zip(output, outer, strict=True):
        if label in first:
            deltas.append((None, first[label] + letter))
        else:
            first[label] = letter
    rest = iter(letters[len(output) :])
    summed = []
    for label in dict.fromkeys("".join(inputs)):
        if label not in first:
            first[label] = next(rest)
            summed.append(first[label])
    factors: list[tuple[Tree | None, str]] = [
        (part, "".join(first[label] for label in labels)) for part, labels in zip(tree.parts, inputs, strict=True)
    ]
    return outer, deltas + factors, summed


def where_summed(tree: Tree) -> tuple[Tree, list[tuple[str, str]]]:
    """A sum without the deltas that say where its terms go, and what they say: `g_j = i` below its sign."""
    letters = {letter for letter, _ in tree.data}
    [body] = tree.parts
    top = body.parts[0] if body.kind == "quotient" else body
    factors = top.parts if top.kind == "product" else (top,)
    found = [f for f in factors if f.kind == "delta" and letters & set(re.findall(r"\w+", f.data[1]))]
    if not found:
        return body, []
    kept = product([f for f in factors if f not in found])
    body = Tree("quotient", (kept, body.parts[1]), body.data, body.order) if body.kind == "quotient" else kept
    return body, [(delta.data[1], delta.data[0]) for delta in found]


def looked_up(index: str) -> str:
    """`g[i]` as g with an index."""
    found = re.fullmatch(r"(\w+)\[([\w,]+)\]", index)
    return f"{found[1]}_{found[2].replace(',', '')}" if found else index


def short_array(value: Any) -> str:
    """An array, its middle left out if it is long."""
    if not isinstance(value, tuple):
        return _array_text(value)
    shown = [short_array(entry) for entry in value]
    return f"[{', '.join(shown if len(shown) <= 6 else [*shown[:3], '…', *shown[-2:]])}]"
