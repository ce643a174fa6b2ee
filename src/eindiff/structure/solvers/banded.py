"""Bands: Cholesky where it succeeds, else LU with pivots, by LAPACK on the diagonals alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import eigvals_banded, get_blas_funcs, get_lapack_funcs

from eindiff.core.errors import EindiffError
from eindiff.structure.bands import Band, RankedBand
from eindiff.structure.places import Place
from eindiff.structure.solvers.blocks import CANCELLED
from eindiff.structure.solvers.dense import nonzero
from eindiff.structure.solvers.solver import LIMIT, Known, Solver, logdet_of
from eindiff.structure.terms import Array, Term

DOUBTFUL = 1e-3  # the condition times the precision, from which on it is looked at twice
STEPS, SAFETY = 4, 4.0  # of the power method, and by how much it may be too low
ROWS = 2**15  # of diagonals that are looked at together, so that they stay in the cache


class BandFactorization(ABC):
    """A band, ready to solve with: the factors are written over the diagonals."""

    is_definite = False
    is_singular = False

    @cached_property
    def inverse_norm(self) -> float:
        """About the norm of the inverse, or more."""
        size, dtype = self.shape
        return float(np.linalg.norm(self.solve(random_signs(size, dtype))))

    shape: tuple[int, np.dtype]  # the number of rows, and the type of entries

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """The solutions for the columns of b."""

    @abstractmethod
    def logdet(self) -> tuple[float, float]:
        """Sign and logarithm of the determinant."""


class Tridiagonal(BandFactorization):
    """`A = L D L'` of a positive definite matrix with one diagonal on each side."""

    is_definite = True

    def __init__(self, band: Array) -> None:
        pttrf, self._pttrs = get_lapack_funcs(("pttrf", "pttrs"), (band,))
        self._least = _least_excess(band)
        self._diagonal, self._beside, failed = pttrf(band[0], band[1, :-1], overwrite_d=1, overwrite_e=1)
        if failed:
            raise np.linalg.LinAlgError
        self.shape = band.shape[1], band.dtype

    @cached_property
    def inverse_norm(self) -> float:
        """Where the diagonal outweighs the rest of each row, the inverse is no larger than the reciprocal of that."""
        return 1 / self._least if self._least > 0 else super().inverse_norm

    def solve(self, b: Array) -> Array:
        return self._pttrs(self._diagonal, self._beside, b)[0]

    def logdet(self) -> tuple[float, float]:
        return 1.0, float(np.log(self._diagonal).sum())


class BandCholesky(BandFactorization):
    """`A = L L'` of a positive definite band."""

    is_definite = True

    def __init__(self, band: Array) -> None:
        pbtrf, self._pbtrs = get_lapack_funcs(("pbtrf", "pbtrs"), (band,))
        self.factor, failed = pbtrf(band, lower=1, overwrite_ab=1)
        if failed:
            raise np.linalg.LinAlgError
        self.shape = band.shape[1], band.dtype

    @cached_property
    def inverse_norm(self) -> float:
        """`‖L^-1 s‖²` for random signs s is about the sum of the reciprocals of the eigenvalues."""
        [tbsv] = get_blas_funcs(("tbsv",), (self.factor,))
        half = tbsv(len(self.factor) - 1, self.factor, random_signs(*self.shape)[:, 0], lower=1)
        return float(np.dot(half, half))

    def solve(self, b: Array) -> Array:
        return self._pbtrs(self.factor, b, lower=1)[0]

    def logdet(self) -> tuple[float, float]:
        return 1.0, 2 * float(np.log(self.factor[0]).sum())


class BandLU(BandFactorization):
    """`P A = L U` of any band; pivots that are zero become as large as rounding errors."""

    def __init__(self, band: Array, lower: int, upper: int) -> None:
        gbtrf, self._gbtrs = get_lapack_funcs(("gbtrf", "gbtrs"), (band,))
        self._widths = lower, upper
        self.shape = band.shape[1], band.dtype
        norm = largest(band)
        self._factor, self._pivots, zero = gbtrf(band, lower, upper, overwrite_ab=1)
        self.is_singular = zero > 0
        if zero:
            self._factor[lower + upper] = nonzero(self._factor[lower + upper], norm)

    def solve(self, b: Array) -> Array:
        return self._gbtrs(self._factor, *self._widths, b, self._pivots)[0]

    def logdet(self) -> tuple[float, float]:
        sign, value = logdet_of(self._factor[sum(self._widths)])
        swaps = np.count_nonzero(self._pivots != np.arange(len(self._pivots)))
        return sign * (-1) ** swaps, value


class Banded(Solver):
    """An operator whose entries are near the diagonal, with its axes in some order."""

    def __init__(self, band: Band | RankedBand, facts: Known, word: str | None = None) -> None:
        self.size = band.size
        self._band = band
        self._symmetric = facts.symmetric
        lower, upper = band.lower, band.upper
        width = max(lower, upper)
        self.word = word or (f"band of half-width {width}" if width else "diagonal")
        self.formula = f"band({self.size}×{self.size}, half-width {width})"
        self.method = "Cholesky factorization of a band, or LU if there is none"
        self.is_narrow = 2 * (lower + upper) < self.size
        height = 1 + (max(lower, upper) if facts.symmetric else lower + upper)
        self.flops = self.size * (height**2 + 8 * height)
        self.nbytes = 3 * self.size * height * band.dtype.itemsize

    @cached_property
    def _work(self) -> tuple[float, float, BandFactorization]:
        """The norm of the matrix, or more; how much larger its terms are, where they cancel; and the factors."""
        if self._is_symmetric:
            try:
                lower = self._lower()
                kind = Tridiagonal if len(lower) == 2 and self.size > 1 else BandCholesky
                return *self._sizes(lower, 2), kind(lower)
            except np.linalg.LinAlgError:
                pass
        whole = self._whole()
        return *self._sizes(whole, 1), BandLU(whole, self._band.lower, self._band.upper)

    def _sizes(self, diagonals: Array, times: int) -> tuple[float, float]:
        """The sizes, by diagonals that stand for so many each, or fewer."""
        flat = diagonals.T.reshape(-1) if diagonals.flags.f_contiguous else diagonals.reshape(-1)
        most, squares = 0.0, 0.0
        for start in range(0, len(flat), ROWS):
            part = flat[start : start + ROWS]
            most = max(most, largest(part))
            squares += times * float(np.dot(part, part))
        terms = sum(float(np.sqrt(term.square_sum())) for term in self._band.terms)
        cancelled = terms / max(np.sqrt(squares), np.finfo(flat.dtype).tiny)
        return times * len(diagonals) * most, max(1.0, cancelled)

    @property
    def _factorization(self) -> BandFactorization:
        return self._work[2]

    @cached_property
    def is_exact(self) -> bool:
        """Whether no digits are lost when the entries are added up."""
        return self._work[1] <= CANCELLED

    def _whole(self) -> Array:
        return self._band.storage(self._band.lower, self._band.upper, self._band.lower)

    def _lower(self) -> Array:
        width = max(self._band.lower, self._band.upper)
        return self._band.storage(width, 0, in_columns=width > 1)

    @cached_property
    def _is_symmetric(self) -> bool:
        """Whether it is known to be symmetric, or its numbers are."""
        band = self._band
        if self._symmetric is not None or band.lower != band.upper:
            return bool(self._symmetric)
        whole = self._whole()[band.lower :]
        scale = 100 * np.finfo(band.dtype).eps * np.abs(whole).max(initial=0.0)
        size = band.size
        return all(
            np.abs(whole[band.upper - k, k:] - whole[band.upper + k, : size - k]).max(initial=0.0) <= scale
            for k in range(1, min(band.upper, size - 1) + 1)
        )

    @cached_property
    def _norms(self) -> tuple[float, float]:
        norm, cancelled, factorization = self._work
        if factorization.is_singular:
            return norm * cancelled, np.inf
        inverse = factorization.inverse_norm
        if norm * cancelled * inverse > DOUBTFUL / np.finfo(self._band.dtype).eps:
            inverse = sharpened(inverse, factorization.solve, self.size, self._band.dtype)
        return norm * cancelled, inverse

    def norms(self) -> tuple[float, float]:
        return self._norms

    def solve(self, b: Array) -> Array:
        band = self._band
        return band.restored(self._factorization.solve(band.arranged(b.astype(band.dtype, copy=False))))

    def logdet(self) -> tuple[float, float]:
        return self._factorization.logdet()

    def is_definite(self) -> bool:
        return self._factorization.is_definite

    def eigvals(self) -> Array:
        return eigvals_banded(self._lower(), lower=True) if self._is_symmetric else super().eigvals()

    def inverse(self) -> list[Term]:
        """A matrix: the inverse of a band is none."""
        if self.size**2 * self._band.dtype.itemsize > LIMIT:
            raise EindiffError(f"the inverse of a band of {self.size} rows is a dense matrix: use solve(b)", "systems")
        axes = tuple(range(2 * len(self._band.dims)))
        matrix = self.solve(np.eye(self.size, dtype=self._band.dtype)).reshape(2 * self._band.dims)
        return [Term(1.0, (matrix,), (axes,), axes, dict(enumerate(matrix.shape)))]

    def inverse_diagonal(self) -> Array:
        """`1 / (d + e − a)` for the pivots d of elimination from the one end, e from the other, and the diagonal a.

        These are blocks, as wide as the band: with them it is block tridiagonal.
        """
        if not self.is_definite():
            return super().inverse_diagonal()
        lower = self._lower()
        width = max(1, len(lower) - 1)
        lower = _padded(lower, -self.size % width)
        size = lower.shape[1]
        turned = np.zeros_like(lower)
        for k in range(min(len(lower), size)):
            turned[k, : size - k] = lower[k, : size - k][::-1]
        own = _blocks(lower, width)
        one, other = (_blocks(BandCholesky(band).factor, width) for band in (lower, turned))
        own = own + np.tril(own, -1).swapaxes(1, 2)
        pivots = one @ one.swapaxes(1, 2) + (other @ other.swapaxes(1, 2))[::-1, ::-1, ::-1]
        found = np.linalg.inv(pivots - own).diagonal(axis1=1, axis2=2).reshape(-1)[: self.size]
        return self._band.restored(found[:, None])[:, 0]

    def cholesky(self) -> list[Term]:
        """A band too, if the operator has one axis."""
        if not self._band.is_in_order or len(self._band.dims) > 1 or not self.is_definite():
            return super().cholesky()
        factor = BandCholesky(self._lower()).factor
        return [_diagonal_below(factor[k, : self.size - k], k, self.size) for k in range(min(len(factor), self.size))]


def largest(values: Array) -> float:
    """The largest absolute value."""
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def _least_excess(band: Array) -> float:
    """The least by which the diagonal outweighs the rest of its row."""
    least, size = np.inf, band.shape[1]
    for start in range(0, size, ROWS):
        end = min(start + ROWS, size)
        last, rest = min(end, size - 1), np.abs(band[0, start:end])
        rest[: last - start] -= np.abs(band[1, start:last])
        rest[start == 0 :] -= np.abs(band[1, max(0, start - 1) : end - 1])
        least = np.minimum(least, rest.min())
    return float(least)


def _padded(lower: Array, count: int) -> Array:
    """The lower diagonals with those of an identity after them."""
    padded = np.zeros((len(lower), lower.shape[1] + count), lower.dtype, order="F")
    padded[:, : lower.shape[1]] = lower
    padded[0, lower.shape[1] :] = 1
    return padded


def _blocks(lower: Array, width: int) -> Array:
    """The lower triangles of the blocks along the diagonal of a band."""
    blocks = np.zeros((lower.shape[1] // width, width, width), lower.dtype)
    for row in range(width):
        for column in range(row + 1):
            blocks[:, row, column] = lower[row - column, column::width]
    return blocks


def _diagonal_below(values: Array, offset: int, size: int) -> Term:
    """A diagonal of a matrix, some rows below the main one."""
    places = Place(1, (0,), offset, (1,)), Place(2, (0,), 0, (1,))
    return Term(1.0, (values,), ((0,),), (1, 2), {0: len(values), 1: size, 2: size}, (), places)


@lru_cache(2)
def random_signs(size: int, dtype: np.dtype) -> Array:
    """A column of 1 and −1. The norm of its image is about that of a matrix, the root of the sum of squares."""
    random = np.frombuffer(np.random.default_rng(0).bytes(size), np.int8)
    return np.where(random < 0, dtype.type(-1), dtype.type(1))[:, None]


def sharpened(bound: float, solve: Callable[[Array], Array], size: int, dtype: np.dtype) -> float:
    """A bound on the norm of an inverse, which may be much too large for large systems, held against the power method.

    That finds a little less than the norm.
    """
    x = random_signs(size, dtype)
    for _ in range(STEPS if np.isfinite(bound) else 0):
        x = solve(x / np.linalg.norm(x))
    found = SAFETY * float(np.linalg.norm(x))
    return min(bound, found) if np.isfinite(bound) and np.isfinite(found) else bound
