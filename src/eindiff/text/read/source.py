"""The text that is read: its places, the error that points at one, and the cheap scan before any parsing.

The scan matches brackets, refuses characters that no text has, and blanks what carries no meaning (comments, line
breaks inside an expression). It keeps every character where it is, so offsets stay offsets into the user's text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eindiff.core.errors import EindiffError

LONGEST_TEXT = 1_000_000
_WINDOW = 100  # the most characters of a line that an error shows
_SCANNED = re.compile(r'"[^"\n]*"?|#[^\n]*|[()\[\]{}\n]')
_BINDING = re.compile(r"(?:^|[;\n])[^\S\n]*[^\W\d]\w*[^\S\n]*=(?!=)")
_CLOSES = {")": "(", "]": "[", "}": "{"}
_CONTINUES_AFTER = frozenset("+-−–—*·⋅/^,=<>⊙⊘⊗")
_CONTINUES_BEFORE = frozenset("*·⋅/^.,<>⊙⊘⊗")


class ParseError(EindiffError):
    """A text that cannot be read, or means nothing. The message shows the line with a caret under the place.

    `line` and `column` count from 1, `text` is the line, `problem` the message without line and caret.

    >>> try:
    ...     ed.parse("x'*A*(x")
    ... except ed.ParseError as error:
    ...     print(error.problem, error.line, error.column)
    this ( is never closed 1 6

    See also: `parse`.
    """

    __module__ = "eindiff"
    code = "text"

    def __init__(self, problem: str, line: int, column: int, text: str, width: int = 1) -> None:
        self.problem, self.line, self.column, self.text, self.width = problem, line, column, text, width
        super().__init__(f"{problem} (line {line}, column {column})\n{_pointed(text, column - 1, width)}")

    def __reduce__(self) -> tuple:
        return (ParseError, (self.problem, self.line, self.column, self.text, self.width))

    def with_problem(self, problem: str) -> ParseError:
        """The same place with another message."""
        return ParseError(problem, self.line, self.column, self.text, self.width)


def _pointed(line: str, at: int, width: int) -> str:
    """A line and a caret under one place of it; a long line is cut around the place."""
    first = at - _WINDOW // 2 if at > _WINDOW - 20 else 0
    shown = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in line[first : first + _WINDOW])
    before, marked = shown[: at - first], shown[at - first : at - first + width]
    lead, tail = "…" if first else "", "…" if first + _WINDOW < len(line) else ""
    marks = "^" + "~" * (_columns(marked) - 1)
    return f"  {lead}{shown.rstrip()}{tail}\n  {' ' * (len(lead) + _columns(before))}{marks}"


def _columns(text: str) -> int:
    """How many columns a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Span(Protocol):
    """Something that stands from `start` to `end` of a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text and its places, which are offsets from its beginning.

    `offsets` has for each place the one in the `original` that the user wrote, where the text was made from that.
    """

    text: str
    offsets: Sequence[int] | None = None
    original: str = ""

    def place(self, start: int, end: int) -> tuple[str, int, int]:
        """What the user wrote, and where in it the characters from start to end come from."""
        if self.offsets is None:
            return self.text, start, end
        last = len(self.offsets) - 1
        begin = self.offsets[max(0, min(start, last))]
        return self.original, begin, max(begin + 1, self.offsets[max(0, min(end - 1, last))] + 1)

    def error(self, problem: str, start: int, end: int | None = None) -> ParseError:
        """The error that points at the characters from start to end."""
        text, start, end = self.place(start, start + 1 if end is None else end)
        start = max(0, min(start, len(text)))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line = text[line_start : line_end if line_end >= 0 else len(text)]
        column = start - line_start
        width = max(1, min(end - start, len(line) - column))
        return ParseError(problem, text.count("\n", 0, start) + 1, column + 1, line, width)

    def snippet(self, start: int, end: int) -> str:
        """A piece of the text for a message, in one line and not too long."""
        text, start, end = self.place(start, end)
        piece = " ".join(text[start : min(end, start + 200)].split())
        piece = "".join(c if c.isprintable() else "\ufffd" for c in piece)
        return piece if len(piece) <= 40 and end <= start + 200 else piece[:37] + "..."


def prepare(source: Source, breaks_matter: bool = False) -> str:
    """The text with comments and line breaks that separate nothing made blank, every character in its place.

    A line break separates where the text binds names (`t = X*w`) or where `breaks_matter`, unless brackets are open or
    an operator stands on either side of it.

    >>> prepare(Source("t = x  # a\\nt'*t"))
    "t = x     \\nt'*t"
    >>> prepare(Source("x\\n+ y"))
    'x + y'
    """
    text = source.text
    if len(text) > LONGEST_TEXT:
        raise source.error(f"the text has {len(text)} characters; the most is {LONGEST_TEXT}", 0)
    _refuse_odd_characters(source)
    breaks_matter = breaks_matter or _BINDING.search(text) is not None
    pieces: list[str] = []
    done = 0
    opened: list[int] = []
    for match in _SCANNED.finditer(text):
        found, start = match.group(), match.start()
        blank = found[0] == "#"
        if found[0] == '"':
            if found[-1] != '"' or len(found) == 1:
                raise source.error('this " is never closed', start)
        elif found in "([{":
            opened.append(start)
        elif found in _CLOSES:
            _close(source, opened, start)
        elif found == "\n":
            blank = bool(opened) or not breaks_matter or _continues(text, start)
        if blank:
            pieces.append(text[done:start] + " " * len(found))
            done = match.end()
    if opened:
        raise source.error(f"this {text[opened[-1]]} is never closed", opened[-1])
    return "".join([*pieces, text[done:]])


def _refuse_odd_characters(source: Source) -> None:
    """Control characters, lone surrogates and the like have no meaning anywhere."""
    text = source.text if source.offsets is None else source.original
    if text.isprintable():
        return
    for at, c in enumerate(text):
        if not c.isprintable() and not c.isspace():
            raise Source(text).error(f"the character U+{ord(c):04X} is not part of the language", at)


def _close(source: Source, opened: list[int], at: int) -> None:
    closing = source.text[at]
    if not opened:
        raise source.error(f"this {closing} closes nothing: no {_CLOSES[closing]} is open", at)
    if source.text[opened[-1]] != _CLOSES[closing]:
        line, column = source.text.count("\n", 0, opened[-1]) + 1, opened[-1] - source.text.rfind("\n", 0, opened[-1])
        raise source.error(f"this {closing} meets the {source.text[opened[-1]]} of line {line}, column {column}", at)
    opened.pop()


def _continues(text: str, at: int) -> bool:
    """Whether an operator on either side of a line break joins the lines."""
    before, after = text[max(0, at - 200) : at].rstrip(), text[at : at + 200].lstrip()
    return before[-1:] in _CONTINUES_AFTER or after[:1] in _CONTINUES_BEFORE
