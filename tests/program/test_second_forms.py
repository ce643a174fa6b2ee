"""Second derivatives through functions of large matrices: as sums of curvatures, with products of equal parts."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.calculus.curvatures import curvatures
from eindiff.core.nodes import plain
from eindiff.planning.equal_parts import with_equal_parts
from eindiff.planning.factoring import distribute
from eindiff.program.interpreter import evaluate

X, y = ed.matrix("X", "n", "d"), ed.vector("y", "n")
h, s = ed.vector("h", "d"), ed.scalar("s")


def kernel() -> ed.Expr:
    Z = X * ed.exp(-h)
    apart = Z[:, None, :] - Z[None, :, :]
    return ed.exp(s - ed.sum(apart * apart, 2) / 2) + 0.3 * ed.eye("n")


def unsymmetric() -> ed.Expr:
    return ed.exp(X * h) @ X.T + ed.exp(s) * ed.eye("n")


FUNCTIONS = {
    "likelihood": lambda: (y @ ed.solve(kernel(), y) + ed.logdet(kernel())) / 2,
    "inverse": lambda: ed.sum(ed.tanh(ed.inv(kernel()))),
    "system": lambda: ed.sum(ed.solve(unsymmetric(), y) ** 3),
    "determinant": lambda: ed.det(unsymmetric()) * ed.exp(-s),
    "product": lambda: ed.tr(kernel() @ unsymmetric() @ kernel()),
    "softplus": lambda: ed.sum(ed.log(1 + ed.exp(ed.inv(unsymmetric()) @ y))),
}


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    given = {"X": rng.normal(size=(6, 2)) / 2, "y": rng.normal(size=6), "h": rng.normal(size=2) / 3, "s": 0.2}
    return {name: np.asarray(array) for name, array in given.items()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_curvatures_are_the_second_derivative(name):
    f, given = FUNCTIONS[name](), arrays()
    for one, two in ((h, h), (h, s)):
        found = curvatures(f, one, two)
        assert found is not None
        right = evaluate(ed.derivative(f, one, two), given)
        np.testing.assert_allclose(evaluate(found, given), right, rtol=1e-9, atol=1e-10 * np.abs(right).max())
        [halved] = with_equal_parts([found], {"n": 100, "d": 3}.__getitem__)
        np.testing.assert_allclose(evaluate(halved, given), right, rtol=1e-9, atol=1e-10 * np.abs(right).max())


def test_there_are_none_of_kinks_and_of_variables_with_properties():
    S = ed.symmetric("S", "n")
    assert curvatures(ed.logdet(S), S, S) is None
    assert curvatures(ed.sum(abs(h)) ** 2, h, h) is None


def test_the_likelihood_of_a_gaussian_process_takes_one_product_for_each_parameter():
    """`tr(A K_d A K_e)` is a product of all `A K_d` with themselves: n³ operations twice for each d, and no more."""
    n, d = 100, 5
    hessian = ed.hessian(FUNCTIONS["likelihood"](), h)
    plan = ed.plan(hessian, {"n": n, "d": d})
    assert plan.flops < 2 * d * n**3 + 2 * n**3 + 60 * d * n**2
    rng, n = np.random.default_rng(1), 48
    given = {"X": rng.normal(size=(n, d)), "y": rng.normal(size=n), "h": rng.normal(size=d) / 3, "s": np.array(0.1)}
    compiled, right = ed.compile(hessian), evaluate(hessian, given)
    found = compiled(**given)
    assert "factorize(" in compiled.source and compiled.source.count("(d*n, n) @") <= 1
    np.testing.assert_allclose(found, right, rtol=1e-8, atol=1e-9 * np.abs(right).max())


def test_products_of_equal_parts():
    """In any contraction whose operands come in pairs: with symmetric matrices, with a matrix between, in any order."""
    A, B = ed.symmetric("A", "n"), ed.matrix("B", "n", "n")
    W, v = ed.matrix("W", "d", "n"), ed.vector("v", "n")
    T = ed.exp(ed.einsum("di,dj->dij", W, W))
    outputs = [
        ed.einsum("ij,djk,kl,eli->de", A, T, A, T),
        ed.einsum("ij,djk,kl,eil->de", B, T, B, T),
        ed.einsum("i,ij,djk,kl,elm,mn,n->de", v, A, T, A, T, A, v),
        ed.einsum("dij,eij,dkl,ekl,ik,jl->de", T, T, T, T, A, A),
        ed.einsum("dij,eji->de", T, T),
    ]
    rng = np.random.default_rng(2)
    given = {"A": rng.normal(size=(5, 5)), "B": rng.normal(size=(5, 5)), "W": rng.normal(size=(3, 5))}
    given |= {"A": given["A"] + given["A"].T, "v": rng.normal(size=5)}
    changed = with_equal_parts([plain(output) for output in outputs], {"n": 100, "d": 3}.__getitem__)
    assert any(new is not plain(old) for new, old in zip(changed, outputs, strict=True))
    for new, old in zip(changed, outputs, strict=True):
        np.testing.assert_allclose(evaluate(new, given), evaluate(old, given), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_outer_products_between_inverses_are_systems_for_vectors(library):
    """The second derivative of a residual after regularized least squares: no inverse, and no system for a matrix."""
    rng, w = np.random.default_rng(5), ed.scalar("w")
    A, b, n = rng.normal(size=(30, 20)), rng.normal(size=30), 20
    S, c = ed.matrix("S", n, n), ed.vector("c", n)
    found = ed.derivative(ed.derivative(ed.sum((ed.solve(S + ed.exp(w) * ed.eye(n), c) - c) ** 3), w), w)
    compiled = ed.compile(found, library)
    given = {"S": A.T @ A, "c": A.T @ b, "w": 0.2}

    def value(w: float) -> float:
        return float(((np.linalg.solve(given["S"] + np.exp(w) * np.eye(n), given["c"]) - given["c"]) ** 3).sum())

    h = 1e-3
    steps = sum(k * value(0.2 + j * h) for j, k in ((-2, -1), (-1, 16), (0, -30), (1, 16), (2, -1))) / (12 * h * h)
    np.testing.assert_allclose(float(compiled(**given)), steps, rtol=1e-5)
    assert "inv(" not in compiled.source


def test_contractions_with_sums_multiplied_out_have_the_same_value():
    """Random sums of outer products and contractions, in any order of axes, inside of random contractions."""
    rng, sizes, changed = np.random.default_rng(5), {"a": 2, "b": 3, "c": 4, "d": 2}, 0

    def tensor(axes: str) -> ed.Expr:
        return ed.tensor(f"V{axes}", tuple(axes))

    for _ in range(40):
        i, j, k = axes = "".join(rng.permutation([*"abc"]))
        kinds = [(i + j, k), (i, j + k), (f"{i}d{j}", f"d{k}")]
        terms = [kinds[kind] for kind in rng.integers(3, size=rng.integers(2, 4))]
        total = sum(c * ed.einsum(f"{p},{q}->{axes}", tensor(p), tensor(q)) for c, (p, q) in enumerate(terms, -2))
        p, q = ("".join(rng.permutation([*sizes])[: rng.integers(1, 4)]) for _ in range(2))
        kept = "".join([x for x in sizes if x in p + q + axes and rng.random() < 0.5])
        expr = ed.einsum(f"{axes},{p},{q}->{kept}", total, tensor(p), tensor(q))
        [found] = distribute([plain(expr)])
        arrays = {v.name: rng.normal(size=[sizes[size] for size in v.shape]) for v in ed.variables(expr)}
        np.testing.assert_allclose(evaluate(found, arrays), evaluate(expr, arrays), rtol=1e-9, atol=1e-9)
        changed += found is not plain(expr)
    assert changed > 15


def test_scaled_differences_are_those_of_the_points_that_are_there():
    """`exp(-h) (x - x')` and `x - x'` are one array, and what is multiplied out merges with what is there."""
    source = ed.compile(ed.hessian(FUNCTIONS["likelihood"](), h), sizes={"n": 20, "d": 5}).source
    program = source.partition("def f(")[2]
    assert program.count("[:, :, None] - ") == 1
    assert program.count("factorize(") == 1
