"""Facts: symmetry and definiteness that are inferred hold at random points, and are not too little."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.facts.bounds import facts
from fact_checks import assert_hold_at_points, claims

m, n, k = "m", "n", "k"
X, D, O = (ed.matrix(name, m, n) for name in "XDO")
U, V, Z, B = ed.matrix("U", m, k), ed.matrix("V", n, k), ed.matrix("Z", n, k), ed.matrix("B", k, "l")
A, T = ed.matrix("A", n, n), ed.tensor("T", (m, n, n))
S, P, R = ed.symmetric("S", n), ed.symmetric("P", n, "psd"), ed.symmetric("R", m, "psd")
w, x, y, p = ed.vector("w", n), ed.vector("x", n), ed.vector("y", m), ed.vector("p", n, "positive")
x3 = ed.vector("x3", 3)
c, lam = ed.scalar("c"), ed.scalar("lam", "positive")
I = ed.eye(n)

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
    "difference with a factor in front": (X.T @ (X @ P @ X.T - ed.eye(m)) @ X, "symmetric"),
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
    "attention weights fixed": (ed.norm2(ed.softmax(X) @ Z - U) ** 2, Z, "psd"),
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
