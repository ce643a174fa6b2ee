"""A JAX function as expressions for arguments of certain shapes: which leaves are variables, which are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np
from jax.interpreters import partial_eval

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable
from eindiff.core.recent import Seen
from eindiff.tracing.jax.constants import computed, is_steady, numbers_in
from eindiff.tracing.jax.jaxpr import Trace
from eindiff.tracing.jax.kernels import compiling, has_kinks, is_plain
from eindiff.tracing.jax.left import along
from eindiff.tracing.jax.numbers import NoNumbersError, numbers
from eindiff.tracing.jax.predicted import seconds
from eindiff.tracing.jax.refusals import REFUSED, NeedsInputsError, RefusedError, equations
from eindiff.tracing.jax.rerolled import FEW_TURNS, rerolled
from eindiff.tracing.jax.tables import TABLES
from eindiff.tracing.jax.types import abstract, type_of
from eindiff.tracing.library import Arguments, NeedsLeavesError, Stops, Traced
from eindiff.tracing.names import VariableNames, identifier, leaf_paths
from eindiff.tracing.verify import MOST_QUICKLY, Call, precision_of

# What JAX raises where Python asks for a value that is not known while the function is traced.
CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)

# Equations of a function, or seconds of the compiler as predicted for it, for which a short loop is one again: in
# derivatives each is many. And those, by one variable, for which JAX is to go turn by turn in any case: starting a loop
# and its turns takes microseconds, which nobody minds where a derivative along all entries takes so many seconds.
LEAST_SAVED, LEAST_SECONDS = 50, 0.2
MANY_SAVED, MANY_SECONDS = 200, 1.0
LONG_SWEEP = 3e-4


def leaf_names(f: Callable, arguments: Arguments) -> list[str]:
    """Names for leaves: that of the argument, or the last key of the path if no other leaf has it."""
    found, _ = jax.tree_util.tree_flatten_with_path((arguments.args, arguments.keywords))
    paths = leaf_paths(f, [path for path, _ in found], len(arguments.args))
    full = ["_".join(parts) for parts in paths]
    short = [long if parts[-1].isdigit() else parts[-1] for parts, long in zip(paths, full, strict=True)]
    names = VariableNames()
    return [names.unused(brief if short.count(brief) == 1 else long) for brief, long in zip(short, full, strict=True)]


def is_array(value: Any) -> bool:
    """Arrays and fractions are inputs; integers, truth values, text and functions are known when it is traced."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "O"
    return isinstance(value, float | np.floating | jax.Array)


def _check_free(name: str, value: Any) -> None:
    dtype = jax.numpy.result_type(value) if is_array(value) or isinstance(value, int) else None
    if dtype is None or not jax.numpy.issubdtype(dtype, jax.numpy.floating):
        kind = dtype if dtype is not None else type(value).__name__
        raise EindiffError(f"derivatives are by real numbers; {name} has type {kind}", "tracing")


def check_known(name: Callable[[], str], value: Any) -> None:
    """Refuse a value that has to be known and is not."""
    if isinstance(value, jax.core.Tracer):
        raise RefusedError(
            f"the value of {name()} is needed while the function is read (it is an index, or decides what is "
            "done), but it is not known inside of jax.jit or jax.vmap"
        )


def trace(
    f: Callable, arguments: Arguments, free: Sequence[int], known: frozenset[int] = frozenset(),
    visible: Mapping[str, Seen] | None = None, has_aux: bool = False,
    leave: Callable[..., None] = lambda program, moving, equation=None: None, lifts: bool = False,
) -> Traced:  # fmt: skip
    """A function as expressions, where the values of some leaves are known; derivatives are by those that are free.

    `leave` sees its program first, and may raise an error if JAX is to do all; later it gets an equation that is a
    reason for that.
    """
    names, leaves = leaf_names(f, arguments), arguments.leaves
    for k in free:
        _check_free(names[k], leaves[k])
    for k in known:
        check_known(partial(names.__getitem__, k), leaves[k])
    moving = [k for k, leaf in enumerate(leaves) if k in free or (is_array(leaf) and k not in known)]
    tracers = frozenset(name for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, jax.core.Tracer))
    found = Trace(TABLES, frozenset(names[k] for k in free), set(names), tracers=tracers, lifts=lifts)
    found.visible.update({identifier(name): value for name, value in (visible or {}).items()})
    try:
        program = Program(f, arguments, moving)
        program.reroll()
        if lifts:
            program.trim()
        leave(program, moving)
        found.leave, found.is_steady = partial(leave, program, moving), is_steady(program.closed.jaxpr)
        inputs = {k: _input(names[k], leaves[k]) for k in moving}
        results = found.run_closed(program.closed, list(inputs.values()))
    except NeedsInputsError as needed:
        raise NeedsLeavesError(frozenset(map(names.index, needed.names))) from None
    except CONCRETE as error:
        raise _asks_for_value(frozenset(moving).difference(free), error) from error
    traced = _traced(found, program, inputs, results, has_aux)
    traced.along = along(program.closed.jaxpr, [k in free for k in moving])
    return traced


def _asks_for_value(others: frozenset[int], error: Exception) -> EindiffError:
    """All that can be known has to be, since JAX does not say what was asked for."""
    if others:
        return NeedsLeavesError(others)
    return RefusedError(
        "the function asks for a value that is not known while it is read, for instance in `if`, `while` "
        f"or as an index: {str(error).splitlines()[0]}"
    )


def _traced(found: Trace, program: Program, inputs: dict[int, Variable], results: list[Any], has_aux: bool) -> Traced:
    """What was found, with known values as expressions where they are differentiated."""
    outputs, types = program.filled(results)
    count = program.count(has_aux)
    return Traced(
        [found.expr(x) if k < count and types[k] is not None else x for k, x in enumerate(outputs)], types,
        program.structure, inputs, found.hidden, found.opaque, Stops(found.stopped), found.outside,
        found.recurrences,
        precision=program.precision, compiling=compiling(program.closed.jaxpr), seconds=seconds(program.closed.jaxpr),
        equations=equations(program.closed.jaxpr), has_loops=_loops(program.own) > 0,
        is_plain=is_plain(program.closed.jaxpr), has_kinks=has_kinks(program.closed.jaxpr),
        nbytes=sum(x.nbytes for x in found.hidden.values() if isinstance(x, np.ndarray)),
        is_lasting=not any(isinstance(x, jax.core.Tracer) for x in (*program.closed.consts, *found.hidden.values())),
        function=program.function,
    )  # fmt: skip


def _is_sooner(given: Any, shorter: Any, saved: int = LEAST_SAVED, earlier: float = LEAST_SECONDS) -> bool:
    """Whether a program with loops has so many fewer equations than one without, or is compiled so much sooner."""
    if equations(given) - equations(shorter) > saved:
        return True
    return given is not shorter and compiling(given) - compiling(shorter) > earlier


def _is_long(given: Any) -> bool:
    """Whether it takes long to run a program along all entries that it is given."""
    return sum(x.aval.size for x in given.invars) * seconds(given) > LONG_SWEEP


class Program:
    """A function as JAX's program of some leaves, and the tree of what it gives, with what is no array."""

    def __init__(self, f: Callable, arguments: Arguments, moving: Sequence[int]) -> None:
        def flat(*given: Any) -> list[Any]:
            values = list(arguments.leaves)
            for k, value in zip(moving, given, strict=True):
                values[k] = value
            args, keywords = arguments.structure.unflatten(values)
            result = f(*args, **keywords)
            leaves, self.structure = jax.tree_util.tree_flatten(result)
            self._plain = {k: x for k, x in enumerate(leaves) if not _is_result(x)}
            self.halves = [jax.tree_util.tree_structure(x).num_leaves for x in result] if _is_pair(result) else []
            return [x for x in leaves if _is_result(x)]

        self.closed, self._shapes = jax.make_jaxpr(flat, return_shape=True)(
            *(abstract(arguments.leaves[k]) for k in moving)
        )
        self.precision = _least_precision(self.closed.jaxpr)
        self._moving = moving
        self._own = self._looped = self.closed
        self._is_rerolled = False

    def reroll(self) -> None:
        """Find loops again that Python has written out, if there is less to derive and to compile.

        Short ones are only for JAX, where they save much or take little of a call, unless nothing is left in them that
        has to be done turn by turn.
        """
        given, again = self.closed, rerolled(self.closed)
        if again is not given and equations(again.jaxpr) < equations(given.jaxpr):
            self.closed = again
        shorter = rerolled(self.closed, FEW_TURNS)
        self._looped = shorter if _is_sooner(self.closed.jaxpr, shorter.jaxpr) else self.closed
        count = max(1, len(self.closed.jaxpr.invars))
        is_much = _is_long(self.closed.jaxpr) or _is_sooner(
            self.closed.jaxpr, self._looped.jaxpr, MANY_SAVED, MANY_SECONDS / count
        )
        if _loops(self._looped.jaxpr) == _loops(self.closed.jaxpr):
            self.closed = self._looped
        self._own = self._looped if is_much else self.closed
        self._is_rerolled = self._own is not given

    @property
    def own(self) -> Any:
        """The program that JAX differentiates."""
        return self._own.jaxpr

    @property
    def looped(self) -> Any:
        """The program with its short loops as well."""
        return self._looped.jaxpr

    @property
    def function(self) -> Callable | None:
        """What does the same as the user's function, where it is better for JAX."""
        return self.run if self._is_rerolled else None

    def trim(self) -> None:
        """Leave out what is not used, also of loops."""
        jaxpr, _ = partial_eval.dce_jaxpr(self.closed.jaxpr, [True] * len(self.closed.jaxpr.outvars), instantiate=True)
        self.closed = jex.ClosedJaxpr(jaxpr, self.closed.consts)

    def run(self, *args: Any, **keywords: Any) -> Any:
        """What the function gives, by its program: JAX reads that sooner than what the user wrote."""
        leaves = jax.tree_util.tree_leaves((args, keywords))
        results = jax.core.eval_jaxpr(self._own.jaxpr, self._own.consts, *(leaves[k] for k in self._moving))
        return self.structure.unflatten(self.filled(results)[0])

    def filled(self, results: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """All leaves of what the function gives, and their types; None for what is no array."""
        values, shapes = iter(results), iter(self._shapes)
        places = range(self.structure.num_leaves)
        leaves = [self._plain[k] if k in self._plain else next(values) for k in places]
        return leaves, [None if k in self._plain else type_of(next(shapes)) for k in places]

    def is_empty(self, has_aux: bool) -> bool:
        """Whether arrays without entries, for which there are no expressions, are given or come out."""
        results = self.filled(self.closed.jaxpr.outvars)[0][: self.count(has_aux)]
        return any(hasattr(x, "aval") and 0 in x.aval.shape for x in (*self.closed.jaxpr.invars, *results))

    def count(self, has_aux: bool) -> int:
        """How many of the leaves are no auxiliary results."""
        return self.halves[0] if has_aux and self.halves else self.structure.num_leaves


def _loops(jaxpr: jex.Jaxpr) -> int:
    """How many loops a program has."""
    return sum(eqn.primitive.name == "scan" for eqn in jaxpr.eqns) + sum(map(_loops, jex.subjaxprs(jaxpr)))


def _is_pair(result: Any) -> bool:
    return isinstance(result, tuple) and len(result) == 2


def plain_call(f: Callable, arguments: Arguments, traced: Traced) -> Call:
    """What JAX computes when the function is called again: by NumPy where that can, for few numbers, else compiled."""
    moving = list(traced.inputs)
    program = Program(f, arguments, moving)
    inputs = [arguments.leaves[k] for k in moving]
    types = [x for x in program.filled(program.closed.jaxpr.outvars)[1] if x is not None]

    def compared(results: Sequence[Any]) -> list[Any]:
        leaves, _ = program.filled(results)
        return [x for x, y in zip(leaves, traced.outputs, strict=False) if isinstance(y, Expr)]

    def by_library() -> list[Any]:
        return compared(computed(program.closed, inputs))

    structure = (program.structure, types)
    if numbers_in(program.closed.jaxpr) < MOST_QUICKLY:
        try:
            return Call(compared(numbers(program.closed, inputs)), structure, [], program.precision, by_library)
        except NoNumbersError:
            pass
    return Call(by_library(), structure, [], program.precision)


def _least_precision(jaxpr: jex.Jaxpr) -> float:
    """That of the numbers with the fewest digits in a program."""
    own = [precision_of(x.aval) for equation in jaxpr.eqns for x in equation.outvars]
    return max([0.0, *own, *map(_least_precision, jex.subjaxprs(jaxpr))])


def _is_result(value: Any) -> bool:
    return is_array(value) or isinstance(value, bool | int | complex | np.generic)


def _input(name: str, value: Any) -> Variable:
    """The variable of a leaf."""
    aval = jax.typeof(value)
    if jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended):
        raise RefusedError(f"{name}: {REFUSED['random_bits']}")
    if 0 in aval.shape:
        raise RefusedError(f"{name} is an array without entries")
    if jax.numpy.issubdtype(aval.dtype, jax.numpy.complexfloating):
        raise RefusedError(f"{name} has complex numbers")
    return construct.variable(name, tuple(aval.shape))
