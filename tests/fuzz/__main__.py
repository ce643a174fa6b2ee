"""Random programs for some time: `python -m fuzz --seconds 60 --seed 7 [--kind maps] [--program 123]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

STARTED = time.monotonic()


def main() -> int:
    """Run programs one kind after the other; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long")
    parser.add_argument("--seed", type=int, default=0, help="where the random programs begin")
    parser.add_argument("--kind", action="append", help="only this kind")
    parser.add_argument("--program", type=int, help="only this program of the seed")
    options = parser.parse_args()
    from fuzz.kinds import KINDS
    from fuzz.running import outcome

    kinds = options.kind or list(KINDS)
    counts: dict[str, Counter] = {kind: Counter() for kind in kinds}
    number = options.program or 0
    told = STARTED
    while time.monotonic() - STARTED < options.seconds:
        for kind in kinds:
            found = outcome(kind, options.seed, number)
            counts[kind][found.word] += 1
            if found.word == "failed":
                again = f"make fuzz SEED={options.seed} KIND={kind} PROGRAM={number}"
                print(f"FAILED {kind}: {found.message}\n  again: {again}\n{found.text}", flush=True)
                if options.program is not None:
                    traceback.print_exception(found.error)
            if time.monotonic() - STARTED > options.seconds:
                break
        number += 1
        if options.program is not None:
            break
        if sys.stderr.isatty() and time.monotonic() - told > 2:
            told = time.monotonic()
            print(f"{sum(c['passed'] for c in counts.values())} programs", end="\r", file=sys.stderr, flush=True)
    for kind, count in counts.items():
        print(f"{kind:>12}: {count['passed']} passed, {count['failed']} failed, {count['unfit']} unfit")
    passed, failed = (sum(count[word] for count in counts.values()) for word in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
