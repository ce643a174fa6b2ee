"""`python -m benchmarks.relations`: functions that relate indices (gathers, windows, shifts, grids), beside `jax.jit`.

Each is written once, for NumPy and for JAX. Compared are `jax.jit(jax.hessian(f))`, `jax.jit(eindiff.jax.hessian(f))`
and the NumPy program of `eindiff.hessian(f)`; the same for gradients and for diagonals of Hessians, whose peer takes
the diagonal of the Hessian that it has formed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.report import duration, markdown

ROUNDS = 5  # in which all take turns
MOST_CALLS = 200  # in a round
KINDS = ("gradient", "hessian", "diagonal")


@dataclass(frozen=True)
class Problem:
    """A function for a library `xp`, and where it is differentiated."""

    name: str
    function: Callable[[Any], Callable[..., Any]]
    at: tuple[np.ndarray, ...]
    kinds: tuple[str, ...] = KINDS


def gmm(d: int, k: int, n: int, kinds: tuple[str, ...] = KINDS) -> Problem:
    """ADBench's mixture of Gaussians: weights, means, and triangles that are lists of their entries."""
    rng = np.random.default_rng(0)
    rows, columns = np.tril_indices(d, -1)
    points = rng.normal(size=(n, d))

    def function(xp: Any) -> Callable[..., Any]:
        def triangles(entries: Any) -> Any:
            if xp is np:
                made = np.zeros((k, d, d)) * entries[0, 0]
                made[:, rows, columns] = entries
                return made
            return xp.zeros((k, d, d)).at[:, rows, columns].set(entries)

        def loss(weights: Any, means: Any, factors: Any) -> Any:
            logs, entries = factors[:, :d], factors[:, d:]
            away = points[:, None, :] - means[None]
            turned = xp.exp(logs) * away + xp.einsum("kij,nkj->nki", triangles(entries), away)
            inner = weights + xp.sum(logs, axis=1) - xp.sum(turned**2, axis=2) / 2
            top = xp.max(inner, axis=1, keepdims=True)
            value = xp.sum(xp.log(xp.sum(xp.exp(inner - top), axis=1)) + top[:, 0])
            prior = xp.sum(xp.exp(logs) ** 2) + xp.sum(entries**2) - xp.sum(logs)
            return value - n * xp.log(xp.sum(xp.exp(weights))) + prior / 2

        return loss

    at = (rng.normal(size=k), rng.normal(size=(k, d)), rng.normal(size=(k, d + len(rows))) / 10)
    return Problem(f"gmm, d={d} k={k} n={n}", function, at, kinds)


def windows(n: int, width: int = 11) -> Problem:
    """A sum over windows, which are gathered by an array of places."""
    places = np.arange(n - width + 1)[:, None] + np.arange(width)
    weights = np.linspace(-1, 1, width)

    def function(xp: Any) -> Callable[[Any], Any]:
        return lambda x: xp.sum(xp.tanh(xp.sin(x[places]) @ weights))

    return Problem(f"windows of {width}, n={n}", function, (np.random.default_rng(0).normal(size=n),))


def convolution(n: int, width: int = 11) -> Problem:
    """A nonlinear function of a convolution."""
    weights = np.linspace(-1, 1, width)

    def function(xp: Any) -> Callable[[Any], Any]:
        return lambda x: xp.sum(xp.exp(-(xp.convolve(x, weights, "valid") ** 2)))

    return Problem(f"convolution by {width}, n={n}", function, (np.random.default_rng(0).normal(size=n),))


def chain(n: int) -> Problem:
    """Rosenbrock's function along a chain."""

    def function(xp: Any) -> Callable[[Any], Any]:
        return lambda x: xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    return Problem(f"chain, n={n}", function, (np.random.default_rng(0).normal(size=n),))


def neighbours(n: int) -> Problem:
    """Products of x[i] and x[i + 1], gathered by arrays of places."""
    i = np.arange(n - 1)

    def function(xp: Any) -> Callable[[Any], Any]:
        return lambda x: xp.sum(xp.sin(x[i] * x[i + 1])) + xp.sum(x[i] ** 2 * x[i + 1])

    return Problem(f"neighbours, n={n}", function, (np.random.default_rng(0).normal(size=n),))


def grid(m: int) -> Problem:
    """Smoothed total variation of an image."""

    def function(xp: Any) -> Callable[[Any], Any]:
        def loss(u: Any) -> Any:
            across, down = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
            return xp.sum(xp.sqrt(across**2 + down**2 + 0.1))

        return loss

    return Problem(f"grid, {m}x{m}", function, (np.random.default_rng(0).normal(size=(m, m)),))


def edges(n: int, m: int) -> Problem:
    """The stress of a graph, whose edges are lists of nodes."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, n, size=(2, m))

    def function(xp: Any) -> Callable[[Any], Any]:
        return lambda x: xp.sum(xp.cos(x[left] - x[right]))

    return Problem(f"edges, n={n} m={m}", function, (rng.normal(size=n),))


def scalars() -> Problem:
    """Code that takes a vector apart and computes with numbers."""

    def function(xp: Any) -> Callable[[Any], Any]:
        def loss(y: Any) -> Any:
            a, b, c, d, e, g = y
            total = 0.0
            for _ in range(5):
                p = a * b + xp.sin(c)
                q = xp.exp(-d * d) + p * e
                r = xp.cos(p) * q + g
                a, b, c = b + 0.1 * r, c * xp.tanh(q), a + 0.1 * p
                d, e = d + 0.1 * xp.sin(r), e * 0.9 + p / (1 + q * q)
                total = total + p * q + r * r
            return total + a * a + b * c

        return loss

    return Problem("scalars", function, (np.random.default_rng(0).normal(size=6),))


PROBLEMS: dict[str, Callable[[], list[Problem]]] = {
    "gmm": lambda: [gmm(20, 50, 1000, ("gradient",)), gmm(10, 5, 1000), gmm(4, 6, 50)],
    "windows": lambda: [windows(n) for n in (100, 1000)],
    "convolution": lambda: [convolution(n) for n in (100, 1000)],
    "chain": lambda: [chain(n) for n in (100, 1000)],
    "neighbours": lambda: [neighbours(n) for n in (100, 1000)],
    "grid": lambda: [grid(m) for m in (10, 30)],
    "edges": lambda: [edges(n, 5 * n) for n in (100, 1000)],
    "scalars": lambda: [scalars()],
}


@dataclass(frozen=True)
class Side:
    """What one way took, in seconds."""

    first: float
    call: float


@dataclass(frozen=True)
class Row:
    """What is computed of a problem: JAX, eindiff with JAX, eindiff with NumPy; and the largest difference."""

    problem: str
    kind: str
    sides: dict[str, Side]
    error: float


def _ways(problem: Problem, kind: str) -> dict[str, Callable[[], Callable[[], Any]]]:
    """How each makes a function that gives the derivative."""
    import jax
    import jax.numpy as jnp

    import eindiff as ed
    import eindiff.jax

    argnums = tuple(range(len(problem.at)))

    def diagonal(f: Callable[..., Any], argnums: tuple[int, ...]) -> Callable[..., Any]:
        def taken(*given: Any) -> list[Any]:
            blocks = jax.hessian(f, argnums)(*given)
            return [
                jnp.diagonal(blocks[i][i].reshape(x.size, x.size)).reshape(x.shape) for i, x in enumerate(given)
            ]

        return taken

    of_jax = {"gradient": jax.grad, "hessian": jax.hessian, "diagonal": diagonal}[kind]
    ours = {"gradient": "grad", "hessian": "hessian", "diagonal": "hessian_diagonal"}[kind]
    given = tuple(map(jnp.asarray, problem.at))

    def jitted(made: Callable[..., Callable]) -> Callable[[], Any]:
        function = jax.jit(made(problem.function(jnp), argnums))
        return lambda: jax.block_until_ready(function(*given))

    def compiled() -> Callable[[], Any]:
        function = problem.function(np)
        f = ed.symbolic(function, *problem.at)
        arrays = dict(zip(signature(function).parameters, problem.at, strict=True))
        named = {x.name: x for x in ed.variables(f)}
        inputs = [named[name] for name in arrays]
        if kind == "diagonal":
            program = ed.compile([ed.hessian_diagonal(f, x) for x in inputs])
        else:
            program = ed.compile(ed.gradient(f, inputs) if kind == "gradient" else ed.hessian(f, inputs))
        return lambda: program(**arrays)

    return {
        "jax": lambda: jitted(of_jax),
        "eindiff.jax": lambda: jitted(getattr(eindiff.jax, ours)),
        "numpy": compiled,
    }


def leaves(result: Any) -> list[np.ndarray]:
    """The arrays in tuples and lists."""
    if isinstance(result, list | tuple):
        return [x for part in result for x in leaves(part)]
    return [np.asarray(result)]


def measured(problem: Problem, kind: str, budget: float) -> Row:
    """All ways in turns."""
    made, results, first = {}, {}, {}
    for name, make in _ways(problem, kind).items():
        start = perf_counter()
        made[name] = make()
        result = made[name]()
        first[name] = perf_counter() - start
        results[name] = leaves(result)
    samples: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(ROUNDS):
        for name, run in made.items():
            end = perf_counter() + budget / ROUNDS
            for _ in range(MOST_CALLS):
                start = perf_counter()
                run()
                samples[name].append(perf_counter() - start)
                if perf_counter() > end:
                    break
    expected = results["jax"]
    error = max(
        float(np.abs(x - y).max()) / (float(np.abs(y).max()) or 1.0)
        for found in results.values()
        for x, y in zip(found, expected, strict=True)
    )
    sides = {name: Side(first[name], median(samples[name])) for name in made}
    return Row(problem.name, kind, sides, error)


def rows(names: list[str], kinds: list[str], budget: float) -> Iterator[Row]:
    """The rows of some problems."""
    for name in names:
        for problem in PROBLEMS[name]():
            for kind in [x for x in kinds if x in problem.kinds]:
                yield measured(problem, kind, budget)


def line(row: Row) -> str:
    """A row to be read while the next ones are measured."""
    peer = row.sides["jax"]
    parts = [
        f"{name}: {duration(side.call)} ({side.call / peer.call:.2f}), first {duration(side.first)} "
        f"({side.first / peer.first:.2f})"
        for name, side in row.sides.items()
    ]
    return f"{row.problem:28s} {row.kind:9s} " + "; ".join(parts) + f"; error {row.error:.0e}"


def main() -> None:
    """Read the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relations", description=__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS), help=", ".join(PROBLEMS))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of calls for each way")
    parser.add_argument("--out", type=Path, help="where to write relations.md and .json")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    found = []
    for row in rows(options.problems, options.kinds, options.budget):
        found.append(row)
        print(line(row), flush=True)
    if options.out:
        write(options.out, found)


def write(out: Path, found: list[Row]) -> None:
    """The table, and all figures."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "relations.json").write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    table = []
    for row in found:
        peer = row.sides["jax"]
        cells = [row.problem, row.kind, duration(peer.call), duration(peer.first)]
        for name in ("eindiff.jax", "numpy"):
            side = row.sides[name]
            cells += [f"{duration(side.call)} ({side.call / peer.call:.2f})"]
            cells += [f"{duration(side.first)} ({side.first / peer.first:.2f})"]
        table.append(cells)
    head = ["problem", "derivative", "jax.jit", "first", "eindiff.jax in jax.jit", "first", "NumPy program", "first"]
    cores = len(os.sched_getaffinity(0))
    text = f"# Relations between indices\n\n{cores} cores, double precision; in parentheses the ratio to JAX's.\n\n"
    (out / "relations.md").write_text(text + markdown(head, table) + "\n")


if __name__ == "__main__":
    main()
