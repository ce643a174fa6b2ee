"""Checks for users: symbolic derivatives against finite differences, at random or given points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from eindiff.calculus.derive import derivative, find_variable
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, size_names, variables
from eindiff.core.ranges import Ranges
from eindiff.core.shown import Shown
from eindiff.core.stages import stage
from eindiff.program.interpreter import evaluate

LARGEST = 64  # size that is tried
STEPS = (1e-2, 1e-3, 1e-4)  # of the central differences; the one that shows the smallest error counts


@dataclass(frozen=True, slots=True)
class Check(Shown):
    """The outcome of `check`: the relative error of each derivative, by the names of the variables.

    >>> x = ed.vector("x", "n")
    >>> check = ed.check(ed.sum(ed.sin(x)), x, order=2)
    >>> check.passed, sorted(check.errors)
    (True, [('x',), ('x', 'x')])

    See also: `check`.
    """

    errors: dict[tuple[str, ...], float]
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether all errors are within the tolerance."""
        return all(error <= self.tolerance for error in self.errors.values())

    @property
    def error(self) -> float:
        """The largest error."""
        return max(self.errors.values())

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [
            f"order {len(names)}, by {', '.join(names)}: relative error {e:.1e}" for names, e in self.errors.items()
        ]
        return "\n".join([*lines, "passed" if self.passed else f"FAILED (tolerance {self.tolerance:.0e})"])


def check(
    expr: Expr, wrt: Any = None, order: int = 2, at: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None, tolerance: float = 1e-6, seed: int = 0, mode: str = "auto",
) -> Check:  # fmt: skip
    """Compare derivatives up to an order with finite differences of the derivative one order lower.

    Without `at`, points are random, in the domain if one is found; named sizes get small, unequal values.

    Args:
        expr: an expression
        wrt: a variable, its name, or several; all if there is none
        order: the highest order
        at: arrays by name: the point
        sizes: sizes by name
        tolerance: the relative error that passes
        seed: for the random point
        mode: as for `derivative`

    >>> import eindiff as ed
    >>> x = ed.vector("x", "n")
    >>> ed.check(ed.sum(ed.exp(x)), x).passed
    True

    See also: `gradient`, `hessian`, `evaluate`.
    """
    wanted = [wrt] if isinstance(wrt, Expr | str) else list(wrt) if wrt is not None else variables(expr)
    chosen = [find_variable(expr, x) for x in wanted]
    bindings = sz.read_given(sizes or {})
    point = dict(at) if at is not None else random_point([expr, *chosen], bindings, seed)
    errors: dict[tuple[str, ...], float] = {}
    lower: dict[tuple[str, ...], Expr] = {(): expr}
    for k in range(1, order + 1):
        higher = {}
        for names in product([x.name for x in chosen], repeat=k):
            x = next(x for x in chosen if x.name == names[-1])
            higher[names] = derivative(lower[names[:-1]], x, mode=mode)
            symbolic = evaluate(higher[names], point, bindings)
            with stage("check"):
                numeric = finite_difference(lower[names[:-1]], x, point, bindings)
            errors[names] = relative_error(symbolic, numeric)
        lower = higher
    return Check(errors, tolerance)


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest entry (or 1 if that is smaller)."""
    scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
    return float(np.max(np.abs(a - b), initial=0.0)) / scale


def finite_difference(
    y: Expr, x: Variable, point: Mapping[str, Any], sizes: Mapping[str, int] | None = None
) -> np.ndarray:
    """The derivative of y by x from values of y alone: central differences with one extrapolation.

    A symmetric variable is moved in symmetric directions, which gives the projected derivative.
    """
    base = np.asarray(point[x.name], dtype=float)
    columns = []
    for index in np.ndindex(base.shape):
        direction = np.zeros(base.shape)
        direction[index] = 1.0
        if x.symmetries:
            direction = (direction + direction.T) / 2

        def moved(step: float, direction: np.ndarray = direction) -> np.ndarray:
            return evaluate(y, {**point, x.name: base + step * direction}, sizes)

        columns.append(_central_difference(moved))
    return np.stack(columns, axis=-1).reshape(columns[0].shape + base.shape)


def _central_difference(moved: Callable[[float], np.ndarray]) -> np.ndarray:
    """The derivative of a function of one number at 0: extrapolated central differences (Ridders)."""
    found = []
    for step in STEPS:
        coarse = (moved(2 * step) - moved(-2 * step)) / (4 * step)
        fine = (moved(step) - moved(-step)) / (2 * step)
        best = (4 * fine - coarse) / 3
        found.append((float(np.max(np.abs(best - fine), initial=0.0)), best))
    return min(found, key=lambda pair: pair[0])[1]


def small_sizes(outputs: Sequence[Expr], given: Mapping[str, int]) -> dict[str, int]:
    """Small values for the other named sizes, unequal for different names, and large enough for all slices."""
    names = sorted(size_names(*outputs) - set(given))
    sizes = {name: 2 + count if count < 4 else 3 for count, name in enumerate(names)}
    conditions = Ranges(outputs).conditions
    for _ in range(LARGEST):
        short = [condition for condition in conditions if not condition.holds({**sizes, **given})]
        if not short:
            break
        for name in sz.names(sz.inequality(short[0].quantity)[0]) & set(names):
            sizes[name] += 1
    return sizes


def random_point(outputs: Sequence[Expr], sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays for all variables, inside the domain of the expression if one of several kinds of samples is.

    `sizes` is filled up with small values, unequal for different names.
    """
    inputs = variables(*outputs)
    sizes.update(small_sizes(outputs, sizes))
    problem: EindiffError | None = None
    for attempt in range(12):
        generator = np.random.default_rng(seed + attempt)
        point = {v.name: _sample(v, sizes, generator, attempt % 4) for v in inputs}
        try:
            values = evaluate(list(outputs), point, sizes)
        except EindiffError as error:
            problem = error
            continue
        if all(np.isfinite(value).all() for value in values):
            return point
    raise EindiffError(f"no point in the domain was found; give one with at={{...}} ({problem})", "domain")


def _sample(variable: Variable, sizes: Mapping[str, int], generator: np.random.Generator, kind: int) -> np.ndarray:
    """A random array with the properties of a variable; the kinds are for functions with smaller domains."""
    shape = tuple(sz.evaluate(size, sizes) for size in variable.shape)
    if variable.into is not None:
        return generator.integers(0, sz.evaluate(variable.into, sizes), shape)
    array = generator.normal(size=shape)
    if "permutation" in variable.properties:
        return np.eye(shape[0])[generator.permutation(shape[0])]
    if "orthogonal" in variable.properties:
        return np.linalg.qr(array)[0]
    if kind == 1 or "positive" in variable.properties:
        array = 0.1 + np.abs(array)
    elif kind == 2:
        array = 0.8 * np.tanh(array)
    square = len(shape) == 2 and shape[0] == shape[1]
    if "psd" in variable.properties or (kind == 3 and square):
        array = array @ array.T + np.eye(shape[0])
    elif square and not variable.symmetries:
        array = array + 2 * np.eye(shape[0])  # away from singular matrices
    return _placed((array + array.T) / 2 if variable.symmetries else array, variable.properties)


def _placed(array: np.ndarray, properties: Collection[str]) -> np.ndarray:
    """An array with zeros, and ones, where they have to be."""
    if "diagonal" in properties:
        return np.diag(np.diag(array))
    if width := 1 if "tridiagonal" in properties else 2 if "banded" in properties else 0:
        return np.triu(np.tril(array, width), -width)
    array = np.tril(array) if "lower" in properties else np.triu(array) if "upper" in properties else array
    if "unit" in properties:
        np.fill_diagonal(array, 1)
    return array
