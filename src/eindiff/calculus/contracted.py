"""Contractions of derivatives, which are never formed: products with directions, diagonals and traces; and cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from eindiff.calculus.chain_rule import depends, pullbacks, pushforwards, unit
from eindiff.calculus.derive import (
    Several,
    Wrt,
    check_scalar,
    derivative,
    find_variable,
    finished,
    project,
    pulled,
    pushed,
)  # fmt: skip
from eindiff.calculus.kinks import chain
from eindiff.core import construct
from eindiff.core.construct import add, einsum
from eindiff.core.derivation import made_of
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr, expression, plain, topological


def _direction(operation: str, v: Expr | str, shape: tuple) -> Expr:
    if isinstance(v, str):
        return construct.variable(v, shape)
    if expression(v).shape != shape:
        raise EindiffError(
            f"{operation}: the direction {v} has shape {shape_text(v.shape)}, it must be {shape_text(shape)}",
            "shapes",
        )
    return v


def jvp(y: Expr, x: Expr | str, v: Expr | str) -> Expr:
    """The derivative of y by x in direction v: forward mode started with ẋ = v.

    Args:
        y: an expression
        x: a variable, or its name
        v: a direction: an expression in the shape of x, or a name for one

    >>> A, x, v = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("v", "n")
    >>> print(ed.to_text(ed.jvp(ed.exp(A @ x), x, v)))
    (A*v) .* exp(A*x)

    See also: `vjp`, `hvp`, `jacobian`.
    """
    x = find_variable(y, x)
    v = _direction("jvp", v, x.shape)
    v = project(v, x, "projected")
    result = pushed(y, x, v)
    return made_of(construct.filled(0, y.shape) if result is None else finished([result])[0], y, v)


def vjp(y: Expr, x: Expr | str, u: Expr | str) -> Expr:
    """The derivative by x of the inner product of y with u: reverse mode started with ȳ = u.

    Args:
        y: an expression
        x: a variable, or its name
        u: weights: an expression in the shape of y, or a name for one

    >>> A, x, u = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("u", "m")
    >>> print(ed.to_text(ed.vjp(ed.exp(A @ x), x, u)))
    A'*(u .* exp(A*x))

    See also: `jvp`, `gradient`.
    """
    x = find_variable(y, x)
    weights = _direction("vjp", u, y.shape)
    [result] = pulled(y, [x], weights)
    if result is None:
        return made_of(construct.filled(0, x.shape), y, weights)
    return made_of(finished([project(result, x, "projected")])[0], y, weights)


def hvp(f: Expr, x: Expr | str, v: Expr | str) -> Expr:
    """The Hessian times a direction, at the cost of a few gradients.

    Args:
        f: a scalar expression
        x: a variable, or its name
        v: a direction: an expression in the shape of x, or a name for one

    >>> X, w, v = ed.matrix("X", "m", "n"), ed.vector("w", "n"), ed.vector("v", "n")
    >>> print(ed.to_text(ed.hvp(ed.sum(ed.exp(X @ w)), w, v)))
    X'*(exp(X*w) .* (X*v))

    See also: `hessian`, `quadratic_form`, `jvp`.
    """
    check_scalar("hvp", f)
    x = find_variable(f, x)
    return jvp(derivative(f, x), x, v)


def quadratic_form(f: Expr, x: Expr | str, v: Expr | str) -> Expr:
    """`v'Hv`: the second derivative along a direction.

    Args:
        f: a scalar expression
        x: a variable, or its name
        v: a direction: an expression in the shape of x, or a name for one

    >>> X, w, v = ed.matrix("X", "m", "n"), ed.vector("w", "n"), ed.vector("v", "n")
    >>> print(ed.to_text(ed.quadratic_form(ed.sum(w**3), w, v)))
    6*sum(v.^2 .* w)

    See also: `hvp`.
    """
    check_scalar("quadratic_form", f)
    x = find_variable(f, x)
    v = _direction("quadratic_form", v, x.shape)
    return jvp(jvp(f, x, v), x, v)


@overload
def hessian_diagonal(f: Expr, x: Expr | str) -> Expr: ...


@overload
def hessian_diagonal(f: Expr, x: Several) -> list: ...


def hessian_diagonal(f: Expr, x: Wrt) -> Any:
    """The diagonal of the Hessian, in the shape of x. The Hessian itself is never formed.

    Args:
        f: a scalar expression
        x: a variable, or its name; a list of them gives the diagonal by each

    >>> X, w, v = ed.matrix("X", "m", "n"), ed.vector("w", "n"), ed.vector("v", "n")
    >>> print(ed.to_text(ed.hessian_diagonal(ed.sum(ed.exp(X @ w)), w)))
    X'.^2*exp(X*w)

    See also: `hessian`, `laplacian`.
    """
    check_scalar("hessian_diagonal", f)
    if isinstance(x, list | tuple):
        return [hessian_diagonal(f, one) for one in x]
    x = find_variable(f, x)
    h = derivative(f, x, x)
    labels = tuple(range(x.ndim))
    return made_of(einsum(1, [(h, labels + labels)], labels, dict(enumerate(x.shape))), f)


def cut(y: Expr, x: Expr | str, nodes: Sequence[Expr]) -> Expr:
    """`∂y/∂x = Σ_v v̄ *_(s1 sv, sv s2, s1 s2) v̇` over the nodes of a cut between x and y (section 3.3).

    Args:
        y: an expression
        x: a variable, or its name
        nodes: parts of y such that every way from y to x goes through just one of them

    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> y = ed.sum(ed.exp(A @ x))
    >>> ed.cut(y, x, [A @ x]) == ed.gradient(y, x)
    True

    See also: `derivative`.
    """
    y, x, nodes = plain(y), find_variable(y, x), [plain(node) for node in nodes]
    _check_cut(y, x, nodes)
    bars = pullbacks(y, nodes, unit(y))
    terms = []
    for node in dict.fromkeys(nodes):
        if node in bars and (dot := pushforwards(node, x, unit(x)).get(node)) is not None:
            terms.append(chain(bars[node], dot, y.ndim))
    return project(add(terms), x, "projected") if terms else construct.filled(0, y.shape + x.shape)


def _check_cut(y: Expr, x: Expr, nodes: Sequence[Expr]) -> None:
    """Every path from x to y must pass through exactly one node of the cut."""
    order, active = depends([y], [x])
    if missing := [node for node in nodes if node not in order]:
        raise EindiffError(f"cut: {missing[0]} is not part of {y}", "options")
    for node in nodes:
        if any(other is not node and other in topological([node]) for other in nodes if other in active):
            raise EindiffError(f"cut: {node} depends on another node of the cut", "options")
    reached, chosen = set(), set(nodes)
    for node in order:
        if node not in chosen and node in active and (node is x or any(c in reached for c in node.children)):
            reached.add(node)
    if y in reached:
        raise EindiffError(f"cut: a path from {x} to {y} passes through none of the nodes", "options")
