"""Wrong input of operators, right input of any type, and operators without entries."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.structure.derivative import Derivative
from eindiff.structure.terms import identity
from operator_checks import PRODUCTS, SYSTEMS, flat, near
from random_operators import pattern, single


def any_hessians() -> list[Derivative]:
    """Of one variable and of two."""
    x, y = ed.vector("x", "n"), ed.vector("y", "m")
    f, arrays = ed.sum(ed.exp(x)) + ed.sum(ed.exp(y)) + ed.sum(x) * ed.sum(y) * 0.1, {"x": np.ones(3), "y": np.ones(2)}
    return [ed.structured(ed.hessian(f, x), arrays), ed.structured(ed.hessian(f, [x, y]), arrays)]


NOT_NUMBERS = ["abc", None, 1j, [1.0, 2.0], np.ones(2), {}, float("nan"), float("inf")]


@pytest.mark.parametrize("number", NOT_NUMBERS, ids=repr)
def test_wrong_numbers(number):
    x = ed.vector("x", "n")
    for H in any_hessians():
        b = np.ones(H._grid.shape[0])
        asks = [H.damped, H.solver, H.logdet, H.is_definite, H.inverse, H.explain, lambda v, H=H, b=b: H.solve(b, v)]
        asks.append(lambda v: ed.newton_step(x @ x, x, {"x": np.ones(2)}, damping=v))
        if isinstance(number, str | complex | list | dict | None):
            asks += [lambda v, H=H: H * v, lambda v, H=H: H + v, lambda v, H=H: H - v]
        for ask in asks:
            with pytest.raises(EindiffError):
                ask(number)


WRONG_VECTORS = {
    "ragged": [[1, 2], [3]],
    "text": "abc",
    "texts": np.array(["1", "2", "3"]),
    "nothing": None,
    "too long": np.ones(9),
    "too deep": np.ones((3, 2, 2)),
    "complex": np.ones(5) * 1j,
    "complex parts": [np.ones(3) * 1j, np.ones(2)],
    "texts in parts": [np.array(["1", "2", "3"]), np.ones(2)],
    "too few parts": [np.ones(3) * 1j],
    "ragged parts": [[1, [2], 3], [1, 2]],
    "a dictionary": {"x": np.ones(3)},
}


@pytest.mark.parametrize("case", WRONG_VECTORS)
def test_wrong_vectors(case):
    for H in any_hessians():
        for ask in (H.mv, H.__matmul__, H.solve, H.__rmatmul__):
            with pytest.raises(EindiffError):
                ask(WRONG_VECTORS[case])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_no_numbers(value):
    """Nothing is solved with them, nor for them."""
    H, _ = any_hessians()
    with pytest.raises(EindiffError, match="infinite or not a number"):
        H.solve(np.array([1.0, value, 1.0]))
    x = ed.vector("x", "n")
    for damping in (0.0, 1.0, "auto"):
        with pytest.raises(EindiffError, match="infinite or not a number"):
            ed.newton_step(ed.sum(x**3), x, {"x": np.array([1.0, value])}, damping=damping)


# Right input


def test_right_vectors_of_any_type():
    """Lists, integers, no columns; a matrix from the left."""
    for H in any_hessians():
        M = H.as_matrix()
        n = len(M)
        for v in (np.arange(n), np.arange(n) > 1, np.arange(n, dtype=np.float16), np.arange(n, dtype=np.longdouble)):
            near(flat(H.mv(v)), M @ v.astype(float), PRODUCTS)
            near(flat(H.solve(v)), np.linalg.solve(M, v.astype(float)), SYSTEMS)
        assert (H @ np.ones((n, 0))).shape == (n, 0)
        assert H.solve(np.ones((n, 0))).shape == (n, 0)
        near(np.ones((2, n)) @ H, np.ones((2, n)) @ M, PRODUCTS)


@pytest.mark.parametrize("dims", [(0, 2), (2, 0), (0, 0)], ids=str)
def test_empty_operators(dims):
    """Everything is empty, and the determinant is 1."""
    m, n = dims
    A, B = np.ones((m, m)), np.ones((n, n))
    for terms in (
        [pattern("ac,bd->abcd", A, B)],
        [pattern("ac->abcb", A, b=n), pattern("bd->abad", B, a=m)],
        [pattern("abc->abac", np.ones((m, n, n)))],
        [pattern("ab->abab", np.ones(dims))],
        [identity(dims), pattern("ab,cd->abcd", np.ones(dims), np.ones(dims))],
    ):
        H = single(dims, terms)
        assert H.solve(np.ones(dims)).shape == dims
        assert H.solve(np.ones((0, 3))).shape == (0, 3)
        assert H.is_definite()
        assert H.eigvals().shape == (0,)
        assert H.inverse().shape == H.cholesky().shape == dims + dims
        assert H.slogdet() == (1.0, 0.0)
        assert H.mv(np.ones(dims)).shape == dims
        assert H.frobenius_norm() == H.trace() == 0
