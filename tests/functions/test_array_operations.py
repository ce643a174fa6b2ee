"""Indexing, reshaping, joining, broadcasting and reductions: values as in NumPy, derivatives as finite differences.

They are contractions with constants that are never formed, so what is tested is how labels and index maps meet. Each
operation acts on a nonlinear function of its operands; that makes gathering and scattering meet in the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from oracles import MODES, NUMPY, assert_close, declare, finite_derivative

EXACT = 1e-12
DIFFERENCES = 1e-8
FLOOR = 1e-3

rng = np.random.default_rng(0)
ARRAYS = {
    "s": np.array(0.7),
    "x": rng.normal(size=4),
    "y": rng.normal(size=3),
    "z": rng.normal(size=1),
    "A": rng.normal(size=(3, 4)),
    "B": rng.normal(size=(4, 2)),
    "C": rng.normal(size=(3, 3)),
    "R": rng.normal(size=(1, 4)),
    "T": rng.normal(size=(2, 3, 4)),
    "U": rng.normal(size=(2, 4, 2)),
    "Q": rng.normal(size=(2, 1, 3, 2)),
}
NAMED = {"x": ("n",), "y": ("m",), "A": ("m", "n"), "B": ("n", "k"), "C": ("m", "m"), "T": ("k", "m", "n")}

Function = Callable[..., Any]  # of a library and arrays


INDEXING: dict[str, Function] = {
    "x[1]": lambda lib, x: x[1],
    "x[-1]": lambda lib, x: x[-1],
    "x[np.int64(2)]": lambda lib, x: x[np.int64(2)],
    "x[1:3]": lambda lib, x: x[1:3],
    "x[:-1]": lambda lib, x: x[:-1],
    "x[-3:]": lambda lib, x: x[-3:],
    "x[1:100]": lambda lib, x: x[1:100],
    "x[::2]": lambda lib, x: x[::2],
    "x[1::2]": lambda lib, x: x[1::2],
    "x[::-1]": lambda lib, x: x[::-1],
    "x[3:0:-2]": lambda lib, x: x[3:0:-2],
    "x[-1:-4:-2]": lambda lib, x: x[-1:-4:-2],
    "x[:]": lambda lib, x: x[:],
    "x[...]": lambda lib, x: x[...],
    "x[None]": lambda lib, x: x[None],
    "x[:, None]": lambda lib, x: x[:, None],
    "x[[2, 0, 2]]": lambda lib, x: x[[2, 0, 2]],
    "x[[-1, 0, -1]]": lambda lib, x: x[[-1, 0, -1]],
    "x[np.array([[0, 1], [1, 3]])]": lambda lib, x: x[np.array([[0, 1], [1, 3]])],
    "x[[True, False, True, True]]": lambda lib, x: x[[True, False, True, True]],
    "x[1:][1:]": lambda lib, x: x[1:][1:],
    "x[::-1][::-1]": lambda lib, x: x[::-1][::-1],
    "x[[3, 1]][[1, 1, 0]]": lambda lib, x: x[[3, 1]][[1, 1, 0]],
    "x[1:] - x[:-1]": lambda lib, x: x[1:] - x[:-1],
    "x[1:] * x[:-1]": lambda lib, x: x[1:] * x[:-1],
    "x[1:] @ x[:-1]": lambda lib, x: x[1:] @ x[:-1],
    "x * x[::-1]": lambda lib, x: x * x[::-1],
    "x[[0, 0, 1, 3]] * x": lambda lib, x: x[[0, 0, 1, 3]] * x,
    "A[1]": lambda lib, A: A[1],
    "A[-1, 2]": lambda lib, A: A[-1, 2],
    "A[:, 1]": lambda lib, A: A[:, 1],
    "A[..., 1]": lambda lib, A: A[..., 1],
    "A[1:, ::-1]": lambda lib, A: A[1:, ::-1],
    "A[:, [0, 3, 3]]": lambda lib, A: A[:, [0, 3, 3]],
    "A[[2, 0]]": lambda lib, A: A[[2, 0]],
    "A[[2, 0], 1:]": lambda lib, A: A[[2, 0], 1:],
    "A[[2, 0], [1, 3]]": lambda lib, A: A[[2, 0], [1, 3]],
    "A[[2, 0], 1]": lambda lib, A: A[[2, 0], 1],
    "A[None, :, None]": lambda lib, A: A[None, :, None],
    "A[1:, None, :-1]": lambda lib, A: A[1:, None, :-1],
    "A[1:, 1:] - A[:-1, :-1]": lambda lib, A: A[1:, 1:] - A[:-1, :-1],
    "A[1:] @ A[:-1].T": lambda lib, A: A[1:] @ A[:-1].T,
    "A.T[1]": lambda lib, A: A.T[1],
    "C[1:, 1:] of a square matrix": lambda lib, C: C[1:, 1:] @ C[:-1, 1:],
    "diag(C)[1:]": lambda lib, C: lib.diag(C)[1:],
    "diag(C * C)[1:]": lambda lib, C: lib.diag(C * lib.tanh(C))[1:],
    "diag(y)[1:]": lambda lib, y: lib.diag(y)[1:],
    "diag(y)[:, ::-1]": lambda lib, y: lib.diag(y)[:, ::-1],
    "T[1, ..., 2]": lambda lib, T: T[1, ..., 2],
    "T[..., 1:, 0]": lambda lib, T: T[..., 1:, 0],
    "T[0, :, [1, 2]]": lambda lib, T: T[0, :, [1, 2]],
    "T[:, [0, 2], ::2]": lambda lib, T: T[:, [0, 2], ::2],
    "R[0]": lambda lib, R: R[0],
    "take": lambda lib, A: lib.take(A, [2, 0, 2], 0),
    "take along 1": lambda lib, A: lib.take(A, [3, -1], axis=1),
    "take with a table": lambda lib, A: lib.take(A, np.array([[0, 1], [3, 3]]), 1),
    "rows of a loop": lambda lib, A: sum(row * row[::-1] for row in A),
    "inv(C)[1:] @ y": lambda lib, C, y: np.linalg.inv(C)[1:] @ y if lib is NUMPY else lib.inv(C)[1:] @ y,
    "embedding": lambda lib, A: A[[1, 1, 0, 2]] @ A[1],
}  # fmt: skip

RESHAPING: dict[str, Function] = {
    "merge": lambda lib, A: lib.reshape(A, 12),
    "merge by -1": lambda lib, A: lib.reshape(A, -1),
    "merge as a tuple": lambda lib, A: lib.reshape(A, (12,)),
    "split": lambda lib, x: lib.reshape(x, (2, 2)),
    "split with -1": lambda lib, A: lib.reshape(A, (3, 2, -1)),
    "split the other way": lambda lib, A: lib.reshape(A, (2, 6)),
    "merge some": lambda lib, T: lib.reshape(T, (6, 4)),
    "merge others": lambda lib, T: lib.reshape(T, (2, 12)),
    "merge and split": lambda lib, T: lib.reshape(T, (3, 2, 4)),
    "add axes of size 1": lambda lib, x: lib.reshape(x, (1, 4, 1)),
    "drop axes of size 1": lambda lib, Q: lib.reshape(Q, (2, 3, 2)),
    "drop and merge": lambda lib, Q: lib.reshape(Q, (12,)),
    "to a scalar": lambda lib, z: lib.reshape(z, ()),
    "from a scalar": lambda lib, s: lib.reshape(s, (1, 1)),
    "method": lambda lib, A: A.reshape(4, 3),
    "there and back": lambda lib, A: lib.reshape(lib.tanh(lib.reshape(A, (2, 6))), (3, 4)),
    "of a transpose": lambda lib, A: lib.reshape(A.T, (6, 2)),
    "of a diagonal matrix": lambda lib, y: lib.reshape(lib.diag(y), (9,)),
    "of a product": lambda lib, A, B: lib.reshape(A @ B, 6),
    "then slice": lambda lib, A: lib.reshape(A, 12)[3:9:2],
    "diagonal by a stride": lambda lib, C: lib.reshape(C, 9)[::4],
    "slice then merge": lambda lib, A: lib.reshape(A[:, 1:3], 6),
    "merge then contract": lambda lib, A: lib.reshape(A, 12) @ lib.reshape(A.T, 12),
    "merge then multiply": lambda lib, A: lib.reshape(A, (4, 3)) * A.T,
    "vec": lambda lib, A: lib.vec(A),
    "vec of a product": lambda lib, A, B: lib.vec(A @ B),
    "transpose": lambda lib, T: lib.transpose(T),
    "transpose with axes": lambda lib, T: lib.transpose(T, (1, 2, 0)),
    "transpose with negative axes": lambda lib, T: lib.transpose(T, (-1, 0, 1)),
    "T": lambda lib, T: T.T,
    "moveaxis": lambda lib, T: lib.moveaxis(T, 0, 2),
    "moveaxis from the end": lambda lib, T: lib.moveaxis(T, -1, 0),
}

JOINING: dict[str, Function] = {
    "concatenate vectors": lambda lib, x, y: lib.concatenate([x, y]),
    "concatenate three": lambda lib, x, y, z: lib.concatenate([y, z, x]),
    "concatenate one": lambda lib, x: lib.concatenate([x]),
    "concatenate with itself": lambda lib, x: lib.concatenate([x, x]),
    "concatenate rows": lambda lib, A, R: lib.concatenate([A, R], 0),
    "concatenate columns": lambda lib, A, C: lib.concatenate([A, C], axis=1),
    "concatenate at the end": lambda lib, A, C: lib.concatenate([C, A], axis=-1),
    "concatenate with constants": lambda lib, x: lib.concatenate([np.ones(2), x, np.array([1.0, 2.0])]),
    "concatenate with zeros": lambda lib, x: lib.concatenate([lib.zeros(2), x]),
    "pad and shift": lambda lib, x: lib.concatenate([lib.zeros(1), x[:-1]]) * x,
    "concatenate then slice": lambda lib, x, y: lib.concatenate([x, y])[2:6],
    "concatenate then contract": lambda lib, x, y: lib.concatenate([x, y]) @ lib.concatenate([y, x]),
    "concatenate of products": lambda lib, A, x, y: lib.concatenate([A @ x, y @ A]),
    "concatenate diagonals": lambda lib, y, C: lib.concatenate([lib.diag(y), C], 0),
    "blocks": lambda lib, A, B: lib.concatenate([lib.concatenate([A, A], 1), lib.concatenate([B] * 4, 1)], 0),
    "times an inverse": lambda lib, y, z, C: _solve(lib, C, y * lib.concatenate([z, y[1:]])),
    "stack": lambda lib, x: lib.stack([x, x * x, 3 * x]),
    "stack at 1": lambda lib, x: lib.stack([x, lib.sin(x)], 1),
    "stack at -1": lambda lib, A: lib.stack([A, A * A], axis=-1),
    "stack scalars": lambda lib, s, x: lib.stack([s, s * s, x[0]]),
    "stack then sum": lambda lib, x: lib.sum(lib.stack([x, x * x]), 0),
    "stack then matmul": lambda lib, x, B: lib.stack([x, x * x]) @ B,
    "kron of vectors": lambda lib, x, y: lib.kron(x, y),
    "kron of matrices": lambda lib, A, B: lib.kron(A, B),
    "kron with the identity": lambda lib, C: lib.kron(lib.eye(2), C),
    "kron with the identity behind": lambda lib, A: lib.kron(A, lib.eye(2)),
    "kron times vec": lambda lib, A, B, C: lib.kron(B.T, C) @ lib.vec(A),
    "kron times kron": lambda lib, A, B, C: lib.kron(C, B.T) @ lib.kron(A, B),
}


def _solve(lib: Any, matrix: Any, vector: Any) -> Any:
    """The inverse of a matrix times a vector that an index map is part of."""
    return np.linalg.solve(matrix, vector) if lib is NUMPY else lib.inv(matrix) @ vector


BROADCASTING: dict[str, Function] = {
    "scalar + vector": lambda lib, s, x: s + x,
    "vector + row of a matrix": lambda lib, x, A: A + x,
    "column + row": lambda lib, x, y: y[:, None] + x,
    "column * row": lambda lib, x, y: y[:, None] * x,
    "column - matrix": lambda lib, y, A: y[:, None] - A,
    "matrix / row": lambda lib, R, A: A / R,
    "axis of size 1": lambda lib, z, A: A * z,
    "two axes of size 1": lambda lib, z, y: z[:, None] + y[:, None] * z,
    "middle axis of size 1": lambda lib, Q, C: Q * C[:, :2],
    "grows on both sides": lambda lib, R, y: R * y[:, None],
    "numbers": lambda lib, x: 2 * x - 1 / 4 + x / 3 - (1 - x) * 0.5,
    "constants": lambda lib, x: np.array([1.0, 2.0, 3.0, 4.0]) * x + np.arange(8.0).reshape(2, 4),
    "constant @ variable": lambda lib, x: np.arange(8.0).reshape(2, 4) @ x,
    "power": lambda lib, x: (x * x + 1) ** np.array([1.0, 2.0, -1.0, 0.5]),
    "quotient of numbers": lambda lib, x: 1 / (x * x + 1) / 2,
    "maximum": lambda lib, x, A: lib.maximum(A, x),
    "where": lambda lib, x, A: lib.where(A > 0, x, A * A),
    "comparisons": lambda lib, x, A: (x < A) * A + (x > A) * x + (A >= 0.1) * (A <= 0.5),
}

PRODUCTS: dict[str, Function] = {
    "vector @ vector": lambda lib, x: x @ x,
    "matrix @ vector": lambda lib, A, x: A @ x,
    "vector @ matrix": lambda lib, y, A: y @ A,
    "matrix @ matrix": lambda lib, A, B: A @ B,
    "stack @ matrix": lambda lib, T, B: T @ B,
    "matrix @ stack": lambda lib, A, U: A @ U,
    "stack @ stack": lambda lib, T, U: T @ U,
    "stack @ vector": lambda lib, T, x: T @ x,
    "vector @ stack": lambda lib, x, U: x @ U,
    "stack of stacks @ stack": lambda lib, Q, U: Q @ U[:, :2, :],
    "stack of one @ stack": lambda lib, T, U: T[:1] @ U,
    "chain": lambda lib, A, B, C: C @ A @ B,
    "gram": lambda lib, A: A.T @ A,
    "cube": lambda lib, C: C @ C @ C,
    "outer": lambda lib, x, A: lib.outer(x, A),
    "inner": lambda lib, A: lib.inner(A, A),
    "trace": lambda lib, A, B, C: lib.tr(A @ B @ B.T @ A.T @ C),
    "trace of a stack": lambda lib, T: lib.tr(T[:, :, 1:]),
    "einsum trace": lambda lib, C: lib.einsum("ii->", C),
    "einsum diagonal": lambda lib, C: lib.einsum("ii->i", C),
    "einsum delta": lambda lib, x: lib.einsum("i->ii", x),
    "einsum three times": lambda lib, y: lib.einsum("i->iii", y),
    "einsum ones": lambda lib, y: lib.einsum("i->ji", y, sizes={"j": 2}),
    "einsum ones alone": lambda lib, y: lib.einsum("i->jj", y, sizes={"j": 2}),
    "einsum two deltas": lambda lib, A: lib.einsum("ij->ijij", A),
    "einsum with a diagonal": lambda lib, C, y: lib.einsum("ii,i->i", C, y),
    "einsum outer of diagonals": lambda lib, C: lib.einsum("ii,jj->ij", C, C),
    "einsum elementwise": lambda lib, A, x: lib.einsum("ij,j,ij->ij", A, x, A),
    "einsum contraction of three": lambda lib, A, x, y: lib.einsum("ij,i,j->", A, y, x),
    "einsum bilinear": lambda lib, T, x, y: lib.einsum("kij,i,j->k", T, y, x),
    "einsum summed alone": lambda lib, A, y: lib.einsum("ij,k->ik", A, y),
    "einsum of scalars": lambda lib, s, x: lib.einsum(",i->i", s, x),
}


def _along(name: str, axis: Any) -> Function:
    return lambda lib, T: getattr(lib, name)(T, axis)


REDUCTIONS: dict[str, Function] = {
    f"{name} {axis}": _along(name, axis)
    for name in ("sum", "mean", "prod", "max", "min", "norm1", "norm2")
    for axis in (None, 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2))
}
REDUCTIONS |= {
    "method": lambda lib, T: T.sum(1),
    "method of all": lambda lib, T: T.sum(),
    "sum of a broadcast": lambda lib, x: lib.sum(x + lib.zeros(3, 4), 0),
    "mean of a product": lambda lib, A, B: lib.mean(A @ B, 0),
    "cumsum": lambda lib, x: lib.cumsum(x),
    "cumsum along 0": lambda lib, A: lib.cumsum(A, 0),
    "cumsum twice": lambda lib, x: lib.cumsum(lib.cumsum(x)),
    "cumsum backwards": lambda lib, x: lib.cumsum(x[::-1])[::-1],
    "differences of cumsum": lambda lib, x: (lambda c: c[1:] - c[:-1])(lib.cumsum(x)),
}

GROUPS = {
    "indexing": INDEXING, "reshaping": RESHAPING, "joining": JOINING, "broadcasting": BROADCASTING,
    "products": PRODUCTS, "reductions": REDUCTIONS,
}  # fmt: skip
CASES = [pytest.param(f, id=f"{group}: {name}") for group, cases in GROUPS.items() for name, f in cases.items()]


def _arguments(function: Function) -> list[str]:
    return list(function.__code__.co_varnames[1 : function.__code__.co_argcount])


def _softened(function: Function) -> Function:
    """The function of tanh of its arguments."""
    return lambda lib, **args: function(lib, **{name: lib.tanh(arg) for name, arg in args.items()})


@pytest.mark.parametrize("function", CASES)
def test_values_and_derivatives(function: Function) -> None:
    arrays = {name: ARRAYS[name] for name in _arguments(function)}
    variables = declare(arrays)
    for f in (function, _softened(function)):
        y = f(ed, **variables)
        assert_close(ed.evaluate(y, arrays), f(NUMPY, **arrays), EXACT, FLOOR, y)
        for x in variables.values():
            expected = finite_derivative(y, arrays, x)
            for mode in MODES:
                actual = ed.evaluate(ed.derivative(y, x, mode=mode), arrays)
                assert_close(actual, expected, DIFFERENCES, FLOOR, f"{mode} by {x} of {y}")


# Sizes that are names

SYMBOLIC: dict[str, tuple[Function, tuple]] = {
    "x[1:]": (lambda lib, x: x[1:], ("n - 1",)),
    "x[:-2]": (lambda lib, x: x[:-2], ("n - 2",)),
    "x[-2:]": (lambda lib, x: x[-2:], (2,)),
    "x[1:3]": (lambda lib, x: x[1:3], (2,)),
    "x[1:-1]": (lambda lib, x: x[1:-1], ("n - 2",)),
    "x[::-1]": (lambda lib, x: x[::-1], ("n",)),
    "x[2]": (lambda lib, x: x[2], ()),
    "x[-1]": (lambda lib, x: x[-1], ()),
    "x[[0, 2, 0]]": (lambda lib, x: x[[0, 2, 0]], (3,)),
    "x[1:] - x[:-1]": (lambda lib, x: x[1:] - x[:-1], ("n - 1",)),
    "x[1:][:-1]": (lambda lib, x: x[1:][:-1], ("n - 2",)),
    "A[1:, -1]": (lambda lib, A: A[1:, -1], ("m - 1",)),
    "second differences": (lambda lib, x: x[2:] - 2 * x[1:-1] + x[:-2], ("n - 2",)),
    "vec": (lambda lib, A: lib.vec(A), ("m*n",)),
    "reshape to -1": (lambda lib, A: lib.reshape(A, -1), ("m*n",)),
    "reshape with a new axis": (lambda lib, x: lib.reshape(x, (-1, 1)), ("n", 1)),
    "merge some": (lambda lib, T: lib.reshape(T, (T.shape[0], -1)), ("k", "m*n")),
    "there and back": (lambda lib, A: lib.reshape(lib.tanh(lib.reshape(A, -1)), A.shape), ("m", "n")),
    "concatenate": (lambda lib, x, y: lib.concatenate([x, y]), ("m + n",)),
    "concatenate with itself": (lambda lib, x: lib.concatenate([x, x * x]), ("2*n",)),
    "concatenate rows": (lambda lib, A, x: lib.concatenate([A, x[None]], 0), ("m + 1", "n")),
    "concatenate then slice": (lambda lib, x, y: lib.concatenate([x, y])[: x.shape[0]], ("n",)),
    "stack": (lambda lib, x: lib.stack([x, x]), (2, "n")),
    "kron": (lambda lib, A, C: lib.kron(A, C), ("m*m", "m*n")),
    "kron times vec": (lambda lib, A, B, C: lib.kron(B.T, C) @ lib.vec(A), ("k*m",)),
    "mean": (lambda lib, A: lib.mean(A), ()),
    "mean along 0": (lambda lib, A: lib.mean(A, 0), ("n",)),
    "mean of a slice": (lambda lib, x: lib.mean(x[1:] * x[:-1]), ()),
    "cumsum": (lambda lib, x: lib.cumsum(x), ("n",)),
    "broadcast": (lambda lib, A, y: A * y[:, None], ("m", "n")),
    "trace of the identity": (lambda lib, C: lib.tr(lib.eye(C.shape[0]) * C), ()),
    "sum of ones": (lambda lib, x: lib.sum(lib.ones(x.shape[0], 2)) * x, ("n",)),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_named_sizes(name: str) -> None:
    """Shapes are formulas in the names, and values and derivatives are those of the sizes that the arrays have."""
    function, shape = SYMBOLIC[name]
    arrays = {n: ARRAYS[n] if n != "T" else ARRAYS["T"] for n in _arguments(function)}
    variables = {n: ed.tensor(n, NAMED[n]) for n in arrays}
    sizes = {"k": 2, "m": 3, "n": 4}
    for f, expected_shape in ((function, shape), (_softened(function), shape)):
        y = f(ed, **variables)
        assert y.shape == expected_shape
        assert_close(ed.evaluate(y, arrays, sizes), f(NUMPY, **arrays), EXACT, FLOOR, y)
        for n, x in variables.items():
            known = declare(arrays)
            expected = ed.evaluate(ed.derivative(f(ed, **known), known[n]), arrays)
            for mode in MODES:
                actual = ed.evaluate(ed.derivative(y, x, mode=mode), arrays, sizes)
                assert_close(actual, expected, DIFFERENCES, FLOOR, f"{mode} by {x} of {y}")


# Errors

X, Y, M, N = ed.vector("x", "n"), ed.vector("y", "m"), ed.matrix("A", "m", "n"), ed.matrix("B", "n", "k")
P, K = ed.matrix("P", 3, 4), ed.tensor("T", (2, 3, 4))

ERRORS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    # shapes that do not fit
    "matrix @ vector": (lambda: M @ Y, ["A", "y", "m×n", "m"]),
    "matrix @ matrix": (lambda: N @ M, ["A", "B", "n×k", "m×n"]),
    "scalar @ vector": (lambda: ed.scalar("s") @ X, ["s", "x"]),
    "sum of vectors": (lambda: X + Y, ["x", "y", "n", "m"]),
    "product of vectors": (lambda: P * ed.vector("v", 3), ["P", "v", "3×4", "3"]),
    "maximum": (lambda: ed.maximum(P, ed.vector("v", 3)), ["maximum", "P", "v", "3×4", "3"]),
    "where": (lambda: ed.where(P, ed.vector("v", 3), 1), ["where", "P", "v", "3×4"]),
    "stacks": (lambda: K @ ed.tensor("U", (3, 4, 2)), ["T", "U", "2×3×4", "3×4×2"]),
    "with an array": (lambda: P + np.arange(3.0), ["P", "3×4", "3"]),
    "concatenate": (lambda: ed.concatenate([M, N]), ["concatenate", "m×n", "n×k"]),
    "concatenate nothing": (lambda: ed.concatenate([]), ["concatenate"]),
    "stack": (lambda: ed.stack([X, Y]), ["stack", "n", "m"]),
    "stack nothing": (lambda: ed.stack([]), ["stack"]),
    "kron": (lambda: ed.kron(X, M), ["kron", "x", "A", "m×n"]),
    "reshape": (lambda: ed.reshape(P, (5, 2)), ["reshape", "P", "3×4", "5×2"]),
    "reshape with -1": (lambda: ed.reshape(P, (5, -1)), ["reshape", "P", "3×4"]),
    "inner": (lambda: ed.inner(X, Y), ["x", "y", "n", "m"]),
    "direction": (lambda: ed.jvp(ed.sum(X * X), X, Y), ["jvp", "y", "m", "n"]),
    # labels
    "label with two sizes": (lambda: ed.einsum("ij,i->j", M, X), ["'i'", "m", "n", "A", "x"]),
    "label twice with two sizes": (lambda: ed.einsum("ii->i", M), ["'i'", "m", "n", "A"]),
    "unknown output label": (lambda: ed.einsum("i->ij", X), ["'j'", "sizes"]),
    "too few labels": (lambda: ed.einsum("i->i", M), ["A", "m×n"]),
    "too many labels": (lambda: ed.einsum("ijk->i", M), ["A", "m×n"]),
    "too few operands": (lambda: ed.einsum("ij,j->i", M), ["2", "1"]),
    "not a label": (lambda: ed.einsum("i1->i", M), ["i1"]),
    "a size that contradicts": (lambda: ed.einsum("i->i", X, sizes={"i": "m"}), ["'i'", "n", "m"]),
    # axes and indices
    "axis of sum": (lambda: ed.sum(M, 2), ["sum", "A", "m×n", "2"]),
    "axis twice": (lambda: ed.sum(M, (0, -2)), ["sum", "A", "m×n"]),
    "axis of softmax": (lambda: ed.softmax(X, 1), ["x", "1"]),
    "axis of max": (lambda: ed.max(X, 1), ["max", "x", "1"]),
    "order of axes": (lambda: ed.transpose(M, (0,)), ["transpose", "A"]),
    "too many indices": (lambda: X[0, 0], ["x", "2"]),
    "index out of range": (lambda: P[3], ["P", "3"]),
    "negative index out of range": (lambda: P[:, -5], ["P", "4"]),
    "list out of range": (lambda: P[[0, 3]], ["P", "3"]),
    "mask of another size": (lambda: P[[True, False]], ["P", "3"]),
    "empty slice": (lambda: P[2:2], ["P", "3"]),
    "step through a named size": (lambda: X[::2], ["x", "n"]),
    "index that is no integer": (lambda: P[1.5], ["P", "1.5"]),
    "loop over a named size": (lambda: list(X), ["x", "n"]),
    "take": (lambda: ed.take(P, [4], 1), ["P", "4"]),
    # matrices
    "inv": (lambda: ed.inv(P), ["inv", "square", "P", "3×4"]),
    "det": (lambda: ed.det(P), ["det", "square", "P", "3×4"]),
    "tr": (lambda: ed.tr(P), ["tr", "square", "P", "3×4"]),
    "logdet": (lambda: ed.logdet(M), ["logdet", "square", "A", "m×n"]),
    "chol": (lambda: ed.chol(P), ["chol", "square", "P", "3×4"]),
    "expm": (lambda: ed.expm(P), ["expm", "square", "P", "3×4"]),
    "eigvals": (lambda: ed.eigvals(X), ["eigvals", "square", "x", "n"]),
    "diag": (lambda: ed.diag(P), ["diag", "square", "P", "3×4"]),
    "diag of a tensor": (lambda: ed.diag(K), ["diag", "T", "2×3×4"]),
    "pinv": (lambda: ed.pinv(X), ["pinv", "matrix", "x", "n"]),
    "solve": (lambda: ed.solve(ed.matrix("C", 3, 3), ed.vector("v", 4)), ["C", "v", "3", "4"]),
    "matrix_power": (lambda: ed.matrix_power(ed.matrix("C", 3, 3), 0.5), ["matrix_power", "0.5"]),
    # variables and derivatives
    "unknown variable": (lambda: ed.derivative(X @ X, "z"), ["'z'", "x"]),
    "derivative by an expression": (lambda: ed.derivative(X @ X, 2 * X), ["2*x"]),
    "gradient of a vector": (lambda: ed.gradient(X * X, X), ["gradient", "n"]),
    "unknown mode": (lambda: ed.derivative(X @ X, X, mode="sideways"), ["sideways", "reverse"]),
    "unknown convention": (lambda: ed.derivative(X @ X, X, symmetric="no"), ["no", "projected"]),
    "unknown property": (lambda: ed.vector("x", 3, "tall"), ["tall", "positive"]),
    "symmetric but not square": (lambda: ed.matrix("S", 2, 3, "symmetric"), ["S", "symmetric", "2×3"]),
    "bad name": (lambda: ed.vector("x y", 3), ["x y"]),
    "bad size": (lambda: ed.vector("x", 0), ["x", "0"]),
    "text for a variable": (lambda: ed.exp("x"), ["'x'"]),
    "truth of an expression": (lambda: bool(X @ X > 1), ["where"]),
    "complex constant": (lambda: X * 1j, ["1j"]),
    "division by zero": (lambda: X / 0, ["x", "zero"]),
    "log of a negative number": (lambda: ed.log(-1), ["log", "-1", "positive"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_what_is_wrong(name: str) -> None:
    function, parts = ERRORS[name]
    with pytest.raises(ed.EindiffError) as caught:
        function()
    for part in parts:
        assert part in str(caught.value)


def _evaluate(y: Any, **arrays: Any) -> Callable[[], Any]:
    return lambda: ed.evaluate(y, arrays)


ones = np.ones
SINGULAR = ones((3, 3))
C = ed.matrix("C", 3, 3)
C_INVERSE = ed.inv(C)

EVALUATION_ERRORS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "missing array": (_evaluate(M @ X, A=ones((2, 3))), ["x", "n", "A", "m×n"]),
    "no arrays": (_evaluate(X @ X), ["x", "n"]),
    "wrong order": (_evaluate(M @ X, A=ones((2, 3)), x=ones((3, 1))), ["x", "n", "3×1"]),
    "wrong size": (_evaluate(ed.sum(P), P=ones((4, 3))), ["P", "3×4", "4×3"]),
    "two sizes of one name": (_evaluate(M @ X, A=ones((2, 3)), x=ones(4)), ["x", "n", "4", "3", "A"]),
    "two variables of one name": (lambda: ed.evaluate(X @ X + ed.vector("x", 3)[0], {"x": ones(3)}), ["x", "n", "3"]),
    "not numbers": (_evaluate(X @ X, x=["a", "b"]), ["x"]),
    "complex": (_evaluate(X @ X, x=np.array([1j, 2])), ["x", "complex"]),
    "nan in an array": (_evaluate(X @ X, x=np.array([1.0, np.nan])), ["x", "NaN"]),
    "unknown size": (_evaluate(ed.sum(ed.ones("r"))), ["r", "sizes"]),
    "log of a negative": (_evaluate(ed.sum(ed.log(X)), x=np.array([1.0, -1.0])), ["log(x)", "positive"]),
    "log1p below -1": (_evaluate(ed.sum(ed.log1p(X)), x=np.array([1.0, -2.0])), ["log1p(x)", "-1"]),
    "arcsin above 1": (_evaluate(ed.arcsin(X), x=np.array([2.0])), ["arcsin(x)", "between -1 and 1"]),
    "root of a negative": (_evaluate(ed.sum(ed.sqrt(X)), x=np.array([1.0, -1.0])), ["sqrt(x)", "positive"]),
    "power of a negative": (_evaluate(ed.sum(X**0.3), x=np.array([1.0, -1.0])), ["x.^(0.3)", "positive"]),
    "singular inverse": (_evaluate(ed.inv(C), C=SINGULAR), ["inv(C)", "invertible"]),
    "singular solve": (_evaluate(ed.inv(C) @ ones(3), C=SINGULAR), ["inv(C)", "invertible"]),
    "singular solve for a variable": (_evaluate(C_INVERSE @ ed.vector("v", 3), C=SINGULAR, v=ones(3)), ["inv(C)"]),
    "logdet of a negative determinant": (_evaluate(ed.logdet(C), C=-np.eye(3)), ["logdet(C)", "positive"]),
    "chol of an indefinite matrix": (_evaluate(ed.chol(C), C=-np.eye(3)), ["chol(C)", "positive definite"]),
    "logm of a negative matrix": (_evaluate(ed.logm(C), C=-np.eye(3)), ["logm(C)", "negative"]),
    "symmetric that is not": (_evaluate(ed.tr(ed.symmetric("S", 2)), S=np.triu(ones((2, 2)))), ["S", "symmetric"]),
    "index beyond a named size": (_evaluate(X[5], x=ones(3)), ["5", "3"]),
    "no expression": (lambda: ed.evaluate("x", {"x": ones(3)}), ["x"]),
}


@pytest.mark.parametrize("name", EVALUATION_ERRORS)
def test_evaluation_errors_name_what_is_wrong(name: str) -> None:
    function, parts = EVALUATION_ERRORS[name]
    with pytest.raises(ed.EindiffError) as caught:
        function()
    for part in parts:
        assert part in str(caught.value)


def test_evaluation_takes_lists_integers_and_what_is_not_needed() -> None:
    y = M @ X
    arrays: Mapping[str, Any] = {"A": [[1, 2], [3, 4]], "x": (1, 2), "other": "ignored"}
    assert_close(ed.evaluate(y, arrays), [5, 11], EXACT)
    value, [gradient, zero] = ed.evaluate([y, [ed.derivative(y, X), ed.derivative(y, Y)]], {**arrays, "y": [1, 2, 3]})
    assert_close(value, [5, 11], EXACT)
    assert_close(gradient, [[1, 2], [3, 4]], EXACT)
    assert not zero.any()
