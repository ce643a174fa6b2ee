"""Products in the form in which BLAS computes them faster: the same numbers, and the axes that suit what comes next."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.interpreter import evaluate

x, y, A = ed.vector("x", "m"), ed.vector("y", "n"), ed.matrix("A", "m", "n")


@pytest.mark.parametrize(("m", "n", "is_product"), [(3, 4, True), (300, 200, True), (2, 5000, False)])
def test_outer_products_with_short_rows(m, n, is_product):
    outputs = [ed.outer(x + 1, ed.exp(y) - 2), ed.outer(-x, y), ed.outer(x, x)]
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=m), "y": rng.normal(size=n)}
    compiled = ed.compile(outputs, sizes={"m": m, "n": n})
    into = [np.full(found.shape, np.nan) for found in compiled(**arrays)]
    for given in ({}, {"out": into}):
        for found, expected in zip(compiled(**arrays, **given), evaluate(outputs, arrays), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert (compiled.source.count("[None])") >= 2) == is_product


def test_products_lie_as_what_they_meet_entry_by_entry():
    B, R, S = ed.matrix("B", "k", "n"), ed.matrix("R", "m", "n"), ed.matrix("S", "m", "k")
    back = R @ B.T + S  # a bias: it is added to each row
    H = ed.tanh(back)
    outputs = [ed.sum((H @ B + y - R) ** 2)]
    outputs += ed.gradient(outputs[0], [B, S, y])
    outputs += [ed.sum((1 - H**2).T * (B @ (R - H @ B).T), 1), B @ R.T, ed.einsum("ij,ji->j", H, B @ R.T)]
    rng = np.random.default_rng(5)
    arrays = {v.name: rng.normal(size=[{"m": 7, "n": 5, "k": 3}[axis] for axis in v.shape]) for v in (B, R, S, y)}
    compiled = ed.compile(outputs)
    for found, expected in zip(compiled(**arrays), evaluate(outputs, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    bias, X, C = ed.vector("bias", "k"), ed.matrix("X", "m", "n"), ed.matrix("C", "n", "k")
    loss = ed.sum((ed.tanh(X @ C + bias) @ B + y - X) ** 2)
    source = ed.plan([loss, *ed.gradient(loss, [C, B, bias, y])], {"m": 100, "n": 100, "k": 25}).source
    assert not re.search(r"\* t\d+\.T|ij,ji", source)


def test_products_lie_as_the_inputs_that_they_are_added_to_or_multiplied_with():
    U, V, W = (ed.matrix(name, "n", "k") for name in "UVW")
    T, M = ed.tensor("T", ("n", "n", "n")), ed.matrix("M", "n", "n")
    losses = [ed.sum((ed.einsum("ik,jk,lk->ijl", U, V, W) - T) ** 2), ed.sum(M * (U @ V.T - ed.exp(M)) ** 2)]
    losses += [ed.sum(ed.tanh(V @ U.T + 2 * M.T) ** 2)]
    rng, sizes = np.random.default_rng(4), {"n": 30, "k": 4}
    for loss in losses:
        variables = ed.variables(loss)
        outputs = [loss, *ed.gradient(loss, [v for v in variables if v in (U, V, W)])]
        arrays = {v.name: rng.normal(size=[sizes[size] for size in v.shape]) for v in variables}
        compiled = ed.compile(outputs, sizes=sizes)
        for found, expected in zip(compiled(**arrays), evaluate(outputs, arrays), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert not re.search(r"\b[TM]\.(T\b|transpose)", compiled.source)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(7, 3, 2), (8, 3, 2), (3, 5, 4), (100, 1, 1), (0, 2, 3), (5, 0, 3), (9, 40, 1)])
def test_products_of_some_rows_at_a_time(shape, dtype):
    helpers = {"np": np, "core_count": lambda: 1}
    exec(NUMPY_HELPERS["in_blocks"], helpers)
    rng, (m, k, n) = np.random.default_rng(1), shape
    left, right = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    for second in (right, np.asfortranarray(right)):
        for first in (left, np.asfortranarray(left), np.repeat(left, 2, 1)[:, ::2]):
            for cores in (1, 2):
                out = np.full((2 * m, n), np.nan, dtype)[::2]
                for given in (None, out):
                    found = helpers["in_blocks"](first, second, given, most=24, cores=cores)
                    np.testing.assert_allclose(found, left @ right, rtol=1e-5, atol=1e-5)
                    assert found.dtype == dtype and (given is None or found is out)


def test_programs_with_tall_products():
    B, C, D = ed.matrix("B", "n", "n"), ed.matrix("C", "n", "n"), ed.matrix("D", "n", "m")
    outputs = [ed.tanh(A @ B) @ C.T, A @ B + 1, D.T @ C, ed.exp(A) @ ed.exp(A).T]
    compiled = ed.compile(outputs)
    source = ed.plan(outputs, {"m": 900, "n": 40}).source
    assert source.count("in_blocks(") == 4  # it is defined, the product A B is made once, and BLAS sees squares
    rng = np.random.default_rng(2)
    for m in (900, 901, 3):
        arrays = {"A": rng.normal(size=(m, 40)), "B": rng.normal(size=(40, 40)), "C": rng.normal(size=(40, 40))}
        arrays["D"] = rng.normal(size=(40, m))
        into = [np.empty((m, 40)), np.empty((m, 40)), np.empty((m, 40)), np.empty((m, m))]
        for found in (compiled(**arrays), compiled(**arrays, out=into)):
            for value, right in zip(found, evaluate(outputs, arrays), strict=True):
                np.testing.assert_allclose(value, right, rtol=1e-12, atol=1e-12)


def net(layers: int) -> tuple[ed.Expr, ed.Expr]:
    """The loss of a net by its first layer."""
    X, Y = ed.tensor("X", ("m", "n")), ed.tensor("Y", ("m", "n"))
    weights = [ed.matrix(f"W{k}", "n", "n") for k in range(layers)]
    values = X
    for W in weights[:-1]:
        values = ed.tanh(values @ W)
    scores = values @ weights[-1]
    return ed.sum(ed.logsumexp(scores, 1)) - ed.sum(Y * scores), weights[0]


def test_what_smaller_arrays_are_multiplied_with_has_their_axes_last():
    """Jacobians of all samples are scaled entry by entry in each layer: in one run, not in one for each sample."""
    loss, W = net(6)
    source = ed.plan(ed.hessian(loss, W), {"m": 10, "n": 10}).source
    assert source.count("[:, None, :]") <= 5
    assert not re.search(r"t\d+\.T\b", source.partition("reshape")[0])  # gradients of layers lie as values do
    assert source.count("diagonal_of(") == 2 and "np.einsum" not in source  # all terms of a sample are one matrix


ONE = {  # functions of a matrix with one row
    "net": ed.sum(ed.logsumexp(ed.tanh(A @ A.T @ A) @ ed.sin(A).T, 1)),
    "softmax": ed.sum(ed.softmax(A) ** 2) + ed.sum(ed.logsumexp(A, 0)),
    "norms": ed.sum(ed.sqrt(ed.sum(A**2, 1))) + ed.sqrt(ed.sum(A**2)) + ed.sum(ed.sqrt(ed.sum(A**2, 0))),
    "reductions": ed.sum(ed.max(A, 0)) + ed.sum(ed.prod(A, 1)) + ed.sum(ed.mean(A, 0) ** 3),
    "places": ed.sum(A[0] * y) + ed.sum(ed.concatenate([A, 2 * A]) ** 2) + ed.sum(ed.reshape(A, ("m*n",)) ** 3),
    "solutions": ed.sum(ed.solve(A @ A.T + ed.eye("m"), A) ** 2),
    "broadcast": ed.sum((A + y) ** 2 * ed.exp(x)[:, None]) + ed.sum(x) ** 2,
}


@pytest.mark.parametrize("name", ONE)
def test_axes_of_one_entry(name):
    """They are left out on the way, and are there in results, which share no memory with inputs."""
    function = ONE[name]
    outputs = [function, *(ed.gradient(function, v) for v in ed.variables(function)), ed.hessian(function, A), A, 1 * x]
    rng = np.random.default_rng(3)
    for m, n in ((1, 4), (1, 1), (3, 1)):
        arrays = {"A": rng.uniform(0.5, 1.5, size=(m, n)), "x": rng.normal(size=m), "y": rng.normal(size=n)}
        compiled = ed.compile(outputs)
        into = [np.full(np.shape(value), np.nan) for value in compiled(**arrays)]
        for given in ({}, {"out": into}):
            for found, right in zip(compiled(**arrays, **given), evaluate(outputs, arrays), strict=True):
                assert np.shape(found) == np.shape(right) and not np.shares_memory(found, arrays["A"])
                np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-12)


def test_diagonals_of_one_entry_are_added_to_numbers():
    one = ed.matrix("one", 1, 1)
    found = ed.compile((1.2 + ed.sin(ed.diag(ed.diag(one)).T)) ** 0.5)(one=np.array([[0.3]]))
    np.testing.assert_allclose(found, [[np.sqrt(1.2 + np.sin(0.3))]], rtol=1e-15)


def test_a_sign_is_part_of_a_number():
    """That of `-(2 (U - Y))`, to which others are added in place."""
    u, y = ed.matrix("U", 40, 40), ed.matrix("Y", 40, 40)
    f = ed.sum((u - y) ** 2) + ed.sum(ed.sqrt((u[1:] - u[:-1]) ** 2 + 1))
    source = ed.compile(ed.gradient(f, u)).source
    assert "*= -" not in source and "negative" not in source


def test_a_sum_of_rows_is_part_of_a_product():
    """`X'exp(X w) - X'1` reads X once less."""
    X, w = ed.matrix("X", 400, 300), ed.vector("w", 300)
    gradient = ed.gradient(ed.sum(ed.exp(X @ w) - X @ w), w)
    assert "sum(" not in ed.compile(gradient).source.split("def f")[-1]


def test_norms_of_one_row_are_in_range():
    found = ed.compile(ed.gradient(ed.sum(ed.sqrt(ed.sum(A**2, 1))), A))(A=np.array([[3e200, 4e200]]))
    np.testing.assert_allclose(found, [[0.6, 0.8]], rtol=1e-12)


@pytest.mark.skipif(sys.platform != "linux", reason="page faults are counted as Linux does")
def test_memory_of_a_program_is_not_mapped_anew_for_each_call():
    text = """
import resource, numpy as np, eindiff as ed
A = ed.matrix("A", "n", "n")
run = ed.compile([ed.exp(A) @ ed.sin(A), ed.exp(A), ed.sin(A), ed.cos(A) @ A], sizes={"n": 300})
at = np.ones((300, 300))
run(A=at), run(A=at)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    run(A=at)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 10 * 20  # of 880 pages a call


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_outer_products_are_one_product(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b, c, d = (ed.vector(name, size) for name, size in (("a", 60), ("b", 60), ("c", 70), ("d", 70)))
    A = ed.matrix("A", 60, 70)
    at = {str(v): rng.normal(size=v.shape).astype(dtype) for v in (a, b, c, d, A)}
    x, y, z, w, M = at.values()
    total = ed.outer(a * a, c) - 3 * ed.outer(b, d) + A * A - ed.outer(ed.exp(b), c)
    program = ed.compile(total, dtype=dtype)
    assert program.source.count("@") + program.source.count(".dot(") == 1
    expected = np.outer(x * x, z) - 3 * np.outer(y, w) + M * M - np.outer(np.exp(y), z)
    np.testing.assert_allclose(program(**at), expected, atol=1e-13 if dtype == "float64" else 1e-4)
    symmetric = ed.compile(ed.outer(a, b) + ed.outer(b, a), dtype=dtype)(a=x, b=y)
    np.testing.assert_array_equal(symmetric, symmetric.T)
