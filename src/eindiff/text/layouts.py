"""Layouts: in which order the axes of a derivative stand.

Books disagree about the shape of a derivative of y by x. Let y have axes p and x have axes q, and q' be q reversed.

    mixed        p q    of a scalar it has the shape of x, of a vector by a vector it is the Jacobian (the default)
    numerator    p q'   of a scalar by a vector it is a row, by a matrix it has the shape of x'
    denominator  q p'   all axes of the numerator layout reversed: of a vector by a vector the transposed Jacobian

Derivatives of higher order by x1, ..., xk have the axes `p q1 ... qk` (mixed), `p q1' ... qk'` (numerator) and
`qk ... q1 p'` (denominator). So the numerator layout of the derivative of a derivative is that of the second
derivative, and the denominator layout is the numerator layout with all axes reversed at every order. The Hessian of a
scalar by a vector is the same in all three.

A tensor with one axis is neither a row nor a column; where a layout makes it a row, it is written transposed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eindiff.core.construct import transpose
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr

LAYOUTS = ("mixed", "numerator", "denominator")
_DOCUMENT = re.compile(r"(?s)(\\begin\{aligned\}.* & |.*(?:\n|; )|)(.*?)( \\end\{aligned\}|)")


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A derivative in a layout; `row` if it has one axis and the layout makes it a row."""

    expr: Expr
    row: bool = False

    @property
    def shape(self) -> str:
        """The shape as people write it."""
        return f"1×{self.expr.shape[0]}" if self.row else shape_text(self.expr.shape)


def permutation(of: int, by: Sequence[int], layout: str = "mixed") -> tuple[int, ...]:
    """The axes of the mixed layout in the order of another, for a function of order `of` and variables of orders `by`.

    >>> permutation(1, [1], "denominator"), permutation(0, [2], "numerator"), permutation(1, [2], "denominator")
    ((1, 0), (1, 0), (1, 2, 0))
    """
    if layout not in LAYOUTS:
        raise EindiffError(f"layout {layout!r}: choose one of {', '.join(LAYOUTS)}", "options")
    numerator = list(range(of))
    for order in by:
        group = range(len(numerator), len(numerator) + order)
        numerator += group if layout == "mixed" else reversed(group)
    return tuple(reversed(numerator) if layout == "denominator" else numerator)


def _is_row(of: int, order: int, layout: str) -> bool:
    return order == 1 and layout == ("denominator" if of else "numerator")


def arrange(result: Expr, of: int, by: Sequence[int], layout: str = "mixed") -> LaidOut:
    """A derivative, which is made in the mixed layout, in another.

    >>> import eindiff as ed
    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> arrange(ed.derivative(A @ x, x), 1, [1], "denominator").expr is A.T
    True
    """
    axes = permutation(of, by, layout)
    moved = transpose(result, axes) if axes != tuple(range(result.ndim)) else result
    return LaidOut(moved, _is_row(of, result.ndim, layout))


def changes(of: int, by: Sequence[int], layout: str) -> bool:
    """Whether a layout differs from the mixed one for such a derivative.

    >>> changes(1, [1], "numerator"), changes(0, [1], "numerator")
    (False, True)
    """
    axes = permutation(of, by, layout)
    return axes != tuple(range(len(axes))) or _is_row(of, len(axes), layout)


def describe(layout: str, function: str, by: Sequence[str]) -> str:
    """The order of the axes in words; a function that is a scalar has none, and no name here.

    >>> describe("denominator", "f", ["x", "y"]), describe("mixed", "", ["x"])
    ('denominator: the axes of y, then of x, then of f reversed', 'mixed: the axes of x')
    """
    before = [f"of {name}" for name in by]
    if layout == "numerator":
        before = [f"{part} reversed" for part in before]
    elif layout == "denominator":
        before.reverse()
    if function:
        before = [*before, f"of {function} reversed"] if layout == "denominator" else [f"of {function}", *before]
    return f"{layout}: the axes {', then '.join(before)}"


def as_row(text: str, style: str) -> str:
    """The text of a vector as that of a row: its last line (the rest are definitions) transposed.

    >>> as_row("b", "plain"), as_row("t0 = A*x; t0 + b", "plain"), as_row("A·x", "unicode")
    ("b'", "t0 = A*x; (t0 + b)'", '(A·x)ᵀ')
    """
    mark = {"plain": "'", "unicode": "ᵀ", "latex": r"^\top"}[style]
    found = _DOCUMENT.fullmatch(text)
    assert found is not None
    head, body, tail = found.groups()
    if not re.fullmatch(r"\w+", body):
        body = rf"\left({body}\right)" if style == "latex" else f"({body})"
    return f"{head}{body}{mark}{tail}"
