"""Threads of NumPy programs: their own, and those of the libraries of linear algebra below.

Tiles of rows run in several threads (`in_threads`). Products of tiles are small. BLAS divides them among threads of its
own all the same, which wait for each other, and for all who call it at once: with one of them, two threads of Python
take half the time. NumPy and SciPy each bring a BLAS, whose threads keep their cores busy for a while after they have
worked: products of NumPy after a factorization of SciPy's then take several times as long, and so do threads of a
program after its products (`with_one_thread`). Programs that are written to a file start threads anew, and leave those
of BLAS alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from eindiff.core.locks import lock


@cache
def _libraries() -> list[Any]:
    """The libraries of linear algebra that are loaded, where `threadpoolctl` is there to find them."""
    if find_spec("threadpoolctl") is None:
        return []
    found = import_module("threadpoolctl").ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


@cache
def _of_scipy() -> list[Any]:
    """Those that SciPy brought, if NumPy has another one."""
    own = [library for library in _libraries() if "scipy" in os.path.dirname(library.filepath).rpartition("site-")[2]]
    return own if len(own) < len(_libraries()) else []


class _OneThread:
    """A context in which some libraries have one thread, until nobody is in one that has them any more."""

    _lock = lock()
    _held: ClassVar[dict[int, list[Any]]] = {}  # the library, how many are inside, and its threads before

    def __init__(self, libraries: Callable[[], list[Any]]) -> None:
        self._libraries = libraries

    def __enter__(self) -> None:
        with self._lock:
            for library in self._libraries():
                held = self._held.setdefault(id(library), [library, 0, 0])
                held[1] += 1
                if held[1] == 1:
                    held[2] = library.num_threads
                    library.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            for library in self._libraries():
                held = self._held[id(library)]
                held[1] -= 1
                if held[1] == 0:
                    library.set_num_threads(held[2])

    @classmethod
    def forget(cls) -> None:
        """Nobody is in one: threads that were do not exist in a new process."""
        for library, inside, threads in cls._held.values():
            if inside:
                library.set_num_threads(threads)
        cls._held.clear()


def _of_numpy() -> list[Any]:
    """All others, if SciPy brought one."""
    return [library for library in _libraries() if library not in _of_scipy()] if _of_scipy() else []


_ONE_OF_BLAS = _OneThread(lambda: _libraries())
_ONE_OF = {"all": _ONE_OF_BLAS, "scipy": _OneThread(lambda: _of_scipy()), "numpy": _OneThread(lambda: _of_numpy())}
_pools: list[ThreadPoolExecutor] = []  # one, when it is needed


def _forget() -> None:
    _pools.clear()
    _OneThread.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def with_one_thread(function: Callable[..., Any], of: str) -> Callable[..., Any]:
    """A program in which one library has one thread of BLAS, or all have: SciPy's leaves the cores to NumPy's then, or
    NumPy's to SciPy's, and both to threads of the program."""
    if not of:
        return function
    limit = _ONE_OF[of]

    def run(*values: Any, **keywords: Any) -> Any:
        with limit:
            return function(*values, **keywords)

    return run


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


def in_threads(work: Callable[[int, int, int], list[Any]], length: int, most: int, rows: int) -> list[Any]:
    """The sums of what `work(first, last, step)` gives for parts of a length, each in a thread of its own, in
    equal steps of at most so many rows: a short one at the end would leave one thread to wait for another.

    >>> in_threads(lambda first, last, step: [sum(range(first, last))], 10, 3, 4)
    [45]
    """
    count = max(1, min(core_count(), length, most))
    part = max(1, -(-length // count))
    step = -(-part // -(-part // rows))
    with _ONE_OF_BLAS:
        if count == 1:
            return work(0, length, step)
        ends = [length * k // count for k in range(count + 1)]
        state = np.geterr()

        def run(first: int, last: int) -> list[Any]:
            with np.errstate(**state):  # a thread does not know of what is around it
                return work(first, last, step)

        others = [_pool().submit(run, *part) for part in pairwise(ends[1:])]
        parts = [work(0, ends[1], step), *(other.result() for other in others)]
    return [sum(part) for part in zip(*parts, strict=True)]
