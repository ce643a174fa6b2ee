"""`python -m benchmarks.linear_algebra`: Linnea's problems, compiled, beside naive NumPy and code by an expert.

Times are those of the processor, on one core; the best of some rounds in which all three take turns. Sizes are a
quarter of Linnea's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402 (after the number of threads)

import eindiff as ed  # noqa: E402
from benchmarks.linnea import PROBLEMS, Problem  # noqa: E402
from eindiff.text.read.declarations import parse_declarations  # noqa: E402

ROUNDS = 7
LEAST = 0.02  # seconds of calls in a round
SCALE = 4  # by which sizes are smaller than Linnea's
Run = Callable[[], Sequence[np.ndarray]]


def formulas(problem: Problem) -> list[ed.Expr]:
    """The outputs of a problem, each of which may use those before it."""
    statements = [part.strip() for part in problem.text.split(";")]
    results = []
    for k, statement in enumerate(statements):
        text = "; ".join([*statements[:k], statement.partition("=")[2].strip()])
        results.append(ed.parse(text, problem.declared))
    return results


def arrays(problem: Problem, scale: int = SCALE) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Arrays with the declared properties, and sizes."""
    rng = np.random.default_rng(0)
    sizes = {name: max(2, size // scale) for name, size in problem.sizes.items()}
    found = {}
    for name, expr in parse_declarations(problem.declared).items():
        assert isinstance(expr, ed.Expr)
        [variable] = ed.variables(expr)
        shape, words = tuple([sizes[str(size)] for size in variable.shape]), variable.properties
        array = np.asarray(rng.normal(size=shape) / np.sqrt(shape[0] if shape else 1))
        if "psd" in words:
            array = array @ array.T + np.eye(shape[0])
        if "symmetric" in words:
            array = (array + array.T) / 2
        if words & {"lower", "upper"}:
            array = np.tril(array) if "lower" in words else np.triu(array)
        if "positive" in words:
            array = np.abs(array) + 1.5
        if len(shape) == 2 and shape[0] == shape[1] and not words & {"psd", "symmetric"}:
            array = array + 2 * np.eye(shape[0])
        found[name] = np.asarray(array)
    return found, sizes


class _Matrix(np.ndarray):
    """An array whose `*` is the product of matrices."""

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other) if np.ndim(self) == 0 or np.ndim(other) == 0 else np.matmul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return np.multiply(other, self)


def naive(problem: Problem, given: dict[str, np.ndarray], sizes: dict[str, int]) -> Run:
    """The formulas as they stand, in NumPy, from left to right; diagonal matrices are full ones."""
    diagonal = re.findall(r"(\w+)\(\w+,\w+\) [a-z ]*diagonal", problem.declared)
    names: dict[str, Any] = {k: np.diag(x) if k in diagonal else x for k, x in given.items()}
    names = {k: x.view(_Matrix) if np.ndim(x) else x for k, x in names.items()}

    def inv(x: Any) -> Any:
        return np.linalg.inv(np.asarray(x)).view(_Matrix) if np.ndim(x) else 1 / x

    names |= {"eye": lambda n: np.eye(n).view(_Matrix), "inv": inv, **sizes}
    statements = [part.strip() for part in problem.text.replace("'", ".T").split(";")]
    code = [(part.partition("=")[0].strip(), compile(part, "<naive>", "exec")) for part in statements]

    def run() -> list[np.ndarray]:
        own = dict(names)
        for _, line in code:
            exec(line, own)
        return [np.asarray(own[name]) for name, _ in code]

    return run


def measure(problem: Problem) -> dict[str, float]:
    """Seconds of each, and by how much results differ from those of naive code, relative to the largest entry."""
    given, sizes = arrays(problem)
    begin = process_time()
    compiled = ed.compile(formulas(problem), validate=False)
    ours = compiled(**given, sizes=sizes)
    first = process_time() - begin
    runs: dict[str, Run] = {
        "naive": naive(problem, given, sizes),
        "expert": lambda: problem.expert(**given),
        "eindiff": lambda: compiled(**given),
    }
    expected = runs["naive"]()
    for name, results in (("eindiff", ours), ("expert", runs["expert"]())):
        error = max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in zip(results, expected, strict=True))
        assert error < 1e-8, (problem.text, name, error)
    seconds = dict.fromkeys(runs, np.inf)
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin, count = process_time(), 0
            while count == 0 or process_time() - begin < LEAST:
                run()
                count += 1
            seconds[name] = min(seconds[name], (process_time() - begin) / count)
    return {**seconds, "first": first}


def main() -> None:
    """Measure, print a table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", type=int, help="numbers of problems; none: all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {}
    for number in options.problems or range(1, len(PROBLEMS) + 1):
        rows[number] = row = measure(PROBLEMS[number - 1])
        times = ", ".join(f"{name} {1e3 * row[name]:.2f} ms" for name in ("naive", "expert", "eindiff"))
        faster, slower = row["naive"] / row["eindiff"], row["eindiff"] / row["expert"]
        ratios = f"{faster:.2f} × faster, {slower:.2f} × the expert's time"
        print(f"{number:>2}: {times}: {ratios}; first call {row['first']:.2f} s", flush=True)
    mean = float(np.exp(np.mean([np.log(row["naive"] / row["eindiff"]) for row in rows.values()])))
    near = sum(row["eindiff"] <= 1.15 * row["expert"] for row in rows.values())
    print(f"{mean:.2f} × faster than naive code (geometric mean); within 1.15 × of an expert: {near} of {len(rows)}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "linear-algebra.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
