"""Compiled expressions: a program for the sizes at hand, as a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import cache, lru_cache
from itertools import combinations
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.libraries import library_of
from eindiff.core.locks import reentrant_lock
from eindiff.core.nodes import Expr, plain, variables
from eindiff.core.recent import once
from eindiff.functions.indexing import index_range
from eindiff.functions.opaque import REGISTRY
from eindiff.program.costs import kind_of
from eindiff.program.foreign_arrays import converter, device_of, known, prepared, stand_ins
from eindiff.program.inputs import check, common_type, real_array
from eindiff.program.interpreter import bind_from_unneeded, bind_sizes, declared, read_inputs
from eindiff.program.plan import Plan, memory_in_use, named
from eindiff.program.threads import in_threads, with_one_thread
from eindiff.program.write.module import Module, Program

KEYWORDS_OF_CALL = ("out", "sizes")  # keywords of a call
NUMBERS = (float, int, bool)  # of Python, which stand for arrays
FEW_LINES = 12  # of a program that JAX reads wherever it stands
LOOPED = frozenset({"linalg", "special"})  # modules of JAX whose functions may have loops


class _Ignoring:
    """Runs functions in which NumPy does not warn of infinite values."""

    def copy(self) -> _Ignoring:
        """Itself: it has no state."""
        return self

    def run(self, function: Callable[..., Any], *values: Any, **keywords: Any) -> Any:
        """What the function gives."""
        with np.errstate(all="ignore"):
            return function(*values, **keywords)


def _quiet() -> Context | _Ignoring:
    """What runs programs that may divide by zero: a context, in a third of the time of `np.errstate`.

    Before NumPy 2 contexts do not have the state, and functions of the user may look for what is in theirs.
    """
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return _Ignoring()
    context = copy_context()
    context.run(np.seterr, all="ignore")
    return context


_QUIET = _quiet()
MAPPED = 2**25  # bytes of an array from which the system maps its memory anew, whatever was in use before


def _keep(memory: int) -> None:
    """Let as much memory as a program has in use at once stay with the process between its calls.

    The memory of arrays from 128 KiB on goes back to the system when they are gone, and so does more than that of all
    others together, until a larger array was there once: then twice its size is kept. To map memory anew takes as long
    as what a program of some products computes.
    """
    np.empty(min(4 * memory, MAPPED - 2**16), np.uint8)


class Parts(Protocol):
    """What a program computes in the place of outputs, for sizes of one kind."""

    exprs: list[Expr]


class Outputs(Protocol):
    """What a compiled function gives: expressions, in some form."""

    exprs: list[Expr]
    is_array: bool  # whether the value of the one expression is all

    def parts(self, exprs: Sequence[Expr], sizes: Mapping[str, int]) -> Parts | None:
        """What is computed for sizes of this kind, if not the expressions themselves."""
        ...

    def assembler(
        self, parts: Any, computed: Sequence[Expr], sizes: Mapping[str, int], dtype: np.dtype, is_numpy: bool
    ) -> Callable[[Sequence[Any]], Any]:
        """What makes the result from the arrays of the expressions, or of parts; they may be those of NumPy."""
        ...


class Compiled:
    """A function of arrays by name, which gives the outputs. A program is made at the first call with sizes of a kind.

    Arrays for names that are not needed are ignored, except that they may show sizes that no other array shows; and if
    none is needed, because the outputs are constant, these are of the library and type of those that are given.
    Arrays of variables with declared properties are held against these at each call (see `inputs`), where they are
    numbers in main memory, unless it was compiled with `validate=False`.

    >>> f = ed.compile(ed.sum(ed.vector("x", "n") ** 2))
    >>> float(f(x=np.array([3.0, 4.0])))
    25.0

    See also: `compile`.
    """

    def __init__(
        self, outputs: Outputs, dtype: str | None, sizes: Mapping[str, int], form: str, backend: str | None,
        made: Mapping[tuple, tuple] | None = None, validate: bool = True, likely: str = "float64",
    ) -> None:  # fmt: skip
        self._outputs = outputs
        self.exprs = self._outputs.exprs
        self.dtype = dtype
        self.form = form
        self.backend = backend
        self._module = Module(named(self.exprs), "f")
        self._names = [v.name for v in self._module.inputs]
        self._given = sz.read_given(sizes)
        self._hidden = [name for name in self._module.unseen if name not in self._given]
        self._needs_all = bool(self._hidden) or not self._names  # to know what runs
        self.validate = validate  # what arrays are declared to be; indices are held against their axes in any case
        self._declared = [v for v in declared(self.exprs) if validate or v.into is not None]
        self._is_typed = all(x.shape or variables(x) for x in self.exprs)  # numbers alone are those of Python
        self._calls: dict[tuple | None, _Call] = {}  # by the shapes and types of arrays
        self._last: tuple[tuple | None, Any] = ((), None)  # of these
        self._read, self._key = _reader(self._names), _key_function(len(self._names))
        self._built: dict[tuple, _Built] = {  # by type and kind of sizes
            kind: _Built(self._parts_module(parts), known, type_, library, parts, stored)
            for kind, (known, type_, library, parts, stored) in (made or {}).items()
        }
        self._building = reentrant_lock()
        for name in KEYWORDS_OF_CALL:
            if name in self._names:
                raise EindiffError(f"a variable of a compiled expression cannot be named {name}: rename it", "names")
        if self._module.size_names <= set(self._given):
            self._build(self._given, dtype or likely, backend or "numpy")

    def __call__(self, /, *, out: Any = None, sizes: Mapping[str, int] | None = None, **arrays: Any) -> Any:
        """The outputs. `out` is an array (or a list of arrays) that takes them; `sizes` are those no array shows."""
        try:
            values = self._read(arrays)
            if sizes is None and not self._needs_all:
                key, (last, call) = self._key(values), self._last
                if key != last:  # most arrays are like those of the last call
                    call = self._calls[key]
                    self._last = key, call
            else:
                call = self._find(arrays, sizes)
        except KeyError:
            call = self._bind(arrays, sizes or {})
        if self._declared:
            self._check(arrays, call.sizes)
        if call.is_converted:
            values = call.converted(arrays)
        try:
            if out is not None:
                results = call.stored(values, out, arrays)
            elif call.is_quiet:
                results = call.function(*values, **call.keywords) if call.is_placed else call.beside(arrays)
            else:
                results = call.quiet.copy().run(call.function, *values, **call.keywords)
        except np.linalg.LinAlgError as error:
            raise EindiffError(f"a matrix that is inverted or factored here cannot be: {error}", "systems") from None
        return results if call.is_finished else call.finished(results)

    def _check(self, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Hold arrays against what their variables are declared to be."""
        for variable in self._declared:
            array = known(variable.name, arrays[variable.name]) if variable.name in arrays else None
            if array is None and variable.into is not None and variable.name in arrays:
                array = stand_ins({variable.name: arrays[variable.name]})[variable.name]
            if array is not None:
                check(variable, array, sizes)

    def plan(self, sizes: Mapping[str, int] | None = None) -> Plan:
        """The program for some sizes, with what it costs; without sizes the one that was made last."""
        if sizes is None and self._built:
            built = [*self._built.values()][-1]
            return Plan(built.program(), () if built.parts else self.exprs)
        wanted = {**self._given, **sz.read_given(sizes or {})}
        if missing := sorted(self._module.size_names - set(wanted)):
            raise EindiffError(
                f"the plan depends on the sizes {', '.join(missing)}: give them, or call it once", "sizes"
            )
        built = self._build(wanted, self.dtype or "float64", self.backend or "numpy")
        return Plan(built.program(), () if built.parts else self.exprs)

    @property
    def source(self) -> str:
        """The program that was made last; before the first call, if sizes are not given, one for all sizes."""
        if not self._built:
            return self._module.source()
        return [*self._built.values()][-1].source

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name} ({shape_text(v.shape)})" for v in self._module.inputs)
        results = ", ".join(shape_text(x.shape) for x in self.exprs)
        return f"<compiled function of {inputs or 'nothing'}: {results}>"

    def _build(self, sizes: Mapping[str, int], dtype: str, library: str) -> _Built:
        """The program for sizes of the same kind as these, if all axes and places exist for them."""
        self._module.ranges.check(sizes)
        kind = (library, dtype, *(kind_of(sizes[name]) for name in sorted(self._module.size_names)))
        with self._building:  # other threads wait for the program
            if kind not in self._built:
                self._built[kind] = self._made(sizes, dtype, library)
        return self._built[kind]

    def _made(self, sizes: Mapping[str, int], dtype: str, library: str) -> _Built:
        parts = self._outputs.parts([plain(expr) for expr in self.exprs], sizes)
        module = self._parts_module(parts)
        return _Built(module, {name: sizes[name] for name in module.size_names}, dtype, library, parts)

    def _parts_module(self, parts: Parts | None) -> Module:
        return self._module if parts is None else Module(named(parts.exprs), "f")

    def __reduce__(self) -> tuple:
        """What travels: the outputs, and the source of the programs that are made already."""
        made = {kind: one.stored for kind, one in self._built.items()}
        return Compiled, (self._outputs, self.dtype, self._given, self.form, self.backend, made, self.validate)

    def _bind(self, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> _Call:
        """Check the arrays, find their sizes, and what runs for arrays like these."""
        library = self.backend or library_of(arrays.get(name) for name in self._names or arrays)
        shown = arrays if library == "numpy" else stand_ins(arrays)
        bindings = bind_sizes(read_inputs(self.exprs, shown), {**self._given, **sizes})
        bind_from_unneeded(self.exprs, shown, bindings)
        if missing := [name for name in self._hidden if name not in bindings]:
            raise EindiffError(
                f"no array shows the size {missing[0]}: give it as sizes={{'{missing[0]}': ...}}", "sizes"
            )
        found = [np.asarray(shown[name]) for name in self._names]
        dtype = np.dtype(self.dtype) if self.dtype else common_type(self._names, arrays)
        built = self._build(bindings, dtype.name, library)
        convert, exprs = self._conversion(library, dtype, arrays, found), [plain(x) for x in self.exprs]
        call = _Call(built, exprs, dtype, convert, bindings, library, self._is_typed, self._names, self._outputs)
        if not sizes and (key := self._key(self._read(arrays))) is not None:
            self._calls[(*key, *self._shown(arrays)) if self._needs_all else key] = call
        return call

    def _conversion(
        self, library: str, dtype: np.dtype, arrays: Mapping[str, Any], found: Sequence[np.ndarray]
    ) -> Callable[[str, Any], Any] | None:
        """What has to be done to arrays first, if anything."""
        given = [arrays[name] for name in self._names]
        types = {v.name: dtype if v.into is None else np.dtype(np.int64) for v in self._module.inputs}
        fits = all(x.dtype == kind for x, kind in zip(found, types.values(), strict=True))
        if library == "numpy":
            ready = fits and all(x is y for x, y in zip(found, given, strict=True))
            return None if ready else lambda name, value: np.asarray(real_array(name, value), types[name])
        if fits and all(library_of([y]) == library for y in given):
            return None
        own = {kind: converter(library, kind, arrays) for kind in set(types.values())}

        def convert(name: str, value: Any) -> Any:
            return own[types[name]](value if library_of([value]) == library else real_array(name, value))

        return convert

    def _find(self, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None) -> _Call:
        """What runs where arrays that are not needed show sizes, or sizes are given."""
        if sizes:
            return self._bind(arrays, sizes)
        key = self._key(self._read(arrays))
        return self._calls[None if key is None else (*key, *self._shown(arrays))]

    @staticmethod
    def _shown(arrays: Mapping[str, Any]) -> list[tuple]:
        return [(name, np.shape(x), getattr(x, "dtype", None), type(x)) for name, x in arrays.items()]


class _Built:
    """What is made for sizes of one kind; the program gives the parts of outputs that are computed in parts.

    It is stored as source, and planned again only if somebody asks for the plan.
    """

    def __init__(
        self, module: Module, known: Mapping[str, int], dtype: str, library: str, parts: Parts | None,
        stored: tuple[str, bool, str, dict[str, np.ndarray]] | None = None,
    ) -> None:  # fmt: skip
        self.module = module
        self.parts = parts
        self.program = once(lambda: module.program(known, dtype, exact=True, library=library, guarded=True))
        other = once(lambda: module.program(known, dtype, exact=True, library=library))
        self.source, self.is_quiet, single_threaded, tables = stored or _written(self.program())
        self.stored = known, dtype, library, parts, (self.source, self.is_quiet, single_threaded, tables)
        if stored is None and library == "numpy":
            _keep(max(memory_in_use(self.program()), default=0))
        keywords = [module.names.sizes[name] for name in module.unseen]
        function = _defined(self.source, tables)
        called = function.__code__.co_names
        self.is_opaque = any(name in REGISTRY for name in called)  # it calls what users wrote
        may_loop = self.is_opaque or not LOOPED.isdisjoint(called)
        is_guarded = "raise ArithmeticError(" in self.source
        if is_guarded:
            function = _or_else(function, once(lambda: _defined(other().source, other().tables)))
        is_short = self.source.rpartition("\ndef ")[2].count("\n") <= FEW_LINES
        run = prepared(library, function, keywords, bool(module.inputs), may_loop, is_short)
        self.function = with_one_thread(run, single_threaded)

        def storing() -> Callable[..., Any]:
            found = _defined(module.storing(self.program()), tables)
            if is_guarded:
                found = _or_else(found, once(lambda: _defined(module.storing(other()), other().tables)))
            return with_one_thread(found, single_threaded)

        self.storing = once(storing)  # with `out`, if that is given


def _or_else(guarded: Callable[..., Any], other: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A program that may refuse values, and another one for these."""

    def run(*values: Any, **keywords: Any) -> Any:
        try:
            return guarded(*values, **keywords)
        except ArithmeticError:
            return other()(*values, **keywords)

    return run


def _written(program: Program) -> tuple[str, bool, str, dict[str, np.ndarray]]:
    """What is stored of a program: its source, if it is quiet, whose BLAS has one thread, and tables that it names."""
    return program.source, program.is_quiet, program.single_threaded, program.tables


@lru_cache(maxsize=256)
def _code(part: str) -> Any:
    """A part of a module, compiled: many modules have the same helpers."""
    return compile(part, "<string>", "exec")


def _defined(source: str, tables: Mapping[str, np.ndarray]) -> Callable[..., Any]:
    """The function that some source defines."""
    namespace: dict[str, Any] = {**REGISTRY, **tables}
    for part in source.split("\n\n\n"):
        exec(_code(part), namespace)
    if "in_threads" in namespace:
        namespace["in_threads"] = in_threads  # with threads that are there, and one of BLAS for each
    return namespace["f"]


class _Call:
    """What runs for arrays of certain shapes and types."""

    def __init__(
        self, built: _Built, exprs: Sequence[Expr], dtype: np.dtype, convert: Callable[[str, Any], Any] | None,
        sizes: Mapping[str, int], library: str, is_typed: bool, names: Sequence[str], outputs: Outputs,
    ) -> None:  # fmt: skip
        def shape(sizes_of_axes: Iterable[sz.Size]) -> tuple[int, ...]:
            return tuple([sz.evaluate(size, sizes) for size in sizes_of_axes])

        module = built.module
        self.is_quiet = built.is_quiet or library != "numpy"
        self.quiet = _Ignoring() if built.is_opaque else _QUIET  # else it runs in a copy of this
        self.function = built.function
        self._storing = built.storing
        self.dtype = dtype
        self.sizes = sizes
        self.library = library
        self.is_numpy = library == "numpy"
        self.is_typed = not self.is_numpy or (dtype == np.float64 and is_typed)
        self.names = [v.name for v in module.inputs]  # some of all may be in no factor of a structured output
        self._convert = convert  # what arrays need first
        self.is_converted = convert is not None or len(self.names) < len(names)
        self.is_placed = self.is_numpy or bool(self.names)
        self.keywords = {module.names.sizes[name]: sizes[name] for name in module.unseen}
        self.shapes = [shape(x.shape) for x in exprs]
        self.is_finished = outputs.is_array and self.is_typed
        self._is_single = len(module.names.outputs) == 1
        self._are_indices = [index_range(x) is not None for x in module.exprs]
        self._buffers = list(module.names.buffers.values())
        self._has_parts = built.parts is not None
        self._assemble = outputs.assembler(built.parts, module.exprs, sizes, dtype, self.is_numpy)

    def converted(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The arrays that the program takes, as it takes them."""
        convert = self._convert
        return [arrays[name] if convert is None else convert(name, arrays[name]) for name in self.names]

    def beside(self, arrays: Mapping[str, Any]) -> Any:
        """Run what takes nothing, and goes where `arrays` are."""
        with device_of(self.library, arrays.values()):
            return self.function(**self.keywords)

    def stored(self, values: Sequence[Any], out: Any, arrays: Mapping[str, Any]) -> Any:
        """Run with the arrays that take the outputs."""
        buffers = self._buffers_of(out, arrays)
        return self.quiet.copy().run(self._storing(), *values, **self.keywords, **buffers)

    def finished(self, results: Any) -> Any:
        """The outputs from what the program gives."""
        found = [results] if self._is_single else results
        if not self.is_typed:  # some functions give float64 for float32
            found = [x if k else np.asarray(x, self.dtype)[()] for x, k in zip(found, self._are_indices, strict=True)]
        return self._assemble(found)

    def _buffers_of(self, out: Any, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays that take the outputs, as keywords. They may not be inputs."""
        if self._has_parts or not self.is_numpy:
            raise EindiffError("out is for dense results in NumPy: structured ones have arrays of their own", "options")
        given = _arrays(out)
        if len(given) != len(self.shapes):
            raise EindiffError(f"out has {len(given)} arrays for {len(self.shapes)} outputs", "options")
        for array, shape in zip(given, self.shapes, strict=True):
            if array.shape != shape or array.dtype != self.dtype:
                raise EindiffError(
                    f"out must be an array of shape {shape_text(shape)} and type {self.dtype}, "
                    f"not {shape_text(array.shape)} and {array.dtype}",
                    "options",
                )
            if not array.flags.writeable:
                raise EindiffError("out must be an array that can be written to", "options")
            for name in self.names:
                if isinstance(arrays[name], np.ndarray) and np.may_share_memory(array, arrays[name]):
                    raise EindiffError(
                        f"out must not lie in the memory of {name}, which is read while it is written", "options"
                    )
        if any(np.shares_memory(one, other) for one, other in combinations(given, 2)):
            raise EindiffError("out must be arrays that share no memory: each takes an output", "options")
        return dict(zip(self._buffers, given, strict=True))


def _reader(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """What takes the arrays with some names from all, in order."""
    if len(names) > 1:
        return itemgetter(*names)
    return (lambda arrays: (arrays[names[0]],)) if names else lambda arrays: ()


@cache
def _key_function(count: int) -> Callable[[Sequence[Any]], tuple | None]:
    """What gives so many arrays a key; those with the same one run in the same way. It is written out: a loop takes
    twice as long.
    """
    names = [f"x{k}" for k in range(count)]
    entries = "".join(f"{x}.shape, {x}.dtype, {x}.__class__, " for x in names)
    lines = [f"[{', '.join(names)}] = values", "try:", f" return ({entries})", "except AttributeError:"]
    body = "\n".join(f" {line}" for line in [*lines, " return key_of_others(values)"])
    namespace: dict[str, Any] = {"key_of_others": _key_of_others}
    exec(f"def key(values):\n{body}", namespace)
    return namespace["key"]


def _key_of_others(values: Sequence[Any]) -> tuple | None:
    """The key where some are numbers of Python; lists and others have none."""
    own = [type(x) in NUMBERS for x in values]
    if not all(is_number or hasattr(x, "dtype") for x, is_number in zip(values, own, strict=True)):
        return None
    shown = [None if is_number else (x.shape, x.dtype) for x, is_number in zip(values, own, strict=True)]
    return (*shown, *(type(x) for x in values))


def _arrays(out: Any) -> list[np.ndarray]:
    """Arrays from nested lists of them."""
    if isinstance(out, np.ndarray):
        return [out]
    if isinstance(out, list | tuple):
        return [array for part in out for array in _arrays(part)]
    raise EindiffError(f"out is an array or a list of arrays, not {out!r}", "options")
