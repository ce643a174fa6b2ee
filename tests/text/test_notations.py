"""Notations that people bring are read as what they say in the language, and errors in them point at the place."""

from __future__ import annotations

import pytest

import eindiff as ed
from eindiff.text.read.source import ParseError

SAME = {
    "x^T*A*x": "x'*A*x", "x.T*A*x": "x'*A*x", "x^⊤*A*x": "x'*A*x", "x⊤*A*x": "x'*A*x", "x^{T}*A*x": "x'*A*x",
    "xᵀ*A*x": "x'*A*x", "A.T @ x": "A'*x", "x @ A @ y": "x'*A*y", "x @ y": "x'*y", "A @ B": "A*B", "x**2": "x.^2",
    "A**2": "A.^2", "||x||": "norm2(x)", "‖x‖": "norm2(x)", "‖x‖₁": "norm1(x)", "||x||_1": "norm1(x)",
    "||A||_F": "norm2(A)", "||A||_*": "normnuc(A)", "‖x‖²": "norm2(x)^2", "||x||_2^2": "norm2(x)^2",
    "||x||^2_2": "norm2(x)^2", "|x|": "abs(x)", "x²": "x^2", "A⁻¹": "A^(-1)", "2x": "2*x", "2 x": "2*x",
    "1/2x'*A*x": "1/2*x'*A*x", "2(x + y)": "2*(x + y)", "(a+b)(c+d)": "(a+b)*(c+d)", "λ‖x‖": "λ*norm2(x)",
    "2||x||": "2*norm2(x)", "trace(A)": "tr(A)", "Tr(A)": "tr(A)", "ln(x)": "log(x)", "dot(x, y)": "x'*y",
    "norm(x)": "norm2(x)", "norm(x, 1)": "norm1(x)", "norm(x, 2)": "norm2(x)", 'norm(A, "fro")': "norm2(A)",
    "norm(A, 'fro')": "norm2(A)", "norm(x, inf)": "max(abs(x))", "max(0, x)": "maximum(0, x)",
    "min(x, 1)": "minimum(x, 1)", "max(x, 0)": "maximum(x, 0)", "f(x) = x'*x": "x'*x", "loss = x'*x": "x'*x",
    "L(w) := norm2(X*w - y)^2": "norm2(X*w - y)^2", "argmin_x ||A*x - b||": "norm2(A*x - b)",
    "min ||A*x - b||^2": "norm2(A*x - b)^2", "minimize norm2(A*x - b)": "norm2(A*x - b)",
    "min_{x} norm1(x)": "norm1(x)", "np.sum(x)": "sum(x)", "jnp.exp(x)": "exp(x)", "torch.sigmoid(x)": "sigmoid(x)",
    "np.linalg.inv(A)": "inv(A)", "np.linalg.norm(x, 1)": "norm1(x)", "x.sum()": "sum(x)", "(A @ x).sum()": "sum(A*x)",
    "A.sum(axis=0)": "sum(A, axis=0)", "x.dot(y)": "x'*y", "np.exp(x).sum()": "sum(exp(x))", "np.dot(A, x)": "A*x",
    "y * (A @ x)": "y.*(A*x)", "x @ y / n": "x'*y/n", "np.log(x) * y": "log(x).*y", "||Ax - b||": "norm2(A*x - b)",
    "log|S|": "log(det(S))", "sum(|x|)": "sum(abs(x))", "|x|*|y|'": "abs(x)*abs(y)'", "x^{2}": "x^2", "e": "e",
    "sum_over(i, x[i]^2)": "sum(x.^2)", "sum_over(i, 1, n, x[i]*y[i])": "x'*y", "A*x ⋅ 2": "A*x*2",
}  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_notation_is_read_as_in_the_language(text):
    declared = "x(n); y(n); A(n,n); B(n,n); b(n); X(m,n); w(n); S(n,n)"
    if SAME[text] in ("x^2", "x^2*y"):
        declared = "x"
    if text.startswith("L("):
        declared = ""
    assert ed.parse(text, declared) == ed.parse(SAME[text], declared)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("2x + sni(y)", 6, "unknown function sni"),
        ("||x|| + (a", 9, "never closed"),
        ("‖x‖_7", 3, "there is no ‖x‖_7"),
        ("|x + y", 1, "this bar is never closed"),
        ("x² + $", 6, "is not part of the language"),
        ("f(x) = x'*x +", 14, "ends too early"),
        ("np.foo(x)", 4, "unknown function foo"),
        ("t = log x; t", 9, r"a function as log\(x\)"),
    ],
)
def test_errors_point_into_what_was_written(text, column, message):
    with pytest.raises(ParseError, match=message) as caught:
        ed.parse(text)
    assert caught.value.column == column


def test_a_declared_t_is_an_exponent():
    assert ed.parse("a^T", "a; T") == ed.parse("a^b", {"a": "scalar", "b": ed.scalar("T")})
