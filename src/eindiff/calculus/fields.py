"""Differential operators: constant contractions of derivatives by a point, which are never formed.

A function of points may have a batch of them: then its first axes, and those of the points, are the batch, and every
value is differentiated by its own point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eindiff.calculus.contracted import jvp
from eindiff.calculus.derive import derivative, find_variable, finished
from eindiff.calculus.second_order import SecondOrder
from eindiff.core import construct
from eindiff.core.construct import einsum
from eindiff.core.derivation import made_of
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.networks import Factor
from eindiff.core.nodes import Expr, expression, plain


def laplacian(f: Expr, x: Expr | str, batch: int = 0) -> Expr:
    """The sum of the second derivatives by each entry of x: the trace of the Hessian, of each entry of f.

    Args:
        f: an expression; of several entries, each
        x: a variable, the point (or the points), or its name
        batch: how many first axes of f and x count points, each of which is differentiated by itself

    >>> x = ed.vector("x", "n")
    >>> print(ed.to_text(ed.laplacian(ed.sum(x**3), x)))
    6*sum(x)

    See also: `biharmonic`, `hessian_diagonal`, `operator`.
    """
    return _contracted(f, x, 2, None, batch)


def biharmonic(f: Expr, x: Expr | str, batch: int = 0) -> Expr:
    """The Laplacian of the Laplacian.

    Args:
        f: an expression; of several entries, each
        x: a variable, the point (or the points), or its name
        batch: how many first axes of f and x count points, each of which is differentiated by itself

    >>> x = ed.vector("x", "n")
    >>> print(ed.to_text(ed.biharmonic(ed.sum(x**5), x)))
    120*sum(x)

    See also: `laplacian`.
    """
    return laplacian(laplacian(f, x, batch), x, batch)


def divergence(f: Expr, x: Expr | str, batch: int = 0) -> Expr:
    """The trace of the Jacobian of a field: the last axes of f are those of a point.

    Args:
        f: an expression, the field
        x: a variable, the point (or the points), or its name
        batch: how many first axes of f and x count points, each of which is differentiated by itself

    >>> x, A = ed.vector("x", "n"), ed.matrix("A", "n", "n")
    >>> ed.divergence(A @ x, x) == ed.tr(A)
    True

    See also: `curl`, `laplacian`.
    """
    x = find_variable(f, x)
    own = x.ndim - batch
    if f.shape[f.ndim - own :] != x.shape[batch:]:
        raise EindiffError(
            f"divergence: the last axes of the field ({shape_text(f.shape)}) must be those of a point "
            f"({shape_text(x.shape[batch:])})",
            "shapes",
        )
    labels = _Labels(f, x, batch)
    point = labels.result[f.ndim - own :]
    return labels.taken(derivative(f, x), [point], labels.result[: f.ndim - own])


def curl(f: Expr, x: Expr | str, batch: int = 0) -> Expr:
    """The rotation of a field in three dimensions, a vector of each point.

    Args:
        f: an expression with 3 entries on its last axis, the field
        x: a variable, the point (or the points), or its name
        batch: how many first axes of f and x count points, each of which is differentiated by itself

    >>> x = ed.vector("x", 3)
    >>> field = ed.stack([-x[1], x[0], x[2]])
    >>> float(ed.evaluate(ed.curl(field, x), {"x": np.ones(3)})[2])
    2.0

    See also: `divergence`.
    """
    x = find_variable(f, x)
    if x.shape[batch:] != (3,) or f.shape[-1:] != (3,):
        raise EindiffError(f"curl is of a field with 3 entries by points with 3, not {shape_text(f.shape)}", "shapes")
    labels = _Labels(f, x, batch)
    epsilon = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        epsilon[i, j, k], epsilon[i, k, j] = 1, -1
    axis, entry = labels.fresh(3), labels.fresh(3)
    tensor = (construct.constant(epsilon), (axis, entry, labels.result[-1]))
    return labels.taken(derivative(f, x), [(entry,)], (*labels.result[:-1], axis), [tensor])


def directional(f: Expr, x: Expr | str, v: Any, order: int = 1) -> Expr:
    """The derivative of some order along one direction: `d^k f(x + t v) / dt^k` at t = 0.

    Args:
        f: an expression; of several entries, each
        x: a variable, the point (or the points), or its name
        v: the direction, an array or an expression in the shape of x, or the name of a new variable
        order: how often f is differentiated along it

    >>> x, v = ed.vector("x", "n"), ed.vector("v", "n")
    >>> print(ed.to_text(ed.directional(ed.sum(x**2), x, v, order=2)))
    2*v'*v

    See also: `jvp`, `quadratic_form`, `operator`.
    """
    if not isinstance(order, int) or order < 0:
        raise EindiffError(f"directional: the order is a number of derivatives, not {order!r}", "options")
    x = find_variable(f, x)
    v = v if isinstance(v, Expr | str) else construct.constant(v)
    for _ in range(order):
        f = jvp(f, x, v)
    return f


def operator(f: Expr, x: Expr | str, coefficients: Any, batch: int = 0) -> Expr:
    """A constant contraction of a derivative: `Σ C_ij ∂²f/∂x_i∂x_j` for a matrix C, for any order.

    Args:
        f: an expression; of several entries, each
        x: a variable, the point (or the points), or its name
        coefficients: an array or an expression, with the axes of a point once for each derivative
        batch: how many first axes of f and x count points, each of which is differentiated by itself

    >>> x = ed.vector("x", 2)
    >>> mixed = ed.operator(x[0] ** 2 * x[1], x, [[0, 1], [0, 0]])
    >>> float(ed.evaluate(mixed, {"x": np.array([3.0, 1.0])}))
    6.0

    See also: `laplacian`, `directional`.
    """
    x = find_variable(f, x)
    weights = coefficients if isinstance(coefficients, Expr) else construct.constant(np.asarray(coefficients, float))
    own = x.shape[batch:]
    order, rest = divmod(weights.ndim, len(own)) if own else (0, weights.ndim)
    if rest or not order or weights.shape != own * order:
        raise EindiffError(
            f"operator: the coefficients ({shape_text(weights.shape)}) must have the axes of a point "
            f"({shape_text(own)}) once for each derivative",
            "shapes",
        )
    return _contracted(f, x, order, weights, batch)


class _Labels:
    """The labels of a derivative: those of the function, and of points, which share the batch."""

    def __init__(self, f: Expr, x: Expr, batch: int) -> None:
        if not 0 <= batch <= min(f.ndim, x.ndim) or f.shape[:batch] != x.shape[:batch]:
            raise EindiffError(
                f"batch={batch}: the function ({shape_text(f.shape)}) and the points ({shape_text(x.shape)}) must "
                "begin with the same axes",
                "shapes",
            )
        self.function, self.batch, self.x = f, batch, x
        self.result = tuple(range(f.ndim))
        self.sizes = dict(enumerate(f.shape))

    def fresh(self, size: Any) -> int:
        label = len(self.sizes)
        self.sizes[label] = size
        return label

    def point(self) -> tuple[int, ...]:
        """Labels of a point of its own."""
        return tuple([self.fresh(size) for size in self.x.shape[self.batch :]])

    def taken(
        self, tensor: Expr, points: Sequence[tuple[int, ...]], output: tuple[int, ...], others: Sequence[Factor] = ()
    ) -> Expr:
        """A derivative with the points at some labels, summed over what is not in the output."""
        batch = self.result[: self.batch]
        labels = (*self.result, *(label for point in points for label in (*batch, *point)))
        return made_of(einsum(1, [(tensor, labels), *others], output, self.sizes), self.function)


def _contracted(f: Expr, x: Expr | str, order: int, weights: Expr | None, batch: int) -> Expr:
    """The derivative of some order at pairwise equal axes, or weighted by a tensor of them."""
    x = find_variable(expression(f), x)
    labels = _Labels(f, x, batch)
    if order == 2 and not x.symmetries and (found := SecondOrder(x, weights, batch).of(plain(f))) is not None:
        return labels.taken(finished([found])[0], [()], labels.result)
    if weights is None:
        same = labels.point()
        return labels.taken(derivative(f, *[x] * order), [same] * order, labels.result)
    points = [labels.point() for _ in range(order)]
    factor = (weights, tuple([label for point in points for label in point]))
    return labels.taken(derivative(f, *[x] * order), points, labels.result, [factor])
