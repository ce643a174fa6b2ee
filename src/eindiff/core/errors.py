"""The one exception type of the package, and how its messages write shapes and numbers."""

from __future__ import annotations


class EindiffError(ValueError):
    """Something in the user's input cannot be done; the message says what, where, and with which shapes.

    >>> import eindiff as ed
    >>> ed.matrix("A", "m", "n") @ ed.vector("x", "m")
    Traceback (most recent call last):
        ...
    eindiff.EindiffError: A @ x: the last axis of A (m×n) has size n, but the axis of x (m) it meets has size m
    """

    __module__ = "eindiff"  # where people find it


def shape_text(shape: tuple) -> str:
    """A shape as people write it: `m×n`, `n`, or `scalar`.

    >>> shape_text(("m", 3))
    'm×3'
    """
    return "×".join(str(size) for size in shape) if shape else "scalar"


def count_text(number: float) -> str:
    """A large number as people say it.

    >>> count_text(1_500_000)
    '1.5 M'
    """
    for unit, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{number:.0f}"


def bytes_text(number: float) -> str:
    """A number of bytes.

    >>> bytes_text(800), bytes_text(8e8)
    ('800 B', '800 MB')
    """
    return f"{count_text(number)}B" if number >= 1000 else f"{number:.0f} B"
