"""Threads that derive, trace and compile at the same time, with right values and nothing changed for other threads."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import thread_programs as programs

COUNTS = {"numpy": 6, "jax": 2, "torch": 1}


@pytest.mark.parametrize("library", programs.WORKS)
def test_threads_at_the_same_time(library: str) -> None:
    """In all threads all values are right, and another thread sees no function or setting of a library changed."""
    programs.stress(programs.WORKS[library](), COUNTS[library])


def test_functions_with_own_derivatives_and_checks_of_values_stay_while_another_thread_captures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function is traced in one thread, and halts there: nothing of PyTorch is another for this one."""
    import torch

    import eindiff.torch

    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.compile turns it off

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    inside, done = threading.Event(), threading.Event()

    def halting(v: torch.Tensor) -> torch.Tensor:
        normal = torch.distributions.Normal(v[0], v[1])
        inside.set()
        done.wait(60)
        return normal.log_prob(v).sum()

    found: list[torch.Tensor] = []
    point = torch.tensor([0.5, 2.0, 3.0])
    thread = threading.Thread(target=lambda: found.append(eindiff.torch.grad(halting)(point)))
    thread.start()
    try:
        assert inside.wait(60)
        x = torch.ones(3, requires_grad=True)
        Double.apply(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(ValueError, match="constraint"):
            torch.distributions.Normal(0.0, -1.0)
        assert torch.backends.cuda.flash_sdp_enabled()
    finally:
        done.set()
        thread.join()
    torch.testing.assert_close(found[0], torch.func.grad(halting)(point))


FORK = """
import os, signal, sys, threading
import numpy as np
import eindiff as ed
from eindiff.program import inputs
from eindiff.structure import compile as compiled
from eindiff.core import nodes as expr

locks = [expr._interning, compiled._compiling, compiled._compiled._lock, inputs._changing]
held, done = threading.Event(), threading.Event()

def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    done.wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    P = ed.symmetric("P", 3, "psd")
    x = ed.vector("x", 3)
    found = ed.compile(ed.gradient(x @ P @ x, x))(P=np.eye(3), x=np.ones(3))
    os._exit(0 if (found == 2).all() else 1)
_, status = os.waitpid(child, 0)
os._exit(os.waitstatus_to_exitcode(status) != 0)
"""


def test_a_process_that_is_forked_while_a_thread_holds_the_locks() -> None:
    assert subprocess.run([sys.executable, "-c", FORK], timeout=60, check=False).returncode == 0
