"""The work of deriving and of planning grows with the program, not faster: counted in calls, which are the same in
every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nodes import Expr, is_sealed, topological
from eindiff.core.partial_sums import parts_apart
from eindiff.core.tensor_order import tensor_order_path
from eindiff.planning import deviations, tuning
from eindiff.program.check import random_point
from eindiff.program.lower.lowering import Lowering
from pace import calls

SIZES = {"h": 6, "d": 4, "m": 5}
Model = tuple[Expr, list[Expr]]


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


def residual(count: int) -> Model:
    """Layers that add to what they are given: the sums have a term more in each."""
    y, weights = ed.matrix(f"X{count}", "m", "h"), [ed.matrix(f"W{k}", "h", "h") for k in range(count)]
    for w in weights:
        y = y + ed.tanh(y @ w)
    return ed.sum(y**2), list(weights)


def rectified(count: int) -> Model:
    """Blocks of two layers that add to what they are given, and are 0 where nothing comes through."""
    y, weights = ed.matrix(f"X{count}", "m", "h"), []
    for k in range(count):
        a, b = block = [ed.matrix(f"{name}{k}", "h", "h") for name in "AB"]
        weights += block
        y = y + ed.relu(y @ a) @ b
    return ed.sum((y - ed.matrix("Y", "m", "h")) ** 2), weights


def normalized(y: Expr) -> Expr:
    """Rows of mean 0 and variance 1, nearly."""
    centred = y - ed.mean(y, axis=1).reshape(("m", 1))
    return centred * ((ed.mean(centred**2, axis=1) + 1e-5) ** -0.5).reshape(("m", 1))


def normalized_layers(count: int) -> Model:
    """Layers that normalize what they give."""
    y, weights = ed.matrix(f"X{count}", "m", "h"), [ed.matrix(f"W{k}", "h", "h") for k in range(count)]
    for w in weights:
        y = normalized(ed.tanh(y @ w))
    return ed.sum((y - ed.matrix("Y", "m", "h")) ** 2), list(weights)


def attention(count: int) -> Model:
    """Blocks of a transformer that normalize what they add to."""
    y, weights = ed.matrix(f"X{count}", "m", "h"), []
    for k in range(count):
        q, p, v, a, b = block = [ed.matrix(f"{name}{k}", "h", "h") for name in "QPVAB"]
        weights += block
        z = normalized(y)
        y = y + ed.softmax((z @ q) @ (z @ p).T, axis=1) @ (z @ v)
        y = y + ed.tanh(normalized(y) @ a) @ b
    return ed.sum(y**2), weights


def biased(count: int) -> Model:
    """Blocks with biases that add to what they are given: sums of the steps before are summed in each."""
    y, weights = ed.tensor(f"X{count}", 2, 3, 6), []
    for k in range(count):
        g, c, a, e, b, d = block = [ed.vector(f"g{k}", 6), ed.vector(f"c{k}", 6), ed.matrix(f"A{k}", 6, 6),
                                    ed.vector(f"e{k}", 6), ed.matrix(f"B{k}", 6, 6), ed.vector(f"d{k}", 6)]  # fmt: skip
        weights += block
        z = y - ed.mean(y, axis=2).reshape((2, 3, 1))
        z = g * z / ed.sqrt(ed.mean(z**2, axis=2).reshape((2, 3, 1)) + 1e-5) + c
        u = z @ a + e
        y = y + 0.5 * u * (1 + ed.tanh(0.8 * (u + 0.04 * u**3))) @ b + d
    return ed.mean(y**2), weights


def normalized_steps(steps: int) -> Model:
    """A recurrent net with a memory, which it normalizes: a sum less the means of its terms, and the sum."""
    state, w, u = ed.matrix(f"S{steps}", "m", 6), ed.matrix("W", 6, 6), ed.matrix("U", "d", 6)
    cell = state
    for k in range(steps):
        x = ed.matrix(f"X{k}", "m", "d") @ u
        cell = ed.sigmoid(state @ w + x) * cell + ed.tanh(x)
        state = ed.tanh(normalized(cell))
    return ed.sum(state**2), [w, u]


def pendulum(steps: int) -> Model:
    """Steps of Runge and Kutta, as people write them in NumPy: vectors made of their entries, and read by entries."""

    def slope(y: Any) -> Any:
        return np.array([y[1], -9.81 * np.sin(y[0]) - 0.1 * y[1]])

    def end(y: Any) -> Any:
        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + 0.025 * k1)
            k3 = slope(y + 0.025 * k2)
            y = y + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + 0.05 * k3))
        return y[0] ** 2 + 0.1 * y[1]

    f = ed.symbolic(end, 2)
    return f, list(ed.variables(f))


def epidemic(steps: int) -> Model:
    """Steps of Euler with a few numbers: the sums have a term more in each."""

    def infected(p: Any) -> Any:
        beta, gamma, s, i = p
        for _ in range(steps):
            new = 0.1 * beta * s * i / 1000
            s, i = s - new, i + new - 0.1 * gamma * i
        return (i - 3) ** 2

    f = ed.symbolic(infected, 4)
    return f, list(ed.variables(f))


MODELS = [
    (recurrent, 8), (gated, 5), (long_memory, 5), (layers, 8), (residual, 12), (attention, 4), (biased, 5),
    (normalized_steps, 5), (pendulum, 4), (epidemic, 12),
]  # fmt: skip


@pytest.mark.parametrize("make, length", MODELS)
def test_twice_the_steps_take_twice_the_work(make: Callable[[int], Model], length: int) -> None:
    written, derived, planned = [], [], []
    for steps in (length, 2 * length):
        models: list[Model] = []
        written.append(calls(lambda: models.append(make(steps))))  # noqa: B023
        [(f, by)] = models
        found: list[Expr] = []
        derived.append(calls(lambda: found.extend(ed.gradient(f, by))))  # noqa: B023
        named = {name: SIZES[name] for name in ed.core.nodes.size_names(f)}
        planned.append(calls(lambda: ed.plan([f, *found], named)))  # noqa: B023
    assert written[1] <= 2.2 * written[0]
    assert derived[1] <= 2.2 * derived[0]
    assert planned[1] <= 2.2 * planned[0]


def test_sums_around_others_have_all_else_once() -> None:
    """Where sums become others in one step of a loop, the steps above are made of these: they were there twice."""
    f, by = normalized_steps(6)
    outputs = [f, *ed.gradient(f, by)]
    found = parts_apart(outputs)
    assert found != outputs
    assert len(topological(found)) <= 1.1 * len(topological(outputs))
    arrays = random_point(outputs, {"d": 2, "m": 4})
    for x, y in zip(ed.compile(found)(**arrays), ed.evaluate(outputs, arrays), strict=True):
        np.testing.assert_allclose(x, y, 1e-9, 1e-12)


def test_means_are_not_compared_with_weights_that_they_are_not_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum is 0 in total by the weights of its mean only: long sums were multiplied out with it, term by term."""
    multiplied, multiply = [], deviations.terms_of
    monkeypatch.setattr(
        deviations, "terms_of", lambda *args, **named: multiplied.append(args) or multiply(*args, **named)
    )
    y, z = ed.vector("y", 4), ed.matrix("Z", 4, 5)
    own = weights = ed.softmax(ed.vector("w", 4))
    for k in range(20):
        weights = weights + ed.tanh(ed.vector(f"a{k}", 4)) * ed.vector(f"b{k}", 4)
    ed.plan([(weights * (y - ed.mean(y))) @ z])
    assert not [expr for expr, *_ in multiplied if len(ed.variables(expr)) > 2]
    multiplied.clear()
    ed.plan([(own * (y - own @ y)) @ z])
    assert multiplied


def test_turns_of_a_loop_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether sums of terms at places are arrays is the same question in all turns, and has the same answer."""
    compared, compare = [], Lowering._compared
    monkeypatch.setattr(Lowering, "_compared", lambda *args: compared.append(args) or compare(*args))
    monkeypatch.setattr(tuning, "RELATED_ENTRIES", 100)
    counts = []
    for steps in (6, 12):
        f, by = long_memory(steps)
        compared.clear()
        ed.plan([block for row in ed.hessian(f, by) for block in row], {"d": 4})
        counts.append(len(compared))
    assert counts[0] > 0 and counts[1] <= 1.2 * counts[0]


def test_a_product_with_the_hessian_of_twice_the_layers_takes_twice_the_work() -> None:
    derived, planned = [], []
    for count in (12, 24):
        f, [w, *_] = residual(count)
        found: list[Expr] = []
        derived.append(calls(lambda: found.append(ed.hvp(f, w, "V"))))  # noqa: B023
        planned.append(calls(lambda: ed.plan(found, {"h": 6, "m": 5})))  # noqa: B023
    assert derived[1] <= 2.2 * derived[0]
    assert planned[1] <= 2.2 * planned[0]


@pytest.mark.parametrize("make", [recurrent, rectified, residual, normalized_layers, attention])
def test_a_node_of_few_layers_takes_no_more_work_than_one_of_many(make: Callable[[int], Model]) -> None:
    """Totals are not multiplied out where that has many terms, and sums of outer products not where there are more
    nodes then: of two to four layers each node of a Hessian took up to 7,500 calls."""
    for count in (2, 3, 4):
        f, [w, *_] = make(count)
        hessian = ed.hessian(f, w)
        named = {name: SIZES[name] for name in ed.core.nodes.size_names(f)}
        assert calls(lambda: ed.plan(hessian, named)) <= 2800 * len(topological([hessian]))  # noqa: B023  # 2,330


def test_hessians_of_small_nets_are_not_multiplied_out() -> None:
    """Whether terms cancel on a diagonal is seen from their degrees, where they cannot."""
    planned = []
    for count in (5, 10):
        state = ed.matrix("X", 5, 4)
        for k in range(count):
            state = ed.tanh(state @ ed.matrix(f"W{k}", 4, 4))
        hessian = ed.hessian(ed.sum((state - ed.matrix("Y", 5, 4)) ** 2), "W0")
        planned.append(calls(lambda: ed.plan(hessian)))  # noqa: B023
    assert planned[1] <= 2.2 * planned[0] and planned[0] <= 190_000  # 153,000


@pytest.mark.parametrize("make, length", [(residual, 15), (attention, 2)])
def test_sums_in_parts_have_the_derivatives_of_whole_ones(make: Callable[[int], Model], length: int) -> None:
    """In both modes, against central differences, and without a second computation of the function."""
    f, [w, *_] = make(length)
    sizes = {"h": 2, "m": 3}
    assert any(map(is_sealed, topological([f, *ed.gradient(f, [w])])))
    arrays = random_point([f], sizes)
    direction = np.random.default_rng(2).normal(size=(2, 2))
    gradient = ed.gradient(f, w)
    along = [
        ed.evaluate([f, gradient], {**arrays, w.name: arrays[w.name] + step * direction}, sizes)
        for step in (-1e-5, 1e-5)
    ]
    slope, product = ((after - before) / 2e-5 for before, after in zip(*along, strict=True))
    at = {**arrays, "V": direction}
    np.testing.assert_allclose(ed.evaluate(ed.jvp(f, w, "V"), at, sizes), slope, 1e-5)
    np.testing.assert_allclose(np.sum(ed.evaluate(gradient, arrays, sizes) * direction), slope, 1e-5)
    np.testing.assert_allclose(ed.evaluate(ed.hvp(f, w, "V"), at, sizes), product, 1e-4, 1e-6)
    both, alone = (ed.plan(found, sizes).flops for found in ([f, gradient], gradient))
    assert both <= 1.1 * alone


@pytest.mark.parametrize("make, length", [(pendulum, 3), (epidemic, 10)])
def test_hessians_of_loops_grow_with_the_steps(make: Callable[[int], Model], length: int) -> None:
    """Without end before: every step had the terms of all steps before it, and the Hessian a square of those."""
    nodes, lines = [], []
    for steps in (length, 2 * length):
        f, [x] = make(steps)
        found = ed.hessian(f, x)
        nodes.append(sum(1 + len(node.children) for node in topological([found])))
        program = ed.compile(found)
        lines.append(len(program.source.splitlines()))
        at = {x.name: np.random.default_rng(steps).uniform(0.5, 1.5, x.shape)}
        np.testing.assert_allclose(program(**at), ed.evaluate(found, at), 1e-9)
        slope = ed.compile(ed.gradient(f, x))
        for k, step in enumerate(1e-5 * np.eye(x.shape[0])):
            both = [slope(**{x.name: at[x.name] + sign * step}) for sign in (-1, 1)]
            np.testing.assert_allclose(program(**at)[k], (both[1] - both[0]) / 2e-5, 1e-5, 1e-6)
    assert nodes[1] <= 2.6 * nodes[0]
    assert lines[1] <= 2.6 * lines[0]


def test_a_second_derivative_of_twice_the_steps_takes_twice_the_work() -> None:
    work = []
    for steps in (6, 12):
        f, [w, _] = recurrent(steps)
        found = ed.hessian(f, w)
        work.append(calls(lambda: ed.plan(found, {"h": 6, "d": 4})))  # noqa: B023
    assert work[1] <= 2.4 * work[0]


def test_kinks_of_all_steps_take_no_time_where_none_is_met() -> None:
    """Each sign meets each absolute value: the terms of all pairs were found, which are 0 unless there is a zero."""

    def last(w: Any, b: Any, steps: int) -> Any:
        h = np.zeros(3)
        for _ in range(steps):
            z = w @ h + b
            h = np.sign(z) * np.log1p(np.abs(z))
        return np.sum(h**2)

    rng = np.random.default_rng(1)
    w, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    work = [calls(lambda: ed.hessian(last, (0, 1))(w, b, steps)) for steps in (6, 12)]  # noqa: B023
    assert work[1] <= 2.4 * work[0]
    slope = ed.gradient(last, (0, 1))
    along = [slope(w + step, b, 12) for step in (-1e-5, 1e-5)]
    found = [np.sum(blocks[0], axis=(-2, -1)) for blocks in ed.hessian(last, (0, 1))(w, b, 12)]
    for before, after, product in zip(*along, found, strict=True):
        np.testing.assert_allclose(product, (after - before) / 2e-5, 1e-6, 1e-8)


def test_the_first_call_of_a_normalized_memory_takes_work_in_proportion_to_its_steps() -> None:
    """Written as people do in NumPy: tracing, comparing with a plain call, deriving and planning together."""

    def last(w: Any, u: Any, xs: Any) -> Any:
        h, c = np.zeros(4), np.zeros(4)
        for x in xs:
            z = w @ h + u @ x
            z = (z - np.mean(z)) / np.sqrt(np.var(z) + 1e-5)
            c = c / (1 + np.exp(-z[:4])) + np.tanh(z[4:8]) / (1 + np.exp(-z[8:12]))
            h = np.tanh((c - np.mean(c)) / np.sqrt(np.var(c) + 1e-5)) / (1 + np.exp(-z[12:]))
        return np.sum(h**2)

    rng = np.random.default_rng(1)
    w, u, xs = rng.normal(size=(16, 4)), rng.normal(size=(16, 3)), rng.normal(size=(12, 3))
    ed.gradient(last, (0, 1))(w, u, xs[:2])  # what is imported at the first call of all
    work = [calls(lambda: ed.gradient(last, (0, 1))(w, u, xs[:steps])) for steps in (6, 12)]  # noqa: B023
    assert work[1] <= 2.1 * work[0] and work[1] <= 2_400_000  # 2,142,000
    slope = ed.gradient(last, (0, 1))(w, u, xs)
    along = [last(w + step, u, xs) for step in (-1e-6, 1e-6)]
    np.testing.assert_allclose(np.sum(slope[0]), (along[1] - along[0]) / 2e-6, 1e-5, 1e-8)


def test_parts_of_what_steps_add_to_are_cut_once() -> None:
    """Positions and momenta of a pendulum of springs: each step adds to both, so that parts were found on all paths."""

    def energy(q: Any, p: Any, a: Any, steps: int) -> Any:
        stiff = a @ a.T
        for _ in range(steps):
            p = p - 0.05 * (stiff @ q + q**3)
            q = q + 0.1 * p
            p = p - 0.05 * (stiff @ q + q**3)
        return np.sum(q**2) + 0.5 * p @ p

    rng = np.random.default_rng(1)
    given = (rng.normal(size=4), rng.normal(size=4), 0.4 * rng.normal(size=(4, 4)))
    work = [calls(lambda: ed.hessian(energy, (0, 1, 2))(*given, steps)) for steps in (6, 10)]  # noqa: B023
    assert work[1] <= 2.2 * work[0]


def test_the_order_of_twice_the_operands_takes_four_times_the_work() -> None:
    """There are four times as many pairs, of which each is looked at once; some operands are the same tensor."""
    work = []
    for count in (12, 24):
        inputs = [(k, k + 1) for k in range(count)]
        work.append(calls(lambda: tensor_order_path(inputs, (0, count), [k % 3 for k in range(count)])))  # noqa: B023
    assert work[1] <= 4.6 * work[0]
