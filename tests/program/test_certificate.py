"""The bound that a plan gives: the true optimum lies between it and what was chosen."""

from __future__ import annotations

from functools import cache

import numpy as np

import eindiff as ed

Chain = tuple[tuple[str, bool], ...]  # names of matrices, and whether they are transposed
SIZES = {"a": 2, "b": 3, "c": 7, "d": 20, "e": 60}


def _random_chain(rng: np.random.Generator) -> tuple[ed.Expr, Chain, list[int]]:
    """A product of up to 8 matrices, some of which are the same, and the sizes between them."""
    names = list(SIZES)
    at, factors, shapes, exprs = str(rng.choice(names)), [], [], []
    shapes.append(at)
    for _ in range(rng.integers(2, 9)):
        old = [(name, turned, end) for name, turned, begin, end in factors if begin == at]
        old += [(name, not turned, begin) for name, turned, begin, end in factors if end == at]
        if old and rng.random() < 0.5:
            name, turned, to = old[rng.integers(len(old))]
        else:
            name, turned, to = f"M{len(factors)}", False, str(rng.choice(names))
        factors.append((name, turned, at, to))
        matrix = ed.matrix(name, to, at).T if turned else ed.matrix(name, at, to)
        exprs.append(matrix)
        shapes.append(to)
        at = to
    result = exprs[0]
    for matrix in exprs[1:]:
        result = result @ matrix
    return result, tuple((name, turned) for name, turned, _, _ in factors), [SIZES[x] for x in shapes]


def _mirrored(chain: Chain) -> Chain:
    return tuple((name, not turned) for name, turned in reversed(chain))


def _optimum(chain: Chain, sizes: list[int]) -> float:
    """The least operations over all parentheses, where equal products (also transposed) count once."""

    @cache
    def ways(i: int, j: int) -> list[frozenset[tuple[Chain, float]]]:
        if j - i == 1:
            return [frozenset()]
        part = chain[i:j]
        found = set()
        for k in range(i + 1, j):
            step = (min(part, _mirrored(part)), 2.0 * sizes[i] * sizes[k] * sizes[j])
            for left in ways(i, k):
                found |= {left | right | {step} for right in ways(k, j)}
        return list(found)

    def cost(steps: frozenset[tuple[Chain, float]]) -> float:
        cheapest: dict[Chain, float] = {}
        for part, flops in steps:
            cheapest[part] = min(flops, cheapest.get(part, flops))
        return sum(cheapest.values())

    return min(map(cost, ways(0, len(chain))))


def test_the_optimum_lies_between_bound_and_choice() -> None:
    rng, known = np.random.default_rng(0), 0
    for _ in range(500):
        expr, chain, sizes = _random_chain(rng)
        plan = ed.plan(expr, SIZES)
        if plan.least_flops is None:
            continue
        best = _optimum(chain, sizes)
        assert plan.least_flops <= best * (1 + 1e-12), (chain, sizes)
        assert best <= plan.flops * (1 + 1e-12), (chain, sizes, plan.source)
        known += 1
    assert known > 450


def test_a_plan_says_how_far_it_can_be_from_the_best() -> None:
    A, B, x = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "k"), ed.vector("x", "k")
    text = ed.plan(A @ B @ x, {"m": 10, "n": 20, "k": 30}).explain()
    assert "every order of multiplication takes at least 1.6 k: this is at most 1.00 × the best" in text
    assert "at most" not in ed.plan(ed.exp(A), {"m": 10, "n": 20}).explain().partition("in use at most")[2]
