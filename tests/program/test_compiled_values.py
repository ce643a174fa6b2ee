"""Compiled functions give what the interpreter gives, in arrays of their own, and leave their inputs alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

import eindiff as ed
from compiling import (
    A,
    B,
    S,
    X,
    assert_close,
    derivatives,
    fresh,
    leaves,
    point_of,
    small,
    w,
    x,
    y,
)
from eindiff.core.nodes import Expr
from eindiff.planning import tuning
from eindiff.program.interpreter import evaluate
from grammar import OPERATIONS, Example, example_outputs, examples, run
from models import MODELS

# Random expressions


def columns_first(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


def every_second(array: np.ndarray) -> np.ndarray:
    """A view of a larger array."""
    larger = np.full([2 * size for size in array.shape], np.nan)
    view = larger[(..., *[slice(None, None, 2)] * array.ndim)]
    view[...] = array
    return view


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS = (np.array, columns_first, every_second, read_only)


def check_values(example: Example) -> None:
    outputs, arrays, expected = example_outputs(example)
    function = ed.compile(outputs)
    for layout in LAYOUTS:
        given = {name: layout(array) for name, array in arrays.items()}
        context = f"{layout.__name__}\n{function.source}"
        assert_close(function(**given), expected, context=context)
        buffers = [np.full(value.shape, np.nan) for value in expected]
        function(**given, out=buffers)
        assert_close(buffers, expected, context=f"out, {context}")
        assert all(np.array_equal(given[name], arrays[name]) for name in arrays), f"inputs changed, {context}"


@pytest.mark.usefixtures("tiny_is_large")
@pytest.mark.parametrize("root", OPERATIONS)
@pytest.mark.parametrize(("order", "count"), [(0, 25), (1, 40), (2, 15)])
def test_random_expressions(root: str, order: int, count: int) -> None:
    run(examples(root, order), count, check_values)


def check_memory(example: Example) -> None:
    outputs, arrays, _ = example_outputs(example)
    results = ed.compile(outputs)(**arrays)
    assert_apart(results, arrays)


@pytest.mark.usefixtures("tiny_is_large")
@pytest.mark.parametrize("root", OPERATIONS)
def test_memory_of_random_expressions(root: str) -> None:
    run(examples(root, 1), 20, check_memory)


# Arrays that are changed in place

IN_PLACE: dict[str, Callable[[], Expr]] = {
    "a sum": lambda: ed.exp(A) + ed.sin(B) - A,
    "a difference from the right": lambda: A - ed.exp(B),
    "a quotient from the right": lambda: A / ed.exp(B),
    "a chain": lambda: ed.tanh(ed.exp(ed.sin(-A)) * 2 - 1),
    "its own transpose": lambda: ed.exp(A) + ed.exp(A).T,
    "a product with a part of it": lambda: ed.exp(A) * ed.exp(A)[0],
    "a view that is needed later": lambda: (lambda u: ed.sin(u) + u[::-1] * u.T)(ed.exp(A @ B)),
    "numbers that choose": lambda: ed.where(A > 0, 1, 0) * B / ed.exp(A),
    "a derivative of a choice": lambda: ed.gradient(ed.sum(ed.where(A > 0, B, A) * ed.exp(A)), B),
    "a derivative of relu": lambda: ed.gradient(ed.sum(ed.relu(A @ B) * ed.exp(A)), A),
    "a step, twice": lambda: (lambda u: u + ed.exp(u))(ed.gradient(ed.sum(ed.relu(A) * B), A)),
    "a derivative of a maximum": lambda: ed.hessian(ed.sum(ed.maximum(x, y) ** 3), x),
    "a diagonal": lambda: ed.diag(A @ ed.exp(B)[::-1]) * x,
    "a diagonal of an inverse": lambda: ed.diag(ed.inv(A)) * x + y,
    "a diagonal of rows": lambda: ed.derivative(ed.diag(ed.square(A)[[1, 0, 1]][:, [0, 1, 1]]), A),
    "eigenvalues": lambda: 2 * ed.eigvals(S) * x + ed.eigvals(S),
    "literals": lambda: (x[:2] + np.array([1.0, 2.0])) * np.array([1.0, 2.0]),
    "a row of a table": lambda: ed.exp(X)[[0, 0, 1]] * ed.exp(X)[[0, 0, 1]],
    "weights without a sign": lambda: X.T @ ed.diag(w) @ X,
    "weights on a diagonal": lambda: ed.einsum("ra,rr,rb->ab", B, A, B),
    "numbers beside an array": lambda: ed.concatenate([X, 2 - A]),
    "numbers beside an array, derived": lambda: ed.gradient(ed.sum(ed.concatenate([x / 4, 2 - y]) ** 3), y),
}


@pytest.mark.usefixtures("tiny_is_large")
@pytest.mark.parametrize("name", IN_PLACE)
def test_changed_in_place(name: str) -> None:
    output = IN_PLACE[name]()
    point = point_of(output, {"m": 2, "n": 3})
    before = {name: array.copy() for name, array in point.items()}
    function = ed.compile(output)
    for _ in range(2):
        assert_close(function(**point), evaluate(output, before), context=function.source)


@pytest.mark.parametrize("name", IN_PLACE)
def test_large_arrays(name: str) -> None:
    output = IN_PLACE[name]()
    point = point_of(output, {"m": 150, "n": 160})
    function = ed.compile(output)
    assert_close(function(**point), evaluate(output, point), context=function.source)


def test_large_arrays_are_changed_in_place_and_forgotten() -> None:
    source = ed.compile(ed.exp(ed.exp(ed.sin(A @ B) + A) @ B) @ A, sizes={"n": 150}).source
    assert "np.sin(t0, out=t0)" in source and "t0 += A" in source and "del t0" in source


# Results are arrays of their own


def assert_apart(results: list, arrays: dict[str, np.ndarray]) -> None:
    for result in results:
        assert not any(np.shares_memory(result, array) for array in arrays.values())
        assert not isinstance(result, np.ndarray) or result.flags.writeable
    assert not any(np.shares_memory(one, other) for one, other in combinations(results, 2))


T = ed.tensor("T", ("n", "n", "n"))
OWN: dict[str, Callable[[], list[Expr]]] = {
    "the input": lambda: [A],
    "the input twice": lambda: [A, A],
    "the input and its transpose": lambda: [x, A, A.T, A],
    "parts of the input": lambda: [A[0], A[:, 1], A[::-1], A[1:, 1:], A[0, 0]],
    "shapes of the input": lambda: [ed.vec(A), ed.reshape(A, ("n*n",)), A[:, None], ed.transpose(T, (2, 0, 1))],
    "diagonals of the input": lambda: [ed.diag(A), ed.einsum("iji->ij", T), ed.einsum("iii->i", T)],
    "one value twice": lambda: [ed.exp(A), ed.exp(A)],
    "parts of a value": lambda: (lambda u: [u, u[0], u[::-1], u.T, ed.reshape(u, ("n*n",))])(ed.exp(A @ A)),
    "parts without the value": lambda: (lambda u: [u[0], u[0], u[:, 0], u.T])(ed.exp(A @ A)),
    "diagonals of a value": lambda: (lambda u: [u, ed.diag(u)])(A @ A @ A),
    "an eigenvalue": lambda: [ed.eigvals(S), ed.eigvecs(S), ed.eigvals(S)[0], ed.eigvecs(S).T],
    "constants": lambda: [np.arange(30.0) * ed.ones(30), np.arange(3.0) * ed.ones(3), ed.eye(3), ed.eye(3)],
}


@pytest.mark.parametrize("name", OWN)
def test_results_share_no_memory(name: str) -> None:
    outputs = OWN[name]()
    point = point_of(outputs, {"n": 3})
    function = ed.compile(outputs)
    first, second = function(**point), function(**point)
    expected = evaluate(outputs, point)
    assert_apart([*first, *second], point)
    for result in first:
        np.asarray(result)[...] = np.nan
    assert_close(second, expected)
    assert_close(function(**point), expected)


@pytest.mark.parametrize("name", OWN)
def test_each_buffer_is_filled(name: str) -> None:
    outputs = OWN[name]()
    point = point_of(outputs, {"n": 3})
    expected = evaluate(outputs, point)
    buffers = [np.full(value.shape, np.nan) for value in expected]
    results = ed.compile(outputs)(**point, out=buffers)
    assert_close(buffers, expected)
    assert all(result is buffer for result, buffer in zip(results, buffers, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_buffers_of_models(name: str) -> None:
    outputs = derivatives(name)
    point, sizes = point_of(outputs, small(name)), small(name)
    function, expected = ed.compile(outputs), evaluate(outputs, point, sizes)
    for make in (np.array, columns_first, every_second):
        buffers = [make(np.full(value.shape, np.nan)) for value in leaves(expected)]
        function(**point, sizes=sizes, out=buffers)
        assert_close(buffers, expected)


COLUMNS: dict[str, Expr] = {
    "negative": -x, "multiple": 2 * x, "difference": x - y, "function": ed.exp(x), "product": A @ x, "row": -A[0],
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_matrices(name: str) -> None:
    """`np.negative` of NumPy 2.4 is wrong from column to column of matrices with 8 of them."""
    output = COLUMNS[name]
    arrays = point_of(output, {"n": 9})
    for width in range(1, 18):
        point = {key: np.repeat(array[..., None], width, -1)[..., 0] for key, array in arrays.items()}
        out = np.full((9, width), np.nan)[:, 0]
        ed.compile(output)(**point, out=out)
        assert_close(out, evaluate(output, point), context=f"{width} columns")


@pytest.mark.usefixtures("tiny_is_large")
@pytest.mark.parametrize("name", [*IN_PLACE, *OWN])
def test_float32_of_all_kinds_of_expressions(name: str) -> None:
    outputs = {**IN_PLACE, **OWN}[name]()
    point = point_of(outputs, {"m": 2, "n": 3})
    function = ed.compile(outputs, dtype="float32")
    results = leaves(function(**point))
    assert {str(np.asarray(result).dtype) for result in results} == {"float32"}
    assert_close(results, evaluate(outputs, point), rtol=1e-3)
    buffers = [np.full(np.shape(result), np.nan, np.float32) for result in results]
    function(**point, out=buffers)
    assert_close(buffers, results, rtol=1e-6)


def test_slices_of_one_start_and_different_lengths() -> None:
    v = ed.vector("v", 4)
    hessian = ed.hessian(ed.square(ed.sum(ed.exp(v[0:2]))) + ed.square(ed.sum(ed.exp(v[0:3]))), v)
    point = {"v": np.arange(4.0)}
    assert_close(ed.compile(hessian)(**point), ed.evaluate(hessian, point))


# Functions by quicker ones


@pytest.mark.parametrize("entries", [3, 4096])
@pytest.mark.parametrize("exponent", [3, 4, 7, 12, 16, 17, -3])
def test_whole_powers_of_numbers_of_any_sign(exponent: int, entries: int) -> None:
    """They are products, which NumPy's powers of negative numbers take many times as long as."""
    function = ed.compile(x**exponent)
    point = np.random.default_rng(abs(exponent)).normal(size=entries)
    np.testing.assert_allclose(function(x=point), np.power(point, float(exponent)), rtol=4e-15)
    assert (f"**{abs(exponent)}" in function.source) == (exponent == 17)


def test_softplus_of_many_numbers() -> None:
    function = ed.compile(ed.softplus(x))
    point = np.concatenate([[-1e4, -745, -40, -0.0, 0.0, 40, 1e4, np.inf, -np.inf], np.linspace(-9, 9, 4096)])
    np.testing.assert_allclose(function(x=point), np.logaddexp(0, point), rtol=4e-15)
    assert "logaddexp" not in function.source


def softmaxes(X: ed.Expr, W: ed.Expr) -> list[ed.Expr]:
    """Weights along each axis, scaled, of a stack and in derivatives; and one whose logarithm is needed too."""
    scores = X @ W
    loss = ed.sum(ed.logsumexp(scores, 1))
    along = ed.exp(scores - ed.logsumexp(scores, 0))
    stack = ed.softmax(ed.tanh(ed.einsum("ik,jk->ijk", scores, scores)))
    return [along, ed.softmax(scores / 4) @ W.T, stack, ed.hessian(loss, W), loss + ed.sum(ed.softmax(scores) ** 2)]


def test_a_softmax_takes_one_exponential_of_each_entry():
    X, W = ed.matrix("X", "m", "n"), ed.matrix("W", "n", "k")
    rng = np.random.default_rng(6)
    given = {"X": rng.normal(size=(7, 3)), "W": 300 * rng.normal(size=(3, 4))}
    for k, output in enumerate(softmaxes(X, W)):
        compiled, right = ed.compile(output), evaluate(output, given)
        assert_close(compiled(**given), right, context=compiled.source)
        assert ("softmax(" in compiled.source) == (k < 4), compiled.source


TRIANGLE, MANY = ed.matrix("T", "n", "n", "lower"), ed.vector("z", "m")


@pytest.mark.parametrize(
    "expr",
    [-ed.softplus(MANY), MANY - ed.softplus(MANY), ed.minimum(ed.softplus(MANY), 0.3), -ed.logdet(TRIANGLE)],
)
def test_sums_that_stand_for_functions_of_many_entries_have_signs(expr: ed.Expr) -> None:
    arrays = {"T": np.tril(np.ones((70, 70))), "z": np.linspace(-800, 800, 2001)}
    given = {v.name: arrays[v.name] for v in ed.variables(expr)}
    np.testing.assert_allclose(ed.compile(expr)(**given), ed.evaluate(expr, given), rtol=1e-12, atol=1e-300)


def thin_products() -> list[Expr]:
    """Products with few columns."""
    A, B, Y = (ed.tensor(name, tuple(shape)) for name, shape in {"A": "mn", "B": "nk", "Y": "mk"}.items())
    return [A @ B, A.T @ (Y * ed.exp(A @ B)), ed.sum(ed.tanh(A @ B) * Y)]


def test_few_columns_of_large_products_are_computed_as_rows():
    turned = re.compile(r"\(B\.T @ A\.T\)\.T|B\.T\.dot\(A\.T\)\.T")
    assert turned.search(ed.plan(thin_products(), {"m": 2000, "n": 500, "k": 9}).source)
    for sizes in ({"m": 200, "n": 500, "k": 9}, {"m": 2000, "n": 500, "k": 90}, {"m": 50000, "n": 20, "k": 9}):
        assert not turned.search(ed.plan(thin_products(), sizes).source)
    source = ed.plan(thin_products()[1], {"m": 1000, "n": 200, "k": 9}).source  # with a transposed one sooner
    assert not turned.search(source) and re.search(r"t\d\.T\.dot\(A\)\.T|\(t\d\.T @ A\)\.T", source)


def test_products_lie_as_what_they_are_added_to():
    A, S, H = ed.matrix("A", "n", "n"), ed.matrix("S", "n", "m"), ed.matrix("H", "m", "n")
    source = ed.plan(A + 2 * H.T @ S.T, {"n": 300, "m": 25}).source
    assert "in_blocks(H.T, (2 * S).T)" in source and "(S @ H).T" not in source


def test_small_products_read_along_rows():
    """A transposed second matrix is copied where that takes less time than reading along its columns; not in A A'."""
    A, B = ed.matrix("A", "m", "n"), ed.matrix("B", "k", "n")
    products = [A @ B.T, A @ A.T]
    assert ed.plan(products, {"m": 90, "n": 90, "k": 90}).source.count(".T.copy()") == 1
    for sizes in ({"m": 9, "n": 90, "k": 90}, {"m": 50, "n": 9, "k": 9}, {"m": 200, "n": 200, "k": 200}):
        assert ".copy()" not in ed.plan(products, sizes).source
    rng = np.random.default_rng(4)
    for order in "CF":
        a, b = (np.asarray(rng.normal(size=(90, 90)), order=order) for _ in range(2))
        for value, wanted in zip(ed.compile(products)(A=a, B=b), (a @ b.T, a @ a.T), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_few_columns_computed_as_rows(tiny_is_large, monkeypatch, order, dtype):
    """They have the same values, and lie in memory as others do."""
    monkeypatch.setattr(tuning, "TILED_BYTES", 2**60)
    monkeypatch.setattr(tuning, "THREADED_BYTES", 2**60)
    rng = np.random.default_rng(3)
    shapes = {"A": (7, 5), "B": (5, 3), "Y": (7, 3)}
    given = {name: np.asarray(rng.normal(size=shape), dtype, order=order) for name, shape in shapes.items()}
    compiled = ed.compile(thin_products())
    right = evaluate(thin_products(), {name: array.astype(float) for name, array in given.items()})
    for value, wanted in zip(compiled(**given), right, strict=True):
        assert value.dtype == dtype and value.flags.c_contiguous
        np.testing.assert_allclose(value, wanted, rtol=1e-12 if dtype == "float64" else 1e-4)
    assert "B.T.dot(A.T).T" in compiled.source


def test_a_sigmoid_and_its_mirror_image_share_the_exponential() -> None:
    """Both are right to the last digits where they are small, which 1 less the other is not."""
    compiled = ed.compile([ed.sigmoid(x), ed.gradient(ed.sum(ed.sigmoid(x)), x)])
    point = np.concatenate([[-1e4, -800, -700, -40, -0.0, 40, 700, 800, 1e4, np.inf, -np.inf], np.linspace(-9, 9, 999)])
    value, slope = compiled(x=point)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(value, 1 / (1 + np.exp(-point)), rtol=1e-15)
        np.testing.assert_allclose(slope, value / (1 + np.exp(point)), rtol=1e-14)
    assert compiled.source.count("exp(") == 1


@pytest.mark.parametrize("shape", [(3, 4), (200, 4), (200, 50)])
def test_infinite_entries_along_rows_of_any_length(shape: tuple[int, int]) -> None:
    """Short rows take another way to their largest entries."""
    scores = np.random.default_rng(0).normal(size=shape)
    scores[0] = np.inf
    scores[1, 1:], scores[2] = np.inf, -np.inf
    scores[2, 1] = 0
    compiled = ed.compile([ed.logsumexp(X, 1), ed.softmax(X)], sizes={"n": shape[1]})
    value, weights = compiled(X=scores)
    np.testing.assert_array_equal(value[:3], [np.inf, np.inf, 0])
    np.testing.assert_allclose(value[3:], np.log(np.exp(scores[3:]).sum(1)), rtol=1e-13)
    np.testing.assert_allclose(weights[2:].sum(1), 1, rtol=1e-13)


def test_a_sign_before_a_product_goes_into_a_difference() -> None:
    for sign in (1, -1):
        loss = sign * (ed.sum(ed.exp(X @ x)) - w @ X @ x)
        source = ed.compile(ed.gradient(loss, x), sizes={"m": 8, "n": 3}).source
        assert ").dot(X)" in source and " - " in source and "-X" not in source and "= -" not in source


def test_products_that_are_there_are_parts_of_others() -> None:
    """Also where a product is used before it is an output; large ones are made in the memory of factors."""
    a, b, c = ed.exp(x), ed.sin(x), ed.cos(x)
    outputs = [a * b * c * x, a * b, b * c * a - x]
    for n, count in ((5, 3), (5000, 5)):
        compiled, given = fresh(outputs), point_of(outputs, {"n": n})
        for value, right in zip(compiled(**given), evaluate(outputs, given), strict=True):
            assert_close(value, right, context=compiled.source)
        assert len(re.findall(r" \*=? |multiply", compiled.source)) == count, compiled.source


def test_what_differs_in_its_sign_is_computed_once() -> None:
    scaled = X * ed.exp(x)
    apart = scaled[:, None, :] - scaled[None, :, :]
    source = fresh(ed.sum(ed.exp(apart), 2)).plan({"m": 6, "n": 3}).source
    assert source.count(" * ") == 1, source


@pytest.mark.parametrize("n, first", [(4, False), (16, True)])
def test_arrays_of_all_pairs_have_short_axes_first(n: int, first: bool) -> None:
    """From some entries on, since NumPy's loops run along the last axis."""
    apart = X[:, None, :] - X[None, :, :]
    compiled = fresh(ed.sum(ed.exp(apart), 2))
    given = {"X": np.random.default_rng(0).normal(size=(n, 3))}
    assert_close(compiled(**given), np.exp(given["X"][:, None] - given["X"]).sum(2))
    assert ("X.T.copy()" in compiled.source) == first, compiled.source
