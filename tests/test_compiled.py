"""Compiled functions: they give what the interpreter gives, leave their inputs alone, and say what they lack."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from timeit import repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import assume

import eindiff as ed
from eindiff.check import random_point
from eindiff.compiled import Compiled, _compiled
from eindiff.emit import functions, products, statements
from eindiff.emit.module import Module
from eindiff.evaluate import evaluate, flatten
from eindiff.expr import Constant, Expr
from grammar import OPERATIONS, Example, array_of, examples, names_in, run, variable_of
from models import MODELS, factorization

RTOL = 1e-10
FLOOR = 1e-2  # terms of size 1 may cancel, and leave rounding errors

A, B, X = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.matrix("X", "m", "n")
x, y, w = ed.vector("x", "n"), ed.vector("y", "n"), ed.vector("w", "m")
S = ed.symmetric("S", "n")


def leaves(results: Any) -> list:
    """What nested lists hold."""
    return [leaf for part in results for leaf in leaves(part)] if isinstance(results, list | tuple) else [results]


def assert_close(actual: Any, expected: Any, rtol: float = RTOL, context: str = "") -> None:
    """Equal shapes, and entries equal relative to the largest one."""
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        assert np.shape(one) == np.shape(other), context
        scale = max(FLOOR, np.max(np.abs(other), initial=0))
        assert np.max(np.abs(one - other), initial=0) <= rtol * scale, context


def point_of(outputs: Any, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    return random_point(flatten(outputs), dict(sizes), seed)


def derivatives(name: str) -> list:
    """The value, the gradient and a Hessian of a model."""
    function, wrt, _ = MODELS[name]()
    by = wrt if len(wrt) < 5 else [wrt[0], wrt[-1]]
    return [function, ed.gradient(function, by), ed.hessian(function, wrt[0])]


def fresh(outputs: Any, **more: Any) -> Compiled:
    """A function that was never called."""
    _compiled.cache_clear()
    return ed.compile(outputs, **more)


def small(name: str) -> dict[str, int]:
    return {size: 2 + k for k, size in enumerate(MODELS[name]().sizes)}


@pytest.fixture
def tiny_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is done only with large arrays is done with those of two entries."""
    monkeypatch.setattr(statements, "IN_PLACE", 9)
    monkeypatch.setattr(statements, "FORGET", 9)
    monkeypatch.setattr(products, "GRAM", 2)
    monkeypatch.setattr(functions, "MANY", 2)
    _compiled.cache_clear()
    yield
    _compiled.cache_clear()


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


def outputs_of(example: Example) -> tuple[list[Expr], dict[str, np.ndarray], list[np.ndarray]]:
    """The value of an expression, its derivatives and its first parts; arrays for it, and what is expected."""
    arrays = {name: array_of(name) for name in names_in(example.text)}
    variables = {name: variable_of(name) for name in arrays}
    outputs = [eval(example.text, {"ed": ed, "np": np} | variables)]
    parts = [part for part in outputs[0].children if not isinstance(part, Constant)]
    for name in example.by:
        outputs.append(ed.derivative(outputs[-1], variables[name]))
    try:
        expected = evaluate(outputs := [*outputs, *parts[:2]], arrays)
    except ed.EindiffError:
        assume(False)
    assume(all(np.isfinite(value).all() and np.abs(value).max() < 1e6 for value in expected))
    return outputs, arrays, expected


def check_values(example: Example) -> None:
    outputs, arrays, expected = outputs_of(example)
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
    outputs, arrays, _ = outputs_of(example)
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
    source = ed.compile(ed.exp(ed.exp(ed.sin(A @ B) + A) @ B) @ A, sizes={"n": 400}).source
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


# Types


@pytest.mark.parametrize("name", MODELS)
def test_float32_stays_float32(name: str) -> None:
    outputs = derivatives(name)
    point, sizes = point_of(outputs, small(name)), small(name)
    single = {key: array.astype(np.float32) for key, array in point.items()}
    results = ed.compile(outputs)(**single, sizes=sizes)
    assert {str(np.asarray(result).dtype) for result in leaves(results)} == {"float32"}
    assert_close(results, evaluate(outputs, point, sizes), rtol=1e-3)


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


@pytest.mark.parametrize("dtype", ["float32", "float64", np.float32, np.dtype("float64")])
@pytest.mark.parametrize("given", ["float32", "float64", "int64", "uint8", "bool"])
def test_dtype_converts(dtype: Any, given: str) -> None:
    result = ed.compile(A @ x, dtype=dtype)(A=np.eye(2, dtype=given), x=np.array([0, 1], given))
    assert result.dtype == np.dtype(dtype)
    assert_close(result, np.array([0.0, 1.0]))


def test_other_inputs_are_converted() -> None:
    function, expected = ed.compile(x / 2 + y), np.array([1.5, 3.0])
    numbers, array = [1, 2], np.array([1.0, 2.0])
    for given in (numbers, tuple(numbers), np.array(numbers), np.array(numbers, ">f8"), np.array(numbers, np.float16)):
        result = function(x=given, y=array)
        assert result.dtype == np.float64
        assert_close(result, expected)
    assert function(x=array.astype(np.float32), y=array).dtype == np.float64
    assert function(x=numbers, y=array.astype(np.float32)).dtype == np.float32
    assert_close(ed.compile(ed.scalar("a") ** 2)(a=3), np.array(9.0))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_of_arrays_are_arrays() -> None:
    """`*` is a matrix product for np.matrix, and a masked array hides entries."""
    output = ed.exp(A) + A * B.T
    point = point_of(output, {"n": 3})
    function = ed.compile(output)
    for make in (np.array, np.matrix, np.ma.masked_array):
        result = function(**{name: make(array) for name, array in point.items()})
        assert type(result) is np.ndarray
        assert_close(result, evaluate(output, point))


def test_arrays_of_other_libraries() -> None:
    jnp, torch = pytest.importorskip("jax.numpy"), pytest.importorskip("torch")
    output = ed.exp(A) @ B + A
    point = {name: array.astype(np.float32) for name, array in point_of(output, {"n": 3}).items()}
    function = ed.compile(output)
    for make in (np.array, jnp.asarray, torch.asarray):
        result = function(**{name: make(array) for name, array in point.items()})
        assert type(result) is np.ndarray
        assert_close(result, evaluate(output, point), rtol=1e-5)


@pytest.mark.parametrize("bad", [np.array([1j, 2]), np.array(["a", "b"]), np.array([None, 1]), "ab", None])
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_what_is_no_array_of_real_numbers(bad: Any, dtype: str | None) -> None:
    function = ed.compile(x + y, dtype=dtype)
    function(x=np.ones(2), y=np.ones(2))
    with pytest.raises(ed.EindiffError, match="x"):
        function(x=bad, y=np.ones(2))


# Sizes


@pytest.mark.parametrize("name", MODELS)
def test_one_function_for_all_sizes(name: str) -> None:
    """Up and down, within a class of sizes and beyond it; the size that was there first leaves no trace."""
    outputs, first = derivatives(name), small(name)
    function = ed.compile(outputs)
    for more in (0, 1, 4, 2, 0):
        sizes = {size: n + more for size, n in first.items()}
        point = point_of(outputs, sizes)
        assert_close(function(**point, sizes=sizes), evaluate(outputs, point, sizes))


SLICED: dict[str, tuple[int, Callable[[], Expr]]] = {
    "n - 1": (1, lambda: ed.sum(x[1:] * y[1:])),
    "n - 1, kept": (1, lambda: X[:, 1:] @ A[1:]),
    "n - 2": (2, lambda: x[2:] @ A[2:]),
    "n - 3": (3, lambda: ed.gradient(ed.sum(x[3:] * y[3:] * x[3:]) ** 2, x)),
    "n - 7": (7, lambda: ed.hessian(ed.sum((x[7:] - y[:-7]) ** 4), x)),
    "n*n - 3": (2, lambda: ed.sum(ed.reshape(A, ("n*n",))[3:] ** 3)),
    "m + n - 2": (1, lambda: ed.concatenate([w, x])[2:] @ ed.concatenate([x, w])[2:]),
}


@pytest.mark.parametrize("name", SLICED)
def test_sizes_that_depend_on_others(name: str) -> None:
    """The first call decides about the program, which has to be right for all sizes of its class."""
    least, make = SLICED[name]
    output = make()
    for lengths in permutations(range(least, least + 4), 2):
        function = fresh(output)
        for n in lengths:
            point = point_of(output, {"n": n, "m": 2})
            assert_close(function(**point), evaluate(output, point), context=f"{lengths}\n{function.source}")


@pytest.mark.parametrize(("name", "size"), [(name, size) for name in MODELS for size in MODELS[name]().sizes])
def test_sizes_of_one(name: str, size: str) -> None:
    outputs, sizes = derivatives(name), {**small(name), size: 1}
    point = point_of(outputs, sizes)
    assert_close(ed.compile(outputs)(**point, sizes=sizes), evaluate(outputs, point, sizes))


EMPTY = [
    ("20-layer net", "b"), ("logistic regression", "m"), ("logistic regression", "n"), ("multinomial regression", "m"),
    ("multinomial regression", "n"), ("Poisson regression", "m"), ("Poisson regression", "n"),
    ("matrix factorization", "m"), ("matrix factorization", "n"), ("matrix factorization", "k"),
    ("masked matrix factorization with ridge", "m"), ("masked matrix factorization with ridge", "n"),
    ("Gaussian process", "k"), ("Gaussian mixture", "m"), ("Gaussian mixture", "d"), ("attention", "k"),
    ("Rayleigh quotient", "m"), ("recurrent net", "d"), ("quadratic form", "n"), ("pairwise energy", "n"),
    ("pairwise energy", "d"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "size"), EMPTY)
def test_empty_arrays(name: str, size: str) -> None:
    outputs, sizes = derivatives(name), {**small(name), size: 0}
    point = point_of(outputs, sizes)
    assert_close(ed.compile(outputs)(**point, sizes=sizes), evaluate(outputs, point, sizes))


def test_an_empty_symmetric_product() -> None:
    function = ed.compile(X.T @ ed.diag(w) @ X)
    assert_close(function(X=np.ones((0, 50)), w=np.ones(0)), np.zeros((50, 50)))


def test_one_program_for_a_class_of_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    program = Module.program
    monkeypatch.setattr(Module, "program", lambda self, known, *args, **more: (
        made.append(dict(known)) or program(self, known, *args, **more)))  # fmt: skip
    function = fresh(ed.exp(X) @ x)
    for m in range(4, 8):
        for n in range(8, 16):
            function(X=np.ones((m, n)), x=np.ones(n))
    assert made == [{"m": 4, "n": 8}]
    for m, n in ((8, 8), (4, 16), (1, 8), (0, 8), (4, 8)):
        function(X=np.ones((m, n)), x=np.ones(n))
    assert len(made) == 5
    function(X=np.ones((4, 8), np.float32), x=np.ones(8, np.float32))
    assert len(made) == 6


def test_the_plan_and_the_source_of_the_last_program() -> None:
    function = fresh(X @ A @ B)
    assert "assert" in function.source  # which works for all sizes
    for m, n in ((300, 2), (2, 300)):
        function(X=np.ones((m, n)), A=np.ones((n, n)), B=np.ones((n, n)))
        assert function.plan().flops == function.plan({"m": m, "n": n}).flops
        assert function.plan().source == function.source
    with pytest.raises(ed.EindiffError, match="the plan depends on the sizes m, n"):
        fresh(X @ x).plan()


def unseen() -> tuple[Expr, dict[str, np.ndarray], np.ndarray]:
    """The Hessian of an unmasked factorization by U, in which there is no U, so that no array shows m."""
    function, (U, _), _ = factorization()
    V = np.random.default_rng(0).normal(size=(3, 2))
    return ed.hessian(function, U), {"V": V}, np.einsum("ij,kl->ikjl", np.eye(4), 2 * V.T @ V)


@pytest.mark.parametrize("source", ["an array", "compile", "the call"])
def test_a_size_that_no_array_shows(source: str) -> None:
    hessian, arrays, expected = unseen()
    function = ed.compile(hessian, sizes={"m": 4} if source == "compile" else None)
    more: dict = {"an array": {"U": np.ones((4, 2))}, "the call": {"sizes": {"m": 4}}}.get(source, {})
    for _ in range(2):
        assert_close(function(**arrays, **more), expected)


def test_a_size_that_no_array_shows_is_bound_anew_in_each_call() -> None:
    hessian, arrays, _ = unseen()
    function = ed.compile(hessian)
    for m in (4, 2, 4, 1, 5):
        assert function(**arrays, sizes={"m": m}).shape == (m, 2, m, 2)
        assert function(**arrays, U=np.ones((m + 1, 2))).shape == (m + 1, 2, m + 1, 2)
    with pytest.raises(ed.EindiffError, match=r"no array shows the size m: give it as sizes=\{'m': ...\}"):
        function(**arrays)


def test_given_sizes_hold() -> None:
    function = ed.compile(A @ x, sizes={"n": 3})
    assert_close(function(A=np.eye(3), x=np.ones(3)), np.ones(3))
    with pytest.raises(ed.EindiffError, match="n = 3 in sizes"):
        function(A=np.eye(2), x=np.ones(2))
    with pytest.raises(ed.EindiffError, match="n = 4 in sizes"):
        ed.compile(A @ x)(A=np.eye(3), x=np.ones(3), sizes={"n": 4})


# Errors


def test_missing_arrays_are_named() -> None:
    function = ed.compile(X @ (A @ x))
    problem = r"no array is given for A, x; the inputs are A \(n×n\), X \(m×n\), x \(n\)"
    for arrays in ({"X": np.ones((2, 3))}, {"X": np.ones((2, 3)), "z": 1}):
        with pytest.raises(ed.EindiffError, match=problem):
            function(**arrays)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        (((2, 3), (2, 2), (2,)), "A is declared n×n"),
        (((3, 3), (2, 2), (3,)), "X is declared m×n"),
        (((3, 3), (2, 3), (4,)), "x is declared n,"),
        (((3,), (2, 3), (3,)), "A is declared n×n"),
        (((3, 3), (2, 3), ()), "x is declared n,"),
        (((3, 3), (2, 3), (1,)), "x is declared n,"),
    ],
)
def test_wrong_shapes(shapes: tuple, problem: str, again: bool) -> None:
    function = ed.compile(X @ A + x)
    if again:
        function(A=np.eye(3), X=np.ones((2, 3)), x=np.ones(3))
    with pytest.raises(ed.EindiffError, match=re.escape(problem)):
        function(**{name: np.ones(shape) for name, shape in zip("AXx", shapes, strict=True)})


def test_symmetry_is_checked_in_each_call() -> None:
    function = ed.compile(S @ x)
    for _ in range(2):
        assert_close(function(S=np.eye(2), x=np.ones(2)), np.ones(2))
        with pytest.raises(ed.EindiffError, match="S is declared symmetric"):
            function(S=np.array([[1.0, 2.0], [3.0, 4.0]]), x=np.ones(2))
    with pytest.raises(ed.EindiffError, match="S is declared"):
        function(S=np.ones((2, 3)), x=np.ones(3))


@pytest.mark.parametrize("more", [{"backend": "fortran"}, {"dtype": "int64"}, {"dtype": complex}, {"dtype": "real"}])
def test_wrong_backend_and_dtype(more: dict) -> None:
    with pytest.raises(ed.EindiffError, match=r"(fortran|int64|complex128|real).*: choose one of"):
        ed.compile(x, **more)


@pytest.mark.parametrize("outputs", [3, "x", [x, 3], [], {"value": x}])
def test_what_is_no_expression(outputs: Any) -> None:
    with pytest.raises(ed.EindiffError, match="expression"):
        ed.compile(outputs)


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        (np.empty(3), "shape 2 and type float64, not 3"),
        (np.empty((2, 1)), "shape 2 and type float64, not 2×1"),
        (np.empty(2, np.float32), "not 2 and float32"),
        (np.empty(2, int), "not 2 and int64"),
        ([], "out has 0 arrays for 1 outputs"),
        ([np.empty(2), np.empty(2)], "out has 2 arrays for 1 outputs"),
        ([[0.0, 0.0]], "out is an array or a list of arrays"),
        ("x", "out is an array or a list of arrays"),
    ],
)
def test_wrong_buffers(out: Any, problem: str) -> None:
    with pytest.raises(ed.EindiffError, match=problem):
        ed.compile(2 * x)(x=np.ones(2), out=out)


def test_buffers_of_several_outputs() -> None:
    function, point = ed.compile([x, [A, x @ x]]), {"x": np.ones(2), "A": np.eye(2)}
    one, two, three = np.empty(2), np.empty((2, 2)), np.empty(())
    for out in ([one, two, three], [one, [two, three]], (one, (two, three))):
        results = function(**point, out=out)
        assert results[0] is one and results[1][0] is two and results[1][1] is three
    with pytest.raises(ed.EindiffError, match="out has 1 arrays for 3 outputs"):
        function(**point, out=one)


@pytest.mark.parametrize("name", ["out", "sizes"])
def test_names_of_keywords(name: str) -> None:
    with pytest.raises(ed.EindiffError, match=f"cannot be named {name}"):
        ed.compile(ed.vector(name, "n") @ x)


NAMES = ["self", "f", "np", "n", "result", "result1", "out_result1", "t0", "C0", "zeros", "gram", "lambda", "α"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_inputs(name: str) -> None:
    v, table = ed.vector(name, "n"), np.arange(40.0)
    outputs = [ed.exp(v) * ed.sin(v) + ed.exp(v), ed.hessian(ed.sum(v[1:] * v[:-1]), v), ed.sum(v) * table]
    point = {name: np.array([0.1, 0.2, 0.3])}
    assert_close(ed.compile(outputs)(**point), evaluate(outputs, point))


# Requests


def test_equal_requests_give_one_function() -> None:
    first = ed.compile(ed.exp(A) @ x)
    assert ed.compile(ed.exp(A) @ x) is first
    assert ed.compile(ed.exp(A) @ x, "numpy", None, {}) is first
    assert ed.compile(x, dtype="float32") is ed.compile(x, dtype=np.float32)
    assert ed.compile(A @ x, sizes={"n": 2}) is ed.compile(A @ x, sizes={"n": 2})
    others = [ed.compile(x), ed.compile([x]), ed.compile([[x]])]
    others += [ed.compile(x, dtype="float32"), ed.compile(x, sizes={"n": 2})]
    assert len({id(other) for other in others}) == 5


@pytest.mark.parametrize("outputs", [x, [x], [[x]], [x, [A, [x]], [[A]]], (x, (A,)), [[], x, []]])
def test_results_are_nested_like_the_outputs(outputs: Any) -> None:
    def form(nested: Any, shape_of: Callable) -> Any:
        return [form(part, shape_of) for part in nested] if isinstance(nested, list | tuple) else shape_of(nested)

    results = ed.compile(outputs)(x=np.ones(2), A=np.eye(2))
    assert form(results, np.shape) == form(outputs, lambda output: (2,) * output.ndim)


def test_text() -> None:
    assert repr(ed.compile([X @ x, x])) == "<compiled function of X (m×n), x (n): m, n>"


# Source


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("known", [False, True])
def test_source_runs_by_itself(name: str, known: bool) -> None:
    outputs, sizes = derivatives(name), small(name)
    source = fresh(outputs, sizes=sizes if known else None).source
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert modules <= {"numpy", "scipy"}
    namespace: dict = {}
    exec(source, namespace)
    point = point_of(outputs, sizes)
    function = namespace["f"]
    keywords = function.__code__.co_varnames[function.__code__.co_argcount :][: function.__code__.co_kwonlyargcount]
    results = function(**point, **{size: sizes[size] for size in keywords if size in sizes})
    assert_close(results, evaluate(outputs, point, sizes))


SOURCES = """
import eindiff as ed
from models import MODELS
for name in ("Gaussian mixture", "attention", "masked matrix factorization with ridge", "20-layer net"):
    function, wrt, sizes = MODELS[name]()
    outputs = [function, ed.gradient(function, wrt), ed.hessian(function, wrt[0])]
    print(ed.compile(outputs).source, ed.compile(outputs, sizes=sizes).source, ed.plan(outputs, sizes))
"""


def test_source_is_deterministic() -> None:
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.path.dirname(__file__)}
        command = [sys.executable, "-c", SOURCES]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        found.append(ran.stdout)
    assert found[0] == found[1]
    assert found[0].count("def f(") == 8


def test_equal_sizes_give_equal_source() -> None:
    """However often programs were made before."""
    table = np.arange(40.0)
    function = fresh(ed.sum(x) * table + table)
    function.plan({"n": 100})
    again = fresh(ed.sum(x) * table + table)
    assert function.plan({"n": 3}).source == again.plan({"n": 3}).source


# Time


def test_a_call_costs_little() -> None:
    function = ed.compile(ed.gradient(ed.norm2(X @ x - w) ** 2, x))
    point = {"X": np.ones((3, 2)), "x": np.ones(2), "w": np.ones(3)}
    function(**point)
    seconds = np.median(repeat(lambda: function(**point), repeat=500, number=5)) / 5
    assert seconds <= 60e-6
