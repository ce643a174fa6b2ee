"""Docstrings as Markdown: paragraphs, arguments, examples, and names to see besides."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SECTIONS = ("Args:", "Returns:", "Attributes:")
ARGUMENT = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)", re.S)
SEE = "See also: "


@dataclass
class Docstring:
    """A docstring by its parts; examples stand where they are, as fenced code."""

    paragraphs: list[str] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    see_also: list[str] = field(default_factory=list)

    def arguments(self) -> dict[str, str]:
        """What is said of each argument; several that share a line are taken apart."""
        found = {}
        for line in self.sections.get("Args:", []):
            match = ARGUMENT.match(line)
            assert match is not None, f"`name: text` expected, not {line!r}"
            found.update(dict.fromkeys((name.lstrip("*") for name in match[1].split(", ")), match[2]))
        return found


def read(text: str) -> Docstring:
    """The parts of a docstring."""
    found = Docstring()
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        first, _, rest = block.partition("\n")
        if first in SECTIONS:
            found.sections[first] = _entries(rest)
        elif first.startswith(SEE):
            found.see_also = [name.strip(" `.") for name in block.removeprefix(SEE).replace("\n", " ").split(",")]
        elif block.lstrip().startswith(">>>"):
            found.examples.append(block)
        else:
            before, _, example = block.partition("\n>>>")
            found.paragraphs.append(before)
            if example:
                found.examples.append(">>>" + example)
    return found


def _entries(text: str) -> list[str]:
    """Lines of a section; one that is indented further goes on with the one before it."""
    lines = inspect.cleandoc(text).split("\n")
    entries: list[str] = []
    for line in lines:
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line)
    return entries


def markdown(text: str, links: Mapping[str, str]) -> str:
    """A docstring as Markdown; `links` says where a name is documented."""
    doc = read(text)
    parts = [re.sub(r"^(    .*)$", r"\1", paragraph, flags=re.M) for paragraph in doc.paragraphs]
    for heading, entries in doc.sections.items():
        title = {"Args:": "Arguments", "Returns:": "Result", "Attributes:": "Attributes"}[heading]
        items = [ARGUMENT.sub(r"`\1`: \2", entry) if heading != "Returns:" else entry for entry in entries]
        one = heading == "Returns:"
        parts.append(f"**{title}**" + (f": {' '.join(items)}" if one else "\n\n" + "\n".join(f"- {x}" for x in items)))
    for example in doc.examples:
        parts.append("```pycon\n" + example.replace("<BLANKLINE>", "") + "\n```")
    if doc.see_also:
        named = [f"[`{name}`]({links[name]})" if name in links else f"`{name}`" for name in doc.see_also]
        parts.append("See also: " + ", ".join(named))
    return "\n\n".join(parts)


def summary(text: str) -> str:
    """The first sentence or line of a docstring."""
    return inspect.cleandoc(text).split("\n\n")[0].replace("\n", " ")
