"""Dense blocks: one matrix, the same one many times (identity ⊗ core), or a different one for each index."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from eindiff.core.errors import EindiffError, shape_text
from eindiff.structure.axes import Core, norms
from eindiff.structure.solvers.dense import Factorization, Triangular, factorize, is_symmetric, symmetrized
from eindiff.structure.solvers.inverses import Inverse, InverseSum, with_inverse
from eindiff.structure.solvers.solver import Solver, logdet_of, singular
from eindiff.structure.terms import Array, Term

CANCELLED = 8.0  # times the norm of a matrix that the norms of its parts may add up to


class Matrices(Solver):
    """A stack of matrices, all of the same size: what is done with those of one variable, and of several."""

    def __init__(self, count: int, rows: int, dtype: np.dtype, symmetric: bool | None) -> None:
        self.size = count * rows
        self.method = "Cholesky factorization, or LDLᵀ or LU if there is none"
        if count > 1:
            self.method = f"Cholesky factorization of {count} blocks at once, or their eigenvalues"
        self.flops = count * (rows**3 / 3 + 2 * rows**2)
        self.nbytes = 2 * count * rows**2 * dtype.itemsize
        self._symmetric = symmetric
        self._is_single = False  # whether there is only one part

    @abstractmethod
    def dense(self) -> tuple[Array, Array]:
        """The matrices, of shape `(count, rows, rows)`, and for each the sum of the norms of its parts."""

    @cached_property
    def _dense(self) -> tuple[Array, Array]:
        return self.dense()

    @property
    def _blocks(self) -> Array:
        return self._dense[0]

    @cached_property
    def is_exact(self) -> bool:
        """Whether no digits are lost when the matrices are formed: their parts do not cancel."""
        return self._is_single or bool((self._dense[1] <= CANCELLED * norms(self._blocks)).all())

    def norms(self) -> tuple[float, float]:
        return float(self._dense[1].max(initial=0.0)), float(self.factorization.inverse_norms.max(initial=0.0))

    def condition(self) -> float:
        return self.factorization.condition(self._dense[1])

    @cached_property
    def factorization(self) -> Factorization:
        """The factorization, computed when it is first needed."""
        return factorize(self._blocks, self._symmetric)

    def solve(self, b: Array) -> Array:
        return self.factorization.solve(b)

    def logdet(self) -> tuple[float, float]:
        return self.factorization.logdet()

    def is_definite(self) -> bool:
        return self.factorization.is_definite

    def eigvals(self) -> Array:
        if is_symmetric(self._blocks) if self._symmetric is None else self._symmetric:
            return np.linalg.eigvalsh(symmetrized(self._blocks)).ravel()
        return np.linalg.eigvals(self._blocks).ravel()


class DenseBlocks(Matrices):
    """Each operator of a core as a matrix."""

    word = "core"
    uses_inverses = True

    def __init__(self, core: Core, symmetric: bool | None) -> None:
        super().__init__(core.count, core.size, core.dtype, symmetric)
        self.formula = f"core({core.size}×{core.size})"
        self._core = core
        self._is_single = len(core.terms) == 1

    def dense(self) -> tuple[Array, Array]:
        return self._core.dense_and_sizes()

    @cached_property
    def factorization(self) -> Factorization:
        return with_inverse(self._core, self._blocks) or super().factorization

    def inverse(self) -> list[Term]:
        unit = np.broadcast_to(np.eye(self._core.size, dtype=self._core.dtype), self._blocks.shape)
        return [self._term(self.solve(unit))]

    def cholesky(self) -> list[Term]:
        found = self.factorization
        if isinstance(found, Inverse | InverseSum):
            found = factorize(self._blocks, self._symmetric)
        if not isinstance(found, Triangular):
            raise EindiffError(
                "there is no Cholesky factor: the operator is not symmetric and positive definite", "systems"
            )
        return [self._term(found.factor)]

    def _term(self, blocks: Array) -> Term:
        core = self._core
        axes = tuple(range(2 * len(core.dims)))
        array = blocks.reshape(*core.stack_sizes, *core.dims, *core.dims)
        labels = core.stack + axes
        return Term(1.0, (array,), (labels,), axes, dict(zip(labels, array.shape, strict=True)))


class Diagonal(Solver):
    """Numbers: the operator multiplies each entry by its own."""

    word = "diagonal"
    method = "division"

    def __init__(self, core: Core) -> None:
        self.size = core.count
        self.formula = f"diag({shape_text(core.stack_sizes)})"
        self.flops = core.count
        self.nbytes = core.count * core.dtype.itemsize
        self._core = core

    @cached_property
    def _values(self) -> Array:
        return self._core.dense().reshape(-1)

    @cached_property
    def _least(self) -> float:
        least = float(np.abs(self._values).min(initial=1.0))
        if not least > 0:
            raise singular("the system is singular: it has an infinite condition, since its diagonal has zeros")
        return least

    @property
    def _sizes(self) -> Array:
        return self._core.dense_and_sizes()[1]

    def norms(self) -> tuple[float, float]:
        return float(self._sizes.max(initial=0.0)), 1 / self._least

    def condition(self) -> float:
        """By how much the terms of an entry cancel: entries of different sizes do no harm."""
        if self._least and len(self._core.terms) == 1:
            return 1.0
        return float((self._sizes / np.abs(self._values)).max(initial=0.0))

    def solve(self, b: Array) -> Array:
        return b / self._values[:, None, None]

    def logdet(self) -> tuple[float, float]:
        return logdet_of(self._values)

    def is_definite(self) -> bool:
        return bool((self._values > 0).all())

    def eigvals(self) -> Array:
        return self._values

    def inverse(self) -> list[Term]:
        return [self._term(1 / self._values)]

    def cholesky(self) -> list[Term]:
        if not self.is_definite():
            raise EindiffError("there is no Cholesky factor: the diagonal is not positive", "systems")
        return [self._term(np.sqrt(self._values))]

    def _term(self, values: Array) -> Term:
        stack, sizes = self._core.stack, self._core.stack_sizes
        return Term(1.0, (values.reshape(sizes),), (stack,), (), dict(zip(stack, sizes, strict=True)))
