"""Limits of work: calls of Python, which are the same in every run, where they are what takes time; else seconds of a
machine of usual speed, of which one that is slower just now gets more, in proportion."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

USUAL = 0.025  # seconds that the loop takes on a machine of usual speed
TURNS = 1_000_000
MOST = 10.0  # times as long as usual: what is slower still has other troubles


def at_pace(seconds: float) -> float:
    """A limit of time at the speed that the machine has now."""
    return seconds * min(MOST, max(1.0, min(_loop() for _ in range(3)) / USUAL))


def _loop() -> float:
    start, total = perf_counter(), 0
    for k in range(TURNS):
        total += k
    return perf_counter() - start


def calls(work: Callable[[], Any]) -> int:
    """How many functions of Python are called, without those that collections of garbage call."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
