"""Random operators and expressions against dense matrices that are formed independently, with explicit deltas.

What a solver cannot do is an `EindiffError`; whatever it gives has to be right. Seeds are in the names of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax
import numpy as np
import pytest

import eindiff as ed
from eindiff.errors import EindiffError
from eindiff.evaluate import evaluate
from eindiff.operators import derivative as derivative_module
from eindiff.operators import iterative
from eindiff.operators.careful import Careful
from eindiff.operators.choose import candidates
from eindiff.operators.derivative import Derivative
from eindiff.operators.grid import Grid
from eindiff.operators.solver import Facts, Solver
from eindiff.operators.terms import Term, identity
from grammar import OPERATIONS, Example, array_of, examples, names_in, run, variable_of
from oracles import JAX, jit

Array = np.ndarray
Shape = tuple[int, ...]
Random = np.random.Generator

PRODUCTS = 1e-10
SYSTEMS = 1e-8
WELL_CONDITIONED = 1e5
SINGULAR = 1e17
SEEDS = (*range(8), 10, 12, 13, 15, 18)


# The reference


def dense_term(term: Term) -> Array:
    """All entries of a term: each axis of the output is joined to its label by a matrix of deltas."""
    operands: list[Any] = []
    names = {label: k for k, label in enumerate(term.sizes)}
    for array, labels in zip(term.arrays, term.labels, strict=True):
        operands += [array, [names[label] for label in labels]]
    axes = [len(names) + axis for axis in range(len(term.output))]
    for axis, label in zip(axes, term.output, strict=True):
        operands += [np.eye(term.sizes[label]), [names[label], axis]]
    return term.coefficient * (np.einsum(*operands, axes) if operands else np.asarray(1.0))


def dense_grid(grid: Grid) -> Array:
    """The matrix of a grid."""
    return np.block([
        [sum((dense_term(t).reshape(prod(rows), prod(cols)) for t in block), np.zeros((prod(rows), prod(cols))))
         for cols, block in zip(grid.cols, line, strict=True)]
        for rows, line in zip(grid.rows, grid.terms, strict=True)
    ])  # fmt: skip


def near(actual: Any, expected: Any, rtol: float, what: str = "", scale: float = 0.0) -> None:
    """Equal shapes, and entries equal relative to the largest one, or to a scale that is larger."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape} instead of {expected.shape}"
    error = np.abs(actual - expected).max(initial=0.0)
    scale = max(scale, np.abs(expected).max(initial=0.0))
    assert error <= rtol * scale, f"{what}: error {error:.1e} at a scale of {scale:.1e}"


def condition(matrix: Array) -> float:
    """The condition number."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return float(values[0] / values[-1]) if len(values) and values[-1] > 0 else np.inf if len(values) else 1.0


# Random operators


def single(dims: Shape, terms: Sequence[Term], facts: Facts | None = None) -> Derivative:
    """A square operator on tensors of one shape."""
    return Derivative(Grid((dims,), (dims,), ((tuple(terms),),), np.dtype(float)), facts or Facts(), "Hessian")


def pattern(text: str, *arrays: Array, coefficient: float = 1.0, **sizes: int) -> Term:
    """A term from its pattern in the notation of einsum."""
    inputs, output = text.split("->")
    known = {ord(label): size for label, size in sizes.items()}
    labels = tuple(tuple(map(ord, part)) for part in inputs.split(",")) if arrays else ()
    for array, own in zip(arrays, labels, strict=True):
        known |= dict(zip(own, array.shape, strict=True))
    return Term(coefficient, arrays, labels, tuple(map(ord, output)), known)


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
    return single(dims, terms, Facts(True) if rng.random() < 0.5 else None)


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
    return Derivative(grid, Facts(True) if symmetric and rng.random() < 0.5 else Facts(), "Hessian")


def semidefinite(rng: Random) -> Derivative:
    """A A' of any shape, known to be semidefinite, and some of the identity."""
    dims, rank = random_shape(rng), int(rng.integers(1, 4))
    factor = rng.normal(size=(*dims, rank))
    rows, cols = "abc"[: len(dims)], "def"[: len(dims)]
    terms = [pattern(f"{rows}r,{cols}r->{rows}{cols}", factor, factor), identity(dims, float(rng.uniform(0.1, 2)))]
    return single(dims, terms, Facts(True, True))


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


# What is checked of each operator


def flat(parts: Any) -> Array:
    """One vector of an array or of a list of arrays."""
    return np.concatenate([np.ravel(x) for x in parts]) if isinstance(parts, list) else np.ravel(parts)


def attempt(ask: Callable[[], Any]) -> Any:
    """The result, or the error if it is one of this package."""
    try:
        return ask()
    except EindiffError as error:
        return error


def check_products(H: Derivative, M: Array, rng: Random, rtol: float = PRODUCTS) -> None:
    """Everything that does not solve."""
    n, scale = M.shape[1], np.abs(M).sum()
    v, w, V = rng.normal(size=n), rng.normal(size=len(M)), rng.normal(size=(n, 3))
    near(H.as_matrix(), M, rtol, "as_matrix")
    near(flat(H.mv(v)), M @ v, rtol, "mv", scale)
    near(H @ V, M @ V, rtol, "@ matrix", scale)
    near(H.T.as_matrix(), M.T, rtol, "T")
    near(flat(w @ H), w @ M, rtol, "vector @", scale)
    near(np.vdot(w, flat(H.mv(v))), np.vdot(flat(H.T.mv(w)), v), rtol, "adjoint", n * scale)
    near((2 * H).as_matrix(), 2 * M, rtol, "scaled")
    near(H.frobenius_norm(), np.linalg.norm(M), rtol, "norm")
    if H._is_square:
        near((2 * H - H.T * 0.25 + H).as_matrix(), 3 * M - 0.25 * M.T, rtol, "sums")
        near(flat(H.diagonal()), np.diag(M), rtol, "diagonal", np.abs(M).max())
        near(H.trace(), np.trace(M), rtol, "trace", scale)
        near(H.damped(0.75).as_matrix(), M + 0.75 * np.eye(n), rtol, "damped")
    if H._is_single:
        near(H.as_tensor(), M.reshape(H.shape), rtol, "as_tensor")
        x = rng.normal(size=H.cols)
        near(H @ x, (M @ x.ravel()).reshape(H.rows), rtol, "@ tensor", scale)
        cut = int(rng.integers(0, len(H.shape) + 1))
        near(H.operator(cut).as_matrix(), M.reshape(prod(H.shape[:cut]), -1), rtol, "operator")
    else:
        near(np.block([[block.as_matrix() for block in line] for line in H.blocks]), M, rtol, "blocks")


def check_solver(solver: Solver, H: Derivative, M: Array, rng: Random) -> None:
    """One way to solve: each result is right, or an error of the package."""
    n, name = len(M), f"{type(getattr(solver, 'core', solver)).__name__} ({solver.word})"
    size = condition(M)
    b = rng.normal(size=(n, 2))
    x = attempt(lambda: Careful([solver], H._grid).solve(b))
    if not isinstance(x, EindiffError):
        assert np.isrealobj(x)
        residual = np.linalg.norm(M @ x - b) / (np.linalg.norm(M) * np.linalg.norm(x) + np.linalg.norm(b))
        assert residual <= SYSTEMS, f"{name}: relative residual {residual:.1e}, condition {size:.1e}"
        assert size < SINGULAR, f"{name}: solved a singular system, condition {size:.1e}"
        if size < WELL_CONDITIONED:
            near(x, np.linalg.solve(M, b), SYSTEMS, f"{name}: solve")
    if size < WELL_CONDITIONED:
        check_factorization(solver, H, M, name)


def check_factorization(solver: Solver, H: Derivative, M: Array, name: str) -> None:
    """Determinant, sign, inverse, Cholesky factor and eigenvalues of a system that can be solved."""
    sign, value = np.linalg.slogdet(M)
    careful = Careful([solver], H._grid)
    found = attempt(lambda: careful.ask(lambda one: one.logdet()))
    if not isinstance(found, EindiffError):
        assert found[0] == sign, f"{name}: sign of the determinant"
        near(found[1], value, SYSTEMS, f"{name}: logdet", 1.0)
    symmetric = np.abs(M - M.T).max(initial=0.0) <= 1e-13 * np.abs(M).max(initial=0.0)
    values = np.linalg.eigvalsh(M) if symmetric else np.linalg.eigvals(M)
    found = attempt(lambda: careful.ask(lambda one: one.is_definite()))
    if symmetric and not isinstance(found, EindiffError):
        assert bool(found) == bool((values > 0).all()), f"{name}: is_definite() is {found}"
    found = attempt(solver.eigvals)
    if not isinstance(found, EindiffError):
        if symmetric:
            near(np.sort(found), values, SYSTEMS, f"{name}: eigvals")
        scale = np.abs(values).max()
        powers = [[(x**k).sum() for k in range(1, 5)] for x in (found / scale, values / scale)]
        near(powers[0], powers[1], SYSTEMS, f"{name}: eigvals", 1.0)  # the same numbers in any order
    found = attempt(lambda: careful.ask(lambda one: one.inverse()))
    if H._is_single and not isinstance(found, EindiffError):
        near(dense_like(H, found), np.linalg.inv(M), SYSTEMS, f"{name}: inverse")
    found = attempt(solver.cholesky)
    if H._is_single and not isinstance(found, EindiffError):
        L = dense_like(H, found)
        near(L @ L.T, M, SYSTEMS, f"{name}: Cholesky factor")
        near(np.triu(L, 1), np.zeros_like(L), 1e-12, f"{name}: Cholesky factor is triangular", 1.0)


def dense_like(H: Derivative, terms: Sequence[Term]) -> Array:
    """The matrix of some terms, with the rows and columns of another operator."""
    return dense_grid(Grid(H._grid.rows, H._grid.cols, ((tuple(terms),),), H.dtype))


def check_solve(H: Derivative, M: Array, rng: Random) -> None:
    """What people call: a system that can be solved is solved, a singular one is refused."""
    n = len(M)
    for damping in (0.0, 0.7):
        D = M + damping * np.eye(n)
        b, size = rng.normal(size=(n, 2)), condition(D)
        x = attempt(lambda damping=damping, b=b: H.solve(b, damping))
        if size < WELL_CONDITIONED:
            assert not isinstance(x, EindiffError), f"condition {size:.1e}, but: {x}"
            near(x, np.linalg.solve(D, b), SYSTEMS, "solve")
            near(flat(H.solve(b[:, 0], damping)), np.linalg.solve(D, b[:, 0]), SYSTEMS, "solve one")
            sign, value = np.linalg.slogdet(D)
            found = H.slogdet(damping)
            assert found[0] == sign
            near(found[1], value, SYSTEMS, "slogdet", 1.0)
            symmetric = np.abs(D - D.T).max() <= 1e-13 * np.abs(D).max()
            definite = bool(symmetric and (np.linalg.eigvalsh(D) > 0).all())
            assert H.is_definite(damping) == definite, "is_definite"
            inverse = attempt(lambda damping=damping: H.inverse(damping))
            if not isinstance(inverse, EindiffError):
                check_products(inverse, np.linalg.inv(D), rng, SYSTEMS)
        elif size > SINGULAR:
            assert isinstance(x, EindiffError), f"a singular system is solved, condition {size:.1e}"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_products(family, seed):
    H, M, rng = made(family, seed)
    check_products(H, M, rng)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_norm_without_the_matrix(family, seed, monkeypatch):
    """The norm from contractions of pairs of terms, of an operator and of its inverse, whose labels are others."""
    monkeypatch.setattr(derivative_module, "SMALL", 0)
    H, M, _ = made(family, seed)
    near(H.frobenius_norm(), np.linalg.norm(M), 1e-7, "norm", np.abs(M).max())
    inverse = attempt(H.inverse) if condition(M) < WELL_CONDITIONED else None
    if isinstance(inverse, Derivative):
        near(inverse.frobenius_norm(), np.linalg.norm(dense_grid(inverse._grid)), 1e-7, "norm of the inverse")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_rectangular_products(family, seed):
    """Any terms between tensors of different shapes, in one block or several."""
    rng = np.random.default_rng([seed, *family.encode()])
    rows, cols = (tuple(random_shape(rng, 2) for _ in range(rng.integers(1, 3))) for _ in range(2))
    pool: list[Array] = []
    terms = tuple(
        tuple(tuple(random_term(rng, r, c, pool) for _ in range(rng.integers(0, 3))) for c in cols) for r in rows
    )
    H = Derivative(Grid(rows, cols, terms, np.dtype(float)), Facts(), "Jacobian")
    check_products(H, dense_grid(H._grid), rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_solve(family, seed):
    H, M, rng = made(family, seed)
    check_solve(H, M, rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_solver(family, seed, monkeypatch):
    monkeypatch.setattr(iterative, "STEPS", 100)
    H, M, rng = made(family, seed)
    for solver in candidates(H._grid, H._facts):
        check_solver(solver, H, M, rng)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", FAMILIES)
def test_float32(family, seed):
    """The type is kept, and the results are as good as it allows."""
    H, M, rng = made(family, seed)
    small = single_precision(H)
    assert small.as_matrix().dtype == np.float32
    near(small.as_matrix(), M, 1e-5, "as_matrix")
    v = rng.normal(size=len(M)).astype(np.float32)
    assert flat(small.mv(v)).dtype == np.float32
    if condition(M) < 30:
        x = small.solve(v)
        assert flat(x).dtype == np.float32
        near(flat(x), np.linalg.solve(M, v), 1e-3, "solve")


def single_precision(H: Derivative) -> Derivative:
    """The operator with its arrays in float32."""
    grid = H._grid
    terms = tuple(
        tuple(tuple(replace(t, arrays=tuple(a.astype(np.float32) for a in t.arrays)) for t in block) for block in line)
        for line in grid.terms
    )
    return Derivative(replace(grid, terms=terms, dtype=np.dtype(np.float32)), H._facts, H.name)


# Cases that have gone wrong


def block_grid(A: Term, B: Array, C: Array, D: Array, facts: Facts) -> Derivative:
    """`[[A, B], [C, D]]` by two vectors."""
    shapes = ((B.shape[0],), (B.shape[1],))
    lines = (((A,), (pattern("ab->ab", B),)), ((pattern("ab->ab", C),), (pattern("ab->ab", D),)))
    return Derivative(Grid(shapes, shapes, lines, np.dtype(float)), facts, "Hessian")


def known_cases() -> dict[str, Derivative]:
    """Operators that are well conditioned, in ways that are hard for one of the solvers."""
    rng = np.random.default_rng(0)
    u, q = np.array([1.0, 2.0, 3.0, 4.0]), rng.normal(size=(3, 3))
    jordan, ones = np.array([[2.0, 1.0], [0.0, 2.0]]), np.full((4, 1), 0.5)
    low = pattern("a,b->ab", u, u)
    fold = rng.normal(size=(2, 2, 2))
    pencil = [q @ np.diag([1.0, 1.0, -1.0]) @ q.T, 0.3 * q @ np.diag([-1.0, -1.0, 2.0]) @ q.T]
    equal = q @ np.diag([1.0, 1.0, 2.0]) @ np.linalg.inv(q)
    scales = np.stack([1e15 * np.eye(2), np.array([[1.0, 5.0], [0.0, 1.0]])])
    S, v, w = gram(rng, 5), rng.normal(size=5), rng.normal(size=5)
    half = np.diag([0.0, 1.0, 1.0, 2.0])
    return {
        "a base with a zero": single((4,), [pattern("a->aa", np.array([0.0, 1, 1, 1])), low], Facts(True)),
        "a base with a small entry": single((4,), [pattern("a->aa", np.array([1e-16, 1, 1, 1])), low], Facts(True)),
        "a base that is not definite": single((4,), [pattern("a->aa", np.array([-0.1, 1, 1, 1])), low], Facts(True)),
        "a base that is not definite in a sum that is": single(
            (4,), [pattern("a->aa", np.array([1, 1, 1, -0.1])), low], Facts(True)
        ),
        "a symmetric sum of others": single(
            (5,), [pattern("ab->ab", S - np.outer(v, w)), pattern("a,b->ab", v, w)], Facts(True)
        ),
        "an arrowhead with a zero": block_grid(
            pattern("a->aa", np.diag(half)), ones, ones.T, np.array([[5.0]]), Facts(True)
        ),
        "a saddle point": block_grid(
            pattern("a->aa", np.diag(half)), ones, ones.T, np.array([[0.0]]), Facts(True)
        ),
        "an arrowhead that is not symmetric": block_grid(
            pattern("a->aa", np.ones(4)), ones, -2 * ones.T, np.array([[5.0]]), Facts()
        ),
        "identity and one product": single((3,), [identity((3,)), pattern("a,b->ab", np.ones(3), u[:3])]),
        "two negative factors": single((2, 2), [pattern("ac,bd->abcd", -gram(rng, 2), -gram(rng, 2))]),
        "a negative factor and coefficient": single(
            (2, 2), [pattern("ac,bd->abcd", -gram(rng, 2), gram(rng, 2), coefficient=-1.0)]
        ),
        "one eigenvector": single((2, 2, 2), [
            pattern("ad,be,cf->abcdef", gram(rng, 2), jordan, jordan), identity((2, 2, 2), 0.7)
        ]),
        "equal eigenvalues": single(
            (3, 2), [pattern("ac,bd->abcd", equal, jordan), pattern("bd->abad", gram(rng, 2), a=3)]
        ),
        "two matrices that are not definite": single(
            (3, 2), [pattern("ac,bd->abcd", pencil[0], gram(rng, 2)), pattern("ac,bd->abcd", pencil[1], gram(rng, 2))]
        ),
        "a repeated row label beside the identity": single(
            (2, 2, 3), [pattern("abc,xy->aaxbcy", fold, q), pattern("xy->abxaby", q, a=2, b=2, coefficient=3.0)]
        ),
        "blocks of different scales": single((2, 2), [pattern("abc->abac", scales)]),
        "a stack that is not the first axis": single(
            (3, 2), [pattern("ab->abab", rng.uniform(1, 2, (3, 2))), pattern("ab,cb->abcb", q[:, :2], q[:, :2])]
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", known_cases())
def test_known_cases(case):
    H = known_cases()[case]
    M = dense_grid(H._grid)
    if case != "blocks of different scales":
        assert condition(M) < WELL_CONDITIONED
        check_solve(H, M, np.random.default_rng(0))
    b = np.ones(len(M))
    near(flat(H.solve(b)), np.linalg.solve(M, b), SYSTEMS, case)


@pytest.mark.parametrize("case", known_cases())
def test_every_solver_of_known_cases(case, monkeypatch):
    monkeypatch.setattr(iterative, "STEPS", 100)
    H = known_cases()[case]
    for solver in candidates(H._grid, H._facts):
        check_solver(solver, H, dense_grid(H._grid), np.random.default_rng(0))


@pytest.mark.parametrize("seed", [*range(20), 87, 158, 209, 480, 504])
def test_singular_systems_are_refused(seed):
    """Matrices of rank n - 1: one, many, as a factor, and a Kronecker sum of them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    factor = rng.normal(size=(n, n - 1))
    S = factor @ factor.T
    stacks = np.stack([gram(rng, n), S, 2 * S])
    level = pattern("bd->abad", np.diag([0.0, 1.0]), a=n)
    for H in (
        single((n,), [pattern("ab->ab", S)], Facts(True)),
        single((n,), [pattern("ab->ab", S @ gram(rng, n))]),
        single((n, 3), [pattern("ac->abcb", S, b=3)]),
        single((3, n), [pattern("sab->sasb", stacks)], Facts(True)),
        single((3, n), [pattern("sab->sasb", stacks @ gram(rng, n))]),
        single((n, 2), [pattern("ac,bd->abcd", S, gram(rng, 2))]),
        single((n, 2), [pattern("ac->abcb", S, b=2), level], Facts(True)),
    ):
        x = attempt(lambda H=H: H.solve(rng.normal(size=prod(H.rows))))
        assert isinstance(x, ed.SingularError), f"{H.structure}: entries of {np.abs(x).max():.1e}"


def test_singular_operators_are_not_definite():
    for H in (
        single((2,), [pattern("ab->ab", np.ones((2, 2)))]),
        single((2,), [pattern("a->aa", np.array([1.0, 0.0]))]),
        single((2, 2), [pattern("ac,bd->abcd", np.ones((2, 2)), np.eye(2))]),
        single((3,), [pattern("a->aa", np.array([1.0, 0.0, 0.0])), pattern("a,b->ab", np.ones(3), np.ones(3))]),
        single((2,), [pattern("a->aa", np.ones(2), coefficient=0.0)]),
        single((2,), []),
    ):
        assert not H.is_definite()
        near(H.eigvals(), np.linalg.eigvalsh(dense_grid(H._grid)), PRODUCTS, "eigvals", 1.0)


# Sums of patterns, from expressions


def random_sum(rng: Random) -> tuple[ed.Expr, dict[str, Array], Array]:
    """Terms that have some of their factors in common, with a delta more or a label less; and the tensor."""
    n = 2
    nodes = {1: ["u", "v"], 2: ["A", "S", "B"], 3: ["T"]}
    arrays = {name: rng.normal(size=(n,) * order) for order, names in nodes.items() for name in names}
    arrays["S"] = arrays["S"] + arrays["S"].T
    variables = {name: ed.symmetric(name, n) if name == "S" else ed.tensor(name, x.shape) for name, x in arrays.items()}
    order = int(rng.choice([2, 4]))
    output = tuple(range(order))
    first = _random_factors(rng, nodes, 6)
    total, value = ed.einsum("->" + "abcd"[:order], sizes=dict.fromkeys("abcd"[:order], n)) * 0, np.zeros((n,) * order)
    for _ in range(rng.integers(2, 5)):
        factors = [first[k] if rng.random() < 0.75 else _random_factors(rng, nodes, 6)[0] for k in range(len(first))]
        factors = [factors[k] for k in rng.permutation(len(factors))]
        united = {x: x for x in range(6)}
        if rng.random() < 0.5:
            a, b = rng.choice(order, 2, replace=False)
            united[int(b)] = int(a)
        labels = tuple(tuple(united[x] for x in own) for _, own in factors)
        where = tuple(united[x] for x in output)
        coefficient = float(rng.choice([1, -1, 2]))
        names = [name for name, _ in factors]
        value = value + dense_term(
            Term(coefficient, tuple(arrays[x] for x in names), labels, where, dict.fromkeys(range(6), n))
        )
        text = ",".join("".join("abcdef"[x] for x in own) for own in labels)
        target = "".join("abcdef"[x] for x in where)
        free = {"abcdef"[x]: n for x in where if all(x not in own for own in labels)}
        total = total + coefficient * ed.einsum(f"{text}->{target}", *(variables[x] for x in names), sizes=free or None)
    return total, arrays, value


def _random_factors(rng: Random, nodes: dict[int, list[str]], labels: int) -> list[tuple[str, tuple[int, ...]]]:
    factors = []
    for _ in range(rng.integers(1, 4)):
        order = int(rng.choice([1, 2, 2, 3]))
        factors.append((str(rng.choice(nodes[order])), tuple(int(x) for x in rng.integers(0, labels, order))))
    return factors


@pytest.mark.parametrize("seed", range(60))
def test_random_sums(seed):
    rng = np.random.default_rng(seed)
    total, arrays, value = random_sum(rng)
    H = ed.structured(total, arrays)
    check_products(H, value.reshape(H._grid.shape), rng)


def test_sums_with_index_maps():
    """Slices and gathers in some of the factors."""
    rng = np.random.default_rng(0)
    u, A, B = ed.vector("u", 4), ed.matrix("A", 4, 4), ed.matrix("B", 3, 3)
    arrays = {"u": rng.normal(size=4), "A": rng.normal(size=(4, 4)), "B": rng.normal(size=(3, 3))}
    head, tail, twice = u[:3], u[1:], ed.take(u, np.array([0, 0, 2]), 0)
    for text, one, other in (
        ("i,j,kl->ikjl", (head, tail, B), (head, twice, B)),
        ("i,j,kl->ikjl", (head, head, B), (head, head, A[:3, 1:])),
        ("i,j,kl->ikjl", (twice, twice, B), (twice, twice, B.T)),
        ("i,j->ij", (head, tail), (head, twice)),
        ("i,ij->ij", (tail, B), (tail, A[1:, :3])),
        ("i,k->ikik", (twice, tail), (twice, head)),
    ):
        total = ed.einsum(text, *one) - 2 * ed.einsum(text, *other)
        near(ed.structured(total, arrays).as_tensor(), ed.evaluate(total, arrays), PRODUCTS, f"{text}: {total}")


# Expressions


def check_example(example: Example) -> None:
    """Structured values and derivatives are the interpreted ones, as tensors and as maps; square ones can be solved."""
    arrays = {name: array_of(name) for name in names_in(example.text)}
    variables = {name: variable_of(name) for name in arrays}
    y = eval(example.text, {"ed": ed, "np": np} | variables)
    derivative = ed.derivative(y, *(variables[name] for name in example.by))
    try:
        expected = evaluate([y, derivative], arrays)
    except EindiffError:  # not a number here
        return
    for one, other in zip(ed.compile([y, derivative], form="structured")(**arrays), expected, strict=True):
        if not np.isfinite(other).all():
            continue
        scale = max(1e-2, np.abs(other).max(initial=0.0))
        near(one.as_tensor(), other, PRODUCTS, str(one), scale)
        v = np.random.default_rng(0).normal(size=one.cols)
        near(one.mv(v), np.tensordot(other, v, v.ndim), PRODUCTS, str(one), other.size * scale)
        matrix = other.reshape(prod(one.rows), prod(one.cols))
        if one.rows == one.cols and condition(matrix) < WELL_CONDITIONED:
            b = np.ones(len(matrix))
            near(flat(one.solve(b)), np.linalg.solve(matrix, b), SYSTEMS, str(one))


@pytest.mark.parametrize("root", OPERATIONS)
def test_random_expressions(root):
    for order in (1, 2):
        run(examples(root, order), 5, check_example)


def test_a_product_of_quotients():
    """The denominator is the same for all indices of an axis of the numerator."""
    X, P = ed.tensor("X", (3, 4, 2)), ed.tensor("P", (4, 2))
    arrays = {"X": np.random.default_rng(0).uniform(1, 2, (3, 4, 2)), "P": np.full((4, 2), 2.0)}
    derivative = ed.derivative(ed.prod(X / P, 2), P, P)
    expected = evaluate(derivative, arrays)
    near(ed.structured(derivative, arrays).as_tensor(), expected, PRODUCTS)
    near(ed.compile(derivative)(**arrays), expected, PRODUCTS)


def random_gathers(rng: Random) -> tuple[str, Array]:
    """A function of slices and gathers of x, some of them the same, as text over a library; and a point."""
    n = int(rng.integers(2, 5))
    pieces = ["x[1:]", f"x[:{n - 1}]", "x[::2]", "x[::-1]"]
    pieces += [f"lib.take(x, np.array({rng.integers(0, n, rng.integers(1, 5)).tolist()}), 0)" for _ in range(2)]
    terms = []
    for _ in range(2):
        a, b = (str(rng.choice(["{}", "{}**2", "lib.exp({})"])).format(rng.choice(pieces)) for _ in range(2))
        forms = ["i,j->", "i,j,j->", "i,i,j->", "i,i->"]
        form = str(rng.choice(forms))
        operands = [a if label == "i" else b for label in form[:-2].split(",")]
        terms.append(f"lib.einsum('{form}', {', '.join(operands)})")
    return " + ".join(terms), rng.normal(size=n)


@pytest.mark.parametrize("seed", range(8))
def test_hessians_of_gathers(seed):
    """Equal index maps are one map and a delta."""
    text, point = random_gathers(np.random.default_rng(seed))
    x = ed.vector("x", len(point))
    hessian = ed.hessian(eval(text, {"lib": ed, "np": np, "x": x}), x)
    expected = jit(jax.hessian(lambda x: eval(text, {"lib": JAX, "np": np, "x": x})))(point)
    near(evaluate(hessian, {"x": point}), expected, PRODUCTS, text)
    near(ed.structured(hessian, {"x": point}).as_tensor(), expected, PRODUCTS, text)


# What several variables are


def test_a_scalar_and_a_vector():
    """The blocks between them are one expression, with different rows."""
    s, x = ed.scalar("s"), ed.vector("x", "n")
    f, arrays = ed.sum(ed.exp(s * x)), {"s": 0.5, "x": np.arange(3.0)}
    for by in ([s, x], [x, s]):
        blocks = ed.hessian(f, by)
        H = ed.structured(blocks, arrays)
        assert H.rows == H.cols == [(3,) if v is x else () for v in by]
        sizes = [3 if v is x else 1 for v in by]
        values = [[evaluate(blocks[i][j], arrays).reshape(sizes[i], sizes[j]) for j in (0, 1)] for i in (0, 1)]
        near(H.as_matrix(), np.block(values), PRODUCTS)


def test_variables_that_do_not_matter():
    """Zero blocks are one expression too, and a matrix and a vector may have the same block."""
    X, x = ed.matrix("X", "n", "n"), ed.vector("x", "n")
    arrays = {"X": np.eye(2), "x": np.ones(2)}
    for f in (ed.sum(X) + ed.sum(x), ed.sum(X) * ed.sum(x), ed.sum(X) + x @ x, ed.sum(X**2) + ed.sum(x)):
        for by in ([X, x], [x, X]):
            H = ed.structured(ed.hessian(f, by), arrays)
            assert H.rows == H.cols == [arrays[v.name].shape for v in by]


def test_a_derivative_that_is_one_of_something_else_too():
    """`A` is the gradient of `sum(A * X)` by X, and the Jacobian of `A x` by x."""
    A, X, x = ed.matrix("A_of_two", "n", "n"), ed.matrix("X", "n", "n"), ed.vector("x", "n")
    ed.gradient(ed.sum(A * X), X)
    J = ed.structured(ed.jacobian(A @ x, x), {"A_of_two": np.eye(2), "x": np.ones(2)})
    assert J.rows == J.cols == (2,)


# Newton steps


def newton_cases() -> dict[str, tuple[ed.Expr, Any, dict[str, Array]]]:
    """Functions that are convex or not, at points where the Hessian is definite, indefinite or singular."""
    rng = np.random.default_rng(0)
    x, y, X = ed.vector("x", "n"), ed.vector("y", "m"), ed.matrix("X", "n", "m")
    flat_at_zero = ed.sum(x**4)
    A, B, u = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "m"), ed.vector("u", "n")
    given = {"x": rng.normal(size=4), "y": rng.normal(size=3), "X": rng.normal(size=(4, 3)), "u": rng.normal(size=4)}
    given |= {"A": rng.normal(size=(4, 4)), "B": rng.normal(size=(4, 3))}
    return {
        "convex": (ed.sum(ed.exp(x)) + ed.sum((A @ x) ** 2), x, given),
        "indefinite": (x @ A @ x, x, given),
        "concave": (-ed.sum(x**2), x, given),
        "linear": (u @ x, x, given),
        "of rank one": ((u @ x) ** 2 + ed.sum(x), x, given),
        "a base with a zero": (flat_at_zero + (u @ x) ** 2, x, given | {"x": np.array([0.0, 1, 1, 1])}),
        "a saddle": (x @ B @ y, [x, y], given),
        "an arrowhead": (ed.sum(ed.exp(x)) + ed.sum(ed.exp(y)) + x @ B @ y, [x, y], given),
        "an arrowhead with a zero": (flat_at_zero + x @ B @ y + 9 * y @ y, [x, y], given | {"x": np.zeros(4)}),
        "a matrix": (ed.sum((A @ X) ** 2) + ed.sum(ed.exp(X)), X, given),
        "a matrix, indefinite": (ed.sum(ed.sin(A @ X)), X, given),
        "products": (ed.tr(X.T @ (A + A.T) @ X @ (B.T @ B)), X, given),
        "a matrix and a vector": (ed.sum(ed.exp(X @ y)), [X, y], given),
        "a list of one": (ed.sum(ed.exp(x)), [x], given),
        "a list of a scalar": (ed.exp(u @ u) * ed.sum(ed.exp(x)), [x, u], given),
    }


@pytest.mark.parametrize("case", newton_cases())
def test_newton_steps(case):
    """`(H + damping I) step = -gradient`, definite, and no damping where none is needed."""
    f, by, arrays = newton_cases()[case]
    several = by if isinstance(by, list) else [by]
    result = ed.newton_step(f, by, arrays, damping="auto")
    assert isinstance(result.step, list) == isinstance(by, list)
    shapes = [arrays[v.name].shape for v in several]
    assert [np.shape(s) for s in (result.step if isinstance(by, list) else [result.step])] == shapes
    lengths = [prod(shape) for shape in shapes]
    blocks = evaluate(ed.hessian(f, several), arrays, {"n": 4, "m": 3})
    H = np.block([[np.reshape(blocks[i][j], (lengths[i], lengths[j])) for j in range(len(several))]
                  for i in range(len(several))])  # fmt: skip
    gradient = flat(list(evaluate(ed.gradient(f, several), arrays)))
    damped = H + result.damping * np.eye(len(H))
    near(damped @ flat(result.step), -gradient, SYSTEMS, case, np.abs(damped).max() * np.abs(flat(result.step)).max())
    least, largest = np.linalg.eigvalsh(H)[[0, -1]]
    assert np.linalg.eigvalsh(damped)[0] > 0
    if least > 1e-6 * max(largest, 0):
        assert result.damping == 0
    else:
        with pytest.raises(EindiffError, match="singular or not positive definite"):
            ed.newton_step(f, by, arrays)
    assert result.damping <= 11 * max(1e-8 * max(np.abs(np.diag(H)).max(), 1), -least)
    assert result.decrease >= 0 or not np.any(gradient)


# Wrong input


def any_hessians() -> list[Derivative]:
    """Of one variable and of two."""
    x, y = ed.vector("x", "n"), ed.vector("y", "m")
    f, arrays = ed.sum(ed.exp(x)) + ed.sum(ed.exp(y)) + ed.sum(x) * ed.sum(y) * 0.1, {"x": np.ones(3), "y": np.ones(2)}
    return [ed.structured(ed.hessian(f, x), arrays), ed.structured(ed.hessian(f, [x, y]), arrays)]


NOT_NUMBERS = ["abc", None, 1j, [1.0, 2.0], np.ones(2), {}, float("nan"), float("inf")]


@pytest.mark.parametrize("number", NOT_NUMBERS, ids=repr)
def test_wrong_numbers(number):
    x = ed.vector("x", "n")
    for H in any_hessians():
        b = np.ones(H._grid.shape[0])
        asks = [H.damped, H.solver, H.logdet, H.is_definite, H.inverse, H.explain, lambda v, H=H, b=b: H.solve(b, v)]
        asks.append(lambda v: ed.newton_step(x @ x, x, {"x": np.ones(2)}, damping=v))
        if isinstance(number, str | complex | list | dict | None):
            asks += [lambda v, H=H: H * v, lambda v, H=H: H + v, lambda v, H=H: H - v]
        for ask in asks:
            with pytest.raises(EindiffError):
                ask(number)


WRONG_VECTORS = {
    "ragged": [[1, 2], [3]],
    "text": "abc",
    "texts": np.array(["1", "2", "3"]),
    "nothing": None,
    "too long": np.ones(9),
    "too deep": np.ones((3, 2, 2)),
    "complex": np.ones(5) * 1j,
    "complex parts": [np.ones(3) * 1j, np.ones(2)],
    "texts in parts": [np.array(["1", "2", "3"]), np.ones(2)],
    "too few parts": [np.ones(3) * 1j],
    "ragged parts": [[1, [2], 3], [1, 2]],
    "a dictionary": {"x": np.ones(3)},
}


@pytest.mark.parametrize("case", WRONG_VECTORS)
def test_wrong_vectors(case):
    for H in any_hessians():
        for ask in (H.mv, H.__matmul__, H.solve, H.__rmatmul__):
            with pytest.raises(EindiffError):
                ask(WRONG_VECTORS[case])


def test_right_vectors_of_any_type():
    """Lists, integers, no columns; a matrix from the left."""
    for H in any_hessians():
        M = H.as_matrix()
        n = len(M)
        for v in (np.arange(n), np.arange(n) > 1, np.arange(n, dtype=np.float16), np.arange(n, dtype=np.longdouble)):
            near(flat(H.mv(v)), M @ v.astype(float), PRODUCTS)
            near(flat(H.solve(v)), np.linalg.solve(M, v.astype(float)), SYSTEMS)
        assert (H @ np.ones((n, 0))).shape == (n, 0)
        assert H.solve(np.ones((n, 0))).shape == (n, 0)
        near(np.ones((2, n)) @ H, np.ones((2, n)) @ M, PRODUCTS)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_no_numbers(value):
    """Nothing is solved with them, nor for them."""
    H, _ = any_hessians()
    with pytest.raises(EindiffError, match="infinite or not a number"):
        H.solve(np.array([1.0, value, 1.0]))
    x = ed.vector("x", "n")
    for damping in (0.0, 1.0, "auto"):
        with pytest.raises(EindiffError, match="infinite or not a number"):
            ed.newton_step(ed.sum(x**3), x, {"x": np.array([1.0, value])}, damping=damping)


@pytest.mark.parametrize("dims", [(0, 2), (2, 0), (0, 0)], ids=str)
def test_empty_operators(dims):
    """Everything is empty, and the determinant is 1."""
    m, n = dims
    A, B = np.ones((m, m)), np.ones((n, n))
    for terms in (
        [pattern("ac,bd->abcd", A, B)],
        [pattern("ac->abcb", A, b=n), pattern("bd->abad", B, a=m)],
        [pattern("abc->abac", np.ones((m, n, n)))],
        [pattern("ab->abab", np.ones(dims))],
        [identity(dims), pattern("ab,cd->abcd", np.ones(dims), np.ones(dims))],
    ):
        H = single(dims, terms)
        assert H.solve(np.ones(dims)).shape == dims
        assert H.solve(np.ones((0, 3))).shape == (0, 3)
        assert H.is_definite()
        assert H.eigvals().shape == (0,)
        assert H.inverse().shape == H.cholesky().shape == dims + dims
        assert H.slogdet() == (1.0, 0.0)
        assert H.mv(np.ones(dims)).shape == dims
        assert H.frobenius_norm() == H.trace() == 0


# Accuracy


@pytest.mark.parametrize("least", [1e-2, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14, 1e-16, 0.0])
def test_low_rank_on_a_base_that_is_nearly_singular(least):
    """The sum is well conditioned, so its solutions have to be accurate, and its sign known."""
    rng = np.random.default_rng(1)
    d, U = np.array([least, 1.0, 1.0, 1.0, 1.0, 1.0]), rng.normal(size=(6, 2))
    for H in (
        single((6,), [pattern("a->aa", d), pattern("ar,br->ab", U, U)], Facts(True, True)),
        single((6,), [pattern("a->aa", d), pattern("ar,br->ab", U, U)]),
        single((2, 6), [pattern("a->sasa", d, s=2), pattern("ar,br->sasb", U, U, s=2)], Facts(True)),
        block_grid(pattern("a->aa", d), U, U.T, 9 * np.eye(2), Facts(True)),
    ):
        M = dense_grid(H._grid)
        assert condition(M) < 1e4
        b = rng.normal(size=len(M))
        near(flat(H.solve(b)), np.linalg.solve(M, b), SYSTEMS, H.structure)
        near(H.slogdet()[1], np.linalg.slogdet(M)[1], SYSTEMS, H.structure, 1.0)
        assert H.is_definite() == (np.linalg.eigvalsh(M)[0] > 0)


def test_newton_step_of_a_saturated_function():
    """One entry of the diagonal is 1e-13, but the Hessian is well conditioned."""
    w, U = ed.vector("w", "n"), ed.matrix("U", "r", "n")
    f = ed.sum(ed.softplus(w)) + ed.sum((U @ w) ** 2)
    arrays = {"w": np.array([-30.0, 1.0, 2.0, 0.5, 1.0]), "U": np.random.default_rng(0).normal(size=(2, 5))}
    H, g = evaluate([ed.hessian(f, w), ed.gradient(f, w)], arrays)
    assert condition(H) < 1e4
    near(ed.newton_step(f, w, arrays).step, -np.linalg.solve(H, g), SYSTEMS)


def test_cores():
    """Of a multiple of the identity, of a diagonal, of blocks, of copies."""
    near(single((2, 3), [identity((2, 3), 3.0)]).core, 3.0, PRODUCTS)
    near(single((2,), [pattern("a->aa", np.array([1.0, 2.0]))]).core, np.array([1.0, 2.0]), PRODUCTS)
    A, B = np.arange(4.0).reshape(2, 2), np.arange(12.0).reshape(3, 2, 2)
    near(single((3, 2), [pattern("bd->abad", A, a=3)]).core, A, PRODUCTS)
    near(single((3, 2), [pattern("abd->abad", B)]).core, B, PRODUCTS)
    with pytest.raises(EindiffError, match="no single core"):
        _ = single((2,), [pattern("ab->ab", A)]).core


def test_the_wider_type_wins():
    H = any_terms(np.random.default_rng(0))
    assert (single_precision(H) + H).dtype == (H + single_precision(H)).dtype == np.float64
