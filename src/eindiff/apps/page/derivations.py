"""How a derivative comes about, step by step and typeset: one theorem of the chain rule after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from eindiff.apps.page.formulas import inline
from eindiff.apps.page.reading import derivatives
from eindiff.core.nodes import Expr, Number
from eindiff.text.question import chapters_of
from eindiff.text.steps import Chapter, DerivationStep, Writer, shown
from eindiff.text.write.mathml import (
    APPLY,
    TIMES,
    MathmlStyle,
    above,
    fenced,
    name_mathml,
    number_mathml,
    row,
    token,
    whole,
)

D = '<mo lspace="0" rspace="0">∂</mo>'


def steps(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The model `Steps`; its steps are numbered through."""
    result = derivatives(ask)
    numbers = count(1)
    return {
        "chapters": [
            chapter_data(chapter, result.question.notation, numbers)
            for chapter in (chapters_of(result) if result.by else [])
        ]
    }


def chapter_data(chapter: Chapter, notation: str, numbers: Iterator[int]) -> dict[str, Any]:
    """The model `ChapterData`; its steps take the next numbers."""
    return _Typesetter(notation, "mathml", chapter.letter).data(chapter, numbers)


@dataclass(frozen=True, slots=True)
class _Typesetter(Writer):
    """Writes a chapter in MathML, beside its text."""

    @property
    def unicode(self) -> Writer:
        return Writer(self.notation, "unicode", self.letter)

    def data(self, chapter: Chapter, numbers: Iterator[int]) -> dict[str, Any]:
        """The model `ChapterData`."""
        return {
            "title": self.pieces(chapter.title),
            "names": [self.definition(step) for step in chapter.names],
            "steps": [
                {
                    "number": next(numbers),
                    "rule": step.rule,
                    "words": self.pieces(step.words),
                    "equation": self.sides(*(writer.equation(step, chapter) for writer in (self.unicode, self))),
                }
                for step in chapter.steps
            ],
        }

    def pieces(self, text: str) -> list[dict[str, str]]:
        """Words with formulas for the names between backticks."""
        pieces = []
        for k, part in enumerate(text.split("`")):
            if k % 2 and re.fullmatch(r"\w+|d\w+/d\w+", part):
                pieces.append({"text": self.unicode.name(part), "mathml": whole(self.name(part), display=False)})
            elif part:
                pieces.append({"text": part, "mathml": ""})
        return pieces

    def definition(self, step: DerivationStep) -> dict[str, Any]:
        return self.sides(*([writer.name(step.target), writer.expr(shown(step))] for writer in (self.unicode, self)))

    @staticmethod
    def sides(text: list[str], mathml: list[str]) -> dict[str, Any]:
        """The model `Equation`."""
        return {"text": " = ".join(text), "mathml": [whole(side) for side in mathml]}

    # Formulas

    def expr(self, expr: Expr) -> str:
        return inline(expr, self.notation, self.letter)

    def name(self, name: str) -> str:
        if found := re.fullmatch(r"d(\w+)/d(\w+)", name):
            return f"<mfrac>{row(D + name_mathml(found[1]))}{row(D + name_mathml(found[2]))}</mfrac>"
        return MathmlStyle(letter=self.letter).define(name)

    def added(self, terms: list[tuple[Number, str]]) -> str:
        return "<mo>+</mo>".join(one if factor == 1 else number_mathml(factor) + TIMES + one for factor, one in terms)

    def raised(self, base: str, exponent: Number) -> str:
        return above(fenced(base), number_mathml(exponent))

    def called(self, function: str, args: list[str]) -> str:
        return token("mi", function) + APPLY + fenced("<mo>,</mo>".join(args))
