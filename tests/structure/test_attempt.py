"""Conjugate gradients before large factorizations: where they converge, and where they must not be believed."""

import numpy as np
import pytest

import eindiff as ed
from eindiff.structure import choose
from eindiff.structure.solvers import attempt
from eindiff.structure.solvers import solver as limits
from eindiff.structure.solvers.attempt import Attempt
from eindiff.structure.solvers.iterative import Iterative
from eindiff.structure.solvers.solver import SingularError

SIDE = 24


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch):
    monkeypatch.setattr(choose, "LARGE", 0.0)
    monkeypatch.setattr(attempt, "ENTRY_COST", 0.1)


def grid(weight: float, scale: float = 1.0) -> ed.Derivative:
    """A graph Laplacian of a grid with random weights, and a multiple of the identity."""
    u, w = ed.matrix("u", SIDE, SIDE), ed.matrix("w", SIDE - 1, SIDE - 1)
    inner = u[:-1, :-1]
    f = ed.sum(w * ((u[1:, :-1] - inner) ** 2 + (u[:-1, 1:] - inner) ** 2)) + weight * ed.sum(u**2)
    weights = scale * np.random.default_rng(0).uniform(1, 2, size=(SIDE - 1, SIDE - 1))
    return ed.structured(ed.hessian(f, u), {"u": np.zeros((SIDE, SIDE)), "w": weights})


def side(columns: int = 1) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(SIDE * SIDE, columns))


def test_well_conditioned_systems_need_no_factorization():
    operator = grid(1.0)
    assert isinstance(operator.solver(), Attempt)
    expected = np.linalg.solve(operator.as_matrix(), side())
    np.testing.assert_allclose(operator.solve(side()), expected, rtol=1e-11, atol=1e-13)
    assert isinstance(operator.solver(), Attempt)
    assert operator.is_definite()
    assert operator.logdet() == pytest.approx(np.linalg.slogdet(operator.as_matrix())[1])
    assert "preconditioned conjugate gradients, for at most" in operator.explain()


def test_a_large_system_by_itself(monkeypatch):
    """Fill is what makes it large: a grid in space."""
    monkeypatch.undo()
    n = 24
    u = ed.tensor("u", n, n, n)
    axes = ((u[1:], u[:-1]), (u[:, 1:], u[:, :-1]), (u[:, :, 1:], u[:, :, :-1]))
    f = sum((ed.sum((a - b) ** 4) for a, b in axes), 10 * ed.sum(u**2))
    operator = ed.structured(ed.hessian(f, u), {"u": np.random.default_rng(0).normal(size=(n, n, n))})
    b = np.random.default_rng(1).normal(size=n**3)
    np.testing.assert_allclose(operator @ operator.solve(b), b, atol=1e-11)
    assert "conjugate gradients" in operator.solver().method


@pytest.mark.parametrize("weight", [1e-6, -1.0], ids=["badly conditioned", "indefinite"])
def test_other_systems_are_factorized(weight, monkeypatch):
    monkeypatch.setattr(attempt, "ENTRY_COST", 20.0)
    operator = grid(weight)
    np.testing.assert_allclose(operator @ operator.solve(side()), side(), atol=1e-6)
    assert "factorization" in operator.solver().method
    assert operator.is_definite() == (weight > 0)


def test_one_direction_that_is_not_positive():
    """A single eigenvalue below zero, of many."""
    operator = grid(0.0).damped(1.0)
    least = np.linalg.eigvalsh(operator.as_matrix())[:2]
    assert not operator.is_definite(-least.mean())
    assert operator.is_definite(-0.9 * least[0])


def test_singular_systems_are_found():
    operator = grid(0.0)
    assert not operator.is_definite()
    with pytest.raises(SingularError):
        operator.solve(side())
    consistent = operator @ side()
    with pytest.raises(SingularError):
        operator.solve(consistent)


def test_many_right_hand_sides_are_solved_by_a_factorization():
    operator = grid(1.0)
    np.testing.assert_allclose(operator @ operator.solve(side(500)), side(500), atol=1e-11)
    assert "factorization" in operator.solver().method


def test_single_precision():
    operator = grid(1.0)
    single = ed.Derivative(operator._grid.astype(np.dtype(np.float32)), operator._facts)
    found = single.solve(side()[:, 0].astype(np.float32))
    np.testing.assert_allclose(found, operator.solve(side()[:, 0]), atol=1e-5)


def test_large_stencils_are_multiplied_by_their_diagonals(monkeypatch):
    """A blurred image: each product with the 25 diagonals takes a part of what those with 70 terms take."""
    monkeypatch.setattr(limits, "LIMIT", 10**6)
    n, kernel = 40, np.outer([1, 2, 1], [1, 2, 1]) / 16
    u = ed.matrix("u", n, n)
    blurred = sum(kernel[a, b] * u[a : n - 2 + a, b : n - 2 + b] for a in range(3) for b in range(3))
    variation = ed.sum(ed.sqrt((u[1:, :-1] - u[:-1, :-1]) ** 2 + (u[:-1, 1:] - u[:-1, :-1]) ** 2 + 1))
    image = np.random.default_rng(0).normal(size=(n, n))
    operator = ed.structured(ed.hessian(ed.sum(blurred**2) + variation + ed.sum(u**2), u), {"u": image})
    assert isinstance(operator.solver(), Iterative)
    assert operator.explain().splitlines()[-1] == "Ways that take more than 1 MB are not tried."
    b = np.random.default_rng(1).normal(size=n * n)
    products, apply = [], ed.Term.apply
    monkeypatch.setattr(ed.Term, "apply", lambda *args: products.append(args) or apply(*args))
    solution = operator.solve(b)
    assert len(products) <= len(operator.terms)
    np.testing.assert_allclose(operator @ solution, b, atol=1e-10)
