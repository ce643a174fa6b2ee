"""Indices that are inputs: their values come at run time, are looked at there, and never stand in a program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eindiff as ed
from backend_libraries import Library, cupy_or_stand_in, every_library  # noqa: F401 (fixtures)

u, y = ed.vector("u", "G"), ed.vector("y", "m")
A, B = ed.matrix("A", "G", "k"), ed.matrix("B", "m", "k")
g, h = ed.indices("g", "m", into="G"), ed.indices("h", "m", into="k")
e = ed.indices("e", "m", 2, into="G")
INDICES = "ghe"


def arrays_of(m: int = 7) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(m)
    return {
        "u": rng.normal(size=4), "A": rng.normal(size=(4, 3)), "y": rng.normal(size=m), "B": rng.normal(size=(m, 3)),
        "g": rng.integers(0, 4, m), "h": rng.integers(0, 3, m), "e": rng.integers(0, 4, (m, 2)),
    }  # fmt: skip


CASES: dict[str, tuple[ed.Expr, Callable]] = {
    "u[g]": (ed.sum((y - u[g]) ** 2 * ed.exp(u[g])), lambda u, g, y, **_: ((y - u[g]) ** 2 * jnp.exp(u[g])).sum()),
    "A[g]": (ed.sum((B * A[g]).sum(1) ** 2), lambda A, B, g, **_: ((B * A[g]).sum(1) ** 2).sum()),
    "A[g, h]": (ed.sum(ed.sin(A[g, h]) * y), lambda A, g, h, y, **_: (jnp.sin(A[g, h]) * y).sum()),
    "A[g, 0]": (ed.sum(A[g, 0] * y**2 * u[g]), lambda A, g, u, y, **_: (A[g, 0] * y**2 * u[g]).sum()),
    "an edge list": (ed.sum((u[e[:, 0]] - u[e[:, 1]]) ** 4), lambda u, e, **_: ((u[e[:, 0]] - u[e[:, 1]]) ** 4).sum()),
    "indices of order 2": (ed.sum(ed.exp(u[e]).sum(1) ** 2), lambda u, e, **_: (jnp.exp(u[e]).sum(1) ** 2).sum()),
    "columns": (ed.sum((A[:, h] @ y) ** 2), lambda A, h, y, **_: ((A[:, h] @ y) ** 2).sum()),
    "entries of indices": (
        ed.sum(u[g[1:]] * u[g[:-1]] * u[g][1:]),
        lambda u, g, **_: (u[g[1:]] ** 2 * u[g[:-1]]).sum(),
    ),
    "of a slice": (ed.sum(u[::-1][g] ** 3 * u[g]), lambda u, g, **_: (u[::-1][g] ** 3 * u[g]).sum()),
    "twice": (ed.sum(ed.exp(u[g]) * u[g] * A[g, h]), lambda u, g, A, h, **_: (jnp.exp(u[g]) * u[g] * A[g, h]).sum()),
}


@cache
def expected(name: str) -> list[np.ndarray]:
    arrays = arrays_of()
    floats = {k: v for k, v in arrays.items() if k not in INDICES}

    def function(x: dict[str, Any]) -> Any:
        return CASES[name][1](**x, **{k: jnp.asarray(arrays[k]) for k in INDICES})

    gradient, hessian = jax.grad(function)(floats), jax.hessian(function)(floats)
    [x, *_] = by(name)
    return [np.asarray(function(floats)), np.asarray(gradient[x.name]), np.asarray(hessian[x.name][x.name])]


def by(name: str) -> list[Any]:
    return [v for v in ed.variables(CASES[name][0]) if v.into is None and v.name in "uA"]


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_jax(library: Library, name: str) -> None:
    f, [x, *_] = CASES[name][0], by(name)
    outputs = [f, ed.gradient(f, x), ed.hessian(f, x)]
    values = [*library.values(outputs, arrays_of()), *ed.evaluate(outputs, arrays_of())]
    for actual, wanted in zip(values, expected(name) * 2, strict=True):
        np.testing.assert_allclose(np.asarray(actual), wanted, 1e-9, 1e-9)


def test_other_values_need_no_other_program() -> None:
    compiled = ed.compile(ed.gradient(CASES["u[g]"][0], u))
    assert "np.add.at(" in ed.to_source(ed.gradient(CASES["u[g]"][0], u))
    for m in (7, 6, 7):
        arrays = arrays_of(m)
        at = (arrays["u"][arrays["g"]], arrays["y"])
        entries = (at[0] - at[1]) * (at[0] - at[1] + 2) * np.exp(at[0])
        np.testing.assert_allclose(compiled(**arrays), np.bincount(arrays["g"], entries, 4), 1e-12)


WRONG = [
    (np.array([0, 9, 1, 2, 3, 0, 1]), "g is declared indices into G, but its array has 9 at 1: indices are from 0 to"),
    (np.array([0, 1, -1, 2, 3, 0, 1]), "has -1 at 2: indices are from 0 to below G = 4"),
    (np.arange(7.0) / 2, "holds float64: indices are whole numbers"),
    (np.zeros(7, bool), "holds bool: indices are whole numbers"),
    (np.zeros((7, 1), int), "its array has shape 7×1"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_indices_are_refused(library: Library, wrong: np.ndarray, message: str) -> None:
    f = CASES["u[g]"][0]
    arrays = arrays_of() | {"g": wrong}
    with pytest.raises(ed.EindiffError) as raised:
        ed.evaluate(f, arrays)
    assert message in str(raised.value)
    if library.name != "cupy":  # whose values are not looked at
        with pytest.raises(ed.EindiffError) as raised:
            ed.compile(f)(**{name: library.array(array) for name, array in arrays.items()})
        assert message in str(raised.value)


def test_uses_that_make_no_sense_are_refused() -> None:
    for use, message in [
        (lambda: u[y], "y holds numbers; declare indices(name, ..., into='G')"),
        (lambda: u[h], "h holds indices into k, but the axis has size G"),
        (lambda: u[2 * g], "holds numbers"),
        (lambda: A[g, e], "indices of shapes m and m×2 do not fit together"),
        (lambda: ed.gradient(ed.sum(u[g]), g), "g holds indices, which do not move"),
        (lambda: ed.indices("g", "m", into=0), "into=0 is no size of an axis"),
    ]:
        with pytest.raises(ed.EindiffError, match=r".*") as raised:
            use()
        assert message in str(raised.value)


def test_relations_with_given_places_are_one_object() -> None:
    assert u[g][1:] is u[g[1:]]
    assert (u[g] + u[g]) is 2 * u[g]
    assert (u + u**2)[g] is u[g] + (u**2)[g]


def test_structure_of_a_graph() -> None:
    """The Hessian of an edge list is sparse, and its system is solved as one."""
    rng = np.random.default_rng(0)
    n = 3000
    start, end = ed.indices("start", "m", into="n"), ed.indices("end", "m", into="n")
    x = ed.vector("x", "n")
    f = ed.sum((y - x[start] + x[end]) ** 2) + ed.sum(x**2)
    arrays = {
        "x": rng.normal(size=n), "y": rng.normal(size=5000), "start": rng.integers(0, n, 5000),
        "end": rng.integers(0, n, 5000),
    }  # fmt: skip
    step = ed.newton_step(f, x, arrays)
    moved = arrays | {"x": arrays["x"] + step.step}
    np.testing.assert_allclose(ed.evaluate(ed.gradient(f, x), moved), np.zeros(n), atol=1e-10)
    assert "sparse" in str(step.hessian)
