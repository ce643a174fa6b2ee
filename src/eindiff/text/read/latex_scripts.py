r"""What stands below and above the line in a formula: x_i of a sum over i, x_1 as one of these, A^\top, y^{(i)}."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import NoReturn

from eindiff.text.read.latex_words import FONTS, LETTER_COMMANDS, TRANSPOSES
from eindiff.text.read.notation import NORMS, Token, norm_name
from eindiff.text.read.source import Source

_SILENT = FONTS | {"{", "}"}


class Cursor:
    """The tokens of a formula and a place among them."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source, self.tokens, self.at = source, tokens, 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead].text if self.at + ahead < len(self.tokens) else ""

    def next(self) -> Token:
        if self.at >= len(self.tokens):
            raise self.source.error("the formula ends too early", len(self.source.text))
        self.at += 1
        return self.tokens[self.at - 1]

    def fail(self, problem: str, token: Token | None = None) -> NoReturn:
        place = token or (self.tokens[self.at] if self.at < len(self.tokens) else None)
        start, end = (place.start, place.end) if place else (len(self.source.text), None)
        raise self.source.error(problem, start, end)

    def expect(self, text: str) -> Token:
        if self.peek() != text:
            self.fail(f"expected {text} here")
        return self.next()

    def made(self, text: str, place: Token) -> Token:
        return Token("", text, place.start, place.end)

    def group(self) -> list[Token]:
        """The tokens of an argument in braces, or the next one, as they stand."""
        return self.between("{", "}") if self.peek() == "{" else [self.next()]

    def between(self, opening: str, closing: str) -> list[Token]:
        """The tokens between a bracket, which comes next, and the one that closes it."""
        self.next()
        inner: list[Token] = []
        depth = 1
        while True:
            token = self.next()
            depth += (token.text == opening) - (token.text == closing)
            if depth == 0:
                return inner
            inner.append(token)


class Scripts(Cursor, ABC):
    """Indices, exponents and sums over indices."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        super().__init__(source, tokens)
        self.all_tokens = tokens
        self.indices: list[str] = []  # of the sums around a place
        self.from_zero: set[str] = set()  # those that begin at 0
        self.ends: dict[str, str] = {}  # by index
        self.ended: set[str] = set()  # of sums whose end was met
        self.lasts: dict[str, str] = {}  # by the names that have such indices: how far they run
        self.firsts: dict[str, int] = {}
        self.chosen: set[str] = set()  # indices of single entries
        self.entries: list[tuple[Token, list[Token]]] = []  # names with other indices

    @abstractmethod
    def inside(self, tokens: list[Token]) -> list[Token]:
        """A sum that is made of some tokens alone."""

    @abstractmethod
    def product(self, in_function: bool = False) -> list[Token]:
        """Factors, one after the other or with an operator between them."""

    @abstractmethod
    def function(self, name: str, begin: int) -> list[Token]:
        """A function with its argument."""

    def scripted(self, base: list[Token], kind: str) -> list[Token]:
        """What indices and exponents behind a factor mean, in any order."""
        index: list[Token] | None = None
        powers: list[list[Token]] = []
        while self.peek() in ("^", ".^", "_", "'", "’", "′", "ᵀ"):
            mark = self.next()
            if mark.text == "_":
                index = self.group()
            elif mark.text == ".^":
                powers.append([self.made(r"\odot", mark), *self.exponent()])
            else:
                powers.append(self.exponent() if mark.text == "^" else [self.made(r"\top", mark)])
        for power in powers:
            if _is_bracketed(power) and any(token.text in self.indices for token in power):  # y^{(i)} is y_i
                index = [*power[1:-1], *([self.made(",", power[0])] if index else []), *(index or [])]
                powers = [other for other in powers if other is not power]
                break
        result = self.subscripted(base, kind, index)
        for power in powers:
            result = self.raised(result, kind, power)
        return result

    def exponent(self) -> list[Token]:
        """What stands above the line: in braces, or in brackets, where there are no braces, or one token."""
        if self.peek() in ("-", "−") and self.peek(1).isdigit():
            return [self.next(), self.next()]
        return self.between("(", ")") if self.peek() == "(" else self.group()

    def subscripted(self, base: list[Token], kind: str, index: list[Token] | None) -> list[Token]:
        text = "".join(t.text for t in index or () if t.text not in _SILENT)
        if kind in ("norm", "bars"):
            name = self.norm(text, (index or base)[0]) if kind == "norm" else "bars"
            return [self.made(f"{name}(", base[0]), *base[1:]]
        if index is None:
            return base
        if text.startswith("[") and text.endswith("]"):  # x_{[1:]} and u_{[g]}, as slices and gathers are printed
            return [*base, self.made(text, index[0])]
        if text == "+" and kind == "bracket":
            return [self.made("relu", base[0]), *base]
        if any(token.text in self.indices for token in index):
            return self.summed_over(base, index)
        if kind != "name":
            self.fail("an index stands at a name, or is that of a sum", index[0])
        if base[0].text in ("I", "vector(1)", "vector(0)"):
            return base
        made = Token(base[0].kind, base[0].text, base[0].start, base[0].end)
        self.entries.append((made, index))
        return [made]

    def norm(self, text: str, place: Token) -> str:
        """The norm with an index."""
        if norm_name(text) not in NORMS:
            self.fail(f"there is no norm {text} here; known are 1, 2, F, \\infty and *", place)
        return NORMS[norm_name(text)]

    def summed_over(self, base: list[Token], index: list[Token]) -> list[Token]:
        """What has indices of sums in its index."""
        if base[0].text == "pi" and len(base) == 1:  # weights of a mixture, and not the number
            base = [self.made("pi_", base[0])]
        return [*base, self.made(f"[{self.running(base[0].text, index)}]", index[0])]

    def running(self, name: str, index: list[Token]) -> str:
        """The entries of an index that has indices of sums in it: `i,j` of x_{ij}, `i + 1` of x_{i+1}."""
        words = [t.text for t in index if t.text not in ("{", "}")]
        own = next(word for word in words if word in self.indices)
        self.firsts[name] = 0 if own in self.from_zero else 1
        self.lasts.setdefault(name, "")
        if words == [own]:
            self.lasts[name] = self.ends.get(own, "")
        entries: list[str] = []
        joins = False
        for word in words:
            if word in "+-" and entries:
                joins = True
                entries[-1] += f" {word} "
            elif word == ",":
                joins = False
            elif joins:
                entries[-1] += word
                joins = False
            elif word.isalnum() or word in ("·", ":", r"\cdot"):
                entries.append(
                    word if word.isalpha() and len(word) == 1 else ":" if not word.isdigit() else str(int(word) - 1)
                )
        return ",".join(entries)

    def name_entries(self) -> None:
        """Names with indices that are none of a sum: x_1 is an entry of x where a sum runs over those, else a name."""
        for token, index in self.entries:
            text = "".join(LETTER_COMMANDS.get(t.text, t.text.lstrip("\\")) for t in index if t.text not in FONTS)
            if text in self.ended:
                out = f"{token.text}_{text} stands outside of the sum over {text}"
                self.fail(f"{out}; put all that is summed in brackets, or give the sum another index", index[0])
            if token.text in self.firsts:
                token.text += f"[{self.entry(token.text, text, index[0])}]"
            elif suffix := _suffix(text):
                token.text += f"_{suffix}"

    def entry(self, name: str, text: str, place: Token) -> str:
        """One entry of a name whose entries are summed over: the first, the last, or one under an index of its own."""
        if text.isdigit():
            return str(int(text) - self.firsts[name])
        last = self.lasts[name]
        if last and text.startswith(last) and re.fullmatch(r"(-\d+)?", text[len(last) :]):
            return str(-1 - int(text[len(last) + 1 :] or 0))
        if len(text) == 1 and text.isalpha():
            self.chosen.add(text)
            return text
        self.fail(f"`{name}_{text}`: an entry of {name} is {name}_1, {name}_n or {name}_i", place)

    def raised(self, base: list[Token], kind: str, power: list[Token]) -> list[Token]:
        text = "".join(t.text for t in power)
        made, place = self.made, power[0] if power else base[-1]
        if text in TRANSPOSES or (text == "t" and self.before_matrix()):
            return [*base, made("'", place)]
        if text in (r"-\top", "-T", r"-\intercal"):
            return [made("(", base[0]), *base, made("^(-1))'", place)]
        if text in ("+", r"\dagger"):
            return [made("pinv(", base[0]), *base, made(")", place)]
        if text in ("*", r"\ast", r"\star") and kind == "name":
            return [made(f"{base[0].text}_star", base[0])]
        if power and power[0].text in (r"\odot", r"\circ"):
            return [*base, made(".^(", place), *self.inside(power[1:]), made(")", place)]
        if _is_bracketed(power) and kind == "name":
            return self.subscripted(base, kind, power[1:-1])
        if not power:
            return base
        return [*base, made("^(", place), *self.inside(power), made(")", place)]

    def before_matrix(self) -> bool:
        """Whether a capital follows: y^t K y, where t is no number."""
        following = self.peek().lstrip("\\")
        return following[:1].isupper()

    # Sums

    def over(self) -> list[Token]:
        r"""`\sum_{i=1}^n`: the product behind it is the term."""
        place = self.next()
        which = "sum_over" if place.text in (r"\sum", "∑") else "prod_over"
        lower: list[Token] = []
        upper: list[Token] = []
        while self.peek() in ("_", "^"):
            mark = self.next().text
            if mark == "_":
                lower = self.group()
            else:
                upper = self.group()
        if not lower:
            return self.function("sum" if which == "sum_over" else "prod", self.at - 1)
        indices, first = self.range_of(lower)
        last = re.sub(r"[^0-9A-Za-z+*-]", "", "".join(t.text for t in upper))
        ends = f"{''.join(first) or 1}, {last}, " if upper else ""
        if upper and "".join(first) == "0":  # places count from 1: 0..n are n + 1 of them
            ends = f"1, {last}+1, " if self.is_used(last) else ""
            self.from_zero |= {*indices}
        self.ends = {**self.ends, **dict.fromkeys(indices, last)}
        self.indices += indices
        sign = [self.made("-", self.next())] if self.peek() in ("-", "−", "–", "—") else []
        term = sign + self.product()
        del self.indices[len(self.indices) - len(indices) :]
        self.ended |= {*indices} - {*self.indices}
        for name in reversed(indices):
            term = [self.made(f"{which}({name}, {ends}", place), *term, self.made(")", place)]
        return term

    def is_used(self, last: str) -> bool:
        """Whether the end of a sum is more than a letter, or one that means something elsewhere, too."""
        places = [at for at, token in enumerate(self.all_tokens) if token.text == last]
        return len(last) != 1 or any(at and self.all_tokens[at - 1].text != "^" for at in places)

    def range_of(self, lower: list[Token]) -> tuple[list[str], list[str]]:
        """The indices below a sum, and where the first of them begins if that is said."""
        words = [t.text for t in lower]
        names = [word for word in words if word.isalpha() and len(word) == 1]
        if r"\neq" in words or "<" in words or r"\ne" in words or r"\leq" in words or not names:
            pairs = r"\frac{1}{2}\sum_{i,j} for all pairs"
            self.fail(f"sums run over all values of an index: \\sum_{{i=1}}^n, or {pairs}", lower[0])
        if r"\in" in words:
            names = names[: 1 + words[: words.index(r"\in")].count(",")]
        first = words[words.index("=") + 1 :] if "=" in words else []
        indices = names[:1] if first else list(dict.fromkeys(names))
        return indices, first


def _is_bracketed(power: list[Token]) -> bool:
    return len(power) > 2 and power[0].text == "(" and power[-1].text == ")"


def _suffix(text: str) -> str:
    """An index as the end of a name: x_{t+1} is x_t_plus_1."""
    return re.sub(r"\W+", "", text.replace("+", "_plus_").replace("-", "_minus_").replace("−", "_minus_"))
