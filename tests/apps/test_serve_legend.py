"""The legend of a drawn Hessian: its formulas are those of the terms, in the names of the user."""

from __future__ import annotations

import numpy as np
import pytest

from apps.test_serve_display import assert_mathml
from eindiff.apps.page.examples import GROUPS
from eindiff.apps.page.legend import kronecker
from eindiff.apps.page.reading import reading
from eindiff.apps.page.tasks import answer
from eindiff.calculus.derive import find_variable, hessian
from eindiff.core import construct
from eindiff.program.check import random_point
from eindiff.program.interpreter import evaluate
from eindiff.structure.patterns import decompose

EXAMPLES = [example for group in GROUPS for example in group.examples]
FACTORS = "T(m,n); U(m,k); V(n,k)"


def texts(expression: str, declarations: str, wrt: list[str]) -> list[str]:
    found = answer("structure", {"expression": expression, "declarations": declarations, "wrt": wrt, "order": 2})
    return [" ".join(filter(None, (term["block"], term["text"]))) for term in found["terms"]]


@pytest.mark.parametrize(
    ("expression", "declarations", "wrt", "expected"),
    [
        ("norm2(T - U*V')^2", FACTORS, ["U"], ["2·(I ⊗ (Vᵀ·V))"]),
        (
            "norm2(T - U*V')^2", FACTORS, ["U", "V"],
            ["U, U 2·(I ⊗ (Vᵀ·V))", "U, V 2·((U·Vᵀ − T) ⊗ I)", "U, V [2·U_il·V_kj]_ijkl", "V, V 2·(I ⊗ (Uᵀ·U))"],
        ),
        ("norm2(A*X*B - C)^2", "", ["X"], ["2·((Aᵀ·A) ⊗ (B·Bᵀ))"]),
        ("sum(exp(X*w))", "", ["w"], ["Xᵀ·diag(exp(X·w))·X"]),
        ("sum(exp(x))", "", ["x"], ["diag(exp(x))"]),
        ("c*norm2(x)^2", "", ["x"], ["2·c·I"]),
        ("c*norm2(X)^2", "", ["X"], ["2·c·(I ⊗ I)"]),
        ("norm2(M.*(T - U*V'))^2", "", ["U"], ["[2·δ_ik·Σ_p M_ip²·V_pj·V_pl]_ijkl"]),
    ],
)  # fmt: skip
def test_terms(expression, declarations, wrt, expected):
    assert texts(expression, declarations, wrt) == expected


def test_long_terms_have_names_for_their_factors():
    net = next(example for example in EXAMPLES if example.title == "A net with three layers")
    found = answer("structure", net.model_dump(exclude={"title"}))
    [term] = found["terms"]
    assert term["text"] == "[−Σ_p D_pjl·X_pi·X_pk]_ijkl"
    assert [(part["name"], part["text"]) for part in term["where"]] == [("D", "an array of shape m×n×n")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_every_term_of_the_examples_is_told(example):
    found = answer("structure", {**example.model_dump(exclude={"title"}), "order": 2})
    for term in found.get("terms", ()):
        assert term["text"] != "a product of arrays"
        for part in [term, *term["where"]]:
            if part["mathml"]:
                assert_mathml(part["mathml"])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_kronecker_products_have_the_value_of_the_term(example):
    function = reading({"expression": example.expression, "declarations": example.declarations}).function
    if function.ndim:
        return
    for name in example.wrt:
        x = find_variable(function, name)
        expr = hessian(function, x)
        sizes: dict[str, int] = {}
        point = random_point([function, expr], sizes)
        for pattern in decompose(expr, sizes):
            if (found := kronecker(pattern, x.ndim)) is not None:
                front, factors = found
                term = construct.einsum(pattern.coefficient, list(pattern.factors), pattern.output, pattern.sizes)
                value, made, *arrays = evaluate([term, front, *factors], point, sizes)
                for array in arrays:
                    made = np.kron(made, array)
                np.testing.assert_allclose(value.reshape(made.shape), made, rtol=1e-9, atol=1e-12)
