"""Values and derivatives where the formula as it is written would overflow, underflow or lose all digits.

The oracle is the same formula in arithmetic of 80 digits, with central differences in place of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

import eindiff as ed
from backend_libraries import cupy_or_stand_in, every_library  # noqa: F401
from eindiff.core.nodes import Expr

mp = mpmath.mp.clone()
mp.dps = 80
exp, log = mp.exp, mp.log
v, w, p, c = ed.vector("v", 3), ed.vector("w", 3), ed.vector("p", 3, "positive"), ed.scalar("c")
V, A, d = ed.matrix("V", 2, 2), ed.matrix("A", 2, 3), ed.scalar("d")
ROWS = np.array([[0.0, 0.5, 2.0], [1.0, 0.0, 0.0]])
WEIGHTS = {
    "A": np.array([[1.5, -0.25, 0.0], [0.0, 0.5, 2.0]]), "d": np.asarray(0.25),
    "w": np.array([0.5, -0.25, 0.75]), "p": np.array([0.5, 1.25, 0.75]), "c": np.asarray(1.5),
}  # fmt: skip

Oracle = Callable[[list], Any]


def differences(f: Oracle, point: np.ndarray, order: int, step: float) -> np.ndarray:
    """The derivative of a function of a list, by central differences in many digits."""
    center = [mp.mpf(float(entry)) for entry in point]
    h = mp.mpf(step)
    result = np.empty((len(center),) * order)
    for place in np.ndindex(result.shape):
        total = mp.mpf(0)
        for signs in product((1, -1), repeat=order):
            moved = list(center)
            for axis, sign in zip(place, signs, strict=True):
                moved[axis] += sign * h
            total += np.prod(signs, dtype=int).item() * f(moved)
        result[place] = float(total / (2 * h) ** order)
    return result


def check(library: Any, f: Expr, x: Expr, oracle: Oracle, point: np.ndarray, orders: int, step: float) -> None:
    """The value and the derivatives, from a compiled program and from the interpreter."""
    arrays = {x.name: point.reshape(2, 2) if x.ndim == 2 else point, **WEIGHTS}  # type: ignore[attr-defined]
    derivatives = [f]
    for _ in range(orders):
        derivatives.append(ed.derivative(derivatives[-1], x))
    names = {variable.name for variable in ed.variables(*derivatives)}
    given = {name: array for name, array in arrays.items() if name in names}
    compiled = library.values(derivatives, given)
    for order, (one, other) in enumerate(zip(compiled, ed.evaluate(derivatives, given), strict=True)):
        expected = differences(oracle, point, order, step)
        for value in (one, other):
            size = max(np.max(np.abs(expected)), 1e-12)
            np.testing.assert_allclose(np.reshape(value, expected.shape) / size, expected / size, atol=1e-9, rtol=0)


def total(entries: Any) -> Any:
    return mp.fsum(entries)


def weighted(name: str, entries: Any) -> Any:
    """The sum of entries with the weights of a name."""
    return total(mp.mpf(float(a)) * b for a, b in zip(WEIGHTS[name], entries, strict=True))


LOGARITHMS: dict[str, tuple[Expr, Expr, Oracle]] = {
    "sum": (ed.log(ed.sum(ed.exp(v))), v, lambda x: log(total(map(exp, x)))),
    "mean": (ed.log(ed.mean(ed.exp(v))), v, lambda x: log(total(map(exp, x)) / 3)),
    "a number": (ed.log(ed.sum(2 * ed.exp(v))), v, lambda x: log(2 * total(map(exp, x)))),
    "a scalar": (ed.log(ed.sum(c * ed.exp(v))), v, lambda x: log(1.5 * total(map(exp, x)))),
    "weights": (ed.log(ed.sum(w * ed.exp(v))), v, lambda x: log(weighted("w", map(exp, x)))),
    "positive weights": (ed.log(p @ ed.exp(v)), v, lambda x: log(weighted("p", map(exp, x)))),
    "constant weights": (
        ed.log(np.array([0.5, 2.0, 3.0]) @ ed.exp(v)), v, lambda x: log(exp(x[0]) / 2 + 2 * exp(x[1]) + 3 * exp(x[2])),
    ),
    "of a power": (ed.log(ed.sum(ed.exp(v)) ** -2), v, lambda x: -2 * log(total(map(exp, x)))),
    "times an exponential": (ed.log(c * ed.exp(-v[0]) * ed.mean(ed.exp(2 * v))), v, lambda x: (
        log(1.5 * exp(-x[0]) * total(exp(2 * y) for y in x) / 3)
    )),
    "two": (ed.log(2 * ed.exp(v[0]) + ed.exp(v[1]) * 3), v, lambda x: log(2 * exp(x[0]) + 3 * exp(x[1]))),
    "five": (
        ed.log(1 + ed.exp(v[0]) + ed.exp(v[1]) + ed.exp(v[2]) + ed.exp(v[0] - v[1])), v,
        lambda x: log(1 + exp(x[0]) + exp(x[1]) + exp(x[2]) + exp(x[0] - x[1])),
    ),
    "of rows": (ed.sum(ed.log(ed.sum(ed.exp(V), 1))), V, lambda x: (
        log(exp(x[0]) + exp(x[1])) + log(exp(x[2]) + exp(x[3]))
    )),
    "of means of columns": (ed.sum(ed.log(ed.mean(ed.exp(V), 0)) ** 2), V, lambda x: (
        log((exp(x[0]) + exp(x[2])) / 2) ** 2 + log((exp(x[1]) + exp(x[3])) / 2) ** 2
    )),
    "of a matrix": (ed.sum(ed.log(ROWS @ ed.exp(v)) ** 2), v, lambda x: (
        total(log(total(mp.mpf(a) * exp(b) for a, b in zip(row, x, strict=True))) ** 2 for row in ROWS.tolist())
    )),
    "of a variable matrix": (ed.sum(ed.log(A @ ed.exp(v))), v, lambda x: (
        total(log(total(mp.mpf(a) * exp(b) for a, b in zip(row, x, strict=True))) for row in WEIGHTS["A"].tolist())
    )),
    "of a quadratic form": (ed.log(ed.exp(v) @ (ROWS.T @ ROWS) @ ed.exp(v)), v, lambda x: log(
        total(total(mp.mpf(a) * exp(b) for a, b in zip(row, x, strict=True)) ** 2 for row in ROWS.tolist())
    )),
    "two of any sign": (ed.log(c * ed.exp(v[0]) - d * ed.exp(v[1])), v, lambda x: log(1.5 * exp(x[0]) - exp(x[1]) / 4)),
    "with a number": (ed.sum(ed.log(1 + c * ed.exp(v))), v, lambda x: total(log(1 + 1.5 * exp(y)) for y in x)),
    "with a scalar": (ed.log(c + ed.exp(v[0])), v, lambda x: log(1.5 + exp(x[0]))),
    "with a sum": (ed.log(1 + ed.sum(ed.exp(v))), v, lambda x: log(1 + total(map(exp, x)))),
    "a sum and one more": (
        ed.log(2 * ed.sum(ed.exp(v)) + c * ed.exp(v[0]) + d), v,
        lambda x: log(2 * total(map(exp, x)) + 1.5 * exp(x[0]) + 0.25),
    ),
    "a weighted sum and a number": (ed.log(2 + w @ ed.exp(v)), v, lambda x: log(2 + weighted("w", map(exp, x)))),
    "with the largest by hand": (
        ed.max(v) + ed.log(ed.sum(ed.exp(v - ed.max(v)))), v, lambda x: log(total(map(exp, x))),
    ),
    "log of cosh": (ed.sum(ed.log(ed.cosh(v))), v, lambda x: total(log(mp.cosh(y)) for y in x)),
    "of a slice": (ed.log(ed.sum(ed.exp(v)[1:])), v, lambda x: log(exp(x[1]) + exp(x[2]))),
    "log1p": (ed.sum(ed.log1p(2 * ed.exp(v))), v, lambda x: total(log(1 + 2 * exp(y)) for y in x)),
    "log1p of a sum": (ed.log1p(ed.sum(ed.exp(v))), v, lambda x: log(1 + total(map(exp, x)))),
    "difference": (ed.log(ed.exp(v[0] + 1) - ed.exp(v[0])), v, lambda x: log(exp(x[0] + 1) - exp(x[0]))),
    "softmax": (
        ed.sum(v * ed.exp(v) / ed.sum(ed.exp(v))), v,
        lambda x: total(y * exp(y) for y in x) / total(map(exp, x)),
    ),
    "weighted softmax": (
        (v * p) @ ed.exp(v) / (p @ ed.exp(v)), v,
        lambda x: weighted("p", [y * exp(y) for y in x]) / weighted("p", map(exp, x)),
    ),
    "ratio of two": (
        ed.exp(v[0]) / (ed.exp(v[0]) + 2 * ed.exp(v[1])), v, lambda x: exp(x[0]) / (exp(x[0]) + 2 * exp(x[1])),
    ),
    "ratio of three": (
        ed.exp(v[0]) / (ed.exp(v[0]) + 2 * ed.exp(v[1]) + ed.exp(v[2])), v,
        lambda x: exp(x[0]) / (exp(x[0]) + 2 * exp(x[1]) + exp(x[2])),
    ),
    "logistic": (1 / (3 + 2 * ed.exp(v[0])), v, lambda x: 1 / (3 + 2 * exp(x[0]))),
}  # fmt: skip


@pytest.mark.parametrize("shift", [-800.0, 800.0])
@pytest.mark.parametrize("name", LOGARITHMS)
def test_sums_of_exponentials(library, name, shift):
    f, x, oracle = LOGARITHMS[name]
    point = np.array([0.5, -0.25, 1.0, 0.125])[: 4 if x.ndim == 2 else 3] + shift
    check(library, f, x, oracle, point, 3, 1e-12)


@pytest.mark.parametrize(
    "f", [ed.log(A @ ed.exp(v)), ed.log(w @ ed.exp(v)), ed.log(c * ed.exp(v[0]) + d * ed.exp(v[2]))]
)
def test_what_has_no_weight_does_no_harm(library, f):
    """However large its exponential is."""
    arrays = {"v": np.array([0.5, -1.0, 900.0]), "w": np.array([2.0, 1, 0]), "c": np.asarray(2.0), "d": np.asarray(0.0)}
    arrays["A"] = np.array([[2.0, 1, 0], [1, 0, 0]])
    derivatives = [f, ed.derivative(f, v), ed.derivative(f, v, v), ed.derivative(f, v, v, v)]
    near = {**arrays, "v": np.array([0.5, -1.0, 0.0])}
    names = {variable.name for variable in ed.variables(*derivatives)}
    with np.errstate(all="ignore"):  # NumPy in CuPy's place
        found = library.values(derivatives, {name: arrays[name] for name in names})
    evaluated = ed.evaluate(derivatives, {name: arrays[name] for name in names})
    expected = ed.evaluate(derivatives, {name: near[name] for name in names})
    for values in zip(found, evaluated, expected, strict=True):
        np.testing.assert_allclose(values[0], values[2], atol=1e-12)
        np.testing.assert_allclose(values[1], values[2], atol=1e-12)


def test_log_of_expm1_is_accurate_at_both_ends():
    for point in (1e-12, 1.0, 800.0):
        value = ed.evaluate(ed.log(ed.expm1(c)), {"c": point})
        np.testing.assert_allclose(value, float(log(mp.expm1(mp.mpf(point)))), rtol=1e-13)


def test_what_lies_off_the_diagonal_stays_there():
    """The logarithm of 0 is -inf, and its exponential 0."""
    arrays = {"v": np.array([0.5, -1.0, 2.0])}
    expected = np.diag(np.exp(arrays["v"]) + 1)
    np.testing.assert_allclose(ed.evaluate(ed.exp(ed.log(ed.diag(ed.exp(v) + 1))), arrays), expected, atol=0)
    for inner in (ed.diag(ed.exp(v)), ed.diag(2 * ed.exp(v) + 1), ed.diag(ed.sigmoid(v)), ed.diag(1 / (1 + ed.exp(v)))):
        value = ed.evaluate(ed.log(inner), arrays)
        assert (value[~np.eye(3, dtype=bool)] == -np.inf).all()


@pytest.mark.parametrize(
    ("point", "gradient", "second"),
    [
        ((0.0, 0.0), (1, 0), ((0, -np.inf), (-np.inf, 0))),
        ((0.0, 1.0), (0, 0), ((2, 0), (0, 0))),
        ((0.0, 0.5), (0, 0), ((np.inf, 0), (0, 0))),
        ((0.0, 2.5), (0, 0), ((0, 0), (0, 0))),
        ((0.0, -1.0), (0, -np.inf), None),
    ],
)
def test_derivatives_of_powers_at_zero(library, point, gradient, second):
    """x**y is x**2 for y = 2, whatever x is; where the limit of a derivative is 0 it is 0 at x = 0 too."""
    u = ed.vector("u", 2)
    f = u[0] ** (u[1] + 1)
    arrays = {"u": np.array(point)}
    for derivative, expected in ((ed.gradient(f, u), gradient), (ed.hessian(f, u), second)):
        if expected is not None:
            with np.errstate(all="ignore"):  # NumPy in CuPy's place
                np.testing.assert_array_equal(library.values([derivative], arrays)[0], expected)
            np.testing.assert_array_equal(ed.evaluate(derivative, arrays), expected)


# Numbers in front


@pytest.mark.parametrize(
    ("build", "point", "expected"),
    [
        (lambda x: (1e-200 * x) ** 2, 1e200, 1.0),
        (lambda x: (1e300 * x) ** 2, 1e-200, 1e200),
        (lambda x: (1e200 * x) ** 2.5, 1e-200, 1.0),
        (lambda x: (1e-200 * x) ** -3, 1e200, 1.0),
        (lambda x: ed.sqrt(1e-310 * x * x), -1e155, 1.0),
        (lambda x: ed.gradient((1e200 * x) ** 2.5, x), 1e-200, 2.5e200),
        (lambda x: (3 * x) ** 123456789, 1 / 3, 1.0),
        (lambda x: ed.det(1e200 * x * ed.eye(3)), 1e-200, 1.0),
    ],
)
def test_powers_of_multiples_stay_in_range(build, point, expected):
    x = ed.scalar("x")
    np.testing.assert_allclose(ed.evaluate(build(x), {"x": point}), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: (1e-200 * x) * (1e-200 * x),
        lambda x: 1e200 * (1e200 * x),
        lambda x: 1e308 * x + 1e308 * x,
        lambda x: ed.gradient((1e-200 * x) ** 2, x),
        lambda x: x / 1e-310,
        lambda x: 10**400 * x,
        lambda x: x / 10**400,
    ],
)
def test_numbers_out_of_range_are_errors(build):
    with pytest.raises(ed.EindiffError, match=r"too (large|small)"):
        build(ed.scalar("x"))


def test_infinite_coefficients_stay_infinite():
    value = ed.evaluate(np.inf * v + np.inf * w, {"v": np.ones(3), "w": np.ones(3)})
    assert (value == np.inf).all()


# No entries


@pytest.mark.parametrize("build", [ed.max, ed.min, ed.logsumexp, ed.mean, ed.softmax], ids=lambda f: f.__name__)
def test_functions_of_no_entries_are_errors(library, build):
    z = ed.vector("z", "n")
    for f in (build(z), ed.derivative(ed.sum(build(z) ** 2), z)):
        with pytest.raises(ed.EindiffError, match="needs n >= 1, but n = 0"):
            library.values([f], {"z": np.zeros(0)})
        with pytest.raises(ed.EindiffError, match="needs n >= 1, but n = 0"):
            ed.evaluate(f, {"z": np.zeros(0)})


def test_sums_and_products_of_no_entries(library):
    z = ed.vector("z", "n")
    outputs = [ed.sum(z), ed.prod(z), ed.norm1(z), ed.norm2(z)]
    np.testing.assert_array_equal(library.values(outputs, {"z": np.zeros(0)}), [0, 1, 0, 0])
    np.testing.assert_array_equal(ed.evaluate(outputs, {"z": np.zeros(0)}), [0, 1, 0, 0])


# Norms

Y = ed.vector("y", 3)
M = ed.matrix("M", 2, 2)
TALL, SHIFT = np.random.default_rng(3).normal(size=(5, 3)), np.array([1.0, -0.5, 0.25, 2.0, 0.75])


def residual(x: list, row: np.ndarray, shift: float) -> Any:
    """An entry of `TALL x - x0 SHIFT`."""
    return mp.fdot(map(float, row), x) - x[0] * float(shift)


NORMS: dict[str, tuple[Expr, Expr, Oracle, int]] = {
    "of a vector": (ed.norm2(Y), Y, lambda x: mp.sqrt(total(a * a for a in x)), 2),
    "as people write it": (ed.sqrt(ed.sum(Y**2)), Y, lambda x: mp.sqrt(total(a * a for a in x)), 2),
    "of a matrix": (ed.norm2(M), M, lambda x: mp.sqrt(total(a * a for a in x)), 2),
    "of a unit vector": ((Y / ed.norm2(Y)) @ ed.ones(3), Y, lambda x: total(x) / mp.sqrt(total(a * a for a in x)), 0),
    "of two numbers": (ed.sqrt(Y[0] ** 2 + Y[2] ** 2), Y, lambda x: mp.sqrt(x[0] ** 2 + x[2] ** 2), 2),
    "with weights": (
        ed.sqrt(2 * ed.sum(Y**2) + 3 * Y[1] ** 2), Y, lambda x: mp.sqrt(2 * total(a * a for a in x) + 3 * x[1] ** 2), 2,
    ),
    "of a difference": (
        ed.norm2(TALL @ Y - Y[0] * SHIFT), Y,
        lambda x: mp.sqrt(total(residual(x, a, b) ** 2 for a, b in zip(TALL, SHIFT, strict=True))), 2,
    ),
    "of a product": (ed.norm2(TALL @ Y), Y, lambda x: mp.sqrt(total(residual(x, a, 0) ** 2 for a in TALL)), 2),
    "of a product and a vector": (
        ed.sqrt(ed.sum((TALL @ Y) ** 2) + ed.sum(Y**2)), Y,
        lambda x: mp.sqrt(total(residual(x, a, 0) ** 2 for a in TALL) + total(a * a for a in x)), 2,
    ),
    "of a part": (ed.norm2(Y[1:]), Y, lambda x: mp.sqrt(x[1] ** 2 + x[2] ** 2), 2),
    "of rows": (
        ed.sum(ed.norm2(M, 1)), M,
        lambda x: mp.sqrt(x[0] ** 2 + x[1] ** 2) + mp.sqrt(x[2] ** 2 + x[3] ** 2), 2,
    ),
    "of columns": (
        ed.sum(ed.norm2(M, 0)), M,
        lambda x: mp.sqrt(x[0] ** 2 + x[2] ** 2) + mp.sqrt(x[1] ** 2 + x[3] ** 2), 2,
    ),
    "of rows of a product": (
        ed.sum(ed.norm2(M @ np.array([[2.0, 1.0], [0.0, 1.0]]), 1)), M,
        lambda x: total(mp.sqrt(4 * x[k] ** 2 + (x[k] + x[k + 1]) ** 2) for k in (0, 2)), 2,
    ),
    "of unit rows": (
        ed.sum(np.array([[1.0, 2.0], [3.0, 4.0]]) * (M / ed.norm2(M, 1)[:, None])), M,
        lambda x: total((k + 1) * x[k] / mp.sqrt(x[k // 2 * 2] ** 2 + x[k // 2 * 2 + 1] ** 2) for k in range(4)), 1,
    ),
    "of entries": (
        ed.sum(ed.sqrt(Y**2 + 9 * Y[0] ** 2)), Y, lambda x: total(mp.sqrt(a * a + 9 * x[0] ** 2) for a in x), 1,
    ),
    "of entries with weights": (
        ed.sum(ed.sqrt(Y**2 + (SHIFT[:3] * Y[::-1]) ** 2)), Y,
        lambda x: total(mp.sqrt(x[k] ** 2 + (float(SHIFT[k]) * x[2 - k]) ** 2) for k in range(3)), 1,
    ),
    "of the mean of squares": (ed.sqrt(ed.mean(Y**2)), Y, lambda x: mp.sqrt(total(a * a for a in x) / 3), 2),
    "beside two numbers": (
        ed.sum(Y) * Y[0] / ed.norm2(Y), Y, lambda x: total(x) * x[0] / mp.sqrt(total(a * a for a in x)), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1e-200, 1e-150, 1.0, 1e150, 1e200])
@pytest.mark.parametrize("name", NORMS)
def test_norms_over_the_whole_range(library, name, size):
    f, x, oracle, orders = NORMS[name]
    point = np.array([0.5, -0.25, 1.0, 0.125])[: 4 if x.ndim == 2 else 3] * size
    derivatives = [f]
    for _ in range(orders):
        derivatives.append(ed.derivative(derivatives[-1], x))
    arrays = {x.name: point.reshape(2, 2) if x.ndim == 2 else point}  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):  # squares out of range
        compiled, evaluated = library.values(derivatives, arrays), ed.evaluate(derivatives, arrays)
    for order, values in enumerate(zip(compiled, evaluated, strict=True)):
        expected = differences(oracle, point, order, 1e-20 * size)
        for value in values:
            scale = np.max(np.abs(expected))
            np.testing.assert_allclose(np.reshape(value, expected.shape) / scale, expected / scale, atol=1e-9, rtol=0)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_norms_of_two_numbers(library, size):
    """sqrt(a² + 9 c²) at a = 4, c = 1, and sqrt(a² + 9) at 4: 5, in units of size."""
    a, c = ed.scalar("a"), ed.scalar("c")
    f = ed.sqrt(a**2 + 9 * c**2)
    outputs = [f, ed.gradient(f, a), ed.gradient(f, c), ed.derivative(f, a, a), ed.gradient(ed.sqrt(a**2 + 9), a)]
    slope = 4 * size / np.hypot(4 * size, 3)
    arrays = {"a": np.asarray(4 * size), "c": np.asarray(size)}
    with np.errstate(all="ignore"):
        for values in (library.values(outputs, arrays), ed.evaluate(outputs, arrays)):
            np.testing.assert_allclose(values, [5 * size, 4 / 5, 9 / 5, 9 / 125 / size, slope], rtol=1e-13)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_norms_of_products(library, size):
    """The square of ‖A x‖ is one contraction of x, A, A, x, whose value is out of range where A x is not."""
    B = ed.matrix("B", 5, 3)
    f = ed.sqrt(ed.sum((B @ Y) ** 2))
    point = np.array([0.5, -0.25, 1.0])
    arrays = {"B": TALL, "y": point * size}
    expected = np.linalg.norm(TALL @ point)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(library.values([f], arrays)[0], expected * size, rtol=1e-13)
        np.testing.assert_allclose(ed.evaluate(f, arrays), expected * size, rtol=1e-13)
        gradient = ed.evaluate(ed.gradient(f, Y), arrays)
    np.testing.assert_allclose(gradient, TALL.T @ (TALL @ point) / expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-200, 1e-150, 1.0, 1e150, 1e200])
def test_norms_of_entries(library, size):
    """sqrt(x² + 9 y²) of each entry, at x = 4 and 8, y = 1 and -2: 5 and 10, in units of size."""
    x, y = ed.vector("x", 2), ed.vector("y", 2)
    f = ed.sqrt(x**2 + 9 * y**2)
    outputs = [f, *[ed.jacobian(f, one) for one in (x, y)], ed.hessian(ed.sum(f), x), ed.derivative(ed.sum(f), x, y)]
    arrays = {"x": size * np.array([4.0, 8.0]), "y": size * np.array([1.0, -2.0])}
    diagonals = [[4 / 5, 4 / 5], [9 / 5, -9 / 5], [9 / 125, 9 / 250], [-36 / 125, 36 / 250]]
    expected = [[5.0, 10.0], *map(np.diag, diagonals)]
    with np.errstate(all="ignore"):  # squares out of range
        for values in (library.values(outputs, arrays), ed.evaluate(outputs, arrays)):
            for value, unit, wanted in zip(values, (size, 1.0, 1.0, 1 / size, 1 / size), expected, strict=True):
                np.testing.assert_allclose(np.asarray(value) / unit, wanted, rtol=1e-13)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_derivatives_of_exponentials_in_directions_of_all_sizes(library, size):
    """At diag(1, -1) the derivative has divided differences of exp; the second one at 0 is that of squares."""
    W = ed.matrix("W", 2, 2)
    direction, weights = np.array([[0.5, -2.0], [1.0, 0.25]]), size * np.array([[1.0, 3.0], [-0.5, 2.0]])
    first = ed.gradient(ed.sum(W * ed.expm(V)), V)
    second = ed.derivative(ed.parse("sum(W .* expm(V, E))", "W(2,2); V(2,2); E(2,2)"), "V")
    slopes = np.array([[np.exp(1.0), np.sinh(1.0)], [np.sinh(1.0), np.exp(-1.0)]])
    found = library.values([first], {"V": np.diag([1.0, -1.0]), "W": weights})[0]
    np.testing.assert_allclose(found, slopes * weights, rtol=1e-14)
    found = library.values([second], {"V": np.zeros((2, 2)), "W": weights, "E": size * direction})[0]
    expected = size * (direction.T @ weights + weights @ direction.T) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-14)
