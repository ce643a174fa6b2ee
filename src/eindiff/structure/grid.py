"""A linear map between lists of tensors: a grid of sums of terms, one for each pair of a row and a column variable.

**Tensors are flattened in row-major order (the last axis moves fastest), several variables one after the other.**
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

import numpy as np

from eindiff.structure.terms import Array, Term, nbytes

Shape = tuple[int, ...]
Terms = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Terms by row and column variable; a derivative by one variable is a grid of one row and one column."""

    rows: tuple[Shape, ...]
    cols: tuple[Shape, ...]
    terms: tuple[tuple[Terms, ...], ...]
    dtype: np.dtype

    @property
    def all_terms(self) -> list[Term]:
        """The terms of all blocks."""
        return [term for row in self.terms for block in row for term in block]

    def with_matrix(self, matrix: Array) -> Grid:
        """A matrix in the place of the terms: one for each block."""
        rows, cols = starts(self.rows), starts(self.cols)
        terms = []
        for i, row_shape in enumerate(self.rows):
            line = []
            for j, col_shape in enumerate(self.cols):
                array = matrix[rows[i] : rows[i + 1], cols[j] : cols[j + 1]].reshape(row_shape + col_shape)
                axes = tuple(range(array.ndim))
                line.append((Term(1.0, (array,), (axes,), axes, dict(enumerate(array.shape))),))
            terms.append(tuple(line))
        return replace(self, terms=tuple(terms))

    def without_zeros(self) -> Grid:
        """The terms that are not zero by their coefficient."""
        if all(term.coefficient for term in self.all_terms):
            return self
        return self.changed(lambda terms: [term for term in terms if term.coefficient])

    @property
    def placed_terms(self) -> list[tuple[tuple[int, int], Term]]:
        """The terms of all blocks, with the places of these."""
        return [((i, j), term) for i, row in enumerate(self.terms) for j, block in enumerate(row) for term in block]

    @property
    def entry_count(self) -> int:
        """How many entries are added up; the matrix has no more than these that are not zero."""
        return sum(term.entry_count for term in self.all_terms)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return sum(map(prod, self.rows)), sum(map(prod, self.cols))

    @property
    def nbytes(self) -> int:
        """The bytes of all different arrays in it."""
        return nbytes(self.all_terms)

    @property
    def has_inverses(self) -> bool:
        """Whether some arrays are known to be inverses of others."""
        return any(x is not None for term in self.all_terms for x in term.inverses)

    def inverse_condition(self) -> float:
        """A bound of the condition of matrices that arrays are the inverses of; 1 if there are none."""
        pairs = [
            (array, matrix)
            for term in self.all_terms for array, matrix in zip(term.arrays, term.inverses, strict=False)
            if matrix is not None
        ]  # fmt: skip
        norms = [[np.linalg.norm(x, axis=(-2, -1)) for x in pair] for pair in pairs]
        return max((float(np.max(one * other)) for one, other in norms), default=1.0)

    @property
    def flops(self) -> float:
        """Operations of a product with a vector."""
        splits = [len(shape) for shape, row in zip(self.rows, self.terms, strict=True) for block in row for _ in block]
        return sum(term.apply_flops(split) for term, split in zip(self.all_terms, splits, strict=True))

    def apply(self, x: Array) -> Array:
        """The product with vectors, the columns of x."""
        parts = split(x, self.cols)
        total = []
        for shape, row in zip(self.rows, self.terms, strict=True):
            value = np.zeros((*shape, x.shape[1]), np.result_type(self.dtype, x.dtype))
            for block, part in zip(row, parts, strict=True):
                for term in block:
                    value += term.apply(part, len(shape))
            total.append(value.reshape(prod(shape), x.shape[1]))
        return np.concatenate(total) if len(total) != 1 else total[0]

    def products(self, x: Array) -> list[Array]:
        """The product of each term with vectors."""
        empty = self.changed(lambda terms: ())
        return [empty.with_terms(i, j, [term]).apply(x) for (i, j), term in self.placed_terms]

    def magnitude(self, apply: Callable[[Array], Array] | None = None) -> float:
        """About the norm, by a few steps of the power method, with these or other products."""
        apply = apply or self.apply
        x = np.random.default_rng(0).normal(size=(self.shape[1], 1)).astype(self.dtype)
        best = 0.0
        for _ in range(3 if self.rows == self.cols else 1):
            norm = float(np.linalg.norm(x))
            if not norm:
                break
            x = apply(x / norm)
            best = max(best, float(np.linalg.norm(x)))
        return best

    def diagonal(self) -> Array:
        """The diagonal of a square map, flat."""
        total = []
        for k, shape in enumerate(self.rows):
            value = np.zeros(shape, self.dtype)
            for term in self.terms[k][k]:
                value += term.diagonal(len(shape))
            total.append(value.reshape(-1))
        return np.concatenate(total)

    def dense(self) -> Array:
        """The matrix."""
        return self.dense_and_size()[0]

    def dense_and_size(self) -> tuple[Array, float]:
        """The matrix, and the sum of the norms of all terms, which is larger where they cancel."""
        matrix, size = np.zeros(self.shape, self.dtype), 0.0
        rows, columns = starts(self.rows), starts(self.cols)
        for i, row in enumerate(self.terms):
            for j, block in enumerate(row):
                for term in block:
                    part = matrix[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
                    value = term.to_dense().reshape(part.shape)
                    part += value
                    size += float(np.linalg.norm(value))
        return matrix, size

    def transposed(self) -> Grid:
        """The map from row variables to column variables."""
        terms = tuple(
            tuple(tuple(term.transposed(len(self.rows[i])) for term in self.terms[i][j]) for i in range(len(self.rows)))
            for j in range(len(self.cols))
        )
        return Grid(self.cols, self.rows, terms, self.dtype)

    def block(self, rows: Sequence[int], cols: Sequence[int]) -> Grid:
        """Some of the variables."""
        terms = tuple([tuple([self.terms[i][j] for j in cols]) for i in rows])
        return Grid(tuple([self.rows[i] for i in rows]), tuple([self.cols[j] for j in cols]), terms, self.dtype)

    def changed(self, change: Callable[[Terms], Sequence[Term]]) -> Grid:
        """The grid with the terms of each block changed."""
        terms = tuple([tuple([tuple(change(block)) for block in row]) for row in self.terms])
        return Grid(self.rows, self.cols, terms, self.dtype)

    def astype(self, dtype: np.dtype) -> Grid:
        """The grid with arrays of another type."""
        changed = self.changed(lambda terms: [term.astype(dtype) for term in terms])
        return Grid(self.rows, self.cols, changed.terms, dtype)

    def with_terms(self, i: int, j: int, terms: Sequence[Term]) -> Grid:
        """The grid with more terms in one of its blocks."""
        changed = [list(row) for row in self.terms]
        changed[i][j] = (*changed[i][j], *terms)
        return Grid(self.rows, self.cols, tuple([tuple(row) for row in changed]), self.dtype)


def starts(shapes: Sequence[Shape]) -> list[int]:
    """Where each variable starts in a flat vector, and the end.

    >>> starts([(2, 3), (4,)])
    [0, 6, 10]
    """
    return [0, *accumulate(map(prod, shapes))]


def split(x: Array, shapes: Sequence[Shape]) -> list[Array]:
    """Flat vectors, the columns of x, as tensors of each variable with one more axis."""
    places = starts(shapes)
    return [x[places[k] : places[k + 1]].reshape(*shape, x.shape[1]) for k, shape in enumerate(shapes)]


def turned(x: Array, shape: Sequence[int], order: Sequence[int]) -> Array:
    """Flat tensors of a shape, the columns of x, with their axes in another order."""
    if list(order) == list(range(len(shape))):
        return x
    return x.reshape(*shape, x.shape[-1]).transpose(*order, len(shape)).reshape(x.shape)


def turned_back(x: Array, shape: Sequence[int], order: Sequence[int]) -> Array:
    """The reverse of `turned`."""
    return turned(x, [shape[axis] for axis in order], sorted(range(len(order)), key=order.__getitem__))
