"""What a person writes for the problems of `benchmarks.structures`: entries by formulas, and solutions with SciPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_circulant, solve_sylvester, solveh_banded
from scipy.sparse import bsr_array, coo_array, csc_array, diags_array, eye_array, kron
from scipy.sparse.linalg import LinearOperator, cg, splu

from benchmarks.structure_problems import BLUR, KERNEL, STEP, WEIGHT, Array, Arrays


class Hand(NamedTuple):
    """The values of a Hessian for arrays, and a solution with these; `step` takes the matrix that eindiff gives."""

    values: Callable[[Arrays], Any]
    solve: Callable[[Any, Array], Array]
    is_step: bool = False


def chain_by_hand(arrays: Arrays) -> Array:
    x = arrays["x"]
    band = np.zeros((2, len(x)))
    band[0] = 40
    band[0, :-1] += 12 * x[:-1] ** 2 - 4 * x[1:]
    band[0, 1:] += 2
    band[1, :-1] = -4 * x[:-1]
    return band


def second_differences_by_hand(weights: Array, n: int) -> Array:
    """`2 I + D' diag(w) D`, the lower diagonals."""
    band = np.zeros((3, n))
    band[0] = 2
    band[0, :-2] += weights
    band[0, 1:-1] += 4 * weights
    band[0, 2:] += weights
    band[1, :-2] -= 2 * weights
    band[1, 1:-1] -= 2 * weights
    band[2, :-2] = weights
    return band


def trend_by_hand(arrays: Arrays) -> Array:
    x = arrays["x"]
    return second_differences_by_hand(((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2 + 1) ** -1.5, len(x))


def spline_by_hand(arrays: Arrays) -> Array:
    n = len(arrays["x"])
    return second_differences_by_hand(np.full(n - 2, 2 * WEIGHT), n)


def solve_band(band: Array, b: Array) -> Array:
    return solveh_banded(band, b, lower=True, check_finite=False)


def smoother_by_hand(arrays: Arrays) -> Array:
    count = len(arrays["S"])
    diagonal = np.broadcast_to(2 * np.eye(4), (count, 4, 4)).copy()
    diagonal[1:] += 2 * np.eye(4)
    diagonal[:-1] += 2 * STEP.T @ STEP
    band = np.zeros((8, count, 4))
    for a in range(4):
        for b in range(4):
            if a >= b:
                band[a - b, :, b] = diagonal[:, a, b]
            band[4 + a - b, :-1, b] = -2 * STEP[a, b]
    return band.reshape(8, -1)


def image_by_hand(arrays: Arrays) -> Any:
    X = arrays["X"]
    n = len(X)
    here = np.arange(n * n).reshape(n, n)
    places = [here[:-1, :-1].ravel(), here[1:, :-1].ravel(), here[:-1, 1:].ravel()]
    down, right = X[1:, :-1] - X[:-1, :-1], X[:-1, 1:] - X[:-1, :-1]
    root = (down**2 + right**2 + 1) ** -1.5
    dd, rr, dr = (1 + right**2) * root, (1 + down**2) * root, -down * right * root
    block = [[dd + rr + 2 * dr, -dd - dr, -rr - dr], [-dd - dr, dd, dr], [-rr - dr, dr, rr]]
    rows = np.concatenate([here.ravel(), *(places[i] for i in range(3) for _ in range(3))])
    columns = np.concatenate([here.ravel(), *(places[j] for _ in range(3) for j in range(3))])
    data = np.concatenate([np.full(n * n, 2.0), *(block[i][j].ravel() for i in range(3) for j in range(3))])
    return coo_array((data, (rows, columns)), shape=(n * n, n * n)).tocsc()


def solve_sparse(matrix: Any, b: Array) -> Array:
    return splu(matrix).solve(b)

def convolution_by_hand(arrays: Arrays) -> Array:
    x = arrays["x"]
    weights = (1 + np.convolve(x, KERNEL, mode="valid") ** 2) ** -1.5
    band, kernel = np.zeros((5, len(x))), KERNEL[::-1]
    band[0] = 2
    for a in range(5):
        for b in range(a + 1):
            band[a - b, b : b + len(weights)] += kernel[a] * kernel[b] * weights
    return band


def circle_by_hand(arrays: Arrays) -> Array:
    column = np.zeros(len(arrays["x"]))
    column[[0, 1, -1]] = 6, -2, -2
    return column


def groups_by_hand(arrays: Arrays) -> tuple[Array, float]:
    return 12 * arrays["x"].reshape(-1, 5).sum(axis=1) ** 2, 2.0


def solve_groups(values: tuple[Array, float], b: Array) -> Array:
    weights, diagonal = values
    rows = b.reshape(-1, 5)
    return ((rows - (weights / (diagonal + 5 * weights) * rows.sum(axis=1))[:, None]) / diagonal).reshape(-1)


@cache
def _squared_blur(n: int) -> csc_array:
    side = np.array([0.25, 0.5, 0.25])
    assert np.array_equal(np.outer(side, side), BLUR)
    one = diags_array([np.full(n - 2, x) for x in side], offsets=[0, 1, 2], shape=(n - 2, n))
    blur = kron(one, one)
    return (2 * blur.T @ blur - 1.8 * eye_array(n * n)).tocsc()  # the ridge of the other part is 2, here 0.2


def deblurring_by_hand(arrays: Arrays) -> Any:
    return _squared_blur(len(arrays["X"])) + image_by_hand(arrays)


def schur_step(matrix: Any, b: Array) -> Array:
    """Cameras of 9 unknowns after points of 3, which are as many as rows with a 3×3 block at the end."""
    found = csc_array(matrix)
    first = 9 * 49 if found.shape[0] == 9 * 49 + 3 * 7776 else _cameras(found)
    C = bsr_array(found[first:, first:], blocksize=(3, 3))
    inverse = bsr_array((np.linalg.inv(C.data), C.indices, C.indptr), shape=C.shape)
    E = bsr_array(found[:first, first:], blocksize=(9, 3))
    left = E @ inverse
    complement = found[:first, :first].toarray() - (left @ E.T).toarray()
    x = cho_solve(cho_factor(complement), b[:first] - left @ b[first:])
    return np.concatenate([x, inverse @ (b[first:] - E.T @ x)])


def _cameras(matrix: Any) -> int:
    """Where the unknowns of points begin: the columns before have more rows of their own block."""
    own = np.diff(csc_array(matrix).indptr)
    return next(9 * k for k in range(2, len(own) // 9) if (len(own) - 9 * k) % 3 == 0 and own[9 * k] < own[0] // 4)


# Kronecker products


def _square(b: Array) -> Array:
    n = round(len(b) ** 0.5)
    return b.reshape(n, n)


def _inverted(arrays: Arrays) -> tuple[Array, Array]:
    """The factor of the Hessian, and what it is the inverse of."""
    return np.linalg.inv(arrays["P"]), arrays["P"]


def solve_precision(matrices: tuple[Array, Array], b: Array) -> Array:
    _, P = matrices
    return (P @ _square(b).T @ P).reshape(-1)


def solve_discriminant(matrices: tuple[Array, Array], b: Array) -> Array:
    _, P = matrices
    return (P @ _square(b).T @ P).reshape(-1) * (2 / (3 * len(P)))


def solve_two_equations(matrices: tuple[Array, Array], b: Array) -> Array:
    A, B = matrices
    return 0.5 * solve_sylvester(A, B, solve_sylvester(A.T, B.T, _square(b))).reshape(-1)


def solve_by_gradients(matrices: tuple[Array, Array], b: Array) -> Array:
    A, B = matrices

    def apply(x: Array) -> Array:
        X = _square(x)
        residual = A @ X + X @ B
        return (2 * (A.T @ residual + residual @ B.T) + 0.2 * X).reshape(-1)

    found, failed = cg(LinearOperator((len(b), len(b)), apply, dtype=float), b, rtol=1e-10, maxiter=10_000)
    assert not failed
    return found


def solve_process(matrices: tuple[Array, Array], b: Array) -> Array:
    (k, U), (l, V) = (np.linalg.eigh(x) for x in matrices)
    return (U @ ((U.T @ _square(b) @ V) / (2 / np.multiply.outer(k, l) + 2)) @ V.T).reshape(-1)


HANDS = {
    "chain": Hand(chain_by_hand, solve_band),
    "trend": Hand(trend_by_hand, solve_band),
    "spline": Hand(spline_by_hand, solve_band),
    "smoother": Hand(smoother_by_hand, solve_band),
    "image": Hand(image_by_hand, solve_sparse),
    "deblurring": Hand(deblurring_by_hand, solve_sparse),
    "bundle": Hand(lambda arrays: None, schur_step, is_step=True),
    "groups": Hand(groups_by_hand, solve_groups),
    "circle": Hand(circle_by_hand, solve_circulant),
    "convolution": Hand(convolution_by_hand, solve_band),
    "precision": Hand(_inverted, solve_precision),
    "discriminant": Hand(_inverted, solve_discriminant),
    "sylvester": Hand(lambda arrays: (arrays["A"], arrays["B"]), solve_two_equations),
    "ridge": Hand(lambda arrays: (arrays["A"], arrays["B"]), solve_by_gradients),
    "process": Hand(lambda arrays: (arrays["K"], arrays["L"]), solve_process),
}
