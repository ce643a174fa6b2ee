"""Arrays of indices among the arguments of NumPy functions are inputs of their programs: one trace for all batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed

DRAWN, N, SIZE = np.random.default_rng(5), 40, 9
TABLE = DRAWN.permutation(SIZE)
DATA, TARGET = DRAWN.normal(size=(200, 3)), DRAWN.normal(size=200)


def chosen(last: int = SIZE, *shape: int) -> np.ndarray:
    return DRAWN.integers(0, last, size=shape or N)


def added(u: Any, g: Any) -> Any:
    total = np.zeros(SIZE)
    np.add.at(total, g, u**2)
    return total


def log_likelihood(W: Any, Z: Any, y: Any) -> Any:
    scores = Z @ W
    return np.mean((scores - np.log(np.sum(np.exp(scores), axis=1))[:, None])[np.arange(N), y])


CASES: dict[str, tuple[Callable, Callable[[], tuple]]] = {
    "groups": (lambda u, g, y: np.sum((u[g] - y) ** 2 * u[g]), lambda: (SIZE, chosen(), DRAWN.normal(size=N))),
    "batch": (lambda w, i: np.sum((DATA[i] @ w - TARGET[i]) ** 4), lambda: (3, chosen(200))),
    "labels": (log_likelihood, lambda: ((3, 5), DRAWN.normal(size=(N, 3)), chosen(5))),
    "edges": (lambda x, i, j: np.sum((x[i] - x[j]) ** 4), lambda: (SIZE, chosen(), chosen())),
    "entries": (lambda A, i, j: np.sum(np.sin(A[i, j])), lambda: ((SIZE, SIZE), chosen(), chosen())),
    "column": (lambda A, i: np.sum(np.sin(A[i, 0]) * A[i, -1]), lambda: ((SIZE, 2), chosen())),
    "second axis": (lambda A, i: np.sum(np.sin(A[1:3, i] ** 2)), lambda: ((4, SIZE), chosen())),
    "take": (lambda A, i: np.sum(np.take(A, i, axis=1) ** 3), lambda: ((2, SIZE), chosen())),
    "take of data": (lambda w, i: np.sum((np.take(DATA, i, 0) @ w) ** 3), lambda: (3, chosen(200))),
    "places of places": (lambda u, g: np.sum(u[TABLE[g]] ** 3 * u[np.take(TABLE, g)]), lambda: (SIZE, chosen())),
    "add.at": (lambda u, g: np.sum(added(u, g) ** 2), lambda: (N, chosen())),
    "bincount": (lambda u, g: np.sum(np.bincount(g, u**2, SIZE) ** 2), lambda: (N, chosen())),
    "along an axis": (
        lambda A, g: np.sum(np.take_along_axis(A, g[:, None], axis=1) ** 3), lambda: ((N, SIZE), chosen())
    ),
    "a matrix of them": (lambda u, g: np.sum(np.sin(u[g]).sum(1) ** 2), lambda: (SIZE, chosen(SIZE, 8, 5))),
    "neighbours": (lambda u, g: np.sum((u[g + 1] - u[g]) ** 3), lambda: (SIZE + 1, chosen())),
    "from the end": (lambda u, g: np.sum(u[-1 - g] ** 3), lambda: (SIZE, chosen())),
    "both sides": (lambda u, g: np.sum(u[g - 3] ** 3), lambda: (SIZE, np.r_[np.arange(SIZE), chosen()])),
    "every other": (lambda u, g: np.sum(u[g[::2]] ** 3), lambda: (SIZE, chosen(SIZE, 80))),
    "numbers too": (lambda u, g: np.sum(g * u[g] ** 2), lambda: (SIZE, chosen())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_trace_for_all_indices(name: str) -> None:
    f, draw = CASES[name]
    gradient, hessian = ed.gradient(f), ed.hessian(f)
    for _ in range(3):
        shape, *others = draw()
        x, direction = DRAWN.normal(size=shape), DRAWN.normal(size=shape)
        near = [f(x + step * direction, *others) for step in (-1e-5, 1e-5)]
        slopes = [gradient(x + step * direction, *others) for step in (-1e-5, 1e-5)]
        np.testing.assert_allclose(np.sum(gradient(x, *others) * direction), (near[1] - near[0]) / 2e-5, 1e-5, 1e-6)
        found = np.tensordot(hessian(x, *others), direction, direction.ndim)
        np.testing.assert_allclose(found, (slopes[1] - slopes[0]) / 2e-5, 1e-5, 1e-5)
    assert gradient.traces == hessian.traces == 1


def test_what_looks_at_indices_is_traced_for_each_answer() -> None:
    f = ed.gradient(lambda u, g: np.sum(u[g] ** 3) * (1 if g[0] > 4 else 2))
    for first in (3, 5, 4, 8, 7):
        u, g = DRAWN.normal(size=SIZE), np.r_[first, chosen()]
        expected = np.bincount(g, 3 * u[g] ** 2, SIZE) * (1 if first > 4 else 2)
        np.testing.assert_allclose(f(u, g), expected, 1e-12)
    assert f.traces == 2


@pytest.mark.parametrize("bad", [np.full(N, SIZE), np.full(N, -SIZE - 1), np.full(N, 1.0)])
def test_indices_out_of_range_are_refused_at_every_call(bad: np.ndarray) -> None:
    f = ed.gradient(lambda u, g: np.sum(u[g] ** 2))
    for _ in range(2):
        f(DRAWN.normal(size=SIZE), chosen())
        with pytest.raises(ed.EindiffError, match=r"out of bounds|integer") as error:
            f(DRAWN.normal(size=SIZE), bad)
        assert "u[g]" in str(error.value)


def test_arrays_that_were_changed_in_place_are_read_at_given_indices() -> None:
    def f(u: Any, g: Any) -> Any:
        v = np.zeros(SIZE)
        v[:4] = u[:4] ** 2
        v[4:] += u[4:]
        return np.sum(v[g] ** 2)

    u, g = DRAWN.normal(size=SIZE), chosen()
    expected = np.bincount(g, minlength=SIZE) * np.where(np.arange(SIZE) < 4, 4 * u**3, 2 * u)
    np.testing.assert_allclose(ed.gradient(f)(u, g), expected, 1e-12)
