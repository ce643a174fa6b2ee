"""What a benchmark problem is: a function written once for all tools, its data, and its derivatives written by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

Array = np.ndarray
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
QUANTITIES = ("gradient", "hessian", "compressed")


@dataclass(frozen=True)
class Problem:
    """A scalar function of arrays, and the array by which it is differentiated.

    `shapes` has the names of the sizes of each array. `objective(xp, **arrays)` is the function, where `xp` is the
    namespace of a tool. `grid` has the sizes n for each quantity: `gradient` (with the function's value), `hessian`
    (a dense array), and `compressed` (the Hessian's factors). `hand` has the variants of each quantity as a person
    would write them, functions of those arrays and sizes that they name. They use what the function says, and no facts
    about the data that it does not say (that labels are ±1, say). `expand` makes a dense array of factors and sizes.
    """

    name: str
    title: str
    shapes: Mapping[str, str]
    wrt: str
    sizes: Callable[[int], dict[str, int]]
    objective: Callable[..., Any]
    grid: Mapping[str, tuple[int, ...]]
    hand: Mapping[str, Mapping[str, Callable[..., Any]]]
    draw: Mapping[str, Draw] = field(default_factory=dict)
    expand: Callable[..., Array] | None = None
    paper: bool = False
    casadi: bool = False

    def shape(self, name: str, n: int) -> tuple[int, ...]:
        """The shape of an array at size n."""
        sizes = self.sizes(n)
        return tuple([sizes[size] for size in self.shapes[name].split()])

    def array(self, name: str, n: int) -> Array:
        """The data of one array, the same in every process: normally distributed, or as `draw` has it."""
        generator = np.random.default_rng([crc32(name.encode()), n])
        draw = self.draw.get(name, normal(1))
        return np.ascontiguousarray(draw(generator, self.shape(name, n)), dtype=float)

    def arguments(self, function: Callable[..., Any], n: int) -> dict[str, Any]:
        """The arrays and sizes that a function names; all arrays if it takes any."""
        parameters = inspect.signature(function).parameters
        known = self.sizes(n)
        found: dict[str, Any] = {name: known[name] for name in parameters if name in known}
        anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        return found | {name: self.array(name, n) for name in self.shapes if anything or name in parameters}

    def entries(self, quantity: str, n: int) -> int:
        """Entries of the dense result."""
        count = int(np.prod(self.shape(self.wrt, n)))
        return count + 1 if quantity == "gradient" else count * count


def normal(scale: float) -> Draw:
    """Normally distributed entries."""
    return lambda generator, shape: scale * generator.normal(size=shape)


def scaled(scale: float) -> Draw:
    """Normally distributed entries, so that a product with such a matrix or vector has entries of size `scale`."""
    return lambda generator, shape: scale / np.sqrt(shape[0]) * generator.normal(size=shape)


def signs(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Labels ±1."""
    return np.where(generator.random(shape) < 0.5, -1.0, 1.0)


def zero_one(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A mask."""
    return generator.random(shape) < 0.5


def one_hot(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Rows with a single one: classes."""
    return np.eye(shape[1])[generator.integers(0, shape[1], shape[0])]
