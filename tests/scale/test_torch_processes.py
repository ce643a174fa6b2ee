"""Two processes of torch.distributed, each with its rows: the results of all rows in both."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

import eindiff as ed
from sharded_losses import losses

NAMES = ["logistic", "Poisson", "masked factorization by rows", "mixture", "centred columns", "softmax over rows"]
SCRIPT = """
import pickle, sys
import torch, torch.distributed as dist
import eindiff as ed
from sharded_losses import SHARDED, losses
rank, store, names = int(sys.argv[1]), sys.argv[2], pickle.loads(bytes.fromhex(sys.argv[3]))
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
found = {}
for name in names:
    one = losses()[name]
    mine = slice(None, 17) if rank == 0 else slice(17, None)
    arrays = {key: torch.tensor(x[mine] if key in SHARDED else x) for key, x in one.arrays.items()}
    outputs = [one.loss, *ed.gradient(one.loss, one.by if isinstance(one.by, list) else [one.by])]
    found[name] = [x.numpy() for x in ed.compile(outputs, shard="m")(**arrays)]
dist.destroy_process_group()
sys.stdout.buffer.write(pickle.dumps(found))
"""


def test_processes_add_up(tmp_path: Path) -> None:
    names = pickle.dumps(NAMES).hex()
    command = [sys.executable, "-c", SCRIPT]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), names], stdout=subprocess.PIPE, env=environment)
        for rank in range(2)
    ]
    first, second = (pickle.loads(one.communicate(timeout=120)[0]) for one in running)
    for name in NAMES:
        one = losses()[name]
        by = one.by if isinstance(one.by, list) else [one.by]
        wanted = [one.loss, *ed.gradient(one.loss, by)]
        for expr, a, b, c in zip(wanted, first[name], second[name], ed.compile(wanted)(**one.arrays), strict=True):
            found = [np.concatenate([a, b])] if "m" in expr.shape else [a, b]
            for x in found:
                np.testing.assert_allclose(x, c, rtol=0, atol=1e-12 * max(1.0, np.abs(c).max()), err_msg=name)
