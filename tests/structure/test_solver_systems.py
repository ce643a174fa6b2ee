"""Systems of all structures and of any condition: what is solved is accurate, and what is singular is refused."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import eindiff as ed
from eindiff.structure.solvers import solver as limits
from random_operators import pattern, single
from solver_systems import FAMILIES, problem

SEEDS = range(24)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_systems_of_any_condition(family: str, dtype: str) -> None:
    found = []
    for seed in SEEDS:
        rng = np.random.default_rng([seed, *family.encode()])
        condition = 10 ** rng.uniform(1, 18 if dtype == "float64" else 10)
        system = FAMILIES[family](rng, condition, dtype)
        if what := problem(system, rng, dtype):
            found.append(f"{system.name}, seed {seed}: {what}")
    assert not found


# Objectives that are singular everywhere


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 30.0])
@pytest.mark.parametrize("n", [2, 3, 7, 20, 63, 66, 83, 93])
def test_the_hessian_of_logsumexp_is_singular(n: int, scale: float) -> None:
    v = ed.vector("v", "n")
    H = ed.structured(ed.hessian(ed.logsumexp(v), v), {"v": scale * np.random.default_rng(n).normal(size=n)})
    for ask in (lambda: H.solve(np.ones(n)), lambda: H.solve(np.eye(n)[0]), H.logdet, H.inverse, H.cholesky):
        with pytest.raises(ed.SingularError, match="condition"):
            ask()
    assert not H.is_definite()
    assert ed.newton_step(ed.logsumexp(v), v, {"v": np.ones(n)}, damping="auto").damping > 0


def test_arrowheads_that_are_singular() -> None:
    """`Σ (x_i - y)² w_i` does not change if all are moved."""
    x, y, w = ed.vector("x", "n"), ed.scalar("y"), ed.vector("w", "n")
    hessian = ed.hessian(ed.sum(w * (x - y) ** 2), [x, y])
    for n in range(2, 60, 3):
        weights = np.random.default_rng(n).uniform(0.1, 1, n)
        H = ed.structured(hessian, {"w": weights})
        with pytest.raises(ed.SingularError, match="condition about"):
            H.solve(np.ones(n + 1))
        assert not H.is_definite()


@pytest.mark.parametrize("tiny", [0.0, 1e-320, 1e-300, 1e-250, 1e-200, 1e-160, 1e-20])
@pytest.mark.parametrize("n", [2, 6])
def test_a_block_that_is_nearly_singular_says_nothing_of_the_whole(n: int, tiny: float) -> None:
    """Eliminated first, it gives numbers near the end of the range; other ways solve the system."""
    x, y, d, M = ed.vector("x", n), ed.vector("y", n), ed.vector("d", n), ed.matrix("M", n, n)
    f = ed.sum(d * x**2) / 2 + x @ y + y @ M @ M.T @ y / 2
    rng = np.random.default_rng(n)
    values = {"d": np.append(np.ones(n - 1), tiny), "M": rng.normal(size=(n, n))}
    H, b = ed.structured(ed.hessian(f, [x, y]), values), rng.normal(size=2 * n)
    np.testing.assert_allclose(np.concatenate(H.solve([b[:n], b[n:]])), np.linalg.solve(H.as_matrix(), b), rtol=1e-9)


# Inverses


def gaussian_process(n: int, noise: float) -> np.ndarray:
    t = np.linspace(0, 1, n)
    return np.exp(-((t[:, None] - t) ** 2) / 0.02) + noise * np.eye(n)


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-10])
def test_newton_step_with_the_inverse_of_a_kernel(noise: float) -> None:
    n, u = 30, ed.vector("u", "n")
    K, values = gaussian_process(n, noise), np.random.default_rng(0).normal(size=n)
    f = u @ ed.inv(ed.symmetric("K", "n", "psd")) @ u / 2 + ed.sum(ed.softplus(u))
    step = ed.newton_step(f, u, {"u": values, "K": K})
    with mpmath.workdps(50):
        inverse = mpmath.matrix(K.tolist()) ** -1
        p = [1 / (1 + mpmath.exp(-x)) for x in values.tolist()]
        gradient = inverse * mpmath.matrix(values.tolist()) + mpmath.matrix(p)
        expected = mpmath.lu_solve(inverse + mpmath.diag([x * (1 - x) for x in p]), -gradient)
        error = mpmath.norm(mpmath.matrix(step.step.tolist()) - expected) / mpmath.norm(expected)
    condition = np.linalg.cond(np.linalg.inv(K) + np.diag([float(x * (1 - x)) for x in p]))
    assert error <= 100 * condition * np.finfo(float).eps
    assert step.hessian.is_definite()


def test_products_of_inverses_are_solved_by_products() -> None:
    """`tr(A⁻¹ X B⁻¹ X') / 2`: the solution for C is A C B."""
    A, B, C = gaussian_process(8, 1e-10), gaussian_process(5, 1e-10), np.random.default_rng(0).normal(size=(8, 5))
    a, b, X = ed.symmetric("A", "n", "psd"), ed.symmetric("B", "m", "psd"), ed.matrix("X", "n", "m")
    hessian = ed.hessian(ed.tr(ed.inv(a) @ X @ ed.inv(b) @ X.T) / 2, X)
    H = ed.structured(hessian, {"A": A, "B": B})
    assert np.allclose(H.solve(C), A @ C @ B, rtol=1e-13, atol=0)
    assert H.is_definite()


# Kronecker products


@pytest.mark.parametrize("n", [2, 5, 70])
def test_kronecker_products_have_cholesky_factors(n: int) -> None:
    """Of small and large factors alike."""
    rng = np.random.default_rng(n)
    A, B = (x @ x.T + n * np.eye(len(x)) for x in (rng.normal(size=(n, n)), rng.normal(size=(3, 3))))
    L = single((n, 3), [pattern("ac,bd->abcd", A, B)]).cholesky().as_matrix()
    assert np.allclose(L @ L.T, np.kron(A, B))
    assert not np.triu(L, 1).any()


@pytest.mark.parametrize("n", [2, 3, 6, 150])
def test_permuted_kronecker_products(n: int) -> None:
    """`tr(SP) − logdet P`: the solution for B is P B' P."""
    rng = np.random.default_rng(n)
    P, S = ed.matrix("P", "n", "n"), ed.matrix("S", "n", "n")
    value = rng.normal(size=(n, n)) + 3 * np.eye(n)
    value[0] *= np.sign(np.linalg.det(value))
    H = ed.structured(ed.hessian(ed.tr(S @ P) - ed.logdet(P), P), {"P": value, "S": np.eye(n)})
    B = rng.normal(size=(n, n))
    x = H.solve(B)
    assert np.abs(x - value @ B.T @ value).max() <= 1e-11 * np.abs(x).max()
    assert not H.is_definite()
    if n < 10:
        M = H.as_matrix()
        assert np.allclose(H.slogdet(), np.linalg.slogdet(M))
        assert np.allclose(H.inverse().as_matrix(), np.linalg.inv(M))
        assert np.allclose(H.eigvals(), np.linalg.eigvalsh(M))


# Krylov methods


def test_iterations_are_accurate_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A residual of some digits is not enough, and a singular system with a solution is none."""
    monkeypatch.setattr(limits, "LIMIT", 0)
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    for values in (np.linspace(1, 3, 40), np.linspace(1, 3, 40) * np.where(np.arange(40) < 20, 1, -1)):
        M = (q * values) @ q.T
        H, b = single((40,), [pattern("ab->ab", (M + M.T) / 2)]), rng.normal(size=40)
        assert np.linalg.norm(H.solve(b) - (q / values) @ q.T @ b) <= 100 * 3 * 2.3e-16 * np.linalg.norm(b)
    singular = (q * np.append(np.ones(39), 0.0)) @ q.T
    H = single((40,), [pattern("ab->ab", (singular + singular.T) / 2)])
    for b in (rng.normal(size=40), singular @ rng.normal(size=40)):
        with pytest.raises(ed.EindiffError, match="singular or badly conditioned"):
            H.solve(b)


# Scales


def test_entries_of_a_diagonal_may_differ_as_much_as_they_like() -> None:
    d = np.array([1e-300, 1.0, 1e200])
    H = single((3,), [pattern("a->aa", d)])
    assert np.allclose(H.solve(d), np.ones(3), rtol=1e-15, atol=0)
    assert H.is_definite()
    cancelling = single((2,), [pattern("a->aa", np.array([1.0, 0.1 + 0.2])), pattern("a->aa", np.array([0.0, -0.3]))])
    with pytest.raises(ed.SingularError, match="condition"):
        cancelling.solve(np.ones(2))
