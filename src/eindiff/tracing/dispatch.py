"""Derivatives as people ask for them: of expressions or of Python functions, and in the mode that costs least."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from eindiff.calculus import derive
from eindiff.calculus.derive import MODES, Several, Wrt
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr

if TYPE_CHECKING:
    from eindiff.tracing.numpy.derivatives import DerivativeOfFunction


def derivative(
    y: Expr, *xs: Expr | str, mode: str = "auto", symmetric: str = "projected", sizes: Mapping[str, int] | None = None
) -> Expr:
    """The derivative of y by each of xs in turn: the axes of y first, then those of each variable.

    `mode` is how the chain rule is multiplied out: `reverse` from y to x, `forward` from x to y, `cross_country`
    in order of increasing tensor order, and `auto` leaves the order to the planner; with `sizes` it takes the mode that
    costs least at these sizes. All give the same values.
    For a symmetric variable the derivative is `projected` (made symmetric), or by the `free` entries.

    >>> from eindiff import vector, matrix
    >>> x, A = vector("x", "n"), matrix("A", "m", "n")
    >>> derivative(A @ x, x) == A
    True
    """
    if mode != "auto" or sizes is None:
        return derive.derivative(y, *xs, mode=mode, symmetric=symmetric)
    from eindiff.program.plan import plan  # for start-up time: it needs all that writes source

    candidates = [derive.derivative(y, *xs, mode=one, symmetric=symmetric) for one in MODES]
    return min(candidates, key=lambda candidate: plan(candidate, sizes).seconds)


def _of_function(kind: str, f: Any, x: Any, mode: str, options: Mapping[str, Any]) -> Any:
    """The derivative of a Python function of arrays, as a function of arrays; None if f is an expression."""
    if callable(f):
        from eindiff.tracing.numpy.derivatives import DerivativeOfFunction  # for start-up time

        return DerivativeOfFunction(kind, f, **({} if x is None else {"argnums": x}), mode=mode, **options)
    if options or x is None:
        raise EindiffError(f"{kind} of an expression is by a variable or a list of them, not by {options or None}")
    return None


@overload
def gradient(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def gradient(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def gradient(f: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def gradient(f: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The gradient of a scalar function; a list of variables gives a list, from one reverse sweep.

    Of a Python function of NumPy arrays it is a function of the same arguments: `argnums` says by which of them, as
    places or names.
    """
    if (function := _of_function("gradient", f, x, mode, options)) is not None:
        return function
    return derive.gradient(f, x, mode, symmetric)


@overload
def jacobian(y: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def jacobian(y: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def jacobian(y: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def jacobian(y: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The derivative of y by x, or by each of a list of variables.

    Of a Python function it is a function, as for `gradient`.
    """
    if (function := _of_function("jacobian", y, x, mode, options)) is not None:
        return function
    return derive.jacobian(y, x, mode, symmetric)


@overload
def hessian(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def hessian(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def hessian(f: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def hessian(f: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The second derivative of f by x; a list of variables gives the blocks, cross blocks included.

    Of a Python function it is a function, as for `gradient`; with `structured=True` that gives a `Derivative`.
    """
    if (function := _of_function("hessian", f, x, mode, options)) is not None:
        return function
    return derive.hessian(f, x, mode, symmetric)
