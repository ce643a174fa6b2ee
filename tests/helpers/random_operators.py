"""Operators from patterns in the notation of einsum, and families of random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from eindiff.structure.derivative import Derivative
from eindiff.structure.grid import Grid
from eindiff.structure.solvers.solver import Known
from eindiff.structure.terms import Term, identity
from operator_checks import Array, Random, dense_grid

Shape = tuple[int, ...]


# Single operators


def single(dims: Shape, terms: Sequence[Term], facts: Known | None = None) -> Derivative:
    """A square operator on tensors of one shape."""
    return Derivative(Grid((dims,), (dims,), ((tuple(terms),),), np.dtype(float)), facts or Known(), "Hessian")


def pattern(text: str, *arrays: Array, coefficient: float = 1.0, **sizes: int) -> Term:
    """A term from its pattern in the notation of einsum."""
    inputs, output = text.split("->")
    known = {ord(label): size for label, size in sizes.items()}
    labels = tuple(tuple(map(ord, part)) for part in inputs.split(",")) if arrays else ()
    for array, own in zip(arrays, labels, strict=True):
        known |= dict(zip(own, array.shape, strict=True))
    return Term(coefficient, arrays, labels, tuple(map(ord, output)), known)


def single_precision(H: Derivative) -> Derivative:
    """The operator with its arrays in float32."""
    grid = H._grid
    terms = tuple(
        tuple(tuple(replace(t, arrays=tuple(a.astype(np.float32) for a in t.arrays)) for t in block) for block in line)
        for line in grid.terms
    )
    return Derivative(replace(grid, terms=terms, dtype=np.dtype(np.float32)), H._facts, H.name)


# Random terms and matrices


def random_shape(rng: Random, most: int = 3) -> Shape:
    return tuple(int(n) for n in rng.integers(1, 5 - most // 3, rng.integers(1, most + 1)))


def random_term(rng: Random, rows: Shape, cols: Shape, pool: list[Array]) -> Term:
    """Any pattern: deltas that are aligned or crossed, repeated, unbound and contracted labels, arrays used again."""
    sizes: dict[int, int] = {}
    output: list[int] = []
    for axis, size in enumerate(rows + cols):
        aligned = axis - len(rows)
        same = [label for label in output if sizes[label] == size]
        if axis >= len(rows) and aligned < len(rows) and sizes[output[aligned]] == size and rng.random() < 0.5:
            output.append(output[aligned])
        elif same and rng.random() < 0.2:
            output.append(int(rng.choice(same)))
        else:
            sizes[len(sizes)] = size
            output.append(len(sizes) - 1)
    for _ in range(rng.integers(0, 3)):
        sizes[len(sizes)] = int(rng.integers(1, 4))
    arrays, labels = [], []
    for _ in range(rng.integers(0, 4)):
        own = [int(x) for x in rng.choice(list(sizes), rng.integers(0, min(4, len(sizes) + 1)), replace=False)]
        if len(own) > 1 and rng.random() < 0.1 and sizes[own[0]] == sizes[own[1]]:
            own[1] = own[0]
        shape = tuple(sizes[x] for x in own)
        known = [array for array in pool if array.shape == shape]
        if not known or rng.random() < 0.5:
            pool.append(rng.normal(size=shape))
            known = pool[-1:]
        arrays.append(known[rng.integers(len(known))])
        labels.append(tuple(own))
    coefficient = float(rng.choice([1.0, -1.0, 0.5, 2.0, 0.0], p=[0.5, 0.2, 0.15, 0.12, 0.03]))
    return Term(coefficient, tuple(arrays), tuple(labels), tuple(output), sizes)


def gram(rng: Random, n: int) -> Array:
    factor = rng.normal(size=(n, n))
    return factor @ factor.T / n + 0.5 * np.eye(n)


def random_matrix(rng: Random, n: int) -> Array:
    """Of some kind: definite, negative, symmetric, any, with equal eigenvalues, without enough eigenvectors."""
    kind = rng.integers(7)
    q = rng.normal(size=(n, n))
    if kind == 0:
        return gram(rng, n)
    if kind == 1:
        return -gram(rng, n)
    if kind == 2:
        return q + q.T
    if kind == 3:
        return q + 2 * np.eye(n)
    if kind == 4:  # equal eigenvalues, not symmetric
        return q @ np.diag(np.where(np.arange(n) < 2, 1.0, 2.0)) @ np.linalg.inv(q)
    if kind == 5:  # one eigenvector
        return np.diag(np.full(n, 2.0)) + np.diag(np.ones(n - 1), 1)
    return np.diag(rng.uniform(0.5, 2, n))


# Families


def any_terms(rng: Random) -> Derivative:
    """A few terms of any pattern, and sometimes enough of the identity."""
    dims, pool = random_shape(rng), []
    terms = [random_term(rng, dims, dims, pool) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.6:
        terms.append(identity(dims, float(rng.uniform(2, 9))))
    return single(dims, terms)


def symmetric_terms(rng: Random) -> Derivative:
    """Each term and its transpose, made definite or not."""
    dims, pool = random_shape(rng), []
    terms = [random_term(rng, dims, dims, pool) for _ in range(rng.integers(1, 3))]
    terms += [term.transposed(len(dims)) for term in terms]
    terms.append(identity(dims, float(rng.choice([0.5, 3.0, 20.0]))))
    return single(dims, terms, Known(True) if rng.random() < 0.5 else None)


def kronecker_product(rng: Random) -> Derivative:
    """A ⊗ B, or A ⊗ B ⊗ C, in one term."""
    dims = tuple(int(n) for n in rng.integers(1, 4, rng.integers(2, 4)))
    half = len(dims)
    arrays = tuple(random_matrix(rng, n) for n in dims)
    labels = tuple((axis, half + axis) if rng.random() < 0.7 else (half + axis, axis) for axis in range(half))
    term = Term(float(rng.choice([1, -1, 3])), arrays, labels, tuple(range(2 * half)), dict(enumerate(dims * 2)))
    return single(dims, [term])


def kronecker_sum(rng: Random) -> Derivative:
    """Sums of products of no more than two matrices an axis, one of which may be the identity."""
    dims = tuple(int(n) for n in rng.integers(1, 5, rng.integers(2, 4)))
    half = len(dims)
    kinds = [[random_matrix(rng, n), None if rng.random() < 0.6 else random_matrix(rng, n)] for n in dims]
    terms = []
    for k in range(rng.integers(2, half + 2)):
        arrays, labels, output = [], [], list(range(2 * half))
        for axis in range(half):
            chosen = kinds[axis][int(axis != k % half)]
            if chosen is None:
                output[half + axis] = axis
            else:
                arrays.append(chosen)
                labels.append((axis, half + axis))
        coefficient = float(rng.uniform(0.5, 2))
        terms.append(Term(coefficient, tuple(arrays), tuple(labels), tuple(output), dict(enumerate(dims * 2))))
    return single(dims, terms)


def stacked_low_rank(rng: Random) -> Derivative:
    """A diagonal, or blocks, and low rank, for each index of a batch axis that may be any axis, or none."""
    stack, n, rank = (int(x) for x in rng.integers(1, 5, 3))
    terms = [pattern("si->sisi", rng.uniform(0.5, 2, (stack, n)))]
    if rng.random() < 0.3:
        terms = [pattern("sij->sisj", np.stack([gram(rng, n) for _ in range(stack)]))]
    for _ in range(rng.integers(1, 3)):
        u = rng.normal(size=(stack, n, rank))
        v = u if rng.random() < 0.5 else rng.normal(size=(stack, n, rank))
        if rng.random() < 0.3:  # the same for each index
            terms.append(pattern("ir,jr->sisj", u[0], v[0], s=stack))
        else:
            terms.append(pattern("sir,sjr->sisj", u, v))
    order = rng.permutation(2)
    dims = tuple(int((stack, n)[axis]) for axis in order)
    turned = [replace(t, output=tuple(t.output[half + a] for half in (0, 2) for a in order)) for t in terms]
    if rng.random() < 0.3:  # an axis in front along which it is the identity
        turned = [replace(t, output=(1, *t.output[:2], 1, *t.output[2:]), sizes={**t.sizes, 1: 2}) for t in turned]
        dims = (2, *dims)
    return single(dims, turned)


def several_variables(rng: Random) -> Derivative:
    """Grids of two or three variables: with zero blocks, symmetric or not."""
    shapes = [random_shape(rng, 2) for _ in range(rng.integers(2, 4))]
    pool: list[Array] = []
    symmetric = rng.random() < 0.7
    count = len(shapes)
    terms: list[list[tuple[Term, ...]]] = [[()] * count for _ in shapes]
    for i in range(count):
        axes = "abc"[: len(shapes[i])]
        own = [pattern(f"{axes}->{axes}{axes}", rng.uniform(3, 9, shapes[i]))]
        more = [random_term(rng, shapes[i], shapes[i], pool) for _ in range(rng.integers(0, 2))]
        own += more + [t.transposed(len(shapes[i])) for t in more if symmetric]
        terms[i][i] = () if rng.random() < 0.1 else tuple(own)
        for j in range(i):
            beside = tuple(random_term(rng, shapes[i], shapes[j], pool) for _ in range(rng.integers(0, 3)))
            terms[i][j] = beside
            terms[j][i] = tuple(t.transposed(len(shapes[i])) for t in beside)
            if not symmetric:
                terms[j][i] = tuple(random_term(rng, shapes[j], shapes[i], pool) for _ in range(rng.integers(0, 2)))
    rows = tuple(shapes)
    grid = Grid(rows, rows, tuple(map(tuple, terms)), np.dtype(float))
    return Derivative(grid, Known(True) if symmetric and rng.random() < 0.5 else Known(), "Hessian")


def semidefinite(rng: Random) -> Derivative:
    """A A' of any shape, known to be semidefinite, and some of the identity."""
    dims, rank = random_shape(rng), int(rng.integers(1, 4))
    factor = rng.normal(size=(*dims, rank))
    rows, cols = "abc"[: len(dims)], "def"[: len(dims)]
    terms = [pattern(f"{rows}r,{cols}r->{rows}{cols}", factor, factor), identity(dims, float(rng.uniform(0.1, 2)))]
    return single(dims, terms, Known(True, True))


FAMILIES: dict[str, Callable[[Random], Derivative]] = {
    maker.__name__: maker
    for maker in (
        any_terms, symmetric_terms, semidefinite, kronecker_product, kronecker_sum, stacked_low_rank, several_variables,
    )
}  # fmt: skip


def made(family: str, seed: int) -> tuple[Derivative, Array, Random]:
    """An operator of a family, its matrix, and more random numbers."""
    rng = np.random.default_rng([seed, *family.encode()])
    operator = FAMILIES[family](rng)
    return operator, dense_grid(operator._grid), rng
