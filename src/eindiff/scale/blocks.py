"""Data as blocks of rows: arrays that are sliced (in memory, memory maps, HDF5, zarr), iterables of blocks, and tables.

A table of Arrow or Parquet gives its columns as a vector, or as the columns of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.scale.passes import ShardingError

Block = dict[str, Any]

BLOCK_BYTES = 2**25  # of all arrays of a block, where the reader chooses


@dataclass(slots=True)
class DataBlocks:
    """Blocks in order, which can be read several times if they are not from an iterator."""

    begin: Callable[[Collection[str] | None], Iterator[Block]]  # with the names of the arrays that are needed
    rows: int | None  # where this is known before reading
    again: bool  # whether it can be read again
    axis: tuple[str, int]  # an array, and which of its axes has the rows
    reads: int = 0

    def read(self, names: Collection[str] | None = None) -> Iterator[Block]:
        """All blocks; of arrays that are sliced, those with the names that are needed."""
        if self.reads and not self.again:
            raise ShardingError(
                "the blocks come from an iterator, which can be read only once, and this needs another pass: "
                "give a list, an array, or a function without arguments that begins again"
            )
        self.reads += 1
        return self.begin(names)

    def peek(self) -> Block:
        """The first block, which is read again later."""
        source = self.read()
        first = next(source, None)
        if first is None:
            raise ShardingError("there are no blocks")
        self.reads -= 1
        if not self.again:
            self.begin = lambda _: chain([first], source)
        return first

    def count(self) -> int:
        """The rows of all blocks, which are read for it if need be."""
        if self.rows is None:
            if not self.again:
                raise ShardingError(
                    "the number of rows is needed before the first pass, and the blocks come from an iterator: "
                    "give a list, an array, or a function without arguments that begins again"
                )
            self.rows = sum(np.shape(block[self.axis[0]])[self.axis[1]] for block in self.read([self.axis[0]]))
        return self.rows


def blocks_of(data: Any, arrays: Mapping[str, Any], axes: Mapping[str, int], rows: int | None) -> DataBlocks:
    """Blocks from what is given: one source of dictionaries, or a source for each array."""
    if data is not None:
        if arrays:
            raise EindiffError(
                f"{', '.join(sorted(arrays))}: blocks are given as data, or for each array, not both", "blocks"
            )
        return _of_dictionaries(data, axes)
    sources = {name: _source(name, value) for name, value in arrays.items()}
    sliced = {name: x for name, x in sources.items() if hasattr(x, "shape")}
    lengths = {name: int(x.shape[axes[name]]) for name, x in sliced.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise EindiffError(f"the arrays must have the same number of rows: {shown}", "blocks")
    total = next(iter(lengths.values()), None)
    axis = next((name, axes[name]) for name in sources)
    if len(sliced) == len(sources):
        assert total is not None  # there are arrays
        step = rows or _rows_of_a_block(sliced, axes)
        return DataBlocks(lambda names: _slices(_chosen(sliced, names), axes, total, step), total, True, axis)
    again = not any(isinstance(x, Iterator) for x in sources.values())
    return DataBlocks(lambda names: _together(sources, sliced, axes), total, again, axis)


def _of_dictionaries(data: Any, axes: Mapping[str, int]) -> DataBlocks:
    def begin(_: Collection[str] | None) -> Iterator[Block]:
        for number, block in enumerate(data() if callable(data) else data):
            if not isinstance(block, Mapping) or not set(axes) <= set(block):
                wanted = ", ".join(sorted(axes))
                raise ShardingError(f"block {number}: data gives dictionaries with the arrays {wanted}")
            yield {name: np.asarray(block[name]) for name in axes}

    return DataBlocks(begin, None, callable(data) or not isinstance(data, Iterator), next(iter(axes.items())))


def _source(name: str, value: Any) -> Any:
    """An array that can be sliced, or an iterable of arrays."""
    if hasattr(value, "read_next_batch"):  # a reader, which goes on where it is
        return iter(_Table(value))
    if callable(getattr(value, "to_batches", None)):
        return _Table(value)
    if hasattr(value, "shape") and hasattr(value, "__getitem__"):
        return value
    if callable(value):
        return _Begun(value)
    if isinstance(value, Iterable) and not isinstance(value, Mapping | str | bytes):
        return value
    raise EindiffError(
        f"{name} is given as {type(value).__name__}: give an array, or an iterable of its blocks", "blocks"
    )


@dataclass(frozen=True, slots=True)
class _Begun:
    """An iterable from a function that begins it."""

    begin: Callable[[], Iterable]

    def __iter__(self) -> Iterator:
        return iter(self.begin())


@dataclass(frozen=True, slots=True)
class _Table:
    """The batches of a table, dataset or reader of Arrow, as arrays: one column is a vector, several are a matrix."""

    table: Any

    def __iter__(self) -> Iterator[np.ndarray]:
        batches = self.table if hasattr(self.table, "read_next_batch") else self.table.to_batches()
        for batch in batches:
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            yield columns[0] if len(columns) == 1 else np.column_stack(columns)


def _rows_of_a_block(arrays: Mapping[str, Any], axes: Mapping[str, int]) -> int:
    row = sum(
        np.dtype(x.dtype).itemsize * int(np.prod(x.shape, dtype=np.int64)) / max(1, x.shape[axes[name]])
        for name, x in arrays.items()
    )
    return max(1, int(BLOCK_BYTES / max(row, 1)))


def _part(array: Any, axis: int, start: int, stop: int) -> np.ndarray:
    """Some rows of an array, in memory."""
    return np.array(array[(slice(None),) * axis + (slice(start, stop),)])


def _chosen(arrays: Mapping[str, Any], names: Collection[str] | None) -> Mapping[str, Any]:
    return arrays if names is None else {name: x for name, x in arrays.items() if name in names}


def _slices(arrays: Mapping[str, Any], axes: Mapping[str, int], total: int, step: int) -> Iterator[Block]:
    for start in range(0, max(total, 1), step):
        yield {name: _part(x, axes[name], start, min(start + step, total)) for name, x in arrays.items()}


def _together(sources: Mapping[str, Any], sliced: Mapping[str, Any], axes: Mapping[str, int]) -> Iterator[Block]:
    """Blocks of iterables side by side, with the same rows of arrays."""
    iterators = {name: iter(x) for name, x in sources.items() if name not in sliced}
    start = number = 0
    while True:
        block: Block = {}
        ended = []
        for name, source in iterators.items():
            if (found := next(source, None)) is None:
                ended.append(name)
            else:
                block[name] = np.asarray(found)
        if ended:
            if block:
                raise ShardingError(f"block {number}: {', '.join(ended)} ends before {', '.join(block)} does")
            break
        count = max(np.shape(x)[axes[name]] if np.ndim(x) > axes[name] else 0 for name, x in block.items())
        block |= {name: _part(x, axes[name], start, start + count) for name, x in sliced.items()}
        yield block
        start, number = start + count, number + 1
    for name, x in sliced.items():
        if x.shape[axes[name]] != start:
            raise ShardingError(f"the blocks have {start} rows, but {name} has {x.shape[axes[name]]}")
