"""Programs for other libraries keep the types and devices of their arrays, and refuse what is none of theirs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
from backend_expressions import A, M, s, x, y
from backend_libraries import Library, cupy_or_stand_in, every_library, foreign_library, library_of  # noqa: F401
from compiling import assert_close, point_of
from eindiff.program.interpreter import evaluate

# Types and devices


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
        if foreign.kind is not library_of("numpy").kind or function.backend:
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


def test_no_inputs(library: Library) -> None:
    for output in (ed.ones(2, 3), ed.eye(3), ed.tr(ed.eye(3)), ed.tr(ed.eye(3)) / 7, ed.eye(3) @ np.arange(3.0)):
        result = library.to_numpy(ed.compile(output, backend=library.name)())
        assert_close(result, evaluate(output, {}))
    size = ed.sqrt(ed.tr(ed.eye("n"))) + ed.tr(ed.eye("n"))
    assert_close(library.to_numpy(ed.compile(size, backend=library.name)(sizes={"n": 5})), np.sqrt(5) + 5)


# Errors


def test_an_unknown_backend() -> None:
    with pytest.raises(ed.EindiffError, match="backend 'pandas': choose one of numpy, jax, torch, tensorflow, cupy"):
        ed.compile(A, backend="pandas")


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
