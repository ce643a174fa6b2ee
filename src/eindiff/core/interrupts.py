"""Ctrl-C that comes at a bad time comes again.

Python raises KeyboardInterrupt wherever it is. Where a value is gone and a table of weak references forgets it, which
expressions do all the time, nobody can catch it: Python reports it, and goes on as if nobody had pressed the keys.
"""

from __future__ import annotations

import sys
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

SOON = 0.01  # seconds until it comes again: not while the report of it is still running
_before: list[Callable[[Any], object]] = []  # what reports such errors else, for each that keeps interrupts
_lost: set[object] = set()  # interrupts that are to come again


@contextmanager
def kept() -> Iterator[None]:
    """Let no interrupt get lost meanwhile."""
    keep()
    try:
        yield
    finally:
        leave()


def keep() -> None:
    """Let no interrupt get lost until `leave`."""
    _before.append(sys.unraisablehook)
    sys.unraisablehook = _again


def leave() -> None:
    """Report errors that nobody can catch as before. What is still to come comes now, and not in the work of others."""
    before = _before.pop() if _before else sys.__unraisablehook__
    if sys.unraisablehook is _again:  # else somebody else reports them by now
        sys.unraisablehook = before
    if _lost:
        _lost.clear()
        raise KeyboardInterrupt


def _again(error: Any) -> None:
    if error.exc_type is KeyboardInterrupt:
        lost = object()
        _lost.add(lost)
        start_new_thread(_come, (lost,))  # a `Thread` would be waited for here, where an interrupt is lost
    else:
        next(report for report in reversed([sys.__unraisablehook__, *_before]) if report is not _again)(error)


def _come(lost: object) -> None:
    sleep(SOON)
    if lost in _lost:  # else it came when they were left
        interrupt_main()
        _lost.discard(lost)
