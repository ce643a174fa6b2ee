"""Diagonals and traces of Hessians of all problems of the benchmark: in memory that grows with the data alone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import eindiff as ed
from benchmarks.structure_problems import PROBLEMS, Expressions

TIMES = 25  # the bytes of all that is given
SMALL = {"image": 30, "deblurring": 30, "factorization": 6000, "glove": 4000}


def peak(call):
    """What a call gives, and the most memory that it takes, once what is done once is done."""
    call()
    tracemalloc.start()
    found = call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, most


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "bundle"])  # which takes seconds to derive
def test_diagonals_and_traces_take_linear_memory(name):
    problem = PROBLEMS[name]
    arrays = problem.arrays(SMALL.get(name, 800 if problem.size > 600 else 30))
    numbers = {key: ed.tensor(key, *x.shape) for key, x in arrays.items() if x.dtype == float}
    given = {key: arrays[key] for key in numbers}
    value = problem.function(Expressions(), **(arrays | numbers))
    unknowns = [numbers[key] for key in problem.unknowns]
    diagonals = ed.compile(ed.hessian_diagonal(value, unknowns))
    operator = ed.compile(ed.hessian(value, unknowns), form="structured")(**given)
    limit = TIMES * sum(x.nbytes for x in arrays.values())
    assert limit < 8 * sum(x.size for x in map(arrays.get, problem.unknowns)) ** 2  # the bytes of the matrix
    found, most = peak(lambda: diagonals(**given))
    assert most < limit
    trace, most = peak(operator.trace)
    assert most < limit
    entries = np.concatenate([x.reshape(-1) for x in found])
    assert trace == pytest.approx(entries.sum())
    own = np.concatenate([x.reshape(-1) for x in operator.diagonal()])
    np.testing.assert_allclose(entries, own, rtol=1e-9, atol=1e-9 * np.abs(own).max())
