"""What is known of an expression, compared with its values at random points."""

from __future__ import annotations

from collections import Counter
from math import inf

import numpy as np

import eindiff as ed
from eindiff.facts.bounds import Facts, facts
from eindiff.program.check import random_point
from eindiff.program.interpreter import evaluate  # not the one that compiles everything too

OPERATOR = ("symmetric", "psd", "nsd", "pd", "nd", "diagonal")


def claims(found: Facts) -> set[str]:
    """The names of what is known of an operator."""
    return {name for name in OPERATOR if getattr(found, name)}


def assert_holds(node: ed.Expr, value: np.ndarray) -> Counter:
    """Compare what is known of a node with its value at some point; gives what was known."""
    found = facts(node)
    slack = 1e-8 * (1 + np.abs(value).max(initial=0))
    assert found.low - slack <= value.min(initial=inf), f"{node} is at least {found.low}, but {value.min()}"
    assert found.high + slack >= value.max(initial=-inf), f"{node} is at most {found.high}, but {value.max()}"
    assert not found.nonzero or value.all(), f"{node} is not 0, but {value}"
    known = Counter(nodes=1, bounds=int(found.low > -inf or found.high < inf), nonzero=int(found.nonzero))
    half = node.ndim // 2
    if node.ndim > 0 and node.shape[:half] == node.shape[half:]:
        matrix = value.reshape(int(np.prod(value.shape[:half])), -1)
        _assert_operator(node, found, matrix, slack)
        known.update(claims(found), operators=1)
    return known


def _assert_operator(node: ed.Expr, found: Facts, matrix: np.ndarray, slack: float) -> None:
    assert not found.symmetric or np.abs(matrix - matrix.T).max() <= slack, f"{node} is not symmetric"
    assert not found.diagonal or np.abs(matrix - np.diag(matrix.diagonal())).max() <= slack, f"{node} is not diagonal"
    if claims(found) & {"psd", "nsd"}:
        assert found.symmetric
        values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        rounding = 1e-12 * np.abs(values).max()
        for sign, semidefinite, definite in ((1, found.psd, found.pd), (-1, found.nsd, found.nd)):
            least = (sign * values).min()
            assert not semidefinite or least >= -1e-8 * np.abs(values).max() - 1e-14, f"{node} has eigenvalues {values}"
            assert not definite or (semidefinite and least > -rounding), f"{node} has eigenvalues {values}"


def assert_hold_at_points(expr: ed.Expr, count: int = 3) -> None:
    sizes = {"m": 3, "n": 2, "k": 2, "l": 2}
    for seed in range(count):
        assert_holds(expr, evaluate(expr, random_point([expr], sizes, 100 * seed), sizes))
