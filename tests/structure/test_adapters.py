"""Structured derivatives as operators of SciPy and lineax: the same products, solutions and minima as with matrices."""

from __future__ import annotations

import sys
from collections.abc import Callable

import jax
import lineax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg, eigsh, lsqr

import eindiff as ed
from objectives import OBJECTIVES
from structured_values import hessian, jacobian, third_derivative


def tall_jacobian() -> ed.Derivative:
    """12×8 by 5×8, with a delta."""
    return jacobian(8)


def equal_rows() -> ed.Derivative:
    """6 by 3: no array has the label of the rows."""
    x = ed.vector("x", "n")
    return ed.structured(ed.jacobian(ed.sum(x**2) * ed.ones(6), x), {"x": np.arange(3.0)})


def blocks_of_jacobians() -> ed.Derivative:
    """Two functions by three variables: 7 rows, 9 columns, and a block that is zero."""
    A, x, y, z = ed.matrix("A", 4, 2), ed.vector("x", 2), ed.vector("y", 4), ed.vector("z", 3)
    functions, variables = [A @ x * ed.exp(y), ed.sin(z) * (x @ x)], [x, y, z]
    rng = np.random.default_rng(0)
    point = {v.name: rng.normal(size=v.shape) for v in (A, *variables)}
    return ed.structured([[ed.jacobian(f, v) for v in variables] for f in functions], point)


OTHERS: list[Callable[[], ed.Derivative]] = [tall_jacobian, third_derivative, equal_rows, blocks_of_jacobians]


def columns(size: int, count: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(size, count))


# SciPy


def check_scipy(derivative: ed.Derivative) -> None:
    """Products from both sides, with vectors and matrices."""
    matrix, operator = derivative.as_matrix(), derivative.to_scipy()
    assert isinstance(operator, LinearOperator)
    assert operator.shape == matrix.shape
    assert operator.dtype == derivative.dtype
    right, left = columns(matrix.shape[1]), columns(matrix.shape[0])
    close = {"rtol": 1e-12, "atol": 1e-12 * max(1.0, np.abs(matrix).max(initial=0.0))}
    np.testing.assert_allclose(operator.matmat(right), matrix @ right, **close)
    np.testing.assert_allclose(operator.rmatmat(left), matrix.T @ left, **close)
    np.testing.assert_allclose(operator.matvec(right[:, 0]), matrix @ right[:, 0], **close)
    np.testing.assert_allclose(operator.matvec(right[:, :1]), matrix @ right[:, :1], **close)
    np.testing.assert_allclose(operator.rmatvec(left[:, 0]), matrix.T @ left[:, 0], **close)
    np.testing.assert_allclose(operator.T @ left, matrix.T @ left, **close)
    np.testing.assert_allclose(np.dot(operator, right[:, 0]), matrix @ right[:, 0], **close)
    np.testing.assert_allclose(operator @ (1j * right), matrix @ (1j * right), **close)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_scipy_of_objectives(name: str) -> None:
    check_scipy(hessian(name))


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_scipy_of_others(make: Callable[[], ed.Derivative]) -> None:
    check_scipy(make())


def test_scipy_of_single_columns() -> None:
    """A matrix that is also a tensor of the variable's shape is still a matrix."""
    X = ed.matrix("X", "n", 1)
    operator = ed.structured(ed.hessian(ed.sum(ed.exp(X)), X), {"X": np.zeros((4, 1))}).to_scipy()
    np.testing.assert_array_equal(operator.matmat(np.ones((4, 1))), np.ones((4, 1)))


def test_scipy_solvers() -> None:
    """An iterative solver, one for least squares, and one for eigenvalues."""
    derivative = hessian("kronecker least squares with ridge")
    matrix, b = derivative.as_matrix(), columns(12, 1)[:, 0]
    x, info = cg(derivative.to_scipy(), b, rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-8)
    largest = eigsh(derivative.to_scipy(), k=2, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(largest), np.linalg.eigvalsh(matrix)[-2:], rtol=1e-8)
    tall = tall_jacobian()
    b = columns(96, 1)[:, 0]
    found = lsqr(tall.to_scipy(), b, atol=1e-13, btol=1e-13)[0]
    np.testing.assert_allclose(found, np.linalg.lstsq(tall.as_matrix(), b, rcond=None)[0], rtol=1e-6, atol=1e-9)


def test_float32_stays() -> None:
    """A derivative of single precision is an operator of single precision."""
    x = ed.vector("x", "n")
    single = ed.compile(ed.hessian(ed.sum(x**3), x), form="structured", dtype="float32")(x=np.ones(3))
    assert single.to_scipy().dtype == np.float32
    assert (single.to_scipy() @ np.ones(3, np.float32)).dtype == np.float32
    assert single.to_lineax().mv(np.ones(3, np.float32)).dtype == np.float32
    assert third_derivative().to_lineax().mv(np.ones(5)).dtype == np.float64


def test_other_functions_of_numpy_are_refused() -> None:
    """They would give arrays of operators."""
    with pytest.raises(TypeError, match="no implementation found"):
        np.sum(third_derivative().to_scipy())


METHODS = ["trust-ncg", "Newton-CG", "trust-krylov", "trust-constr"]


@pytest.mark.parametrize("method", METHODS)
def test_minimize_logistic_regression(method: str) -> None:
    """The same optimum as with the matrix, and as without any Hessian."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    f = ed.sum(ed.softplus(-y * (X @ w))) + ed.sum(w**2) / 2
    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(40, 6)), "y": rng.choice([-1.0, 1.0], 40)}
    value, slope = ed.compile(f), ed.compile(ed.gradient(f, w))
    curvature = ed.compile(ed.hessian(f, w), form="structured")
    problem = {"fun": lambda x: float(value(**data, w=x)), "jac": lambda x: slope(**data, w=x), "x0": np.zeros(6)}
    found = minimize(**problem, hess=lambda x: curvature(**data, w=x).to_scipy(), method=method)
    assert found.success
    expected = minimize(**problem, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.x, expected.x, atol=1e-5)
    with_matrix = minimize(**problem, hess=lambda x: curvature(**data, w=x).as_matrix(), method=method)
    np.testing.assert_allclose(found.x, with_matrix.x, atol=1e-8)
    assert found.nit == with_matrix.nit


@pytest.mark.parametrize("method", METHODS)
def test_minimize_by_matrix(method: str) -> None:
    """A matrix is a flat vector to SciPy; its least squares solution is known."""
    A, B, X = ed.matrix("A", "m", "n"), ed.matrix("B", "m", "k"), ed.matrix("X", "n", "k")
    f = ed.norm2(A @ X - B) ** 2 / 2
    rng = np.random.default_rng(0)
    data = {"A": rng.normal(size=(9, 4)), "B": rng.normal(size=(9, 3))}
    both, curvature = ed.compile([f, ed.gradient(f, X)]), ed.compile(ed.hessian(f, X), form="structured")

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = both(**data, X=x.reshape(4, 3))
        return float(value), slope.ravel()

    def structured(x: np.ndarray) -> LinearOperator:
        return curvature(**data, X=x.reshape(4, 3)).to_scipy()

    found = minimize(value_and_slope, np.zeros(12), jac=True, hess=structured, method=method)
    assert found.success
    expected = np.linalg.lstsq(data["A"], data["B"], rcond=None)[0]
    np.testing.assert_allclose(found.x.reshape(4, 3), expected, atol=1e-5)


# lineax

# One of each structure: compiling for all would take most of the time of the tests.
FOR_LINEAX = [
    "factorization", "factorization by both with ridge", "ratings by biases", "wide ridge regression", "mixed effects",
    "sylvester", "trace with two matrices", "sigmoid net", "attention", "separable", "bilinear form", "linear function",
]  # fmt: skip


def check_lineax(derivative: ed.Derivative) -> None:
    matrix, operator = derivative.as_matrix(), derivative.to_lineax()
    assert (operator.out_size(), operator.in_size()) == matrix.shape
    right, left = columns(matrix.shape[1], 1)[:, 0], columns(matrix.shape[0], 1)[:, 0]
    close = {"rtol": 1e-12, "atol": 1e-12 * max(1.0, np.abs(matrix).max(initial=0.0))}
    np.testing.assert_allclose(operator.mv(right), matrix @ right, **close)
    np.testing.assert_allclose(operator.T.mv(left), matrix.T @ left, **close)
    np.testing.assert_allclose(operator.as_matrix(), matrix, **close)


@pytest.mark.parametrize("name", FOR_LINEAX)
def test_lineax_of_objectives(name: str) -> None:
    check_lineax(hessian(name))


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_lineax_of_others(make: Callable[[], ed.Derivative]) -> None:
    check_lineax(make())


def test_lineax_tags() -> None:
    """What is known is told, and no more."""
    tags = {name: hessian(name).to_lineax().tags for name in ("factorization", "quadratic form", "cubes", "separable")}
    assert tags["factorization"] == {lineax.symmetric_tag, lineax.positive_semidefinite_tag}
    assert tags["quadratic form"] == {lineax.symmetric_tag}
    assert tags["cubes"] == {lineax.symmetric_tag, lineax.diagonal_tag}
    assert lineax.is_diagonal(hessian("separable").to_lineax())
    assert lineax.is_positive_semidefinite(hessian("separable").to_lineax())
    assert not tall_jacobian().to_lineax().tags


SOLVERS = {
    "CG": lineax.CG(rtol=1e-12, atol=1e-12),
    "Cholesky": lineax.Cholesky(),
    "auto": lineax.AutoLinearSolver(well_posed=True),
    "LU": lineax.LU(),
    "GMRES": lineax.GMRES(rtol=1e-12, atol=1e-12, restart=18),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", ["factorization", "sylvester"])
def test_lineax_solves(name: str, solver: str) -> None:
    derivative = hessian(name)
    matrix = derivative.as_matrix()
    b = columns(len(matrix), 1)[:, 0]
    solution = lineax.linear_solve(derivative.to_lineax(), b, SOLVERS[solver])
    np.testing.assert_allclose(solution.value, np.linalg.solve(matrix, b), rtol=1e-8, atol=1e-8)


def test_lineax_solves_what_is_indefinite_diagonal_or_tall() -> None:
    """The automatic choice, which the tags make: LU, division, least squares."""
    for derivative in (hessian("bilinear form", m=4, n=4), hessian("cubes"), tall_jacobian()):
        matrix = derivative.as_matrix()
        b = columns(len(matrix), 1)[:, 0]
        solver = lineax.AutoLinearSolver(well_posed=None)
        found = lineax.linear_solve(derivative.to_lineax(), b, solver).value
        expected = np.linalg.lstsq(matrix, b, rcond=None)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_lineax_under_jit_compiles_once_for_a_structure() -> None:
    """Other arrays and another damping need no compilation of their own."""
    traces = []

    @jax.jit
    def solve(operator: lineax.AbstractLinearOperator, b: jax.Array) -> jax.Array:
        traces.append(operator)
        return lineax.linear_solve(operator, b, lineax.CG(rtol=1e-12, atol=1e-12)).value

    b = columns(18, 1)[:, 0]
    for seed, damping in ((0, 0.5), (1, 0.5), (1, 2.0)):
        derivative = hessian("factorization", seed).damped(damping)
        expected = np.linalg.solve(derivative.as_matrix(), b)
        np.testing.assert_allclose(solve(derivative.to_lineax(), b), expected, rtol=1e-8, atol=1e-8)
    assert len(traces) == 1


def test_lineax_solution_has_a_gradient() -> None:
    """The arrays are leaves: JAX derives through the solution by them."""
    derivative = hessian("separable")
    matrix, b = derivative.as_matrix(), columns(5, 1)[:, 0]

    def total(operator: lineax.AbstractLinearOperator) -> jax.Array:
        return lineax.linear_solve(operator, b).value.sum()

    leaves = jax.tree_util.tree_leaves(jax.grad(total)(derivative.to_lineax()))
    [found] = [leaf for leaf in leaves if leaf.shape == (5,)]
    np.testing.assert_allclose(found, -b / np.diag(matrix) ** 2, rtol=1e-8)


def test_lineax_in_single_precision() -> None:
    """Without 64-bit numbers JAX computes with 32."""
    with jax.enable_x64(False):
        operator = hessian("factorization").to_lineax()
        assert operator.mv(np.ones(18, np.float32)).dtype == np.float32
        assert operator.in_structure().dtype == np.float32


def test_lineax_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "eindiff.structure.lineax_operator", raising=False)
    monkeypatch.setitem(sys.modules, "lineax", None)
    with pytest.raises(ed.EindiffError, match="pip install lineax"):
        hessian("cubes").to_lineax()
