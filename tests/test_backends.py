"""Programs for every array library give what the NumPy interpreter gives, in the type, on the device, and inside the
transformations of that library.

CuPy runs where there is a GPU for it; elsewhere its programs run with NumPy in its place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.special
import torch
from hypothesis import assume

import eindiff as ed
from compiling import assert_close, fresh, leaves, point_of
from eindiff.emit import products
from eindiff.evaluate import evaluate
from eindiff.expr import Constant, Expr
from function_cases import CASES, LIBRARY, WHOLE, Case
from grammar import OPERATIONS, Example, array_of, examples, names_in, run, variable_of
from models import MODELS
from objectives import OBJECTIVES
from oracles import declare, jit

RTOL = 1e-9

# Functions of the table that a library has no form of
REFUSED: dict[str, set[str]] = {
    "numpy": set(),
    "jax": {"logm", "sqrtm"},
    "torch": {"logm", "sqrtm"},
    "tensorflow": {"logm"},
    "cupy": {"logm", "sqrtm"},
}
IMPORTS = {"numpy": "numpy|scipy", "jax": "jax", "torch": "torch", "tensorflow": "tensorflow", "cupy": "cupyx?"}
BY_NAME = {case.id: case for case in CASES}
FOREIGN = [name for name in REFUSED if name != "numpy"]


# Libraries


@dataclass(frozen=True)
class Library:
    """How arrays come from NumPy and go back, and how a compiled function is called."""

    name: str
    array: Callable[[Any], Any]
    kind: type
    to_numpy: Callable[[Any], np.ndarray] = np.asarray
    call: Callable[[Callable, Mapping[str, Any]], Any] = lambda function, arrays: function(**arrays)

    def arrays(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.array(array) for name, array in arrays.items()}

    def values(self, outputs: Any, arrays: Mapping[str, Any]) -> list[np.ndarray]:
        """The outputs as NumPy's arrays, after a look at what they are."""
        results = leaves(self.call(ed.compile(outputs, backend=self.name), self.arrays(arrays)))
        assert self.name == "numpy" or all(isinstance(x, self.kind) for x in results), [type(x) for x in results]
        return [self.to_numpy(x) for x in results]


def _stand_in_for_cupy() -> dict[str, ModuleType]:
    """Modules made of NumPy and SciPy."""
    names = ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.linalg", "cupyx.scipy.special")
    modules = {name: ModuleType(name) for name in names}
    modules["cupyx"].scipy = modules["cupyx.scipy"]  # type: ignore[attr-defined]
    modules["cupyx.scipy"].linalg = modules["cupyx.scipy.linalg"]  # type: ignore[attr-defined]
    modules["cupyx.scipy"].special = modules["cupyx.scipy.special"]  # type: ignore[attr-defined]
    vars(modules["cupy"]).update({name: value for name, value in vars(np).items() if not name.startswith("__")})
    vars(modules["cupyx.scipy.special"]).update(
        erf=scipy.special.erf, expit=scipy.special.expit, logsumexp=scipy.special.logsumexp
    )

    def scatter_add(array: np.ndarray, index: Any, value: Any) -> None:
        np.add.at(array, index, np.broadcast_to(value, array[index].shape))

    def expm(matrix: np.ndarray) -> np.ndarray:
        assert matrix.ndim == 2  # as there
        return scipy.linalg.expm(matrix)

    vars(modules["cupyx"]).update(scatter_add=scatter_add)
    vars(modules["cupyx.scipy.linalg"]).update(expm=expm)
    return modules


@lru_cache(maxsize=1)
def _cupy() -> ModuleType | None:
    """CuPy, if it can be used."""
    try:
        import cupy

        cupy.zeros(1)
    except Exception:
        return None
    return cupy


def _library(name: str) -> Library:
    if name == "numpy":
        return Library(name, np.asarray, np.ndarray | np.generic)  # type: ignore[arg-type]
    if name == "jax":  # compiled as a whole, and quickly
        return Library(name, jnp.asarray, jax.Array, call=lambda f, arrays: jit(lambda given: f(**given))(arrays))
    if name == "torch":
        return Library(name, torch.asarray, torch.Tensor)
    if name == "tensorflow":
        tf = pytest.importorskip("tensorflow")
        return Library(name, tf.constant, tf.Tensor)
    if cupy := _cupy():
        return Library(name, cupy.asarray, cupy.ndarray, cupy.asnumpy)
    return Library(name, np.asarray, np.ndarray | np.generic)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def cupy_or_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs for CuPy can be run."""
    if _cupy() is None:
        for name, module in _stand_in_for_cupy().items():
            monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(params=REFUSED)
def library(request: pytest.FixtureRequest) -> Library:
    return _library(request.param)


@pytest.fixture(params=FOREIGN)
def foreign(request: pytest.FixtureRequest) -> Library:
    return _library(request.param)


def check(library: Library, outputs: list[Expr], arrays: Mapping[str, Any], expected: Any = None) -> None:
    """The outputs are those of the interpreter, in its type."""
    expected = leaves(evaluate(outputs, arrays)) if expected is None else expected
    results = library.values(outputs, arrays)
    assert_close(results, expected, RTOL, context=ed.compile(outputs, backend=library.name).source)
    if library.name != "numpy":  # which gives integers as such
        assert {x.dtype for x in results} == {np.dtype(np.float64)}, ed.compile(outputs, backend=library.name).source


# The table of functions


@lru_cache(maxsize=4 * len(CASES))
def _outputs_of(name: str, batch: tuple[int, ...], order: int) -> tuple[list[Expr], dict, list]:
    """The value of a case and the derivatives by all arguments."""
    case = BY_NAME[name]
    arrays = case.arrays(*batch)
    variables = declare(arrays)
    level = [case.function(LIBRARY, **variables)]
    outputs = list(level)
    for _ in range(order):
        level = [ed.derivative(y, x) for y in level for x in variables.values()]
        outputs += level
    return outputs, arrays, evaluate(outputs, arrays)


def _check_case(library: Library, case: Case, batch: tuple[int, ...], order: int) -> None:
    outputs, arrays, expected = _outputs_of(case.id, batch, order)
    if case.covers not in REFUSED[library.name]:
        check(library, outputs, arrays, expected)
        return
    with pytest.raises(ed.EindiffError, match=rf"{case.covers} has no form in {library.name}"):
        ed.compile(outputs, backend=library.name)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_functions_and_their_derivatives(library: Library, case: Case) -> None:
    _check_case(library, case, (), 2)


@pytest.mark.parametrize("case", [c for c in WHOLE if c.stack], ids=lambda c: c.id)
def test_functions_on_stacks(library: Library, case: Case) -> None:
    _check_case(library, case, (2,), 1 if library.name == "jax" else 2)


# Expressions


def _check_example(library: Library) -> Callable[[Example], None]:
    def checked(example: Example) -> None:
        arrays = {name: array_of(name) for name in names_in(example.text)}
        variables = {name: variable_of(name) for name in arrays}
        outputs = [eval(example.text, {"ed": ed, "np": np} | variables)]
        parts = [part for part in outputs[0].children if not isinstance(part, Constant)]
        for name in example.by:
            outputs.append(ed.derivative(outputs[-1], variables[name]))
        outputs += parts[:2]
        try:
            expected = evaluate(outputs, arrays)
        except ed.EindiffError:
            assume(False)
        assume(all(np.isfinite(value).all() and np.abs(value).max() < 1e6 for value in expected))
        check(library, outputs, arrays, expected)

    return checked


@pytest.mark.parametrize("root", OPERATIONS)
@pytest.mark.parametrize("order", [1, 2])
def test_random_expressions(foreign: Library, root: str, order: int) -> None:
    run(examples(root, order), 2 if foreign.name == "jax" else 8, _check_example(foreign))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives(library: Library, name: str) -> None:
    objective = OBJECTIVES[name]()
    f, wrt = objective.function, list(objective.wrt)
    outputs = [f, *(ed.gradient(f, x) for x in wrt), *(ed.derivative(f, x, y) for x in wrt for y in wrt)]
    check(library, outputs, objective.point(np.random.default_rng(0)))


A, B, x, y, s = ed.matrix("A", 4, 3), ed.matrix("B", 4, 3), ed.vector("x", 6), ed.vector("y", 3), ed.scalar("s")
M, T, n = ed.matrix("M", 3, 3), ed.tensor("T", (2, 3, 4)), ed.vector("n", "n")

INDEXED: dict[str, Expr] = {
    "a slice": x[1:4],
    "a slice with steps": x[1::2],
    "a slice with steps to the end": x[::3],
    "backwards": x[::-1],
    "backwards with steps": x[4:0:-2],
    "an entry": x[2],
    "a column": A[:, 1],
    "a row": A[-1],
    "an entry of a matrix": A[2, 1],
    "slices of both axes": A[1:3, ::2],
    "backwards along both axes": A[::-1, ::-1],
    "backwards along one axis": A[:, ::-1],
    "an entry of one axis and slices of others": T[1, ::2, 1:],
    "the middle axis": T[:, 1, :],
    "taken": ed.take(x, [5, 0, 0, 3]),
    "taken rows": ed.take(A, [3, 1, 1], axis=0),
    "taken columns": ed.take(A, [2, 0], axis=1),
    "taken in the middle": ed.take(T, [2, 0, 2], axis=1),
    "taken by a table": x[np.array([[0, 2], [5, 2]])],
    "taken from what is taken": ed.take(ed.take(x, [4, 1, 1, 3]), [3, 0, 0]),
    "taken from a slice": ed.take(x[::-1], [1, 1, 4]),
    "a large table": ed.take(x, list(np.arange(60) % 6)),
    "concatenated": ed.concatenate([x, y, x[:2]]),
    "concatenated columns": ed.concatenate([A, B, A[:, :1]], axis=1),
    "stacked": ed.stack([y, y * y, A[0]]),
    "stacked behind": ed.stack([A, B], axis=2),
    "padded": ed.concatenate([ed.zeros(2), x, ed.zeros(1)]),
    "padded rows": ed.concatenate([ed.zeros(1, 3), A, ed.zeros(2, 3)]),
    "reshaped": ed.reshape(A, (2, 6)),
    "reshaped and turned": ed.reshape(ed.reshape(A, (3, 4)).T, (6, 2)),
    "flattened": ed.reshape(T, (24,)),
    "columns one after the other": ed.vec(A),
    "a Kronecker product": ed.kron(A, M),
    "a Kronecker product of vectors": ed.kron(x, y),
    "a Kronecker sum": ed.kron(M, ed.eye(2)) + ed.kron(ed.eye(3), A[:2, :2]),
    "differences": x[1:] - x[:-1],
    "a convolution": ed.stack([x[k : k + 4] for k in range(3)]) @ A,
    "two maps that meet": ed.take(x, [1, 2, 2]) @ ed.take(x, [2, 1, 0]),
    "a named size": n[1:] * n[:-1] + n[::-1][1:],
    "a part of a matrix of a named size": ed.outer(n, n)[::-1, 1:],
}

DELTAS: dict[str, Expr] = {
    "a diagonal": ed.diag(y * y),
    "a diagonal plus a matrix": ed.diag(y) + M * M,
    "a multiple of the identity": s * ed.eye(3) - 2 * ed.eye(3),
    "the identity": ed.eye(3),
    "a diagonal taken": ed.diag(M @ M),
    "a trace": ed.tr(M @ M @ M),
    "blocks on the diagonal": ed.einsum("ab,ij->aibj", ed.eye(2), M * M),
    "other blocks on the diagonal": ed.einsum("aij,ab->aibj", ed.einsum("a,ij->aij", y, M), ed.eye(3)),
    "a matrix along a diagonal": ed.einsum("ij->iji", M * M),
    "crossed": ed.einsum("ij,kl->ikjl", ed.eye(3), ed.eye(2)) * s,
    "crossed the other way": ed.einsum("il,kj->ijkl", ed.eye(3), ed.eye(3)) * M,
    "three times the same": ed.einsum("i->iii", y),
    "twice two": ed.einsum("ij->ijij", A),
    "ones": ed.einsum("i->ij", y, sizes={"j": 2}),
    "ones everywhere": ed.ones(2, 3) * s,
    "numbers everywhere": ed.ones(2, 3) * 2.5,
    "zeros": ed.zeros(2, 3) * s,
    "a triangle": ed.cumsum(y * y),
    "a sum of all kinds": ed.diag(y) + ed.eye(3) + M + ed.outer(y, y) + ed.ones(3, 3),
    "a named size": ed.diag(n) + ed.eye("n") * s,
}

NUMBERS: dict[str, Expr] = {
    "a size": ed.tr(ed.eye("n")) * ed.sum(n),
    "a mean": ed.mean(n) ** 2,
    "a function of a size": ed.sqrt(ed.tr(ed.eye("n"))) * ed.sum(n) + ed.exp(1 / ed.tr(ed.eye("n"))),
    "one of two numbers": ed.where(x > 0, 0.1, 0.2),
    "a number or an entry": ed.where(x > 0.3, x, 0.1) + ed.where(x > 0.2, 0.7, x),
    "the larger of a number and an entry": ed.maximum(0.1, x) + ed.minimum(x, 0.3),
    "comparisons": ed.greater(x, 0.1) + ed.greater(0.3, x),
    "a comparison": ed.greater(x, 0.1),
    "a power of a number": 0.1**x,
    "thirds": x / 3 + s**2 / 7,
    "an array": np.linspace(0, 1, 6) * x,
    "a long array": np.linspace(0, 1, 600).reshape(100, 6) @ x,
}


@pytest.mark.parametrize("name", INDEXED)
def test_index_maps(library: Library, name: str) -> None:
    _check_derivatives(library, INDEXED[name])


@pytest.mark.parametrize("name", DELTAS)
def test_deltas(library: Library, name: str) -> None:
    _check_derivatives(library, DELTAS[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(library: Library, name: str) -> None:
    _check_derivatives(library, NUMBERS[name])


def _check_derivatives(library: Library, output: Expr) -> None:
    """The value, the derivative of it, and that of the squares of its entries, where places are added to."""
    squares = ed.sum(output * output)
    outputs = [output]
    for variable in ed.variables(output):
        outputs += [ed.derivative(output, variable), ed.gradient(squares, variable), ed.hessian(squares, variable)]
    check(library, outputs, point_of(outputs, {"n": 5}))


@pytest.mark.parametrize("name", MODELS)
def test_sizes_of_one_and_large_ones(library: Library, name: str) -> None:
    """Where sizes are 1 axes are left out; where they are large other programs are written."""
    function, wrt, sizes = MODELS[name]()
    outputs = [function, ed.gradient(function, wrt[0])]
    for size in (1,) if library.name == "jax" else (1, 24):
        check(library, outputs, point_of(outputs, dict.fromkeys(sizes, size)))


# Types and devices


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_float32_stays_float32(foreign: Library, case: Case) -> None:
    outputs, arrays, _ = _outputs_of(case.id, (), 1)
    if case.covers in REFUSED[foreign.name] or not ed.variables(*outputs):
        return
    given = {name: array.astype(np.float32) for name, array in arrays.items()}
    function = ed.compile(outputs, backend=foreign.name)
    if foreign.name == "jax":
        results = jax.eval_shape(lambda arrays: function(**arrays), given)
    elif foreign.name == "torch":  # arrays without entries: none is looked at, and all follow the device
        results = function(**{name: torch.asarray(array, device="meta") for name, array in given.items()})
        assert {result.device.type for result in results} == {"meta"}
    else:
        results = function(**foreign.arrays(given))
    kinds = {getattr(x.dtype, "name", str(x.dtype)).rpartition(".")[2] for x in results}
    assert kinds == {"float32"}, function.source


def test_float32_is_precise(foreign: Library) -> None:
    f = ed.logsumexp(A @ y) + ed.norm2(M) ** 2
    outputs = [f, ed.gradient(f, y), ed.hessian(f, y), ed.hessian(f, M)]
    arrays = point_of(outputs, {})
    results = foreign.values(outputs, {name: np.float32(array) for name, array in arrays.items()})
    assert {x.dtype for x in results} == {np.dtype(np.float32)}
    assert_close(results, evaluate(outputs, arrays), 1e-5)


def test_a_type_can_be_asked_for(foreign: Library) -> None:
    arrays = point_of(A @ y, {})
    for dtype in ("float32", "float64"):
        result = ed.compile(A @ y, backend=foreign.name, dtype=dtype)(**foreign.arrays(arrays))
        assert foreign.to_numpy(result).dtype == dtype


def test_mixed_inputs(foreign: Library) -> None:
    """NumPy's arrays, lists and numbers beside arrays of a library, which says what comes out."""
    outputs = [s * A @ y + M[0, 0], ed.hessian(ed.sum(ed.exp(s * A @ y)), y)]
    arrays = {**point_of(outputs, {}), "s": 0.1}
    given: dict[str, Any] = {**arrays, "A": foreign.array(arrays["A"]), "M": arrays["M"].tolist()}
    for function in (ed.compile(outputs), ed.compile(outputs, backend=foreign.name)):
        results = function(**given)
        if foreign.kind is not _library("numpy").kind or function.backend:
            assert all(isinstance(x, foreign.kind) for x in results)
        assert_close([foreign.to_numpy(x) for x in results], evaluate(outputs, arrays), 1e-14)


def test_integers_and_conditions(foreign: Library) -> None:
    outputs = [A @ y / 2, ed.sum(A)]
    arrays = {"A": np.arange(12).reshape(4, 3), "y": np.array([True, False, True])}
    results = foreign.values(outputs, arrays)
    assert_close(results, evaluate(outputs, arrays))
    assert {x.dtype for x in results} == {np.dtype(np.float64)}


def test_results_are_apart_from_inputs() -> None:
    """What PyTorch gives can be changed, and nothing else changes."""
    arrays = {"A": torch.ones(4, 3), "y": torch.ones(3)}
    outputs = [A.T, y, y, A[0], A[1:], ed.reshape(A, (12,)), A @ y, ed.transpose(ed.outer(A, y), (2, 0, 1))]
    results = ed.compile(outputs)(**arrays)
    for result in results:
        result += 1
    assert all((array == 1).all() for array in arrays.values())
    assert {len(x.unique()) for x in results} == {1}


def test_the_device_follows() -> None:
    f = ed.sum(ed.softplus(ed.take(A, [0, 2], axis=0) @ y + s) ** 2) + ed.sum(x[::-1][1:] * ed.take(x, [0, 0, 3, 1, 2]))
    outputs = [f, ed.gradient(f, y), ed.hessian(f, A), ed.hessian(f, x), ed.eye(3) + 0 * s]
    arrays = {**point_of(outputs, {}), "x": torch.zeros(6, dtype=torch.float64, device="meta")}
    assert all(result.device.type == "meta" for result in ed.compile(outputs)(**arrays))


# JAX


def _logistic() -> tuple[Expr, Expr, dict[str, np.ndarray]]:
    X, w, labels = ed.matrix("X", "m", "n"), ed.vector("w", "n"), ed.vector("labels", "m")
    f = ed.sum(ed.softplus(-labels * (X @ w))) + ed.sum(w**4)
    return f, w, point_of(f, {"m": 5, "n": 3})


def test_jax_transforms_compiled_functions() -> None:
    f, w, arrays = _logistic()
    value, hessian = ed.compile(f), ed.compile(ed.hessian(f, w))
    expected = evaluate([ed.gradient(f, w), ed.hessian(f, w), ed.derivative(f, w, w, w)], arrays)
    given = {name: jnp.asarray(array) for name, array in arrays.items()}
    at = given.pop("w")
    found = [
        jit(jax.grad(lambda w: value(w=w, **given)))(at),
        jit(lambda w: hessian(w=w, **given))(at),
        jit(jax.jacfwd(lambda w: hessian(w=w, **given)))(at),
    ]
    assert_close([np.asarray(x) for x in found], expected)
    reverse = jit(jax.jacrev(lambda w: hessian(w=w, **given)))(at)
    assert_close(np.asarray(reverse), expected[2])
    many = jnp.stack([at, -at, 2 * at])
    mapped = jit(jax.vmap(lambda w: hessian(w=w, **given)))(many)
    assert_close([np.asarray(x) for x in mapped], [np.asarray(hessian(w=w, **given)) for w in many])


@pytest.mark.parametrize("name", ["taken", "a large table", "padded", "two maps that meet", "an entry of a matrix"])
def test_jax_transforms_index_maps(name: str) -> None:
    output = ed.sum(INDEXED[name] ** 3)
    by = next(v for v in ed.variables(output))
    arrays = point_of(output, {})
    given = {name: jnp.asarray(array) for name, array in arrays.items()}
    gradient = ed.compile(ed.gradient(output, by))
    found = jit(jax.jacfwd(lambda at: gradient(**{**given, by.name: at})))(given[by.name])
    assert_close(np.asarray(found), evaluate(ed.hessian(output, by), arrays))


def test_jax_programs_stay_on_the_device() -> None:
    f = ed.logdet(M @ M.T + ed.eye(3)) + ed.sum(ed.eigvals(M)) + ed.sum(ed.take(y, [0, 0]) ** 2) + ed.prod(y)
    function = ed.compile([f, ed.gradient(f, M), ed.hessian(f, y)], backend="jax")
    text = str(jax.make_jaxpr(lambda arrays: function(**arrays))(point_of(f, {})))
    assert "eigh" in text and "callback" not in text


@pytest.mark.parametrize("output", ["a long array", "a large table"])
def test_jax_first_called_inside_a_trace(output: str) -> None:
    """What is made in a trace does not stay in the program."""
    function = fresh({**NUMBERS, **INDEXED}[output], backend="jax")
    at = jnp.arange(6.0)
    inside, outside = jax.jit(lambda x: function(x=x))(at), function(x=at)
    assert_close(np.asarray(outside), np.asarray(inside))


@pytest.fixture
def float32_only() -> Iterator[None]:
    with jax.enable_x64(False):
        yield


@pytest.mark.usefixtures("float32_only")
@pytest.mark.parametrize("name", ["taken", "a large table", "padded", "two maps that meet", "concatenated"])
def test_jax_without_float64(name: str) -> None:
    """Nothing asks for a type that is not there, which JAX would warn of."""
    output = INDEXED[name]
    outputs = [output, *(ed.hessian(ed.sum(output**2), v) for v in ed.variables(output)), ed.eye(3), ed.greater(x, 0)]
    arrays = point_of(outputs, {})
    function = fresh(outputs, backend="jax")
    for given in (arrays, {name: jnp.asarray(array) for name, array in arrays.items()}):
        results = function(**given)
        assert {result.dtype for result in results} == {np.dtype(np.float32)}
        assert_close([np.asarray(result) for result in results], evaluate(outputs, arrays), 1e-5)


# PyTorch


def test_torch_transforms_compiled_functions() -> None:
    f, w, arrays = _logistic()
    value, hessian = ed.compile(f), ed.compile(ed.hessian(f, w))
    gradient, expected, third = evaluate([ed.gradient(f, w), ed.hessian(f, w), ed.derivative(f, w, w, w)], arrays)
    given = {name: torch.asarray(array) for name, array in arrays.items()}
    at = given.pop("w")
    leaf = at.clone().requires_grad_()
    value(w=leaf, **given).backward()
    assert_close(leaf.grad.numpy(), gradient)
    assert_close(torch.func.grad(lambda w: value(w=w, **given))(at).numpy(), gradient)
    assert_close(torch.func.jacfwd(lambda w: hessian(w=w, **given))(at).numpy(), third)
    assert_close(torch.func.jacrev(lambda w: hessian(w=w, **given))(at).numpy(), third)
    many = torch.stack([at, -at, 2 * at])
    mapped = torch.func.vmap(lambda w: hessian(w=w, **given))(many)
    assert_close([x.numpy() for x in mapped], [hessian(w=w, **given).numpy() for w in many])
    assert_close(hessian(w=leaf, **given).detach().numpy(), expected)


@pytest.mark.parametrize("name", ["taken", "padded", "two maps that meet", "an entry of a matrix", "the middle axis"])
def test_torch_transforms_index_maps(name: str) -> None:
    output = ed.sum(INDEXED[name] ** 3)
    by = next(v for v in ed.variables(output))
    arrays = point_of(output, {})
    given = {name: torch.asarray(array) for name, array in arrays.items()}
    gradient = ed.compile(ed.gradient(output, by))

    def at(point: torch.Tensor) -> torch.Tensor:
        return gradient(**{**given, by.name: point})

    expected = evaluate(ed.hessian(output, by), arrays)
    assert_close(torch.func.jacfwd(at)(given[by.name]).numpy(), expected)
    assert_close(torch.autograd.functional.jacobian(at, given[by.name]).numpy(), expected)
    many = torch.stack([given[by.name]] * 2)
    assert_close([x.numpy() for x in torch.func.vmap(at)(many)], [at(given[by.name]).numpy()] * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile(backend: str) -> None:
    f, w, arrays = _logistic()
    hessian = ed.compile(ed.hessian(f, w))
    given = {name: torch.asarray(array) for name, array in arrays.items()}
    compiled = torch.compile(lambda **arrays: hessian(**arrays), backend=backend)
    assert_close(compiled(**given).numpy(), evaluate(ed.hessian(f, w), arrays))


# TensorFlow


def test_tensorflow_transforms_compiled_functions() -> None:
    tf = pytest.importorskip("tensorflow")
    f, w, arrays = _logistic()
    value, hessian = fresh(f), ed.compile(ed.hessian(f, w))
    expected = evaluate([f, ed.gradient(f, w), ed.hessian(f, w), ed.derivative(f, w, w, w)], arrays)
    given = {name: tf.constant(array) for name, array in arrays.items()}
    at = tf.Variable(given.pop("w"))

    @tf.function(autograph=False)
    def both(point: Any) -> Any:
        return value(w=point, **given), hessian(w=point, **given)

    for run_ in (both, both.python_function):  # the program is made in a trace, and runs outside too
        with tf.GradientTape(persistent=True) as tape:
            results = run_(at)
        found = [results[0], tape.gradient(results[0], at), results[1], tape.jacobian(results[1], at)]
        assert_close([x.numpy() for x in found], expected)


@pytest.mark.parametrize("name", ["taken", "a large table", "padded", "two maps that meet", "an entry of a matrix"])
def test_tensorflow_transforms_index_maps(name: str) -> None:
    tf = pytest.importorskip("tensorflow")
    output = ed.sum(INDEXED[name] ** 3)
    by = next(v for v in ed.variables(output))
    arrays = point_of(output, {})
    given = {name: tf.constant(array) for name, array in arrays.items()}
    gradient = fresh(ed.gradient(output, by), backend="tensorflow")

    @tf.function(autograph=False)
    def at(point: Any) -> Any:
        return gradient(**{**given, by.name: point})

    for run_ in (at, at.python_function):
        with tf.GradientTape() as tape:
            tape.watch(given[by.name])
            result = run_(given[by.name])
        found = tape.jacobian(result, given[by.name])
        assert_close(found.numpy(), evaluate(ed.hessian(output, by), arrays))


def test_tensorflow_converts_what_it_likes() -> None:
    """AutoGraph, which reads the source of what a function calls, finds nothing to change."""
    tf = pytest.importorskip("tensorflow")
    compiled, at = ed.compile(ed.sum(n * n)), tf.constant([1.0, 2.0])
    assert float(compiled(n=at)) == float(tf.function(lambda point: compiled(n=point))(at)) == 5


def test_tensorflow_needs_to_know_shapes() -> None:
    tf = pytest.importorskip("tensorflow")
    compiled = ed.compile(ed.sum(n * n))
    function = tf.function(lambda point: compiled(n=point), input_signature=[tf.TensorSpec([None])], autograph=False)
    with pytest.raises(ed.EindiffError, match="n has a shape that is not known"):
        function.get_concrete_function()


# Source


@pytest.mark.parametrize("name", ["logistic regression", "Gaussian process", "Gaussian mixture", "attention"])
def test_source_stands_alone(library: Library, name: str) -> None:
    function, wrt, sizes = MODELS[name]()
    small = {size: 2 + k for k, size in enumerate(sizes)}
    output = ed.hessian(function, wrt[0])
    source = ed.compile(output, backend=library.name, sizes=small).source
    imported = re.findall(r"^(?:import|from) (\w+)", source, re.M)
    assert imported and all(re.fullmatch(IMPORTS[library.name], module) for module in imported), source
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    arrays = point_of(output, small)
    given = library.arrays({v.name: arrays[v.name] for v in ed.variables(output)})
    result = library.call(lambda **point: namespace["f"](*(point[name] for name in given)), given)
    assert_close(library.to_numpy(result), evaluate(output, arrays), RTOL)


def test_programs_of_other_libraries_never_wait(foreign: Library) -> None:
    """Not for a value on the host, and not for NumPy."""
    for name in list(MODELS)[1:8]:
        function, wrt, sizes = MODELS[name]()
        output = ed.hessian(function, wrt[0])
        source = ed.compile(output, backend=foreign.name, sizes=dict.fromkeys(sizes, 4)).source
        assert not re.search(r"\bnp\.|\.item\(|\.numpy\(|\.get\(|\+=|\bDTYPE\b", source), source


@pytest.mark.parametrize("name", ["put", "shape", "matmul", "tf", "torch", "softplus", "solved", "spread", "lambda"])
def test_names_of_helpers_are_free_for_variables(foreign: Library, name: str) -> None:
    v = ed.vector(name, 4)
    output = ed.sum(ed.softplus(v[1:]) * v[:-1])
    check(foreign, [output, ed.hessian(output, v)], {name: np.linspace(-1, 1, 4)})


# Errors


def test_an_unknown_backend() -> None:
    with pytest.raises(ed.EindiffError, match="backend 'pandas': choose one of numpy, jax, torch, tensorflow, cupy"):
        ed.compile(A, backend="pandas")


def test_no_inputs(library: Library) -> None:
    for output in (ed.ones(2, 3), ed.eye(3), ed.tr(ed.eye(3)), ed.tr(ed.eye(3)) / 7, ed.eye(3) @ np.arange(3.0)):
        result = library.to_numpy(ed.compile(output, backend=library.name)())
        assert_close(result, evaluate(output, {}))
    size = ed.sqrt(ed.tr(ed.eye("n"))) + ed.tr(ed.eye("n"))
    assert_close(library.to_numpy(ed.compile(size, backend=library.name)(sizes={"n": 5})), np.sqrt(5) + 5)


def _arrays_of_other_types() -> list[tuple[str, Any, str]]:
    found: list[tuple[str, Any, str]] = [
        ("jax", jnp.ones(3, jnp.float16), "float16"),
        ("jax", jnp.ones(3, jnp.bfloat16), "bfloat16"),
        ("jax", jnp.ones(3, complex), "complex"),
        ("torch", torch.ones(3, dtype=torch.float16), "float16"),
        ("torch", torch.ones(3, dtype=torch.bfloat16), "bfloat16"),
        ("torch", torch.ones(3, dtype=torch.complex128), "complex"),
    ]
    return found


@pytest.mark.parametrize(("name", "array", "kind"), _arrays_of_other_types())
def test_types_that_are_refused(name: str, array: Any, kind: str) -> None:
    with pytest.raises(ed.EindiffError, match=f"the array for y holds {kind}"):
        ed.compile(A @ y)(A=np.ones((4, 3)), y=array)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "complex128", "string"])
def test_types_that_are_refused_in_tensorflow(kind: str) -> None:
    tf = pytest.importorskip("tensorflow")
    array = tf.constant(["a", "b", "c"]) if kind == "string" else tf.cast(tf.ones(3), kind)
    with pytest.raises(ed.EindiffError, match=f"the array for y holds {'' if kind == 'string' else kind}"):
        ed.compile(A @ y)(A=np.ones((4, 3)), y=array)


def test_wrong_shapes(foreign: Library) -> None:
    with pytest.raises(ed.EindiffError, match="y is declared 3, but its array has shape 4"):
        ed.compile(A @ y, backend=foreign.name)(**foreign.arrays({"A": np.ones((4, 3)), "y": np.ones(4)}))


def test_no_out_in_other_libraries(foreign: Library) -> None:
    with pytest.raises(ed.EindiffError, match="out is for dense results in NumPy"):
        ed.compile(A @ y, backend=foreign.name)(
            **foreign.arrays({"A": np.ones((4, 3)), "y": np.ones(3)}), out=np.ones(4)
        )


def test_symmetric_products_in_two_blocks(foreign: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """`X' diag(d) X` is computed in blocks where it is large, with an odd number of columns too."""
    monkeypatch.setattr(products, "HALVED", 4)
    X, d = ed.matrix(f"X_{foreign.name}", 6, 5), ed.vector("d", 6)
    generator = np.random.default_rng(0)
    arrays = {X.name: generator.normal(size=(6, 5)), "d": generator.normal(size=6)}
    weighted = X.T @ ed.diag(d) @ X
    check(foreign, [weighted], arrays)
    assert "gram(" in ed.compile([weighted], backend=foreign.name).source
