"""Tensors of order four as matrices of Kronecker products, and long formulas in several lines."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.check import random_point
from eindiff.text.write.to_text import kronecker
from eindiff.text.write.wrap import wrapped

DECLARED = "T(m,n); U(m,k); V(n,k); X(n,n); A(n,n); B(n,n); W(m,n)"
FORMS = {
    ("norm2(T - U*V')^2", "U U"): "2·(I_m ⊗ Vᵀ·V)",
    ("norm2(T - U*V')^2", "V V"): "2·(I_n ⊗ Uᵀ·U)",
    ("tr(X'*A*X*B)", "X X"): "A ⊗ Bᵀ + Aᵀ ⊗ B",
    ("A*X*B", "X"): "A ⊗ Bᵀ",
    ("X*X", "X"): "X ⊗ I_n + I_n ⊗ Xᵀ",
    ("inv(X)", "X"): "−(X⁻¹ ⊗ X⁻ᵀ)",
    ("sum(exp(X))", "X X"): "diag(vec(exp(Xᵀ)))",
    ("norm2(X)^4", "X X"): "8·vec(Xᵀ)·vec(Xᵀ)ᵀ + 4·‖X‖²·(I_n ⊗ I_n)",
    ("norm2(W.*(T - U*V'))^2", "U U"): None,
    ("log(det(X))", "X X"): None,
    ("x'*A*x", "x x"): None,
}


@pytest.mark.parametrize(("text", "by"), FORMS)
def test_kronecker_form(text, by):
    function = ed.parse(text, DECLARED)
    path = [next(v for v in ed.variables(function) if v.name == name) for name in by.split()]
    found = ed.derivative(function, *path)
    if FORMS[text, by] is None:
        assert kronecker(found) is None
        assert ed.to_text(found, "kronecker") == ed.to_text(found)
        return
    assert ed.to_text(found, "kronecker", "unicode") == FORMS[text, by]
    sizes = {"m": 2, "n": 3, "k": 4}
    again = ed.parse(ed.to_text(found, "kronecker"), {v.name: v for v in ed.variables(function)})
    tensor, matrix = ed.evaluate([found, again], random_point([function], sizes), sizes)
    np.testing.assert_allclose(matrix, tensor.reshape(matrix.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [30, 45, 60])
def test_broken_lines_fit_and_read_as_before(width):
    texts = ["sum(log(1 + exp(-y.*(X*w)))) + c*norm2(w)^2", "w'*X'*X*w/(w'*w)", "norm2(X*w - y)", "sum(tanh(X*w).^3)"]
    for text in texts:
        function = ed.parse(text, "X(m,n); w(n); y(m); c")
        for order in (1, 2):
            found = ed.derivative(function, *["w"] * order)
            lines = wrapped(ed.to_text(found), width)
            assert all(len(line) <= width for line in lines) or width < 40
            assert all(line.startswith("  ") for line in lines[1:])
            again = ed.parse("\n".join(lines), {v.name: v for v in ed.variables(function)})
            assert again == ed.parse(ed.to_text(found), {v.name: v for v in ed.variables(function)})
