"""`python -m benchmarks solvers`: Newton systems solved by their structure, by dense Cholesky, by cg, and by hand.

Each problem and size runs in a process of its own, `python -m benchmarks.solvers '{"problem": ..., ...}'`, which prints
a line of JSON for each method.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from benchmarks.case import timed_calls
from benchmarks.machine import describe
from benchmarks.plots import OURS, STYLE, panels
from benchmarks.problem import Array
from benchmarks.report import cell, markdown, size, time_text
from benchmarks.results import ratio, time
from benchmarks.runner import written
from benchmarks.solver_problems import SOLVE, SYSTEMS, System
from eindiff.structure.solvers import solver
from eindiff.structure.solvers.iterative import Iterative

DENSE_ROWS = 10_000  # more are not solved densely
CG_SECONDS = 20.0
CASE_SECONDS = 150.0  # for all methods of a case
SLOW = 10  # times the budget; a call that takes longer is not repeated
TOLERANCE = 1e-8  # of the relative difference to the solution of eindiff
CG_TOLERANCE = 1e-6
CG_RTOL = 1e-10
BYTES_PER_ROW = 100  # of memory, where no factorization is to be possible: it takes more
LINES: dict[str, dict[str, Any]] = {
    "eindiff": {"label": "eindiff", "color": OURS, "lw": 2.4, "marker": "s", "zorder": 5},
    "reused": {"label": "eindiff, factorized before", "color": OURS, "lw": 1.2, "ls": "--", "marker": "s", "zorder": 4},
    "hand": {"label": "by hand", "color": "black", "lw": 1, "marker": "D", "mfc": "white", "zorder": 6},
    "cg": {"label": "conjugate gradients", "color": "#e08a00", "lw": 1.2, "marker": "o", "zorder": 2},
    "dense": {"label": "dense Cholesky", "color": "#1f77b4", "lw": 1.2, "marker": "o", "zorder": 3},
}
METHODS = tuple(LINES)
Case = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    budget: float  # seconds of calls for each method
    threads: int


# One problem and size, in its process


class Newton:
    """A Newton system: the Hessian's value, a right-hand side, and the ways to solve it."""

    def __init__(self, system: System, n: int) -> None:
        self.hessian = system.hessian(n)
        self.rows = system.rows(n)
        self.b = np.random.default_rng(n).normal(size=self.rows)
        if system.iterative:
            solver.LIMIT = BYTES_PER_ROW * self.rows
        self.iterations = 0

    def fresh(self) -> Array:
        """From the arrays of the Hessian, with the factorization."""
        return self.hessian.damped(0.0).solve(self.b)

    def reused(self) -> Array:
        """With the factorization of an earlier call."""
        return self.hessian.solve(self.b)

    def dense(self) -> Callable[[], Array]:
        """Cholesky factorization of the matrix, which is formed before."""
        matrix = self.hessian.as_matrix()
        return lambda: linalg.cho_solve(linalg.cho_factor(matrix), self.b)

    def conjugate_gradients(self) -> Array:
        """SciPy's conjugate gradients on products with the Hessian; it counts its steps, and gives up if it is slow."""
        self.iterations, end = 0, perf_counter() + CG_SECONDS

        def step(_: Array) -> None:
            self.iterations += 1
            if perf_counter() > end:
                raise TimeoutError(f"> {CG_SECONDS:g} s")

        operator = LinearOperator((self.rows, self.rows), self.hessian.mv, dtype=float)
        x, info = cg(operator, self.b, rtol=CG_RTOL, callback=step)
        if info:
            raise ArithmeticError(f"no convergence in {self.iterations} steps")
        return x


def measure(system: System, n: int, budget: float) -> Iterator[Case]:
    """Each method on one system, the slow ones last."""
    newton = Newton(system, n)
    H, ours = newton.hessian, newton.reused()
    measured = partial(_measured, budget=budget, ours=ours)

    def case(method: str, found: Case) -> Case:
        own = {"problem": system.name, "n": n, "method": method, "rows": newton.rows}
        return own | {"bytes": H.nbytes, "dense_bytes": H.dense_nbytes} | found

    residual = float(np.linalg.norm(H.mv(ours) - newton.b) / np.linalg.norm(newton.b))
    eindiff = measured(newton.fresh) | {"error": residual}
    if (found := H.solver().word) != (Iterative.word if system.iterative else system.structure):
        eindiff |= {"status": "wrong", "message": f"the structure found is {found}"}
    elif not residual < TOLERANCE:
        eindiff |= {"status": "wrong", "message": f"relative residual {residual:.0e}"}
    yield case("eindiff", eindiff)
    yield case("reused", measured(newton.reused))
    variants = []
    for name, make in system.hand[SOLVE].items():
        solve = make(**system.arguments(make, n))
        variants.append({"variant": name} | measured(partial(solve, newton.b)))
    if variants:  # the fastest one, or one that is wrong
        yield case("hand", min(variants, key=lambda variant: (variant["status"] == "ok", time(variant))))
    yield case("cg", measured(newton.conjugate_gradients, tolerance=CG_TOLERANCE) | {"iterations": newton.iterations})
    if newton.rows > DENSE_ROWS:
        yield case("dense", {"status": "skipped", "message": f"> {DENSE_ROWS:,} rows"})
    else:
        yield case("dense", measured(newton.dense()))


def _measured(call: Callable[[], Array], budget: float, ours: Array, tolerance: float = TOLERANCE) -> Case:
    """The times of a method, and the relative difference of its solution from that of eindiff."""
    start = perf_counter()
    try:
        x = call()
    except (TimeoutError, ArithmeticError, MemoryError, linalg.LinAlgError) as error:
        return {"status": "failed", "message": str(error)}
    first = perf_counter() - start
    samples = [first] if first > SLOW * budget else timed_calls(call, budget, first)
    low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
    error = float(np.linalg.norm(x.reshape(-1) - ours) / np.linalg.norm(ours))
    status = {"status": "ok", "message": ""}
    if not error < tolerance:
        status = {"status": "wrong", "message": f"relative error {error:.0e}"}
    return status | {"median": median, "quartiles": [low, high], "samples": len(samples), "error": error}


# All problems


def run(wanted: Iterable[tuple[str, int]], settings: Settings, out: Path) -> None:
    """Run problems, each with a size; cases are added to those in the file, or take their place."""
    path = out / "solvers.json"
    out.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text())["cases"] if path.exists() else []
    cases = {_key(case): case for case in known if case["problem"] in SYSTEMS}
    for name, n in wanted:
        for case in _run(name, n, settings):
            _show(case)
            cases[_key(case)] = case
        ordered = sorted(cases.values(), key=lambda case: (list(SYSTEMS).index(case["problem"]), case["n"]))
        content = {"machine": describe(settings.threads), "settings": asdict(settings), "cases": ordered}
        path.write_text(written(content))


def _key(case: Case) -> tuple:
    return case["problem"], case["n"], case["method"]


def _run(name: str, n: int, settings: Settings) -> list[Case]:
    """One problem and size in its process; what it did not get to is reported so."""
    threads = str(settings.threads)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    request = json.dumps({"problem": name, "n": n, "budget": settings.budget})
    command = [sys.executable, "-m", "benchmarks.solvers", request]
    try:
        done = subprocess.run(command, capture_output=True, timeout=CASE_SECONDS, env=environment, check=False)
        output, reason = done.stdout, (done.stderr.decode().strip().splitlines() or [""])[-1][:200]
    except subprocess.TimeoutExpired as error:
        output, reason = error.stdout or b"", f"> {CASE_SECONDS:g} s"
    cases = [json.loads(line) for line in output.decode().splitlines()]
    expected = set(METHODS) if SYSTEMS[name].hand[SOLVE] else set(METHODS) - {"hand"}
    failed = {"problem": name, "n": n, "status": "failed", "message": reason}
    return cases + [failed | {"method": method} for method in sorted(expected - {c["method"] for c in cases})]


def _show(case: Case) -> None:
    taken = f"{case['median']:.3g} s, error {case['error']:.0e}" if "median" in case else ""
    status = "" if case["status"] == "ok" else f" {case['status'].upper()} {case['message']}"
    print(f"{case['problem']} n={case['n']} {case['method']}: {taken}{status}", file=sys.stderr, flush=True)


# Tables and the plot


class Results:
    """The cases in the file of a folder."""

    def __init__(self, folder: Path) -> None:
        content = json.loads((folder / "solvers.json").read_text())
        self.machine, self.settings = content["machine"], content["settings"]
        known = {(name, n) for name, system in SYSTEMS.items() for n in system.grid[SOLVE]}
        self.cases = {_key(case): case for case in content["cases"] if (case["problem"], case["n"]) in known}
        self.systems = list({name: SYSTEMS[name] for name, _, _ in self.cases}.values())

    def sizes(self, system: System) -> list[int]:
        """The sizes that were run."""
        return sorted({n for name, n, _ in self.cases if name == system.name})

    def case(self, system: System, n: int, method: str) -> Case | None:
        """What was measured of a method."""
        return self.cases.get((system.name, n, method))


def write(folder: Path) -> None:
    """`solvers.md` and `solvers.svg`."""
    results = Results(folder)
    everything = [(system, n) for system in results.systems for n in results.sizes(system)]
    dense = [(system, n) for system, n in everything if np.isfinite(time(results.case(system, n, "dense")))]
    largest = {system.name: (system, n) for system, n in dense}
    parts = [_header(results), "![Seconds over rows](solvers.svg)", "## At the largest size of dense Cholesky"]
    parts += [_table(results, largest.values()), "## All sizes", _table(results, everything)]
    (folder / "solvers.md").write_text("\n\n".join(parts) + "\n")
    _draw(results, folder / "solvers.svg")
    print(f"{folder / 'solvers.md'} and a plot written", file=sys.stderr)


def _header(results: Results) -> str:
    machine = results.machine
    cores = f"{machine['cores']} cores, {machine['threads']} threads, {machine['memory_gb']} GiB"
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in ("eindiff", "numpy", "scipy"))
    return f"""# Solving Newton systems

{machine["processor"]}, {cores}, {machine["blas"]}, {machine["system"]}, Python {machine["python"]}. {versions}.

One system `H x = b` in double precision. No time has the forming of the Hessian in it: the parts that each method needs
are there. *eindiff* finds the structure, factorizes and solves; *reused* has the factorization of an earlier solve.
*By hand* is the faster one, if there are two, of what a person would write with NumPy and SciPy. *cg* is SciPy's, with
`rtol={CG_RTOL:g}` and no preconditioner, on products with the structured Hessian, and its number of steps. *Dense
Cholesky* is `cho_factor` and `cho_solve` of the matrix, up to {DENSE_ROWS:,} rows. Memory is that of the Hessian's
arrays, next to its matrix. Errors: the relative residual of eindiff, and the relative differences of the solutions by
hand, of cg and of Cholesky from its solution; they count as wrong from {TOLERANCE:g}, of cg from {CG_TOLERANCE:g}.
Medians of {results.settings["budget"]:g} seconds of calls; a time with ~ is noisy."""


def _table(results: Results, runs: Iterable[tuple[System, int]]) -> str:
    head = ["structure", "problem", "rows", "eindiff", "reused", "by hand", "cg (steps)", "dense Cholesky"]
    head += ["dense / eindiff", "memory", "dense memory", "errors"]
    rows = []
    for system, n in runs:
        of = {method: results.case(system, n, method) for method in METHODS}
        ours, dense = of["eindiff"] or {}, of["dense"]
        times = [cell(of[method], time_text) for method in ("eindiff", "reused", "hand")]
        steps = cell(of["cg"], lambda case: f"{time_text(case)} ({case['iterations']})")
        quotient = ratio(dense, ours) if "median" in ours else None
        compared = [case for method, case in of.items() if method != "reused"]
        errors = [f"{case['error']:.0e}" if case and "error" in case else "–" for case in compared]
        memory = [size(ours[name]) if name in ours else "" for name in ("bytes", "dense_bytes")]
        fields = [system.structure, system.title, f"{system.rows(n):,}", *times, steps, cell(dense, time_text)]
        rows.append([*fields, "" if quotient is None else f"{quotient:.3g}", *memory, ", ".join(errors)])
    return markdown(head, rows)


def _draw(results: Results, path: Path) -> None:
    """A panel for each system: seconds over rows."""
    import matplotlib

    matplotlib.use("Agg")

    def panel(axis: Any, system: System) -> None:
        axis.set(title=f"{system.structure}\n{system.title}", xlabel="rows")
        for method, style in LINES.items():
            cases = [results.case(system, n, method) for n in results.sizes(system)]
            points = [(case["rows"], time(case)) for case in cases if case and np.isfinite(time(case))]
            if points:
                axis.plot(*zip(*points, strict=True), **style)

    with matplotlib.rc_context(STYLE):
        panels(results.systems, panel, path)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    for measured in measure(SYSTEMS[asked["problem"]], asked["n"], asked["budget"]):
        print(json.dumps(measured), flush=True)
