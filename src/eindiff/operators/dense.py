"""Factorizations of matrices and of stacks of them: Cholesky where it succeeds, else LDLᵀ, eigenvalues or LU."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy import linalg
from scipy.linalg import get_lapack_funcs

from eindiff.operators.solver import logdet_of, singular
from eindiff.operators.terms import Array

# Rows up to which a single matrix is treated like a stack: by products, and with the threads of one library only.
SMALL = 64
MANY = 50  # matrices of a stack for which a loop in Python over their rows pays


class Factorization(ABC):
    """A stack of square matrices, ready to solve with: arrays have the shape (stack, rows, columns)."""

    is_definite = False

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """The solutions for a stack of right-hand sides."""

    @abstractmethod
    def logdet(self) -> tuple[float, float]:
        """Sign and logarithm of the product of all determinants."""


def factorize(blocks: Array, symmetric: bool | None, where: str = "") -> Factorization:
    """The factorization that fits a stack of matrices; a singular one is an error.

    Whether they are symmetric is looked at if it is not known.
    """
    symmetric = is_symmetric(blocks) if symmetric is None else symmetric
    single = len(blocks) == 1 and blocks.shape[1] > SMALL
    if symmetric:
        try:
            return Cholesky(blocks, where) if single else StackedCholesky(blocks, where)
        except np.linalg.LinAlgError:
            return LDL(blocks, where) if single else StackedEigen(blocks, where)
    return LU(blocks, where) if single else StackedInverse(blocks, where)


def is_symmetric(blocks: Array) -> bool:
    """Whether each matrix of a stack is symmetric up to rounding."""
    scale = np.abs(blocks).max(axis=(1, 2), initial=0.0)
    error = np.abs(blocks - blocks.swapaxes(1, 2)).max(axis=(1, 2), initial=0.0)
    return bool((error <= 100 * np.finfo(blocks.dtype).eps * scale).all())


def _check(rcond: Array | float, blocks: Array, where: str) -> None:
    """Refuse a matrix without an inverse, by the reciprocal of its condition number."""
    values = np.atleast_1d(rcond)
    if not (values > 10 * min(blocks.shape[1], 10) * np.finfo(blocks.dtype).eps).all():
        worst = int(np.argmin(np.where(np.isnan(values), -1.0, values)))
        place = f"block {worst} of {len(values)}{where} is" if len(values) > 1 else f"the system{where} is"
        raise singular(f"{place} singular to working precision (reciprocal condition {values[worst]:.1e})")


class Cholesky(Factorization):
    """`A = L L'` of one matrix."""

    is_definite = True

    def __init__(self, blocks: Array, where: str) -> None:
        matrix = blocks[0]
        norm = np.abs(matrix).sum(axis=0).max(initial=0.0)
        self.factor = linalg.cholesky(matrix, lower=True, check_finite=False)
        if len(matrix):
            [pocon] = get_lapack_funcs(("pocon",), (self.factor,))
            _check(pocon(self.factor, norm, uplo="L")[0], blocks, where)

    def solve(self, b: Array) -> Array:
        return linalg.cho_solve((self.factor, True), b[0], check_finite=False)[None]

    def logdet(self) -> tuple[float, float]:
        return 1.0, 2 * float(np.log(self.factor.diagonal()).sum())


class StackedCholesky(Factorization):
    """`A = L L'` of many small matrices, with the inverses of L, so that solving is two matrix products."""

    is_definite = True

    def __init__(self, blocks: Array, where: str) -> None:
        self.factor = np.linalg.cholesky(blocks)
        self._inverse = _inverse_of_lower(self.factor)
        norms = np.linalg.norm(blocks, axis=(1, 2)) * np.linalg.norm(self._inverse, axis=(1, 2)) ** 2
        _check(1 / np.maximum(norms, 1.0), blocks, where)

    def solve(self, b: Array) -> Array:
        return self._inverse.swapaxes(1, 2) @ (self._inverse @ b)

    def logdet(self) -> tuple[float, float]:
        return 1.0, 2 * float(np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum())


def _inverse_of_lower(factor: Array) -> Array:
    """The inverses of lower triangular matrices; of many, row by row for all of them at once."""
    if len(factor) < MANY:
        return np.linalg.inv(factor)
    inverse = np.zeros_like(factor)
    for k in range(factor.shape[1]):
        inverse[:, k, k] = 1
        inverse[:, k, :k] -= (factor[:, k, None, :k] @ inverse[:, :k, :k])[:, 0]
        inverse[:, k, : k + 1] /= factor[:, k, k, None]
    return inverse


class LDL(Factorization):
    """`A = L D L'` of one symmetric matrix, with blocks of one or two rows in D."""

    def __init__(self, blocks: Array, where: str) -> None:
        matrix = blocks[0]
        sytrf, sycon, self._sytrs = get_lapack_funcs(("sytrf", "sycon", "sytrs"), (matrix,))
        self._factor, self._pivots, _ = sytrf(matrix, lower=1)
        _check(sycon(self._factor, self._pivots, np.abs(matrix).sum(axis=0).max(), lower=1)[0], blocks, where)

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

    def __init__(self, blocks: Array, where: str) -> None:
        self._values, self._vectors = np.linalg.eigh(blocks)
        sizes = np.abs(self._values)
        _check(sizes.min(axis=1) / np.maximum(sizes.max(axis=1), np.finfo(blocks.dtype).tiny), blocks, where)

    def solve(self, b: Array) -> Array:
        return self._vectors @ ((self._vectors.swapaxes(1, 2) @ b) / self._values[:, :, None])

    def logdet(self) -> tuple[float, float]:
        return logdet_of(self._values.ravel())


class LU(Factorization):
    """`P A = L U` of one matrix."""

    def __init__(self, blocks: Array, where: str) -> None:
        matrix = blocks[0]
        getrf, gecon = get_lapack_funcs(("getrf", "gecon"), (matrix,))
        factor, pivots, _ = getrf(matrix)
        self._factors = factor, pivots
        if len(matrix):
            _check(gecon(factor, np.abs(matrix).sum(axis=0).max())[0], blocks, where)

    def solve(self, b: Array) -> Array:
        return linalg.lu_solve(self._factors, b[0], check_finite=False)[None]

    def logdet(self) -> tuple[float, float]:
        factor, pivots = self._factors
        sign, value = logdet_of(factor.diagonal())
        return sign * (-1) ** int((pivots != np.arange(len(pivots))).sum()), value


class StackedInverse(Factorization):
    """The inverses of many small matrices."""

    def __init__(self, blocks: Array, where: str) -> None:
        try:
            self._inverse = np.linalg.inv(blocks)
        except np.linalg.LinAlgError:
            raise singular(f"a block{where} is singular") from None
        norms = [np.abs(x).sum(axis=1).max(axis=1) for x in (blocks, self._inverse)]
        _check(1 / np.maximum(norms[0] * norms[1], 1.0), blocks, where)
        self._blocks = blocks

    def solve(self, b: Array) -> Array:
        return self._inverse @ b

    def logdet(self) -> tuple[float, float]:
        signs, values = np.linalg.slogdet(self._blocks)
        return float(np.prod(signs)), float(values.sum())
