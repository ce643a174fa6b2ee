"""Random expressions: their values and derivatives, in every mode, are those of JAX."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest
from hypothesis import assume

import eindiff as ed
from grammar import OPERATIONS, Example, array_of, examples, names_in, run, shape_of, variable_of
from oracles import JAX, MODES, assert_close, jit

RTOL = 1e-8
FLOOR = 1e-3  # terms of size 1 may cancel, and leave rounding errors


def _projected(derivative: np.ndarray, by: tuple[str, ...]) -> np.ndarray:
    """JAX's derivative made symmetric in the axes of each symmetric variable, which are the last ones."""
    end = derivative.ndim
    for name in reversed(by):
        if name[0] == "s":
            derivative = (derivative + derivative.swapaxes(end - 1, end - 2)) / 2
        end -= len(shape_of(name))
    return derivative


def _by(function: Callable, name: str, differentiate: Callable) -> Callable:
    return lambda point: differentiate(lambda x: function(point | {name: x}))(point[name])


def _jax(example: Example, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The value, and the derivative in forward and in reverse mode (and forward from the second variable on)."""

    def function(point: dict) -> jax.Array:
        return 1.0 * eval(example.text, {"ed": JAX, "np": np} | point)

    forward, reverse = (_by(function, example.by[0], first) for first in (jax.jacfwd, jax.jacrev))
    for name in example.by[1:]:
        forward, reverse = (_by(lower, name, jax.jacfwd) for lower in (forward, reverse))
    program = jit(lambda point: [function(point), forward(point), reverse(point)])
    value, *derivatives = (np.asarray(result) for result in program(arrays))
    return [value, *(_projected(derivative, example.by) for derivative in derivatives)]


def check(example: Example) -> None:
    arrays = {name: array_of(name) for name in names_in(example.text)}
    value, forward, reverse = _jax(example, arrays)
    assume(all(np.isfinite(a).all() and np.abs(a).max() < 1e6 for a in (value, forward, reverse)))
    variables = {name: variable_of(name) for name in arrays}
    y = eval(example.text, {"ed": ed, "np": np} | variables)
    assert_close(ed.evaluate(y, arrays), value, RTOL, FLOOR, f"the value of {y}")
    for mode in MODES:
        derivative = ed.derivative(y, *(variables[name] for name in example.by), mode=mode)
        actual = ed.evaluate(derivative, arrays)
        assert_close(actual, forward, RTOL, FLOOR, f"jax.jacfwd, {mode} mode: {derivative}")
        assert_close(actual, reverse, RTOL, FLOOR, f"jax.jacrev, {mode} mode: {derivative}")


@pytest.mark.parametrize("root", OPERATIONS)
@pytest.mark.parametrize(("order", "count"), [(1, 12), (2, 6), (3, 3)])
def test_derivatives_are_those_of_jax(root: str, order: int, count: int) -> None:
    run(examples(root, order), count, check)
