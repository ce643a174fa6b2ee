"""Sums of Kronecker products whose kind only the numbers show: squares of Sylvester operators, undeclared symmetry."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.structure.solvers.iterative import Iterative
from eindiff.structure.solvers.solver import Known

RANDOM = np.random.default_rng(4)
M, N = 6, 4
X = ed.matrix("X", M, N)
ARRAYS = {
    "X": RANDOM.normal(size=(M, N)), "A": RANDOM.normal(size=(M, M)), "B": RANDOM.normal(size=(N, N)),
    "C": RANDOM.normal(size=(M, N)),
}  # fmt: skip
for name, size in (("K", M), ("L", N)):
    root = RANDOM.normal(size=(size, size))
    ARRAYS[name] = root @ root.T / size + np.eye(size)
A, B, C, K, L = (ed.matrix(name, *ARRAYS[name].shape) for name in "ABCKL")

FUNCTIONS = {
    "Sylvester": (ed.sum((A @ X + X @ B - C) ** 2), "Sylvester"),
    "Sylvester, weighted": (ed.sum((2 * A @ X - 3 * X @ B.T) ** 2) / 7, "Sylvester"),
    "Sylvester, transposed": (ed.sum((A.T @ X + X @ B.T) ** 2), "Sylvester"),
    "process": (ed.tr(X.T @ ed.inv(K) @ X @ ed.inv(L)) / 2 + ed.sum(X**2) / 2, "eigenvectors"),
    "process with noise": (ed.sum((K @ X @ L - C) ** 2) + ed.sum(X**2), "eigenvectors"),
    "two of them": (ed.tr(X.T @ K @ X) + ed.tr(X @ L @ X.T), "eigenvectors"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_found_and_solved(name):
    f, method = FUNCTIONS[name]
    hessian = ed.hessian(f, X)
    operator, matrix = ed.structured(hessian, ARRAYS), ed.evaluate(hessian, ARRAYS).reshape(M * N, M * N)
    [way] = [one for one in operator._candidates if method in one.method]
    assert operator.structure == "Kronecker sum"
    b = RANDOM.normal(size=(M * N, 2))
    np.testing.assert_allclose(way.solve(b), np.linalg.solve(matrix, b), rtol=1e-7, atol=1e-9)
    assert way.logdet() == pytest.approx(np.linalg.slogdet(matrix))
    assert way.is_definite()
    parts, inverse = way.norms()
    assert parts * (1 + 1e-9) >= np.linalg.norm(matrix, 2)
    assert inverse * 30 >= np.linalg.norm(np.linalg.inv(matrix), 2)


def test_what_is_no_square_is_solved_all_the_same():
    hessian = ed.hessian(ed.sum((A @ X + X @ B - C) ** 2) + ed.sum(X**2), X)
    operator, matrix = ed.structured(hessian, ARRAYS), ed.evaluate(hessian, ARRAYS).reshape(M * N, M * N)
    assert not any("Sylvester" in one.method for one in operator._candidates)
    b = RANDOM.normal(size=M * N)
    np.testing.assert_allclose(operator.solve(b), np.linalg.solve(matrix, b), rtol=1e-8)


def test_a_singular_square():
    """`A X − X A` is zero for X = A."""
    square = ed.matrix("Y", M, M)
    operator = ed.structured(ed.hessian(ed.sum((A @ square - square @ A) ** 2), square), ARRAYS)
    with pytest.raises(ed.EindiffError, match="singular"):
        operator.solve(ARRAYS["K"])


PRODUCTS = {
    "both": A @ X @ B, "left": A @ X, "right": X @ B, "Sylvester": A @ X + X @ B, "and itself": A @ X @ B + X,
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_from_two_sides(name):
    """`Σ c A X B` with few products of stacked matrices, as conjugate gradients take them."""
    operator = ed.structured(ed.hessian(ed.sum(PRODUCTS[name] ** 2) + 3 * ed.sum(X**2), X), ARRAYS)
    apply, x = Iterative(operator._grid, Known())._formed, ARRAYS["C"].reshape(-1)
    if apply is not None:
        np.testing.assert_allclose(apply(x), operator.as_matrix() @ x, rtol=1e-11)
    assert (apply is None) == (name in ("left", "right"))  # which are stacks of matrices
