"""The derivation of a derivative as people ask for it."""

from __future__ import annotations

from eindiff.core.nodes import Expr
from eindiff.core.shown import Shown
from eindiff.text.steps import Chapter, derivation, to_text


class Steps(Shown, list[Chapter]):
    """A derivation, one theorem of the chain rule after the other: text where it is printed, typeset in a notebook.

    >>> x = ed.vector("x", "n")
    >>> str(ed.steps(ed.sum(x**3), x)).splitlines()[3]
    '  1. Theorem 8, pullback of a multiplication'

    See also: `steps`.
    """

    __module__ = "eindiff"

    def __repr__(self) -> str:
        return to_text(self, style="unicode")

    def __str__(self) -> str:
        return to_text(self)


def steps(y: Expr, *xs: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Steps:
    """How the derivative of y by each of xs in turn comes about, step by step.

    Args:
        y: an expression of any shape
        *xs: variables, or their names; one that is there twice is differentiated by twice
        mode: how the chain rule is multiplied out, as for `derivative`
        symmetric: what a derivative by a symmetric variable is, as for `derivative`

    >>> x = ed.vector("x", "n")
    >>> print(ed.steps(ed.sum(x**3), x))
    Derivative of f by x, in reverse: vbar is the derivative of f by v
      v1 = x.^3
      f  = sum(v1)
      1. Theorem 8, pullback of a multiplication
         C = A *_(s1, s2, s3) B:  Abar = Cbar *_(s4 s3, s2, s4 s1) B
         f adds up entries of v1: each of them counts once.
         vbar1 = ones(n)
      2. Theorem 10, pullback of an elementwise function
         C = f(A), entry by entry:  Abar = Cbar *_(s2 s1, s1, s2 s1) f'(A)
         v1 is the power of each entry of x: multiply by the derivative of the power, entry by entry.
         df/dx = 3*vbar1 .* x.^2
               = 3*x.^2

    See also: `derivative`, `check`, `to_text`.
    """
    return Steps(derivation(y, *xs, mode=mode, symmetric=symmetric))
