"""Derivatives of deviations from means keep their digits where the data is far from zero; the oracle has 80 digits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

import eindiff as ed
import oracles  # noqa: F401 (double precision)
from eindiff.planning.degrees import may_be_within
from eindiff.planning.deviations import balances

mpmath.mp.dps = 80
STEP = mpmath.mpf(10) ** -20
FAR = 2.0**20
LONG = SimpleNamespace(sum=np.sum, exp=np.vectorize(mpmath.exp), sqrt=np.vectorize(mpmath.sqrt), log=mpmath.log)
SHORT = SimpleNamespace(sum=ed.sum, exp=ed.exp, sqrt=ed.sqrt, log=ed.log)


def weighted_variance(lib: Any, x: Any, p: Any) -> Any:
    mean = lib.sum(p * x) / lib.sum(p)
    return lib.sum(p * (x - mean) ** 2) / lib.sum(p)


def variance(lib: Any, x: Any, p: Any) -> Any:
    return lib.sum((x - lib.sum(x) / 6) ** 2)


def slope(lib: Any, x: Any, p: Any) -> Any:
    d = x - lib.sum(x) / 6
    return lib.sum(d * p) / lib.sum(d**2)


def normed(lib: Any, x: Any, p: Any) -> Any:
    d = x - lib.sum(x) / 6
    return lib.sum(p * (d / lib.sqrt(lib.sum(d**2) / 6 + 0.01)) ** 3)


def tilted_variance(lib: Any, x: Any, p: Any) -> Any:
    w = lib.exp(p) / lib.sum(lib.exp(p))
    return lib.sum(w * (x - lib.sum(w * x)) ** 2)


def tilted_mean(lib: Any, x: Any, p: Any) -> Any:
    return lib.sum(lib.exp(p) * x) / lib.sum(lib.exp(p))


def correlation(lib: Any, x: Any, p: Any) -> Any:
    d, e = x - lib.sum(x) / 6, p - lib.sum(p) / 6
    return lib.sum(d * e) / lib.sqrt(lib.sum(d**2) * lib.sum(e**2))


def growth(lib: Any, x: Any, p: Any) -> Any:
    return lib.sum(lib.exp(x - lib.sum(p * x) / lib.sum(p)))


def skewness(lib: Any, x: Any, p: Any) -> Any:
    d = x - lib.sum(x) / 6
    return lib.sum(p * (d - lib.sum(p * d) / lib.sum(p)) ** 3) / lib.sum(p)


def free_energy(lib: Any, x: Any, p: Any) -> Any:
    return lib.log(lib.sum(lib.exp(20 * p)))


def hessian(f: Callable, x: np.ndarray, p: np.ndarray, by: str) -> np.ndarray:
    """Differences of differences, with so many digits that a double has none of their error."""
    given = {"x": np.array([mpmath.mpf(v) for v in x]), "p": np.array([mpmath.mpf(v) for v in p])}
    rows, n = np.eye(len(x), dtype=int) * STEP, len(x)

    def at(step: Any) -> Any:
        return f(LONG, **(given | {by: given[by] + step}))

    found = [[(at(a + b) - at(a - b) - at(b - a) + at(-a - b)) / (4 * STEP**2) for b in rows] for a in rows]
    return np.array(found, dtype=float).reshape(n, n)


WITH_WEIGHTS = (weighted_variance, slope, normed, tilted_variance, tilted_mean, correlation, growth, skewness)
BOTH = [(f, by) for f in WITH_WEIGHTS for by in "xp"]


@pytest.mark.parametrize("f, by", [*BOTH, (variance, "x"), (free_energy, "p")])
def test_hessians_far_from_zero(f: Callable, by: str) -> None:
    rng = np.random.default_rng(7)
    arrays = {"x": FAR + rng.normal(size=6), "p": rng.uniform(0.5, 2, 6)}
    expected = hessian(f, **arrays, by=by)
    expr = ed.hessian(f(SHORT, ed.vector("x", 6), ed.vector("p", 6)), by)
    found = ed.compile(expr)(**{v.name: arrays[v.name] for v in ed.variables(expr)})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * max(np.abs(expected).max(), 1e-6))


def deviation(lib: Any, x: Any, p: Any) -> Any:
    """Which a root of a variance is."""
    return lib.sqrt(lib.sum((x - lib.sum(x) / 6) ** 2))


@pytest.mark.parametrize("f", [variance, weighted_variance, deviation])
def test_gradients_of_variances_far_from_zero(f: Callable) -> None:
    """They are deviations: rounding errors of the mean are the same for all of these, and they are 0 in total."""
    rng = np.random.default_rng(7)
    arrays = {"x": 2.0**30 + rng.normal(size=6), "p": rng.uniform(0.5, 2, 6)}
    exact = {name: np.vectorize(mpmath.mpf)(x) for name, x in arrays.items()}
    steps = STEP * np.eye(6, dtype=int)
    ends = [[f(LONG, exact["x"] + sign * step, exact["p"]) for sign in (1, -1)] for step in steps]
    expected = np.array([(one - other) / (2 * STEP) for one, other in ends], dtype=float)
    expr = ed.gradient(f(SHORT, ed.vector("x", 6), ed.vector("p", 6)), "x")
    given = {v.name: arrays[v.name] for v in ed.variables(expr)}
    for found in (ed.evaluate(expr, given), ed.compile(expr)(**given)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * np.abs(expected).max())


def sharpe_ratio(lib: Any, X: Any, g: Any) -> Any:
    returns = X @ g
    return lib.sum(returns) / lib.sqrt(lib.sum((returns - lib.sum(returns) / 6) ** 2))


def test_products_with_hessians_far_from_zero() -> None:
    """Multiples of several deviations are added up first, and then multiplied with the data."""
    rng = np.random.default_rng(7)
    X, g, v = FAR + rng.normal(size=(6, 3)), rng.normal(size=3), rng.normal(size=3)
    exact = np.vectorize(mpmath.mpf)(X)
    expected = hessian(lambda lib, x, p: sharpe_ratio(lib, exact, p), g, g, "p") @ v
    expr = ed.hvp(sharpe_ratio(SHORT, ed.matrix("X", 6, 3), ed.vector("g", 3)), "g", "v")
    np.testing.assert_allclose(ed.compile(expr)(X=X, g=g, v=v), expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def lopsided_covariance(lib: Any, X: Any, p: Any) -> Any:
    """Of deviations and what they are deviations of, as it is often written."""
    return lib.sum((((X - p @ X / lib.sum(p)).T @ (X * p[:, None])) / lib.sum(p)) ** 2)


def test_gradients_of_covariances_far_from_zero() -> None:
    rng = np.random.default_rng(3)
    X, p = FAR + rng.normal(size=(6, 2)), rng.uniform(0.5, 2, 6)
    exact, weights = (np.vectorize(mpmath.mpf)(x) for x in (X, p))
    steps = [STEP * np.eye(12, dtype=int)[k].reshape(6, 2) for k in range(12)]
    ends = [[lopsided_covariance(LONG, exact + sign * step, weights) for sign in (1, -1)] for step in steps]
    expected = np.array([(one - other) / (2 * STEP) for one, other in ends], dtype=float).reshape(6, 2)
    f = lopsided_covariance(SHORT, ed.matrix("X", 6, 2), ed.vector("p", 6))
    found = ed.compile(ed.gradient(f, "X"))(X=X, p=p)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_variances_of_a_softmax_that_is_nearly_one() -> None:
    """Entries of `diag(p) - p p'` where p is nearly 1 are what the others add up to, not a difference of ones."""
    x = ed.vector("x", 5)
    z = np.array([0.1, 0.67, 0.74, -0.5, -0.6])
    found = ed.compile(ed.hessian(ed.logsumexp(1000 * x), x))(x=z)
    small = 1e6 * np.exp(1000 * (0.67 - 0.74))
    np.testing.assert_allclose(found[1:3, 1:3], [[small, -small], [-small, small]], rtol=1e-9)


def test_degrees_tell_sums_apart() -> None:
    """Functions of variables, and what inverses may cancel, do not count."""
    x, y, A = ed.scalar("x"), ed.scalar("y"), ed.matrix("A", 2, 2)
    assert may_be_within([x * y], [x * x * y, y]) and not may_be_within([y], [x * y])
    assert may_be_within([ed.exp(x)], [y * 0 + 1]) and may_be_within([1 / x], [y / x, 1 / x**2, 2 + y])
    assert may_be_within([x * ed.tr(A)], [x * ed.tr(A @ ed.inv(A + A.T))]) and not may_be_within([x], [])


@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_distances_of_points_that_are_some_apart(library: str) -> None:
    """What a point is apart from itself, an inverse root of a small number, is not added and subtracted again."""
    X = ed.matrix("X", 4, 2)
    Z = np.random.default_rng(2).normal(size=(4, 2))
    apart = ed.einsum("ik,j->ijk", X, ed.ones(4)) - ed.einsum("jk,i->ijk", X, ed.ones(4))
    total = ed.sum(ed.sqrt(ed.sum(apart**2, 2) + 1e-20))
    d = Z[:, None] - Z
    r = np.linalg.norm(d, axis=2) + np.eye(4)
    blocks = 2 * (d[..., None] * d[..., None, :] / r[..., None, None] ** 3 - np.eye(2) / r[..., None, None])
    blocks[range(4), range(4)] = 0
    blocks[range(4), range(4)] = -blocks.sum(1)
    hessian = ed.hessian(total, X)
    for found in (np.asarray(ed.compile(hessian, library)(X=Z)), ed.evaluate(hessian, {"X": Z})):
        np.testing.assert_allclose(found, blocks.transpose(0, 2, 1, 3), atol=1e-14, rtol=1e-13)


def test_diagonals_are_weights_of_means() -> None:
    """The numbers in a mean are taken out of it, where the weights are those on the diagonal of a matrix."""
    A, x, y = ed.matrix("A", "n", "n"), ed.vector("x", "n"), ed.vector("y", "n")
    rng = np.random.default_rng(5)
    arrays = {"A": rng.normal(size=(3, 3)), "x": rng.normal(size=3), "y": rng.normal(size=3)}
    found = ed.evaluate(ed.sum(ed.diag(A) * (y + 1)) + ed.sum((x - ed.mean(x)) ** 2), arrays)
    expected = arrays["A"].diagonal() @ (arrays["y"] + 1) + 3 * arrays["x"].var()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_data_of_which_only_deviations_count_are_these() -> None:
    """No derivative has products of the data itself, that are much larger than those of its deviations."""
    X, p = ed.matrix("X", "m", "n"), ed.vector("p", "m")
    f = ed.sum(ed.exp(X - p @ X / ed.sum(p)))
    rng = np.random.default_rng(2)
    near, p_ = rng.integers(-9, 9, (4, 3)) / 8, np.array([1.0, 2, 1, 4])  # of which the means are exact
    for by in ("p", "X"):
        hessian = ed.hessian(f, by)
        expected = ed.compile(hessian)(X=near, p=p_)
        for found in (ed.compile(hessian)(X=near + FAR, p=p_), ed.evaluate(hessian, {"X": near + FAR, "p": p_})):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def attention(x: Any) -> Any:
    return ed.sum((ed.softmax(-((x[:, None] - x[None, :]) ** 2), axis=1) @ x - x) ** 2)


def distances_less_their_mean(x: Any) -> Any:
    squares = (x[:, None] - x[None, :]) ** 2
    return ed.sum((squares - ed.mean(squares)) ** 2)


@pytest.mark.parametrize("f", [attention, distances_less_their_mean])
def test_data_of_which_only_differences_count_are_these(f: Callable) -> None:
    """Derivatives are those of the same points near zero, and say of which function they are."""
    x, v = ed.vector("x", 5), ed.vector("v", 5)
    near, direction = np.array([0.0, 1.5, -0.5, 0.25, 2.0]), np.array([1.0, -2, 0.5, 3, 1])
    function = f(x)
    hessian = ed.hessian(function, x)
    expected = ed.compile(hessian)(x=near)
    for found in (ed.compile(hessian)(x=near + FAR), ed.evaluate(hessian, {"x": near + FAR})):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    diagonal = ed.compile(ed.hessian_diagonal(function, x))(x=near + FAR)
    np.testing.assert_allclose(diagonal, expected.diagonal(), rtol=0, atol=1e-13 * np.abs(expected).max())
    along = ed.compile(ed.hvp(function, x, v))(x=near + FAR, v=direction)
    np.testing.assert_allclose(along, expected @ direction, rtol=0, atol=1e-13 * np.abs(expected @ direction).max())


def test_deviations_come_before_what_is_added_to_them() -> None:
    """Added to the data itself, small numbers would lose their digits."""
    x, y = ed.vector("x", 4), ed.vector("y", 4)
    gradient = ed.gradient(ed.logsumexp(x - ed.mean(x) + y), x)
    z, b = np.array([0.5, 2, -1, 0.5]), np.array([0.1, 0.2, 0.3, 0.7])
    expected = np.exp(z - 0.5 + b) / np.exp(z - 0.5 + b).sum() - 0.25
    for found in (ed.compile(gradient)(x=z + FAR, y=b), ed.evaluate(gradient, {"x": z + FAR, "y": b})):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


COUNTS = {
    "one entry": lambda x, d: ed.sum(ed.exp(d)) + x[0] ** 2,
    "products": lambda x, d: d @ x,
    "a mean": lambda x, d: ed.mean(x) + ed.logsumexp(d),
    "a factor": lambda x, d: x @ ed.exp(d),
    "numbers that add up to less": lambda x, d: ed.sum(ed.exp(x - 0.3 * ed.sum(x))),
}


@pytest.mark.parametrize("name", COUNTS)
def test_data_that_counts_itself_is_left_as_it_is(name: str) -> None:
    x = ed.vector("x", 3)
    assert ed.check(COUNTS[name](x, x - ed.mean(x)), x, at={"x": np.array([1.0, 3.0, 4.5])}).passed


def test_diagonals_of_blocks_are_computed_as_they_are() -> None:
    """What most entries are not is not looked for in an array with all of them."""
    Z, Y = ed.matrix("Z", 40, 4), ed.matrix("Y", 40, 4)
    hessian = ed.hessian(ed.sum(ed.softmax(Z, axis=1) * (Z - Y)), Z)
    assert balances([hessian]) == {}
    assert ed.plan(hessian).flops < 16 * 40 * 4 * 4


def test_diagonals_of_tiles_are_what_is_beside_them() -> None:
    """Where an array is made some rows at a time, its diagonal too: not by another pass over all of it."""
    X = ed.matrix("X", "n", 3)
    apart = ed.einsum("ik,j->ijk", X, ed.ones("n")) - ed.einsum("jk,i->ijk", X, ed.ones("n"))
    hessian = ed.hessian(ed.sum(ed.sqrt(ed.sum(apart**2, 2) + 1)), X)
    Z = np.random.default_rng(4).normal(size=(200, 3))
    compiled = ed.compile(hessian, sizes={"n": 200})
    assert "tile_start" in compiled.source and "result.sum" not in compiled.source
    d = Z[:, None] - Z
    r = np.sqrt((d**2).sum(2) + 1)
    blocks = 2 * (d[..., None] * d[..., None, :] / r[..., None, None] ** 3 - np.eye(3) / r[..., None, None])
    blocks[range(200), range(200)] -= blocks.sum(1)
    np.testing.assert_allclose(compiled(X=Z), blocks.transpose(0, 2, 1, 3), rtol=1e-9, atol=1e-11)
