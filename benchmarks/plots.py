"""Plots in the style of the paper's figures: time over n, both logarithmic, one panel a problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import PROBLEMS
from benchmarks.results import PEERS, Case, Group, Results, ratio, time
from benchmarks.tools import TOOLS

OURS = "#c8102e"
COLOURS = {
    "jax": "#1f77b4", "torch": "#e08a00", "tensorflow": "#2ca02c", "autograd": "#9467bd", "casadi": "#8c6d4f",
}  # fmt: skip
STYLE = {
    "svg.fonttype": "none", "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.5, "legend.frameon": False, "lines.markersize": 3,
}  # fmt: skip
COLUMNS = 3
Pick = Callable[[int], Case | None]


def draw(results: Results, folder: Path) -> dict[str, Path]:
    """All plots that the results allow, by their titles."""
    import matplotlib

    matplotlib.use("Agg")
    figures = {
        "Value and gradient": ("gradient", [g for g in results.groups if g.quantity == "gradient"]),
        "Hessians of the paper": ("hessian", _hessians(results, paper=True)),
        "More Hessians": ("hessian_more", _hessians(results, paper=False)),
    }
    drawn = {}
    with matplotlib.rc_context(STYLE):
        for title, (name, groups) in figures.items():
            if groups:
                drawn[title] = _figure(groups, partial(_panel, results), folder / f"{name}.svg")
        groups = [g for g in results.groups if g.quantity == "hessian"]
        if any(_mode_ratios(results, group) for group in groups):
            drawn["Cross-country over reverse mode"] = _modes(results, groups, folder / "modes.svg")
    return drawn


def _hessians(results: Results, paper: bool) -> list[Group]:
    return [g for g in results.groups if g.quantity == "hessian" and PROBLEMS[g.problem].paper == paper]


def _figure(groups: list[Group], panel: Callable[[Any, Group], None], path: Path) -> Path:
    """Panels in rows, and one legend after the last panel."""
    import matplotlib.pyplot as plt

    rows = -(-(len(groups) + 1) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(8.4, 2.5 * rows), squeeze=False, layout="constrained")
    for axis, group in zip(axes.flat, groups, strict=False):
        panel(axis, group)
    lines = {line.get_label(): line for axis in axes.flat[: len(groups)] for line in axis.lines}
    for axis in axes.flat[len(groups) :]:
        axis.axis("off")
    axes.flat[len(groups)].legend(lines.values(), lines.keys(), loc="center", fontsize=8, handlelength=3)
    figure.savefig(path)
    plt.close(figure)
    return path


def _panel(results: Results, axis: Any, group: Group) -> None:
    """One problem: peers thin, the form by hand black, ours thick and red."""
    axis.set(title=PROBLEMS[group.problem].title, xlabel="n", ylabel="seconds", xscale="log", yscale="log")
    for tool in PEERS:
        pick = partial(results.best, group, tool=tool)
        _line(axis, results.sizes(group), pick, label=TOOLS[tool].title, color=COLOURS[tool], lw=1.2, marker="o")
    ours = {"eindiff": ("auto", "-", 2.4), "eindiff, reverse": ("reverse", "--", 1.2)}
    ours["eindiff, cross-country"] = ("cross_country", ":", 1.6)
    for label, (mode, style, width) in ours.items():
        pick = partial(results.best, group, tool="eindiff", variant=mode)
        _line(axis, results.sizes(group), pick, label=label, color=OURS, ls=style, lw=width, marker="s", zorder=4)
    pick = partial(results.best, group, tool="hand")
    _line(axis, results.sizes(group), pick, label="by hand", color="black", lw=1, marker="D", mfc="white", zorder=5)
    compressed = Group(group.problem, "compressed")
    if group.quantity == "hessian" and compressed in results.groups:
        for label, tool, colour, marker in (
            ("eindiff, compressed", "eindiff", OURS, "^"),
            ("by hand, compressed", "hand", "black", "v"),
        ):
            pick = partial(results.best, compressed, tool=tool)
            _line(axis, results.sizes(compressed), pick, label=label, color=colour, ls="-.", lw=1, marker=marker)


def _line(axis: Any, sizes: list[int], pick: Pick, **style: Any) -> None:
    points = [(n, time(pick(n=n))) for n in sizes]
    points = [(n, seconds) for n, seconds in points if np.isfinite(seconds)]
    if points:
        axis.plot(*zip(*points, strict=True), **style)


def _mode_ratios(results: Results, group: Group) -> list[tuple[int, float]]:
    """Cross-country over reverse mode at each size."""
    found = []
    for n in results.sizes(group):
        cross, reverse = (results.best(group, n, "eindiff", mode) for mode in ("cross_country", "reverse"))
        if (value := ratio(cross, reverse)) is not None:
            found.append((n, value))
    return found


def _modes(results: Results, groups: list[Group], path: Path) -> Path:
    """The ratio of the two modes over n, all problems in one panel."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    axis.axhline(1, color="black", lw=0.8)
    colours = plt.get_cmap("tab20").colors
    for index, group in enumerate(groups):
        if points := _mode_ratios(results, group):
            style = {"marker": "os^vD"[index % 5], "color": colours[index % 20], "lw": 1.2}
            axis.plot(*zip(*points, strict=True), label=PROBLEMS[group.problem].title, **style)
    axis.set(xlabel="n", ylabel="cross-country / reverse", xscale="log", yscale="log")
    figure.legend(loc="outside right center", fontsize=7)
    figure.savefig(path)
    plt.close(figure)
    return path
