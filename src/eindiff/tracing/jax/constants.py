"""Values that are known while a program is read: folded with NumPy, and as constants of expressions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from eindiff.core import construct
from eindiff.core.index_relations import Lower
from eindiff.core.nodes import Expr
from eindiff.functions.sparse_constants import by_places
from eindiff.tracing.closures import MOST_WRITTEN
from eindiff.tracing.jax.numbers import BY_NUMPY, NoNumbersError, inside, numbers, variables_in

# What comes from NumPy exactly as from JAX. All else differs in the last bits, or is left to JAX, which compiles it.
FOLDED_BY_NUMPY = frozenset({
    "add", "sub", "mul", "div", "neg", "abs", "square", "sqrt", "sign", "floor", "ceil", "round", "max", "min", "clamp",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor", "is_finite", "copy", "copy_p", "stop_gradient",
    "convert_element_type", "broadcast_in_dim", "iota", "reshape", "squeeze", "transpose", "slice",
    "dynamic_slice", "gather", "pad", "concatenate", "split", "stack", "select_n", "sort", "rev", "argmax", "argmin",
    "reduce_and", "reduce_or", "reduce_max", "reduce_min", "cummax", "cummin",
})  # fmt: skip
WHOLE_NUMBERS = frozenset({"reduce_sum", "reduce_prod", "cumsum", "cumprod"})  # and these, if they have no fractions
JUMPS = frozenset({
    "floor", "ceil", "round", "sign", "eq", "ne", "lt", "le", "gt", "ge", "argmax", "argmin", "rem", "sort", "top_k",
    "nextafter", "bitcast_convert_type",
})  # fmt: skip

# The least that JAX's compiler can do, for programs that compute fewer than so many numbers; and how many numbers NumPy
# computes before even that has started.
QUICK = {
    "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1,
}  # fmt: skip
MOST_QUICK, MOST_BY_NUMPY = 2**18, 2**22


def folded(eqn: Any, values: Sequence[Any]) -> list[Any]:
    """What an equation gives for known values."""
    if _is_numpys(eqn) and all(isinstance(x, np.ndarray | np.generic) for x in values):
        with np.errstate(all="ignore"), suppress(NoNumbersError):
            found = BY_NUMPY[eqn.primitive.name](*values, **eqn.params)
            results = found if eqn.primitive.multiple_results else [found]
            return [np.asarray(x, dtype=y.aval.dtype) for x, y in zip(results, eqn.outvars, strict=True)]
    with jax.ensure_compile_time_eval():  # also while a program around this one is being traced
        return [as_known(x) for x in as_function(eqn)(*values)]


def _is_numpys(eqn: Any) -> bool:
    """Whether NumPy gives the same bits."""
    name = eqn.primitive.name
    kinds = {np.dtype(x.aval.dtype).kind for x in eqn.invars if not _is_key(x.aval)}
    if name in WHOLE_NUMBERS:
        return kinds <= set("iu")
    return name in FOLDED_BY_NUMPY or name == "platform_index"


def is_steady(jaxpr: Any) -> bool:
    """Whether the last bits of known values decide nothing: none that may differ in these is compared or rounded."""
    try:
        _rough(jaxpr, [False] * len(jaxpr.constvars), [None] * len(jaxpr.invars))
    except _JumpError:
        return False
    return True


class _JumpError(Exception):
    """The last bits of a value decide what becomes of others."""


def _rough(jaxpr: Any, constants: Sequence[bool | None], args: Sequence[bool | None]) -> list[bool | None]:
    """Whether results may differ in their last bits; None for what is not known while the program is read."""
    found = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *args], strict=True))

    def read(x: Any) -> bool | None:
        return False if isinstance(x, jex.Literal) else found[x]

    for eqn in jaxpr.eqns:
        inner, args = inside(eqn)
        given, name = [read(x) for x in args], eqn.primitive.name
        if inner is not None:
            body, count = getattr(inner, "jaxpr", inner), len(getattr(inner, "consts", ()))
            found.update(zip(eqn.outvars, _rough(body, [False] * count, given), strict=True))
            continue
        is_rough = None if None in given else True in given or _by_jax(eqn)
        if is_rough and (True in given or name not in JUMPS) and _jumps(eqn):
            raise _JumpError
        found.update(dict.fromkeys(eqn.outvars, is_rough))
    return [read(x) for x in jaxpr.outvars]


def _jumps(eqn: Any) -> bool:
    """Whether an equation, or one inside of it, is not continuous."""
    name = eqn.primitive.name
    is_whole = name == "convert_element_type" and np.dtype(eqn.params["new_dtype"]).kind in "biu"
    return name in JUMPS or is_whole or any(_jumps(x) for p in jex.jaxprs_in_params(eqn.params) for x in p.eqns)


def folded_together(jaxpr: Any, values: Mapping[Any, Any], is_steady: bool, is_inside: bool) -> dict[Any, Any]:
    """What NumPy does not compute in the same bits of the known values of a program: if nothing depends on their last
    bits by NumPy all the same, or, where they are many, by the program around it; else compiled at once by JAX. The
    rest is left to be folded, if something needs it."""
    given = {x for x, value in values.items() if not isinstance(value, Expr | jax.core.Tracer)}
    found = _known_equations(jaxpr, given)
    slow = [eqn for eqn in found if _by_jax(eqn)]
    if not slow:
        return {}
    used = {x for eqn in found for x in variables_in(eqn.invars)}
    inputs, outputs = [x for x in given if x in used], [x for eqn in slow for x in eqn.outvars]
    info = jex.DebugInfo("known", "known", None, None)
    closed = jex.ClosedJaxpr(jex.Jaxpr((), inputs, outputs, found, set(), info), ())
    arrays = [values[x] for x in inputs]
    results = _by_numpy(closed, arrays) if is_steady else None
    if results is None and is_steady and is_inside:
        results = jax.core.eval_jaxpr(closed.jaxpr, (), *arrays)
    found_values = map(known_or_tracer, computed(closed, arrays) if results is None else results)
    return dict.fromkeys(_idle(jaxpr, found, set(outputs))) | dict(zip(outputs, found_values, strict=True))


def _known_equations(jaxpr: Any, given: Collection[Any]) -> list[Any]:
    """The equations that need nothing but some variables."""
    known, found = set(given), []
    for eqn in jaxpr.eqns:
        if not eqn.effects and known.issuperset(variables_in(eqn.invars)):
            known.update(eqn.outvars)
            found.append(eqn)
    return found


def _idle(jaxpr: Any, known: Sequence[Any], there: set[Any]) -> list[Any]:
    """What known equations give that nothing needs as soon as some values are there."""
    own = set(map(id, known))
    needed = {x for eqn in jaxpr.eqns if id(eqn) not in own for x in variables_in(eqn.invars)}
    needed.update(variables_in(jaxpr.outvars))
    idle: list[Any] = []
    for eqn in reversed(known):
        if needed.isdisjoint(eqn.outvars):
            idle += eqn.outvars
        elif there.isdisjoint(eqn.outvars):
            needed.update(variables_in(eqn.invars))
    return idle


def _by_numpy(closed: Any, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """What a program computes, if NumPy has all that is in it and it is small."""
    if numbers_in(closed.jaxpr) < MOST_BY_NUMPY and not any(map(_is_key, inputs)):
        with suppress(NoNumbersError):
            return numbers(closed, inputs)
    return None


def _by_jax(eqn: Any) -> bool:
    """Whether NumPy does not compute all of an equation in the same way."""
    own, _ = inside(eqn)
    inner = list(jex.jaxprs_in_params(eqn.params)) if own is None else [getattr(own, "jaxpr", own)]
    return any(_by_jax(x) for program in inner for x in program.eqns) if inner else not _is_numpys(eqn)


def as_function(eqn: Any) -> Callable[..., list[Any]]:
    """One equation of a program as a function of the values of its arguments, which JAX can differentiate."""
    names = [jex.Var(x.aval) for x in eqn.invars]
    info = jex.DebugInfo("equation", eqn.primitive.name, None, None)
    inner = jex.Jaxpr((), names, eqn.outvars, [eqn.replace(invars=names)], eqn.effects, info)
    return jex.jaxpr_as_fun(jex.ClosedJaxpr(inner, ()))


def as_known(value: Any) -> Any:
    """A known value as a NumPy array; what NumPy cannot hold, such as a key of random numbers, stays as it is."""
    return value if isinstance(value, jax.Array) and _is_key(value) else np.asarray(value)


def known_or_tracer(value: Any) -> Any:
    """A constant of a program: known, unless it belongs to a program around it that is being traced."""
    return value if isinstance(value, jax.core.Tracer) else as_known(value)


def _is_key(value: Any) -> bool:
    return jax.numpy.issubdtype(value.dtype, jax.dtypes.extended)


def computed(closed: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """What a program computes, compiled as a whole, which takes less time than its parts.

    Arrays that the function finds around it are inputs of this program, as JAX's compiler is slow with constants. What
    is computed once, of few numbers, is not worth any optimization.
    """
    run = jax.jit(lambda constants, given: jax.core.eval_jaxpr(closed.jaxpr, constants, *given))
    program = _compiled(run.lower(closed.consts, inputs), numbers_in(closed.jaxpr) < MOST_QUICK)
    with jax.ensure_compile_time_eval():
        return program(closed.consts, inputs)


def _compiled(lowered: jax.stages.Lowered, is_small: bool) -> jax.stages.Compiled:
    if is_small and jax.default_backend() == "cpu":
        try:
            return lowered.compile(QUICK)
        except jax.errors.JaxRuntimeError:  # a version that has no such option
            pass
    return lowered.compile()


def numbers_in(jaxpr: jex.Jaxpr) -> int:
    """How many numbers a program computes, one turn of its loops."""
    own = sum(prod(x.aval.shape) for equation in jaxpr.eqns for x in equation.outvars)
    return own + sum(map(numbers_in, jex.subjaxprs(jaxpr)))


def constant(array: np.ndarray, hidden: Callable[[np.ndarray], Expr]) -> Expr:
    """An array as an expression: axes along which it is the same are left out, unit matrices and triangles are seen.

    `hidden` gives what stands for an array that is too large to be written down, or not finite.
    """
    kept = [k for k, size in enumerate(array.shape) if size > 1 and not _is_same_along(array, k)]
    core = array[tuple(slice(None) if k in kept else 0 for k in range(array.ndim))]
    sizes = dict(enumerate(array.shape))
    return construct.einsum(1, [(_core(core, hidden), tuple(kept))], tuple(sizes), sizes)


def _is_same_along(array: np.ndarray, axis: int) -> bool:
    if array.strides[axis] == 0:
        return True
    first = np.take(array, [0], axis=axis)
    return bool((np.take(array, [-1], axis=axis) == first).all() and (array == first).all())


def _core(array: np.ndarray, hidden: Callable[[np.ndarray], Expr]) -> Expr:
    if not np.isfinite(array).all():
        return hidden(array)
    if array.ndim == 0:
        return construct.filled(array.item(), ())
    if array.ndim == 2 and array.shape[0] == array.shape[1] and (structure := _structured(array)) is not None:
        return structure
    if array.size <= MOST_WRITTEN:
        return construct.constant(array)
    places = by_places(array, lambda values: _core(values, hidden))
    return hidden(array) if places is None else places


def _structured(array: np.ndarray) -> Expr | None:
    """A multiple of the identity, or of a triangle of ones."""
    n, corner = len(array), array[0, 0].item()
    if not corner or not np.isin(array[[0, -1]], (0, corner)).all():
        return None
    if np.array_equal(array, corner * np.eye(n)):
        return construct.einsum(corner, [], (0, 0), {0: n})
    lower = construct.constant(Lower(n))
    for triangle, labels in ((np.tri(n), (0, 1)), (np.tri(n).T, (1, 0))):
        if np.array_equal(array, corner * triangle):
            return construct.einsum(corner, [(lower, labels)], (0, 1), {0: n, 1: n})
    return None
