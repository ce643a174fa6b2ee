"""The structure of derivatives comes out of the general algorithm: output patterns and the shapes of their cores."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nodes import Add, Einsum, Expr
from eindiff.program.check import finite_difference, random_point, relative_error
from models import factorization, logistic, multinomial, net, pairwise_energy


def patterns(hessian: Expr) -> dict[str, tuple]:
    """The output pattern of each term, as letters by position, and the sizes of its bound labels."""
    terms = hessian.terms if isinstance(hessian, Add) else [hessian]
    if isinstance(hessian, Einsum) and len(hessian.operands) == 1 and isinstance(hessian.operands[0], Add):
        terms = hessian.operands[0].terms
    found = {}
    for term in terms:
        assert isinstance(term, Einsum)
        bound = {label for labels in term.labels for label in labels} if term.is_product else set(term.output)
        letters = "".join("abcdefgh"[label] for label in term.output) if term.is_product else "abcdefgh"[: term.ndim]
        found[letters] = tuple(term.sizes[label] for label in dict.fromkeys(term.output) if label in bound)
    return found


def check_hessian(function: Expr, variable: Expr, hessian: Expr, **sizes: int) -> None:
    point = random_point([function], dict(sizes), seed=2)
    numeric = finite_difference(ed.gradient(function, variable), variable, point)
    assert relative_error(ed.evaluate(hessian, point), numeric) < 1e-7


def test_matrix_factorization_is_a_delta_times_a_core():
    f, (U, _), _ = factorization()
    hessian = ed.hessian(f, U)
    assert patterns(hessian) == {"abac": ("k", "k")}
    check_hessian(f, U, hessian, m=3, n=4, k=2)


def test_masked_matrix_factorization_is_block_diagonal():
    f, (U, _), _ = factorization(mask=True)
    hessian = ed.hessian(f, U)
    assert patterns(hessian) == {"abac": ("m", "k", "k")}
    check_hessian(f, U, hessian, m=3, n=4, k=2)


def test_a_ridge_is_a_pattern_of_its_own():
    f, (U, _), _ = factorization(ridge=True)
    hessian = ed.hessian(f, U)
    assert patterns(hessian) == {"abac": ("k", "k"), "abab": ()}
    check_hessian(f, U, hessian, m=3, n=4, k=2)


def test_masked_with_ridge():
    f, (U, _), _ = factorization(mask=True, ridge=True)
    hessian = ed.hessian(f, U)
    assert patterns(hessian) == {"abac": ("m", "k", "k"), "abab": ()}
    check_hessian(f, U, hessian, m=3, n=4, k=2)


def test_cross_block_of_matrix_factorization():
    f, (U, V), _ = factorization()
    blocks = ed.hessian(f, [U, V])
    assert patterns(blocks[1][1]) == {"abac": ("k", "k")}
    assert "abcb" in patterns(blocks[0][1])  # the residual next to a delta over k
    point = random_point([f], {"m": 3, "n": 4, "k": 2})
    values = ed.evaluate(blocks, point)
    np.testing.assert_allclose(values[0][1], values[1][0].transpose(2, 3, 0, 1), rtol=1e-12)


def test_logistic_regression_is_one_contraction():
    """Over X, X and vectors, as in X' diag(v) X; before it two matrix-vector products at the most."""
    f, (w,), sizes = logistic()
    hessian = ed.hessian(f, w)
    assert isinstance(hessian, Einsum)
    assert not hessian.is_product
    assert sorted(operand.ndim for operand in hessian.operands) == [1, 1, 1, 1, 2, 2]
    m, n = sizes["m"], sizes["n"]
    assert ed.plan(hessian, sizes).flops <= 2 * m * n * n + m * n + 2 * 2 * m * n + 20 * m
    check_hessian(f, w, hessian, m=5, n=3)


def test_multinomial_regression_has_a_block_and_a_dense_part():
    """diag(p) - pp' between X' and X: a part with a delta over classes, whose core is of order 3, and a full part."""
    f, (W,), sizes = multinomial()
    hessian = ed.hessian(f, W)
    assert patterns(hessian) == {"abcb": ("n", "k", "n"), "abcd": ("n", "k", "n", "k")}
    assert ed.plan(hessian, sizes).largest_order == 3
    check_hessian(f, W, hessian, m=4, n=3, k=2)


def test_pairwise_energy_needs_nothing_larger_than_its_differences():
    f, (X,), _ = pairwise_energy()
    hessian = ed.hessian(f, X)
    assert patterns(hessian) == {
        "abac": ("n", "d", "d"),  # on the diagonal blocks: a core for each point
        "abcd": ("n", "d", "n", "d"),
        "abcb": ("n", "n"),
        "abab": ("n",),
    }
    for n in (20, 60):
        cost = ed.plan(hessian, {"n": n, "d": 3})
        assert cost.largest <= n * n * 3
        assert cost.largest_order <= 3
    check_hessian(f, X, hessian, n=4, d=2)


@pytest.mark.parametrize("activation", [ed.sigmoid, ed.tanh])
def test_smooth_net_has_a_dense_part_and_a_third_order_core(activation):
    """The compression of fourth-order Hessians to third order that the paper describes."""
    f, weights, _ = net(3, activation)
    hessian = ed.hessian(f, weights[0])
    assert patterns(hessian) == {"abcd": ("n", "n", "n", "n"), "abcb": ("n", "n", "n")}
    check_hessian(f, weights[0], hessian, b=2, n=3)


def test_separable_functions_have_diagonal_hessians():
    x, X = ed.vector("x", "n"), ed.matrix("X", "m", "n")
    assert patterns(ed.hessian(ed.sum(x**3), x)) == {"aa": ("n",)}
    assert patterns(ed.hessian(ed.sum(ed.exp(X)), X)) == {"abab": ("m", "n")}


def test_kronecker_structures_stay_factored():
    """tr(A X B X') and ‖A X B - C‖²: a product of two small matrices, never expanded."""
    A, B, X = ed.symmetric("A", "m"), ed.symmetric("B", "n"), ed.matrix("X", "m", "n")
    hessian = ed.hessian(ed.tr(A @ X @ B @ X.T), X)
    assert hessian == 2 * ed.einsum("ik,jl->ijkl", A, B)
    L, R = ed.matrix("L", "k", "m"), ed.matrix("R", "n", "p")
    least_squares = ed.hessian(ed.norm2(L @ X @ R - ed.matrix("C", "k", "p")) ** 2, X)
    assert isinstance(least_squares, Einsum)
    assert set(least_squares.operands) == {L.T @ L, R @ R.T}
