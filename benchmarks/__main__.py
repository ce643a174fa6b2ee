"""`python -m benchmarks`: run the benchmarks of derivatives and report; `python -m benchmarks solvers`: the same for
solvers; `python -m benchmarks report DIR`: only report."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report, solvers
from benchmarks.problem import QUANTITIES
from benchmarks.problems import PROBLEMS
from benchmarks.runner import Settings, run
from benchmarks.solver_problems import SOLVE, SYSTEMS
from benchmarks.tools import TOOLS

DEFAULT = Path("benchmarks", "results")
QUICK_TOOLS = ("hand", "eindiff", "jax")
QUICK_SIZES = 2  # of the sizes of each problem


def main() -> None:
    """Read the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "solvers", "report"], default="run")
    parser.add_argument("folder", nargs="?", type=Path, help="results to report on")
    parser.add_argument("--quick", action="store_true", help="a few minutes: small sizes, few tools, one short round")
    parser.add_argument(
        "--problems", nargs="+", metavar="NAME", help=f"of {', '.join(PROBLEMS)}; of solvers: {', '.join(SYSTEMS)}"
    )
    parser.add_argument("--quantities", nargs="+", choices=QUANTITIES, default=QUANTITIES)
    parser.add_argument("--tools", nargs="+", metavar="NAME", help=f"of {', '.join(TOOLS)}, or tool:variant")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="only these n")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--budget", type=float, help="seconds of calls for each case and round")
    parser.add_argument("--seconds", type=float, default=60.0, help="cap on the time of a call")
    parser.add_argument("--gigabytes", type=float, default=12.0, help="cap on the memory of a process")
    parser.add_argument("--threads", type=int, default=Settings().threads, help="of the linear algebra libraries")
    parser.add_argument("--out", type=Path, default=DEFAULT)
    options = parser.parse_args()
    out = options.folder or options.out
    if options.command == "run":
        _run(options, out)
    elif options.command == "solvers":
        _run_solvers(options, out)
    elif not any((out / name).exists() for name in ("results.json", "solvers.json")):
        raise SystemExit(f"there are no results in {out}")
    if options.command != "solvers" and (out / "results.json").exists():
        report.write(out)
    if options.command != "run" and (out / "solvers.json").exists():
        solvers.write(out)


def _run(options: argparse.Namespace, out: Path) -> None:
    names = options.problems or list(PROBLEMS)
    if unknown := sorted(set(names) - set(PROBLEMS)):
        raise SystemExit(f"there is no problem {unknown[0]}; the problems are {', '.join(PROBLEMS)}")
    tools = tuple(options.tools or (QUICK_TOOLS if options.quick else TOOLS))
    if unknown := sorted({tool.partition(":")[0] for tool in tools} - set(TOOLS)):
        raise SystemExit(f"there is no tool {unknown[0]}; the tools are {', '.join(TOOLS)}")
    rounds = options.rounds or (1 if options.quick else 3)
    budget = options.budget or (0.1 if options.quick else 0.5)
    settings = Settings(rounds, budget, options.seconds, options.gigabytes, options.threads, tools)
    wanted = []
    for name in names:
        for quantity, grid in PROBLEMS[name].grid.items():
            sizes = grid[:QUICK_SIZES] if options.quick else grid
            if quantity in options.quantities:
                wanted.append((PROBLEMS[name], quantity, tuple(n for n in options.sizes or sizes if n in grid)))
    run(wanted, settings, out)


def _run_solvers(options: argparse.Namespace, out: Path) -> None:
    names = options.problems or list(SYSTEMS)
    if unknown := sorted(set(names) - set(SYSTEMS)):
        raise SystemExit(f"there is no problem {unknown[0]} of solvers; they are {', '.join(SYSTEMS)}")
    budget = options.budget or (0.05 if options.quick else 0.3)
    grids = {name: SYSTEMS[name].grid[SOLVE] for name in names}
    wanted = [
        (name, n)
        for name, grid in grids.items()
        for n in (options.sizes or (grid[:QUICK_SIZES] if options.quick else grid))
        if n in grid
    ]
    solvers.run(wanted, solvers.Settings(budget, options.threads), out)


if __name__ == "__main__":
    main()
