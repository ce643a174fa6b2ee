"""The exact text of results that people know, as people write them."""

from __future__ import annotations

import re

import pytest

import eindiff as ed
from eindiff.core.nodes import Expr
from eindiff.text.read.parse import parse
from eindiff.text.write.to_text import as_written, to_text

DECLARED = """
    x(n); z(n); v(n); w(n); a(n); b(m); y(m); c; A(m,n); X(m,n); T(m,n); W(m,n); B(n,n); C(n,n); U(m,k); V(n,k);
    S(n,n) symmetric; K(n,n) symmetric
"""
LOGISTIC = "sum(log(exp(-y.*(X*w)) + vector(1)))"

# function, variables to differentiate by, and the derivative in matrix notation
RESULTS = [
    ("0.5*x'*B*x", "x", "1/2*(B*x + B'*x)"),
    ("x'*B*x", "x", "B*x + B'*x"),
    ("x'*S*x", "x", "2*S*x"),
    ("x'*B*x", "x x", "B + B'"),
    ("x'*S*x", "x x", "2*S"),
    ("B*exp(x)", "x", "B*diag(exp(x))"),
    ("(z.*v)'*x", "x", "v .* z"),
    ("sin(x)'*z", "x", "z .* cos(x)"),
    ("norm1(A*x-b)", "x", "A'*sign(A*x - b)"),
    ("norm2(A*x-b)^2", "x", "2*A'*(A*x - b)"),
    ("norm2(b-A*x)^2", "x", "2*A'*(A*x - b)"),
    ("norm2(A*x-b)^2", "x x", "2*A'*A"),
    ("norm2(A*x-b)", "x", "A'*(A*x - b)/norm2(A*x - b)"),
    ("x/norm2(x)", "x", "eye(n)/norm2(x) - x*x'/norm2(x)^3"),
    ("norm2(x)", "x", "x/norm2(x)"),
    (LOGISTIC, "w", "-X'*(y .* sigmoid(-y .* (X*w)))"),
    (LOGISTIC, "w w", "X'*diag(y.^2 .* sigmoid(y .* (X*w)) .* sigmoid(-y .* (X*w)))*X"),
    ("sum(exp(X*w)-y.*(X*w))", "w", "X'*(exp(X*w) - y)"),
    ("sum(exp(X*w)-y.*(X*w))", "w w", "X'*diag(exp(X*w))*X"),
    ("tr(A*V*U')", "V", "A'*U"),
    ("tr(B*C'*B*C*B)", "C", "B*C*B*B + B'*C*B'*B'"),
    ("tr(B)", "B", "eye(n)"),
    ("tr(B*B*B*B)", "B", "4*(B^3)'"),
    ("tr(inv(B)*inv(B))", "B", "-2*(B^(-3))'"),
    ("log(det(inv(B)))", "B", "-inv(B)'"),
    ("det(B)", "B", "det(B)*inv(B)'"),
    ("log(det(B))", "B B", '-einsum("jk,li->ijkl", inv(B), inv(B))'),
    ("inv(B)", "B", '-einsum("ik,lj->ijkl", inv(B), inv(B))'),
    ("inv(B)*v", "v", "inv(B)"),
    ("x'*inv(S)*x", "x", "2*inv(S)*x"),
    ("x'*inv(B)*x", "B", "-inv(B)'*x*x'*inv(B)'"),
    ("norm2(T-U*V')^2", "U", "2*(U*V' - T)*V"),
    ("norm2(T-U*V')^2", "V", "2*(V*U' - T')*U"),
    ("norm2(T-U*V')^2", "U U", '2*einsum("jk->ijik", V\'*V, i=m)'),
    ("norm2(W.*(T-U*V'))^2", "U", "2*(W.^2 .* (U*V' - T))*V"),
    ("norm2(W.*(T-U*V'))^2", "U U", '2*einsum("lj,lk,il->ijik", V, V, W.^2)'),
    ("logsumexp(x)", "x", "softmax(x)"),
    ("softmax(x)", "x", "diag(softmax(x)) - softmax(x)*softmax(x)'"),
    ("0.5*(a.*v)'*K*(a.*v)-sum(a)", "a", "v .* (K*(a .* v)) - 1"),
    ("0.5*(a.*v)'*K*(a.*v)-sum(a)", "a a", "diag(v)*K*diag(v)"),
    ("sum(relu(A*x-b))", "x", "A'*step(A*x - b)"),
    ("sum(tanh(A*x))", "x x", "2*A'*diag(tanh(A*x) .* (tanh(A*x).^2 - 1))*A"),
    ("sum(sqrt(x))", "x", "1 ./ (2*sqrt(x))"),
    ("sum(1 ./ x)", "x", "-1 ./ x.^2"),
    ("sum(x.^3)", "x", "3*x.^2"),
    ("sum(x.^3)", "x x", "6*diag(x)"),
    ("w'*X'*X*w/(w'*w)", "w", "2*(X'*X*w/(w'*w) - norm2(X*w)^2*w/(w'*w)^2)"),
    ("c*x'*x", "c", "x'*x"),
    ("x/c", "c", "-x/c^2"),
    ("mean(x.^2)", "x", "2*x/n"),
    ("x*z'", "x", 'einsum("j->iji", z, i=n)'),
    ("norm2(x[1:3])^2", "x", "2*eye(n)[:, 1:3]*x[1:3]"),
]


def derivative(function: str, by: str) -> Expr:
    expr = parse(function, DECLARED)
    for name in by.split():
        expr = ed.derivative(expr, name)
    return expr


@pytest.mark.parametrize(("function", "by", "expected"), RESULTS)
def test_matrix_notation(function: str, by: str, expected: str) -> None:
    assert to_text(derivative(function, by)) == expected


# function, variables, notation, style, text
FACTORED = r"2 \, \left[\delta_{ik} \, \left(V^\top \, V\right)_{jl}\right]_{ijkl}"
OTHERS = [
    ("norm2(T-U*V')^2", "U U", "matrix", "latex", FACTORED),
    ("norm2(A*x-b)^2", "x", "matrix", "unicode", "2·Aᵀ·(A·x − b)"),
    ("norm2(A*x-b)^2", "x", "matrix", "latex", r"2 \, A^\top \, \left(A \, x - b\right)"),
    ("norm2(A*x-b)^2", "x", "index", "plain", "[i] 2*sum[j] A[j,i]*(sum[k] A[j,k]*x[k] - b[j])"),
    ("norm2(A*x-b)^2", "x", "index", "unicode", "[i] 2 Σ_j A_ji (Σ_k A_jk x_k − b_j)"),
    ("norm2(A*x-b)^2", "x", "einsum", "plain", '2*einsum("ji,j->i", A, einsum("ij,j->i", A, x) - b)'),
    ("norm2(T-U*V')^2", "U U", "matrix", "unicode", "2·[δ_ik (Vᵀ·V)_jl]_ijkl"),
    ("norm2(T-U*V')^2", "U U", "index", "plain", "[i:m,j,k:m,l] 2*delta[i,k]*sum[p] V[p,j]*V[p,l]"),
    ("norm2(T-U*V')^2", "U U", "index", "latex", r"2 \, \delta_{ik} \, \sum_{p} V_{pj} \, V_{pl}"),
    ("norm2(T-U*V')^2", "U U", "einsum", "plain", '2*einsum("jk->ijik", einsum("ki,kj->ij", V, V), i=m)'),
    ("log(det(inv(B)))", "B", "matrix", "unicode", "−B⁻ᵀ"),
    ("log(det(inv(B)))", "B", "matrix", "latex", r"-B^{-\top}"),
    ("log(det(inv(B)))", "B", "index", "plain", "[i,j] -inv(B)[j,i]"),
    ("B*exp(x)", "x", "matrix", "latex", r"B \, \operatorname{diag}\left(\exp\left(x\right)\right)"),
    ("x/norm2(x)", "x", "matrix", "unicode", "I/‖x‖ − x·xᵀ/‖x‖³"),
    ("sum(sqrt(x))", "x", "index", "latex", r"\frac{1}{2 \, \sqrt{x_{i}}}"),
    ("x.*z", "", "matrix", "latex", r"x \odot z"),
    ("kron(B, C)", "", "matrix", "latex", r"B \otimes C"),
    ("x[1:3]", "", "index", "plain", "[i:2] x[i + 1]"),
    ("concatenate(x, 2*z)", "", "matrix", "plain", "concatenate(x, 2*z)"),
]


@pytest.mark.parametrize(("function", "by", "notation", "style", "expected"), OTHERS)
def test_other_notations(function: str, by: str, notation: str, style: str, expected: str) -> None:
    assert to_text(derivative(function, by), notation, style) == expected


INTERNAL = re.compile(r"transpose\(|indexmap|winner|at_least|size\(|onehot|inverse_or_zero")
SLICED = {
    "sum((x[1:] - x[:-1]).^2)": "2*(eye(n)[:, 1:]*(x[1:] - x[:n - 1]) - eye(n)[:, :n - 1]*(x[1:] - x[:n - 1]))",
    "sum(maximum(x, y))": "1/2*(sign(x - y) + 1)",
    "sum(x)/n + mean(exp(x))": "exp(x)/n + 1/n",
    "y'*x[[0, 2, 1]]": "eye(n)[:, [0, 2, 1]]*y",
    "tanh(x[0])^2": "2*tanh(x[0])*(1 - tanh(x[0])^2)*eye(n)[:, 0]",
}


@pytest.mark.parametrize("text", SLICED)
def test_no_internal_names(text):
    """Slices, shifts and gathers are columns of the identity, or deltas with shifted indices."""
    declared = "x(n); y(3)" if "0, 2" in text else "x(n); y(n)"
    function = parse(text, declared)
    by = next(v for v in ed.variables(function) if v.name == "x")
    for order in (1, 2):
        result = ed.derivative(function, *[by] * order)
        for notation in ("matrix", "index", "einsum"):
            for style in ("plain", "unicode", "latex"):
                assert not INTERNAL.search(ed.to_text(result, notation, style))
    assert ed.to_text(ed.derivative(function, by)) == SLICED[text]
    assert parse(SLICED[text], declared) == as_written(ed.derivative(function, by))


def test_terms_of_higher_order_are_turned_one_by_one():
    X = ed.matrix("X", "n", "n")
    text = ed.to_text(ed.derivative(ed.tr(ed.inv(X)), X, X))
    assert "transpose" not in text
    assert parse(text, {"X": X}) == ed.derivative(ed.tr(ed.inv(X)), X, X)


ORIENTED = {
    ("norm2(T - tanh(X*V)*V')^2", "V V"): [(r"1 - tanh", r"\^2 - 1"), (r"T - tanh", r" - T\b")],
    ("sum(exp(-c*(x*ones(n)' - ones(n)*x').^2))", "x"): [(r"x\[i\] - x\[j\]", r"x\[j\] - x\[i\]")],
    ("norm2(x - a)", "x"): [(r"x\[\w\] - a", r"a\[\w\] - x")],
}


@pytest.mark.parametrize(("text", "by"), ORIENTED)
def test_a_sum_is_written_with_one_sign_in_one_answer(text, by):
    function = parse(text, "T(m,n); X(m,p); V(p,n); x(n); c; a(n)" if "T" not in text else "T(m,p); X(m,p); V(p,n)")
    for notation in ("matrix", "index", "einsum"):
        found = to_text(ed.derivative(function, *by.split()), notation, names=False)
        for one, other in ORIENTED[text, by]:
            assert not (re.search(one, found) and re.search(other, found)), found
