"""Results read from their file, and what follows from them: best variants, ratios, slopes, rank correlations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks.problem import QUANTITIES
from benchmarks.problems import PROBLEMS
from benchmarks.tools import TOOLS

Case = dict[str, Any]
MODES = ("auto", "reverse", "cross_country")
LARGER = 3  # sizes from which a slope is taken
PEERS = tuple(name for name, tool in TOOLS.items() if tool.peer)


class Group(NamedTuple):
    """A problem and a quantity."""

    problem: str
    quantity: str

    @property
    def title(self) -> str:
        """For people."""
        names = {"gradient": "value and gradient", "hessian": "Hessian", "compressed": "compressed Hessian"}
        return f"{PROBLEMS[self.problem].title}: {names[self.quantity]}"


class Results:
    """All cases of a folder."""

    def __init__(self, folder: Path) -> None:
        content = json.loads((folder / "results.json").read_text())
        self.machine, self.settings = content["machine"], content["settings"]
        self.cases = [case for case in content["cases"] if case["problem"] in PROBLEMS]
        present = {(case["problem"], case["quantity"]) for case in self.cases}
        self.groups = [Group(p, q) for q in QUANTITIES for p in PROBLEMS if (p, q) in present]

    def sizes(self, group: Group) -> list[int]:
        """The sizes that were run."""
        return sorted({case["n"] for case in self.cases if (case["problem"], case["quantity"]) == group})

    def best(self, group: Group, tool: str, n: int, variant: str | None = None) -> Case | None:
        """The fastest variant of a tool that gave the right result; if there is none, one that failed."""
        found = [
            case
            for case in self.cases
            if (case["problem"], case["quantity"], case["n"], case["tool"]) == (*group, n, tool)
            and variant in (None, case["variant"])
        ]
        return min(found, key=time, default=None)

    def ours(self, group: Group, n: int) -> Case | None:
        """What people get who do not choose a mode; where that was not run, the best mode."""
        return self.best(group, "eindiff", n, "auto") or self.best(group, "eindiff", n)

    def peer(self, group: Group, n: int) -> Case | None:
        """The fastest of the other frameworks."""
        return min(filter(None, [self.best(group, tool, n) for tool in PEERS]), key=time, default=None)

    def slope(self, group: Group, pick: Callable[[int], Case | None]) -> float | None:
        """The exponent of n in the time of a tool, fitted to the larger sizes."""
        points = [(n, time(pick(n))) for n in self.sizes(group)]
        points = [point for point in points if np.isfinite(point[1])][-LARGER:]
        if len(points) < 2:
            return None
        sizes, seconds = np.log(np.array(points)).T
        return float(np.polyfit(sizes, seconds, 1)[0])

    def modes(self, group: Group) -> list[tuple[int, float]]:
        """The time of cross-country mode over that of reverse mode, at each size."""
        found = []
        for n in self.sizes(group):
            cross, reverse = (self.best(group, "eindiff", n, mode) for mode in ("cross_country", "reverse"))
            if (value := ratio(cross, reverse)) is not None:
                found.append((n, value))
        return found

    def correlation(self, problem: str) -> tuple[int, float] | None:
        """How many (quantity, mode, n) there are, and the rank correlation of their predicted and measured times."""
        points = [
            (case["predicted"]["seconds"], case["median"])
            for case in self.cases
            if case["problem"] == problem and case["quantity"] != "compressed" and case["tool"] == "eindiff"
            if case["status"] == "ok" and "seconds" in case["predicted"]
        ]
        if len(points) < 3:
            return None
        return len(points), float(stats.spearmanr(*zip(*points, strict=True)).statistic)


def time(case: Case | None) -> float:
    """The median time of a case that gave the right result, else infinite."""
    return case["median"] if case is not None and case["status"] == "ok" else float("inf")


def ratio(case: Case | None, other: Case | None) -> float | None:
    """The time of one case over that of another, if both have one."""
    quotient = time(case) / time(other) if np.isfinite(time(other)) else float("inf")
    return quotient if np.isfinite(quotient) else None
