"""Blocks in order on one machine: the next ones are read while some are computed, and few are in memory at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue
from threading import Event, Thread
from typing import Any

from eindiff.core.errors import EindiffError
from eindiff.scale.blocks import Block, DataBlocks
from eindiff.scale.passes import ShardingError
from eindiff.scale.progress import Report
from eindiff.scale.work import Arrays, BlockResult, BlockWork

AHEAD = 2  # blocks that are read before they are needed


class Stream:
    """Blocks that are read here."""

    library = "numpy"

    def __init__(self, blocks: DataBlocks, workers: int, report: Report) -> None:
        self._blocks, self._workers, self._report = blocks, workers, report
        self.example = blocks.peek()

    @property
    def count(self) -> int | None:
        """The number of rows, where it is known."""
        return self._blocks.rows

    def count_rows(self) -> int:
        """The number of rows; blocks that do not say it are read for it."""
        return self._blocks.count()

    def run(self, work: BlockWork, whole: Arrays, sizes: Mapping[str, int], what: str) -> BlockResult:
        """One pass. Parts are put together in the order of the blocks, so the result does not depend on threads."""
        found: BlockResult | None = None
        for part in _parts(work, self._blocks, whole, sizes, self._workers):
            found = part if found is None else found.joined(part, work.reductions)
            self._report(what, found.count, self._blocks.rows)
        if found is None:
            raise ShardingError("there are no blocks")
        if self._blocks.rows not in (None, found.count):
            raise ShardingError(f"{found.count} rows were read where there are {self._blocks.rows}: the data changed")
        self._blocks.rows = found.count
        return found


def _parts(
    work: BlockWork, blocks: DataBlocks, whole: Arrays, sizes: Mapping[str, int], workers: int
) -> Iterator[BlockResult]:
    with _Reader(blocks, work.axes) as reader:
        if workers == 1:
            for number, block in reader:
                yield work(number, block, whole, sizes)
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[BlockResult]] = deque()
            for number, block in reader:
                waiting.append(pool.submit(work, number, block, whole, sizes))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


class _Reader:
    """Blocks with their numbers, read by another thread."""

    def __init__(self, blocks: DataBlocks, names: Collection[str]) -> None:
        self._blocks, self._names = blocks, names
        self._queue: Queue[tuple[int, Any]] = Queue(AHEAD)
        self._stopped = Event()
        self._thread = Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        while not self._queue.empty():  # it may wait for room
            self._queue.get()
        self._thread.join()

    def _read(self) -> None:
        number = 0
        try:
            for block in self._blocks.read(self._names):
                if self._stopped.is_set():
                    return
                self._queue.put((number, block))
                number += 1
            self._queue.put((number, None))
        except Exception as error:  # whatever a source raises: it is raised again where the blocks are used
            self._queue.put((number, error))

    def __iter__(self) -> Iterator[tuple[int, Block]]:
        while True:
            number, found = self._queue.get()
            if found is None:
                return
            if isinstance(found, EindiffError):
                raise found
            if isinstance(found, Exception):
                raise ShardingError(f"block {number} cannot be read: {type(found).__name__}: {found}") from found
            yield number, found
