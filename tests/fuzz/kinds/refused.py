"""Places that may lie beyond a size that is only known at run time: the right value, or an error of ours everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import eindiff as ed
from eindiff.expr import Expr
from fuzz import libraries
from fuzz.jets import Array
from fuzz.programs import Failure, Random

FORMS = ("x[{0}]", "x[-{1}]", "x[{0}:{2}]", "x[{0}:]", "x[:-{1}]", "x[-{1}:]", "x[[0, {0}]]", "x[{0}:-{1}]", "x[::-1][{0}]")
AROUND = ("{}", "2 * {} + 1", "{} * {}", "ed.sum(ed.exp({}))", "ed.mean(ed.sin({}))", "ed.concatenate([ed.reshape({}, (-1,)), x])")


@dataclass
class Reach:
    """An index of a vector of some length, and what it is used for."""

    text: str
    index: str
    x: Array
    library: str

    def check(self) -> None:
        length = len(self.x)
        y = eval(self.text, {"ed": ed, "x": ed.vector("x", "n")})
        expected = self._plain() if self._fits() else None
        for what, expr in (("value", y), ("derivative", ed.derivative(y, "x"))):
            for name, run in (("evaluate", _evaluated), (self.library, lambda e, x: libraries.run(self.library, [e], x, {})[0])):
                found = _outcome(run, expr, {"x": self.x})
                if expected is None and not isinstance(found, ed.EindiffError):
                    raise Failure(f"{what} by {name} of a vector of {length} gives {found!r}, it should be an error of ours")
                if expected is not None and isinstance(found, Exception):
                    raise Failure(f"{what} by {name} of a vector of {length} is refused: {type(found).__name__}: {found}")
                if expected is not None and what == "value":
                    close = np.shape(found) == np.shape(expected) and np.allclose(found, expected, rtol=1e-9)
                    if not close:
                        raise Failure(f"{name} of a vector of {length}: {found} instead of {expected}")

    def _fits(self) -> bool:
        """Whether all places are there, and there is at least one."""
        length = len(self.x)
        inner = self.index.replace("[::-1]", "")[2:-1]
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
        concatenate = lambda parts: np.concatenate([np.asarray(p) for p in parts])  # noqa: E731
        library: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "exp": np.exp, "sin": np.sin, "reshape": np.reshape}
        return eval(self.text, {"ed": type("", (), {**{k: staticmethod(v) for k, v in library.items()}, "concatenate": staticmethod(concatenate)}), "x": self.x})


def _evaluated(expr: Expr, arrays: dict[str, Array]) -> Array:
    return ed.evaluate(expr, arrays)


def _outcome(run: Callable[[Expr, dict[str, Array]], Array], expr: Expr, arrays: dict[str, Array]) -> Any:
    try:
        return run(expr, arrays)
    except ed.EindiffError as error:
        return error


def generate(rng: Random) -> Reach:
    first, back = int(rng.integers(0, 5)), int(rng.integers(1, 5))
    index = str(rng.choice(FORMS)).format(first, back, first + int(rng.integers(1, 4)))
    around = str(rng.choice(AROUND))
    length = int(rng.integers(1, 6))
    return Reach(around.replace("{}", index), index, rng.uniform(-1, 1, length), str(rng.choice(libraries.LIBRARIES)))
