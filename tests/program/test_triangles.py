"""Running sums: triangles of ones in products, from the end, and with each other."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed

L = np.tri(6)
RNG = np.random.default_rng(0)
ARRAYS = {"d": RNG.normal(size=6), "x": RNG.normal(size=6), "A": RNG.normal(size=(6, 6)), "u": RNG.normal(size=6)}
ARRAYS["B"] = RNG.normal(size=(6, 6))
VARIABLES = {"d": ed.vector("d", 6), "x": ed.vector("x", 6), "A": ed.matrix("A", 6, 6), "u": ed.vector("u", 6)}
ONES = ed.derivative(ed.cumsum(VARIABLES["x"]), VARIABLES["x"])


@pytest.mark.parametrize(
    ("subscripts", "names"),
    [
        ("ki,kj,k->ij", "LLd"),  # after both
        ("ik,jk,k->ij", "LLd"),  # before both
        ("ki,kj,k->ji", "LLd"),
        ("ki,kj,km,m->ij", "LLLx"),  # with running sums between
        ("ki,kj,k,i->ij", "LLdu"),
        ("ki,kj,km->ijm", "LLA"),
        ("ki,kj,k,ij->ij", "LLdA"),
        ("ki,jk,k->ij", "LLd"),  # between two others: not this
        ("ki,kj,kj->ij", "LLA"),  # with a factor of all three: not this
    ],
)
def test_products_of_two_triangles(subscripts: str, names: str) -> None:
    expr = ed.einsum(subscripts, *(ONES if name == "L" else VARIABLES[name] for name in names))
    expected = np.einsum(subscripts, *(L if name == "L" else ARRAYS[name] for name in names))
    used = {v.name for v in ed.variables(expr)}
    found = ed.compile(expr)(**{name: ARRAYS[name] for name in used})
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_the_second_derivative_of_a_running_sum_takes_no_product_of_matrices() -> None:
    """Its entries are sums of all that comes after two places, of which there are n."""
    x = ed.vector("x", "n")
    hessian = ed.hessian(ed.sum(ed.exp(ed.cumsum(x))), x)
    assert ed.plan(hessian, {"n": 300}).flops < 12 * 300**2
    at = RNG.normal(size=7)
    d = np.exp(np.cumsum(at))
    np.testing.assert_allclose(ed.evaluate(hessian, {"x": at}), np.tri(7).T @ np.diag(d) @ np.tri(7), rtol=1e-12)


def test_second_derivatives_of_running_sums_times_a_diagonal() -> None:
    """What is outside of both triangles may be a diagonal of a matrix."""
    X, A = ed.matrix("X", 6, 6), VARIABLES["A"]
    f = ed.sum(ed.exp(ed.cumsum(ed.einsum("ii,ji,ik->ij", A, X, A), 0)))
    found, at = ed.compile(ed.hessian(f, X))(X=ARRAYS["B"], A=ARRAYS["A"]), ARRAYS["A"]
    inner = L * (at.diagonal() * at.sum(1))  # of which each column of X' has a product
    slopes = np.exp(inner @ ARRAYS["B"].T)
    np.testing.assert_allclose(found, np.einsum("ki,kl,kj,jm->jiml", inner, inner, slopes, np.eye(6)), rtol=1e-12)


def test_running_sums_from_the_end_are_a_product_with_the_transpose() -> None:
    x = ed.vector("x", "n")
    backwards = ed.cumsum(x[::-1])[::-1]
    assert ed.to_text(backwards) == "tril(ones(n, n))'*x"
    assert ed.evaluate(backwards, {"x": [1.0, 2.0, 4.0]}).tolist() == [7.0, 6.0, 4.0]
    half = ed.cumsum(x[::-1])  # reversed once it is none
    assert ed.evaluate(half, {"x": [1.0, 2.0, 4.0]}).tolist() == [4.0, 6.0, 7.0]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums_form_no_triangle(axis: int, backwards: bool) -> None:
    """Of a part of a larger expression, along each axis, from its start and from its end."""
    a = ed.tensor("a", (70, 71, 72))
    order = tuple([slice(None, None, -1 if backwards and k == axis else None) for k in range(3)])
    program = ed.compile(ed.cumsum((a / (2 + a**2))[order], axis)[order])
    at = RNG.normal(size=a.shape)
    expected = np.cumsum((at / (2 + at**2))[order], axis)[order]
    np.testing.assert_allclose(program(a=at), expected, rtol=1e-12, atol=1e-12)
    assert "np.tri(" not in program.source


def test_derivatives_of_running_sums_take_running_sums() -> None:
    """Those of the proportional hazards of `X w`: no product is one with a triangle."""
    x, w, d = ed.matrix("x", 200, 80), ed.vector("w", 80), ed.vector("d", 200)
    f = d @ ed.log(ed.cumsum(ed.exp(x @ w)))
    outputs = [ed.gradient(f, w), ed.hessian(f, w)]
    assert ed.plan(outputs).flops < 3 * 200 * 80**2 + 20 * 200 * 80
    arrays = {"x": RNG.normal(size=(200, 80)), "w": RNG.normal(size=80) / 9, "d": RNG.random(200)}
    scaled = np.exp(arrays["x"] @ arrays["w"])[:, None] * arrays["x"]
    sums = np.cumsum(np.exp(arrays["x"] @ arrays["w"]))
    means = np.tri(200) @ scaled / sums[:, None]
    gradient, hessian = ed.compile(outputs)(**arrays)
    np.testing.assert_allclose(gradient, arrays["d"] @ means, rtol=1e-10, atol=1e-12)
    second = (np.tri(200).T @ (arrays["d"] / sums))[:, None] * scaled
    expected = arrays["x"].T @ second - means.T @ (arrays["d"][:, None] * means)
    np.testing.assert_allclose(hessian, expected, rtol=1e-10, atol=1e-10)
