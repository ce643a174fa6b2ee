"""Sums of fractions are one fraction: what cancels is not computed, and nothing is lost."""

from __future__ import annotations

import random
from fractions import Fraction
from math import isfinite

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nodes import Add, Einsum, Expr, Map, Variable, plain
from eindiff.planning.fractions import join_fractions

x, y, z = (ed.vector(name, "n") for name in "xyz")
p = ed.vector("p", "n", "positive")
W = ed.matrix("W", "n", "n")


def second(f: Expr) -> Expr:
    """The second derivative of each entry by x."""
    return ed.gradient(ed.sum(ed.gradient(ed.sum(f), x)), x)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (ed.log(x * x + 4), 2 * (4 - x * x) / (x * x + 4) ** 2),
        (ed.sqrt(x * x + 1), 1 / (x * x + 1) ** 1.5),
        (x * x / (x * x + 1), 2 * (1 - 3 * x * x) / (x * x + 1) ** 3),
        (ed.sqrt(p + x * x) * y, p * y / (p + x * x) ** 1.5),
        ((p + 1) * ed.log(1 + x * x / p), 2 * (p + 1) * (p - x * x) / (p**2 * (1 + x * x / p) ** 2)),
        ((ed.sqrt(x * x + 1) - y) ** 2, 2 * (1 - y / (x * x + 1) ** 1.5)),
    ],
)
def test_what_cancels_is_not_computed(f: Expr, expected: Expr) -> None:
    found = join_fractions([second(f)])[0]
    assert len(ed.to_text(found)) <= len(ed.to_text(expected)) + 4, ed.to_text(found)
    arrays = {v.name: np.linspace(0.3, 4, 7) for v in ed.variables(f)}
    np.testing.assert_allclose(ed.evaluate(found, arrays), ed.evaluate(expected, arrays), rtol=1e-13)


def test_contractions_with_equal_factors_are_one() -> None:
    apart = ed.outer(x, ed.ones(x.shape[0])) - ed.outer(ed.ones(x.shape[0]), x)
    energy = ed.hessian(ed.sum(W * ed.log(1 + apart * apart)), x)
    assert ed.plan(energy, {"n": 10}).source.count("einsum(") == 1  # one sum over neighbours


@pytest.mark.parametrize("f", [1 / (1 - x * x) + x / (1 + x), (y - z) / (1 + x * x) + (y - z) ** 2 / (1 + x * x) ** 2])
def test_no_sum_is_multiplied_out_in_which_terms_may_cancel(f: Expr) -> None:
    assert join_fractions([plain(f)])[0] is plain(f)


def exactly(node: Expr, values: dict[str, Fraction]) -> Fraction:
    """An entry of a rational function."""
    if isinstance(node, Variable):
        return values[node.name]
    if isinstance(node, Map):
        return exactly(node.args[0], values) ** int(node.function.parameter)
    if isinstance(node, Add):
        return sum((exactly(term, values) for term in node.terms), Fraction(0))
    assert isinstance(node, Einsum)
    result = Fraction(node.coefficient)
    for operand in node.operands:
        result *= exactly(operand, values)
    return result


def rational(choose: random.Random) -> Expr:
    """A random rational function."""
    atoms = [x, y, p, x * x, x - y, (x - y) ** 2, x * x * y * y, p + x * x]
    below = [1 + x * x, p + x * x, p + 1, x * x + y * y + 2, 1 + (x - y) ** 2, 1 - x * x, x + 1, x * x * y * y + 2]
    above = choose.choice([1, -2]) + choose.choice([1, -1, 3]) * choose.choice(atoms) * choose.choice([1, *atoms])
    return above / choose.choice(below) ** choose.choice([1, 1, 2])


@pytest.mark.parametrize("seed", range(12))
def test_random_fractions_against_exact_arithmetic(seed: int) -> None:
    choose = random.Random(seed)
    before = plain(second(rational(choose) + rational(choose)))
    after = join_fractions([before])[0]
    names = [v.name for v in ed.variables(before)]
    points = [{name: _number(choose, name) for name in names} for _ in range(40)]
    arrays = {name: np.array([point[name] for point in points]) for name in names}
    first, then = (_computed(expr, arrays, len(points)) for expr in (before, after))
    terms = before.terms if isinstance(before, Add) else (before,)
    for point, a, b in zip(points, first, then, strict=True):
        exact = {name: Fraction(value) for name, value in point.items()}
        try:
            truth = exactly(before, exact)
        except ZeroDivisionError:
            continue
        largest = max(abs(exactly(term, exact)) for term in terms)
        if isfinite(a):
            assert isfinite(b), (point, ed.to_text(before), ed.to_text(after))
            lost = [abs(Fraction(float(one)) - truth) for one in (a, b)]
            assert lost[1] <= 20 * lost[0] + largest / 10**13 + Fraction(1, 10**200), (point, ed.to_text(after))


def _number(choose: random.Random, name: str) -> float:
    size = 10 ** choose.choice([choose.uniform(-1, 1), choose.uniform(-25, 25)])
    return size if name == "p" else choose.choice([size, -size, 0.0, 1.0, -1.0])


def _computed(expr: Expr, arrays: dict[str, np.ndarray], count: int) -> np.ndarray:
    own = {v.name: arrays[v.name] for v in ed.variables(expr)}
    return np.broadcast_to(ed.compile(expr, sizes={"n": count})(**own), (count,))


def test_sums_are_divided_by_what_grows_like_them_first() -> None:
    f = ed.compile(p * (4 - x * x) / (4 + x * x) ** 2)
    assert f(p=np.array([1e200]), x=np.array([1e80])) == pytest.approx(-1e40)
    root = ed.compile(y * (1 + x * x) / (2 + x * x) ** 1.5)
    assert root(x=np.array([1e120]), y=np.array([1e150])) == pytest.approx(1e30)
