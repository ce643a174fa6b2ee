"""Sums of a matrix of few entries and a term of low rank: by the small matrix, unless that would cost digits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eindiff as ed

N, K = 400, 8
DECLARED = (
    "L(n,n) lower; M(n,n) lower; E(n,n) lower unit; U(n,n) upper; T(n,n) tridiagonal; S(n,n) tridiagonal symmetric;"
    "B(n,n) banded; D(n,n) diagonal; P(n,k); Q(n,k); x(n); y(n); b(n); c positive"
)
LOOK = 8 * N**2  # at the condition of a triangle

CASES = {  # operations of the small matrix' way, besides a look at each matrix
    "a triangle and an outer product": ("inv(L + x*y')*b", 2 * N**2),
    "an upper one and a product": ("inv(U - P*Q')*b", (K + 1) * N**2 + 2 * N * K**2),
    "a transposed one": ("inv(c*L' + x*y')*b", 3 * N**2),
    "a product with its transpose": ("inv(L*L' + P*P')*b", (K + 4) * N**2 + 2 * N * K**2),
    "weights between": ("inv(E*D*E' + x*x')*b", 5 * N**2),
    "a diagonal added": ("inv(eye(n) + c*L + x*y')*b", 5 * N**2),
    "two triangles added": ("inv(L + c*M + x*y')*b", 6 * N**2),
    "a determinant": ("logabsdet(L + x*y')", 2 * N**2),
    "the sign of a determinant, too": ("det(T + x*y')", 40 * N),
    "a quadratic form and a determinant": ("b'*inv(L*L' + P*P')*b + logdet(L*L' + P*P')", (K + 4) * N**2),
    "three diagonals": ("inv(T + x*y')*b", 100 * N),
    "symmetric ones": ("inv(S + P*P')*b", 200 * N * K),
    "a band": ("inv(B + x*y')*b", 4 * N**2),
}


def _arrays(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    square = {name: rng.normal(size=(N, N)) / 20 + 2 * np.eye(N) for name in "LMEUTSB"}
    square |= {name: np.tril(square[name]) for name in "LME"} | {"U": np.triu(square["U"])}
    square |= {name: np.triu(np.tril(square[name], width), -width) for name, width in (("T", 1), ("S", 1), ("B", 3))}
    np.fill_diagonal(square["E"], 1)
    square["S"] = square["S"] + square["S"].T
    thin = {name: rng.normal(size=(N, K)) / 20 for name in "PQ"} | {"c": np.array(0.7)}
    return {**square, **thin, "D": rng.uniform(1, 2, N), **{name: rng.normal(size=N) / 20 for name in "xyb"}}


def _expected(text: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The value by NumPy from the matrix of the sum as it is."""
    names = {k: np.diag(v) if k == "D" else v[:, None] if k in "xyb" else v for k, v in arrays.items()}
    names |= {"eye": np.eye, "n": N, "inv": np.linalg.inv, "logdet": lambda A: np.linalg.slogdet(A)[1]}
    names |= {"det": np.linalg.det}
    code = text.replace("'", ".T").replace("*", "@").replace("c@", "c*").replace("logabsdet", "logdet")
    return np.squeeze(eval(code, names))


@pytest.mark.parametrize("name", CASES)
def test_sums_with_a_term_of_low_rank_take_no_factorization(name: str) -> None:
    text, best = CASES[name]
    expr, arrays = ed.parse(text, DECLARED), _arrays()
    given = {v.name: arrays[v.name] for v in ed.variables(expr)}
    assert ed.plan(expr, {"n": N, "k": K}).flops <= best + 2 * LOOK
    f, out = ed.compile(expr), np.empty(() if "det" in text else N)
    expected = _expected(text, arrays)
    assert "conditioned" in f.plan({"n": N, "k": K}).source
    for found in (f(**given), f(**given, out=out), pickle.loads(pickle.dumps(f))(**given)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("small", [1e-5, 1e-14, 0.0])
@pytest.mark.parametrize("name", [name for name in CASES if "det" not in name])
def test_no_digits_are_lost_beside_a_matrix_of_large_condition(name: str, small: float) -> None:
    """A matrix that is nearly singular, or is so, while the sum is neither."""
    text, arrays = CASES[name][0], _arrays(1)
    if "E*" in text:
        arrays["D"][5] = small
    for matrix in {"L", "M", "U", "T", "S", "B"}:
        arrays[matrix][5] = arrays[matrix][:, 5] = 0
        arrays[matrix][5, 5] = small - (1 / 0.7 if "eye" in text else 0)
    for vectors in "xyPQ":
        arrays[vectors][5] = 1
    expr = ed.parse(text, DECLARED)
    given = {v.name: arrays[v.name] for v in ed.variables(expr)}
    expected = _expected(text, arrays)
    with np.errstate(all="raise"):
        found = ed.compile(expr, validate=False)(**given)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


def test_gradients_by_a_triangle_take_its_inverse_at_most() -> None:
    """`inv(L L') L` is the transposed inverse, also where L is looked at."""
    f, arrays = ed.parse("b'*inv(L*L' + P*P')*b + logdet(L*L' + P*P')", DECLARED), _arrays(3)
    given, outputs = {name: arrays[name] for name in "LPb"}, [f, ed.gradient(f, "L"), ed.gradient(f, "P")]
    plan = ed.plan(outputs, {"n": N, "k": K})
    assert "conditioned" in plan.source and plan.flops <= N**3 / 3 + (20 * K + 60) * N**2
    K_inverse = np.linalg.inv(arrays["L"] @ arrays["L"].T + arrays["P"] @ arrays["P"].T)
    a = K_inverse @ arrays["b"]
    W = 2 * (K_inverse - np.outer(a, a))
    _, by_L, by_P = ed.compile(outputs)(**given)
    np.testing.assert_allclose(by_L, np.tril(W @ arrays["L"]), atol=1e-10)
    np.testing.assert_allclose(by_P, W @ arrays["P"], atol=1e-10)


def test_conditions_that_no_entry_shows_are_seen() -> None:
    """The inverse of a triangle with ones on its diagonal and -1 below it has entries of 2**n."""
    n = 200
    L = np.tril(-np.ones((n, n)), -1) + np.eye(n)
    rng = np.random.default_rng(2)
    x, y, b = rng.normal(size=(3, n))
    f = ed.compile(ed.parse("inv(L + X*Y')*b", "L(n,n) lower; X(n,k); Y(n,k); b(n)"))
    X, Y = np.stack([x, np.ones(n)], 1), np.stack([y, np.linspace(1, 2, n)], 1)
    assert "conditioned" in f.plan({"n": n, "k": 2}).source
    for scale in (1.0, 100.0):
        expected = np.linalg.solve(L + scale * X @ Y.T, b)
        np.testing.assert_allclose(f(L=L, X=scale * X, Y=Y, b=b), expected, rtol=1e-8, atol=1e-10)


def test_programs_that_cannot_take_another_way_do_not_look() -> None:
    expr = ed.parse("inv(L + x*y')*b", DECLARED)
    assert "conditioned" not in ed.to_source(expr, sizes={"n": N})
    assert "conditioned" not in ed.compile(expr, backend="jax", sizes={"n": N}).source
