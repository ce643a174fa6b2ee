"""The prompt, and expressions one a line from a file or a pipe."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from eindiff.apps.terminal import Screen, respond
from eindiff.core.errors import EindiffError
from eindiff.text.question import CHOICES, Question
from eindiff.text.read.declarations import parse_declarations
from eindiff.text.read.syntax import ALIASES
from eindiff.text.reference import reference
from eindiff.version import __version__

MOST_HISTORY = 1000

HELP = """\
Type an expression to get its derivative; with | after it, the variables: x'*A*x | x
  :by x y           the variables to differentiate by (none: all); x,y is a mixed partial derivative
  :declare TEXT     declare variables, as in A(m,n); S(n,n) symmetric; x(n)
  :order K          the order of the derivative
  :notation NAME    matrix, index, einsum, kronecker or latex
  :style NAME       auto, plain, unicode or latex
  :layout NAME      mixed, numerator or denominator
  :symmetric NAME   projected or free
  :mode NAME        auto, reverse, forward or cross_country
  :width N          break long lines at N columns; 0 does not
  :steps, :check    turn the derivation, or the check against finite differences, on and off
  :code LIBRARY     code for the last expression, for numpy, jax, torch, tensorflow or cupy
  :graph FILE       draw the last result to a .svg or .dot file
  :show             the settings
  :help, :help NAME this text, or what a function means, with an example
  :reset            the settings as they were at the beginning
  :quit             leave (or Ctrl-D)"""


def split(line: str) -> tuple[str, tuple[str, ...] | None]:
    """A line `expression | variables` in its two parts. Other bars, which come in pairs, are those of `|x|`.

    >>> split("x'*A*y | x y"), split("x'*x"), split("|x|"), split("||x||^2 | x")
    (("x'*A*y ", ('x', 'y')), ("x'*x", None), ('|x|', None), ('||x||^2 ', ('x',)))
    """
    found = re.fullmatch(r"([^#]*[^|#\s][^#]*)\|([\w,\s]*)", line)
    is_last = found is not None and found[1].count("|") % 2 == 0
    return (found[1], tuple(found[2].split())) if found and is_last else (line, None)


def each_line(lines: Iterable[str], question: Question, screen: Screen) -> int:
    """Answer expressions, one a line. Empty lines and comments are skipped; what is wrong with a line is told."""
    status = 0
    for count, line in enumerate(lines, 1):
        text, variables = split(line.rstrip("\r\n"))
        if not text.partition("#")[0].strip():
            continue
        asked = question if variables is None else replace(question, variables=variables)
        status = max(status, respond(text, asked, screen, count))
        screen.out.flush()
    return status


def with_history() -> Callable[[str], str]:
    """`input`, with line editing, completion and a history that is kept where there is a home to keep it."""
    try:
        import readline  # not on all systems
    except ImportError:
        return input
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = Path(base) / "eindiff" / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError:
        return input
    readline.set_history_length(MOST_HISTORY)
    readline.set_completer_delims(" \t\n()[]+-*/^.,;'|=<>")
    readline.set_completer(_completer())
    readline.parse_and_bind("tab: complete")

    def read(prompt: str) -> str:
        line = input(prompt)
        with suppress(OSError):  # a history that cannot be kept is no reason to stop
            readline.write_history_file(path)
        return line

    return read


def _completer() -> Callable[[str, int], str | None]:
    def complete(text: str, state: int) -> str | None:
        words = [word for word in [*(f":{name}" for name in COMMANDS), *sorted(reference())] if word.startswith(text)]
        return words[state] if state < len(words) else None

    return complete


class Prompt:
    """Reads lines and answers them until it is told to stop. Commands, after a colon, change what is asked."""

    def __init__(self, question: Question, screen: Screen, read: Callable[[str], str] = input) -> None:
        self.first = self.question = question
        self.screen, self.read = screen, read
        self.last: tuple[str, tuple[str, ...]] | None = None

    def run(self) -> int:
        """The loop. Ctrl-C drops a line (or what is being computed), Ctrl-D leaves."""
        self.say(f"eindiff {__version__}: type an expression, or :help")
        while True:
            try:
                line = self.read("> ")
                if not self.handle(line):
                    return 0
                self.screen.out.flush()
            except KeyboardInterrupt:
                self.say("")
            except EOFError:
                self.say("")
                return 0

    def say(self, text: str) -> None:
        """A message to whoever types."""
        print(text, file=self.screen.out, flush=True)

    def handle(self, line: str) -> bool:
        """Answer a line; gives whether to go on."""
        line = line.strip()
        if line.startswith(":"):
            name, _, rest = line[1:].partition(" ")
            return self.command(name, rest.strip())
        if line.partition("#")[0].strip():
            text, variables = split(line)
            self.last = (text, self.question.variables if variables is None else variables)
            self.answer(self.question)
        return True

    def answer(self, question: Question) -> None:
        """Answer the last expression."""
        if self.last is None:
            self.say("there is no expression yet")
            return
        text, variables = self.last
        if respond(text, replace(question, variables=variables), self.screen) == 2:
            settings = _changed(question, variables)
            if settings:
                self.say(f"with the settings {settings}; :reset takes them back")

    def command(self, name: str, rest: str) -> bool:
        """Do what a command says; gives whether to go on. The beginning of a name is enough."""
        names = [known for known in COMMANDS if known == name] or [k for k in COMMANDS if name and k.startswith(name)]
        if len(names) != 1:
            near = names or get_close_matches(name, COMMANDS, 1)
            hint = f"did you mean {' or '.join(f':{known}' for known in near)}?" if near else ":help lists them"
            self.say(f"there is no command :{name}; {hint}")
            return True
        if names[0] == "quit":
            return False
        problem = COMMANDS[names[0]](self, names[0], rest)
        if problem:
            self.say(problem)
        return True


# Commands: each gets the prompt, its own name and what follows it, and gives what there is to say


def _changed(question: Question, variables: tuple[str, ...]) -> str:
    """The settings that may have to do with an error."""
    plain = Question()
    shown = [f":by {' '.join(variables)}"] * bool(variables and variables == question.variables)
    for name in ("declare", "order", "layout", "symmetric", "mode"):
        if getattr(question, name) != getattr(plain, name):
            shown.append(f":{name} {getattr(question, name)}")
    return ", ".join(shown)


def _help(prompt: Prompt, name: str, rest: str) -> str:
    if not rest:
        return HELP
    known = reference()
    wanted = ALIASES.get(rest, rest)
    if wanted in known:
        entry = known[wanted]
        aliases = f"\n  also {', '.join(entry.aliases)}" if entry.aliases else ""
        return f"{entry.usage}\n  {entry.meaning}\n  for example  {entry.example}{aliases}"
    if rest.removeprefix(":") in COMMANDS:
        return next(line.strip() for line in HELP.splitlines() if f":{rest.removeprefix(':')}" in line)
    near = get_close_matches(rest, known, 3)
    told = [name for name, entry in known.items() if rest.lower() in entry.meaning.lower()][:8]
    found = " or ".join(dict.fromkeys([*near, *told]))
    return f"there is no function {rest}" + (f"; see :help {found}" if found else "; :help lists the commands")


def _show(prompt: Prompt, name: str, rest: str) -> str:
    shown = {
        "by": " ".join(prompt.question.variables) or "all variables",
        "declare": prompt.question.declare or "nothing",
        "order": prompt.question.order if prompt.question.order is not None else 1,
        "width": "that of the terminal" if prompt.question.width is None else prompt.question.width,
        **{key: getattr(prompt.question, key) for key in ("notation", "style", "layout", "symmetric", "mode")},
        **{key: "on" if getattr(prompt.question, key) else "off" for key in ("steps", "check")},
    }
    return "\n".join(f"{key:<10}  {value}" for key, value in shown.items())


def _by(prompt: Prompt, name: str, rest: str) -> str:
    prompt.question = replace(prompt.question, variables=tuple(rest.split()))
    return f"by {rest or 'all variables'}"


def _declare(prompt: Prompt, name: str, rest: str) -> str:
    try:
        parse_declarations(rest)
    except EindiffError as error:
        return str(error)
    prompt.question = replace(prompt.question, declare=rest)
    return f"declared {rest or 'nothing'}"


def _set_number(prompt: Prompt, name: str, rest: str) -> str:
    if not rest.isdecimal():
        return f":{name} takes a whole number, not {rest!r}"
    prompt.question = replace(prompt.question, **{name: int(rest)})  # type: ignore[arg-type]
    return f"{name} {rest}"


def _choose(prompt: Prompt, name: str, rest: str) -> str:
    if rest not in CHOICES[name]:
        return f":{name} takes one of {', '.join(CHOICES[name])}"
    prompt.question = replace(prompt.question, **{name: rest})  # type: ignore[arg-type]
    return f"{name} {rest}"


def _turn(prompt: Prompt, name: str, rest: str) -> str:
    wanted = {"on": True, "off": False, "": not getattr(prompt.question, name)}.get(rest)
    if wanted is None:
        return f":{name} is on or off"
    prompt.question = replace(prompt.question, **{name: wanted})  # type: ignore[arg-type]
    return f"{name} {'on' if wanted else 'off'}"


def _code(prompt: Prompt, name: str, rest: str) -> str:
    if (rest or "numpy") not in CHOICES["code"]:
        return f":code takes one of {', '.join(CHOICES['code'])}"
    prompt.answer(replace(prompt.question, code=rest or "numpy", steps=False))
    return ""


def _graph(prompt: Prompt, name: str, rest: str) -> str:
    if not rest:
        return ":graph needs a file name that ends in .svg or .dot"
    prompt.answer(replace(prompt.question, graph=os.path.expanduser(rest)))
    return ""


def _reset(prompt: Prompt, name: str, rest: str) -> str:
    prompt.question = prompt.first
    return "settings as at the beginning"


COMMANDS: dict[str, Callable[[Prompt, str, str], str]] = {
    "help": _help, "by": _by, "declare": _declare, "order": _set_number, "width": _set_number, "notation": _choose,
    "style": _choose,
    "layout": _choose, "symmetric": _choose, "mode": _choose, "steps": _turn, "check": _turn, "code": _code,
    "graph": _graph, "show": _show, "reset": _reset, "quit": _help,
}  # fmt: skip
