"""One problem for each structure that a Hessian is solved with, and how a person would solve the same system.

All systems are positive definite and well conditioned, so that every method gets the same solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

import eindiff as ed
from benchmarks.problem import Array, Draw, Problem, scaled, zero_one

SOLVE = "solve"  # the quantity: the solution of one system
Solve = Callable[[Array], Array]


@dataclass(frozen=True)
class System(Problem):
    """A problem whose Hessian is solved with; `wrt` may have several names.

    Each function in `hand` takes the arrays that it names to a function of the right-hand side: what it does before is
    to form the parts of the Hessian, and is not timed, as it is not for the other methods.
    """

    structure: str = ""  # that eindiff should find
    positive: tuple[str, ...] = ()  # variables that are declared so
    derived: Mapping[str, Callable[..., Array]] = field(default_factory=dict)  # arrays that follow from others
    iterative: bool = False  # whether memory is limited such that no factorization is possible

    def array(self, name: str, n: int) -> Array:
        """The data of one array."""
        if name in self.derived:
            return self.derived[name](**self.arguments(self.derived[name], n))
        return super().array(name, n).reshape(self.shape(name, n))

    def rows(self, n: int) -> int:
        """The rows of the system."""
        return sum(int(np.prod(self.shape(name, n))) for name in self.wrt.split())

    def hessian(self, n: int) -> Any:
        """The structured Hessian at size n."""
        variables = {
            name: ed.tensor(name, tuple(shape.split()), *(["positive"] if name in self.positive else []))
            for name, shape in self.shapes.items()
        }
        by = [variables[name] for name in self.wrt.split()]
        hessian = ed.hessian(self.objective(ed, **variables), by if len(by) > 1 else by[0])
        exprs = [expr for row in hessian for expr in row] if len(by) > 1 else [hessian]
        arrays = {x.name: self.array(x.name, n) for x in ed.variables(*exprs)}
        return ed.compile(hessian, sizes=self.sizes(n), form="structured")(**arrays)


def _uniform(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.uniform(0.5, 1.5, shape)


def _weight(value: float) -> Draw:
    """A number: the weight of a penalty."""
    return lambda generator, shape: np.full(shape, value)


def _system(structure: str, name: str, title: str, grid: tuple[int, ...], **fields: Any) -> System:
    hand = {SOLVE: fields.pop("hand", {})}
    return System(name=name, title=title, structure=structure, grid={SOLVE: grid}, hand=hand, **fields)


# Blocks


def factorization(xp: Any, T: Any, U: Any, V: Any) -> Any:
    """`‖T - UV'‖²`."""
    return xp.norm2(T - U @ V.T) ** 2


def masked_factorization(xp: Any, O: Any, T: Any, U: Any, V: Any, c: Any) -> Any:
    """`‖O * (T - UV')‖² + c‖U‖²`."""
    return xp.norm2(O * (T - U @ V.T)) ** 2 + c * xp.norm2(U) ** 2


def groupwise_logistic(xp: Any, X: Any, Y: Any, W: Any) -> Any:
    """A logistic regression for each group g, with 5 weights and 20 observations."""
    scores = xp.einsum("gmp,gp->gm", X, W)
    return xp.sum(xp.softplus(scores) - Y * scores)


def transport(xp: Any, C: Any, P: Any, c: Any) -> Any:
    """`Σ C_ij P_ij + c P_ij log(P_ij)`."""
    return xp.sum(C * P) + c * xp.sum(P * xp.log(P))


def by_one_core(V: Array) -> Solve:
    """The same small matrix for each row of U."""
    core = 2 * V.T @ V
    return lambda b: np.linalg.solve(core, b.reshape(-1, len(core)).T).T


def by_one_cholesky(V: Array) -> Solve:
    """The same, by its Cholesky factorization."""
    core = 2 * V.T @ V
    return lambda b: linalg.cho_solve(linalg.cho_factor(core), b.reshape(-1, len(core)).T).T


def _by_blocks(blocks: Array) -> Solve:
    return lambda b: np.linalg.solve(blocks, b.reshape(*blocks.shape[:2], 1))


def by_masked_blocks(O: Array, V: Array, c: Array) -> Solve:
    """A small matrix for each row of U."""
    k = V.shape[1]
    squares = (V[:, :, None] * V[:, None, :]).reshape(-1, k * k)
    return _by_blocks(2 * ((O * O) @ squares).reshape(-1, k, k) + 2 * c * np.eye(k))


def by_group_blocks(X: Array, W: Array) -> Solve:
    """A small matrix for each group."""
    p = 1 / (1 + np.exp(-X @ W[:, :, None]))
    return _by_blocks((p * (1 - p) * X).transpose(0, 2, 1) @ X)


def by_division(P: Array, c: Array) -> Solve:
    """One division."""
    diagonal = (c / P).reshape(-1)
    return lambda b: b / diagonal


BLOCKS = [
    _system(
        "identity ⊗ core", "factorization", "matrix factorization", (10, 100, 1000, 10_000, 100_000),
        shapes={"T": "m n", "U": "m k", "V": "n k"}, wrt="U", sizes=lambda n: {"m": n, "n": max(n, 50), "k": 10},
        objective=factorization, hand={"np.linalg.solve": by_one_core, "cho_solve": by_one_cholesky},
    ),
    _system(
        "block diagonal", "masked", "masked factorization", (10, 100, 1000, 4000),
        shapes={"O": "m n", "T": "m n", "U": "m k", "V": "n k", "c": ""}, wrt="U",
        sizes=lambda n: {"m": n, "n": n, "k": 10}, objective=masked_factorization, positive=("c",),
        draw={"O": zero_one, "c": _weight(1.0)}, hand={"np.linalg.solve": by_masked_blocks},
    ),
    _system(
        "block diagonal", "groupwise", "groupwise logistic regression", (20, 200, 2000, 10_000, 100_000),
        shapes={"X": "g m p", "Y": "g m", "W": "g p"}, wrt="W", sizes=lambda n: {"g": n, "m": 20, "p": 5},
        objective=groupwise_logistic, draw={"W": lambda generator, shape: 0.3 * generator.normal(size=shape)},
        hand={"np.linalg.solve": by_group_blocks},
    ),
    _system(
        "diagonal", "transport", "transport with entropy", (10, 30, 100, 300, 1000),
        shapes={"C": "n n", "P": "n n", "c": ""}, wrt="P", sizes=lambda n: {"n": n}, objective=transport,
        positive=("P", "c"), draw={"P": _uniform, "c": _weight(0.1)}, hand={"division": by_division},
    ),
]  # fmt: skip


# Kronecker products


def bilinear(xp: Any, A: Any, B: Any, C: Any, X: Any) -> Any:
    """`‖AXB - C‖²`."""
    return xp.norm2(A @ X @ B - C) ** 2


def bilinear_ridge(xp: Any, A: Any, B: Any, C: Any, X: Any, c: Any) -> Any:
    """`‖AXB - C‖² + c‖X‖²`."""
    return xp.norm2(A @ X @ B - C) ** 2 + c * xp.norm2(X) ** 2


def sylvester(xp: Any, A: Any, B: Any, X: Any, R: Any, S: Any) -> Any:
    """`‖AX - R‖² + ‖XB - S‖²`."""
    return xp.norm2(A @ X - R) ** 2 + xp.norm2(X @ B - S) ** 2


def by_two_factors(A: Array, B: Array) -> Solve:
    """From the left and from the right."""
    left, right = 2 * A.T @ A, B @ B.T
    return lambda b: np.linalg.solve(right, np.linalg.solve(left, b.reshape(len(left), -1)).T).T


def _by_eigenvectors(left: Array, right: Array, combine: Callable[[Array, Array], Array]) -> Solve:
    def solve(b: Array) -> Array:
        (l, P), (r, Q) = np.linalg.eigh(left), np.linalg.eigh(right)
        return P @ ((P.T @ b.reshape(len(l), -1) @ Q) / combine(l[:, None], r)) @ Q.T

    return solve


def by_eigenvectors_of_product(A: Array, B: Array, c: Array) -> Solve:
    """In the basis where both factors are diagonal."""
    return _by_eigenvectors(A.T @ A, B @ B.T, lambda l, r: 2 * l * r + 2 * c)


def by_eigenvectors_of_sum(A: Array, B: Array) -> Solve:
    """The same, for a sum."""
    return _by_eigenvectors(2 * A.T @ A, 2 * B @ B.T, lambda l, r: l + r)


def by_schur_form(A: Array, B: Array) -> Solve:
    """What SciPy has for the equation."""
    left, right = 2 * A.T @ A, 2 * B @ B.T
    return lambda b: linalg.solve_sylvester(left, right, b.reshape(len(left), -1))


_FACTORS: dict[str, Any] = {
    "wrt": "X", "sizes": lambda n: {"n": n, "m": 4 * n}, "draw": {"A": scaled(1), "B": scaled(1), "c": _weight(0.1)},
    "positive": ("c",),
}  # fmt: skip
_BILINEAR = {"A": "m n", "B": "n m", "C": "m m", "X": "n n"}
KRONECKER = [
    _system(
        "Kronecker product", "kronecker", "‖AXB − C‖²", (10, 30, 100, 300, 1000), shapes=_BILINEAR, objective=bilinear,
        hand={"np.linalg.solve": by_two_factors}, **_FACTORS,
    ),
    _system(
        "Kronecker sum", "kronecker-ridge", "‖AXB − C‖² + c‖X‖²", (10, 30, 100, 300, 1000),
        shapes=_BILINEAR | {"c": ""}, objective=bilinear_ridge, hand={"eigh": by_eigenvectors_of_product}, **_FACTORS,
    ),
    _system(
        "Kronecker sum", "sylvester", "‖AX − R‖² + ‖XB − S‖²", (10, 30, 100, 300, 1000),
        shapes={"A": "m n", "B": "n m", "X": "n n", "R": "m n", "S": "n m"}, objective=sylvester,
        hand={"eigh": by_eigenvectors_of_sum, "solve_sylvester": by_schur_form}, **_FACTORS,
    ),
]  # fmt: skip


# Low rank, arrowheads, and what has no structure


def ridge(xp: Any, X: Any, y: Any, w: Any, c: Any) -> Any:
    """`‖Xw - y‖² + c‖w‖²`."""
    return xp.norm2(X @ w - y) ** 2 + c * xp.norm2(w) ** 2


def mixed_effects(xp: Any, X: Any, Z: Any, Y: Any, b: Any, beta: Any, c: Any) -> Any:
    """Effects b of each group, with a penalty, next to effects β that all have in common."""
    return xp.norm2(Y - X @ beta - xp.einsum("gmq,gq->gm", Z, b)) ** 2 + c * xp.norm2(b) ** 2


def logistic(xp: Any, X: Any, y: Any, w: Any) -> Any:
    """`Σ log(1 + exp(x_i'w)) - y_i x_i'w`."""
    return xp.sum(xp.softplus(X @ w) - y * (X @ w))


def both_factors(xp: Any, T: Any, U: Any, V: Any, c: Any) -> Any:
    """`‖T - UV'‖² + c‖U‖² + c‖V‖²`, by both."""
    return xp.norm2(T - U @ V.T) ** 2 + c * (xp.norm2(U) ** 2 + xp.norm2(V) ** 2)


def by_woodbury(X: Array, c: Array) -> Solve:
    """A system with as many rows as X has."""
    return lambda b: (b - X.T @ np.linalg.solve(c * np.eye(len(X)) + X @ X.T, X @ b)) / (2 * c)


def by_elimination(X: Array, Z: Array, c: Array) -> Solve:
    """The effects of groups eliminated, then those in common."""
    Zt, p, q = Z.transpose(0, 2, 1), X.shape[2], Z.shape[2]
    A, B, D = 2 * Zt @ Z + 2 * c * np.eye(q), 2 * Zt @ X, 2 * np.tensordot(X, X, ([0, 1], [0, 1]))

    def solve(b: Array) -> Array:
        solved = np.linalg.solve(A, np.concatenate([B, b[:-p].reshape(-1, q, 1)], axis=2))
        small = np.tensordot(B, solved, ([0, 1], [0, 1]))
        beta = np.linalg.solve(D - small[:, :p], b[-p:] - small[:, p])
        return np.concatenate([(solved[:, :, p] - solved[:, :, :p] @ beta).reshape(-1), beta])

    return solve


OTHERS = [
    _system(
        "identity + low rank", "ridge", "ridge regression, m = 50", (200, 1000, 10_000, 100_000),
        shapes={"X": "m n", "y": "m", "w": "n", "c": ""}, wrt="w", sizes=lambda n: {"m": 50, "n": n}, objective=ridge,
        draw={"X": scaled(1), "c": _weight(1.0)}, positive=("c",), hand={"Woodbury": by_woodbury},
    ),
    _system(
        "arrowhead", "mixed-effects", "mixed effects", (18, 198, 1998, 19_998),
        shapes={"X": "g m p", "Z": "g m q", "Y": "g m", "b": "g q", "beta": "p", "c": ""}, wrt="b beta",
        sizes=lambda n: {"g": n, "m": 20, "p": 10, "q": 5}, objective=mixed_effects, positive=("c",),
        draw={"X": lambda generator, shape: generator.normal(size=shape) / np.sqrt(shape[0]), "c": _weight(5.0)},
        hand={"elimination": by_elimination},
    ),
    _system(
        "dense", "logistic", "logistic regression, m = 4n", (10, 30, 100, 300, 1000, 3000),
        shapes={"X": "m n", "y": "m", "w": "n"}, wrt="w", sizes=lambda n: {"m": 4 * n, "n": n}, objective=logistic,
        draw={"w": scaled(1)},
    ),
    _system(
        "iterative", "both-factors", "factorization by U and V", (10, 50, 500, 2000),
        shapes={"T": "m n", "U": "m k", "V": "n k", "c": ""}, wrt="U V", sizes=lambda n: {"m": n, "n": n, "k": 10},
        objective=both_factors, positive=("c",), iterative=True,
        draw={"U": scaled(1), "V": scaled(1), "c": _weight(0.05)}, derived={"T": lambda U, V: U @ V.T},
    ),
]  # fmt: skip

SYSTEMS = {system.name: system for system in BLOCKS + KRONECKER + OTHERS}
