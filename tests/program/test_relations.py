"""Programs with index maps: what they cost, and that every order in which maps are used gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import eindiff as ed
from backend_libraries import Library, check, cupy_or_stand_in, every_library  # noqa: F401
from eindiff.core import construct
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Expr
from eindiff.planning import tuning
from eindiff.planning.relation_order import Relation, relation_order
from eindiff.program.backends.jax_backend import BACKEND
from eindiff.program.interpreter import evaluate
from eindiff.program.lower import networks
from eindiff.program.lower.meetings import joined
from eindiff.program.lower.places import Index
from eindiff.program.write.module import Module

WIDTH = 11


def chain(n: int) -> Expr:
    x = ed.vector("x", n)
    return ed.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) + ed.sum(ed.sin(x[1:] * x[:-1]))


def trend(n: int) -> Expr:
    x = ed.vector("x", n)
    return ed.sum(ed.exp(x[2:] - 2 * x[1:-1] + x[:-2]))


def grid(n: int) -> Expr:
    x = ed.matrix("x", n // 20, 20)
    across, down = x[1:, :-1] - x[:-1, :-1], x[:-1, 1:] - x[:-1, :-1]
    return ed.sum(ed.sqrt(across**2 + down**2 + 0.1))


def edges(n: int) -> Expr:
    x, (left, right) = ed.vector("x", n), np.random.default_rng(0).integers(0, n, size=(2, 3 * n))
    return ed.sum(ed.cos(x[left] - x[right]))


def windows(n: int) -> Expr:
    x, w = ed.vector("x", n), ed.vector("w", WIDTH)
    return ed.sum(ed.tanh(ed.sin(x[np.arange(n - WIDTH + 1)[:, None] + np.arange(WIDTH)]) @ w))


PROBLEMS = [chain, trend, grid, edges, windows]




@pytest.mark.parametrize("made", [ed.hessian_diagonal, ed.laplacian])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_diagonals_take_linear_work_and_memory(problem: Callable[[int], Expr], made: Any) -> None:
    small, large = (ed.plan(made(problem(n), "x")) for n in (400, 1600))
    assert large.flops <= 4.2 * small.flops
    assert large.peak <= 4.2 * small.peak
    assert large.peak <= 1600 * 8 * 12 * (WIDTH**2 if problem is windows else 1)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_second_derivatives_take_the_work_of_their_entries(problem: Callable[[int], Expr]) -> None:
    """The values at their places are few; only the result is as large as a matrix."""
    cost = ed.plan(ed.hessian(problem(800), "x"))
    assert cost.flops <= 800 * 100 * (WIDTH**2 if problem is windows else 1)
    assert cost.peak <= 800**2 * 8 + 800 * 8 * 16 * (WIDTH**2 if problem is windows else 1)


@pytest.mark.parametrize("by", ["t", "w"])
@pytest.mark.parametrize("power", [3, 4])
def test_products_along_directions_of_convolutions_cost_like_these(power: int, by: str) -> None:
    """Convolutions inside of products are arrays of their own, however many relations all of them have together."""
    t, w = ed.tensor("t", 8, 8, 200), ed.tensor("w", 8, 8, 3)
    padded = ed.concatenate([ed.zeros(8, 8, 1), t, ed.zeros(8, 8, 1)], axis=2)
    convolved = ed.einsum("bclk,ock->bol", padded[:, :, np.arange(200)[:, None] + np.arange(3)], w)
    f, variable = ed.sum(convolved**power), {"t": t, "w": w}[by]
    value, along = ed.plan(f), ed.plan(ed.hvp(f, variable, ed.tensor("v", *variable.shape)))
    assert along.flops <= 4 * value.flops
    assert along.peak <= 2 * value.peak


def test_chains_of_named_sizes_take_linear_memory() -> None:
    x = ed.vector("x", "n")
    f = ed.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) + ed.sum(ed.sin(x[1:] * x[:-1]))
    outputs = [ed.hessian_diagonal(f, x), ed.laplacian(f, x)]
    assert ed.plan(outputs, {"n": 10**6}).peak <= 10**6 * 8 * 12
    program = ed.compile(outputs)
    for n in (2, 3, 5, 9, 8, 1000):
        at = np.random.default_rng(n).normal(size=n)
        for found, expected in zip(program(x=at), evaluate(outputs, {"x": at}), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_places_that_are_inputs_take_linear_memory() -> None:
    """Where both ends of an edge are the same node is tested edge by edge."""
    x, g, h = ed.vector("x", "n"), ed.indices("g", "m", into="n"), ed.indices("h", "m", into="n")
    f = ed.sum(ed.cos(x[g] - x[h]) * x[g])
    outputs = [ed.hessian_diagonal(f, x), ed.laplacian(f, x), ed.hessian(f, x)]
    assert ed.plan(outputs[:2], {"n": 10**5, "m": 3 * 10**5}).peak <= 4 * 10**5 * 8 * 16
    program = ed.compile(outputs)
    rng = np.random.default_rng(0)
    for n, m in ((7, 30), (100, 500)):
        arrays = {"x": rng.normal(size=n), "g": rng.integers(0, n, m), "h": rng.integers(0, n, m)}
        for found, expected in zip(program(**arrays), evaluate(outputs, arrays), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_a_triangle_of_entries_is_a_matrix_before_it_is_multiplied() -> None:
    """Neither a product nor its gradient is taken entry by entry: both cost what matrix products do."""
    d, n = 20, 3000
    rows, columns = np.tril_indices(d)
    entries, X = ed.vector("entries", len(rows)), ed.matrix("X", n, d)
    L = place(entries, rows, columns, d)
    f = ed.sum(ed.exp(X @ L.T))
    cost = ed.plan([f, *ed.gradient(f, [entries, X])])
    assert cost.flops <= 3 * 2 * n * d * d + 20 * n * d
    assert cost.peak <= 6 * n * d * 8


def place(entries: Expr, rows: np.ndarray, columns: np.ndarray, d: int) -> Expr:
    """The matrix with entries at some places."""
    maps = [construct.constant(IndexMap(d, (len(rows),), indices=tuple(x.tolist()))) for x in (rows, columns)]
    factors = [(entries, (2,)), (maps[0], (0, 2)), (maps[1], (1, 2))]
    return construct.einsum(1, factors, (0, 1), {0: d, 1: d, 2: len(rows)})


def test_places_that_depend_on_no_input_are_computed_once() -> None:
    source = Module(ed.hessian(windows(100), "x"), "f").program({}).source
    inside = source[source.index("def f(") :]
    assert "arange" not in inside
    assert "where" not in source  # no matrix that is one at some places
    assert "windows(x" in source


# Numbers


def random_map(rng: np.random.Generator, inputs: list[int], size: int) -> IndexMap:
    """A table, which may say few places, or a formula that stays in range."""
    shape = tuple(inputs)
    if rng.random() < 0.4:
        size_of_image = size if rng.random() < 0.6 else 1
        return IndexMap(size, shape, indices=tuple(rng.integers(0, size_of_image, size=shape).ravel().tolist()))
    strides = tuple(int(rng.integers(-1, 3)) for _ in shape)
    lowest = sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True))
    highest = sum(max(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True))
    if highest - lowest >= size:
        return IndexMap(size, shape, indices=tuple(rng.integers(0, size, size=shape).ravel().tolist()))
    return IndexMap(size, shape, int(rng.integers(-lowest, size - highest)), strides)


def random_network(seed: int) -> tuple[list[tuple[Expr, tuple[int, ...]]], tuple[int, ...], dict[int, int]]:
    """Factors over a few labels and maps between these; some labels are left."""
    rng = np.random.default_rng(seed)
    sizes = {label: int(rng.integers(2, 6)) for label in range(5)}
    factors: list[tuple[Expr, tuple[int, ...]]] = []
    for k in range(rng.integers(1, 4)):
        labels = tuple(int(x) for x in rng.choice(5, size=rng.integers(1, 4), replace=False))
        factors.append((ed.tensor(f"a{k}", tuple(sizes[x] for x in labels)), labels))
    for _ in range(rng.integers(1, 4)):
        target, *inputs = (int(x) for x in rng.choice(5, size=rng.integers(2, 4), replace=False))
        chosen = random_map(rng, [sizes[x] for x in inputs], sizes[target])
        factors.append((construct.constant(chosen), (target, *inputs)))
    output = tuple(int(x) for x in rng.choice(5, size=rng.integers(0, 4), replace=False))
    return factors, output, sizes


@pytest.mark.parametrize("seed", range(80))
def test_networks_are_what_sums_of_products_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays count as large; the oracle forms the 0/1 array of every map."""
    monkeypatch.setattr(tuning, "RELATED_ENTRIES", 1)
    factors, output, sizes = random_network(seed)
    rng = np.random.default_rng(seed)
    arrays, operands = {}, []
    for node, labels in factors:
        value = getattr(node, "value", None)
        array = value.to_array({}) if isinstance(value, IndexMap) else rng.normal(size=node.shape)
        if value is None:
            arrays[node.name] = array
        operands += [array, labels]
    operands += [np.ones([sizes[x] for x in output]), output]
    bound = {x for _, labels in factors for x in labels}
    used = {x: sizes[x] for x in bound | set(output)}
    expr = construct.einsum(1, factors, output, used)
    expected = np.einsum(*operands, output)
    names = {v.name for v in ed.variables(expr)}
    found = ed.compile(expr)(**{name: x for name, x in arrays.items() if name in names})
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_derivatives_are_those_of_the_interpreter(problem: Callable[[int], Expr], library: Library) -> None:
    f = problem(60)
    outputs = [ed.gradient(f, "x"), ed.hessian(f, "x"), ed.hessian_diagonal(f, "x"), ed.laplacian(f, "x")]
    rng = np.random.default_rng(0)
    arrays = {v.name: rng.normal(size=v.shape) for v in ed.variables(f)}
    check(library, outputs, arrays, evaluate(outputs, arrays))


def test_results_go_to_arrays_that_are_not_contiguous() -> None:
    f = windows(40)
    rng = np.random.default_rng(0)
    arrays = {v.name: rng.normal(size=v.shape) for v in ed.variables(f)}
    program = ed.compile(ed.hessian(f, "x"))
    expected = program(**arrays)
    out = np.empty((40, 80))[:, ::2]
    assert program(**arrays, out=out) is out
    np.testing.assert_array_equal(out, expected)


# Planning


def test_relations_of_one_label_stand_between_products() -> None:
    relations = (Relation(0, (2,), True), Relation(0, (3,), True))
    order = relation_order(((2,), (3,)), relations, (), ((0, 10), (2, 1000), (3, 1000)))
    assert order is not None
    assert order.early == ()
    assert len(order.steps) >= 1


def test_the_join_of_two_tables() -> None:
    a, b = Index(0, ((0, 1), (1, 1))), Index(0, ((1, 1), (2, 1)))
    places = [np.arange(3)[:, None] + np.arange(4), np.arange(4)[:, None] + np.arange(5)]
    found = joined(a, b, places, {0: 3, 1: 4, 2: 5})
    pairs = set(zip(*(found[k].tolist() for k in range(3)), strict=True))
    every = {(i, j, k) for i in range(3) for j in range(4) for k in range(5) if i + j == j + k}
    assert pairs == every


def test_windows_of_a_matrix_have_no_more_places_in_common_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a loop writes one after the other: joined by rows first, then by columns, all pairs in a row were
    listed, and all pairs of these."""

    def last(u: np.ndarray, steps: int) -> np.ndarray:
        rows = np.zeros((steps + 2, len(u)))
        rows[0] = rows[1] = u
        for k in range(1, steps + 1):
            a, b = rows[k - 1], rows[k]
            rows[k + 1, 1:-1] = b[1:-1] - 0.5 * a[1:-1] + 0.2 * (b[2:] + b[:-2]) + 0.1 * b[1:-1] ** 3
        return np.sum(rows[-1] ** 2)

    def same(u: np.ndarray, steps: int) -> np.ndarray:
        a = b = u
        for _ in range(steps):
            row = b[1:-1] - 0.5 * a[1:-1] + 0.2 * (b[2:] + b[:-2]) + 0.1 * b[1:-1] ** 3
            a, b = b, np.concatenate([np.zeros(1), row, np.zeros(1)])
        return np.sum(b**2)

    counts, join = [], networks.joined

    def counted(*args: Any) -> dict[int, np.ndarray]:
        found = join(*args)
        counts.append(len(next(iter(found.values()))))
        return found

    monkeypatch.setattr(networks, "joined", counted)
    u = np.random.default_rng(3).uniform(-0.3, 0.3, size=10)
    found = ed.hessian(last)(u, 12)
    assert counts
    assert max(counts) <= 14 * 10
    np.testing.assert_allclose(found, ed.hessian(same)(u, 12), 1e-8, 1e-10)


# Places in JAX, which has three words for them

CUTS: list[tuple[Any, tuple]] = [
    (5, (2,)),
    ((5, 6), (slice(None), 3)),
    ((5, 6), (slice(1, 4), 3)),
    ((5, 6), (2, 3)),
    ((5, 6), (slice(0, 5, 2), slice(1, None, 3))),
    ((5, 6, 4), (1, slice(None), slice(2, None))),
    ((5, 6), (slice(3, 3), 2)),
    ((0, 3), (slice(None), 1)),
    ((5, 6), (np.array([0, 3, 0]), np.array([1, 1, 1]))),
    ((5, 5), (np.arange(4), np.arange(4) + 1)),
    ((4, 4), (np.arange(4), np.arange(4))),
    ((5, 2, 5, 2), (np.arange(4)[:, None, None] + 1, np.arange(2)[:, None], np.arange(4)[:, None, None], np.arange(2))),
    ((4, 4, 3), (np.arange(2)[:, None] + 2, np.arange(2)[:, None], np.arange(3))),
    ((5, 7), (np.array([0, 0, 1, 1, 2, 2, 3]), np.arange(7))),
    ((9, 9), (2 * np.arange(4), 2 * np.arange(4) + 1)),
    ((200, 200), (np.arange(199), np.arange(199) + 1)),
]


@pytest.mark.parametrize(("shape", "index"), CUTS, ids=str)
def test_values_are_added_at_their_places(shape: Any, index: tuple) -> None:
    namespace: dict[str, Any] = {"jnp": jnp, "lax": lax, "np": np}
    exec(BACKEND.helpers["put"], namespace)
    rng = np.random.default_rng(0)
    base = rng.normal(size=shape)
    for value in (rng.normal(size=base[index].shape), np.inf):
        expected = base.copy()
        np.add.at(expected, index, value)
        for given in (value, jnp.asarray(value)):  # known while a program is traced, and not
            np.testing.assert_allclose(namespace["put"](shape, index, given, float, base), expected, rtol=1e-6)
