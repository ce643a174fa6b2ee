"""Inverses, and sums with them, solved without them: `c A^-1 + B = A^-1 (c I + A B)`.

The error of an inverse is that of rounding times the condition of A, which may be all that matters in the sum: the
precision matrices of Gaussian processes are such terms. So what is inverted is kept, and solved with.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from eindiff.structure.axes import Core, norms
from eindiff.structure.solvers.dense import Factorization, factorize, is_symmetric, symmetrized
from eindiff.structure.terms import Array, Term

MOST_ERRORS = 8.0  # rounding errors of the sum that the error of an inverse may be worth, if it is added all the same
WELL_CONDITIONED = 100.0  # a condition that needs no refinement
CORRECTIONS = 3


class Inverse(Factorization):
    """`c A^-1`, which is solved by a product with A."""

    def __init__(self, blocks: Array, inverted: Array, coefficient: float) -> None:
        self._blocks = blocks
        self._inverted = inverted
        self._coefficient = coefficient
        self.inverse_norms = norms(inverted) / abs(coefficient)

    def condition(self, sizes: Array) -> float:
        return 1.0  # there is nothing to solve

    def solve(self, b: Array) -> Array:
        return self._inverted @ b / self._coefficient

    @cached_property
    def _factorization(self) -> Factorization:
        return factorize(self._coefficient * self._inverted, None)

    @property
    def is_definite(self) -> bool:
        """Whether A is."""
        return self._factorization.is_definite

    def logdet(self) -> tuple[float, float]:
        sign, value = self._factorization.logdet()
        count, rows, _ = self._inverted.shape
        return sign, 2 * count * rows * float(np.log(abs(self._coefficient))) - value


class InverseSum(Factorization):
    """`c A^-1 + B`: the solution for b is that of `(c I + A B) x = A b`."""

    def __init__(self, inverted: Array, coefficient: float, rest: Array) -> None:
        self._A, self._c, self._B = inverted, coefficient, rest
        unit: Array = np.eye(rest.shape[-1], dtype=rest.dtype)
        self._sizes = abs(coefficient) + norms(inverted) * norms(rest)
        self._factorization = factorize(coefficient * unit + inverted @ rest, False)
        self.inverse_norms = self._factorization.inverse_norms * norms(inverted)

    def condition(self, sizes: Array) -> float:
        return self._factorization.condition(self._sizes)

    def solve(self, b: Array) -> Array:
        x = self._factorization.solve(self._A @ b)
        if self.condition(self._sizes) <= WELL_CONDITIONED:
            return x
        wide = np.float64 if x.dtype.itemsize < 8 else np.longdouble
        A, B, right = (y.astype(wide) for y in (self._A, self._B, b))
        for _ in range(CORRECTIONS):
            near: Array = x.astype(wide)
            residual = A @ (right - B @ near) - self._c * near
            x = x + self._factorization.solve(residual.astype(x.dtype))
        return x

    def logdet(self) -> tuple[float, float]:
        (sign, value), (other_sign, other) = self._factorization.logdet(), factorize(self._A, None).logdet()
        return sign * other_sign, value - other

    @cached_property
    def is_definite(self) -> bool:
        """With `A = F F'` it is that of `c I + F' B F`, even where A is nearly singular."""
        if not is_symmetric(self._A) or not is_symmetric(self._B):
            return False
        values, vectors = np.linalg.eigh(symmetrized(self._A))
        rounding = values.shape[1] * float(np.finfo(self._A.dtype).eps) * np.abs(values).max(axis=1)
        if (values[:, 0] < -rounding).any() or self._c < 0:
            return False
        F: Array = vectors * np.sqrt(np.maximum(values, 0))[:, None]
        whole = self._c * np.eye(F.shape[-1], dtype=F.dtype) + F.swapaxes(1, 2) @ self._B @ F
        return bool((np.linalg.eigvalsh(symmetrized(whole)) > 0).all())


def with_inverse(core: Core, blocks: Array) -> Factorization | None:
    """The factorization of a sum of terms with an inverse, if its error would matter."""
    known = [(term, inverted) for term in core.terms if (inverted := term.inverted()) is not None]
    if not known or any(term.output[0] in core.stack for term, _ in known):
        return None
    term, inverted = max(known, key=lambda pair: _size(pair[0]))
    A = _dense(core, inverted)
    if len(core.terms) == 1:
        return Inverse(blocks, A, term.coefficient)
    error = norms(A) * norms(_dense(core, term)) ** 2 / abs(term.coefficient)
    if (error <= MOST_ERRORS * norms(blocks)).all():
        return None
    rest = [_dense(core, other) for other in core.terms if other is not term]
    return InverseSum(A, term.coefficient, np.sum(rest, axis=0))


def _size(term: Term) -> float:
    return abs(term.coefficient) * float(np.linalg.norm(term.arrays[0]))


def _dense(core: Core, term: Term) -> Array:
    return Core(core.stack, core.stack_sizes, core.dims, (term,), core.dtype).dense()
