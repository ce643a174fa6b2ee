"""`python -m benchmarks.structures`: Hessians with coordinates, values and solutions, beside code by hand with SciPy.

Compared are times of one evaluation and of one solution; what is done once (deriving, compiling, the pattern of a
sparse matrix) is shown as the time of the first evaluation. By hand, the entries are computed by formulas that a person
would derive, and the system is solved by `solveh_banded` or SuperLU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import solveh_banded
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

import eindiff as ed
from benchmarks.machine import describe
from benchmarks.report import duration, markdown

ROUNDS = 5  # in which both take turns
LONG = 2.0  # seconds of a call that is not repeated
WEIGHT = 3.0

Array = np.ndarray
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Row:
    """A problem: its function, the arrays at a size, and what a person does."""

    title: str
    size: int
    build: Callable[[int], tuple[Any, Any, Arrays]]  # the function, its variables, and arrays
    values: Callable[[Arrays], Any] | None = None  # the entries by hand
    solve: Callable[[Any, Array], Array] | None = None  # and a solution with these


def _vector(n: int) -> tuple[Any, Arrays]:
    return ed.vector("x", n), {"x": np.random.default_rng(0).normal(size=n)}


# Chains


def chain(n: int) -> tuple[Any, Any, Arrays]:
    """Chained Rosenbrock, with a ridge that makes it convex."""
    x, arrays = _vector(n)
    return ed.sum((x[1:] - x[:-1] ** 2) ** 2) + 20 * ed.sum(x**2), x, {"x": 0.5 * arrays["x"]}


def chain_by_hand(arrays: Arrays) -> Array:
    x = arrays["x"]
    band = np.zeros((2, len(x)))
    band[0] = 40
    band[0, :-1] += 12 * x[:-1] ** 2 - 4 * x[1:]
    band[0, 1:] += 2
    band[1, :-1] = -4 * x[:-1]
    return band


def trend(n: int) -> tuple[Any, Any, Arrays]:
    """Trend filtering, smooth."""
    x, arrays = _vector(n)
    return ed.sum(x**2) + ed.sum(ed.sqrt((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2 + 1)), x, arrays


def second_differences_by_hand(weights: Array, n: int) -> Array:
    """`2 I + D' diag(w) D`, the lower diagonals."""
    band = np.zeros((3, n))
    band[0] = 2
    band[0, :-2] += weights
    band[0, 1:-1] += 4 * weights
    band[0, 2:] += weights
    band[1, :-2] -= 2 * weights
    band[1, 1:-1] -= 2 * weights
    band[2, :-2] = weights
    return band


def trend_by_hand(arrays: Arrays) -> Array:
    x = arrays["x"]
    return second_differences_by_hand(((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2 + 1) ** -1.5, len(x))


def spline(n: int) -> tuple[Any, Any, Arrays]:
    """Smoothing spline."""
    x, arrays = _vector(n)
    return ed.sum(x**2) + WEIGHT * ed.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2), x, arrays


def spline_by_hand(arrays: Arrays) -> Array:
    n = len(arrays["x"])
    return second_differences_by_hand(np.full(n - 2, 2 * WEIGHT), n)


def solve_band(band: Array, b: Array) -> Array:
    return solveh_banded(band, b, lower=True, check_finite=False)


STEP = np.random.default_rng(1).normal(size=(4, 4)) / 2


def smoother(n: int) -> tuple[Any, Any, Arrays]:
    """Kalman smoother: four states, n unknowns."""
    S = ed.matrix("S", n // 4, 4)
    value = np.random.default_rng(0).normal(size=(n // 4, 4))
    return ed.sum((S[1:] - S[:-1] @ STEP.T) ** 2) + ed.sum(S**2), S, {"S": value}


def smoother_by_hand(arrays: Arrays) -> Array:
    count = len(arrays["S"])
    diagonal = np.broadcast_to(2 * np.eye(4), (count, 4, 4)).copy()
    diagonal[1:] += 2 * np.eye(4)
    diagonal[:-1] += 2 * STEP.T @ STEP
    band = np.zeros((8, count, 4))
    for a in range(4):
        for b in range(4):
            if a >= b:
                band[a - b, :, b] = diagonal[:, a, b]
            band[4 + a - b, :-1, b] = -2 * STEP[a, b]
    return band.reshape(8, -1)


# Control, images, graphs


def control(n: int) -> tuple[Any, Any, Arrays]:
    """Nonlinear control with n steps: the system of states, controls and multipliers."""
    x, u, p = ed.matrix("x", n + 1, 2), ed.matrix("u", n, 1), ed.matrix("p", n, 2)
    dynamics = x[1:] - ed.sin(x[:-1] @ STEP[:2, :2]) - u @ STEP[:1, :2]
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=shape) for name, shape in (("x", (n + 1, 2)), ("u", (n, 1)), ("p", (n, 2)))}
    return 5 * ed.sum(x**2) + ed.sum(u**2) + ed.sum(p * dynamics), [x, u, p], arrays


def image(n: int) -> tuple[Any, Any, Arrays]:
    """Total variation of an image of n×n."""
    X = ed.matrix("X", n, n)
    down, right = X[1:, :-1] - X[:-1, :-1], X[:-1, 1:] - X[:-1, :-1]
    value = np.random.default_rng(0).normal(size=(n, n))
    return ed.sum(X**2) + ed.sum(ed.sqrt(down**2 + right**2 + 1)), X, {"X": value}


def image_by_hand(arrays: Arrays) -> Any:
    X = arrays["X"]
    n = len(X)
    here = np.arange(n * n).reshape(n, n)
    places = [here[:-1, :-1].ravel(), here[1:, :-1].ravel(), here[:-1, 1:].ravel()]
    down, right = X[1:, :-1] - X[:-1, :-1], X[:-1, 1:] - X[:-1, :-1]
    root = (down**2 + right**2 + 1) ** -1.5
    dd, rr, dr = (1 + right**2) * root, (1 + down**2) * root, -down * right * root
    block = [[dd + rr + 2 * dr, -dd - dr, -rr - dr], [-dd - dr, dd, dr], [-rr - dr, dr, rr]]
    rows = np.concatenate([here.ravel(), *(places[i] for i in range(3) for _ in range(3))])
    columns = np.concatenate([here.ravel(), *(places[j] for _ in range(3) for j in range(3))])
    data = np.concatenate([np.full(n * n, 2.0), *(block[i][j].ravel() for i in range(3) for j in range(3))])
    return coo_array((data, (rows, columns)), shape=(n * n, n * n)).tocsc()


def solve_sparse(matrix: Any, b: Array) -> Array:
    return splu(matrix).solve(b)


def mixed(n: int) -> tuple[Any, Any, Arrays]:
    """Mixed effects: n groups with an intercept and a slope each, five observations a group."""
    random, count = np.random.default_rng(0), 5 * n
    X, y, t = ed.matrix("X", count, 3), ed.vector("y", count), ed.vector("t", count)
    beta, u, s = ed.vector("beta", 3), ed.vector("u", n), ed.vector("s", n)
    g = np.repeat(np.arange(n), 5)
    arrays = {v.name: random.normal(size=v.shape) for v in (X, y, t, beta, u, s)}
    return ed.sum((y - X @ beta - u[g] - s[g] * t) ** 2) + ed.sum(u**2) + ed.sum(s**2), [beta, u, s], arrays


def comparisons(n: int) -> tuple[Any, Any, Arrays]:
    """Bradley–Terry: n players, five comparisons for each."""
    x, arrays = _vector(n)
    winner, loser = np.random.default_rng(2).integers(0, n, size=(2, 5 * n))
    return ed.sum(ed.softplus(x[loser] - x[winner])) + 0.1 * ed.sum(x**2), x, arrays


def crossed(n: int) -> tuple[Any, Any, Arrays]:
    """Crossed effects: n of one kind, a tenth of another, five observations for each of the first."""
    random, count = np.random.default_rng(0), 5 * n
    X, y = ed.matrix("X", count, 3), ed.vector("y", count)
    beta, u, w = ed.vector("beta", 3), ed.vector("u", n), ed.vector("w", n // 10)
    g, h = random.integers(0, n, size=count), random.integers(0, n // 10, size=count)
    arrays = {v.name: random.normal(size=v.shape) for v in (X, y, beta, u, w)}
    return ed.sum((y - X @ beta - u[g] - w[h]) ** 2) + ed.sum(u**2) + ed.sum(w**2), [beta, u, w], arrays


def stress(n: int) -> tuple[Any, Any, Arrays]:
    """Stress of an edge list: n nodes in the plane, five edges for each, near to the wanted distances."""
    random = np.random.default_rng(0)
    i, j = random.integers(0, n, size=(2, 5 * n))
    X, d = ed.matrix("X", n, 2), ed.vector("d", 5 * n)
    value = random.normal(size=(n, 2))
    squares = ((value[i] - value[j]) ** 2).sum(axis=1) + 0.01 * random.normal(size=5 * n)
    f = ed.sum((ed.sum((X[i] - X[j]) ** 2, axis=1) - d) ** 2) + ed.sum(X**2)
    return f, X, {"X": value, "d": squares}


def factorization(n: int) -> tuple[Any, Any, Arrays]:
    """n entries of a matrix, by both factors, near to a solution."""
    random, m = np.random.default_rng(0), n // 50
    U, V, v = ed.matrix("U", m, 5), ed.matrix("V", m // 2, 5), ed.vector("v", n)
    i, j = random.integers(0, m, size=n), random.integers(0, m // 2, size=n)
    arrays = {x.name: random.normal(size=x.shape) for x in (U, V)}
    arrays["v"] = (arrays["U"][i] * arrays["V"][j]).sum(axis=1) + 0.1 * random.normal(size=n)
    return ed.sum((v - ed.sum(U[i] * V[j], axis=1)) ** 2) + ed.sum(U**2) + ed.sum(V**2), [U, V], arrays


def glove(n: int) -> tuple[Any, Any, Arrays]:
    """GloVe: n pairs of words, near to a solution."""
    random, m = np.random.default_rng(0), n // 50
    W, C, b, c = ed.matrix("W", m, 5), ed.matrix("C", m, 5), ed.vector("b", m), ed.vector("c", m)
    i, j = random.integers(0, m, size=(2, n))
    weights, logs = ed.vector("weights", n), ed.vector("logs", n)
    arrays = {x.name: random.normal(size=x.shape) for x in (W, C, b, c)}
    arrays["weights"] = random.uniform(size=n)
    arrays["logs"] = (arrays["W"][i] * arrays["C"][j]).sum(axis=1) + arrays["b"][i] + arrays["c"][j]
    f = ed.sum(weights * (ed.sum(W[i] * C[j], axis=1) + b[i] + c[j] - logs) ** 2)
    return f + sum(ed.sum(x**2) for x in (W, C, b, c)), [W, C, b, c], arrays


ROWS = {
    "chain": Row("chained Rosenbrock", 10**6, chain, chain_by_hand, solve_band),
    "trend": Row("trend filtering", 10**6, trend, trend_by_hand, solve_band),
    "spline": Row("smoothing spline", 10**6, spline, spline_by_hand, solve_band),
    "smoother": Row("Kalman smoother, 4 states", 10**6, smoother, smoother_by_hand, solve_band),
    "control": Row("control, KKT", 10**5, control),
    "image": Row("total variation of an image", 512, image, image_by_hand, solve_sparse),
    "mixed": Row("mixed effects", 10**5, mixed),
    "comparisons": Row("Bradley–Terry", 10**5, comparisons),
    "crossed": Row("crossed effects", 10**5, crossed),
    "stress": Row("stress of an edge list", 10**5, stress),
    "factorization": Row("COO factorization", 10**6, factorization),
    "glove": Row("GloVe", 10**6, glove),
}


def measured(*calls: Callable[[], Any]) -> list[float]:
    """The median time of each call; they take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for own, call in zip(times, calls, strict=True):
            if not own or own[0] < LONG:
                start = perf_counter()
                call()
                own.append(perf_counter() - start)
    return [median(own) for own in times]


def run(name: str, size: int | None) -> dict[str, Any]:
    """One row of the table."""
    row = ROWS[name]
    n = size or row.size
    function, variables, arrays = row.build(n)
    start = perf_counter()
    hessian = ed.compile(ed.hessian(function, variables), form="structured")
    operator = hessian(**arrays)
    result: dict[str, Any] = {"problem": row.title, "n": n, "first": perf_counter() - start}
    b = np.random.default_rng(3).normal(size=operator.to_scipy().shape[0])
    result |= {"structure": operator.structure, "bytes": operator.nbytes, "method": operator.solver().method}
    if row.values is None or row.solve is None:
        [result["values"]] = measured(lambda: hessian(**arrays))
        [result["both"]] = measured(lambda: hessian(**arrays).solve(b))
        residual = hessian(**arrays) @ operator.solve(b) - b
        assert np.abs(residual).max() <= 1e-6 * np.abs(b).max(), name
        return result
    by_hand, solve_by_hand = row.values, row.solve
    found = by_hand(arrays)
    expected, solution = solve_by_hand(found, b), operator.solve(b)
    assert np.abs(solution - expected).max() <= 1e-8 * np.abs(expected).max(), name
    result["values"], result["hand_values"] = measured(lambda: hessian(**arrays), lambda: by_hand(arrays))
    result["both"], result["hand_both"] = measured(
        lambda: hessian(**arrays).solve(b), lambda: solve_by_hand(by_hand(arrays), b)
    )
    return result


def table(results: list[dict[str, Any]]) -> str:
    """The results as a table of markdown."""
    head = ["problem", "n", "structure", "memory", "first", "values", "by hand", "ratio"]
    head += ["and solution", "by hand", "ratio"]
    lines = []
    for x in results:
        times = [duration(x[key]) if key in x else "" for key in ("values", "hand_values", "both", "hand_both")]
        ratios = [f"{x[a] / x[b]:.2f}" if b in x else "" for a, b in (("values", "hand_values"), ("both", "hand_both"))]
        shown = [x["problem"], f"{x['n']:,}", x["structure"], f"{x['bytes'] / 1e6:.1f} MB", duration(x["first"])]
        lines.append([*shown, *times[:2], ratios[0], *times[2:], ratios[1]])
    return markdown(head, lines)


def main() -> None:
    """Run some rows, add them to the results, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structures", description=__doc__)
    parser.add_argument("problems", nargs="*", choices=[[], *ROWS], default=[], help="all if none is named")
    parser.add_argument("--size", type=int, help="instead of that of the table")
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    path = options.out / "structures.json"
    known = json.loads(path.read_text())["results"] if path.exists() else []
    known = [x for x in known if x["problem"] in {row.title for row in ROWS.values()}]
    for name in options.problems or ROWS:
        found = run(name, options.size)
        known = [x for x in known if x["problem"] != found["problem"]] + [found]
        print(table([found]))
    known.sort(key=lambda x: [row.title for row in ROWS.values()].index(x["problem"]))
    options.out.mkdir(parents=True, exist_ok=True)
    machine = describe(1)
    path.write_text(json.dumps({"machine": machine, "results": known}, indent=1) + "\n")
    text = f"# Hessians with coordinates\n\n`python -m benchmarks.structures`, {machine['processor']}, one thread.\n"
    (options.out / "structures.md").write_text(f"{text}\n{table(known)}\n")


if __name__ == "__main__":
    main()
