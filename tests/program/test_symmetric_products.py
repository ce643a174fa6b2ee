"""Products of an array with itself: half the work, one copy, axes in the order that is wanted."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.interpreter import evaluate

SIZES = {"m": 60, "n": 7, "k": 3}


def softmax_regression() -> ed.Expr:
    f = ed.parse("sum(logsumexp(X*W, 1))", "X(m,n); W(n,k)")
    return ed.hessian(f, next(v for v in ed.variables(f) if v.name == "W"))


@pytest.mark.parametrize("coefficient", [-1, -0.5, 3])
@pytest.mark.parametrize("order", ["ijkl", "jikl", "klij", "iljk"])
def test_a_coefficient_keeps_both_sides_equal(coefficient, order):
    X, P = ed.tensor("X", ("m", "n")), ed.tensor("P", ("m", "k"))
    expr = coefficient * ed.einsum(f"bi,bj,bk,bl->{order}", X, P, X, P)
    compiled = ed.compile(expr, sizes=SIZES)
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(60, 7)), "P": rng.normal(size=(60, 3))}
    expected = coefficient * np.einsum(f"bi,bj,bk,bl->{order}", *(arrays[x] for x in "XPXP"))
    np.testing.assert_allclose(compiled(**arrays), expected, rtol=1e-12, atol=1e-12)
    if order != "iljk":
        assert ".T @ " in compiled.source


def test_the_hessian_of_a_softmax_takes_one_product_and_no_transposed_result():
    compiled = ed.compile(softmax_regression(), sizes={"m": 500, "n": 100, "k": 10})
    assert re.search(r"(t\d)\.T @ \1", compiled.source)
    assert ".reshape(n, k, n, k).transpose" not in compiled.source


def test_compressed_terms_with_common_factors_are_one_where_a_sum_would_be_formed():
    hessian = softmax_regression()
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(400, 80)), "W": rng.normal(size=(80, 10)) / 9}
    value = ed.compile(hessian, sizes={"m": 400, "n": 80, "k": 10}, form="structured")(**arrays)
    assert value.nbytes <= 8 * (400 * 80 + 400 * 100)
    small = {"X": arrays["X"][:30, :4], "W": arrays["W"][:4]}
    for given in (arrays, small):
        structured = ed.structured(hessian, given).as_tensor()
        np.testing.assert_allclose(structured, evaluate(hessian, given), rtol=1e-10, atol=1e-12)
