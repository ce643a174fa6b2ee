"""Plain NumPy functions as expressions: called once with symbolic arrays in place of their arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from inspect import getclosurevars
from linecache import getline
from pathlib import Path
from traceback import walk_tb
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Constant, Expr, topological
from eindiff.core.rebuild import substituted
from eindiff.core.recent import once
from eindiff.functions.multilinear import as_expr
from eindiff.structure.compile import compile
from eindiff.tracing.names import VariableNames, argument_names, function_name
from eindiff.tracing.numpy.buffers import new_memory
from eindiff.tracing.numpy.calls import PROTOCOLS
from eindiff.tracing.numpy.protocol import NeedsValueError
from eindiff.tracing.numpy.traced_array import TracedArray, argument, has_traced, joined, unwrapped
from eindiff.tracing.numpy.trees import flatten, leaves_of, map_leaves, map_named
from eindiff.tracing.numpy.views import View, random_states
from eindiff.tracing.unsupported import RANDOM
from eindiff.tracing.verify import Call, Change, compare, interpreter

MOST_INLINE = 64  # entries from which a captured array is an input of the program, not written into it

for _name, _function in PROTOCOLS.items():
    setattr(TracedArray, _name, _function)

# Tracing

_ENTRIES = (
    "a NumPy array cannot take symbolic entries one by one: join them with np.stack, np.concatenate or np.array, "
    "or make the array with np.zeros_like of a symbolic one"
)
_SIZES = "sizes that are names are text: give numbers, if the function computes with them"
_OBJECTS = "an array that np.array makes of symbolic numbers in a method holds objects: join them with np.stack instead"

# What NumPy and Python say where there is more to say
_COMPILED = (
    "compiled code (of Cython, C or Numba) takes numbers only: write that part with NumPy, or use the library's own "
    "derivative for it"
)
_HINTS = {
    "a bytes-like object is required": _COMPILED,
    "No matching signature found": _COMPILED,
    "has incorrect type (expected numpy.ndarray": _COMPILED,
    "Cannot convert TracedArray": _COMPILED,
    "setting an array element with a sequence": _ENTRIES,
    "unsupported operand type(s) for": _SIZES,
    "can only concatenate str": _SIZES,
    "'str' object cannot be interpreted": _SIZES,
    "loop of ufunc does not support": _OBJECTS,
    "dtype('O')": _OBJECTS,
}


def run(f: Callable, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a function with traced arrays; gives nested containers of expressions.

    If random numbers were drawn in the meantime (by methods, which see them as they are, or by another thread), it is
    called again: with the same result, it was not this function, or does not matter.
    """
    inputs, named = map_leaves(_fresh, list(args)), map_leaves(_fresh, keywords)
    states = random_states()
    found = _run(f, args, keywords)
    if random_states() != states and not _are_same(found, _run(f, inputs, named)):
        raise EindiffError(f"{function_name(f)} {RANDOM}", "tracing")
    return found


def _fresh(leaf: Any) -> Any:
    return copy(leaf) if has_traced(leaf) else leaf


def _are_same(one: Any, two: Any) -> bool:
    pairs = zip(leaves_of(one), leaves_of(two), strict=True)
    return all(a is b if isinstance(a, Expr) else repr(a) == repr(b) for a, b in pairs)


def _run(f: Callable, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    with new_memory() as memory:
        return _in_view(View(memory), f, args, keywords)


def _in_view(view: View, f: Callable, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a function that sees what a view shows."""
    function, inputs = view.callable(f), [view.of(value) for value in args]
    named = {name: view.of(value, name) for name, value in keywords.items()}
    try:
        found = function(*inputs, **named)
        return map_leaves(lambda leaf: unwrapped(joined(leaf)), found)
    except EindiffError as error:
        error.args = (f"{error}{user_line(error)}",)
        raise
    except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as error:
        hint = next((f"; {hint}" for text, hint in _HINTS.items() if text in str(error)), "")
        message = f"{function_name(f)} with symbolic arrays: {type(error).__name__}: {error}{hint}{user_line(error)}"
        if isinstance(error.__cause__, NeedsValueError):  # NumPy has asked for a value, and says so in its own words
            raise NeedsValueError(message, error.__cause__.expressions) from error
        raise UntraceableError(message) from error
    finally:
        view.keep()


class UntraceableError(EindiffError):
    """A function fails when it is traced; if it does so with arrays too, that is its own error."""

    code = "tracing"


def user_line(error: BaseException) -> str:
    """The innermost line of an error that is not NumPy's, SciPy's, Python's or ours, as ` (file.py:12: code)`."""
    lines = []
    for frame, number in walk_tb(error.__traceback__):
        name, module = frame.f_code.co_filename, frame.f_globals.get("__name__", "").partition(".")[0]
        is_own = module == "__main__" or module not in ("eindiff", "numpy", "scipy", *sys.stdlib_module_names)
        if is_own and (line := getline(name, number).strip()):  # compiled code has none
            lines.append(f" ({Path(name).name}:{number}: {line})")
    return lines[-1] if lines else ""


def output(f: Callable, leaf: Any) -> Expr:
    """A result as an expression."""
    if type(leaf).__name__ == "ComplexArray":
        raise EindiffError(f"{function_name(f)} returns complex numbers: return np.real and np.imag of them", "tracing")
    try:
        return as_expr(leaf)
    except (EindiffError, TypeError):
        raise EindiffError(f"{function_name(f)} must return numbers or arrays, not {leaf!r}", "tracing") from None


def symbolic(
    f: Callable, *shapes: Any, names: Sequence[str] | None = None, verify: bool = True, **keywords: Any
) -> Any:
    """The expression that a NumPy function computes, from the shapes of its arguments.

    A shape is a size (of a vector), a tuple of sizes (`()` for a scalar), an array that has it, or an expression, which
    is taken as it is; lists and dictionaries of these are passed on as such. Sizes are numbers or names. Variables are
    named after the parameters. Keywords go to the function as they are. Where all shapes are those of arrays, the value
    of the expression at these is compared with that of a plain call, unless `verify=False`.

    Args:
        f: a function of NumPy arrays
        *shapes: one for each of its arguments
        names: names of the variables, if not those of the parameters
        verify: whether the expression is compared with a plain call
        **keywords: passed on to the function

    >>> import numpy as np
    >>> ed.symbolic(lambda A, x: np.sum(np.exp(A @ x)), ("m", "n"), "n")
    einsum('i->', exp(einsum('ij,j->i', A, x)))

    See also: `gradient`, `hessian`.
    """
    used = VariableNames()
    arrays: dict[str, Any] = {}  # by the names of the variables; None where there is none
    given = argument_names(f, len(shapes)) if names is None else list(names)
    if len(given) != len(shapes):
        raise EindiffError(f"symbolic: {len(given)} names are given for {len(shapes)} shapes", "options")

    def declared(shape: Any, name: str) -> Any:
        if isinstance(shape, Expr):
            arrays[name] = None
            return argument(shape)
        variable = construct.variable(used.unused(name), _sizes_of(shape))
        arrays[variable.name] = array = shape if isinstance(shape, np.ndarray) else None
        return argument(variable, array, False)

    args = [map_named(declared, shape, name, _is_shape) for shape, name in zip(shapes, given, strict=True)]
    result = map_leaves(lambda leaf: output(f, leaf), run(f, args, keywords))
    if verify and all(array is not None for array in arrays.values()):
        exprs, structure = flatten(result)
        program = once(partial(compile, exprs))

        def value(given: Mapping[str, Any]) -> Sequence[Any]:
            return program()(**given)

        plain = partial(_plain, f, shapes, keywords)
        compare(f, value, arrays, plain, structure, interpreted=interpreter(exprs, value))
    return result


def _plain(f: Callable, args: Sequence[Any], keywords: Mapping[str, Any]) -> Call:
    """A call with copies of arrays."""

    def at(change: Change) -> tuple[list[Any], Any]:
        with np.errstate(all="ignore"):
            return flatten(f(*map_leaves(lambda x: np.copy(change(x)), args), **keywords))

    return Call(*at(lambda x: x), at=lambda change: at(change)[0])


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(size, int | str) for size in value)


def _sizes_of(shape: Any) -> tuple[Any, ...]:
    """A shape as a tuple: of the one size of a vector, of a list of sizes, of an array that has it."""
    if isinstance(shape, int | str):
        return (shape,)
    return tuple(shape) if _is_shape(shape) else np.shape(shape)


# Captured arrays


def _captured(f: Callable) -> dict[str, np.ndarray]:
    """The arrays that a function uses without getting them as arguments, by name."""
    try:
        found = getclosurevars(f)
    except (TypeError, ValueError):  # not a function of Python, or one with a name that nothing was given to yet
        return {}
    return {k: x for k, x in {**found.globals, **found.nonlocals}.items() if isinstance(x, np.ndarray)}


def lifted(f: Callable, outputs: Sequence[Expr], used: VariableNames) -> tuple[list[Expr], dict[str, np.ndarray]]:
    """Expressions with variables for large constants, and the arrays for these: programs need not write them down."""
    variables: dict[Expr, Expr] = {}
    values: dict[str, np.ndarray] = {}
    captured = _captured(f)
    for node in topological(outputs):
        if isinstance(node, Constant) and isinstance(node.value, np.ndarray) and node.value.size > MOST_INLINE:
            alike = (k for k, x in captured.items() if x.shape == node.shape and np.array_equal(x, node.value))
            name = used.unused(next(alike, "constant"))
            values[name], variables[node] = node.value, construct.variable(name, node.shape)
    return substituted(outputs, variables), values
