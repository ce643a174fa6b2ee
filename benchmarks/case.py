"""One case (problem, quantity, tool, variant, n) in a process of its own.

`python -m benchmarks.case FD '{"problem": ..., ...}'` writes lines of JSON to the file descriptor: the stage it enters,
and at the end what it measured.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.problem import Array
from benchmarks.problems import PROBLEMS
from benchmarks.tools import TOOLS, Task

PIECE = 1 << 20  # entries that are compared at a time
MOST_SAMPLES = 2000
OUT_OF_MEMORY = ("out of memory", "resource_exhausted", "resource exhausted", "can't allocate", "bad_alloc", "oom")


def main(descriptor: int, request: dict[str, Any]) -> None:
    """Run the case and report on it, also if it fails."""
    with os.fdopen(descriptor, "w") as pipe:

        def report(**message: Any) -> None:
            print(json.dumps(message), file=pipe, flush=True)

        try:
            report(**measure(request, report))
        except ImportError as error:
            report(status="missing", message=str(error))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
            full = isinstance(error, MemoryError) or any(sign in text.lower() for sign in OUT_OF_MEMORY)
            report(status="out of memory" if full else "failed", message=text)


def measure(request: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
    """Build, call once, warm up, call for the time given, call once more for the memory, and compare the result."""
    task = Task(PROBLEMS[request["problem"]], request["quantity"], request["variant"], request["n"])
    tool = TOOLS[request["tool"]]()
    report(stage="first call")
    start = perf_counter()
    function = tool.build(task)
    built = perf_counter() - start
    inputs = tool.inputs(task, function)
    start = perf_counter()
    tool.call(function, inputs)
    first = built + perf_counter() - start
    report(stage="call")
    samples = timed_calls(lambda: tool.call(function, inputs), request["budget"], first)
    report(stage="memory")
    value, peak = _with_peak(lambda: tool.call(function, inputs))
    report(stage="comparison")
    measured = {"status": "ok", "samples": samples, "first": first, "peak": peak, "bytes": tool.size(value)}
    error = _error(tool.results(task, value), Path(request["reference"]))
    return measured | {"error": error, "predicted": tool.predicted(task)}


def timed_calls(call: Callable[[], Any], budget: float, first: float) -> list[float]:
    """The seconds of calls for as long as the budget says; after a slow first call there is no warming up."""
    gc.disable()
    end = perf_counter() + budget / 5
    while first < budget and perf_counter() < end:
        call()
    samples: list[float] = []
    end = perf_counter() + budget
    while not samples or (len(samples) < MOST_SAMPLES and perf_counter() < end):
        start = perf_counter()
        value = call()
        samples.append(perf_counter() - start)
        del value
    gc.enable()
    return samples


def _with_peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """The result of a call, and by how many bytes the resident memory rose above what it was before, at most."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)  # else the call may find memory that earlier calls have left
    before = _reset_peak()
    value = call()
    return value, max(0, _peak() - before)


def _reset_peak() -> int:
    """Make the peak what is resident now, where the system can do that; the peak after that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """The largest resident memory so far, in bytes."""
    try:
        fields = Path("/proc/self/status").read_text().split()
        return 1024 * int(fields[fields.index("VmHWM:") + 1])
    except (OSError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _error(results: list[Array], reference: Path) -> float:
    """The largest difference from the reference relative to its largest entry; the first to come is the reference."""
    paths = [reference.with_suffix(f".{index}") for index in range(len(results))]
    if not paths[0].exists():
        for array, path in zip(results, paths, strict=True):
            np.ascontiguousarray(array, float).tofile(path)
        return 0.0
    return max(_difference(np.asarray(array), path) for array, path in zip(results, paths, strict=True))


def _difference(array: Array, path: Path) -> float:
    """Compared in pieces, so that it takes little memory."""
    if 8 * array.size != path.stat().st_size:
        return float("inf")
    flat = array.reshape(-1)
    worst = largest = 0.0
    for start in range(0, array.size, PIECE):
        expected = np.fromfile(path, count=PIECE, offset=8 * start)
        difference = np.abs(flat[start : start + PIECE] - expected).max()
        worst = max(worst, float(difference) if np.isfinite(difference) else float("inf"))
        largest = max(largest, float(np.abs(expected).max()))
    return worst / largest if worst else 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
