"""Random programs: lines of Python over a library `ed`, written one by one and run both ways as they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

import eindiff as ed
from eindiff.core.nodes import Expr
from eindiff.functions.matrices import logabsdet, signdet
from fuzz import oracle
from fuzz.jets import Array, Jet, Kink, moving

Size = int | str
Random = np.random.Generator
Step = Callable[["Writer"], "str | None"]  # the right-hand side of a line, if one fits what is there

LARGEST = 60  # entries of a value
RESULT = 8  # entries of a result
SPECTRAL: dict[str, tuple[Callable[[Expr], Expr], Callable[[Any], Jet]]] = {
    "square": (lambda v: v**2, oracle.spectral_sum([0, 0, 1])),
    "cubic": (lambda v: 1 - v + 0.5 * v**3, oracle.spectral_sum([1, -1, 0, 0.5])),
    "exp": (ed.exp, oracle.spectral_exp),
}
EINDIFF = SimpleNamespace(
    **{name: getattr(ed, name) for name in ed.__all__},
    spectral=lambda a, name: ed.sum(SPECTRAL[name][0](ed.eigvals(a))),
    logabsdet=logabsdet, signdet=signdet,
)  # fmt: skip
ORACLE = SimpleNamespace(
    **vars(oracle.library),
    spectral=lambda a, name: SPECTRAL[name][1](a),
    logabsdet=lambda a: oracle.library.log(oracle.library.abs(oracle.library.det(a))),
    signdet=lambda a: oracle.library.sign(oracle.library.det(a)),
)


class Unfit(Exception):  # noqa: N818 (nothing is wrong)
    """A program that came out too large, or at a point where it has no derivatives."""


class FoundError(AssertionError):
    """Something is wrong with eindiff."""


@dataclass(frozen=True)
class Declared:
    """A variable, and the array that is given for it."""

    shape: tuple[Size, ...]
    value: Array
    properties: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        return "orthogonal" not in self.properties

    def direction(self, rng: Random) -> Array:
        direction = rng.uniform(-1, 1, self.value.shape)
        symmetric = {"symmetric", "psd"} & set(self.properties)
        return (direction + direction.T) / 2 if symmetric else direction


@dataclass
class Program:
    """The lines, the variables, the named sizes, and by which variables it is differentiated along which directions."""

    sizes: dict[str, int]
    variables: dict[str, Declared]
    by: list[str]
    directions: list[Array]
    lines: list[str] = field(default_factory=list)

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: declared.value for name, declared in self.variables.items()}

    @property
    def text(self) -> str:
        """What repeats it."""
        declared = [
            f"{name} = ed.tensor({', '.join(map(repr, (name, v.shape, *v.properties)))})  # {v.value.tolist()}"
            for name, v in self.variables.items()
        ]
        return "\n".join([f"# sizes {self.sizes}, by {', '.join(self.by)}", *declared, *self.lines])


class Writer:
    """Writes a program. Each line is run with eindiff and in jets, so that the next one knows what there is."""

    makes_expressions = True

    def __init__(self, rng: Random, sizes: dict[str, int], variables: dict[str, Declared]) -> None:
        self.rng = rng
        free = [name for name, declared in variables.items() if declared.is_free]
        first = self.choice(free)
        by = [first if rng.random() < 0.6 else self.choice(free) for _ in range(3)]
        self.program = Program(sizes, variables, by, [variables[name].direction(rng) for name in by])
        self.exprs: dict[str, Any] = {"ed": EINDIFF, "np": np, **{name: name for name in sizes}}
        self.jets: dict[str, Any] = {"ed": ORACLE, "np": np, **sizes}
        self.names: list[str] = []
        self.largest = 0.0
        for name, declared in variables.items():
            moves = [d if by[k] == name else None for k, d in enumerate(self.program.directions)]
            self._keep(name, ed.tensor(name, declared.shape, *declared.properties), moving(declared.value, moves))

    def _keep(self, name: str, expr: Expr | None, value: Jet) -> None:
        self.exprs[name], self.jets[name] = expr, value
        self.names.append(name)

    def choice(self, options: Sequence) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.jets[name].shape

    def symbolic(self, name: str) -> tuple[Size, ...]:
        return self.exprs[name].shape if self.makes_expressions else self.shape(name)

    def pick(self, fits: Callable[[str], bool] = lambda name: True) -> str | None:
        """One of the values; later ones are likelier, so that a program is more than its last line."""
        names = [name for name in self.names if fits(name)]
        if not names:
            return None
        weights = np.arange(1, len(names) + 1) ** 1.5
        return str(self.rng.choice(names, p=weights / weights.sum()))

    def value(self, *orders: int, least: int = 0, most: int = LARGEST, known: bool = False) -> str | None:
        """One of the values with so many axes (or with any), all of them of at least and at most some size."""

        def fits(name: str) -> bool:
            shape = self.shape(name)
            if len(shape) not in orders if orders else not shape:
                return False
            is_known = all(isinstance(size, int) for size in self.symbolic(name))
            return all(least <= size <= most for size in shape) and (is_known or not known)

        return self.pick(fits)

    def square(self) -> str | None:
        """A square matrix that is not too large for functions of matrices."""
        return self.pick(
            lambda name: len(self.shape(name)) == 2
            and len(set(self.symbolic(name))) == 1 and 1 <= self.shape(name)[0] <= 3
        )  # fmt: skip

    def add(self, text: str | None) -> str | None:
        """A line with a right-hand side; nothing happens if that has a kink here, or is too large."""
        if text is None:
            return None
        try:
            Jet.largest = 0.0
            with np.errstate(all="ignore"):
                value = eval(text, self.jets)
        except Kink:
            return None
        if not isinstance(value, Jet) or value.parts[0].size > LARGEST or Jet.largest > 1e4:
            return None
        name = f"v{len(self.program.lines) + 1}"
        self.program.lines.append(f"{name} = {text}")
        self.largest = max(self.largest, Jet.largest)
        self._keep(name, self._expression(text) if self.makes_expressions else None, value)
        return name

    def _expression(self, text: str) -> Expr:
        try:
            expr = eval(text, self.exprs)
        except ed.EindiffError as error:
            if "is not defined: its domain is" in str(error):  # of something that is 0 whatever its variables are
                raise Unfit(str(error)) from error
            raise FoundError(f"{error}\n{self.program.text}") from error
        except Exception as error:
            raise FoundError(f"{type(error).__name__} while it is made: {error}\n{self.program.text}") from error
        if not isinstance(expr, Expr):
            raise FoundError(f"{text} is {expr!r}, no expression")
        return expr

    def write(self, steps: Sequence[Step], count: int) -> None:
        """Some lines, each by one of the steps."""
        for _ in range(6 * count):
            if len(self.program.lines) >= count:
                break
            self.add(self.choice(steps)(self))

    def finish(self) -> tuple[Expr, Jet]:
        """The result: what the last line gives, weighted and summed if it is large."""
        if not self.program.lines:
            raise Unfit("no line fits")
        last = self.names[-1]
        if self.jets[last].parts[0].size > RESULT:
            self.add(f"ed.sum(ed.sin({last}) * {last})")
        if (last := self.names[-1]) and self.jets[last].parts[0].size > RESULT:
            raise Unfit("a large result")
        return self.exprs[last], self.jets[last]
