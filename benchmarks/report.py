"""Tables in Markdown, and plots, of the results in a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import plots
from benchmarks.problems import PROBLEMS
from benchmarks.results import MODES, PEERS, Case, Group, Results, ratio, time
from benchmarks.tools import TOOLS

Cell = Callable[[Case], str]
Pick = Callable[[int], Case | None]
NOISY = 1.5  # from the first to the third quartile


def write(folder: Path) -> None:
    """`report.md` and the plots."""
    results = Results(folder)
    drawn = plots.draw(results, folder)
    parts = [_header(results), _summary(results)]
    parts += [f"![{title}]({path.name})" for title, path in drawn.items()]
    parts += ["## Times"] + [_times(results, group) for group in results.groups]
    parts += ["## First call", "Compilation and the first call."]
    parts += [_table(results, group, lambda case: duration(case["first"])) for group in results.groups]
    parts += ["## Memory", "Peak of a call above what was resident before, and the size of the result."]
    parts += [_table(results, group, _memory) for group in results.groups if group.quantity != "gradient"]
    parts += [_slopes(results), _correlations(results), _modes(results), _problems(results)]
    path = folder / "report.md"
    path.write_text("\n\n".join(part for part in parts if part) + "\n")
    print(f"{path} and {len(drawn)} plots written", file=sys.stderr)


def duration(seconds: float) -> str:
    """Seconds with three digits and a unit."""
    for unit, factor in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor or unit == "µs":
            return f"{float(f'{seconds / factor:.3g}'):g} {unit}"
    raise AssertionError


def size(count: float) -> str:
    """Bytes with a unit."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{float(f'{count / factor:.3g}'):g} {unit}"
    return f"{count:.0f} B"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None, form: str = ".2f") -> str:
    return "–" if value is None else f"{value:{form}}"


def _header(results: Results) -> str:
    machine, settings = results.machine, results.settings
    cores = f"{machine['cores']} cores, {machine['threads']} threads, {machine['memory_gb']} GiB"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return "\n\n".join(
        [
            "# Benchmarks",
            f"{machine['processor']}, {cores}, {machine['blas']}, {machine['system']}, Python {machine['python']}. "
            f"{versions}.",
            f"Double precision. Medians of the calls of {settings['rounds']} rounds; every result agrees with the one "
            f"written by hand to 1e-9, or is called wrong. Caps: {settings['seconds']:g} s a call, "
            f'{settings["gigabytes"]:g} GiB a process. *eindiff* without a mode is `mode="auto"`, the default. '
            f"A time with ~ is noisy: its quartiles are more than {NOISY} times apart.",
        ]
    )


def _summary(results: Results) -> str:
    """The ratios of each problem: at its largest size, and over all sizes."""
    head = ["", "n", "eindiff", "by hand", "eindiff / by hand", "over all n", "best other", "eindiff / best other"]
    rows = []
    for group in results.groups:
        ours = [(n, results.ours(group, n)) for n in results.sizes(group)]
        ours = [(n, case) for n, case in ours if np.isfinite(time(case))]
        if not ours:
            continue
        n, case = ours[-1]
        hand, peer = results.best(group, "hand", n), results.peer(group, n)
        all_ratios = [r for size, c in ours if (r := ratio(c, results.best(group, "hand", size))) is not None]
        mean = float(np.exp(np.mean(np.log(all_ratios)))) if all_ratios else None
        other = f"{TOOLS[peer['tool']].title} {duration(time(peer))}" if peer and np.isfinite(time(peer)) else "none"
        fields = [duration(time(case)), cell(hand, time_text), _number(ratio(case, hand)), _number(mean)]
        rows.append([group.title, str(n), *fields, other, _number(ratio(case, peer), ".2g")])
    return f"## Summary\n\nAt the largest n; *over all n* is the geometric mean.\n\n{markdown(head, rows)}"


def time_text(case: Case) -> str:
    low, high = case["quartiles"]
    return ("~" if high > NOISY * low else "") + duration(case["median"])


def _memory(case: Case) -> str:
    return f"{size(case['peak'])} for {size(case['bytes'])}"


def cell(case: Case | None, show: Cell) -> str:
    """A cell of a table, also for cases that failed."""
    if case is None:
        return ""
    if case["status"] in ("ok", "wrong"):
        mark = "" if case["status"] == "ok" else f" WRONG ({case['message']})"
        return show(case) + mark
    if case["status"] == "skipped":
        return f"({case['message']})"
    return case["status"] + (f" ({case['message'][:60]})" if case["status"] == "failed" else "")


def _columns(results: Results, group: Group) -> dict[str, Pick]:
    """The tools of a group, by title, each with its case at size n."""
    columns: dict[str, Pick] = {"by hand": partial(results.best, group, "hand")}
    for mode in MODES:
        title = "eindiff" if mode == "auto" else f"eindiff {mode.replace('_', '-')}"
        columns[title] = partial(results.best, group, "eindiff", variant=mode)
    for tool in PEERS:
        columns[TOOLS[tool].title] = partial(results.best, group, tool)
    return {title: pick for title, pick in columns.items() if any(pick(n) for n in results.sizes(group))}


def _table(results: Results, group: Group, show: Cell) -> str:
    columns = _columns(results, group)
    rows = [[str(n), *(cell(pick(n), show) for pick in columns.values())] for n in results.sizes(group)]
    return f"### {group.title}\n\n{markdown(['n', *columns], rows)}"


def _times(results: Results, group: Group) -> str:
    """The times with the best variant by hand and the ratios."""
    columns, rows = _columns(results, group), []
    for n in results.sizes(group):
        hand, ours, peer = results.best(group, "hand", n), results.ours(group, n), results.peer(group, n)
        cells = [cell(pick(n), time_text) for pick in columns.values()]
        variant = hand["variant"] if hand else ""
        rows.append([str(n), *cells, variant, _number(ratio(ours, hand)), _number(ratio(ours, peer), ".2g")])
    head = ["n", *columns, "best by hand", "eindiff / by hand", "eindiff / best other"]
    return f"### {group.title}\n\n{markdown(head, rows)}"


def _slopes(results: Results) -> str:
    rows = []
    for group in results.groups:
        ours = results.slope(group, partial(results.ours, group))
        hand = results.slope(group, partial(results.best, group, "hand"))
        rows.append([group.title, _number(ours), _number(hand)])
    note = "The exponent of n in the time, fitted to the three largest sizes."
    return f"## Slopes\n\n{note}\n\n{markdown(['', 'eindiff', 'by hand'], rows)}"


def _correlations(results: Results) -> str:
    rows = []
    for name, problem in PROBLEMS.items():
        if (found := results.correlation(name)) is not None:
            rows.append([problem.title, str(found[0]), _number(found[1])])
    if not rows:
        return ""
    note = "Spearman's rank correlation of `ed.plan(...).seconds` and the time measured, over quantities, modes and n."
    return f"## Predicted times\n\n{note}\n\n{markdown(['', 'cases', 'rank correlation'], rows)}"


def _modes(results: Results) -> str:
    rows = []
    for group in results.groups:
        if found := results.modes(group):
            rows.append([group.title, ", ".join(f"{value:.2f} ({n})" for n, value in found)])
    if not rows:
        return ""
    head = ["", "cross-country / reverse (n)"]
    return f"## Cross-country mode\n\nIts time over that of reverse mode.\n\n{markdown(head, rows)}"


def _problems(results: Results) -> str:
    """What went wrong, in words."""
    lines = [
        f"- {case['problem']} {case['quantity']} n={case['n']} {case['tool']} {case['variant']}: "
        f"{case['status']} {case['message']}"
        for case in results.cases
        if case["status"] not in ("ok", "skipped")
    ]
    return "## What did not finish\n\n" + "\n".join(lines) if lines else ""
