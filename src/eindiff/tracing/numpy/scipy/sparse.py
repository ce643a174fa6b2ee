"""Sparse matrices of SciPy as constants: a product is one gather, one product and one sum into places."""

from __future__ import annotations

from typing import Any

import numpy as np

from eindiff.functions.multilinear import as_expr, multiply
from eindiff.tracing.numpy.buffers import settled
from eindiff.tracing.numpy.traced_array import has_traced, made
from eindiff.tracing.places import Place, gathered, scattered


class Sparse:
    """A sparse matrix that is multiplied with traced arrays too; all else is the matrix itself."""

    __array_ufunc__ = None  # products with it on the right are its own

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        self._is_array = "array" in type(matrix).__name__  # for which * is entry by entry

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._matrix, name)
        return Sparse(found) if hasattr(found, "tocoo") else found

    def __matmul__(self, other: Any) -> Any:
        other = settled(other)
        return self._product(other) if has_traced(other) else self._matrix @ other

    def __rmatmul__(self, other: Any) -> Any:
        other = settled(other)
        return Sparse(self._matrix.T)._product(other.T).T if has_traced(other) else other @ self._matrix

    def dot(self, other: Any) -> Any:
        """The product with an array."""
        return self @ other

    def multiply(self, other: Any) -> Any:
        """The product entry by entry, as an array where that is symbolic."""
        other = settled(other)
        return self._matrix.toarray() * other if has_traced(other) else self._matrix.multiply(other)

    def __mul__(self, other: Any) -> Any:
        is_number = np.ndim(settled(other)) == 0
        return self.multiply(other) if self._is_array or is_number else self @ other

    def __rmul__(self, other: Any) -> Any:
        is_number = np.ndim(settled(other)) == 0
        return self.multiply(other) if self._is_array or is_number else other @ self

    def __add__(self, other: Any) -> Any:
        other = settled(other)
        return self._matrix.toarray() + other if has_traced(other) else self._matrix + other

    __radd__ = __add__

    def __getitem__(self, index: Any) -> Any:
        found = self._matrix[index]
        return Sparse(found) if hasattr(found, "tocoo") else found

    def _product(self, x: Any) -> Any:
        entries, x = self._matrix.tocoo(), as_expr(x)
        count, rest = entries.nnz, tuple([int(n) for n in x.shape[1:]])
        if not count:
            return made(as_expr(np.zeros((self._matrix.shape[0], *rest))))
        others = [Place((k + 1,), np.arange(n)) for k, n in enumerate(rest)]
        taken = gathered(x, [Place((0,), entries.col.astype(int)), *others], (count, *rest))
        values = as_expr(np.asarray(entries.data, float).reshape(count, *[1] * len(rest)))
        places = [Place((0,), entries.row.astype(int)), *others]
        return made(scattered(multiply(values, taken), places, (self._matrix.shape[0], *rest)))
