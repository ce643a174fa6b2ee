"""Of functions and sums of products no more is made than what is read."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed

N = 300
DECLARED = "A(n,n); B(n,n); C(n,n); x(n)"
CASES = {  # in NumPy's words, and the products of a matrix and a vector that it takes
    "exp(A*B*C)[2,:]": ("np.exp(A @ B @ C)[2]", 2),
    "exp(A*B*C)[:,2]": ("np.exp(A @ B @ C)[:, 2]", 2),
    "sin(A*B*C + A - eye(n))[1:4,:]": ("np.sin(A @ B @ C + A - I)[1:4]", 6),
    "log(1 + exp(A*B*C))[:,3]": ("np.log(1 + np.exp(A @ B @ C))[:, 3]", 2),
    "(exp(A*B*C).*A)[2,:]'*x": ("(np.exp(A @ B @ C) * A)[2] @ x", 2),
    "tr(tanh(A*B*C)[1:4,1:4])": ("np.trace(np.tanh(A @ B @ C)[1:4, 1:4])", 4),
    "exp(A*B*C)[2,:] + exp(A*B*C)[3,:]": ("np.exp(A @ B @ C)[2:4].sum(0)", 4),
    "tanh(A*exp(B*x))[3]": ("np.tanh(A @ np.exp(B @ x))[3]", 1),
    "sum(exp(A*B*C)) + exp(A*B*C)[2,3]": ("np.exp(A @ B @ C).sum() + np.exp(A @ B @ C)[2, 3]", 2 * N + 2),
}


@pytest.mark.parametrize("text", CASES)
def test_parts_come_before_products(text: str) -> None:
    expected, products = CASES[text]
    expr = ed.parse(text, DECLARED)
    assert ed.plan(expr, {"n": N}).flops <= (products * 2 * N + 20) * N
    for n in (5, 60):
        rng = np.random.default_rng(n)
        names = {name: rng.normal(size=(n, n)) / n**0.5 for name in "ABC"} | {"x": rng.normal(size=n)}
        value = ed.compile(expr)(**{v.name: names[v.name] for v in ed.variables(expr)})
        np.testing.assert_allclose(value, eval(expected, {"np": np, "I": np.eye(n), **names}), rtol=1e-10, atol=1e-12)
