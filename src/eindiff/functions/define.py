"""Functions of the user's own, which are rows of the table like all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from eindiff.core.errors import EindiffError
from eindiff.functions.table import TABLE, Elementwise, elementwise, remove

_DEFINED: set[str] = set()


def forget() -> None:
    """Take all functions of users out of the table."""
    while _DEFINED:
        remove(TABLE[_DEFINED.pop()])


def define(
    name: str,
    source: str,
    derivative: Elementwise,
    domain: str = "real",
    value: Callable[[Any], Any] | None = None,
    others: Mapping[str, str] | None = None,
) -> Elementwise:
    """Add an elementwise function of your own; it is then known in text, to all libraries, and in programs.

    A function that is made of others needs none of this: write a Python function of expressions.

    Args:
        name: what it is called; a name that was defined before gets the new meaning
        source: how NumPy writes it, with `{0}` for its argument; `np.` becomes `jnp.`, `torch.` and so on elsewhere,
            and `special.` is SciPy's
        derivative: a function from the argument to the derivative there, both expressions; it may use the function
            itself, by the name that the result is given
        domain: where it is defined: "real", "positive", "nonzero", "above 1" or "between -1 and 1"
        value: computes it for arrays of NumPy, where that is not what `source` says
        others: how libraries write it that do not know the words of NumPy, for instance
            `{"torch": "torch.special.i0({0})"}`

    Returns:
        The function of expressions.

    >>> bump = ed.define("bump", "np.exp(-({0}) ** 2)", lambda x: -2 * x * bump(x))
    >>> x = ed.vector("x", "n")
    >>> ed.gradient(ed.sum(ed.bump(x)), x)
    -2*x*bump(x)
    >>> ed.check(ed.parse("sum(bump(2*x))"), "x").passed
    True

    See also: `check`, `parse`.
    """
    if not name.isidentifier() or (name not in _DEFINED and (name in TABLE or name in sys.modules["eindiff"].__all__)):
        why = "is a name that has a meaning already" if name.isidentifier() else "is no name"
        raise EindiffError(f"define: {name!r} {why}; choose another one", "names")
    if "{0}" not in source:
        raise EindiffError(f"define {name}: write {{0}} for the argument in its source, not {source!r}", "options")
    if name in _DEFINED:
        remove(TABLE[name])
    _DEFINED.add(name)
    return elementwise(name, source, derivative, f"The function {name} of a user.", value, others, domain=domain)
