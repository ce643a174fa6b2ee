"""A module that checks itself: a function and its derivatives, against finite differences at a random point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from eindiff.calculus.derive import derivative, find_variable
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable
from eindiff.program.backends.backend import array_text
from eindiff.program.check import random_point
from eindiff.program.interpreter import evaluate
from eindiff.program.write.module import Module

TOLERANCE = 1e-5
KINDS_OF_POINTS = 4  # of random points: any numbers, positive ones, ones between -1 and 1, positive definite matrices
NAMES_IN_SCRIPT = ("sys", "rng", "point", "finite_difference", "failed", "moved_point", "label", "lower", "higher")

FINITE_DIFFERENCE = '''
def finite_difference(function, x, symmetric=False):
    """The derivative of a function at x: extrapolated central differences, with the step that shows the least error."""
    x = np.asarray(x, dtype=float)
    columns = []
    for index in np.ndindex(x.shape):
        direction = np.zeros(x.shape)
        direction[index] = 1.0
        if symmetric:
            direction = (direction + direction.T) / 2
        found = []
        for step in (1e-2, 1e-3, 1e-4):
            move = step * direction
            coarse = (function(x + 2 * move) - function(x - 2 * move)) / (4 * step)
            fine = (function(x + move) - function(x - move)) / (2 * step)
            best = (4 * fine - coarse) / 3
            found.append((np.max(np.abs(best - fine)), best))
        columns.append(min(found, key=lambda pair: pair[0])[1])
    return np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + x.shape)
'''

MAIN = """
if __name__ == "__main__":
{recipe}
    outputs = {call}
    failed = False
    for label, lower, higher, name{flag} in {checks}:
        numeric = finite_difference(lambda moved_point: {moved}[lower], point[name]{pass_flag})
        error = np.max(np.abs(outputs[higher] - numeric)) / max(1, np.max(np.abs(numeric)))
        print(f"{{label}}: relative error {{error:.1e}}")
        failed = failed or not error <= {tolerance}
    sys.exit(1 if failed else 0)
"""


class Script:
    """The function with its derivatives, and the recipe for a point to check them at."""

    def __init__(
        self, expr: Expr, wrt: Any, order: int, name: str, sizes: Mapping[str, int], mode: str, seed: int
    ) -> None:  # fmt: skip
        if order < 1:
            raise EindiffError(f"a script checks derivatives of order 1 or more, not {order}", "options")
        wanted = list(wrt) if isinstance(wrt, list | tuple) else [wrt]
        self.variables = [find_variable(expr, x) for x in wanted]
        self.outputs: dict[str, Expr] = {"value": expr}
        self.checks: list[tuple[str, int, int, Variable]] = []
        self._derive(expr, order, mode)
        self.sizes = dict(sizes)
        self.seed = seed
        self.module = Module(self.outputs, name, NAMES_IN_SCRIPT)

    def _derive(self, expr: Expr, order: int, mode: str) -> None:
        """All derivatives up to the order, each from the one below it."""
        place: dict[tuple[Variable, ...], tuple[int, Expr]] = {(): (0, expr)}
        for count in range(1, order + 1):
            for xs in product(self.variables, repeat=count):
                below, lower = place[xs[:-1]]
                label = self._label(expr, xs)
                self.outputs[label] = higher = derivative(lower, xs[-1], mode=mode)
                place[xs] = (len(self.outputs) - 1, higher)
                self.checks.append((label, below, len(self.outputs) - 1, xs[-1]))

    def _label(self, expr: Expr, xs: Sequence[Variable]) -> str:
        names = ["derivative", "second_derivative"] if expr.ndim else ["gradient", "hessian"]
        label = names[len(xs) - 1] if len(xs) <= 2 else f"derivative_{len(xs)}"
        return "_".join([label, *(x.name for x in xs)]) if len(self.variables) > 1 else label

    def source(self) -> str:
        """The whole script."""
        names = self.module.names.variables  # a variable that dropped out is no input: nothing can be moved there
        symmetric = any(x.symmetries for *_, x in self.checks)
        checks = [
            (label, lower, higher, names[x.name], *([bool(x.symmetries)] if symmetric else []))
            for label, lower, higher, x in self.checks
            if x.name in names
        ]
        rows = "".join(f"\n        {row!r}," for row in checks).replace("'", '"')
        unseen = [self.module.names.sizes[size] for size in self.module.unseen]
        keywords = "".join(f", {size}={size}" for size in unseen)
        main = MAIN.format(
            recipe="\n".join(f"    {line}" for line in self.recipe()),
            call=f"{self.module.name}(**point{keywords})",
            moved=f"{self.module.name}(**{{**point, name: moved_point}}{keywords})",
            checks=f"[{rows}\n    ]",
            flag=", symmetric" if symmetric else "",
            pass_flag=", symmetric" if symmetric else "",
            tolerance=TOLERANCE,
        )
        text = self.module.source()
        return f"import sys\n\n{text}\n{FINITE_DIFFERENCE}\n{main}"

    def recipe(self) -> list[str]:
        """Statements that make a point in the domain: the first kind of random numbers that gives finite values."""
        for count, size in enumerate(size for size in self.module.unseen if size not in self.sizes):
            self.sizes[size] = 2 + count  # random_point only sees the sizes of axes
        found = random_point(list(self.outputs.values()), self.sizes, self.seed)
        for kind in range(KINDS_OF_POINTS):
            lines = self._lines(kind)
            scope: dict[str, Any] = {"np": np}
            exec("\n".join(lines), scope)
            names = self.module.names.variables
            point = {v.name: scope["point"][names[v.name]] for v in self.module.inputs}
            if self._is_inside(point):
                return lines
        names = self.module.names.variables
        rows = [f'    "{names[k]}": np.array({_listed(np.asarray(array))}),' for k, array in found.items()]
        return [*self._size_lines(), "point = {", *rows, "}"]

    def _is_inside(self, point: Mapping[str, Any]) -> bool:
        try:
            values = evaluate(list(self.outputs.values()), point, self.sizes)
        except (EindiffError, np.linalg.LinAlgError):
            return False
        return all(np.isfinite(value).all() for value in values)

    def _size_lines(self) -> list[str]:
        names = self.module.names.sizes
        if not names:
            return []
        return [f"{', '.join(names.values())} = {', '.join(str(self.sizes[size]) for size in names)}"]

    def _lines(self, kind: int) -> list[str]:
        """The recipe for one kind of point."""
        rows, after = [], []
        for v in self.module.inputs:
            name = self.module.names.variables[v.name]
            sizes = [self.module.names.size(size) for size in v.shape]
            if v.into is not None:
                rows.append(f'    "{name}": {_places_text(sizes, self.module.names.size(v.into))},')
                continue
            text = _sample_text(v, sizes, kind)
            entry, square = f'point["{name}"]', len(sizes) == 2 and sizes[0] == sizes[1]
            free = "orthogonal" not in v.properties
            if free and ("psd" in v.properties or (kind == 3 and square)):
                after.append(f"{entry} = {entry} @ {entry}.T + np.eye({sizes[0]})")
            elif v.symmetries:
                after.append(f"{entry} = ({entry} + {entry}.T) / 2")
            elif free and square:
                text += f" + 2 * np.eye({sizes[0]})"  # away from singular matrices
            rows.append(f'    "{name}": {text},')
            after += [line.format(entry) for word, line in _PLACED.items() if word in v.properties]
        return [f"rng = np.random.default_rng({self.seed})", *self._size_lines(), "point = {", *rows, "}", *after]


def _listed(array: np.ndarray) -> str:
    """The entries of an array; indices are whole numbers."""
    return str(array.tolist()) if array.dtype.kind == "i" else array_text(array.tolist())


def _places_text(sizes: Sequence[str], into: str) -> str:
    """Random indices of an axis."""
    return f"rng.integers({into}, size=({', '.join(sizes)}{',' if len(sizes) == 1 else ''}))"


# What makes random numbers those of a variable with a property.
_PLACED = {
    "lower": "{0} = np.tril({0})",
    "upper": "{0} = np.triu({0})",
    "diagonal": "{0} = np.diag(np.diag({0}))",
    "tridiagonal": "{0} = np.triu(np.tril({0}, 1), -1)",
    "banded": "{0} = np.triu(np.tril({0}, 2), -2)",
    "unit": "np.fill_diagonal({0}, 1)",
}


def _sample_text(v: Variable, sizes: Sequence[str], kind: int) -> str:
    """Random numbers of one kind."""
    text = f"rng.normal(size=({', '.join(sizes)}{',' if len(sizes) == 1 else ''}))" if sizes else "rng.normal()"
    if "permutation" in v.properties:
        return f"np.eye({sizes[0]})[rng.permutation({sizes[0]})]"
    if "orthogonal" in v.properties:
        return f"np.linalg.qr({text})[0]"
    if kind == 1 or "positive" in v.properties:
        return f"0.1 + np.abs({text})"
    return f"0.8 * np.tanh({text})" if kind == 2 else text
