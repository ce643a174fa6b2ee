"""Gradients through softmaxes that are nearly unit matrices: what cancels is not computed. The oracle has 80 digits."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import eindiff as ed

STEP = mpmath.mpf(10) ** -20
RNG = np.random.default_rng(3)
Z = np.eye(5) + 0.03 * RNG.normal(size=(5, 5))
W = Z + 0.02 * RNG.normal(size=Z.shape)
POINT = {"Z": 2 * Z, "W": W, "t": np.array(0.04)}
ROOT, EXP, LOG = (np.vectorize(x, otypes=[object]) for x in (mpmath.sqrt, mpmath.exp, mpmath.log))


class Long:
    """The functions that losses are made of, of arrays of many digits."""

    @staticmethod
    def unit(x: Any) -> Any:
        return x / ROOT((x**2).sum(axis=1))[:, None]

    @staticmethod
    def logsumexp(x: Any, axis: int) -> Any:
        return LOG(EXP(x).sum(axis=axis))

    diag, sum = staticmethod(np.diag), staticmethod(np.sum)


class Short:
    """The same of expressions."""

    @staticmethod
    def unit(x: Any) -> Any:
        return x / ed.sqrt(ed.sum(x**2, axis=1))[:, None]

    logsumexp, diag, sum = staticmethod(ed.logsumexp), staticmethod(ed.diag), staticmethod(ed.sum)


def of_rows(lib: Any, Z: Any, W: Any, t: Any) -> Any:
    s = lib.unit(Z) @ lib.unit(W).T / t
    return lib.sum(lib.logsumexp(s, axis=1) - lib.diag(s))


def of_columns(lib: Any, Z: Any, W: Any, t: Any) -> Any:
    s = lib.unit(Z) @ W.T / t
    return lib.sum(lib.logsumexp(s, axis=0) - lib.diag(s))


def of_both(lib: Any, Z: Any, W: Any, t: Any) -> Any:
    s = lib.unit(Z) @ lib.unit(W).T / t
    return lib.sum(lib.logsumexp(s, axis=0) + lib.logsumexp(s, axis=1) - 2 * lib.diag(s)) / 10


def of_distances(lib: Any, Z: Any, W: Any, t: Any) -> Any:
    s = -lib.sum((Z[:, None, :] / 2 - W[None, :, :]) ** 2, axis=2) / (2 * t)
    return lib.sum(lib.logsumexp(s, axis=1) - lib.diag(s))


def exactly(loss: Callable, name: str) -> np.ndarray:
    """The gradient by central differences."""
    with mpmath.workdps(80):
        point = {key: np.vectorize(mpmath.mpf, otypes=[object])(x) for key, x in POINT.items()}
        found = np.zeros(POINT[name].shape)
        for place in np.ndindex(found.shape):
            values = []
            for sign in (1, -1):
                moved = np.array(point[name], object)
                moved[place] += sign * STEP
                values.append(loss(Long, **{**point, name: moved[()]}))
            found[place] = float((values[0] - values[1]) / (2 * STEP))
    return found


@pytest.mark.parametrize("name", ["Z", "W", "t"])
@pytest.mark.parametrize("loss", [of_rows, of_columns, of_both, of_distances])
def test_gradients_of_contrastive_losses(loss: Callable, name: str) -> None:
    """All probabilities of pairs are nearly 1, and gradients are of the size of what is left."""
    variables = {"Z": ed.matrix("Z", 5, 5), "W": ed.matrix("W", 5, 5), "t": ed.scalar("t")}
    gradient = ed.gradient(loss(Short, **variables), variables[name])
    expected = exactly(loss, name)
    assert np.abs(expected).max() < 1e-4
    for found in (ed.evaluate(gradient, POINT), ed.compile(gradient)(**POINT)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
