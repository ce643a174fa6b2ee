"""`python -m benchmarks.structures`: Hessians with coordinates, values and solutions, beside code by hand with SciPy.

Each problem is read from expressions and from a function of JAX. Compared are times of one evaluation and of one with a
solution; what is done once (deriving, compiling, the pattern of a sparse matrix) is shown as the time of the first
evaluation, at a small size too. Memory is that of the operator, and what the process grows by for the diagonal of the
Hessian; nonzeros are counted in the sparse matrix. Each row runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.report import duration, markdown
from benchmarks.structure_problems import PROBLEMS, Array, Arrays, Expressions, Jax, Problem
from benchmarks.structures_by_hand import HANDS

ROUNDS = 5  # in which both take turns
LONG = 1.0  # seconds of a call that is not repeated
VERY_LONG = 5.0  # of a solution that is timed where it is compared
LEAST = 1e-5  # seconds: what is shorter is no computation
SMALL = 1000  # the size at which deriving is timed too
FORMS = ("Python", "JAX")


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


Call = Callable[[Arrays], Any]


def from_expressions(problem: Problem, arrays: Arrays) -> tuple[Call, Call]:
    """The Hessian and its diagonal, as functions of arrays."""
    import eindiff as ed

    numbers = {name: ed.tensor(name, *x.shape) for name, x in arrays.items() if x.dtype == float}
    value = problem.function(Expressions(), **(arrays | numbers))
    by = [numbers[name] for name in problem.unknowns]
    wanted = by if len(by) > 1 else by[0]
    hessian = ed.compile(ed.hessian(value, wanted), form="structured")
    diagonal = ed.compile(ed.hessian_diagonal(value, by))

    def given(arrays: Arrays) -> Arrays:
        return {name: x for name, x in arrays.items() if name in numbers}

    return lambda arrays: hessian(**given(arrays)), lambda arrays: diagonal(**given(arrays))


def from_jax(problem: Problem, arrays: Arrays) -> tuple[Call, Call]:
    """The same of a function of JAX, which finds what is no unknown around it."""
    import jax

    import eindiff.jax as ej

    jax.config.update("jax_enable_x64", True)
    rest = {name: x for name, x in arrays.items() if name not in problem.unknowns}

    def function(*unknowns: Any) -> Any:
        return problem.function(Jax(), **dict(zip(problem.unknowns, unknowns, strict=True)), **rest)

    argnums = tuple(range(len(problem.unknowns))) if len(problem.unknowns) > 1 else 0
    hessian = ej.hessian(function, argnums, structured=True)
    diagonal = ej.hessian_diagonal(function, argnums)

    def unknowns(arrays: Arrays) -> list[Array]:
        return [arrays[name] for name in problem.unknowns]

    return lambda arrays: hessian(*unknowns(arrays)), lambda arrays: diagonal(*unknowns(arrays))


def _flat(parts: Any) -> Array:
    """An array, or several, as a vector."""
    several = parts if isinstance(parts, list | tuple) else [parts]
    return np.concatenate([np.asarray(part).reshape(-1) for part in several])


def grown() -> float:
    """The most memory that the process had, in bytes."""
    return getrusage(RUSAGE_SELF).ru_maxrss * 1024.0


def run(name: str, size: int | None, form: str) -> dict[str, Any]:
    """One row of the table."""
    problem = PROBLEMS[name]
    make = from_expressions if form == "Python" else from_jax
    n = size or problem.size
    result: dict[str, Any] = {"name": name, "problem": problem.title, "form": form, "n": n}
    for key, count in (("warm", min(n, SMALL) - 10), ("small", min(n, SMALL)), ("first", n)):
        arrays = problem.arrays(count)
        start = perf_counter()
        hessian, diagonal = make(problem, arrays)
        operator = hessian(arrays)
        result[key] = perf_counter() - start
        before = grown()
        start = perf_counter()
        found = diagonal(arrays)
        result["diagonal"] = perf_counter() - start
        result["diagonal_bytes"] = grown() - before
    flat, other = (_flat(x) for x in (found, operator.diagonal()))
    assert np.allclose(flat, other, rtol=1e-8, atol=1e-8 * np.abs(flat).max()), name
    result |= {"structure": operator.structure, "bytes": operator.nbytes, "method": operator.solver().method}
    b = np.random.default_rng(3).normal(size=len(flat))
    result |= timed(name, arrays, lambda: hessian(arrays), operator, b)
    if problem.size > SMALL or n > 200:
        result["nonzeros"] = operator.to_csc().nnz
    return result


def timed(name: str, arrays: Arrays, values: Callable[[], Any], operator: Any, b: Array) -> dict[str, float]:
    """The times of values and of solutions, and by hand; both solutions are compared."""
    hand, start = HANDS.get(name), perf_counter()
    solution = operator.solve(b)
    took = perf_counter() - start
    if hand is None:
        residual = operator @ solution - b
        assert np.abs(residual).max() <= 1e-6 * np.abs(b).max(), name
        [own] = measured(values)
        return {"values": own, "both": own + took if took > VERY_LONG else measured(lambda: values().solve(b))[0]}
    by_hand = (lambda: matrix) if hand.is_step else (lambda: hand.values(arrays))
    matrix = operator.to_csc() if hand.is_step else None
    start = perf_counter()
    expected = hand.solve(by_hand(), b)
    hand_took = perf_counter() - start
    assert np.abs(solution - expected).max() <= 1e-6 * np.abs(expected).max(), name
    if hand.is_step:  # of a new operator, so that nothing is factorized yet
        fresh = [values() for _ in range(ROUNDS)]
        step, hand_step = measured(lambda: fresh.pop().solve(b), lambda: hand.solve(matrix, b))
        [own] = measured(values)
        return {"values": own, "both": step, "hand_both": hand_step}
    own, hand_values = measured(values, by_hand)
    if hand_took > VERY_LONG:
        return {"values": own, "hand_values": hand_values, "both": own + took, "hand_both": hand_took}
    both, hand_both = measured(lambda: values().solve(b), lambda: hand.solve(by_hand(), b))
    return {"values": own, "hand_values": hand_values, "both": both, "hand_both": hand_both}


def table(results: list[dict[str, Any]]) -> str:
    """The results as a table of markdown."""
    head = ["problem", "from", "n", "structure", "method", "memory", "nonzeros", "diagonal", "first at 1000", "first"]
    head += ["values", "by hand", "ratio", "and solution", "by hand", "ratio"]
    lines = []
    for x in results:
        times = [duration(x[key]) if key in x else "" for key in ("values", "hand_values", "both", "hand_both")]
        pairs = (("values", "hand_values"), ("both", "hand_both"))
        ratios = [f"{x[a] / x[b]:.2f}" if x.get(b, 0) > LEAST else "" for a, b in pairs]
        memory = [f"{x['bytes'] / 1e6:.1f} MB", f"{8 * x['nonzeros'] / 1e6:.1f} MB" if "nonzeros" in x else ""]
        memory.append(f"{duration(x['diagonal'])}, {x['diagonal_bytes'] / 1e6:.0f} MB")
        shown = [x["problem"], x["form"], f"{x['n']:,}", x["structure"], x["method"], *memory]
        lines.append([*shown, duration(x["small"]), duration(x["first"]), *times[:2], ratios[0], *times[2:], ratios[1]])
    return markdown(head, lines)


def compared(name: str, form: str, size: int | None) -> dict[str, Any] | None:
    """One row in a process of its own; None if it fails."""
    command = [sys.executable, "-m", "benchmarks.structures", name, "--one", form]
    command += ["--size", str(size)] if size else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    found: dict[str, Any] | None = json.loads(done.stdout.splitlines()[-1]) if not done.returncode else None
    return found


def main() -> None:
    """Run some rows, add them to the results, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structures", description=__doc__)
    parser.add_argument("problems", nargs="*", choices=[[], *PROBLEMS], default=[], help="all if none is named")
    parser.add_argument("--size", type=int, help="instead of that of the table")
    parser.add_argument("--form", choices=FORMS, help="from expressions or from JAX alone")
    parser.add_argument("--one", choices=FORMS, help="one row, in this process")
    parser.add_argument("--out", type=Path, default=Path("benchmarks", "results"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(options.problems[0], options.size, options.one)))
        return
    path = options.out / "structures.json"
    known = json.loads(path.read_text())["results"] if path.exists() else []
    known = [x for x in known if x.get("name") in PROBLEMS]
    for name in options.problems or PROBLEMS:
        for form in [options.form] if options.form else FORMS:
            found = compared(name, form, options.size)
            if found is None:
                print(f"{name} from {form} FAILED", flush=True)
                continue
            known = [x for x in known if (x["name"], x["form"]) != (name, form)] + [found]
            print(table([found]), flush=True)
            known.sort(key=lambda x: (list(PROBLEMS).index(x["name"]), FORMS.index(x["form"])))
            write(known, options.out)


def write(known: list[dict[str, Any]], folder: Path) -> None:
    """The results, for people and for the next run."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = describe(1)
    (folder / "structures.json").write_text(json.dumps({"machine": machine, "results": known}, indent=1) + "\n")
    text = f"# Hessians with coordinates\n\n{(__doc__ or '').partition(': ')[2].strip()}\n\n"
    text += f"{machine['processor']}, one thread of BLAS; the load was {machine['load']}.\n"
    (folder / "structures.md").write_text(f"{text}\n{table(known)}\n")


if __name__ == "__main__":
    main()
