"""Systems of known structure and condition, as derivatives of objectives, with matrices that are known to 60 digits.

Nothing of the package is used for what is exact: matrices are written down by hand, in numbers of mpmath, and their
inverses are found by elimination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mpmath
import numpy as np

import eindiff as ed

Array = np.ndarray
Random = np.random.Generator
DIGITS = 60


# Exact numbers


def exact(array: Any) -> Array:
    """An array of numbers of mpmath."""
    return np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(array, float))


def eye(n: int) -> Array:
    return exact(np.eye(n))


def inverse(matrix: Array) -> Array | None:
    """The inverse by elimination with pivots; None of a singular matrix."""
    n = len(matrix)
    work = np.hstack([matrix, eye(n)])
    scale = max(abs(matrix).max(), mpmath.mpf(10) ** -400)
    for k in range(n):
        pivot = k + int(np.argmax(abs(work[k:, k])))
        if abs(work[pivot, k]) <= scale * mpmath.mpf(10) ** (-DIGITS // 2 - 10):
            return None
        work[[k, pivot]] = work[[pivot, k]]
        work[k] = work[k] / work[k, k]
        others = np.arange(n) != k
        work[others] = work[others] - np.multiply.outer(work[others, k], work[k])
    return work[:, n:]


# Matrices of known condition


def orthogonal(rng: Random, n: int) -> Array:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def spectrum(rng: Random, n: int, condition: float) -> Array:
    """From 1 down to the reciprocal of the condition: one small value, or all sizes, or half of them small."""
    kind = rng.integers(3)
    values = np.ones(n)
    if kind == 0:
        values[-1] = 1 / condition
    elif kind == 1:
        values = condition ** -np.linspace(0, 1, n) if n > 1 else values
    else:
        values[n // 2 :] = 1 / condition
    return values * rng.uniform(0.9, 1.1, n)


def definite(rng: Random, n: int, condition: float) -> Array:
    q = orthogonal(rng, n)
    matrix = q * spectrum(rng, n, condition) @ q.T
    return (matrix + matrix.T) / 2


def indefinite(rng: Random, n: int, condition: float) -> Array:
    q = orthogonal(rng, n)
    matrix = q * (spectrum(rng, n, condition) * rng.choice([-1, 1], n)) @ q.T
    return (matrix + matrix.T) / 2


def general(rng: Random, n: int, condition: float) -> Array:
    return orthogonal(rng, n) * spectrum(rng, n, condition) @ orthogonal(rng, n)


def symmetric(rng: Random, n: int, condition: float) -> Array:
    return (definite if rng.random() < 0.6 else indefinite)(rng, n, condition)


# Systems


@dataclass
class System:
    """A derivative, by one variable or several, the arrays in it, and its exact matrix."""

    name: str
    derivative: Any
    arrays: dict[str, Array]
    matrix: Array
    sizes: dict[str, int] | None = None

    def structured(self) -> ed.Derivative:
        """The value of the derivative."""
        return ed.structured(self.derivative, self.arrays, sizes=self.sizes)

    @cached_property
    def inverse(self) -> Array | None:
        with mpmath.workdps(DIGITS):
            return inverse(self.matrix)

    @cached_property
    def condition(self) -> float:
        if self.inverse is None:
            return np.inf
        return float(np.linalg.norm(self.matrix.astype(float), 2) * np.linalg.norm(self.inverse.astype(float), 2))

    def error(self, x: Array, b: Array) -> float:
        """Of a solution, relative to the exact one."""
        assert self.inverse is not None
        with mpmath.workdps(DIGITS):
            true = self.inverse @ exact(b)
            return float(mpmath.norm(list(exact(x) - true)) / mpmath.norm(list(true)))


def _vector(rng: Random) -> int:
    return int(rng.integers(2, 13))


def dense(rng: Random, condition: float, dtype: str) -> System:
    """`x'Ax / 2`, or the Jacobian of `A x`."""
    n = int(rng.choice([2, 5, 12, 30, 70], p=[0.3, 0.3, 0.3, 0.08, 0.02]))
    x = ed.vector("x", "n")
    if rng.random() < 0.5:
        A = symmetric(rng, n, condition).astype(dtype)
        return System("dense symmetric", ed.hessian(x @ ed.symmetric("A", "n") @ x / 2, x), {"A": A}, exact(A))
    A = general(rng, n, condition).astype(dtype)
    return System("dense", ed.jacobian(ed.matrix("A", "n", "n") @ x, x), {"A": A}, exact(A))


def block_diagonal(blocks: list[Array]) -> Array:
    n = sum(map(len, blocks))
    total, start = exact(np.zeros((n, n))), 0
    for block in blocks:
        total[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return total


def stacked(rng: Random, condition: float, dtype: str) -> System:
    """A matrix for each index, one of them badly conditioned."""
    count, n = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    conditions = [condition, *rng.uniform(1, 100, count - 1)]
    is_symmetric = rng.random() < 0.5
    A = np.stack([(symmetric if is_symmetric else general)(rng, n, c) for c in conditions]).astype(dtype)
    X, T = ed.matrix("X", "s", "n"), ed.tensor("T", ("s", "n", "n"))
    derivative = ed.jacobian(ed.einsum("sij,sj->si", T, X), X)
    return System("stack", derivative, {"T": A}, block_diagonal([exact(a) for a in A]))


def diagonal(rng: Random, condition: float, dtype: str) -> System:
    n = _vector(rng)
    x, d = ed.vector("x", "n"), ed.vector("d", "n")
    values = (spectrum(rng, n, condition) * rng.choice([-1, 1], n)).astype(dtype)
    return System("diagonal", ed.hessian(ed.sum(d * x**2) / 2, x), {"d": values}, np.diag(exact(values)))


def identity_and_core(rng: Random, condition: float, dtype: str) -> System:
    n, k = int(rng.integers(2, 8)), int(rng.integers(2, 5))
    X = ed.matrix("X", "n", "k")
    A = symmetric(rng, n, condition).astype(dtype)
    derivative = ed.hessian(ed.tr(X.T @ ed.symmetric("A", "n") @ X) / 2, X)
    return System("identity ⊗ core", derivative, {"A": A}, np.kron(exact(A), eye(k)), {"k": k})


def kronecker_product(rng: Random, condition: float, dtype: str) -> System:
    """`A X B`, of which both factors or one may be badly conditioned, or `A X' B`, with permuted columns."""
    n, m = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    turned = rng.random() < 0.4
    share = rng.choice([0.0, 0.5, 1.0])
    make = general if turned or rng.random() < 0.5 else symmetric
    A = make(rng, n, condition**share).astype(dtype)
    X = ed.matrix("X", "n", "m")
    a, b = ed.matrix("A", "n", "n"), ed.matrix("B", "m", "m")
    if turned:
        X = ed.matrix("X", "n", "n")
        B = make(rng, n, condition ** (1 - share)).astype(dtype)
        derivative = ed.jacobian(a @ X.T @ ed.matrix("B", "n", "n"), X)
        product = np.kron(exact(A), exact(B.T)).reshape(n, n, n, n).swapaxes(2, 3).reshape(n * n, n * n)
        return System("permuted Kronecker product", derivative, {"A": A, "B": B}, product)
    B = make(rng, m, condition ** (1 - share)).astype(dtype)
    return System("Kronecker product", ed.jacobian(a @ X @ b, X), {"A": A, "B": B}, np.kron(exact(A), exact(B.T)))


def kronecker_sum(rng: Random, condition: float, dtype: str) -> System:
    """`A X + X B`: of two definite matrices that are small in one direction, or with eigenvalues that nearly cancel."""
    n, m = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    A, B = definite(rng, n, condition), definite(rng, m, condition)
    if rng.random() < 0.4:
        A, B = definite(rng, n, 10.0), definite(rng, m, 10.0)
        B -= (np.linalg.eigvalsh(B)[0] + np.linalg.eigvalsh(A)[0] - 1 / condition) * np.eye(m)
    if rng.random() < 0.3:
        A = general(rng, n, 3.0) @ A
    A, B = A.astype(dtype), B.astype(dtype)
    X = ed.matrix("X", "n", "m")
    derivative = ed.jacobian(ed.matrix("A", "n", "n") @ X + X @ ed.matrix("B", "m", "m"), X)
    matrix = np.kron(exact(A), eye(m)) + np.kron(eye(n), exact(B.T))
    return System("Kronecker sum", derivative, {"A": A, "B": B}, matrix)


def low_rank(rng: Random, condition: float, dtype: str) -> System:
    """A diagonal plus or minus terms of low rank: the sum is nearly singular, or the diagonal is, or neither is far."""
    n, r = int(rng.integers(4, 20)), int(rng.integers(1, 4))
    x = ed.vector("x", "n")
    U, d = rng.normal(size=(r, n)), rng.uniform(0.5, 2, n)
    kind = rng.integers(3)
    sign = -1.0 if kind == 0 else 1.0
    if kind == 0:  # (I - (1 - 1/c) Q Q') has the condition c
        q = np.linalg.qr(rng.normal(size=(n, r)))[0].T
        U, d = q * np.sqrt(1 - 1 / condition), np.ones(n)
    elif kind == 1:
        d = spectrum(rng, n, condition)
    else:
        U *= np.sqrt(condition)
    U, d = U.astype(dtype), d.astype(dtype)
    f = (ed.sum(ed.vector("d", "n") * x**2) + sign * ed.sum((ed.matrix("U", "r", "n") @ x) ** 2)) / 2
    matrix = np.diag(exact(d)) + int(sign) * exact(U).T @ exact(U)
    return System("diagonal + low rank", ed.hessian(f, x), {"U": U, "d": d}, matrix)


def arrowhead(rng: Random, condition: float, dtype: str) -> System:
    """`Σ d x² / 2 + x'By + y'Cy / 2`, of which the diagonal or the Schur complement is nearly singular."""
    n, m = int(rng.integers(3, 20)), int(rng.integers(1, 4))
    x, y = ed.vector("x", "n"), ed.vector("y", "m")
    d, B = rng.uniform(0.5, 2, n), rng.normal(size=(n, m))
    C = B.T / d @ B + definite(rng, m, condition if m > 1 else 1.0) * (1 / condition if m == 1 else 1.0)
    if rng.random() < 0.4:
        d, C = spectrum(rng, n, condition), definite(rng, m, 10.0)
    d, B, C = (v.astype(dtype) for v in (d, B, (C + C.T) / 2))
    f = ed.sum(ed.vector("d", "n") * x**2) / 2 + x @ ed.matrix("B", "n", "m") @ y + y @ ed.symmetric("C", "m") @ y / 2
    matrix = np.block([[np.diag(exact(d)), exact(B)], [exact(B).T, exact(C)]])
    return System("arrowhead", ed.hessian(f, [x, y]), {"d": d, "B": B, "C": C}, matrix)


def inverse_and_diagonal(rng: Random, condition: float, dtype: str) -> System:
    """`u'K⁻¹u / 2 + Σ d u² / 2`, of Gaussian processes."""
    n = int(rng.choice([2, 5, 12, 30], p=[0.3, 0.3, 0.3, 0.1]))
    u = ed.vector("u", "n")
    condition = min(condition, 0.01 / float(np.finfo(dtype).eps))  # of others there is no inverse to begin with
    K = (definite(rng, n, condition) * rng.choice([1.0, 1e3, 1e-3])).astype(dtype)
    d = (rng.uniform(0.1, 1, n) * (rng.random() < 0.8)).astype(dtype)
    f = (u @ ed.inv(ed.symmetric("K", "n", "psd")) @ u + ed.sum(ed.vector("d", "n") * u**2)) / 2
    with mpmath.workdps(DIGITS):
        inverted = inverse(exact(K))
    assert inverted is not None
    return System("inverse + diagonal", ed.hessian(f, u), {"K": K, "d": d}, inverted + np.diag(exact(d)))


FAMILIES: dict[str, Callable[[Random, float, str], System]] = {
    maker.__name__: maker
    for maker in (
        dense, stacked, diagonal, identity_and_core, kronecker_product, kronecker_sum, low_rank, arrowhead,
        inverse_and_diagonal,
    )
}  # fmt: skip


# What must hold


def problem(system: System, rng: Random, dtype: str = "float64", damping: float = 0.0) -> str:
    """What is wrong with the solution of a system; nothing if it is accurate, or rightly refused."""
    eps = float(np.finfo(dtype).eps)
    H = system.structured()
    b = rng.normal(size=len(system.matrix)).astype(dtype)
    condition = system.condition
    try:
        x = H.solve(b)
    except ed.SingularError as error:
        if "condition" not in str(error):
            return f"the error does not tell the condition: {error}"
        return f"refused at condition {condition:.1e}: {error}" if condition * eps < 0.01 else ""
    except ed.EindiffError as error:
        return f"refused at condition {condition:.1e}: {error}" if condition * eps < 0.01 else ""
    if condition == np.inf:
        return "a singular system is solved"
    error = system.error(np.concatenate([np.ravel(p) for p in x]) if isinstance(x, list) else np.ravel(x), b)
    bound = 100 * condition * eps
    return f"error {error:.1e} at condition {condition:.1e}" if not error <= max(bound, 100 * eps) else ""
