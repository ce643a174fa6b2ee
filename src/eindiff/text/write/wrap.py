"""Long formulas in several lines: broken behind operators, the outermost first, with what follows indented."""

from __future__ import annotations

import re

_BREAKS = re.compile(
    r"""(?P<text>"[^"]*")|(?P<sum>(?<=\S)\ [+\-−]\ (?=\S))|(?P<factor>·|\ \.[*/]\ |\ [⊙⊘⊗]\ |(?<=[\w\])'])\*)
    |(?P<comma>[,;]\ )|(?P<open>[(\[{])|(?P<close>[)\]}])""",
    re.VERBOSE,
)
_BREAK_KINDS = ("sum", "factor", "comma")
_INDENT = 2
_SHORT = 8


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """The lines of a formula, none longer than a width if there are operators to break it at.

    >>> wrapped("2*A'*(A*x - b) + lambda*sign(x)", 20)
    ["2*A'*(A*x - b) +", '  lambda*sign(x)']
    >>> wrapped("X'*diag(sigmoid(y .* (X*w)) .* sigmoid(-y .* (X*w)))*X", 40)
    ["X'*diag(sigmoid(y .* (X*w)) .*", '    sigmoid(-y .* (X*w)))*X']
    """
    pieces = _pieces(text)
    if indent + len(text) <= width or len(pieces) == 1:
        return [" " * indent + text]
    lines: list[str] = []
    current = " " * indent
    for piece in pieces:
        if len((current + piece).rstrip()) <= width:
            current += piece
            continue
        inner = wrapped(piece.rstrip(), width, indent + _INDENT * bool(lines or current.strip()))
        first = current + inner[0].lstrip()
        if 0 < len(current.strip()) <= _SHORT and len(first) <= width:  # 2* alone is no line
            inner[0] = first
        elif current.strip():
            lines.append(current.rstrip())
        lines, current = [*lines, *inner[:-1]], inner[-1] + piece[len(piece.rstrip()) :]
    return [*lines, current.rstrip()]


def _pieces(text: str) -> list[str]:
    """A formula in parts, each with the operator behind it: at the lowest depth, sums before factors and arguments."""
    depth, found = 0, []
    for match in _BREAKS.finditer(text):
        kind = match.lastgroup
        depth += (kind == "open") - (kind == "close")
        if kind in _BREAK_KINDS and match.end() < len(text):
            found.append((depth, _BREAK_KINDS.index(kind), match.end()))
    if not found:
        return [text]
    lowest = min(found)[:2]
    places = [end for depth, kind, end in found if (depth, kind) == lowest]
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
