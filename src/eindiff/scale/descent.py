"""Minimization over data in blocks: Newton's method and L-BFGS, one pass over the data a trial.

All that a method knows is in its state, which is written after every pass; so a run that was stopped goes on where it
was, and ends where it would have ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eindiff.calculus.derive import gradient
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, size_names, variables
from eindiff.core.sizes import evaluate
from eindiff.program.interpreter import bind_sizes, read_inputs
from eindiff.scale.sharded import Sharded, compile
from eindiff.structure.newton import newton_step

DECREASE = 1e-4  # of what the slope promises: less is too little
SHORTEST = 1e-12  # steps below this length are none
PAIRS = 10  # pairs of steps and changes of the gradient


@dataclass(frozen=True, slots=True)
class Fit:
    """Where a minimization ended.

    >>> x = ed.vector("x", "n")
    >>> fit = ed.newton(ed.sum((x - 3) ** 2), x, start=np.zeros(2))
    >>> fit.x, fit.converged
    (array([3., 3.]), True)

    See also: `newton`, `lbfgs`.
    """

    x: Any  # an array, or a list of them, as the variables were given
    value: float
    gradient_norm: float
    iterations: int
    passes: int
    converged: bool


@dataclass(slots=True)
class _State:
    """Where a minimization is: the last point that was accepted, and the trial from there."""

    x: np.ndarray
    value: float = np.inf
    gradient: np.ndarray = field(default_factory=lambda: np.zeros(0))
    direction: np.ndarray = field(default_factory=lambda: np.zeros(0))
    length: float = 0.0
    steps: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    changes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    iterations: int = 0
    passes: int = 0

    def write(self, path: Path, digest: str) -> None:
        """Put this in the place of what is in a file, as a whole or not at all."""
        beside = path.with_name(path.name + ".part")
        with beside.open("wb") as file:
            np.savez(file, digest=digest, **{name: getattr(self, name) for name in self.__slots__})
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    @classmethod
    def read(cls, path: Path, digest: str) -> _State:
        """What was written for the same function."""
        with np.load(path) as file:
            if str(file["digest"]) != digest:
                raise EindiffError(f"{path} belongs to another minimization: remove it, or name another file", "stored")
            found = {name: file[name] for name in cls.__slots__}
        numbers = {name: value.item() if value.ndim == 0 else value for name, value in found.items()}
        return cls(**numbers)


Evaluated = tuple[float, np.ndarray, np.ndarray | None]  # value, gradient, and the step that the method proposes


def newton(
    loss: Expr, by: Any, data: Any = None, /, *, shard: str | None = None, start: Any = None, tolerance: float = 1e-6,
    iterations: int = 100, damping: float | str = "auto", checkpoint: str | os.PathLike | None = None, **given: Any,
) -> Fit:  # fmt: skip
    """Minimize an expression by a variable (or a list of them) with Newton's method, over data in blocks or whole.

    Data is given as `Sharded` functions take it, with their options. It begins at `start` (zeros), and ends where the
    norm of the gradient is at most `tolerance`. With `checkpoint`, a file, a run that was stopped goes on.

    Args:
        loss: a scalar expression
        by: a variable, or a list of them
        data: blocks: an iterator of dictionaries of arrays, or a function that begins one
        shard: the index that blocks are along
        start: where it begins, as the variables: an array, or a list of them
        tolerance: the norm of the gradient that is small enough
        iterations: the most steps
        damping: a number, or `auto`
        checkpoint: a file that the state is kept in
        **given: arrays by name, whole or in blocks

    >>> import numpy as np
    >>> import eindiff as ed
    >>> X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    >>> blocks = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0]])]
    >>> fit = ed.newton(ed.norm2(X @ w - y) ** 2, w, shard="m", X=blocks, y=np.array([1.0, 2.0, 3.0]))
    >>> fit.x.round(6), fit.passes
    (array([1., 2.]), 2)

    See also: `lbfgs`, `newton_step`, `Fit`.
    """
    problem = _Problem(loss, by, [loss, newton_step(loss, by, damping=damping)], shard, data, given)

    def evaluate(x: np.ndarray) -> Evaluated:
        value, step = problem.at(x)
        return float(value), problem.flat(step.gradient), problem.flat(step.step)

    return _descend(problem, evaluate, start, tolerance, iterations, checkpoint)


def lbfgs(
    loss: Expr, by: Any, data: Any = None, /, *, shard: str | None = None, start: Any = None, tolerance: float = 1e-6,
    iterations: int = 1000, checkpoint: str | os.PathLike | None = None, **given: Any,
) -> Fit:  # fmt: skip
    """Minimize an expression with L-BFGS, which needs gradients alone; otherwise as `newton`.

    Args:
        loss: a scalar expression
        by: a variable, or a list of them
        data: blocks: an iterator of dictionaries of arrays, or a function that begins one
        shard: the index that blocks are along
        start: where it begins, as the variables: an array, or a list of them
        tolerance: the norm of the gradient that is small enough
        iterations: the most steps
        checkpoint: a file that the state is kept in
        **given: arrays by name, whole or in blocks

    >>> import numpy as np
    >>> import eindiff as ed
    >>> X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    >>> blocks = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0]])]
    >>> fit = ed.lbfgs(ed.norm2(X @ w - y) ** 2, w, shard="m", X=blocks, y=np.array([1.0, 2.0, 3.0]))
    >>> fit.x.round(6)
    array([1., 2.])

    See also: `newton`, `Fit`.
    """
    problem = _Problem(loss, by, [loss, gradient(loss, by)], shard, data, given)

    def evaluate(x: np.ndarray) -> Evaluated:
        value, slope = problem.at(x)
        return float(value), problem.flat(slope), None

    return _descend(problem, evaluate, start, tolerance, iterations, checkpoint)


class _Problem:
    """A function of some variables as one of a vector."""

    def __init__(self, loss: Expr, by: Any, outputs: Any, shard: str | None, data: Any, given: dict[str, Any]) -> None:
        if loss.ndim:
            raise EindiffError("a loss is a number: sum it, or take its norm", "scalars")
        self.loss, self.data, self.given = loss, data, given
        self.is_single = isinstance(by, Expr)
        self.variables: list[Any] = [by] if isinstance(by, Expr) else list(by)
        if not all(isinstance(x, Variable) for x in self.variables):
            raise EindiffError("minimize by a variable, or by a list of them", "options")
        if wrong := [x.name for x in self.variables if x.name in given]:
            raise EindiffError(f"{wrong[0]} is what is looked for: give where to begin as start=", "blocks")
        self.function = compile(outputs, shard=shard)
        self.shapes: list[tuple[int, ...]] = []

    @property
    def digest(self) -> str:
        """What tells this problem apart in a file."""
        shapes = dict(zip([x.name for x in self.variables], self.shapes, strict=True))
        return f"{self.loss.digest.hex()} {shapes}"

    def begin(self, start: Any) -> np.ndarray:
        """The first point; shapes come from it, or from the data."""
        if start is None:
            sizes = self._sizes()
            if hidden := size_names(*self.variables) - set(sizes):
                raise EindiffError(
                    f"the data does not show the size {min(hidden)}: give where to begin as start=", "sizes"
                )
            start = [np.zeros([evaluate(size, sizes) for size in x.shape]) for x in self.variables]
        elif isinstance(start, Mapping):
            start = [start.get(x.name) for x in self.variables]
        elif self.is_single:
            start = [start]
        if len(start) != len(self.variables):
            raise EindiffError(f"start has {len(start)} arrays for {len(self.variables)} variables", "blocks")
        named = dict(zip([x.name for x in self.variables], start, strict=True))
        bind_sizes(read_inputs(self.variables, named), {})
        self.shapes = [np.shape(x) for x in start]
        return self.flat(list(start))

    def _sizes(self) -> dict[str, int]:
        arrays = dict(self.given)
        if isinstance(self.function, Sharded):
            arrays = self.function.example(self.data, arrays)
        known = {x: np.asarray(arrays[x.name]) for x in variables(self.loss) if x.name in arrays}
        return bind_sizes(known, {})

    def flat(self, values: Any) -> np.ndarray:
        """Arrays for the variables as one vector."""
        return np.concatenate([np.ravel(x) for x in (values if isinstance(values, list) else [values])]).astype(float)

    def shaped(self, x: np.ndarray) -> list[np.ndarray]:
        """A vector as arrays for the variables."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(x, ends[:-1]), self.shapes, strict=True)]

    def at(self, x: np.ndarray) -> Sequence[Any]:
        """The outputs at a point."""
        names = [one.name for one in self.variables]
        arrays: dict[str, Any] = {**self.given, **dict(zip(names, self.shaped(x), strict=True))}
        return self.function(self.data, **arrays) if isinstance(self.function, Sharded) else self.function(**arrays)


def _descend(
    problem: _Problem, evaluate: Callable[[np.ndarray], Evaluated], start: Any, tolerance: float, iterations: int,
    checkpoint: str | os.PathLike | None,
) -> Fit:  # fmt: skip
    path = None if checkpoint is None else Path(checkpoint)
    state = _State(problem.begin(start))
    if path is not None and path.exists():
        state = _State.read(path, problem.digest)
    while True:
        if state.passes:
            norm = float(np.linalg.norm(state.gradient))
            if norm <= tolerance or state.iterations >= iterations or state.length < SHORTEST:
                x = problem.shaped(state.x)
                done = norm <= tolerance
                return Fit(x[0] if problem.is_single else x, state.value, norm, state.iterations, state.passes, done)
        trial = state.x + state.length * state.direction if state.passes else state.x
        _advance(state, trial, *evaluate(trial))
        if path is not None:
            state.write(path, problem.digest)


def _advance(state: _State, trial: np.ndarray, value: float, slope: np.ndarray, step: np.ndarray | None) -> None:
    """Take the trial, or try a shorter one."""
    state.passes += 1
    if state.passes > 1:
        promised = DECREASE * state.length * float(state.gradient @ state.direction)
        rounding = 8 * np.finfo(float).eps * abs(state.value)
        if not (np.isfinite(value) and value <= state.value + promised + rounding):
            state.length /= 2
            return
        _remember(state, trial - state.x, slope - state.gradient)
        state.iterations += 1
    state.x, state.value, state.gradient, state.length = trial, value, slope, 1.0
    state.direction = -_times_inverse(state, slope) if step is None else step
    if step is None and not state.steps.size:
        state.length = min(1.0, 1.0 / max(float(np.linalg.norm(slope)), 1e-300))


def _remember(state: _State, step: np.ndarray, change: np.ndarray) -> None:
    """Keep a pair, if it says that the function is convex there."""
    if step @ change > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
        old = slice(-PAIRS + 1, None)
        state.steps = np.vstack([state.steps.reshape(-1, len(step))[old], step])
        state.changes = np.vstack([state.changes.reshape(-1, len(step))[old], change])


def _times_inverse(state: _State, slope: np.ndarray) -> np.ndarray:
    """The inverse Hessian that the pairs show, times a gradient: the two loops of L-BFGS."""
    q = slope.copy()
    pairs = list(zip(state.steps, state.changes, strict=True))
    weights = []
    for step, change in reversed(pairs):
        weights.append((step @ q) / (step @ change))
        q -= weights[-1] * change
    if pairs:
        step, change = pairs[-1]
        q *= (step @ change) / (change @ change)
    for (step, change), weight in zip(pairs, reversed(weights), strict=True):
        q += (weight - (change @ q) / (step @ change)) * step
    return q
