"""Facts: what is inferred of expressions holds at random points, and is not too little."""

from __future__ import annotations

import random
import re
from collections import Counter
from math import inf, log, pi
from time import perf_counter
from zlib import crc32

import numpy as np
import pytest

import eindiff as ed
from eindiff import construct
from eindiff.check import random_point
from eindiff.evaluate import evaluate  # not the one that compiles everything too
from eindiff.expr import topological
from eindiff.facts import ELEMENTWISE, Facts, facts
from eindiff.functions import TABLE
from grammar import OPERATIONS, Example, examples, names_in, run, shape_of
from models import net

m, n, k = "m", "n", "k"
X, Y, D, O = (ed.matrix(name, m, n) for name in "XYDO")
U, V, Z, B = ed.matrix("U", m, k), ed.matrix("V", n, k), ed.matrix("Z", n, k), ed.matrix("B", k, "l")
A, S, P = ed.matrix("A", n, n), ed.symmetric("S", n), ed.symmetric("P", n, "psd")
R = ed.symmetric("R", m, "psd")
Q, T = ed.matrix("Q", n, n, "orthogonal"), ed.tensor("T", (m, n, n))
w, x, y, p = ed.vector("w", n), ed.vector("x", n), ed.vector("y", m), ed.vector("p", n, "positive")
x3, p3 = ed.vector("x3", 3), ed.vector("p3", 3, "positive")
c, lam = ed.scalar("c"), ed.scalar("lam", "positive")
I = ed.eye(n)

OPERATOR = ("symmetric", "psd", "nsd", "pd", "nd", "diagonal")


def claims(found: Facts) -> set[str]:
    """The names of what is known of an operator."""
    return {name for name in OPERATOR if getattr(found, name)}


# What is known holds


def assert_holds(node: ed.Expr, value: np.ndarray) -> Counter:
    """Compare what is known of a node with its value at some point; gives what was known."""
    found = facts(node)
    slack = 1e-8 * (1 + np.abs(value).max(initial=0))
    assert found.low - slack <= value.min(initial=inf), f"{node} is at least {found.low}, but {value.min()}"
    assert found.high + slack >= value.max(initial=-inf), f"{node} is at most {found.high}, but {value.max()}"
    assert not found.nonzero or value.all(), f"{node} is not 0, but {value}"
    known = Counter(nodes=1, bounds=int(found.low > -inf or found.high < inf), nonzero=int(found.nonzero))
    half = node.ndim // 2
    if node.ndim > 0 and node.shape[:half] == node.shape[half:]:
        matrix = value.reshape(int(np.prod(value.shape[:half])), -1)
        _assert_operator(node, found, matrix, slack)
        known.update(claims(found), operators=1)
    return known


def _assert_operator(node: ed.Expr, found: Facts, matrix: np.ndarray, slack: float) -> None:
    assert not found.symmetric or np.abs(matrix - matrix.T).max() <= slack, f"{node} is not symmetric"
    assert not found.diagonal or np.abs(matrix - np.diag(matrix.diagonal())).max() <= slack, f"{node} is not diagonal"
    if claims(found) & {"psd", "nsd"}:
        assert found.symmetric
        values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        rounding = 1e-12 * np.abs(values).max()
        for sign, semidefinite, definite in ((1, found.psd, found.pd), (-1, found.nsd, found.nd)):
            least = (sign * values).min()
            assert not semidefinite or least >= -1e-8 * np.abs(values).max() - 1e-14, f"{node} has eigenvalues {values}"
            assert not definite or (semidefinite and least > -rounding), f"{node} has eigenvalues {values}"


def assert_hold_at_points(expr: ed.Expr, count: int = 3) -> None:
    sizes = {"m": 3, "n": 2, "k": 2, "l": 2}
    for seed in range(count):
        assert_holds(expr, evaluate(expr, random_point([expr], sizes, 100 * seed), sizes))


# Bounds

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


def test_every_elementwise_function_has_a_row():
    elementwise = {name for name, function in TABLE.items() if not function.core}
    assert set(ELEMENTWISE) == elementwise


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
        if name not in ("sin", "cos") and low > 0:
            assert (found.low, found.high) == pytest.approx((values.min(), values.max()), rel=1e-12)


def test_rounding_never_makes_a_fact():
    """1/3 + 2/3 is 1, but not with these fractions as floating-point numbers."""
    assert not facts(1 + ed.cos(x) / 3 + 2 * ed.cos(w) / 3).is_positive
    assert not facts(0.3 + 0.1 * ed.cos(x) + 0.2 * ed.cos(w)).is_nonnegative  # the three numbers are not exact
    assert facts(0.75 + 0.25 * ed.cos(x) + 0.5 * ed.cos(w)).is_nonnegative
    assert not facts(1e-200 - 1e-200 * ed.exp(-800 - x * x) - 1e-200).is_nonnegative
    assert facts(ed.tanh(30 + x * x)).low < 1
    assert facts(1 + 1e-17 * ed.cos(x)).low < 1


# Operators

row = ed.matrix("M", n, n)[0]
four = ed.einsum("ik,jl->ijkl", P, ed.inv(P))
OPERATORS = {
    "scalar": (lam * c * c, "symmetric psd diagonal"),
    "psd variable": (P, "symmetric psd"),
    "symmetric variable": (S, "symmetric"),
    "no property": (A, ""),
    "not square": (X, ""),
    "vector": (x, ""),
    "ones": (ed.ones(n, n), "symmetric psd"),
    "zero": (ed.zeros(n, n), "symmetric psd nsd diagonal"),
    "identity": (I, "symmetric psd pd diagonal"),
    "identity of matrices": (ed.einsum("ik,jl->ijkl", I, ed.eye(m)), "symmetric psd pd diagonal"),
    "negative identity": (-2 * I, "symmetric nsd nd diagonal"),
    "diagonal": (ed.diag(x), "symmetric diagonal"),
    "positive diagonal": (ed.diag(ed.exp(x)), "symmetric psd pd diagonal"),
    "nonnegative diagonal": (ed.diag(x * x), "symmetric psd diagonal"),
    "outer product": (ed.outer(x, x), "symmetric psd"),
    "outer product of positives": (ed.outer(p, p), "symmetric psd"),
    "negative outer product": (-ed.outer(x, x), "symmetric nsd"),
    "outer product of two": (ed.outer(x, w), ""),
    "gram": (X.T @ X, "symmetric psd"),
    "weighted gram": (X.T @ ed.diag(ed.sigmoid(y)) @ X, "symmetric psd"),
    "gram with any weight": (X.T @ ed.diag(y) @ X, "symmetric"),
    "negative weight": (X.T @ ed.diag(-ed.exp(y)) @ X, "symmetric nsd"),
    "two negatives": (X.T @ ed.diag((-ed.exp(y) - 1) * (-ed.exp(2 * y) - y * y)) @ X, "symmetric psd"),
    "conjugation": (A.T @ P @ A, "symmetric psd"),
    "conjugation of a symmetric matrix": (A.T @ S @ A, "symmetric"),
    "square of a symmetric matrix": (S @ S, "symmetric psd"),
    "square": (A @ A, ""),
    "cube of a psd matrix": (P @ P @ P, "symmetric psd"),
    "fourth power of an antisymmetric matrix": ((A - A.T) @ (A - A.T) @ (A - A.T) @ (A - A.T), "symmetric psd"),
    "square of an antisymmetric matrix": ((A - A.T) @ (A - A.T), "symmetric nsd"),
    "symmetric part": (A + A.T, "symmetric"),
    "product of two psd matrices": (P @ ed.symmetric("P2", n, "psd"), ""),
    "elementwise product": (P * ed.symmetric("P2", n, "psd"), "symmetric psd"),
    "elementwise square": (S * S, "symmetric"),
    "elementwise exp": (ed.exp(P), "symmetric psd"),
    "elementwise exp of a symmetric matrix": (ed.exp(S), "symmetric"),
    "elementwise sigmoid": (ed.sigmoid(P), "symmetric"),
    "elementwise cube": (P**3, "symmetric psd"),
    "elementwise root": (ed.sqrt(P), "symmetric"),
    "shifted": (P + lam * I, "symmetric psd pd"),
    "shifted by any number": (P + c * I, "symmetric"),
    "shifted down": (P - I, "symmetric"),
    "difference": (-P - X.T @ X - I, "symmetric nsd nd"),
    "inverse of psd": (ed.inv(P), "symmetric psd pd"),
    "inverse of negative": (ed.inv(-P), "symmetric nsd nd"),
    "inverse of symmetric": (ed.inv(S), "symmetric"),
    "sum of no or more inverses": (ed.sum(ed.inv(ed.einsum("aij,akj->aik", T, T) + I), 0), "symmetric psd"),
    "pseudo-inverse": (ed.pinv(P), "symmetric psd"),
    "root": (ed.sqrtm(P + I), "symmetric psd pd"),
    "exponential of symmetric": (ed.expm(S), "symmetric psd pd"),
    "exponential": (ed.expm(A), ""),
    "derivative of the exponential": (ed.jvp(ed.expm(S), S, ed.symmetric("E", n)), "symmetric"),
    "Kronecker product": (four, "symmetric psd"),
    "Kronecker product of definite matrices": (ed.einsum("ik,jl->ijkl", ed.inv(P), ed.expm(S)), "symmetric psd pd"),
    "Kronecker product with crossed axes": (ed.einsum("il,jk->ijkl", P, P), "symmetric"),
    "identity and definite": (ed.einsum("ik,jl->ijkl", ed.eye(m), ed.inv(P)), "symmetric psd pd"),
    "ones and definite": (ed.einsum("ik,jl->ijkl", ed.ones(m, m), ed.inv(P)), "symmetric psd"),
    "transposition": (ed.einsum("il,jk->ijkl", I, I), "symmetric"),
    "trace of the argument": (ed.einsum("ij,kl->ijkl", I, I), "symmetric psd"),
    "diagonal of the argument": (ed.einsum("i->iiii", p), "symmetric psd diagonal"),
    "delta of a row and another column": (ed.einsum("ij->ijki", A, sizes={"k": n}), ""),
    "block diagonal": (ed.einsum("ajk->ajak", ed.einsum("aj,ak->ajk", X, X)), "symmetric psd"),
    "symmetric blocks": (ed.einsum("ajk->ajak", ed.einsum("aj,ak,a->ajk", X, X, y)), "symmetric"),
    "crossed pair": (ed.einsum("il,kj->ijkl", A, A), "symmetric"),
    "nested": (ed.inv(X.T @ (X @ P @ X.T + ed.eye(m)) @ X + I), "symmetric psd pd"),
    "sum with a factor in front": (X.T @ (X @ P @ X.T + ed.eye(m)) @ X, "symmetric psd"),
    "difference with a factor in front": (X.T @ (X @ P @ X.T - ed.eye(m)) @ X, ""),
    "factored sum": (ed.einsum("ij,a,a->ij", P + X.T @ X, y, y), "symmetric psd"),
    "literal definite": (construct.constant(np.array([[2.0, 1.0], [1.0, 3.0]])), "symmetric psd pd"),
    "literal Laplacian": (construct.constant(np.array([[1.0, -1.0], [-1.0, 1.0]])), "symmetric psd"),
    "literal indefinite": (construct.constant(np.array([[1.0, 2.0], [2.0, 1.0]])), "symmetric"),
    "literal triangle": (construct.constant(np.array([[1.0, 5.0], [0.0, 1.0]])), ""),
    "literal diagonal": (construct.constant(np.diag([1.0, 2.0])), "symmetric psd pd diagonal"),
    "literal NaN": (construct.constant(np.array([[1.0, np.nan], [np.nan, 1.0]])), ""),
    "index map": (ed.jacobian(x3[[1, 2, 0]], x3), ""),
    "triangle": (ed.jacobian(ed.cumsum(x3), x3), ""),
    "gram of a triangle": (ed.hessian(ed.norm2(ed.cumsum(x3)) ** 2, x3), "symmetric psd"),
    "gram of an index map": (ed.hessian(ed.norm2(x3[[0, 0, 2]]) ** 2, x3), "symmetric psd diagonal"),
    "map of a row": (ed.outer(row, row), "symmetric psd"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    expr, expected = OPERATORS[name]
    assert claims(facts(expr)) == set(expected.split())
    if "NaN" not in name:
        assert_hold_at_points(expr)


# Hessians

scores = X @ w
HESSIANS = {
    "logistic regression": (ed.sum(ed.log(1 + ed.exp(-y * scores))), w, "psd"),
    "logistic regression with softplus": (ed.sum(ed.softplus(scores) - y * scores), w, "psd"),
    "logistic regression with ridge": (ed.sum(ed.softplus(-y * scores)) + lam * ed.norm2(w) ** 2, w, "pd"),
    "least squares": (ed.norm2(scores - y) ** 2, w, "psd"),
    "mean squares": (ed.mean((scores - y) ** 2), w, "psd"),
    "ridge": (ed.norm2(scores - y) ** 2 + lam * ed.norm2(w) ** 2, w, "pd"),
    "lasso": (ed.norm2(scores - y) ** 2 + lam * ed.norm1(w), w, "psd"),
    "generalized least squares": ((scores - y) @ ed.inv(R) @ (scores - y), w, "psd"),
    "Gaussian likelihood": (ed.sum((scores - y) ** 2) / (2 * lam), w, "psd"),
    "Poisson regression": (ed.sum(ed.exp(scores) - y * scores), w, "psd"),
    "squared hinge": (ed.sum(ed.relu(1 - y * scores) ** 2), w, "psd"),
    "softplus of softplus": (ed.sum(ed.softplus(x)), x, "pd"),
    "exp": (ed.sum(ed.exp(x)), x, "pd"),
    "fourth power": (ed.sum(x**4), x, "psd"),
    "power of a norm": ((x @ x) ** 2, x, "psd"),
    "barrier": (-ed.sum(ed.log(y - scores)), w, "psd"),
    "entropy": (ed.sum(p * ed.log(p)), p, "pd"),
    "exp of a quadratic form": (ed.exp(x @ P @ x), x, "psd"),
    "matrix factorization": (ed.norm2(X - U @ V.T) ** 2, U, "psd"),
    "matrix factorization by the other factor": (ed.norm2(X - U @ V.T) ** 2, V, "psd"),
    "masked factorization": (ed.norm2(O * (X - U @ V.T)) ** 2, U, "psd"),
    "masked factorization with ridge": (ed.norm2(O * (X - U @ V.T)) ** 2 + lam * ed.norm2(V) ** 2, V, "pd"),
    "Frobenius norm": (ed.norm2(Z) ** 2, Z, "pd"),
    "trace": (ed.tr(Z.T @ P @ Z), Z, "psd"),
    "concave trace": (-ed.tr(Z.T @ P @ Z), Z, "nsd"),
    "linear equation of matrices": (ed.norm2(D @ Z @ B - ed.matrix("C", m, "l")) ** 2, Z, "psd"),
    "quadratic form of an inverse": (x @ ed.inv(A @ A.T + I) @ x, x, "pd"),
    "attention weights fixed": (ed.norm2(softmax @ Z - U) ** 2, Z, "psd"),
}  # fmt: skip


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians(name):
    function, by, expected = HESSIANS[name]
    hessian = ed.hessian(function, by)
    found = claims(facts(hessian))
    assert expected in found
    assert found & {"psd", "nsd"} == {"nsd" if expected == "nsd" else "psd"}
    assert ("pd" in found) == (expected == "pd")
    assert_hold_at_points(hessian)


INDEFINITE = {
    "bilinear": (ed.norm2(X - U @ V.T) ** 2 + c * ed.norm2(U) ** 2, U),
    "any weight": (ed.sum(y * ed.softplus(scores)), w),
    "sign flip": (ed.sum(ed.softplus(scores)) - ed.norm2(w) ** 2, w),
    "sine": (ed.sum(ed.sin(scores)), w),
    "cube": (ed.sum(x**3), x),
    "symmetric form": (x @ S @ x, x),
    "any form": (x @ A @ x, x),
    "quotient": ((x @ P @ x) / (x @ x), x),
    "both factors": (ed.norm2(ed.outer(x, x) - A) ** 2, x),
    "trace of a square": (ed.tr(ed.matrix("M", n, n) @ ed.matrix("M", n, n)), ed.matrix("M", n, n)),
    "determinant": (ed.det(A), A),
    "net": (ed.sum(ed.sigmoid(X @ ed.matrix("M", n, n)) @ w), ed.matrix("M", n, n)),
}


@pytest.mark.parametrize("name", INDEFINITE)
def test_indefinite_hessians(name):
    function, by = INDEFINITE[name]
    hessian = ed.hessian(function, by)
    assert claims(facts(hessian)) - {"diagonal"} == {"symmetric"}
    assert_hold_at_points(hessian)


def test_mixed_derivatives_are_not_symmetric():
    function = ed.sum(ed.exp(A * ed.outer(x, w)))
    assert not facts(ed.derivative(function, x, w)).symmetric
    assert facts(ed.derivative(function, x, x)).symmetric


def test_hessian_by_a_symmetric_variable_in_two_forms_is_not_symmetric():
    function = ed.tr(P @ S @ P @ S)
    mixed = ed.derivative(ed.derivative(function, S, symmetric="projected"), S, symmetric="free")
    assert not facts(mixed).symmetric


# Random expressions


def variable_of(name: str) -> ed.Expr:
    """As in the grammar, with what is true of the arrays declared: p is positive, s is semidefinite."""
    if name[0] == "s":
        return ed.symmetric(name, shape_of(name)[0], "psd")
    return ed.tensor(name, shape_of(name), *(["positive"] if name[0] == "p" else []))


def array_of(name: str, seed: int) -> np.ndarray:
    shape, generator = shape_of(name), np.random.default_rng(crc32(name.encode()) + seed)
    if name[0] == "s":
        factor = generator.normal(size=(shape[0], 1 + seed % shape[0]))
        return factor @ factor.T
    return generator.uniform(0.05, 1.5, shape) if name[0] == "p" else generator.normal(size=shape) * (1 + seed)


known: Counter = Counter()


def check(example: Example) -> None:
    """All nodes of an expression and of the derivatives of its sum."""
    variables = {name: variable_of(name) for name in names_in(example.text)}
    outputs = [eval(example.text, {"ed": ed, "np": np} | variables)]
    for name in example.by:
        outputs += [ed.derivative(ed.sum(outputs[0]), variables[name])]
        outputs += [ed.derivative(outputs[-1], variables[name])]
    nodes = topological(outputs)
    for seed in (0, 1):
        try:
            values = evaluate(nodes, {name: array_of(name, seed) for name in variables})
        except ed.EindiffError:  # not a number here
            return
        for node, value in zip(nodes, values, strict=True):
            if np.isfinite(value).all():
                known.update(assert_holds(node, value))


@pytest.mark.parametrize("root", OPERATIONS)
def test_random_expressions(root):
    known.clear()
    run(examples(root, 2), 15, check)
    assert known["bounds"] > 0.2 * known["nodes"]
    assert known["nonzero"] > 0.05 * known["nodes"]
    assert known["symmetric"] > 0.2 * known["operators"]
    assert known["psd"] > 0.05 * known["operators"]


# Random networks, half of them with a mirror


def leaves() -> dict[str, ed.Expr]:
    return {
        "A": ed.matrix("A", 2, 2), "S": ed.symmetric("S", 2), "P": ed.symmetric("P", 2, "psd"),
        "N": ed.matrix("N", 2, 2, "positive"), "G": ed.symmetric("G", 2, "psd", "positive"), "v": ed.vector("v", 2),
        "p": ed.vector("p", 2, "positive"), "T": ed.tensor("T", (2, 2, 2)), "c": ed.scalar("c", "positive"),
        "d": ed.scalar("d"),
    }  # fmt: skip


def arrays(generator: np.random.Generator) -> dict[str, np.ndarray]:
    a, g = generator.normal(size=(2, 2)), generator.uniform(0.1, 1, (2, 2))
    f = generator.normal(size=(2, int(generator.integers(1, 3))))
    tensors = {name: generator.normal(size=shape) for name, shape in (("v", 2), ("T", (2, 2, 2)), ("d", ()))}
    positive = {name: generator.uniform(0.1, 2, shape) for name, shape in (("N", (2, 2)), ("p", 2), ("c", ()))}
    return {"A": a, "S": a + a.T, "P": f @ f.T, "G": g @ g.T, **tensors, **positive}


def network(choose: random.Random, operands: list[ed.Expr], ndim: int) -> ed.Expr:
    """A random Einsum, most of them with some operands and axes and their mirror images."""
    moved, fixed = choose.randint(0, 3), choose.randint(1, 2)
    labels = range(2 * moved + fixed)

    def image(label: int) -> int:
        return label if label >= 2 * moved else (label + moved) % (2 * moved)

    def some(count: int) -> tuple[int, ...]:
        chosen = [choose.choice(labels) for _ in range(count)]
        return tuple([x if x >= 2 * moved else x % moved for x in chosen] if choose.random() < 0.7 else chosen)

    factors = []
    for operand in choose.choices(operands, k=choose.randint(1, 3)):
        factors.append((operand, some(operand.ndim)))
        if choose.random() < 0.7:
            factors.append((operand, tuple(map(image, factors[-1][1]))))
    rows = some(ndim // 2)
    output = [*rows, *map(image, rows), *some(ndim % 2)]
    if choose.random() < 0.15:
        choose.shuffle(output)
    coefficient = choose.choice([1, 1, 2, -1, 0.3])
    return construct.einsum(coefficient, factors, tuple(output), dict.fromkeys(labels, 2), inline=choose.random() < 0.7)


def random_operator(choose: random.Random) -> ed.Expr:
    """A sum of networks of leaves and of functions of networks."""
    operands = [*leaves().values()]
    for _ in range(choose.randint(0, 3)):
        inner = network(choose, operands, choose.choice([0, 1, 2, 2, 3, 4]))
        inner = inner + network(choose, operands, inner.ndim) if choose.random() < 0.4 else inner
        forms = [ed.exp, ed.sigmoid, ed.cosh, lambda u: u * u, lambda u: u, lambda u: u]
        if inner.ndim == 2:
            forms += [lambda u: ed.inv(u @ u.T + ed.eye(2)), lambda u: ed.expm((u + u.T) / 9), lambda u: u + ed.eye(2)]
        operands += [choose.choice(forms)(inner / 3)] * 3
    ndim = choose.choice([2, 2, 4])
    total = network(choose, operands, ndim)
    for _ in range(choose.choice([0, 0, 1, 2])):
        total = total + network(choose, operands, ndim)
    return total


@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed):
    found: Counter = Counter()
    for count in range(60):
        choose = random.Random(1000 * seed + count)
        try:
            nodes = topological([random_operator(choose)])
        except ed.EindiffError:  # a number that is not finite
            continue
        for point in range(3):
            values = evaluate(nodes, arrays(np.random.default_rng(10 * count + point)))
            if all(np.abs(value).max() < 300 for value in values):  # no exp is rounded to 0
                for node, value in zip(nodes, values, strict=True):
                    found += assert_holds(node, value)
    assert found["psd"] > 0.25 * found["operators"]
    assert found["nsd"] > 0.02 * found["operators"]
    assert found["pd"] > 0.01 * found["operators"]
    assert found["symmetric"] < 0.9 * found["operators"]


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


def test_large_hessians_take_little_time():
    function, weights, _ = net(20, ed.sigmoid)
    hessian = ed.hessian(function, weights[0])
    start = perf_counter()
    assert facts(hessian).symmetric
    assert perf_counter() - start < 1


def test_facts_are_printed_in_full():
    assert re.fullmatch(r"Facts\(low=0.0, high=inf, .*pd=True, .*\)", repr(facts(ed.diag(ed.exp(x)))))
