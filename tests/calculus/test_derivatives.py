"""Derivatives of any order, in every mode: conventions, blocks, contractions, symmetric variables, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.core.function import Function
from eindiff.program.check import finite_difference, random_point, relative_error
from models import MODELS, factorization, logistic, multinomial
from spec import assert_canonical

MODES = ("reverse", "forward", "cross_country", "auto")
A, x, y = ed.matrix("A", "m", "n"), ed.vector("x", "n"), ed.vector("y", "m")
S = ed.symmetric("S", "n")
Q = ed.matrix("Q", "n", "n", "orthogonal")
SIZES = {"m": 3, "n": 4, "k": 2}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("20-layer net", "recurrent net")])
def test_all_modes_agree_to_second_order(name):
    function, wrt, sizes = MODELS[name]()
    small = {size: 2 + k % 3 for k, size in enumerate(sizes)}
    point = random_point([function], small, seed=4)
    for first, second in itertools.product(wrt[:2], repeat=2):
        hessians = [ed.derivative(function, first, second, mode=mode) for mode in MODES]
        assert_canonical(*hessians)
        values = ed.evaluate(hessians, point, small)
        for other in values[1:]:
            assert relative_error(other, values[0]) < 1e-10


def test_axes_of_the_function_come_first_then_those_of_each_variable():
    f = ed.einsum("ij,j,i->i", A, ed.exp(x), y)
    assert ed.derivative(f, x, y, A).shape == ("m", "n", "m", "m", "n")
    assert ed.derivative(f, "x", "y", "A") == ed.derivative(f, x, y, A)


@pytest.mark.parametrize("mode", MODES)
def test_mixed_third_order_against_finite_differences(mode):
    f = ed.sum(ed.sin(A @ x) * y * y)
    third = ed.derivative(f, x, A, y, mode=mode)
    point = random_point([f], dict(SIZES))
    numeric = finite_difference(ed.derivative(f, x, A), y, point)
    assert relative_error(ed.evaluate(third, point), numeric) < 1e-9
    assert (
        relative_error(ed.evaluate(third, point), ed.evaluate(ed.derivative(f, y, x, A), point).transpose(1, 2, 3, 0))
        < 1e-12
    )


def test_fourth_order_of_a_quartic():
    f = (x @ x) ** 2
    point = {"x": np.arange(3.0)}
    value = ed.evaluate(ed.derivative(f, x, x, x, x), point)
    eye = np.eye(3)
    expected = 8 * sum(np.einsum(f"{p},{q}->ijkl", eye, eye) for p, q in (("ij", "kl"), ("ik", "jl"), ("il", "jk")))
    np.testing.assert_allclose(value, expected)


def test_derivative_by_a_variable_that_is_not_there_is_zero():
    z = ed.vector("z", "k")
    assert ed.derivative(A @ x, z) == ed.zeros("m", "k")
    assert ed.gradient(x @ x, [x, z])[1] == ed.zeros("k")
    assert ed.hessian(y @ A @ x, x) == ed.zeros("n", "n")


@pytest.mark.parametrize("mode", MODES)
def test_blocks_of_several_variables(mode):
    f, (U, V), _ = factorization(ridge=True)
    point = random_point([f], dict(SIZES))
    blocks = ed.hessian(f, [U, "V"], mode=mode)
    for (i, row), (j, column) in itertools.product(enumerate([U, V]), repeat=2):
        numeric = finite_difference(ed.gradient(f, row), column, point)
        assert relative_error(ed.evaluate(blocks[i][j], point), numeric) < 1e-8


def contraction_cases() -> list:
    return [logistic(), multinomial(), factorization(mask=True, ridge=True)]


@pytest.mark.parametrize("case", range(3))
def test_contractions_equal_those_of_the_dense_hessian(case):
    f, (w, *_), _ = contraction_cases()[case]
    point = random_point([f], dict(SIZES), seed=1)
    h = ed.evaluate(ed.hessian(f, w), point)
    n = int(np.prod(h.shape[: w.ndim]))
    shape, h = h.shape[: w.ndim], h.reshape(n, n)
    v = np.random.default_rng(0).normal(size=shape)
    flat = v.ravel()
    direction = ed.tensor("v", w.shape)
    results = {
        "hvp": (ed.hvp(f, w, direction), (h @ flat).reshape(shape)),
        "quadratic_form": (ed.quadratic_form(f, w, "v"), flat @ h @ flat),
        "hessian_diagonal": (ed.hessian_diagonal(f, w), np.diag(h).reshape(shape)),
        "laplacian": (ed.laplacian(f, w), np.trace(h)),
    }
    for name, (expr, expected) in results.items():
        value = ed.evaluate(expr, point | {"v": v})
        assert relative_error(value, expected) < 1e-10, name


def test_jvp_and_vjp_are_adjoint():
    f = ed.sin(A @ x) * y
    point = random_point([f], dict(SIZES)) | {"v": np.arange(4.0), "u": np.arange(3.0)}
    forward, backward = ed.jvp(f, x, "v"), ed.vjp(f, x, "u")
    jacobian = ed.evaluate(ed.jacobian(f, x), point)
    np.testing.assert_allclose(ed.evaluate(forward, point), jacobian @ point["v"])
    np.testing.assert_allclose(ed.evaluate(backward, point), point["u"] @ jacobian)


# Symmetric variables


@pytest.mark.parametrize("mode", MODES)
def test_the_derivative_by_a_symmetric_variable_is_projected(mode):
    B = ed.matrix("B", "n", "n")
    assert ed.derivative(ed.tr(B @ S), S, mode=mode) == (B + B.T) / 2
    for f in (ed.sum(ed.expm(S) * B), x @ ed.inv(S) @ x, ed.logdet(S @ S + ed.eye("n"))):
        point = random_point([f], dict(SIZES), seed=2)
        gradient, hessian = ed.derivative(f, S, mode=mode), ed.derivative(f, S, S, mode=mode)
        assert relative_error(ed.evaluate(gradient, point), finite_difference(f, S, point)) < 1e-7
        assert relative_error(ed.evaluate(hessian, point), finite_difference(gradient, S, point)) < 1e-6


def test_the_derivative_by_free_entries():
    """The Cookbook's convention: ∂ tr(B S)/∂S = B + B' - diag(B)."""
    B = ed.matrix("B", "n", "n")
    assert ed.gradient(ed.tr(B @ S), S, symmetric="free") == B + B.T - ed.diag(ed.diag(B))


def test_terms_merge_by_declared_symmetry():
    assert ed.gradient(x @ S @ x, x) == 2 * S @ x
    assert ed.hessian(x @ S @ x, x) == 2 * S
    B = ed.matrix("B", "n", "n")
    assert ed.gradient(x @ B @ x, x) == B @ x + B.T @ x
    assert ed.hessian(x @ B @ x, x) == B + B.T


# Size and depth


def test_ten_thousand_nested_operations():
    e = x
    for k in range(10_000):
        e = ed.sin(e) if k % 3 else e + x
    f = ed.sum(e)
    point = {"x": np.array([0.1, 0.7])}
    gradient = ed.gradient(f, x)
    assert relative_error(ed.evaluate(gradient, point), finite_difference(f, x, point)) < 1e-6
    assert len(repr(gradient)) < 10_000


def test_deep_matrix_functions():
    M = ed.matrix("M", "n", "n")
    e = M
    for k in range(3_000):
        e = ed.tanh(e.T) if k % 2 else e + M.T
    assert ed.derivative(ed.sum(e), M).shape == ("n", "n")


def test_repeated_squaring_does_not_explode():
    e = ed.matrix("M", "n", "n")
    for _ in range(60):
        e = e @ e
    assert ed.derivative(ed.tr(e), "M").shape == ("n", "n")
    shared = x
    for _ in range(200):
        shared = shared * shared + x
    assert ed.gradient(ed.sum(shared), x).shape == ("n",)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ed.derivative(x @ x, "z"), "no variable 'z'.*the variables are x"),
        (lambda: ed.derivative(x @ x, ed.exp(x)), "derivatives are by variables"),
        (lambda: ed.derivative(x @ x, x, mode="sideways"), "mode 'sideways': choose one of"),
        (lambda: ed.gradient(A @ x, x), "gradient needs a scalar function.*shape m"),
        (lambda: ed.hvp(x @ x, x, y), "the direction y has shape m, it must be n"),
        (lambda: ed.gradient(ed.tr(S), S, symmetric="some"), "choose 'projected' or 'free'"),
        (lambda: ed.check(ed.log(-(x * x)), x), "no point in the domain was found"),
        (lambda: ed.plan(A @ x, {"m": 3}), "plan needs the sizes n"),
        (lambda: bool(x > 0), "has no truth value"),
        (lambda: ed.matrix("B", "m", "n", "symmetric"), "only a square matrix can be symmetric, not m×n"),
        (lambda: ed.vector("B", "n", "purple"), "unknown property 'purple'"),
        (lambda: ed.vector("B", -1), "a size is a name or a positive integer, not -1"),
        (lambda: ed.vector("2x", "n"), "variable name '2x'"),
        (lambda: x + "y", "'y' is text: declare a variable first"),
        (lambda: ed.gradient(ed.tr(Q), Q), "declared orthogonal"),
        (lambda: ed.hessian(x @ x, []), "no variable to differentiate by"),
        (lambda: x / ed.zeros("n"), "is not defined"),
        (lambda: x / 0, "division of x by zero"),
        (lambda: ed.log(-1), r"log\(-1\) is not defined"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ed.EindiffError, match=message):
        call()


def test_check_reports_a_wrong_derivative():
    """A rule that is wrong is found: the check can fail."""
    wrong = Function("wrong", np.sin, (lambda t: 2 * ed.cos(t),))
    f = ed.sum(construct.map_(wrong, (x,)))
    report = ed.check(f, x, order=1)
    assert not report.passed
    assert "FAILED" in str(report)


def test_sizes_of_variables_that_dropped_out():
    """The number of blocks of this Hessian is that of the rows of U, which is not in it; doubt is an error."""
    T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    hessian = ed.hessian(ed.norm2(T - U @ V.T) ** 2, U)
    arrays = {"T": np.ones((3, 4)), "U": np.ones((3, 2)), "V": np.ones((4, 2))}
    assert ed.evaluate(hessian, arrays).shape == (3, 2, 3, 2)
    assert ed.evaluate(hessian, {"V": arrays["V"]}, {"m": 5}).shape == (5, 2, 5, 2)
    with pytest.raises(ed.EindiffError, match="the size m is not known"):
        ed.evaluate(hessian, {"V": arrays["V"]})
