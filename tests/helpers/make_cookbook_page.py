"""The cookbook as a page: reads cookbook.txt, writes docs/cookbook.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parent / "cookbook.txt"
PAGE = Path(__file__).parent.parent.parent / "docs" / "cookbook.md"

INTRODUCTION = """\
# Cookbook

{count} derivatives in closed form. The right column was written by hand, from the sources named in the headings or by
derivation; the tests compare it with what `eindiff` finds, by value, by finite differences and as an object, and run
the code that `eindiff` writes for each row.

A scalar's derivative has the shape of the variable. Otherwise the axes of the function come first, then those of each
variable. Derivatives by a symmetric variable are projected. In `einsum`, a label that is repeated in the output is a
delta, and a label that only the output has stands for ones.

Each row can be tried: `eindiff "x'*A*x" x,x --declare "x(n); A(n,n)"`.
"""


@dataclass
class Section:
    """A heading with its rows: expression, declarations, variables, derivative."""

    heading: str
    rows: list[list[str]] = field(default_factory=list)


def read_sections() -> list[Section]:
    """The cookbook by headings."""
    sections: list[Section] = []
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append(Section(line[3:]))
        elif line and not line.startswith("#"):
            sections[-1].rows.append([part.strip() for part in line.split(" | ")])
    return sections


def page() -> str:
    """The text of the page."""
    sections = read_sections()
    lines = [INTRODUCTION.format(count=sum(len(section.rows) for section in sections))]
    for section in sections:
        lines += [f"## {section.heading}", "", "| expression | variables | by | derivative |", "|---|---|---|---|"]
        lines += ["| " + " | ".join(f"`{part}`" for part in row) + " |" for row in section.rows]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
