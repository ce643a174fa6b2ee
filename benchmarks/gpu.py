"""Hessians on a GPU: eindiff for JAX, PyTorch and CuPy next to jax.hessian, torch.func.hessian and forms by hand.

    python -m benchmarks.gpu --out benchmarks/results

All tools run one after the other in one process, on the same data. A time is the median of calls that are waited for;
each result is compared with the one by hand. It also runs without a GPU (`--quick`), to be tested.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import eindiff as ed

BUDGET = 0.5  # seconds of calls that are timed
LAYERS = 10


@dataclass(frozen=True)
class Case:
    """A Hessian at one size: as an expression, as a function of arrays for any library, and by hand."""

    name: str
    size: int
    arrays: dict[str, np.ndarray]
    hessian: ed.Expr
    function: Callable[[Any, dict[str, Any]], Any]  # of the library's functions and arrays by name
    by: str
    hand: Callable[[Any, dict[str, Any]], Any]
    compressed: Callable[[Any, dict[str, Any]], Any] | None = None


class Functions:
    """The few functions that the problems need, in JAX's or PyTorch's words."""

    def __init__(self, library: str) -> None:
        module = import_module("jax.numpy" if library == "jax" else library)
        self.eye, self.sum = module.eye, module.sum
        if library == "jax":
            jax = import_module("jax")
            self.softplus, self.relu, self.sigmoid = jax.nn.softplus, jax.nn.relu, jax.nn.sigmoid
            self.logsumexp, self.softmax = jax.nn.logsumexp, jax.nn.softmax
        else:
            functional = module.nn.functional
            self.softplus = lambda x: module.logaddexp(x, module.zeros_like(x))
            self.relu, self.sigmoid = functional.relu, module.sigmoid
            self.logsumexp, self.softmax = module.logsumexp, functional.softmax


# The paper's three problems


def logistic(n: int, generator: np.random.Generator) -> Case:
    """Logistic regression with 2n samples; `X' diag(σ(z) σ(-z)) X`."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    arrays = {
        "X": generator.normal(size=(2 * n, n)) / n**0.5,
        "y": generator.choice([-1.0, 1.0], 2 * n),
        "w": generator.normal(size=n),
    }

    def hand(xp: Functions, a: dict[str, Any]) -> Any:
        s = xp.sigmoid(a["y"] * (a["X"] @ a["w"]))
        return a["X"].T @ ((s * (1 - s))[:, None] * a["X"])

    return Case(
        "logistic regression", n, arrays, ed.hessian(ed.sum(ed.log(ed.exp(-y * (X @ w)) + 1)), w),
        lambda xp, a: xp.sum(xp.softplus(-a["y"] * (a["X"] @ a["w"]))), "w", hand,
    )  # fmt: skip


def factorization(n: int, generator: np.random.Generator, k: int = 5) -> Case:
    """Matrix factorization `‖T − U V'‖²` by U; `2 I ⊗ V'V`."""
    T, U, V = ed.matrix("T", "n", "n"), ed.matrix("U", "n", "k"), ed.matrix("V", "n", "k")
    arrays = {name: generator.normal(size=(n, n if name == "T" else k)) for name in "TUV"}

    def hand(xp: Functions, a: dict[str, Any]) -> Any:
        core = 2 * (a["V"].T @ a["V"])
        eye = _like(xp.eye(len(a["V"])), core)
        return eye[:, None, :, None] * core[None, :, None, :]

    return Case(
        "matrix factorization", n, arrays, ed.hessian(ed.norm2(T - U @ V.T) ** 2, U),
        lambda xp, a: xp.sum((a["T"] - a["U"] @ a["V"].T) ** 2), "U", hand, lambda xp, a: a["V"].T @ a["V"],
    )  # fmt: skip


def net(n: int, generator: np.random.Generator) -> Case:
    """Ten fully connected ReLU layers, n units and samples, cross-entropy, by the first; `Σ_b M_b ⊗ x_b x_b'`."""
    X, Y = ed.matrix("X", "b", "n"), ed.matrix("Y", "b", "n")
    W = [ed.matrix(f"W{k}", "n", "n") for k in range(LAYERS)]
    arrays = {f"W{k}": generator.normal(size=(n, n)) * (2 / n) ** 0.5 for k in range(LAYERS)}
    arrays |= {"X": generator.normal(size=(n, n)), "Y": np.eye(n)[generator.integers(0, n, n)]}
    h = X
    for k in range(LAYERS - 1):
        h = ed.relu(h @ W[k])
    h = h @ W[-1]
    loss = ed.sum(ed.logsumexp(h, 1)) - ed.sum(Y * h)

    def function(xp: Functions, a: dict[str, Any]) -> Any:
        h = a["X"]
        for k in range(LAYERS - 1):
            h = xp.relu(h @ a[f"W{k}"])
        h = h @ a[f"W{LAYERS - 1}"]
        return xp.sum(xp.logsumexp(h, 1)) - xp.sum(a["Y"] * h)

    def hand(xp: Functions, a: dict[str, Any]) -> Any:
        h, steps = a["X"], []
        for k in range(LAYERS - 1):
            h = h @ a[f"W{k}"]
            steps.append(_like(h > 0, h))
            h = xp.relu(h)
        p = xp.softmax(h @ a[f"W{LAYERS - 1}"], 1)
        J = steps[0][:, :, None] * a["W1"][None]  # of the last layer by the first one's output, sample by sample
        for k in range(1, LAYERS - 1):
            J = (J * steps[k][:, None, :]) @ a[f"W{k + 1}"]
        mean = (J * p[:, None, :]).sum(2)
        M = (J * p[:, None, :]) @ J.swapaxes(1, 2) - mean[:, :, None] * mean[:, None, :]
        outer = a["X"][:, :, None] * a["X"][:, None, :]
        result = outer.reshape(len(outer), -1).T @ M.reshape(len(M), -1)
        return result.reshape(n, n, n, n).swapaxes(1, 2)

    return Case("ten layers, ReLU", n, arrays, ed.hessian(loss, W[0]), function, "W0", hand)


def _like(x: Any, other: Any) -> Any:
    """An array in the type and on the device of another one."""
    return x.astype(other.dtype) if hasattr(x, "astype") else x.to(other)


# The tools


def tools(case: Case, dtype: str) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Each tool as a call without arguments, and what waits for its result."""
    found: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {}
    found |= _jax_tools(case, dtype) | _torch_tools(case, dtype) | _cupy_tools(case, dtype)
    return found


def _jax_tools(case: Case, dtype: str) -> dict:
    jax = import_module("jax")
    xp = Functions("jax")
    arrays = {name: jax.numpy.asarray(x, dtype) for name, x in case.arrays.items()}
    others = {name: x for name, x in arrays.items() if name != case.by}

    def function(x: Any, rest: dict) -> Any:
        return case.function(xp, {**rest, case.by: x})

    theirs = jax.jit(jax.hessian(function))
    by_hand = jax.jit(lambda a: case.hand(xp, a))
    ours, structured = ed.compile(case.hessian), ed.compile(case.hessian, form="structured")
    wait = jax.block_until_ready
    found = {
        "by hand, JAX": (lambda: by_hand(arrays), wait),
        "eindiff, JAX": (lambda: ours(**arrays), wait),
        "jax.hessian": (lambda: theirs(arrays[case.by], others), wait),
    }
    if case.compressed is not None:
        core = jax.jit(lambda a: case.compressed(xp, a))
        found["by hand, JAX, compressed"] = (lambda: core(arrays), wait)
        found["eindiff, JAX, compressed"] = (lambda: structured(**arrays), lambda d: wait(d.terms[0].arrays))
    return found


def _torch_tools(case: Case, dtype: str) -> dict:
    torch = import_module("torch")
    xp = Functions("torch")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype)
    arrays = {name: torch.as_tensor(x, dtype=kind, device=device) for name, x in case.arrays.items()}
    theirs = torch.func.hessian(lambda x: case.function(xp, {**arrays, case.by: x}))
    ours, structured = ed.compile(case.hessian), ed.compile(case.hessian, form="structured")

    def wait(_: Any) -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    found = {
        "by hand, PyTorch": (lambda: case.hand(xp, arrays), wait),
        "eindiff, PyTorch": (lambda: ours(**arrays), wait),
        "torch.func.hessian": (lambda: theirs(arrays[case.by]), wait),
    }
    if case.compressed is not None:
        found["eindiff, PyTorch, compressed"] = (lambda: structured(**arrays), wait)
    return found


def _cupy_tools(case: Case, dtype: str) -> dict:
    try:
        cupy = import_module("cupy")
        arrays = {name: cupy.asarray(x, dtype) for name, x in case.arrays.items()}
    except (ImportError, RuntimeError):  # no CuPy, or no GPU for it
        return {}
    ours = ed.compile(case.hessian)
    return {"eindiff, CuPy": (lambda: ours(**arrays), lambda _: cupy.cuda.Device().synchronize())}


def measure(call: Callable[[], Any], wait: Callable[[Any], Any]) -> tuple[dict[str, Any], np.ndarray | None]:
    """The time of the first call and the median of later ones; and the result, if it is an array."""
    try:
        start = time.perf_counter()
        result = call()
        wait(result)
        first = time.perf_counter() - start
        times: list[float] = []
        while (sum(times) < BUDGET and len(times) < 200) or len(times) < 3:
            start = time.perf_counter()
            result = call()
            wait(result)
            times.append(time.perf_counter() - start)
            if times[-1] > 10:
                break
    except Exception as error:  # whatever stops one tool, the others go on
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        return {"failed": "out of memory" if "memory" in str(error).lower() else text[:120]}, None
    array = _numpy(result) if not isinstance(result, ed.Derivative) and len(result.shape) else None
    return {"seconds": statistics.median(times), "first": first, "calls": len(times)}, array


def _numpy(result: Any) -> np.ndarray | None:
    if np.prod(result.shape) > 2e9:
        return None
    if hasattr(result, "detach"):
        return result.detach().cpu().numpy()
    return result.get() if type(result).__module__.startswith("cupy") else np.asarray(result)


def run(case: Case, dtype: str, skip: set[str], note: Callable[[str], None]) -> list[dict[str, Any]]:
    """All tools on one case; a tool that ran out of memory is not tried at larger sizes."""
    rows: list[dict[str, Any]] = []
    reference = None
    for name, (call, wait) in tools(case, dtype).items():
        if f"{case.name} {name}" in skip or ("compressed" not in name and case.size > 2000 and case.compressed):
            continue
        found, array = measure(call, wait)
        if "failed" in found:
            skip.add(f"{case.name} {name}")
        if array is not None and "compressed" not in name:
            reference = array if reference is None else reference
            found["error"] = float(np.abs(array - reference).max() / np.abs(reference).max())
        rows.append({"problem": case.name, "n": case.size, "dtype": dtype, "tool": name, **found})
        note(json.dumps(rows[-1]))
    return rows


def machine() -> dict[str, str]:
    """What it ran on."""
    found = {"python": platform.python_version(), "eindiff": ed.__version__}
    for name in ("jax", "torch", "cupy", "numpy"):
        try:
            found[name] = import_module(name).__version__
        except ImportError:
            found[name] = "missing"
    torch = import_module("torch")
    found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return found


def report(rows: list[dict[str, Any]], about: dict[str, str], command: str) -> str:
    """A table: a row a case, a column a tool."""
    names = list(dict.fromkeys(row["tool"] for row in rows))
    lines = ["# Hessians on a GPU", "", f"{', '.join(f'{k} {v}' for k, v in about.items())}. Command: `{command}`.", ""]
    lines += [
        "Milliseconds, medians. Every dense result was compared with the one by hand; the largest error is given.",
        "",
    ]
    lines += [
        "| problem | n | type | " + " | ".join(names) + " | error |",
        "|---|---:|---|" + "---:|" * (len(names) + 1),
    ]
    for key in dict.fromkeys((row["problem"], row["n"], row["dtype"]) for row in rows):
        own = {row["tool"]: row for row in rows if (row["problem"], row["n"], row["dtype"]) == key}
        cells = [_cell(own.get(name)) for name in names]
        error = max([row.get("error", 0.0) for row in own.values()])
        lines.append(f"| {key[0]} | {key[1]:,} | {key[2]} | {' | '.join(cells)} | {error:.0e} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return row["failed"] if "failed" in row else f"{1000 * row['seconds']:.3g}"


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--quick", action="store_true", help="small sizes, which need no GPU")
    options = parser.parse_args()
    jax, torch = import_module("jax"), import_module("torch")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")  # as PyTorch does by default in float32
    torch.backends.cuda.matmul.allow_tf32 = False
    sizes = {
        logistic: (100,) if options.quick else (500, 1000, 2000, 4000),
        factorization: (20,) if options.quick else (100, 200, 400, 800, 20_000),
        net: (10,) if options.quick else (20, 40, 60, 100),
    }
    rows: list[dict[str, Any]] = []
    skip: set[str] = set()
    for maker, chosen in sizes.items():
        for dtype in ("float64", "float32"):
            for n in chosen:
                case = maker(n, np.random.default_rng(0))
                rows += run(case, dtype, skip, lambda text: print(text, flush=True))
    options.out.mkdir(parents=True, exist_ok=True)
    about = machine()
    (options.out / "gpu.md").write_text(report(rows, about, f"python -m benchmarks.gpu {' '.join(sys.argv[1:])}"))
    lines = ",\n ".join(json.dumps(row) for row in rows)
    (options.out / "gpu.json").write_text(f'{{"machine": {json.dumps(about)},\n"cases": [\n {lines}\n]}}\n')


if __name__ == "__main__":
    main()
