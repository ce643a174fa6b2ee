"""Minimization over blocks ends where that in memory does, also after it was killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import eindiff as ed
from sharded_losses import losses

CONVEX = ["logistic", "Poisson", "multinomial", "Huber", "smoothed quantile", "ridge with intercept"]


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("method", [ed.newton, ed.lbfgs])
def test_minima_are_those_of_scipy(name: str, method) -> None:
    one = losses()[name]
    by = one.by if isinstance(one.by, list) else [one.by]
    data = {key: x for key, x in one.arrays.items() if key not in {v.name for v in by}}
    fit = method(one.loss, one.by, shard="m", rows=10, **data)
    assert fit.converged and fit.gradient_norm <= 1e-6
    found = fit.x if isinstance(fit.x, list) else [fit.x]
    value = ed.compile(one.loss)
    shapes = [x.shape for x in found]
    ends = np.cumsum([x.size for x in found])[:-1]

    def of_vector(z: np.ndarray) -> float:
        parts = [x.reshape(s) for x, s in zip(np.split(z, ends), shapes, strict=True)]
        return float(value(**data, **{v.name: x for v, x in zip(by, parts, strict=True)}))

    reference = minimize(of_vector, np.zeros(sum(x.size for x in found)), tol=1e-10)
    assert fit.value <= reference.fun + 1e-8 * max(1.0, abs(reference.fun))


KILLED = """
import os, signal, sys
import numpy as np
import eindiff as ed
from sharded_losses import losses
one = losses()["Huber"]
passes = 0
def progress(what, done, total):
    global passes
    if done == total:
        passes += 1
        if passes == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
data = {key: one.arrays[key] for key in "Xy"}
ed.lbfgs(one.loss, one.by, shard="m", rows=10, checkpoint=sys.argv[1], progress=progress, **data)
"""


@pytest.mark.parametrize("after", [1, 4])
def test_a_killed_run_goes_on(tmp_path: Path, after: int) -> None:
    path = tmp_path / "state.npz"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(after)],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    one = losses()["Huber"]
    data = {key: one.arrays[key] for key in "Xy"}
    resumed = ed.lbfgs(one.loss, one.by, shard="m", rows=10, checkpoint=path, **data)
    straight = ed.lbfgs(one.loss, one.by, shard="m", rows=10, **data)
    np.testing.assert_array_equal(resumed.x, straight.x)
    assert (resumed.passes, resumed.iterations) == (straight.passes, straight.iterations)


def test_a_file_of_another_function_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    one, other = losses()["Huber"], losses()["smoothed quantile"]
    data = {key: one.arrays[key] for key in "Xy"}
    ed.newton(one.loss, one.by, shard="m", checkpoint=path, **data)
    with pytest.raises(ed.EindiffError, match="another minimization"):
        ed.newton(other.loss, other.by, shard="m", checkpoint=path, **data)


def test_where_to_begin() -> None:
    one = losses()["ridge with intercept"]
    data = {key: one.arrays[key] for key in "Xy"}
    named = ed.newton(one.loss, one.by, shard="m", start={"w": np.ones(4), "b": 0.0}, **data)
    listed = ed.newton(one.loss, one.by, shard="m", start=[np.ones(4), 0.0], **data)
    np.testing.assert_array_equal(named.x[0], listed.x[0])
    for wrong in ([np.ones(4)], {"w": np.ones(4)}, [np.ones((4, 1)), 0.0]):
        with pytest.raises(ed.EindiffError):
            ed.newton(one.loss, one.by, shard="m", start=wrong, **data)
