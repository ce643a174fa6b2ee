"""Parts of programs that run over some rows at a time, so that what is computed on the way stays in the cache.

Operations entry by entry on large arrays take as long as memory takes to move them, and more where it is new. If many
of them follow each other, and each gives the rows of its result from the same rows of its operands, they run in a loop
over tiles of rows: only what is used elsewhere is written as a whole, and sums over rows are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eindiff.core.sizes import Shape, Size
from eindiff.planning import tuning
from eindiff.program.costs import Costs
from eindiff.program.operations import ARITHMETIC, FUNCTION, Operation, Operations, reachable, with_operands
from eindiff.program.write.memory import root_of
from eindiff.program.write.rows import Axes, Rows

ROWS, START, STOP = "tile_rows", "tile_start", "tile_stop"
_TURNS = frozenset({"transpose", "swap", "permute"})


class Loop(NamedTuple):
    """What runs for each tile, and where the results go: along an axis, or None if they are added up."""

    body: tuple[Operation, ...]
    axes: tuple[int | None, ...]
    wholes: tuple[Shape, ...]
    length: Size
    rows: int  # of a tile


@dataclass
class _Region:
    """Operations that are tiled, each along one of its axes, and sums over the tiled index."""

    axes: dict[Operation, int] = field(default_factory=dict)
    sums: dict[Operation, Axes] = field(default_factory=dict)


class Tiling:
    """Finds what to tile in a program, and tiles it."""

    def __init__(self, costs: Costs, rows: Rows) -> None:
        self.costs = costs
        self.rows = rows

    def run(self, outputs: Sequence[Operation]) -> list[Operation]:
        """The program with one part that runs in tiles, if there is one that pays."""
        order = reachable(outputs)
        large = [x for x in order if not (x.view or x.cheap) and self.costs.size(x) >= tuning.TILED_BYTES]
        if len(large) < 2:
            return list(outputs)
        seed = max(large, key=self.costs.size)
        found = [self._region(order, seed, axis) for axis in range(len(seed.shape))]
        scored = [(self._saved(one, order, outputs), -k) for k, one in enumerate(found) if one is not None]
        best, k = max(scored, default=(0.0, 0))
        region = found[-k] if best > 0 else None
        return self._tiled(region, order, outputs) if region is not None else list(outputs)

    # Regions

    def _region(self, order: Sequence[Operation], seed: Operation, axis: int) -> _Region | None:
        """All that can be tiled together with an array along one of its axes."""
        region = _Region()
        stack = [(seed, axis)]
        while stack:
            x, along = stack.pop()
            if x in region.axes:
                if region.axes[x] != along:
                    return None
                continue
            if (sources := self.rows.sources(x, along)) is None:
                if x is seed:
                    return None
                continue
            region.axes[x] = along
            stack += [(y, b) for y, b in zip(x.operands, sources, strict=True) if b is not None and y.operands]
        return self._grown(region, order)

    def _grown(self, region: _Region, order: Sequence[Operation]) -> _Region | None:
        """With what is computed from tiles by tiles; nothing in it may need what comes after it."""
        after: set[Operation] = set()
        for x in order:
            late = any(y in after or y in region.sums for y in x.operands)
            if x in region.axes:
                if late or not self._fits(region, x, self.rows.sources(x, region.axes[x])):
                    return None
            elif not late and any(y in region.axes for y in x.operands):
                found = [a for a in range(len(x.shape)) if self._fits(region, x, self.rows.sources(x, a))]
                added = [places for places in self.rows.summed(x) if self._fits(region, x, places)]
                if found:
                    region.axes[x] = found[0]
                elif added:
                    region.sums[x] = added[0]
                else:
                    after.add(x)
            elif late:
                after.add(x)
        tiles = self._tiles(region)
        region.sums = {x: places for x, places in region.sums.items() if self._is_small(x, region, tiles)}
        return region

    def _is_small(self, x: Operation, region: _Region, tiles: float) -> bool:
        """Whether it moves less to add up a sum over tiles than to form what it is a sum of."""
        formed = {root_of(y) for y in x.operands if y in region.axes}
        return tiles * self.costs.size(x) <= sum(self.costs.size(y) for y in formed)

    @staticmethod
    def _fits(region: _Region, x: Operation, sources: Axes | None) -> bool:
        """Whether all operands that are tiled are so along the axes that are needed."""
        if sources is None:
            return False
        pairs = list(zip(x.operands, sources, strict=True))
        return all(region.axes[y] == b for y, b in pairs if y in region.axes) and any(b is not None for _, b in pairs)

    def _results(self, region: _Region, order: Iterable[Operation], outputs: Iterable[Operation]) -> list[Operation]:
        """What others need of a region: arrays, and sums."""
        used = {y for x in order if x not in region.axes and x not in region.sums for y in x.operands}
        stack, needed = [*used, *outputs], set[Operation]()
        while stack:
            x = stack.pop()
            if _is_free(x):  # what it is a view of is as good
                stack += x.operands
            else:
                needed.add(x)
        return [x for x in region.axes if x in needed] + list(region.sums)

    def _length(self, region: _Region) -> Size:
        x, axis = next(iter(region.axes.items()))
        return x.shape[axis]

    def _count(self, region: _Region) -> int:
        """Rows of a tile, so that its arrays fit into the cache together."""
        length = max(1, self.costs.evaluate(self._length(region)))
        row = sum(self.costs.size(x) for x in region.axes if not (x.view or x.cheap)) / length
        return max(1, int(tuning.TILE_BYTES / max(1.0, row)))

    def _tiles(self, region: _Region) -> float:
        return self.costs.evaluate(self._length(region)) / self._count(region)

    def _saved(self, region: _Region, order: Sequence[Operation], outputs: Sequence[Operation]) -> float:
        """The predicted time that tiles save: bytes of arrays that are not formed, less the calls and the sums."""
        results = set(self._results(region, order, outputs))
        inside = [x for x in region.axes if not (x.view or x.cheap)]
        tiles = self._tiles(region)
        if any(isinstance(size, str) and size in (ROWS, START, STOP) for x in inside for size in x.shape) or tiles < 2:
            return 0.0
        formed = sum(self.costs.size(x) for x in inside if x not in results)
        moved = sum(self.costs.size(x) for x in region.sums) * tiles
        calls = tuning.CALL * tiles * (len(region.axes) + len(region.sums))
        return 2 * tuning.BYTE[False] * formed - 2 * tuning.BYTE[True] * moved - calls

    # The loop

    def _tiled(self, region: _Region, order: Sequence[Operation], outputs: Sequence[Operation]) -> list[Operation]:
        """The program with the region as one operation."""
        results = self._results(region, order, outputs)
        operations, made = Operations(), dict[Operation, Operation]()
        outside: dict[Operation, None] = {}
        members = [x for x in order if x in region.axes or x in region.sums]

        def rows_of(y: Operation, axis: int | None) -> Operation:
            if y in region.axes:
                return made[y]
            if y.op not in ("number", "size"):
                outside.setdefault(root_of(y))
            if axis is None:
                return y
            shape = (*y.shape[:axis], ROWS, *y.shape[axis + 1 :])
            return operations.make("cut", [y], (axis, (START, STOP, None)), shape=shape)

        for x in members:
            sources = region.sums.get(x) or self.rows.sources(x, region.axes[x])
            assert sources is not None
            operands = [rows_of(y, b) for y, b in zip(x.operands, sources, strict=True)]
            axis = region.axes.get(x)
            shape = x.shape if axis is None else (*x.shape[:axis], ROWS, *x.shape[axis + 1 :])
            parameters = x.parameters if axis is None else _parameters(x, axis, shape)
            made[x] = operations.make(x.op, operands, parameters, shape=shape, work=x.work, speed=x.speed)
        loop = Loop(
            tuple([made[x] for x in results]), tuple([region.axes.get(x) for x in results]),
            tuple([x.shape for x in results]), self._length(region), self._count(region),
        )  # fmt: skip
        return self._with_loop(loop, members, results, list(outside), outputs)

    def _with_loop(
        self, loop: Loop, members: Sequence[Operation], results: Sequence[Operation],
        outside: Sequence[Operation], outputs: Sequence[Operation],
    ) -> list[Operation]:  # fmt: skip
        own = Operations()
        work = [x.work for x in members if not x.cheap]
        calls = any(x.speed != ARITHMETIC or x.op in ("divide", "reciprocal", "logistic") for x in members)
        tiles = own.make(
            "tiles", outside, (loop,), shape=(), speed=FUNCTION if calls else ARITHMETIC,
            work=lambda evaluate: sum(one(evaluate) if callable(one) else float(evaluate(one)) for one in work),
            scratch=tuning.TILE_BYTES // self.costs.itemsize,
        )  # fmt: skip
        done = {x: own.make("tiled", [tiles], (k,), shape=x.shape, work=0) for k, x in enumerate(results)}
        for x in reachable(outputs):
            if x not in done:
                operands = [done.get(y, y) for y in x.operands]
                done[x] = x if operands == list(x.operands) else with_operands(own, x, operands)
        return [done[x] for x in outputs]


def _is_free(x: Operation) -> bool:
    """Whether an operation is a view that takes no time, whatever lies below."""
    return x.op in _TURNS or (x.op == "reshape" and x.operands[0].op not in _TURNS)


def _parameters(x: Operation, axis: int, shape: Shape) -> tuple:
    """The parameters of an operation for a tile."""
    if x.op == "reshape":
        return shape
    if x.op != "fill":
        return x.parameters
    dense, _, assignments = x.parameters
    cut = []
    for how, sign, where, count in assignments:
        inputs = where.partition("->")[0]
        same = tuple([label == inputs[axis] and k != axis for k, label in enumerate(inputs)])
        cut.append(("block", sign, (where, same), count) if any(same) else (how, sign, where, count))
    return dense, shape, tuple(cut)
