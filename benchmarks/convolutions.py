"""`python -m benchmarks.convolutions`: Hessians of convolutions and small networks of them, beside `jax.jit`.

First calls count here, so that each is made in a process of its own, on the device that JAX finds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

ENVIRONMENT = dict(os.environ)
TOOLS = ("jax", "eindiff.jax")
CALLS = 20


def convolution(by: tuple[int, ...]) -> tuple[Callable[..., Any], list[np.ndarray], tuple[int, ...]]:
    """A nonlinear function of a convolution of four images."""
    import jax
    import jax.numpy as jnp

    def loss(images: Any, filters: Any) -> Any:
        return jnp.sum(jnp.tanh(jax.lax.conv_general_dilated(images, filters, (1, 1), "VALID")))

    rng = np.random.default_rng(0)
    return loss, [rng.normal(size=(4, 3, 12, 12)), rng.normal(size=(5, 3, 3, 3)) / 3], by


def network(pooling: str) -> tuple[Callable[..., Any], list[np.ndarray], tuple[int, ...]]:
    """Two convolutions, a pooling between them, and a dense layer with cross entropy; by all parameters."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    images, classes = rng.normal(size=(8, 1, 14, 14)), np.eye(10)[rng.integers(0, 10, 8)]
    weights = [
        rng.normal(size=(4, 1, 3, 3)) / 2, rng.normal(size=(6, 4, 3, 3)) / 5, rng.normal(size=(6 * 4 * 4, 10)) / 10,
    ]  # fmt: skip

    def pooled(x: Any) -> Any:
        window = (1, 1, 2, 2)
        if pooling == "mean":
            return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, window, "VALID") / 4
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def loss(first: Any, second: Any, last: Any) -> Any:
        active = jnp.tanh if pooling == "mean" else jax.nn.relu
        x = jnp.asarray(images, first.dtype)
        x = pooled(active(jax.lax.conv_general_dilated(x, first, (1, 1), "VALID")))
        x = active(jax.lax.conv_general_dilated(x, second, (1, 1), "VALID"))
        scores = jax.nn.log_softmax(x.reshape(len(x), -1) @ last)
        return -jnp.mean(jnp.sum(scores * classes.astype(first.dtype), axis=1))

    return loss, weights, (0, 1, 2)


CASES: dict[str, Callable[[], tuple[Callable[..., Any], list[np.ndarray], tuple[int, ...]]]] = {
    "convolution by images": lambda: convolution((0,)),
    "convolution by filters": lambda: convolution((1,)),
    "convolution by both": lambda: convolution((0, 1)),
    "network, mean pooling": lambda: network("mean"),
    "network, max pooling": lambda: network("max"),
}


def measure(case: str, tool: str) -> dict[str, Any]:
    """The first call and later ones, in this process; the sum and the largest entry show that results agree."""
    import jax
    import jax.numpy as jnp

    import eindiff.jax

    loss, arrays, by = CASES[case]()
    given = [jnp.asarray(x, jnp.float32) for x in arrays]
    jnp.ones((9, 9)).sum().block_until_ready()  # the device is started
    start = perf_counter()
    hessian = jax.jit((jax.hessian if tool == "jax" else eindiff.jax.hessian)(loss, by))
    result = jax.block_until_ready(hessian(*given))
    first = perf_counter() - start
    times = []
    for _ in range(CALLS):
        start = perf_counter()
        jax.block_until_ready(hessian(*given))
        times.append(perf_counter() - start)
    entries = np.concatenate([np.ravel(x) for x in jax.tree.leaves(result)]).astype(float)
    device = f"JAX {jax.__version__}, {jax.devices()[0].device_kind}"
    return {"first": first, "call": median(times), "norm": float(np.sqrt(entries @ entries)), "device": device}


def separately(case: str, tool: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.convolutions", "--one", case, tool]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Read the command line, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("CASE", "TOOL"), help="measure one in this process")
    parser.add_argument("--out", type=Path, help="where to write convolutions.md")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    from benchmarks.report import duration, markdown  # what it imports keeps JAX on the CPU: not where one is measured

    table, device = [], ""
    for case in CASES:
        peer, ours = (separately(case, tool) for tool in TOOLS)
        device = peer["device"]
        difference = abs(ours["norm"] - peer["norm"]) / peer["norm"]
        cells = [case, *(duration(peer[x]) for x in ("first", "call"))]
        cells += [f"{duration(ours[x])} ({ours[x] / peer[x]:.2f})" for x in ("first", "call")]
        table.append([*cells, f"{difference:.0e}"])
        print("  ".join(table[-1]), flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        head = ["Hessian of a", "jax.jit, first call", "later", "eindiff.jax, first call", "later", "norms differ by"]
        text = f"# Convolutions\n\n`python -m benchmarks.convolutions`: {device}, single precision; in parentheses the "
        text += "ratio to JAX's. Each first call is in a process of its own.\n\n"
        (options.out / "convolutions.md").write_text(text + markdown(head, table) + "\n")


if __name__ == "__main__":
    main()
