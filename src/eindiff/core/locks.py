"""Locks that are free in a process that is forked while another thread holds them.

That thread does not exist in the new process, so nobody would ever release its locks there. What they guard is changed
by single steps, and whole after each.
"""

from __future__ import annotations

import os
from threading import Lock, RLock
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def lock() -> Any:
    """A lock that a thread may take once."""
    return _registered(Lock())


def reentrant_lock() -> Any:
    """A lock that a thread may take again while it has it."""
    return _registered(RLock())


def _registered(made: Any) -> Any:
    _locks.add(made)
    return made


def _release_all() -> None:
    for held in list(_locks):
        held._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)
