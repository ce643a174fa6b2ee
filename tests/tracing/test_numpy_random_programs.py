"""Random functions with branches, loops, masks, views and buffers, at many points, against differences."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import eindiff as ed

VALUES = [
    "a", "b", "c", "a * b", "a + c", "b - c", "np.sin(a)", "abs(b)", "max(a, c)", "min(b, 0.3)", "v[0] * v[2]",
    "v.sum()", "out[1]", "float(a) * 2", "np.where(v > 0, v, 2 * v).sum()", "np.sort(v)[1]", "v[np.argmax(v)]",
    "v[v > 0.1].sum()", "out.max()", "int(3 * a) * b", "round(b) * c",
]  # fmt: skip
VECTORS = ["v[::-1].copy()", "np.sort(v)", "v + out[:3]", "v - v.mean()", "np.cumsum(v)"]


def condition(random: Random) -> str:
    """A truth value that depends on numbers."""
    one, two = random.choice(VALUES), random.choice(VALUES)
    choices = [f"{one} > {two}", f"{one} <= 0.2", f"abs({one}) > 0.4", f"not {one} < {two}"]
    return random.choice([*choices, f"{one} > 0 and {two} < 0.5", "(v > 0).any()", "np.all(v < 0.8)"])


def statement(random: Random) -> list[str]:
    """A few lines that change numbers, a vector or a buffer."""
    name, value, number = random.choice("abc"), random.choice(VALUES), round(random.uniform(-0.5, 0.5), 2)
    return random.choice([
        [f"if {condition(random)}:", f"    {name} = {value}", "else:", f"    {name} = {random.choice(VALUES)} * 0.5"],
        [f"out[{random.randint(0, 3)}] = {value}"],
        [f"out[1:] += v * {value}"],
        [f"v[{random.choice(['v > 0', 'v < 0.2', '[0, 2]', '1:'])}] *= {1 + number}"],
        ["for w in v:", f"    if w > {number}:", f"        {name} = {name} + w * {value} * 0.3"],
        ["n = 0", f"while abs({name}) > 0.5 and n < 6:", f"    {name}, n = {name} * 0.6, n + 1"],
        ["view = out[::2]", f"view[:] = view * {value} + {name}"],
        [f"v = {random.choice(VECTORS)}"],
    ])  # fmt: skip


def program(seed: int) -> tuple[Callable[[Any], Any], str]:
    """A function of three numbers, and its text."""
    random = Random(seed)
    lines = ["a, b, c = x", "v, out = x.copy(), np.zeros(4)"]
    for _ in range(random.randint(4, 8)):
        lines += statement(random)
    lines.append("return a + b * c + v @ np.array([1.0, -0.5, 0.3]) + out.sum() * 0.7")
    text = "\n    ".join(["def f(x):", *lines])
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    return space["f"], text


def slopes(f: Callable, x: np.ndarray, step: float) -> np.ndarray:
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in step * np.eye(3)])


@pytest.mark.parametrize("seed", range(10))
def test_random_programs(seed: int) -> None:
    f, text = program(seed)
    gradient, rng = ed.gradient(f), np.random.default_rng(seed)
    for _ in range(6):
        x = 0.7 * rng.normal(size=3)
        expected = slopes(f, x, 1e-6)
        if np.allclose(expected, slopes(f, x, 2e-6), rtol=1e-3, atol=1e-4):  # else there is a branch in between
            np.testing.assert_allclose(gradient(x), expected, rtol=1e-3, atol=1e-4, err_msg=f"{x}\n{text}")
