"""What the front ends share: names of arguments, what is remembered, and what people get to see."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.calculus import derive
from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable
from eindiff.functions import multilinear as arrays
from eindiff.program.compiled import Compiled
from eindiff.program.interpreter import flatten
from eindiff.program.plan import Plan
from eindiff.structure.derivative import Derivative
from eindiff.structure.newton import Step

SMALL = 16  # entries up to which an array from outside is written into the expression
RESERVED = frozenset({"out", "sizes", "np", "linalg", "special"})  # names that programs use themselves


class Unsupported(Exception):  # noqa: N818 (it is no error: the operation then becomes opaque)
    """A form of an operation that has no expression."""


# Names


def positional_names(function: Callable, count: int) -> list[str]:
    """The names of the first parameters of a function; x0, x1, ... where it has no names for them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return names + [f"x{k}" for k in range(len(names), count)]


def key_text(key: Any) -> str:
    """A key of the path to a leaf of a tree: of a mapping, an object or a sequence."""
    return str(next((getattr(key, kind) for kind in ("key", "name", "idx") if hasattr(key, kind)), key))


def identifier(text: str) -> str:
    """A text as the name of a variable."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
    return name if name.isidentifier() and name.strip("_") else f"x{name}"


# Hessians times directions


def direction_name(x: Variable) -> str:
    """The variable that holds a direction of another one."""
    return f"direction_{x.name}"


def hessian_product(f: Expr, variables: Sequence[Variable]) -> list[Expr]:
    """The Hessian times a direction: the derivative of the slope along it."""
    gradients = derive.gradient(f, list(variables))
    directions = [construct.variable(direction_name(x), x.shape) for x in variables]
    return derive.gradient(arrays.add(*map(arrays.inner, gradients, directions)), list(variables))


def check_tangents(variables: Sequence[Variable], structure: Any, tangents: Sequence[Any], form: Any) -> None:
    """Refuse directions that have not the structure and the shapes of the variables."""
    if form != structure:
        raise EindiffError(f"tangents has the structure {form}; the arguments have {structure}")
    for x, v in zip(variables, tangents, strict=True):
        if tuple(np.shape(v)) != x.shape:
            raise EindiffError(f"the tangent of {x.name} has shape {tuple(np.shape(v))} instead of {x.shape}")


# What people get to see


@dataclass(frozen=True, slots=True)
class Newton:
    """A Newton step, `(H + damping I) step = -gradient`, in the structure of the arguments."""

    step: Any
    damping: float
    gradient: Any
    hessian: Derivative
    decrease: float  # of the quadratic model along the step

    @classmethod
    def like(cls, shaped: Callable[[Any], Any], found: Step) -> Newton:
        """A step whose arrays are given the structure of the arguments by a function."""
        return cls(shaped(found.step), found.damping, shaped(found.gradient), found.hessian, found.decrease)


@dataclass(frozen=True, slots=True)
class Lowered:
    """What runs for a function and arguments of certain shapes, to be read."""

    function: Any  # itself as an expression; in the structure of what it gives if there are several
    expression: Any  # the derivative as an expression, or several in their structure
    opaque: dict[str, str]  # the parts that the framework computes and differentiates, and where they are
    _exprs: Any
    _compiled: Compiled

    @property
    def formula(self) -> str:
        """The derivative as text, one line for each block."""
        from eindiff.text.write.to_text import to_text

        return "\n".join(to_text(x) for x in flatten(self._exprs))

    @property
    def source(self) -> str:
        """The program that runs."""
        return self._compiled.source

    @property
    def plan(self) -> Plan:
        """What each line of the program costs."""
        return self._compiled.plan()

    def __repr__(self) -> str:
        return self.formula


@dataclass(frozen=True, slots=True)
class Compared:
    """How far a Hessian is from that of its framework, relative to the largest entry."""

    error: float
    tolerance: float
    opaque: dict[str, str]
    reference: str  # what it is compared with

    @property
    def passed(self) -> bool:
        """Whether the two are equal up to rounding."""
        return self.error <= self.tolerance

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [f"relative error {self.error:.1e} against {self.reference}: {'passed' if self.passed else 'FAILED'}"]
        lines += [f"{name} at {place} is computed by the framework" for name, place in self.opaque.items()]
        return "\n".join(lines)


def compared(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], opaque: dict[str, str], reference: str
) -> Compared:
    """How far arrays are from others, relative to the largest entry of all."""
    scale = max((float(np.abs(y).max()) for y in expected), default=0.0) or 1.0
    pairs = zip(found, expected, strict=True)
    errors = [float(np.abs(np.asarray(x, float) - np.asarray(y, float)).max()) for x, y in pairs]
    precise = all(x.dtype == np.float64 for x in found)
    return Compared(max(errors, default=0.0) / scale, 1e-9 if precise else 1e-3, opaque, reference)
