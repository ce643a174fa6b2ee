"""JAX's arrays for traced functions: trees, types, what a function sees, and what JAX does itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.backend import backends

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Add, Apply, Constant, Expr, topological, variables
from eindiff.core.recent import Recent, Same, Seen
from eindiff.planning.tuning import CALL
from eindiff.structure.compile import compile
from eindiff.tracing.closures import MOST_WRITTEN, Surroundings, digest
from eindiff.tracing.computation import Computation
from eindiff.tracing.derivatives import is_eliminated
from eindiff.tracing.jax.choice import MOST_SLOWER, PAYING_CALLS, Own
from eindiff.tracing.jax.constants import constant
from eindiff.tracing.jax.function import CONCRETE, Program, check_known, is_array, leaf_names, plain_call, trace
from eindiff.tracing.jax.jaxpr import UNKNOWN_LINE, place_of
from eindiff.tracing.jax.kernels import compiling, has_kinks, is_plain
from eindiff.tracing.jax.left import left, recurrent, runs_forward_only
from eindiff.tracing.jax.often import Often
from eindiff.tracing.jax.opaque import is_opaque_derivative, is_real
from eindiff.tracing.jax.predicted import compiling_of, finding, planning, seconds, writing
from eindiff.tracing.jax.refusals import RefusedError, is_refused
from eindiff.tracing.jax.types import strong, type_of
from eindiff.tracing.jax.values import are_local, are_traced, as_jax, is_written, leaf_key
from eindiff.tracing.jax.whole import Along, Whole, Written, transform, with_plain, without_plain
from eindiff.tracing.library import Arguments, LeftToLibraryError, Library, NeedsLeavesError, Traced
from eindiff.tracing.verify import Call

if TYPE_CHECKING:
    from eindiff.tracing.traced_function import TracedFunction

LONG_COMPILED = 0.1  # seconds, as predicted, for which JAX compiles a function whose gradient had better be its own
BRIEF = 1e-6  # seconds of a function in whose gradient there is no time to save, so that none is spent to find another
LEAST_AHEAD = 0.09  # seconds to find and compile a program, as predicted, that are worth a look at JAX's before
LEAST_FINDING = 0.6  # and those to derive it as well
CERTAIN = 0.75  # of the time to compile a program that is yet to be found
LEAST_STEPS = 12  # of a program inside of `jax.jit` that is worth a look at how long it takes to compile
DERIVING_TIMES = {"grad": 8e-4, "value_and_grad": 8e-4, "hvp": 2.5e-3, "hessian": 12e-3, "value_grad_hessian": 12e-3}
MOST_DERIVING = 0.5  # seconds for a loop that is written out, by those for each equation; JAX compiles its own sooner
SMALL = 1e-4  # seconds of JAX's own derivative, inside of `jax.jit`, of a function with opaque parts that is left to it
LEAST_INSIDE, LEAST_ALONE = 1.5e-6, 1e-3  # seconds of a program, in `jax.jit` and alone, that are worth a look at JAX's
MOST_CALLING = 17e-6  # seconds for calls from Python, that nobody minds,
OF_WHOLE_ARRAYS, GIVING = 1e-5, 2e-6  # where functions of these take so long, and to give a result of NumPy to JAX,
COMPILED_RESULT = 1e-6  # and a compiled program for one
HESSIANS = frozenset({"hessian", "value_grad_hessian"})
PRODUCTS = frozenset({"grad", "value_and_grad", "hvp"})  # in which JAX shares the value of a part with its derivatives
MOST_COPIED, LEAST_SPREAD = 2**13, 8  # entries of known results that are copied, times the numbers they consist of
MOST_IN_JACOBIAN = 2000  # of the Jacobian of an opaque function; JAX does not form it where it does all itself


class JaxSurroundings(Surroundings):
    """The key of a JAX function. JAX's arrays never change, so they are known by identity."""

    def array_key(self, value: Any) -> Any:
        return Same(value) if isinstance(value, jax.Array) else super().array_key(value)

    def may_change(self, array: Any) -> bool:
        return not isinstance(array, jax.Array)

    def visible(self) -> dict[str, Seen]:
        """The arrays of real numbers that the function sees, by the names that it has for them."""
        found: dict[str, Seen] = {}
        for name, value in self.arrays.values():
            is_known = not isinstance(value, jax.core.Tracer)
            if is_known and jnp.issubdtype(value.dtype, jnp.floating):
                found.setdefault(name, Seen(value))
        return found


class JaxLibrary(Library):
    """JAX's arrays; a function of them is read as a jaxpr."""

    name, surroundings, flatten = "JAX", JaxSurroundings, staticmethod(jax.tree_util.tree_flatten)
    folds = True

    def __init__(self) -> None:
        super().__init__()
        self.own_programs: Recent[Callable] = Recent()
        self._refusals: Recent[tuple[type[EindiffError], str]] = Recent()  # errors without frames, which hold arrays

    def read(self, function: TracedFunction, args: tuple, keywords: dict[str, Any]) -> Arguments:
        leaves, structure = jax.tree_util.tree_flatten((args, keywords))
        settings = (function.argnums, function.has_aux, jax.config.jax_enable_x64, is_eliminated(function))
        key = (settings, structure, tuple(map(leaf_key, leaves)))
        is_inside = are_traced(leaves)
        in_program = is_inside and any(map(is_written, leaves))
        return Arguments(args, keywords, leaves, structure, key, is_inside=is_inside, is_written=in_program)

    def contents(self, function: TracedFunction, arguments: Arguments, k: int) -> Any:
        check_known(lambda: leaf_names(function.function, arguments)[k], arguments.leaves[k])
        return super().contents(function, arguments, k)

    def are_knowable(self, arguments: Arguments, leaves: Collection[int]) -> bool:
        return not are_traced([arguments.leaves[k] for k in leaves])

    def trace(
        self, function: TracedFunction, arguments: Arguments, known: frozenset[int], around: JaxSurroundings,
        before: Traced | None,
    ) -> Traced:  # fmt: skip
        key, (free, _) = (around.key, arguments.key), self.chosen(function, arguments)
        if (refusal := self._refusals.get(key)) is not None:
            kind, message = refusal
            raise kind(message)
        leave, lifts = partial(self._leave, function, arguments, around, free), is_eliminated(function)
        try:
            traced = trace(function.function, arguments, free, known, around.visible(), function.has_aux, leave, lifts)
        except EindiffError as error:
            if not isinstance(error, NeedsLeavesError):
                self._refusals.keep(key, (type(error), str(error)))
            raise
        own = self._small(function, arguments, traced) if traced.opaque and arguments.may_be_left else None
        for name, place in traced.opaque.items() if arguments.may_be_left else ():
            what = "computes and differentiates it" if own is None else "differentiates the whole function"
            message = f"{name} at {place} has no closed form here: JAX {what}"
            warnings.warn(message, UserWarning, stacklevel=7)
        if own is not None:
            raise LeftToLibraryError(own, False)
        return traced

    def _small(self, function: TracedFunction, arguments: Arguments, traced: Traced) -> Written | None:
        """JAX's own derivative of a function with opaque parts, inside of `jax.jit`, if it takes no time to speak of:
        then nothing makes up for the time to find another one."""
        if not arguments.is_inside or "while" in traced.opaque:
            return None
        own = self._written(function, arguments, list(traced.inputs), traced.function)
        if own is None or next(self._compared(function, arguments, traced).bounds())[1] >= SMALL:
            return None
        return own if seconds(own.jaxpr) < SMALL else None

    def plain_call(self, function: TracedFunction, arguments: Arguments, traced: Traced) -> Call:
        return plain_call(function.function, arguments, traced)

    def are_numbers(self, arrays: Mapping[str, Any]) -> bool:
        return not are_traced(arrays.values())

    def is_accelerated(self, arrays: Mapping[str, Any]) -> bool:
        return not are_local(arrays)

    def inputs(self, arrays: Mapping[str, Any], form: str) -> tuple[str, Mapping[str, Any]]:
        """A program of NumPy is for numbers on the CPU, one of JAX for all others."""
        if are_local(arrays):
            return "numpy", {name: _as_numpy(x) for name, x in arrays.items()}
        return "jax", {name: _as_input(x) for name, x in arrays.items()}

    def typed(self, value: Any, dtype: Any, arrays: Mapping[str, Any]) -> Any:
        return as_jax([value], [dtype])[0]

    def all_typed(self, values: Sequence[Any], types: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        is_known = [type(x) is np.ndarray and x.size > MOST_COPIED for x in values]
        if any(is_known) and not are_local(arrays):
            values = [_spread(x) if large else x for x, large in zip(values, is_known, strict=True)]
        return as_jax(values, types)

    def may_share(self, arrays: Mapping[str, Any]) -> bool:
        return are_local(arrays)

    def are_lasting(self, values: Iterable[Any]) -> bool:
        """A compiled function may have been allowed to write into them."""
        return not any(x.is_deleted() for x in values)

    def type_of(self, leaf: Any) -> Any:
        return type_of(leaf)

    def spoiled(self, value: Any, outside: Any) -> Any:
        return jnp.where(outside > 0, jnp.nan, value)

    def problem(self, traced: Traced, k: int) -> str:
        dtype = strong(traced.types[k])
        if dtype is None or not is_real(dtype):
            kind = dtype or type(traced.outputs[k]).__name__
            return f"the function gives values of type {kind}; derivatives are of real numbers"
        return ""

    def check_numbers(self, what: str, outputs: Sequence[Expr], name: str) -> None:
        if len(outputs) != 1 or outputs[0].shape:
            shapes = ", ".join(str(tuple(y.shape)) for y in outputs)
            raise EindiffError(
                f"{what} needs a function that gives one number; this one gives shape {shapes}", "scalars"
            )

    def _leave(
        self, function: TracedFunction, arguments: Arguments, around: JaxSurroundings, free: Sequence[int],
        program: Program, moving: list[int], equation: Any = None,
    ) -> None:  # fmt: skip
        """Raise an error with JAX's own program if much of a function would be left to it."""
        if not arguments.may_be_left:
            return
        arguments.function = program.run
        reasons = left(program.closed, [k in free for k in moving]) if equation is None else [equation]
        is_empty = program.is_empty(function.has_aux) and not is_refused(program.closed.jaxpr)
        if not (reasons or is_empty or self._is_as_good(function, arguments, program)):
            written_out = recurrent(program.looped, [k in free for k in moving])
            if DERIVING_TIMES.get(function.kind.name, 0.0) * written_out < MOST_DERIVING:
                return
        is_forward = runs_forward_only(program.closed.jaxpr)
        own = self._whole(function, arguments, around, moving, is_forward)
        if own is None:
            return
        _warn_of(reasons)
        is_known = all(k in moving for k, leaf in enumerate(arguments.leaves) if is_array(leaf))
        raise LeftToLibraryError(own, is_known and isinstance(own, Whole))

    def _is_as_good(self, function: TracedFunction, arguments: Arguments, program: Program) -> bool:
        """Whether JAX's own derivative has the same work inside of `jax.jit`, without the time to find another one."""
        if function.kind.name not in PRODUCTS or not arguments.is_inside:
            return False
        jaxpr = program.closed.jaxpr
        if not is_plain(jaxpr):
            return False
        return _has_same_work(function, has_kinks(jaxpr), seconds(jaxpr), lambda: compiling(jaxpr))

    def meanwhile(
        self, function: TracedFunction, arguments: Arguments, around: JaxSurroundings, traced: Traced
    ) -> Callable[[Arguments, Any], Any] | None:
        """By JAX inside of `jax.jit`, where a Hessian would take so long to find that it is not even looked for, and
        where a gradient has the same work, of a function that was read before."""
        if not arguments.is_inside or self._has_no_own(function, traced):
            return None
        key = (function.kind, function.argnums)
        if key not in traced.allowances:
            traced.allowances[key] = self._is_first(function, arguments, traced)
        if not traced.allowances[key]:
            return None
        if arguments.is_written:
            return self._compared(function, arguments, traced).written()
        return self._whole(function, arguments, around, list(traced.inputs), False, traced.function)

    def _is_first(self, function: TracedFunction, arguments: Arguments, traced: Traced) -> bool:
        """Whether JAX's own derivative is taken before another one is looked for."""
        if function.kind.name in PRODUCTS and traced.is_plain:
            return _has_same_work(function, traced.has_kinks, traced.seconds, lambda: traced.compiling)
        if function.kind.name not in HESSIANS:
            return False
        free, _ = self.chosen(function, arguments)
        outputs = [x for x in traced.outputs if isinstance(x, Expr)]
        ahead = finding(outputs, [traced.inputs[k] for k in free if k in traced.inputs])
        return ahead >= LEAST_FINDING and self._compared(function, arguments, traced).is_sooner(ahead)

    def _compared(self, function: TracedFunction, arguments: Arguments, traced: Traced) -> Own:
        """JAX's own derivative, of which as much is written as is looked at."""

        def own() -> Written:
            written = self._written(function, arguments, list(traced.inputs), traced.function)
            assert written is not None
            return written

        free, _ = self.chosen(function, arguments)
        return Own(own, function.kind.name, traced, [int(jnp.size(arguments.leaves[k])) for k in free])

    def _has_no_own(self, function: TracedFunction, traced: Traced) -> bool:
        """Whether JAX has no derivative of the kind, or another one: numbers where the function is none."""
        is_other = function.options.structured or bool(traced.outside) or "while" in traced.opaque
        return is_other or transform(function.kind.name) is None

    def instead(
        self, function: TracedFunction, arguments: Arguments, around: JaxSurroundings, traced: Traced,
        found: Computation,
    ) -> Callable[[Arguments, Any], Any] | None:  # fmt: skip
        """By JAX, compiled, where opaque functions have large Jacobians, which it does not form, and where its own
        derivative is predicted to take less time."""
        is_inside = arguments.is_inside
        if is_inside not in found.is_better_elsewhere:
            is_product = function.kind.name in PRODUCTS
            is_large = bool(traced.opaque) and (is_product or _has_large_jacobian(found))
            is_better = is_large or self._is_slower(function, arguments, found, traced, is_inside)
            found.is_better_elsewhere[is_inside] = is_better
        if not found.is_better_elsewhere[is_inside]:
            return None
        if arguments.is_written and arguments.own is not None:
            return arguments.own
        is_forward = traced.opaque.get("while") is not None
        return self._whole(function, arguments, around, list(traced.inputs), is_forward, traced.function)

    def _is_slower(
        self, function: TracedFunction, arguments: Arguments, found: Computation, traced: Traced, is_inside: bool
    ) -> bool:
        """Whether a program is predicted to take much longer than JAX's own derivative, compiled."""
        if self._has_no_own(function, traced) or found.dense is None or not variables(*found.exprs):
            return False
        if is_inside and found.dense.is_known(traced.captured):
            return False
        own = self._compared(function, arguments, traced)
        ahead = planning(found.exprs, is_inside) + is_inside * CERTAIN * compiling_of(found.exprs)
        if ahead > LEAST_AHEAD and own.is_sooner(ahead):
            return True
        program = found.dense.compiled("jax") if is_inside else found.dense.moving.compiled("numpy")
        least = LEAST_INSIDE if is_inside else LEAST_ALONE
        least += 2 * MOST_SLOWER * writing(found.exprs)  # which JAX has to do as well
        plan = program.plan()
        is_slow = plan.seconds - CALL * len(plan.steps) >= least
        if is_inside:
            is_long = is_slow or len(plan.steps) >= LEAST_STEPS
            return is_long and own.is_better(_equations(program, found, arguments, traced), least, is_slow)
        if not is_slow:
            return False
        theirs = own.written().jaxpr  # JAX's compiler is still to come
        saved = plan.seconds - seconds(theirs)
        return plan.seconds > max(least, MOST_SLOWER * seconds(theirs)) and PAYING_CALLS * saved > compiling(theirs)

    def has_many_calls(self, found: Computation) -> bool:
        programs = found.dense if found.gives_arrays else None
        if programs is None or not programs.changing:
            return False
        steps, results = len(programs.moving.compiled("numpy").plan().steps), len(programs.changing)
        calling = CALL * steps + OF_WHOLE_ARRAYS * sum(isinstance(x, Apply) for x in topological(found.exprs))
        return calling + GIVING * results - COMPILED_RESULT * len(programs.constant) > MOST_CALLING

    def again(
        self, function: TracedFunction, arguments: Arguments, traced: Traced, found: Computation
    ) -> Callable[[Arguments, Any], Any] | None:
        """The same as a program that JAX compiles, where calls of NumPy's have taken as long."""
        is_own = set(backends()) == {"cpu"} and jax.local_device_count() == 1
        is_possible = is_own and found.gives_arrays and variables(*found.exprs)
        return Often(function, arguments, traced, found) if is_possible else None

    def _written(
        self, function: TracedFunction, arguments: Arguments, places: Sequence[int], f: Callable | None
    ) -> Written | None:
        """JAX's own derivative as a program, one for a call."""
        if arguments.own is None:
            own = self._own(function, False, function.has_aux, arguments.function or f)
            if own is None:
                return None
            free, form = self.chosen(function, arguments)
            directions, along = None, None
            if function.kind.name == "hvp":
                directions = form.unflatten([arguments.leaves[k] for k in free])
            if function.kind.name == "hessian" and not function.has_aux:
                are_alike = len({jnp.result_type(arguments.leaves[k]) for k in free}) == 1
                f = arguments.function or f or function.function
                along = Along(f, function.argnums, arguments, places, free, form) if are_alike else None
            arguments.own = Written(own, arguments, places, directions, along)
        return arguments.own

    def _whole(
        self, function: TracedFunction, arguments: Arguments, around: JaxSurroundings, places: Sequence[int],
        forward: bool, f: Callable | None = None,
    ) -> Callable[[Arguments, Any], Any] | None:  # fmt: skip
        """JAX's own derivative, compiled if it is not inside of a program that is being traced.

        `f` does the same as the function, in a way that is better for JAX.
        """
        own = self._own(function, forward, function.has_aux, arguments.function or f)
        if own is None:
            return None
        seen = [x for _, x in around.arrays.values()]
        known = [x for k, x in enumerate(arguments.leaves) if is_array(x) and k not in places]
        if arguments.is_written or are_traced([*seen, *known]):
            return lambda given, directions: without_plain(_called(own, given, directions))
        key = (around.key, arguments.key, *(digest(np.asarray(x)) for x in known), function.kind, function.options)
        program = self.own_programs.get(key)
        if program is None:  # it holds the function now, and what that sees
            program = Whole(own, arguments, places, function.has_aux)
            self.own_programs.keep(key, program, sum(x.nbytes for x in seen), seen)
        return program

    def own(self, function: TracedFunction) -> Callable | None:
        return self._own(function, False)

    def fall_back(self, function: TracedFunction, reason: EindiffError) -> Callable | None:
        """Compiled, unless the function has state, or looks at values, which JAX knows while it is not compiled."""
        own = self.own(function)
        if own is None or not isinstance(reason, RefusedError):
            return own

        def run(*args: Any, **keywords: Any) -> Any:
            directions = keywords.pop("tangents", None)
            arguments = self.read(function, args, keywords)
            places = [k for k, leaf in enumerate(arguments.leaves) if is_array(leaf)]
            program = self._whole(function, arguments, self.surroundings(function.function), places, False)
            assert program is not None
            try:
                return program(arguments, directions)
            except CONCRETE:
                return _called(own, arguments, directions)

        return run

    def _own(
        self, function: TracedFunction, forward: bool, is_plain: bool = False, f: Callable | None = None
    ) -> Callable | None:
        found, f = transform(function.kind.name, forward), f or function.function
        if found is None or function.options.structured:
            return None
        return found(with_plain(f) if is_plain else f, argnums=function.argnums, has_aux=function.has_aux)


def _called(own: Callable, arguments: Arguments, directions: Any) -> Any:
    more = {} if directions is None else {"tangents": directions}
    return own(*arguments.args, **arguments.keywords, **more)


def _has_same_work(function: TracedFunction, has_kinks: bool, call: float, compiler: Callable[[], float]) -> bool:
    """Whether the gradient of a plain function is so brief that no time can be saved, or the function so long to
    compile that none is spent to find another one; closed forms may have a derivative at a kink."""
    is_brief = function.kind.name != "hvp" and call < BRIEF and not has_kinks
    return is_brief or compiler() > LONG_COMPILED


def _has_large_jacobian(found: Computation) -> bool:
    return any(prod(map(int, x.shape)) > MOST_IN_JACOBIAN for x in topological(found.exprs) if is_opaque_derivative(x))


def _equations(program: Any, found: Computation, arguments: Arguments, traced: Traced) -> Any:
    """The equations of a program for arguments like these."""
    known = {x.name: _abstract(arguments.leaves[k]) for k, x in traced.inputs.items()}
    given = {x.name: known.get(x.name, jax.ShapeDtypeStruct(x.shape, float)) for x in variables(*found.exprs)}
    return jax.make_jaxpr(lambda arrays: program(**arrays))(given).jaxpr


def _warn_of(equations: Sequence[Any]) -> None:
    """Say which of them have no closed form, once for each operation."""
    for name, place in {eqn.primitive.name: place_of(eqn) for eqn in reversed(equations)}.items():
        message = f"{name} at {place or UNKNOWN_LINE} has no closed form here: JAX differentiates the whole function"
        warnings.warn(message, UserWarning, stacklevel=10)


def _abstract(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x))


def _spread(array: np.ndarray) -> Any:
    """A known result as what a program makes of the fewer numbers that it consists of, if there are such: a constant as
    large as it is would be a part of the compiled program, and copied at each call. It is read as a matrix."""
    shape = array.shape
    array = array.reshape(prod(shape[: (len(shape) + 1) // 2]), -1)
    hidden: dict[str, np.ndarray] = {}

    def stand(values: np.ndarray) -> Expr:
        hidden[name := f"c{len(hidden)}"] = values
        return construct.variable(name, values.shape)

    expr = constant(array, stand)
    constants = [x.value for x in topological([expr]) if isinstance(x, Constant)]
    is_scattered = isinstance(expr, Add) or any(isinstance(x, IndexMap) and x.indices is not None for x in constants)
    if is_scattered or LEAST_SPREAD * sum(x.size for x in hidden.values()) > array.size:
        return array.reshape(shape)
    made = compile(expr, "jax", array.dtype)(**{name: _as_input(x) for name, x in hidden.items()})
    return made.reshape(shape)


def _as_input(x: Any) -> Any:
    """A large constant as a value that JAX's compiler does not compute with: it is slow at that."""
    is_large = isinstance(x, np.ndarray) and x.size > MOST_WRITTEN
    return jax.lax.optimization_barrier(jnp.asarray(x)) if is_large else x


def _as_numpy(x: Any) -> np.ndarray:
    """An array that NumPy computes with; truth values and short integers do not lower the precision of others."""
    array = np.asarray(x)
    if array.dtype.char in "fd" or (array.dtype.kind in "biuf" and array.dtype.itemsize > 2):
        return array
    return array.astype(jnp.result_type(float) if array.dtype.kind in "biu" else np.float32)


JAX = JaxLibrary()
