"""Blocks of dask arrays: one task a block where the block is, and a tree that adds the parts up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.scale.passes import ShardingError
from eindiff.scale.work import Arrays, BlockResult, BlockWork

FAN_IN = 8  # parts that one task adds


def is_dask(value: Any) -> bool:
    """Whether something is an array of dask, without importing it."""
    return type(value).__module__.startswith("dask.array")


class Tasks:
    """The blocks of some arrays, of which at least one is dask's, as tasks."""

    library = "numpy"

    def __init__(self, arrays: Mapping[str, Any], axes: Mapping[str, int]) -> None:
        da = import_module("dask.array")

        first = next(name for name, x in arrays.items() if is_dask(x))
        self.chunks = arrays[first].chunks[axes[first]]
        self.count = sum(self.chunks)
        longest = max(self.chunks)
        self.example: dict[str, Any] = {
            name: np.broadcast_to(
                np.zeros((), x.dtype), [longest if axis == axes[name] else size for axis, size in enumerate(x.shape)]
            )
            for name, x in arrays.items()
        }
        self.blocks: dict[str, list[Any]] = {}
        for name, x in arrays.items():
            if x.shape[axes[name]] != self.count:
                shown = f"{first} has {self.count}, {name} {x.shape[axes[name]]}"
                raise EindiffError(f"the arrays must have the same number of rows: {shown}", "blocks")
            chunks = tuple([self.chunks if axis == axes[name] else -1 for axis in range(x.ndim)])
            own = x.rechunk(chunks) if is_dask(x) else da.from_array(x, chunks)
            self.blocks[name] = list(own.to_delayed().ravel())

    def count_rows(self) -> int:
        """The number of rows, which dask knows."""
        return self.count

    def run(self, work: BlockWork, whole: Arrays, sizes: Mapping[str, int], what: str) -> BlockResult:
        """One pass. Arrays that are whole are sent once."""
        dask = import_module("dask")

        shared, block_work = dask.delayed(dict(whole)), dask.delayed(work)
        on_block = dask.delayed(_on_block)
        parts = [
            on_block(block_work, number, {name: self.blocks[name][number] for name in work.axes}, shared, dict(sizes))
            for number in range(len(self.chunks))
        ]
        joined = dask.delayed(_joined)
        while len(parts) > 1:
            parts = [joined(parts[k : k + FAN_IN], work.reductions) for k in range(0, len(parts), FAN_IN)]
        [found] = dask.compute(*parts)
        if (found.count, found.blocks) != (self.count, len(self.chunks)):
            raise ShardingError(
                f"{found.count} rows in {found.blocks} blocks were added where there are {self.count} in "
                f"{len(self.chunks)}: the data changed meanwhile"
            )
        return found


def _on_block(work: BlockWork, number: int, block: Arrays, whole: Arrays, given: Mapping[str, int]) -> BlockResult:
    return work(number, block, whole, given)


def _joined(parts: Sequence[BlockResult], reductions: Sequence[str]) -> BlockResult:
    found, *others = parts
    for other in others:
        found = found.joined(other, reductions)
    return found
