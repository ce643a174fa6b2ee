"""The row of a function: all that is known of a function which nodes apply. It knows no expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isinf
from typing import Any

import numpy as np

from eindiff.core.coefficients import Number, number
from eindiff.core.errors import EindiffError
from eindiff.core.intervals import Interval
from eindiff.core.sizes import Shape

Derivative = Callable[..., Any]  # from expressions to an expression


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """One row: a function that nodes apply, elementwise (no core) or to whole tensors.

    An elementwise derivative takes the arguments and gives f' entry by entry. That of a function of whole tensors
    gives f' with the axes of the result first and then those of the argument, as a product of the function's own
    factors that is never formed; a function whose f' is no such product has `pushforward` and `pullback` instead, which
    may be `NotImplemented` for a case that f' does as well.
    """

    name: str
    value: Callable[..., Any]
    derivatives: tuple[Derivative | None, ...] = ()  # one an argument; None: locally constant
    domain: str = "real"
    latex: str = ""
    parameter: Any = None
    maker: tuple[Callable, tuple] | None = None  # what makes one that is in no table, and from what
    core: tuple[int, ...] = ()  # orders of the core of each argument
    output: Callable[..., Shape] | None = None  # shape of the result's core from the shapes of the arguments' cores
    keeps_symmetry: bool = False  # a symmetric argument gives a symmetric result
    pushforward: Callable[..., Any] | None = None
    pullback: Callable[..., Any] | None = None
    flops: Callable[..., float] | None = None  # of one core, from the sizes of the first argument's core
    factorization: str = ""  # functions of one argument that share this one pay for it once
    part: tuple[int, bool] | None = None  # which factor of it the value is, and whether that is transposed
    alone: str = ""  # what gives this factor without the others
    symmetrizes: bool = False  # the argument is taken as (A + A') / 2
    public: Callable[..., Any] | None = None  # what users call with expressions
    formula: Callable[..., Any] | None = None  # from arguments to what people write for it, where that is no call

    # on each library
    source: Mapping[str, str] = field(default_factory=dict)  # how it is written there; {0}, {1} are the arguments
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what the library calls it
    simple: bool = False  # at the speed of memory; all others take some nanoseconds an entry

    # what is known of its values
    bounds: Callable[..., Interval] | None = None  # from the row itself and the bounds of the arguments
    parity: int = 0  # -1 for an odd function, 1 for an even one
    positive: bool = False  # all values are, by the rules that rewrite
    series: Callable[..., list] | None = None  # Taylor coefficients of degrees 0 to n at t, in words of all libraries
    kink: bool = False  # linear elsewhere
    absolutely_monotonic: bool = False  # its power series at 0 has no negative coefficient

    @property
    def identity(self) -> tuple:
        """What nodes that apply this function are known by."""
        return (self.name, self.parameter)

    @property
    def rule_arguments(self) -> tuple:
        """What a rewrite rule gets to see before the arguments."""
        return () if self.parameter is None else (self.parameter,)

    def output_shape(self, cores: Sequence[Shape]) -> Shape:
        """The shape of the result's core."""
        assert self.output is not None
        return self.output(*cores)

    @property
    def reduces(self) -> bool:
        """Whether it makes a number of each vector."""
        return self.core == (1,) and self.output_shape([(1,)]) == ()

    def fold(self, args: Sequence[Number]) -> Number:
        """The value at known numbers."""
        with np.errstate(all="ignore"):
            value = float(self.value(*(float(arg) for arg in args)))
        if isinf(value) and self.domain == "real":
            raise EindiffError(
                f"{self.name}({', '.join(map(str, args))}) is too large for a floating-point number", "domain"
            )
        if not isfinite(value):
            raise EindiffError(
                f"{self.name}({', '.join(map(str, args))}) is not defined: its domain is {self.domain}", "domain"
            )
        return number(value)


def quiet(value: Callable[..., Any]) -> Callable[..., Any]:
    """The value without NumPy's warnings: values outside a domain become NaN, which evaluation reports."""

    def silent(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return value(*args)

    return silent
