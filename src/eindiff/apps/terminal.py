"""Answers on a terminal, laid out for people, or in a pipe: the result alone, or JSON, for programs."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from math import isfinite
from typing import Any, TextIO

from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr
from eindiff.text import steps
from eindiff.text.layouts import as_row, describe
from eindiff.text.question import KIND_OF_ORDER, Answer, Block, Question, answer
from eindiff.text.read.reading import HOW
from eindiff.text.write.to_text import STYLES, kronecker, to_text
from eindiff.text.write.wrap import wrapped
from eindiff.version import __version__

_MARGIN = 16  # columns that the heads of lines take

SYMMETRIC = {
    "projected": "projected: the symmetric part of the derivative by independent entries",
    "free": "free: by the entries on and below the diagonal, each of which moves its mirror image too",
}


@dataclass(frozen=True, slots=True)
class Screen:
    """Where answers go: for people (with colours, or not), or for programs."""

    out: TextIO
    people: bool
    colour: bool

    @staticmethod
    def of(out: TextIO) -> Screen:
        """A terminal is for people; it has colours unless NO_COLOR is set or it is a dumb one."""
        people = out.isatty()
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return Screen(out, people, people and not plain)

    @property
    def columns(self) -> int:
        """How wide it is."""
        return shutil.get_terminal_size().columns

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def style(self, question: Question) -> str:
        """The style of expressions: Unicode for people if the terminal has it."""
        if question.notation == "latex" or question.style == "latex":
            return "latex"
        if question.style != "auto":
            return question.style
        return "unicode" if self.people and "utf" in (self.out.encoding or "").lower() else "plain"


def show(result: Answer, screen: Screen) -> None:
    """Write an answer."""
    as_json, people = result.question.json, screen.people
    if as_json:
        _print_json(as_data(result), screen)
    elif result.code:
        print(result.code, end="", file=screen.out)
    elif people:
        _show_people(result, screen)
    else:
        _show_plain(result, screen)
    if result.check is not None and (not people or result.code) and not as_json:
        print(result.check, file=sys.stderr)


def _print_json(data: dict[str, Any], screen: Screen) -> None:
    import json  # only when it is asked for: the command line starts without it

    print(json.dumps(data, ensure_ascii=False), file=screen.out)


def written(expr: Expr, question: Question, style: str, row: bool = False) -> str:
    """An expression in the notation asked for."""
    text = to_text(expr, question.tree_notation, style)
    return as_row(text, style) if row and question.notation != "index" else text


def _show_plain(result: Answer, screen: Screen) -> None:
    style = screen.style(result.question)
    if result.chapters:
        print(steps.to_text(result.chapters, result.question.steps_notation, style) + "\n", file=screen.out)
    for block in result.blocks:
        head = f"{block.key}: " if len(result.blocks) > 1 else ""
        text = head + written(block.arranged.expr, result.question, style, block.arranged.row)
        for line in _broken(text, style, result.question.width or 0):
            print(line, file=screen.out)


def _show_people(result: Answer, screen: Screen) -> None:
    question, style = result.question, screen.style(result.question)
    columns = screen.columns if question.width is None else question.width
    function = written(result.function, question, style).replace("\n", "; ")
    rows = [("function", f"{result.name} = {function}"), ("shape", shape_text(result.function.shape))]
    rows += _lines("variables", _table(_variables(result)))
    identities = ", ".join(str(name) for name in result.reading.names if name.is_identity)
    rows += [("read", note) for note in (identities, *result.reading.notes) if note]
    rows += [("layout", result.layout)] if result.by else []
    rows += [("symmetric", SYMMETRIC[question.symmetric])] if result.has_symmetric else []
    heads = []
    for block in result.blocks if result.by else ():
        heads.append(block.label("plain" if style == "plain" else "unicode", result.name))
        rows.append((heads[-1], screen.paint(block.arranged.shape, "2")))
        rows += _block_rows(block, question, screen, columns)
    rows += _lines("steps", steps.to_text(result.chapters, question.steps_notation, style)) if result.chapters else []
    rows += _lines("check", str(result.check)) if result.check is not None else []
    rows += [("graph", question.graph)] if question.graph else []
    _print(rows, heads, screen)


def _print(rows: list[tuple[str, str]], bold: list[str], screen: Screen) -> None:
    """Rows below each other, each a head and a text; some heads are bold."""
    width = max(len(head) for head, _ in rows)
    for head, text in rows:
        painted = screen.paint(head, "1;36" if head in bold else "36") if head else ""
        print((painted + " " * (width - len(head) + 2) + text).rstrip(), file=screen.out)


def _block_rows(block: Block, question: Question, screen: Screen, columns: int) -> list[tuple[str, str]]:
    """A derivative, broken to lines; and as a Kronecker product, if that is shorter."""
    style = screen.style(question)
    text = written(block.arranged.expr, question, style, block.arranged.row)
    rows = [("", screen.paint(line, "1")) for line in _broken(text, style, columns - _MARGIN)]
    as_matrix = kronecker(block.arranged.expr) if question.notation == "matrix" else None
    if as_matrix is not None and style != "latex" and len(other := as_matrix.text(style)) < len(text):
        rows += _lines("as a matrix", "\n".join(_broken(other, style, columns)))
    return rows


def _broken(text: str, style: str, width: int) -> list[str]:
    """The lines of a formula, the long ones broken; LaTeX is for programs and stays in one."""
    lines = text.split("\n")
    return lines if style == "latex" or width <= 0 else [part for line in lines for part in wrapped(line, width)]


def _lines(head: str, text: str) -> list[tuple[str, str]]:
    """The rows of a text of several lines."""
    return [(head if not k else "", line) for k, line in enumerate(text.split("\n"))]


def _variables(result: Answer) -> list[dict[str, Any]]:
    """The variables of the function, and those that it is differentiated by."""
    return [
        {
            "name": v.name,
            "kind": " ".join([*sorted(v.properties), KIND_OF_ORDER.get(v.ndim, f"tensor of order {v.ndim}")]),
            "shape": list(v.shape),
            "declared": v.name in result.declared,
            "how": result.how(v.name),
        }
        for v in result.variables
    ]


def _table(entries: list[dict[str, Any]]) -> str:
    """The variables in aligned columns."""
    columns = []
    for v in entries:
        shape = shape_text(tuple(v["shape"])) if v["shape"] else ""
        columns.append((v["name"], v["kind"], shape, HOW[v["how"]]))
    widths = [max((len(row[k]) for row in columns), default=0) for k in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in columns]
    return "\n".join(lines) or "none"


def as_data(result: Answer) -> dict[str, Any]:
    """An answer for programs."""
    question = result.question
    data: dict[str, Any] = {
        "version": __version__,
        "expression": result.text,
        "function": {
            "shape": list(result.function.shape),
            "text": written(result.function, question, "plain"),
            "latex": written(result.function, question, "latex"),
        },
        "variables": _variables(result),
        **{name: getattr(question, name) for name in ("notation", "mode", "layout", "symmetric")},
        "derivatives": [_block_data(block, result) for block in result.blocks],
    }
    if result.chapters:
        data["steps"] = steps.as_data(result.chapters, question.steps_notation)
    if result.check is not None:
        errors = {",".join(names): error if isfinite(error) else None for names, error in result.check.errors.items()}
        data["check"] = {"passed": result.check.passed, "tolerance": result.check.tolerance, "errors": errors}
    if result.code:
        data["code"] = result.code
    if question.graph:
        data["graph"] = question.graph
    return data


def _block_data(block: Block, result: Answer) -> dict[str, Any]:
    expr, row, names = block.arranged.expr, block.arranged.row, [x.name for x in block.by]
    return {
        "by": names,
        "order": len(names),
        "shape": [1, *expr.shape] if row else list(expr.shape),
        "axes": describe(result.question.layout, "the function" if result.function.ndim else "", names),
        **{style: written(expr, result.question, style, row) for style in STYLES},
    }


def respond(text: str, question: Question, screen: Screen, line: int = 0) -> int:
    """Answer one expression, or say what is wrong with it; gives the exit status. `line` is its line in a file."""
    try:
        result = answer(text, question)
        show(result, screen)
    except EindiffError as error:
        return _complain(str(error), error, question, screen, line)
    except (MemoryError, RecursionError) as error:
        return _complain("this is too large", error, question, screen, line)
    except OSError:
        raise
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _complain(f"an error of eindiff itself: {type(error).__name__}: {error}", error, question, screen, line)
        return 70
    return 1 if result.check is not None and not result.check.passed else 0


def _complain(message: str, error: Exception, question: Question, screen: Screen, line: int) -> int:
    """One message for people and, if everything is for programs, an object for them."""
    place = {name: getattr(error, name) for name in ("line", "column") if hasattr(error, name)}
    if line:
        message = message.replace("(line 1, ", f"(line {line}, ", 1) if place else f"line {line}: {message}"
        place["line"] = line
    print(f"eindiff: {message}", file=sys.stderr)
    if question.json:
        code = getattr(error, "code", "")
        _print_json({"error": {"message": getattr(error, "problem", message), "code": code, **place}}, screen)
    return 2
