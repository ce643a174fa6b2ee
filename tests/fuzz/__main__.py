"""Random programs for some time: `python -m fuzz --seconds 60 --seed 7 [--kind maps] [--program 123]`."""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import count

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

STARTED = time.monotonic()
GRACE = 5.0  # seconds for the last program
PLACE = struct.Struct("QQ")  # the number of a program and the place of its kind, where a process can leave them behind


class TimeIsUp(BaseException):
    """The last program takes longer than there is time."""


def _stop(*_: object) -> None:
    raise TimeIsUp


def main() -> int:
    """Run programs one kind after the other; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long")
    parser.add_argument("--seed", type=int, default=0, help="where the random programs begin")
    parser.add_argument("--kind", action="append", help="only this kind")
    parser.add_argument("--program", type=int, help="only this program of the seed")
    options = parser.parse_args()
    shared = mmap.mmap(-1, PLACE.size)
    status, first = -signal.SIGABRT, options.program or 0
    failed = False
    while status < 0 and time.monotonic() - STARTED < options.seconds:
        PLACE.pack_into(shared, 0, first, 0)
        if not (child := os.fork()):
            os._exit(_programs(options, first, shared))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        failed = failed or status != 0
        if status < 0:  # a library took the process down: the next ones run in another
            number, place = PLACE.unpack_from(shared)
            kind = (options.kind or [*_kinds()])[place]
            again = f"make fuzz SEED={options.seed} KIND={kind} PROGRAM={number}"
            print(f"FAILED {kind}: the process ended by signal {-status}\n  again: {again}", flush=True)
            first = number + 1
            if options.program is not None:
                break
    return 1 if failed else 0


def _kinds() -> Iterable[str]:
    from fuzz.kinds import KINDS

    return KINDS


def _programs(options: argparse.Namespace, first: int, shared: mmap.mmap) -> int:
    """Programs from a number on; 1 if one failed."""
    counts: dict[str, Counter] = {kind: Counter() for kind in options.kind or _kinds()}
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, STARTED + options.seconds + GRACE - time.monotonic())
    with suppress(TimeIsUp):
        _run(options, counts, first, shared)
        signal.setitimer(signal.ITIMER_REAL, 0)
    for kind, tally in counts.items():
        print(f"{kind:>12}: {tally['passed']} passed, {tally['failed']} failed, {tally['unfit']} unfit")
    passed, failed = (sum(tally[word] for tally in counts.values()) for word in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


def _run(options: argparse.Namespace, counts: dict[str, Counter], first: int, shared: mmap.mmap) -> None:
    """Programs of each kind in turn until the time is up, or the one that was asked for."""
    from fuzz.running import outcome

    told = STARTED
    for number in count(first) if options.program is None else [options.program]:
        for place, kind in enumerate(counts):
            if time.monotonic() - STARTED > options.seconds:
                return
            PLACE.pack_into(shared, 0, number, place)
            found = outcome(kind, options.seed, number)
            counts[kind][found.word] += 1
            if found.word == "failed":
                again = f"make fuzz SEED={options.seed} KIND={kind} PROGRAM={number}"
                print(f"FAILED {kind}: {found.message}\n  again: {again}\n{found.text}", flush=True)
                if options.program is not None:
                    traceback.print_exception(found.error)
        if sys.stderr.isatty() and time.monotonic() - told > 2:
            told = time.monotonic()
            print(f"{sum(c['passed'] for c in counts.values())} programs", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
