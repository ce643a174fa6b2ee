"""Sums over all pairs lose no digits to what an index has with itself, where that cancels; the oracle has 80 digits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

import eindiff as ed
import oracles  # noqa: F401 (double precision)

mpmath.mp.dps = 80
STEP = mpmath.mpf(10) ** -20
POINTS = np.array([[0.0, 0.1], [1.2, 0.3], [0.2, 1.4], [1.5, 1.7]])
CHARGES = np.array([1.0, -2.0, 0.5, 3.0])
LONG = SimpleNamespace(
    sum=np.sum, sqrt=np.vectorize(mpmath.sqrt), log=np.vectorize(mpmath.log),
    eye=lambda n: np.array(mpmath.eye(n).tolist()),
)  # fmt: skip
SHORT = SimpleNamespace(sum=ed.sum, sqrt=ed.sqrt, log=ed.log, eye=ed.eye)


def squares(lib: Any, X: Any) -> Any:
    return lib.sum((X[:, None, :] - X[None, :, :]) ** 2, 2)


def lennard_jones(lib: Any, X: Any, q: Any) -> Any:
    r = squares(lib, X) + lib.eye(4) / 1024
    return lib.sum(1 / r**6 - 1 / r**3)


def softened(lib: Any, X: Any, q: Any) -> Any:
    return lib.sum(q[:, None] * q[None, :] / lib.sqrt(squares(lib, X) + 2.0**-20))


def distances(lib: Any, X: Any, q: Any) -> Any:
    return lib.sum(lib.sqrt(squares(lib, X) + 1e-16))


def distances_to_others(lib: Any, X: Any, q: Any) -> Any:
    return lib.sum((lib.sqrt(squares(lib, X) + 1e-16) - q[:, None]) ** 2)


def sums_of_distances(lib: Any, X: Any, q: Any) -> Any:
    return lib.sum(lib.sum(lib.sqrt(squares(lib, X) + 1e-16), 1) ** 2)


def logarithms(lib: Any, X: Any, q: Any) -> Any:
    return lib.sum(lib.log(squares(lib, X) + q[0] * 1e-12))


ENERGIES = (lennard_jones, softened, distances, distances_to_others, sums_of_distances, logarithms)


def hessian(f: Callable) -> np.ndarray:
    X, q = (np.vectorize(mpmath.mpf)(x) for x in (POINTS, CHARGES))
    rows = [STEP * row.reshape(4, 2) for row in np.eye(8, dtype=int)]

    def along(a: Any, b: Any) -> Any:
        ends = [sign * f(LONG, X + a + sign * b, q) - sign * f(LONG, X - a + sign * b, q) for sign in (1, -1)]
        return sum(ends) / (4 * STEP**2)

    return np.array([[along(a, b) for b in rows] for a in rows], dtype=float)


@pytest.mark.parametrize("library", ["numpy", "jax"])
@pytest.mark.parametrize("f", ENERGIES)
def test_diagonals_and_products_of_hessians_of_energies_of_pairs(f: Callable, library: str) -> None:
    X, q, v = ed.matrix("X", 4, 2), ed.vector("q", 4), ed.matrix("v", 4, 2)
    energy, expected, along = f(SHORT, X, q), hessian(f), np.linspace(-1, 2, 8).reshape(4, 2)
    arrays = {"X": POINTS, "q": CHARGES, "v": along}
    exact = {
        ed.hessian_diagonal(energy, X): expected.diagonal().reshape(4, 2),
        ed.einsum("abcd,cd->ab", ed.hessian(energy, X), v): (expected @ along.ravel()).reshape(4, 2),
    }
    for expr, right in exact.items():
        given = {x.name: arrays[x.name] for x in ed.variables(expr)}
        for found in (np.asarray(ed.compile(expr, library)(**given)), ed.evaluate(expr, given)):
            np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-12 * np.abs(right).max())


def test_sums_over_others_are_in_tiles_too() -> None:
    X = ed.matrix("X", "n", 3)
    diagonal = ed.hessian_diagonal(distances(SHORT, X, None), X)
    Z = np.random.default_rng(4).normal(size=(400, 3))
    compiled = ed.compile(diagonal, sizes={"n": 400})
    d = Z[:, None] - Z
    r = np.sqrt((d**2).sum(2)) + np.eye(400)
    each = (1 / r[..., None] - d**2 / r[..., None] ** 3) * (1 - np.eye(400))[..., None]
    np.testing.assert_allclose(compiled(X=Z), 2 * each.sum(1), rtol=1e-11)
    assert "tile_start" in compiled.source
