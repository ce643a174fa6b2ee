"""`python -m benchmarks.structure_peers`: Hessians as sparse matrices, beside asdex and CasADi in one run.

Each problem is written once, for all libraries, with the words that they have in common. Compared are the time from the
function to the first sparse matrix, and that of a later one at another point. Each tool runs in a process of its own,
which has done the same for a small problem of the same kind before; what takes longer than a limit is stopped. All
entries have the same norm.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.report import duration, markdown

SMALL, ROUNDS, FIRSTS, LIMIT = 1000, 5, 3, 60.0
LONG = 2.0  # seconds of an evaluation that is not repeated, nor a first one at other sizes
STEP = np.random.default_rng(1).normal(size=(4, 4)) / 2
KERNEL = np.random.default_rng(1).normal(size=5)

Array = np.ndarray
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Peer:
    """A problem of about n unknowns: their values, data, tables, and the function, in the words of any library."""

    unknowns: Callable[[int], dict[str, tuple[int, ...]]]
    function: Callable[..., Any]  # of a library, unknowns, and the rest by name
    data: Callable[[int], Arrays] = lambda n: {}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def table(count: int, size: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, size, size=count)


def trend(lib: Any, x: Any) -> Any:
    return lib.sum(x**2) + lib.sum(lib.sqrt((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2 + 1))


def smoother(lib: Any, S: Any) -> Any:
    return lib.sum((S[1:, :] - lib.dot(S[:-1, :], STEP.T)) ** 2) + lib.sum(S**2)


def control(lib: Any, x: Any, u: Any, p: Any) -> Any:
    dynamics = x[1:, :] - lib.sin(lib.dot(x[:-1, :], STEP[:2, :2])) - lib.dot(u, STEP[:1, :2])
    return 5 * lib.sum(x**2) + lib.sum(u**2) + lib.sum(p * dynamics)


def image(lib: Any, X: Any) -> Any:
    down, right = X[1:, :-1] - X[:-1, :-1], X[:-1, 1:] - X[:-1, :-1]
    return lib.sum(X**2) + lib.sum(lib.sqrt(down**2 + right**2 + 1))


def mixed(lib: Any, beta: Any, u: Any, s: Any, X: Any, y: Any, t: Any, g: Array) -> Any:
    return lib.sum((y - lib.dot(X, beta) - u[g] - s[g] * t) ** 2) + lib.sum(u**2) + lib.sum(s**2)


def comparisons(lib: Any, x: Any, i: Array, j: Array) -> Any:
    return lib.sum(lib.softplus(x[i] - x[j])) + 0.1 * lib.sum(x**2)


def stress(lib: Any, X: Any, d: Any, i: Array, j: Array) -> Any:
    return lib.sum((lib.row_sums((lib.rows(X, i) - lib.rows(X, j)) ** 2) - d) ** 2) + lib.sum(X**2)


def factorization(lib: Any, U: Any, V: Any, v: Any, i: Array, j: Array) -> Any:
    return lib.sum((v - lib.row_sums(lib.rows(U, i) * lib.rows(V, j))) ** 2)


def convolution(lib: Any, x: Any) -> Any:
    n = x.shape[0]
    return lib.sum(lib.sqrt(1 + sum(KERNEL[k] * x[k : n - 4 + k] for k in range(5)) ** 2))


def _edges(n: int) -> Arrays:
    return {"i": table(5 * n, n, 2), "j": table(5 * n, n, 3)}


def _groups(n: int) -> Arrays:
    count = 5 * n
    return {"X": normal(count, 3), "y": normal(count), "t": normal(count, seed=1), "g": np.repeat(np.arange(n), 5)}


def _entries(n: int) -> Arrays:
    return {"v": normal(5 * n), "i": table(5 * n, n // 10, 4), "j": table(5 * n, n // 10, 5)}


PROBLEMS = {
    "chained Rosenbrock": Peer(
        lambda n: {"x": (n,)}, lambda lib, x: lib.sum((x[1:] - x[:-1] ** 2) ** 2) + 20 * lib.sum(x**2)
    ),
    "trend filtering": Peer(lambda n: {"x": (n,)}, trend),
    "Kalman smoother, 4 states": Peer(lambda n: {"S": (n // 4, 4)}, smoother),
    "control, KKT": Peer(lambda n: {"x": (n // 5 + 1, 2), "u": (n // 5, 1), "p": (n // 5, 2)}, control),
    "total variation of an image": Peer(lambda n: {"X": (int(n**0.5), int(n**0.5))}, image),
    "convolution of width 5": Peer(lambda n: {"x": (n,)}, convolution),
    "mixed effects": Peer(lambda n: {"beta": (3,), "u": (n // 2,), "s": (n // 2,)}, mixed, lambda n: _groups(n // 2)),
    "Bradley–Terry": Peer(lambda n: {"x": (n,)}, comparisons, _edges),
    "stress of an edge list": Peer(
        lambda n: {"X": (n // 2, 2)}, stress, lambda n: {"d": normal(5 * (n // 2)) ** 2, **_edges(n // 2)}
    ),
    "COO factorization": Peer(
        lambda n: {"U": (n // 10, 5), "V": (n // 10, 5)}, factorization, _entries,
    ),
}  # fmt: skip


# The words of each library


class Eindiff:
    """Expressions of eindiff: data are variables, tables are arrays."""

    def __init__(self) -> None:
        import eindiff as ed

        self.sum, self.sqrt, self.sin, self.softplus = ed.sum, ed.sqrt, ed.sin, ed.softplus
        self._ed = ed

    def row_sums(self, x: Any) -> Any:
        return self._ed.sum(x, axis=1)

    def rows(self, x: Any, i: Array) -> Any:
        return x[i]

    def dot(self, a: Any, b: Any) -> Any:
        return a @ b

    def hessian(self, problem: Peer, unknowns: Arrays, data: Arrays) -> Callable[[Arrays], Any]:
        ed = self._ed
        variables = {name: ed.tensor(name, *value.shape) for name, value in unknowns.items()}
        given = {
            name: ed.tensor(name, *value.shape) if value.dtype == float else value for name, value in data.items()
        }
        function = problem.function(self, *variables.values(), **given)
        by = list(variables.values())
        compiled = ed.compile(ed.hessian(function, by if len(by) > 1 else by[0]), form="structured")
        numbers = {name: value for name, value in data.items() if value.dtype == float}
        return lambda point: compiled(**point, **numbers).to_csc().data


class Jax:
    """asdex on functions of JAX, of one flat vector."""

    def __init__(self) -> None:
        import asdex
        import jax

        jax.config.update("jax_enable_x64", True)
        self._asdex, self._jax = asdex, jax
        self.sum, self.sqrt, self.sin, self.softplus = jax.numpy.sum, jax.numpy.sqrt, jax.numpy.sin, jax.nn.softplus

    def row_sums(self, x: Any) -> Any:
        return x.sum(axis=1)

    def rows(self, x: Any, i: Array) -> Any:
        return x[i]

    def dot(self, a: Any, b: Any) -> Any:
        return a @ b

    def hessian(self, problem: Peer, unknowns: Arrays, data: Arrays) -> Callable[[Arrays], Any]:
        ends = np.cumsum([value.size for value in unknowns.values()])[:-1].tolist()

        def function(flat: Any) -> Any:
            parts = zip(self._jax.numpy.split(flat, ends), unknowns.values(), strict=True)
            return problem.function(self, *(part.reshape(value.shape) for part, value in parts), **data)

        found = self._asdex.hessian(function, _flat(unknowns), output_format="bcoo")
        return lambda point: self._jax.block_until_ready(found(_flat(point)).data)


class Casadi:
    """CasADi's matrix expressions, of one flat vector; its matrices have their columns one after the other."""

    def __init__(self) -> None:
        import casadi

        self._casadi = casadi
        self.sqrt, self.sin = casadi.sqrt, casadi.sin

    def sum(self, x: Any) -> Any:
        return self._casadi.sum1(self._casadi.vec(x))

    def softplus(self, x: Any) -> Any:
        return self._casadi.log1p(self._casadi.exp(x))

    def row_sums(self, x: Any) -> Any:
        return self._casadi.sum2(x)

    def rows(self, x: Any, i: Array) -> Any:
        return x[i, :]

    def dot(self, a: Any, b: Any) -> Any:
        return self._casadi.mtimes(a, b)

    def hessian(self, problem: Peer, unknowns: Arrays, data: Arrays) -> Callable[[Arrays], Any]:
        casadi = self._casadi
        flat = casadi.MX.sym("flat", sum(value.size for value in unknowns.values()))
        parts, start = [], 0
        for value in unknowns.values():
            part = flat[start : start + value.size]
            parts.append(part if value.ndim == 1 else casadi.reshape(part, *value.shape[::-1]).T)
            start += value.size
        given = {k: casadi.DM(v) if v.dtype == float else v.tolist() for k, v in data.items()}
        matrix, _ = casadi.hessian(problem.function(self, *parts, **given), flat)
        compiled = casadi.Function("hessian", [flat], [matrix])
        return lambda point: compiled(_flat(point)).nonzeros


def _flat(arrays: Arrays) -> Array:
    return np.concatenate([value.reshape(-1) for value in arrays.values()])


TOOLS: dict[str, Callable[[], Any]] = {"eindiff": Eindiff, "asdex": Jax, "CasADi": Casadi}


def measured(tool: str, name: str, size: int) -> dict[str, float]:
    """The times of one tool, in this process."""
    library, problem = TOOLS[tool](), PROBLEMS[name]

    def run(n: int, rounds: int) -> dict[str, float]:
        data = problem.data(n)
        points = [
            {x: normal(*shape, seed=seed) for x, shape in problem.unknowns(n).items()} for seed in range(rounds + 1)
        ]
        start = perf_counter()
        hessian = library.hessian(problem, points[0], data)
        entries = hessian(points[0])
        first = perf_counter() - start
        later = []
        for point in points[1:]:
            start = perf_counter()
            hessian(point)
            later.append(perf_counter() - start)
            if later[-1] > LONG:
                break
        norm = float(np.linalg.norm(np.asarray(entries() if callable(entries) else entries)))
        return {"first": first, "later": min(later), "norm": norm}

    run(SMALL, 1)
    found = run(size, ROUNDS)
    for k in range(1, FIRSTS if found["first"] < LONG else 1):
        found["first"] = min(found["first"], run(size + size // 100 * k, 1)["first"])
    return found


def compared(name: str, size: int) -> dict[str, Any]:
    """The times of all tools, each in a process of its own; those that take too long have none."""
    found: dict[str, Any] = {"problem": name, "n": size, "limit": LIMIT}
    for tool in TOOLS:
        command = [sys.executable, "-m", "benchmarks.structure_peers", "--one", tool, name, "--size", str(size)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            found[tool] = None
            continue
        if done.returncode:
            raise SystemExit(done.stderr)
        found[tool] = json.loads(done.stdout.splitlines()[-1])
    norms = [found[tool]["norm"] for tool in TOOLS if found[tool]]
    if norms and max(norms) > (1 + 1e-9) * min(norms):
        raise SystemExit(f"{name}: the tools do not agree: {found}")
    return found


def table_of(results: list[dict[str, Any]]) -> str:
    """The results as a table of markdown."""
    head = ["problem", "n", *(f"{tool}, {what}" for what in ("first", "later") for tool in TOOLS)]
    head += [f"{peer} / eindiff, {what}" for what in ("first", "later") for peer in ("asdex", "CasADi")]
    lines = []
    for x in results:
        times = [
            duration(x[tool][what]) if x[tool] else f"> {x['limit']:g} s"
            for what in ("first", "later") for tool in TOOLS
        ]  # fmt: skip
        ratios = [
            "" if not x["eindiff"] else f"{x[peer][what] / x['eindiff'][what]:.1f}" if x[peer]
            else f"> {x['limit'] / x['eindiff'][what]:.0f}" if what == "first" else ""
            for what in ("first", "later") for peer in ("asdex", "CasADi")
        ]  # fmt: skip
        lines.append([x["problem"], f"{x['n']:,}", *times, *ratios])
    return markdown(head, lines)


def main() -> None:
    """Compare some problems, add them to the results, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure_peers", description=__doc__)
    parser.add_argument("problems", nargs="*", help="all if none is named")
    parser.add_argument("--size", type=int, default=10**5)
    parser.add_argument("--one", choices=TOOLS, help="a single tool, in this process")
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.problems[0], options.size)))
        return
    path = options.out / "structure_peers.json"
    known = json.loads(path.read_text())["results"] if path.exists() else []
    for name in options.problems or PROBLEMS:
        found = compared(name, options.size)
        known = [x for x in known if x["problem"] != name] + [found]
        print(table_of([found]), flush=True)
        known.sort(key=lambda x: list(PROBLEMS).index(x["problem"]))
        write(known, options.out)


def write(known: list[dict[str, Any]], folder: Path) -> None:
    """The results, for people and for the next run."""
    machine = describe(1)
    (folder / "structure_peers.json").write_text(json.dumps({"machine": machine, "results": known}, indent=1) + "\n")
    tools = ("eindiff", "asdex", "casadi", "jax")
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if name in tools)
    text = f"# Hessians as sparse matrices, beside asdex and CasADi\n\n{(__doc__ or '').partition(': ')[2].strip()}\n\n"
    text += f"{machine['processor']}, one thread of BLAS, float64, {versions}; the load was {machine['load']}.\n"
    (folder / "structure_peers.md").write_text(f"{text}\n{table_of(known)}\n")


if __name__ == "__main__":
    main()
