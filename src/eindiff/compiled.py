"""Compiled expressions: a program for the sizes at hand, as a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from eindiff import sizes as sz
from eindiff.emit.module import Module, Program
from eindiff.errors import EindiffError, shape_text
from eindiff.evaluate import bind_from_unneeded, bind_sizes, check_symmetric, flatten, like, read_inputs
from eindiff.expr import Expr
from eindiff.planning import Plan, named

BACKENDS = ("numpy",)
DTYPES = ("float32", "float64")
RESERVED = ("out", "sizes")  # keywords of a call


class Compiled:
    """A function of arrays by name, which gives the outputs. A program is made at the first call with sizes of a kind.

    Arrays for names that are not needed are ignored, except that they may show sizes that no other array shows.
    """

    def __init__(self, outputs: Any, dtype: str | None, sizes: Mapping[str, int]) -> None:
        self.exprs = flatten(outputs)
        self.dtype = dtype
        self._outputs = outputs
        self._single = isinstance(outputs, Expr)
        self._module = Module(named(self.exprs), "f", RESERVED)
        self._names = [v.name for v in self._module.inputs]
        self._given = dict(sizes)
        self._symmetric = [v.name for v in self._module.inputs if v.symmetries]
        self._calls: dict[tuple, _Call] = {}  # by the shapes and types of arrays
        self._programs: dict[tuple, tuple[Program, Callable]] = {}  # by type and kind of sizes
        for name in RESERVED:
            if name in self._names:
                raise EindiffError(f"a variable cannot be named {name} in a compiled expression: it has another meaning")
        if self._module.size_names <= set(self._given):
            self._program(self._given, dtype or "float64")

    def __call__(self, *, out: Any = None, sizes: Mapping[str, int] | None = None, **arrays: Any) -> Any:
        """The outputs. `out` is an array (or a list of arrays) that takes them; `sizes` are those no array shows."""
        values: Sequence[Any]
        try:
            values = [arrays[name] for name in self._names]
            call = self._calls[tuple([(value.shape, value.dtype) for value in values])] if sizes is None else None
        except (KeyError, AttributeError):
            call = None
        if call is None:
            call = self._bind(arrays, sizes or {})
        if call.convert:
            values = [np.asarray(arrays[name], call.dtype) for name in self._names]
        for name in self._symmetric:
            check_symmetric(name, np.asarray(arrays[name]))
        buffers = call.buffers(out) if out is not None else {}
        with np.errstate(all="ignore"):
            results = call.function(*values, **call.keywords, **buffers)
        return results if self._single else like(self._outputs, iter(results if len(self.exprs) > 1 else [results]))

    def plan(self, sizes: Mapping[str, int] | None = None) -> Plan:
        """The program for some sizes, with what it costs; without sizes the one that was used last."""
        if sizes is None and self._programs:
            return Plan(next(reversed(self._programs.values()))[0])
        wanted = {**self._given, **(sizes or {})}
        if missing := sorted(self._module.size_names - set(wanted)):
            raise EindiffError(f"the plan depends on the sizes {', '.join(missing)}: give them, or call the function once")
        return Plan(self._program(wanted, self.dtype or "float64")[0])

    @property
    def source(self) -> str:
        """The program that was used last; before the first call, if sizes are not given, one for all sizes."""
        if not self._programs:
            return self._module.source()
        return next(reversed(self._programs.values()))[0].source

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name} ({shape_text(v.shape)})" for v in self._module.inputs)
        results = ", ".join(shape_text(x.shape) for x in self.exprs)
        return f"<compiled function of {inputs or 'nothing'}: {results}>"

    def _program(self, sizes: Mapping[str, int], dtype: str) -> tuple[Program, Callable]:
        """The program for sizes of the same kind as these."""
        kind = (dtype, *(_kind(sizes[name]) for name in sorted(self._module.size_names)))
        if kind not in self._programs:
            program = self._module.program(sizes, dtype, exact=True)
            namespace: dict[str, Any] = {}
            exec(program.source, namespace)
            self._programs[kind] = (program, namespace["f"])
        return self._programs[kind]

    def _bind(self, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> _Call:
        """Check the arrays, find their sizes, and what runs for arrays like these."""
        bindings = bind_sizes(read_inputs(self.exprs, arrays), {**self._given, **sizes})
        bind_from_unneeded(self.exprs, arrays, bindings)
        if missing := [name for name in self._module.unseen if name not in bindings]:
            raise EindiffError(f"no array shows the size {missing[0]}: give it as sizes={{'{missing[0]}': ...}}")
        found = [np.asarray(arrays[name]) for name in self._names]
        dtype = np.dtype(self.dtype or _common_type(found))
        function = self._program(bindings, dtype.name)[1]
        keywords = {self._module.names.sizes[name]: bindings[name] for name in self._module.unseen}
        shapes = [tuple([sz.evaluate(size, bindings) for size in x.shape]) for x in self.exprs]
        convert = any(x.dtype != dtype for x in found) or any(not isinstance(arrays[n], np.ndarray) for n in self._names)
        names = list(self._module.names.outputs.values())
        call = _Call(function, dtype, convert, keywords, dict(zip(names, shapes, strict=True)))
        if set(keywords) <= set(self._given) and not sizes:
            self._calls[tuple([(x.shape, x.dtype) for x in found])] = call
        return call


@dataclass(frozen=True, slots=True)
class _Call:
    """What runs for arrays of certain shapes and types."""

    function: Callable
    dtype: np.dtype
    convert: bool  # whether arrays have to be converted first
    keywords: dict[str, int]  # sizes that no array shows
    shapes: dict[str, tuple[int, ...]]  # of the outputs

    def buffers(self, out: Any) -> dict[str, np.ndarray]:
        """The arrays that take the outputs, as keywords."""
        given = [out] if isinstance(out, np.ndarray) else _arrays(out)
        if len(given) != len(self.shapes):
            raise EindiffError(f"out has {len(given)} arrays for {len(self.shapes)} outputs")
        for array, shape in zip(given, self.shapes.values(), strict=True):
            if array.shape != shape or array.dtype != self.dtype:
                raise EindiffError(
                    f"out must be an array of shape {shape_text(shape)} and type {self.dtype}, "
                    f"not {shape_text(array.shape)} and {array.dtype}"
                )
        single = len(given) == 1
        return {"out" if single else f"out_{name}": array for name, array in zip(self.shapes, given, strict=True)}


def _arrays(out: Any) -> list[np.ndarray]:
    """Arrays from nested lists of them."""
    if isinstance(out, np.ndarray):
        return [out]
    if isinstance(out, list | tuple):
        return [array for part in out for array in _arrays(part)]
    raise EindiffError(f"out is an array or a list of arrays, not {out!r}")


def _kind(size: int) -> int:
    """Sizes of one kind share a program: none, one, and those between powers of two."""
    return size if size < 2 else 1 + size.bit_length()


def _common_type(arrays: Sequence[np.ndarray]) -> str:
    """float32 if all numbers with a fraction have it, else float64."""
    types = {x.dtype for x in arrays if x.dtype.kind == "f"}
    return "float32" if types == {np.dtype(np.float32)} else "float64"


def compile(
    outputs: Any, backend: str = "numpy", dtype: Any = None, sizes: Mapping[str, int] | None = None,
) -> Compiled:  # fmt: skip
    """A fast function for an expression, or for a list of them (which share work): call it with arrays by name.

    The program is made for the sizes of the arrays of the first call, or at once if all `sizes` are given. Without
    `dtype`, results are float32 if all arrays are, else float64. Equal requests give the same function.

    >>> import numpy as np
    >>> import eindiff as ed
    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> f = ed.compile(ed.gradient(ed.norm2(A @ x) ** 2, x))
    >>> f(A=np.eye(2), x=np.array([3.0, 4.0]))
    array([6., 8.])
    >>> print(f.source)
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(A, x, out=None):
        m, n = A.shape
        return ...
    """
    if backend not in BACKENDS:
        raise EindiffError(f"backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    name = None if dtype is None else np.dtype(dtype).name
    if name not in (None, *DTYPES):
        raise EindiffError(f"dtype {name}: choose one of {', '.join(DTYPES)}")
    return _compiled(_hashable(outputs), name, tuple(sorted((sizes or {}).items())))


def _hashable(outputs: Any) -> Any:
    return tuple([_hashable(x) for x in outputs]) if isinstance(outputs, list | tuple) else outputs


@lru_cache(maxsize=256)
def _compiled(outputs: Any, dtype: str | None, sizes: tuple[tuple[str, int], ...]) -> Compiled:
    return Compiled(outputs, dtype, dict(sizes))
