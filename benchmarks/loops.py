"""`python -m benchmarks.loops`: Hessians of recurrences by their parameters, against `jax.jit(jax.hessian(f))`.

Each loop is written with `lax.scan`, and in Python, which writes out all of its turns. Both sides are compiled by
`jax.jit`. First calls are those of new processes, the shorter one of two; JAX is stopped after a while, since it may
compile a loop that is written out for an hour. All other calls take turns in one process, and the loop that Python has
written out is compared with JAX's own `lax.scan`. Times are those of the processor.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.report import duration, markdown

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))
NAMES = ["HMM", "Kalman filter", "RK4", "RNN", "LSTM", "linear"]


def call(name: str, steps: int, is_ours: bool) -> Callable[[], Any]:
    """A Hessian, not compiled yet."""
    import jax

    import eindiff.jax
    import jax_loops

    loop = jax_loops.loops(steps)[name]
    run = jax.jit((eindiff.jax if is_ours else jax).hessian(loop.function))
    return lambda: jax.block_until_ready(run(*loop.args))


def first(pipe: Connection, name: str, steps: int, is_ours: bool) -> None:
    """Send the seconds of a first call."""
    run = call(name, steps, is_ours)
    start = process_time()
    run()
    pipe.send(process_time() - start)


def others(pipe: Connection, name: str, steps: int, budget: float) -> None:
    """Send the seconds of later calls: JAX's, ours, and ours where Python has written the loop out."""
    sides = [call(name, steps, False), call(name, steps, True), call(f"{name}, Python", steps, True)]
    taken: list[list[float]] = [[] for run in sides if run() is not None]
    end = perf_counter() + budget
    while perf_counter() < end or len(taken[0]) < 5:
        for run, found in zip(sides, taken, strict=True):
            start = process_time()
            run()
            found.append(process_time() - start)
    pipe.send([median(found) for found in taken])


def in_new_process(task: Callable, *args: Any, limit: float = 300.0) -> Any:
    """What a task sends; None if it takes longer than a limit."""
    context = multiprocessing.get_context("fork")  # all is imported, and JAX has not started yet
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=task, args=(there, *args))
    process.start()
    found = here.recv() if here.poll(limit) else None
    process.kill()
    process.join()
    return found


def row(name: str, steps: int, options: argparse.Namespace) -> list[str]:
    """First calls and others of one recurrence."""
    both = [[in_new_process(first, name, steps, side) for side in (False, True)] for _ in range(2)]
    peer, ours = map(min, zip(*both, strict=True))
    peer_written = in_new_process(first, f"{name}, Python", steps, False, limit=options.limit)
    written = in_new_process(first, f"{name}, Python", steps, True)
    later = in_new_process(others, name, steps, options.budget)
    least = f"{duration(peer_written)} ({written / peer_written:.2f})" if peer_written else f"> {options.limit:.0f} s"
    return [
        name, str(steps), duration(later[0]), f"{duration(later[1])} ({later[1] / later[0]:.2f})",
        f"{duration(later[2])} ({later[2] / later[0]:.2f})", duration(peer), f"{duration(ours)} ({ours / peer:.2f})",
        least, duration(written),
    ]  # fmt: skip


def main() -> None:
    """Read the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__)
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--steps", nargs="+", type=int, default=[50, 500])
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for JAX to compile what Python has written")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of calls for each recurrence")
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    warnings.simplefilter("ignore")
    import eindiff.jax  # noqa: F401 (so that new processes need not)
    import jax_loops  # noqa: F401

    rows = []
    for steps in options.steps:
        for name in options.names:
            rows.append(row(name, steps, options))
            print(" | ".join(rows[-1]), flush=True)
    head = [
        "", "steps", "JAX", "eindiff", "in Python", "first, JAX", "first, eindiff", "first in Python, JAX",
        "first in Python, eindiff",
    ]  # fmt: skip
    text = f"# Loops: Hessians by parameters\n\n{(__doc__ or '').partition(chr(10) * 2)[2]}\n"
    note = "In parentheses: relative to JAX; calls of loops in Python are relative to JAX's `lax.scan`.\n\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "loops.md").write_text(f"{text}{note}{markdown(head, rows)}\n")


if __name__ == "__main__":
    main()
