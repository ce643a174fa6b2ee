"""A structured operator plus one of low rank, by the Woodbury identity.

`(B + U V)^-1 = B^-1 − B^-1 U (I + V B^-1 U)^-1 V B^-1` and `det(B + U V) = det(B) det(I + V B^-1 U)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import NoReturn

import numpy as np

from eindiff.core.labels import Labels
from eindiff.structure.axes import Core
from eindiff.structure.grid import Grid
from eindiff.structure.solvers.dense import Factorization, factorize, is_symmetric, symmetrized
from eindiff.structure.solvers.solver import Solver, UnreliableError, singular
from eindiff.structure.terms import Array, Term


def low_rank(term: Term, stack: Labels) -> tuple[Labels, list[int]] | None:
    """The labels that the rows and the columns of a term meet in, and its arrays on the side of the rows.

    None if some array has labels of both, or if a label is in both.
    """
    half = len(term.output) // 2
    rows, columns = set(term.output[:half]), set(term.output[half:])
    if rows & columns or term.places:
        return None
    touching = [(bool(rows & set(labels)), bool(columns & set(labels))) for labels in term.labels]
    if (True, True) in touching:
        return None
    near = [k for k, (row, _) in enumerate(touching) if row]
    not_far = [k for k, (_, column) in enumerate(touching) if not column]  # with what touches neither
    found = [(_meeting(term, left, rows | set(stack)), left) for left in (near, not_far)]
    return min(found, key=lambda one: prod(term.sizes[x] for x in one[0]))


def _meeting(term: Term, left: list[int], outer: set[int]) -> Labels:
    """The labels that some arrays of a term share with the others."""
    inside = {x for k in left for x in term.labels[k]} - outer
    outside = {x for k, labels in enumerate(term.labels) if k not in left for x in labels}
    return tuple(sorted(inside & outside))


def rank(term: Term, stack: Labels) -> int:
    """A bound on the rank of a term: the size of the labels that its rows and columns meet in."""
    split = low_rank(term, stack)
    assert split is not None
    return prod(term.sizes[x] for x in split[0])


def sides(core: Core, terms: Sequence[Term]) -> tuple[Array, Array]:
    """The sum of some terms as U V, of shapes `(count, size, rank)` and `(count, rank, size)`."""
    half = len(core.dims)
    found: tuple[list[Array], list[Array]] = ([], [])
    for term in terms:
        split = low_rank(term, core.stack)
        assert split is not None
        meet, left = split
        right = [k for k in range(len(term.arrays)) if k not in left]
        sizes = {**dict(zip(core.stack, core.stack_sizes, strict=True)), **term.sizes}
        outputs = (term.output[:half] + meet, meet + term.output[half:])
        for side, coefficient, chosen, axes in zip(found, (term.coefficient, 1.0), (left, right), outputs, strict=True):
            arrays, labels = tuple([term.arrays[k] for k in chosen]), tuple([term.labels[k] for k in chosen])
            side.append(Term(coefficient, arrays, labels, core.stack + axes, sizes).to_dense())
    lefts = [x.reshape(core.count, core.size, -1) for x in found[0]]
    rights = [x.reshape(core.count, -1, core.size) for x in found[1]]
    if len(terms) == 1:
        return lefts[0], rights[0]
    return np.concatenate(lefts, axis=2), np.concatenate(rights, axis=1)


class LowRank(Solver):
    """Terms of low rank alone: there is nothing to solve, but the structure has a name, and eigenvalues."""

    word = "low rank"
    method = "none: it has no inverse"

    def __init__(self, core: Core) -> None:
        self.size = core.count * core.size
        self.rank = sum(rank(term, core.stack) for term in core.terms)
        self.formula = f"rank {self.rank} ({core.size}×{core.size})"
        self.flops = 0.0
        self.nbytes = 2 * self.size * self.rank * core.dtype.itemsize
        self._core = core

    def _refuse(self) -> NoReturn:
        raise singular(f"the system is singular: it is of rank {self.rank} at most, and has {self._core.size} rows")

    norms = logdet = inverse = cholesky = _refuse

    def solve(self, b: Array) -> Array:
        self._refuse()

    def is_definite(self) -> bool:
        return False

    def eigvals(self) -> Array:
        return np.concatenate(
            [_eigvals(self._core, self._core.terms), np.zeros(self.size - self._core.count * self.rank)]
        )


def _eigvals(core: Core, terms: Sequence[Term]) -> Array:
    """The eigenvalues of U V that need not be zero, which are those of V U."""
    u, v = sides(core, terms)
    q, r = np.linalg.qr(u)
    small = r @ (v @ q)  # symmetric if U V is
    if is_symmetric(small):
        return np.linalg.eigvalsh(symmetrized(small)).ravel()
    values = np.linalg.eigvals(v @ u).ravel()
    is_real = np.abs(values.imag).max(initial=0.0) <= 1e-8 * np.abs(values).max(initial=0.0)
    return values.real if is_real else values


class Woodbury(Solver):
    """A base that can be solved with, and terms of low rank."""

    method = "Woodbury identity"
    is_exact = False

    def __init__(self, core: Core, base: Solver, low: Sequence[Term]) -> None:
        self.size = core.count * core.size
        self._core = core
        self._low = low
        self._base = base
        self.rank = sum(rank(term, core.stack) for term in low)
        self.word = f"{base.word} + low rank"
        self.formula = f"{base.formula} + rank {self.rank}"
        self.method = f"Woodbury identity, with {base.method} for the base"
        size, count = core.size, core.count
        self.flops = base.flops * (1 + self.rank / max(size, 1)) + count * (2 * size * self.rank**2 + self.rank**3)
        self.nbytes = base.nbytes + count * (3 * size * self.rank + self.rank**2) * core.dtype.itemsize

    def _solve_base(self, b: Array) -> Array:
        """The base is one operator on the whole stack, so each block's columns are those of all."""
        return self._base.solve(b.reshape(self.size, b.shape[-1])).reshape(b.shape)

    @cached_property
    def _factors(self) -> tuple[Array, Array]:
        return sides(self._core, self._low)

    @cached_property
    def _solved(self) -> Array:
        return self._solve_base(self._factors[0])

    @cached_property
    def _small(self) -> Array:
        """`I + V B^-1 U`"""
        return np.eye(self.rank, dtype=self._core.dtype) + self._factors[1] @ self._solved

    @cached_property
    def _factorization(self) -> Factorization:
        return factorize(self._small, False)

    def norms(self) -> tuple[float, float]:
        base, inverse = self._base.norms()
        u, v, solved = (float(np.linalg.norm(x, axis=(1, 2)).max()) for x in (*self._factors, self._solved))
        small = float(self._factorization.inverse_norms.max())
        return base + u * v, inverse + solved * small * v * inverse

    def solve(self, b: Array) -> Array:
        x = self._solve_base(b)
        return x - self._solved @ self._factorization.solve(self._factors[1] @ x)

    def inverse(self) -> list[Term]:
        """`B^-1 − (B^-1 U) ((I + V B^-1 U)^-1 V B^-1)`, the last part factored."""
        core, half = self._core, len(self._core.dims)
        base = self._base.inverse()
        dims = core.stack_sizes + core.dims
        turned = Grid((dims,), (dims,), ((tuple(base),),), core.dtype).transposed()
        right = turned.apply(self._factors[1].swapaxes(1, 2).reshape(self.size, -1)).reshape(core.count, core.size, -1)
        small = self._factorization.solve(right.swapaxes(1, 2))
        axes, meet = tuple(range(2 * half)), 2 * half
        left = self._solved.reshape(*dims, self.rank)
        arrays = (left, small.reshape(*core.stack_sizes, self.rank, *core.dims))
        labels = ((*core.stack, *axes[:half], meet), (*core.stack, meet, *axes[half:]))
        sizes = dict(zip(core.stack + axes + (meet,), dims + core.dims + (self.rank,), strict=True))
        low = Term(-1.0, arrays, labels, axes, sizes)
        return [*(_without_stack(term, len(core.stack), core.stack) for term in base), low]

    def eigvals(self) -> Array:
        """Those of the base, which is a multiple of the identity, moved by those of `V U`."""
        if self._base.word != "identity" or self._core.stack:
            return super().eigvals()
        level = self._base.eigvals()[0]
        return np.concatenate([level + _eigvals(self._core, self._low), np.full(self.size - self.rank, level)])

    def logdet(self) -> tuple[float, float]:
        (sign, value), (other_sign, other) = self._base.logdet(), self._factorization.logdet()
        return sign * other_sign, value + other

    def is_definite(self) -> bool:
        """With a definite base, `B^-½ (B + U V) B^-½` has the eigenvalues of `I + V B^-1 U`, and ones."""
        if not self._base.is_definite():
            raise UnreliableError("the base is not positive definite, the sum may be")
        return bool((np.linalg.eigvals(self._small).real > 0).all())


def _without_stack(term: Term, count: int, stack: Labels) -> Term:
    """A term on the whole stack as one of a core: the labels of the stack are no longer in its output."""
    half = len(term.output) // 2
    fresh = {label: k for k, label in enumerate(term.sizes)}
    renamed = term.renamed({**fresh, **dict(zip(term.output[:count], stack, strict=True))})
    return replace(renamed, output=renamed.output[count:half] + renamed.output[half + count :])
