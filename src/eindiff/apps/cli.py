"""The command line: an expression and variables in, the derivative out.

For people, on a terminal, the answer is laid out with the function, its variables and the conventions; in a pipe there
is only the result, in plain text that the parser reads back. Exit status: 0; 1 if a check fails; 2 for bad input, with
one message that points at the place; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TextIO

from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr
from eindiff.text.answer import Answer, Request, answer

NOTATIONS = ("matrix", "index", "einsum", "latex")
CHOICES = {
    "notation": NOTATIONS,
    "style": ("auto", "plain", "unicode", "latex"),
    "mode": ("auto", "reverse", "forward", "cross_country"),
    "layout": ("mixed", "numerator", "denominator"),
    "symmetric": ("projected", "free"),
    "code": ("numpy",),
}
SYMMETRIC = {
    "projected": "projected: the symmetric part of the derivative by independent entries",
    "free": "free: by the entries on and below the diagonal, each of which moves its mirror image too",
}

DESCRIPTION = """\
Closed-form derivatives of tensor expressions, of any order.

An EXPRESSION is in the language of matrixcalculus.org, and more: + - * / ^, entry by entry .* ./ .^, transpose ', and
functions such as exp, sum, norm2, tr, det, inv, einsum. Names that begin with a..g are scalars, h..z vectors and A..Z
matrices, unless --declare says otherwise; sizes are found from use.

Each VARIABLE is differentiated by; x,y is the mixed partial derivative by x, then y. Without any, the derivative is by
each variable of the expression."""

EXAMPLES = """\
examples:
  eindiff "x'*A*x" x
  eindiff "sum(log(exp(-y.*(X*w))+vector(1)))" w --order 2
  eindiff "x'*S*x" x --declare "S(n,n) symmetric; x(n)"
  eindiff "norm2(A*x-b)^2" x A --declare "b(m)"       the derivative by x, and that by A
  eindiff "x'*A*y" x,y                                a mixed partial derivative
  eindiff "tr(A*X'*B*X*C)" X --notation index --steps
  eindiff "log(det(X))" X --layout numerator
  eindiff "norm2(T-U*V')^2" U V --order 2 --code numpy > factorization.py && python factorization.py
  eindiff "sum(relu(X*w))" w --graph gradient.svg
  eindiff - w < expressions.txt                       one expression a line
  eindiff                                             a prompt; :help there shows its commands
  eindiff serve                                       a page in the browser; eindiff serve --help has its options

exit status: 0; 1 if --check fails; 2 for bad input; 130 if interrupted"""


# Showing it


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

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def style(self, request: Request) -> str:
        """The style of expressions: Unicode for people if the terminal has it."""
        if request.notation == "latex" or request.style == "latex":
            return "latex"
        if request.style != "auto":
            return request.style
        return "unicode" if self.people and "utf" in (self.out.encoding or "").lower() else "plain"


def show(result: Answer, request: Request, screen: Screen) -> None:
    """Write an answer."""
    if request.json:
        import json

        print(json.dumps(as_data(result, request), ensure_ascii=False), file=screen.out)
    elif result.code:
        print(result.code, end="", file=screen.out)
    elif screen.people:
        _show_people(result, request, screen)
    else:
        _show_plain(result, request, screen)
    if result.check is not None and (not screen.people or result.code) and not request.json:
        print(result.check, file=sys.stderr)


def written(expr: Expr, request: Request, style: str, row: bool = False) -> str:
    """An expression in the notation asked for."""
    from eindiff.text.layouts import as_row
    from eindiff.text.write.print_expr import to_text

    notation = "matrix" if request.notation == "latex" else request.notation
    text = to_text(expr, notation, style)
    return as_row(text, style) if row and notation != "index" else text


def _show_plain(result: Answer, request: Request, screen: Screen) -> None:
    style = screen.style(request)
    if result.chapters:
        print(_steps_text(result, request, style) + "\n", file=screen.out)
    for block in result.blocks:
        head = f"{block.key}: " if len(result.blocks) > 1 else ""
        print(head + written(block.arranged.expr, request, style, block.arranged.row), file=screen.out)


def _steps_text(result: Answer, request: Request, style: str) -> str:
    from eindiff.text.steps import to_text

    return to_text(result.chapters, "matrix" if request.notation == "latex" else request.notation, style)


def _show_people(result: Answer, request: Request, screen: Screen) -> None:
    style = screen.style(request)
    names_style = "plain" if style == "plain" else "unicode"
    name = next(c for c in ("f", "F", "g", "G", "function") if all(v["name"] != c for v in _variables(result)))
    rows: list[tuple[str, str]] = [("function", f"{name} = {_inline(written(result.function, request, style))}")]
    rows.append(("shape", shape_text(result.function.shape)))
    rows += _table("variables", _variables(result))
    for convention in _conventions(result, request, name):
        rows.append(convention)
    heads = []
    for block in result.blocks:
        if block.by:
            label = block.label(names_style, name)
            heads.append(label)
            rows.append((label, screen.paint(block.arranged.shape, "2")))
            text = written(block.arranged.expr, request, style, block.arranged.row)
            rows += [("", screen.paint(line, "1")) for line in text.split("\n")]
    if result.chapters:
        rows += _lines("steps", _steps_text(result, request, style))
    if result.check is not None:
        rows += _lines("check", str(result.check))
    if request.graph:
        rows.append(("graph", request.graph))
    width = max(len(head) for head, _ in rows)
    for head, text in rows:
        painted = screen.paint(head, "1;36" if head in heads else "36") if head else ""
        print((painted + " " * (width - len(head) + 2) + text).rstrip(), file=screen.out)


def _lines(head: str, text: str) -> list[tuple[str, str]]:
    """The rows of a text of several lines."""
    return [(head if not k else "", line) for k, line in enumerate(text.split("\n"))]


def _inline(text: str) -> str:
    """Definitions and an expression in one line."""
    return "; ".join(text.split("\n"))


def _variables(result: Answer) -> list[dict[str, Any]]:
    """The variables of the function, and those that it is differentiated by."""
    from eindiff.core.nodes import variables

    inputs = {v.name: v for v in [*variables(result.function), *(x for block in result.blocks for x in block.by)]}
    kinds = {0: "scalar", 1: "vector", 2: "matrix"}
    return [
        {
            "name": v.name,
            "kind": " ".join([*sorted(v.properties), kinds.get(v.ndim, f"tensor of order {v.ndim}")]),
            "shape": list(v.shape),
            "declared": v.name in result.declared,
        }
        for v in sorted(inputs.values(), key=lambda v: v.name)
    ]


def _table(head: str, entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The variables in aligned columns."""
    columns = []
    for v in entries:
        shape = shape_text(tuple(v["shape"])) if v["shape"] else ""
        columns.append((v["name"], v["kind"], shape, "declared" if v["declared"] else "inferred"))
    widths = [max((len(row[k]) for row in columns), default=0) for k in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in columns]
    return _lines(head, "\n".join(lines) or "none")


def _conventions(result: Answer, request: Request, name: str) -> list[tuple[str, str]]:
    """The layout and, where it matters, what a derivative by a symmetric variable is."""
    from eindiff.text.layouts import describe

    if not any(block.by for block in result.blocks):
        return []
    by = [x.name for x in result.blocks[0].by] if len(result.blocks) == 1 else ["each variable"]
    rows = [("layout", describe(request.layout, name if result.function.ndim else "", by))]
    if any(x.symmetries for block in result.blocks for x in block.by):
        rows.append(("symmetric", SYMMETRIC[request.symmetric]))
    return rows


def as_data(result: Answer, request: Request) -> dict[str, Any]:
    """An answer for programs."""
    from eindiff import __version__
    from eindiff.text.layouts import describe

    data: dict[str, Any] = {
        "version": __version__,
        "expression": result.text,
        "function": {
            "shape": list(result.function.shape),
            "text": written(result.function, request, "plain"),
            "latex": written(result.function, request, "latex"),
        },
        "variables": _variables(result),
        "notation": request.notation,
        "mode": request.mode,
        "layout": request.layout,
        "symmetric": request.symmetric,
        "derivatives": [],
    }
    for block in result.blocks:
        expr, row = block.arranged.expr, block.arranged.row
        data["derivatives"].append(
            {
                "by": [x.name for x in block.by],
                "order": len(block.by),
                "shape": [1, *expr.shape] if row else list(expr.shape),
                "axes": describe(
                    request.layout, "the function" if result.function.ndim else "", [x.name for x in block.by]
                ),
                **{style: written(expr, request, style, row) for style in ("plain", "unicode", "latex")},
            }
        )
    if result.chapters:
        data["steps"] = _steps_data(result, request)
    if result.check is not None:
        errors = {",".join(names): error if isfinite(error) else None for names, error in result.check.errors.items()}
        data["check"] = {"passed": result.check.passed, "tolerance": result.check.tolerance, "errors": errors}
    if result.code:
        data["code"] = result.code
    if request.graph:
        data["graph"] = request.graph
    return data


def _steps_data(result: Answer, request: Request) -> list[dict[str, Any]]:
    from eindiff.text.steps import as_data

    return as_data(result.chapters, "matrix" if request.notation == "latex" else request.notation)


# Running it


def parser() -> argparse.ArgumentParser:
    """The options."""
    from eindiff import __version__

    made = argparse.ArgumentParser(
        prog="eindiff",
        usage="eindiff [options] [EXPRESSION [VARIABLE ...]]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("words", nargs="*", metavar="EXPRESSION [VARIABLE ...]", help="- reads expressions, one a line")
    made.add_argument("--order", type=_order, metavar="K", help="order of the derivative (1); 0 is the function itself")
    made.add_argument("--declare", default="", metavar="TEXT", help='as in "A(m,n); S(n,n) symmetric; x(n); c"')
    for name, text in {
        "notation": "how the result is written: matrix (default), index, einsum, or latex (matrix as LaTeX)",
        "style": "plain (parses back), unicode or latex; auto is unicode on a terminal and plain elsewhere",
        "mode": "how the chain rule is multiplied out",
        "layout": "order of the axes: mixed (default; function, then variables), numerator or denominator",
        "symmetric": "derivatives by symmetric variables: projected (default) or by the free entries",
        "code": "a file that computes the function and its derivatives and, when run, checks itself",
    }.items():
        default = None if name == "code" else getattr(Request(), name)
        made.add_argument(f"--{name}", choices=CHOICES[name], default=default, help=text)
    made.add_argument("--steps", action="store_true", help="show the derivation step by step")
    made.add_argument("--check", action="store_true", help="compare with finite differences at a random point")
    made.add_argument("--graph", metavar="FILE", help="draw the expression DAG of the result to a .svg or .dot file")
    made.add_argument("--json", action="store_true", help="everything for programs, one object an expression")
    made.add_argument("--version", action="version", version=f"eindiff {__version__}")
    return made


def _order(text: str) -> int:
    text = text.removeprefix(_MINUS)
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


_MINUS = "\0"  # stands before what begins with a minus and is no option; no argument contains it


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The options, and expressions like `-x'*x` kept from being taken for one."""
    end = argv.index("--") if "--" in argv else len(argv)
    guarded = [
        _MINUS + word if word[:1] == "-" and (k > end or (word not in ("-", "-h") and word[:2] != "--")) else word
        for k, word in enumerate(argv)
        if k != end
    ]
    found = parser().parse_intermixed_args(guarded)
    for name, value in vars(found).items():
        if isinstance(value, str):
            setattr(found, name, value.removeprefix(_MINUS))
    found.words = [word.removeprefix(_MINUS) for word in found.words]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a character that the terminal does not have is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        status = _serve(words[1:]) if words[:1] == ["serve"] else _run(_arguments(words))
        sys.stdout.flush()
        return status
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads has enough; keep Python from writing the rest at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


def _serve(words: Sequence[str]) -> int:
    """The page. A variable named serve is differentiated with `eindiff "(serve)"`."""
    from eindiff.apps.page.main import main as serve

    return serve(words)


def _run(found: argparse.Namespace) -> int:
    words = found.words
    options = {name: getattr(found, name) for name in Request.__dataclass_fields__ if name != "variables"}
    request = Request(variables=tuple(words[1:]), **options)
    screen = Screen.of(sys.stdout)
    if words and words[0] != "-":
        return respond(words[0], request, screen)
    from eindiff.apps.prompt import Prompt, each_line, with_history

    if not words and sys.stdin.isatty() and screen.people:
        return Prompt(request, screen, with_history()).run()
    return each_line(sys.stdin, request, screen)


def respond(text: str, request: Request, screen: Screen, line: int = 0) -> int:
    """Answer one expression, or say what is wrong with it; gives the exit status. `line` is its line in a file."""
    try:
        result = answer(text, request)
        show(result, request, screen)
    except EindiffError as error:
        return _complain(str(error), error, request, screen, line)
    except (MemoryError, RecursionError) as error:
        return _complain("this is too large", error, request, screen, line)
    except OSError:
        raise
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _complain(f"an error of eindiff itself: {type(error).__name__}: {error}", error, request, screen, line)
        return 70
    return 1 if result.check is not None and not result.check.passed else 0


def _complain(message: str, error: Exception, request: Request, screen: Screen, line: int) -> int:
    """One message for people and, if everything is for programs, an object for them."""
    place = {name: getattr(error, name) for name in ("line", "column") if hasattr(error, name)}
    if line:
        message = message.replace("(line 1, ", f"(line {line}, ", 1) if place else f"line {line}: {message}"
        place["line"] = line
    print(f"eindiff: {message}", file=sys.stderr)
    if request.json:
        import json

        problem = getattr(error, "problem", message)
        print(json.dumps({"error": {"message": problem, **place}}, ensure_ascii=False), file=screen.out)
    return 2
