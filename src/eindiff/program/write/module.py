"""A module of Python source: its imports, constants, helpers and one function, with checked arguments."""

from __future__ import annotations

import json
import keyword
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from string import punctuation

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, Variable, plain, size_names, variables
from eindiff.core.ranges import Condition, Ranges
from eindiff.core.remembered import remembering
from eindiff.core.sizes import Size
from eindiff.core.stages import stage
from eindiff.functions import series
from eindiff.functions.table import TABLE
from eindiff.planning import tuning
from eindiff.program.backends import Backend, backend
from eindiff.program.backends.backend import Spelling
from eindiff.program.backends.numpy_factors import FACTOR_HELPERS
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.backends.words import table_name
from eindiff.program.costs import Costs
from eindiff.program.lower.lowering import Lowering
from eindiff.program.lower.tidying import tidy
from eindiff.program.operations import (
    ARITHMETIC,
    BLAS,
    DIVISIONS,
    LAPACK,
    Operation,
    Operations,
    is_known_table,
    is_large_table,
    reachable,
)
from eindiff.program.write.blas_forms import turned
from eindiff.program.write.choice import Choice
from eindiff.program.write.flat_grids import with_flat_grids
from eindiff.program.write.grammar import kind_of, places_of
from eindiff.program.write.numbers import with_constants
from eindiff.program.write.rows import Rows
from eindiff.program.write.side_by_side import side_by_side
from eindiff.program.write.statements import Printer, Statement, Written, is_universal
from eindiff.program.write.tiles import Tiling

Outputs = Expr | Mapping[str, Expr]

# What programs in any library use, besides the helpers that NumPy's have.
RESERVED = ("np", "lax", "linalg", "special", "min", "jnp", "cp", "cupyx", "torch", "tf", "put", "shape", "filled",
            "maximum", "inner", "softplus", "matmul", "gathered", "diagonal", "diagonals", "solved",
            "solve_triangular", "spread", "repeated", "svd", "svdvals", "pinv", "cholesky", "tile_start", "tile_stop",
            "tile_rows", "tile_first", "tile_last", "tile_step", "in_tiles", "os", "ThreadPoolExecutor",
            "diagonal_again", "diagonal_alone", "default_backend", "device_count", "apart",
            *(name for name in TABLE if name.startswith("divided_")))  # fmt: skip


class Names:
    """Python names for variables and sizes: their own, unless Python or another one has it."""

    def __init__(
        self, inputs: Sequence[Variable], sizes: Sequence[str], outputs: Sequence[str], reserved: Sequence[str]
    ) -> None:
        self.taken = {*keyword.kwlist, *NUMPY_HELPERS, *FACTOR_HELPERS, *RESERVED, *reserved}
        self.variables = {v.name: self.claim(v.name) for v in inputs}
        self.sizes = {size: self.claim(size) for size in sizes}
        self.outputs = {output: self.claim(output) for output in outputs}
        single = len(outputs) == 1
        self.buffers = {name: self.claim("out" if single else f"out_{name}") for name in self.outputs.values()}

    def claim(self, name: str) -> str:
        """A name that is still free."""
        name = "".join([letter if _is_letter(letter) else "_" for letter in name])
        name = name if name.isidentifier() else f"_{name}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def size(self, size: Size) -> str:
        """A size as source."""
        words = ["".join(letters) for _, letters in groupby(str(size), _is_letter)]
        return "".join([self.sizes.get(word, word) for word in words]).replace(",", ", ")


def _is_letter(letter: str) -> bool:
    """Whether it may stand in a name."""
    return letter.isalnum() or letter == "_"


# Everything but names, with their dots, and the parentheses of calls.
_BETWEEN = str.maketrans({**dict.fromkeys(set(punctuation) - set("._("), " "), "(": "( "})


@lru_cache(maxsize=256)  # helpers are read again and again
def _words(text: str) -> Mapping[str, None]:
    """The names in a text, with `(` behind those that are called.

    >>> list(_words("np.exp(-x) @ norm(y, (1, 2))"))
    ['np.exp(', 'x', 'norm(', 'y', '(', '1', '2']
    """
    return dict.fromkeys(text.translate(_BETWEEN).split())


@dataclass(slots=True)
class Program:
    """Statements in order, what they cost for known sizes, and the whole as source."""

    source: str
    statements: list[Statement]
    outputs: list[Operation]
    spelling: Spelling
    costs: Costs | None = None
    request: tuple = ()  # what made it: outputs by name, sizes, and the other arguments of `Module.program`

    @property
    def tables(self) -> dict[str, np.ndarray]:
        """Large arrays of known places that the source names, and that have to be given to it."""
        if self.spelling.reading:
            return {}
        return {table_name(x): x.parameters[1].array.copy() for x in reachable(self.outputs) if is_large_table(x)}

    @property
    def operations(self) -> list[Operation]:
        """All operations that compute something, in the order in which they run."""
        return [x for x in reachable(self.outputs) if not x.cheap]

    @property
    def is_quiet(self) -> bool:
        """Whether only sums and products are taken, which warn of nothing but overflow."""
        return all(x.speed in (ARITHMETIC, BLAS) and x.op not in DIVISIONS for x in self.operations)

    @property
    def single_threaded(self) -> str:
        """Whose BLAS has one thread: "scipy" where NumPy's has more to do, or there is little for several; "numpy"
        where it has less to do than it would wait for SciPy's threads; "all" where more is done by threads of its own
        than by products outside of these, and sooner than those of BLAS, which keep their cores for a while after each,
        are gone.
        """
        if self.costs is None or self.spelling.backend.name != "numpy":
            return ""
        work, tiles, of_scipy = dict.fromkeys((BLAS, LAPACK), 0.0), 0.0, 0.0
        for x in self.operations:
            if x.speed in work:
                work[x.speed] += (seconds := self.costs.flops(x) * tuning.OPERATION[x.speed])
                of_scipy += seconds if x.op in _OF_SCIPY else 0
            elif x.op == "tiles" and x.parameters[0].threads > 1:
                tiles += self.costs.flops(x) * tuning.OPERATION[BLAS]
        total = work[BLAS] + work[LAPACK]
        if total < min(tiles, tuning.SPINNING):
            return "all"
        least, most = tuning.FEW_THREADS
        if least < work[LAPACK] < max(work[BLAS], most):
            return "scipy"
        is_switched = least < of_scipy and 0 < total - of_scipy < min(of_scipy, tuning.SWITCHED)
        return "numpy" if is_switched else ""

    @property
    def seconds(self) -> float:
        """The predicted time."""
        assert self.costs is not None
        return self.costs.total(self.outputs)


# What programs leave to SciPy.
_OF_SCIPY = ("factors", "solve_factored", "of_factors", "conjugate_inverse", "conjugate_diagonal")
TOO_LONG = 100_000  # characters of a constant that nobody reads
SHORT_NAME = 10  # characters of a number that is its own name


class Module:
    """The parts of a module for some outputs. Names in `reserved` are left to the caller."""

    def __init__(self, outputs: Outputs, name: str, reserved: Sequence[str] = ()) -> None:
        several = dict(outputs) if isinstance(outputs, Mapping) else {}
        self.named = {"result": outputs} if isinstance(outputs, Expr) else several
        if not self.named or not all(isinstance(output, Expr) for output in self.named.values()):
            raise EindiffError("the outputs are an expression, or a dictionary of names and expressions", "options")
        self.name = name
        self.exprs = [plain(output) for output in self.named.values()]
        self.inputs = variables(*self.exprs)
        needed = size_names(*self.exprs)
        shown = {size for v in self.inputs for size in v.shape if isinstance(size, str)}
        self.size_names = needed | shown
        self.unseen = sorted(needed - shown)
        self.ranges = Ranges(self.exprs)
        self.names = Names(self.inputs, sorted(self.size_names), list(self.named), [name, *reserved])

    def source(self) -> str:
        """The whole module, for reading: it works for all sizes."""
        spelling = Spelling(backend("numpy"), self.names.variables, self.names.size, reading=True)
        operations = Operations()
        return self._program(tidy(operations, Lowering(operations).run(self.exprs)), self.checks(), spelling).source

    def program(
        self, known: Mapping[str, int], dtype: str = "float64", exact: bool = False, strategy: str = "auto",
        library: str = "numpy", guarded: bool = False,
    ) -> Program:  # fmt: skip
        """The module that is fastest for the given sizes.

        It works for other sizes too, unless it is `exact`: then sizes of 1 are made use of. One that is `guarded` may
        raise an ArithmeticError: for values of which it would lose digits, and one that is not would not.
        """
        self.ranges.check(known)
        target = backend(library)
        costs = Costs(known, np.dtype(dtype).itemsize, halves=not target.functional)
        with stage("order"), remembering():
            outputs, single = list(self.named.values()), dtype == "float32"
            best = Choice(outputs, costs, target, strategy, exact, single, guarded).run()
        spelling = Spelling(target, self.names.variables, self.names.size, dtype, is_small=costs.is_small)
        with stage("compile"), remembering():
            found = best
            if not target.functional:
                places = {v.name for v in self.inputs if v.into is not None}
                found = turned(self._tiled(with_flat_grids(best, costs), spelling, costs), costs)
                found = side_by_side(found, costs, lambda x: is_universal(x, spelling.template(x)))
                found = with_constants(found, costs, places)
            made = self._program(found, self.checks(checked=False), spelling, costs)
        return replace(made, request=(self.named, dict(known), dtype, exact, strategy, library, guarded))

    def storing(self, program: Program) -> str:
        """The source of a program whose results go to arrays that are given for them, by keyword."""
        first, buffers = self.checks(checked=False), self.names.buffers
        return self._program(program.outputs, first, program.spelling, program.costs, buffers).source

    def _program(
        self, found: Sequence[Operation], first: Sequence[str], spelling: Spelling, costs: Costs | None = None,
        buffers: Mapping[str, str] | None = None,
    ) -> Program:  # fmt: skip
        """Operations as a module. Its results lie in memory of their own, or in `buffers`, if it is to run."""
        target = spelling.backend
        literals = self._literals(found, spelling)
        outputs = list(zip(self.names.outputs.values(), found, strict=True))
        taken = self.names.taken | {piece.text for piece in literals.values()}
        in_place = None if target.functional else costs
        own = (buffers or dict.fromkeys(self.names.buffers, "")) if in_place else {}
        printer = Printer(outputs, taken, spelling, in_place, own)
        printer.pieces.update(literals)
        printer.memory.places = {v.name for v in self.inputs if v.into is not None}
        statements = printer.run()
        body = [line for statement in statements for line in statement.lines]
        results = ", ".join(printer.results[name] for name, _ in outputs)
        body[:0] = first if costs is None else _needed(first, "\n".join([*body, results]))
        if body and body[-1].startswith(f"{results} = "):
            body[-1] = body[-1].replace(f"{results} =", "return", 1)
        else:
            body.append(f"return {results}")
        signature = ", ".join([*self.signature(), *(f"{buffer}=None" for buffer in (buffers or {}).values())])
        text = "\n".join([f"def {self.name}({signature}):", *(f"    {line}" for line in body)])
        return Program(self._assembled(target, text), statements, list(found), spelling, costs)

    def _tiled(self, found: Sequence[Operation], spelling: Spelling, costs: Costs) -> list[Operation]:
        """The operations with large arrays where NumPy is fast: some rows at a time."""
        if not any(costs.size(x) >= tuning.IN_PLACE_BYTES for x in reachable(found)):
            return list(found)
        return Tiling(costs, Rows(lambda x: is_universal(x, spelling.template(x)))).run(found)

    def _assembled(self, target: Backend, text: str) -> str:
        """The module around its function; places that are computed once need helpers."""
        constants = ["\n".join(self.constants)] if self.constants else []
        places = [line for line in self.constants if line.startswith("P")]
        helpers = _helpers(target, "\n".join([text, *places]))
        head = "\n".join(_imports(target, [text, *constants, *helpers]))
        parts = [head, *helpers, *constants, text] if places else [head, *constants, *helpers, text]
        return "\n\n\n".join(parts) + "\n"

    def _literals(self, outputs: Sequence[Operation], spelling: Spelling) -> dict[Operation, Written]:
        """Long literal arrays as constants of the module."""
        self.constants: list[str] = []
        names: dict[Operation, Written] = {}
        movable = not spelling.backend.functional  # others belong to the device, or the trace, they are made in
        for operation in reachable(outputs) if movable else ():
            if operation.op not in ("constant", "table"):
                continue
            is_number = operation.op == "constant" and not operation.shape
            is_made_once = not spelling.reading and operation.op == "constant"
            if len(text := spelling.template(operation)) > 40 or is_made_once or is_large_table(operation):
                name = _number_name(text) if is_number else ""
                name = name if 0 < len(name) < SHORT_NAME else f"C{len(names)}"
                while name in self.names.taken:
                    name += "_"
                names[operation] = Written(name)
                line = f"{name} = {text}"
                wrapper = textwrap.TextWrapper(100, subsequent_indent="    ", break_long_words=False)
                self.constants += wrapper.wrap(line) if len(line) < TOO_LONG else [line]
        return names | self._known_places(outputs, spelling, names) if movable else names

    def _known_places(
        self, outputs: Sequence[Operation], spelling: Spelling, names: Mapping[Operation, Written]
    ) -> dict[Operation, Written]:
        """Places that depend on no input, as constants of the module."""
        found: dict[Operation, Written] = {}
        for user in reachable(outputs):
            for x in user.operands if not is_known_table(user) else ():
                while x.cheap and x.operands:
                    x = x.operands[0]
                if is_known_table(x) and x.op not in ("number", "table") and x not in found:
                    name = f"P{len(found)}"
                    while name in self.names.taken:
                        name += "_"
                    found[x] = Written(name)
                    self.constants.append(f"{name} = {_known_text(x, spelling, names)}")
        return found

    def signature(self) -> list[str]:
        """The parameters: variables by name, and then sizes that no variable shows, by keyword."""
        sizes = [self.names.sizes[size] for size in self.unseen]
        return [*self.names.variables.values(), *(["*", *sizes] if sizes else [])]

    def checks(self, checked: bool = True) -> list[str]:
        """Statements that give sizes their values, and check the arguments: their shapes, and that places exist."""
        lines: list[str] = []
        known = set(self.unseen)
        for v in self.inputs:
            new = tuple(dict.fromkeys([size for size in v.shape if isinstance(size, str) and size not in known]))
            known.update(new)
            lines += self._sizes_of(v, new)
            if checked and (not v.ndim or new != v.shape):
                lines.append(_check(self.names.variables[v.name], [self.names.size(size) for size in v.shape]))
        if checked:
            symmetric = [self.names.variables[v.name] for v in self.inputs if v.symmetries]
            lines += [f'assert np.allclose({name}, {name}.T), "{name} must be symmetric"' for name in symmetric]
            lines += dict.fromkeys([self._in_range(condition) for condition in self.ranges.conditions])
        return lines

    def _sizes_of(self, v: Variable, new: Sequence[str]) -> list[str]:
        """Statements that give sizes the values that an array shows first."""
        name, sizes = self.names.variables[v.name], [self.names.sizes[size] for size in new]
        if not sizes or tuple(new) != v.shape[: len(new)] or (len(new) == 1 < v.ndim):
            return [f"{own} = {name}.shape[{v.shape.index(size)}]" for own, size in zip(sizes, new, strict=True)]
        part = "" if len(new) == v.ndim else f"[:{len(new)}]"
        return [f"{', '.join(sizes) if len(sizes) > 1 else f'({sizes[0]},)'} = {name}.shape{part}"]

    def _in_range(self, condition: Condition) -> str:
        """An assertion that some axes, or the places that an index names, exist."""
        more, less = map(self.names.size, sz.inequality(condition.quantity))
        empty = "".join(f"{self.names.size(size)} == 0 or " for size in condition.axes)
        return f"assert {empty}{more} >= {less}, {json.dumps(str(condition), ensure_ascii=False)}"


def _number_name(text: str) -> str:
    """A name that says which number an array is.

    >>> _number_name("np.array(-2.0)"), _number_name("np.array(0.01, dtype=np.float32)")
    ('_m2', '_0_01')
    """
    number = text.partition("(")[2].rstrip(")").partition(",")[0].removesuffix(".0")
    return "_" + "".join([letter if letter.isalnum() else {"-": "m"}.get(letter, "_") for letter in number])


def _known_text(x: Operation, spelling: Spelling, names: Mapping[Operation, Written]) -> str:
    """An operation on integers that are known, as one expression."""
    if x in names:
        return names[x].text
    template, texts = spelling.template(x), []
    for y, place in zip(x.operands, places_of(x, template), strict=True):
        text = _known_text(y, spelling, names)
        texts.append(text if y in names or kind_of(y, spelling.template(y)) in place else f"({text})")
    return template.format(*texts)


def _needed(lines: Sequence[str], text: str) -> list[str]:
    """Those lines of assignments that give something a value which stands in a text."""
    used = _words(text).keys()
    return [line for line in lines if _words(line.partition(" = ")[0]).keys() & used]


def _helpers(target: Backend, text: str) -> list[str]:
    """The helper functions that are called, by others too."""
    words = dict(_words(text))
    called: dict[str, str] = {}
    while new := {x: s for x, s in target.helpers.items() if x not in called and f"{x}(" in words}:
        called |= new
        words.update(word for source in new.values() for word in _words(source).items())
    found = [source.strip() for name, source in target.helpers.items() if name in called]
    divided = [word[len("divided_") : -1] for word in words if word.startswith("divided_") and word.endswith("(")]
    return found + [_translated(target, series.source(TABLE[name]).strip()) for name in divided]


def _translated(target: Backend, text: str) -> str:
    """A definition in NumPy's words with those of a library."""
    rows = {row.source["numpy"]: row.name for row in TABLE.values() if row.source}
    known = {"np.where(": f"{target.module}where(", "np.sqrt(": str(target.functions["sqrt"]).removesuffix("{0})")}
    for word in _words(text):
        if (name := rows.get(f"{word}{{0}})")) is not None:
            known[word] = str(target.function(name)).removesuffix("{0})")
    for word, own in known.items():
        text = text.replace(word, own)
    return text


def _imports(target: Backend, texts: Sequence[str]) -> list[str]:
    """The library itself, and what else some texts need."""
    (_, own), *others = target.imports.items()
    found = [(prefix, line, [text for text in texts if prefix in text]) for prefix, line in others]
    return [own, *(line for prefix, line, within in found if any(_starts(text, prefix) for text in within))]


def _starts(text: str, prefix: str) -> bool:
    """Whether a name in a text starts with some letters."""
    return any(word.startswith(prefix) for word in _words(text))


def _check(name: str, sizes: Sequence[str]) -> str:
    """An assertion on the shape of an argument."""
    if not sizes:
        return f'assert np.ndim({name}) == 0, f"{name} must be a number, not an array of shape {{{name}.shape}}"'
    comma = "," if len(sizes) == 1 else ""
    shown = ", ".join(size if size.isdigit() else f"{{{size}}}" for size in sizes) + comma
    message = f'f"{name} must have shape ({shown}), not {{{name}.shape}}"'
    return f"assert {name}.shape == ({', '.join(sizes)}{comma}), {message}"
