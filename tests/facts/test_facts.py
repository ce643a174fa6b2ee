"""Facts: the bounds that are inferred of expressions hold at random points, and are not too wide."""

from __future__ import annotations

import re
from math import inf, log, pi

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.facts.bounds import facts
from eindiff.functions.elementwise import TABLE
from fact_checks import assert_hold_at_points
from models import net
from pace import calls

m, n = "m", "n"
X, Y, A = ed.matrix("X", m, n), ed.matrix("Y", m, n), ed.matrix("A", n, n)
S, P, Q = ed.symmetric("S", n), ed.symmetric("P", n, "psd"), ed.matrix("Q", n, n, "orthogonal")
w, x, p = ed.vector("w", n), ed.vector("x", n), ed.vector("p", n, "positive")
x3, p3 = ed.vector("x3", 3), ed.vector("p3", 3, "positive")
I = ed.eye(n)
softmax = ed.softmax(X)

BOUNDS = {
    "exp": (ed.exp(x), 0, inf, True),
    "sigmoid": (ed.sigmoid(x), 0, 1, True),
    "one minus sigmoid": (1 - ed.sigmoid(x), 0, 1, True),
    "square": (x * x, 0, inf, False),
    "square of what is not 0": (ed.exp(x) * ed.exp(-x) * x * x + 1, 1, inf, True),
    "square of a symmetric matrix": (ed.einsum("ij,ji->ij", S, S), 0, inf, False),
    "square of an antisymmetric matrix": (ed.einsum("ij,ji->ij", A - A.T, A - A.T), -inf, 0, False),
    "product with the transpose": (A * A.T, -inf, inf, False),
    "even power": ((x - 1) ** 4, 0, inf, False),
    "odd power": (x**3, -inf, inf, False),
    "odd power of a positive": (p**3, 0, inf, True),
    "negative even power": (x**-2, 0, inf, True),
    "negative odd power": (1 / x, -inf, inf, False),
    "reciprocal": (1 / (1 + ed.exp(x) + x * x), 0, 1, True),
    "root": (ed.sqrt(x), 0, inf, False),
    "negative root": (1 / ed.sqrt(x), 0, inf, True),
    "softplus": (ed.softplus(x), 0, inf, True),
    "tanh": (ed.tanh(x), -1, 1, False),
    "derivative of tanh": (1 - ed.tanh(x) ** 2, 0, 1, False),
    "half of tanh plus half": (0.5 * ed.tanh(x) + 0.5, 0, 1, False),
    "cos plus two": (2 + ed.cos(x), 1, 3, True),
    "relu": (ed.relu(x), 0, inf, False),
    "relu of a positive": (ed.relu(p * ed.exp(x) + 1), 1, inf, True),
    "step": (ed.step(x), 0, 1, False),
    "sign": (ed.sign(x), -1, 1, False),
    "abs": (ed.abs(x) + 1, 1, inf, True),
    "erf": (1 + ed.erf(x), 0, 2, False),
    "log1p": (ed.log1p(p), 0, inf, True),
    "expm1": (ed.expm1(x), -1, inf, False),
    "expm1 of a positive": (ed.expm1(p), 0, inf, True),
    "any power of anything": (x**w, -inf, inf, False),
    "any power of a positive": (p**w, 0, inf, True),
    "any power of what may be 0": (ed.relu(x) ** w, 0, inf, False),
    "log of more than one": (ed.log(1 + x * x), 0, inf, False),
    "where": (ed.where(x > 0, ed.exp(x), ed.sigmoid(x)), 0, inf, True),
    "maximum": (ed.maximum(x, 1), 1, inf, True),
    "minimum": (ed.minimum(ed.exp(x), 1), 0, 1, True),
    "positive variable": (p, 0, inf, True),
    "orthogonal variable": (Q, -1, 1, False),
    "softmax": (softmax, 0, 1, True),
    "softmax of a sum along the first axis": (ed.softmax(3 * X - 2 * Y + 1, 0), 0, 1, True),
    "one minus softmax": (1 - softmax, 0, 1, False),
    "no softmax": (ed.exp(x - ed.logsumexp(2 * x)), 0, inf, True),
    "literal": (construct.constant(np.array([1.0, -2.0, 5.0])), -2, 5, False),
    "literal that is not finite": (construct.constant(np.array([1.0, np.nan])), -inf, inf, False),
    "literal with infinity": (construct.constant(np.array([1.0, inf])), -inf, inf, False),
    "triangle": (ed.cumsum(p), 0, inf, False),
    "slice": (ed.sigmoid(x3)[1:] + 1, 1, 2, True),
    "scattered": (ed.concatenate([ed.sigmoid(x3), ed.sigmoid(p3)]), 0, 2, False),
    "sum of a named size, which may be 0": (ed.sum(ed.exp(x)), 0, inf, False),
    "sum": (ed.sum(ed.exp(x3) + 1), 3, inf, True),
    "sum of mixed signs": (ed.sum(1 / x3), -inf, inf, False),
    "mean": (ed.mean(ed.sigmoid(x)), 0, inf, False),
    "quadratic form": (x @ P @ x, 0, inf, False),
    "negative quadratic form": (-(x @ (3 * P) @ x), -inf, 0, False),
    "quadratic form of a Gram matrix": (x @ (X.T @ X) @ x, 0, inf, False),
    "indefinite quadratic form": (x @ S @ x, -inf, inf, False),
    "form of two vectors": (x @ P @ w, -inf, inf, False),
    "form of an antisymmetric square": (ed.einsum("i,ij,jk,k->", x, A - A.T, A - A.T, x), -inf, 0, False),
    "form of an antisymmetric square, in parts": (
        construct.einsum(1, [(x, (0,)), (A - A.T, (0, 1)), ((A - A.T) @ x, (1,))], (), {0: n, 1: n}, inline=False),
        -inf, 0, False,
    ),
    "trace": (ed.tr(P), 0, inf, False),
    "diagonal": (ed.diag(P), 0, inf, False),
    "identity": (I, 0, 1, False),
    "logsumexp": (ed.logsumexp(ed.sigmoid(x3)), 0, 1 + log(3), False),
    "largest": (ed.max(ed.exp(x)), 0, inf, True),
    "product of entries": (ed.prod(ed.sigmoid(x)), 0, 1, True),
    "determinant": (ed.det(P + I), 0, inf, True),
    "eigenvalues": (ed.eigvals(P), 0, inf, False),
    "arctan": (ed.arctan(x), -pi / 2, pi / 2, False),
    "zero": (ed.zeros(n), 0, 0, False),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(name):
    expr, low, high, positive = BOUNDS[name]
    found = facts(expr)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-14)
    assert found.low <= low and found.high >= high
    assert found.is_positive == positive
    assert found.is_nonnegative == (low >= 0)
    assert found.sign == (0 if low == high == 0 else 1 if low >= 0 else -1 if high <= 0 else None)
    if "literal" not in name:
        assert_hold_at_points(expr)


def test_nonzero():
    assert facts(1 / x3).nonzero and facts(1 / (x3 * p3)).nonzero
    assert not facts(ed.sum(1 / x3)).nonzero
    assert not facts(ed.diag(1 / x3)).nonzero
    assert not facts(1 / x3 + 1).nonzero


def test_every_elementwise_function_has_bounds():
    assert [name for name, function in TABLE.items() if not function.core and function.bounds is None] == []


@pytest.mark.parametrize("name", [name for name, function in TABLE.items() if len(function.derivatives) == 1])
def test_range_of_functions(name):
    """Bounds on intervals hold on a grid, and increasing functions reach them."""
    function = TABLE[name]
    if function.core or name == "tan":
        return
    with np.errstate(all="ignore"):
        assert function.value(np.array(0.0)) != 0 or not facts(construct.map_(function, (x,))).nonzero
    for low, high in [(-0.9, 0.7), (0.25, 0.9), (-0.8, -0.1), (-1, 1), (0, 1), (0.125, 0.5)]:
        with np.errstate(all="ignore"):
            values = function.value(np.linspace(low, high, 400))
        found = facts(construct.map_(function, (low + (high - low) * ed.sigmoid(x),)))  # the ends are not reached
        inside = values[1:-1][np.isfinite(values[1:-1])]
        assert found.low <= inside.min(initial=inf) and inside.max(initial=-inf) <= found.high
        if name not in ("sin", "cos", "gammaln", "isnan") and low > 0 and np.isfinite(values).all():
            assert (found.low, found.high) == pytest.approx((values.min(), values.max()), rel=1e-12)


def test_rounding_never_makes_a_fact():
    """1/3 + 2/3 is 1, but not with these fractions as floating-point numbers."""
    assert not facts(1 + ed.cos(x) / 3 + 2 * ed.cos(w) / 3).is_positive
    assert not facts(0.3 + 0.1 * ed.cos(x) + 0.2 * ed.cos(w)).is_nonnegative  # the three numbers are not exact
    assert facts(0.75 + 0.25 * ed.cos(x) + 0.5 * ed.cos(w)).is_nonnegative
    assert not facts(1e-200 - 1e-200 * ed.exp(-800 - x * x) - 1e-200).is_nonnegative
    assert facts(ed.tanh(30 + x * x)).low < 1
    assert facts(1 + 1e-17 * ed.cos(x)).low < 1


# Work


def test_depth_does_not_matter():
    deep: ed.Expr = x
    for _ in range(2000):
        deep = ed.exp(-deep)
    assert facts(deep).is_positive
    matrix: ed.Expr = P
    for layer in range(300):
        matrix = ed.inv(matrix + ed.symmetric(f"P{layer}", n, "psd"))
    assert facts(matrix).pd


def test_large_hessians_take_little_work():
    function, weights, _ = net(20, ed.sigmoid)
    hessian = ed.hessian(function, weights[0])
    assert calls(lambda: facts(hessian)) < 100_000
    assert facts(hessian).symmetric


def test_facts_are_printed_in_full():
    assert re.fullmatch(r"Facts\(low=0.0, high=inf, .*pd=True, .*\)", repr(facts(ed.diag(ed.exp(x)))))
