"""A few processes that answer requests, each ended and replaced when a request takes too long or too much memory.

They are forked from a process that has everything imported and warm, so that a new one takes milliseconds. A request
goes to a free one over a pipe; a thread of the server waits at the other end.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock
from typing import Any

from eindiff.apps.page import limits
from eindiff.apps.page.reading import ProblemError
from eindiff.apps.page.turns import Job, Turns, is_slow
from eindiff.core.errors import EindiffError

STARTING = 60.0  # seconds that a new one may take until it can work
READY = "ready"
OVERHEAD = 400  # bytes that keeping an answer takes besides its text
REQUESTS = 2000  # that a worker answers before it is replaced, so that what it keeps in mind does not grow
SINGLE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
PRELOAD = "eindiff.apps.page.warm"

BUSY = "too many requests at the moment; try again soon"
BUSY_HINT = "wait for an answer, or stop one of them"

Log = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a request: an HTTP status, and an answer or a `Problem` as JSON."""

    status: int
    body: bytes
    lasting: bool = False  # whether the same request gets the same reply again

    @staticmethod
    def problem(status: int, message: str, **more: Any) -> Reply:
        """Why there is no answer."""
        return Reply(status, json.dumps({"message": message, **more}).encode())

    @property
    def size(self) -> int:
        """About the memory that it takes to keep it."""
        return len(self.body) + OVERHEAD

    @property
    def data(self) -> dict[str, Any]:
        """What the JSON says."""
        found: dict[str, Any] = json.loads(self.body)
        return found


def slow_hint(ask: Mapping[str, Any]) -> str:
    """What to try if a request takes too long."""
    order = ["a lower order"] if ask.get("order", 1) > 1 else []
    variables = ["fewer variables"] if len(ask.get("wrt", ())) != 1 else []
    own = "`eindiff serve` with a longer --time-limit on a machine of your own"
    return f"try {', '.join([*order, *variables, 'a shorter expression'])}, or {own}"


# In the process of a worker


def serve(pipe: Connection, memory: int) -> None:
    """Answer what comes through a pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when workers end
    _limit_memory(memory)
    pipe.send(READY)
    while True:
        try:
            kind, ask = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(respond(kind, ask))


def respond(kind: str, ask: Mapping[str, Any]) -> tuple[int, bytes, str]:
    """Status, JSON, and for the log what went wrong inside: never anything that the user wrote."""
    status, data, trouble = _answered(kind, ask)
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    if len(body) > limits.LONGEST_ANSWER:
        message = f"the answer has more than {limits.LONGEST_ANSWER // 1_000_000} MB, which is the most here"
        return 422, json.dumps({"message": message, "field": "expression"}).encode(), ""
    return status, body, trouble


def _answered(kind: str, ask: Mapping[str, Any]) -> tuple[int, dict[str, Any], str]:
    """The same, with data that is not JSON yet."""
    from eindiff.apps.page.tasks import answer  # by workers alone, so that the server itself starts quickly

    try:
        return 200, answer(kind, ask), ""
    except ProblemError as refused:
        return 422, refused.problem, ""
    except EindiffError as error:
        return 422, {"message": " ".join(str(error).split()), "field": "expression"}, ""
    except MemoryError:
        return 422, {"message": "this takes more memory than is allowed here"}, "MemoryError"
    except RecursionError:
        return 422, {"message": "this is nested too deep"}, "RecursionError"
    except Exception as error:
        return 500, {"message": "an error of eindiff itself"}, f"{type(error).__name__} at {_place(error)}"


def _place(error: BaseException) -> str:
    """Where an error was raised: file and line."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}"


def _limit_memory(more: int) -> None:
    """Let this process have no more than that many bytes on top of what it has, where the system can do so."""
    try:
        import resource  # not on all systems

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (now + more, now + more))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        return


# In the server


class Worker:
    """One process, and the pipe to it."""

    def __init__(self, memory: int) -> None:
        context = _context()
        self._pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, memory), daemon=True, name="eindiff worker")
        self.process.start()
        other.close()
        self.answered = 0
        self._is_ready = False

    def wait(self) -> None:
        """Wait until it can work: the time of a request counts from then on."""
        if not self._is_ready:
            self._is_ready = self._pipe.poll(STARTING) and self._pipe.recv() == READY
            if not self._is_ready:
                raise EOFError

    def send(self, kind: str, ask: Mapping[str, Any]) -> None:
        """Begin with a request. A process that ended is an EOFError or an OSError, here and below."""
        self._pipe.send((kind, ask))
        self.answered += 1

    def receive(self, seconds: float) -> tuple[int, bytes, str] | None:
        """The reply; None if there is none in time."""
        return self._pipe.recv() if self._pipe.poll(seconds) else None

    def kill(self) -> None:
        """Have the process end: whoever waits for its reply gets an EOFError."""
        self.process.kill()

    def end(self) -> None:
        """Kill the process and wait for its end; nobody else may wait for it then."""
        self.kill()
        self.process.join(5)
        self._pipe.close()


def _context() -> Any:
    """Forks of a prepared process where the system has them."""
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload([PRELOAD])
    return context


class Workers:
    """The processes, the requests that wait for them, and the last answers."""

    def __init__(
        self, count: int, seconds: float = limits.TIME, memory: int = limits.MEMORY, queue: int = limits.QUEUE,
        log: Log | None = None,
    ) -> None:  # fmt: skip
        self.count, self.seconds, self.memory = count, seconds, memory
        self.turns = Turns(count)
        self._most = queue * count
        self._log = log or (lambda event, **fields: None)
        self._lock = Lock()  # for the turns, and for who works on what
        self._at: dict[Job, Worker] = {}
        self._idle: SimpleQueue[Worker | None] = SimpleQueue()  # None: one that has to be started
        self._alive: set[Worker] = set()
        self._threads = ThreadPoolExecutor(count, "eindiff")
        self._answers: OrderedDict[bytes, Reply] = OrderedDict()
        self._kept = 0  # bytes of these
        self._stopped = True

    @property
    def is_started(self) -> bool:
        """Whether there are processes."""
        return not self._stopped

    @property
    def busy(self) -> int:
        """How many are at work."""
        return len(self.turns.running)

    @property
    def waiting(self) -> int:
        """How many requests wait for one."""
        return len(self.turns)

    @property
    def limits(self) -> dict[str, float]:
        """What a client may have: seconds for a request, slow requests at once, and requests that wait."""
        return {"seconds": self.seconds, "slow": self.turns.most_slow_each, "waiting": limits.OWN_QUEUE}

    def start(self) -> None:
        """Start all of them, and wait until they answer."""
        self._stopped = False
        before = {name: os.environ.get(name) for name in SINGLE}
        os.environ.update(dict.fromkeys(SINGLE, "1"))  # they inherit it: each has one core
        try:
            for _ in range(self.count):
                self._idle.put(self._started())
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        for worker in list(self._alive):
            worker.wait()

    def _started(self) -> Worker:
        if self._stopped:
            raise EOFError
        worker = Worker(self.memory)
        self._alive.add(worker)
        if self._stopped:  # meanwhile
            self._ended(worker)
        return worker

    def _ended(self, worker: Worker) -> None:
        self._alive.discard(worker)
        worker.end()

    def interrupt(self) -> None:
        """Kill all of them: requests that are worked on or wait are refused, each by its own thread.

        It takes no lock and closes nothing that a thread still uses, so a handler of signals can call it at any time.
        """
        self._stopped = True
        for worker in list(self._alive):
            worker.kill()

    def stop(self) -> None:
        """End all of them, and the threads once they have refused what they had."""
        self.interrupt()
        self._threads.shutdown()
        for worker in list(self._alive):
            self._ended(worker)

    async def ask(self, kind: str, ask: dict[str, Any], address: str = "", name: str = "") -> Reply:
        """The reply to a request of a client: at once if it is known or too many wait. Cancelled, work on it ends."""
        key = sha256(json.dumps([kind, ask], sort_keys=True).encode()).digest()
        if (known := self._answers.get(key)) is not None:
            self._answers.move_to_end(key)
            return known
        job = Job(kind, ask, address, name, is_slow(kind, ask))
        if (refusal := self._refusal(job)) is not None:
            self._log("refused", waiting=self.waiting)
            return refusal
        with self._lock:
            self.turns.put(job)
        self._run()
        try:
            reply: Reply = await asyncio.shield(asyncio.wrap_future(job.reply))
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(limits.GRACE, self._kill, job)
            with self._lock:
                job.is_stopped = True
            raise
        if reply.lasting:
            self._keep(key, reply)
        return reply

    def _refusal(self, job: Job) -> Reply | None:
        """What is answered if too many requests wait, of all or of one client."""
        if self._stopped or self.busy + self.waiting >= self._most + self.count:
            return Reply.problem(503, BUSY)
        if self.turns.of(job.address) >= limits.OWN_QUEUE:
            most = f"{limits.OWN_QUEUE} of your requests wait already, the most here"
            return Reply.problem(429, most, hint=BUSY_HINT)
        return None

    def _kill(self, job: Job) -> None:
        """End the work on a request that nobody waits for; what ends soon by itself has done so."""
        with self._lock:
            if job in self._at:
                self._at[job].kill()

    def _keep(self, key: bytes, reply: Reply) -> None:
        """Keep an answer, and forget those that were not asked for lately."""
        if (before := self._answers.pop(key, None)) is not None:
            self._kept -= before.size
        self._answers[key] = reply
        self._kept += reply.size
        while self._kept > limits.CACHE:
            self._kept -= self._answers.popitem(last=False)[1].size

    def _run(self) -> None:
        """Begin with all requests whose turn it is."""
        while True:
            with self._lock:
                job = self.turns.next()
            if job is None:
                return
            try:
                self._threads.submit(self._work, job)
            except RuntimeError:  # they are shut down
                self._done(job, Reply.problem(503, BUSY))

    def _work(self, job: Job) -> None:
        reply: Reply | None = Reply.problem(503, BUSY)
        try:
            reply = self._reply(job)
        finally:
            if reply is not None:
                self._done(job, reply)
            self._run()

    def _done(self, job: Job, reply: Reply) -> None:
        with self._lock:
            self.turns.running.discard(job)
        job.reply.set_result(reply)

    def _reply(self, job: Job) -> Reply | None:
        """Ask a free worker, and put it or another one back; None if the request has to wait for its turn again."""
        waited = time.monotonic() - job.since
        if self._stopped or job.is_stopped or waited > limits.WAIT:
            self._log("refused", waited=round(waited, 3))
            return Reply.problem(503, BUSY)
        worker = self._idle.get()
        try:
            worker = worker or self._started()
            worker.wait()
            with self._lock:
                self._at[job] = worker
            began = time.monotonic()
            found, goes_on = self._asked(worker, job)
        except (EOFError, OSError):
            return self._lost(worker, job)
        seconds = round(time.monotonic() - began, 3)
        if found is None:
            self._replace(worker, job, "killed" if goes_on else "interrupted", seconds=seconds)
            # not 408, after which browsers send a request again by themselves
            message = f"this takes longer than {self.seconds:g} s, the limit here"
            return Reply.problem(504, message, hint=slow_hint(job.ask), limit=self.seconds) if goes_on else None
        status, body, trouble = found
        if trouble or worker.answered >= REQUESTS:
            self._replace(worker, job, "replaced", reason=trouble or "age")
        else:
            self._free(job)
            self._idle.put(worker)
        return Reply(status, body, lasting=status < 500 and not trouble)

    def _lost(self, worker: Worker | None, job: Job) -> Reply:
        """What is said where no worker could be started, or it ended before its reply."""
        if worker is None:
            self._idle.put(None)
            self._log("worker missing")
            return Reply.problem(503, BUSY)
        self._replace(worker, job, "stopped" if job.is_stopped else "died")
        if self._stopped or job.is_stopped:
            return Reply.problem(503, BUSY)
        return Reply.problem(422, "this is too much here: the process that worked on it ended")

    def _asked(self, worker: Worker, job: Job) -> tuple[tuple[int, bytes, str] | None, bool]:
        """The reply, and whether the request had all its time: a quick one that is slow may have to wait again."""
        worker.send(job.kind, job.ask)
        first = self.seconds if job.is_slow else min(limits.QUICK_SECONDS, self.seconds)
        found = worker.receive(first)
        if found is not None or first == self.seconds:
            return found, True
        with self._lock:
            goes_on = self.turns.slowed(job)
        return (worker.receive(self.seconds - first), True) if goes_on else (None, False)

    def _free(self, job: Job) -> None:
        with self._lock:
            self._at.pop(job, None)

    def _replace(self, worker: Worker, job: Job, event: str, **fields: Any) -> None:
        pid = worker.process.pid
        self._free(job)
        self._ended(worker)
        self._log(f"worker {event}", kind=job.kind, pid=pid, **fields)
        try:
            self._idle.put(self._started())
        except (EOFError, OSError):
            self._idle.put(None)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
