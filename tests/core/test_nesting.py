"""Contractions that contain others use them."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import nesting
from eindiff.core.nesting import share
from eindiff.core.nodes import is_contraction, topological

A, B, x = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.vector("x", "n")


def steps(count: int, parts: bool) -> list[ed.Expr]:
    """x becomes tanh(A B x), again and again: the last one, or what B is multiplied with in each."""
    y, found = x, []
    for _ in range(count):
        found.append(B @ y)
        y = ed.tanh(A @ B @ y)
    return found if parts else [y]


@pytest.mark.parametrize("deep", [False, True])
def test_what_contains_parts_is_made_of_what_contains_parts(deep: bool) -> None:
    """Nothing is there in two forms, with parts below and without."""
    outputs = [*steps(6, parts=False), *steps(6, parts=True)]
    shared = share(outputs, deep)
    contractions = [node for node in topological(shared) if is_contraction(node)]
    assert len(contractions) == 12 and all(len(node.operands) == 2 for node in contractions)
    rng = np.random.default_rng(0)
    arrays = {"A": rng.normal(size=(3, 3)), "B": rng.normal(size=(3, 3)), "x": rng.normal(size=3)}
    for one, other in zip(outputs, shared, strict=True):
        np.testing.assert_allclose(ed.evaluate(one, arrays), ed.evaluate(other, arrays), rtol=1e-12)


def test_what_becomes_equal_is_found_equal_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps a value and its derivative have in common, in two forms."""
    rounds, run = [], nesting._Sharing.run
    monkeypatch.setattr(nesting._Sharing, "run", lambda one: rounds.append(one) or run(one))
    outputs = [*steps(12, parts=False), *share([*steps(12, parts=True), *steps(12, parts=False)])]
    rounds.clear()
    assert share(outputs)[0] is share(outputs)[-1] and len(rounds) == 4  # the second of each finds nothing
