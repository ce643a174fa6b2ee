r"""LaTeX as papers have it, in the words of the grammar: `\frac{1}{n}\sum_{i=1}^n (y_i - w^\top x_i)^2`.

Letters stand for themselves, so `Ax` is a product; words are in `\mathrm`, `\text` and `\operatorname`. The argument of
a function without brackets ends at the next + or -, or function. A sum takes the product behind it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from typing import NoReturn

from eindiff.text.read.latex_scripts import Scripts
from eindiff.text.read.latex_tokens import pieces
from eindiff.text.read.latex_words import (
    ACCENTS,
    BAR_OPENS,
    BOLD,
    CLOSES,
    COMMANDS,
    FONTS,
    GOALS,
    LETTER_COMMANDS,
    NORM_OPENS,
    OPERATORS,
    REFUSED_COMMANDS,
    SPELLED,
)
from eindiff.text.read.notation import Token, refuse_quotient
from eindiff.text.read.source import Source

_GOAL_WORD = re.compile(r"(arg\s*)?(min|max)(imi[sz]e)?")
_CONSTRAINED = re.compile(r"(?<=\{)(?:s\.?t\.?|subjectto|suchthat):?(?=\})")
_SIGNS = ("+", "-", "−", "–", "—")
_FRACTIONS = (r"\frac", r"\tfrac", r"\dfrac", r"\cfrac")
_BEGIN_TERMS = frozenset((*_SIGNS, r"\sum", r"\frac", "∑", *NORM_OPENS))
_OVER = (r"\sum", r"\prod", "∑", "∏")


def translated(source: Source, declared: Collection[str], functions: Container[str]) -> tuple[list[Token], set[str]]:
    """The tokens of a formula in the words of the grammar, and which letters are indices that no sum runs over.

    Names in bold are of the kind "bold".
    """
    reader = _Reader(source, pieces(source, declared, functions))
    return reader.formula(), reader.chosen


class _Reader(Scripts):
    """One formula, read from left to right; a method for each part of it gives the tokens for it."""

    def inside(self, tokens: list[Token]) -> list[Token]:
        """A sum that is made of some tokens alone."""
        saved, self.tokens, self.at = (self.tokens, self.at), tokens, 0
        try:
            found = self.sum()
            if self.at < len(tokens):
                self.unexpected()
            return found
        finally:
            self.tokens, self.at = saved

    # Formulas

    def formula(self) -> list[Token]:
        self.skip_head()
        self.skip_goal()
        result = self.sum()
        while self.peek() in (".", ",", ";", "}") or self.peek().startswith("\\\\"):
            self.next()
        if self.at < len(self.tokens):
            self.unexpected()
        self.name_entries()
        return result

    def unexpected(self) -> NoReturn:
        text = self.peek()
        if text in REFUSED_COMMANDS:
            self.fail(f"{text} cannot be read: {REFUSED_COMMANDS[text]}")
        if _CONSTRAINED.search(f"{{{self.word()}}}"):
            self.fail("constraints cannot be read: type the objective alone")
        if text in ("=", r"\leq", r"\le", r"\geq", "<", ">"):
            self.fail(f"`{text}`: one side at a time; type the expression alone")
        self.fail(f"{text} cannot be read here; the language of this field has words for most things, see the help")

    def skip_head(self) -> None:
        """`f(x) =`, or `L = f(x) =`: what stands before an = outside of all brackets, if that is no sum."""
        depth, words = 0, ""
        for at, token in enumerate(self.tokens):
            text, before = token.text, self.tokens[at - 1].text if at else ""
            words += text
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            is_sum = depth == 0 and text in _BEGIN_TERMS and before != "^"
            if is_sum or _CONSTRAINED.search(words) or len(self.tokens) <= at + 2:
                return
            if at and depth == 0 and text in ("=", ":=", r"\coloneqq", r"\triangleq", r"\equiv"):
                self.at, words = at + 1, ""

    def skip_goal(self) -> None:
        r"""`\min_{w}`, `\arg\min_w`, `\underset{w}{\arg\min}` around a loss."""
        while True:
            text = self.peek()
            if text == r"\underset":
                self.next()
                self.group()
                self.group()
            elif text in FONTS and _GOAL_WORD.fullmatch(self.word().replace("~", "")):
                self.next()
                self.group()
            elif text in GOALS and self.peek(1) not in ("(", r"\{", r"\left(", "["):
                self.next()
            else:
                return
            if self.peek() == "_":
                self.next()
                self.refuse_index_goal(self.group())

    def refuse_index_goal(self, below: list[Token]) -> None:
        r"""`\max_i x_i` is no goal, but the largest entry."""
        names = {token.text for token in below if len(token.text) == 1 and token.text.isalpha()}
        for before, token in zip(self.tokens[self.at :], self.tokens[self.at + 1 :], strict=False):
            if before.text == "_" and token.text in names:
                self.fail("an extremum over an index cannot be read; write max(x) or min(x) of the whole x", below[0])

    def sum(self) -> list[Token]:
        result: list[Token] = []
        while self.peek() in _SIGNS:
            result.append(self.made("-" if self.peek() != "+" else "+", self.next()))
        result += self.product()
        while self.peek() in _SIGNS:
            result.append(self.made("-" if self.peek() != "+" else "+", self.next()))
            while self.peek() in _SIGNS:
                result.append(self.made("-" if self.peek() != "+" else "+", self.next()))
            result += self.product()
        return result

    def product(self, in_function: bool = False) -> list[Token]:
        """Factors, one after the other or with an operator between them."""
        result = self.factor()
        while True:
            text = self.peek()
            number = self.tokens[self.at - 1]
            if text and self.peek(-2) == "/" and number.text.isdigit() and number.end == self.tokens[self.at].start:
                refuse_quotient(self.source, number, self.tokens[self.at])
            if text in OPERATORS and not (in_function and OPERATORS[text] in ("*", "/", "·")):
                result.append(self.made(OPERATORS[text], self.next()))
                result += self.factor()
            elif self.starts_factor() and not (in_function and self.is_function()):
                place = self.tokens[self.at]
                result.append(Token("", "*", place.start, place.start))
                result += self.factor()
            else:
                return result

    def starts_factor(self) -> bool:
        text = self.peek()
        if _CONSTRAINED.search(f"{{{self.word()}}}"):
            return False
        if text in NORM_OPENS.values() or text in BAR_OPENS.values():
            return text in self.openable
        known = text in LETTER_COMMANDS or text in COMMANDS or text in FONTS or text in ACCENTS or text in CLOSES
        more = text in (*_FRACTIONS, *_OVER, r"\langle", "{", r"\lVert", r"\lvert")
        return bool(text) and (known or more or text[0].isalnum() or text in (r"\sqrt", r"\mathbb"))

    openable: frozenset[str] = frozenset(NORM_OPENS) | frozenset(BAR_OPENS)

    def is_function(self) -> bool:
        return self.peek() in COMMANDS or self.peek() in _OVER or self.written_out() or self.word() in SPELLED

    def written_out(self) -> bool:
        """Whether a function stands here that is no command: log(x)."""
        return self.at < len(self.tokens) and self.tokens[self.at].kind == "function"

    def word(self) -> str:
        r"""The word of `\operatorname{tr}` or `\text{tr}` that stands here."""
        if self.peek() not in FONTS or self.peek(1) != "{":
            return ""
        letters: list[str] = []
        for token in self.tokens[self.at + 2 :]:
            if token.text == "}":
                return "".join(letters)
            letters.append(token.text)
        return ""

    # Factors

    def factor(self) -> list[Token]:
        begin = self.at
        text = self.peek()
        if text in _OVER:
            return self.over()
        if self.written_out():
            self.next()
            return self.function(SPELLED.get(text, text), begin)
        if text in COMMANDS and text != r"\sqrt":
            self.next()
            return self.function(COMMANDS[text], begin)
        if (word := self.word()) in SPELLED:
            self.next()
            self.group()
            return self.function(SPELLED[word], begin)
        if text == r"\sigma" and self.opens_bracket(1):
            self.next()
            return self.function("sigmoid", begin)
        if text == "e" and self.peek(1) == "^":
            return self.euler()
        return self.scripted(*self.base())

    def opens_bracket(self, ahead: int) -> bool:
        return self.peek(ahead) in ("(", "[", r"\{")

    def euler(self) -> list[Token]:
        place = self.next()
        self.next()
        return [self.made("exp(", place), *self.inside(self.exponent()), self.made(")", place)]

    def base(self) -> tuple[list[Token], str]:
        """A factor without its indices and exponents, and what kind of thing it is."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else self.next()
        text = token.text
        if text[0].isdigit() or text[0] == ".":
            return [self.next()], "number"
        if text in CLOSES:
            return self.bracketed(CLOSES[text]), "bracket"
        if text in NORM_OPENS:
            return self.barred(NORM_OPENS[text]), "norm"
        if text in BAR_OPENS:
            return self.barred(BAR_OPENS[text]), "bars"
        if text in _FRACTIONS:
            return self.fraction(), "bracket"
        if text == r"\sqrt":
            return self.root(), "bracket"
        if text == r"\langle":
            return self.inner(), "bracket"
        if text == "{":
            return [self.made("(", token), *self.inside(self.group()), self.made(")", token)], "bracket"
        is_bold = text in BOLD
        name = self.name()
        return [Token("bold" if is_bold and name.islower() else "", name, token.start, token.end)], "name"

    def name(self) -> str:
        """A letter, or a word in a font; with a hat or bar it is another name."""
        token = self.next()
        text = token.text
        if text in LETTER_COMMANDS:
            return LETTER_COMMANDS[text]
        if text in ACCENTS:
            content = self.group()
            mark = next((k for k, t in enumerate(content) if t.text == "_"), len(content))
            self.tokens[self.at : self.at] = content[mark:]  # \hat{y_i} is \hat{y}_i
            return f"{self.sub_name(content[:mark])}_{ACCENTS[text]}"
        if text in FONTS:
            content = self.group()
            plain = "".join(t.text for t in content)
            if plain in ("1", "0"):
                return f"vector({plain})"
            if text == r"\mathbb" and plain in ("E", "R", "P"):
                self.fail(f"\\mathbb{{{plain}}} cannot be read: write a mean as \\frac{{1}}{{n}}\\sum_{{i=1}}^n", token)
            return self.sub_name(content)
        if token.kind == "name" or (len(text) == 1 and text.isalpha()):
            return text
        self.at -= 1
        self.unexpected()

    def sub_name(self, tokens: list[Token]) -> str:
        """A name from the tokens inside of a font or an accent."""
        parts = [LETTER_COMMANDS.get(t.text, t.text) for t in tokens if t.text not in FONTS and t.text not in "{}_"]
        name = "".join(parts)
        if not name.isidentifier():
            self.fail(f"`{name}` is no name", tokens[0] if tokens else None)
        return name

    def bracketed(self, closing: str, is_call: bool = False) -> list[Token]:
        opening = self.next()
        saved, self.openable = self.openable, frozenset(NORM_OPENS) | frozenset(BAR_OPENS)
        result = [self.made("(", opening), *self.sum()]
        while is_call and self.peek() == ",":
            result += [self.made(",", self.next()), *self.sum()]
        self.openable = saved
        if self.peek() in (",", ";", ":", "|", r"\mid"):
            self.fail(f"`{self.peek()}` cannot be read: write out what stands for a function of several things")
        result.append(self.made(")", self.expect(closing)))
        return result

    def barred(self, closing: str) -> list[Token]:
        opening = self.next()
        saved, self.openable = self.openable, type(self).openable - {closing}
        result = [self.made("(", opening), *self.sum()]
        self.openable = saved
        if self.peek() != closing:
            self.fail(f"this {opening.text} is never closed; write densities like p(x|y) out", opening)
        result.append(self.made(")", self.next()))
        return result

    def split_digits(self) -> None:
        r"""`\frac12` is 1/2."""
        token = self.tokens[self.at]
        if token.text.isdigit() and len(token.text) > 1:
            parts = [Token("", c, token.start + k, token.start + k + 1) for k, c in enumerate(token.text)]
            self.tokens[self.at : self.at + 1] = parts

    def fraction(self) -> list[Token]:
        place = self.next()
        self.split_digits()
        top = self.inside(self.group())
        self.split_digits()
        bottom = self.inside(self.group())
        made = self.made
        return [made("((", place), *top, made(")/(", place), *bottom, made("))", place)]

    def root(self) -> list[Token]:
        place = self.next()
        if self.peek() == "[":
            self.next()
            degree = self.next()
            self.expect("]")
            return [self.made("(", place), *self.inside(self.group()), self.made(f").^(1/{degree.text})", place)]
        return [self.made("sqrt(", place), *self.inside(self.group()), self.made(")", place)]

    def inner(self) -> list[Token]:
        place = self.next()
        first = self.sum()
        if self.peek() not in (",", r"\mid"):
            self.fail("expected a comma between the two sides of an inner product")
        comma = self.next()
        second = self.sum()
        closing = self.expect(r"\rangle")
        return [self.made("inner(", place), *first, self.made(",", comma), *second, self.made(")", closing)]

    # Indices and exponents

    # Functions and sums

    def function(self, name: str, begin: int) -> list[Token]:
        """A function: its argument in brackets, or the product behind it; `\\log^2 x` is the square of it."""
        place = self.tokens[begin]
        power: list[Token] = []
        index: list[Token] = []
        while self.peek() in ("^", "_"):
            if self.next().text == "^":
                power = self.group()
            else:
                index = self.group()
        if self.opens_bracket(0):
            argument = self.bracketed(CLOSES[self.peek()], is_call=True)
            if name in ("max", "min") and any(t.text == "," for t in argument):
                name = f"{name}imum"
        else:
            argument = [self.made("(", place), *self.product(in_function=True), self.made(")", place)]
        result = [self.made(name, place), *argument]
        if index and name == "log":  # to a base
            result = [self.made("(", place), *result, self.made("/log(", place), *self.inside(index)]
            result.append(self.made("))", place))
        elif index:
            self.fail(f"an index at {name} cannot be read; write {name}(x) of the whole x", index[0])
        if power:
            result = self.raised(result, "bracket", power)
        while self.peek() == "^":
            self.next()
            result = self.raised(result, "bracket", self.group())
        return result
