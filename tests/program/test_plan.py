"""Plans: exact counts of operations, bytes and memory as they are, and ceilings on the memory that programs take."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nodes import Expr
from eindiff.program.check import random_point
from eindiff.program.interpreter import evaluate, flatten
from models import MODELS, Model, factorization, pairwise_energy

A, B, C = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "k"), ed.matrix("C", "k", "l")
G = ed.matrix("G", "n", "n")
x, y, z = ed.vector("x", "n"), ed.vector("y", "n"), ed.vector("z", "m")
SIZES = {"m": 20, "n": 30, "k": 40, "l": 50}
m, n, k, l = SIZES.values()

UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
QUANTITIES: dict[str, Callable[[Model], Any]] = {
    "value": lambda model: model.function,
    "gradient": lambda model: ed.gradient(model.function, model.wrt),
    "hessian": lambda model: ed.hessian(model.function, model.wrt[0]),
}
QUANTITIES["all"] = lambda model: [quantity(model) for name, quantity in QUANTITIES.items() if name != "all"]

every_model = pytest.mark.parametrize("name", MODELS)
every_quantity = pytest.mark.parametrize("quantity", QUANTITIES)


@cache
def outputs_of(name: str, quantity: str) -> Any:
    return QUANTITIES[quantity](MODELS[name]())


@cache
def plan_of(name: str, quantity: str, strategy: str = "auto", **more: int) -> ed.Plan:
    return ed.plan(outputs_of(name, quantity), {**MODELS[name]().sizes, **more}, strategy)


# Counts

FLOPS: dict[str, tuple[Callable[[], Expr], float]] = {
    "x + y": (lambda: x + y, n),
    "2 x": (lambda: 2 * x, n),
    "x * y": (lambda: x * y, n),
    "exp(x)": (lambda: ed.exp(x), n),
    "sum(x)": (lambda: ed.sum(x), n),
    "sum(A)": (lambda: ed.sum(A), m * n),
    "column sums": (lambda: ed.sum(A, 0), m * n),
    "x'x": (lambda: x @ x, 2 * n),
    "x'y": (lambda: x @ y, 2 * n),
    "outer(z, x)": (lambda: ed.outer(z, x), m * n),
    "A x": (lambda: A @ x, 2 * m * n),
    "A'z": (lambda: A.T @ z, 2 * m * n),
    "A B": (lambda: A @ B, 2 * m * n * k),
    "A A'": (lambda: A @ A.T, m * m * n),  # of which BLAS computes half
    "B'A'": (lambda: B.T @ A.T, 2 * m * n * k),
    "A B C": (lambda: A @ B @ C, 2 * m * n * k + 2 * m * k * l),
    "A B C from the right": (lambda: A @ B @ C @ ed.vector("v", "l"), 2 * k * l + 2 * n * k + 2 * m * n),
    "x'G x": (lambda: x @ G @ x, 2 * n * n + 2 * n),
    "tr(A A')": (lambda: ed.tr(A @ A.T), 2 * m * n),
    "a stack of products": (
        lambda: ed.einsum("bij,bjk->bik", ed.tensor("S", (7, "m", "n")), ed.tensor("T", (7, "n", "k"))),
        7 * 2 * m * n * k,
    ),
    "a transpose": (lambda: A.T, 0),
    "solve(G, x)": (lambda: ed.solve(G, x), 2 / 3 * n**3 + 2 * n * n),
}


@pytest.mark.parametrize("name", FLOPS)
def test_flops_are_exact(name: str) -> None:
    make, flops = FLOPS[name]
    assert ed.plan(make(), SIZES).flops == flops


def test_bytes_are_read_and_written() -> None:
    assert ed.plan(x + y, SIZES).bytes == 8 * 3 * n
    assert ed.plan(A @ B, SIZES).bytes == 8 * (m * n + n * k + m * k)
    assert ed.plan(A @ B, SIZES).result_bytes == ed.plan(A @ B, SIZES).peak == 8 * m * k
    assert ed.compile(A @ B, dtype="float32", sizes=SIZES).plan().result_bytes == 4 * m * k


def test_shared_parts_count_once() -> None:
    f = ed.exp(A @ B)
    assert ed.plan([f, f], SIZES).flops == ed.plan([f, f.T], SIZES).flops == ed.plan(f, SIZES).flops


def test_intermediates() -> None:
    plan = ed.plan(ed.exp(A @ B) @ C, SIZES)
    assert (plan.largest, plan.largest_order) == (m * k, 2)
    plan = ed.plan(A @ B, SIZES)
    assert (plan.largest, plan.largest_order) == (0, 0)


@every_model
@every_quantity
def test_totals_are_those_of_the_steps(name: str, quantity: str) -> None:
    plan = plan_of(name, quantity)
    assert plan.flops == pytest.approx(sum(step.flops for step in plan.steps))
    assert plan.bytes == sum(step.bytes for step in plan.steps)
    assert sum(step.seconds for step in plan.steps) <= plan.seconds
    assert all(min(step.flops, step.bytes, step.seconds) >= 0 for step in plan.steps)


@every_model
@every_quantity
def test_memory_holds_the_results(name: str, quantity: str) -> None:
    plan, sizes = plan_of(name, quantity), MODELS[name]().sizes
    shapes = [output.shape for output in flatten(outputs_of(name, quantity))]
    entries = sum(prod(sizes.get(size, size) for size in shape) for shape in shapes)
    assert plan.result_bytes == 8 * entries
    assert plan.peak >= plan.result_bytes


@every_model
@pytest.mark.parametrize("quantity", ["gradient", "hessian"])
def test_larger_is_not_cheaper(name: str, quantity: str) -> None:
    """Other programs are looked for where there is enough to save: they may take fewer operations, but no less time."""
    small = plan_of(name, quantity)
    for size, number in MODELS[name]().sizes.items():
        large = plan_of(name, quantity, **{size: 2 * number})
        assert large.seconds >= small.seconds  # which is what forms are chosen by
        if sorted(step.text for step in large.steps) == sorted(step.text for step in small.steps):
            assert large.flops >= small.flops and large.bytes >= small.bytes


# Texts


@cache
def table(name: str, quantity: str) -> list[str]:
    """The lines of `explain` between the heading and the totals."""
    lines = plan_of(name, quantity).explain().splitlines()
    return lines[1 : next(place for place, line in enumerate(lines) if "in use at most" in line)]


def rows(name: str, quantity: str) -> list[tuple[float, float, float, str]]:
    """Operations, bytes moved and bytes in use of each statement that `explain` lists."""
    found = []
    for line in table(name, quantity):
        match = re.fullmatch(r" *(?:([\d.]+)( [kMGT])?)  +([\d.]+) ([kMGT]?)B  +([\d.]+) ([kMGT]?)B  (.*)", line)
        if match:
            flops, unit, moved, moved_unit, live, live_unit, text = match.groups()
            numbers = [(flops, unit or ""), (moved, moved_unit), (live, live_unit)]
            found.append((*(float(number) * UNITS[unit.strip()] for number, unit in numbers), text))
    return found


@every_model
@every_quantity
def test_every_statement_is_explained(name: str, quantity: str) -> None:
    listed = [line[34:].strip() for line in table(name, quantity)]
    _, *body = plan_of(name, quantity).source.split("def f(")[1].splitlines()
    *statements, last = [line.strip() for line in body if ".shape" not in line]
    assert listed in (statements, [*statements, last.replace("return", "result =", 1)])


@every_model
@every_quantity
def test_explained_numbers_add_up(name: str, quantity: str) -> None:
    """Up to the one digit after the point that they are written with."""
    plan = plan_of(name, quantity)
    flops, moved, live, _ = zip(*rows(name, quantity), strict=True)
    assert sum(flops) == pytest.approx(plan.flops, rel=0.05)
    assert sum(moved) == pytest.approx(plan.bytes, rel=0.05)
    assert max(live) == pytest.approx(plan.peak, rel=0.05)


def test_text() -> None:
    plan = ed.plan(A @ x, {"m": 1000, "n": 2000})
    assert (
        str(plan)
        == plan.explain(modes=False)
        == """\
operations      moved     in use
       4 M      16 MB       8 kB  result = A.dot(x)
4 M operations, 16 MB moved, 8 kB in use at most, 8 kB of it results"""
    )


@every_model
def test_source_is_the_program(name: str) -> None:
    outputs = flatten(outputs_of(name, "gradient"))
    sizes = {size: 2 + place for place, size in enumerate(MODELS[name]().sizes)}
    namespace: dict = {}
    exec(ed.plan(outputs, sizes).source, namespace)
    point = random_point(outputs, dict(sizes))
    results = namespace["f"](**point)
    for result, expected in zip(results if len(outputs) > 1 else [results], evaluate(outputs, point), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


# Strategies and errors


@every_model
@every_quantity
def test_auto_never_takes_longer(name: str, quantity: str) -> None:
    assert plan_of(name, quantity).seconds <= plan_of(name, quantity, "tensor_order").seconds


def test_auto_is_better_where_sizes_differ() -> None:
    sizes = {"m": 1, "n": 100, "k": 100, "l": 100}
    product = ed.matrix("D", "l", "m") @ A @ B @ C
    auto, rule = (ed.plan(product, sizes, strategy) for strategy in ("auto", "tensor_order"))
    assert auto.flops < rule.flops
    assert auto.source != rule.source


def test_errors_name_the_problem() -> None:
    with pytest.raises(ed.EindiffError, match="strategy 'fast': choose one of auto, tensor_order"):
        ed.plan(A @ x, SIZES, "fast")
    with pytest.raises(ed.EindiffError, match=r"plan needs the sizes m, n: give them as sizes=\{'m': ...\}"):
        ed.plan(A @ x)
    with pytest.raises(ed.EindiffError, match="plan needs the sizes n:"):
        ed.plan(A @ x, {"m": 3})
    with pytest.raises(ed.EindiffError, match="expression"):
        ed.plan(3)


def test_known_sizes_need_not_be_given() -> None:
    assert ed.plan(ed.tensor("M", (3, 4)) @ ed.tensor("v", (4,))).flops == 24
    assert ed.compile(ed.tensor("M", (3, 4)) @ ed.tensor("v", (4,))).plan().flops == 24


# Memory


def traced(outputs: Any, sizes: dict[str, int]) -> tuple[int, ed.Plan]:
    """The most bytes that a call of the compiled function holds, and its plan."""
    function = ed.compile(outputs, sizes=sizes)
    point = random_point(flatten(outputs), dict(sizes))
    function(**point)
    tracemalloc.start()
    try:
        function(**point)
        return tracemalloc.get_traced_memory()[1], function.plan(sizes)
    finally:
        tracemalloc.stop()


MEDIUM: dict[str, dict[str, int]] = {
    "20-layer net": {"b": 150, "n": 100},
    "logistic regression": {"m": 4000, "n": 200},
    "multinomial regression": {"m": 500, "n": 40, "k": 8},
    "Poisson regression": {"m": 4000, "n": 200},
    "matrix factorization": {"m": 90, "n": 100, "k": 8},
    "masked matrix factorization with ridge": {"m": 90, "n": 100, "k": 8},
    "Gaussian process": {"n": 60, "k": 10},
    "Gaussian mixture": {"m": 500, "k": 20, "d": 10},
    "attention": {"t": 60, "d": 20, "k": 16},
    "Rayleigh quotient": {"m": 1000, "n": 300},
    "nonnegative factorization": {"m": 90, "n": 100, "k": 8},
    "recurrent net": {"n": 20, "d": 10},
    "quadratic form": {"n": 500},
    "pairwise energy": {"n": 100, "d": 3},
}


LARGE = ("20-layer net", "hessian")  # 800 megabytes
CASES = [(name, quantity) for name in MEDIUM for quantity in ("gradient", "hessian") if (name, quantity) != LARGE]


@pytest.mark.parametrize(("name", "quantity"), CASES)
def test_predicted_memory(name: str, quantity: str) -> None:
    peak, plan = traced(outputs_of(name, quantity), MEDIUM[name])
    assert 0.5 * plan.peak <= peak <= 2 * plan.peak + 10_000, plan  # some of which Python itself needs


@pytest.mark.parametrize(
    ("model", "sizes", "times"),
    [(factorization(), {"m": 200, "n": 200, "k": 5}, 1.2), (pairwise_energy(), {"n": 200, "d": 3}, 3)],
    ids=["matrix factorization", "pairwise energy"],
)
def test_memory_of_hessians(model: Model, sizes: dict[str, int], times: float) -> None:
    peak, plan = traced(ed.hessian(model.function, model.wrt[0]), sizes)
    assert peak <= times * plan.result_bytes


@pytest.mark.parametrize("name", ["matrix factorization", "nonnegative factorization", "quadratic form"])
def test_buffers_take_the_place_of_results(name: str) -> None:
    hessian, sizes = outputs_of(name, "hessian"), MEDIUM[name]
    function = ed.compile(hessian, sizes=sizes)
    point = random_point([hessian], dict(sizes))
    out = function(**point)
    tracemalloc.start()
    try:
        function(**point, out=out)
        assert tracemalloc.get_traced_memory()[1] <= 0.2 * out.nbytes
    finally:
        tracemalloc.stop()


def test_loops_that_make_several_sums_are_explained() -> None:
    G = ed.matrix("G", "k", "m")
    plan = ed.plan([ed.sum(ed.exp(G)), ed.sum(ed.exp(G) * G)], {"k": 3000, "m": 3000})
    assert "in_threads(" in plan.source
    [cost] = plan.statements()
    assert "in_tiles(" in plan.explain()
    assert (cost.flops, cost.bytes, cost.live) == (plan.flops, plan.bytes, plan.peak)
