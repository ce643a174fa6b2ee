"""How results are shown where more than text can be: a notebook asks `_repr_html_`. What it says is installed above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Shown:
    """What a notebook shows typeset or drawn. Low layers have the values, `apps/notebook.py` their rich forms."""

    __slots__ = ()
    _html: Callable[[Any], str]  # installed by the package

    def _repr_html_(self) -> str:
        return Shown._html(self)


class Text(str):
    """Text of several lines, which a prompt or a notebook shows as it is, without quotes.

    >>> Text("a\\nb")
    a
    b
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Blocks(Shown, list):
    """Derivatives by several variables: a list, or a list of lists, as the variables are given."""

    __slots__ = ()
