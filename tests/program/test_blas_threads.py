"""Threads of NumPy programs, and of the libraries of linear algebra below: none is left behind, or taken away."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import eindiff as ed
from eindiff.planning import tuning
from eindiff.program import threads
from eindiff.program.threads import in_threads, with_one_thread


class Library:
    """What `threadpoolctl` says of one."""

    num_threads = 4

    def set_num_threads(self, count: int) -> None:
        self.num_threads = count


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> list[Library]:
    """NumPy's, and SciPy's, on three cores."""
    found = [Library(), Library()]
    monkeypatch.setattr(threads, "_libraries", lambda: found)
    monkeypatch.setattr(threads, "_of_scipy", lambda: found[1:])
    monkeypatch.setattr(threads, "core_count", lambda: 3)
    return found


def counts(libraries: list[Library]) -> list[int]:
    return [library.num_threads for library in libraries]


def test_blas_has_one_thread_while_anybody_works(libraries):
    def work(first: int, last: int, step: int) -> list[int]:
        [inner] = in_threads(lambda a, b, step: [b - a], 4, 1, 4)  # another program
        assert counts(libraries) == [1, 1]
        return [inner * (last - first)]

    assert in_threads(work, 7, 3, 7) == [28] and counts(libraries) == [4, 4]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda first, last, step: [1 // first], 7, 3, 7)
    assert counts(libraries) == [4, 4]


def test_whoever_leaves_last_restores_what_was_there(libraries):
    """In whatever order: a thread may leave a program of SciPy while another one is in a loop."""
    loop, program = threads._ONE_OF_BLAS, threads._ONE_OF["scipy"]
    for first, second in ((loop, program), (program, loop)):
        first.__enter__()
        second.__enter__()
        first.__exit__()
        assert libraries[1].num_threads == 1
        second.__exit__()
        assert counts(libraries) == [4, 4]
    for of, found in (("scipy", [4, 1]), ("numpy", [1, 4]), ("all", [1, 1]), ("", [4, 4])):
        assert with_one_thread(lambda: counts(libraries), of)() == found


def test_own_threads_have_the_cores_for_themselves():
    """Where they do most of the work, in products of rows that BLAS does not pack."""
    X, W, V = ed.matrix("X", "m", "n"), ed.matrix("W", "n", "n"), ed.matrix("V", "n", "n")
    f = ed.sum(ed.tanh(ed.tanh(X @ W) @ V))
    outputs = [f, ed.gradient(f, X)]
    program = ed.plan(outputs, {"m": 20000, "n": 64})._program
    assert program.single_threaded == "all" and "cores=1)" in program.source
    assert not ed.plan(outputs, {"m": 20000, "n": 2000})._program.single_threaded
    rng = np.random.default_rng(0)
    x, w, v = rng.normal(size=(9000, 64)), rng.normal(size=(64, 64)) / 8, rng.normal(size=(64, 64)) / 8
    compiled = ed.compile(outputs)
    value, gradient = compiled(X=x, W=w, V=v)
    inner = np.tanh(x @ w)
    outer = np.tanh(inner @ v)
    assert "cores=1)" in compiled.source
    np.testing.assert_allclose(value, outer.sum(), rtol=1e-11)
    np.testing.assert_allclose(gradient, ((1 - outer**2) @ v.T * (1 - inner**2)) @ w.T, rtol=1e-9, atol=1e-12)


def test_threads_are_there_in_a_new_process():
    """A process that is forked has none of those that waited for work, nor of those that worked."""
    script = """
import os
from eindiff.program import threads
threads.core_count = lambda: 2
work = lambda first, last, step: [last - first]
assert threads.in_threads(work, 5, 2, 5) == [5]
with threads._ONE_OF_BLAS:
    child = os.fork()
    if child == 0:
        os._exit(threads.in_threads(work, 5, 2, 5) != [5] or any(held[1] for held in threads._OneThread._held.values()))
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_factorizations_leave_the_cores_to_products(libraries, monkeypatch):
    """Where there are products, or few operations; a program that is stored remembers it."""
    A, x, C = ed.matrix("A", "n", "n", "psd"), ed.vector("x", "n"), ed.matrix("C", "n", "n")
    outputs = [x @ ed.inv(A) @ x, ed.logdet(A)]
    assert ed.plan(outputs, {"n": 120})._program.single_threaded == "scipy"
    assert not ed.plan(outputs, {"n": 30})._program.single_threaded
    assert ed.plan(outputs, {"n": 2000})._program.single_threaded == "numpy"
    assert not ed.plan([ed.logdet(A)], {"n": 2000})._program.single_threaded
    assert ed.plan([*outputs, C @ C @ C], {"n": 2000})._program.single_threaded == "scipy"
    monkeypatch.setattr(tuning, "FEW_THREADS", (0.0, 1.0))
    compiled = ed.compile(outputs)
    arrays = {"A": np.diag(np.arange(2.0, 42.0)), "x": np.ones(40)}
    seen: list[int] = []
    monkeypatch.setattr(Library, "set_num_threads", lambda self, count: seen.append(count))
    for function in (compiled, pickle.loads(pickle.dumps(compiled))):
        np.testing.assert_allclose(function(**arrays)[1], np.log(np.arange(2.0, 42.0)).sum(), rtol=1e-12)
        assert seen == [1, 4]
        seen.clear()
    function(**arrays, out=[np.empty(()), np.empty(())])
    assert seen == [1, 4]
