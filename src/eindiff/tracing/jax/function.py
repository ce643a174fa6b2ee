"""A JAX function as expressions for arguments of certain shapes: which leaves are variables, which are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, variables
from eindiff.core.rebuild import substituted
from eindiff.core.recent import Same, Seen
from eindiff.tracing.closures import digest
from eindiff.tracing.front_ends import RESERVED, identifier, key_text, positional_names
from eindiff.tracing.jax.jaxpr import REFUSED, NeedsValueError, RefusedError, Trace, Value, held, known_or_tracer
from eindiff.tracing.jax.numbers import NoNumbersError, numbers
from eindiff.tracing.jax.opaque import is_real
from eindiff.tracing.verify import FEW, Call, precision_of

# What JAX raises where Python asks for a value that is not known while the function is traced.
CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)

# The least that JAX's compiler can do, for programs that compute fewer than so many numbers.
QUICK = {
    "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1,
}  # fmt: skip
MANY = 2**18


@dataclass(frozen=True, slots=True)
class Leaf:
    """An entry of the arguments: an array (or number), or a thing that is known when the function is traced."""

    name: str
    value: Any
    is_array: bool
    is_free: bool  # whether derivatives are by it

    @property
    def key(self) -> Any:
        """Leaves with the same key are read in the same way."""
        if not self.is_array:
            return ("static", type(self.value), _hashable(self.value))
        aval = jax.typeof(self.value)
        is_unknowable = isinstance(self.value, jax.core.Tracer) and not is_real(aval.dtype)
        return (tuple(aval.shape), aval.dtype, aval.weak_type, is_unknowable)

    @property
    def contents(self) -> Any:
        """The entries of an array that has to be known."""
        if isinstance(self.value, jax.core.Tracer):
            raise RefusedError(
                f"the value of {self.name} is needed while the function is read (it is an index, or decides what is "
                "done), but it is not known inside of jax.jit or jax.vmap"
            )
        array = np.asarray(self.value)
        return (array.dtype.str, array.shape, digest(array))


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return value


@dataclass(frozen=True, slots=True)
class Arguments:
    """All leaves of the arguments of a call, with the trees that they came from."""

    leaves: list[Leaf]
    tree: Any
    places: list[int]  # of the leaves that derivatives are by
    free_tree: Any

    @property
    def key(self) -> Any:
        return (self.tree, tuple([leaf.key for leaf in self.leaves]))

    def rest_key(self, known: frozenset[int]) -> Any:
        """The values of the leaves that have to be known."""
        return tuple([self.leaves[k].contents for k in sorted(known)])

    @property
    def free(self) -> list[Leaf]:
        return [self.leaves[k] for k in self.places]


def read_arguments(f: Callable, argnums: int | Sequence[int], args: tuple, kwargs: dict) -> Arguments:
    """The leaves of the arguments: which are differentiated by, which are arrays, and what they are called."""
    chosen = [argnums] if isinstance(argnums, int) else list(argnums)
    numbers = [k + len(args) if k < 0 else k for k in chosen]
    for number, given in zip(numbers, chosen, strict=True):
        if not 0 <= number < len(args):
            raise EindiffError(f"argnums={given}: the function is called with {len(args)} positional arguments")
    found, tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    names = _names(f, [path for path, _ in found], len(args))
    leaves = []
    places: dict[int, list[int]] = {k: [] for k in numbers}
    for k, ((path, value), name) in enumerate(zip(found, names, strict=True)):
        is_free = path[0].idx == 0 and path[1].idx in numbers
        leaves.append(Leaf(name, value, is_free or _is_array(value), is_free))
        if is_free:
            _check_free(name, value)
            places[path[1].idx].append(k)
    free = tuple(args[k] for k in numbers)
    order = [place for k in numbers for place in places[k]]
    return Arguments(leaves, tree, order, jax.tree_util.tree_structure(free[0] if isinstance(argnums, int) else free))


def _is_array(value: Any) -> bool:
    """Arrays and fractions are inputs; integers, truth values, text and functions are known when it is traced."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "O"
    return isinstance(value, float | np.floating | jax.Array)


def _check_free(name: str, value: Any) -> None:
    dtype = jax.numpy.result_type(value) if _is_array(value) or isinstance(value, int) else None
    if dtype is None or not jax.numpy.issubdtype(dtype, jax.numpy.floating):
        kind = dtype if dtype is not None else type(value).__name__
        raise EindiffError(f"derivatives are by real numbers; {name} has type {kind}")


def _names(f: Callable, paths: Sequence[tuple], count: int) -> list[str]:
    """Names for leaves: that of the argument, or the last key of the path if no other leaf has it."""
    positional = positional_names(f, count)
    short, full = [], []
    for path in paths:
        parts = [positional[path[1].idx] if path[0].idx == 0 else key_text(path[1]), *map(key_text, path[2:])]
        full.append("_".join(parts))
        short.append(parts[-1] if not parts[-1].isdigit() else "_".join(parts))
    names: list[str] = []
    for k, (brief, long) in enumerate(zip(short, full, strict=True)):
        name = identifier(brief if short.count(brief) == 1 else long)
        while name in names or name in RESERVED or iskeyword(name):
            name = f"{name}_{k}"
        names.append(name)
    return names


@dataclass(slots=True)
class Traced:
    """A function as expressions, for arguments of certain shapes and types."""

    outputs: list[Expr]
    out_tree: Any
    out_types: list[Any]
    aux: list[Value]
    aux_tree: Any
    aux_types: list[Any]  # None for what is no array
    free: list[Variable]
    free_types: list[Any]
    free_tree: Any
    inputs: list[tuple[int, str]]  # numbers of leaves, and the variables that they are
    hidden: dict[str, Any]  # arrays of constants that are variables
    stopped: dict[Expr, Expr]
    opaque: dict[str, str]
    outside: list[Expr]  # numbers that are 0 if all indices are in range
    is_lasting: bool  # whether it does not depend on a program around it

    @property
    def values(self) -> list[Expr]:
        """The results as expressions, those beside the outputs included."""
        return self.finished([*self.outputs, *(x for x in self.aux if isinstance(x, Expr))])

    @property
    def structure(self) -> Any:
        """The trees and types of all results."""
        return self.out_tree, self.aux_tree, [*self.out_types, *(kind for kind in self.aux_types if kind is not None)]

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays of constants that are variables."""
        return {name: held(array) for name, array in self.hidden.items()}

    def finished(self, exprs: list[Expr]) -> list[Expr]:
        """Derivatives with the values that counted as constant put in."""
        while self.stopped and any(v in self.stopped for v in variables(*exprs)):
            exprs = substituted(exprs, self.stopped)
        return exprs


def trace(
    f: Callable, arguments: Arguments, known: frozenset[int], has_aux: bool, visible: Mapping[str, Seen]
) -> tuple[Traced, frozenset[int]]:
    """A function as expressions, and which leaves had to be known for that: more than are given, if need be."""
    while True:
        try:
            return _trace(f, arguments, known, has_aux, visible), known
        except NeedsValueError as needed:
            more = {k for k, leaf in enumerate(arguments.leaves) if leaf.name in needed.names}
            known |= more
        except CONCRETE as error:
            others = {k for k, leaf in enumerate(arguments.leaves) if leaf.is_array and not leaf.is_free} - known
            if not others:
                raise RefusedError(
                    "the function asks for a value that is not known while it is read, for instance in `if`, `while` "
                    f"or as an index: {str(error).splitlines()[0]}"
                ) from error
            known |= others


def _trace(
    f: Callable, arguments: Arguments, known: frozenset[int], has_aux: bool, visible: Mapping[str, Seen]
) -> Traced:
    leaves = arguments.leaves
    moving = [k for k, leaf in enumerate(leaves) if leaf.is_array and k not in known]
    for k in known:
        _ = leaves[k].contents  # refuses what is not known here
    closed, shapes, trees = _program(f, arguments, moving, has_aux)
    tracers = frozenset(leaf.name for leaf in leaves if isinstance(leaf.value, jax.core.Tracer))
    found = Trace(frozenset(leaf.name for leaf in arguments.free), {leaf.name for leaf in leaves}, tracers=tracers)
    found.visible.update({identifier(name): value for name, value in visible.items()})
    inputs = [_input(leaves[k]) for k in moving]
    constants = [known_or_tracer(x) for x in closed.consts]
    results = found.run(closed.jaxpr, constants, inputs)
    count = len(shapes[0])
    _check_outputs(shapes[0], results)
    aux, aux_types = results[count:], [x.dtype for x in shapes[1]]
    for k, value in sorted(trees["static"].items()):
        aux.insert(k, value)
        aux_types.insert(k, None)
    free = [inputs[moving.index(k)] for k in arguments.places]
    return Traced(
        [found.expr(x) for x in results[:count]], trees["out"], [x.dtype for x in shapes[0]],
        aux, trees["aux"], aux_types,
        free, [jax.typeof(leaf.value).dtype for leaf in arguments.free], arguments.free_tree,
        [(k, leaves[k].name) for k in moving], found.hidden, found.stopped, found.opaque, found.outside,
        not any(isinstance(x, jax.core.Tracer) for x in closed.consts),
    )  # fmt: skip


def _program(f: Callable, arguments: Arguments, moving: Sequence[int], has_aux: bool) -> tuple[Any, Any, dict]:
    """A function as JAX's program of some leaves; the shapes of what it gives; and the trees, with what is no array."""
    leaves = arguments.leaves
    trees: dict[str, Any] = {}

    def flat(*given: Any) -> tuple[list, list]:
        values = [leaf.value for leaf in leaves]
        for k, value in zip(moving, given, strict=True):
            values[k] = value
        args, kwargs = jax.tree_util.tree_unflatten(arguments.tree, values)
        result, aux = f(*args, **kwargs) if has_aux else (f(*args, **kwargs), ())
        outputs, trees["out"] = jax.tree_util.tree_flatten(result)
        extra, trees["aux"] = jax.tree_util.tree_flatten(aux)
        trees["static"] = {k: x for k, x in enumerate(extra) if not _is_result(x)}
        return outputs, [x for x in extra if _is_result(x)]

    closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*(_abstract(leaves[k].value) for k in moving))
    return closed, shapes, trees


def plain_call(f: Callable, arguments: Arguments, traced: Traced, has_aux: bool) -> Call:
    """What JAX computes when the function is called again: by NumPy where that can, for few numbers, else compiled."""
    moving = [k for k, _ in traced.inputs]
    closed, shapes, trees = _program(f, arguments, moving, has_aux)
    inputs = [arguments.leaves[k].value for k in moving]
    beside = [x for x, kind in zip(traced.aux, traced.aux_types, strict=True) if kind is not None]
    count = len(shapes[0])

    def compared(results: Sequence[Any]) -> list[Any]:
        return [*results[:count], *(x for x, y in zip(results[count:], beside, strict=False) if isinstance(y, Expr))]

    def by_library() -> list[Any]:
        return compared(_computed(closed, inputs))

    structure = (trees["out"], trees["aux"], [x.dtype for part in shapes for x in part])
    precision = _least_precision(closed.jaxpr)
    if _numbers_in(closed.jaxpr) < FEW:
        try:
            return Call(compared(numbers(closed, inputs)), structure, [], precision, by_library)
        except NoNumbersError:
            pass
    return Call(by_library(), structure, [], precision)


def _computed(closed: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """What a program computes, compiled as a whole, which takes less time than its parts.

    Arrays that the function finds around it are inputs of this program, as JAX's compiler is slow with constants. What
    is computed once, of few numbers, is not worth any optimization.
    """
    run = jax.jit(lambda constants, given: jax.core.eval_jaxpr(closed.jaxpr, constants, *given))
    program = _compiled(run.lower(closed.consts, inputs), _numbers_in(closed.jaxpr) < MANY)
    with jax.ensure_compile_time_eval():
        return program(closed.consts, inputs)


def _compiled(lowered: jax.stages.Lowered, is_small: bool) -> jax.stages.Compiled:
    if is_small and jax.default_backend() == "cpu":
        try:
            return lowered.compile(QUICK)
        except jax.errors.JaxRuntimeError:  # a version that has no such option
            pass
    return lowered.compile()


def _numbers_in(jaxpr: jex.Jaxpr) -> int:
    """How many numbers a program computes, one turn of its loops."""
    own = sum(prod(x.aval.shape) for equation in jaxpr.eqns for x in equation.outvars)
    return own + sum(map(_numbers_in, jex.subjaxprs(jaxpr)))


def _least_precision(jaxpr: jex.Jaxpr) -> float:
    """That of the numbers with the fewest digits in a program."""
    own = [precision_of(x.aval) for equation in jaxpr.eqns for x in equation.outvars]
    return max([0.0, *own, *map(_least_precision, jex.subjaxprs(jaxpr))])


def _is_result(value: Any) -> bool:
    return _is_array(value) or isinstance(value, bool | int | complex | np.generic)


def _abstract(value: Any) -> jax.ShapeDtypeStruct:
    aval = jax.typeof(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _input(leaf: Leaf) -> Value:
    """The variable of a leaf."""
    aval = jax.typeof(leaf.value)
    if jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended):
        raise RefusedError(f"{leaf.name}: {REFUSED['random_bits']}")
    if 0 in aval.shape:
        raise RefusedError(f"{leaf.name} is an array without entries")
    if jax.numpy.issubdtype(aval.dtype, jax.numpy.complexfloating):
        raise RefusedError(f"{leaf.name} has complex numbers")
    return construct.variable(leaf.name, tuple(aval.shape))


def _check_outputs(shapes: Sequence[Any], results: Sequence[Value]) -> None:
    for shape in shapes:
        if not is_real(shape.dtype):
            raise RefusedError(f"the function gives values of type {shape.dtype}; derivatives are of real numbers")
        if 0 in shape.shape:
            raise RefusedError("the function gives an array without entries")
