"""The processes that do the work: what takes too long is ended, while others are answered."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from eindiff.apps.page import limits
from eindiff.apps.page.workers import Workers, respond
from pace import at_pace

FOREVER = {"expression": "tr(X^99999999)", "wrt": ["X"], "order": 3}
QUICK = {"expression": "x'*A*x", "wrt": ["x"]}


def quick(number: int) -> dict[str, Any]:
    """A request that was not asked before."""
    return {"expression": f"{number}*x'*A*x", "wrt": ["x"]}


@asynccontextmanager
async def started(count: int, seconds: float, **more: Any) -> AsyncIterator[tuple[Workers, list[tuple[str, dict]]]]:
    events: list[tuple[str, dict]] = []
    workers = Workers(count, seconds, log=lambda event, **fields: events.append((event, fields)), **more)
    workers.start()
    try:
        yield workers, events
    finally:
        workers.stop()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def test_what_takes_forever_is_ended_while_others_are_answered():
    async def test() -> None:
        async with started(2, 2.5) as (workers, events):
            before = {worker.process.pid for worker in workers._alive}
            began = time.monotonic()
            forever = asyncio.ensure_future(workers.ask("derive", FOREVER))
            await asyncio.sleep(0.1)
            for number in range(2, 12):
                assert (await workers.ask("derive", quick(number))).status == 200
            assert not forever.done()
            reply = await forever
            assert reply.status == 504
            assert "2.5 s" in reply.data["message"]
            assert 2.5 <= time.monotonic() - began < at_pace(8)
            assert [event for event, _ in events] == ["worker killed"]
            after = {worker.process.pid for worker in workers._alive}
            assert len(after) == 2
            assert len(after & before) == 1
            assert (await workers.ask("derive", quick(99))).status == 200
            assert workers.busy == workers.waiting == 0

    run(test)


def test_all_workers_are_replaced():
    async def test() -> None:
        async with started(2, 0.7) as (workers, events):
            asked = [workers.ask("derive", {**FOREVER, "notation": n}) for n in ("matrix", "index", "einsum")]
            assert [reply.status for reply in await asyncio.gather(*asked)] == [504, 504, 504]
            assert len(events) == 3
            assert (await workers.ask("derive", QUICK)).status == 200

    run(test)


def test_a_worker_that_dies():
    async def test() -> None:
        async with started(1, 5) as (workers, events):
            asked = asyncio.ensure_future(workers.ask("derive", FOREVER))
            await asyncio.sleep(0.3)
            [worker] = workers._alive
            os.kill(worker.process.pid, signal.SIGSEGV)
            reply = await asked
            assert reply.status == 422
            assert "ended" in reply.data["message"]
            assert events[0][0] == "worker died"
            assert not workers._answers
            assert (await workers.ask("derive", QUICK)).status == 200

    run(test)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited on Linux")
def test_memory_is_limited():
    async def test() -> None:
        async with started(1, 20, memory=50_000_000) as (workers, events):
            large = {"expression": "sum(exp(T*T'))", "declarations": "T(5000,10)", "wrt": ["T"], "order": 2}
            reply = await workers.ask("structure", large)
            assert reply.status == 422
            assert "memory" in reply.data["message"]
            assert events[0][1]["reason"] == "MemoryError"
            assert (await workers.ask("derive", QUICK)).status == 200

    run(test)


def test_a_full_queue_is_refused():
    async def test() -> None:
        async with started(1, 1.0, queue=2) as (workers, events):
            first = asyncio.ensure_future(workers.ask("derive", FOREVER))
            await asyncio.sleep(0.05)
            rest = [asyncio.ensure_future(workers.ask("derive", quick(number))) for number in range(2, 6)]
            statuses = [reply.status for reply in await asyncio.gather(*rest)]
            assert sorted(statuses) == [200, 200, 503, 503]
            assert (await first).status == 504
            assert [event for event, _ in events].count("refused") == 2

    run(test)


def test_who_waits_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "WAIT", 0.5)

    async def test() -> None:
        async with started(1, 1.0) as (workers, _):
            first = asyncio.ensure_future(workers.ask("derive", FOREVER))
            await asyncio.sleep(0.05)
            assert (await workers.ask("derive", QUICK)).status == 503
            assert (await first).status == 504
            assert (await workers.ask("derive", QUICK)).status == 200

    run(test)


def test_a_worker_that_cannot_be_started(monkeypatch):
    async def test() -> None:
        async with started(1, 1.0) as (workers, events):
            monkeypatch.setattr(workers, "_started", lambda: (_ for _ in ()).throw(OSError("no more processes")))
            assert (await workers.ask("derive", FOREVER)).status == 504
            assert (await workers.ask("derive", QUICK)).status == 503
            monkeypatch.undo()
            assert (await workers.ask("derive", QUICK)).status == 200
            assert [event for event, _ in events] == ["worker killed", "worker missing"]

    run(test)


def test_answers_are_kept_but_not_all(monkeypatch):
    async def test() -> None:
        async with started(1, 5) as (workers, _):
            first = await workers.ask("derive", QUICK)
            assert await workers.ask("derive", dict(QUICK)) is first
            monkeypatch.setattr(limits, "CACHE", 3 * first.size)
            for number in range(2, 10):
                await workers.ask("derive", quick(number))
            assert 0 < workers._kept <= 3 * first.size
            assert workers._kept == sum(reply.size for reply in workers._answers.values())
            assert await workers.ask("derive", QUICK) is not first

    run(test)


def test_an_old_worker_is_replaced(monkeypatch):
    monkeypatch.setattr("eindiff.apps.page.workers.REQUESTS", 3)

    async def test() -> None:
        async with started(1, 5) as (workers, events):
            for number in range(2, 8):
                assert (await workers.ask("derive", quick(number))).status == 200
            assert [fields["reason"] for _, fields in events] == ["age", "age"]

    run(test)


def test_an_error_inside_says_nothing_of_the_user(monkeypatch):
    def broken(ask: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("eindiff.apps.page.tasks.TASKS", {"derive": broken})
    status, body, trouble = respond("derive", QUICK)
    assert status == 500
    assert b"secret" not in body
    assert trouble.startswith("KeyError at test_serve_workers.py:")


def test_an_answer_that_is_too_long(monkeypatch):
    monkeypatch.setattr(limits, "LONGEST_ANSWER", 500)
    status, body, _ = respond("derive", QUICK)
    assert status == 422
    assert b"most here" in body


def test_an_interrupt_at_any_time_refuses(monkeypatch):
    """A signal may come between any two steps of a request: what was asked is refused, and no error of the server."""

    async def test() -> None:
        async with started(1, 30) as (workers, _):
            submit = workers._threads.submit

            def interrupted(*args: Any) -> Any:
                workers.interrupt()
                return submit(*args)

            monkeypatch.setattr(workers._threads, "submit", interrupted)
            assert (await workers.ask("derive", QUICK)).status == 503
        async with started(1, 30) as (workers, _):
            long = [FOREVER | {"expression": f"tr({x}^99999999)", "wrt": [x]} for x in "XYZ"]
            asked = [asyncio.ensure_future(workers.ask("derive", one)) for one in long]
            await asyncio.sleep(0.2)
            workers.interrupt()
            assert [(await one).status for one in asked] == [503, 503, 503]

    run(test)
