"""Small expressions that each library has its own words for: index maps, deltas, numbers."""

from __future__ import annotations

import numpy as np

import eindiff as ed
from eindiff.core.nodes import Expr

A, B, x, y, s = ed.matrix("A", 4, 3), ed.matrix("B", 4, 3), ed.vector("x", 6), ed.vector("y", 3), ed.scalar("s")
M, T, n = ed.matrix("M", 3, 3), ed.tensor("T", (2, 3, 4)), ed.vector("n", "n")

INDEXED: dict[str, Expr] = {
    "a slice": x[1:4],
    "a slice with steps": x[1::2],
    "a slice with steps to the end": x[::3],
    "backwards": x[::-1],
    "backwards with steps": x[4:0:-2],
    "an entry": x[2],
    "a column": A[:, 1],
    "a row": A[-1],
    "an entry of a matrix": A[2, 1],
    "slices of both axes": A[1:3, ::2],
    "backwards along both axes": A[::-1, ::-1],
    "backwards along one axis": A[:, ::-1],
    "an entry of one axis and slices of others": T[1, ::2, 1:],
    "the middle axis": T[:, 1, :],
    "taken": ed.take(x, [5, 0, 0, 3]),
    "taken rows": ed.take(A, [3, 1, 1], axis=0),
    "taken columns": ed.take(A, [2, 0], axis=1),
    "taken in the middle": ed.take(T, [2, 0, 2], axis=1),
    "taken by a table": x[np.array([[0, 2], [5, 2]])],
    "taken from what is taken": ed.take(ed.take(x, [4, 1, 1, 3]), [3, 0, 0]),
    "taken from a slice": ed.take(x[::-1], [1, 1, 4]),
    "a large table": ed.take(x, list(np.arange(60) % 6)),
    "concatenated": ed.concatenate([x, y, x[:2]]),
    "concatenated columns": ed.concatenate([A, B, A[:, :1]], axis=1),
    "stacked": ed.stack([y, y * y, A[0]]),
    "stacked behind": ed.stack([A, B], axis=2),
    "padded": ed.concatenate([ed.zeros(2), x, ed.zeros(1)]),
    "padded rows": ed.concatenate([ed.zeros(1, 3), A, ed.zeros(2, 3)]),
    "reshaped": ed.reshape(A, (2, 6)),
    "reshaped and turned": ed.reshape(ed.reshape(A, (3, 4)).T, (6, 2)),
    "flattened": ed.reshape(T, (24,)),
    "columns one after the other": ed.vec(A),
    "a Kronecker product": ed.kron(A, M),
    "a Kronecker product of vectors": ed.kron(x, y),
    "a Kronecker sum": ed.kron(M, ed.eye(2)) + ed.kron(ed.eye(3), A[:2, :2]),
    "differences": x[1:] - x[:-1],
    "a convolution": ed.stack([x[k : k + 4] for k in range(3)]) @ A,
    "two maps that meet": ed.take(x, [1, 2, 2]) @ ed.take(x, [2, 1, 0]),
    "a named size": n[1:] * n[:-1] + n[::-1][1:],
    "a part of a matrix of a named size": ed.outer(n, n)[::-1, 1:],
}

DELTAS: dict[str, Expr] = {
    "a diagonal": ed.diag(y * y),
    "a diagonal plus a matrix": ed.diag(y) + M * M,
    "a multiple of the identity": s * ed.eye(3) - 2 * ed.eye(3),
    "the identity": ed.eye(3),
    "a diagonal taken": ed.diag(M @ M),
    "a trace": ed.tr(M @ M @ M),
    "blocks on the diagonal": ed.einsum("ab,ij->aibj", ed.eye(2), M * M),
    "other blocks on the diagonal": ed.einsum("aij,ab->aibj", ed.einsum("a,ij->aij", y, M), ed.eye(3)),
    "a matrix along a diagonal": ed.einsum("ij->iji", M * M),
    "crossed": ed.einsum("ij,kl->ikjl", ed.eye(3), ed.eye(2)) * s,
    "crossed the other way": ed.einsum("il,kj->ijkl", ed.eye(3), ed.eye(3)) * M,
    "three times the same": ed.einsum("i->iii", y),
    "twice two": ed.einsum("ij->ijij", A),
    "ones": ed.einsum("i->ij", y, sizes={"j": 2}),
    "ones everywhere": ed.ones(2, 3) * s,
    "numbers everywhere": ed.ones(2, 3) * 2.5,
    "zeros": ed.zeros(2, 3) * s,
    "a triangle": ed.cumsum(y * y),
    "a sum of all kinds": ed.diag(y) + ed.eye(3) + M + ed.outer(y, y) + ed.ones(3, 3),
    "a named size": ed.diag(n) + ed.eye("n") * s,
}

NUMBERS: dict[str, Expr] = {
    "a size": ed.tr(ed.eye("n")) * ed.sum(n),
    "a mean": ed.mean(n) ** 2,
    "a function of a size": ed.sqrt(ed.tr(ed.eye("n"))) * ed.sum(n) + ed.exp(1 / ed.tr(ed.eye("n"))),
    "one of two numbers": ed.where(x > 0, 0.1, 0.2),
    "a number or an entry": ed.where(x > 0.3, x, 0.1) + ed.where(x > 0.2, 0.7, x),
    "the larger of a number and an entry": ed.maximum(0.1, x) + ed.minimum(x, 0.3),
    "comparisons": ed.greater(x, 0.1) + ed.greater(0.3, x),
    "a comparison": ed.greater(x, 0.1),
    "a power of a number": 0.1**x,
    "thirds": x / 3 + s**2 / 7,
    "an array": np.linspace(0, 1, 6) * x,
    "a long array": np.linspace(0, 1, 600).reshape(100, 6) @ x,
}
