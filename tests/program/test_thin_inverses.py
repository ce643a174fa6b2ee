"""Inverses of sums that are little more than `U U'`, with few columns: what is thin is multiplied with them first."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import eindiff as ed
from eindiff.program.interpreter import evaluate  # alone: both lose some digits, in ways of their own

RNG, NOISE, DECLARED = np.random.default_rng(0), 1e-6, "U(n,k); Y(n,m); c()"
VALUES = {name: RNG.normal(size=shape) for name, shape in {"U": (8, 2), "V": (8, 2), "Y": (8, 10)}.items()}
VALUES["c"] = np.array(NOISE)
F = "tr(inv(U*U' + c*eye(n))*Y*Y') + logdet(U*U' + c*eye(n))"  # of probabilistic principal components
STEP = mpmath.mpf(10) ** -40


def gradient(at: Any, given: Any) -> Any:
    inverse = mpmath.inverse(at * at.T + mpmath.mpf(NOISE) * mpmath.eye(len(VALUES["U"])))
    return 2 * (inverse * at - inverse * given * given.T * inverse * at)


def exact_hvp(given: Any) -> np.ndarray:
    at, along = (mpmath.matrix(VALUES[name].tolist()) for name in "UV")
    with mpmath.workdps(100):
        ends = [gradient(at + step * along, given) for step in (STEP, -STEP)]
        return np.array(((ends[0] - ends[1]) / (2 * STEP)).tolist(), float)


@pytest.mark.parametrize("columns", [1, 10])
def test_hessians_times_directions_of_factors(columns: int) -> None:
    """The terms are as large as the square of an inverse, and their sum is as large as the inverse."""
    values = {**VALUES, "Y": VALUES["Y"][:, :columns]}
    expected = exact_hvp(mpmath.matrix(values["Y"].tolist()))
    hvp = ed.hvp(ed.parse(F, DECLARED), "U", "V")
    for found in (evaluate(hvp, values), ed.compile(hvp)(**values)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


MIDDLES = {  # the gradient by U is `-(M + M') U` for `M = inv(K) middle inv(K)`
    "tr(inv(U*U' + c*eye(n)))": lambda inverse, A, y: mpmath.eye(8),
    "y'*inv(U*U' + c*eye(n))*A*inv(U*U' + c*eye(n))*y": lambda inverse, A, y: (
        A * inverse * y * y.T + y * y.T * inverse * A
    ),
}
TOLERANCES = dict(zip(MIDDLES, (2e-8, 3e-11), strict=True))  # the first is of terms that cancel once more


@pytest.mark.parametrize("text", MIDDLES)
def test_diagonals_of_hessians_have_no_products_of_two_inverses_with_what_is_thin(text: str) -> None:
    values, expected = {"U": VALUES["U"], "c": np.array(1e-3)}, np.zeros((8, 2))
    diagonal = ed.hessian_diagonal(ed.parse(text, DECLARED + "; A(n,n); y(n)"), "U")
    values |= {"A": VALUES["Y"][:, :8], "y": VALUES["V"][:, 0]}
    at, A, y = (mpmath.matrix(values[name].tolist()) for name in "UAy")
    with mpmath.workdps(100):
        for place in np.ndindex(8, 2):
            ends = []
            for step in (STEP, -STEP):
                moved = at.copy()
                moved[place] += step
                inverse = mpmath.inverse(moved * moved.T + mpmath.mpf(1e-3) * mpmath.eye(8))
                middle = inverse * MIDDLES[text](inverse, A, y) * inverse
                ends.append((-(middle + middle.T) * moved)[place])
            expected[place] = (ends[0] - ends[1]) / (2 * STEP)
    given = {v.name: values[v.name] for v in ed.variables(diagonal)}
    for found in (evaluate(diagonal, given), ed.compile(diagonal)(**given)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[text] * np.abs(expected).max())


def test_gradients_of_likelihoods_with_few_factors_cost_like_these() -> None:
    """In `(inv(K) - a a') X S` the inverse is pushed through X first: the matrix in parentheses has n rows and columns.
    The value and the gradients by all parameters take a few times what the value takes."""
    f = ed.parse("y'*inv(diag(d) + X*S*X')*y + logdet(diag(d) + X*S*X')", "X(n,m); d(n) positive; y(n); S(m,m) psd")
    outputs = [f, *(ed.gradient(f, name) for name in "XSdy")]
    sizes = {"n": 1000, "m": 100}
    assert ed.plan(outputs, sizes).flops <= 4 * ed.plan(f, sizes).flops
    rng = np.random.default_rng(1)
    X, d, y, root = rng.normal(size=(300, 20)), rng.uniform(1, 2, 300), rng.normal(size=300), rng.normal(size=(20, 20))
    S = root @ root.T + np.eye(20)
    inverse = np.linalg.inv(np.diag(d) + X @ S @ X.T)
    a, found = inverse @ y, ed.compile(outputs)(X=X, S=S, d=d, y=y)
    W = inverse - np.outer(a, a)
    value = y @ a + np.linalg.slogdet(np.diag(d) + X @ S @ X.T)[1]
    for one, expected in zip(found, [value, 2 * W @ X @ S, X.T @ W @ X, W.diagonal(), 2 * a], strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


def test_thin_matrices_between_inverses_in_gradients_come_first() -> None:
    """Of `X' inv(S) Y M Y' inv(S) X` by S: `inv(S) X` and `inv(S) Y` are solutions for few columns."""
    f = ed.parse("sum(C.*(X'*inv(S)*Y*inv(W)*Y'*inv(S)*X))", "Y(n,m); S(n,n) psd; X(n,k); W(m,m) psd; C(k,k)")
    sizes = {"n": 300, "k": 20, "m": 30}
    assert ed.plan([f, ed.gradient(f, "S")], sizes).flops <= 2 * ed.plan(f, sizes).flops


def test_products_of_low_rank_that_several_others_have_are_not_formed() -> None:
    """The gradients of a posterior covariance: `X M X'` has n rows and columns, `M X'` few."""
    V = ed.parse("sum(C.*(S - S*X'*inv(diag(d) + X*S*X')*X*S))", "X(n,m); d(n) positive; S(m,m) psd; C(m,m)")
    outputs = [V, *(ed.gradient(V, name) for name in "XSdC")]
    assert ed.plan(outputs, {"n": 1000, "m": 100}).flops <= 20 * 1000 * 100**2
    rng = np.random.default_rng(2)
    X, d, root, C = (rng.normal(size=s) for s in ((300, 20), 300, (20, 20), (20, 20)))
    X, d, S = X / 20, 1 + d**2 / 9, root @ root.T / 20 + np.eye(20)
    G = np.linalg.inv(np.linalg.inv(S) + X.T @ (X / d[:, None]))
    H = np.linalg.solve(S, G)  # of I - inv(..) S
    by_S, by_X = H @ (C + C.T) @ H.T / 2, -(X / d[:, None]) @ G @ (C + C.T) @ G
    expected = [np.vdot(C, G), by_X, by_S, ((X / d[:, None] @ G) @ C * (X / d[:, None] @ G)).sum(1), G]
    for one, other in zip(ed.compile(outputs)(X=X, S=S, d=d, C=C), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10 * np.abs(other).max())
