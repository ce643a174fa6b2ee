"""What a text that cannot be read may have meant: other operators or words at the place, or other kinds of its names.

Each choice is tried before it is offered: it reads well. Those come first in which names are what they usually are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eindiff.core.errors import EindiffError
from eindiff.text.question import KIND_OF_ORDER
from eindiff.text.read.conventions import hint
from eindiff.text.read.declarations import Declaration, declared
from eindiff.text.read.parse import reading
from eindiff.text.read.reading import Reading
from eindiff.text.read.source import ParseError

MOST_CHOICES = 4
TRIED = 30
_NAME = re.compile(r"[^\W\d]\w*")
_DECLARATION = re.compile(r"(?:\([^)]*\)?|[^;,\n(])+")


@dataclass(frozen=True, slots=True)
class Doubt:
    """A text that cannot be read: what is declared, its variables, and what is wrong from `start` to `end`."""

    text: str
    declarations: str
    known: Mapping[str, Declaration]
    names: Sequence[str]
    error: ParseError
    start: int
    end: int

    @property
    def place(self) -> str:
        """The part of the text that is wrong."""
        return self.text[self.start : self.end]

    def choices(self) -> list[dict[str, str]]:
        """The models `Choice`, the likeliest first."""
        found: dict[tuple, tuple[int, dict[str, str]]] = {}
        for tried, (label, text, declarations) in enumerate(self.candidates()):
            read = _read(text, declarations) if tried < TRIED else None
            if read is None:
                continue
            kinds = {own.name: KIND_OF_ORDER.get(len(own.shape), "tensor") for own in read.names}
            surprise = sum(hint(own.name).costs[min(len(own.shape), 2)] for own in read.names)
            here = [f"{name} {kinds[name]}" for name in dict.fromkeys(_NAME.findall(self.place)) if name in kinds]
            made = {"label": label or ", ".join(here), "expression": text, "declarations": declarations}
            found.setdefault((text, *sorted(kinds.items())), (surprise, made))
        return [made for _, made in sorted(found.values(), key=lambda pair: pair[0])[:MOST_CHOICES]]

    def candidates(self) -> Iterator[tuple[str, str, str]]:
        """Label, text and declarations of each; without a label it is told by the kinds of names."""
        for part in [*_products(self.place), *_meant(self.error.problem, self.place)]:
            yield part, self.text[: self.start] + part + self.text[self.end :], self.declarations
        here = [name for name in self.names if name in _NAME.findall(self.place)]
        for name in sorted(here, key=lambda name: name in self.known):
            for kind in ("scalar", "vector", "matrix"):
                entries = [entry.strip() for entry in _DECLARATION.findall(self.declarations)]
                kept = [entry for entry in entries if entry and _NAME.match(entry + " ")[0] != name]  # type: ignore[index]
                yield "", self.text, "; ".join([*kept, f"{name} {kind}"])


def _products(part: str) -> Iterator[str]:
    """A product of two operands as an inner product, entry by entry, and as an outer product."""
    depth, places = 0, []
    for at, c in enumerate(part):
        depth += (c in "([") - (c in ")]")
        if c == "*" and not depth and part[at - 1 : at] != "." and part[at - 1 : at + 2].count("*") == 1:
            places.append(at)
    if len(places) == 1:
        left, right = part[: places[0]].rstrip(), part[places[0] + 1 :].lstrip()
        yield from (f"{left}'*{right}", f"{left}.*{right}", f"{left}*{right}'")


def _meant(problem: str, part: str) -> list[str]:
    """The words that a message proposes in the place of one."""
    found = re.search(r"did you mean ([\w ]+)\?", problem)
    return found[1].split(" or ") if found and _NAME.fullmatch(part) else []


def _read(text: str, declarations: str) -> Reading | None:
    try:
        return reading(text, declared(declarations))
    except EindiffError:
        return None
