"""Differential operators of functions by their points, the same for all libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eindiff.calculus import fields
from eindiff.core.nodes import Expr
from eindiff.tracing.derivatives import Kind, field
from eindiff.tracing.traced_function import TracedFunction

Operator = Callable[[Expr, Expr], Expr]


class Fields:
    """The operators, each from a function of points to a function of points. No derivative is formed as a whole.

    Functions are differentiated by the argument `argnums`, a point. With `batch=1` the first axis of points and of
    outputs counts points, and each output is differentiated by its own point.
    """

    def __init__(self, made: Callable[[Kind, Callable, int, bool], TracedFunction]) -> None:
        self._made = made

    def _field(self, of: Operator, fun: Callable, argnums: int, verify: bool) -> TracedFunction:
        return self._made(field(of), fun, argnums, verify)

    def laplacian(self, fun: Callable, argnums: int = 0, *, batch: int = 0, verify: bool = True) -> TracedFunction:
        """The sum of the second derivatives of each output by the entries of a point: the trace of its Hessian.

        >>> import jax.numpy as jnp
        >>> from eindiff.jax import laplacian
        >>> laplacian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0])).item()
        18.0
        """
        return self._field(lambda y, x: fields.laplacian(y, x, batch), fun, argnums, verify)

    def biharmonic(self, fun: Callable, argnums: int = 0, *, batch: int = 0, verify: bool = True) -> TracedFunction:
        """The Laplacian of the Laplacian.

        >>> import jax.numpy as jnp
        >>> from eindiff.jax import biharmonic
        >>> biharmonic(lambda x: jnp.sum(x**4))(jnp.array([1.0, 2.0])).item()
        48.0
        """
        return self._field(lambda y, x: fields.biharmonic(y, x, batch), fun, argnums, verify)

    def divergence(self, fun: Callable, argnums: int = 0, *, batch: int = 0, verify: bool = True) -> TracedFunction:
        """The trace of the Jacobian of a field, whose last axes are those of a point.

        >>> import jax.numpy as jnp
        >>> from eindiff.jax import divergence
        >>> divergence(lambda x: x**2)(jnp.array([1.0, 2.0])).item()
        6.0
        """
        return self._field(lambda y, x: fields.divergence(y, x, batch), fun, argnums, verify)

    def curl(self, fun: Callable, argnums: int = 0, *, batch: int = 0, verify: bool = True) -> TracedFunction:
        """The rotation of a field in three dimensions.

        >>> import jax.numpy as jnp
        >>> from eindiff.jax import curl
        >>> curl(lambda x: jnp.stack([-x[1], x[0], x[2]]))(jnp.ones(3))[2].item()
        2.0
        """
        return self._field(lambda y, x: fields.curl(y, x, batch), fun, argnums, verify)

    def directional(
        self, fun: Callable, v: Any, order: int = 1, argnums: int = 0, *, verify: bool = True
    ) -> TracedFunction:
        """The derivative of some order along a constant direction v.

        >>> import jax.numpy as jnp
        >>> from eindiff.jax import directional
        >>> directional(lambda x: jnp.sum(x**3), jnp.array([1.0, 1.0]), order=3)(jnp.ones(2)).item()
        12.0
        """
        along = np.asarray(v, float)
        return self._field(lambda y, x: fields.directional(y, x, along, order), fun, argnums, verify)

    def operator(
        self, fun: Callable, coefficients: Any, argnums: int = 0, *, batch: int = 0, verify: bool = True
    ) -> TracedFunction:
        """A constant contraction of a derivative of any order: `Σ C_ij ∂²f/∂x_i∂x_j` for a matrix C.

        >>> import jax.numpy as jnp
        >>> from eindiff.jax import operator
        >>> operator(lambda x: x[0] ** 2 * x[1], [[0, 1], [0, 0]])(jnp.array([3.0, 1.0])).item()
        6.0
        """
        weights = np.asarray(coefficients, float)
        return self._field(lambda y, x: fields.operator(y, x, weights, batch), fun, argnums, verify)
