"""Programs with parts of arrays: nothing is made of which only a part is needed."""

import mpmath
import numpy as np
import pytest

import eindiff as ed


def compiled(function, *shapes, by="abc"):
    """Value and gradients of a function of NumPy arrays."""
    f = ed.symbolic(function, *shapes)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    outputs = ed.compile([f, *(ed.gradient(f, name) for name in names if name in by)])
    return outputs, names


def variances(a, y):
    """The logarithms of variances that depend on the entry before."""
    return np.sum(np.log(np.exp(a[0]) + np.exp(a[1]) * y[:-1] ** 2))


def exact_variances(a, y):
    """The same with 60 digits: the value and the derivative by a."""
    mpmath.mp.dps = 60
    first, second = [mpmath.exp(mpmath.mpf(float(v))) for v in a]
    terms = [(first, second * mpmath.mpf(float(v)) ** 2) for v in y[:-1]]
    shares = [sum(term[k] / sum(term) for term in terms) for k in (0, 1)]
    return float(sum(mpmath.log(sum(term)) for term in terms)), [float(v) for v in shares]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("a", [(0.1, -0.2), (900.0, 905.0), (-900.0, 2.0), (-400.0, -350.0), (50.0, 20.0), (-80, -75)])
def test_a_logarithm_of_few_exponentials_is_that_of_their_sum(a, dtype):
    y = np.random.default_rng(0).normal(size=7).astype(dtype)
    y[2] = 0.0
    program, _ = compiled(variances, 2, 7, by="a")
    value, gradient = program(a=np.array(a, dtype), y=y)
    exact = exact_variances(np.array(a, dtype), y)
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(gradient, exact[1], rtol=rtol)
    np.testing.assert_allclose(value, exact[0], rtol=rtol)
    assert value.dtype == gradient.dtype == dtype
    assert "log_of_total(" in program.source and "zeros((" not in program.source  # no array of all terms
    assert np.isnan(program(a=np.array([np.nan, 0], dtype), y=y)[0])


def test_a_logarithm_of_exponentials_of_nothing_is_nothing():
    program, _ = compiled(variances, 2, "n", by="a")
    value, gradient = program(a=np.zeros(2), y=np.ones(1))
    assert value == 0 and not gradient.any()


def test_sums_of_one_part_are_made_of_others():
    def energy(a):
        return np.sum((a[1:, :-1] - a[:-1, :-1]) ** 2 + (a[:-1, 1:] - a[:-1, :-1]) ** 2)

    program, _ = compiled(energy, (9, 9))
    a = np.random.default_rng(0).normal(size=(9, 9))
    value, gradient = program(a=a)
    down, right = a[1:, :-1] - a[:-1, :-1], a[:-1, 1:] - a[:-1, :-1]
    expected = np.zeros((9, 9))
    expected[1:, :-1] += 2 * down
    expected[:-1, 1:] += 2 * right
    expected[:-1, :-1] -= 2 * (down + right)
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)
    np.testing.assert_allclose(value, energy(a), rtol=1e-13)
    assert program.source.count("a[") == 4  # in the two differences, each once


def test_what_two_sums_have_in_common_does_not_cancel():
    def f(a, b, c):
        return np.sum((a + c) ** 2) - np.sum((b + c) ** 2) + np.sum(c * (a - b))

    program, _ = compiled(f, 3, 3, 3)
    a, b, c = np.array([1.0, 2.0, 3.0]), np.array([0.5, 4.0, 1.0]), np.full(3, 1e17)
    np.testing.assert_array_equal(program(a=a, b=b, c=c)[3], 3 * (a - b))
