"""What notebooks show: formulas in MathML, which browsers typeset by themselves, structures drawn, costs in tables.

`_repr_latex_` stays beside it for those that make LaTeX of a notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from html import escape
from itertools import count
from typing import Any

from eindiff.apps.page.derivations import chapter_data
from eindiff.apps.page.formulas import derivative_mathml, formula
from eindiff.apps.page.pictures import drawn, explanation
from eindiff.core.derivation import derivation
from eindiff.core.errors import bytes_text, count_text, shape_text
from eindiff.core.nodes import Expr
from eindiff.core.shown import Blocks
from eindiff.program.check import Check
from eindiff.program.plan import Plan
from eindiff.structure.derivative import Derivative
from eindiff.structure.picture_scheme import scheme_of
from eindiff.text.read.reading import HOW, Reading
from eindiff.text.step_by_step import Steps
from eindiff.text.write.mathml import name_mathml, whole

SCROLL = '<div style="overflow-x: auto; padding: 0.2em 0">'
MATH_FONT = "font: 1.12em 'STIX Two Math', 'Latin Modern Math', 'Cambria Math', 'DejaVu Math TeX Gyre', math"
SOFT = "opacity: 0.7; font-size: 0.9em"
CELL = "text-align: left; padding: 0.25em 1.2em 0.25em 0; vertical-align: top"
FIGURE = "text-align: right; padding: 0.25em 1.2em 0.25em 0; vertical-align: top; white-space: nowrap"


def rich(value: Any) -> str:
    """The rich form of a value, with formulas in a font for mathematics."""
    return html(value).replace("<math ", f'<math style="{MATH_FONT}" ')


@singledispatch
def html(value: Any) -> str:
    """The rich form of a value."""
    return f"<pre>{escape(str(value))}</pre>"


# Formulas


@html.register
def of_expression(expr: Expr) -> str:
    """`A x`; an expression with names for parts has these below."""
    return _equation(expr, "")


def _equation(expr: Expr, left: str) -> str:
    """`left = expr`, and what names in it stand for."""
    made = formula(expr, "matrix", left)
    sides = [made["left"], made["mathml"]] if left else [made["mathml"]]
    rows = [_joined(sides)]
    rows += [_joined([part["name_mathml"], part["mathml"]]) for part in made["where"]]
    where = f'<div style="{SOFT}">where</div>' if len(rows) > 1 else ""
    return "".join([f"{SCROLL}{rows[0]}</div>", where, *(f"{SCROLL}{row}</div>" for row in rows[1:])])


def _joined(sides: Sequence[str]) -> str:
    """Several `<math>` elements as one, with = between them."""
    inside = "<mo>=</mo>".join(side[side.index(">") + 1 : side.rindex("<")] for side in sides)
    return whole(inside)


@html.register
def of_blocks(blocks: Blocks) -> str:
    """Each derivative with what it is by."""
    exprs = [block for line in blocks for block in (line if isinstance(line, list) else [line])]
    return "".join(map(_labelled, exprs))


def _labelled(expr: Expr) -> str:
    by = [x.name for x in derivation(expr).by]
    return _equation(expr, derivative_mathml("f", by)) if by else _equation(expr, "")


@html.register
def of_reading(reading: Reading) -> str:
    """The expression, and what each name was read as."""
    rows = [(whole(name_mathml(own.name), display=False), escape(own.kind), HOW[own.how]) for own in reading.names]
    notes = "".join(f'<div style="{SOFT}">{escape(note)}</div>' for note in reading.notes)
    return _equation(reading.expression, "") + _table(["name", "read as", ""], rows) + notes


@html.register
def of_steps(steps: Steps) -> str:
    """The steps, with their rules and reasons."""
    parts: list[str] = []
    numbers = count(1)
    for chapter in steps:
        data = chapter_data(chapter, "matrix", numbers)
        parts.append(f"<p><b>{_pieces(data['title'])}</b></p>")
        parts += [f"{SCROLL}{_joined(one['mathml'])}</div>" for one in data["names"]]
        for step in data["steps"]:
            parts.append(f"<p>{step['number']}. <b>{escape(step['rule'])}</b><br>{_pieces(step['words'])}</p>")
            parts.append(f"{SCROLL}{_joined(step['equation']['mathml'])}</div>")
    return "".join(parts)


def _pieces(pieces: Iterable[dict[str, str]]) -> str:
    return "".join(piece["mathml"] or escape(piece["text"]) for piece in pieces)


# Values, checks and costs


@html.register
def of_derivative(derivative: Derivative) -> str:
    """The structure drawn, with its name and what it takes to store it."""
    grid = derivative._grid
    words = f"<b>{escape(derivative.structure)}</b><br>{escape(repr(derivative))}"
    if reason := explanation(derivative.structure):
        words += f'<br><span style="{SOFT}">{escape(reason)}</span>'
    names = [shape_text(shape) for shape in grid.rows]
    return f"<div>{words}</div>{SCROLL}{drawn(scheme_of(derivative), derivative.formula, names)}</div>"


@html.register
def of_check(check: Check) -> str:
    """The error of each derivative."""
    rows = [
        (escape(", ".join(names)), str(len(names)), f"{error:.1e}", "✓" if error <= check.tolerance else "✗ too large")
        for names, error in check.errors.items()
    ]
    verdict = "✓ passed" if check.passed else f"✗ FAILED (tolerance {check.tolerance:.0e})"
    return f"<div><b>{verdict}</b></div>" + _table(["by", "order", "relative error", ""], rows, figures=(1, 2))


@html.register
def of_plan(plan: Plan) -> str:
    """The program, line by line with its cost."""
    rows = [
        (count_text(cost.flops), bytes_text(cost.bytes), bytes_text(cost.live), _code(cost.lines))
        for cost in plan.statements()
    ]
    table = _table(["operations", "moved", "in use", "statement"], rows, figures=(0, 1, 2))
    total = str(plan).splitlines()[-1]
    return f"{table}<div>{escape(total)}</div>"


def _code(lines: Sequence[str]) -> str:
    return f'<pre style="margin: 0">{escape(chr(10).join(lines))}</pre>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already."""

    def line(tag: str, cells: Sequence[str]) -> str:
        styles = [FIGURE if place in figures else CELL for place in range(len(cells))]
        inside = "".join(f'<{tag} style="{style}">{cell}</{tag}>' for style, cell in zip(styles, cells, strict=True))
        return f"<tr>{inside}</tr>"

    body = "".join(line("td", cells) for cells in rows)
    return f"{SCROLL}<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table></div>"
