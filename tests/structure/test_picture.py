"""Pictures of structured derivatives: what is drawn is the structure, whatever the sizes are."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import combinations
from time import perf_counter
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

import eindiff as ed
from eindiff.structure.picture import CORES, plot
from eindiff.structure.picture_scheme import COLOURS, LARGE, SMALL
from objectives import OBJECTIVES
from pace import at_pace
from structured_values import hessian, jacobian, third_derivative


@pytest.fixture(autouse=True)
def no_figures_are_left() -> Iterator[None]:
    yield
    plt.close("all")


def gradient() -> ed.Derivative:
    """One row."""
    x = ed.vector("x", "n")
    return ed.structured(ed.gradient(ed.sum(ed.exp(x)), x), {"x": np.zeros(5)})


def empty() -> ed.Derivative:
    """No rows and no columns."""
    x = ed.vector("x", "n")
    return ed.structured(ed.hessian(ed.sum(ed.exp(x)), x), {"x": np.zeros(0)})


def many_variables() -> ed.Derivative:
    """Twelve variables, of 3 to 14 entries, and a term in most blocks."""
    xs = [ed.vector(f"x{k}", 3 + k) for k in range(12)]
    function = ed.exp(ed.sum(ed.concatenate(xs[:6]))) + ed.sum(ed.exp(ed.concatenate(xs)))
    point = {x.name: np.random.default_rng(0).normal(size=x.shape) for x in xs}
    return ed.structured(ed.hessian(function, xs), point)


OTHERS: list[Callable[[], ed.Derivative]] = [jacobian, third_derivative, gradient, empty, many_variables]
LARGER: dict[str, dict[str, int]] = {
    "factorization": {"m": 100_000, "n": 20, "k": 10},
    "factorization by both with ridge": {"m": 1000, "n": 200, "k": 10},
    "mixed effects logistic": {"g": 2000, "m": 8, "p": 12, "q": 3},
    "reconstruction": {"m": 100, "n": 80, "k": 12},
    "sigmoid net": {"b": 50, "n": 100, "h": 30, "k": 10},
    "separable": {"n": 1_000_000},
}


def squares(axis: Any) -> tuple[np.ndarray, list[str]]:
    """The cells (row, column) of all squares, and their colours, as they are drawn."""
    [drawn] = [x for x in axis.collections if isinstance(x, PolyCollection)]
    middles = np.array([path.vertices[:4].mean(axis=0) for path in drawn.get_paths()]).reshape(-1, 2)
    return np.floor(middles[:, ::-1]).astype(int), [to_hex(x) for x in drawn.get_facecolors()]


def legend(axis: Any) -> list[tuple[str, str]]:
    """Colours and texts of the legend, which is beside the matrix."""
    [found] = [x.get_legend() for x in axis.figure.axes if x.get_legend() is not None]
    patches, texts = found.get_patches(), found.get_texts()
    return [(to_hex(p.get_facecolor()), t.get_text()) for p, t in zip(patches, texts, strict=True)]


def panels(axis: Any) -> list[Any]:
    """The pictures of arrays."""
    return [x for x in axis.figure.axes if x.images]


def entries(derivative: ed.Derivative) -> int:
    """How many entries all terms together may have."""
    return sum(term.entry_count for term in derivative.terms)


# The matrix


@pytest.mark.parametrize("name", OBJECTIVES)
def test_small_operators_are_drawn_entry_by_entry(name: str) -> None:
    """Squares are where terms have entries, as many as they have, in as many colours as the legend explains."""
    derivative = hessian(name)
    axis = derivative.plot()
    cells, colours = squares(axis)
    assert len(cells) == entries(derivative)
    covered = np.zeros(derivative._grid.shape, bool)
    covered[tuple(cells.T)] = True
    assert covered[derivative.as_matrix() != 0].all()
    assert axis.get_xlim() == (0, covered.shape[1])
    assert axis.get_ylim() == (covered.shape[0], 0)
    if derivative.terms:
        explained = [colour for colour, _ in legend(axis)]
        assert set(colours) == set(explained)
        assert len(set(explained)) == len(explained)
    arrays = {id(x) for term in derivative.terms for x in term.arrays if x.ndim}
    assert len(panels(axis)) <= min(len(arrays), CORES)


def test_identity_and_core() -> None:
    """Six blocks of 3×3 in one colour; one array, and what it is."""
    derivative = hessian("factorization")
    axis = derivative.plot()
    cells, colours = squares(axis)
    expected = {(3 * i + a, 3 * i + b) for i in range(6) for a in range(3) for b in range(3)}
    assert {tuple(cell) for cell in cells.tolist()} == expected
    assert set(colours) == {COLOURS[0]}
    assert legend(axis) == [(COLOURS[0], "2 A  ab→ca|cb")]
    [core] = panels(axis)
    assert core.get_title(loc="left") == "A  3×3"
    np.testing.assert_array_equal(core.images[0].get_array(), derivative.terms[0].arrays[0])
    assert axis.figure.texts[0].get_text() == repr(derivative)


def test_terms_in_one_cell_are_squares_in_squares() -> None:
    """On the diagonal of a Kronecker sum, both terms are seen: the one with fewer entries is drawn last and smaller."""
    axis = hessian("sylvester").plot()
    [drawn] = [x for x in axis.collections if isinstance(x, PolyCollection)]
    cells, colours = squares(axis)
    sides = np.array([np.ptp(path.vertices[:, 0]) for path in drawn.get_paths()])
    at_origin = (cells == 0).all(axis=1)
    assert [colour for colour, at in zip(colours, at_origin, strict=True) if at] == [COLOURS[1], COLOURS[0]]
    first, second = sides[at_origin]
    assert second == pytest.approx(first / 2)
    alone = (cells == (0, 1)).all(axis=1)
    assert sides[alone] == pytest.approx([first])


def test_several_variables_have_lines_and_shapes() -> None:
    """A block and its mirror have one colour, and the array of the mirror is not shown again."""
    axis = hessian("mixed effects").plot()
    assert [x.get_text() for x in axis.get_xticklabels()] == ["5×2", "3"]
    assert [x.get_text() for x in axis.get_yticklabels()] == ["5×2", "3"]
    lines = [path.vertices for x in axis.collections if not isinstance(x, PolyCollection) for path in x.get_paths()]
    assert [[0, 10], [13, 10]] in [line.tolist() for line in lines]
    assert [[10, 0], [10, 13]] in [line.tolist() for line in lines]
    cells, colours = squares(axis)
    colour_of = {tuple(cell): colour for cell, colour in zip(cells.tolist(), colours, strict=True)}
    assert colour_of[0, 11] == colour_of[11, 0] == COLOURS[1]
    assert [text for _, text in legend(axis)] == ["A  abc→ab|ac", "2 B  abc→ab|c", "2 C  ab→a|b"]
    assert [x.get_title(loc="left") for x in panels(axis)] == ["A  5×2×2", "B  5×2×3", "C  3×3"]


def test_zeros_of_a_core_are_pale() -> None:
    """A matrix that happens to be tridiagonal."""
    A, x = ed.matrix("A", "n", "n"), ed.vector("x", "n")
    band = np.eye(7) + np.eye(7, k=1) + np.eye(7, k=-1)
    axis = ed.structured(ed.hessian(x @ A @ x, x), {"A": band, "x": np.ones(7)}).plot()
    [drawn] = [x for x in axis.collections if isinstance(x, PolyCollection)]
    strong = drawn.get_facecolors()[:, 3] == 1
    cells, _ = squares(axis)
    np.testing.assert_array_equal(strong, np.abs(cells[:, 0] - cells[:, 1]) <= 1)
    assert axis.get_xlabel() == "pale: zero at this point"


def test_zero() -> None:
    """A zero operator is an empty square that says so."""
    axis = hessian("linear function").plot()
    assert not len(squares(axis)[0])
    assert [x.get_text() for x in axis.texts] == ["0"]
    assert all(x.get_legend() is None for x in axis.figure.axes)


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_other_derivatives(make: Callable[[], ed.Derivative]) -> None:
    derivative = make()
    axis = derivative.plot()
    axis.figure.canvas.draw()
    assert axis.figure.texts[0].get_text().startswith(repr(derivative)[:20])
    if max(derivative._grid.shape) <= LARGE:
        assert len(squares(axis)[0]) == entries(derivative)


def test_many_terms_share_a_colour() -> None:
    """Colours are not used twice: terms beyond the last one are counted."""
    derivative = many_variables()
    axis = derivative.plot()
    *named, (colour, text) = legend(axis)
    assert [c for c, _ in named] == list(COLOURS)
    assert colour not in COLOURS
    kinds = len(named) + int(text.removesuffix(" more terms"))
    mirrored = sum(len(block) for i, row in enumerate(derivative._grid.terms) for block in row[:i])
    assert kinds == len(derivative.terms) - mirrored


# Large operators


@pytest.mark.parametrize("name", LARGER)
def test_large_operators_are_schemes(name: str) -> None:
    """Deltas stay, sizes shrink to a few, and neither a matrix nor a copy of an array is formed."""
    derivative = hessian(name, **LARGER[name])
    plt.close(hessian("factorization").plot().figure)  # what is loaded for the first picture
    tracemalloc.start()
    start = perf_counter()
    axis = derivative.plot()
    took = perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < at_pace(2)
    assert peak < 8e6
    assert max(axis.get_xlim()[1], axis.get_ylim()[0]) <= SMALL
    assert axis.get_xlabel().startswith("schematic: ")
    assert axis.get_xticklabels()[0].get_text() in ("×".join(map(str, x)) for x in derivative._grid.cols)


def test_scheme_keeps_deltas_and_order_of_sizes() -> None:
    """I ⊗ core of 100000×10: a few blocks of a smaller core."""
    axis = hessian("factorization", **LARGER["factorization"]).plot()
    cells, _ = squares(axis)
    assert axis.get_xlabel() == "schematic: 100000 drawn as 6, 10 drawn as 3"
    expected = {(3 * i + a, 3 * i + b) for i in range(6) for a in range(3) for b in range(3)}
    assert {tuple(cell) for cell in cells.tolist()} == expected


def test_large_arrays_are_sampled() -> None:
    axis = hessian("factorization by both", m=1000, n=200, k=10).plot()
    shown = {x.get_title(loc="left"): x for x in panels(axis)}
    assert list(shown) == ["A  10×10", "B  1000×200", "C  1000×10", "D  200×10", "E  10×10"]
    assert shown["B  1000×200"].images[0].get_array().shape == (40, 40)
    assert shown["B  1000×200"].get_xlabel().endswith("sample")
    assert not shown["A  10×10"].get_xlabel().endswith("sample")


def test_more_arrays_are_counted() -> None:
    axis = hessian("reconstruction").plot()
    assert len(panels(axis)) == CORES
    assert axis.figure.texts[-1].get_text() == "and 1 more"


def test_arrays_that_are_not_finite() -> None:
    """They are drawn, without warnings."""
    x = ed.vector("x", "n")
    derivative = ed.structured(ed.hessian(ed.sum(x**3), x), {"x": np.array([np.nan, np.inf, 1.0, 2.0])})
    axis = derivative.plot()
    axis.figure.canvas.draw()
    assert panels(axis)[0].get_xlabel() == "1 … inf"


# The page


def texts(axis: Any) -> list[Any]:
    """All texts that are seen."""
    figure = axis.figure
    found = [*figure.texts, *axis.get_xticklabels(), *axis.get_yticklabels(), axis.xaxis.label]
    for other in figure.axes:
        found += other.get_legend().get_texts() if other.get_legend() else []
    for panel in panels(axis):
        found += [panel.xaxis.label, panel._left_title]
    return [x for x in found if x.get_text()]


@pytest.mark.parametrize("name", [*OBJECTIVES, *(f"large {name}" for name in LARGER)])
def test_no_texts_overlap(name: str) -> None:
    """All texts are on the page, none over another one or over a picture."""
    short = name.removeprefix("large ")
    axis = hessian(short, **(LARGER[short] if short != name else {})).plot()
    figure = axis.figure
    figure.canvas.draw()
    boxes = {x: x.get_window_extent() for x in texts(axis)}
    for text, box in boxes.items():
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, text
    pictures = [x.get_window_extent() for x in (axis, *panels(axis))]
    for one, other in combinations([*boxes.values(), *pictures], 2):
        assert min(one.x1, other.x1) <= max(one.x0, other.x0) + 1 or min(one.y1, other.y1) <= max(one.y0, other.y0) + 1


def test_into_given_axes() -> None:
    """Only the matrix and its legend, in the figure that is there."""
    figure, axis = plt.subplots()
    derivative = hessian("mixed effects")
    assert plot(derivative, axis) is axis
    assert plt.get_fignums() == [figure.number]
    assert figure.axes == [axis]
    assert len(legend(axis)) == 3
    assert axis.get_title().split() == repr(derivative).replace(",", "").split()
    figure.canvas.draw()


def test_matplotlib_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    derivative = hessian("cubes")
    monkeypatch.delitem(sys.modules, "eindiff.structure.picture")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ed.EindiffError, match="pip install matplotlib"):
        derivative.plot()
