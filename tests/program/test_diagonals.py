"""Of matrices of which some diagonals are read, nothing else is made."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed

N = 300
DECLARED = "A(n,n); B(n,n); L(n,n) lower; M(n,n) lower; U(n,n) upper; T(n,n) tridiagonal; S(n,n) tridiagonal; "
DECLARED += "x(n); y(n); b(n); F(n,3); a positive; c positive"
CASES = {  # in NumPy's words, and operations for each row
    "inv(eye(n) - a*T)*b": ("np.linalg.solve(I - a * T, b)", 24),
    "inv(S + c*T')*b": ("np.linalg.solve(S + c * T.T, b)", 24),
    "inv(diag(x) + a*T)*F": ("np.linalg.solve(np.diag(x) + a * T, F)", 48),
    "inv(diag(x)*T*diag(y) - S)*b": ("np.linalg.solve(np.diag(x) @ T @ np.diag(y) - S, b)", 24),
    "det(eye(n)/c - a*T')": ("np.linalg.det(I / c - a * T.T)", 24),
    "tr(L*M)": ("np.trace(L @ M)", 3),
    "tr(inv(L*M))": ("np.trace(np.linalg.inv(L @ M))", 6),
    "tr(U*inv(L'))": ("np.trace(U @ np.linalg.inv(L.T))", 6),
    "tr(inv(L + a*M))": ("np.trace(np.linalg.inv(L + a * M))", 6),
    "diag(L*M*L)": ("np.diag(L @ M @ L)", 3),
    "diag(inv(L*diag(x)))": ("np.diag(np.linalg.inv(L @ np.diag(x)))", 3),
    "det(L + a*M)": ("np.linalg.det(L + a * M)", 4),
    "tr(T*S)": ("np.trace(T @ S)", 6),
    "tr(A*T')": ("np.trace(A @ T.T)", 6),
    "tr(T*U)": ("np.trace(T @ U)", 6),
    "tr((a*T + c*S)*A)": ("np.trace((a * T + c * S) @ A)", 16),
    "tr((T + x*y')*S)": ("np.trace((T + np.outer(x, y)) @ S)", 14),
    "diag(exp(x*y') + A)": ("np.diag(np.exp(np.outer(x, y)) + A)", 4),
}


def arrays(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    full = {name: rng.normal(size=(n, n)) / 8 + 2 * np.eye(n) for name in "ABLMUTS"}
    full |= {name: np.tril(full[name]) for name in "LM"} | {"U": np.triu(full["U"])}
    full |= {name: np.triu(np.tril(full[name], 1), -1) for name in "TS"}
    vectors = {name: rng.normal(size=n) / 8 + 1 for name in "xyb"}
    return full | vectors | {"F": rng.normal(size=(n, 3)), "a": np.array(0.3), "c": np.array(0.9)}


@pytest.mark.parametrize("text", CASES)
def test_diagonals_are_read_where_they_are_enough(text: str) -> None:
    """Also of matrices with few rows, which the same function is called for."""
    expected, work = CASES[text]
    expr = ed.parse(text, DECLARED)
    assert ed.plan(expr, {"n": N}).flops <= work * N
    compiled = ed.compile(expr)
    for n in (N, 100, 7, 2, 1):
        given = arrays(n)
        value = compiled(**{v.name: given[v.name] for v in ed.variables(expr)})
        np.testing.assert_allclose(value, eval(expected, {"np": np, "I": np.eye(n), **given}), rtol=1e-9)


def test_what_is_needed_as_a_whole_is_made_once() -> None:
    """The diagonals of a sum that is there are views of it."""
    expr = ed.parse("det(a*T + c*S) + sum(exp(a*T + c*S))", DECLARED)
    assert ed.plan(expr, {"n": N}).source.count("a *") == 1
    given = arrays(N)
    whole = 0.3 * given["T"] + 0.9 * given["S"]
    value = ed.compile(expr)(**{v.name: given[v.name] for v in ed.variables(expr)})
    np.testing.assert_allclose(value, np.linalg.det(whole) + np.exp(whole).sum())


def test_triangles_that_are_not_square_have_other_products() -> None:
    """The diagonal of L R, of 6 and 4 columns, is no product of diagonals."""
    expr = ed.parse("tr(L*R)", "L(n,m) lower; R(m,n) lower")
    rng = np.random.default_rng(0)
    for n, m in ((90, 70), (70, 90)):
        L, R = np.tril(rng.normal(size=(n, m))), np.tril(rng.normal(size=(m, n)))
        np.testing.assert_allclose(ed.compile(expr)(L=L, R=R), np.trace(L @ R))


def test_singular_tridiagonal_systems_are_refused() -> None:
    expr = ed.parse("inv(a*T - S)*b", DECLARED)
    T = np.triu(np.tril(np.ones((N, N)), 1), -1)
    with pytest.raises(ed.EindiffError):
        ed.compile(expr)(T=T, S=T, a=1.0, b=np.ones(N))
