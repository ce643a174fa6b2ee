"""What the picture of a derivative's value shows, and where: the cells of its terms, and the names of its arrays.

All is found from labels: a cell is covered where no delta makes it zero. Large operators have fewer cells along each
axis, so that the picture of a map between millions of numbers takes no more than that of a small one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from math import log1p, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from eindiff.core.groups import grouped
from eindiff.core.labels import first_appearance, subscripts
from eindiff.structure.grid import Grid, Shape, starts
from eindiff.structure.places import Axis, Place, index_of, indices, labels_of
from eindiff.structure.terms import ALPHABET, Array, Term

if TYPE_CHECKING:
    from eindiff.structure.derivative import Derivative

# The colours of terms, and of further ones; how strong that of an entry is that is zero here.
COLOURS = ("#4c78a8", "#e0a040", "#5a9e7c", "#c8635a", "#8d76b3", "#57a6b5", "#c987a5", "#8f7d5e")
OTHER, PALE = "#b4b4b4", 0.22
LARGE, SMALL = 64, 40  # more rows or columns than that are drawn smaller: with that many, if that can be
AXIS_ENTRIES = 6  # along an axis that is drawn smaller
MOST_DRAWN_ENTRIES = 64  # entries of a term, along a label that is no axis
CHEAP = 2**16  # entries of arrays that are multiplied to see which products are zero


@dataclass(frozen=True, slots=True)
class Side:
    """The variables along the rows or the columns of the matrix, and the shapes that they are drawn with."""

    shapes: tuple[Shape, ...]
    drawn: tuple[Shape, ...]

    @property
    def places(self) -> list[int]:
        """Where each variable starts, and the end."""
        return starts(self.drawn)

    @property
    def inside(self) -> list[int]:
        """Where the index of a variable's first axis changes, if that has more axes."""
        pairs = zip(self.places, self.drawn, strict=False)
        return [at + k * prod(shape[1:]) for at, shape in pairs if len(shape) > 1 for k in range(1, shape[0])]


@dataclass(frozen=True, eq=False)
class Scheme:
    """The cells of each term, at sizes that can be drawn, and the names of all arrays."""

    grid: Grid
    symmetric: bool

    @cached_property
    def sizes(self) -> dict[int, int]:
        """For each size how many entries are drawn: all of them, or a few, and not fewer for larger sizes."""
        sides = (self.grid.rows, self.grid.cols)
        sizes = {size for shapes in sides for shape in shapes for size in shape}
        drawn, limit = {size: size for size in sizes}, LARGE
        for entries in range(AXIS_ENTRIES, 1, -1):
            if max(sum(prod(drawn[size] for size in shape) for shape in shapes) for shapes in sides) <= limit:
                break
            scale, limit = log1p(max(sizes)), SMALL
            drawn = {size: min(size, max(2, round(entries * sqrt(log1p(size) / scale)))) for size in sizes}
        return drawn

    @property
    def smaller(self) -> list[tuple[int, int]]:
        """The sizes of which not all entries are drawn, the largest first, and how many are."""
        return sorted([(size, drawn) for size, drawn in self.sizes.items() if size != drawn], reverse=True)

    @cached_property
    def rows(self) -> Side:
        """The variables of the rows."""
        return self._side(self.grid.rows)

    @cached_property
    def cols(self) -> Side:
        """The variables of the columns."""
        return self._side(self.grid.cols)

    def _side(self, shapes: tuple[Shape, ...]) -> Side:
        return Side(shapes, tuple([tuple([self.sizes[size] for size in shape]) for shape in shapes]))

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The arrays of all terms, by letters."""
        different = {id(x): x for [(_, _, term), *_] in self.kinds for x in term.arrays if x.ndim and x.size}
        return {_letter(k): array for k, array in enumerate(different.values())}

    @cached_property
    def kinds(self) -> list[list[tuple[int, int, Term]]]:
        """The terms with their blocks, those of one colour together.

        In a symmetric operator, the block of variables j and i has the terms of i and j, transposed.
        """
        found: dict[tuple, list[tuple[int, int, Term]]] = {}
        for i, line in enumerate(self.grid.terms):
            for j, block in enumerate(line):
                seen: Counter[tuple] = Counter()
                mirrored = self.symmetric and i > j
                for term in block:
                    pattern = _pattern(term.transposed(len(self.grid.rows[i])) if mirrored else term)
                    seen[pattern] += 1
                    key = (j, i) if mirrored else (i, j), pattern, seen[pattern]
                    found.setdefault(key, []).append((i, j, term))
        return list(found.values())

    @property
    def labels(self) -> list[str]:
        """A line of text for each kind of term."""
        return [self._label(i, term) for [(i, _, term), *_] in self.kinds]

    def _label(self, i: int, term: Term) -> str:
        """`2 A B  ab,cd→ad|cb`: the coefficient, the arrays, and their labels for rows and columns."""
        factor = term.coefficient * prod(float(x) for x in term.arrays if not x.ndim)
        shown = [(x, labels) for x, labels in term.operands if x.ndim]
        names = [name for x, _ in shown for name, array in self.arrays.items() if array is x]
        split = len(self.grid.rows[i])
        if term.places:
            return " ".join([*([f"{factor:.3g}"] if factor != 1 or not names else []), *names, _where(term, split)])
        inputs, output = subscripts([labels for _, labels in shown], term.output, ALPHABET).split("->")
        times = [f"{factor:.3g}"] if factor != 1 or not names else []
        where = [f" {inputs}→{output[:split]}|{output[split:]}"] if inputs or output else []
        return " ".join([*times, *names, *where])

    @cached_property
    def squares(self) -> Array:
        """All squares as `(row, column, side, kind, is nonzero)`, those inside of others after these.

        Terms with more entries are around those with fewer.
        """
        found: list[Array] = [np.zeros((0, 6))]
        placed = ((kind, *place) for kind, places in enumerate(self.kinds) for place in places)
        blocks = grouped(((i, j), (kind, *self._cells(i, j, term))) for kind, i, j, term in placed)
        for (i, j), layers in blocks.items():
            count = np.sum([mask for _, mask, _ in layers], axis=0)
            around = np.zeros_like(count)
            for kind, mask, nonzero in sorted(layers, key=lambda layer: -layer[1].sum()):
                r, c = np.nonzero(mask)
                columns = r + self.rows.places[i], c + self.cols.places[j], 1 - around[mask] / count[mask]
                found.append(np.stack([*columns, np.full(len(r), kind), nonzero[mask], around[mask]], axis=1))
                around += mask
        every = np.concatenate(found)
        return every[np.argsort(every[:, 5], kind="stable"), :5]

    def _cells(self, i: int, j: int, term: Term) -> tuple[Array, Array]:
        """Where deltas let a term have entries; and where these are not zero, if all are drawn and that is cheap."""
        shape = prod(self.rows.drawn[i]), prod(self.cols.drawn[j])
        if term.places:
            return (self._placed_cells(term, i, j),) * 2
        sizes = {label: self.sizes[term.sizes[label]] for label in term.output}
        mask = Term(1.0, (), (), term.output, sizes).to_dense().reshape(shape) != 0
        if self.smaller or sum(x.size for x in term.arrays) > CHEAP:
            return mask, mask
        return mask, term.to_dense().reshape(shape) != 0

    def _placed_cells(self, term: Term, i: int, j: int) -> Array:
        """Where a term with places has entries; of larger sizes, where one like it would have them."""
        axes = term.axes()
        shapes = self.rows.shapes[i] + self.cols.shapes[j], self.rows.drawn[i] + self.cols.drawn[j]
        labels = labels_of(axes)
        drawn = {x: self.sizes.get(term.sizes[x], min(term.sizes[x], MOST_DRAWN_ENTRIES)) for x in labels}
        of = indices(labels, drawn)
        found = [self._drawn_index(axis, of, *sizes) for axis, *sizes in zip(axes, *shapes, strict=True)]
        everywhere = np.broadcast_arrays(*found)
        inside = np.all([(x >= 0) & (x < size) for x, size in zip(everywhere, shapes[1], strict=True)], axis=0)
        mask = np.zeros(shapes[1], bool)
        mask[tuple([x[inside] for x in everywhere])] = True
        return mask.reshape(prod(self.rows.drawn[i]), prod(self.cols.drawn[j]))

    def _drawn_index(self, axis: Axis, of: dict[int, Array], size: int, drawn: int) -> Array:
        """The index along an axis that is drawn smaller: as far from its end, if it is near to that."""
        if isinstance(axis, int) or size == drawn:
            return index_of(axis, of)
        if axis.table is not None:
            some = [
                np.linspace(0, n - 1, of[x].size).astype(int)
                for x, n in zip(axis.sources, axis.table.shape, strict=True)
            ]
            return (
                axis.table[tuple([s.reshape(of[x].shape) for x, s in zip(axis.sources, some, strict=True)])]
                * drawn
                // size
            )
        offset = axis.offset if 2 * axis.offset <= size else drawn - size + axis.offset
        strides = tuple([self.sizes.get(abs(s), abs(s)) * (1 if s > 0 else -1) for s in axis.strides])
        return replace(axis, offset=offset, strides=strides).index(of)

    @property
    def note(self) -> str:
        """What the reader has to know of the cells."""
        if smaller := self.smaller:
            more = ", …" if len(smaller) > 4 else ""
            return "schematic: " + ", ".join(f"{size} drawn as {drawn}" for size, drawn in smaller[:4]) + more
        return "" if self.squares[:, 4].all() else "pale: zero at this point"


def scheme_of(derivative: Derivative) -> Scheme:
    """What the picture of a derivative shows."""
    return Scheme(derivative._grid, bool(derivative._facts.symmetric))


def _where(term: Term, split: int) -> str:
    """`a→a+1|a`: the axes as functions of the labels of arrays; `·` is an index from a table."""
    labels = labels_of(term.axes())
    names = {x: ALPHABET[k % 26] for k, x in enumerate(labels)}

    def text(axis: Axis) -> str:
        if not isinstance(axis, Place):
            return names[axis]
        if axis.table is not None:
            return f"·[{','.join(names[x] for x in axis.sources)}]"
        steps = zip(axis.sources, axis.strides, strict=True)
        parts = [f"{'' if stride == 1 else stride}{names[x]}" for x, stride in steps]
        return "+".join(parts + ([str(axis.offset)] if axis.offset or not parts else []))

    sides = [",".join(map(text, half)) for half in (term.axes()[:split], term.axes()[split:])]
    return f" {''.join(names[x] for x in labels)}→{'|'.join(sides)}"


def _letter(k: int) -> str:
    return ALPHABET[k % 26].upper() + "'" * (k // 26)


def _pattern(term: Term) -> tuple:
    """The labels of a term, whatever they are called and in whichever order its arrays have them."""
    names = first_appearance([term.output, *term.labels])
    arrays = sorted(tuple(sorted(names[x] for x in labels)) for labels in term.labels)
    return tuple([names[x] for x in term.output]), tuple(arrays)
