"""A picture of a derivative's value: where its terms have entries, and the arrays that they are made of.

`picture_scheme` says what is drawn where; here it gets colours, lines, texts, and places on a page.
"""

from __future__ import annotations

from math import ceil, prod, sqrt
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.patches import Patch

from eindiff.core.errors import shape_text
from eindiff.structure.picture_scheme import COLOURS, OTHER, PALE, Scheme, Side, scheme_of
from eindiff.structure.terms import Array

if TYPE_CHECKING:
    from eindiff.structure.derivative import Derivative

CORES = 6  # arrays that are shown
SIDE_ENTRIES = 40  # entries of an array along a side of its picture

INK, GREY, FAINT, PAPER = "#303030", "#767676", "#e2e2e0", "#f7f7f5"
NEGATIVE_TO_POSITIVE = ("#b5532e", "#f3d9c8", "#ffffff", "#cfdde0", "#2f6673")

SIZE, BESIDE, LINE, LETTER = 4.2, 3.4, 0.19, 0.068  # inches: matrix, width of what is beside it, text


def plot(derivative: Derivative, axis: Any = None) -> Any:
    """Draw a derivative, and return the matplotlib Axes of the matrix; its `figure` can be saved.

    The matrix has a colour for each term where that has entries; cells with several terms have squares in squares.
    Variables are separated by lines and named by their shapes. Beside it are the arrays of the terms. With `axis`, only
    the matrix and its legend are drawn, into these Axes.
    """
    scheme = scheme_of(derivative)
    if axis is not None:
        _draw_matrix(axis, scheme)
        axis.set_title(_title(derivative, 60), fontsize=9, color=INK)
        _draw_legend(axis, scheme, bbox_to_anchor=(1.02, 1))
        return axis
    page = Page(scheme, derivative)
    _draw_matrix(page.matrix, scheme)
    _draw_legend(page.legend, scheme)
    for panel, (name, array) in zip(page.cores, scheme.arrays.items(), strict=False):
        _draw_core(panel, name, array)
    return page.matrix


def _title(derivative: Derivative, width: int) -> str:
    """The line that says what it is; a long one is cut before the sizes in bytes."""
    what, memory = repr(derivative).rsplit(", ", 1)
    if len(what) + len(memory) < width:
        return f"{what}, {memory}"
    return "\n".join([*wrap(shorten(what, 2 * width - 8, placeholder=" …"), width), memory])


class Page:
    """A figure with the matrix on the left, and the legend and the arrays on the right."""

    def __init__(self, scheme: Scheme, derivative: Derivative) -> None:
        height, width = _box(scheme)
        left = 0.25 + LETTER * max((len(text) for _, _, text in _names(scheme.rows, height)), default=0)
        right = left + width + 0.4
        title = _title(derivative, int((right + BESIDE) / 0.08))
        turned = [LETTER * len(text) for _, length, text in _names(scheme.cols, width) if not _fits(text, length)]
        top = 0.5 + 0.2 * title.count("\n") + max(turned, default=LINE)
        count, lines = min(len(scheme.arrays), CORES), LINE * len(_legend(scheme)) + 0.1
        across = 1 if count < 2 else 2 if count < 5 else 3
        side = (BESIDE - 0.3 * (across - 1)) / max(across, 2)
        below = top + lines + 0.35
        end = max(top + height + 0.35, below + ceil(count / across) * (side + 0.55))
        self._size = right + BESIDE + 0.15, end
        self._figure = plt.figure(figsize=self._size)
        self._text(0.15, 0.12, title, fontsize=10, color=INK)
        self.matrix = self._place(left, top, width, height)
        self.legend = self._place(right, top, BESIDE, lines)
        self.legend.axis("off")
        places = [(right + k % across * (side + 0.3), below + k // across * (side + 0.55)) for k in range(count)]
        self.cores = [self._place(x, y, side, side) for x, y in places]
        if len(scheme.arrays) > count:
            self._text(right, end - 0.2, f"and {len(scheme.arrays) - count} more", fontsize=8, color=GREY)

    def _place(self, x: float, y: float, width: float, height: float) -> Any:
        """Axes with an upper left corner, in inches."""
        across, down = self._size
        place = x / across, 1 - (y + height) / down, width / across, height / down
        return self._figure.add_axes(place, anchor="NW")

    def _text(self, x: float, y: float, text: str, **style: Any) -> None:
        self._figure.text(x / self._size[0], 1 - y / self._size[1], text, va="top", **style)


def _names(side: Side, inches: float) -> list[tuple[float, float, str]]:
    """The middle, the length in inches and the shape of each variable that is large enough to be named."""
    scale, found = inches / max(side.places[-1], 1), []
    for at, end, shape in zip(side.places, side.places[1:], side.shapes, strict=False):
        if (end - at) * scale >= 0.7 * LINE:
            found.append(((at + end) / 2, (end - at) * scale, shape_text(shape)))
    return found


def _box(scheme: Scheme) -> tuple[float, float]:
    """Height and width of the matrix in inches: squares for its entries, unless it is very long."""
    rows, cols = scheme.rows.places[-1], scheme.cols.places[-1]
    scale = SIZE / max(rows, cols, 1)
    return max(rows * scale, 0.5), max(cols * scale, 0.5)


def _fits(text: str, length: float) -> bool:
    """Whether the name of a variable needs no more than these inches."""
    return LETTER * len(text) <= length


def _draw_matrix(axis: Any, scheme: Scheme) -> None:
    """The squares of all terms, on paper with the lines and names of the variables."""
    height, width = _box(scheme)
    axis.set(xlim=(0, max(scheme.cols.places[-1], 1)), ylim=(max(scheme.rows.places[-1], 1), 0), facecolor=PAPER)
    axis.set_box_aspect(height / width)
    row, column, side, kind, nonzero = scheme.squares.T[:, :, None]
    half = side * (0.46 if max(scheme.rows.places[-1], scheme.cols.places[-1]) <= 40 else 0.48)
    corners: Any = np.stack([column + 0.5 + half * [-1, 1, 1, -1], row + 0.5 + half * [-1, -1, 1, 1]], axis=2)
    palette = np.array([to_rgba(colour, alpha) for colour in (*COLOURS, OTHER) for alpha in (PALE, 1.0)])
    which = 2 * np.minimum(kind, len(COLOURS)) + nonzero
    colours = palette[which[:, 0].astype(int)]
    axis.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="none", snap=False))
    if not len(colours):
        axis.text(0.5, 0.5, "0", transform=axis.transAxes, ha="center", va="center", fontsize=28, color=GREY)
    _draw_sides(axis, scheme)
    axis.set_xlabel(scheme.note, loc="left", fontsize=8, color=GREY)


def _draw_sides(axis: Any, scheme: Scheme) -> None:
    """Lines between variables, fainter ones between the blocks of their first axes, and the shapes."""
    rows, cols = scheme.rows, scheme.cols
    height, width = _box(scheme)
    for draw, side, other in ((axis.hlines, rows, cols), (axis.vlines, cols, rows)):
        draw(side.inside, 0, other.places[-1], colors=FAINT, linewidths=0.6, zorder=0.5)
        draw(side.places[1:-1], 0, other.places[-1], colors=INK, linewidths=0.9, zorder=3)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=8, labelcolor=INK)
    for put, names in ((axis.set_xticks, _names(cols, width)), (axis.set_yticks, _names(rows, height))):
        put([middle for middle, _, _ in names], [text for _, _, text in names])
    for label, (_, length, text) in zip(axis.get_xticklabels(), _names(cols, width), strict=True):
        label.set_rotation(0 if _fits(text, length) else 90)
    for spine in axis.spines.values():
        spine.set(color=GREY, linewidth=0.8)


def _legend(scheme: Scheme) -> list[tuple[str, str]]:
    """Colours and what they are."""
    entries = [(colour, f"{text:.44}") for colour, text in zip(COLOURS, scheme.labels, strict=False)]
    more = len(scheme.labels) - len(entries)
    return [*entries, (OTHER, f"{more} more terms")] if more else entries


def _draw_legend(axis: Any, scheme: Scheme, **place: Any) -> None:
    if entries := _legend(scheme):
        axis.legend(
            [Patch(color=colour) for colour, _ in entries], [text for _, text in entries], loc="upper left",
            borderaxespad=0, borderpad=0, frameon=False, handlelength=0.9, handleheight=0.9, labelcolor=INK,
            prop={"family": "monospace", "size": 8.5}, **place,
        )  # fmt: skip


def _draw_core(panel: Any, name: str, array: Array) -> None:
    """An array as colours, with its name, its shape and the range of its entries; of a large one a sample."""
    sample = _sample(array)
    image = _tiles(sample) if array.ndim == 3 else sample.reshape(prod(sample.shape[: ceil(array.ndim / 2)]), -1)
    scale = np.abs(sample[np.isfinite(sample)]).max(initial=0.0) or 1.0
    colours = LinearSegmentedColormap.from_list("signs", NEGATIVE_TO_POSITIVE, N=255)
    panel.imshow(image, cmap=colours, vmin=-scale, vmax=scale, aspect="auto", interpolation="nearest")
    panel.set_box_aspect(min(max(image.shape[0] / image.shape[1], 0.2), 1 / 0.2))
    panel.set_title(f"{name}  {shape_text(array.shape)}", loc="left", fontsize=8, color=INK, pad=3)
    ends = [f"{find(array, axis=None):.3g}".replace("e+0", "e") for find in (np.fmin.reduce, np.fmax.reduce)]
    note = "\nsample" if sample.size < array.size else ""
    panel.set_xlabel(" … ".join(ends) + note, loc="left", fontsize=7, color=GREY, labelpad=2)
    panel.set(xticks=[], yticks=[], facecolor=FAINT)
    for spine in panel.spines.values():
        spine.set(color=FAINT, linewidth=0.6)


def _sample(array: Array) -> Array:
    """Some entries of an array, evenly spaced along each axis, few enough to be seen."""
    along = max(2, int(SIDE_ENTRIES ** (1 / ceil(array.ndim / 2))))
    limits = (9, 12, 12) if array.ndim == 3 else [along] * array.ndim
    steps = [ceil(size / limit) for size, limit in zip(array.shape, limits, strict=True)]
    return array[tuple([slice(None, None, step) for step in steps])].astype(float)


def _tiles(stack: Array) -> Array:
    """Matrices beside and below each other, with gaps."""
    count, height, width = stack.shape
    across = ceil(sqrt(count))
    tiles = np.full((ceil(count / across) * across, height + 1, width + 1), np.nan)
    tiles[:count, :height, :width] = stack
    return tiles.reshape(-1, across, height + 1, width + 1).swapaxes(1, 2).reshape(-1, across * (width + 1))[:-1, :-1]
