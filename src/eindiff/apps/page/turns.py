"""Whose turn it is: requests that wait for a worker, so that those of one client do not make others wait.

What is quick as a rule, the first derivative and all that belongs to it, always finds a worker that slow requests may
not take; it is slow from the moment on that it is not quick. Of slow ones, an address has some at once and no more.
Clients take turns. A client is an address and, as many people may share one, what its page calls itself.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False, slots=True)
class Job:
    """A request that waits or is worked on."""

    kind: str
    ask: Mapping[str, Any]
    address: str = ""
    name: str = ""  # what the client calls itself
    is_slow: bool = False
    since: float = field(default_factory=time.monotonic)
    is_stopped: bool = False  # nobody wants the answer any more
    reply: Future = field(default_factory=Future)

    @property
    def client(self) -> tuple[str, str]:
        """Who asks."""
        return self.address, self.name


def is_slow(kind: str, ask: Mapping[str, Any]) -> bool:
    """Whether a request may take long, as far as can be told before: not first derivatives."""
    mixed = any("," in word for word in ask.get("wrt", ()))
    return kind != "parse" and (ask.get("order", 1) > 1 or mixed)


class Turns:
    """The requests that wait, in the order of their turns, and those that are worked on. Callers hold a lock."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.most_slow = max(1, count - 1 - count // 6)  # the other workers are for quick requests
        self.most_slow_each = (self.most_slow + 1) // 2  # for one address
        self.most_quick_each = max(1, count - 1)
        self.waiting: OrderedDict[tuple[str, str], deque[Job]] = OrderedDict()  # by clients, in the order of turns
        self.running: set[Job] = set()

    def __len__(self) -> int:
        return sum(map(len, self.waiting.values()))

    def of(self, address: str) -> int:
        """How many requests of one address wait."""
        return sum(len(jobs) for (other, _), jobs in self.waiting.items() if other == address)

    def put(self, job: Job) -> None:
        """Have a request wait for its turn."""
        self.waiting.setdefault(job.client, deque()).append(job)

    def next(self) -> Job | None:
        """The request whose turn it is, which runs from now on; None if all that wait have to wait."""
        if len(self.running) >= self.count:
            return None
        for client, jobs in self.waiting.items():
            for job in jobs:
                if self.may_run(job):
                    self.remove(job)
                    if client in self.waiting:
                        self.waiting.move_to_end(client)
                    self.running.add(job)
                    return job
        return None

    def may_run(self, job: Job) -> bool:
        """Whether there is a place for it beside those that run."""
        same = [other for other in self.running if other.is_slow == job.is_slow and other is not job]
        own = sum(other.address == job.address for other in same)
        if job.is_slow:
            return len(same) < self.most_slow and own < self.most_slow_each
        return own < self.most_quick_each

    def slowed(self, job: Job) -> bool:
        """One that runs turns out to be slow: whether it may go on, or has to wait for its turn among these."""
        job.is_slow = True
        if self.may_run(job):
            return True
        self.running.discard(job)
        self.put(job)
        return False

    def remove(self, job: Job) -> None:
        """Forget a request that waits."""
        jobs = self.waiting[job.client]
        jobs.remove(job)
        if not jobs:
            del self.waiting[job.client]
