"""Functions of JAX and NumPy, traced: their derivatives are those of jets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import eindiff as ed
from fuzz.checks import Case
from fuzz.jets import Array
from fuzz.kinds import einsums, maps, matrices, reductions
from fuzz.programs import Declared, Random, Step, Writer
from oracles import JAX, NUMPY, jnp

JAX.put = lambda a, index, value, mode="set": getattr(jnp.asarray(a).at[index], mode)(value)


def put(writer: Writer) -> str | None:
    """Entries of a value set, or added to, at places that are all different."""
    name = writer.value(1, least=2)
    if name is None:
        return None
    other = writer.value(1, least=1, most=writer.shape(name)[0])
    if other is None:
        return None
    places = writer.rng.permutation(writer.shape(name)[0])[: writer.shape(other)[0]].tolist()
    return f"ed.put({name}, np.array({places}), {other}, {writer.choice(['set', 'add'])!r})"


def triangle(writer: Writer) -> str | None:
    """A vector as the lower triangle of a matrix, whose diagonal may be changed: how people write covariances."""
    name = writer.pick(lambda name: writer.shape(name) in ((3,), (6,)))
    if name is None:
        return None
    n = 2 if writer.shape(name) == (3,) else 3
    lower = f"ed.put(np.zeros(({n}, {n})), np.tril_indices({n}), {name})"
    if writer.rng.random() < 0.5:
        return lower
    return f"(lambda L: ed.put(L, np.diag_indices({n}), ed.exp(ed.diag(L))))({lower})"


STEPS: list[Step] = [*maps.MAPS, *einsums.STEPS, reductions.reduction, matrices.product]


@dataclass
class Traced(Case):
    """A function of arrays with the lines of a program."""

    framework: str = "jax"

    def check(self) -> None:
        name = self.program.by[0]
        place = list(self.program.variables).index(name)
        arrays = [*self.program.arrays.values()]
        first, second = self._derivatives(place)
        self.close("first derivative", self._along(first(*arrays), 1), self.expected.parts[1])
        if second is not None and self.program.by[1] == name and self.expected.parts[0].ndim == 0:
            self.close("second derivative", self._along(second(*arrays), 2), self.expected.parts[3])

    def _function(self, library: Any, wrap: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
        names, lines = list(self.program.variables), self.program.lines

        def program(*arrays: Any) -> Any:
            scope: dict[str, Any] = {"ed": library, "np": np, **dict(zip(names, arrays, strict=True))}
            for line in lines:
                exec(line, scope)
            return scope[f"v{len(lines)}"]

        return program

    def _derivatives(self, place: int) -> tuple[Callable[..., Array], Callable[..., Array] | None]:
        if self.framework == "numpy":
            function = self._function(NUMPY)
            return ed.jacobian(function, argnums=place), ed.hessian(function, argnums=place)
        import eindiff.jax

        function = self._function(JAX)
        made = [eindiff.jax.jacfwd(function, place), eindiff.jax.hessian(function, place)]
        return tuple(lambda *arrays, one=one: np.asarray(one(*map(jnp.asarray, arrays))) for one in made)  # type: ignore[return-value]


class Untraced(Writer):
    """Writes lines without making expressions of them, with the functions that a library has."""

    makes_expressions = False
    known: frozenset[str] = frozenset()

    def add(self, text: str | None) -> str | None:
        return super().add(text if set(re.findall(r"ed\.(\w+)", text or "")) <= self.known else None)


def generate(rng: Random) -> Traced:
    framework = "numpy" if rng.random() < 0.5 else "jax"
    variables = {}
    for k in range(int(rng.integers(1, 3))):
        shape = [(3,), (6,), (2,), (4,), (3, 3), (2, 4)][int(rng.integers(6))]
        variables["xyz"[k]] = Declared(shape, rng.uniform(-1.2, 1.2, shape))
    writer = Untraced(rng, {}, variables)
    writer.known = frozenset(vars(NUMPY if framework == "numpy" else JAX))
    writer.write([*STEPS, *([put, put, triangle, triangle] if framework == "jax" else [])], int(rng.integers(2, 6)))
    return Traced.of(writer, framework=framework)
