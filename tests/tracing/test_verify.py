"""A traced function is compared with itself: what differs from a plain call is refused, rounding is not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import eindiff as ed
import eindiff.jax as ej
import eindiff.torch as et
import oracles  # noqa: F401 (double precision)
from eindiff.core.errors import EindiffError
from eindiff.tracing.verify import Call, compare, interpreter

POINT = [1.0, 2.0, 3.0]
LIBRARIES = {
    "numpy": SimpleNamespace(grad=ed.gradient, hessian=ed.hessian, array=np.array, np=np),
    "jax": SimpleNamespace(grad=ej.grad, hessian=ej.hessian, array=jnp.array, np=jnp),
    "torch": SimpleNamespace(grad=et.grad, hessian=et.hessian, array=torch.tensor, np=torch),
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return LIBRARIES[request.param]


def with_counter() -> Callable:
    """A function that no other test has traced: it looks at its calls where no key of a trace sees them."""
    calls = count(1)

    def counted(x: Any) -> Any:
        return next(calls) * (x**2).sum()

    return counted


@pytest.mark.parametrize("kind", ["grad", "hessian"])
def test_state_is_refused(library: Any, kind: str) -> None:
    derivative = getattr(library, kind)
    x = library.array(POINT)
    with pytest.raises(EindiffError, match=r"counted: traced, it gives .* Two plain calls differ"):
        derivative(with_counter())(x)
    found = np.asarray(derivative(with_counter(), verify=False)(x))
    assert np.array_equal(found, [2, 4, 6] if kind == "grad" else 2 * np.eye(3))


def test_a_first_call_that_differs_is_refused(library: Any) -> None:
    seen: list[int] = []

    def lazy(x: Any) -> Any:
        seen.append(1)
        return (x**2).sum() if len(seen) > 1 else x.sum()

    with pytest.raises(EindiffError, match="Plain calls agree with each other"):
        library.grad(lazy)(library.array(POINT))


def test_a_captured_array_that_changes_is_refused(library: Any) -> None:
    buffer = np.zeros(3)

    def moving(x: Any) -> Any:
        buffer[:] += 1
        return (x * library.array(buffer.tolist())).sum()

    with pytest.raises(EindiffError, match="moving"):
        library.grad(moving)(library.array(POINT))


def test_randomness_of_numpy_is_refused(library: Any) -> None:
    random = np.random.default_rng(0)
    with pytest.raises(EindiffError, match="random"):
        library.grad(lambda x: (x * library.array(random.normal(size=3).tolist())).sum())(library.array(POINT))


def test_one_plain_call_for_a_trace(library: Any) -> None:
    calls = count()

    def counted(x: Any) -> Any:
        next(calls)
        return (x**2).sum()

    gradient = library.grad(counted)
    gradient(library.array(POINT))
    gradient(library.array(POINT))
    assert next(calls) == 2


def test_fallback_takes_functions_with_state() -> None:
    assert np.array_equal(ej.grad(with_counter(), fallback=True)(jnp.array(POINT)), [8, 16, 24])
    assert torch.equal(et.grad(with_counter(), fallback=True)(torch.tensor(POINT)), torch.tensor([8.0, 16.0, 24.0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_that_are_only_rounding(library: Any, dtype: str) -> None:
    """Residuals at a solution, cancellation, logarithms near 1, discontinuities at a rounded place."""
    random = np.random.default_rng(1)
    A, w = random.normal(size=(7, 3)), random.normal(size=3)
    np_ = library.np
    kind = getattr(library.np, dtype)
    A, b, w = (library.array(x.tolist(), dtype=kind) for x in (A, A @ w, w))
    for f in (
        lambda w: ((A @ w - b) ** 2).sum(),
        lambda w: ((1 + 1e-12 * w) - 1).sum(),
        lambda w: np_.log(1 + np_.exp(-30 - w * w)).sum(),
        lambda w: (np_.floor((w / w) * 3) * w).sum(),
    ):
        library.grad(f)(w)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_plain_calls_that_lose_digits_which_expressions_keep(name: str) -> None:
    """A slope far from zero: the rounding error of a mean meets all of the data in a plain call."""
    library, random = LIBRARIES[name], np.random.default_rng(0)
    x, y = (random.integers(-9, 9, 6) / 8 for _ in range(2))

    def slope(x: Any, y: Any) -> Any:
        apart = x - x.mean()
        return (apart * y).sum() / (apart**2).sum()

    far = [library.array(2.0**20 + array) for array in (x, y)]
    assert abs(slope(*far) - slope(x, y)) > 1e-6
    apart = x - x.mean()
    np.testing.assert_allclose(library.grad(slope, 1)(*far), apart / (apart @ apart), rtol=1e-8)


def test_values_that_are_not_finite(library: Any) -> None:
    np_ = library.np
    library.grad(lambda x: np_.log(x - 1).sum())(library.array(POINT))
    library.grad(lambda x: np_.log(np_.exp(800 * x).sum()))(library.array(POINT))
    library.grad(lambda x: (x / x).sum())(library.array([0.0, 1.0]))


def test_single_precision_in_between() -> None:
    x = jnp.array([1 / 3, 2 / 3])
    ej.grad(lambda v: (v.astype(jnp.float32).astype(v.dtype) ** 2).sum())(x)
    ej.grad(lambda v: (v.astype(jnp.bfloat16).astype(v.dtype) ** 2).sum())(x)
    et.grad(lambda v: (v.float().double() ** 2).sum())(torch.tensor([1 / 3, 2 / 3], dtype=torch.float64))
    rounds = lambda v: (v.astype(np.float32).astype(float) ** 2).sum()  # noqa: E731
    with pytest.raises(ed.EindiffError, match=r"float32 on the way.*verify=False"):
        ed.gradient(rounds)(np.array([1 / 3, 2 / 3]))
    assert np.allclose(ed.gradient(rounds, verify=False)(np.array([1 / 3, 2 / 3])), [2 / 3, 4 / 3])


def test_inside_of_transformations() -> None:
    """There are no values to compare, and no tracer leaks; a first call with values is compared then."""
    x = jnp.array(POINT)
    f = lambda v: (v**3).sum()  # noqa: E731
    assert np.allclose(jax.jit(ej.grad(f))(x), 3 * x**2)
    assert np.allclose(jax.vmap(ej.grad(f))(x[None]), 3 * x[None] ** 2)
    assert np.allclose(jax.jit(lambda: ej.grad(f)(x))(), 3 * x**2)
    assert np.allclose(jax.vmap(lambda c: ej.grad(lambda v: c * f(v))(x))(x), 3 * x[:, None] * x**2)
    assert np.allclose(jax.jacfwd(ej.grad(f))(x), np.diag(6 * x))
    counted = with_counter()
    jax.jit(ej.grad(counted))(x)
    with pytest.raises(EindiffError, match="counted"):
        ej.grad(counted)(x)


def test_arguments_stay_as_they_are() -> None:
    def doubling(x: np.ndarray) -> Any:
        x *= 2
        return np.sum(x**2)

    x = np.array(POINT)
    assert np.array_equal(ed.gradient(doubling)(x), 8 * x)
    assert np.array_equal(x, POINT)


def test_results_beside_the_value() -> None:
    def f(x: Any, counter: list[int] = [0]) -> Any:  # noqa: B006 (state that is not seen in the value)
        counter[0] += 1
        return (x**2).sum(), counter[0] * x

    for library in LIBRARIES.values():
        with pytest.raises(EindiffError, match="verify=False"):
            library.grad(f, has_aux=True)(library.array(POINT))


def test_symbolic_of_arrays() -> None:
    with pytest.raises(EindiffError, match="counted"):
        ed.symbolic(with_counter(), np.ones(3))
    assert ed.symbolic(with_counter(), np.ones(3), verify=False).shape == ()
    assert ed.symbolic(lambda x, A: A @ x, np.ones(3), np.ones((2, 3))).shape == (2,)


def test_what_a_difference_is() -> None:
    def differs(found: Any, plain: Any, inputs: Any = (1.5,)) -> bool:
        try:
            compare(len, lambda given: [np.array(found)], {"x": np.array(inputs)}, lambda: Call([plain], None), None)
        except EindiffError:
            return True
        return False

    assert not differs([1.0, 2.0], [1.0, 2.0 + 1e-12])
    assert differs([1.0, 2.0], [1.0, 2.0001])
    assert differs([1.0, 2.0], [[1.0, 2.0]])
    assert differs([np.nan, 2.0], [1.0, 2.0])
    assert differs([np.inf], [-np.inf])
    assert not differs([np.nan, np.inf], [np.nan, np.inf])
    assert not differs([800.0], [np.inf])
    assert not differs([True, False], [True, False])
    assert differs([True, False], [True, True])


def test_every_public_function_has_the_keyword() -> None:
    x, v = jnp.array(POINT), torch.tensor(POINT)
    for module, point in ((ej, x), (et, v)):
        for name in ("grad", "jacrev", "jacfwd", "hessian", "value_grad_hessian", "hessian_diagonal", "newton_step"):
            getattr(module, name)(with_counter(), verify=False)(point)
            with pytest.raises(EindiffError, match="counted"):
                getattr(module, name)(with_counter())(point)
        module.hvp(with_counter(), verify=False)(point, tangents=point)
        module.lower(with_counter(), verify=False)(point)
    ej.value_and_grad(with_counter(), verify=False)(x)
    et.grad_and_value(with_counter(), verify=False)(v)
    et.functional.hessian(with_counter(), v, verify=False)
    et.functional.jacobian(with_counter(), v, verify=False)


def test_what_is_quick_does_not_object() -> None:
    """It may show that all is well; a difference is one of the program and of the library."""
    inputs = {"x": np.array([1.5])}

    def refused(value: float, quick: float, plain: float, by_library: float) -> bool:
        call = Call([np.array(plain)], None, by_library=lambda: [np.array(by_library)])
        try:
            compare(len, lambda _: [np.array(value)], inputs, lambda: call, None, False, lambda _: [np.array(quick)])
        except EindiffError:
            return True
        return False

    assert not refused(1.0, 1.0, 1.0, 1.0)
    assert not refused(1.0, 2.0, 1.0, 1.0)
    assert not refused(1.0, 1.0, 2.0, 1.0)
    assert refused(2.0, 2.0, 1.0, 1.0)
    assert refused(1.0, 1.0, 2.0, 2.0)


def test_many_nodes_of_some_entries_are_compared_without_a_program() -> None:
    """A program for the function alone takes longer to make; for large arrays, and products of them, it pays."""
    w = ed.matrix("W", 40, 40)

    def net(rows: int, layers: int) -> ed.Expr:
        y = ed.matrix(f"X{rows}", rows, 40)
        for _ in range(layers):
            y = ed.tanh(y @ w)
        return ed.sum(y**2)

    assert interpreter([net(60, 20)], lambda _: []) is not None
    assert interpreter([net(6000, 20)], lambda _: []) is None
    assert interpreter([net(1000, 1)], lambda _: []) is None
