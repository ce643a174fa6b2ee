"""Rows of arrays in several threads, with one thread of BLAS for each: what `in_threads` of NumPy programs runs as.

Products of tiles are small. BLAS divides them among threads of its own all the same, which wait for each other, and for
all who call it at once: with one of them, two threads of Python take half the time. Programs that are written to a file
have an `in_threads` of their own, which starts its threads anew and leaves BLAS alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from eindiff.core.locks import lock


@cache
def _libraries() -> Any:
    """The libraries of linear algebra that are loaded, where `threadpoolctl` is there to find them."""
    return import_module("threadpoolctl").ThreadpoolController() if find_spec("threadpoolctl") is not None else None


class _OneThread:
    """A context in which BLAS has one thread, until nobody is in it any more."""

    def __init__(self) -> None:
        self._lock = lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and (libraries := _libraries()) is not None:
                self._limits = libraries.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        limits, self._limits = self._limits, None
        if limits is not None:
            limits.restore_original_limits()

    def forget(self) -> None:
        """Nobody is in it: threads that were do not exist in a new process."""
        self._inside = 0
        self._restore()


_ONE_THREAD = _OneThread()
_pools: list[ThreadPoolExecutor] = []  # one, when it is needed


def _forget() -> None:
    _pools.clear()
    _ONE_THREAD.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _pool() -> ThreadPoolExecutor:
    """Threads that wait for work."""
    if not _pools:
        _pools.append(ThreadPoolExecutor(os.cpu_count(), "eindiff"))
    return _pools[0]


def core_count() -> int:
    """The cores that this process may use: fewer than it has where threads of libraries are limited."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [os.environ.get(f"{library}_NUM_THREADS", "") for library in ("OMP", "OPENBLAS", "MKL")]
    return min([cores, *(int(limit) for limit in limits if limit.isdigit() and int(limit) > 0)])


def in_threads(work: Callable[[int, int], list[Any]], length: int, most: int) -> list[Any]:
    """The sums of what `work(first, last)` gives for parts of a length, each in a thread of its own.

    >>> in_threads(lambda first, last: [sum(range(first, last))], 10, 3)
    [45]
    """
    count = max(1, min(core_count(), length, most))
    with _ONE_THREAD:
        if count == 1:
            return work(0, length)
        ends = [length * k // count for k in range(count + 1)]
        state = np.geterr()

        def run(first: int, last: int) -> list[Any]:
            with np.errstate(**state):  # a thread does not know of what is around it
                return work(first, last)

        others = [_pool().submit(run, *part) for part in pairwise(ends[1:])]
        parts = [work(0, ends[1]), *(other.result() for other in others)]
    return [sum(part) for part in zip(*parts, strict=True)]
