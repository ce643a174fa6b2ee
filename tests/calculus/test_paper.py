"""Every lemma, theorem, table and example of the paper, by its name.

Laue, Mitterreiter, Giesen: A Simple and Efficient Tensor Calculus for Machine Learning.
"""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.calculus.chain_rule import pullbacks, pushforwards, unit
from eindiff.core.nodes import Add, Einsum, Map, topological
from eindiff.program.check import finite_difference, random_point, relative_error

A, B, C = ed.matrix("A", "m", "n"), ed.matrix("B", "n", "k"), ed.matrix("C", "n", "k")
x, y, z = ed.vector("x", "n"), ed.vector("y", "m"), ed.vector("z", "n")
SIZES = {"m": 3, "n": 4, "k": 2}


def value(expr: ed.Expr, **arrays: np.ndarray) -> np.ndarray:
    return ed.evaluate(expr, arrays, SIZES)


def points(*exprs: ed.Expr) -> dict[str, np.ndarray]:
    return random_point(list(exprs), dict(SIZES))


def agrees(derivative: ed.Expr, function: ed.Expr, variable: ed.Expr) -> bool:
    point = points(function, derivative)
    return relative_error(value(derivative, **point), finite_difference(function, variable, point, SIZES)) < 1e-9


# Section 2


def test_lemma_1_associativity():
    """(A *_(s1, s2 s4, s3 s4) B) *_(s3 s4, s4, s3) C = A *_(s1, s2, s3) (B *_(s2 s4, s4, s2) C): the same object."""
    v = ed.vector("v", "k")
    left = ed.einsum("ik,k->i", ed.einsum("ij,jk->ik", A, B), v)
    right = ed.einsum("ij,j->i", A, ed.einsum("jk,k->j", B, v))
    assert left is right
    T = ed.tensor("T", ("n", "k", "m"))  # s1 = ij, s2 = jl, s4 = pq with s3 = il
    D = ed.matrix("D", "k", "m")
    left = ed.einsum("ipq,pq->i", ed.einsum("ij,jpq->ipq", A, T), D)
    assert left is ed.einsum("ij,j->i", A, ed.einsum("jpq,pq->j", T, D))


def test_lemma_2_commutativity():
    """A *_(s1, s2, s3) B = B *_(s2, s1, s3) A: the same object."""
    assert ed.einsum("ij,jk->ik", A, B) is ed.einsum("jk,ij->ik", B, A)
    assert ed.einsum("ij,j->ij", A, x) is ed.einsum("j,ij->ij", x, A)


@pytest.mark.parametrize("spec", ["ij,ij->ij", "ij,ij->i", "ij,ij->"])
def test_lemma_3_distributive_property(spec):
    """A *_(s1, s2, s3) B + A *_(s1, s2, s3) C = A *_(s1, s2, s3) (B + C)."""
    D = ed.matrix("D", "n", "k")
    left = ed.einsum(spec, D, B) + ed.einsum(spec, D, C)
    right = ed.einsum(spec, D, B + C)
    point = points(left)
    np.testing.assert_allclose(value(left, **point), value(right, **point), rtol=1e-13)
    if spec == "ij,ij->ij":
        assert left is right
    assert ed.simplify(left) is ed.simplify(right)


TABLE_1 = {
    "outer product": (ed.outer(y, x), "i,j->ij", (y, x), lambda y, x: y[:, None] @ x[None, :]),
    "matrix-vector product": (A @ x, "ij,j->i", (A, x), lambda a, x: a @ x),
    "inner product": (z @ x, "i,i->", (z, x), lambda z, x: z @ x),
    "matrix product": (A @ B, "ij,jk->ik", (A, B), lambda a, b: a @ b),
    "product of vectors by entries": (z * x, "i,i->i", (z, x), lambda z, x: z * x),
    "product of matrices by entries": (B * C, "ij,ij->ij", (B, C), lambda b, c: b * c),
    "scaled rows": (ed.diag(y) @ A, "ij,i->ij", (A, y), lambda a, y: np.diag(y) @ a),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_table_1_notations(name):
    """The vectorized form and Einstein's notation are the same object, and have the value of the textbook formula."""
    vectorized, spec, operands, formula = TABLE_1[name]
    assert vectorized is ed.einsum(spec, *operands)
    point = points(vectorized)
    expected = formula(*(point[operand.name] for operand in operands))
    np.testing.assert_allclose(value(vectorized, **point), expected, rtol=1e-13)


# Section 3: forward mode


def test_theorem_5_pushforward_of_a_multiplication():
    """Ċ = B *_(s2, s1 s4, s3 s4) Ȧ + A *_(s1, s2 s4, s3 s4) Ḃ."""
    left, right = ed.outer(ed.sin(x), x), ed.outer(ed.exp(x), z)  # both depend on x
    product = ed.einsum("ij,jk->ik", left, right)
    left_dot, right_dot = ed.derivative(left, x), ed.derivative(right, x)
    by_theorem = ed.einsum("jk,ija->ika", right, left_dot) + ed.einsum("ij,jka->ika", left, right_dot)
    forward = pushforwards(product, x, unit(x))[product]
    point = points(product)
    np.testing.assert_allclose(value(forward, **point), value(by_theorem, **point), rtol=1e-12)
    assert agrees(forward, product, x)


def test_theorem_6_pushforward_of_a_general_function():
    """Ċ = f'(A) *_(s2 s1, s1 s3, s2 s3) Ȧ."""
    square = ed.einsum("i,j->ij", x, x) + 3 * ed.eye("n")
    inverse = ed.inv(square)
    prime = -ed.einsum("ik,lj->ijkl", inverse, inverse)
    by_theorem = ed.einsum("ijkl,kla->ija", prime, ed.derivative(square, x))
    forward = ed.derivative(inverse, x, mode="forward")
    point = points(inverse)
    np.testing.assert_allclose(value(forward, **point), value(by_theorem, **point), rtol=1e-10)
    assert agrees(forward, inverse, x)


def test_theorem_7_pushforward_of_an_elementwise_function():
    """Ċ = f'(A) *_(s1, s1 s2, s1 s2) Ȧ."""
    inner = A @ x
    function = ed.sin(inner)
    by_theorem = ed.einsum("i,ia->ia", ed.cos(inner), A)
    assert ed.derivative(function, x, mode="forward") == by_theorem
    assert agrees(by_theorem, function, x)


# Section 3: reverse mode


def test_theorem_8_pullback_of_a_multiplication():
    """C contributes C̄ *_(s4 s3, s1, s4 s2) A to B̄ and C̄ *_(s4 s3, s2, s4 s1) B to Ā."""
    product = ed.einsum("ij,jk->ik", A, B)
    function = ed.exp(product)
    bars = pullbacks(function, [A, B], unit(function))
    product_bar = bars[product]
    assert bars[B] is ed.einsum("pqik,ij->pqjk", product_bar, A)
    assert bars[A] is ed.einsum("pqik,jk->pqij", product_bar, B)
    assert agrees(bars[A], function, A)
    assert agrees(bars[B], function, B)


def test_theorem_8_coincides_with_the_scalar_case():
    """For a scalar output s4 is empty."""
    function = ed.sum(ed.exp(A @ B))
    bar = ed.exp(A @ B)
    assert ed.gradient(function, A) == bar @ B.T
    assert ed.gradient(function, B) == A.T @ bar


def test_theorem_9_pullback_of_a_general_function():
    """C contributes f̄ *_(s3 s2, s2 s1, s3 s1) f'(A) to Ā."""
    S = ed.matrix("S", "n", "n")
    function = ed.einsum("ij,j->i", ed.inv(S), x)
    inverse = ed.inv(S)
    bar = ed.einsum("j->ijk", ed.zeros("n"), sizes={"i": "n", "k": "n"}) + ed.einsum("k,->iik", x, 1, sizes={"i": "n"})
    prime = -ed.einsum("ik,lj->ijkl", inverse, inverse)
    by_theorem = ed.einsum("pij,ijkl->pkl", bar, prime)
    reverse = ed.derivative(function, S, mode="reverse")
    point = random_point([function], dict(SIZES))
    np.testing.assert_allclose(value(reverse, **point), value(by_theorem, **point), rtol=1e-9, atol=1e-12)
    assert relative_error(value(reverse, **point), finite_difference(function, S, point, SIZES)) < 1e-6


def test_theorem_10_pullback_of_an_elementwise_function():
    """C contributes f̄ *_(s2 s1, s1, s2 s1) f'(A) to Ā."""
    inner = A @ x
    function = ed.einsum("i,i->", y, ed.sin(inner))
    bars = pullbacks(function, [x], unit(function))
    assert bars[inner] is ed.einsum("i,i->i", y, ed.cos(inner))
    assert agrees(ed.derivative(function, x, mode="reverse"), function, x)


def test_figure_1_expression():
    """X'((exp(Xw) + 1)^-1 ⊙ exp(Xw)), whose inner part is recognised as a sigmoid; both modes agree."""
    X, w = ed.matrix("X", "m", "n"), ed.vector("w", "n")
    expression = X.T @ ((ed.exp(X @ w) + 1) ** -1 * ed.exp(X @ w))
    assert expression == X.T @ ed.sigmoid(X @ w)
    forward, reverse = (ed.derivative(expression, w, mode=mode) for mode in ("forward", "reverse"))
    assert forward == reverse
    assert agrees(forward, expression, w)


# Section 3.3


def test_cut_formula():
    """∂y/∂x = Σ_v v̄ *_(s1 sv, sv s2, s1 s2) v̇ over the nodes of any cut."""
    hidden = A @ x
    first, second = ed.sin(hidden), ed.exp(hidden)
    function = ed.einsum("i,j,->ij", first, second, x @ x)
    expected = ed.derivative(function, x)
    point = points(function)
    for nodes in ([x], [function], [first, second, x @ x]):
        np.testing.assert_allclose(value(ed.cut(function, x, nodes), **point), value(expected, **point), rtol=1e-10)
    with pytest.raises(ed.EindiffError, match="passes through none"):
        ed.cut(function, x, [first])
    with pytest.raises(ed.EindiffError, match="depends on another"):
        ed.cut(function, x, [first, hidden])


def test_equation_xc_multiplies_vectors_first():
    """f = B g(h(Ax)): the derivative B diag(u) diag(v) A is one contraction, whose vectors are multiplied first."""
    D = ed.matrix("D", "k", "m")
    function = D @ ed.sin(ed.exp(A @ x))
    u, v = ed.cos(ed.exp(A @ x)), ed.exp(A @ x)
    for mode in ("forward", "reverse", "cross_country", "auto"):
        derivative = ed.derivative(function, x, mode=mode)
        assert derivative == ed.einsum("ij,j,j,jk->ik", D, u, v, A)
        assert agrees(derivative, function, x)
    products = [step for step in ed.plan(derivative, SIZES, "tensor_order").steps if len(step.inputs) == 2]
    assert products[1].shape == (3,)  # after A x, the two vectors
    order_of_orders = [len(step.shape) for step in products[1:]]
    assert order_of_orders == sorted(order_of_orders)


def test_cross_country_costs_less_than_reverse():
    """Multiplying the chain B diag(u) A' C x by increasing order keeps vectors vectors."""
    D, E = ed.matrix("D", "n", "n"), ed.matrix("E", "n", "n")
    function = ed.sin(D @ E @ x)
    outer = x @ ed.sin(D @ E @ function)
    reverse, cross = (ed.derivative(outer, x, mode=mode) for mode in ("reverse", "cross_country"))
    sizes = {"n": 50}
    assert ed.plan(cross, sizes).flops <= ed.plan(reverse, sizes).flops
    point = random_point([function], {"n": 4})
    np.testing.assert_allclose(ed.evaluate(cross, point), ed.evaluate(reverse, point), rtol=1e-10)


def test_compression_of_matrix_factorization():
    """The Hessian of ‖T - U V'‖² by U is 2 V'V next to a delta: a k×k core."""
    T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    hessian = ed.hessian(ed.norm2(T - U @ V.T) ** 2, U)
    assert hessian == 2 * ed.einsum("jk->ijik", V.T @ V, sizes={"i": "m"})
    assert isinstance(hessian, Einsum)
    assert hessian.operands == (V.T @ V,)
    assert hessian.operands[0].shape == ("k", "k")


def test_compression_of_a_relu_net():
    """The Hessian of each layer of a ReLU net is computed without any other tensor of order 4."""
    X, Y = ed.matrix("X", "b", "n"), ed.matrix("Y", "b", "n")
    W = [ed.matrix(f"W{layer}", "n", "n") for layer in range(3)]
    scores = ed.relu(ed.relu(X @ W[0]) @ W[1]) @ W[2]
    loss = ed.sum(ed.logsumexp(scores, 1)) - ed.sum(Y * scores)
    for weight in W:
        hessian = ed.hessian(loss, weight)
        assert ed.plan(hessian, {"b": 5, "n": 6}).largest_order <= 3
        point = random_point([loss], {"b": 2, "n": 3}, seed=1)
        gradient = ed.gradient(loss, weight)
        numeric = finite_difference(gradient, weight, point)
        assert relative_error(ed.evaluate(hessian, point), numeric) < 1e-6


def test_nodes_are_of_six_kinds():
    """An elementwise function of a sum of products has one node of each of the three kinds."""
    kinds = [type(node) for node in topological([ed.sin(A @ x + y)])]
    assert [kind for kind in kinds if kind in (Einsum, Add, Map)] == [Einsum, Add, Map]
