"""What the tests of compiled functions have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

import eindiff as ed
from eindiff.program.check import random_point
from eindiff.program.compiled import Compiled
from eindiff.program.interpreter import flatten
from eindiff.structure.compile import _compiled
from models import MODELS

RTOL = 1e-10
FLOOR = 1e-2  # terms of size 1 may cancel, and leave rounding errors

A, B, X = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n"), ed.matrix("X", "m", "n")
x, y, w = ed.vector("x", "n"), ed.vector("y", "n"), ed.vector("w", "m")
S = ed.symmetric("S", "n")


def leaves(results: Any) -> list:
    """What nested lists hold."""
    return [leaf for part in results for leaf in leaves(part)] if isinstance(results, list | tuple) else [results]


def assert_close(actual: Any, expected: Any, rtol: float = RTOL, context: str = "") -> None:
    """Equal shapes, and entries equal relative to the largest one."""
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        assert np.shape(one) == np.shape(other), context
        scale = max(FLOOR, np.max(np.abs(other), initial=0))
        assert np.max(np.abs(one - other), initial=0) <= rtol * scale, context


def point_of(outputs: Any, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    return random_point(flatten(outputs), dict(sizes), seed)


def derivatives(name: str) -> list:
    """The value, the gradient and a Hessian of a model."""
    function, wrt, _ = MODELS[name]()
    by = wrt if len(wrt) < 5 else [wrt[0], wrt[-1]]
    return [function, ed.gradient(function, by), ed.hessian(function, wrt[0])]


def fresh(outputs: Any, **more: Any) -> Compiled:
    """A function that was never called."""
    _compiled.cache_clear()
    return ed.compile(outputs, **more)


def small(name: str) -> dict[str, int]:
    return {size: 2 + k for k, size in enumerate(MODELS[name]().sizes)}
