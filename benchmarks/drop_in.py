"""`python -m benchmarks.drop_in jax --scale 5`: every function of the test tables, with one import changed.

JAX: `jax.jit(jax.hessian(f))` against `jax.jit(eindiff.jax.hessian(f))`. PyTorch: `torch.func.hessian(f)` against
`eindiff.torch.hessian(f)`. Functions that give arrays are differentiated once, by `jacfwd`. The functions are those of
`jax_functions`, `jax_models` (with axes `--scale` times as long), `torch_functions`, `torch_models` in `tests/helpers`.
With `--kinds grad hvp` gradients and products of Hessians and directions are compared as well.

A first call is measured once, as there is only one; where eindiff's takes more than `--firsts` times as long, it is
measured again. So are calls, with `--slower`, where one side is ahead by more than that and less than `NEAR` times,
whichever it is: what JAX gives to another thread takes 10 or 80 microseconds in one process and the other, by the times
that threads are switched in a call. Both sides are measured in new processes, and the least of each is kept. With
`--direct` JAX's programs, its own and ours, run in the thread that calls them: these times say what the programs take,
and are the same in every run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from itertools import accumulate
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.report import duration, markdown

TESTS = Path(__file__).parent.parent / "tests/helpers"
ROUNDS = 5  # in which both sides take turns
MOST_CALLS = 200  # in a round
REPEATED = 2  # measurements of what is in doubt, in new processes
NEAR = 2.0  # times that one side is ahead of the other, which may be the state of a process
WARM = "sin"  # the function whose calls come first there


@dataclass(frozen=True)
class Side:
    """What one of the two took."""

    first: float  # seconds from the function to the first result
    call: float  # seconds, the median
    bytes: int | None  # of memory besides the arguments


@dataclass(frozen=True)
class Row:
    """A function: what the framework took, what eindiff took, and how far the results are apart."""

    name: str
    peer: Side
    ours: Side
    error: float


def main() -> None:
    """Read the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drop_in", description=__doc__)
    parser.add_argument("library", choices=["jax", "torch"])
    parser.add_argument("--scale", type=int, default=1, help="how much longer axes are than in the tests")
    parser.add_argument("--kinds", nargs="+", choices=["grad", "hvp", "second"], default=["second"])
    parser.add_argument("--slower", type=float, help="measure again and name what takes so many times as long")
    parser.add_argument(
        "--firsts", type=float, default=1.3, help="measure first calls again that take so many times as long"
    )
    parser.add_argument("--direct", action="store_true", help="JAX: calls are not handed to other threads")
    parser.add_argument("--functions", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--skip", nargs="+", metavar="NAME", default=[], help="not these")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of calls for each side")
    parser.add_argument("--out", type=Path, help="where to write drop-in-LIBRARY.md and .json")
    options = parser.parse_args()
    os.environ["EINDIFF_SCALE"] = str(options.scale)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")
    sys.path.insert(0, str(TESTS))
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for name, kind, calls in _jax(options.direct) if options.library == "jax" else _torch():
        if name in options.skip or kind not in options.kinds or (options.functions and name not in options.functions):
            continue
        full = name if kind == "second" else f"{name}: {kind}"
        try:
            row = measured(full, *calls, options.budget)
        except Exception as error:  # whatever one function cannot do, the others go on
            print(f"{full:36s} {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)
            continue
        rows.append(row)
        print(_line(row), flush=True)
    rows = settled(rows, options)
    print(summary(rows, options.firsts))
    for row in rows if options.slower else ():
        memory = row.ours.bytes / row.peer.bytes if row.ours.bytes and row.peer.bytes else 0.0
        if row.ours.call > options.slower * row.peer.call or memory > options.slower:
            print(f"slower: {_line(row)}  memory {memory:.2f}")
    if options.out:
        write(options.out, rows, options)


@dataclass(frozen=True)
class Program:
    """A derivative that is ready to be called."""

    run: Callable[[], Any]
    bytes: Callable[[], int | None] = lambda: None  # of memory, where that is known


@dataclass(frozen=True)
class Call:
    """A way to compute the derivative, made anew, and its result as arrays."""

    make: Callable[[], Program]
    arrays: Callable[[Any], list[np.ndarray]]


def measured(name: str, peer: Call, ours: Call, budget: float) -> Row:
    """Both sides in turns; collections of garbage do not look at what functions before this one have left."""
    gc.freeze()
    sides = []
    for call in (peer, ours):
        start = perf_counter()
        program = call.make()
        result = program.run()
        sides.append((call, program, result, perf_counter() - start))
    samples: tuple[list[float], ...] = ([], [])
    gc.disable()
    for _ in range(ROUNDS):
        for (_, program, _, _), found in zip(sides, samples, strict=True):
            end = perf_counter() + budget / ROUNDS
            for _ in range(MOST_CALLS):
                start = perf_counter()
                program.run()
                found.append(perf_counter() - start)
                if perf_counter() > end:
                    break
    gc.enable()
    expected, actual = (call.arrays(result) for call, _, result, _ in sides)
    scale = max((float(np.abs(x).max()) for x in expected if x.size), default=0.0) or 1.0
    error = max(
        (float(np.abs(x * 1.0 - y * 1.0).max()) for x, y in zip(actual, expected, strict=True) if x.size), default=0.0
    )
    both = [
        Side(first, median(found), program.bytes())
        for (_, program, _, first), found in zip(sides, samples, strict=True)
    ]
    return Row(name, *both, error / scale)


def settled(rows: list[Row], options: argparse.Namespace) -> list[Row]:
    """The rows, with those in doubt measured again in new processes: the least times of each side."""
    doubtful = [row.name for row in rows if _is_doubtful(row, options)]
    found = {row.name: [row] for row in rows}
    for _ in range(REPEATED if doubtful else 0):
        for row in elsewhere(doubtful, options):
            found.get(row.name, []).append(row)
    return [_least(row, found[row.name]) if row.name in doubtful else row for row in rows]


def _is_doubtful(row: Row, options: argparse.Namespace) -> bool:
    ratio = row.ours.call / row.peer.call
    is_near = options.slower is not None and options.slower < max(ratio, 1 / ratio) < NEAR
    return is_near or row.ours.first > options.firsts * row.peer.first


def _least(row: Row, measurements: list[Row]) -> Row:
    """A row with the least times that each side took."""

    def least(sides: list[Side]) -> Side:
        return replace(sides[0], first=min(x.first for x in sides), call=min(x.call for x in sides))

    return replace(row, peer=least([x.peer for x in measurements]), ours=least([x.ours for x in measurements]))


def elsewhere(names: list[str], options: argparse.Namespace) -> list[Row]:
    """Functions measured in a new process, after another one, so that no side waits for libraries to start."""
    with TemporaryDirectory() as out:
        how = ["--scale", str(options.scale), "--budget", str(options.budget), "--firsts", "inf", "--out", out]
        how += ["--direct"] if options.direct else []
        functions = dict.fromkeys([WARM, *[name.split(": ")[0] for name in names]])
        command = [sys.executable, "-m", "benchmarks.drop_in", options.library, *how]
        subprocess.run(
            [*command, "--kinds", *options.kinds, "--functions", *functions], check=True, capture_output=True
        )
        found = json.loads((Path(out) / f"drop-in-{options.library}.json").read_text())["rows"]
    return [Row(x["name"], Side(**x["peer"]), Side(**x["ours"]), x["error"]) for x in found]


def _jax(direct: bool = False) -> Iterator[tuple[str, str, tuple[Call, Call]]]:
    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", not direct)

    import eindiff.jax
    import jax_functions
    import jax_models  # noqa: F401 (it fills the table)
    from eindiff.tracing.jax import whole

    def call(transform: Callable, case: Any) -> Call:
        moving = [k for k, x in enumerate(case.args) if _is_moving(x, jax.Array)]

        def make() -> Program:
            derivative = transform(case.function, case.argnums, has_aux=case.has_aux)

            def bound(*given: Any) -> Any:
                values = dict(enumerate(case.args)) | dict(zip(moving, given, strict=True))
                return derivative(*(values[k] for k in range(len(case.args))))

            function = jax.jit(bound)
            args = [case.args[k] for k in moving]
            return Program(lambda: jax.block_until_ready(function(*args)), lambda: _bytes(function.lower(*args)))

        return Call(make, lambda result: list(map(np.asarray, jax.tree_util.tree_leaves(result))))

    for case in jax_functions.CASES:
        value = jax.eval_shape(lambda case=case: jax.tree_util.tree_leaves(case.function(*case.args))[0])
        is_number = value.shape == ()
        kind = "hessian" if is_number and case.order != 1 else "jacfwd"
        yield case.name, "second", (call(getattr(jax, kind), case), call(getattr(eindiff.jax, kind), case))
        if is_number and not case.forward:
            yield case.name, "grad", (call(jax.grad, case), call(eindiff.jax.grad, case))
        if is_number and not case.forward and case.order != 1:
            along = [partial(_along, x, jax.tree_util.tree_map) for x in (whole.transform("hvp"), eindiff.jax.hvp)]
            yield case.name, "hvp", (call(along[0], case), call(along[1], case))


def _along(product: Callable, shifted: Callable, f: Callable, argnums: Any, has_aux: bool = False) -> Callable:
    """The Hessian times a direction that is near the arguments, and no multiple of them."""

    def run(*args: Any) -> Any:
        chosen = tuple([args[k] for k in argnums]) if isinstance(argnums, tuple) else args[argnums]
        return product(f, argnums, has_aux=has_aux)(*args, tangents=shifted(lambda x: 0.5 * x + 1, chosen))

    return run


def _is_moving(x: Any, array: type) -> bool:
    return isinstance(x, array | np.ndarray | float | list | tuple | dict)


def _bytes(lowered: Any) -> int | None:
    """What JAX's compiler says that a program needs for intermediates and results."""
    found = lowered.compile().memory_analysis()
    return found.temp_size_in_bytes + found.output_size_in_bytes if found is not None else None


def _peak(run: Callable[[], Any]) -> int:
    """The most memory that NumPy and PyTorch have at a time in a call, without what was there before."""
    from torch.profiler import ProfilerActivity, profile

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run()
    own = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    changes = [x.nbytes() for x in seen.profiler.kineto_results.events() if x.name() == "[memory]"]
    return own + max(accumulate(changes), default=0)


def _torch() -> Iterator[tuple[str, str, tuple[Call, Call]]]:
    import torch
    from torch.utils import _pytree as pytree

    import eindiff.torch
    import torch_functions
    import torch_models  # noqa: F401 (it fills the table)
    from eindiff.tracing.torch import whole

    def call(transform: Callable, case: Any) -> Call:
        def make() -> Program:
            derivative = transform(case.function, case.argnums)
            return Program(lambda: derivative(*case.args), lambda: _peak(lambda: derivative(*case.args)))

        return Call(make, lambda result: [x.detach().numpy() for x in pytree.tree_leaves(result)])

    for name, case in torch_functions.CASES.items():
        kind = "hessian" if case.order == 2 else "jacfwd"
        if case.reference is not None:
            continue
        yield name, "second", (call(getattr(torch.func, kind), case), call(getattr(eindiff.torch, kind), case))
        if case.order == 2:
            yield name, "grad", (call(torch.func.grad, case), call(eindiff.torch.grad, case))
            along = [partial(_along, x, pytree.tree_map) for x in (whole.transform("hvp"), eindiff.torch.hvp)]
            yield name, "hvp", (call(along[0], case), call(along[1], case))


# Reports


def _line(row: Row) -> str:
    peer, ours = row.peer, row.ours
    return (
        f"{row.name[:36]:36s} first {peer.first * 1e3:8.1f} {ours.first * 1e3:8.1f} ms  call {peer.call * 1e6:9.1f} "
        f"{ours.call * 1e6:9.1f} us  {peer.call / ours.call:7.2f} x  error {row.error:.0e}"
    )


def summary(rows: list[Row], repeated: float) -> str:
    """How many functions are faster, and by how much, where first calls over a ratio were measured again."""
    speedups = sorted(row.peer.call / row.ours.call for row in rows)
    firsts = sorted(row.ours.first / row.peer.first for row in rows)
    memory = [row.ours.bytes / row.peer.bytes for row in rows if row.ours.bytes and row.peer.bytes]
    lines = [
        f"{len(rows)} functions; calls: median {median(speedups):.2f} times faster, the best {speedups[-1]:.0f} times, "
        f"{sum(x >= 1 / 1.1 for x in speedups)} at most 1.1 times slower, the worst {1 / speedups[0]:.2f} times",
        f"first calls: median {median(firsts):.2f} times as long, {sum(x <= 1.5 for x in firsts)} at most 1.5 times, "
        f"the worst {firsts[-1]:.1f} times (over {repeated:g}: the least of {1 + REPEATED} measurements of each side)",
    ]
    if memory:
        count = sum(x <= 1.0 for x in memory)
        lines.append(f"memory: median {median(memory):.2f} times as much, not more in {count} of {len(memory)}")
    wrong = [row.name for row in rows if not row.error <= 1e-8]
    return "\n\n".join([*lines, f"relative differences over 1e-8: {', '.join(wrong) or 'none'}"])


def _machine() -> dict[str, Any]:
    versions = {name: metadata.version(name) for name in ("numpy", "jax", "torch")}
    return {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version(), "versions": versions}


def write(out: Path, rows: list[Row], options: argparse.Namespace) -> None:
    """The table, and all figures."""
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"drop-in-{options.library}"
    kinds = f" --kinds {' '.join(options.kinds)}" if options.kinds != ["second"] else ""
    slower = f" --slower {options.slower:g}" if options.slower else ""
    direct = " --direct" if options.direct else ""
    how = f"--scale {options.scale}{kinds}{slower}{direct} --out {options.out}"
    command = f"python -m benchmarks.drop_in {options.library} {how}"
    data = {"command": command, "machine": _machine(), "rows": [asdict(row) for row in rows]}
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    table = [
        [
            row.name, duration(row.peer.call), duration(row.ours.call), f"{row.peer.call / row.ours.call:.2f}",
            duration(row.peer.first), duration(row.ours.first), f"{row.ours.first / row.peer.first:.2f}",
            f"{row.ours.bytes / row.peer.bytes:.2f}" if row.ours.bytes and row.peer.bytes else "",
        ]
        for row in sorted(rows, key=lambda row: row.peer.call / row.ours.call)
    ]  # fmt: skip
    peer = {"jax": "JAX", "torch": "PyTorch"}[options.library]
    head = ["function", peer, "eindiff", "times faster", f"{peer}, first", "eindiff, first", "ratio", "memory, ratio"]
    machine = ", ".join(f"{name} {version}" for name, version in data["machine"]["versions"].items())
    place = f"{data['machine']['cores']} cores, double precision, {machine}"
    what = summary(rows, options.firsts)
    text = f"# One changed import: {peer}\n\n`{command}`: {place}\n\n{what}\n\n{markdown(head, table)}\n"
    stem.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
