"""Programs for every array library give what the NumPy interpreter gives, and their source stands alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest
import torch

import eindiff as ed
from backend_expressions import DELTAS, INDEXED, NUMBERS
from backend_libraries import REFUSED, RTOL, Library, check, cupy_or_stand_in, every_library, foreign_library  # noqa: F401
from compiling import assert_close, point_of
from eindiff.core.nodes import Expr
from eindiff.planning import tuning
from eindiff.program.interpreter import evaluate
from function_cases import CASES, LIBRARY, WHOLE, Case
from grammar import OPERATIONS, Example, example_outputs, examples, run
from models import MODELS
from objectives import OBJECTIVES
from oracles import declare

IMPORTS = {"numpy": "numpy|scipy", "jax": "jax", "torch": "torch", "tensorflow": "tensorflow", "cupy": "cupyx?"}
BY_NAME = {case.id: case for case in CASES}


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


# Expressions


def _check_example(library: Library) -> Callable[[Example], None]:
    def checked(example: Example) -> None:
        outputs, arrays, expected = example_outputs(example)
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


def test_symmetric_products_in_two_blocks(foreign: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """`X' diag(d) X` is computed in blocks where it is large, with an odd number of columns too."""
    monkeypatch.setattr(tuning, "HALVED", 4)
    X, d = ed.matrix(f"X_{foreign.name}", 6, 5), ed.vector("d", 6)
    generator = np.random.default_rng(0)
    arrays = {X.name: generator.normal(size=(6, 5)), "d": generator.normal(size=6)}
    weighted = X.T @ ed.diag(d) @ X
    check(foreign, [weighted], arrays)
    assert "gram(" in ed.compile([weighted], backend=foreign.name).source


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


@pytest.mark.parametrize("n", [4, 70])
def test_triangular_systems(library: Library, n: int) -> None:
    """Systems with a Cholesky factor, from both sides."""
    g = np.random.default_rng(0)
    arrays = {"A": g.normal(size=(n, n)), "B": g.normal(size=(n, 3)), "b": g.normal(size=n)}
    A, B, b = declare(arrays).values()
    factor = ed.chol(A @ A.T + n * ed.eye(n))
    outputs = [ed.inv(factor) @ b, ed.inv(factor).T @ B, ed.derivative(ed.sum(ed.exp(ed.inv(factor) @ b)), b)]
    check(library, outputs, arrays, evaluate(outputs, arrays))
    source = ed.compile(outputs, backend=library.name).source
    assert "solve_triangular" in source, source


def test_a_product_that_is_laid_out_anew_stays_one_operand(foreign: Library) -> None:
    """What only NumPy needs is left out elsewhere, but not the parentheses that it brings."""
    y = ed.matrix("y", 3, 3)
    pairs = y[1:] * y[:2]
    twice = ed.concatenate([pairs, pairs], 1)
    f = ed.sum(ed.sin(turned := ed.concatenate([twice[1:], twice[:1]], 0)) * turned)
    modes = ("reverse", "forward", "cross_country", "auto")
    for one, other in product(modes, modes):
        outputs = [f, ed.derivative(f, y, mode=one), ed.derivative(f, y, y, mode=other)]
        check(foreign, outputs, {"y": np.arange(9.0).reshape(3, 3) / 9})
