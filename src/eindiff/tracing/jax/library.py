"""JAX's arrays for traced functions: trees, types, what a function sees, and what JAX does itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, topological
from eindiff.core.recent import Recent, Same, Seen
from eindiff.tracing.closures import MOST_WRITTEN, Surroundings
from eindiff.tracing.computation import Computation
from eindiff.tracing.jax.function import check_known, is_array, leaf_names, plain_call, trace
from eindiff.tracing.jax.opaque import is_opaque_derivative, is_real
from eindiff.tracing.library import Arguments, Library, NeedsLeavesError, Traced
from eindiff.tracing.verify import Call

if TYPE_CHECKING:
    from eindiff.tracing.traced_function import TracedFunction

MOST_GIVEN = 2**14  # entries of values that are given together
REMEMBERED = 1024
MOST_IN_JACOBIAN = 2000  # of the Jacobian of an opaque function; JAX does not form it where it does all itself


class JaxSurroundings(Surroundings):
    """The key of a JAX function. JAX's arrays never change, so they are known by identity."""

    def array_key(self, value: Any) -> Any:
        return Same(value) if isinstance(value, jax.Array) else super().array_key(value)

    def visible(self) -> dict[str, Seen]:
        """The arrays of real numbers that the function sees, by the names that it has for them."""
        found: dict[str, Seen] = {}
        for name, value in self.arrays.values():
            is_known = not isinstance(value, jax.core.Tracer)
            if is_known and jnp.issubdtype(value.dtype, jnp.floating):
                found.setdefault(name, Seen(value))
        return found


def _leaf_key(value: Any) -> Any:
    """Leaves with the same key are read in the same way."""
    if not is_array(value):
        return ("static", type(value), _hashable(value))
    aval = jax.typeof(value)
    is_unknowable = isinstance(value, jax.core.Tracer) and not is_real(aval.dtype)
    return (tuple(aval.shape), aval.dtype, aval.weak_type, is_unknowable)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return value


class JaxLibrary(Library):
    """JAX's arrays; a function of them is read as a jaxpr."""

    name, surroundings, flatten = "JAX", JaxSurroundings, staticmethod(jax.tree_util.tree_flatten)

    def __init__(self) -> None:
        super().__init__()
        self._own_programs: Recent[Callable] = Recent()
        self._given: dict[tuple, None] = {}  # shapes and types of values that JAX was given, oldest first
        self._refusals: Recent[tuple[type[EindiffError], str]] = Recent()  # errors without frames, which hold arrays

    def read(self, function: TracedFunction, args: tuple, keywords: dict[str, Any]) -> Arguments:
        leaves, structure = jax.tree_util.tree_flatten((args, keywords))
        settings = (function.argnums, function.has_aux, jax.config.jax_enable_x64)
        return Arguments(args, keywords, leaves, structure, (settings, structure, tuple(map(_leaf_key, leaves))))

    def contents(self, function: TracedFunction, arguments: Arguments, k: int) -> Any:
        check_known(lambda: leaf_names(function.function, arguments)[k], arguments.leaves[k])
        return super().contents(function, arguments, k)

    def trace(
        self, function: TracedFunction, arguments: Arguments, known: frozenset[int], around: JaxSurroundings,
        before: Traced | None,
    ) -> Traced:  # fmt: skip
        key, (free, _) = (around.key, arguments.key), self.chosen(function, arguments)
        if (refusal := self._refusals.get(key)) is not None:
            kind, message = refusal
            raise kind(message)
        try:
            traced = trace(function.function, arguments, free, known, around.visible(), function.has_aux)
        except EindiffError as error:
            if not isinstance(error, NeedsLeavesError):
                self._refusals.keep(key, (type(error), str(error)))
            raise
        for name, place in traced.opaque.items():
            message = f"{name} at {place} has no closed form here: JAX computes and differentiates it"
            warnings.warn(message, UserWarning, stacklevel=7)
        return traced

    def plain_call(self, function: TracedFunction, arguments: Arguments, traced: Traced) -> Call:
        return plain_call(function.function, arguments, traced)

    def are_numbers(self, arrays: Mapping[str, Any]) -> bool:
        return not any(isinstance(x, jax.core.Tracer) for x in arrays.values())

    def is_accelerated(self, arrays: Mapping[str, Any]) -> bool:
        return not all(map(_is_local, arrays.values()))

    def inputs(self, arrays: Mapping[str, Any], form: str) -> tuple[str, Mapping[str, Any]]:
        """A program of NumPy is for numbers on the CPU, one of JAX for all others."""
        if all(map(_is_local, arrays.values())):
            return "numpy", {name: _as_numpy(x) for name, x in arrays.items()}
        return "jax", {name: _as_input(x) for name, x in arrays.items()}

    def typed(self, value: Any, dtype: Any, arrays: Mapping[str, Any]) -> Any:
        return value if dtype is None else jnp.asarray(value, dtype)

    def all_typed(self, values: Sequence[Any], types: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        """Small values of NumPy are given to JAX together, which takes it a third of the time, from the second time
        on: what does it has to be compiled."""
        key = tuple([(type(x), np.shape(x), dtype) for x, dtype in zip(values, types, strict=True)])
        if key in self._given and all(x.dtype == dtype for x, dtype in zip(values, types, strict=True)):
            return _given(values)
        if all(issubclass(kind, np.ndarray | np.generic) for kind, _, _ in key) and _size(key) <= MOST_GIVEN:
            self._given[key] = None
            if len(self._given) > REMEMBERED:
                del self._given[next(iter(self._given))]
        return super().all_typed(values, types, arrays)

    def type_of(self, leaf: Any) -> Any:
        return jax.typeof(leaf).dtype

    def spoiled(self, value: Any, outside: Any) -> Any:
        return jnp.where(outside > 0, jnp.nan, value)

    def problem(self, traced: Traced, k: int) -> str:
        if traced.types[k] is None or not is_real(traced.types[k]):
            kind = traced.types[k] or type(traced.outputs[k]).__name__
            return f"the function gives values of type {kind}; derivatives are of real numbers"
        return ""

    def check_numbers(self, what: str, outputs: Sequence[Expr], name: str) -> None:
        if len(outputs) != 1 or outputs[0].shape:
            shapes = ", ".join(str(tuple(y.shape)) for y in outputs)
            raise EindiffError(
                f"{what} needs a function that gives one number; this one gives shape {shapes}", "scalars"
            )

    def instead(self, function: TracedFunction, arguments: Arguments, traced: Traced, found: Computation) -> Any:
        """By JAX, compiled, where opaque functions have large Jacobians, which it does not form."""
        own = self.own(function)
        if found.is_better_elsewhere is None:
            found.is_better_elsewhere = _has_large_jacobian(found)
        if own is None or not found.is_better_elsewhere:
            return None
        places, leaves = list(traced.inputs), arguments.leaves
        program = self._own_programs.get(key := (Same(traced), function.kind, function.argnums))
        if program is None:
            known = {k: value for k, value in enumerate(leaves) if k not in traced.inputs}

            def run(given: list[Any]) -> Any:
                full = known | dict(zip(places, given, strict=True))
                args, keywords = arguments.structure.unflatten([full[k] for k in range(len(full))])
                return own(*args, **keywords)

            program = run if function.has_aux else jax.jit(run)
            size = sum(x.nbytes for _, x in self.surroundings(function.function).arrays.values())
            self._own_programs.keep(key, program, size)  # it holds the function now, and what that sees
        return [program([leaves[k] for k in places])]

    def own(self, function: TracedFunction) -> Callable | None:
        transform = None if function.options.structured else _OWN_TRANSFORMS.get(function.kind.name)
        if transform is None:
            return None
        return transform(function.function, argnums=function.argnums, has_aux=function.has_aux)


_OWN_TRANSFORMS: dict[str, Callable] = {
    "grad": jax.grad, "jacrev": jax.jacrev, "jacfwd": jax.jacfwd, "hessian": jax.hessian,
    "value_and_grad": jax.value_and_grad,
}  # fmt: skip


def _has_large_jacobian(found: Computation) -> bool:
    return any(prod(map(int, x.shape)) > MOST_IN_JACOBIAN for x in topological(found.exprs) if is_opaque_derivative(x))


def _size(key: Sequence[tuple[type, tuple[int, ...], Any]]) -> int:
    """The entries of all arrays."""
    return sum(prod(shape) for _, shape, _ in key)


@jax.jit
def _given(values: Sequence[Any]) -> list[Any]:
    """Arrays of NumPy as JAX's own."""
    return [jnp.copy(x) for x in values]


def _is_local(x: Any) -> bool:
    if isinstance(x, jax.core.Tracer):
        return False
    return not isinstance(x, jax.Array) or all(device.platform == "cpu" for device in x.devices())


def _as_input(x: Any) -> Any:
    """A large constant as a value that JAX's compiler does not compute with: it is slow at that."""
    is_large = isinstance(x, np.ndarray) and x.size > MOST_WRITTEN
    return jax.lax.optimization_barrier(jnp.asarray(x)) if is_large else x


def _as_numpy(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array if array.dtype.kind in "biuf" and array.dtype.itemsize > 2 else array.astype(np.float32)


JAX = JaxLibrary()
