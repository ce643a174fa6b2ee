"""Systems of several variables that tables couple: each way to solve with them, held against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.structure.quotients import Quotient
from eindiff.structure.solvers.iterative import Iterative
from eindiff.structure.solvers.solver import NoAnswerError
from eindiff.structure.solvers.sparse_schur import SparseSchur

RANDOM = np.random.default_rng(11)


def table(count, size):
    return np.random.default_rng(size).integers(0, size, size=count)


def rows_of(one, other):
    return ed.sum(one * other, axis=1)


def mixed(count=60):
    beta, u, s = ed.vector("beta", 3), ed.vector("u", 40), ed.vector("s", 40)
    X, t, g = RANDOM.normal(size=(count, 3)), RANDOM.normal(size=count), table(count, 40)
    return ed.sum(ed.softplus(X @ beta + u[g] + s[g] * t)) + ed.sum(u**2) + ed.sum(s**2), [beta, u, s]


def three_levels(count=90):
    beta, u, w = ed.vector("beta", 2), ed.vector("u", 45), ed.vector("w", 9)
    X, g = RANDOM.normal(size=(count, 2)), np.repeat(np.arange(45), 2)
    return ed.sum(ed.softplus(X @ beta + u[g] + w[g // 5])) + ed.sum(u**2) + ed.sum(w**2), [beta, u, w]


def crossed(count=80):
    beta, u, w = ed.vector("beta", 2), ed.vector("u", 50), ed.vector("w", 20)
    X = RANDOM.normal(size=(count, 2))
    f = ed.sum(ed.softplus(X @ beta + u[table(count, 50)] + w[table(count, 20)]))
    return f + ed.sum(u**2) + ed.sum(w**2), [beta, u, w]


def factorization(count=70):
    U, V = ed.matrix("U", 40, 2), ed.matrix("V", 25, 2)
    entries = rows_of(U[table(count, 40)], V[table(count, 25)])
    return ed.sum((0.1 - entries) ** 2) + 30 * ed.sum(U**2) + 30 * ed.sum(V**2), [U, V]


def glove(count=70):
    W, C, b, c = ed.matrix("W", 30, 3), ed.matrix("C", 30, 3), ed.vector("b", 30), ed.vector("c", 30)
    i, j = table(count, 30), RANDOM.integers(0, 30, size=count)
    f = ed.sum(RANDOM.uniform(size=count) * (rows_of(W[i], C[j]) + b[i] + c[j] - 0.1) ** 2)
    return f + 20 * sum(ed.sum(x**2) for x in (W, C, b, c)), [W, C, b, c]


def third_order(count=60):
    A, B, C = ed.matrix("A", 30, 2), ed.matrix("B", 20, 2), ed.matrix("C", 20, 2)
    i, j, k = (RANDOM.integers(0, size, size=count) for size in (30, 20, 20))
    f = ed.sum((0.1 - ed.sum(A[i] * B[j] * C[k], axis=1)) ** 2)
    return f + 40 * sum(ed.sum(x**2) for x in (A, B, C)), [A, B, C]


def transposed_factors(count=60):
    """Columns of the factors are what tables choose: blocks are along the first axis."""
    U, V = ed.matrix("U", 2, 40), ed.matrix("V", 2, 25)
    i, j = table(count, 40), table(count, 25)
    f = ed.sum((0.1 - ed.sum(U[:, i] * V[:, j], axis=0)) ** 2)
    return f + 30 * ed.sum(U**2) + 30 * ed.sum(V**2), [U, V]


def poses(count=40):
    """A pose graph: places and angles, relative to each other along a walk and at a few returns."""
    P, a = ed.matrix("P", 30, 2), ed.vector("a", 30)
    i = np.concatenate([np.arange(29), RANDOM.integers(0, 30, size=count - 29)])
    j = np.concatenate([np.arange(1, 30), RANDOM.integers(0, 30, size=count - 29)])
    dx, dy = P[j, 0] - P[i, 0], P[j, 1] - P[i, 1]
    ahead, aside = ed.cos(a[i]) * dx + ed.sin(a[i]) * dy, ed.cos(a[i]) * dy - ed.sin(a[i]) * dx
    f = ed.sum((ahead - 1) ** 2 + aside**2 + (a[j] - a[i]) ** 2)
    return f + 20 * ed.sum(P**2) + 20 * ed.sum(a**2), [P, a]


PROBLEMS = (mixed, three_levels, crossed, factorization, glove, third_order, transposed_factors, poses)


def both(problem):
    """The Hessian as an operator, and as a matrix."""
    f, variables = problem()
    arrays = {x.name: np.random.default_rng(2).normal(size=x.shape) for x in variables}
    blocks = ed.hessian(f, variables)
    sizes = [int(np.prod(x.shape)) for x in variables]
    matrix = np.block([
        [ed.evaluate(x, arrays).reshape(m, n) for x, n in zip(row, sizes, strict=True)]
        for row, m in zip(blocks, sizes, strict=True)
    ])  # fmt: skip
    return ed.structured(blocks, arrays), matrix


@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_way_to_solve(problem):
    operator, matrix = both(problem)
    np.testing.assert_allclose(operator.as_matrix(), matrix, atol=1e-10 * np.abs(matrix).max())
    np.testing.assert_allclose(operator.to_csc().toarray(), matrix, atol=1e-10 * np.abs(matrix).max())
    damping = max(0.0, 1 - np.linalg.eigvalsh(matrix).min())
    damped = matrix + damping * np.eye(len(matrix))
    b = np.random.default_rng(3).normal(size=(len(matrix), 2))
    ways = operator.damped(damping)._candidates
    assert problem is poses or any(isinstance(one, SparseSchur) for one in ways)
    for one in ways:
        np.testing.assert_allclose(one.solve(b), np.linalg.solve(damped, b), rtol=1e-7, atol=1e-9, err_msg=one.method)
        try:
            assert one.logdet() == pytest.approx(np.linalg.slogdet(damped)), one.method
        except NoAnswerError:
            assert isinstance(one, Iterative)
        assert one.is_definite(), one.method
        assert one.norms()[1] * (1 + 1e-9) >= 1 / np.linalg.eigvalsh(damped).max(), one.method


@pytest.mark.parametrize("problem", PROBLEMS)
def test_matrices_of_blocks(problem):
    operator, matrix = both(problem)
    quotient = Quotient(operator._grid)
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in operator.rows)])
    for i in range(len(operator.rows)):
        own = matrix[ends[i] : ends[i + 1]]
        np.testing.assert_array_equal(quotient.restored(quotient.arranged(own, i), i), own)
        for j in range(len(operator.rows)):
            expected = quotient.arranged(quotient.arranged(own[:, ends[j] : ends[j + 1]], i).T, j).T
            if not operator._grid.terms[i][j]:
                assert not expected.any()
                continue
            np.testing.assert_allclose(quotient.matrix(i, j).toarray(), expected, atol=1e-10 * np.abs(matrix).max())
            known = quotient.pattern_of(i, j).toarray() > 0
            blocks = known.repeat(quotient.blocks[i], axis=0).repeat(quotient.blocks[j], axis=1)
            assert not expected[~blocks].any()


def test_hopeless_fill_is_seen_before_it_is_tried():
    """Random pairs of 20,000 and 2,000: what is left after elimination is dense, so that steps are taken instead."""
    count = 10**5
    random = np.random.default_rng(0)
    beta, u, w = ed.vector("beta", 2), ed.vector("u", 20_000), ed.vector("w", 4_000)
    X = random.normal(size=(count, 2))
    f = ed.sum((X @ beta + u[random.integers(0, 20_000, size=count)] + w[random.integers(0, 4_000, size=count)]) ** 2)
    variables = [beta, u, w]
    arrays = {x.name: np.zeros(x.shape) for x in variables}
    operator = ed.structured(ed.hessian(f + 5 * ed.sum(u**2) + 5 * ed.sum(w**2), variables), arrays)
    assert operator.structure == "arrowhead"
    b = random.normal(size=operator.shape[0])
    assert isinstance(operator.solver(), Iterative)
    np.testing.assert_allclose(operator @ operator.solve(b), b, atol=1e-9)
    assert "→ sum: preconditioned conjugate gradients" in operator.explain()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_patterns_by_blocks_are_those_of_entries(problem):
    operator, matrix = both(problem)
    quotient, expected = Quotient(operator._grid), operator.to_csc()
    if quotient.is_full:
        found = quotient.to_csc()
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.indptr, expected.indptr)
        np.testing.assert_allclose(found.data, expected.data, atol=1e-12 * np.abs(matrix).max())
    else:
        assert problem in (three_levels, transposed_factors, poses)
