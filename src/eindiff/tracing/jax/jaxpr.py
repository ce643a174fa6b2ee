"""From a JAX program (a jaxpr) to expressions: an interpreter whose values are expressions, or known arrays.

What depends on no input is computed on the way. Each primitive has a function in a table, which gets the step it is in
(parameters, shapes and types) and the values of its arguments. What no table has becomes an opaque function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np
from jax._src import source_info_util

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.function import Function
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.core.recent import Seen
from eindiff.functions.multilinear import broadcast
from eindiff.program.interpreter import evaluate
from eindiff.tracing.jax import constants as jax_constants
from eindiff.tracing.jax import rules as jax_rules
from eindiff.tracing.jax.complex_parts import is_complex_part, joined
from eindiff.tracing.jax.opaque import Signature, is_real, opaque
from eindiff.tracing.jax.refusals import REFUSED, NeedsInputsError, RefusedError, primitives
from eindiff.tracing.library import Recurrence
from eindiff.tracing.unsupported import Unsupported

UNKNOWN_LINE = "a line that JAX does not know"
JAX_FOLDER = str(Path(jax.__file__).parent)
Value = Any  # an expression, or a known array
Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Tables:
    """How equations are read."""

    primitives: Mapping[str, Handler]  # those that have a constructor
    calls: Mapping[str, Handler]  # those that call other programs
    library: Mapping[str, Handler]  # functions of JAX that are known by name


@dataclass(slots=True)
class Trace:
    """What is found while a program is read."""

    tables: Tables
    free: frozenset[str]  # the variables that are differentiated by
    taken: set[str] = field(default_factory=set)  # names of variables
    hidden: dict[str, Any] = field(default_factory=dict)  # arrays of constants that are inputs of the expression
    stopped: dict[Expr, Expr] = field(default_factory=dict)  # what stands for values that count as constants
    made: dict[Expr, tuple] = field(default_factory=dict)  # the step that gave an expression, and its arguments
    opaque: dict[str, str] = field(default_factory=dict)  # the opaque functions, and where they are in the program
    visible: dict[str, Seen] = field(default_factory=dict)  # arrays that the function sees, by their names there
    tracers: frozenset[str] = frozenset()  # inputs whose values cannot be known: they belong to a program around this
    lifts: bool = False  # whether states of long loops may be variables
    recurrences: list[Recurrence] = field(default_factory=list)  # whose states are
    outside: list[Expr] = field(default_factory=list)  # how many indices are out of range, where that is not known
    functions: dict[tuple, Function] = field(default_factory=dict)  # opaque ones, by what they compute
    place: str = UNKNOWN_LINE  # of the call that is being followed
    is_steady: bool = False  # whether the last bits of known values decide nothing
    leave: Callable[[Any], None] = lambda equation: None  # raises an error if JAX may do all because of an equation

    def expr(self, value: Value) -> Expr:
        """A value as an expression."""
        if isinstance(value, Expr):
            return value
        if isinstance(value, jax.core.Tracer):
            return self.hide(value)
        array = np.asarray(value)
        if not array.size:
            raise EindiffError("it has an array without entries", "tracing")
        if array.dtype.kind not in "biuf":
            array = np.asarray(array, dtype=np.float32)
        return jax_constants.constant(array, self.hide)

    def hide(self, array: Any) -> Expr:
        """A variable for an array, which is bound to it at each call; or the negative of one that is there, so that
        what is computed from both is computed once."""
        name = self._bound(array)
        if name is None and _is_array(array) and array.dtype.kind == "f" and (other := self._bound(-array)):
            return construct.scale(-1, self._bound_variable(other, array))
        if name is None:
            name = self.name("c")
            is_view = _is_array(array) and not array.flags.owndata  # of what the function sees, perhaps
            self.hidden[name] = array.copy() if is_view else array
        return self._bound_variable(name, array)

    def _bound_variable(self, name: str, array: Any) -> Variable:
        properties = ["symmetric"] if _is_array(array) and _is_symmetric(array) else []
        return construct.variable(name, tuple(array.shape), properties)

    def _bound(self, array: Any) -> str | None:
        """The name of the variable that is bound to an array, or to one that the function sees with the same bits."""
        for name, other in self.hidden.items():
            if other is array or (_is_array(array) and _equal(held(other), array)):
                return name
        for wanted, seen in self.visible.items():
            if _is_array(array) and _equal(held(seen), array):
                name = self.name("c") if wanted in self.taken else wanted
                self.hidden[name] = seen
                self.taken.add(name)
                return name
        return None

    def name(self, stem: str) -> str:
        """A name that no variable has."""
        number = 1
        while f"{stem}{number}" in self.taken:
            number += 1
        self.taken.add(f"{stem}{number}")
        return f"{stem}{number}"

    def stop(self, value: Expr) -> Expr:
        """A variable that stands for the value while derivatives are taken, so that it counts as constant."""
        if not self.depends(value):
            return value
        for variable, other in self.stopped.items():
            if other is value:
                return variable
        variable = construct.variable(self.name("stopped"), value.shape)
        self.stopped[variable] = value
        return variable

    def depends(self, *values: Value) -> bool:
        """Whether some value may change with the variables that are differentiated by."""
        return any(v.name in self.free for x in values if isinstance(x, Expr) for v in variables(x))

    def depends_at_all(self, value: Value) -> set[str]:
        """The names of all inputs of a value, those behind stopped values included."""
        found: set[str] = set()
        for v in variables(value) if isinstance(value, Expr) else ():
            found |= self.depends_at_all(self.stopped[v]) if v in self.stopped else {v.name}
        return found

    def known(self, value: Value) -> Any:
        """A value that has to be known; asks for the inputs that it depends on if they are not differentiated by."""
        if not isinstance(value, Expr):
            return value
        names = self.depends_at_all(value) - set(self.hidden)
        if names & (self.free | self.tracers) or not names:
            raise Unsupported
        raise NeedsInputsError(names)

    def constant(self, value: Expr) -> np.ndarray | None:
        """The entries of an expression that is a constant."""
        if isinstance(value, Variable) and _is_array(array := held(self.hidden.get(value.name))):
            return array
        return evaluate(value, {}) if not variables(value) else None

    # Programs

    def run(self, jaxpr: Any, constants: Sequence[Value], args: Sequence[Value]) -> list[Value]:
        """The results of a program for values of its arguments."""
        values: dict[Any, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Value:
            return jax_constants.as_known(atom.val) if isinstance(atom, jex.Literal) else values[atom]

        values.update(jax_constants.folded_together(jaxpr, values, self.is_steady, bool(self.tracers)))
        for eqn in joined(jaxpr.eqns, jaxpr.outvars, values):
            if eqn.outvars and eqn.outvars[0] in values:
                continue
            values.update(zip(eqn.outvars, self.step(eqn, [read(x) for x in eqn.invars]), strict=True))
        return [read(x) for x in jaxpr.outvars]

    def run_closed(self, closed: Any, args: Sequence[Value]) -> list[Value]:
        """The results of a program that brings its constants."""
        constants = [x if isinstance(x, Expr) else jax_constants.known_or_tracer(x) for x in closed.consts]
        return self.run(closed.jaxpr, constants, args)

    def run_body(self, body: Any, args: Sequence[Value]) -> list[Value]:
        """The results of a program inside of another one, which may bring constants."""
        return self.run_closed(body, args) if hasattr(body, "consts") else self.run(body, (), args)

    def step(self, eqn: Any, args: list[Value]) -> list[Value]:
        """The results of one equation."""
        name, calls = eqn.primitive.name, self.tables.calls
        step = TracedEquation(self, eqn)
        if eqn.effects and name not in calls:
            raise step.refused(REFUSED.get(name, "it has side effects"))
        try:
            if is_complex_part(eqn):
                return step.opaque(args)
            if name in calls:
                return self.call(calls[name], step, args)
            if not any(isinstance(x, Expr | jax.core.Tracer) for x in args):
                return jax_constants.folded(eqn, args)
            if name in REFUSED:
                raise step.refused(REFUSED[name])
            return self._of_primitive(step, args)
        except Unsupported:
            pass
        except EindiffError as error:
            if isinstance(error, RefusedError):
                raise
            raise step.refused(str(error)) from error
        return step.opaque(args)

    def _of_primitive(self, step: TracedEquation, args: list[Value]) -> list[Value]:
        """The results by the table of primitives."""
        results, handlers = step.eqn.outvars, self.tables.primitives
        step.check_shapes()
        if all(0 in x.aval.shape for x in results):
            return [np.zeros(x.aval.shape, x.aval.dtype) for x in results]
        if step.eqn.primitive.name not in handlers:
            raise Unsupported
        found = handlers[step.eqn.primitive.name](step, *args)
        return list(found) if isinstance(found, tuple) else [found]

    def call(self, handler: Handler, step: TracedEquation, args: list[Value]) -> list[Value]:
        """The results of an equation that calls a program, in which messages name the line of the call."""
        outer, self.place = self.place, step.place
        try:
            return handler(step, *args)
        finally:
            self.place = outer


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _is_symmetric(array: np.ndarray) -> bool:
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        return False
    return np.array_equal(array[0], array[:, 0]) and np.array_equal(array, array.T)


def held(value: Any) -> Any:
    """A constant that is an input; what the function sees around it is alive as long as the function is."""
    return np.asarray(value.get()) if isinstance(value, Seen) else value


def _equal(a: Any, b: np.ndarray) -> bool:
    """Whether two arrays have the same bits."""
    if not _is_array(a) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    same = a.strides == b.strides and a.__array_interface__["data"] == b.__array_interface__["data"]
    first, second = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return same or np.array_equal(first, second)


@dataclass(slots=True)
class TracedEquation:
    """One equation of a program, in the trace that it is part of."""

    trace: Trace
    eqn: Any

    @property
    def name(self) -> str:
        """The primitive."""
        return self.eqn.primitive.name

    @property
    def params(self) -> Any:
        """The parameters of the primitive."""
        return self.eqn.params

    @property
    def avals(self) -> list[Any]:
        """Shapes and types of the arguments."""
        return [x.aval for x in self.eqn.invars]

    @property
    def result(self) -> Any:
        """Shape and type of the first result."""
        return self.eqn.outvars[0].aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first result."""
        return tuple(int(size) for size in self.result.shape)

    @property
    def is_real(self) -> bool:
        """Whether the first result has numbers that are no integers."""
        return is_real(self.result.dtype)

    @property
    def place(self) -> str:
        """The line of the user's program that this is from."""
        return place_of(self.eqn) or self.trace.place

    def refused(self, reason: str) -> RefusedError:
        """The error that says why this cannot be read."""
        return RefusedError(f"`{self.name}` at {self.place}: {reason}")

    def check_shapes(self) -> None:
        """Refuse what expressions cannot have: sizes that are not known, arrays without entries, complex numbers."""
        for aval in [*self.avals, *(x.aval for x in self.eqn.outvars)]:
            shape = getattr(aval, "shape", ())
            if any(not isinstance(size, int | np.integer) for size in shape):
                raise self.refused("it has a size that is not known while the program is read")
            if jax.numpy.issubdtype(aval.dtype, jax.numpy.complexfloating):
                raise self.refused("it has complex numbers")

    def exprs(self, args: Sequence[Value]) -> list[Expr]:
        """Arguments as expressions of one shape."""
        found = [self.trace.expr(x) for x in args]
        return broadcast(self.name, found) if len({x.shape for x in found}) > 1 else found

    def opaque(self, args: Sequence[Value]) -> list[Expr]:
        """All results as functions that JAX computes and differentiates."""
        self.check_shapes()
        inside = {self.name, *primitives(self.eqn)}
        names = sorted(inside.intersection(REFUSED))
        if names:
            raise self.refused(REFUSED[names[0]])
        moving = [k for k, x in enumerate(args) if isinstance(x, Expr | jax.core.Tracer)]
        if self.trace.depends(*args) and any(is_real(x.aval.dtype) for x in self.eqn.outvars):
            self.trace.opaque.setdefault(self.label, self.place)
        results = []
        for index, var in enumerate(self.eqn.outvars):
            signature = Signature(
                tuple(tuple(map(int, self.avals[k].shape)) for k in moving),
                tuple(self.avals[k].dtype for k in moving),
                tuple(map(int, var.aval.shape)),
                var.aval.dtype,
                self.name in ELEMENTWISE,
                "custom_vjp_call" in inside,
                "while" in inside,
            )
            same = (self.eqn.primitive, *sorted(_named_by_rule(self.params).items()), signature, index)
            key = _hashable(same) if len(moving) == len(args) else ()
            function = self.trace.functions.get(key)
            if function is None:
                run = _runner(self.eqn, args, moving, index)
                rules = jax_rules.derivatives(self.trace, run, signature)
                if signature.reverse:
                    self._check_linear(rules, [args[k] for k in moving])
                function = opaque(_identifier(self.label), run, signature, rules)
            if key:
                self.trace.functions[key] = function
            results.append(construct.apply(function, [self.trace.expr(args[k]) for k in moving]))
        return results

    def _check_linear(self, rules: Sequence[Callable[..., Any]], args: Sequence[Value]) -> None:
        """What a rule does with cotangents may be no derivative, as where they are clipped: then JAX does all."""
        for rule, arg in zip(rules, args, strict=True):
            try:
                if self.trace.depends(arg):
                    rule(*map(self.trace.expr, args))
            except jax_rules.NotLinearError:
                self.trace.leave(self.eqn)

    @property
    def label(self) -> str:
        """The primitive, or the name of the function that it calls."""
        if self.name in ("scan", "while", "cond"):
            return self.name
        jaxpr = self.params.get("call_jaxpr", self.params.get("jaxpr"))
        debug_info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
        return debug_info.func_name if debug_info is not None else self.name


def place_of(eqn: Any) -> str:
    """The line of the user's program that an equation is from, if JAX knows it."""
    frame = source_info_util.user_frame(eqn.source_info.traceback)
    return f"{frame.file_name}:{frame.start_line}" if frame else ""


# Primitives without a constructor that work entry by entry.
ELEMENTWISE = frozenset({
    "bessel_i0e", "bessel_i1e", "igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "zeta", "nextafter",
    "regularized_incomplete_beta", "rem", "div", "pow", "shift_left", "shift_right_logical", "shift_right_arithmetic",
})  # fmt: skip


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text).strip("_")


def _named_by_rule(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an equation, in which one of JAX's own functions that have a rule is the same whenever it is
    called: their rules call them again, which JAX reads as a new program. Of others only they themselves are known."""
    rule, body = params.get("jvp_jaxpr_fun"), params.get("call_jaxpr")
    if rule is None or body is None:
        return params
    file = body.jaxpr.debug_info.func_filename or ""
    is_own = file.startswith(JAX_FOLDER) and file == rule.debug_info.func_filename
    if not is_own or _has_constants(body.jaxpr):
        return params
    return params | {"jvp_jaxpr_fun": rule.debug_info.func_src_info, "call_jaxpr": str(body)}


def _has_constants(jaxpr: Any) -> bool:
    """Whether a program has arrays in it, which its text does not show."""
    return bool(jaxpr.constvars) or any(map(_has_constants, jex.subjaxprs(jaxpr)))


def _hashable(key: tuple) -> tuple:
    """A key, or nothing if parts of it cannot be compared."""
    try:
        hash(key)
    except TypeError:
        return ()
    return key


def _runner(eqn: Any, args: Sequence[Value], moving: Sequence[int], index: int) -> Callable[..., Any]:
    """One result of an equation as a function of the arguments that are not known."""
    fixed = {k: x for k, x in enumerate(args) if k not in moving}
    function = jax_constants.as_function(eqn)

    def run(*given: Any) -> Any:
        values = {**fixed, **dict(zip(moving, given, strict=True))}
        return function(*(values[k] for k in range(len(args))))[index]

    return run
