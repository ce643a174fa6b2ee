"""Factorizations are shared, symmetric matrices take half the work, and values are those of the interpreter."""

from __future__ import annotations

from typing import Literal

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
    "diagonal of a conjugate": (ed.diag(X.T @ ed.inv(P) @ X), 1),
    "diagonal of a conjugate of a symmetric one": (ed.diag(X.T @ ed.inv(S) @ X), 1),
    "multiple of a conjugate": (3 * b[0] * X @ ed.inv(X.T @ X) @ X.T - X @ ed.inv(X.T @ ed.inv(S) @ X) @ X.T, 2),
    "trace of a conjugate": (ed.tr(X.T @ ed.inv(P) @ X) + b[1] * ed.tr(ed.inv(S) @ X @ X.T), 2),
    "diagonal of a multiple of a large conjugate": (-b[0] * ed.diag(X @ ed.inv(X.T @ X) @ X.T) / 3, 1),
    "sums of products with solutions": (ed.sum((X.T @ ed.inv(P)) * X.T, 1), 1),
    "nested": (ed.inv(X.T @ ed.inv(P) @ X) @ X.T @ ed.inv(P) @ b, 1),
    "transposed": (b @ ed.inv(A) @ X @ X.T @ ed.inv(A) @ c, 1),
    "inverse and solution": (ed.inv(A) + ed.outer(ed.inv(A) @ b, c), 1),
    "inverse": (ed.inv(P) + P, 1),
    "determinants": (ed.logdet(P) + b @ ed.inv(P) @ b, 1),
    "determinant of a general one": (logabsdet(A) * signdet(A) * ed.inv(A) @ b, 1),
    "determinant beside a system": (ed.det(A) * ed.inv(A) @ b + ed.det(P) * ed.inv(P) @ b, 2),
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


CONJUGATES = {  # the operations, without those on single entries, for n rows and m columns of X
    "multiple": (-2 * c[0] * X @ ed.inv(X.T @ X) @ X.T, lambda n, m: n * m * m + m**3 / 3 + n * m * m + n * n * m),
    "diagonal": (ed.diag(X @ ed.inv(X.T @ X) @ X.T) / 3, lambda n, m: n * m * m + m**3 / 3 + n * m * m),
    "trace": (c[0] * ed.tr(X.T @ ed.inv(P) @ X), lambda n, m: n**3 / 3 + n * n * m),
}


@pytest.mark.parametrize("name", CONJUGATES)
def test_conjugates_take_half_a_solution(name: str) -> None:
    """Also multiples of them, whatever is made of their entries."""
    expr, best = CONJUGATES[name]
    n, m = 700, 90
    assert ed.plan(expr, {"n": n, "k": m}).flops <= best(n, m) + 3 * n * n
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(n, m)), "c": rng.normal(size=n), "P": np.diag(np.arange(n) + 1.0)}
    arrays = {v.name: arrays[v.name] for v in ed.variables(expr)}
    expected = ed.evaluate(expr, arrays)
    np.testing.assert_allclose(ed.compile(expr)(**arrays), expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


L, s = ed.matrix("L", "n", "n", "lower"), ed.scalar("s", "positive")
ON_DIAGONALS = {  # the operations without those on single entries
    "diagonal of an inverse": (ed.diag(ed.inv(P + s * ed.eye("n"))), lambda n: 2 * n**3 / 3),
    "trace of an inverse": (ed.tr(ed.inv(P)) * ed.inv(P) @ b, lambda n: 2 * n**3 / 3),
    "trace of an inverse that is not definite": (ed.tr(ed.inv(S)), lambda n: 2 * n**3 / 3),
    "diagonal of the inverse of a triangle": (ed.diag(ed.inv(L.T)) * ed.tr(ed.inv(L)), lambda n: 0),
    "determinants of multiples": (
        ed.logdet(2 * np.pi * s * P) + ed.logdet(c[:, None] * P * c) + b @ ed.inv(s * P) @ b, lambda n: n**3 / 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_DIAGONALS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_diagonals_of_inverses_and_determinants_come_from_factors(name: str, dtype: str) -> None:
    expr, best = ON_DIAGONALS[name]
    for n in (3, 80, 200):
        rng = np.random.default_rng(n)
        square = rng.normal(size=(n, n)) / n
        arrays = {"P": square @ square.T + np.eye(n), "S": square + square.T - np.eye(n)}
        arrays |= {"L": np.tril(square) + np.eye(n), "s": np.array(0.5)}
        arrays |= {name: rng.normal(size=n) for name in "bc"}
        arrays = {v.name: arrays[v.name].astype(dtype) for v in ed.variables(expr)}
        expected = ed.evaluate(expr, {name: x.astype(float) for name, x in arrays.items()})
        digits = 1e-9 if dtype == "float64" else 1e-3
        np.testing.assert_allclose(ed.compile(expr)(**arrays), expected, rtol=digits, atol=digits)
    assert ed.plan(expr, {"n": 200}).flops <= best(200) + 10 * 200**2


def test_one_matrix_is_factorized_once() -> None:
    f = ed.compile([ed.inv(A) @ b, ed.inv(A).T @ c, ed.inv(A), logabsdet(A)])
    f(**{name: x for name, x in _arrays(np.random.default_rng(0)).items() if name in "Abc"})
    assert f.source.partition("def f(")[2].count("factorize(") == 1
    assert "np.linalg" not in f.source.partition("def f(")[2]


def test_a_single_system_stays_as_it_is() -> None:
    f = ed.compile(ed.inv(A) @ b)
    f(A=np.eye(N), b=np.ones(N))
    assert "np.linalg.solve(A, b)" in f.source


def test_a_small_inverse_stays_as_it_is_and_small_systems_share_factors() -> None:
    f = ed.compile(ed.inv(A))
    np.testing.assert_array_equal(f(A=2 * np.eye(9)), np.eye(9) / 2)
    assert "factorize" not in f.source
    g = ed.compile([ed.inv(P) @ b, ed.inv(P), ed.logdet(P)])
    matrix = np.eye(9) + np.random.default_rng(0).random((9, 9))
    matrix @= matrix.T
    x, inverse, logdet = g(P=matrix, b=np.ones(9))
    np.testing.assert_allclose(matrix @ x, np.ones(9), atol=1e-9)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-9)
    np.testing.assert_allclose(logdet, np.linalg.slogdet(matrix)[1])
    assert g.source.partition("def f(")[2].count("factorize(") == 1


def test_symmetric_systems_take_half_the_work() -> None:
    sizes = {"n": 600, "k": 30}
    n, k = sizes["n"], sizes["k"]
    assert ed.plan(ed.inv(P) @ X, sizes).flops == pytest.approx(n**3 / 3 + 2 * n * n * k)
    assert ed.plan(X.T @ ed.inv(P) @ X, sizes).flops == pytest.approx(n**3 / 3 + n * n * k + n * k * k)
    assert ed.plan(ed.diag(X.T @ ed.inv(P) @ X), sizes).flops == pytest.approx(n**3 / 3 + n * n * k + 2 * n * k)


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


L, F = ed.matrix("L", "k", "k"), ed.matrix("F", "k", "n")
SMALL = {
    "general": ed.inv(L) @ F,
    "from the right": F.T @ ed.inv(L),
    "transposed": ed.inv(L.T) @ F,
    "definite": ed.inv(ed.symmetric("Q", "k", "psd")) @ F,
    "Gram matrix": ed.inv(F @ F.T) @ F,
    "projection": F.T @ ed.inv(F @ F.T) @ F,
    "gradient": ed.gradient(ed.sum(ed.log(1 + (ed.inv(L) @ F) ** 2)), L),
}


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("rows", [5, 50])
@pytest.mark.parametrize("name", SMALL)
def test_systems_with_many_right_sides(name: str, rows: int, order: Literal["C", "F"]) -> None:
    rng = np.random.default_rng(rows)
    square = rng.normal(size=(rows, rows)) / rows
    arrays = {"L": square + np.eye(rows), "F": rng.normal(size=(rows, 10 * N)), "Q": square @ square.T + np.eye(rows)}
    expr = SMALL[name]
    given = {v.name: np.array(arrays[v.name], order=order) for v in ed.variables(expr)}
    f = ed.compile(expr)
    got = f(**given)
    is_definite = "L" not in given and (rows == 5 or name == "projection")  # there Cholesky's factors are as good
    assert ("symmetric=True" if is_definite else "solve_many(") in f.source
    expected = ed.evaluate(expr, given)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    assert all((x == arrays[name]).all() for name, x in given.items())
    with pytest.raises(ed.EindiffError, match="cannot be: Singular matrix"):
        f(**{name: 0 * x for name, x in given.items()})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("Q", [L, ed.symmetric("L", "k", "psd")])
def test_many_right_sides_of_a_matrix_that_is_nearly_singular(Q: ed.Expr, dtype: str) -> None:
    """Its inverse would leave residuals that are larger by the condition of the matrix."""
    rows = 8 if dtype == "float64" else 4
    hilbert = (1 / (1 + np.add.outer(np.arange(rows), np.arange(rows)))).astype(dtype)
    right = hilbert @ np.random.default_rng(0).normal(size=(rows, 2000)).astype(dtype)
    f = ed.compile(ed.inv(Q) @ F)
    found = f(L=hilbert, F=right)
    assert "solve_many(" in f.source and found.dtype == dtype
    residual = np.abs(hilbert @ found - right).max() / (np.abs(hilbert).max() * np.abs(found).max())
    assert residual < 4 * np.finfo(dtype).eps
    assert np.abs(hilbert @ (np.linalg.inv(hilbert) @ right) - right).max() > 20 * np.abs(hilbert @ found - right).max()


SLICED = {  # with the operations of the best way, in n^3
    "row": (ed.inv(A)[3], 2 / 3),
    "column": (ed.inv(A)[:, 3], 2 / 3),
    "entry": (ed.inv(A)[3, 4], 2 / 3),
    "entry of the diagonal": (ed.diag(ed.inv(A))[3], 2 / 3),
    "rows at places": (ed.inv(A)[[1, 5, 2]], 2 / 3),
    "symmetric": (ed.inv(P)[:5, :5], 1 / 3),
    "row of a product": ((ed.inv(A) @ P)[3], 2 / 3),
    "column of a chain": ((P @ ed.inv(P + A @ A.T) @ ed.inv(A).T)[:, 3], 2 / 3 + 1 / 3 + 2),
    "many entries of a solution": ((ed.inv(A) @ b)[:40], 2 / 3),
    "rows of solutions": ((ed.inv(A) @ X)[:40], 2 / 3),
    "differences": ((ed.inv(A) @ b)[1:] - (ed.inv(A) @ b)[:-1], 2 / 3),
    "inverse and row": (ed.inv(A) + ed.inv(A)[3], 2),
    "gradient": (ed.gradient(ed.inv(A)[3, 4], A), 2 / 3),
    "sum of a solution": (ed.sum(ed.inv(A) @ b), 2 / 3),
    "sums of solutions": (ed.sum(ed.inv(A) @ X, axis=0), 2 / 3),
    "sum of an inverse": (ed.sum(ed.inv(P)), 1 / 3),
}


@pytest.mark.parametrize("name", SLICED)
def test_what_is_read_of_an_inverse_is_solved_for(name: str) -> None:
    expr, most = SLICED[name]
    arrays = {v.name: x for v in ed.variables(expr) for x in [_arrays(np.random.default_rng(5))[v.name]]}
    expected = ed.evaluate(expr, arrays)
    for backend in ("numpy", "torch"):
        got = np.asarray(ed.compile(expr, backend=backend)(**arrays))
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    assert ed.plan(expr, {"n": N, "k": 7}).flops <= (most + 30 / N) * N**3


@pytest.mark.parametrize("word", ["lower", "upper", "tridiagonal"])
@pytest.mark.parametrize("rows", [1, 2, 3, 20])
def test_small_triangles_are_not_factorized(word: str, rows: int) -> None:
    T = ed.matrix("T", "n", "n", word)
    rng = np.random.default_rng(rows)
    keep = {"lower": np.tril, "upper": np.triu, "tridiagonal": lambda x: np.triu(np.tril(x, 1), -1)}[word]
    arrays = {"T": keep(rng.normal(size=(rows, rows))) + 3 * np.eye(rows), "b": rng.normal(size=rows)}
    arrays |= {"X": rng.normal(size=(rows, 4))}
    exprs = [ed.inv(T) @ b, ed.inv(T).T @ X, ed.inv(T), b @ ed.inv(T) @ X]
    f = ed.compile(exprs)
    for got, expr in zip(f(**arrays), exprs, strict=True):
        np.testing.assert_allclose(got, ed.evaluate(expr, arrays), rtol=1e-10, atol=1e-12)
    assert rows == 1 or "np.linalg.solve" not in f.source


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        (S @ S, "S.T.dot(S)"),  # of which NumPy computes half
        (ed.chol(P @ P + ed.eye("n")), "cholesky(t0)"),  # which is symmetric as it is
        (ed.inv(A) @ ed.inv(A), "t0.dot(t0)"),  # both are there
    ],
)
def test_what_is_there_is_used_as_it_is(expr: ed.Expr, words: str) -> None:
    arrays = {v.name: x for v in ed.variables(expr) for x in [_arrays(np.random.default_rng(6))[v.name]]}
    f = ed.compile(expr)
    expected = ed.evaluate(expr, arrays)
    np.testing.assert_allclose(f(**arrays), expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())
    assert words in f.source


def test_systems_without_equations() -> None:
    A, x, B = ed.matrix("A", "n", "n"), ed.vector("x", "n"), ed.matrix("B", "n", "m")
    outputs, arrays = [ed.solve(A, x), ed.solve(A, B)], {"A": np.eye(0), "x": np.ones(0), "B": np.ones((0, 2))}
    for found in (ed.compile(outputs)(**arrays), ed.evaluate(outputs, arrays)):
        assert [y.shape for y in found] == [(0,), (0, 2)]


@pytest.mark.parametrize("weighted", [False, True])
def test_squares_of_solutions_beside_their_derivatives_keep_their_digits(weighted: bool) -> None:
    """`|inv(H) b|^2` is no product of b with `inv(H) inv(H) b`, parts of which derivatives have."""
    n = 8
    h, b, w = ed.symmetric("H", n), ed.vector("b", n), ed.vector("w", n)
    loss = ed.sum((w if weighted else 1) * (ed.inv(h) @ b) ** 2)
    hilbert = 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0)
    arrays = {"H": hilbert, "b": hilbert.sum(axis=1)} | ({"w": np.ones(n)} if weighted else {})
    for others in ([ed.gradient(loss, b)], [ed.hessian(loss, b)], [ed.gradient(loss, b), ed.hessian(loss, b)]):
        assert abs(ed.compile([loss, *others])(**arrays)[0] - n) < 1e-4


def test_squares_of_products_beside_their_derivatives_keep_their_digits() -> None:
    """`|A x|^2` is no product of x with `A'A x`: where x is nearly in the kernel of A, that has no digits."""
    a, x = ed.matrix("A", 40, 5), ed.vector("x", 5)
    loss = ed.norm2(a @ x) ** 2
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(40, 5))
    matrix[:, 4] = -matrix[:, :4].sum(axis=1) + 1e-9 * rng.normal(size=40)
    expected = float(((matrix @ np.ones(5)) ** 2).sum())
    for others in ([ed.gradient(loss, x)], [ed.hessian(loss, x)], [ed.gradient(loss, x), ed.hessian(loss, x)]):
        assert abs(ed.compile([loss, *others])(A=matrix, x=np.ones(5))[0] / expected - 1) < 1e-5


@pytest.mark.parametrize(("n", "k"), [(30, 6), (12, 11), (6, 30)])
def test_products_beside_the_inverse_of_what_they_are_part_of_keep_their_digits(n: int, k: int) -> None:
    """`U U' inv(U U' + l) b` is `U (U' ...)`: the inverse is large where `U'` is 0, and `U U'` only up to rounding."""
    u, b, ridge = ed.matrix("U", "n", "k"), ed.vector("b", "n"), ed.scalar("l")
    loss = ed.norm2(u.T @ ed.inv(u @ u.T + ridge * ed.eye("n")) @ b) ** 2
    outputs = [loss, ed.gradient(loss, b), ed.hessian(loss, b)]
    rng = np.random.default_rng(n)
    arrays = {"U": rng.normal(size=(n, k)), "b": rng.normal(size=n), "l": 1e-6}
    basis, s, _ = np.linalg.svd(arrays["U"], full_matrices=False)
    hessian = 2 * basis * (s / (s**2 + 1e-6)) ** 2 @ basis.T
    expected = [arrays["b"] @ hessian @ arrays["b"] / 2, hessian @ arrays["b"], hessian]
    for found in (ed.compile(outputs)(**arrays), [ed.compile(x)(**arrays) for x in outputs]):
        for value, exact in zip(found, expected, strict=True):
            assert np.abs(value - exact).max() < 1e-6 * np.abs(exact).max()


def test_a_cholesky_factor_that_is_there_solves() -> None:
    """Samples and densities of one covariance take one factorization."""
    outputs = ed.parse("chol(S)*z", "S(n,n) psd; z(n)"), ed.parse("y'*inv(S)*y + logdet(S)", "S(n,n) psd; y(n)")
    inverse = ed.parse("inv(S)", "S(n,n) psd")
    f = ed.compile([*outputs, inverse], validate=False)
    assert f.plan({"n": 300}).source.count("cholesky(") == 1 and "factorize(" not in f.plan({"n": 300}).source
    for n in (1, 5, 300):
        rng = np.random.default_rng(n)
        root, z, y = rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)
        S = root @ root.T + np.eye(n)
        expected = [np.linalg.cholesky(S) @ z, y @ np.linalg.solve(S, y) + np.linalg.slogdet(S)[1], np.linalg.inv(S)]
        for one, other in zip(f(S=S, z=z, y=y), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    with pytest.raises(ed.EindiffError, match="cannot be"):
        f(S=-np.eye(300), z=np.ones(300), y=np.ones(300))


@pytest.mark.parametrize("base", ["eye(n)", "diag(d)"])
def test_a_sum_and_its_transpose_have_one_factorization(base: str) -> None:
    """As in autoregressive models on graphs: `inv(I - c W) inv(I - c W') b`."""
    declared, n = "W(n,n); c; b(n); d(n)", 300
    texts = ["inv(G)*inv(H)*b", "logabsdet(G) + logabsdet(H)", "inv(H)*d", "d'*inv(G)*b"]
    outputs = [ed.parse(f"G = {base} - c*W; H = {base} - c*W'; {text}", declared) for text in texts]
    assert ed.plan(outputs, {"n": n}).flops <= 2 / 3 * n**3 + 20 * n**2
    rng = np.random.default_rng(0)
    W, b, d = rng.normal(size=(n, n)) / 20, rng.normal(size=n), rng.uniform(1, 2, n)
    G = (np.eye(n) if base == "eye(n)" else np.diag(d)) - 0.3 * W
    half = np.linalg.solve(G.T, b)
    size = np.linalg.slogdet(G)[1]
    expected = [np.linalg.solve(G, half), 2 * size, np.linalg.solve(G.T, d), d @ np.linalg.solve(G, b)]
    for one, other in zip(ed.compile(outputs)(W=W, c=np.array(0.3), b=b, d=d), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
