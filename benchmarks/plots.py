"""Plots in the style of the paper's figures: time over n, both logarithmic, one panel a problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import PROBLEMS
from benchmarks.results import PEERS, Case, Group, Results, time
from benchmarks.tools import TOOLS

OURS = "#c8102e"
COLOURS = {
    "jax": "#1f77b4", "torch": "#e08a00", "tensorflow": "#2ca02c", "autograd": "#9467bd", "casadi": "#8c6d4f",
}  # fmt: skip
STYLE = {
    "svg.fonttype": "none", "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.5, "legend.frameon": False, "lines.markersize": 3,
    "svg.hashsalt": "eindiff", "path.simplify": True,
}  # fmt: skip
COLUMNS = 3
APART = 0.12  # of the axis, at least, between two labels
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
                drawn[title] = panels(groups, partial(_panel, results), folder / f"{name}.svg")
        groups = [g for g in results.groups if g.quantity == "hessian"]
        if any(results.modes(group) for group in groups):
            drawn["Cross-country over reverse mode"] = _modes(results, groups, folder / "modes.svg")
    return drawn


def _hessians(results: Results, paper: bool) -> list[Group]:
    return [g for g in results.groups if g.quantity == "hessian" and PROBLEMS[g.problem].paper == paper]


def panels(groups: list[Group], panel: Callable[[Any, Group], None], path: Path) -> Path:
    """Panels in rows, and one legend after the last panel."""
    import matplotlib.pyplot as plt

    rows = -(-(len(groups) + 1) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(8.4, 2.5 * rows), squeeze=False, layout="constrained")
    for axis, group in zip(axes.flat, groups, strict=False):
        panel(axis, group)
        if axis.lines:
            _scales(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds")
    found = [line for axis in axes.flat[: len(groups)] for line in axis.lines]
    lines = {line.get_label(): line for line in sorted(found, key=lambda line: -line.get_zorder())}
    for axis in axes.flat[len(groups) :]:
        axis.axis("off")
    axes.flat[len(groups)].legend(lines.values(), lines.keys(), loc="center", fontsize=8, handlelength=3)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _scales(axis: Any) -> None:
    """Both axes logarithmic, n labelled where it was measured, seconds at powers of ten around what was measured."""
    points = np.concatenate([line.get_xydata() for line in axis.lines])
    sizes, (low, high) = np.unique(points[:, 0]), np.log10([points[:, 1].min(), points[:, 1].max()])
    axis.set(xscale="log", yscale="log", ylim=(10 ** np.floor(low), 10 ** np.ceil(high)))
    ticks = [sizes[-1]]
    for n in sizes[-2::-1]:
        if np.log(ticks[-1] / n) > APART * np.log(sizes[-1] / sizes[0]):
            ticks.append(n)
    axis.set_xticks(ticks, [f"{n / 1000:g}k" if n >= 10_000 else f"{n:g}" for n in ticks])
    axis.minorticks_off()


def _panel(results: Results, axis: Any, group: Group) -> None:
    """One problem: peers thin, the form by hand black, ours thick and red."""
    axis.set(title=PROBLEMS[group.problem].title, xlabel="n")
    for tool in PEERS:
        pick = partial(results.best, group, tool)
        _line(axis, results.sizes(group), pick, label=TOOLS[tool].title, color=COLOURS[tool], lw=1.2, marker="o")
    ours = {"eindiff": ("auto", "-", 2.4), "eindiff, reverse": ("reverse", "--", 1.2)}
    ours["eindiff, cross-country"] = ("cross_country", ":", 1.6)
    for label, (mode, style, width) in ours.items():
        pick = partial(results.best, group, "eindiff", variant=mode)
        _line(axis, results.sizes(group), pick, label=label, color=OURS, ls=style, lw=width, marker="s", zorder=4)
    pick = partial(results.best, group, "hand")
    _line(axis, results.sizes(group), pick, label="by hand", color="black", lw=1, marker="D", mfc="white", zorder=5)
    compressed = Group(group.problem, "compressed")
    if group.quantity == "hessian" and compressed in results.groups:
        for label, tool, colour, marker in (
            ("eindiff, compressed", "eindiff", OURS, "^"),
            ("by hand, compressed", "hand", "black", "v"),
        ):
            pick = partial(results.best, compressed, tool)
            _line(
                axis, results.sizes(compressed), pick, label=label, color=colour, ls="-.", lw=1, marker=marker, zorder=3
            )


def _line(axis: Any, sizes: list[int], pick: Pick, **style: Any) -> None:
    points = [(n, time(pick(n))) for n in sizes]
    points = [point for point in points if np.isfinite(point[1])]
    if points:
        axis.plot(*zip(*points, strict=True), **style)


def _modes(results: Results, groups: list[Group], path: Path) -> Path:
    """The ratio of the two modes over n, all problems in one panel."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    axis.axhline(1, color="black", lw=0.8)
    colours = plt.get_cmap("tab20").colors
    for index, group in enumerate(groups):
        if points := results.modes(group):
            style = {"marker": "os^vD"[index % 5], "color": colours[index % 20], "lw": 1.2}
            axis.plot(*zip(*points, strict=True), label=PROBLEMS[group.problem].title, **style)
    axis.set(xlabel="n", ylabel="cross-country / reverse", xscale="log")
    axis.set_yscale("log", base=2)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    figure.legend(loc="outside right center", fontsize=7)
    return _save(figure, path)
