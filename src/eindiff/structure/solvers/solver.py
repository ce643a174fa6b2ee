"""What all solvers have in common: they are made from labels and sizes alone, and work when they are first asked to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.structure.terms import Array, Term

COLUMNS, MOST_COLUMNS = 256, 20_000  # of an inverse, at a time and in all
LIMIT = 2**31  # bytes that a factorization may take


class SingularError(EindiffError):
    """A system without a solution, or with many.

    >>> A = ed.structured(ed.hessian(ed.sum(ed.vector("x", 2)) ** 2, "x"), {"x": np.ones(2)})
    >>> try:
    ...     A.solve(np.array([1.0, 0.0]))
    ... except ed.SingularError:
    ...     print("no solution")
    no solution

    See also: `Derivative`, `newton_step`.
    """

    __module__ = "eindiff"
    code = "systems"
    is_certain = False  # whether a vector was found that the operator takes to zero


class UnreliableError(EindiffError):
    """What a solver found cannot be trusted; another one may do better."""

    code = "systems"


class NoAnswerError(EindiffError):
    """A structure does not tell what is asked; another one may."""

    code = "systems"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an operator from its expression; None is unknown."""

    symmetric: bool | None = None
    psd: bool = False  # positive semidefinite, for certain


class Solver(ABC):
    """One way to solve with a square operator of `size` rows.

    `word` names the structure it uses, `formula` shows it with its sizes; `flops` and `nbytes` are what factorizing and
    one solve take. The operator is factorized once.
    """

    size: int
    word: str
    formula: str
    method: str
    flops: float
    nbytes: float
    is_dense = False  # whether the whole matrix is formed
    uses_inverses = False  # whether arrays that are inverses are solved with as what they are inverses of

    @property
    def is_exact(self) -> bool:
        """Whether the error is that of a backward stable factorization."""
        return True

    def operations(self) -> float:
        """`flops`, or where they are not needed to choose, what they would be."""
        return self.flops

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """The solutions for right-hand sides, the columns of b; solvers of stacks take a stack of these."""

    @abstractmethod
    def norms(self) -> tuple[float, float]:
        """About the norm of its parts, or more, and that of its inverse."""

    def norm(self) -> float | None:
        """The norm of the operator, if it is known."""
        return None

    def condition(self) -> float:
        """By how much errors of its parts may be multiplied in a solution."""
        parts, inverse = self.norms()
        return parts * inverse

    def sizes_of(self, x: Array) -> Array:
        """The norms of the columns of x; where systems are separate, one row of them for each."""
        return np.linalg.norm(x, axis=0)[None]

    @abstractmethod
    def logdet(self) -> tuple[float, float]:
        """The sign of the determinant, and the logarithm of its absolute value."""

    @abstractmethod
    def is_definite(self) -> bool:
        """Whether the operator is symmetric and positive definite."""

    def eigvals(self) -> Array:
        """All eigenvalues, in no particular order."""
        raise NoAnswerError(f"the structure ({self.word}) does not give eigenvalues: take them from as_matrix()")

    def inverse(self) -> list[Term]:
        """The inverse, as terms."""
        raise NoAnswerError(f"the structure ({self.word}) has no inverse to write down: use solve(b)")

    def inverse_diagonal(self) -> Array:
        """The diagonal of the inverse, flat."""
        if self.size > MOST_COLUMNS:
            raise NoAnswerError(f"the structure ({self.word}) does not give the diagonal of so large an inverse")
        return diagonal_of(self.solve, self.size)

    def cholesky(self) -> list[Term]:
        """A factor L with `L L' = H`, as terms."""
        raise NoAnswerError(f"the structure ({self.word}) has no Cholesky factor of its own: take that of as_matrix()")


def diagonal_of(apply: Callable[[Array], Array], size: int, dtype: Any = float) -> Array:
    """The diagonal of a linear map, from its products with some columns of the identity at a time."""
    found = []
    for start in range(0, size, COLUMNS):
        columns = np.arange(start, min(start + COLUMNS, size))
        unit = np.zeros((size, len(columns)), dtype)
        unit[columns, columns - start] = 1
        found.append(apply(unit)[columns, columns - start])
    return np.concatenate(found)


def singular(what: str) -> SingularError:
    """The error of a singular system."""
    return SingularError(f"{what}: add a multiple of the identity with damping=..., or change the function")


def subscript(number: int) -> str:
    """A number in small digits.

    >>> subscript(100)
    '₁₀₀'
    """
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def logdet_of(values: Array) -> tuple[float, float]:
    """Sign and logarithm of a product of real numbers.

    >>> logdet_of(np.array([-2.0, 0.5]))
    (-1.0, 0.0)
    """
    with np.errstate(divide="ignore"):
        return float(np.prod(np.sign(values))), float(np.log(np.abs(values)).sum())
