"""Small arrays: what takes fewer or quicker calls gives the same numbers."""

from __future__ import annotations

from functools import reduce
from operator import mul

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.lower.common_products import _Sharing
from eindiff.program.operations import Operations
from pace import calls

x, y, w = ed.vector("x", "n"), ed.vector("y", "m"), ed.vector("w", "n")
X, a = ed.matrix("X", "m", "n"), ed.scalar("a")
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_are_arrays_of_the_type_of_the_program(dtype):
    f = ed.compile(3 * ed.exp(x) - 1 / (x * x + 0.01), dtype=dtype)
    point = RNG.normal(size=5).astype(dtype)
    found = f(x=point)
    assert "_3 = np.array(3.0" in f.source and found.dtype == dtype
    np.testing.assert_allclose(found, 3 * np.exp(point) - 1 / (point * point + 0.01), rtol=1e-5)


def test_numbers_stay_beside_scalars_large_arrays_and_places():
    assert "np.array(2.0)" not in ed.plan(2 * a * x, {"n": 10}).source
    assert "np.array(2.0)" not in ed.plan(2 * ed.exp(x), {"n": 10_000}).source
    i = ed.indices("i", "m", into="n")
    f = ed.compile(ed.hessian(ed.sum(x[i] ** 3), x))
    found = f(x=np.arange(4.0), i=np.array([1, 1, 3]))
    np.testing.assert_allclose(found, np.diag([0, 12.0, 0, 18]))


@pytest.mark.parametrize("n", [1, 2, 3, 20])
@pytest.mark.parametrize("shift", [1, 2])
def test_diagonals_beside_the_first(n, shift):
    if n < shift:
        return
    d = x[shift:] - x[:-shift] ** 2
    chain = ed.sum(d * d) + ed.sum(ed.log(1 + d * d)) + ed.sum(x[:-1] * x[1:])
    f = ed.compile(ed.hessian(chain, x))
    point = RNG.normal(size=n)
    found = f(x=point)
    np.testing.assert_allclose(found, ed.evaluate(ed.hessian(chain, x), {"x": point}), atol=1e-12)


def test_blocks_beside_the_diagonal():
    u = ed.matrix("u", "n", 2)
    d = u[1:] - u[:-1]
    energy = ed.sum(ed.sqrt(ed.sum(d * d, 1) + 1))
    point = RNG.normal(size=(6, 2))
    found = ed.compile(ed.hessian(energy, u))(u=point)
    np.testing.assert_allclose(found, ed.evaluate(ed.hessian(energy, u), {"u": point}), atol=1e-12)


def test_opposite_sigmoids_are_one_function():
    loss = ed.sum(ed.log(1 + ed.exp(-y * (X @ w))))
    f = ed.compile(ed.hessian(loss, w))
    point = {"X": np.diag([1.0, 1, 1, 1]), "w": np.array([0.0, 30, -300, 900]), "y": np.array([1.0, 1, -1, 2])}
    found = np.diag(f(**point))
    assert "cosh" in f.source and "expit" not in f.source
    size = np.exp(-np.abs(point["y"] * point["w"]))
    np.testing.assert_allclose(found, point["y"] ** 2 * size / (1 + size) ** 2, rtol=1e-14)
    both = ed.compile([ed.gradient(loss, w), ed.hessian(loss, w)])
    np.testing.assert_array_equal(np.diag(both(**point)[1]) > 0, found > 0)


@pytest.mark.parametrize("rows", [(), (3,)])
@pytest.mark.parametrize("function", [ed.sigmoid, ed.tanh, lambda z: z / (1 + ed.exp(-z)), lambda z: z + ed.sin(z)])
def test_derivatives_of_layers_are_computed_together(function, rows):
    """Those that are known before the first is needed; layers themselves are not."""
    layers = [ed.matrix(f"W{k}", 4, 4) for k in range(9)]
    z = start = ed.tensor("z", (*rows, 4))
    for W in layers:
        z = function(z @ W)
    f = ed.sum(z)
    outputs = [f, ed.gradient(f, start), ed.gradient(f, layers[0]), *([z] if rows else [])]
    arrays = {v.name: 0.5 * RNG.normal(size=v.shape) for v in ed.variables(*outputs)}
    compiled = ed.compile(outputs)
    for found, expected in zip(compiled(**arrays), ed.evaluate(outputs, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    if function is ed.sigmoid:
        assert "np.cosh(np.concatenate(" in compiled.source and compiled.source.count("cosh") == 1


def test_factors_with_equal_coefficients_are_shared():
    d = X[:, None, :] - X[None, :, :]
    energy = ed.sum(ed.sqrt(ed.sum(d * d, 2) + 1))
    source = ed.plan(ed.hessian(energy, X), {"m": 10, "n": 3}).source
    assert source.count("* t0") + source.count("t0 /") == 2  # one of them the result itself


def test_constant_arrays_and_powers_of_norms():
    f = ed.compile(ed.hessian(ed.sum(x) ** 2 / 2 + ed.norm2(x), x))
    point = np.array([3.0, 4.0])
    np.testing.assert_allclose(f(x=point), 1 + (np.eye(2) - np.outer(point, point) / 25) / 5)
    cube = ed.compile(ed.norm2(x) ** -3)
    assert cube(x=point) == pytest.approx(1 / 125) and np.isnan(cube(x=1e-160 * point))


def test_short_calls_do_not_run_side_by_side():
    d = X[:, None, :] - X[None, :, :]
    energy = ed.hessian(ed.sum(ed.sqrt(ed.sum(d * d, 2) + 1)), X)
    short = ed.plan(energy, {"m": 180, "n": 3}).source
    assert "tile_start" in short and "in_threads(" not in short
    assert "in_threads(" in ed.plan(energy, {"m": 1000, "n": 3}).source


def test_products_with_a_factor_twice_keep_both() -> None:
    """`a a b` is not `(a b)` where `a b` is there anyway."""
    u, v = ed.vector("u", 3), ed.vector("v", 3)
    f = ed.compile([u * v, u * u * v, u * u * v * v, u * v * v])
    point = {"u": np.array([2.0, 3, 5]), "v": np.array([7.0, 11, 13])}
    assert f.source.count(" * ") == 4
    for found, p, q in zip(f(**point), (1, 2, 2, 1), (1, 1, 2, 2), strict=True):
        np.testing.assert_array_equal(found, point["u"] ** p * point["v"] ** q)


@pytest.mark.parametrize(("count", "products"), [(3, 3), (4, 6), (5, 9), (8, 18)])
def test_parts_of_several_products_are_computed_once(count: int, products: int) -> None:
    """The gradient of a product of n arrays takes 3 (n - 2) multiplications, not n (n - 2)."""
    factors = [ed.vector(f"x{k}", 3) for k in range(count)]
    f = ed.compile([ed.gradient(ed.sum(reduce(mul, factors)), x) for x in factors])
    assert f.source.count(" * ") == products
    point = {f"x{k}": RNG.normal(size=3) for k in range(count)}
    for k, found in enumerate(f(**point)):
        others = np.prod([x for name, x in point.items() if name != f"x{k}"], axis=0)
        np.testing.assert_allclose(found, others, rtol=1e-14)


def test_products_of_other_shapes_are_no_parts() -> None:
    """`X diag(x)`, of which both are products, is larger than the products of vectors that it saves."""
    v = ed.vector("v", "n")
    f = ed.compile([X * (x * w)[None, :], X * (x * v)[None, :]], sizes={"m": 30, "n": 20})
    assert "t0" not in f.source
    point = {"X": RNG.normal(size=(30, 20)), **{name: RNG.normal(size=20) for name in "xwv"}}
    for name, found in zip("wv", f(**point), strict=True):
        np.testing.assert_allclose(found, point["X"] * point["x"] * point[name], rtol=1e-14)


def test_many_products_share_their_parts_in_linear_time() -> None:
    """Each pair of factors is looked at when it is new."""
    work = []
    for count in (1000, 3000):
        operations = Operations()
        inputs = [operations.make("input", parameters=(f"x{k}",), shape=()) for k in range(count)]
        products = [operations.make("multiply", inputs[k : k + 4]) for k in range(count - 4)]
        shared: list[_Sharing] = []
        work.append(calls(lambda: shared.append(_Sharing(operations, products))))  # noqa: B023
        assert sum(map(len, shared[0].factors.values())) < 3 * len(products) + 4
    assert work[1] <= 3.1 * work[0]
