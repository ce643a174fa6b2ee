"""A line that says how far long work is: what is done, at which rate, and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

PATIENCE = 2.0  # seconds before the first line
INTERVAL = 0.2  # seconds between lines

Report = Callable[[str, int, int | None], None]  # what, rows done, rows in all


class Bar:
    """Progress in a terminal, on one line that is written over; elsewhere nothing."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._shown = self._stream.isatty()
        self._began = self._last = time.monotonic()
        self._what = ""
        self._width = 0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if what != self._what:
            self._what, self._began = what, now
        ends = total is not None and done >= total
        if not self._shown or now - self._began < PATIENCE or (now - self._last < INTERVAL and not ends):
            return
        self._last = now
        text = line(what, done, total, now - self._began)
        self._stream.write("\r" + text.ljust(self._width) + ("\n" if ends else ""))
        self._width = len(text)
        self._stream.flush()


def line(what: str, done: int, total: int | None, seconds: float) -> str:
    """What is said of some work.

    >>> line("pass 1 of 2", 2_000_000, 8_000_000, 4.0)
    'pass 1 of 2: 25 %, 2,000,000 rows, 500,000 rows/s, 12 s left'
    """
    rate = done / max(seconds, 1e-9)
    share = f"{100 * done // total} %, " if total else ""
    left = f", {(total - done) / rate:.0f} s left" if total and rate else ""
    return f"{what}: {share}{done:,} rows, {rate:,.0f} rows/s{left}"
