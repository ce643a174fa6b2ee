"""Compiled functions as people call them: types, sizes, names, errors, and their source."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextvars import ContextVar
from itertools import permutations
from pathlib import Path
from timeit import repeat
from typing import Any

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
from eindiff.core import construct
from eindiff.core.nodes import Expr
from eindiff.program.interpreter import evaluate
from eindiff.program.write.module import Module
from eindiff.tracing.opaque import opaque_function
from models import MODELS, factorization

# Types


@pytest.mark.parametrize("name", MODELS)
def test_float32_stays_float32(name: str) -> None:
    outputs = derivatives(name)
    point, sizes = point_of(outputs, small(name)), small(name)
    single = {key: array.astype(np.float32) for key, array in point.items()}
    results = ed.compile(outputs)(**single, sizes=sizes)
    assert {str(np.asarray(result).dtype) for result in leaves(results)} == {"float32"}
    assert_close(results, evaluate(outputs, point, sizes), rtol=1e-3)


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
    for make, kind in ((np.array, np.ndarray), (jnp.asarray, jnp.ndarray), (torch.asarray, torch.Tensor)):
        result = function(**{name: make(array) for name, array in point.items()})
        assert isinstance(result, kind)
        assert_close(np.asarray(result), evaluate(output, point), rtol=1e-5)


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
        (np.broadcast_to(0.0, 2), "out must be an array that can be written to"),
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
    with pytest.raises(ed.EindiffError, match="arrays that share no memory"):
        function(**point, out=[two[0], two, three])
    columns = np.empty((2, 2))
    assert ed.compile([x, 2 * x])(x=np.ones(2), out=[*columns.T])[1] is not None
    np.testing.assert_array_equal(columns, [[1, 2], [1, 2]])


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
    assert ed.compile(ed.exp(A) @ x, None, None, {}) is first
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
        helpers = Path(__file__).parent.parent / "helpers"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(helpers)}
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


# How it is called


def test_arrays_of_other_sizes_and_types_in_turn() -> None:
    """What ran for the last arrays runs again for those like them, and for no others."""
    function = fresh(ed.exp(x) * 2)
    given = [np.ones(2), np.ones(3), [1.0, 1.0], np.ones(2, np.float32), np.ones(2)]
    for value in [*given, *given[::-1]]:
        result = function(x=value)
        assert result.shape == np.shape(value) and result.dtype == getattr(value, "dtype", np.float64)
        assert_close(result, 2 * np.exp(np.asarray(value)), rtol=1e-6)


def test_nobody_is_warned_and_the_settings_of_numpy_stay() -> None:
    function = fresh(ed.log(x) / x)
    before = np.geterr()
    with np.errstate(all="raise"):
        assert np.isnan(function(x=np.array([-1.0, 0.0]))[0])
        assert np.isnan(function(x=np.array([-1.0, 0.0]), out=np.empty(2))[0])
        with pytest.raises(FloatingPointError):
            np.log(np.array([0.0]))
    assert np.geterr() == before


def test_functions_of_users_see_what_is_set_around_a_call() -> None:
    """Contexts are those of the call, not of the time when the package was imported."""
    unit = ContextVar("unit", default=1.0)
    function = opaque_function("in_units", lambda value: value * unit.get(), [1], (2,), [None])
    compiled = fresh(construct.apply(function, (ed.exp(ed.vector("x", 2)),)))
    unit.set(3.0)
    assert_close(compiled(x=np.zeros(2)), np.full(2, 3.0))


def test_programs_are_as_short_as_by_hand() -> None:
    """No array is given for the result, no size is needed, and products of matrices are methods, which start sooner."""
    source = fresh(2 * (A @ B) @ x).plan({"n": 3}).source
    assert re.search(r"def f\(A, B, x\):\n    return A.dot\(B.dot\(x\)\) \* _2\n", source)
    stack = ed.tensor("S", ("m", "n", "n"))
    assert " @ " in fresh(stack @ stack).plan({"n": 3, "m": 2}).source
    assert "A @ B" in fresh(A @ B).plan({"n": 200}).source  # methods fill large results with zeros first


# Time


def test_a_call_costs_little() -> None:
    function = ed.compile(ed.gradient(ed.norm2(X @ x - w) ** 2, x))
    point = {"X": np.ones((3, 2)), "x": np.ones(2), "w": np.ones(3)}
    function(**point)
    seconds = np.median(repeat(lambda: function(**point), repeat=500, number=5)) / 5
    assert seconds <= 60e-6


def test_numbers_of_python_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are known again like arrays: by their types."""
    function = fresh(ed.sum(ed.scalar("c") * x))
    bound = []
    bind = type(function)._bind
    monkeypatch.setattr(type(function), "_bind", lambda self, *given: bound.append(given) or bind(self, *given))
    given = [2.0, 3.0, 2, True, np.float32(2), 4]
    assert [float(function(c=c, x=np.array([1.0, 2.0]))) for c in given] == [6.0, 9.0, 6.0, 3.0, 6.0, 12.0]
    assert len(bound) == 4
    with pytest.raises(ed.EindiffError, match="real numbers"):
        function(c=10**30, x=np.ones(2))
    assert float(function(c=[1.0][0], x=[1.0, 2.0])) == 3.0


def test_outputs_without_inputs_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no array is needed for is found again by the arrays that are given."""
    x = ed.vector("x", "n")
    f, arrays = ed.compile(x - x, sizes={"n": 3}), {"x": np.ones(3)}
    f(**arrays)
    monkeypatch.setattr(f, "_bind", None)
    np.testing.assert_array_equal(f(**arrays), np.zeros(3))
