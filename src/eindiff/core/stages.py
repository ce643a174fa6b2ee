"""What long work is at, for people who wait: a line in a terminal or a notebook, from the second second on.

Whoever does something that may take long says so with `stage("derive")`. That costs less than a microsecond; a thread
beside it looks at the clock, and writes only where a person reads.
"""

from __future__ import annotations

import sys
import time
from threading import Thread, current_thread, main_thread
from typing import Any

from eindiff.core import interrupts
from eindiff.core.locks import lock

AFTER = 1.0  # seconds until something is said
EVERY = 0.2  # seconds from look to look
IDLE = 20  # looks at nothing until the thread ends


class stage:  # noqa: N801 (it is used as a function)
    """A stage of some work, which may have stages of its own; only the main thread's are told.

    >>> with stage("derive"):
    ...     pass
    """

    __slots__ = ("began", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = 0.0

    def __enter__(self) -> None:
        if current_thread() is main_thread():
            self.began = _at[0].began if _at else time.monotonic()
            if not _at:
                interrupts.keep()
            _at.append(self)
            if not _watcher and (stream := _reader()) is not None:
                _watch(stream)

    def __exit__(self, *error: object) -> None:
        if self.began:
            is_last = bool(_at) and _at[0] is self
            while _at and _at.pop() is not self:  # those inside that an interrupt left
                pass
            if not _at and _line.text:
                _line.write("")  # nothing that is printed next stands behind it
            if is_last:
                interrupts.leave()


class _Line:
    """One line of a terminal or a notebook, which is written over."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.text = ""
        self.lock = lock()

    def write(self, text: str) -> None:
        """Put a text in the place of the last one; an empty one leaves nothing. Stages that are over are not told."""
        with self.lock:
            if text == self.text or (text and not _at):
                return
            blank = " " * (len(self.text) - len(text))
            self.text = text  # before it is written, where an interrupt may come
            self.stream.write(f"\r{text}{blank}" + ("" if text else "\r"))
            self.stream.flush()


_at: list[stage] = []  # the stages of the main thread, the outermost first
_line = _Line()
_watcher: list[Thread] = []  # the thread that tells of them, if it runs


def _reader() -> Any:
    """Where a person reads along: the terminal of the standard error, or the output of a notebook's cell."""
    if "ipykernel" in sys.modules and "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        return sys.stdout if hasattr(shell, "kernel") else None
    return sys.stderr if hasattr(sys.stderr, "isatty") and sys.stderr.isatty() else None


def _watch(stream: Any) -> None:
    _line.stream = stream
    thread = Thread(target=_tell, daemon=True, name="eindiff stages")
    _watcher.append(thread)
    thread.start()


def _tell() -> None:
    """Say what is going on for as long as something is."""
    idle = 0
    while idle < IDLE:
        time.sleep(EVERY)
        now = list(_at)
        idle = 0 if now else idle + 1
        seconds = time.monotonic() - now[0].began if now else 0.0
        names = ", ".join(dict.fromkeys(one.name for one in now))  # from the outermost on, each once
        if seconds > AFTER:
            key = "Ctrl-C" if _line.stream is not sys.stdout else "■"  # notebooks have a button
            _line.write(f"eindiff: {names} … {seconds:.0f} s ({key} stops it)")
    _watcher.clear()
