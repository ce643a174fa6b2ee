"""Newton steps where the Hessian is definite, indefinite or singular, against dense matrices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.errors import EindiffError
from eindiff.program.interpreter import evaluate
from operator_checks import SYSTEMS, Array, condition, flat, near


def newton_cases() -> dict[str, tuple[ed.Expr, Any, dict[str, Array]]]:
    """Functions that are convex or not, at points where the Hessian is definite, indefinite or singular."""
    rng = np.random.default_rng(0)
    x, y, X = ed.vector("x", "n"), ed.vector("y", "m"), ed.matrix("X", "n", "m")
    flat_at_zero = ed.sum(x**4)
    A, B, u = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "m"), ed.vector("u", "n")
    given = {"x": rng.normal(size=4), "y": rng.normal(size=3), "X": rng.normal(size=(4, 3)), "u": rng.normal(size=4)}
    given |= {"A": rng.normal(size=(4, 4)), "B": rng.normal(size=(4, 3))}
    return {
        "convex": (ed.sum(ed.exp(x)) + ed.sum((A @ x) ** 2), x, given),
        "indefinite": (x @ A @ x, x, given),
        "concave": (-ed.sum(x**2), x, given),
        "linear": (u @ x, x, given),
        "of rank one": ((u @ x) ** 2 + ed.sum(x), x, given),
        "a base with a zero": (flat_at_zero + (u @ x) ** 2, x, given | {"x": np.array([0.0, 1, 1, 1])}),
        "a saddle": (x @ B @ y, [x, y], given),
        "an arrowhead": (ed.sum(ed.exp(x)) + ed.sum(ed.exp(y)) + x @ B @ y, [x, y], given),
        "an arrowhead with a zero": (flat_at_zero + x @ B @ y + 9 * y @ y, [x, y], given | {"x": np.zeros(4)}),
        "a matrix": (ed.sum((A @ X) ** 2) + ed.sum(ed.exp(X)), X, given),
        "a matrix, indefinite": (ed.sum(ed.sin(A @ X)), X, given),
        "products": (ed.tr(X.T @ (A + A.T) @ X @ (B.T @ B)), X, given),
        "a matrix and a vector": (ed.sum(ed.exp(X @ y)), [X, y], given),
        "a list of one": (ed.sum(ed.exp(x)), [x], given),
        "a list of a scalar": (ed.exp(u @ u) * ed.sum(ed.exp(x)), [x, u], given),
    }


@pytest.mark.parametrize("case", newton_cases())
def test_newton_steps(case):
    """`(H + damping I) step = -gradient`, definite, and no damping where none is needed."""
    f, by, arrays = newton_cases()[case]
    several = by if isinstance(by, list) else [by]
    result = ed.newton_step(f, by, arrays, damping="auto")
    assert isinstance(result.step, list) == isinstance(by, list)
    shapes = [arrays[v.name].shape for v in several]
    assert [np.shape(s) for s in (result.step if isinstance(by, list) else [result.step])] == shapes
    lengths = [prod(shape) for shape in shapes]
    blocks = evaluate(ed.hessian(f, several), arrays, {"n": 4, "m": 3})
    H = np.block([[np.reshape(blocks[i][j], (lengths[i], lengths[j])) for j in range(len(several))]
                  for i in range(len(several))])  # fmt: skip
    gradient = flat(list(evaluate(ed.gradient(f, several), arrays)))
    damped = H + result.damping * np.eye(len(H))
    near(damped @ flat(result.step), -gradient, SYSTEMS, case, np.abs(damped).max() * np.abs(flat(result.step)).max())
    least, largest = np.linalg.eigvalsh(H)[[0, -1]]
    assert np.linalg.eigvalsh(damped)[0] > 0
    if least > 1e-6 * max(largest, 0):
        assert result.damping == 0
    else:
        with pytest.raises(EindiffError, match="singular or not positive definite"):
            ed.newton_step(f, by, arrays)
    assert result.damping <= 11 * max(1e-8 * max(np.abs(np.diag(H)).max(), 1), -least)
    assert result.decrease >= 0 or not np.any(gradient)


def test_newton_step_of_a_saturated_function():
    """One entry of the diagonal is 1e-13, but the Hessian is well conditioned."""
    w, U = ed.vector("w", "n"), ed.matrix("U", "r", "n")
    f = ed.sum(ed.softplus(w)) + ed.sum((U @ w) ** 2)
    arrays = {"w": np.array([-30.0, 1.0, 2.0, 0.5, 1.0]), "U": np.random.default_rng(0).normal(size=(2, 5))}
    H, g = evaluate([ed.hessian(f, w), ed.gradient(f, w)], arrays)
    assert condition(H) < 1e4
    near(ed.newton_step(f, w, arrays).step, -np.linalg.solve(H, g), SYSTEMS)
