"""Declared properties of matrices: used by programs, checked against arrays, and kept by derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
import oracles  # noqa: F401 (double precision)
from eindiff.functions.matrices import logabsdet
from eindiff.program.check import random_point

SIZES = {"n": 70, "k": 66, "m": 5}
I = ed.eye("n")
L, U = ed.matrix("L", "n", "n", "lower"), ed.matrix("U", "n", "n", "upper")
V, T = ed.matrix("V", "n", "n", "unit", "lower"), ed.matrix("T", "n", "n", "tridiagonal")
R, P = ed.matrix("R", "k", "n", "upper"), ed.matrix("P", "n", "n", "permutation")
A, B, b = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "m"), ed.vector("b", "n")
K = ed.matrix("K", "n", "n", "banded")
n, m = SIZES["n"], SIZES["m"]

CASES = {  # with the operations of the best way, if that is counted
    "product": (L @ A, n**3),
    "product from the right": (A @ U, n**3),
    "transposed": (L.T @ B, n * n * m),
    "transposed from the right": (B.T @ L.T, n * n * m),
    "two halves": (L @ V @ B, 2 * n * n * m),
    "rectangular": (R @ A, 66 * n * n),
    "system": (ed.inv(L) @ B, n * n * m),
    "system from the right": (B.T @ ed.inv(U), n * n * m),
    "system of a product": (ed.inv(L @ V) @ b, 2 * n * n),
    "inverse": (ed.inv(L), n**3 / 3),
    "inverse of a transpose": (ed.inv(L.T) + U, n**3 / 3 + n * n),
    "unit": (ed.inv(V) @ B, n * n * m),
    "tridiagonal": (T @ A, 5 * n * n),
    "tridiagonal from the right": (B.T @ T, 5 * n * m),
    "tridiagonal system": (ed.inv(T) @ B, 9 * n * m),
    "transposed tridiagonal system": (b @ ed.inv(T), 9 * n),
    "tridiagonal, squared": (T @ T, 5 * n * n),
    "banded": (K @ A, 13 * n * n),
    "banded from the right": (B.T @ K.T, 13 * n * m),
    "banded system": (ed.inv(K) @ B, 49 * n * m),
    "system of a sum of bands": (ed.inv(K + T.T) @ b, n * n + 49 * n),
    "permutation": (P @ ed.inv(P) @ A + ed.inv(P), None),
    "rows in another order": (P @ A, n * n),
    "rows and columns in another order": (P.T @ A @ P, 2 * n * n),
    "triangle and band": (L @ K + T @ U - V.T @ P, 13 * n * n + 5 * n * n + n * n + 3 * n * n),
    "several orders": (P @ P.T @ P @ P @ A, 2 * n * n),
    "inverse of a band": (ed.inv(T) + I, 9 * n * n + 2 * n * n + 1),
    "bands and inverses": (ed.inv(T) @ ed.inv(K) @ A, 58 * n * n),
    "system of a triangle and a diagonal": (ed.inv(L + 2 * I) @ B, n * n * m + n * n + 1),
    "system of a band and a diagonal": (ed.inv(T - ed.diag(b)) @ b, 10 * n),
    "product of a band and a diagonal": ((K - ed.diag(b) + T) @ A, None),
    "system of an orthogonal and a diagonal": (ed.inv(P @ ed.diag(b) @ P.T) @ b, 4 * n * n + n),
    "system of triangles and a diagonal": (ed.inv(V @ ed.diag(b) @ V.T) @ b, 2 * n * n + n),
    "system of scaled rows and columns": (ed.inv(2 * ed.diag(b) @ L @ ed.diag(b)) @ b, None),
    "system of a scaled transpose": (ed.inv(ed.diag(b) @ L.T) @ B, None),
    "system of reversed rows": (ed.inv(L[::-1]) @ b, n * n),
    "determinant of scaled rows": (ed.det(V @ ed.diag(b) @ V.T) + ed.det(T[::-1]), None),
    "determinant of a tridiagonal matrix": (ed.det(T.T) + logabsdet(T - ed.diag(b)), None),
    "determinant of a band": (ed.det(K) + logabsdet(T + K), None),
    "determinant": (ed.logdet(L @ L.T) + ed.sum(ed.inv(L @ L.T) @ b), None),
    "sums": ((L + 2 * V) @ A - (L - L) @ A, n**3 + 2 * n**2),
    "elementwise": ((L * A) @ A, n**3 + n**2),
}


def _point(outputs: list[ed.Expr]) -> dict[str, np.ndarray]:
    """Random arrays, with triangles far from singular ones."""
    point = random_point([ed.sum(x) for x in {v for y in outputs for v in ed.variables(y)}], SIZES)
    near = {name: np.where(np.eye(*x.shape) == 1, x, x / n) for name, x in point.items() if name in "LUVRTK"}
    return {**point, **near}


@pytest.mark.parametrize("name", CASES)
def test_values_and_operations(name: str) -> None:
    expr, most = CASES[name]
    point = _point([expr])
    assert np.isfinite(ed.evaluate(expr, point)).all()
    for order in "CF":
        given = {key: np.array(x, order=order) for key, x in point.items()}
        expected = ed.evaluate(expr, point)
        np.testing.assert_allclose(ed.compile(expr)(**given), expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    if most is not None:
        assert ed.plan(expr, SIZES).flops == pytest.approx(most)


def test_products_of_triangles_and_vectors_read_their_halves() -> None:
    """Of large ones: a call takes longer than what it saves on small ones."""
    expr = L @ (U.T @ b) + V.T @ b - U @ b
    for size in (1, 3, 256, 301):
        rng = np.random.default_rng(size)
        given = {name: np.triu(rng.normal(size=(size, size))) for name in "LUV"} | {"b": rng.normal(size=size)}
        given |= {"L": np.array(given["L"].T), "V": np.tril(given["V"].T, -1) + np.eye(size)}
        expected = given["L"] @ given["U"].T @ given["b"] + given["V"].T @ given["b"] - given["U"] @ given["b"]
        for dtype, digits in (("float64", 1e-12), ("float32", 1e-4)):
            arrays = {name: x.astype(dtype) for name, x in given.items()}
            found = ed.compile(expr)(**arrays)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=digits, atol=digits * np.abs(expected).max())
    assert ed.plan(expr, {"n": 301}).flops <= 4 * 301**2 + 3 * 301


@pytest.mark.parametrize(
    ("total", "most"),
    [
        (P + P.T, 3 * n * n),
        (P - ed.diag(b) + 2 * P.T, 8 * n * n),
        (T + P, 10 * n * n),
        (P.T @ T @ P + P, 12 * n * n),
    ],
)
def test_sums_of_matrices_of_few_entries_are_multiplied_out(total: ed.Expr, most: float) -> None:
    """Where they have more entries together than as many products take."""
    sizes = {"n": 300}
    assert ed.plan(total @ A, sizes).flops <= most * (300 / n) ** 2
    point = random_point([ed.sum(total @ A)], sizes)
    expected = ed.evaluate(total, point) @ point["A"]
    least = 1e-10 * np.abs(expected).max()
    np.testing.assert_allclose(ed.compile(total @ A)(**point), expected, rtol=1e-10, atol=least)


def test_determinants_of_bands_take_their_entries_only() -> None:
    expr = ed.det(K) + logabsdet(T - ed.diag(b)) + ed.logdet(K.T + T)
    assert ed.plan(expr, SIZES).flops < 6 * n * n


@pytest.mark.parametrize("word", ["lower", "upper"])
@pytest.mark.parametrize("library", ["jax", "torch"])
def test_other_libraries_solve_triangles(word: str, library: str) -> None:
    pytest.importorskip(library)
    X = ed.matrix("X", "n", "n", word)
    point = _point([X, b]) | {"X": np.diag(np.arange(1.0, 71))}
    got = ed.compile(ed.inv(X) @ b + X @ b, backend=library, dtype="float32")(**point)
    np.testing.assert_allclose(np.asarray(got), ed.evaluate(ed.inv(X) @ b + X @ b, point), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("word", ["lower", "upper"])
@pytest.mark.parametrize("library", ["jax", "torch", "tensorflow"])
def test_other_libraries_invert_triangles_as_such(word: str, library: str) -> None:
    """Their inverses are those of any matrix: by factors with rows swapped, which takes several times as long."""
    pytest.importorskip(library)
    X, S = ed.matrix("X", "n", "n", word), ed.matrix("S", "n", "n", "psd")
    factor = ed.chol(S) if word == "lower" else ed.chol(S).T
    output = ed.inv(X + factor) * (X @ X.T)
    rng = np.random.default_rng(3)
    half, whole = rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    point = {"X": np.tril(half) if word == "lower" else np.triu(half), "S": whole @ whole.T + np.eye(5)}
    function = ed.compile(output, backend=library, sizes={"n": 5})
    assert "inv(" not in function.source and "solve_triangular(" in function.source
    own = np.linalg.cholesky(point["S"])
    expected = np.linalg.inv(point["X"] + (own if word == "lower" else own.T)) * (point["X"] @ point["X"].T)
    np.testing.assert_allclose(np.asarray(function(**point)), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    ("variable", "change", "match"),
    [
        (L, (1, 3), "L is declared lower, but its array has the entry 7.0 at 1, 3"),
        (U, (3, 1), "U is declared upper, but its array has the entry 7.0 at 3, 1"),
        (V, (2, 2), "V is declared unit, but its array has the entry 7.0 at 2, 2"),
        (T, (5, 1), "T is declared tridiagonal, but its array has the entry 7.0 at 5, 1"),
        (P, (5, 1), "P is declared (orthogonal|permutation)"),
        (R, (3, 1), "R is declared upper"),
    ],
)
def test_arrays_are_held_against_declarations(variable: ed.Expr, change: tuple[int, int], match: str) -> None:
    point = random_point([variable @ A], SIZES)
    point[str(variable)][change] = 7.0
    for compute in (lambda: ed.evaluate(variable @ A, point), lambda: ed.compile(variable @ A)(**point)):
        with pytest.raises(ed.EindiffError, match=match):
            compute()


def test_infinite_entries_have_mirror_images_too() -> None:
    S, array = ed.symmetric("S", "n"), np.eye(3)
    array[0, 2] = np.inf
    with pytest.raises(ed.EindiffError, match="the entries 0, 2 and 2, 0 are inf and 0"):
        ed.compile(S @ b)(S=array, b=np.ones(3))


@pytest.mark.parametrize("X", [T, K, P, L])
def test_arrays_without_entries(X: ed.Expr) -> None:
    """LAPACK would write to the first column of right sides that have none."""
    for rows, columns in [(0, 3), (0, 0), (70, 0)]:
        given = {str(X): np.eye(rows), "B": np.ones((rows, columns))}
        assert [x.shape for x in ed.compile([X @ B, ed.inv(X) @ B])(**given)] == [(rows, columns)] * 2


@pytest.mark.parametrize("words", [["lower"], ["upper"], ["lower", "unit"], ["upper", "unit"]])
def test_derivatives_are_those_by_free_entries(words: list[str]) -> None:
    X = ed.matrix("X", 4, 4, *words)
    c = ed.vector("c", 4)
    f = ed.sum(ed.exp(ed.inv(X) @ c)) + ed.sum(ed.sin(X @ c))
    point = random_point([f], {})
    gradient, hessian = ed.evaluate([ed.gradient(f, X), ed.hessian(f, X)], point)
    free = point["X"] != 0
    if "unit" in words:
        free &= ~np.eye(4, dtype=bool)
    Y = ed.matrix("X", 4, 4)
    g = ed.evaluate(ed.gradient(ed.sum(ed.exp(ed.inv(Y) @ c)) + ed.sum(ed.sin(Y @ c)), Y), point)
    np.testing.assert_allclose(gradient, np.where(free, g, 0))
    np.testing.assert_allclose(hessian[~free], 0, atol=1e-14)
    np.testing.assert_allclose(hessian[:, :, ~free], 0, atol=1e-14)
    np.testing.assert_allclose(hessian, hessian.transpose(2, 3, 0, 1), atol=1e-12)
    direction = ed.evaluate(ed.hvp(f, X, "W"), {**point, "W": np.ones((4, 4))})
    np.testing.assert_allclose(direction, hessian[:, :, free].sum(-1), atol=1e-12)


def test_what_cannot_be_is_refused() -> None:
    for shape, words, match in [
        (("m", "n"), ["tridiagonal"], "only a square matrix can be tridiagonal"),
        (("m", "n"), ["unit"], "lower or upper can be unit"),
        (("n", "n"), ["lower", "symmetric"], "is diagonal: declare that"),
        (("n", "n"), ["lower", "positive"], "a lower matrix has zeros"),
        (("n", "n"), ["tridiagonal", "positive"], "a tridiagonal matrix has zeros"),
    ]:
        with pytest.raises(ed.EindiffError, match=match):
            ed.matrix("X", *shape, *words)
    with pytest.raises(ed.EindiffError, match="tridiagonal, so its entries cannot move freely"):
        ed.gradient(ed.sum(T), T)
    with pytest.raises(ed.EindiffError, match="triangular but not square"):
        ed.gradient(ed.sum(R), R)


def test_texts_declare_properties() -> None:
    found = ed.parse("L*inv(T)*P*x", "L(n,n) unit lower; T tridiagonal; P permutation; x(n)")
    assert {v.name: sorted(v.properties) for v in ed.variables(found)} == {
        "L": ["lower", "unit"], "P": ["orthogonal", "permutation"], "T": ["tridiagonal"], "x": []
    }  # fmt: skip
    assert ed.parse("R*x", "R(m,n) upper; x(n)").shape == ("m",)


def test_the_inverse_of_a_number() -> None:
    c = ed.scalar("c")
    assert ed.inv(c) is 1 / c
    assert ed.parse("inv(c - 1)*x", "c; x(n)").shape == ("n",)
    assert ed.parse("inv(a)*b").shape == ("n",)  # what is not declared is a matrix


@pytest.mark.parametrize(("below", "above"), [(0, 0), (2, 3), (0, 5), (7, 0), (39, 39)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bands_of_any_width(below: int, above: int, dtype: str) -> None:
    """How wide a band is shows in the array: none at all is right too, and a row of zeros."""
    rng = np.random.default_rng(below + above)
    band = np.triu(np.tril(rng.normal(size=(40, 40)), above), -below) + 4 * (below + above + 1) * np.eye(40)
    given = {"K": band.astype(dtype), "B": rng.normal(size=(40, 3)).astype(dtype)}
    exprs = [ed.inv(K) @ B, ed.inv(K.T) @ B, K @ B, B.T @ K, ed.inv(K @ K) @ B]
    exact = {name: array.astype(float) for name, array in given.items()}
    for found, expr in zip(ed.compile(exprs)(**given), exprs, strict=True):
        right = ed.evaluate(expr, exact)
        assert found.dtype == dtype
        rounding = 1e-13 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(found, right, rtol=0, atol=rounding * np.abs(right).max())
    given["K"][:3] = 0
    np.testing.assert_allclose(ed.compile(K @ B)(**given), given["K"] @ given["B"], rtol=1e-5, atol=1e-4)
    with pytest.raises(ed.EindiffError, match="cannot be"):
        ed.compile(ed.inv(K) @ B)(**given)
    given["K"][0, 39] = np.nan
    assert np.isnan(ed.compile(K @ B)(**given)[0]).all()


def test_tridiagonal_matrices_times_vectors_take_their_diagonals_only() -> None:
    compiled = ed.compile(T @ (T.T @ b - b))
    for size in (1, 2, 300, 70):
        matrix = np.triu(np.tril(np.random.default_rng(size).normal(size=(size, size)), 1), -1)
        x = np.arange(size) + 1.0
        np.testing.assert_allclose(compiled(T=matrix, b=x), matrix @ (matrix.T @ x - x), rtol=1e-12, atol=1e-12)
    assert ed.plan(T @ (T.T @ b - b), {"n": 300}).flops <= 12 * 300
