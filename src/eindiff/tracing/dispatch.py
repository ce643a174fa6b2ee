"""Derivatives as people ask for them: of expressions or of Python functions, and in the mode that costs least."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from eindiff.calculus import derive
from eindiff.calculus.derive import MODES, Several, Wrt
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr
from eindiff.core.shown import Blocks

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

    Args:
        y: an expression of any shape
        *xs: variables, or their names; one that is there twice is differentiated by twice
        mode: how the chain rule is multiplied out. `auto` leaves the order of products to the planner, and is
            right nearly always; `reverse` goes from the function to the variable, `forward` the other way,
            `cross_country` multiplies what gives tensors of low order first. All give the same values.
        symmetric: by a variable that was declared symmetric: `projected` makes the derivative symmetric, `free`
            is by the free entries, as the Matrix Cookbook has it.
        sizes: sizes by name: `auto` then takes the mode that costs least at these

    >>> x, A = ed.vector("x", "n"), ed.matrix("A", "m", "n")
    >>> ed.derivative(A @ x, x) == A
    True

    See also: `gradient`, `jacobian`, `hessian`, `check`.
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
        raise EindiffError(
            f"{kind} of an expression is by a variable or a list of them, not by {options or None}", "options"
        )
    return None


def _shown(found: Any) -> Any:
    """A list of derivatives as one that notebooks show typeset."""
    return Blocks(found) if isinstance(found, list) else found


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

    Args:
        f: a scalar expression, or a Python function of NumPy arrays
        x: a variable, its name, or a list of them; for a function: places or names of arguments (the first)
        mode: how the chain rule is multiplied out. `auto` leaves the order of products to the planner, and is
            right nearly always; `reverse` goes from the function to the variable, `forward` the other way,
            `cross_country` multiplies what gives tensors of low order first. All give the same values.
        symmetric: by a variable that was declared symmetric: `projected` makes the derivative symmetric, `free`
            is by the free entries, as the Matrix Cookbook has it.
        **options: for functions: `argnums`, `structured`, `has_aux`, `verify`

    Returns:
        an expression in the shape of x, or a list of them; for a function a function of the same arguments

    >>> A, x, b = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("b", "m")
    >>> print(ed.to_text(ed.gradient(ed.norm2(A @ x - b) ** 2, x)))
    2*A'*(A*x - b)
    >>> ed.gradient(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([ 3., 12.])

    See also: `hessian`, `jacobian`, `derivative`, `check`.
    """
    if (function := _of_function("gradient", f, x, mode, options)) is not None:
        return function
    return _shown(derive.gradient(f, x, mode, symmetric))


@overload
def jacobian(y: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def jacobian(y: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def jacobian(y: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def jacobian(y: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The derivative of y by x, or by each of a list of variables.

    Of a Python function it is a function, as for `gradient`.

    Args:
        y: an expression, or a Python function of NumPy arrays
        x: a variable, its name, or a list of them; for a function: places or names of arguments (the first)
        mode: how the chain rule is multiplied out. `auto` leaves the order of products to the planner, and is
            right nearly always; `reverse` goes from the function to the variable, `forward` the other way,
            `cross_country` multiplies what gives tensors of low order first. All give the same values.
        symmetric: by a variable that was declared symmetric: `projected` makes the derivative symmetric, `free`
            is by the free entries, as the Matrix Cookbook has it.
        **options: for functions: `argnums`, `structured`, `has_aux`, `verify`

    Returns:
        an expression with the axes of y, then those of x, or a list of them; for a function a function

    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> print(ed.to_text(ed.jacobian(ed.exp(A @ x), x)))
    diag(exp(A*x))*A

    See also: `gradient`, `derivative`, `jvp`, `vjp`.
    """
    if (function := _of_function("jacobian", y, x, mode, options)) is not None:
        return function
    return _shown(derive.jacobian(y, x, mode, symmetric))


@overload
def hessian(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def hessian(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def hessian(f: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def hessian(f: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The second derivative of f by x; a list of variables gives the blocks, cross blocks included.

    Of a Python function it is a function, as for `gradient`; with `structured=True` that gives a `Derivative`.

    Args:
        f: a scalar expression, or a Python function of NumPy arrays
        x: a variable, its name, or a list of them; for a function: places or names of arguments (the first)
        mode: how the chain rule is multiplied out. `auto` leaves the order of products to the planner, and is
            right nearly always; `reverse` goes from the function to the variable, `forward` the other way,
            `cross_country` multiplies what gives tensors of low order first. All give the same values.
        symmetric: by a variable that was declared symmetric: `projected` makes the derivative symmetric, `free`
            is by the free entries, as the Matrix Cookbook has it.
        **options: for functions: `argnums`, `structured`, `has_aux`, `verify`. With `structured=True` values
            are `Derivative`s

    Returns:
        an expression with the axes of x twice, or a list of rows of blocks; for a function a function of the same
        arguments

    >>> X, w = ed.matrix("X", "m", "n"), ed.vector("w", "n")
    >>> print(ed.to_text(ed.hessian(ed.sum(ed.exp(X @ w)), w)))
    X'*diag(exp(X*w))*X
    >>> [[block.shape for block in row] for row in ed.hessian(ed.sum(ed.exp(X @ w)), [w, X])][0]
    [('n', 'n'), ('n', 'm', 'n')]
    >>> ed.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])

    See also: `gradient`, `hvp`, `hessian_diagonal`, `structured`, `newton_step`, `check`.
    """
    if (function := _of_function("hessian", f, x, mode, options)) is not None:
        return function
    return _shown(derive.hessian(f, x, mode, symmetric))
