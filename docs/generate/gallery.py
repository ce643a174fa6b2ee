"""The gallery: problems with their formulas, structures, code, and times beside JAX.

    OPENBLAS_NUM_THREADS=1 taskset -c 0 python docs/generate/gallery.py    # measures all problems again; needs JAX

The page is made when the site is built; times are kept in `gallery.json` beside this file.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import eindiff as ed
from eindiff.apps.page.pictures import structure
from eindiff.program.check import random_point
from eindiff.text.write.mathml import MathmlStyle, whole
from eindiff.text.write.to_text import Equations

HERE = Path(__file__).parent
PROBLEMS, TIMES = HERE / "problems.txt", HERE / "gallery.json"
LONGEST = 200  # letters of a Hessian that is shown

HEAD = """\
# Gallery

{count} problems of the field. Everything below is made by running the code of each: the formulas, the structure of the
Hessian with a picture at small sizes (a colour for each term), and times, where there are any. *JAX* is
`jax.jit(jax.hessian(...))` of the same function with the same numbers; *eindiff* is the compiled Hessian as an array,
*structured* its factors alone. Time of one core, double precision, medians, at the sizes named.
"""


@dataclass(frozen=True)
class Problem:
    """A line of the list."""

    title: str
    text: str
    expression: str
    by: str
    declarations: str
    sizes: dict[str, int]
    drawn: dict[str, int] | None = None

    @property
    def key(self) -> str:
        """A name for files and links."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")

    def function(self) -> ed.Expr:
        """The function."""
        return ed.parse(self.expression, self.declarations)


def problems() -> list[Problem]:
    """All problems."""
    found = []
    for line in PROBLEMS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            parts = [part.strip() for part in line.split("|")]
            found.append(Problem(*parts[:5], *(_sizes(part) for part in parts[5:])))
    return found


def _sizes(text: str) -> dict[str, int]:
    return {name: int(size) for name, size in (part.split("=") for part in text.split())}


def pages() -> dict[str, str]:
    """The page and its pictures."""
    times = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    made = {}
    parts = [HEAD.format(count=len(problems()))]
    for problem in problems():
        text, picture = _entry(problem, times.get(problem.key))
        parts.append(text)
        made[f"gallery/{problem.key}.svg"] = picture
    return {"gallery.md": "\n".join(parts), **made}


def _entry(problem: Problem, times: dict[str, float] | None) -> tuple[str, str]:
    function = problem.function()
    question = {"expression": problem.expression, "wrt": [problem.by], "declarations": problem.declarations, "order": 2}
    drawn = structure({**question, "sizes": problem.drawn})
    hessian = ed.hessian(function, problem.by)
    short = len(ed.to_text(hessian, names=False)) <= LONGEST
    lines = [
        f"## {problem.title}", problem.text,
        _formula(function),
        f"Gradient by `{problem.by}`:",
        _formula(ed.gradient(function, problem.by)),
        "Hessian:" if short else "Hessian: long; run the code below.",
        _formula(hessian) if short else "",
        f"![Where the Hessian has entries](gallery/{problem.key}.svg){{ width=260 }}",
        f"**{drawn['name']}**. {drawn['explanation']}",
        f"```python\nf = ed.parse({_quoted(problem.expression)}, {_quoted(problem.declarations)})\n"
        f"hessian = ed.hessian(f, {_quoted(problem.by)})\n```",
    ]  # fmt: skip
    if times:
        sizes = ", ".join(f"{name} = {size}" for name, size in problem.sizes.items())
        told = ", ".join(f"{name} {_seconds(value)}" for name, value in times.items())
        lines.append(f"{sizes}: {told}.")
    return "\n\n".join(line for line in lines if line) + "\n", drawn["svg"]


def _formula(expr: ed.Expr) -> str:
    """A formula that browsers show."""
    (line,) = Equations.of(expr, "matrix", names=False).lines
    return f'<div class="formula" tabindex="0">{whole(MathmlStyle().text(line.tree))}</div>'


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


def _seconds(value: float) -> str:
    unit, factor = next((unit, factor) for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if value * factor >= 1)
    return f"{value * factor:.2g} {unit}" if value * factor < 100 else f"{value * factor:.0f} {unit}"


# Measuring


def measured(problem: Problem) -> dict[str, float]:
    """Seconds for the Hessian with JAX, with eindiff, and for its factors."""
    import jax

    jax.config.update("jax_enable_x64", True)
    function = problem.function()
    arrays = random_point([function], {**problem.sizes})
    hessian = ed.hessian(function, problem.by)
    dense, factors = ed.compile(hessian), ed.compile(hessian, form="structured")
    value = ed.compile(function, backend="jax")
    rest = {name: jax.numpy.asarray(x) for name, x in arrays.items() if name != problem.by}
    theirs = jax.jit(jax.hessian(lambda x, rest: value(**{problem.by: x}, **rest)))
    point = jax.numpy.asarray(arrays[problem.by])
    calls: dict[str, Callable[[], object]] = {
        "JAX": lambda: jax.block_until_ready(theirs(point, rest)),
        "eindiff": lambda: dense(**arrays),
        "structured": lambda: factors(**arrays),
    }
    return {name: float(f"{seconds:.2g}") for name, seconds in _in_turns(calls).items()}


def _in_turns(calls: dict[str, Callable[[], object]], rounds: int = 8, each: float = 0.1) -> dict[str, float]:
    """The median seconds of a processor for each call, in turns: what else runs on the machine counts little."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            until = time.perf_counter() + each
            while True:
                start = time.process_time()
                call()
                found[name].append(time.process_time() - start)
                if time.perf_counter() > until:
                    break
    return {name: median(samples) for name, samples in found.items()}


if __name__ == "__main__":
    times = {}
    for problem in problems():
        times[problem.key] = measured(problem)
        print(problem.title, times[problem.key], flush=True)
    TIMES.write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")
