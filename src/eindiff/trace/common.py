"""What the front ends share: keys of objects, Newton steps in the structure of arguments, and comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eindiff.operators.derivative import Derivative


class Same:
    """An object that only itself is equal to; it is kept alive, so that no other gets its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class Newton:
    """A Newton step, `(H + damping I) step = -gradient`, in the structure of the arguments."""

    step: Any
    damping: float
    gradient: Any
    hessian: Derivative
    decrease: float  # of the quadratic model along the step


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
