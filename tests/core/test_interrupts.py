"""Ctrl-C while a table of weak references forgets a value, where Python cannot raise it."""

from __future__ import annotations

import subprocess
import sys

from eindiff.core import interrupts

LOST = """
import signal, sys, time, weakref
from eindiff.core.stages import stage
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
class Value: pass
reports = []
sys.unraisablehook = lambda error: reports.append(error.exc_type)
def forget(reference):
    if len(forgotten) < 3:  # as often as it comes again
        forgotten.append(reference)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
forgotten, values = [], []
try:
    with stage("derive"):
        until = time.monotonic() + 10
        while time.monotonic() < until:
            value = Value()
            values = [weakref.ref(value, forget)]
            del value
            time.sleep(0.001)
    print("lost")
except KeyboardInterrupt:
    print("interrupted", len(forgotten), reports)
def fail(reference): raise ValueError
value = Value()
reference = weakref.ref(value, fail)
with stage("derive"):
    del value
print(reports == [ValueError])
value = Value()
reference = weakref.ref(value, lambda reference: signal.raise_signal(signal.SIGINT))
try:
    with stage("derive"):
        del value
    print("late")
except KeyboardInterrupt:
    print("in time")
time.sleep(0.1)
"""


def test_an_interrupt_that_nobody_can_catch_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "interrupted 3 []\nTrue\nin time\n", done.stderr


def test_others_may_report_meanwhile() -> None:
    before = sys.unraisablehook
    interrupts.keep()
    interrupts.keep()
    interrupts.leave()
    assert sys.unraisablehook is not before
    sys.unraisablehook = print
    interrupts.leave()
    assert sys.unraisablehook is print
    sys.unraisablehook = before
