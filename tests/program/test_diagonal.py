"""Variables that are declared diagonal: products scale rows, systems divide, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.program.interpreter import evaluate

D, E = ed.matrix("D", "n", "n", "diagonal"), ed.matrix("E", "n", "n", "diagonal")
A, B = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "m")
S, L = ed.matrix("S", "n", "n", "symmetric"), ed.matrix("L", "n", "n", "lower")
Q, P = ed.matrix("Q", "n", "n", "orthogonal"), ed.matrix("P", "n", "n", "permutation")
T, x = ed.matrix("T", "n", "n", "tridiagonal"), ed.vector("x", "n")


def arrays_of(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    free = {name: rng.normal(size=(n, n)) + 3 * np.eye(n) for name in "ASLT"}
    return {
        "D": np.diag(rng.normal(size=n)), "E": np.diag(rng.uniform(1, 2, n)), "B": rng.normal(size=(n, 3)),
        "x": rng.normal(size=n), "A": free["A"], "S": free["S"] + free["S"].T, "L": np.tril(free["L"]),
        "T": np.triu(np.tril(free["T"], 1), -1), "Q": np.linalg.qr(free["A"])[0], "P": np.eye(n)[rng.permutation(n)],
    }  # fmt: skip


@pytest.mark.parametrize(
    "expr",
    [
        D @ B, ed.inv(D) @ B, ed.inv(D), ed.det(D), ed.solve(D, x), D @ E, ed.inv(D @ E) @ B, B.T @ D @ B,
        ed.inv(E) @ A @ D,
    ],
    ids=str,
)  # fmt: skip
def test_no_product_of_matrices_is_cubic(expr):
    n = 300
    plan = ed.plan(expr, {"n": n, "m": 3})
    assert plan.flops <= 12 * n * n
    assert "solve" not in plan.source and "inv(" not in plan.source


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_what_is_on_one_diagonal_is_added_up_there(backend):
    program = ed.compile(3 * ed.eye("n") - 2 * ed.diag(ed.exp(x) + ed.sin(x) ** 2), backend)
    value = np.linspace(1, 2, 40)
    np.testing.assert_allclose(program(x=value), np.diag(3 - 2 * (np.exp(value) + np.sin(value) ** 2)), rtol=1e-5)
    assert "eye(" not in program.source


def test_it_is_its_transpose():
    assert (D.T @ B) is (D @ B)
    assert (D @ E) is (E @ D)
    assert ed.inv(D).T is ed.inv(D)


def random_pair(rng: np.random.Generator, depth: int) -> tuple[ed.Expr, str]:
    """A random matrix of n rows and columns as an expression, and as what NumPy evaluates."""
    if depth == 0:
        leaf = [D, E, A, S, L, Q, P, T][rng.integers(8)]
        return leaf, leaf.name
    one, first = random_pair(rng, depth - 1)
    match rng.integers(6):
        case 0:
            return one.T, f"({first}).T"
        case 1:
            return ed.inv(one), f"inv({first})"
        case 2:
            other, second = random_pair(rng, 0)
            return one + 2 * other, f"({first} + 2 * {second})"
        case 3:
            return ed.diag(ed.einsum("ii->i", one)), f"np.diag(np.diag({first}))"
        case _:
            other, second = random_pair(rng, depth - 1)
            return one @ other, f"({first} @ {second})"


def test_properties_in_combination():
    """Random expressions of matrices with properties are those of dense matrices in NumPy."""
    rng, seen = np.random.default_rng(7), 0
    for _ in range(80):
        expr, text = random_pair(rng, int(rng.integers(1, 4)))
        n = int(rng.choice([3, 70]))
        given = arrays_of(n, rng)
        expected = eval(text, {"np": np, "inv": np.linalg.inv}, dict(given))
        if np.abs(expected).max() > 1e6 or (n > 3 and any(f"inv({name}" in text for name in "DA")):
            continue
        needed = {v.name: given[v.name] for v in ed.variables(expr)}
        for value in (ed.compile(expr)(**needed, sizes={"n": n}), evaluate(expr, needed, {"n": n})):
            allowed = 1e-7 * max(1, np.abs(expected).max())
            np.testing.assert_allclose(value, expected, rtol=0, atol=allowed, err_msg=text)
        seen += 1
    assert seen > 40


def test_what_is_not_diagonal_is_refused():
    with pytest.raises(EindiffError, match="diagonal"):
        ed.evaluate(D @ x, {"D": np.ones((2, 2)), "x": np.ones(2)})
    with pytest.raises(EindiffError, match="cannot move freely"):
        ed.gradient(ed.sum(D @ x), D)
    with pytest.raises(EindiffError, match="positive"):
        ed.matrix("D", "n", "n", "diagonal", "positive")


@pytest.mark.parametrize("library", ["numpy", "jax", "torch"])
@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (-1, 1), (0, 1)])
def test_determinants_of_triangles_are_products_of_their_diagonals(library, signs):
    """Two negative entries have a logarithm, one has none, and nothing is factorized."""
    D, L, v = ed.matrix("D", "n", "n", "diagonal"), ed.matrix("L", "n", "n", "lower"), ed.vector("v", "n")
    outputs = [ed.logdet(D), ed.logdet(ed.diag(v)), ed.logdet(D @ D), ed.logdet(L), ed.det(L), ed.logdet(L.T)]
    n, rng = 60, np.random.default_rng(0)
    entries = rng.uniform(0.5, 1.5, n)
    entries[:2] *= signs
    given = {"D": np.diag(entries), "v": entries, "L": np.tril(rng.normal(size=(n, n)), -1) / n + np.diag(entries)}
    compiled = ed.compile(outputs, backend=library, sizes={"n": n})
    assert not any(word in compiled.source for word in ("factorize", "slogdet", "logdet(", "linalg.det"))
    single = np.log(np.abs(entries)).sum() if np.prod(signs) > 0 else np.nan
    double = 2 * np.log(np.abs(entries)).sum() if np.prod(signs) else np.nan
    right = [single, single, double, single, np.prod(entries), single]
    with np.errstate(all="ignore"):
        found = compiled(**given)
    np.testing.assert_allclose([float(x) for x in found], right, rtol=1e-5 if library == "jax" else 1e-12)


@pytest.mark.parametrize(("rows", "inner", "columns"), [(60, 2, 90), (60, 90, 2)])
def test_factors_of_rows_and_columns_go_where_there_are_fewest_entries(rows, inner, columns) -> None:
    B, C = ed.matrix("B", "n", "k"), ed.matrix("C", "k", "m")
    v, w = ed.vector("v", "n"), ed.vector("w", "m")
    rng = np.random.default_rng(0)
    sizes = {"n": rows, "k": inner, "m": columns}
    for expr in (ed.diag(v) @ B @ C, ed.diag(v) @ B @ C @ ed.diag(w) + B @ C, ed.diag(v) @ (B @ C)):
        arrays = {x.name: rng.normal(size=[sizes[size] for size in x.shape]) for x in ed.variables(expr)}
        f = ed.compile(expr)
        np.testing.assert_allclose(f(**arrays), ed.evaluate(expr, arrays), rtol=1e-10, atol=1e-12)
    f = ed.compile(ed.diag(v) @ B @ C)
    f(**{name: x for name, x in arrays.items() if name in "vBC"})
    scaled = rows * min(inner, columns)
    assert f.plan().flops == 2 * rows * inner * columns + scaled


@pytest.mark.parametrize("order", ["C", "F"])
def test_diagonals_are_added_in_place_in_any_order_of_memory(order):
    A, x = ed.matrix("A", "n", "n"), ed.vector("x", "n")
    expr = 2 * A.T + ed.diag(ed.exp(x)) + 3 * ed.eye("n")
    f = ed.compile(expr)
    given = {"A": np.asarray(np.arange(9.0).reshape(3, 3), order=order), "x": np.arange(3.0)}
    kept = given["A"].copy()
    np.testing.assert_allclose(f(**given), evaluate(expr, given))
    np.testing.assert_array_equal(given["A"], kept)
    assert "np.eye" not in f.source and "np.diag" not in f.source
    g = ed.compile(A + ed.diag(x))  # an argument is copied first
    np.testing.assert_allclose(g(**given), given["A"] + np.diag(given["x"]))
    np.testing.assert_array_equal(given["A"], kept)
