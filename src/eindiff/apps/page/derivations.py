"""The steps of a derivation, typeset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eindiff.apps.page.formulas import inline
from eindiff.apps.page.reading import derivatives
from eindiff.core.nodes import Expr
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
    """The model `Steps`."""
    result = derivatives(ask)
    number, chapters = 0, []
    for chapter in chapters_of(result) if result.by else []:
        chapters.append(_Typesetter(result.question.notation, chapter).data(number))
        number += len(chapter.steps)
    return {"chapters": chapters}


class _Typesetter:
    """Writes a chapter."""

    def __init__(self, notation: str, chapter: Chapter) -> None:
        self.notation, self.chapter = notation, chapter
        self.text = Writer(notation, "unicode", chapter.letter)

    def data(self, number: int) -> dict[str, Any]:
        """The model `ChapterData`; its steps are numbered from the next number on."""
        return {
            "title": self.words(self.chapter.title),
            "names": [self.definition(step) for step in self.chapter.names],
            "steps": [
                {
                    "number": number + k,
                    "rule": step.rule,
                    "words": self.words(step.words),
                    "equation": self.equation(step),
                }
                for k, step in enumerate(self.chapter.steps, 1)
            ],
        }

    def expr(self, expr: Expr) -> str:
        return inline(expr, self.notation, self.chapter.letter)

    def name(self, name: str) -> str:
        """A name, or a derivative `df/dx`."""
        if found := re.fullmatch(r"d(\w+)/d(\w+)", name):
            return f"<mfrac>{row(D + name_mathml(found[1]))}{row(D + name_mathml(found[2]))}</mfrac>"
        return MathmlStyle(letter=self.chapter.letter).define(name)

    def words(self, text: str) -> list[dict[str, str]]:
        """Words with formulas for the names between backticks."""
        pieces = []
        for k, part in enumerate(text.split("`")):
            if k % 2 and re.fullmatch(r"\w+|d\w+/d\w+", part):
                pieces.append({"text": self.text.name(part), "mathml": whole(self.name(part), display=False)})
            elif part:
                pieces.append({"text": part, "mathml": ""})
        return pieces

    def definition(self, step: DerivationStep) -> dict[str, Any]:
        right = shown(step)
        return {
            "text": f"{self.text.name(step.target)} = {self.text.expr(right)}",
            "mathml": [whole(self.name(step.target)), whole(self.expr(right))],
        }

    def equation(self, step: DerivationStep) -> dict[str, Any]:
        sides = self.text.equation(step, self.chapter)
        if not step.target:
            made = [self.before(step), self.expr(step.after)]
        else:  # as many sides as the text has
            parts = [part for part in (step.local, step.after) if part is not None]
            right = list(dict.fromkeys(self.expr(part) for part in parts))
            made = [self.name(step.target), *(right[: len(sides) - 1] if step.local is not None else right)]
        return {"text": " = ".join(sides), "mathml": [whole(side) for side in made]}

    def before(self, step: DerivationStep) -> str:
        """What a rewrite rule was about to make."""
        parts = [self.expr(part) for part in step.before if isinstance(part, Expr)]
        if step.subject == "einsum":
            return parts[0]
        if step.subject == "add":
            terms = [(number_mathml(number), self.expr(term)) for term, number in step.before[0].items()]
            return "<mo>+</mo>".join(one if factor == "<mn>1</mn>" else factor + TIMES + one for factor, one in terms)
        if step.subject == "pow":
            return above(fenced(parts[0]), number_mathml(step.before[0]))
        return token("mi", step.subject) + APPLY + fenced("<mo>,</mo>".join(parts))
