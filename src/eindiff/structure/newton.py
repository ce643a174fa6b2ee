"""Newton steps: the system of the gradient and the structured Hessian, solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from eindiff.calculus.derive import gradient, hessian
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.program.interpreter import as_tuples
from eindiff.structure.compile import compile, named_arrays
from eindiff.structure.derivative import Derivative
from eindiff.structure.eliminated import Eliminated
from eindiff.structure.results import Composite
from eindiff.structure.solvers.solver import UnreliableError

AUTO = "auto"
SMALLEST_DAMPING = 1e-8  # the smallest damping that is tried, relative to the largest diagonal entry
GROWTH = 10.0


@dataclass(frozen=True, slots=True)
class Step:
    """A Newton step: `(H + damping I) step = -gradient`.

    >>> x = ed.vector("x", "n")
    >>> step = ed.newton_step(ed.sum(ed.exp(x) - 2 * x), x, {"x": np.zeros(2)})
    >>> step.step, step.damping, step.decrease
    (array([1., 1.]), 0.0, 1.0)

    See also: `newton_step`.
    """

    step: Any  # an array in the shape of the variable, or a list of them
    damping: float
    gradient: Any
    hessian: Derivative

    @property
    def decrease(self) -> float:
        """How much the quadratic model falls along the step; half of the squared Newton decrement."""
        return -_inner(self.gradient, self.step) - _inner(self.hessian.mv(self.step), self.step) / 2


@dataclass(frozen=True, slots=True)
class NewtonStep(Composite):
    """A Newton step that is not computed yet: `ed.compile` makes it a function of arrays.

    >>> x = ed.vector("x", "n")
    >>> f = ed.compile(ed.newton_step(ed.sum(ed.exp(x) - 2 * x), x))
    >>> f(x=np.zeros(2)).step
    array([1., 1.])

    See also: `newton_step`, `Step`.
    """

    gradient: Any  # an expression, or a tuple of them
    hessian: Any  # an expression, or a tuple of rows of them
    damping: float | str = 0.0
    kept: int | None = None  # variables that the step is by; all others of the Hessian are eliminated

    @property
    def parts(self) -> tuple[tuple[Any, str], ...]:
        """The gradient as an array, and the Hessian as an operator."""
        return (self.gradient, "dense"), (self.hessian, "structured")

    @property
    def key(self) -> tuple:
        """The damping, and how many variables the step is by."""
        return self.damping, self.kept

    def combined(self, gradient: Any, hessian: Derivative) -> Step:
        """The step for the values of gradient and Hessian."""
        hessian = hessian if self.kept is None else Eliminated(hessian, self.kept)
        right = [-g for g in gradient] if isinstance(gradient, list) else -np.asarray(gradient)
        if isinstance(self.damping, str):
            damping = sufficient_damping(hessian)
        else:
            damping = self.damping
            if not _is_definite(hessian, damping):
                added = f" with damping {damping:g}" if damping else ""
                raise EindiffError(
                    f"the Hessian{added} is singular or not positive definite here, so the Newton step may go uphill: "
                    'damping="auto" adds as much of the identity as is needed',
                    "systems",
                )
        return Step(hessian.solve(right, damping), damping, gradient, hessian)


def newton_step(
    f: Expr, x: Any, arrays: Mapping[str, Any] | None = None, damping: float | str = 0.0
) -> Step | NewtonStep:
    """The Newton step of a function, `-(H + damping I)^-1 gradient`, solved through the structure of the Hessian.

    With `arrays` for the variables it is computed; without, it is what `ed.compile` takes as an output. `x` is a
    variable or a list of them. A system that is singular or not positive definite is an error; with `damping="auto"` it
    gets the damping that it needs, and the step says how much that was.

    Args:
        f: a scalar expression
        x: a variable, its name, or a list of them
        arrays: arrays by the names of the variables
        damping: what is added to the diagonal: a number, or `auto`

    >>> import numpy as np
    >>> import eindiff as ed
    >>> x, c = ed.vector("x", "n"), ed.vector("c", "n")
    >>> ed.newton_step(ed.sum(ed.exp(x) - c * x), x, {"x": np.zeros(2), "c": np.array([2.0, 3.0])}).step
    array([1., 2.])

    See also: `newton`, `structured`, `compile`.
    """
    if isinstance(damping, str) and damping != AUTO:
        raise EindiffError(f"damping={damping!r}: give a number, or 'auto'", "options")
    if not isinstance(damping, str) and (not isinstance(damping, Real) or not 0 <= damping < np.inf):
        raise EindiffError(
            f"damping={damping!r}: it must be a finite number that is not negative, or 'auto'", "options"
        )
    if not isinstance(f, Expr):
        raise EindiffError(f"newton_step needs an expression to go down, not {f!r}", "options")
    request = NewtonStep(as_tuples(gradient(f, x)), as_tuples(hessian(f, x)), damping)
    if arrays is None:
        return request
    return compile(request)(**named_arrays(arrays))


def sufficient_damping(hessian: Derivative) -> float:
    """The smallest of 0, 1e-8, 1e-7, ... times the largest diagonal entry that makes a Hessian positive definite."""
    if _is_definite(hessian, 0.0):
        return 0.0
    scale = max((float(np.abs(d).max(initial=0.0)) for d in _list(hessian.diagonal())), default=0.0) or 1.0
    damping = SMALLEST_DAMPING * scale
    while not _is_definite(hessian, damping):
        damping *= GROWTH
        if not np.isfinite(damping):
            raise EindiffError("no damping makes the Hessian positive definite: it has infinite entries", "domain")
    return damping


def _is_definite(hessian: Derivative, damping: float) -> bool:
    if not hessian.terms and not damping:
        return False
    try:
        return hessian.is_definite(damping)
    except UnreliableError:
        return False


def _inner(one: Any, other: Any) -> float:
    return sum(float(np.vdot(a, b)) for a, b in zip(_list(one), _list(other), strict=True))


def _list(value: Any) -> list:
    return value if isinstance(value, list) else [value]
