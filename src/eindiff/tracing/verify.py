"""A traced function is compared with itself: the value that its expressions have, with that of one plain call.

A trace is one run of a function with symbols in place of numbers. What it did then is taken for what it always does;
so random numbers, a counter, an array that is changed in place or a mistake of ours would give wrong derivatives
without a word. The first call for a trace therefore computes the value twice, and any difference is an error.

Two computations of one number differ by rounding. Half of the digits are taken for that. Where more are gone, the
expressions are computed again at arguments that differ in their last digits: if their own values spread as far, the
function itself has no more digits there. So it is if results of plain calls at such arguments do: expressions may have
the digits that these lose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Einsum, Expr, is_index_map, topological
from eindiff.program.interpreter import evaluate

TRIALS = 4  # of arguments that differ in their last digits
LAST_DIGITS = 64  # how far they differ, in units of the last place
MOST_QUICKLY, A_NODE = 2**14, 2**12  # numbers that are computed without a program: in all, and for each of many nodes
PER_NUMBER = 64  # products of entries, which take as long as a number
FACTOR = 64  # how much more than their values two computations may differ

_HALF, _SINGLE, _DOUBLE = 2.0**-10, 2.0**-23, 2.0**-52  # the distance of 1 to the next number

OFF = "verify=False turns this comparison off"

Value = Callable[[Mapping[str, Any]], Sequence[Any]]
Change = Callable[[Any], Any]  # of an array


@dataclass(frozen=True, slots=True)
class Call:
    """What a plain call gave: the results that are numbers, their structure, and the arguments that it changed."""

    results: list[Any]
    structure: Any
    changed: list[str] = field(default_factory=list)
    precision: float = 0.0  # of what it computes in between
    by_library: Callable[[], list[Any]] | None = None  # the results again, if they were computed in a quicker way
    at: Callable[[Change], Sequence[Any]] | None = None  # the results for arguments that are changed

    def settled(self) -> Call:
        """The call with the results of the library itself."""
        return self if self.by_library is None else replace(self, results=self.by_library(), by_library=None)


def compare(
    f: Callable, value: Value, inputs: Mapping[str, Any], plain: Callable[[], Call], structure: Any,
    on_accelerator: bool = False, interpreted: Value | None = None,
) -> None:  # fmt: skip
    """Refuse a function whose expressions have other values than a plain call of it, up to rounding.

    `value` computes the expressions from arrays by name; `structure` is that of the results. Accelerators multiply
    matrices of single precision with less. What is computed in a quicker way, `interpreted` or of a call, may show
    that all is well, but no more.
    """
    call = plain()
    problem = _problem(interpreted or value, inputs, call, structure, on_accelerator)
    if problem is not None and (interpreted is not None or call.by_library is not None):
        call = call.settled()
        problem = _problem(value, inputs, call, structure, on_accelerator)
    if problem is not None:
        name = getattr(f, "__name__", type(f).__name__)
        found, expected = list(map(_numbers, value(inputs))), list(map(_numbers, call.results))
        reason = _reason(call, plain())
        if reason is None and structure == call.structure and _loses_digits(call, inputs, found, expected):
            return
        reason = reason or _cause_of_difference(found, expected)
        raise EindiffError(f"{name}: traced, it gives {problem}. {reason}; {OFF}", "tracing")


@np.errstate(all="ignore")
def _problem(value: Value, inputs: Mapping[str, Any], call: Call, structure: Any, on_accelerator: bool) -> str | None:
    """What is wrong with the values of expressions, None if it is nothing."""
    if structure != call.structure:
        return "other containers of results"
    found, expected = list(map(_numbers, value(inputs))), list(map(_numbers, call.results))
    if (problem := _other_form(found, expected)) is not None:
        return problem
    precision = _precision(inputs, call)
    precision = _HALF if on_accelerator and precision == _SINGLE else precision
    allowed: list[Any] = [sqrt(precision) * _largest(y) for y in expected]
    if _difference(found, expected, allowed) is None:
        return None
    floor = LAST_DIGITS * precision * max([1.0, *map(_largest, inputs.values())])
    spread = _spread(lambda change: value({name: change(x) for name, x in inputs.items()}), found, precision)
    return _difference(found, expected, [a + floor + FACTOR * s for a, s in zip(allowed, spread, strict=True)])


@np.errstate(all="ignore")
def _loses_digits(
    call: Call, inputs: Mapping[str, Any], found: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> bool:
    """Whether results of plain calls spread as far as they are from the values of expressions."""
    if call.at is None or _other_form(found, expected) is not None:
        return False
    spread = _spread(call.at, expected, _precision(inputs, call))
    return _difference(found, expected, [FACTOR * s for s in spread]) is None


def _precision(inputs: Mapping[str, Any], call: Call) -> float:
    return max([call.precision, *(precision_of(x) for x in (*inputs.values(), *call.results))])


def interpreter(exprs: Sequence[Expr], program: Value) -> Value | None:
    """What computes expressions without a program made for it; None where one pays, for many numbers.

    What is no number has the program decide.
    """
    order = topological(exprs)
    if any(isinstance(n, str) for node in order for n in node.shape):
        return None
    if sum(prod(map(int, x.shape)) + _products(x) / PER_NUMBER for x in order) > max(MOST_QUICKLY, A_NODE * len(order)):
        return None

    def value(arrays: Mapping[str, Any]) -> Sequence[Any]:
        try:
            return evaluate(list(exprs), arrays)
        except EindiffError:
            return program(arrays)

    return value


def _products(node: Expr) -> int:
    """How many entries are multiplied at most for a node; those that index maps read are taken first."""
    if not isinstance(node, Einsum):
        return 0
    factors = [*zip(node.operands, node.labels, strict=True)]
    read = {labels[0] for x, labels in factors if is_index_map(x)}
    if len([x for x in node.operands if not is_index_map(x)]) < 2:
        return 0
    return prod(int(size) for label, size in enumerate(node.sizes) if label not in read)


def _numbers(x: Any) -> np.ndarray:
    """A result of any library as an array of numbers in double precision."""
    if isinstance(x, Expr):
        return evaluate(x)
    return np.asarray(x.detach().double().cpu() if hasattr(x, "detach") else x).astype(float)


def precision_of(x: Any) -> float:
    """The precision of the type of an array, or of anything that has a type; 0 for integers."""
    kind = str(getattr(x, "dtype", "float64")).removeprefix("torch.")
    return {"bfloat16": 2.0**-7, "float16": _HALF, "float32": _SINGLE, "float64": _DOUBLE}.get(kind, 0.0)


def _largest(x: Any) -> float:
    numbers = np.abs(_numbers(x))
    return float(numbers.max(where=np.isfinite(numbers), initial=0.0))


def _other_form(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str | None:
    if len(found) != len(expected):
        return f"{len(found)} results where a plain call gives {len(expected)}"
    for x, y in zip(found, expected, strict=True):
        if x.shape != y.shape:
            return f"a result of shape {shape_text(x.shape)} where a plain call gives {shape_text(y.shape)}"
    return None


def _difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], allowed: Sequence[Any]) -> str | None:
    """The worst difference in words, None if all are allowed.

    Where a plain call has no number, by overflow for instance, simplified expressions may well have one.
    """
    for x, y, bound in zip(found, expected, allowed, strict=True):
        is_right = np.isnan(y) | (x == y) | (np.isinf(y) & np.isfinite(x)) | (np.abs(x - y) <= bound)
        if not is_right.all():
            distance = np.where(is_right, -1.0, np.nan_to_num(np.abs(x - y), nan=np.inf))
            place = np.unravel_index(np.argmax(distance), x.shape)
            at = f" at {', '.join(map(str, place))}" if place else ""
            return f"{x[place]:.8g}{at} where a plain call gives {y[place]:.8g}"
    return None


def _spread(at: Callable[[Change], Sequence[Any]], found: Sequence[np.ndarray], precision: float) -> list[np.ndarray]:
    """How far values move when the last digits of the arguments do; whole numbers are taken to be exact."""
    random = np.random.default_rng(0)
    spread = [np.zeros(x.shape) for x in found]

    def moved(x: Any) -> Any:
        if not precision_of(x):
            return x
        numbers = _numbers(x)
        factors = 1 + LAST_DIGITS * precision * random.uniform(-1, 1, numbers.shape)
        kind = np.float64 if precision_of(x) == _DOUBLE else np.float32
        return np.where(numbers == np.round(numbers), numbers, factors * numbers).astype(kind)

    for _ in range(TRIALS):
        values = map(_numbers, at(moved))
        spread = [np.fmax(s, np.abs(x - y)) for s, x, y in zip(spread, values, found, strict=True)]
    return spread


def _reason(call: Call, again: Call) -> str | None:
    """Why the values may differ, if a second plain call tells."""
    if call.changed:
        return f"It changes its argument {', '.join(call.changed)} in place: let it work on a copy"
    first, second = (list(map(_numbers, x.results)) for x in (call, again))
    alike = call.structure == again.structure and len(first) == len(second)
    if not alike or any(not np.array_equal(x, y, equal_nan=True) for x, y in zip(first, second, strict=True)):
        return (
            "Two plain calls differ as well: it draws random numbers, or has state that changes with each call (a "
            "counter, a captured array that it changes in place); give these as arguments"
        )
    return None


def _cause_of_difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    """Why the values may differ although plain calls agree with each other."""
    alike = _other_form(found, expected) is None
    if alike and _difference(found, expected, [sqrt(_SINGLE) * _largest(y) for y in expected]) is None:
        return (
            "The digits that agree are those of single precision: if it rounds to float32 on the way, which "
            "derivatives take no notice of, let it compute in float64"
        )
    return (
        "Plain calls agree with each other, so it does something else with symbols: a branch on values or types, a "
        "change of an array in place, a first call that differs; or eindiff is wrong, which should be reported"
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """How far a Hessian is from that of its framework, relative to the largest entry.

    >>> import torch
    >>> from eindiff.torch import check
    >>> check(lambda x: (x**3).sum(), torch.ones(2)).passed
    True

    See also: `check`.
    """

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
