"""A derivative's value as a linear operator of SciPy on flat vectors: row-major, variable by variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from eindiff.structure.grid import Grid
from eindiff.structure.terms import Array

if TYPE_CHECKING:
    from eindiff.structure.derivative import Derivative


def to_scipy(derivative: Derivative) -> LinearOperator:
    """A derivative as an operator of scipy.sparse.linalg; it is also what `scipy.optimize.minimize` takes as `hess`.

    >>> import eindiff as ed
    >>> x = ed.vector("x", "n")
    >>> operator = to_scipy(ed.structured(ed.hessian(ed.sum(x**3), x), {"x": np.arange(3.0)}))
    >>> operator @ np.ones(3)
    array([ 0.,  6., 12.])
    """
    return GridOperator(derivative._grid)


class GridOperator(LinearOperator):
    """Products with a grid of terms and with its transpose, for one vector or for the columns of a matrix."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid.dtype, grid.shape)
        self._grid = grid
        self._transposed = grid.transposed()

    def _matvec(self, x: Array) -> Array:
        return self._grid.apply(x.reshape(-1, 1))[:, 0]

    def _rmatvec(self, x: Array) -> Array:
        return self._transposed.apply(x.reshape(-1, 1))[:, 0]

    def _matmat(self, X: Array) -> Array:
        return self._grid.apply(X)

    def _rmatmat(self, X: Array) -> Array:
        return self._transposed.apply(X)

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        """`np.dot(operator, x)`, which the trust-region methods of SciPy write and other operators do not answer."""
        if function is np.dot and not kwargs and len(args) == 2 and args[0] is self:
            return self.dot(args[1])
        return NotImplemented
