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


Steps = frozenset[tuple[Chain, float]]


def _orders(chain: Chain, sizes: list[int]) -> list[Steps]:
    """All ways to put parentheses, as products and what they take; a product with an inverse is a system."""

    @cache
    def ways(i: int, j: int) -> list[Steps]:
        if j - i == 1:
            return [frozenset()]
        found = set()
        for k in range(i + 1, j):
            flops = 2.0 * sizes[i] * sizes[k] * sizes[j]
            factored = {((chain[at],), 2 / 3 * sizes[at] ** 3) for at in {i, j - 1} if chain[at][0].startswith("inv")}
            own = {one for one, at in ((x, x[0][0]) for x in factored) if (at == chain[i] and k == i + 1) or k == j - 1}
            step = (chain[i:j], flops)
            for left in ways(i, k):
                found |= {left | right | own | {step} for right in ways(k, j)}
        return list(found)

    return ways(0, len(chain))


def _cost(steps: Steps) -> float:
    cheapest: dict[Chain, float] = {}
    for part, flops in steps:
        cheapest[part] = min(flops, cheapest.get(part, flops))
    return sum(cheapest.values())


def _optimum_with_sum(chain: Chain, sizes: list[int], place: int) -> float:
    """The least operations where one factor is a sum of two: it is added up there, or as part of a longer product."""
    best = []
    for i in range(place + 1):
        for j in range(place + 1, len(chain) + 1):
            one, two = ((*chain[i:place], (f"{chain[place][0]}{k}", False), *chain[place + 1 : j]) for k in "xy")
            outer = (*chain[:i], ("total", False), *chain[j:])
            insides = [a | b for a in _orders(one, sizes[i : j + 1]) for b in _orders(two, sizes[i : j + 1])]
            inside = min(map(_cost, insides))
            around = min(map(_cost, _orders(outer, sizes[: i + 1] + sizes[j:])))
            best.append(inside + around + sizes[i] * sizes[j])
    return min(best)


def _sum_in_product(rng: np.random.Generator) -> tuple[ed.Expr, Chain, list[int], int]:
    """A product of up to 5 matrices, one of which is a sum and one perhaps an inverse; as such or multiplied out."""
    count = int(rng.integers(2, 6))
    shapes = [str(rng.choice(list(SIZES))) for _ in range(count + 1)]
    place = int(rng.integers(count))
    inverse = int(rng.integers(count)) if rng.random() < 0.5 else place
    if inverse != place and abs(inverse - place) > 0:
        shapes[inverse + 1] = shapes[inverse]
    chain, terms = [], [[], []]
    for k in range(count):
        name, shape = f"M{k}", (shapes[k], shapes[k + 1])
        if k == place:
            terms = [[*term, ed.matrix(f"{name}{end}", *shape)] for term, end in zip(terms, "xy", strict=True)]
        else:
            matrix = ed.matrix(name, *shape)
            name, matrix = (f"inv{name}", ed.inv(matrix)) if k == inverse else (name, matrix)
            terms = [[*term, matrix] for term in terms]
        chain.append((name, False))
    multiplied_out = rng.random() < 0.5
    if not multiplied_out:
        terms = [[*terms[0][:place], terms[0][place] + terms[1][place], *terms[0][place + 1 :]]]
    products = []
    for term in terms:
        product = term[0]
        for matrix in term[1:]:
            product = product @ matrix
        products.append(product)
    return sum(products[1:], products[0]), tuple(chain), [SIZES[x] for x in shapes], place


def test_the_optimum_of_sums_and_inverses_lies_between_bound_and_choice() -> None:
    rng, gaps = np.random.default_rng(1), []
    for _ in range(100):
        expr, chain, sizes, place = _sum_in_product(rng)
        plan = ed.plan(expr, SIZES)
        best = _optimum_with_sum(chain, sizes, place)
        assert plan.least_flops is not None
        assert plan.least_flops <= best * (1 + 1e-12), (chain, sizes)
        assert best <= plan.flops * (1 + 1e-12), (chain, sizes, plan.source)
        gaps.append(plan.flops / plan.least_flops)
    assert np.median(gaps) < 2


def test_what_cannot_be_told_apart_gives_no_bound() -> None:
    A, B, x = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.vector("x", "n")
    sizes = {"n": 50}
    assert ed.plan(ed.exp(A) @ x, sizes).least_flops is None
    assert ed.plan((A @ A + A) @ x, sizes).least_flops is None
    assert ed.plan((A @ B + A) @ x, sizes).least_flops == 2 * 50**2
    assert ed.plan([A @ x, ed.exp(x)], sizes).least_flops == 2 * 50**2
    assert ed.plan(ed.einsum("ij,kl->ikjl", ed.eye("n"), A @ B), sizes).least_flops == 2 * 50**3
    diagonal = ed.plan(ed.diag(x) @ A @ x, sizes)
    assert diagonal.least_flops is None or diagonal.least_flops <= diagonal.flops


def test_a_plan_says_how_far_it_can_be_from_the_best() -> None:
    A, B, x = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "k"), ed.vector("x", "k")
    text = ed.plan(A @ B @ x, {"m": 10, "n": 20, "k": 30}).explain()
    assert "every order of multiplication takes at least 1.6 k: this is at most 1.00 × the best" in text
    assert "at most" not in ed.plan(ed.exp(A), {"m": 10, "n": 20}).explain().partition("in use at most")[2]
