"""Variables of each shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import INDICES, Variable
from eindiff.core.sizes import Size


def scalar(name: str, *properties: str) -> Variable:
    """A scalar variable.

    Args:
        name: what it is called in formulas, texts and programs
        *properties: `positive`, if it is

    >>> ed.scalar("c", "positive") ** 2
    c*c

    See also: `vector`, `matrix`, `tensor`.
    """
    return construct.variable(name, (), properties)


def vector(name: str, n: Size, *properties: str) -> Variable:
    """A vector variable: `vector("x", "n")`, or `vector("x", 3, "positive")`.

    Args:
        name: what it is called in formulas, texts and programs
        n: its size: a name or a number
        *properties: `positive`, if its entries are

    >>> ed.vector("x", "n").shape
    ('n',)

    See also: `scalar`, `matrix`, `symmetric`, `tensor`, `indices`.
    """
    return construct.variable(name, (n,), properties)


def matrix(name: str, m: Size, n: Size, *properties: str) -> Variable:
    """A matrix variable: `matrix("A", "m", "n")`, or `matrix("Q", 3, 3, "orthogonal")`.

    Args:
        name: what it is called in formulas, texts and programs
        m, n: its sizes: names or numbers
        *properties: words that hold of its entries or of it: `positive`, `symmetric`, `psd`, `orthogonal`,
            `permutation`, `diagonal`, `tridiagonal`, `banded`, `lower` or `upper` (triangular), and `unit` besides
            (ones on the diagonal)

    >>> ed.matrix("A", "m", 3).shape
    ('m', 3)

    See also: `symmetric`, `vector`, `tensor`.
    """
    return construct.variable(name, (m, n), properties)


def symmetric(name: str, n: Size, *properties: str) -> Variable:
    """A symmetric matrix variable: `symmetric("S", "n")`, or `symmetric("S", "n", "psd")`.

    Args:
        name: what it is called in formulas, texts and programs
        n: its size: a name or a number
        *properties: `psd`, `positive` or `orthogonal`, if it is

    >>> S = ed.symmetric("S", "n")
    >>> S.T is S
    True

    See also: `matrix`, `gradient`.
    """
    return construct.variable(name, (n, n), ("symmetric", *properties))


def indices(name: str, *shape: Size, into: Size) -> Variable:
    """An array of indices, whose values come when it is used: `g = indices("g", "m", into="n")`, then `x[g]`.

    They are whole numbers from 0 on, below the size of the axis that they are indices of.

    Args:
        name: what it is called in formulas, texts and programs
        *shape: its sizes: names or numbers
        into: the size of the axis that they are indices of

    >>> import eindiff as ed
    >>> u, g = ed.vector("u", "n"), ed.indices("g", "m", into="n")
    >>> ed.evaluate(ed.gradient(ed.sum(u[g] ** 2), u), {"u": [1.0, 2.0, 3.0], "g": [2, 0, 2]})
    array([ 2.,  0., 12.])

    See also: `take`.
    """
    size = sz.read(into)
    if isinstance(size, int) and size < 1:
        raise EindiffError(f"indices {name}: into={into!r} is no size of an axis that has entries", "names")
    return construct.variable(name, shape, (f"{INDICES}{size}",))


def tensor(name: str, *shape: Any) -> Variable:
    """A tensor variable of any order: `tensor("T", "l", "m", "n")`, `tensor("T", 2, 3, 4, "positive")`.

    The sizes may also come as one tuple, `tensor("T", ("l", "m", "n"), "positive")`; words that are properties stand
    behind the sizes, so a size that is called like one needs the tuple.

    Args:
        name: what it is called in formulas, texts and programs
        *shape: sizes, names or numbers, and properties behind them

    >>> ed.tensor("T", "l", "m", 4).shape
    ('l', 'm', 4)

    See also: `scalar`, `vector`, `matrix`.
    """
    if shape and isinstance(shape[0], Sequence) and not isinstance(shape[0], str):
        return construct.variable(name, tuple(shape[0]), shape[1:])
    words = [isinstance(size, str) and size in construct.PROPERTIES for size in shape]
    count = words.index(True) if True in words else len(shape)
    return construct.variable(name, shape[:count], shape[count:])
