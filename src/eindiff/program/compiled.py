"""Compiled expressions: a program for the sizes at hand, as a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.locks import reentrant_lock
from eindiff.core.nodes import Constant, Expr, plain, topological, variables
from eindiff.core.recent import Recent
from eindiff.functions.opaque import REGISTRY
from eindiff.models.newton import NewtonStep
from eindiff.program.backends import NAMES, library_of
from eindiff.program.foreign_arrays import converter, device_of, known, prepared, stand_ins
from eindiff.program.inputs import check, common_type, real_array
from eindiff.program.interpreter import as_tuples, bind_from_unneeded, bind_sizes, declared, flatten, read_inputs
from eindiff.program.plan import Plan, named
from eindiff.program.write.module import Module, Program
from eindiff.structure.patterns import Pattern, decompose, inverted
from eindiff.structure.results import Outputs
from eindiff.structure.terms import Term

FORMS = ("dense", "structured")
DTYPES = ("float32", "float64")
RESERVED = ("out", "sizes")  # keywords of a call


class Compiled:
    """A function of arrays by name, which gives the outputs. A program is made at the first call with sizes of a kind.

    Arrays for names that are not needed are ignored, except that they may show sizes that no other array shows; and if
    none is needed, because the outputs are constant, these are of the library and type of those that are given.
    Arrays of variables with declared properties are held against these at each call (see `inputs`), where they are
    numbers in main memory.
    """

    def __init__(
        self, outputs: Any, dtype: str | None, sizes: Mapping[str, int], form: str, backend: str | None
    ) -> None:
        self._outputs = Outputs(outputs, form)
        self.exprs = self._outputs.exprs
        self.dtype = dtype
        self.form = form
        self.backend = backend
        self._module = Module(named(self.exprs), "f")
        self._names = [v.name for v in self._module.inputs]
        self._given = sz.read_given(sizes)
        self._hidden = [name for name in self._module.unseen if name not in self._given]
        self._needs_all = bool(self._hidden) or not self._names  # to know what runs
        self._declared = declared(self.exprs)
        self._is_typed = all(x.shape or variables(x) for x in self.exprs)  # numbers alone are those of Python
        self._calls: dict[tuple, _Call] = {}  # by the shapes and types of arrays
        self._built: dict[tuple, _Built] = {}  # by type and kind of sizes
        self._building = reentrant_lock()
        for name in RESERVED:
            if name in self._names:
                raise EindiffError(f"a variable of a compiled expression cannot be named {name}: rename it")
        if self._module.size_names <= set(self._given):
            self._build(self._given, dtype or "float64", backend or "numpy")

    def __call__(self, /, *, out: Any = None, sizes: Mapping[str, int] | None = None, **arrays: Any) -> Any:
        """The outputs. `out` is an array (or a list of arrays) that takes them; `sizes` are those no array shows."""
        try:
            values = [arrays[name] for name in self._names]
            key = _key(values)
            call = self._calls[key] if sizes is None and not self._needs_all else self._find(key, arrays, sizes)
        except (KeyError, AttributeError):
            call = self._bind(arrays, sizes or {})
        if self._declared:
            self._check(arrays)
        if call.convert is not None:
            values = [call.convert(name, arrays[name]) for name in call.names]
        elif len(call.names) < len(values):  # some are in no factor of a structured output
            values = [arrays[name] for name in call.names]
        keywords = call.keywords if out is None else call.keywords | call.buffers(out, arrays)
        if not call.names and not call.is_numpy:
            with device_of(call.library, arrays.values()):
                results = call.function(**keywords)
        elif call.quiet:
            results = call.function(*values, **keywords)
        else:
            results = call.careful(*values, **keywords)
        if self._outputs.is_array and call.is_finished:
            return results
        return self._outputs.assemble(call.finished(results), call.dtype)

    def _check(self, arrays: Mapping[str, Any]) -> None:
        """Hold arrays against what their variables are declared to be."""
        for variable in self._declared:
            array = known(variable.name, arrays[variable.name]) if variable.name in arrays else None
            if array is not None:
                check(variable, array)

    def plan(self, sizes: Mapping[str, int] | None = None) -> Plan:
        """The program for some sizes, with what it costs; without sizes the one that was made last."""
        if sizes is None and self._built:
            built = [*self._built.values()][-1]
            return Plan(built.program, () if built.patterns else self.exprs)
        wanted = {**self._given, **sz.read_given(sizes or {})}
        if missing := sorted(self._module.size_names - set(wanted)):
            raise EindiffError(f"the plan depends on the sizes {', '.join(missing)}: give them, or call it once")
        built = self._build(wanted, self.dtype or "float64", self.backend or "numpy")
        return Plan(built.program, () if built.patterns else self.exprs)

    @property
    def source(self) -> str:
        """The program that was made last; before the first call, if sizes are not given, one for all sizes."""
        if not self._built:
            return self._module.source()
        return [*self._built.values()][-1].program.source

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name} ({shape_text(v.shape)})" for v in self._module.inputs)
        results = ", ".join(shape_text(x.shape) for x in self.exprs)
        return f"<compiled function of {inputs or 'nothing'}: {results}>"

    def _build(self, sizes: Mapping[str, int], dtype: str, library: str) -> _Built:
        """The program for sizes of the same kind as these, if all axes and places exist for them."""
        self._module.ranges.check(sizes)
        kind = (library, dtype, *(_kind(sizes[name]) for name in sorted(self._module.size_names)))
        with self._building:  # other threads wait for the program
            if kind not in self._built:
                self._built[kind] = self._made(sizes, dtype, library)
        return self._built[kind]

    def _made(self, sizes: Mapping[str, int], dtype: str, library: str) -> _Built:
        module, patterns = self._module, {}
        exprs = [plain(expr) for expr in self.exprs]
        if any(self._outputs.structured):
            flags = zip(exprs, self._outputs.structured, strict=True)
            patterns = {expr: decompose(expr, sizes) for expr, structured in flags if structured}
            factors = [factor for terms in patterns.values() for term in terms for factor, _ in term.factors]
            factors += [matrix for factor in factors if (matrix := inverted(factor)) is not None]
            factors += [expr for expr in exprs if expr not in patterns]
            module = Module(named(list(dict.fromkeys(factors)) or [construct.filled(1, ())]), "f")
        known = {name: sizes[name] for name in module.size_names}
        program = module.program(known, dtype, exact=True, library=library)
        namespace: dict[str, Any] = dict(REGISTRY)
        exec(program.source, namespace)
        function = prepared(library, namespace["f"], [module.names.sizes[name] for name in module.unseen])
        return _Built(module, program, function, patterns)

    def _bind(self, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> _Call:
        """Check the arrays, find their sizes, and what runs for arrays like these."""
        library = self.backend or library_of(arrays.get(name) for name in self._names or arrays)
        shown = arrays if library == "numpy" else stand_ins(arrays)
        bindings = bind_sizes(read_inputs(self.exprs, shown), {**self._given, **sizes})
        bind_from_unneeded(self.exprs, shown, bindings)
        if missing := [name for name in self._hidden if name not in bindings]:
            raise EindiffError(f"no array shows the size {missing[0]}: give it as sizes={{'{missing[0]}': ...}}")
        found = [np.asarray(shown[name]) for name in self._names]
        dtype = np.dtype(self.dtype) if self.dtype else common_type(self._names, arrays)
        built = self._build(bindings, dtype.name, library)
        convert, exprs = self._conversion(library, dtype, arrays, found), [plain(x) for x in self.exprs]
        call = _Call(built, exprs, dtype, convert, bindings, library, self._is_typed)
        if not sizes and all(hasattr(arrays[name], "dtype") for name in self._names):
            key = _key([arrays[name] for name in self._names])
            self._calls[(*key, *self._shown(arrays)) if self._needs_all else key] = call
        return call

    def _conversion(
        self, library: str, dtype: np.dtype, arrays: Mapping[str, Any], found: Sequence[np.ndarray]
    ) -> Callable[[str, Any], Any] | None:
        """What has to be done to arrays first, if anything."""
        given = [arrays[name] for name in self._names]
        if library == "numpy":
            ready = all(x is y and x.dtype == dtype for x, y in zip(found, given, strict=True))
            return None if ready else lambda name, value: np.asarray(real_array(name, value), dtype)
        ready = all(x.dtype == dtype and library_of([y]) == library for x, y in zip(found, given, strict=True))
        if ready:
            return None
        own = converter(library, dtype, arrays)
        return lambda name, value: own(value if library_of([value]) == library else real_array(name, value))

    def _find(self, key: tuple, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None) -> _Call:
        """What runs where arrays that are not needed show sizes, or sizes are given."""
        return self._bind(arrays, sizes) if sizes else self._calls[(*key, *self._shown(arrays))]

    @staticmethod
    def _shown(arrays: Mapping[str, Any]) -> list[tuple]:
        return [(name, np.shape(x), getattr(x, "dtype", None), type(x)) for name, x in arrays.items()]


@dataclass(frozen=True, slots=True)
class _Built:
    """What is made for sizes of one kind; for structured outputs the program gives the factors of their patterns."""

    module: Module
    program: Program
    function: Callable
    patterns: dict[Expr, list[Pattern]]


class _Call:
    """What runs for arrays of certain shapes and types."""

    def __init__(
        self, built: _Built, exprs: Sequence[Expr], dtype: np.dtype, convert: Callable[[str, Any], Any] | None,
        sizes: Mapping[str, int], library: str, is_typed: bool,
    ) -> None:  # fmt: skip
        def shape(sizes_of_axes: Iterable[sz.Size]) -> tuple[int, ...]:
            return tuple([sz.evaluate(size, sizes) for size in sizes_of_axes])

        module = built.module
        self.function = built.function
        self.dtype = dtype
        self.convert = convert  # what arrays need first
        self.library = library
        self.is_numpy = library == "numpy"
        self.is_typed = not self.is_numpy or (dtype == np.float64 and is_typed)
        self.names = [v.name for v in module.inputs]
        self.quiet = built.program.is_quiet or not self.is_numpy
        self.keywords = {module.names.sizes[name]: sizes[name] for name in module.unseen}
        self.shapes = [shape(x.shape) for x in exprs]
        self.is_finished = not built.patterns and self.is_typed
        self._outputs = list(module.names.outputs.values())
        self._buffers = list(module.names.buffers.values())
        place = {factor: k for k, factor in enumerate(module.exprs)}
        self._places = [place.get(expr, 0) for expr in exprs]
        self._terms = {
            k: [
                (
                    float(term.coefficient), [place[factor] for factor, _ in term.factors],
                    tuple([labels for _, labels in term.factors]), term.output,
                    dict(zip(term.sizes, shape(term.sizes.values()), strict=True)),
                    [None if (x := inverted(factor)) is None else place[x] for factor, _ in term.factors],
                )
                for term in built.patterns[expr]
            ]
            for k, expr in enumerate(exprs) if expr in built.patterns
        }  # fmt: skip

    def careful(self, *values: Any, **keywords: Any) -> Any:
        """Run what may meet infinite values or singular matrices."""
        try:
            with np.errstate(all="ignore"):
                return self.function(*values, **keywords)
        except np.linalg.LinAlgError as error:
            raise EindiffError(f"a matrix that is inverted or factored here cannot be: {error}") from None

    def finished(self, results: Any) -> list[Any]:
        """The outputs from what the program gives."""
        found = [results] if len(self._outputs) == 1 else results
        if not self.is_typed:  # some functions give float64 for float32
            found = [np.asarray(x, self.dtype)[()] for x in found]
        if not self._terms:
            return list(found)
        values: list[Any] = []
        for k, place in enumerate(self._places):
            values.append(found[place] if k not in self._terms else self._value(k, found))
        return values

    def _value(self, k: int, found: Sequence[Any]) -> tuple[tuple[int, ...], list[Term]]:
        """A structured output: its shape, and its terms with arrays."""
        terms = []
        for coefficient, which, labels, output, sizes, inverses in self._terms[k]:
            arrays = tuple([np.asarray(found[x]) if self.is_numpy else found[x] for x in which])
            matrices = tuple([None if x is None else found[x] for x in inverses])
            terms.append(Term(coefficient, arrays, labels, output, sizes, matrices))
        return self.shapes[k], terms

    def buffers(self, out: Any, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays that take the outputs, as keywords. They may not be inputs."""
        if self._terms or not self.is_numpy:
            raise EindiffError("out is for dense results in NumPy: structured ones have arrays of their own")
        given = _arrays(out)
        if len(given) != len(self.shapes):
            raise EindiffError(f"out has {len(given)} arrays for {len(self.shapes)} outputs")
        for array, shape in zip(given, self.shapes, strict=True):
            if array.shape != shape or array.dtype != self.dtype:
                raise EindiffError(
                    f"out must be an array of shape {shape_text(shape)} and type {self.dtype}, "
                    f"not {shape_text(array.shape)} and {array.dtype}"
                )
            for name in self.names:
                if isinstance(arrays[name], np.ndarray) and np.may_share_memory(array, arrays[name]):
                    raise EindiffError(f"out must not lie in the memory of {name}, which is read while it is written")
        return dict(zip(self._buffers, given, strict=True))


def _key(arrays: Sequence[Any]) -> tuple:
    """Arrays with the same key run in the same way."""
    return tuple([x.shape for x in arrays]), tuple([x.dtype for x in arrays]), tuple([type(x) for x in arrays])


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


def compile(
    outputs: Any, backend: str | None = None, dtype: Any = None, sizes: Mapping[str, int] | None = None,
    form: str = "dense",
) -> Compiled:  # fmt: skip
    """A fast function for an expression, or for a list of them (which share work): call it with arrays by name.

    The program is made for the sizes of the arrays of the first call, or at once if all `sizes` are given; and for
    their library (NumPy, JAX, PyTorch, TensorFlow, CuPy), unless `backend` names one. Without `dtype`, results are
    float32 if all floats in the arrays are, else float64. Results are arrays (`form="dense"`), or `structured`: a
    `Derivative` each, and one for a grid of blocks such as a Hessian by several variables. A `newton_step` is solved
    for in either form.
    Equal requests give the same function.

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
    if backend is not None and backend not in NAMES:
        raise EindiffError(f"backend {backend!r}: choose one of {', '.join(NAMES)}")
    if form not in FORMS:
        raise EindiffError(f"form {form!r}: choose one of {', '.join(FORMS)}")
    try:
        name = None if dtype is None else np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in (None, *DTYPES):
        raise EindiffError(f"dtype {name}: choose one of {', '.join(DTYPES)}")
    key = (_request(outputs), name, tuple(sorted((sizes or {}).items())), form, backend)
    found = _compiled.get(key)
    return found if found is not None else _function(key, outputs)


def structured(outputs: Any, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> Any:
    """The value of a derivative (or of several), in the structure that it has: a `Derivative`.

    >>> import numpy as np
    >>> import eindiff as ed
    >>> T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    >>> hessian = ed.hessian(ed.norm2(T - U @ V.T) ** 2, U)
    >>> ed.structured(hessian, {"U": np.ones((1000, 2)), "V": np.eye(3, 2)})
    Hessian 2000×2000 = I₁₀₀₀ ⊗ core(2×2), 32 B instead of 32 MB
    """
    return compile(outputs, form="structured")(sizes=sizes, **named_arrays(arrays))


def named_arrays(arrays: Any) -> Mapping[str, Any]:
    """Arrays by name, or an error that says so."""
    if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
        kind = type(arrays).__name__
        raise EindiffError(f"arrays are given in a dictionary, by the names of variables, not as {kind}")
    return arrays


_compiled: Recent[Compiled] = Recent()
_compiling = reentrant_lock()


def _request(output: Any) -> Any:
    """What tells outputs apart: the digests of expressions, which say what they are derivatives of."""
    if isinstance(output, Expr):
        return output.digest
    if isinstance(output, NewtonStep):
        return _request(output.gradient), _request(output.hessian), output.damping
    if isinstance(output, list | tuple):
        return tuple([_request(part) for part in output])
    return flatten(output)  # refuses anything that is no expression


def _function(key: tuple, outputs: Any) -> Compiled:
    """A function for a request. It is kept with the literal arrays in it, which its source spells out, too."""
    _, dtype, sizes, form, backend = key
    made = Compiled(as_tuples(outputs), dtype, dict(sizes), form, backend)
    literals = [x.value for x in topological(made.exprs) if isinstance(x, Constant)]
    size = 10 * sum(value.nbytes for value in literals if isinstance(value, np.ndarray))
    with _compiling:  # equal requests of several threads give the same function
        return _compiled.get(key) or _compiled.keep(key, made, size)
