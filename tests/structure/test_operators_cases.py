"""Operators that are hard for some solver: cases that have gone wrong, singular systems, bases that are nearly so."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.structure.choose import candidates
from eindiff.structure.derivative import Derivative
from eindiff.structure.grid import Grid
from eindiff.structure.solvers import iterative
from eindiff.structure.solvers.solver import Known
from eindiff.structure.terms import Term, identity
from operator_checks import (
    PRODUCTS,
    SYSTEMS,
    WELL_CONDITIONED,
    Array,
    attempt,
    check_solve,
    check_solver,
    condition,
    dense_grid,
    flat,
    near,
)
from random_operators import gram, pattern, single

# Cases that have gone wrong


def block_grid(A: Term, B: Array, C: Array, D: Array, facts: Known) -> Derivative:
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
        "a base with a zero": single((4,), [pattern("a->aa", np.array([0.0, 1, 1, 1])), low], Known(True)),
        "a base with a small entry": single((4,), [pattern("a->aa", np.array([1e-16, 1, 1, 1])), low], Known(True)),
        "a base that is not definite": single((4,), [pattern("a->aa", np.array([-0.1, 1, 1, 1])), low], Known(True)),
        "a base that is not definite in a sum that is": single(
            (4,), [pattern("a->aa", np.array([1, 1, 1, -0.1])), low], Known(True)
        ),
        "a symmetric sum of others": single(
            (5,), [pattern("ab->ab", S - np.outer(v, w)), pattern("a,b->ab", v, w)], Known(True)
        ),
        "an arrowhead with a zero": block_grid(
            pattern("a->aa", np.diag(half)), ones, ones.T, np.array([[5.0]]), Known(True)
        ),
        "a saddle point": block_grid(
            pattern("a->aa", np.diag(half)), ones, ones.T, np.array([[0.0]]), Known(True)
        ),
        "an arrowhead that is not symmetric": block_grid(
            pattern("a->aa", np.ones(4)), ones, -2 * ones.T, np.array([[5.0]]), Known()
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
    monkeypatch.setattr(iterative, "MOST_ITERATIONS", 100)
    H = known_cases()[case]
    for solver in candidates(H._grid, H._facts):
        check_solver(solver, H, dense_grid(H._grid), np.random.default_rng(0))


# Singular systems


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
        single((n,), [pattern("ab->ab", S)], Known(True)),
        single((n,), [pattern("ab->ab", S @ gram(rng, n))]),
        single((n, 3), [pattern("ac->abcb", S, b=3)]),
        single((3, n), [pattern("sab->sasb", stacks)], Known(True)),
        single((3, n), [pattern("sab->sasb", stacks @ gram(rng, n))]),
        single((n, 2), [pattern("ac,bd->abcd", S, gram(rng, 2))]),
        single((n, 2), [pattern("ac->abcb", S, b=2), level], Known(True)),
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


# Accuracy


@pytest.mark.parametrize("least", [1e-2, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14, 1e-16, 0.0])
def test_low_rank_on_a_base_that_is_nearly_singular(least):
    """The sum is well conditioned, so its solutions have to be accurate, and its sign known."""
    rng = np.random.default_rng(1)
    d, U = np.array([least, 1.0, 1.0, 1.0, 1.0, 1.0]), rng.normal(size=(6, 2))
    for H in (
        single((6,), [pattern("a->aa", d), pattern("ar,br->ab", U, U)], Known(True, True)),
        single((6,), [pattern("a->aa", d), pattern("ar,br->ab", U, U)]),
        single((2, 6), [pattern("a->sasa", d, s=2), pattern("ar,br->sasb", U, U, s=2)], Known(True)),
        block_grid(pattern("a->aa", d), U, U.T, 9 * np.eye(2), Known(True)),
    ):
        M = dense_grid(H._grid)
        assert condition(M) < 1e4
        b = rng.normal(size=len(M))
        near(flat(H.solve(b)), np.linalg.solve(M, b), SYSTEMS, H.structure)
        near(H.slogdet()[1], np.linalg.slogdet(M)[1], SYSTEMS, H.structure, 1.0)
        assert H.is_definite() == (np.linalg.eigvalsh(M)[0] > 0)


# Cores


def test_cores():
    """Of a multiple of the identity, of a diagonal, of blocks, of copies."""
    near(single((2, 3), [identity((2, 3), 3.0)]).core, 3.0, PRODUCTS)
    near(single((2,), [pattern("a->aa", np.array([1.0, 2.0]))]).core, np.array([1.0, 2.0]), PRODUCTS)
    A, B = np.arange(4.0).reshape(2, 2), np.arange(12.0).reshape(3, 2, 2)
    near(single((3, 2), [pattern("bd->abad", A, a=3)]).core, A, PRODUCTS)
    near(single((3, 2), [pattern("abd->abad", B)]).core, B, PRODUCTS)
    with pytest.raises(EindiffError, match="no single core"):
        _ = single((2,), [pattern("ab->ab", A)]).core
