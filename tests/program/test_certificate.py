"""The bound that a plan gives: the true optimum lies between it and what was chosen."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

import eindiff as ed

Chain = tuple[tuple[str, bool], ...]  # names of matrices, and whether they are transposed
Steps = frozenset[tuple[Chain, float]]  # products, and what the last multiplication of each takes
SIZES = {"a": 2, "b": 3, "c": 7, "d": 20, "e": 60}
TOTAL = "total"


class Product(NamedTuple):
    """A product of up to 8 factors: matrices, some of them transposed, repeated or inverted, a sum, vectors at ends."""

    expr: ed.Expr
    chain: Chain
    sizes: list[int]
    place: int | None  # of the factor that is a sum of two matrices


def random_product(rng: np.random.Generator) -> Product:
    names, count = list(SIZES), int(rng.integers(2, 9))
    shapes = ["1" if rng.random() < 0.3 else str(rng.choice(names))]
    place = int(rng.integers(count)) if rng.random() < 0.5 else None
    factors: list[tuple[str, bool, str, str]] = []
    terms: list[list[ed.Expr]] = [[], []]
    for k in range(count):
        at, end = shapes[-1], "1" if k == count - 1 and rng.random() < 0.3 else str(rng.choice(names))
        old = [(name, turned, to) for name, turned, begin, to in factors if begin == at]
        old += [(name, not turned, begin) for name, turned, begin, to in factors if to == at]
        kind = rng.random()
        if k != place and old and kind < 0.4 and (k == count - 1 or all(to != "1" for _, _, to in old)):
            name, turned, end = old[rng.integers(len(old))]
        elif k != place and at != "1" and kind > 0.8:
            name, turned, end = f"inv{k}", False, at
        else:
            name, turned = f"M{k}", False
        if k != place:
            factors.append((name, turned, at, end))
        for term, letter in zip(terms, "xy", strict=True):
            term.append(_factor(f"{name}{letter}" if k == place else name, turned, at, end))
        factors += [] if k != place else [(name, turned, "", "")]  # it is not repeated
        shapes.append(end)
    chain = tuple([(name, turned) for name, turned, _, _ in factors])
    sizes = [SIZES.get(x, 1) for x in shapes]
    if place is None:
        return Product(_multiplied(terms[0]), chain, sizes, None)
    if rng.random() < 0.5:
        return Product(_multiplied(terms[0]) + _multiplied(terms[1]), chain, sizes, place)
    joined = [*terms[0][:place], terms[0][place] + terms[1][place], *terms[0][place + 1 :]]
    return Product(_multiplied(joined), chain, sizes, place)


def _factor(name: str, turned: bool, rows: str, columns: str) -> ed.Expr:
    if "1" in (rows, columns):
        return ed.vector(name, columns if rows == "1" else rows) if rows != columns else ed.scalar(name)
    matrix = ed.matrix(name, columns, rows).T if turned else ed.matrix(name, rows, columns)
    return ed.inv(matrix) if name.startswith("inv") else matrix


def _multiplied(factors: list[ed.Expr]) -> ed.Expr:
    result = factors[0]
    for factor in factors[1:]:
        result = result @ factor if result.ndim and factor.ndim else result * factor
    return result


def _mirrored(chain: Chain) -> Chain:
    return tuple((name, not turned) for name, turned in reversed(chain))


def _orders(chain: Chain, sizes: list[int]) -> list[Steps]:
    """All ways to put parentheses; a product with an inverse is a system, whose matrix is factorized once, and one of a
    matrix and its transpose takes half."""

    @cache
    def ways(i: int, j: int) -> list[Steps]:
        if j - i == 1:
            return [frozenset()]
        part, found = chain[i:j], set()
        mirrored = _mirrored(part)
        for k in range(i + 1, j):
            times = 1.0 if sizes[i] > 1 and chain[k:j] == _mirrored(chain[i:k]) else 2.0
            step = {(min(part, mirrored), times * sizes[i] * sizes[k] * sizes[j])}
            single = [at for at, end in ((i, k), (k, j)) if end == at + 1]
            inverted = [at for at in single if chain[at][0].startswith("inv")]
            step |= {(((chain[at][0], False),), 2 / 3 * sizes[at] ** 3) for at in inverted}
            for left in ways(i, k):
                found |= {left | right | step for right in ways(k, j)}
        return list(found)

    return ways(0, len(chain))


def _cost(steps: Iterable[tuple[Chain, float]], twice: str = "") -> float:
    """What products take together, each once; those with the sum, if it has to be found in them, for both its terms."""
    cheapest: dict[Chain, float] = {}
    for part, flops in steps:
        cheapest[part] = min(flops, cheapest.get(part, flops))
    return sum(flops * (2 if any(name == twice for name, _ in part) else 1) for part, flops in cheapest.items())


def optimum(product: Product) -> float:
    """The least operations: a sum is added up there, or after it was multiplied by some of its neighbours.

    Both terms then have the best order for one of them: others share no more, and take no less.
    """
    _, chain, sizes, place = product
    if place is None:
        return min(map(_cost, _orders(chain, sizes)))
    best = []
    for i in range(place + 1):
        for j in range(place + 1, len(chain) + 1):
            insides = _orders(chain[i:j], sizes[i : j + 1])
            outsides = _orders((*chain[:i], (TOTAL, False), *chain[j:]), sizes[: i + 1] + sizes[j:])
            if len({name for name, _ in chain}) == len(chain):  # nothing is shared
                insides, outsides = (
                    [min(one, key=lambda steps: _cost(steps, chain[place][0]))] for one in (insides, outsides)
                )
            least = min(_cost(a | b, chain[place][0]) for a in insides for b in outsides)
            best.append(least + sizes[i] * sizes[j])
    return min(best)


def test_the_optimum_lies_between_bound_and_choice() -> None:
    rng, gaps = np.random.default_rng(0), []
    for _ in range(500):
        product = random_product(rng)
        plan = ed.plan(product.expr, SIZES)
        if plan.least_flops is None:
            continue
        best = optimum(product)
        assert plan.least_flops <= best * (1 + 1e-12), product
        assert best <= plan.flops * (1 + 1e-12), (product, plan.source)
        gaps.append(plan.flops / plan.least_flops)
    assert len(gaps) > 450
    assert np.median(gaps) < 1.3


WORDS = [[], [], ["lower"], ["symmetric"], ["psd"], ["orthogonal"]]


def _with_properties(rng: np.random.Generator) -> ed.Expr:
    """A product of up to 6 matrices of which some are declared, inverted, diagonal or there before, as it is, added to
    another one, or beside its own transpose with weights that it makes."""
    names, made, result = list(SIZES), {}, None
    rows = at = str(rng.choice(names))
    for k in range(int(rng.integers(2, 7))):
        to = at if rng.random() < 0.4 else str(rng.choice(names))
        known = [x for x in made.values() if x.shape[0] == at]
        if known and rng.random() < 0.4:
            factor = known[rng.integers(len(known))]
        elif at == to and rng.random() < 0.8:
            factor = ed.diag(ed.vector(f"d{k}", at))
            if (kind := int(rng.integers(-1, len(WORDS)))) >= 0:
                factor = ed.matrix(f"S{k}", at, at, *WORDS[kind])
                factor = ed.inv(factor) if rng.random() < 0.3 else factor
        else:
            factor = ed.matrix(f"M{k}", at, to)
        made |= {str(factor): factor, str(factor.T): factor.T}
        result, at = factor if result is None else result @ factor, str(factor.shape[1])
    kind = rng.random()
    if kind < 0.3:
        weights = result @ ed.vector("x", at)
        return result.T @ ed.diag(weights) @ result
    return (result + ed.matrix("X", rows, at)) @ factor.T if kind < 0.6 else result.T @ result


def test_no_choice_takes_less_than_its_bound_with_properties_and_weights() -> None:
    rng, bounds = np.random.default_rng(0), 0
    for _ in range(120):
        expr = _with_properties(rng)
        plan = ed.plan(expr, SIZES)
        bounds += plan.least_flops is not None
        assert (plan.least_flops or 0) <= plan.flops * (1 + 1e-12), expr
    assert bounds > 40


def test_factors_that_cancel_are_not_counted() -> None:
    """`Q'(Q A Q' + Q B Q') Q` is `A + B`; and in `Q B + A B` Q is not 0."""
    Q, A, B = ed.matrix("Q", "n", "n", "orthogonal"), ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n")
    plan = ed.plan(Q.T @ (Q @ A @ Q.T + Q @ B @ Q.T) @ Q, {"n": 400})
    assert plan.least_flops is None and plan.flops <= 2 * 400**2
    assert ed.plan(Q @ B + A @ B, {"n": 50}).least_flops == 50**3


def test_sums_of_one_term_are_none() -> None:
    """A program for sizes of which some are 1 has no additions along them."""
    rng, sizes, bounds = np.random.default_rng(5), SIZES | {"a": 1, "b": 1}, 0
    for _ in range(150):
        product = random_product(rng)
        plan = ed.compile(product.expr, sizes=sizes).plan()
        bounds += plan.least_flops is not None
        assert (plan.least_flops or 0) <= plan.flops * (1 + 1e-12), product
    assert bounds > 100


def test_triangles_in_a_circle_may_take_their_diagonals_only() -> None:
    """`tr(L M)` is the sum of `L_ii M_ii`."""
    L, M, N = (ed.matrix(name, "n", "n", "lower") for name in "LMN")
    A, sizes = ed.matrix("A", "n", "n"), {"n": 100}
    for expr in [ed.tr(L @ M), ed.diag(ed.inv(L) @ M), ed.tr(ed.inv(L @ M @ N)), ed.sum(L * M.T)]:
        assert (ed.plan(expr, sizes).least_flops or 0) <= 4 * 100, expr
    assert ed.plan(ed.tr(L @ A), sizes).least_flops == 100**2


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


def test_sums_of_products_along_rows_are_counted() -> None:
    """The diagonal of D X X' D is `d^2 .* sum(X.^2, 1)`."""
    X, d = ed.matrix("X", "n", "k"), ed.vector("d", "n")
    plan = ed.plan(ed.diag(ed.diag(d) @ X @ X.T @ ed.diag(d)), {"n": 100, "k": 50})
    assert plan.least_flops is not None and plan.least_flops <= plan.flops
    assert 2 * 100 * 50 <= plan.flops <= 2 * 100 * 50 + 300


def test_products_that_are_symmetric_may_take_half() -> None:
    """Also with weights between: one more factor, which is its own mirror image."""
    X, Y, T = ed.matrix("X", "k", "m"), ed.matrix("Y", "k", "l"), ed.tensor("T", "k", "l", "m")
    d, sizes = ed.vector("d", "k"), {"k": 600, "m": 70, "l": 20}
    for expr in [
        X.T @ X, X.T @ ed.diag(d) @ X, X.T @ ed.diag(d * d) @ X, X.T @ ed.diag(ed.sum(Y, axis=1)) @ X,
        ed.einsum("klm,kln,kl->mn", T, T, Y), ed.einsum("ki,km,kj,kl->ijml", X, X, Y, Y),
    ]:  # fmt: skip
        plan = ed.plan(expr, sizes)
        assert plan.least_flops is not None
        assert plan.least_flops <= plan.flops, expr
    weighted = ed.plan(X.T @ ed.diag(d) @ X, sizes)
    assert weighted.flops == weighted.least_flops == 600 * 70 * 70 + 600 * 70


def test_products_of_two_triangles_take_a_sixth() -> None:
    L, M, X, n = ed.matrix("L", "n", "n", "lower"), ed.matrix("M", "n", "n", "lower"), ed.matrix("X", "n", "n"), 60
    entry_by_entry = sum(2 * (i - j) + 1 for i in range(n) for j in range(i + 1))
    for expr in (L @ M, ed.inv(L) @ M, M.T @ L.T):
        plan = ed.plan(expr, {"n": n})
        assert plan.least_flops is not None and plan.least_flops <= entry_by_entry
    assert ed.plan(L @ X, {"n": n}).least_flops == n**3
