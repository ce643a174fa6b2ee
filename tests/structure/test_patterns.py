"""Operators from expressions, whose terms are merged: sums of patterns, random expressions, several variables."""

from __future__ import annotations

from math import prod

import jax
import numpy as np
import pytest

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.program.interpreter import evaluate
from eindiff.structure.terms import Term
from grammar import OPERATIONS, Example, array_of, examples, names_in, run, variable_of
from operator_checks import (
    PRODUCTS,
    SYSTEMS,
    WELL_CONDITIONED,
    Array,
    Random,
    check_products,
    condition,
    dense_term,
    flat,
    near,
)
from oracles import JAX, jit

# Sums of patterns, from expressions


def random_sum(rng: Random) -> tuple[ed.Expr, dict[str, Array], Array]:
    """Terms that have some of their factors in common, with a delta more or a label less; and the tensor."""
    n = 2
    nodes = {1: ["u", "v"], 2: ["A", "S", "B"], 3: ["T"]}
    arrays = {name: rng.normal(size=(n,) * order) for order, names in nodes.items() for name in names}
    arrays["S"] = arrays["S"] + arrays["S"].T
    variables = {name: ed.symmetric(name, n) if name == "S" else ed.tensor(name, x.shape) for name, x in arrays.items()}
    order = int(rng.choice([2, 4]))
    output = tuple(range(order))
    first = _random_factors(rng, nodes, 6)
    total, value = ed.einsum("->" + "abcd"[:order], sizes=dict.fromkeys("abcd"[:order], n)) * 0, np.zeros((n,) * order)
    for _ in range(rng.integers(2, 5)):
        factors = [first[k] if rng.random() < 0.75 else _random_factors(rng, nodes, 6)[0] for k in range(len(first))]
        factors = [factors[k] for k in rng.permutation(len(factors))]
        united = {x: x for x in range(6)}
        if rng.random() < 0.5:
            a, b = rng.choice(order, 2, replace=False)
            united[int(b)] = int(a)
        labels = tuple(tuple(united[x] for x in own) for _, own in factors)
        where = tuple(united[x] for x in output)
        coefficient = float(rng.choice([1, -1, 2]))
        names = [name for name, _ in factors]
        value = value + dense_term(
            Term(coefficient, tuple(arrays[x] for x in names), labels, where, dict.fromkeys(range(6), n))
        )
        text = ",".join("".join("abcdef"[x] for x in own) for own in labels)
        target = "".join("abcdef"[x] for x in where)
        free = {"abcdef"[x]: n for x in where if all(x not in own for own in labels)}
        total = total + coefficient * ed.einsum(f"{text}->{target}", *(variables[x] for x in names), sizes=free or None)
    return total, arrays, value


def _random_factors(rng: Random, nodes: dict[int, list[str]], labels: int) -> list[tuple[str, tuple[int, ...]]]:
    factors = []
    for _ in range(rng.integers(1, 4)):
        order = int(rng.choice([1, 2, 2, 3]))
        factors.append((str(rng.choice(nodes[order])), tuple(int(x) for x in rng.integers(0, labels, order))))
    return factors


@pytest.mark.parametrize("seed", range(60))
def test_random_sums(seed):
    rng = np.random.default_rng(seed)
    total, arrays, value = random_sum(rng)
    H = ed.structured(total, arrays)
    check_products(H, value.reshape(H._grid.shape), rng)


def test_sums_with_index_maps():
    """Slices and gathers in some of the factors."""
    rng = np.random.default_rng(0)
    u, A, B = ed.vector("u", 4), ed.matrix("A", 4, 4), ed.matrix("B", 3, 3)
    arrays = {"u": rng.normal(size=4), "A": rng.normal(size=(4, 4)), "B": rng.normal(size=(3, 3))}
    head, tail, twice = u[:3], u[1:], ed.take(u, np.array([0, 0, 2]), 0)
    for text, one, other in (
        ("i,j,kl->ikjl", (head, tail, B), (head, twice, B)),
        ("i,j,kl->ikjl", (head, head, B), (head, head, A[:3, 1:])),
        ("i,j,kl->ikjl", (twice, twice, B), (twice, twice, B.T)),
        ("i,j->ij", (head, tail), (head, twice)),
        ("i,ij->ij", (tail, B), (tail, A[1:, :3])),
        ("i,k->ikik", (twice, tail), (twice, head)),
    ):
        total = ed.einsum(text, *one) - 2 * ed.einsum(text, *other)
        near(ed.structured(total, arrays).as_tensor(), ed.evaluate(total, arrays), PRODUCTS, f"{text}: {total}")


# Expressions


def check_example(example: Example) -> None:
    """Structured values and derivatives are the interpreted ones, as tensors and as maps; square ones can be solved."""
    arrays = {name: array_of(name) for name in names_in(example.text)}
    variables = {name: variable_of(name) for name in arrays}
    y = eval(example.text, {"ed": ed, "np": np} | variables)
    derivative = ed.derivative(y, *(variables[name] for name in example.by))
    try:
        expected = evaluate([y, derivative], arrays)
    except EindiffError:  # not a number here
        return
    for one, other in zip(ed.compile([y, derivative], form="structured")(**arrays), expected, strict=True):
        if not np.isfinite(other).all():
            continue
        scale = max(1e-2, np.abs(other).max(initial=0.0))
        near(one.as_tensor(), other, PRODUCTS, str(one), scale)
        v = np.random.default_rng(0).normal(size=one.cols)
        near(one.mv(v), np.tensordot(other, v, v.ndim), PRODUCTS, str(one), other.size * scale)
        matrix = other.reshape(prod(one.rows), prod(one.cols))
        if one.rows == one.cols and condition(matrix) < WELL_CONDITIONED:
            b = np.ones(len(matrix))
            near(flat(one.solve(b)), np.linalg.solve(matrix, b), SYSTEMS, str(one))


@pytest.mark.parametrize("root", OPERATIONS)
def test_random_expressions(root):
    for order in (1, 2):
        run(examples(root, order), 5, check_example)


def test_a_product_of_quotients():
    """The denominator is the same for all indices of an axis of the numerator."""
    X, P = ed.tensor("X", (3, 4, 2)), ed.tensor("P", (4, 2))
    arrays = {"X": np.random.default_rng(0).uniform(1, 2, (3, 4, 2)), "P": np.full((4, 2), 2.0)}
    derivative = ed.derivative(ed.prod(X / P, 2), P, P)
    expected = evaluate(derivative, arrays)
    near(ed.structured(derivative, arrays).as_tensor(), expected, PRODUCTS)
    near(ed.compile(derivative)(**arrays), expected, PRODUCTS)


def random_gathers(rng: Random) -> tuple[str, Array]:
    """A function of slices and gathers of x, some of them the same, as text over a library; and a point."""
    n = int(rng.integers(2, 5))
    pieces = ["x[1:]", f"x[:{n - 1}]", "x[::2]", "x[::-1]"]
    pieces += [f"lib.take(x, np.array({rng.integers(0, n, rng.integers(1, 5)).tolist()}), 0)" for _ in range(2)]
    terms = []
    for _ in range(2):
        a, b = (str(rng.choice(["{}", "{}**2", "lib.exp({})"])).format(rng.choice(pieces)) for _ in range(2))
        forms = ["i,j->", "i,j,j->", "i,i,j->", "i,i->"]
        form = str(rng.choice(forms))
        operands = [a if label == "i" else b for label in form[:-2].split(",")]
        terms.append(f"lib.einsum('{form}', {', '.join(operands)})")
    return " + ".join(terms), rng.normal(size=n)


@pytest.mark.parametrize("seed", range(8))
def test_hessians_of_gathers(seed):
    """Equal index maps are one map and a delta."""
    text, point = random_gathers(np.random.default_rng(seed))
    x = ed.vector("x", len(point))
    hessian = ed.hessian(eval(text, {"lib": ed, "np": np, "x": x}), x)
    expected = jit(jax.hessian(lambda x: eval(text, {"lib": JAX, "np": np, "x": x})))(point)
    near(evaluate(hessian, {"x": point}), expected, PRODUCTS, text)
    near(ed.structured(hessian, {"x": point}).as_tensor(), expected, PRODUCTS, text)


# What several variables are


def test_a_scalar_and_a_vector():
    """The blocks between them are one expression, with different rows."""
    s, x = ed.scalar("s"), ed.vector("x", "n")
    f, arrays = ed.sum(ed.exp(s * x)), {"s": 0.5, "x": np.arange(3.0)}
    for by in ([s, x], [x, s]):
        blocks = ed.hessian(f, by)
        H = ed.structured(blocks, arrays)
        assert H.rows == H.cols == [(3,) if v is x else () for v in by]
        sizes = [3 if v is x else 1 for v in by]
        values = [[evaluate(blocks[i][j], arrays).reshape(sizes[i], sizes[j]) for j in (0, 1)] for i in (0, 1)]
        near(H.as_matrix(), np.block(values), PRODUCTS)


def test_variables_that_do_not_matter():
    """Zero blocks are one expression too, and a matrix and a vector may have the same block."""
    X, x = ed.matrix("X", "n", "n"), ed.vector("x", "n")
    arrays = {"X": np.eye(2), "x": np.ones(2)}
    for f in (ed.sum(X) + ed.sum(x), ed.sum(X) * ed.sum(x), ed.sum(X) + x @ x, ed.sum(X**2) + ed.sum(x)):
        for by in ([X, x], [x, X]):
            H = ed.structured(ed.hessian(f, by), arrays)
            assert H.rows == H.cols == [arrays[v.name].shape for v in by]


def test_a_derivative_that_is_one_of_something_else_too():
    """`A` is the gradient of `sum(A * X)` by X, and the Jacobian of `A x` by x."""
    A, X, x = ed.matrix("A_of_two", "n", "n"), ed.matrix("X", "n", "n"), ed.vector("x", "n")
    ed.gradient(ed.sum(A * X), X)
    J = ed.structured(ed.jacobian(A @ x, x), {"A_of_two": np.eye(2), "x": np.ones(2)})
    assert J.rows == J.cols == (2,)


def test_terms_on_a_diagonal_and_beside_it_are_apart():
    """Poses along edges: what is left of a product of sums has several terms, each with places of its own."""
    rng = np.random.default_rng(0)
    edges = {name: rng.integers(0, 200, 300) for name in ("a", "b")}
    poses, a, b = ed.matrix("P", "p", 3), ed.indices("a", "e", into="p"), ed.indices("b", "e", into="p")
    away = (poses[b] - poses[a])[:, :2]
    turned = ed.cos(poses[a][:, 2]) * away[:, 0] + ed.sin(poses[a][:, 2]) * away[:, 1]
    loss = ed.sum(turned**2) + ed.norm2(poses) ** 2
    arrays = {"P": rng.normal(size=(200, 3)), **edges}
    hessian = ed.structured(ed.hessian(loss, poses), arrays)
    assert hessian.structure.startswith("sparse")
    dense = ed.evaluate(ed.hessian(loss, poses), arrays)
    np.testing.assert_allclose(hessian.as_tensor(), dense, rtol=1e-12, atol=1e-12)
