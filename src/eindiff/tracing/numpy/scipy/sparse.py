"""Sparse matrices of SciPy as constants: a product is one gather, one product and one sum into places."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from eindiff.functions.multilinear import as_expr, multiply
from eindiff.tracing.numpy.buffers import settled
from eindiff.tracing.numpy.traced_array import has_traced, made
from eindiff.tracing.places import Place, gathered, scattered


def as_sparse(value: Any) -> Any:
    """A sparse matrix as one that is multiplied with traced arrays too; all else as it is."""
    return SparseArray(value) if hasattr(value, "tocoo") and type(value) is not SparseArray else value


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)([_plain(part) for part in value])
    return value._matrix if type(value) is SparseArray else settled(value)


class Making:
    """A function or a class of `scipy.sparse`, or a method of a matrix, which gives matrices as they are seen here."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return as_sparse(self._original(*_plain(args), **{name: _plain(x) for name, x in keywords.items()}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(_plain(value), self._original)


class SparseArray:
    """A sparse matrix that is multiplied with traced arrays too; all else is the matrix itself."""

    __array_ufunc__ = None  # products with it on the right are its own

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix
        self._is_array = "array" in type(matrix).__name__  # for which * is entry by entry

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._matrix, name)
        return Making(found) if callable(found) else as_sparse(found)

    def __matmul__(self, other: Any) -> Any:
        other = _plain(other)
        return self._product(other) if has_traced(other) else as_sparse(self._matrix @ other)

    def __rmatmul__(self, other: Any) -> Any:
        other = _plain(other)
        return SparseArray(self._matrix.T)._product(other.T).T if has_traced(other) else as_sparse(other @ self._matrix)

    def dot(self, other: Any) -> Any:
        """The product with an array."""
        return self @ other

    def multiply(self, other: Any) -> Any:
        """The product entry by entry, as an array where that is symbolic."""
        other = _plain(other)
        return self._matrix.toarray() * other if has_traced(other) else as_sparse(self._matrix.multiply(other))

    def __mul__(self, other: Any) -> Any:
        is_number = np.ndim(_plain(other)) == 0 and type(other) is not SparseArray
        return self.multiply(other) if self._is_array or is_number else self @ other

    def __rmul__(self, other: Any) -> Any:
        is_number = np.ndim(_plain(other)) == 0
        return self.multiply(other) if self._is_array or is_number else other @ self

    def _combined(self, function: Callable, other: Any) -> Any:
        """A sum or another function of two matrices, as an array where that is symbolic."""
        other = _plain(other)
        if has_traced(other):
            return function(self._matrix.toarray(), other)
        return as_sparse(function(self._matrix, other))

    def __add__(self, other: Any) -> Any:
        return self._combined(operator.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __truediv__(self, other: Any) -> Any:
        return self._combined(operator.truediv, other)

    def __neg__(self) -> SparseArray:
        return SparseArray(-self._matrix)

    def __pow__(self, power: int) -> Any:
        return as_sparse(self._matrix**power)

    def __getitem__(self, index: Any) -> Any:
        return as_sparse(self._matrix[index])

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
