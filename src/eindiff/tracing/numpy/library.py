"""NumPy's arrays for traced functions: what a function of them is traced for, and what it sees around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from eindiff.core import construct
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.core.recent import Recent, Same
from eindiff.program.inputs import common_type
from eindiff.tracing.closures import Surroundings, contents, words
from eindiff.tracing.library import Arguments, Library, NeedsLeavesError, Traced, always
from eindiff.tracing.names import VariableNames, argument_names
from eindiff.tracing.numpy.functions import UntraceableError, lifted, output, run
from eindiff.tracing.numpy.protocol import NeedsValueError
from eindiff.tracing.numpy.traced_array import TracedArray, argument
from eindiff.tracing.numpy.trees import flatten, leaves_of, map_named
from eindiff.tracing.questions import answering, current
from eindiff.tracing.verify import Call, Change

if TYPE_CHECKING:
    from eindiff.tracing.numpy.derivatives import DerivativeOfFunction

_NESTED = count(1)
REAL = "biuf"  # kinds of numbers that have derivatives here
ARRAYS, INTEGERS, SEQUENCES = (np.ndarray, np.floating), (int, np.integer), (list, tuple)
MOST_TRACES = 256  # of one function; the one that was not used for longest goes

# Arguments of calls


def describe(value: Any, leaves: list[Any], is_variable: bool) -> Any:
    """What a trace depends on: shapes and types of arrays, which are added to the leaves, and all other values."""
    if type(value) is np.ndarray and value.dtype.kind in REAL:  # nearly all leaves: the others have more to be asked
        leaves.append(value)
        return value.shape, value.dtype
    if isinstance(value, SEQUENCES):
        return type(value), *[describe(part, leaves, is_variable) for part in value]
    if isinstance(value, ARRAYS):
        leaves.append(_checked(value))
        return value.shape, value.dtype
    if isinstance(value, float) or (is_variable and isinstance(value, INTEGERS)):
        leaves.append(np.float64(value))
        return float
    if isinstance(value, Mapping):
        return dict, tuple(value), *[describe(part, leaves, is_variable) for part in value.values()]
    if hasattr(value, "__array__") and not isinstance(value, np.generic | Expr):
        return describe(np.asarray(value), leaves, is_variable)
    try:
        hash(value)
    except TypeError:
        raise EindiffError(
            f"{value!r} is no array, and cannot be kept as a fixed value (it has no hash)", "tracing"
        ) from None
    return type(value), value


def _checked(value: Any) -> np.ndarray:
    """An array of real numbers."""
    kind: type = type(value)
    if kind is TracedArray:
        raise EindiffError(
            "a derivative is called with symbolic arrays, inside of a function that is traced: write it out there, "
            "or differentiate the expression that ed.symbolic gives",
            "tracing",
        )
    if value.dtype.kind not in REAL:
        raise EindiffError(f"an array of {value.dtype} is given; only real numbers have derivatives here", "tracing")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise EindiffError("an array with masked entries is given; fill them, or leave them out", "tracing")
    return np.asarray(value)


Replace = Callable[[int, Any, Any, str, bool], Any]  # of the number of a leaf, itself, its array, its name


def _replaced(function: DerivativeOfFunction, arguments: Arguments, replace: Replace) -> tuple[list, dict[str, Any]]:
    """The arguments with something else for each leaf."""
    numbers = count()

    def made(value: Any, name: str, is_variable: bool) -> Any:
        def leaf(value: Any, name: str) -> Any:
            found: list[Any] = []
            describe(value, found, is_variable)
            return replace(next(numbers), value, found[0], name, is_variable) if found else value

        return map_named(leaf, value, name)

    names = argument_names(function.function, len(arguments.args))
    args = [made(x, names[k], k in function.positions) for k, x in enumerate(arguments.args)]
    return args, {name: made(x, name, name in function.keywords) for name, x in arguments.keywords.items()}


# What a function sees


class NumPySurroundings(Surroundings):
    """What a NumPy function sees. Its arrays are known by identity: each trace knows what it has seen in them."""

    def array_key(self, value: Any) -> Any:
        return Same(value) if isinstance(value, np.ndarray) else None

    def may_change(self, array: Any) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _SeenArray:
    """An array that a function saw around it."""

    get: Callable[[], np.ndarray | None]
    shape: tuple[int, ...]
    dtype: np.dtype
    contents: int
    words: np.ndarray | None  # its entries, where there is a copy

    def holds(self) -> bool:
        """Whether it has the entries that it had, to the bit."""
        array = self.get()
        if array is None or array.shape != self.shape or array.dtype != self.dtype:
            return False
        return contents(array) == self.contents if self.words is None else bool((words(array) == self.words).all())


def _seen(arrays: Sequence[tuple[np.ndarray, int]], constants: Mapping[str, np.ndarray]) -> Iterator[_SeenArray]:
    """What was in arrays: a constant of the program, if it is the array as a whole, else a hash."""
    for array, before in arrays:
        same = (x for x in constants.values() if x.dtype == array.dtype and x.shape == array.shape)
        kept = next((words(x) for x in same if contents(x) == before), None)
        yield _SeenArray(ref(array), array.shape, array.dtype, before, kept)


def _holding(arrays: Sequence[tuple[np.ndarray, int]], constants: Mapping[str, np.ndarray]) -> Callable[[], bool]:
    """Whether arrays still have what was in them, as a function."""
    seen = list(_seen(arrays, constants))
    return partial(_all_hold, seen) if seen else always


def _all_hold(seen: Sequence[_SeenArray]) -> bool:
    return all(map(_SeenArray.holds, seen))


class NumPyLibrary(Library):
    """NumPy's arrays; a function of them runs on symbolic ones when it is traced."""

    name, surroundings, formula, flatten = "NumPy", NumPySurroundings, staticmethod(str), staticmethod(flatten)
    sees_numbers = True

    def read(self, function: DerivativeOfFunction, args: tuple, keywords: dict[str, Any]) -> Arguments:
        leaves: list[Any] = []
        positions, names = function.positions, function.keywords
        key: Any = tuple([describe(x, leaves, k in positions) for k, x in enumerate(args)])
        if keywords:
            key = key, *[(name, describe(x, leaves, name in names)) for name, x in keywords.items()]
        return Arguments(args, keywords, leaves, None, key)

    def chosen(self, function: DerivativeOfFunction, arguments: Arguments) -> tuple[list[int], Any]:
        args, named = _replaced(function, arguments, lambda k, *_: _Number(k))
        by = [function.given(args, named, *one) for one in function.by]
        found, form = flatten(tuple(by) if function.several else by[0], lambda leaf: isinstance(leaf, _Number))
        if not found:
            raise EindiffError(f"{function.__name__}: there is no number to differentiate by in {by!r}", "tracing")
        return [number.k for number in found], form

    def memory(self) -> Recent[Any]:
        return Recent(MOST_TRACES)

    def trace(
        self, function: DerivativeOfFunction, arguments: Arguments, known: frozenset[int], around: Surroundings,
        before: Traced | None,
    ) -> Traced:  # fmt: skip
        names, inputs, f = VariableNames(), dict[int, Variable](), function.function
        by, _ = self.chosen(function, arguments)
        outer = current()  # no variable is one of the function around it
        suffix, known_there = ("", {}) if outer is None else (f"_{next(_NESTED)}", dict(outer.arrays))
        arrays = [(array, contents(array)) for _, array in around.arrays.values() if type(array) is not TracedArray]

        def symbol(place: int, value: Any, array: Any, name: str, is_variable: bool) -> Any:
            if place in known:
                return value
            if np.size(array) == 0:
                raise EindiffError(f"the array for {name} has no entries: its shape is {np.shape(array)}", "shapes")
            inputs[place] = construct.variable(names.unused(name + suffix), np.shape(array))
            return argument(inputs[place], value, is_variable)

        args, named = _replaced(function, arguments, symbol)
        try:
            with answering(known_there | {x: arguments.leaves[k] for k, x in inputs.items()}) as answers:
                result = run(f, args, named)
        except NeedsValueError as error:
            leaves = _needed(error, inputs)
            if not leaves or not leaves.isdisjoint(by):
                raise
            raise NeedsLeavesError(leaves) from None
        except UntraceableError:
            f(*deepcopy(arguments.args), **deepcopy(arguments.keywords))  # raises its own error, if it is one
            raise
        outputs, structure = _outputs(function, result)
        exprs, large = lifted(f, [x for x in outputs if isinstance(x, Expr)], names)
        replaced, dtype = iter(exprs), _dtype(arguments, inputs)
        constants = {name: np.asarray(value, dtype) for name, value in large.items()}
        return Traced(
            [next(replaced) if isinstance(x, Expr) else x for x in outputs], [None] * len(outputs), structure, inputs,
            constants, dtype=dtype, answers=answers.given, nbytes=sum(x.nbytes for x in constants.values()),
            holds=_holding(arrays, constants),
        )  # fmt: skip

    def plain_call(self, function: DerivativeOfFunction, arguments: Arguments, traced: Traced) -> Call:
        copies: dict[str, tuple[Any, Any]] = {}

        def copied(_: int, value: Any, array: Any, name: str, is_variable: bool) -> Any:
            if not isinstance(array, np.ndarray):
                return array
            copy = array.astype(float) if is_variable and array.dtype.kind != "f" else array.copy()
            copies[name] = (array, copy)
            return copy

        def results(made: Callable[..., Any]) -> tuple[list[Any], Any]:
            args, named = _replaced(function, arguments, made)
            with np.errstate(all="ignore"):
                found, structure = flatten(function.function(*args, **named))
            pairs = zip(found, traced.outputs, strict=False)
            return [x for x, y in pairs if isinstance(y, Expr)], structure

        def at(change: Change) -> list[Any]:
            return results(lambda *given: change(x) if isinstance(x := copied(*given), np.ndarray) else x)[0]

        found, structure = results(copied)
        changed = [name for name, (x, y) in copies.items() if not np.array_equal(x, y, equal_nan=True)]
        return Call(found, (structure, []), changed, at=at)

    def check_numbers(self, what: str, outputs: Sequence[Expr], name: str) -> None:
        for y in outputs:
            if y.ndim:
                raise EindiffError(
                    f"{name}: it has shape {shape_text(y.shape)}, but a gradient is that of a number; "
                    "for all of it there is ed.jacobian",
                    "scalars",
                )


@dataclass(frozen=True, slots=True)
class _Number:
    """The number of a leaf, in its place."""

    k: int


def _needed(error: NeedsValueError, inputs: Mapping[int, Variable]) -> frozenset[int]:
    """The places of the arguments whose values a function asked for."""
    wanted = variables(*error.expressions)
    return frozenset(k for k, x in inputs.items() if x in wanted)


def _dtype(arguments: Arguments, inputs: Mapping[int, Variable]) -> Any:
    """The type that the arrays among the arguments have in common."""
    arrays = [(k, x) for k, x in enumerate(arguments.leaves) if isinstance(x, np.ndarray)]
    named = {inputs[k].name if k in inputs else "an argument": x for k, x in arrays}
    return common_type(named, named)


def _outputs(function: DerivativeOfFunction, result: Any) -> tuple[list[Any], Any]:
    """The leaves of a result: those that are differentiated as expressions, and auxiliary ones as they are."""
    found, structure = flatten(result)
    is_pair = function.has_aux and isinstance(result, tuple) and len(result) == 2
    count = len(leaves_of(result[0])) if is_pair else len(found)
    if function.options.structured and count > 1:
        raise EindiffError(f"{function.__name__}: structured=True is for functions with one result", "options")
    return [output(function.function, x) for x in found[:count]] + found[count:], structure


NUMPY = NumPyLibrary()
