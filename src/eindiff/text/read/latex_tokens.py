r"""The pieces of a formula, and whether a text is one: it has commands of LaTeX, or letters side by side, as `x^TAx`.

In a formula letters stand for themselves, so that `Ax` is a product. Functions, Greek letters and declared names may be
written out: `log(x)`, `lambda`. Where there are no commands, longer words are names, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator

from eindiff.text.read.conventions import GREEK, SCALARS
from eindiff.text.read.latex_words import ALWAYS, SILENT, SPELLED, SWITCHES
from eindiff.text.read.notation import FRACTIONS, SUPERSCRIPT_DIGITS, Token
from eindiff.text.read.source import Source

_COMMAND = re.compile(r"\\[a-zA-Z|{,;!]|^\s*\$")
_JUXTAPOSED = re.compile(
    r"""\^[ ]*[T⊤][ ]*\(|\^[ ]*[T⊤](?:[ ]+(?=[^\W\d])|(?=[^\W\d]))[A-Z]{0,3}[a-z]{0,2}(?![^\W\d])
    |\^[ ]*\{[^{}]*\}[ ]*[^\W\d]|\^[ ]*\{[^{}]*\}[ ]*\(|(?<!\*)_\{|[∑∏]|\^[ ]*(?:[T⊤]|\{[^{}]*\})_
    |(?<=[\w)\]}])['’′ᵀ][ ]*(?:[^\W\d]|\((?!\w\)))
    |\b(?:sum|prod)_(?:[a-z]\b|\{)|Σ_(?:[ij](?=[\s(])|\{[^{}]*=)
    |(?<=[\w)\]}'ᵀ])[ ]+(?=[^\W\d_])""",
    re.VERBOSE,
)
_LONGEST = 4_000  # characters of a formula without commands
_NO_FORMULA = re.compile(r'[;"@#]|\*_|\*\*|\.T\b|\b(?:np|jnp|torch|numpy)\.|\n.*=|=.*\n', re.DOTALL)
_PIECE = re.compile(
    r"""\\(?:[a-zA-Z]+\*?|.)|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\s+|%[^\n]*|\.[*/^]|:=|\|\|
    |(?:sum|prod)(?=_)|Σ(?=_(?:[ij][\s(]|\{[^{}]*=))|[A-Za-z]+(?:_[A-Za-z]{3,}|_?[0-9]+)*|.""",
    re.VERBOSE | re.DOTALL,
)
_SUMS = {"sum": "∑", "prod": "∏", "Σ": "∑"}  # with an index below
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\{(?:equation|align|aligned|gather|gathered|split|multline|displaymath|math|eqnarray)\*?\}"
    r"|\\(?:label|tag|eqref)\{[^{}]*\}|\\(?:nonumber|notag)\b|&"
)
_OPENS = re.compile(r"(?:\s|\\[,;:!]|\\left|\\[bB]igg?l?)*(?:[(\[]|\\\{)")
_LETTERS_OF_PRODUCTS = re.compile(r"[A-Z]{1,4}[a-z]?|[a-z][A-Z]{1,3}[a-z]?|[a-z]{1,2}")


def is_formula(text: str, declared: Container[str] = ()) -> bool:
    """Whether letters of a text stand for themselves."""
    if _COMMAND.search(text) is not None:
        return '"' not in text
    if "T" in declared or len(text) > _LONGEST or _NO_FORMULA.search(text) is not None:
        return False
    return _JUXTAPOSED.search(text) is not None


def pieces(source: Source, declared: Collection[str], functions: Container[str]) -> list[Token]:
    """The tokens of a formula; those of functions are of the kind "function"."""
    text = _ENVIRONMENT.sub(lambda found: " " * len(found[0]), source.text)  # everything stays in its place
    has_commands = _COMMAND.search(text) is not None
    found: list[Token] = []
    for match in _PIECE.finditer(text):
        piece = match.group()
        if text[match.end() : match.end() + 1] == "_":
            piece = _SUMS.get(piece, piece)
        if piece[0].isascii() and piece[0].isalpha():
            after_mark = bool(found) and found[-1].text in ("^", ".^", "_")
            found += _words(piece, match.start(), text, after_mark, has_commands, (declared, functions))
        elif not piece.isspace() and piece not in SILENT and not (piece[0] == "%" and has_commands):
            found.append(Token("", piece, match.start(), match.end()))
    found = [part for token in found for part in _spelled_out(token)]
    for at in range(len(found) - 1):  # {\rm tr} is \rm{tr}
        if found[at].text == "{" and found[at + 1].text in SWITCHES:
            found[at].text, found[at + 1].text = found[at + 1].text, "{"
    return found


def _spelled_out(token: Token) -> list[Token]:
    """Signs that stand for more: x² is x^2, ½ is (1/2)."""
    if token.text in FRACTIONS:
        return [Token("", part, token.start, token.end) for part in f"({FRACTIONS[token.text]})"]
    if token.text in "⁰¹²³⁴⁵⁶⁷⁸⁹" and token.text:
        return [Token("", part, token.start, token.end) for part in ("^", token.text.translate(SUPERSCRIPT_DIGITS))]
    return [token]


def _words(
    piece: str,
    start: int,
    text: str,
    after_mark: bool,
    has_commands: bool,
    known: tuple[Container[str], Container[str]],
) -> Iterator[Token]:
    """A run of letters as one word, or as its letters."""
    end = start + len(piece)
    if after_mark and len(piece) > 1 and piece not in known[0]:  # an index or exponent has one letter
        yield Token("", piece[0], start, start + 1)
        rest = _PIECE.match(text, start + 1)
        while rest is not None and rest.start() < end:
            yield from _words(rest.group(), rest.start(), text, False, has_commands, known)
            rest = _PIECE.match(text, rest.end())
        return
    kind = _kind(piece, text, end, has_commands, known)
    if kind is not None:
        yield Token(kind, f"\\{piece}" if kind == "greek" else piece, start, end)
        return
    for found in re.finditer(r"[A-Za-z]|[0-9]+|_", piece):
        yield Token("", found[0], start + found.start(), start + found.end())


def _kind(
    piece: str, text: str, end: int, has_commands: bool, known: tuple[Container[str], Container[str]]
) -> str | None:
    """What a run of letters is if it is one word: a function, the name of a Greek letter, or a name."""
    declared, functions = known
    if piece in declared:
        return "name"
    if len(piece) > 1 and (piece in ALWAYS or ((piece in SPELLED or piece in functions) and _OPENS.match(text, end))):
        return "function"
    if piece in GREEK or piece == "pi":
        return "greek"
    is_name = piece in SCALARS or len(piece) == 1 or not _LETTERS_OF_PRODUCTS.fullmatch(piece)
    return "name" if is_name and not has_commands else None
