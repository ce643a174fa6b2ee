"""Hessians by several variables: each pair of blocks once, and those of recurrences by one sweep along all entries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eindiff as ed
from eindiff.calculus.derive import hessian_blocks
from eindiff.calculus.recurrences import MOST_ENTRIES, is_of_small_arrays, is_recurrence, is_smooth
from eindiff.core import construct
from eindiff.core.nodes import Expr, topological
from eindiff.program.check import random_point
from eindiff.tracing.opaque import opaque_function

Model = tuple[Expr, list[Expr]]


def recurrent(steps: int, size: int = 3) -> Model:
    """A recurrent net with a bias, a factor and a matrix that reads its last state once."""
    w, u, b = ed.matrix("W", size, size), ed.matrix("U", size, 2), ed.vector("b", size)
    c, out, state = ed.scalar("c"), ed.matrix("V", 2, size), ed.vector("s", size)
    for k in range(steps):
        state = ed.tanh(w @ state + c * (u @ ed.vector(f"x{k}", 2)) + b)
    return ed.sum((out @ state) ** 2), [w, u, b, c, out]


def gated(steps: int) -> Model:
    """Gates that are slices of one product, for several rows at once."""
    w, u, rows = ed.matrix("W", 6, 3), ed.matrix("U", 6, 2), ed.matrix("S", 2, 3)
    for k in range(steps):
        gates = rows @ w.T + ed.matrix(f"X{k}", 2, 2) @ u.T
        rows = ed.sigmoid(gates[:, :3]) * rows + ed.tanh(gates[:, 3:])
    return ed.sum(rows**2), [u, w]


def special(steps: int) -> Model:
    """The same with a symmetric matrix and a triangular one."""
    a, t, b = ed.symmetric("A", 3), ed.matrix("T", 3, 3, "lower"), ed.vector("b", 3)
    state = ed.vector("s", 3)
    for _ in range(steps):
        state = ed.tanh(a @ state + t @ ed.tanh(t @ state) + b)
    return ed.sum(state**2), [b, a, t]


def peephole(steps: int) -> Model:
    """Gates that see the cell, with weights of their own; those of the state are used later than the others."""
    names = [f"{k}{c}" for c in "ifog" for k in "WUbp"]
    shape = {"W": (2, 2), "U": (2, 2), "b": (2,), "p": (2,)}
    v = {name: ed.tensor(name, *shape[name[0]]) for name in names}
    h = c = 0 * ed.vector("h", 2)
    for k in range(steps):
        x = ed.vector(f"x{k}", 2)
        i, f, o, g = (v["W" + n] @ h + v["U" + n] @ x + v["b" + n] + v["p" + n] * c for n in "ifog")
        c = ed.sigmoid(f) * c + ed.sigmoid(i) * ed.tanh(g)
        h = ed.sigmoid(o) * ed.tanh(c)
    return ed.sum(h**2), [*v.values()]


def attending(steps: int) -> Model:
    """A state that is multiplied with functions of whole vectors, and with itself."""
    w, u, state = ed.matrix("W", 3, 3), ed.matrix("U", 3, 3), ed.vector("s", 3)
    for _ in range(steps):
        state = ed.tanh(w @ (ed.softmax(u @ state) * state)) / ed.norm2(u @ state) + ed.logsumexp(w @ state)
    return ed.sum(state**2), [w, u]


def layers(count: int, m: int | str = "m", h: int | str = "h") -> Model:
    """A net whose layers have weights of their own, of sizes that have names, and normalize."""
    y, weights = ed.matrix("X", m, h), []
    for k in range(count):
        w, g = ed.matrix(f"W{k}", h, h), ed.vector(f"g{k}", h)
        y, weights = y + ed.tanh(y @ w) * g / ed.sqrt(1 + ed.sum(y**2)), [*weights, w, g]
    return ed.sum(ed.softmax(y, axis=1) ** 2), weights


MODELS: list[tuple[Callable[[int], Model], int, bool]] = [
    (recurrent, 4, True), (gated, 3, True), (special, 4, True), (attending, 3, True), (layers, 2, False),
]  # fmt: skip
SIZES = {"m": 2, "h": 3}


@pytest.mark.parametrize("make, length, recurs", MODELS)
def test_blocks_are_the_derivatives_of_gradients(make: Callable[[int], Model], length: int, recurs: bool) -> None:
    """Those of each gradient by each variable in reverse mode, and by central differences where entries are free."""
    f, by = make(length)
    assert is_recurrence(f, by) == recurs
    assert is_smooth(f, by)
    arrays = random_point([f], SIZES)
    for convention in ("projected", "free") if any(x.symmetries for x in by) else ("projected",):
        found, expected = (ed.hessian(f, by, mode, symmetric=convention) for mode in ("auto", "reverse"))
        assert found != expected  # another way was taken
        assert [[x.shape for x in row] for row in found] == [[y.shape + x.shape for x in by] for y in by]
        found, expected = (ed.evaluate([x for row in rows for x in row], arrays) for rows in (found, expected))
        for block, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(block, other, 1e-9, 1e-12)
    gradient, hessian = ed.compile(ed.gradient(f, by)), ed.compile(ed.hessian(f, by))(**arrays)
    rng = np.random.default_rng(0)
    for j, x in enumerate(by):
        if x.properties:
            continue
        along = rng.normal(size=arrays[x.name].shape)
        ends = [gradient(**{**arrays, x.name: arrays[x.name] + step * along}) for step in (-1e-5, 1e-5)]
        for i in range(len(by)):
            slope = (ends[1][i] - ends[0][i]) / 2e-5
            np.testing.assert_allclose(np.tensordot(hessian[i][j], along, x.ndim), slope, 1e-5, 1e-7)


@pytest.mark.parametrize("make, length, _", MODELS[:-1])
def test_hessians_of_twice_the_steps_have_twice_the_nodes(make: Callable[[int], Model], length: int, _: bool) -> None:
    nodes = []
    for steps in (2 * length, 4 * length):
        f, by = make(steps)
        nodes.append(len(topological([block for row in ed.hessian(f, by) for block in row])))
    assert nodes[1] <= 2.1 * nodes[0]


def test_small_arrays_of_many_variables_are_derived_side_by_side() -> None:
    """One sweep has a fraction of the nodes of one for each variable, which large arrays take: they have less to do."""
    f, by = layers(3, 2, 3)
    found = [hessian_blocks(f, by, dense=dense) for dense in (True, False)]
    few, many = (len(topological([block for row in rows for block in row])) for rows in found)
    assert 3 * few < 2 * many
    arrays = random_point([f], {})
    first, second = (ed.evaluate([block for row in rows for block in row], arrays) for rows in found)
    for block, other in zip(first, second, strict=True):
        np.testing.assert_allclose(block, other, 1e-9, 1e-12)
    assert not is_of_small_arrays(*layers(3, 40, 30))
    assert not is_of_small_arrays(*layers(3))


def leapfrog(steps: int) -> Model:
    """Places and speeds, which nothing but functions of entries moves."""
    q, p, w = by = [ed.vector(name, 2) for name in "qpw"]
    for _ in range(steps):
        q = q + 0.1 * p
        p = p - 0.1 * (w[0] * q + w[1] * ed.sin(q) ** 3)
    return ed.sum(q**2) + ed.sum(p**2), by


def test_steps_of_small_arrays_are_derived_side_by_side() -> None:
    """Of few variables too: by sweeps for each the nodes of a Hessian grew faster than the steps."""
    nodes = []
    for steps in (4, 8):
        f, by = leapfrog(steps)
        assert is_of_small_arrays(f, by) and not is_recurrence(f, by)
        found = [block for row in hessian_blocks(f, by, dense=True) for block in row]
        nodes.append(len(topological(found)))
    assert nodes[1] <= 2.2 * nodes[0]
    arrays = random_point([f], {})
    expected = [block for row in ed.hessian(f, by, "reverse") for block in row]
    for block, other in zip(ed.evaluate(found, arrays), ed.evaluate(expected, arrays), strict=True):
        np.testing.assert_allclose(block, other, 1e-9, 1e-12)


def test_one_block_of_each_pair_is_computed() -> None:
    f, by = layers(2)
    both, each = (ed.plan([x for row in ed.hessian(f, by, mode) for x in row], SIZES) for mode in ("auto", "reverse"))
    assert both.flops < 0.8 * each.flops
    assert len(both.steps) < 0.9 * len(each.steps)


def test_what_is_not_taken_for_a_recurrence() -> None:
    """Layers with weights of their own, entry by entry, two turns, one variable, many entries, or few that recur."""
    x, y = ed.vector("x", 3), ed.vector("y", 3)
    state = y
    for _ in range(5):
        state = ed.tanh(x * state) + y
    assert not is_recurrence(ed.sum(state), [x, y])
    f, [w, u, b, c, out] = recurrent(4)
    assert is_recurrence(f, [w, b])
    assert not is_recurrence(f, [w])
    assert not is_recurrence(f, [c, out])
    assert not is_recurrence(recurrent(2)[0], [w, u, b])
    large, by = recurrent(4, int(MOST_ENTRIES**0.5) + 1)
    assert not is_recurrence(large, by)


def test_many_parameters_recur() -> None:
    """However many are used as often as the matrices of the state, and whatever order they come in."""
    f, by = peephole(4)
    assert is_recurrence(f, by)
    assert is_recurrence(f, by[::-1])


def test_a_turn_has_few_nodes() -> None:
    """What is multiplied with many parameters is derived once: fewer than three nodes for each one of the gradient."""
    counts = []
    for steps in (4, 8):
        f, by = peephole(steps)
        second = [block for row in ed.hessian(f, by) for block in row]
        counts.append([len(topological(found)) for found in (ed.gradient(f, by), second)])
    assert counts[1][1] - counts[0][1] < 3 * (counts[1][0] - counts[0][0])


def test_where_the_order_of_derivatives_may_matter_each_has_its_sweep() -> None:
    """At kinks, through eigenvalues, and by rules that a library has."""
    x, s = ed.vector("x", 3), ed.symmetric("S", 3)
    rule = opaque_function("opaque_rule", lambda x: np.sin(x), [0], (), [lambda x: 2 * x])
    assert is_smooth(ed.sum(ed.exp(x)), [x])
    assert not is_smooth(ed.norm1(x) ** 2, [x])
    assert not is_smooth(ed.sum(ed.exp(ed.eigvals(s))), [s])
    assert not is_smooth(ed.sum(construct.map_(rule, [x])), [x])
    assert is_smooth(ed.norm1(x) ** 2 + ed.sum(s), [s])


def test_a_variable_may_be_there_twice() -> None:
    f, [w, _, b, *_] = recurrent(4)
    blocks = ed.hessian(f, [w, b, w])
    assert blocks[0][0] == blocks[0][2] == blocks[2][0] == blocks[2][2] == ed.hessian(f, [w, b])[0][0]
    assert blocks[1][0] == blocks[1][2] == ed.hessian(f, [w, b])[1][0]
