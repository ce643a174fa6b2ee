"""How long people wait for the page's server: many users at once, who all ask for first derivatives.

    python -m benchmarks.serve --out benchmarks/results

The server is the command `eindiff serve` in a process of its own; the users are coroutines in this one, on the same
machine, each with a connection that stays open. They either ask again as soon as they have an answer, or pause as
people do. No two requests are equal, so that no answer comes from the cache, except where that is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from eindiff.apps.page.examples import GROUPS

USERS = 50
NUMBERS = count(2)  # of requests, over all loads
COMMAND = [sys.executable, "-m", "eindiff", "serve", "--no-open", "--port", "0"]


@dataclass(slots=True)
class Load:
    """What is asked, how often, and how long the answers took."""

    name: str
    order: int = 1
    pause: float = 0.0  # seconds between an answer and the next request, on average
    users: int = USERS
    repeated: bool = False  # whether all ask the same
    times: list[float] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0
    others: float = 0.0  # cores that were busy with something else

    def row(self) -> str:
        """A row of the table."""
        ordered = sorted(self.times)
        ms = [1000 * x for x in (statistics.median(ordered), ordered[int(0.95 * len(ordered))], ordered[-1])]
        count = len(self.times)
        figures = " | ".join(f"{x:.0f}" for x in (self.users, count, count / self.seconds, *ms, self.failed))
        return f"| {self.name} | {figures} | {self.others:.1f} |"


def requests(load: Load) -> Iterator[bytes]:
    """Requests without end, all different: the examples of the page, with a number in front."""
    examples = [example for group in GROUPS for example in group.examples]
    rng = random.Random(0)
    while True:
        example = rng.choice(examples)
        names, mark, last = example.expression.rpartition(";")
        expression = example.expression if load.repeated else f"{names}{mark} {next(NUMBERS)}*({last})"
        ask: dict[str, Any] = {"expression": expression, "declarations": example.declarations}
        body = json.dumps({**ask, "wrt": example.wrt[:1], "order": load.order}).encode()
        head = f"POST /api/derive HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
        yield head.encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body


async def user(port: int, load: Load, todo: Iterator[bytes], until: float) -> None:
    """Ask until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(random.uniform(0, load.pause))
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(next(todo))
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert length is not None
        await reader.readexactly(int(length[1]))
        load.times.append(time.perf_counter() - began)
        load.failed += not head.startswith(b"HTTP/1.1 200")
        await asyncio.sleep(random.uniform(0, 2 * load.pause))
    writer.close()


async def run(port: int, load: Load, seconds: float, server: psutil.Process) -> None:
    """All users of a load at once."""
    before, began = others(server), time.perf_counter()
    todo = requests(load)
    await asyncio.gather(*(user(port, load, todo, began + seconds) for _ in range(load.users)))
    load.seconds = time.perf_counter() - began
    load.others = max(0.0, (others(server) - before) / load.seconds)


def others(server: psutil.Process) -> float:
    """Seconds that the cores have worked so far, without those for this process and the server with its workers.

    Workers that have ended count among the children of the process that they were forked from.
    """
    every = psutil.cpu_times()
    below = [x.cpu_times() for x in [server, *server.children(recursive=True)]]
    own = sum(x.user + x.system + x.children_user + x.children_system for x in below)
    users = psutil.Process().cpu_times()
    return every.user + every.nice + every.system - own - users.user - users.system


def report(loads: list[Load], command: str) -> str:
    """The tables as Markdown."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return "\n".join(
        [
            "# Users of the page at once",
            "",
            f"python {platform.python_version()}, {cores} cores, which server, workers and users share, and other work "
            f"that the machine had to do. Command: `{command}`.",
            "",
            "Every request is a derivative of one of the page's examples, not asked before; times in milliseconds.",
            "",
            "| | users | requests | a second | median | 95 % | longest | not answered | other work, cores |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
            *(load.row() for load in loads),
            "",
        ]
    )


def main() -> None:
    """Start the server, run all loads, write the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--out", type=Path, help="folder for serve.md")
    options = parser.parse_args()
    loads = [
        Load("first derivatives, one user", users=1),
        Load("first derivatives, no pause"),
        Load("first derivatives, a pause of 1 s", pause=1.0),
        Load("Hessians, one user", order=2, users=1),
        Load("Hessians, no pause", order=2),
        Load("the same requests again, no pause", repeated=True),
    ]
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r":(\d+)/", server.stdout.readline())
            assert found is not None
            for load in loads:
                asyncio.run(run(int(found[1]), load, options.seconds, psutil.Process(server.pid)))
                print(load.row(), flush=True)
        finally:
            server.terminate()
    text = report(loads, "python -m benchmarks.serve" + (f" --out {options.out}" if options.out else ""))
    if options.out:
        (options.out / "serve.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
