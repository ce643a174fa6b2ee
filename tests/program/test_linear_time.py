"""The work of deriving and of planning grows with the program, not faster: counted in calls, which are the same in
every run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import eindiff as ed
from eindiff.core.nodes import Expr

SIZES = {"h": 6, "d": 4, "m": 5}
Model = tuple[Expr, list[Expr]]


def calls(work: Callable[[], Any]) -> int:
    """How many functions of Python are called."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def recurrent(steps: int) -> Model:
    """A recurrent net, unrolled."""
    state, w, u = ed.vector(f"s{steps}", "h"), ed.matrix("W", "h", "h"), ed.matrix("U", "h", "d")
    for k in range(steps):
        state = ed.tanh(w @ state + u @ ed.vector(f"x{k}", "d"))
    return ed.sum(state**2), [w, u]


def gated(steps: int) -> Model:
    """A net of gated recurrent units."""
    state = ed.vector(f"s{steps}", "h")
    w, u = [ed.matrix(f"W{k}", "h", "h") for k in range(3)], [ed.matrix(f"U{k}", "h", "d") for k in range(3)]
    for k in range(steps):
        x = ed.vector(f"x{k}", "d")
        update, reset = (ed.sigmoid(w[j] @ state + u[j] @ x) for j in range(2))
        state = (1 - update) * state + update * ed.tanh(w[2] @ (reset * state) + u[2] @ x)
    return ed.sum(state**2), [*w, *u]


def long_memory(steps: int) -> Model:
    """A net with long short-term memory, whose gates are slices of one product."""
    state, cell = ed.vector(f"s{steps}", 6), ed.vector("c", 6)
    w, u, b = ed.matrix("W", 24, 6), ed.matrix("U", 24, "d"), ed.vector("b", 24)
    for k in range(steps):
        gates = (w @ state + u @ ed.vector(f"x{k}", "d") + b).reshape((4, 6))
        cell = ed.sigmoid(gates[0]) * cell + ed.sigmoid(gates[1]) * ed.tanh(gates[2])
        state = ed.sigmoid(gates[3]) * ed.tanh(cell)
    return ed.sum(state**2), [w, u, b]


def layers(count: int) -> Model:
    """A net whose layers have weights of their own."""
    y, weights = ed.matrix(f"X{count}", "m", "h"), [ed.matrix(f"W{k}", "h", "h") for k in range(count)]
    for w in weights:
        y = ed.tanh(y @ w)
    return ed.sum(y**2), list(weights)


@pytest.mark.parametrize("make, length", [(recurrent, 8), (gated, 5), (long_memory, 5), (layers, 8)])
def test_twice_the_steps_take_twice_the_work(make: Callable[[int], Model], length: int) -> None:
    derived, planned = [], []
    for steps in (length, 2 * length):
        f, by = make(steps)
        found: list[Expr] = []
        derived.append(calls(lambda: found.extend(ed.gradient(f, by))))  # noqa: B023
        named = {name: SIZES[name] for name in ed.core.nodes.size_names(f)}
        planned.append(calls(lambda: ed.plan([f, *found], named)))  # noqa: B023
    assert derived[1] <= 2.2 * derived[0]
    assert planned[1] <= 2.2 * planned[0]


def test_a_second_derivative_of_twice_the_steps_takes_twice_the_work() -> None:
    work = []
    for steps in (6, 12):
        f, [w, _] = recurrent(steps)
        found = ed.hessian(f, w)
        work.append(calls(lambda: ed.plan(found, {"h": 6, "d": 4})))  # noqa: B023
    assert work[1] <= 2.4 * work[0]
