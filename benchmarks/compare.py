"""`python -m benchmarks.compare OLD NEW`: the programs of the benchmarks with two versions of the package, in turns.

OLD and NEW are folders that hold `eindiff` (the `src` of a checkout). Both run the programs of this folder, in
processes side by side that take turns at each program, so that a slow spell of the machine hits both. The best of all
rounds counts, by the clock and in time of the processor; a program is slower if both say so, because other processes
disturb the one, and the other is coarse.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter, process_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GROUPS = ("problems", "solvers", "calls", "jax", "torch")
FRAMEWORKS = ("jax", "torch")  # their threads forbid to fork
BATCH = 2e-4  # seconds of calls that are timed as one
MEASURES = {"first": "first call", "call": "call"}

Make = Callable[[], Callable[[], Any]]  # derives and compiles; what it gives is called


# Programs, in a worker


def programs(group: str, every: int) -> dict[str, Make]:
    """The programs of a group by name; of the long tables each `every`-th."""
    return (
        {"problems": _problems, "solvers": _solvers, "calls": _calls}[group]()
        if group not in FRAMEWORKS
        else dict(list(_functions(group).items())[::every])
    )


def _problems() -> dict[str, Make]:
    """Each quantity of each problem at a small and a medium size."""
    from benchmarks.problems import PROBLEMS
    from benchmarks.tools import TOOLS, Task

    tool = TOOLS["eindiff"]()

    def make(task: Task) -> Callable[[], Any]:
        function = tool.build(task)
        return partial(tool.call, function, tool.inputs(task, function))

    return {
        f"{name} {quantity} {n}": partial(make, Task(problem, quantity, "auto", n))
        for name, problem in PROBLEMS.items()
        for quantity, sizes in problem.grid.items()
        for n in (sizes[0], sizes[min(2, len(sizes) - 1)])
    }


def _solvers() -> dict[str, Make]:
    """A system of each structure, at two sizes: the Hessian, the factorization, and the solution."""
    import numpy as np

    from benchmarks.solver_problems import SOLVE, SYSTEMS, System

    def make(system: System, n: int) -> Callable[[], Any]:
        hessian, b = system.hessian(n), np.random.default_rng(n).normal(size=system.rows(n))
        return lambda: hessian.damped(0.0).solve(b)  # damped by nothing: with a factorization of its own

    return {
        f"{name} {n}": partial(make, system, n)
        for name, system in SYSTEMS.items()
        for n in system.grid[SOLVE][:2]
        if not system.iterative
    }


def _calls() -> dict[str, Make]:
    """Functions of small arrays, where only the way to the program counts; and matrices with declared properties."""
    import numpy as np

    import eindiff as ed

    generator = np.random.default_rng(0)
    x, v = ed.vector("x", "n"), generator.uniform(0.5, 1.5, 3)

    def small(f: Callable[[Any], Any], dtype: Any = float) -> Make:
        given = v.astype(dtype)
        return lambda: partial(ed.compile(f(x)), x=given)

    def declared(n: int, prop: str) -> Make:
        root = generator.normal(size=(n, n))
        matrix = np.linalg.qr(root)[0] if prop == "orthogonal" else root @ root.T
        P, y = ed.matrix("P", "n", "n", prop), ed.vector("y", "n")
        return lambda: partial(ed.compile(ed.gradient(ed.sum(ed.exp(P @ y)), y)), P=matrix, y=root[0] / n)

    return {
        "gradient of a sum of squares": small(lambda x: ed.gradient(x @ x, x)),
        "the same, float32": small(lambda x: ed.gradient(x @ x, x), np.float32),
        "value, gradient, Hessian": small(lambda x: [f := ed.sum(ed.exp(x)), ed.gradient(f, x), ed.hessian(f, x)]),
        **{f"{prop} {n}": declared(n, prop) for prop in ("symmetric", "psd", "orthogonal") for n in (3, 100, 600)},
    }


def _functions(library: str) -> dict[str, Make]:
    """The functions of the test tables, with one changed import."""
    from benchmarks import drop_in

    sys.path.insert(0, str(ROOT / "tests/helpers"))
    found = {"jax": drop_in._jax, "torch": drop_in._torch}[library]()
    return {name: lambda call=ours: call.make().run for name, (_, ours) in found}


def worker(group: str, every: int) -> None:
    """Answer each line of standard input, the name of a program, with a line of JSON: what it took."""
    warnings.simplefilter("ignore")
    known = programs(group, every)
    _calls()["value, gradient, Hessian"]()()  # imports what is imported when it is needed
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print goes elsewhere
    gc.collect()
    gc.freeze()  # else it is chance in which first call all that is imported is searched for garbage
    print(json.dumps([sys.modules["eindiff"].__file__, list(known)]), file=answers, flush=True)
    for line in sys.stdin:
        name, budget = json.loads(line)
        if group in FRAMEWORKS:
            print(json.dumps(measured(known[name], budget)), file=answers, flush=True)
        elif child := os.fork():  # what one program leaves behind is not there for the next one
            os.waitpid(child, 0)
        else:
            print(json.dumps(measured(known[name], budget)), file=answers, flush=True)
            os._exit(0)


def measured(make: Make, budget: float) -> dict[str, Any]:
    """Seconds of the first call, derivation included, and of a later one: by the clock, and of the processor."""
    try:
        wall, processor = perf_counter(), process_time()
        call = make()
        call()
        found = {"first": (perf_counter() - wall, process_time() - processor)}
        start = perf_counter()
        call()
        count = max(1, int(BATCH / (perf_counter() - start)))
        best, batches, processor, end = inf, 0, process_time(), perf_counter() + budget
        while perf_counter() < end or best == inf:
            wall = perf_counter()
            for _ in range(count):
                call()
            best, batches = min(best, (perf_counter() - wall) / count), batches + 1
        return {**found, "call": (best, (process_time() - processor) / count / batches)}
    except Exception as error:  # whatever one program cannot do, the others go on
        return {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}"}


# The two sides


class Side:
    """A worker with one version of the package."""

    def __init__(self, source: Path, group: str, every: int) -> None:
        paths = f"{source}{os.pathsep}{ROOT}"
        single = {f"{x}_NUM_THREADS": "1" for x in ("OPENBLAS", "OMP", "MKL")}
        alone = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
        environment = {**os.environ, **single, **alone, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-m", "benchmarks.compare", "--worker", group, "--every", str(every)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment, cwd=ROOT,
        )  # fmt: skip
        file, self.names = self._read()
        if not Path(file).is_relative_to(source):
            raise SystemExit(f"{source} holds no eindiff: {file} is what was imported")

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else ["", []]

    def ask(self, name: str, budget: float) -> dict[str, Any]:
        """What a program took."""
        assert self._process.stdin is not None
        print(json.dumps([name, budget]), file=self._process.stdin, flush=True)
        return self._read() if self._process.poll() is None else {"error": "the worker ended"}

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()


def compare(sources: list[Path], group: str, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """For each program the best times of both sides. Where processes are not forked, each round has new ones."""
    best: dict[str, list[dict[str, Any]]] = {}
    outer, inner = (options.rounds, 1) if group in FRAMEWORKS else (1, options.rounds)
    for _ in range(outer):
        sides = [Side(source, group, options.every) for source in sources]
        for name in sides[0].names:
            if options.only and not any(text in name for text in options.only):
                continue
            results = best.setdefault(name, [{}, {}])
            for turn in range(4 * inner):
                if turn >= inner and (group in FRAMEWORKS or not _is_slower(results, options.limit)):
                    break  # what looks slower is measured for longer
                for k in (0, 1) if turn % 2 == 0 else (1, 0):
                    _keep_best(results[k], sides[k].ask(name, options.budget / options.rounds))
        for side in sides:
            side.close()
    return best


def _is_slower(results: list[dict[str, Any]], limit: float) -> bool:
    old, new = results
    return any(_ratio(old[x], new[x]) > limit for x in MEASURES if x in old and x in new)


def _ratio(old: list[float], new: list[float]) -> float:
    """New / old, where both the clock and the processor say so."""
    return min(y / x for x, y in zip(old, new, strict=True))


def _keep_best(best: dict[str, Any], found: dict[str, Any]) -> None:
    for measure, took in found.items():
        before = best.get(measure, took)
        best[measure] = took if measure == "error" else [min(pair) for pair in zip(before, took, strict=True)]


def report(group: str, best: dict[str, list[dict[str, Any]]], limit: float) -> None:
    """The ratios new / old: a line for each program that is slower than the limit, and a summary."""
    for name, (old, new) in best.items():
        for side, found in (("old", old), ("new", new)):
            if "error" in found:
                print(f"  {name}: {side} {found['error']}")
    for measure, title in MEASURES.items():
        rows = [(name, *[side[measure] for side in sides]) for name, sides in best.items()
                if all(measure in side for side in sides)]  # fmt: skip
        if not rows:
            continue
        ratios = sorted((_ratio(old, new), name, old, new) for name, old, new in rows)
        values = [ratio for ratio, *_ in ratios]
        over = [row for row in ratios if row[0] > limit]
        print(
            f"{group}, {title}: {len(rows)} programs; new / old: median {median(values):.3f}, "
            f"mean {geometric_mean(values):.3f}, worst {values[-1]:.3f}, {len(over)} over {limit}"
        )
        for _, name, old, new in over[::-1]:
            wall, processor = (
                f"{x * 1e6:.1f} -> {y * 1e6:.1f} µs ({y / x:.3f})" for x, y in zip(old, new, strict=True)
            )
            print(f"  {name}: {wall}, of the processor {processor}")
    sys.stdout.flush()


def main() -> None:
    """Read the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("sources", nargs="*", type=Path, metavar="OLD NEW")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="programs with one of these in their name")
    parser.add_argument("--every", type=int, default=8, help="of the tables of functions each so many-th")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--budget", type=float, default=0.3, help="seconds of calls of a program")
    parser.add_argument("--limit", type=float, default=1.05, help="ratios that are shown")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.every)
        return
    if len(options.sources) != 2:
        parser.error("give two folders, the old one and the new one")
    for group in options.groups:
        report(group, compare([source.resolve() for source in options.sources], group, options), options.limit)


if __name__ == "__main__":
    main()
