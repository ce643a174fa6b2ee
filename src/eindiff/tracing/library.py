"""What a traced function is, whatever library its arrays are of, and what is asked of such a library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import getLogger
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.derivation import same_derivative
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.core.rebuild import substituted
from eindiff.core.recent import Recent
from eindiff.functions.elementwise import stopped
from eindiff.tracing.closures import Surroundings, digest
from eindiff.tracing.verify import Call


@dataclass(slots=True)
class Arguments:
    """The arguments of a call, and their leaves."""

    args: tuple
    keywords: dict[str, Any]
    leaves: list[Any]
    structure: Any  # of (args, keywords)
    key: Any  # what a trace depends on: shapes and types of arrays, and the values of all else
    may_be_left: bool = True  # whether the library's own derivative is an answer
    has_values: bool = True  # whether the leaves are more than shapes and types
    is_inside: bool = False  # whether some belong to a program that the library is tracing
    is_written: bool = False  # and that program is not run at once, as a stack of calls is
    own: Any = None  # the library's own derivative for them as a program, once that was asked for
    function: Callable | None = None  # the function as it was read for them, which the library differentiates sooner


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """A loop whose states are variables: how far each is from what a turn makes, which is a constraint.

    `adjoint` gives the multipliers of the constraints, from the derivatives by the states of all that comes after.
    """

    states: list[Variable]
    multipliers: list[Variable]
    defects: list[Expr]
    adjoint: Callable[[Sequence[Expr]], list[Expr]]


@dataclass(frozen=True, slots=True)
class Stops:
    """Variables that stand for values which count as constant for derivatives."""

    always: Mapping[Expr, Expr] = field(default_factory=dict)
    in_reverse: Mapping[Expr, Expr] = field(default_factory=dict)  # those that do so in reverse mode only
    apart: Mapping[str, Expr] = field(default_factory=dict)  # those that are computed first, and so stay constant

    def put_in(self, exprs: list[Expr]) -> list[Expr]:
        """Derivatives with the values themselves; they are still known as derivatives."""
        stops = {variable: construct.map_(stopped, (value,)) for variable, value in self.always.items()}
        values, found = {**stops, **self.in_reverse}, exprs
        while values and any(x in values for x in variables(*found)):
            found = substituted(found, values)
        return [same_derivative(new, old) for new, old in zip(found, exprs, strict=True)]


def always() -> bool:
    """What a trace that depends on no arrays around its function has for `holds`."""
    return True


@dataclass(slots=True, weakref_slot=True)
class Traced:
    """A function as expressions, for arguments of certain shapes and types, and where its variables come from."""

    outputs: list[Any]  # the leaves of the result: expressions, and what is no array as it is
    types: list[Any]  # of the outputs; None for what is no array
    structure: Any
    inputs: dict[int, Variable]  # by the numbers of the leaves that they are
    captured: Mapping[str, Any]  # arrays around the function, by the names of their variables
    opaque: Mapping[str, str] = field(default_factory=dict)  # what the library differentiates itself, and where it is
    stops: Stops = field(default_factory=Stops)
    outside: Sequence[Expr] = ()  # numbers that are 0 if all indices are in range
    recurrences: Sequence[Recurrence] = ()  # in order
    dtype: Any = None  # of the program; None: that of the arrays
    precision: float = 0.0  # the least of all numbers that are computed
    compiling: float = 0.0  # seconds that the library is predicted to take to compile the function
    seconds: float = 0.0  # that a call of the function is predicted to take
    equations: int = 0  # of the function, as the library reads it
    has_loops: bool = False  # in it
    is_plain: bool = False  # whether it is sums, products of matrices and functions entry by entry,
    has_kinks: bool = False  # of which some have no derivative at some points
    along: float = 0.0  # seconds that its own second derivative is predicted to take at least, for each direction
    nbytes: int = 0  # of what is kept alive by this, and not by the function
    holds: Callable[[], bool] = always  # whether what was read while it was traced is as it was
    moved: Callable[[], Sequence[Any]] = tuple  # arrays that were written as constants and have changed
    is_lasting: bool = True  # whether it does not depend on a program around it
    is_verified: bool = False  # whether its value was compared with that of a plain call
    answers: Mapping[Any, Any] = field(default_factory=dict)  # to what was asked of values while it was traced
    function: Callable | None = None  # that does the same in a better way, for the library to differentiate
    effort: Any = None  # what a plain call takes the library, where that is known
    ready: dict[Any, Any] = field(default_factory=dict)  # what was asked of it, and the programs for that
    allowances: dict[Any, Any] = field(default_factory=dict)  # what the library may compute before a program is found


class NeedsLeavesError(EindiffError):
    """The values of some leaves of the arguments are needed while a function is traced."""

    code = "tracing"

    def __init__(self, leaves: frozenset[int]) -> None:
        super().__init__()
        self.leaves = leaves


class LeftToLibraryError(Exception):
    """A function that its library had better differentiate as a whole, by a program of the arguments and directions."""

    def __init__(self, program: Callable[[Arguments, Any], Any], lasts: bool) -> None:
        super().__init__()
        self.program, self.lasts = program, lasts


LEFT = Traced([], [], None, {}, {})  # what stands for the trace of a function that is left to its library

Function = Any  # a `TracedFunction`, which the library is asked for


class Library:
    """What differs between the libraries that functions are written in.

    The structure of a tree has `num_leaves`, `unflatten(leaves)`, and is equal to the same one of another tree.
    """

    name: str
    surroundings: type[Surroundings] = Surroundings
    folds: bool = False  # whether NumPy computes what depends on no array
    sees_numbers: bool = False  # whether arrays have values in nearly all calls
    formula: Callable[[Any], str] | None = None  # a derivative as text; else line by line
    flatten: Callable[[Any], tuple[list[Any], Any]]  # the leaves of nested containers, and their structure

    def __init__(self) -> None:
        self.log = getLogger(f"eindiff.{type(self).__module__.split('.')[2]}")
        self.computations: Recent[Any] = Recent()
        self.traces: Recent[Any] = Recent()
        self.epoch = object()  # another one since all was forgotten

    def clear(self) -> None:
        """Forget all traces and programs."""
        self.traces.cache_clear()
        self.computations.cache_clear()
        self.epoch = object()

    def memory(self) -> Recent[Any]:
        """Where the traces of a function are remembered: with those of others, so that one made anew is known again."""
        return self.traces

    # Arguments

    def read(self, function: Function, args: tuple, keywords: dict[str, Any]) -> Arguments:
        """The leaves of the arguments of a call, and the key of a trace for them."""
        raise NotImplementedError

    def chosen(self, function: Function, arguments: Arguments) -> tuple[list[int], Any]:
        """The leaves to differentiate by, and their structure."""
        args, _ = arguments.structure.unflatten(range(len(arguments.leaves)))
        argnums = function.argnums
        for k in argnums if isinstance(argnums, tuple) else (argnums,):
            if not isinstance(k, int) or not -len(args) <= k < len(args):
                raise EindiffError(
                    f"argnums={argnums!r}: the function got {len(args)} arguments by position", "options"
                )
        return self.flatten(tuple([args[k] for k in argnums]) if isinstance(argnums, tuple) else args[argnums])

    def contents(self, function: Function, arguments: Arguments, k: int) -> Any:
        """What a leaf is known by if its value has to be known."""
        array = np.asarray(arguments.leaves[k])
        return (array.dtype.str, array.shape, digest(array))

    def are_knowable(self, arguments: Arguments, leaves: Collection[int]) -> bool:
        """Whether the values of some leaves can be known: inside of a transformation of the library they cannot."""
        return True

    def type_of(self, leaf: Any) -> Any:
        """The type that derivatives by an array have; None: that which they come in."""
        return None

    # Traces

    def trace(
        self, function: Function, arguments: Arguments, known: frozenset[int], around: Any, before: Traced | None
    ) -> Traced:
        """The function as expressions, with some leaves known; `before` is the trace that no longer holds."""
        raise NotImplementedError

    def plain_call(self, function: Function, arguments: Arguments, traced: Traced) -> Call:
        """A call of the function as it is: the results that are expressions when it is traced."""
        raise NotImplementedError

    def problem(self, traced: Traced, k: int) -> str:
        """Why an output cannot be differentiated; nothing if it can."""
        return ""

    def check_numbers(self, what: str, outputs: Sequence[Expr], name: str) -> None:
        """Refuse outputs that have no gradient."""
        raise NotImplementedError

    # Arrays

    def are_numbers(self, arrays: Mapping[str, Any]) -> bool:
        """Whether arrays have values: inside of a transformation of the library they have none."""
        return True

    def is_accelerated(self, arrays: Mapping[str, Any]) -> bool:
        """Whether arrays are on a device that multiplies matrices with less precision."""
        return False

    def settled(self, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arrays that nothing is differentiated by any more, as NumPy's if they are in main memory."""
        return self.inputs(arrays, "dense")[1]

    def completed(self, arrays: Mapping[str, Any], apart: Mapping[str, Expr]) -> Mapping[str, Any]:
        """Arrays by name, with those that are computed first, because they are constant ever after."""
        return arrays

    def inputs(self, arrays: Mapping[str, Any], form: str) -> tuple[str, Mapping[str, Any]]:
        """The library whose program runs for arrays, and the arrays as it takes them."""
        return "numpy", arrays

    def typed(self, value: Any, dtype: Any, arrays: Mapping[str, Any]) -> Any:
        """A value as an array of a type, where the given arrays are."""
        return value

    def all_typed(self, values: Sequence[Any], types: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        """Values as arrays of types, where the given arrays are."""
        return list(values)

    def may_share(self, arrays: Mapping[str, Any]) -> bool:
        """Whether results for arrays like these may be the same ones at each call, as nobody can change them."""
        return False

    def are_lasting(self, values: Iterable[Any]) -> bool:
        """Whether results that were given before are still there."""
        return True

    def spoiled(self, value: Any, outside: Any) -> Any:
        """A value that is not a number where indices were outside."""
        return value

    # What the library does itself

    def meanwhile(
        self, function: Function, arguments: Arguments, around: Any, traced: Traced
    ) -> Callable[[Arguments, Any], Any] | None:
        """The library's own program, for as long as it would take to find another one."""
        return None

    def instead(
        self, function: Function, arguments: Arguments, around: Any, traced: Traced, found: Any
    ) -> Callable[[Arguments, Any], Any] | None:
        """The library's own program, of arguments and directions, if that is better than the one that was found."""
        return None

    def has_many_calls(self, found: Any) -> bool:
        """Whether the calls of a program from Python take so long that the library does without them soon."""
        return False

    def again(
        self, function: Function, arguments: Arguments, traced: Traced, found: Any
    ) -> Callable[[Arguments, Any], Any] | None:
        """What takes less time than a program that has been called often, if it is worth the time to make it."""
        return None

    def own(self, function: Function) -> Callable | None:
        """The library's transformation of the same kind, if it has one."""
        return None

    def fall_back(self, function: Function, reason: EindiffError) -> Callable | None:
        """What does the same as a function that was refused."""
        return self.own(function)
