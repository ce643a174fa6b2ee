"""`python -m benchmarks.shards --rows 20000000 --folder DIR`: data from disk, in blocks.

Logistic regression with 50 columns: value, gradient and Hessian in one pass from a memory map, beside the same blocks
in memory and beside reading the file alone; the fit to a gradient norm of 1e-6 (relative to the start) beside
scikit-learn's `partial_fit`, if that is installed; rows a CPU second for 1, 2, 4, 8 blocks of dask workers; and the
structured Newton step of a masked factorization at 10⁵ and more rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import eindiff as ed
from benchmarks.machine import describe

COLUMNS = 50


def main() -> None:
    """Make the data, measure, and write a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, default=Path("build", "shards"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    X, y = data(options.folder, options.rows)
    lines = [*one_pass(X, y), *fits(X, y), *scaling(X, y), *factorization(options.rows)]
    text = "\n".join([
        "# Data in blocks", "", f"`python -m benchmarks.shards --rows {options.rows}`, float64; {machine()}", "",
        "| what | figure |", "|---|---|", *lines, "",
    ])  # fmt: skip
    (options.out / "shards.md").write_text(text, encoding="utf-8")
    print(text)


def machine() -> str:
    """What it ran on."""
    found = describe(2)
    return f"{found['cores']} cores, {found['processor']}, NumPy {found['versions']['numpy']}, load {found['load']}"


def data(folder: Path, rows: int) -> tuple[np.memmap, np.memmap]:
    """The data as files, made in blocks."""
    weights = np.random.default_rng(1).normal(size=COLUMNS) / 5
    X = np.memmap(folder / "X.bin", float, "w+", shape=(rows, COLUMNS))
    y = np.memmap(folder / "y.bin", float, "w+", shape=(rows,))
    rng = np.random.default_rng(0)
    for start in range(0, rows, 100_000):
        block = rng.standard_normal((min(100_000, rows - start), COLUMNS))
        X[start : start + len(block)] = block
        y[start : start + len(block)] = np.where(block @ weights + rng.logistic(size=len(block)) > 0, 1.0, -1.0)
    X.flush()
    y.flush()
    X, y = (np.memmap(folder / f"{name}.bin", float, "r", shape=x.shape) for name, x in (("X", X), ("y", y)))
    return X, y


def own_memory() -> float:
    """What the process holds that is no page of a file, in GiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 2**20


def logistic() -> tuple[ed.Expr, ed.Expr]:
    """The loss, and what it is fitted by."""
    X, y, w = ed.matrix("X", "m", "n"), ed.vector("y", "m"), ed.vector("w", "n")
    return ed.sum(ed.softplus(-y * (X @ w))) + ed.norm2(w) ** 2 / 2, w


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def one_pass(X: np.ndarray, y: np.ndarray) -> list[str]:
    """One pass from disk, the same work on blocks in memory, and reading alone."""
    loss, by = logistic()
    function = ed.compile([loss, ed.gradient(loss, by), ed.hessian(loss, by)], shard="m")
    w = np.zeros(COLUMNS)
    few = min(len(X), 800_000)
    inside = {"X": np.array(X[:few]), "y": np.array(y[:few]), "w": w}
    function(**inside)
    in_memory = min(timed(lambda: function(**inside))[0] for _ in range(3)) / few
    reading = timed(lambda: [np.array(X[k : k + 80_000]).shape for k in range(0, len(X), 80_000)])[0] / len(X)
    memory: list[float] = []
    seconds = timed(lambda: function(X=X, y=y, w=w, progress=lambda *_: memory.append(own_memory())))[0]
    limit = max(in_memory, reading)
    return [
        f"| value, gradient, Hessian of {len(X):,} rows from disk | {seconds:.1f} s, {len(X) / seconds:,.0f} rows/s |",
        f"| blocks in memory | {1 / in_memory:,.0f} rows/s |",
        f"| reading alone | {1 / reading:,.0f} rows/s |",
        f"| rate from disk, of the slower of these | {limit * len(X) / seconds:.0%} |",
        f"| most memory after a block, all libraries included, without pages of the file | {max(memory):.2f} GiB |",
    ]


def fits(X: np.ndarray, y: np.ndarray) -> list[str]:
    """Until the gradient is 1e-6 of what it was at first."""
    loss, by = logistic()
    gradient = ed.compile(ed.gradient(loss, by), shard="m")
    first = float(np.linalg.norm(gradient(X=X, y=y, w=np.zeros(COLUMNS))))
    seconds, fit = timed(lambda: ed.newton(loss, by, shard="m", X=X, y=y, tolerance=1e-6 * first))
    lines = [f"| Newton to a relative gradient of 1e-6 | {seconds:.1f} s, {fit.passes} passes |"]
    try:
        from sklearn.linear_model import SGDClassifier
    except ImportError:
        return lines
    model = SGDClassifier(loss="log_loss", alpha=1 / len(X), fit_intercept=False, average=True)

    def epochs() -> float:
        norm, start = np.inf, time.perf_counter()
        while norm > 1e-6 * first and time.perf_counter() - start < 3 * seconds:
            for k in range(0, len(X), 80_000):
                model.partial_fit(X[k : k + 80_000], y[k : k + 80_000], classes=[-1.0, 1.0])
            norm = float(np.linalg.norm(gradient(X=X, y=y, w=model.coef_[0])))
        return norm / first

    spent, reached = timed(epochs)
    return [*lines, f"| scikit-learn's SGDClassifier.partial_fit | {reached:.1e} reached in {spent:.1f} s |"]


def scaling(X: np.ndarray, y: np.ndarray) -> list[str]:
    """Rows a CPU second, as the number of blocks and workers grows: as much data for each."""
    import dask.array as da
    from distributed import Client, LocalCluster

    loss, by = logistic()
    function = ed.compile([loss, ed.gradient(loss, by), ed.hessian(loss, by)], shard="m")
    own, lines = min(len(X) // 8, 200_000), []
    for count in (1, 2, 4, 8):
        workers = LocalCluster(min(count, 4), threads_per_worker=1, dashboard_address=None)
        with workers as cluster, Client(cluster) as one:
            blocks = [da.from_array(np.array(a[: own * count]), chunks=(own, *a.shape[1:])).persist() for a in (X, y)]
            function(X=blocks[0], y=blocks[1], w=np.zeros(COLUMNS))
            before = sum(one.run(time.process_time).values())
            function(X=blocks[0], y=blocks[1], w=np.zeros(COLUMNS))
            spent = sum(one.run(time.process_time).values()) - before
        lines.append(f"| {count} blocks of {own:,} rows, dask | {own * count / spent:,.0f} rows per CPU second |")
    return lines


def factorization(rows: int) -> list[str]:
    """The Newton step of a masked factorization by its rows, block after block."""
    T, O = ed.matrix("T", "m", "n"), ed.matrix("O", "m", "n")
    U, V = ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    loss = ed.sum((O * (T - U @ V.T)) ** 2) + ed.norm2(U) ** 2
    function = ed.compile(ed.newton_step(loss, U), shard="m")
    rng = np.random.default_rng(0)
    observed = (rng.random((50_000, 20)) < 0.3) * 1.0
    block = {"T": rng.normal(size=(50_000, 20)), "O": observed, "U": np.zeros((50_000, 4))}
    columns = rng.normal(size=(20, 4))

    def steps(total: int) -> int:
        blocks = function.blocks((block for _ in range(total // 50_000)), V=columns)
        return sum(len(part.step) for part in blocks)

    rates = {}
    for total in (100_000, max(rows // 2, 1_000_000)):
        steps(100_000)
        seconds, count = timed(lambda total=total: steps(total))
        rates[count] = seconds / count
    (few, short), (many, long) = rates.items()
    return [
        f"| a Newton step of a masked factorization at {many:,} rows, of that at {few:,} | {long / short:.2f} × |",
        f"| memory then | {own_memory():.2f} GiB |",
    ]


if __name__ == "__main__":
    main()
