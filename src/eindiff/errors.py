"""The one exception type of the package."""

from __future__ import annotations


class EindiffError(ValueError):
    """Something in the user's input cannot be done; the message says what, where, and with which shapes.

    >>> import eindiff as ed
    >>> ed.matrix("A", "m", "n") @ ed.vector("x", "m")
    Traceback (most recent call last):
        ...
    eindiff.errors.EindiffError: A @ x: the last axis of A (m×n) has size n, but the axis of x (m) it meets has size m
    """


def shape_text(shape: tuple) -> str:
    """A shape as people write it: `m×n`, `n`, or `scalar`.

    >>> shape_text(("m", 3))
    'm×3'
    """
    return "×".join(str(size) for size in shape) if shape else "scalar"
