"""Parts of programs that run over some rows at a time, so that what is computed on the way stays in the cache.

Operations entry by entry on large arrays take as long as memory takes to move them, and more where it is new. If many
of them follow each other, and each gives the rows of its result from the same rows of its operands, they run in a loop
over tiles of rows: only what is used elsewhere is written as a whole, and sums over rows are added up. Where that
takes long enough, parts of the rows run in threads, which NumPy lets run side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eindiff.core import sizes as sz
from eindiff.core.sizes import Shape, Size
from eindiff.planning import tuning
from eindiff.program.costs import Costs, missing
from eindiff.program.operations import (
    ARITHMETIC,
    BLAS,
    DIVISIONS,
    FUNCTION,
    Operation,
    Operations,
    reachable,
    with_operands,
)
from eindiff.program.write.blas_forms import turned
from eindiff.program.write.memory import root_of
from eindiff.program.write.rows import Axes, Rows, above, below

ROWS, START, STOP = "tile_rows", "tile_start", "tile_stop"
WORK, FIRST, LAST, STEP = "in_tiles", "tile_first", "tile_last", "tile_step"  # a thread's part, and rows of its tiles
_TURNS = frozenset({"transpose", "swap", "permute"})


class Loop(NamedTuple):
    """What runs for each tile, and where the results go: along an axis, or None if they are added up."""

    body: tuple[Operation, ...]
    axes: tuple[int | None, ...]
    times: tuple[Size, ...]  # entries along that axis for each row
    length: Size
    rows: int  # of a tile
    threads: int  # that it is worth
    used: int = 0  # bytes that arrays of a tile take together
    moved: int = 0  # bytes that are read and written between operations


@dataclass
class _Region:
    """Operations that are tiled, each along one of its axes, and sums over the tiled index.

    An axis that was merged with others has several entries for each row: `(b, n, n)` as `(b*n, n)` has n.
    """

    axes: dict[Operation, int] = field(default_factory=dict)
    times: dict[Operation, Size] = field(default_factory=dict)
    sums: dict[Operation, Axes] = field(default_factory=dict)
    peak: int = 0  # bytes of the arrays that are there at a time, if it is not tiled

    def rows(self, x: Operation) -> Size:
        """The entries of a tile along its axis."""
        return sz.multiply(ROWS, self.times[x])


@dataclass
class _Tile:
    """What runs for one tile, operation by operation, in the place of what gives whole arrays."""

    region: _Region
    rows: Rows
    summed: dict[Operation, Size | None]  # what sums add up for each row
    operations: Operations = field(default_factory=Operations)
    made: dict[Operation, Operation] = field(default_factory=dict)
    outside: dict[Operation, None] = field(default_factory=dict)  # what all tiles read

    def make(self, x: Operation) -> None:
        """The rows of a result, or a part of a sum."""
        region, axis = self.region, self.region.axes.get(x)
        sources = region.sums[x] if axis is None else self.rows.sources(x, axis)
        assert sources is not None
        operands = [self._rows_of(x, y, b) for y, b in zip(x.operands, sources, strict=True)]
        shape = x.shape if axis is None else (*x.shape[:axis], region.rows(x), *x.shape[axis + 1 :])
        parameters = x.parameters if axis is None else _parameters(x, axis, shape)
        self.made[x] = self.operations.make(x.op, operands, parameters, shape=shape, work=x.work, speed=x.speed)

    def _rows_of(self, x: Operation, y: Operation, axis: int | None) -> Operation:
        """What an operation needs of an operand: its rows along an axis, or all of it."""
        region = self.region
        if y in region.axes:
            return self.made[y]
        if y.op not in ("number", "size"):
            self.outside.setdefault(_copied(y))
        if axis is None:
            return y
        times = below(x, region.axes[x], axis, region.times[x]) if x in region.axes else self.summed[x]
        assert times is not None
        start, stop, count = (sz.multiply(one, times) for one in (START, STOP, ROWS))
        shape = (*y.shape[:axis], count, *y.shape[axis + 1 :])
        return self.operations.make("cut", [y], (axis, (start, stop, None)), shape=shape)


class Tiling:
    """Finds what to tile in a program, and tiles it."""

    def __init__(self, costs: Costs, rows: Rows) -> None:
        self.costs = costs
        self.rows = rows

    def run(self, outputs: Sequence[Operation]) -> list[Operation]:
        """The program with one part that runs in tiles, if there is one that pays."""
        order = reachable(outputs)
        thin = {root_of(x.operands[0]) for x in order if self._rows_of_product(x) is not None}
        own = [x for x in order if not (x.view or x.cheap)]
        self.large = {x for x in own if self.costs.size(x) >= tuning.TILED_BYTES / (2 if x in thin else 1)}
        seeds = [x for x in own if x in self.large or self.costs.size(x) >= tuning.THREADED_BYTES]
        if not seeds:
            return list(outputs)
        self.near = self._near(order)
        self.places = {x: place for place, x in enumerate(order)}
        best, most = None, 0.0
        for region in self._regions(order, sorted(seeds, key=lambda x: (-self.costs.size(x), -len(x.shape)))):
            saved = self._saved(region, order, outputs)
            if saved > most:
                best, most = region, saved
        return self._tiled(best, order, outputs) if best is not None else list(outputs)

    def _near(self, order: Sequence[Operation]) -> set[Operation]:
        """Arrays that are not small beside the large ones, and what is computed from them."""
        near = set[Operation]()
        for x in order:
            is_small = x.view or x.cheap or 8 * self.costs.size(x) < tuning.TILED_BYTES
            if not is_small or not near.isdisjoint(x.operands):
                near.add(x)
        return near

    def _regions(self, order: Sequence[Operation], seeds: Iterable[Operation]) -> Iterator[_Region]:
        """What can be tiled together, from a few of the large arrays that are in no region yet."""
        tried: set[tuple[Operation, int]] = set()
        left = tuning.TILED_SEEDS
        for seed in seeds:
            if not (axes := [axis for axis in range(len(seed.shape)) if (seed, axis) not in tried]) or not left:
                continue
            left -= 1
            for axis in axes:
                if (region := self._region(order, seed, axis)) is not None:
                    tried.update(region.axes.items())
                    yield region

    # Regions

    def _region(self, order: Sequence[Operation], seed: Operation, axis: int) -> _Region | None:
        """All that can be tiled together with an array along one of its axes."""
        found: _Region | None = None
        region = self._below([(seed, axis, 1)])
        while region is not None and (grown := self._grown(region, order)) is not None:
            found = grown
            wider = self._below([(x, along, grown.times[x]) for x, along in grown.axes.items()])
            region = wider if wider is not None and len(wider.axes) > len(grown.axes) else None
        return found

    def _below(self, tops: Sequence[tuple[Operation, int, Size]]) -> _Region | None:
        """Operations along some axes, with so many entries a row, and what their rows come from; None if one would be
        tiled in two ways, or one of these cannot be."""
        region, stack = _Region(), list(tops)
        needed = {x for x, _, _ in tops}
        while stack:
            x, along, times = stack.pop()
            if x in region.axes:
                if (region.axes[x], region.times[x]) != (along, times):
                    return None
                continue
            sources = self._sources(x, along)
            pairs = zip(x.operands, sources or (), strict=False)
            rows = [(y, b, below(x, along, b, times)) for y, b in pairs if b is not None]
            if sources is None or any(own is None for _, _, own in rows):
                if x in needed:
                    return None
                continue
            region.axes[x], region.times[x] = along, times
            stack += [(y, b, own) for y, b, own in rows if y in self.near and own is not None]
        return region

    def _sources(self, x: Operation, axis: int) -> Axes | None:
        """The axes of operands, unless a large one would be read for each tile."""
        sources = self.rows.sources(x, axis)
        whole = [y for y, b in zip(x.operands, sources or (), strict=False) if b is None]
        return None if any(self.costs.size(y) > tuning.CACHE_BYTES for y in whole) else sources

    def _grown(self, region: _Region, order: Sequence[Operation]) -> _Region | None:
        """With what is computed from tiles by tiles; nothing in it may need what comes after it."""
        after, sums, axes = set[Operation](), region.sums.keys(), region.axes.keys()
        order = self._since(region, order)
        for x in order:
            late = not (after.isdisjoint(x.operands) and sums.isdisjoint(x.operands))
            if x in axes:
                own = self._entries(region, x, self._sources(x, region.axes[x]), region.axes[x])
                if late or own not in (0, region.times[x]):
                    return None
            elif late or not (axes.isdisjoint(x.operands) or self._joins(region, x)):
                after.add(x)
        region.peak = self._peak([x for x in order if x in region.axes or x in region.sums])
        tiles = self._tiles(region)
        region.sums = {x: places for x, places in region.sums.items() if self._is_small(x, region, tiles)}
        return region

    def _since(self, region: _Region, order: Sequence[Operation]) -> Sequence[Operation]:
        """Operations from the first one that is tiled on: those before it use none."""
        return order[min([self.places[x] for x in region.axes]) :]

    def _joins(self, region: _Region, x: Operation) -> bool:
        """Tile what is computed from tiles along one of its axes, or as a sum, if that can be."""
        for axis in range(len(x.shape)):
            if times := self._entries(region, x, self._sources(x, axis), axis):
                region.axes[x], region.times[x] = axis, times
                return True
        for places in self.rows.summed(x):
            if self._entries(region, x, places, None):
                region.sums[x] = places
                return True
        return False

    @staticmethod
    def _entries(region: _Region, x: Operation, sources: Axes | None, axis: int | None) -> Size | None:
        """The entries along an axis (None: of what is summed) for each row, by the operands that are tiled: 0 if none
        is, None if these are tiled in another way."""
        found: set[Size | None] = set()
        for y, b in zip(x.operands, sources or (), strict=False):
            if y in region.axes:
                found.add(None if region.axes[y] != b else above(x, axis, b, region.times[y]))
        return None if sources is None or len(found) > 1 else found.pop() if found else 0

    def _peak(self, members: Sequence[Operation], in_place: bool = False) -> int:
        """The bytes that are needed at a time if each array goes after its last use, or before, `in_place`."""
        last = {root_of(y): x for x in members for y in x.operands}
        live = most = 0
        for x in members:
            live += 0 if x.view or x.cheap else self.costs.size(x)
            gone = sum(self.costs.size(y) for y in {root_of(y) for y in x.operands} if last[y] is x and y in members)
            most = max(most, live - gone if in_place and self.rows.is_elementwise(x) else live)
            live -= gone
        return most

    def _is_small(self, x: Operation, region: _Region, tiles: float) -> bool:
        """Whether it moves less to add up a sum over tiles than to form what it is a sum of."""
        formed = {root_of(y) for y in x.operands if y in region.axes}
        return tiles * self.costs.size(x) <= sum(self.costs.size(y) for y in formed)

    def _results(self, region: _Region, order: Sequence[Operation], outputs: Iterable[Operation]) -> list[Operation]:
        """What others need of a region: arrays, and sums."""
        after = self._since(region, order)
        used = {y for x in after if x not in region.axes and x not in region.sums for y in x.operands}
        stack, needed = [*used, *outputs], set[Operation]()
        while stack:
            x = stack.pop()
            if _is_free(x):  # what it is a view of is as good
                stack += x.operands
            else:
                needed.add(x)
        return [x for x in region.axes if x in needed] + list(region.sums)

    def _length(self, region: _Region) -> Size:
        """The rows: entries along an axis that is not merged with others."""
        return next(x.shape[axis] for x, axis in region.axes.items() if region.times[x] == 1)

    def _count(self, region: _Region, times: int = 1) -> int:
        """Rows of a tile, so that its arrays fit into the cache together, or some times as many; all that a thread has
        where arrays are not large."""
        length = max(1, self.costs.evaluate(self._length(region)))
        rows = max(1, int(times * tuning.TILE_BYTES * length / max(1, region.peak)))
        rows = rows if times == 1 or not self.large.isdisjoint(region.axes) else length
        return min([rows, *self._thin(region).values()])

    def _thin(self, region: _Region) -> dict[Operation, int]:
        """Products whose rows are cut, that take less time with few: so many."""
        own = {x: self._rows_of_product(x) for x, axis in region.axes.items() if axis == 0 and region.times[x] == 1}
        return {x: rows for x, rows in own.items() if rows is not None}

    def _rows_of_product(self, x: Operation) -> int | None:
        """The rows with which a product is one of small matrices, which BLAS does not pack, if it has few columns."""
        if x.op != "matmul" or len(x.shape) != 2 or len(x.operands[0].shape) != 2:
            return None
        least, columns = tuning.TILED_PRODUCT
        terms, few = map(self.costs.evaluate, (x.operands[0].shape[1], x.shape[1]))
        rows = tuning.UNPACKED // max(1, terms * few)
        return rows if 1 < few <= columns and least <= rows else None

    def _tiles(self, region: _Region) -> float:
        return self.costs.evaluate(self._length(region)) / self._count(region)

    def _saved(self, region: _Region, order: Sequence[Operation], outputs: Sequence[Operation]) -> float:
        """The predicted time that tiles save: arrays that are not formed, less what they take."""
        inside = [x for x in region.axes if not (x.view or x.cheap)]
        tiles, threads = self._tiles(region), self._threads(region)
        too_few = max(tiles, threads) < 2 if not self.large.isdisjoint(inside) else threads < tuning.LEAST_THREADS
        if too_few or any(_is_of_tile(x) for x in inside):
            return 0.0
        results = set(self._results(region, order, outputs))
        formed = sum(self.costs.size(x) for x in inside if x not in results)
        given = {root_of(y) for x in region.axes for y in x.operands if y not in region.axes}
        formed -= sum(self.costs.size(y) for y in given & self.near)  # else they may be changed in place
        beside = threads > 1 and self._seconds(region) / 2  # what a second thread does; there may be more
        faster = sum(self.costs.flops(x) for x in self._thin(region)) * tuning.OPERATION[BLAS] / 4
        return beside + faster + 2 * tuning.BYTE[False] * formed - self._spent(region, results)

    def _spent(self, region: _Region, results: Collection[Operation]) -> float:
        """The predicted time of calls, sums and copies of results, which go run by run where tiles are not cut along
        the first axis."""
        tiles = self._tiles(region)
        moved = sum(self.costs.size(x) * (tiles if x in region.sums else 1) for x in results)
        calls = tiles * (len(region.axes) + len(region.sums))
        runs = tiles * sum(self.costs.evaluate(sz.product(x.shape[: region.axes.get(x, 0)])) for x in results)
        return tuning.CALL * calls + tuning.SHORT_RUN * runs + 2 * tuning.BYTE[True] * moved

    def _seconds(self, region: _Region) -> float:
        """The predicted time of what NumPy does entry by entry, on one core; products use all of them anyway."""
        inside = [x for x in region.axes if x.speed in (ARITHMETIC, FUNCTION)]
        return sum(self.costs.flops(x) * tuning.OPERATION[x.speed] for x in inside)

    def _threads(self, region: _Region) -> int:
        """The threads among which it is worth to divide the rows; each multiplies those that it has.

        Python runs in one of them at a time, so the time of its calls is not divided.
        """
        products = sum(self.costs.flops(x) for x in region.axes if x.speed == BLAS) * tuning.OPERATION[BLAS]
        calls = tuning.CALL * self._tiles(region) * sum(not (x.view or x.cheap) for x in region.axes)
        return max(1, int((self._seconds(region) + products - calls) / tuning.THREAD))

    # The loop

    def _tiled(self, region: _Region, order: Sequence[Operation], outputs: Sequence[Operation]) -> list[Operation]:
        """The program with the region as one operation."""
        results = self._results(region, order, outputs)
        members = [x for x in order if x in region.axes or x in region.sums]
        summed = {x: self._entries(region, x, places, None) for x, places in region.sums.items()}
        tile = _Tile(region, self.rows, summed)
        for x in members:
            tile.make(x)
        threads, outside = self._threads(region), tile.outside
        rows = self._count(region, tuning.THREADED_TILES if threads > 1 else 1)
        body = turned([tile.made[x] for x in results], costs_of_tile(self.costs, rows), outside, alone=threads > 1)
        outside.update(_same_copies(body, outside))
        loop = Loop(
            tuple(body), tuple([region.axes.get(x) for x in results]),
            tuple([region.times.get(x, 1) for x in results]), self._length(region), rows, threads,
            *self._memory(region, members, results),
        )  # fmt: skip
        return self._with_loop(loop, members, results, list(outside), outputs)

    def _memory(self, region: _Region, members: Sequence[Operation], results: Sequence[Operation]) -> tuple[int, int]:
        """The bytes that arrays of tiles take at a time, and those that are moved between operations: arrays that are
        not large are there as a whole."""
        if not self.large.isdisjoint(region.axes):
            return tuning.TILE_BYTES, 2 * tuning.TILE_BYTES
        used = self._peak(members, in_place=True) - sum(self.costs.size(x) for x in results)
        return max(0, used), sum(self.costs.moved(x) for x in members)

    def _with_loop(
        self, loop: Loop, members: Sequence[Operation], results: Sequence[Operation],
        outside: Sequence[Operation], outputs: Sequence[Operation],
    ) -> list[Operation]:  # fmt: skip
        own = Operations()
        work = [x.work for x in members if not x.cheap]
        calls = any(x.speed != ARITHMETIC or x.op in DIVISIONS for x in members)
        tiles = own.make(
            "tiles", outside, (loop,), shape=(), speed=FUNCTION if calls else ARITHMETIC,
            work=lambda evaluate: sum(one(evaluate) if callable(one) else float(evaluate(one)) for one in work),
            scratch=loop.used // self.costs.itemsize,
        )  # fmt: skip
        done = {x: own.make("tiled", [tiles], (k,), shape=x.shape, work=0) for k, x in enumerate(results)}
        for x in reachable(outputs):
            if x not in done:
                operands = [done.get(y, y) for y in x.operands]
                done[x] = with_operands(own, x, operands)
        return [done[x] for x in outputs]


def costs_of_tile(costs: Costs, rows: int) -> Costs:
    """The costs of what runs for one tile."""
    return Costs({**costs.known, ROWS: rows, START: 0, STOP: rows}, costs.itemsize)


def _is_of_tile(x: Operation) -> bool:
    """Whether an array has a size that only a tile has."""
    return any(isinstance(size, str) and size in (ROWS, START, STOP) for size in x.shape)


def _is_free(x: Operation) -> bool:
    """Whether an operation is a view that takes no time, whatever lies below."""
    return x.op in _TURNS or (x.op == "reshape" and x.operands[0].op not in _TURNS)


def _copied(x: Operation) -> Operation:
    """What an operation is a view of, or a copy where that takes one, which is made once for all tiles."""
    while x.view and not (x.op == "reshape" and x.operands[0].op in _TURNS):
        x = x.operands[0]
    return x


def _same_copies(body: Sequence[Operation], outside: Collection[Operation]) -> dict[Operation, None]:
    """Copies in the body of a loop that are the same for all tiles."""
    return dict.fromkeys([x for x in missing(body, outside) if _is_same_copy(x, outside)])


def _is_same_copy(x: Operation, outside: Collection[Operation]) -> bool:
    """Whether an operation copies what all tiles read."""
    if x.op != "contiguous":
        return False
    while x not in outside and (x.op in _TURNS or x.op == "contiguous"):
        x = x.operands[0]
    return x in outside


def _parameters(x: Operation, axis: int, shape: Shape) -> tuple:
    """The parameters of an operation for a tile."""
    if x.op == "reshape":
        return shape
    if x.op != "fill":
        return x.parameters
    dense, _, assignments = x.parameters
    cut = []
    for how, sign, where, count in assignments:
        diagonal, *along = where if how == "balance" else (where,)
        inputs = diagonal.partition("->")[0]
        same = tuple([label == inputs[axis] and k != axis for k, label in enumerate(inputs)])
        kind = "balanced block" if along else "block"
        cut.append((kind, sign, (diagonal, same, *along), count) if any(same) else (how, sign, where, count))
    return dense, shape, tuple(cut)
