"""Expressions as a Python module that needs only NumPy, and SciPy where a function does: what a user exports.

The source is meant to be read: sizes have their names, shared subexpressions theirs, and products are written with `@`,
`*` and broadcasting as a person would write them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.program.write.module import Module, Outputs
from eindiff.program.write.script import Script


def to_source(outputs: Outputs, name: str = "f", sizes: Mapping[str, int] | None = None) -> str:
    """A module with one function of the variables (in order of their names) that gives the outputs.

    `outputs` is an expression, or a dictionary of names and expressions, which the function gives as a tuple. It works
    for all sizes. With typical `sizes` it is made to be fast for these, as by `compile`; without, to be read.

    Args:
        outputs: an expression, or a dictionary of names and expressions
        name: what the function is called
        sizes: typical sizes by name

    >>> import eindiff as ed
    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> print(ed.to_source(A @ x))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(A, x):
        m, n = A.shape
        assert x.shape == (n,), f"x must have shape ({n},), not {x.shape}"
        return A @ x
    <BLANKLINE>

    See also: `to_script`, `compile`, `to_text`.
    """
    module = Module(outputs, name)
    if sizes is None:
        return module.source()
    if missing := sorted(module.size_names - set(sizes)):
        raise EindiffError(f"to_source needs all sizes or none: {', '.join(missing)} is missing", "sizes")
    return module.program(sizes).source


def to_script(
    expr: Expr, wrt: Expr | str | Sequence[Expr | str], order: int = 2, name: str = "f",
    sizes: Mapping[str, int] | None = None, mode: str = "auto", seed: int = 0,
) -> str:  # fmt: skip
    """A module with a function that gives the value and all derivatives up to an order, and a check to run.

    Run as a script it compares each derivative with finite differences of the one below it at a random point in the
    domain, prints the relative errors, and exits with status 1 if one is above 1e-5. `sizes` are those of the check.

    Args:
        expr: a scalar expression
        wrt: a variable, its name, or a list of them
        order: the highest order
        name: what the function is called
        sizes: sizes of the check, by name
        mode: as for `derivative`
        seed: for the point of the check

    >>> x = ed.vector("x", "n")
    >>> script = ed.to_script(ed.sum(ed.exp(x)), x)
    >>> "def f(x):" in script
    True

    See also: `to_source`, `check`.
    """
    return Script(expr, wrt, order, name, sizes or {}, mode, seed).source()
