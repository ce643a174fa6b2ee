"""Sums of squares are found where there are some, and nowhere else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import eindiff as ed
import oracles  # noqa: F401 (double precision)
from eindiff.functions.elementwise import power
from eindiff.program.norms import squares, units


@pytest.mark.parametrize("seed", range(300))
def test_parts_of_random_contractions(seed: int) -> None:
    """The parts that are found have the value of the whole, whatever labels meet."""
    random = np.random.default_rng(seed)
    y, z = ed.tensor("y", (2, 2, 2)), ed.tensor("z", (2, 2))
    operands = [(y, z)[k] for k in random.integers(0, 2, random.integers(1, 3))]
    operands = [*operands, *operands] if random.random() < 0.8 else operands
    terms = ["".join(random.choice(list("ijkl"), x.ndim)) for x in operands]
    labels = sorted(set("".join(terms)))
    output = "".join(label for label in labels if random.random() < 0.4)
    total = ed.einsum(f"{','.join(terms)}->{output}", *operands)
    found = squares(total)
    if found is not None:
        arrays = {"y": random.normal(size=(2, 2, 2)), "z": random.normal(size=(2, 2))}
        parts = [ed.evaluate(part.y, arrays) ** 2 for part in found]
        axes = [tuple(range(part.y.ndim - part.summed, part.y.ndim)) for part in found]
        sums = sum(part.sum(along) for part, along in zip(parts, axes, strict=True))
        np.testing.assert_allclose(sums, ed.evaluate(total, arrays), rtol=1e-12, atol=1e-12)


def test_powers_of_what_is_no_norm() -> None:
    """Two factors that are alike, but of which one label would have two images."""
    y = ed.tensor("y", (2, 2, 2))
    total = ed.einsum("ijj,jjj->i", y, y)
    array = np.random.default_rng(0).normal(size=(2, 2, 2))
    value = np.einsum("ijj,jjj->i", array, array)
    for exponent in (3, -1, 5):
        np.testing.assert_allclose(ed.evaluate(total**exponent, {"y": array}), value**exponent, rtol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "jax", "torch", "tensorflow"])
def test_norms_of_entries_sum_over_nothing(library: str) -> None:
    """In PyTorch no axes are all of them."""
    w, a = ed.vector("w", "n"), ed.matrix("a", "n", "n")
    u = ed.stack([w, w, w])[:1] * a
    total = ((u + u.T) ** 2) ** 0.5
    random = np.random.default_rng(0)
    arrays = {"w": random.normal(size=2), "a": random.normal(size=(2, 2))}
    expected = np.abs(arrays["w"] * arrays["a"] + (arrays["w"] * arrays["a"]).T)
    np.testing.assert_allclose(np.asarray(ed.compile(total, backend=library)(**arrays)), expected, rtol=1e-12)


def test_parts_that_stand_in_each_other_are_counted_once() -> None:
    """Each step has the one before it twice, so a count of all occurrences one by one would never end."""
    y = x = ed.tensor("x", 3)
    for k in range(1, 60):
        y = (y + k) * (y + x * k)
    norm = power(ed.sum(y * y), Fraction(-3, 2))
    assert units([(norm, ()), (y, (0,)), (y, (1,))]) == (0, [1, 2])


def test_what_norms_are_of_is_no_multiple_of_it() -> None:
    """An output that is a multiple of it has its coefficient inside of the product."""
    A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    arrays = {"A": np.eye(3, 2), "x": np.array([3e200, 4e200])}
    for norm in (ed.norm2(A @ x), ed.norm2(-2 * A @ x) / 2, ed.gradient(ed.norm2(A @ x), x)):
        found, multiple = ed.compile([norm, 7 * (A @ x)])(**arrays)
        np.testing.assert_allclose(found, [0.6, 0.8] if norm.ndim else 5e200, rtol=1e-14)
        np.testing.assert_allclose(multiple, [2.1e201, 2.8e201, 0], rtol=1e-14)


def test_cosines_of_rows_take_four_products() -> None:
    """`A W` and `B W`, and two for the gradient: rows are squared, and norms multiplied, after that."""
    a, b, w = ed.matrix("a", 200, 300), ed.matrix("b", 200, 300), ed.matrix("w", 300, 300)
    u, v = a @ w, b @ w
    f = ed.sum(ed.sum(u * v, 1) / ed.sqrt(ed.sum(u * u, 1) * ed.sum(v * v, 1)))
    assert sum(step.flops for step in ed.plan(ed.gradient(f, w)).steps) < 4.1 * (2 * 200 * 300 * 300)
    random = np.random.default_rng(0)
    arrays = {x.name: random.normal(size=x.shape) for x in (a, b, w)}
    value = ed.compile(ed.gradient(f, w))(**arrays)
    np.testing.assert_allclose(value, ed.evaluate(ed.gradient(f, w), arrays), rtol=1e-10, atol=1e-12)


def test_nothing_is_multiplied_with_ones() -> None:
    """`U' (U W)`, each row over its norm."""
    u, w = ed.matrix("u", 30, 40), ed.matrix("w", 40, 50)
    source = ed.compile(ed.gradient(ed.sum(ed.sqrt(ed.sum((u @ w) ** 2, 1))), w)).source
    assert "**0" not in source
    assert "/ norm(" in source
