"""Factorizations of matrices and of stacks of them: Cholesky where it succeeds, else LDLᵀ, eigenvalues or LU.

None refuses a singular matrix: pivots that are zero become as large as rounding errors, which is enough to find what
the matrix takes to zero, and the norm of its inverse is infinite. Whether the system that it is a part of is singular
is decided elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy import linalg
from scipy.linalg import get_lapack_funcs

from eindiff.planning import tuning
from eindiff.structure.axes import norms, squares
from eindiff.structure.solvers.solver import logdet_of
from eindiff.structure.terms import Array


class Factorization(ABC):
    """A stack of square matrices, ready to solve with: arrays have the shape (stack, rows, columns)."""


    @property
    def is_definite(self) -> bool:
        """Whether the matrix is known to be positive definite."""
        return False
    inverse_norms: Array  # about the norm of each inverse, or a little less

    def condition(self, sizes: Array) -> float:
        """By how much errors are multiplied at most, if the norms of the matrices, or of their parts, are these."""
        return float((sizes * self.inverse_norms).max(initial=0.0))

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """The solutions for a stack of right-hand sides."""

    @abstractmethod
    def logdet(self) -> tuple[float, float]:
        """Sign and logarithm of the product of all determinants."""


def factorize(blocks: Array, symmetric: bool | None) -> Factorization:
    """The factorization that fits a stack of matrices.

    Whether they are symmetric is looked at if it is not known; those that are known to be are made so.
    """
    symmetric = is_symmetric(blocks) if symmetric is None else symmetric
    single = len(blocks) == 1 and blocks.shape[1] > tuning.SMALL_MATRIX
    if symmetric:
        blocks = symmetrized(blocks)
        try:
            return Cholesky(blocks) if single else StackedCholesky(blocks)
        except np.linalg.LinAlgError:
            return LDL(blocks) if single else StackedEigen(blocks)
    return LU(blocks) if single else StackedInverse(blocks)


def is_symmetric(blocks: Array) -> bool:
    """Whether each matrix of a stack is symmetric up to rounding."""
    scale = np.abs(blocks).max(axis=(1, 2), initial=0.0)
    error = np.abs(blocks - blocks.swapaxes(1, 2)).max(axis=(1, 2), initial=0.0)
    return bool((error <= 100 * np.finfo(blocks.dtype).eps * scale).all())


def symmetrized(blocks: Array) -> Array:
    """The symmetric parts of matrices, since factorizations read one triangle only."""
    # a product is much cheaper than the sum with the transpose
    if len(blocks) == 1 and blocks.shape[1] > tuning.SMALL_MATRIX:
        [matrix] = blocks
        vector = np.random.default_rng(0).normal(size=len(matrix)).astype(matrix.dtype)
        image = matrix @ vector
        if np.linalg.norm(image - vector @ matrix) <= np.finfo(matrix.dtype).eps * np.linalg.norm(image):
            return blocks
    return (blocks + blocks.swapaxes(1, 2)) / 2


def _estimated(rcond: float, norm: float) -> Array:
    """The norm of the inverse, from the norm and the reciprocal of the condition that LAPACK estimates."""
    return np.array([1 / (rcond * norm) if rcond * norm > 0 else np.inf])


class Triangular(Factorization):
    """`A = L L'`, of symmetric and positive definite matrices only."""

    is_definite = True
    factor: Array  # L

    def logdet(self) -> tuple[float, float]:
        return 1.0, 2 * float(np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum())


class Cholesky(Triangular):
    """`A = L L'` of one matrix."""

    def __init__(self, blocks: Array) -> None:
        matrix = blocks[0]
        norm = np.abs(matrix).sum(axis=0).max(initial=0.0)
        factor = linalg.cholesky(matrix, lower=True, check_finite=False)
        [pocon] = get_lapack_funcs(("pocon",), (factor,))
        self.inverse_norms = _estimated(pocon(factor, norm, uplo="L")[0], norm)
        self.factor = factor[None]

    def solve(self, b: Array) -> Array:
        return linalg.cho_solve((self.factor[0], True), b[0], check_finite=False)[None]


class StackedCholesky(Triangular):
    """`A = L L'` of many small matrices, with the inverses of L, so that solving is two matrix products."""

    def __init__(self, blocks: Array) -> None:
        self.factor = np.linalg.cholesky(blocks)
        self._inverse = _inverse_of_lower(self.factor)
        self.inverse_norms = squares(self._inverse)

    def solve(self, b: Array) -> Array:
        return self._inverse.swapaxes(1, 2) @ (self._inverse @ b)


def _inverse_of_lower(factor: Array) -> Array:
    """The inverses of lower triangular matrices; of many, row by row for all of them at once."""
    if len(factor) < tuning.MANY_MATRICES:
        return np.linalg.inv(factor)
    inverse = np.zeros_like(factor)
    for k in range(factor.shape[1]):
        inverse[:, k, k] = 1
        inverse[:, k, :k] -= (factor[:, k, None, :k] @ inverse[:, :k, :k])[:, 0]
        inverse[:, k, : k + 1] /= factor[:, k, k, None]
    return inverse


class LDL(Factorization):
    """`A = L D L'` of one symmetric matrix, with blocks of one or two rows in D."""

    def __init__(self, blocks: Array) -> None:
        matrix = blocks[0]
        sytrf, sycon, self._sytrs = get_lapack_funcs(("sytrf", "sycon", "sytrs"), (matrix,))
        self._factor, self._pivots, zero = sytrf(matrix, lower=1)
        norm = np.abs(matrix).sum(axis=0).max()
        if zero:
            np.fill_diagonal(self._factor, nonzero(self._factor.diagonal(), norm))
        self.inverse_norms = _estimated(0 if zero else sycon(self._factor, self._pivots, norm, lower=1)[0], norm)

    def solve(self, b: Array) -> Array:
        return self._sytrs(self._factor, self._pivots, b[0], lower=1)[0][None]

    def logdet(self) -> tuple[float, float]:
        values, row = [], 0
        while row < len(self._pivots):
            if self._pivots[row] > 0:
                values.append(self._factor[row, row])
                row += 1
            else:  # two rows with one pivot
                below = self._factor[row + 1, row]
                values.append(self._factor[row, row] * self._factor[row + 1, row + 1] - below**2)
                row += 2
        return logdet_of(np.array(values))


class StackedEigen(Factorization):
    """`A = Q diag(λ) Q'` of many small symmetric matrices."""

    def __init__(self, blocks: Array) -> None:
        values, self._vectors = np.linalg.eigh(blocks)
        self._values = nonzero(values, np.abs(values).max(axis=1, keepdims=True))
        self.inverse_norms = np.where(values.all(axis=1), 1 / np.abs(self._values).min(axis=1), np.inf)

    def solve(self, b: Array) -> Array:
        return self._vectors @ ((self._vectors.swapaxes(1, 2) @ b) / self._values[:, :, None])

    def logdet(self) -> tuple[float, float]:
        return logdet_of(self._values.ravel())


class LU(Factorization):
    """`P A = L U` of one matrix."""

    def __init__(self, blocks: Array) -> None:
        matrix = blocks[0]
        getrf, gecon = get_lapack_funcs(("getrf", "gecon"), (matrix,))
        factor, pivots, zero = getrf(matrix)
        norm = np.abs(matrix).sum(axis=0).max()
        if zero:
            np.fill_diagonal(factor, nonzero(factor.diagonal(), norm))
        self._factors = factor, pivots
        self.inverse_norms = _estimated(0 if zero else gecon(factor, norm)[0], norm)

    def solve(self, b: Array) -> Array:
        return linalg.lu_solve(self._factors, b[0], check_finite=False)[None]

    def logdet(self) -> tuple[float, float]:
        factor, pivots = self._factors
        sign, value = logdet_of(factor.diagonal())
        return sign * (-1) ** int((pivots != np.arange(len(pivots))).sum()), value


class StackedInverse(Factorization):
    """The inverses of many small matrices."""

    def __init__(self, blocks: Array) -> None:
        try:
            self._inverse = np.linalg.inv(blocks)
            self.inverse_norms = norms(self._inverse)
        except np.linalg.LinAlgError:
            u, values, v = np.linalg.svd(blocks)
            least = np.finfo(blocks.dtype).eps * np.where(values[:, :1] > 0, values[:, :1], 1)
            self._inverse = v.swapaxes(1, 2) / np.maximum(values, least)[:, None] @ u.swapaxes(1, 2)
            self.inverse_norms = np.full(len(blocks), np.inf)
        self._blocks = blocks

    def solve(self, b: Array) -> Array:
        return self._inverse @ b

    def logdet(self) -> tuple[float, float]:
        signs, values = np.linalg.slogdet(self._blocks)
        return float(np.prod(signs)), float(values.sum())


def nonzero(values: Array, scale: Array | float) -> Array:
    """Pivots or eigenvalues, of which those that are zero are as large as rounding errors."""
    least = np.maximum(np.finfo(values.dtype).eps * scale, np.finfo(values.dtype).tiny)
    return np.where(values == 0, least, values).astype(values.dtype)
