r"""LaTeX as papers have it, in the words of the grammar: `\frac{1}{n}\sum_{i=1}^n (y_i - w^\top x_i)^2`.

Letters stand for themselves, so `Ax` is a product; words are in `\mathrm`, `\text` and `\operatorname`. The argument of
a function without brackets ends at the next + or -, or function. A sum takes the product behind it.
"""

from __future__ import annotations

import re
from typing import NoReturn

from eindiff.text.read.latex_words import (
    ACCENTS,
    BAR_OPENS,
    CLOSES,
    FONTS,
    FUNCTIONS,
    GOALS,
    LETTERS,
    NORM_OPENS,
    NORMS,
    OPERATORS,
    REFUSED,
    SILENT,
    TRANSPOSES,
    WORDS,
)
from eindiff.text.read.notation import Token
from eindiff.text.read.source import Source

_TOKEN = re.compile(r"\\(?:[a-zA-Z]+\*?|.)|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\s+|%[^\n]*|.", re.DOTALL)

_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\{(?:equation|align|aligned|gather|gathered|split|multline|displaymath|math|eqnarray)\*?\}"
    r"|\\(?:label|tag|eqref)\{[^{}]*\}|\\(?:nonumber|notag)\b|&"
)
_GOAL = re.compile(r"(arg\s*)?(min|max)(imi[sz]e)?")


def translated(source: Source) -> list[Token]:
    """The tokens of a formula in the words of the grammar."""
    return _Reader(source).formula()


class _Reader:
    """One formula, read from left to right; a method for each part of it gives the tokens for it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        text = _ENVIRONMENT.sub(lambda found: " " * len(found[0]), source.text)  # everything stays in its place
        self.tokens = [
            Token("", found.group(), found.start(), found.end())
            for found in _TOKEN.finditer(text)
            if not found.group().isspace() and found.group() not in SILENT and found.group()[0] != "%"
        ]
        self.at = 0
        self.indices: list[str] = []

    # Tokens

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
        if self.peek() != "{":
            return [self.next()]
        self.next()
        inner: list[Token] = []
        depth = 1
        while True:
            token = self.next()
            depth += (token.text == "{") - (token.text == "}")
            if depth == 0:
                return inner
            inner.append(token)

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
        return result

    def unexpected(self) -> NoReturn:
        text = self.peek()
        if text in REFUSED:
            self.fail(f"{text} cannot be read: {REFUSED[text]}")
        if text in ("=", r"\leq", r"\le", r"\geq", "<", ">"):
            self.fail(f"`{text}`: one side at a time; type the expression alone")
        self.fail(f"{text} cannot be read here; the language of this field has words for most things, see the help")

    def skip_head(self) -> None:
        """`f(x) =`: what stands before the first = outside of all brackets, if it is a name or `f(x)`."""
        depth, terms = 0, 0
        for at, token in enumerate(self.tokens):
            depth += (token.text in ("{", "(")) - (token.text in ("}", ")"))
            terms += depth == 0 and token.text in ("+", "-", "−", r"\|", r"\sum", r"\frac")
            if depth == 0 and token.text in ("=", ":=", r"\coloneqq", r"\triangleq", r"\equiv"):
                if at and not terms:
                    self.at = at + 1
                return

    def skip_goal(self) -> None:
        r"""`\min_{w}`, `\arg\min_w`, `\underset{w}{\arg\min}` around a loss."""
        while True:
            text = self.peek()
            if text == r"\underset":
                self.next()
                self.group()
                self.group()
            elif text in (r"\operatorname*", r"\operatorname", r"\mathop", r"\text", r"\mathrm"):
                before = self.at
                self.next()
                if _GOAL.fullmatch("".join(t.text for t in self.group()).replace("~", "")) is None:
                    self.at = before
                    return
            elif text in GOALS and self.peek(1) not in ("(", r"\{", r"\left(", "["):
                self.next()
            else:
                return
            if self.peek() == "_":
                self.next()
                self.group()

    def sum(self) -> list[Token]:
        result: list[Token] = []
        while self.peek() in ("+", "-", "−"):
            result.append(self.made("-" if self.peek() != "+" else "+", self.next()))
        result += self.product()
        while self.peek() in ("+", "-", "−"):
            result.append(self.made("-" if self.peek() != "+" else "+", self.next()))
            while self.peek() in ("+", "-", "−"):
                result.append(self.made("-" if self.peek() != "+" else "+", self.next()))
            result += self.product()
        return result

    def product(self, in_function: bool = False) -> list[Token]:
        """Factors, one after the other or with an operator between them."""
        result = self.factor()
        while True:
            text = self.peek()
            if text in OPERATORS and not (in_function and text in ("*", "/", r"\cdot", r"\times")):
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
        if text in NORM_OPENS.values() or text in BAR_OPENS.values():
            return text in self.openable
        known = text in LETTERS or text in FUNCTIONS or text in FONTS or text in ACCENTS or text in CLOSES
        more = text in (r"\frac", r"\tfrac", r"\dfrac", r"\sum", r"\prod", r"\langle", "{", r"\lVert", r"\lvert")
        return bool(text) and (known or more or text[0].isalnum() or text in (r"\sqrt", r"\mathbb"))

    openable: frozenset[str] = frozenset(NORM_OPENS) | frozenset(BAR_OPENS)

    def is_function(self) -> bool:
        return self.peek() in FUNCTIONS or self.peek() in (r"\sum", r"\prod") or self.word() in WORDS

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
        if text in (r"\sum", r"\prod"):
            return self.over()
        if text in FUNCTIONS and text != r"\sqrt":
            self.next()
            return self.function(FUNCTIONS[text], begin)
        if (word := self.word()) in WORDS:
            self.next()
            self.group()
            return self.function(WORDS[word], begin)
        if text == r"\sigma" and self.opens_bracket(1):
            self.next()
            return self.function("sigmoid", begin)
        if text == "e" and self.peek(1) == "^":
            return self.euler()
        return self.scripted(*self.base(), begin=begin)

    def opens_bracket(self, ahead: int) -> bool:
        return self.peek(ahead) in ("(", "[", r"\{")

    def euler(self) -> list[Token]:
        place = self.next()
        self.next()
        return [self.made("exp(", place), *self.inside(self.group()), self.made(")", place)]

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
        if text in (r"\frac", r"\tfrac", r"\dfrac"):
            return self.fraction(), "bracket"
        if text == r"\sqrt":
            return self.root(), "bracket"
        if text == r"\langle":
            return self.inner(), "bracket"
        if text == "{":
            return [self.made("(", token), *self.inside(self.group()), self.made(")", token)], "bracket"
        return [self.made(self.name(), token)], "name"

    def name(self) -> str:
        """A letter, or a word in a font; with a hat or bar it is another name."""
        token = self.next()
        text = token.text
        if text in LETTERS:
            return LETTERS[text]
        if text in ACCENTS:
            inner = self.sub_name(self.group())
            return f"{inner}_{ACCENTS[text]}"
        if text in FONTS:
            content = self.group()
            plain = "".join(t.text for t in content)
            if plain in ("1", "0"):
                return f"vector({plain})"
            if text == r"\mathbb" and plain in ("E", "R", "P"):
                self.fail(f"\\mathbb{{{plain}}} cannot be read: write a mean as \\frac{{1}}{{n}}\\sum_{{i=1}}^n", token)
            return self.sub_name(content)
        if len(text) == 1 and text.isalpha():
            return text
        self.at -= 1
        self.unexpected()

    def sub_name(self, tokens: list[Token]) -> str:
        """A name from the tokens inside of a font or an accent."""
        parts = [LETTERS.get(t.text, t.text) for t in tokens if t.text not in FONTS and t.text not in "{}_"]
        name = "".join(parts)
        if not name.isidentifier():
            self.fail(f"`{name}` is no name", tokens[0] if tokens else None)
        return name

    def bracketed(self, closing: str) -> list[Token]:
        opening = self.next()
        saved, self.openable = self.openable, frozenset(NORM_OPENS) | frozenset(BAR_OPENS)
        result = [self.made("(", opening), *self.sum()]
        while self.peek() == ",":
            result += [self.made(",", self.next()), *self.sum()]
        self.openable = saved
        result.append(self.made(")", self.expect(closing)))
        return result

    def barred(self, closing: str) -> list[Token]:
        opening = self.next()
        saved, self.openable = self.openable, type(self).openable - {closing}
        result = [self.made("(", opening), *self.sum()]
        self.openable = saved
        result.append(self.made(")", self.expect(closing)))
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

    def scripted(self, base: list[Token], kind: str, begin: int) -> list[Token]:
        """What indices and exponents behind a factor mean, in any order."""
        index: list[Token] | None = None
        powers: list[list[Token]] = []
        while self.peek() in ("^", "_", "'"):
            mark = self.next()
            if mark.text == "'":
                powers.append([self.made(r"\top", mark)])
            elif mark.text == "_":
                index = self.group()
            else:
                powers.append(self.group())
        result = self.subscripted(base, kind, index)
        for power in powers:
            result = self.raised(result, kind, power)
        return result

    def subscripted(self, base: list[Token], kind: str, index: list[Token] | None) -> list[Token]:
        text = "".join(t.text for t in index or ())
        if kind in ("norm", "bars"):
            name = NORMS.get(text) if kind == "norm" else "bars"
            if name is None:
                self.fail(f"there is no norm {text} here; known are 1, 2, F, \\infty and *", (index or base)[0])
            return [self.made(f"{name}(", base[0]), *base[1:]]
        if index is None:
            return base
        if text == "+" and kind == "bracket":
            return [self.made("relu", base[0]), *base]
        if entries := self.running(index):
            if base[0].text == "pi" and len(base) == 1:  # weights of a mixture, and not the number
                base = [self.made("pi_", base[0])]
            return [*base, self.made(f"[{entries}]", index[0])]
        if kind != "name":
            self.fail("an index stands at a name, or is that of a sum", index[0])
        if base[0].text in ("I", "vector(1)", "vector(0)"):
            return base
        suffix = _suffix("".join(LETTERS.get(t.text, t.text.lstrip("\\")) for t in index if t.text not in FONTS))
        return [self.made(f"{base[0].text}_{suffix}", base[0])] if suffix else base

    def running(self, index: list[Token]) -> str:
        """The entries of an index that has indices of sums in it: `i,j` of x_{ij}, `i + 1` of x_{i+1}."""
        words = [t.text for t in index if t.text not in ("{", "}")]
        if not any(word in self.indices for word in words):
            return ""
        entries: list[str] = []
        joins = False
        for word in words:
            if word in "+-":
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

    def raised(self, base: list[Token], kind: str, power: list[Token]) -> list[Token]:
        text = "".join(t.text for t in power)
        made, place = self.made, power[0] if power else base[-1]
        if text in TRANSPOSES:
            return [*base, made("'", place)]
        if text in (r"-\top", "-T", r"-\intercal"):
            return [made("(", base[0]), *base, made("^(-1))'", place)]
        if text in ("*", r"\ast", r"\star", r"\dagger", "+") and kind == "name":
            if text == "+":
                return [made("pinv(", base[0]), *base, made(")", place)]
            return [made(f"{base[0].text}_star", base[0])]
        if power and power[0].text in (r"\odot", r"\circ"):
            return [*base, made(".^(", place), *self.inside(power[1:]), made(")", place)]
        if power and power[0].text == "(" and power[-1].text == ")" and kind == "name":
            suffix = _suffix(text)
            return [made(f"{base[0].text}_{suffix}", base[0]), *base[1:]]
        if not power:
            return base
        return [*base, made("^(", place), *self.inside(power), made(")", place)]

    # Functions and sums

    def function(self, name: str, begin: int) -> list[Token]:
        """A function: its argument in brackets, or the product behind it; `\\log^2 x` is the square of it."""
        place = self.tokens[begin]
        power: list[Token] = []
        while self.peek() in ("^", "_"):
            mark = self.next().text
            inner = self.group()
            power = inner if mark == "^" else power
        if self.opens_bracket(0):
            argument = self.bracketed(CLOSES[self.peek()])
            if name in ("max", "min") and any(t.text == "," for t in argument):
                name = f"{name}imum"
        else:
            argument = [self.made("(", place), *self.product(in_function=True), self.made(")", place)]
        result = [self.made(name, place), *argument]
        if power:
            result = self.raised(result, "bracket", power)
        while self.peek() in ("^",):
            self.next()
            result = self.raised(result, "bracket", self.group())
        return result

    def over(self) -> list[Token]:
        r"""`\sum_{i=1}^n`: the product behind it is the term."""
        place = self.next()
        which = "sum_over" if place.text == r"\sum" else "prod_over"
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
        self.indices += indices
        sign = [self.made("-", self.next())] if self.peek() in ("-", "−") else []
        term = sign + self.product()
        del self.indices[len(self.indices) - len(indices) :]
        ends = ""
        if first and upper:
            last = "".join(t.text for t in upper)
            ends = f"{''.join(first)}, {re.sub(r'[^0-9A-Za-z+*-]', '', last)}, "
        elif upper:
            ends = f"1, {''.join(t.text for t in upper)}, "
        for name in reversed(indices):
            term = [self.made(f"{which}({name}, {ends}", place), *term, self.made(")", place)]
        return term

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


def _suffix(text: str) -> str:
    """An index as the end of a name: x_{t+1} is x_t_plus_1."""
    return re.sub(r"\W+", "", text.replace("+", "_plus_").replace("-", "_minus_").replace("−", "_minus_"))
