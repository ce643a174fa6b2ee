"""Factorizations are shared, symmetric matrices take half the work, and values are those of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.functions.matrices import logabsdet, signdet

N = 60
A, S = ed.matrix("A", "n", "n"), ed.symmetric("S", "n")
P = ed.symmetric("P", "n", "psd")
X, b, c = ed.matrix("X", "n", "k"), ed.vector("b", "n"), ed.vector("c", "n")


def _arrays(rng: np.random.Generator, dtype: str = "float64") -> dict[str, np.ndarray]:
    square, right = rng.normal(size=(N, N)), rng.normal(size=(N, 7))
    arrays = {"A": square + 8 * np.eye(N), "S": square + square.T, "P": square @ square.T / N + np.eye(N), "X": right}
    arrays |= {"b": rng.normal(size=N), "c": rng.normal(size=N)}
    return {name: array.astype(dtype) for name, array in arrays.items()}


CASES = {
    "symmetric": (ed.inv(S) @ b, 1),
    "definite": (ed.inv(P) @ X, 1),
    "made definite": (ed.inv(X @ X.T + P) @ b, 1),
    "conjugate": (X.T @ ed.inv(P) @ X, 1),
    "conjugate of a symmetric one": (X.T @ ed.inv(S) @ X, 1),
    "nested": (ed.inv(X.T @ ed.inv(P) @ X) @ X.T @ ed.inv(P) @ b, 1),
    "transposed": (b @ ed.inv(A) @ X @ X.T @ ed.inv(A) @ c, 1),
    "inverse and solution": (ed.inv(A) + ed.outer(ed.inv(A) @ b, c), 1),
    "inverse": (ed.inv(P) + P, 1),
    "determinants": (ed.logdet(P) + b @ ed.inv(P) @ b, 1),
    "determinant of a general one": (logabsdet(A) * signdet(A) * ed.inv(A) @ b, 1),
    "log-determinant of a general one": (ed.logdet(A @ A.T) + ed.sum(ed.inv(A @ A.T) @ b), 1),
    "gradient": (ed.gradient(ed.logdet(P) + b @ ed.inv(P) @ b, P), 1),
    "hessian": (ed.hessian(ed.sum(ed.log(X.T @ ed.inv(P) @ b)), b), 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_values_are_those_of_the_interpreter(name: str, seed: int) -> None:
    expr, count = CASES[name]
    arrays = _arrays(np.random.default_rng(seed))
    f = ed.compile(expr)
    got = f(**{v.name: arrays[v.name] for v in ed.variables(expr)})
    assert f.source.partition("def f(")[2].count("factorize(") >= count
    expected = ed.evaluate(expr, {v.name: arrays[v.name] for v in ed.variables(expr)})
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())


def test_one_matrix_is_factorized_once() -> None:
    f = ed.compile([ed.inv(A) @ b, ed.inv(A).T @ c, ed.inv(A), logabsdet(A)])
    f(**{name: x for name, x in _arrays(np.random.default_rng(0)).items() if name in "Abc"})
    assert f.source.partition("def f(")[2].count("factorize(") == 1
    assert "np.linalg" not in f.source.partition("def f(")[2]


def test_a_single_system_stays_as_it_is() -> None:
    f = ed.compile(ed.inv(A) @ b)
    f(A=np.eye(N), b=np.ones(N))
    assert "np.linalg.solve(A, b)" in f.source


def test_small_systems_stay_as_they_are() -> None:
    f = ed.compile(ed.inv(P) @ b + ed.inv(P) @ c * ed.logdet(P))
    f(P=np.eye(9), b=np.ones(9), c=np.ones(9))
    assert "factorize" not in f.source


def test_symmetric_systems_take_half_the_work() -> None:
    sizes = {"n": 600, "k": 30}
    n, k = sizes["n"], sizes["k"]
    assert ed.plan(ed.inv(P) @ X, sizes).flops == pytest.approx(n**3 / 3 + 2 * n * n * k)
    assert ed.plan(X.T @ ed.inv(P) @ X, sizes).flops == pytest.approx(n**3 / 3 + n * n * k + n * k * k)


@pytest.mark.parametrize("expr", [ed.inv(S) @ b, X.T @ ed.inv(S) @ X, ed.inv(S) + S, ed.inv(A) @ b + ed.inv(A) @ c])
def test_singular_matrices_are_refused(expr: ed.Expr) -> None:
    arrays = _arrays(np.random.default_rng(0)) | {"S": np.zeros((N, N)), "A": np.zeros((N, N))}
    with pytest.raises(ed.EindiffError, match="cannot be: Singular matrix"):
        ed.compile(expr)(**{v.name: arrays[v.name] for v in ed.variables(expr)})


def test_the_logarithm_of_a_negative_determinant_is_no_number() -> None:
    indefinite = -np.eye(N)
    indefinite[0, 0] = 1
    assert np.isnan(ed.compile(ed.logdet(S))(S=indefinite))


def test_half_precision_stays() -> None:
    arrays = _arrays(np.random.default_rng(0), "float32")
    got = ed.compile(X.T @ ed.inv(P) @ X + ed.logdet(P))(X=arrays["X"], P=arrays["P"])
    assert got.dtype == np.float32
    expected = arrays["X"].T @ np.linalg.solve(arrays["P"], arrays["X"]) + np.linalg.slogdet(arrays["P"])[1]
    np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_a_number_beside_an_inverse_does_not_form_it() -> None:
    f = ed.compile(-2 * X.T @ ed.inv(A) @ X)
    f(A=np.eye(N), X=np.ones((N, 7)))
    assert "np.linalg.inv" not in f.source


def test_inputs_are_not_changed() -> None:
    arrays = _arrays(np.random.default_rng(0))
    for order in "CF":
        given = {name: np.array(x, order=order) for name, x in arrays.items()}
        ed.compile([ed.inv(P) @ X, ed.inv(P), ed.inv(A) @ X, ed.inv(A).T @ b])(**given)
        assert all((given[name] == x).all() for name, x in arrays.items())
