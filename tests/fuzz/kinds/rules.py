"""Programs that rewrite rules apply to, whose operands have deltas, ones, repeated labels, index maps, zeros.

Their values are compared with NumPy's of the program as it is written, also outside of the domain of a function; the
derivatives with jets, where there are any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

import eindiff as ed
from fuzz.checks import Case
from fuzz.jets import Array
from fuzz.programs import RESULT, Declared, FoundError, Random, Unfit, Writer

# Operands: S a scalar, V and W vectors, M a square matrix, N the size. What is inside may be another operand. There is
# an orthogonal matrix q and a positive definite matrix p as well.

SCALARS = (
    "s",
    "v[0]",
    "V @ W",
    "ed.sum(V)",
    "2 * S",
    "-S",
    "1 - S",
    "ed.tr(M)",
    "S * S",
    "0 * S",
    "ed.sum(M)",
    "1 + S",
)
VECTORS = (
    "v", "w", "-V", "2 * V", "V * W", "V * V", "S * V", "V + 1", "V - W", "V[::-1]", "ed.diag(M)", "M[0]", "M[:, -1]",
    "M @ V", "ed.ones(N)", "ed.zeros(N)", "ed.sum(M, 0)", "ed.einsum('ij->i', M)", "ed.concatenate([V[1:], W[:1]])",
    "ed.einsum(',i->i', S, V)", "ed.einsum('i,i,i->i', V, W, V)", "ed.cumsum(V)", "ed.einsum('->i', sizes={'i': N})",
    "ed.einsum('i->i', V)", "ed.abs(V)", "ed.exp(V)",
)  # fmt: skip
MATRICES = (
    "a", "M.T", "-M", "2 * M", "ed.diag(V)", "2 * ed.diag(V)", "ed.einsum('i,i->ii', V, W)", "ed.outer(V, W)",
    "ed.outer(V, V)", "ed.einsum('i->ij', V, sizes={'j': N})", "ed.einsum('j->ij', V, sizes={'i': N})", "ed.eye(N)",
    "ed.ones(N, N)", "ed.diag(V) + M", "ed.diag(V) + 1", "M @ M", "M + M.T", "M - M.T", "V * M", "ed.diag(ed.diag(M))",
    "ed.einsum('ii->ii', M)", "M[::-1]", "M[:, ::-1]", "M * M.T", "M * M", "S * M", "ed.stack([V, W, V])[:1] * M",
    "M @ ed.diag(V)", "ed.einsum('ij,kj->ik', M, M)", "ed.einsum('i,jk,j->ij', V, M, W)", "ed.exp(M)", "0 * M",
)  # fmt: skip

# Programs: X is an operand of any shape.

PROGRAMS = (
    # powers
    "X ** 0", "X ** 1", "X ** 2", "(X ** 2) ** 3", "(X ** 3) ** -1", "(X ** -1) ** 2", "(X ** 0.5) ** 2",
    "(X ** 2) ** 0.5", "ed.sqrt(X * X)", "ed.sqrt(3 * X * X)", "(X * X) ** 1.5", "(X * X) ** -0.5", "(2 * X) ** 3",
    "(-X) ** 3", "(-2 * X) ** 2", "(4 * X) ** 0.5", "(-X) ** 0.5", "(X * X * X) ** 2", "(S * X) ** 3",
    "ed.abs(X) ** 3", "ed.abs(X) ** 4", "ed.sign(X) ** 3", "ed.abs(X) ** 0.5", "ed.eye(N)[1:] ** 3",
    "ed.log(ed.cosh(X))", "(ed.abs(X) ** 1.5) ** 0.5", "X / X", "X * X ** -1", "X ** 3 / X ** 2",
    "ed.sqrt(X) * ed.sqrt(X)", "X ** 2 * X ** -3", "(ed.exp(X) ** 2) ** 0.5", "ed.sqrt(ed.exp(X) * ed.exp(X))",
    # pieces
    "ed.abs(-2 * X)", "ed.abs(ed.abs(X))", "ed.abs(3 * ed.exp(X))", "ed.abs(X) * ed.sign(X)", "ed.relu(3 * X)",
    "ed.relu(-X)", "ed.relu(X) * ed.step(X)", "ed.step(X) ** 2", "ed.step(2 * X)", "ed.step(-X)", "ed.sign(2 * X)",
    "ed.sign(-X)", "ed.sign(X) * ed.abs(X) * X", "ed.maximum(X, X)", "ed.minimum(X, X)", "ed.sign(X) ** 2",
    "ed.abs(X) * ed.abs(X)", "ed.step(X) * ed.step(-X)", "ed.einsum('i,i->', ed.relu(V), ed.step(V))",
    "ed.einsum('i,j->ij', ed.abs(V), ed.sign(V))",
    *(f"ed.{name}({argument})" for name in ("sin", "tan", "arctan", "sinh", "tanh", "erf", "cos", "cosh", "expm1")
      for argument in ("-X", "-2 * X")),
    "ed.arcsin(-0.3 * ed.sin(X))",
    # exponentials and logarithms
    "ed.exp(ed.log(X))", "ed.exp(2 * ed.log(X))", "ed.exp(-ed.softplus(X))", "ed.exp(X - ed.softplus(X))",
    "ed.exp(ed.diag(V) - ed.diag(ed.softplus(V)))", "ed.exp(M.T - ed.softplus(M))", "ed.log(ed.exp(X))",
    "ed.log(X ** 2)", "ed.log(X ** 3)", "ed.log(X ** 0.5)", "ed.log(X ** -1)", "ed.log(X ** -2)",
    "ed.log(ed.exp(X) ** 2)",
    "ed.log(ed.abs(X) ** 2)", "ed.log(ed.det(M @ M.T + ed.eye(N)))", "ed.log(ed.prod(ed.exp(X)))",
    "ed.log(ed.prod(ed.abs(M), 1))", "ed.log(ed.prod(ed.abs(V)))", "ed.log(ed.sigmoid(X))", "ed.log(ed.expm1(X))",
    "ed.log(2 * ed.exp(X) + 1)", "ed.log(ed.exp(X) + ed.exp(-X))", "ed.log(ed.sum(ed.exp(X)))",
    "ed.log(ed.sum(ed.exp(M), 0))", "ed.log(ed.mean(ed.exp(M), 1))", "ed.log(ed.sum(W * ed.exp(V)))",
    "ed.log(ed.einsum('i,ij->j', W, ed.exp(M)))", "ed.log(M @ ed.exp(V))", "ed.log(ed.abs(M) @ ed.exp(V))",
    "ed.log(ed.exp(M) @ ed.exp(V))", "ed.log(ed.cumsum(ed.exp(V)))", "ed.log(ed.exp(V) @ M @ ed.exp(W))",
    "ed.log(S * ed.exp(X) + 2)", "ed.log(1 + S * ed.exp(X))", "ed.log(1 + ed.sum(ed.exp(X)))",
    "ed.log(ed.sum(ed.exp(X)) + ed.exp(S))", "ed.log(S * ed.exp(X) - s * ed.exp(2 * X))", "ed.log(X * ed.exp(X))",
    "ed.log(ed.exp(V) + S * ed.exp(W) + 1)", "ed.log(ed.exp(X) - 1)", "ed.log(3 * ed.exp(X) - 2 * ed.exp(2 * X))",
    "ed.log(ed.exp(V)[1:] + ed.exp(W)[1:])", "ed.log(ed.sum(ed.exp(V)[1:]) + S)", "ed.log1p(ed.exp(X))",
    "ed.log1p(2 * ed.exp(X))", "ed.log1p(ed.sum(ed.exp(X)))", "ed.log1p(S * ed.exp(X))", "ed.log1p(W @ ed.exp(V))",
    "ed.log(ed.diag(ed.exp(V)))", "ed.log(ed.diag(ed.exp(V) + 1))", "ed.log(ed.diag(ed.exp(V)) + 1)",
    "ed.log(ed.diag(ed.exp(V)) + ed.exp(M))", "ed.log1p(ed.diag(ed.exp(V)))", "ed.log(ed.diag(V) @ ed.exp(M))",
    "ed.log(ed.einsum('i,ij->ii', ed.exp(V), ed.exp(M)))", "ed.log(ed.outer(ed.exp(V), W))",
    "ed.log(ed.einsum('ii->i', ed.exp(M)) * W)", "ed.log(ed.einsum('ii->', ed.exp(M)))",
    "ed.log(ed.sum(ed.exp(V)) * ed.sum(ed.exp(W)))", "ed.log(ed.sum(ed.exp(V)) / ed.sum(ed.exp(W)))",
    "ed.log(ed.sum(ed.exp(M), 1) * W)", "ed.log(ed.max(ed.exp(V)))", "ed.log(ed.sum(ed.sigmoid(X)))",
    "ed.log(ed.sum(ed.exp(V)) + ed.sum(M * ed.exp(M)))", "ed.log(M @ ed.exp(V) + ed.exp(W))",
    "ed.max(V) + ed.log(ed.sum(ed.exp(V - ed.max(V))))", "W - ed.log(ed.sum(ed.exp(ed.outer(W, V * 0 + 1) + M), 1))",
    "ed.outer(W, W * 0 + 2) - ed.log(ed.sum(ed.exp(ed.outer(W, V * 0 + 1) - M), 1))",
    "ed.exp(M - ed.outer(W, W * 0 + 1)) / ed.sum(ed.exp(M - ed.outer(W, W * 0 + 1)), 1)[:, None]",
    "ed.sum(ed.exp(ed.stack([S, V @ W])) / ed.sum(ed.exp(ed.stack([S, V @ W])))) * X",
    "V @ (ed.exp(a) / ed.sum(ed.exp(a), 0)).T", "ed.sum(ed.exp(3 * a) / ed.sum(ed.exp(3 * a), 1)[:, None])",
    "ed.einsum('ij,i->', ed.exp(M) / ed.sum(ed.exp(M), 1)[:, None], V)", "2 * ed.sigmoid(X) - 1",
    "ed.log(ed.stack([ed.exp(V), ed.exp(W)]))",
    "ed.log(ed.exp(S) * ed.diag(ed.exp(V)) + ed.outer(ed.exp(V), ed.exp(W)))",
    "(1 + ed.exp(X)) ** -1", "(2 + 3 * ed.exp(X)) ** -2", "(1 + ed.exp(X)) ** -0.5", "1 / (1 + ed.diag(ed.exp(V)))",
    "1 / (1 + ed.sum(ed.exp(X)))", "1 - ed.sigmoid(X)", "2 - 2 * ed.sigmoid(X)", "1 - ed.diag(ed.sigmoid(V))",
    "ed.diag(1 - ed.sigmoid(V))", "ed.eye(N) - ed.diag(ed.sigmoid(V))", "ed.sigmoid(X) - 1", "1 - ed.sigmoid(M.T)",
    "1 - ed.outer(ed.ones(N), ed.sigmoid(V))", "ed.exp(X) * ed.sigmoid(-X)", "ed.exp(-X) * ed.sigmoid(X)",
    "ed.exp(M) * ed.sigmoid(-M.T)", "ed.einsum('i,j->ij', ed.exp(V), ed.sigmoid(-V))",
    "ed.exp(X) / ed.sum(ed.exp(X))", "ed.exp(M) / ed.sum(ed.exp(M), 0)", "ed.exp(M) / ed.sum(ed.exp(M), 1)",
    "ed.exp(V) / (ed.exp(V) + ed.exp(W))", "ed.exp(V) / (M @ ed.exp(V))", "ed.exp(V) / ed.cumsum(ed.exp(V))",
    "ed.exp(V) / (1 + ed.exp(V)) ** 2", "ed.diag(ed.exp(V)) / ed.sum(ed.exp(V))", "ed.exp(X) / (ed.exp(X) + 1)",
    "M @ ed.exp(V) / ed.sum(ed.exp(V))", "(W @ ed.exp(V)) / (ed.exp(V) @ ed.ones(N)) ** 2",
    "ed.einsum('i,j->ij', ed.exp(V), 1 / (ed.exp(V) + ed.exp(W)))", "ed.exp(M) / ed.exp(M.T)",
    "ed.simplify(ed.exp(X) * ed.exp(-2 * X))", "ed.simplify(ed.exp(M) * ed.exp(M.T) * V)",
    "ed.simplify(M @ V + M @ W)", "ed.simplify(M @ V + M.T @ V)", "ed.simplify(V * (M @ W) + V * (M @ V))",
    "ed.simplify(M @ M @ V - M @ W)", "ed.simplify(ed.einsum('ij,ij->', M, M) + ed.einsum('ij,ji->', M, M))",
    "ed.simplify(ed.einsum('ij,j->i', M, V) + ed.einsum('ij,i->j', M, V))", "ed.simplify(V * W + V * V - 2 * V)",
    "ed.simplify(ed.outer(V, W) @ M + ed.outer(V, V) @ M)", "ed.simplify(ed.diag(V) @ M + ed.diag(W) @ M)",
    "ed.simplify(ed.exp(V) * ed.exp(V) * ed.exp(W)[::-1])", "ed.simplify(X + 2 * X)",
    # matrices
    "ed.inv(ed.inv(M))", "ed.inv(2 * M)", "ed.inv(M.T)", "ed.inv(-M.T)", "ed.inv(ed.diag(V))", "ed.inv(M @ M)",
    "ed.inv(M @ M.T @ ed.diag(V))", "ed.inv(ed.expm(M))", "ed.det(ed.inv(M))", "ed.det(M.T)", "ed.det(3 * M)",
    "ed.det(-M)", "ed.det(ed.diag(V))", "ed.det(M @ ed.diag(V) @ M)", "ed.det(ed.expm(M))", "ed.det(ed.outer(V, W))",
    "ed.logdet(ed.inv(M @ M.T + ed.eye(N)))", "ed.logdet(ed.expm(M))", "ed.logdet(M.T)", "ed.logdet(2 * M)",
    "ed.logdet(ed.diag(ed.exp(V)))", "ed.expm(ed.logm(ed.eye(N) + 0.1 * M @ M.T))", "ed.expm(M.T)",
    "ed.logm(ed.expm(0.2 * M.T))", "ed.sqrtm(ed.expm(0.2 * M.T))", "ed.sqrtm(ed.diag(ed.exp(V)))",
    "ed.expm(ed.diag(V))", "ed.inv(ed.kron(M, M.T))", "ed.inv(ed.kron(ed.diag(V), M))", "ed.det(ed.kron(M, ed.eye(N)))",
    "ed.inv(ed.kron(M, ed.outer(V, W)))", "ed.logdet(ed.kron(M, M))", "ed.logdet(ed.kron(p, p)) * S",
    "ed.inv(ed.kron(ed.eye(N), M) * S)", "ed.logdet(M @ p @ M.T)", "ed.logdet(p @ p @ p)", "ed.logdet(M @ M.T)",
    "M @ ed.inv(M)", "ed.inv(M) @ M @ V", "ed.inv(M).T @ M.T", "ed.einsum('ij,ij->', M, ed.inv(M))",
    "ed.einsum('ij,ji->', M, ed.inv(M))", "ed.einsum('ij,ji->i', M, ed.inv(M))", "ed.einsum('ij,ij->i', M, ed.inv(M))",
    "M.T @ ed.inv(M)", "ed.inv(M + M.T) @ (M + M.T)", "ed.inv(M - M.T) @ (M - M.T).T",
    "ed.einsum('ij,jk->ijk', M, ed.inv(M))", "ed.einsum('ij,jj->i', M, ed.inv(M))",
    "ed.chol(M @ M.T + ed.eye(N)) @ ed.chol(M @ M.T + ed.eye(N)).T",
    "ed.sum(ed.log(ed.diag(ed.chol(M @ M.T + ed.eye(N)))))",
    "ed.logdet(ed.chol(M @ M.T + ed.eye(N)))", "ed.chol(M + 9 * ed.eye(N)).T @ ed.chol(M + 9 * ed.eye(N))",
    "ed.einsum('ij,ij->i', ed.chol(M + 9 * ed.eye(N)), ed.chol(M + 9 * ed.eye(N)))",
    "ed.sum(ed.log(ed.diag(ed.chol(M + 9 * ed.eye(N)))) * V)",
    "ed.inv(ed.chol(M + 9 * ed.eye(N))).T @ ed.inv(ed.chol(M + 9 * ed.eye(N)))", "ed.cumsum(ed.cumsum(V))",
    "ed.einsum('i,i->', ed.cumsum(V), ed.cumsum(V))", "ed.sum(ed.eigvals(M))", "ed.sum(ed.eigvals(M) ** 2)",
    "ed.sum(ed.svdvals(M) ** 2)", "ed.sum(ed.svdvals(ed.outer(V, W)))", "ed.sum(ed.svdvals(M @ M.T))",
    "ed.max(ed.eigvals(M))", "ed.max(-ed.eigvals(M))", "ed.max(-2 * ed.svdvals(M))", "ed.max(ed.svdvals(M))",
    "ed.sum(ed.eigvals(M) * V)", "ed.where(V, W, W)", "ed.where(ed.ones(N), V, W)",
    "ed.concatenate([V[:1], W])[:1]",
    "ed.cumsum(V[::-1])[::-1] * W", "ed.cumsum(M[::-1], 0)[::-1] @ V", "ed.sum(ed.exp(ed.cumsum(V[::-1])[::-1]))",
    "ed.cumsum(ed.eye(N), 0) * ed.cumsum(ed.eye(N), 0) * M", "ed.cumsum(ed.eye(N), 0) * ed.cumsum(ed.eye(N), 1) * M",
    "ed.eigvecs(M + M.T).T @ ed.eigvecs(M + M.T)", "ed.eigvecs(M) @ ed.diag(ed.eigvals(M)) @ ed.eigvecs(M).T",
    "ed.einsum('ij,ij->ij', ed.eigvecs(M), ed.eigvecs(M)) @ ed.eigvals(M)",
    "ed.eigvals(M) * ed.sum(ed.eigvals(M))", "ed.einsum('i,j->', ed.eigvals(M), V)",
    "ed.inv(q @ ed.diag(V) @ q.T + 3 * ed.eye(N))", "ed.inv(2 * ed.eye(N) - q.T @ M @ q) @ V",
    "ed.inv(M + M @ ed.outer(V, W))", "ed.inv(M @ ed.expm(M) - M.T @ ed.expm(M)) @ V", "ed.inv(p @ M + p @ M.T) * S",
    "ed.logdet(ed.inv(M) @ p @ ed.inv(M.T))", "ed.logdet(q @ M @ p @ M.T @ q.T)", "ed.det(q @ M @ M @ q.T)",
    "ed.logabsdet(ed.kron(M, M.T))", "ed.logabsdet(ed.inv(M) @ M.T @ p)", "ed.logabsdet(q @ M @ q.T)",
    "ed.logabsdet(-3 * M)", "ed.signdet(ed.inv(M)) * V", "ed.signdet(M.T @ p) * W",
    "ed.logdet(3 * ed.diag(ed.exp(V)) @ p)",
    "ed.det(q @ M @ q.T + ed.eye(N))", "ed.logdet(q.T @ ed.diag(ed.exp(V)) @ q + ed.eye(N))",
)  # fmt: skip
AROUND = (
    "R", "R", "R", "2 * R", "-R", "R + 1", "ed.sum(R)", "R * R", "ed.exp(ed.tanh(R))", "S * R",
)  # fmt: skip


VALUES_ONLY = re.compile(
    r"ed\.(det|chol|expm|logm|sqrtm|eigvals|eigvecs|svdvals|where)"
)  # others try their derivatives
OPERANDS = {"S": SCALARS, "V": VECTORS, "W": VECTORS, "M": MATRICES, "X": (*SCALARS, *VECTORS, *MATRICES)}
LEAVES = {"S": ("s",), "V": ("v", "w"), "W": ("w", "v"), "M": ("a",), "X": ("s", "v", "a")}


def filled(rng: Random, text: str, size: str, depth: int) -> str:
    """A text with operands in the places of its letters, one for each letter."""
    chosen: dict[str, str] = {"N": size}

    def operand(match: re.Match) -> str:
        letter = match.group()
        if letter not in chosen:
            options = OPERANDS[letter] if depth and rng.random() < 0.7 else LEAVES[letter]
            inner = filled(rng, str(rng.choice(options)), size, depth - 1)
            chosen[letter] = inner if inner.isidentifier() else f"({inner})"
        return chosen[letter]

    return re.sub(r"\b[SVWMXN]\b", operand, text)


def _einsum(spec: str, *operands: Array, sizes: dict[str, int] | None = None) -> Array:
    """NumPy's, with ones for labels that no operand has and deltas for those that are twice in the output."""
    inputs, output = spec.split("->")
    terms = inputs.split(",") if operands else []
    known = dict(sizes or {})
    for term, a in zip(terms, operands, strict=True):
        known.update(zip(term, a.shape, strict=True))
    unbound = [x for x in dict.fromkeys(output) if x not in "".join(terms)]
    distinct = "".join(dict.fromkeys(output))
    ones = [np.ones(known[x]) for x in unbound]
    core = (
        np.einsum(f"{','.join([*terms, *unbound])}->{distinct}", *operands, *ones) if terms or unbound else np.ones(())
    )
    result = np.zeros([known[x] for x in output])
    for place in np.ndindex(core.shape):
        at = dict(zip(distinct, place, strict=True))
        result[tuple(at[x] for x in output)] = core[place]
    return result


def _solvable(a: Array) -> Array:
    if a.size and not np.linalg.cond(a) < 1e4:
        raise Unfit("badly conditioned")
    return a


def _logdet(a: Array) -> Array:
    sign, value = np.linalg.slogdet(_solvable(a))
    if sign <= 0:
        raise Unfit("no logarithm")
    return np.asarray(value)


def _logabsdet(a: Array) -> Array:
    """Of `slogdet`, in functions of arrays."""
    return np.asarray(np.linalg.slogdet(_solvable(a))[1])


def _expm(a: Array) -> Array:
    if np.abs(a).sum() > 12:
        raise Unfit("a large exponent")
    return scipy.linalg.expm(a)


def _symmetric(a: Array) -> Array:
    return (a + a.T) / 2


NUMPY = SimpleNamespace(
    **{name: value for name, value in vars(np).items() if name not in ("ones", "zeros", "einsum", "cumsum")},
    ones=lambda *shape: np.ones(shape), zeros=lambda *shape: np.zeros(shape), einsum=_einsum,
    cumsum=lambda a, axis=-1: np.cumsum(a, axis), tr=np.trace,
    erf=scipy.special.erf, sigmoid=scipy.special.expit, softplus=lambda x: np.logaddexp(0, x), simplify=lambda x: x,
    relu=lambda x: np.maximum(x, 0), step=lambda x: np.heaviside(x, 0.0),
    inv=lambda a: np.linalg.inv(_solvable(a)), det=lambda a: np.asarray(np.linalg.det(a)), logdet=_logdet,
    logabsdet=_logabsdet, signdet=lambda a: np.asarray(np.linalg.slogdet(_solvable(a))[0]),
    chol=lambda a: np.linalg.cholesky(_symmetric(a)), expm=_expm, logm=lambda a: scipy.linalg.logm(a).real,
    sqrtm=scipy.linalg.sqrtm, eigvals=lambda a: np.linalg.eigvalsh(_symmetric(a)),
    eigvecs=lambda a: np.linalg.eigh(_symmetric(a))[1],
    svdvals=lambda a: np.linalg.svd(a, compute_uv=False),
)  # fmt: skip


@dataclass
class Rewritten:
    """A program, what NumPy says of it, and the program as other kinds check it, if it has derivatives here."""

    text: str
    expr: Any
    arrays: dict[str, Array]
    sizes: dict[str, int]
    expected: Array
    case: Case | None

    def check(self) -> None:
        """Where NumPy has no number, a rule may have one: exp(log(x)) is x for all x. Zeros have no sign.

        A sum of exponentials over nothing is refused where its logarithm is taken, as logsumexp of nothing is.
        """
        known = ~np.isnan(self.expected)
        finite = np.isfinite(self.expected)
        try:
            value = ed.evaluate(self.expr, self.arrays, self.sizes)
        except ed.EindiffError as error:
            if finite.all() and not re.match(r"(logsumexp|log_weighted_sum|weighted_softmax)\(.* needs ", str(error)):
                raise FoundError(f"refused: {error}") from error
            return
        size = max(1.0, np.abs(self.expected[finite]).max(initial=0.0))
        value, expected = (np.where(np.isinf(x), np.inf, x) for x in (value, self.expected))
        if value.shape != known.shape or not np.allclose(value[known], expected[known], rtol=0, atol=1e-7 * size):
            raise FoundError(f"{value.tolist()} where NumPy has {self.expected.tolist()}")
        if self.case is not None:
            self.case.check()


def _declared(rng: Random, n: int, size: int | str) -> dict[str, Declared]:
    """The variables; often with entries that are equal, or zero."""
    values = [-1.0, 0.0, 0.5, 1.0, 2.0] if rng.random() < 0.4 else rng.uniform(-1.2, 1.2, 24)
    orders = {"s": 0, "v": 1, "w": 1, "a": 2}
    found = {name: Declared((size,) * k, np.asarray(rng.choice(values, (n,) * k))) for name, k in orders.items()}
    root = rng.normal(size=(n, n))
    found["q"] = Declared((size, size), np.linalg.qr(root)[0], ("orthogonal",))
    return found | {"p": Declared((size, size), root @ root.T + np.eye(n), ("psd",))}


def generate(rng: Random) -> Rewritten:
    n = int(rng.choice([1, 2, 3], p=[0.15, 0.45, 0.4]))
    sizes = {"n": n} if rng.random() < 0.5 else {}
    size = "n" if sizes else n
    writer = Writer(rng, sizes, _declared(rng, n, size))
    text = filled(rng, str(rng.choice(AROUND)).replace("R", f"({rng.choice(PROGRAMS)})"), str(size), 2)
    arrays = writer.program.arrays
    try:
        with np.errstate(all="ignore"):
            expected = np.asarray(eval(text, {"ed": NUMPY, **arrays, **sizes}), dtype=float)
        expr = eval(text, writer.exprs)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise Unfit(str(error)) from error
    except ed.EindiffError as error:
        if "is empty" in str(error) or not np.isfinite(expected).all():  # a slice of nothing, log(0)
            raise Unfit(str(error)) from error
        raise FoundError(f"refused: {error}\n{writer.program.text}\n{text}") from error
    smooth = not VALUES_ONLY.search(text) and writer.add(text) is not None
    described = "\n".join([writer.program.text, *([] if smooth else [text])])
    case = Case.of(writer) if smooth and expected.size <= RESULT else None
    return Rewritten(described, expr, arrays, sizes, expected, case)
