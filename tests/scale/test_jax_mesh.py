"""Arrays that JAX spreads over eight devices: the same results, and one reduction of the outputs a pass.

JAX has the number of its devices when it starts, so this runs in a process of its own, once for all.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eindiff as ed
from sharded_losses import losses

HELPERS = Path(__file__).parents[1]
SCRIPT = """
import pickle, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import eindiff as ed
from sharded_losses import SHARDED, losses
jax.config.update("jax_enable_x64", True)
found = {}
for name, one in losses().items():
    by = one.by if isinstance(one.by, list) else [one.by]
    wanted = [one.loss, *ed.gradient(one.loss, by)]
    function = ed.compile(wanted, shard="m")
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((8,), ("rows",), axis_types=(kind,))
        arrays = {
            key: jax.device_put(x, NamedSharding(mesh, P("rows"))) if key in SHARDED else jnp.asarray(x)
            for key, x in one.arrays.items()
        }
        if kind is AxisType.Explicit:
            values = function(**arrays)
        else:
            values = jax.jit(lambda arrays: function(**arrays, mesh=mesh, axis="rows"))(arrays)
        found[name, str(kind)] = [np.asarray(x) for x in values]
        kept = [x.sharding.spec for x, expr in zip(values, wanted) if "m" in expr.shape]
        assert all(spec[0] == "rows" for spec in kept)
logistic = losses()["logistic"]
function = ed.compile([logistic.loss, ed.gradient(logistic.loss, logistic.by)], shard="m")
arrays = {
    key: jax.device_put(x, NamedSharding(mesh, P("rows"))) if key in SHARDED else jnp.asarray(x)
    for key, x in logistic.arrays.items()
}
text = jax.jit(lambda arrays: function(**arrays, mesh=mesh, axis="rows")).lower(arrays).compile().as_text()
communication = [line for line in text.splitlines() if " all-reduce(" in line or "all-gather(" in line]
sys.stdout.buffer.write(pickle.dumps((found, communication)))
"""


@pytest.fixture(scope="module")
def results() -> tuple[dict, list[str]]:
    paths = os.pathsep.join([str(Path(ed.__file__).parents[1]), str(HELPERS / "helpers")])
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env={**os.environ, **flags}, capture_output=True)
    assert not done.returncode, done.stderr.decode()[-3000:]
    return pickle.loads(done.stdout)


def test_devices_give_what_memory_gives(results: tuple[dict, list[str]]) -> None:
    for (name, _), values in results[0].items():
        one = losses()[name]
        by = one.by if isinstance(one.by, list) else [one.by]
        expected = ed.compile([one.loss, *ed.gradient(one.loss, by)])(**one.arrays)
        for a, b in zip(values, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(1.0, np.abs(b).max()), err_msg=name)


def test_a_pass_communicates_once(results: tuple[dict, list[str]]) -> None:
    """XLA puts the sums of value and gradient into one."""
    assert len(results[1]) == 1
