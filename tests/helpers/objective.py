"""A scalar function with small sizes, random points, and the same function in JAX to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

import eindiff as ed
from eindiff.core import sizes as sz
from eindiff.core.nodes import Variable
from oracles import jit


@dataclass(frozen=True, slots=True)
class Objective:
    """A scalar function by some of its variables, small sizes, and the same function of arrays by name in JAX."""

    function: ed.Expr
    wrt: tuple[Variable, ...]
    sizes: dict[str, int]
    reference: Callable[..., Any]
    kinds: dict[str, str] = field(default_factory=dict)  # of the variables that are not any numbers: see `_sample`

    def point(self, generator: np.random.Generator, sizes: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
        """Arrays by name at a random point that makes sense; `sizes` take the place of the small ones."""
        known = {**self.sizes, **(sizes or {})}
        return {x.name: _sample(x, known, self.kinds.get(x.name, ""), generator) for x in ed.variables(self.function)}

    def expected(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, list[list[np.ndarray]]]:
        """The value, and the blocks of the Hessian, from JAX."""

        def by(variables: dict[str, Any]) -> Any:
            return self.reference(**{**arrays, **variables})

        names = [x.name for x in self.wrt]
        value, blocks = jit(lambda point: (by(point), jax.hessian(by)(point)))({name: arrays[name] for name in names})
        return np.asarray(value), [[np.asarray(blocks[a][b]) for b in names] for a in names]


def _sample(variable: Variable, sizes: Mapping[str, int], kind: str, generator: np.random.Generator) -> np.ndarray:
    """Numbers of a kind. Scalars are weights, scales or widths: positive, as are variables declared so."""
    shape = tuple([sz.evaluate(size, sizes) for size in variable.shape])
    if variable.symmetries:
        noise = generator.normal(size=shape)
        return noise @ noise.T / shape[0] + np.eye(shape[0])
    if kind == "binary":
        return generator.integers(0, 2, shape).astype(float)
    if kind == "sign":
        return generator.choice([-1.0, 1.0], shape)
    if kind == "count":
        return generator.poisson(2.0, shape).astype(float)
    if kind == "one-hot":
        return np.eye(shape[-1])[generator.integers(0, shape[-1], shape[:-1])]
    if kind == "positive" or not shape or "positive" in variable.properties:
        return generator.uniform(0.5, 1.5, shape)
    return generator.normal(size=shape)


OBJECTIVES: dict[str, Callable[[], Objective]] = {}


Makers = dict[str, Callable[[], Objective]]


def into(table: Makers) -> Callable[[Callable[[], Objective]], Callable[[], Objective]]:
    """A decorator that puts makers into a table, under their names in words."""

    def objective(maker: Callable[[], Objective]) -> Callable[[], Objective]:
        table[maker.__name__.replace("_", " ")] = maker
        return maker

    return objective
