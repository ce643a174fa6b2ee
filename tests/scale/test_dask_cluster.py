"""Workers of dask that are processes: programs are sent, not made again, and a worker that dies loses nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import eindiff as ed
from sharded_losses import losses

ONE = losses()["logistic"]
OUTPUTS = [ONE.loss, ed.gradient(ONE.loss, ONE.by), ed.hessian(ONE.loss, ONE.by)]


@pytest.fixture(scope="module")
def client():
    workers = LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None)
    with workers as cluster, Client(cluster) as one:
        yield one


def assert_right(found: list[np.ndarray]) -> None:
    for a, b in zip(found, ed.compile(OUTPUTS)(**ONE.arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(1.0, np.abs(b).max()))


def test_workers_add_up(client: Client) -> None:
    X, s = (da.from_array(ONE.arrays[name], chunks=(5, -1)[: ONE.arrays[name].ndim]) for name in "Xs")
    assert_right(ed.compile(OUTPUTS, shard="m")(X=X, s=s, w=ONE.arrays["w"]))


def _dying(block: np.ndarray, mark: str) -> np.ndarray:
    """A block that kills the worker that reads it first."""
    if block.shape[0] and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_that_dies_loses_nothing(client: Client, tmp_path: Path) -> None:
    mark = str(tmp_path / "died")
    X = da.from_array(ONE.arrays["X"], chunks=(5, -1)).map_blocks(_dying, mark, dtype=float, meta=np.zeros((0, 0)))
    assert_right(ed.compile(OUTPUTS, shard="m")(X=X, s=ONE.arrays["s"], w=ONE.arrays["w"]))
    assert Path(mark).exists()
