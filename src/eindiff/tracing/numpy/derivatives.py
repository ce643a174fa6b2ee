"""Plain NumPy functions as expressions, and their derivatives as functions of arrays.

A function is *traced*: called once with symbolic arrays in place of its arguments, which gives an expression. The
derivative of that is compiled, and kept for arguments of the same shapes and types.

>>> import numpy as np
>>> import eindiff as ed
>>> def loss(w, X, y):
...     return np.sum(np.logaddexp(0, -y * (X @ w)))
>>> hessian = ed.hessian(loss)
>>> hessian(np.zeros(2), np.eye(2), np.ones(2))
array([[0.25, 0.  ],
       [0.  , 0.25]])
>>> print(hessian.lower(np.zeros(2), np.eye(2), np.ones(2)).formula)
einsum('i,i,i,i,ij,ik->jk', y, y, sigmoid(-y*einsum('ij,j->i', X, w)), sigmoid(y*einsum('ij,j->i', X, w)), X, X)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any
from weakref import ref

import numpy as np

from eindiff.calculus import derive
from eindiff.core import construct
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.core.recent import Recent, Same
from eindiff.program.compiled import Compiled
from eindiff.program.inputs import common_type
from eindiff.program.plan import Plan
from eindiff.structure.compile import compile
from eindiff.tracing.closures import Surroundings, contents, digest, words
from eindiff.tracing.numpy.functions import (
    UntraceableError,
    argument_names,
    compare_values,
    containers,
    function_name,
    leaves_of,
    lifted,
    map_leaves,
    map_named,
    output,
    parameters,
    run,
    unused,
)
from eindiff.tracing.numpy.protocol import NeedsValueError
from eindiff.tracing.numpy.traced_array import TracedArray, argument, unwrapped
from eindiff.tracing.verify import Call

MOST_TRACES = 256  # of one function that sees the same; the oldest one goes
MOST_SURROUNDINGS = 16  # that a function is remembered with

# Arguments of calls


def _describe(value: Any, leaves: list[Any], is_variable: bool) -> Any:
    """What a trace depends on: shapes and types of arrays, which are added to the leaves, and all other values."""
    if isinstance(value, np.ndarray | np.floating):
        kind: type = type(value)
        if kind is TracedArray:
            raise EindiffError(
                "a derivative is called with symbolic arrays, inside of a function that is traced: write it out there, "
                "or differentiate the expression that ed.symbolic gives"
            )
        if value.dtype.kind not in "biuf":
            raise EindiffError(f"an array of {value.dtype} is given; only real numbers have derivatives here")
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise EindiffError("an array with masked entries is given; fill them, or leave them out")
        leaves.append(np.asarray(value))
        return value.shape, value.dtype
    if isinstance(value, float) or (is_variable and isinstance(value, int | np.integer)):
        leaves.append(np.float64(value))
        return float
    if isinstance(value, list | tuple):
        return type(value), *[_describe(part, leaves, is_variable) for part in value]
    if isinstance(value, Mapping):
        return dict, *[(key, _describe(part, leaves, is_variable)) for key, part in value.items()]
    if hasattr(value, "__array__") and not isinstance(value, np.generic | Expr):
        return _describe(np.asarray(value), leaves, is_variable)
    try:
        hash(value)
    except TypeError:
        raise EindiffError(f"{value!r} is no array, and cannot be kept as a fixed value (it has no hash)") from None
    return type(value), value


def _copied(value: Any, name: str, is_variable: bool, copies: dict[str, tuple[Any, Any]]) -> Any:
    """An argument for a plain call, with copies of its arrays, which are remembered next to those that they are of."""

    def copied(leaf: Any, own: str) -> Any:
        found: list[Any] = []
        _describe(leaf, found, is_variable)
        if not found or not isinstance(found[0], np.ndarray):
            return found[0] if found else leaf
        array = found[0].astype(float) if is_variable and found[0].dtype.kind != "f" else found[0].copy()
        copies[own] = (found[0], array)
        return array

    return map_named(copied, value, name)


@dataclass
class _Symbols:
    """The variables of a trace, one for each leaf whose value is not fixed."""

    fixed: frozenset[int]  # leaves that the function gets as they are, because it looks at their values
    used: set[str] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)  # of the variables, by the number of the leaf
    count: int = 0  # of the leaves that were seen

    def make(self, value: Any, name: str, is_variable: bool) -> Any:
        """An argument with variables for its leaves, in the order of `_describe`."""
        return map_named(lambda leaf, own: self._make(leaf, own, is_variable), value, name)

    def _make(self, value: Any, name: str, is_variable: bool) -> Any:
        found: list[Any] = []
        _describe(value, found, is_variable)
        if not found:
            return value
        place, self.count = self.count, self.count + 1
        if place in self.fixed:
            return value
        if np.size(found[0]) == 0:
            raise EindiffError(f"the array for {name} has no entries: its shape is {np.shape(found[0])}")
        variable = construct.variable(unused(name, self.used), np.shape(found[0]))
        self.names[place] = variable.name
        return argument(variable, value, is_variable)


# Derivatives as functions


@dataclass(frozen=True, slots=True)
class Lowered:
    """The derivative of a function for arguments of certain shapes: as an expression, and as a program."""

    expression: Any
    function: Compiled

    @property
    def formula(self) -> str:
        """The expression as text."""
        return str(self.expression)

    @property
    def source(self) -> str:
        """The program."""
        return self.function.source

    @property
    def plan(self) -> Plan:
        """What each line of the program costs."""
        return self.function.plan()


@dataclass(frozen=True, slots=True)
class _Seen:
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


class _Traced:
    """A derivative for arguments of certain shapes and types."""

    def __init__(self, lowered: Lowered, names: Mapping[int, str], constants: Mapping[str, Any], slots: Any) -> None:
        self.lowered = lowered
        self._places = list(names)
        self._names = list(names.values())
        self._constants = constants
        self._slots = slots  # which result goes where; None: the one result is all
        self.seen: list[_Seen] = []  # arrays around the function

    def holds(self) -> bool:
        """Whether the entries of the arrays that the function saw around it are as they were."""
        return all(map(_Seen.holds, self.seen))

    def watch(self, seen: Sequence[tuple[np.ndarray, int]]) -> None:
        """Remember what was in arrays: by a constant of the program, if it is the array as a whole, else by a hash."""
        for array, before in seen:
            same = (x for x in self._constants.values() if x.dtype == array.dtype and x.shape == array.shape)
            kept = next((words(x) for x in same if contents(x) == before), None)
            self.seen.append(_Seen(ref(array), array.shape, array.dtype, before, kept))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        arrays = dict(zip(self._names, [leaves[place] for place in self._places], strict=True))
        results = self.lowered.function(**arrays, **self._constants)
        if self._slots is None:
            return results
        return map_leaves(lambda slot: results[slot.place] if isinstance(slot, _Slot) else slot, self._slots)


class _NumPySurroundings(Surroundings):
    """What a NumPy function sees. Its arrays are known by identity: each trace knows what it has seen in them."""

    def array_key(self, value: Any) -> Any:
        return Same(value) if isinstance(value, np.ndarray) else None


_Traces = dict[Any, _Traced | frozenset[int]]


@dataclass(frozen=True, slots=True)
class _Around:
    """What a function sees, and the traces that were made of it then, or the leaves that are fixed for these."""

    surroundings: Surroundings
    traces: _Traces

    def keep(self, key: Any, value: _Traced | frozenset[int]) -> None:
        while len(self.traces) >= MOST_TRACES:
            del self.traces[next(iter(self.traces))]
        self.traces[key] = value


@dataclass(frozen=True, slots=True)
class _Slot:
    """The place of a result in a list of them."""

    place: int


class DerivativeOfFunction:
    """A derivative of a NumPy function, by some of its arguments: a function of the same arguments.

    It is traced again for arguments of other shapes or types, or with other values of what is no array; `traces` counts
    how often that was. Arrays and floats are variables; if the function looks at the values of one that it is not
    differentiated by (in an index or a branch), that one is fixed, and other values are traced anew. With `verify` each
    trace is compared with a plain call of the function. What the function sees around it (globals, closures, defaults,
    attributes, arrays) is constant; if any of that has changed, it is traced again.
    """

    def __init__(
        self, kind: str, f: Callable, argnums: Any = 0, mode: str = "auto", structured: bool = False,
        has_aux: bool = False, verify: bool = True,
    ) -> None:  # fmt: skip
        if structured and (has_aux or kind == "gradient"):
            raise EindiffError("structured=True is for Jacobians and Hessians, without has_aux=True")
        self.kind, self.mode, self.structured, self.has_aux, self.verify = kind, mode, structured, has_aux, verify
        self.traces = 0
        self.__wrapped__ = f
        self.__name__ = f"{kind} of {function_name(f)}"
        self.__doc__ = f"The {kind} of {function_name(f)}.\n\n{getattr(f, '__doc__', None) or ''}"
        self._several = isinstance(argnums, list | tuple)
        self._by = [self._argument(x) for x in (argnums if self._several else [argnums])]
        self._positions = {position for position, _ in self._by}
        self._keywords = {name for _, name in self._by}
        self._around: _Around | None = None
        self._known: Recent[_Traces] = Recent(MOST_SURROUNDINGS)
        if not self._by or len(set(self._by)) < len(self._by):
            raise EindiffError(f"argnums={argnums!r}: name each argument to differentiate by once")

    def _argument(self, x: Any) -> tuple[int, str]:
        """The position and the name of a parameter that is given by either."""
        known = [p.name for p in parameters(self.__wrapped__) if p.kind != Parameter.VAR_POSITIONAL]
        if isinstance(x, str) and x in known:
            return (known.index(x), x)
        if isinstance(x, int | np.integer) and not isinstance(x, bool):
            position = int(x) + (len(known) if x < 0 else 0)
            return (position, known[position] if 0 <= position < len(known) else "")
        listing = ", ".join(known)
        raise EindiffError(
            f"argnums={x!r}: {function_name(self.__wrapped__)} has the parameters {listing}; give places or names"
        )

    def __repr__(self) -> str:
        return f"<{self.__name__}, traced {self.traces} times>"

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        leaves: list[Any] = []
        return self._find(args, keywords, leaves)(leaves)

    def lower(self, /, *args: Any, **keywords: Any) -> Lowered:
        """The derivative for arguments like these: `.expression`, `.formula`, `.source`, `.plan`."""
        return self._find(args, keywords, []).lowered

    def _find(self, args: tuple, keywords: dict[str, Any], leaves: list[Any]) -> _Traced:
        positions, names = self._positions, self._keywords
        key: Any = tuple([_describe(x, leaves, k in positions) for k, x in enumerate(args)])
        if keywords:
            key = key, *[(name, _describe(x, leaves, name in names)) for name, x in keywords.items()]
        fixed: frozenset[int] = frozenset()
        around = self._around
        if around is None or not around.surroundings.holds():
            around = self._look_around()
        found = around.traces.get(key)
        while isinstance(found, frozenset):  # it looks at the values of these leaves
            key = key, *[digest(np.asarray(leaves[place])) for place in sorted(found)]
            fixed, found = found, around.traces.get(key)
        if found is not None and (not found.seen or found.holds()):
            return found
        return self._trace(around, key, args, keywords, leaves, fixed)

    def _look_around(self) -> _Around:
        """What the function sees now, and the traces that were made when it saw the same."""
        surroundings = _NumPySurroundings(self.__wrapped__)
        traces = self._known.get(surroundings.key)
        if traces is None:
            arrays = [array for _, array in surroundings.arrays.values()]
            traces = self._known.keep(surroundings.key, {}, sum(array.nbytes for array in arrays), arrays)
        self._around = around = _Around(surroundings, traces)
        return around

    def _trace(
        self, around: _Around, key: Any, args: tuple, keywords: dict, leaves: list[Any], fixed: frozenset[int]
    ) -> _Traced:
        self.traces += 1
        f = self.__wrapped__
        symbols = _Symbols(fixed)
        seen = [(array, contents(array)) for _, array in around.surroundings.arrays.values()]
        names = argument_names(f, len(args))
        inputs = [symbols.make(x, names[k], k in self._positions) for k, x in enumerate(args)]
        named = {name: symbols.make(x, name, name in self._keywords) for name, x in keywords.items()}
        by: Any = [map_leaves(unwrapped, self._given(inputs, named, place, name)) for place, name in self._by]
        xs = [x for x in leaves_of(by) if isinstance(x, Variable)]
        if not xs:
            raise EindiffError(f"{self.__name__}: there is no number to differentiate by in {by!r}")
        try:
            result = run(f, inputs, named)
        except NeedsValueError as error:
            wanted = {x.name for x in variables(*error.expressions)}
            if not wanted or wanted & {x.name for x in xs}:
                raise
            more = fixed | {place for place, name in symbols.names.items() if name in wanted}
            self.traces -= 1
            around.keep(key, more)
            return self._find(args, keywords, [])
        except UntraceableError:
            f(*deepcopy(args), **deepcopy(keywords))  # raises the function's own error, if it is one
            raise
        by = tuple(by) if self._several else by[0]
        traced = self._differentiated(result, by, xs, symbols, leaves, lambda: self._plain(args, keywords, result))
        traced.watch(seen)
        around.keep(key, traced)
        if not around.surroundings.holds():  # it counts its calls, for instance, without an effect on its value
            self._look_around().keep(key, traced)
        return traced

    def _given(self, inputs: Sequence[Any], named: Mapping[str, Any], place: int, name: str) -> Any:
        if place < len(inputs):
            return inputs[place]
        if name in named:
            return named[name]
        raise EindiffError(f"{self.__name__}: the argument {name or place} to differentiate by is not given")

    def _plain(self, args: tuple, keywords: Mapping[str, Any], traced: Any) -> Call:
        """A call with numbers, on copies of the arrays: those of its results that are expressions when it is traced."""
        copies: dict[str, tuple[Any, Any]] = {}
        names = argument_names(self.__wrapped__, len(args))
        inputs = [_copied(x, names[k], k in self._positions, copies) for k, x in enumerate(args)]
        named = {name: _copied(x, name, name in self._keywords, copies) for name, x in keywords.items()}
        with np.errstate(all="ignore"):
            result, extra = self._with_extra(self.__wrapped__(*inputs, **named))
        changed = [name for name, (x, y) in copies.items() if not np.array_equal(x, y, equal_nan=True)]
        beside = zip(leaves_of(extra), leaves_of(self._with_extra(traced)[1]), strict=False)
        found = [*leaves_of(result), *(x for x, y in beside if isinstance(y, Expr))]
        return Call(found, containers((result, extra)), changed)

    def _differentiated(
        self, result: Any, by: Any, xs: list[Variable], symbols: _Symbols, leaves: Sequence[Any],
        plain: Callable[[], Call],
    ) -> _Traced:  # fmt: skip
        """The derivative of what the function gave, compiled; `by` has the variables in their containers."""
        f = self.__wrapped__
        result, extra = self._with_extra(result)
        values = [output(f, leaf) for leaf in leaves_of(result)]
        everything, large = lifted(f, [*values, *_expressions(extra)], symbols.used)
        values, rest = everything[: len(values)], everything[len(values) :]
        given = {symbols.names.get(k, "an argument"): x for k, x in enumerate(leaves) if isinstance(x, np.ndarray)}
        dtype = common_type(given, given)
        constants = {name: np.asarray(value, dtype) for name, value in large.items()}
        if self.verify:
            arrays = {name: leaves[place] for place, name in symbols.names.items()} | constants
            compare_values(f, everything, arrays, plain, containers((result, extra)), dtype)
        each = iter([self._tree(y, xs, by) for y in values])
        derivatives = map_leaves(lambda _: next(each), result)
        outputs = self._outputs(derivatives, rest, values, xs)
        function = compile(outputs, dtype=dtype, form="structured" if self.structured else "dense")
        slots = None
        if isinstance(outputs, list) and not self.structured:
            places = iter(range(len(outputs)))
            whole = (derivatives, extra) if self.has_aux else derivatives
            slots = map_leaves(lambda x: _Slot(next(places)) if isinstance(x, Expr) else x, whole)
        return _Traced(Lowered(derivatives, function), symbols.names, constants, slots)

    def _with_extra(self, result: Any) -> tuple[Any, Any]:
        """What is differentiated of a result, and the auxiliary results, None if there are none."""
        if not self.has_aux:
            return result, None
        if not isinstance(result, tuple) or len(result) != 2:
            name = function_name(self.__wrapped__)
            raise EindiffError(f"has_aux=True: {name} must return a pair (value, auxiliary results)")
        return result

    def _tree(self, y: Expr, xs: list[Variable], by: Any) -> Any:
        """The derivative of one result by all variables, in the containers that these are in."""
        if self.kind == "gradient" and y.ndim:
            raise EindiffError(
                f"{self.__name__}: it has shape {shape_text(y.shape)}, but a gradient is that of a number; "
                "for all of it there is ed.jacobian"
            )

        def tree(found: Iterator[Any]) -> Any:
            return map_leaves(lambda x: next(found) if isinstance(x, Variable) else None, by)

        if self.kind == "hessian":
            return tree(iter([tree(iter(row)) for row in derive.hessian(y, xs, self.mode)]))
        return tree(iter(derive.jacobian(y, xs, self.mode)))

    def _outputs(self, derivatives: Any, rest: list[Expr], values: list[Expr], xs: list[Variable]) -> Any:
        """What is compiled: one expression, a list of them, or one grid of blocks."""
        if isinstance(derivatives, Expr) and not self.has_aux:
            return derivatives
        found = _expressions(derivatives)
        if not self.structured:
            return [*found, *rest]
        if len(values) > 1:
            raise EindiffError(f"{self.__name__}: structured=True is for functions with one result")
        return [found[start : start + len(xs)] for start in range(0, len(found), len(xs))]


def _expressions(tree: Any) -> list[Expr]:
    return [x for x in leaves_of(tree) if isinstance(x, Expr)]
