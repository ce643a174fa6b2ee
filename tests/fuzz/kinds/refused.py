"""Places that may lie beyond a size that is only known at run time: the right value, or an error of ours everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import eindiff as ed
from eindiff.core.nodes import Expr
from fuzz import libraries
from fuzz.jets import Array
from fuzz.programs import FoundError, Random

FORMS = ("x[{0}]", "x[-{1}]", "x[{0}:{2}]", "x[{0}:]", "x[:-{1}]", "x[-{1}:]", "x[[0, {0}]]", "x[{0}:-{1}]")
AROUND = ("{}", "2 * {} + 1", "{} * {}", "ed.sum(ed.exp({}))", "ed.mean(ed.sin({}))")
AROUND += ("ed.concatenate([ed.reshape({}, (-1,)), x])", "ed.concatenate([x[::-1], ed.reshape({}, (-1,))])[::-1]")


@dataclass
class Reach:
    """An index of a vector of some length, and what it is used for."""

    text: str
    index: str
    x: Array
    library: str

    def check(self) -> None:
        y = eval(self.text, {"ed": ed, "x": ed.vector("x", "n")})
        expected = self._plain() if self._fits() else None
        for name in ("evaluate", self.library):
            self._check(name, "value", y, expected)
            self._check(name, "derivative", ed.derivative(y, "x"), expected)

    def _check(self, name: str, what: str, expr: Expr, expected: Array | None) -> None:
        """A value where there is one, and else an error of ours."""
        of = f"{what} by {name} of a vector of {len(self.x)}"
        try:
            [found] = _run(name, expr, self.x)
        except ed.EindiffError as error:
            if expected is not None:
                raise FoundError(f"{of} is refused: {error}") from error
            return
        if expected is None:
            raise FoundError(f"{of} is {found!r}, it should be an error of ours")
        is_close = np.shape(found) == np.shape(expected) and np.allclose(found, expected, rtol=1e-9)
        if what == "value" and not is_close:
            raise FoundError(f"{of} is {found} instead of {expected}")

    def _fits(self) -> bool:
        """Whether all places are there, and there is at least one."""
        length = len(self.x)
        inner = self.index[2:-1]
        if inner.startswith("["):
            return all(int(k) < length for k in inner[1:-1].split(","))
        if ":" not in inner:
            return -length <= int(inner) < length
        start, stop = (int(k) if k else None for k in inner.split(":"))
        first = 0 if start is None else start if start >= 0 else length + start
        last = length if stop is None else stop if stop >= 0 else length + stop
        least = 1 if "mean" in self.text else 0  # of nothing there is no mean
        return 0 <= first <= last - least and last <= length

    def _plain(self) -> Array:
        return eval(self.text, {"ed": np, "x": self.x})


def _run(name: str, expr: Expr, x: Array) -> list[Array]:
    return ed.evaluate([expr], {"x": x}) if name == "evaluate" else libraries.run(name, [expr], {"x": x}, {})


def generate(rng: Random) -> Reach:
    first, back = int(rng.integers(0, 5)), int(rng.integers(1, 5))
    index = str(rng.choice(FORMS)).format(first, back, first + int(rng.integers(1, 4)))
    around = str(rng.choice(AROUND))
    length = int(rng.integers(1, 6))
    return Reach(around.replace("{}", index), index, rng.uniform(-1, 1, length), str(rng.choice(libraries.LIBRARIES)))
