"""Derivatives of traced JAX functions: what is wanted, the program for it, and the values in JAX's trees and types."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, update_wrapper
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eindiff.calculus import contracted, derive
from eindiff.core.derivation import same_derivative
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, topological
from eindiff.core.recent import Recent
from eindiff.program.interpreter import flatten
from eindiff.structure.compile import compile
from eindiff.tracing.front_ends import SMALL, Lowered, hessian_product
from eindiff.tracing.jax.closures import JaxSurroundings
from eindiff.tracing.jax.function import Arguments, Traced, plain_call, read_arguments, trace
from eindiff.tracing.jax.opaque import is_opaque_derivative
from eindiff.tracing.verify import compare, interpreter

ArgNums = int | Sequence[int]
LARGE = 2000  # entries of the Jacobian of an opaque function


# Functions that are read once


@dataclass(slots=True)
class Record:
    """A function for arguments of certain shapes: its expressions, and the programs that were made of them."""

    traced: Traced
    key: Any = None  # by which it is remembered
    seen: int = 0  # bytes of the arrays around the function
    programs: dict[str, Any] = field(default_factory=dict)
    is_verified: bool = False  # whether its value was compared with that of a plain call


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error without the frames that it came from, which hold arrays."""

    kind: type[EindiffError]
    message: str


_records: Recent[Record] = Recent()
_policies: Recent[frozenset[int] | Refusal] = Recent()  # which leaves have to be known


def _record(
    f: Callable, arguments: Arguments, has_aux: bool, argnums: ArgNums, verify: bool = False
) -> tuple[Record, bool]:
    """The function for these arguments, traced if it is new, and whether it was."""
    wanted = argnums if isinstance(argnums, int) else tuple(argnums)
    surroundings = JaxSurroundings(f)
    kind = (surroundings.key, wanted, has_aux, jax.config.jax_enable_x64, arguments.key)
    known = _policies.get(kind) or frozenset[int]()
    if isinstance(known, Refusal):
        raise known.kind(known.message)
    found = _records.get((kind, arguments.rest_key(known)))
    if found is not None:
        if verify and not found.is_verified:
            _verify(f, found, arguments, has_aux)
        return found, False
    try:
        traced, known = trace(f, arguments, known, has_aux, surroundings.visible())
    except EindiffError as error:
        _policies.keep(kind, Refusal(type(error), str(error)))
        raise
    for name, place in traced.opaque.items():
        message = f"{name} at {place} has no closed form here: JAX computes and differentiates it"
        warnings.warn(message, UserWarning, stacklevel=4)
    record = Record(traced)
    if verify:
        _verify(f, record, arguments, has_aux)
    if traced.is_lasting:
        arrays = [array for _, array in surroundings.arrays.values()]
        record.key, record.seen = (kind, arguments.rest_key(known)), sum(array.nbytes for array in arrays)
        _policies.keep(kind, known)
        own = sum(x.nbytes for x in traced.hidden.values() if isinstance(x, np.ndarray))
        _records.keep(record.key, record, own, arrays)
    return record, True


def _verify(f: Callable, record: Record, arguments: Arguments, has_aux: bool) -> None:
    """Compare the traced function with itself, if there are numbers to do so: not inside of jax.jit, vmap or grad."""
    traced = record.traced
    arrays = {name: arguments.leaves[k].value for k, name in traced.inputs} | traced.constants
    if not traced.is_lasting or any(isinstance(x, jax.core.Tracer) for x in arrays.values()):
        return
    program = Program([*traced.values])
    is_outside = bool(traced.outside) and sum(Program(traced.finished(traced.outside)).run(arrays)) > 0
    if not is_outside:  # else JAX has rules of its own, and derivatives are NaN
        plain = partial(plain_call, f, arguments, traced, has_aux)
        is_local = all(map(_is_local, arrays.values()))
        quick = interpreter(traced.values, program.run) if is_local else None
        compare(f, program.run, arrays, plain, traced.structure, not is_local, quick)
    record.is_verified = True


# What is computed


@dataclass
class Program:
    """Expressions, compiled, and how the values become the result."""

    exprs: Any  # nested lists
    form: str = "dense"
    compiled: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def is_better_by_jax(self) -> bool:
        """Whether there are large Jacobians of opaque functions, which JAX would not form if it did all itself."""
        exprs = [x for x in flatten(self.exprs) if isinstance(x, Expr)]
        return any(prod(map(int, x.shape)) > LARGE for x in topological(exprs) if is_opaque_derivative(x))

    def run(self, arrays: Mapping[str, Any]) -> Any:
        """The values of the expressions: by a NumPy program for numbers on the CPU, else by one of JAX."""
        library = "numpy" if all(_is_local(x) for x in arrays.values()) else "jax"
        if library not in self.compiled:
            self.compiled[library] = compile(self.exprs, backend=library, form=self.form)
        if library == "numpy":
            arrays = {name: _as_numpy(x) for name, x in arrays.items()}
        else:
            arrays = {name: _as_input(x) for name, x in arrays.items()}
        return self.compiled[library](**arrays)


def _is_local(x: Any) -> bool:
    if isinstance(x, jax.core.Tracer):
        return False
    return not isinstance(x, jax.Array) or all(device.platform == "cpu" for device in x.devices())


def _as_input(x: Any) -> Any:
    """A large constant as a value that JAX's compiler does not compute with: it is slow at that."""
    is_large = isinstance(x, np.ndarray) and x.size > SMALL
    return jax.lax.optimization_barrier(jnp.asarray(x)) if is_large else x


def _as_numpy(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array if array.dtype.kind in "biuf" and array.dtype.itemsize > 2 else array.astype(np.float32)


def jacobian_exprs(traced: Traced) -> list[list[Expr]]:
    """The derivative of each output by each variable."""
    return _put_in(traced, [derive.jacobian(y, traced.free) for y in traced.outputs])


def hessian_exprs(traced: Traced) -> list[list[list[Expr]]]:
    """The second derivatives of each output by each pair of variables, the second not after the first."""
    found = []
    for y in traced.outputs:
        gradients = derive.jacobian(y, traced.free)
        rows = [derive.jacobian(g, traced.free[: k + 1]) for k, g in enumerate(gradients)]
        found.append(_put_in(traced, rows))
    return found


def _put_in(traced: Traced, rows: list[list[Expr]]) -> list[list[Expr]]:
    """Derivatives with the values that counted as constant; they are still known as derivatives."""
    flat = iter(traced.finished([x for row in rows for x in row]))
    return [[same_derivative(next(flat), x) for x in row] for row in rows]


def _array(value: Any, dtype: Any) -> jax.Array:
    return jnp.asarray(value, dtype)


def _free(traced: Traced, values: Sequence[Any]) -> Any:
    """Values in the tree of the arguments that derivatives are by."""
    return jax.tree_util.tree_unflatten(traced.free_tree, list(values))


def _out(traced: Traced, values: Sequence[Any]) -> Any:
    """Values in the tree of the outputs."""
    return jax.tree_util.tree_unflatten(traced.out_tree, list(values))


def like_free(traced: Traced, values: Sequence[Any]) -> Any:
    return _free(traced, [_array(x, t) for x, t in zip(values, traced.free_types, strict=True)])


def value_result(traced: Traced, values: Sequence[Any]) -> Any:
    return _out(traced, [_array(x, t) for x, t in zip(values, traced.out_types, strict=True)])


def jacobian_result(traced: Traced, rows: Sequence[Sequence[Any]], forward: bool = False) -> Any:
    """Jacobians in JAX's trees and types: those of the output in forward mode, else those of the variable."""
    found = []
    for row, out_type in zip(rows, traced.out_types, strict=True):
        types = [out_type if forward else t for t in traced.free_types]
        found.append(_free(traced, [_array(x, t) for x, t in zip(row, types, strict=True)]))
    return _out(traced, found)


def hessian_result(traced: Traced, blocks: Sequence[Sequence[Sequence[Any]]]) -> Any:
    """Hessians in JAX's trees; blocks above the diagonal are those below it, transposed."""
    found = []
    for y, grid in zip(traced.outputs, blocks, strict=True):
        full: list[list[Any]] = [[None] * len(traced.free) for _ in traced.free]
        for i, row in enumerate(grid):
            for j, block in enumerate(row):
                full[i][j] = _array(block, traced.free_types[i])
                if i != j:
                    m, n = y.ndim, traced.free[i].ndim
                    axes = [*range(m), *range(m + n, block.ndim), *range(m, m + n)]
                    full[j][i] = _array(block.transpose(axes), traced.free_types[j])
        found.append(_free(traced, [_free(traced, row) for row in full]))
    return _out(traced, found)


def scalar_output(traced: Traced, what: str) -> Expr:
    """The one output, which has to be a number."""
    if len(traced.outputs) != 1 or traced.outputs[0].shape:
        shapes = ", ".join(str(tuple(y.shape)) for y in traced.outputs)
        raise EindiffError(f"{what} needs a function that gives one number; this one gives shape {shapes}")
    return traced.outputs[0]


def gradient_exprs(traced: Traced) -> list[Expr]:
    scalar_output(traced, "the gradient")
    return jacobian_exprs(traced)[0]


def diagonal_exprs(traced: Traced) -> list[Expr]:
    y = scalar_output(traced, "the diagonal of the Hessian")
    return traced.finished([contracted.hessian_diagonal(y, x) for x in traced.free])


def product_exprs(traced: Traced) -> list[Expr]:
    """The Hessian times a direction: the sum over the variables, each in its own direction."""
    y = scalar_output(traced, "the Hessian-vector product")
    return traced.finished(hessian_product(y, traced.free))


def grid_exprs(traced: Traced) -> list[list[Expr]]:
    """All blocks of the Hessian."""
    y = scalar_output(traced, "a structured Hessian")
    gradients = derive.jacobian(y, traced.free)
    return _put_in(traced, [derive.jacobian(g, traced.free) for g in gradients])


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted of a function: expressions, and what their values become."""

    name: str
    exprs: Callable[[Traced], Any]
    finish: Callable[[Traced, Any], Any]
    jax: Callable | None = None  # what does the same in JAX, for functions that cannot be read
    form: str = "dense"

    def program(self, record: Record) -> Program:
        """The program that computes it, with the values that are given back as they are."""
        if self.name not in record.programs:
            aux = [x for x in record.traced.aux if isinstance(x, Expr)]
            exprs = [self.exprs(record.traced)]
            if self.form == "dense":
                exprs += [record.traced.finished(aux), record.traced.finished(record.traced.outside)]
            elif aux:
                record.programs["aux"] = Program([record.traced.finished(aux)])
            record.programs[self.name] = Program(exprs, self.form)
        return record.programs[self.name]


class Transformed:
    """A function of the same arguments that gives derivatives.

    `lower(*args)` shows what runs; `traces` counts how often the function was read, which is once for each set of
    shapes, types and known values.
    """

    def __init__(
        self, f: Callable, argnums: ArgNums, has_aux: bool, request: Request, fallback: bool, holomorphic: bool = False,
        verify: bool = True,
    ) -> None:  # fmt: skip
        if holomorphic:
            raise EindiffError("holomorphic=True: there are no derivatives by complex numbers here")
        if not callable(f):
            raise EindiffError(f"expected a function, not {f!r}")
        update_wrapper(self, f, updated=())
        self._f, self._argnums, self._has_aux, self._request = f, argnums, has_aux, request
        self._fallback, self._verify = fallback, verify
        self.traces = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The derivatives at some arguments."""
        try:
            record, arguments = self._read(args, kwargs)
        except EindiffError:
            if not self._fallback or self._request.jax is None:
                raise
            return self._by_jax()(*args, **kwargs)
        if self._request.jax is not None and self._request.program(record).is_better_by_jax:
            return self._compiled_by_jax(record, arguments)
        return self._result(record, self._arrays(record, arguments))

    def _by_jax(self) -> Callable:
        """The same by JAX's own transformation."""
        assert self._request.jax is not None
        return self._request.jax(self._f, self._argnums, self._has_aux)

    def _compiled_by_jax(self, record: Record, arguments: Arguments) -> Any:
        """The result by JAX's own transformation, as a compiled function of the arrays among the arguments."""
        values = [leaf.value for leaf in arguments.leaves]
        places, tree = [k for k, _ in record.traced.inputs], arguments.tree
        known = {k: value for k, value in enumerate(values) if k not in places}
        transformed = self._by_jax()

        def run(given: list[Any]) -> Any:
            full = known | dict(zip(places, given, strict=True))
            args, kwargs = jax.tree_util.tree_unflatten(tree, [full[k] for k in range(len(full))])
            return transformed(*args, **kwargs)

        name = f"{self._request.name} by JAX"
        if name not in record.programs:
            record.programs[name] = run if self._has_aux else jax.jit(run)
            if record.key is not None:  # it holds the function now, and what that sees
                _records.keep(record.key, record, record.seen)
        return record.programs[name]([values[k] for k in places])

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The expressions and the program for arguments like these."""
        record, arguments = self._read(args, kwargs)
        self._result(record, self._arrays(record, arguments))
        return lowered(record.traced, self._request.program(record))

    def cache_info(self) -> dict[str, int]:
        """How often this function was traced, and how many functions are remembered in all."""
        return {"traces": self.traces, "remembered": len(_records)}

    def _read(self, args: tuple, kwargs: dict) -> tuple[Record, Arguments]:
        arguments = read_arguments(self._f, self._argnums, args, kwargs)
        record, is_new = _record(self._f, arguments, self._has_aux, self._argnums, self._verify)
        self.traces += is_new
        self._request.program(record)  # derivatives may bring constants of their own, which are inputs
        return record, arguments

    def _arrays(self, record: Record, arguments: Arguments) -> dict[str, Any]:
        given = {name: arguments.leaves[k].value for k, name in record.traced.inputs}
        return given | record.traced.constants

    def _result(self, record: Record, arrays: dict[str, Any]) -> Any:
        traced = record.traced
        program = self._request.program(record)
        values = program.run(arrays)
        result = self._request.finish(traced, values[0])
        if len(values) > 1 and values[2]:
            is_outside = sum(values[2]) > 0
            result = jax.tree_util.tree_map(lambda x: jnp.where(is_outside, jnp.nan, x), result)
        if not self._has_aux:
            return tuple(result) if isinstance(result, Valued) else result
        computed = values[1] if len(values) > 1 else record.programs["aux"].run(arrays)[0] if _has_exprs(traced) else []
        aux = _aux(traced, computed)
        return ((result[0], aux), *result[1:]) if isinstance(result, Valued) else (result, aux)


class Valued(tuple):
    """A value and its derivatives: what is given back beside the value stands next to it."""

    __slots__ = ()


def _has_exprs(traced: Traced) -> bool:
    return any(isinstance(x, Expr) for x in traced.aux)


def _aux(traced: Traced, computed: Sequence[Any]) -> Any:
    """What a function gives beside its value."""
    values = iter(computed)
    found = []
    for x, dtype in zip(traced.aux, traced.aux_types, strict=True):
        found.append(x if dtype is None else _array(next(values) if isinstance(x, Expr) else x, dtype))
    return jax.tree_util.tree_unflatten(traced.aux_tree, found)


def lowered(traced: Traced, program: Program) -> Lowered:
    """What runs, to be read."""
    function = _out(traced, traced.finished(traced.outputs))
    exprs = program.exprs[0]
    return Lowered(function, _single(exprs), dict(traced.opaque), exprs, next(reversed(program.compiled.values())))


def _single(exprs: Any) -> Any:
    while isinstance(exprs, list) and len(exprs) == 1:
        [exprs] = exprs
    return exprs
