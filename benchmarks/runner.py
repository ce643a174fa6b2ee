"""Runs cases in rounds, each in a process of its own, with caps on time and memory."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import psutil

from benchmarks.machine import describe
from benchmarks.problem import Problem
from benchmarks.tools import TOOLS

TOLERANCE = 1e-9
REPEATED = 20  # seconds; a case that takes longer is run in one round only
HOPELESS = 3  # a variant written by hand that takes so many times the best one at least is run in one round only
POLL = 0.05  # seconds between looks at the memory of a process


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    rounds: int = 3
    budget: float = 0.5  # seconds of calls a case and round
    seconds: float = 60.0  # cap on the first call and on one call
    gigabytes: float = 12.0  # cap on the memory of a process
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    tools: tuple[str, ...] = tuple(TOOLS)  # `tool` or `tool:variant`

    def wants(self, tool: str, variant: str) -> bool:
        """Whether a variant is asked for."""
        return tool in self.tools or f"{tool}:{variant}" in self.tools


@dataclass
class Case:
    """A case and what is known of it."""

    problem: str
    quantity: str
    tool: str
    variant: str
    n: int
    status: str = "ok"
    message: str = ""
    rounds: list[list[float]] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    peak: int = 0
    bytes: int = 0
    error: float = 0.0
    predicted: dict[str, float] = field(default_factory=dict)
    took: float = 0.0

    @property
    def key(self) -> tuple:
        """What identifies the case."""
        return (self.problem, self.quantity, self.tool, self.variant, self.n)

    @property
    def least(self) -> float:
        """The least of the samples of all rounds."""
        return min((min(samples) for samples in self.rounds), default=float("inf"))

    def add(self, measured: dict[str, Any]) -> None:
        """What one run has found."""
        self.status, self.message = measured["status"], measured.get("message", "")
        if self.status != "ok":
            return
        self.rounds.append(measured["samples"])
        self.first.append(measured["first"])
        self.peak, self.bytes = max(self.peak, measured["peak"]), measured["bytes"]
        self.error, self.predicted = measured["error"], measured["predicted"]
        if not self.error < TOLERANCE:
            self.status, self.message = "wrong", f"relative error {self.error:.0e}"

    def summary(self) -> dict[str, Any]:
        """The case for the file: samples summarized."""
        result = {name: value for name, value in asdict(self).items() if name not in ("rounds", "first", "took")}
        if not self.rounds:
            return result
        pooled = np.concatenate(self.rounds)
        low, median, high = np.quantile(pooled, [0.25, 0.5, 0.75])
        times = {"samples": len(pooled), "median": median, "least": pooled.min(), "quartiles": [low, high]}
        medians = {"rounds": [np.median(samples) for samples in self.rounds], "first": np.median(self.first)}
        return result | times | medians


def run(problems: Iterable[tuple[Problem, str, tuple[int, ...]]], settings: Settings, out: Path) -> None:
    """Run problems, each with a quantity and sizes, and keep the file of results up to date."""
    path = out / "results.json"
    out.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text())["cases"] if path.exists() else []
    cases = {_key(case): case for case in known}
    for done in _groups(problems, settings):
        cases.update({case.key: case.summary() for case in done})
        content = {"machine": describe(settings.threads), "settings": asdict(settings), "cases": list(cases.values())}
        path.write_text(written(content))


def written(content: dict[str, Any]) -> str:
    """Results as JSON, with a line for each case and four digits for each number."""
    short = json.loads(json.dumps(content, default=float), parse_float=lambda text: float(f"{float(text):.4g}"))
    cases = ",\n".join(json.dumps(case) for case in short.pop("cases"))
    return f'{json.dumps(short, indent=1)[:-2]},\n "cases": [\n{cases}\n]}}\n'


def _key(case: dict[str, Any]) -> tuple:
    return tuple([case[name] for name in ("problem", "quantity", "tool", "variant", "n")])


def _groups(problems: Iterable[tuple[Problem, str, tuple[int, ...]]], settings: Settings) -> Iterator[list[Case]]:
    """The cases of one problem, quantity and size after the other; what fails is not tried at larger sizes."""
    for problem, quantity, grid in problems:
        failed: dict[tuple[str, str], str] = {}
        for n in grid:
            cases = [
                Case(problem.name, quantity, name, variant, n)
                for name, tool in TOOLS.items()
                for variant in tool.variants(problem, quantity)
                if settings.wants(name, variant)
            ]
            for case in cases:
                if reason := failed.get((case.tool, case.variant)):
                    case.status, case.message = "skipped", reason
            _run_group([case for case in cases if case.status == "ok"], settings)
            for case in cases:
                if case.status not in ("ok", "wrong"):
                    failed[case.tool, case.variant] = case.message if case.status == "skipped" else case.status
            yield cases


def _run_group(cases: list[Case], settings: Settings) -> None:
    """Rounds over all tools, so that a slow spell of the machine does not hit a single one."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        for number in range(settings.rounds):
            best = min((case.least for case in cases if case.tool == "hand"), default=0)
            for case in cases:
                slow = case.took > REPEATED or (case.tool == "hand" and case.least > HOPELESS * best)
                if number and (case.status != "ok" or slow):
                    continue
                start = monotonic()
                case.add(_run(case, settings, Path(folder, "reference")))
                case.took = monotonic() - start
                _show(case, number)


def _show(case: Case, number: int) -> None:
    """One line on stderr."""
    name = f"{case.problem} {case.quantity} n={case.n} {case.tool} {case.variant}".strip()
    if case.rounds:
        time = f"{np.median(case.rounds[-1]):.3g} s, first {case.first[-1]:.3g} s"
        name += f": {time}, peak {case.peak / 1e6:.0f} MB, error {case.error:.0e}"
    status = "" if case.status == "ok" else f": {case.status.upper()} {case.message}"
    print(f"[round {number + 1}] {name}{status}", file=sys.stderr, flush=True)


def _run(case: Case, settings: Settings, reference: Path) -> dict[str, Any]:
    """One case in its process; its last message, or why there is none."""
    request = {name: getattr(case, name) for name in ("problem", "quantity", "tool", "variant", "n")}
    request |= {"budget": settings.budget, "reference": str(reference)}
    read, write = os.pipe()
    threads = str(settings.threads)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.case", str(write), json.dumps(request)],
            stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[write], env=environment,
        )  # fmt: skip
        os.close(write)
        try:
            found = _watch(process, read, settings)
        finally:
            os.close(read)
            process.kill()
            process.wait()
        if found is not None:
            return found
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    status = "out of memory" if process.returncode == -9 else "failed"
    return {"status": status, "message": (lines or [f"exit status {process.returncode}"])[-1][:200]}


def _watch(process: subprocess.Popen, pipe: int, settings: Settings) -> dict[str, Any] | None:
    """Follow the messages of a process; give up where it exceeds its time in a stage, or its memory."""
    stage, entered, text = "import", monotonic(), b""
    watched = psutil.Process(process.pid)
    while True:
        if select.select([pipe], [], [], POLL)[0]:
            part = os.read(pipe, 1 << 16)
            if not part:
                return None
            *lines, text = (text + part).split(b"\n")
            for message in map(json.loads, lines):
                if "status" in message:
                    return message
                stage, entered = message["stage"], monotonic()
        if monotonic() - entered > settings.seconds + 2 * settings.budget:
            return {"status": f"> {settings.seconds:.0f} s", "message": stage}
        with suppress(psutil.Error):
            if watched.memory_info().rss > settings.gigabytes * 2**30:
                return {"status": "out of memory", "message": f"more than {settings.gigabytes:g} GiB"}
