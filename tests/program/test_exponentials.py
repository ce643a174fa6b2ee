"""Functions that share an exponential: opposite sigmoids, and a softmax with the logarithm of its sum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import eindiff as ed

x, X = ed.vector("x", "n"), ed.matrix("X", "m", "n")
SMALL, MANY = 60, 6000  # entries that are functions of SciPy, and that are computed by exponentials in place
ENDS = [0.0, 1e-300, 1e-20, 1e-8, 0.5, 1, 30, 40, 700, 708, 709.5, 709.9, 720, 745, 746, 800, 1e5, np.inf]


@pytest.mark.parametrize("count", [SMALL, 600, MANY])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_sigmoids_are_right_to_the_last_digits_everywhere(count: int, dtype: type) -> None:
    values = np.resize(np.array([*ENDS, *(-np.array(ENDS))], dtype), count)
    far = values.astype(np.longdouble)
    with np.errstate(all="ignore"):
        right = [1 / (1 + np.exp(-far)), 1 / (1 + np.exp(far))]
    right = [*right, right[0] * right[1]]
    f = ed.sum(ed.sigmoid(x))
    for outputs, chosen in (
        ([ed.sigmoid(x), ed.sigmoid(-x), ed.gradient(f, x)], [0, 1, 2]),
        ([ed.sigmoid(-x), ed.sigmoid(x)], [1, 0]),
        ([ed.sigmoid(x), ed.gradient(f, x)], [0, 2]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ed.compile(outputs)(x=values)
        for value, k in zip(found, chosen, strict=True):
            info = np.finfo(dtype)
            np.testing.assert_allclose(value.astype(np.longdouble), right[k], rtol=6 * info.eps, atol=info.tiny)


def test_a_sigmoid_of_no_number_is_none() -> None:
    values = np.resize([np.nan, 1000.0, -1000.0, 0.0], MANY)
    found = ed.compile([ed.sigmoid(x), ed.sigmoid(-x)])(x=values)
    np.testing.assert_array_equal(np.array(found)[:, :4], [[np.nan, 1, 0, 0.5], [np.nan, 0, 1, 0.5]])


def test_opposite_sigmoids_take_one_exponential_without_a_sign() -> None:
    f = ed.sum(ed.sigmoid(x)) ** 2
    source = ed.compile([f, ed.gradient(f, x)], sizes={"n": MANY}).source
    assert source.count("np.exp(") == 1 and "-1" not in source


@pytest.mark.parametrize("shape", [(3, 4), (300, 40)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("entry", [800.0, -np.inf, np.inf, np.nan])
def test_softmax_and_logarithm_of_its_sum(shape: tuple[int, int], axis: int, entry: float) -> None:
    f = ed.sum(ed.logsumexp(X, axis))
    values = np.random.default_rng(0).normal(size=shape)
    values[1, 2] = entry
    compiled = ed.compile([f, ed.gradient(f, X)], sizes=dict(zip("mn", shape, strict=True)))
    value, gradient = compiled(X=values)
    assert compiled.source.count("np.exp(") == 1
    with np.errstate(all="ignore"):
        top = np.clip(values.max(axis, keepdims=True), -1e308, 1e308)
        entries = np.exp(values - top)
        sums = entries.sum(axis, keepdims=True)
        np.testing.assert_allclose(value, np.sum(np.log(sums) + top), rtol=1e-13)
        np.testing.assert_allclose(gradient, entries / sums, rtol=1e-13)


@pytest.mark.parametrize("count", [20, 300, MANY])
def test_relu_at_special_values(count: int) -> None:
    values = np.resize([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.0, -3.0], count)
    f = ed.sum(ed.relu(x) ** 2)
    value, softplus = ed.compile([ed.relu(x), ed.softplus(x)])(x=values)
    np.testing.assert_array_equal(value[:7], [np.nan, np.inf, 0, 0, 0, 3, 0])
    np.testing.assert_allclose(softplus[1:7], np.logaddexp(0, values[1:7]), rtol=1e-15)
    np.testing.assert_array_equal(ed.compile(ed.gradient(f, x))(x=values[1:])[1:5], [0, 0, 0, 6])


def test_a_softmax_by_hand_is_one() -> None:
    """What is taken away so that nothing overflows has no derivative: no largest entry is looked for."""
    s, y = ed.matrix("s", 30, 20), ed.matrix("y", 30, 20)
    top = ed.max(s, 1)[:, None]
    entries = ed.exp((s - top) / 7)
    weights = entries / ed.sum(entries, 1)[:, None]
    assert weights is ed.softmax(s / 7, 1)
    logarithms = s - top - ed.log(ed.sum(ed.exp(s - top), 1))[:, None]
    for f in (ed.sum(y * weights), ed.sum(y * logarithms)):
        assert "argmax" not in ed.compile(ed.gradient(f, s)).source
    random = np.random.default_rng(0)
    arrays = {"s": 500 * random.normal(size=(30, 20)), "y": random.normal(size=(30, 20))}
    shifted = arrays["s"] - arrays["s"].max(1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    np.testing.assert_allclose(ed.compile(logarithms)(s=arrays["s"]), expected, atol=1e-10)
    gradient = arrays["y"] - np.exp(expected) * arrays["y"].sum(1, keepdims=True)
    found = ed.compile(ed.gradient(ed.sum(y * logarithms), s))(**arrays)
    np.testing.assert_allclose(found, gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(4,), (5, 1), (1, 4), (1, 1), (5, 4)])
def test_weights_that_are_the_same_along_axes_are_not_copied(shape: tuple[int, ...]) -> None:
    x, w = ed.matrix("x", 5, 4), ed.tensor("w", shape)
    rng = np.random.default_rng(0)
    at, weights = rng.normal(size=(5, 4)), rng.uniform(0.5, 1, shape)
    terms = weights * np.exp(at)
    total = ed.log(ed.sum(w * ed.exp(x), 1))
    program = ed.compile([total, ed.gradient(ed.sum(total), x)])
    assert "broadcast_to" not in program.source
    sums, slopes = program(x=at, w=weights)
    np.testing.assert_allclose(sums, np.log(terms.sum(-1)), rtol=1e-13)
    np.testing.assert_allclose(slopes, terms / terms.sum(-1, keepdims=True), rtol=1e-13)
