"""Sums of Kronecker products, solved factor by factor.

The axes of the operator fall into groups that no term connects, so that each term is a Kronecker product of one matrix
for each group. One product is solved by a factorization of each matrix. A sum is solved if each group has no more than
two different matrices (one of them may be the identity): two matrices are made diagonal at once by generalised
eigenvectors, `Y' M Z = diag(α)` and `Y' N Z = diag(β)`, and then the whole operator is diagonal:

    Σ_t ⊗_g M_tg = (⊗ Y_g)^-T diag(Σ_t Π_g λ_tg) (⊗ Z_g)^-1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy import linalg

from eindiff.core.errors import EindiffError
from eindiff.core.groups import grouped
from eindiff.core.labels import UnionFind, components, first_appearance
from eindiff.structure.axes import Core, has_delta
from eindiff.structure.grid import turned, turned_back
from eindiff.structure.solvers.blocks import CANCELLED
from eindiff.structure.solvers.dense import Factorization, Triangular, factorize, is_symmetric, nonzero, symmetrized
from eindiff.structure.solvers.inverses import Inverse
from eindiff.structure.solvers.solver import Solver, singular
from eindiff.structure.terms import Array, Term, identity

Key = tuple  # what a matrix is made of; equal keys are equal matrices


@dataclass(frozen=True, slots=True)
class Factor:
    """The matrix of a term for one group of axes: a sum of small terms. No key means the identity."""

    key: Key
    terms: tuple[Term, ...]

    def dense(self, rows: int, dtype: np.dtype) -> tuple[Array, float]:
        """The matrix, and the sum of the norms of its terms."""
        if not self.key:
            return np.eye(rows, dtype=dtype), 1.0
        total, size = np.zeros((rows, rows), dtype), 0.0
        for term in self.terms:
            part = term.to_dense().reshape(rows, rows)
            total += part
            size += float(np.linalg.norm(part))
        return total, size

    def factorization(self, matrix: Array) -> Factorization:
        """The factorization of the matrix; the inverse of another one is used as that."""
        if len(self.terms) == 1 and (inverted := self.terms[0].inverted()) is not None:
            return Inverse(matrix, inverted.to_dense()[None], self.terms[0].coefficient)
        return factorize(matrix, None)


@dataclass(frozen=True, slots=True)
class Product:
    """A multiple of a Kronecker product of factors, one for each group."""

    coefficient: float
    factors: tuple[Factor, ...]


def groups_of_axes(core: Core) -> list[tuple[int, ...]]:
    """The finest groups of axes such that each term is a product over groups."""
    half = len(core.dims)
    sets = UnionFind()
    for term in core.terms:
        members = [set(labels) for labels in term.labels]
        members += [{term.output[axis], term.output[half + axis]} for axis in range(half)]
        for group in components(members):
            axes = [k - len(term.labels) for k in group if k >= len(term.labels)]
            for axis in axes:
                sets.unite(axes[0], axis)
    return [tuple(axes) for axes in grouped((sets.find(axis), axis) for axis in range(half)).values()]


def products_of(core: Core, groups: Sequence[tuple[int, ...]]) -> list[Product]:
    """The terms as Kronecker products over groups of axes; products that differ in one factor are added up."""
    return added_up([_product(term, groups) for term in core.terms])


def products_with(products: Sequence[Product], sizes: tuple[int, int], dtype: np.dtype) -> Callable[[Array], Array]:
    """The function of a flat vector X that is `Σ c A X B'`: all that is multiplied from one side at once."""
    found = by_sides(products)

    def matrices(sides: tuple[bool, bool], which: int) -> list[Array]:
        return [p.factors[which].dense(sizes[which], dtype)[0] for p in found[sides]]

    def scaled(sides: tuple[bool, bool], which: int) -> list[Array]:
        return [p.coefficient * A for p, A in zip(found[sides], matrices(sides, which), strict=True)]

    number = sum(p.coefficient for p in found[False, False])
    alone, left, right = scaled((True, False), 0), scaled((True, True), 0), scaled((False, True), 1)
    by_left = np.concatenate([np.zeros((0, sizes[0]), dtype), *alone, *left])
    by_right = np.concatenate([np.zeros((0, sizes[1]), dtype), *(B.T for B in matrices((True, True), 1) + right)])

    def apply(x: Array) -> Array:
        X = x.reshape(sizes)
        parts = (by_left @ X).reshape(-1, *sizes)
        total = number * X + sum(parts[: len(alone)])
        both = [*parts[len(alone) :], *[X] * len(right)]
        return (total + np.concatenate(both, axis=1) @ by_right if both else total).reshape(-1)

    return apply


def by_sides(products: Sequence[Product]) -> dict[tuple[bool, bool], list[Product]]:
    """Products of two factors by which of them are no identities."""
    found: dict[tuple[bool, bool], list[Product]] = defaultdict(list)
    for one in products:
        first, second = one.factors
        found[bool(first.key), bool(second.key)].append(one)
    return found


def added_up(products: list[Product]) -> list[Product]:
    """Products of which no two differ in one factor only."""
    merged = True
    while merged:
        merged = False
        for i, one in enumerate(products):
            for j, other in enumerate(products[:i]):
                if (total := _sum(one, other)) is not None:
                    products = [p for k, p in enumerate(products) if k not in (i, j)] + [total]
                    merged = True
                    break
            if merged:
                break
    return products


def _product(term: Term, groups: Sequence[tuple[int, ...]]) -> Product:
    half = len(term.output) // 2
    connected = components([*term.labels, *([term.output[a], term.output[half + a]] for a in range(half))])
    count = len(term.labels)
    coefficient = term.coefficient
    factors = []
    for group in groups:
        own = sorted(k for part in connected if any(k - count in group for k in part) for k in part if k < count)
        output = tuple([term.output[a] for a in group] + [term.output[half + a] for a in group])
        part = term.part(own, output)
        if not own and all(has_delta(part, axis) for axis in range(len(group))):
            factors.append(Factor((), ()))
        else:
            factors.append(Factor(_key(part), (part,)))
    for members in connected:
        if all(k < count for k in members):  # a number
            coefficient *= float(term.part(sorted(members), ()).to_dense())
    return Product(coefficient, tuple(factors))


def _key(part: Term) -> tuple:
    """What tells factors apart: their arrays, and labels in the order in which they appear."""
    names = first_appearance([*part.labels, part.output])
    labels = tuple([tuple([names[x] for x in ls]) for ls in part.labels])
    return tuple([id(x) for x in part.arrays]), labels, tuple([names[x] for x in part.output])


def _sum(one: Product, other: Product) -> Product | None:
    """Two products with all factors but one in common, as one product."""
    differing = [g for g, (a, b) in enumerate(zip(one.factors, other.factors, strict=True)) if a.key != b.key]
    if len(differing) > 1:
        return None
    if not differing:
        return Product(one.coefficient + other.coefficient, one.factors)
    [g] = differing
    terms: list[Term] = []
    keys = []
    for product in (one, other):
        factor = product.factors[g]
        parts = factor.terms or (_unit_like(one.factors[g], other.factors[g]),)
        terms += [part.scaled(product.coefficient) for part in parts]
        keys.append((product.coefficient, factor.key))
    total = Factor(("sum", *sorted(keys, key=repr)), tuple(terms))
    return Product(1.0, (*one.factors[:g], total, *one.factors[g + 1 :]))


def _unit_like(*factors: Factor) -> Term:
    [known] = [factor for factor in factors if factor.terms]
    shape = known.terms[0].shape
    return identity(shape[: len(shape) // 2])


class Kronecker(Solver):
    """What the two solvers for Kronecker products share."""

    def __init__(self, core: Core, groups: Sequence[tuple[int, ...]], products: Sequence[Product]) -> None:
        self.size = core.size
        self._core = core
        self._groups = groups
        self._order = [axis for group in groups for axis in group]
        self._sizes = [prod(core.dims[axis] for axis in group) for group in groups]
        self._products = products
        self.nbytes = 4 * sum(size**2 for size in self._sizes) * core.dtype.itemsize

    def _grouped(self, x: Array) -> Array:
        """Right-hand sides with one axis for each group."""
        return turned(x, self._core.dims, self._order).reshape(*self._sizes, x.shape[-1])

    def _ungrouped(self, x: Array) -> Array:
        return turned_back(x.reshape(1, self._core.size, x.shape[-1]), self._core.dims, self._order)

    def _matrix(self, factor: Factor, group: int) -> tuple[Array, float]:
        return factor.dense(self._sizes[group], self._core.dtype)

    def _term(self, coefficient: float, matrices: Sequence[Array]) -> Term:
        """A Kronecker product of matrices as a term."""
        half = len(self._core.dims)
        arrays, labels = [], []
        for matrix, group in zip(matrices, self._groups, strict=True):
            sizes = [self._core.dims[axis] for axis in group]
            arrays.append(matrix.reshape(sizes + sizes))
            labels.append((*group, *(half + axis for axis in group)))
        sizes_of = dict(enumerate(self._core.dims * 2))
        return Term(coefficient, tuple(arrays), tuple(labels), tuple(range(2 * half)), sizes_of)


def _along(matrix: Array, axis: int, x: Array) -> Array:
    """The product of a matrix with a tensor along one of its axes."""
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)


class KroneckerProduct(Kronecker):
    """One Kronecker product: a factorization of each matrix."""

    word = "Kronecker product"
    uses_inverses = True
    method = "a factorization of each factor"

    def __init__(self, core: Core, groups: Sequence[tuple[int, ...]], products: Sequence[Product]) -> None:
        super().__init__(core, groups, products)
        self.formula = " ⊗ ".join(f"core({n}×{n})" for n in self._sizes)
        self.flops = sum(n**3 / 3 + 2 * core.size * n for n in self._sizes)

    @cached_property
    def _matrices(self) -> list[tuple[Array, float]]:
        return [self._matrix(factor, g) for g, factor in enumerate(self._products[0].factors)]

    @cached_property
    def _factorizations(self) -> list[Factorization]:
        factors = self._products[0].factors
        return [factor.factorization(x[None]) for factor, (x, _) in zip(factors, self._matrices, strict=True)]

    @cached_property
    def is_exact(self) -> bool:
        """Whether no digits are lost when the matrices are formed: their parts do not cancel."""
        return all(size <= CANCELLED * np.linalg.norm(x) for x, size in self._matrices)

    def norms(self) -> tuple[float, float]:
        parts = prod(size for _, size in self._matrices)
        inverse = prod(float(f.inverse_norms[0]) for f in self._factorizations)
        return abs(self._coefficient) * parts, inverse / abs(self._coefficient)

    def condition(self) -> float:
        """The largest of a factor, since each is solved with by itself."""
        pairs = zip(self._matrices, self._factorizations, strict=True)
        return max(size * float(f.inverse_norms[0]) for (_, size), f in pairs)

    @property
    def _coefficient(self) -> float:
        if self._products[0].coefficient == 0:
            raise singular("the operator is zero")
        return self._products[0].coefficient

    def solve(self, b: Array) -> Array:
        x = self._grouped(b)
        for g, factorization in enumerate(self._factorizations):
            front = np.moveaxis(x, g, 0)
            x = np.moveaxis(factorization.solve(front.reshape(1, len(front), -1)).reshape(front.shape), 0, g)
        return self._ungrouped(x / self._coefficient)

    def logdet(self) -> tuple[float, float]:
        size = self._core.size
        sign, value = np.sign(self._coefficient) ** size, size * np.log(abs(self._coefficient))
        for n, factorization in zip(self._sizes, self._factorizations, strict=True):
            one, log = factorization.logdet()
            sign, value = sign * one ** (size // n), value + size // n * log
        return float(sign), float(value)

    def is_definite(self) -> bool:
        """Each factor, or its negative, has to be; an even number of signs cancels."""
        sign = np.sign(self._coefficient)
        for factorization, (matrix, _) in zip(self._factorizations, self._matrices, strict=True):
            if not factorization.is_definite:
                if not is_symmetric(matrix[None]) or np.linalg.eigvalsh(matrix)[-1] >= 0:
                    return False
                sign = -sign
        return bool(sign > 0)

    def eigvals(self) -> Array:
        values = np.array([self._products[0].coefficient])
        for matrix, _ in self._matrices:
            own = np.linalg.eigvalsh(matrix) if is_symmetric(matrix[None]) else np.linalg.eigvals(matrix)
            values = np.multiply.outer(values, own).ravel()
        return values

    def inverse(self) -> list[Term]:
        units = [np.eye(n, dtype=self._core.dtype)[None] for n in self._sizes]
        inverses = [f.solve(unit)[0] for f, unit in zip(self._factorizations, units, strict=True)]
        return [self._term(1 / self._coefficient, inverses)]

    def cholesky(self) -> list[Term]:
        factors = [f.factor[0] for f in self._factorizations if isinstance(f, Triangular)]
        if len(factors) < len(self._sizes) or self._coefficient < 0:
            raise EindiffError(
                "there is no Cholesky factor: a factor of the product is not positive definite", "systems"
            )
        return [self._term(self._coefficient**0.5, factors)]


@dataclass(frozen=True, slots=True)
class _Basis:
    """`left' M right = diag(values)` for each matrix M of a group."""

    left: Array
    right: Array
    values: dict[Key, Array]
    congruent: bool  # left is right, which keeps signs of eigenvalues
    orthogonal: bool  # and their values


class KroneckerSum(Kronecker):
    """A sum of Kronecker products that are diagonal in the same basis."""

    word = "Kronecker sum"
    method = "eigenvectors of each factor"
    is_exact = False

    def __init__(self, core: Core, groups: Sequence[tuple[int, ...]], products: Sequence[Product]) -> None:
        super().__init__(core, groups, products)
        self.formula = " + ".join(
            " ⊗ ".join(f"core({n}×{n})" if f.key else f"I({n})" for f, n in zip(p.factors, self._sizes, strict=True))
            for p in products
        )
        self.flops = sum(10 * n**3 + 4 * core.size * n for n in self._sizes)
        self.nbytes += core.size * core.dtype.itemsize
        self._norms: list[dict[Key, float]] = []  # of the matrices of each group

    @cached_property
    def _bases(self) -> list[_Basis]:
        found = []
        for g in range(len(self._sizes)):
            factors = list({p.factors[g].key: p.factors[g] for p in self._products}.values())
            factors.sort(key=lambda factor: not factor.key)  # the identity is last
            matrices = [self._matrix(factor, g) for factor in factors]
            self._norms.append({factor.key: size for factor, (_, size) in zip(factors, matrices, strict=True)})
            found.append(_basis([factor.key for factor in factors], [matrix for matrix, _ in matrices]))
        return found

    @cached_property
    def _diagonal(self) -> Array:
        """The operator in the basis of all eigenvectors."""
        total = np.zeros(self._sizes, np.result_type(*(v for b in self._bases for v in b.values.values())))
        for p in self._products:
            value = np.asarray(p.coefficient)
            for basis, factor in zip(self._bases, p.factors, strict=True):
                value = np.multiply.outer(value, basis.values[factor.key])
            total += value
        return total

    @cached_property
    def _values(self) -> Array:
        """The diagonal, as something that can be divided by."""
        return nonzero(self._diagonal, np.abs(self._diagonal).max(initial=0.0))

    def norm(self) -> float | None:
        is_known = all(basis.orthogonal for basis in self._bases)
        return float(np.abs(self._diagonal).max(initial=0.0)) if is_known else None

    def norms(self) -> tuple[float, float]:
        sides = [vectors for basis in self._bases if not basis.orthogonal for vectors in (basis.left, basis.right)]
        inverse = prod(float(np.linalg.norm(x)) for x in sides) / float(np.abs(self._values).min(initial=np.inf))
        products = [prod(n[f.key] for n, f in zip(self._norms, p.factors, strict=True)) for p in self._products]
        return sum(abs(p.coefficient) * n for p, n in zip(self._products, products, strict=True)), inverse

    def solve(self, b: Array) -> Array:
        x = self._grouped(b)
        for g, basis in enumerate(self._bases):
            x = _along(basis.left.conj().T, g, x)
        x = x / self._values[..., None]
        for g, basis in enumerate(self._bases):
            x = _along(basis.right, g, x)
        return self._ungrouped(x.real)

    def logdet(self) -> tuple[float, float]:
        values = self._values
        phase, log = complex(np.prod(values / np.abs(values))), float(np.log(np.abs(values)).sum())
        for n, basis in zip(self._sizes, self._bases, strict=True):
            for vectors in (basis.left.conj(), basis.right):
                one, value = np.linalg.slogdet(vectors)
                phase /= one ** (self._core.size // n)
                log -= self._core.size // n * float(value)
        return float(np.sign(phase.real)), log

    def is_definite(self) -> bool:
        return all(basis.congruent for basis in self._bases) and bool((self._values > 0).all())

    def eigvals(self) -> Array:
        if not all(basis.orthogonal for basis in self._bases):
            return super().eigvals()
        return self._diagonal.ravel()

    def inverse(self) -> list[Term]:
        """`(⊗ Z) diag(1/λ) (⊗ Y')`: it stays factored."""
        if not all(basis.congruent for basis in self._bases):
            return super().inverse()
        half = len(self._core.dims)
        arrays: list[Array] = [1 / self._values]
        labels = [tuple(2 * half + g for g in range(len(self._groups)))]
        for g, (basis, group) in enumerate(zip(self._bases, self._groups, strict=True)):
            array = basis.right.reshape(*(self._core.dims[axis] for axis in group), -1)
            arrays += [array, array]
            labels += [(*group, 2 * half + g), (*(half + axis for axis in group), 2 * half + g)]
        sizes = dict(enumerate([*self._core.dims, *self._core.dims, *self._sizes]))
        return [Term(1.0, tuple(arrays), tuple(labels), tuple(range(2 * half)), sizes)]


def _basis(keys: Sequence[Key], matrices: Sequence[Array]) -> _Basis:
    """The vectors that make one or two matrices diagonal."""
    one = matrices[0]
    orthogonal = len(keys) == 1 or not keys[1]
    if orthogonal and is_symmetric(one[None]):
        values, vectors = np.linalg.eigh(symmetrized(one[None])[0])
        return _Basis(vectors, vectors, dict(zip(keys, (values, np.ones_like(values)), strict=False)), True, True)
    other = matrices[1] if len(matrices) > 1 else one
    if not orthogonal and is_symmetric(one[None]) and is_symmetric(other[None]):
        one, other = symmetrized(one[None])[0], symmetrized(other[None])[0]
        for first, second, order in ((one, other, keys), (other, one, keys[::-1])):
            try:
                values, vectors = linalg.eigh(first, second)
            except np.linalg.LinAlgError:  # the second one is not positive definite
                continue
            diagonals = (values, np.ones_like(values))
            return _Basis(vectors, vectors, dict(zip(order, diagonals, strict=False)), True, False)
    _, left, right = linalg.eig(one, None if orthogonal else other, left=True, right=True)
    known = {key: np.einsum("ia,ij,ja->a", left.conj(), m, right) for key, m in zip(keys, matrices, strict=True)}
    return _Basis(left, right, known, False, False)
