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
from textwrap import fill

from eindiff.apps.prompt import Prompt, each_line, with_history
from eindiff.apps.terminal import Screen, respond
from eindiff.core import interrupts
from eindiff.core.errors import CODES
from eindiff.text.question import CHOICES, Question
from eindiff.version import __version__

ABOUT = """\
Closed-form derivatives of tensor expressions, of any order.

An EXPRESSION is in the language of matrixcalculus.org, and more: + - * / ^, entry by entry .* ./ .^, transpose ', and
functions such as exp, sum, norm2, tr, det, inv, einsum; also LaTeX, and NumPy's notation. What names stand for, and
their sizes, is found from their use, then from their letters, unless --declare says otherwise.

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
  eindiff explain shapes                              causes and cures of errors with the code shapes

exit status: 0; 1 if --check fails; 2 for bad input; 130 if interrupted"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="eindiff",
        usage="eindiff [options] [EXPRESSION [VARIABLE ...]]",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("words", nargs="*", metavar="EXPRESSION [VARIABLE ...]", help="- reads expressions, one a line")
    made.add_argument("--order", type=_order, metavar="K", help="order of the derivative (1); 0 is the function itself")
    made.add_argument("--declare", default="", metavar="TEXT", help='as in "A(m,n); S(n,n) symmetric; x(n); c"')
    for name, text in {
        "notation": "how the result is written: matrix (default), index, einsum, kronecker or latex (matrix as LaTeX)",
        "style": "plain (parses back), unicode or latex; auto is unicode on a terminal and plain elsewhere",
        "mode": "how the chain rule is multiplied out",
        "layout": "order of the axes: mixed (default; function, then variables), numerator or denominator",
        "symmetric": "derivatives by symmetric variables: projected (default) or by the free entries",
        "code": "a file for a library that computes the function and its derivatives; for numpy it checks itself",
    }.items():
        default = None if name == "code" else getattr(Question(), name)
        made.add_argument(f"--{name}", choices=CHOICES[name], default=default, help=text)
    made.add_argument("--steps", action="store_true", help="show the derivation step by step")
    made.add_argument("--check", action="store_true", help="compare with finite differences at a random point")
    made.add_argument("--graph", metavar="FILE", help="draw the expression DAG of the result to a .svg or .dot file")
    made.add_argument("--width", type=_order, metavar="N", help="break lines at N columns; 0 does not (the terminal's)")
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
        with interrupts.kept():
            words = sys.argv[1:] if argv is None else list(argv)
            command = _COMMANDS.get(words[0]) if words else None
            status = command(words[1:]) if command is not None else _run(_arguments(words))
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
    from eindiff.apps.page.main import main as serve  # a web server: only when it is asked for

    return serve(words)


def _explain(words: Sequence[str]) -> int:
    """Causes and cures of the errors of some code; of all."""
    if unknown := [word for word in words if word not in CODES]:
        print(f"eindiff: no errors have the code {unknown[0]}; the codes are {', '.join(CODES)}", file=sys.stderr)
        return 2
    for code in words or CODES:
        print(fill(f"{code}: {CODES[code]}", 100))
    return 0


_COMMANDS = {"serve": _serve, "explain": _explain}


def _run(found: argparse.Namespace) -> int:
    words = found.words
    options = {name: getattr(found, name) for name in Question.__dataclass_fields__ if name != "variables"}
    question = Question(variables=tuple(words[1:]), **options)
    screen = Screen.of(sys.stdout)
    if words and words[0] != "-":
        return respond(words[0], question, screen)
    if not words and sys.stdin.isatty() and screen.people:
        return Prompt(question, screen, with_history()).run()
    return each_line(sys.stdin, question, screen)
