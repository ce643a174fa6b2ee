"""Structurally equal expressions are the same object, whatever order they were written in."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import construct
from eindiff.core.einsums import Network
from eindiff.core.nodes import is_contraction, is_index_map, is_sealed, topological
from eindiff.core.rebuild import with_children
from eindiff.program.check import random_point

A, B = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n")
C, D = ed.matrix("C", "m", "n"), ed.matrix("D", "m", "n")
S, P, Q = ed.symmetric("S", "n"), ed.symmetric("P", "n", "psd"), ed.matrix("Q", "n", "n", "orthogonal")
w, r, x, y, z = (ed.vector(name, "n") for name in "wrxyz")
u, p = ed.vector("u", "m"), ed.vector("p", "n", "positive")
c = ed.scalar("c")
I = ed.eye("n")

PAIRS = {
    "w'r = r'w": (w @ r, r @ w),
    "D(I - A) = D - DA": (ed.diag(w) @ (I - A), ed.diag(w) - ed.diag(w) @ A),
    "c(I - A) = cI - cA": (c * (I - A), c * I - c * A),
    "(I - A) .* wr' = diag(w*r) - DAD": ((I - A) * ed.outer(w, r), ed.diag(w * r) - ed.diag(w) @ A @ ed.diag(r)),
    "B(D(I - A)) = (BD)(I - A)": (B @ (ed.diag(w) @ (I - A)), (B @ ed.diag(w)) @ (I - A)),
    "B(wDA - D) = B(wA - I)D": (B @ (ed.diag(w) @ A @ ed.diag(r) - ed.diag(r)), B @ (ed.diag(w) @ A - I) @ ed.diag(r)),
    "tr(AB) = tr(BA)": (ed.tr(A @ B), ed.tr(B @ A)),
    "tr(A'B) = sum(A*B)": (ed.tr(A.T @ B), ed.sum(A * B)),
    "tr(C'D) = tr(DC')": (ed.tr(C.T @ D), ed.tr(D @ C.T)),
    "tr(A) = tr(A')": (ed.tr(A), ed.tr(A.T)),
    "tr(ABAB) = tr(BABA)": (ed.tr(A @ B @ A @ B), ed.tr(B @ A @ B @ A)),
    "tr(xy') = x'y": (ed.tr(ed.outer(x, y)), x @ y),
    "diag(x)y = x*y": (ed.diag(x) @ y, x * y),
    "diag(diag(x)) = x": (ed.diag(ed.diag(x)), x),
    "diag(diag(A))x = diag(A)*x": (ed.diag(ed.diag(A)) @ x, ed.diag(A) * x),
    "diag(exp(A)) = exp(diag(A))": (ed.diag(ed.exp(A)), ed.exp(ed.diag(A))),
    "tr(A*B) = diag(A)'diag(B)": (ed.tr(A * B), ed.diag(A) @ ed.diag(B)),
    "sum(A*I) = tr(A)": (ed.sum(A * I), ed.tr(A)),
    "sum((I-A)*I*(I-A)) = |1-diag(A)|^2": (ed.einsum("kk,kk->", I - A, I - A), ed.norm2(1 - ed.diag(A)) ** 2),
    "diag(x)diag(y) = diag(x*y)": (ed.diag(x) @ ed.diag(y), ed.diag(x * y)),
    "(AB)' = B'A'": ((A @ B).T, B.T @ A.T),
    "A'' = A": (A.T.T, A),
    "(A+B)' = A'+B'": ((A + B).T, A.T + B.T),
    "exp(A') = exp(A)'": (ed.exp(A.T), ed.exp(A).T),
    "exp((A+B')') = exp(A+B')'": (ed.exp((A + B.T).T), ed.exp(A + B.T).T),
    "(AB)x = A(Bx)": ((A @ B) @ x, A @ (B @ x)),
    "(xy')w = x(y'w)": (ed.outer(x, y) @ w, x * (y @ w)),
    "x'Ax = x'A'x": (x @ A @ x, x @ A.T @ x),
    "u'Cx = x'C'u": (u @ C @ x, x @ C.T @ u),
    "x'(A-A')x = 0": (x @ (A - A.T) @ x, ed.zeros()),
    "x'Ay - y'A'x = 0": (x @ A @ y - y @ A.T @ x, ed.zeros()),
    "x'x = norm2(x)^2": (x @ x, ed.norm2(x) ** 2),
    "norm2(x-y)^2 = norm2(y-x)^2": (ed.norm2(x - y) ** 2, ed.norm2(y - x) ** 2),
    "norm2(C)^2 = tr(C'C)": (ed.norm2(C) ** 2, ed.tr(C.T @ C)),
    "S' = S": (S.T, S),
    "Sx + S'x = 2Sx": (S @ x + S.T @ x, 2 * S @ x),
    "(C'C)' = C'C": ((C.T @ C).T, C.T @ C),
    "(CSC')' = CSC'": ((C @ S @ C.T).T, C @ S @ C.T),
    "(A+A')' = A+A'": ((A + A.T).T, A + A.T),
    "inv(S)' = inv(S)": (ed.inv(S).T, ed.inv(S)),
    "tr(S(A-A')) = 0": (ed.tr(S @ (A - A.T)), ed.zeros()),
    "A inv(A) = I": (A @ ed.inv(A), I),
    "inv(A)A = I": (ed.inv(A) @ A, I),
    "B A inv(A) x = Bx": (B @ A @ ed.inv(A) @ x, B @ x),
    "inv(K) K' = -I for antisymmetric K": (ed.einsum("ij,kj->ik", ed.inv(A - A.T), A - A.T), -I),
    "p[[0]][0] = p[0]": (p[[2]][0], p[2]),
    "inv(inv(A)) = A": (ed.inv(ed.inv(A)), A),
    "inv(A') = inv(A)'": (ed.inv(A.T), ed.inv(A).T),
    "inv(AB) = inv(B)inv(A)": (ed.inv(A @ B), ed.inv(B) @ ed.inv(A)),
    "inv(2A) = inv(A)/2": (ed.inv(2 * A), ed.inv(A) / 2),
    "inv(diag(x)) = diag(1/x)": (ed.inv(ed.diag(x)), ed.diag(1 / x)),
    "solve(A,x) = inv(A)x": (ed.solve(A, x), ed.inv(A) @ x),
    "Q'Q = I": (Q.T @ Q, I),
    "(Qx)'(Qy) = x'y": ((Q @ x) @ (Q @ y), x @ y),
    "inv(Q) = Q'": (ed.inv(Q), Q.T),
    "det(A') = det(A)": (ed.det(A.T), ed.det(A)),
    "det(AB) = det(A)det(B)": (ed.det(A @ B), ed.det(A) * ed.det(B)),
    "det(inv(A)) = 1/det(A)": (ed.det(ed.inv(A)), 1 / ed.det(A)),
    "log(det(A)) = logdet(A)": (ed.log(ed.det(A)), ed.logdet(A)),
    "log(det(inv(A))) = -logdet(A)": (ed.log(ed.det(ed.inv(A))), -ed.logdet(A)),
    "log(exp(x)+1) = softplus(x)": (ed.log(ed.exp(x) + 1), ed.softplus(x)),
    "log(exp(x)+exp(y)) = log(exp(y)+exp(x))": (ed.log(ed.exp(x) + ed.exp(y)), ed.log(ed.exp(y) + ed.exp(x))),
    "log(sum(exp(x))) = logsumexp(x)": (ed.log(ed.sum(ed.exp(x))), ed.logsumexp(x)),
    "exp(x)/(1+exp(x)) = sigmoid(x)": (ed.exp(x) / (1 + ed.exp(x)), ed.sigmoid(x)),
    "1/(1+exp(-x)) = sigmoid(x)": (1 / (1 + ed.exp(-x)), ed.sigmoid(x)),
    "1-sigmoid(x) = sigmoid(-x)": (1 - ed.sigmoid(x), ed.sigmoid(-x)),
    "log(exp(x)) = x": (ed.log(ed.exp(x)), x),
    "x+x = 2x": (x + x, 2 * x),
    "x-x = 0": (x - x, ed.zeros("n")),
    "x+0y = x": (x + 0 * y, x),
    "x*y+x*z = x*(y+z)": (x * y + x * z, x * (y + z)),
    "(x+y)+z = z+(y+x)": ((x + y) + z, z + (y + x)),
    "x-y = -(y-x)": (x - y, -(y - x)),
    "2x+4y = 2(x+2y)": (2 * x + 4 * y, 2 * (x + 2 * y)),
    "x/2 = 0.5x": (x / 2, 0.5 * x),
    "x*x*x = x^3": (x * x * x, x**3),
    "x/x = 1": (x / x, ed.ones("n")),
    "sqrt(x)^2 = x": (ed.sqrt(x) ** 2, x),
    "sqrt(p^2) = p": (ed.sqrt(p * p), p),
    "1/(xy) = 1/x 1/y": (1 / (x * y), (1 / y) * (1 / x)),
    "Ix = x": (I @ x, x),
    "tr(I) = sum(1)": (ed.tr(I), ed.sum(ed.ones("n"))),
    "(A+I)x = Ax+x": ((A + I) @ x, A @ x + x),
    "sum(x+y) = sum(x)+sum(y)": (ed.sum(x + y), ed.sum(x) + ed.sum(y)),
    "sum(Ax) = sum(A,0)x": (ed.sum(A @ x), ed.sum(A, 0) @ x),
    "sum(sum(C,0)) = sum(C)": (ed.sum(ed.sum(C, 0)), ed.sum(C)),
    "kron(x,y)'kron(x,y) = x'x y'y": (ed.kron(x, y) @ ed.kron(x, y), (x @ x) * (y @ y)),
    "unreshape(reshape(C)) = C": (ed.reshape(ed.reshape(C, -1), ("m", "n")), C),
    "x[1:][1:] = x[2:]": (x[1:][1:], x[2:]),
    "concatenate([x,y])[n:] = y": (ed.concatenate([x, y])["n":], y),
    "stack([x,y])[1] = y": (ed.stack([x, y])[1], y),
    "(x+y)[1:] = x[1:]+y[1:]": ((x + y)[1:], x[1:] + y[1:]),
    "(x+exp(y)-2)[1:] = exp(y)[1:]+x[1:]-2": ((x + ed.exp(y) - 2)[1:], ed.exp(y)[1:] + (x[1:] - 2)),
    "(A+B)[[1,0,1]] = A[[1,0,1]]+B[[1,0,1]]": ((A + B)[[1, 0, 1]], A[[1, 0, 1]] + B[[1, 0, 1]]),
    "(C+x)[1:,::-1] = C[1:,::-1]+x[::-1]": ((C + x)[1:, ::-1], C[1:, ::-1] + x[::-1]),
    "x[::-1][::-1] = x": (x[::-1][::-1], x),
    "vec(A) = A'.reshape(-1)": (ed.vec(A), A.T.reshape(-1)),
    "c(Ax) = (cA)x": (c * (A @ x), (c * A) @ x),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_object(name):
    first, second = PAIRS[name]
    assert first is second


@pytest.mark.parametrize("name", PAIRS)
def test_the_derivative_by_hand_of_either_side(name):
    """The identity holds by value too: the result is checked by evaluating it and by its derivative's check."""
    expr = PAIRS[name][0]
    chosen = [v for v in ed.variables(expr) if v.name in "xACS"]
    if chosen:
        assert ed.check(expr, chosen[:1], order=1, seed=3).passed


def test_different_expressions_differ():
    """What is not equal is not the same object."""
    different = [
        (A @ B, B @ A), (ed.diag(ed.diag(A)), A), (A, A.T), (x - y, y - x), (ed.tr(A @ B), ed.tr(A @ B.T)),
        (A @ x, x @ A), (x, x[::-1]),
    ]  # fmt: skip
    point = random_point([A @ B @ x @ y], {"n": 4})
    for first, second in different:
        assert first is not second
        assert not np.allclose(ed.evaluate(first, point), ed.evaluate(second, point))


def test_values_of_identities_against_numpy():
    """The canonical object has the value of the formula as it was written."""
    g = np.random.default_rng(5)
    a, b, v = g.normal(size=(4, 4)), g.normal(size=(4, 4)), g.normal(size=4)
    env = {"A": a, "B": b, "x": v}
    np.testing.assert_allclose(ed.evaluate(ed.tr(A @ B @ A @ B), env), np.trace(a @ b @ a @ b))
    np.testing.assert_allclose(ed.evaluate((A @ B).T, env), (a @ b).T)
    np.testing.assert_allclose(ed.evaluate(ed.inv(A @ B), env), np.linalg.inv(a @ b), rtol=1e-9)
    np.testing.assert_allclose(ed.evaluate(ed.exp((A + B.T).T), env), np.exp((a + b.T).T))
    np.testing.assert_allclose(ed.evaluate(x @ (A - A.T) @ x, env), 0)
    np.testing.assert_allclose(ed.evaluate(ed.det(2 * A @ B), env, {"n": 4}), np.linalg.det(2 * a @ b))


def _sweeps(v, count, roll):
    p = v
    for _ in range(count):
        p = (v + roll(p, 1) + roll(p, -1)) / 3
    return p


@pytest.mark.parametrize("n", ["n", 30])
def test_sweeps_of_a_stencil_grow_linearly(n):
    """What is read at several places is one node, in the function and in its derivatives."""
    v = ed.vector("v", n)
    found = []
    for count in (4, 9, 14):
        f = ed.sum(_sweeps(v, count, lambda p, k: ed.concatenate([p[-k:], p[:-k]])) ** 3)
        found.append([len(topological([e])) for e in (f, ed.gradient(f, v), ed.hessian(f, v))])
    second, third = np.diff(found, axis=0)
    assert second[0] <= 10 * 5
    assert (third <= 1.1 * second).all()


def test_sweeps_of_a_stencil_are_derived_with_few_networks(monkeypatch):
    """Relations are not computed, so nothing is made anew to share them: the time to derive is that of the sweeps."""
    v = ed.vector("v", "n")
    f = ed.sum(_sweeps(v, 9, lambda p, k: ed.concatenate([p[-k:], p[:-k]])) ** 4)
    made = []
    build = Network.build
    monkeypatch.setattr(Network, "build", lambda network: made.append(network) or build(network))
    hessian = ed.hessian(f, v)
    assert len(made) <= 320
    shifts = {n for n in topological([hessian]) if is_contraction(n) and all(map(is_index_map, n.operands))}
    assert not any(is_contraction(n) and shifts.intersection(n.operands) for n in topological([hessian]))


def test_sweeps_of_a_stencil_are_those_of_numpy():
    at = np.random.default_rng(3).normal(size=7)
    v = ed.vector("v", "n")
    f = ed.sum(_sweeps(v, 5, lambda p, k: ed.concatenate([p[-k:], p[:-k]])) ** 3)
    matrix = np.stack([_sweeps(column, 5, np.roll) for column in np.eye(7)], 1)
    value = matrix @ at
    np.testing.assert_allclose(ed.evaluate(f, {"v": at}), (value**3).sum(), 1e-12)
    np.testing.assert_allclose(ed.evaluate(ed.gradient(f, v), {"v": at}), 3 * matrix.T @ value**2, 1e-12)
    hessian = 6 * matrix.T @ np.diag(value) @ matrix
    for found in (ed.evaluate(ed.hessian(f, v), {"v": at}), ed.compile(ed.hessian(f, v))(v=at)):
        np.testing.assert_allclose(found, hessian, 1e-11)


def test_long_sums_deep_down_are_terms_as_they_are():
    """Those of many steps: what is equal is still one object, what cancels is 0, and nothing is lost by rebuilding."""
    x = ed.scalar("x")
    for k in range(30):
        x = x + ed.sin(x * (k + 1)) / 10
    sealed = next(filter(is_sealed, topological([x])))
    assert construct.add([x]) is x
    assert x + x is 2 * x
    assert (x - x) is construct.filled(0, ())
    assert (x + 1) - x is construct.filled(1, ())
    assert x * ed.scalar("y") is ed.scalar("y") * (x + 0)
    longer = with_children(sealed, [child * 1 + ed.scalar("z") for child in sealed.children])
    assert is_sealed(longer)
    for value in (0.3, -1.2):
        expected = value
        for k in range(30):
            expected = expected + np.sin(expected * (k + 1)) / 10
        np.testing.assert_allclose(ed.evaluate(x, {"x": value}), expected, 1e-12)


def test_what_is_factored_may_be_a_term_of_another_pattern():
    """a (x + sin x + ... + b) - a (x + sin x + ...) is a b, which a term of another pattern is as well."""
    x, a, b = construct.variable("x", (3,)), construct.variable("a", ()), construct.variable("b", ())
    terms = [x, ed.sin(x), ed.exp(x), ed.cos(x)]
    shared = construct.einsum(1, [(b, ())], (0,), {0: 3})
    sums = [construct.add([*terms, shared]), construct.add([construct.scale(-1, term) for term in terms])]
    products = [construct.einsum(1, [(a, ()), (construct.sealed(y), (0,))], (0,), {0: 3}) for y in sums]
    products.append(construct.einsum(-2, [(a, ()), (b, ())], (0,), {0: 3}))
    values = {"x": np.arange(3.0), "a": 2.0, "b": 5.0}
    assert np.allclose(ed.evaluate(construct.add(products), values), -10)
