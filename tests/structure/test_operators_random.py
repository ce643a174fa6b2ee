"""Random operators of many families against dense matrices. Seeds are in the names of the tests."""

from __future__ import annotations

import numpy as np
import pytest

from eindiff.planning import tuning
from eindiff.structure.choose import candidates
from eindiff.structure.derivative import Derivative
from eindiff.structure.grid import Grid
from eindiff.structure.solvers import iterative
from eindiff.structure.solvers.solver import Known
from operator_checks import (
    WELL_CONDITIONED,
    Array,
    attempt,
    check_products,
    check_solve,
    check_solver,
    condition,
    dense_grid,
    flat,
    near,
)
from random_operators import FAMILIES, any_terms, made, random_shape, random_term, single_precision

SEEDS = (*range(8), 10, 12, 13, 15, 18)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_products(family, seed):
    H, M, rng = made(family, seed)
    check_products(H, M, rng)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_norm_without_the_matrix(family, seed, monkeypatch):
    """The norm from contractions of pairs of terms, of an operator and of its inverse, whose labels are others."""
    monkeypatch.setattr(tuning, "FORMED_ENTRIES", 0)
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
    H = Derivative(Grid(rows, cols, terms, np.dtype(float)), Known(), "Jacobian")
    check_products(H, dense_grid(H._grid), rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_solve(family, seed):
    H, M, rng = made(family, seed)
    check_solve(H, M, rng)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_solver(family, seed, monkeypatch):
    monkeypatch.setattr(iterative, "MOST_ITERATIONS", 100)
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


def test_the_wider_type_wins():
    H = any_terms(np.random.default_rng(0))
    assert (single_precision(H) + H).dtype == (H + single_precision(H)).dtype == np.float64
