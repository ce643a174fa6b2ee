"""The algebra of index maps: what is made of them in networks is that of their 0/1 arrays in NumPy."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.core.index_relations import IndexMap, Table
from eindiff.core.nodes import Einsum, topological


def random_map(random: Random, inputs: list[int], size: int | None) -> IndexMap:
    """A map of given inputs, into an axis of a given size if there is one."""
    strides = [random.choice([-3, -2, -1, 1, 1, 1, 2, 3, 0]) for _ in inputs]
    ends = [s * (n - 1) for s, n in zip(strides, inputs, strict=True)]
    offset = random.randint(0, 2) - sum(min(0, end) for end in ends)
    needed = offset + sum(max(0, end) for end in ends) + 1
    if random.random() < 0.5 or (size is not None and size < needed):
        size = size or random.randint(1, 6)
        return IndexMap(size, tuple(inputs), indices=Table([random.randrange(size) for _ in range(prod(inputs))]))
    return IndexMap(size or needed + random.randint(0, 2), tuple(inputs), offset, tuple(strides))


def random_network(random: Random) -> tuple[list, list, dict[int, int]]:
    """Maps of maps, maps that meet, and repeated ones, with arrays beside them; and the sizes of labels."""
    sizes: dict[int, int] = {}
    factors = []

    def label(size: int) -> int:
        sizes[len(sizes)] = size
        return len(sizes) - 1

    for _ in range(random.randint(1, 4)):
        known = random.random() < 0.6
        inputs = [
            random.choice([*sizes]) if sizes and known else label(random.randint(1, 5))
            for _ in range(random.randint(0, 2))
        ]
        target = random.choice([*sizes]) if sizes and random.random() < 0.5 else None
        chosen = random_map(random, [sizes[x] for x in inputs], None if target is None else sizes[target])
        factors.append((chosen, (label(int(chosen.size)) if target is None else target, *inputs)))
    variables = []
    for name in "xy"[: random.randint(0, 2)]:
        labels = tuple(random.sample([*sizes], min(len(sizes), random.randint(1, 2))))
        variables.append((ed.tensor(name, tuple(sizes[x] for x in labels)), labels))
    return factors, variables, sizes


@pytest.mark.parametrize("start", range(0, 2000, 250))
def test_networks_of_random_maps(start: int) -> None:
    for seed in range(start, start + 250):
        random = Random(seed)
        maps, variables, sizes = random_network(random)
        output = tuple(x for x in sizes if random.random() < 0.4)[:4]
        rng = np.random.default_rng(seed)
        arrays = {v.name: rng.normal(size=v.shape) for v, _ in variables}
        dense = [(chosen.to_array({}), labels) for chosen, labels in maps]
        dense += [(arrays[v.name], labels) for v, labels in variables]
        expected = np.einsum(*[entry for array, labels in dense for entry in (array, list(labels))], list(output))
        factors = [(construct.constant(chosen), labels) for chosen, labels in maps] + variables
        expr = construct.einsum(1, factors, output, sizes)
        np.testing.assert_allclose(ed.evaluate(expr, arrays), expected, 1e-12, 1e-12, err_msg=f"{seed}: {expr}")


x, y = ed.vector("x", 12), ed.vector("y", 12)
u = ed.vector("u", "n")
PLACES, MORE = np.array([3, 1, 4, 1, 5]), np.array([0, 4, 2])
EQUAL = {
    "a table of a slice": (x[2:][PLACES], x[PLACES + 2]),
    "a slice of a table": (x[PLACES][1:4], x[PLACES[1:4]]),
    "a table of a table": (x[PLACES][MORE], x[PLACES[MORE]]),
    "a table that is a slice": (x[np.arange(1, 9, 2)], x[1:9:2]),
    "a table that is a shift, of a name": (u[[2, 3, 4]], u[2:5]),
    "backwards twice": (x[::-1][::-1][PLACES], x[PLACES]),
    "strides of strides": (x[1::2][::3], x[1::6]),
    "what was put at places": (ed.concatenate([y, x])[12 + PLACES], x[PLACES]),
    "the same shift of a sum": ((x + y)[3:] - y[3:], x[3:]),
    "one entry of a table": (x[PLACES][2], x[4]),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_relations_are_one_object(name: str) -> None:
    first, second = EQUAL[name]
    assert first is second


def _scattered(expr: ed.Expr, size: int, places: np.ndarray) -> ed.Expr:
    chosen = construct.constant(IndexMap(size, (len(places),), indices=Table(places)))
    return ed.einsum("ki,i->k", chosen, expr)


def test_relations_that_never_meet_are_zero() -> None:
    assert construct.is_zero(_scattered(x[:6], 12, np.arange(0, 12, 2))[1::2])
    assert construct.is_zero(_scattered(x[:3], 12, np.array([7, 2, 9]))[[1, 3, 3]])
    assert construct.is_zero(_scattered(x[:3], 12, np.array([7, 2, 9]))[10:])


def test_shifts_that_meet_in_part_are_a_shift() -> None:
    """What is put at 3 to 9 and read from 5 on: one shift, and no sum over places that are in neither."""
    placed = _scattered(x[:7], 12, np.arange(3, 10))[5:]
    assert all(len(node.operands) <= 3 for node in topological([placed]) if isinstance(node, Einsum))
    at = np.arange(1.0, 13)
    expected = np.zeros(12)
    expected[3:10] = at[:7]
    np.testing.assert_array_equal(ed.evaluate(placed, {"x": at}), expected[5:])


def test_large_tables_are_arrays() -> None:
    """A table of a million places is told apart by a digest, and never listed."""
    places = np.random.default_rng(0).integers(0, 1000, 1_000_000)
    first, second = (construct.constant(IndexMap(1000, (1_000_000,), indices=Table(places.copy()))) for _ in range(2))
    assert first is second
    assert not first.value.indices.array.flags.writeable  # type: ignore[union-attr]
    assert len(repr(first.value)) < 200
