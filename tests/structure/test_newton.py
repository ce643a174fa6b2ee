"""Newton steps: solved through the structure, with the damping that they need, as a part of compiled functions."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.structure.solvers import solver
from objectives import OBJECTIVES
from structure.test_operators import blocks_of, close, flat

CONVEX = [
    "factorization with ridge",
    "masked factorization with ridge",
    "wide logistic regression with ridge",
    "multinomial regression with ridge",
    "poisson regression",
    "groupwise logistic regression",
    "gene models by columns",
    "mixed effects logistic",
    "kronecker least squares with ridge",
    "sylvester",
    "smoothing of columns",
    "barrier",
]


def problem(name: str) -> tuple[ed.Expr, list | ed.Expr, dict[str, np.ndarray]]:
    objective = OBJECTIVES[name]()
    by = list(objective.wrt) if len(objective.wrt) > 1 else objective.wrt[0]
    return objective.function, by, objective.point(np.random.default_rng(0))


@pytest.mark.parametrize("name", CONVEX)
def test_step_solves_the_system(name):
    function, by, arrays = problem(name)
    _, matrix = blocks_of(name)
    step = ed.newton_step(function, by, arrays)
    gradient = flat(ed.evaluate(ed.gradient(function, by), arrays))
    close(step.step, np.linalg.solve(matrix, -gradient))
    close(step.gradient, gradient)
    assert step.damping == 0
    assert step.decrease == pytest.approx(0.5 * gradient @ np.linalg.solve(matrix, gradient), rel=1e-8)
    assert step.hessian.structure == blocks_of(name)[0].structure


def test_iterations_converge_quadratically():
    function, w, arrays = problem("poisson regression")
    iterate = ed.compile([ed.gradient(function, w), ed.newton_step(function, w)])
    norms = []
    for _ in range(9):
        gradient, newton = iterate(**arrays)
        norms.append(np.abs(gradient).max())
        arrays["w"] = arrays["w"] + newton.step
    assert norms[-1] < 1e-12 < 1e-2 < norms[0]


@pytest.mark.parametrize(
    "name", ["factorization by both", "reconstruction", "trace with two matrices", "cubes", "rayleigh quotient"]
)
def test_indefinite_systems(name):
    """An error, or on request the damping that makes the system positive definite, and no more than ten times that."""
    function, by, arrays = problem(name)
    _, matrix = blocks_of(name)
    with pytest.raises(ed.EindiffError, match=r'not positive definite here.*damping="auto"'):
        ed.newton_step(function, by, arrays)
    step = ed.newton_step(function, by, arrays, damping="auto")
    lowest = np.linalg.eigvalsh(matrix)[0]
    assert -lowest < step.damping < max(-11 * lowest, 1e-6 * np.abs(matrix).max())
    gradient = flat(step.gradient)
    close(step.step, np.linalg.solve(matrix + step.damping * np.eye(len(matrix)), -gradient))
    assert flat(step.step) @ gradient < 0


def test_singular_systems():
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    function = ed.norm2(X @ w - y) ** 2
    generator = np.random.default_rng(0)
    arrays = {"X": generator.normal(size=(3, 5)), "y": generator.normal(size=3), "w": generator.normal(size=5)}
    with pytest.raises(ed.EindiffError, match="singular or not positive definite"):
        ed.newton_step(function, w, arrays)
    step = ed.newton_step(function, w, arrays, damping="auto")
    assert step.damping > 0
    np.testing.assert_allclose(arrays["X"] @ (arrays["w"] + step.step), arrays["y"], atol=1e-5)


def test_given_damping():
    function, by, arrays = problem("factorization")
    step = ed.newton_step(function, by, arrays, damping=2.5)
    assert step.damping == 2.5
    close(step.hessian.mv(step.step) + 2.5 * step.step, -step.gradient)


def test_linear_function_has_no_step():
    x = ed.vector("x", "n")
    with pytest.raises(ed.EindiffError, match="not positive definite"):
        ed.newton_step(ed.sum(x), x, {"x": np.ones(3)})
    step = ed.newton_step(ed.sum(x), x, {"x": np.ones(3)}, damping=0.5)
    np.testing.assert_allclose(step.step, -2 * np.ones(3))


def test_compiled_steps_share_work_with_other_outputs():
    function, by, arrays = problem("masked factorization with ridge")
    compiled = ed.compile([function, ed.newton_step(function, by)])
    value, step = compiled(**arrays)
    assert value == pytest.approx(float(ed.evaluate(function, arrays)))
    close(step.step, ed.newton_step(function, by, arrays).step, 1e-12)
    assert compiled is ed.compile([function, ed.newton_step(function, by)])
    residuals = compiled.source.count("U.dot(V.T)") + compiled.source.count("V.dot(U.T)")
    assert residuals == 1  # for the value and the gradient


def test_without_any_factorization(monkeypatch):
    """Where no factorization fits, conjugate gradients solve, and tell whether there is negative curvature."""
    monkeypatch.setattr(solver, "LIMIT", 100)
    function, by, arrays = problem("multinomial regression with ridge")
    close(ed.newton_step(function, by, arrays).step, np.linalg.solve(
        blocks_of("multinomial regression with ridge")[1],
        -flat(ed.evaluate(ed.gradient(function, by), arrays)),
    ))  # fmt: skip
    function, by, arrays = problem("reconstruction")
    with pytest.raises(ed.EindiffError, match="not positive definite"):
        ed.newton_step(function, by, arrays)


@pytest.mark.parametrize(
    ("damping", "message"),
    [("automatic", "give a number, or 'auto'"), (-1.0, "must be a finite number that is not negative")],
)
def test_errors(damping, message):
    function, by, arrays = problem("factorization")
    with pytest.raises(ed.EindiffError, match=message):
        ed.newton_step(function, by, arrays, damping=damping)
