"""Long work says what it is at where a person reads, and an interrupt leaves nothing half done."""

from __future__ import annotations

import io
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from threading import Thread

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import stages

LONG = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where it is ignored
import eindiff as ed
X = ed.matrix("X", "n", "n")
f = ed.tr(ed.matrix_power(X, 99999999))
try:
    for _ in range(3):
        f = ed.derivative(f, X)
except KeyboardInterrupt:
    print("interrupted")
print(ed.to_text(ed.gradient(ed.norm2(X) ** 2, X)))
"""


def test_a_terminal_is_told_and_can_interrupt():
    own, other = pty.openpty()
    command = [sys.executable, "-c", LONG]
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, start_new_session=True) as process:
        os.close(other)
        said, interrupted = b"", False
        until = time.monotonic() + 30
        while time.monotonic() < until and process.poll() is None:
            if select.select([own], [], [], 0.1)[0]:
                try:
                    said += os.read(own, 4096)
                except OSError:  # all is said
                    break
            if b"derive" in said and not interrupted:
                process.send_signal(signal.SIGINT)
                interrupted = True
    os.close(own)
    text = said.decode()
    assert "eindiff: derive … 1 s (Ctrl-C stops it)" in text
    line = " " * len("eindiff: derive … 1 s (Ctrl-C stops it)")
    assert f"\r{line}\rinterrupted\r\n2*X\r\n" in text  # the line is gone before anything is printed


def test_stages_inside_of_each_other(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stages, "_reader", lambda: stream)
    monkeypatch.setattr(stages, "AFTER", 0.0)
    monkeypatch.setattr(stages, "EVERY", 0.01)
    monkeypatch.setattr(stages, "IDLE", 3)
    with stages.stage("compile"), stages.stage("order"):
        until = time.monotonic() + 5
        while "order" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert stream.getvalue().startswith("\reindiff: compile, order … 0 s")
    assert stream.getvalue().endswith(" \r") and not stages._at
    for watcher in stages._watcher[:]:
        watcher.join(5)
    assert not stages._watcher


def test_other_threads_and_files_are_told_nothing():
    seen: list[int] = []

    def work() -> None:
        with stages.stage("derive"):
            seen.append(len(stages._at))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    with stages.stage("derive"):
        seen.append(len(stages._watcher))
    assert seen == [0, 0]


# An interrupt that comes while Python calls back for a weak reference is lost, and Python says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="interrupts by a timer")
def test_an_interrupt_at_any_time_leaves_nothing_half_done():
    rng = random.Random(0)
    arrays = {"A": np.eye(3) + 0.1, "w": np.array([0.3, -0.2, 0.5]), "y": np.array([1.0, -1.0, 1.0])}

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def hessian(k: float) -> list:
        A, w, y = ed.matrix("A", "n", "n"), ed.vector("w", "n"), ed.vector("y", "n")
        f = ed.sum(ed.log(1 + ed.exp(-y * (A @ w)))) + k * ed.logsumexp(A @ ed.tanh(A @ w)) + ed.logdet(A.T @ A)
        return ed.hessian(f, [w, A])

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for k in range(12):
            for _ in range(3):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.04 * rng.random())
                    ed.compile(hessian(k + 1.5))(**arrays)
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            ed.evaluate(hessian(k + 1.5), arrays)  # which compares with the compiled program
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 5 and not stages._at, interrupted
