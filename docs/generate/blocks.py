"""The code on pages: runs it, and compares or fills in what it prints.

    python docs/generate/blocks.py docs/start.md    # write what the code prints below it; without names, on all pages

A block of Python is followed by a block with what it prints, if it prints. Lines that begin with `$ eindiff` are
commands with their answers. All blocks of a page share their names.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import jax

from eindiff.apps.cli import main

ROOT = Path(__file__).parent.parent.parent
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:```\n(?P<shown>.*?)^```\n)?", re.S | re.M)
SESSION = re.compile(r"^```\n(?P<lines>\$ eindiff .*?)^```\n", re.S | re.M)
COMMAND = re.compile(r"^\$ eindiff (.*)\n((?:(?!\$ ).*\n)*)", re.M)


def pages() -> list[str]:
    """All pages with text of their own, by their paths in the repository."""
    found = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "cookbook.md"]
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in found)]


def printed(run: Callable[[], object]) -> str:
    """What a function prints, errors included."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        run()
    return out.getvalue()


@contextlib.contextmanager
def as_installed() -> Iterator[None]:
    """JAX as a reader has it, whatever the page before, or a test in the same process, has set."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def run(code: str, namespace: dict) -> str:
    """What a block of Python prints. Errors may show its lines."""
    linecache.cache["page"] = (len(code), None, code.splitlines(keepends=True), "page")
    return printed(lambda: exec(compile(code, "page", "exec"), namespace))


def answers(text: str) -> Iterator[tuple[str, str, str]]:
    """Each block of Python and each command of a page: the code, what is shown below it, and what it prints."""
    namespace: dict = {"__name__": "page"}
    with as_installed():
        for block in PYTHON.finditer(text):
            yield block["code"], block["shown"] or "", run(block["code"], namespace)
    for session in SESSION.finditer(text):
        for arguments, shown in COMMAND.findall(session["lines"]):
            yield f"eindiff {arguments}", shown, printed(lambda words=arguments: main(shlex.split(words)))


def filled(text: str) -> str:
    """A page with what its code prints."""
    namespace: dict = {"__name__": "page"}

    def python(block: re.Match) -> str:
        shown = run(block["code"], namespace)
        return f"```python\n{block['code']}```\n" + (f"```\n{shown}```\n" if shown else "")

    def command(block: re.Match) -> str:
        return f"$ eindiff {block[1]}\n" + printed(lambda: main(shlex.split(block[1])))

    def commands(session: re.Match) -> str:
        return "```\n" + COMMAND.sub(command, session["lines"]) + "```\n"

    with as_installed():
        text = PYTHON.sub(python, text)
    return SESSION.sub(commands, text)


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT / name for name in pages()]
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
