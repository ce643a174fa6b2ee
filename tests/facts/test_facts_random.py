"""Facts hold for all parts of random expressions, and of random networks with a mirror."""

from __future__ import annotations

import random
from collections import Counter
from zlib import crc32

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.core.nodes import topological
from eindiff.program.interpreter import evaluate  # not the one that compiles everything too
from fact_checks import assert_holds
from grammar import OPERATIONS, Example, examples, names_in, run, shape_of

# Random expressions


def variable_of(name: str) -> ed.Expr:
    """As in the grammar, with what is true of the arrays declared: p is positive, s is semidefinite."""
    if name[0] == "s":
        return ed.symmetric(name, shape_of(name)[0], "psd")
    return ed.tensor(name, shape_of(name), *(["positive"] if name[0] == "p" else []))


def array_of(name: str, seed: int) -> np.ndarray:
    shape, generator = shape_of(name), np.random.default_rng(crc32(name.encode()) + seed)
    if name[0] == "s":
        factor = generator.normal(size=(shape[0], 1 + seed % shape[0]))
        return factor @ factor.T
    return generator.uniform(0.05, 1.5, shape) if name[0] == "p" else generator.normal(size=shape) * (1 + seed)


known: Counter = Counter()


def check(example: Example) -> None:
    """All nodes of an expression and of the derivatives of its sum."""
    variables = {name: variable_of(name) for name in names_in(example.text)}
    outputs = [eval(example.text, {"ed": ed, "np": np} | variables)]
    for name in example.by:
        outputs += [ed.derivative(ed.sum(outputs[0]), variables[name])]
        outputs += [ed.derivative(outputs[-1], variables[name])]
    nodes = topological(outputs)
    for seed in (0, 1):
        try:
            values = evaluate(nodes, {name: array_of(name, seed) for name in variables})
        except ed.EindiffError:  # not a number here
            return
        for node, value in zip(nodes, values, strict=True):
            if np.isfinite(value).all():
                known.update(assert_holds(node, value))


@pytest.mark.parametrize("root", OPERATIONS)
def test_random_expressions(root):
    known.clear()
    run(examples(root, 2), 15, check)
    assert known["bounds"] > 0.2 * known["nodes"]
    assert known["nonzero"] > 0.05 * known["nodes"]
    assert known["symmetric"] > 0.2 * known["operators"]
    assert known["psd"] > 0.05 * known["operators"]


# Random networks, half of them with a mirror


def leaves() -> dict[str, ed.Expr]:
    return {
        "A": ed.matrix("A", 2, 2), "S": ed.symmetric("S", 2), "P": ed.symmetric("P", 2, "psd"),
        "N": ed.matrix("N", 2, 2, "positive"), "G": ed.symmetric("G", 2, "psd", "positive"), "v": ed.vector("v", 2),
        "p": ed.vector("p", 2, "positive"), "T": ed.tensor("T", (2, 2, 2)), "c": ed.scalar("c", "positive"),
        "d": ed.scalar("d"),
    }  # fmt: skip


def arrays(generator: np.random.Generator) -> dict[str, np.ndarray]:
    a, g = generator.normal(size=(2, 2)), generator.uniform(0.1, 1, (2, 2))
    f = generator.normal(size=(2, int(generator.integers(1, 3))))
    tensors = {name: generator.normal(size=shape) for name, shape in (("v", 2), ("T", (2, 2, 2)), ("d", ()))}
    positive = {name: generator.uniform(0.1, 2, shape) for name, shape in (("N", (2, 2)), ("p", 2), ("c", ()))}
    return {"A": a, "S": a + a.T, "P": f @ f.T, "G": g @ g.T, **tensors, **positive}


def network(choose: random.Random, operands: list[ed.Expr], ndim: int) -> ed.Expr:
    """A random Einsum, most of them with some operands and axes and their mirror images."""
    moved, fixed = choose.randint(0, 3), choose.randint(1, 2)
    labels = range(2 * moved + fixed)

    def image(label: int) -> int:
        return label if label >= 2 * moved else (label + moved) % (2 * moved)

    def some(count: int) -> tuple[int, ...]:
        chosen = [choose.choice(labels) for _ in range(count)]
        return tuple([x if x >= 2 * moved else x % moved for x in chosen] if choose.random() < 0.7 else chosen)

    factors = []
    for operand in choose.choices(operands, k=choose.randint(1, 3)):
        factors.append((operand, some(operand.ndim)))
        if choose.random() < 0.7:
            factors.append((operand, tuple(map(image, factors[-1][1]))))
    rows = some(ndim // 2)
    output = [*rows, *map(image, rows), *some(ndim % 2)]
    if choose.random() < 0.15:
        choose.shuffle(output)
    coefficient = choose.choice([1, 1, 2, -1, 0.3])
    return construct.einsum(coefficient, factors, tuple(output), dict.fromkeys(labels, 2), inline=choose.random() < 0.7)


def random_operator(choose: random.Random) -> ed.Expr:
    """A sum of networks of leaves and of functions of networks."""
    operands = [*leaves().values()]
    for _ in range(choose.randint(0, 3)):
        inner = network(choose, operands, choose.choice([0, 1, 2, 2, 3, 4]))
        inner = inner + network(choose, operands, inner.ndim) if choose.random() < 0.4 else inner
        forms = [ed.exp, ed.sigmoid, ed.cosh, lambda u: u * u, lambda u: u, lambda u: u]
        if inner.ndim == 2:
            forms += [lambda u: ed.inv(u @ u.T + ed.eye(2)), lambda u: ed.expm((u + u.T) / 9), lambda u: u + ed.eye(2)]
        operands += [choose.choice(forms)(inner / 3)] * 3
    ndim = choose.choice([2, 2, 4])
    total = network(choose, operands, ndim)
    for _ in range(choose.choice([0, 0, 1, 2])):
        total = total + network(choose, operands, ndim)
    return total


@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed):
    found: Counter = Counter()
    for count in range(60):
        choose = random.Random(1000 * seed + count)
        try:
            nodes = topological([random_operator(choose)])
        except ed.EindiffError:  # a number that is not finite
            continue
        for point in range(3):
            values = evaluate(nodes, arrays(np.random.default_rng(10 * count + point)))
            if all(np.abs(value).max() < 300 for value in values):  # no exp is rounded to 0
                for node, value in zip(nodes, values, strict=True):
                    found += assert_holds(node, value)
    assert found["psd"] > 0.25 * found["operators"]
    assert found["nsd"] > 0.02 * found["operators"]
    assert found["pd"] > 0.01 * found["operators"]
    assert found["symmetric"] < 0.9 * found["operators"]
