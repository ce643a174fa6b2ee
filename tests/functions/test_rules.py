"""The rewrite rules as a table: each fires on an example, is logged, and keeps the value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, special

import eindiff as ed
from eindiff.core import construct, rewrite
from eindiff.core.index_relations import IndexMap
from eindiff.core.rewrite import RULES
from eindiff.functions.matrices import logabsdet, signdet

g = np.random.default_rng(3)
POINT = {
    "x": g.uniform(0.5, 2, size=4), "y": g.uniform(0.5, 2, size=4), "p": g.uniform(0.5, 2, size=4),
    "A": g.normal(size=(4, 4)) + 3 * np.eye(4), "B": g.normal(size=(4, 4)) + 3 * np.eye(4),
    "Q": np.linalg.qr(g.normal(size=(4, 4)))[0], "c": np.asarray(1.7), "S": np.diag([1.0, 2, 3, 4]) + 0.5,
}  # fmt: skip
x, y, p = ed.vector("x", "n"), ed.vector("y", "n"), ed.vector("p", "n", "positive")
A, B, Q, c = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.matrix("Q", "n", "n", "orthogonal"), ed.scalar("c")
S = ed.matrix("S", "n", "n", "psd")
inv, det = np.linalg.inv, np.linalg.det
L = ed.chol(A @ A.T + ed.eye("n"))


def ones_above() -> ed.Expr:
    """The upper triangular matrix of ones."""
    return ed.cumsum(ed.eye("n"))


def symmetric(matrix: np.ndarray, shift: float) -> np.ndarray:
    return (matrix + matrix.T) / 2 + shift * np.eye(len(matrix))


Case = tuple[Callable[[], ed.Expr], Callable[..., np.ndarray]]  # how it is written, and its value in NumPy


def _symmetric(a):
    return (a + a.T) / 2


CASES: dict[str, list[Case]] = {
    "orthonormal_vectors": [
        (lambda: ed.eigvecs(A) @ ed.eigvecs(A).T @ B, lambda B, **_: B),
        (lambda: ed.eigvecs(A).T @ ed.eigvecs(A), lambda **_: np.eye(4)),
        (lambda: ed.svdright(A[:2]).T @ ed.svdright(A[:2]), lambda **_: np.eye(2)),
        (lambda: ed.svdleft(A) @ (ed.svdleft(A).T @ x), lambda x, **_: x),
    ],
    "singular_values_of_semidefinite": [
        (lambda: ed.normnuc(A.T @ A), lambda A, **_: np.sum(A**2)),
    ],
    "sums_of_values": [
        (lambda: ed.sum(ed.eigvals(A)), lambda A, **_: np.trace(A)),
        (lambda: ed.sum(ed.eigvals(A) ** 2), lambda A, **_: np.sum(_symmetric(A) ** 2)),
        (lambda: ed.sum(ed.svdvals(A[:3]) ** 2), lambda A, **_: np.sum(A[:3] ** 2)),
        (lambda: ed.eigvecs(A) @ ed.diag(ed.eigvals(A)) @ ed.eigvecs(A).T, lambda A, **_: _symmetric(A)),
        (lambda: ed.svdleft(A[:2]) @ ed.diag(ed.svdvals(A[:2])) @ ed.svdright(A[:2]).T, lambda A, **_: A[:2]),
        (lambda: ed.normnuc(-2 * c * ed.outer(x, y)), lambda x, y, c, **_: 2 * c * np.sqrt((x @ x) * (y @ y))),
    ],
    "largest_value": [
        (lambda: ed.max(ed.eigvals(A)), lambda A, **_: np.linalg.eigvalsh(_symmetric(A)).max()),
        (lambda: ed.min(ed.eigvals(A)), lambda A, **_: np.linalg.eigvalsh(_symmetric(A)).min()),
        (lambda: ed.max(ed.svdvals(A)), lambda A, **_: np.linalg.norm(A, 2)),
        (lambda: ed.min(3 * ed.svdvals(A)), lambda A, **_: 3 * np.linalg.norm(A, -2)),
    ],
    "exp_of_log": [(lambda: ed.exp(ed.log(x)), lambda x, **_: x)],
    "log_of_exp": [(lambda: ed.log(ed.exp(x)), lambda x, **_: x)],
    "log_of_power": [
        (lambda: ed.log(ed.sqrt(x)), lambda x, **_: np.log(x) / 2),
        (lambda: ed.log(1 / x), lambda x, **_: -np.log(x)),
    ],
    "exp_of_softplus": [
        (lambda: ed.exp(x) / (ed.exp(x) + ed.exp(y)), lambda x, y, **_: np.exp(x) / (np.exp(x) + np.exp(y))),
        (lambda: ed.exp(-ed.softplus(A.T)), lambda A, **_: 1 / (1 + np.exp(A.T))),
    ],
    "log_of_difference": [
        (lambda: ed.log(2 - 2 * ed.exp(-x)), lambda x, **_: np.log(2 - 2 * np.exp(-x))),
        (lambda: ed.log(ed.exp(x + y) - ed.exp(y)), lambda x, y, **_: np.log(np.exp(x + y) - np.exp(y))),
    ],
    "log_of_expm1": [(lambda: ed.log(ed.expm1(x)), lambda x, **_: np.log(np.expm1(x)))],
    "log_of_cosh": [(lambda: ed.log(ed.cosh(x)), lambda x, **_: np.log(np.cosh(x)))],
    "log_of_sum_with_weights": [
        (lambda: ed.log(1 + c * ed.exp(x)), lambda x, c, **_: np.log(1 + c * np.exp(x))),
        (lambda: ed.log(y + c * ed.exp(x)), lambda x, y, c, **_: np.log(y + c * np.exp(x))),
        (lambda: ed.log(2 * (y @ ed.exp(x)) + c), lambda x, y, c, **_: np.log(2 * (y @ np.exp(x)) + c)),
        (lambda: ed.log(y * ed.sum(c * ed.exp(x)) + 1), lambda x, y, c, **_: np.log(y * c * np.exp(x).sum() + 1)),
    ],
    "log_of_sum_of_exponentials": [
        (lambda: ed.log(1 + ed.exp(x)), lambda x, **_: np.log(1 + np.exp(x))),
        (lambda: ed.log(ed.exp(y) + ed.exp(x)), lambda x, y, **_: np.log(np.exp(x) + np.exp(y))),
        (lambda: ed.log(2 + ed.exp(x)), lambda x, **_: np.log(2 + np.exp(x))),
        (
            lambda: ed.log(3 + 6 * ed.exp(x) + 3 * ed.exp(y)),
            lambda x, y, **_: np.log(3 + 6 * np.exp(x) + 3 * np.exp(y)),
        ),
        (lambda: ed.log(ed.exp(A) + ed.exp(x)), lambda A, x, **_: np.log(np.exp(A) + np.exp(x))),
        (lambda: ed.log(ed.sum(ed.exp(A), 0)), lambda A, **_: np.log(np.exp(A).sum(0))),
        (lambda: ed.log(ed.sum(ed.exp(A), 1)), lambda A, **_: np.log(np.exp(A).sum(1))),
        (lambda: ed.log(ed.sum(ed.exp(A))), lambda A, **_: np.log(np.exp(A).sum())),
        (
            lambda: ed.log(c * ed.exp(x) / ed.sum(ed.exp(A))),
            lambda A, c, x, **_: np.log(c) + x - np.log(np.exp(A).sum()),
        ),
        (
            lambda: ed.log(-c * ed.sum((y - 3) * ed.exp(x))),
            lambda c, x, y, **_: np.log(-c * ((y - 3) * np.exp(x)).sum()),
        ),
        (lambda: ed.log(ed.sum(p * (y * ed.exp(A.T)))), lambda A, p, y, **_: np.log((p * y * np.exp(A.T)).sum())),
        (lambda: ed.log(ed.sum(ed.exp(x)[1:3])), lambda x, **_: np.log(np.exp(x)[1:3].sum())),
        (
            lambda: ed.log(sum((k * ed.exp(x * k) for k in range(1, 8)), 1)),
            lambda x, **_: np.log(sum((k * np.exp(x * k) for k in range(1, 8)), 1)),
        ),
    ],
    "exp_over_sum_of_exp": [
        (lambda: ed.exp(x) / ed.sum(ed.exp(x)), lambda x, **_: np.exp(x) / np.exp(x).sum()),
        (lambda: ed.exp(A) / ed.sum(ed.exp(A), 1)[:, None], lambda A, **_: np.exp(A) / np.exp(A).sum(1)[:, None]),
        (lambda: ed.exp(A.T) / ed.sum(ed.exp(A), 1), lambda A, **_: (np.exp(A) / np.exp(A).sum(1)[:, None]).T),
        (
            lambda: ed.exp(A - y[:, None]) / ed.sum(ed.exp(A - y[:, None]), 1)[:, None],
            lambda A, **_: np.exp(A) / np.exp(A).sum(1)[:, None],
        ),
    ],
    "shifted_back": [
        (lambda: ed.logsumexp(A - y[:, None], 1) + y, lambda A, **_: np.log(np.exp(A).sum(1))),
        (lambda: 2 * y - 2 * ed.logsumexp(3 * A + y[:, None], 1), lambda A, **_: -2 * np.log(np.exp(3 * A).sum(1))),
    ],
    "sum_of_softmax": [
        (lambda: ed.sum(ed.softmax(ed.outer(x[:3], y[:2]), 1), 1) * x[:3], lambda x, **_: x[:3]),
        (lambda: ed.sum(ed.softmax(ed.outer(x[:3], y[:2]), 0)), lambda **_: np.asarray(2.0)),
    ],
    "log_of_product": [(lambda: ed.log(ed.prod(p)), lambda p, **_: np.log(p.prod()))],
    "sign_of_argument": [
        (lambda: ed.sin(-2 * x), lambda x, **_: np.sin(-2 * x)),
        (lambda: ed.cos(-(x * y)), lambda x, y, **_: np.cos(x * y)),
        (lambda: ed.tanh(-x) + ed.erf(-y), lambda x, y, **_: -np.tanh(x) - special.erf(y)),
    ],
    "sign_of_multiple": [(lambda: ed.sign(3 * (x - y)), lambda x, y, **_: np.sign(x - y))],
    "step_of_multiple": [(lambda: ed.step(3 * (x - y)), lambda x, y, **_: (x > y) * 1.0)],
    "relu_of_multiple": [(lambda: ed.relu(3 * x - 3 * y), lambda x, y, **_: 3 * np.maximum(x - y, 0))],
    "products_of_pieces": [
        (lambda: ed.relu(x - y) * ed.step(x - y), lambda x, y, **_: np.maximum(x - y, 0)),
        (lambda: ed.step(x - y) * ed.step(x - y), lambda x, y, **_: (x > y) * 1.0),
        (lambda: ed.abs(x - y) * ed.sign(x - y), lambda x, y, **_: x - y),
    ],
    "log_determinant_of_exponential": [(lambda: ed.logdet(ed.expm(A)), lambda A, **_: np.trace(A))],
    "determinant_of_exponential": [(lambda: ed.det(ed.expm(A)), lambda A, **_: np.exp(np.trace(A)))],
    "inverse_of_exponential": [(lambda: ed.inv(ed.expm(A)), lambda A, **_: inv(linalg.expm(A)))],
    "exponential_of_logarithm": [(lambda: ed.expm(ed.logm(A @ A.T + ed.eye("n"))), lambda A, **_: A @ A.T + np.eye(4))],
    "log_determinant_of_cholesky": [
        (lambda: ed.logdet(ed.chol(A @ A.T + ed.eye("n"))), lambda A, **_: np.log(det(A @ A.T + np.eye(4))) / 2)
    ],
    "function_of_transpose": [
        (lambda: ed.expm(A.T), lambda A, **_: linalg.expm(A.T)),
        (lambda: ed.logm((2 * A).T), lambda A, **_: linalg.logm(2 * A.T)),
    ],
    "log_of_det": [(lambda: ed.log(ed.det(A @ A.T + ed.eye("n"))), lambda A, **_: np.log(det(A @ A.T + np.eye(4))))],
    "log_of_sigmoid": [
        (lambda: ed.log(ed.sigmoid(A.T + B)), lambda A, B, **_: -np.log(1 + np.exp(-A.T - B))),
        (lambda: ed.log(ed.sigmoid(x)), lambda x, **_: -np.log(1 + np.exp(-x))),
    ],
    "log1p_of_sum_of_exponentials": [
        (lambda: ed.log1p(ed.exp(x)), lambda x, **_: np.log(1 + np.exp(x))),
        (lambda: ed.log1p(2 * ed.sum(ed.exp(x))), lambda x, **_: np.log(1 + 2 * np.exp(x).sum())),
    ],
    "reciprocal_of_one_plus_exp": [(lambda: 1 / (1 + ed.exp(x)), lambda x, **_: 1 / (1 + np.exp(x)))],
    "one_minus_sigmoid": [
        (lambda: 3 - 3 * ed.sigmoid(x), lambda x, **_: 3 / (1 + np.exp(x))),
        (lambda: 3 - 6 * ed.sigmoid(x), lambda x, **_: 3 * np.tanh(-x / 2)),
    ],
    "exp_times_sigmoid": [
        (lambda: ed.exp(A.T) / (1 + ed.exp(A.T)), lambda A, **_: 1 / (1 + np.exp(-A.T))),
        (lambda: ed.exp(A * B.T) / (1 + ed.exp(A * B.T)), lambda A, B, **_: 1 / (1 + np.exp(-A * B.T))),
        (lambda: ed.exp(x) * ed.sigmoid(-x) * y, lambda x, y, **_: y / (1 + np.exp(-x))),
    ],
    "trivial_power": [(lambda: x**0 + x**1 + x**2, lambda x, **_: 1 + x + x**2)],
    "power_of_index_map": [
        (lambda: construct.constant(IndexMap(3, (2,), indices=(0, 2))) ** 3, lambda **_: np.eye(3)[:, [0, 2]]),
    ],
    "power_of_power": [(lambda: (x**1.5) ** 3, lambda x, **_: x**4.5), (lambda: ed.sqrt(p**3), lambda p, **_: p**1.5)],
    "even_power_of_absolute_value": [(lambda: ed.abs(x - y) ** 4, lambda x, y, **_: (x - y) ** 4)],
    "power_of_sign": [
        (lambda: ed.sign(x - y) ** 5, lambda x, y, **_: np.sign(x - y)),
        (lambda: ed.sign(x - y) ** 4, lambda x, y, **_: (x != y) * 1.0),
    ],
    "squares_of_absolute_values": [
        (lambda: ed.abs(x - y) * ed.abs(x - y), lambda x, y, **_: (x - y) ** 2),
        (lambda: (x - y) * ed.sign(x - y), lambda x, y, **_: np.abs(x - y)),
    ],
    "root_of_square": [
        (lambda: ed.sqrt((x - y) * (x - y)), lambda x, y, **_: np.abs(x - y)),
        (lambda: (4 * x * x) ** 1.5, lambda x, **_: 8 * np.abs(x) ** 3),
    ],
    "power_of_product": [
        (lambda: (2 * x * y) ** -3, lambda x, y, **_: (2 * x * y) ** -3.0),
        (lambda: ed.sqrt(3 * x), lambda x, **_: np.sqrt(3 * x)),
    ],
    "derivative_of_power": [(lambda: ed.gradient(ed.sum(p**x), x), lambda p, x, **_: p**x * np.log(p))],
    "abs_of_positive": [
        (lambda: ed.abs(-2 * p), lambda p, **_: 2 * p),
        (lambda: ed.abs(-3 * x), lambda x, **_: 3 * np.abs(x)),
    ],
    "maximum_of_itself": [
        (lambda: ed.maximum(x, x), lambda x, **_: x),
        (lambda: ed.minimum(y - x, x - y), lambda x, y, **_: -np.abs(x - y)),
    ],
    "same_choices": [(lambda: ed.where(x > 1, y, y), lambda y, **_: y)],
    "known_choice": [
        (lambda: ed.where(2.5, x, y), lambda x, **_: x),
        (lambda: ed.where(ed.zeros("n"), x, y), lambda y, **_: y),
    ],
    "inverse_of": [
        (lambda: ed.inv(ed.inv(A)), lambda A, **_: A),
        (lambda: ed.inv(3 * A.T), lambda A, **_: inv(A).T / 3),
        (lambda: ed.inv(ed.diag(x)), lambda x, **_: np.diag(1 / x)),
        (lambda: ed.inv(A @ B.T @ A), lambda A, B, **_: inv(A @ B.T @ A)),
        (lambda: ed.inv(Q), lambda Q, **_: Q.T),
        (lambda: ed.inv(ed.diag(x) + 2 * ed.eye("n")), lambda x, **_: np.diag(1 / (x + 2))),
        (lambda: ed.inv(A + A @ ed.outer(x, y)) @ A, lambda x, y, **_: inv(np.eye(4) + np.outer(x, y))),
        (lambda: ed.inv(B @ A.T - x[:, None] * A.T), lambda x, A, B, **_: inv((B - np.diag(x)) @ A.T)),
    ],
    "inverse_in_basis": [
        (lambda: ed.inv(Q @ A @ Q.T + c * ed.eye("n")), lambda A, Q, c, **_: inv(Q @ A @ Q.T + c * np.eye(4))),
        (lambda: ed.inv(c * Q.T @ A @ Q - ed.eye("n")), lambda A, Q, c, **_: Q.T @ inv(c * A - np.eye(4)) @ Q),
    ],
    "determinant_in_basis": [
        (lambda: ed.det(Q.T @ A @ Q + c * ed.eye("n")), lambda A, Q, c, **_: det(A + c * np.eye(4))),
    ],
    "log_determinant_in_basis": [
        (lambda: ed.logdet(Q @ ed.diag(x) @ Q.T + ed.eye("n")), lambda x, **_: np.log(x + 1).sum()),
    ],
    "inverse_of_kronecker_product": [
        (lambda: ed.inv(ed.kron(A, 2 * B.T)), lambda A, B, **_: inv(np.kron(A, 2 * B.T))),
        (lambda: ed.inv(ed.kron(ed.eye("n"), A @ B)), lambda A, B, **_: np.kron(np.eye(4), inv(A @ B))),
        (
            lambda: ed.inv(ed.kron(ed.diag(x), ed.kron(A, B))),
            lambda x, A, B, **_: inv(np.kron(np.diag(x), np.kron(A, B))),
        ),
    ],
    "determinant_of_kronecker_product": [
        (
            lambda: ed.det(ed.kron(ed.matrix("A", 4, 4), ed.diag(ed.vector("x", 4)[:3]))),
            lambda A, x, **_: det(A) ** 3 * x[:3].prod() ** 4,
        ),
    ],
    "log_determinant_of_kronecker_product": [
        (lambda: ed.logdet(ed.kron(S, ed.kron(S, S))), lambda S, **_: 48 * np.log(det(S))),
    ],
    "determinant_of": [
        (lambda: ed.det(ed.inv(A)), lambda A, **_: 1 / det(A)),
        (lambda: ed.det(A.T @ B), lambda A, B, **_: det(A) * det(B)),
        (lambda: ed.det(ed.diag(x)), lambda x, **_: x.prod()),
        (lambda: ed.det(2 * ed.matrix("M", 4, 4)) / 16, lambda M, **_: det(M)),
        (lambda: ed.det(Q @ A @ B @ Q.T), lambda A, B, **_: det(A @ B)),
    ],
    "log_absolute_determinant_of": [
        (lambda: logabsdet(ed.inv(A)), lambda A, **_: -np.log(abs(det(A)))),
        (lambda: logabsdet(A @ B + A) - logabsdet(A), lambda B, **_: np.log(abs(det(B + np.eye(4))))),
        (lambda: logabsdet(A.T @ B @ A) - logabsdet(B), lambda A, **_: 2 * np.log(abs(det(A)))),
        (lambda: ed.logdet(Q.T @ ed.expm(A) @ Q) + logabsdet(Q), lambda A, **_: np.trace(A)),
    ],
    "log_absolute_determinant_of_kronecker_product": [
        (lambda: logabsdet(ed.kron(A, B.T)), lambda A, B, **_: 4 * np.log(abs(det(A) * det(B)))),
    ],
    "log_determinant_of": [
        (lambda: ed.logdet(ed.inv(A @ A.T + ed.eye("n"))), lambda A, **_: -np.log(det(A @ A.T + np.eye(4)))),
    ],
    "log_determinant_of_product": [
        (lambda: ed.logdet(A.T @ B @ S @ B.T @ A), lambda A, B, S, **_: np.log(det(A.T @ B @ S @ B.T @ A))),
        (lambda: ed.logdet(A @ A.T), lambda A, **_: 2 * np.log(abs(det(A)))),
        (lambda: ed.logdet(S @ ed.expm(S)), lambda S, **_: np.log(det(S)) + np.trace(S)),
        (lambda: ed.logdet(S @ S), lambda S, **_: 2 * np.log(det(S))),
    ],
    "log_determinant_of_scaled": [
        (lambda: ed.logdet(p[:, None] * A * c**2), lambda A, p, c, **_: np.log(det(A) * p.prod() * c**8)),
        (lambda: ed.logdet(c**2 * A.T) - 4 * ed.log(c**2), lambda A, **_: np.log(det(A))),
        (lambda: ed.logdet(ed.diag(x - 1) @ S * (x - 1)), lambda S, x, **_: np.log(det(S) * ((x - 1) ** 2).prod())),
        (lambda: ed.logdet(3 * A * p), lambda A, p, **_: np.log(det(3 * A * p))),
    ],
    "log_absolute_determinant_of_scaled": [
        (lambda: logabsdet(-A * (x - 1)), lambda A, x, **_: np.log(abs(det(A * (x - 1))))),
    ],
    "sign_of_determinant_of": [
        (lambda: signdet(ed.inv(A)), lambda A, **_: np.sign(det(A))),
        (lambda: signdet(A.T), lambda A, **_: np.sign(det(A))),
    ],
    "triangles_once": [
        (lambda: ones_above() * (ones_above() * A), lambda A, **_: np.triu(A)),
    ],
    "triangles_backwards": [
        (lambda: ed.cumsum(x[::-1])[::-1], lambda x, **_: np.cumsum(x[::-1])[::-1]),
        (lambda: ed.cumsum(A[:, ::-1], 1)[:, ::-1] @ y, lambda A, y, **_: np.cumsum(A[:, ::-1], 1)[:, ::-1] @ y),
    ],
    "cholesky_products": [
        (lambda: L @ L.T, lambda A, **_: A @ A.T + np.eye(4)),
        (lambda: ed.inv(L).T @ ed.inv(L) @ x, lambda A, x, **_: np.linalg.solve(A @ A.T + np.eye(4), x)),
        (lambda: ed.chol(A + 9 * ed.eye("n")) @ ed.chol(A + 9 * ed.eye("n")).T, lambda A, **_: symmetric(A, 9)),
    ],
    "logarithms_of_pivots": [
        (lambda: 3 * ed.sum(ed.log(ed.diag(L))), lambda A, **_: 1.5 * np.log(det(A @ A.T + np.eye(4)))),
    ],
    "cancel_inverses": [
        (lambda: B @ A @ ed.inv(A) @ x, lambda B, x, **_: B @ x),
        (lambda: ed.tr(ed.inv(A) @ A), lambda **_: np.asarray(4.0)),
        (lambda: Q @ B @ Q.T @ Q @ x, lambda Q, B, x, **_: Q @ B @ x),
    ],
    "terms_that_are_read": [
        (lambda: ed.concatenate([x, y])["n":], lambda y, **_: y),
        (lambda: ed.stack([x, y, x * y])[2][1:], lambda x, y, **_: (x * y)[1:]),
    ],
    "simplify_index_maps": [
        (lambda: x[1:][::-1][:2], lambda x, **_: x[1:][::-1][:2]),
        (lambda: ed.concatenate([x, y])["n":], lambda y, **_: y),
        (lambda: ed.sum(ed.concatenate([x, y])), lambda x, y, **_: x.sum() + y.sum()),
        (lambda: ed.kron(A, B) @ ed.kron(x, y), lambda A, B, x, y, **_: np.kron(A, B) @ np.kron(x, y)),
    ],
    "combine_exponentials": [(lambda: ed.simplify(ed.exp(x) * ed.exp(y)), lambda x, y, **_: np.exp(x + y))],
    "factor_contractions": [
        (lambda: ed.simplify(A @ x + 2 * A @ y), lambda A, x, y, **_: A @ (x + 2 * y)),
        (lambda: ed.simplify(A @ B @ x - B @ B @ x), lambda A, B, x, **_: (A - B) @ B @ x),
    ],
}
ALL_RULES = sorted({rule.__name__ for rules in RULES.values() for rule in rules})


def test_every_rule_has_a_case():
    assert sorted(CASES) == ALL_RULES


@pytest.mark.parametrize("rule", ALL_RULES)
def test_rule_fires_and_keeps_the_value(rule):
    point = POINT | {"M": POINT["A"]}
    for build, expected in CASES[rule]:
        with ed.rewrite_log() as log:
            expr = build()
        assert rule in [entry.rule for entry in log]
        np.testing.assert_allclose(ed.evaluate(expr, point, {"n": 4}), expected(**point), rtol=1e-11, atol=1e-12)


def test_rules_do_not_change_what_they_look_at(monkeypatch):
    """A rule gives a network another list of factors, and leaves the one that it goes through as it is."""
    fired = set()

    def watched(rule):
        def changed(network):
            factors = network.factors
            before = list(factors)
            result = rule(network)
            assert len(factors) == len(before)
            assert all(one is other for one, other in zip(factors, before, strict=True))
            if result:
                fired.add(rule.__name__)
            return result

        return changed

    names = {rule.__name__ for rule in RULES["einsum"]}
    chosen = rewrite._rules
    monkeypatch.setattr(rewrite, "_rules", lambda *asked: [watched(rule) for rule in chosen(*asked)])
    for name in names:
        for build, _ in CASES[name]:
            build()
    assert fired == names


@pytest.mark.parametrize("rule", ALL_RULES)
def test_rule_says_why_it_ends(rule):
    function = next(f for rules in RULES.values() for f in rules if f.__name__ == rule)
    assert function.__doc__
    assert any(word in function.__doc__ for word in ("less", "goes away", "maller", "ewer"))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(-2, 2), min_size=3, max_size=3),
    st.lists(st.integers(1, 4), min_size=0, max_size=2), st.lists(st.integers(-2, 2), min_size=2, max_size=2),
    st.integers(-3, 3), st.integers(0, 2),
)  # fmt: skip
def test_maps_with_one_target_are_one_map(inputs, strides, others, steps, shift, axis):
    """Summed over the target they are the map of the one input; if there is none, both stay."""
    low = 12  # every index is in range
    first = IndexMap(30, tuple(inputs), low, tuple(strides[: len(inputs)]))
    second = IndexMap(30, tuple(others), low + shift, tuple(steps[: len(others)]))
    axis %= len(inputs)
    solved = first.solve(axis, second)
    product = np.tensordot(first.to_array({}), second.to_array({}), (0, 0))
    moved = np.moveaxis(product, axis, 0)
    if solved is not None:
        np.testing.assert_array_equal(solved.to_array({}), moved)
    elif first.strides[axis] in (1, -1):
        assert (moved.sum(0) == 0).any()


def test_the_log_names_rules_in_the_order_they_were_applied():
    with ed.rewrite_log() as log:
        result = ed.log(ed.det(ed.inv(A)))
    assert result is -ed.logdet(A)
    assert [entry.rule for entry in log] == ["determinant_of", "log_of_det", "log_of_power"]
    assert "log_of_det: log(det(A)) → logdet(A)" in [str(entry) for entry in log]
